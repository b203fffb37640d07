"""Addresses, loads and stores of a kernel: where a map leads at the current turn of the loops, whole or in part.

Used by `lowering`, which opens the loops. A map moves along the lanes (a vector or a gather), or it does not (a
scalar, loaded in the outermost loop that it can stand in, then broadcast).
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Sequence

from jit.ir.dtypes import DType, bool_, int64

from ..kernels import lanes
from ..kernels.nest import Access, Bound, Index, Local, Nest, NestScan, Operand, Position
from ..kernels.schedule import FIXED, UNIT, Loops
from . import halves
from .build import LLVMBuilder, Register, mangled
from .math import LLVMMath
from .values import ELEMENT, LaneValue

OUT_OF_RANGE = 4
"""The flag that a kernel returns, or'ed to the errors of `division`, if an index was out of range."""
PREFETCH_ROWS = 8
"""The number of turns of the loop ahead of its use at which the row that an index selects is prefetched."""
CACHE_LINE = 64
"""The bytes that are fetched at a time."""
PREFETCH_BYTES = 1 << 20
"""The bytes of a table from which on its rows are prefetched; smaller tables are in the cache."""


def memory_type(dtype: DType) -> str:
    """The LLVM type of an element in memory."""
    if dtype is bool_:
        return "i8"
    return "i16" if dtype.is_half else ELEMENT[dtype]


def kept_type(dtype: DType) -> str:
    """The LLVM type of an element of a scratch row: as in registers, so that nothing is rounded on the way."""
    return "i8" if dtype is bool_ else ELEMENT[dtype]


def kept_bytes(dtype: DType) -> int:
    """The size of an element of a scratch row."""
    return max(dtype.itemsize, 4) if dtype.is_floating_point else dtype.itemsize


