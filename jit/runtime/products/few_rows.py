"""Products of a few rows by a matrix whose columns lie together, such as the weight of a linear layer.

Note [Few rows by columns]
    For nn.Linear, y = x w' with w[outputs, inputs], `packed` would turn all of w around to multiply it by a few rows.
    Here x is turned around, which is small, and w is read once, as it lies: vectors run along the rows of x,

        tile[output, row] += w[output, k] * x[row, k]        8 outputs, 2 vectors of rows with 32 registers

    and each tile is turned around before it is stored. Each element is one chain of multiply-adds in the order of the
    sum, as in `packed`, so the two have the same bits. Threads share the outputs; the last tile may overlap the one
    before it, and computes the same once more.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache
from typing import NamedTuple

from jit.ir.dtypes import DType
from jit.ir.sizes import only_if

from ..kernels.work import Work
from ..llvm.product_tiles import ELEMENT, TileWriter, Vector, lanes_of, tile_sizes
from ..llvm.words import Word
from ..targets.target import Target

_FIELDS = ("first", "last", "rows", "outputs", "inner", "x_row", "w_row", "y_row", "panels", "panel_bytes")
"""The geometry: a range of tiles, counts, bytes from row to row, and the panels of rows."""
_AT = {name: index for index, name in enumerate(_FIELDS)}
_FEWEST_ROWS, _MOST_ROWS = 4, 64


class FewRowsShape(NamedTuple):
    """The facts that decide on the code."""

    dtype: DType
    last: int
    """The number of vectors in the last panel."""


@dataclass(frozen=True)
class FewRowsProduct(Work):
    """y = x w', of row-major matrices; operands are x, w, y."""

    dtype: DType
    sizes: tuple[int, int, int]
    """Rows of x, rows of w, and the length of both."""
    x_row: int
    w_row: int
    """Elements from row to row."""

    grain = 2

    @property
    def panels(self) -> int:
        """The number of tiles of outputs."""
        return -(-self.sizes[1] // tile_sizes()[0])

    @property
    def effort(self) -> int:
        """The number of multiplications."""
        rows, outputs, inner = self.sizes
        return rows * outputs * inner

    @property
    def scratch_bytes(self) -> int:
        """The bytes of memory for the rows of x, turned around."""
        return self._panels * self._panel_bytes

    def function(self) -> int:
        """The address of `i32 kernel(ptr data, ptr geometry)`."""
        vectors = -(-self.sizes[0] // lanes_of(self.dtype))
        return _compiled(FewRowsShape(self.dtype, (vectors - 1) % tile_sizes()[1] + 1))

    def geometry(self, first: int = 0, last: int | None = None) -> list[int]:
        """The numbers for a range of tiles."""
        (rows, outputs, inner), size = self.sizes, self.dtype.itemsize
        numbers = {
            "first": first, "last": self.panels if last is None else last, "rows": rows, "outputs": outputs,
            "inner": inner, "x_row": self.x_row * size, "w_row": self.w_row * size, "y_row": outputs * size,
            "panels": self._panels, "panel_bytes": self._panel_bytes,
        }  # fmt: skip
        return [numbers[name] for name in _FIELDS]

    def label(self, operator: str) -> str:
        """The operator, and how it is computed."""
        return f"{operator} (few rows)"

    @property
    def _panels(self) -> int:
        return -(-self.sizes[0] // (tile_sizes()[1] * lanes_of(self.dtype)))

    @property
    def _panel_bytes(self) -> int:
        lanes = lanes_of(self.dtype)
        return -(-self.sizes[2] // lanes) * lanes * tile_sizes()[1] * Target.host().vector_bytes


def supports(dtype: DType, sizes: tuple[int, int, int]) -> bool:
    """Whether there is code for rows, columns and the length of the sum, and BLAS takes longer."""
    if dtype not in ELEMENT or not Target.host().has_convolutions:
        return False
    rows, outputs, inner = sizes
    least = 4 * lanes_of(dtype)
    return only_if(lambda: _FEWEST_ROWS <= rows <= _MOST_ROWS and outputs >= least and inner >= least)


def fills_vectors(dtype: DType, rows: int) -> bool:
    """Whether rows fill vectors so well that turning the matrix around, as `packed` does, takes longer."""
    lanes = lanes_of(dtype)
    return only_if(lambda: 4 * rows >= 3 * (-(-rows // lanes) * lanes))


@cache
def _compiled(shape: FewRowsShape) -> int:
    from ..kernels.codegen import compile_routine

    def written() -> tuple[tuple[str, ...], str]:
        writer = _FewRowsWriter(shape, Target.host())
        text = writer.kernel()
        return writer.declarations, text

    return compile_routine(f"few rows {tuple(shape)}", written)


class _FewRowsWriter(TileWriter):
    """Writes one kernel."""

    def __init__(self, shape: FewRowsShape, target: Target) -> None:
        super().__init__(shape.dtype, target)
        self.shape = shape
        self.of = {name: self.word("%geometry", index) for name, index in _AT.items()}
        self.x, self.w, self.y, self.packed = (self.word("%data", i) for i in range(4))

    def kernel(self) -> str:
        """Panels of rows, one after the other: each is turned around, and multiplied by all outputs of the range."""
        of, vectors = self.of, tile_sizes()[1]
        with self.loop(of["panels"]) as panel:
            packed = self.add(self.packed, self.scale(panel, of["panel_bytes"]))
            first = self.scale(panel, vectors * self.lanes)
            is_last = self.same(panel, self.sub(of["panels"], 1))
            with self.unless(is_last):
                self._panel(first, packed, vectors)
            with self.when(is_last):
                self._panel(first, packed, self.shape.last)
        self.leave(0)
        return self.text()

    def _panel(self, first: Word, packed: Word, vectors: int) -> None:
        for v in range(vectors):
            self._turn(self.add(first, v * self.lanes), self.add(packed, v * self.bytes))
        with self.loop(self.of["last"], self.of["first"]) as tile:
            self._tile(tile, first, packed, vectors)

    def _turn(self, first: Word, packed: Word) -> None:
        """A vector of rows of x, turned around; beyond the last row and the last column are zeros."""
        of, lanes = self.of, self.lanes
        x = self.add(self.x, self.scale(first, of["x_row"]))
        blocks = self.quotient(self.add(of["inner"], lanes - 1), lanes)
        line = tile_sizes()[1] * self.bytes
        with self.turns(blocks, x=x, to=packed, left=of["inner"]) as at:
            bits = self.sub(self.shifted(1, self.lesser(at["left"], lanes)), 1)
            lines = []
            for r in range(lanes):
                here = self.choose(self.less(self.add(first, r), of["rows"]), bits, 0)
                row = self.add(at["x"], self.scale(of["x_row"], r))
                lines.append(self.masked_load(row, self.mask(here), "zeroinitializer"))
            for k, value in enumerate(self.transposed(lines)):
                self.store(value, self.add(at["to"], k * line))
            self.advance(at["x"], self.bytes)
            self.advance(at["to"], lanes * line)
            self.advance(at["left"], -lanes)

    def _tile(self, tile: Word, first: Word, packed: Word, vectors: int) -> None:
        """Some outputs of a panel of rows."""
        of, outputs = self.of, tile_sizes()[0]
        start = self.lesser(self.scale(tile, outputs), self.sub(of["outputs"], outputs))
        w = self.add(self.w, self.scale(start, of["w_row"]))
        lines = [self.add(w, self.scale(of["w_row"], r)) for r in range(outputs)]
        found = self.sums(lines, self.size, packed, vectors, of["inner"])
        to = self.add(self.y, self.scale(start, self.size))
        for v in range(vectors):
            for above in range(0, outputs, self.lanes):
                square = [found[r, v] for r in range(above, min(above + self.lanes, outputs))]
                self._put(square, self.add(to, above * self.size), self.add(first, v * self.lanes))

    def _put(self, square: list[Vector], to: Word, first: Word) -> None:
        """Store some outputs of a vector of rows, which lie one after the other in each row."""
        bits = (1 << len(square)) - 1
        whole = self.transposed([*square, *["zeroinitializer"] * (self.lanes - len(square))])
        for lane, value in enumerate(whole):
            row = self.add(first, lane)
            mask = self.mask(self.choose(self.less(row, self.of["rows"]), bits, 0))
            self.masked_store(value, self.add(to, self.scale(row, self.of["y_row"])), mask)
