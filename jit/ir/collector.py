"""Python's garbage collector, put off while many objects are made and none is dropped."""

from __future__ import annotations

import contextlib
import gc
from collections.abc import Iterator


@contextlib.contextmanager
def collector_resting() -> Iterator[None]:
    """The garbage collector does not run within this block.

    Passes and exports make many objects and little garbage. A collection visits all of them each time, which takes as
    long as the work itself, and more than linear time.
    """
    enabled = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if enabled:
            gc.enable()
