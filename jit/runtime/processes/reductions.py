"""Reductions over processes: which dtype travels for a tensor's, and which operation of MPI computes it."""

from __future__ import annotations

from functools import cache
from typing import Any

import numpy as np

from jit.ir.errors import DTypeError, UsageError

from .library import mpi

REDUCTIONS = ("sum", "product", "min", "max", "avg", "band", "bor", "bxor")
"""The names of the reductions."""


def travelling(array: Any) -> Any:
    """The elements of an array as MPI takes them: row-major, those of 8 and 16 bits with a fraction as float32.

    So sums of narrow floats are computed in float32 and rounded once.
    """
    if array.dtype.kind in "biuc" or array.dtype.char in "fd":
        return np.ascontiguousarray(array).reshape(array.shape)
    return array.astype(np.float32, order="C")


def check_reduction(name: str, dtype: Any) -> None:
    """Refuse a reduction that there is not, or not for elements of this dtype.

    Args:
        name: One of REDUCTIONS.
        dtype: The dtype that travels.

    Raises:
        UsageError: There is no such reduction.
        DTypeError: It does not take the dtype.
    """
    if name not in REDUCTIONS:
        raise UsageError(f"there is no reduction {name!r}; use one of ReduceOp: {', '.join(REDUCTIONS)}")
    kinds = {"avg": "fc", "min": "biuf", "max": "biuf", "band": "biu", "bor": "biu", "bxor": "biu"}.get(name, "biufc")
    if dtype.kind not in kinds:
        raise DTypeError(f"the reduction {name} does not take {dtype.name} tensors; cast them, or use another one")


@cache
def operation(name: str, kind: str) -> Any:
    """The operation of MPI.

    Args:
        name: One of REDUCTIONS; "avg" adds up, and the caller divides.
        kind: The kind of the dtype, as numpy says it.
    """
    MPI = mpi()
    if kind == "b":
        logical = {"sum": MPI.LOR, "max": MPI.LOR, "bor": MPI.LOR, "bxor": MPI.LXOR}
        return logical.get(name, MPI.LAND)
    if kind == "f" and name in ("min", "max"):
        return _of_numpy(np.minimum if name == "min" else np.maximum)
    names = {"avg": "SUM", "product": "PROD"}
    return getattr(MPI, names.get(name, name.upper()))


def _of_numpy(function: Any) -> Any:
    """An operation of MPI that gives NaN where an operand is NaN, as numpy does; MPI's own give either operand."""

    def combine(ours: Any, both: Any, datatype: Any) -> None:
        dtype = np.dtype(datatype.typechar)
        left, right = np.frombuffer(ours, dtype), np.frombuffer(both, dtype)
        function(left, right, out=right)

    return mpi().Op.Create(combine, commute=True)
