"""The elementary functions as expressions of the math namespace: no branches, no calls, any vector width.

Each is written once for float32 and float64, over a `Format` that holds the numbers of the type. The methods are the
classical ones (argument reduction, a short polynomial, exact reconstruction); `benchmarks/derive_polynomials.py`
derives the coefficients and `benchmarks/check_ulp.py` measures the errors over every float32. All of them are exact
on NaN, infinities, signed zeros, and keep denormals.
"""

from __future__ import annotations

import math
import struct
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from jit.ir.dtypes import DType, float32, float64, int32, int64


@dataclass(frozen=True)
class Format:
    """A binary floating type and the constants of the formulas in it."""

    integer: DType
    """The integer type of the same width."""
    mantissa: int
    """Bits of the fraction."""
    bias: int
    """The bias of the exponent."""
    ln2: tuple[float, float]
    """log(2) as two numbers; the first is short, so that its product with an exponent is exact."""
    exp_range: tuple[float, float]
    """Beyond it exp(x) is 0 or infinite."""
    expm1_low: float
    """Below it expm1(x) is -1, and tanh(x / 2) too."""
    exp: tuple[float, ...]
    """exp(r) = 1 + r + r**2 * P(r) for |r| <= log(2) / 2."""
    log: tuple[float, ...]
    """log((1 + s) / (1 - s)) = 2 * s + s * z * P(z), z = s**2, for arguments in [sqrt(1/2), sqrt(2)]."""
    sin: tuple[float, ...]
    """sin(r) = r + r * z * P(z), z = r**2, for |r| <= pi / 4."""
    cos: tuple[float, ...]
    """cos(r) = 1 - z / 2 + z**2 * P(z), z = r**2, for |r| <= pi / 4."""
    tanh: tuple[float, ...]
    """tanh(x) = x + x * z * P(z), z = x**2, where it is at most 1 / 2."""

    @property
    def magic(self) -> float:
        """The number that, added to one of moderate size, rounds that to an integer in the low bits of the sum."""
        return 1.5 * 2.0**self.mantissa

    @property
    def min_normal(self) -> float:
        """The least number that is not denormal."""
        return 2.0 ** (1 - self.bias)

    def bits(self, value: float) -> int:
        """The pattern of `value` as an integer."""
        code = "<f" if self.integer is int32 else "<d"
        return int.from_bytes(struct.pack(code, value), "little", signed=True)


# fmt: off
SINGLE = Format(
    integer=int32, mantissa=23, bias=127,
    ln2=(0.693115234375, 3.194618329871446e-05), exp_range=(-104.0, 89.0), expm1_low=-20.0,
    exp=(0.5000000071391135, 0.16666531491040365, 0.04166625641996049, 0.008367708247756298, 0.0013947926309871854),
    log=(0.6666677639388215, 0.3997753919086681, 0.2987180979037302),
    sin=(-0.16666654943004713, 0.008332177977507833, -0.00019517266324260295),
    cos=(0.041666646880790574, -0.001388736798646815, 2.4438486660940058e-05),
    tanh=(-0.3333331813054959, 0.13332604374894122, -0.05385413382206302, 0.0210788925114962, -0.006284091915835527),
)
DOUBLE = Format(
    integer=int64, mantissa=52, bias=1023,
    ln2=(0.6931471806019545, -4.2009150726810846e-11), exp_range=(-746.0, 710.0), expm1_low=-40.0,
    exp=(0.5000000000000003, 0.16666666666666685, 0.04166666666658658, 0.008333333333315226, 0.0013888888929878883,
         0.00019841269902200987, 2.4801506386741325e-05, 2.755722837727308e-06, 2.7625800990889297e-07,
         2.5114407664417653e-08),
    log=(0.6666666666666734, 0.3999999999941454, 0.2857142874243274, 0.22222198567290743, 0.18183564688034504,
         0.1531404004346576, 0.14796066110643274),
    sin=(-0.16666666666666632, 0.008333333333322427, -0.0001984126982981682, 2.7557313694589935e-06,
         -2.505075848352646e-08, 1.589681483445783e-10),
    cos=(0.0416666666666666, -0.0013888888888874244, 2.4801587289546965e-05, -2.755731436898658e-07,
         2.087572532330698e-09, -1.1359745202461308e-11),
    tanh=(-0.333333333333333, 0.1333333333332693, -0.05396825396392761, 0.021869488390392464, -0.008863232672724253,
          0.0035920927259538065, -0.0014555471948818335, 0.0005884619349289638, -0.00023342500042551745,
          8.337751795393136e-05, -1.95317534703062e-05),
)
ERF_CENTRE = (0.128379166494721, -0.3761263228551596, 0.11283672545738876, -0.026858104365132796, 0.0051977974309385866,
              -0.0008105968429949176, 8.215437899302351e-05)
