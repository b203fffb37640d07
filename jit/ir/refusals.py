"""Errors of Python and numpy about operands that an operator cannot take, told as errors of this package."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from . import dtypes
from .errors import DimError, DivisionError, DTypeError, Error, LinAlgError, ShapeError
from .schema import describe_call
from .types import TensorType

if TYPE_CHECKING:
    from .op import Op

FOREIGN = (TypeError, ValueError, LookupError, ArithmeticError)
"""The exceptions of numpy and Python on operands that do not fit."""
_OURS: tuple[tuple[type[Exception], type[Error]], ...] = (
    (np.linalg.LinAlgError, LinAlgError), (IndexError, DimError), (TypeError, DTypeError),
    (ZeroDivisionError, DivisionError),
)  # fmt: skip


def refusal(op: Op, values: Sequence[Any], error: Exception) -> Error:
    """The error of ours for `op` on `values` that fits what was raised: the call as it was, then the reason."""
    kind = next((ours for theirs, ours in _OURS if isinstance(error, theirs)), ShapeError)
    call = describe_call(op.schema.name, values, {}, _described)
    return kind(f"{call} cannot be computed: {str(error).splitlines()[0] if str(error) else type(error).__name__}")


def note_of_numbers(error: Exception) -> None:
    """Arithmetic of the program's has raised `error`, as Python does, and no code of ours that has gone wrong."""
    error.is_of_numbers = True  # type: ignore[attr-defined]


def is_of_numbers(error: Exception) -> bool:
    """Whether arithmetic of the program's has raised `error`."""
    return hasattr(error, "is_of_numbers")


def _described(value: Any) -> str:
    array = getattr(value, "_array", value)
    if hasattr(array, "dtype") and hasattr(array, "shape"):
        return str(TensorType(dtypes.from_numpy(array.dtype), tuple(array.shape)))
    return repr(value) if isinstance(value, (bool, int, float, str, type(None))) else type(value).__name__
