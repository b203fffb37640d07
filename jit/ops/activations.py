"""Activation functions of neural networks, softmax among them."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from jit.ir import dtypes
from jit.ir.dtypes import DType
from jit.ir.errors import DTypeError, ShapeError, UsageError
from jit.ir.geometry import wrap_dim
from jit.ir.kernel import Kernel
from jit.ir.op import array, composite, pointwise
from jit.ir.precision import LOWER, Precision
from jit.ir.rows import OnArrays
from jit.ir.samples import Sample, make, sample, strided, unary
from jit.ir.types import TensorType

from .backwards import SQRT_HALF, TANH_CUBE, TANH_SCALE, is_tanh
from .common import (
    accumulation,
    floats_only,
    largest,
    no_bool,
    no_integers,
    onnx_expm1,
    onnx_scaled,
    onnx_softplus,
    ordered_only,
)

if TYPE_CHECKING:
    from .protocols import Array, Elements, KnownType, Math, Number, Numpy, OnnxWriter, Ops, Tensor, Term, Terms, Value

FUNCTIONAL = ("nn.functional",)
EVERYWHERE = ("jit", "Tensor", "nn.functional")

SELU_ALPHA, SELU_SCALE = 1.6732632423543772848170429916717, 1.0507009873554804934193349852946

_plain = unary(integers=False)


def _with(*options: Any) -> Any:
    """Samples of an activation, plain and with these arguments."""

    def samples() -> Iterator[Sample]:
        yield from _plain()
        yield sample(make(3, 4), *options, note="arguments")

    return samples


def has_exact_attributes(x: Value) -> bool:
    """Whether ONNX's float32 attributes are exact enough for x; onnxruntime lacks the float64 kernels, too."""
    return x.dtype is not dtypes.float64


# -- piecewise linear --------------------------------------------------------------------------------------------


@ordered_only
@pointwise("aten::relu(Tensor self) -> Tensor", inplace=True, samples=unary(), namespaces=EVERYWHERE,
           into=lambda np, out, self: np.maximum(self, 0, out=out), kernel=Kernel(is_epilogue=True),
           grad=dict(self=lambda F, g, out: F.threshold_backward(g, out, 0)))  # fmt: skip
def relu(m: Math, self: Elements) -> Elements:
    """max(self, 0)."""
    return m.maximum(self, 0)


@relu.onnx
def _(g: OnnxWriter, self: Value) -> Value:
    return g.op("Max", self, g.constant(0, like=self)) if self.dtype.is_integral else g.op("Relu", self)


@composite("aten::relu6(Tensor self) -> Tensor", inplace=True, samples=unary(), namespaces=FUNCTIONAL)
def relu6(F: Ops, self: Tensor) -> Tensor:
    """self, at least 0 and at most 6."""
    return F.hardtanh(self, 0, 6)


@floats_only
@pointwise("aten::leaky_relu(Tensor self, Scalar negative_slope=0.01) -> Tensor", inplace=True, samples=_with(0.2),
           namespaces=FUNCTIONAL,
           grad=dict(self=lambda F, g, self, negative_slope:
                          F.leaky_relu_backward(g, self, negative_slope, False)))  # fmt: skip
def leaky_relu(m: Math, self: Elements, negative_slope: Number) -> Elements:
    """self where above 0, negative_slope * self elsewhere."""
    return m.where(self > 0, self, self * negative_slope)


@leaky_relu.onnx
def _(g: OnnxWriter, self: Value, negative_slope: Number) -> Value:
    if has_exact_attributes(self):
        return g.op("LeakyRelu", self, alpha=float(negative_slope))
    falling = g.op("Mul", self, g.constant(negative_slope, like=self))
    return g.op("Where", g.op("Greater", self, g.constant(0, like=self)), self, falling)


@ordered_only
@no_bool
@pointwise("aten::hardtanh(Tensor self, Scalar min_val=-1, Scalar max_val=1) -> Tensor", inplace=True,
           samples=_with(-0.5, 1.5), namespaces=FUNCTIONAL,
           grad=dict(self=lambda F, g, self, min_val, max_val:
                          F.hardtanh_backward(g, self, min_val, max_val)))  # fmt: skip
