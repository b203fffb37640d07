"""Sums of rows by indices in plans, and what is made of them: index_add, scatter_add, index_put."""

from __future__ import annotations

import ctypes
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import jit
from jit.eager.namespace import F
from jit.ir import parse
from jit.ir.dtypes import from_numpy
from jit.ir.errors import DimError
from jit.runtime.arrays.interpreter import Interpreter
from jit.runtime.plans import pool
from jit.runtime.plans.plan import PlannedEngine
from jit.runtime.products.row_sums import RowSums
from tests.runtime.guarded import guarded

pytestmark = pytest.mark.llvm

SIGNATURE = ctypes.CFUNCTYPE(ctypes.c_int32, ctypes.c_void_p, ctypes.c_void_p)
SHAPES = [(5, 64, 32), (7, 100, 5), (3, 1, 1), (40, 9, 77), (1, 6, 16), (4, 0, 3)]
"""Rows of the result, rows that are added, and their width."""
EPSILON = {"float32": 2.0**-23, "float64": 2.0**-52, "float16": 2.0**-10, "bfloat16": 2.0**-7}


def rows_of(places: int, count: int, width: int, dtype: Any) -> tuple[Any, Any]:
    random = np.random.default_rng(places)
    return random.standard_normal((count, width)).astype(dtype), random.integers(0, places, count)


def text_of(places: int, count: int, width: int, kind: str, padding: int = -1) -> str:
    return f"""graph(%g : {kind}({count}, {width}), %i : Long({count})) {{
      %0 : {kind}({places}, {width}) = aten::embedding_dense_backward[num_weights={places}, padding_idx={padding}, \
scale_grad_by_freq=False](%g, %i)
      return (%0) }}"""


def in_order(rows: Any, indices: Any, places: int) -> Any:
    sums = np.zeros((places, rows.shape[1]), rows.dtype)
    for index, row in zip(indices, rows, strict=True):
        sums[index] += row
    return sums


@pytest.mark.parametrize("shape", SHAPES, ids=str)
@pytest.mark.parametrize("kind", ["Float", "Double"])
def test_plans_add_in_order(shape: tuple[int, int, int], kind: str) -> None:
    rows, indices = rows_of(*shape, {"Float": np.float32, "Double": np.float64}[kind])
    planned = PlannedEngine(parse(text_of(*shape, kind)))
    (found,) = planned.run(0, [rows, indices])[0]
    np.testing.assert_array_equal(found, in_order(rows, indices, shape[0]))
    whole = planned.native_call(0)
    assert whole is not None
    assert [type(step.work) for step in whole.code.lowering.steps] == [RowSums]


def test_padding_is_left_out() -> None:
    rows, indices = rows_of(5, 64, 33, np.float32)
    text = text_of(5, 64, 33, "Float", 2)
    found, expected = (engine(parse(text)).run(0, [rows, indices])[0][0] for engine in (PlannedEngine, Interpreter))
    assert not found[2].any() and (indices == 2).any()
    np.testing.assert_allclose(found, expected, rtol=1e-5)


@pytest.mark.parametrize("at_end", [True, False])
@pytest.mark.parametrize("shape", SHAPES[:5], ids=str)
def test_nothing_beside_the_buffers_is_touched(shape: tuple[int, int, int], at_end: bool) -> None:
    places, count, width = shape
    rows, indices = rows_of(*shape, np.float32)
    work = RowSums(from_numpy(np.dtype(np.float32)), count, width, places, -1)
    arrays = [guarded(a, at_end) for a in (rows, indices, np.full((places, width), np.nan, np.float32))]
    data = np.array([a.ctypes.data for a in arrays], np.int64)
    for place in reversed(range(work.panels)):
        geometry = np.array(work.geometry(place, place + 1), np.int64)
        assert SIGNATURE(work.function())(data.ctypes.data, geometry.ctypes.data) == 0
    np.testing.assert_array_equal(arrays[2], in_order(rows, indices, places))


def test_results_do_not_depend_on_the_number_of_threads(monkeypatch: pytest.MonkeyPatch) -> None:
    rows, indices = rows_of(3000, 9000, 64, np.float32)
    results = []
    for threads in ("1", "3"):
        monkeypatch.setenv("JIT_NUM_THREADS", threads)
        planned = PlannedEngine(parse(text_of(3000, 9000, 64, "Float")))
        results.append(planned.run(0, [rows, indices])[0][0])
        whole = planned.native_call(0)
        assert whole is not None
        assert whole.code.program[3] % pool.WAKES == int(threads)
    np.testing.assert_array_equal(*results)


# -- what is made of them ----------------------------------------------------------------------------------------

