"""Maxima and means of windows in plans: bit for bit what the interpreter finds, NaN and padding included."""

import ctypes
from typing import Any

import numpy as np
import pytest

import jit
import jit.nn.functional as F
from jit.ir import parse
from jit.ir.errors import DimError
from jit.ir.pooling import PoolGeometry
from jit.runtime.arrays.interpreter import Interpreter
from jit.runtime.plans import pool
from jit.runtime.plans.plan import PlannedEngine
from jit.runtime.products.pooling import MaxPoolWork, MaxUnpoolWork, MeanPoolWork
from jit.runtime.targets.target import Target
from tests.runtime.guarded import guarded

pytestmark = [
    pytest.mark.llvm,
    pytest.mark.skipif(not Target.host().has_convolutions, reason="no pooling for this machine"),
]

SIGNATURE = ctypes.CFUNCTYPE(ctypes.c_int32, ctypes.c_void_p, ctypes.c_void_p)
POOLS = {
    "halves": PoolGeometry((2, 2), (2, 2), (0, 0), (1, 1), False),
    "overlapping": PoolGeometry((3, 3), (2, 2), (1, 1), (1, 1), False),
    "dilated": PoolGeometry((3, 2), (1, 1), (1, 1), (2, 1), False),
    "hanging over": PoolGeometry((2, 2), (2, 2), (1, 1), (1, 1), True),
    "stride 4": PoolGeometry((4, 4), (4, 4), (0, 0), (1, 1), False),
}
SHAPES = [(2, 3, 8, 8), (2, 3, 17, 33), (5, 9, 7), (1, 2, 40, 64)]


def text_of(pool, shape, kind, outputs=("%0", "%1", "%2")):
    places = pool.places(shape[-2:])
    small, large = (", ".join(map(str, s)) for s in ((*shape[:-2], *places), shape))
    arguments = ", ".join(f"{k}={list(v)}" for k, v in zip(("kernel_size", "stride", "padding", "dilation"), pool))
    arguments += f", ceil_mode={pool.ceil}"
    return (
        f"graph(%x : {kind}({large})) {{ %0 : {kind}({small}), %1 : Long({small}) = "
        f"aten::max_pool2d_with_indices[{arguments}](%x)\n %2 : {kind}({large}) = "
        f"aten::max_pool2d_with_indices_backward[{arguments}](%0, %x, %1) return ({', '.join(outputs)}) }}"
    )


def awkward(shape, dtype):
    x = np.random.default_rng(sum(shape)).standard_normal(shape).astype(dtype)
    x[..., :3, :3] = -np.inf
    x.flat[40::97] = np.nan
    x.flat[7::31] = np.inf
    x[..., -2:, -3:] = 1.5  # equals
    x[..., 4, :] = -0.0
    return x


@pytest.mark.parametrize("shape", SHAPES)
@pytest.mark.parametrize("name", POOLS)
@pytest.mark.parametrize("kind", ["Float", "Double"])
def test_plans_agree_with_the_interpreter(name, shape, kind):
    x = awkward(shape, {"Float": np.float32, "Double": np.float64}[kind])
    text = text_of(POOLS[name], shape, kind)
    planned = PlannedEngine(parse(text))
    found, expected = planned.run(0, [x])[0], Interpreter(parse(text)).run(0, [x])[0]
    whole = planned.native_call(0)
    assert whole is not None
    assert [type(step.work) for step in whole.code.lowering.steps] == [MaxPoolWork, MaxUnpoolWork]
    for a, b in zip(found, expected, strict=True):
        np.testing.assert_array_equal(a, b)


@pytest.mark.parametrize("name", POOLS)
def test_indices_that_nobody_reads_are_not_written(name):
    x = awkward((2, 3, 17, 33), np.float32)
    text = text_of(POOLS[name], x.shape, "Float", ["%0"]).split("\n")[0] + " return (%0) }"
    planned = PlannedEngine(parse(text))
    np.testing.assert_array_equal(planned.run(0, [x])[0][0], Interpreter(parse(text)).run(0, [x])[0][0])
    whole = planned.native_call(0)
    assert whole is not None
    assert len(whole.code.lowering.steps[0].operands) == 2


