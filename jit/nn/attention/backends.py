"""Implementations of attention under PyTorch's names: here is one, so that choosing changes nothing."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from enum import IntEnum
from typing import Any

from jit.ir.errors import KindError


class SDPBackend(IntEnum):
    """The implementations of attention that PyTorch has."""

    ERROR = -1
    MATH = 0
    FLASH_ATTENTION = 1
    EFFICIENT_ATTENTION = 2
    CUDNN_ATTENTION = 3
    OVERRIDEABLE = 4


@contextmanager
def sdpa_kernel(backends: Any, set_priority: bool = False) -> Iterator[None]:
    """A block for which implementations are chosen; there is one, which computes here as everywhere.

    Args:
        backends: One, or several.
        set_priority: Accepted and ignored.

    Raises:
        KindError: They are no `SDPBackend`.
    """
    for each in [backends] if isinstance(backends, SDPBackend) else backends:
        if not isinstance(each, SDPBackend):
            raise KindError(f"sdpa_kernel() takes SDPBackend, not {type(each).__name__}; pass SDPBackend.MATH")
    yield
