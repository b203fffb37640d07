"""Values of a body: registers that behave like numbers, and the literals beside them."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from jit.ir.dtypes import DType, bfloat16, bool_, float16, float32, float64, int8, int16, int32, int64, uint8
from jit.ir.errors import CompileError

from ..targets.target import Target
from . import elementary
from .build import Builder, Register, float_literal

ELEMENT = {
    bool_: "i1", uint8: "i8", int8: "i8", int16: "i16", int32: "i32", int64: "i64",
    float16: "float", bfloat16: "float", float32: "float", float64: "double",
}  # fmt: skip
"""The LLVM type of a value in a register."""


def _operator(function: str) -> Callable[[Value, Any], Value]:
    """`a <op> b` as a call of a function of the namespace."""
    return lambda a, b: getattr(a.math, function)(a, b)


def _reflected(function: str) -> Callable[[Value, Any], Value]:
    """The same for `b <op> a` where b is a number."""
    return lambda a, b: getattr(a.math, function)(b, a)


def _unary(function: str) -> Callable[[Value], Value]:
    """The same for an operator of one operand."""
    return lambda x: getattr(x.math, function)(x)


class Value:
    """One lane-wise value of a body: an LLVM register and the dtype it stands for."""

    __slots__ = ("dtype", "math", "number", "register")
    __array_ufunc__ = None  # numpy scalars on the left defer to the reflected operators below
    __hash__ = None  # type: ignore[assignment]

    def __init__(self, math: Values, dtype: DType, register: Register, number: Any = None) -> None:
        self.math = math
        self.dtype = dtype
        self.register = register
        self.number = number
        """What it is, if it is a literal."""

    def __bool__(self) -> bool:
        raise CompileError("a kernel's body cannot branch on a value; select with m.where(condition, a, b)")

    def __repr__(self) -> str:
        return f"Value({self.dtype.name}, {self.register})"

    def __pos__(self) -> Value:
        return self

    # fmt: off
    __neg__, __abs__, __invert__ = _unary("negative"), _unary("abs"), _unary("invert")
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


class Values:
    """The namespace's values: made of literals and registers, and brought to one dtype."""

    def __init__(self, builder: Builder, target: Target) -> None:
        self.builder = builder
        self.target = target

    def constant(self, number: Any, dtype: DType) -> Value:
        """A Python or numpy number in every lane, as numpy converts it; integers must fit."""
        if isinstance(number, np.generic):
            number = number.item()
        if isinstance(number, complex) or (isinstance(number, float) and not dtype.is_floating_point):
            raise CompileError(f"{number!r} meets a value of {dtype.name}: the registry casts operands before the body")
        return Value(self, dtype, self.builder.splat(ELEMENT[dtype], self._literal(number, dtype)), number)

    def _literal(self, number: Any, dtype: DType) -> str:
        if dtype.is_floating_point:
            with np.errstate(all="ignore"):
                rounded = float(np.asarray(number, np.float64).astype(dtype.numpy))
            return float_literal(rounded)
        if dtype is bool_:
            return "true" if number else "false"
        limits = np.iinfo(dtype.numpy)
        if not limits.min <= number <= limits.max:
            raise CompileError(f"{number} does not fit {dtype.name}")
        return str(int(number))

    def _operands(self, *operands: Any) -> list[Value]:
        """Values of one dtype; numbers take that of the values."""
        dtypes = [o.dtype for o in operands if isinstance(o, Value)]
        if not dtypes:
            raise CompileError(f"no operand of {operands} is a value of the kernel; cast one with m.cast(x, dtype)")
        if any(d is not dtypes[0] for d in dtypes):
            names = " and ".join(sorted({d.name for d in dtypes}))
            raise CompileError(f"a body combines {names}: the registry casts operands before the body")
        return [o if isinstance(o, Value) else self.constant(o, dtypes[0]) for o in operands]

    def value(self, dtype: DType, register: Register) -> Value:
        """A register as a value of `dtype`."""
        return Value(self, dtype, register)

    def converted(self, opcode: str, x: Value, dtype: DType) -> Value:
        """A conversion instruction."""
        return Value(self, dtype, self.builder.convert(opcode, x.register, ELEMENT[dtype]))

    def bits(self, x: Value) -> Value:
        """A float's pattern as an integer of its width."""
        integer = elementary.FORMATS[x.dtype].integer
        return self.converted("bitcast", x, integer)

    def from_bits(self, x: Value, dtype: DType) -> Value:
        """The float of that pattern."""
        return self.converted("bitcast", x, dtype)

    def _require_float(self, name: str, x: Value) -> None:
        if not x.dtype.is_floating_point:
            raise CompileError(f"m.{name} takes floats, not {x.dtype.name}: cast operands before the body")
