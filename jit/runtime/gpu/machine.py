"""The machine with threads: a nest for a GPU has the steps, bodies and memory of `llvm.lowering`, one thread at a time.

Comes after `gpu.schedule`, before `device`; what GPUs say differently stands in the `Dialect` of their family. The
function is

    kernel(data, geometry, ptr errors)

whose first two parameters are passed by value: `data` holds the addresses of the buffers, inputs then outputs, and
`geometry` the numbers that `LoweredFunction.numbers` names. Errors are or'ed to the i32 at `errors`, as the CPU's
kernels return them. It is launched with the blocks and threads of its `Grid`.

Note [Barriers are for all]
    Threads meet at barriers and exchange values by shuffles, which all threads of a block must reach. So a loop with
    either in it has the same turns in all threads: where a thread has no point, it does the last one again, takes
    no part in the sum and stores nothing.

        loop:  %base = 0, lanes of a turn, ...            the same in all threads
               %place = min(%base + thread, extent - 1)
               %inside = %base + thread < extent
               %value = select %inside, body(%place), neutral

    Where each thread is for itself, those beyond the last point do nothing instead.

Note [Loads go ahead]
    A thread that waits for each value before it asks for the next leaves the memory idle. So loops over a row take
    several turns at once, all of their loads first; the bodies follow, turn by turn, so that sums are the same.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Mapping, Sequence
from functools import partial, reduce

from jit.ir.dtypes import DType

from ..kernels.nest import Access, Nest, NestScan, NestStep, Operand, Reduce
from ..kernels.schedule import Loops
from ..llvm.build import LLVMBuilder, Register
from ..llvm.function import LoweredFunction
from ..llvm.lowering import NestLowering
from ..llvm.reduce import MONOIDS, AccumulatorChain, Monoid, across_lanes
from ..llvm.values import LaneValue
from ..targets.target import Target
from .exchange import BlockExchange
from .math import GridMath
from .memory import DeviceMemory
from .schedule import REGISTERS, SQUARE, SQUARE_ROWS, THREADS, TILE, Grid, crossing, lies_along, shared


class GridMachine:
    """A GPU: threads compute what lanes compute on a processor."""

    def __init__(self, nest: Nest, loops: Loops, grid: Grid, target: Target) -> None:
        assert target.family.dialect is not None
        self.nest, self.loops, self.grid, self.dialect = nest, loops, grid, target.family.dialect
        self.builder = LLVMBuilder(grid.lanes)
        self.math = GridMath(self.builder, target)
        self.memory = DeviceMemory(nest, loops, self.builder, self.math, grid)
        self.thread = self._special(self.dialect.thread)
        self.member = self._remainder(self.thread, grid.group)
        """The number of the thread in its group."""
        self.team = self._remainder(self._quotient(grid.group), grid.teams)
        """The number of its group among those of the row."""
        if grid.capacity:
            self.memory.first_held = self._product(self._quotient(grid.group), _number(grid.capacity))
        self.has_piece: Register | None = None
        """Whether its team has a piece of the row, None where each has the whole."""
        self.storing: Register | None = None
        """Whether this thread stores what is computed, None if all do."""
        self.inside: Register | None = None
        """Whether the current point of the row exists, for each lane if a thread has several; None if it does."""
        self.exchange = BlockExchange(self.memory, self.dialect, self.thread, self.member)

    def function(self, lowering: NestLowering) -> LoweredFunction:
        """Find the thread's place, then run the steps there."""
        self._everywhere(lambda: self._compute(lowering))
        numbers: tuple[tuple[Hashable, ...], ...] = tuple(self.memory.numbers)  # type: ignore[arg-type]
        lines = [
            f"define {self.dialect.convention} void @kernel({self._parameters(len(numbers))}) {self._bound()} {{",
            "entry:",
            *self.dialect.prologue,
            "store i32 0, ptr %status",
            *self.builder.sections[0].lines,
            "%result = load i32, ptr %status",
            "%failed = icmp ne i32 %result, 0",
            "br i1 %failed, label %report, label %end",
            "report:",
            "atomicrmw or ptr %errors, i32 %result monotonic",
            "br label %end",
            "end:",
            "ret void",
            "}\n",
        ]
        declarations = (*self._shared_memory(), *self.builder.declarations.values(), *self.builder.helpers.values())
        return LoweredFunction(declarations, "\n".join(lines), numbers, self.grid.threads)

    def _compute(self, lowering: NestLowering) -> None:
        """All steps at the thread's place."""
        lowering.written = 0
        for step in self.nest.steps:
            lowering.step(step)

    def _parameters(self, numbers: int) -> str:
        """The parameters: two tables by value, and where errors are reported."""
        buffers = len(self.nest.inputs) + len(self.nest.outputs)
        data = self.dialect.parameter.format(type=f"[{buffers} x ptr]", name="data")
        geometry = self.dialect.parameter.format(type=f"[{max(numbers, 1)} x i64]", name="geometry")
        return f"{data}, {geometry}, ptr align 4 %errors"

    def _bound(self) -> str:
        """The attribute of large blocks, which cannot be launched if they take more registers than there are."""
        registers = REGISTERS // self.grid.threads
        return self.dialect.bound.format(registers=registers) if self.grid.threads > THREADS else ""

    def _shared_memory(self) -> list[str]:
        size = max(self.exchange.bytes, self.memory.held_bytes)
        return [f"@shared = internal addrspace(3) global [{size} x i8] poison, align 16"] if size else []

    # -- the thread's place --------------------------------------------------------------------------------------

    def _everywhere(self, compute: Callable[[], None]) -> None:
        """Compute at each place of this thread, or at that of its block."""
        block, threads = self._special(self.dialect.block), self.grid.threads
        if self.grid.kind == "tiles":
            self._place_in_tile(block)
            compute()
        elif self.grid.kind == "rows":
            of_row = self.grid.group * self.grid.teams
            row = self._sum(self._product(block, _number(threads // of_row)), self._quotient(of_row))
            self.memory.indices.update(enumerate(self._split(self._existing(row))))
            compute()
        elif self.grid.kind == "squares":
            self._in_square(block, compute)
        elif self.grid.kind == "columns":
            column = self._sum(self._product(block, _number(self.grid.group)), self.member)
            self._at_points(self._existing(column), compute)
        else:
            with self.builder.loop(_number(0), self.memory.number("turns"), 1) as turn:
                chunk = self._sum(self._product(turn.index, self.memory.number("blocks")), block)
                first = self._sum(self._product(chunk, _number(threads * self.grid.vectors)), self.thread)
                exists = self.builder.compare("icmp slt", first, self.memory.number("units"))
                self.builder.when(exists, lambda: self._at_points(first, compute), self.builder.depth)

    def _at_points(self, first: Register, compute: Callable[[], None]) -> None:
        """Compute the points of the vectors that begin with one."""
        places = self._split(first)
        lane = self.loops.lane
        index = self._product(places[lane], _number(self.grid.side))
        self.memory.indices.update(enumerate(places))
        self.memory.begin_at(index, self.memory.number("extent", lane))
        compute()

    def _existing(self, unit: Register) -> Register:
        """A row or column; threads of one beyond the last compute that again, and do not store it."""
        units = self.memory.number("units")
        self.exists = self.builder.compare("icmp slt", unit, units)
        return self._at_most(unit, units)

    def _place_in_tile(self, block: Register) -> None:
        """Give each thread of a tile its result; one beyond the last computes the last again, and does not store it."""
        row, column = self._quotient(TILE), self._remainder(self.thread, TILE)
        lane, jam = self.loops.lane, self.loops.jam
        assert jam is not None
        self.steps_of = {lane: row, jam: column}
        """The element of the product's row that a thread stages, of an operand that moves along a loop."""
        places = {lane: column, jam: row}
        for loop, index in enumerate(self._split(block)):
            self.memory.indices[loop] = index
            if loop in places:
                places[loop] = self._sum(self._product(index, _number(TILE)), places[loop])
        self._place_at(places)

    def _place_at(self, places: Mapping[int, Register]) -> None:
        """Give loops their indices; beyond the end that is the last, and its result is not stored."""
        self.storing = None
        for loop, index in places.items():
            extent = self.memory.number("extent", loop)
            inside = self.builder.compare("icmp slt", index, extent)
            self.storing = inside if self.storing is None else self.builder.binary("and", self.storing, inside)
            self.memory.indices[loop] = self._at_most(index, extent)

    def _in_square(self, block: Register, compute: Callable[[], None]) -> None:
        """Stage the operands that lie along the other loop, then compute a point in each of several rows."""
        cross, lane, step = crossing(self.nest, self.loops), self.loops.lane, self.nest.steps[0]
        assert cross is not None
        corner = self._split(block)
        self.memory.indices.update(enumerate(corner))
        first, other = (self._product(corner[loop], _number(SQUARE)) for loop in (lane, cross))
        own = self._remainder(self.thread, SQUARE)
        rows = [self._sum(self._quotient(SQUARE), _number(row)) for row in range(0, SQUARE, SQUARE_ROWS)]
        staged = [o for o in dict.fromkeys(step.reads) if lies_along(self.nest, self.loops, o, cross)]
        self._stage_square(staged, rows, own, lambda row: {lane: self._sum(first, row), cross: self._sum(other, own)})

        def enter(row: Register) -> None:
            self._place_at({lane: self._sum(first, own), cross: self._sum(other, row)})
            self._take_from_square(staged, self._sum(self._product(own, _number(SQUARE + 1)), row))

        enter(rows[0])
        reads = [o for o in dict.fromkeys(step.reads) if isinstance(o, Access)]
        for row, values in zip(rows, self.memory.load_ahead(reads, rows, enter), strict=True):
            enter(row)
            self.memory.loaded = values
            compute()

    def _stage_square(
        self,
        operands: Sequence[Operand],
        rows: Sequence[Register],
        own: Register,
        place: Callable[[Register], dict[int, Register]],
    ) -> None:
        """Bring a point of each row of the square, as the operands lie."""
        values = []
        for row in rows:
            self._place_at(place(row))
            values.append(self.memory.load(operands))
        for row, each in zip(rows, values, strict=True):
            index = self._sum(self._product(row, _number(SQUARE + 1)), own)
            for number, value in enumerate(each):
                self.exchange.share(number * self.grid.shared, index, value)
        self.exchange.barrier()

    def _take_from_square(self, operands: Sequence[Operand], index: Register) -> None:
        """Let operands be read from shared memory."""
        for number, operand in enumerate(operands):
            dtype = self.nest.inputs[operand.buffer].dtype  # type: ignore[union-attr]
            self.memory.staged[operand] = partial(self.exchange.taken, number * self.grid.shared, index, dtype)

    def _split(self, index: Register) -> list[Register]:
        """The row-major index of a unit as one for each parallel loop."""
        found: list[Register] = []
        for loop in reversed(range(1, self.loops.parallel)):
            index, rest = self._divided(index, loop)
            found.insert(0, rest)
        return [index, *found] if self.loops.parallel else []

    def _divided(self, index: Register, loop: int) -> tuple[Register, Register]:
        """(quotient, remainder) by the units along a loop, see Note [Divisions by numbers known at launch]."""
        builder, count = self.builder, self.memory.number("count", loop)
        if self.grid.units >= 1 << 31:
            return builder.binary("udiv", index, count), builder.binary("urem", index, count)
        high = builder.binary("lshr", self._product(index, self.memory.number("times", loop)), _number(32))
        quotient = builder.binary("lshr", self._sum(high, index), self.memory.number("shift", loop))
        return quotient, builder.binary("sub", index, self._product(quotient, count))

    def _quotient(self, count: int) -> Register:
        """The thread's number divided by a power of two."""
        return self.builder.binary("udiv", self.thread, _number(count)) if count > 1 else self.thread

    def _remainder(self, number: Register, count: int) -> Register:
        return self.builder.binary("urem", number, _number(count)) if count > 1 else _number(0)

    # -- the threads of a row ------------------------------------------------------------------------------------

    def enter(self, lowering: NestLowering, loop: int, index: Register, stop: Register) -> None:
        """A turn of a loop begins; along the row each thread has points of its own."""
        if self.grid.kind == "rows" and loop == self.loops.lane:
            index = self.memory.position = self._sum(index, self.member)
            places = self.builder.broadcast(index)
            if self.builder.width > 1:
                places = self.builder.binary("add", places, self.memory.distances())
            self.inside = self.builder.compare("icmp slt", places, self.builder.broadcast(stop))
            self.memory.inside = self.inside
            index = self._at_most(index, stop)
            self.memory.left = self.builder.binary("sub", stop, index)
        elif loop == len(self.loops.extents) - 1 and self.grid.ahead * self.grid.teams > 1:
            self.inside = self.builder.compare("icmp slt", index, stop)
            index = self._at_most(index, stop)
        self.memory.indices[loop] = index

    def begin(self, lowering: NestLowering, step: NestStep) -> None:
        """A step begins; one thread of a row stores what the row comes to."""
        self.inside = self.memory.inside = None
        self.memory.begin_step()
        self.has_piece = None
        if self.grid.kind in ("rows", "columns"):
            self.storing = self.exists
            if not step.inner:
                number = self.team if self.grid.kind == "columns" else self.builder.binary("or", self.team, self.member)
                first = self.builder.compare("icmp eq", number, _number(0))
                self.storing = self.builder.binary("and", first, self.exists)

    def fold_and_store(
        self,
        lowering: NestLowering,
        folds: Sequence[tuple[Reduce, list[LaneValue], list[LaneValue]]],
        stores: Sequence[tuple[int, LaneValue]],
        guard: Register | None,
    ) -> list[list[Register]]:
        """Let the values join their accumulators and store the others; see Note [Barriers are for all]."""
        if stores:
            self._store(self.memory.store_jobs(stores))
        return [lowering.fold(*fold, self.inside) for fold in folds]

    def _store(self, jobs: Sequence[tuple[int, Register, Register]]) -> None:
        """Write to memory, where this thread stores and the point exists."""
        conditions = (self.storing, self.has_piece, self.inside)
        guards = [guard for guard in conditions if guard is not None and guard.type == "i1"]

        def write(mask: Register | None) -> list[Register]:
            for job in jobs:
                self.memory.store(*job, mask)
            return []

        def both() -> None:
            self.memory.both_ways(lambda: write(None), write)

        if guards:
            guard = reduce(partial(self.builder.binary, "and"), guards)
            self.builder.when(guard, both, self.builder.depth)
        else:
            both()

    def alone(self, lowering: NestLowering, chain: AccumulatorChain, accumulator: list[LaneValue]) -> list[LaneValue]:
        """The upper half of a row's lanes joins the lower until one is left: in the thread, then by shuffles."""
        if self.grid.kind != "rows":
            return accumulator
        accumulator = across_lanes(self.math, chain.monoid, accumulator)
        with self.builder.lanes_of(1):
            return self._across_threads(chain.monoid, accumulator)

    def _across_threads(self, monoid: Monoid, values: list[LaneValue]) -> list[LaneValue]:
        count = self.grid.group
        while count > 1:
            count //= 2
            values = monoid.join(self.math, values, [self.exchange.shuffled("down", v, count) for v in values])
        return [self.exchange.shuffled("idx", v, 0) for v in values]

    def begin_piece(self, first: Register, piece: int, stop: Register) -> Register:
        """The place where this thread's team begins, if the first begins at `first`; beyond the end it is the last."""
        start = self.turn_of_team(first, piece)
        self.has_piece = self.builder.compare("icmp slt", start, stop)
        return self._at_most(start, stop)

    def across_teams(
        self, chains: Sequence[AccumulatorChain], carried: list[list[LaneValue]], within: list[list[LaneValue]]
    ) -> list[Register]:
        """The accumulators behind the shares of all teams, joined in the order of the row, for each team alike."""
        lanes = self.grid.group * self.grid.lanes
        own, slot = self._product(self._quotient(self.grid.group), _number(lanes)), lanes * self.grid.teams
        values = [value for chain, each in zip(chains, within, strict=True) for value in self._of_piece(chain, each)]
        if not values:
            return []
        slots = [(number * slot, value.dtype) for number, value in enumerate(values)]
        for (place, _), value in zip(slots, values, strict=True):
            self.exchange.share_lanes(place, own, value)
        self.exchange.barrier()
        first = self.builder.compare("icmp eq", self.team, _number(0))
        self.builder.when(first, lambda: self._join_teams(chains, carried, slots, lanes), self.builder.depth)
        self.exchange.barrier()
        joined = [self.exchange.taken_lanes(place, _number(0), dtype) for place, dtype in slots]
        self.exchange.barrier()
        return [value.register for value in joined]

    def _join_teams(
        self, chains: Sequence[AccumulatorChain], carried: list[list[LaneValue]], slots: Sequence[tuple[int, DType]],
        lanes: int,
    ) -> None:  # fmt: skip
        """Let the first team join what all have shared, and share that in its own place."""
        for team in range(self.grid.teams):
            start = _number(team * lanes)
            others = iter([self.exchange.taken_lanes(place, start, dtype) for place, dtype in slots])
            pairs = [(before, [next(others) for _ in before]) for before in carried]
            carried = [c.monoid.join(self.math, *pair) for c, pair in zip(chains, pairs, strict=True)]
        for (place, _), value in zip(slots, [value for each in carried for value in each], strict=True):
            self.exchange.share_lanes(place, _number(0), value)

    def _of_piece(self, chain: AccumulatorChain, values: list[LaneValue]) -> list[LaneValue]:
        """The accumulators of a piece, or neutral ones if the team has none."""
        assert self.has_piece is not None
        pairs = zip(values, chain.neutral, strict=True)
        return [
            LaneValue(self.math, v.dtype, self.builder.select(self.has_piece, v.register, n.register)) for v, n in pairs
        ]

    def scanned(
        self, lowering: NestLowering, scan: NestScan, carried: LaneValue, value: LaneValue
    ) -> tuple[LaneValue, Register]:
        """(the running value, what the next turn starts from), see Note [Teams]."""
        monoid = MONOIDS[scan.monoid]
        if self.grid.kind != "rows":
            value = monoid.join(self.math, [carried], [value])[0]
            return value, value.register
        value = self._running_in_group(monoid, value)
        total = self.exchange.shuffled("idx", value, self.grid.group - 1)
        before = after = carried
        for team, each in enumerate(self.exchange.of_teams(self.team, total)):
            if team:
                later = self.builder.compare("icmp sge", self.team, _number(team))
                register = self.builder.select(later, after.register, before.register)
                before = LaneValue(self.math, value.dtype, register)
            after = monoid.join(self.math, [after], [each])[0]
        return monoid.join(self.math, [before], [value])[0], after.register

    def _running_in_group(self, monoid: Monoid, value: LaneValue) -> LaneValue:
        """The running value of a turn: a thread takes in those 1, 2, 4, ... before it."""
        neutral, shift = monoid.neutral(self.math, value.dtype)[0], 1
        while shift < self.grid.group:
            first = self.builder.compare("icmp slt", self.member, _number(shift))
            before = self.builder.select(first, neutral.register, self.exchange.shuffled("up", value, shift).register)
            value = monoid.join(self.math, [LaneValue(self.math, value.dtype, before)], [value])[0]
            shift *= 2
        return value

    def turn_of_team(self, first: Register, turn: int) -> Register:
        """The place where this thread's team begins, if the first begins at `first` and each takes a turn."""
        return self._sum(first, self._product(self.team, _number(turn)))

    # -- matrix products -----------------------------------------------------------------------------------------

    def level(
        self,
        lowering: NestLowering,
        loop: int,
        step: NestStep,
        chains: list[AccumulatorChain],
        initial: Sequence[Register],
    ) -> list[Register] | None:
        """The innermost loop of a tiled product: stage a tile of the factors, then take the terms from it."""
        if self.grid.kind != "tiles" or loop != len(self.loops.extents) - 1:
            return None
        stop = self.memory.number("extent", loop)
        with self.builder.loop(_number(0), stop, TILE, initial) as tiles:
            self._stage(loop, step, tiles.index, stop)
            count = self.builder.call(
                "i64", "llvm.smin.i64", self.builder.binary("sub", stop, tiles.index), _number(TILE)
            )
            with self.builder.loop(_number(0), count, 1, tiles.carried) as turn:
                self.turn = turn.index
                self.memory.indices[loop] = self._sum(tiles.index, turn.index)
                turn.following = lowering.points(step, lowering.values(chains, turn.carried))
            self.exchange.barrier()
            tiles.following = turn.results
        self.memory.staged = {}
        return tiles.results

    def _stage(self, loop: int, step: NestStep, start: Register, stop: Register) -> None:
        """Each thread brings one element of each factor that others need too."""
        moves = {o: shared(self.nest, self.loops, o) for o in step.reads}
        staged = {o: moved for o, moved in moves.items() if moved is not None}
        for number, (operand, moved) in enumerate(staged.items()):
            self.memory.indices[loop] = self._at_most(self._sum(start, self.steps_of[moved]), stop)
            value = self.memory.load([operand])[0]
            self.exchange.share(number * TILE * TILE, self.thread, value)
        for number, (operand, moved) in enumerate(staged.items()):
            dtype = self.nest.inputs[operand.buffer].dtype  # type: ignore[union-attr]
            self.memory.staged[operand] = self._unstaging(number * TILE * TILE, moved, dtype)
        self.exchange.barrier()

    def _unstaging(self, slot: int, moved: int, dtype: DType) -> Callable[[], LaneValue]:
        """Read a term's factor: thread (row, column) staged element `row` (or `column`) of the product's row."""

        def read() -> LaneValue:
            step, own = self.turn, self._remainder(self.thread, TILE)
            if moved == self.loops.jam:
                step, own = self.builder.binary("udiv", self.thread, _number(TILE)), self.turn
            return self.exchange.taken(slot, self._sum(self._product(step, _number(TILE)), own), dtype)

        return read

    # -- numbers -------------------------------------------------------------------------------------------------

    def _special(self, intrinsic: str) -> Register:
        """The number that an intrinsic gives, as i64."""
        with self.builder.lanes_of(1):
            return self.builder.convert("zext", self.builder.call("i32", intrinsic), "i64")

    def _sum(self, a: Register, b: Register) -> Register:
        return a if b.text == "0" else self.builder.binary("add", a, b)

    def _product(self, a: Register, b: Register) -> Register:
        return self.builder.binary("mul", a, b)

    def _at_most(self, index: Register, extent: Register) -> Register:
        """An index below the extent: that, or the last one."""
        last = self.builder.binary("sub", extent, _number(1))
        return self.builder.call("i64", "llvm.smin.i64", index, last)


def _number(value: int) -> Register:
    return Register(str(value), "i64")