def hardtanh(m: Math, self: Elements, min_val: Number, max_val: Number) -> Elements:
    """self, at least min_val and at most max_val."""
    if min_val > max_val:
        raise UsageError(f"hardtanh: min_val {min_val} is above max_val {max_val}")
    return m.minimum(m.maximum(self, min_val), max_val)


@hardtanh.onnx
def _(g: OnnxWriter, self: Value, min_val: Number, max_val: Number) -> Value:
    return g.op("Clip", self, g.constant(min_val, like=self), g.constant(max_val, like=self))


@floats_only
@pointwise("aten::hardsigmoid(Tensor self) -> Tensor", inplace=True, samples=unary(-4, 4, integers=False),
           namespaces=FUNCTIONAL,
           onnx=lambda g, self: onnx_hardsigmoid(g, self),
           grad=dict(self=lambda F, g, self:
                          F.where(F.logical_and(F.gt(self, -3), F.lt(self, 3)), g / 6, 0)))  # fmt: skip
def hardsigmoid(m: Math, self: Elements) -> Elements:
    """self / 6 + 1 / 2, at least 0 and at most 1."""
    return m.minimum(m.maximum(self + 3, 0), 6) / 6


@floats_only
@pointwise("aten::hardswish(Tensor self) -> Tensor", inplace=True, samples=unary(-4, 4, integers=False),
           namespaces=FUNCTIONAL,
           grad=dict(self=lambda F, g, self:
                          F.where(F.le(self, -3), 0, F.where(F.lt(self, 3), g * (self / 3 + 0.5), g))))  # fmt: skip
def hardswish(m: Math, self: Elements) -> Elements:
    """self * hardsigmoid(self)."""
    return self * (m.minimum(m.maximum(self + 3, 0), 6) / 6)


@hardswish.onnx
def _(g: OnnxWriter, self: Value) -> Value:
    if g.opset >= 14 and has_exact_attributes(self):
        return g.op("HardSwish", self)
    return g.op("Mul", self, onnx_hardsigmoid(g, self))


def onnx_hardsigmoid(g: OnnxWriter, x: Value) -> Value:
    """x / 6 + 0.5, at least 0 and at most 1."""
    if has_exact_attributes(x):
        return g.op("HardSigmoid", x, alpha=1 / 6, beta=0.5)
    zero, three, six = (g.constant(number, like=x) for number in (0, 3, 6))
    return g.op("Div", g.op("Min", g.op("Max", g.op("Add", x, three), zero), six), six)


@ordered_only
@pointwise("aten::threshold(Tensor self, Scalar threshold, Scalar value) -> Tensor", inplace=True,
           namespaces=("jit", "nn.functional"),
           grad=dict(self=lambda F, g, self, threshold: F.threshold_backward(g, self, threshold)))  # fmt: skip
def threshold(m: Math, self: Elements, threshold: Number, value: Number) -> Elements:
    """self where above `threshold`, `value` elsewhere."""
    return m.where(self <= threshold, value, self)


threshold.keeps_numbers = True


@threshold.onnx
def _(g: OnnxWriter, self: Value, threshold: Number, value: Number) -> Value:
    low = g.op("LessOrEqual", self, g.constant(threshold, like=self))
    return g.op("Where", low, g.constant(value, like=self), self)


@threshold.samples
def _() -> Iterator[Sample]:
    for each in unary()():
        yield sample(*each.args, 0.5, 20, note=each.note, grad=each.grad, onnx=each.onnx and each.note != "integer")


@floats_only
@pointwise("aten::hardshrink(Tensor self, Scalar lambd=0.5) -> Tensor", samples=_with(1.0), namespaces=EVERYWHERE,
           grad=dict(self=lambda F, g, self, lambd: F.where(within(F, self, lambd), 0, g)))  # fmt: skip
def hardshrink(m: Math, self: Elements, lambd: Number) -> Elements:
    """self, but 0 where |self| <= lambd."""
    return m.where((self >= -lambd) & (self <= lambd), 0, self)


