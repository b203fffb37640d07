"""Addresses, loads and stores of a GPU's thread, whose lanes are vectors that lie apart; see Note [Where threads run].

Used by `machine`, which says where the thread is. What a load or store needs besides the maps: all lanes hold points
and all vectors are aligned, or lanes go to memory one by one.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import partial

from jit.ir.dtypes import DType, bool_

from ..kernels.nest import Access, Bound, Local, Nest, Operand
from ..kernels.schedule import FIXED, UNIT, Loops
from ..llvm.build import LLVMBuilder, Register
from ..llvm.math import LLVMMath
from ..llvm.memory import NestMemory, kept_type
from ..llvm.values import LaneValue
from .held import HeldRow, Holdable, held_row
from .schedule import Grid

_BYTES = {"i8": 1, "half": 2, "i16": 2, "i32": 4, "float": 4, "i64": 8, "double": 8}


class DeviceMemory(NestMemory):
    """The maps of a nest; arrays on a device start at multiples of their itemsize."""

    alignment = ""

    def __init__(self, nest: Nest, loops: Loops, builder: LLVMBuilder, math: LLVMMath, grid: Grid) -> None:
        super().__init__(nest, loops, builder, math)
        self.grid = grid
        self.staged: dict[Operand, Callable[[], LaneValue]] = {}
        """Operands that are read from shared memory instead."""
        self.loaded: Mapping[Operand, LaneValue] = {}
        """Operands that have been read already."""
        self._way: list[Register | None] = []
        """The mask of the way to memory that is open, None if that is of whole vectors."""
        self.inside: Register | None = None
        """Whether a point of the row exists, for each lane; other lanes read one that does."""
        self.ahead: Register | None = None
        """The points from the thread's first to the end of the loop, for lanes of several points."""

        self.held = held_row(nest, loops) if grid.capacity else HeldRow((), {})
        self.position = self.first_held = Register("0", "i64")
        """The thread's place in a held row, though it may be beyond the end; and that of its row in the block's."""
        self._holding: list[Access] = []
        """The accesses that the current step was the first to read."""

    # -- maps ----------------------------------------------------------------------------------------------------

    @property
    def first_point(self) -> int:
        """The number of the first map that yields a number."""
        return len(self.nest.reads) + len(self.nest.writes)

    def map_of(self, bound: Bound) -> int:
        """The number of a bound's map."""
        return self.first_point + self._points[bound]

    def base(self, map: int) -> Register:
        """The address at which a map begins."""
        return self._base(map)

    def pointer(self, buffer: int) -> Register:
        """The address of a buffer's first element."""
        return self._pointer(buffer)

    def encoded(self, value: LaneValue) -> Register:
        """A value as memory has it."""
        return self._encoded(value)

    # -- lanes ---------------------------------------------------------------------------------------------------

    def lanes(self) -> Register:
        """The distance of each lane from the first, none for lanes of a row without a point."""
        distances = self.distances()
        if self.inside is None or self.builder.width == 1:
            return distances
        return self.builder.select(self.inside, distances, self.builder.splat("i64", "0"))

    def distances(self) -> Register:
        """The distance of each lane from the first, in points."""
        if self.builder.width == 1:
            return Register("0", "i64")
        side, apart = self.grid.side, self.grid.apart
        places = [lane // side * apart + lane % side for lane in range(self.builder.width)]
        return Register(f"<{', '.join(f'i64 {place}' for place in places)}>", self.builder.vector("i64"))

    def begin_at(self, index: Register, stop: Register) -> None:
        """The lanes begin at a point of the loop along them."""
        self.indices[self.loops.lane] = index
        if self.builder.width == 1:
            return
        self.ahead = self.builder.binary("sub", stop, index)
        beyond = (self.grid.vectors - 1) * self.grid.apart + self.grid.side - self.grid.lanes
        left = self.builder.binary("sub", self.ahead, Register(str(beyond), "i64"))
        self.left = self.builder.select(self._aligned(), left, Register("0", "i64"))

    def _aligned(self) -> Register:
        """Whether all vectors start at multiples of their size: asked once, of the numbers of the launch."""
        found = Register("true", "i1")
        for map, access in enumerate((*self.nest.reads, *self.nest.writes)):
            if self.loops.motion(map, self.loops.lane) == UNIT:
                odd = self.builder.binary("and", self._together(map, access), _number(self._size(map) - 1))
                found = self.builder.binary("and", self.builder.compare("icmp eq", odd, _number(0)), found)
        return found

    def _together(self, map: int, access: Access) -> Register:
        """All numbers that decide where a map's vectors start, or'ed."""
        base = self._base(map)
        steps = [loop for loop in self._others() if self.loops.motion(map, loop) != FIXED]
        numbers = [self.number("stride", map, loop) for loop in steps]
        numbers += [self.number("index stride", self.nest.indices.index(index)) for index in access.gather]
        together = self.builder.emit("i64", f"ptrtoint {base} to i64", base)
        for number in numbers:
            together = self.builder.binary("or", together, number)
        return together

    def _size(self, map: int) -> int:
        """The bytes of a map's vectors."""
        reads = len(self.nest.reads)
        if map < reads:
            buffer = self.nest.inputs[self.nest.reads[map].buffer]
        else:
            buffer = self.nest.outputs[self.nest.writes[map - reads].buffer]
        return buffer.dtype.itemsize * self.grid.side

    def both_ways(
        self, whole: Callable[[], list[Register]], part: Callable[[Register], list[Register]]
    ) -> list[Register]:
        """`whole()` if all lanes hold points and are aligned, else `part(mask)`; of rows `part` alone."""
        if self.builder.width == 1:
            return whole()
        if self.inside is not None:
            return part(self.inside)
        if self._way:
            mask = self._way[-1]
            return whole() if mask is None else part(mask)
        return super().both_ways(
            lambda: self._on_the_way(None, whole), lambda mask: self._on_the_way(mask, lambda: part(mask))
        )

    def _on_the_way(self, mask: Register | None, load: Callable[[], list[Register]]) -> list[Register]:
        """The registers that are loaded while a way is open."""
        self._way.append(mask)
        found = load()
        self._way.pop()
        return found

    def _mask(self) -> Register:
        """A mask of the lanes that hold points."""
        assert self.ahead is not None
        return self.builder.compare("icmp slt", self.distances(), self.builder.broadcast(self.ahead))

    # -- loads ---------------------------------------------------------------------------------------------------

    def load(self, operands: Sequence[Operand]) -> list[LaneValue]:
        """The values of a step's operands."""
        missing = [o for o in operands if o not in self.staged and o not in self.loaded]
        found = super().load(missing)
        self._hold_all(dict(zip(missing, found, strict=True)))
        rest = iter(found)
        known = [self._read_before(o) for o in operands]
        return [next(rest) if value is None else value for value in known]

    def _read_before(self, operand: Operand) -> LaneValue | None:
        return self.staged[operand]() if operand in self.staged else self.loaded.get(operand)

    def load_ahead(
        self, reads: Sequence[Access], places: Sequence[Register], enter: Callable[[Register], None]
    ) -> list[Mapping[Operand, LaneValue]]:
        """The values of plain accesses at several places."""
        moving = [a for a in reads if self._is_moving(a) and self._is_plain(a) and a not in self.staged]

        def load_all() -> list[Register]:
            found = []
            for place in places:
                enter(place)
                found += [value.register for value in super(DeviceMemory, self).load(moving)]
            return found

        registers = iter(self.both_ways(load_all, lambda mask: load_all()))
        loaded: list[Mapping[Operand, LaneValue]] = [
            {a: LaneValue(self.math, self._dtype(a), next(registers)) for a in moving} for _ in places
        ]
        for place, values in zip(places, loaded, strict=True):
            enter(place)
            self._hold_all(values)
        return loaded

    def _ask_ahead(self, access: Access) -> None:
        """Nothing: other threads run while one waits."""

    def _load(self, type: str, address: Register, unit: bool, mask: Register | None, fill: Register) -> Register:
        if self.builder.width == 1:
            return self._element(type, address)
        element = type[1:-1].partition(" x ")[2]
        if mask is not None or not unit or self.inside is not None:
            places = self._places(address, unit, mask, element)
            return self.whole([self._element(element, place) for place in places])
        return self.builder.joined([self._side(element, place) for place in self._vectors(address, element)])

    def _masked(self, access: Access, address: Register, mask: Register | None, type: str) -> Register:
        """Load where the mask allows it, lane by lane; elsewhere there may be nothing."""
        builder = self.builder
        if builder.width == 1 or mask is None:
            return super()._masked(access, address, mask, type)
        element = type[1:-1].partition(" x ")[2]
        places = self._places(address, not address.type.startswith("<"), None, element)
        found = []
        for lane, place in enumerate(places):
            with builder.lanes_of(1):
                found.append(super()._masked(access, place, self._lane(mask, lane), element))
        return self.whole(found)

    def _element(self, type: str, address: Register, alignment: str = "") -> Register:
        result = Register(f"%{self.builder.name()}", type, self.builder.depth)
        self.builder.write(f"{result.text} = load {type}, {address}{alignment}", self.builder.depth)
        return result

    def _side(self, element: str, address: Register) -> Register:
        """A whole vector."""
        side = self.grid.side
        return self._element(f"<{side} x {element}>", address, f", align {side * _BYTES[element]}")

    def whole(self, parts: Sequence[Register]) -> Register:
        """A register of several lanes."""
        if self.builder.width == 1:
            return parts[0]
        result = Register("poison", self.builder.vector(parts[0].type))
        for lane, part in enumerate(parts):
            result = self.builder.emit(result.type, f"insertelement {result}, {part}, i64 {lane}", result, part)
        return result

    def parts(self, register: Register) -> list[Register]:
        """The lanes of a register."""
        count = self.builder.width
        return [register] if count == 1 else [self._lane(register, lane) for lane in range(count)]

    def _vectors(self, address: Register, element: str) -> list[Register]:
        """The addresses of the thread's vectors."""
        step = self.grid.apart * _BYTES[element]
        starts = [_number(number * step) for number in range(self.grid.vectors)]
        with self.builder.lanes_of(1):
            return [self._moved(address, start) if start.text != "0" else address for start in starts]

    def _places(self, address: Register, unit: bool, mask: Register | None, element: str) -> list[Register]:
        """The address of each lane; those without a point take that of the first."""
        if not unit:
            return self.parts(address)
        distances = self.lanes()
        if mask is not None and self.inside is None:
            distances = self.builder.select(mask, distances, self.builder.splat("i64", "0"))
        offsets = self.builder.binary("mul", distances, self.builder.splat("i64", str(_BYTES[element])))
        parts = self.parts(offsets)
        with self.builder.lanes_of(1):
            return [self._moved(address, part) for part in parts]

    def _lane(self, vector: Register, lane: int) -> Register:
        with self.builder.lanes_of(1):
            return self.builder.lanes_from(vector, lane)

    # -- rows that stay, see Note [A row is read once] -----------------------------------------------------------

    @property
    def held_bytes(self) -> int:
        """The shared memory that rows take."""
        return self.held.bytes_of_point * self.grid.capacity * (self.grid.threads // self.grid.group)

    def begin_step(self) -> None:
        """A step begins: what earlier steps have read is not read again."""
        for access in self._holding:
            self.staged[access] = partial(self._fetch, access, self._dtype(access))
        self._holding = []

    def _hold_all(self, values: Mapping[Operand, LaneValue]) -> None:
        """Let those stay that later steps need."""
        for operand, value in values.items():
            if isinstance(operand, Access) and operand in self.held.places:
                self._hold(operand, value)
                self._holding.append(operand)

    def keep(self, number: int, value: LaneValue) -> None:
        """Let a value at every point stay for later steps."""
        self.locals[number] = value.dtype
        self._hold(Local(number), value)

    def _local(self, number: int) -> LaneValue:
        kept = self.locals[number]
        return super()._local(number) if isinstance(kept, LaneValue) else self._fetch(Local(number), kept)

    def _hold(self, held: Holdable, value: LaneValue) -> None:
        """Write the lanes to shared memory."""
        register = self.builder.broadcast(value.register)
        if value.dtype is bool_:
            register = self.builder.convert("zext", register, "i8")
        for part, place in zip(self.parts(register), self._held_places(held), strict=True):
            self.builder.write(f"store {part}, {place}", self.builder.depth)

    def _fetch(self, held: Holdable, dtype: DType) -> LaneValue:
        """The lanes as they were written."""
        register = self.whole([self._element(kept_type(dtype), place) for place in self._held_places(held)])
        if dtype is bool_:
            register = self.builder.convert("trunc", register, "i1")
        return LaneValue(self.math, dtype, register)

    def _held_places(self, held: Holdable) -> list[Register]:
        """The address of each lane in shared memory."""
        slot = self.held.places[held]
        size, rows = self.held.slots[slot], self.grid.threads // self.grid.group
        start = sum(self.held.slots[:slot]) * self.grid.capacity * rows
        place = self.builder.binary("add", self.first_held, self.position)
        place = self.builder.binary("mul", place, _number(size))
        offsets = [start + lane * self.grid.apart * size for lane in range(self.builder.width)]
        type = "ptr addrspace(3)"
        places = [self.builder.binary("add", place, _number(offset)) if offset else place for offset in offsets]
        return [self.builder.emit(type, f"getelementptr i8, {type} @shared, {each}", each) for each in places]

    # -- stores --------------------------------------------------------------------------------------------------

    def store(self, write: int, register: Register, address: Register, mask: Register | None) -> None:
        """A vector to memory, active lanes only if there is a mask."""
        builder = self.builder
        if builder.width == 1:
            builder.write(f"store {register}, {address}", builder.depth)
            return
        element = register.type[1:-1].partition(" x ")[2]
        if mask is None:
            for number, place in enumerate(self._vectors(address, element)):
                with builder.lanes_of(self.grid.side):
                    part = builder.lanes_from(register, number * self.grid.side)
                builder.write(f"store {part}, {place}, align {self.grid.side * _BYTES[element]}", builder.depth)
            return
        unit = self.loops.motion(len(self.nest.reads) + write, self.loops.lane) == UNIT
        for lane, place in enumerate(self._places(address, unit, mask, element)):
            self._store_lane(register, place, mask, lane)

    def _store_lane(self, register: Register, place: Register, mask: Register, lane: int) -> None:
        part, exists, depth = self._lane(register, lane), self._lane(mask, lane), self.builder.depth
        self.builder.when(exists, lambda: self.builder.write(f"store {part}, {place}", depth), depth)


def _number(value: int) -> Register:
    return Register(str(value), "i64")
