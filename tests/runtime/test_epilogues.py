"""Epilogues: tile by tile the bits are those of two steps, whatever the tiles, layouts and threads."""

import os
import subprocess
import sys

import numpy as np
import pytest

import jit
from jit.ir import dtypes
from jit.ir.errors import DivisionError
from jit.runtime.arrays.arrays import address_of
from jit.runtime.arrays.interpreter import Interpreter
from jit.runtime.llvm.product_tiles import lanes_of
from jit.runtime.plans import entry, stretch_code
from jit.runtime.plans.plan import PlannedEngine
from jit.runtime.plans.plan_image import image_of
from jit.runtime.products import conv, conv_folded, depthwise, epilogues, few_rows, packed
from jit.runtime.products.finished import Finished
from jit.runtime.products.tiled import Tiled
from jit.runtime.targets.target import Target
from jit.tracing.recordings.compiling import optimise
from tests.runtime.guarded import guarded

pytestmark = [
    pytest.mark.llvm,
    pytest.mark.skipif(not Target.host().has_convolutions, reason="no packed products for this machine"),
]


@pytest.fixture(autouse=True)
def small_tiles(monkeypatch):
    for module, size in ((packed, 1 << 13), (few_rows, 1 << 13)):
        monkeypatch.setattr(module, "TILE_BYTES", size)
    for module in (conv, conv_folded, depthwise):
        monkeypatch.setattr(module, "TILE_BYTES", 1 << 12)


def graph_of(function, arrays):
    traced = jit.trace(function)
    with jit.no_grad():
        traced(*map(jit.from_numpy, arrays))
    return optimise(traced.graph)


def steps_of(planned):
    return [step for natives in planned.natives for native in natives for step in native.code.lowering.steps]


def tiled(planned):
    return [step.work for step in steps_of(planned) if isinstance(step.work, Tiled | Finished)]


def in_two_steps(graph, arrays, monkeypatch):
    with monkeypatch.context() as patch:
        patch.setattr(epilogues, "may_follow", lambda lowering, step: False)
        planned = PlannedEngine(graph)
        assert not tiled(planned)
        return planned.run(0, arrays)[0]


def same_bits(expected, found):
    assert len(expected) == len(found)
    for a, b in zip(expected, found):
        assert a.dtype == b.dtype and a.shape == b.shape
        np.testing.assert_array_equal(a, b)


def check(function, arrays, monkeypatch, count=1):
    """A plan with `count` epilogues gives the bits of two steps, and what the interpreter gives, nearly."""
    with np.errstate(all="ignore"):
        graph = graph_of(function, arrays)
        planned = PlannedEngine(graph)
        found = planned.run(0, arrays)[0]
        assert len(tiled(planned)) == count, steps_of(planned)
        assert all(work.panels > 1 for work in tiled(planned))
        same_bits(in_two_steps(graph, arrays, monkeypatch), found)
        for a, b in zip(Interpreter(graph).run(0, arrays)[0], found):
            np.testing.assert_allclose(b, a, rtol=1e-4, atol=1e-4)
    return planned


def normal(*shapes, dtype=np.float32, scale=1.0):
    rng = np.random.default_rng(len(shapes))
    return [(rng.standard_normal(shape) * scale).astype(dtype) for shape in shapes]


# -- products ----------------------------------------------------------------------------------------------------

PRODUCTS = {
    "bias, tanh": lambda x, w, b, c, y: jit.tanh(x @ w + b),
    "gelu": lambda x, w, b, c, y: jit.nn.functional.gelu(x @ w + b),
    "silu": lambda x, w, b, c, y: jit.nn.functional.silu(x @ w),
    "sigmoid of a column": lambda x, w, b, c, y: jit.sigmoid(x @ w * c),
    "residual": lambda x, w, b, c, y: jit.relu(x @ w + y),
    "scaled, clamped": lambda x, w, b, c, y: jit.clamp(0.5 * (x @ w), -1, 1),
    "integers": lambda x, w, b, c, y: (x @ w * 10).to(jit.int64) // 3,
    "halves": lambda x, w, b, c, y: (x @ w + b).to(jit.float16) * 2,
    "doubles": lambda x, w, b, c, y: (x @ w).to(jit.float64) + 1,
    "comparison": lambda x, w, b, c, y: (x @ w + b) > y,
    "twice in the kernel": lambda x, w, b, c, y: (lambda z: z * jit.sigmoid(z) + z)(x @ w),
    "two results": lambda x, w, b, c, y: (lambda t: (t, t * b + y))(jit.tanh(x @ w)),
    "turned operands": lambda x, w, b, c, y: jit.tanh(x @ w + y.t().contiguous().t()),
    "another shape": lambda x, w, b, c, y: jit.tanh((x @ w).reshape(-1)) * 2,
    "cut rows": lambda x, w, b, c, y: jit.tanh((x @ w).reshape(2, -1, w.shape[1]) + b),
    "joined": lambda x, w, b, c, y: (lambda z: jit.cat([jit.tanh(z), z + b], 1))(x @ w),
}