@floats_only
@pointwise("aten::softshrink(Tensor self, Scalar lambd=0.5) -> Tensor", samples=_with(1.0), namespaces=FUNCTIONAL,
           grad=dict(self=lambda F, g, self, lambd: F.where(within(F, self, lambd), 0, g)))  # fmt: skip
def softshrink(m: Math, self: Elements, lambd: Number) -> Elements:
    """self moved toward 0 by lambd, no further than 0."""
    if lambd < 0:
        raise UsageError(f"softshrink: lambd must not be negative, got {lambd}")
    return m.where(self > lambd, self - lambd, m.where(self < -lambd, self + lambd, self * 0))


def within(F: Ops, self: Tensor, lambd: Number) -> Tensor:
    """True where |self| <= lambd."""
    return F.logical_and(F.ge(self, -lambd), F.le(self, lambd))


@hardshrink.onnx
def _(g: OnnxWriter, self: Value, lambd: Number) -> Value:
    small = g.op("LessOrEqual", g.op("Abs", self), g.constant(lambd, like=self))
    return g.op("Where", small, g.constant(0, like=self), self)


@softshrink.onnx
def _(g: OnnxWriter, self: Value, lambd: Number) -> Value:
    """x less x clamped to [-lambd, lambd]."""
    bound = g.constant(lambd, like=self)
    return g.op("Sub", self, g.op("Min", g.op("Max", self, g.op("Neg", bound)), bound))


@floats_only
@pointwise("aten::_prelu_kernel(Tensor self, Tensor weight) -> Tensor", namespaces=(),
           onnx=lambda g, self, weight: g.op("PRelu", self, weight),
           grad=dict(self=lambda F, g, self, weight: F.where(F.gt(self, 0), g, g * weight),
                     weight=lambda F, g, self: F.where(F.gt(self, 0), 0, g * self)))  # fmt: skip
def _prelu_kernel(m: Math, self: Elements, weight: Elements) -> Elements:
    """self where above 0, weight * self elsewhere."""
    return m.where(self > 0, self, self * weight)


@_prelu_kernel.samples
def _() -> Iterator[Sample]:
    yield sample(make(3, 4), make(1, 4, seed=1))
    yield sample(make(0, 3), make(1, 3, seed=1), note="empty")


@LOWER
@composite("aten::prelu(Tensor self, Tensor weight) -> Tensor", namespaces=EVERYWHERE)
def prelu(F: Ops, self: Tensor, weight: Tensor) -> Tensor:
    """self where above 0, weight * self elsewhere: one weight for all, or one for each entry of dim 1."""
    channels = weight.shape[0] if weight.ndim else 1
    if channels != 1 and (self.ndim < 2 or self.shape[1] != channels):
        raise ShapeError(
            f"prelu: the weight has {channels} entries, but the input's sizes are {list(self.shape)}: dim 1 must agree"
        )
    if self.ndim > 1:
        weight = F.reshape(weight, (1, channels, *(1,) * (self.ndim - 2)))
    return F._prelu_kernel(self, F.reshape(weight, ()) if self.ndim == 0 else weight)


@prelu.samples
def _() -> Iterator[Sample]:
    yield sample(make(2, 3, 4), make(3, seed=1))
    yield sample(make(2, 3), make(1, seed=1), note="one weight")
    yield sample(make(4), make(1, seed=1), note="1-d")
    yield sample(make(), make(1, seed=1), note="0-d")


# -- exponential -------------------------------------------------------------------------------------------------


@floats_only
@pointwise("aten::elu(Tensor self, Scalar alpha=1, Scalar scale=1, Scalar input_scale=1) -> Tensor", inplace=True,
           cost=25, samples=_with(0.5, 1.5, 0.7), namespaces=FUNCTIONAL,
           grad=dict(self=lambda F, g, self, alpha, scale, input_scale:
                          F.elu_backward(g, alpha, scale, input_scale, False, self)))  # fmt: skip
def elu(m: Math, self: Elements, alpha: Number, scale: Number, input_scale: Number) -> Elements:
    """scale * self above 0, scale * alpha * (exp(input_scale * self) - 1) below."""
    return m.where(self > 0, self * scale, m.expm1(self * input_scale) * (alpha * scale))


