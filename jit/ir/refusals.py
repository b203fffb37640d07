"""Errors of Python and numpy about operands that an operator cannot take, turned into errors of this package."""

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
    """The error of this package for what `op` raised on `values`: it shows the call, then the reason."""
    kind = next((ours for theirs, ours in _OURS if isinstance(error, theirs)), ShapeError)
    call = describe_call(op.schema.name, values, {}, _described)
    return kind(f"{call} cannot be computed: {str(error).splitlines()[0] if str(error) else type(error).__name__}")


def note_of_numbers(error: Exception) -> None:
    """Mark `error` as raised by arithmetic of the program, as Python does it, and not by a fault of this package."""
    error.is_of_numbers = True  # type: ignore[attr-defined]


def is_of_numbers(error: Exception) -> bool:
    """Whether `error` is marked by `note_of_numbers`."""
    return hasattr(error, "is_of_numbers")


def _described(value: Any) -> str:
    array = getattr(value, "_array", value)
    if hasattr(array, "dtype") and hasattr(array, "shape"):
        return str(TensorType(dtypes.from_numpy(array.dtype), tuple(array.shape)))
    return repr(value) if isinstance(value, (bool, int, float, str, type(None))) else type(value).__name__
