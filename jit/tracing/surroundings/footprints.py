"""Footprints: the code that a function has run so far, and the names by which it looks things up.

Note [Footprints]
    What a deterministic program reads next is decided by what it has read before. So as long as the places that the
    code of a recorded call can read hold what they held, and its guards hold, the same code runs, and reads no other
    place. The code that ran is known: the hook that sees calls (Note [Seeing calls]) sees functions start, too. What it
    can read are the globals that it names, the closures and defaults of its functions, and attributes of the objects
    that it reaches by these, but only those attributes whose names occur in the code, as names or in strings. Where
    attributes are looked up by names made at run time (`getattr` with a computed name, `vars`, `__dict__`, `copy`), all
    of them count.

    An attribute of a network that code sets, and that no code that ran can have read before, says nothing about the
    call: what it held makes no difference, and what it holds afterwards is a result (Note [Attributes that are set] in
    jit.tracing.recorder.attributes). So networks' attributes count only if they may be read: their names have a mark,
    "get attn" beside "attn", which names have that code loads, and all words in strings.

    The footprint of a traced function grows with its recordings, and the keys grow with it
    (jit.tracing.recordings.rekeying).
"""

from __future__ import annotations

import dis
import functools
import os
import re
import types
from collections.abc import Collection, Iterable, Iterator, Set
from typing import Any, NamedTuple

from jit.eager.context import PACKAGE

from .descriptions import DESCRIPTIONS
from .origins import WITH_STATE, is_foreign, is_harmless, is_ours
from .setting import set_only

_GETTERS = frozenset({"getattr", "hasattr", "setattr", "delattr"})
_ANY_NAME = frozenset(
    {"__dict__", "vars", "dir", "eval", "exec", "attrgetter", "methodcaller", "__getattribute__", "__reduce_ex__",
     "__reduce__", "__getstate__", "getmembers", "__slots__", "pickle", "dumps"}
)  # fmt: skip
_COPIERS = {
    "copy": "", "copyreg": "", "pickle": "", "string": "get_field",
    "dataclasses": "asdict _asdict_inner astuple _astuple_inner replace _replace",
}  # fmt: skip
"""Modules of Python that look at whatever attributes an object has -> the functions that do; "" for all of them."""
_ON_OBJECTS = tuple(f"{PACKAGE}{folder}{os.sep}" for folder in WITH_STATE)
"""Code of this package that looks up attributes of the user's objects."""
_WORD = re.compile(r"[^\W\d]\w*")


class CodeScan(NamedTuple):
    """The names that code, and code inside of it, mentions."""

    loaded: tuple[str, ...]
    """The names that it reads or writes as globals."""
    named: tuple[str, ...]
    """All names in its instructions, of attributes above all."""
    names: frozenset[str]
    """These, and the words in its strings; those that are read also with the mark of `reading`."""
    read: frozenset[str]
    """The names among these of attributes that may be read before the code has set them."""
    strings: frozenset[str]
    """Strings of the code as they are."""
    imported: tuple[str, ...]
    """The modules that it imports while it runs."""
    dynamic: bool
    """Whether it may look attributes up by names that do not stand in it."""
    sees_callers: bool
    """Whether it looks at the frames of those that call it."""


@functools.cache
def scan(code: types.CodeType) -> CodeScan:
    """Read code once."""
    inner = [scan(c) for c in code.co_consts if isinstance(c, types.CodeType)]
    found = set(names_in_code(code, _GLOBAL)).union(*(s.loaded for s in inner))
    named = tuple(dict.fromkeys([*code.co_names, *(name for s in inner for name in s.named)]))
    strings = frozenset(_strings(code.co_consts)).union(*(s.strings for s in inner))
    words = {word for text in strings if len(text) < 200 for word in words_in(text)}
    read = {*named, *words}.difference(set_only(code)).union(*(s.read for s in inner), words)
    imports = [name for name in names_in_code(code, _IMPORT) if name]
    imports += [name for s in inner for name in s.imported]
    dynamic = any(s.dynamic for s in inner) or _looks_up_any_name(code)
    loaded = tuple(name for name in named if name in found)
    callers = "f_back" in named or ("_getframe" in named and not _asks_for_own_frame(code))
    return CodeScan(
        loaded, named, frozenset({*named, *words, *as_read(read)}), frozenset(read), strings,
        tuple(dict.fromkeys(imports)), dynamic, callers,
    )  # fmt: skip


