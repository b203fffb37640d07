"""Arithmetic and elementary functions, element by element."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from jit.ir import dtypes
from jit.ir.dtypes import DType
from jit.ir.errors import DTypeError, UsageError
from jit.ir.op import Op, Operand, Refusal, absent, composite, pointwise
from jit.ir.precision import Precision
from jit.ir.samples import SPECIAL, Sample, binary, make, sample, strided, unary, whole

from .common import (
    divides_by_zero,
    is_bool,
    is_integral,
    no_bool,
    onnx_expm1,
    onnx_if_fractional,
    onnx_scaled,
    onnx_softplus,
    onnx_trunc,
    ordered_only,
    times,
    weighted,
)

if TYPE_CHECKING:
    from .protocols import Array, Elements, Math, Number, Numpy, OnnxWriter, Ops, Tensor, Value

STEPS = absent("the derivative is 0 wherever there is one")
SQRT_2, LN_2, LN_10, TWO_OVER_SQRT_PI = math.sqrt(2), math.log(2), math.log(10), 2 / math.sqrt(math.pi)


def flat(F: Ops, g: Tensor) -> Tensor:
    """Zeros: the gradient of a step function."""
    return F.zeros_like(g)


# -- sums and products -------------------------------------------------------------------------------------------


def _weighted() -> Iterator[Sample]:
    yield from binary()()
    yield sample(make(3, 4), make(3, 4, seed=1), alpha=0.5, note="alpha")
    yield sample(whole(4, dtype="int32"), whole(4, dtype="int32", seed=1), alpha=-3, note="alpha", grad=False)


def _sums() -> Iterator[Sample]:
    yield from _weighted()
    yield sample(make(6, dtype="bool"), make(6, dtype="bool", seed=1), note="bool", grad=False)
    yield sample(np.array([250, 7], np.uint8), np.array([10, 1], np.uint8), note="wraps", grad=False)


@pointwise("aten::add(Tensor self, Tensor other, *, Scalar alpha=1) -> Tensor", inplace=True, samples=_sums,
           into=lambda np, out, self, other, alpha:
               np.add(self, other, out=out) if alpha == 1 else None,
           numpy=lambda m, self, other, alpha: self + weighted(other, alpha),
           grad=dict(self=lambda F, g: g, other=lambda F, g, alpha: g if alpha == 1 else g * alpha))  # fmt: skip
def add(m: Math, self: Elements, other: Elements, alpha: Number) -> Elements:
    """self + alpha * other."""
    return self + other if alpha == 1 else self + alpha * other


@add.onnx
def _(g: OnnxWriter, self: Value, other: Value, alpha: Number) -> Value:
    if self.dtype is dtypes.bool_:
        return g.op("Or", self, other)
    return g.op("Add", self, onnx_scaled(g, other, alpha))


no_bool_operand = Refusal(is_bool, "cast with x.int(), or use logical_not or logical_xor", each=True)


@no_bool_operand
@pointwise("aten::sub(Tensor self, Tensor other, *, Scalar alpha=1) -> Tensor", inplace=True, aliases=("subtract",),
           into=lambda np, out, self, other, alpha:
               np.subtract(self, other, out=out) if alpha == 1 else None,
           samples=_weighted, numpy=lambda m, self, other, alpha: self - weighted(other, alpha),
           grad=dict(self=lambda F, g: g, other=lambda F, g, alpha: -g if alpha == 1 else g * -alpha))  # fmt: skip
def sub(m: Math, self: Elements, other: Elements, alpha: Number) -> Elements:
    """self - alpha * other; bools are refused."""
    return self - other if alpha == 1 else self - alpha * other


@sub.onnx
def _(g: OnnxWriter, self: Value, other: Value, alpha: Number) -> Value:
    return g.op("Sub", self, onnx_scaled(g, other, alpha))


@no_bool_operand
@pointwise("aten::rsub(Tensor self, Tensor other, Scalar alpha=1) -> Tensor", namespaces=("jit",),
           samples=_weighted, numpy=lambda m, self, other, alpha: other - weighted(self, alpha),
           grad=dict(self=lambda F, g, alpha: -g if alpha == 1 else g * -alpha, other=lambda F, g: g))  # fmt: skip
def rsub(m: Math, self: Elements, other: Elements, alpha: Number) -> Elements:
    """other - alpha * self."""
    return other - self if alpha == 1 else other - alpha * self


@rsub.onnx
def _(g: OnnxWriter, self: Value, other: Value, alpha: Number) -> Value:
    return g.op("Sub", other, onnx_scaled(g, self, alpha))


def _products() -> Iterator[Sample]:
    yield from binary()()
    yield sample(make(6, dtype="bool"), make(6, dtype="bool", seed=1), note="bool", grad=False)
    yield sample(np.array([2**62, -(2**63)], np.int64), np.array([4, -1], np.int64), note="wraps", grad=False)


@pointwise("aten::mul(Tensor self, Tensor other) -> Tensor", inplace=True, aliases=("multiply",), samples=_products,
           into=lambda np, out, self, other: np.multiply(self, other, out=out),
           onnx=lambda g, self, other: g.op("And" if self.dtype is dtypes.bool_ else "Mul", self, other),
           grad=dict(self=lambda F, g, other: g * other, other=lambda F, g, self: g * self))  # fmt: skip
def mul(m: Math, self: Elements, other: Elements) -> Elements:
    """self * other; of bools, the logical and."""
    return self * other


@no_bool
@pointwise("aten::neg(Tensor self) -> Tensor", inplace=True, aliases=("negative",), onnx="Neg", samples=unary(),
           into=lambda np, out, self: np.negative(self, out=out),
           grad=dict(self=lambda F, g: -g))  # fmt: skip
def neg(m: Math, self: Elements) -> Elements:
    """-self."""
    return -self


@composite("aten::square(Tensor self) -> Tensor", inplace=True, samples=unary(),
           onnx=lambda g, self: g.op("Mul", self, self))  # fmt: skip
def square(F: Ops, self: Tensor) -> Tensor:
    """self * self."""
    return F.pow(self, 2)


def _triples() -> Iterator[Sample]:
    yield sample(make(3, 4), make(3, 4, seed=1), make(3, 4, low=0.5, high=2, seed=2))
    yield sample(make(3, 1), make(4, seed=1), make(1, low=0.5, high=2, seed=2), value=-0.5, note="broadcast")
    yield sample(make(), make(2, seed=1), make(2, low=0.5, high=2, seed=2), note="0-d")
    yield sample(make(0, 2), make(2, seed=1), make(2, low=0.5, high=2, seed=2), note="empty")
    yield sample(strided(make(3, 5)), make(5, seed=1), make(5, low=0.5, high=2, seed=2), note="strided")
    yield sample(*(make(4, low=0.5, high=2, dtype="float16", seed=i) for i in range(3)), note="half", grad=False)


@Precision(cuda="widest")
@pointwise("aten::addcmul(Tensor self, Tensor tensor1, Tensor tensor2, *, Scalar value=1) -> Tensor", inplace=True,
           numpy=lambda m, self, tensor1, tensor2, value: self + times(tensor1 * tensor2, value),
           grad=dict(self=lambda F, g: g,
                     tensor1=lambda F, g, tensor2, value: g * (tensor2 * value),
                     tensor2=lambda F, g, tensor1, value: g * (tensor1 * value)))  # fmt: skip
def addcmul(m: Math, self: Elements, tensor1: Elements, tensor2: Elements, value: Number) -> Elements:
    """self + value * tensor1 * tensor2."""
    return self + tensor1 * tensor2 * value if value != 1 else self + tensor1 * tensor2


@addcmul.onnx
def _(g: OnnxWriter, self: Value, tensor1: Value, tensor2: Value, value: Number) -> Value:
    return g.op("Add", self, onnx_scaled(g, g.op("Mul", tensor1, tensor2), value))


@addcmul.samples
def _() -> Iterator[Sample]:
    yield from _triples()
    yield sample(*(whole(4, seed=i) for i in range(3)), value=2, note="integer", grad=False)


@Precision(cuda="widest")
@Refusal(is_integral, "cast to a floating dtype first, e.g. x.float()")
@pointwise("aten::addcdiv(Tensor self, Tensor tensor1, Tensor tensor2, *, Scalar value=1) -> Tensor", inplace=True,
           cost=5, samples=_triples,
           grad=dict(self=lambda F, g: g,
                     tensor1=lambda F, g, tensor2, value: g * value / tensor2,
                     tensor2=lambda F, g, tensor1, tensor2, value:
                             g * -value * (tensor1 / (tensor2 * tensor2))))  # fmt: skip
def addcdiv(m: Math, self: Elements, tensor1: Elements, tensor2: Elements, value: Number) -> Elements:
    """self + value * tensor1 / tensor2."""
    return self + tensor1 / tensor2 * value if value != 1 else self + tensor1 / tensor2


@addcdiv.onnx
def _(g: OnnxWriter, self: Value, tensor1: Value, tensor2: Value, value: Number) -> Value:
    return g.op("Add", self, onnx_scaled(g, g.op("Div", tensor1, tensor2), value))


@Refusal(is_integral, "cast to a floating dtype first, e.g. x.float()")
@pointwise("aten::lerp(Tensor self, Tensor end, Tensor weight) -> Tensor", inplace=True,
           grad=dict(self=lambda F, g, weight: g * (1 - weight),
                     end=lambda F, g, weight: g * weight,
                     weight=lambda F, g, self, end: g * (end - self)))  # fmt: skip
def lerp(m: Math, self: Elements, end: Elements, weight: Elements) -> Elements:
    """self + weight * (end - self); exact at both ends."""
    gap = end - self  # counted from the nearer end, so that both ends are hit exactly
    return m.where(m.abs(weight) < 0.5, self + weight * gap, end - gap * (1 - weight))


@lerp.onnx
def _(g: OnnxWriter, self: Value, end: Value, weight: Value) -> Value:
    gap = g.op("Sub", end, self)
    from_self = g.op("Add", self, g.op("Mul", weight, gap))
    from_end = g.op("Sub", end, g.op("Mul", gap, g.op("Sub", g.constant(1, like=weight), weight)))
    return g.op("Where", g.op("Less", g.op("Abs", weight), g.constant(0.5, like=weight)), from_self, from_end)


@lerp.samples
def _() -> Iterator[Sample]:
    yield sample(make(3, 4), make(3, 4, seed=1), 0.25, note="number")
    yield sample(make(3, 1), make(4, seed=1), make(3, 4, low=-0.5, high=1.5, seed=2), note="broadcast")
    yield sample(make(), make(2, seed=1), 1.0, note="0-d")
    yield sample(make(0, 2), make(2, seed=1), 0, note="empty")
    yield sample(make(4, dtype="float16"), make(4, dtype="float16", seed=1), 0.7, note="half", grad=False)


# -- quotients ---------------------------------------------------------------------------------------------------


def away_from_zero(*shape: int, dtype: Any = np.float32, seed: int = 1) -> Any:
    """Divisors: of both signs, none near 0."""
    values = make(*shape, low=0.5, high=2.5, dtype=np.float64, seed=seed)
    signs = np.where(make(*shape, seed=seed + 100) < 0, -1.0, 1.0)
    return (values * signs).astype(dtype)


def _quotients(special: bool = True) -> Iterator[Sample]:
    yield sample(make(3, 4), away_from_zero(3, 4))
    yield sample(make(3, 1), away_from_zero(4), note="broadcast")
    yield sample(make(), away_from_zero(2, 3), note="0-d")
    yield sample(make(0, 3), away_from_zero(1, 3), note="empty")
    yield sample(strided(make(3, 5)), away_from_zero(3, 5), note="strided")
    yield sample(make(4), 0.75, note="number")
    yield sample(3.5, away_from_zero(4), note="number first")
    yield sample(make(4, dtype="float16"), away_from_zero(4, dtype="float16"), note="half", grad=False)
    yield sample(whole(9), np.array([1, -1, 2, -2, 3, -3, 4, -4, 5]), note="integer", grad=False)
    yield sample(whole(9, dtype="int32"), 4, note="integer by number", grad=False)
    if special:
        yield sample(SPECIAL.copy(), SPECIAL[::-1].copy(), note="special", grad=False)


def _rounded_quotients() -> Iterator[Sample]:
    yield from _quotients(special=False)
    yield sample(np.array([1.0, -1.0, 0.0, np.inf, np.nan, 1.0], np.float32),
                 np.array([0.0, 0.0, 0.0, 2.0, 1.0, np.inf], np.float32), note="special", grad=False)  # fmt: skip
    yield sample(np.array([-(2**31)], np.int32), np.array([-1], np.int32), note="wraps", grad=False, onnx=False)
    yield sample(np.array([7, 250], np.uint8), np.array([2, 100], np.uint8), note="uint8", grad=False)


@pointwise("aten::div(Tensor self, Tensor other) -> Tensor", cost=4, promote="float", inplace=True,
           into=lambda np, out, self, other: np.divide(self, other, out=out),
           aliases=("divide", "true_divide"), onnx="Div", samples=_quotients,
           grad=dict(self=lambda F, g, other: g / other,
                     other=lambda F, g, self, other: -g * (self / (other * other))))  # fmt: skip
def div(m: Math, self: Elements, other: Elements) -> Elements:
    """self / other, integers as floats."""
    return self / other


@composite(
    "aten::div.Tensor_mode(Tensor self, Tensor other, *, str? rounding_mode) -> Tensor", promote="common", inplace=True
)
def div_mode(F: Ops, self: Tensor, other: Tensor, rounding_mode: str | None) -> Tensor:
    """self / other, rounded down ("floor"), toward zero ("trunc") or not at all (None)."""
    if rounding_mode is None:
        return F.div(self, other)
    if rounding_mode not in ("floor", "trunc"):
        raise UsageError(f"div: rounding_mode is None, 'floor' or 'trunc', got {rounding_mode!r}")
    if rounding_mode == "floor":
        return F.floor_divide(self, other)
    if any(getattr(getattr(x, "dtype", None), "is_half", False) for x in (self, other)):
        return F.trunc(F.div(self, other))  # the quotient is rounded to 16 bits first, as ATen does
    return F._div_trunc(self, other)


@div_mode.samples
def _() -> Iterator[Sample]:
    for mode in ("floor", "trunc", None):
        yield sample(make(3, 4), away_from_zero(4), rounding_mode=mode)
        yield sample(whole(5), 4, rounding_mode=mode, note="integer", grad=False)


@ordered_only
@no_bool
@pointwise("aten::floor_divide(Tensor self, Tensor other) -> Tensor", raises=divides_by_zero, inplace=True,
           cost=100, samples=_rounded_quotients,
           grad=dict(self=lambda F, g: flat(F, g), other=lambda F, g: flat(F, g)))  # fmt: skip
def floor_divide(m: Math, self: Elements, other: Elements) -> Elements:
    """self / other rounded down, as Python's `//`; DivisionError where an integer is divided by 0."""
    return m.floor_divide(self, other)


