"""Pairs of float64 numbers (high, low), of which the low number is what rounding the high one lost.

They serve functions whose intermediate results need more than 53 bits.
"""

from __future__ import annotations

import math
from typing import Any

from .elementary import exp

Pair = tuple[Any, Any]

LN2 = (0.6931471805599453, 2.3190468138462996e-17)
LOG2_E = (1.4426950408889634, 2.0355273740931033e-17)
LOG10_E = (0.4342944819032518, 1.098319650216765e-17)
PI = (3.141592653589793, 1.2246467991473532e-16)
"""Numbers as pairs."""


def normalized(high: Any, low: Any) -> Pair:
    """The same sum as a pair; |high| >= |low|, or high = 0."""
    total = high + low
    return total, low - (total - high)


def product(m: Any, a: Pair, b: Pair | tuple[float, float]) -> Pair:
    """a * b."""
    high = a[0] * b[0]
    return high, m.fma(a[0], b[0], -high) + (a[0] * b[1] + a[1] * b[0])


def number_plus(number: tuple[float, float], pair: Pair) -> Pair:
    """A number that is larger than the pair, plus the pair."""
    high, low = normalized(number[0], pair[0])
    return high, low + (pair[1] + number[1])


def exp_of(m: Any, pair: Pair) -> Any:
    """e**(high + low)."""
    value = exp(m, pair[0])
    return m.where((value > 0) & (value < math.inf), m.fma(value, pair[1], value), value)
