"""Lowers a nest to LLVM IR: explicit loops, and explicit vectors along the innermost one.

Comes after `schedule`, before `codegen`. The function is

    i32 kernel(ptr data, ptr geometry)

`data` holds the addresses of the buffers, inputs then outputs. `geometry` holds i64 numbers: the extents of the
loops, then for every access (reads, then writes) its offset and its stride along each loop, in bytes. It returns 0,
or the errors of `division` that occurred.

Note [Numbers at run time, motions at compile time]
    Extents, offsets and strides are passed, so one function serves all sizes; but whether an access stands still,
    moves to the next element, or jumps along a loop is compiled in, because the code differs: a load before the loop,
    a vector load, or a gather. The function's text is therefore a canonical key of the kernel.

Note [One body, two ways to memory]
    The innermost loop takes `width` points at a time, and the last step may have fewer. Only loads and stores differ
    in that step (they are masked), so only they are written twice, and the body once:

        loop2:   %i = phi [0, entry], [%next, latch]      br %full, whole, part
        whole:   vector loads                             br join
        part:    masked loads                             br join
        join:    phis; the body                           br %full, store_whole, store_part
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from jit.ir.dtypes import DType, bool_
from jit.ir.errors import CompileError

from . import halves
from .llvm_build import Builder, Register, mangled
from .llvm_math import ELEMENT, LLVMMath, Value
from .nest import Nest
from .schedule import FIXED, UNIT, Loops
from .target import Target


def memory_type(dtype: DType) -> str:
    """The LLVM type of an element in memory."""
    if dtype is bool_:
        return "i8"
    return "i16" if dtype.is_half else ELEMENT[dtype]


@dataclass(frozen=True)
class Function:
    """A generated function named `kernel`; equal functions are the same kernel."""

    declarations: tuple[str, ...]
    """What it calls: declarations of LLVM's and C's functions, definitions of helpers."""
    definition: str

    def text(self, name: str = "kernel", comments: Sequence[str] = ()) -> str:
        """A module with this function alone, under a readable name."""
        head = [f"; {line}" for comment in comments for line in comment.splitlines()]
        return "\n".join([*head, *self.declarations, self.named(name)])

    def named(self, name: str) -> str:
        """The definition under another name."""
        return self.definition.replace("@kernel(", f"@{name}(", 1)


def lower(nest: Nest, loops: Loops, target: Target) -> Function:
    """The function that computes `nest`; CompileError if its body asks for what kernels do not have."""
    for buffer in nest.inputs + nest.outputs:
        if buffer.dtype not in ELEMENT:
            raise CompileError(f"kernels do not compute in {buffer.dtype.name}; leave the op out of the fusion group")
    return _Lowering(nest, loops, target).function()


class _Lowering:
    """One function: its builder, and the registers of its loops and accesses."""

    def __init__(self, nest: Nest, loops: Loops, target: Target) -> None:
        self.nest = nest
        self.depth = len(loops.extents)
        self.loops = loops
        widest = max(b.dtype.itemsize for b in nest.inputs + nest.outputs)
        self.builder = Builder(self.depth, max(target.vector_bytes // max(widest, 4), 1))
        self.math = LLVMMath(self.builder, target)
        self.extents = [self._geometry(loop) for loop in range(self.depth)]
        self.indices = [Register(f"%i{loop + 1}", "i64", loop + 1) for loop in range(self.depth)]
        buffers = [nest.inputs[a.buffer] for a in nest.reads] + [nest.outputs[a.buffer] for a in nest.writes]
        self.dtypes = [b.dtype for b in buffers]

    def function(self) -> Function:
        """Write the loads, the body and the stores; then put the loops around them."""
        self._store_all(self._body(self._load_all()))
        lines = [
            "define i32 @kernel(ptr %data, ptr %geometry) {",
            "entry:",
            "%status = alloca i32",
            "store i32 0, ptr %status",
            *self._assembled(),
            "%result = load i32, ptr %status",
            "ret i32 %result",
            "}\n",
        ]
        return Function((*self.builder.declarations.values(), *self.builder.helpers.values()), "\n".join(lines))

    # -- addresses -----------------------------------------------------------------------------------------------

    def _geometry(self, index: int) -> Register:
        """A number that the caller passes."""
        address = self.builder.emit("ptr", f"getelementptr i64, ptr %geometry, i64 {index}")
        return self.builder.emit("i64", f"load i64, {address}", address)

    def _number(self, access: int, loop: int | None) -> Register:
        """The offset (None) or a stride of an access, in bytes."""
        first = self.depth + access * (self.depth + 1)
        return self._geometry(first if loop is None else first + 1 + loop)

    def _base(self, access: int) -> Register:
        """The address of the buffer's first element, moved by the access's offset."""
        reads = len(self.nest.reads)
        if access < reads:
            buffer = self.nest.reads[access].buffer
        else:
            buffer = len(self.nest.inputs) + self.nest.writes[access - reads].buffer
        slot = self.builder.emit("ptr", f"getelementptr ptr, ptr %data, i64 {buffer}")
        base = self.builder.emit("ptr", f"load ptr, {slot}", slot)
        return self._moved(base, self._number(access, None))

    def _moved(self, address: Register, count: Register) -> Register:
        """An address, or a vector of addresses, `count` bytes on."""
        type = "ptr" if count.type == "i64" else self.builder.vector("ptr")
        return self.builder.emit(type, f"getelementptr i8, {address}, {count}", address, count)

    def _row(self, access: int) -> Register:
        """The address at the first point of the innermost loop."""
        address = self._base(access)
        for loop in range(self.depth - 1):
            if self.loops.motion(access, loop) != FIXED:
                step = self.builder.binary("mul", self.indices[loop], self._number(access, loop))
                address = self._moved(address, step)
        return address

    def _address(self, access: int) -> Register:
        """The address of the current vector if it is contiguous, else the addresses of its lanes."""
        row, index = self._row(access), self.indices[-1]
        if self.loops.motion(access, self.depth - 1) == UNIT:
            size = Register(str(self.dtypes[access].itemsize), "i64")
            return self._moved(row, self.builder.binary("mul", index, size))
        stride = self._number(access, self.depth - 1)
        start = self._moved(row, self.builder.binary("mul", index, stride))
        if self.builder.width == 1:
            return start
        return self._moved(start, self.builder.binary("mul", self.builder.lanes("i64"), self.builder.broadcast(stride)))

    # -- loads ---------------------------------------------------------------------------------------------------

    def _load_all(self) -> list[Value]:
        """One value per read; what moves along the innermost loop is loaded in its two ways."""
        moving = [a for a in range(len(self.nest.reads)) if self.loops.motion(a, self.depth - 1) != FIXED]
        loaded = {a: self._load_fixed(a) for a in range(len(self.nest.reads)) if a not in moving}
        loaded.update(zip(moving, self._load_moving(moving)))
        return [self._decoded(self.dtypes[a], loaded[a]) for a in range(len(self.nest.reads))]

    def _load_fixed(self, access: int) -> Register:
        row, type = self._row(access), memory_type(self.dtypes[access])
        return self.builder.broadcast(self.builder.emit(type, f"load {type}, {row}, align 1", row))

    def _load_moving(self, accesses: Sequence[int]) -> list[Register]:
        """Load the vectors of `accesses` and learn which lanes are active."""
        addresses = [self._address(a) for a in accesses]
        if self.builder.width == 1:
            return [self._load(a, address, None) for a, address in zip(accesses, addresses)]
        left = self.builder.binary("sub", self.extents[-1], self.indices[-1])
        self.full = self.builder.compare("icmp sge", left, Register(str(self.builder.width), "i64"))
        every = self.builder.splat("i1", "true")

        def loads(mask: Register | None) -> list[Register]:
            return [mask or every, *(self._load(a, p, mask) for a, p in zip(accesses, addresses))]

        def part() -> list[Register]:
            lanes = self.builder.lanes("i64")
            return loads(self.builder.compare("icmp slt", lanes, self.builder.broadcast(left)))

        self.math.active, *vectors = self._both_ways(lambda: loads(None), part)
        return vectors

    def _both_ways(self, whole: Callable[[], list[Register]], part: Callable[[], list[Register]]) -> list[Register]:
        """Run `whole` if the vector is full and `part` if it is not, and join what they return."""
        depth, builder = self.depth, self.builder
        names = [builder.name(stem) for stem in ("whole", "part", "join")]
        builder.write(f"br {self.full}, label %{names[0]}, label %{names[1]}", depth)
        ways = []
        for name, way in zip(names, (whole, part)):
            with builder.branch(name, names[2], depth):
                ways.append(way())
        builder.block(names[2], depth)
        return [builder.phi(depth, (a, names[0]), (b, names[1])) for a, b in zip(*ways)]

    def _load(self, access: int, address: Register, mask: Register | None) -> Register:
        """A vector from memory, of active lanes only if there is a mask."""
        element = memory_type(self.dtypes[access])
        type, result = self.builder.vector(element), f"%{self.builder.name()}"
        unit = self.loops.motion(access, self.depth - 1) == UNIT
        if self.builder.width == 1 or (unit and mask is None):
            self.builder.write(f"{result} = load {type}, {address}, align 1", self.depth)
        else:
            name = f"llvm.masked.{'load' if unit else 'gather'}.{mangled(type)}.{mangled(address.type)}"
            lanes = mask or self.builder.splat("i1", "true")
            self.builder.declarations[name] = f"declare {type} @{name}({address.type}, {lanes.type}, {type})"
            where = f"{address.type} align 1 {address.text}"
            self.builder.write(f"{result} = call {type} @{name}({where}, {lanes}, {type} zeroinitializer)", self.depth)
        return Register(result, type, self.depth)

    def _decoded(self, dtype: DType, register: Register) -> Value:
        if dtype is bool_:
            register = self.builder.compare("icmp ne", register, self.builder.splat("i8", "0"))
        elif dtype.is_half:
            register = halves.decoded(self.math, dtype, register)
        return Value(self.math, dtype, register)

    # -- the body and stores -------------------------------------------------------------------------------------

    def _body(self, values: list[Value]) -> list[Value]:
        """Run the body and check what it returns against the buffers."""
        returned = self.nest.body(self.math, *values)
        results = list(returned) if isinstance(returned, (tuple, list)) else [returned]
        wanted = self.dtypes[len(values) :]
        if len(results) != len(wanted):
            raise CompileError(f"{self.nest.name}: the body returns {len(results)} results for {len(wanted)} writes")
        for index, (result, dtype) in enumerate(zip(results, wanted)):
            if not isinstance(result, Value):
                results[index] = self.math.constant(result, dtype)
            elif result.dtype is not dtype:
                raise CompileError(
                    f"{self.nest.name}: result {index} is {result.dtype.name}, its buffer is {dtype.name}"
                )
        return results

    def _store_all(self, results: list[Value]) -> None:
        """Store the vectors in the two ways."""
        first = len(self.nest.reads)
        jobs = [(first + i, self._encoded(result), self._address(first + i)) for i, result in enumerate(results)]

        def stores(mask: Register | None) -> list[Register]:
            for access, register, address in jobs:
                self._store(access, register, address, mask)
            return []

        if self.builder.width == 1:
            stores(None)
        else:
            self._both_ways(lambda: stores(None), lambda: stores(self.math.active))

    def _store(self, access: int, register: Register, address: Register, mask: Register | None) -> None:
        """A vector to memory, active lanes only if there is a mask."""
        unit = self.loops.motion(access, self.depth - 1) == UNIT
        if self.builder.width == 1 or (unit and mask is None):
            self.builder.write(f"store {register}, {address}, align 1", self.depth)
            return
        name = f"llvm.masked.{'store' if unit else 'scatter'}.{mangled(register.type)}.{mangled(address.type)}"
        lanes = mask or self.builder.splat("i1", "true")
        self.builder.declarations[name] = f"declare void @{name}({register.type}, {address.type}, {lanes.type})"
        where = f"{address.type} align 1 {address.text}"
        self.builder.write(f"call void @{name}({register}, {where}, {lanes})", self.depth)

    def _encoded(self, value: Value) -> Register:
        if value.dtype is bool_:
            return self.builder.convert("zext", value.register, "i8")
        return halves.encoded(self.math, value.dtype, value.register) if value.dtype.is_half else value.register

    # -- loops ---------------------------------------------------------------------------------------------------

    def _assembled(self) -> list[str]:
        """The sections, each at the top of its loop. Every loop runs at least once: the caller skips empty nests."""
        sections = self.builder.sections
        lines = list(sections[0].lines)
        for depth in range(1, self.depth + 1):
            latch = sections[depth].label if depth == self.depth else f"exit{depth + 1}"
            start, back = f"[ 0, %{sections[depth - 1].label} ]", f"[ %next{depth}, %{latch} ]"
            lines += [f"br label %loop{depth}", f"loop{depth}:", f"%i{depth} = phi i64 {start}, {back}"]
            lines += sections[depth].lines
        for depth in range(self.depth, 0, -1):
            step = self.builder.width if depth == self.depth else 1
            lines += [
                f"%next{depth} = add i64 %i{depth}, {step}",
                f"%more{depth} = icmp slt i64 %next{depth}, {self.extents[depth - 1].text}",
                f"br i1 %more{depth}, label %loop{depth}, label %exit{depth}",
                f"exit{depth}:",
            ]
        return lines
