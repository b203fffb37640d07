"""The code of convolutions: see Note [A convolution as a product] and Note [Segments] in `conv`."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Sequence
from functools import cache
from typing import NamedTuple

from jit.ir.dtypes import DType

from ..llvm.product_tiles import TileWriter, Vector, tile_sizes
from ..llvm.words import Word
from ..targets.target import Target
from .finishing import Finish, FinishedRows, finishing

FIELDS = (
    "first", "last", "groups", "strips", "strip", "across", "shares", "blocks", "channels", "deep", "taps", "depth",
    "height", "plane", "weight_row", "y_row", "filters", "panel_bytes", "segments", "segment", "tap_table",
    "last_mask",
)  # fmt: skip
"""The geometry: ranges and counts (strips of panels, panels across and shares of each, blocks of rows, channels in
all and at a time), sizes of the image, bytes from row to row, and tables."""
_AT = {name: index for index, name in enumerate(FIELDS)}
BLOCK, WIDE = 4, 32
"""Channels of a depthwise convolution that are computed together, and that share what is known of places."""


class ConvShape(NamedTuple):
    """The facts that decide on the code of a convolution."""

    dtype: DType
    depthwise: bool
    rows: int
    """The number of filters, or of a depthwise one's channels, in the last block if that is not a whole one."""
    last: int
    """The number of vectors in the last panel."""
    segments: int
    stride: int
    """The stride along a row of the image."""
    bias: bool
    relu: bool
    halved: bool
    """Whether the last vector of the last panel has no place in its upper half."""
    finish: Finish | None = None
    direct: bool = False
    """Whether nothing is laid out: see Note [Direct] in `conv`."""


@cache
def compiled(shape: ConvShape) -> int:
    """The address of a kernel."""
    from ..kernels.codegen import compile_routine

    def written() -> tuple[tuple[str, ...], str]:
        way = _DepthwiseForward if shape.depthwise else _Direct if shape.direct else _Packing
        writer = way(shape, Target.host())
        text = writer.kernel()
        return writer.declarations, text

    return compile_routine(f"convolution {tuple(shape)}", written)


class SegmentWriter(TileWriter):
    """Writes loads of the entries of an image that taps of a kernel meet."""

    def __init__(self, dtype: DType, segments: int, stride: int, target: Target) -> None:
        super().__init__(dtype, target)
        self.segments, self.stride = segments, stride
        self.wide = self.lanes * stride
        self.of: dict[str, Word] = {}

    def vector_row(self, vector: Word) -> Word:
        """The row of the table with the segments of a vector."""
        return self.add(self.of["segments"], self.scale(vector, self.scale(self.of["segment"], self.segments)))

    def glances(self, row: Word, tap: Word, segments: int) -> list[tuple[Word, Word]]:
        """The view of a tap from the places of a vector: for each segment bytes from a channel's start, and lanes."""
        down, below, away, column = (self.word(tap, i) for i in range(4))
        found = []
        for segment in range(segments):
            here = self.add(row, self.scale(self.of["segment"], segment)) if segment else row
            deep = self.within(self.add(self.word(here), down), self.of["depth"])
            high = self.within(self.add(self.word(here, 1), below), self.of["height"])
            bits = self.choose(self._emit(f"and i1 {deep}, {high}"), self.word(self.add(here, column)), 0)
            found.append((self.add(self.word(here, 2), away), bits))
        return found

    def take_notes(self, row: Word, notes: Word, size: int) -> None:
        """Write down the `glances` of all taps from the vectors of a panel; the notes on a tap have `size` bytes."""
        step = self.scale(self.of["segment"], self.segments)
        with self.turns(self.of["taps"], tap=self.of["tap_table"], to=notes) as at:
            for v in range(tile_sizes()[1]):
                glances = self.glances(self.add(row, self.scale(step, v)), at["tap"], self.segments)
                for s, words in enumerate(glances):
                    for i, word in enumerate(words):
                        self.put(at["to"], 2 * (v * self.segments + s) + i, word)
            self.advance(at["tap"], 32)
            self.advance(at["to"], size)

    def noted(self, note: Word, vector: int, segments: int = 0) -> list[tuple[Word, Word]]:
        """The sights of a vector by the notes on a tap."""
        numbers = [2 * (vector * self.segments + segment) for segment in range(segments or self.segments)]
        return [(self.word(note, n), self.mask(self.word(note, n + 1), self.wide)) for n in numbers]

    def sights(self, row: Word, tap: Word, segments: int) -> list[tuple[Word, Word]]:
        """The same with lanes as masks."""
        return [(away, self.mask(bits, self.wide)) for away, bits in self.glances(row, tap, segments)]

    def seen(self, channel: Word, sights: Sequence[tuple[Word, Word]], beside: str = "0.0") -> Vector:
        """The values of a channel at what a tap sees, and a constant beside the image."""
        value = f"<{', '.join([f'{self.element} {beside}'] * self.wide)}>"
        for away, mask in sights:
            value = self.masked_load(self.add(channel, away), mask, value, self.wide)
        return value if self.stride == 1 else self.shuffle(value, value, range(0, self.wide, self.stride), self.wide)


