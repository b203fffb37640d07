"""The lowering of a nest for threads: loops over the row take several turns at once, see Note [Loads go ahead].

Comes after `gpu.schedule`, before `device`; `machine` writes what threads do otherwise than lanes.
"""

from __future__ import annotations

from collections.abc import Sequence

from jit.ir.errors import CompileError

from ..kernels.nest import Access, Nest, NestStep
from ..kernels.schedule import Loops
from ..llvm.build import Register
from ..llvm.function import LoweredFunction
from ..llvm.lowering import NestLowering
from ..llvm.reduce import AccumulatorChain
from ..llvm.values import ELEMENT
from ..targets.target import Target
from .contraction import ProductGrid
from .machine import GridMachine
from .product_machine import ProductMachine
from .schedule import Grid


def lower(nest: Nest, loops: Loops, grid: Grid, target: Target) -> LoweredFunction:
    """The function that computes a nest without kept values; CompileError if its body asks for what kernels lack."""
    for buffer in nest.inputs + nest.outputs:
        if buffer.dtype not in ELEMENT:
            raise CompileError(f"kernels do not compute in {buffer.dtype.name}; leave the op out of the fusion group")
    if isinstance(grid, ProductGrid):
        return GridLowering(nest, loops, 1, ProductMachine(nest, loops, grid, target)).function()
    width = grid.lanes * (grid.group if grid.kind == "rows" else 1)
    return GridLowering(nest, loops, width, GridMachine(nest, loops, grid, target)).function()


class GridLowering(NestLowering):
    """One kernel under construction."""

    def __init__(self, nest: Nest, loops: Loops, width: int, machine: GridMachine) -> None:
        super().__init__(nest, loops, width, machine)
        self.grid, self.threads, self.device_memory = machine.grid, machine, machine.memory

    def _level(
        self, loop: int, step: NestStep, chains: list[AccumulatorChain], initial: Sequence[Register]
    ) -> list[Register]:
        """One loop over the row; teams share out the outermost, see Note [Teams]."""
        if self.grid.teams == 1 or loop != self.loops.parallel or self.nest.scans:
            return super()._level(loop, step, chains, initial)
        stop, last = self.memory.number("extent", loop), loop == len(self.loops.extents) - 1
        piece = self.grid.piece * (self.width if loop == self.loops.lane else 1) if last else 1
        with self.builder.loop(Register("0", "i64"), stop, piece * self.grid.teams, initial) as pieces:
            start, anew = self.threads.begin_piece(pieces.index, piece, stop), self._anew(chains, pieces.carried)
            if last:
                end = self.builder.binary("add", start, Register(str(piece), "i64"))
                end = self.builder.call("i64", "llvm.smin.i64", end, stop)
                within = self._turns(loop, step, chains, anew, start, end)
            else:
                self.machine.enter(self, loop, start, stop)
                within = self._level(loop + 1, step, chains, anew)
            values = self.values(chains, pieces.carried), self.values(chains, within)
            pieces.following = self.threads.across_teams(chains, *values)
        return pieces.results

    def _turns(
        self,
        loop: int,
        step: NestStep,
        chains: list[AccumulatorChain],
        initial: Sequence[Register],
        start: Register,
        stop: Register,
    ) -> list[Register]:
        count, teams = self.grid.ahead, self.grid.teams if self.nest.scans else 1
        if loop != len(self.loops.extents) - 1 or count * teams == 1:
            return super()._turns(loop, step, chains, initial, start, stop)
        turn = (self.width if loop == self.loops.lane else 1) * teams
        with self.builder.loop(start, stop, count * turn, initial) as opened:
            first = opened.index if teams == 1 else self.threads.turn_of_team(opened.index, turn // teams)
            steps = [Register(str(number * turn), "i64") for number in range(count)]
            places = [self.builder.binary("add", first, step) for step in steps]
            opened.following = self._several(loop, step, chains, opened.carried, places)
        return opened.results

    def _several(
        self,
        loop: int,
        step: NestStep,
        chains: list[AccumulatorChain],
        carried: list[Register],
        places: Sequence[Register],
    ) -> list[Register]:
        """The body at several places of the row, after all of their loads."""
        memory, stop = self.device_memory, self.memory.number("extent", loop)

        def enter(place: Register) -> None:
            self.machine.enter(self, loop, place, stop)

        reads = [o for o in dict.fromkeys(step.reads) if isinstance(o, Access)]
        loaded = memory.load_ahead(reads, places, enter)
        for place, values in zip(places, loaded, strict=True):
            enter(place)
            memory.loaded = values
            carried = self.points(step, self.values(chains, carried))
        memory.loaded = {}
        return carried
