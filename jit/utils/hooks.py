"""Handles of hooks, under PyTorch's path."""

from __future__ import annotations

from jit.eager.hooks import RemovableHandle

__all__ = ["RemovableHandle"]
