"""Compiles kernels to machine code in memory, once for each distinct function, several in one LLVM module.

Comes after `llvm.lower`. LLVM ends the process on many errors, so nothing unverified reaches it: the module is
verified, every function that it declares is looked up beforehand, and the linker (ORC) refuses what it cannot find,
so that an unknown name is an error here rather than a crash in the call.

Note [How code is kept]
    Compiled code is kept for the life of the process, about 50 KB a module, in one linker that owns all of it; a
    kernel that was compiled before costs nothing. The pass pipeline is two passes, made anew for each module: a pass
    manager must not run twice, and the standard pipelines would leak. Everything LLVM does happens under one lock;
    calls of kernels take no lock and release the GIL.

Note [What decides on machine code]
    The text of a module, the target, LLVM's version and the passes. A digest of these names the object file in the
    `cache` on disk. What an object file imports is told by the declarations in the text, so nothing has to be parsed.

Note [Code without text]
    Writing that text takes longer than all the rest once the object file is there. So the functions of a call of
    `compile_nests` are recorded under what decides on their text (`recipes`): which object file they are in, under
    which name, and what a caller must know of them - the numbers to pass, and the lanes. A process that finds the
    record and the file links them, and imports nothing that writes or reads LLVM. The text is written when asked for.
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

import numpy as np

from jit.ir.errors import CompileError, DimError, DivisionError

from ..targets.target import Target, binding
from . import cache as caching
from . import linking, recipes

if TYPE_CHECKING:  # a process that finds its plans in the cache needs none of these
    from ..llvm.function import Function
    from .nest import Buffer, Nest
    from .schedule import Loops

Array = np.ndarray[Any, Any]

_SIGNATURE = ctypes.CFUNCTYPE(ctypes.c_int32, ctypes.c_void_p, ctypes.c_void_p)
_lock = threading.Lock()
_compiled: dict[tuple[Function, Target], Code] = {}
_recalled: dict[tuple[str, str], Code] = {}
"""By object file and name: the same code, however it was asked for."""
_images: dict[str, tuple[dict[str, int], Any]] = {}
"""Object files in memory: the addresses of their functions, and what keeps them there."""
_serial = itertools.count()
"""Names of libraries; one that failed to link stays taken."""
_PASSES = "2: combine, simplify"
"""Changes with what `_optimized` does, so that object files of before are not taken for those of now."""
compilations = 0
"""How many modules LLVM has compiled in this process; those that came from the cache are none."""


class Code:
    """A compiled function."""

    def __init__(self, facts: Facts, target: Target, write: Callable[[], Function]) -> None:
        self.facts = facts
        self.target = target
        self._write = write
        self.address = _images[facts.image][0][facts.name]
        """Of `int32 kernel(void **data, int64 *geometry)`, see `llvm.lowering`."""

    @cached_property
    def function(self) -> Function:
        """The function before LLVM: written when asked for, if the code came from the cache."""
        return self._write()

    @property
    def numbers(self) -> tuple[tuple[Any, ...], ...]:
        """What the function takes as `geometry`, see `llvm.function.Function`."""
        return self.facts.numbers

    @property
    def lanes(self) -> int:
        """How many points of a row a turn takes, or how many rows."""
        return self.facts.lanes

    @property
    def asm(self) -> str:
        """The machine code as assembly, generated when asked for."""
        with _lock:
            module = _optimized(self.function.text(), self.target)
            return str(_machine(self.target).emit_assembly(module))


class Facts(NamedTuple):
    """Where the code of a function is, and what its callers must know."""

    image: str
    """The object file's name in the cache."""
    name: str
    numbers: tuple[tuple[Any, ...], ...]
    lanes: int
    functions: int
    """How many there are in the object file."""
    imports: tuple[tuple[str, str], ...]
    """What the object file calls: the names that it uses, and those of the C functions."""


class Place(NamedTuple):
    """Where the code of a function is: enough to find its address."""

    image: str
    """The object file's name in the cache."""
    name: str
    functions: int
    """How many there are in the object file."""
    imports: tuple[tuple[str, str], ...]
    """What the object file calls: the names that it uses, and those of the C functions."""


def places() -> dict[int, Place]:
    """Where the functions that this process has come from, by their addresses."""
    with _lock:
        codes = list(_recalled.values())
    return {c.address: Place(c.facts.image, c.facts.name, c.facts.functions, c.facts.imports) for c in codes}


def placed(place: Place) -> int | None:
    """The address of a function of an object file; None if that is not in the cache, or does not link here."""
    kept = caching.shared()
    with _lock, contextlib.suppress(CompileError):
        if kept is not None and _is_loaded(place, Target.host(), kept):
            return _images[place.image][0].get(place.name)
    return None


