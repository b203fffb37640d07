"""`torch.profiler`: blocks that measure nothing; `f.profile(...)` of a traced function does."""

from __future__ import annotations

import enum
from collections.abc import Callable
from typing import Any

from jit.as_torch.ledger import LEDGER
from jit.autograd.profiler import record_function


class ProfilerActivity(enum.Enum):
    """Devices that PyTorch's profiler watches."""

    CPU = 0
    CUDA = 1


class ProfilerAction(enum.Enum):
    """Steps of PyTorch's profiler."""

    NONE = 0
    WARMUP = 1
    RECORD = 2
    RECORD_AND_SAVE = 3


class profile:  # noqa: N801
    """A block that is not measured.

    Args:
        options: Accepted and ignored.
    """

    def __init__(self, *args: Any, **options: Any) -> None:
        LEDGER.note("torch.profiler measures nothing here; profile a traced function with f.profile(...)")

    def __enter__(self) -> profile:
        return self

    def __exit__(self, *error: Any) -> None:
        return None

    def start(self) -> None:
        """Nothing."""

    def stop(self) -> None:
        """Nothing."""

    def step(self) -> None:
        """Nothing."""

    def export_chrome_trace(self, path: str) -> None:
        """Nothing."""

    def key_averages(self, *args: Any, **options: Any) -> Any:
        """An empty table."""
        return _Nothing()


class _Nothing(list[Any]):
    """An empty table of measurements."""

    def table(self, *args: Any, **options: Any) -> str:
        """The text of the table."""
        return ""


def schedule(**options: Any) -> Callable[[int], ProfilerAction]:
    """A schedule by which nothing is measured.

    Args:
        options: Accepted and ignored.
    """
    return lambda step: ProfilerAction.NONE


def tensorboard_trace_handler(dir_name: str, *args: Any, **options: Any) -> Callable[[Any], None]:
    """A function that writes nothing.

    Args:
        dir_name: Accepted and ignored.
        args: Accepted and ignored.
        options: Accepted and ignored.
    """
    return lambda measured: None


__all__ = [
    "ProfilerAction", "ProfilerActivity", "profile", "record_function", "schedule", "tensorboard_trace_handler",
]  # fmt: skip
