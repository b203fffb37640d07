"""`torch.mps`, `torch.xpu`: kinds of devices that are not there."""

from __future__ import annotations


def is_available() -> bool:
    """Whether there is such a device: there is none."""
    return False


def device_count() -> int:
    """The number of such devices: 0."""
    return 0


def manual_seed(seed: int) -> None:
    """Nothing: there is no generator to seed.

    Args:
        seed: Accepted and ignored.
    """


manual_seed_all = manual_seed


def empty_cache() -> None:
    """Nothing: there is no memory to free."""


synchronize = empty_cache
