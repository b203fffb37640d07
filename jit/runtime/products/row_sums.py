"""Sums of the rows that indices send to one place, such as the gradient of an embedding: work of plan steps, its code.

Threads share the rows of the result. Each looks at all indices and adds, in their order, the rows that belong to its
share, so that no bit depends on the number of threads.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import cache

from jit.ir import Node, TensorType
from jit.ir.dtypes import DType, int64

from ..kernels.work import Work
from ..llvm.product_tiles import ELEMENT, TileWriter, Vector
from ..llvm.words import Word
from ..plans.builder import StretchBuilder
from ..plans.copies import arguments_of
from ..plans.places import Step
from ..targets.target import Target
from .conv_steps import contiguous

_FIELDS = ("first", "last", "count", "width", "places", "left_out")


@dataclass(frozen=True)
class RowSums(Work):
    """Rows added up where indices say; operands are the rows, their indices, and the sums."""

    dtype: DType
    count: int
    """The number of rows that are added."""
    width: int
    places: int
    """The number of rows of the result."""
    left_out: int
    """The index whose rows are not added, -1 for none."""

    is_late = False
    is_linear = True
    long = 1 << 15

    @property
    def panels(self) -> int:
        """The number of rows of the result."""
        return self.places

    @property
    def effort(self) -> int:
        """The number of elements that are read and written."""
        return (self.places + 2 * self.count) * self.width

    def function(self) -> int:
        """The address of `i32 kernel(ptr data, ptr geometry)`."""
        return _compiled(self.dtype)

    def geometry(self, first: int = 0, last: int | None = None) -> list[int]:
        """The numbers for a range of rows of the result."""
        last = self.places if last is None else last
        return [first, last, self.count, self.width, self.places, self.left_out]


# -- steps -------------------------------------------------------------------------------------------------------


def is_row_sum(node: Node) -> bool:
    """Whether there is a kernel for an `aten::embedding_dense_backward`."""
    arguments = arguments_of(node)
    rows, indices = arguments["grad_output"].type, arguments["indices"].type
    assert isinstance(rows, TensorType) and isinstance(indices, TensorType)
    return rows.dtype in ELEMENT and indices.dtype is int64 and not arguments["scale_grad_by_freq"]


def lower_row_sum(lowering: StretchBuilder, node: Node) -> None:
    """Lower the gradient of an embedding's weight to one step."""
    arguments = arguments_of(node)
    rows, indices = (contiguous(lowering, node, lowering.of(arguments[name])) for name in ("grad_output", "indices"))
    result = lowering.make(node.output)
    places, width = result.geometry.sizes
    work = RowSums(rows.dtype, indices.geometry.numel, width, places, max(arguments["padding_idx"], -1))
    lowering.step(Step(work, [rows, indices, result], 1, node))


# -- code --------------------------------------------------------------------------------------------------------


@cache
def _compiled(dtype: DType) -> int:
    from ..kernels.codegen import compile_routine

    return compile_routine(f"row sums {dtype.name}", lambda: _written(dtype, Target.host()))


def _written(dtype: DType, target: Target) -> tuple[tuple[str, ...], str]:
    from ..llvm.memory import OUT_OF_RANGE  # a process that finds its plans in the cache needs none of that

    r = _RowWriter(dtype, target)
    of = {name: r.word("%geometry", index) for index, name in enumerate(_FIELDS)}
    rows, indices, sums = (r.word("%data", index) for index in range(3))
    row, share = r.scale(of["width"], r.size), r.sub(of["last"], of["first"])
    r.clear(r.add(sums, r.scale(of["first"], row)), r.scale(share, of["width"]))
    with r.loop(of["count"]) as number:
        index = r.word(indices, number)
        with r.unless(r.within(index, of["places"])):
            r.leave(OUT_OF_RANGE)
        with r.when(r.within(r.sub(index, of["first"]), share)), r.unless(r.same(index, of["left_out"])):
            source, place = r.add(rows, r.scale(number, row)), r.add(sums, r.scale(index, row))
            single = r.same(of["width"], 1)
            with r.when(single):  # loads behind a mask would wait for the stores of the row before
                r.add_one(source, place)
            with r.unless(single):
                r.add_row(source, place, of["width"])
    r.leave(0)
    return r.declarations, r.text()


class _RowWriter(TileWriter):
    """Works on rows of any width: in whole vectors, and what is left behind a mask."""

    def clear(self, place: Word, count: Word) -> None:
        """Fill `count` elements with zeros."""
        self._along(count, lambda at, mask: self._put("zeroinitializer", self.add(place, at), mask))

    def add_one(self, source: Word, target: Word) -> None:
        """Add an element to another one."""
        a, b = (self._emit(f"load {self.element}, ptr {self._pointer(at, 0)}") for at in (target, source))
        self._write(
            f"store {self.element} {self._emit(f'fadd {self.element} {a}, {b}')}, ptr {self._pointer(target, 0)}"
        )

    def add_row(self, row: Word, place: Word, width: Word) -> None:
        """Add a row to what lies at `place`."""

        def one(at: Word, mask: Word) -> None:
            source, target = self.add(row, at), self.add(place, at)
            a, b = self._get(target, mask), self._get(source, mask)
            self._put(self._emit(f"fadd {self.vector} {a}, {b}"), target, mask)

        self._along(width, one)

    def _along(self, count: Word, each: Callable[[Word, Word], None]) -> None:
        """Let `each` write the code for a vector at a distance in bytes, under a mask or, for whole ones, none."""
        whole = self.halved(count, self.lanes.bit_length() - 1)
        with self.loop(whole) as vector:
            each(self.scale(vector, self.bytes), "")
        rest = self.both(count, self.lanes - 1)
        with self.unless(self.same(rest, 0)):
            each(self.scale(whole, self.bytes), self.mask(self.sub(self.shifted(1, rest), 1)))

    def _get(self, address: Word, mask: Word) -> Vector:
        return self.masked_load(address, mask, "zeroinitializer") if mask else self.load(address)

    def _put(self, value: Vector, address: Word, mask: Word) -> None:
        if mask:
            self.masked_store(value, address, mask)
        else:
            self.store(value, address)
