"""Attention in tiles: softmax(scale * q @ k.T + mask) @ v, without the matrix of scores in memory.

Comes after `gpu.attention_tiles`; `attention_kernel` makes the kernel. The gradients are `gpu.attention_backward`'s.

Note [Softmax in passing]
    A block has 64 queries and 64 columns of the result. It goes along the keys, 64 at a time, and knows of each query
    the largest score m so far, the sum l of exp(score - m), and the sums o of exp(score - m) * v. Larger scores later
    on make all of that smaller by a factor, which is the only thing that passes from row to column:

        for each 64 keys:
            s = scale * q @ k.T + mask                  a product of tiles; to shared memory
            m', p = max(m, s), exp(s - m')              neighbouring threads share a row of s
            l, o = l * exp(m - m') + sum(p), o * exp(m - m') + p @ v
        out, logsumexp = o / l, m + log(l)

    Scores of keys that a query does not see are -inf; a query that sees none gets zeros. Its logsumexp is inf, so that
    the weights exp(score - logsumexp), which gradients compute again, are zeros, too. Sums are float32; where factors
    have 16 bits, so has p, for the tensor cores.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

from jit.ir.dtypes import float32

from ..kernels.nest import Access, Buffer, Local, Nest, NestStep, Reduce
from ..kernels.schedule import Loops
from ..llvm.build import Register
from ..llvm.lowering import NestLowering
from ..llvm.reduce import MONOIDS
from ..targets.target import Target
from .attention_tiles import TURN, AttentionTiles, attention_grid, mask_strides, no_body
from .contraction import Contraction, ProductGrid
from .device import DeviceKernel
from .lowering import GridLowering
from .staging import StagedFactor
from .tile_machine import SHARED


def attention_nest(
    q: Buffer, k: Buffer, v: Buffer, mask: Buffer | None, out: Buffer, logsumexp: Buffer, name: str = "attention"
) -> Nest:
    """The maps of an attention; batches of equal sizes, of which a mask may lack some or have one alone.

    Its loops are the batch, queries, columns of the result, keys, and columns of queries and keys. The first step is
    none that loops could run: `AttentionMachine` computes what it stands for, and stores `logsumexp`, row-major.
    """
    *batch, queries, columns = out.sizes
    extents = (*batch, queries, columns, k.sizes[-2], q.sizes[-1])
    (*qb, ql, qe), (*kb, ks, ke), (*vb, vs, vc), (*ob, ol, oc) = q.strides, k.strides, v.strides, out.strides
    reads = [Access(0, (*qb, ql, 0, 0, qe)), Access(1, (*kb, 0, 0, ks, ke)), Access(2, (*vb, 0, vc, vs, 0))]
    inputs = [q, k, v]
    if mask is not None:
        mb, ml, ms = mask_strides(mask, len(out.sizes))
        reads.append(Access(3, (*mb, ml, 0, ms, 0)))
        inputs.append(mask)
    steps = (
        NestStep(tuple(reads), (Reduce("sum", (0,), float32),), no_body),
        NestStep((Local(0),), (Access(0, (*ob, ol, oc, 0, 0)),), lambda m, x: m.cast(x, out.dtype), inner=False),
    )
    return Nest(extents, tuple(inputs), (out, logsumexp), steps, 2, name)


def attention_kernel(nest: Nest, target: Target, scale: float, causal: bool) -> DeviceKernel:
    """The kernel of an attention for a GPU; CompileError if it has no tiles, or the dtype is not one of theirs."""
    rank = len(nest.extents) - 2
    grid = attention_grid(nest.extents, rank, nest.inputs[0].dtype, target)
    maps = (*nest.reads, *nest.writes)
    loops = Loops(nest.extents, tuple(map.strides for map in maps), 2, rank - 1)
    machine = AttentionMachine(nest, loops, grid, target, scale, causal)
    return DeviceKernel(nest, loops, grid, GridLowering(nest, loops, 1, machine).function(), target)


class AttentionMachine(AttentionTiles):
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
        step, count = nest.steps[0], len(nest.extents)
        batch, row, column, key, inner = tuple(range(count - 4)), count - 4, count - 3, count - 2, count - 1
        q, k, v, *masks = (read for read in step.reads if isinstance(read, Access))
        product = Contraction(step, q, v, batch, (row,), (column,), (key,), nest.inputs[0].dtype)
        super().__init__(nest, loops, grid, target, product, (row, key), masks, scale, causal)
        self.values = StagedFactor(self, v, ((column,), (key,)), TURN)
        self.scores = self.pair(q, k, (row, key), inner)
        self.multiplier = self.multiplier_of(self.weights, self.values)
        self.inner_loop = inner
        self.first_sum = max(self.scores.bytes, self.mixing_bytes(self.values))
        self.of_rows = self.first_sum + TURN * (TURN + 1) * float32.itemsize
        """The byte of shared memory where a number of each row is told."""
        self.shared_row = self._quotient(self.grid.group)
        """The row of scores that this thread shares with its group."""

    def _shared_memory(self) -> list[str]:
        size = self.of_rows + TURN * float32.itemsize
        return [f"@shared = internal addrspace(3) global [{size} x i8] poison, align 16"]

    # -- the loop over keys --------------------------------------------------------------------------------------

    def _compute(self, lowering: NestLowering) -> None:
        """The result's tile; see Note [Softmax in passing]."""
        builder, zeros = self.builder, self.multiplier.zeros()
        least, nothing = (self.math.constant(number, float32).register for number in (-math.inf, 0.0))
        with builder.loop(_number(0), self._last_key(), TURN, [least, nothing, *zeros]) as turn:
            top, total, *sums = turn.carried
            self._score(turn.index)
            top, total, shrink = self._weigh(turn.index, top, total)
            self._share_of_row(shrink)
            self.exchange.barrier()
            sums = self.mixed(self.values, self.multiplier, turn.index, self._times_rows(sums))
            turn.following = [top, total, *sums]
        self._store_logsumexp(*turn.results[:2])
        self._share_of_row(self._inverse(turn.results[1]))
        self.exchange.barrier()
        self._finish(lowering, self._times_rows(turn.results[2:]))

    def _last_key(self) -> Register:
        """The keys that some query of the tile sees."""
        keys = self.memory.number("extent", self.key_loop)
        if not self.causal:
            return keys
        return self.builder.call("i64", "llvm.smin.i64", keys, self._sum(self.first_row, _number(TURN)))

    def _score(self, first_key: Register) -> None:
        """The scores of these keys, to shared memory."""
        terms = self.memory.number("extent", self.inner_loop)
        with self.afresh() as start:
            sums = self.scores.summed(start, (self.anew(self.first_row), self.anew(first_key)), terms)
        self.scores.multiplier.share(sums, _number(0))
        self.exchange.barrier()

    # -- a row of scores -----------------------------------------------------------------------------------------

    def _weigh(self, first_key: Register, top: Register, total: Register) -> tuple[Register, Register, Register]:
        """(the largest score, the sum of weights, what earlier sums shrink by), with these keys' weights shared."""
        builder, m, group = self.builder, self.math, self.grid.group
        row = self._sum(self.first_row, self.shared_row)
        with builder.loop(_number(0), _number(TURN), group, [top]) as turn:
            key = self._sum(turn.index, self.member)
            score = self.seen(self._shared_sum(self.shared_row, key), row, self._sum(first_key, key))
            builder.write(f"store {score.register}, {self.sum_address(self.shared_row, key)}", builder.depth)
            turn.following = [m.maximum(m.value(float32, turn.carried[0]), score).register]
        largest = self._across_threads(MONOIDS["max"], [m.value(float32, turn.results[0])])[0]
        base = m.where(largest == -math.inf, m.constant(0, float32), largest)
        shrink = m.exp(m.value(float32, top) - base)
        with builder.loop(_number(0), _number(TURN), group, [m.constant(0, float32).register]) as turn:
            key = self._sum(turn.index, self.member)
            weight = m.exp(self._shared_sum(self.shared_row, key) - base)
            self.share_weight(self.weight_address(self.shared_row, key), weight)
            turn.following = [(m.value(float32, turn.carried[0]) + weight).register]
        added = self._across_threads(MONOIDS["sum"], [m.value(float32, turn.results[0])])[0]
        return largest.register, (m.value(float32, total) * shrink + added).register, shrink.register

    def _inverse(self, total: Register) -> Register:
        """1 / the sum of weights; of none, 0."""
        m = self.math
        value = m.value(float32, total)
        return m.where(value == 0, m.constant(0, float32), m.constant(1, float32) / value).register

    def _store_logsumexp(self, top: Register, total: Register) -> None:
        """Store log(sum(exp(score))) of each row, or inf; once, by the block of the first columns."""
        builder, m, row = self.builder, self.math, self._sum(self.first_row, self.shared_row)
        largest, sum_of_powers = m.value(float32, top), m.value(float32, total)
        found = m.where(sum_of_powers == 0, m.constant(math.inf, float32), largest + m.log(sum_of_powers))
        offset = self._product(self._number_of(row), _number(float32.itemsize))
        start = self.memory.pointer(len(self.nest.inputs) + 1)
        address = builder.emit("ptr", f"getelementptr i8, {start}, {offset}", start, offset)
        inside = builder.compare("icmp slt", row, self.memory.number("extent", self.query_loop))
        for number in (self.member, self.first_column):
            inside = builder.binary("and", inside, builder.compare("icmp eq", number, _number(0)))
        builder.when(inside, lambda: builder.write(f"store {found.register}, {address}", builder.depth), builder.depth)

    def _number_of(self, row: Register) -> Register:
        """The number of a row of the result among those of all matrices."""
        memory, number = self.memory, _number(0)
        for loop in (*self.product.batch, self.query_loop):
            index = row if loop == self.query_loop else memory.indices[loop]
            number = self._sum(self._product(number, memory.number("extent", loop)), index)
        return number

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
        builder, known, found = self.builder, dict[int, Register](), []
        first, _ = self.multiplier.first_place()
        for (step, _), value in zip(self.multiplier.steps(), sums, strict=True):
            if step not in known:
                address = self._row_address(self._sum(first, _number(step)))
                known[step] = Register(f"%{builder.name()}", "float", builder.depth)
                builder.write(f"{known[step].text} = load float, {address}", builder.depth)
            found.append(builder.binary("fmul", value, known[step]))
        return found


def _number(value: int) -> Register:
    return Register(str(value), "i64")