@floor_divide.onnx
def _(g: OnnxWriter, self: Value, other: Value) -> Value:
    if self.dtype.is_integral:  # ONNX's Div truncates; its Mod has the divisor's sign, and what is left divides evenly
        return g.op("Div", g.op("Sub", self, g.op("Mod", self, other)), other)
    rest = onnx_remainder(g, self, other)
    quotient = g.op("Round", g.op("Div", g.op("Sub", self, rest), other))
    by_zero = g.op("Equal", other, g.constant(0, like=other))
    return g.op("Where", by_zero, g.op("Div", self, other), quotient)


@ordered_only
@no_bool
@pointwise("aten::_div_trunc(Tensor self, Tensor other) -> Tensor", raises=divides_by_zero, cost=5, namespaces=(),
           samples=_rounded_quotients,
           grad=dict(self=lambda F, g: flat(F, g), other=lambda F, g: flat(F, g)))  # fmt: skip
def _div_trunc(m: Math, self: Elements, other: Elements) -> Elements:
    """self / other rounded toward zero, as C divides integers."""
    return m.trunc(self / other)


@_div_trunc.numpy
def _(m: Numpy, self: Array, other: Array) -> Array:
    if self.dtype.kind == "f":
        return m.trunc(self / other)
    # Integers: round down, then up again where the quotient is negative and not whole.
    floor, rest = m.floor_divide(self, other), m.remainder(self, other)
    return floor + ((rest != 0) & ((self < 0) != (other < 0)))