ERF_TAIL = (-0.0001533862706197947, 1.1293970862155758, 0.6336272606883898, 0.1079057770210661, -0.024812854122899443,
            0.00401342693056125, -0.0003847950611942157, 1.2331655493242826e-05, 6.626882989619396e-07)
# fmt: on

FORMATS = {float32: SINGLE, float64: DOUBLE}

# -- building blocks ---------------------------------------------------------------------------------------------


def horner(m: Any, coefficients: Sequence[float], x: Any) -> Any:
    """A polynomial, lowest coefficient first."""
    value = m.fma(x, coefficients[-1], coefficients[-2])
    for coefficient in reversed(coefficients[:-2]):
        value = m.fma(value, x, coefficient)
    return value


def clamped(m: Any, x: Any, low: float, high: float) -> Any:
    """x within constant bounds; NaN stays NaN."""
    raised = m.where(x < low, low, x)
    return m.where(raised > high, high, raised)


def power_of_two(m: Any, f: Format, k: Any, like: Any) -> Any:
    """2.0**k for an integer k within the exponents of normal numbers."""
    return m.from_bits((k + f.bias) << f.mantissa, like.dtype)


def small_power_of_two(m: Any, f: Format, k: Any, like: Any) -> Any:
    """2.0**-k, or 0 where that would be denormal."""
    return power_of_two(m, f, m.maximum(-k, -f.bias), like)


def scaled(m: Any, f: Format, y: Any, k: Any) -> Any:
    """y * 2**k for an integer k, in two steps, so that overflow and denormal results round once."""
    half = k >> 1
    return y * power_of_two(m, f, half, y) * power_of_two(m, f, k - half, y)


def scaled_by(m: Any, f: Format, y: Any, shifted: Any) -> Any:
    """y * 2**n where `shifted` is n + f.magic, by an instruction of its own where there is one."""
    if m.scales(y):
        return m.scaled(y, shifted - f.magic)
    return scaled(m, f, y, m.bits(shifted) - f.bits(f.magic))


def split_exp(m: Any, f: Format, x: Any) -> tuple[Any, Any]:
    """(n + f.magic, r) with exp(x) = 2**n * exp(r), n being whole and |r| <= log(2) / 2."""
    shifted = m.fma(x, 1 / math.log(2), f.magic)
    n = shifted - f.magic
    return shifted, m.fma(n, -f.ln2[1], m.fma(n, -f.ln2[0], x))


def exp_of_rest(m: Any, f: Format, r: Any) -> Any:
    """exp(r) for |r| <= log(2) / 2."""
    return horner(m, (1.0, 1.0, *f.exp), r)


def log_of_parts(m: Any, f: Format, exponent: Any, fraction: Any) -> Any:
    """log(2**exponent * (1 + fraction)) = exponent * log(2) + fraction - (fraction**2 / 2 - s * (... + z * P(z)))."""
    s = fraction / (fraction + 2)
    z = s * s
    half_square = fraction * fraction * 0.5
    curve = s * (half_square + z * horner(m, f.log, z))
    return exponent * f.ln2[0] - ((half_square - m.fma(exponent, f.ln2[1], curve)) - fraction)


