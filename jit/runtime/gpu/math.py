"""The math namespace of a GPU: that of the CPU, with expressions in the place of C's library."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from jit.ir.dtypes import float64
from jit.ir.errors import CompileError

from ..llvm.build import Register
from ..llvm.c_functions import FUNCTIONS
from ..llvm.math import LLVMMath
from ..llvm.values import LaneValue


class GridMath(LLVMMath):
    """The namespace `m` for one kernel of a GPU."""

    def libm(self, name: str, *operands: Any) -> LaneValue:
        """A function of the C library, as an expression in float64; float32 is widened and the result rounded."""
        if name not in FUNCTIONS:
            raise CompileError(f"a GPU has no function {name}; leave the op out of the fusion group")
        values = self._operands(*operands)
        return self.cast(self._each(FUNCTIONS[name], *(self.cast(v, float64) for v in values)), values[0].dtype)

    def _each(self, formula: Callable[..., LaneValue], *values: LaneValue) -> LaneValue:
        """A formula for single numbers, lane by lane."""
        builder, width = self.builder, self.builder.width
        if width == 1:
            return formula(self, *values)
        result = Register("poison", builder.vector("double"))
        for lane in range(width):
            with builder.lanes_of(1):
                own = [LaneValue(self, v.dtype, builder.lanes_from(v.register, lane)) for v in values]
                part = formula(self, *own).register
            result = builder.emit(result.type, f"insertelement {result}, {part}, i64 {lane}", result, part)
        return LaneValue(self, float64, result)
