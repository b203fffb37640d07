"""Who has accessed which bytes: finds accesses of two threads that nothing puts in an order.

Note [Who was here]
    For every unit of bytes the traffic keeps one stamp for the reads, one for the writes and one for the atomic
    accesses since the launch: the thread, and how many barriers its block had passed. One stamp is enough, because
    whatever comes behind a barrier is ordered behind all that came before it. Readers of one interval that differ are
    kept as "several threads of this block", readers of several blocks as "several blocks", which nothing orders.

        stamp:  interval (barriers that the block has passed) | block | thread, or SEVERAL
"""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np

from .arithmetic import Array
from .findings import Conflict

READ, WRITE, ATOMIC = "read", "write", "atomic access"
UNCHANGING = "read of what nobody writes"
"""A read of memory that no thread may write during the launch, not even the reader."""
CONFLICTING = {READ: (WRITE, ATOMIC), WRITE: (READ, WRITE, ATOMIC), ATOMIC: (READ, WRITE)}
NOBODY, SEVERAL_BLOCKS = -(1 << 62), -1
BLOCK, INTERVAL = 11, 40
"""The first bits of the block and of the interval in a stamp; a block has 1024 threads at most."""
SEVERAL = (1 << BLOCK) - 1
OF_BLOCK = (1 << INTERVAL) - (1 << BLOCK)
DEFERRED = 1 << 21
"""Reads that are kept in a list while nobody writes, since most memory is only read."""


def unordered(seen: Array, own: Array) -> Array:
    """Which accesses that were seen are not ordered before one's own."""
    difference = seen ^ own
    beside = (difference > 0) & (difference <= SEVERAL)  # another thread of the same block and interval
    return (seen != NOBODY) & ((difference & OF_BLOCK != 0) | beside | (seen == SEVERAL_BLOCKS))


def joined(seen: Array, own: Array) -> Array:
    """The stamps that stand for what was seen and for one's own."""
    here = np.where((seen ^ own) & OF_BLOCK == 0, own | SEVERAL, SEVERAL_BLOCKS)
    return np.where(unordered(seen, own), np.where(seen == SEVERAL_BLOCKS, SEVERAL_BLOCKS, here), own)


@dataclass
class Traffic:
    """The accesses to one storage during a launch, see Note [Who was here]."""

    size: int
    unit: int
    """The bytes for which a stamp is kept: the narrowest access of the kernel."""
    tables: dict[str, Array] = field(default_factory=dict)
    deferred: list[tuple[Array, Array]] = field(default_factory=list)
    waiting: int = 0
    """The lanes of deferred reads."""

    def record(self, kind: str, places: Array, width: int, own: Array) -> None:
        """Note an access of every lane; Conflict with one that nothing orders before it."""
        units, parts = places // self.unit, width // self.unit
        if parts > 1:
            units = (units[:, None] + np.arange(parts)).reshape(-1)
            own = np.repeat(own, parts)
        if kind == UNCHANGING:
            kind, own = READ, np.full_like(own, SEVERAL_BLOCKS)
        if kind == READ and not self.tables:
            self._defer(units, own)
            return
        if self.deferred:
            self._read_deferred()
        for other in CONFLICTING[kind]:
            if other in self.tables:
                seen = self.tables[other][units]
                self._refuse(kind, other, unordered(seen, own), seen, parts)
        self._stamp(kind, units, own, parts)

    def _defer(self, units: Array, own: Array) -> None:
        self.deferred.append((units, own))
        self.waiting += len(units)
        if self.waiting > DEFERRED:
            self._read_deferred()

    def _read_deferred(self) -> None:
        for units, own in self.deferred:
            self._stamp(READ, units, own, 1)
        self.deferred, self.waiting = [], 0

    def _stamp(self, kind: str, units: Array, own: Array, parts: int) -> None:
        """Stamp the units; lanes of one instruction may meet at one of them, which writes must not."""
        table = self.tables.get(kind)
        if table is None:
            table = self.tables[kind] = np.full(-(-self.size // self.unit), NOBODY, np.int64)
        if kind == WRITE:
            table[units] = own
            seen = table[units]
            self._refuse(kind, kind, seen != own, seen, parts)
            return
        while True:
            seen = table[units]
            left = (seen != own) & (seen != own | SEVERAL)
            wanted = joined(seen, own) if left.any() else seen
            left = seen != wanted
            if not left.any():
                return
            table[units[left]] = wanted[left]

    def _refuse(self, kind: str, other: str, conflicts: Array, seen: Array, parts: int) -> None:
        """Conflict with what was seen first."""
        if not conflicts.any():
            return
        first = int(np.argmax(conflicts))
        stamp = int(seen[first])
        block, thread = (stamp & OF_BLOCK) >> BLOCK, stamp & SEVERAL
        who = f"thread {thread} of block {block}" if thread < SEVERAL else f"several threads of block {block}"
        who = "several blocks" if stamp == SEVERAL_BLOCKS else who
        message = f"this {kind} and a {other} by {who} of the same byte have no barrier between them"
        raise Conflict(message, first // parts)
