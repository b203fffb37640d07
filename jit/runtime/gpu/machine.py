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

        loop:  %base = 0, threads, ...                    the same in all threads
               %place = min(%base + tid, extent - 1)
               %inside = %base + tid < extent
               %value = select %inside, body(%place), neutral
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Sequence

from jit.ir.dtypes import DType
from jit.ir.errors import CompileError

from ..kernels.nest import Nest, NestScan, NestStep, Operand, Reduce
from ..kernels.schedule import Loops
from ..llvm.build import LLVMBuilder, Register
from ..llvm.function import LoweredFunction
from ..llvm.lowering import NestLowering
from ..llvm.memory import NestMemory, kept_bytes, kept_type
from ..llvm.reduce import MONOIDS, AccumulatorChain
from ..llvm.values import ELEMENT, LaneValue
from ..targets.target import Target
from .math import GridMath
from .schedule import TILE, Grid, shared


def lower(nest: Nest, loops: Loops, grid: Grid, target: Target) -> LoweredFunction:
    """The function that computes a nest without kept values; CompileError if its body asks for what kernels lack."""
    for buffer in nest.inputs + nest.outputs:
        if buffer.dtype not in ELEMENT:
            raise CompileError(f"kernels do not compute in {buffer.dtype.name}; leave the op out of the fusion group")
    width = grid.threads if grid.kind == "rows" else 1
    return NestLowering(nest, loops, width, GridMachine(nest, loops, grid, target)).function()


class DeviceMemory(NestMemory):
    """The maps of a nest; arrays on a device start at multiples of their itemsize."""

    alignment = ""
    staged: dict[Operand, Callable[[], LaneValue]]
    """Operands that are read from shared memory instead."""

    def load(self, operands: Sequence[Operand]) -> list[LaneValue]:
        """The values of a step's operands."""
        values = iter(super().load([o for o in operands if o not in self.staged]))
        return [self.staged[o]() if o in self.staged else next(values) for o in operands]


