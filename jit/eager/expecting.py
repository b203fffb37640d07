"""Checks of the kinds of arguments, for one sentence at the call instead of an AttributeError from within."""

from __future__ import annotations

from typing import Any

import numpy as np

from jit.ir.errors import KindError

from .tensors import Tensor


def expect(what: str, value: Any, kind: type | tuple[type, ...] = Tensor) -> None:
    """Refuse (KindError) a `value`, the argument of `what`, that is not of this kind."""
    if not isinstance(value, kind):
        kinds = kind if isinstance(kind, tuple) else (kind,)
        wanted = " or ".join(f"a {each.__name__}" if each is not int else "a whole number" for each in kinds)
        raise KindError(f"{what} takes {wanted}, not {_described(value)}")


def expect_number(what: str, value: Any) -> None:
    """Refuse (KindError) a `value` that cannot be compared with numbers."""
    try:
        answer = value >= 0
    except (TypeError, ValueError):
        answer = None
    if not isinstance(answer, (bool, np.bool_)) and not (isinstance(answer, Tensor) and answer.numel() == 1):
        raise KindError(f"{what} is a number, not {_described(value)}")


def _described(value: Any) -> str:
    return "None" if value is None else type(value).__name__


__all__ = ["expect", "expect_number"]
