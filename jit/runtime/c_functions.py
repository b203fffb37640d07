"""C's mathematical functions as expressions, in float64, for machines that have no C library."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

FUNCTIONS: dict[str, Callable[..., Any]] = {}
