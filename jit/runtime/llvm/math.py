"""The math namespace over LLVM values: what the lowering of a nest hands to an op's `compute` body as `m`.

It offers the names of `numpy_math`, and `LaneValue` overloads the operators, so that one body serves eager mode and
kernels. Results are numpy's bit for bit in arithmetic, comparisons, casts and selections: no fast-math flags, no
contraction. Elementary functions come from `elementary`; the rest are calls of the C library, lane by lane.

`values` holds what is computed with, `arithmetic` all that is a few instructions, and this file the functions.

Python numbers take the dtype of the value they meet. 16-bit floats live in float32 registers and every operation on
them rounds its result.

Note [Elementary functions that are called]
    A body with 250 tanh would be 6,000 instructions for each vector: LLVM takes a second to compile them, and the
    machine reads them from the L2 cache in every turn. So in long bodies each function is written once, for all vectors
    of a turn, and called, with its vectors in registers. The constants that a call loads serve four vectors.

        define internal <64 x float> @tanh_float32_v64f32(<64 x float> %x0) { ... }

        %v7 = call <64 x float> @tanh_float32_v64f32(<64 x float> %v6)
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

from jit.ir.dtypes import float32, float64
from jit.ir.errors import CompileError

from ..targets.target import Target
from . import division, elementary
from .arithmetic import LaneArithmetic
from .build import LLVMBuilder, Register, mangled
from .values import LaneValue

LIBM = {
    "tan": "tan", "arcsin": "asin", "arccos": "acos", "arctan": "atan", "sinh": "sinh", "cosh": "cosh",
    "arcsinh": "asinh", "arccosh": "acosh", "arctanh": "atanh", "erfc": "erfc", "cbrt": "cbrt",
    "arctan2": "atan2", "hypot": "hypot",
}  # fmt: skip
"""Functions for which the C library's float64 version is called: numpy's name and C's."""

PREFIX = "libm_"
"""Before the names of C functions in LLVM IR, so that LLVM does not take them for ones it may replace."""

SHORT = ("sqrt", "rsqrt", "reciprocal")
"""Functions of so few instructions that they are never called."""


class UnsupportedMath(CompileError, AttributeError):
    """A body asks for a function that kernels do not have."""


