"""The machine code of a process, and how it gets there: compiled by LLVM, or object files from the cache, linked.

Comes below `codegen`, which says what to compile.

Note [How code is kept]
    Compiled code is kept for the life of the process, about 50 KB a module, in one linker that owns all of it; a
    kernel that was compiled before costs nothing. The pass pipeline is two passes, made anew for each module: a pass
    manager must not run twice, and the standard pipelines would leak. Everything LLVM does happens under one lock;
    calls of kernels take no lock and release the GIL.

Note [What decides on machine code]
    The text of a module, the target, LLVM's version and the passes. A digest of these names the object file in the
    `cache` on disk. What an object file imports is told by the declarations in the text, so nothing has to be parsed.
"""

from __future__ import annotations

import ast
import contextlib
import ctypes
import itertools
import os
import re
import threading
from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import cache, cached_property, partial
from typing import TYPE_CHECKING, Any, NamedTuple

from jit.ir.errors import CompileError

from ..targets.target import Target, binding
from . import cache as caching
from . import linking

if TYPE_CHECKING:  # a process that finds its plans in the cache needs none of these
    from ..llvm.function import LoweredFunction

_PASSES = "2: combine, simplify"
"""A version of what `optimized` does: change it together with that, so that older object files are not used."""


class Facts(NamedTuple):
    """The place of a function's code, and what its callers must know."""

    image: str
    """The object file's name in the cache."""
    name: str
    numbers: tuple[tuple[Any, ...], ...]
    lanes: int
    functions: int
    """The number of functions in the object file."""
    imports: tuple[tuple[str, str], ...]
    """Calls out of the object file: the names that it uses, and those of the C functions."""


class CodePlace(NamedTuple):
    """The place of a function's code: enough to find its address."""

    image: str
    """The object file's name in the cache."""
    name: str
    functions: int
    """The number of functions in the object file."""
    imports: tuple[tuple[str, str], ...]
    """Calls out of the object file: the names that it uses, and those of the C functions."""


class Code:
    """A compiled function."""

    def __init__(self, facts: Facts, target: Target, write: Callable[[], LoweredFunction], address: int) -> None:
        self.facts = facts
        self.target = target
        self._write = write
        self.address = address
        """The address of `int32 kernel(void **data, int64 *geometry)`, see `llvm.lowering`."""

    @cached_property
    def function(self) -> LoweredFunction:
        """The function before LLVM: written when asked for, if the code came from the cache."""
        return self._write()

    @property
    def numbers(self) -> tuple[tuple[Any, ...], ...]:
        """The numbers that the function takes as `geometry`, see `llvm.function.LoweredFunction`."""
        return self.facts.numbers

    @property
    def lanes(self) -> int:
        """The number of points of a row, or of rows, that a turn takes."""
        return self.facts.lanes

    @property
    def asm(self) -> str:
        """The machine code as assembly, generated when asked for."""
        with STORE.lock:
            module = optimized(self.function.text(), self.target)
            return str(_machine(self.target).emit_assembly(module))