elu.onnx(lambda g, self, alpha, scale, input_scale: onnx_elu(g, self, alpha, scale, input_scale))


def onnx_elu(g: OnnxWriter, self: Value, alpha: Number, scale: Number, input_scale: Number) -> Value:
    """ONNX's Elu, whose only attribute is alpha; the scales are multiplied before and behind it."""
    if scale == 1 and input_scale == 1 and has_exact_attributes(self):
        return g.op("Elu", self, alpha=float(alpha))
    inner = onnx_scaled(g, self, input_scale)
    falling = g.op("Elu", inner, alpha=1.0) if has_exact_attributes(self) else onnx_expm1(g, inner)
    falling = onnx_scaled(g, falling, alpha * scale)
    return g.op("Where", g.op("Greater", self, g.constant(0, like=self)), onnx_scaled(g, self, scale), falling)


@composite("aten::selu(Tensor self) -> Tensor", inplace=True, samples=_plain, namespaces=("jit", "nn.functional"),
           onnx=lambda g, self: onnx_selu(g, self))  # fmt: skip
def selu(F: Ops, self: Tensor) -> Tensor:
    """`elu` with the alpha and scale that keep mean 0 and variance 1 from layer to layer."""
    return F.elu(self, SELU_ALPHA, SELU_SCALE)


def onnx_selu(g: OnnxWriter, x: Value) -> Value:
    """ONNX's Selu with all digits of its constants."""
    if has_exact_attributes(x):
        return g.op("Selu", x, alpha=SELU_ALPHA, gamma=SELU_SCALE)
    return onnx_elu(g, x, SELU_ALPHA, SELU_SCALE, 1)


@composite(
    "aten::celu(Tensor self, Scalar alpha=1.0) -> Tensor",
    inplace=True,
    samples=_with(0.7),
    namespaces=("jit", "nn.functional"),
)
def celu(F: Ops, self: Tensor, alpha: Number) -> Tensor:
    """self above 0, alpha * (exp(self / alpha) - 1) below."""
    return F.elu(self, alpha, 1, 1 / alpha)


@no_integers
@pointwise("aten::silu(Tensor self) -> Tensor", cost=25, inplace=True, samples=_plain, namespaces=FUNCTIONAL,
           onnx=lambda g, self: g.op("Mul", self, g.op("Sigmoid", self)))  # fmt: skip
def silu(m: Math, self: Elements) -> Elements:
    """self * sigmoid(self)."""
    return self * m.sigmoid(self)


@silu.grad
def _(F: Ops, g: Tensor, needs: Sequence[bool], self: Tensor) -> Sequence[Tensor | None]:
    s = F.sigmoid(self)
    return (g * (s * (1 + self * (1 - s))),)


@floats_only
@pointwise("aten::mish(Tensor self) -> Tensor", cost=60, inplace=True, samples=_plain, namespaces=FUNCTIONAL)
def mish(m: Math, self: Elements) -> Elements:
    """self * tanh(softplus(self))."""
    return self * m.tanh(m.maximum(self, 0) + m.log1p(m.exp(-m.abs(self))))


@mish.grad
def _(F: Ops, g: Tensor, needs: Sequence[bool], self: Tensor) -> Sequence[Tensor | None]:
    t = F.tanh(F.softplus(self))
    return (g * (t + self * (1 - t * t) * F.sigmoid(self)),)


@mish.onnx
def _(g: OnnxWriter, self: Value) -> Value:
    if g.opset >= 18 and self.dtype is not dtypes.float64:
        return g.op("Mish", self)
    return g.op("Mul", self, g.op("Tanh", onnx_softplus(g, self)))


@Precision(cuda="float32")
@floats_only
@pointwise("aten::softplus(Tensor self, Scalar beta=1, Scalar threshold=20) -> Tensor", samples=_with(2.0, 3.0),
           cost=40, namespaces=FUNCTIONAL,
           grad=dict(self=lambda F, g, self, beta, threshold:
                          F.softplus_backward(g, self, beta, threshold)))  # fmt: skip