Case = tuple[Callable[..., Any], tuple[int, ...], tuple[tuple[int, ...], ...], tuple[int, ...]]
CASES: dict[str, Case] = {
    "index_add": (lambda x, s, i: F.index_add(x, 0, i, s, alpha=3), (9, 17), ((20,),), (20, 17)),
    "index_add of columns": (lambda x, s, i: F.index_add(x, -1, i, s), (17, 9), ((20,),), (17, 20)),
    "scatter_add": (lambda x, s, i: F.scatter_add(x, 0, i, s), (9, 17), ((20, 11),), (21, 17)),
    "scatter_add along the last dim": (lambda x, s, i: F.scatter_add(x, 2, i, s), (4, 3, 9), ((4, 3, 20),), (4, 3, 20)),
    "scatter_add of a vector": (lambda x, s, i: F.scatter_add(x, 0, i, s), (9,), ((20,),), (20,)),
    "scatter_add of rows": (
        lambda x, s, i: F.scatter_add(x, 0, i.unsqueeze(1).expand(20, 17), s), (9, 17), ((20,),), (20, 17)
    ),
    "index_put": (lambda x, s, i: F.index_put(x, [i - 9], s, True), (9, 17), ((4, 5),), (17,)),
    "index_put of two dims": (
        lambda x, s, i, j: F.index_put(x, [i, j - 3], s, True), (9, 9, 5), ((20,), (3, 1)), (3, 20, 5)
    ),
    "index_put behind a dim": (lambda x, s, i: F.index_put(x, [None, i], s, True), (4, 9, 3), ((20,),), (4, 20, 3)),
}  # fmt: skip
"""Functions of a tensor, a source and indices below 9; their sizes."""


@pytest.mark.parametrize("dtype", EPSILON)
@pytest.mark.parametrize("name", CASES, ids=[name.replace(" ", "_") for name in CASES])
def test_other_sums(name: str, dtype: str) -> None:
    """Plans agree with the interpreter up to the order of sums, and are one native call."""
    function, sizes, index_sizes, source_sizes = CASES[name]
    random = np.random.default_rng(0)
    x, source = (jit.from_numpy(random.standard_normal(s)).to(getattr(jit, dtype)) for s in (sizes, source_sizes))
    indices = [jit.from_numpy(random.integers(0, 9, s)) for s in index_sizes]
    traced = jit.trace(function)
    for _ in range(3):
        found = traced(x, source, *indices)
    expected = function(x, source, *indices)
    assert found.dtype is expected.dtype
    error = np.abs((found.double() - expected.double()).numpy())
    size = function(x.double().abs(), source.double().abs(), *indices).numpy()
    assert (error <= 4 * EPSILON[dtype] * size).all()
    text = str(traced.graphs[-1].graph)
    assert "embedding_dense_backward" in text
    assert not any(f"aten::{kind}" in text for kind in ("index_add", "scatter_add", "index_put"))


@pytest.mark.parametrize("index", [9, -10, 2**40])
@pytest.mark.parametrize("name", CASES, ids=[name.replace(" ", "_") for name in CASES])
def test_indices_out_of_range_are_refused(name: str, index: int) -> None:
    function, sizes, index_sizes, source_sizes = CASES[name]
    x, source = jit.zeros(sizes), jit.ones(source_sizes)
    indices = [jit.zeros(s, dtype=jit.int64) for s in index_sizes]
    traced = jit.trace(function)
    for _ in range(3):
        traced(x, source, *indices)
    wrong = indices[0].clone()
    wrong.view(-1)[-1] = index + (9 if name == "index_put" and index > 0 else 0)
    with pytest.raises(DimError):
        traced(x, source, wrong, *indices[1:])


def test_sizes_may_vary() -> None:
    """One recording adds up any number of rows, none included, and its backward follows."""

    def step(table: jit.Tensor, i: jit.Tensor, w: jit.Tensor) -> tuple[jit.Tensor, ...]:
        y = (jit.nn.functional.embedding(i, table) * w).sin().sum()
        (first,) = jit.grad(y, table, create_graph=True)
        (second,) = jit.grad((first * first).sum(), table)
        return y, first, second

    traced, table = jit.trace(step), jit.randn(6, 5, dtype=jit.float64, requires_grad=True)
    for count in (3, 4, 4, 7, 1, 30, 0, 2):
        i, w = jit.randint(0, 6, (count,)), jit.randn(count, 5, dtype=jit.float64)
        for found, expected in zip(traced(table, i, w), step(table, i, w), strict=True):
            np.testing.assert_allclose(found.detach().numpy(), expected.detach().numpy(), rtol=1e-12, atol=1e-14)
