"""Looking images up at any place: grids of places from affine maps, and what an image has at the places of a grid.

Note [Places and taps]
    A grid names places by coordinates from -1 to 1, x first: the corners' centres (`align_corners`) or their outer
    edges. Along each dim a place becomes a number of *taps*, entries of the image that are read, with weights: one for
    nearest, two for linear, four for cubic. The taps of several dims multiply. Indices carry no gradient, weights do;
    so everything is said in differentiable operators, and derivatives of all orders follow.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any

from jit.ir import dtypes
from jit.ir.errors import DTypeError, ShapeError, UsageError
from jit.ir.op import composite
from jit.ir.precision import Precision
from jit.ir.samples import Sample, make, sample, strided

if TYPE_CHECKING:
    from .protocols import Ints, OnnxWriter, Ops, Tensor, Value

LINEAR, NEAREST, CUBIC = range(3)
"""Ways to interpolate, by ATen's numbers."""
ZEROS, BORDER, REFLECTION = range(3)
"""Rules for places outside of the image, by ATen's numbers."""

# -- grids -------------------------------------------------------------------------------------------------------


@Precision(cuda="given")
@composite("aten::affine_grid_generator(Tensor theta, int[] size, bool align_corners) -> Tensor", namespaces=("jit",))
def affine_grid_generator(F: Ops, theta: Tensor, size: Ints, align_corners: bool) -> Tensor:
    """The grid [N, H, W, 2] or [N, D, H, W, 3] to which the affine maps `theta` send an output of sizes `size`."""
    _check_affine(theta, size)
    places, rank = list(size[2:]), len(size) - 2
    along = [_evenly(F, n, align_corners, theta) for n in places]
    lined = [F.reshape(a, [-1 if d == i else 1 for i in range(rank)]) for d, a in enumerate(along)]
    columns = [F.expand(a, places) for a in (*reversed(lined), F.ones_like(lined[0]))]
    base = F.reshape(F.stack(columns, rank), [math.prod(places), rank + 1])
    return F.reshape(F.matmul(base, F.transpose(theta, 1, 2)), [size[0], *places, rank])


def _check_affine(theta: Tensor, size: Ints) -> None:
    if not theta.dtype.is_floating_point:
        raise DTypeError(f"affine_grid: theta should be floating, got {theta.dtype}")
    if len(size) not in (4, 5):
        raise ShapeError(f"affine_grid: size should have 4 or 5 entries, got {list(size)}")
    wanted = (size[0], len(size) - 2, len(size) - 1)
    if tuple(theta.shape) != wanted:
        raise ShapeError(f"affine_grid: theta should have the sizes {list(wanted)}, got {list(theta.shape)}")
    if any(n < 1 for n in size):
        raise ShapeError(f"affine_grid: the output's sizes should be at least 1, got {list(size)}")


def _evenly(F: Ops, n: Any, align_corners: bool, like: Tensor) -> Tensor:
    """n evenly spaced coordinates of one dim: from -1 to 1 with align_corners, else the centres of n parts of it."""
    numbers = F.arange(n, dtype=dtypes.float32 if like.dtype.is_half else like.dtype, device=like.device)
    steps = max(n - 1, 1) if align_corners else n
    return F._to_copy((numbers * 2 - (n - 1)) / steps, dtype=like.dtype)


@affine_grid_generator.onnx
def _(g: OnnxWriter, theta: Value, size: Ints, align_corners: bool) -> Value:
    return g.op("AffineGrid", theta, g.ints(list(size)), align_corners=int(align_corners))


@affine_grid_generator.samples
def _() -> Iterator[Sample]:
    for align in (True, False):
        yield sample(make(2, 2, 3), [2, 3, 4, 5], align)
        yield sample(make(1, 3, 4), [1, 1, 2, 3, 4], align)
        yield sample(make(1, 2, 3), [1, 2, 1, 3], align, note="to one", onnx=False)  # onnxruntime divides by 1 - 1
    yield sample(strided(make(2, 2, 3)), [2, 1, 2, 2], False, note="strided")
    yield sample(make(1, 2, 3, dtype="float64"), [1, 1, 3, 2], False, note="float64")
    yield sample(make(1, 2, 3, dtype="float16"), [1, 1, 3, 2], False, note="half", grad=False, onnx=False)


