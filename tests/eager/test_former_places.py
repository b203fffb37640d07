"""Pickles name modules; those that were written before files moved are read all the same."""

import base64
import pickle

import pytest

import jit

BEFORE = {
    "tensor": (
        "gASV0AAAAAAAAACMC2ppdC50ZW5zb3JzlIwIX3JlYnVpbGSUk5RoAIwGVGVuc29ylJOUjBZudW1weS5fY29yZS5tdWx0aWFycmF5"
        "lIwMX3JlY29uc3RydWN0lJOUjAVudW1weZSMB25kYXJyYXmUk5RLAIWUQwFilIeUUpQoSwFLAksDhpRoCIwFZHR5cGWUk5SMAmY0"
        "lImIh5RSlChLA4wBPJROTk5K/////0r/////SwB0lGKJQxgAAIA/AACAPwAAgD8AAIA/AACAPwAAgD+UdJRiiYeUUpQu"
    ),
    "size": ("gASVIgAAAAAAAACMC2ppdC50ZW5zb3JzlIwEU2l6ZZSTlEsCSwOGlIWUgZQu"),
    "finfo": (
        "gASVqQAAAAAAAACMCmppdC5saW1pdHOUjAVmaW5mb5STlCmBlH2UKIwFZHR5cGWUjAdmbG9hdDMylIwEYml0c5RLIIwDbWlulEfH"
        "7///4AAAAIwDbWF4lEdH7///4AAAAIwDZXBzlEc+gAAAAAAAAIwKcmVzb2x1dGlvbpRHPrDG96AAAACMBHRpbnmURzgQAAAAAAAA"
        "jA9zbWFsbGVzdF9ub3JtYWyURzgQAAAAAAAAdWIu"
    ),
    "layer": (
        "gASVcAIAAAAAAACMDWppdC5ubi5saW5lYXKUjAZMaW5lYXKUk5QpgZR9lCiMCHRyYWluaW5nlIiMC19wYXJhbWV0ZXJzlH2UKIwG"
        "d2VpZ2h0lIwLaml0LnRlbnNvcnOUjAhfcmVidWlsZJSTlIwQaml0Lm5uLnBhcmFtZXRlcpSMCVBhcmFtZXRlcpSTlIwWbnVtcHku"
        "X2NvcmUubXVsdGlhcnJheZSMDF9yZWNvbnN0cnVjdJSTlIwFbnVtcHmUjAduZGFycmF5lJOUSwCFlEMBYpSHlFKUKEsBSwFLAoaU"
        "aBKMBWR0eXBllJOUjAJmNJSJiIeUUpQoSwOMATyUTk5OSv////9K/////0sAdJRiiUMIAACAPwAAgD+UdJRiiIeUUpSMBGJpYXOU"
        "aAtoDmgRaBRLAIWUaBaHlFKUKEsBSwGFlGgeiUMEAAAAAJR0lGKIh5RSlHWMCF9idWZmZXJzlH2UjAhfbW9kdWxlc5R9lIwJX2Nv"
        "bXB1dGVklH2UjBJfdHJhbnNpZW50X2J1ZmZlcnOUj5SMEl9mb3J3YXJkX3ByZV9ob29rc5SMCWppdC5ob29rc5SMCUhvb2tUYWJs"
        "ZZSTlCmBlIwOX2ZvcndhcmRfaG9va3OUaDkpgZSME19iYWNrd2FyZF9wcmVfaG9va3OUaDkpgZSMD19iYWNrd2FyZF9ob29rc5Ro"
        "OSmBlIwMX3N0YXRlX2hvb2tzlH2UKIwEc2F2ZZRoOSmBlIwFc2F2ZWSUaDkpgZSMBGxvYWSUaDkpgZSMBmxvYWRlZJRoOSmBlHWM"
        "C2luX2ZlYXR1cmVzlEsCjAxvdXRfZmVhdHVyZXOUSwF1Yi4="
    ),
}
"""Pickles of `jit.ones(2, 3)`, a Size, a finfo and `jit.nn.Linear(2, 1)` with weights of ones and a bias of zero."""


@pytest.mark.parametrize("name", BEFORE)
def test_what_was_pickled_is_read(name):
    found = pickle.loads(base64.b64decode(BEFORE[name]))
    expected = {"tensor": jit.Tensor, "size": jit.Size, "finfo": jit.finfo, "layer": jit.nn.Linear}[name]
    assert type(found) is expected


def test_values_are_those_of_before():
    found = {name: pickle.loads(base64.b64decode(text)) for name, text in BEFORE.items()}
    assert found["tensor"].tolist() == [[1, 1, 1], [1, 1, 1]]
    assert found["size"] == (2, 3) and found["finfo"].bits == 32
    assert found["layer"](jit.ones(3, 2)).tolist() == [[2], [2], [2]]


def test_what_is_pickled_now_names_where_things_stand():
    assert b"jit.eager.tensors" in pickle.dumps(jit.ones(2))
