"""Matrix products for which BLAS does too much or too little: few rows, or one matrix for many products.

BLAS copies both operands into an order of its own before it multiplies, in every call. Here the left operand is read
as it lies, and the right one is packed: panel by panel right before its use, or once for all products that share it.

Note [How a product is computed]
    A panel is `panel_columns` columns of the right operand, row after row: what the inner loop reads is one stream. For
    each panel and each block of rows, a tile of the result is kept in registers while the loop runs along the sum:

        tile[r, v] += a[r, k] * panel[k, v]        r < 8, v < 2 vectors with 32 registers; 6 and 2 with 16

    Meanwhile the memory that the next panel is packed from is asked for, column by column if they lie together: packing
    reads a square of them at a time, which takes three times as long as reading one stream where a matrix comes from
    beyond the second cache. A weight that 64 rows are multiplied with takes a sixth less so.

    Each element is one chain of multiply-adds in the order of the sum (fused where the machine can), so neither the
    tile nor the number of threads, which share panels, shows in the result.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cache
from typing import Any, NamedTuple

import numpy as np

from jit.ir.dtypes import DType
from jit.ir.sizes import SizeExpr, divides, estimating, least, only_if

from ..kernels.work import TILE_BYTES, Pieces, Sizes, Work, even
from ..llvm.product_tiles import ELEMENT, TileWriter, lanes_of, tile_sizes
from ..llvm.words import Word
from ..targets.target import Target
from .blas_cores import is_narrow

_FIELDS = ("first", "last", "rest", "blocks", "inner", "a_row", "a_step", "b_column", "b_step", "c_row",
           "batch", "a_next", "b_next", "c_next", "lanes", "last_row", "last_column")  # fmt: skip
"""The geometry of a product or a packing: a range of whole panels, whether one follows that is not whole, counts,
strides in bytes, how many lanes of the last vector are columns if it is not whole, and where the last block of rows and
the last whole panel begin at the latest."""
_AT = {name: index for index, name in enumerate(_FIELDS)}


class _Limits(NamedTuple):
    """The limits beyond which BLAS is faster."""

    deepest: int
    """The length of the sum; operands must be cut to stay in the cache, which is not done here."""
    widest: int
    """The bytes of the left operand, likewise."""
    fewest: int
    """Rows from which it pays to pack a matrix for one product of a batch."""
    ragged: int
    """Columns from which the last vector need not be whole."""
    copied: int
    """Columns from which it pays to copy a left operand whose columns lie far apart."""
    small: int = 0
    """Multiplications up to which BLAS packs nothing, and is faster where the last vector is not whole."""


@cache
def _limits() -> _Limits:
    return _Limits(1 << 14, 1 << 26, 8, 8, 48) if is_narrow() else _Limits(2048, 1 << 21, 128, 32, 128, 1 << 20)


class PackedShape(NamedTuple):
    """The facts that decide on the code of a product."""

    dtype: DType
    last_rows: int
    """Rows of the last block where it is incomplete."""
    last_vectors: int
    """Vectors of the last panel where it is incomplete."""
    ragged: bool
    """Whether the last of these is not whole."""
    packs: str
    """The way of the right operand into panels: "" (it is packed), "rows" (its rows lie together) or "columns"."""
    multiplies: bool = True


@dataclass(frozen=True)
class PackedProduct(Work):
    """C = A B, or the packing of B alone. Operands are A, B, C; or A, the packed B, C; or B and where it is packed."""

    dtype: DType
    sizes: tuple[int, int, int]
    """Rows of A, columns of B, columns of A."""
    a: tuple[int, int]
    """The strides of A, from row to row and from column to column, in elements."""
    b: tuple[int, int]
    packed: bool = False
    """Whether B is packed already."""
    multiplies: bool = True
    """Whether the product is computed; if not, B is packed and no more."""
    batch: int = 1
    next: tuple[int, int] = (0, 0)
    """Steps from one matrix of a batch to the next, of A and B, in elements."""
    c: tuple[int, int] | None = None
    """Steps of C from matrix to matrix and from row to row, in elements, if it is not all of an array."""

    is_late = False

    @property
    def panels(self) -> int:
        """The number of panels."""
        return -(-self.sizes[1] // panel_columns(self.dtype))

    @property
    def scratch_bytes(self) -> int:
        """The bytes of memory for a panel, if the product packs for itself."""
        keeps = self.packed or not self.multiplies
        return 0 if keeps else self.sizes[2] * panel_columns(self.dtype) * self.dtype.itemsize

    @property
    def effort(self) -> int:
        """The number of multiplications."""
        rows, columns, inner = self.sizes
        return self.batch * rows * columns * inner

    @property
    def choices(self) -> tuple[int, int, int]:
        """Rows of the last block, and vectors of the last panel, where these are incomplete; lanes of the last one."""
        rows, columns, _ = self.sizes
        lanes, left = lanes_of(self.dtype), _left(columns, panel_columns(self.dtype))
        return _left(rows, tile_sizes()[0]) if self.multiplies else 0, (left + lanes - 1) // lanes, left % lanes

    def function(self) -> int:
        """The address of `i32 kernel(ptr data, ptr geometry)`."""
        return self.chosen(self.choices)

    def chosen(self, choices: Sizes) -> int:
        """The function for certain rows of the last block, vectors of the last panel and lanes of the last of these."""
        last_rows, last_vectors, last_lanes = choices
        packs = "" if self.packed else "rows" if self.b[1] == 1 else "columns"
        return _compiled(PackedShape(self.dtype, last_rows, last_vectors, last_lanes > 0, packs, self.multiplies))

    def geometry(self, first: int = 0, last: int | None = None) -> list[int]:
        """The numbers for a range of panels."""
        rows, columns, inner = self.sizes
        size = self.dtype.itemsize
        blocks, last_row = _whole(rows, tile_sizes()[0])
        whole, last_column = _whole(columns, panel_columns(self.dtype))
        last = self.panels if last is None else last
        matrix, row = self.c or (rows * columns, columns)
        numbers = {
            "first": first, "last": least(last, whole), "rest": last - least(last, whole),
            "blocks": blocks, "last_row": last_row, "last_column": last_column,
            "inner": inner, "a_row": self.a[0] * size, "a_step": self.a[1] * size, "b_column": self.b[1] * size,
            "b_step": self.b[0] * size, "c_row": row * size, "batch": self.batch, "a_next": self.next[0] * size,
            "b_next": self.next[1] * size, "c_next": matrix * size, "lanes": columns % lanes_of(self.dtype),
        }  # fmt: skip
        return [numbers[name] for name in _FIELDS]

    def label(self, operator: str) -> str:
        """The operator, and how it is computed."""
        return f"{operator} (packed)"

    # -- tiles -----------------------------------------------------------------------------------------------------

    def in_tiles(self) -> PackedProduct:
        """The work as it is."""
        return self

    @property
    def axes(self) -> tuple[int, int, int]:
        """See `Tileable`."""
        return self.batch, *self.sizes[:2]

    @property
    def tile(self) -> tuple[int, int, int]:
        """The sizes of a tile: some panels of all rows, or of many, since each tile packs for itself; or matrices."""
        rows, columns, _ = self.sizes
        wide, size = panel_columns(self.dtype), self.dtype.itemsize
        if rows * columns * size <= TILE_BYTES:
            return even(self.batch, TILE_BYTES // (rows * columns * size)), rows, columns
        rows = even(rows, TILE_BYTES // (2 * wide * size), tile_sizes()[0])
        return 1, rows, even(columns, max(TILE_BYTES // (rows * size), 2 * wide), wide)

    @property
    def scatters(self) -> bool:
        """False: it writes panels of two vectors or more, row by row."""
        return False

    def pieces(self, starts: Any, sizes: Any, in_place: bool) -> Pieces:
        """The products of some rows and columns of some matrices."""
        (rows, columns, inner), size = self.sizes, self.dtype.itemsize
        apart = rows * columns, columns
        works = [
            replace(self, sizes=(r, c, inner), batch=b, c=apart if in_place else None) for b, r, c in sizes.tolist()
        ]
        calls = {work: (work.function(), work.geometry()) for work in dict.fromkeys(works)}
        steps = (
            (self.next[0], self.a[0], 0),
            (self.next[1], 0, inner if self.packed else self.b[1]),
            (*apart, 1) if in_place else (0, 0, 0),
        )
        functions, geometries = zip(*(calls[work] for work in works), strict=True)
        return Pieces(functions, np.array(geometries), starts @ np.array(steps, np.int64).T * size)


def _whole(size: int, step: int) -> tuple[int, int]:
    """The number of whole steps in a size, and where the last one begins at the latest.

    A size that varies ends in a step that overlaps the one before and computes the same once more, so that it needs no
    code for what is left; unless it is less than one step.
    """
    if type(size) is SizeExpr:
        return (size + step - 1) // step * least(size // step, 1), size - step
    return size // step, size


def _left(size: int, step: int) -> int:
    """The rest behind these steps."""
    return least(size, step) % step if type(size) is SizeExpr else size % step


def supports(product: PackedProduct) -> bool:
    """Whether there is code for the product, which is then at least as fast as BLAS."""
    return only_if(lambda: _supports(product))


def _supports(product: PackedProduct) -> bool:
    _, columns, inner = product.sizes
    if product.dtype not in ELEMENT or any(size < 4 for size in product.sizes) or Target.host().vector_bytes < 16:
        return False
    lanes = lanes_of(product.dtype)
    straight = product.b[1] == 1 or (product.b[0] == 1 and inner >= lanes)
    taken = divides(lanes, columns) or columns >= _limits().ragged
    return bool(taken and straight and (product.a[1] == 1 or product.a[0] == 1) and _is_near(product))


@estimating()
def _is_near(product: PackedProduct) -> bool:
    """Whether it is small enough to be read from the cache, and large enough to pack for."""
    (rows, columns, inner), limits = product.sizes, _limits()
    if product.batch > 1 and rows < limits.fewest:
        return False
    if columns % lanes_of(product.dtype) and rows * columns * inner <= limits.small:
        return False
    near = product.a[1] == 1 or inner <= 128
    return near and inner <= limits.deepest and rows * inner * product.dtype.itemsize <= limits.widest


def supports_tiles(product: PackedProduct) -> bool:
    """Whether there is code for the product tile by tile, for which only some rows need be in the cache."""
    with estimating():
        rows = int(product.tile[1])
    return supports(replace(product, sizes=(rows, *product.sizes[1:])))


def supports_copied(product: PackedProduct) -> bool:
    """Whether it pays to copy the left operand row by row, because its columns lie far apart.

    Weights' gradients are such products, of the transposed gradient and the input: each step of the sum would read from
    another page of memory.
    """
    rows, columns, inner = product.sizes
    copied = replace(product, a=(inner, 1), next=(rows * inner, product.next[1]))
    lanes = lanes_of(product.dtype)
    return product.a[0] == 1 and only_if(
        lambda: columns >= _limits().copied and rows >= lanes and inner >= lanes and supports(copied)
    )


def panel_columns(dtype: DType) -> int:
    """The number of columns of a panel."""
    return tile_sizes()[1] * lanes_of(dtype)


# -- code --------------------------------------------------------------------------------------------------------


@cache
def _compiled(shape: PackedShape) -> int:
    from ..kernels.codegen import compile_routine

    return compile_routine(f"packed {tuple(shape)}", lambda: _written(shape, Target.host()))


def _written(shape: PackedShape, target: Target) -> tuple[tuple[str, ...], str]:
    writer = _PackedWriter(shape, target)
    text = writer.kernel()
    return writer.declarations, text


class _PackedWriter(TileWriter):
    """Writes one kernel."""

    def __init__(self, shape: PackedShape, target: Target) -> None:
        super().__init__(shape.dtype, target)
        self.shape = shape
        self.of = {name: self.word("%geometry", index) for name, index in _AT.items()}

    def kernel(self) -> str:
        """`i32 kernel(ptr data, ptr geometry)`: for each matrix whole panels, then the rest of one."""
        multiplies, vectors = self.shape.multiplies, tile_sizes()[1]
        places = [self.word("%data", i) for i in ((0, 1, 2) if multiplies else (0, 0, 1))]
        self.panel_bytes = self.scale(self.of["inner"], vectors * self.lanes * self.size)
        with self.loop(self.of["batch"]) as number:
            self.a, self.b, self.c = (
                self.add(place, self.scale(number, self.of[step]))
                for place, step in zip(places, ("a_next", "b_next", "c_next"), strict=True)
            )
            with self.loop(self.of["last"], self.of["first"]) as panel:
                start = self.lesser(self.scale(panel, vectors * self.lanes), self.of["last_column"])
                self._panel(panel, start, vectors, False)
            if self.shape.last_vectors:
                with self.unless(self.same(self.of["rest"], 0)):
                    start = self.scale(self.of["last"], vectors * self.lanes)
                    self._panel(self.of["last"], start, self.shape.last_vectors, self.shape.ragged)
        self.leave(0)
        return self.text()

    def _panel(self, panel: Word, start: Word, vectors: int, is_ragged: bool) -> None:
        """One panel, whose first column is `start`."""
        place = self.scale(panel, self.panel_bytes)
        if not self.shape.packs:
            packed = self.add(self.b, place)
        else:
            packed = self.word("%data", 3) if self.shape.multiplies else self.add(self.c, place)
            source = self.add(self.b, self.scale(start, self.of["b_column"]))
            self.source_bytes = self.scale(self.of["b_column"], tile_sizes()[1] * self.lanes)
            self.ahead = self.add(source, self.source_bytes)
            (self._pack_rows if self.shape.packs == "rows" else self._pack_columns)(source, packed, vectors, is_ragged)
        if not self.shape.multiplies:
            return
        rows = tile_sizes()[0]
        result = self.add(self.c, self.scale(start, self.size))
        with self.loop(self.of["blocks"]) as block:
            first = self.lesser(self.scale(block, rows), self.of["last_row"])
            self._tile_of(block, first, packed, result, (rows, vectors), is_ragged)
        if self.shape.last_rows:
            first = self.scale(self.of["blocks"], rows)
            self._tile_of(self.of["blocks"], first, packed, result, (self.shape.last_rows, vectors), is_ragged)

    def _tile_of(
        self, block: Word, first: Word, packed: Word, result: Word, tile: tuple[int, int], is_ragged: bool
    ) -> None:
        """Some rows of A, a block, times a panel."""
        rows, vectors = tile
        a = self.add(self.a, self.scale(first, self.of["a_row"]))
        lines = [self.add(a, self.scale(self.of["a_row"], r)) for r in range(rows)]
        mask = self._last_mask() if is_ragged else ""
        ahead = self._ahead(block) if self.shape.packs else ("", "")
        sums = self.sums(lines, self.of["a_step"], packed, vectors, self.of["inner"], ahead=ahead)
        for (r, v), value in sums.items():
            row = self.add(result, self.scale(self.add(first, r), self.of["c_row"]))
            place = self.add(row, v * self.bytes)
            if is_ragged and v == vectors - 1:
                self.masked_store(value, place, mask)
            else:
                self.store(value, place)

    def _ahead(self, block: Word) -> tuple[Word, Word]:
        """The place from which a block of rows asks for the next panel, and the step on in each turn.

        Columns that lie together are asked for in the order of addresses, a share in each block; rows in the first.
        """
        if self.shape.packs == "rows":
            return self.ahead, self.choose(self.same(block, 0), self.of["b_step"], 0)
        blocks = self.add(self.of["blocks"], int(self.shape.last_rows > 0))
        step = self.quotient(self.source_bytes, self.scale(blocks, self.of["inner"]))
        return self.add(self.ahead, self.scale(self.scale(block, self.of["inner"]), step)), step

    def _last_mask(self) -> Word:
        """The lanes of the last vector that are columns."""
        return self.mask(self.sub(self.shifted(1, self.of["lanes"]), 1))

    def _pack_rows(self, source: Word, packed: Word, vectors: int, is_ragged: bool) -> None:
        """A panel of a matrix whose rows lie together: they are copied."""
        mask = self._last_mask() if is_ragged else ""
        with self.loop(self.of["inner"]) as k:
            here = self.add(source, self.scale(k, self.of["b_step"]))
            there = self.add(packed, self.scale(k, tile_sizes()[1] * self.lanes * self.size))
            for v in range(vectors):
                offset = v * self.lanes * self.size
                place = self.add(here, offset)
                partial = is_ragged and v == vectors - 1
                line = self.masked_load(place, mask, "zeroinitializer") if partial else self.load(place)
                self.store(line, self.add(there, offset))

    def _pack_columns(self, source: Word, packed: Word, vectors: int, is_ragged: bool) -> None:
        """A panel of a matrix whose columns lie together: squares of it are transposed; the last overlaps another."""
        squares = self.quotient(self.add(self.of["inner"], self.lanes - 1), self.lanes)
        with self.loop(squares) as number:
            k = self.lesser(self.scale(number, self.lanes), self.sub(self.of["inner"], self.lanes))
            here = self.add(source, self.scale(k, self.size))
            there = self.add(packed, self.scale(k, tile_sizes()[1] * self.lanes * self.size))
            for v in range(vectors):
                partial = is_ragged and v == vectors - 1
                columns = [self._column(v, lane, partial) for lane in range(self.lanes)]
                square = self.transposed([self.load(self.add(here, column)) for column in columns])
                for step, line in enumerate(square):
                    self.store(line, self.add(there, (step * tile_sizes()[1] + v) * self.lanes * self.size))

    def _column(self, vector: int, lane: int, partial: bool) -> Word:
        """The distance of a column of the right operand; beyond the last one, of that one."""
        if not partial:
            return self.scale(self.of["b_column"], vector * self.lanes + lane)
        present = self.lesser(self.sub(self.of["lanes"], 1), lane)
        return self.scale(self.of["b_column"], self.add(present, vector * self.lanes))
