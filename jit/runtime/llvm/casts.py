"""Casts inside kernels: what numpy's `astype` gives, bit for bit."""

from __future__ import annotations

from jit.ir.dtypes import DType, bool_, float16, float32, float64, int32, int64

from . import halves
from .build import mangled
from .values import LaneMath, LaneValue


def cast(m: LaneMath, x: LaneValue, dtype: DType) -> LaneValue:
    """x as another dtype that kernels compute in."""
    if x.dtype is dtype:
        return x
    if dtype is bool_:
        return x != 0
    if x.dtype.is_half:
        x = m.value(float32, x.register)
    if dtype.is_half:
        return _to_half(m, x, dtype)
    if dtype.is_floating_point:
        return _to_float(m, x, dtype)
    return _float_to_integer(m, x, dtype) if x.dtype.is_floating_point else _to_integer(m, x, dtype)


def _to_half(m: LaneMath, x: LaneValue, dtype: DType) -> LaneValue:
    """Through float32. From float64 to float16 that must round once; to bfloat16 ml_dtypes rounds twice as well."""
    once = x.dtype is float64 and dtype is float16
    single = halves.rounded_to_odd(m, x) if once else cast(m, x, float32).register
    return m.value(dtype, halves.rounded(m, dtype, single))


def _to_float(m: LaneMath, x: LaneValue, dtype: DType) -> LaneValue:
    if x.dtype is dtype:
        return x
    if x.dtype.is_floating_point:
        opcode = "fpext" if dtype is float64 else "fptrunc"
    else:
        opcode = "sitofp" if x.dtype.is_signed else "uitofp"
    return m.converted(opcode, x, dtype)


def _to_integer(m: LaneMath, x: LaneValue, dtype: DType) -> LaneValue:
    if dtype.itemsize < x.dtype.itemsize:
        return m.converted("trunc", x, dtype)
    return m.converted("sext" if x.dtype.is_signed else "zext", x, dtype)


def _float_to_integer(m: LaneMath, x: LaneValue, dtype: DType) -> LaneValue:
    """A float truncated toward zero, by way of int32 (int64 if that is asked); LLVM leaves open what does not fit.

    As numpy's compiled loops: x86 makes INT_MIN of them, others the nearest bound; the low bits are kept.
    """
    integer = int64 if dtype is int64 else int32
    if m.target.family.overflow == "least":
        bound = 2.0 ** (integer.itemsize * 8 - 1)
        whole = m.where((x >= -bound) & (x < bound), m.converted("fptosi", x, integer), -int(bound))
    else:
        type = m.builder.vector(f"i{integer.itemsize * 8}")
        name = f"llvm.fptosi.sat.{mangled(type)}.{mangled(x.register.type)}"
        whole = m.value(integer, m.builder.call(type, name, x.register))
    return cast(m, whole, dtype)
