"""The derivatives of activations and of softmax as operators of their own: one pass over memory instead of several.

Each takes the gradient of the result first, and has derivatives itself, so that second and higher ones follow.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from jit.ir import dtypes
from jit.ir.dtypes import DType
from jit.ir.errors import ShapeError, UsageError
from jit.ir.geometry import wrap_dim
from jit.ir.kernel import Kernel
from jit.ir.op import array, composite, pointwise
from jit.ir.precision import Precision
from jit.ir.rows import OnArrays
from jit.ir.samples import Sample, make, sample, strided
from jit.ir.types import TensorType

from .common import floats_only, no_integers

if TYPE_CHECKING:
    from .protocols import Array, Elements, KnownType, Math, Number, Numpy, OnnxWriter, Ops, Tensor, Term, Terms, Value

SQRT_HALF = math.sqrt(0.5)
NORMAL_PEAK = 1 / math.sqrt(2 * math.pi)
TANH_SCALE, TANH_CUBE = math.sqrt(2 / math.pi), 0.044715


def _pairs(*options: Any, low: float = -2.0, high: float = 2.0) -> Any:
    """Samples of a gradient and the point at which the derivative is taken."""

    def samples() -> Iterator[Sample]:
        def at(*shape: int, dtype: Any = np.float32) -> Any:
            return make(*shape, low=low, high=high, dtype=dtype, seed=1)

        yield sample(make(3, 4), at(3, 4), *options)
        yield sample(make(), at(), *options, note="0-d")
        yield sample(make(0, 3), at(0, 3), *options, note="empty")
        yield sample(strided(make(3, 5)), at(3, 5), *options, note="strided")
        yield sample(make(7, dtype="float16"), at(7, dtype=np.float16), *options, note="half", grad=False)

    return samples


def flat(F: Ops, g: Tensor) -> Tensor:
    """Zeros: the gradient of a step function."""
    return F.zeros_like(g)


def _onnx_masked(g: OnnxWriter, keep: Value, kept: Value) -> Value:
    return g.op("Where", keep, kept, g.constant(0, like=kept))


# -- of the result -----------------------------------------------------------------------------------------------


@no_integers
@pointwise("aten::sigmoid_backward(Tensor grad_output, Tensor output) -> Tensor", namespaces=(),
           samples=_pairs(low=0, high=1),
           grad=dict(grad_output=lambda F, g, output: F.sigmoid_backward(g, output),
                     output=lambda F, g, grad_output, output: g * grad_output * (1 - output * 2)))  # fmt: skip
def sigmoid_backward(m: Math, grad_output: Elements, output: Elements) -> Elements:
    """grad_output * output * (1 - output)."""
    return grad_output * (output * (1 - output))


@sigmoid_backward.onnx
def _(g: OnnxWriter, grad_output: Value, output: Value) -> Value:
    slope = g.op("Mul", output, g.op("Sub", g.constant(1, like=output), output))
    return g.op("Mul", grad_output, slope)


@no_integers
@pointwise("aten::tanh_backward(Tensor grad_output, Tensor output) -> Tensor", namespaces=(),
           samples=_pairs(low=-1, high=1),
           grad=dict(grad_output=lambda F, g, output: F.tanh_backward(g, output),
                     output=lambda F, g, grad_output, output: g * grad_output * (output * -2)))  # fmt: skip
def tanh_backward(m: Math, grad_output: Elements, output: Elements) -> Elements:
    """grad_output * (1 - output ** 2)."""
    return grad_output * (1 - output * output)


@tanh_backward.onnx
def _(g: OnnxWriter, grad_output: Value, output: Value) -> Value:
    slope = g.op("Sub", g.constant(1, like=output), g.op("Mul", output, output))
    return g.op("Mul", grad_output, slope)


# -- piecewise linear --------------------------------------------------------------------------------------------


@pointwise("aten::threshold_backward(Tensor grad_output, Tensor self, Scalar threshold) -> Tensor", namespaces=(),
           samples=_pairs(0.5),
           grad=dict(grad_output=lambda F, g, self, threshold: F.threshold_backward(g, self, threshold),
                     self=lambda F, g: flat(F, g)))  # fmt: skip
def threshold_backward(m: Math, grad_output: Elements, self: Elements, threshold: Number) -> Elements:
    """grad_output where self is above threshold, 0 elsewhere."""
    return m.where(self <= threshold, 0, grad_output)


@threshold_backward.onnx
def _(g: OnnxWriter, grad_output: Value, self: Value, threshold: Number) -> Value:
    return _onnx_masked(g, g.op("Greater", self, g.constant(threshold, like=self)), grad_output)


@floats_only
@pointwise("aten::hardtanh_backward(Tensor grad_output, Tensor self, Scalar min_val, Scalar max_val) -> Tensor",
           namespaces=(), samples=_pairs(-0.5, 1.5),
           grad=dict(grad_output=lambda F, g, self, min_val, max_val: F.hardtanh_backward(g, self, min_val, max_val),
                     self=lambda F, g: flat(F, g)))  # fmt: skip
def hardtanh_backward(m: Math, grad_output: Elements, self: Elements, min_val: Number, max_val: Number) -> Elements:
    """grad_output where self lies strictly between the bounds, 0 elsewhere."""
    return m.where((self <= min_val) | (self >= max_val), 0, grad_output)


@hardtanh_backward.onnx
def _(g: OnnxWriter, grad_output: Value, self: Value, min_val: Number, max_val: Number) -> Value:
    above = g.op("Greater", self, g.constant(min_val, like=self))
    return _onnx_masked(g, g.op("And", above, g.op("Less", self, g.constant(max_val, like=self))), grad_output)


@floats_only
@pointwise("aten::leaky_relu_backward(Tensor grad_output, Tensor self, Scalar negative_slope, bool self_is_result)"
           " -> Tensor", namespaces=(), samples=_pairs(0.2, False),
           grad=dict(grad_output=lambda F, g, self, negative_slope, self_is_result:
                                 F.leaky_relu_backward(g, self, negative_slope, self_is_result),
                     self=lambda F, g: flat(F, g)))  # fmt: skip
def leaky_relu_backward(
    m: Math, grad_output: Elements, self: Elements, negative_slope: Number, self_is_result: bool
) -> Elements:
    """grad_output, times negative_slope where self is not above 0; instead of self, the result will do."""
    return m.where(self > 0, grad_output, grad_output * negative_slope)


@leaky_relu_backward.onnx
def _(g: OnnxWriter, grad_output: Value, self: Value, negative_slope: Number, self_is_result: bool) -> Value:
    falling = g.op("Mul", grad_output, g.constant(negative_slope, like=grad_output))
    return g.op("Where", g.op("Greater", self, g.constant(0, like=self)), grad_output, falling)


# -- exponential -------------------------------------------------------------------------------------------------


@floats_only
@pointwise("aten::elu_backward(Tensor grad_output, Scalar alpha, Scalar scale, Scalar input_scale, bool is_result, "
           "Tensor self_or_result) -> Tensor", cost=25, namespaces=(),
           grad=dict(grad_output=lambda F, g, alpha, scale, input_scale, is_result, self_or_result:
                                 F.elu_backward(g, alpha, scale, input_scale, is_result, self_or_result),
                     self_or_result=lambda F, g, grad_output, alpha, scale, input_scale, is_result, self_or_result:
                                    g * grad_output * elu_bend(F, alpha * scale * input_scale, input_scale, is_result,
                                                               self_or_result)))  # fmt: skip
def elu_backward(
    m: Math, grad_output: Elements, alpha: Number, scale: Number, input_scale: Number, is_result: bool,
    self_or_result: Elements,
) -> Elements:  # fmt: skip
    """grad_output times the slope of elu, computed from its input or, if is_result, from its result."""
    if is_result:
        falling = (self_or_result + alpha * scale) * input_scale
    else:
        falling = m.exp(m.minimum(self_or_result, 0) * input_scale) * (alpha * scale * input_scale)
    return grad_output * m.where(self_or_result > 0, scale, falling)


def elu_bend(F: Ops, factor: Number, input_scale: Number, is_result: bool, self_or_result: Tensor) -> Tensor:
    """The derivative of elu's slope, without the factor g; 0 above 0."""
    if is_result:
        bend: Any = input_scale
    else:
        bend = F.exp(F.clamp_max(self_or_result, 0) * input_scale) * (factor * input_scale)
    return F.where(F.gt(self_or_result, 0), 0, bend)


