"""`DistributedDataParallel`, under PyTorch's path."""

from __future__ import annotations

from .wrapping import DistributedDataParallel

__all__ = ["DistributedDataParallel"]
