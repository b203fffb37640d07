"""Operators that compute each element by itself."""

from __future__ import annotations

from collections.abc import Callable
from functools import reduce
from typing import Any

import numpy as np

from jit.eager.namespace import F
from jit.ir.dtypes import bool_
from jit.nn import functional as NN

from ..table import Number, Operand, Tensor, operator
from ..values import Known

# -- one operand ---------------------------------------------------------------------------------------------------

_UNARY = {
    "Abs": "abs", "Acos": "acos", "Acosh": "acosh", "Asin": "asin", "Asinh": "asinh", "Atan": "atan", "Atanh": "atanh",
    "BitwiseNot": "bitwise_not", "Ceil": "ceil", "Cos": "cos", "Cosh": "cosh", "Erf": "erf", "Exp": "exp",
    "Floor": "floor", "HardSwish": "hardswish", "IsNaN": "isnan", "Log": "log", "Mish": "mish", "Neg": "neg",
    "Not": "logical_not", "Reciprocal": "reciprocal", "Relu": "relu", "Round": "round", "Sigmoid": "sigmoid",
    "Sign": "sign", "Sin": "sin", "Sinh": "sinh", "Sqrt": "sqrt", "Tan": "tan", "Tanh": "tanh",
}  # fmt: skip
"""Operators that ATen has, too."""


def _whole(function: Callable[[Any], Any]) -> Callable[[Known], Known | None]:
    """A function of integers on the host."""
    return lambda a: Known(function(a.array), a.dtype) if a.dtype.kind in "iu" or a.symbolic else None