# -- taps along one dim ------------------------------------------------------------------------------------------


def _taps(F: Ops, x: Tensor, size: int, mode: int, padding: int, align: bool) -> tuple[Any, Any, Any]:
    """(entries to read, whether they are inside, weights) of coordinates [N, places]; each of [N, taps, places]."""
    place = ((x + 1) * (size - 1) if align else (x + 1) * size - 1) / 2
    far = 2.0**30 if padding == REFLECTION else size + 3  # finite, and further than any tap reaches
    place = F.clamp(place, -far, far)
    if mode != CUBIC:
        place = _brought_inside(F, place, size, padding, align)
    entries, weights = _neighbours(F, place, mode)
    if mode == CUBIC:
        entries = [_brought_inside(F, e, size, padding, align) for e in entries]
    entry, weight = F.stack(entries, 1), F.stack(weights, 1)
    inside = F.logical_and(entry >= 0, entry <= size - 1)
    return F._to_copy(F.clamp(entry, 0, size - 1), dtype=dtypes.int64), inside, weight


def _neighbours(F: Ops, place: Tensor, mode: int) -> tuple[list[Any], list[Any]]:
    """The entries around a place, without gradients, and their weights."""
    if mode == NEAREST:
        nearest = F.round(place)  # its derivative is zero: the grid has a gradient, and that is zero
        return [F.detach(nearest)], [nearest - F.detach(nearest) + 1]
    low = F.floor(F.detach(place))
    part = place - low
    if mode == LINEAR:
        return [low, low + 1], [1 - part, part]
    return [low + k for k in (-1, 0, 1, 2)], [_far(part + 1), _near(part), _near(1 - part), _far(2 - part)]


def _near(x: Tensor) -> Tensor:
    """The kernel of cubic convolution with a = -0.75, at distances up to 1."""
    return (x * 1.25 - 2.25) * x * x + 1


def _far(x: Tensor) -> Tensor:
    """The kernel of cubic convolution with a = -0.75, at distances from 1 to 2."""
    return ((x * -0.75 + 3.75) * x - 6.0) * x + 3.0


def _brought_inside(F: Ops, place: Tensor, size: int, padding: int, align: bool) -> Tensor:
    """Places outside moved to the border, or reflected at it; on the border and beyond it they have no gradient."""
    if padding == ZEROS:
        return place
    if padding == REFLECTION:
        place = _reflected(F, place, 0.0, size - 1.0) if align else _reflected(F, place, -0.5, size - 0.5)
    between = F.logical_and(place > 0, place < size - 1)
    return F.where(between, place, F.clamp(F.detach(place), 0, size - 1))


def _reflected(F: Ops, place: Tensor, low: float, high: Any) -> Tensor:
    """Coordinates reflected between two mirrors, `low` and `high`."""
    span = high - low
    if span == 0:
        return place * 0
    way = F.abs(place - low)
    rest, turned = F.fmod(way, span), F.remainder(F.floor(F.detach(way) / span), 2) == 1
    return F.where(turned, span - rest, rest) + low


# -- sampling ----------------------------------------------------------------------------------------------------


