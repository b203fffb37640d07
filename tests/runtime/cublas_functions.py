"""The functions of cuBLAS that native code calls, as its manual describes them, on the memory of the simulated device.

Matrices lie column by column. A product of arguments that the manual forbids is refused with INVALID_VALUE; one that
reads or writes beyond an allocation ends with EXECUTION_FAILED.
"""

from __future__ import annotations

import ctypes
import threading
from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np

from jit.ir.dtypes import bfloat16
from jit.runtime.cuda.cublas_library import SYMBOLS, CublasFunctions
from jit.runtime.cuda.simulated import memory_at

NOT_INITIALIZED, INVALID_VALUE, EXECUTION_FAILED = 1, 7, 13
ELEMENTS: dict[int, Any] = {0: np.dtype("f4"), 1: np.dtype("f8"), 2: np.dtype("f2"), 14: bfloat16.numpy}
"""The dtypes, by the numbers of cudaDataType."""
SUMS: dict[int, Any] = {68: np.dtype("f4"), 70: np.dtype("f8")}
"""The dtypes of sums, by the numbers of cublasComputeType."""


class Operand(NamedTuple):
    """A batch of matrices in memory."""

    address: int
    kind: int
    leading: int
    step: int


class SimulatedCublas:
    """Functions with the signatures of cuBLAS.

    Args:
        multiplied: Told of each product that is computed.
    """

    def __init__(self, multiplied: Callable[[], None]) -> None:
        self._multiplied = multiplied
        self.handles: dict[int, dict[str, int]] = {}
        """The stream, the math mode and the thread of each handle."""
        self.calls: list[tuple[int, ...]] = []
        """The sizes of products: rows, columns, terms and batch as cuBLAS has them, and the stream."""
        self.refused: dict[str, int] = {}
        """Statuses that functions answer instead of doing anything, by their names."""
        self._kept: list[Any] = []
        self._lock = threading.Lock()

    def functions(self) -> CublasFunctions:
        """The addresses of the functions."""
        p, i, n = ctypes.c_void_p, ctypes.c_int, ctypes.c_int64
        product = (p, i, i, n, n, n, p, p, i, n, n, p, i, n, n, p, p, i, n, n, n, i, i)
        signatures: dict[str, tuple[Callable[..., int], tuple[Any, ...]]] = {
            "cublasCreate_v2": (self._create, (p,)),
            "cublasSetStream_v2": (self._set_stream, (p, p)),
            "cublasSetMathMode": (self._set_math_mode, (p, i)),
            "cublasGemmStridedBatchedEx_64": (self._multiply, product),
        }
        return CublasFunctions(*(self._address(name, *signatures[name]) for name in SYMBOLS))

    def _address(self, name: str, function: Callable[..., int], types: tuple[Any, ...]) -> int:
        def call(*arguments: Any) -> int:
            with self._lock:
                return self.refused.get(name) or function(*(0 if a is None else a for a in arguments))

        made = ctypes.CFUNCTYPE(ctypes.c_int, *types)(call)
        self._kept.append(made)
        return ctypes.cast(made, ctypes.c_void_p).value or 0

    def _create(self, place: int) -> int:
        handle = (1 << 44) + 16 * len(self.handles)
        self.handles[handle] = {"stream": 0, "mode": 0}
        ctypes.c_void_p.from_address(place).value = handle
        return 0

    def _set_stream(self, handle: int, stream: int) -> int:
        if handle not in self.handles:
            return NOT_INITIALIZED
        self.handles[handle]["stream"] = stream
        return 0

    def _set_math_mode(self, handle: int, mode: int) -> int:
        if handle not in self.handles:
            return NOT_INITIALIZED
        self.handles[handle]["mode"] = mode
        return 0

    def _multiply(
        self, handle: int, turned_a: int, turned_b: int, m: int, n: int, k: int, alpha: int, a: int, kind_a: int,
        lda: int, step_a: int, b: int, kind_b: int, ldb: int, step_b: int, beta: int, c: int, kind_c: int, ldc: int,
        step_c: int, batch: int, sums: int, algorithm: int,
    ) -> int:  # fmt: skip
        facts = self.handles.get(handle)
        if facts is None or facts["mode"] != 16:
            return NOT_INITIALIZED
        if {turned_a, turned_b} - {0, 1} or min(m, n, k, batch) < 1 or algorithm != -1:
            return INVALID_VALUE
        wanted = 70 if kind_c == 1 else 68
        if {kind_a, kind_b} != {kind_c} or kind_c not in ELEMENTS or sums != wanted:
            return INVALID_VALUE
        if lda < (k if turned_a else m) or ldb < (n if turned_b else k) or ldc < m:
            return INVALID_VALUE
        left = _seen(Operand(a, kind_a, lda, step_a), (k, m) if turned_a else (m, k), batch)
        right = _seen(Operand(b, kind_b, ldb, step_b), (n, k) if turned_b else (k, n), batch)
        out = _seen(Operand(c, kind_c, ldc, step_c), (m, n), batch)
        if left is None or right is None or out is None:
            return EXECUTION_FAILED
        scale, before = (SUMS[sums].type(_number(place, sums)) for place in (alpha, beta))
        first, second = (x.astype(SUMS[sums]) for x in (left, right))
        with np.errstate(all="ignore"):
            total = scale * ((first.mT if turned_a else first) @ (second.mT if turned_b else second))
            out[...] = total if before == 0 else total + before * out.astype(SUMS[sums])
        self.calls.append((m, n, k, batch, facts["stream"]))
        self._multiplied()
        return 0


def _number(address: int, sums: int) -> float:
    return float((ctypes.c_double if sums == 70 else ctypes.c_float).from_address(address).value)


def _seen(operand: Operand, sizes: tuple[int, int], batch: int) -> Any:
    """A batch of matrices, each column by column, as numpy sees it; None if they are not within one allocation."""
    memory, dtype = memory_at(operand.address), ELEMENTS[operand.kind]
    (rows, columns), size = sizes, ELEMENTS[operand.kind].itemsize
    last = (batch - 1) * operand.step + (columns - 1) * operand.leading + rows - 1
    if memory is None or operand.step < 0 or operand.address + (last + 1) * size > memory.ptr + memory.size:
        return None
    raw = memory.owner.ravel(order="K").view(np.uint8)
    strides = (operand.step * size, size, operand.leading * size)
    plain = dtype if dtype.isbuiltin == 1 else np.dtype(f"u{size}")
    seen = np.ndarray((batch, rows, columns), plain, raw, operand.address - memory.ptr, strides)
    return seen if plain is dtype else seen.view(dtype)
