"""`Function` and its context, under the name by which PyTorch has them."""

from __future__ import annotations

from .custom import Context as FunctionCtx
from .custom import Function, once_differentiable


class InplaceFunction(Function):
    """`Function` with a flag of its own, for functions that may write to their argument.

    Args:
        inplace: The flag.
    """

    def __init__(self, inplace: bool = False) -> None:
        super().__init__()
        self.inplace = inplace


__all__ = ["Function", "FunctionCtx", "InplaceFunction", "once_differentiable"]
