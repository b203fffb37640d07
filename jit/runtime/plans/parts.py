"""Parts of a step: how threads share it, and the table of the geometries of the whole and of its parts."""

from __future__ import annotations

import ctypes
import itertools
from typing import Any

import numpy as np

from ..arrays.arrays import address_of
from ..kernels.codegen import words_of
from ..kernels.work import Work
from . import pool

WAKING = 16
"""Threads that sleep are woken if what is to be shared takes as long as so many steps that are just long enough to be
shared among threads that are awake: it takes the caller some 20 microseconds, and them four times as long to come."""

QUICK = 1 << 16
"""Bytes that a run may touch while it holds the GIL: some microseconds."""


def table_of(work: Work, parts: int) -> tuple[Any, list[Any]]:
    """The table of a step's geometries, and all that has to be kept alive with it."""
    geometries = [words_of(g) if isinstance(g, list) else g for g in _geometries(work, parts)]
    table = np.array([_address(geometry) for geometry in geometries], np.int64)
    return table, [work.kept, table, geometries]


def _geometries(work: Work, parts: int) -> list[Any]:
    """The geometry of all the work and, if threads share it, those of its parts."""
    ranges = parts_of(work.panels, work.grain, parts) if parts > 1 else []
    return [work.geometry(), *(work.geometry(*pair) for pair in ranges)]


def parts_of(panels: int, grain: int, parts: int) -> list[tuple[int, int]]:
    """The ranges of the parts into which a number of panels is shared.

    >>> parts_of(100, 1, 2), parts_of(300, 64, 2)
    ([(0, 50), (50, 100)], [(0, 128), (128, 300)])
    """
    grain = grain if panels >= grain * parts else 1
    bounds = [*(panels * i // parts // grain * grain for i in range(parts)), panels]
    return list(itertools.pairwise(bounds))


def threads_for(long: int, operands: int, effort: int, panels: int) -> int:
    """The number of threads among which a step of some effort is worth being shared."""
    shared = effort >= long and operands < pool.MOST_OPERANDS
    return max(min(pool.most_parts(), panels), 1) if shared else 1


def marked(parts: Any, shares: Any) -> Any:
    """The numbers of parts as words of a program: with `pool.WAKES` where sleeping threads are to be woken.

    Args:
        parts: For each step.
        shares: Its effort, as a multiple of that from which work is shared.
    """
    ahead = np.cumsum(np.where(parts > 1, shares, 0)[::-1])[::-1]
    return parts + np.where((parts > 1) & (ahead >= WAKING), pool.WAKES, 0)


def _address(words: Any) -> int:
    return address_of(words) if isinstance(words, np.ndarray) else ctypes.addressof(words)
