"""Reductions of the losses of all elements: their mean, their sum, or none."""

from __future__ import annotations

from typing import Any

from jit.eager.namespace import F
from jit.ir.errors import UsageError

REDUCTIONS = {"none": 0, "mean": 1, "sum": 2}
"""The numbers of the reductions in ATen."""


def reduction_word(size_average: bool | None, reduce: bool | None, reduction: str) -> str:
    """The reduction that the two flags of the first releases mean, or `reduction` where neither is given.

    Args:
        size_average: None, or False for "sum".
        reduce: None, or False for "none".
        reduction: "none", "mean", "sum" or another word.
    """
    if size_average is None and reduce is None:
        return reduction
    if reduce is False:
        return "none"
    return "sum" if size_average is False else "mean"


def reduction_code(size_average: bool | None, reduce: bool | None, reduction: str) -> int:
    """The number of a reduction in ATen.

    Args:
        size_average: None, or False for "sum".
        reduce: None, or False for "none".
        reduction: "none", "mean" or "sum".

    Raises:
        UsageError: There is no such reduction.
    """
    word = reduction_word(size_average, reduce, reduction)
    if word not in REDUCTIONS:
        raise UsageError(f"reduction is {word!r}; it must be 'none', 'mean' or 'sum'")
    return REDUCTIONS[word]


def reduced(losses: Any, size_average: bool | None, reduce: bool | None, reduction: str) -> Any:
    """Losses per element, reduced as the words say.

    Args:
        losses: A tensor.
        size_average: None, or False for "sum".
        reduce: None, or False for "none".
        reduction: "none", "mean" or "sum".
    """
    code = reduction_code(size_average, reduce, reduction)
    return (lambda x: x, F.mean, F.sum)[code](losses)
