"""Maps the loops of a nest to the blocks and threads of a GPU; the loops themselves are those of `schedule`.

Comes after `schedule`, before `gpu.machine`.

Note [Where threads run]
    points: a thread computes points of the parallel loops, and the row inside of them, if there is one, by itself.
            Neighbouring threads are neighbours along the lanes, so that what they read lies side by side. Where all
            maps move to the next element or stand still, a thread takes 16 bytes at a time (its `side` points), and
            several such vectors if little is read for each (`vectors`), which lie one block's width apart:

                thread        0 0 0 0 1 1 1 1 ... 255 255 255 255 0 0 0 0 1 1 1 1 ...
                lane          0 1 2 3 0 1 2 3 ...   0   1   2   3 4 5 6 7 4 5 6 7 ...

            If some array does not begin at a multiple of 16 bytes, lanes are read one by one, as in the last vector.
            No more blocks run than `BLOCKS` for each multiprocessor; they stride over the rest.
    rows:   the row is what lies side by side: a warp or less shares a row, and a block has several rows. The lanes of a
            turn are those of the CPU (Note [The tree of a sum]), so the sum of a row without teams has the same bits; a
            thread takes several of them if there are more lanes than threads in a warp, and rows shorter than a turn
            have fewer threads:

                lane          0 1 2 ... 31 32 33 ... 63
                thread        0 1 2 ... 31  0  1 ... 31

    columns: as points, of rows so few that their threads would not keep a GPU busy, and several teams share a row.
            A block has up to a warp of neighbouring vectors, and a thread for each of them in each team.
    tiles:  a matrix product: a block computes TILE x TILE results, one each thread. Tiles of the factors pass through
            shared memory, so that an element is read once for TILE results. Terms are added in the order of the row.

    squares: an operand lies along another loop than the results, as in a transpose: a block computes SQUARE x SQUARE
            points. It brings the operand's elements to shared memory as they lie, a row of the square for each warp,
            and takes them from there by columns. Rows of the square are one element longer there, so that a column's
            elements are in different banks.

Note [Teams]
    Where there are too few rows to keep a GPU busy, several teams of a block share one. They take the turns of its
    outermost loop or, if it has but one, pieces of it: short ones, of at least as many turns as have their loads under
    way at once, since a thread that goes on for long is what the others wait for. What each comes to is joined by the
    first team in the order of the row, in shared memory. So floating-point sums and products of rows that teams share
    are rounded otherwise than the CPU's; all else has the same bits, and so have sums of rows that are many.
    Where even teams would leave most of a GPU idle, a row is cut before it comes here (Note [Pieces for blocks] in
    `pieces`): the sum of a whole array is two kernels.

    The teams of a scan take its turns. Each finds the running values within its turn, and from the results of all
    teams what came before it, in their order: as on the CPU.

Note [Divisions by numbers known at launch]
    A thread finds its place along n loops by n - 1 divisions, which GPUs have no instruction for. The launch passes two
    numbers for each divisor d: q = (high(n * times) + n) >> shift is n / d for all n below 2**31, where
    shift = ceil(log2 d), times = 2**32 * (2**shift - d) / d + 1 and high() the upper half of a product.
"""

from __future__ import annotations

import math
from collections.abc import Hashable
from dataclasses import dataclass, replace
from typing import NamedTuple

from jit.ir.sizes import SizeExpr, divides, estimating, least

from ..kernels.lanes import LONG, MODERATE, lanes
from ..kernels.nest import Access, Nest, Operand, Reduce
from ..kernels.schedule import BLOCK, FIXED, UNIT, Loops, is_contraction
from ..llvm.reduce import MONOIDS
from ..targets.family import Dialect
from ..targets.target import Target
from .held import held_row

