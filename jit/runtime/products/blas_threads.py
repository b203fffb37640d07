"""The number of threads of the BLAS libraries that numpy and SciPy bring."""

from __future__ import annotations

import ctypes
import importlib.util
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import Any

_NAMES = ("scipy_openblas_{}_num_threads64_", "scipy_openblas_{}_num_threads", "openblas_{}_num_threads")
"""OpenBLAS's functions that "get" and "set" the number of threads."""


def set_blas_threads(package: str, count: int) -> bool:
    """Let the BLAS of "numpy" or "scipy" use `count` threads from now on; False if it cannot be told."""
    found = functions_of_threads(package)
    if found is None:
        return False
    ctypes.CFUNCTYPE(None, ctypes.c_int)(found[1])(count)
    return True


@cache
def functions_of_threads(package: str) -> tuple[int, int] | None:
    """The addresses of OpenBLAS's functions that get and set the number of threads; None if the package has another."""
    for path in libraries(package):
        try:
            library = ctypes.CDLL(str(path))  # the one that is loaded already
        except OSError:
            continue
        for name in _NAMES:
            getter, setter = (getattr(library, name.format(verb), None) for verb in ("get", "set"))
            if getter is not None and setter is not None:
                return _address(getter), _address(setter)
    return None


def _address(function: Any) -> int:
    return ctypes.cast(function, ctypes.c_void_p).value or 0


def libraries(package: str) -> Iterator[Path]:
    """The files of the OpenBLAS that "numpy" or "scipy" brings; none if it has another BLAS."""
    spec = importlib.util.find_spec(package)
    if spec is not None and spec.origin is not None:
        folder = Path(spec.origin).parent
        for place in (folder.with_name(f"{package}.libs"), folder / ".libs", folder / ".dylibs"):
            yield from sorted(place.glob("*openblas*"))
