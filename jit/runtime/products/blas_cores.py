"""The kind of core for which the BLAS that SciPy brings has chosen its code."""

from __future__ import annotations

import ctypes
from functools import cache

from ..targets.target import Target
from .blas_threads import libraries

_NAMERS = ("scipy_openblas_get_corename64_", "scipy_openblas_get_corename", "openblas_get_corename")
_OF_32_BYTES = frozenset({"Haswell", "Zen", "Sandybridge", "Bulldozer", "Piledriver", "Steamroller", "Excavator"})
"""OpenBLAS's names of cores whose vectors have 32 bytes; it takes one of these for a core that it does not know."""


@cache
def is_narrow() -> bool:
    """Whether BLAS computes with vectors of 32 bytes where there are some of 64, so that it is half as fast as it might
    be."""
    return Target.host().vector_bytes == 64 and core_of("scipy") in _OF_32_BYTES


def core_of(package: str) -> str | None:
    """OpenBLAS's name of the core that it computes for; None if the package has another BLAS."""
    for path in libraries(package):
        try:
            library = ctypes.CDLL(str(path))  # the one that is loaded already
        except OSError:
            continue
        for name in _NAMERS:
            if (found := getattr(library, name, None)) is not None:
                found.restype = ctypes.c_char_p
                core: bytes = found()
                return core.decode()
    return None
