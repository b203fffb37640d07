"""Products with a vector: whatever lies how, they are what numpy says in float64."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import jit
from jit.runtime.plans.by_ctypes import ByCtypes
from jit.runtime.products import by_lines, matvec

LAYOUTS: dict[str, Callable[[Any], Any]] = {
    "plain": lambda x: x.copy(),
    "transposed": lambda x: np.ascontiguousarray(np.moveaxis(x, -1, -2)).swapaxes(-1, -2),
    "within": lambda x: np.pad(x, [(0, 0)] * (x.ndim - 1) + [(2, 3)])[..., 2 : 2 + x.shape[-1]],
    "every other": lambda x: np.repeat(x, 2, -1)[..., ::2],
    "reversed": lambda x: x[..., ::-1].copy()[..., ::-1],
}
SHAPES = [((1, 7), (7, 5)), ((2, 7), (7, 9)), ((3, 4), (4, 8)), ((6, 7), (7, 1)), ((1, 7), (7, 1)), ((1, 1), (1, 5)),
          ((4, 1, 7), (4, 7, 5)), ((4, 6, 7), (4, 7, 1)), ((4, 2, 7), (4, 7, 3))]  # fmt: skip


def normal(*shape: int, dtype: str = "float32") -> Any:
    return np.random.default_rng(len(shape) + sum(shape)).standard_normal(shape).astype(dtype)


@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize("right", LAYOUTS)
@pytest.mark.parametrize("left", LAYOUTS)
@pytest.mark.parametrize("shapes", SHAPES, ids=str)
def test_products_with_vectors(shapes: Any, left: str, right: str, dtype: str) -> None:
    a, b = LAYOUTS[left](normal(*shapes[0], dtype=dtype)), LAYOUTS[right](normal(*shapes[1], dtype=dtype))
    traced = jit.trace(lambda a, b: (a @ b) * 2)
    given = jit.from_numpy(a), jit.from_numpy(b)
    wanted = a.astype(np.float64) @ b.astype(np.float64) * 2
    for _ in range(3):
        assert np.allclose(traced(*given).numpy(), wanted, rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize(("alpha", "beta"), [(1, 1), (0.5, 0), (2, -1), (0, 3)])
@pytest.mark.parametrize("shapes", [s for s in SHAPES if len(s[0]) == 2], ids=str)
def test_what_is_added(shapes: Any, alpha: float, beta: float) -> None:
    a, b = normal(*shapes[0]), normal(*shapes[1])
    c = normal(shapes[0][0], shapes[1][1])
    traced = jit.trace(lambda c, a, b: jit.addmm(c, a, b, alpha=alpha, beta=beta))
    for _ in range(2):
        found = traced(*map(jit.from_numpy, (c, a, b))).numpy()
        assert np.allclose(found, beta * c + alpha * (a.astype(np.float64) @ b), rtol=1e-5, atol=1e-5)


def steps_of(function: Callable[..., Any], *arguments: Any) -> list[Any]:
    traced = jit.trace(function)
    traced(*arguments)
    traced(*arguments)
    recording = traced._last
    native = recording.plan(recording.chains[0]).interpreter.local_plan.native_call(0)
    return [native, [step.work for step in native.code.lowering.steps]]


@pytest.mark.parametrize(("rows", "columns"), [(1, 5), (3, 5), (6, 1), (9, 1)])
def test_no_matrix_is_copied(rows: int, columns: int) -> None:
    _, works = steps_of(lambda a, b: a @ b, jit.randn(rows, 7), jit.randn(columns, 7).t())
    assert [type(work) for work in works] == [matvec.MatrixVector]


def test_many_rows_are_no_vectors() -> None:
    _, works = steps_of(lambda a, b: a @ b, jit.randn(by_lines.most_rows() + 1, 7), jit.randn(7, 5))
    assert not any(isinstance(work, matvec.MatrixVector | by_lines.ProductByLines) for work in works)


@pytest.mark.parametrize(("rows", "columns"), [(1, 5), (3, 5), (6, 1)])
def test_what_was_in_the_memory_of_the_result_does_not_matter(rows: int, columns: int, monkeypatch: Any) -> None:
    """NaN times a beta of 0 would be NaN, if it was read."""
    a, b = normal(rows, 7), normal(7, columns)
    native, _ = steps_of(lambda a, b: a @ b, jit.from_numpy(a), jit.from_numpy(b))
    monkeypatch.setattr("jit.runtime.arrays.blocks.empty", lambda shape, dtype: np.full(shape, np.nan, dtype))
    (found,) = ByCtypes(native.code, native.code.failed)(a, b) or ()
    assert np.allclose(found, a @ b, atol=1e-5)
