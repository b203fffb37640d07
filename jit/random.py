"""Seeds and states of the default generator, under PyTorch's path, and `fork_rng`.

>>> import jit
>>> _ = jit.manual_seed(0)
>>> with jit.random.fork_rng():
...     _ = jit.rand(3)
>>> after = jit.rand(3)
>>> _ = jit.manual_seed(0)
>>> bool((after == jit.rand(3)).all())
True
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from typing import Any

from jit.eager.generators import (
    default_generator,
    get_rng_state,
    initial_seed,
    manual_seed,
    seed,
    set_rng_state,
)  # fmt: skip


@contextmanager
def fork_rng(
    devices: Iterable[Any] | None = None, enabled: bool = True, _caller: str = "fork_rng",
    _devices_kw: str = "devices", device_type: str = "cuda",
) -> Iterator[None]:  # fmt: skip
    """Within this block random numbers may be drawn; behind it the generator goes on as if none had been.

    Args:
        devices: Accepted and ignored: all devices draw from one generator.
        enabled: Whether anything is done.
        device_type: Accepted and ignored.
    """
    state = get_rng_state()
    try:
        yield
    finally:
        if enabled:
            set_rng_state(state)


__all__ = [
    "default_generator", "fork_rng", "get_rng_state", "initial_seed", "manual_seed", "seed", "set_rng_state",
]  # fmt: skip