def _check(input: Tensor, grid: Tensor, mode: int, padding: int, rank: int | None = None) -> None:
    if input.ndim not in (4, 5) or grid.ndim != input.ndim or (rank is not None and input.ndim != rank + 2):
        wanted = "4 or 5" if rank is None else str(rank + 2)
        raise ShapeError(f"grid_sampler: input and grid should have {wanted} dims, got the sizes {_sizes(input, grid)}")
    if input.shape[0] != grid.shape[0] or grid.shape[-1] != input.ndim - 2:
        wanted = f"[{input.shape[0]}, ..., {input.ndim - 2}]"
        raise ShapeError(
            f"grid_sampler: grid should have the sizes {wanted}, got input and grid of {_sizes(input, grid)}"
        )
    if any(n == 0 for n in input.shape[2:]):
        raise ShapeError(f"grid_sampler: there is nothing to sample in an image of sizes {list(input.shape)}")
    if input.dtype is not grid.dtype or not input.dtype.is_floating_point:
        raise DTypeError(
            f"grid_sampler: expects one floating dtype, got {input.dtype} and {grid.dtype}; cast one of them"
        )
    if mode not in (LINEAR, NEAREST, CUBIC) or padding not in (ZEROS, BORDER, REFLECTION):
        raise UsageError(
            f"grid_sampler: interpolation_mode and padding_mode should be 0, 1 or 2, got {mode} and {padding}"
        )
    if mode == CUBIC and input.ndim == 5:
        raise UsageError("grid_sampler: bicubic interpolation is for images of 4 dims")


def _sizes(*tensors: Any) -> str:
    return " and ".join(str(list(t.shape)) for t in tensors)


def _sampled(F: Ops, input: Tensor, grid: Tensor, mode: int, padding: int, align: bool) -> Tensor:
    """The weighted sum of each place's taps; see Note [Places and taps]."""
    (batch, channels, *sizes), (_, *places, rank) = input.shape, grid.shape
    count = math.prod(places)
    image, grid = (F._to_copy(t, dtype=dtypes.float32) if t.dtype.is_half else t for t in (input, grid))
    grid = F.reshape(F.where(F.isnan(grid), -1, grid), [batch, count, rank])
    taps = [_taps(F, F.select(grid, 2, rank - 1 - d), n, mode, padding, align) for d, n in enumerate(sizes)]
    entry, inside, weight = _multiplied(F, taps, sizes, [batch, -1, count])
    number = (1, 2, 4)[(NEAREST, LINEAR, CUBIC).index(mode)] ** rank
    index = F.expand(F.reshape(entry, [batch, 1, number * count]), [batch, channels, number * count])
    read = F.gather(F.reshape(image, [batch, channels, math.prod(sizes)]), 2, index)
    read = F.where(F.unsqueeze(inside, 1), F.reshape(read, [batch, channels, number, count]), 0)
    out = F.reshape(F.sum(read * F.unsqueeze(weight, 1), [2]), [batch, channels, *places])
    return F._to_copy(out, dtype=input.dtype) if input.dtype.is_half else out


def _multiplied(F: Ops, taps: Sequence[Any], sizes: Sequence[Any], shape: list[Any]) -> tuple[Any, Any, Any]:
    """The taps of several dims together: entries of the flattened image, and products of weights."""
    entry, inside, weight = taps[0]
    for (entry_d, inside_d, weight_d), size in zip(taps[1:], sizes[1:], strict=True):
        entry, inside, weight = (F.unsqueeze(t, 2) for t in (entry, inside, weight))
        entry_d, inside_d, weight_d = (F.unsqueeze(t, 1) for t in (entry_d, inside_d, weight_d))
        found = entry * size + entry_d, F.logical_and(inside, inside_d), weight * weight_d
        taps_so_far = found[0].shape[1] * found[0].shape[2]
        entry, inside, weight = (F.reshape(t, [shape[0], taps_so_far, shape[2]]) for t in found)
    return entry, inside, weight


_SAMPLER = "Tensor input, Tensor grid, int interpolation_mode, int padding_mode, bool align_corners"


@Precision(cpu="float32", cuda="widest")
@composite(f"aten::grid_sampler({_SAMPLER}) -> Tensor", namespaces=("jit",))
def grid_sampler(
    F: Ops, input: Tensor, grid: Tensor, interpolation_mode: int, padding_mode: int, align_corners: bool
) -> Tensor:
    """input, [N, C, ...], read at the places of grid, [N, ..., 2 or 3]: coordinates from -1 to 1, x first."""
    _check(input, grid, interpolation_mode, padding_mode)
    sampler = F.grid_sampler_2d if input.ndim == 4 else F.grid_sampler_3d
    return sampler(input, grid, interpolation_mode, padding_mode, align_corners)