@elu_backward.onnx
def _(
    g: OnnxWriter, grad_output: Value, alpha: Number, scale: Number, input_scale: Number, is_result: bool,
    self_or_result: Value,
) -> Value:  # fmt: skip
    def number(value: Any) -> Any:
        return g.constant(value, like=self_or_result)

    if is_result:
        falling = g.op("Mul", g.op("Add", self_or_result, number(alpha * scale)), number(input_scale))
    else:
        power = g.op("Exp", g.op("Mul", g.op("Min", self_or_result, number(0)), number(input_scale)))
        falling = g.op("Mul", power, number(alpha * scale * input_scale))
    slope = g.op("Where", g.op("Greater", self_or_result, number(0)), number(scale), falling)
    return g.op("Mul", grad_output, slope)


@elu_backward.samples
def _() -> Iterator[Sample]:
    yield sample(make(3, 4), 0.5, 1.5, 0.7, False, make(3, 4, seed=1))
    yield sample(make(3, 4), 0.5, 1.5, 0.7, True, make(3, 4, low=-0.7, seed=1), note="of the result")
    yield sample(make(), 1, 1, 1, False, make(seed=1), note="0-d")
    yield sample(make(0, 3), 1, 1, 1, False, make(0, 3), note="empty")
    yield sample(make(4), 1, 1, 1, False, np.array([200.0, -200.0, 1.0, -1.0], np.float32), note="far out", grad=False)


