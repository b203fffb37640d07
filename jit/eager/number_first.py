"""Calls with the number first, which PyTorch deprecated in 2018 and still takes: `p.add_(0.5, grad)`.

Optimizers of that time are written so: `exp_avg.addcmul_(1 - beta, grad, grad)`.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from .proxies import TracedScalar
from .tensors import Tensor

_SCALED = {"add": "alpha", "sub": "alpha", "addcmul": "value", "addcdiv": "value"}
"""Operator -> the name of the number that stands between its first tensor and the others."""
_PRODUCTS = ("addmm", "addmv", "addr", "addbmm", "baddbmm", "sspaddmm")
"""Operators that add `alpha` times a product to `beta` times their first tensor."""


def reordered(name: str, args: Sequence[Any]) -> tuple[list[Any], dict[str, Any]] | None:
    """The tensors of such a call, and its numbers by name; None if it is none.

    Args:
        name: The operator, with or without the underscore of those that write in place.
        args: What was passed by position.
    """
    tensors = [value for value in args if isinstance(value, Tensor)]
    numbers = [value for value in args if isinstance(value, (int, float, TracedScalar))]
    plain = name.removesuffix("_")
    if not numbers or len(tensors) + len(numbers) < len(args):
        return None
    if plain in _SCALED and len(numbers) == 1 and len(args) > 2 and not isinstance(args[1], Tensor):
        return tensors, {_SCALED[plain]: numbers[0]}
    if plain in _PRODUCTS and len(tensors) == 3 and len(numbers) <= 2:
        return tensors, dict(zip(("beta", "alpha"), numbers))
    return None


__all__ = ["reordered"]
