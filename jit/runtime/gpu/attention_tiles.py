"""The parts that kernels of attention and of its gradients share: scores of 64 queries and 64 keys, and weights.

Comes beside `gpu.product_machine`, whose tiles and multipliers it uses, before `attention` and `attention_backward`.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any

from jit.ir.dtypes import DType, bool_, float32
from jit.ir.errors import CompileError

from ..kernels.nest import Access, Buffer, Nest
from ..kernels.schedule import Loops
from ..llvm.build import Register
from ..llvm.values import LaneValue
from ..targets.target import Target
from .contraction import FLOAT_TILES, TENSOR_TILES, Contraction, ProductGrid
from .multipliers import TensorCores, ThreadMultiplier, TileMultiplier
from .product_machine import FollowedMachine, TilePair
from .staging import SharedTile, StagedFactor
from .tile_machine import SHARED

TURN = 64
"""The queries, or keys, of a turn, and the rows and columns of a tile."""


def no_body(m: Any, *operands: Any) -> Any:
    """The body of a step that no loops run: machines compute what it stands for."""
    raise CompileError("attention is no nest of loops; an `AttentionTiles` computes it")


def mask_strides(mask: Buffer, rank: int) -> tuple[list[int], int, int]:
    """(the strides along the batch, queries and keys): 0 where a mask of fewer dims, or with dims of 1, is the same."""
    missing = (0,) * (rank - len(mask.sizes))
    *batch, query, key = (*missing, *(0 if n == 1 else s for n, s in zip(mask.sizes, mask.strides, strict=True)))
    return batch, query, key


def attention_grid(extents: tuple[int, ...], rank: int, dtype: DType, target: Target) -> ProductGrid:
    """The grid of a nest whose first loops are those of a result: its batch, rows and columns.

    Raises:
        CompileError: The target has no tiles, or none for the dtype.
    """
    dialect = target.family.dialect
    if dialect is None or dialect.tiles(target.cpu) is None or not (dtype.is_half or dtype is float32):
        raise CompileError(f"{target.cpu} has no attention of {dtype.name} in tiles; compute it in several steps")
    tile = (TENSOR_TILES if dtype.is_half else FLOAT_TILES)[-1]
    *batch, rows, columns = extents[:rank]
    down, across = -(-rows // tile.rows), -(-columns // tile.columns)
    blocks, group = math.prod(batch) * down * across, tile.threads // tile.rows
    return ProductGrid("products", blocks, tile.threads, extents[:rank], group, extents=extents, tile=tile, down=down,
                       across=across)  # fmt: skip


class AttentionTiles(FollowedMachine):
    """A GPU that weighs scores in tiles of 64 x 64, and multiplies tiles of other factors by them.

    Args:
        nest: Its maps.
        loops: Its loops.
        grid: Its blocks.
        target: The GPU.
        product: The weights, as far as loops go, by what they are multiplied with.
        sides: The loops of queries and of keys.
        masks: The mask, if there is one.
        scale: What scores are multiplied by.
        causal: Whether a query sees no keys behind its own place.
    """

    def __init__(
        self, nest: Nest, loops: Loops, grid: ProductGrid, target: Target, product: Contraction,
        sides: tuple[int, int], masks: Sequence[Access], scale: float, causal: bool,
    ) -> None:  # fmt: skip
        super().__init__(nest, loops, grid, target, product)
        self.query_loop, self.key_loop = sides
        self.masks, self.scale, self.causal = masks, scale, causal
        self.weights = SharedTile(TURN, self.tile.depth, product.dtype.itemsize, self.by_tensor_cores)
        """A part of the weights, as a left factor: `turns` of them lie one after the other."""
        self.turns = TURN // self.tile.depth
        """The tiles of the other factor that a tile of scores meets."""

    def multiplier_of(self, left: SharedTile, right: SharedTile) -> TileMultiplier:
        """The multiplier for the tiles of two factors."""
        return (TensorCores if self.by_tensor_cores else ThreadMultiplier)(self, left, right)

    def pair(self, left: Access, right: Access, loops: tuple[int, int], terms: int) -> TilePair:
        """Two factors whose product is a tile of scores, given the loops of their own sides and that of the terms."""
        first, second = (
            StagedFactor(self, read, ((loop,), (terms,)), TURN) for read, loop in zip((left, right), loops, strict=True)
        )
        return TilePair(self, first, second, self.multiplier_of(first, second))

    # -- registers -------------------------------------------------------------------------------------------------

    def anew(self, register: Register) -> Register:
        """A number or an address from which all that follows is computed anew in each turn of the innermost loop.

        Else the compiler would hold what is the same in all turns, or moves evenly, in registers throughout: addresses
        for each factor and each of the ways to copy it, of which a turn takes one. There are not enough.
        """
        return self.instructions.anew(self.builder, register)

    @contextmanager
    def afresh(self) -> Iterator[Register]:
        """A block in which addresses of factors are computed anew, and that of shared memory, which it yields."""
        thread, indices = self.thread, dict(self.memory.indices)
        self.thread = self.anew(thread)
        self.memory.indices |= {loop: self.anew(indices[loop]) for loop in self.product.batch}
        yield self.anew(Register("@shared", SHARED))
        self.thread, self.memory.indices = thread, indices

    # -- scores ----------------------------------------------------------------------------------------------------

    def seen(self, product: LaneValue, query: Register, key: Register) -> LaneValue:
        """The score of a query and a key, from their product; -inf if one sees not the other, or is beyond the end."""
        builder, m, score = self.builder, self.math, product * self.scale
        sides = {self.query_loop: query, self.key_loop: key}
        inside = [builder.compare("icmp slt", at, self.memory.number("extent", loop)) for loop, at in sides.items()]
        seen = builder.binary("and", *inside)
        if self.causal:
            seen = builder.binary("and", seen, builder.compare("icmp sle", key, query))
        for value in self.at(self.masks, sides):
            if value.dtype is bool_:
                seen = builder.binary("and", seen, value.register)
            else:
                score = score + m.cast(value, float32)
        return m.where(m.value(bool_, seen), score, m.constant(-math.inf, float32))

    def at(self, accesses: Sequence[Access], places: dict[int, Register]) -> list[LaneValue]:
        """Elements at places along loops; beyond the end of a loop those of its last place."""
        self.memory.indices |= {
            loop: self._at_most(place, self.memory.number("extent", loop)) for loop, place in places.items()
        }
        return self.memory.load(accesses)

    # -- weights ---------------------------------------------------------------------------------------------------

    def weight_address(self, row: Register, term: Register) -> Register:
        """The place of a weight among the tiles that weights are written to."""
        tile, within = self._parted(term)
        line, element = (row, within) if self.weights.lines_of_terms else (within, row)
        element = self._sum(self._product(line, _number(self.weights.pitch)), element)
        offset = self._product(element, _number(self.weights.itemsize))
        offset = self._sum(self._product(tile, _number(self.weights.bytes)), offset)
        return self.shared_at(self.anew(Register("@shared", SHARED)), offset)

    def _parted(self, term: Register) -> tuple[Register, Register]:
        """(the number of the tile, the term within it)."""
        depth = _number(self.tile.depth)
        return self.builder.binary("udiv", term, depth), self.builder.binary("urem", term, depth)

    def share_weight(self, address: Register, weight: LaneValue) -> None:
        """Write a weight to its tile, in the dtype of the factors."""
        encoded = self.memory.encoded(self.math.cast(weight, self.product.dtype))
        self.builder.write(f"store {encoded}, {address}", self.builder.depth)

    def mixed(
        self, factor: StagedFactor, multiplier: TileMultiplier, first: Register, sums: Sequence[Register]
    ) -> list[Register]:
        """The sums with a factor's terms from `first` on, times the weights in shared memory."""
        found, bytes = list(sums), self.weights.bytes
        with self.afresh() as start:
            first, column = self.anew(first), self.anew(self.first_column)
            place = self.shared_at(start, _number(self.turns * bytes))
            for turn in range(self.turns):
                factor.stage(column, self._sum(first, _number(turn * self.tile.depth)), place)
                self.instructions.commit(self.builder)
                self.instructions.wait(self.builder, 0)
                self.exchange.barrier()
                found = multiplier.multiplied(self.shared_at(start, _number(turn * bytes)), place, found)
                self.exchange.barrier()
        return found

    def mixing_bytes(self, factor: StagedFactor) -> int:
        """The shared memory that weights and a tile of the factor take."""
        return self.turns * self.weights.bytes + factor.bytes


def _number(value: int) -> Register:
    return Register(str(value), "i64")