@floats_only
@pointwise("aten::softplus_backward(Tensor grad_output, Tensor self, Scalar beta, Scalar threshold) -> Tensor", cost=30,
           namespaces=(), samples=_pairs(2.0, 3.0),
           grad=dict(grad_output=lambda F, g, self, beta, threshold: F.softplus_backward(g, self, beta, threshold),
                     self=lambda F, g, grad_output, self, beta, threshold:
                          softplus_bend(F, g * grad_output, self, beta, threshold)))  # fmt: skip
def softplus_backward(m: Math, grad_output: Elements, self: Elements, beta: Number, threshold: Number) -> Elements:
    """grad_output * sigmoid(beta * self); grad_output itself where beta * self is above the threshold."""
    scaled = self * beta
    return grad_output * m.where(scaled > threshold, 1, m.sigmoid(scaled))


def softplus_bend(F: Ops, g: Tensor, self: Tensor, beta: Number, threshold: Number) -> Tensor:
    """g times the derivative of softplus's slope, a sigmoid; 0 beyond the threshold."""
    s = F.sigmoid(self * beta)
    return F.where(F.gt(self * beta, threshold), 0, g * (s * (1 - s)) * beta)


@softplus_backward.onnx
def _(g: OnnxWriter, grad_output: Value, self: Value, beta: Number, threshold: Number) -> Value:
    scaled = g.op("Mul", self, g.constant(beta, like=self))
    beyond = g.op("Greater", scaled, g.constant(threshold, like=self))
    return g.op("Where", beyond, grad_output, g.op("Mul", grad_output, g.op("Sigmoid", scaled)))


# -- gaussian ----------------------------------------------------------------------------------------------------


