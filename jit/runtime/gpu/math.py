"""The math namespace of a GPU: that of the CPU, with expressions in the place of C's library."""

from __future__ import annotations

from typing import Any

from jit.ir.dtypes import float64
from jit.ir.errors import CompileError

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
        return self.cast(FUNCTIONS[name](self, *(self.cast(v, float64) for v in values)), values[0].dtype)