@pytest.mark.parametrize("sizes", [(64, 32, 96), (50, 17, 112), (12, 40, 512), (400, 8, 16)])
@pytest.mark.parametrize("name", PRODUCTS)
def test_products(name, sizes, monkeypatch):
    rows, inner, columns = sizes
    arrays = normal((rows, inner), (inner, columns), (columns,), (rows, 1), (rows, columns))
    check(PRODUCTS[name], arrays, monkeypatch)


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("layout", ["w.T", "x.T", "both", "strided x"])
def test_layouts(layout, dtype, monkeypatch):
    shapes = {
        "w.T": ((64, 32), (96, 32)), "x.T": ((32, 64), (32, 96)), "both": ((32, 64), (96, 32)),
        "strided x": ((64, 64), (32, 96)),
    }[layout]  # fmt: skip

    def function(x, w, b):
        x = x[:, :32] if layout == "strided x" else x if layout == "w.T" else x.t()
        w = w.t() if layout in ("w.T", "both") else w
        return jit.tanh(x @ w + b)

    check(function, normal(*shapes, (96,), dtype=dtype), monkeypatch)


@pytest.mark.parametrize("sizes", [(5, 130, 16, 96), (40, 128, 8, 16)])
def test_batches(sizes, monkeypatch):
    batch, rows, inner, columns = sizes
    arrays = normal((batch, rows, inner), (batch, inner, columns), (columns,), (batch, 1, 1), (batch, rows, columns))
    check(lambda x, w, b, c, y: jit.tanh(jit.bmm(x, w) * c + b) + y, arrays, monkeypatch)


@pytest.mark.parametrize("rows", [5, 128])
def test_batches_of_nothing(rows):
    arrays = [np.zeros((0, rows, 16), np.float32), np.zeros((0, 16, 96), np.float32)]
    graph = graph_of(lambda x, w: jit.tanh(x @ w) + 1, arrays)
    (found,) = PlannedEngine(graph).run(0, arrays)[0]
    assert found.shape == (0, rows, 96)


def test_a_turned_result(monkeypatch):
    arrays = normal((3, 130, 16), (3, 16, 96), (3, 96, 130))
    check(lambda x, w, y: jit.tanh(jit.bmm(x, w).transpose(1, 2)) * y, arrays, monkeypatch)


def test_products_that_are_too_large_for_one_piece(monkeypatch):
    """Rows that do not fit the cache together go to BLAS, unless there is an epilogue."""
    if lanes_of(dtypes.float32) < 16:
        pytest.skip("with vectors of 64 bytes alone is this chosen")
    monkeypatch.setattr(packed, "_limits", lambda: packed._Limits(2048, 1 << 13, 128, 1 << 62, 128))
    arrays = normal((256, 64), (64, 96), (96,))
    graph = graph_of(lambda x, w, b: jit.tanh(x @ w + b), arrays)
    planned = PlannedEngine(graph)
    assert [type(step.work) for step in steps_of(planned)] == [Tiled]
    expected = np.tanh(arrays[0].astype(np.float64) @ arrays[1] + arrays[2])
    np.testing.assert_allclose(planned.run(0, arrays)[0][0], expected, atol=1e-5)
    alone = PlannedEngine(graph_of(lambda x, w, b: (x @ w).softmax(1), arrays))
    assert steps_of(alone)[0].node.kind == "aten::mm" and not tiled(alone)


