"""Calls native functions on arrays: the C ABI of a CppOp.

    int32 fn(buffer *args, int64 n, void *ctx)      inputs first, then outputs; 0 for success
    buffer = {void *data; int64 ndim; int64 *sizes; int64 *strides; int32 dtype; int32 device}

Strides are in bytes. `dtype` is the position in `jit.ir.dtypes.KNOWN`: bool 0, uint8 1, int8 2, int16 3, int32 4,
int64 5, float16 6, bfloat16 7, float32 8, float64 9, complex64 10, complex128 11. `device` is 0 for the CPU.
"""

from __future__ import annotations

import ctypes
from collections.abc import Sequence
from typing import Any

from jit.ir import dtypes
from jit.ir.errors import Error

from .arrays import address_of


class NativeBuffer(ctypes.Structure):
    """One array as the native function sees it."""

    _fields_ = (
        ("data", ctypes.c_void_p),
        ("ndim", ctypes.c_int64),
        ("sizes", ctypes.POINTER(ctypes.c_int64)),
        ("strides", ctypes.POINTER(ctypes.c_int64)),
        ("dtype", ctypes.c_int32),
        ("device", ctypes.c_int32),
    )


SIGNATURE = ctypes.CFUNCTYPE(ctypes.c_int32, ctypes.POINTER(NativeBuffer), ctypes.c_int64, ctypes.c_void_p)
_CODES = {dtype.numpy: code for code, dtype in enumerate(dtypes.KNOWN)}


def call_native(
    function: Any, name: str, inputs: Sequence[Any], outputs: Sequence[Any], context: int | None = None
) -> None:
    """Call `function` (a `SIGNATURE`) without the GIL; Error if it returns anything but 0."""
    arrays = [*inputs, *outputs]
    kept = []
    buffers = (NativeBuffer * len(arrays))()
    for buffer, array in zip(buffers, arrays, strict=True):
        numbers = ctypes.c_int64 * max(array.ndim, 1)
        sizes, strides = numbers(*array.shape), numbers(*array.strides)
        kept.append((sizes, strides))
        buffer.data, buffer.ndim = address_of(array), array.ndim
        buffer.sizes, buffer.strides = sizes, strides
        buffer.dtype, buffer.device = _CODES[array.dtype], 0
    status = function(buffers, len(arrays), context)
    if status != 0:
        raise Error(f"the native function {name} failed with status {status}; it has to return 0 for success")
