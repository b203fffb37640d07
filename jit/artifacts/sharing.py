"""Recordings that loaded functions have in common: equal graphs are read and compiled once in a process.

Note [What equal artifacts share]
    A worker that is sent a function with each task reads the same graphs again and again, and reading them takes many
    times as long as running them. So the recordings of the last artifacts are kept, by a digest of all that
    they were made of: the manifest, the graphs, and the constants in these. Parameters, buffers and generators are not
    in it. Each loaded function has its own, made of its own bytes: what one function writes, or accumulates in `.grad`,
    no other one sees, and a function whose parameters have changed since it was last sent shares its graphs all the
    same. A recording finds its tensors among those of the function that is called, by their places.

    The digest is computed from the bytes at hand. One that came along with them could be somebody's who wants their
    graph to run in the place of another.
"""

from __future__ import annotations

import hashlib
import os
import re
import threading
from collections import OrderedDict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from typing import Any, NamedTuple
from weakref import WeakKeyDictionary

from jit.eager.generators import Generator, default_generator
from jit.eager.tensors import Tensor
from jit.tracing.recordings.recording import Recording
from jit.tracing.recordings.shapes import Pattern, SizeFamily

from ..tracing.function import Entry, Key, TracedFunction

KEPT = 32
"""The number of artifacts whose recordings are kept."""

_NAMES_HERE = re.compile(rb'"type"\s*:\s*\[')
"""A manifest that mentions a class of the user's: the next one of that name may be another."""


class Placed(NamedTuple):
    """Recordings, and their place in the cache of a function."""

    key: Key
    general: tuple[Key, Pattern] | None
    """The key of the family, and the sizes that vary, if they serve many sizes."""
    recordings: Sequence[Recording]


class SharedRecordings:
    """The recordings of the last artifacts that were read, each by its digest."""

    def __init__(self) -> None:
        self._kept: OrderedDict[str, tuple[Any, Sequence[Placed]]] = OrderedDict()
        """The fingerprints of the surroundings in which they are right, and the recordings."""
        self._lock = threading.Lock()

    def find(self, digest: str, fingerprint: Any) -> Sequence[Placed] | None:
        """The recordings of an artifact, for a function of its own whose surroundings have this fingerprint."""
        with self._lock:
            known, placed = self._kept.get(digest, (None, ()))
            if not placed or known != fingerprint:
                return None
            self._kept.move_to_end(digest)
        return [each._replace(recordings=[_another(recording) for recording in each.recordings]) for each in placed]

    def keep(self, digest: str, fingerprint: Any, placed: Sequence[Placed]) -> None:
        """Keep the recordings of an artifact; those that nobody has asked for longest go.

        Args:
            digest: The digest of the artifact.
            fingerprint: The fingerprint of the surroundings of the function that has them.
            placed: The recordings.
        """
        with self._lock:
            self._kept[digest] = fingerprint, placed
            self._kept.move_to_end(digest)
            while len(self._kept) > KEPT:
                self._kept.popitem(last=False)

    def renew_lock(self) -> None:
        """Make a new lock in a forked child, where a thread that held the old one does not exist."""
        self._lock = threading.Lock()


SHARED = SharedRecordings()
os.register_at_fork(after_in_child=SHARED.renew_lock)


def digest_of(manifest: bytes, graphs: Sequence[str], constants: Mapping[str, Any]) -> str | None:
    """A digest of all that recordings are made of; None if they depend on what this process has under some names.

    Args:
        manifest: The manifest of an artifact.
        graphs: The texts of its graphs.
        constants: The arrays that these mention.
    """
    if _NAMES_HERE.search(manifest):
        return None
    arrays = [part for name, a in sorted(constants.items()) for part in (f"{name} {a.dtype} {a.shape}", a.tobytes())]
    found = hashlib.sha256()
    for part in (manifest, *graphs, *arrays):
        data = part.encode() if isinstance(part, str) else part
        found.update(len(data).to_bytes(8, "little"))
        found.update(data)
    return found.hexdigest()


def can_be_shared(placed: Iterable[Placed]) -> bool:
    """Whether all that recordings take from a function they find by its place; Python functions are known by name."""
    recordings = [recording for each in placed for recording in each.recordings]
    return not any(_is_bound(chain.trace) for recording in recordings for chain in recording.chains)


def _is_bound(trace: Any) -> bool:
    held = (c.owner for c in trace.captures.found if isinstance(c.owner, (Tensor, Generator)) and c.place is None)
    is_held = any(owner is not default_generator() for owner in held)
    return is_held or any("function" in node.attributes for node in trace.graph.nodes)


def _another(recording: Recording) -> Recording:
    """The same recording for another function: chains and their lock are common, what it has seen of calls is not."""
    return replace(recording, tried=WeakKeyDictionary(), generals=[])


def put(function: TracedFunction, placed: Iterable[Placed]) -> None:
    """Give a function its recordings."""
    for key, general, recordings in placed:
        entry = Entry(list(recordings))
        if general is None:
            function._cache.entries[key] = entry
            continue
        family_key, pattern = general
        family = function._cache.sizes.families.setdefault(family_key, SizeFamily())
        family.general.setdefault(pattern, {})[key] = entry
        function._cache.sizes.counts_are_open |= any(recording.counts for recording in recordings)