class GridMachine:
    """A GPU: threads compute what lanes compute on a processor."""

    def __init__(self, nest: Nest, loops: Loops, grid: Grid, target: Target) -> None:
        assert target.family.dialect is not None
        self.nest, self.loops, self.grid, self.dialect = nest, loops, grid, target.family.dialect
        self.builder = LLVMBuilder(1)
        self.math = GridMath(self.builder, target)
        self.memory: DeviceMemory = DeviceMemory(nest, loops, self.builder, self.math)
        self.memory.staged = {}
        self.thread = self._special(self.dialect.thread)
        self.storing: Register | None = None
        """Whether this thread stores what is computed, None if all do."""
        self.shared_bytes = 0

    def function(self, lowering: NestLowering) -> LoweredFunction:
        """Find the thread's place, then run the steps there."""
        self._place()
        for step in self.nest.steps:
            lowering.step(step)
        numbers: tuple[tuple[Hashable, ...], ...] = tuple(self.memory.numbers)  # type: ignore[arg-type]
        lines = [
            f"define {self.dialect.convention} void @kernel({self._parameters(len(numbers))}) {{",
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

    def _parameters(self, numbers: int) -> str:
        """The parameters: two tables by value, and where errors are reported."""
        buffers = len(self.nest.inputs) + len(self.nest.outputs)
        data = self.dialect.parameter.format(type=f"[{buffers} x ptr]", name="data")
        geometry = self.dialect.parameter.format(type=f"[{max(numbers, 1)} x i64]", name="geometry")
        return f"{data}, {geometry}, ptr align 4 %errors"

    def _shared_memory(self) -> list[str]:
        size = self.shared_bytes
        return [f"@shared = internal addrspace(3) global [{size} x i8] poison, align 16"] if size else []

    # -- the thread's place --------------------------------------------------------------------------------------

    def _place(self) -> None:
        """Give the parallel loops the indices of this thread or of its block."""
        block = self._special(self.dialect.block)
        extents = [self.memory.number("extent", loop) for loop in range(self.loops.parallel)]
        if self.grid.kind == "points":
            block = self._sum(self._product(block, _number(self.grid.threads)), self.thread)
            self._leave_beyond(block, extents)
        if self.grid.kind == "tiles":
            self._place_in_tile(block, extents)
        else:
            self.memory.indices.update(enumerate(self._split(block, extents)))

    def _leave_beyond(self, point: Register, extents: Sequence[Register]) -> None:
        """End those threads of the last block that have no point to compute."""
        points = extents[0]
        for extent in extents[1:]:
            points = self._product(points, extent)
        exists = self.builder.compare("icmp slt", point, points)
        self.builder.write(f"br {exists}, label %inside, label %end", 0)
        self.builder.block("inside", 0)

    def _place_in_tile(self, block: Register, extents: Sequence[Register]) -> None:
        """Give each thread of a tile its result; one beyond the last computes the last again, and does not store it."""
        row = self.builder.binary("udiv", self.thread, _number(TILE))
        column = self.builder.binary("urem", self.thread, _number(TILE))
        self.steps_of = {self.loops.lane: row, self.loops.jam: column}
        """The element of the product's row that a thread stages, of an operand that moves along a loop."""
        places = {self.loops.lane: column, self.loops.jam: row}
        counts = [self._tiles(extent) if loop in places else extent for loop, extent in enumerate(extents)]
        for loop, index in enumerate(self._split(block, counts)):
            if loop in places:
                index = self._sum(self._product(index, _number(TILE)), places[loop])
                inside = self.builder.compare("icmp slt", index, extents[loop])
                self.storing = inside if self.storing is None else self.builder.binary("and", self.storing, inside)
                index = self._at_most(index, extents[loop])
            self.memory.indices[loop] = index

    def _tiles(self, extent: Register) -> Register:
        return self.builder.binary("udiv", self._sum(extent, _number(TILE - 1)), _number(TILE))

    def _split(self, index: Register, extents: Sequence[Register]) -> list[Register]:
        """The row-major index as one for each loop."""
        found: list[Register] = []
        for extent in reversed(extents[1:]):
            found.insert(0, self.builder.binary("urem", index, extent))
            index = self.builder.binary("udiv", index, extent)
        return [index, *found] if extents else []

    # -- the threads of a row ------------------------------------------------------------------------------------

    def enter(self, lowering: NestLowering, loop: int, index: Register, stop: Register) -> None:
        """A turn of a loop begins; along the row each thread has a point of its own."""
        if self.grid.kind == "rows" and loop == self.loops.lane:
            place = self._sum(index, self.thread)
            self.storing = self.builder.compare("icmp slt", place, stop)
            index = self._at_most(place, stop)
        self.memory.indices[loop] = index

    def begin(self, lowering: NestLowering, step: NestStep) -> None:
        """A step begins; one thread of a row stores what the row comes to."""
        if self.grid.kind == "rows" and not step.inner:
            self.storing = self.builder.compare("icmp eq", self.thread, _number(0))

    def fold_and_store(
        self,
        lowering: NestLowering,
        folds: Sequence[tuple[Reduce, list[LaneValue], list[LaneValue]]],
        stores: Sequence[tuple[int, LaneValue]],
        guard: Register | None,
    ) -> list[list[Register]]:
        """Let the values join their accumulators and store the others; see Note [Barriers are for all]."""
        jobs = self.memory.store_jobs(stores)

        def write() -> None:
            for job in jobs:
                self.memory.store(*job, None)

        if jobs and self.storing is not None:
            self.builder.when(self.storing, write, self.builder.depth)
        else:
            write()
        counting = self.storing if self.grid.kind == "rows" else None
        return [lowering.fold(*fold, counting) for fold in folds]

    def alone(self, lowering: NestLowering, chain: AccumulatorChain, accumulator: list[LaneValue]) -> list[LaneValue]:
        """The upper half of the threads joins the lower until one is left: by shared memory, then by shuffles."""
        if self.grid.kind != "rows":
            return accumulator
        count, monoid = self.grid.threads, chain.monoid
        while count > self.dialect.warp:
            count //= 2
            accumulator = monoid.join(self.math, *self._halves(accumulator, count))
        while count > 1:
            count //= 2
            accumulator = monoid.join(self.math, accumulator, [self._shuffled("down", v, count) for v in accumulator])
        return [self._shuffled("idx", v, 0) for v in accumulator]

    def _halves(self, values: list[LaneValue], half: int) -> tuple[list[LaneValue], list[LaneValue]]:
        """The values of the threads t and t + half of the block, for thread t and for thread t + half."""
        lower = self.builder.binary("and", self.thread, _number(half - 1))
        upper = self._sum(lower, _number(half))
        slots = [number * self.grid.threads for number in range(len(values))]
        for value, slot in zip(values, slots):
            self._share(slot, self.thread, value)
        self._barrier()
        found = [[self._taken(slot, t, v.dtype) for v, slot in zip(values, slots)] for t in (lower, upper)]
        self._barrier()
        return found[0], found[1]

    def scanned(
        self, lowering: NestLowering, scan: NestScan, carried: LaneValue, value: LaneValue
    ) -> tuple[LaneValue, Register]:
        """(the running value, what the next turn starts from): a thread takes in those 1, 2, 4, ... before it."""
        monoid, threads, shift = MONOIDS[scan.monoid], self.grid.threads, 1
        if self.grid.kind != "rows":
            value = monoid.join(self.math, [carried], [value])[0]
            return value, value.register
        neutral = monoid.neutral(self.math, scan.dtype)[0]
        while shift < threads:
            first = self.builder.compare("icmp slt", self.thread, _number(shift))
            before = self.builder.select(first, neutral.register, self._shuffled("up", value, shift).register)
            value = monoid.join(self.math, [LaneValue(self.math, value.dtype, before)], [value])[0]
            shift *= 2
        value = monoid.join(self.math, [carried], [value])[0]
        return value, self._shuffled("idx", value, threads - 1).register

    def _shuffled(self, way: str, value: LaneValue, lanes: int) -> LaneValue:
        """The value of another thread of the warp: `lanes` up, `lanes` down, or that of the lane `lanes` (idx)."""
        threads, thread = self.grid.threads, self.thread
        words = [self.dialect.shuffle(self.builder, way, w, lanes, threads, thread) for w in self._words(value)]
        return self._from_words(words, value.dtype)

    def _words(self, value: LaneValue) -> list[Register]:
        """A register as i32 words, the lowest first."""
        builder, register = self.builder, value.register
        if register.type in ("float", "double"):
            register = builder.convert("bitcast", register, "i32" if register.type == "float" else "i64")
        if register.type != "i64":
            return [builder.convert("zext", register, "i32")]
        high = builder.binary("lshr", register, _number(32))
        return [builder.convert("trunc", register, "i32"), builder.convert("trunc", high, "i32")]

    def _from_words(self, words: Sequence[Register], dtype: DType) -> LaneValue:
        """The register that they stand for."""
        builder, type, register = self.builder, ELEMENT[dtype], words[0]
        if len(words) == 2:
            low, high = (builder.convert("zext", word, "i64") for word in words)
            register = builder.binary("or", low, builder.binary("shl", high, _number(32)))
        opcode = "bitcast" if type in ("float", "double") else "trunc"
        return LaneValue(self.math, dtype, builder.convert(opcode, register, type))

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
            self._barrier()
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
            self._share(number * TILE * TILE, self.thread, value)
        for number, (operand, moved) in enumerate(staged.items()):
            dtype = self.nest.inputs[operand.buffer].dtype  # type: ignore[union-attr]
            self.memory.staged[operand] = self._unstaging(number * TILE * TILE, moved, dtype)
        self._barrier()

    def _unstaging(self, slot: int, moved: int, dtype: DType) -> Callable[[], LaneValue]:
        """Read a term's factor: thread (row, column) staged element `row` (or `column`) of the product's row."""

        def read() -> LaneValue:
            step, own = self.turn, self.builder.binary("urem", self.thread, _number(TILE))
            if moved == self.loops.jam:
                step, own = self.builder.binary("udiv", self.thread, _number(TILE)), self.turn
            return self._taken(slot, self._sum(self._product(step, _number(TILE)), own), dtype)

        return read

    # -- shared memory -------------------------------------------------------------------------------------------

    def _share(self, slot: int, index: Register, value: LaneValue) -> None:
        """Write an element to shared memory; other threads may read it behind the next barrier."""
        register = value.register
        if register.type == "i1":
            register = self.builder.convert("zext", register, "i8")
        self.builder.write(f"store {register}, {self._slot(slot, index, value.dtype)}", self.builder.depth)

    def _taken(self, slot: int, index: Register, dtype: DType) -> LaneValue:
        """The value that a thread has shared."""
        type = kept_type(dtype)
        register = Register(f"%{self.builder.name()}", type, self.builder.depth)
        self.builder.write(f"{register.text} = load {type}, {self._slot(slot, index, dtype)}", self.builder.depth)
        if ELEMENT[dtype] == "i1":
            register = self.builder.convert("trunc", register, "i1")
        return LaneValue(self.math, dtype, register)

    def _slot(self, slot: int, index: Register, dtype: DType) -> Register:
        """The address of an element, `slot` times 8 bytes and `index` elements from the start."""
        self.shared_bytes = max(self.shared_bytes, (slot + self.grid.threads) * 8)
        if self.shared_bytes > (most := self.dialect.shared_bytes):
            raise CompileError(
                f"{self.nest.name}: its rows need more than {most} bytes of shared memory; run it on the CPU"
            )
        place = self._sum(self._product(index, _number(kept_bytes(dtype))), _number(slot * 8))
        type = "ptr addrspace(3)"
        return self.builder.emit(type, f"getelementptr i8, {type} @shared, {place}", place)

    def _barrier(self) -> None:
        """All threads of the block meet here."""
        self.builder.declarations["barrier"] = self.dialect.barrier_declaration
        for line in self.dialect.barrier:
            self.builder.write(line, self.builder.depth)

    # -- numbers -------------------------------------------------------------------------------------------------

    def _special(self, intrinsic: str) -> Register:
        """The number that an intrinsic gives, as i64."""
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
