"""The gradients of attention in tiles: without a matrix of weights in memory, and the same bits in every run.

Comes after `gpu.attention_tiles`; `gradient_kernels` makes the kernels.

Note [Weights computed again]
    The forward keeps of each query the logsumexp L of its scores; with it weights need no second pass over a row. With
    g the gradient of the result and D = rowsum(g * out) - the gradient of L, which comes with the operands:

        p = exp(scale * q @ k.T + mask - L)                    weights: 64 queries, 64 keys
        s = p * (g @ v.T - D)                                  the gradient of the scores
        by_v, by_k, by_q = p.T @ g, scale * s.T @ q, scale * s @ k

    A block has 64 rows of a gradient, and 64 columns. By queries it goes along the keys, and by keys along the queries,
    both 64 at a time, so no two blocks add to one element: nothing is atomic, and sums have one order. `by_k` and
    `by_v` are one kernel where they have equally many columns. Sums are float32; where factors have 16 bits, so have p
    and s when they are multiplied, for the tensor cores. What a query does not see has the score -inf: p and s are 0.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

from jit.ir.dtypes import DType, float32

from ..kernels.nest import Access, Buffer, Local, Nest, NestStep, Reduce
from ..kernels.schedule import Loops
from ..llvm.build import Register
from ..llvm.lowering import NestLowering
from ..llvm.values import LaneValue
from ..targets.target import Target
from .attention_tiles import TURN, AttentionTiles, attention_grid, mask_strides, no_body
from .contraction import Contraction, ProductGrid
from .device import DeviceKernel
from .lowering import GridLowering
from .product_machine import TilePair
from .staging import StagedFactor

Operands = Mapping[str, Buffer]
"""The layouts of what gradients are computed from, by the names of the operator's arguments and in their order: "grad",
"query", "key", "value", "logsumexp", "rowsum", which is D in Note [Weights computed again], and perhaps "attn_mask"."""
GRADIENTS = ("query", "key", "value")
"""The operands that there are gradients by."""
BY_QUERY = ("query",)
"""The gradient whose kernel goes along the keys."""
_LOOPS = ("rows", "columns", "others", "inner", "values")
"""The loops of a nest of gradients behind its batch: those of the results, the places on the other side, and the
columns of queries and of values, along which scores and their gradients are summed up."""
_WEIGHED = {"query": "key", "key": "query", "value": "grad"}
"""The factor that is weighed, by gradient."""


def kernels_of(wanted: Sequence[str], alike: bool) -> list[tuple[str, ...]]:
    """The gradients of each kernel, of those that are wanted; `alike` says if keys and values have equal columns."""
    by_keys = tuple(name for name in GRADIENTS[1:] if name in wanted)
    found = [BY_QUERY] if "query" in wanted else []
    return [*found, *([by_keys] if by_keys and alike else [(name,) for name in by_keys])]


def _gradient_nest(names: tuple[str, ...], operands: Operands, outs: Sequence[Buffer], scale: float) -> Nest:
    """The maps of a kernel: of the gradient by queries, or of those by keys and values.

    Its first step is none that loops could run: `GradientMachine` computes what it stands for. It reads both factors of
    the scores, both of the weights' gradient - those of the rows first -, logsumexp and D, for each result the factor
    that is weighed, and the mask.
    """
    others, inner, values = (operands[name].sizes for name in ("key" if names == BY_QUERY else "query", "key", "value"))
    extents = (*outs[0].sizes, others[-2], inner[-1], values[-1])
    sums = tuple(Reduce("sum", (number,), float32) for number in range(len(names)))
    steps = [NestStep(tuple(_reads(names, operands)), sums, no_body)]
    for number, (name, out) in enumerate(zip(names, outs, strict=True)):
        body = _stored(1.0 if name == "value" else scale, out.dtype)
        steps.append(NestStep((Local(number),), (Access(number, (*out.strides, 0, 0, 0)),), body, inner=False))
    title = "attention_by_" + "_and_".join(names)
    return Nest(extents, tuple(operands.values()), tuple(outs), tuple(steps), 3, title)


def _stored(factor: float, dtype: DType) -> Callable[..., Any]:
    return lambda m, x: m.cast(x if factor == 1 else x * factor, dtype)


def _reads(names: tuple[str, ...], operands: Operands) -> Iterator[Access]:
    """The maps of the first step; see `_gradient_nest`."""
    numbers = {name: number for number, name in enumerate(operands)}
    sides = {"query": "rows", "key": "others"} if names == BY_QUERY else {"query": "others", "key": "rows"}
    side_of = {"query": sides["query"], "grad": sides["query"], "key": sides["key"], "value": sides["key"]}

    def access(name: str, batch: Sequence[int], **strides: int) -> Access:
        return Access(numbers[name], (*batch, *(strides.get(loop, 0) for loop in _LOOPS)))

    def factor(name: str, terms: str) -> Access:
        *batch, place, column = operands[name].strides
        return access(name, batch, **{side_of[name]: place, terms: column})

    for pair, terms in ((("query", "key"), "inner"), (("grad", "value"), "values")):
        yield from (factor(name, terms) for name in sorted(pair, key=lambda name: side_of[name] == "others"))
    for name in ("logsumexp", "rowsum"):
        *batch, place = operands[name].strides
        yield access(name, batch, **{sides["query"]: place})
    yield from (factor(_WEIGHED[name], "columns") for name in names)
    if "attn_mask" in operands:
        batch, query, key = mask_strides(operands["attn_mask"], len(operands["query"].sizes))
        yield access("attn_mask", batch, **{sides["query"]: query, sides["key"]: key})


def gradient_kernel(
    names: tuple[str, ...], operands: Operands, outs: Sequence[Buffer], target: Target, scale: float, causal: bool
) -> DeviceKernel:
    """The kernel of some gradients for a GPU; CompileError if it has no tiles, or the dtype is not one of theirs."""
    nest = _gradient_nest(names, operands, outs, scale)
    rank = len(nest.extents) - 3
    grid = attention_grid(nest.extents, rank, operands["query"].dtype, target)
    maps = (*nest.reads, *nest.writes)
    loops = Loops(nest.extents, tuple(map.strides for map in maps), 3, rank - 1)
    machine = GradientMachine(nest, loops, grid, target, scale, causal, names)
    return DeviceKernel(nest, loops, grid, GridLowering(nest, loops, 1, machine).function(), target)


class GradientMachine(AttentionTiles):
    """A GPU that computes gradients of an attention.

    Args:
        nest: Its maps.
        loops: Its loops.
        grid: Its blocks.
        target: The GPU.
        scale: What scores are multiplied by.
        causal: Whether a query sees no keys behind its own place.
        names: What the gradients are by.
    """

    def __init__(
        self, nest: Nest, loops: Loops, grid: ProductGrid, target: Target, scale: float, causal: bool,
        names: tuple[str, ...],
    ) -> None:  # fmt: skip
        (*batch, row, column, other, inner, values), step = range(len(nest.extents)), nest.steps[0]
        left, right, by_left, by_right, *rest = (read for read in step.reads if isinstance(read, Access))
        weighed, masks = rest[2 : 2 + len(names)], rest[2 + len(names) :]
        dtype = nest.inputs[left.buffer].dtype
        product = Contraction(step, left, weighed[0], tuple(batch), (row,), (column,), (other,), dtype)
        self.names, self.by_query, self.other_loop = names, names == BY_QUERY, other
        sides = (row, other) if self.by_query else (other, row)
        super().__init__(nest, loops, grid, target, product, sides, masks, scale, causal)
        self.scores = self.pair(left, right, (row, other), inner)
        self.by_weights = self.pair(by_left, by_right, (row, other), values)
        self.of_queries = rest[:2]
        """The maps of logsumexp and D."""
        self.told: dict[tuple[Access, Register], LaneValue] = {}
        """The numbers that have been loaded by those maps, by query."""
        self.weighed = [StagedFactor(self, access, ((column,), (other,)), TURN) for access in weighed]
        self.multipliers = [self.multiplier_of(self.weights, factor) for factor in self.weighed]
        self.multiplier = self.multipliers[0]
        self.finished = 0
        """The gradient that is being stored."""

    def _shared_memory(self) -> list[str]:
        sums = self.tile.rows_at_once * (self.tile.columns + 1) * self.product.total.itemsize
        size = max(sums, self.scores.bytes, self.by_weights.bytes, *map(self.mixing_bytes, self.weighed))
        return [f"@shared = internal addrspace(3) global [{size} x i8] poison, align 16"]

    def _compute(self, lowering: NestLowering) -> None:
        """The tiles of the gradients; see Note [Weights computed again]."""
        if self.by_query:
            for query, _ in self._places(self.first_row, _number(0)):
                self._logsumexp(query), self._rowsum(query)
        zeros = [zero for multiplier in self.multipliers for zero in multiplier.zeros()]
        with self.builder.loop(*self._turns(), TURN, zeros) as turn:
            weights, by_scores = self._weigh(turn.index)
            for name, factor, multiplier, sums in zip(
                self.names, self.weighed, self.multipliers, self._of_each(turn.carried), strict=True
            ):
                self._share(weights if name == "value" else by_scores)
                turn.following += self.mixed(factor, multiplier, turn.index, sums)
        for number, sums in enumerate(self._of_each(turn.results)):
            self.finished = number
            self._finish(lowering, sums)

    def _of_each(self, sums: Sequence[Register]) -> list[Sequence[Register]]:
        """The sums of each gradient."""
        count = len(sums) // len(self.names)
        return [sums[start : start + count] for start in range(0, len(sums), count)]

    def _turns(self) -> tuple[Register, Register]:
        """(the first place on the other side, the end of those) that some row of the tile meets."""
        stop = self.memory.number("extent", self.other_loop)
        if not self.causal:
            return _number(0), stop
        if not self.by_query:
            return self.first_row, stop
        return _number(0), self.builder.call("i64", "llvm.smin.i64", stop, self._sum(self.first_row, _number(TURN)))

    # -- weights ---------------------------------------------------------------------------------------------------

    def _weigh(self, first: Register) -> tuple[list[LaneValue], list[LaneValue]]:
        """(the weights, the gradients of the scores) of a tile: as many of each as a thread has sums."""
        scores, weights, by_scores = self._summed(self.scores, first), [], []
        for (own, other), score in zip(self._places(self.first_row, first), scores, strict=True):
            query, key = (own, other) if self.by_query else (other, own)
            weights.append(self.math.exp(self.seen(score, query, key) - self._logsumexp(query)))
        if self.names == ("value",):
            return weights, []
        by_weights, places = self._summed(self.by_weights, first), self._places(self.first_row, self.anew(first))
        for (own, other), weight, by_weight in zip(places, weights, by_weights, strict=True):
            by_scores.append(weight * (by_weight - self._rowsum(own if self.by_query else other)))
        return weights, by_scores

    def _places(self, row: Register, column: Register) -> list[tuple[Register, Register]]:
        """The row and the column of each sum of a tile that begins at these."""
        first_row, first_column = map(self._sum, self.multiplier.first_place(), (row, column))
        steps = [tuple(map(_number, step)) for step in self.multiplier.steps()]
        return [(self._sum(first_row, down), self._sum(first_column, across)) for down, across in steps]

    def _summed(self, pair: TilePair, first: Register) -> list[LaneValue]:
        """The sums of a tile of scores, or of the weights' gradient."""
        (terms,) = pair.left.terms
        extent = self.memory.number("extent", terms)
        with self.afresh() as start:
            sums = pair.summed(start, (self.anew(self.first_row), self.anew(first)), extent)
        return [self.math.value(float32, sum) for sum in sums]

    def _logsumexp(self, query: Register) -> LaneValue:
        return self._told(self.of_queries[0], query)

    def _rowsum(self, query: Register) -> LaneValue:
        return self._told(self.of_queries[1], query)

    def _told(self, access: Access, query: Register) -> LaneValue:
        """A number of a query, loaded where it is asked for first."""
        if (access, query) not in self.told:
            (self.told[access, query],) = self.at([access], {self.query_loop: query})
        return self.told[access, query]

    def _share(self, weights: Sequence[LaneValue]) -> None:
        """Write a thread's part of a tile of weights: of one line, or neighbours, at numbers known in advance."""
        first = self.weight_address(*self.multiplier.first_place())
        pitch, itemsize = self.weights.pitch, self.weights.itemsize
        for (down, across), weight in zip(self.multiplier.steps(), weights, strict=True):
            elements = down * pitch + across if self.weights.lines_of_terms else across * pitch + down
            self.share_weight(self.shared_at(first, _number(elements * itemsize)), weight)

    # -- results ---------------------------------------------------------------------------------------------------

    def _follow(self, lowering: NestLowering, value: LaneValue) -> None:
        """Store an element of the gradient that is being stored."""
        lowering.rows[self.finished, 0] = value
        lowering.written = self.finished
        lowering.step(self.nest.steps[1 + self.finished])


def _number(value: int) -> Register:
    return Register(str(value), "i64")
