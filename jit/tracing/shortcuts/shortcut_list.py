"""The latest shortcuts of one traced function, and the number of calls that have taken one."""

from __future__ import annotations

import threading
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

from jit.eager import context

from .shortcuts import Shortcut, hits, shortcut

if TYPE_CHECKING:
    from ..recordings.recording import Recording
    from ..surroundings.calls import TracedCall

SHORTCUTS = 8
"""The number of shortcuts that are tried before a call goes the long way."""

KeptShortcut = tuple[Shortcut, "Recording"]


class ShortcutList:
    """The shortcuts of one function, each with the recording that it runs, the latest first.

    Args:
        is_current: Whether no other thread has changed what the function looks at since a call was taken apart.
    """

    def __init__(self, is_current: Callable[[TracedCall], bool]) -> None:
        self.kept: tuple[KeptShortcut, ...] = ()
        self.open: list[KeptShortcut] = []
        """The shortcuts that calls may take: all that are kept, or none. It is always the same list, which calls go
        through without a lock: at worst one tries a shortcut that is not for it, and goes the long way."""
        self._is_open = True
        self._is_resting = False
        self._is_current = is_current
        self._earlier_hits = 0
        """The calls that have taken shortcuts which are kept no longer."""
        self._lock = threading.Lock()

    @property
    def hits(self) -> int:
        """The number of calls that have taken a shortcut."""
        return self._earlier_hits + sum(hits(short) for short, _ in self.kept)

    @property
    def is_open(self) -> bool:
        """Whether calls may take shortcuts."""
        return self._is_open

    @is_open.setter
    def is_open(self, value: bool) -> None:
        with self._lock:
            self._is_open = value
            self._fill()

    @property
    def is_resting(self) -> bool:
        """Whether no call may take one for the time being, since those before have all tried in vain."""
        return self._is_resting

    @is_resting.setter
    def is_resting(self, value: bool) -> None:
        if value != self._is_resting:
            with self._lock:
                self._is_resting = value
                self._fill()

    def _fill(self) -> None:
        self.open[:] = self.kept if self._is_open and not self._is_resting else ()

    def shorten(self, call: TracedCall, recording: Recording, inputs: Sequence[Any]) -> None:
        """Let further calls like this one take a shortcut to the recording that it has run, if there is one.

        Args:
            call: It has gone the long way.
            recording: It ran this.
            inputs: The tensors behind the recording's inputs.
        """
        chain = recording.chains[0]
        plan = recording.plan(chain, recording.sizes_of(inputs)) if recording.general else chain.plan
        state = (call.world.surroundings, context.INFERENCE.get(), context.AUTOCAST.get())
        if plan is None or all(a is b for a, b in zip(recording.tried.get(plan, (None, ..., ...)), state)):
            return
        recording.tried[plan] = state
        short = shortcut(call, recording)
        if short is not None and self._is_current(call):
            self.add(short, recording)

    def add(self, short: Shortcut, recording: Recording) -> None:
        """Put a shortcut before the others; the oldest one goes if there are too many."""
        with self._lock:
            self._earlier_hits += sum(hits(old) for old, _ in self.kept[SHORTCUTS - 1 :])
            self.kept = ((short, recording), *self.kept[: SHORTCUTS - 1])
            self._fill()

    def clear(self) -> None:
        """Forget all shortcuts, and how often they were taken."""
        with self._lock:
            self.kept, self._is_resting = (), False
            self._fill()
            self._earlier_hits = 0
