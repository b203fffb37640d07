"""Products of a few rows by columns that lie together: against float64, in any parts, beside forbidden pages."""

import ctypes
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from jit.ir import dtypes, parse
from jit.runtime.llvm.product_tiles import lanes_of
from jit.runtime.plans.plan import PlannedEngine
from jit.runtime.products import few_rows, packed
from jit.runtime.products.few_rows import FewRowsProduct
from jit.runtime.products.packed import PackedProduct
from jit.runtime.targets.target import Target
from tests.runtime.guarded import guarded

pytestmark = [
    pytest.mark.llvm,
    pytest.mark.skipif(not Target.host().has_convolutions, reason="no such vectors on this machine"),
]

SIGNATURE = ctypes.CFUNCTYPE(ctypes.c_int32, ctypes.c_void_p, ctypes.c_void_p)
# rows, outputs, the length of the sum, and elements that lie between rows
CASES = [
    (32, 64, 64, 0), (16, 70, 80, 0), (17, 65, 67, 3), (4, 71, 64, 0), (1, 8, 1, 2), (7, 9, 5, 0), (33, 100, 129, 1),
    (40, 64, 300, 0), (63, 77, 65, 5), (64, 8, 31, 0),
]  # fmt: skip
cases = pytest.mark.parametrize("case", CASES, ids=str)
dtypes_of_products = pytest.mark.parametrize("dtype", [dtypes.float32, dtypes.float64], ids=str)


def drawn(case, dtype, between=True):
    """x and w, whose rows need not follow each other."""
    rows, outputs, inner, gap = case
    rng = np.random.default_rng(rows)
    x, w = (rng.standard_normal((n, inner + gap * between)).astype(dtype.numpy)[:, :inner] for n in (rows, outputs))
    return x, w