@pytest.mark.parametrize("at_end", [True, False])
@pytest.mark.parametrize("name", POOLS)
def test_nothing_beside_the_buffers_is_touched(name, at_end):
    x = awkward((2, 3, 17, 33), np.float32)
    text = text_of(POOLS[name], x.shape, "Float")
    expected = Interpreter(parse(text)).run(0, [x])[0]
    whole = PlannedEngine(parse(text)).native_call(0)
    assert whole is not None
    works: list[Any] = [step.work for step in whole.code.lowering.steps]
    pool, back = works
    made = [guarded(np.zeros_like(a), at_end) for a in expected]
    scratch = guarded(np.full(back.scratch_bytes, 0xFF, np.uint8), at_end)
    image = guarded(x, at_end)
    for work, arrays in ((pool, [image, *made[:2]]), (back, [*made, scratch])):
        data = np.array([a.ctypes.data for a in arrays], np.int64)
        for plane in reversed(range(work.panels)):
            geometry = work.geometry(plane, plane + 1)
            assert SIGNATURE(work.function())(data.ctypes.data, geometry.ctypes.data) == 0
    for a, b in zip(made, expected, strict=True):
        np.testing.assert_array_equal(a, b)


def test_sums_of_several_places_are_rounded_once():
    text = text_of(POOLS["overlapping"], (1, 1, 9, 9), "Float").replace("(%0, %x, %1)", "(%g, %x, %1)")
    text = text.replace("graph(%x", "graph(%g : Float(1, 1, 5, 5), %x")
    x = np.zeros((1, 1, 9, 9), np.float32)
    x[0, 0, ::4, ::4] = 1
    g = np.float32(2) ** np.random.default_rng(0).integers(-30, 30, (1, 1, 5, 5)).astype(np.float32)
    found = PlannedEngine(parse(text)).run(0, [g, x])[0][2]
    np.testing.assert_array_equal(found, Interpreter(parse(text)).run(0, [g, x])[0][2])


@pytest.mark.parametrize("index", [64, -1, 2**40])
def test_indices_out_of_range_are_refused(index):
    text = """graph(%g : Float(1, 1, 4, 4), %x : Float(1, 1, 8, 8), %i : Long(1, 1, 4, 4)) {
      %0 : Float(1, 1, 8, 8) = aten::max_pool2d_with_indices_backward[kernel_size=[2, 2], stride=[], padding=[0, 0],
        dilation=[1, 1], ceil_mode=False](%g, %x, %i)
      return (%0) }"""
    arrays: list[Any] = [
        np.ones((1, 1, 4, 4), np.float32),
        np.ones((1, 1, 8, 8), np.float32),
        np.zeros((1, 1, 4, 4), np.int64),
    ]
    planned = PlannedEngine(parse(text.replace(",\n       ", ",")))
    assert planned.run(0, arrays)[0][0].sum() == 16
    arrays[2].flat[9] = index
    with pytest.raises(DimError, match="out of range"):
        planned.run(0, arrays)


def test_results_do_not_depend_on_the_number_of_threads(monkeypatch):
    x = awkward((16, 32, 120, 64), np.float32)
    text = text_of(POOLS["overlapping"], x.shape, "Float")
    results = []
    for threads in ("1", "3"):
        monkeypatch.setenv("JIT_NUM_THREADS", threads)
        planned = PlannedEngine(parse(text))
        results.append(planned.run(0, [x])[0])
        whole = planned.native_call(0)
        assert whole is not None
        assert whole.code.program[3] % pool.WAKES == int(threads)
    for one, three in zip(*results, strict=True):
        np.testing.assert_array_equal(one, three)


