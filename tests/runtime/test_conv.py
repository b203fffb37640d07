"""Convolutions: all three maps against float64, in any parts, beside forbidden pages, and in plans."""

import ctypes
import itertools
import math
import os
import subprocess
import sys
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from jit.ir import dtypes, parse
from jit.ops.convolving import ConvGeometry, by_input, by_weight, forward
from jit.runtime.arrays.array_math import numpy_math
from jit.runtime.arrays.interpreter import Interpreter
from jit.runtime.llvm.product_tiles import lanes_of
from jit.runtime.plans.plan import PlannedEngine
from jit.runtime.plans.views import flops_of, work_of_step
from jit.runtime.products import conv, conv_weight, pooling
from jit.runtime.products.conv_folded import FoldedConvolution
from jit.runtime.products.conv_steps import layer_of, parts_by_input, phases
from jit.runtime.products.conv_weight import WeightGradient
from jit.runtime.targets.target import Target
from tests.runtime.guarded import guarded

pytestmark = [
    pytest.mark.llvm,
    pytest.mark.skipif(not Target.host().has_convolutions, reason="no convolutions for this machine"),
]

SIGNATURE = ctypes.CFUNCTYPE(ctypes.c_int32, ctypes.c_void_p, ctypes.c_void_p)
# batch, channels, filters, image, kernel, stride, padding, dilation, groups
CASES: dict[str, Any] = {
    "plain": (2, 3, 9, (10, 21), (3, 3), 1, 1, 1, 1),
    "one tap": (2, 19, 8, (5, 9), (1, 1), 1, 0, 1, 1),
    "one tap, strided": (1, 5, 12, (9, 13), (1, 1), 2, 0, 1, 1),
    "one tap, padded": (1, 3, 8, (4, 6), (1, 1), 1, 2, 1, 1),
    "strided": (2, 4, 17, (15, 30), (3, 3), 2, 1, 1, 1),
    "stem": (1, 3, 16, (40, 37), (7, 7), 2, 3, 1, 1),
    "stride 4": (1, 3, 8, (23, 45), (5, 5), 4, 2, 1, 1),
    "strides that differ": (1, 2, 8, (15, 14), (3, 2), (3, 1), (0, 2), 1, 1),
    "dilated": (1, 3, 9, (20, 19), (3, 3), 1, 2, 2, 1),
    "dilated and strided": (1, 3, 9, (20, 19), (3, 4), 2, 3, (2, 3), 1),
    "more padding than kernel": (1, 2, 8, (6, 5), (2, 2), 1, 4, 1, 1),
    "half a vector at the end": (2, 5, 19, (7, 7), (3, 3), 1, 1, 1, 1),
    "half a vector at the end, many channels": (1, 150, 9, (3, 7), (3, 3), 1, 1, 1, 1),
    "narrow": (3, 4, 8, (9, 4), (3, 3), 1, 1, 1, 1),
    "one place": (2, 6, 11, (3, 3), (3, 3), 1, 0, 1, 1),
    "groups": (2, 6, 24, (9, 17), (3, 3), 1, 1, 1, 3),
    "few filters a group": (1, 12, 8, (8, 16), (3, 3), 1, 1, 1, 4),
    "depthwise": (2, 11, 11, (9, 20), (3, 3), 1, 1, 1, 11),
    "depthwise, 8": (1, 16, 16, (7, 32), (5, 5), 1, 2, 1, 16),
    "depthwise, many": (2, 69, 69, (5, 18), (3, 3), 1, 1, 1, 69),
    "depthwise, many, even": (1, 64, 64, (4, 40), (3, 3), (2, 4), 1, 1, 64),
    "depthwise, strided": (2, 9, 9, (14, 33), (3, 3), 2, 1, 1, 9),
    "many channels": (1, 150, 10, (4, 8), (3, 3), 1, 1, 1, 1),
    "many places": (1, 2, 8, (70, 70), (3, 3), 1, 1, 1, 1),
    "one dim": (2, 5, 9, (50,), (5,), 1, 2, 2, 1),
    "three dims": (1, 3, 8, (5, 6, 9), (3, 3, 3), 1, 1, 1, 1),
    "three dims, strided": (1, 2, 8, (5, 7, 9), (2, 3, 3), (1, 2, 2), (0, 1, 1), 1, 1),
}