class FinishingWriter(TileWriter):
    """Writes sums as they are stored: operands are x, the weight, (the bias,) what a finish reads, y."""

    def operands_of(self, bias: bool, finish: Finish | None, fields: int) -> None:
        """Read where the operands are; `fields` is the length of the geometry without what is said of a finish."""
        others = 0 if finish is None else finish.operands
        self.x, self.w = self.word("%data", 0), self.word("%data", 1)
        self.b = self.word("%data", 2) if bias else "0"
        self.y, self.scratch = (self.word("%data", 2 + bias + others + i) for i in range(2))
        self.arrays = [
            (self.add(self.word("%data", 2 + bias + reading.operand), self.word("%geometry", at)),
             self.word("%geometry", at + 1))
            for at, reading in zip(itertools.count(fields, 2), finish.readings if finish else ())
        ]  # fmt: skip
        """The start of each reading of the finish, and its step from filter to filter, in bytes."""

    def beside(self, place: Word, mask: str = "") -> Callable[[Word], Vector]:
        """A load from an array that lies as y does of what is at a place of y."""

        def load(array: Word) -> Vector:
            where = self.add(array, self.sub(place, self.y))
            return self.masked_load(where, mask, "zeroinitializer") if mask else self.load(where)

        return load

    def biased(self, value: Vector, bias: Word, relu: bool) -> Vector:
        """A sum with the number at the address `bias`, unless that is "", and without what is negative."""
        if bias:
            value = self._emit(f"fadd {self.vector} {value}, {self.broadcast(bias)}")
        if relu:
            lost = self._emit(f"fcmp ole {self.vector} {value}, zeroinitializer")
            value = self._emit(
                f"select <{self.lanes} x i1> {lost}, {self.vector} zeroinitializer, {self.vector} {value}"
            )
        return value


class _ConvWriter(FinishingWriter, SegmentWriter):
    """The part that both ways to compute y have in common."""

    def __init__(self, shape: ConvShape, target: Target) -> None:
        super().__init__(shape.dtype, shape.segments, shape.stride, target)
        self.shape = shape
        self.of |= {name: self.word("%geometry", index) for name, index in _AT.items()}
        self.target = target
        self.operands_of(shape.bias, shape.finish, len(FIELDS))

    def finished(self, value: Vector, row: Word) -> Vector:
        """A sum as it is stored: with the bias of its row, and without what is negative."""
        return self.biased(value, self.add(self.b, row) if self.shape.bias else "", self.shape.relu)

    def put_tile(self, tile: dict[tuple[int, int], Vector], first: Word, vectors: int, is_last: bool) -> None:
        """Store the rows of a tile; the last vector of an image may not be a whole one."""
        for (r, v), value in tile.items():
            where = self.add(self.add(first, self.scale(self.of["y_row"], r)), v * self.bytes)
            if is_last and v == vectors - 1:
                self.masked_store(value, where, self.mask(self.of["last_mask"]))
            else:
                self.store(value, where)