def split_log(m: Any, f: Format, x: Any) -> tuple[Any, Any]:
    """(k, y) with x = 2**k * y, k an integer, y in [sqrt(1/2), sqrt(2)), for a positive normal x."""
    bits = m.bits(x)
    k = (bits - f.bits(math.sqrt(0.5))) >> f.mantissa
    return k, m.from_bits(bits - (k << f.mantissa), x.dtype)


# -- exponential and logarithm -----------------------------------------------------------------------------------


def exp(m: Any, x: Any) -> Any:
    """e**x."""
    f = FORMATS[x.dtype]
    shifted, r = split_exp(m, f, clamped(m, x, *f.exp_range))
    return scaled_by(m, f, exp_of_rest(m, f, r), shifted)


def expm1(m: Any, x: Any) -> Any:
    """e**x - 1 = 2**n * ((1 - 2**-n) + expm1(r)), in which the two large parts are added without error."""
    f = FORMATS[x.dtype]
    within = clamped(m, x, f.expm1_low, f.exp_range[1])
    shifted, r, c = split_exactly(m, f, within)
    k = m.bits(shifted) - f.bits(f.magic)
    one = 1 - small_power_of_two(m, f, k, x)
    total = one + r
    rest = ((one - total) + r) + m.fma(r * r, horner(m, f.exp, r), c)
    return m.where(x == 0, x, scaled_by(m, f, total + rest, shifted))


def split_exactly(m: Any, f: Format, x: Any) -> tuple[Any, Any, Any]:
    """`split_exp`, and what rounding has taken from r."""
    shifted = m.fma(x, 1 / math.log(2), f.magic)
    n = shifted - f.magic
    high = m.fma(n, -f.ln2[0], x)
    low = n * f.ln2[1]
    r = high - low
    return shifted, r, (high - r) - low


def log(m: Any, x: Any) -> Any:
    """The natural logarithm; NaN below 0, -inf at 0."""
    f = FORMATS[x.dtype]
    denormal = x < f.min_normal
    k, y = split_log(m, f, m.where(denormal, x * 2.0**f.mantissa, x))
    k = m.where(denormal, k - f.mantissa, k)
    value = log_of_parts(m, f, m.cast(k, x.dtype), y - 1)
    return outside_of_log(m, x, value, x)


def log1p(m: Any, x: Any) -> Any:
    """log(1 + x): what rounding 1 + x loses is added to the fraction."""
    f = FORMATS[x.dtype]
    u = 1 + x
    k, y = split_log(m, f, u)
    lost = m.where(x > 1, 1 - (u - x), x - (u - 1))
    value = log_of_parts(m, f, m.cast(k, x.dtype), (y - 1) + lost * small_power_of_two(m, f, k, x))
    return m.where(x == 0, x, outside_of_log(m, u, value, x))


def outside_of_log(m: Any, u: Any, value: Any, x: Any) -> Any:
    """`value` for positive finite u, else what a logarithm of u is; a NaN x as it is."""
    outside = m.where(u == 0, -math.inf, m.where(u == math.inf, u, math.nan))
    return m.where(m.isnan(x), x, m.where((u > 0) & (u < math.inf), value, outside))


# -- functions of the exponential --------------------------------------------------------------------------------


def sigmoid(m: Any, x: Any) -> Any:
    """1 / (1 + exp(-x)) through e = exp(-|x|), which never overflows: 1 / (1 + e), or e / (1 + e) for negative x."""
    e = exp(m, -m.abs(x))
    top = m.where(m.signbit(x), e, 1)
    return m.fma(-top, e / (1 + e), top)


