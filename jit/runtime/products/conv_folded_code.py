"""The code of products that are folded: see Note [A product that is folded] in `conv_folded`."""

from __future__ import annotations

from functools import cache
from typing import NamedTuple

from jit.ir.dtypes import DType

from ..llvm.product_tiles import TileWriter, Vector, tile_sizes
from ..llvm.words import Word
from ..targets.target import Target

FIELDS = (
    "first", "last", "blocks", "block", "strips", "groups", "channels", "filters", "taps", "y_plane", "y_unit", "plane",
    "x_unit", "weight_row", "packed_row", "panels", "column_row", "y_at", "columns_at", "strip_table", "place_table",
    "row_table", "vector_table",
)  # fmt: skip
"""The geometry: ranges and counts (blocks of channels, channels of a block, strips of an image), bytes from channel to
channel and from unit to unit of y and x, from row to row of what is packed, places in the scratch memory, and tables."""
_AT = {name: index for index, name in enumerate(FIELDS)}
_STRIP = 5
"""The words of a strip in its table."""
_MOST_INTERLEAVED = 4


class FoldShape(NamedTuple):
    """The facts that decide on the code of a product that is folded."""

    dtype: DType
    stride: int
    """The stride along a row: the number of phases."""
    rows: int
    """The most rows of y that a row of x meets."""
    met: tuple[int, ...]
    """The number of taps that each phase meets, at least one."""
    last: int
    """The number of vectors in the last panel."""
    segments: int
    """The most images that a vector of places has to do with."""
    bias: bool

    @staticmethod
    def interleaves(stride: int) -> bool:
        """Whether vectors of the phases are interleaved before they are stored, and not scattered."""
        return stride <= _MOST_INTERLEAVED


@cache
def compiled(shape: FoldShape) -> int:
    """The address of a kernel."""
    from ..kernels.codegen import compile_routine

    def written() -> tuple[tuple[str, ...], str]:
        writer = _FoldWriter(shape, Target.host())
        text = writer.kernel()
        return writer.declarations, text

    return compile_routine(f"folded convolution {tuple(shape)}", written)


