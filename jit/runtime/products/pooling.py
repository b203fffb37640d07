"""Max pooling with indices, its backward, and average pooling: work of plan steps, and its code.

The vectors of places, their segments and masks are those of a convolution (Note [Segments] in `conv`). For maxima,
entries beside the image are the lowest number; a NaN wins, and of equals the first. For means they are 0, and entries
are added in the order of the taps. All as in the interpreter, bit for bit.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import cache, cached_property, lru_cache
from typing import Any

import numpy as np

from jit.ir.dtypes import DType
from jit.ir.pooling import PoolGeometry, divisors

from ..kernels.work import Work
from ..llvm.product_tiles import TileWriter, lanes_of
from ..llvm.words import Word
from ..targets.target import Target
from .conv import ConvolutionWork, ConvWindow, segment_tables, steps_of
from .conv_code import SegmentWriter

_FIELDS = (
    "first", "last", "vectors", "taps", "depth", "height", "plane", "y_row", "index_row", "segments", "segment",
    "tap_table", "last_mask", "distances", "corners", "inside",
)  # fmt: skip
_MEANS = (
    "first", "last", "vectors", "taps", "depth", "height", "plane", "y_row", "segments", "segment", "tap_table",
    "last_mask", "divisors",
)  # fmt: skip
_BACK = ("first", "last", "places", "plane")
_LOWEST = "0xFFF0000000000000"
"""Minus infinity, as LLVM spells it."""
_INDEX = 8
"""Bytes of an index."""


@dataclass(frozen=True)
class MaxPoolWork(Work):
    """The maxima of windows of many planes, and where they are; operands are x, y, and the indices."""

    dtype: DType
    planes: int
    window: ConvWindow
    indices: bool = True
    """Whether the positions of the maxima are asked for."""

    long = 1 << 17

    @property
    def panels(self) -> int:
        """The parts by which the work can be shared."""
        return self.planes

    @property
    def effort(self) -> int:
        """The number of comparisons."""
        return self.planes * self.window.number * self.window.taps

    @cached_property
    def kept(self) -> tuple[Any, ...]:
        """The arrays whose addresses the geometry holds; kept here, since the caches that made them may drop them."""
        return (*segment_tables(self.window, self.dtype), *_positions(self.window, lanes_of(self.dtype)))

    def function(self) -> int:
        """The address of `i32 kernel(ptr data, ptr geometry)`."""
        work = ConvolutionWork(self.dtype, 1, 1, 1, 1, self.window)
        return _compiled(self.dtype, work.segments, self.window.stride[2], any(self.window.padding), self.indices)

    def geometry(self, first: int = 0, last: int | None = None) -> Any:
        """The numbers for a range of planes."""
        w, size, lanes = self.window, self.dtype.itemsize, lanes_of(self.dtype)
        segments, taps, distances, corners, inside = self.kept
        values = (
            first, self.planes if last is None else last, -(-w.number // lanes), w.taps, w.image[0], w.image[1],
            math.prod(w.image) * size, w.number * size, w.number * _INDEX, _address(segments),
            segments.shape[2] * 8, _address(taps), (1 << ((w.number - 1) % lanes + 1)) - 1, _address(distances),
            _address(corners), _address(inside),
        )  # fmt: skip
        return np.array(values, np.int64)


@dataclass(frozen=True)
class MeanPoolWork(Work):
    """The means of windows of many planes; operands are x and y."""

    dtype: DType
    planes: int
    window: ConvWindow
    ceil: bool
    """Whether windows may reach beyond the padded image, whose entries there count for no mean."""
    counts_padding: bool
    divisor: int | None
    """The divisor of all sums, if it is not the number of entries of their windows."""

    long = 1 << 17

    @property
    def panels(self) -> int:
        """The parts by which the work can be shared."""
        return self.planes

    @property
    def effort(self) -> int:
        """The number of additions."""
        return self.planes * self.window.number * self.window.taps

    @cached_property
    def kept(self) -> tuple[Any, ...]:
        """The arrays whose addresses the geometry holds; kept here, since the caches that made them may drop them."""
        return (*segment_tables(self.window, self.dtype), _divisors(self, lanes_of(self.dtype)))

    def function(self) -> int:
        """The address of `i32 kernel(ptr data, ptr geometry)`."""
        work = ConvolutionWork(self.dtype, 1, 1, 1, 1, self.window)
        return _compiled_means(self.dtype, work.segments, self.window.stride[2])

    def geometry(self, first: int = 0, last: int | None = None) -> Any:
        """The numbers for a range of planes."""
        w, size, lanes = self.window, self.dtype.itemsize, lanes_of(self.dtype)
        segments, taps, shares = self.kept
        values = (
            first, self.planes if last is None else last, -(-w.number // lanes), w.taps, w.image[0], w.image[1],
            math.prod(w.image) * size, w.number * size, _address(segments), segments.shape[2] * 8, _address(taps),
            (1 << ((w.number - 1) % lanes + 1)) - 1, _address(shares),
        )  # fmt: skip
        return np.array(values, np.int64)


@dataclass(frozen=True)
class MaxUnpoolWork(Work):
    """Numbers added where indices say, in the order of the places; operands are y, the indices, and x."""

    dtype: DType
    planes: int
    places: int
    plane: int
    """The number of entries of an image."""

    long = 1 << 17

    @property
    def panels(self) -> int:
        """The parts by which the work can be shared."""
        return self.planes

    @property
    def effort(self) -> int:
        """Four for each addition and for each entry of an image, since they are done one by one."""
        return 4 * self.planes * (self.places + self.plane)

    @property
    def scratch_bytes(self) -> int:
        """The bytes of the sums of a plane, in float64."""
        return -(-self.plane * 8 // 64) * 64

    def function(self) -> int:
        """The address of `i32 kernel(ptr data, ptr geometry)`."""
        return _compiled_back(self.dtype)

    def geometry(self, first: int = 0, last: int | None = None) -> Any:
        """The numbers for a range of planes."""
        return np.array([first, self.planes if last is None else last, self.places, self.plane], np.int64)


@lru_cache(64)
def _positions(w: ConvWindow, lanes: int) -> tuple[Any, Any, Any]:
    """The distance of each tap from a window's first entry; and the place of that, or of the first one in the image."""
    scale = np.array([w.image[1] * w.image[2], w.image[2], 1])
    rest = -w.number % lanes
    corners = np.zeros((2, *w.places), np.int64)
    for dim, (count, size, s, p, d) in enumerate(zip(w.places, w.image, w.stride, w.padding, w.dilation, strict=True)):
        line = np.arange(count) * s - p
        shape = [-1 if other == dim else 1 for other in range(3)]
        corners[0] += (line * scale[dim]).reshape(shape)
        corners[1] += (np.minimum(np.where(line < 0, line % d, line), size - 1) * scale[dim]).reshape(shape)
    first, inside = np.pad(corners.reshape(2, -1), ((0, 0), (0, rest)))
    away = (steps_of(w.kernel, w.dilation) @ scale).astype(np.int64)
    return away, np.ascontiguousarray(first), np.ascontiguousarray(inside)


