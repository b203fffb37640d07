"""`jit.cpu.amp`: the names of `jit.amp` for CPUs, as older programs spell them."""

from __future__ import annotations

from typing import Any

from ..eager import autocasting
from ..ir.dtypes import bfloat16
from . import grad_scaler

KIND = "cpu"


class autocast(autocasting.autocast):  # noqa: N801 - users call it like a function
    """`jit.autocast("cpu", dtype, enabled, cache_enabled)`.

    >>> import jit
    >>> with jit.cpu.amp.autocast():
    ...     jit.get_autocast_dtype("cpu")
    jit.bfloat16
    """

    def __init__(self, enabled: bool = True, dtype: Any = bfloat16, cache_enabled: bool = True) -> None:
        super().__init__(KIND, dtype, enabled, cache_enabled)


class GradScaler(grad_scaler.GradScaler):
    """`jit.amp.GradScaler("cpu", ...)`.

    >>> import jit
    >>> jit.cpu.amp.GradScaler(init_scale=4.0).get_scale()
    4.0
    """

    def __init__(
        self, init_scale: float = 2.0**16, growth_factor: float = 2.0, backoff_factor: float = 0.5,
        growth_interval: int = 2000, enabled: bool = True,
    ) -> None:  # fmt: skip
        super().__init__(KIND, init_scale, growth_factor, backoff_factor, growth_interval, enabled)


__all__ = ["GradScaler", "autocast"]
