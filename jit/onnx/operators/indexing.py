"""Operators that pick elements, or put them somewhere."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from jit.eager.namespace import F

from ..table import Number, Tensor, operator
from ..values import Known, as_operand, as_tensor
from .casts import array_of, result


def _taken(x: Known, index: Known, axis: int = 0) -> Known | None:
    if index.symbolic and any(type(i) is not int for i in index.array.ravel().tolist()):
        return None
    return Known(np.take(x.array, index.array.astype(np.int64), axis), x.dtype)


@operator("Gather", on_host=_taken)
def gather(x: Tensor, index: Any, *, axis: int = 0) -> Tensor:
    number = as_operand(index)
    if isinstance(number, int):
        return F.select(x, axis, number)
    index = _from_the_start(as_tensor(index), x.shape[axis])
    if index.ndim == 1:
        return F.index_select(x, axis, index)
    axis %= x.ndim
    taken = F.index_select(x, axis, F.reshape(index, (-1,)))
    return F.reshape(taken, (*x.shape[:axis], *index.shape, *x.shape[axis + 1 :]))


def _from_the_start(index: Tensor, count: Any) -> Tensor:
    """Indices that may count from the end."""
    index = index.long()
    return F.where(index < 0, index + count, index)


@operator("GatherElements")
def gather_elements(x: Tensor, index: Tensor, *, axis: int = 0) -> Tensor:
    return F.gather(x, axis, _from_the_start(index, x.shape[axis]))


def _rows(x: Tensor, index: Tensor, batch: int) -> tuple[Tensor, ...]:
    """The index tensors that pick `x[index]` over the last dim of `index`, behind so many dims of batches."""
    own = [F.select(index, -1, i) for i in range(int(index.shape[-1]))]
    inner = index.ndim - 1 - batch
    before = [
        F.reshape(F.arange(0, x.shape[d], 1), [-1 if e == d else 1 for e in range(batch)] + [1] * inner)
        for d in range(batch)
    ]
    places = [_from_the_start(i, x.shape[batch + d]) for d, i in enumerate(own)]
    return (*before, *places)


@operator("GatherND")
def gather_nd(x: Tensor, index: Tensor, *, batch_dims: int = 0) -> Tensor:
    return x[_rows(x, index, batch_dims)]


_REDUCTIONS = {"add": "sum", "mul": "prod", "max": "amax", "min": "amin"}


@operator("Scatter", "ScatterElements")
def scatter_elements(x: Tensor, index: Tensor, updates: Tensor, *, axis: int = 0, reduction: str = "none") -> Tensor:
    index = _from_the_start(index, x.shape[axis])
    if reduction == "none":
        return F.scatter(x, axis, index, updates)
    return F.scatter_reduce(x, axis, index, updates, _REDUCTIONS[reduction])


@operator("ScatterND")
def scatter_nd(x: Tensor, index: Tensor, updates: Tensor, *, reduction: str = "none") -> Tensor:
    if reduction in ("none", "add"):
        return F.index_put(x, list(_rows(x, index, 0)), updates, accumulate=reduction == "add")
    count = int(index.shape[-1])
    outer, inner = list(x.shape[:count]), list(x.shape[count:])
    strides = [math.prod(outer[d + 1 :]) for d in range(count)]
    flat = sum(place * stride for place, stride in zip(_rows(x, index, 0), strides, strict=True))
    rows, size = F.reshape(flat, (-1, 1)), math.prod(inner)
    target, given = F.reshape(x, (math.prod(outer), size)), F.reshape(updates, (-1, size))
    written = F.scatter_reduce(target, 0, F.expand(rows, given.shape), given, _REDUCTIONS[reduction])
    return F.reshape(written, x.shape)


@operator("Compress")
def compress(x: Tensor, condition: Tensor, *, axis: int | None = None) -> Tensor:
    if axis is None:
        x, axis = F.reshape(x, (-1,)), 0
    return F.index_select(x, axis, F.reshape(F.nonzero(condition), (-1,)))


@operator("NonZero")
def nonzero(x: Tensor) -> Tensor:
    return F.transpose(F.nonzero(x), 0, 1)


@operator("OneHot")
def one_hot(index: Tensor, depth: Number, values: Tensor, *, axis: int = -1) -> Tensor:
    depth = int(depth) if not isinstance(depth, int) else depth
    axis += index.ndim + 1 if axis < 0 else 0
    places = index.long() if index.dtype.is_integral else F.trunc(index).long()
    classes = F.reshape(F.arange(0, depth, 1), [-1 if d == axis else 1 for d in range(index.ndim + 1)])
    hit = F.eq(F.unsqueeze(F.remainder(places, depth), axis), classes)
    inside = F.unsqueeze((places >= -depth) & (places < depth), axis)
    return F.where(hit & inside, F.select(values, 0, 1), F.select(values, 0, 0))


@operator("ReverseSequence")
def reverse_sequence(x: Tensor, lengths: Tensor, *, batch_axis: int = 1, time_axis: int = 0) -> Tensor:
    steps, batch = x.shape[time_axis], x.shape[batch_axis]
    shape = [1] * x.ndim
    shape[time_axis] = steps
    time = F.reshape(F.arange(0, steps, 1), shape)
    shape[time_axis], shape[batch_axis] = 1, batch
    ends = F.reshape(lengths, shape)
    places = F.where(time < ends, ends - 1 - time, time)
    return F.gather(x, time_axis, F.expand(places, x.shape))


@operator("TopK", since=1)
def top_k(x: Any, k: Number, *, axis: int = -1, largest: int = 1, sorted: int = 1) -> Any:
    if not isinstance(x, Tensor) and x.dtype.kind == "u" and x.dtype.itemsize > 1:
        return _top_of_known(x, int(k), axis, bool(largest))
    values, places = F.sort(as_tensor(x), stable=True, dim=axis, descending=bool(largest))
    return F.slice(values, axis, 0, k, 1), F.slice(places, axis, 0, k, 1)


def _top_of_known(x: Known, k: int, axis: int, largest: bool) -> tuple[Known, Known]:
    order = np.argsort(-x.array.astype(np.int64) if largest else x.array, axis, kind="stable")
    order = np.take(order, np.arange(k), axis)
    return Known(np.take_along_axis(x.array, order, axis)), Known(order)


@operator("Unique", on_data=True)
def unique(x: Any, *, axis: int | None = None, sorted: int = 1) -> Any:
    array = array_of(x)
    values, first, inverse, counts = np.unique(
        array if axis is not None else array.ravel(), True, True, True, axis=axis
    )
    if not sorted:
        order = np.argsort(first, kind="stable")
        rank = np.argsort(order, kind="stable")
        values, first, counts = np.take(values, order, axis or 0), first[order], counts[order]
        inverse = rank[inverse]
    return tuple(result(v) for v in (values, first, inverse.reshape(-1), counts))


@operator("NonMaxSuppression", on_data=True)
def non_max_suppression(
    boxes: Tensor, scores: Tensor, most: Number | None, iou: Number | None, least: Number | None, *,
    center_point_box: int = 0,
) -> Any:  # fmt: skip
    corners, chances = _corners(boxes.numpy(), center_point_box), scores.numpy()
    chosen = []
    for batch, label in np.ndindex(chances.shape[:2]):
        kept = _suppressed(corners[batch], chances[batch, label], int(most or 0), iou or 0.0, least)
        chosen += [[batch, label, box] for box in kept]
    return Known(np.array(chosen, np.int64).reshape(-1, 3)).tensor()


def _corners(boxes: np.ndarray, centers: int) -> np.ndarray:
    if centers:
        middle, half = boxes[..., :2], boxes[..., 2:] / 2
        return np.concatenate([middle - half, middle + half], -1)
    return np.concatenate([np.minimum(boxes[..., :2], boxes[..., 2:]), np.maximum(boxes[..., :2], boxes[..., 2:])], -1)


def _suppressed(boxes: np.ndarray, scores: np.ndarray, most: int, limit: float, least: float | None) -> list[int]:
    order = [i for i in np.argsort(-scores, kind="stable") if least is None or scores[i] > least]
    kept: list[int] = []
    for box in order:
        if len(kept) == most:
            break
        if all(_overlap(boxes[box], boxes[other]) <= limit for other in kept):
            kept.append(int(box))
    return kept


def _overlap(a: np.ndarray, b: np.ndarray) -> float:
    sides = np.maximum(np.minimum(a[2:], b[2:]) - np.maximum(a[:2], b[:2]), 0)
    shared = float(np.prod(sides))
    union = float(np.prod(a[2:] - a[:2]) + np.prod(b[2:] - b[:2])) - shared
    return shared / union if union > 0 else 0.0