class Kernel:
    """A nest compiled: callable with arrays of the layouts that the nest names.

    Native callers use `address`, of `int32 kernel(void **data, int64 *geometry)`. `data` holds the addresses of the
    nest's inputs, then of its outputs (of index (0, 0, ...), whatever the strides), then that of `scratch_bytes` of
    scratch memory unless that is 0. `geometry` is the attribute of that name, or a `part` of it. A nest of no points
    must not be called. 0 is success; `check_status` raises for other results. Calls need no lock; calls that run
    at once need scratch memory each. What is passed is read-only but for the outputs and the scratch memory.

    >>> from jit.runtime.kernels.nest import pointwise_nest
    >>> x, out = np.arange(4, dtype=np.float32), np.empty(4, np.float32)
    >>> kernel = compile_nest(pointwise_nest(lambda m, a: a * a + 1, [x], [out]))
    >>> kernel([x], [out])
    >>> out.tolist()
    [1.0, 2.0, 5.0, 10.0]
    """

    def __init__(self, nest: Nest, code: Code, loops: Loops) -> None:
        self.nest = nest
        self.code = code
        self.loops = loops
        self.geometry = geometry_of(nest, loops, code)
        """The numbers that the function is called with."""
        self.scratch_bytes = _kept(nest, loops, code)[None]
        """How much scratch memory a call needs, aligned to 64 bytes; 0 for most kernels."""
        self._call = _SIGNATURE(code.address)
        self._empty = 0 in nest.extents
        self._layouts = [_layout(buffer) for buffer in nest.inputs + nest.outputs]

    @property
    def name(self) -> str:
        """What the nest calls it."""
        return self.nest.name

    @property
    def llvm_ir(self) -> str:
        """The LLVM IR as it was generated, before LLVM's passes."""
        return self.code.function.text(self.name, self.nest.comments)

    @property
    def asm(self) -> str:
        """The assembly, in which the function is called `kernel`."""
        return self.code.asm

    @property
    def address(self) -> int:
        """The function's address."""
        return self.code.address

    @property
    def rows(self) -> int:
        """How many turns the outermost loop has, if they may be shared out among threads; else 1."""
        return self.loops.extents[0] if self.loops.parallel else 1

    def part(self, start: int, stop: int) -> Any:
        """`geometry` for the turns `start` to `stop` of `rows`; the results are those of one call, bit for bit."""
        return geometry_of(self.nest, self.loops, self.code, start, stop)

    def __call__(self, inputs: Sequence[Array], outputs: Sequence[Array]) -> None:
        """Compute `outputs` from `inputs`, without the GIL.

        Raises CompileError if an array's layout is not the nest's, DivisionError if an integer was divided by zero
        (the outputs are then written all the same).
        """
        arrays = [*inputs, *outputs]
        if len(arrays) != len(self._layouts):
            raise CompileError(f"{self.name}: called with {len(arrays)} arrays for {len(self._layouts)} buffers")
        for array, (dtype, shape, strides) in zip(arrays, self._layouts):
            if array.strides != strides or array.shape != shape or array.dtype != dtype:
                self._refuse_layout(array, dtype, shape, strides)
        for output in outputs:
            if not output.flags.writeable:
                raise CompileError(f"{self.name}: an output array is read-only")
        if not self._empty:
            if self.scratch_bytes:
                arrays.append(_scratch(self.scratch_bytes))
            self.run((ctypes.c_void_p * len(arrays))(*(a.ctypes.data for a in arrays)))

    def run(self, data: Any) -> None:
        """Call the function with the addresses of the buffers; the caller vouches for them and keeps them alive."""
        check_status(self._call(data, self.geometry))

    def _refuse_layout(self, array: Array, dtype: Any, shape: tuple[int, ...], strides: tuple[int, ...]) -> None:
        """Strides of dims with one element, or of no elements at all, may differ; nothing else may."""
        moving = [i for i, size in enumerate(shape) if size > 1]
        same_steps = array.shape == shape and all(array.strides[i] == strides[i] for i in moving)
        if array.dtype == dtype and array.shape == shape and (same_steps or 0 in shape):
            return
        wanted = f"{dtype}{list(shape)} with byte strides {list(strides)}"
        given = f"{array.dtype}{list(array.shape)} with {list(array.strides)}"
        raise CompileError(f"{self.name}: compiled for {wanted}, called with {given}")


