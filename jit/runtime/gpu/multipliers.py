"""The ways in which a block multiplies the tiles in shared memory: by its threads, or by the tensor cores of its warps.

Used by `gpu.product_machine`; the tiles are those of `gpu.contraction`.

Note [Fragments]
    A warp multiplies 16 x 16 by 16 x 8 elements at a time (`mma.sync.m16n8k16`), which its threads hold together. Each
    lane says where one of 32 lines of 8 elements lies (`ldmatrix`), and gets 2 elements of each of four matrices of
    8 x 8: of the left factor its quarters, of the right one two halves of two neighbours:

        left     0  2       right    0  2       a number is 8 x 8 elements, loaded at the address
                 1  3                1  3       of the lanes 8 * number to 8 * number + 7

    Where lines in shared memory run along the other side, they are transposed on the way. Lane 4 g + m then holds of
    the sums the columns 2 m and 2 m + 1, of the rows g and g + 8.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

from jit.ir.dtypes import float16

from ..llvm.build import Register
from ..llvm.values import ELEMENT
from .staging import SharedTile
from .tile_machine import TileMachine

WARP = 32


class TileMultiplier(Protocol):
    """A way to multiply tiles in shared memory."""

    def zeros(self) -> list[Register]:
        """The sums of a thread before the first term."""

    def multiplied(self, left: Register, right: Register, sums: Sequence[Register]) -> list[Register]:
        """The sums with the terms of the two tiles at these places in shared memory."""

    def share(self, sums: Sequence[Register], part: Register) -> None:
        """Write those sums to shared memory that belong to a part of the rows."""

    def first_place(self) -> tuple[Register, Register]:
        """(row, column) of the tile to which the first sum belongs."""

    def steps(self) -> list[tuple[int, int]]:
        """The rows and columns that each sum is away from the first."""


class ThreadMultiplier:
    """Each thread has some rows and columns: one group of neighbours, or two.

    Args:
        machine: The kernel under construction.
        left, right: The tiles in shared memory.
    """

    def __init__(self, machine: TileMachine, left: SharedTile, right: SharedTile) -> None:
        self.left, self.right = left, right
        self.machine, self.builder, self.tile = machine, machine.builder, machine.tile
        self.type, size = ELEMENT[machine.product.total], machine.tile.per_thread
        across = 16
        """The threads along the columns, as many as along the rows."""
        self.rows, self.columns = self.tile.rows // (across * size), self.tile.columns // (across * size)
        self.row = self._product(self.builder.binary("udiv", machine.thread, _number(across)), size)
        self.column = self._product(self.builder.binary("urem", machine.thread, _number(across)), size)
        self.size = size

    def zeros(self) -> list[Register]:
        """The sums of a thread, row by row."""
        return [Register("0.0", self.type)] * (self.rows * self.columns * self.size**2)

    def multiplied(self, left: Register, right: Register, sums: Sequence[Register]) -> list[Register]:
        """One term after the other."""
        builder = self.builder
        with builder.loop(_number(0), _number(self.tile.depth), 1, sums) as turn:
            a = self._line(self.left, left, self.row, turn.index, self.rows)
            b = self._line(self.right, right, self.column, turn.index, self.columns)
            pairs = ((x, y) for x in a for y in b)
            turn.following = [
                builder.intrinsic("fma", self.type, x, y, total)
                for (x, y), total in zip(pairs, turn.carried, strict=True)
            ]
        return turn.results

    def _line(
        self, factor: SharedTile, place: Register, first: Register, term: Register, groups: int
    ) -> list[Register]:
        """The elements of one term that a thread needs of a factor."""
        builder, found, apart = self.builder, [], factor.size // groups
        for group in range(groups):
            index = builder.binary("add", self._product(term, factor.pitch), first)
            offset = self._product(builder.binary("add", index, _number(group * apart)), factor.itemsize)
            address = self.machine.shared_at(place, offset)
            vector = Register(f"%{builder.name()}", f"<{self.size} x {self.type}>", builder.depth)
            builder.write(f"{vector.text} = load {vector.type}, {address}, align 16", builder.depth)
            found += [builder.lanes_from(vector, lane) for lane in range(self.size)]
        return found

    def share(self, sums: Sequence[Register], part: Register) -> None:
        """A part of the rows is one group of each thread's."""
        width = self.columns * self.size
        for group in range(self.rows):
            own = sums[group * self.size * width : (group + 1) * self.size * width]
            chosen = self.builder.compare("icmp eq", part, _number(group))
            self.builder.when(chosen, lambda own=own: self._write(own, width), self.builder.depth)  # type: ignore[misc]

    def first_place(self) -> tuple[Register, Register]:
        """(row, column) of the tile to which the first sum belongs."""
        return self.row, self.column

    def steps(self) -> list[tuple[int, int]]:
        """The rows and columns that each sum is away from the first."""
        sides = (self.rows, self.tile.rows), (self.columns, self.tile.columns)
        rows, columns = (
            [group * (extent // groups) + place for group in range(groups) for place in range(self.size)]
            for groups, extent in sides
        )
        return [(row, column) for row in rows for column in columns]

    def _write(self, sums: Sequence[Register], width: int) -> None:
        apart = self.tile.columns // self.columns
        for number, value in enumerate(sums):
            row, (group, column) = number // width, divmod(number % width, self.size)
            place = self.builder.binary("add", self.column, _number(group * apart + column))
            address = self.machine.sum_address(self.builder.binary("add", self.row, _number(row)), place)
            self.builder.write(f"store {value}, {address}", self.builder.depth)

    def _product(self, a: Register, count: int) -> Register:
        return self.builder.binary("mul", a, _number(count))


class TensorCores:
    """Each warp has a part of the tile, see Note [Fragments].

    Args:
        machine: The kernel under construction.
        left, right: The tiles in shared memory.
    """

    def __init__(self, machine: TileMachine, left: SharedTile, right: SharedTile) -> None:
        self.left, self.right = left, right
        self.machine, self.builder, self.tile = machine, machine.builder, machine.tile
        self.is_float16 = machine.product.dtype is float16
        warp, self.lane = self._quotient(machine.thread, WARP), self._rest(machine.thread, WARP)
        across = self.tile.columns // self.tile.warp_columns
        self.down = self._quotient(warp, across)
        """The number of the warp along the rows."""
        self.row = self._product(self.down, self.tile.warp_rows)
        self.column = self._product(self._rest(warp, across), self.tile.warp_columns)
        self.rows, self.columns = self.tile.warp_rows // 16, self.tile.warp_columns // 8
        """The fragments of sums of a warp, along either side."""

    def zeros(self) -> list[Register]:
        """The sums of a lane, four for each fragment, row by row."""
        return [Register("0.0", "float")] * (4 * self.rows * self.columns)

    def multiplied(self, left: Register, right: Register, sums: Sequence[Register]) -> list[Register]:
        """16 terms after the other."""
        machine, found = self.machine, list(sums)
        for term in range(0, self.tile.depth, 16):
            a = [self._quarters(self.left, left, self.row, 16 * n, term, (8, 0)) for n in range(self.rows)]
            pairs = [self._quarters(self.right, right, self.column, 16 * n, term, (0, 8))
                     for n in range(self.columns // 2)]  # fmt: skip
            b = [half for four in pairs for half in (four[:2], four[2:])]
            for number in range(self.rows * self.columns):
                row, column = divmod(number, self.columns)
                four = slice(4 * number, 4 * number + 4)
                found[four] = machine.instructions.product(
                    self.builder, a[row], b[column], found[four], self.is_float16
                )
        return found

    def _quarters(
        self, factor: SharedTile, place: Register, first: Register, own: int, term: int, steps: tuple[int, int]
    ) -> list[Register]:
        """Four matrices of 8 x 8; `steps` says how far apart on the own side are 0 and 1, and on that of terms."""
        machine, builder, (odd_own, odd_term) = self.machine, self.builder, steps
        line, quarter = self._rest(self.lane, 8), self._quotient(self.lane, 8)
        odd, high = self._rest(quarter, 2), self._quotient(quarter, 2)
        at_own = self._product(odd if odd_own else high, 8)
        at_term = self._product(odd if odd_term else high, 8)
        if factor.lines_of_terms:
            at_own = builder.binary("add", at_own, line)
        else:
            at_term = builder.binary("add", at_term, line)
        at_own = builder.binary("add", at_own, first)
        line, within = (at_own, at_term) if factor.lines_of_terms else (at_term, at_own)
        base = self._product(builder.binary("add", self._product(line, factor.pitch), within), factor.itemsize)
        further = own * factor.pitch + term if factor.lines_of_terms else term * factor.pitch + own
        address = machine.shared_at(machine.shared_at(place, base), _number(further * factor.itemsize))
        return machine.instructions.matrices(builder, address, not factor.lines_of_terms)

    def share(self, sums: Sequence[Register], part: Register) -> None:
        """A part of the rows is those of one or several warps."""
        warps = self.tile.rows_at_once // self.tile.warp_rows
        chosen = self.builder.compare("icmp eq", self._quotient(self.down, warps), part)
        self.builder.when(chosen, lambda: self._write(sums, warps), self.builder.depth)

    def first_place(self) -> tuple[Register, Register]:
        """(row, column) of the tile to which the first sum belongs."""
        builder = self.builder
        row = builder.binary("add", self.row, self._quotient(self.lane, 4))
        return row, builder.binary("add", self.column, self._product(self._rest(self.lane, 4), 2))

    def steps(self) -> list[tuple[int, int]]:
        """The rows and columns that each sum is away from the first."""
        numbers = [(*divmod(number // 4, self.columns), number % 4) for number in range(4 * self.rows * self.columns)]
        return [(16 * down + 8 * (place // 2), 8 * across + place % 2) for down, across, place in numbers]

    def _write(self, sums: Sequence[Register], warps: int) -> None:
        builder, group, member = self.builder, self._quotient(self.lane, 4), self._rest(self.lane, 4)
        row = builder.binary("add", self._product(self._rest(self.down, warps), self.tile.warp_rows), group)
        column = builder.binary("add", self.column, self._product(member, 2))
        for number, value in enumerate(sums):
            (down, across), place = divmod(number // 4, self.columns), number % 4
            at = builder.binary("add", row, _number(16 * down + 8 * (place // 2)))
            address = self.machine.sum_address(at, builder.binary("add", column, _number(8 * across + place % 2)))
            builder.write(f"store {value}, {address}", builder.depth)

    def _quotient(self, a: Register, count: int) -> Register:
        return self.builder.binary("udiv", a, _number(count)) if count > 1 else a

    def _rest(self, a: Register, count: int) -> Register:
        return self.builder.binary("urem", a, _number(count)) if count > 1 else _number(0)

    def _product(self, a: Register, count: int) -> Register:
        return self.builder.binary("mul", a, _number(count))


def _number(value: int) -> Register:
    return Register(str(value), "i64")