@lru_cache(64)
def _divisors(work: MeanPoolWork, lanes: int) -> Any:
    """The divisor of the sum at each place, in whole vectors."""
    w = work.window
    pool = PoolGeometry(w.kernel[1:], w.stride[1:], w.padding[1:], w.dilation[1:], work.ceil)
    found = divisors(np, w.image[1:], pool, work.counts_padding, work.divisor, work.dtype.numpy)
    whole = np.broadcast_to(found, w.places[1:]).reshape(-1)
    return np.pad(whole, (0, -w.number % lanes), constant_values=1)


def _address(array: Any) -> int:
    return int(array.__array_interface__["data"][0])


# -- code --------------------------------------------------------------------------------------------------------


@cache
def _compiled(dtype: DType, segments: int, stride: int, pads: bool, indices: bool) -> int:
    from ..kernels.codegen import compile_routine

    def written() -> tuple[tuple[str, ...], str]:
        writer = _MaxPoolWriter(dtype, segments, stride, pads, indices, Target.host())
        text = writer.kernel()
        return writer.declarations, text

    return compile_routine(f"max pool {dtype.name} {segments} {stride} {pads} {indices}", written)


class _MaxPoolWriter(SegmentWriter):
    """One vector of places after the other, of each plane; indices are vectors of i64."""

    def __init__(self, dtype: DType, segments: int, stride: int, pads: bool, indices: bool, target: Target) -> None:
        super().__init__(dtype, segments, stride, target)
        self.pads, self.tells = pads, indices
        self.of |= {name: self.word("%geometry", index) for index, name in enumerate(_FIELDS)}
        self.x, self.y = self.word("%data"), self.word("%data", 1)
        self.indices = self.word("%data", 2) if indices else "0"
        self.lowest = f"<{', '.join([f'{self.element} {_LOWEST}'] * self.lanes)}>"
        self.numbers = f"<{self.lanes} x i64>"

    def kernel(self) -> str:
        """Planes in turn."""
        of = self.of
        with self.loop(of["last"], of["first"]) as plane:
            x = self.add(self.x, self.scale(plane, of["plane"]))
            y = self.add(self.y, self.scale(plane, of["y_row"]))
            indices = self.add(self.indices, self.scale(plane, of["index_row"]))
            with self.loop(of["vectors"]) as vector:
                self._vector(vector, x, y, indices)
        self.leave(0)
        return self.text()

    def _vector(self, vector: Word, x: Word, y: Word, indices: Word) -> None:
        of, row = self.of, self.vector_row(vector)
        before, body, after = (self._label(stem) for stem in ("before", "taps", "after"))
        self._write(f"br label %{before}")
        self._block(before)
        self._write(f"br label %{body}")
        self._block(body)
        tap, best, which = (f"%{body}.{name}" for name in ("tap", "best", "which"))
        self._write(f"{tap} = phi i64 [ 0, %{before} ], [ {tap}.next, %{body} ]")
        self._write(f"{best} = phi {self.vector} [ {self.lowest}, %{before} ], [ {best}.next, %{body} ]")
        if self.tells:
            self._write(f"{which} = phi {self.numbers} [ zeroinitializer, %{before} ], [ {which}.next, %{body} ]")
        sights = self.sights(row, self.add(of["tap_table"], self.scale(tap, 32)), self.segments)
        here = self.seen(x, sights, _LOWEST)
        more = self._emit(f"fcmp ugt {self.vector} {here}, {best}")
        known = self._emit(f"fcmp ord {self.vector} {best}, {best}")
        better = self._emit(f"and <{self.lanes} x i1> {more}, {known}")
        self._write(f"{best}.next = {self._chosen(better, self.vector, here, best)}")
        if self.tells:
            distance = self._in_all_lanes(self.word(of["distances"], tap))
            self._write(f"{which}.next = {self._chosen(better, self.numbers, distance, which)}")
        self.advance(tap, 1)
        self._write(f"br i1 {self.less(tap + '.next', of['taps'])}, label %{body}, label %{after}")
        self._block(after)
        self._put(vector, f"{best}.next", f"{which}.next", y, indices)

    def _chosen(self, mask: Word, type: str, a: str, b: str) -> str:
        return f"select <{self.lanes} x i1> {mask}, {type} {a}, {type} {b}"

    def _in_all_lanes(self, word: Word) -> str:
        one = self._emit(f"insertelement {self.numbers} poison, i64 {word}, i64 0")
        mask = ", ".join(["i32 0"] * self.lanes)
        return self._emit(f"shufflevector {self.numbers} {one}, {self.numbers} {one}, <{self.lanes} x i32> <{mask}>")

    def _put(self, vector: Word, best: str, which: str, y: Word, indices: Word) -> None:
        of, lanes = self.of, self.lanes
        first, at = self.scale(vector, lanes * _INDEX), self.scale(vector, self.bytes)
        last = self.same(vector, self.sub(of["vectors"], 1))
        mask = self.mask(self.choose(last, of["last_mask"], -1))
        self.masked_store(best, self.add(y, at), mask)
        if not self.tells:
            return
        found = self._emit(f"add {self.numbers} {which}, {self._numbers_at(self.add(of['corners'], first))}")
        if self.pads:
            lost = self._emit(f"fcmp oeq {self.vector} {best}, {self.lowest}")
            inside = self._numbers_at(self.add(of["inside"], first))
            found = self._emit(self._chosen(lost, self.numbers, inside, found))
        name = f"llvm.masked.store.v{lanes}i64.p0"
        self._declared[name] = f"declare void @{name}({self.numbers}, ptr, <{lanes} x i1>)"
        where = f"ptr align 8 {self._pointer(self.add(indices, first), 0)}"
        self._write(f"call void @{name}({self.numbers} {found}, {where}, <{lanes} x i1> {mask})")

    def _numbers_at(self, address: Word) -> str:
        return self._emit(f"load {self.numbers}, ptr {self._pointer(address, 0)}, align 8")


