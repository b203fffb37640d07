"""Operators that look at sizes, or arrange elements anew."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from jit.eager.namespace import F
from jit.ir.errors import ModelError

from ..table import Number, Numbers, Tensor, operator
from ..values import SMALL, Known, as_tensor, objects, sizes, tensor_dtype
from .casts import numpy_dtype


def shape_of(x: Any) -> list[Any]:
    """The sizes of a tensor, symbols of a trace included, or of what the host knows."""
    return list(x.array.shape if isinstance(x, Known) else x.shape)


@operator("Shape")
def shape(x: Any, *, start: int = 0, end: int | None = None) -> Known:
    return sizes(shape_of(x)[slice(start, end)])


@operator("Size")
def size(x: Any) -> Known:
    return Known(objects([math.prod(shape_of(x))], ()), np.int64)


# -- sizes ---------------------------------------------------------------------------------------------------------


def _reshaped(x: Known, shape: Known | None = None, allowzero: int = 0, **_: Any) -> Known | None:
    if shape is None:
        return None
    wanted = [n if n or allowzero else x.array.shape[i] for i, n in enumerate(shape.array.tolist())]
    return Known(x.array.reshape([int(n) for n in wanted]), x.dtype)


@operator("Reshape", on_host=_reshaped)
def reshape(x: Tensor, shape: Numbers, *, allowzero: int = 0) -> Tensor:
    wanted = list(shape)
    if not allowzero:
        own = x.shape
        wanted = [own[i] if isinstance(n, int) and n == 0 and i < x.ndim else n for i, n in enumerate(wanted)]
    return F.reshape(x, wanted)


@operator("Flatten")
def flatten(x: Tensor, *, axis: int = 1) -> Tensor:
    axis += x.ndim if axis < 0 else 0
    if axis == 0:
        return F.reshape(x, (1, -1))
    return F.reshape(x, (math.prod(x.shape[:axis]), math.prod(x.shape[axis:])))


def _squeezed(x: Known, axes: Known | None = None) -> Known:
    chosen = None if axes is None else tuple(int(a) for a in axes.array.tolist())
    return Known(np.squeeze(x.array, chosen), x.dtype)


@operator("Squeeze", on_host=_squeezed)
def squeeze(x: Tensor, axes: Numbers | None) -> Tensor:
    return F.squeeze(x) if axes is None else F.squeeze(x, tuple(axes))


def _unsqueezed(x: Known, axes: Known | None = None) -> Known | None:
    return None if axes is None else Known(np.expand_dims(x.array, tuple(int(a) for a in axes.array.ravel())), x.dtype)


@operator("Unsqueeze", on_host=_unsqueezed)
def unsqueeze(x: Any, axes: Numbers) -> Any:
    rank = len(axes) + (x.array.ndim if isinstance(x, Known) else x.ndim)
    if isinstance(x, Known):
        return Known(np.expand_dims(x.array, tuple(axes)), x.dtype)
    for axis in sorted(a % rank for a in axes):
        x = F.unsqueeze(x, axis)
    return x


@operator("Transpose")
def transpose(x: Tensor, *, perm: Any = None) -> Tensor:
    return F.permute(x, tuple(perm) if perm is not None else tuple(reversed(range(x.ndim))))


def _expanded(x: Known, shape: Known) -> Known | None:
    if shape.symbolic and any(type(n) is not int for n in shape.array.tolist()):
        return None
    target = np.broadcast_shapes(x.array.shape, tuple(int(n) for n in shape.array.tolist()))
    return Known(np.broadcast_to(x.array, target), x.dtype) if math.prod(target) <= SMALL else None


@operator("Expand", on_host=_expanded)
def expand(x: Tensor, shape: Numbers) -> Tensor:
    own = [1] * (len(shape) - x.ndim) + list(x.shape)
    wanted = [1] * (x.ndim - len(shape)) + list(shape)
    target = [n if isinstance(m, int) and m == 1 else m for m, n in zip(own, wanted, strict=True)]
    return F.expand(x, target)


@operator("Tile", since=1)
def tile_along(x: Tensor, tiles: Number, axis: Number) -> Tensor:
    repeats = [1] * x.ndim
    repeats[int(axis)] = int(tiles)
    return F.repeat(x, repeats)


@operator("Tile", since=6)
def tile(x: Tensor, repeats: Numbers) -> Tensor:
    return F.repeat(x, repeats)


@operator("ConstantOfShape")
def constant_of_shape(shape: Numbers, *, value: Any = None) -> Any:
    fill = np.zeros(1, np.float32) if value is None else value.array
    if all(type(n) is int for n in shape) and fill.dtype.kind in "iub" and math.prod(shape) <= SMALL:
        return Known(np.full(shape, fill.ravel()[0], fill.dtype))
    return F.full(shape, fill.ravel()[0].item(), dtype=tensor_dtype(fill.dtype))


def _range_on_host(start: Known, limit: Known, delta: Known) -> Known | None:
    if start.dtype.kind not in "iu" or any(type(k.array.item()) is not int for k in (start, limit, delta)):
        return None
    return Known(np.arange(*(k.array.item() for k in (start, limit, delta)), dtype=start.dtype))


@operator("Range", on_host=_range_on_host)
def arange(start: Any, limit: Any, delta: Any, *, stash_type: int = 1) -> Tensor:
    dtype = start.dtype if isinstance(start, Tensor) else tensor_dtype(start.dtype)
    a, b, step = (v.item() if isinstance(v, Tensor) else v.array.item() for v in (start, limit, delta))
    if dtype.is_integral:
        return F.arange(a, b, step, dtype=dtype)
    count = max(math.ceil((b - a) / step), 0)
    wide = F.arange(0, count, 1, dtype=tensor_dtype(np.dtype(np.float64 if dtype.itemsize == 8 else np.float32)))
    return (wide * step + a).to(dtype)


# -- joins and cuts ------------------------------------------------------------------------------------------------


def _joined(*known: Known, axis: int = 0) -> Known | None:
    if any(k.symbolic for k in known) and any(k.array.ndim != 1 for k in known):
        return None
    return Known(np.concatenate([k.array for k in known], axis), known[0].dtype)


@operator("Concat", since=1, on_host=_joined)
def concat_of_old(*operands: Tensor, axis: int = 1) -> Tensor:
    return F.cat(list(operands), axis)


@operator("Concat", since=4, on_host=_joined)
def concat(*operands: Tensor, axis: int) -> Tensor:
    return F.cat(list(operands), axis)


@operator("Split")
def split(x: Tensor, split: Numbers | None, *, axis: int = 0, num_outputs: int | None = None, outputs: int) -> Any:
    if split is None:
        count = num_outputs or outputs
        each = -(-x.shape[axis] // count)
        split = [each] * (count - 1) + [x.shape[axis] - each * (count - 1)]
    return tuple(F.split_with_sizes(x, split, axis))


def _cut(x: Known, starts: Any = None, ends: Any = None, axes: Any = None, steps: Any = None, **_: Any) -> Known | None:
    if starts is None:
        return None
    index: list[Any] = [slice(None)] * x.array.ndim
    for n, (a, b) in enumerate(zip(starts.array.tolist(), ends.array.tolist(), strict=True)):
        axis = n if axes is None else axes.array.tolist()[n]
        index[axis] = slice(int(a), int(b), None if steps is None else int(steps.array.tolist()[n]))
    return Known(x.array[tuple(index)], x.dtype)


@operator("Slice", on_host=_cut)
def cut(x: Tensor, starts: Numbers, ends: Numbers, axes: Numbers | None, steps: Numbers | None) -> Tensor:
    axes = list(range(len(starts))) if axes is None else axes
    for axis, start, end, step in zip(axes, starts, ends, steps or [1] * len(axes), strict=True):
        x = _cut_along(x, axis, start, end, step)
    return x


def _cut_along(x: Tensor, axis: int, start: Any, end: Any, step: int) -> Tensor:
    if step > 0:
        return F.slice(x, axis, start, end, step)
    count = x.shape[axis]
    start = min(start if start >= 0 else start + count, count - 1)
    end = max(end if end >= 0 else end + count, -1)
    return F.slice(F.flip(x, [axis]), axis, count - 1 - start, count - 1 - end, -step)


@operator("CenterCropPad")
def center_crop_pad(x: Tensor, shape: Numbers, *, axes: Any = None) -> Tensor:
    for axis, wanted in zip(range(x.ndim) if axes is None else axes, shape, strict=True):
        missing = wanted - x.shape[axis]
        if missing < 0:
            start = -missing // 2
            x = F.slice(x, axis, start, start + wanted, 1)
        elif missing > 0:
            x = padded(x, {axis % x.ndim: (missing // 2, missing - missing // 2)}, "constant", 0)
    return x


# -- pads ----------------------------------------------------------------------------------------------------------


def padded(x: Tensor, pads: dict[int, tuple[Any, Any]], mode: str, value: Any) -> Tensor:
    """`x` with so many elements before and after along dims; negative numbers cut."""
    if mode == "constant":
        flat = [n for axis in reversed(range(x.ndim)) for n in pads.get(axis, (0, 0))]
        return F.constant_pad_nd(x, flat, value)
    for axis, (before, after) in pads.items():
        x = _padded_along(x, axis, before, after, mode)
    return x


def _padded_along(x: Tensor, axis: int, before: Any, after: Any, mode: str) -> Tensor:
    count = x.shape[axis]
    if before < 0 or after < 0:
        x = F.slice(x, axis, max(-before, 0), count - max(-after, 0), 1)
        before, after, count = max(before, 0), max(after, 0), x.shape[axis]
    if not before and not after:
        return x
    places = F.arange(-before, count + after, 1)
    if mode == "wrap":
        places = F.remainder(places, count)
    elif mode == "edge":
        places = F.clamp(places, 0, count - 1)
    else:  # there and back again
        period = max(2 * (count - 1), 1)
        places = F.remainder(places, period)
        places = F.minimum(places, period - places)
    return F.index_select(x, axis, places)


@operator("Pad")
def pad(
    x: Tensor, pads: Numbers, value: Any, axes: Numbers | None, *, mode: str = "constant", paddings: Any = None
) -> Tensor:
    pads = paddings or pads
    axes = list(range(x.ndim)) if axes is None else axes
    if len(pads) != 2 * len(axes):
        raise ModelError(f"Pad takes two numbers for each of {len(axes)} axes, not {len(pads)}")
    sides = {a % x.ndim: (pads[i], pads[i + len(axes)]) for i, a in enumerate(axes)}
    number = value if isinstance(value, (int, float)) else 0 if value is None else as_tensor(value).item()
    return padded(x, sides, mode, number)


# -- blocks --------------------------------------------------------------------------------------------------------


@operator("DepthToSpace")
def depth_to_space(x: Tensor, *, blocksize: int, mode: str = "DCR") -> Tensor:
    n, c, h, w = x.shape
    inner = (blocksize, blocksize, c // blocksize**2)
    if mode == "DCR":
        parts = F.permute(F.reshape(x, (n, *inner, h, w)), (0, 3, 4, 1, 5, 2))
    else:
        parts = F.permute(F.reshape(x, (n, inner[2], blocksize, blocksize, h, w)), (0, 1, 4, 2, 5, 3))
    return F.reshape(parts, (n, inner[2], h * blocksize, w * blocksize))


@operator("SpaceToDepth")
def space_to_depth(x: Tensor, *, blocksize: int, mode: str = "DCR") -> Tensor:
    n, c, h, w = x.shape
    parts = F.reshape(x, (n, c, h // blocksize, blocksize, w // blocksize, blocksize))
    order = (0, 3, 5, 1, 2, 4) if mode == "DCR" else (0, 1, 3, 5, 2, 4)
    return F.reshape(F.permute(parts, order), (n, c * blocksize**2, h // blocksize, w // blocksize))


@operator("Trilu")
def trilu(x: Tensor, k: Number | None, *, upper: int = 1) -> Tensor:
    return (F.triu if upper else F.tril)(x, int(k or 0))


@operator("EyeLike")
def eye_like(x: Tensor, *, dtype: int | None = None, k: int = 0) -> Tensor:
    kind = x.dtype if dtype is None else tensor_dtype(numpy_dtype(dtype))
    rows, columns = F.arange(0, x.shape[0], 1), F.arange(0, x.shape[1], 1)
    return F.eq(F.unsqueeze(rows, 1) + k, columns).to(kind)
