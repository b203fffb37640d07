"""The lowering of a nest to LLVM IR: explicit loops, and explicit vectors along one of them.

Used by `lower`; `memory` reaches memory, `reduce` combines, a `Machine` writes what machines differ in. The function is

    i32 kernel(ptr data, ptr geometry)

`data` holds the addresses of the buffers, inputs then outputs, then that of a scratch memory if the kernel asks for
one. `geometry` holds the i64 numbers that `LoweredFunction.numbers` names. It returns 0, or the errors that occurred
or'ed together: `division.DIVISION_BY_ZERO` and `llvm.memory.OUT_OF_RANGE`.

Note [Numbers at run time, motions at compile time]
    Extents, offsets and strides are passed, so one function serves all sizes; but whether a map stands still,
    moves to the next element, or jumps along a loop is compiled in, because the code differs: a load before the loop,
    a vector load, or a gather. The function's text is therefore a canonical key of the kernel.

Note [One body, two ways to memory]
    A loop along the lanes takes `width` points at a time, and the last turn may have fewer. Only loads and stores
    differ in that turn (they are masked), so only they are written twice, and the body once:

        loop2:   %i = phi [0, entry], [%next, latch]      br %full, whole, part
        whole:   vector loads                             br join
        part:    masked loads                             br join
        join:    phis; the body                           br %full, store_whole, store_part

Note [The tree of a sum]
    Along a row, 64 lanes of 4 bytes (32 where the body is dear, fewer where numbers are wider) are summed each by
    itself, whatever vectors the machine has: LLVM cuts them into registers. The upper half of the lanes is added to the
    lower until one is left. Across rows, a lane is a row, and adds in the order of the row. Each reduced loop begins
    anew at zero and is added to the loop around it, and a loop of more than `BLOCK` turns is made two: the error then
    grows with 128 and n / 128, not with n. So a sum depends on neither the machine nor the number of threads.
    The terms of a "dot" are added one by one in the order of the row, by fused multiply-adds.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from typing import Any, Protocol

from jit.ir.dtypes import DType, int64
from jit.ir.errors import CompileError

from ..kernels.lanes import LONG
from ..kernels.nest import Access, Keep, Local, Nest, NestScan, NestStep, Operand, Reduce, Result
from ..kernels.schedule import BLOCK, Loops, is_packed
from .build import LLVMBuilder, Register
from .function import LoweredFunction
from .math import LLVMMath
from .memory import NestMemory
from .reduce import MONOIDS, AccumulatorChain, neutral_of
from .values import LaneValue

JAM = 6
"""Rows of a matrix product's result that are computed together."""


class Machine(Protocol):
    """The machine-dependent part of the lowering of a nest: `VectorMachine`, or `GridMachine` for GPUs."""

    @property
    def builder(self) -> LLVMBuilder:
        """The builder that writes the instructions."""

    @property
    def math(self) -> LLVMMath:
        """The namespace in which bodies run."""

    @property
    def memory(self) -> NestMemory:
        """The maps of the nest."""

    def function(self, lowering: NestLowering) -> LoweredFunction:
        """The whole function: how it begins, the steps at their places, how it ends."""

    def enter(self, lowering: NestLowering, loop: int, index: Register, stop: Register) -> None:
        """A turn of `loop` begins at `index`."""

    def begin(self, lowering: NestLowering, step: NestStep) -> None:
        """A step begins."""

    def level(
        self,
        lowering: NestLowering,
        loop: int,
        step: NestStep,
        chains: list[AccumulatorChain],
        initial: Sequence[Register],
    ) -> list[Register] | None:
        """The accumulators behind a loop over the row that the machine writes in its own way; None if it does not."""

    def alone(self, lowering: NestLowering, chain: AccumulatorChain, accumulator: list[LaneValue]) -> list[LaneValue]:
        """The reduced row, from the values of lanes or threads."""

    def scanned(
        self, lowering: NestLowering, scan: NestScan, carried: LaneValue, value: LaneValue
    ) -> tuple[LaneValue, Register]:
        """(the running value of each lane, what the next turn starts from)."""

    def fold_and_store(
        self,
        lowering: NestLowering,
        folds: Sequence[tuple[Reduce, list[LaneValue], list[LaneValue]]],
        stores: Sequence[tuple[int, LaneValue]],
        guard: Register | None,
    ) -> list[list[Register]]:
        """Let values join their accumulators and store others; what the accumulators become."""


