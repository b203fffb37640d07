"""`Parameter`: a tensor that a module learns."""

from __future__ import annotations

from typing import Any

from jit.eager.namespace import F
from jit.eager.tensors import Tensor, Variable
from jit.ir.errors import UsageError


class Parameter(Variable):
    """A tensor that becomes part of the module it is assigned to: listed by `parameters()`, saved in the state dict.

    Args:
        data: The tensor whose memory the parameter shares; an empty one if left out.
        requires_grad: Whether gradients are wanted; it must be False for integer tensors.

    Raises:
        UsageError: `data` is no tensor, or gradients are wanted of integers.

    >>> import jit
    >>> jit.nn.Parameter(jit.zeros(2)).requires_grad
    True
    """

    __slots__ = ()

    def __init__(self, data: Tensor | None = None, requires_grad: bool = True) -> None:
        if data is None:
            data = F.empty((0,))
        if not isinstance(data, Tensor):
            raise UsageError(f"a Parameter is made from a tensor, not from {type(data).__name__}; use jit.tensor(...)")
        self._hold(data._defined(), data._storage)
        self.requires_grad_(requires_grad)

    def __repr__(self) -> str:
        return f"Parameter containing:\n{super().__repr__()}"

    def __format__(self, spec: str) -> str:
        return super().__format__(spec) if spec else repr(self)


def forget_gradient(tensor: Any, set_to_none: bool) -> None:
    """Set `tensor.grad` to None, or fill it with zeros."""
    if set_to_none or tensor.grad is None:
        tensor.grad = None
    else:
        tensor.grad = tensor.grad.detach().zero_()
