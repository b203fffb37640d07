"""`Function` and its context, under the name by which PyTorch has them."""

from __future__ import annotations

from .custom import Context as FunctionCtx
from .custom import Function, once_differentiable

__all__ = ["Function", "FunctionCtx", "once_differentiable"]