class _Packing(_ConvWriter):
    """Products of the weight and packed patches."""

    def kernel(self) -> str:
        """Shares of strips of panels: of all images and groups in turn."""
        of = self.of
        with self.loop(self.add(self._strip_of(self.sub(of["last"], 1)), 1), self._strip_of(of["first"])) as number:
            strip, which = self.remainder(number, of["strips"]), self.quotient(number, of["strips"])
            first = self.scale(strip, of["strip"])
            end = self.lesser(self.add(first, of["strip"]), of["across"])
            self._take_share(self.add(self.scale(which, of["across"]), first), self.sub(end, first))
            x = self.add(self.x, self.scale(which, self.scale(of["plane"], of["channels"])))
            row = self.scale(self.remainder(which, of["groups"]), of["filters"])
            w = self.add(self.w, self.scale(row, of["weight_row"]))
            y = self.add(self.y, self.scale(which, self.scale(of["y_row"], of["filters"])))
            self._channels(first, end, x, w, y, row)
        self.leave(0)
        return self.text()

    def _strip_of(self, share: Word) -> Word:
        """The strip, counted through all images and groups, to which a share belongs."""
        of = self.of
        each = self.scale(of["across"], of["shares"])
        within = self.quotient(self.remainder(share, each), self.scale(of["strip"], of["shares"]))
        return self.add(self.scale(self.quotient(share, each), of["strips"]), within)

    def _take_share(self, before: Word, panels: Word) -> None:
        """Find which blocks of filters of a strip are computed here; `before` counts the panels of earlier strips."""
        of = self.of
        before, shares = (self.scale(count, of["shares"]) for count in (before, panels))
        first, last = self.sub(of["first"], before), self.lesser(self.sub(of["last"], before), shares)
        first = self.choose(self.less(0, first), first, 0)
        self.blocks = [self.quotient(self.scale(share, of["blocks"]), shares) for share in (first, last)]
        self.has_rest = self.same(last, shares)
        """Whether the filters that are no whole block are computed here, too."""

    def _channels(self, first: Word, end: Word, x: Word, w: Word, y: Word, row: Word) -> None:
        """Blocks of channels: their patches are laid out, and multiplied with all filters."""
        of = self.of
        turns = self.quotient(self.add(of["channels"], self.sub(of["deep"], 1)), of["deep"])
        with self.loop(turns) as turn:
            start = self.scale(turn, of["deep"])
            count = self.lesser(self.sub(of["channels"], start), of["deep"])
            image = self.image = self.add(x, self.scale(start, of["plane"]))
            with self.loop(end, first) as panel:
                packed = self.add(self.scratch, self.scale(self.sub(panel, first), of["panel_bytes"]))
                self._pack(panel, packed, image, count)
            weight = self.add(w, self.scale(self.scale(start, of["taps"]), self.size))
            begins, ends = self.same(turn, 0), self.same(turn, self.sub(turns, 1))
            inner = self.scale(count, of["taps"])
            rows = tile_sizes()[0]
            with self.loop(self.blocks[1], self.blocks[0]) as block:
                self._rows(self.scale(block, rows), rows, first, end, weight, y, row, inner, begins, ends)
            if self.shape.rows:
                rest = self.scale(of["blocks"], rows)
                with self.when(self.has_rest):
                    self._rows(rest, self.shape.rows, first, end, weight, y, row, inner, begins, ends)

    def _pack(self, panel: Word, packed: Word, image: Word, channels: Word) -> None:
        row = self.vector_row(self.scale(panel, tile_sizes()[1]))
        several = self.less("1", self.word(row, 3))
        with self.unless(several):
            self._pack_with(1, row, packed, image, channels)
        if self.segments > 1:
            with self.when(several):
                self._pack_with(self.segments, row, packed, image, channels)

    def _pack_with(self, segments: int, row: Word, packed: Word, image: Word, channels: Word) -> None:
        of, line = self.of, tile_sizes()[1] * self.bytes
        step = self.scale(of["taps"], line)
        vectors = [row, self.add(row, self.scale(of["segment"], self.segments))]
        with self.turns(of["taps"], tap=of["tap_table"], to=packed) as at:
            sights = [self.sights(vector, at["tap"], segments) for vector in vectors]
            with self.turns(channels, image=image, to=at["to"]) as inner:
                for v, sight in enumerate(sights):
                    self.store(self.seen(inner["image"], sight), self.add(inner["to"], v * self.bytes))
                self.advance(inner["image"], of["plane"])
                self.advance(inner["to"], step)
            self.advance(at["tap"], 32)
            self.advance(at["to"], line)

    def _rows(
        self, row: Word, rows: int, first: Word, end: Word, weight: Word, y: Word, above: Word, inner: Word,
        begins: Word, ends: Word,
    ) -> None:  # fmt: skip
        """Some filters of a group at all panels of a strip; `above` counts the filters of the groups before."""
        of, most = self.of, tile_sizes()[1]
        start = self.add(weight, self.scale(row, of["weight_row"]))
        lines = [self.add(start, self.scale(of["weight_row"], r)) for r in range(rows)]
        bias = self.scale(self.add(above, row), self.size)
        to = self.add(y, self.scale(row, of["y_row"]))
        filters = [self.add(self.add(above, row), r) for r in range(rows)]
        with (
            finishing(self, self.shape.finish, self.target, filters, self.arrays) as finish,
            self.loop(end, first) as panel,
        ):
            packed = self.add(self.scratch, self.scale(self.sub(panel, first), of["panel_bytes"]))
            target = self.add(to, self.scale(panel, most * self.bytes))
            is_last = self.same(panel, self.sub(of["across"], 1))
            with self.unless(is_last):
                self._tile(lines, packed, inner, target, bias, most, False, begins, ends, finish)
            with self.when(is_last):
                self._tile(lines, packed, inner, target, bias, self.shape.last, True, begins, ends, finish)

    def _tile(
        self, lines: list[Word], packed: Word, inner: Word, target: Word, bias: Word, vectors: int, is_last: bool,
        begins: Word, ends: Word, finish: FinishedRows | None,
    ) -> None:  # fmt: skip
        places = [(r, v) for r in range(len(lines)) for v in range(vectors)]
        starts = self._so_far(places, target, vectors, is_last, begins)
        tile = self._products(lines, packed, inner, vectors, starts, is_last and self.shape.halved)
        if self.shape.bias or self.shape.relu or finish:
            done, after, before = self._label("done"), self._label("after"), self._label("before")
            self._write(f"br label %{before}")
            self._block(before)
            self._write(f"br i1 {ends}, label %{done}, label %{after}")
            self._block(done)
            full = {(r, v): self.finished(x, self.add(bias, r * self.size)) for (r, v), x in tile.items()}
            if finish:
                full = {(r, v): finish.finished(r, x, self._beside(target, r, v, is_last and v == vectors - 1))
                        for (r, v), x in full.items()}  # fmt: skip
            done = self.open_block("done")
            self._write(f"br label %{after}")
            self._block(after)
            tile = {
                place: self._emit(f"phi {self.vector} [ {full[place]}, %{done} ], [ {tile[place]}, %{before} ]")
                for place in places
            }
        self.put_tile(tile, target, vectors, is_last)

    def _products(
        self, lines: list[Word], packed: Word, inner: Word, vectors: int, starts: dict[tuple[int, int], Vector],
        halved: bool,
    ) -> dict[tuple[int, int], Vector]:  # fmt: skip
        """The sums of a tile, which go on from `starts`."""
        return self.sums(lines, self.size, packed, vectors, inner, starts, halved)

    def _beside(self, target: Word, r: int, v: int, partial: bool) -> Callable[[Word], Vector]:
        place = self.add(self.add(target, self.scale(self.of["y_row"], r)), v * self.bytes)
        return self.beside(place, self.mask(self.of["last_mask"]) if partial else "")

    def _so_far(
        self, places: list[tuple[int, int]], target: Word, vectors: int, is_last: bool, begins: Word
    ) -> dict[tuple[int, int], Vector]:
        """The sums of earlier blocks of channels: 0 for the first one."""
        more, after, before = self._label("more"), self._label("after"), self._label("before")
        self._write(f"br label %{before}")
        self._block(before)
        self._write(f"br i1 {begins}, label %{after}, label %{more}")
        self._block(more)
        known = {}
        for r, v in places:
            where = self.add(self.add(target, self.scale(self.of["y_row"], r)), v * self.bytes)
            partial = is_last and v == vectors - 1
            mask = self.mask(self.of["last_mask"]) if partial else ""
            known[r, v] = self.masked_load(where, mask, "zeroinitializer") if partial else self.load(where)
        self._write(f"br label %{after}")
        self._block(after)
        return {
            place: self._emit(f"phi {self.vector} [ zeroinitializer, %{before} ], [ {known[place]}, %{more} ]")
            for place in places
        }