def test_special_numbers(monkeypatch):
    x, w, b = normal((64, 32), (32, 96), (96,))
    x[3, 4], x[7, 0], x[9, 1], w[2, 5] = np.nan, np.inf, -np.inf, -np.inf
    check(lambda x, w, b: jit.relu(x @ w + b), [x, w, b], monkeypatch)
    check(lambda x, w, b: jit.clamp(jit.tanh(x @ w) * b, -0.5, 0.5), [x, w, b], monkeypatch)


def test_an_operand_that_is_the_products_own(monkeypatch):
    """What the product still reads must not be written over."""
    arrays = normal((64, 64), (64, 64))
    check(lambda x, w: jit.relu(jit.tanh(x) @ w + jit.tanh(x)), arrays, monkeypatch)

    def turned(x, w):
        x = x.softmax(2)
        return jit.bmm(jit.bmm(x, w).transpose(1, 2) * x * 2, w)

    check(turned, normal((2, 128, 128), (2, 128, 128)), monkeypatch)


def test_chains(monkeypatch):
    arrays = normal((64, 64), (64, 64), (64, 64), (64,))

    def function(x, w, u, b):
        for _ in range(3):
            x = jit.tanh(x @ w + b) + x
            x = jit.relu(jit.exp(x * 0.1) @ u * 0.1) + x
        return x

    planned = check(function, arrays, monkeypatch, 6)
    works = {id(work) for work in tiled(planned)}
    assert len(works) < 6  # equal layers share one


# -- what is no epilogue -----------------------------------------------------------------------------------------

DECLINED = {
    "result used twice": lambda x, w, b: (lambda z: (jit.tanh(z + b), z @ w))(x @ w),
    "read by two kernels": lambda x, w, b: (lambda z: (jit.tanh(z + b), jit.exp(z) * 2))(x @ w),
    "read by a kernel and a norm": lambda x, w, b: (lambda z: (jit.tanh(z + b), z.softmax(1)))(x @ w),
    "result returned": lambda x, w, b: (lambda z: (jit.tanh(z + b), z))(x @ w),
    "view returned": lambda x, w, b: (lambda z: (jit.tanh(z + b), z.t()))(x @ w),
    "part of it": lambda x, w, b: jit.tanh((x @ w)[:, 1:]) * 2,
    "other rows": lambda x, w, b: jit.tanh((x @ w)[::2]) * 2,
    "both ways": lambda x, w, b: (lambda z: jit.tanh(z + z.t()))(x @ w),
    "reduced": lambda x, w, b: jit.tanh(x @ w + b).sum(1),
    "softmax": lambda x, w, b: (x @ w + b).softmax(1),
    "broadcast": lambda x, w, b: jit.tanh((x @ w).unsqueeze(0) + b.reshape(-1, 1, 1)),
}


@pytest.mark.parametrize("name", DECLINED)
def test_declined(name, monkeypatch):
    arrays = normal((64, 64), (64, 64), (64,))
    check(DECLINED[name], arrays, monkeypatch, 0)


def test_small_results_are_two_steps(monkeypatch):
    check(lambda x, w, b: jit.tanh(x @ w + b), normal((16, 32), (32, 32), (32,)), monkeypatch, 0)


@pytest.mark.parametrize("sizes", [(0, 32, 32), (64, 0, 32), (64, 32, 0), (1, 32, 4096), (4096, 32, 1), (4096, 1, 16)])
def test_empty_and_single(sizes, monkeypatch):
    rows, inner, columns = sizes
    check(lambda x, w, b: jit.tanh(x @ w + b), normal((rows, inner), (inner, columns), (columns,)), monkeypatch, 0)


def test_of_two_products_one_has_the_epilogue(monkeypatch):
    arrays = normal((64, 32), (32, 96), (64, 16), (16, 96), (96,))
    planned = check(lambda x, w, y, u, b: jit.tanh(x @ w) * (y @ u) + b, arrays, monkeypatch)
    assert [isinstance(step.work, Tiled) for step in steps_of(planned)] == [False, True]


# -- convolutions ------------------------------------------------------------------------------------------------

