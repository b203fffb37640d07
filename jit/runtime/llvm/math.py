"""The math namespace over LLVM values: what the lowering of a nest hands to an op's `compute` body as `m`.

It offers the names of `numpy_math`, and `Value` overloads the operators, so that one body serves eager mode and
kernels. Results are numpy's bit for bit in arithmetic, comparisons, casts and selections: no fast-math flags, no
contraction. Elementary functions come from `elementary`; the rest are calls of the C library, lane by lane.

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

import numpy as np

from jit.ir.dtypes import DType, as_dtype, bool_, float32, float64
from jit.ir.errors import CompileError

from ..targets.target import Target
from . import casts, division, elementary, halves
from .build import Builder, Register, float_literal, mangled
from .values import ELEMENT, Value

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


class LLVMMath:
    """The namespace `m` for one kernel under construction."""

    def __init__(self, builder: Builder, target: Target) -> None:
        self.builder = builder
        self.target = target
        self.active: Register | None = None
        """Which lanes of the innermost loop hold points of the nest; None if all do."""
        self.calls = False
        """Whether elementary functions are called, see Note [Elementary functions that are called]."""

    def __getattr__(self, name: str) -> Callable[..., Any]:
        if name in elementary.FORMULAS:
            return partial(self._elementary, name, elementary.FORMULAS[name])
        if name in LIBM:
            return partial(self._elementary, name, lambda m, *x: m.libm(LIBM[name], *x))
        raise UnsupportedMath(f"kernels have no m.{name}; leave the op out of the fusion group")

    # -- literals and types --------------------------------------------------------------------------------------

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

    def _value(self, dtype: DType, register: Register) -> Value:
        """A result; 16-bit floats are rounded."""
        if dtype.is_half:
            register = halves.rounded(self, dtype, register)
        return Value(self, dtype, register)

    def bits(self, x: Value) -> Value:
        """A float's pattern as an integer of its width."""
        integer = elementary.FORMATS[x.dtype].integer
        return self.converted("bitcast", x, integer)

    def from_bits(self, x: Value, dtype: DType) -> Value:
        """The float of that pattern."""
        return self.converted("bitcast", x, dtype)

    # -- arithmetic ----------------------------------------------------------------------------------------------

    def _arithmetic(self, opcode: str, a: Any, b: Any) -> Value:
        a, b = self._operands(a, b)
        if a.dtype is bool_:
            opcodes = {"add": "or", "mul": "and"}
            if opcode not in opcodes:
                raise CompileError("booleans cannot be subtracted; use ^ or m.logical_xor")
            return Value(self, bool_, self.builder.binary(opcodes[opcode], a.register, b.register))
        prefix = "f" if a.dtype.is_floating_point else ""
        return self._value(a.dtype, self.builder.binary(prefix + opcode, a.register, b.register))

    def add(self, a: Any, b: Any) -> Value:
        """a + b; integers wrap around, booleans or."""
        return self._arithmetic("add", a, b)

    def subtract(self, a: Any, b: Any) -> Value:
        """a - b."""
        return self._arithmetic("sub", a, b)

    def multiply(self, a: Any, b: Any) -> Value:
        """a * b; booleans and."""
        return self._arithmetic("mul", a, b)

    def divide(self, a: Any, b: Any) -> Value:
        """a / b of floats."""
        a, b = self._operands(a, b)
        self._require_float("divide", a)
        return self._value(a.dtype, self.builder.binary("fdiv", a.register, b.register))

    def fma(self, a: Any, b: Any, c: Any) -> Value:
        """a * b + c, rounded once where the machine has an instruction for it: for our own formulas, not for ops."""
        a, b, c = self._operands(a, b, c)
        if not self.target.has_fma:
            return a * b + c
        return Value(self, a.dtype, self.builder.intrinsic("fma", a.register.type, a.register, b.register, c.register))

    def scales(self, x: Value) -> bool:
        """Whether the machine multiplies vectors like x by powers of two that no number can hold."""
        return self._is_in_registers(x) and self.target.has_scalef

    def scaled(self, x: Value, n: Value) -> Value:
        """x * 2**n for whole numbers n, rounded once; see `scales`. LLVM's own intrinsic takes integers."""
        return self._by_register("scalef", x, n)

    def larger(self, a: Value, b: Value) -> Value:
        """a where a > b, else b, by one instruction where there is one; NaN in a is lost, see `maximum`."""
        return self._by_register("max", a, b) if self._is_in_registers(a) else self.where(a > b, a, b)

    def smaller(self, a: Value, b: Value) -> Value:
        """a where a < b, else b; NaN in a is lost, see `minimum`."""
        return self._by_register("min", a, b) if self._is_in_registers(a) else self.where(a < b, a, b)

    def _is_in_registers(self, x: Value) -> bool:
        """Whether a value takes whole vector registers that have instructions of their own."""
        whole = self.builder.width * x.dtype.itemsize >= 16
        return self.target.family.instruction is not None and whole and x.dtype in elementary.FORMATS

    def _by_register(self, instruction: str, a: Value, b: Value) -> Value:
        """An instruction of the machine's for each register that the operands take."""
        builder, whole, written = self.builder, self.builder.width, self.target.family.instruction
        assert written is not None
        lanes = min(self.target.vector_bytes // a.dtype.itemsize, whole)
        with builder.lanes_of(lanes):
            starts = range(0, whole, lanes)
            pairs = [[builder.lanes_from(v.register, i) for v in (a, b)] for i in starts]
            parts = [builder.call(x.type, *written(instruction, x, y)) for x, y in pairs]
        return Value(self, a.dtype, builder.joined(parts))

    def negative(self, x: Value) -> Value:
        """-x; flips the sign of a zero."""
        if x.dtype.is_floating_point:
            return Value(self, x.dtype, self.builder.emit(x.register.type, f"fneg {x.register}", x.register))
        return self.subtract(0, x)

    def abs(self, x: Value) -> Value:
        """|x|; the least integer stays as it is."""
        if x.dtype.is_floating_point:
            return Value(self, x.dtype, self.builder.intrinsic("fabs", x.register.type, x.register))
        return self.where(x < 0, -x, x) if x.dtype.is_signed else x

    def sign(self, x: Value) -> Value:
        """-1, 0 or 1; of NaN 0."""
        if not x.dtype.is_signed:
            return self.cast(x != 0, x.dtype)
        return self.where(x > 0, 1, self.where(x < 0, -1, self.constant(0, x.dtype)))

    def square(self, x: Value) -> Value:
        """x * x."""
        return x * x

    def sqrt(self, x: Any) -> Any:
        """The square root, correctly rounded."""
        return self._elementary("sqrt", lambda m, v: m._intrinsic("sqrt", v), x)

    def copysign(self, x: Any, sign: Any) -> Value:
        """|x| with the sign of `sign`."""
        x, sign = self._operands(x, sign)
        return Value(self, x.dtype, self.builder.intrinsic("copysign", x.register.type, x.register, sign.register))

    def _intrinsic(self, name: str, x: Value) -> Value:
        return self._value(x.dtype, self.builder.intrinsic(name, x.register.type, x.register))

    def _require_float(self, name: str, x: Value) -> None:
        if not x.dtype.is_floating_point:
            raise CompileError(f"m.{name} takes floats, not {x.dtype.name}: cast operands before the body")

    # -- comparisons and selections ------------------------------------------------------------------------------

    def _compare(self, predicates: tuple[str, str, str], a: Any, b: Any) -> Value:
        a, b = self._operands(a, b)
        signed, unsigned, floating = predicates
        if a.dtype.is_floating_point:
            predicate = f"fcmp {floating}"
        else:
            predicate = f"icmp {signed if a.dtype.is_signed else unsigned}"
        return Value(self, bool_, self.builder.compare(predicate, a.register, b.register))

    def less(self, a: Any, b: Any) -> Value:
        """a < b; false if one is NaN."""
        return self._compare(("slt", "ult", "olt"), a, b)

    def less_equal(self, a: Any, b: Any) -> Value:
        """a <= b."""
        return self._compare(("sle", "ule", "ole"), a, b)

    def greater(self, a: Any, b: Any) -> Value:
        """a > b."""
        return self._compare(("sgt", "ugt", "ogt"), a, b)

    def greater_equal(self, a: Any, b: Any) -> Value:
        """a >= b."""
        return self._compare(("sge", "uge", "oge"), a, b)

    def equal(self, a: Any, b: Any) -> Value:
        """a == b."""
        return self._compare(("eq", "eq", "oeq"), a, b)

    def not_equal(self, a: Any, b: Any) -> Value:
        """a != b; true if one is NaN."""
        return self._compare(("ne", "ne", "une"), a, b)

    def where(self, condition: Any, a: Any, b: Any) -> Value:
        """a where the condition holds, else b."""
        a, b = self._operands(a, b)
        if not isinstance(condition, Value):
            return a if condition else b
        mask = condition if condition.dtype is bool_ else condition != 0
        return Value(self, a.dtype, self.builder.select(mask.register, a.register, b.register))

    def maximum(self, a: Any, b: Any) -> Value:
        """The larger; NaN if one is NaN; b if they are equal, so that the second of two zeros decides the sign."""
        a, b = self._operands(a, b)
        return self._or_nan(a, self.where(a > b, a, b))

    def minimum(self, a: Any, b: Any) -> Value:
        """The smaller; NaN if one is NaN; b if they are equal."""
        a, b = self._operands(a, b)
        return self._or_nan(a, self.where(a < b, a, b))

    def _or_nan(self, a: Value, chosen: Value) -> Value:
        """`chosen` is b where a is NaN, because no comparison holds."""
        return self.where(self.isnan(a), a, chosen) if a.dtype.is_floating_point else chosen

    def clip(self, x: Any, low: Any, high: Any) -> Value:
        """x within [low, high]; either may be None."""
        raised = x if low is None else self.maximum(x, low)
        return raised if high is None else self.minimum(raised, high)

    def isnan(self, x: Value) -> Value:
        """Whether x is NaN."""
        return x != x if x.dtype.is_floating_point else self.constant(False, bool_)

    def isinf(self, x: Value) -> Value:
        """Whether x is infinite."""
        return self.equal(self.abs(x), math.inf) if x.dtype.is_floating_point else self.constant(False, bool_)

    def isfinite(self, x: Value) -> Value:
        """Whether x is neither NaN nor infinite."""
        return self.less(self.abs(x), math.inf) if x.dtype.is_floating_point else self.constant(True, bool_)

    def signbit(self, x: Value) -> Value:
        """Whether x is negative, -0.0 included."""
        if x.dtype.is_half:
            x = Value(self, float32, x.register)
        return self.less(self.bits(x) if x.dtype.is_floating_point else x, 0)

    # -- bits and truth values -----------------------------------------------------------------------------------

    def integer_operation(self, opcode: str, a: Any, b: Any) -> Value:
        """An instruction on integers or booleans."""
        a, b = self._operands(a, b)
        if a.dtype.is_floating_point:
            raise CompileError(f"bitwise operations take integers and booleans, got {a.dtype.name}")
        return Value(self, a.dtype, self.builder.binary(opcode, a.register, b.register))

    def bitwise_and(self, a: Any, b: Any) -> Value:
        """a & b."""
        return self.integer_operation("and", a, b)

    def bitwise_or(self, a: Any, b: Any) -> Value:
        """a | b."""
        return self.integer_operation("or", a, b)

    def bitwise_xor(self, a: Any, b: Any) -> Value:
        """a ^ b."""
        return self.integer_operation("xor", a, b)

    def invert(self, x: Value) -> Value:
        """~x; not, for booleans."""
        return self.integer_operation("xor", x, True if x.dtype is bool_ else -1 if x.dtype.is_signed else 255)

    bitwise_not = bitwise_invert = invert

    def left_shift(self, a: Any, b: Any) -> Value:
        """a << b; 0 if b is not within the bits of a."""
        if self._is_shift(a, b):
            return self.integer_operation("shl", a, b)
        a, b = self._operands(a, b)
        inside, count = self._shift_count(b)
        return self.where(inside, self.integer_operation("shl", a, count), 0)

    def right_shift(self, a: Any, b: Any) -> Value:
        """a >> b with the sign copied; all sign if b is not within the bits of a."""
        if self._is_shift(a, b):
            return self.integer_operation("ashr" if a.dtype.is_signed else "lshr", a, b)
        a, b = self._operands(a, b)
        inside, count = self._shift_count(b)
        if not a.dtype.is_signed:
            return self.where(inside, self.integer_operation("lshr", a, count), 0)
        return self.integer_operation("ashr", a, self.where(inside, count, a.dtype.itemsize * 8 - 1))

    def _is_shift(self, a: Any, b: Any) -> bool:
        """Whether b is a number within the bits of a."""
        return isinstance(a, Value) and isinstance(b, int) and 0 <= b < a.dtype.itemsize * 8

    def _shift_count(self, b: Value) -> tuple[Value, Value]:
        """Whether the count is within the bits, and a count that is: LLVM leaves the result of others open."""
        bits = b.dtype.itemsize * 8
        inside = (b >= 0) & (b < bits)
        return inside, self.where(inside, b, 0)

    def logical_not(self, x: Value) -> Value:
        """Whether x is 0."""
        return self.invert(self.cast(x, bool_))

    def logical_and(self, a: Any, b: Any) -> Value:
        """Whether both differ from 0."""
        return self.bitwise_and(*self._truths(a, b))

    def logical_or(self, a: Any, b: Any) -> Value:
        """Whether one differs from 0."""
        return self.bitwise_or(*self._truths(a, b))

    def logical_xor(self, a: Any, b: Any) -> Value:
        """Whether exactly one differs from 0."""
        return self.bitwise_xor(*self._truths(a, b))

    def _truths(self, a: Any, b: Any) -> list[Value]:
        return [self.cast(x, bool_) for x in self._operands(a, b)]

    # -- rounding ------------------------------------------------------------------------------------------------

    def _rounding(self, name: str, x: Value, adjust: Callable[[Value, Value], Value]) -> Value:
        """A rounding instruction, or `adjust(x, nearest)` where the machine has none. Integers are whole already."""
        if not x.dtype.is_floating_point:
            return x
        if self.target.has_rounding:
            return self._intrinsic(name, x)
        wide = Value(self, float32, x.register) if x.dtype.is_half else x
        whole = self.copysign(adjust(wide, self._nearest(wide)), wide)
        return Value(self, x.dtype, whole.register)

    def _nearest(self, x: Value) -> Value:
        """To the nearest whole number, halves to even: adding 2**mantissa leaves no bits for a fraction."""
        large = 2.0 ** elementary.FORMATS[x.dtype].mantissa
        size = self.abs(x)
        nearest = self.copysign(self.subtract(self.add(size, large), large), x)
        return self.where(size < large, nearest, x)

    def floor(self, x: Value) -> Value:
        """Down to a whole number."""
        return self._rounding("floor", x, lambda v, n: self.where(n > v, n - 1, n))

    def ceil(self, x: Value) -> Value:
        """Up to a whole number."""
        return self._rounding("ceil", x, lambda v, n: self.where(n < v, n + 1, n))

    def trunc(self, x: Value) -> Value:
        """Toward zero to a whole number."""
        return self._rounding("trunc", x, lambda v, n: self.where(self.abs(n) > self.abs(v), self.abs(n) - 1, n))

    def round(self, x: Value) -> Value:
        """To the nearest whole number, halves to even."""
        return self._rounding("roundeven", x, lambda v, n: n)

    rint = round

    # -- division with remainder ---------------------------------------------------------------------------------

    def floor_divide(self, a: Any, b: Any) -> Value:
        """a / b rounded down; integers divided by zero are reported by the kernel, INT_MIN / -1 wraps."""
        return self._division(division.integer_floor_divide, division.float_floor_divide, a, b)

    def remainder(self, a: Any, b: Any) -> Value:
        """a - b * floor(a / b), with the sign of b."""
        return self._division(division.integer_remainder, division.float_remainder, a, b)

    def trunc_divide(self, a: Any, b: Any) -> Value:
        """a / b rounded toward zero."""
        return self._division(
            lambda m, x, y: division.integer_division(m, x, y)[0], lambda m, x, y: m.trunc(x / y), a, b
        )

    def fmod(self, a: Any, b: Any) -> Value:
        """The remainder with the sign of a."""
        return self._division(
            lambda m, x, y: division.integer_division(m, x, y)[1], lambda m, *x: m.libm("fmod", *x), a, b
        )

    def _division(self, of_integers: Callable[..., Value], of_floats: Callable[..., Value], a: Any, b: Any) -> Value:
        a, b = self._operands(a, b)
        if a.dtype.is_floating_point:
            return self._through_single(partial(of_floats, self), a, b)
        return of_integers(self, a, b)

    mod = remainder

    # -- powers and elementary functions -------------------------------------------------------------------------

    def power(self, x: Any, y: Any) -> Value:
        """x**y. An integer power multiplies and wraps, and reports a negative exponent."""
        x, y = self._operands(x, y)
        is_float, short = x.dtype.is_floating_point, elementary.SHORT_POWERS.get(y.number)
        if short is not None and (is_float or y.number > 1):
            return self._through_single(partial(short, self), x)
        if is_float:
            return self._through_single(partial(elementary.power, self), x, y)
        return division.integer_power(self, x, y)

    pow = power

    def libm(self, name: str, *operands: Any) -> Value:
        """A float64 function of the C library, called lane by lane; float32 is widened and the result rounded."""
        values = self._operands(*operands)
        wide = [self.cast(v, float64).register for v in values]
        result = Value(self, float64, self.builder.each_lane(PREFIX + name, "double", *wide))
        return self.cast(result, values[0].dtype)

    def _elementary(self, name: str, formula: Callable[..., Value], *operands: Any) -> Any:
        """Apply a formula to floats; of Python numbers alone the result is a Python number."""
        if not any(isinstance(o, Value) for o in operands):
            from ..arrays import numpy_math

            return getattr(numpy_math, name)(*map(float, operands)).item()
        values = self._operands(*operands)
        self._require_float(name, values[0])
        if self.calls and name not in SHORT:
            return self._called(name, formula, values)
        return self._through_single(partial(formula, self), *values)

    def _called(self, name: str, formula: Callable[..., Value], values: Sequence[Value]) -> Value:
        """A formula as a function of the kernel."""
        dtype, type = values[0].dtype, values[0].register.type
        function = f"{name}_{dtype.name}_{mangled(type)}"
        if function not in self.builder.helpers:
            self.builder.helpers[function] = self._written(function, formula, values)
        return Value(self, dtype, self.builder.call(type, function, *(v.register for v in values)))

    def _written(self, function: str, formula: Callable[..., Value], values: Sequence[Value]) -> str:
        """The function's definition."""
        inner = LLVMMath(Builder(self.builder.width), self.target)
        parameters = [Register(f"%x{number}", v.register.type) for number, v in enumerate(values)]
        arguments = [Value(inner, v.dtype, register) for v, register in zip(values, parameters)]
        result = inner._through_single(partial(formula, inner), *arguments).register
        self.builder.declarations.update(inner.builder.declarations)
        self.builder.helpers.update(inner.builder.helpers)
        head = f"define internal {result.type} @{function}({', '.join(map(str, parameters))}) {{\nentry:"
        return "\n".join([head, *inner.builder.sections[0].lines, f"ret {result}", "}\n"])

    def _through_single(self, formula: Callable[..., Value], *values: Value) -> Value:
        """Compute 16-bit floats in float32 and round the result."""
        dtype = values[0].dtype
        if not dtype.is_half:
            return formula(*values)
        return self.cast(formula(*(self.cast(v, float32) for v in values)), dtype)

    # -- casts ---------------------------------------------------------------------------------------------------

    def cast(self, x: Any, dtype: Any) -> Value:
        """x as another dtype, as numpy casts on x86: floats toward zero, and INT_MIN where they do not fit."""
        dtype = as_dtype(dtype)
        if dtype not in ELEMENT:
            raise CompileError(f"kernels do not compute in {dtype.name}; leave the cast out of the fusion group")
        if not isinstance(x, Value):
            number = np.asarray(x).astype(dtype.numpy)
            return self.constant(float(number) if dtype.is_floating_point else int(number), dtype)
        return casts.cast(self, x, dtype)

    # -- rare cases ----------------------------------------------------------------------------------------------

    def rare(self, condition: Value, usual: Value, special: Callable[[], Value]) -> Value:
        """`special()` where the condition holds, `usual` elsewhere; computed only if some lane needs it."""

        def mixed() -> Register:
            return self.where(condition, special(), usual).register

        needed = self.builder.any(condition.register)
        return Value(self, usual.dtype, self.builder.choose(needed, mixed, usual.register))

    def fail_where(self, condition: Value, code: int) -> None:
        """Make the kernel return `code` if the condition holds at some point of the nest. It goes on computing."""
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
