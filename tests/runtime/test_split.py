"""Few long rows as several nests: the same results as one nest gives, bit for bit where nothing is rounded."""

import itertools
import math

import numpy as np
import pytest

import jit
from jit.ir.dtypes import float32
from jit.runtime.kernels import split
from jit.runtime.kernels.codegen import compile_nest
from jit.runtime.kernels.nest import Access, Buffer, Keep, Local, Nest, NestScan, NestStep, Reduce
from jit.runtime.kernels.split import blocks_of, is_worth
from jit.runtime.targets.target import Target
from tests.runtime import nests_under_test as nests
from tests.runtime.grid_emulation import emulated

pytestmark = pytest.mark.llvm

MONOIDS = ["sum", "max", "min", "prod", "argmax", "argmin"]


@pytest.fixture
def short(monkeypatch):
    """Blocks of 100 points."""
    monkeypatch.setattr(split, "BLOCK_POINTS", 100)


def run(nest, inputs, outputs, call=lambda nest, i, o: compile_nest(nest)(i, o)):
    """The calls that a nest was split into, with memory for what passes between them."""
    assert is_worth(nest)
    parts = split.split(nest)
    arrays = [*inputs, *outputs]
    for buffer in parts.temporaries:
        raw = np.zeros(math.prod(buffer.sizes), buffer.dtype.numpy)
        steps = tuple(s * raw.itemsize for s in buffer.strides)
        arrays.append(np.lib.stride_tricks.as_strided(raw, buffer.sizes, steps))
    for nest, operands in parts.calls:
        chosen = [arrays[i] for i in operands]
        call(nest, chosen[: len(nest.inputs)], chosen[len(nest.inputs) :])
    return parts


def array(shape, dtype, seed=0):
    x = np.random.default_rng(seed).standard_normal(shape) * 5
    return x.astype(dtype)


# -- where blocks are ----------------------------------------------------------------------------------------------


@pytest.mark.parametrize("row", [(65537,), (70000,), (2**24,), (2**24 + 1,), (1000, 70000), (3, 5, 10**5), (10**6, 3),
                                 (7, 65536), (65536, 7), (2, 2, 2, 99991), (131071,)])  # fmt: skip
def test_blocks_cover_a_row_and_are_short(row):
    loop, count, length = blocks_of(row, split.BLOCK_POINTS)
    left = row[loop] - count * length
    inside = math.prod(row[loop + 1 :])
    assert count >= 1 and 0 <= left < length
    assert left == 0 or row[loop] // length == count
    assert length * inside <= split.BLOCK_POINTS < math.prod(row)
    assert math.prod(row[: loop + 1]) > 1


# -- reductions ----------------------------------------------------------------------------------------------------


def layouts(dtype):
    """(array, the dims of a row): contiguous, cut, turned, flipped, with rows beside and around."""
    yield "even", array(1000, dtype), (0,)
    yield "rest", array(1009, dtype), (0,)
    yield "far rest", array(997, dtype), (0,)
    yield "cut", array((40, 50), dtype)[:, ::2], (0, 1)
    yield "turned", array((31, 37), dtype).T, (0, 1)
    yield "flipped", array((3, 301), dtype)[:, ::-1], (0, 1)
    yield "rows", array((3, 457), dtype), (1,)
    yield "columns", array((457, 3), dtype), (0,)
    yield "one", array((5, 3, 1, 83), dtype), (0, 3)
    yield "repeated", np.broadcast_to(array((1, 211), dtype), (7, 211)), (0, 1)


LAYOUTS = [name for name, *_ in layouts("float32")]