CONVOLUTIONS = {
    "plain": ((2, 3, 12, 21), (9, 3, 3, 3), dict(padding=1)),
    "images together": ((9, 3, 5, 9), (8, 3, 3, 3), dict(padding=1)),
    "one tap": ((2, 19, 20, 19), (16, 19, 1, 1), {}),
    "strided": ((2, 4, 35, 40), (17, 4, 3, 3), dict(padding=1, stride=2)),
    "groups": ((2, 6, 19, 27), (24, 2, 3, 3), dict(padding=1, groups=3)),
    "depthwise": ((2, 69, 9, 18), (69, 1, 3, 3), dict(padding=1, groups=69)),
    "depthwise, few": ((5, 11, 9, 18), (11, 1, 3, 3), dict(padding=1, groups=11)),
    "depthwise, dilated": ((2, 69, 9, 18), (69, 1, 3, 3), dict(padding=2, dilation=2, groups=69)),
    "many channels": ((1, 150, 14, 16), (16, 150, 3, 3), dict(padding=1)),
}


def batch_norm(y, a, b, m, v):
    return jit.nn.functional.batch_norm(y, m, v, a, b, False)


def conv_arrays(name, dtype=np.float32):
    x, w, window = CONVOLUTIONS[name]
    arrays = normal(x, w, *((w[0],) for _ in range(5)), dtype=dtype, scale=0.5)
    arrays[-1] = abs(arrays[-1]) + dtype(0.5)
    return arrays, window


@pytest.mark.parametrize("name", CONVOLUTIONS)
def test_convolutions(name, monkeypatch):
    arrays, window = conv_arrays(name)

    def normed(x, w, bias, *norm):
        return jit.relu(batch_norm(jit.conv2d(x, w, bias, **window), *norm))

    planned = check(normed, arrays, monkeypatch)
    residual = normal(planned.run(0, arrays)[0][0].shape)
    check(lambda x, w, y: jit.relu(jit.conv2d(x, w, **window) + y), [*arrays[:2], *residual], monkeypatch)
    check(lambda x, w: (lambda y: y * jit.sigmoid(y))(jit.conv2d(x, w, **window)), arrays[:2], monkeypatch)
    check(lambda x, w: jit.conv2d(x, w, **window).to(jit.float64) * 2, arrays[:2], monkeypatch)


def test_convolutions_of_doubles(monkeypatch):
    arrays, window = conv_arrays("plain", np.float64)
    check(lambda x, w, b, *n: batch_norm(jit.conv2d(x, w, b, **window), *n).clamp(0, 6), arrays, monkeypatch)


def kinds(function, arrays, monkeypatch, count=1):
    return [type(work) for work in tiled(check(function, arrays, monkeypatch, count))]


IN_REGISTERS = [name for name in CONVOLUTIONS if name != "depthwise, dilated"]


@pytest.mark.parametrize("name", IN_REGISTERS)
def test_short_epilogues_stay_in_registers(name, monkeypatch):
    arrays, window = conv_arrays(name)
    x, w, b, *norm = arrays
    (y,) = normal(np.asarray(jit.conv2d(jit.from_numpy(x), jit.from_numpy(w), **window)).shape)
    (c,) = normal((w.shape[0], 1, 1))
    for function, more in (
        (lambda x, w, b, *n: batch_norm(jit.conv2d(x, w, b, **window), *n).clamp(0, 6), (b, *norm)),
        (lambda x, w, b, y, *n: jit.relu(batch_norm(jit.conv2d(x, w, b, **window), *n) + y), (b, y, *norm)),
        (lambda x, w, y: (jit.conv2d(x, w, **window) - y) * y, (y,)),
        (lambda x, w, c: jit.conv2d(x, w, **window) * c + 1, (c,)),
    ):
        assert kinds(function, [x, w, *more], monkeypatch) == [Finished]


@pytest.mark.parametrize("name", IN_REGISTERS)
def test_long_or_crooked_ones_do_not(name, monkeypatch):
    arrays, window = conv_arrays(name)
    x, w = arrays[:2]
    shape = np.asarray(jit.conv2d(jit.from_numpy(x), jit.from_numpy(w), **window)).shape
    row, wide = normal(shape[3:])[0], normal(shape, dtype=np.float64)[0]
    for function, more in (
        (lambda x, w: jit.erf(jit.tanh(jit.conv2d(x, w, **window))), ()),
        (lambda x, w: jit.conv2d(x, w, **window).to(jit.float64) * 2, ()),
        (lambda x, w, row: jit.conv2d(x, w, **window) * row, (row,)),
        (lambda x, w, wide: jit.conv2d(x, w, **window) * wide.to(jit.float32), (wide,)),
    ):
        graph = graph_of(function, [x, w, *more])
        planned = PlannedEngine(graph)
        same_bits(in_two_steps(graph, [x, w, *more], monkeypatch), planned.run(0, [x, w, *more])[0])
        assert Finished not in map(type, tiled(planned))


