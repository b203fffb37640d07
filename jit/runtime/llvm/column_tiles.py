"""Reductions across rows of a wide matrix, with the accumulators in memory, so that the matrix is read as it lies.

Comes beside `lowering`, which holds accumulators in registers.

Note [Tiles]
    A sum over dim 0 of (4096, 4096) has its vectors across rows (Note [Where vectors run]): in registers there is
    room for the accumulators of some 128 columns, and going through all rows with those reads 512 bytes here and
    512 bytes 16 KB further on, at half the bandwidth. So the loop along the lanes is cut into tiles whose accumulators
    stay in the cache, and runs once more inside of the row:

        for tile in columns by 16384:                     for strip in columns by 128:
          acc[0:16384] = 0                                  a0..a7 = 0
          for row in rows:                                  for row in rows:
            for lane in tile by 64:                           a0..a7 += x[row, strip:strip+128]
              acc[lane] += x[row, lane:lane+64]             out[strip:strip+128] = a0..a7
          out[tile] = acc[0:16384]

    Each lane adds the same numbers in the same order either way, so results have the same bits.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager

from jit.ir.dtypes import DType

from ..kernels.nest import Keep, Local, Nest, NestStep, Reduce
from ..kernels.schedule import BLOCK, FIXED, Loops
from .build import Register
from .lowering import NestLowering
from .memory import kept_bytes
from .reduce import AccumulatorChain
from .values import LaneValue

TILE_BYTES = 1 << 16
"""The size of one accumulator: a small part of the L2 cache, and so wide that most matrices are one tile."""
FEWEST_POINTS, FEWEST_TURNS = 128, 16
"""Matrices that are narrower or shorter stay with registers."""
SHORT_STRIDE = 1 << 10
"""Rows that follow each other closer than this, in bytes, are read well enough in strips."""


def is_tiled(nest: Nest, loops: Loops) -> bool:
    """Whether accumulators go to memory: there is one pass, which reduces rows that lie far apart."""
    inner = [step for step in nest.steps if step.inner]
    if loops.along_row or not loops.reduced or loops.jam is not None or len(inner) != 1:
        return False
    if inner[0].scans or nest.row < FEWEST_TURNS or loops.extents[loops.lane] < FEWEST_POINTS:
        return False
    return all(isinstance(r, Reduce) for r in inner[0].results) and _is_far(nest, loops)


def _is_far(nest: Nest, loops: Loops) -> bool:
    """Whether the rows of something that is read are far from each other."""
    steps = (
        abs(loops.strides[number][-1]) * nest.inputs[read.buffer].dtype.itemsize
        for number, read in enumerate(nest.reads)
        if loops.motion(number, loops.lane) != FIXED
    )
    return max(steps, default=0) >= SHORT_STRIDE


class TiledLowering(NestLowering):
    """A function under construction whose accumulators stand in memory, see Note [Tiles]."""

    most_lanes = 64

    def _tile(self) -> int:
        """The number of points of a tile."""
        widest = max(kept_bytes(r.dtype) for step in self.nest.steps for r in step.results if isinstance(r, Reduce))
        return max(TILE_BYTES // (widest * self.width), 1) * self.width

    @contextmanager
    def _loop(self, loop: int) -> Iterator[None]:
        """A parallel loop; that along the lanes goes from tile to tile."""
        if loop != self.loops.lane:
            with super()._loop(loop):
                yield
            return
        stop, size = self.memory.number("extent", loop), self._tile()
        with self.builder.loop(_ZERO, stop, size) as opened:
            end = self.builder.binary("add", opened.index, Register(str(size), "i64"))
            self._first = opened.index
            self._end = self.builder.call("i64", "llvm.smin.i64", end, stop)
            yield

    @contextmanager
    def _vectors(self) -> Iterator[None]:
        """The loop over the vectors of the tile."""
        with self.builder.loop(self._first, self._end, self.width) as opened:
            self.machine.enter(self, self.loops.lane, opened.index, self.memory.number("extent", self.loops.lane))
            yield

    def step(self, step: NestStep) -> None:
        """A loop over the row and the tile, or over the tile alone."""
        if step.inner:
            self._reduce(step, self.loops.parallel, 0, self._chains(step))
        else:
            with self._vectors():
                self._points_of(step, [])
                for result in step.results:
                    if isinstance(result, Keep):
                        self._put((0, result.local), self.rows[result.local, 0])
        self.written += len(step.writes)

    # -- the loops over the row ----------------------------------------------------------------------------------

    def _reduce(self, step: NestStep, loop: int, level: int, chains: list[AccumulatorChain]) -> None:
        """One loop over the row, added to the accumulators of `level`, which begin anew."""
        with self._vectors():
            self._leave(level, chains, [v for chain in chains for v in chain.neutral])
        stop = self.memory.number("extent", loop)
        last = loop == len(self.loops.extents) - 1
        if not last or not self._is_blocked(chains, self.loops.extents[loop], 1):
            self._row_turns(step, loop, level, chains, _ZERO, stop)
            return
        with self.builder.loop(_ZERO, stop, BLOCK) as blocks:
            end = self.builder.binary("add", blocks.index, Register(str(BLOCK), "i64"))
            with self._vectors():
                self._leave(level + 1, chains, [v for chain in chains for v in chain.neutral])
            bounded = self.builder.call("i64", "llvm.smin.i64", end, stop)
            self._row_turns(step, loop, level + 1, chains, blocks.index, bounded)
            self._join(level, chains)

    def _row_turns(
        self, step: NestStep, loop: int, level: int, chains: list[AccumulatorChain], start: Register, stop: Register
    ) -> None:
        with self.builder.loop(start, stop, 1) as opened:
            self.machine.enter(self, loop, opened.index, self.memory.number("extent", loop))
            if loop == len(self.loops.extents) - 1:
                with self._vectors():
                    found = self._points_of(step, self._taken(level, chains))
                    self._leave(level, chains, [v for values in self.values(chains, found) for v in values])
            else:
                self._reduce(step, loop + 1, level + 1, chains)
                self._join(level, chains)

    def _join(self, level: int, chains: list[AccumulatorChain]) -> None:
        """Add the accumulators of the next level to those of this one."""
        with self._vectors():
            before, after = self._taken(level, chains), self._taken(level + 1, chains)
            joined = [c.monoid.join(self.math, a, b) for c, a, b in zip(chains, before, after, strict=True)]
            self._leave(level, chains, [v for values in joined for v in values])

    # -- what stands in memory -----------------------------------------------------------------------------------

    def _points_of(self, step: NestStep, accumulators: list[list[LaneValue]]) -> list[Register]:
        """The body for the current vector, with what earlier steps left for it."""
        for operand in step.reads:
            if isinstance(operand, Local):
                self.rows[operand.number, 0] = self._get((0, operand.number), self._dtype_of(operand.number))
        return self.points(step, accumulators)

    def _dtype_of(self, local: int) -> DType:
        return self.rows[local, 0].dtype

    def _taken(self, level: int, chains: Sequence[AccumulatorChain]) -> list[list[LaneValue]]:
        found = []
        for chain in chains:
            places = zip(self._locals(chain), chain.neutral, strict=True)
            found.append([self._get((level, local), start.dtype) for local, start in places])
        return found

    def _leave(self, level: int, chains: Sequence[AccumulatorChain], values: Sequence[LaneValue]) -> None:
        for local, value in zip((n for chain in chains for n in self._locals(chain)), values, strict=True):
            self._put((level, local), value)
            self.rows[local, 0] = value

    def _locals(self, chain: AccumulatorChain) -> tuple[int, ...]:
        assert isinstance(chain.result, Reduce)
        return chain.result.locals

    def _get(self, key: tuple[int, int], dtype: DType) -> LaneValue:
        return self.memory.fetched(dtype, self._address(key, dtype))

    def _put(self, key: tuple[int, int], value: LaneValue) -> None:
        self.memory.leave(value, self._address(key, value.dtype))

    def _address(self, key: tuple[int, int], dtype: DType) -> Register:
        size = kept_bytes(dtype)
        place = self.builder.binary("sub", self.memory.indices[self.loops.lane], self._first)
        offset = self.builder.binary("mul", place, Register(str(size), "i64"))
        return self.memory.scratch(("tile", *key, size * self._tile()), offset)


_ZERO = Register("0", "i64")
