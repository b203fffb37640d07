"""What a function reads besides its arguments: the names in its code, and random generators around it."""

import ast
import dataclasses
import dis
import gc
import importlib
import itertools
import operator
import types
import weakref
from collections.abc import Iterator
from typing import Any, cast

import numpy as np
import pytest

import jit
from jit.tracing.surroundings.footprints import _GLOBAL, _IMPORT, names_in_code


@pytest.mark.parametrize("module", [ast, dataclasses, dis, importlib, types], ids=lambda module: module.__name__)
def test_names_in_code_are_those_that_dis_finds(module: types.ModuleType) -> None:
    with open(module.__file__ or "") as file:
        top = compile(file.read(), module.__name__, "exec")
    for code in _codes(top):
        for opcodes in (_GLOBAL, _IMPORT):
            expected = [i.argval for i in dis.get_instructions(code) if i.opcode in opcodes]
            assert list(names_in_code(code, opcodes)) == expected


def test_names_behind_many_others_are_found() -> None:
    text = "\n".join(f"name{i}; import module{i}" for i in range(300))
    code = compile(text, "many", "exec")
    assert list(names_in_code(code, _GLOBAL)) == [f"name{i}" for i in range(300)]
    assert list(names_in_code(code, _IMPORT)) == [f"module{i}" for i in range(300)]


def _codes(code: types.CodeType) -> Iterator[types.CodeType]:
    yield code
    for inner in code.co_consts:
        if isinstance(inner, types.CodeType):
            yield from _codes(inner)


@pytest.mark.parametrize("kind", ["PCG64", "MT19937", "Philox", "SFC64"])
def test_a_generator_in_reach_that_has_been_drawn_from_is_another_key(kind: str) -> None:
    rng = np.random.Generator(getattr(np.random, kind)(7))
    f = jit.trace(lambda x: x + (rng is not None))
    f(jit.ones(2)), f(jit.ones(2))
    assert f.misses == 1
    rng.random()
    f(jit.ones(2))
    assert f.misses == 2


def test_a_draw_from_numpy_is_noticed_whatever_numpy_prints() -> None:
    f = jit.trace(lambda x: x * float(np.random.rand(312)[0]), strict=True)  # 624 words: the position is the old one
    np.random.rand(312)
    with np.printoptions(threshold=4), pytest.raises(jit.TraceError, match="draws from the random numbers"):
        f(jit.ones(2))


# -- a view that has grown is the one that later calls make -------------------------------------------------------


SETTINGS: dict[str, Any] = {"scale": 2.0, "deep": {"bias": [1.0, 2.0]}, "which": "plain"}


class Chooser(jit.nn.Module):
    """Reads other things on each of its ways."""

    def __init__(self) -> None:
        super().__init__()
        self.first, self.second = jit.nn.Linear(3, 3), jit.nn.Linear(3, 3)
        self.names = types.SimpleNamespace(far=jit.ones(3), near=jit.zeros(3))
        self.pick = operator.attrgetter("names.far")

    def plain(self, x: jit.Tensor) -> jit.Tensor:
        return self.first(x) * SETTINGS["scale"]

    def picked(self, x: jit.Tensor) -> jit.Tensor:
        return self.second(x) + self.pick(self)

    def deep(self, x: jit.Tensor) -> jit.Tensor:
        return x * SETTINGS["deep"]["bias"][0] + cast(jit.Tensor, getattr(self.names, "ne" + "ar"))

    def forward(self, x: jit.Tensor) -> jit.Tensor:
        return cast(jit.Tensor, getattr(self, SETTINGS["which"])(x))


@pytest.mark.parametrize("order", list(itertools.permutations(["plain", "picked", "deep"])), ids="-".join)
def test_what_a_recording_saw_is_what_later_calls_see(order: tuple[str, ...]) -> None:
    """Whatever the order in which further code runs: with the old values in place, the old recordings run."""
    net, x = Chooser(), jit.ones(2, 3)
    f = jit.trace(net)
    try:
        for way in order * 2:
            SETTINGS["which"] = way
            assert f(x).tolist() == net.forward(x).tolist()
        misses = f.misses
        for way in order * 2:
            SETTINGS["which"] = way
            assert f(x).tolist() == net.forward(x).tolist()
        assert f.misses == misses  # every way is there
        view = f._surroundings.look()
        assert f._surroundings.view().fingerprint == view.fingerprint
    finally:
        SETTINGS["which"] = "plain"


