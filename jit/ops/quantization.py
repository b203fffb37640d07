"""Quantisation: numbers as few integers, apart by a scale, around a zero point; and back.

    integers = clamp(round(x / scale) + zero_point, quant_min, quant_max)           x = (integers - zero_point) * scale

`fake_quantize_*` goes there and back at once, in floats; gradients pass where nothing was cut off.
Note [Division by the scale]
    `x / scale` is divided, as PyTorch documents it and ONNX runtimes compute it. A product with 1 / scale, which is
    what PyTorch's kernels do, would now and then round to the neighbour, and the exported model would differ.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

import numpy as np

from jit.ir import dtypes
from jit.ir.dtypes import DType
from jit.ir.errors import ShapeError, UsageError
from jit.ir.geometry import wrap_dim
from jit.ir.op import absent, composite, pointwise
from jit.ir.samples import Sample, make, sample, strided

from .common import floats_only, is_fixed

if TYPE_CHECKING:
    from .protocols import Elements, Math, Number, OnnxWriter, Ops, Tensor, Value

_OF_OBSERVERS = absent("scales and zero points are what observers have found")


def _sample(*args: object, **kwargs: Any) -> Sample:
    """A sample whose derivative is not that of the values, which are steps: gradients pass unrounded."""
    return sample(*args, grad=False, **kwargs)


# -- there and back ----------------------------------------------------------------------------------------------


@floats_only
@pointwise("aten::_fake_quantize(Tensor self, Tensor scale, Tensor zero_point, int quant_min, int quant_max) -> Tensor",
           namespaces=(), cost=12, onnx=lambda g, *given: _onnx_by_parts(g, *given),
           grad=dict(scale=_OF_OBSERVERS, zero_point=_OF_OBSERVERS,
                     self=lambda F, g, self, scale, zero_point, quant_min, quant_max:
                          F.where(_is_within(F, F.round(self / scale) + zero_point, quant_min, quant_max),
                                  g, 0)))  # fmt: skip
def _fake_quantize(
    m: Math, self: Elements, scale: Elements, zero_point: Elements, quant_min: int, quant_max: int
) -> Elements:
    """self rounded to multiples of the scale, of which there are quant_max - quant_min + 1; all operands broadcast."""
    found = m.minimum(m.maximum(m.round(self / scale) + zero_point, quant_min), quant_max)
    return (found - zero_point) * scale


def _is_within(F: Ops, x: Tensor, low: int, high: int) -> Tensor:
    return F.logical_and(F.ge(x, low), F.le(x, high))


@_fake_quantize.samples
def _() -> Iterator[Sample]:
    yield _sample(make(3, 4), 0.1, 3, -128, 127)
    yield _sample(make(3, 4), 0.1, 0, -8, 7, note="cut off")
    yield _sample(make(3, 4), make(3, 1, low=0.05, high=0.2), np.array([[0], [3], [-2]], np.int32), -128, 127)
    yield _sample(make(), 0.1, 128, 0, 255, note="0-d")
    yield _sample(make(0, 3), 0.1, 0, 0, 255, note="empty")
    yield _sample(strided(make(3, 5)), 0.05, 100, 0, 255, note="strided")
    yield _sample(make(4, dtype="float64"), 0.07, 0, -127, 127, note="float64")
    yield _sample(np.array([np.inf, -np.inf, 3e38, -0.0, 1e-40], np.float32), 0.5, 1, 0, 255, note="special")
    yield _sample(np.array([np.nan], np.float32), 0.5, 1, 0, 255, note="nan", onnx=False)


@composite("aten::fake_quantize_per_tensor_affine.tensor_qparams(Tensor self, Tensor scale, Tensor zero_point, "
           "int quant_min, int quant_max) -> Tensor", namespaces=("jit",),
           onnx=lambda g, self, *given: _onnx_there_and_back(g, self, *given))  # fmt: skip
def fake_quantize_per_tensor_affine_tensor_qparams(
    F: Ops, self: Tensor, scale: Tensor, zero_point: Tensor, quant_min: int, quant_max: int
) -> Tensor:
    """self rounded to multiples of the scale; scale and zero point are tensors of one element."""
    _check_range(quant_min, quant_max)
    if scale.numel() != 1 or zero_point.numel() != 1:
        raise ShapeError("a tensor has one scale and one zero point; for several use fake_quantize_per_channel_affine")
    return _exactly(F, self, F.reshape(scale, ()), F.reshape(zero_point, ()), quant_min, quant_max)


@fake_quantize_per_tensor_affine_tensor_qparams.samples
def _() -> Iterator[Sample]:
    for scale, zero in ((np.float32(0.1), np.int32(3)), (np.array([0.1], np.float32), np.array([3], np.int32))):
        yield _sample(make(3, 4), np.asarray(scale), np.asarray(zero), -128, 127)
    yield _sample(make(0, 3), np.array(0.1, np.float32), np.array(0.0, np.float32), 0, 255, note="empty")
    yield _sample(make(4, dtype="float16"), np.array(0.1, np.float32), np.array(3), 0, 255, note="half")


@composite("aten::fake_quantize_per_tensor_affine(Tensor self, float scale, int zero_point, int quant_min, "
           "int quant_max) -> Tensor", namespaces=("jit",),
           onnx=lambda g, self, *given: _onnx_there_and_back(g, self, *given))  # fmt: skip
def fake_quantize_per_tensor_affine(
    F: Ops, self: Tensor, scale: float, zero_point: int, quant_min: int, quant_max: int
) -> Tensor:
    """self rounded to multiples of the scale, from quant_min - zero_point to quant_max - zero_point."""
    _check_range(quant_min, quant_max)
    if is_fixed(zero_point) and not quant_min <= zero_point <= quant_max:
        raise UsageError(f"the zero point {zero_point} is not between quant_min {quant_min} and quant_max {quant_max}")
    return F._fake_quantize(self, scale, zero_point, quant_min, quant_max)


@fake_quantize_per_tensor_affine.samples
def _() -> Iterator[Sample]:
    yield _sample(make(3, 4), 0.1, 3, -128, 127)
    yield _sample(make(3, 4), 0.25, 0, -8, 7, note="4 bits")
    yield _sample(make(3, 4), 0.25, 8, 0, 15, note="4 bits without a sign")
    yield _sample(make(3, 4), 0.01, 64, 0, 127, note="cut off")
    yield _sample(make(3, 4), 0.001, 64, -32768, 32767, note="16 bits")
    yield _sample(make(3, 4), 0.001, 64, -40000, 50000, note="a range of no type")
    yield _sample(make(), 0.1, 128, 0, 255, note="0-d")
    yield _sample(make(0, 3), 0.1, 0, 0, 255, note="empty")
    yield _sample(strided(make(3, 5)), 0.05, 100, 0, 255, note="strided")
    yield _sample(make(4, dtype="float64"), 0.07, 0, -127, 127, note="float64")
    yield _sample(make(4, dtype="float16"), 0.07, 0, -127, 127, note="half", onnx=False)


@composite("aten::fake_quantize_per_channel_affine(Tensor self, Tensor scale, Tensor zero_point, int axis, "
           "int quant_min, int quant_max) -> Tensor", namespaces=("jit",))  # fmt: skip
def fake_quantize_per_channel_affine(
    F: Ops, self: Tensor, scale: Tensor, zero_point: Tensor, axis: int, quant_min: int, quant_max: int
) -> Tensor:
    """self rounded to multiples of a scale for each place along an axis."""
    _check_range(quant_min, quant_max)
    return _exactly(F, self, *_along(F, self, scale, zero_point, axis), quant_min, quant_max)


@fake_quantize_per_channel_affine.onnx
def _(g: OnnxWriter, self: Value, scale: Value, zero_point: Value, axis: int, quant_min: int, quant_max: int) -> Value:
    return _onnx_there_and_back(g, self, scale, zero_point, quant_min, quant_max, wrap_dim(axis, self.ndim))


_SCALE, _ZERO, _NONE = np.array([0.1], np.float32), np.array([3], np.int32), np.array([0], np.int32)
_SCALES, _ZEROS = np.array([0.05, 0.1, 0.3], np.float32), np.array([0, 3, -7], np.int32)


@fake_quantize_per_channel_affine.samples
def _() -> Iterator[Sample]:
    yield _sample(make(3, 4), _SCALES, _ZEROS, 0, -128, 127)
    yield _sample(make(2, 3, 4), _SCALES, _ZEROS, -2, -128, 127, note="counted from behind")
    yield _sample(make(3, 2), _SCALES, np.zeros(3, np.float32), 0, -8, 7, note="4 bits")
    yield _sample(make(3, 0), _SCALES, _ZEROS, 0, -128, 127, note="empty")
    yield _sample(make(3, 4, dtype="float64"), _SCALES, _ZEROS, 0, -128, 127, note="float64")
    yield _sample(make(3, 4, dtype="float16"), _SCALES, _ZEROS, 0, -128, 127, note="half")


def _exactly(F: Ops, x: Tensor, scale: Tensor, zero_point: Tensor, low: int, high: int) -> Tensor:
    """The numbers of `x` quantised and back in its dtype; 16-bit floats are rounded only once, at the end."""
    if not x.dtype.is_half:
        return F._fake_quantize(x, F._to_copy(scale, dtype=x.dtype), zero_point, low, high)
    wide = F._to_copy(x, dtype=dtypes.float32)
    return F._to_copy(F._fake_quantize(wide, scale, zero_point, low, high), dtype=x.dtype)


# -- one way -----------------------------------------------------------------------------------------------------


@composite("aten::quantize_per_tensor(Tensor self, Tensor scale, Tensor zero_point, int quant_min, int quant_max, "
           "ScalarType dtype) -> Tensor", namespaces=())  # fmt: skip
def quantize_per_tensor(
    F: Ops, self: Tensor, scale: Tensor, zero_point: Tensor, quant_min: int, quant_max: int, dtype: DType
) -> Tensor:
    """The integers that stand for self, in a dtype of integers."""
    return _integers(F, self, scale, zero_point, quant_min, quant_max, dtype)


@quantize_per_tensor.onnx
def _(
    g: OnnxWriter, self: Value, scale: Value, zero_point: Value, quant_min: int, quant_max: int, dtype: DType
) -> Value:
    return g.cast(_onnx_there(g, self, scale, zero_point, quant_min, quant_max, None)[0], dtype)


@quantize_per_tensor.samples
def _() -> Iterator[Sample]:
    yield sample(make(3, 4), _SCALE, _ZERO, -128, 127, dtypes.int8)
    yield sample(make(3, 4), np.array(0.1, np.float32), np.array(100, np.int32), 0, 255, dtypes.uint8)
    yield sample(make(3, 4), _SCALE, _ZERO, -8, 7, dtypes.int8, note="4 bits")
    yield sample(make(0, 3), _SCALE, _ZERO, -128, 127, dtypes.int32, note="empty")


@composite("aten::quantize_per_channel(Tensor self, Tensor scales, Tensor zero_points, int axis, int quant_min, "
           "int quant_max, ScalarType dtype) -> Tensor", namespaces=())  # fmt: skip
def quantize_per_channel(
    F: Ops, self: Tensor, scales: Tensor, zero_points: Tensor, axis: int, quant_min: int, quant_max: int, dtype: DType
) -> Tensor:
    """The integers that stand for self, by a scale for each place along an axis."""
    return _integers(F, self, *_along(F, self, scales, zero_points, axis), quant_min, quant_max, dtype)


@quantize_per_channel.onnx
def _(
    g: OnnxWriter, self: Value, scales: Value, zero_points: Value, axis: int, quant_min: int, quant_max: int,
    dtype: DType,
) -> Value:  # fmt: skip
    given = scales, zero_points, quant_min, quant_max, wrap_dim(axis, self.ndim)
    return g.cast(_onnx_there(g, self, *given)[0], dtype)


@quantize_per_channel.samples
def _() -> Iterator[Sample]:
    yield sample(make(3, 4), _SCALES, _ZEROS, 0, -128, 127, dtypes.int8)
    yield sample(make(2, 3), _SCALES, _ZEROS, -1, -8, 7, dtypes.int8, note="4 bits")


@composite("aten::dequantize_per_tensor(Tensor self, Tensor scale, Tensor zero_point, int quant_min, int quant_max) "
           "-> Tensor", namespaces=())  # fmt: skip
def dequantize_per_tensor(
    F: Ops, self: Tensor, scale: Tensor, zero_point: Tensor, quant_min: int, quant_max: int
) -> Tensor:
    """The floats that integers stand for."""
    return _numbers(F, self, scale, zero_point)


@dequantize_per_tensor.onnx
def _(g: OnnxWriter, self: Value, scale: Value, zero_point: Value, quant_min: int, quant_max: int) -> Value:
    return _onnx_back(g, self, scale, zero_point, quant_min, quant_max, None)


@dequantize_per_tensor.samples
def _() -> Iterator[Sample]:
    few = make(3, 4, low=-8, high=7, dtype="int8")
    yield sample(few, _SCALE, _ZERO, -128, 127)
    yield sample(few, np.array(0.1, np.float32), np.array(3, np.int32), -8, 7, note="4 bits")
    yield sample(make(5, low=-1e6, high=1e6, dtype="int32"), _SCALE, _NONE, -(2**31), 2**31 - 1, note="32 bits")
    yield sample(make(0, 3, dtype="uint8"), _SCALE, _ZERO, 0, 255, note="empty")


@composite("aten::dequantize_per_channel(Tensor self, Tensor scales, Tensor zero_points, int axis, int quant_min, "
           "int quant_max) -> Tensor", namespaces=())  # fmt: skip
def dequantize_per_channel(
    F: Ops, self: Tensor, scales: Tensor, zero_points: Tensor, axis: int, quant_min: int, quant_max: int
) -> Tensor:
    """The floats that integers stand for, by a scale for each place along an axis."""
    return _numbers(F, self, *_along(F, self, scales, zero_points, axis))


@dequantize_per_channel.onnx
def _(
    g: OnnxWriter, self: Value, scales: Value, zero_points: Value, axis: int, quant_min: int, quant_max: int
) -> Value:
    return _onnx_back(g, self, scales, zero_points, quant_min, quant_max, wrap_dim(axis, self.ndim))


@dequantize_per_channel.samples
def _() -> Iterator[Sample]:
    few = make(3, 4, low=-8, high=7, dtype="int8")
    yield sample(few, _SCALES, _ZEROS, 0, -128, 127)
    yield sample(few, _SCALES, np.zeros(3, np.int32), -2, -8, 7, note="4 bits")
    yield sample(make(3, low=-1e6, high=1e6, dtype="int32"), _SCALES, np.zeros(3, np.int32), 0, -(2**31), 2**31 - 1)


def _integers(
    F: Ops, x: Tensor, scale: Tensor, zero_point: Tensor, quant_min: int, quant_max: int, dtype: DType
) -> Tensor:
    _check_range(quant_min, quant_max)
    return F._to_copy(F.clamp(F.round(x / scale) + zero_point, quant_min, quant_max), dtype=dtype)


def _numbers(F: Ops, x: Tensor, scale: Tensor, zero_point: Tensor) -> Tensor:
    return (F._to_copy(x, dtype=scale.dtype) - zero_point) * scale


# -- arguments ---------------------------------------------------------------------------------------------------


def _check_range(quant_min: int, quant_max: int) -> None:
    if quant_min > quant_max:
        raise UsageError(f"quant_min {quant_min} is above quant_max {quant_max}")


def _along(F: Ops, x: Tensor, scales: Tensor, zero_points: Tensor, axis: int) -> tuple[Tensor, Tensor]:
    """Scales and zero points as they broadcast against `x`, one for each place along the axis."""
    axis = wrap_dim(axis, x.ndim)
    size = x.shape[axis]
    if scales.ndim != 1 or zero_points.ndim != 1 or scales.shape[0] != size or zero_points.shape[0] != size:
        raise ShapeError(
            f"dim {axis} has size {size}, so scales and zero points must be vectors of that size, got the sizes "
            f"{list(scales.shape)} and {list(zero_points.shape)}"
        )
    sizes = [-1 if dim == axis else 1 for dim in range(x.ndim)]
    return F.reshape(scales, sizes), F.reshape(zero_points, sizes)


# -- ONNX --------------------------------------------------------------------------------------------------------

_TYPES = {
    (0, 15): dtypes.uint4, (-8, 7): dtypes.int4, (0, 255): dtypes.uint8, (-128, 127): dtypes.int8,
    (-32768, 32767): dtypes.int16,
}  # fmt: skip
_SINCE = {dtypes.uint4: 21, dtypes.int4: 21, dtypes.int16: 21}


def _element(g: OnnxWriter, low: int, high: int) -> tuple[DType | None, bool]:
    """The narrowest type of QuantizeLinear that holds a range, None if none does, and whether it holds more."""
    for (least, most), dtype in _TYPES.items():
        exact = (least, most) == (low, high)
        small = dtype in (dtypes.uint4, dtypes.int4)
        if least <= low and high <= most and g.opset >= _SINCE.get(dtype, 0) and (exact or not small):
            return dtype, not exact
    return None, False


def _onnx_there(
    g: OnnxWriter, x: Value, scale: Value | float, zero_point: Value | int, low: int, high: int, axis: int | None
) -> tuple[Value, Value, Value]:
    """QuantizeLinear, its scale and its zero point."""
    dtype, is_wider = _element(g, low, high)
    if dtype is None:
        raise g.unsupported(f"ONNX has no integers from {low} to {high} at opset {g.opset}")
    factor, zero = _as_many(g, scale, dtypes.float32, axis), _as_many(g, zero_point, dtype, axis)
    found = g.op("QuantizeLinear", g.cast(x, dtypes.float32), factor, zero, axis=axis)
    if is_wider:
        found = g.op("Clip", found, g.constant(low, dtype=dtype), g.constant(high, dtype=dtype))
    return found, factor, zero


def _as_many(g: OnnxWriter, numbers: Value | float, dtype: DType, axis: int | None) -> Value:
    """Scales or zero points in a dtype: a vector along an axis, else one without dims."""
    found = g.constant(numbers, dtype=dtype)
    return found if axis is not None or found.ndim == 0 else g.op("Reshape", found, g.ints([]))


def _onnx_back(
    g: OnnxWriter, x: Value, scale: Value | float, zero_point: Value | int, low: int, high: int, axis: int | None
) -> Value:
    """DequantizeLinear; of 4-bit integers if they are held in wider ones."""
    dtype = dtypes.int32 if x.dtype is dtypes.int32 else _element(g, low, high)[0]
    if dtype is None:
        raise g.unsupported(f"ONNX has no integers from {low} to {high} at opset {g.opset}")
    factor = _as_many(g, scale, dtypes.float32, axis)
    zero = None if dtype is dtypes.int32 else _as_many(g, zero_point, dtype, axis)
    return _floats(g, g.cast(x, dtype), factor, zero, axis)


def _floats(g: OnnxWriter, x: Value, factor: Value, zero: Value | None, axis: int | None) -> Value:
    """DequantizeLinear; where the result's type is no longer that of the scale, it is said."""
    more = {"output_dtype": dtypes.float32} if g.opset >= 23 else {}
    return g.op("DequantizeLinear", x, factor, zero, axis=axis, **more)


