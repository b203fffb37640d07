"""The values that threads of a block exchange: by shuffles within a group, and in shared memory among all."""

from __future__ import annotations

from collections.abc import Sequence

from jit.ir.dtypes import DType
from jit.ir.errors import CompileError

from ..llvm.build import Register
from ..llvm.memory import kept_bytes, kept_type
from ..llvm.values import ELEMENT, LaneValue
from ..targets.family import Dialect
from .memory import DeviceMemory
from .schedule import WORD


class BlockExchange:
    """The ways from thread to thread."""

    def __init__(self, memory: DeviceMemory, dialect: Dialect, thread: Register, member: Register) -> None:
        self.memory, self.dialect, self.thread, self.member = memory, dialect, thread, member
        self.builder, self.math, self.grid = memory.builder, memory.math, memory.grid
        self.bytes = 0
        """The shared memory that is used."""

    def shuffled(self, way: str, value: LaneValue, lanes: int) -> LaneValue:
        """The value of another thread of the group: `lanes` up, `lanes` down, or that of the thread `lanes` (idx)."""
        group, thread = self.grid.group, self.thread
        if group == 1:
            return value
        words = [self.dialect.shuffle(self.builder, way, w, lanes, group, thread) for w in self._words(value)]
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

    def share(self, slot: int, index: Register, value: LaneValue) -> None:
        """Write an element to shared memory; other threads may read it behind the next barrier."""
        register = value.register
        if register.type == "i1":
            register = self.builder.convert("zext", register, "i8")
        self.builder.write(f"store {register}, {self._slot(slot, index, value.dtype)}", self.builder.depth)

    def taken(self, slot: int, index: Register, dtype: DType) -> LaneValue:
        """The value that a thread has shared."""
        type = kept_type(dtype)
        register = Register(f"%{self.builder.name()}", type, self.builder.depth)
        self.builder.write(f"{register.text} = load {type}, {self._slot(slot, index, dtype)}", self.builder.depth)
        if ELEMENT[dtype] == "i1":
            register = self.builder.convert("trunc", register, "i1")
        return LaneValue(self.math, dtype, register)

    def of_teams(self, team: Register, value: LaneValue) -> list[LaneValue]:
        """The values of all teams, each of which has one."""
        if self.grid.teams == 1:
            return [value]
        depth, first = self.builder.depth, self.builder.compare("icmp eq", self.member, _number(0))
        self.builder.when(first, lambda: self.share(0, team, value), depth)
        self.barrier()
        found = [self.taken(0, _number(number), value.dtype) for number in range(self.grid.teams)]
        self.barrier()
        return found

    def share_lanes(self, slot: int, start: Register, value: LaneValue) -> None:
        """Write the lanes of this thread to shared memory, beside those of the others of its group."""
        parts = self.memory.parts(value.register)
        with self.builder.lanes_of(1):
            for part, place in zip(parts, self._lane_places(start, len(parts)), strict=True):
                self.share(slot, place, LaneValue(self.math, value.dtype, part))

    def taken_lanes(self, slot: int, start: Register, dtype: DType) -> LaneValue:
        """The lanes of the same threads of a group, from where they begin."""
        count = self.builder.width
        with self.builder.lanes_of(1):
            parts = [self.taken(slot, place, dtype).register for place in self._lane_places(start, count)]
        return LaneValue(self.math, dtype, self.memory.whole(parts))

    def _lane_places(self, start: Register, count: int) -> list[Register]:
        """The place of each lane of this thread among those of its group, which begin at `start`."""
        first = self.builder.binary("add", self.member, start)
        return [self.builder.binary("add", first, _number(lane * self.grid.group)) for lane in range(count)]

    def _slot(self, slot: int, index: Register, dtype: DType) -> Register:
        """The address of an element, `slot` words and `index` elements from the start."""
        self.bytes = max(self.bytes, (slot + self.grid.shared) * WORD)
        if self.bytes > (most := self.dialect.shared_bytes):
            raise CompileError(
                f"{self.memory.nest.name}: its rows need more than {most} bytes of shared memory; run it on the CPU"
            )
        place = self.builder.binary("mul", index, _number(kept_bytes(dtype)))
        place = self.builder.binary("add", place, _number(slot * WORD)) if slot else place
        type = "ptr addrspace(3)"
        return self.builder.emit(type, f"getelementptr i8, {type} @shared, {place}", place)

    def barrier(self) -> None:
        """All threads of the block meet here."""
        self.builder.declarations["barrier"] = self.dialect.barrier_declaration
        for line in self.dialect.barrier:
            self.builder.write(line, self.builder.depth)


def _number(value: int) -> Register:
    return Register(str(value), "i64")
