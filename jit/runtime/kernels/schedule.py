"""Orders and merges the loops of a nest, and says along which of them vectors run.

Comes after `nest`, before `llvm.lower`. The result is canonical: nests that differ only in the numbers of extents,
strides and offsets share a `pattern`, and so share machine code. Nothing here knows the target: how many lanes a
vector has, and how many accumulators there are, is for `lanes` to say.

Note [Where vectors run]
    Rows are the reduced loops, inside of the parallel ones. Vectors run
    * along the row, if the row is what lies in memory one element after the other: a lane sums every n-th element,
      and the lanes of a row are summed at its end in a fixed order; or
    * across rows, along the innermost parallel loop: each lane sums its own row, in the order of the row. A matrix
      product always does, with several rows of the result at a time (the loop `jam`), so that each vector that is
      read serves several of them.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial

from jit.ir.sizes import estimating, only_if

from .nest import Access, Bound, Nest, Position, Reduce

FIXED, UNIT, STRIDED = "fixed", "unit", "strided"
"""Steps of a map along a loop: none, to the next element, or by a stride known at run time."""

Map = Access | Bound | Position

BLOCK = 128
"""A sum of more terms than this, one after the other, is split: the terms of a block first, then the blocks."""


@dataclass(frozen=True)
class Loops:
    """A nest's loops, outermost first, with the strides of every map (reads, writes, points) along them."""

    extents: tuple[int, ...]
    strides: tuple[tuple[int, ...], ...]
    """strides[map][loop], in elements."""
    reduced: int = 0
    """The number of the last loops that are the row."""
    lane: int = -1
    """The loop along which vectors run."""
    jam: int | None = None
    """A parallel loop, just inside of `lane`, of which several points share what they read."""

    @property
    def parallel(self) -> int:
        """The number of the first loops that are not the row."""
        return len(self.extents) - self.reduced

    @property
    def along_row(self) -> bool:
        """Whether the lanes of a vector are points of one row."""
        return self.lane >= self.parallel

    def motion(self, map: int, loop: int) -> str:
        """FIXED, UNIT (along the lanes alone) or STRIDED."""
        stride = self.strides[map][loop]
        if stride == 0:
            return FIXED
        return UNIT if stride == 1 and loop == self.lane else STRIDED

    @property
    def pattern(self) -> tuple[tuple[str, ...], ...]:
        """All that code generation needs to know of the strides: the motion of each map along each loop."""
        return tuple(tuple(self.motion(m, i) for i in range(len(self.extents))) for m in range(len(self.strides)))


def schedule(nest: Nest) -> Loops:
    """The loops of `nest`: no dims of one point, the order that suits memory, as few as possible but at least one."""
    maps: tuple[Map, ...] = (*nest.reads, *nest.writes, *nest.points)
    first_reduced = len(nest.extents) - nest.reduced
    parallel = merged(nest, maps, range(first_reduced), ordered=False)
    row = merged(nest, maps, range(first_reduced, len(nest.extents)), ordered=is_ordered(nest))
    if is_contraction(nest) and row:
        return _contraction(nest, parallel, row)
    if not parallel and not row:
        # One point: reads are broadcasts, a write fills the first lane of a vector.
        reads = len(nest.reads)
        parallel = [(1, (0,) * reads + (1,) * len(nest.writes) + (0,) * len(nest.points))]
    lane = _lane(nest, parallel, row)
    return _loops(parallel, row, lane)


Loop = tuple[int, tuple[int, ...]]
"""(extent, the stride of each map)."""


def _loops(parallel: Sequence[Loop], row: Sequence[Loop], lane: int, jam: int | None = None) -> Loops:
    extents, columns = zip(*parallel, *row, strict=True)
    return Loops(extents, tuple(zip(*columns, strict=True)), len(row), lane, jam)


def merged(nest: Nest, maps: Sequence[Map], dims: Sequence[int], ordered: bool) -> list[Loop]:
    """The loops of `dims`, outermost first."""
    moving = [d for d in dims if nest.extents[d] != 1]
    if not ordered:
        with estimating():
            largest = _largest(nest, maps)
            moving.sort(key=lambda d: _rank(largest, d), reverse=True)
    loops: list[Loop] = []
    for dim in moving:
        column, extent = tuple(m.strides[dim] for m in maps), nest.extents[dim]
        if loops and only_if(partial(_is_one_loop, loops[-1][1], column, extent)):
            # for o in range(n): for i in range(m): x[o * m * s + i * s]   ->   for i in range(n * m): x[i * s]
            loops[-1] = loops[-1][0] * extent, column
        else:
            loops.append((extent, column))
    return loops


