"""Sums over many rows, whose error grows with a block and the number of blocks, not with the number of rows."""

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import jit
from jit.eager.namespace import F

BOUND = 1e-6
"""Of the largest result. One by one, the error of each case is at least twice that."""

CASES: list[tuple[tuple[int, ...], Any]] = [
    ((20000, 8), 0),
    ((20011, 3), 0),
    ((150, 150, 16), (0, 1)),
    ((4, 9000, 8), 1),
    ((9000, 8, 4), (0, 2)),
    ((30, 300, 2, 8), (0, 1, 2)),
]
LAYOUTS: dict[str, Callable[[np.ndarray[Any, Any]], np.ndarray[Any, Any]]] = {
    "row-major": lambda a: a,
    "every other": lambda a: np.repeat(a, 2, -1)[..., ::2],
    "backwards": lambda a: np.ascontiguousarray(a[::-1])[::-1],
}


def numbers(shape: tuple[int, ...]) -> np.ndarray[Any, Any]:
    return (np.random.default_rng(2).normal(size=shape) + 1).astype(np.float32)


def distance(found: jit.Tensor, wanted: np.ndarray[Any, Any]) -> float:
    assert tuple(found.shape) == wanted.shape
    return float(np.abs(found.double().numpy() - wanted).max() / np.abs(wanted).max())


@pytest.mark.parametrize("layout", LAYOUTS)
@pytest.mark.parametrize(("shape", "dim"), CASES)
@pytest.mark.parametrize("keepdim", [False, True])
def test_sums_means_and_variances(shape: tuple[int, ...], dim: Any, layout: str, keepdim: bool) -> None:
    array = LAYOUTS[layout](numbers(shape))
    x, exact = jit.from_numpy(array.copy() if layout == "row-major" else array), array.astype(np.float64)
    assert distance(F.sum(x, dim, keepdim), exact.sum(dim, keepdims=keepdim)) < BOUND
    assert distance(F.mean(x, dim, keepdim), exact.mean(dim, keepdims=keepdim)) < BOUND
    assert distance(F.var(x, dim, correction=0, keepdim=keepdim), exact.var(dim, keepdims=keepdim)) < BOUND


def test_a_sum_of_all_elements_of_a_narrow_part() -> None:
    array = numbers((30000, 6))
    part = jit.from_numpy(array)[:, :2]
    assert distance(part.sum(), np.asarray(array[:, :2].sum(dtype=np.float64))) < BOUND


def test_gradients_of_what_is_added_to_each_row() -> None:
    rows = numbers((20000, 8))
    bias = jit.zeros(8, requires_grad=True)
    (jit.from_numpy(rows) * (jit.from_numpy(rows) + bias)).sum().backward()
    assert bias.grad is not None and distance(bias.grad, rows.astype(np.float64).sum(0)) < BOUND
    layer = jit.nn.Linear(1, 8)
    layer(jit.from_numpy(rows[:, :1])).backward(jit.from_numpy(rows))
    assert layer.bias.grad is not None and distance(layer.bias.grad, rows.astype(np.float64).sum(0)) < BOUND


def test_infinities_and_numbers_that_are_none_stay() -> None:
    array = numbers((3000, 4))
    array[5, 0], array[2990, 1], array[7, 2], array[8, 2] = np.inf, -np.inf, np.inf, -np.inf
    found = jit.from_numpy(array).sum(0).tolist()
    assert found[:2] == [np.inf, -np.inf] and np.isnan(found[2]) and np.isfinite(found[3])
