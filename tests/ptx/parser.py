"""PTX text as a module of variables and functions; comes before `machine`, and knows no instruction by name.

An instruction is an opcode with its suffixes and a list of operands, so that what an opcode means is said in one place
(`instructions`, `warps` and `machine`). Blocks in braces are flattened: what is declared in the second such block as
`tmp` is called `tmp$2` from there on. `str` of a module is PTX again.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass, field
from functools import cached_property, lru_cache
from typing import NamedTuple

from .findings import MalformedText

SPACES = ("const", "global", "local", "param", "shared")
LINKING = (".visible", ".extern", ".weak", ".common")
WIDTHS = {"b8": 1, "u8": 1, "s8": 1, "b16": 2, "u16": 2, "s16": 2, "f16": 2, "bf16": 2, "b32": 4, "u32": 4, "s32": 4,
          "f32": 4, "f16x2": 4, "bf16x2": 4, "tf32": 4, "b64": 8, "u64": 8, "s64": 8, "f64": 8, "pred": 1}  # fmt: skip
"""The bytes of a value of each type."""


class Register(NamedTuple):
    """A register, or a number that the machine gives such as `%tid.x`."""

    name: str
    negated: bool = False

    def __str__(self) -> str:
        return "!" * self.negated + self.name


class Immediate(NamedTuple):
    """A number in the text: an integer, or the bits of a float of 4 or 8 bytes."""

    text: str

    def __str__(self) -> str:
        return self.text


class Symbol(NamedTuple):
    """The address of a variable, or the name of a label or a function."""

    name: str
    offset: int = 0

    def __str__(self) -> str:
        return self.name + (f"+{self.offset}" if self.offset else "")


class Address(NamedTuple):
    """`[base + offset]`."""

    base: Register | Symbol | Immediate
    offset: int = 0

    def __str__(self) -> str:
        return f"[{self.base}+{self.offset}]" if self.offset else f"[{self.base}]"


class Vector(NamedTuple):
    """`{a, b}`, or the list `(a, b)` of a call."""

    items: tuple[Operand, ...]
    brackets: str = "{}"

    def __str__(self) -> str:
        return self.brackets[0] + ", ".join(map(str, self.items)) + self.brackets[1]


class Pair(NamedTuple):
    """`a|b`, two results."""

    first: Operand
    second: Operand

    def __str__(self) -> str:
        return f"{self.first}|{self.second}"


Operand = Register | Immediate | Symbol | Address | Vector | Pair


@dataclass(frozen=True)
class Instruction:
    """`@guard opcode operands;`."""

    opcode: str
    operands: tuple[Operand, ...]
    guard: Register | None = None
    line: int = field(default=0, compare=False)

    @cached_property
    def suffixes(self) -> tuple[str, ...]:
        """What follows the opcode's first dot."""
        return tuple(self.opcode.split(".")[1:])

    @cached_property
    def name(self) -> str:
        """The opcode up to its first dot."""
        return self.opcode.partition(".")[0]

    def __str__(self) -> str:
        guard = f"@{self.guard} " if self.guard else ""
        return f"{guard}{self.opcode} {', '.join(map(str, self.operands))}".rstrip()


@dataclass(frozen=True)
class Variable:
    """Named memory: a parameter, or a variable of a function or a module."""

    space: str
    type: str
    name: str
    count: int | None = None
    """The elements of an array, 0 if the launch says how many; None of a single value."""
    alignment: int = 0
    initial: tuple[str, ...] = ()
    linking: str = ""

    @property
    def size(self) -> int:
        """Bytes."""
        return WIDTHS[self.type] * (1 if self.count is None else self.count)

    @property
    def boundary(self) -> int:
        """The number of bytes of which its address is a multiple."""
        return self.alignment or WIDTHS[self.type]

    def __str__(self) -> str:
        linking = f"{self.linking} " if self.linking else ""
        alignment = f".align {self.alignment} " if self.alignment else ""
        array = "" if self.count is None else f"[{self.count or ''}]"
        value = ""
        if self.initial:
            value = " = " + (self.initial[0] if self.count is None else f"{{{', '.join(self.initial)}}}")
        return f"{linking}.{self.space} {alignment}.{self.type} {self.name}{array}{value}"