def words_in(text: str) -> set[str]:
    """The words of a text that may be names of attributes."""
    return {*_WORD.findall(text)}


def reading(name: str) -> str:
    """The mark of an attribute that is read: a network's counts only if it has one, see Note [Footprints]."""
    return f"get {name}"


def as_read(names: Iterable[str]) -> set[str]:
    """Names of attributes that are looked up, with and without the mark."""
    known = set(names)
    return known.union(map(reading, known))


_ENVIRONMENT = frozenset({"environ", "getenv", "environb", "getenvb"})


def _strings(constants: Collection[Any]) -> Iterator[str]:
    for constant in constants:
        if isinstance(constant, str):
            yield constant
        elif isinstance(constant, (tuple, frozenset)):
            yield from _strings(constant)


def _looks_up_any_name(code: types.CodeType) -> bool:
    names = frozenset(code.co_names)
    if names & _ANY_NAME or any(o == _MATCH_CLASS for o in code.co_code[::2]):
        return True
    return bool(names & _GETTERS) and not _getters_are_constant(code)


def _asks_for_own_frame(code: types.CodeType) -> bool:
    """Whether `sys._getframe` is called without an argument, everywhere."""
    instructions = [i for i in dis.get_instructions(code) if i.opname not in ("CACHE", "EXTENDED_ARG", "PUSH_NULL")]
    after = [instructions[at + 1] for at, i in enumerate(instructions[:-1]) if i.argval == "_getframe"]
    return bool(after) and all(i.opname in ("PRECALL", "CALL") and i.arg == 0 for i in after)


def _getters_are_constant(code: types.CodeType) -> bool:
    """Whether every `getattr` and its like is called at once, with a name that stands in the code."""
    instructions = [i for i in dis.get_instructions(code) if i.opname not in ("CACHE", "EXTENDED_ARG", "NOP")]
    loads = [at for at, i in enumerate(instructions) if i.argval in _GETTERS and "CONST" not in i.opname]
    return all("LOAD_GLOBAL" in instructions[at].opname and _takes_constant(instructions, at) for at in loads)


def _takes_constant(instructions: list[dis.Instruction], at: int) -> bool:
    """Whether the function that instruction `at` loads is called with a constant as its second argument.

    The call is found by following the stack's depth.
    """
    depth = 0
    starts: dict[int, int] = {}
    """The depth of the stack above the function; the instruction at which each argument starts."""
    for index, i in enumerate(instructions[at + 1 :], at + 1):
        if "JUMP" in i.opname or i.opname == "FOR_ITER":
            return False
        if i.opname.startswith("CALL") and depth == (i.arg or 0) and i.opname != "CALL_INTRINSIC_1":
            second = starts.get(1)
            if i.opname != "CALL" or second is None or instructions[second].opname != "LOAD_CONST":
                return False
            return (starts[2] if depth > 2 else _before_call(instructions, index)) == second + 1
        if i.opname == "PUSH_NULL" and depth == 0:
            continue
        before, depth = depth, depth + _effect(i)
        starts.update({d: index for d in range(before, depth)})
        if depth < 0:
            return False
    return False


def _effect(instruction: dis.Instruction) -> int:
    """The growth of the stack by an instruction; on Python 3.11 a call is two instructions."""
    if instruction.opname in ("CALL", "PRECALL"):
        return -1 - (instruction.arg or 0) if instruction.opname == "CALL" else 0
    return dis.stack_effect(instruction.opcode, instruction.arg, jump=False)


def _before_call(instructions: list[dis.Instruction], index: int) -> int:
    return index - 1 if instructions[index - 1].opname == "PRECALL" else index


# -- names -------------------------------------------------------------------------------------------------------

