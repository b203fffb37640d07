"""The hooks that watch calls while a function is recorded, as far as eager code knows them: it pauses and resumes them.

Note [Seeing calls] in jit.tracing.surroundings.impurity says what is watched, and why.
"""

from __future__ import annotations

import _thread
import contextlib
import sys
from collections.abc import Iterator
from typing import Any

from jit import late

MONITORED = sys.version_info >= (3, 12)
"""Whether Python has `sys.monitoring`; otherwise the hook is that of profilers."""
LOOKING: list[Any] = []
"""The hooks that watch calls now, on any thread."""
EYES: dict[int, list[Any]] = {}
"""The hooks that watch by `sys.monitoring` and are not paused, by thread."""


def pause() -> Any:
    """Stop watching on this thread; returns what `resume` takes. Operators do so, whose many calls are of no interest.

    As long as `LOOKING` is empty there is nothing to pause. Where the user's code runs meanwhile, watching is resumed.
    """
    if MONITORED:
        return EYES.pop(_thread.get_ident(), None)
    hook: Any = sys.getprofile()
    try:
        hook.is_ours  # noqa: B018
    except AttributeError:  # no hook, or a profiler of the user's: that goes on, and could not be set again
        return None
    sys.setprofile(None)
    return hook


def resume(hook: Any) -> None:
    """Watch again on this thread; `hook` is what `pause` returned."""
    if hook is None:
        return
    if MONITORED:
        EYES[_thread.get_ident()] = hook
    else:
        sys.setprofile(hook)


@contextlib.contextmanager
def resumed(hook: Any) -> Iterator[None]:
    """Within this block, in which the user's code runs, watch again; `hook` is what `pause` returned."""
    resume(hook)
    try:
        yield
    finally:
        if hook is not None:
            pause()


@contextlib.contextmanager
def unwatched() -> Iterator[None]:
    """Within this block nobody watches on this thread."""
    hook = pause() if LOOKING else None
    try:
        yield
    finally:
        resume(hook)


late.unwatched = unwatched

__all__ = ["EYES", "LOOKING", "MONITORED", "pause", "resume", "resumed", "unwatched"]
