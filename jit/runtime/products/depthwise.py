"""Depthwise convolutions row by row: each plane of an image by itself, vectors along the rows of the result.

Note [Rows of a plane]
    Some rows of the result, one vector wide, are kept in registers. Each row of the image that they need is loaded once
    for each column of the kernel, and multiplied into all of them (3 taps down, 4 rows, stride 1):

        image row 0    meets row 0 of the result by tap 0
        image row 1    row 0 by tap 1, row 1 by tap 0
        image row 2    row 0 by tap 2, row 1 by tap 1, row 2 by tap 0
        ...

    Lanes beside the image are masked off, the same for all rows; a row beside it is one of zeros. So each element is
    one chain of multiply-adds in the order of the taps, as in any other convolution. The last rows and the last vector
    overlap those before, and are computed twice, instead of having code for what is left. With a stride of 2 along the
    rows, twice as many lanes are loaded; every second is one column of the kernel, and those between are the next one.
"""

from __future__ import annotations

from functools import cache
from typing import Any, NamedTuple

import numpy as np

from jit.ir.dtypes import DType

from ..kernels.work import TILE_BYTES, Pieces, even
from ..llvm.product_tiles import Vector
from ..llvm.words import Word
from ..targets.target import Target
from .conv import ConvolutionWork
from .conv_code import FinishingWriter
from .finishing import Finish, FinishedRows, finishing

_FIELDS = ("first", "last", "groups", "height", "width", "plane", "line", "y_row", "y_line", "above", "before",
           "columns", "last_column", "blocks", "last_row")  # fmt: skip
"""The geometry: a range of planes, sizes of the image, steps in bytes of planes and rows, padding, and how many vectors
and blocks of rows a plane of the result has, and where the last of them begin."""
_AT = {name: index for index, name in enumerate(_FIELDS)}
_LARGEST = 7
"""The most taps along a dim: the code has each tap of each row of a block."""
_ROWS = 4
"""The rows of a block, which are as many independent chains."""
_FEW = 16
"""The most taps that are all kept in registers."""


def by_rows(work: ConvolutionWork) -> ConvolutionWork:
    """The same work row by row, if it is for that: one kernel for each plane, not large, and its taps side by side."""
    w = work.window
    flat = (w.image[0], w.kernel[0], w.padding[0]) == (1, 1, 0)
    known = all(type(size) is int and size <= _LARGEST for size in w.kernel)
    if not (work.is_depthwise and flat and known and max(w.stride[1:]) <= 2 and w.dilation[1:] == (1, 1)):
        return work
    return DepthwiseRows(
        work.dtype, work.batch, work.groups, work.channels, work.filters, work.window, work.bias, work.relu
    )


