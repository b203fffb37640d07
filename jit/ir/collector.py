"""Python's garbage collector, put off while many objects are made and none is dropped."""

from __future__ import annotations

import contextlib
import gc
import os
from collections.abc import Iterator

_waiting: set[object] = set()
"""The blocks that will switch the collector on again, in whatever thread."""


@contextlib.contextmanager
def collector_resting() -> Iterator[None]:
    """The garbage collector does not run within this block.

    Passes and exports make many objects and little garbage. A collection visits all of them each time, which takes as
    long as the work itself, and more than linear time.
    """
    token, enabled = object(), gc.isenabled()
    try:
        if enabled:
            _waiting.add(token)
            gc.disable()
        yield
    finally:
        if enabled:
            gc.enable()
            _waiting.discard(token)


def _wake() -> None:
    """After a fork: the threads whose blocks would switch the collector on do not exist in the child."""
    if _waiting:
        _waiting.clear()
        gc.enable()


os.register_at_fork(after_in_child=_wake)