def work_of(x, w, dtype):
    return FewRowsProduct(dtype, (len(x), len(w), x.shape[1]), *(a.strides[0] // a.itemsize for a in (x, w)))


def run(work, *arrays, order=None):
    scratch = np.full(work.scratch_bytes + 64, 0xFF, np.uint8)  # NaN
    start = -scratch.ctypes.data % 64
    data = np.array([*(a.ctypes.data for a in arrays), scratch.ctypes.data + start], np.int64)
    for first, last in order or [(0, None)]:
        geometry = np.array(work.geometry(first, last), np.int64)
        assert SIGNATURE(work.function())(data.ctypes.data, geometry.ctypes.data) == 0


@cases
@dtypes_of_products
@pytest.mark.parametrize("at_end", [True, False])
def test_against_wider_numbers(case, dtype, at_end):
    x, w = (guarded(a, at_end) for a in drawn(case, dtype))
    y = guarded(np.full((len(x), len(w)), np.nan, dtype.numpy), at_end)
    run(work_of(x, w, dtype), x, w, y)
    exact, magnitude = (a.astype(np.longdouble) @ b.astype(np.longdouble).T for a, b in ((x, w), (abs(x), abs(w))))
    assert (abs(y - exact) <= np.finfo(y.dtype).eps * (x.shape[1] + 2) * magnitude).all()


@cases
@dtypes_of_products
def test_parts_change_no_bit_and_packed_products_have_the_same(case, dtype):
    x, w = drawn(case, dtype, between=False)
    whole, by_parts = (np.full((len(x), len(w)), np.nan, dtype.numpy) for _ in range(2))
    work = work_of(x, w, dtype)
    run(work, x, w, whole)
    run(work, x, w, by_parts, order=[(i, i + 1) for i in reversed(range(work.panels))])
    np.testing.assert_array_equal(whole, by_parts)
    other = PackedProduct(dtype, work.sizes, (x.shape[1], 1), (1, x.shape[1]))
    if packed.supports(other):
        of_packed = np.full_like(whole, np.nan)
        run(other, x, w, of_packed)
        np.testing.assert_array_equal(whole, of_packed)


def test_nothing_is_multiplied_by_what_is_not_there():
    x, w = drawn((17, 64, 67, 0), dtypes.float32)
    w[...], x[...] = np.inf, 1.0
    y = np.full((17, 64), np.nan, np.float32)
    run(work_of(x, w, dtypes.float32), x, w, y)
    assert (y == np.inf).all()


def works_of(rows, outputs, inner, turned=True, dtype="Float"):
    """The kinds of work of a linear layer's plan, whose results are right."""
    w = f"{outputs}, {inner}" if turned else f"{inner}, {outputs}"
    seen = f"%1 : {dtype}({inner}, {outputs}, strides=[1, {inner}]) = aten::transpose.int[dim0=0, dim1=1](%w)"
    text = f"""graph(%x : {dtype}({rows}, {inner}), %w : {dtype}({w})) {{
        {seen if turned else ""}
        %0 : {dtype}({rows}, {outputs}) = aten::mm(%x, {"%1" if turned else "%w"}) return (%0) }}"""
    planned: Any = PlannedEngine(parse(text))
    numpy: Any = np.float32 if dtype == "Float" else np.float64
    rng = np.random.default_rng(1)
    shape = (outputs, inner) if turned else (inner, outputs)
    x = rng.standard_normal((rows, inner)).astype(numpy)
    right = rng.standard_normal(shape).astype(numpy)
    found = planned.run(0, [x, right])[0][0]
    wide = [a.astype(np.longdouble) for a in (x, right.T if turned else right)]
    assert (abs(found - wide[0] @ wide[1]) <= np.finfo(numpy).eps * (inner + 2) * (abs(wide[0]) @ abs(wide[1]))).all()
    whole = planned.native_call(0)
    assert whole is not None
    return [type(step.work) for step in whole.code.lowering.steps]


@pytest.mark.parametrize("dtype", ["Float", "Double"])
def test_linear_layers_of_a_few_rows_are_such_products(dtype):
    if lanes_of(dtypes.float32) < 16:
        pytest.skip("with vectors of 64 bytes alone is this chosen")
    lanes = lanes_of(dtypes.float32 if dtype == "Float" else dtypes.float64)
    for rows in (16, 31, 32):
        assert works_of(rows, 128, 4 * lanes + 5, dtype=dtype) == [FewRowsProduct]
        assert works_of(rows, 128, 64, dtype=dtype) == [FewRowsProduct]
    for rows, outputs in ((65, 128), (8, 128), (32, 10)):
        assert FewRowsProduct not in works_of(rows, outputs, 64, dtype=dtype)
    assert FewRowsProduct not in works_of(32, 128, 64, turned=False, dtype=dtype)


def test_rows_that_leave_lanes_empty_are_packed_if_they_can_be():
    assert works_of(9, 128, 64) == [PackedProduct]


def test_what_has_no_code():
    assert few_rows.supports(dtypes.float32, (32, 128, 128))
    assert not few_rows.supports(dtypes.float16, (32, 128, 128))
    assert not few_rows.supports(dtypes.float32, (0, 128, 128))
    assert not few_rows.supports(dtypes.float32, (32, 128, 0))


def test_results_do_not_depend_on_the_number_of_threads(monkeypatch):
    text = """graph(%x : Float(32, 515), %w : Float(603, 515)) {
        %0 : Float(515, 603, strides=[1, 515]) = aten::transpose.int[dim0=0, dim1=1](%w)
        %1 : Float(32, 603) = aten::mm(%x, %0) return (%1) }"""
    rng = np.random.default_rng(2)
    arrays = [rng.standard_normal(s).astype(np.float32) for s in ((32, 515), (603, 515))]
    results = []
    for threads in ("1", "2", "5"):
        monkeypatch.setenv("JIT_NUM_THREADS", threads)
        results.append(PlannedEngine(parse(text)).run(0, arrays)[0][0])
    for other in results[1:]:
        np.testing.assert_array_equal(results[0], other)


SHORTER = """
from jit.ir import dtypes
from jit.runtime.targets.target import Target

host = Target.host()
kept = {"avx", "avx2", "fma", "f16c", "sse", "sse2", "sse3", "ssse3", "sse4.1", "sse4.2", "popcnt", "mmx", "fxsr"}
lower = Target(host.triple, "haswell", tuple(f for f in host.features if f in kept))
Target.host = staticmethod(lambda: lower)
assert (lower.vector_bytes, lower.vector_registers) == (32, 16)
from tests.runtime import test_few_rows

for case in test_few_rows.CASES:
    for dtype in (dtypes.float32, dtypes.float64):
        test_few_rows.test_against_wider_numbers(case, dtype, True)
        test_few_rows.test_parts_change_no_bit_and_packed_products_have_the_same(case, dtype)
print("fine")
"""


def test_shorter_vectors():
    """Code for machines without AVX-512, on this one."""
    here = Path(__file__).parents[2]
    environment = {**os.environ, "JIT_CACHE": "off", "PYTHONPATH": str(here)}
    done = subprocess.run([sys.executable, "-c", SHORTER], capture_output=True, text=True, env=environment, cwd=here)
    assert done.stdout == "fine\n", done.stderr
