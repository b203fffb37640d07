"""`jit.cpu`: the CPU, with the names of `torch.cpu`, for programs that are written for any device.

>>> import jit
>>> jit.cpu.is_available(), jit.cpu.device_count()
(True, 1)
"""

from __future__ import annotations

from typing import Any


def is_available() -> bool:
    """Whether there is a CPU."""
    return True


def device_count() -> int:
    """The number of CPUs that can be named: one, whatever it consists of."""
    return 1


def current_device() -> str:
    """The name of the CPU."""
    return "cpu"


def synchronize(device: Any = None) -> None:
    """Do nothing: work on the CPU is done when a call returns."""


__all__ = ["current_device", "device_count", "is_available", "synchronize"]
