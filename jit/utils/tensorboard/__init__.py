"""`SummaryWriter`: logs for TensorBoard, written through the package `tensorboard` where that is installed."""

from __future__ import annotations

from typing import TYPE_CHECKING

from jit.late import late

if TYPE_CHECKING:
    from jit._stubs.names_utils_tensorboard import *  # noqa: F403
else:
    __getattr__, __dir__ = late(__name__, {"writer": "FileWriter SummaryWriter"}, ("writer",))

__all__ = ["FileWriter", "SummaryWriter"]