def tanh(m: Any, x: Any) -> Any:
    """x + x * z * P(z) with z = x**2 near 0, else 1 - 2 / (exp(2 |x|) + 1), with the sign of x.

    What is taken from 1 is at most 1 / 2 there: its own errors count half, and log(2) may be one number.
    """
    f = FORMATS[x.dtype]
    size = m.abs(x)
    z = size * size
    centre = m.fma(size * z, horner(m, f.tanh, z), size)
    double = size + size
    within = m.where(double > -f.expm1_low, -f.expm1_low, double)
    shifted = m.fma(within, 1 / math.log(2), f.magic)
    r = m.fma(shifted - f.magic, -math.log(2), within)
    n = m.bits(shifted) << f.mantissa  # the bits of f.magic are shifted out
    power = m.from_bits(m.bits(exp_of_rest(m, f, r)) + n, x.dtype)
    return m.copysign(m.where(size > math.log(3) / 2, 1 - 2 / (power + 1), centre), x)  # NaN is not larger


def erf(m: Any, x: Any) -> Any:
    """x + x * P(x**2) near 0, 1 - exp(-Q(|x|)) elsewhere; float64 asks the C library."""
    if x.dtype is float64:
        return m.libm("erf", x)
    size = m.abs(x)
    centre = m.fma(x, horner(m, ERF_CENTRE, x * x), x)
    tail = 1 - exp(m, -horner(m, ERF_TAIL, clamped(m, size, 0, 4)))
    return m.where(size < 0.92, centre, m.copysign(tail, x))


# -- circular functions ------------------------------------------------------------------------------------------

HALF_PI_SINGLE = (1.5707963267341256, 6.077100506506192e-11)
"""pi / 2 as a sum: products with integers below 2**20 are exact in float64, but for those with the last number."""
HALF_PI = (1.5707963267341256, 6.077100506303966e-11, 2.0222662487959506e-21)
MODERATE = 2.0**20
"""Beyond it the argument is reduced by the C library."""


def sin(m: Any, x: Any) -> Any:
    """The sine."""
    return m.where(x == 0, x, _circular(m, x, "sin", 0))


def cos(m: Any, x: Any) -> Any:
    """The cosine: the sine a quarter of a turn later."""
    return _circular(m, x, "cos", 1)


def _circular(m: Any, x: Any, name: str, quarter: int) -> Any:
    f = FORMATS[x.dtype]
    turns, r, tail = _reduced_single(m, x) if x.dtype is float32 else _reduced_double(m, x)
    value = sine_of(m, f, turns + quarter, r, tail)
    return m.rare(m.abs(x) > MODERATE, value, lambda: m.libm(name, x))


def sine_of(m: Any, f: Format, turns: Any, r: Any, tail: Any) -> Any:
    """sin(turns * pi / 2 + r + tail) for an integer `turns` and |r| <= pi / 4."""
    z = r * r
    sine = m.fma(r * z, horner(m, f.sin, z), tail) + r
    half = 1 - z * 0.5
    lost = (1 - half) - z * 0.5
    cosine = half + (lost + m.fma(z * z, horner(m, f.cos, z), -(r * tail)))
    value = m.where((turns & 1) == 0, sine, cosine)
    sign = (turns & 2) << (f.integer.itemsize * 8 - 2)
    return m.from_bits(m.bits(value) ^ sign, r.dtype)


def _reduced_single(m: Any, x: Any) -> tuple[Any, Any, Any]:
    """(n, r, tail) with x = n * pi / 2 + r + tail, |r| <= pi / 4, computed in float64."""
    wide = m.cast(x, float64)
    shifted = m.fma(wide, 2 / math.pi, DOUBLE.magic)
    n = shifted - DOUBLE.magic
    whole = m.fma(n, -HALF_PI_SINGLE[1], m.fma(n, -HALF_PI_SINGLE[0], wide))
    r = m.cast(whole, float32)
    return m.cast(m.bits(shifted), int32), r, m.cast(whole - m.cast(r, float64), float32)


