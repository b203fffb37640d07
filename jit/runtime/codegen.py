"""Compiles the text of kernels to machine code in memory, once for each distinct text.

Comes after `llvm_lower`. LLVM ends the process on many errors, so nothing unverified reaches it: the module is
verified, every function that it declares is looked up beforehand, and the linker (ORC) refuses what it cannot find,
so that an unknown name is an error here rather than a crash in the call.

Note [How code is kept]
    Compiled code is kept for the life of the process, about 50 KB a kernel, in one linker that owns all of it; a
    kernel whose text was compiled before costs nothing. The pass pipeline is two passes, made anew for each module:
    a pass manager must not run twice, and the standard pipelines would leak. Everything LLVM does happens under one
    lock; calls of kernels take no lock and release the GIL.
"""

from __future__ import annotations

import ctypes
import ctypes.util
import itertools
import re
import threading
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache
from typing import Any

import numpy as np

from jit.ir.errors import CompileError, DivisionError, Error

from .llvm_lower import lower
from .llvm_math import DIVISION_BY_ZERO, PREFIX
from .nest import Buffer, Nest
from .schedule import Loops, schedule
from .target import Target, binding

_SIGNATURE = ctypes.CFUNCTYPE(ctypes.c_int32, ctypes.c_void_p, ctypes.c_void_p)
_lock = threading.Lock()


@dataclass(frozen=True)
class Code:
    """A compiled function and everything one may want to look at."""

    address: int
    """Of the function: `int32 kernel(void **data, int64 *geometry)`, see `llvm_lower`."""
    llvm_ir: str
    """As it was generated, before LLVM's passes."""
    target: Target
    _optimized: str
    _owner: Any

    @property
    def asm(self) -> str:
        """The machine code as assembly, generated when asked for."""
        with _lock:
            module = binding().parse_assembly(self._optimized)
            return str(_machine(self.target).emit_assembly(module))


class Kernel:
    """A nest compiled: callable with arrays of the layouts that the nest names.

    >>> from jit.runtime.nest import pointwise_nest
    >>> x, out = np.arange(4, dtype=np.float32), np.empty(4, np.float32)
    >>> kernel = compile_nest(pointwise_nest(lambda m, a: a * a + 1, [x], [out]))
    >>> kernel([x], [out])
    >>> out.tolist()
    [1.0, 2.0, 5.0, 10.0]
    """

    def __init__(self, nest: Nest, code: Code, loops: Loops) -> None:
        self.nest = nest
        self.code = code
        self.geometry = _geometry(nest, loops)
        """The numbers that the function is called with."""
        self._call = _SIGNATURE(code.address)
        self._empty = 0 in nest.extents

    @property
    def name(self) -> str:
        """What the nest calls it."""
        return self.nest.name

    @property
    def llvm_ir(self) -> str:
        """The LLVM IR as it was generated."""
        return self.code.llvm_ir

    @property
    def asm(self) -> str:
        """The assembly."""
        return self.code.asm

    @property
    def address(self) -> int:
        """The function's address."""
        return self.code.address

    def __call__(self, inputs: Sequence[np.ndarray[Any, Any]], outputs: Sequence[np.ndarray[Any, Any]]) -> None:
        """Compute `outputs` from `inputs`, without the GIL.

        Raises CompileError if an array's layout is not the nest's, DivisionError if an integer was divided by zero
        (the outputs are then written all the same).
        """
        arrays = [*inputs, *outputs]
        buffers = self.nest.inputs + self.nest.outputs
        if len(arrays) != len(buffers):
            raise CompileError(f"{self.name}: called with {len(arrays)} arrays for {len(buffers)} buffers")
        for array, buffer in zip(arrays, buffers):
            if array.shape != buffer.sizes or Buffer.like(array) != buffer:
                raise CompileError(f"{self.name}: compiled for {buffer}, called with {Buffer.like(array)}")
        for output in outputs:
            if not output.flags.writeable:
                raise CompileError(f"{self.name}: an output array is read-only")
        if not self._empty:
            self._run((ctypes.c_void_p * len(arrays))(*(a.ctypes.data for a in arrays)))

    def _run(self, data: Any) -> None:
        status = self._call(data, self.geometry)
        if status & DIVISION_BY_ZERO:
            raise DivisionError("an integer was divided by zero; mask the zeros or cast to a floating dtype first")
        if status:
            raise Error("an integer was raised to a negative power; cast to a floating dtype first")


