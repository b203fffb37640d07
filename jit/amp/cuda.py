"""`jit.cuda.amp`: the names of `jit.amp` for GPUs, as older programs spell them."""

from __future__ import annotations

import functools
from typing import Any

from ..eager import autocasting
from ..ir.dtypes import float16
from . import grad_scaler

KIND = "cuda"


class autocast(autocasting.autocast):  # noqa: N801 - users call it like a function
    """`jit.autocast("cuda", dtype, enabled, cache_enabled)`.

    >>> import jit
    >>> with jit.cuda.amp.autocast(enabled=False):
    ...     jit.is_autocast_enabled("cuda")
    False
    """

    def __init__(self, enabled: bool = True, dtype: Any = float16, cache_enabled: bool = True) -> None:
        super().__init__(KIND, dtype, enabled, cache_enabled)


class GradScaler(grad_scaler.GradScaler):
    """`jit.amp.GradScaler("cuda", ...)`.

    >>> import jit
    >>> jit.cuda.amp.GradScaler(enabled=False).get_scale()
    1.0
    """

    def __init__(
        self, init_scale: float = 2.0**16, growth_factor: float = 2.0, backoff_factor: float = 0.5,
        growth_interval: int = 2000, enabled: bool = True,
    ) -> None:  # fmt: skip
        super().__init__(KIND, init_scale, growth_factor, backoff_factor, growth_interval, enabled)


custom_fwd = functools.partial(autocasting.custom_fwd, device_type=KIND)
custom_bwd = functools.partial(autocasting.custom_bwd, device_type=KIND)

__all__ = ["GradScaler", "autocast", "custom_bwd", "custom_fwd"]
