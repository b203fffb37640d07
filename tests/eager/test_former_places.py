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
SCHEDULE = (
    "gASVvAQAAAAAAACMHWppdC5vcHRpbS5scl9zY2hlZHVsZXIuY3ljbGVzlIwKT25lQ3ljbGVMUpSTlCmBlH2UKIwPYW5uZWFsX3N0cmF0ZWd5"
    "lIwDY29zlIwLdG90YWxfc3RlcHOUSwSMB19waGFzZXOUXZQoaACMBl9QaGFzZZSTlEc/yZmZmZmZmIwKaW5pdGlhbF9scpSMBm1heF9scpSG"
    "lIwMbWF4X21vbWVudHVtlIwNYmFzZV9tb21lbnR1bZSGlIeUgZRoC0sDaA2MBm1pbl9scpSGlGgQaA+GlIeUgZRljAxtb21lbnR1bV9rZXmU"
    "jAhtb21lbnR1bZSMCW9wdGltaXplcpSMDWppdC5vcHRpbS5zZ2SUjANTR0SUk5QpgZR9lCiMCGRlZmF1bHRzlH2UKIwCbHKURz/gAAAAAAAA"
    "aBpHP+zMzMzMzM2MCWRhbXBlbmluZ5RHAAAAAAAAAACMDHdlaWdodF9kZWNheZRHAAAAAAAAAACMCG5lc3Rlcm92lImMCG1heGltaXpllIl1"
    "jAVzdGF0ZZSMC2NvbGxlY3Rpb25zlIwLZGVmYXVsdGRpY3SUk5SMCGJ1aWx0aW5zlIwEZGljdJSTlIWUUpSMEWppdC5lYWdlci50ZW5zb3Jz"
    "lIwIX3JlYnVpbGSUk5SMEGppdC5ubi5wYXJhbWV0ZXKUjAlQYXJhbWV0ZXKUk5SMFm51bXB5Ll9jb3JlLm11bHRpYXJyYXmUjAxfcmVjb25z"
    "dHJ1Y3SUk5SMBW51bXB5lIwHbmRhcnJheZSTlEsAhZRDAWKUh5RSlChLAUsBhZRoOowFZHR5cGWUk5SMAmY0lImIh5RSlChLA4wBPJROTk5K"
    "/////0r/////SwB0lGKJQwRI4Xo/lHSUYoiHlFKUfZSMD21vbWVudHVtX2J1ZmZlcpRoM2gxjAZUZW5zb3KUk5RoOWg8SwCFlGg+h5RSlChL"
    "AUsBhZRoRolDBAAAgD+UdJRiiYeUUpRzc4wMcGFyYW1fZ3JvdXBzlF2UfZQoaCNHP9n50gWMTLloGkc/681rJ99nT2gkRwAAAAAAAAAAaCVH"
    "AAAAAAAAAABoJoloJ4mMBnBhcmFtc5RdlGhMYWgMRz+UeuFHrhR7aA1HP+AAAAAAAABoFEc+wMb3oLXtjWgQRz/rMzMzMzMzaA9HP+5mZmZm"
    "ZmZ1YYwIX3N0ZXBwZWSUjA9qaXQuZWFnZXIuaG9va3OUjAVFdmVudJSTlCmBlH2UjAhoYXBwZW5lZJSIc2KMCl9wcmVfaG9va3OUaF+MCUhv"
    "b2tUYWJsZZSTlCmBlIwLX3Bvc3RfaG9va3OUaGcpgZSMDF9zdGF0ZV9ob29rc5R9lCiMBHNhdmWUaGcpgZSMBXNhdmVklGhnKYGUjARsb2Fk"
    "lGhnKYGUjAZsb2FkZWSUaGcpgZR1dWKMEl9zdGVwX29mX29wdGltaXplcpROjApsYXN0X2Vwb2NolEsBjAhiYXNlX2xyc5RdlEc/lHrhR64U"
    "e2GMCF9sYXN0X2xylF2URz/Z+dIFjEy5YYwLX3N0ZXBfY291bnSUSwKMC19pc19pbml0aWFslImMGl9nZXRfbHJfY2FsbGVkX3dpdGhpbl9z"
    "dGVwlIl1Yi4="
)
"""A pickle of a OneCycleLR of 4 steps, the first of which is taken, for an SGD with a momentum of 0.9."""


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


def test_an_optimizer_and_its_schedule_go_on_where_they_were():
    schedule = pickle.loads(base64.b64decode(SCHEDULE))
    assert type(schedule) is jit.optim.lr_scheduler.OneCycleLR and type(schedule.optimizer) is jit.optim.SGD
    again = jit.optim.lr_scheduler.OneCycleLR(jit.optim.SGD([jit.nn.Parameter(jit.ones(1))], 0.5, 0.9), 0.5, 4)
    again.load_state_dict(schedule.state_dict())
    (parameter,) = schedule.optimizer.param_groups[0]["params"]
    parameter.grad = jit.ones(1)
    before = parameter.item()
    for each in (schedule, again):
        each.optimizer.step()
        each.step()
    assert again.get_last_lr() == schedule.get_last_lr() and parameter.item() < before


def test_what_is_pickled_now_names_where_things_stand():
    assert b"jit.eager.tensors" in pickle.dumps(jit.ones(2))
