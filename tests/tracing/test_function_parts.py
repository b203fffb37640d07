"""The parts of a traced function: parameters, explanation, sizes and cache, each without the others where it can be."""

from __future__ import annotations

from typing import Any

import pytest

import jit
from jit.tracing.cache import KEYS, RecordingCache
from jit.tracing.explanation import Explanation
from jit.tracing.parameters import FunctionParameters
from jit.tracing.sizes import SizeFamilies
from jit.tracing.surroundings.calls import CallError, Entry, marks_of
from jit.tracing.surroundings.surroundings import Surroundings


def parameters(function: Any) -> FunctionParameters:
    return FunctionParameters(lambda: function, marks_of(function))


def test_arguments_become_names_and_values_and_back() -> None:
    made = parameters(lambda a, b=2, *, c=3: None)
    names, values = made.bind("f", (1,), {"c": 5})
    assert (names, values) == (["a", "b", "c"], [1, 2, 5])
    assert made.arguments(names, values) == ((1, 2), {"c": 5})
    with pytest.raises(CallError, match="f: missing a required argument: 'a'"):
        made.bind("f", (), {})


def test_defaults_that_are_set_anew_are_seen() -> None:
    def function(a: int = 1) -> None: ...

    made = parameters(function)
    assert made.bind("f", (), {})[1] == [1]
    function.__defaults__ = (7,)
    assert made.bind("f", (), {})[1] == [7]


def test_without_a_signature_arguments_are_counted() -> None:
    made = FunctionParameters.fixed(None)
    assert made.bind("f", (1, 2), {"c": 3}) == (["input_0", "input_1", "c"], [1, 2, 3])
    assert made.arguments(["input_0"], [4]) == ([4], {}) and not made.named


def test_an_explanation_says_the_last_thing_and_what_follows_from_it() -> None:
    explanation = Explanation()
    assert str(explanation) == "it has not been called yet"
    explanation.first_call()
    assert str(explanation) == "it was recorded because this was its first call"
    explanation.also("from now on one recording serves all sizes")
    assert str(explanation).endswith("its first call; from now on one recording serves all sizes")
    explanation.anew("x is 3, not 2")
    assert (str(explanation), explanation.reason) == ("it was recorded anew because x is 3, not 2", "x is 3, not 2")
    explanation.not_kept("opens a file")
    assert str(explanation) == "it was not kept, because the call opens a file, which a recording cannot repeat"


def test_one_recording_serves_sizes_that_agree_and_the_explanation_says_so() -> None:
    f = jit.trace(lambda x: x * 2)
    f(jit.ones(2))
    sizes, key = f._cache.sizes, f._prepare([jit.ones(7)], {}).key
    assert sizes.entry(key) is None
    f(jit.ones(3))
    found = sizes.entry(key)
    assert found is not None and found.recordings[0].general
    assert "one recording serves all sizes of 2 and more of x.shape[0]" in f.explain()
    assert SizeFamilies(None).entry(key) is None


def test_sizes_that_come_often_get_a_recording_of_their_own() -> None:
    f = jit.trace(lambda x: x * 2)
    f(jit.ones(2)), f(jit.ones(3))
    key = f._prepare([jit.ones(7)], {}).key
    found = [f._cache.sizes.entry(key) is not None for _ in range(40)]
    assert found == [True] * 32 + [False] * 8


def test_a_cache_has_room_for_so_many_keys() -> None:
    f = jit.trace(lambda x: x * 2)
    key, explained = f._prepare([jit.ones(2)], {}).key, []
    cache = RecordingCache(Surroundings(lambda x: x), SizeFamilies(None))
    keys = [key._replace(sharing=(number,)) for number in range(KEYS + 1)]
    made = [cache.entry(each, lambda: explained.append(1)) for each in keys]
    assert made[-1] is None and all(type(entry) is Entry for entry in made[:-1])
    assert cache.is_full and len(explained) == KEYS
    assert cache.entry(keys[0], lambda: explained.append(1)) is made[0] and len(explained) == KEYS
    cache.clear()
    assert cache.get(keys[0]) is None