class _Direct(_Packing):
    """The same products with the image as it lies: of a panel, only what its vectors see for each tap is noted."""

    @property
    def _note(self) -> int:
        """Bytes of the notes on a tap: for each vector and segment, how far away it is, and its lanes."""
        return tile_sizes()[1] * self.segments * 16

    def _pack(self, panel: Word, packed: Word, image: Word, channels: Word) -> None:
        self.take_notes(self.vector_row(self.scale(panel, tile_sizes()[1])), packed, self._note)

    def _products(
        self, lines: list[Word], packed: Word, inner: Word, vectors: int, starts: dict[tuple[int, int], Vector],
        halved: bool,
    ) -> dict[tuple[int, int], Vector]:  # fmt: skip
        """Channel by channel, and tap by tap: behind the last note comes the first one, of the next channel."""
        places = [(r, v) for r in range(len(lines)) for v in range(vectors)]
        past = self.add(packed, self.scale(self.of["taps"], self._note))
        with self.gathering(inner, places, starts, note=packed, image=self.image, a=0) as (at, sums, after):
            seen = [self.seen(at["image"], self.noted(at["note"], v)) for v in range(vectors)]
            for r, line in enumerate(lines):
                factor = self.broadcast(self.add(line, at["a"]))
                for v in range(vectors):
                    after[r, v] = self.multiply_add(factor, seen[v], sums[r, v])
            note = self.add(at["note"], self._note)
            is_past = self.same(note, past)
            self.follow(at["note"], self.choose(is_past, packed, note))
            self.advance(at["image"], self.choose(is_past, self.of["plane"], 0))
            self.advance(at["a"], self.size)
        return after