def test_the_first_recording_is_found_again_after_a_change_that_was_taken_back() -> None:
    net, x = Chooser(), jit.ones(2, 3)
    f = jit.trace(net)
    f(x)
    grown = f._surroundings.look()
    assert f._surroundings.view().fingerprint == grown.fingerprint
    assert [id(t) for t in f._surroundings.view().tensors] == [id(t) for t in grown.tensors]
    SETTINGS["scale"] = 3.0
    f(x)
    SETTINGS["scale"] = 2.0
    assert f(x).tolist() == net.forward(x).tolist()
    assert f.misses == 2


# -- one tensor in an argument and around the function -----------------------------------------------------------


class Holder:
    tensor: Any


def _sum(around: Any) -> Any:
    return lambda x, held: x * around + held.tensor * 3


def _write_to_argument(around: Any) -> Any:
    return lambda x, held: (held.tensor.add_(1), x * around)[1]


def _write_around(around: Any) -> Any:
    return lambda x, held: (around.add_(1), x * held.tensor)[1]


def _compare(around: Any) -> Any:
    return lambda x, held: x * (1.0 if held.tensor is around else 2.0)


def _results(order: str, make: Any, wrap: Any) -> list[Any]:
    """The results of calls with a holder of one of two tensors, of which the function itself reads the first."""
    tensors = {"a": jit.ones(2), "b": jit.ones(2)}
    f, holder, found = wrap(make(tensors["a"])), Holder(), []
    for name in order:
        tensors["a"].fill_(1), tensors["b"].fill_(5)
        holder.tensor = tensors[name]
        found.append([t.tolist() for t in (f(jit.ones(2), holder), *tensors.values())])
    return found


@pytest.mark.parametrize("order", ["aba", "bab", "aabb"])
@pytest.mark.parametrize("make", [_sum, _write_to_argument, _write_around, _compare])
def test_a_tensor_that_an_argument_holds_may_be_around_the_function_too(make: Any, order: str) -> None:
    traced: Any = None

    def wrap(function: Any) -> Any:
        nonlocal traced
        traced = jit.trace(function)
        return traced

    assert _results(order, make, wrap) == _results(order, make, lambda f: f)
    assert "both in an argument and around" in traced.explain() and traced.hits >= 1


def test_what_a_proxy_stands_for_is_not_kept_alive() -> None:
    thing = Chooser()
    reference, stand_in = weakref.ref(thing), weakref.proxy(thing)
    thing.scale = 2.0
    f = jit.trace(lambda x: x * stand_in.scale)
    assert f(jit.ones(1)).item() == f(jit.ones(1)).item() == f(jit.ones(1)).item() == 2.0 and f.hits == 2
    thing.scale = 3.0
    assert f(jit.ones(1)).item() == 3.0
    del thing
    gc.collect()
    assert reference() is None
    with pytest.raises(ReferenceError):
        f(jit.ones(1))


# -- one object in several places --------------------------------------------------------------------------------


class Label:
    pass


FAST, SLOW = Label(), Label()
RATES = {FAST: 2.0, SLOW: 3.0}


@pytest.mark.parametrize("order", ["fsfs", "sfsf", "ffss"])
def test_objects_that_are_alike_are_told_apart(order: str) -> None:
    labels, holder = {"f": FAST, "s": SLOW}, Holder()
    around = jit.trace(lambda x: x * RATES[holder.tensor])
    given = jit.trace(lambda x, held: x * RATES[held.tensor])
    listed = jit.trace(lambda x, held: x * (2.0 if held[0].tensor is FAST else 3.0))
    for name in order:
        holder.tensor = labels[name]
        found = [around(jit.ones(1)), given(jit.ones(1), holder), listed(jit.ones(1), [holder])]
        assert [t.item() for t in found] == [RATES[holder.tensor]] * 3
    assert (given.misses, given.hits) == (2, 2) and (around.misses, around.hits) == (2, 2)