def softplus(m: Math, self: Elements, beta: Number, threshold: Number) -> Elements:
    """log(1 + exp(beta * self)) / beta, a smooth relu; self itself where beta * self > threshold."""
    scaled = self * beta
    return m.where(scaled > threshold, self, m.log1p(m.exp(scaled)) / beta)


@softplus.onnx
def _(g: OnnxWriter, self: Value, beta: Number, threshold: Number) -> Value:
    scaled = self if beta == 1 else g.op("Mul", self, g.constant(beta, like=self))
    soft = onnx_softplus(g, scaled)
    soft = soft if beta == 1 else g.op("Div", soft, g.constant(beta, like=self))
    return g.op("Where", g.op("Greater", scaled, g.constant(threshold, like=self)), self, soft)


@Precision(cuda="given")
@composite("aten::log_sigmoid(Tensor self) -> Tensor", samples=_plain, namespaces=FUNCTIONAL, aliases=("logsigmoid",))
def log_sigmoid(F: Ops, self: Tensor) -> Tensor:
    """log(sigmoid(self))."""
    return -F.softplus(-self)


@composite("aten::softsign(Tensor self) -> Tensor", samples=_plain, namespaces=FUNCTIONAL,
           onnx=lambda g, self: g.op("Softsign", self))  # fmt: skip
def softsign(F: Ops, self: Tensor) -> Tensor:
    """self / (1 + |self|)."""
    return self / (F.abs(self) + 1)


@composite("aten::tanhshrink(Tensor self) -> Tensor", namespaces=FUNCTIONAL)
def tanhshrink(F: Ops, self: Tensor) -> Tensor:
    """self - tanh(self)."""
    return self - F.tanh(self)


@tanhshrink.samples
def _() -> Iterator[Sample]:
    yield from (each for each in _plain() if each.note not in ("half", "bfloat16"))  # digits cancel, as they must
    yield sample(make(7, low=3, high=9, dtype="float16"), note="half", grad=False)


# -- gaussian ----------------------------------------------------------------------------------------------------


@floats_only
@pointwise('aten::gelu(Tensor self, *, str approximate="none") -> Tensor', cost=35, inplace=True, namespaces=FUNCTIONAL,
           grad=dict(self=lambda F, g, self, approximate:
                          F.gelu_backward(g, self, approximate=approximate)))  # fmt: skip
def gelu(m: Math, self: Elements, approximate: str) -> Elements:
    """self times the distribution function of the normal distribution, or its approximation by tanh."""
    if is_tanh(approximate):
        return self * 0.5 * (1 + m.tanh((self + self * self * self * TANH_CUBE) * TANH_SCALE))
    return self * 0.5 * (1 + m.erf(self * SQRT_HALF))


@gelu.onnx
def _(g: OnnxWriter, self: Value, approximate: str) -> Value:
    if g.opset >= 20:
        return g.op("Gelu", self, approximate=approximate)
    if approximate == "none":
        bell = g.op("Erf", g.op("Mul", self, g.constant(SQRT_HALF, like=self)))
    else:
        cube = g.op("Mul", g.op("Mul", self, self), g.op("Mul", self, g.constant(TANH_CUBE, like=self)))
        bell = g.op("Tanh", g.op("Mul", g.op("Add", self, cube), g.constant(TANH_SCALE, like=self)))
    half = g.op("Mul", self, g.constant(0.5, like=self))
    return g.op("Mul", half, g.op("Add", bell, g.constant(1, like=self)))


@gelu.samples
def _() -> Iterator[Sample]:
    yield from unary(integers=False, double=False)()
    yield sample(make(3, 4), approximate="tanh", note="tanh")
    yield sample(make(), approximate="tanh", note="0-d")


@composite("aten::glu(Tensor self, int dim=-1) -> Tensor", namespaces=FUNCTIONAL)
def glu(F: Ops, self: Tensor, dim: int) -> Tensor:
    """The first half of self along dim, times the sigmoid of the second."""
    at = wrap_dim(dim, self.ndim)
    if self.ndim == 0 or self.shape[at] % 2:
        raise ShapeError(f"glu: dim {dim} of {list(self.shape)} cannot be halved")
    half = self.shape[at] // 2
    return F.narrow(self, dim, 0, half) * F.sigmoid(F.narrow(self, dim, half, half))


