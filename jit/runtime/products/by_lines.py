"""Products of one to eight rows and a matrix that is read once, line by line, as it lies in memory.

Note [Lines of a matrix]
    Such a product reads each element of the matrix for a few multiplications, so it takes about as long as reading
    does; packing the matrix first takes 1.2 to 2.5 times as long for 4 to 8 rows, unless several products share what is
    packed. Memory beyond the second cache is read fastest in one stream: four lines are multiplied at a time, because
    they share what is loaded of the rows, or their sums, but what is asked for ahead is asked for in the order of
    addresses. Asked for in four streams, one for each line, it takes twice as long.

    Sums run along lines (a weight as `nn.Linear` keeps it) or across them, and then gather in the result, which stays
    in the first cache. Each element is one tree of additions, or one chain, that neither the number of lines that are
    multiplied together nor that of threads shows in.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cache
from typing import Any, NamedTuple

from jit.ir.dtypes import DType
from jit.ir.sizes import estimating, only_if

from ..kernels.work import Sizes, Work
from ..llvm.product_tiles import CACHE_LINE, ELEMENT, TileWriter, Vector, lanes_of
from ..llvm.words import Word
from ..targets.target import Target
from .blas import Matrix

SINGLE_ROWS = 3
"""Rows up to which a matrix is read as it lies, even if several products share it."""
LINES = 4
"""The lines that are multiplied together."""
AHEAD = 1 << 13
"""The bytes between what is read and what is asked for meanwhile."""
_ENDLESS = (1 << 60) - 1  # which no kept plan takes for an address

_FIELDS = ("lines", "whole", "lanes", "line", "row", "step", "result_row", "batch", "matrix", "vector", "next_matrix",
           "next_row", "next_result", "first_matrix", "first_result", "ahead", "run", "bytes")  # fmt: skip
"""The geometry: lines, and whole vectors and remaining lanes of each; bytes from line to line, from one of the rows to
the next, from one element of these to the next, and from row to row of the result; how many products there are, which
operands they have, and the bytes from one to the next; where the first begins; how far ahead of a line the lines are
that are asked for, and how many bytes of these follow each other; and the bytes of a row of the result."""
_AT = {name: index for index, name in enumerate(_FIELDS)}


class LinesShape(NamedTuple):
    """The facts that decide on the code."""

    dtype: DType
    along: bool
    rows: int


@dataclass(frozen=True)
class ProductByLines(Work):
    """Y[r] = X[r] M, or X[r] M', for the rows r of X; for each of a batch. Operands are both factors and the result."""

    dtype: DType
    sizes: tuple[int, int]
    """Lines of the matrix as it lies in memory, and elements of a line."""
    leading: int
    """Elements from one line to the next."""
    along: bool
    """Whether sums run along lines, else from line to line."""
    increment: int
    """Elements from one of a row to the next."""
    is_right: bool
    """Whether the matrix is the second operand."""
    rows: int = 1
    between: tuple[int, int] = (0, 0)
    """Elements from one row to the next, of X and Y."""
    batch: int = 1
    steps: tuple[int, int, int] = (0, 0, 0)
    """Steps from one product to the next, in elements, of M, X and Y."""

    is_late = False
    grain = 64  # so that parts begin where vectors do
    long = 1 << 17

    @property
    def panels(self) -> int:
        """The number of elements in a row of the result."""
        return self.sizes[0 if self.along else 1]

    @property
    def effort(self) -> int:
        """The number of multiplications."""
        return self.batch * self.rows * self.sizes[0] * self.sizes[1]

    @property
    def choices(self) -> Sizes:
        """The number of rows."""
        return (self.rows,)

    def function(self) -> int:
        """The address of `i32 kernel(ptr data, ptr geometry)`."""
        return self.chosen(self.choices)

    def chosen(self, choices: Sizes) -> int:
        """The function for a number of rows."""
        return _compiled(LinesShape(self.dtype, self.along, choices[0]))

    def geometry(self, first: int = 0, last: int | None = None) -> list[int]:
        """The numbers for a range of elements of the result."""
        (lines, elements), size = self.sizes, self.dtype.itemsize
        if last is not None:
            lines, elements = (last - first, elements) if self.along else (lines, last - first)
        lanes, line = lanes_of(self.dtype), self.leading * size
        ahead, run = self._ahead(elements, last is None or self.along)
        numbers = {
            "lines": lines, "whole": elements // lanes, "lanes": elements % lanes, "line": line,
            "row": self.between[0] * size, "step": self.increment * size, "result_row": self.between[1] * size,
            "batch": self.batch, "matrix": int(self.is_right), "vector": int(not self.is_right),
            **dict(zip(("next_matrix", "next_row", "next_result"), (step * size for step in self.steps))),
            "first_matrix": first * (line if self.along else size), "first_result": first * size,
            "ahead": ahead, "run": run, "bytes": elements * size,
        }  # fmt: skip
        return [numbers[name] for name in _FIELDS]

    @estimating()
    def _ahead(self, elements: int, is_whole: bool) -> tuple[int, int]:
        """The numbers "ahead" and "run" for lines of which so many elements, maybe all that there are, are read."""
        size = self.dtype.itemsize
        if is_whole and elements == self.leading:
            return AHEAD, _ENDLESS
        return 2 * LINES * self.leading * size, elements * size

    def label(self, operator: str) -> str:
        """The operator, and how it is computed."""
        return f"{operator} (by lines)"


