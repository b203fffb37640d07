"""A function of a module, translated once into steps: what each instruction does to the lanes that reach it.

Comes after `parser`, before `machine`. A step's `act` is a function of the run and of lanes, with everything that the
text decides already bound: where registers lie, how they are read, which rule computes.

Note [Registers that may have no value]
    A register may be read only where a value has reached it. That most are is seen from the text: a forward walk over
    the branches finds which registers have a value on every way to an instruction. Only for the others, the doubtful
    ones, a run keeps a flag for each thread.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from .accesses import ACCESSES
from .arithmetic import Array
from .control import CONTROL, IGNORED, leave
from .findings import UnknownInstruction
from .instructions import DTYPES, Rule, rule_of
from .memory import PRIVATE, WINDOWS
from .parser import (
    WIDTHS,
    Address,
    Function,
    Immediate,
    Instruction,
    Module,
    Operand,
    Pair,
    Register,
    Symbol,
    Variable,
    Vector,
    integer,
)
from .tensor import COPIES

if TYPE_CHECKING:
    from .machine import Run

Read = Callable[["Run", Array], Any]
Write = Callable[["Run", Array, Any], None]
Act = Callable[["Run", Array], None]
Control = Callable[["Run", int, Array], None]

TOUCHING = {**ACCESSES, **COPIES}
PREDICATE = DTYPES["pred"]
CARRY = "%carry"
"""The flag of add.cc and its like, as one more register."""


class Step(NamedTuple):
    """An instruction as a function; of a control step it decides where its lanes go on."""

    instruction: Instruction
    act: Any
    is_control: bool = False
    guard: int | None = None
    negated: bool = False
    doubtful: tuple[int, ...] = ()


class Layout(NamedTuple):
    """Where variables lie in their space, and the bytes that they take."""

    offsets: dict[str, int]
    size: int


def laid_out(variables: list[Variable]) -> Layout:
    """One after the other, those whose size the launch decides at the end."""
    offsets, size = {}, 0
    for variable in sorted(variables, key=lambda v: v.count == 0):
        size = -(-size // variable.boundary) * variable.boundary
        offsets[variable.name] = size
        size += variable.size
    return Layout(offsets, size)


def variables_of(function: Function, *spaces: str) -> list[Variable]:
    """The variables of a function's body in these spaces."""
    return [v for v in function.variables if v.space in spaces]


