"""Few long rows on a GPU: cut into pieces, so that all multiprocessors have some of them.

Comes between `fusion` and `device`. The nests that a nest becomes are those of `kernels.split`, cut elsewhere: a block
of threads is more than a thread of a processor, and there are hundreds.

Note [Pieces for blocks]
    A row, or neighbouring columns, is what one block of threads reduces at most. If there are so few of them that most
    of a GPU would be idle, a kernel reduces pieces of each, and another one what these come to:

        sum of (4096, 4096)              one block      ->  256 blocks, 65536 points each; then one block, 256 points
        sum of its columns               32 blocks      ->  256 blocks, 512 rows each; then 32 blocks, 8 rows
        variance of (16, 64, 56, 56)     64 blocks      ->  256 blocks, twice; 64 blocks behind either
        by channels

    A piece has at least `PIECE` points, times the steps that go over a row, as each of these becomes two kernels; less
    than that is done before the second kernel could begin. There are about as many pieces as `ENOUGH` threads take, or
    some more or less if that makes them even. What is left over of a row without even pieces gets a kernel of its own.

    Like blocks on the CPU, pieces follow from the extents alone, so results are the same on GPUs of all sizes. If the
    extents are sizes, the number of pieces is a power of four, which is chosen under a condition, and their length a
    size.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial

from jit.ir.sizes import SizeExpr, estimating, least

from ..kernels.nest import Nest
from ..kernels.schedule import schedule
from ..kernels.split import Split, can_be_cut, passes_of, split, whole
from ..targets.family import Dialect
from .kept import without_kept
from .schedule import ENOUGH, MOST_TEAMS, groups_of

PIECE = 1 << 13
"""The fewest points of a piece, of a nest with one step over its rows."""
FEWEST = 4
"""The fewest pieces of a row that are worth a second kernel."""
PIECE_THREADS = 512
"""The most threads of a piece that are counted on: blocks of half the size are shared out more evenly."""


def in_pieces(nest: Nest, dialect: Dialect) -> Split:
    """The nests over pieces of the rows of a nest, or the nest as it is; see Note [Pieces for blocks]."""
    bare = without_kept(nest)
    if 0 in nest.extents or not can_be_cut(bare):
        return whole(nest)
    pieces = _pieces(bare, dialect)
    return split(bare, partial(pieces_of, pieces=pieces)) if pieces >= FEWEST else whole(nest)


def _pieces(nest: Nest, dialect: Dialect) -> int:
    """The pieces of each row, or of rows that lie side by side; fewer than `FEWEST` if it is better left whole."""
    groups = groups_of(nest, schedule(nest), dialect)
    threads = min(groups.threads * MOST_TEAMS, PIECE_THREADS)
    long_enough = nest.row * groups.rows // (PIECE * passes_of(nest))
    useful = least(long_enough, ENOUGH // (groups.count * threads))
    return _power_of_four(useful) if type(useful) is SizeExpr and useful >= FEWEST else useful


def _power_of_four(number: int) -> int:
    """The greatest that is not above a size, which is decided to lie between two of them."""
    with estimating():
        found = 1 << (int(number).bit_length() - 1) // 2 * 2
    is_between = found <= number and number < 4 * found  # a condition on sizes
    assert is_between
    return found


def pieces_of(row: Sequence[int], pieces: int) -> tuple[int, int, int]:
    """(which loop of a row is cut, into how many pieces, of how many turns); turns of loops around it are pieces, too.

    >>> pieces_of((32, 3136), 4), pieces_of((3, 50000), 8), pieces_of((70001,), 8)
    ((0, 4, 8), (1, 4, 12500), (0, 8, 8750))
    """
    loop = 0
    while row[loop] < pieces:
        pieces = -(-pieces // row[loop])
        loop += 1
    extent = row[loop]
    if type(extent) is SizeExpr:
        return loop, pieces, extent // pieces
    near = (*range(pieces, 2 * pieces + 1), *range(pieces - 1, pieces // 2, -1))
    even = next((count for count in near if extent % count == 0), pieces)
    return loop, even, extent // even
