"""C's mathematical functions of float64 numbers as expressions, for machines that have no C library, such as GPUs.

Written like `elementary`, and in its functions: those that the CPU's kernels leave to C. `exact` has what is computed
in integers, `pairs` the arithmetic of intermediate results that need more than 53 bits.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

from jit.ir.dtypes import float64, int64

from .elementary import (
    DOUBLE,
    clamped,
    exp,
    expm1,
    horner,
    log,
    log1p,
    outside_of_log,
    scaled,
    signed_power,
    sine_of,
    split_log,
)
from .elementary import cos as cosine
from .elementary import sin as sine
from .exact import fmod, quarter_turns
from .pairs import LN2, LOG2_E, LOG10_E, PI, Pair, exp_of, normalized, number_plus, product

LARGE = 2.0**28
"""A number whose square plus one is its square."""


# -- logarithms and powers ---------------------------------------------------------------------------------------

ATANH_REST = tuple(1 / (7 + 2 * j) for j in range(11))
"""atanh(s) = s + s**3 / 3 + s**5 / 5 + s**7 * P(s**2)."""


def log_pair(m: Any, x: Any) -> tuple[Any, Pair]:
    """(k, log(y)) with x = 2**k * y, for a positive finite x; y is in [sqrt(1/2), sqrt(2)).

    log(y) = 2 * atanh(s) with s = (y - 1) / (y + 1); the terms that matter are summed in pairs.
    """
    denormal = x < DOUBLE.min_normal
    k, y = split_log(m, DOUBLE, m.where(denormal, x * 2.0**54, x))
    fraction = y - 1
    below, below_low = normalized(2.0, fraction)
    s = fraction / below
    s_low = (m.fma(-s, below, fraction) - s * below_low) / below
    z = product(m, (s, s_low), (s, s_low))
    rest = number_plus((0.2, -1.1102230246251566e-17), (z[0] * horner(m, ATANH_REST, z[0]), 0.0))
    rest = number_plus((1 / 3, 1.850371707708594e-17), product(m, z, rest))
    curve = product(m, (s, s_low), product(m, z, rest))
    high, low = normalized(s, curve[0])
    return m.where(denormal, k - 54, k), (high * 2, (low + (curve[1] + s_low)) * 2)


def whole_log(m: Any, x: Any) -> Pair:
    """The natural logarithm of a positive finite number as a pair."""
    k, (high, low) = log_pair(m, x)
    count = m.cast(k, float64)
    exact, short = count * DOUBLE.ln2[0], product(m, (count, 0.0), (DOUBLE.ln2[1], 0.0))
    total, lost = normalized(exact, high)
    return normalized(total, lost + (short[0] + (low + short[1])))


def pow(m: Any, x: Any, y: Any) -> Any:
    """x**y through exp(y * log|x|), the exponent being a pair."""
    size = m.abs(x)
    high, low = whole_log(m, size)
    high = outside_of_log(m, size, high, size)
    exponent = y * high
    moderate = m.abs(exponent) < 800
    low = m.where(moderate, m.fma(y, high, -exponent) + y * low, 0)
    return signed_power(m, x, y, exp_of(m, (exponent, low)))


def log2(m: Any, x: Any) -> Any:
    """The logarithm to base 2: exact for powers of two."""
    k, pair = log_pair(m, x)
    high, low = product(m, pair, LOG2_E)
    total, lost = normalized(m.cast(k, float64), high)
    return outside_of_log(m, x, total + (lost + low), x)


def log10(m: Any, x: Any) -> Any:
    """The logarithm to base 10."""
    high, low = product(m, whole_log(m, x), LOG10_E)
    return outside_of_log(m, x, high + low, x)


def exp2(m: Any, x: Any) -> Any:
    """2**x = 2**k * e**(r * log(2)), k being x rounded to an integer."""
    x = clamped(m, x, -1100, 1100)
    nearest = m.round(x)
    value = exp_of(m, product(m, (x - nearest, 0.0), LN2))
    return scaled(m, DOUBLE, value, m.cast(m.where(m.isnan(x), 0, nearest), int64))


def cbrt(m: Any, x: Any) -> Any:
    """The cubic root: e**(log(x) / 3), then a step of Newton's."""
    size = m.abs(x)
    denormal = size < DOUBLE.min_normal
    size = m.where(denormal, size * 2.0**54, size)
    root = exp(m, log(m, size) * (1 / 3))
    root = root - (root - size / (root * root)) * (1 / 3)
    root = m.where(denormal, root * 2.0**-18, root)
    return m.where((x == 0) | ~m.isfinite(x), x, m.copysign(root, x))