class Program:
    """The steps of a function, and what a run of it has to make room for."""

    def __init__(self, module: Module, function: Function) -> None:
        self.module, self.function = module, function
        names = [*function.types, CARRY]
        self.index = {name: place for place, name in enumerate(names)}
        self.types = {**function.types, CARRY: "pred"}
        self.local = laid_out(variables_of(function, "local"))
        private = variables_of(function, "param")
        self.parameters = laid_out(function.parameters)
        self.private = laid_out(private if function.is_entry else [*function.parameters, *function.results, *private])
        doubts = doubtful_reads(function, self.index)
        self.doubtful = {register for registers in doubts.values() for register in registers}
        self.steps = [self._step(i, doubts.get(place, ())) for place, i in enumerate(function.instructions)]
        self.steps.append(Step(Instruction("ret", ()), leave, True))

    # -- steps ---------------------------------------------------------------------------------------------------

    def _step(self, instruction: Instruction, doubtful: tuple[int, ...]) -> Step:
        guard = instruction.guard
        place = self.index[guard.name] if guard else None
        try:
            if instruction.name in CONTROL:
                act, control = CONTROL[instruction.name](self, instruction), True
            elif instruction.name in IGNORED:
                act, control = _nothing, False
            elif instruction.name in TOUCHING:
                act, control = TOUCHING[instruction.name](self, instruction), False
            else:
                act, control = self._computing(instruction), False
        except UnknownInstruction as finding:
            raise self._located(finding, instruction) from None
        except (KeyError, ValueError, IndexError, TypeError) as error:
            reason = f"this form is not known ({type(error).__name__}: {error})"
            raise self._located(UnknownInstruction(reason), instruction) from error
        return Step(instruction, act, control, place, bool(guard and guard.negated), doubtful)

    def _located(self, finding: UnknownInstruction, instruction: Instruction) -> UnknownInstruction:
        finding.kernel, finding.line, finding.instruction = self.function.name, instruction.line, str(instruction)
        return finding

    def _computing(self, instruction: Instruction) -> Act:
        """An instruction that computes, or moves between registers and vectors of them."""
        operands = instruction.operands
        if instruction.name == "mov" and isinstance(operands[0], Vector):
            return self._unpacking(operands[0], operands[1], instruction.suffixes[-1])
        if instruction.name == "mov" and isinstance(operands[1], Vector):
            return self._packing(operands[0], operands[1], instruction.suffixes[-1])
        rule = rule_of(instruction.opcode)
        if rule is None:
            raise UnknownInstruction(f"no rule for '{instruction.name}'")
        return self._by_rule(rule, operands)

    def _by_rule(self, rule: Rule, operands: tuple[Operand, ...]) -> Act:
        targets = (operands[0].first, operands[0].second) if isinstance(operands[0], Pair) else operands[:1]
        given = operands[1:]
        if len(given) != len(rule.operands):
            raise UnknownInstruction(f"it takes {len(rule.operands)} operands, not {len(given)}")
        readers = [self.reader(operand, type_) for operand, type_ in zip(given, rule.operands)]
        writers = [self.writer(target, type_) for target, type_ in zip(targets, rule.results)]
        if rule.takes_carry:
            readers.append(self.reader(Register(CARRY), "pred"))
        if rule.gives_carry:
            writers.append(self.writer(Register(CARRY), "pred"))
        compute = rule.compute
        if len(rule.results) + rule.gives_carry == 1:
            write = writers[0]
            return lambda run, lanes: write(run, lanes, compute(*(read(run, lanes) for read in readers)))

        def several(run: Run, lanes: Array) -> None:
            for write, found in zip(writers, compute(*(read(run, lanes) for read in readers))):
                write(run, lanes, found)

        return several

    def _unpacking(self, target: Vector, source: Operand, type_: str) -> Act:
        """A register's parts, the lowest first."""
        width = WIDTHS[type_] // len(target.items)
        read = self.reader(source, f"b{8 * WIDTHS[type_]}")
        writers = [self.writer(item, f"b{8 * width}") for item in target.items]

        def act(run: Run, lanes: Array) -> None:
            parts = np.atleast_1d(read(run, lanes)).view(f"u{width}").reshape(-1, len(writers))
            for place, write in enumerate(writers):
                write(run, lanes, parts[:, place].copy())

        return act

    def _packing(self, target: Operand, source: Vector, type_: str) -> Act:
        width = WIDTHS[type_] // len(source.items)
        readers = [self.reader(item, f"b{8 * width}") for item in source.items]
        write = self.writer(target, f"b{8 * WIDTHS[type_]}")

        def act(run: Run, lanes: Array) -> None:
            parts = [np.broadcast_to(read(run, lanes), len(lanes)) for read in readers]
            write(run, lanes, np.stack(parts, axis=1).view(f"u{WIDTHS[type_]}")[:, 0].copy())

        return act

    # -- operands ------------------------------------------------------------------------------------------------

    def reader(self, operand: Operand, type_: str) -> Read:
        """The operand's values as arrays of a type, or as one number that all lanes share."""
        dtype = DTYPES[type_]
        if isinstance(operand, Immediate):
            constant = number(operand.text, dtype)
            return lambda run, lanes: constant
        if isinstance(operand, Symbol) and operand.name not in SPECIAL:
            return self.address_of(operand.name, operand.offset, dtype)
        if not isinstance(operand, Register | Symbol):
            raise UnknownInstruction(f"{operand} is no value")
        if isinstance(operand, Symbol) or operand.name not in self.index:
            return special(operand.name, dtype)
        return _register_reader(self.index[operand.name], DTYPES[self.types[operand.name]], dtype, operand.negated)

    def writer(self, operand: Operand, type_: str) -> Write:
        """A function that gives a register its values; a wider one is filled up with zeros, or with the sign."""
        if not isinstance(operand, Register):
            raise UnknownInstruction(f"{operand} takes no value")
        if operand.name == "_":
            return lambda run, lanes, values: None
        index, own, dtype = self.index[operand.name], DTYPES[self.types[operand.name]], DTYPES[type_]
        word = own if own == PREDICATE else np.dtype(f"u{own.itemsize}")
        if not _fits(own, dtype):
            raise UnknownInstruction(f"{operand} is too small for .{type_}")
        narrow = np.dtype(f"{'i' if dtype.kind == 'i' else 'u'}{dtype.itemsize}")
        if own.itemsize > dtype.itemsize:
            return lambda run, lanes, values: run.assign(index, lanes, values.view(narrow).astype(word), word)
        return lambda run, lanes, values: run.assign(index, lanes, values.view(word), word)

    def address_of(self, name: str, offset: int, dtype: Any = DTYPES["u64"]) -> Read:
        """The address of a variable in its own space."""
        if name in self.local.offsets:
            return _constant(dtype.type(self.local.offsets[name] + offset))
        if self.function.is_entry and name in self.parameters.offsets:
            return _constant(dtype.type(self.parameters.offsets[name] + offset))
        if name in self.private.offsets:
            return _constant(dtype.type(self.private.offsets[name] + offset + PRIVATE * self.function.is_entry))
        return lambda run, lanes: dtype.type(run.launch.symbols[name] + offset)

    def address(self, operand: Operand) -> Read:
        """The addresses of `[base + offset]`, one for each lane."""
        if not isinstance(operand, Address):
            raise UnknownInstruction(f"{operand} is no address")
        base, offset = operand.base, operand.offset
        if isinstance(base, Register):
            dtype = DTYPES[f"u{8 * WIDTHS[self.types[base.name]]}"]
            read = self.reader(base, f"u{8 * dtype.itemsize}")
            return lambda run, lanes: read(run, lanes) + dtype.type(offset % (1 << (8 * dtype.itemsize)))
        read = self.reader(base, "u64") if isinstance(base, Immediate) else self.address_of(base.name, offset)
        return lambda run, lanes: np.full(len(lanes), read(run, lanes), np.uint64)

    def space_of(self, instruction: Instruction) -> str:
        """The state space that an access names, "" for generic addresses."""
        return next((s.partition("::")[0] for s in instruction.suffixes if s.partition("::")[0] in WINDOWS), "")


