"""The part of the math namespace that is single instructions, or a few: numpy's arithmetic, bit for bit."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np

from jit.ir.dtypes import DType, as_dtype, bool_, float32
from jit.ir.errors import CompileError

from . import casts, elementary, halves
from .build import Register
from .literals import Values
from .values import ELEMENT, LaneValue


class LaneArithmetic(Values):
    """Sums and products, comparisons, bits, rounding and casts."""

    def _value(self, dtype: DType, register: Register) -> LaneValue:
        """A result; 16-bit floats are rounded."""
        if dtype.is_half:
            register = halves.rounded(self, dtype, register)
        return LaneValue(self, dtype, register)

    # -- arithmetic ----------------------------------------------------------------------------------------------

    def _arithmetic(self, opcode: str, a: Any, b: Any) -> LaneValue:
        a, b = self._operands(a, b)
        if a.dtype is bool_:
            opcodes = {"add": "or", "mul": "and"}
            if opcode not in opcodes:
                raise CompileError("booleans cannot be subtracted; use ^ or m.logical_xor")
            return LaneValue(self, bool_, self.builder.binary(opcodes[opcode], a.register, b.register))
        prefix = "f" if a.dtype.is_floating_point else ""
        return self._value(a.dtype, self.builder.binary(prefix + opcode, a.register, b.register))

    def add(self, a: Any, b: Any) -> LaneValue:
        """a + b; integers wrap around, booleans or."""
        return self._arithmetic("add", a, b)

    def subtract(self, a: Any, b: Any) -> LaneValue:
        """a - b."""
        return self._arithmetic("sub", a, b)

    def multiply(self, a: Any, b: Any) -> LaneValue:
        """a * b; booleans and."""
        return self._arithmetic("mul", a, b)

    def divide(self, a: Any, b: Any) -> LaneValue:
        """a / b of floats."""
        a, b = self._operands(a, b)
        self._require_float("divide", a)
        return self._value(a.dtype, self.builder.binary("fdiv", a.register, b.register))

    def fma(self, a: Any, b: Any, c: Any) -> LaneValue:
        """a * b + c, rounded once where the machine has an instruction for it: for our own formulas, not for ops."""
        a, b, c = self._operands(a, b, c)
        if not self.target.has_fma:
            return a * b + c
        return LaneValue(
            self, a.dtype, self.builder.intrinsic("fma", a.register.type, a.register, b.register, c.register)
        )

    def scales(self, x: LaneValue) -> bool:
        """Whether an instruction multiplies vectors like x by 2**n even where 2**n itself is beyond their dtype."""
        return self._is_in_registers(x) and self.target.has_scalef

    def scaled(self, x: LaneValue, n: LaneValue) -> LaneValue:
        """x * 2**n for whole numbers n, rounded once; see `scales`. LLVM's own intrinsic takes integers."""
        return self._by_register("scalef", x, n)

    def larger(self, a: LaneValue, b: LaneValue) -> LaneValue:
        """a where a > b, else b, by one instruction where there is one; NaN in a is lost, see `maximum`."""
        return self._by_register("max", a, b) if self._is_in_registers(a) else self.where(a > b, a, b)

    def smaller(self, a: LaneValue, b: LaneValue) -> LaneValue:
        """a where a < b, else b; NaN in a is lost, see `minimum`."""
        return self._by_register("min", a, b) if self._is_in_registers(a) else self.where(a < b, a, b)

    def _is_in_registers(self, x: LaneValue) -> bool:
        """Whether a value takes whole vector registers that have instructions of their own."""
        whole = self.builder.width * x.dtype.itemsize >= 16
        return self.target.family.instruction is not None and whole and x.dtype in elementary.FORMATS

    def _by_register(self, instruction: str, a: LaneValue, b: LaneValue) -> LaneValue:
        """An instruction of the machine's for each register that the operands take."""
        builder, whole, written = self.builder, self.builder.width, self.target.family.instruction
        assert written is not None
        lanes = min(self.target.vector_bytes // a.dtype.itemsize, whole)
        with builder.lanes_of(lanes):
            starts = range(0, whole, lanes)
            pairs = [[builder.lanes_from(v.register, i) for v in (a, b)] for i in starts]
            parts = [builder.call(x.type, *written(instruction, x, y)) for x, y in pairs]
        return LaneValue(self, a.dtype, builder.joined(parts))

    def negative(self, x: LaneValue) -> LaneValue:
        """-x; flips the sign of a zero."""
        if x.dtype.is_floating_point:
            return LaneValue(self, x.dtype, self.builder.emit(x.register.type, f"fneg {x.register}", x.register))
        return self.subtract(0, x)

    def abs(self, x: LaneValue) -> LaneValue:
        """|x|; the least integer stays as it is."""
        if x.dtype.is_floating_point:
            return LaneValue(self, x.dtype, self.builder.intrinsic("fabs", x.register.type, x.register))
        return self.where(x < 0, -x, x) if x.dtype.is_signed else x

    def sign(self, x: LaneValue) -> LaneValue:
        """-1, 0 or 1; of NaN 0."""
        if not x.dtype.is_signed:
            return self.cast(x != 0, x.dtype)
        return self.where(x > 0, 1, self.where(x < 0, -1, self.constant(0, x.dtype)))

    def square(self, x: LaneValue) -> LaneValue:
        """x * x."""
        return x * x

    def copysign(self, x: Any, sign: Any) -> LaneValue:
        """|x| with the sign of `sign`."""
        x, sign = self._operands(x, sign)
        return LaneValue(self, x.dtype, self.builder.intrinsic("copysign", x.register.type, x.register, sign.register))

    def _intrinsic(self, name: str, x: LaneValue) -> LaneValue:
        return self._value(x.dtype, self.builder.intrinsic(name, x.register.type, x.register))

    # -- comparisons and selections ------------------------------------------------------------------------------

    def _compare(self, predicates: tuple[str, str, str], a: Any, b: Any) -> LaneValue:
        a, b = self._operands(a, b)
        signed, unsigned, floating = predicates
        if a.dtype.is_floating_point:
            predicate = f"fcmp {floating}"
        else:
            predicate = f"icmp {signed if a.dtype.is_signed else unsigned}"
        return LaneValue(self, bool_, self.builder.compare(predicate, a.register, b.register))

    def less(self, a: Any, b: Any) -> LaneValue:
        """a < b; false if one is NaN."""
        return self._compare(("slt", "ult", "olt"), a, b)

    def less_equal(self, a: Any, b: Any) -> LaneValue:
        """a <= b."""
        return self._compare(("sle", "ule", "ole"), a, b)

    def greater(self, a: Any, b: Any) -> LaneValue:
        """a > b."""
        return self._compare(("sgt", "ugt", "ogt"), a, b)

    def greater_equal(self, a: Any, b: Any) -> LaneValue:
        """a >= b."""
        return self._compare(("sge", "uge", "oge"), a, b)

    def equal(self, a: Any, b: Any) -> LaneValue:
        """a == b."""
        return self._compare(("eq", "eq", "oeq"), a, b)

    def not_equal(self, a: Any, b: Any) -> LaneValue:
        """a != b; true if one is NaN."""
        return self._compare(("ne", "ne", "une"), a, b)

    def where(self, condition: Any, a: Any, b: Any) -> LaneValue:
        """a where the condition holds, else b."""
        a, b = self._operands(a, b)
        if not isinstance(condition, LaneValue):
            return a if condition else b
        mask = condition if condition.dtype is bool_ else condition != 0
        return LaneValue(self, a.dtype, self.builder.select(mask.register, a.register, b.register))

    def maximum(self, a: Any, b: Any) -> LaneValue:
        """The larger; NaN if one is NaN; b if they are equal, so that the second of two zeros decides the sign."""
        a, b = self._operands(a, b)
        return self.where(a <= b, b, a) if _is_known(b) else self._or_nan(a, self.where(a > b, a, b))

    def minimum(self, a: Any, b: Any) -> LaneValue:
        """The smaller; NaN if one is NaN; b if they are equal."""
        a, b = self._operands(a, b)
        return self.where(a >= b, b, a) if _is_known(b) else self._or_nan(a, self.where(a < b, a, b))

    def _or_nan(self, a: LaneValue, chosen: LaneValue) -> LaneValue:
        """`chosen` is b where a is NaN, because no comparison holds."""
        return self.where(self.isnan(a), a, chosen) if a.dtype.is_floating_point else chosen

    def clip(self, x: Any, low: Any, high: Any) -> LaneValue:
        """x within [low, high]; either may be None."""
        raised = x if low is None else self.maximum(x, low)
        return raised if high is None else self.minimum(raised, high)

    def isnan(self, x: LaneValue) -> LaneValue:
        """Whether x is NaN."""
        return x != x if x.dtype.is_floating_point else self.constant(False, bool_)

    def isinf(self, x: LaneValue) -> LaneValue:
        """Whether x is infinite."""
        return self.equal(self.abs(x), math.inf) if x.dtype.is_floating_point else self.constant(False, bool_)

    def isfinite(self, x: LaneValue) -> LaneValue:
        """Whether x is neither NaN nor infinite."""
        return self.less(self.abs(x), math.inf) if x.dtype.is_floating_point else self.constant(True, bool_)

    def signbit(self, x: LaneValue) -> LaneValue:
        """Whether x is negative, -0.0 included."""
        if x.dtype.is_half:
            x = LaneValue(self, float32, x.register)
        return self.less(self.bits(x) if x.dtype.is_floating_point else x, 0)

    # -- bits and truth values -----------------------------------------------------------------------------------

    def integer_operation(self, opcode: str, a: Any, b: Any) -> LaneValue:
        """An instruction on integers or booleans."""
        a, b = self._operands(a, b)
        if a.dtype.is_floating_point:
            raise CompileError(
                f"bitwise operations take integers and booleans, not {a.dtype.name}; cast operands first"
            )
        return LaneValue(self, a.dtype, self.builder.binary(opcode, a.register, b.register))

    def bitwise_and(self, a: Any, b: Any) -> LaneValue:
        """a & b."""
        return self.integer_operation("and", a, b)

    def bitwise_or(self, a: Any, b: Any) -> LaneValue:
        """a | b."""
        return self.integer_operation("or", a, b)

    def bitwise_xor(self, a: Any, b: Any) -> LaneValue:
        """a ^ b."""
        return self.integer_operation("xor", a, b)

    def invert(self, x: LaneValue) -> LaneValue:
        """~x; not, for booleans."""
        return self.integer_operation("xor", x, True if x.dtype is bool_ else -1 if x.dtype.is_signed else 255)

    bitwise_not = bitwise_invert = invert

    def left_shift(self, a: Any, b: Any) -> LaneValue:
        """a << b; 0 if b is not within the bits of a."""
        if self._is_shift(a, b):
            return self.integer_operation("shl", a, b)
        a, b = self._operands(a, b)
        inside, count = self._shift_count(b)
        return self.where(inside, self.integer_operation("shl", a, count), 0)

    def right_shift(self, a: Any, b: Any) -> LaneValue:
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
        return isinstance(a, LaneValue) and isinstance(b, int) and 0 <= b < a.dtype.itemsize * 8

    def _shift_count(self, b: LaneValue) -> tuple[LaneValue, LaneValue]:
        """Whether the count is within the bits, and a count that is: LLVM leaves the result of others open.

        It takes the last bits, not a `select`: for NVIDIA's GPUs LLVM would leave the comparison to the instruction,
        which looks at 32 bits of a count of 64.
        """
        bits = b.dtype.itemsize * 8
        inside = (b >= 0) & (b < bits)
        return inside, self.integer_operation("and", b, bits - 1)

    def logical_not(self, x: LaneValue) -> LaneValue:
        """Whether x is 0."""
        return self.invert(self.cast(x, bool_))

    def logical_and(self, a: Any, b: Any) -> LaneValue:
        """Whether both differ from 0."""
        return self.bitwise_and(*self._truths(a, b))

    def logical_or(self, a: Any, b: Any) -> LaneValue:
        """Whether one differs from 0."""
        return self.bitwise_or(*self._truths(a, b))

    def logical_xor(self, a: Any, b: Any) -> LaneValue:
        """Whether exactly one differs from 0."""
        return self.bitwise_xor(*self._truths(a, b))

    def _truths(self, a: Any, b: Any) -> list[LaneValue]:
        return [self.cast(x, bool_) for x in self._operands(a, b)]

    # -- rounding ------------------------------------------------------------------------------------------------

    def _rounding(self, name: str, x: LaneValue, adjust: Callable[[LaneValue, LaneValue], LaneValue]) -> LaneValue:
        """A rounding instruction, or `adjust(x, nearest)` where the machine has none. Integers are whole already."""
        if not x.dtype.is_floating_point:
            return x
        if self.target.has_rounding:
            return self._intrinsic(name, x)
        wide = LaneValue(self, float32, x.register) if x.dtype.is_half else x
        whole = self.copysign(adjust(wide, self._nearest(wide)), wide)
        return LaneValue(self, x.dtype, whole.register)

    def _nearest(self, x: LaneValue) -> LaneValue:
        """The nearest whole number, halves to even: adding 2**mantissa leaves no bits for a fraction."""
        large = 2.0 ** elementary.FORMATS[x.dtype].mantissa
        size = self.abs(x)
        nearest = self.copysign(self.subtract(self.add(size, large), large), x)
        return self.where(size < large, nearest, x)

    def floor(self, x: LaneValue) -> LaneValue:
        """Down to a whole number."""
        return self._rounding("floor", x, lambda v, n: self.where(n > v, n - 1, n))

    def ceil(self, x: LaneValue) -> LaneValue:
        """Up to a whole number."""
        return self._rounding("ceil", x, lambda v, n: self.where(n < v, n + 1, n))

    def trunc(self, x: LaneValue) -> LaneValue:
        """Toward zero to a whole number."""
        return self._rounding("trunc", x, lambda v, n: self.where(self.abs(n) > self.abs(v), self.abs(n) - 1, n))

    def round(self, x: LaneValue) -> LaneValue:
        """The nearest whole number, halves to even."""
        return self._rounding("roundeven", x, lambda v, n: n)

    rint = round

    # -- casts ---------------------------------------------------------------------------------------------------

    def cast(self, x: Any, dtype: Any) -> LaneValue:
        """x as another dtype, as numpy casts on x86: floats toward zero, and INT_MIN where they do not fit."""
        dtype = as_dtype(dtype)
        if dtype not in ELEMENT:
            raise CompileError(f"kernels do not compute in {dtype.name}; leave the cast out of the fusion group")
        if not isinstance(x, LaneValue):
            number = np.asarray(x).astype(dtype.numpy)
            return self.constant(float(number) if dtype.is_floating_point else int(number), dtype)
        return casts.cast(self, x, dtype)


def _is_known(x: LaneValue) -> bool:
    """Whether a value is a literal that is a number, so that no lane of it is NaN."""
    return x.number is not None and x.number == x.number
