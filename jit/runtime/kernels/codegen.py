"""Compiles kernels to machine code in memory, once for each distinct function, several in one LLVM module.

Comes after `llvm.lower`. LLVM ends the process on many errors, so nothing unverified reaches it: the module is
verified, every function that it declares is looked up beforehand, and the linker (ORC) refuses what it cannot find,
so that an unknown name is an error here rather than a crash in the call.

Note [Code without text]
    Writing that text takes longer than all the rest once the object file is there. So the functions of a call of
    `compile_nests` are recorded under what decides on their text (`recipes`): which object file they are in, under
    which name, and what a caller must know of them - the numbers to pass, and the lanes. A process that finds the
    record and the file links them, and imports nothing that writes or reads LLVM. The text is written when asked for.
"""

from __future__ import annotations

import ctypes
from collections.abc import Callable, Sequence
from functools import partial
from typing import TYPE_CHECKING, Any

import numpy as np

from jit.ir.errors import CompileError, DimError, DivisionError
from jit.ir.sizes import estimating

from ..targets.target import Target
from . import cache as caching
from . import recipes
from .code_store import STORE, Code
from .sized import at_sizes

if TYPE_CHECKING:  # a process that finds its plans in the cache needs none of these
    from ..llvm.function import LoweredFunction
    from .nest import Buffer, Nest
    from .schedule import Loops

Array = np.ndarray[Any, Any]

_SIGNATURE = ctypes.CFUNCTYPE(ctypes.c_int32, ctypes.c_void_p, ctypes.c_void_p)


