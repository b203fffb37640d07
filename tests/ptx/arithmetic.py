"""Floating point as PTX rounds it: numpy where numpy rounds so, else exactly.

Values are numpy arrays of the type itself: float16, bfloat16, float32 or float64. Nearest-even sums, products,
quotients and roots are numpy's own. The other roundings are rare and go through fractions, one by one.

Note [Rounding to odd]
    A product with a sum has one rounding, which numpy lacks. For float32 and narrower the product is exact in float64,
    but the sum is not, and rounding it twice may differ from rounding it once. So the first rounding is to odd: of the
    two neighbours of an inexact sum the one whose last bit is set. It has two bits more than the result needs, and
    says on which side of a midpoint the sum lies (Boldo and Melquiond, "Emulation of FMA and correctly rounded sums").
    For float64 the same goes for the three parts that a product and a sum come to.
"""

from __future__ import annotations

import math
import operator
from collections.abc import Callable
from fractions import Fraction
from typing import Any, NamedTuple

import ml_dtypes
import numpy as np

Array = np.ndarray[Any, Any]
BFLOAT16 = np.dtype(ml_dtypes.bfloat16)


class Format(NamedTuple):
    """A floating-point format: its precision in bits, and the exponents of its smallest normal and largest numbers."""

    precision: int
    lowest: int
    highest: int


FORMATS = {
    np.dtype(np.float16): Format(11, -14, 15),
    BFLOAT16: Format(8, -126, 127),
    np.dtype(np.float32): Format(24, -126, 127),
    np.dtype(np.float64): Format(53, -1022, 1023),
}
CANONICAL_NAN = {
    np.dtype(np.float16): 0x7FFF,
    BFLOAT16: 0x7FFF,
    np.dtype(np.float32): 0x7FFFFFFF,
}
"""The bits of the NaN that an operation makes; those of float64 keep the bits of the NaN that they are given."""


def bits(values: Array) -> Array:
    """The same bytes as unsigned integers."""
    return values.view(f"u{values.dtype.itemsize}")


def with_nan(values: Array) -> Array:
    """The values, with every NaN the canonical one."""
    strange = np.isnan(values)
    if values.dtype not in CANONICAL_NAN or not strange.any():
        return values
    nan = np.array(CANONICAL_NAN[values.dtype], f"u{values.dtype.itemsize}").view(values.dtype)
    return np.where(strange, nan, values)


def flushed(values: Array) -> Array:
    """`.ftz`: subnormal numbers become zeros of their sign."""
    tiny = np.ldexp(1.0, FORMATS[values.dtype].lowest)
    return np.where(np.abs(values) < values.dtype.type(tiny), np.copysign(values.dtype.type(0), values), values)


def saturated(values: Array) -> Array:
    """`.sat`: between 0 and 1, and 0 for NaN."""
    zero, one = values.dtype.type(0), values.dtype.type(1)
    return np.where(values > zero, np.where(values < one, values, one), zero)


# -- rounding numbers of float64 -----------------------------------------------------------------------------------

TO_INTEGRAL: dict[str, Callable[[Array], Array]] = {"rn": np.rint, "rz": np.trunc, "rm": np.floor, "rp": np.ceil}


def narrow(values: Array, dtype: np.dtype[Any], mode: str = "rn") -> Array:
    """Numbers of float64 rounded to a format: to nearest-even (rn), to zero (rz), down (rm) or up (rp)."""
    if dtype == values.dtype:
        return values.copy()
    if mode == "rn" and dtype != BFLOAT16:
        return values.astype(dtype)
    form = FORMATS[dtype]
    exponents = np.maximum(np.frexp(values)[1] - 1, form.lowest) - (form.precision - 1)
    rounded = np.ldexp(TO_INTEGRAL[mode](np.ldexp(values, -exponents)), exponents)
    largest = math.ldexp(2.0 - math.ldexp(1.0, 1 - form.precision), form.highest)
    beyond = (np.abs(rounded) > largest) & np.isfinite(values)
    stays: Any = {"rn": False, "rz": True, "rm": values > 0, "rp": values < 0}[mode]
    limit = np.where(stays, largest, np.inf)
    rounded = np.where(beyond, np.copysign(limit, values), np.copysign(rounded, values))
    return np.where(np.isfinite(values), rounded, values).astype(dtype)


def widened(values: Array) -> Array:
    """Integers as float64, rounded to odd where they need more bits; floats as they are."""
    if values.dtype.kind not in "iu" or values.dtype.itemsize < 8:
        return values.astype(np.float64)
    low = values.dtype.type(2047)
    large = np.abs(values.astype(np.float64)) >= 2.0**53
    return np.where(large & (values & low != 0), (values & ~low) | values.dtype.type(2048), values).astype(np.float64)


