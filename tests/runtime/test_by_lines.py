"""Products of few rows by a matrix, line by line: every layout and rest; parts, rows and lines change no bit."""

from __future__ import annotations

import ctypes
from typing import Any

import numpy as np
import pytest

import jit
from jit.ir import dtypes
from jit.runtime.products import by_lines
from jit.runtime.products.by_lines import ProductByLines
from tests.runtime.test_matvec import steps_of

pytestmark = pytest.mark.llvm

SIGNATURE = ctypes.CFUNCTYPE(ctypes.c_int32, ctypes.c_void_p, ctypes.c_void_p)
SIZES = [(1, 16), (4, 16), (5, 17), (13, 200), (64, 130), (7, 333), (2050, 24)]


def run(product: ProductByLines, x: Any, matrix: Any, y: Any, first: int = 0, last: int | None = None) -> None:
    data = np.array([a.ctypes.data for a in (x, matrix, y)], np.int64)
    geometry = np.array(product.geometry(first, last), np.int64)
    assert SIGNATURE(product.function())(data.ctypes.data, geometry.ctypes.data) == 0


@pytest.mark.parametrize("gap", [0, 5])
@pytest.mark.parametrize("rows", range(1, by_lines.most_rows() + 1))
@pytest.mark.parametrize("along", [True, False])
@pytest.mark.parametrize("dtype", [dtypes.float32, dtypes.float64])
@pytest.mark.parametrize("sizes", SIZES, ids=str)
def test_products(sizes: tuple[int, int], dtype: Any, along: bool, rows: int, gap: int) -> None:
    rng, (lines, elements) = np.random.default_rng(0), sizes
    inner, columns = (elements, lines) if along else (lines, elements)
    matrix = rng.standard_normal((lines, elements + gap)).astype(dtype.numpy)
    x = rng.standard_normal((rows, inner)).astype(dtype.numpy)
    result = np.full((rows, columns), np.nan, dtype.numpy)
    product = ProductByLines(dtype, sizes, elements + gap, along, 1, True, rows, (inner, columns))
    assert by_lines.supports(product)
    run(product, x, matrix, result)
    read = (matrix[:, :elements].T if along else matrix[:, :elements]).astype(np.longdouble)
    bound = np.finfo(dtype.numpy).eps * (inner + 2) * (abs(x).astype(np.longdouble) @ abs(read))
    assert (abs(result - x.astype(np.longdouble) @ read) <= bound).all()
    for step in (1, columns // 2 + 1):
        by_parts = np.full_like(result, np.nan)
        for first in reversed(range(0, columns, step)):
            run(product, x, matrix, by_parts, first, min(first + step, columns))
        np.testing.assert_array_equal(by_parts, result)
    for row in range(rows):
        alone = np.full((1, columns), np.nan, dtype.numpy)
        run(ProductByLines(dtype, sizes, elements + gap, along, 1, True), x[row:], matrix, alone)
        np.testing.assert_array_equal(alone[0], result[row])


@pytest.mark.parametrize("rows", [1, 2, 3])
@pytest.mark.parametrize("spelling", ["linear", "turned", "plain", "column"])
def test_spellings(spelling: str, rows: int) -> None:
    x, w = jit.randn(rows, 40), jit.randn(72, 40)
    functions = {
        "linear": lambda: (jit.nn.functional.linear, x, w),
        "turned": lambda: (lambda a, b: a @ b.t(), x, w),
        "plain": lambda: (lambda a, b: a @ b, x, w.t().contiguous()),
        "column": lambda: (lambda a, b: b @ a, x[0], w),
    }
    function, *arguments = functions[spelling]()
    _, works = steps_of(function, *arguments)
    assert [type(work) for work in works] == [ProductByLines]
    traced, wanted = jit.trace(function), x.numpy() @ w.numpy().T
    for _ in range(3):
        found = traced(*arguments).numpy()
        np.testing.assert_allclose(found, wanted[0] if spelling == "column" else wanted, rtol=1e-4, atol=1e-4)


@pytest.mark.parametrize("right", ["linear", "plain"])
def test_rows_and_sizes_that_vary(right: str) -> None:
    traced = jit.trace(lambda x, w: (x @ (w.t() if right == "linear" else w)) * 1)
    for rows, inner, columns in [(2, 30, 40), (3, 50, 70), (1, 64, 33), (3, 20, 100), (2, 300, 21), (5, 30, 40)]:
        x, w = jit.randn(rows, inner), jit.randn(*((columns, inner) if right == "linear" else (inner, columns)))
        wanted = x.numpy().astype(np.float64) @ (w.numpy().T if right == "linear" else w.numpy())
        np.testing.assert_allclose(traced(x, w).numpy(), wanted, rtol=1e-4, atol=1e-4)


@pytest.mark.parametrize("turned", [False, True])
def test_a_batch(turned: bool) -> None:
    x, m = jit.randn(6, 1, 40), jit.randn(6, 40, 24)
    given = m.transpose(1, 2).contiguous().transpose(1, 2) if turned else m
    _, works = steps_of(lambda a, b: a @ b, x, given)
    assert [type(work) for work in works] == [ProductByLines]
    traced = jit.trace(lambda a, b: a @ b)
    for _ in range(3):
        np.testing.assert_allclose(traced(x, given).numpy(), x.numpy() @ m.numpy(), rtol=1e-4, atol=1e-4)


@pytest.mark.parametrize("rows", [4, by_lines.most_rows()])
def test_a_matrix_that_several_products_share_is_packed_instead(rows: int) -> None:
    if not by_lines.SINGLE_ROWS < rows <= by_lines.most_rows():
        pytest.skip("this machine has too few registers")

    def chained(x: Any, w: Any) -> Any:
        return (x @ w.t()).tanh() @ w.t()

    def single(x: Any, w: Any) -> Any:
        return x @ w.t()

    x, w = jit.randn(rows, 32), jit.randn(32, 32)
    kinds = [[type(work) for work in steps_of(function, x, w)[1]] for function in (chained, single)]
    assert (ProductByLines in kinds[0], kinds[1]) == (False, [ProductByLines])
