"""Epilogues in registers: what follows a convolution element by element is computed before its result is stored.

Comes between `tiled`, which says where a pointwise nest moves along a product, and the code of convolutions.

Note [Finished in registers]
    An epilogue of few instructions costs more to call, to load and to store than to compute. So the body of its nest is
    written into the convolution, behind the sums of a tile, with the same namespace that writes kernels (`LLVMMath`):

        sums = weight * patches                          in registers
        sums = clamp((sums - mean) * rsqrt(variance + eps) * scale + shift)
        store

    What the body makes of numbers that are one for each filter - the root of a variance - is written in front of the
    loop along the places of these filters. No bit differs from a kernel of its own, as each operation rounds as there.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any, Literal, NamedTuple

from jit.ir.dtypes import DType
from jit.ir.errors import CompileError

from ..llvm.build import LLVMBuilder, LoopSection, Register
from ..llvm.math import LLVMMath
from ..llvm.product_tiles import ELEMENT, TileWriter, Vector, lanes_of
from ..llvm.values import LaneValue
from ..llvm.words import Word
from ..targets.target import Target

MOST = 24
"""The most instructions of a body at each point that are written behind every tile."""


class Reading(NamedTuple):
    """An operand of a body."""

    kind: Literal["sum", "filter", "element"]
    """The product's result, a number for each filter, or an element for each of the result's."""
    operand: int
    """The number among the arrays that the body reads beside the result."""


@dataclass(frozen=True)
class Finish:
    """A body that finishes sums: all that decides on its code."""

    dtype: DType
    readings: tuple[Reading, ...]
    text: str
    """The instructions of the body, by which it is compared."""
    body: Callable[..., Any] = field(compare=False, repr=False)

    @property
    def operands(self) -> int:
        """The number of arrays that the body reads beside the product's result."""
        return len({reading.operand for reading in self.readings if reading.kind != "sum"})


def finish_of(dtype: DType, readings: tuple[Reading, ...], body: Callable[..., Any]) -> Finish | None:
    """The finish, if the body is short and yields one value of the dtype; else None."""
    lanes, target = lanes_of(dtype), Target.host()
    emission = _Emission(lanes, dtype, target, LoopSection("before"))
    registers = [
        Register(f"%x{number}", emission.vector, reading.kind != "filter") for number, reading in enumerate(readings)
    ]
    section = LoopSection("tile")
    try:
        emission.written(body, registers, section)
    except CompileError:
        return None
    lines = [*emission.sections[0].lines, "", *section.lines]
    short = len(section.lines) <= MOST and not any("%status" in line for line in lines)
    return Finish(dtype, readings, "\n".join(lines), body) if short and not emission.builder.helpers else None


class _Emission:
    """Instructions in two sections: those that stand in front of a loop, and those in it."""

    def __init__(self, lanes: int, dtype: DType, target: Target, before: LoopSection) -> None:
        self.builder = LLVMBuilder(lanes)
        self.builder.sections = self.sections = [before]
        self.math = LLVMMath(self.builder, target)
        self.dtype, self.vector = dtype, self.builder.vector(ELEMENT[dtype])

    def written(self, body: Callable[..., Any], operands: Sequence[Register], section: LoopSection) -> Register:
        """Write the body; what varies goes to `section`."""
        self.sections.append(section)
        found = body(self.math, *(LaneValue(self.math, self.dtype, register) for register in operands))
        self.sections.pop()
        (value,) = found if isinstance(found, (tuple, list)) else [found]
        if not isinstance(value, LaneValue) or value.dtype is not self.dtype:
            raise CompileError("not a value of the product's dtype")
        return value.register


class FinishedRows:
    """Writes a finish for the rows of some filters, at any number of tiles."""

    def __init__(
        self, writer: TileWriter, finish: Finish, target: Target, filters: Sequence[Word], arrays: Sequence[Any]
    ) -> None:
        """Write what stands still along the rows of `filters`.

        Args:
            writer: Writes the tiles.
            finish: What is computed.
            target: The machine.
            filters: The numbers of the filters.
            arrays: For each reading where its numbers begin, and how many bytes apart those of two filters are.
        """
        self.writer, self.finish, self.arrays = writer, finish, arrays
        section = LoopSection(writer.open_block("rows"))
        self._still = [
            {
                number: writer.broadcast(writer.add(arrays[number][0], writer.scale(filter, arrays[number][1])))
                for number, reading in enumerate(finish.readings)
                if reading.kind == "filter"
            }
            for filter in filters
        ]
        self._emission = _Emission(writer.lanes, finish.dtype, target, section)
        self._place = writer.place()

    def finished(self, row: int, value: Vector, element: Callable[[Word], Vector]) -> Vector:
        """A finished vector of a row; `element` loads from an array what lies where the vector is to be stored."""
        writer, known = self.writer, self._still[row]
        operands = []
        for number, reading in enumerate(self.finish.readings):
            still = reading.kind == "filter"
            vector = known[number] if still else value if reading.kind == "sum" else element(self.arrays[number][0])
            operands.append(Register(vector, writer.vector, not still))
        section = LoopSection(writer.open_block("finish"))
        with writer.counting(self._emission.builder):
            register = self._emission.written(self.finish.body, operands, section)
        writer.extend(section.lines)
        for name, text in self._emission.builder.declarations.items():
            writer.declare(name, text)
        return register.text

    def close(self) -> None:
        """Write what was found to stand still in front of the tiles."""
        self.writer.extend(self._emission.sections[0].lines, self._place)


@contextmanager
def finishing(
    writer: TileWriter, finish: Finish | None, target: Target, filters: Sequence[Word], arrays: Sequence[Any]
) -> Iterator[FinishedRows | None]:
    """The finish of some rows, written within; None without one."""
    rows = None if finish is None else FinishedRows(writer, finish, target, filters, arrays)
    yield rows
    if rows is not None:
        rows.close()
