"""Constants, and conversions of element types."""

from __future__ import annotations

from functools import cache
from typing import Any

import ml_dtypes
import numpy as np

from jit.eager.namespace import F
from jit.export.opsets import DTYPES
from jit.ir.dtypes import DType, float32
from jit.ir.errors import Error, ModelError

from ..table import Tensor, operator
from ..values import SMALL, Known, tensor_dtype


@cache
def numpy_dtype(element: int) -> np.dtype[Any]:
    """Numpy's dtype for a number of `TensorProto.DataType`."""
    import onnx

    try:
        return np.dtype(onnx.helper.tensor_dtype_to_np_dtype(element))
    except KeyError:
        raise ModelError(f"there is no element type {element}") from None


def array_of(value: Any) -> np.ndarray:
    """A value as an array of numpy, for which a tensor is looked at."""
    if isinstance(value, Known):
        return np.asarray(value.array, value.dtype)
    return np.asarray(value.numpy())


def result(array: Any) -> Any:
    """An array as a tensor, if tensors have elements of its type and there are more than a few."""
    known = Known(array)
    try:
        tensor_dtype(known.dtype)
    except Error:
        return known
    return known if known.array.size <= SMALL and known.dtype.kind in "iub" else known.tensor()


@operator("Identity")
def identity(x: Any) -> Any:
    return x


@operator("Constant")
def constant(
    *, value: Any = None, sparse_value: Any = None, value_float: Any = None, value_floats: Any = None,
    value_int: Any = None, value_ints: Any = None, value_string: Any = None, value_strings: Any = None,
) -> Any:  # fmt: skip
    for given in (value, sparse_value):
        if given is not None:
            return given
    for number, dtype in ((value_float, np.float32), (value_floats, np.float32), (value_int, np.int64),
                          (value_ints, np.int64), (value_string, object), (value_strings, object)):  # fmt: skip
        if number is not None:
            return Known(np.array(number, dtype))
    raise ModelError("a Constant has no value")


# -- casts ---------------------------------------------------------------------------------------------------------

_POWERS = "float8_e8m0fnu"
"""Powers of two, to which ONNX rounds in several ways."""
_SATURATED = {
    "float8_e4m3fn", "float8_e4m3fnuz", "float8_e5m2", "float8_e5m2fnuz", "float6_e2m3fn", "float6_e3m2fn",
    "float4_e2m1fn",
}  # fmt: skip


def cast_array(array: np.ndarray, dtype: np.dtype[Any], saturate: bool = True, rounding: str = "up") -> np.ndarray:
    """An array in another element type, as ONNX converts: small floats stay within their range."""
    with np.errstate(all="ignore"):
        if dtype.name == _POWERS:
            return _powers_of_two(array, saturate, rounding)
        if dtype.name in _SATURATED:
            return _small_floats(array, dtype, saturate)
        if dtype.name in ("int4", "uint4", "int2", "uint2"):
            return _few_bits(array, dtype)
        if array.dtype.kind in "OUS" or dtype.kind in "OUS":
            return _with_texts(array, dtype)
        if array.dtype.name in (*_SATURATED, _POWERS):
            array = array.astype(np.float32)
        return array.astype(dtype)


def _small_floats(array: np.ndarray, dtype: np.dtype[Any], saturate: bool) -> np.ndarray:
    wide = np.asarray(array, np.float32)
    if not saturate:
        return wide.astype(dtype)
    largest = float(ml_dtypes.finfo(dtype).max)  # type: ignore[no-untyped-call]
    limited = np.where(np.isnan(wide), wide, np.clip(wide, -largest, largest))
    return limited.astype(dtype)


def _powers_of_two(array: np.ndarray, saturate: bool, rounding: str) -> np.ndarray:
    from onnx.numpy_helper import to_float8e8m0

    return to_float8e8m0(np.asarray(array, np.float32), saturate=saturate, round_mode=rounding)


def _few_bits(array: np.ndarray, dtype: np.dtype[Any]) -> np.ndarray:
    bits, signed = int(dtype.name[-1]), dtype.name[0] == "i"
    whole = np.asarray(array).astype(np.float64).astype(np.int64) & ((1 << bits) - 1)
    return (
        np.where(whole >= 1 << (bits - 1), whole - (1 << bits), whole).astype(dtype) if signed else whole.astype(dtype)
    )


def _with_texts(array: np.ndarray, dtype: np.dtype[Any]) -> np.ndarray:
    if dtype.kind in "OUS":
        return np.array([_text(v) for v in array.ravel()], object).reshape(array.shape)
    return np.array([float(v) for v in array.ravel()], np.float64).reshape(array.shape).astype(dtype)


def _text(value: Any) -> str:
    if isinstance(value, (bytes, str)):
        return value.decode() if isinstance(value, bytes) else value
    return (
        repr(value.item()) if value.dtype.kind != "f" else np.format_float_positional(value, trim="-", fractional=False)
    )


def _converted(x: Any, dtype: np.dtype[Any], saturate: bool, rounding: str) -> Any:
    if isinstance(x, Known) and x.symbolic and dtype.kind in "iuf":
        kind = float if dtype.kind == "f" else (lambda v: v // 1 if x.dtype.kind == "f" else v)
        return Known(np.frompyfunc(lambda v: v * 1.0 if kind is float else kind(v), 1, 1)(x.array), dtype)
    own = own_dtype(dtype)
    if isinstance(x, Tensor) and own is not None and dtype.name != _POWERS:
        return cast_tensor(x, own, saturate)
    return result(cast_array(array_of(x), dtype, saturate, rounding))


def cast_tensor(x: Tensor, dtype: DType, saturate: bool = True) -> Tensor:
    """A tensor in another dtype; floats of 8 bits stay within their range if they `saturate`."""
    if x.dtype is dtype:
        return x
    if saturate and dtype.name in _SATURATED:
        largest = float(ml_dtypes.finfo(dtype.numpy).max)  # type: ignore[no-untyped-call]
        x = F.clamp(x.to(float32), -largest, largest)
    return x.to(dtype)


def own_dtype(dtype: np.dtype[Any] | None) -> DType | None:
    """The dtype that tensors have for elements of this type, if they have one."""
    try:
        return None if dtype is None else tensor_dtype(dtype)
    except Error:
        return None


def is_foreign(dtype: np.dtype[Any] | None) -> bool:
    """Whether elements of this type are known and tensors do not have them, or do not round to them as models do."""
    return dtype is not None and (own_dtype(dtype) is None or dtype.name == _POWERS)


@operator("Cast", on_data=lambda attributes, _: is_foreign(_target(attributes.get("to", 0))))
def cast(x: Any, *, to: Any, saturate: int = 1, round_mode: str = "up") -> Any:
    return _converted(x, _target(to), bool(saturate), round_mode)


def _target(to: Any) -> np.dtype[Any]:
    return numpy_dtype(to if isinstance(to, int) else _NAMES.get(to, 0))


_NAMES = {dtype.name.upper(): number for number, dtype in DTYPES.items()} | {"FLOAT": 1, "DOUBLE": 11}
"""The words that opset 1 has for element types."""


@operator("CastLike", on_data=lambda _, types: any(map(is_foreign, types[1:])))
def cast_like(x: Any, like: Any, *, saturate: int = 1, round_mode: str = "up") -> Any:
    dtype = like.dtype if isinstance(like, Known) else like.dtype.numpy
    return _converted(x, dtype, bool(saturate), round_mode)


@operator("BitCast", on_data=True)
def bitcast(x: Any, *, to: int) -> Any:
    return result(array_of(x).view(numpy_dtype(to)))
