"""Products of packed operands: every layout, rest of rows and panels; parts and packing beforehand change no bit."""

import ctypes
from dataclasses import replace

import numpy as np
import pytest

import jit
from jit.ir import dtypes, parse
from jit.runtime.arrays.interpreter import Interpreter
from jit.runtime.plans import pool
from jit.runtime.plans.plan import PlannedEngine
from jit.runtime.products import packed
from jit.runtime.products.transposing import Transposing

pytestmark = pytest.mark.llvm

SIGNATURE = ctypes.CFUNCTYPE(ctypes.c_int32, ctypes.c_void_p, ctypes.c_void_p)
LANES = 16
SIZES = [(4, 16, 4), (8, 32, 16), (13, 48, 32), (33, 80, 48), (7, 64, 17), (35, 48, 200), (64, 16, 100), (16, 1024, 64),
         (5, 32, 128)]  # fmt: skip


def run(product, *arrays, first=0, last=None):
    scratch = np.zeros(product.scratch_bytes + 64, np.uint8)
    data = np.array([a.ctypes.data for a in (*arrays, scratch)], np.int64)
    geometry = np.array(product.geometry(first, last), np.int64)
    assert SIGNATURE(product.function())(data.ctypes.data, geometry.ctypes.data) == 0


def operands(sizes, dtype, turned):
    rows, columns, inner = sizes
    rng = np.random.default_rng(0)
    a, b = (rng.standard_normal(s).astype(dtype.numpy) for s in ((rows, inner), (inner, columns)))
    a, b = (np.asfortranarray(x) if turn else x for x, turn in zip((a, b), turned))
    strides = [(x.strides[0] // x.itemsize, x.strides[1] // x.itemsize) for x in (a, b)]
    return a, b, packed.PackedProduct(dtype, sizes, strides[0], strides[1])


@pytest.mark.parametrize("turned", [(False, False), (False, True), (True, False), (True, True)])
@pytest.mark.parametrize("dtype", [dtypes.float32, dtypes.float64])
@pytest.mark.parametrize("sizes", SIZES)
def test_products(sizes, dtype, turned):
    a, b, product = operands(sizes, dtype, turned)
    if not packed.supports(product):
        lanes = packed.panel_columns(dtype) // 2
        assert sizes[1] % lanes or (turned[1] and sizes[2] < lanes) or (turned[0] and sizes[2] > 128)
        return
    result = np.full(sizes[:2], np.nan, dtype.numpy)
    run(product, a, b, result)
    exact = a.astype(np.longdouble) @ b.astype(np.longdouble)
    bound = np.finfo(dtype.numpy).eps * sizes[2] * (abs(a).astype(np.longdouble) @ abs(b).astype(np.longdouble))
    assert (abs(result - exact) <= bound).all()
    by_parts = np.full_like(result, np.nan)
    for panel in reversed(range(product.panels)):
        run(product, a, b, by_parts, first=panel, last=panel + 1)
    np.testing.assert_array_equal(by_parts, result)
    panels = np.full(product.panels * packed.panel_columns(dtype) * sizes[2], np.nan, dtype.numpy)
    run(replace(product, multiplies=False), b, panels)
    beforehand = np.full_like(result, np.nan)
    run(replace(product, packed=True), a, panels, beforehand)
    np.testing.assert_array_equal(beforehand, result)


@pytest.mark.parametrize("turned", ["", "a", "b", "shared b"])
def test_batches(turned):
    rng = np.random.default_rng(4)
    a, b = (rng.standard_normal(s).astype(np.float32) for s in ((5, 133, 32), (5, 32, 80)))
    left = "aten::transpose.int[dim0=1, dim1=2](%a)" if turned == "a" else "aten::clone(%a)"
    right = {"b": "aten::transpose.int[dim0=1, dim1=2](%b)", "shared b": "aten::expand[size=[5, 32, 80]](%b)"}
    if turned == "a":
        a = np.ascontiguousarray(a.transpose(0, 2, 1))
    if turned == "b":
        b = np.ascontiguousarray(b.transpose(0, 2, 1))
    if turned == "shared b":
        b = b[:1].copy()
    kinds = [f"Float({', '.join(map(str, x.shape))})" for x in (a, b)]
    strides = {"b": ", strides=[2560, 1, 32]", "shared b": ", strides=[0, 80, 1]"}.get(turned, "")
    text = f"""graph(%a : {kinds[0]}, %b : {kinds[1]}) {{
      %0 : Float(5, 133, 32{", strides=[4256, 1, 133]" if turned == "a" else ""}) = {left}
      %1 : Float(5, 32, 80{strides}) = {right.get(turned, "aten::clone(%b)")}
      %2 : Float(5, 133, 80) = aten::bmm(%0, %1)
      return (%2) }}"""
    planned = PlannedEngine(parse(text))
    found, expected = planned.run(0, [a, b])[0][0], Interpreter(parse(text)).run(0, [a, b])[0][0]
    np.testing.assert_allclose(found, expected, rtol=1e-5, atol=1e-5)
    whole = planned.native_call(0)
    assert whole is not None
    works = [s.work for s in whole.code.lowering.steps if isinstance(s.work, packed.PackedProduct)]
    assert [(w.batch, w.sizes) for w in works] == [(5, (133, 80, 32))]


def test_most_are_supported(monkeypatch):
    monkeypatch.setattr(packed, "_limits", lambda: packed._Limits(2048, 1 << 21, 128, 1 << 62, 128))
    assert packed.supports(operands((16, 1024, 256), dtypes.float32, (False, True))[2])
    assert packed.supports(operands((512, 784, 64), dtypes.float32, (True, False))[2])
    assert not packed.supports(operands((16, 10, 64), dtypes.float32, (False, False))[2])
    assert not packed.supports(operands((2, 64, 64), dtypes.float32, (False, False))[2])


LOOP = """graph(%x : Float(9, 32), %w : Float(32, 32)) {
  %0 : Float(32, 32, strides=[1, 32]) = aten::t(%w)
  %1 : Float(9, 32) = aten::mm(%x, %0)
  %2 : Float(9, 32) = aten::tanh(%1)
  %3 : Float(9, 32) = aten::mm(%2, %0)
  %4 : Float(9, 32) = aten::tanh(%3)
  %5 : Float(9, 32) = aten::mm(%4, %0)
  %6 : Float(9, 32) = aten::mm(%4, %w)
  return (%5, %6)
}"""


def test_what_several_products_share_is_packed_once():
    arrays = [np.random.default_rng(1).standard_normal(s).astype(np.float32) for s in ((9, 32), (32, 32))]
    graph = parse(LOOP)
    expected, planned = Interpreter(graph).run(0, arrays)[0], PlannedEngine(graph)
    for found, wanted in zip(planned.run(0, arrays)[0], expected, strict=True):
        np.testing.assert_allclose(found, wanted, rtol=1e-5, atol=1e-5)
    whole = planned.native_call(0)
    assert whole is not None
    works = [s.work for s in whole.code.lowering.steps if isinstance(s.work, packed.PackedProduct)]
    assert [(w.multiplies, w.packed) for w in works] == [
        (False, False), (True, True), (True, True), (True, True), (True, False)
    ]  # fmt: skip


def test_results_do_not_depend_on_the_number_of_threads(monkeypatch):
    text = "graph(%a : Float(40, 640), %b : Float(640, 720)) { %0 : Float(40, 720) = aten::mm(%a, %b) return (%0) }"
    arrays = [np.random.default_rng(2).standard_normal(s).astype(np.float32) for s in ((40, 640), (640, 720))]
    found = []
    for threads in ("1", "2", "5"):
        monkeypatch.setenv("JIT_NUM_THREADS", threads)
        planned = PlannedEngine(parse(text))
        found.append(planned.run(0, arrays)[0][0])
        whole = planned.native_call(0)
        assert whole is not None
        assert whole.code.program[3] % pool.WAKES == int(threads)
    np.testing.assert_array_equal(found[0], found[1])
    np.testing.assert_array_equal(found[0], found[2])


def test_short_products_of_a_batch_are_left_to_blas(monkeypatch):
    monkeypatch.setattr(packed, "_limits", lambda: packed._Limits(2048, 1 << 21, 128, 1 << 62, 128))
    product = packed.PackedProduct(dtypes.float32, (127, 64, 64), (64, 1), (64, 1), batch=8)
    assert not packed.supports(product)
    assert packed.supports(replace(product, batch=1))
    assert packed.supports(replace(product, sizes=(128, 64, 64)))


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("threads", [1, 3])
@pytest.mark.parametrize("sizes", [(300, 129, 160), (1024, 400, 256), (40, 1500, 128), (16, 131, 144), (17, 145, 128)])
def test_a_left_operand_whose_columns_lie_far_apart_is_copied(sizes, threads, dtype, monkeypatch):
    """As in the gradient of a weight: the rows of a transposed matrix are read one after the other."""
    monkeypatch.setattr(packed, "_limits", lambda: packed._Limits(1 << 14, 1 << 26, 8, 8, 48))  # whatever BLAS is here
    monkeypatch.setenv("JIT_NUM_THREADS", str(threads))
    rows, inner, columns = sizes
    kind = "Float" if dtype is np.float32 else "Double"
    text = f"""graph(%a : {kind}({inner}, {rows}), %b : {kind}({inner}, {columns})) {{
      %0 : {kind}({rows}, {inner}, strides=[1, {rows}]) = aten::t(%a)
      %1 : {kind}({rows}, {columns}) = aten::mm(%0, %b)
      return (%1) }}"""
    rng = np.random.default_rng(5)
    a, b = (rng.standard_normal(shape).astype(dtype) for shape in ((inner, rows), (inner, columns)))
    planned = PlannedEngine(parse(text))
    np.testing.assert_allclose(planned.run(0, [a, b])[0][0], a.T.astype(float) @ b, rtol=1e-4, atol=1e-3)
    copy, product = planned.native_call(0).code.lowering.steps
    assert isinstance(copy.work, Transposing) and isinstance(product.work, packed.PackedProduct)
    assert product.work.a == (inner, 1) and copy.operands[1].block is product.operands[0].block


def test_left_operands_of_a_batch_are_copied(monkeypatch):
    monkeypatch.setattr(packed, "_limits", lambda: packed._Limits(2048, 1 << 21, 4, 4, 16))
    general = jit.trace(lambda a, b: a.transpose(1, 2) @ b)
    rng = np.random.default_rng(7)
    for batch, rows, inner, columns in ((3, 33, 200, 40), (2, 40, 130, 40), (5, 64, 300, 40), (4, 17, 150, 40)):
        a, b = (rng.standard_normal((batch, inner, n)).astype(np.float32) for n in (rows, columns))
        for _ in range(2):
            found = general(jit.from_numpy(a), jit.from_numpy(b)).numpy()
            np.testing.assert_allclose(found, a.transpose(0, 2, 1) @ b, rtol=1e-4, atol=1e-4)
    assert general.misses <= 3
    works = [s.work for s in general._last.plan(general._last.chains[0]).interpreter.natives[0][0].code.lowering.steps]
    assert [type(work) for work in works] == [Transposing, packed.PackedProduct]


@pytest.mark.parametrize("sizes", [(300, 128, 160), (300, 129, 112), (300, 129, 0)])
def test_a_left_operand_is_not_copied_where_that_gains_little(sizes, monkeypatch):
    monkeypatch.setattr(packed, "_limits", lambda: packed._Limits(2048, 1 << 21, 128, 1 << 62, 128))
    rows, inner, columns = sizes
    product = packed.PackedProduct(dtypes.float32, (rows, columns, inner), (1, rows), (columns, 1))
    assert not packed.supports_copied(product) or packed.supports(product)


RAGGED = [
    (5, 64, 7), (9, 64, 9), (17, 64, 49), (30, 64, 47), (113, 64, 131), (64, 64, 8), (4, 64, 300), (33, 64, 24),
    (12, 64, 25), (200, 64, 47), (6, 64, 6), (49, 64, 12), (50, 64, 10), (100, 64, 100), (8, 64, 48), (2, 64, 3),
]  # fmt: skip


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("turned", [False, True])
@pytest.mark.parametrize("batch", [(), (3,)])
def test_columns_that_are_no_whole_vectors(dtype, turned, batch, monkeypatch):
    """A plan for one size has code for what is left; one for many computes some rows and columns twice."""
    monkeypatch.setattr(packed, "_limits", lambda: packed._Limits(2048, 1 << 21, 4, 4, 128))

    def product(a, b):
        return a @ (b.transpose(-1, -2) if turned else b)

    general, rng = jit.trace(product), np.random.default_rng(6)
    for rows, inner, columns in RAGGED:
        a = rng.standard_normal((*batch, rows, inner)).astype(dtype)
        b = rng.standard_normal((*batch, columns, inner) if turned else (*batch, inner, columns)).astype(dtype)
        fixed = jit.trace(product, dynamic=False)
        for traced in (fixed, fixed, general):
            found = traced(jit.from_numpy(a), jit.from_numpy(b)).numpy()
            np.testing.assert_allclose(
                found, product(jit.from_numpy(a), jit.from_numpy(b)).numpy(), rtol=1e-4, atol=1e-4
            )
    assert general.misses <= 3
    steps = [
        step.work for step in general._last.plan(general._last.chains[0]).interpreter.natives[0][0].code.lowering.steps
    ]
    assert [type(work) for work in steps] == [packed.PackedProduct]
