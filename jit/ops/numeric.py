"""Further elementary functions: signs, shifts, common divisors, the parts of floating numbers."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from jit.ir import dtypes
from jit.ir.dtypes import DType
from jit.ir.errors import DTypeError
from jit.ir.op import Refusal, absent, array, composite, pointwise
from jit.ir.precision import Precision
from jit.ir.samples import SPECIAL, Sample, binary, make, sample, strided, unary, whole
from jit.ir.types import TensorType

from .common import floats_only, integers_only, is_bool, is_complex, ordered_only

if TYPE_CHECKING:
    from jit.ir.types import Type

    from .protocols import Array, Elements, KnownType, Math, Numpy, OnnxWriter, Ops, Tensor, Value

BITS, TESTS = absent("the result is made of integers"), absent("the result is boolean")
real_only = Refusal(is_complex, "take real() or abs() first")
whole_only = Refusal(is_bool, "cast with x.int()")


# -- signs -------------------------------------------------------------------------------------------------------


def _onnx_negative(g: OnnxWriter, x: Value) -> Value:
    """Whether the sign bit is set, that of -0.0 included; that of a NaN cannot be read in ONNX."""
    zero = g.constant(0, like=x)
    if not x.dtype.is_floating_point:
        return g.op("Less", x, zero)
    below_zero = g.op("Less", g.op("Div", g.constant(1, like=x), x), zero)
    return g.op("Or", g.op("Less", x, zero), g.op("And", g.op("Equal", x, zero), below_zero))


@real_only
@pointwise("aten::copysign(Tensor self, Tensor other) -> Tensor", promote="float", inplace=True,
           grad=dict(self=lambda F, g, self, out: g * F.sgn(self) * F.sgn(out),
                     other=lambda F, g: F.zeros_like(g)))  # fmt: skip
def copysign(m: Math, self: Elements, other: Elements) -> Elements:
    """|self| with the sign of other, that of a zero included."""
    return m.copysign(self, other)


@copysign.onnx
def _(g: OnnxWriter, self: Value, other: Value) -> Value:
    size = g.op("Abs", self)
    return g.op("Where", _onnx_negative(g, other), g.op("Neg", size), size)


@copysign.samples
def _() -> Iterator[Sample]:
    yield from binary(special=False)()
    zeros = np.array([0.0, -0.0, 2.0, -2.0], np.float32)
    yield sample(zeros, np.array([-0.0, 1.0, -0.0, 0.0], np.float32), note="zeros", grad=False)


@real_only
@pointwise("aten::signbit(Tensor self) -> Tensor", result=dtypes.bool_, grad=TESTS, onnx=_onnx_negative)
def signbit(m: Math, self: Elements) -> Elements:
    """Whether the sign bit of each element is set, as that of -0.0 is."""
    return m.signbit(self)


@signbit.numpy
def _(m: Numpy, self: Array) -> Array:
    return m.signbit(self) if self.dtype.kind == "f" else self < 0


@signbit.samples
def _() -> Iterator[Sample]:
    yield from unary(special=False)()
    yield sample(np.array([0.0, -0.0, np.inf, -np.inf], np.float32), note="special", grad=False)


@composite("aten::positive(Tensor self) -> Tensor", samples=unary())
def positive(F: Ops, self: Tensor) -> Tensor:
    """self itself; bools are refused."""
    if self.dtype is dtypes.bool_:
        raise DTypeError("positive does not take bool tensors: cast with x.int()")
    return self


@real_only
@pointwise("aten::nextafter(Tensor self, Tensor other) -> Tensor", cost=4, inplace=True,
           grad=absent("the result is a step"), onnx=absent("ONNX does not look at bits of floats"))  # fmt: skip
def nextafter(m: Math, self: Elements, other: Elements) -> Elements:
    """The floating number next to self in the direction of other."""
    return m.nextafter(self, other)


def _is_not_wide(dtype: DType) -> bool:
    return not dtype.is_floating_point or dtype.is_half


nextafter.refusals = (Refusal(_is_not_wide, "it steps through the numbers of float32 and float64; cast first"),)


@nextafter.samples
def _() -> Iterator[Sample]:
    yield from (s for s in binary(integers=False)() if s.note not in ("half", "mixed dtypes"))


# -- larger and smaller, ignoring NaN ----------------------------------------------------------------------------


def _either() -> Iterator[Sample]:
    yield from binary()()
    nan = np.array([np.nan, 1.0, np.nan], np.float32)
    yield sample(nan, np.array([2.0, np.nan, np.nan], np.float32), note="nan", grad=False)
    yield sample(make(6, dtype="bool"), make(6, dtype="bool", seed=1), note="bool", grad=False)


def _first(F: Ops, wins: Tensor, other: Tensor) -> Tensor:
    return F.logical_or(wins, F.isnan(other))


@ordered_only
@pointwise("aten::fmax(Tensor self, Tensor other) -> Tensor", samples=_either,
           grad=dict(self=lambda F, g, self, other: F.where(_first(F, F.ge(self, other), other), g, 0),
                     other=lambda F, g, self, other: F.where(_first(F, F.ge(self, other), other), 0, g)))  # fmt: skip
def fmax(m: Math, self: Elements, other: Elements) -> Elements:
    """The larger of self and other; where one of them is NaN, the other one."""
    return m.where(m.isnan(other) | (self >= other), self, other)


@ordered_only
@pointwise("aten::fmin(Tensor self, Tensor other) -> Tensor", samples=_either,
           grad=dict(self=lambda F, g, self, other: F.where(_first(F, F.le(self, other), other), g, 0),
                     other=lambda F, g, self, other: F.where(_first(F, F.le(self, other), other), 0, g)))  # fmt: skip
def fmin(m: Math, self: Elements, other: Elements) -> Elements:
    """The smaller of self and other; where one of them is NaN, the other one."""
    return m.where(m.isnan(other) | (self <= other), self, other)


def _onnx_choice(name: str, of_bools: str) -> Any:
    def symbolic(g: OnnxWriter, self: Value, other: Value) -> Value:
        if self.dtype is dtypes.bool_:
            return g.op(of_bools, self, other)
        if self.dtype.is_integral:
            return g.op(name, self, other)
        best = g.op("Where", g.op("IsNaN", self), other, g.op(name, self, other))
        return g.op("Where", g.op("IsNaN", other), self, best)

    return symbolic


fmax.symbolic, fmin.symbolic = _onnx_choice("Max", "Or"), _onnx_choice("Min", "And")


# -- kinds of numbers --------------------------------------------------------------------------------------------


def _kinds() -> Iterator[Sample]:
    yield from unary()()
    yield sample(make(4, dtype="bool"), note="bool", grad=False)


def _real(name: str, self: Tensor) -> None:
    if self.dtype.is_complex:
        raise DTypeError(f"{name} does not take complex tensors: they have no order")


@composite("aten::isposinf(Tensor self) -> Tensor", samples=_kinds)
def isposinf(F: Ops, self: Tensor) -> Tensor:
    """Whether each element is inf."""
    _real("isposinf", self)
    return F.eq(self, math.inf)


@composite("aten::isneginf(Tensor self) -> Tensor", samples=_kinds)
def isneginf(F: Ops, self: Tensor) -> Tensor:
    """Whether each element is -inf."""
    _real("isneginf", self)
    return F.eq(self, -math.inf)


@composite("aten::isreal(Tensor self) -> Tensor", samples=_kinds)
def isreal(F: Ops, self: Tensor) -> Tensor:
    """Whether the imaginary part of each element is 0."""
    return F.eq(F.imag(self), 0) if self.dtype.is_complex else F.ones_like(self, dtype=dtypes.bool_)


# -- powers and logarithms ---------------------------------------------------------------------------------------


@floats_only
@pointwise("aten::hypot(Tensor self, Tensor other) -> Tensor", cost=20, inplace=True,
           grad=dict(self=lambda F, g, self, out: g * (self / out),
                     other=lambda F, g, other, out: g * (other / out)))  # fmt: skip
def hypot(m: Math, self: Elements, other: Elements) -> Elements:
    """sqrt(self ** 2 + other ** 2), without overflow."""
    high, low = m.maximum(m.abs(self), m.abs(other)), m.minimum(m.abs(self), m.abs(other))
    ratio = low / m.where(high == 0, 1, high)
    size = high * m.sqrt(1 + ratio * ratio)
    return m.where(m.isinf(self) | m.isinf(other), math.inf, size)


@hypot.numpy
def _(m: Numpy, self: Array, other: Array) -> Array:
    return m.hypot(self, other)


@hypot.onnx
def _(g: OnnxWriter, self: Value, other: Value) -> Value:
    total = g.op("Add", g.op("Mul", self, self), g.op("Mul", other, other))
    infinite = g.op("Or", *(g.op("IsInf", g.cast(x, dtypes.float32)) for x in (self, other)))
    return g.op("Where", infinite, g.constant(math.inf, like=self), g.op("Sqrt", total))


@hypot.samples
def _() -> Iterator[Sample]:
    yield from binary(0.5, 3, integers=False, special=False)()
    special = np.array([np.inf, np.nan, 3.0], np.float32)
    yield sample(special, np.array([np.nan, 1.0, -4.0], np.float32), note="special", grad=False)
    yield sample(np.array([3e38, 1e-30], np.float32), np.array([1.0, 1e-30], np.float32), note="far", onnx=False,
                 grad=False)  # fmt: skip


@real_only
@pointwise("aten::logaddexp2(Tensor self, Tensor other) -> Tensor", cost=80, promote="float",
           grad=dict(self=lambda F, g, self, other: g * F.sigmoid((self - other) * math.log(2)),
                     other=lambda F, g, self, other: g * F.sigmoid((other - self) * math.log(2))))  # fmt: skip
def logaddexp2(m: Math, self: Elements, other: Elements) -> Elements:
    """log2(2 ** self + 2 ** other), without overflow."""
    apart = m.log1p(m.exp(-m.abs(self - other) * math.log(2))) / math.log(2)
    return m.where(self == other, self + 1, m.maximum(self, other) + apart)  # inf - inf would be NaN


@logaddexp2.onnx
def _(g: OnnxWriter, self: Value, other: Value) -> Value:
    two, ln = g.constant(2, like=self), g.constant(math.log(2), like=self)
    apart = g.op("Pow", two, g.op("Neg", g.op("Abs", g.op("Sub", self, other))))
    extra = g.op("Div", g.op("Log", g.op("Add", apart, g.constant(1, like=self))), ln)
    higher = g.op("Add", g.op("Max", self, other), extra)
    return g.op("Where", g.op("Equal", self, other), g.op("Add", self, g.constant(1, like=self)), higher)


logaddexp2.sampler = binary()


def _wide(x: Tensor) -> DType:
    """float64, or complex128 for complex numbers."""
    is_complex = x.dtype.is_complex if hasattr(x, "dtype") else isinstance(x, complex)
    return dtypes.complex128 if is_complex else dtypes.float64


def _as_wide(F: Ops, x: Tensor, dtype: DType) -> Tensor:
    if not hasattr(x, "dtype"):
        return x
    return F._to_copy(x, dtype=dtype) if x.dtype is not dtype else x


@composite("aten::float_power(Tensor self, Tensor exponent) -> Tensor", promote="common")
def float_power(F: Ops, self: Tensor, exponent: Tensor) -> Tensor:
    """self ** exponent, computed in float64 or complex128."""
    dtype = max(_wide(self), _wide(exponent), key=lambda d: d.category)
    return F.pow(_as_wide(F, self, dtype), _as_wide(F, exponent, dtype))


@float_power.samples
def _() -> Iterator[Sample]:
    yield sample(make(3, 4, low=0.5), make(4, seed=1), onnx=False)
    yield sample(make(3, low=0.5), 2, note="number")
    yield sample(3, make(3, seed=1), note="number first", onnx=False)
    yield sample(whole(4), 2, note="integer", grad=False)


@Precision(cuda="given")
@composite("aten::ldexp(Tensor self, Tensor other) -> Tensor", promote="common", inplace=True)
def ldexp(F: Ops, self: Tensor, other: Tensor) -> Tensor:
    """self * 2 ** other."""
    return self * F.pow(2.0, other)


@ldexp.samples
def _() -> Iterator[Sample]:
    yield sample(make(3, 4), whole(4, low=-3, high=3))
    yield sample(make(3), make(3, seed=1), note="fractions")
    yield sample(whole(4), whole(4, low=0, high=3), note="integer", grad=False)


@composite("aten::deg2rad(Tensor self) -> Tensor", inplace=True, samples=unary())
def deg2rad(F: Ops, self: Tensor) -> Tensor:
    """Degrees converted to radians."""
    _real("deg2rad", self)
    return self * (math.pi / 180)


@composite("aten::rad2deg(Tensor self) -> Tensor", inplace=True, samples=unary())
def rad2deg(F: Ops, self: Tensor) -> Tensor:
    """Radians converted to degrees."""
    _real("rad2deg", self)
    return self * (180 / math.pi)


# -- integers ----------------------------------------------------------------------------------------------------

NO_LOOP = absent("ONNX has no such function of integers")


@whole_only
@integers_only
@pointwise("aten::gcd(Tensor self, Tensor other) -> Tensor", cost=100, inplace=True, grad=BITS, onnx=NO_LOOP)
def gcd(m: Math, self: Elements, other: Elements) -> Elements:
    """The greatest common divisor of self and other; that of two zeros is 0."""
    return m.abs(m.gcd(self, other))  # numpy loses the sign where the least integer takes part


@whole_only
@integers_only
@pointwise("aten::lcm(Tensor self, Tensor other) -> Tensor", cost=100, inplace=True, grad=BITS, onnx=NO_LOOP)
def lcm(m: Math, self: Elements, other: Elements) -> Elements:
    """The least common multiple of self and other; 0 where one of them is 0."""
    return m.abs(m.lcm(self, other))  # what does not fit may come out negative


def _counts() -> Iterator[Sample]:
    yield sample(whole(3, 4, low=-30, high=30), whole(4, low=-30, high=30, seed=1))
    yield sample(whole(4, low=0, high=99, dtype="uint8"), 6, note="number")
    yield sample(whole(low=1, dtype="int32"), whole(0, 2, dtype="int32"), note="empty")
    yield sample(np.array([-128, -128, -127], np.int8), np.array([-127, 3, -128], np.int8), note="least integer")


gcd.samples(_counts)
lcm.samples(_counts)


@whole_only
@integers_only
@pointwise("aten::bitwise_left_shift(Tensor self, Tensor other) -> Tensor", inplace=True, grad=BITS,
           aliases=("__lshift__",),
           onnx=absent("BitShift takes unsigned integers alone"))  # fmt: skip
def bitwise_left_shift(m: Math, self: Elements, other: Elements) -> Elements:
    """self << other; 0 where other is negative or not less than the number of bits."""
    return m.left_shift(self, other)


@whole_only
@integers_only
@pointwise("aten::bitwise_right_shift(Tensor self, Tensor other) -> Tensor", inplace=True, grad=BITS,
           aliases=("__rshift__",),
           onnx=absent("BitShift takes unsigned integers alone"))  # fmt: skip
def bitwise_right_shift(m: Math, self: Elements, other: Elements) -> Elements:
    """self >> other, filled with copies of the sign; these alone where other is negative or too large."""
    return m.right_shift(self, other)


def _shifts() -> Iterator[Sample]:
    yield sample(whole(3, 4, low=-99, high=99), whole(4, low=0, high=9, seed=1))
    yield sample(np.array([5, -5, 5, -5], np.int32), np.array([31, 32, 99, -1], np.int32), note="all bits gone")
    yield sample(whole(4, low=0, high=99, dtype="uint8"), 3, note="number")


bitwise_left_shift.samples(_shifts)
bitwise_right_shift.samples(_shifts)


# -- parts of floating numbers -----------------------------------------------------------------------------------


@floats_only
@array("aten::frexp.Tensor(Tensor self) -> (Tensor mantissa, Tensor exponent)", promote=("self",),
       grad=dict(self=lambda F, g, out: g / F.exp2(out[1])),
       onnx=absent("ONNX does not look at bits of floats"))  # fmt: skip
def frexp(m: Numpy, self: Array) -> Sequence[Array | None]:
    """(fraction, exponent): self is fraction * 2 ** exponent, and |fraction| lies in [0.5, 1)."""
    mantissa, exponent = m.frexp(self)
    return mantissa, m.where(m.isfinite(self), exponent, 0).astype(m.int32)


@frexp.type
def _(self: KnownType) -> Sequence[Type]:
    return tuple(TensorType(dtype, self.sizes, None, self.device) for dtype in (self.dtype, dtypes.int32))


@frexp.samples
def _() -> Iterator[Sample]:
    yield from (s for s in unary(special=False, integers=False)() if s.note != "strided")
    yield sample(strided(make(3, 5)), note="strided")
    yield sample(SPECIAL.copy(), note="special", grad=False)