def _reduced_double(m: Any, x: Any) -> tuple[Any, Any, Any]:
    """(n, r, tail) with x = n * pi / 2 + r + tail: pi / 2 has 119 bits, and the last rounding is kept as the tail."""
    shifted = m.fma(x, 2 / math.pi, DOUBLE.magic)
    n = shifted - DOUBLE.magic
    first = m.fma(n, -HALF_PI[0], x)
    second = m.fma(n, -HALF_PI[1], first)
    lost = m.fma(n, -HALF_PI[1], first - second)
    rest = m.fma(n, HALF_PI[2], -lost)
    r = second - rest
    return m.bits(shifted), r, (second - r) - rest


# -- powers ------------------------------------------------------------------------------------------------------


def power(m: Any, x: Any, y: Any) -> Any:
    """x**y as C's pow. float32 computes exp(y * log|x|) in float64, so that the result is right or nearly so."""
    if x.dtype is float64:
        return m.libm("pow", x, y)
    wide, exponent = m.cast(x, float64), m.cast(y, float64)
    size = m.abs(wide)
    value = exp(m, exponent * log(m, size))
    return m.cast(signed_power(m, wide, exponent, value), x.dtype)


def signed_power(m: Any, wide: Any, exponent: Any, value: Any) -> Any:
    """C's pow of float64 numbers, given |wide|**exponent."""
    size = m.abs(wide)
    is_one = (exponent == 0) | (wide == 1) | ((size == 1) & m.isinf(exponent))
    value = m.where(is_one, 1, value)
    whole = m.trunc(exponent) == exponent
    odd = whole & (m.trunc(exponent * 0.5) != exponent * 0.5)
    value = m.where(odd & m.signbit(wide), -value, value)
    return m.where((wide < 0) & ~whole & (size < math.inf), math.nan, value)


SHORT_POWERS: dict[float, Callable[[Any, Any], Any]] = {
    2: lambda m, x: x * x,
    3: lambda m, x: x * x * x,
    4: lambda m, x: (x * x) * (x * x),
    0.5: lambda m, x: m.sqrt(x),
    -0.5: lambda m, x: 1 / m.sqrt(x),
    -1: lambda m, x: 1 / x,
}
"""Powers to known numbers in a few instructions, within 1.91 ulp: with the mantissa p of x * x, the rounding of that is
worth p ulp of a fourth power below p = sqrt(2), and p / 2 above."""


def exp2(m: Any, x: Any) -> Any:
    """2**x, for float32 through float64."""
    return _through_double(m, "exp2", x, lambda wide: exp(m, wide * math.log(2)))


def log2(m: Any, x: Any) -> Any:
    """The logarithm to base 2, for float32 through float64."""
    return _through_double(m, "log2", x, lambda wide: log(m, wide) * (1 / math.log(2)))


def log10(m: Any, x: Any) -> Any:
    """The logarithm to base 10, for float32 through float64."""
    return _through_double(m, "log10", x, lambda wide: log(m, wide) * (1 / math.log(10)))


def _through_double(m: Any, name: str, x: Any, formula: Callable[[Any], Any]) -> Any:
    if x.dtype is float64:
        return m.libm(name, x)
    return m.cast(formula(m.cast(x, float64)), x.dtype)


def rsqrt(m: Any, x: Any) -> Any:
    """1 / sqrt(x)."""
    return 1 / m.sqrt(x)


def reciprocal(m: Any, x: Any) -> Any:
    """1 / x."""
    return 1 / x


FORMULAS: dict[str, Callable[..., Any]] = {
    function.__name__: function
    for function in (exp, expm1, exp2, log, log1p, log2, log10, sigmoid, tanh, erf, sin, cos, rsqrt, reciprocal)
}
"""The functions of the math namespace that are written here, by name, for floating operands."""