class DepthwiseRows(ConvolutionWork):
    """y = weight * x (+ bias) for one kernel a plane; operands are x, weight, (bias,) y."""

    @property
    def panels(self) -> int:
        """The planes."""
        return self.batch * self.groups

    @property
    def scratch_bytes(self) -> int:
        """The bytes of a row of zeros."""
        row, vector = self.window.image[2] * self.dtype.itemsize, Target.host().vector_bytes
        return -(-row // vector) * vector

    @property
    def kept(self) -> tuple[Any, ...]:
        """No arrays: the geometry holds no address."""
        return ()

    @property
    def finishes(self) -> bool:
        """True: sums of any convolution by rows can be finished."""
        return True

    def finished_by(self, finish: Finish | None) -> int:
        """The function that stores what a finish makes of the sums."""
        w, lanes = self.window, self._vector_bytes // self.dtype.itemsize
        return _compiled(
            _RowsShape(
                self.dtype, w.kernel[1:], w.stride[1:], min(w.places[1], _ROWS), self._vector_bytes,
                w.places[2] < lanes, self.bias, self.relu, finish,
            )
        )  # fmt: skip

    def geometry(self, first: int = 0, last: int | None = None) -> Any:
        """The numbers for a range of planes."""
        w, size, lanes = self.window, self.dtype.itemsize, self._vector_bytes // self.dtype.itemsize
        (_, height, width), (_, down, across) = w.image, w.places
        rows = min(down, _ROWS)
        numbers = {
            "first": first, "last": self.panels if last is None else last, "groups": self.groups,
            "height": height, "width": width, "plane": height * width * size, "line": width * size,
            "y_row": w.number * size, "y_line": across * size, "above": w.padding[1], "before": w.padding[2],
            "columns": -(-across // lanes), "last_column": max(across - lanes, 0),
            "blocks": -(-down // rows), "last_row": down - rows,
        }  # fmt: skip
        return np.array([numbers[name] for name in _FIELDS], np.int64)

    def label(self, operator: str) -> str:
        """The operator, and how it is computed."""
        return f"{operator} (by rows)"

    # -- tiles ---------------------------------------------------------------------------------------------------

    def in_tiles(self) -> DepthwiseRows:
        """The work as it is."""
        return self

    @property
    def tile(self) -> tuple[int, int, int, int]:
        """Whole images, or some planes."""
        plane = self.window.number * self.dtype.itemsize
        if self.groups * plane <= TILE_BYTES:
            return even(self.batch, TILE_BYTES // (self.groups * plane)), *self.axes[1:]
        return 1, even(self.groups, TILE_BYTES // plane), *self.axes[2:]

    @property
    def scatters(self) -> bool:
        """False: it writes plane after plane."""
        return False

    def pieces(self, starts: Any, sizes: Any, in_place: bool) -> Pieces:
        """Ranges of planes."""
        first, count = starts[:, 0] * self.groups + starts[:, 1], sizes[:, 0] * sizes[:, 1]
        geometries = np.repeat(self.geometry()[None], len(starts), 0)
        geometries[:, _AT["first"]], geometries[:, _AT["last"]] = first, first + count
        offsets = np.zeros((len(starts), 3 + self.bias), np.int64)
        if not in_place:
            offsets[:, -1] = -first * self.window.number * self.dtype.itemsize
        return Pieces([self.function()] * len(starts), geometries, offsets)

    @property
    def _vector_bytes(self) -> int:
        """The bytes of a vector: short rows take short ones."""
        bytes = Target.host().vector_bytes
        while bytes > 16 and 2 * self.window.places[2] * self.dtype.itemsize <= bytes:
            bytes //= 2
        return bytes


# -- code --------------------------------------------------------------------------------------------------------


class _RowsShape(NamedTuple):
    """The facts that decide on the code."""

    dtype: DType
    kernel: tuple[int, ...]
    stride: tuple[int, ...]
    rows: int
    vector_bytes: int
    narrow: bool
    """Whether rows of the result are less than a vector."""
    bias: bool
    relu: bool
    finish: Finish | None


@cache
def _compiled(shape: _RowsShape) -> int:
    from ..kernels.codegen import compile_routine

    def written() -> tuple[tuple[str, ...], str]:
        writer = _RowsWriter(shape, Target.host())
        text = writer.kernel()
        return writer.declarations, text

    return compile_routine(f"depthwise {tuple(shape)}", written)


class _RowsWriter(FinishingWriter):
    """Writes one kernel, see Note [Rows of a plane]."""

    def __init__(self, shape: _RowsShape, target: Target) -> None:
        super().__init__(shape.dtype, target, shape.vector_bytes)
        self.shape = shape
        self.of = {name: self.word("%geometry", index) for name, index in _AT.items()}
        self.finish: FinishedRows | None = None
        self.taps = [(i, j) for i in range(shape.kernel[0]) for j in range(shape.kernel[1])]
        self.target = target
        self.operands_of(shape.bias, shape.finish, len(_FIELDS))

    def kernel(self) -> str:
        """Planes, one after the other."""
        of, shape = self.of, self.shape
        with self.loop(self._vectors()) as number:
            self.store("zeroinitializer", self.add(self.scratch, self.scale(number, self.bytes)))
        with self.loop(of["last"], of["first"]) as plane:
            channel = self.remainder(plane, of["groups"])
            weight = self.add(self.w, self.scale(channel, len(self.taps) * self.size))
            self.bias = self.add(self.b, self.scale(channel, self.size)) if shape.bias else ""
            self.weights = {tap: self.add(weight, n * self.size) for n, tap in enumerate(self.taps)}
            if len(self.taps) <= _FEW:
                self.weights = {tap: self.broadcast(address) for tap, address in self.weights.items()}
            x, y = (self.add(at, self.scale(plane, of[step])) for at, step in ((self.x, "plane"), (self.y, "y_row")))
            with finishing(self, shape.finish, self.target, [channel], self.arrays) as self.finish:
                self._plane(x, y)
        self.leave(0)
        return self.text()

    def _vectors(self) -> Word:
        """The number of vectors in a row of the image."""
        return self.quotient(self.add(self.of["line"], self.bytes - 1), self.bytes)

    def _plane(self, x: Word, y: Word) -> None:
        of, rows = self.of, self.shape.rows
        with self.loop(of["columns"]) as number:
            left = self.lesser(self.scale(number, self.lanes), of["last_column"])
            column = self.sub(self.scale(left, self.shape.stride[1]), of["before"])
            masks = [self._within(self.add(column, first)) for first in self._loads]
            target = self.add(y, self.scale(left, self.size))
            with self.loop(of["blocks"]) as block:
                top = self.lesser(self.scale(block, rows), of["last_row"])
                self._rows_from(x, top, self.scale(column, self.size), masks, target)

    @property
    def _loads(self) -> range:
        """The columns of the kernel from which on lanes are loaded."""
        return range(0, self.shape.kernel[1], self.shape.stride[1])

    def _within(self, column: Word) -> Word:
        """The lanes of a load, the first of which is at a column of the image, that are within the image."""
        lanes = str(self.lanes * self.shape.stride[1])
        low = self.lesser(self.choose(self.less(column, 0), self.sub("0", column), 0), lanes)
        high = self.lesser(self.sub(self.of["width"], column), lanes)
        high = self.choose(self.less(high, 0), 0, high)
        below, up_to = (self.sub(self.shifted(1, count), 1) for count in (low, high))
        return self.mask(self.both(up_to, self._emit(f"xor i64 {below}, -1")), int(lanes))

    def _rows_from(self, x: Word, top: Word, column: Word, masks: list[Word], target: Word) -> None:
        """Some rows of the result, from `top` on."""
        of, (down, across), rows = self.of, self.shape.kernel, self.shape.rows
        step = self.shape.stride[0]
        first = self.sub(self.scale(top, step), of["above"])
        sums = ["zeroinitializer"] * rows
        for line in range((rows - 1) * step + down):
            met = [(r, line - r * step) for r in range(rows) if 0 <= line - r * step < down]
            seen = self._seen(x, self.add(first, line), column, masks) if met else []
            for r, i in met:
                for j in range(across):
                    sums[r] = self.multiply_add(self._weight(i, j), seen[j], sums[r])
        for r, value in enumerate(sums):
            place = self.add(target, self.scale(self.add(top, r), of["y_line"]))
            self._put(self.biased(value, self.bias, self.shape.relu), place)

    def _seen(self, x: Word, row: Word, column: Word, masks: list[Word]) -> list[Vector]:
        """The values of a row of the image that each column of the kernel meets."""
        inside = self.within(row, self.of["height"])
        line = self.choose(inside, self.add(x, self.scale(row, self.of["line"])), self.scratch)
        stride, start = self.shape.stride[1], self.add(line, column)
        wide = self.lanes * stride
        nothing = f"<{', '.join([f'{self.element} 0.0'] * wide)}>"
        found = []
        for first, mask in zip(self._loads, masks, strict=True):
            value = self.masked_load(self.add(start, first * self.size), mask, nothing, wide)
            each = [value] if stride == 1 else [self.shuffle(value, value, range(n, wide, 2), wide) for n in (0, 1)]
            found += each
        return found

    def _weight(self, i: int, j: int) -> Vector:
        return self.weights[i, j] if len(self.taps) <= _FEW else self.broadcast(self.weights[i, j])

    def _put(self, value: Vector, place: Word) -> None:
        mask = ""
        if self.shape.narrow:
            lanes = self.quotient(self.of["y_line"], self.size)
            mask = self.mask(self.sub(self.shifted(1, lanes), 1))
        if self.finish:
            value = self.finish.finished(0, value, self.beside(place, mask))
        if mask:
            self.masked_store(value, place, mask)
        else:
            self.store(value, place)
