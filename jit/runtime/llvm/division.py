"""Quotients with remainder and integer powers inside kernels, with numpy's signs and without a trap.

The machine's integer division ends the process on x / 0 and on INT_MIN / -1. The first is replaced and reported by
the kernel when it returns, the second wraps to INT_MIN. Operands are values of one dtype.
"""

from __future__ import annotations

from typing import Any

from jit.ir.dtypes import bool_
from jit.ir.errors import CompileError

from .values import LaneMath, LaneValue

DIVISION_BY_ZERO = 1
"""A bit of a kernel's result, which is 0 for success."""

# -- integers ----------------------------------------------------------------------------------------------------


def integer_division(m: LaneMath, a: LaneValue, b: LaneValue) -> tuple[LaneValue, LaneValue]:
    """Quotient and remainder toward zero."""
    if a.dtype is bool_:
        raise CompileError("booleans cannot be divided: the registry casts operands before the body; cast them, too")
    zero = b == 0
    m.fail_where(zero, DIVISION_BY_ZERO)
    divisor = m.where(zero, 1, b)
    if not a.dtype.is_signed:
        quotient = m.integer_operation("udiv", a, divisor)
    else:
        minus = b == -1
        quotient = m.where(minus, -a, m.integer_operation("sdiv", a, m.where(minus, 1, divisor)))
    return quotient, a - quotient * divisor


def integer_floor_divide(m: LaneMath, a: LaneValue, b: LaneValue) -> LaneValue:
    """The quotient of whole numbers, rounded down."""
    quotient, rest = integer_division(m, a, b)
    return m.where(_rounded_up(m, rest, b), quotient - 1, quotient)


def integer_remainder(m: LaneMath, a: LaneValue, b: LaneValue) -> LaneValue:
    """The remainder of whole numbers, with the sign of b."""
    rest = integer_division(m, a, b)[1]
    return m.where(_rounded_up(m, rest, b), rest + b, rest)


def _rounded_up(m: LaneMath, rest: LaneValue, b: LaneValue) -> LaneValue:
    """Whether rounding toward zero went up: the remainder's sign is not that of the divisor."""
    if not rest.dtype.is_signed:
        return m.constant(False, bool_)
    return (rest != 0) & ((rest ^ b) < 0)


def integer_power(m: LaneMath, x: LaneValue, y: LaneValue) -> LaneValue:
    """x**y by squaring, wrapping around; for negative y, 1 / x**-y toward zero, and 0 for x = 0."""
    bits = f"i{x.dtype.itemsize * 8}"
    m.builder.helpers.setdefault(f"power_{bits}", _POWER.replace("TYPE", bits))
    power = m.value(x.dtype, m.builder.each_lane(f"power_{bits}", bits, x.register, y.register))
    if not x.dtype.is_signed:
        return power
    inverse = m.where(x == 1, 1, m.where(x == -1, 1 - 2 * (y & 1), 0))
    return m.where(y < 0, inverse, power)


_POWER = """define internal TYPE @power_TYPE(TYPE %base, TYPE %exponent) {
entry:
  br label %loop
loop:
  %result = phi TYPE [ 1, %entry ], [ %next, %loop ]
  %square = phi TYPE [ %base, %entry ], [ %squared, %loop ]
  %left = phi TYPE [ %exponent, %entry ], [ %halved, %loop ]
  %low = and TYPE %left, 1
  %odd = icmp ne TYPE %low, 0
  %times = mul TYPE %result, %square
  %next = select i1 %odd, TYPE %times, TYPE %result
  %squared = mul TYPE %square, %square
  %halved = lshr TYPE %left, 1
  %more = icmp ne TYPE %halved, 0
  br i1 %more, label %loop, label %done
done:
  ret TYPE %next
}
"""

# -- floats ------------------------------------------------------------------------------------------------------


def float_remainder(m: LaneMath, a: Any, b: Any) -> LaneValue:
    """The remainder of floats, with the sign of b, zeros included."""
    rest = m.libm("fmod", a, b)
    signed = m.where((b < 0) != (rest < 0), rest + b, rest)
    return m.where(rest == 0, m.copysign(m.constant(0.0, a.dtype), b), signed)


def float_floor_divide(m: LaneMath, a: Any, b: Any) -> LaneValue:
    """The quotient of floats, rounded down as numpy does: subtract the remainder, divide, round to a whole number."""
    rest = m.libm("fmod", a, b)
    adjust = (rest != 0) & ((b < 0) != (rest < 0))
    quotient = (a - rest) / b
    quotient = m.where(adjust, quotient - 1, quotient)
    floor = m.floor(quotient)
    floor = m.where((quotient - floor) > 0.5, floor + 1, floor)
    plain = a / b
    floor = m.where(quotient == 0, m.copysign(m.constant(0.0, a.dtype), plain), floor)
    return m.where(b == 0, plain, floor)
