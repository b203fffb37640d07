"""Products of matrices among nests: which loops are rows, columns and terms, and by which tiles a GPU computes them.

Comes after `schedule`, before `gpu.product_machine`. A convolution is such a product, too: its nest reads the image
through bounds, and its columns or rows are several loops (Note [Sides] in `gpu.staging`).

Note [Tiles of a product]
    A block computes a tile of the result. Tiles of the factors pass through shared memory, `depth` terms at a time, in
    two buffers: while the threads multiply what is in one, the other is filled.

        for each `depth` terms:                                columns
            copy the next tiles            ->  right     +-----------------+
            wait for the present ones                    |                 | depth
            multiply and add                             +-----------------+
                                              +-------+  +-----------------+
                                         left |       |  |     |     |     |
                                              |       |  +-----+-----+-----+ rows
                                              +-------+  |     |     |     |
                                                depth    +-----------------+

    16-bit floats are multiplied by the warps' tensor cores, each warp a part of the tile, and summed in float32, in an
    order that is the machine's. float32 and float64 are multiplied by the threads, each of which has a few rows and
    columns; the terms of an element are added one by one in the order of the row, as on the CPU, so the bits are the
    same. The sums then pass through shared memory once more, some rows at a time, so that the steps behind the product
    run where neighbouring threads store neighbouring elements, whatever they are (bias, activation, residual).
"""

from __future__ import annotations

import math
from collections.abc import Callable, Hashable, Sequence
from dataclasses import dataclass
from typing import Any

from jit.ir.dtypes import DType, float32, float64
from jit.ir.sizes import estimating

from ..kernels.nest import Access, Nest, NestStep, Reduce
from ..kernels.schedule import Loops
from .schedule import Grid, LaunchNumber, divider


@dataclass(frozen=True)
class ProductTile:
    """The part of a result that a block computes, and how its threads share it."""

    rows: int
    columns: int
    depth: int
    """The terms that shared memory holds at a time."""
    threads: int
    per_thread: int = 0
    """The rows, and columns, that a thread has side by side; 0 for tensor cores."""
    warp_rows: int = 0
    """The rows of a warp, for tensor cores."""
    warp_columns: int = 0

    @property
    def passes(self) -> int:
        """The number of times that sums pass through shared memory until all have."""
        return self.rows // self.rows_at_once

    @property
    def rows_at_once(self) -> int:
        """The rows whose sums are in shared memory at a time."""
        return min(self.rows, 64)


TENSOR_TILES = (
    ProductTile(128, 128, 32, 256, warp_rows=64, warp_columns=32),
    ProductTile(64, 64, 32, 128, warp_rows=32, warp_columns=32),
)
"""Tiles of 16-bit floats, the largest first."""
FLOAT_TILES = (ProductTile(128, 128, 16, 256, per_thread=4), ProductTile(64, 64, 16, 256, per_thread=4))
DOUBLE_TILES = (ProductTile(64, 64, 8, 256, per_thread=4),)


@dataclass(frozen=True)
class Contraction:
    """A product of matrices: its factors, and the loops along which they move."""

    step: NestStep
    """The step that sums up products."""
    left: Access
    right: Access
    batch: tuple[int, ...]
    """The loops along which both factors move, or neither."""
    rows: tuple[int, ...]
    """The loops along which the left factor moves alone."""
    columns: tuple[int, ...]
    depth: tuple[int, ...]
    """The loops over the terms."""
    dtype: DType
    """The dtype of the factors."""

    @property
    def total(self) -> DType:
        """The dtype of the sums."""
        return float32 if self.dtype.is_half else self.dtype

    @property
    def tiles(self) -> tuple[ProductTile, ...]:
        """The tiles that there are, the largest first."""
        if self.dtype.is_half:
            return TENSOR_TILES
        return FLOAT_TILES if self.dtype is float32 else DOUBLE_TILES


MOST_POINTS = 1 << 31
"""The points of a side that are too many, see Note [Divisions by numbers known at launch]."""