@cache
def _compiled_means(dtype: DType, segments: int, stride: int) -> int:
    from ..kernels.codegen import compile_routine

    def written() -> tuple[tuple[str, ...], str]:
        writer = _MeanPoolWriter(dtype, segments, stride, Target.host())
        text = writer.kernel()
        return writer.declarations, text

    return compile_routine(f"mean pool {dtype.name} {segments} {stride}", written)


class _MeanPoolWriter(SegmentWriter):
    """One vector of places after the other, of each plane."""

    def kernel(self) -> str:
        """Planes in turn."""
        self.of |= {name: self.word("%geometry", index) for index, name in enumerate(_MEANS)}
        of, (first, second) = self.of, (self.word("%data", i) for i in range(2))
        with self.loop(of["last"], of["first"]) as plane:
            x = self.add(first, self.scale(plane, of["plane"]))
            y = self.add(second, self.scale(plane, of["y_row"]))
            with self.loop(of["vectors"]) as vector:
                self._vector(vector, x, y)
        self.leave(0)
        return self.text()

    def _vector(self, vector: Word, x: Word, y: Word) -> None:
        of, row, here = self.of, self.vector_row(vector), (0, 0)
        start = f"<{', '.join([f'{self.element} -0.0'] * self.lanes)}>"  # which leaves what is added as it is
        with self.gathering(of["taps"], [here], {here: start}, tap=of["tap_table"]) as (at, sums, after):
            seen = self.seen(x, self.sights(row, at["tap"], self.segments))
            after[here] = self._emit(f"fadd {self.vector} {sums[here]}, {seen}")
            self.advance(at["tap"], 32)
        place = self.scale(vector, self.bytes)
        mean = self._emit(f"fdiv {self.vector} {after[here]}, {self.load(self.add(of['divisors'], place))}")
        last = self.same(vector, self.sub(of["vectors"], 1))
        self.masked_store(mean, self.add(y, place), self.mask(self.choose(last, of["last_mask"], -1)))


