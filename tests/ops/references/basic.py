"""What the pointwise, comparing, reducing, creating and casting operators should compute, in float64 numpy and SciPy.

Each function takes the operator's arguments in the order of its schema; floats come as float64. The caller rounds the
result to the operator's dtype.
"""

import math
from typing import Any

import numpy as np
import scipy.special

from jit.ir.dtypes import DType, int64

# -- helpers -----------------------------------------------------------------------------------------------------


def binary(function: Any) -> Any:
    """Arrays or numbers, broadcast by numpy."""
    return lambda self, other: function(np.asarray(self), np.asarray(other))


def whole(function: Any) -> Any:
    """A function of Python integers, element by element, wrapped to the common dtype; floats go to `fractional`."""
    exact = np.frompyfunc(function, 2, 1)

    def reference(self: Any, other: Any) -> Any:
        a, b = np.asarray(self), np.asarray(other)
        if a.dtype.kind not in "iu" or b.dtype.kind not in "iu":
            return (
                np.vectorize(function, otypes=[float])(a, b)
                if np.broadcast(a, b).size
                else np.zeros(np.broadcast(a, b).shape)
            )
        dtype = a.dtype if b.ndim == 0 else np.result_type(a, b)
        bits = 8 * dtype.itemsize
        wrap = np.frompyfunc(
            lambda n: (n + 2 ** (bits - 1)) % 2**bits - 2 ** (bits - 1) if dtype.kind == "i" else n % 2**bits, 1, 1
        )
        return np.asarray(wrap(exact(a.astype(object), b.astype(object)))).astype(dtype)

    return reference


def floor_quotient(a: Any, b: Any) -> Any:
    if b == 0:
        return math.nan if a == 0 or math.isnan(a) else math.copysign(math.inf, a) * math.copysign(1, b)
    if math.isinf(a) or math.isnan(a) or math.isnan(b):
        return math.nan
    return a // b


def truncated_quotient(a: Any, b: Any) -> Any:
    if isinstance(a, int):
        quotient = abs(a) // abs(b)
        return quotient if (a < 0) == (b < 0) else -quotient
    with np.errstate(all="ignore"):
        return np.trunc(np.divide(a, b))


def python_remainder(a: Any, b: Any) -> Any:
    return math.nan if b == 0 or math.isinf(a) else a % b


def c_remainder(a: Any, b: Any) -> Any:
    if isinstance(a, int):
        return a - b * truncated_quotient(a, b)
    return math.nan if b == 0 or math.isinf(a) else math.fmod(a, b)


def power(a: Any, b: Any) -> Any:
    if "f" in a.dtype.kind + b.dtype.kind:
        return np.float_power(a, b)
    if (b < 0).any():  # integers to negative powers: what is left of 1 / a ** n
        return np.trunc(np.float_power(np.where(a == 0, 2, a), b)) * (a != 0) + (a == 0) * (b == 0)
    return np.power(a, b)


def clamp(self: Any, min: Any, max: Any) -> Any:
    raised = self if min is None else np.where(np.isnan(self), self, np.where(self < min, min, self))
    return raised if max is None else np.where(np.isnan(raised), raised, np.where(raised > max, max, raised))


def round_decimals(self: Any, decimals: int) -> Any:
    return np.rint(self * 10.0**decimals) / 10.0**decimals


def lerp(self: Any, end: Any, weight: Any) -> Any:
    return (1 - weight) * self + weight * end


def softplus(self: Any, beta: Any, threshold: Any) -> Any:
    return np.where(self * beta > threshold, self, np.logaddexp(0, self * beta) / beta)


def elu(self: Any, alpha: Any, scale: Any, input_scale: Any) -> Any:
    return np.where(self > 0, scale * self, scale * alpha * np.expm1(np.where(self > 0, 0, input_scale * self)))


def gelu(self: Any, approximate: str) -> Any:
    if approximate == "none":
        return self * scipy.special.ndtr(self)
    return 0.5 * self * (1 + np.tanh(np.sqrt(2 / np.pi) * (self + 0.044715 * self**3)))


def relu6(x: Any) -> Any:
    return clamp(x, 0, 6)


# -- reductions --------------------------------------------------------------------------------------------------


def axes(self: Any, dim: Any) -> Any:
    """numpy's axis for a `dim`: () means all, as None does; a 0-d array has none to reduce."""
    if dim is None or dim == () or np.ndim(self) == 0:
        return None
    return dim


def over(function: Any) -> Any:
    """A reduction by numpy with the arguments (self, dim, keepdim, ...)."""
    return lambda self, dim=None, keepdim=False, *rest: function(
        self, axis=axes(self, dim), keepdims=keepdim and np.ndim(self) > 0
    )


