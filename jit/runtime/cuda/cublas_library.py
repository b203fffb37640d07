"""The functions of cuBLAS that native code calls, of the library that CuPy has loaded."""

from __future__ import annotations

import ctypes
from importlib import import_module
from pathlib import Path
from typing import Any, NamedTuple


class CublasFunctions(NamedTuple):
    """Addresses of functions of cuBLAS, in the order of `SYMBOLS`."""

    create: int
    set_stream: int
    set_math_mode: int
    multiply: int


SYMBOLS = ("cublasCreate_v2", "cublasSetStream_v2", "cublasSetMathMode", "cublasGemmStridedBatchedEx_64")
"""The names of these functions in the library, which has them since CUDA 12.0."""


def cublas_functions(module: Any) -> CublasFunctions | None:
    """The functions of the library that CuPy, the `module`, calls; None if there is none, or it lacks some."""
    try:
        import_module("cupy_backends.cuda.libs.cublas")
        if _loaded() is None:
            module.cuda.device.get_cublas_handle()
        path = _loaded()
        if path is None:
            return None
        library = ctypes.CDLL(path)
        found = [ctypes.cast(getattr(library, name), ctypes.c_void_p).value for name in SYMBOLS]
    except (ImportError, OSError, AttributeError, RuntimeError):
        return None
    return CublasFunctions(*(address or 0 for address in found))


def _loaded() -> str | None:
    """The file of the library, if it is part of this process."""
    lines = Path("/proc/self/maps").read_text().splitlines()
    return next((line[line.index("/") :] for line in lines if "/libcublas.so" in line), None)
