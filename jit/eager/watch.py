"""Watchers of calls while a function is recorded, and looking away from them: all that eager code needs to know.

What is looked at, and why, says Note [Seeing calls] in jit.tracing.surroundings.impurity.
"""

from __future__ import annotations

import _thread
import contextlib
import sys
from collections.abc import Iterator
from typing import Any

MONITORED = sys.version_info >= (3, 12)
"""Whether Python has `sys.monitoring`; otherwise the hook is that of profilers."""
LOOKING: list[Any] = []
"""The hooks that watch calls now, in whatever thread."""
EYES: dict[int, list[Any]] = {}
"""The hooks that watch by `sys.monitoring` and do not look away, by threads."""


def pause() -> Any:
    """Look away; returns what `resume` wants. For operators, which do nothing of the kind and call a lot.

    As long as `LOOKING` is empty there is nothing to pause. What runs code of the user's meanwhile resumes for as long.
    """
    if MONITORED:
        return EYES.pop(_thread.get_ident(), None)
    hook: Any = sys.getprofile()
    try:
        hook.is_ours  # noqa: B018
    except AttributeError:  # none, or a profiler of the user's, which goes on, and could not be set again
        return None
    sys.setprofile(None)
    return hook


def resume(hook: Any) -> None:
    """Look again."""
    if hook is None:
        return
    if MONITORED:
        EYES[_thread.get_ident()] = hook
    else:
        sys.setprofile(hook)


@contextlib.contextmanager
def resumed(hook: Any) -> Iterator[None]:
    """Within this block look again, after a `pause` that returned `hook`: code of the user's runs."""
    resume(hook)
    try:
        yield
    finally:
        if hook is not None:
            pause()


__all__ = ["EYES", "LOOKING", "MONITORED", "pause", "resume", "resumed"]
