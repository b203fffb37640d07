"""Arrays between pages of memory that must not be touched: a kernel that leaves its buffers ends the process."""

from __future__ import annotations

import ctypes
import mmap
from typing import Any

import numpy as np

Array = np.ndarray[Any, Any]


def guarded(array: Array, at_end: bool = True) -> Array:
    """A copy with the same strides, of which the last byte (or the first) lies beside a forbidden page."""
    low = sum(min(0, (n - 1) * s) for n, s in zip(array.shape, array.strides, strict=True))
    high = sum(max(0, (n - 1) * s) for n, s in zip(array.shape, array.strides, strict=True)) + array.itemsize
    if array.size == 0:
        low, high = 0, array.itemsize
    region = _region(high - low)
    start = len(region) - (high - low) if at_end else 0
    flat = region[start : start + high - low].view(array.dtype)
    first = flat[-low // array.itemsize :]
    copy = np.lib.stride_tricks.as_strided(first, array.shape, array.strides)
    if 0 not in array.strides:
        copy[...] = array
    elif array.size:
        copy[tuple(slice(0, 1) if s == 0 else slice(None) for s in array.strides)] = array[
            tuple(slice(0, 1) if s == 0 else slice(None) for s in array.strides)
        ]
    return copy


def _region(count: int) -> Array:
    """Whole pages for `count` bytes, with a forbidden page on either side."""
    page = mmap.PAGESIZE
    inner = -(-count // page) * page
    whole = np.frombuffer(mmap.mmap(-1, inner + 2 * page), np.uint8)
    for place in (0, inner + page):
        if _libc().mprotect(whole.ctypes.data + place, page, 0):
            raise OSError(ctypes.get_errno(), "mprotect")
    return whole[page : page + inner]


def _libc() -> Any:
    libc = ctypes.CDLL(None, use_errno=True)
    libc.mprotect.argtypes = [ctypes.c_void_p, ctypes.c_size_t, ctypes.c_int]
    return libc