@_div_trunc.onnx
def _(g: OnnxWriter, self: Value, other: Value) -> Value:
    quotient = g.op("Div", self, other)
    return quotient if self.dtype.is_integral else onnx_trunc(g, quotient)


@ordered_only
@no_bool
@pointwise("aten::remainder(Tensor self, Tensor other) -> Tensor", raises=divides_by_zero, cost=100, inplace=True,
           samples=_rounded_quotients,
           grad=dict(self=lambda F, g: g,
                     other=lambda F, g, self, other: -g * F.floor_divide(self, other)))  # fmt: skip
def remainder(m: Math, self: Elements, other: Elements) -> Elements:
    """The remainder of `floor_divide`; it has the sign of other, as Python's `%`."""
    return m.remainder(self, other)


def onnx_remainder(g: OnnxWriter, self: Value, other: Value) -> Value:
    """The remainder of `self` with the sign of `other`; ONNX has that for integers alone."""
    if self.dtype.is_integral:
        return g.op("Mod", self, other)
    zero = g.constant(0, like=self)
    rest = g.op("Mod", self, other, fmod=1)
    signs_differ = g.op("Xor", g.op("Less", rest, zero), g.op("Less", other, zero))
    wrong = g.op("And", signs_differ, g.op("Not", g.op("Equal", rest, zero)))
    return g.op("Where", wrong, g.op("Add", rest, other), rest)


remainder.onnx(lambda g, self, other: onnx_remainder(g, self, other))


@ordered_only
@no_bool
@pointwise("aten::fmod(Tensor self, Tensor other) -> Tensor", raises=divides_by_zero, cost=100, inplace=True,
           samples=_rounded_quotients,
           onnx=lambda g, self, other: g.op("Mod", self, other, fmod=1),
           grad=dict(self=lambda F, g: g, other=lambda F, g, self, other: -g * F.trunc(self / other)))  # fmt: skip
def fmod(m: Math, self: Elements, other: Elements) -> Elements:
    """The remainder of a division rounded toward zero; it has the sign of self, as C's fmod."""
    return m.fmod(self, other)


@Precision(cuda="float32")
@pointwise("aten::reciprocal(Tensor self) -> Tensor", cost=4, promote="float", inplace=True, onnx="Reciprocal",
           samples=unary(0.5, 3),
           grad=dict(self=lambda F, g, out: -g * (out * out)))  # fmt: skip
def reciprocal(m: Math, self: Elements) -> Elements:
    """1 / self."""
    return m.reciprocal(self)


# -- powers and roots --------------------------------------------------------------------------------------------


def power_gradient(F: Ops, g: Tensor, self: Tensor, exponent: Tensor) -> Tensor:
    """g * exponent * self ** (exponent - 1); 0 for the exponent 0, also where self is 0."""
    if isinstance(exponent, (int, float)):
        if exponent == 0:
            return F.zeros_like(g)
        return g * (exponent * (self if exponent == 2 else self ** (exponent - 1)))
    constant = F.eq(exponent, 0)
    return F.where(constant, 0, g * (exponent * self ** F.where(constant, 1, exponent - 1)))


def exponent_gradient(F: Ops, g: Tensor, self: Tensor, exponent: Tensor, out: Tensor) -> Tensor:
    """g * out * log(self); 0 where self is 0 and the exponent is not negative."""
    if isinstance(self, (int, float)) and self != 0:
        return g * (out * (math.log(self) if self > 0 else math.nan))
    size = F.real(exponent) if getattr(getattr(exponent, "dtype", None), "is_complex", False) else exponent
    still = F.logical_and(F.eq(self, 0), F.ge(size, 0))
    if isinstance(self, (int, float)):
        return g * F.where(still, 0.0, -math.inf)
    return g * (out * F.log(F.where(still, 1, self)))


class _NegativePowers(Refusal):
    """Refuses a negative number as exponent of integers; a tensor of exponents may hold some."""

    def check(self, op: Op, computed: DType, operands: Sequence[Operand]) -> None:
        dtype, _, number = operands[1]
        if dtype is None and type(number) is int and number < 0 and computed.is_integral:
            raise DTypeError(f"pow: an integer to a negative power is no integer; {self.way_out}")


@Precision(cuda="float32")
@_NegativePowers(is_integral, "cast to a floating dtype first, e.g. x.float()")
@no_bool
@pointwise("aten::pow(Tensor self, Tensor exponent) -> Tensor", cost=60, inplace=True,
           grad=dict(self=lambda F, g, self, exponent: power_gradient(F, g, self, exponent),
                     exponent=lambda F, g, self, exponent, out:
                              exponent_gradient(F, g, self, exponent, out)))  # fmt: skip
def pow(m: Math, self: Elements, exponent: Elements) -> Elements:
    """self ** exponent.

    Integers to negative exponents are 1 / self ** n toward zero; as a number, a negative exponent of integers is
    refused.

    Note [Roots]
        To the numbers 0.5 and -0.5 it is sqrt and rsqrt: NaN of -inf, and a zero keeps its sign. To a tensor of 0.5 it
        is C's pow, as all other powers are: inf of -inf, and 0.0 of -0.0. ATen draws the same line.
    """
    return m.pow(self, exponent)