@cache
def most_rows() -> int:
    """Rows up to which one product by a matrix is computed here: sums of four lines for each row stay in registers."""
    return 8 if Target.host().vector_registers >= 32 else SINGLE_ROWS


def supports(product: ProductByLines) -> bool:
    """Whether there is code for the product: lines are a vector or more, and lie as rows do if sums run along them."""
    if product.dtype not in ELEMENT or (lanes := lanes_of(product.dtype)) < LINES:
        return False
    near = product.increment == 1 or not product.along
    return only_if(lambda: near and product.sizes[1] >= lanes and product.sizes[0] >= 1)


def by_rows(dtype: DType, b: Matrix, sizes: Sequence[int], step: int, **rest: Any) -> ProductByLines:
    """The product of a row, or of several, by a matrix.

    Args:
        dtype: Of all operands.
        b: How the matrix lies.
        sizes: Its rows and columns.
        step: Elements from one of the row to the next.
        **rest: Further fields.
    """
    rows, columns = sizes
    lines = (columns, rows) if b.transposed else (rows, columns)
    return ProductByLines(dtype, lines, b.leading, b.transposed, step, True, **rest)


def by_column(dtype: DType, a: Matrix, sizes: Sequence[int], step: int, **rest: Any) -> ProductByLines:
    """The product of a matrix by a column; arguments as for `by_rows`."""
    rows, columns = sizes
    lines = (columns, rows) if a.transposed else (rows, columns)
    return ProductByLines(dtype, lines, a.leading, not a.transposed, step, False, **rest)


# -- code --------------------------------------------------------------------------------------------------------


@cache
def _compiled(shape: LinesShape) -> int:
    from ..kernels.codegen import compile_routine

    return compile_routine(f"by lines {tuple(shape)}", lambda: _written(shape, Target.host()))


def _written(shape: LinesShape, target: Target) -> tuple[tuple[str, ...], str]:
    writer = (_Along if shape.along else _Across)(shape, target)
    text = writer.kernel()
    return writer.declarations, text


class _LinesWriter(TileWriter):
    """Writes one kernel."""

    def __init__(self, shape: LinesShape, target: Target) -> None:
        super().__init__(shape.dtype, target)
        self.rows = range(shape.rows)
        self.of = {name: self.word("%geometry", index) for name, index in _AT.items()}

    def kernel(self) -> str:
        """`i32 kernel(ptr data, ptr geometry)`: for each product four lines at a time, then those that are left."""
        of = self.of
        matrix = self.add(self.word("%data", of["matrix"]), of["first_matrix"])
        row, result = self.word("%data", of["vector"]), self.add(self.word("%data", 2), of["first_result"])
        self.last = self.mask(self.sub(self.shifted(1, of["lanes"]), 1))
        blocks = self.quotient(of["lines"], LINES)
        with self.loop(of["batch"]) as number:
            self.m, x, y = (
                self.add(base, self.scale(number, of[step]))
                for base, step in ((matrix, "next_matrix"), (row, "next_row"), (result, "next_result"))
            )
            self.x = [self.add(x, self.scale(of["row"], r)) for r in self.rows]
            self.y = [self.add(y, self.scale(of["result_row"], r)) for r in self.rows]
            self.begin()
            with self.loop(blocks) as block:
                self.multiply(self.scale(block, LINES), LINES)
            with self.loop(of["lines"], self.scale(blocks, LINES)) as line:
                self.multiply(line, 1)
        self.leave(0)
        return self.text()

    def begin(self) -> None:
        """Instructions in front of the first line: none."""

    def multiply(self, first: Word, count: int) -> None:
        """Multiply some lines."""
        raise NotImplementedError

    def lines(self, first: Word, count: int) -> list[Word]:
        """The addresses of some lines."""
        start = self.add(self.m, self.scale(first, self.of["line"]))
        return [self.add(start, self.scale(self.of["line"], n)) for n in range(count)]

    def last_of(self, address: Word) -> Vector:
        """The lanes of a line beyond its whole vectors, and zeros."""
        return self.masked_load(self.add(address, self.before_last), self.last, "zeroinitializer")

    @property
    def before_last(self) -> Word:
        """The bytes of the whole vectors of a line."""
        return self.scale(self.of["whole"], self.bytes)

    def stream(self, first: Word) -> dict[str, Word]:
        """The registers of a loop that say what is to be asked for next, and where what follows it ends."""
        start = self.add(first, self.of["ahead"])
        return {"next": start, "end": self.add(start, self.of["run"])}

    def ask(self, at: dict[str, Word], count: int) -> None:
        """Ask for as much as is read in a turn, in the order of addresses."""
        for start in range(0, count * self.bytes, CACHE_LINE):
            self.prefetch(self.add(at["next"], start))
        after = self.add(at["next"], count * self.bytes)
        is_over = self.less(self.sub(at["end"], 1), after)
        line = self.add(self.sub(at["end"], self.of["run"]), self.of["line"])
        self.follow(at["next"], self.choose(is_over, line, after))
        self.follow(at["end"], self.choose(is_over, self.add(at["end"], self.of["line"]), at["end"]))


