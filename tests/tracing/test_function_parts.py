"""The parts of a traced function: parameters, explanation, sizes and cache, each without the others where it can be."""

from __future__ import annotations

import inspect
import warnings
from typing import Any

import numpy as np
import pytest

import jit
from jit.eager.tensors import Tensor
from jit.tracing.cache import KEYS, RecordingCache
from jit.tracing.explanation import Explanation
from jit.tracing.parameters import FunctionParameters
from jit.tracing.sizes import SizeFamilies
from jit.tracing.surroundings.calls import CallError, Entry, marks_of
from jit.tracing.surroundings.properties import INFERENCE, kind_of
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


@pytest.mark.parametrize(
    "function",
    [
        lambda: None,
        lambda a: None,
        lambda a, b: None,
        lambda a, b=2, c=3: None,
        lambda a=1, b=2: None,
        lambda a, /, b, c=3: None,
        lambda a, *rest: None,
        lambda *rest: None,
        lambda a, *, b=2: None,
        lambda a, **more: None,
        lambda a, b=inspect.Parameter.empty: None,
    ],
)
def test_arguments_are_bound_as_python_binds_them(function: Any) -> None:
    made, signature = parameters(function), inspect.signature(function)
    for args in ((), (1,), (1, 2), (1, 2, 3), (1, 2, 3, 4)):
        for kwargs in ({}, {"b": 5}):
            try:
                bound = signature.bind(*args, **kwargs)
            except TypeError:
                with pytest.raises(CallError):
                    made.bind("f", args, kwargs)
                continue
            bound.apply_defaults()
            names, values = made.bind("f", args, kwargs)
            assert (names, values) == (list(bound.arguments), list(bound.arguments.values()))
            values.append(None)  # they are the caller's
            assert made.bind("f", args, kwargs)[1] == values[:-1]


def test_the_kind_of_a_tensor_is_what_its_methods_say() -> None:
    whole = jit.arange(24.0).reshape(2, 3, 4)
    leaf, view = jit.ones(2, 3).requires_grad_(), jit.ones(2, 3)
    late = view[0]
    view.requires_grad_()
    with jit.inference_mode():
        inferred = jit.ones(3)
    frozen = np.ones(3, np.float32)
    frozen.flags.writeable = False
    with warnings.catch_warnings(action="ignore"):
        tensors = [jit.from_numpy(frozen), inferred]
    tensors += [whole, whole[:, 1], whole[:, 1:2], whole.transpose(0, 2), whole[:0]]
    tensors += [whole[..., ::2], whole.expand(5, 2, 3, 4), jit.ones(1, 3).t(), jit.ones(3, 1)[:, :1], jit.tensor(2.0)]
    tensors += [
        jit.ones(3, dtype=jit.int64),
        leaf,
        leaf * 2,
        leaf[0],
        late,
        leaf.detach(),
        jit.nn.Parameter(jit.ones(2)),
    ]
    for tensor in tensors:
        dtype, sizes, layout, asks, is_leaf, writeable, kind = kind_of(tensor)
        strides = None if tensor.is_contiguous() else tensor.stride()
        assert (dtype, sizes, layout) == (tensor.detach().numpy().dtype, tuple(tensor.shape), strides)
        assert (asks, is_leaf, writeable) == (tensor.requires_grad, tensor.is_leaf, tensor is not tensors[0])
        base = Tensor if type(tensor) is jit.autograd.Variable else type(tensor)
        assert kind == ((INFERENCE, base) if tensor is inferred else base)


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
