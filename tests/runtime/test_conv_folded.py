"""Products that are folded: the map of a convolution by its input, against float64, in any parts, and at any size."""

import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from jit.ir import dtypes, parse
from jit.ops.convolving import ConvGeometry, by_input
from jit.runtime.arrays.array_math import numpy_math
from jit.runtime.llvm.product_tiles import lanes_of
from jit.runtime.plans.plan import PlannedEngine
from jit.runtime.products import conv_folded
from jit.runtime.products.conv_folded import FoldedConvolution, met_by
from jit.runtime.products.conv_steps import layer_of
from jit.runtime.targets.target import Target
from tests.runtime.guarded import guarded
from tests.runtime.test_conv import close, run, show, wide

pytestmark = [
    pytest.mark.llvm,
    pytest.mark.skipif(not Target.host().has_convolutions, reason="no convolutions for this machine"),
]

# batch, filters (channels of y), channels of x, places, kernel, stride, padding, output padding, dilation, groups
CASES: dict[str, Any] = {
    "generator": (1, 24, 10, (8, 8), (4, 4), 2, 1, 0, 1, 1),
    "side by side": (1, 9, 5, (11, 13), (2, 2), 2, 0, 0, 1, 1),
    "output padding": (2, 6, 5, (7, 10), (3, 3), 2, 1, 1, 1, 1),
    "strides that differ": (2, 5, 4, (6, 9), (4, 5), (3, 2), (0, 2), (2, 0), 1, 1),
    "stride 1": (3, 8, 6, (9, 17), (3, 3), 1, 1, 0, 1, 1),
    "stride 3": (1, 7, 9, (10, 12), (5, 4), 3, 1, 1, 1, 1),
    "stride 4": (2, 6, 3, (5, 40), (4, 8), 4, 2, 0, 1, 1),
    "stride 8": (2, 9, 6, (37,), (16,), 8, 4, 0, 1, 1),
    "taps that nothing meets": (2, 5, 3, (9, 6), (1, 2), 3, 0, 2, 1, 1),
    "more padding than kernel": (1, 4, 3, (9, 8), (3, 3), 2, 3, 0, 1, 1),
    "dilated": (2, 5, 4, (8, 9), (3, 3), 2, 1, 0, (2, 3), 1),
    "dilated by the stride": (1, 5, 4, (8, 9), (3, 2), 2, 0, 1, 2, 1),
    "groups": (3, 12, 18, (6, 7), (3, 3), 2, 1, 0, 1, 3),
    "depthwise": (2, 11, 11, (9, 10), (4, 4), 2, 1, 0, 1, 11),
    "one channel": (1, 30, 1, (12, 20), (2, 2), 2, 0, 0, 1, 1),
    "many small images": (12, 20, 6, (3, 2), (4, 4), 2, 1, 0, 1, 1),
    "a prime of images": (7, 9, 5, (5, 5), (3, 3), 2, 1, 0, 1, 1),
    "images of one entry": (37, 6, 4, (1, 1), (3, 3), 2, 1, 0, 1, 1),
    "many filters": (1, 700, 3, (5, 7), (3, 3), 2, 1, 0, 1, 1),
    "strips of rows": (2, 300, 2, (40, 33), (4, 4), 2, 1, 0, 1, 1),
    "strips of rows, dilated": (1, 300, 2, (60, 18), (3, 3), (3, 2), 1, 0, (4, 1), 1),
    "strips of a row": (1, 300, 3, (2000,), (4,), 2, 1, 0, 1, 1),
    "strips of a row, far apart": (1, 300, 2, (1500,), (5,), 3, 0, 2, 7, 1),
}


