"""Why the last recording was made, or why a call was not kept, in a sentence."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from jit.runtime.arrays.programs import GuardFailed

from .recordings.recording import Recording, watches_error
from .surroundings.reasons import why_anew


class Explanation:
    """The sentences of a traced function's `explain()`."""

    def __init__(self) -> None:
        self._said: tuple[str, str, str] = ("", "it has not been called yet", "")
        """The beginning of the sentence, why, and what more there is to say; replaced as a whole, as threads do."""
        self._unserved: tuple[Any, str] = (None, "")
        """The key of a call that the recording for many sizes did not serve, and why."""

    def __str__(self) -> str:
        return "".join(self._said)

    @property
    def reason(self) -> str:
        """Why, without what was done therefore."""
        return self._said[1]

    def _say(self, beginning: str, reason: str) -> None:
        self._said = (beginning, reason, "")

    def first_call(self) -> None:
        """There was no recording yet."""
        self._say("it was recorded because ", "this was its first call")

    def other_key(self, key: Any, keys: Sequence[Any], names: Sequence[str]) -> None:
        """No recording was made for `key`, but for the keys `keys`; `names` are those of the arguments."""
        self.anew(why_anew(key, keys, names))
        unserved, why = self._unserved
        if unserved == key:
            self.also(f"the recording for many sizes does not serve it: {why}")

    def waits(self, key: Any, keys: Sequence[Any], names: Sequence[str]) -> None:
        """A call ran untraced: every size is another program, and these sizes had not come before."""
        why = why_anew(key, keys, names)
        self._say("it ran untraced because sizes are baked in, and these came for the first time: ", why)

    def unserved(self, key: Any, why: str) -> None:
        """The recording for many sizes does not serve a call."""
        self._unserved = (key, why)
        self.anew(why)

    def anew(self, why: str) -> None:
        """A call was recorded although there are recordings of its key."""
        self._say("it was recorded anew because ", why)

    def other_path(self, recording: Recording, failed: GuardFailed) -> None:
        """A guard of a recording has failed."""
        guard = recording.trace.guards.records[failed.index]
        if watches_error(recording, failed.index):
            why = f"the error that the function caught at {guard.source} did not come"
        else:
            why = f"the value decided upon at {guard.source} was {failed.actual!r}, not {guard.outcome!r}"
        self._say("it took another path because ", why)

    def not_kept(self, effect: str) -> None:
        """The call has done something that a recording cannot repeat."""
        self._say("it was not kept, because ", f"the call {effect}, which a recording cannot repeat")

    def loaded(self) -> None:
        """Say that it came in a file."""
        self._say("", "it was loaded")

    def also(self, words: str) -> None:
        """Say something more."""
        beginning, reason, further = self._said
        self._said = (beginning, reason, f"{further}; {words}")
