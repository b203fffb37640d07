"""Where PyTorch keeps what custom operations are made with."""

from __future__ import annotations

from .custom import Context as FunctionCtx
from .custom import Function, once_differentiable

__all__ = ["Function", "FunctionCtx", "once_differentiable"]