def is_tanh(approximate: str) -> bool:
    """Whether the tanh formula is asked for."""
    if approximate not in ("none", "tanh"):
        raise UsageError(f"gelu: approximate is 'none' or 'tanh', got {approximate!r}")
    return approximate == "tanh"


@floats_only
@pointwise('aten::gelu_backward(Tensor grad_output, Tensor self, *, str approximate="none") -> Tensor', namespaces=(),
           cost=60,
           grad=dict(grad_output=lambda F, g, self, approximate: F.gelu_backward(g, self, approximate=approximate),
                     self=lambda F, g, grad_output, self, approximate:
                          g * grad_output * gelu_bend(F, self, approximate)))  # fmt: skip
def gelu_backward(m: Math, grad_output: Elements, self: Elements, approximate: str) -> Elements:
    """grad_output times the slope of gelu."""
    square = self * self
    if not is_tanh(approximate):
        below = (1 + m.erf(self * SQRT_HALF)) * 0.5
        return grad_output * (below + self * (m.exp(square * -0.5) * NORMAL_PEAK))
    t = m.tanh(self * (1 + square * TANH_CUBE) * TANH_SCALE)
    slope = (1 - t * t) * ((1 + square * (3 * TANH_CUBE)) * TANH_SCALE)
    return grad_output * ((1 + t) * 0.5 + self * slope * 0.5)


def gelu_bend(F: Ops, self: Tensor, approximate: str) -> Tensor:
    """The second derivative of gelu."""
    square = self * self
    if not is_tanh(approximate):
        return F.exp(square * -0.5) * NORMAL_PEAK * (2 - square)
    t = F.tanh(self * (1 + square * TANH_CUBE) * TANH_SCALE)
    inner = (1 + square * (3 * TANH_CUBE)) * TANH_SCALE
    turn = square * (3 * TANH_CUBE * TANH_SCALE) - self * t * inner * inner
    return (1 - t * t) * (inner + turn)


@gelu_backward.onnx
def _(g: OnnxWriter, grad_output: Value, self: Value, approximate: str) -> Value:
    def number(value: float) -> Any:
        return g.constant(value, like=self)

    square = g.op("Mul", self, self)
    if not is_tanh(approximate):
        below = g.op("Mul", g.op("Add", g.op("Erf", g.op("Mul", self, number(SQRT_HALF))), number(1)), number(0.5))
        bell = g.op("Mul", g.op("Exp", g.op("Mul", square, number(-0.5))), number(NORMAL_PEAK))
        return g.op("Mul", grad_output, g.op("Add", below, g.op("Mul", self, bell)))
    inside = g.op("Add", number(TANH_SCALE), g.op("Mul", square, number(TANH_CUBE * TANH_SCALE)))
    t = g.op("Tanh", g.op("Mul", self, inside))
    inner = g.op("Add", number(TANH_SCALE), g.op("Mul", square, number(3 * TANH_CUBE * TANH_SCALE)))
    slope = g.op("Mul", g.op("Sub", number(1), g.op("Mul", t, t)), inner)
    doubled = g.op("Add", g.op("Add", t, number(1)), g.op("Mul", self, slope))
    return g.op("Mul", grad_output, g.op("Mul", doubled, number(0.5)))


@gelu_backward.samples
def _() -> Iterator[Sample]:
    yield from _pairs()()
    yield sample(make(3, 4), make(3, 4, seed=1), approximate="tanh", note="tanh")


# -- dropout -----------------------------------------------------------------------------------------------------


@composite("aten::native_dropout_backward(Tensor grad_output, Tensor mask, float scale) -> Tensor", namespaces=())
def native_dropout_backward(F: Ops, grad_output: Tensor, mask: Tensor, scale: float) -> Tensor:
    """grad_output * scale where mask is true, 0 elsewhere."""
    return grad_output * mask * scale