def check_status(status: int) -> None:
    """Raise the error that a kernel has returned, if it has."""
    if not status:
        return
    from ..llvm.division import DIVISION_BY_ZERO
    from ..llvm.memory import OUT_OF_RANGE

    if status & DIVISION_BY_ZERO:
        raise DivisionError("an integer was divided by zero; mask the zeros or cast to a floating dtype first")
    if status & OUT_OF_RANGE:
        raise DimError("an index is out of range of the dim that it indexes")


def _scratch(size: int) -> Array:
    """Aligned memory."""
    whole = np.empty(size + _ALIGNMENT, np.uint8)
    start = -whole.ctypes.data % _ALIGNMENT
    return whole[start : start + size]


def compile_nest(nest: Nest, target: Target | None = None) -> Kernel:
    """Compile `nest` for this machine, or take the code of an equal kernel compiled before.

    Raises CompileError if the body asks for something that kernels do not have; the interpreter does then.
    """
    return compile_nests([nest], target)[0]


def compile_nests(nests: Sequence[Nest], target: Target | None = None) -> list[Kernel]:
    """Compile several nests in one LLVM module, which is faster and smaller than one by one."""
    from .schedule import schedule

    target = target or Target.host()
    loops = [schedule(nest) for nest in nests]
    writers = [partial(_lowered, nest, order, target) for nest, order in zip(nests, loops)]
    codes = _found_or_compiled([recipes.of_nest(nest) for nest in nests], writers, target)
    return [Kernel(nest, code, order) for nest, code, order in zip(nests, codes, loops)]


def _lowered(nest: Nest, loops: Loops, target: Target) -> Function:
    from ..llvm.lower import lower

    return lower(nest, loops, target)


def compile_routine(name: str, write: Callable[[], tuple[Sequence[str], str]]) -> int:
    """The address of a function for this machine that is no kernel.

    Args:
        name: Names the function and whatever it is written from, besides the sources of `jit.runtime`.
        write: What it calls and its definition, as in `llvm.function.Function`; called if it is not in the cache.
    """

    def written() -> Function:
        from ..llvm.function import Function

        declarations, definition = write()
        return Function(tuple(declarations), definition)

    return _found_or_compiled([f"routine {name}"], [written], Target.host())[0].address


def compile_functions(functions: Sequence[Function], target: Target) -> list[Code]:
    """Compile those of `functions` that are new; CompileError if one is malformed or calls an unknown function."""
    with _lock:
        new = [f for f in dict.fromkeys(functions) if (f, target) not in _compiled]
        if new:
            _compiled.update(((f, target), code) for f, code in zip(new, _compile(new, target)))
        return [_compiled[f, target] for f in functions]


def _compile(functions: Sequence[Function], target: Target) -> list[Code]:
    names = _names(len(functions))
    declarations = dict.fromkeys(line for f in functions for line in f.declarations)
    text = "\n".join([*declarations, *(f.named(name) for f, name in zip(functions, names))])
    image, imports = _name_of(text, target), _c_names(_DECLARED.findall(text))
    if image not in _images:
        addresses = _resolved(imports)
        _images[image] = _linked(_object(text, target), names, addresses, target)
    codes = []
    for f, name in zip(functions, names):
        facts = Facts(image, name, f.numbers, f.lanes, len(names), tuple(imports.items()))
        codes.append(_recalled.setdefault((image, name), Code(facts, target, partial(_same, f))))
    return codes


def _names(count: int) -> list[str]:
    """What the functions of a module are called."""
    return [f"kernel{number}" for number in range(count)]


def _same(function: Function) -> Function:
    return function


# -- code without text -------------------------------------------------------------------------------------------


def _found_or_compiled(
    recipes_: Sequence[str | None], writers: Sequence[Callable[[], Function]], target: Target
) -> list[Code]:
    """See Note [Code without text]."""
    kept = caching.shared()
    name = recipes.name_of(recipes_, target) if kept is not None else None
    if kept is None or name is None:
        return compile_functions([write() for write in writers], target)
    record = kept.load(name)
    codes = _recall(record, writers, target, kept) if record is not None else None
    if codes is None:
        codes = compile_functions([write() for write in writers], target)
        kept.store(name, repr([tuple(code.facts) for code in codes]).encode())
    return codes


def _recall(
    record: bytes, writers: Sequence[Callable[[], Function]], target: Target, kept: caching.Cache
) -> list[Code] | None:
    """The codes of a record; None if an object file is gone, or does not link here."""
    rows = [Facts(*row) for row in ast.literal_eval(record.decode())]
    with _lock, contextlib.suppress(CompileError):
        if all([_is_loaded(facts, target, kept) for facts in rows]):
            pairs = zip(rows, writers, strict=True)
            return [_recalled.setdefault((f.image, f.name), Code(f, target, write)) for f, write in pairs]
    return None