def mean(self: Any, axis: Any, keepdims: Any) -> Any:
    """numpy's own warns where there is nothing to divide."""
    total = np.sum(self, axis=axis, keepdims=keepdims)
    return np.true_divide(total, np.size(self) / max(np.size(total), 1))


def extreme_along(extreme: Any, position: Any) -> Any:
    def reference(self: Any, dim: Any, keepdim: Any) -> Any:
        if np.ndim(self) == 0:
            return self, np.asarray(0)
        return extreme(self, axis=dim, keepdims=keepdim), position(self, axis=dim, keepdims=keepdim)

    return reference


def position(function: Any) -> Any:
    def reference(self: Any, dim: Any, keepdim: Any) -> Any:
        return function(self, axis=axes(self, dim), keepdims=keepdim and np.ndim(self) > 0)

    return reference


def spread(function: Any) -> Any:
    def reference(self: Any, dim: Any, correction: Any, keepdim: Any) -> Any:
        axis = axes(self, dim)
        count = np.size(self) if axis is None else np.prod([np.shape(self)[a] for a in np.atleast_1d(axis)])
        less = 1 if correction is None else correction
        mean = np.mean(self, axis=axis, keepdims=True) if count else 0.0
        squares = np.sum(np.square(self - mean), axis=axis, keepdims=keepdim)
        return function(squares / np.float64(max(count - less, 0)))

    return reference


def vector_norm(self: Any, ord: Any, dim: Any, keepdim: Any, dtype: Any) -> Any:
    axis = axes(self, dim)
    if axis is None:
        flat = np.linalg.norm(np.ravel(self), ord)
        return np.reshape(flat, [1] * np.ndim(self)) if keepdim else flat
    if isinstance(axis, tuple) and len(axis) > 1:
        moved = np.moveaxis(self, axis, range(-len(axis), 0))
        flat = np.linalg.norm(moved.reshape(*moved.shape[: -len(axis)], -1), ord, axis=-1)
        return np.expand_dims(flat, axis) if keepdim else flat
    return np.linalg.norm(self, ord, axis=axis[0] if isinstance(axis, tuple) else axis, keepdims=keepdim)


def sum_to_size(self: Any, size: Any) -> Any:
    """By the definition of broadcasting's adjoint: every element goes to the place that it was broadcast from."""
    result = np.zeros(size)
    for index, value in np.ndenumerate(self):
        own = index[len(index) - len(size) :]
        result[tuple(0 if n == 1 else i for i, n in zip(own, size, strict=True))] += value
    return result


def softmax(self: Any, dim: int, dtype: Any) -> Any:
    return scipy.special.softmax(self, axis=dim) if np.ndim(self) and np.size(self) else np.ones_like(self)


def safe_softmax(self: Any, dim: int, dtype: Any) -> Any:
    if not np.ndim(self) or not np.size(self):
        return np.where(np.isneginf(self), 0.0, softmax(self, dim, dtype))
    return np.where(np.isneginf(self).all(dim, keepdims=True), 0, softmax(self, dim, dtype))


def log_softmax(self: Any, dim: int, dtype: Any) -> Any:
    if not np.ndim(self) or not np.size(self):
        return np.zeros_like(self)
    return self - scipy.special.logsumexp(self, axis=dim, keepdims=True)


def logsumexp(self: Any, dim: Any, keepdim: Any) -> Any:
    if np.size(self) == 0:
        return np.full(np.sum(self, axis=dim, keepdims=keepdim).shape, -np.inf)
    return scipy.special.logsumexp(self, axis=axes(self, dim), keepdims=keepdim)


def running(function: Any) -> Any:
    return lambda self, dim, *rest: function(self, axis=dim) if np.ndim(self) else self


def running_logsumexp(self: Any, axis: int) -> Any:
    return np.logaddexp.accumulate(self.astype(np.longdouble), axis=axis)


# -- creation ----------------------------------------------------------------------------------------------------


def arange(start: Any, end: Any, step: Any, dtype: Any, device: Any) -> Any:
    if dtype is int64:
        start, end, step = int(start), int(end), int(step)
    count = 0
    while (start + count * step - end) * step < 0:
        count += 1
    if dtype is not None and dtype.is_integral:
        start, step = int(start), int(step)
    return np.array([start + i * step for i in range(count)], np.float64)


def cast(self: Any, dtype: DType | None, device: Any, memory_format: Any) -> Any:
    return self if dtype is None else self.astype(dtype.numpy)