@native_dropout_backward.samples
def _() -> Iterator[Sample]:
    yield sample(make(3, 4), make(3, 4, dtype="bool"), 2.0)
    yield sample(make(), make(dtype="bool"), 1.25, note="0-d")
    yield sample(make(0, 3), make(0, 3, dtype="bool"), 2.0, note="empty")
    yield sample(strided(make(3, 5)), make(3, 5, dtype="bool"), 2.0, note="strided")


# -- softmax -----------------------------------------------------------------------------------------------------


def _data_type(grad_output: KnownType, output: KnownType, dim: int, input_dtype: DType) -> TensorType:
    assert output.sizes is not None
    wrap_dim(dim, len(output.sizes))
    if grad_output.sizes != output.sizes:
        raise ShapeError(f"the gradient has the sizes {list(grad_output.shape)}, the output {list(output.sizes)}")
    return TensorType(input_dtype, output.sizes, None, output.device)


def _rows(m: Numpy, x: Array, dim: int) -> OnArrays:
    """The rows of x along `dim`; a 0-d x is a row of one."""
    axis = wrap_dim(dim, x.ndim)
    return OnArrays(m, x.shape, (axis,) if x.ndim else ())


def _by_softmax(t: Any, g: Any, y: Any) -> Any:
    product = t.apply(lambda m, a, b: a * b, g, y)
    return t.apply(lambda m, p, y, s: p - y * s, product, y, t.reduce("sum", product))


def _by_log_softmax(t: Any, g: Any, y: Any) -> Any:
    return t.apply(lambda m, a, y, s: a - m.exp(y) * s, g, y, t.reduce("sum", g), cost=20)


def _data_samples(logarithms: bool) -> Any:
    def samples() -> Iterator[Sample]:
        def output(*shape: int, dim: int = 0, dtype: Any = np.float32) -> Any:
            powers = np.exp(make(*shape, dtype=np.float64, seed=1))
            shares = powers / np.sum(powers, axis=dim, keepdims=True) if shape else np.ones(())
            return np.asarray(np.log(shares) if logarithms else shares).astype(dtype)

        yield sample(make(3, 4, dtype="float64"), output(3, 4, dim=1, dtype=np.float64), 1, dtypes.float64)
        yield sample(make(2, 3, 4), output(2, 3, 4, dim=1), -2, dtypes.float32, grad=False)
        yield sample(make(), output(), 0, dtypes.float32, note="0-d", grad=False)
        yield sample(make(0, 3), output(0, 3, dim=1), 1, dtypes.float32, note="empty", grad=False)
        yield sample(strided(make(3, 5)), output(3, 5), 0, dtypes.float32, note="strided", grad=False)
        yield sample(make(9, dtype="float16"), output(9, dtype=np.float16), 0, dtypes.float16, note="half", grad=False)
        yield sample(make(9), output(9), 0, dtypes.float16, note="to half", grad=False)

    return samples


@array("aten::_softmax_backward_data(Tensor grad_output, Tensor output, int dim, ScalarType input_dtype) -> Tensor",
       kernel=Kernel("norm"), namespaces=("jit",), type=_data_type, samples=_data_samples(False))  # fmt: skip
def _softmax_backward_data(m: Numpy, grad_output: Array, output: Array, dim: int, input_dtype: DType) -> Array:
    """output * (grad_output - sum(grad_output * output)) along dim, in the dtype of softmax's input."""
    found = _by_softmax(_rows(m, output, dim), grad_output, output)
    return found.astype(input_dtype.numpy, copy=False)


@_softmax_backward_data.terms
def _(t: Terms, grad_output: Term, output: Term) -> Term:
    return _by_softmax(t, t.widened(grad_output), t.widened(output))