def to_odd(value: Array, error: Array) -> Array:
    """A sum that was rounded to nearest, and what was lost, as the sum rounded to odd."""
    even = (bits(value) & np.uint64(1)) == 0
    inexact = (error != 0) & np.isfinite(value) & np.isfinite(error)
    neighbour = np.nextafter(value, np.where(error > 0, np.inf, -np.inf))
    return np.where(inexact & even, neighbour, value)


def two_sum(a: Array, b: Array) -> tuple[Array, Array]:
    """The sum, and what its rounding lost."""
    total = a + b
    of_b = total - a
    return total, (a - (total - of_b)) + (b - of_b)


def two_product(a: Array, b: Array) -> tuple[Array, Array]:
    """The product, and what its rounding lost, if nothing overflows or is subnormal."""
    product = a * b
    (a_high, a_low), (b_high, b_low) = _halves(a), _halves(b)
    return product, a_low * b_low - (((product - a_high * b_high) - a_low * b_high) - a_high * b_low)


def _halves(a: Array) -> tuple[Array, Array]:
    """A float64 as the sum of two numbers of 26 bits."""
    scaled = a * 134217729.0
    high = scaled - (scaled - a)
    return high, a - high


# -- a product and a sum, rounded once -----------------------------------------------------------------------------


def fma(a: Array, b: Array, c: Array, mode: str = "rn") -> Array:
    """a * b + c with one rounding; see Note [Rounding to odd]."""
    if a.dtype == np.float64:
        return _fma_of_doubles(a, b, c) if mode == "rn" else _exactly(_fused, mode, a, b, c)
    product = a.astype(np.float64) * b.astype(np.float64)
    addend = c.astype(np.float64)
    total = product + addend
    if mode != "rn" or a.dtype != np.float32 or _rounded_twice(total).any():
        total = to_odd(*two_sum(product, addend))
    result = narrow(total, a.dtype, mode)
    if mode == "rm":
        result = np.where((total == 0) & (np.signbit(product) != np.signbit(c)), -np.abs(result), result)
    return result


def _rounded_twice(total: Array) -> Array:
    """Which sums a second rounding, to float32, may get wrong: midpoints of float32, and what is subnormal there."""
    return (bits(total) & np.uint64(0x1FFFFFFF) == 0x10000000) | (np.abs(total) < 2.0**-125)


def _fma_of_doubles(a: Array, b: Array, c: Array) -> Array:
    high, low = two_product(a, b)
    upper, lower = two_sum(c, low)
    first, second = two_sum(high, upper)
    result = first + to_odd(*two_sum(lower, second))
    ordinary = _ordinary(a) & _ordinary(b) & (np.abs(c) < 2.0**1000)
    if ordinary.all():
        return result
    result = np.where(ordinary, result, a * b + c)
    # numpy is right about zeros, infinities and NaN, but not where a product leaves the range of float64.
    hard = ~ordinary & (a != 0) & (b != 0) & np.isfinite(a) & np.isfinite(b)
    if hard.any():
        result[hard] = _exactly(_fused, "rn", *(each[hard] for each in np.broadcast_arrays(a, b, c)))
    return result


def _ordinary(a: Array) -> Array:
    """Which numbers may be factors of `two_product`."""
    return (np.abs(a) < 2.0**450) & (np.abs(a) > 2.0**-450)


# -- one by one, exactly -------------------------------------------------------------------------------------------


class Exact(NamedTuple):
    """A number that is to be rounded, and the sign that a zero has; `root` of the number is meant if that is set."""

    value: Fraction
    zero: float = 0.0
    root: bool = False


def _fused(mode: str, a: float, b: float, c: float) -> Exact | float:
    if not all(map(math.isfinite, (a, b, c))):
        return c if math.isfinite(a) and math.isfinite(b) else a * b + c
    product = math.copysign(1.0, a) * math.copysign(1.0, b)
    agree = product == math.copysign(1.0, c)
    zero = math.copysign(0.0, c) if agree else (-0.0 if mode == "rm" else 0.0)
    return Exact(Fraction(a) * Fraction(b) + Fraction(c), zero)


def _added(mode: str, a: float, b: float) -> Exact | float:
    return _fused(mode, a, 1.0, b)


def _subtracted(mode: str, a: float, b: float) -> Exact | float:
    return _fused(mode, a, 1.0, -b)


def _multiplied(mode: str, a: float, b: float) -> Exact | float:
    if not (math.isfinite(a) and math.isfinite(b)):
        return a * b
    return Exact(Fraction(a) * Fraction(b), math.copysign(1.0, a) * math.copysign(0.0, b))


