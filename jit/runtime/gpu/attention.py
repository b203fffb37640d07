"""Attention in tiles: softmax(scale * q @ k.T + mask) @ v, without the matrix of scores in memory.

Comes beside `gpu.product_machine`, whose tiles and multipliers it uses; `attention_kernel` makes the kernel.

Note [Softmax in passing]
    A block has 64 queries and 64 columns of the result. It goes along the keys, 64 at a time, and knows of each query
    the largest score m so far, the sum l of exp(score - m), and the sums o of exp(score - m) * v. Larger scores later
    on make all of that smaller by a factor, which is the only thing that passes from row to column:

        for each 64 keys:
            s = scale * q @ k.T + mask                  a product of tiles; to shared memory
            m', p = max(m, s), exp(s - m')              neighbouring threads share a row of s
            l, o = l * exp(m - m') + sum(p), o * exp(m - m') + p @ v
        out = o / l

    Scores of keys that a query does not see are -inf; a query that sees none gets zeros. Sums are float32; where
    factors have 16 bits, so has p, for the tensor cores.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

from jit.ir.dtypes import DType, bool_, float32
from jit.ir.errors import CompileError

from ..kernels.nest import Access, Buffer, Local, Nest, NestStep, Reduce
from ..kernels.schedule import Loops
from ..llvm.build import Register
from ..llvm.lowering import NestLowering
from ..llvm.reduce import MONOIDS
from ..llvm.values import LaneValue
from ..targets.target import Target
from .contraction import FLOAT_TILES, TENSOR_TILES, Contraction, ProductGrid
from .device import DeviceKernel
from .lowering import GridLowering
from .multipliers import TensorCores, ThreadMultiplier
from .product_machine import FollowedMachine, TilePair
from .staging import SharedTile, StagedFactor
from .tile_machine import SHARED

KEYS = 64
"""The keys of a turn, and the rows and columns of a tile."""


def attention_nest(q: Buffer, k: Buffer, v: Buffer, mask: Buffer | None, out: Buffer, name: str = "attention") -> Nest:
    """The maps of an attention; batches of equal sizes, of which a mask may lack some or have one alone.

    Its loops are the batch, queries, columns of the result, keys, and columns of queries and keys. The first step is
    none that loops could run: `AttentionMachine` computes what it stands for.
    """
    *batch, queries, columns = out.sizes
    extents = (*batch, queries, columns, k.sizes[-2], q.sizes[-1])
    (*qb, ql, qe), (*kb, ks, ke), (*vb, vs, vc), (*ob, ol, oc) = q.strides, k.strides, v.strides, out.strides
    reads = [Access(0, (*qb, ql, 0, 0, qe)), Access(1, (*kb, 0, 0, ks, ke)), Access(2, (*vb, 0, vc, vs, 0))]
    inputs = [q, k, v]
    if mask is not None:
        missing = (0,) * (len(out.sizes) - len(mask.sizes))
        *mb, ml, ms = (*missing, *(0 if n == 1 else s for n, s in zip(mask.sizes, mask.strides, strict=True)))
        reads.append(Access(3, (*mb, ml, 0, ms, 0)))
        inputs.append(mask)
    steps = (
        NestStep(tuple(reads), (Reduce("sum", (0,), float32),), _no_body),
        NestStep((Local(0),), (Access(0, (*ob, ol, oc, 0, 0)),), lambda m, x: m.cast(x, out.dtype), inner=False),
    )
    return Nest(extents, tuple(inputs), (out,), steps, 2, name)


def _no_body(m: Any, *operands: Any) -> Any:
    raise CompileError("attention is no nest of loops; `AttentionMachine` computes it")


def attention_kernel(nest: Nest, target: Target, scale: float, causal: bool) -> DeviceKernel:
    """The kernel of an attention for a GPU; CompileError if it has no tiles, or the dtype is not one of theirs."""
    dialect, dtype = target.family.dialect, nest.inputs[0].dtype
    if dialect is None or dialect.tiles(target.cpu) is None or not (dtype.is_half or dtype is float32):
        raise CompileError(f"{target.cpu} has no attention of {dtype.name} in tiles; compute it in several steps")
    maps = (*nest.reads, *nest.writes)
    loops = Loops(nest.extents, tuple(map.strides for map in maps), 2, len(nest.extents) - 3)
    grid = _grid(nest, dtype)
    machine = AttentionMachine(nest, loops, grid, target, scale, causal)
    return DeviceKernel(nest, loops, grid, GridLowering(nest, loops, 1, machine).function(), target)


def _grid(nest: Nest, dtype: DType) -> ProductGrid:
    tile = (TENSOR_TILES if dtype.is_half else FLOAT_TILES)[-1]
    *batch, queries, columns = nest.extents[:-2]
    down, across = -(-queries // tile.rows), -(-columns // tile.columns)
    blocks, counts = math.prod(batch) * down * across, tuple(nest.extents[:-2])
    group = tile.threads // tile.rows
    return ProductGrid("products", blocks, tile.threads, counts, group, extents=nest.extents, tile=tile, down=down,
                       across=across)  # fmt: skip


class AttentionMachine(FollowedMachine):
    """A GPU that computes an attention.

    Args:
        nest: Its maps.
        loops: Its loops.
        grid: Its blocks.
        target: The GPU.
        scale: What scores are multiplied by.
        causal: Whether a query sees no keys behind its own place.
    """

    def __init__(self, nest: Nest, loops: Loops, grid: ProductGrid, target: Target, scale: float, causal: bool) -> None:
        step = nest.steps[0]
        count, dtype = len(nest.extents), nest.inputs[0].dtype
        (batch, row, column, key, inner) = tuple(range(count - 4)), count - 4, count - 3, count - 2, count - 1
        q, k, v, *masks = (read for read in step.reads if isinstance(read, Access))
        product = Contraction(step, q, v, batch, (row,), (column,), (key,), dtype)
        super().__init__(nest, loops, grid, target, product)
        self.scale, self.causal, self.masks, self.row_loop, self.key_loop = scale, causal, masks, row, key
        queries, keys = (StagedFactor(self, read, ((loop,), (inner,)), KEYS) for read, loop in ((q, row), (k, key)))
        self.values = StagedFactor(self, v, ((column,), (key,)), KEYS)
        self.weights = SharedTile(KEYS, self.tile.depth, dtype.itemsize, self.by_tensor_cores)
        make = TensorCores if self.by_tensor_cores else ThreadMultiplier
        self.scores = TilePair(self, queries, keys, make(self, queries, keys))
        self.multiplier = make(self, self.weights, self.values)
        self.inner_loop = inner
        self.turns = KEYS // self.tile.depth
        """The tiles of values of a turn."""
        self.first_sum = max(self.scores.bytes, self.turns * self.weights.bytes + self.values.bytes)
        self.of_rows = self.first_sum + KEYS * (KEYS + 1) * float32.itemsize
        """The byte of shared memory where a number of each row is told."""
        self.shared_row = self._quotient(self.grid.group)
        """The row of scores that this thread shares with its group."""

    def _shared_memory(self) -> list[str]:
        size = self.of_rows + KEYS * float32.itemsize
        return [f"@shared = internal addrspace(3) global [{size} x i8] poison, align 16"]

    # -- the loop over keys --------------------------------------------------------------------------------------

    def _compute(self, lowering: NestLowering) -> None:
        """The result's tile; see Note [Softmax in passing]."""
        builder, zeros = self.builder, self.multiplier.zeros()
        least, nothing = (self.math.constant(number, float32).register for number in (-math.inf, 0.0))
        with builder.loop(_number(0), self._last_key(), KEYS, [least, nothing, *zeros]) as turn:
            top, total, *sums = turn.carried
            self._score(turn.index)
            top, total, shrink = self._weigh(turn.index, top, total)
            self._share_of_row(shrink)
            self.exchange.barrier()
            turn.following = [top, total, *self._mixed(turn.index, self._times_rows(sums))]
        self._share_of_row(self._inverse(turn.results[1]))
        self.exchange.barrier()
        self._finish(lowering, self._times_rows(turn.results[2:]))

    def _last_key(self) -> Register:
        """The keys that some query of the tile sees."""
        keys = self.memory.number("extent", self.key_loop)
        if not self.causal:
            return keys
        return self.builder.call("i64", "llvm.smin.i64", keys, self._sum(self.first_row, _number(KEYS)))

    def _score(self, first_key: Register) -> None:
        """The scores of these keys, to shared memory."""
        terms = self.memory.number("extent", self.inner_loop)
        sums = self.scores.summed(Register("@shared", SHARED), (self.first_row, first_key), terms)
        self.scores.multiplier.share(sums, _number(0))
        self.exchange.barrier()

    def _mixed(self, first_key: Register, sums: Sequence[Register]) -> list[Register]:
        """The sums with the weighted values of these keys."""
        start, found = Register("@shared", SHARED), list(sums)
        place = self.shared_at(start, _number(self.turns * self.weights.bytes))
        for turn in range(self.turns):
            self.values.stage(self.first_column, self._sum(first_key, _number(turn * self.tile.depth)), place)
            self.instructions.commit(self.builder)
            self.instructions.wait(self.builder, 0)
            self.exchange.barrier()
            weights = self.shared_at(start, _number(turn * self.weights.bytes))
            found = self.multiplier.multiplied(weights, place, found)
            self.exchange.barrier()
        return found

    # -- a row of scores -----------------------------------------------------------------------------------------

    def _weigh(self, first_key: Register, top: Register, total: Register) -> tuple[Register, Register, Register]:
        """(the largest score, the sum of weights, what earlier sums shrink by), with these keys' weights shared."""
        builder, m, group = self.builder, self.math, self.grid.group
        with builder.loop(_number(0), _number(KEYS), group, [top]) as turn:
            key = self._sum(turn.index, self.member)
            score = self._seen(key, self._sum(first_key, key))
            builder.write(f"store {score.register}, {self.sum_address(self.shared_row, key)}", builder.depth)
            turn.following = [m.maximum(m.value(float32, turn.carried[0]), score).register]
        largest = self._across_threads(MONOIDS["max"], [m.value(float32, turn.results[0])])[0]
        base = m.where(largest == -math.inf, m.constant(0, float32), largest)
        shrink = m.exp(m.value(float32, top) - base)
        with builder.loop(_number(0), _number(KEYS), group, [m.constant(0, float32).register]) as turn:
            key = self._sum(turn.index, self.member)
            weight = m.exp(self._shared_sum(self.shared_row, key) - base)
            self._share_weight(key, weight)
            turn.following = [(m.value(float32, turn.carried[0]) + weight).register]
        added = self._across_threads(MONOIDS["sum"], [m.value(float32, turn.results[0])])[0]
        return largest.register, (m.value(float32, total) * shrink + added).register, shrink.register

    def _seen(self, key: Register, place: Register) -> LaneValue:
        """The score of a key of the tile, which is at a place among all; -inf if the query does not see it."""
        builder, m, keys = self.builder, self.math, self.memory.number("extent", self.key_loop)
        score, row = self._shared_sum(self.shared_row, key) * self.scale, self._sum(self.first_row, self.shared_row)
        seen = builder.compare("icmp slt", place, keys)
        if self.causal:
            seen = builder.binary("and", seen, builder.compare("icmp sle", place, row))
        for mask in self.masks:
            rows = self.memory.number("extent", self.row_loop)
            self.memory.indices |= {self.row_loop: self._at_most(row, rows), self.key_loop: self._at_most(place, keys)}
            (value,) = self.memory.load([mask])
            if value.dtype is bool_:
                seen = builder.binary("and", seen, value.register)
            else:
                score = score + m.cast(value, float32)
        return m.where(m.value(bool_, seen), score, m.constant(-math.inf, float32))

    def _share_weight(self, key: Register, weight: LaneValue) -> None:
        """A weight to its tile, in the dtype of the factors."""
        builder, dtype, depth = self.builder, self.product.dtype, self.tile.depth
        tile, term = builder.binary("udiv", key, _number(depth)), builder.binary("urem", key, _number(depth))
        line, within = (self.shared_row, term) if self.weights.lines_of_terms else (term, self.shared_row)
        element = self._sum(self._product(line, _number(self.weights.pitch)), within)
        offset = self._sum(
            self._product(tile, _number(self.weights.bytes)), self._product(element, _number(dtype.itemsize))
        )
        encoded = self.memory.encoded(self.math.cast(weight, dtype))
        address = self.shared_at(Register("@shared", SHARED), offset)
        builder.write(f"store {encoded}, {address}", builder.depth)

    def _inverse(self, total: Register) -> Register:
        """1 / the sum of weights; of none, 0."""
        m = self.math
        value = m.value(float32, total)
        return m.where(value == 0, m.constant(0, float32), m.constant(1, float32) / value).register

    # -- a number for each row -----------------------------------------------------------------------------------

    def _row_address(self, row: Register) -> Register:
        start = self.shared_at(Register("@shared", SHARED), _number(self.of_rows))
        return self.shared_at(start, self._product(row, _number(float32.itemsize)))

    def _share_of_row(self, value: Register) -> None:
        """Tell a number of a row to the threads that hold its sums."""
        builder, depth = self.builder, self.builder.depth
        first = builder.compare("icmp eq", self.member, _number(0))
        builder.when(first, lambda: builder.write(f"store {value}, {self._row_address(self.shared_row)}", depth), depth)

    def _times_rows(self, sums: Sequence[Register]) -> list[Register]:
        """Sums, each multiplied by the number of its row."""
        builder, known, found = self.builder, dict[Register, Register](), []
        for row, value in zip(self.multiplier.rows_of(), sums, strict=True):
            if row not in known:
                known[row] = Register(f"%{builder.name()}", "float", builder.depth)
                builder.write(f"{known[row].text} = load float, {self._row_address(row)}", builder.depth)
            found.append(builder.binary("fmul", value, known[row]))
        return found


def _number(value: int) -> Register:
    return Register(str(value), "i64")
