"""Carriers: tensors that bring a number as their size; see Note [Numbers that are sizes]."""

from __future__ import annotations

import numpy as np

from jit.eager.tensors import Tensor, tensor_of

SMALLEST = 2
"""The smallest size that stands for others: 0 and 1 broadcast, or make a dim vanish."""


LARGEST = 2**63 - 1
"""The largest size that an array of numpy may have."""


def can_be_size(number: int) -> bool:
    """Whether a number, or minus that number, may be the size of a carrier."""
    return SMALLEST <= abs(number) <= LARGEST


def carrier(number: int) -> Tensor:
    """A tensor of so many elements, which all lie in one byte; without elements where no size is such a number."""
    size = number if 0 <= number <= LARGEST else 0
    return tensor_of(np.ndarray((size,), np.bool_, bytearray(1), 0, (0,)))
