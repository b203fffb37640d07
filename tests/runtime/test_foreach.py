"""Native calls that compute a formula for many sets of arrays in place."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import pytest

from jit.ir import Graph, TensorType
from jit.ir.dtypes import from_numpy
from jit.ir.errors import CompileError
from jit.passes.support.builder import GraphBuilder
from jit.runtime.plans.foreach import Foreach
from jit.runtime.plans.places import Layout

SHAPES = [(3, 4), (), (0, 2), (5,), (300, 700), (1,)]


def swapped(layouts: Sequence[Layout]) -> Graph:
    """a, b, c, n -> a * n + b, b - c: what a was is not needed for b, but what b was is needed for a."""
    graph = Graph()
    F = GraphBuilder(graph)
    types = [TensorType(from_numpy(layout.dtype), layout.shape) for layout in layouts]
    a, b, c, n = (F.wrap(graph.add_input(type)) for type in types)
    graph.set_return([(a * n + b).value, (b - c).value])
    return graph


def sets() -> list[list[Any]]:
    rng = np.random.default_rng(0)
    return [[np.array(rng.standard_normal(shape), np.float32) for _ in range(3)] for shape in SHAPES]


def flat(given: Sequence[Sequence[Any]], number: Any) -> list[Any]:
    return [*(array for arrays in given for array in arrays), number]


def test_results_lie_where_operands_lay() -> None:
    given, number = sets(), np.array(0.3, np.float32)
    expected = [(a * number + b, b - c, c) for a, b, c in given]
    assert Foreach(swapped, given, [number])(flat(given, number))
    for arrays, wanted in zip(given, expected):
        for array, each in zip(arrays, wanted):
            assert array.tobytes() == each.tobytes()


def test_numbers_are_read_in_each_call() -> None:
    given, number = sets(), np.array(0.0, np.float32)
    call = Foreach(swapped, given, [number])
    for value in (2.0, 3.0):
        number[()] = value
        expected = given[0][0] * np.float32(value) + given[0][1]
        assert call(flat(given, number)) and given[0][0].tobytes() == expected.tobytes()


@pytest.mark.parametrize("index", [0, 1, 2, 13])
@pytest.mark.parametrize("change", ["dtype", "shape", "strides", "read-only", "shared", "missing"])
def test_other_arrays_are_left_as_they_are(index: int, change: str) -> None:
    given, number = sets(), np.array(0.3, np.float32)
    call = Foreach(swapped, given, [number])
    arrays = flat(given, number)
    array = arrays[index]
    if change == "read-only":
        arrays[index] = array.copy()
        arrays[index].flags.writeable = False
    else:
        arrays[index] = {
            "dtype": array.astype(np.float64), "shape": np.zeros((2, 3, 4), np.float32),
            "strides": np.zeros((*array.shape, 2), np.float32)[..., 0],
            "shared": arrays[index // 3 * 3 + (index + 1) % 3],
            "missing": None,
        }[change]  # fmt: skip
    before = [None if each is None else each.tobytes() for each in arrays]
    assert not call(arrays)
    assert before == [None if each is None else each.tobytes() for each in arrays]


def test_arrays_of_different_sets_may_share_memory() -> None:
    given, number = sets()[:1], np.array(0.5, np.float32)
    (a, b, c), twice = given[0], given * 2
    expected, left = a * number + b, b - c
    expected, left = expected * number + left, left - c
    assert Foreach(swapped, twice, [number])(flat(twice, number))
    assert a.tobytes() == expected.tobytes() and b.tobytes() == left.tobytes()


def late(layouts: Sequence[Layout]) -> Graph:
    """a, b, c, n -> a + n, the sum of what a was: in place, that would be the sum of what a has become."""
    graph = Graph()
    F = GraphBuilder(graph)
    a, b, _, n = (F.wrap(graph.add_input(TensorType(from_numpy(each.dtype), each.shape))) for each in layouts)
    graph.set_return([(a + n).value, (b * F.sum(a)).value])
    return graph


def test_what_cannot_be_in_place_is_refused() -> None:
    with pytest.raises(CompileError, match="in place"):
        Foreach(late, sets()[:1], [np.array(0.3, np.float32)])