pow.tells_numbers = True


@pow.numpy
def _(m: Numpy, self: Array, exponent: Array) -> Array:
    if isinstance(exponent, np.generic):
        return _number_power(m, self, exponent, exponent.item())
    if self.dtype.kind in "iu" and (exponent < 0).any():
        return _integer_power(m, self, exponent)
    power = m.power(self, exponent)
    is_each_its_own = exponent.ndim and exponent.shape == self.shape and 0 not in exponent.strides
    if is_each_its_own or self.dtype.kind != "f" or not (half := exponent == 0.5).any():
        return power
    # where one exponent serves several bases numpy takes 0.5 for a root
    return m.where(half & ((self == 0) | (self == -math.inf)), m.abs(self), power)


_ROOTS = (0.5, -0.5)


def _number_power(m: Numpy, self: Array, exponent: Array, number: Number) -> Array:
    if number == 2:
        return self * self
    if number in _ROOTS and self.dtype.kind == "f":
        root = m.sqrt(self)
        return root if number > 0 else 1 / root
    return m.power(self, exponent)


def _integer_power(m: Numpy, self: Array, exponent: Array) -> Any:
    """Powers of integers; those to negative exponents are 1 / self ** n toward zero, as ATen has it."""
    inverse = m.where(self == 1, 1, m.where(self == -1, 1 - 2 * (exponent & 1), 0)).astype(self.dtype)
    return m.where(exponent < 0, inverse, m.power(self, m.maximum(exponent, 0)))


@pow.onnx
def _(g: OnnxWriter, self: Value, exponent: Value) -> Value:
    number = exponent.constant
    if number is not None and number.ndim == 0 and self.dtype.is_floating_point and number in _ROOTS:
        root = g.op("Sqrt", self)
        return root if number > 0 else g.op("Reciprocal", root)
    return g.op("Pow", self, exponent)


@pow.samples
def _() -> Iterator[Sample]:
    yield sample(make(3, 4, low=0.5, high=2), make(3, 4, seed=1))
    yield sample(make(3, 1, low=0.5, high=2), make(4, seed=1), note="broadcast")
    yield sample(make(3, 4), 2, note="square")
    yield sample(make(3, 4), 3, note="cube")
    yield sample(make(4, low=0.5, high=2), -1.5, note="number")
    yield sample(2.0, make(4), note="number first")
    yield sample(make(low=0.5, high=2), make(2, seed=1), note="0-d")
    yield sample(make(0, 3), make(1, 3, seed=1), note="empty")
    yield sample(strided(make(3, 5, low=0.5, high=2)), 0.5, note="strided")
    bases, exponents = np.array([0.0, 0.0, 0.0, -1.0, -2.0]), np.array([0, 2, -1, 0.5, 3])
    yield sample(bases.astype("float32"), exponents.astype("float32"), note="kinks", grad=False)
    yield sample(make(4, low=0.5, high=2, dtype="float16"), 3, note="half", grad=False)
    yield sample(whole(4, low=-5, high=5), whole(4, low=0, high=4, seed=1), note="integer", grad=False)
    yield sample(make(4, low=-5, high=5, dtype="int32"), 0.5, note="integer to a fraction", grad=False)
    bases, exponents = np.array([1, -1, -1, 3, 3, 0]), np.array([-5, -3, -2, -1, 2, 0])
    yield sample(bases, exponents, note="integers to negative powers", grad=False, onnx=False)
    yield sample(bases.astype("int8"), np.array(-3, "int8"), note="integers to one negative power", grad=False,
                 onnx=False)  # fmt: skip
    yield sample(2, exponents, note="a number to negative powers", grad=False, onnx=False)


@pointwise("aten::sqrt(Tensor self) -> Tensor", promote="float", inplace=True, onnx="Sqrt", samples=unary(0.1, 4),
           into=lambda np, out, self: np.sqrt(self, out=out),
           cost=6, grad=dict(self=lambda F, g, out: g / (2 * out)))  # fmt: skip
def sqrt(m: Math, self: Elements) -> Elements:
    """The square root of self."""
    return m.sqrt(self)


@Precision(cuda="float32")
@pointwise("aten::rsqrt(Tensor self) -> Tensor", cost=8, promote="float", inplace=True, samples=unary(0.1, 4),
           onnx=lambda g, self: g.op("Reciprocal", g.op("Sqrt", self)),
           grad=dict(self=lambda F, g, out: g * (out * out * out) * -0.5))  # fmt: skip
def rsqrt(m: Math, self: Elements) -> Elements:
    """1 / sqrt(self)."""
    return m.rsqrt(self)


# -- exponentials and logarithms ---------------------------------------------------------------------------------


@Precision(cuda="float32")
@pointwise("aten::exp(Tensor self) -> Tensor", cost=20, promote="float", inplace=True, onnx="Exp", samples=unary(),
           into=lambda np, out, self: np.exp(self, out=out),
           grad=dict(self=lambda F, g, out: g * out))  # fmt: skip
def exp(m: Math, self: Elements) -> Elements:
    """e ** self."""
    return m.exp(self)


@pointwise("aten::exp2(Tensor self) -> Tensor", cost=40, promote="float", inplace=True, samples=unary(),
           namespaces=("jit", "Tensor", "special"), onnx=lambda g, self: g.op("Pow", g.constant(2, like=self), self),
           grad=dict(self=lambda F, g, out: g * (out * LN_2)))  # fmt: skip
def exp2(m: Math, self: Elements) -> Elements:
    """2 ** self."""
    return m.exp2(self)


@Precision(cuda="float32")
@pointwise("aten::expm1(Tensor self) -> Tensor", cost=25, promote="float", inplace=True, samples=unary(),
           namespaces=("jit", "Tensor", "special"),
           grad=dict(self=lambda F, g, out: g * (out + 1)))  # fmt: skip
def expm1(m: Math, self: Elements) -> Elements:
    """exp(self) - 1, accurate near 0."""
    return m.expm1(self)


expm1.onnx(lambda g, self: onnx_expm1(g, self))


@Precision(cuda="float32")
@pointwise("aten::log(Tensor self) -> Tensor", promote="float", inplace=True, onnx="Log", samples=unary(0.1, 4),
           into=lambda np, out, self: np.log(self, out=out),
           cost=20, grad=dict(self=lambda F, g, self: g / self))  # fmt: skip
def log(m: Math, self: Elements) -> Elements:
    """The natural logarithm of self."""
    return m.log(self)


@Precision(cuda="float32")
@pointwise("aten::log2(Tensor self) -> Tensor", cost=60, promote="float", inplace=True, samples=unary(0.1, 4),
           onnx=lambda g, self: g.op("Div", g.op("Log", self), g.constant(LN_2, like=self)),
           grad=dict(self=lambda F, g, self: g / (self * LN_2)))  # fmt: skip
def log2(m: Math, self: Elements) -> Elements:
    """The logarithm of self to base 2."""
    return m.log2(self)