class _FoldWriter(TileWriter):
    """Writes one kernel."""

    def __init__(self, shape: FoldShape, target: Target) -> None:
        super().__init__(shape.dtype, target)
        self.shape = shape
        self.of = {name: self.word("%geometry", index) for name, index in _AT.items()}
        self.y, self.w = self.word("%data", 0), self.word("%data", 1)
        self.b = self.word("%data", 2) if shape.bias else "0"
        self.x, self.packed_w = (self.word("%data", 2 + shape.bias + i) for i in range(2))
        self.packed_y = self.add(self.packed_w, self.of["y_at"])
        self.columns = self.add(self.packed_w, self.of["columns_at"])

    def kernel(self) -> str:
        """Blocks of channels, of all strips, groups and sets of images in turn; y is packed for all of a unit's."""
        of = self.of
        with self.loop(of["last"], of["first"]) as number:
            block, unit = self.remainder(number, of["blocks"]), self.quotient(number, of["blocks"])
            strip, which = self.remainder(unit, of["strips"]), self.quotient(unit, of["strips"])
            group, images = self.remainder(which, of["groups"]), self.quotient(which, of["groups"])
            strip = self.add(of["strip_table"], self.scale(strip, 8 * _STRIP))
            begins = self._emit(f"or i1 {self.same(number, of['first'])}, {self.same(block, 0)}")
            with self.when(begins):
                above = self.scale(self.scale(group, of["filters"]), of["y_plane"])
                self._pack_places(self.add(self.add(self.y, self.scale(images, of["y_unit"])), above), strip)
            first = self.scale(block, of["block"])
            count = self.lesser(self.sub(of["channels"], first), of["block"])
            rows = self.scale(count, of["taps"])
            self._pack_weight(group, self.scale(first, of["taps"]), rows)
            self._multiply(rows)
            channel = self.add(self.scale(group, of["channels"]), first)
            x = self.add(self.add(self.x, self.scale(images, of["x_unit"])), self.scale(channel, of["plane"]))
            self._fold(x, channel, count, strip)
        self.leave(0)
        return self.text()

    # -- the product ---------------------------------------------------------------------------------------------

    def _pack_places(self, y: Word, strip: Word) -> None:
        """The panels of a unit: places across, filters down."""
        of, vectors = self.of, tile_sizes()[1]
        record = 16 * self.shape.segments
        table = self.add(of["place_table"], self.word(strip))
        line = vectors * self.bytes
        with self.loop(of["panels"]) as panel:
            at = self.add(table, self.scale(panel, vectors * record))
            seen = [
                [
                    (self.word(at, (v * record + 16 * s) // 8), self.mask(self.word(at, (v * record + 16 * s) // 8 + 1)))
                    for s in range(self.shape.segments)
                ]
                for v in range(vectors)
            ]
            to = self.add(self.packed_y, self.scale(self.scale(panel, line), of["filters"]))
            with self.turns(of["filters"], y=y, to=to) as turn:
                for v, segments in enumerate(seen):
                    value = "zeroinitializer"
                    for away, mask in segments:
                        value = self.masked_load(self.add(turn["y"], away), mask, value)
                    self.store(value, self.add(turn["to"], v * self.bytes))
                self.advance(turn["y"], of["y_plane"])
                self.advance(turn["to"], line)

    def _pack_weight(self, group: Word, start: Word, rows: Word) -> None:
        """Some columns of the weight, those of a block of channels; as many as whole tiles have."""
        of, tile = self.of, tile_sizes()[0]
        row = self.scale(self.scale(group, of["filters"]), of["weight_row"])
        w = self.add(self.add(self.w, row), self.scale(start, self.size))
        whole = self.scale(self.quotient(self.add(rows, tile - 1), tile), tile)
        vectors = self.quotient(self.add(whole, self.lanes - 1), self.lanes)
        with self.turns(of["filters"], w=w, to=self.packed_w) as down:
            with self.turns(vectors, w=down["w"], to=down["to"], left=rows) as along:
                left = self.lesser(along["left"], self.lanes)
                bits = self.sub(self.shifted(1, self.choose(self.less(left, 0), 0, left)), 1)
                self.store(self.masked_load(along["w"], self.mask(bits), "zeroinitializer"), along["to"])
                self.advance(along["w"], self.bytes)
                self.advance(along["to"], self.bytes)
                self.advance(along["left"], -self.lanes)
            self.advance(down["w"], of["weight_row"])
            self.advance(down["to"], of["packed_row"])

    def _multiply(self, rows: Word) -> None:
        """The columns: tiles of rows and panels."""
        of, (tile, vectors) = self.of, tile_sizes()
        tiles = self.quotient(self.add(rows, tile - 1), tile)
        line = vectors * self.bytes
        with self.loop(of["panels"]) as panel:
            packed = self.add(self.packed_y, self.scale(self.scale(panel, line), of["filters"]))
            to = self.add(self.columns, self.scale(panel, line))
            is_last = self.same(panel, self.sub(of["panels"], 1))
            with self.unless(is_last):
                self._panel(tiles, packed, to, vectors)
            with self.when(is_last):
                self._panel(tiles, packed, to, self.shape.last)

    def _panel(self, tiles: Word, packed: Word, to: Word, vectors: int) -> None:
        of, rows = self.of, tile_sizes()[0]
        with self.loop(tiles) as number:
            left = self.add(self.packed_w, self.scale(number, rows * self.size))
            lines = [self.add(left, r * self.size) for r in range(rows)]
            found = self.sums(lines, of["packed_row"], packed, vectors, of["filters"])
            first = self.add(to, self.scale(self.scale(number, rows), of["column_row"]))
            for (r, v), value in found.items():
                self.store(value, self.add(self.add(first, self.scale(of["column_row"], r)), v * self.bytes))

    # -- the sum over taps ---------------------------------------------------------------------------------------

    def _fold(self, x: Word, channel: Word, count: Word, strip: Word) -> None:
        """The rows of some channels of x, of all images of a unit."""
        of, rows = self.of, self.shape.rows
        row_table = self.add(of["row_table"], self.word(strip, 1))
        vector_table = self.add(of["vector_table"], self.word(strip, 2))
        with self.loop(count) as number:
            columns = self.add(self.columns, self.scale(self.scale(number, of["taps"]), of["column_row"]))
            plane = self.add(x, self.scale(number, of["plane"]))
            bias = self._bias_of(self.add(channel, number))
            with self.turns(self.word(strip, 3), row=row_table) as down:
                to = self.add(plane, self.word(down["row"]))
                met = [
                    (self.add(columns, self.word(down["row"], 1 + 2 * i)), self.word(down["row"], 2 + 2 * i))
                    for i in range(rows)
                ]
                with self.turns(self.word(strip, 4), vector=vector_table) as along:
                    self._vectors(along["vector"], to, met, bias)
                    self.advance(along["vector"], 8 * self._record)
                self.advance(down["row"], 8 * (1 + 2 * rows))

    def _bias_of(self, channel: Word) -> Vector:
        return self.broadcast(self.add(self.b, self.scale(channel, self.size))) if self.shape.bias else ""

    @property
    def _record(self) -> int:
        """The words of a vector of each phase in its table."""
        shape = self.shape
        return 1 + 2 * sum(shape.met) + (1 if shape.interleaves(shape.stride) else shape.stride)

    def _vectors(self, record: Word, row: Word, met: list[tuple[Word, Word]], bias: Vector) -> None:
        """A vector of each phase of a row of x: what the rows of y that it meets add to it."""
        shape, number, found = self.shape, 1, []
        for count in shape.met:
            total = ""
            for tap in range(number, number + 2 * count, 2):
                away, lanes = self.word(record, tap), self.word(record, tap + 1)
                for columns, is_there in met:
                    mask = self.mask(self.both(lanes, is_there))
                    value = self.masked_load(self.add(columns, away), mask, "zeroinitializer")
                    total = self._emit(f"fadd {self.vector} {total}, {value}") if total else value
            found.append(self._emit(f"fadd {self.vector} {total}, {bias}") if bias else total)
            number += 2 * count
        to = self.add(row, self.word(record))
        if shape.interleaves(shape.stride):
            self.masked_store(self._interleaved(found), to, self.mask(self.word(record, number), self._wide), self._wide)
            return
        for phase, value in enumerate(found):
            mask = self.mask(self.word(record, number + phase))
            self.scatter(value, self.add(to, phase * self.size), shape.stride * self.size, mask)

    @property
    def _wide(self) -> int:
        return self.lanes * self.shape.stride

    def _interleaved(self, vectors: list[Vector]) -> Vector:
        """The first lanes of all vectors, then the second ones, and so on."""
        lanes, count = self.lanes, len(vectors)
        if count == 1:
            return vectors[0]
        order = [phase * lanes + lane for lane in range(lanes) for phase in range(count)]
        if count == 2:
            return self.shuffle(vectors[0], vectors[1], order)
        pairs = [self.shuffle(vectors[i], vectors[min(i + 1, count - 1)], range(2 * lanes)) for i in (0, 2)]
        return self.shuffle(pairs[0], pairs[1], order, 2 * lanes)