_GLOBAL = {i for i, name in enumerate(dis.opname) if "GLOBAL" in name or name == "LOAD_NAME"}
_IMPORT = {dis.opmap["IMPORT_NAME"]}
_MATCH_CLASS = dis.opmap["MATCH_CLASS"]


def names_in_code(code: types.CodeType, opcodes: Collection[int]) -> Iterator[str]:
    """The names that instructions of these kinds name: what `dis.get_instructions` says, many times as fast.

    Args:
        code: The code whose instructions are read, without code inside of it.
        opcodes: The opcodes of instructions that load, store or import names.
    """
    if not _is_as_expected():
        yield from (i.argval for i in dis.get_instructions(code) if i.opcode in opcodes)
        return
    yield from _names(code, opcodes)


def _names(code: types.CodeType, opcodes: Collection[int]) -> Iterator[str]:
    extended, load_global = 0, dis.opmap["LOAD_GLOBAL"]
    units = code.co_code
    for opcode, low in zip(units[::2], units[1::2]):
        argument = extended | low
        extended = argument << 8 if opcode == dis.EXTENDED_ARG else 0
        if opcode in opcodes:
            yield code.co_names[argument >> 1 if opcode == load_global else argument]


@functools.cache
def _is_as_expected() -> bool:
    """Whether instructions hold names as `_names` expects, which other versions of Python may change."""
    sample = compile(_SAMPLE, "sample", "exec")
    opcodes = _GLOBAL | _IMPORT | {dis.opmap[name] for name in ("STORE_ATTR", "DELETE_ATTR")}
    try:
        return all(list(_names(code, opcodes)) == [i.argval for i in dis.get_instructions(code) if i.opcode in opcodes]
                   for code in (sample, *codes_in(sample)))  # fmt: skip
    except IndexError:
        return False


_SAMPLE = """
def f():
    global a, b, c
    import d, e.f
    a = b(d.a, len); d.b = a.x().y[b]; del d.b, a; c = c.m(c)
"""


_DESCRIBING = frozenset(as_read(DESCRIPTIONS))

Step = tuple[types.CodeType, dict[str, Any]] | str | frozenset[str] | None
"""Growth of a footprint: code starts to run, with its globals; a module is imported by a name made at run time; names
are looked up by a getter; or, None, it is not known what will run."""


# -- what ran ----------------------------------------------------------------------------------------------------


