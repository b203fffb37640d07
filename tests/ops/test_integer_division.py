"""Division of integers: Python's own integers say what is right, for every dtype, eager, interpreted and compiled."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import jit

DTYPES = (jit.uint8, jit.int8, jit.int16, jit.int32, jit.int64)


def truncated(a: int, b: int) -> int:
    """The quotient rounded toward zero."""
    return abs(a) // abs(b) * (1 if (a < 0) == (b < 0) else -1)


RULES: dict[str, tuple[Callable[[Any, Any], Any], Callable[[int, int], int]]] = {
    "floor_divide": (jit.floor_divide, lambda a, b: a // b),
    "remainder": (jit.remainder, lambda a, b: a % b),
    "fmod": (jit.fmod, lambda a, b: a - truncated(a, b) * b),
    "floor": (lambda a, b: jit.div(a, b, rounding_mode="floor"), lambda a, b: a // b),
    "trunc": (lambda a, b: jit.div(a, b, rounding_mode="trunc"), truncated),
    "//": (lambda a, b: a // b, lambda a, b: a // b),
    "%": (lambda a, b: a % b, lambda a, b: a % b),
}
WAYS: dict[str, Callable[[Any], Any]] = {
    "eager": lambda function: function,
    "interpreted": lambda function: jit.trace(function, optimize=False),
    "compiled": jit.trace,
}


def extremes(dtype: jit.DType) -> list[int]:
    """Numbers at both ends of a dtype and around zero."""
    info = jit.iinfo(dtype)
    return sorted({n for n in (info.min, info.min + 1, -7, -1, 0, 1, 2, 7, info.max - 1, info.max) if n >= info.min})


@pytest.mark.parametrize("dtype", DTYPES, ids=lambda dtype: dtype.name)
@pytest.mark.parametrize("rule", RULES)
@pytest.mark.parametrize("way", WAYS)
def test_all_pairs(way: str, rule: str, dtype: jit.DType) -> None:
    """The least integer by -1 wraps around, like every other result that does not fit."""
    function, exact = RULES[rule]
    pairs = [(a, b) for a in extremes(dtype) for b in extremes(dtype) if b]
    a, b = (jit.tensor(list(column), dtype=dtype) for column in zip(*pairs, strict=True))
    expected = np.array([exact(*pair) for pair in pairs], object) & ((1 << 8 * dtype.itemsize) - 1)
    called = WAYS[way](function)
    for _ in range(2):
        result = called(a, b)
        assert result.dtype is dtype
        assert np.array_equal(result.numpy(), expected.astype(np.uint64).astype(dtype.numpy))


@pytest.mark.parametrize("dtype", DTYPES, ids=lambda dtype: dtype.name)
@pytest.mark.parametrize("rule", RULES)
@pytest.mark.parametrize("way", WAYS)
def test_by_zero(way: str, rule: str, dtype: jit.DType) -> None:
    """An error that Python's own programs catch; the process lives on."""
    a, b = jit.tensor([5, 6, 7], dtype=dtype), jit.tensor([1, 0, 2], dtype=dtype)
    called = WAYS[way](RULES[rule][0])
    for _ in range(2):
        with pytest.raises(ZeroDivisionError, match="an integer was divided by zero"):
            called(a, b)


@pytest.mark.parametrize("way", WAYS)
def test_true_division_is_of_floats(way: str) -> None:
    called = WAYS[way](lambda a, b: a / b)
    for _ in range(2):
        result = called(jit.tensor([1, -1, 0]), jit.tensor([0, 0, 0]))
        assert result.dtype is jit.float32
        assert result.tolist()[:2] == [float("inf"), float("-inf")]
        assert result[2].isnan()


@pytest.mark.parametrize("dtype", DTYPES[1:], ids=lambda dtype: dtype.name)
def test_of_the_least_integer(dtype: jit.DType) -> None:
    """Its negative does not fit; it is itself again."""
    least = jit.tensor([jit.iinfo(dtype).min], dtype=dtype)
    for result in (-least, least.abs(), least // -1, least * -1, jit.gcd(least, least)):
        assert jit.equal(result, least)
    assert (least % -1).tolist() == [0]
    assert jit.gcd(least, jit.full_like(least, 6)).tolist() == [2]
