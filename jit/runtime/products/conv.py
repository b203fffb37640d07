"""Convolutions without BLAS: patches are laid out panel by panel, in the cache, right before they are multiplied.

Note [A convolution as a product]
    For one image and one group, with channels and taps down and places (of the kernel in the image) across:

        y[filter, place] = sum over (channel, tap) of weight[filter, (channel, tap)] * patch[(channel, tap), place]

    A panel is two vectors of places, and all rows of the patches for them. A strip is some panels that stay in the L2
    cache together with a block of channels; the weight is read as it lies, 8 filters at a time, and a tile of 8
    filters and a panel is kept in registers, as in `packed`. Sums that take several blocks of channels go on from what
    is in memory, so each element is one chain of multiply-adds in the order of (channel, tap), whatever the blocks.

Note [Segments]
    Places are counted through all rows of the result, so a vector of them may span several rows: these are its
    segments. For a tap of the kernel, a segment is a stretch of one row of the image, at a fixed distance from where
    the segment of tap 0 is; lanes that fall beside the image are masked off, so padding costs no copy. What is the
    same for all channels and images - where segments begin, which lanes they have - is a table made beforehand:

        places 5 to 8 of a result 7 wide:   segment 0 = row 0, columns 5, 6 in lanes 0, 1; segment 1 = row 1, columns
                                            0, 1 in lanes 2, 3, loaded from 2 elements before row 1

    With a stride of 2 or 4, twice or four times as many lanes are loaded and every second or fourth is taken.

Note [Direct]
    To lay out a patch takes as long as to multiply it with two or three filters. Where filters are few, vectors are
    loaded from the image each time, and what is kept of a panel is only where each tap sees it: for each vector and
    segment the distance and the lanes. The order of multiply-adds is the same, and so each bit is.

Note [Shares]
    Threads share panels and filters: a panel counts as some shares, a strip as those of its panels, and a range of a
    strip's shares is the like range of its filters. So two threads divide an image of few panels evenly, and each
    reads its part of the weight alone. A strip that they share is laid out by each.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from functools import cached_property, lru_cache
from typing import Any, NamedTuple

import numpy as np

from jit.ir.dtypes import DType
from jit.ir.sizes import estimating

from ..kernels.sized import at_sizes
from ..kernels.work import TILE_BYTES, Pieces, Work, even
from ..llvm.product_tiles import ELEMENT, lanes_of, tile_sizes
from ..targets.target import Target
from .conv_code import BLOCK, FIELDS, WIDE, ConvShape, compiled
from .finishing import Finish

Triple = tuple[int, int, int]
_STRIP_BYTES = 3 << 17
"""The size of the panels of a strip: they share the L2 cache with 8 rows of the weight and what is written."""
_DEEPEST = 640
"""The most rows of a panel, unless a single channel has more taps."""
_FEW_FILTERS = 32, 64, 24, 0
"""The most filters with which patches are not laid out: those of one tap; then vectors of one, two, more segments."""
_SHARES = 8
_UNLIMITED = 1 << 30
_MOST_SEGMENTS = 8


class ConvWindow(NamedTuple):
    """A kernel that moves over an image of three spatial dims (1 where there are fewer)."""

    image: Triple
    kernel: Triple
    places: Triple
    stride: Triple
    padding: Triple
    dilation: Triple

    @property
    def taps(self) -> int:
        """The number of entries of the kernel."""
        return math.prod(self.kernel)

    @property
    def number(self) -> int:
        """The number of places of the kernel."""
        return math.prod(self.places)

    def flat(self) -> ConvWindow:
        """The same with all places in one row, if nothing else than their number matters."""
        plain = self.taps == 1 and self.stride == (1, 1, 1) and self.padding == (0, 0, 0) and self.image == self.places
        return self._replace(image=(1, 1, self.number), places=(1, 1, self.number)) if plain else self


@dataclass(frozen=True)
class ConvolutionWork(Work):
    """y = weight * x (+ bias), row-major; operands are x, weight, (bias,) y."""

    dtype: DType
    batch: int
    groups: int
    channels: int
    """The number of channels of a group."""
    filters: int
    """The number of filters of a group."""
    window: ConvWindow
    bias: bool = False
    relu: bool = False
    """Whether negative results become 0."""
    widest: int = _UNLIMITED
    """The most panels of a strip; limited if the work is done in tiles."""

    @property
    def is_depthwise(self) -> bool:
        """Whether each channel has one filter of its own."""
        return self.channels == self.filters == 1

    @property
    def is_direct(self) -> bool:
        """Whether nothing is laid out, see Note [Direct]."""
        if self.channels == 1 or max(self.window.stride) > 1:
            return False  # a channel alone has too few taps to note them first
        most = _FEW_FILTERS[0] if self.window.taps == 1 else _FEW_FILTERS[min(self.segments, 3)]
        return self.filters <= most

    @property
    def rows(self) -> int:
        """The number of rows of a matrix of patches."""
        return self.channels * self.window.taps

    @property
    def vectors(self) -> int:
        """The number of vectors of places."""
        return -(-self.window.number // lanes_of(self.dtype))

    @property
    def panels(self) -> int:
        """Parts by which the work can be shared: shares of panels, or blocks of channels, of all images and groups."""
        return self.batch * (self._strips if self.is_depthwise else self.groups * self._across * self._shares)

    @property
    def scratch_bytes(self) -> int:
        """The bytes of memory for the panels of a strip."""
        return 0 if self.is_depthwise else min(self._strip, self._across) * self._panel_bytes

    @property
    def effort(self) -> int:
        """The number of multiplications."""
        return self.batch * self.groups * self.filters * self.rows * self.window.number

    @property
    def segments(self) -> int:
        """The number of segments of the vector that has most."""
        return _segments(self.window, lanes_of(self.dtype))

    @cached_property
    def kept(self) -> tuple[Any, ...]:
        """The arrays whose addresses the geometry holds; kept here, since the caches that made them may drop them."""
        return segment_tables(self.window, self.dtype)

    def function(self) -> int:
        """The address of `i32 kernel(ptr data, ptr geometry)`."""
        return self.finished_by(None)

    def in_registers(self) -> ConvolutionWork | None:
        """The work as it is, unless it is depthwise and writes scattered vectors."""
        return None if self.is_depthwise else self

    def finished_by(self, finish: Finish | None) -> int:
        """The address of the function that stores what a finish makes of the sums."""
        tile, block = tile_sizes()[0], BLOCK
        rows = self.groups % block if self.is_depthwise else self.filters % tile
        last = (self.vectors - 1) % tile_sizes()[1] + 1
        shape = ConvShape(
            self.dtype, self.is_depthwise, rows, last, self.segments, self.window.stride[2], self.bias, self.relu,
            self._halved, finish, self.is_direct,
        )  # fmt: skip
        return compiled(shape)

    def geometry(self, first: int = 0, last: int | None = None) -> Any:
        """The numbers for a range of `panels`."""
        found = self._numbers.copy()
        found[FIELDS.index("first")], found[FIELDS.index("last")] = first, self.panels if last is None else last
        return found

    @cached_property
    def _numbers(self) -> Any:
        """The numbers that all ranges of panels have in common."""
        w, size = self.window, self.dtype.itemsize
        segments, taps = self.kept
        plane, lanes = math.prod(w.image) * size, lanes_of(self.dtype)
        numbers = {
            "first": 0, "last": 0, "groups": self.groups, "strips": self._strips, "strip": self._strip,
            "across": self._across, "shares": self._shares,
            "blocks": (self.groups // BLOCK if self.is_depthwise else self.filters // tile_sizes()[0]),
            "channels": self.channels, "deep": self._deep, "taps": w.taps, "depth": w.image[0], "height": w.image[1],
            "plane": plane, "weight_row": self.rows * size, "y_row": w.number * size, "filters": self.filters,
            "panel_bytes": self._panel_bytes, "segments": _address(segments), "segment": segments.shape[2] * 8,
            "tap_table": _address(taps), "last_mask": (1 << ((w.number - 1) % lanes + 1)) - 1,
        }  # fmt: skip
        return np.array([_signed(numbers[name]) for name in FIELDS], np.int64)

    def flops(self, *of_nodes: int) -> int:
        """Two for each multiplication."""
        return 2 * self.effort

    def label(self, operator: str) -> str:
        """The operator, and how it is computed."""
        return f"{operator} ({'direct' if self.is_direct else 'packed'})"

    # -- tiles ---------------------------------------------------------------------------------------------------

    @property
    def axes(self) -> tuple[int, int, int, int]:
        """See `Tileable`."""
        return self.batch, self.groups, self.filters, self.window.number

    @property
    def tile(self) -> tuple[int, int, int, int]:
        """Whole images, or some panels of the work: strips of places, or a block of channels."""
        size = self.dtype.itemsize
        image = self.groups * self.filters * self.window.number * size
        if image <= TILE_BYTES:
            return even(self.batch, TILE_BYTES // image), *self.axes[1:]
        if self.is_depthwise:
            return 1, min(WIDE, self.groups), 1, self.window.number
        return 1, 1, self.filters, even(self.window.number, TILE_BYTES // (self.filters * size), self._across_strip)

    @property
    def scatters(self) -> bool:
        """Whether it is depthwise, and so writes vectors of many channels one after the other."""
        return self.is_depthwise

    def in_tiles(self) -> ConvolutionWork:
        """The same with strips that suit tiles: of one length if possible, since each length needs its own epilogue."""
        with estimating():
            across = int(self._across)
        most = max(TILE_BYTES // (self.filters * tile_sizes()[1] * Target.host().vector_bytes), 1)
        even = (count for count in range(2 * most, most // 2, -1) if across % count == 0)
        return replace(self, widest=next(even, most))

    def pieces(self, starts: Any, sizes: Any, in_place: bool) -> Pieces:
        """Ranges of panels; the rows of a tile that is an array of its own lie closer together."""
        (image, group, _, place), (batch, groups, _, places) = starts.T, sizes.T
        each = self.panels // self.batch
        if self.is_depthwise:
            first, count = group // WIDE, -(-groups // WIDE)
        else:
            panel = self._across_strip // self._strip
            first, count = group * self._across + place // panel, groups * -(-places // panel)
        first, count = image * each + first, batch * count
        geometries = np.repeat(self.geometry()[None], len(starts), 0)
        offsets = np.zeros((len(starts), 3 + self.bias), np.int64)
        for name, column in (("first", first), ("last", first + count)):
            geometries[:, FIELDS.index(name)] = column
        if not in_place:
            geometries[:, FIELDS.index("y_row")] = places * self.dtype.itemsize
            before = (image * self.groups + group) * self.filters * places + place
            offsets[:, -1] = -before * self.dtype.itemsize
        return Pieces([self.function()] * len(starts), geometries, offsets)

    # -- blocks --------------------------------------------------------------------------------------------------

    @property
    def _across(self) -> int:
        """The number of panels of an image."""
        return -(-self.vectors // tile_sizes()[1])

    @property
    def _halved(self) -> bool:
        """Whether half a vector holds the last places, and takes half the time as whole ones are the longest."""
        lanes = lanes_of(self.dtype)
        return Target.host().vector_bytes == 64 and (self.window.number - 1) % lanes < lanes // 2

    @property
    def _deep(self) -> int:
        """The number of channels whose patches are laid out at a time."""
        if self.is_direct:
            return self.channels
        blocks = -(-self.channels // max(_DEEPEST // self.window.taps, 1))
        return -(-self.channels // blocks)

    @property
    def _panel_bytes(self) -> int:
        """The bytes that are laid out or noted of a panel."""
        if self.is_direct:
            return self.window.taps * tile_sizes()[1] * self.segments * 16
        return self._deep * self.window.taps * tile_sizes()[1] * Target.host().vector_bytes

    @property
    def _cached_bytes(self) -> int:
        """The bytes of a panel that the cache shall hold while all filters meet them."""
        if self.is_direct:
            return self.channels * math.prod(self.window.kernel[:2]) * tile_sizes()[1] * Target.host().vector_bytes
        return self._panel_bytes

    @property
    def _strip(self) -> int:
        """The panels of a strip."""
        return max(even(self._across, min(_STRIP_BYTES // self._cached_bytes, self.widest)), 1)

    @property
    def _shares(self) -> int:
        """The number of shares of a panel, see Note [Few filters]
    To lay out a patch takes as long as to multiply it with two or three filters. Where filters are few, vectors are
    loaded from the image each time, and what is kept of a panel in the cache is only where each tap sees it: for each
    vector and segment the distance and the lanes. The order of multiply-adds is the same, so each bit is.

