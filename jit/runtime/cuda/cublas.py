"""cuBLAS: a handle for each thread, the numbers by which it knows dtypes, and its errors.

A handle is not to be used by two threads at once, and has memory of its own on the GPU. When a thread has ended, the
next new one takes its handle.
"""

from __future__ import annotations

import ctypes
import threading
import weakref
from typing import NamedTuple

from jit.ir.dtypes import DType, bfloat16, float16, float32, float64
from jit.ir.errors import AcceleratorError, Error

from .cublas_library import CublasFunctions
from .driver import out_of_memory

ALLOCATION_FAILED = 3
SUMS_IN_FLOAT32 = 16
"""The math mode in which parts of sums of 16-bit floats are not rounded to these before they are added up."""
FAILURES = {
    1: "NOT_INITIALIZED", ALLOCATION_FAILED: "ALLOC_FAILED", 7: "INVALID_VALUE", 8: "ARCH_MISMATCH",
    11: "MAPPING_ERROR", 13: "EXECUTION_FAILED", 14: "INTERNAL_ERROR", 15: "NOT_SUPPORTED",
}  # fmt: skip
"""The names of its statuses."""


class ElementKind(NamedTuple):
    """The numbers by which cuBLAS knows a dtype."""

    elements: int
    """The kind of the elements of matrices."""
    sums: int
    """The kind of the sums, and of alpha and beta: float32 without shortened factors, or float64."""


KINDS: dict[DType, ElementKind] = {
    float32: ElementKind(0, 68),
    float64: ElementKind(1, 70),
    float16: ElementKind(2, 68),
    bfloat16: ElementKind(14, 68),
}
"""The dtypes of which cuBLAS computes products for this package."""


class Cublas:
    """The library on one GPU, which is the current one when a handle is asked for.

    Args:
        functions: Its functions.
    """

    def __init__(self, functions: CublasFunctions) -> None:
        self.functions = functions
        self._threads = threading.local()
        self._free: list[_Handle] = []

    def handle(self, stream: int) -> int:
        """The handle of this thread, which queues products on a stream from now on.

        Raises:
            AcceleratorError: cuBLAS refuses.
            OutOfMemoryError: The GPU has no memory left for a new handle.
        """
        lent: _Lent = getattr(self._threads, "lent", None) or self._lend()
        handle = lent.handle
        if handle.stream != stream:
            handle.stream = None
            check(_call(self.functions.set_stream, handle.address, stream), "a stream")
            handle.stream = stream
        return handle.address

    def _lend(self) -> _Lent:
        """A handle for this thread, until it ends."""
        try:
            handle = self._free.pop()
        except IndexError:
            handle = self._made()
        lent = self._threads.lent = _Lent(handle)
        weakref.finalize(lent, self._free.append, handle).atexit = False
        return lent

    def _made(self) -> _Handle:
        made = ctypes.c_void_p()
        check(_call(self.functions.create, ctypes.addressof(made)), "a handle")
        assert made.value is not None
        check(_call(self.functions.set_math_mode, made.value, SUMS_IN_FLOAT32), "a way to add up")
        return _Handle(made.value)


class _Handle:
    """A handle, and the stream that it was told last."""

    def __init__(self, address: int) -> None:
        self.address = address
        self.stream: int | None = None


class _Lent:
    """A handle in the hands of a thread."""

    def __init__(self, handle: _Handle) -> None:
        self.handle = handle


def _call(address: int, *words: int) -> int:
    return int(ctypes.CFUNCTYPE(ctypes.c_int, *[ctypes.c_int64] * len(words))(address)(*words))


def check(status: int, what: str) -> None:
    """Raise the error of a status of cuBLAS, if it is one; `what` says what has failed."""
    if status:
        raise cublas_error(status, what)


def cublas_error(status: int, what: str) -> Error:
    """The error of this package for a status of cuBLAS."""
    if status == ALLOCATION_FAILED:
        return out_of_memory(what)
    name = FAILURES.get(status, f"status {status}")
    return AcceleratorError(f"cuBLAS could not compute {what} ({name}); run it on the CPU")