@pytest.mark.parametrize("name", LAYOUTS)
@pytest.mark.parametrize("dtype", ["float32", "float64", "int32", "uint8", "bool", "float16"])
@pytest.mark.parametrize("monoid", MONOIDS)
def test_reductions(monoid, dtype, name, short):
    x, dims = next(found for label, *found in layouts(dtype) if label == name)
    if dtype.startswith("float") and name != "repeated":
        x[(0,) * x.ndim] = -np.inf
        x[(-1,) * x.ndim] = np.inf if monoid != "sum" else 0
    result = np.int64 if monoid.startswith("arg") else x.dtype
    out = np.empty(np.max(x, axis=dims).shape, result)
    whole = out.copy()
    nest = nests.reduction(monoid, x, out, dims)
    compile_nest(nest)([x], [whole])
    run(nest, [x], [out])
    if monoid in ("sum", "prod") and dtype.startswith("float"):
        np.testing.assert_allclose(out, whole, rtol=2e-2 if dtype == "float16" else 2e-4)
    else:
        assert out.tobytes() == whole.tobytes()


@pytest.mark.parametrize("size", [1000, 1009])
def test_the_first_of_equals_and_nan(size, short):
    x = np.zeros(size, np.float32)
    at = np.empty((), np.int64)
    for places, value in itertools.product(((7,), (950, 430), (size - 1, 120, 121), (0, 5)), (3.0, np.nan, -np.inf)):
        x[:] = 0
        x[list(places)] = value
        for monoid, expected in (("argmax", np.argmax(x)), ("argmin", np.argmin(x))):
            run(nests.reduction(monoid, x, at, (0,)), [x], [at])
            assert at == expected
    x[:] = -np.inf
    run(nests.reduction("argmax", x, at, (0,)), [x], [at])
    assert at == 0


@pytest.fixture
def tall(monkeypatch):
    """Matrices of 30 columns are large, and cut in blocks of 13 rows."""
    for name, number in (("TALL_POINTS", 500), ("FEWEST_COLUMNS", 30), ("FEWEST_TURNS", 13)):
        monkeypatch.setattr(split, name, number)


def matrices(dtype):
    """(array, the dims that are reduced): of even blocks, with a rest, cut, flipped, of three dims."""
    yield "even", array((130, 37), dtype), (0,)
    yield "rest", array((127, 37), dtype), (0,)
    yield "cut", array((129, 99), dtype)[::2, ::3], (0,)
    yield "flipped", array((127, 130), dtype)[::-1, ::-1], (0,)
    yield "of three dims", array((15, 17, 31), dtype).transpose(1, 0, 2), (0, 1)


@pytest.mark.parametrize("name", [name for name, *_ in matrices("float32")])
@pytest.mark.parametrize("dtype", ["float32", "float64", "int32", "bool", "float16"])
@pytest.mark.parametrize("monoid", MONOIDS)
def test_columns(monoid, dtype, name, tall):
    x, dims = next(found for label, *found in matrices(dtype) if label == name)
    if monoid == "prod" and dtype.startswith("float"):
        x = (1 + x / 64).astype(dtype)  # no product is denormal, where relative errors have no bound
    result = np.int64 if monoid.startswith("arg") else x.dtype
    out = np.empty(np.max(x, axis=dims).shape, result)
    whole = out.copy()
    nest = nests.reduction(monoid, x, out, dims)
    compile_nest(nest)([x], [whole])
    run(nest, [x], [out])
    if monoid in ("sum", "prod") and dtype.startswith("float"):
        x, limits = x.astype(np.float64), np.finfo(dtype)  # the order is another one, and each step is rounded
        scale = abs(x).sum(dims) if monoid == "sum" else abs(x).prod(dims)
        steps = x.size // out.size
        assert np.all(abs(out.astype(np.float64) - whole) <= steps * float(limits.eps) * scale + float(limits.tiny))
    else:
        assert out.tobytes() == whole.tobytes()


@pytest.mark.parametrize("shape", [(1 << 13, 128), (70_001, 130), (300, 5000)])
def test_sums_of_columns_stay_within_their_bound(shape):
    x = np.random.default_rng(1).random(shape, np.float32)
    out = np.empty(shape[1], np.float32)
    run(nests.reduction("sum", x, out, (0,)), [x], [out])
    assert np.all(abs(out - x.sum(0, dtype=np.float64)) <= nests.error_bound(x, (0,)))