def window(alpha: float, beta: float) -> Any:
    """By its definition, from -pi to pi."""

    def reference(length: int, periodic: bool, *rest: Any) -> Any:
        given = [number for number in rest if isinstance(number, float)] or [alpha, beta]
        steps = length if periodic else max(length - 1, 1)
        angles = np.pi * (2 * np.arange(length) / steps - 1)
        return given[0] + given[1] * np.cos(angles) if length > 1 else np.ones(length)

    return reference


# -- composites --------------------------------------------------------------------------------------------------


def rounded_quotient(self: Any, other: Any, rounding_mode: Any) -> Any:
    quotient = np.true_divide(self, other)
    return quotient if rounding_mode is None else {"floor": np.floor, "trunc": np.trunc}[rounding_mode](quotient)


def nan_to_num(self: Any, nan: Any, posinf: Any, neginf: Any) -> Any:
    return np.nan_to_num(self, nan=nan or 0.0, posinf=posinf, neginf=neginf)


def prelu(self: Any, weight: Any) -> Any:
    slope = weight.reshape(-1, *[1] * (np.ndim(self) - 2)) if np.ndim(self) > 1 else weight.reshape(())
    return np.maximum(self, 0) + slope * np.minimum(self, 0)


def glu(self: Any, dim: int) -> Any:
    first, second = np.split(self, 2, axis=dim)
    return first / (1 + np.exp(-second))


def unbiased(function: Any) -> Any:
    return lambda self, dim, unbiased, keepdim: function(self, axis=dim, ddof=int(unbiased), keepdims=keepdim)


def with_mean(function: Any) -> Any:
    def reference(self: Any, dim: Any, correction: Any, keepdim: Any) -> Any:
        return spread(function)(self, dim, correction, keepdim), over(mean)(self, dim, keepdim)

    return reference


def extremes(self: Any, dim: Any, keepdim: Any) -> Any:
    return over(np.min)(self, dim, keepdim), over(np.max)(self, dim, keepdim)


def norm(self: Any, p: Any, dim: Any, keepdim: Any, dtype: Any) -> Any:
    return vector_norm(self, 2 if p in (None, "fro") else p, dim, keepdim, dtype)


