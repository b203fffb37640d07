"""The gradient of a convolution's weight: the correlation of input patches with output gradients.

Note [The gradient of a weight as a product]
    For one group, with (channel, tap) down and filters across:

        w[(channel, tap), filter] += x[channel, place + tap] * y[place, filter]

    Vectors run along the filters: y is transposed, some rows of places at a time, to panels of two vectors of filters,
    as `packed` does it. What 8 rows of a tile take from x are single numbers, so x is read as it lies, whatever the
    stride; only a padded image is copied, to have its zeros. Sums of all images and places of a panel are kept in
    scratch memory and transposed at the end. Each is one chain in the order of images and places; parts are panels.

    With one channel and one filter a group, vectors run along the places instead, some channels share the masks of
    Note [Segments], and the lanes are added at the end, in order.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import cache, cached_property, lru_cache
from typing import Any, NamedTuple

import numpy as np

from jit.ir.dtypes import DType

from ..kernels.work import Work
from ..llvm.product_tiles import TileWriter, lanes_of, tile_sizes
from ..llvm.words import Word
from ..targets.target import Target
from .conv import ConvolutionWork, ConvWindow, segment_tables
from .conv_code import SegmentWriter

BLOCK = 8
"""Channels of a depthwise convolution that share masks."""
_BLOCK_PLACES = 2048
"""The number of places of a panel, unless one row has more."""
FIELDS = (
    "first", "last", "panels", "batch", "tiles", "squares", "inner", "rows", "width", "block", "x_image", "x_group",
    "y_image", "y_group", "y_row", "filters", "w_row", "offsets", "starts", "step", "channels", "plane", "depth",
    "height", "row", "vectors", "tail", "padded_plane", "padded_slab", "padded_row", "inside", "packed", "padded",
    "padded_vectors",
)  # fmt: skip
"""The geometry: ranges and counts, bytes from one to the next, tables, and where things are in scratch memory."""
_AT = {name: index for index, name in enumerate(FIELDS)}
_DEPTHWISE_FIELDS = (
    "first", "last", "blocks", "batch", "vectors", "taps", "depth", "height", "plane", "y_row", "x_image", "y_image",
    "segments", "segment", "tap_table", "last_mask",
)  # fmt: skip


class WeightShape(NamedTuple):
    """The facts that decide on the code."""

    dtype: DType
    depthwise: bool
    vectors: int
    """The number of vectors in a panel."""
    pads: bool
    rows: int = 0
    """The number of channels in the last block of a depthwise one, if that is not a whole one."""
    segments: int = 1
    stride: int = 1


@dataclass(frozen=True)
class WeightGradient(Work):
    """The gradient of the weight of `forward`; operands are x, that of y, and that of the weight."""

    forward: ConvolutionWork

    @property
    def panels(self) -> int:
        """The parts by which the work can be shared: panels of filters, or blocks of channels."""
        c = self.forward
        return -(-c.groups // BLOCK) if c.is_depthwise else c.groups * self._across

    @property
    def effort(self) -> int:
        """The number of multiplications."""
        return self.forward.effort

    @cached_property
    def kept(self) -> tuple[Any, ...]:
        """The arrays whose addresses the geometry holds; kept here, since the caches that made them may drop them."""
        c = self.forward
        return segment_tables(c.window, c.dtype) if c.is_depthwise else _offsets(c.window, c.channels, c.dtype)

    @property
    def scratch_bytes(self) -> int:
        """The bytes of memory for sums, a panel and a padded image."""
        return 0 if self.forward.is_depthwise else sum(self._memory)

    def function(self) -> int:
        """The address of `i32 kernel(ptr data, ptr geometry)`."""
        c = self.forward
        if c.is_depthwise:
            return _compiled(WeightShape(c.dtype, True, 0, False, c.groups % BLOCK, c.segments, c.window.stride[2]))
        return _compiled(WeightShape(c.dtype, False, self._vectors, self._pads))

    def geometry(self, first: int = 0, last: int | None = None) -> Any:
        """The numbers for a range of `panels`."""
        last = self.panels if last is None else last
        numbers = self._of_depthwise(first, last) if self.forward.is_depthwise else self._of_product(first, last)
        return np.array(list(numbers.values()), np.int64)

    def flops(self, *of_nodes: int) -> int:
        """Two for each multiplication."""
        return 2 * self.effort

    def label(self, operator: str) -> str:
        """The operator, and how it is computed."""
        return f"{operator} (packed)"

    def _of_depthwise(self, first: int, last: int) -> dict[str, int]:
        c, w, size = self.forward, self.forward.window, self.forward.dtype.itemsize
        segments, taps = self.kept
        plane, row = math.prod(w.image) * size, w.number * size
        values = (
            first, last, c.groups // BLOCK, c.batch, c.vectors, w.taps, w.image[0], w.image[1], plane, row,
            c.groups * plane, c.groups * row, _address(segments), segments.shape[2] * 8, _address(taps),
            (1 << ((w.number - 1) % lanes_of(c.dtype) + 1)) - 1,
        )  # fmt: skip
        return dict(zip(_DEPTHWISE_FIELDS, values, strict=True))

    def _of_product(self, first: int, last: int) -> dict[str, int]:
        c, w, size = self.forward, self.forward.window, self.forward.dtype.itemsize
        lanes, (offsets, starts) = lanes_of(c.dtype), self.kept
        plane, padded, row = math.prod(w.image) * size, _padded(w), w.number * size
        slab = padded[1] * padded[2] * size
        before = ((w.padding[0] * padded[1] + w.padding[1]) * padded[2] + w.padding[2]) * size
        sums, panel, image = self._memory
        values = (
            first, last, self._across, c.batch, len(offsets) // tile_sizes()[0], -(-c.rows // lanes), c.rows,
            w.places[0] * w.places[1], w.places[2], self._block, c.groups * c.channels * plane, c.channels * plane,
            c.groups * c.filters * row, c.filters * row, row, c.filters, c.rows * size, _address(offsets),
            _address(starts), w.stride[2] * size, c.channels, plane, w.image[0], w.image[1], w.image[2] * size,
            w.image[2] // lanes, (1 << (w.image[2] % lanes)) - 1, padded[0] * slab, slab, padded[2] * size, before,
            sums, sums + panel, image // Target.host().vector_bytes,
        )  # fmt: skip
        return dict(zip(FIELDS, values, strict=True))

    # -- blocks --------------------------------------------------------------------------------------------------

    @property
    def _vectors(self) -> int:
        return min(tile_sizes()[1], -(-self.forward.filters // lanes_of(self.forward.dtype)))

    @property
    def _across(self) -> int:
        return -(-self.forward.filters // (self._vectors * lanes_of(self.forward.dtype)))

    @property
    def _pads(self) -> bool:
        return any(self.forward.window.padding)

    @property
    def _block(self) -> int:
        """The number of rows of places that are taken at a time."""
        return max(_BLOCK_PLACES // self.forward.window.places[2], 1)

    @property
    def _memory(self) -> tuple[int, int, int]:
        """Bytes of the sums, of a panel, and of a padded image."""
        c, (_, most) = self.forward, tile_sizes()
        lanes, line = lanes_of(c.dtype), most * Target.host().vector_bytes
        rows = c.window.places[0] * c.window.places[1]
        places = min(self._block, rows) * c.window.places[2]
        tall = max(len(self.kept[0]), -(-c.rows // lanes) * lanes)
        image = c.channels * math.prod(_padded(c.window)) * c.dtype.itemsize if self._pads else 0
        return tall * line, -(-places // lanes) * lanes * line, -(-image // 64) * 64


def _padded(w: ConvWindow) -> tuple[int, int, int]:
    d, h, n = (size + 2 * padding for size, padding in zip(w.image, w.padding, strict=True))
    return d, h, n


@lru_cache(64)
def _offsets(w: ConvWindow, channels: int, dtype: DType) -> tuple[Any, Any]:
    """Bytes of each (channel, tap) from a place, whole tiles of them, and of each row of places, in a padded image."""
    _, height, width = _padded(w)
    plane = math.prod(_padded(w))
    steps = np.stack(np.meshgrid(*map(np.arange, w.kernel), indexing="ij"), -1).reshape(-1, 3) * w.dilation
    taps = (steps[:, 0] * height + steps[:, 1]) * width + steps[:, 2]
    offsets = (np.arange(channels)[:, None] * plane + taps).ravel()
    rest = -len(offsets) % tile_sizes()[0]
    offsets = np.concatenate([offsets, np.repeat(offsets[-1:], rest)])
    row = np.arange(w.places[0] * w.places[1])
    starts = (row // w.places[1] * w.stride[0] * height + row % w.places[1] * w.stride[1]) * width
    return offsets.astype(np.int64) * dtype.itemsize, starts.astype(np.int64) * dtype.itemsize


def _address(array: Any) -> int:
    return int(array.__array_interface__["data"][0])


# -- code --------------------------------------------------------------------------------------------------------


@cache
def _compiled(shape: WeightShape) -> int:
    from ..kernels.codegen import compile_routine

    def written() -> tuple[tuple[str, ...], str]:
        writer = (_DepthwiseWeight if shape.depthwise else _Products)(shape, Target.host())
        text = writer.kernel()
        return writer.declarations, text

    return compile_routine(f"weight gradient {tuple(shape)}", written)


class _Products(TileWriter):
    """Tiles of some (channel, tap) pairs, see `tile_sizes`, and a panel of filters."""

    def __init__(self, shape: WeightShape, target: Target) -> None:
        super().__init__(shape.dtype, target)
        self.shape, self.line = shape, tile_sizes()[1] * self.bytes
        self.of = {name: self.word("%geometry", index) for name, index in _AT.items()}
        self.x, self.y, self.w, self.scratch = (self.word("%data", i) for i in range(4))
        self.packed, self.padded = (self.add(self.scratch, self.of[name]) for name in ("packed", "padded"))

    def kernel(self) -> str:
        """Panels of filters, of all groups."""
        of = self.of
        if self.shape.pads:
            with self.loop(of["padded_vectors"]) as i:
                self.store("zeroinitializer", self.add(self.padded, self.scale(i, self.bytes)))
        with self.loop(of["last"], of["first"]) as number:
            group, panel = self.quotient(number, of["panels"]), self.remainder(number, of["panels"])
            filters = self.scale(panel, self.shape.vectors * self.lanes)
            with self.loop(self.scale(of["tiles"], tile_sizes()[0])) as row:
                for v in range(self.shape.vectors):
                    self.store("zeroinitializer", self.add(self.scratch, self._line(row, v)))
            with self.loop(of["batch"]) as image:
                x = self.add(self.add(self.x, self.scale(image, of["x_image"])), self.scale(group, of["x_group"]))
                y = self.add(self.add(self.y, self.scale(image, of["y_image"])), self.scale(group, of["y_group"]))
                self._image(self._with_zeros(x), y, filters)
            self._put(self.add(self.w, self.scale(self.scale(group, of["filters"]), of["w_row"])), filters)
        self.leave(0)
        return self.text()

    def _line(self, row: Word, vector: int) -> Word:
        return self.add(self.scale(row, self.line), vector * self.bytes)

    def _with_zeros(self, x: Word) -> Word:
        """Copy an image into the middle of the padded one, whose border is 0 already."""
        of = self.of
        if not self.shape.pads:
            return x
        with self.loop(of["channels"]) as channel, self.loop(of["depth"]) as d, self.loop(of["height"]) as h:
            row = self.scale(self.add(self.scale(d, of["height"]), h), of["row"])
            source = self.add(self.add(x, self.scale(channel, of["plane"])), row)
            to = self.add(self.add(self.padded, of["inside"]), self.scale(channel, of["padded_plane"]))
            to = self.add(self.add(to, self.scale(d, of["padded_slab"])), self.scale(h, of["padded_row"]))
            with self.loop(of["vectors"]) as v:
                here = self.scale(v, self.bytes)
                self.store(self.load(self.add(source, here)), self.add(to, here))
            rest, mask = self.scale(of["vectors"], self.bytes), self.mask(of["tail"])
            value = self.masked_load(self.add(source, rest), mask, "zeroinitializer")
            self.masked_store(value, self.add(to, rest), mask)
        return self.padded

    def _image(self, x: Word, y: Word, filters: Word) -> None:
        """Add an image to the sums, some rows of places at a time: their y is transposed and met by all taps."""
        of = self.of
        blocks = self.quotient(self.add(of["rows"], self.sub(of["block"], 1)), of["block"])
        with self.loop(blocks) as block:
            first = self.scale(block, of["block"])
            count = self.lesser(self.sub(of["rows"], first), of["block"])
            start = self.scale(first, of["width"])
            self._pack(self.add(y, self.scale(start, self.size)), filters, self.scale(count, of["width"]))
            with self.loop(of["tiles"]) as tile:
                self._tile(tile, x, self.add(of["starts"], self.scale(first, 8)), count)

    def _pack(self, y: Word, filters: Word, places: Word) -> None:
        """Transpose squares of y. Filters beyond the last one repeat it: their sums are thrown away."""
        of, lanes = self.of, self.lanes
        final = self.sub(of["filters"], 1)
        rows = []
        for i in range(self.shape.vectors * lanes):
            rows.append(self.add(y, self.scale(self.lesser(self.add(filters, i), final), of["y_row"])))
        with self.loop(self.quotient(self.add(places, lanes - 1), lanes)) as square:
            place = self.scale(square, lanes)
            left = self.sub(places, place)
            some = self.sub(self._emit(f"shl i64 1, {self.lesser(left, lanes)}"), 1)
            mask, away = self.mask(some), self.scale(place, self.size)
            for v in range(self.shape.vectors):
                lines = [
                    self.masked_load(self.add(row, away), mask, "zeroinitializer")
                    for row in rows[v * lanes : (v + 1) * lanes]
                ]
                for step, line in enumerate(self.transposed(lines)):
                    self.store(line, self.add(self.packed, self._line(self.add(place, step), v)))

    def _tile(self, tile: Word, x: Word, starts: Word, count: Word) -> None:
        of, rows = self.of, tile_sizes()[0]
        first = self.scale(tile, rows)
        images = [self.add(x, self.word(of["offsets"], self.add(first, r))) for r in range(rows)]
        sums = self.add(self.scratch, self._line(first, 0))
        places = [(r, v) for r in range(rows) for v in range(self.shape.vectors)]
        where = {(r, v): self.add(sums, r * self.line + v * self.bytes) for r, v in places}
        known = {place: self.load(address) for place, address in where.items()}
        step = self.scale(of["width"], self.line)
        with self.gathering(count, places, known, panel=self.packed, start=starts) as (at, so_far, after):
            begin = self.word(at["start"])
            lines = [self.add(image, begin) for image in images]
            after.update(self.sums(lines, of["step"], at["panel"], self.shape.vectors, of["width"], so_far))
            self.advance(at["panel"], step)
            self.advance(at["start"], 8)
        for place, address in where.items():
            self.store(after[place], address)

    def _put(self, w: Word, filters: Word) -> None:
        """Store the sums of a panel, transposed."""
        of, lanes = self.of, self.lanes
        with self.loop(of["squares"]) as square:
            row = self.scale(square, lanes)
            some = self.sub(self._emit(f"shl i64 1, {self.lesser(self.sub(of['inner'], row), lanes)}"), 1)
            for v in range(self.shape.vectors):
                lines = [self.load(self.add(self.scratch, self._line(self.add(row, i), v))) for i in range(lanes)]
                for i, line in enumerate(self.transposed(lines)):
                    number = self.add(filters, v * lanes + i)
                    mask = self.mask(self.choose(self.less(number, of["filters"]), some, 0))
                    to = self.add(self.add(w, self.scale(number, of["w_row"])), self.scale(row, self.size))
                    self.masked_store(line, to, mask)


class _DepthwiseWeight(SegmentWriter):
    """Sums of a depthwise gradient: one tap of some channels at a time, along all places of all images."""

    def __init__(self, shape: WeightShape, target: Target) -> None:
        super().__init__(shape.dtype, shape.segments, shape.stride, target)
        self.shape = shape
        self.of |= {name: self.word("%geometry", index) for index, name in enumerate(_DEPTHWISE_FIELDS)}
        self.x, self.y, self.w = (self.word("%data", i) for i in range(3))

    def kernel(self) -> str:
        """Blocks of channels."""
        of, most = self.of, BLOCK
        with self.loop(of["last"], of["first"]) as block:
            channel = self.scale(block, most)
            x = self.add(self.x, self.scale(channel, of["plane"]))
            y = self.add(self.y, self.scale(channel, of["y_row"]))
            w = self.add(self.w, self.scale(self.scale(channel, of["taps"]), self.size))
            rest = self.same(block, of["blocks"])
            with self.unless(rest):
                self._taps(most, x, y, w)
            if self.shape.rows:
                with self.when(rest):
                    self._taps(self.shape.rows, x, y, w)
        self.leave(0)
        return self.text()

    def _taps(self, rows: int, x: Word, y: Word, w: Word) -> None:
        of, places = self.of, [(r, 0) for r in range(rows)]
        with self.loop(of["taps"]) as tap:
            meets = self.add(of["tap_table"], self.scale(tap, 32))
            with self.gathering(of["batch"], places, x=x, y=y) as (image, so_far, after):
                images = [self.add(image["x"], self.scale(of["plane"], r)) for r in range(rows)]
                outputs = [self.add(image["y"], self.scale(of["y_row"], r)) for r in range(rows)]
                with self.gathering(of["vectors"], places, so_far, row=of["segments"], at=0) as (at, sums, next_sums):
                    last = self.same(at["turn"], self.sub(of["vectors"], 1))
                    mask = self.mask(self.choose(last, of["last_mask"], -1))
                    sights = self.sights(at["row"], meets, self.segments)
                    for r in range(rows):
                        factor = self.masked_load(self.add(outputs[r], at["at"]), mask, "zeroinitializer")
                        next_sums[r, 0] = self.multiply_add(factor, self.seen(images[r], sights), sums[r, 0])
                    self.advance(at["row"], self.scale(of["segment"], self.segments))
                    self.advance(at["at"], self.bytes)
                after.update(next_sums)
                self.advance(image["x"], of["x_image"])
                self.advance(image["y"], of["y_image"])
            for r in range(rows):
                self._put(after[r, 0], self.add(w, self.scale(self.add(self.scale(of["taps"], r), tap), self.size)))

    def _put(self, lanes: str, where: Word) -> None:
        """Store the sum of the lanes, added one after the other."""
        name = f"llvm.vector.reduce.fadd.v{self.lanes}f{8 * self.size}"
        self._declared[name] = f"declare {self.element} @{name}({self.element}, {self.vector})"
        total = self._emit(f"call {self.element} @{name}({self.element} 0.0, {self.vector} {lanes})")
        self._write(f"store {self.element} {total}, ptr {self._pointer(where, 0)}")
