"""Pools, with ONNX's paddings and ceilings."""

from __future__ import annotations

import math
from typing import Any

from jit.eager.namespace import F
from jit.nn import functional as NN

from ..table import Numbers, Tensor, operator
from .products import sides_of
from .reductions import _neutral
from .shapes import padded


def _extended(
    sizes: Any, kernel: Any, strides: Any, dilations: Any, sides: list[tuple[Any, Any]], ceil_mode: int
) -> list[tuple[Any, Any]]:
    """The sides with what the last window reaches beyond them, where sizes are rounded up."""
    found = []
    for size, width, stride, dilation, (before, after) in zip(sizes, kernel, strides, dilations, sides, strict=True):
        reach = (width - 1) * dilation + 1
        room = size + before + after - reach
        count = -(-room // stride) if ceil_mode else room // stride
        if ceil_mode and count * stride >= size + before:
            count -= 1  # the last window would lie in the padding
        found.append((before, max(count * stride + reach - size - before, after) if ceil_mode else after))
    return found


def _windows(x: Tensor, kernel: Any, strides: Any, dilations: Any) -> Tensor:
    """All windows: `[n, c, places..., taps...]`, as a view."""
    for i, (width, stride, dilation) in enumerate(zip(kernel, strides, dilations, strict=True)):
        x = F.unfold(x, 2 + i, (width - 1) * dilation + 1, stride)
        x = F.slice(x, x.ndim - 1, 0, None, dilation)
    return x


def _settled(
    x: Tensor, kernel_shape: Any, strides: Any, dilations: Any, auto_pad: str, pads: Any
) -> tuple[Any, Any, list[tuple[Any, Any]]]:
    """Strides and dilations with their defaults, and the sides."""
    count = len(kernel_shape)
    strides, dilations = strides or [1] * count, dilations or [1] * count
    sides = sides_of(x.shape[2:], kernel_shape, strides, dilations, auto_pad, pads)
    return strides, dilations, sides


def _rounding(kernel: Any, strides: Any, dilations: Any, sides: list[tuple[Any, Any]], ceil_mode: int) -> bool | None:
    """The `ceil_mode` of PyTorch's pool over the same windows; None if it has no such pool.

    To round up is to pad the end by one less than a stride, as long as the last window meets the input.
    """
    if any(2 * before > width for (before, _), width in zip(sides, kernel, strict=True)):
        return None
    if all(before == after for before, after in sides):
        return bool(ceil_mode)
    reaches = [(width - 1) * dilation + 1 for width, dilation in zip(kernel, dilations, strict=True)]
    at_end = all(
        after == before + stride - 1 < reach
        for (before, after), stride, reach in zip(sides, strides, reaches, strict=True)
    )
    return True if at_end and not ceil_mode else None


def _by_dim(sides: list[tuple[Any, Any]]) -> dict[int, tuple[Any, Any]]:
    return {2 + i: side for i, side in enumerate(sides)}


@operator("MaxPool")
def max_pool(
    x: Tensor, *, auto_pad: str = "NOTSET", ceil_mode: int = 0, dilations: Any = None, kernel_shape: Any,
    pads: Any = None, storage_order: int = 0, strides: Any = None, outputs: int,
) -> Any:  # fmt: skip
    count = len(kernel_shape)
    strides, dilations, sides = _settled(x, kernel_shape, strides, dilations, auto_pad, pads)
    rounding = _rounding(kernel_shape, strides, dilations, sides, ceil_mode)
    if rounding is not None and count <= 3 and outputs == 1 and x.dtype.is_floating_point:
        pool = (NN.max_pool1d, NN.max_pool2d, NN.max_pool3d)[count - 1]
        return pool(x, kernel_shape, strides, [a for a, _ in sides], dilations, rounding)
    wide = _extended(x.shape[2:], kernel_shape, strides, dilations, sides, ceil_mode)
    lowest = _neutral(x, True)
    windows = _windows(padded(x, _by_dim(wide), "constant", lowest), kernel_shape, strides, dilations)
    taps = F.flatten(windows, 2 + count, -1)
    if outputs == 1:
        return F.amax(taps, -1)
    values, places = F.max(taps, -1)
    return values, _flat_places(x, places, kernel_shape, strides, dilations, wide, storage_order)


def _flat_places(
    x: Tensor, places: Tensor, kernel: Any, strides: Any, dilations: Any, sides: Any, storage_order: int
) -> Tensor:
    """The place of the greatest element of each window in the input, which is seen as one row."""
    count, rest, own = len(kernel), places, list[Tensor]()
    for width in reversed(kernel):
        own.insert(0, F.remainder(rest, width))
        rest = F.div(rest, width, rounding_mode="floor")
    flat: Any = 0
    for i in range(count) if not storage_order else reversed(range(count)):
        start = F.arange(0, places.shape[2 + i], 1) * strides[i] - sides[i][0]
        start = F.reshape(start, [-1 if d == 2 + i else 1 for d in range(places.ndim)])
        flat = flat * x.shape[2 + i] + start + own[i] * dilations[i]
    planes = F.reshape(F.arange(0, x.shape[0] * x.shape[1], 1), (x.shape[0], x.shape[1], *[1] * count))
    return planes * math.prod(x.shape[2:]) + flat


@operator("AveragePool")
def average_pool(
    x: Tensor, *, auto_pad: str = "NOTSET", ceil_mode: int = 0, count_include_pad: int = 0, dilations: Any = None,
    kernel_shape: Any, pads: Any = None, strides: Any = None,
) -> Tensor:  # fmt: skip
    count = len(kernel_shape)
    strides, dilations, sides = _settled(x, kernel_shape, strides, dilations, auto_pad, pads)
    rounding = _rounding(kernel_shape, strides, dilations, sides, ceil_mode)
    is_even = all(before == after for before, after in sides)  # else rows at the end would have to count
    if rounding is not None and count <= 3 and set(dilations) == {1} and (is_even or not count_include_pad):
        pool = (NN.avg_pool1d, NN.avg_pool2d, NN.avg_pool3d)[count - 1]
        return pool(x, kernel_shape, strides, [a for a, _ in sides], rounding, bool(count_include_pad))
    wide = _extended(x.shape[2:], kernel_shape, strides, dilations, sides, ceil_mode)
    dims = list(range(2 + count, 2 + 2 * count))
    total = F.sum(_windows(padded(x, _by_dim(wide), "constant", 0), kernel_shape, strides, dilations), dims)
    ones = F.ones((1, 1, *x.shape[2:]), dtype=x.dtype)
    ones = padded(ones, _by_dim(sides), "constant", 1 if count_include_pad else 0)
    more = [(0, b - a) for (_, a), (_, b) in zip(sides, wide, strict=True)]
    ones = padded(ones, _by_dim(more), "constant", 0)
    return total / F.sum(_windows(ones, kernel_shape, strides, dilations), dims)


@operator("LpPool")
def lp_pool(
    x: Tensor, *, auto_pad: str = "NOTSET", ceil_mode: int = 0, dilations: Any = None, kernel_shape: Any, p: float = 2,
    pads: Any = None, strides: Any = None,
) -> Tensor:  # fmt: skip
    count = len(kernel_shape)
    strides, dilations, sides = _settled(x, kernel_shape, strides, dilations, auto_pad, pads)
    wide = _extended(x.shape[2:], kernel_shape, strides, dilations, sides, ceil_mode)
    dims = list(range(2 + count, 2 + 2 * count))
    powers = F.pow(F.abs(padded(x, _by_dim(wide), "constant", 0)), p)
    return F.pow(F.sum(_windows(powers, kernel_shape, strides, dilations), dims), 1 / p)


@operator("GlobalAveragePool")
def global_average_pool(x: Tensor) -> Tensor:
    return F.mean(x, list(range(2, x.ndim)), True)


@operator("GlobalMaxPool")
def global_max_pool(x: Tensor) -> Tensor:
    return F.amax(x, list(range(2, x.ndim)), True)


@operator("GlobalLpPool")
def global_lp_pool(x: Tensor, *, p: float = 2) -> Tensor:
    return F.pow(F.sum(F.pow(F.abs(x), p), list(range(2, x.ndim)), True), 1 / p)


@operator("MaxUnpool")
def max_unpool(
    x: Tensor, places: Tensor, output_shape: Numbers | None, *, kernel_shape: Any, pads: Any = None, strides: Any = None
) -> Tensor:
    count = len(kernel_shape)
    strides, pads = strides or [1] * count, pads or [0] * (2 * count)
    sizes = [(x.shape[2 + i] - 1) * strides[i] + kernel_shape[i] - pads[i] - pads[i + count] for i in range(count)]
    shape = [*x.shape[:2], *sizes]
    # Places are those of the smaller plane, also if a greater result is asked for.
    flat = F.zeros((math.prod(shape),), dtype=x.dtype)
    flat = F.scatter(flat, 0, F.reshape(places, (-1,)), F.reshape(x, (-1,)))
    plane = F.reshape(flat, shape)
    if output_shape is None:
        return plane
    return padded(plane, {d: (0, output_shape[d] - shape[d]) for d in range(2, x.ndim)}, "constant", 0)


# -- regions -------------------------------------------------------------------------------------------------------


@operator("RoiAlign", on_data=True)
def roi_align(
    x: Tensor, rois: Tensor, batch: Tensor, *, coordinate_transformation_mode: str = "half_pixel", mode: str = "avg",
    output_height: int = 1, output_width: int = 1, sampling_ratio: int = 0, spatial_scale: float = 1.0, version: int,
) -> Tensor:  # fmt: skip
    half = 0.5 if coordinate_transformation_mode == "half_pixel" and version >= 16 else 0.0
    found = []
    for roi, index in zip(rois.tolist(), batch.tolist(), strict=True):
        x1, y1, x2, y2 = (v * spatial_scale - half for v in roi)
        width, height = x2 - x1, y2 - y1
        if not half:
            width, height = max(width, 1.0), max(height, 1.0)
        taps = [
            sampling_ratio or math.ceil(size / bins) for size, bins in ((height, output_height), (width, output_width))
        ]
        rows = _samples(y1, height, output_height, taps[0], x.shape[2])
        columns = _samples(x1, width, output_width, taps[1], x.shape[3])
        found.append(_pooled(x[index], rows, columns, mode))
    return F.stack(found, 0) if found else F.zeros((0, x.shape[1], output_height, output_width), dtype=x.dtype)


def _samples(start: float, size: float, bins: int, taps: int, limit: Any) -> list[list[tuple[int, int, float, bool]]]:
    """Two neighbours for each bin and tap, how near the second is, and whether it lies inside."""
    step = size / bins
    found = []
    for b in range(bins):
        places = [start + b * step + (t + 0.5) * step / taps for t in range(taps)]
        found.append([_neighbours(place, limit) for place in places])
    return found


def _neighbours(place: float, limit: Any) -> tuple[int, int, float, bool]:
    inside = -1 <= place <= limit
    place = max(place, 0.0)
    low = min(int(place), limit - 1)
    high = min(low + 1, limit - 1)
    return low, high, (place - low if high > low else 0.0), inside


def _pooled(x: Tensor, rows: Any, columns: Any, mode: str) -> Tensor:
    """One region of `x` `[c, h, w]`: the average, or the greatest, of the samples of each bin."""
    bins = []
    for row in rows:
        for column in columns:
            samples = [_sample(x, r, c, mode) for r in row for c in column]
            stacked = F.stack(samples, 0)
            bins.append(F.mean(stacked, [0]) if mode == "avg" else F.amax(stacked, [0]))
    return F.reshape(F.stack(bins, 1), (x.shape[0], len(rows), len(columns)))


def _sample(x: Tensor, row: Any, column: Any, mode: str) -> Tensor:
    (y0, y1, dy, y_in), (x0, x1, dx, x_in) = row, column
    if not (y_in and x_in):
        return F.zeros((x.shape[0],), dtype=x.dtype)
    parts = [
        x[:, y0, x0] * ((1 - dy) * (1 - dx)), x[:, y0, x1] * ((1 - dy) * dx),
        x[:, y1, x0] * (dy * (1 - dx)), x[:, y1, x1] * (dy * dx),
    ]  # fmt: skip
    if mode == "max":
        return F.maximum(F.maximum(parts[0], parts[1]), F.maximum(parts[2], parts[3]))
    return parts[0] + parts[1] + parts[2] + parts[3]


@operator("MaxRoiPool", on_data=True)
def max_roi_pool(x: Tensor, rois: Tensor, *, pooled_shape: Any, spatial_scale: float = 1.0) -> Tensor:
    found = []
    for index, *corners in rois.tolist():
        x1, y1, x2, y2 = (math.floor(v * spatial_scale + 0.5) for v in corners)
        plane = x[int(index)]
        rows = _spans(y1, max(y2 - y1 + 1, 1), pooled_shape[0], x.shape[2])
        columns = _spans(x1, max(x2 - x1 + 1, 1), pooled_shape[1], x.shape[3])
        bins = [
            F.amax(plane[:, r0:r1, c0:c1], [1, 2]) if r1 > r0 and c1 > c0 else F.zeros((x.shape[1],), dtype=x.dtype)
            for r0, r1 in rows for c0, c1 in columns
        ]  # fmt: skip
        found.append(F.reshape(F.stack(bins, 1), (x.shape[1], *pooled_shape)))
    return F.stack(found, 0)


def _spans(start: int, size: int, bins: int, limit: Any) -> list[tuple[int, int]]:
    step = size / bins
    edges = [(math.floor(i * step) + start, math.ceil((i + 1) * step) + start) for i in range(bins)]
    return [(min(max(a, 0), limit), min(max(b, 0), limit)) for a, b in edges]
