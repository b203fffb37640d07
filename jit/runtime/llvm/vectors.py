"""The machine with vectors: how a processor's kernel begins and ends, and what its lanes do together.

Comes beside `lowering`, which asks it (see `Machine` there); `gpu.machine` is the other one.
"""

from __future__ import annotations

from collections.abc import Hashable, Sequence

from ..kernels.nest import Nest, NestScan, NestStep, Reduce
from ..kernels.schedule import Loops
from ..targets.target import Target
from .build import LLVMBuilder, Register
from .function import LoweredFunction
from .lowering import NestLowering
from .math import LLVMMath
from .memory import NestMemory
from .reduce import MONOIDS, AccumulatorChain, across_lanes, running
from .values import LaneValue


class VectorMachine:
    """A processor: a turn of the loop along the lanes takes `width` points at once."""

    def __init__(self, nest: Nest, loops: Loops, width: int, target: Target) -> None:
        self.builder = LLVMBuilder(width)
        self.math = LLVMMath(self.builder, target)
        self.memory = NestMemory(nest, loops, self.builder, self.math)

    def function(self, lowering: NestLowering) -> LoweredFunction:
        """The parallel loops with the steps inside of them."""
        lowering.parallel(0, lowering.packed())
        lines = [
            "define i32 @kernel(ptr %data, ptr %geometry) {",
            "entry:",
            "%status = alloca i32",
            "store i32 0, ptr %status",
            *self.builder.sections[0].lines,
            *(["fence seq_cst"] if self.memory.streams else []),
            "%result = load i32, ptr %status",
            "ret i32 %result",
            "}\n",
        ]
        declarations = (*self.builder.declarations.values(), *self.builder.helpers.values())
        numbers: tuple[tuple[Hashable, ...], ...] = tuple(self.memory.numbers)  # type: ignore[arg-type]
        return LoweredFunction(declarations, "\n".join(lines), numbers, lowering.width)

    def enter(self, lowering: NestLowering, loop: int, index: Register, stop: Register) -> None:
        """A turn of a loop begins; along the lanes the last one may have fewer points."""
        self.memory.indices[loop] = index
        if loop == lowering.loops.lane and lowering.width > 1:
            self.memory.left = self.builder.binary("sub", stop, index)

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
        """None: a processor writes loops over the row in the usual way."""
        return None

    def alone(self, lowering: NestLowering, chain: AccumulatorChain, accumulator: list[LaneValue]) -> list[LaneValue]:
        """The reduced row: the accumulators of its lanes, joined."""
        return across_lanes(self.math, chain.monoid, accumulator) if lowering.loops.along_row else accumulator

    def scanned(
        self, lowering: NestLowering, scan: NestScan, carried: LaneValue, value: LaneValue
    ) -> tuple[LaneValue, Register]:
        """(the running value of each lane, what the next turn starts from)."""
        monoid = MONOIDS[scan.monoid]
        if not lowering.loops.along_row or self.builder.width == 1:
            value = monoid.join(self.math, [carried], [value])[0]
            return value, value.register
        neutral = monoid.neutral(self.math, scan.dtype)[0]
        within = running(self.math, monoid, neutral, value)
        before = LaneValue(self.math, scan.dtype, self.builder.broadcast(carried.register))
        value = monoid.join(self.math, [before], [within])[0]
        last = self.builder.width - 1
        with self.builder.lanes_of(1):
            return value, self.builder.lanes_from(value.register, last)

    def fold_and_store(
        self,
        lowering: NestLowering,
        folds: Sequence[tuple[Reduce, list[LaneValue], list[LaneValue]]],
        stores: Sequence[tuple[int, LaneValue]],
        guard: Register | None,
    ) -> list[list[Register]]:
        """Let the values join their accumulators and store the others; lanes without a point do neither."""
        jobs, along_row = self.memory.store_jobs(stores), lowering.loops.along_row

        def write(mask: Register | None) -> list[Register]:
            for job in jobs:
                self.memory.store(*job, mask)
            return [r for fold in folds for r in lowering.fold(*fold, mask)] if along_row else []

        def both() -> None:
            self.memory.both_ways(lambda: write(None), write)

        registers = [] if along_row else [r for fold in folds for r in lowering.fold(*fold, None)]
        if jobs and guard is not None:
            self.builder.when(guard, both, self.builder.depth)
        elif jobs or (folds and along_row):
            registers += self.memory.both_ways(lambda: write(None), write)
        return [[registers.pop(0) for _ in values] for _, values, _ in folds]