@_softmax_backward_data.grad
def _(
    F: Ops, g: Tensor, needs: Sequence[bool], grad_output: Tensor, output: Tensor, dim: int, input_dtype: DType
) -> Sequence[Tensor | None]:
    g = g if g.dtype is output.dtype else F._to_copy(g, dtype=output.dtype)
    by_grad = F._softmax_backward_data(g, output, dim, output.dtype) if needs[0] else None
    if not needs[1]:
        return by_grad, None
    along = F.sum(grad_output * output, [dim], True)
    return by_grad, g * (grad_output - along) - grad_output * F.sum(g * output, [dim], True)


@_softmax_backward_data.onnx
def _(g: OnnxWriter, grad_output: Value, output: Value, dim: int, input_dtype: DType) -> Value:
    product = g.op("Mul", grad_output, output)
    total = g.reduce("ReduceSum", product, dim if output.ndim else None, True)
    return g.cast(g.op("Sub", product, g.op("Mul", output, total)), input_dtype)


@array("aten::_log_softmax_backward_data(Tensor grad_output, Tensor output, int dim, ScalarType input_dtype) -> Tensor",
       kernel=Kernel("norm"), namespaces=("jit",), type=_data_type, samples=_data_samples(True))  # fmt: skip
def _log_softmax_backward_data(m: Numpy, grad_output: Array, output: Array, dim: int, input_dtype: DType) -> Array:
    """grad_output - exp(output) * sum(grad_output) along dim, in the dtype of log_softmax's input."""
    found = _by_log_softmax(_rows(m, output, dim), grad_output, output)
    return found.astype(input_dtype.numpy, copy=False)


@_log_softmax_backward_data.terms
def _(t: Terms, grad_output: Term, output: Term) -> Term:
    return _by_log_softmax(t, t.widened(grad_output), t.widened(output))


@_log_softmax_backward_data.grad
def _(
    F: Ops, g: Tensor, needs: Sequence[bool], grad_output: Tensor, output: Tensor, dim: int, input_dtype: DType
) -> Sequence[Tensor | None]:
    g = g if g.dtype is output.dtype else F._to_copy(g, dtype=output.dtype)
    weighted = g * F.exp(output)
    by_grad = g - F.sum(weighted, [dim], True) if needs[0] else None
    return by_grad, -weighted * F.sum(grad_output, [dim], True) if needs[1] else None


@_log_softmax_backward_data.onnx
def _(g: OnnxWriter, grad_output: Value, output: Value, dim: int, input_dtype: DType) -> Value:
    total = g.reduce("ReduceSum", grad_output, dim if output.ndim else None, True)
    return g.cast(g.op("Sub", grad_output, g.op("Mul", g.op("Exp", output), total)), input_dtype)


def _plain_samples() -> Iterator[Sample]:
    yield sample(make(3, 4), 1, False)
    yield sample(make(9, dtype="float16"), 0, False, note="half", grad=False)
    yield sample(make(0, 3), 1, False, note="empty")


def _widened(dtype: DType, half_to_float: bool) -> DType | None:
    if half_to_float and not dtype.is_half:
        raise UsageError(f"softmax: half_to_float is meant for 16-bit floats, not for {dtype.name}")
    return dtypes.float32 if half_to_float else None


@Precision(cuda="given")
@composite("aten::_softmax(Tensor self, int dim, bool half_to_float) -> Tensor", namespaces=("jit",),
           samples=_plain_samples)  # fmt: skip
def _softmax(F: Ops, self: Tensor, dim: int, half_to_float: bool) -> Tensor:
    """`softmax`, in float32 of 16-bit floats if half_to_float."""
    return F.softmax(self, dim, _widened(self.dtype, half_to_float))


@Precision(cuda="given")
@composite("aten::_log_softmax(Tensor self, int dim, bool half_to_float) -> Tensor", namespaces=("jit",),
           samples=_plain_samples)  # fmt: skip
def _log_softmax(F: Ops, self: Tensor, dim: int, half_to_float: bool) -> Tensor:
    """`log_softmax`, in float32 of 16-bit floats if half_to_float."""
    return F.log_softmax(self, dim, _widened(self.dtype, half_to_float))