def hypot(m: Any, x: Any, y: Any) -> Any:
    """sqrt(x**2 + y**2), scaled so that no square overflows."""
    x, y = m.abs(x), m.abs(y)
    large, small = m.where(x > y, x, y), m.where(x > y, y, x)
    scale = m.where(large > 2.0**500, 2.0**-600, m.where(large < 2.0**-500, m.constant(2.0**600, float64), 1.0))
    large, small = large * scale, small * scale
    value = m.sqrt(m.fma(large, large, small * small)) / scale
    return m.where(m.isinf(x) | m.isinf(y), math.inf, value)


# -- hyperbolic functions ----------------------------------------------------------------------------------------


def sinh(m: Any, x: Any) -> Any:
    """(e + e / (e + 1)) / 2 with e = expm1(|x|), or e**|x| / 2 in two factors."""
    size = m.abs(x)
    e = expm1(m, clamped(m, size, 0, 709))
    return m.copysign(m.where(size < 709, (e + e / (e + 1)) * 0.5, _half_power(m, size)), x)


def cosh(m: Any, x: Any) -> Any:
    """(e + 1 / e) / 2 with e = exp(|x|), or e**|x| / 2 in two factors."""
    size = m.abs(x)
    e = exp(m, clamped(m, size, 0, 709))
    return m.where(size < 709, e * 0.5 + 0.5 / e, _half_power(m, size))


def _half_power(m: Any, size: Any) -> Any:
    root = exp(m, size * 0.5)
    return root * 0.5 * root


def asinh(m: Any, x: Any) -> Any:
    """log(x + sqrt(x**2 + 1)), without cancellation near 0."""
    size = m.abs(x)
    square = size * size
    near = log1p(m, size + square / (1 + m.sqrt(square + 1)))
    return m.copysign(m.where(size < LARGE, near, log(m, size) + LN2[0]), x)


def acosh(m: Any, x: Any) -> Any:
    """log(x + sqrt(x**2 - 1)), without cancellation near 1."""
    t = x - 1
    near = log1p(m, t + m.sqrt(t * 2 + t * t))
    return m.where(x < 1, math.nan, m.where(x < LARGE, near, log(m, x) + LN2[0]))


def atanh(m: Any, x: Any) -> Any:
    """log((1 + x) / (1 - x)) / 2."""
    size = m.abs(x)
    return m.copysign(log1p(m, size * 2 / (1 - size)) * 0.5, x)


# -- circular functions ------------------------------------------------------------------------------------------

ATAN = tuple((-1) ** n / (2 * n + 1) for n in range(1, 22))
"""atan(t) = t + t**3 * P(t**2), for |t| <= tan(pi / 8)."""


def atan2(m: Any, y: Any, x: Any) -> Any:
    """The angle of the point (x, y)."""
    up, right = m.abs(y), m.abs(x)
    steep = up > right
    angle = _atan(m, m.where(steep, right, up), m.where(steep, up, right))
    angle = m.where(steep, (PI[0] / 2 - angle) + PI[1] / 2, angle)
    angle = m.where(m.signbit(x), (PI[0] - angle) + PI[1], angle)
    return m.where(m.isnan(x) | m.isnan(y), math.nan, m.copysign(angle, y))


def _atan(m: Any, small: Any, large: Any) -> Any:
    """atan(small / large) for 0 <= small <= large; near pi / 4 that is pi / 4 + atan((small - large) / sum)."""
    infinite = large == math.inf
    small = m.where(infinite, m.where(small == math.inf, m.constant(1.0, float64), 0.0), small)
    large = m.where(infinite | (large == 0), 1, large)
    scale = m.where(large > 2.0**1000, m.constant(2.0**-60, float64), 1.0)
    small, large = small * scale, large * scale
    near = small > large * (math.sqrt(2) - 1)
    above, below = m.where(near, small - large, small), m.where(near, small + large, large)
    t = above / below
    lost = m.fma(-t, below, above) / below
    z = t * t
    rest = m.fma(t * z, horner(m, ATAN, z), lost + m.where(near, m.constant(PI[1] / 4, float64), 0.0))
    return m.where(near, m.constant(PI[0] / 4, float64), 0.0) + (t + rest)


