"""The number of threads of the BLAS libraries that numpy and SciPy bring."""

from __future__ import annotations

import ctypes
import importlib.util
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import Any

_SETTERS = ("scipy_openblas_set_num_threads64_", "scipy_openblas_set_num_threads", "openblas_set_num_threads")


def set_blas_threads(package: str, count: int) -> bool:
    """Let the BLAS of "numpy" or "scipy" use `count` threads from now on; False if it cannot be told."""
    setter = _setter(package)
    if setter is None:
        return False
    setter(count)
    return True


@cache
def _setter(package: str) -> Any:
    """OpenBLAS's function that takes a number of threads; None if the package has another BLAS."""
    for path in libraries(package):
        try:
            library = ctypes.CDLL(str(path))  # the one that is loaded already
        except OSError:
            continue
        for name in _SETTERS:
            if (found := getattr(library, name, None)) is not None:
                found.argtypes, found.restype = [ctypes.c_int], None
                return found
    return None


def libraries(package: str) -> Iterator[Path]:
    """The files of the OpenBLAS that "numpy" or "scipy" brings; none if it has another BLAS."""
    spec = importlib.util.find_spec(package)
    if spec is not None and spec.origin is not None:
        folder = Path(spec.origin).parent
        for place in (folder.with_name(f"{package}.libs"), folder / ".libs", folder / ".dylibs"):
            yield from sorted(place.glob("*openblas*"))