@Precision(cuda="float32")
@pointwise("aten::log10(Tensor self) -> Tensor", cost=60, promote="float", inplace=True, samples=unary(0.1, 4),
           onnx=lambda g, self: g.op("Div", g.op("Log", self), g.constant(LN_10, like=self)),
           grad=dict(self=lambda F, g, self: g / (self * LN_10)))  # fmt: skip
def log10(m: Math, self: Elements) -> Elements:
    """The logarithm of self to base 10."""
    return m.log10(self)


@Precision(cuda="float32")
@pointwise("aten::log1p(Tensor self) -> Tensor", cost=25, promote="float", inplace=True, samples=unary(-0.9, 3),
           namespaces=("jit", "Tensor", "special"), grad=dict(self=lambda F, g, self: g / (self + 1)))  # fmt: skip
def log1p(m: Math, self: Elements) -> Elements:
    """log(1 + self), accurate near 0."""
    return m.log1p(self)


@log1p.numpy
def _(m: Numpy, self: Array) -> Array:
    """Complex numbers go by size and angle: near 0 the size of 1 + z is 1 and a little, which is summed up apart."""
    if self.dtype.kind != "c":
        return m.log1p(self)
    x, y = self.real, self.imag
    near = m.abs(self) < 0.5
    little = m.where(near, x * (2 + x) + y * y, 0)
    size = m.where(near, m.where(little == 0, x, m.log1p(little) / 2), m.log(m.hypot(x + 1, y)))
    return m.asarray(size + 1j * m.arctan2(y, x + 1))


@log1p.onnx
def _(g: OnnxWriter, self: Value) -> Value:
    """log(u) for u = 1 + x, times x / (u - 1) for what x lost in the sum; x itself where it lost everything."""
    one, zero = g.constant(1, like=self), g.constant(0, like=self)
    rounded = g.op("Add", one, self)
    kept = g.op("Sub", rounded, one)
    plain = g.op("Log", rounded)
    mended = g.op("Div", g.op("Mul", plain, self), kept)
    near_zero = g.op("Where", g.op("Equal", kept, zero), self, mended)
    return g.op("Where", g.op("Equal", kept, self), plain, near_zero)


@pointwise("aten::xlogy(Tensor self, Tensor other) -> Tensor", cost=12, promote="float", inplace=True,
           namespaces=("jit", "Tensor", "special"),
           grad=dict(self=lambda F, g, self, other:
                          g * F.log(F.where(F.logical_and(F.eq(self, 0), F.le(other, 0)), 1, other)),
                     other=lambda F, g, self, other: g * self / other))  # fmt: skip
def xlogy(m: Math, self: Elements, other: Elements) -> Elements:
    """self * log(other), 0 where self is 0."""
    return m.where((self == 0) & (other == other), 0, self * m.log(other))


@xlogy.onnx
def _(g: OnnxWriter, self: Value, other: Value) -> Value:
    zero = g.constant(0, like=self)
    known = g.op("And", g.op("Equal", self, zero), g.op("Equal", other, other))
    return g.op("Where", known, zero, g.op("Mul", self, g.op("Log", other)))


@xlogy.samples
def _() -> Iterator[Sample]:
    yield from binary(other_low=0.1, other_high=3)()
    yield sample(
        np.array([0.0, 0.0, 1.0], np.float32), np.array([0.0, np.nan, 0.0], np.float32), note="0 log 0", grad=False
    )


@pointwise("aten::logaddexp(Tensor self, Tensor other) -> Tensor", cost=80, promote="float",
           grad=dict(self=lambda F, g, self, other: g * F.sigmoid(self - other),
                     other=lambda F, g, self, other: g * F.sigmoid(other - self)))  # fmt: skip
def logaddexp(m: Math, self: Elements, other: Elements) -> Elements:
    """log(exp(self) + exp(other)), without overflow."""
    higher = m.maximum(self, other) + m.log1p(m.exp(-m.abs(self - other)))
    return m.where(self == other, self + LN_2, higher)  # inf - inf would be NaN


@logaddexp.numpy
def _(m: Numpy, self: Array, other: Array) -> Array:
    if self.dtype.kind != "c":
        return logaddexp.body(m, self, other)
    first = self.real >= other.real
    high, low = m.where(first, self, other), m.where(first, other, self)
    return m.where(self == other, self + LN_2, high + m.log1p(m.exp(low - high)))


@logaddexp.onnx
def _(g: OnnxWriter, self: Value, other: Value) -> Value:
    apart = g.op("Neg", g.op("Abs", g.op("Sub", self, other)))
    higher = g.op("Add", g.op("Max", self, other), onnx_softplus(g, apart))
    return g.op("Where", g.op("Equal", self, other), g.op("Add", self, g.constant(LN_2, like=self)), higher)


@logaddexp.samples
def _() -> Iterator[Sample]:
    yield from binary()()
    yield sample(
        np.array([900.0, -np.inf, np.inf], np.float32),
        np.array([901.0, -np.inf, np.inf], np.float32),
        note="far out",
        grad=False,
    )


def logit_gradient(F: Ops, g: Tensor, self: Tensor, eps: float | None) -> Tensor:
    """g / (x * (1 - x)); 0 where x was clamped, NaN outside [0, 1] if it was not."""
    low, outside = (0.0, math.nan) if eps is None else (eps, 0.0)
    inside = F.logical_and(F.ge(self, low), F.le(self, 1 - low))
    safe = F.where(inside, self, 0.5)
    return F.where(inside, g / (safe * (1 - safe)), outside)


@pointwise("aten::logit(Tensor self, float? eps=None) -> Tensor", cost=45, promote="float", inplace=True,
           namespaces=("jit", "Tensor", "special"),
           grad=dict(self=lambda F, g, self, eps: logit_gradient(F, g, self, eps)))  # fmt: skip
def logit(m: Math, self: Elements, eps: float | None) -> Elements:
    """log(self / (1 - self)), self first clamped to [eps, 1 - eps] if eps is given."""
    if eps is not None:
        self = m.minimum(m.maximum(self, eps), 1 - eps)
    return m.log(self / (1 - self))


@logit.onnx
def _(g: OnnxWriter, self: Value, eps: float | None) -> Value:
    if eps is not None:
        self = g.op("Min", g.op("Max", self, g.constant(eps, like=self)), g.constant(1 - eps, like=self))
    return g.op("Log", g.op("Div", self, g.op("Sub", g.constant(1, like=self), self)))


@logit.samples
def _() -> Iterator[Sample]:
    yield sample(make(3, 4, low=0.1, high=0.9))
    yield sample(make(low=0.1, high=0.9), note="0-d")
    yield sample(make(3, 4, low=-0.5, high=1.5), 0.1, note="clamped")
    yield sample(np.array([0.0, 1.0, -1.0, 2.0, np.nan], np.float32), note="special", grad=False)


# -- trigonometric and hyperbolic functions ----------------------------------------------------------------------


@pointwise("aten::sin(Tensor self) -> Tensor", cost=25, promote="float", inplace=True, onnx="Sin", samples=unary(-4, 4),
           into=lambda np, out, self: np.sin(self, out=out),
           grad=dict(self=lambda F, g, self: g * F.cos(self)))  # fmt: skip
def sin(m: Math, self: Elements) -> Elements:
    """The sine of self, in radians."""
    return m.sin(self)