@glu.samples
def _() -> Iterator[Sample]:
    yield sample(make(3, 4))
    yield sample(make(4, 3), 0)
    yield sample(make(0, 4), note="empty")


# -- softmax -----------------------------------------------------------------------------------------------------


def softmax_dtype(self: DType, dtype: DType | None) -> DType:
    """The dtype of the computation: `dtype`, else the input's, which must then be floating."""
    result = dtype or self
    if result.is_integral:
        raise DTypeError(f"softmax needs a floating dtype, got {result.name}; cast first, or say dtype=jit.float32")
    return result


def _softmax_type(self: KnownType, dim: int, dtype: DType | None) -> TensorType:
    assert self.dtype is not None and self.sizes is not None
    wrap_dim(dim, len(self.sizes))
    return TensorType(softmax_dtype(self.dtype, dtype), self.sizes, None, self.device)


def _prepared(m: Numpy, self: Array, dim: int, dtype: DType | None) -> tuple[OnArrays, Array, Array, Any]:
    """(rows along `dim`, self in what is computed in, its maximum, the result's dtype); 0-d counts as length 1."""
    result = softmax_dtype(dtypes.from_numpy(self.dtype), dtype)
    axis = wrap_dim(dim, self.ndim)
    wide = self.astype(accumulation(result), copy=False).reshape(self.shape or 1)
    top = largest(m, wide, axis)
    return OnArrays(m, wide.shape, (axis,)), wide, top, result.numpy


def _powers(t: Terms, x: Term, top: Term) -> tuple[Any, Any, Any]:
    """(x less its maximum, exp of the difference, the sum of these powers)."""
    low = t.apply(lambda m, a, top: a - top, x, top)
    powers = t.apply(lambda m, a: m.exp(a), low, cost=20)
    return low, powers, t.reduce("sum", powers)


def _log_softmax(t: Terms, x: Term, top: Term) -> Any:
    low, _, total = _powers(t, x, top)
    return t.apply(lambda m, a, b: a - b, low, t.apply(lambda m, s: m.log(s), total))


def _softmax_samples() -> Iterator[Sample]:
    yield sample(make(3, 4), 1)
    yield sample(make(2, 3, 4), 0)
    yield sample(make(2, 3, 4), -2)
    yield sample(make(), 0, note="0-d")
    yield sample(make(0, 3), 1, note="empty")
    yield sample(make(3, 0), 1, note="empty", onnx=False)
    yield sample(strided(make(3, 5)), 0, note="strided")
    yield sample(make(3, low=500, high=1000), 0, note="would overflow")
    yield sample(np.array([[-np.inf, 0.0, 1.0], [-np.inf, -np.inf, -np.inf]], np.float32), 1, note="-inf", grad=False)
    yield sample(make(3, low=-3, high=3, dtype="int64"), 0, dtype=dtypes.float32, note="integer", grad=False)
    yield sample(make(9, dtype="float16"), 0, note="half", grad=False)
    yield sample(make(9, dtype="float16"), 0, dtype=dtypes.float32, note="half to float", grad=False)


SOFTMAX_NAMESPACES = ("jit", "Tensor", "nn.functional", "special")


def onnx_softmax(name: str) -> Any:
    """Softmax or LogSoftmax, whose axis must exist: a 0-d tensor is reshaped."""

    def symbolic(g: OnnxWriter, self: Value, dim: int, dtype: DType | None) -> Value:
        self = g.cast(self, g.out.dtype)
        if self.ndim:
            return g.op(name, self, axis=wrap_dim(dim, self.ndim))
        row = g.op(name, g.op("Reshape", self, g.ints([1])), axis=0)
        return g.op("Reshape", row, g.ints([]))

    return symbolic


@Precision(cuda="float32")
@array("aten::softmax(Tensor self, int dim, ScalarType? dtype=None) -> Tensor", namespaces=SOFTMAX_NAMESPACES,
       kernel=Kernel("norm"), type=_softmax_type, samples=_softmax_samples, onnx=onnx_softmax("Softmax"),
       grad=dict(self=lambda F, g, out, dim, self_meta:
                      F._softmax_backward_data(g, out, dim, self_meta.dtype)))  # fmt: skip