def _fits(own: Any, dtype: Any) -> bool:
    """Whether a register is large enough for a type, and both or neither are predicates."""
    return own.itemsize >= dtype.itemsize and (own == PREDICATE) == (dtype == PREDICATE)


def _constant(value: Any) -> Read:
    return lambda run, lanes: value


def _nothing(run: Run, lanes: Array) -> None:
    """What an instruction does that only a real machine needs."""


def _register_reader(index: int, own: Any, dtype: Any, negated: bool) -> Read:
    if not _fits(own, dtype):
        raise UnknownInstruction("a register is too small for its type")
    if negated:
        return lambda run, lanes: ~run.values(index, lanes)
    if own.itemsize > dtype.itemsize:
        return lambda run, lanes: run.values(index, lanes).astype(f"u{dtype.itemsize}").view(dtype)
    return lambda run, lanes: run.values(index, lanes).view(dtype)


def number(text: str, dtype: Any) -> Any:
    """The value of a number in the text, as its place wants it."""
    if text[:2] in ("0f", "0F", "0d", "0D"):
        source = np.array(int(text[2:], 16), "u4" if text[1] in "fF" else "u8")
        value = source.view(f"f{source.dtype.itemsize}")[()]
        if dtype.kind == "u" and dtype.itemsize == source.dtype.itemsize:
            return source[()]
        return value if dtype == value.dtype else dtype.type(value)
    if text[0] == "-" and text[1:3] in ("0f", "0F", "0d", "0D"):
        return -number(text[1:], dtype)
    if "." in text:
        return dtype.type(float(text)) if dtype.kind not in "iu" else np.array(float(text), "f8").view(dtype)[()]
    if dtype == PREDICATE:
        return np.bool_(integer(text) != 0)
    return np.array(integer(text) % (1 << (8 * dtype.itemsize)), f"u{dtype.itemsize}").view(dtype)[()]


# -- numbers that the machine gives --------------------------------------------------------------------------------

AXES = {"x": 0, "y": 1, "z": 2}


def special(name: str, dtype: Any) -> Read:
    """A special register such as %tid.x."""
    base, _, axis = name.partition(".")
    if base in ("%tid", "%ctaid") and axis in AXES:
        return lambda run, lanes: run.own(run.threads.places[base][AXES[axis]], lanes).astype(dtype)
    if base in ("%ntid", "%nctaid") and axis in AXES:
        return lambda run, lanes: dtype.type(run.threads.extents[base][AXES[axis]])
    if name not in SPECIAL:
        raise UnknownInstruction(f"no register is called {name}")
    return lambda run, lanes: np.asarray(SPECIAL[name](run, lanes)).astype(dtype)


