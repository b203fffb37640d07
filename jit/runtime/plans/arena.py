"""Decides where the temporaries of a plan lie in one piece of memory: as little of it as their lifetimes allow.

Memory is taken and given back in the order of the plan's steps. What is free is kept as ranges that never touch; the
smallest one that fits is taken. Everything is O(log n) a step, lists of free ranges being short.
"""

from __future__ import annotations

import bisect

ALIGNMENT = 64
"""Bytes: a cache line, and the widest vector."""


class Arena:
    """Offsets for blocks that live for a while.

    >>> arena = Arena()
    >>> a, b = arena.take(100), arena.take(100)
    >>> arena.give(a)
    >>> arena.take(60) == a, b, arena.size
    (True, 128, 256)
    """

    def __init__(self, gap: int = 0) -> None:
        self.size = 0
        """The bytes that the arena needs."""
        self._gap = gap
        self._taken: dict[int, int] = {}
        self._by_size: list[tuple[int, int]] = []
        self._starts: dict[int, int] = {}
        self._ends: dict[int, int] = {}

    def take(self, nbytes: int) -> int:
        """The offset of a block of `nbytes`; with a gap, that many bytes behind it stay unused."""
        wanted = -(-max(nbytes + self._gap, 1) // ALIGNMENT) * ALIGNMENT
        at = bisect.bisect_left(self._by_size, (wanted, -1))
        if at < len(self._by_size):
            size, start = self._by_size[at]
            self._remove(start, size)
            if size > wanted:
                self._insert(start + wanted, size - wanted)
        else:
            start = self._extend(wanted)
        self._taken[start] = wanted
        return start

    def give(self, start: int) -> None:
        """The block at `start` is free again."""
        size = self._taken.pop(start)
        before = self._ends.get(start)
        if before is not None:
            self._remove(before, start - before)
            start, size = before, size + start - before
        after = self._starts.get(start + size)
        if after is not None:
            self._remove(start + size, after)
            size += after
        self._insert(start, size)

    def _extend(self, wanted: int) -> int:
        """Make room at the end, beginning with what is free there."""
        start = self._ends.get(self.size)
        if start is None:
            start = self.size
        else:
            self._remove(start, self.size - start)
        self.size = start + wanted
        return start

    def _insert(self, start: int, size: int) -> None:
        bisect.insort(self._by_size, (size, start))
        self._starts[start] = size
        self._ends[start + size] = start

    def _remove(self, start: int, size: int) -> None:
        del self._by_size[bisect.bisect_left(self._by_size, (size, start))]
        del self._starts[start], self._ends[start + size]