class CodeStore:
    """All machine code of a process: a kernel that was compiled before costs nothing."""

    def __init__(self) -> None:
        self.lock = threading.Lock()
        """Held for everything that LLVM does."""
        self.codes: dict[tuple[LoweredFunction, Target], Code] = {}
        self.by_place: dict[tuple[str, str], Code] = {}
        """Loaded code by object file and name: the same code, however it was asked for."""
        self.images: dict[str, tuple[dict[str, int], Any]] = {}
        """Object files in memory: the addresses of their functions, and what keeps them there."""
        self.compilations = 0
        """The number of modules that LLVM has compiled in this process; those that came from the cache do not count."""
        self._serial = itertools.count()
        """Numbers for the names of libraries; the name of one that failed to link stays taken."""

    def renew_lock(self) -> None:
        """Make a new lock in a forked child, where a thread that held the old one does not exist."""
        self.lock = threading.Lock()

    def compiled(self, functions: Sequence[LoweredFunction], target: Target) -> list[Code]:
        """Compile those of `functions` that are new; CompileError if one is malformed or calls an unknown function."""
        with self.lock:
            new = [f for f in dict.fromkeys(functions) if (f, target) not in self.codes]
            if new:
                self.codes.update(((f, target), code) for f, code in zip(new, self._compile(new, target)))
            return [self.codes[f, target] for f in functions]

    def recorded(
        self, record: bytes, writers: Sequence[Callable[[], LoweredFunction]], target: Target, kept: caching.DiskCache
    ) -> list[Code] | None:
        """The codes of a record; None if an object file is gone, or does not link here."""
        rows = [Facts(*row) for row in ast.literal_eval(record.decode())]
        with self.lock, contextlib.suppress(CompileError):
            if all([self._is_loaded(facts, target, kept) for facts in rows]):
                pairs = zip(rows, writers, strict=True)
                return [self._code(f, target, write) for f, write in pairs]
        return None

    def places(self) -> dict[int, CodePlace]:
        """The origins of the functions of this process, by their addresses."""
        with self.lock:
            codes = list(self.by_place.values())
        return {c.address: CodePlace(c.facts.image, c.facts.name, c.facts.functions, c.facts.imports) for c in codes}

    def placed(self, place: CodePlace) -> int | None:
        """The address of a function of an object file; None if that is not in the cache, or does not link here."""
        kept = caching.shared()
        with self.lock, contextlib.suppress(CompileError):
            if kept is not None and self._is_loaded(place, Target.host(), kept):
                return self.images[place.image][0].get(place.name)
        return None

    def _code(self, facts: Facts, target: Target, write: Callable[[], LoweredFunction]) -> Code:
        """The code of a function whose object file is in memory."""
        address = self.images[facts.image][0][facts.name]
        return self.by_place.setdefault((facts.image, facts.name), Code(facts, target, write, address))

    def _compile(self, functions: Sequence[LoweredFunction], target: Target) -> list[Code]:
        names = _names(len(functions))
        declarations = dict.fromkeys(line for f in functions for line in f.declarations)
        text = "\n".join([*declarations, *(f.named(name) for f, name in zip(functions, names))])
        image, imports = _name_of(text, target), _c_names(_DECLARED.findall(text))
        if image not in self.images:
            addresses = _resolved(imports)
            self.images[image] = self.link(self.object_file(text, target), names, addresses, target)
        codes = []
        for f, name in zip(functions, names):
            facts = Facts(image, name, f.numbers, f.lanes, len(names), tuple(imports.items()))
            codes.append(self._code(facts, target, partial(_same, f)))
        return codes

    def _is_loaded(self, place: Facts | CodePlace, target: Target, kept: caching.DiskCache) -> bool:
        """Whether an object file is in memory, once it was loaded from the cache if that has it."""
        if place.image not in self.images:
            image = kept.load(place.image)
            if image is None:
                return False
            addresses = _resolved(dict(place.imports))
            self.images[place.image] = self.link(image, _names(place.functions), addresses, target)
        return True

    def link(
        self, image: bytes, names: Sequence[str], imports: dict[str, int], target: Target
    ) -> tuple[dict[str, int], Any]:
        """The addresses of the functions in an object file, and what keeps them in memory."""
        if linking.available():
            with contextlib.suppress(linking.Unlinkable):
                return linking.link(image, imports)
        library = binding().JITLibraryBuilder().add_object_img(image)
        for name in names:
            library.export_symbol(name)
        for name, address in imports.items():
            library.import_symbol(name, address)
        try:
            owner = library.link(_linker(target), f"library{next(self._serial)}")
        except RuntimeError as error:
            raise CompileError(f"the kernel could not be linked: {error}; run with the interpreter") from error
        return {name: owner[name] for name in names}, owner

    def object_file(self, text: str, target: Target) -> bytes:
        """The object file of a module: from the cache, or compiled and put there."""
        kept, name = caching.shared(), _name_of(text, target)
        if kept is None:
            return self._emitted(text, target)
        image = kept.load(name)
        if image is None:
            with kept.turn(name):
                image = kept.load(name)  # another process may just have compiled it
                if image is None:
                    image = self._emitted(text, target)
                    kept.store(name, image)
        return image

    def _emitted(self, text: str, target: Target) -> bytes:
        self.compilations += 1
        image: bytes = _machine(target).emit_object(optimized(text, target))
        return image


STORE = CodeStore()
os.register_at_fork(after_in_child=STORE.renew_lock)


def _names(count: int) -> list[str]:
    """Names of the functions of a module."""
    return [f"kernel{number}" for number in range(count)]


def _same(function: LoweredFunction) -> LoweredFunction:
    return function


# -- LLVM --------------------------------------------------------------------------------------------------------------


_DECLARED = re.compile(r'^declare [^@\n]*@"?([^"(\n]+)"?\(', re.MULTILINE)


def _name_of(text: str, target: Target) -> str:
    """The name of a module's object file, see Note [What decides on machine code]."""
    return caching.digest([text, _PASSES, *target.circumstances()])


def optimized(text: str, target: Target) -> Any:
    """The module, verified and simplified by two passes; the lowering has hoisted and shared instructions already."""
    llvm = binding()
    try:
        module = llvm.parse_assembly(text)
        module.verify()
    except RuntimeError as error:
        raise CompileError(f"the kernel's LLVM IR is malformed: {error}; run with the interpreter") from error
    builder = llvm.create_pass_builder(_machine(target), llvm.create_pipeline_tuning_options(speed_level=2))
    passes = llvm.create_new_module_pass_manager()
    passes.add_instruction_combine_pass()
    passes.add_simplify_cfg_pass()
    passes.run(module, builder)
    return module


@cache
def _machine(target: Target) -> Any:
    return target.machine()


@cache
def _linker(target: Target) -> Any:
    # JITLink lays a library out in one piece, so that the small code model's short addresses always reach.
    return binding().create_lljit_compiler(target.machine(), use_jit_link=True, suppress_errors=True)


# -- names of C functions ----------------------------------------------------------------------------------------------


def _c_names(declared: Iterable[str]) -> dict[str, str]:
    """The C functions among what a module declares; CompileError for a name that is neither that nor LLVM's own."""
    from ..llvm.math import PREFIX

    found = {}
    for name in declared:
        if not name.startswith("llvm."):
            if not name.startswith(PREFIX):
                _refuse_call(name)
            found[name] = name.removeprefix(PREFIX)
    return found


def _resolved(names: Mapping[str, str]) -> dict[str, int]:
    """The addresses of C functions, by the names that modules give them; CompileError for unknown ones."""
    found = {}
    for name, function in names.items():
        address = _c_function(function)
        if address is None:
            _refuse_call(name)
        else:
            found[name] = address
    return found


def _refuse_call(name: str) -> None:
    raise CompileError(f"the kernel calls {name!r}, which this process does not have; run with the interpreter")


@cache
def _c_function(name: str) -> int | None:
    """The address of a function of the C mathematical library, or None."""
    if not re.fullmatch(r"[a-z][a-z0-9]*", name):
        return None
    from ctypes.util import find_library

    for library in (find_library("m"), None):
        try:
            return ctypes.cast(getattr(ctypes.CDLL(library), name), ctypes.c_void_p).value
        except (OSError, AttributeError):
            continue
    return None
