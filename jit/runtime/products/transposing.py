"""Transposed copies of matrices, square by square: what is read together is used together.

Row by row, such a copy would read a line of memory for each element, and where the matrix has a power of two of columns
these lines push each other out of the cache before their next element is wanted.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache

from jit.ir.dtypes import DType

from ..kernels.work import Work
from ..llvm.product_tiles import TileWriter, lanes_of
from ..targets.target import Target

_FIELDS = ("first", "last", "squares", "step", "row", "last_place", "last_row", "batch", "next", "after")
"""The geometry: a range of strips of the source, the squares in each, steps in bytes from row to row of the source and
of the result, where the last strip and the last square begin, and steps from matrix to matrix."""


@dataclass(frozen=True)
class Transposing(Work):
    """A copy of a batch of matrices whose columns lie together, row by row, of a square of lanes at least.

    Operands: source, result.
    """

    dtype: DType
    sizes: tuple[int, int]
    """Rows and columns of the result."""
    step: int
    """The step from column to column of the source, in elements."""
    batch: int
    next: int
    """The step from matrix to matrix of the source, in elements."""

    is_late = False
    long = 1 << 16
    is_linear = True

    @property
    def panels(self) -> int:
        """The number of strips, each of as many columns as a vector has lanes; the last overlaps the one before."""
        return -(-self.sizes[1] // lanes_of(self.dtype))

    @property
    def effort(self) -> int:
        """The number of elements."""
        return self.batch * self.sizes[0] * self.sizes[1]

    def function(self) -> int:
        """The address of `i32 kernel(ptr data, ptr geometry)`."""
        return _compiled(self.dtype)

    def geometry(self, first: int = 0, last: int | None = None) -> list[int]:
        """The numbers for a range of strips."""
        (rows, columns), size, lanes = self.sizes, self.dtype.itemsize, lanes_of(self.dtype)
        numbers = {
            "first": first, "last": self.panels if last is None else last, "squares": -(-rows // lanes),
            "step": self.step * size, "row": columns * size, "last_place": columns - lanes, "last_row": rows - lanes,
            "batch": self.batch, "next": self.next * size, "after": rows * columns * size,
        }  # fmt: skip
        return [numbers[name] for name in _FIELDS]


@cache
def _compiled(dtype: DType) -> int:
    from ..kernels.codegen import compile_routine

    return compile_routine(f"transposing {dtype.name}", lambda: _written(dtype, Target.host()))


def _written(dtype: DType, target: Target) -> tuple[tuple[str, ...], str]:
    writer = TileWriter(dtype, target)
    of = {name: writer.word("%geometry", index) for index, name in enumerate(_FIELDS)}
    source, result = writer.word("%data", 0), writer.word("%data", 1)
    with writer.loop(of["batch"]) as number, writer.loop(of["last"], of["first"]) as strip:
        place = writer.lesser(writer.scale(strip, writer.lanes), of["last_place"])
        here = writer.add(writer.add(source, writer.scale(number, of["next"])), writer.scale(place, of["step"]))
        there = writer.add(writer.add(result, writer.scale(number, of["after"])), writer.scale(place, writer.size))
        with writer.loop(of["squares"]) as square:
            row = writer.lesser(writer.scale(square, writer.lanes), of["last_row"])
            _turn(writer, writer.add(here, writer.scale(row, writer.size)), of["step"],
                  writer.add(there, writer.scale(row, of["row"])), of["row"])  # fmt: skip
    writer.leave(0)
    return writer.declarations, writer.text()


def _turn(writer: TileWriter, source: str, step: str, result: str, row: str) -> None:
    """Copy one square."""
    lines = [writer.load(writer.add(source, writer.scale(step, lane))) for lane in range(writer.lanes)]
    for lane, line in enumerate(writer.transposed(lines)):
        writer.store(line, writer.add(result, writer.scale(row, lane)))
