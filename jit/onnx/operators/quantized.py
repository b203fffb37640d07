"""Quantization, and products of quantized tensors.

Integers are multiplied in float64, which holds their sums exactly. Elements of types that tensors do not have come from
the host and go there.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import ml_dtypes
import numpy as np

from jit.eager.namespace import F
from jit.ir.dtypes import int32, int64, uint8
from jit.ir.errors import ModelError

from ..table import Tensor, operator
from ..values import Known, as_tensor, tensor_dtype
from .casts import array_of, cast_array, cast_tensor, is_foreign, numpy_dtype, own_dtype
from .products import conv

# -- element types -------------------------------------------------------------------------------------------------


def _dtype_of(value: Any) -> np.dtype[Any]:
    return value.dtype if isinstance(value, Known) else value.dtype.numpy


def _wide(value: Any) -> Tensor:
    """A tensor of float32 or wider, of whatever elements."""
    if isinstance(value, Known) and not value.symbolic and own_dtype(value.dtype) is None:
        return Known(np.asarray(value.array, np.float32)).tensor()
    tensor = as_tensor(value)
    return tensor if tensor.dtype.is_floating_point and tensor.dtype.itemsize >= 4 else tensor.float()


def _range(dtype: np.dtype[Any]) -> tuple[int, int]:
    """The least and the largest number of a type of integers."""
    found = (np.iinfo if dtype.kind in "iu" else ml_dtypes.iinfo)(dtype)
    return int(found.min), int(found.max)


def _is_integral(dtype: np.dtype[Any]) -> bool:
    return dtype.kind in "iu" or dtype.name in ("int4", "uint4", "int2", "uint2")


def _stored(quotient: Tensor, zero_point: Tensor | None, dtype: np.dtype[Any], saturate: bool = True) -> Any:
    """Quotients as elements of a quantized type."""
    own = own_dtype(dtype)
    if _is_integral(dtype):
        quotient = F.round(quotient) if quotient.dtype.itemsize > 4 else F.round(quotient).float()
    moved = quotient if zero_point is None else quotient + zero_point
    if _is_integral(dtype):
        moved = F.clamp(moved, *_range(dtype))
    return Known(cast_array(array_of(moved), dtype, saturate)) if own is None else cast_tensor(moved, own, saturate)


# -- there and back ------------------------------------------------------------------------------------------------


def _spread(values: Tensor, x: Tensor, axis: int, block_size: int) -> Tensor:
    """Scales or zero points, of a tensor, an axis or blocks, as they are multiplied with `x`."""
    if values.ndim == 0 or values.ndim == 1 and values.shape[0] == 1:
        return F.reshape(values, ())
    axis = axis % x.ndim
    if not block_size:
        return F.reshape(values, [-1 if dim == axis else 1 for dim in range(x.ndim)]) if values.ndim == 1 else values
    return F.narrow(F.repeat_interleave(values, block_size, axis), axis, 0, x.shape[axis])


def _gives_foreign_elements(attributes: Mapping[str, Any], types: Sequence[Any]) -> bool:
    """Whether a node quantizes to elements that tensors do not have."""
    declared = attributes.get("output_dtype")
    return any(map(is_foreign, types[2:])) or bool(declared) and is_foreign(numpy_dtype(declared))


@operator("QuantizeLinear", on_data=_gives_foreign_elements)
def quantize(
    x: Tensor, scale: Any, zero_point: Any, *, axis: int = 1, block_size: int = 0, output_dtype: int = 0,
    precision: int = 0, saturate: int = 1,
) -> Any:  # fmt: skip
    dtype = np.dtype(np.uint8) if not output_dtype else numpy_dtype(output_dtype)
    if zero_point is not None:
        dtype = _dtype_of(zero_point)
        zero_point = _spread(_wide(zero_point), x, axis, block_size)
    scale = _spread(as_tensor(scale) if own_dtype(_dtype_of(scale)) else _wide(scale), x, axis, block_size)
    if precision:
        wanted = tensor_dtype(numpy_dtype(precision))
        x, scale = x.to(wanted), scale.to(wanted)
    return _stored(F.div(x, scale), zero_point, dtype, bool(saturate))


@operator("DequantizeLinear")
def dequantize(
    x: Any, scale: Any, zero_point: Any, *, axis: int = 1, block_size: int = 0, output_dtype: int = 0
) -> Tensor:
    dtype = own_dtype(numpy_dtype(output_dtype) if output_dtype else _dtype_of(scale))
    if dtype is None or dtype.is_stored:
        raise ModelError("DequantizeLinear with a scale of such elements needs output_dtype")
    x = _wide(x)
    if zero_point is not None:
        x = x - _spread(_wide(zero_point), x, axis, block_size)
    return (x * _spread(_wide(scale), x, axis, block_size)).to(dtype)


@operator("DynamicQuantizeLinear")
def quantize_dynamically(x: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    low, high = F.clamp(F.amin(x), max=0), F.clamp(F.amax(x), min=0)
    scale = F.where(high == low, 1.0, high - low) / 255
    zero_point = F.round(F.clamp(-low / scale, 0, 255))
    return F.clamp(F.round(x / scale) + zero_point, 0, 255).to(uint8), scale, zero_point.to(uint8)


# -- products ------------------------------------------------------------------------------------------------------


def _centred(x: Any, zero_point: Any, shape: tuple[int, ...] | None = None) -> Tensor:
    """Quantized elements less their zero point, which has these dims if it has several elements."""
    x = _wide(x).double()
    return x if zero_point is None else x - _many(_wide(zero_point), shape).double()


def _many(values: Tensor, shape: tuple[int, ...] | None) -> Tensor:
    if values.ndim == 0 or values.ndim == 1 and values.shape[0] == 1:
        return F.reshape(values, ())
    return F.reshape(values, shape) if shape is not None and values.ndim == 1 else values


def _requantized(product: Tensor, factor: Tensor, zero_point: Any, dtype: np.dtype[Any]) -> Any:
    """Products of centred elements in the scale of the result."""
    return _stored(product * factor.double(), None if zero_point is None else _wide(zero_point), dtype)


_ROWS = (-1, 1)
"""The dims of what matrices have once a row."""


def _channels(weights: Any) -> tuple[int, ...]:
    """The dims of what weights have once for each channel of the result."""
    return (-1, *[1] * ((weights.array if isinstance(weights, Known) else weights).ndim - 1))


@operator("MatMulInteger")
def matmul_integer(a: Any, b: Any, a_zero_point: Any, b_zero_point: Any) -> Tensor:
    return _whole(F.matmul(_centred(a, a_zero_point, _ROWS), _centred(b, b_zero_point)))


def _whole(x: Tensor) -> Tensor:
    """Sums of integers as int32, which may overflow."""
    return x.to(int64).to(int32)


@operator("ConvInteger")
def conv_integer(
    x: Any, w: Any, x_zero_point: Any, w_zero_point: Any, *, auto_pad: str = "NOTSET", dilations: Any = None,
    group: int = 1, kernel_shape: Any = None, pads: Any = None, strides: Any = None,
) -> Tensor:  # fmt: skip
    x, w = _centred(x, x_zero_point), _centred(w, w_zero_point, _channels(w))
    return _whole(conv(x, w, None, auto_pad=auto_pad, dilations=dilations, group=group, pads=pads, strides=strides))


@operator("QLinearMatMul", on_data=lambda _, types: any(map(is_foreign, types[7:])))
def matmul_quantized(
    a: Any, a_scale: Tensor, a_zero_point: Any, b: Any, b_scale: Tensor, b_zero_point: Any, y_scale: Tensor,
    y_zero_point: Any,
) -> Any:  # fmt: skip
    product = F.matmul(_centred(a, a_zero_point, _ROWS), _centred(b, b_zero_point))
    factor = _many(a_scale, _ROWS) * _many(b_scale, None) / _many(y_scale, _ROWS)
    return _requantized(product, factor, y_zero_point, _dtype_of(a if y_zero_point is None else y_zero_point))


@operator("QLinearConv")
def conv_quantized(
    x: Any, x_scale: Tensor, x_zero_point: Any, w: Any, w_scale: Tensor, w_zero_point: Any, y_scale: Tensor,
    y_zero_point: Any, b: Tensor | None, *, auto_pad: str = "NOTSET", dilations: Any = None, group: int = 1,
    kernel_shape: Any = None, pads: Any = None, strides: Any = None,
) -> Any:  # fmt: skip
    dtype = _dtype_of(x if y_zero_point is None else y_zero_point)
    shape = _channels(w)
    x, w = _centred(x, x_zero_point), _centred(w, w_zero_point, shape)
    bias = None if b is None else b.double()
    product = conv(x, w, bias, auto_pad=auto_pad, dilations=dilations, group=group, pads=pads, strides=strides)
    factor = _many(x_scale, None) * _many(w_scale, shape[:-1]) / _many(y_scale, None)
    return _requantized(product, factor, y_zero_point, dtype)
