"""Masked tensors from values and masks."""

from __future__ import annotations

from typing import Any

from jit.eager import context
from jit.eager.namespace import F

from .tensors import MaskedTensor


def masked_tensor(data: Any, mask: Any, requires_grad: bool = False) -> MaskedTensor:
    """A masked tensor with copies of values and of a mask, without a history.

    Args:
        data: The values.
        mask: A tensor of bools of the same sizes, which is true where a value counts.
        requires_grad: Whether gradients by the values are wanted.

    >>> import jit
    >>> jit.masked.masked_tensor(jit.tensor([1.0, 2.0]), jit.tensor([True, False])).sum()
    MaskedTensor(  1.0000, True)
    """
    return MaskedTensor(data, mask, requires_grad)


def as_masked_tensor(data: Any, mask: Any) -> MaskedTensor:
    """A masked tensor of these values; gradients of those that count reach `data`.

    Args:
        data: The values.
        mask: A tensor of bools of the same sizes, which is true where a value counts.
    """
    made = MaskedTensor(data, mask)
    if data.requires_grad and context.GRAD_ENABLED.get():
        made.held = F.where(made.mask, data, data.detach())
    return made


def is_masked_tensor(obj: Any, /) -> bool:
    """Whether an object is a masked tensor."""
    return isinstance(obj, MaskedTensor)


__all__ = ["MaskedTensor", "as_masked_tensor", "is_masked_tensor", "masked_tensor"]