class Kernel:
    """A nest compiled: callable with arrays of the layouts that the nest names.

    Native callers use `address`, the address of `int32 kernel(void **data, int64 *geometry)`. `data` holds the
    addresses of the nest's inputs, then of its outputs (of index (0, 0, ...), whatever the strides), then that of
    `scratch_bytes` of scratch memory unless that is 0. `geometry` is the attribute of that name, or a `part` of it. A
    nest of no points must not be called. The result is 0 for success; `check_status` raises for others. Calls need no
    lock; each of several calls at once needs scratch memory of its own. Only the outputs and the scratch memory are
    written.

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
        self._words: Any = None
        self.scratch_bytes = _kept(nest, loops, code)[None]
        """The scratch memory that a call needs, in bytes, aligned to 64; 0 for most kernels."""
        self._call = _SIGNATURE(code.address)
        self._empty = 0 in nest.extents
        self._layouts = [_layout(buffer) for buffer in nest.inputs + nest.outputs]

    @property
    def name(self) -> str:
        """The name that the nest has for it."""
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
        """The number of turns of the outermost loop, if they may be shared out among threads; else 1."""
        return self.loops.extents[0] if self.loops.parallel else 1

    def part(self, start: int, stop: int) -> list[int]:
        """`geometry` for the turns `start` to `stop` of `rows`; the results are those of one call, bit for bit."""
        return geometry_of(self.nest, self.loops, self.code, start, stop)

    def __call__(self, inputs: Sequence[Array], outputs: Sequence[Array]) -> None:
        """Compute `outputs` from `inputs`, without the GIL.

        Raises CompileError if an array's layout is not the nest's, DivisionError if an integer was divided by zero
        (the outputs are then written all the same).
        """
        arrays = [*inputs, *outputs]
        if len(arrays) != len(self._layouts):
            raise CompileError(
                f"{self.name}: called with {len(arrays)} arrays for {len(self._layouts)} buffers; pass one for each "
                "input and output of the nest"
            )
        for array, (dtype, shape, strides) in zip(arrays, self._layouts):
            if array.strides != strides or array.shape != shape or array.dtype != dtype:
                self._refuse_layout(array, dtype, shape, strides)
        for output in outputs:
            if not output.flags.writeable:
                raise CompileError(f"{self.name}: an output array is read-only; pass one that may be written")
        if not self._empty:
            if self.scratch_bytes:
                arrays.append(_scratch(self.scratch_bytes))
            self.run((ctypes.c_void_p * len(arrays))(*(a.ctypes.data for a in arrays)))

    def run(self, data: Any) -> None:
        """Call the function with the addresses of the buffers; the caller vouches for them and keeps them alive."""
        if self._words is None:
            self._words = words_of(self.geometry)
        check_status(self._call(data, self._words))

    def _refuse_layout(self, array: Array, dtype: Any, shape: tuple[int, ...], strides: tuple[int, ...]) -> None:
        """Raise CompileError, unless only strides of dims with one element, or of empty arrays, differ."""
        moving = [i for i, size in enumerate(shape) if size > 1]
        same_steps = array.shape == shape and all(array.strides[i] == strides[i] for i in moving)
        if array.dtype == dtype and array.shape == shape and (same_steps or 0 in shape):
            return
        wanted = f"{dtype}{list(shape)} with byte strides {list(strides)}"
        given = f"{array.dtype}{list(array.shape)} with {list(array.strides)}"
        raise CompileError(f"{self.name}: compiled for {wanted}, called with {given}; compile it for this layout")


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
    """Memory of `size` bytes, aligned to `_ALIGNMENT`."""
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
    here = [_as_numbers(nest, order) for nest, order in zip(nests, loops)]
    writers = [partial(_lowered, nest, order, target) for nest, order in here]
    codes = _found_or_compiled([recipes.of_nest(nest) for nest, _ in here], writers, target)
    return [Kernel(nest, code, order) for nest, code, order in zip(nests, codes, loops)]


def _as_numbers(nest: Nest, loops: Loops) -> tuple[Nest, Loops]:
    """A nest and its loops at the sizes of just now, for which code is chosen that is right for all others."""
    with estimating():
        found = at_sizes(nest, int)
        if found is nest:
            return nest, loops
        kinds = ("reads", "points", "indices")
        if any(len(getattr(nest, kind)) != len(getattr(found, kind)) for kind in kinds):
            raise CompileError(f"{nest.name}: two of its maps are equal at these sizes, though not at all of them")
        return found, at_sizes(loops, int)


def _lowered(nest: Nest, loops: Loops, target: Target) -> LoweredFunction:
    from ..llvm.lower import lower

    return lower(nest, loops, target)


def compile_routine(name: str, write: Callable[[], tuple[Sequence[str], str]]) -> int:
    """The address of a function for this machine that is not a kernel.

    Args:
        name: Names the function and whatever it is written from, besides the sources of `jit.runtime`.
        write: What it calls and its definition, as in `llvm.function.LoweredFunction`; called if not in the cache.
    """

    def written() -> LoweredFunction:
        from ..llvm.function import LoweredFunction

        declarations, definition = write()
        return LoweredFunction(tuple(declarations), definition)

    return _found_or_compiled([f"routine {name}"], [written], Target.host())[0].address


# -- code without text -------------------------------------------------------------------------------------------


def _found_or_compiled(
    recipes_: Sequence[str | None], writers: Sequence[Callable[[], LoweredFunction]], target: Target
) -> list[Code]:
    """See Note [Code without text]."""
    kept = caching.shared()
    name = recipes.name_of(recipes_, target) if kept is not None else None
    if kept is None or name is None:
        return STORE.compiled([write() for write in writers], target)
    record = kept.load(name)
    codes = STORE.recorded(record, writers, target, kept) if record is not None else None
    if codes is None:
        codes = STORE.compiled([write() for write in writers], target)
        kept.store(name, repr([tuple(code.facts) for code in codes]).encode())
    return codes


# -- layouts -----------------------------------------------------------------------------------------------------


def _layout(buffer: Buffer) -> tuple[Any, tuple[int, ...], tuple[int, ...]]:
    """dtype, shape and byte strides, as numpy has them."""
    return buffer.dtype.numpy, buffer.sizes, tuple(s * buffer.dtype.itemsize for s in buffer.strides)


_ALIGNMENT = 64


def geometry_of(
    nest: Nest, loops: Loops, function: LoweredFunction | Code, start: int = 0, stop: int | None = None
) -> list[int]:
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
            return (steps[where[1]] if kind == "stride" else map.offset + start * steps[0]) * unit
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

    return [value(*key) for key in function.numbers]


def words_of(numbers: Sequence[int]) -> Any:
    """Numbers as functions read them: int64, in memory."""
    return (ctypes.c_int64 * max(len(numbers), 1))(*numbers)


def _kept(nest: Nest, loops: Loops, function: LoweredFunction | Code) -> dict[Any, int]:
    """The start of each scratch row in bytes; the size of all of them under None."""
    places, total = {}, 0
    for kind, *where in function.numbers:
        if kind in ("kept", "tile"):
            places[kind, *where] = total
            size = int(str(where[-1]))
            if kind == "kept":
                size *= nest.row * (1 if loops.along_row else function.lanes) + function.lanes
            total += -(-size // _ALIGNMENT) * _ALIGNMENT
    return {**places, None: total}