class NestMemory:
    """The maps of one nest at the current turn of its loops."""

    alignment = ", align 1"
    """The alignment of loads and stores: arrays may start at any byte."""

    def __init__(self, nest: Nest, loops: Loops, builder: LLVMBuilder, math: LLVMMath) -> None:
        self.nest, self.loops, self.builder, self.math = nest, loops, builder, math
        self.indices: dict[int, Register] = {}
        """The index of each open loop."""
        self.left: Register | None = None
        """The number of points that are left along the lanes, this vector's included."""
        self.locals: dict[int, LaneValue | DType] = {}
        """The results of earlier steps: a value for each row, or the dtype of a scratch row."""
        self.streams = False
        """Whether some stores go past the cache, so that a fence has to order them at the end."""
        self.numbers: dict[Hashable, int] = {}
        """The numbers of the geometry that the function is told: a name for each -> its place."""
        self._reads = {access: number for number, access in enumerate(nest.reads)}
        self._points = {point: number for number, point in enumerate(nest.points)}

    # -- numbers -------------------------------------------------------------------------------------------------

    def number(self, *key: Hashable) -> Register:
        """A number that the caller passes, see `LoweredFunction.numbers`."""
        place = self.numbers.setdefault(key, len(self.numbers))
        address = self.builder.emit("ptr", f"getelementptr i64, ptr %geometry, i64 {place}")
        return self.builder.emit("i64", f"load i64, {address}", address)

    def _affine(self, map: int, loops: Sequence[int], start: Register) -> Register:
        """`start` and the map's steps along `loops`."""
        for loop in loops:
            if self.loops.motion(map, loop) != FIXED:
                step = self.builder.binary("mul", self.indices[loop], self.number("stride", map, loop))
                start = self.builder.binary("add", start, step)
        return start

    def _others(self) -> list[int]:
        """All loops but the one along the lanes, outermost first."""
        return [loop for loop in range(len(self.loops.extents)) if loop != self.loops.lane]

    def lanes(self) -> Register:
        """The distance of each lane from the first, as i64."""
        return self.builder.lanes("i64")

    # -- addresses -----------------------------------------------------------------------------------------------

    def _base(self, map: int) -> Register:
        """The address of the buffer's first element, moved by the map's offset."""
        reads = len(self.nest.reads)
        if map < reads:
            buffer = self.nest.reads[map].buffer
        else:
            buffer = len(self.nest.inputs) + self.nest.writes[map - reads].buffer
        return self._moved(self._pointer(buffer), self.number("offset", map))

    def _pointer(self, buffer: int) -> Register:
        slot = self.builder.emit("ptr", f"getelementptr ptr, ptr %data, i64 {buffer}")
        return self.builder.emit("ptr", f"load ptr, {slot}", slot)

    def _moved(self, address: Register, count: Register) -> Register:
        """An address, or a vector of addresses, `count` bytes on."""
        vector = count.type.startswith("<") or address.type.startswith("<")
        type = self.builder.vector("ptr") if vector else "ptr"
        return self.builder.emit(type, f"getelementptr i8, {address}, {count}", address, count)

    def _row(self, map: int) -> Register:
        """The address at the first point along the lanes."""
        address = self._base(map)
        for loop in self._others():
            if self.loops.motion(map, loop) != FIXED:
                step = self.builder.binary("mul", self.indices[loop], self.number("stride", map, loop))
                address = self._moved(address, step)
        return address

    def _address(self, map: int, size: int) -> Register:
        """The address of the current vector if it is contiguous, else the addresses of its lanes."""
        row, lane = self._row(map), self.loops.lane
        motion = self.loops.motion(map, lane)
        if motion == FIXED:
            return row
        if motion == UNIT:
            return self._moved(row, self.builder.binary("mul", self.indices[lane], Register(str(size), "i64")))
        stride = self.number("stride", map, lane)
        start = self._moved(row, self.builder.binary("mul", self.indices[lane], stride))
        if self.builder.width == 1:
            return start
        return self._moved(start, self.builder.binary("mul", self.lanes(), self.builder.broadcast(stride)))

    # -- masks ---------------------------------------------------------------------------------------------------

    def both_ways(
        self, whole: Callable[[], list[Register]], part: Callable[[Register], list[Register]]
    ) -> list[Register]:
        """`whole()` if all lanes hold points, else `part(mask)`; join what they return."""
        builder, depth = self.builder, self.builder.depth
        if builder.width == 1 or self.left is None:
            return whole()
        full = builder.compare("icmp sge", self.left, Register(str(builder.width), "i64"))
        names = [builder.name(stem) for stem in ("whole", "part", "join")]
        builder.write(f"br {full}, label %{names[0]}, label %{names[1]}", depth)
        ways, ends = [], []
        for name in names[:2]:
            with builder.branch(name, names[2], depth):
                ways.append(whole() if name == names[0] else part(self._mask()))
                ends.append(builder.sections[depth].label)
        builder.block(names[2], depth)
        return [builder.phi(depth, (a, ends[0]), (b, ends[1])) for a, b in zip(*ways)]

    def _mask(self) -> Register:
        """A mask of the lanes that hold points."""
        assert self.left is not None
        count = self.builder.emit("i32", f"trunc {self.left} to i32", self.left)
        return self.builder.compare("icmp slt", self.builder.lanes("i32"), self.builder.broadcast(count))

    # -- operands ------------------------------------------------------------------------------------------------

    def load(self, operands: Sequence[Operand]) -> list[LaneValue]:
        """The values of a step's operands; what is contiguous along the lanes is loaded in two ways."""
        plain = [
            a for a in dict.fromkeys(operands) if isinstance(a, Access) and self._is_moving(a) and self._is_plain(a)
        ]
        for access in plain:
            self._ask_ahead(access)
        addresses = [self._gathered(a, self._address(self._reads[a], self._dtype(a).itemsize)) for a in plain]
        every = self.builder.splat("i1", "true")

        def loads(mask: Register | None) -> list[Register]:
            vectors = [self._vector(a, p, mask) for a, p in zip(plain, addresses)]
            return vectors if self.builder.width == 1 else [mask or every, *vectors]

        self.math.active = None
        loaded = self.both_ways(lambda: loads(None), loads)
        if self.builder.width > 1:
            self.math.active = loaded.pop(0) if self.left is not None else None
        vectors = dict(zip(plain, loaded, strict=False))
        return [self._operand(o, vectors) for o in operands]

    def _operand(self, operand: Operand, vectors: dict[Access, Register]) -> LaneValue:
        if isinstance(operand, Local):
            return self._local(operand.number)
        if isinstance(operand, Position):
            return self._position(operand)
        assert not isinstance(operand, NestScan)  # the lowering answers for these
        if operand in vectors:
            return self._decoded(self._dtype(operand), vectors[operand])
        if _guarded(operand):
            return self._guarded_load(operand)
        return self._fixed(operand)

    def _dtype(self, access: Access) -> DType:
        return self.nest.inputs[access.buffer].dtype

    def _is_moving(self, access: Access) -> bool:
        return self.loops.motion(self._reads[access], self.loops.lane) != FIXED

    def _is_plain(self, access: Access) -> bool:
        """Whether all lanes are elements of one array, whichever it is: indices may choose it, but stand still."""
        return not access.within and not any(self._is_moving(index.access) for index in access.gather)

    def _gathered(self, access: Access, address: Register, reports: bool = True) -> Register:
        """An address moved by the access's indices."""
        for index in access.gather:
            address = self._moved(address, self._checked(index, reports))
        return address

    def _ask_ahead(self, access: Access) -> None:
        """Prefetch the row that an index picks some turns from now (at most the last): the machine cannot guess it."""
        loop = self._picking_loop(access)
        if loop is None:
            return
        builder, now = self.builder, self.indices[loop]
        last = builder.binary("sub", self.number("extent", loop), Register("1", "i64"))
        later = builder.binary("add", now, Register(str(PREFETCH_ROWS), "i64"))
        self.indices[loop] = builder.call("i64", "llvm.smin.i64", later, last)
        size = self._dtype(access).itemsize
        address = self._gathered(access, self._address(self._reads[access], size), reports=False)
        self.indices[loop] = now
        builder.declarations["llvm.prefetch.p0"] = "declare void @llvm.prefetch.p0(ptr, i32, i32, i32)"
        for start in range(0, builder.width * size, CACHE_LINE):
            line = self._moved(address, Register(str(start), "i64"))
            builder.write(f"call void @llvm.prefetch.p0({line}, i32 0, i32 3, i32 1)", builder.depth)

    def _picking_loop(self, access: Access) -> int | None:
        """The innermost loop around that along the lanes in which an access's indices pick another contiguous row."""
        lane, buffer = self.loops.lane, self.nest.inputs[access.buffer]
        if buffer.nbytes < PREFETCH_BYTES or self.builder.width == 1:
            return None
        if self.loops.motion(self._reads[access], lane) != UNIT:
            return None
        rows = [self._reads[index.access] for index in access.gather]
        picking = [n for n in range(lane) if any(self.loops.motion(row, n) != FIXED for row in rows)]
        return picking[-1] if picking and lane == len(self.loops.extents) - 1 else None

    def _fixed(self, access: Access) -> LaneValue:
        row, dtype = self._row(self._reads[access]), self._dtype(access)
        type = memory_type(dtype)
        with self.builder.lanes_of(1):
            value = self._decoded(dtype, self.builder.emit(type, f"load {type}, {row}{self.alignment}", row))
        return LaneValue(self.math, dtype, self.builder.broadcast(value.register))

    def _vector(self, access: Access, address: Register, mask: Register | None) -> Register:
        """A vector from memory, of active lanes only if there is a mask."""
        type = self.builder.vector(memory_type(self._dtype(access)))
        zero = Register("zeroinitializer", type)
        return self._load(type, address, self.loops.motion(self._reads[access], self.loops.lane) == UNIT, mask, zero)

    def _load(self, type: str, address: Register, unit: bool, mask: Register | None, fill: Register) -> Register:
        result = f"%{self.builder.name()}"
        if self.builder.width == 1 or (unit and mask is None):
            self.builder.write(f"{result} = load {type}, {address}{self.alignment}", self.builder.depth)
        else:
            name = f"llvm.masked.{'load' if unit else 'gather'}.{mangled(type)}.{mangled(address.type)}"
            lanes = mask or self.builder.splat("i1", "true")
            self.builder.declarations[name] = f"declare {type} @{name}({address.type}, {lanes.type}, {type})"
            where = f"{address.type} align 1 {address.text}"
            self.builder.write(f"{result} = call {type} @{name}({where}, {lanes}, {fill})", self.builder.depth)
        return Register(result, type, self.builder.depth)

    def _decoded(self, dtype: DType, register: Register) -> LaneValue:
        if dtype is bool_:
            register = self.builder.compare("icmp ne", register, self.builder.splat("i8", "0"))
        elif dtype.is_half:
            register = halves.decoded(self.math, dtype, register)
        return LaneValue(self.math, dtype, register)

    # -- positions, gathers and bounds ---------------------------------------------------------------------------

    def _position(self, position: Position) -> LaneValue:
        return LaneValue(self.math, int64, self._lanewise(self._points[position]))

    def _lanewise(self, point: int) -> Register:
        """The number that a point map yields, in every lane."""
        map = len(self.nest.reads) + len(self.nest.writes) + point
        start = self._affine(map, self._others(), self.number("offset", map))
        if self.loops.motion(map, self.loops.lane) == FIXED:
            return self.builder.broadcast(start)
        stride = self.number("stride", map, self.loops.lane)
        first = self.builder.binary("mul", self.indices[self.loops.lane], stride)
        start = self.builder.broadcast(self.builder.binary("add", start, first))
        if self.builder.width == 1:
            return start
        steps = self.builder.binary("mul", self.lanes(), self.builder.broadcast(stride))
        return self.builder.binary("add", start, steps)

    def _guarded_load(self, access: Access) -> LaneValue:
        """A load whose address or whose existence depends on numbers: active lanes within the bounds alone."""
        dtype = self._dtype(access)
        map, type = self._reads[access], memory_type(dtype)
        address = self._address(map, dtype.itemsize)
        if self.loops.motion(map, self.loops.lane) == UNIT and any(self._is_moving(i.access) for i in access.gather):
            size = self.builder.splat("i64", str(dtype.itemsize))
            address = self._moved(address, self.builder.binary("mul", self.lanes(), size))
        address = self._gathered(access, address)
        mask = self._within(access.within)
        with self.builder.lanes_of(1 if self._is_uniform(access, address) else self.builder.width):
            loaded = self._masked(access, address, mask, self.builder.vector(type))
            value = self._decoded(dtype, loaded)
            if mask is not None:
                condition = LaneValue(self.math, bool_, mask)
                value = self.math.where(condition, value, self.math.constant(access.fill, dtype))
        return LaneValue(self.math, dtype, self.builder.broadcast(value.register))

    def _is_uniform(self, access: Access, address: Register) -> bool:
        """Whether one load serves all lanes."""
        still = self.loops.motion(self._reads[access], self.loops.lane) == FIXED
        return still and not address.type.startswith("<") and not any(self._moves(b) for b in access.within)

    def _moves(self, bound: Bound) -> bool:
        map = len(self.nest.reads) + len(self.nest.writes) + self._points[bound]
        return self.loops.motion(map, self.loops.lane) != FIXED

    def _masked(self, access: Access, address: Register, mask: Register | None, type: str) -> Register:
        """Load where the mask and the active lanes allow it."""
        builder = self.builder
        if builder.width == 1:
            if mask is None:
                return self._load(type, address, True, None, address)
            load, zero = lambda: self._load(type, address, True, None, address), _zero(type)
            return builder.choose(mask, load, zero, builder.depth)
        if self.math.active is not None:
            mask = self.math.active if mask is None else builder.binary("and", mask, self.math.active)
        unit = not address.type.startswith("<")
        if unit and self.loops.motion(self._reads[access], self.loops.lane) == FIXED:  # one element, bounds that move
            address, unit = builder.broadcast(address), False
        return self._load(type, address, unit, mask, Register("zeroinitializer", type))

    def _checked(self, index: Index, reports: bool = True) -> Register:
        """The bytes by which an index moves; one that is out of range is reported and counts as 0."""
        place = self.nest.indices.index(index)
        moving = self.loops.motion(self._reads[index.access], self.loops.lane) != FIXED
        width, active = (self.builder.width if moving else 1), self.math.active
        with self.builder.lanes_of(width):
            self.math.active = active if moving else None
            number = self.math.cast(self._index_value(index.access, moving), int64)
            size = LaneValue(self.math, int64, self.builder.broadcast(self.number("index size", place)))
            if index.wraps:
                number = self.math.where(number < 0, number + size, number)
            wrong = (number < 0) | (number >= size)
            if reports:
                self.math.fail_where(wrong, OUT_OF_RANGE)
            stride = self.builder.broadcast(self.number("index stride", place))
            moved = self.builder.binary("mul", self.math.where(wrong, 0, number).register, stride)
        self.math.active = active
        return moved

    def _index_value(self, access: Access, moving: bool) -> LaneValue:
        dtype = self._dtype(access)
        if not moving:
            return self._fixed(access)
        address = self._address(self._reads[access], dtype.itemsize)
        return self._decoded(dtype, self._vector(access, address, self.math.active))

    def _within(self, bounds: Sequence[Bound]) -> Register | None:
        """Whether all bounds hold, one truth value if none moves along the lanes."""
        if not bounds:
            return None
        moving = any(self._moves(b) for b in bounds)
        with self.builder.lanes_of(self.builder.width if moving else 1):
            mask = self.math.constant(True, bool_)
            for bound in bounds:
                number = LaneValue(self.math, int64, self._lanewise(self._points[bound]))
                size = LaneValue(self.math, int64, self.builder.broadcast(self.number("size", self._points[bound])))
                mask = mask & (number >= 0) & (number < size)
        return self.builder.broadcast(mask.register)

    # -- what steps hand to one another --------------------------------------------------------------------------

    def _local(self, number: int) -> LaneValue:
        value = self.locals[number]
        if isinstance(value, LaneValue):
            return LaneValue(self.math, value.dtype, self.builder.broadcast(value.register))
        return self.fetched(value, self._scratch(number, value))

    def keep(self, number: int, value: LaneValue) -> None:
        """Write a vector to the scratch row, all of its lanes."""
        self.locals[number] = value.dtype
        self.leave(value, self._scratch(number, value.dtype))

    def fetched(self, dtype: DType, address: Register) -> LaneValue:
        """A vector from scratch memory."""
        type = self.builder.vector(kept_type(dtype))
        here = Register("", "", self.builder.depth)  # not further out, where it has not been written yet
        register = self.builder.emit(type, f"load {type}, {address}{self.alignment}", address, here)
        if dtype is bool_:
            register = self.builder.compare("icmp ne", register, self.builder.splat("i8", "0"))
        return LaneValue(self.math, dtype, register)

    def leave(self, value: LaneValue, address: Register) -> None:
        """A vector to scratch memory, all of its lanes."""
        register = self.builder.convert("zext", value.register, "i8") if value.dtype is bool_ else value.register
        register = self.builder.broadcast(register)
        self.builder.write(f"store {register}, {address}{self.alignment}", self.builder.depth)

    def scratch(self, key: tuple[Hashable, ...], offset: Register) -> Register:
        """An address in the scratch memory: `offset` bytes behind the start of a named part."""
        base = self._pointer(len(self.nest.inputs) + len(self.nest.outputs))
        return self._moved(self._moved(base, self.number(*key)), offset)

    def _scratch(self, number: int, dtype: DType) -> Register:
        """The place in the scratch memory of the vector at the current point of the row."""
        lanes = 1 if self.loops.along_row else self.builder.width
        place = Register("0", "i64")
        for loop in range(self.loops.parallel, len(self.loops.extents)):
            place = self.builder.binary("mul", place, self.number("extent", loop)) if place.text != "0" else place
            index = self.indices[loop]
            place = index if place.text == "0" else self.builder.binary("add", place, index)
        size = Register(str(lanes * kept_bytes(dtype)), "i64")
        return self.scratch(("kept", number, kept_bytes(dtype)), self.builder.binary("mul", place, size))

    # -- stores --------------------------------------------------------------------------------------------------

    def store_jobs(self, writes: Sequence[tuple[int, LaneValue]]) -> list[tuple[int, Register, Register]]:
        """(write, what its memory will hold, where) for each write and its value."""
        first = len(self.nest.reads)
        return [(w, self._encoded(v), self._address(first + w, v.dtype.itemsize)) for w, v in writes]

    def store(self, write: int, register: Register, address: Register, mask: Register | None) -> None:
        """A vector to memory, active lanes only if there is a mask."""
        unit = self.loops.motion(len(self.nest.reads) + write, self.loops.lane) == UNIT
        if self.builder.width > 1 and unit and mask is None and self._is_streamed(write):
            self._stream(register, address)
            return
        if self.builder.width == 1 or (unit and mask is None):
            self.builder.write(f"store {register}, {address}{self.alignment}", self.builder.depth)
            return
        address = address if unit else self.builder.broadcast(address)  # a write that stands still is of one element
        name = f"llvm.masked.{'store' if unit else 'scatter'}.{mangled(register.type)}.{mangled(address.type)}"
        lanes = mask or self.builder.splat("i1", "true")
        self.builder.declarations[name] = f"declare void @{name}({register.type}, {address.type}, {lanes.type})"
        where = f"{address.type} align 1 {address.text}"
        self.builder.write(f"call void @{name}({register}, {where}, {lanes})", self.builder.depth)

    def _is_streamed(self, write: int) -> bool:
        """Whether vectors of an output go past the cache; several lines at a time, since single ones are slow."""
        buffer = self.nest.outputs[self.nest.writes[write].buffer]
        return lanes.is_streamed(buffer) and self.builder.width * buffer.dtype.itemsize >= 128

    def _stream(self, register: Register, address: Register) -> None:
        """Store past the cache, which saves reading the lines first; only where vectors are aligned."""
        builder, depth, size = self.builder, self.builder.depth, min(64, self.builder.width * _bytes(register))
        number = builder.emit("i64", f"ptrtoint {address} to i64", address)
        odd = builder.binary("and", number, Register(str(size - 1), "i64"))
        aligned = builder.compare("icmp eq", odd, Register("0", "i64"))
        names = [builder.name(stem) for stem in ("stream", "plain", "join")]
        builder.declarations["!0"] = "!0 = !{i32 1}"
        builder.write(f"br {aligned}, label %{names[0]}, label %{names[1]}", depth)
        for name, how in ((names[0], f", align {size}, !nontemporal !0"), (names[1], self.alignment)):
            with builder.branch(name, names[2], depth):
                builder.write(f"store {register}, {address}{how}", depth)
        builder.block(names[2], depth)
        self.streams = True

    def _encoded(self, value: LaneValue) -> Register:
        if value.dtype is bool_:
            return self.builder.convert("zext", value.register, "i8")
        return halves.encoded(self.math, value.dtype, value.register) if value.dtype.is_half else value.register


def _guarded(access: Access) -> bool:
    return bool(access.gather or access.within)


def _bytes(register: Register) -> int:
    """The size of a lane in memory."""
    element = register.type[1:-1].partition(" x ")[2]
    return {"float": 4, "double": 8, "half": 2}.get(element) or int(element[1:]) // 8


def _zero(type: str) -> Register:
    return Register("0" if type.startswith("i") else "0.0", type)