@pointwise("aten::cos(Tensor self) -> Tensor", cost=25, promote="float", inplace=True, onnx="Cos", samples=unary(-4, 4),
           into=lambda np, out, self: np.cos(self, out=out),
           grad=dict(self=lambda F, g, self: g * -F.sin(self)))  # fmt: skip
def cos(m: Math, self: Elements) -> Elements:
    """The cosine of self, in radians."""
    return m.cos(self)


@Precision(cuda="float32")
@pointwise("aten::tan(Tensor self) -> Tensor", cost=100, promote="float", inplace=True, onnx="Tan",
           samples=unary(-1, 1, double=False),
           grad=dict(self=lambda F, g, out: g * (1 + out * out)))  # fmt: skip
def tan(m: Math, self: Elements) -> Elements:
    """The tangent of self, in radians."""
    return m.tan(self)


@Precision(cuda="float32")
@pointwise("aten::asin(Tensor self) -> Tensor", promote="float", inplace=True, aliases=("arcsin",), onnx="Asin",
           cost=100, samples=unary(-0.9, 0.9, double=False),
           grad=dict(self=lambda F, g, self: g * F.rsqrt(1 - self * self)))  # fmt: skip
def asin(m: Math, self: Elements) -> Elements:
    """The angle whose sine is self, in radians."""
    return m.arcsin(self)


@Precision(cuda="float32")
@pointwise("aten::acos(Tensor self) -> Tensor", promote="float", inplace=True, aliases=("arccos",), onnx="Acos",
           cost=100, samples=unary(-0.9, 0.9, double=False),
           grad=dict(self=lambda F, g, self: g * -F.rsqrt(1 - self * self)))  # fmt: skip
def acos(m: Math, self: Elements) -> Elements:
    """The angle whose cosine is self, in radians."""
    return m.arccos(self)


@pointwise("aten::atan(Tensor self) -> Tensor", promote="float", inplace=True, aliases=("arctan",), onnx="Atan",
           cost=100, samples=unary(-3, 3, double=False),
           grad=dict(self=lambda F, g, self: g / (self * self + 1)))  # fmt: skip
def atan(m: Math, self: Elements) -> Elements:
    """The angle whose tangent is self, in radians."""
    return m.arctan(self)


@Precision(cuda="widest")
@ordered_only
@pointwise("aten::atan2(Tensor self, Tensor other) -> Tensor", promote="float", inplace=True, aliases=("arctan2",),
           cost=100,
           grad=dict(self=lambda F, g, self, other: g * (other / (self * self + other * other)),
                     other=lambda F, g, self, other: g * (-self / (self * self + other * other))))  # fmt: skip
def atan2(m: Math, self: Elements, other: Elements) -> Elements:
    """The angle of the point (other, self) in the plane, from -pi to pi."""
    return m.arctan2(self, other)


@atan2.onnx
def _(g: OnnxWriter, self: Value, other: Value) -> Value:
    """atan(y / x), half a turn further where x is negative (-0 included); infinities of both count as 1s."""
    zero, turn, infinity = (g.constant(number, like=self) for number in (0, math.pi, math.inf))
    endless = g.op("And", *(g.op("Equal", g.op("Abs", each), infinity) for each in (self, other)))
    y, x = (g.op("Where", endless, g.op("Sign", each), each) for each in (self, other))
    origin = g.op("And", g.op("Equal", y, zero), g.op("Equal", x, zero))
    angle = g.op("Where", origin, y, g.op("Atan", g.op("Div", y, x)))
    half_turn = g.op("Where", onnx_is_negative(g, y), g.op("Neg", turn), turn)
    return g.op("Where", onnx_is_negative(g, x), g.op("Add", angle, half_turn), angle)


def onnx_is_negative(g: OnnxWriter, x: Value) -> Value:
    """Whether the sign is negative, that of -0 included, whose reciprocal is -inf."""
    zero = g.constant(0, like=x)
    return g.op("Or", g.op("Less", x, zero), g.op("Less", g.op("Reciprocal", x), zero))


@atan2.samples
def _() -> Iterator[Sample]:
    yield from _quotients()
    ends = np.array([0.0, -0.0, np.inf, -np.inf], np.float32)
    yield sample(ends[:, None], ends, note="corners", grad=False)


@Precision(cuda="float32")
@pointwise("aten::sinh(Tensor self) -> Tensor", cost=100, promote="float", inplace=True, onnx="Sinh",
           samples=unary(-3, 3, double=False),
           grad=dict(self=lambda F, g, self: g * F.cosh(self)))  # fmt: skip
def sinh(m: Math, self: Elements) -> Elements:
    """The hyperbolic sine of self."""
    return m.sinh(self)


@Precision(cuda="float32")
@pointwise("aten::cosh(Tensor self) -> Tensor", cost=100, promote="float", inplace=True, onnx="Cosh",
           samples=unary(-3, 3, double=False),
           grad=dict(self=lambda F, g, self: g * F.sinh(self)))  # fmt: skip
def cosh(m: Math, self: Elements) -> Elements:
    """The hyperbolic cosine of self."""
    return m.cosh(self)


@pointwise("aten::tanh(Tensor self) -> Tensor", promote="float", inplace=True, onnx="Tanh", samples=unary(-3, 3),
           into=lambda np, out, self: np.tanh(self, out=out),
           cost=25, grad=dict(self=lambda F, g, out: F.tanh_backward(g, out)))  # fmt: skip
def tanh(m: Math, self: Elements) -> Elements:
    """The hyperbolic tangent of self."""
    return m.tanh(self)


@pointwise("aten::asinh(Tensor self) -> Tensor", promote="float", inplace=True, aliases=("arcsinh",), onnx="Asinh",
           cost=100, samples=unary(-3, 3, double=False),
           grad=dict(self=lambda F, g, self: g * F.rsqrt(self * self + 1)))  # fmt: skip
def asinh(m: Math, self: Elements) -> Elements:
    """The inverse of sinh at self."""
    return m.arcsinh(self)


@pointwise("aten::acosh(Tensor self) -> Tensor", promote="float", inplace=True, aliases=("arccosh",), onnx="Acosh",
           cost=100, samples=unary(1.1, 4, double=False),
           grad=dict(self=lambda F, g, self: g * (F.rsqrt(self - 1) * F.rsqrt(self + 1))))  # fmt: skip
def acosh(m: Math, self: Elements) -> Elements:
    """The inverse of cosh at self."""
    return m.arccosh(self)


@pointwise("aten::atanh(Tensor self) -> Tensor", promote="float", inplace=True, aliases=("arctanh",), onnx="Atanh",
           cost=100, samples=unary(-0.9, 0.9, double=False),
           grad=dict(self=lambda F, g, self: g / (1 - self * self)))  # fmt: skip
def atanh(m: Math, self: Elements) -> Elements:
    """The inverse of tanh at self."""
    return m.arctanh(self)


@pointwise("aten::sigmoid(Tensor self) -> Tensor", promote="float", inplace=True, onnx="Sigmoid", samples=unary(-4, 4),
           cost=25, namespaces=("jit", "Tensor", "nn.functional"),
           grad=dict(self=lambda F, g, out: F.sigmoid_backward(g, out)))  # fmt: skip