# -- means -------------------------------------------------------------------------------------------------------

MEANS = {
    "halves": (PoolGeometry((2, 2), (2, 2), (0, 0), (1, 1), False), ""),
    "overlapping": (PoolGeometry((3, 3), (2, 2), (1, 1), (1, 1), False), ""),
    "without what is beside": (PoolGeometry((3, 2), (1, 1), (1, 1), (1, 1), False), ", count_include_pad=False"),
    "hanging over": (PoolGeometry((2, 2), (2, 2), (1, 1), (1, 1), True), ""),
    "hanging over, without": (PoolGeometry((3, 3), (2, 2), (1, 1), (1, 1), True), ", count_include_pad=False"),
    "by a number": (PoolGeometry((4, 4), (4, 4), (0, 0), (1, 1), False), ", divisor_override=3"),
}


def means_of(name, shape, kind):
    """A graph of one mean pooling, as text."""
    pool, more = MEANS[name]
    small, large = (", ".join(map(str, s)) for s in ((*shape[:-2], *pool.places(shape[-2:])), shape))
    given = f"kernel_size={list(pool.kernel)}, stride={list(pool.stride)}, padding={list(pool.padding)}"
    call = f"aten::avg_pool2d[{given}, ceil_mode={pool.ceil}{more}](%x)"
    return f"graph(%x : {kind}({large})) {{ %0 : {kind}({small}) = {call} return (%0) }}"


def same_bits(found, expected):
    np.testing.assert_array_equal(found, expected)
    numbers = ~np.isnan(expected)
    np.testing.assert_array_equal(np.signbit(found)[numbers], np.signbit(expected)[numbers])


@pytest.mark.parametrize("shape", SHAPES)
@pytest.mark.parametrize("name", MEANS)
@pytest.mark.parametrize("kind", ["Float", "Double"])
def test_means_are_those_of_the_interpreter(name, shape, kind):
    x = awkward(shape, {"Float": np.float32, "Double": np.float64}[kind])
    graph = parse(means_of(name, shape, kind))
    with np.errstate(all="ignore"):
        (expected,) = Interpreter(graph).run(0, [x])[0]
    planned = PlannedEngine(graph)
    whole = planned.native_call(0)
    assert whole is not None
    assert [type(step.work) for step in whole.code.lowering.steps] == [MeanPoolWork]
    same_bits(planned.run(0, [x])[0][0], expected)
    turned = np.ascontiguousarray(x.swapaxes(-1, -2)).swapaxes(-1, -2)
    same_bits(planned.run(0, [turned])[0][0], expected)
    zeros = np.full_like(x, -0.0)
    same_bits(planned.run(0, [zeros])[0][0], Interpreter(graph).run(0, [zeros])[0][0])


@pytest.mark.parametrize("at_end", [True, False])
@pytest.mark.parametrize("name", MEANS)
def test_means_touch_nothing_beside_the_buffers_in_any_parts(name, at_end):
    x = awkward((2, 3, 17, 33), np.float32)
    graph = parse(means_of(name, x.shape, "Float"))
    with np.errstate(all="ignore"):
        (expected,) = Interpreter(graph).run(0, [x])[0]
    whole = PlannedEngine(graph).native_call(0)
    assert whole is not None
    work: Any = whole.code.lowering.steps[0].work
    here, there = guarded(x, at_end), guarded(np.full_like(expected, 7), at_end)
    data = np.array([here.ctypes.data, there.ctypes.data], np.int64)
    for plane in reversed(range(work.panels)):
        geometry = work.geometry(plane, plane + 1)
        assert SIGNATURE(work.function())(data.ctypes.data, geometry.ctypes.data) == 0
    same_bits(there, expected)