def test_numbers_that_are_no_numbers_pass_through_registers(monkeypatch):
    arrays, window = conv_arrays("plain")
    arrays[0].flat[::7], arrays[0].flat[3::11] = np.nan, -np.inf
    function = lambda x, w, b, *n: batch_norm(jit.conv2d(x, w, b, **window), *n).clamp(-0.0, 6)  # noqa: E731
    graph = graph_of(function, arrays)
    found = PlannedEngine(graph).run(0, arrays)[0]
    assert np.isnan(found[0]).any() and not np.isnan(found[0]).all()
    same_bits(in_two_steps(graph, arrays, monkeypatch), found)


def test_a_relu_alone_stays_in_registers(monkeypatch):
    arrays, window = conv_arrays("plain")
    planned = check(lambda x, w: jit.relu(jit.conv2d(x, w, **window)), arrays[:2], monkeypatch, 0)
    assert len(steps_of(planned)) == 1


@pytest.mark.parametrize("dims", [1, 3])
def test_other_dims(dims, monkeypatch):
    image = {1: (300,), 3: (6, 9, 10)}[dims]
    x, w = normal((2, 4, *image), (8, 4, *(3,) * dims))
    convolve = getattr(jit, f"conv{dims}d")
    check(lambda x, w: jit.tanh(convolve(x, w, padding=1)) * 2, [x, w], monkeypatch)


def test_transposed(monkeypatch):
    arrays = normal((2, 8, 13, 14), (8, 9, 3, 3))
    check(lambda x, w: jit.tanh(jit.conv_transpose2d(x, w, padding=1)) * 2, arrays, monkeypatch)


TRANSPOSED = {
    "channels": ((2, 8, 13, 14), (8, 9, 3, 3), dict(stride=2, padding=1)),
    "images together": ((6, 20, 3, 4), (20, 5, 4, 4), dict(stride=2, padding=1)),
    "some images each": ((15, 300, 2, 3), (300, 6, 2, 2), dict(stride=2)),
    "groups": ((3, 6, 20, 17), (6, 3, 4, 4), dict(stride=2, padding=1, groups=2)),
    "rest of channels": ((1, 8, 24, 30), (8, 7, 2, 2), dict(stride=2)),
    "scattered": ((2, 5, 90), (5, 9, 16), dict(stride=8, padding=4)),
}


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("name", TRANSPOSED)
def test_folded(name, dtype, monkeypatch):
    x, w, window = TRANSPOSED[name]
    channels, dims = w[1] * window.get("groups", 1), len(x) - 2
    arrays = normal(x, w, *((channels,) for _ in range(5)), dtype=dtype, scale=0.5)
    arrays[-1] = abs(arrays[-1]) + dtype(0.5)
    convolve = getattr(jit, f"conv_transpose{dims}d")
    planned = check(
        lambda x, w, b, *norm: jit.relu(batch_norm(convolve(x, w, b, **window), *norm)), arrays, monkeypatch
    )
    residual = normal(planned.run(0, arrays)[0][0].shape, dtype=dtype)
    check(lambda x, w, y: jit.relu(convolve(x, w, **window) + y), [*arrays[:2], *residual], monkeypatch)
    other = jit.float64 if dtype is np.float32 else jit.float32
    check(lambda x, w: convolve(x, w, **window).to(other) * 2, arrays[:2], monkeypatch)  # a tile of its own
    run_guarded(graph_of(lambda x, w, b, *n: batch_norm(convolve(x, w, b, **window), *n) * 2, arrays), arrays)


def test_folded_in_strips_are_two_steps(monkeypatch):
    monkeypatch.setattr(conv_folded, "_PACKED_BYTES", 1 << 12)
    arrays = normal((1, 40, 30, 30), (40, 3, 4, 4))
    check(lambda x, w: jit.tanh(jit.conv_transpose2d(x, w, padding=1, stride=2)) * 2, arrays, monkeypatch, 0)


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize(("rows", "outputs", "inner"), [(32, 163, 70), (17, 400, 64), (48, 97, 65)])
def test_few_rows(rows, outputs, inner, dtype, monkeypatch):
    monkeypatch.setattr(few_rows, "fills_vectors", lambda dtype, rows: True)
    arrays = normal((rows, inner), (outputs, inner), (outputs,), (rows, outputs), dtype=dtype)
    check(lambda x, w, b, y: jit.tanh(x @ w.t() + b) + y, arrays, monkeypatch)
    check(lambda x, w, b, y: (x @ w.t()).to(jit.float64) * 2 + b, arrays, monkeypatch)
    run_guarded(graph_of(lambda x, w, b, y: jit.tanh(x @ w.t() + b) + y, arrays), arrays)


