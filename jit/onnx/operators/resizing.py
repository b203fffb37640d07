"""Resizing, and sampling at places that a grid gives.

Note [Resizing by taps]
ONNX describes a resize along one dim: a place of the result lies somewhere in the input, and some neighbours there
count, each with a weight. So a dim is resized by picking the neighbours with `index_select` and adding them up, one
dim after another. What PyTorch has under a name of its own (`interpolate`) goes there.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

from jit.eager.namespace import F
from jit.ir.dtypes import float64, int64
from jit.ir.errors import ModelError
from jit.nn import functional as NN

from ..table import Numbers, Tensor, operator


@dataclass(frozen=True)
class DimResize:
    """The resize of one dim."""

    axis: int
    size: Any
    """The size in the input."""
    out: Any
    """The size in the result."""
    scale: Any
    region: tuple[float, float]
    """The part of the input that is looked at, for `tf_crop_and_resize`."""
    length: Any
    """The size in the result before it is rounded down."""


@dataclass(frozen=True)
class Manner:
    """The manner in which all dims are resized."""

    mode: str
    places: str
    """ONNX's `coordinate_transformation_mode`."""
    rounding: str
    cubic: float
    exclude: bool
    antialias: bool
    extrapolated: float


# -- where places of the result lie in the input -------------------------------------------------------------------


def _places(d: DimResize, manner: Manner) -> Tensor:
    x = F.arange(0, d.out, 1, dtype=float64)
    kind = manner.places
    if kind == "asymmetric":
        return x / d.scale
    if kind == "align_corners":
        return x * ((d.size - 1) / (d.length - 1)) if d.length > 1 else x * 0
    if kind == "tf_crop_and_resize":
        start, end = d.region
        if d.length > 1:
            return start * (d.size - 1) + x * ((end - start) * (d.size - 1) / (d.length - 1))
        return x * 0 + 0.5 * (start + end) * (d.size - 1)
    if kind == "pytorch_half_pixel" and not d.out > 1:
        return x * 0
    found = (x + 0.5) / d.scale - 0.5
    if kind == "half_pixel_symmetric":
        found = found + d.size / 2 * (1 - d.out / (d.scale * d.size))
    return found


def _rounded(x: Tensor, rounding: str) -> Tensor:
    if rounding == "floor":
        return F.floor(x)
    if rounding == "ceil":
        return F.ceil(x)
    return F.ceil(x - 0.5) if rounding == "round_prefer_floor" else F.floor(x + 0.5)


# -- which neighbours count, and how much --------------------------------------------------------------------------


def _cubic(distance: Tensor, a: float) -> Tensor:
    """Keys' kernel, `a` being the slope at 1: R. Keys, 1981, "Cubic convolution interpolation"."""
    x = F.abs(distance)
    near = ((a + 2) * x - (a + 3)) * x * x + 1
    far = a * (((x - 5) * x + 8) * x - 4)
    return F.where(x <= 1, near, F.where(x < 2, far, F.zeros_like(x)))


def _taps(d: DimResize, manner: Manner, x: Tensor) -> list[tuple[Tensor, Tensor]]:
    """Indices and weights of the neighbours, for all places."""
    reach = 1 if manner.mode == "linear" else 2
    shrunk = min(d.scale, 1.0) if manner.antialias else 1.0
    first = math.floor(-reach / shrunk) + 1
    low = F.floor(x)
    offsets = range(first, first + 2 - 2 * first)
    distances = [(n - (x - low)) * shrunk for n in offsets]
    if manner.mode == "linear":
        weights = [F.clamp(1 - F.abs(t), 0, 1) for t in distances]
    else:
        weights = [_cubic(t, manner.cubic) for t in distances]
    places = [low + n for n in offsets]
    if manner.exclude:
        weights = [F.where((p >= 0) & (p < d.size), w, F.zeros_like(w)) for p, w in zip(places, weights, strict=True)]
    if manner.exclude or manner.antialias:
        total = sum(weights[1:], weights[0])
        weights = [w / total for w in weights]
    return [(F.clamp(p, 0, d.size - 1).to(int64), w) for p, w in zip(places, weights, strict=True)]


def _resized_along(x: Tensor, d: DimResize, manner: Manner) -> Tensor:
    places = _places(d, manner)
    shape = [-1 if i == d.axis else 1 for i in range(x.ndim)]
    if manner.mode == "nearest":
        index = F.clamp(_rounded(places, manner.rounding), 0, d.size - 1).to(int64)
        found = F.index_select(x, d.axis, index)
    else:
        parts = [
            F.index_select(x, d.axis, index) * F.reshape(weight, shape).to(x.dtype)
            for index, weight in _taps(d, manner, places)
        ]
        found = sum(parts[1:], parts[0])
    if manner.places == "tf_crop_and_resize":
        outside = F.reshape((places < 0) | (places > d.size - 1), shape)
        found = F.where(outside, F.full_like(found, manner.extrapolated), found)
    return found


# -- the operators -------------------------------------------------------------------------------------------------