class NestLowering:
    """One function under construction."""

    most_lanes = 1 << 10
    """The most lanes that are taken at a time."""

    def __init__(self, nest: Nest, loops: Loops, width: int, machine: Machine) -> None:
        self.nest, self.loops, self.width = nest, loops, width
        self.machine = machine
        self.builder, self.math, self.memory = machine.builder, machine.math, machine.memory
        self.math.calls = nest.cost > LONG and self.builder.width > 1
        self.copies = JAM if loops.jam is not None and self.builder.width > 1 else 1
        self.rows: dict[tuple[int, int], LaneValue] = {}
        """The reduced values: (local, which of the rows computed together) -> value."""
        self.written = 0
        """The number of writes of the steps before."""

    def function(self) -> LoweredFunction:
        """The finished function."""
        return self.machine.function(self)

    # -- loops ---------------------------------------------------------------------------------------------------

    @contextmanager
    def _loop(self, loop: int) -> Iterator[None]:
        """One of the parallel loops."""
        step = self.width if loop == self.loops.lane else self.copies if loop == self.loops.jam else 1
        stop = self.memory.number("extent", loop)
        with self.builder.loop(_ZERO, stop, step) as opened:
            self.machine.enter(self, loop, opened.index, stop)
            yield

    def parallel(self, loop: int, packed: dict[Operand, int]) -> None:
        """Open the parallel loops from `loop` on; the contraction's panels are packed before the loop `jam` opens."""
        if loop == self.loops.parallel:
            for step in self.nest.steps:
                self.step(replace(step, reads=tuple(self._replaced(o, packed) for o in step.reads)))
            return
        if loop == self.loops.jam:
            copies, self.copies = self.copies, 1
            for operand, local in packed.items():
                dtype = self.nest.inputs[operand.buffer].dtype  # type: ignore[union-attr]
                self._run(NestStep((operand,), (Keep(local, dtype),), lambda m, x: x))
            self.copies = copies
        with self._loop(loop):
            self.parallel(loop + 1, packed)

    def packed(self) -> dict[Operand, int]:
        """The matrix that is packed, and the number of the local that stands for it."""
        if self.copies == 1:
            return {}
        operands = dict.fromkeys(o for step in self.nest.steps for o in step.reads)
        return {o: -1 - i for i, o in enumerate(operands) if is_packed(self.nest, self.loops, o)}

    def _replaced(self, operand: Operand, packed: dict[Operand, int]) -> Operand:
        return Local(packed[operand]) if operand in packed else operand

    # -- steps ---------------------------------------------------------------------------------------------------

    def step(self, step: NestStep) -> None:
        """One step of the nest, in the current turn of the parallel loops."""
        self.machine.begin(self, step)
        if step.inner:
            self._run(step)
        else:
            with self.builder.lanes_of(1 if self.loops.along_row else self.width):
                left, self.memory.left = self.memory.left, None if self.loops.along_row else self.memory.left
                self.points(step, [])
                self.memory.left = left
        self.written += len(step.writes)

    def _run(self, step: NestStep) -> None:
        """An inner step: loops over the row around it, then what has been reduced becomes known."""
        chains = self._chains(step)
        initial = [v.register for chain in chains for v in self._start(chain)]
        left = self.memory.left
        if self.loops.reduced:
            reduced = self._level(self.loops.parallel, step, chains, initial)
        else:
            reduced = self.points(step, self.values(chains, initial))
        self.memory.left = left
        values = self.values(chains, reduced)
        for chain, accumulator in zip(chains, values, strict=True):
            if isinstance(chain.result, Reduce):
                for local, value in zip(chain.result.locals, self.machine.alone(self, chain, accumulator), strict=True):
                    self.rows[local, chain.copy] = value

    def _chains(self, step: NestStep) -> list[AccumulatorChain]:
        """The accumulators of each of the rows computed together, those of the scans first."""
        found: list[Reduce | NestScan] = [*step.scans, *(r for r in step.results if isinstance(r, Reduce))]
        chains = []
        for copy in range(self.copies):
            for result in found:
                monoid = MONOIDS[result.monoid]
                chains.append(AccumulatorChain(result, copy, monoid, monoid.neutral(self.math, result.dtype)))
        return chains

    def _start(self, chain: AccumulatorChain) -> list[LaneValue]:
        """The start of an accumulator; that of a scan along the lanes is a scalar."""
        if isinstance(chain.result, NestScan) and self.loops.along_row:
            with self.builder.lanes_of(1):
                return chain.monoid.neutral(self.math, chain.result.dtype)
        return chain.neutral

    def values(self, chains: Sequence[AccumulatorChain], registers: Sequence[Register]) -> list[list[LaneValue]]:
        """Registers as the accumulators of the chains."""
        found, rest = [], list(registers)
        for chain in chains:
            dtypes = [chain.result.dtype, int64][: chain.monoid.width]
            found.append([LaneValue(self.math, dtype, rest.pop(0)) for dtype in dtypes])
        return found

    # -- the loops over the row ----------------------------------------------------------------------------------

    def _level(
        self, loop: int, step: NestStep, chains: list[AccumulatorChain], initial: Sequence[Register]
    ) -> list[Register]:
        """One loop over the row, in blocks if it is long; the accumulators that it ends with."""
        special = self.machine.level(self, loop, step, chains, initial)
        if special is not None:
            return special
        stop = self.memory.number("extent", loop)
        turn = self.width if loop == self.loops.lane else 1
        last = loop == len(self.loops.extents) - 1
        if not last or not self._is_blocked(chains, self.loops.extents[loop], turn):
            return self._turns(loop, step, chains, initial, _ZERO, stop)
        with self.builder.loop(_ZERO, stop, BLOCK * turn, initial) as blocks:
            end = self.builder.binary("add", blocks.index, Register(str(BLOCK * turn), "i64"))
            bounded = self.builder.call("i64", "llvm.smin.i64", end, stop)
            within = self._turns(loop, step, chains, self._anew(chains, blocks.carried), blocks.index, bounded)
            blocks.following = self._joined(chains, blocks.carried, within)
        return blocks.results

    def _is_blocked(self, chains: Sequence[AccumulatorChain], extent: int, turn: int) -> bool:
        """Whether rounding errors would grow along a loop."""
        reduced = [c.result.monoid for c in chains if isinstance(c.result, Reduce)]
        return set(reduced) == {"sum"} and extent > BLOCK * turn

    def _anew(self, chains: Sequence[AccumulatorChain], carried: Sequence[Register]) -> list[Register]:
        """The starts of the accumulators of a block; scans go on."""
        pairs = zip(chains, self.values(chains, carried), strict=True)
        return [v.register for chain, values in pairs for v in (values if chain.goes_on else chain.neutral)]

    def _turns(
        self,
        loop: int,
        step: NestStep,
        chains: list[AccumulatorChain],
        initial: Sequence[Register],
        start: Register,
        stop: Register,
    ) -> list[Register]:
        turn = self.width if loop == self.loops.lane else 1
        with self.builder.loop(start, stop, turn, initial) as opened:
            self.machine.enter(self, loop, opened.index, self.memory.number("extent", loop))
            if loop == len(self.loops.extents) - 1:
                opened.following = self.points(step, self.values(chains, opened.carried))
            else:
                opened.following = self._inside(loop + 1, step, chains, opened.carried)
        return opened.results

    def _inside(
        self, loop: int, step: NestStep, chains: list[AccumulatorChain], carried: Sequence[Register]
    ) -> list[Register]:
        """An inner loop that begins anew, or goes on where the monoid says so."""
        if all(chain.goes_on for chain in chains):
            return self._level(loop, step, chains, carried)
        within = self._level(loop, step, chains, self._anew(chains, carried))
        return self._joined(chains, carried, within)

    def _joined(
        self, chains: Sequence[AccumulatorChain], a: Sequence[Register], b: Sequence[Register]
    ) -> list[Register]:
        pairs = zip(chains, self.values(chains, a), self.values(chains, b), strict=True)
        return [v.register for c, x, y in pairs for v in (y if c.goes_on else c.monoid.join(self.math, x, y))]

    # -- points --------------------------------------------------------------------------------------------------

    def points(self, step: NestStep, accumulators: list[list[LaneValue]]) -> list[Register]:
        """The body, for each of the rows computed together; what the accumulators become."""
        following: list[Register] = []
        share = len(accumulators) // self.copies
        jam = self.loops.jam
        first = self.memory.indices.get(jam) if jam is not None else None
        for copy in range(self.copies):
            self.memory.locals.update({n: v for (n, c), v in self.rows.items() if c == copy})
            guard = self._choose_row(first, copy) if first is not None and self.copies > 1 else None
            following += self._point(step, copy, accumulators[copy * share : (copy + 1) * share], guard)
        if first is not None:
            self.memory.indices[jam] = first  # type: ignore[index]
        return following

    def _choose_row(self, first: Register, copy: int) -> Register:
        """Make a row of the result the current one. Where there are no more, the last is done again, but not stored."""
        builder, extent = self.builder, self.memory.number("extent", self.loops.jam)
        index = builder.binary("add", first, Register(str(copy), "i64")) if copy else first
        last = builder.binary("sub", extent, Register("1", "i64"))
        self.memory.indices[self.loops.jam] = builder.call("i64", "llvm.smin.i64", index, last)  # type: ignore[index]
        return builder.compare("icmp slt", index, extent)

    def _point(
        self, step: NestStep, copy: int, accumulators: list[list[LaneValue]], guard: Register | None
    ) -> list[Register]:
        """The body once."""
        carries: list[list[Register]] = []
        results = self._results(step, self._operands(step, accumulators, carries))
        if not all(carries):
            raise CompileError(f"{self.nest.name}: the body does not call its scan; call it once at every point")
        stores: list[tuple[int, LaneValue]] = []
        folds: list[tuple[Reduce, list[LaneValue], list[LaneValue]]] = []
        for result in step.results:
            taken, results = results[: result.arity], results[result.arity :]
            if isinstance(result, Keep) and step.inner:
                self.memory.keep(result.local, taken[0])
            elif isinstance(result, Keep):
                self.rows[result.local, copy] = taken[0]
            elif isinstance(result, Reduce):
                folds.append((result, accumulators[len(carries)], taken))
                carries.append([])
            else:
                stores.append((self.written + len(stores), taken[0]))
        joined = self.machine.fold_and_store(self, folds, stores, guard)
        return [register for carry in carries for register in carry or joined.pop(0)]

    def _operands(
        self, step: NestStep, accumulators: list[list[LaneValue]], carries: list[list[Register]]
    ) -> list[Any]:
        """The values of a step's operands; those that scans stand for note in `carries` what the next turn gets."""
        loaded = iter(self.memory.load([o for o in step.reads if not isinstance(o, NestScan)]))
        carries += [[] for _ in step.scans]
        running = iter([self._running(*each) for each in zip(step.scans, accumulators, carries, strict=False)])
        return [next(running) if isinstance(o, NestScan) else next(loaded) for o in step.reads]

    def _running(
        self, scan: NestScan, accumulator: list[LaneValue], carry: list[Register]
    ) -> Callable[[LaneValue], LaneValue]:
        def running(value: LaneValue) -> LaneValue:
            if carry or value.dtype is not scan.dtype:
                raise CompileError(f"{self.nest.name}: {scan} is called once, with a value of its dtype")
            scanned, following = self.machine.scanned(self, scan, accumulator[0], value)
            carry.append(following)
            return scanned

        return running

    def _results(self, step: NestStep, operands: list[Any]) -> list[LaneValue]:
        """Run the body and check what it returns."""
        returned = step.body(self.math, *operands)
        results = list(returned) if isinstance(returned, (tuple, list)) else [returned]
        wanted = [dtype for result in step.results for dtype in self._wanted(result)]
        if len(results) != len(wanted):
            raise CompileError(
                f"{self.nest.name}: the body returns {len(results)} results for {len(wanted)} writes and reductions; "
                "return one for each"
            )
        for index, (result, dtype) in enumerate(zip(results, wanted, strict=True)):
            if not isinstance(result, LaneValue):
                results[index] = self.math.constant(result, dtype)
            elif result.dtype is not dtype:
                raise CompileError(
                    f"{self.nest.name}: result {index} is {result.dtype.name}, its buffer is {dtype.name}; use m.cast"
                )
        return results

    def _wanted(self, result: Result) -> list[DType]:
        if isinstance(result, Access):
            return [self.nest.outputs[result.buffer].dtype]
        if isinstance(result, Reduce) and result.arity == 2:
            return [result.dtype, result.dtype if result.monoid == "dot" else int64]
        return [result.dtype]

    def fold(
        self, result: Reduce, carried: list[LaneValue], values: list[LaneValue], mask: Register | None
    ) -> list[Register]:
        """An accumulator that values have joined, but for those that `mask` leaves out."""
        monoid = MONOIDS[result.monoid]
        if mask is not None:
            neutral = neutral_of(self.math, monoid, result.dtype, result.arity)
            pairs = zip(values, neutral, strict=True)
            values = [
                LaneValue(self.math, v.dtype, self.builder.select(mask, v.register, n.register)) for v, n in pairs
            ]
        return [v.register for v in monoid.fold(self.math, carried, values)]


_ZERO = Register("0", "i64")
