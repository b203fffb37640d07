"""Reductions of rows: neutral elements, how a value joins an accumulator, and how accumulators are joined.

Written over the math namespace, so the same lines serve vectors of any width, and single lanes on a GPU.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from jit.ir.dtypes import DType, bool_, int64

from ..kernels.nest import NestScan, Reduce

if TYPE_CHECKING:
    from .build import LLVMBuilder
    from .math import LLVMMath
    from .values import LaneValue

Values = list["LaneValue"]


@dataclass(frozen=True)
class Monoid:
    """A way to combine values; an accumulator is one value, or (value, position)."""

    neutral: Callable[[LLVMMath, DType], Values]
    """The neutral element, which stands for values that are not there."""
    fold: Callable[[LLVMMath, Values, Values], Values]
    """An accumulator and the results of the body at one point -> an accumulator."""
    join: Callable[[LLVMMath, Values, Values], Values]
    """Two accumulators, the first of lower positions -> one."""
    width: int = 1
    """The number of values of an accumulator."""
    chained: bool = False
    """Whether inner loops go on with the accumulator of outer ones, instead of starting anew and being joined to it."""


def _least(dtype: DType) -> Any:
    """Below every number of the dtype, or equal to the least."""
    if dtype is bool_:
        return False
    return -math.inf if dtype.is_floating_point else int(np.iinfo(dtype.numpy).min)


def _greatest(dtype: DType) -> Any:
    if dtype is bool_:
        return True
    return math.inf if dtype.is_floating_point else int(np.iinfo(dtype.numpy).max)


def _simple(number: Callable[[DType], Any], combine: Callable[[LLVMMath, LaneValue, LaneValue], LaneValue]) -> Monoid:
    def both(m: LLVMMath, a: Values, b: Values) -> Values:
        return [combine(m, a[0], b[0])]

    return Monoid(lambda m, dtype: [m.constant(number(dtype), dtype)], both, both)


def _bound(number: Callable[[DType], Any], function: str, choice: str) -> Monoid:
    """The best of all, NaN above all. The joining value is tested for NaN, so that the accumulator need not wait."""

    def fold(m: LLVMMath, a: Values, x: Values) -> Values:
        if not x[0].dtype.is_floating_point:
            return [getattr(m, function)(a[0], x[0])]
        return [m.where(m.isnan(x[0]), x[0], getattr(m, choice)(x[0], a[0]))]

    def join(m: LLVMMath, a: Values, b: Values) -> Values:
        return [getattr(m, function)(a[0], b[0])]

    return Monoid(lambda m, dtype: [m.constant(number(dtype), dtype)], fold, join)


def _extreme(start: Callable[[DType], Any], better: str, not_better: str) -> Monoid:
    """(value, position) of the best; NaN is best of all, the lower position the better of equals.

    An accumulator starts from the worst of values at position 0, where a row begins: that is still right at the end if
    nothing was better, since then the row holds nothing but the worst of values.
    """

    def join(m: LLVMMath, a: Values, b: Values) -> Values:
        takes = getattr(m, better)(b[0], a[0]) | (m.isnan(b[0]) & ~m.isnan(a[0]))
        same = (a[0] == b[0]) | (m.isnan(a[0]) & m.isnan(b[0]))
        takes = takes | (same & (b[1] < a[1]))
        return [m.where(takes, b[0], a[0]), m.where(takes, b[1], a[1])]

    def fold(m: LLVMMath, a: Values, x: Values) -> Values:
        """Positions only grow along a lane, so equals leave the accumulator as it is."""
        takes = ~getattr(m, not_better)(x[0], a[0]) & ~m.isnan(a[0])  # a comparison with NaN does not hold
        return [m.where(takes, x[0], a[0]), m.where(takes, x[1], a[1])]

    def neutral(m: LLVMMath, dtype: DType) -> Values:
        return [m.constant(start(dtype), dtype), m.constant(0, int64)]

    return Monoid(neutral, fold, join, width=2)


_DOT = Monoid(
    neutral=lambda m, dtype: [m.constant(0, dtype)],
    fold=lambda m, a, x: [m.fma(x[0], x[1], a[0]) if x[0].dtype.is_floating_point else a[0] + x[0] * x[1]],
    join=lambda m, a, b: [a[0] + b[0]],
    chained=True,
)

MONOIDS = {
    "sum": _simple(lambda dtype: 0, lambda m, a, b: a + b),
    "prod": _simple(lambda dtype: 1, lambda m, a, b: a * b),
    "max": _bound(_least, "maximum", "larger"),
    "min": _bound(_greatest, "minimum", "smaller"),
    "logaddexp": _simple(_least, lambda m, a, b: _add_logarithms(m, a, b)),
    "argmax": _extreme(_least, "greater", "less_equal"),
    "argmin": _extreme(_greatest, "less", "greater_equal"),
    "dot": _DOT,
}


def _add_logarithms(m: LLVMMath, a: LaneValue, b: LaneValue) -> LaneValue:
    higher = m.maximum(a, b) + m.log1p(m.exp(-m.abs(a - b)))
    return m.where(a == b, a + math.log(2), higher)  # inf - inf would be NaN


def across_lanes(m: LLVMMath, monoid: Monoid, values: Values) -> Values:
    """One accumulator from those in the lanes: the upper half joins the lower half until one is left."""
    builder = m.builder
    width = builder.width
    while width > 1:
        width //= 2
        with builder.lanes_of(width):
            low, high = (_part(builder, m, values, start) for start in (0, width))
            values = monoid.join(m, low, high)
    return values


def _part(builder: LLVMBuilder, m: LLVMMath, values: Values, start: int) -> Values:
    return [m.value(v.dtype, builder.lanes_from(v.register, start)) for v in values]


def running(m: LLVMMath, monoid: Monoid, neutral: LaneValue, value: LaneValue) -> LaneValue:
    """The running reduction over the lanes: each takes in the lane 1, 2, 4, ... before it."""
    builder, shift = m.builder, 1
    while shift < builder.width:
        picked = ", ".join(f"i32 {i - shift if i >= shift else builder.width}" for i in range(builder.width))
        text = f"shufflevector {value.register}, {neutral.register}, <{builder.width} x i32> <{picked}>"
        moved = builder.emit(value.register.type, text, value.register, neutral.register)
        value = monoid.join(m, [m.value(value.dtype, moved)], [value])[0]
        shift *= 2
    return value


def neutral_of(m: LLVMMath, monoid: Monoid, dtype: DType, arity: int) -> Sequence[LaneValue]:
    """The neutral elements that the body may yield where there is no point: as many values as it yields."""
    values = monoid.neutral(m, dtype)
    return values if len(values) == arity else values * arity


@dataclass
class AccumulatorChain:
    """An accumulator: of one result or scan of a step, for one of the rows computed together."""

    result: Reduce | NestScan
    copy: int
    monoid: Monoid
    neutral: list[LaneValue]

    @property
    def goes_on(self) -> bool:
        """Whether inner loops go on with the accumulator of outer ones."""
        return self.monoid.chained or isinstance(self.result, NestScan)