def _is_loaded(place: Facts | Place, target: Target, kept: caching.Cache) -> bool:
    """Whether an object file is in memory, into which it is put if the cache has it."""
    if place.image not in _images:
        image = kept.load(place.image)
        if image is None:
            return False
        addresses = _resolved(dict(place.imports))
        _images[place.image] = _linked(image, _names(place.functions), addresses, target)
    return True


# -- LLVM --------------------------------------------------------------------------------------------------------


def _linked(image: bytes, names: Sequence[str], imports: dict[str, int], target: Target) -> tuple[dict[str, int], Any]:
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
        owner = library.link(_linker(target), f"library{next(_serial)}")
    except RuntimeError as error:
        raise CompileError(f"the kernel could not be linked: {error}; run with the interpreter") from error
    return {name: owner[name] for name in names}, owner


_DECLARED = re.compile(r'^declare [^@\n]*@"?([^"(\n]+)"?\(', re.MULTILINE)


def _name_of(text: str, target: Target) -> str:
    """The name of a module's object file, see Note [What decides on machine code]."""
    return caching.digest([text, _PASSES, *target.circumstances()])


def _object(text: str, target: Target) -> bytes:
    """The object file of a module: from the cache, or compiled and put there."""
    global compilations
    kept = caching.shared()
    name = _name_of(text, target)
    image = kept.load(name) if kept is not None else None
    if image is None:
        compilations += 1
        image = _machine(target).emit_object(_optimized(text, target))
        if kept is not None:
            kept.store(name, image)
    return image


def _optimized(text: str, target: Target) -> Any:
    """The module, verified, folded and combined. The lowering hoists and shares already: there is little left to do."""
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


# -- names and processes -----------------------------------------------------------------------------------------


def _renew_lock() -> None:
    """A thread that compiled at the moment of a fork does not exist in the child, and would hold the lock for ever."""
    global _lock
    _lock = threading.Lock()


os.register_at_fork(after_in_child=_renew_lock)


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


@cache
def _machine(target: Target) -> Any:
    return target.machine()


@cache
def _linker(target: Target) -> Any:
    # JITLink lays a library out in one piece, so that the small code model's short addresses always reach.
    return binding().create_lljit_compiler(target.machine(), use_jit_link=True, suppress_errors=True)


# -- layouts -----------------------------------------------------------------------------------------------------


def _layout(buffer: Buffer) -> tuple[Any, tuple[int, ...], tuple[int, ...]]:
    """dtype, shape and byte strides, as numpy has them."""
    return buffer.dtype.numpy, buffer.sizes, tuple(s * buffer.dtype.itemsize for s in buffer.strides)


_ALIGNMENT = 64


def geometry_of(nest: Nest, loops: Loops, function: Function | Code, start: int = 0, stop: int | None = None) -> Any:
    """The numbers that a function asks for, as it reads them; the outermost loop runs from `start` to `stop`."""
    from .nest import Bound

    accesses = [(a, nest.inputs[a.buffer].dtype.itemsize) for a in nest.reads]
    accesses += [(a, nest.outputs[a.buffer].dtype.itemsize) for a in nest.writes]
    maps: list[tuple[Any, int]] = [*accesses, *((point, 1) for point in nest.points)]
    places = _kept(nest, loops, function)

    def value(kind: Any, *where: Any) -> int:
        if kind == "extent":
            whole = loops.extents[where[0]]
            return whole if where[0] else (whole if stop is None else stop) - start
        if kind in ("offset", "stride"):
            map, unit = maps[where[0]]
            steps = loops.strides[where[0]]
            return int(steps[where[1]] if kind == "stride" else map.offset + start * steps[0]) * unit
        if kind == "size":
            point = nest.points[where[0]]
            assert isinstance(point, Bound)
            return point.size
        if kind in ("kept", "tile"):
            return places[kind, *where]
        index = nest.indices[where[0]]
        if kind == "index size":
            return index.size
        return index.stride * next(unit for access, unit in accesses if index in access.gather)

    numbers = [value(*key) for key in function.numbers]
    return (ctypes.c_int64 * max(len(numbers), 1))(*numbers)


def _kept(nest: Nest, loops: Loops, function: Function | Code) -> dict[Any, int]:
    """Where each scratch row starts; the whole size under None."""
    places, total = {}, 0
    for kind, *where in function.numbers:
        if kind in ("kept", "tile"):
            places[kind, *where] = total
            size = int(str(where[-1]))
            if kind == "kept":
                size *= nest.row * (1 if loops.along_row else function.lanes) + function.lanes
            total += -(-size // _ALIGNMENT) * _ALIGNMENT
    return {**places, None: total}