class _CastAlone:
    """A namespace in which nothing but casts is possible."""

    @staticmethod
    def cast(x: Any, dtype: Any) -> Any:
        """x as it is."""
        return x


def contraction(nest: Nest, loops: Loops) -> Contraction | None:
    """The product of floats that a nest is, with whatever is done to each of its elements; None if it is none."""
    (first, *others) = nest.steps
    if any(step.inner for step in others) or len(first.results) != 1 or len(first.reads) != 2:
        return None
    (result,), (left, right) = first.results, first.reads
    if not isinstance(result, Reduce) or result.monoid != "dot" or not _multiplies(first.body):
        return None
    if not isinstance(left, Access) or not isinstance(right, Access) or not loops.reduced:
        return None
    dtype, other = (nest.inputs[access.buffer].dtype for access in (left, right))
    if dtype is not other or any(access.gather or access.fill for access in (left, right)):
        return None
    if not (dtype.is_half and result.dtype is float32) and not (dtype in (float32, float64) and result.dtype is dtype):
        return None
    parallel = range(loops.parallel)
    motions = [[moves(nest, loops, access, loop) for access in (left, right)] for loop in parallel]
    batch, rows, columns = (
        tuple(loop for loop in parallel if tuple(motions[loop]) in kinds)
        for kinds in (((True, True), (False, False)), ((True, False),), ((False, True),))
    )
    depth = tuple(range(loops.parallel, len(loops.extents)))
    if not rows or not columns or max(_extent(loops, side) for side in (rows, columns, depth)) >= MOST_POINTS:
        return None
    return Contraction(first, left, right, batch, rows, columns, depth, dtype)


def _multiplies(body: Callable[..., Any]) -> bool:
    """Whether a body does nothing but hand on its factors, widened or not."""
    first, second = object(), object()
    try:
        return bool(body(_CastAlone, first, second) == (first, second))
    except (AttributeError, TypeError):
        return False


def moves(nest: Nest, loops: Loops, access: Access, loop: int) -> bool:
    """Whether an access or its bounds move along a loop."""
    first_point = len(nest.reads) + len(nest.writes)
    maps = [nest.reads.index(access), *(first_point + nest.points.index(bound) for bound in access.within)]
    return any(loops.strides[map][loop] for map in maps)


# -- the grid ----------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class ProductGrid(Grid):
    """A grid of blocks, each of which computes a tile of a product."""

    extents: tuple[int, ...] = ()
    """The extents of all loops, those of terms among them."""
    tile: ProductTile = FLOAT_TILES[0]
    down: int = 1
    """The tiles along the rows."""
    across: int = 1
    """The tiles along the columns."""

    @property
    def numbers(self) -> dict[tuple[Hashable, ...], LaunchNumber]:
        """The numbers that a kernel may ask for besides those of its nest."""
        found: dict[tuple[Hashable, ...], LaunchNumber] = {}
        for name, count in (("down", self.down), ("across", self.across)):
            found[name,] = count
            found["times", name], found["shift", name] = divider(count)
        for loop, count in enumerate(self.extents):
            found["times", loop], found["shift", loop] = divider(count)
        return found


@estimating()
def product_grid(found: Contraction, loops: Loops, multiprocessors: int) -> ProductGrid:
    """The grid for a product: large tiles, if there are enough of them for all multiprocessors."""
    grids = [_grid_of(tile, found, loops) for tile in found.tiles]
    return next((grid for grid in grids if grid.blocks >= multiprocessors), grids[-1])


def _grid_of(tile: ProductTile, found: Contraction, loops: Loops) -> ProductGrid:
    down, across = (
        -(-_extent(loops, side) // size) for side, size in ((found.rows, tile.rows), (found.columns, tile.columns))
    )
    blocks = _extent(loops, found.batch) * down * across
    counts = tuple(loops.extents[: loops.parallel])
    return ProductGrid("products", blocks, tile.threads, counts, extents=loops.extents, tile=tile, down=down,
                       across=across)  # fmt: skip


def _extent(loops: Loops, side: Sequence[int]) -> int:
    return math.prod(loops.extents[loop] for loop in side)
