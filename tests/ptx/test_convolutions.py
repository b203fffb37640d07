"""Convolutions and their gradients as the PTX that a driver gets, run by the interpreter, against float64."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from jit.ir.dtypes import as_dtype
from jit.ops import convolving
from jit.runtime.arrays.array_math import numpy_math
from jit.runtime.gpu.convolutions import (
    SlidingWindow,
    by_input,
    by_weight,
    forward,
    parts_of,
    phases,
    phases_of,
    window_of,
)
from jit.runtime.gpu.device import device_kernel
from jit.runtime.kernels.nest import Buffer

from ..runtime.grid_emulation import GPU
from .nests import interpreted

pytestmark = pytest.mark.llvm

Array = np.ndarray[Any, Any]


class Case(NamedTuple):
    """A convolution."""

    image: tuple[int, ...]
    kernel: tuple[int, ...]
    stride: tuple[int, ...] = (1,)
    padding: tuple[int, ...] = (0,)
    dilation: tuple[int, ...] = (1,)
    groups: int = 1

    @property
    def window(self) -> SlidingWindow:
        return window_of(len(self.image) - 2, self.stride, self.padding, self.dilation, self.groups)

    @property
    def by_numpy(self) -> convolving.ConvGeometry:
        return convolving.ConvGeometry(*self.window)

    @property
    def result(self) -> tuple[int, ...]:
        return self.image[0], self.kernel[0], *self.window.places(self.image[2:], self.kernel[2:])


CASES = {
    "padded": Case((2, 3, 9, 8), (5, 3, 3, 3), padding=(1,)),
    "groups": Case((2, 4, 9, 8), (6, 2, 3, 2), (2, 1), (1, 2), (1, 2), 2),
    "depthwise": Case((2, 4, 7, 7), (4, 1, 3, 3), padding=(1,), groups=4),
    "two filters a channel": Case((2, 3, 7, 7), (6, 1, 3, 3), padding=(1,), groups=3),
    "one tap, strided": Case((2, 3, 8, 8), (5, 3, 1, 1), (2,)),
    "one tap": Case((2, 8, 8, 8), (5, 8, 1, 1)),
    "signal": Case((2, 3, 11), (4, 3, 3), (3,), (1,), (2,)),
    "volume": Case((1, 2, 4, 5, 4), (3, 2, 2, 2, 2), (1, 2, 1), (0, 1, 0)),
    "dilated by the stride": Case((4, 3, 9, 8), (5, 3, 3, 3), (2,), (1,), (2,)),
    "longer stride": Case((1, 2, 9, 9), (2, 2, 2, 2), (3,)),
}


def numbers(shape: tuple[int, ...], dtype: str, seed: int = 0) -> Array:
    return np.random.default_rng(seed).normal(size=shape).astype(as_dtype(dtype).numpy)


def check(found: Array, exact: Array, size: Array, terms: int) -> None:
    """Within n roundings of sums of |x * w|, and one of the result."""
    dtype = as_dtype(found.dtype.name)
    summed = 2.0**-53 if dtype.name == "float64" else 2.0**-24
    rounded = {"float16": 2.0**-11, "bfloat16": 2.0**-8}.get(dtype.name, summed)
    bound = (terms + 2) * summed * size + rounded * np.abs(exact) + (2.0**-25 if dtype.is_half else 0)
    assert (np.abs(found.astype(float) - exact) <= bound).all()


def check_forward(case: Case, dtype: str) -> None:
    x, w, b = numbers(case.image, dtype), numbers(case.kernel, dtype, 1), numbers(case.kernel[:1], dtype, 2)
    out = np.zeros(case.result, x.dtype)
    nest = forward(Buffer.like(x), Buffer.like(w), Buffer.like(b), Buffer.like(out), case.window)
    interpreted(device_kernel(nest, GPU), [x, w, b], [out])
    bias = b.astype(float).reshape(-1, *(1,) * (x.ndim - 2))
    exact, size = (
        convolving.forward(numpy_math, f(x.astype(float)), f(w.astype(float)), case.by_numpy) + f(bias)
        for f in (np.positive, np.abs)
    )
    check(out, exact, size, nest.row + 1)


def check_by_input(case: Case, dtype: str) -> None:
    y, w = numbers(case.result, dtype), numbers(case.kernel, dtype, 1)
    found, terms = np.zeros(case.image, y.dtype), 1
    for phase in phases_of(case.image[2:], case.kernel[2:], case.window):
        if all(p.taps for p in phase):
            out = np.zeros(case.image, y.dtype)
            here: Any = (..., *(slice(p.first, None, s) for p, s in zip(phase, case.window.stride, strict=True)))
            part = np.zeros_like(out[here])
            alone, at_start = case.window._replace(stride=(1,) * len(phase)), [p._replace(first=0) for p in phase]
            nest = by_input(Buffer.like(y), Buffer.like(w), None, Buffer.like(part), alone, at_start)
            interpreted(device_kernel(nest, GPU), [y, w], [part])
            found[here], terms = part, max(terms, nest.row)
    exact, size = (
        convolving.by_input(numpy_math, f(y.astype(float)), f(w.astype(float)), case.image[2:], case.by_numpy)
        for f in (np.positive, np.abs)
    )
    check(found, exact, size, terms)


def check_by_weight(case: Case, dtype: str) -> None:
    y, x = numbers(case.result, dtype), numbers(case.image, dtype, 1)
    parts = parts_of(case.image[0], 1, 2)
    found = np.zeros((parts, *case.kernel), "float64" if dtype == "float64" else "float32")
    nest = by_weight(Buffer.like(y), Buffer.like(x), Buffer.like(found), case.window)
    interpreted(device_kernel(nest, GPU), [y, x], [found])
    exact, size = (
        convolving.by_weight(numpy_math, f(y.astype(float)), f(x.astype(float)), case.kernel[2:], case.by_numpy)
        for f in (np.positive, np.abs)
    )
    check(found.sum(axis=0), exact, size, nest.row * parts)


MAPS = {"forward": check_forward, "by input": check_by_input, "by weight": check_by_weight}


@pytest.mark.parametrize("map_", MAPS)
@pytest.mark.parametrize("name", CASES)
def test_the_three_maps(name, map_):
    MAPS[map_](CASES[name], "float32")


@pytest.mark.parametrize("dtype", ["float16", "bfloat16", "float64"])
@pytest.mark.parametrize("map_", MAPS)
def test_other_dtypes(map_, dtype):
    for name in ("padded", "groups", "depthwise"):
        MAPS[map_](CASES[name], dtype)


small = st.integers(1, 3)


@settings(max_examples=25, deadline=None, derandomize=True)
@given(
    sizes=st.tuples(st.integers(3, 9), st.integers(3, 9)), kernel=st.tuples(small, small),
    stride=st.tuples(small, small), padding=st.tuples(st.integers(0, 2), st.integers(0, 2)),
    dilation=st.tuples(small, small), groups=st.integers(1, 2), map_=st.sampled_from([*MAPS]),
    dtype=st.sampled_from(["float32", "float16"]),
)  # fmt: skip
def test_convolutions_of_any_geometry(sizes, kernel, stride, padding, dilation, groups, map_, dtype):
    case = Case((2, 2 * groups, *sizes), (3 * groups, 2, *kernel), stride, padding, dilation, groups)
    if min(case.result) > 0:
        MAPS[map_](case, dtype)


@pytest.mark.parametrize(
    "geometry", [(9, 3, 2, 0, 1), (9, 3, 3, 1, 2), (8, 2, 4, 1, 2), (3, 1, 2, 0, 1), (2, 3, 5, 2, 1)]
)
def test_phases_meet_every_pair_of_a_place_and_a_tap_once(geometry):
    size, taps, stride, padding, dilation = geometry
    found = [
        (p.first + stride * n, k, p.start + n - turn * p.back)
        for p in phases(*geometry)
        for n in range(p.places)
        for turn, k in enumerate(p.taps)
    ]
    pairs = [(i, k, divmod(i + padding - k * dilation, stride)) for i in range(size) for k in range(taps)]
    assert sorted(found) == sorted((i, k, q) for i, k, (q, rest) in pairs if rest == 0)


def test_images_are_divided_until_there_are_enough_tiles():
    assert [parts_of(12, 5, enough) for enough in (1, 10, 11, 21, 1000)] == [1, 2, 3, 6, 12]


def test_patches_are_not_laid_out():
    """A convolution reads nothing but its operands, and loads of padding are not made."""
    case = CASES["padded"]
    x, w = numbers(case.image, "float32"), numbers(case.kernel, "float32")
    out = Buffer.like(np.zeros(case.result, np.float32))
    kernel = device_kernel(forward(Buffer.like(x), Buffer.like(w), None, out, case.window), GPU)
    assert kernel.grid.kind == "products" and len(kernel.nest.inputs) == 2 and kernel.nest.reads[0].within
