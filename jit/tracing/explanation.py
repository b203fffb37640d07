"""Why the last recording was made, or why a call was not kept, in a sentence."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from jit.runtime.arrays.programs import GuardFailed

from .recordings.recording import Recording, watches_error
from .surroundings.reasons import why_anew


class Explanation:
    """The sentences of a traced function's `explain()`."""

    def __init__(self) -> None:
        self._said: tuple[str, str | Callable[[], str], str] = ("", "it has not been called yet", "")
        """The beginning of the sentence, why, and what more there is to say; replaced as a whole, as threads do."""
        self._unserved: tuple[Any, str] = (None, "")
        """The key of a call that the recording for many sizes did not serve, and why."""
        self._promoting = ""
        """Why numbers have become inputs, until the call is recorded that shows it."""

    def __str__(self) -> str:
        beginning, _, further = self._said
        return f"{beginning}{self.reason}{further}"

    @property
    def reason(self) -> str:
        """Why, without what was done therefore."""
        reason = self._said[1]
        return reason() if callable(reason) else reason

    @property
    def details(self) -> str:
        """Why, and what more there is to say."""
        return self.reason + self._said[2]

    def _say(self, beginning: str, reason: str | Callable[[], str]) -> None:
        """Say why; what takes long to find out is found out when somebody asks."""
        self._said = (beginning, reason, "")

    def first_call(self) -> None:
        """There was no recording yet."""
        self._say("it was recorded because ", "this was its first call")

    def other_key(self, key: Any, keys: Sequence[Any], names: Sequence[str]) -> None:
        """No recording was made for `key`, but for the keys `keys`; `names` are those of the arguments."""
        self.anew(self._promoting or why_anew(key, keys, names))
        self._promoting = ""
        unserved, why = self._unserved
        if unserved == key:
            self.also(f"the recording for many sizes does not serve it: {why}")

    def promotes(self, key: Any, keys: Sequence[Any], names: Sequence[str]) -> None:
        """Numbers in which a call differs from the recorded ones become inputs."""
        self._promoting = f"{why_anew(key, keys, names)}; it takes numbers that vary as inputs from now on"

    def untraced(self, why: str, key: Any, keys: Sequence[Any], names: Sequence[str]) -> None:
        """A call of `key` ran untraced; there are recordings of `keys`, and the arguments are called `names`."""
        self._say(f"it ran untraced because {why}: ", lambda: why_anew(key, keys, names) if keys else "none is kept")

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
