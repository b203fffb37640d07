"""Companions of a training program: loading data, checkpoints, logs for TensorBoard, nests of tensors, timing.

The names are PyTorch's, at PyTorch's paths: `torch.utils.data.DataLoader` is `jit.utils.data.DataLoader`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from jit.late import late

if TYPE_CHECKING:
    from jit._stubs.names_utils import *  # noqa: F403
else:
    __getattr__, __dir__ = late(
        __name__,
        {},
        ("_pytree", "benchmark", "checkpoint", "data", "dlpack", "hooks", "model_zoo", "tensorboard"),
    )

__all__ = ["_pytree", "benchmark", "checkpoint", "data", "dlpack", "hooks", "model_zoo", "tensorboard"]
