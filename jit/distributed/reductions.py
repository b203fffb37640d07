"""`ReduceOp`: how the elements of the tensors of several processes become one."""

from __future__ import annotations

from enum import Enum
from typing import Any

from jit.ir.errors import UsageError


class ReduceOp(Enum):
    """The reductions, by the names that recorded graphs have for them."""

    SUM = "sum"
    AVG = "avg"
    """The sum, divided by the number of processes; of floats and complex numbers alone."""
    PRODUCT = "product"
    MIN = "min"
    MAX = "max"
    BAND = "band"
    BOR = "bor"
    BXOR = "bxor"


def name_of(op: Any) -> str:
    """The name of a reduction.

    Args:
        op: A ReduceOp, or its name.

    Raises:
        UsageError: There is no such reduction.
    """
    try:
        return str(ReduceOp(op.lower() if isinstance(op, str) else op).value)
    except ValueError as error:
        known = ", ".join(f"ReduceOp.{each.name}" for each in ReduceOp)
        raise UsageError(f"there is no reduction {op!r}; use one of {known}") from error


__all__ = ["ReduceOp", "name_of"]