@np.vectorize
def random_word(index: int, seed: int, offset: int) -> int:
    """A word of Philox4x32-10 in Python's integers, with its sign."""
    block, mask = (int(offset) + int(index) // 4) % 2**64, 2**32 - 1
    a, b, c, d = block & mask, block >> 32, 0, 0
    low, high = int(seed) & mask, int(seed) >> 32 & mask
    for turn in range(10):
        first, second = a * 0xD2511F53, c * 0xCD9E8D57
        keys = (low + turn * 0x9E3779B9) & mask, (high + turn * 0xBB67AE85) & mask
        a, b, c, d = second >> 32 ^ b ^ keys[0], second & mask, first >> 32 ^ d ^ keys[1], first & mask
    word = (a, b, c, d)[int(index) % 4]
    return word - 2**32 if word >= 2**31 else word


REFERENCES: dict[str, Any] = {
    # pointwise
    "aten::add": lambda self, other, alpha: np.add(self, other if alpha == 1 else np.multiply(other, alpha)),
    "aten::sub": lambda self, other, alpha: np.subtract(self, np.multiply(other, alpha)),
    "aten::rsub": lambda self, other, alpha: np.subtract(other, np.multiply(self, alpha)),
    "aten::mul": binary(np.multiply),
    "aten::neg": lambda self: 0 - self,
    "aten::addcmul": lambda self, tensor1, tensor2, value: self + value * tensor1 * tensor2,
    "aten::addcdiv": lambda self, tensor1, tensor2, value: self + value * tensor1 / tensor2,
    "aten::lerp": lerp,
    "aten::div": binary(np.true_divide),
    "aten::floor_divide": whole(floor_quotient),
    "aten::_div_trunc": whole(truncated_quotient),
    "aten::remainder": whole(python_remainder),
    "aten::fmod": whole(c_remainder),
    "aten::reciprocal": lambda self: 1.0 / self,
    "aten::pow": binary(power),
    "aten::sqrt": lambda self: np.sqrt(self * 1.0),
    "aten::rsqrt": lambda self: 1 / np.sqrt(self * 1.0),
    "aten::exp": lambda self: np.exp(self * 1.0),
    "aten::exp2": lambda self: np.float_power(2.0, self),
    "aten::expm1": lambda self: np.expm1(self * 1.0),
    "aten::log": lambda self: np.log(self * 1.0),
    "aten::log2": lambda self: np.log2(self * 1.0),
    "aten::log10": lambda self: np.log10(self * 1.0),
    "aten::log1p": lambda self: np.log1p(self * 1.0),
    "aten::xlogy": binary(scipy.special.xlogy),
    "aten::logaddexp": binary(lambda a, b: np.logaddexp(a * 1.0, b * 1.0)),
    "aten::logit": lambda self, eps: scipy.special.logit(self if eps is None else np.clip(self, eps, 1 - eps)),
    "aten::sin": lambda self: np.sin(self * 1.0),
    "aten::cos": lambda self: np.cos(self * 1.0),
    "aten::tan": lambda self: np.tan(self * 1.0),
    "aten::asin": lambda self: np.arcsin(self * 1.0),
    "aten::acos": lambda self: np.arccos(self * 1.0),
    "aten::atan": lambda self: np.arctan(self * 1.0),
    "aten::atan2": binary(lambda a, b: np.arctan2(a * 1.0, b * 1.0)),
    "aten::sinh": lambda self: np.sinh(self * 1.0),
    "aten::cosh": lambda self: np.cosh(self * 1.0),
    "aten::tanh": lambda self: np.tanh(self * 1.0),
    "aten::asinh": lambda self: np.arcsinh(self * 1.0),
    "aten::acosh": lambda self: np.arccosh(self * 1.0),
    "aten::atanh": lambda self: np.arctanh(self * 1.0),
    "aten::sigmoid": lambda self: scipy.special.expit(self * 1.0),
    "aten::erf": scipy.special.erf,
    "aten::erfc": scipy.special.erfc,
    "aten::floor": np.floor,
    "aten::ceil": np.ceil,
    "aten::trunc": np.trunc,
    "aten::round": round_decimals,
    "aten::frac": lambda self: np.where(np.isinf(self), np.nan, np.modf(self)[0]),
    "aten::abs": lambda self: np.where(self < 0, -self, self),
    "aten::sign": lambda self: np.where(np.isnan(self), 0, np.sign(self)).astype(self.dtype),
    "aten::heaviside": np.heaviside,
    "aten::maximum": binary(np.maximum),
    "aten::minimum": binary(np.minimum),
    "aten::clamp": clamp,
    "aten::clamp_min": binary(np.maximum),
    "aten::clamp_max": binary(np.minimum),
    # compare
    "aten::eq": binary(np.equal),
    "aten::ne": binary(np.not_equal),
    "aten::lt": binary(np.less),
    "aten::le": binary(np.less_equal),
    "aten::gt": binary(np.greater),
    "aten::ge": binary(np.greater_equal),
    "aten::isnan": np.isnan,
    "aten::isinf": np.isinf,
    "aten::isfinite": np.isfinite,
    "aten::logical_and": np.logical_and,
    "aten::logical_or": np.logical_or,
    "aten::logical_xor": np.logical_xor,
    "aten::logical_not": np.logical_not,
    "aten::bitwise_and": np.bitwise_and,
    "aten::bitwise_or": np.bitwise_or,
    "aten::bitwise_xor": np.bitwise_xor,
    "aten::bitwise_not": np.bitwise_not,
    "aten::where.self": np.where,
    "aten::masked_fill": lambda self, mask, value: np.where(mask, value, self),
    "aten::bucketize.Tensor": lambda self, boundaries, out_int32, right: np.sum(
        (boundaries <= self[..., None]) if right else (boundaries < self[..., None]), -1
    ),
    # activations
    "aten::relu": lambda self: np.where(self < 0, 0, self),
    "aten::leaky_relu": lambda self, negative_slope: np.where(self < 0, negative_slope * self, self),
    "aten::hardtanh": lambda self, min_val, max_val: clamp(self, min_val, max_val),
    "aten::hardsigmoid": lambda self: relu6(self + 3) / 6,
    "aten::hardswish": lambda self: self * (relu6(self + 3) / 6),
    "aten::threshold": lambda self, threshold, value: np.where(self <= threshold, value, self),
    "aten::hardshrink": lambda self, lambd: np.where(np.abs(self) <= lambd, 0, self),
    "aten::softshrink": lambda self, lambd: self - clamp(self, -lambd, lambd),
    "aten::_prelu_kernel": lambda self, weight: np.where(self < 0, weight * self, self),
    "aten::elu": elu,
    "aten::silu": lambda self: self * scipy.special.expit(self),
    "aten::mish": lambda self: self * np.tanh(np.logaddexp(0, self)),
    "aten::softplus": softplus,
    "aten::gelu": gelu,
    "aten::softmax": softmax,
    "aten::_safe_softmax": safe_softmax,
    "aten::log_softmax": log_softmax,
    # reductions
    "aten::sum": over(np.sum),
    "aten::sum_to_size": sum_to_size,
    "aten::mean": over(mean),
    "aten::prod": lambda self, dtype: np.prod(self),
    "aten::prod.dim_int": over(np.prod),
    "aten::amax": over(np.max),
    "aten::amin": over(np.min),
    "aten::max": np.max,
    "aten::min": np.min,
    "aten::max.dim": extreme_along(np.max, np.argmax),
    "aten::min.dim": extreme_along(np.min, np.argmin),
    "aten::argmax": position(np.argmax),
    "aten::argmin": position(np.argmin),
    "aten::var.correction": spread(lambda x: x),
    "aten::std.correction": spread(np.sqrt),
    "aten::logsumexp": logsumexp,
    "aten::linalg_vector_norm": vector_norm,
    "aten::any": over(np.any),
    "aten::all": over(np.all),
    "aten::cumsum": running(np.cumsum),
    "aten::logcumsumexp": running(running_logsumexp),
    # creation
    "aten::zeros": lambda size, dtype, device: np.zeros(size),
    "aten::ones": lambda size, dtype, device: np.ones(size),
    "aten::empty": lambda size, dtype, device: np.zeros(size),
    "aten::full": lambda size, fill_value, dtype, device: np.full(size, fill_value),
    "aten::zeros_like": lambda self, *options: np.zeros(self.shape),
    "aten::ones_like": lambda self, *options: np.ones(self.shape),
    "aten::empty_like": lambda self, *options: np.zeros(self.shape),
    "aten::full_like": lambda self, fill_value, *options: np.full(self.shape, fill_value),
    "aten::scalar_tensor": lambda s, dtype, device: np.array(s),
    "aten::_random_word": lambda *operands: random_word(*operands) if np.broadcast(*operands).size else operands[0],
    "aten::arange.start_step": arange,
    "aten::linspace": lambda start, end, steps, dtype, device: np.linspace(start, end, steps),
    "aten::eye.m": lambda n, m, dtype, device: np.equal.outer(np.arange(n), np.arange(m)),
    # casting
    "aten::_to_copy": cast,
    "aten::clone": lambda self, memory_format: self,
    "aten::type_as": lambda self, other: self.astype(other.dtype),
    # composites
    "aten::square": lambda self: self * self,
    "aten::div.Tensor_mode": rounded_quotient,
    "aten::nan_to_num": nan_to_num,
    "aten::isclose": lambda self, other, *options: np.isclose(self, other, *options),
    "aten::relu6": relu6,
    "aten::prelu": prelu,
    "aten::selu": lambda self: elu(self, 1.6732632423543772, 1.0507009873554805, 1),
    "aten::celu": lambda self, alpha: (
        np.maximum(0, self) + np.minimum(0, alpha * np.expm1(np.minimum(self / alpha, 0)))
    ),
    "aten::log_sigmoid": scipy.special.log_expit,
    "aten::softsign": lambda self: self / (1 + np.abs(self)),
    "aten::tanhshrink": lambda self: self - np.tanh(self),
    "aten::glu": glu,
    "aten::softmin": lambda self, dim, dtype: softmax(-self, dim, dtype),
    "aten::max.other": np.maximum,
    "aten::min.other": np.minimum,
    "aten::aminmax": extremes,
    "aten::var": lambda self, unbiased: np.var(self, ddof=int(unbiased)),
    "aten::std": lambda self, unbiased: np.std(self, ddof=int(unbiased)),
    "aten::var.dim": unbiased(np.var),
    "aten::std.dim": unbiased(np.std),
    "aten::var_mean.correction": with_mean(lambda x: x),
    "aten::std_mean.correction": with_mean(np.sqrt),
    "aten::norm": norm,
    "aten::norm.name": norm,
    "aten::frobenius_norm.dim": lambda self, dim, keepdim: vector_norm(self, 2, dim, keepdim, None),
    "aten::arange": lambda end, dtype, device: arange(0, end, 1, dtype, device),
    "aten::eye": lambda n, dtype, device: np.eye(n),
    "aten::hann_window": window(0.5, 0.5),
    "aten::hamming_window": window(0.54, 0.46),
    "aten::new_zeros": lambda self, size, dtype, device: np.zeros(size),
    "aten::new_ones": lambda self, size, dtype, device: np.ones(size),
    "aten::new_empty": lambda self, size, dtype, device: np.zeros(size),
    "aten::new_full": lambda self, size, fill_value, dtype, device: np.full(size, fill_value),
}
