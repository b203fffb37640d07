"""Lanes: the number of points that a turn of the loop along them takes, in one vector or several.

Comes after `schedule`, which says along which loop the lanes run; the lowerings for processors and GPUs ask. In this
order:

1. a machine without vectors takes 1;
2. a scan along the row takes few, see `SCAN_LANES`;
3. a reduction along the row takes the same everywhere, see Note [The tree of a sum];
4. a matrix product takes as many vectors as accumulators fit into registers;
5. where some map jumps from lane to lane, one vector;
6. otherwise as many vectors as the body's cost suggests, but not more points than there are.
"""

from __future__ import annotations

from ..targets.target import Target
from .nest import Access, Buffer, Nest, NestScan, Reduce
from .schedule import FIXED, UNIT, Loops, is_contraction

SCAN_LANES = 16
"""Points of a row that a turn of a scan takes; their running values are found in 4 steps."""
ROW_BYTES, DEAR_ROW_BYTES = 256, 128
"""Bytes of a row that a turn takes, counted in its widest elements; the second is for bodies that are `DEAR`."""
DEAR = 8
"""Bodies of more instructions than this take fewer points at a time."""
MODERATE, LONG = 16, 300
"""Pointwise bodies of `MODERATE` instructions and more take several vectors at a time: their chains of instructions are
long, so one vector leaves the machine waiting. So do bodies that read rows by an index, since more of the reads are
under way at once, and those that write past the cache. Bodies longer than `LONG` call elementary functions."""
MANY_REGISTERS = 32
"""The number of vector registers below which half as many accumulators are held in them."""
STREAM_BYTES = 1 << 25
"""The bytes of an output from which on it is written past the cache."""


def lanes(nest: Nest, loops: Loops, target: Target) -> int:
    """The number of points that a turn of the loop along the lanes takes."""
    if target.vector_bytes < 16:
        return 1
    if loops.along_row:
        return _of_scan(nest) if nest.scans else _of_row(nest)
    vector, few_registers = lanes_of_vector(nest, target), target.vector_registers < MANY_REGISTERS
    if is_contraction(nest) and loops.jam is not None:
        return vector * (2 if few_registers else 4)
    if _jumps(nest, loops):
        return vector
    if not nest.reduced:
        return _within(loops, vector, vector * _vectors_of_points(nest))
    many = _vectors_across(nest)
    return _within(loops, vector, vector * (many // 2 if few_registers else many))


def lanes_of_vector(nest: Nest, target: Target) -> int:
    """The number of the widest elements that a vector register holds."""
    return target.vector_bytes // _widest(nest)


def is_streamed(buffer: Buffer) -> bool:
    """Whether an output is so large that none of it would be in the cache any more when it is read."""
    return buffer.nbytes >= STREAM_BYTES


def _of_scan(nest: Nest) -> int:
    return 1 if any(map(_is_fragile, nest.scans)) else SCAN_LANES


def _is_fragile(scan: NestScan) -> bool:
    """Whether values must be combined one by one, in order: products of later values alone may overflow or vanish."""
    return scan.monoid == "prod" and scan.dtype.is_floating_point


def _of_row(nest: Nest) -> int:
    """The same for all machines, since it decides on how a sum is rounded."""
    taken = ROW_BYTES if nest.cost <= DEAR else DEAR_ROW_BYTES
    return taken // (_widest_read(nest) if _picks(nest) else _widest(nest))


def _vectors_of_points(nest: Nest) -> int:
    """Vectors at a time where nothing is reduced."""
    several = nest.cost >= MODERATE or nest.indices or any(map(is_streamed, nest.outputs))
    return 4 if several else 1


def _vectors_across(nest: Nest) -> int:
    """Vectors of rows at a time, each with accumulators of its own, on a machine with many registers."""
    return 8 if nest.cost <= 2 else 4 if nest.cost <= DEAR else 2


def _within(loops: Loops, vector: int, wanted: int) -> int:
    """Not more lanes than the loop has points, but at least a vector."""
    while wanted > max(vector, loops.extents[loops.lane]):
        wanted //= 2
    return wanted


def _jumps(nest: Nest, loops: Loops) -> bool:
    """Whether some map jumps from lane to lane."""
    accesses = len(nest.reads) + len(nest.writes)
    return any(loops.motion(a, loops.lane) not in (FIXED, UNIT) for a in range(accesses))


def _picks(nest: Nest) -> bool:
    """Whether all that is reduced are positions of extrema, in which the number of lanes does not show."""
    reduced = [r for step in nest.steps if step.inner for r in step.results]
    return all(isinstance(r, Reduce) and r.monoid in ("argmax", "argmin") for r in reduced)


def _widest(nest: Nest) -> int:
    """The size of the widest element that is read, written or accumulated."""
    return max(4, *(b.dtype.itemsize for b in nest.inputs + nest.outputs), *_accumulated(nest))


def _widest_read(nest: Nest) -> int:
    return max([4, *(b.dtype.itemsize for b in nest.inputs)])


def _accumulated(nest: Nest) -> list[int]:
    """The bytes of the elements that are accumulated or kept."""
    results = [r for step in nest.steps for r in step.results if not isinstance(r, Access)]
    wide = [8 for r in results if isinstance(r, Reduce) and r.monoid in ("argmax", "argmin")]
    return [4, *wide, *(r.dtype.itemsize for r in results)]