class _DepthwiseForward(_ConvWriter):
    """One kernel for each channel: nothing is laid out. What all taps see of a panel is noted for many channels."""

    def kernel(self) -> str:
        """Some blocks of channels, of all images in turn."""
        of = self.of
        self.notes = self.space(self.scale(of["taps"], self._note // 8))
        with self.loop(of["last"], of["first"]) as number:
            image, group = self.quotient(number, of["strips"]), self.remainder(number, of["strips"])
            first = self.scale(group, WIDE // BLOCK)
            end = self.lesser(self.add(first, WIDE // BLOCK), of["blocks"])
            row = self.scale(image, of["groups"])
            x = self.add(self.x, self.scale(row, of["plane"]))
            y = self.add(self.y, self.scale(row, of["y_row"]))
            final = self.same(group, self.sub(of["strips"], 1))
            with self.loop(of["across"]) as panel:
                self._panel(panel, first, end, x, y, final)
        self.leave(0)
        return self.text()

    @property
    def _note(self) -> int:
        """Bytes of the notes on a tap."""
        return tile_sizes()[1] * self.segments * 16

    def _panel(self, panel: Word, first: Word, end: Word, x: Word, y: Word, final: Word) -> None:
        of, most = self.of, tile_sizes()[1]
        row = self.vector_row(self.scale(panel, most))
        several = self.less("1", self.word(row, 3))
        target = self.add(y, self.scale(panel, most * self.bytes))
        self.take_notes(row, self.notes, self._note)
        last = self.same(panel, self.sub(of["across"], 1))
        with self.unless(last):
            with self.unless(several):
                self._blocks(1, most, first, end, x, target, final, False)
            if self.segments > 1:
                with self.when(several):
                    self._blocks(self.segments, most, first, end, x, target, final, False)
        with self.when(last):
            self._blocks(self.segments, self.shape.last, first, end, x, target, final, True)

    def _blocks(
        self, segments: int, vectors: int, first: Word, end: Word, x: Word, target: Word, final: Word, is_last: bool
    ) -> None:
        with self.loop(end, first) as block:
            self._tile(segments, BLOCK, vectors, block, x, target, is_last)
        if self.shape.rows:
            with self.when(final):
                self._tile(segments, self.shape.rows, vectors, self.of["blocks"], x, target, is_last)

    def _tile(self, segments: int, rows: int, vectors: int, block: Word, x: Word, target: Word, is_last: bool) -> None:
        of = self.of
        channels = [self.add(self.scale(block, BLOCK), r) for r in range(rows)]
        images = [self.add(x, self.scale(of["plane"], channel)) for channel in channels]
        weights = [self.add(self.w, self.scale(of["weight_row"], channel)) for channel in channels]
        places = [(r, v) for r in range(rows) for v in range(vectors)]
        with self.gathering(of["taps"], places, None, note=self.notes, w=0) as (at, sums, after):
            sights = [self.noted(at["note"], v, segments) for v in range(vectors)]
            for r in range(rows):
                factor = self.broadcast(self.add(weights[r], at["w"]))
                for v in range(vectors):
                    after[r, v] = self.multiply_add(factor, self.seen(images[r], sights[v]), sums[r, v])
            self.advance(at["note"], self._note)
            self.advance(at["w"], self.size)
        tile = {(r, v): self.finished(after[r, v], self.scale(channels[r], self.size)) for r, v in places}
        self.put_tile(tile, self.add(target, self.scale(channels[0], of["y_row"])), vectors, is_last)