def _divided(mode: str, a: float, b: float) -> Exact | float:
    if not (math.isfinite(a) and math.isfinite(b)) or b == 0:
        return float(np.float64(a) / np.float64(b))
    return Exact(Fraction(a) / Fraction(b), math.copysign(1.0, b) * math.copysign(0.0, a))


def _rooted(mode: str, a: float) -> Exact | float:
    if not math.isfinite(a) or a <= 0:
        return float(np.sqrt(np.float64(a)))
    return Exact(Fraction(a), root=True)


def rounded(exact: Exact, form: Format, mode: str) -> float:
    """An exact number in a format."""
    value, sign = abs(exact.value), -1 if exact.value < 0 else 1
    if value == 0:
        return exact.zero
    unit = max(_exponent(value) // (2 if exact.root else 1), form.lowest) - (form.precision - 1)
    scaled = value / Fraction(2) ** (2 * unit if exact.root else unit)
    whole = math.isqrt(math.floor(scaled)) if exact.root else math.floor(scaled)
    if _rounds_up(scaled, whole, exact.root, {"rm": "rz", "rp": "up"}.get(mode, mode) if sign > 0 else
                  {"rm": "up", "rp": "rz"}.get(mode, mode)):  # fmt: skip
        whole += 1
    largest = Fraction(2**form.precision - 1) * Fraction(2) ** (form.highest - form.precision + 1)
    if Fraction(whole) * Fraction(2) ** unit > largest:
        stays = mode == "rz" or mode == ("rm" if sign > 0 else "rp")
        return sign * (float(largest) if stays else math.inf)
    return sign * math.ldexp(whole, unit)


def _exponent(value: Fraction) -> int:
    """The power of two of a number's first bit."""
    guess = value.numerator.bit_length() - value.denominator.bit_length()
    return guess if value >= Fraction(2) ** guess else guess - 1


def _rounds_up(scaled: Fraction, whole: int, root: bool, mode: str) -> bool:
    """Whether the number between `whole` and `whole + 1` becomes the latter; of a root, its square is given."""
    power = 2 if root else 1
    if mode in ("rz", "up"):
        return mode == "up" and scaled != whole**power
    middle = (whole + Fraction(1, 2)) ** power
    return scaled > middle or scaled == middle and whole % 2 == 1


def _exactly(operation: Callable[..., Exact | float], mode: str, *operands: Array) -> Array:
    """An operation on each element by fractions."""
    arrays = np.broadcast_arrays(*operands)
    dtype = arrays[0].dtype
    found = []
    for values in zip(*(a.astype(np.float64).ravel().tolist() for a in arrays)):
        exact = operation(mode, *values)
        found.append(rounded(exact, FORMATS[dtype], mode) if isinstance(exact, Exact) else exact)
    return np.array(found, np.float64).astype(dtype).reshape(arrays[0].shape)


def double_of_integers(a: Array, mode: str) -> Array:
    """Integers as float64."""
    found = [rounded(Exact(Fraction(n)), FORMATS[np.dtype(np.float64)], mode) for n in np.atleast_1d(a).tolist()]
    return np.array(found, np.float64)


Binary = Callable[[Any, Any], Any]
BINARY: dict[str, tuple[Binary, Callable[..., Exact | float]]] = {
    "add": (operator.add, _added),
    "sub": (operator.sub, _subtracted),
    "mul": (operator.mul, _multiplied),
    "div": (operator.truediv, _divided),
}


def binary(name: str, a: Array, b: Array, mode: str = "rn") -> Array:
    """A sum, difference, product or quotient in the format of its operands."""
    nearest, exact = BINARY[name]
    return nearest(a, b) if mode == "rn" else _exactly(exact, mode, a, b)


def root(a: Array, mode: str = "rn") -> Array:
    """The square root in the format of its operand."""
    return np.sqrt(a) if mode == "rn" else _exactly(_rooted, mode, a)


# -- comparing -----------------------------------------------------------------------------------------------------


def extreme(a: Array, b: Array, larger: bool, propagate: bool) -> Array:
    """The minimum or maximum: -0 is less than +0, and NaN loses, or wins if `propagate`."""
    first = (a > b) if larger else (a < b)
    tie = (a == b) & (np.signbit(a) != larger)  # of two zeros, the one with the sign that is asked for
    found = np.where(first | tie, a, b)
    if propagate:
        return np.where(np.isnan(a) | np.isnan(b), a.dtype.type(np.nan), found)
    return np.where(np.isnan(a), b, np.where(np.isnan(b), a, found))