def sigmoid(m: Math, self: Elements) -> Elements:
    """1 / (1 + exp(-self))."""
    return m.sigmoid(self)


@pointwise("aten::erf(Tensor self) -> Tensor", cost=30, promote="float", inplace=True, onnx="Erf",
           samples=unary(-3, 3, double=False), namespaces=("jit", "Tensor", "special"),
           grad=dict(self=lambda F, g, self: g * (F.exp(-(self * self)) * TWO_OVER_SQRT_PI)))  # fmt: skip
def erf(m: Math, self: Elements) -> Elements:
    """The error function of self."""
    return m.erf(self)


@pointwise("aten::erfc(Tensor self) -> Tensor", promote="float", inplace=True, samples=unary(-3, 3, double=False),
           cost=100, namespaces=("jit", "Tensor", "special"),
           onnx=lambda g, self: g.op("Sub", g.constant(1, like=self), g.op("Erf", self)),
           grad=dict(self=lambda F, g, self: g * (F.exp(-(self * self)) * -TWO_OVER_SQRT_PI)))  # fmt: skip
def erfc(m: Math, self: Elements) -> Elements:
    """1 - erf(self), accurate where it is small."""
    return m.erfc(self)


# -- rounding and signs ------------------------------------------------------------------------------------------


def _steps() -> Iterator[Sample]:
    yield from unary()()
    yield sample(np.array([-2.5, -1.5, -0.5, 0.5, 1.5, 2.5, 3.0], np.float32), note="halves", grad=False)
    yield sample(np.array([-128, 0, 127], np.int8), note="int8", grad=False)


@ordered_only
@pointwise("aten::floor(Tensor self) -> Tensor", inplace=True, onnx=onnx_if_fractional("Floor"), samples=_steps,
           grad=dict(self=lambda F, g: flat(F, g)))  # fmt: skip
def floor(m: Math, self: Elements) -> Elements:
    """self rounded down to whole numbers."""
    return m.floor(self)


@ordered_only
@pointwise("aten::ceil(Tensor self) -> Tensor", inplace=True, onnx=onnx_if_fractional("Ceil"), samples=_steps,
           grad=dict(self=lambda F, g: flat(F, g)))  # fmt: skip
def ceil(m: Math, self: Elements) -> Elements:
    """self rounded up to whole numbers."""
    return m.ceil(self)


@ordered_only
@pointwise("aten::trunc(Tensor self) -> Tensor", inplace=True, aliases=("fix",), samples=_steps,
           onnx=lambda g, self: g.op("Identity", self) if self.dtype.is_integral else onnx_trunc(g, self),
           grad=dict(self=lambda F, g: flat(F, g)))  # fmt: skip
def trunc(m: Math, self: Elements) -> Elements:
    """self rounded toward zero to whole numbers."""
    return m.trunc(self)


@ordered_only
@pointwise("aten::round(Tensor self, *, int decimals=0) -> Tensor", inplace=True,
           namespaces=("jit", "Tensor", "special"),
           grad=dict(self=lambda F, g: flat(F, g)))  # fmt: skip
def round(m: Math, self: Elements, decimals: int) -> Elements:
    """self rounded to `decimals` places; halves go to the even neighbour."""
    if decimals == 0:
        return m.round(self)
    scale = 10.0 ** abs_int(decimals)
    return m.round(self * scale) / scale if decimals > 0 else m.round(self / scale) * scale


def abs_int(number: int) -> int:
    """|number|, for a module in which `abs` is an operator."""
    return number if number >= 0 else -number


@round.onnx
def _(g: OnnxWriter, self: Value, decimals: int) -> Value:
    if self.dtype.is_integral:
        return g.op("Identity", self)
    scale = g.constant(10.0 ** abs_int(decimals), like=self)
    before, after = ("Mul", "Div") if decimals > 0 else ("Div", "Mul")
    return g.op("Round", self) if decimals == 0 else g.op(after, g.op("Round", g.op(before, self, scale)), scale)


@round.samples
def _() -> Iterator[Sample]:
    yield from _steps()
    yield sample(make(5), decimals=1, note="decimals", grad=False)
    yield sample(make(5, low=-999, high=999), decimals=-2, note="decimals", grad=False)


@ordered_only
@Refusal(is_integral, "integers have no fractional part; cast with x.float()")
@pointwise("aten::frac(Tensor self) -> Tensor", inplace=True, samples=unary(integers=False),
           onnx=lambda g, self: g.op("Sub", self, onnx_trunc(g, self)), grad=dict(self=lambda F, g: g))  # fmt: skip
def frac(m: Math, self: Elements) -> Elements:
    """The part of self that trunc cuts off, with the sign of self."""
    return self - m.trunc(self)


@pointwise("aten::abs(Tensor self) -> Tensor", result=dtypes.real_of, inplace=True, aliases=("absolute",), onnx="Abs",
           holomorphic=False, samples=_steps, grad=dict(self=lambda F, g, self: g * F.sgn(self)))  # fmt: skip
def abs(m: Math, self: Elements) -> Elements:
    """The absolute value of self; the distance from 0 of complex numbers."""
    return m.abs(self)


def _signs() -> Iterator[Sample]:
    yield from _steps()
    yield sample(np.array([np.nan, np.inf, -np.inf, 0.0, -0.0], np.float32), note="special values", grad=False)


@ordered_only
@pointwise("aten::sign(Tensor self) -> Tensor", inplace=True, onnx=lambda g, self: onnx_sign(g, self), samples=_signs,
           grad=dict(self=lambda F, g: flat(F, g)))  # fmt: skip
def sign(m: Math, self: Elements) -> Elements:
    """The sign of self: -1, 0 or 1, and 0 of NaN."""
    return m.sign(self)


def onnx_sign(g: OnnxWriter, self: Value) -> Value:
    """The sign of self, 0 of NaN, which ONNX's Sign hands on."""
    signs = g.op("Sign", self)
    if not self.dtype.is_floating_point:
        return signs
    return g.op("Where", g.op("IsNaN", self), g.constant(0, like=self), signs)


@ordered_only
@pointwise("aten::heaviside(Tensor self, Tensor values) -> Tensor", inplace=True, grad=STEPS)
def heaviside(m: Math, self: Elements, values: Elements) -> Elements:
    """0 where self is below 0, 1 where it is above, `values` where it is 0."""
    return m.where(self > 0, 1, m.where(self == 0, values, 0))


@heaviside.onnx
def _(g: OnnxWriter, self: Value, values: Value) -> Value:
    zero, one = g.constant(0, like=self), g.constant(1, like=self)
    step = g.op("Where", g.op("Greater", self, zero), one, zero)
    return g.op("Where", g.op("Equal", self, zero), values, step)


@heaviside.samples
def _() -> Iterator[Sample]:
    yield sample(np.array([-1.5, 0.0, 2.0, -0.0], np.float32), np.array([0.5], np.float32))
    yield sample(make(5, low=-1, high=1, dtype="int64"), np.array(7), note="integer")


# -- bounds ------------------------------------------------------------------------------------------------------


def larger_share(F: Ops, g: Tensor, mine: Tensor, other: Tensor) -> Tensor:
    """The gradient of `maximum` by `mine`: all of g where it is larger, half of it at a tie."""
    return F.where(F.eq(mine, other), g / 2, F.where(F.lt(mine, other), 0, g))


