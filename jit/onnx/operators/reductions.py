"""Operators that put many elements into one, and sums that run along a dim."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np

from jit.eager.namespace import F

from ..table import Number, Numbers, Tensor, operator
from ..values import Known, objects

Reduce = Callable[[Tensor, list[int], bool], Tensor]


def _sum(x: Tensor, axes: list[int], keep: bool) -> Tensor:
    return F.sum(x, axes, keep, dtype=x.dtype)


def _product(x: Tensor, axes: list[int], keep: bool) -> Tensor:
    for axis in sorted(axes, reverse=True):
        x = F.prod(x, axis, keep, dtype=x.dtype)
    return x


def _most(x: Tensor, axes: list[int], keep: bool, largest: bool) -> Tensor:
    if any(x.shape[a] == 0 for a in axes):
        shape = [1 if d in axes else n for d, n in enumerate(x.shape) if keep or d not in axes]
        return F.full(shape, _neutral(x, largest), dtype=x.dtype)
    return (F.amax if largest else F.amin)(x, axes, keep)


def _neutral(x: Tensor, largest: bool) -> Any:
    """The maximum (minimum) of nothing."""
    if x.dtype.is_floating_point:
        return -math.inf if largest else math.inf
    if x.dtype.numpy == np.bool_:
        return not largest
    limits = np.iinfo(x.dtype.numpy)
    return limits.min if largest else limits.max


def _square(x: Tensor, axes: list[int], keep: bool) -> Tensor:
    return _sum(x * x, axes, keep)


_REDUCTIONS: dict[str, Reduce] = {
    "ReduceL1": lambda x, axes, keep: _sum(F.abs(x), axes, keep),
    "ReduceL2": lambda x, axes, keep: _root(_square(x, axes, keep)),
    "ReduceLogSum": lambda x, axes, keep: F.log(_sum(x, axes, keep)),
    "ReduceLogSumExp": lambda x, axes, keep: F.logsumexp(x, axes, keep),
    "ReduceMax": lambda x, axes, keep: _most(x, axes, keep, True),
    "ReduceMean": lambda x, axes, keep: F.mean(x, axes, keep),
    "ReduceMin": lambda x, axes, keep: _most(x, axes, keep, False),
    "ReduceProd": _product,
    "ReduceSum": _sum,
    "ReduceSumSquare": _square,
}


def _root(x: Tensor) -> Tensor:
    return F.sqrt(x) if x.dtype.is_floating_point else F.sqrt(x.double()).to(x.dtype)


def _known(name: str) -> Callable[..., Known | None] | None:
    """The product or sum of sizes."""
    if name not in ("ReduceProd", "ReduceSum", "ReduceMax", "ReduceMin"):
        return None
    function = {"ReduceProd": math.prod, "ReduceSum": sum, "ReduceMax": max, "ReduceMin": min}[name]

    def on_host(x: Known, axes: Any = None, keepdims: int = 1, noop_with_empty_axes: int = 0, **_: Any) -> Known | None:
        if x.array.ndim != 1 or not x.array.size or noop_with_empty_axes or x.dtype.kind not in "iu":
            return None
        return Known(objects([function(x.array.tolist())], (1,) if keepdims else ()), x.dtype)  # type: ignore[operator]

    return on_host


def _reduction(name: str, reduce: Reduce) -> None:
    @operator(name, on_host=_known(name))
    def compute(x: Tensor, axes: Numbers | None, *, keepdims: int = 1, noop_with_empty_axes: int = 0) -> Tensor:
        if not axes and noop_with_empty_axes:
            return reduce(F.unsqueeze(x, 0), [0], False) if name not in ("ReduceMax", "ReduceMin") else x
        chosen = [a % x.ndim for a in axes] if axes else list(range(x.ndim))
        return reduce(x, chosen, bool(keepdims)) if x.ndim else reduce(F.unsqueeze(x, 0), [0], False)


for _name, _reduce in _REDUCTIONS.items():
    _reduction(_name, _reduce)


def _first_or_last(x: Tensor, axis: int, keep: int, last: int, largest: bool) -> Tensor:
    find = F.argmax if largest else F.argmin
    if not last:
        return find(x, axis, bool(keep))
    return x.shape[axis] - 1 - find(F.flip(x, [axis]), axis, bool(keep))


@operator("ArgMax")
def argmax(x: Tensor, *, axis: int = 0, keepdims: int = 1, select_last_index: int = 0) -> Tensor:
    return _first_or_last(x, axis, keepdims, select_last_index, True)


@operator("ArgMin")
def argmin(x: Tensor, *, axis: int = 0, keepdims: int = 1, select_last_index: int = 0) -> Tensor:
    return _first_or_last(x, axis, keepdims, select_last_index, False)


def _running(accumulate: Any, x: Tensor, axis: int, exclusive: int, reverse: int, start: Any) -> Tensor:
    if reverse:
        x = F.flip(x, [axis])
    if exclusive:
        first = F.full_like(F.slice(x, axis, 0, 1, 1), start)
        x = F.cat([first, F.slice(x, axis, 0, -1, 1)], axis)
    found = accumulate(x, axis, dtype=x.dtype)
    return F.flip(found, [axis]) if reverse else found


@operator("CumSum")
def cumsum(x: Tensor, axis: Number, *, exclusive: int = 0, reverse: int = 0) -> Tensor:
    return _running(F.cumsum, x, int(axis), exclusive, reverse, 0)


@operator("CumProd")
def cumprod(x: Tensor, axis: Number, *, exclusive: int = 0, reverse: int = 0) -> Tensor:
    return _running(F.cumprod, x, int(axis), exclusive, reverse, 1)