class LLVMMath(LaneArithmetic):
    """The namespace `m` for one kernel under construction."""

    inf, nan = math.inf, math.nan

    def __init__(self, builder: LLVMBuilder, target: Target) -> None:
        super().__init__(builder, target)
        self.active: Register | None = None
        """A mask of the lanes of the innermost loop that hold points of the nest; None if all do."""
        self.calls = False
        """Whether elementary functions are called, see Note [Elementary functions that are called]."""

    def __getattr__(self, name: str) -> Callable[..., Any]:
        if name in elementary.FORMULAS:
            return partial(self._elementary, name, elementary.FORMULAS[name])
        if name in LIBM:
            return partial(self._elementary, name, lambda m, *x: m.libm(LIBM[name], *x))
        raise UnsupportedMath(f"kernels have no m.{name}; leave the op out of the fusion group")

    # -- division with remainder ---------------------------------------------------------------------------------

    def floor_divide(self, a: Any, b: Any) -> LaneValue:
        """a / b rounded down; integers divided by zero are reported by the kernel, INT_MIN / -1 wraps."""
        return self._division(division.integer_floor_divide, division.float_floor_divide, a, b)

    def remainder(self, a: Any, b: Any) -> LaneValue:
        """a - b * floor(a / b), with the sign of b."""
        return self._division(division.integer_remainder, division.float_remainder, a, b)

    def fmod(self, a: Any, b: Any) -> LaneValue:
        """The remainder with the sign of a."""
        return self._division(
            lambda m, x, y: division.integer_division(m, x, y)[1], lambda m, *x: m.libm("fmod", *x), a, b
        )

    def _division(
        self, of_integers: Callable[..., LaneValue], of_floats: Callable[..., LaneValue], a: Any, b: Any
    ) -> LaneValue:
        a, b = self._operands(a, b)
        if a.dtype.is_floating_point:
            return self._through_single(partial(of_floats, self), a, b)
        return of_integers(self, a, b)

    mod = remainder

    # -- powers and elementary functions -------------------------------------------------------------------------

    def power(self, x: Any, y: Any) -> LaneValue:
        """x**y; integers wrap around, and a negative exponent gives 1 / x**-y rounded toward zero, 0 for x = 0."""
        x, y = self._operands(x, y)
        is_float, short = x.dtype.is_floating_point, elementary.SHORT_POWERS.get(y.number)
        if short is not None and (is_float or y.number > 1):
            return self._through_single(partial(short, self), x)
        if is_float:
            return self._through_single(partial(elementary.power, self), x, y)
        return division.integer_power(self, x, y)

    pow = power

    def sqrt(self, x: Any) -> Any:
        """The square root, correctly rounded."""
        return self._elementary("sqrt", lambda m, v: m._intrinsic("sqrt", v), x)

    def libm(self, name: str, *operands: Any) -> LaneValue:
        """A float64 function of the C library, called lane by lane; float32 is widened and the result rounded."""
        values = self._operands(*operands)
        wide = [self.cast(v, float64).register for v in values]
        result = LaneValue(self, float64, self.builder.each_lane(PREFIX + name, "double", *wide))
        return self.cast(result, values[0].dtype)

    def _elementary(self, name: str, formula: Callable[..., LaneValue], *operands: Any) -> Any:
        """Apply a formula to floats; of Python numbers alone the result is a Python number."""
        if not any(isinstance(o, LaneValue) for o in operands):
            from ..arrays.array_math import numpy_math

            return getattr(numpy_math, name)(*map(float, operands)).item()
        values = self._operands(*operands)
        self._require_float(name, values[0])
        if self.calls and name not in SHORT:
            return self._called(name, formula, values)
        return self._through_single(partial(formula, self), *values)

    def _called(self, name: str, formula: Callable[..., LaneValue], values: Sequence[LaneValue]) -> LaneValue:
        """A formula as a function of the kernel."""
        dtype, type = values[0].dtype, values[0].register.type
        function = f"{name}_{dtype.name}_{mangled(type)}"
        if function not in self.builder.helpers:
            self.builder.helpers[function] = self._written(function, formula, values)
        return LaneValue(self, dtype, self.builder.call(type, function, *(v.register for v in values)))

    def _written(self, function: str, formula: Callable[..., LaneValue], values: Sequence[LaneValue]) -> str:
        """The function's definition."""
        inner = LLVMMath(LLVMBuilder(self.builder.width), self.target)
        parameters = [Register(f"%x{number}", v.register.type) for number, v in enumerate(values)]
        arguments = [LaneValue(inner, v.dtype, register) for v, register in zip(values, parameters)]
        result = inner._through_single(partial(formula, inner), *arguments).register
        self.builder.declarations.update(inner.builder.declarations)
        self.builder.helpers.update(inner.builder.helpers)
        head = f"define internal {result.type} @{function}({', '.join(map(str, parameters))}) {{\nentry:"
        return "\n".join([head, *inner.builder.sections[0].lines, f"ret {result}", "}\n"])

    def _through_single(self, formula: Callable[..., LaneValue], *values: LaneValue) -> LaneValue:
        """Compute 16-bit floats in float32 and round the result."""
        dtype = values[0].dtype
        if not dtype.is_half:
            return formula(*values)
        return self.cast(formula(*(self.cast(v, float32) for v in values)), dtype)

    # -- rare cases ----------------------------------------------------------------------------------------------

    def rare(self, condition: LaneValue, usual: LaneValue, special: Callable[[], LaneValue]) -> LaneValue:
        """`special()` where the condition holds, `usual` elsewhere; computed only if some lane needs it."""

        def mixed() -> Register:
            return self.where(condition, special(), usual).register

        needed = self.builder.any(condition.register)
        return LaneValue(self, usual.dtype, self.builder.choose(needed, mixed, usual.register))

    def fail_where(self, condition: LaneValue, code: int) -> None:
        """Make the kernel return `code` if the condition holds at some point of the nest; it goes on computing."""
        mask = condition.register
        if self.active is not None and mask.depth == self.active.depth:
            mask = self.builder.binary("and", mask, self.active)
        some = self.builder.any(mask)

        def report() -> None:
            old, new = self.builder.name(), self.builder.name()
            self.builder.write(f"%{old} = load i32, ptr %status", some.depth)
            self.builder.write(f"%{new} = or i32 %{old}, {code}", some.depth)
            self.builder.write(f"store i32 %{new}, ptr %status", some.depth)

        self.builder.when(some, report, some.depth)
