"""Answers of a traced function out of its recordings: the long way, on which Python compares and runs."""

from __future__ import annotations

import threading
from typing import Any

from jit.runtime.arrays.programs import GuardFailed

from .cache import RecordingCache
from .explanation import Explanation
from .recordings.recalling import recollection
from .recordings.recording import OperatorRaised, Recording, may_follow, seen_by
from .shortcuts.shortcut_list import ShortcutList
from .surroundings.calls import Entry, TracedCall


class Answers:
    """Runs recordings of one function, and counts the calls that they have answered.

    Args:
        cache: The recordings.
        explanation: Is told why a recording does not serve a call.
    """

    def __init__(self, cache: RecordingCache, explanation: Explanation) -> None:
        self.shortcuts = ShortcutList(cache.is_current)
        self._cache = cache
        self._explanation = explanation
        self.looked_up = 0
        """The calls that were answered the long way."""
        self._lock = threading.Lock()

    @property
    def hits(self) -> int:
        """The number of calls that ran a recording, the long way or by a shortcut."""
        return self.looked_up + self.shortcuts.hits

    def clear(self) -> None:
        """Forget the shortcuts, and count from 0."""
        self.shortcuts.clear()
        with self._lock:
            self.looked_up = 0

    def answer(self, entry: Entry, call: TracedCall) -> tuple[Recording | None, Any]:
        """Try the recordings that the guards lead to, the latest first.

        Returns:
            The recording that ran, and the result of the call; None and None if no recording serves it.

        Raises:
            Outgrown: Another thread has changed what the function looks at.
        """
        prefix: tuple[Any, ...] = ()
        for recording in reversed(entry.recordings):
            if not may_follow(recording, prefix):
                continue
            inputs = self._inputs(recording, call)
            if inputs is None:
                continue
            try:
                result = self._run(recording, inputs, call)
            except GuardFailed as failed:
                prefix = seen_by(recording, failed)
                self._explanation.other_path(recording, failed)
                continue
            except OperatorRaised as raised:
                self._explanation.anew(f"an operator raised {type(raised.error).__name__}")
                continue
            with self._lock:
                self.looked_up += 1
            self.shortcuts.shorten(call, recording, inputs)
            return recording, result
        return None, None

    def _inputs(self, recording: Recording, call: TracedCall) -> list[Any] | None:
        """The inputs of a recording in a call; None if something that it takes for granted is not so."""
        inputs = recording.inputs(call.leaves, call.world.tensors, call.numbers)
        self._cache.check_generation(call)
        why_not = recording.misfit(inputs, call.knows, call.world.surroundings)
        if why_not is None:
            return inputs
        if recording.general:
            self._explanation.unserved(call.key, why_not)
        else:
            self._explanation.anew(why_not)
        return None

    def _run(self, recording: Recording, inputs: list[Any], call: TracedCall) -> Any:
        """Run a recording; what Python functions return on the way is the same as in the attempts before."""
        calls = recollection()
        if calls is not None:
            calls.rewind()
        try:
            return recording.run(inputs, recording.networks(call.world))
        except OperatorRaised as raised:
            call.note_raised(raised.error, calls)
            raise