class _Along(_LinesWriter):
    """Sums along lines."""

    def multiply(self, first: Word, count: int) -> None:
        """The sums of some lines, which begin with the lanes that are no whole vector."""
        lines = self.lines(first, count)
        tails = [self.last_of(line) for line in lines]
        starts: dict[tuple[int, int], Vector] = {}
        for r in self.rows:
            tail = self.last_of(self.x[r])
            starts |= {(r, n): self.multiply_add(tail, tails[n], "zeroinitializer") for n in range(count)}
        with self.gathering(self.of["whole"], list(starts), starts, place=0, **self.stream(lines[0])) as loop:
            at, before, after = loop
            self.ask(at, count)
            here = [self.load(self.add(line, at["place"])) for line in lines]
            for r in self.rows:
                row = self.load(self.add(self.x[r], at["place"]))
                for n in range(count):
                    after[r, n] = self.multiply_add(row, here[n], before[r, n])
            self.advance(at["place"], self.bytes)
        for r in self.rows:
            total = self.folded([after[r, n] for n in range(count)])
            self.store_first(total, self.add(self.y[r], self.scale(first, self.size)), count)

    def folded(self, sums: list[Vector]) -> Vector:
        """The totals of vectors, in the first lanes of one: halves are added until a lane is left of each.

        Vectors are folded together, each in its part of one, in the order in which it would be by itself.
        """
        left = self.lanes
        while left > 1:
            alone = len(sums) == 1
            pairs = [(sums[0], sums[0])] if alone else list(zip(sums[::2], sums[1::2], strict=True))
            sums = [self._halved(a, b, left) for a, b in pairs]
            left //= 2
        assert len(sums) == 1
        return sums[0]

    def _halved(self, a: Vector, b: Vector, left: int) -> Vector:
        """The parts of two vectors, of `left` lanes each, with their halves added: those of a, then those of b."""
        starts = [n + part for n in (0, self.lanes) for part in range(0, self.lanes, left)]
        low = [start + lane for start in starts for lane in range(left // 2)]
        high = [n + left // 2 for n in low]
        return self.sum_of(self.shuffle(a, b, low), self.shuffle(a, b, high))


class _Across(_LinesWriter):
    """Sums from line to line, which gather in the result."""

    @contextmanager
    def vectors(self, **starts: Word | int) -> Iterator[dict[str, Word]]:
        """`turns` for the whole vectors of a line, of which a part of a line may have none."""
        with self.unless(self.same(self.of["whole"], 0)), self.turns(self.of["whole"], **starts) as at:
            yield at

    def begin(self) -> None:
        """Fill the sums with 0."""
        for r in self.rows:
            with self.vectors(place=self.y[r]) as at:
                self.store("zeroinitializer", at["place"])
                self.advance(at["place"], self.bytes)
            self.masked_store("zeroinitializer", self.add(self.y[r], self.before_last), self.last)

    def multiply(self, first: Word, count: int) -> None:
        """Add some lines, each times its element of each row."""
        lines = self.lines(first, count)
        places = [self.add(x, self.scale(first, self.of["step"])) for x in self.x]
        factors = [
            [self.broadcast(self.add(place, self.scale(self.of["step"], n))) for n in range(count)] for place in places
        ]
        with self.vectors(place=0, **self.stream(lines[0])) as at:
            self.ask(at, count)
            here = [self.load(self.add(line, at["place"])) for line in lines]
            for r in self.rows:
                result = self.add(self.y[r], at["place"])
                self.store(self._gathered(factors[r], here, self.load(result)), result)
            self.advance(at["place"], self.bytes)
        tails = [self.last_of(line) for line in lines]
        for r in self.rows:
            result = self.add(self.y[r], self.before_last)
            self.masked_store(self._gathered(factors[r], tails, self.last_of(self.y[r])), result, self.last)

    def _gathered(self, factors: Sequence[Vector], lines: Sequence[Vector], total: Vector) -> Vector:
        for factor, line in zip(factors, lines, strict=True):
            total = self.multiply_add(factor, line, total)
        return total
