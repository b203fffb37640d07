"""When more of a function has run than before, keys have more in them: what was recorded earlier moves to new keys.

A recording holds as long as the places that its own run has read are as they were. Keys name the places that any run
has read, so they become longer as further code runs. Recordings of the surroundings that are there now can be found
again under longer keys; those of other surroundings cannot, and are forgotten.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any

from ..surroundings.calls import Entry, Key
from ..surroundings.number_arguments import count_of
from .shapes import SizeFamily

if TYPE_CHECKING:
    from ..surroundings.promoting import Number
    from ..surroundings.surroundings import World
    from .recording import Recording


class Change:
    """A change from keys of a smaller world to keys of a larger one, which are the same surroundings."""

    def __init__(self, before: World, after: World) -> None:
        self._before, self._after = before, after
        self._moved: dict[int, bool] = {}
        """Whether recordings stay valid, by their identity, for those that were looked at."""
        self._kept: list[Any] = []
        self._numbers = _counterparts(before.numbers, after.numbers)
        """Places of the smaller world's promoted numbers in the larger one; None for those that are no inputs there."""

    def cache(self, entries: dict[Key, Entry]) -> dict[Key, Entry]:
        """The part of a cache that stays valid, under its new keys."""
        kept = ((self.key(key), key, entry) for key, entry in entries.items())
        return {new: self._entry(entry, old) for new, old, entry in kept if new is not None}

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
        samples = [(new, r) for k, r in family.samples if (new := self.key(k)) is not None and self._moves(r, k)]
        general = {pattern: self.cache(entries) for pattern, entries in family.general.items()}
        return SizeFamily(general, samples, calls, family.closed)

    def _entry(self, entry: Entry, key: Key) -> Entry:
        entry.recordings[:] = [recording for recording in entry.recordings if self._moves(recording, key)]
        return entry

    def _moves(self, recording: Recording, key: Key) -> bool:
        """Let captures of a recording that was made for a key be found where they are now; whether they all can be."""
        if id(recording) not in self._moved:
            self._kept.append(recording)
            self._moved[id(recording)] = self._move(recording, count_of(key.structure))
        return self._moved[id(recording)]

    def _move(self, recording: Recording, given: int) -> bool:
        """Let captures be found; the first `given` numbers are arguments, and stay where they are."""
        found: list[tuple[Any, str, int]] = []
        for capture in _captures(recording):
            place: int | None = 0
            if capture.place is not None:
                place = self._after.locate(self._before.tensors[capture.place])[1]
                found.append((capture, "place", place or 0))
            elif capture.number is not None and capture.number >= given:
                place = self._numbers[capture.number - given]
                found.append((capture, "number", given + (place or 0)))
            if place is None:
                return False
        attributes = recording.result.attributes
        networks = [self._after.number_of(self._before.object_at(each.network)) for each in attributes]
        if None in networks:
            return False
        for attribute, network in zip(attributes, networks, strict=True):
            attribute.network = network  # type: ignore[assignment]
        for capture, name, place in found:
            setattr(capture, name, place)
        return True


def _counterparts(before: Sequence[Number], after: Sequence[Number]) -> list[int | None]:
    """Places of numbers: for each of some that of the same one among others."""
    places: dict[str, list[int]] = {}
    for place, number in enumerate(after):
        places.setdefault(number.name, []).append(place)
    return [found.pop(0) if (found := places.get(number.name)) else None for number in before]


def relocate(recording: Recording, grown: World, settled: World, given: int) -> str | None:
    """Let the captures of a new recording be found in later calls; the problem in words, if one is not there.

    Args:
        recording: What was recorded.
        grown: The world of the call in which it was.
        settled: The world that later calls will look at.
        given: The number of arguments that are promoted numbers.
    """
    numbers = _counterparts(grown.numbers, settled.numbers)
    for capture in _captures(recording):
        if capture.number is not None and capture.number >= given:
            number = numbers[capture.number - given]
            if number is None:
                return f"read {capture.name!r}, a number that later calls cannot find"
            capture.number = given + number
        elif capture.number is capture.item_of is None and (capture.place is not None or capture.gradient_of is None):
            place = settled.locate(capture.owner)[1]
            if place is None and capture.place is not None:
                return f"used {capture.name!r}, a tensor or generator that later calls cannot find"
            capture.place = place
    for attribute in recording.result.attributes:
        network = settled.number_of(grown.object_at(attribute.network))
        if network is None:
            return f"sets {attribute.name!r} on a network that later calls cannot find"
        attribute.network = network
    return None


def _captures(recording: Recording) -> Iterator[Any]:
    return (capture for chain in recording.chains for capture in chain.trace.captures.found)


__all__ = ["Change", "relocate"]