@dataclass(frozen=True)
class Registers:
    """`.reg .b32 %r<83>;` declares %r0 to %r82; without a count it is one register of that very name."""

    type: str
    prefix: str
    count: int | None = None

    def __str__(self) -> str:
        return f".reg .{self.type} {self.prefix}" + ("" if self.count is None else f"<{self.count}>")


@dataclass
class Function:
    """An entry, or a function that others call."""

    name: str
    is_entry: bool
    results: list[Variable]
    parameters: list[Variable]
    linking: str = ""
    directives: list[str] = field(default_factory=list)
    registers: list[Registers] = field(default_factory=list)
    variables: list[Variable] = field(default_factory=list)
    instructions: list[Instruction] = field(default_factory=list)
    labels: dict[str, int] = field(default_factory=dict)
    """The instruction that follows each label."""
    is_defined: bool = True

    @cached_property
    def types(self) -> dict[str, str]:
        """The type of every register that an instruction may name."""
        found = {}
        for each in self.registers:
            names = [each.prefix] if each.count is None else (f"{each.prefix}{i}" for i in range(each.count))
            found.update(dict.fromkeys(names, each.type))
        return found

    def __str__(self) -> str:
        listed = ",\n".join(f"\t{each}" for each in self.parameters)
        results = f" ({', '.join(map(str, self.results))})" if self.results else ""
        head = f"{self.linking} {'.entry' if self.is_entry else '.func'}{results} {self.name}(\n{listed}\n)".lstrip()
        if not self.is_defined:
            return f"{head};"
        lines = [f"\t{each};" for each in (*self.registers, *self.variables)]
        marks: dict[int, list[str]] = {}
        for label, place in self.labels.items():
            marks.setdefault(place, []).append(f"{label}:")
        for place, instruction in enumerate(self.instructions):
            lines += [*marks.get(place, ()), f"\t{instruction};"]
        lines += marks.get(len(self.instructions), ())
        return "\n".join([head, *self.directives, "{", *lines, "}"])


@dataclass
class Module:
    """All that a text declares."""

    directives: list[str]
    variables: list[Variable]
    functions: dict[str, Function]

    def __str__(self) -> str:
        variables = [f"{each};" for each in self.variables]
        return "\n".join([*self.directives, *variables, *map(str, self.functions.values()), ""])


@lru_cache(maxsize=512)
def parse(text: str) -> Module:
    """The module of a PTX text; MalformedText where it is none.

    >>> module = parse(".version 7.0 .target sm_80 .address_size 64 .visible .entry f() { ret; }")
    >>> module.functions["f"].instructions[0].opcode
    'ret'
    """
    return _Parser(text).module()


# -- tokens --------------------------------------------------------------------------------------------------------

TOKEN = re.compile(
    r"""(?P<skipped>\s+|//[^\n]*|/\*.*?\*/)
      | (?P<string>"[^"]*")
      | (?P<number>0[fF][0-9a-fA-F]{8}\b|0[dD][0-9a-fA-F]{16}\b|0[xX][0-9a-fA-F]+U?|0[bB][01]+U?
                  |\d+\.\d*(?:[eE][+-]?\d+)?|\d+U?)
      | (?P<word>(?:[.%$A-Za-z_]|::)(?:[\w$.%]|::)*)
      | (?P<mark>[{}()\[\],;:+\-|@!<>=*])""",
    re.VERBOSE | re.DOTALL,
)


class Token(NamedTuple):
    """A word, number, string or mark."""

    kind: str
    text: str
    line: int


def tokens(text: str) -> Iterator[Token]:
    """The tokens of a text without its comments, and an empty one at the end."""
    position, line = 0, 1
    while position < len(text):
        found = TOKEN.match(text, position)
        if found is None:
            raise _malformed(f"no token begins with {text[position : position + 20]!r}", line)
        kind = found.lastgroup or ""
        if kind != "skipped":
            yield Token(kind, found[0], line)
        line += found[0].count("\n")
        position = found.end()
    yield Token("end", "", line)


def _malformed(message: str, line: int) -> MalformedText:
    return MalformedText(f"line {line} of the PTX: {message}")


def integer(text: str) -> int:
    """The value of an integer in decimal, 0x or 0b."""
    return int(text.rstrip("U"), 0) if not re.fullmatch(r"-?0\d+", text) else int(text, 8)


