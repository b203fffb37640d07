"""The machine with threads for products of matrices; see Note [Tiles of a product] in `gpu.contraction`.

Comes after `gpu.contraction`, before `device`. What the tile is multiplied by is a `TileMultiplier`: the threads
themselves, or the warps' tensor cores.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace

from ..kernels.nest import Nest, Reduce
from ..kernels.schedule import Loops
from ..llvm.build import Register
from ..llvm.lowering import NestLowering
from ..llvm.values import ELEMENT, LaneValue
from ..targets.target import Target
from .contraction import ProductGrid, contraction
from .multipliers import TensorCores, ThreadMultiplier, TileMultiplier
from .staging import StagedFactor
from .tile_machine import SHARED, TileMachine


class TilePair:
    """Tiles of two factors that pass through two buffers of shared memory, `depth` terms at a time.

    Args:
        machine: The kernel under construction.
        left, right: The factors.
        multiplier: Multiplies their tiles.
    """

    def __init__(
        self, machine: TileMachine, left: StagedFactor, right: StagedFactor, multiplier: TileMultiplier
    ) -> None:
        self.machine, self.builder, self.left, self.right = machine, machine.builder, left, right
        self.multiplier = multiplier

    @property
    def bytes(self) -> int:
        """The shared memory that both buffers take."""
        return 2 * (self.left.bytes + self.right.bytes)

    def summed(self, place: Register, first: tuple[Register, Register], terms: Register) -> list[Register]:
        """The sums over all terms, of the tile that begins at a row and a column."""
        builder, machine, depth = self.builder, self.machine, self.machine.tile.depth
        whole = _number(self.left.bytes + self.right.bytes)
        self._bring(first, _number(0), place)
        with builder.loop(_number(0), terms, depth, self.multiplier.zeros()) as turn:
            odd = builder.binary("and", builder.binary("udiv", turn.index, _number(depth)), _number(1))
            even = builder.binary("xor", odd, _number(1))
            here, other = (machine.shared_at(place, builder.binary("mul", which, whole)) for which in (odd, even))
            following = builder.binary("add", turn.index, _number(depth))
            more = builder.compare("icmp slt", following, terms)
            builder.when(more, lambda: self._bring(first, following, other), builder.depth)
            self._wait(more)
            machine.exchange.barrier()
            turn.following = self.multiplier.multiplied(here, self._of_right(here), turn.carried)
            machine.exchange.barrier()
        return turn.results

    def _of_right(self, place: Register) -> Register:
        return self.machine.shared_at(place, _number(self.left.bytes))

    def _bring(self, first: tuple[Register, Register], term: Register, place: Register) -> None:
        """Begin to copy the next tiles of both factors."""
        self.left.stage(first[0], term, place)
        self.right.stage(first[1], term, self._of_right(place))
        self.machine.instructions.commit(self.builder)

    def _wait(self, more: Register) -> None:
        """Wait for the present tiles: for all copies but the last ones, if there are later ones."""
        builder, instructions = self.builder, self.machine.instructions
        last = builder.binary("xor", more, Register("true", "i1"))
        builder.when(more, lambda: instructions.wait(builder, 1), builder.depth)
        builder.when(last, lambda: instructions.wait(builder, 0), builder.depth)


class FollowedMachine(TileMachine):
    """A block that computes sums by tiles, and what follows them at each element."""

    multiplier: TileMultiplier
    """The multiplier that holds the sums."""

    # -- places --------------------------------------------------------------------------------------------------

    def _everywhere(self, compute: Callable[[], None]) -> None:
        """Compute the tile of this block."""
        block, across = self.divided(self._special(self.dialect.block), "across", self.memory.number("across"))
        batch, down = self.divided(block, "down", self.memory.number("down"))
        self.first_row = self._product(down, _number(self.tile.rows))
        self.first_column = self._product(across, _number(self.tile.columns))
        self.memory.indices.update(self.places(self.product.batch, batch))
        compute()

    # -- what follows --------------------------------------------------------------------------------------------

    def _finish(self, lowering: NestLowering, sums: Sequence[Register]) -> None:
        """Hand the sums to the threads that store them, some rows at a time."""
        builder, rows, columns = self.builder, self.tile.rows_at_once, self.tile.columns
        with builder.loop(_number(0), _number(self.tile.passes), 1) as part:
            self.multiplier.share(sums, part.index)
            self.exchange.barrier()
            with builder.loop(self.thread, _number(rows * columns), self.tile.threads) as each:
                row, column = self._place_of(each.index)
                value = self._shared_sum(row, column)
                row = self._sum(row, self._product(part.index, _number(rows)))
                self._place_at_element(self._sum(self.first_row, row), self._sum(self.first_column, column))
                self._follow(lowering, value)
            self.exchange.barrier()

    def _place_of(self, number: Register) -> tuple[Register, Register]:
        """(row, column) of an element of the tile, so that neighbouring threads have neighbours of the result."""
        rows, columns = self.tile.rows_at_once, self.tile.columns
        first_write = self.loops.strides[len(self.nest.reads)]
        if any(first_write[loop] == 1 for loop in self.product.rows[-1:]):
            return self._rest(number, rows), self.builder.binary("udiv", number, _number(rows))
        return self.builder.binary("udiv", number, _number(columns)), self._rest(number, columns)

    def _rest(self, number: Register, count: int) -> Register:
        return self.builder.binary("urem", number, _number(count))

    def _shared_sum(self, row: Register, column: Register) -> LaneValue:
        type, address = ELEMENT[self.product.total], self.sum_address(row, column)
        found = Register(f"%{self.builder.name()}", type, self.builder.depth)
        self.builder.write(f"{found.text} = load {type}, {address}", self.builder.depth)
        return LaneValue(self.math, self.product.total, found)

    def _place_at_element(self, row: Register, column: Register) -> None:
        """Give all parallel loops their indices; beyond the end it is the last, and its result is not stored."""
        self.storing = None
        for side, index in ((self.product.rows, row), (self.product.columns, column)):
            extent = self.extent(side)
            inside = self.builder.compare("icmp slt", index, extent)
            self.storing = inside if self.storing is None else self.builder.binary("and", self.storing, inside)
            self.memory.indices.update(self.places(side, self._at_most(index, extent)))

    def _follow(self, lowering: NestLowering, value: LaneValue) -> None:
        """The steps behind the product."""
        (result,) = self.product.step.results
        assert isinstance(result, Reduce)
        lowering.rows[result.locals[0], 0] = value
        lowering.written = 0
        for step in self.nest.steps[1:]:
            lowering.step(step)


class ProductMachine(FollowedMachine):
    """A GPU that computes a product, and what follows it at each of its elements."""

    def __init__(self, nest: Nest, loops: Loops, grid: ProductGrid, target: Target) -> None:
        found = contraction(nest, loops)
        assert found is not None
        super().__init__(nest, loops, grid, target, found)
        self.left = StagedFactor(self, found.left, (found.rows, found.depth), self.tile.rows)
        self.right = StagedFactor(self, found.right, (found.columns, found.depth), self.tile.columns)
        self.product = replace(found, rows=self.left.own, columns=self.right.own)
        make = TensorCores if self.by_tensor_cores else ThreadMultiplier
        self.multiplier: TileMultiplier = make(self, self.left, self.right)

    def _shared_memory(self) -> list[str]:
        tiles = 2 * (self.left.bytes + self.right.bytes)
        sums = self.tile.rows_at_once * (self.tile.columns + 1) * self.product.total.itemsize
        return [f"@shared = internal addrspace(3) global [{max(tiles, sums)} x i8] poison, align 16"]

    # -- the product ---------------------------------------------------------------------------------------------

    def _compute(self, lowering: NestLowering) -> None:
        """The sums of the tile, then what follows them."""
        place = Register("@shared", SHARED)
        tiles = TilePair(self, self.left, self.right, self.multiplier)
        sums = tiles.summed(place, (self.first_row, self.first_column), self.extent(self.product.depth))
        self._finish(lowering, sums)


def _number(value: int) -> Register:
    return Register(str(value), "i64")
