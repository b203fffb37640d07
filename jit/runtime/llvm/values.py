"""The values that bodies of kernels compute with: registers whose operators are functions of a math namespace.

`math` is that namespace for processors. What casts, divisions and 16-bit floats ask of it is `LaneMath`.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Protocol

from jit.ir.dtypes import DType, bfloat16, bool_, float16, float32, float64, int8, int16, int32, int64, uint8
from jit.ir.errors import CompileError

from ..targets.target import Target
from .build import LLVMBuilder, Register

ELEMENT = {
    bool_: "i1", uint8: "i8", int8: "i8", int16: "i16", int32: "i32", int64: "i64",
    float16: "float", bfloat16: "float", float32: "float", float64: "double",
}  # fmt: skip
"""The LLVM type of a value in a register."""


class LaneMath(Protocol):
    """The part of the math namespace that formulas beside it are written in."""

    builder: LLVMBuilder
    target: Target

    def value(self, dtype: DType, register: Register) -> LaneValue:
        """A register as a value of `dtype`."""

    def constant(self, number: Any, dtype: DType) -> LaneValue:
        """A number in every lane."""

    def converted(self, opcode: str, x: LaneValue, dtype: DType) -> LaneValue:
        """A conversion instruction."""

    def cast(self, x: Any, dtype: Any) -> LaneValue:
        """x as another dtype."""

    def bits(self, x: LaneValue) -> LaneValue:
        """A float's pattern as an integer of its width."""

    def from_bits(self, x: LaneValue, dtype: DType) -> LaneValue:
        """The float of that pattern."""

    def where(self, condition: Any, a: Any, b: Any) -> LaneValue:
        """a where the condition holds, else b."""

    def negative(self, x: LaneValue) -> LaneValue:
        """-x."""

    def abs(self, x: LaneValue) -> LaneValue:
        """|x|."""

    def invert(self, x: LaneValue) -> LaneValue:
        """~x; not, for booleans."""

    def copysign(self, x: Any, sign: Any) -> LaneValue:
        """|x| with the sign of `sign`."""

    def floor(self, x: LaneValue) -> LaneValue:
        """Down to a whole number."""

    def isnan(self, x: LaneValue) -> LaneValue:
        """Whether x is NaN."""

    def isfinite(self, x: LaneValue) -> LaneValue:
        """Whether x is neither NaN nor infinite."""

    def right_shift(self, a: Any, b: Any) -> LaneValue:
        """a >> b with the sign copied."""

    def integer_operation(self, opcode: str, a: Any, b: Any) -> LaneValue:
        """An instruction on integers or booleans."""

    def libm(self, name: str, *operands: Any) -> LaneValue:
        """A function of the C library, lane by lane."""

    def fail_where(self, condition: LaneValue, code: int) -> None:
        """Make the kernel return `code` if the condition holds at some point of the nest."""


def _operator(function: str) -> Callable[[LaneValue, Any], LaneValue]:
    """`a <op> b` as a call of a function of the namespace."""
    return lambda a, b: getattr(a.math, function)(a, b)


def _reflected(function: str) -> Callable[[LaneValue, Any], LaneValue]:
    """The same for `b <op> a` where b is a number."""
    return lambda a, b: getattr(a.math, function)(b, a)


class LaneValue:
    """One lane-wise value of a body: an LLVM register and the dtype it stands for."""

    __slots__ = ("dtype", "math", "number", "register")
    __array_ufunc__ = None  # numpy scalars on the left defer to the reflected operators below
    __hash__ = None  # type: ignore[assignment]

    def __init__(self, math: LaneMath, dtype: DType, register: Register, number: Any = None) -> None:
        self.math = math
        self.dtype = dtype
        self.register = register
        self.number = number
        """The number, if it is a literal."""

    def __bool__(self) -> bool:
        raise CompileError("a kernel's body cannot branch on a value; select with m.where(condition, a, b)")

    def __repr__(self) -> str:
        return f"LaneValue({self.dtype.name}, {self.register})"

    def __neg__(self) -> LaneValue:
        return self.math.negative(self)

    def __pos__(self) -> LaneValue:
        return self

    def __abs__(self) -> LaneValue:
        return self.math.abs(self)

    def __invert__(self) -> LaneValue:
        return self.math.invert(self)

    # fmt: off
    __add__, __radd__ = _operator("add"), _reflected("add")
    __sub__, __rsub__ = _operator("subtract"), _reflected("subtract")
    __mul__, __rmul__ = _operator("multiply"), _reflected("multiply")
    __truediv__, __rtruediv__ = _operator("divide"), _reflected("divide")
    __floordiv__, __rfloordiv__ = _operator("floor_divide"), _reflected("floor_divide")
    __mod__, __rmod__ = _operator("remainder"), _reflected("remainder")
    __pow__, __rpow__ = _operator("power"), _reflected("power")
    __and__, __rand__ = _operator("bitwise_and"), _reflected("bitwise_and")
    __or__, __ror__ = _operator("bitwise_or"), _reflected("bitwise_or")
    __xor__, __rxor__ = _operator("bitwise_xor"), _reflected("bitwise_xor")
    __lshift__, __rlshift__ = _operator("left_shift"), _reflected("left_shift")
    __rshift__, __rrshift__ = _operator("right_shift"), _reflected("right_shift")
    __lt__, __gt__ = _operator("less"), _operator("greater")
    __le__, __ge__ = _operator("less_equal"), _operator("greater_equal")
    __eq__ = _operator("equal")  # type: ignore[assignment]
    __ne__ = _operator("not_equal")  # type: ignore[assignment]
    # fmt: on