def softmax(m: Numpy, self: Array, dim: int, dtype: DType | None) -> Array:
    """exp(self) divided by its sum along dim."""
    t, x, top, result = _prepared(m, self, dim, dtype)
    _, powers, total = _powers(t, x, top)
    return (powers / total).astype(result, copy=False).reshape(self.shape)


@softmax.terms
def _(t: Terms, self: Term) -> Term:
    """A product with the inverse: a vector's division takes as long as ten products."""
    x = t.wide(self)
    _, powers, total = _powers(t, x, t.reduce("max", x))
    return t.apply(lambda m, e, total: e * (1 / total), powers, total)


def _safe_powers(t: Terms, x: Term, top: Term) -> tuple[Any, Any]:
    """(exp of x less its maximum, the sum of that): of a row that is -inf throughout, zeros and 1."""
    top = t.apply(lambda m, a: m.where(a == -m.inf, 0, a), top)
    powers = t.apply(lambda m, a, b: m.exp(a - b), x, top, cost=20)
    return powers, t.apply(lambda m, s: m.where(s == 0, 1, s), t.reduce("sum", powers))


@array("aten::_safe_softmax(Tensor self, int dim, ScalarType? dtype=None) -> Tensor", namespaces=("jit",),
       kernel=Kernel("norm"), type=_softmax_type, samples=_softmax_samples,
       grad=dict(self=lambda F, g, out, dim, self_meta:
                      F._softmax_backward_data(g, out, dim, self_meta.dtype)))  # fmt: skip
def _safe_softmax(m: Numpy, self: Array, dim: int, dtype: DType | None) -> Array:
    """`softmax`, but zeros rather than NaN where all elements along dim are -inf."""
    t, x, top, result = _prepared(m, self, dim, dtype)
    powers, total = _safe_powers(t, x, top)
    return (powers / total).astype(result, copy=False).reshape(self.shape)


@_safe_softmax.terms
def _(t: Terms, self: Term) -> Term:
    x = t.wide(self)
    powers, total = _safe_powers(t, x, t.reduce("max", x))
    return t.apply(lambda m, e, total: e * (1 / total), powers, total)


@_safe_softmax.onnx
def _(g: OnnxWriter, self: Value, dim: int, dtype: DType | None) -> Value:
    self = g.cast(self, g.out.dtype)
    shares = onnx_softmax("Softmax")(g, self, dim, None)
    top = g.reduce("ReduceMax", self, dim if self.ndim else None, True)
    unseen = g.op("Equal", top, g.constant(-np.inf, like=self))
    return g.op("Where", unseen, g.constant(0, like=self), shares)


@Precision(cuda="float32")
@array("aten::log_softmax(Tensor self, int dim, ScalarType? dtype=None) -> Tensor", namespaces=SOFTMAX_NAMESPACES,
       kernel=Kernel("norm"), type=_softmax_type, samples=_softmax_samples, onnx=onnx_softmax("LogSoftmax"),
       grad=dict(self=lambda F, g, out, dim, self_meta:
                      F._log_softmax_backward_data(g, out, dim, self_meta.dtype)))  # fmt: skip
def log_softmax(m: Numpy, self: Array, dim: int, dtype: DType | None) -> Array:
    """log(softmax(self)), without overflow."""
    t, x, top, result = _prepared(m, self, dim, dtype)
    return _log_softmax(t, x, top).astype(result, copy=False).reshape(self.shape)


@log_softmax.terms
def _(t: Terms, self: Term) -> Term:
    x = t.wide(self)
    return _log_softmax(t, x, t.reduce("max", x))


@composite(
    "aten::softmin(Tensor self, int dim, ScalarType? dtype=None) -> Tensor",
    namespaces=FUNCTIONAL,
    samples=_softmax_samples,
)
def softmin(F: Ops, self: Tensor, dim: int, dtype: DType | None) -> Tensor:
    """softmax(-self)."""
    return F.softmax(-self, dim, dtype)