class Case:
    """The arrays of one case: x, the weight, y's gradient, and the window in two spellings."""

    def __init__(self, name, dtype):
        batch, channels, filters, image, kernel, stride, padding, dilation, groups = CASES[name]
        n = len(image)
        stride, padding, dilation = ((v,) * n if isinstance(v, int) else v for v in (stride, padding, dilation))
        self.window = ConvGeometry(stride, padding, dilation, groups)
        places = self.window.places(image, kernel)
        rng = np.random.default_rng(len(name))
        shapes = (batch, channels, *image), (filters, channels // groups, *kernel), (batch, filters, *places)
        self.x, self.w, self.g = (rng.standard_normal(s).astype(dtype.numpy) for s in shapes)
        self.bias = rng.standard_normal(filters).astype(dtype.numpy)
        arguments = dict(stride=stride, padding=padding, dilation=dilation, groups=groups)
        self.layer = layer_of(*shapes, arguments, dtype)
        self.text = ", ".join(f"{k}={list(v)}" for k, v in list(arguments.items())[:3])
        self.text += f", transposed=False, output_padding={[0] * n}, groups={groups}"


def cases(*names):
    return pytest.mark.parametrize(
        ("name", "dtype"), list(itertools.product(names or CASES, (dtypes.float32, dtypes.float64)))
    )


def run(work, *arrays, order=None):
    scratch = np.full(work.scratch_bytes + 64, 0xFF, np.uint8)  # NaN
    start = -scratch.ctypes.data % 64
    data = np.array([*(a.ctypes.data for a in arrays), scratch.ctypes.data + start], np.int64)
    for first, last in order or [(0, None)]:
        geometry = work.geometry(first, last)
        assert SIGNATURE(work.function())(data.ctypes.data, geometry.ctypes.data) == 0


def wide(*arrays):
    return [a.astype(np.longdouble) for a in arrays]


def close(found, exact, magnitude, terms):
    """Within what so many roundings in a row may do."""
    eps = np.finfo(found.dtype).eps
    return bool((abs(found - exact) <= eps * (terms + 2) * magnitude + np.finfo(found.dtype).tiny).all())


@cases()
@pytest.mark.parametrize("at_end", [True, False])
@pytest.mark.parametrize("bias", [True, False])
def test_forward(name, dtype, at_end, bias):
    case = Case(name, dtype)
    work = case.layer.forward(bias)
    if name == "narrow":
        assert work.segments == lanes_of(dtype) // 4
    assert conv.supports(work)
    x, w, b, y = (guarded(a, at_end) for a in (case.x, case.w, case.bias, np.full_like(case.g, np.nan)))
    run(work, x, w, *([b] if bias else []), y)
    shape = (-1, *(1,) * len(work.window.flat().image[: x.ndim - 2]))
    exact, magnitude = (
        forward(numpy_math, pair[0], pair[1], case.window) for pair in (wide(x, w), wide(abs(x), abs(w)))
    )
    if bias:
        exact, magnitude = exact + b.reshape(shape), magnitude + abs(b.reshape(shape))
    assert close(y, exact, magnitude, work.rows)


@cases()
@pytest.mark.parametrize("at_end", [True, False])
def test_weight_gradients(name, dtype, at_end):
    case = Case(name, dtype)
    work = WeightGradient(case.layer.forward())
    x, g, w = (guarded(a, at_end) for a in (case.x, case.g, np.full_like(case.w, np.nan)))
    run(work, x, g, w)
    kernel = w.shape[2:]
    exact, magnitude = (
        by_weight(numpy_math, pair[0], pair[1], kernel, case.window) for pair in (wide(g, x), wide(abs(g), abs(x)))
    )
    assert close(w, exact, magnitude, len(x) * math.prod(g.shape[2:]) + 16)


@cases("plain", "groups", "depthwise", "depthwise, many", "stem", "many channels", "many places", "three dims")
def test_parts_change_no_bit(name, dtype):
    case = Case(name, dtype)
    for work, arrays, like in (
        (case.layer.forward(True), (case.x, case.w, case.bias), case.g),
        (WeightGradient(case.layer.forward()), (case.x, case.g), case.w),
    ):
        whole, by_parts = np.full_like(like, np.nan), np.full_like(like, np.nan)
        run(work, *arrays, whole)
        run(work, *arrays, by_parts, order=[(i, i + 1) for i in reversed(range(work.panels))])
        np.testing.assert_array_equal(whole, by_parts)


@cases()
def test_patches_that_are_laid_out_change_no_bit(name, dtype, monkeypatch):
    """Note [Direct], with any number of segments; each part computes what is its own alone."""
    case, found = Case(name, dtype), []
    for few in (0, 99):
        monkeypatch.setattr(conv, "_FEW_FILTERS", (few,) * 4)
        work = case.layer.forward(True)
        x, w, b, y = (guarded(a, True) for a in (case.x, case.w, case.bias, np.full_like(case.g, np.nan)))
        run(work, x, w, b, y, order=[(i, min(i + 3, work.panels)) for i in reversed(range(0, work.panels, 3))])
        found.append(y)
        direct = few and case.layer.channels > 1 and max(case.layer.window.stride) == 1
        assert work.is_direct == bool(direct)
    np.testing.assert_array_equal(found[0], found[1])


@cases("plain", "depthwise", "stem")
def test_what_is_negative_is_lost_and_nan_is_not(name, dtype):
    case = Case(name, dtype)
    case.x.flat[3] = np.nan
    plain, cut = np.empty_like(case.g), np.empty_like(case.g)
    run(case.layer.forward(), case.x, case.w, plain)
    run(replace(case.layer.forward(), relu=True), case.x, case.w, cut)
    assert np.isnan(plain).any()
    assert (plain < 0).any()
    np.testing.assert_array_equal(cut, np.maximum(plain, 0))


def test_entries_beside_the_image_are_zeros_whatever_the_numbers():
    case = Case("plain", dtypes.float32)
    case.w[...], case.x[...] = np.inf, 1.0
    with np.errstate(invalid="ignore"):
        expected = forward(numpy_math, case.x, case.w, case.window)
    found = np.empty_like(case.g)
    run(case.layer.forward(), case.x, case.w, found)
    assert np.isnan(expected).any()
    np.testing.assert_array_equal(found, expected)


@pytest.mark.parametrize(("size", "kernel"), [(9, 3), (7, 2), (5, 5), (3, 1)])
@pytest.mark.parametrize(("stride", "padding", "dilation"), [(1, 0, 1), (2, 1, 1), (3, 1, 2), (4, 2, 2), (2, 0, 4)])
def test_phases_meet_each_tap_where_the_convolution_does(size, kernel, stride, padding, dilation):
    count = (size + 2 * padding - dilation * (kernel - 1) - 1) // stride + 1
    meets = {(p * stride + t * dilation - padding, t, p) for p in range(count) for t in range(kernel)}
    wanted = {(x, t, p) for x, t, p in meets if 0 <= x < size}
    found = set()
    for phase in phases(size, kernel, stride, padding, dilation):
        for k, t in itertools.product(range(phase.entries), range(phase.taps)):
            tap = phase.tap + (phase.taps - 1 - t) * phase.every
            place = k + t * phase.dilation - phase.padding
            if 0 <= place < count:
                found.add((phase.first + k * stride, tap, place))
    assert found == wanted


# -- plans -------------------------------------------------------------------------------------------------------


def show(a):
    name = {np.float32: "Float", np.float64: "Double"}[a.dtype.type]
    return f"{name}({', '.join(map(str, a.shape))})"


def in_plan(text, arrays):
    """The outputs of one native call."""
    planned = PlannedEngine(parse(text))
    found = planned.run(0, arrays)[0]
    whole = planned.native_call(0)
    assert whole is not None
    kinds = conv.ConvolutionWork | FoldedConvolution | WeightGradient
    assert any(isinstance(step.work, kinds) for step in whole.code.lowering.steps)
    return found


@cases("plain", "groups", "depthwise", "stem", "many channels")
@pytest.mark.parametrize("kept", [False, True])
def test_a_relu_is_part_of_a_convolution_that_nobody_else_reads(name, dtype, kept):
    case = Case(name, dtype)
    case.x.flat[3] = np.nan
    y = show(case.g)
    text = (
        f"graph(%x : {show(case.x)}, %w : {show(case.w)}, %b : {show(case.bias)}) {{ "
        f"%0 : {y} = aten::convolution[{case.text}](%x, %w, %b) %1 : {y} = aten::relu(%0) "
        f"%2 : {y} = aten::neg(%1) return (%2, {'%0' if kept else '%1'}) }}"
    )
    planned = PlannedEngine(parse(text))
    negative, found = planned.run(0, [case.x, case.w, case.bias])[0]
    plain = in_plan(text.replace("%2, %1", "%2, %0"), [case.x, case.w, case.bias])[1]
    assert (plain < 0).any() and np.isnan(plain).any()
    np.testing.assert_array_equal(found, plain if kept else np.maximum(plain, 0))
    np.testing.assert_array_equal(negative, -np.maximum(plain, 0))
    whole = planned.native_call(0)
    assert whole is not None
    works = [step.work for step in whole.code.lowering.steps]
    assert [w.relu for w in works if isinstance(w, conv.ConvolutionWork)] == [not kept]
    assert len(works) == 2 + kept


@cases()
def test_gradients_in_plans(name, dtype):
    case = Case(name, dtype)
    if case.layer.filters < 8 and not case.layer.forward().is_depthwise:
        return _declined_gradient(case)
    b = case.bias
    text = (
        f"graph(%g : {show(case.g)}, %x : {show(case.x)}, %w : {show(case.w)}) {{ %0 : {show(case.x)}, "
        f"%1 : {show(case.w)}, %2 : {show(b)} = aten::convolution_backward[bias_sizes={list(b.shape)}, {case.text}, "
        f"output_mask=[True, True, True]](%g, %x, %w) return (%0, %1, %2) }}"
    )
    by_x, by_w, by_b = in_plan(text, [case.g, case.x, case.w])
    size, kernel, window = case.x.shape[2:], case.w.shape[2:], case.window
    exact, size_of = (
        by_input(numpy_math, pair[0], pair[1], size, window)
        for pair in (wide(case.g, case.w), wide(abs(case.g), abs(case.w)))
    )
    assert close(by_x, exact, size_of, case.layer.filters * math.prod(kernel))
    exact, size_of = (
        by_weight(numpy_math, pair[0], pair[1], kernel, window)
        for pair in (wide(case.g, case.x), wide(abs(case.g), abs(case.x)))
    )
    assert close(by_w, exact, size_of, len(case.g) * math.prod(case.g.shape[2:]) + 16)
    axes = (0, *range(2, case.g.ndim))
    exact, size_of = (np.sum(a, axes) for a in wide(case.g, abs(case.g)))
    assert close(by_b, exact, size_of, 260)


def _declined_gradient(case):
    text = (
        f"graph(%g : {show(case.g)}, %x : {show(case.x)}, %w : {show(case.w)}) {{ %0 : Undefined, %1 : {show(case.w)}, "
        f"%2 : Undefined = aten::convolution_backward[bias_sizes=None, {case.text}, "
        f"output_mask=[False, True, False]](%g, %x, %w) return (%1) }}"
    )
    arrays = [case.g, case.x, case.w]
    planned = PlannedEngine(parse(text))
    np.testing.assert_array_equal(planned.run(0, arrays)[0][0], Interpreter(parse(text)).run(0, arrays)[0][0])
    assert planned.native_call(0) is None


@cases(
    "plain", "strided", "stem", "dilated and strided", "depthwise, strided", "groups", "one dim", "three dims, strided"
)
@pytest.mark.parametrize("biased", [True, False])
def test_transposed_convolutions_in_plans(name, dtype, biased):
    case = Case(name, dtype)
    sizes = case.window.image(case.g.shape[2:], case.w.shape[2:], [0] * (case.g.ndim - 2))
    rng = np.random.default_rng(0)
    channels = case.x.shape[1]
    out = np.empty((len(case.g), channels, *sizes), dtype.numpy)
    bias = rng.standard_normal((channels,)).astype(dtype.numpy)
    text = case.text.replace("transposed=False", "transposed=True")
    more = f", %b : {show(bias)}" if biased else ""
    call = f"aten::convolution[{text}](%g, %w, %b)" if biased else f"aten::convolution[bias=None, {text}](%g, %w)"
    graph = f"graph(%g : {show(case.g)}, %w : {show(case.w)}{more}) {{ %0 : {show(out)} = {call} return (%0) }}"
    found = in_plan(graph, [case.g, case.w, bias][: 2 + biased])[0]
    pairs = wide(case.g, case.w), wide(abs(case.g), abs(case.w))
    exact, magnitude = (by_input(numpy_math, pair[0], pair[1], sizes, case.window) for pair in pairs)
    if biased:
        b = bias.reshape(-1, *(1,) * (case.g.ndim - 2))
        exact, magnitude = exact + b, magnitude + abs(b)
    assert close(found, exact, magnitude, case.layer.filters * math.prod(case.w.shape[2:]))


PLAIN = "stride=[1, 1], padding=[1, 1], dilation=[1, 1], transposed=False, output_padding=[0, 0], groups=1"


def test_operands_that_lie_otherwise_are_copied():
    text = """graph(%x : Float(2, 3, 9, 8), %w : Float(8, 3, 3, 3)) {
      %0 : Float(2, 3, 8, 9, strides=[216, 72, 1, 8]) = aten::transpose.int[dim0=2, dim1=3](%x)
      %1 : Float(8, 3, 3, 3, strides=[27, 9, 1, 3]) = aten::transpose.int[dim0=2, dim1=3](%w)
      %2 : Float(2, 8, 8, 9) = aten::convolution[bias=None, PLAIN](%0, %1)
      return (%2) }""".replace("PLAIN", PLAIN)
    rng = np.random.default_rng(3)
    arrays = [rng.standard_normal(s).astype(np.float32) for s in ((2, 3, 9, 8), (8, 3, 3, 3))]
    expected = Interpreter(parse(text)).run(0, arrays)[0][0]
    np.testing.assert_allclose(in_plan(text, arrays)[0], expected, rtol=1e-5, atol=1e-5)


def works_with_tables():
    for name in ("plain", "depthwise"):
        layer = Case(name, dtypes.float32).layer
        yield layer.forward()
        yield WeightGradient(layer.forward())
    window = Case("depthwise", dtypes.float32).layer.forward().window
    yield pooling.MaxPoolWork(dtypes.float32, 22, window, True)
    yield pooling.MeanPoolWork(dtypes.float32, 22, window, False, True, None)


@pytest.mark.parametrize("work", list(works_with_tables()), ids=lambda work: type(work).__name__)
def test_work_keeps_the_arrays_of_its_geometry_whatever_caches_drop(work):
    numbers, kept = work.geometry().tolist(), work.kept
    for made in (conv.segment_tables, conv_weight._offsets, pooling._positions, pooling._divisors):
        made.cache_clear()  # as if another thread had put others there
    assert all(array.ctypes.data in numbers for array in kept)
    assert all(later is array for later, array in zip(work.kept, kept, strict=True))


def test_results_do_not_depend_on_the_number_of_threads(monkeypatch):
    text = """graph(%x : Float(3, 32, 40, 40), %w : Float(40, 32, 3, 3), %g : Float(3, 40, 40, 40)) {
      %0 : Float(3, 40, 40, 40) = aten::convolution[bias=None, PLAIN](%x, %w)
      %1 : Float(3, 32, 40, 40), %2 : Float(40, 32, 3, 3), %3 : Undefined = BACK(%g, %x, %w)
      return (%0, %1, %2) }"""
    text = text.replace("BACK", "aten::convolution_backward[bias_sizes=None, PLAIN, output_mask=[True, True, False]]")
    text = text.replace("PLAIN", PLAIN)
    rng = np.random.default_rng(2)
    shapes = (3, 32, 40, 40), (40, 32, 3, 3), (3, 40, 40, 40)
    arrays = [rng.standard_normal(s).astype(np.float32) for s in shapes]
    results = []
    for threads in ("1", "2", "5"):
        monkeypatch.setenv("JIT_NUM_THREADS", threads)
        results.append(in_plan(text, arrays))
    for one, two, five in zip(*results, strict=True):
        np.testing.assert_array_equal(one, two)
        np.testing.assert_array_equal(one, five)


@pytest.mark.parametrize(("mask", "maps"), [("[True, True, True]", 2), ("[False, True, False]", 1)])
def test_flops_are_two_for_each_tap_at_each_place(mask, maps):
    text = """graph(%x : Float(3, 4, 9, 8), %w : Float(8, 4, 3, 3), %g : Float(3, 8, 9, 8)) {
      %0 : Float(3, 8, 9, 8) = aten::convolution[bias=None, PLAIN](%x, %w)
      %1 : Float(3, 4, 9, 8), %2 : Float(8, 4, 3, 3), %3 : Float(8) = BACK(%g, %x, %w)
      return (%0, %1, %2, %3) }"""
    text = text.replace("BACK", "aten::convolution_backward[bias_sizes=[8], PLAIN, output_mask=MASK]")
    if maps == 1:
        text = text.replace("%1 : Float(3, 4, 9, 8)", "%1 : Undefined").replace("%3 : Float(8)", "%3 : Undefined")
        text = text.replace("(%0, %1, %2, %3)", "(%0, %2)")
    text = text.replace("PLAIN", PLAIN).replace("MASK", mask)
    one = 2 * 3 * 8 * 9 * 8 * 4 * 9
    whole = PlannedEngine(parse(text)).native_call(0)
    assert whole is not None
    steps = whole.code.lowering.steps
    assert [flops for step in steps if (flops := work_of_step(step)[1])] == [one] * (1 + maps)
    assert len(steps) > 1 + maps or maps == 1  # copies and the sum for the bias are not counted as convolutions
    forward_node, backward_node = (n for n in parse(text).nodes if n.kind.startswith("aten::convolution"))
    assert (flops_of(forward_node), flops_of(backward_node)) == (one, maps * one)


SHORTER = """
from jit.ir import dtypes
from jit.runtime.targets.target import Target

host = Target.host()
kept = {"avx", "avx2", "fma", "f16c", "sse", "sse2", "sse3", "ssse3", "sse4.1", "sse4.2", "popcnt", "mmx", "fxsr"}
lower = Target(host.triple, "haswell", tuple(f for f in host.features if f in kept))
Target.host = staticmethod(lambda: lower)
assert (lower.vector_bytes, lower.vector_registers) == (32, 16)
from tests.runtime import test_conv

for name in ("plain", "strided", "narrow", "groups", "depthwise, many", "depthwise, strided", "three dims"):
    for dtype in (dtypes.float32, dtypes.float64):
        test_conv.test_forward(name, dtype, True, True)
        test_conv.test_weight_gradients(name, dtype, True)
print("fine")
"""


def test_shorter_vectors():
    """Code for machines without AVX-512, on this one."""
    here = Path(__file__).parents[2]
    environment = {**os.environ, "JIT_CACHE": "off", "PYTHONPATH": str(here)}
    done = subprocess.run([sys.executable, "-c", SHORTER], capture_output=True, text=True, env=environment, cwd=here)
    assert done.stdout == "fine\n", done.stderr


def test_what_has_no_code():
    layer = Case("plain", dtypes.float32).layer
    assert conv.supports(layer.forward())
    assert not conv.supports(layer._replace(batch=0).forward())
    assert not conv.supports(layer._replace(window=layer.window._replace(stride=(1, 1, 3))).forward())
    assert not conv.supports(layer._replace(dtype=dtypes.float16).forward())
    tall = layer.window._replace(places=(1, 40, 1))  # every lane of a vector is in another row
    assert conv.supports(layer._replace(window=tall).forward()) == (lanes_of(dtypes.float32) <= 8)
    assert all(part.work is None or part.work.window.stride == (1, 1, 1) for part in parts_by_input(layer))