def _onnx_there_and_back(
    g: OnnxWriter, x: Value, scale: Value | float, zero_point: Value | int, low: int, high: int,
    axis: int | None = None,
) -> Value:  # fmt: skip
    """QuantizeLinear and DequantizeLinear; the arithmetic itself in float64, and for ranges that no type has."""
    too_old = axis is not None and g.opset < 13
    if x.dtype is dtypes.float64 or too_old or _element(g, low, high)[0] is None:
        return _onnx_by_parts(g, x, _spread(g, scale, x, axis), _spread(g, zero_point, x, axis), low, high)
    found, factor, zero = _onnx_there(g, x, scale, zero_point, low, high, axis)
    return g.cast(_floats(g, found, factor, zero, axis), x.dtype)


def _spread(g: OnnxWriter, numbers: Value | float, x: Value, axis: int | None) -> Value:
    """Scales or zero points as they broadcast against x."""
    sizes = [] if axis is None else [-1 if dim == axis else 1 for dim in range(x.ndim)]
    found = g.constant(numbers, like=x)
    return found if found.ndim == len(sizes) else g.op("Reshape", found, g.ints(sizes))


def _onnx_by_parts(g: OnnxWriter, x: Value, scale: Value, zero_point: Value, low: Number, high: Number) -> Value:
    moved = g.op("Add", g.op("Round", g.op("Div", x, scale)), zero_point)
    found = g.op("Clip", moved, g.constant(low, like=moved), g.constant(high, like=moved))
    return g.op("Mul", g.op("Sub", found, zero_point), scale)
