"""The parts of `DataLoader`: what makes batches of samples, and what runs in its processes."""

from __future__ import annotations

from typing import TYPE_CHECKING

from jit.late import late

if TYPE_CHECKING:
    from jit._stubs.names_utils_data__utils import *  # noqa: F403
else:
    __getattr__, __dir__ = late(__name__, {}, ("collate", "crossing", "fetch", "worker"))

__all__ = ["collate", "crossing", "fetch", "worker"]
