"""Writes LLVM IR as text: typed registers, each instruction emitted once and in the outermost loop it can stand in.

The lowering (`llvm.lowering`) makes the loops, the math namespace (`llvm.math`) fills them through this builder.

Note [Every instruction finds its loop]
    A register knows the depth of the loop it varies in: 0 outside all loops, k inside the k-th. An instruction is
    written to the section of its deepest operand, so what does not vary in a loop is computed before it, and an
    instruction that a section (or one around it) holds already is not written again. For out[i, j] = exp(a[i]) + b[j]
    with two loops, `emit` is called in this order and writes to these places:

        load a[i]       -> section 1             loop1:  %a = load ...
        load b[j]       -> section 2                     %e = exp of %a          (about 12 instructions)
        exp             -> section 1               loop2:  %b = load ...
        add             -> section 2                       %s = fadd %e, %b

    So LLVM needs to run neither loop-invariant code motion nor global value numbering. An inner loop is written to the
    section around it when it is closed, so what is moved out of it while it is open comes to stand before it; a second
    inner loop then follows the first.
"""

from __future__ import annotations

import struct
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import NamedTuple


class Register(NamedTuple):
    """An LLVM value: a numbered register, an argument or a literal."""

    text: str
    type: str
    depth: int = 0
    """The loop in which it varies; 0 for literals and arguments."""

    def __str__(self) -> str:
        return f"{self.type} {self.text}"


class LoopSection:
    """The straight-line code at the top of one loop, or of the function."""

    def __init__(self, label: str) -> None:
        self.label = label
        """The basic block that is open at its end."""
        self.lines: list[str] = []
        self.known: dict[str, Register] = {}
        """Instruction text -> the register that holds its result already."""


@dataclass
class Loop:
    """An open loop, and what it hands from one turn to the next."""

    index: Register
    carried: list[Register]
    """The values with which the turn starts."""
    following: list[Register] = field(default_factory=list)
    """The values with which the next turn is to start; to be filled in before the loop is closed."""
    results: list[Register] = field(default_factory=list)
    """The values that the last turn left, known once the loop is closed."""


