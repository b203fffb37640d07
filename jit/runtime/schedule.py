"""Orders and merges the loops of a nest: which dim runs innermost, and which dims are one dim.

Comes after `nest`, before `llvm_lower`. The result is canonical: nests that differ only in the numbers of extents,
strides and offsets share a `pattern`, and so share machine code.
"""

from __future__ import annotations

from dataclasses import dataclass

from .nest import Access, Nest

FIXED, UNIT, STRIDED = "fixed", "unit", "strided"
"""How an access moves along a loop: not at all, to the next element, or by a stride known at run time."""


@dataclass(frozen=True)
class Loops:
    """A nest's loops, outermost first, with the strides of every access (reads, then writes) along them."""

    extents: tuple[int, ...]
    strides: tuple[tuple[int, ...], ...]
    """strides[access][loop], in elements."""

    def motion(self, access: int, loop: int) -> str:
        """FIXED, UNIT (innermost loop alone) or STRIDED."""
        stride = self.strides[access][loop]
        if stride == 0:
            return FIXED
        return UNIT if stride == 1 and loop == len(self.extents) - 1 else STRIDED

    @property
    def pattern(self) -> tuple[tuple[str, ...], ...]:
        """All that code generation needs to know of the numbers: the motion of each access along each loop."""
        return tuple(tuple(self.motion(a, i) for i in range(len(self.extents))) for a in range(len(self.strides)))


def schedule(nest: Nest) -> Loops:
    """The loops of `nest`: no dims of one point, the order that suits memory, as few as possible but at least one."""
    accesses = nest.reads + nest.writes
    dims = [d for d, extent in enumerate(nest.extents) if extent != 1]
    dims.sort(key=lambda d: _rank(accesses, d), reverse=True)
    extents: list[int] = []
    columns: list[tuple[int, ...]] = []
    for dim in dims:
        column = tuple(a.strides[dim] for a in accesses)
        if columns and all(outer == inner * nest.extents[dim] for outer, inner in zip(columns[-1], column)):
            # for o in range(n): for i in range(m): x[o * m * s + i * s]   ->   for i in range(n * m): x[i * s]
            extents[-1], columns[-1] = extents[-1] * nest.extents[dim], column
        else:
            extents.append(nest.extents[dim])
            columns.append(column)
    if not extents:
        # One point: reads are broadcasts, a write fills the first lane of a vector.
        extents, columns = [1], [(0,) * len(nest.reads) + (1,) * len(nest.writes)]
    return Loops(tuple(extents), tuple(zip(*columns, strict=True)))


def _rank(accesses: tuple[Access, ...], dim: int) -> tuple[int, int]:
    """Low for the dim that should run innermost: contiguous in most accesses, then short steps."""
    steps = [abs(a.strides[dim]) for a in accesses]
    return -steps.count(1), sum(steps)
