"""The map of a convolution by its input, with the weight as it lies: a product, whose columns are then added up.

Note [A product that is folded]
    The map by the input (Note [By the input] in `conv_steps`) is a transposed convolution, or the gradient of an image.
    For one image and one group, with channels and taps down and places (of the kernel in the image) across:

        columns[(channel, tap), place] = sum over filters of weight[filter, (channel, tap)] * y[filter, place]
        x[channel, i] = sum over taps of columns[(channel, tap), the place whose tap meets i]

    The product has as many multiplications as the convolution, whatever the stride: none is by a zero. Its left
    operand is read from the weight as it lies, some channels at a time; its right one is y, and both are packed in the
    cache. The columns of some channels stay in the cache, too.

    Folding them writes each entry of x once. With a stride of 3, entries 0, 3, 6, ... of a row meet the same taps:
    they are a phase. A vector of each phase is the sum of a vector from each tap's columns, of the rows of y that meet
    the row of x; lanes without a place are masked off. The vectors of all phases, interleaved, are stored.

        stride 2, 4 taps, padding 1      x[0], x[2], ... = tap 1 of y[0], y[1], ... + tap 3 of nothing, y[0], ...
                                         x[1], x[3], ... = tap 2 of y[0], y[1], ... + tap 0 of y[1], y[2], ...

    Each element is a sum over taps of chains of multiply-adds along the filters, whatever is packed together and
    whoever computes it. So the error is at most `eps * (n + t + 2) * sum|y * w|` for n filters and t taps.

Note [Units]
    A unit is what is packed of y at a time: some whole small images, or a strip of a large one, with the rows (or, of
    an image of one row, columns) of x that it is folded to. Places at the edges of strips are computed by both. The
    tables say for each strip where its vectors of places come from, and for each row and vector of x which places meet
    it, so the code knows neither paddings nor dilations.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import cached_property, lru_cache
from typing import Any, NamedTuple

import numpy as np

from jit.ir.dtypes import DType
from jit.ir.sizes import estimating, only_if

from ..kernels.sized import at_sizes
from ..kernels.work import Work
from ..llvm.product_tiles import ELEMENT, lanes_of, tile_sizes
from ..targets.target import Target
from .conv import ConvWindow
from .conv_folded_code import FIELDS, FoldShape, compiled

_PACKED_BYTES, _COLUMN_BYTES, _WEIGHT_BYTES = 1 << 18, 1 << 17, 1 << 17
"""The most bytes of y that are packed at a time, and those of columns and of the weight: all share the L2 cache."""
_FEWEST_PLACES = 128
_SHARES = 8
"""The parts into which the channels of an image are cut, so that threads can share them."""
_FEW_PLACES = 1024
"""Places, of all images, up to which a map with a stride of 1 is folded: turning its weight around costs more."""
_MOST_LOADS = 64
"""The most vectors that are added up for one of each phase: that code is written out."""


class Met(NamedTuple):
    """What a tap does for a phase of the entries along one dim: the first entry is met from place `offset`."""

    tap: int
    offset: int


def met_by(phase: int, kernel: int, stride: int, padding: int, dilation: int) -> list[Met]:
    """The taps that the entries `phase`, `phase + stride`, ... meet: entry number n that of the place `n + offset`.

    >>> met_by(0, 4, 2, 1, 1), met_by(1, 4, 2, 1, 1)
    ([Met(tap=1, offset=0), Met(tap=3, offset=-1)], [Met(tap=0, offset=1), Met(tap=2, offset=0)])
    """
    ahead = [(tap, phase + padding - tap * dilation) for tap in range(kernel)]
    return [Met(tap, step // stride) for tap, step in ahead if step % stride == 0]


class Strip(NamedTuple):
    """A part of an image: rows of x, vectors of each phase of a row, and the rows and columns of y that meet them."""

    rows: tuple[int, int]
    vectors: tuple[int, int]
    y_rows: tuple[int, int]
    y_columns: tuple[int, int]

    @property
    def places(self) -> int:
        """The number of places."""
        return (self.y_rows[1] - self.y_rows[0]) * (self.y_columns[1] - self.y_columns[0])


@dataclass(frozen=True)
class FoldedConvolution(Work):
    """x = the map by the input of y and the weight (+ bias), row-major; operands are y, weight, (bias,) x."""

    dtype: DType
    batch: int
    groups: int
    channels: int
    """The number of channels of a group, of x."""
    filters: int
    """The number of filters of a group: channels of y."""
    window: ConvWindow
    bias: bool = False

    @property
    def panels(self) -> int:
        """Parts by which the work can be shared: blocks of channels of all units."""
        return self._units * self._blocks

    @property
    def effort(self) -> int:
        """The number of multiplications."""
        return self.batch * self.groups * self.filters * self.channels * self.window.taps * self.window.number

    @property
    def scratch_bytes(self) -> int:
        """The bytes of memory for what is packed of the weight and of y, and for columns."""
        return self._weight_bytes + self._y_bytes + self._rows * self._column_row

    @cached_property
    def kept(self) -> tuple[Any, ...]:
        """The arrays whose addresses the geometry holds; kept here, since the cache that made them may drop them."""
        return fold_tables(self)

    def function(self) -> int:
        """The address of `i32 kernel(ptr data, ptr geometry)`."""
        w = self.window
        met = tuple(max(len(taps), 1) for taps in self._met)
        last = (self._vectors - 1) % tile_sizes()[1] + 1
        return compiled(FoldShape(self.dtype, w.stride[2], self._met_rows, met, last, self._segments, self.bias))

    def geometry(self, first: int = 0, last: int | None = None) -> Any:
        """The numbers for a range of `panels`."""
        found = self._numbers.copy()
        found[FIELDS.index("first")], found[FIELDS.index("last")] = first, self.panels if last is None else last
        return found

    @cached_property
    def _numbers(self) -> Any:
        """The numbers that all ranges of panels have in common."""
        w, size = self.window, self.dtype.itemsize
        strips, places, rows, vectors = self.kept
        plane, y_plane = math.prod(w.image) * size, w.number * size
        numbers = {
            "first": 0, "last": 0, "blocks": self._blocks, "block": self._block, "strips": len(strips),
            "groups": self.groups, "channels": self.channels, "filters": self.filters, "taps": w.taps,
            "y_plane": y_plane, "y_unit": self.images * self.groups * self.filters * y_plane,
            "plane": plane, "x_unit": self.images * self.groups * self.channels * plane,
            "weight_row": self.channels * w.taps * size, "packed_row": self._rows * size,
            "panels": -(-self._vectors // tile_sizes()[1]), "column_row": self._column_row,
            "y_at": self._weight_bytes, "columns_at": self._weight_bytes + self._y_bytes,
            "strip_table": _address(strips), "place_table": _address(places), "row_table": _address(rows),
            "vector_table": _address(vectors),
        }  # fmt: skip
        return np.array([numbers[name] for name in FIELDS], np.int64)

    def flops(self, *of_nodes: int) -> int:
        """Two for each multiplication."""
        return 2 * self.effort

    def label(self, operator: str) -> str:
        """The operator, and how it is computed."""
        return f"{operator} (folded)"

    # -- units ---------------------------------------------------------------------------------------------------

    @property
    def _most_places(self) -> int:
        return max(_PACKED_BYTES // (self.filters * self.dtype.itemsize), _FEWEST_PLACES)

    @property
    def images(self) -> int:
        """The number of images of a unit."""
        most = max(self._most_places // self.window.number, 1)
        return next(n for n in range(min(most, self.batch), 0, -1) if self.batch % n == 0)

    @cached_property
    def strips(self) -> list[Strip]:
        """The strips of an image: rows of x, or vectors of the only one."""
        w, phase_vectors = self.window, self._phase_vectors
        count = max(-(-w.number // self._most_places), 1)
        if count == 1:
            return [Strip((0, w.image[1]), (0, phase_vectors), (0, w.places[1]), (0, w.places[2]))]
        if w.places[1] > 1:
            each = -(-w.image[1] // count)
            return [self._strip_of_rows(n, min(n + each, w.image[1])) for n in range(0, w.image[1], each)]
        each = -(-phase_vectors // count)
        return [self._strip_of_vectors(n, min(n + each, phase_vectors)) for n in range(0, phase_vectors, each)]

    def _strip_of_rows(self, first: int, end: int) -> Strip:
        w = self.window
        here = [place for row in range(first, end) for _, place in self.met_rows(row)] or [0]
        return Strip((first, end), (0, self._phase_vectors), (min(here), max(here) + 1), (0, w.places[2]))

    def _strip_of_vectors(self, first: int, end: int) -> Strip:
        across, lanes = self.window.places[2], lanes_of(self.dtype)
        offsets = [met.offset for taps in self._met for met in taps]
        low = min(max(first * lanes + min(offsets), 0), across - 1)
        high = max(min(end * lanes + max(offsets), across), low + 1)
        return Strip((0, self.window.image[1]), (first, end), (0, 1), (low, high))

    @property
    def _units(self) -> int:
        return self.batch // self.images * self.groups * len(self.strips)

    @cached_property
    def _vectors(self) -> int:
        """The number of vectors of places of a unit."""
        return -(-self.images * max(strip.places for strip in self.strips) // lanes_of(self.dtype))

    @property
    def _phase_vectors(self) -> int:
        """The number of vectors of a phase of a row of x."""
        return -(-self.window.image[2] // (self.window.stride[2] * lanes_of(self.dtype)))

    @cached_property
    def _segments(self) -> int:
        """The most images that a vector of places has to do with."""
        lanes, each = lanes_of(self.dtype), max(strip.places for strip in self.strips)
        starts = range(0, self.images * each, lanes)
        return max((min(start + lanes, self.images * each) - 1) // each - start // each + 1 for start in starts)

    # -- taps ----------------------------------------------------------------------------------------------------

    @cached_property
    def _met(self) -> list[list[Met]]:
        """The taps that each phase of a row meets."""
        w = self.window
        return [met_by(r, w.kernel[2], w.stride[2], w.padding[2], w.dilation[2]) for r in range(w.stride[2])]

    def met_rows(self, row: int) -> list[tuple[int, int]]:
        """The rows of taps that a row of x meets, and of which row of y each."""
        w = self.window
        number, phase = divmod(row, w.stride[1])
        taps = met_by(phase, w.kernel[1], w.stride[1], w.padding[1], w.dilation[1])
        return [(tap, number + offset) for tap, offset in taps if 0 <= number + offset < w.places[1]]

    @cached_property
    def _met_rows(self) -> int:
        return max(1, *(len(self.met_rows(row)) for row in range(self.window.image[1])))

    # -- blocks --------------------------------------------------------------------------------------------------

    @property
    def _block(self) -> int:
        """The number of channels that are computed together."""
        w, size = self.window, self.dtype.itemsize
        bytes_each = w.taps * size
        wide = self._vectors * lanes_of(self.dtype)
        most = min(_WEIGHT_BYTES // (bytes_each * self.filters), _COLUMN_BYTES // (bytes_each * wide))
        most = min(most, -(-self.channels * self._units // _SHARES))
        step = tile_sizes()[0] // math.gcd(tile_sizes()[0], w.taps)
        return min(max(most // step, 1) * step, self.channels)

    @property
    def _blocks(self) -> int:
        return -(-self.channels // self._block)

    @property
    def _rows(self) -> int:
        """The rows of columns of a block, in whole tiles and, as a row of the weight, in whole vectors."""
        tile, lanes = tile_sizes()[0], lanes_of(self.dtype)
        whole = -(-self._block * self.window.taps // tile) * tile
        return -(-whole // lanes) * lanes

    @property
    def _column_row(self) -> int:
        """Bytes from one row of columns to the next: a vector more than it has, for rows a page apart share ways."""
        panels = -(-self._vectors // tile_sizes()[1])
        return (panels * tile_sizes()[1] + 1) * Target.host().vector_bytes

    @property
    def _weight_bytes(self) -> int:
        return _whole_lines(self._rows * self.filters * self.dtype.itemsize)

    @property
    def _y_bytes(self) -> int:
        panels = -(-self._vectors // tile_sizes()[1])
        return panels * tile_sizes()[1] * Target.host().vector_bytes * self.filters


def supports(work: FoldedConvolution) -> bool:
    """Whether there is code for the map."""
    w = work.window
    flat = all(sizes[0] == 1 for sizes in (w.image, w.kernel, w.places)) and w.padding[0] == 0
    if not flat or work.dtype not in ELEMENT or not Target.host().has_convolutions or not work.effort:
        return False
    with estimating():
        known = at_sizes(work, int)
        loads = known._met_rows * sum(max(len(taps), 1) for taps in known._met)
        return bool(loads <= _MOST_LOADS)


def pays(work: FoldedConvolution) -> bool:
    """Whether there is code for the map that is faster than convolutions by the weight turned around."""
    if not supports(work):
        return False
    if max(work.window.stride) > 1:
        return True
    return only_if(lambda: work.batch * work.window.number <= _FEW_PLACES and work.filters > 1)


# -- tables ------------------------------------------------------------------------------------------------------


@lru_cache(64)
def fold_tables(work: FoldedConvolution) -> tuple[Any, Any, Any, Any]:
    """Tables of the strips, of their vectors of places, of their rows of x, and of the vectors of these.

    A strip: where the other three begin for it, in bytes, and how many rows and vectors of x there are.
    A vector of places: for each image that it has to do with, bytes from the unit's start, and lanes.
    A row of x: bytes from the unit's start; for each row of y that it meets, bytes of columns, and whether it is there.
    A vector of each phase: for each tap, bytes of columns, and lanes; then lanes to store (see `_stored`).
    """
    rows, vectors, places, strips = [], [], [], []
    for strip in work.strips:
        here = _places(work, strip), _rows(work, strip), _vectors(work, strip)
        starts = [sum(part.nbytes for part in parts) for parts in (places, rows, vectors)]
        strips.append([*starts, len(here[1]), len(here[2])])
        for parts, part in zip((places, rows, vectors), here, strict=True):
            parts.append(part)
    whole = [np.concatenate(parts) for parts in (places, rows, vectors)]
    return np.array(strips, np.int64), *whole  # type: ignore[return-value]


def _places(work: FoldedConvolution, strip: Strip) -> Any:
    w, size, lanes = work.window, work.dtype.itemsize, lanes_of(work.dtype)
    (first, _), (left, _), each = strip.y_rows, strip.y_columns, strip.places
    vectors = -(-work._vectors // tile_sizes()[1]) * tile_sizes()[1]
    table = np.zeros((vectors, work._segments, 2), np.int64)
    for vector in range(vectors):
        begin, end = min(vector * lanes, work.images * each), min((vector + 1) * lanes, work.images * each)
        for segment, image in enumerate(range(begin // each, -(-end // each)) if end > begin else ()):
            start = image * each
            lane = max(start, begin) - begin, min(start + each, end) - begin
            away = image * work.groups * work.filters * w.number + first * w.places[2] + left + begin - start
            table[vector, segment] = away * size, _lanes(*lane)
    return table


def _rows(work: FoldedConvolution, strip: Strip) -> Any:
    w, size = work.window, work.dtype.itemsize
    across = strip.y_columns[1] - strip.y_columns[0]
    table = np.zeros((work.images, strip.rows[1] - strip.rows[0], 1 + 2 * work._met_rows), np.int64)
    for image in range(work.images):
        for number, row in enumerate(range(*strip.rows)):
            plane = image * work.groups * work.channels * w.image[1] + row
            table[image, number, 0] = plane * w.image[2] * size
            for i, (tap, place) in enumerate(work.met_rows(row)):
                away = (image * strip.places + (place - strip.y_rows[0]) * across) * size
                table[image, number, 1 + 2 * i : 3 + 2 * i] = tap * w.kernel[2] * work._column_row + away, -1
    return table.reshape(-1, table.shape[-1])


def _vectors(work: FoldedConvolution, strip: Strip) -> Any:
    w, size, lanes = work.window, work.dtype.itemsize, lanes_of(work.dtype)
    left, right = strip.y_columns
    table = []
    for vector in range(*strip.vectors):
        words = []
        for taps in work._met:
            for tap, offset in taps:
                place = vector * lanes + offset
                away = tap * work._column_row + (place - left) * size
                words += [away, _lanes(*np.clip((left - place, right - place), 0, lanes).tolist())]
            words += [0, 0] * (not taps)
        table.append([vector * lanes * w.stride[2] * size, *words, *_stored(work, vector * lanes)])
    return np.array(table, np.int64)


def _stored(work: FoldedConvolution, first: int) -> list[int]:
    """Lanes of the phases' vectors, interleaved, or where there are too many phases for that of each."""
    stride, across, lanes = work.window.stride[2], work.window.image[2], lanes_of(work.dtype)
    if FoldShape.interleaves(stride):
        return [_lanes(0, min(across - first * stride, lanes * stride))]
    counts = [-(-(across - first * stride - phase) // stride) for phase in range(stride)]
    return [_lanes(0, min(max(count, 0), lanes)) for count in counts]


def _lanes(first: int, end: int) -> int:
    """Lanes from the first one up to another as the bits of a signed word."""
    bits = ((1 << end) - 1) & ~((1 << first) - 1) if end > first else 0
    return bits - (1 << 64) if bits >> 63 else bits


def _whole_lines(nbytes: int) -> int:
    return -(-nbytes // 64) * 64


def _address(array: Any) -> int:
    return int(array.__array_interface__["data"][0])