# -- memory ------------------------------------------------------------------------------------------------------


def test_results_take_no_memory(monkeypatch):
    monkeypatch.undo()
    arrays = normal((512, 256), (256, 512), (512,))
    graph = graph_of(lambda x, w, b: jit.tanh(x @ w + b), arrays)
    planned = PlannedEngine(graph)
    (native,) = planned.natives[0]
    assert tiled(planned)
    assert native.code.arena < 512 * 512 * 4 / 4


@pytest.mark.parametrize("name", ["bias, tanh", "residual", "doubles", "joined", "two results"])
def test_nothing_is_touched_that_was_not_given(name):
    arrays = normal((50, 17), (17, 112), (112,), (50, 1), (50, 112))
    graph = graph_of(PRODUCTS[name], arrays)
    run_guarded(graph, arrays)


@pytest.mark.parametrize("name", CONVOLUTIONS)
def test_convolutions_touch_nothing_that_was_not_given(name):
    arrays, window = conv_arrays(name)
    graph = graph_of(lambda x, w, b, *n: batch_norm(jit.conv2d(x, w, b, **window), *n) * 2, arrays)
    run_guarded(graph, arrays)


def run_guarded(graph, arrays):
    """On memory that ends, then on memory that begins, at a page that nobody may touch."""
    (native,) = PlannedEngine(graph).natives[0]
    code = stretch_code.compile_stretch(native.stretch, native.code.layouts, gap=64)
    assert any(isinstance(step.work, Tiled | Finished) for step in code.lowering.steps)
    place = dict(zip(graph.inputs, arrays, strict=True))
    given = [place[value] for value in native.stretch.inputs]
    expected = native(given)
    for at_end in (True, False):
        inputs = [guarded(array, at_end) for array in given]
        outputs = [guarded(np.empty(shape, dtype), at_end) for shape, dtype in code.outputs]
        arena = guarded(np.empty(-(-max(code.arena, 1) // 64) * 64, np.uint8))
        bases = np.array([address_of(a) for a in (arena, *inputs, *outputs)] + code.constants, np.int64)
        words = map(address_of, (code.program, bases))
        assert entry.executor()(*words, code.operands) == 0
        same_bits(expected, outputs)


@pytest.mark.parametrize("name", CONVOLUTIONS)
def test_what_geometries_point_to_is_kept(name):
    """Tables that are cached for a while must outlive the cache; and a plan as data has all of it."""
    arrays, window = conv_arrays(name)
    planned = PlannedEngine(graph_of(lambda x, w: jit.tanh(jit.conv2d(x, w, **window)) * 2, arrays[:2]))
    (work,) = tiled(planned)
    tables = work.product.kept
    held = [array for kept in work.kept if isinstance(kept, tuple) for array in kept]
    assert (len(tables) > 0) is not isinstance(work.product, depthwise.DepthwiseRows)  # which has none
    assert all(any(array is table for array in held) for table in tables)
    assert len(image_of(planned)[1]) > 0


# -- threads -----------------------------------------------------------------------------------------------------

THREADS = """
import hashlib, numpy as np, jit
from jit.runtime.products import conv, depthwise, packed; from jit.runtime.plans import plan
plan._LONG_PRODUCT = 1
packed.TILE_BYTES = conv.TILE_BYTES = depthwise.TILE_BYTES = 1 << 13
from tests.runtime.test_epilogues import PRODUCTS, conv_arrays, batch_norm, normal, graph_of, tiled, CONVOLUTIONS
from jit.runtime.plans.plan import PlannedEngine
digest = hashlib.sha256()
def add(function, arrays):
    planned = PlannedEngine(graph_of(function, arrays))
    assert tiled(planned)
    for _ in range(20):
        found = planned.run(0, arrays)[0]
    for array in found:
        digest.update(array.tobytes())
for name in ("bias, tanh", "residual", "doubles", "two results"):
    add(PRODUCTS[name], normal((150, 17), (17, 112), (112,), (150, 1), (150, 112)))
for name in CONVOLUTIONS:
    arrays, window = conv_arrays(name)
    add(lambda x, w, b, *n: batch_norm(jit.conv2d(x, w, b, **window), *n) * 2, arrays)
print(digest.hexdigest())
"""


def test_threads_change_no_bit():
    found = set()
    for threads in ("1", "2", "3"):
        environment = {**os.environ, "JIT_NUM_THREADS": threads}
        done = subprocess.run([sys.executable, "-c", THREADS], env=environment, capture_output=True, text=True)
        assert done.returncode == 0, done.stderr
        found.add(done.stdout)
    assert len(found) == 1


# -- what is told of them ----------------------------------------------------------------------------------------


def test_errors_have_the_kernels_line():
    x, w = normal((64, 32), (32, 96))

    def divided(x, w, n):
        return (x @ w).to(jit.int64) // n

    traced = jit.trace(divided)
    tensors = [jit.from_numpy(a) for a in (x, w, np.ones((64, 96), np.int64))]
    for _ in range(3):
        traced(*tensors)
    zeros = np.ones((64, 96), np.int64)
    zeros[40, 70] = 0
    with pytest.raises(DivisionError, match="divided by zero"):
        traced(tensors[0], tensors[1], jit.from_numpy(zeros))


def test_kernels_and_profile():
    x, w, b = map(jit.from_numpy, normal((64, 32), (32, 96), (96,)))

    def layer(x, w, b):
        y = x @ w
        return jit.tanh(y + b)

    f = jit.trace(layer)
    for _ in range(3):
        f(x, w, b)
    kernels = f.kernels
    assert {kernel.name for kernel in kernels} == {"add_tanh"} and sum(kernel.calls for kernel in kernels) > 1
    assert sum(kernel.flops * kernel.calls for kernel in kernels) == 2 * 64 * 96
    (line,) = {line for kernel in kernels for line in kernel.source_lines}
    assert line.endswith(f":{layer.__code__.co_firstlineno + 2} in layer")
    profile = f.profile(x, w, b)
    (row,) = profile.kernels
    assert row.name == "mm (packed), add_tanh by tiles" and row.calls == 1
    assert row.flops == 2 * 64 * 96 * 32 + 2 * 64 * 96
    assert row.bytes == 4 * (64 * 32 + 32 * 96 + 96 + 64 * 96)
    assert len(profile.lines) == 2
    assert sum(line.flops for line in profile.lines) == pytest.approx(row.flops)


def _behind_a_sum(x, y, w):
    return _smoothed(x.exp(), w) * y + _smoothed(x, w)


def _behind_its_own_image(x, y, w):
    image = _smoothed(x, w)
    return _smoothed(image, w) * y + image


def _smoothed(x, w):
    return jit.nn.functional.conv2d(x, w, padding=w.shape[2] // 2, groups=len(w))


@pytest.mark.parametrize("threads", [1, 2, 3, 4])
@pytest.mark.parametrize("f", [_behind_a_sum, _behind_its_own_image])
@pytest.mark.parametrize("sizes", [*((batch, 3, 64, 64) for batch in range(2, 9)), (16, 3, 32, 32), (12, 5, 32, 32)])
def test_scratch_memory_never_lies_where_an_operand_does(sizes, f, threads, monkeypatch):
    """Tiles of all threads together are as large as a result, for some of these sizes: see `_place_temporaries`."""
    monkeypatch.undo()  # tiles as they are
    monkeypatch.setenv("JIT_NUM_THREADS", str(threads))
    rng = np.random.default_rng(3)
    x, y = (jit.from_numpy(rng.uniform(-1, 1, sizes).astype(np.float32)) for _ in range(2))
    w = jit.from_numpy(rng.uniform(0, 1 / 60, (sizes[1], 1, 11, 11)).astype(np.float32))
    traced = jit.trace(f)
    with jit.no_grad():
        for _ in range(4):
            found = traced(x, y, w)
        assert "by tiles" in str(traced.profile(x, y, w)) or sizes[0] == 2
        exact = f(x.double(), y.double(), w.double())
        np.testing.assert_allclose(found.numpy(), exact.numpy(), atol=1e-5)
