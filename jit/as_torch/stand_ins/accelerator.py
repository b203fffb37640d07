"""`torch.accelerator`: the GPU, if there is one."""

from __future__ import annotations

from typing import Any

import jit
from jit import cuda


def is_available() -> bool:
    """Whether there is a GPU."""
    return cuda.is_available()


def current_accelerator(check_available: bool = False) -> Any:
    """The kind of the GPU; None without one.

    Args:
        check_available: Accepted and ignored.
    """
    return jit.device("cuda") if is_available() else None


def device_count() -> int:
    """The number of GPUs."""
    return cuda.device_count()


def current_device_index() -> int:
    """The number of the GPU that is used."""
    return cuda.current_device()


def synchronize(device: Any = None) -> None:
    """Wait for a GPU.

    Args:
        device: Which one.
    """
    if is_available():
        cuda.synchronize(device)


set_device_index = set_device_idx = cuda.set_device
current_device_idx = current_device_index
