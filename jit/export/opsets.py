"""ONNX's version numbers and element types: tables that change when we say so, not when a library is updated.

Whatever onnx calls its newest version, onnxruntime may not load it yet; so ceilings come from here.
"""

from __future__ import annotations

from typing import Any

from jit.ir import dtypes
from jit.ir.dtypes import DType
from jit.ir.errors import ExportError, UsageError

DEFAULT_OPSET = 20

IR_VERSIONS = {
    9: 4, 10: 5, 11: 6, 12: 7, 13: 7, 14: 7, 15: 8, 16: 8, 17: 8, 18: 8, 19: 9,
    20: 10, 21: 10, 22: 10, 23: 11, 24: 12, 25: 13, 26: 13,
}  # fmt: skip
"""Opset -> the file format that came with it, so that a runtime that knows the one reads the other. Opset 20 takes the
format of 21, the first that may keep metadata on nodes."""

OPSETS = range(min(IR_VERSIONS), max(IR_VERSIONS) + 1)

ELEMENT_TYPES: dict[DType, int] = {
    dtypes.float32: 1, dtypes.uint8: 2, dtypes.int8: 3, dtypes.int16: 5, dtypes.int32: 6, dtypes.int64: 7,
    dtypes.bool_: 9, dtypes.float16: 10, dtypes.float64: 11, dtypes.complex64: 14, dtypes.complex128: 15,
    dtypes.bfloat16: 16, dtypes.uint16: 4, dtypes.uint32: 12, dtypes.uint64: 13, dtypes.float8_e4m3fn: 17,
    dtypes.float8_e4m3fnuz: 18, dtypes.float8_e5m2: 19, dtypes.float8_e5m2fnuz: 20, dtypes.float8_e8m0fnu: 24,
    dtypes.uint4: 21, dtypes.int4: 22,
}  # fmt: skip
"""A dtype's number in `TensorProto.DataType`."""

DTYPES = {number: dtype for dtype, number in ELEMENT_TYPES.items() if dtype in dtypes.KNOWN}
"""The dtypes that tensors have."""


def _without_underscore(name: str) -> str:
    """ONNX's spelling of a float of 8 bits."""
    return name.replace("float8_", "float8").replace("e8m0fnu", "e8m0")


KERNELS: dict[str, tuple[range, tuple[DType, ...]]] = {
    "RMSNormalization": (range(23, 27), (dtypes.float32, dtypes.float16)),
    "RotaryEmbedding": (range(23, 27), (dtypes.float32, dtypes.float16)),
    "Attention": (range(23, 24), (dtypes.float32, dtypes.float16)),
    "TensorScatter": (range(24, 27), (dtypes.float32, dtypes.float16, dtypes.float64, dtypes.int64, dtypes.int32)),
    "CumProd": (range(26, 27), (dtypes.float32, dtypes.float64, dtypes.int64, dtypes.int32)),
}
"""Operators newer than the default opset that are written as themselves: the opsets and the element types for which
onnxruntime 1.32 has a kernel on CPUs. It takes others apart (GroupNormalization, Attention from opset 24 on) or refuses
them (Swish); their parts, as we write them, run at least as fast."""

TYPE_STRINGS: dict[DType, str] = {
    dtype: f"tensor({ {'float32': 'float', 'float64': 'double'}.get(dtype.name, _without_underscore(dtype.name)) })"
    for dtype in ELEMENT_TYPES
}
"""A dtype's name in operator schemas: `tensor(float)`."""


def dtype_of(array: Any) -> DType:
    """The element type of an array of numpy's, of those that only models hold as well."""
    small = next((dtype for dtype in (dtypes.int4, dtypes.uint4) if dtype.numpy == array.dtype), None)
    return small or dtypes.from_numpy(array.dtype)


def check_opset(opset: Any) -> int:
    """`opset` (None: the default) if it is one that we can write; UsageError otherwise.

    Raises:
        UsageError: It is not one of `OPSETS`.
    """
    if opset is None:
        return DEFAULT_OPSET
    if isinstance(opset, bool) or not isinstance(opset, int) or opset not in OPSETS:
        raise UsageError(f"opset_version must be a whole number from {OPSETS[0]} to {OPSETS[-1]}, got {opset!r}.")
    return opset


def element_type(dtype: DType) -> int:
    """The number of `dtype` in ONNX; ExportError for a type that onnx runtimes do not compute with.

    Raises:
        ExportError: The dtype is complex.
    """
    if dtype.is_complex:
        raise ExportError(
            f"ONNX operators do not compute with {dtype.name}: export the real and imaginary parts instead."
        )
    return ELEMENT_TYPES[dtype]