def _lane(run: Run, lanes: Array) -> Array:
    return run.own(run.threads.slots, lanes) & 31


SPECIAL: dict[str, Callable[[Run, Array], Any]] = {
    "%laneid": _lane,
    "%warpid": lambda run, lanes: run.own(run.threads.numbers, lanes) >> 5,
    "%nwarpid": lambda run, lanes: -(-run.threads.per_block // 32),
    "WARP_SZ": lambda run, lanes: 32,
    "%lanemask_eq": lambda run, lanes: 1 << _lane(run, lanes),
    "%lanemask_lt": lambda run, lanes: (1 << _lane(run, lanes)) - 1,
    "%lanemask_le": lambda run, lanes: (2 << _lane(run, lanes)) - 1,
    "%lanemask_gt": lambda run, lanes: 0xFFFFFFFF - ((2 << _lane(run, lanes)) - 1),
    "%lanemask_ge": lambda run, lanes: 0xFFFFFFFF - ((1 << _lane(run, lanes)) - 1),
    "%dynamic_smem_size": lambda run, lanes: run.launch.shared_bytes,
    "%clock": lambda run, lanes: run.launch.steps & 0xFFFFFFFF,
    "%clock64": lambda run, lanes: run.launch.steps,
}


# -- which registers have a value ----------------------------------------------------------------------------------

WITHOUT_RESULT = {"bar", "barrier", "bra", "call", "cp", "nanosleep"}


def registers_in(operand: Operand) -> Iterator[str]:
    """All registers that an operand names."""
    if isinstance(operand, Register):
        yield operand.name
    elif isinstance(operand, Address):
        yield from registers_in(operand.base)
    elif isinstance(operand, Pair):
        yield from (*registers_in(operand.first), *registers_in(operand.second))
    elif isinstance(operand, Vector):
        for item in operand.items:
            yield from registers_in(item)


def reads_and_writes(instruction: Instruction) -> tuple[list[str], list[str]]:
    """The registers that an instruction reads, and those that it sets."""
    operands = instruction.operands
    gives = bool(operands) and isinstance(operands[0], Register | Pair | Vector)
    results = int(gives and instruction.name not in WITHOUT_RESULT)
    read = [name for operand in operands[results:] for name in registers_in(operand)]
    written = [name for operand in operands[:results] for name in registers_in(operand)]
    if instruction.name in ("addc", "subc"):
        read.append(CARRY)
    if "cc" in instruction.suffixes:
        written.append(CARRY)
    if instruction.guard:
        read.append(instruction.guard.name)
    return read, written


def successors(function: Function, place: int) -> list[int]:
    """The instructions that may come after one."""
    instruction = function.instructions[place]
    ends = instruction.name in ("ret", "exit", "trap", "bra") and instruction.guard is None
    found = [] if ends else [place + 1]
    if instruction.name == "bra":
        (target,) = instruction.operands
        found.append(function.labels[str(target)])
    return found


def doubtful_reads(function: Function, index: dict[str, int]) -> dict[int, tuple[int, ...]]:
    """For instructions that read them: the registers without a value on some way there."""
    effects = [reads_and_writes(i) for i in function.instructions]
    gives = [
        0 if i.guard else sum(1 << index[name] for name in set(written) if name in index)
        for i, (_, written) in zip(function.instructions, effects)
    ]
    known = _known_on_entry(function, gives, everything=(1 << len(index)) - 1)
    found = {}
    for place, (read, _) in enumerate(effects):
        known_here = known.get(place, -1)
        doubts = {index[name] for name in read if name in index and not known_here >> index[name] & 1}
        if doubts:
            found[place] = tuple(sorted(doubts))
    return found


def _known_on_entry(function: Function, gives: list[int], everything: int) -> dict[int, int]:
    """For each instruction that can be reached the registers that have a value on all ways to it, as bits."""
    known: dict[int, int] = {}
    pending = [(0, 0)]
    while pending:
        place, arriving = pending.pop()
        while place < len(gives) and known.get(place, everything) & arriving != known.get(place):
            known[place] = known.get(place, everything) & arriving
            arriving = known[place] | gives[place]
            place, *others = [*successors(function, place), len(gives)]
            pending += [(other, arriving) for other in others]
    return known