class LLVMBuilder:
    """One function under construction, inside of its open loops, with vectors of `width` lanes (1 means scalars)."""

    def __init__(self, width: int) -> None:
        self.width = width
        self.sections = [LoopSection("entry")]
        """The sections of the function and of the open loops, outermost first."""
        self._loops = 0
        self.declarations: dict[str, str] = {}
        """Function name -> its declaration."""
        self.helpers: dict[str, str] = {}
        """Function name -> the definition of a scalar function that the kernel calls."""
        self.count = 0
        """The names that have been given."""

    # -- types and literals --------------------------------------------------------------------------------------

    def vector(self, element: str) -> str:
        """The type of `width` lanes of `element`."""
        return f"<{self.width} x {element}>" if self.width > 1 else element

    @property
    def depth(self) -> int:
        """The number of open loops."""
        return len(self.sections) - 1

    @contextmanager
    def lanes_of(self, width: int) -> Iterator[None]:
        """Vectors of another number of lanes, for a while."""
        before, self.width = self.width, width
        yield
        self.width = before

    def splat(self, element: str, literal: str) -> Register:
        """The same literal in every lane."""
        text = f"splat ({element} {literal})" if self.width > 1 else literal
        return Register(text, self.vector(element))

    def lanes(self, element: str) -> Register:
        """0, 1, 2, ... in the lanes."""
        if self.width == 1:
            return Register("0", element)
        return Register(f"<{', '.join(f'{element} {i}' for i in range(self.width))}>", self.vector(element))

    # -- instructions --------------------------------------------------------------------------------------------

    def name(self, stem: str = "") -> str:
        """A fresh register or label name, without its sigil."""
        self.count += 1
        return f"{stem}{self.count}" if stem else f"v{self.count}"

    def emit(self, type: str, instruction: str, *operands: Register) -> Register:
        """Write `instruction`, whose operands are given for their depth, and return its result."""
        depth = max((o.depth for o in operands), default=0)
        for section in self.sections[: depth + 1]:
            if instruction in section.known:
                return section.known[instruction]
        result = Register(f"%{self.name()}", type, depth)
        section = self.sections[depth]
        section.lines.append(f"{result.text} = {instruction}")
        section.known[instruction] = result
        return result

    def binary(self, opcode: str, a: Register, b: Register) -> Register:
        """`fadd`, `shl`, ...: the result has the operands' type."""
        return self.emit(a.type, f"{opcode} {a}, {b.text}", a, b)

    def compare(self, predicate: str, a: Register, b: Register) -> Register:
        """`icmp slt`, `fcmp oeq`, ...: a mask."""
        mask = self.vector("i1") if a.type.startswith("<") else "i1"
        return self.emit(mask, f"{predicate} {a}, {b.text}", a, b)

    def convert(self, opcode: str, a: Register, element: str) -> Register:
        """`sext`, `fptrunc`, `bitcast`, ...: lanes of another element type."""
        type = self.vector(element)
        return a if type == a.type else self.emit(type, f"{opcode} {a} to {type}", a)

    def select(self, mask: Register, a: Register, b: Register) -> Register:
        """`a` where the mask is set, else `b`."""
        return self.emit(a.type, f"select {mask}, {a}, {b}", mask, a, b)

    def call(self, type: str, function: str, *arguments: Register) -> Register:
        """A call of a pure function, declared on first use."""
        parameters = ", ".join(a.type for a in arguments)
        if function not in self.helpers:
            self.declarations.setdefault(function, f"declare {type} @{function}({parameters})")
        return self.emit(type, f"call {type} @{function}({', '.join(map(str, arguments))})", *arguments)

    def intrinsic(self, name: str, type: str, *arguments: Register) -> Register:
        """A call of the overloaded intrinsic `llvm.<name>.<type>`, e.g. `fma`, whose operands have that type."""
        return self.call(type, f"llvm.{name}.{mangled(type)}", *arguments)

    def each_lane(self, function: str, element: str, *arguments: Register) -> Register:
        """A scalar function called for each lane."""
        if self.width == 1:
            return self.call(element, function, *arguments)
        result = Register("poison", self.vector(element), 0)
        for lane in range(self.width):
            parts = [self.emit(element, f"extractelement {a}, i64 {lane}", a) for a in arguments]
            part = self.call(element, function, *parts)
            result = self.emit(result.type, f"insertelement {result}, {part}, i64 {lane}", result, part)
        return result

    def broadcast(self, scalar: Register) -> Register:
        """A scalar in every lane; a vector stays as it is."""
        if self.width == 1 or scalar.type.startswith("<"):
            return scalar
        type = self.vector(scalar.type)
        first = self.emit(type, f"insertelement {type} poison, {scalar}, i64 0", scalar)
        zeros = f"<{self.width} x i32> zeroinitializer"
        return self.emit(type, f"shufflevector {first}, {type} poison, {zeros}", first)

    def any(self, mask: Register) -> Register:
        """An i1: whether some lane of the mask is set."""
        if self.width == 1:
            return mask
        return self.call("i1", f"llvm.vector.reduce.or.v{self.width}i1", mask)

    def lanes_from(self, vector: Register, start: int) -> Register:
        """`width` lanes of a wider vector; a scalar if that is one."""
        _, _, element = vector.type[1:-1].partition(" x ")
        if self.width == 1:
            return self.emit(element, f"extractelement {vector}, i64 {start}", vector)
        picked = ", ".join(f"i32 {start + lane}" for lane in range(self.width))
        text = f"shufflevector {vector}, {vector.type} poison, <{self.width} x i32> <{picked}>"
        return self.emit(self.vector(element), text, vector)

    def joined(self, parts: Sequence[Register]) -> Register:
        """Vectors of equal length, one behind the other in a vector of `width` lanes; as many as a power of two."""
        vectors = list(parts)
        while len(vectors) > 1:
            vectors = [self._pair(low, high) for low, high in zip(vectors[::2], vectors[1::2], strict=True)]
        return vectors[0]

    def _pair(self, low: Register, high: Register) -> Register:
        count, _, element = low.type[1:-1].partition(" x ")
        lanes = 2 * int(count)
        picked = ", ".join(f"i32 {lane}" for lane in range(lanes))
        text = f"shufflevector {low}, {high}, <{lanes} x i32> <{picked}>"
        return self.emit(f"<{lanes} x {element}>", text, low, high)

    # -- control flow --------------------------------------------------------------------------------------------

    @contextmanager
    def loop(self, start: Register, stop: Register, step: int, initial: Sequence[Register] = ()) -> Iterator[Loop]:
        """A loop from `start` to below `stop`, at least one turn; what is written while it is open is its body."""
        self._loops += 1
        name, depth = self._loops, len(self.sections)
        carried = [Register(f"%{self.name('c')}", r.type, depth) for r in initial]
        loop, section = Loop(Register(f"%i{name}", "i64", depth), carried), LoopSection(f"loop{name}")
        self.sections.append(section)
        yield loop
        self.sections.pop()
        parent = self.sections[-1]
        phis = zip([loop.index, *carried], [start, *initial], [f"%next{name}", *(r.text for r in loop.following)])
        parent.lines += [
            f"br label %loop{name}",
            f"loop{name}:",
            *(f"{a.text} = phi {a.type} [ {b.text}, %{parent.label} ], [ {c}, %{section.label} ]" for a, b, c in phis),
            *section.lines,
            f"%next{name} = add i64 %i{name}, {step}",
            f"%more{name} = icmp slt i64 %next{name}, {stop.text}",
            f"br i1 %more{name}, label %loop{name}, label %exit{name}",
            f"exit{name}:",
        ]
        parent.label = f"exit{name}"
        loop.results = [Register(r.text, r.type, depth - 1) for r in loop.following]

    def write(self, line: str, depth: int) -> None:
        """An instruction without a result, or one that must not be shared: a store, a branch, a phi."""
        self.sections[depth].lines.append(line)

    def block(self, label: str, depth: int) -> None:
        """Open a basic block in a section; the previous one has been left by a branch."""
        self.sections[depth].label = label
        self.sections[depth].lines.append(f"{label}:")

    def choose(
        self, condition: Register, then: Callable[[], Register], otherwise: Register, depth: int | None = None
    ) -> Register:
        """`then()` if the i1 `condition` holds, which is computed in that case alone, else `otherwise`."""
        depth = max(condition.depth, otherwise.depth) if depth is None else depth
        before = self.sections[depth].label
        taken: list[tuple[Register, str]] = []

        def branch() -> None:
            result = then()
            taken.append((result, self.sections[depth].label))

        self.when(condition, branch, depth)
        return self.phi(depth, taken[0], (otherwise, before))

    def when(self, condition: Register, then: Callable[[], None], depth: int) -> None:
        """Do what `then` writes if the i1 `condition` holds."""
        rare, join = self.name("then"), self.name("join")
        self.write(f"br {condition}, label %{rare}, label %{join}", depth)
        with self.branch(rare, join, depth):
            then()
        self.block(join, depth)

    @contextmanager
    def branch(self, label: str, join: str, depth: int) -> Iterator[None]:
        """A block that ends by going to `join`; what is computed in it is not known behind it."""
        section = self.sections[depth]
        known = dict(section.known)
        self.block(label, depth)
        yield
        self.write(f"br label %{join}", depth)
        section.known = known

    def phi(self, depth: int, *incoming: tuple[Register, str]) -> Register:
        """The register that takes its value from the block control came from; stands at the top of a block."""
        type = incoming[0][0].type
        result = Register(f"%{self.name()}", type, depth)
        self.write(f"{result.text} = phi {type} {', '.join(f'[ {r.text}, %{b} ]' for r, b in incoming)}", depth)
        return result


def mangled(type: str) -> str:
    """A type as the names of intrinsics spell it: <16 x float> is v16f32."""
    if type.startswith("<"):
        count, _, element = type[1:-1].partition(" x ")
        return f"v{count}{mangled(element)}"
    return {"float": "f32", "double": "f64", "half": "f16", "ptr": "p0"}.get(type, type)


def float_literal(value: float) -> str:
    """An exact literal, for float and double alike: LLVM spells both as a float64's pattern."""
    return f"0x{struct.unpack('<Q', struct.pack('<d', value))[0]:016X}"
