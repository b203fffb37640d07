"""`jit.amp`: mixed precision - `autocast`, which casts what operators are given, and `GradScaler`.

>>> import jit
>>> with jit.amp.autocast("cpu"):
...     (jit.ones(2, 3) @ jit.ones(3, 2)).dtype
jit.bfloat16
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from jit.late import late

from ..eager.autocasting import (
    autocast,
    custom_bwd,
    custom_fwd,
    get_autocast_dtype,
    is_autocast_available,
    is_autocast_cache_enabled,
    is_autocast_enabled,
)  # fmt: skip

if TYPE_CHECKING:
    from jit._stubs.names_amp import *  # noqa: F403
else:
    __getattr__, __dir__ = late(__name__, {"grad_scaler": "GradScaler"}, ("cpu", "cuda"))

__all__ = [
    "GradScaler", "autocast", "cpu", "cuda", "custom_bwd", "custom_fwd", "get_autocast_dtype", "is_autocast_available",
    "is_autocast_cache_enabled", "is_autocast_enabled",
]  # fmt: skip