def test_which_matrices_are_cut():
    for shape, wanted in (((4096, 4096), True), ((4096, 64), False), ((100, 4096), False), ((127, 1 << 16), False)):
        assert (
            is_worth(nests.reduction("sum", np.empty(shape, np.float32), np.empty(shape[1], np.float32), (0,)))
            is wanted
        )
    x = np.empty((64, 512, 128), np.float32)
    assert not is_worth(nests.reduction("sum", x, np.empty((64, 128), np.float32), (1,)))  # threads share the 64
    x = np.empty((4096, 4096), np.float32)
    assert not is_worth(nests.reduction("sum", x, np.empty(4096, np.float32), (1,)))  # each row is read in one piece


@pytest.mark.parametrize("size", [3 << 16, (3 << 16) + 1, 12345677])
def test_sums_stay_within_their_bound(size):
    x = np.random.default_rng(1).random(size, np.float32)
    out = np.empty((), np.float32)
    run(nests.reduction("sum", x, out, (0,)), [x], [out])
    assert abs(out - x.sum(dtype=np.float64)) <= nests.error_bound(x, (0,))


def test_several_steps_and_what_stands_beside_rows(short):
    """A mean, an epilogue that is stored, squares about the mean, a result at every point."""
    x, weight = array((2, 613), np.float64), array(2, np.float64)
    spread, means, out = np.empty(2), np.empty(2), np.empty((2, 613))
    read, beside = Access(0, (613, 1)), Access(1, (1, 0))
    dtype = Buffer.like(x).dtype
    steps = (
        NestStep((beside,), (Keep(5, dtype),), lambda m, w: w * 2, inner=False),
        NestStep((read,), (Reduce("sum", (0,), dtype),), lambda m, a: a),
        NestStep((Local(0), Local(5)), (Keep(1, dtype), Access(0, (1, 0))),
                 lambda m, s, w: (s / 613, w * s), inner=False),
        NestStep((read, Local(1)), (Reduce("sum", (2,), dtype), Reduce("max", (3,), dtype)),
                 lambda m, a, mean: ((a - mean) * (a - mean), a)),
        NestStep((Local(2), Local(3)), (Access(1, (1, 0)),), lambda m, s, top: s + top, inner=False),
        NestStep((read, Local(1), Local(5)), (Access(2, (613, 1)),), lambda m, a, mean, w: (a - mean) * w),
    )  # fmt: skip
    ins, outs = (tuple(map(Buffer.like, arrays)) for arrays in ((x, weight), (means, spread, out)))
    parts = run(Nest((2, 613), ins, outs, steps, 1), [x, weight], [means, spread, out])
    assert len(parts.calls) == 1 + 3 + 3 + 1  # what is beside rows, two reductions with a rest each, the points
    mean = x.mean(1)
    np.testing.assert_allclose(means, weight * 2 * x.sum(1), rtol=1e-12)
    np.testing.assert_allclose(spread, ((x - mean[:, None]) ** 2).sum(1) + x.max(1), rtol=1e-12)
    np.testing.assert_allclose(out, (x - mean[:, None]) * weight[:, None] * 2, rtol=1e-12)


def test_what_is_not_split(short):
    x, out = np.zeros((40, 1000), np.float32), np.zeros(40, np.float32)
    few = nests.reduction("sum", x[:8], out[:8], (1,))
    assert is_worth(few)
    assert not is_worth(nests.reduction("sum", x[:8, :100], out[:8], (1,)))
    assert not is_worth(nests.reduction("sum", x, out, (1,)))
    assert not is_worth(nests.softmax(x[:1], x[:1].copy(), 1))  # it keeps a row
    assert not is_worth(nests.running(x[:1], x[:1].copy(), 1))
    read = Access(0, (1,))
    ins, outs = (Buffer(float32, (1000,), (1,)),), (Buffer(float32, (), ()),)
    scan = NestStep((read, NestScan("sum", float32)), (Reduce("max", (0,), float32),), lambda m, a, run: run(a))
    dot = NestStep((read, read), (Reduce("dot", (0,), float32),), lambda m, a, b: (a, b))
    store = NestStep((Local(0),), (Access(0, (0,)),), lambda m, a: a, inner=False)
    assert not any(is_worth(Nest((1000,), ins, outs, (step, store), 1)) for step in (scan, dot))
    assert not is_worth(nests.reduction("sum", x[:0], out[:0], (1,)))


