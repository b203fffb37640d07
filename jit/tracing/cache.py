"""The recordings of a traced function by their keys, which become longer as further code of it runs."""

from __future__ import annotations

import threading
from collections.abc import Callable

from .recordings.recording import Recording
from .recordings.rekeying import Change, relocate
from .sizes import SizeFamilies
from .surroundings.calls import Entry, Key, TracedCall
from .surroundings.surroundings import GrowingWorld, Surroundings, World

KEYS = 64
"""The number of keys that a function may have before further ones run eagerly."""


class Outgrown(Exception):
    """A call has to be looked at again: while it was under way, another one has shown that there is more to look at."""


class RecordingCache:
    """The recordings of one function.

    Args:
        surroundings: What the function reads besides its arguments; it learns what more there is to look at.
        sizes: Which recordings serve many sizes.
    """

    def __init__(self, surroundings: Surroundings, sizes: SizeFamilies) -> None:
        self.entries: dict[Key, Entry] = {}
        self.sizes = sizes
        self.lock = threading.RLock()
        self._surroundings = surroundings

    @property
    def is_full(self) -> bool:
        """Whether there is no room for further keys."""
        return len(self.entries) >= KEYS

    def get(self, key: Key) -> Entry | None:
        """The recordings of a key."""
        return self.entries.get(key)

    def entry(self, key: Key, explain: Callable[[], None]) -> Entry | None:
        """The recordings of a key, which gets its place if there is one; `explain` is called before a new one does."""
        with self.lock:
            entry = self.entries.get(key)
            if entry is None and not self.is_full:
                explain()
                entry = self.entries[key] = Entry()
            return entry

    def drop(self, key: Key) -> None:
        """Forget the recordings of a key, which no call has any more."""
        with self.lock:
            self.entries.pop(key, None)

    def clear(self) -> None:
        """Forget all recordings."""
        self.entries.clear()
        self.sizes.families.clear()

    def is_current(self, call: TracedCall) -> bool:
        """Whether what is looked at is still what it was when the call was taken apart: no thread has changed it."""
        return call.world.generation == self._surroundings.generation

    def check_generation(self, call: TracedCall) -> None:
        """Outgrown if another thread has changed what is looked at since the call was taken apart."""
        if not self.is_current(call):
            raise Outgrown

    def grow(self, entry: Entry, call: TracedCall, before: World, recording: Recording | None) -> str | None:
        """Keep a recording, under the key that has all in it that the call has read; why not, if it cannot be kept.

        Without a recording it is only learnt what has run.

        Args:
            entry: Where it would be kept if the call has read nothing new.
            call: The call that was recorded.
            before: Its world before it ran.
            recording: What was recorded.
        """
        grown = call.world
        assert isinstance(grown, GrowingWorld)
        with self.lock:
            is_alone = before.generation == self._surroundings.generation
            if not grown.has_grown and is_alone:
                call.world = before
                entry.recordings += [] if recording is None else [recording]
                return None
            if recording is None and not self._has_recordings():
                self._surroundings.learn(grown.footprint)
                self.entries.clear()
                return None
            self._look_at_more(call, before, grown, is_alone and recording is not None)
            lost = None if recording is None else relocate(recording, grown, call.world, len(call.promoted))
            if recording is not None and lost is None:
                self.entries.setdefault(call.key, entry).recordings.append(recording)
            return lost

    def _look_at_more(self, call: TracedCall, before: World, grown: GrowingWorld, is_alone: bool) -> None:
        """Let keys have all in them that a call has read, its own key among them."""
        if not is_alone:
            before = self._world_of(grown)
        self._surroundings.learn(grown.footprint)
        call.world = after = grown.settled() if is_alone and not grown.late else self._world_of(grown)
        if not grown.late:
            self._surroundings.begin_with(after.surroundings)
        change = Change(before, after)
        self.entries, self.sizes.families = change.cache(self.entries), change.families(self.sizes.families)
        call.key = call.key._replace(surroundings=after.fingerprint)

    def _has_recordings(self) -> bool:
        """Whether there is anything that other keys would have to be found for."""
        return bool(self.sizes.families) or any(entry.recordings for entry in self.entries.values())

    def _world_of(self, grown: GrowingWorld) -> World:
        """The world of a call that was recorded, looked at anew."""
        return grown.with_objects(self._surroundings.view(grown.kinds(), grown.late))
