"""Settings of operators that can choose among algorithms; set by `jit.eager.context` and `jit.backends`."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass


@dataclass
class Settings:
    """The rule by which an operator with several algorithms chooses among them."""

    benchmark: bool = False
    """Time the algorithms once for each combination of sizes, and remember the fastest."""
    deterministic: bool = False
    """Choose by rule alone, so that every run of a program gives the same bits."""
    matmul_precision: str = "highest"
    """The precision of products that a program has asked for; there is one."""
    cudnn: bool = True
    """Let cuDNN compute on a GPU what it can; asked of the process, not of the call."""
    allow_tf32: bool = False
    """Let cuDNN round float32 to 10 bits for tensor cores; asked of the process, not of the call."""


SETTINGS = Settings()
"""The settings of the process."""
VERSIONS: dict[str, Callable[[], int | None]] = {}
"""The functions that say which version of a library there is, None without one, by its name; its users add them."""
_OVERRIDE: ContextVar[Settings | None] = ContextVar("settings", default=None)


def current_settings() -> Settings:
    """The settings that hold here: those of the call, else those of the process."""
    return _OVERRIDE.get() or SETTINGS


@contextmanager
def settings_for_call(settings: Settings) -> Iterator[None]:
    """Within this block, `settings` hold instead of those of the process."""
    token = _OVERRIDE.set(settings)
    try:
        yield
    finally:
        _OVERRIDE.reset(token)