# -- other machines ------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("features", [(), ("avx", "avx2", "fma")])
@pytest.mark.parametrize("size", [1000, 1009])
def test_the_bits_do_not_depend_on_the_machine(size, features, short):
    target = Target.host()
    if target.triple.split("-")[0] != "x86_64" or not set(features) <= set(target.features):
        pytest.skip("the machine has other instructions")
    x, wide, narrow = array(size, np.float32), np.empty((), np.float32), np.empty((), np.float32)
    nest = nests.reduction("sum", x, wide, (0,))
    run(nest, [x], [wide])
    other = Target(target.triple, "x86-64", features)
    run(nest, [x], [narrow], lambda nest, i, o: compile_nest(nest, other)(i, o))
    assert wide.tobytes() == narrow.tobytes()


@pytest.mark.parametrize("features", [(), ("avx", "avx2", "fma")])
def test_the_bits_of_columns_do_not_depend_on_the_machine(features, tall):
    target = Target.host()
    if target.triple.split("-")[0] != "x86_64" or not set(features) <= set(target.features):
        pytest.skip("the machine has other instructions")
    x, wide, narrow = array((1009, 67), np.float32), np.empty(67, np.float32), np.empty(67, np.float32)
    nest = nests.reduction("sum", x, wide, (0,))
    run(nest, [x], [wide])
    other = Target(target.triple, "x86-64", features)
    run(nest, [x], [narrow], lambda nest, i, o: compile_nest(nest, other)(i, o))
    assert wide.tobytes() == narrow.tobytes()


@pytest.mark.parametrize("monoid", ["sum", "argmax"])
def test_threads_of_a_gpu(monoid, short):
    x = array(1009, np.float32)
    out = np.empty((), np.int64 if monoid.startswith("arg") else np.float32)
    wanted = out.copy()
    nest = nests.reduction(monoid, x, out, (0,))
    compile_nest(nest)([x], [wanted])
    run(nest, [x], [out], emulated)
    np.testing.assert_allclose(out, wanted, rtol=1e-4)


# -- traced functions ----------------------------------------------------------------------------------------------

FUNCTIONS = {
    "sum": lambda x: x.sum(),
    "mean of squares": lambda x: (x * x).mean(),
    "stored and summed": lambda x: (y := x * 2, y.sum(), y.amax()),
    "max": lambda x: x.max(),
    "argmax": lambda x: x.argmax(),
    "argmin of rows": lambda x: x.reshape(2, -1).argmin(1),
    "max of rows": lambda x: x.reshape(2, -1).max(1),
    "var": lambda x: x.var(),
    "std of columns": lambda x: x.reshape(-1, 2).std(0),
    "norm": lambda x: x.norm(),
    "1-norm": lambda x: x.norm(1),
    "inf-norm": lambda x: x.norm(math.inf),
    "0-norm": lambda x: x.norm(0),
    "any": lambda x: (x > 3).any(),
    "all": lambda x: (x > -9).all(),
    "dot": lambda x: x.flatten().dot(x.flatten()),
    "dot of views": lambda x: x.flatten()[1::2].dot(x.flatten()[:-1:2]),
    "softmax": lambda x: x.flatten().softmax(0),
    "log_softmax of columns": lambda x: x.reshape(-1, 2).log_softmax(0),
    "logsumexp": lambda x: x.flatten().logsumexp(0),
    "normalised": lambda x: (x - x.mean()) / x.std(),
    "layer norm": lambda x: jit.nn.functional.layer_norm(x, x.shape),
    "prod": lambda x: (1 + x / 1000).prod(),
    "weighted": lambda x: (x.reshape(-1, 2) * x.reshape(-1, 2)[0].sigmoid()).sum(0),
}