def _rounded(x: Known) -> Known:
    """Floors of known numbers, those of a trace included."""
    return Known(np.frompyfunc(lambda v: v // 1, 1, 1)(x.array), x.dtype) if x.symbolic else Known(np.floor(x.array))


_UNARY_ON_HOST: dict[str, Any] = {"Abs": _whole(abs), "Neg": _whole(np.negative), "Floor": _rounded}


def _unary(name: str, aten: str) -> None:
    @operator(name, on_host=_UNARY_ON_HOST.get(name))
    def compute(x: Tensor) -> Tensor:
        return getattr(F, aten)(x)


for _name, _aten in _UNARY.items():
    _unary(_name, _aten)


@operator("Softsign")
def softsign(x: Tensor) -> Tensor:
    return x / (1 + F.abs(x))


@operator("IsInf")
def isinf(x: Tensor, *, detect_negative: int = 1, detect_positive: int = 1) -> Tensor:
    infinite = F.isinf(x)
    if detect_negative and detect_positive:
        return infinite
    side = x > 0 if detect_positive else x < 0
    return infinite & side if detect_positive or detect_negative else F.zeros_like(infinite)


# -- activations ---------------------------------------------------------------------------------------------------


@operator("Celu")
def celu(x: Tensor, *, alpha: float = 1.0) -> Tensor:
    return NN.celu(x, alpha)


@operator("Elu")
def elu(x: Tensor, *, alpha: float = 1.0) -> Tensor:
    return NN.elu(x, alpha)


@operator("Gelu")
def gelu(x: Tensor, *, approximate: str = "none") -> Tensor:
    return F.gelu(x, approximate=approximate)


@operator("HardSigmoid")
def hardsigmoid(x: Tensor, *, alpha: float = 0.2, beta: float = 0.5) -> Tensor:
    return F.clamp(alpha * x + beta, 0, 1)


@operator("LeakyRelu")
def leaky_relu(x: Tensor, *, alpha: float = 0.01) -> Tensor:
    return NN.leaky_relu(x, alpha)


@operator("PRelu")
def prelu(x: Tensor, slope: Tensor, *, version: int) -> Tensor:
    if version < 7 and slope.ndim == 1 and slope.shape[0] > 1:
        slope = F.reshape(slope, (-1, *[1] * (x.ndim - 2)))
    return F.where(x < 0, slope * x, x)


@operator("Selu")
def selu(x: Tensor, *, alpha: float = 1.6732632423543772, gamma: float = 1.0507009873554805) -> Tensor:
    return gamma * NN.elu(x, alpha)


@operator("Shrink")
def shrink(x: Tensor, *, bias: float = 0.0, lambd: float = 0.5) -> Tensor:
    return F.where(x < -lambd, x + bias, F.where(x > lambd, x - bias, F.zeros_like(x)))


@operator("Softplus")
def softplus(x: Tensor) -> Tensor:
    return F.logaddexp(x, F.zeros_like(x))


@operator("Swish")
def swish(x: Tensor, *, alpha: float = 1.0) -> Tensor:
    return F.silu(x) if alpha == 1 else x * F.sigmoid(alpha * x)


@operator("ThresholdedRelu")
def thresholded_relu(x: Tensor, *, alpha: float = 1.0) -> Tensor:
    return F.where(x > alpha, x, F.zeros_like(x))


# -- two operands --------------------------------------------------------------------------------------------------


def _aligned(a: Any, b: Any, axis: int | None, broadcast: int) -> tuple[Any, Any]:
    """Operands as versions before 7 broadcast them: the second has the dims of the first from `axis` on."""
    if broadcast and axis is not None and isinstance(a, Tensor) and isinstance(b, Tensor):
        after = a.ndim - (axis % a.ndim) - b.ndim
        b = F.reshape(b, (*b.shape, *[1] * after))
    return a, b


def _both(function: Callable[[Any, Any], Any]) -> Callable[..., Known | None]:
    """A function of two known arrays on the host."""

    def on_host(a: Known, b: Known, **_: Any) -> Known | None:
        symbolic = a.symbolic or b.symbolic
        if not symbolic and a.dtype != b.dtype:
            return None
        with np.errstate(all="ignore"):
            return Known(function(a.array, b.array), a.dtype if symbolic else None)

    return on_host


def _comparing(function: Callable[[Any, Any], Any]) -> Callable[..., Known]:
    return lambda a, b, **_: Known(np.asarray(function(a.array, b.array)).astype(bool))


def _quotient(a: Any, b: Any) -> Any:
    """Division as C's for integers, which cuts towards zero."""
    if isinstance(a, np.ndarray) and a.dtype == object or isinstance(b, np.ndarray) and b.dtype == object:
        return np.frompyfunc(lambda x, y: x / y if float in (type(x), type(y)) else _cut(x, y), 2, 1)(a, b)
    return _cut_arrays(a, b) if a.dtype.kind in "iu" else a / b


def _cut(a: Any, b: Any) -> Any:
    return a // b if (a >= 0) == (b > 0) else -(-a // b)


def _cut_arrays(a: Any, b: Any) -> Any:
    quotient = a // b
    return quotient + ((a % b != 0) & ((a < 0) != (b < 0)))


_BINARY: dict[str, tuple[str, Any]] = {
    "Add": ("add", _both(np.add)),
    "Sub": ("sub", _both(np.subtract)),
    "Mul": ("mul", _both(np.multiply)),
    "And": ("logical_and", _comparing(np.logical_and)),
    "Or": ("logical_or", _comparing(np.logical_or)),
    "Xor": ("logical_xor", _comparing(np.logical_xor)),
    "Equal": ("eq", _comparing(np.equal)),
    "Greater": ("gt", _comparing(np.greater)),
    "Less": ("lt", _comparing(np.less)),
    "GreaterOrEqual": ("ge", _comparing(np.greater_equal)),
    "LessOrEqual": ("le", _comparing(np.less_equal)),
    "BitwiseAnd": ("bitwise_and", _both(np.bitwise_and)),
    "BitwiseOr": ("bitwise_or", _both(np.bitwise_or)),
    "BitwiseXor": ("bitwise_xor", _both(np.bitwise_xor)),
}
"""Operators that ATen has, too, and what computes them on the host."""


def _binary(name: str, aten: str, on_host: Any) -> None:
    @operator(name, on_host=on_host)
    def compute(a: Operand, b: Operand, *, axis: int | None = None, broadcast: int = 0) -> Tensor:
        return getattr(F, aten)(*_aligned(a, b, axis, broadcast))


for _name, (_aten, _host) in _BINARY.items():
    _binary(_name, _aten, _host)


@operator("Div", on_host=_both(_quotient))
def divide(a: Operand, b: Operand, *, axis: int | None = None, broadcast: int = 0) -> Tensor:
    a, b = _aligned(a, b, axis, broadcast)
    whole = all(x.dtype.is_integral for x in (a, b) if isinstance(x, Tensor))
    return F.div(a, b, rounding_mode="trunc") if whole else F.div(a, b)


@operator("Mod", on_host=lambda a, b, fmod=0: Known((np.fmod if fmod else np.mod)(a.array, b.array)))
def modulo(a: Operand, b: Operand, *, fmod: int = 0) -> Tensor:
    return F.fmod(a, b) if fmod else F.remainder(a, b)


@operator("Pow")
def power(a: Operand, b: Operand, *, axis: int | None = None, broadcast: int = 0) -> Tensor:
    a, b = _aligned(a, b, axis, broadcast)
    if not isinstance(a, Tensor):
        return F.pow(a, b)
    if a.dtype.is_integral and (not isinstance(b, Tensor) or b.dtype.is_floating_point):
        return F.pow(a.double(), b).to(a.dtype)
    return F.pow(a, b).to(a.dtype)


def _shifted(a: Known, b: Known, direction: str = "LEFT") -> Known:
    return Known((np.left_shift if direction == "LEFT" else np.right_shift)(a.array, b.array))


@operator("BitShift", on_host=_shifted)
def shift(a: Tensor, b: Tensor, *, direction: str) -> Tensor:
    return (F.bitwise_left_shift if direction == "LEFT" else F.bitwise_right_shift)(a, b)


# -- any number of operands ----------------------------------------------------------------------------------------


def _folded(function: Callable[[Any, Any], Any]) -> Callable[..., Known]:
    return lambda *known: Known(
        reduce(function, [k.array for k in known]), known[0].dtype if known[0].symbolic else None
    )


@operator("Max", on_host=_folded(np.maximum))
def maximum(*operands: Tensor) -> Tensor:
    return reduce(F.maximum, operands)


@operator("Min", on_host=_folded(np.minimum))
def minimum(*operands: Tensor) -> Tensor:
    return reduce(F.minimum, operands)


@operator("Sum")
def total(*operands: Tensor) -> Tensor:
    return reduce(F.add, operands)


@operator("Mean")
def mean(*operands: Tensor) -> Tensor:
    return reduce(F.add, operands) / len(operands)


# -- choices -------------------------------------------------------------------------------------------------------


@operator("Where", on_host=lambda c, a, b: Known(np.where(c.array.astype(bool), a.array, b.array), a.dtype))
def where(condition: Tensor, a: Tensor, b: Operand) -> Tensor:
    return F.where(condition, a, b)


@operator("Clip", since=1)
def clip_by_numbers(x: Tensor, *, min: float = -3.4028234663852886e38, max: float = 3.4028234663852886e38) -> Tensor:
    return F.clamp(x, min, max)


@operator("Clip", since=11)
def clip(x: Tensor, min: Operand | None, max: Operand | None) -> Tensor:
    if min is not None:
        x = F.maximum(x, min) if isinstance(min, Tensor) else F.clamp(x, min=min)
    if max is not None:
        x = F.minimum(x, max) if isinstance(max, Tensor) else F.clamp(x, max=max)
    return x


@operator("Dropout", since=1)
def dropout_of_old(x: Tensor, *, is_test: int = 0, ratio: float = 0.5, outputs: int) -> Any:
    return (x, F.ones_like(x, dtype=bool_)) if outputs > 1 else x


@operator("Dropout", since=12)
def dropout(
    x: Tensor, ratio: Number | None, training_mode: Number | None, *, seed: int | None = None, outputs: int
) -> Any:
    share = 0.5 if ratio is None else ratio
    if not training_mode or share == 0:
        return (x, F.ones_like(x, dtype=bool_)) if outputs > 1 else x
    kept = F.rand_like(x) >= share
    return F.where(kept, x / (1 - share), F.zeros_like(x)), kept