@Precision(cpu="float32")
@composite(f"aten::grid_sampler_2d({_SAMPLER}) -> Tensor", namespaces=("jit",))
def grid_sampler_2d(
    F: Ops, input: Tensor, grid: Tensor, interpolation_mode: int, padding_mode: int, align_corners: bool
) -> Tensor:
    """`grid_sampler` of images: input [N, C, H, W], grid [N, h, w, 2]."""
    _check(input, grid, interpolation_mode, padding_mode, 2)
    return _sampled(F, input, grid, interpolation_mode, padding_mode, align_corners)


@Precision(cpu="float32")
@composite(f"aten::grid_sampler_3d({_SAMPLER}) -> Tensor", namespaces=("jit",))
def grid_sampler_3d(
    F: Ops, input: Tensor, grid: Tensor, interpolation_mode: int, padding_mode: int, align_corners: bool
) -> Tensor:
    """`grid_sampler` of volumes: input [N, C, D, H, W], grid [N, d, h, w, 3]."""
    _check(input, grid, interpolation_mode, padding_mode, 3)
    return _sampled(F, input, grid, interpolation_mode, padding_mode, align_corners)


def _onnx(
    g: OnnxWriter, input: Value, grid: Value, interpolation_mode: int, padding_mode: int, align_corners: bool
) -> Value:
    if g.opset < 20 and input.ndim != 4:
        raise g.unsupported("GridSample takes volumes from opset 20 on", since=20)
    names = ("linear", "nearest", "cubic") if g.opset >= 20 else ("bilinear", "nearest", "bicubic")
    padding = ("zeros", "border", "reflection")[padding_mode]
    mode = names[interpolation_mode]
    return g.op("GridSample", input, grid, mode=mode, padding_mode=padding, align_corners=int(align_corners))


for _op in (grid_sampler, grid_sampler_2d, grid_sampler_3d):
    _op.onnx(_onnx)


def _two_dims() -> Iterator[Sample]:
    for padding in (ZEROS, BORDER, REFLECTION):
        for align in (True, False):
            for mode in (LINEAR, NEAREST, CUBIC):
                yield sample(make(2, 2, 3, 4), make(2, 2, 3, 2, low=-1.4, high=1.4), mode, padding, align)
    yield sample(strided(make(1, 2, 3, 4)), strided(make(1, 2, 2, 2)), LINEAR, ZEROS, False, note="strided")
    yield sample(make(1, 1, 1, 1), make(1, 2, 2, 2), LINEAR, REFLECTION, True, note="one entry", grad=False, onnx=False)
    yield sample(make(1, 2, 3, 3), make(1, 0, 2, 2), LINEAR, ZEROS, False, note="empty", onnx=False)
    doubles = make(1, 2, 3, 3, dtype="float64"), make(1, 2, 2, 2, dtype="float64")
    yield sample(*doubles, CUBIC, BORDER, False, note="float64", onnx=False)
    halves = make(1, 2, 3, 3, dtype="float16"), make(1, 2, 2, 2, dtype="float16")
    yield sample(*halves, LINEAR, ZEROS, False, note="half", grad=False, onnx=False)


def _three_dims() -> Iterator[Sample]:
    for padding, align in ((ZEROS, True), (BORDER, False), (REFLECTION, False), (REFLECTION, True)):
        for mode in (LINEAR, NEAREST):
            yield sample(make(1, 2, 2, 3, 4), make(1, 2, 1, 3, 3, low=-1.4, high=1.4), mode, padding, align)


@grid_sampler.samples
def _() -> Iterator[Sample]:
    yield from (s for number, s in enumerate(_two_dims()) if number % 5 == 0)
    yield from (s for number, s in enumerate(_three_dims()) if number % 3 == 0)


grid_sampler_2d.samples(_two_dims)
grid_sampler_3d.samples(_three_dims)