class Footprint:
    """The code that has run, and what it may look up."""

    def __init__(self, everything: bool = False) -> None:
        self.everything = everything
        """Whether it is unknown which code has run: then all code that can be reached counts."""
        self.codes: dict[int, tuple[types.CodeType, dict[str, Any]]] = {}
        """The code whose globals count, with these globals, by the code's identity."""
        self.started: dict[int, types.CodeType] = {}
        """All code that has run, and code inside of that, by identity."""
        self._harmless: set[int] = set()
        self.layers: dict[int, tuple[types.CodeType, dict[str, Any]]] = {}
        """Code of this package's layers, and its globals, by identity."""
        self.names: set[str] = set()
        self.strings: set[str] = set()
        self.modules: dict[str, None] = {}
        """Modules that were imported by names made at run time."""
        self.dynamic = everything
        self.sees_callers = False
        self.asks_environment = False
        """Whether code of Python's library that has run looks at `os.environ`."""
        self.steps: list[Step] = []
        """The steps by which it has grown."""

    def copy(self) -> Footprint:
        """One that may grow on its own."""
        made = Footprint(self.everything)
        made.codes, made.started, made.modules = dict(self.codes), dict(self.started), dict(self.modules)
        made.names, made.strings, made._harmless = set(self.names), set(self.strings), set(self._harmless)
        made.layers = dict(self.layers)
        made.dynamic, made.sees_callers = self.dynamic, self.sees_callers
        made.asks_environment = self.asks_environment
        made.steps = list(self.steps)
        return made

    def take(self, step: Step) -> Set[str] | None:
        """Grow by a step; the names of attributes that count from now on, or None if it was known."""
        if isinstance(step, tuple):
            names = self._add(*step)
        elif isinstance(step, str):
            names = None if step in self.modules else frozenset()
            self.modules[step] = None
        elif step is None:
            names = None if self.everything else frozenset()
            self.everything = self.dynamic = True
        else:
            names = step - self.names or None
            self.names |= step
        if names is not None:
            self.steps.append(step)
        return names

    def _add(self, code: types.CodeType, space: dict[str, Any]) -> Set[str] | None:
        """Grow by code that has started to run, with its globals; the new names, or None if it was known."""
        if id(code) in self.started and (id(code) in self.codes or id(code) in self._harmless):
            return None
        new: Set[str] = frozenset()
        path = _path_of(code, space)
        self.started.update((id(each), each) for each in (code, *codes_in(code)))
        if is_harmless(path):
            self._harmless.add(id(code))
            if path.startswith(_ON_OBJECTS):
                self.layers[id(code)] = (code, space)
        else:
            self.codes[id(code)] = (code, space)
        if not is_ours(path) or path.startswith(_ON_OBJECTS):
            found = scan(code)
            new = (found.names if _asks_for_others(path) else found.names - _DESCRIBING) - self.names
            self.names |= new
            self.asks_environment |= is_harmless(path) and not _ENVIRONMENT.isdisjoint(found.named)
            self.strings |= found.strings
            self.dynamic |= found.dynamic and _is_curious(path, code.co_name)
            self.sees_callers |= found.sees_callers and not is_harmless(path)
        return new

    def has_run(self, code: types.CodeType) -> bool:
        """Whether what a function with this code holds counts."""
        return self.everything or id(code) in self.started

    def looks_up(self, name: str) -> bool:
        """Whether the attribute called `name` counts, wherever it is."""
        return name in self.names or (self.dynamic and name not in _DESCRIBING)

    def size(self) -> Any:
        """A value that differs after every growth."""
        flags = self.dynamic, self.everything, self.asks_environment
        return len(self.codes), len(self.layers), len(self.names), len(self.modules), *flags

    def joined(self, other: Footprint) -> Footprint:
        """Both: the steps of this one, then what the other has made besides."""
        if other.steps[: len(self.steps)] == self.steps:
            return other
        made = self.copy()
        for step in other.steps:
            made.take(step)
        return made


def is_mute(code: types.CodeType) -> bool:
    """Whether code is of this package, and nothing in the user's world counts because it has run."""
    path = code.co_filename
    return not code.co_freevars and is_ours(path) and not path.startswith(_ON_OBJECTS)


def codes_in(code: types.CodeType) -> Iterator[types.CodeType]:
    """All code inside of code."""
    for constant in code.co_consts:
        if isinstance(constant, types.CodeType):
            yield constant
            yield from codes_in(constant)


def holds_nothing(code: types.CodeType) -> bool:
    """Whether it makes no difference that a function of this package with this code has run."""
    if code.co_freevars or code.co_filename.startswith(_ON_OBJECTS):
        return False
    return all(holds_nothing(inner) for inner in code.co_consts if isinstance(inner, types.CodeType))


def _path_of(code: types.CodeType, space: dict[str, Any]) -> str:
    """The file that code is from: of code that was written by a program, that of its module."""
    path = code.co_filename
    found = space.get("__file__") if path.startswith("<") and not path.startswith(("<frozen", "<jit")) else None
    return found if isinstance(found, str) else path


@functools.cache
def _asks_for_others(path: str) -> bool:
    """Whether code in a file asks for descriptions of the user's functions and classes."""
    return not is_harmless(path) or path.endswith(("inspect.py", "typing.py", "annotationlib.py"))


@functools.cache
def _is_curious(path: str, function: str) -> bool:
    """Whether a function in a file looks up attributes of the user's objects by names made at run time."""
    if not is_harmless(path):
        return True
    functions = _COPIERS.get(path.replace("\\", "/").rpartition("/")[2].removesuffix(".py"))
    return is_foreign(path) and functions is not None and (not functions or function in functions.split())


__all__ = [
    "Footprint", "Step", "as_read", "codes_in", "holds_nothing", "is_mute", "names_in_code", "reading", "scan",
    "words_in",
]  # fmt: skip
