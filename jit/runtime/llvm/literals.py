"""Literals and registers as values of a namespace, brought to one dtype."""

from __future__ import annotations

from typing import Any

import numpy as np

from jit.ir.dtypes import DType, bool_
from jit.ir.errors import CompileError

from ..targets.target import Target
from . import elementary
from .build import LLVMBuilder, Register, float_literal
from .values import ELEMENT, LaneMath, LaneValue


class Values(LaneMath):
    """The namespace's values: made of literals and registers, and brought to one dtype."""

    def __init__(self, builder: LLVMBuilder, target: Target) -> None:
        self.builder = builder
        self.target = target

    def constant(self, number: Any, dtype: DType) -> LaneValue:
        """A Python or numpy number in every lane, as numpy converts it; integers must fit."""
        if isinstance(number, np.generic):
            number = number.item()
        if isinstance(number, complex) or (isinstance(number, float) and not dtype.is_floating_point):
            raise CompileError(
                f"{number!r} meets a value of {dtype.name}: the registry casts operands before the body; use m.cast"
            )
        return LaneValue(self, dtype, self.builder.splat(ELEMENT[dtype], self._literal(number, dtype)), number)

    def _literal(self, number: Any, dtype: DType) -> str:
        if dtype.is_floating_point:
            with np.errstate(all="ignore"):
                rounded = float(np.asarray(number, np.float64).astype(dtype.numpy))
            return float_literal(rounded)
        if dtype is bool_:
            return "true" if number else "false"
        limits = np.iinfo(dtype.numpy)
        if not limits.min <= number <= limits.max:
            raise CompileError(f"{number} does not fit {dtype.name}; cast the operand to a wider dtype")
        return str(int(number))

    def _operands(self, *operands: Any) -> list[LaneValue]:
        """Values of one dtype; numbers take that of the values."""
        dtypes = [o.dtype for o in operands if isinstance(o, LaneValue)]
        if not dtypes:
            raise CompileError(f"no operand of {operands} is a value of the kernel; cast one with m.cast(x, dtype)")
        if any(d is not dtypes[0] for d in dtypes):
            names = " and ".join(sorted({d.name for d in dtypes}))
            raise CompileError(f"a body combines {names}: the registry casts operands before the body; use m.cast")
        return [o if isinstance(o, LaneValue) else self.constant(o, dtypes[0]) for o in operands]

    def value(self, dtype: DType, register: Register) -> LaneValue:
        """A register as a value of `dtype`."""
        return LaneValue(self, dtype, register)

    def converted(self, opcode: str, x: LaneValue, dtype: DType) -> LaneValue:
        """A conversion instruction."""
        return LaneValue(self, dtype, self.builder.convert(opcode, x.register, ELEMENT[dtype]))

    def bits(self, x: LaneValue) -> LaneValue:
        """A float's pattern as an integer of its width."""
        integer = elementary.FORMATS[x.dtype].integer
        return self.converted("bitcast", x, integer)

    def from_bits(self, x: LaneValue, dtype: DType) -> LaneValue:
        """The float of that pattern."""
        return self.converted("bitcast", x, dtype)

    def _require_float(self, name: str, x: LaneValue) -> None:
        if not x.dtype.is_floating_point:
            raise CompileError(f"m.{name} takes floats, not {x.dtype.name}: cast operands before the body")