def normal(shape, dtype="float32"):
    return jit.from_numpy(array(shape, dtype) / 4)


def results(function, *tensors):
    """Of the third call, which is native."""
    traced = jit.trace(function)
    with jit.no_grad():
        for _ in range(3):
            found = traced(*tensors)
    return traced, found if isinstance(found, tuple) else (found,)


@pytest.mark.parametrize(
    ("dtype", "shape"), [("float32", (40, 50)), ("float64", (22, 91)), ("float32", (2018,)), ("float16", (2018,))]
)
@pytest.mark.parametrize("name", FUNCTIONS)
def test_functions(name, shape, dtype, monkeypatch):
    if dtype == "float16" and name.startswith("dot"):
        return  # not native
    monkeypatch.setattr(split, "BLOCK_POINTS", 100)
    monkeypatch.setattr("jit.runtime.kernels.fusion.KEPT_BYTES", 400)
    x = normal(shape, dtype)
    traced, found = results(FUNCTIONS[name], x)
    assert any(kernel.name.endswith("_blocks") for kernel in traced.kernels)
    expected = FUNCTIONS[name](x)
    expected = expected if isinstance(expected, tuple) else (expected,)
    rounding = 1e-5 if dtype != "float16" else 4e-3
    for a, b in zip(found, expected, strict=True):
        assert a.dtype is b.dtype and a.shape == b.shape
        np.testing.assert_allclose(a.numpy(), b.numpy(), rtol=rounding, atol=rounding)


OF_COLUMNS = {
    "sum": lambda x: x.sum(0),
    "var": lambda x: x.var(0),
    "softmax": lambda x: x.softmax(0),
    "argmax": lambda x: (x * 2).argmax(0),
    "normalised": lambda x: (x - x.mean(0)) * x.var(0).rsqrt(),
}


@pytest.mark.parametrize("name", OF_COLUMNS)
def test_functions_of_columns(name, tall, monkeypatch):
    monkeypatch.setattr("jit.runtime.kernels.fusion.KEPT_BYTES", 400)
    x = normal((131, 40))
    traced, (found,) = results(OF_COLUMNS[name], x)
    assert any(kernel.name.endswith("_blocks") for kernel in traced.kernels)
    np.testing.assert_allclose(found.numpy(), OF_COLUMNS[name](x).numpy(), rtol=1e-5, atol=1e-5)


def test_backward(monkeypatch):
    monkeypatch.setattr(split, "BLOCK_POINTS", 100)
    monkeypatch.setattr("jit.runtime.kernels.fusion.KEPT_BYTES", 400)

    def loss(x, w):
        return (x * w).flatten().softmax(0)[0]

    traced, gradients = jit.trace(loss), []
    for function in (loss, traced, traced, traced):
        x, w = normal((1003, 2)).requires_grad_(), normal((2,)).requires_grad_()
        function(x, w).backward()
        gradients.append((x.grad.numpy(), w.grad.numpy()))
    assert any(kernel.name.endswith("_blocks") and kernel.stage for kernel in traced.kernels)
    for a, b in zip(gradients[0], gradients[-1], strict=True):
        np.testing.assert_allclose(a, b, rtol=1e-5, atol=1e-7)


def test_work_is_counted_once():
    x = normal((300, 400))
    traced, _ = results(lambda x: x.sum(), x)
    blocks, rows = traced.kernels
    assert blocks.flops + rows.flops == x.numel()
    assert blocks.flops > 0.9 * x.numel() and blocks.bytes >= 4 * x.numel()
