"""16-bit floats inside kernels: they live in float32 registers, and this file rounds, loads and stores them.

float16 uses the machine's conversion where there is one; everything else is done on the bit patterns, because LLVM
would otherwise call helper functions that a process may not have.
"""

from __future__ import annotations

from typing import Any

from jit.ir.dtypes import DType, bfloat16, float32, float64, int16, int32

from .build import Register
from .values import LaneMath

LARGEST = 65504.0
"""The largest float16; what rounds beyond it is infinite."""
SMALLEST_NORMAL = 2.0**-14
QUANTUM = 2.0**-24
"""The distance of denormal float16 numbers."""
EXPONENT_SHIFT = 2.0**112
"""float32's bias less float16's: scales between the two patterns."""


def rounded(m: LaneMath, dtype: DType, register: Register) -> Register:
    """A float32 register rounded to the nearest number of `dtype`, ties to even."""
    if dtype is bfloat16:
        return _rounded_bits(m, register, 16)
    if m.target.has_half:
        half = m.builder.convert("fptrunc", register, "half")
        return m.builder.convert("fpext", half, "float")
    return _rounded_half(m, register)


def _rounded_bits(m: LaneMath, register: Register, dropped: int) -> Register:
    """Clear the last `dropped` bits, rounding to nearest even; a carry into the exponent is right as it is."""
    x = m.value(float32, register)
    bits = m.bits(x)
    even = (bits >> dropped) & 1
    rounding = bits + even + ((1 << (dropped - 1)) - 1)
    cleared = m.from_bits(rounding & -(1 << dropped), float32)
    return m.where(m.isnan(x), x, cleared).register


def _rounded_half(m: LaneMath, register: Register) -> Register:
    x = m.value(float32, register)
    normal = m.value(float32, _rounded_bits(m, register, 13))
    normal = m.where(m.abs(normal) > LARGEST, m.copysign(m.constant(float("inf"), float32), x), normal)
    # Adding 1.5 * 2**23 quanta leaves whole quanta in the sum: rounding is the addition's own.
    shift = 1.5 * 2.0**23 * QUANTUM
    denormal = m.copysign((m.abs(x) + shift) - shift, x)
    return m.where(m.isnan(x), x, m.where(m.abs(x) < SMALLEST_NORMAL, denormal, normal)).register


def rounded_to_odd(m: LaneMath, x: Any) -> Register:
    """A float64 value as float32 such that a second rounding, to 16 bits, gives what one rounding would have given.

    An inexact result is made the neighbour with the odd pattern: it then lies strictly on the side of every
    tie of the shorter format on which the exact number lies.
    """
    single = m.cast(x, float32)
    back = m.cast(single, float64)
    bits = m.bits(single)
    inward = m.where(m.abs(back) > m.abs(x), m.constant(-1, int32), 1)
    inexact = (back != x) & ((bits & 1) == 0) & ~m.isnan(x)
    return m.from_bits(m.where(inexact, bits + inward, bits), float32).register


def decoded(m: LaneMath, dtype: DType, pattern: Register) -> Register:
    """The float32 register of a 16-bit pattern (i16)."""
    if dtype is not bfloat16 and m.target.has_half:
        return m.builder.convert("fpext", m.builder.convert("bitcast", pattern, "half"), "float")
    wide = m.value(int32, m.builder.convert("zext", pattern, "i32"))
    if dtype is bfloat16:
        return m.from_bits(wide << 16, float32).register
    size = m.from_bits((wide & 0x7FFF) << 13, float32) * EXPONENT_SHIFT
    special = m.from_bits(m.bits(size) | 0x7F800000, float32)
    size = m.where((wide & 0x7C00) == 0x7C00, special, size)
    return m.from_bits(m.bits(size) | ((wide & 0x8000) << 16), float32).register


def encoded(m: LaneMath, dtype: DType, register: Register) -> Register:
    """The 16-bit pattern (i16) of a float32 register that holds a number of `dtype`."""
    if dtype is not bfloat16 and m.target.has_half:
        return m.builder.convert("bitcast", m.builder.convert("fptrunc", register, "half"), "i16")
    x = m.value(float32, register)
    bits = m.bits(x)
    if dtype is bfloat16:
        pattern = m.where(m.isnan(x), m.constant(0x7FC0, int32), m.right_shift(bits, 16))
    else:
        scaled = m.bits(m.abs(x) * (1 / EXPONENT_SHIFT)) >> 13
        special = m.where(m.isnan(x), m.constant(0x7E00, int32), 0x7C00)
        pattern = m.where(m.isfinite(x), scaled, special) | ((bits >> 16) & 0x8000)
    return m.cast(pattern, int16).register
