"""Sizes and numbers in shuffled orders, for programs that have to be right whatever comes first."""

from __future__ import annotations

import math
import random
from collections.abc import Sequence
from typing import Any, TypeVar

import jit

T = TypeVar("T")
ORDER = 0
"""The seed of all orders."""

SIZES = (2, 3, 4, 5, 7, 8, 9, 16, 37)
WITH_SMALL = (0, 1, 2, 3, 4, 5, 8, 37)


def shuffled(*items: T, first: Sequence[T] = ()) -> list[T]:
    """`first`, then the items in some order, then again in another one."""
    order = random.Random(ORDER)
    return [*first, *order.sample(items, len(items)), *order.sample(items, len(items))]


def ramp(*shape: int, start: float = 0.0, grad: bool = True) -> Any:
    """A float32 leaf of this shape with different elements."""
    flat = (jit.arange(math.prod(shape)).float() * 0.7 + start).cos()
    return flat.reshape(shape).detach().requires_grad_(grad)


def fine(*shape: int, start: float = 0.0, grad: bool = True) -> Any:
    """The same in float64, for sums whose rounding would be seen."""
    return ramp(*shape, start=start).detach().double().requires_grad_(grad)