class Case:
    """The arrays of one case, and the window in two spellings."""

    def __init__(self, name, dtype):
        batch, filters, channels, places, kernel, *numbers, groups = CASES[name]
        n = len(places)
        stride, padding, extra, dilation = ((v,) * n if isinstance(v, int) else v for v in numbers)
        self.window = ConvGeometry(stride, padding, dilation, groups)
        image = self.window.image(places, kernel, extra)
        rng = np.random.default_rng(len(name))
        shapes = (batch, channels, *image), (filters, channels // groups, *kernel), (batch, filters, *places)
        _, self.w, self.y = (rng.standard_normal(s).astype(dtype.numpy) for s in shapes)
        self.bias = rng.standard_normal(channels).astype(dtype.numpy)
        self.x = np.full(shapes[0], np.nan, dtype.numpy)
        arguments = dict(stride=stride, padding=padding, dilation=dilation, groups=groups)
        self.layer = layer_of(*shapes, arguments, dtype)
        self.text = ", ".join(f"{k}={list(v)}" for k, v in list(arguments.items())[:3])
        self.text += f", transposed=True, output_padding={list(extra)}, groups={groups}"

    def exact(self, bias) -> tuple[Any, Any]:
        """The result in wider numbers, and the size of what is added up."""
        pairs: Any = wide(self.y, self.w), wide(abs(self.y), abs(self.w))
        exact, magnitude = (by_input(numpy_math, y, w, self.x.shape[2:], self.window) for y, w in pairs)
        b = self.bias.reshape(-1, *(1,) * (self.x.ndim - 2)) * bias
        return exact + b, magnitude + abs(b)

    @property
    def terms(self):
        """The roundings in a row: filters, then taps."""
        return self.layer.filters + self.layer.window.taps


cases = pytest.mark.parametrize("dtype", [dtypes.float32, dtypes.float64], ids=str)
names = pytest.mark.parametrize("name", CASES)


@names
@cases
@pytest.mark.parametrize("at_end", [True, False])
def test_against_wider_numbers(name, dtype, at_end):
    case = Case(name, dtype)
    for bias in (False, True):
        work = case.layer.folded(bias)
        assert conv_folded.supports(work)
        y, w, b, x = (guarded(a, at_end) for a in (case.y, case.w, case.bias, case.x))
        run(work, y, w, *([b] if bias else []), x)
        assert close(x, *case.exact(bias), case.terms)


def test_cases_have_strips_sets_of_images_and_segments():
    def work(name):
        return Case(name, dtypes.float32).layer.folded()

    assert all((len(work(name).strips) > 1) == name.startswith("strips") for name in CASES)
    assert work("many small images").images == 12
    assert work("a prime of images").images == 7
    assert work("images of one entry")._segments == lanes_of(dtypes.float32)


@names
def test_parts_change_no_bit(name):
    case = Case(name, dtypes.float32)
    work = case.layer.folded(True)
    whole, by_parts = case.x.copy(), case.x.copy()
    run(work, case.y, case.w, case.bias, whole)
    run(work, case.y, case.w, case.bias, by_parts, order=[(i, i + 1) for i in reversed(range(work.panels))])
    np.testing.assert_array_equal(whole, by_parts)


@names
@cases
@pytest.mark.parametrize("biased", [True, False])
def test_in_plans(name, dtype, biased):
    case = Case(name, dtype)
    more = f", %b : {show(case.bias)}" if biased else ""
    call = f"[{case.text}](%y, %w, %b)" if biased else f"[bias=None, {case.text}](%y, %w)"
    graph = (
        f"graph(%y : {show(case.y)}, %w : {show(case.w)}{more}) {{ "
        f"%0 : {show(case.x)} = aten::convolution{call} return (%0) }}"
    )
    found, works = _planned(graph, [case.y, case.w, case.bias][: 2 + biased])
    assert close(found[0], *case.exact(biased), case.terms)
    assert any(isinstance(work, FoldedConvolution) for work in works)


def _planned(graph, arrays):
    """The results of a plan, and the work of its steps."""
    planned = PlannedEngine(parse(graph))
    found = planned.run(0, arrays)[0]
    whole = planned.native_call(0)
    assert whole is not None
    return found, [step.work for step in whole.code.lowering.steps]


@names
def test_gradients_of_images_in_plans(name):
    case = Case(name, dtypes.float32)
    x = np.zeros_like(case.x)
    text = case.text.replace("transposed=True", "transposed=False")
    text = text[: text.index("output_padding")] + f"output_padding={[0] * (x.ndim - 2)}, groups={case.window.groups}"
    graph = (
        f"graph(%g : {show(case.y)}, %x : {show(x)}, %w : {show(case.w)}) {{ %0 : {show(x)}, %1 : Undefined, "
        f"%2 : Undefined = aten::convolution_backward[bias_sizes=None, {text}, output_mask=[True, False, False]]"
        f"(%g, %x, %w) return (%0) }}"
    )
    found, works = _planned(graph, [case.y, x, case.w])
    assert close(found[0], *case.exact(False), case.terms)
    assert any(isinstance(work, FoldedConvolution) for work in works)


def test_places_that_are_not_there_are_no_zeros_times_infinity():
    case = Case("generator", dtypes.float32)
    case.w[...], case.y[...] = np.inf, 1.0
    run(case.layer.folded(), case.y, case.w, case.x)
    assert (case.x == np.inf).all()


@pytest.mark.parametrize(("size", "kernel"), [(9, 3), (7, 2), (5, 5), (3, 1)])
@pytest.mark.parametrize(("stride", "padding", "dilation"), [(1, 0, 1), (2, 1, 1), (3, 1, 2), (4, 2, 2), (2, 0, 4)])
def test_taps_meet_entries_where_the_convolution_has_them(size, kernel, stride, padding, dilation):
    places, entries = range(-kernel * dilation, size + padding + 1), range(size * stride)
    wanted = {(p * stride + t * dilation - padding, t, p) for p in places for t in range(kernel)}
    found = {
        (n * stride + phase, tap, n + offset)
        for phase in range(stride)
        for tap, offset in met_by(phase, kernel, stride, padding, dilation)
        for n in range(size)
    }
    assert found == {(entry, tap, place) for entry, tap, place in wanted if entry in entries}


def test_results_do_not_depend_on_the_number_of_threads(monkeypatch):
    graph = """graph(%y : Float(3, 40, 20, 20), %w : Float(40, 32, 4, 4), %b : Float(32)) {
      %0 : Float(3, 32, 40, 40) = aten::convolution[stride=[2, 2], padding=[1, 1], dilation=[1, 1], transposed=True,
        output_padding=[0, 0], groups=1](%y, %w, %b) return (%0) }"""
    rng = np.random.default_rng(2)
    arrays = [rng.standard_normal(s).astype(np.float32) for s in ((3, 40, 20, 20), (40, 32, 4, 4), (32,))]
    results = []
    for threads in ("1", "2", "5"):
        monkeypatch.setenv("JIT_NUM_THREADS", threads)
        results.append(_planned(graph, arrays)[0][0])
    for other in results[1:]:
        np.testing.assert_array_equal(results[0], other)


def test_what_has_no_code_and_what_does_not_pay():
    layer = Case("generator", dtypes.float32).layer
    assert conv_folded.pays(layer.folded())
    assert not conv_folded.supports(layer._replace(dtype=dtypes.float16).folded())
    assert not conv_folded.supports(layer._replace(batch=0).folded())
    deep = layer.window._replace(image=(2, 16, 16), places=(2, 8, 8))
    assert not conv_folded.supports(layer._replace(window=deep).folded())
    wide_kernel = layer.window._replace(kernel=(1, 18, 18), padding=(0, 8, 8))
    assert not conv_folded.supports(layer._replace(window=wide_kernel).folded())
    steps = layer.window._replace(stride=(1, 1, 1), image=(1, 9, 9))
    assert conv_folded.pays(layer._replace(window=steps).folded())
    assert not conv_folded.pays(layer._replace(window=steps, batch=64).folded())


def test_the_arrays_of_a_geometry_are_kept_whatever_caches_drop():
    work = Case("generator", dtypes.float32).layer.folded()
    numbers, kept = work.geometry().tolist(), work.kept
    conv_folded.fold_tables.cache_clear()  # as if another thread had put others there
    assert all(array.ctypes.data in numbers for array in kept)
    assert all(later is array for later, array in zip(work.kept, kept, strict=True))


SHORTER = """
from jit.ir import dtypes
from jit.runtime.targets.target import Target

host = Target.host()
kept = {"avx", "avx2", "fma", "f16c", "sse", "sse2", "sse3", "ssse3", "sse4.1", "sse4.2", "popcnt", "mmx", "fxsr"}
lower = Target(host.triple, "haswell", tuple(f for f in host.features if f in kept))
Target.host = staticmethod(lambda: lower)
assert (lower.vector_bytes, lower.vector_registers) == (32, 16)
from tests.runtime import test_conv_folded

for name in ("generator", "stride 3", "stride 8", "groups", "many small images", "strips of rows", "strips of a row"):
    for dtype in (dtypes.float32, dtypes.float64):
        test_conv_folded.test_against_wider_numbers(name, dtype, True)
print("fine")
"""


def test_shorter_vectors():
    """Code for machines without AVX-512, on this one."""
    here = Path(__file__).parents[2]
    environment = {**os.environ, "JIT_CACHE": "off", "PYTHONPATH": str(here)}
    done = subprocess.run([sys.executable, "-c", SHORTER], capture_output=True, text=True, env=environment, cwd=here)
    assert done.stdout == "fine\n", done.stderr