@pytest.mark.parametrize(
    "arguments", ["kernel_size=[2]", "kernel_size=[2, 2], stride=[]", "kernel_size=[2], stride=[2]"]
)
def test_arguments_may_be_one_number_or_missing(arguments):
    x = awkward((2, 3, 8, 8), np.float32)
    pool = f"%0 : Float(2, 3, 4, 4) = aten::avg_pool2d[{arguments}](%x)"
    graph = parse(f"graph(%x : Float(2, 3, 8, 8)) {{ {pool} return (%0) }}")
    planned = PlannedEngine(graph)
    assert planned.native_call(0) is not None
    with np.errstate(all="ignore"):
        same_bits(planned.run(0, [x])[0][0], Interpreter(graph).run(0, [x])[0][0])


@pytest.mark.parametrize("kind, why", [("Half", ""), ("Long", ""), ("Float", ", divisor_override=0")])
def test_other_means_are_left_to_the_interpreter(kind, why):
    pool = f"%0 : {kind}(1, 4, 4) = aten::avg_pool2d[kernel_size=[2, 2]{why}](%x)"
    text = f"graph(%x : {kind}(1, 8, 8)) {{ {pool} return (%0) }}"
    assert PlannedEngine(parse(text)).native_call(0) is None


# -- what is spelled out -----------------------------------------------------------------------------------------

SPELLED: dict[str, dict[str, Any]] = {
    "side by side": dict(kernel_size=2),
    "a rest that no window meets": dict(kernel_size=[3, 5]),
    "overlapping": dict(kernel_size=3, stride=2, padding=1),
    "without what is beside": dict(kernel_size=[3, 2], stride=1, padding=1, count_include_pad=False),
    "by a number": dict(kernel_size=[2, 4], stride=[2, 4], divisor_override=3),
    "beyond the stride": dict(kernel_size=2, stride=4),
}
"""Mean pooling whose gradients are other operators in plans."""
PRECISION = {"float32": 3e-7, "float64": 5e-16, "float16": 0, "bfloat16": 0}


@pytest.mark.parametrize("dtype", PRECISION)
@pytest.mark.parametrize("name", SPELLED, ids=[name.replace(" ", "_") for name in SPELLED])
def test_gradients_of_means(name: str, dtype: str) -> None:
    """First and second derivatives in plans are those of the interpreter, but for the order of sums."""

    def step(x: jit.Tensor) -> tuple[jit.Tensor, ...]:
        y = F.avg_pool2d(x, **SPELLED[name])
        (first,) = jit.grad((y * y).sum(), x, create_graph=True)
        (second,) = jit.grad((first * first).sum(), x)
        return y.detach(), first.detach(), second

    traced = jit.trace(step)
    for sizes in [(2, 3, 16, 18)] * 3 + [(3, 17, 11)] * 3:
        x = jit.from_numpy(np.random.default_rng(0).standard_normal(sizes)).to(getattr(jit, dtype)).requires_grad_()
        for found, expected in zip(traced(x), step(x), strict=True):
            assert found.dtype is expected.dtype
            error = np.abs((found.double() - expected.double()).numpy()).max()
            assert error <= PRECISION[dtype] * max(np.abs(expected.double().numpy()).max(), 1)
    text = str(traced.graphs[-1].graph)
    assert "avg_pool2d_backward" not in text or (dtype in ("float16", "bfloat16") and name in HALVES_LEFT)


HALVES_LEFT = ("overlapping", "without what is beside", "beyond the stride")
"""Windows whose gradients are a convolution in plans, which there is none of for 16-bit floats."""


def test_gradients_of_means_of_any_size() -> None:
    traced = jit.trace(lambda x: jit.grad((F.avg_pool2d(x, 2) ** 2).sum(), x)[0])
    for n in (4, 6, 6, 10, 7, 9, 2):
        x = jit.from_numpy(np.random.default_rng(n).standard_normal((n, 2, n, 5))).requires_grad_()
        expected = jit.grad((F.avg_pool2d(x, 2) ** 2).sum(), x)[0]
        np.testing.assert_allclose(traced(x).numpy(), expected.numpy(), rtol=1e-14)
