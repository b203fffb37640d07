"""A block that computes a tile of a product: where its elements are, and what its parts share.

Comes after `gpu.contraction`; `gpu.staging` and `gpu.multipliers` are such parts, `gpu.product_machine` is the whole.
"""

from __future__ import annotations

from collections.abc import Sequence

from ..kernels.nest import Nest
from ..kernels.schedule import Loops
from ..llvm.build import Register
from ..targets.target import Target
from .contraction import Contraction, ProductGrid
from .machine import GridMachine

SHARED = "ptr addrspace(3)"
"""The type of addresses in shared memory."""


class TileMachine(GridMachine):
    """A GPU whose blocks compute tiles of a product."""

    def __init__(self, nest: Nest, loops: Loops, grid: ProductGrid, target: Target, product: Contraction) -> None:
        super().__init__(nest, loops, grid, target)
        instructions = self.dialect.tiles(target.cpu)
        assert instructions is not None
        self.product, self.tile, self.instructions = product, grid.tile, instructions
        self.by_tensor_cores = product.dtype.is_half
        self.first_sum = 0
        """The byte of shared memory where sums begin."""

    # -- places --------------------------------------------------------------------------------------------------

    def divided(self, index: Register, name: int | str, count: Register) -> tuple[Register, Register]:
        """(quotient, remainder) by a number, see Note [Divisions by numbers known at launch]."""
        builder = self.builder
        high = builder.binary("lshr", self._product(index, self.memory.number("times", name)), _number(32))
        quotient = builder.binary("lshr", self._sum(high, index), self.memory.number("shift", name))
        return quotient, builder.binary("sub", index, self._product(quotient, count))

    def places(self, side: Sequence[int], index: Register) -> dict[int, Register]:
        """The index along each loop of a side, of the one along all of them."""
        found = {}
        for loop in side[:0:-1]:
            index, found[loop] = self.divided(index, loop, self.memory.number("extent", loop))
        return found | {loop: index for loop in side[:1]}

    def extent(self, side: Sequence[int]) -> Register:
        """The points of all loops of a side."""
        found = _number(1)
        for loop in side:
            number = self.memory.number("extent", loop)
            found = number if found.text == "1" else self._product(found, number)
        return found

    # -- shared memory -------------------------------------------------------------------------------------------

    def shared_at(self, address: Register, offset: Register) -> Register:
        """An address in shared memory, so many bytes on."""
        if offset.text == "0":
            return address
        return self.builder.emit(SHARED, f"getelementptr i8, {address}, {offset}", address, offset)

    def sum_address(self, row: Register, column: Register) -> Register:
        """The place of a sum in shared memory, by its row among those that are there at a time."""
        element = self._sum(self._product(row, _number(self.tile.columns + 1)), column)
        place = self._product(element, _number(self.product.total.itemsize))
        return self.shared_at(self.shared_at(Register("@shared", SHARED), _number(self.first_sum)), place)


def _number(value: int) -> Register:
    return Register(str(value), "i64")