def atan(m: Any, x: Any) -> Any:
    """The angle whose tangent is x."""
    return atan2(m, x, m.constant(1.0, float64))


def asin(m: Any, x: Any) -> Any:
    """The angle whose sine is x."""
    return atan2(m, x, m.sqrt((1 - x) * (1 + x)))


def acos(m: Any, x: Any) -> Any:
    """The angle whose cosine is x."""
    return atan2(m, m.sqrt((1 - x) * (1 + x)), x)


def tan(m: Any, x: Any) -> Any:
    """The tangent."""
    return m.where(x == 0, x, sine(m, x) / cosine(m, x))


def sin(m: Any, x: Any) -> Any:
    """The sine of a large number."""
    return _of_large(m, x, 0)


def cos(m: Any, x: Any) -> Any:
    """The cosine of a large number."""
    return _of_large(m, x, 1)


def _of_large(m: Any, x: Any, quarter: int) -> Any:
    """The sine of |x| >= 2**20, `quarter` quarters of a turn later."""
    turns, high, low = quarter_turns(m, x)
    r, tail = product(m, (high, low), (PI[0] / 2, PI[1] / 2))
    r, tail = normalized(r, tail)
    value = sine_of(m, DOUBLE, turns + quarter, r, tail)
    return m.where(m.isfinite(x), value, math.nan)


# -- error functions ---------------------------------------------------------------------------------------------

# fmt: off
ERF = tuple(2 / math.sqrt(math.pi) * (-1) ** n / (math.factorial(n) * (2 * n + 1)) - (n == 0) for n in range(18))
"""erf(x) = x + x * P(x**2) for |x| <= 0.85: the series."""
ERFC = (
    1.2375126308378275, -0.1402405985855468, 0.003585415485467132, 0.0822767384901225, -0.10880393014192986,
    0.09230432116129157, -0.058693398584914444, 0.028362277402363828, -0.009746579621176282, 0.0017556260165545545,
    0.0002937141582996715, -0.0002901550436075221, 5.1646698817131874e-05, 2.2387777456429792e-05,
    -1.1436613724959613e-05, -9.817708569248776e-07, 1.7363549156644311e-06, -4.545130844835959e-08,
    -2.391669890186163e-07, 1.3595394350212363e-08, 2.4178868336315893e-08,
)
"""erfc(x) = exp(-x**2) / (1 + 2 x) * P(t) with t = (x - 3.75) / (x + 3.75), for x >= 0.5."""
# fmt: on
SERIES_END = 0.85


def erf(m: Any, x: Any) -> Any:
    """The error function."""
    size = m.abs(x)
    return m.where(size < SERIES_END, _erf_centre(m, x), m.copysign(1 - _erfc_tail(m, size), x))


def erfc(m: Any, x: Any) -> Any:
    """1 - erf(x), without cancellation for large x."""
    tail = _erfc_tail(m, m.abs(x))
    outer = m.where(x < 0, 2 - tail, tail)
    return m.where((x > -SERIES_END) & (x < 0.5), 1 - _erf_centre(m, x), outer)


def _erf_centre(m: Any, x: Any) -> Any:
    return m.fma(x, horner(m, ERF, x * x), x)


def _erfc_tail(m: Any, size: Any) -> Any:
    size = clamped(m, size, 0.5, 28)
    t = (size - 3.75) / (size + 3.75)
    square = size * size
    power = exp_of(m, (-square, -m.fma(size, size, -square)))
    return power * (horner(m, ERFC, t) / m.fma(size, 2, 1))


FUNCTIONS: dict[str, Callable[..., Any]] = {
    function.__name__: function
    for function in (
        pow, log2, log10, exp2, cbrt, hypot, sinh, cosh, asinh, acosh, atanh, atan2, atan, asin, acos, tan, sin, cos,
        erf, erfc, fmod,
    )
}  # fmt: skip
"""The functions by C's names; each takes and gives float64 values of a namespace."""
