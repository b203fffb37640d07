"""Networks on several devices or in several processes, under PyTorch's names."""

from __future__ import annotations

from typing import TYPE_CHECKING

from jit.late import late

if TYPE_CHECKING:
    from jit._stubs.names_nn_parallel import *  # noqa: F403
else:
    __getattr__, __dir__ = late(
        __name__,
        {"distributed": "DistributedDataParallel", "wrapping": "DataParallel data_parallel"},
        ("distributed", "wrapping"),
    )

__all__ = ["DataParallel", "DistributedDataParallel", "data_parallel"]