def _dims(x: Tensor, roi: Any, scales: Any, sizes: Any, axes: Any, policy: str) -> list[DimResize]:
    axes = [a % x.ndim for a in axes] if axes else list(range(x.ndim))
    own = [x.shape[a] for a in axes]
    if scales:
        lengths = [n * s for n, s in zip(own, scales, strict=True)]
        outs = [math.floor(n) for n in lengths]
    elif sizes:
        scales = [m / n for m, n in zip(sizes, own, strict=True)]
        outs = list(sizes)
        if policy != "stretch":
            scale = (min if policy == "not_larger" else max)(scales)
            scales, outs = [scale] * len(axes), [math.floor(scale * n + 0.5) for n in own]
        lengths = outs
    else:
        raise ModelError("Resize has neither scales nor sizes")
    count = len(axes)
    regions = [(roi[i], roi[i + count]) if roi else (0.0, 1.0) for i in range(count)]
    found = [DimResize(*each) for each in zip(axes, own, outs, scales, regions, lengths, strict=True)]
    return [d for d in found if roi or not (type(d.scale) in (int, float) and d.scale == 1)]


def _named(x: Tensor, dims: list[DimResize], manner: Manner) -> Tensor | None:
    """The result of `interpolate`, if it has this form."""
    spatial = list(range(2, x.ndim))
    if not dims or any(d.axis not in spatial for d in dims) or x.ndim > 5 or manner.exclude or manner.antialias:
        return None
    if not x.dtype.is_floating_point or any(type(d.scale) is float and d.scale * d.size != d.out for d in dims):
        return None
    outs = {d.axis: d.out for d in dims}
    size = [outs.get(axis, x.shape[axis]) for axis in spatial]
    if manner.mode == "nearest":
        plain = manner.places == "asymmetric" and manner.rounding == "floor"
        whole = all(type(d.scale) is float and d.scale.is_integer() for d in dims)
        return NN.interpolate(x, size=size, mode="nearest") if plain and whole else None
    corners = manner.places == "align_corners"
    if not corners and manner.places not in ("half_pixel", "pytorch_half_pixel"):
        return None
    if any(type(d.out) is int and d.out == 1 for d in dims):
        return None
    if manner.mode == "linear":
        word = {3: "linear", 4: "bilinear", 5: "trilinear"}[x.ndim]
        return NN.interpolate(x, size=size, mode=word, align_corners=corners)
    if x.ndim == 4 and manner.cubic == -0.75:
        return NN.interpolate(x, size=size, mode="bicubic", align_corners=corners)
    return None


def _resized(x: Tensor, dims: list[DimResize], manner: Manner) -> Tensor:
    found = _named(x, dims, manner)
    if found is not None:
        return found
    for d in dims:
        x = _resized_along(x, d, manner)
    return x


@operator("Resize", since=10)
def resize_by_scales(x: Tensor, scales: Numbers, *, mode: str = "nearest") -> Tensor:
    manner = Manner(mode, "asymmetric", "floor", -0.75, False, False, 0.0)
    return _resized(x, _dims(x, None, scales, None, None, "stretch"), manner)


@operator("Upsample")
def upsample(
    x: Tensor, scales: Numbers | None, *, mode: str = "nearest", height_scale: float = 1.0, width_scale: float = 1.0
) -> Tensor:
    scales = [1.0, 1.0, height_scale, width_scale] if scales is None else scales
    manner = Manner("linear" if mode == "bilinear" else mode, "asymmetric", "floor", -0.75, False, False, 0.0)
    return _resized(x, _dims(x, None, scales, None, None, "stretch"), manner)


@operator("Resize", since=11)
def resize(
    x: Tensor, roi: Numbers | None, scales: Numbers | None, sizes: Numbers | None, *, antialias: int = 0,
    axes: Any = None, coordinate_transformation_mode: str = "half_pixel", cubic_coeff_a: float = -0.75,
    exclude_outside: int = 0, extrapolation_value: float = 0.0, keep_aspect_ratio_policy: str = "stretch",
    mode: str = "nearest", nearest_mode: str = "round_prefer_floor",
) -> Tensor:  # fmt: skip
    cropped = coordinate_transformation_mode == "tf_crop_and_resize"
    places = (
        "half_pixel" if coordinate_transformation_mode == "tf_half_pixel_for_nn" else coordinate_transformation_mode
    )
    manner = Manner(
        mode, places, nearest_mode, cubic_coeff_a, bool(exclude_outside), bool(antialias), extrapolation_value
    )
    return _resized(x, _dims(x, roi if cropped else None, scales, sizes, axes, keep_aspect_ratio_policy), manner)


@operator("GridSample")
def grid_sample(
    x: Tensor, grid: Tensor, *, align_corners: int = 0, mode: str = "linear", padding_mode: str = "zeros"
) -> Tensor:
    word = {"linear": "bilinear", "cubic": "bicubic"}.get(mode, mode)
    return NN.grid_sample(x, grid, mode=word, padding_mode=padding_mode, align_corners=bool(align_corners))


@operator("AffineGrid")
def affine_grid(theta: Tensor, size: Numbers, *, align_corners: int = 0) -> Tensor:
    return NN.affine_grid(theta, size, align_corners=bool(align_corners))
