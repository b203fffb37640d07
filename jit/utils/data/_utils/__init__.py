"""The parts of `DataLoader`: what makes batches of samples, and what runs in its processes."""

from __future__ import annotations

from jit.late import late

__getattr__, __dir__ = late(__name__, {}, ("collate", "crossing", "fetch", "worker"))