THREADS = 256
"""Threads of a block."""
BLOCKS = 32
"""The most blocks for each multiprocessor, where threads may take one point after the other."""
SQUARE, SQUARE_ROWS = 32, 8
"""The points of a square of a transpose, along either dim, and how many of its rows its threads take at once."""
TILE = 16
"""The results of a matrix product that a block computes, along either dim."""
VECTOR_BYTES = 16
"""The most bytes that an instruction of a thread reads or writes."""
LANES = 8
"""The most lanes of a vector."""
LOADS = 8
"""Elements that a thread has under way at once in a loop over a row."""
VERY_DEAR = 64
"""The instructions of bodies of which but few follow each other, since their code is long."""
LONG_ROW = 2048
"""The points of a row beyond which twice as many are under way, since few rows find room beside each other."""
ENOUGH = 1 << 17
"""The threads that keep a GPU busy."""
MOST_TEAMS, SCAN_TEAMS = 32, 16
"""The most teams of a row, and of a scan: each of them reads what all of them come to."""
WORD = 8
"""The bytes of a number that threads exchange."""
MOST_THREADS = 1024
"""The most threads of a block."""
REGISTERS = 1 << 16
"""The registers of a block."""
VECTORS = 4
"""Vectors that a thread has under way at once."""


@dataclass(frozen=True)
class Grid:
    """A grid: "points", "rows", "columns", "tiles" or "squares", and by how many blocks and threads."""

    kind: str
    blocks: int
    threads: int
    counts: tuple[int, ...]
    """The number of vectors, rows, tiles or squares along each parallel loop."""
    group: int = 1
    """The threads that share a turn of a row, or the neighbouring columns of a block."""
    teams: int = 1
    """The groups that share a row, see Note [Teams]."""
    side: int = 1
    """The points of a thread that lie side by side."""
    vectors: int = 1
    """The vectors that a thread takes at a time."""
    ahead: int = 1
    """The turns of the innermost loop over a row whose loads go ahead, see Note [Loads go ahead]."""
    capacity: int = 0
    """The points of a row that shared memory has room for, 0 if nothing stays there; see Note [A row is read once]."""
    piece: int = BLOCK
    """The turns that a team takes at a time, where a row is but one loop."""

    @property
    def lanes(self) -> int:
        """The points that a thread takes at a time."""
        return self.side * self.vectors

    @property
    def apart(self) -> int:
        """The distance of a thread's vectors, in points."""
        return self.group if self.kind == "rows" else self.threads * self.side

    @property
    def shared(self) -> int:
        """The elements that the threads of a block exchange at a time."""
        return SQUARE * (SQUARE + 1) if self.kind == "squares" else self.threads * self.lanes

    @property
    def units(self) -> int:
        """The vectors, rows, tiles or squares of the nest."""
        return math.prod(self.counts)

    @property
    def numbers(self) -> dict[tuple[Hashable, ...], LaunchNumber]:
        """The numbers that a kernel may ask for besides those of its nest."""
        turns = -(-self.units // (self.blocks * self.threads * self.vectors))
        found: dict[tuple[Hashable, ...], LaunchNumber] = {("blocks",): self.blocks, ("turns",): turns}
        found["units",] = self.units
        for loop, count in enumerate(self.counts):
            found["count", loop] = count
            found["times", loop], found["shift", loop] = dividers(count)
        return found


class DividerNumber(NamedTuple):
    """A number for divisions by a size that is not known yet."""

    name: str
    """"times" or "shift"."""
    divisor: SizeExpr


LaunchNumber = int | DividerNumber
"""A number that a kernel is launched with."""


def dividers(count: int) -> tuple[LaunchNumber, LaunchNumber]:
    """The same as `divider`, of a size that may not be known yet."""
    if type(count) is SizeExpr:
        return DividerNumber("times", count), DividerNumber("shift", count)
    return divider(count)


def divider(count: int) -> tuple[int, int]:
    """(times, shift) for divisions by `count`, see Note [Divisions by numbers known at launch].

    >>> times, shift = divider(7)
    >>> ((10**9 * times >> 32) + 10**9 >> shift) == 10**9 // 7
    True
    """
    shift = (count - 1).bit_length()
    return ((1 << 32) * ((1 << shift) - count)) // count + 1, shift


def grid(nest: Nest, loops: Loops, dialect: Dialect, multiprocessors: int) -> Grid:
    """The grid for a nest with at least one point, see Note [Where threads run]."""
    if loops.along_row:
        return _rows(nest, loops, dialect)
    if _is_tiled(nest, loops):
        return _squared("tiles", loops, {loops.lane, loops.jam}, TILE, TILE * TILE)
    cross = crossing(nest, loops)
    if cross is not None:
        return _squared("squares", loops, {loops.lane, cross}, SQUARE, SQUARE * SQUARE_ROWS)
    return _points(nest, loops, dialect, multiprocessors)


def _squared(kind: str, loops: Loops, dims: set[int | None], size: int, threads: int) -> Grid:
    """Blocks of `size` points along either of two dims."""
    extents = loops.extents[: loops.parallel]
    counts = tuple(-(-n // size) if loop in dims else n for loop, n in enumerate(extents))
    return Grid(kind, math.prod(counts), threads, counts)


def _points(nest: Nest, loops: Loops, dialect: Dialect, multiprocessors: int) -> Grid:
    """A thread for each vector, or teams of them if there are few."""
    side = _side(nest, loops)
    vectors = _vectors(nest, loops) if side > 1 else 1
    counts = _vectors_along(loops, side)
    many = loops.reduced and not is_contraction(nest)
    ahead = _ahead(nest, loops.extents[-1], side, 2 if side > 1 else 1) if many else 1
    if many:
        groups = _groups(loops, side, dialect)
        teams, piece = _teams(nest, loops, dialect, groups, side, ahead)
        if teams > 1:
            threads = groups.threads * teams
            return Grid("columns", groups.count, threads, counts, groups.threads, teams, side, 1, ahead, 0, piece)
    blocks = least(-(-math.prod(counts) // (THREADS * vectors)), BLOCKS * multiprocessors)
    return Grid("points", blocks, THREADS, counts, 1, 1, side, vectors, ahead)


@dataclass(frozen=True)
class RowGroups:
    """The groups of threads, each of which reduces a row, or some that lie side by side."""

    count: int
    threads: int
    """The threads of a group."""
    rows: int
    """The rows of a group."""


def groups_of(nest: Nest, loops: Loops, dialect: Dialect) -> RowGroups:
    """The groups of threads that share the rows of a nest, before there are teams of them."""
    if loops.along_row:
        return RowGroups(math.prod(loops.extents[: loops.parallel]), dialect.warp, 1)
    return _groups(loops, _side(nest, loops), dialect)


def _groups(loops: Loops, side: int, dialect: Dialect) -> RowGroups:
    """Threads of neighbouring vectors."""
    units = math.prod(_vectors_along(loops, side))
    threads = _power_of_two(units, dialect.warp)
    return RowGroups(-(-units // threads), threads, threads * side)


def _vectors_along(loops: Loops, side: int) -> tuple[int, ...]:
    """The vectors of `side` points along each parallel loop."""
    extents = loops.extents[: loops.parallel]
    return tuple(-(-n // side) if loop == loops.lane else n for loop, n in enumerate(extents))


@estimating()
def _ahead(nest: Nest, turns: int, lanes: int, times: int = 1) -> int:
    """The turns of a loop whose loads go ahead: fewer if bodies are long, and not more than there are."""
    loads = LOADS // 4 if nest.cost > VERY_DEAR else LOADS // 2 if nest.scans else LOADS * times
    return min(max(loads // lanes, 1), _power_of_two(turns))


@estimating()
def _teams(
    nest: Nest, loops: Loops, dialect: Dialect, groups: RowGroups, lanes: int, ahead: int, turn: int = 1
) -> tuple[int, int]:
    """(the teams of a row, the turns of a piece), see Note [Teams]: one team if so many groups are enough.

    What teams come to has to find room in shared memory: `lanes` numbers of each thread for each accumulator.
    """
    if is_contraction(nest):
        return 1, BLOCK
    outermost, most = loops.extents[loops.parallel], MOST_TEAMS
    turns = -(-outermost // turn)
    pieces = outermost if loops.reduced > 1 else -(-turns // ahead)
    if nest.scans:
        most, pieces = SCAN_TEAMS, turns if turn > 1 and _scans_alone(nest) else 1
    room = dialect.held_bytes // (groups.threads * lanes * _accumulators(nest) * WORD)
    useful = min(_power_of_two(pieces), _power_of_two(max(ENOUGH // (groups.count * groups.threads), 1)))
    threads = max(MOST_THREADS // _power_of_two(_accumulated_words(nest)), dialect.warp)
    teams = max(min(useful, most, threads // groups.threads, 1 << max(room, 1).bit_length() - 1), 1)
    return teams, _piece(int(turns), teams, ahead)


def _piece(turns: int, teams: int, ahead: int) -> int:
    """The turns of a piece: so many that all teams have as many pieces, in whole batches of loads."""
    rounds = -(-turns // (teams * BLOCK))
    return -(-turns // (teams * rounds * ahead)) * ahead


def _accumulators(nest: Nest) -> int:
    """The most numbers that a step accumulates."""
    found = ([MONOIDS[r.monoid].width for r in step.results if isinstance(r, Reduce)] for step in nest.steps)
    return max(1, *map(sum, found))


def _accumulated_words(nest: Nest) -> int:
    """The most registers of 4 bytes that a step accumulates for each of its points: large blocks have few of them."""
    reduces = ([r for r in step.results if isinstance(r, Reduce)] for step in nest.steps)
    return max(1, *(sum(MONOIDS[r.monoid].width * -(-r.dtype.itemsize // 4) for r in each) for each in reduces))


def _scans_alone(nest: Nest) -> bool:
    """Whether nothing is reduced beside the scans."""
    return not any(isinstance(result, Reduce) for step in nest.steps for result in step.results)


def _power_of_two(number: int, most: int | None = None) -> int:
    """The least that is not below a number, or `most`; of a size, it is decided between which two powers it lies."""
    if most is not None and 2 * number > most:
        return most
    with estimating():
        found = 1 << (int(number) - 1).bit_length()
    is_between = found >= number and (found == 1 or 2 * number > found)  # a condition on sizes
    assert is_between
    return found


# -- rows --------------------------------------------------------------------------------------------------------


def _rows(nest: Nest, loops: Loops, dialect: Dialect) -> Grid:
    """A warp or less for each row."""
    counts = loops.extents[: loops.parallel]
    row = loops.extents[loops.lane]
    turn = _power_of_two(row, lanes(nest, loops, _ANY))
    group = min(turn, dialect.warp)
    several = turn // group
    ahead = _ahead(nest, -(-row // turn), several, 2 if LONG_ROW < row <= BLOCK * turn else 1)
    rows, capacity = _held(nest, loops, dialect, group, turn * ahead)
    groups = RowGroups(math.prod(counts), group, 1)
    teams, piece = (1, BLOCK) if capacity else _teams(nest, loops, dialect, groups, several, ahead, turn)
    if group * teams < dialect.warp:
        teams = 1
    rows = rows if teams == 1 else 1
    blocks = -(-groups.count // rows)
    return Grid("rows", blocks, rows * group * teams, counts, group, teams, 1, several, ahead, capacity, piece)


def _held(nest: Nest, loops: Loops, dialect: Dialect, group: int, stride: int) -> tuple[int, int]:
    """(rows of a block, points of a row in shared memory): fewer rows where there is not room for many."""
    rows, held = THREADS // group, held_row(nest, loops)
    if loops.reduced > 1 or not held.slots:
        return rows, 0
    row = loops.extents[loops.lane]
    step = max(stride, _power_of_two(row) // 8)  # few kernels for all lengths
    capacity = int(-(-row // step)) * step
    while rows * group > dialect.warp and rows * capacity * held.bytes_of_point > dialect.held_bytes:
        rows //= 2
    return (rows, capacity) if rows * capacity * held.bytes_of_point <= dialect.held_bytes else (THREADS // group, 0)


_ANY = Target("", "", ())
"""A target for questions whose answer does not depend on it: how many lanes share a row."""

# -- points ------------------------------------------------------------------------------------------------------


def _side(nest: Nest, loops: Loops) -> int:
    """The points that a thread takes side by side: as many as fill `VECTOR_BYTES`."""
    maps = (*nest.reads, *nest.writes)
    motions = [loops.motion(number, loops.lane) for number in range(len(maps))]
    if is_contraction(nest) or nest.cost > LONG or not {UNIT} <= {*motions} <= {FIXED, UNIT}:
        return 1
    if any(access.within for access in nest.reads) or any(_moves_index(nest, loops, a) for a in nest.reads):
        return 1
    buffers = [nest.inputs[a.buffer] for a in nest.reads] + [nest.outputs[a.buffer] for a in nest.writes]
    widest = max(buffer.dtype.itemsize for buffer, motion in zip(buffers, motions, strict=True) if motion == UNIT)
    side, extent = min(VECTOR_BYTES // widest, LANES), loops.extents[loops.lane]
    return side if divides(side, extent) or _is_long(extent, side) else 1


@estimating()
def _is_long(extent: int, side: int) -> bool:
    """Whether few threads have less than a vector to do."""
    return extent >= 16 * side


def _moves_index(nest: Nest, loops: Loops, access: Access) -> bool:
    """Whether lanes are picked one by one."""
    return any(loops.motion(nest.reads.index(index.access), loops.lane) != FIXED for index in access.gather)


def _vectors(nest: Nest, loops: Loops) -> int:
    """The vectors of a thread, fewer if much is read for each."""
    if loops.reduced or loops.parallel > 1 or nest.cost > MODERATE:
        return 1
    moving = sum(loops.motion(number, loops.lane) != FIXED for number in range(len(nest.reads)))
    return 1 << (VECTORS // max(moving, 1)).bit_length() - 1 if moving < VECTORS else 1


# -- transposes --------------------------------------------------------------------------------------------------


def turned(nest: Nest, loops: Loops) -> Loops:
    """The loops with lanes along the one that the results lie along, if that is another than some operand's."""
    first_write = len(nest.reads)
    for lane in range(loops.parallel):
        along = replace(loops, lane=lane)
        if all(along.motion(first_write + i, lane) == UNIT for i in range(len(nest.writes))):
            return along if crossing(nest, along) is not None else loops
    return loops


def crossing(nest: Nest, loops: Loops) -> int | None:
    """The loop that operands of a transpose lie along, while the results lie along the lanes; None if it is none."""
    if loops.reduced or len(nest.steps) > 1 or is_contraction(nest):
        return None
    writes = range(len(nest.reads), len(nest.reads) + len(nest.writes))
    for loop in range(loops.parallel):
        there = [o for o in nest.steps[0].reads if lies_along(nest, loops, o, loop)]
        if (
            _is_square(loops, loop)
            and 0 < len(there) <= MOST_CROSSING
            and all(loops.motion(w, loops.lane) == UNIT for w in writes)
        ):
            return loop
    return None


@estimating()
def _is_square(loops: Loops, loop: int) -> bool:
    """Whether blocks of squares would not be mostly empty."""
    return min(loops.extents[loop], loops.extents[loops.lane]) >= SQUARE // 2


MOST_CROSSING = 4
"""The operands of a transpose that shared memory has room for."""


def lies_along(nest: Nest, loops: Loops, operand: Operand, loop: int) -> bool:
    """Whether an operand's elements lie side by side along a loop, and jump along the lanes."""
    if loop == loops.lane or not isinstance(operand, Access) or operand.gather or operand.within:
        return False
    strides = loops.strides[nest.reads.index(operand)]
    return strides[loop] == 1 and strides[loops.lane] not in (0, 1)


# -- matrix products ---------------------------------------------------------------------------------------------


def _is_tiled(nest: Nest, loops: Loops) -> bool:
    """Whether every step over the row is a sum of products, and some factor serves several threads."""
    inner = [step for step in nest.steps if step.inner]
    dots = all(isinstance(r, Reduce) and r.monoid == "dot" for step in inner for r in step.results)
    return dots and loops.jam is not None and any(shared(nest, loops, o) for step in inner for o in step.reads)


def shared(nest: Nest, loops: Loops, operand: Operand) -> int | None:
    """The one of the loops `lane` and `jam` that an operand of a matrix product moves along, but not along the other.

    None if it moves along both or neither, or not along the row: each thread then reads for itself.
    """
    if not isinstance(operand, Access) or loops.jam is None or not _moves(nest, loops, operand, len(loops.extents) - 1):
        return None
    found = [loop for loop in (loops.lane, loops.jam) if _moves(nest, loops, operand, loop)]
    return found[0] if len(found) == 1 else None


def _moves(nest: Nest, loops: Loops, access: Access, loop: int) -> bool:
    """Whether an access, its indices or its bounds move along a loop."""
    first_point = len(nest.reads) + len(nest.writes)
    maps = [nest.reads.index(a) for a in (access, *(i.access for i in access.gather))]
    maps += [first_point + nest.points.index(bound) for bound in access.within]
    return any(loops.motion(map, loop) != FIXED for map in maps)