def compile_nest(nest: Nest, target: Target | None = None) -> Kernel:
    """Compile `nest` for this machine, or take the code of an equal kernel compiled before.

    Raises CompileError if the body asks for something that kernels do not have; the interpreter does then.
    """
    target = target or Target.host()
    loops = schedule(nest)
    return Kernel(nest, compile_text(lower(nest, loops, target), target), loops)


def compile_text(text: str, target: Target) -> Code:
    """Compile a module that defines `kernel`; CompileError if it is malformed or calls an unknown function."""
    with _lock:
        found = _compiled.get((text, target))
        if found is None:
            found = _compiled[text, target] = _compile(text, target)
        return found


_compiled: dict[tuple[str, Target], Code] = {}
_serial = itertools.count()
"""Names of libraries; one that failed to link stays taken."""


def _compile(text: str, target: Target) -> Code:
    machine = _machine(target)
    module = _parsed(text)
    imports = _resolved(function.name for function in module.functions if function.is_declaration)
    _optimize(module, machine)
    linker = _linker(target)
    library = binding().JITLibraryBuilder().add_object_img(machine.emit_object(module)).export_symbol("kernel")
    for name, address in imports.items():
        library.import_symbol(name, address)
    try:
        owner = library.link(linker, f"kernel{next(_serial)}")
    except RuntimeError as error:
        raise CompileError(f"the kernel could not be linked: {error}; run with the interpreter") from error
    return Code(owner["kernel"], text, target, str(module), owner)


def _parsed(text: str) -> Any:
    try:
        module = binding().parse_assembly(text)
        module.verify()
    except RuntimeError as error:
        raise CompileError(f"the kernel's LLVM IR is malformed: {error}; run with the interpreter") from error
    return module


def _optimize(module: Any, machine: Any) -> None:
    """Fold and combine; the lowering has hoisted and shared already, so there is little to do."""
    llvm = binding()
    builder = llvm.create_pass_builder(machine, llvm.create_pipeline_tuning_options(speed_level=2))
    passes = llvm.create_new_module_pass_manager()
    passes.add_instruction_combine_pass()
    passes.add_simplify_cfg_pass()
    passes.run(module, builder)


# -- names and processes -----------------------------------------------------------------------------------------


def _resolved(names: Any) -> dict[str, int]:
    """The addresses of the C functions among `names`; CompileError for a name that is neither that nor LLVM's own."""
    found = {}
    for name in names:
        if name.startswith("llvm."):
            continue
        address = _c_function(name.removeprefix(PREFIX)) if name.startswith(PREFIX) else None
        if address is None:
            raise CompileError(f"the kernel calls {name!r}, which this process does not have; run with the interpreter")
        found[name] = address
    return found


@cache
def _c_function(name: str) -> int | None:
    """The address of a function of the C mathematical library, or None."""
    if not re.fullmatch(r"[a-z][a-z0-9]*", name):
        return None
    for library in (ctypes.util.find_library("m"), None):
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
    return binding().create_lljit_compiler(target.machine(), suppress_errors=True)


def _geometry(nest: Nest, loops: Loops) -> Any:
    """Extents of the loops, then offset and strides of each access in bytes, as the function reads them."""
    numbers = list(loops.extents)
    sides = ((nest.reads, nest.inputs), (nest.writes, nest.outputs))
    placed = [(access, buffers[access.buffer]) for accesses, buffers in sides for access in accesses]
    for (access, buffer), strides in zip(placed, loops.strides):
        numbers += [n * buffer.dtype.itemsize for n in (access.offset, *strides)]
    return (ctypes.c_int64 * len(numbers))(*numbers)