def _is_one_loop(outer: Sequence[int], inner: Sequence[int], extent: int) -> bool:
    """Whether a loop goes on, turn by turn of the outer one, where the one inside of it ends."""
    return all(far == near * extent for far, near in zip(outer, inner, strict=True))


def _rank(maps: Sequence[Map], dim: int) -> tuple[int, int]:
    """Low for the dim that should run innermost: contiguous in most accesses, then short steps."""
    steps = [abs(m.strides[dim]) for m in maps]
    return -steps.count(1), sum(steps)


def _largest(nest: Nest, maps: Sequence[Map]) -> list[Map]:
    """The accesses that touch the most elements: those of weights along one dim do not say how loops should run."""
    touched = {
        m: math.prod(n for n, stride in zip(nest.extents, m.strides, strict=True) if stride)
        for m in maps
        if isinstance(m, Access)
    }
    most = max(touched.values(), default=0)
    return [m for m, count in touched.items() if 2 * count >= most]


# -- where vectors run -------------------------------------------------------------------------------------------


@estimating()
def _lane(nest: Nest, parallel: Sequence[Loop], row: Sequence[Loop]) -> int:
    """The index of the loop that vectors run along: the cheaper one, see Note [Where vectors run]."""
    last = len(parallel) + len(row) - 1
    if not parallel or not row:
        return last
    count = len(nest.reads) + len(nest.writes)
    across, along = _effort(parallel[-1], count), _effort(row[-1], count)
    along *= 1 + 32 / max(row[-1][0], 1)  # lanes are summed
    if nest.scans:
        along *= 4
    return last if along <= across else len(parallel) - 1


def _effort(loop: Loop, count: int) -> float:
    """The cost of a point if vectors run along a loop: contiguous elements are cheap, short loops waste lanes."""
    extent, column = loop
    effort = sum(0.2 if s == 0 else 1.0 if s == 1 else 8.0 for s in column[:count])
    return effort * max(16 / max(extent, 1), 1)


def is_ordered(nest: Nest) -> bool:
    """Whether a row must be read in order: scans need it, and so do positions of extrema, which then only grow."""
    picks = (isinstance(r, Reduce) and r.arity == 2 and r.monoid != "dot" for s in nest.steps for r in s.results)
    return bool(nest.scans) or any(picks)


# -- contractions ------------------------------------------------------------------------------------------------


def is_contraction(nest: Nest) -> bool:
    """Whether a nest is a matrix product: it sums up products, as "dot" does."""
    return any(isinstance(r, Reduce) and r.monoid == "dot" for step in nest.steps for r in step.results)


@estimating()
def _contraction(nest: Nest, parallel: list[Loop], row: list[Loop]) -> Loops:
    """Vectors along the loop that suits the write, then the loop along which a factor stands still, then the row."""
    if not parallel:
        return _loops(parallel, row, len(row) - 1)
    count = len(nest.reads) + len(nest.writes)
    *outer, first = sorted(parallel, key=lambda loop: _effort(loop, count), reverse=True)
    reads = [nest.reads.index(r) for r in _factors(nest)]
    jams = [loop for loop in outer if _shares(loop, first, reads)]
    if not jams:
        return _loops([*outer, first], row, len(outer))
    jam = max(jams, key=lambda loop: loop[0])
    outer = [loop for loop in outer if loop is not jam]
    return _loops([*outer, first, jam], row, len(outer), len(outer) + 1)


def _factors(nest: Nest) -> list[Access]:
    """The factors that the contraction reads."""
    steps = [s for s in nest.steps if any(isinstance(r, Reduce) and r.monoid == "dot" for r in s.results)]
    return [a for s in steps for a in s.reads if isinstance(a, Access)]


def _shares(jam: Loop, lane: Loop, reads: Sequence[int]) -> bool:
    """Whether a factor that moves along the lanes stands still along the other loop."""
    return any(lane[1][r] and not jam[1][r] for r in reads)


def is_packed(nest: Nest, loops: Loops, operand: object) -> bool:
    """Whether an operand of the contraction is copied to a scratch row before the loop `jam` runs."""
    if loops.jam is None or not isinstance(operand, Access) or operand not in _factors(nest):
        return False
    strides = loops.strides[nest.reads.index(operand)]
    return bool(strides[loops.lane]) and not strides[loops.jam] and any(strides[loops.parallel :])