Note [Shares]; one if the work is done in tiles."""
        return 1 if self.widest < _UNLIMITED else max(min(_SHARES, self.filters // tile_sizes()[0]), 1)

    @property
    def _across_strip(self) -> int:
        """The number of places of a strip."""
        return self._strip * tile_sizes()[1] * lanes_of(self.dtype)

    @property
    def _strips(self) -> int:
        return -(-self.groups // WIDE) if self.is_depthwise else -(-self._across // self._strip)


def supports(work: ConvolutionWork) -> bool:
    """Whether there is code for the convolution."""
    target, w, lanes = Target.host(), work.window, lanes_of(work.dtype) if work.dtype in ELEMENT else 0
    if not lanes or not target.has_convolutions or not work.effort:
        return False
    if w.stride[2] not in (1, 2, 4) or lanes * w.stride[2] > 64:
        return False
    with estimating():
        return work.window.taps <= 1024 and at_sizes(work, int).segments <= _MOST_SEGMENTS


# -- tables ------------------------------------------------------------------------------------------------------


@lru_cache(256)
def _rows_of(window: ConvWindow, lanes: int) -> tuple[Any, Any, Any]:
    """Segments of each vector: place row (-1: none), first lane, and number of lanes."""
    across = window.places[2]
    first = np.arange(-(-window.number // lanes)) * lanes
    last = np.minimum(first + lanes, window.number)
    row = first[:, None] // across + np.arange(max(int(((last - 1) // across - first // across).max()), 0) + 1)
    begin = np.maximum(row * across, first[:, None])
    end = np.minimum((row + 1) * across, last[:, None])
    return np.where(end > begin, row, -1), begin - first[:, None], np.maximum(end - begin, 0)


def _segments(window: ConvWindow, lanes: int) -> int:
    return int(_rows_of(window, lanes)[0].shape[1])


@lru_cache(64)
def segment_tables(window: ConvWindow, dtype: DType) -> tuple[Any, Any]:
    """Tables for each vector and segment: where tap 0 is (depth, height, bytes), lanes by tap column; and the taps.

    A panel's vectors are all there, if need be without a segment. The number of segments of a panel stands in front
    of its first vector's. For each tap: the step in depth, in height, in bytes, and which column of lanes is its.
    """
    lanes, size, w = lanes_of(dtype), dtype.itemsize, window
    rows, lane, count = _rows_of(window, lanes)
    vectors = -(-len(rows) // tile_sizes()[1]) * tile_sizes()[1]
    table = np.zeros((vectors, rows.shape[1], 4 + w.kernel[2]), np.int64)
    there = rows >= 0
    place = np.maximum(rows, 0)
    column = np.arange(len(rows))[:, None] * lanes + lane - place * w.places[2]
    depth = place // w.places[1] * w.stride[0] - w.padding[0]
    height = place % w.places[1] * w.stride[1] - w.padding[1]
    start = (depth * w.image[1] + height) * w.image[2] + (column - lane) * w.stride[2] - w.padding[2]
    known = table[: len(rows)]
    known[..., 0], known[..., 1], known[..., 2] = depth, height, np.where(there, start, start[:, :1]) * size
    known[..., 4:] = _lanes_within(w, lanes, lane, count, column)
    panels = table.reshape(-1, tile_sizes()[1], *table.shape[1:])
    used = (panels[..., 4:] != 0).any(-1) * np.arange(1, rows.shape[1] + 1)
    panels[:, 0, 0, 3] = np.maximum(used.max((-1, -2)), 1)
    steps = steps_of(w.kernel, w.dilation)
    away = ((steps[:, 0] * w.image[1] + steps[:, 1]) * w.image[2] + steps[:, 2]) * size
    taps = np.stack([steps[:, 0], steps[:, 1], away, (np.arange(w.taps) % w.kernel[2] + 4) * 8], -1)
    return table, np.ascontiguousarray(taps, np.int64)


@lru_cache(64)
def steps_of(kernel: Triple, dilation: Triple) -> Any:
    """The steps from the first tap of a kernel to each of them, in each dim."""
    return np.stack(np.meshgrid(*map(np.arange, kernel), indexing="ij"), -1).reshape(-1, 3) * dilation


def _lanes_within(w: ConvWindow, lanes: int, lane: Any, count: Any, column: Any) -> Any:
    """Bits of the lanes that a segment has within the image, for each column of the kernel.

    They stand in a row: from the first lane whose entry is not before the image up to the first one behind it.
    """
    stride, before = w.stride[2], (column - lane)[..., None]
    offset = w.padding[2] - np.arange(w.kernel[2]) * w.dilation[2]
    first = np.maximum(lane[..., None], -(-offset // stride) - before)
    last = np.minimum((lane + count)[..., None], -(-(w.image[2] + offset) // stride) - before)
    up_to = np.zeros(lanes + 1, np.uint64)
    np.cumsum(np.left_shift(np.uint64(1), (np.arange(lanes) * stride).astype(np.uint64)), out=up_to[1:])
    return (up_to[np.clip(np.maximum(first, last), 0, lanes)] - up_to[np.clip(first, 0, lanes)]).view(np.int64)


def _address(array: Any) -> int:
    return int(array.__array_interface__["data"][0])


def _signed(word: int) -> int:
    return word - (1 << 64) if word >> 63 else word