def _pairs() -> Iterator[Sample]:
    yield from binary()()
    yield sample(np.array([1.0, 2.0, 3.0], np.float32), np.array([1.0, 3.0, 2.0], np.float32), note="ties", grad=False)
    yield sample(make(6, dtype="bool"), make(6, dtype="bool", seed=1), note="bool", grad=False)


@ordered_only
@pointwise("aten::maximum(Tensor self, Tensor other) -> Tensor", samples=_pairs,
           into=lambda np, out, self, other: np.maximum(self, other, out=out),
           onnx=lambda g, self, other: g.op("Or" if self.dtype is dtypes.bool_ else "Max", self, other),
           grad=dict(self=lambda F, g, self, other: larger_share(F, g, self, other),
                     other=lambda F, g, self, other: larger_share(F, g, other, self)))  # fmt: skip
def maximum(m: Math, self: Elements, other: Elements) -> Elements:
    """The larger of self and other; NaN if either is."""
    return m.maximum(self, other)


@ordered_only
@pointwise("aten::minimum(Tensor self, Tensor other) -> Tensor", samples=_pairs,
           into=lambda np, out, self, other: np.minimum(self, other, out=out),
           onnx=lambda g, self, other: g.op("And" if self.dtype is dtypes.bool_ else "Min", self, other),
           grad=dict(self=lambda F, g, self, other: larger_share(F, g, -self, -other),
                     other=lambda F, g, self, other: larger_share(F, g, -other, -self)))  # fmt: skip
def minimum(m: Math, self: Elements, other: Elements) -> Elements:
    """The smaller of self and other; NaN if either is."""
    return m.minimum(self, other)


def inside(F: Ops, self: Tensor, min: Any, max: Any) -> Tensor:
    """True where `clamp` hands on its input, the bounds included."""
    if min is None or max is None:
        return F.le(self, max) if min is None else F.ge(self, min)
    return F.logical_and(F.ge(self, min), F.le(self, max))


def below_min(F: Ops, self: Tensor, min: Any, max: Any) -> Tensor:
    """True where `clamp` gives `min`; never where the bounds cross."""
    below = F.lt(self, min)
    return below if max is None else F.logical_and(below, F.lt(min, max))


def above_max(F: Ops, self: Tensor, min: Any, max: Any) -> Tensor:
    """True where `clamp` gives `max`; it wins if the bounds cross."""
    above = F.gt(self, max)
    return above if min is None else F.logical_or(above, F.gt(min, max))


@ordered_only
@pointwise("aten::clamp(Tensor self, Tensor? min=None, Tensor? max=None) -> Tensor", inplace=True, aliases=("clip",),
           grad=dict(self=lambda F, g, self, min, max: F.where(inside(F, self, min, max), g, 0),
                     min=lambda F, g, self, min, max: F.where(below_min(F, self, min, max), g, 0),
                     max=lambda F, g, self, min, max: F.where(above_max(F, self, min, max), g, 0)))  # fmt: skip
def clamp(m: Math, self: Elements, min: Elements | None, max: Elements | None) -> Elements:
    """self, at least min and at most max: numbers, tensors or None; where they cross, max wins."""
    if min is None and max is None:
        raise UsageError("clamp needs min, max or both")
    raised = self if min is None else m.maximum(self, min)
    return raised if max is None else m.minimum(raised, max)


clamp.keeps_numbers = True


@clamp.onnx
def _(g: OnnxWriter, self: Value, min: Value | None, max: Value | None) -> Value:
    raised = self if min is None else g.op("Max", self, min)
    return raised if max is None else g.op("Min", raised, max)


@clamp.samples
def _() -> Iterator[Sample]:
    yield sample(make(3, 4), -0.5, 0.5)
    yield sample(make(3, 4), -0.5, note="min")
    yield sample(make(3, 4), max=0.5, note="max")
    yield sample(make(3, 4), make(4, low=-1, high=0, seed=1), make(3, 1, low=0, high=1, seed=2), note="broadcast")
    yield sample(make(3, 4), 0.5, -0.5, note="crossed")
    yield sample(make(), 0, 1, note="0-d")
    yield sample(make(0, 3), 0, 1, note="empty")
    yield sample(np.array([-1.0, 0.0, 1.0], np.float32), 0.0, 1.0, note="at the bounds", grad=False)
    yield sample(SPECIAL.copy(), -1.0, 1.0, note="special", grad=False)
    yield sample(whole(5), -3, 4, note="integer", grad=False)
    yield sample(whole(5), -2.5, note="integer and fraction", grad=False)
    yield sample(make(5, dtype="float16"), -0.3, 0.3, note="half", grad=False)


@ordered_only
@pointwise("aten::clamp_min(Tensor self, Tensor min) -> Tensor", inplace=True, onnx="Max", samples=binary(),
           grad=dict(self=lambda F, g, self, min: F.where(F.ge(self, min), g, 0),
                     min=lambda F, g, self, min: F.where(F.lt(self, min), g, 0)))  # fmt: skip
def clamp_min(m: Math, self: Elements, min: Elements) -> Elements:
    """self, but at least min."""
    return m.maximum(self, min)


clamp_min.keeps_numbers = True


@ordered_only
@pointwise("aten::clamp_max(Tensor self, Tensor max) -> Tensor", inplace=True, onnx="Min", samples=binary(),
           grad=dict(self=lambda F, g, self, max: F.where(F.le(self, max), g, 0),
                     max=lambda F, g, self, max: F.where(F.gt(self, max), g, 0)))  # fmt: skip
def clamp_max(m: Math, self: Elements, max: Elements) -> Elements:
    """self, but at most max."""
    return m.minimum(self, max)


clamp_max.keeps_numbers = True


@composite(
    "aten::nan_to_num(Tensor self, float? nan=None, float? posinf=None, float? neginf=None) -> Tensor", inplace=True
)
def nan_to_num(F: Ops, self: Tensor, nan: float | None, posinf: float | None, neginf: float | None) -> Tensor:
    """self with NaN and infinities replaced, by default by 0 and the largest numbers of the dtype."""
    if self.dtype.is_integral:
        return F.clone(self)
    largest = largest_of(self.dtype)
    known = F.where(F.isnan(self), 0.0 if nan is None else nan, self)
    bounded = F.where(F.eq(known, math.inf), largest if posinf is None else posinf, known)
    return F.where(F.eq(bounded, -math.inf), -largest if neginf is None else neginf, bounded)


def largest_of(dtype: DType) -> float:
    """The largest finite number of a floating dtype."""
    import ml_dtypes

    return float(ml_dtypes.finfo(dtype.numpy).max)  # type: ignore[no-untyped-call]


@nan_to_num.samples
def _() -> Iterator[Sample]:
    yield sample(make(3, 4))
    yield sample(np.array([math.nan, 1.0, -2.0], np.float32), note="nan", grad=False)
    yield sample(SPECIAL.copy(), 1.0, 2.0, -2.0, note="given", grad=False)
    yield sample(np.array([np.nan, np.inf], np.float16), posinf=0.1, note="half", grad=False)
    yield sample(whole(3), note="integer", grad=False)
