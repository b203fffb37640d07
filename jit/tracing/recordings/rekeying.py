"""When more of a function has run than before, keys have more in them: what was recorded earlier moves to new keys.

A recording holds as long as the places that its own run has read are as they were. Keys name the places that any run
has read, so they become longer as further code runs. Recordings of the surroundings that are there now can be found
again under longer keys; those of other surroundings cannot, and are forgotten.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Any

from ..surroundings.calls import Entry, Key
from .shapes import SizeFamily

if TYPE_CHECKING:
    from ..surroundings.surroundings import World
    from .recording import Recording

Locate = Callable[[Any], tuple[str | None, int | None]]


class Change:
    """A change from keys of a smaller world to keys of a larger one, which are the same surroundings."""

    def __init__(self, before: World, after: World) -> None:
        self._before, self._after = before, after
        self._moved: dict[int, bool] = {}
        """Whether recordings stay valid, by their identity, for those that were looked at."""
        self._kept: list[Any] = []

    def cache(self, entries: dict[Key, Entry]) -> dict[Key, Entry]:
        """The part of a cache that stays valid, under its new keys."""
        pairs = ((self.key(key), self._entry(entry)) for key, entry in entries.items() if self.key(key) is not None)
        return {key: entry for key, entry in pairs if key is not None}

    def families(self, families: dict[Key, SizeFamily]) -> dict[Key, SizeFamily]:
        """The families that stay valid, under their new keys."""
        return {new: self._family(f) for key, f in families.items() if (new := self.key(key)) is not None}

    def key(self, key: Key) -> Key | None:
        """The key of the larger world for one of the smaller; None if it is of other surroundings."""
        old, new = self._before.fingerprint, self._after.fingerprint
        if key.surroundings == old:
            return key._replace(surroundings=new)
        if key.surroundings == old[:1]:
            return key._replace(surroundings=new[:1])
        return None

    def _family(self, family: SizeFamily) -> SizeFamily:
        calls = Counter({new: n for key, n in family.calls.items() if (new := self.key(key)) is not None})
        samples = [(new, r) for k, r in family.samples if (new := self.key(k)) is not None and self._moves(r)]
        general = {pattern: self.cache(entries) for pattern, entries in family.general.items()}
        return SizeFamily(general, samples, calls, family.closed)

    def _entry(self, entry: Entry) -> Entry:
        entry.recordings[:] = [recording for recording in entry.recordings if self._moves(recording)]
        return entry

    def _moves(self, recording: Recording) -> bool:
        """Let captures be found where they are now; whether they all can be."""
        if id(recording) not in self._moved:
            self._kept.append(recording)
            self._moved[id(recording)] = self._move(recording)
        return self._moved[id(recording)]

    def _move(self, recording: Recording) -> bool:
        found = []
        for capture in _captures(recording):
            if capture.place is not None:
                place = self._after.locate(self._before.tensors[capture.place])[1]
                if place is None:
                    return False
                found.append((capture, place))
        for capture, place in found:
            capture.place = place
        return True


def relocate(recording: Recording, locate: Locate) -> str | None:
    """Let the captures of a new recording be found in another world; the problem in words, if one is not there."""
    for capture in _captures(recording):
        if capture.number is None and (capture.place is not None or capture.gradient_of is None):
            place = locate(capture.owner)[1]
            if place is None and capture.place is not None:
                return f"used {capture.name!r}, a tensor or generator that later calls cannot find"
            capture.place = place
    return None


def _captures(recording: Recording) -> Iterator[Any]:
    return (capture for chain in recording.chains for capture in chain.trace.captures.found)


__all__ = ["Change", "relocate"]