@cache
def _compiled_back(dtype: DType) -> int:
    from ..kernels.codegen import compile_routine

    def written() -> tuple[tuple[str, ...], str]:
        return (), _way_back(dtype)

    return compile_routine(f"max unpool {dtype.name}", written)


def _way_back(dtype: DType) -> str:
    from ..llvm.memory import OUT_OF_RANGE  # a process that finds its plans in the cache needs none of that

    """The kernel's code: numbers are added one after the other to sums in float64, which are rounded once."""
    r = TileWriter(dtype, Target.host())
    first, last, places, plane = (r.word("%geometry", i) for i in range(len(_BACK)))
    y, indices, x, sums = (r.word("%data", i) for i in range(4))
    with r.loop(last, first) as number:
        image = r.add(x, r.scale(r.scale(number, plane), r.size))
        start = r.scale(number, places)
        with r.turns(plane, at=sums) as at:
            r.put(at["at"], 0, 0)
            r.advance(at["at"], 8)
        with r.turns(places, y=r.add(y, r.scale(start, r.size)), index=r.add(indices, r.scale(start, 8))) as at:
            index = r.word(at["index"])
            with r.unless(r.within(index, plane)):
                r.leave(OUT_OF_RANGE)
            value = r._emit(f"load {r.element}, ptr {r._pointer(at['y'], 0)}")
            wide = value if r.element == "double" else r._emit(f"fpext float {value} to double")
            place = r._pointer(sums, index)
            total = r._emit(f"fadd double {r._emit(f'load double, ptr {place}')}, {wide}")
            r._write(f"store double {total}, ptr {place}")
            r.advance(at["y"], r.size)
            r.advance(at["index"], 8)
        with r.turns(plane, at=sums, to=image) as at:
            total = r._emit(f"load double, ptr {r._pointer(at['at'], 0)}")
            value = total if r.element == "double" else r._emit(f"fptrunc double {total} to float")
            r._write(f"store {r.element} {value}, ptr {r._pointer(at['to'], 0)}")
            r.advance(at["at"], 8)
            r.advance(at["to"], r.size)
    r.leave(0)
    return r.text()