# -- the grammar ---------------------------------------------------------------------------------------------------


class _Parser:
    """Reads tokens one by one, each construct in a method of its own."""

    def __init__(self, text: str) -> None:
        self.tokens = list(tokens(text))
        self.place = 0
        self.scopes: list[dict[str, str]] = []
        self.blocks = 0
        self.bare: set[str] = set()
        """The registers of this function by name, since not all names begin with %; `_` takes what nobody needs."""

    # tokens

    @property
    def next(self) -> Token:
        return self.tokens[self.place]

    def take(self) -> Token:
        self.place += 1
        return self.tokens[self.place - 1]

    def accept(self, *texts: str) -> str:
        """The next token if it is one of these, which is then behind us; else ""."""
        return self.take().text if self.next.text in texts else ""

    def expect(self, text: str) -> None:
        if not self.accept(text):
            raise _malformed(f"{text!r} expected before {self.next.text!r}", self.next.line)

    def line_of_directive(self) -> str:
        """A directive with what follows it on its line."""
        line, words = self.next.line, []
        while self.next.line == line and self.next.text not in ("{", "}", "") and self.next.kind != "end":
            words.append(self.take().text)
        return " ".join(words).replace(" ,", ",").replace(" . ", ".")

    # the module

    def module(self) -> Module:
        module = Module([], [], {})
        while self.next.kind != "end":
            if self.next.text in (".version", ".target", ".address_size"):
                module.directives.append(self.header())
            elif self.next.text in (".file", ".loc", ".section", ".pragma"):
                self.line_of_directive()
            else:
                self.definition(module)
        return module

    def header(self) -> str:
        words = [self.take().text, self.take().text]
        while self.accept(","):
            words[-1] += f", {self.take().text}"
        return " ".join(words)

    def definition(self, module: Module) -> None:
        """A variable or a function of the module."""
        linking = " ".join(iter(lambda: self.accept(*LINKING), ""))
        if self.next.text in (".entry", ".func"):
            function = self.function(linking)
            if function.is_defined or function.name not in module.functions:
                module.functions[function.name] = function
        elif self.next.text[1:] in SPACES:
            module.variables += self.variables(linking)
        else:
            raise _malformed(f"{self.next.text!r} begins no definition", self.next.line)

    # variables

    def variables(self, linking: str = "") -> list[Variable]:
        """One statement, which may name several."""
        space, type_, alignment = self.kind()
        found = [self.variable(space, type_, alignment, linking)]
        while self.accept(","):
            found.append(self.variable(space, type_, alignment, linking))
        self.expect(";")
        return found

    def kind(self) -> tuple[str, str, int]:
        """The space, type and alignment that a declaration begins with."""
        space, type_, alignment = self.take().text[1:], "", 0
        while self.next.text.startswith("."):
            word = self.take().text[1:]
            if word == "align":
                alignment = integer(self.take().text)
            elif word in WIDTHS:
                type_ = word
            elif word == "ptr":
                self.pointed_at()
            else:
                raise _malformed(f"'.{word}' is no type", self.next.line)
        return space, type_, alignment

    def pointed_at(self) -> None:
        """What a parameter points at, `.ptr .global .align 4`, which is not checked."""
        self.accept(*(f".{space}" for space in SPACES))
        if self.accept(".align"):
            self.take()

    def variable(self, space: str, type_: str, alignment: int, linking: str = "") -> Variable:
        name, count = self.declared(self.take().text), None
        while self.accept("["):
            extent = 0 if self.next.text == "]" else integer(self.take().text)
            count = extent if count is None else count * extent
            self.expect("]")
        initial = tuple(self.initial()) if self.accept("=") else ()
        return Variable(space, type_, name, count, alignment, initial, linking)

    def initial(self) -> Iterator[str]:
        """The values of an initialiser, nested braces flattened."""
        if not self.accept("{"):
            yield self.number()
            return
        while not self.accept("}"):
            yield from self.initial()
            self.accept(",")

    def number(self) -> str:
        sign = self.accept("-")
        if self.next.kind != "number":
            raise _malformed(f"a number expected before {self.next.text!r}", self.next.line)
        return sign + self.take().text

    # functions

    def function(self, linking: str) -> Function:
        is_entry = self.take().text == ".entry"
        self.scopes.append({})
        self.bare = {"_"}
        results = self.parameters() if self.next.text == "(" else []
        name = self.take().text
        parameters = self.parameters() if self.next.text == "(" else []
        function = Function(name, is_entry, results, parameters, linking)
        while self.next.text.startswith("."):
            function.directives.append(self.line_of_directive())
        function.is_defined = not self.accept(";")
        if function.is_defined:
            self.expect("{")
            self.body(function)
        self.scopes.pop()
        return function

    def parameters(self) -> list[Variable]:
        self.expect("(")
        found = []
        while not self.accept(")"):
            found.append(self.variable(*self.kind()))
            self.accept(",")
        return found

    def body(self, function: Function) -> None:
        """Statements up to the closing brace."""
        while not self.accept("}"):
            text = self.next.text
            if self.accept("{"):
                self.block(function)
            elif text == ".reg":
                function.registers += self.register_statement()
            elif text[1:] in SPACES and text.startswith("."):
                function.variables += self.variables()
            elif text in (".loc", ".pragma", ".file"):
                self.line_of_directive()
            elif self.tokens[self.place + 1].text == ":":
                function.labels[self.take().text] = len(function.instructions)
                self.take()
            else:
                function.instructions.append(self.instruction())

    def block(self, function: Function) -> None:
        self.blocks += 1
        self.scopes.append({})
        self.body(function)
        self.scopes.pop()

    def register_statement(self) -> list[Registers]:
        self.take()
        type_ = self.take().text[1:]
        found = [self.register_names(type_)]
        while self.accept(","):
            found.append(self.register_names(type_))
        self.expect(";")
        return found

    def register_names(self, type_: str) -> Registers:
        prefix, count = self.declared(self.take().text), None
        if self.accept("<"):
            count = integer(self.take().text)
            self.expect(">")
        self.bare |= {prefix} if count is None else {f"{prefix}{i}" for i in range(count)}
        return Registers(type_, prefix, count)

    # names

    def declared(self, name: str) -> str:
        """The name that a declaration gives: one of a block is numbered, since blocks may use a name again."""
        if len(self.scopes) < 2:
            return name
        self.scopes[-1][name] = f"{name}${self.blocks}"
        return self.scopes[-1][name]

    def meant(self, name: str) -> str:
        """What a name stands for here."""
        return next((scope[name] for scope in reversed(self.scopes) if name in scope), name)

    # instructions

    def instruction(self) -> Instruction:
        line, guard = self.next.line, None
        if self.accept("@"):
            negated = bool(self.accept("!"))
            guard = Register(self.meant(self.take().text), negated)
        if self.next.kind != "word":
            raise _malformed(f"{self.next.text!r} begins no statement", line)
        opcode, operands = self.take().text, []
        while not self.accept(";"):
            operands.append(self.operand())
            if self.next.text != ";":
                self.expect(",")
        return Instruction(opcode, tuple(operands), guard, line)

    def operand(self) -> Operand:
        first = self.single()
        return Pair(first, self.single()) if self.accept("|") else first

    def single(self) -> Operand:
        if self.accept("["):
            return self.address()
        for opening, closing in ("{}", "()"):
            if self.accept(opening):
                return Vector(tuple(self.listed(closing)), opening + closing)
        negated = bool(self.accept("!"))
        if self.next.kind == "number" or self.next.text == "-":
            return Immediate(self.number())
        if self.next.kind != "word":
            raise _malformed(f"{self.next.text!r} is no operand", self.next.line)
        name = self.meant(self.take().text)
        if self.is_register(name):
            return Register(name, negated)
        return Symbol(name, self.offset())

    def is_register(self, name: str) -> bool:
        return name.startswith("%") or name in self.bare

    def listed(self, closing: str) -> Iterator[Operand]:
        while not self.accept(closing):
            yield self.operand()
            self.accept(",")

    def address(self) -> Address:
        base: Register | Symbol | Immediate
        if self.next.kind == "number":
            base = Immediate(self.take().text)
        else:
            name = self.meant(self.take().text)
            base = Register(name) if self.is_register(name) else Symbol(name)
        offset = self.offset()
        self.expect("]")
        return Address(base, offset)

    def offset(self) -> int:
        sign = self.accept("+", "-")
        return integer(self.number()) * (-1 if sign == "-" else 1) if sign else 0
