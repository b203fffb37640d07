"""The native side of a call: from Python objects to kernels and back, without a line of Python in between.

One function, compiled once per process, serves every plan; what it checks, runs and returns is read from tables of
words that belong to the plan. An `Entry` is a Python callable around such tables. It returns None, having done
nothing, if anything differs from what the tables say; the caller then goes the long way round.

    entry(a, b)  ->  arguments as recorded?  surroundings as recorded?  arrays of the planned layout, not overlapping?
                     outputs made, GIL released, the steps of the program run, GIL taken, outputs wrapped

Note [What native code relies on]
    It calls CPython's public functions by address and reads five things directly: the type of an object, data, dims,
    strides, dtype and flags of a numpy array (all fixed by numpy's binary interface), items of a tuple of arguments,
    and slots of our own classes, whose places Python tells. None of this holds on free-threaded or 32-bit builds or
    on other interpreters, so `available()` tries it out; without it plans run through ctypes.

Note [A program]
    i64 words. Per step: the kernel's address, that of a table of geometries, the number of operands, the number of
    parts, the bytes of scratch memory per part (its last operand), and a pair (base, byte offset) per operand; a zero
    ends it. Geometry 0 is that of the whole step, the others those of the parts, if there is more than one. Bases are
    addresses: the arena, inputs, outputs, constants. A step that returns an error ends the run with
    `step * 256 + error`.
"""

from __future__ import annotations

import ctypes
import importlib
import math
import os
import platform
import struct
import sys
import sysconfig
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from functools import cache
from typing import Any

import numpy as np

from ..arrays import blocks
from ..llvm.words import Routine, Word
from . import pool

ANY = -(2**63)
"""A stride that does not matter, because its dim has one element."""

STEP = 5
"""Words of a step before its operands."""
MISSING = object()
"""What a dict holds under a key that it does not have."""

_TYPE, _DATA, _NDIM, _DIMS, _STRIDES, _DTYPE, _FLAGS = 8, 16, 24, 32, 40, 56, 64
"""Where things are in an object and in a numpy array, in bytes."""
_WRITEABLE = 0x400

_API = (
    "Py_IncRef", "Py_DecRef", "PyContextVar_Get", "PyDict_GetItemWithError", "PyErr_Clear", "PyCell_Get",
    "PyObject_Size", "PyObject_CallNoArgs", "PyObject_Call", "PyObject_CallOneArg", "PyEval_SaveThread",
    "PyEval_RestoreThread", "PyTuple_New", "PyTuple_SetItem", "PyType_GenericAlloc", "PyLong_FromLongLong",
    "PyMem_RawMalloc", "PyMem_RawFree", "PyObject_GenericGetDict", "PyDict_Size", "PyDict_Next",
    "PyList_GetItem", "PyFunction_GetDefaults",
    "PyFunction_GetKwDefaults", "PyFunction_GetCode",
)  # fmt: skip
"""What is called, in the order of the table of addresses."""

_HEADER = (
    "api", "none", "true", "array_type", "arguments", "statics", "static_table", "contexts", "context_table",
    "inputs", "input_table", "apart", "slots", "slot_table", "cells", "cell_table", "sizes", "size_table", "orders",
    "order_table", "classes", "class_table", "spaces", "space_table", "items", "item_table",
    "functions", "function_table",
    "residue", "outputs", "returned", "output_table", "empty", "allocate", "bases",
    "base_table", "program", "operands", "cell", "arena", "spare", "release", "wrap", "tensor_type", "tensor_slots",
    "tensor_table", "array_slot", "storage_slot", "storage_type", "storage_slots", "storage_table", "failed",
    "hits",
)  # fmt: skip
_AT = {name: index for index, name in enumerate(_HEADER)}
_INPUT = (
    "argument", "object", "type", "slot", "marks", "mark_table", "dtype", "ndim", "layout", "flags", "mask", "low",
    "high", "base",
)  # fmt: skip
_IN = {name: index for index, name in enumerate(_INPUT)}


# -- the native functions ----------------------------------------------------------------------------------------


def _execute() -> str:
    """`execute(program, bases, most, cell)`: run the steps; 0 or the error. `most` operands has no step more than."""
    r = Routine("execute", ["program", "bases", "most", "cell"])
    operands = r.space("%most")
    at, step, status = r.variable(), r.variable(), r.variable()
    r.put(at, 0, "%program")
    r.put(step, 0, 0)
    with r.loop(2**62):
        here = r.word(at)
        kernel, count = r.word(here), r.word(here, 2)
        with r.when(r.same(kernel, 0)):
            r.leave(0)
        pairs = r.add(here, 8 * STEP)
        with r.loop(count) as i:
            pair = r.add(pairs, r.scale(i, 16))
            r.put(operands, i, r.add(r.word("%bases", r.word(pair)), r.word(pair, 1)))
        r.put(status, 0, -1)
        with r.when(r.less("1", r.word(here, 3))):
            _share(r, here, operands, status)
        with r.when(r.same(r.word(status), -1)):
            r.put(status, 0, r.call(kernel, operands, r.word(r.word(here, 1)), returns="i32"))
        with r.unless(r.same(r.word(status), 0)):
            r.leave(r.add(r.scale(r.word(step), 256), r.word(status)))
        r.put(at, 0, r.add(pairs, r.scale(count, 16)))
        r.put(step, 0, r.add(r.word(step), 1))
    r.leave(0)
    return r.text()


def _share(r: Routine, step: Word, operands: Word, status: Word) -> None:
    """Let the pool do a step that has parts; it is started if there is none yet."""
    with r.when(r.same(r.word("%cell"), 0)):
        r.call(r.word("%cell", 1), returns="void")
    with r.unless(r.same(r.word("%cell"), 0)):
        r.put(status, 0, r.invoke("share", r.word("%cell"), step, operands))


class _Writer(Routine):
    """A routine whose first parameter is the header."""

    def field(self, name: str) -> Word:
        """A word of the header."""
        return self.word("%header", _AT[name])

    def api(self, name: str, *arguments: Word | int, returns: str = "i64") -> Word:
        """Call a function of CPython."""
        return self.call(self.word(self.field("api"), _API.index(name)), *arguments, returns=returns)

    def table(self, count: str, table: str, words: int) -> Any:
        """Loop over the rows of a table: the address of each."""
        rows = self.field(table)
        return self._rows(self.loop(self.field(count)), rows, words)

    def _rows(self, loop: Any, rows: Word, words: int) -> Any:
        from contextlib import contextmanager

        @contextmanager
        def over() -> Any:
            with loop as i:
                yield self.add(rows, self.scale(i, 8 * words))

        return over()


def _surroundings() -> str:
    """`surroundings(header)`: 1 if everything that the function reads besides its arguments is as it was."""
    r = _Writer("surroundings", ["header"])
    value = r.variable()
    with r.table("contexts", "context_table", 2) as row:
        r.api("PyContextVar_Get", r.word(row), 0, value, returns="i32")
        found = r.word(value)
        r.api("Py_DecRef", found, returns="void")
        with r.unless(r.same(found, r.word(row, 1))):
            r.leave(0)
    with r.table("slots", "slot_table", 3) as row:
        found = r.api("PyDict_GetItemWithError", r.word(row), r.word(row, 1))
        with r.unless(r.same(found, r.word(row, 2))):
            r.api("PyErr_Clear", returns="void")
            r.leave(0)
    with r.table("cells", "cell_table", 2) as row:
        found = r.api("PyCell_Get", r.word(row))
        with r.unless(r.same(found, 0)):
            r.api("Py_DecRef", found, returns="void")
        with r.unless(r.same(found, r.word(row, 1))):
            r.leave(0)
    with r.table("sizes", "size_table", 2) as row:
        size = r.api("PyObject_Size", r.word(row))
        with r.unless(r.same(size, r.word(row, 1))):
            r.api("PyErr_Clear", returns="void")
            r.leave(0)
    with r.table("classes", "class_table", 2) as row:
        kind = r.word(r.word(row), _TYPE // 8)
        with r.unless(r.same(kind, r.word(row, 1))):
            r.leave(0)
    with r.table("spaces", "space_table", 2) as row:
        found = r.api("PyObject_GenericGetDict", r.word(row), 0)
        with r.unless(r.same(found, 0)):
            r.api("Py_DecRef", found, returns="void")
        with r.unless(r.same(found, r.word(row, 1))):
            r.api("PyErr_Clear", returns="void")
            r.leave(0)
    with r.table("items", "item_table", 3) as row:
        found = r.api("PyList_GetItem", r.word(row), r.word(row, 1))
        with r.unless(r.same(found, r.word(row, 2))):
            r.api("PyErr_Clear", returns="void")
            r.leave(0)
    with r.table("functions", "function_table", 4) as row:
        for place, ask in enumerate(("PyFunction_GetDefaults", "PyFunction_GetKwDefaults", "PyFunction_GetCode"), 1):
            with r.unless(r.same(r.api(ask, r.word(row)), r.word(row, place))):
                r.leave(0)
    with r.table("orders", "order_table", 3) as row:
        _check_order(r, r.word(row), r.word(row, 1), r.word(row, 2))
    r.leave(1)
    return r.text()


def _check_order(r: _Writer, place: Word, count: Word, keys: Word) -> None:
    """The keys of a dict must be the same objects in the same order."""
    position, key = r.variable(), r.variable()
    r.put(position, 0, 0)
    with r.loop(count) as i:
        r.put(key, 0, 0)
        r.api("PyDict_Next", place, position, key, 0, returns="i32")
        with r.unless(r.same(r.word(key), r.word(keys, i))):
            r.leave(0)
    with r.unless(r.same(r.api("PyDict_Next", place, position, key, 0, returns="i32"), 0)):
        r.leave(0)


def _residue() -> str:
    """`residue(header)`: 1 if the Python function that looks at the rest says so."""
    r = _Writer("residue", ["header"])
    function = r.field("residue")
    with r.when(r.same(function, 0)):
        r.leave(1)
    answer = r.api("PyObject_CallNoArgs", function)
    with r.when(r.same(answer, 0)):
        r.api("PyErr_Clear", returns="void")
        r.leave(0)
    r.api("Py_DecRef", answer, returns="void")
    with r.unless(r.same(answer, r.field("true"))):
        r.leave(0)
    r.leave(1)
    return r.text()


def _input() -> str:
    """`input(header, row, object)`: the array in `object` if it is as the row says, else 0."""
    r = _Writer("input", ["header", "row", "object"])
    array = r.variable()
    r.put(array, 0, "%object")
    with r.unless(r.same(r.word("%row", _IN["slot"]), 0)):
        with r.unless(r.same(r.word("%object", 1), r.word("%row", _IN["type"]))):
            r.leave(0)
        marks = r.word("%row", _IN["mark_table"])
        with r.loop(r.word("%row", _IN["marks"])) as i:
            mark = r.add(marks, r.scale(i, 16))
            with r.unless(r.same(r.word(r.add("%object", r.word(mark))), r.word(mark, 1))):
                r.leave(0)
        _check_bare(r, "%object")
        r.put(array, 0, r.word(r.add("%object", r.word("%row", _IN["slot"]))))
    found = r.word(array)
    for here, wanted in (
        (r.word(found, _TYPE // 8), r.field("array_type")),
        (r.word(found, _DTYPE // 8), r.word("%row", _IN["dtype"])),
        (r.half_word(r.add(found, _NDIM)), r.word("%row", _IN["ndim"])),
        (r.both(r.half_word(r.add(found, _FLAGS)), r.word("%row", _IN["mask"])), r.word("%row", _IN["flags"])),
    ):
        with r.unless(r.same(here, wanted)):
            r.leave(0)
    dims, strides, layout = r.word(found, _DIMS // 8), r.word(found, _STRIDES // 8), r.word("%row", _IN["layout"])
    with r.loop(r.word("%row", _IN["ndim"])) as i:
        pair = r.add(layout, r.scale(i, 16))
        with r.unless(r.same(r.word(dims, i), r.word(pair))):
            r.leave(0)
        stride = r.word(pair, 1)
        with r.unless(r.same(stride, ANY)), r.unless(r.same(r.word(strides, i), stride)):
            r.leave(0)
    r.leave(found)
    return r.text()


def _check_bare(r: _Writer, thing: Word) -> None:
    """An object must have no attributes beside its slots."""
    attributes = r.api("PyObject_GenericGetDict", thing, 0)
    with r.when(r.same(attributes, 0)):
        r.api("PyErr_Clear", returns="void")
        r.leave(0)
    size = r.api("PyDict_Size", attributes)
    r.api("Py_DecRef", attributes, returns="void")
    with r.unless(r.same(size, 0)):
        r.leave(0)


def _apart() -> str:
    """`apart(header, arrays)`: 1 if the first arrays, those of the arguments, share no memory."""
    r = _Writer("apart", ["header", "arrays"])
    rows = r.field("input_table")
    with r.loop(r.field("apart")) as i:
        low, high = _extent(r, rows, i)
        with r.loop(r.field("apart"), r.add(i, 1)) as j:
            other_low, other_high = _extent(r, rows, j)
            with r.when(r.less(low, other_high)), r.when(r.less(other_low, high)):
                r.leave(0)
    r.leave(1)
    return r.text()


def _extent(r: _Writer, rows: Word, index: Word) -> tuple[Word, Word]:
    row = r.add(rows, r.scale(index, 8 * len(_INPUT)))
    data = r.word(r.word("%arrays", index), _DATA // 8)
    return r.add(data, r.word(row, _IN["low"])), r.add(data, r.word(row, _IN["high"]))


def _tensor() -> str:
    """`tensor(header, array)`: a new Tensor that owns the reference to `array`, or 0."""
    r = _Writer("tensor", ["header", "array"])

    def filled(kind: str) -> Word:
        made = r.api("PyType_GenericAlloc", r.field(f"{kind}_type"), 0)
        with r.when(r.same(made, 0)):
            r.leave(0)
        with r.table(f"{kind}_slots", f"{kind}_table", 2) as row:
            r.api("Py_IncRef", r.word(row, 1), returns="void")
            r.put(r.add(made, r.word(row)), 0, r.word(row, 1))
        return made

    storage = filled("storage")
    tensor = filled("tensor")
    r.put(r.add(tensor, r.field("storage_slot")), 0, storage)
    r.put(r.add(tensor, r.field("array_slot")), 0, "%array")
    r.leave(tensor)
    return r.text()


def _results() -> str:
    """`results(header, outputs)`: what Python gets for the output arrays, whose references it takes."""
    r = _Writer("results", ["header", "outputs"])
    wrap, returned = r.field("wrap"), r.field("returned")
    with r.loop(r.field("outputs"), returned) as i:
        r.api("Py_DecRef", r.word("%outputs", i), returns="void")
    with r.when(r.same(wrap, 1)):
        r.leave(r.invoke("tensor", "%header", r.word("%outputs")))
    made = r.api("PyTuple_New", returned)
    with r.when(r.same(made, 0)):
        r.leave(0)
    item = r.variable()
    with r.loop(returned) as i:
        r.put(item, 0, r.word("%outputs", i))
        with r.when(r.same(wrap, 2)):
            r.put(item, 0, r.invoke("tensor", "%header", r.word(item)))
            with r.when(r.same(r.word(item), 0)):
                r.leave(0)
        r.api("PyTuple_SetItem", made, i, r.word(item), returns="i32")
    r.leave(made)
    return r.text()


def _entry() -> str:
    """The function that Python calls, with METH_FASTCALL; `self` is a tuple whose first item is the header's array."""
    r = _Writer("kernel", ["self", "arguments", "count"])
    header = r.word(r.word("%self", 3), _DATA // 8)  # a tuple's items begin behind its reference count, type and size
    r._write(f"%header = add i64 {header}, 0")
    _check_arguments(r)
    arrays, bases, outputs = r.space(r.field("inputs")), r.space(r.field("bases")), r.space(r.field("outputs"))
    templates = r.field("base_table")
    with r.loop(r.field("bases")) as i:
        r.put(bases, i, r.word(templates, i))
    _collect_inputs(r, arrays, bases)
    for check, operands in (("apart", [arrays]), ("surroundings", [])):
        with r.when(r.same(r.invoke(check, "%header", *operands), 0)):
            _miss(r)
    with r.loop(r.field("inputs")) as i:  # Python may run from here on: hold what is read
        r.api("Py_IncRef", r.word(arrays, i), returns="void")
    with r.when(r.same(r.invoke("residue", "%header"), 0)):
        _release(r, arrays)
        _miss(r)
    problem = _make_outputs(r, bases, outputs)
    status = _run(r, bases, problem)
    _release(r, arrays)
    with r.unless(r.same(status, 0)):
        _fail(r, outputs, status)
    r.put("%header", _AT["hits"], r.add(r.field("hits"), 1))
    r.leave(r.invoke("results", "%header", outputs))
    return r.text()


def _release(r: _Writer, arrays: Word) -> None:
    with r.loop(r.field("inputs")) as i:
        r.api("Py_DecRef", r.word(arrays, i), returns="void")


def _miss(r: _Writer) -> None:
    r.api("Py_IncRef", r.field("none"), returns="void")
    r.leave(r.field("none"))


def _check_arguments(r: _Writer) -> None:
    with r.unless(r.same("%count", r.field("arguments"))):
        _miss(r)
    with r.table("statics", "static_table", 2) as row:
        given = r.word("%arguments", r.word(row))
        with r.unless(r.same(given, r.word(row, 1))):
            _miss(r)


def _collect_inputs(r: _Writer, arrays: Word, bases: Word) -> None:
    """Find and check the arrays, and note where the data of those that are read lies."""
    rows, source = r.field("input_table"), r.variable()
    with r.loop(r.field("inputs")) as i:
        row = r.add(rows, r.scale(i, 8 * len(_INPUT)))
        argument = r.word(row, _IN["argument"])
        r.put(source, 0, r.word(row, _IN["object"]))
        with r.unless(r.less(argument, 0)):
            r.put(source, 0, r.word("%arguments", argument))
        array = r.invoke("input", "%header", row, r.word(source))
        with r.when(r.same(array, 0)):
            _miss(r)
        r.put(arrays, i, array)
        base = r.word(row, _IN["base"])
        with r.unless(r.less(base, 0)):
            r.put(bases, base, r.word(array, _DATA // 8))


def _make_outputs(r: _Writer, bases: Word, outputs: Word) -> Word:
    """New arrays, in the order in which they are returned; the address of a word that says if that failed."""
    problem = r.variable()
    r.put(problem, 0, 0)
    with r.loop(r.field("outputs")) as i:
        r.put(outputs, i, 0)
    allocate, made = r.field("allocate"), r.variable()
    with r.table("outputs", "output_table", 6) as row, r.when(r.same(r.word(problem), 0)):
        with r.when(r.same(allocate, 0)):
            r.put(made, 0, r.api("PyObject_Call", r.field("empty"), r.word(row), 0))
        with r.unless(r.same(allocate, 0)):
            dtype = r.word(row, 5)
            r.api("Py_IncRef", dtype, returns="void")  # a reference of which is taken
            r.put(made, 0, r.call(allocate, r.word(row, 3), r.word(row, 4), dtype, 0))
        array = r.word(made)
        r.put(outputs, r.word(row, 2), array)
        with r.when(r.same(array, 0)):
            r.put(problem, 0, 1)
        with r.unless(r.same(array, 0)):
            r.put(bases, r.word(row, 1), r.word(array, _DATA // 8))
    return problem


def _run(r: _Writer, bases: Word, problem: Word) -> Word:
    """Execute the program in an arena of its own; negative if there are no outputs (-1) or is no arena (-2)."""
    status, memory, thread = r.variable(), r.variable(), r.variable()
    r.put(status, 0, -1)
    with r.when(r.same(r.word(problem), 0)):
        r.put(status, 0, -2)
        r.put(memory, 0, r.field("spare"))
        r.put("%header", _AT["spare"], 0)
        with r.when(r.same(r.word(memory), 0)):
            r.put(memory, 0, r.api("PyMem_RawMalloc", r.add(r.field("arena"), 64)))
        with r.unless(r.same(r.word(memory), 0)):
            r.put(bases, 0, r.both(r.add(r.word(memory), 63), -64))
            release = r.field("release")
            with r.unless(r.same(release, 0)):
                r.put(thread, 0, r.api("PyEval_SaveThread"))
            r.put(status, 0, r.invoke("execute", r.field("program"), bases, r.field("operands"), r.field("cell")))
            with r.unless(r.same(release, 0)):
                r.api("PyEval_RestoreThread", r.word(thread), returns="void")
            _keep_arena(r, r.word(memory))
    return r.word(status)


def _keep_arena(r: _Writer, memory: Word) -> None:
    """For the next call, unless another one has left its own meanwhile."""
    spare = r.field("spare")
    with r.when(r.same(spare, 0)):
        r.put("%header", _AT["spare"], memory)
    with r.unless(r.same(spare, 0)):
        r.api("PyMem_RawFree", memory, returns="void")


def _fail(r: _Writer, outputs: Word, status: Word) -> None:
    """Let go of the outputs, and raise: by a Python function that takes the status."""
    with r.loop(r.field("outputs")) as i:
        array = r.word(outputs, i)
        with r.unless(r.same(array, 0)):
            r.api("Py_DecRef", array, returns="void")
    with r.when(r.same(status, -1)):
        r.leave(0)  # numpy has raised already
    number = r.api("PyLong_FromLongLong", status)
    answer = r.api("PyObject_CallOneArg", r.field("failed"), number)
    r.api("Py_DecRef", number, returns="void")
    r.leave(answer)


@cache
def _function() -> int:
    """The address of the entry."""
    from ..kernels.codegen import compile_routine

    return compile_routine("entry", lambda: (
        (pool.share(), _execute(), _surroundings(), _residue(), _input(), _apart(), _tensor(), _results()), _entry(),
    ))  # fmt: skip


def executing() -> tuple[str, ...]:
    """The routines `share` and `execute`, for a module that calls the latter."""
    return pool.share(), _execute()


@cache
def executor() -> Any:
    """`execute(program, bases, most)` for ctypes, which releases the GIL; for where entries are not available."""
    from ..kernels.codegen import compile_routine

    address = compile_routine("execute", lambda: ((pool.share(),), _execute().replace("@execute(", "@kernel(")))
    function = ctypes.CFUNCTYPE(ctypes.c_int64, *[ctypes.c_int64] * 4)(address)
    return lambda program, bases, most: function(program, bases, most, _cell())


def _cell() -> int:
    return int(pool.cell.__array_interface__["data"][0])


# -- tables ------------------------------------------------------------------------------------------------------


@dataclass
class Input:
    """An array that a call must bring, and where it comes from."""

    dtype: Any
    shape: tuple[int, ...]
    strides: tuple[int, ...]
    """In bytes."""
    argument: int = -1
    """Which argument holds it; -1 for `object`."""
    object: Any = None
    type: Any = None
    """If the array is in a slot of the argument: the class that it must have, and no attributes beside its slots."""
    slot: int = 0
    marks: Sequence[tuple[int, Any]] = ()
    """Other slots of it, and what they must hold."""
    writeable: bool | None = None
    """What its flag must be; None if it does not matter."""
    base: int | None = None
    """The number of the base that is its data: the first inputs are 1, 2, ... unless given; -1 if nothing reads it."""


@dataclass
class Wrapping:
    """How outputs become objects of the caller's: instances of `tensor_type` with slots set."""

    tensor_type: type
    tensor_slots: Sequence[tuple[int, Any]]
    array_slot: int
    storage_slot: int
    storage_type: type
    storage_slots: Sequence[tuple[int, Any]]
    single: bool
    """Whether there is one output, which is not to be in a tuple."""


@dataclass
class Tables:
    """All that an entry looks at."""

    inputs: Sequence[Input]
    outputs: Sequence[tuple[tuple[int, ...], Any]]
    """Shape and dtype, in the order of their bases, which follow those of the inputs."""
    program: Any
    """Words, see Note [A program]; kept alive with whatever it points to by `kept`."""
    operands: int
    """The most operands that a step has."""
    arena: int
    """Bytes."""
    constants: Sequence[int]
    """Addresses: the bases behind those of the outputs."""
    failed: Callable[[int], Any]
    """Takes what a failed run returned, and raises."""
    release: bool = True
    """Whether to let other threads run meanwhile."""
    arguments: int | None = None
    """How many arguments; as many as inputs unless given."""
    statics: Sequence[tuple[int, Any]] = ()
    """(argument, the object that it must be)."""
    contexts: Sequence[tuple[Any, Any]] = ()
    """(ContextVar with a default, the object that it must hold)."""
    slots: Sequence[tuple[dict[Any, Any], Any, Any]] = ()
    """(dict, key, the object that it must hold there)."""
    cells: Sequence[tuple[Any, Any]] = ()
    """(closure cell, the object that it must hold)."""
    sizes: Sequence[tuple[Any, int]] = ()
    """(container, its length)."""
    orders: Sequence[tuple[dict[Any, Any], Sequence[Any]]] = ()
    """(dict, its keys)."""
    classes: Sequence[tuple[Any, type]] = ()
    """(object, its class)."""
    lineages: Sequence[Sequence[Any]] = ()
    """(class, its `__mro__`, its `__qualname__`)."""
    spaces: list[tuple[Any, dict[str, Any]]] = field(default_factory=list)
    """(object, the dict of its attributes)."""
    items: Sequence[tuple[list[Any], int, Any]] = ()
    """(list, index, the object that it must hold there)."""
    functions: Sequence[tuple[Any, Any, Any, Any]] = ()
    """(function, the tuple of its defaults, the dict of those of keywords, its code); None for what it has not."""
    residue: Callable[[], bool] | None = None
    """What else must be true."""
    order: Sequence[int] | None = None
    """Which outputs to return, by number; all of them unless given."""
    reads: int | None = None
    """How many inputs have bases; all of them unless given."""
    apart: int = 0
    """The first so many inputs must not overlap."""
    wrapping: Wrapping | None = None
    kept: Any = None


class _Words:
    """Tables in memory, and the objects that they refer to."""

    def __init__(self) -> None:
        self.kept: list[Any] = []

    def address(self, thing: Any) -> int:
        """Of an object, which lives on with the tables."""
        self.kept.append(thing)
        return id(thing)

    def table(self, rows: Sequence[Sequence[int]]) -> int:
        """The address of rows of words."""
        words = np.array([w for row in rows for w in row] or [0], np.int64)
        self.kept.append(words)
        return words.__array_interface__["data"][0]


class _Spare:
    """Frees what an entry keeps for its next call."""

    def __init__(self, header: Any, free: Callable[[int], None]) -> None:
        self._header = header
        self._free = free

    def __del__(self) -> None:
        if self._header[_AT["spare"]]:
            self._free(int(self._header[_AT["spare"]]))


class _Method(ctypes.Structure):
    _fields_ = (
        ("name", ctypes.c_char_p), ("function", ctypes.c_void_p), ("flags", ctypes.c_int), ("doc", ctypes.c_char_p)
    )  # fmt: skip


_FASTCALL = 0x80
_methods: list[_Method] = []
"""Descriptions of the entry: alive as long as the functions made from them, that is for ever."""


def make_entry(tables: Tables) -> Callable[..., Any]:
    """The callable for `tables`: returns outputs, or None if the call is another than they describe."""
    words = _Words()
    words.kept.append(tables)
    header = np.zeros(len(_HEADER), np.int64)
    for name, value in _header(tables, words).items():
        header[_AT[name]] = value
    free = ctypes.CFUNCTYPE(None, ctypes.c_int64)(_address("PyMem_RawFree"))
    return _new_function()(ctypes.byref(_method()), (header, _Spare(header, free), words), None)


def hits_of(entry: Any) -> int:
    """How many calls of an entry have found what it describes."""
    return int(entry.__self__[0][_AT["hits"]])


def _method() -> _Method:
    if not _methods:
        _methods.append(_Method(b"entry", _function(), _FASTCALL, None))
    return _methods[0]


@cache
def _new_function() -> Any:
    new = ctypes.PYFUNCTYPE(ctypes.py_object, ctypes.c_void_p, ctypes.py_object, ctypes.c_void_p)
    return new(("PyCFunction_NewEx", ctypes.pythonapi))


def _address(name: str) -> int:
    return ctypes.cast(getattr(ctypes.pythonapi, name), ctypes.c_void_p).value or 0


@cache
def _api_table() -> Any:
    return np.array([_address(name) for name in _API], np.int64)


def _header(tables: Tables, words: _Words) -> dict[str, int]:
    api = _api_table()
    count, made = len(tables.inputs), len(tables.outputs)
    order = list(range(made) if tables.order is None else tables.order)
    places = {number: place for place, number in enumerate([*order, *(i for i in range(made) if i not in order)])}
    first = 1 + (count if tables.reads is None else tables.reads)
    maker = _maker(tables.outputs)
    outputs = [(words.address(o), first + i, places[i], *_shape_row(*o, words)) for i, o in enumerate(tables.outputs)]
    return {
        "api": api.__array_interface__["data"][0], "none": id(None), "true": id(True), "array_type": id(np.ndarray),
        "arguments": count if tables.arguments is None else tables.arguments,
        "statics": len(tables.statics),
        "static_table": words.table([(i, words.address(thing)) for i, thing in tables.statics]),
        "contexts": len(tables.contexts),
        "context_table": words.table([(words.address(v), words.address(thing)) for v, thing in tables.contexts]),
        "inputs": count, "input_table": words.table([_input_row(*row, words) for row in enumerate(tables.inputs, 1)]),
        "apart": tables.apart,
        "slots": len(tables.slots), "slot_table": words.table([_slot_row(s, words) for s in tables.slots]),
        "cells": len(tables.cells), "cell_table": words.table([tuple(map(words.address, c)) for c in tables.cells]),
        "sizes": len(tables.sizes), "size_table": words.table([(words.address(c), n) for c, n in tables.sizes]),
        "orders": len(tables.orders),
        "order_table": words.table([(words.address(d), len(k), _objects(k, words)) for d, k in tables.orders]),
        "classes": len(tables.classes) + 2 * len(tables.lineages),
        "class_table": words.table(
            [(words.address(thing), words.address(kind)) for thing, kind in tables.classes]
            + [row for lineage in tables.lineages for row in _lineage_rows(lineage, words)]
        ),
        "spaces": len(tables.spaces),
        "space_table": words.table([tuple(map(words.address, row)) for row in tables.spaces]),
        "items": len(tables.items),
        "item_table": words.table([(words.address(x), i, words.address(thing)) for x, i, thing in tables.items]),
        "functions": len(tables.functions),
        "function_table": words.table([_function_row(row, words) for row in tables.functions]),
        "residue": 0 if tables.residue is None else words.address(tables.residue),
        "outputs": made, "returned": len(order),
        "output_table": words.table(outputs), "empty": words.address(maker),
        "allocate": _allocator() if maker is np.empty else 0, "bases": first + made + len(tables.constants),
        "base_table": words.table([(0,) * (first + made), tables.constants]),
        "program": tables.program.__array_interface__["data"][0], "operands": max(tables.operands, 1), "cell": _cell(),
        "arena": tables.arena, "release": int(tables.release), "failed": words.address(tables.failed),
        **_wrap_fields(tables.wrapping, words),
    }  # fmt: skip


def _function_row(row: Sequence[Any], words: _Words) -> list[int]:
    return [0 if thing is None else words.address(thing) for thing in row]


def _maker(outputs: Sequence[tuple[tuple[int, ...], Any]]) -> Callable[..., Any]:
    """What makes the outputs: as fast as can be, or, if one of them is large, with care."""
    return blocks.empty if any(math.prod(n) * dtype.itemsize >= blocks.LARGE for n, dtype in outputs) else np.empty


def _shape_row(shape: Sequence[int], dtype: Any, words: _Words) -> tuple[int, int, int]:
    """Shape and dtype as numpy's C functions take them."""
    return len(shape), words.table([shape]), words.address(dtype)


@cache
def _allocator() -> int:
    """The address of numpy's `PyArray_Empty(ndim, sizes, dtype, is_fortran)`, which compiled modules find in the same
    way: `np.empty` takes as long to read its arguments as to do it. 0 if there is none to be found."""
    try:
        numpy_c: Any = importlib.import_module("numpy._core._multiarray_umath")
    except ImportError:
        return 0
    pointer = ctypes.PYFUNCTYPE(ctypes.c_void_p, ctypes.py_object, ctypes.c_char_p)(
        ("PyCapsule_GetPointer", ctypes.pythonapi)
    )
    functions = (ctypes.c_void_p * (_PYARRAY_EMPTY + 1)).from_address(pointer(numpy_c._ARRAY_API, None))
    return functions[_PYARRAY_EMPTY] or 0


_PYARRAY_EMPTY = 184
"""Its place in numpy's table of functions, which compiled modules rely on."""


def _objects(things: Sequence[Any], words: _Words) -> int:
    return words.table([[words.address(thing) for thing in things]])


def _slot_row(slot: tuple[Any, Any, Any], words: _Words) -> tuple[int, int, int]:
    place, key, value = map(words.address, slot)
    return place, key, 0 if slot[2] is MISSING else value


def _wrap_fields(wrapping: Wrapping | None, words: _Words) -> dict[str, int]:
    if wrapping is None:
        return {}
    return {
        "wrap": 1 if wrapping.single else 2,
        "tensor_type": words.address(wrapping.tensor_type),
        "storage_type": words.address(wrapping.storage_type),
        "array_slot": wrapping.array_slot, "storage_slot": wrapping.storage_slot,
        "tensor_slots": len(wrapping.tensor_slots), "storage_slots": len(wrapping.storage_slots),
        "tensor_table": words.table([(at, words.address(thing)) for at, thing in wrapping.tensor_slots]),
        "storage_table": words.table([(at, words.address(thing)) for at, thing in wrapping.storage_slots]),
    }  # fmt: skip


def _input_row(number: int, needed: Input, words: _Words) -> Sequence[int]:
    layout = [(n, s if n != 1 else ANY) for n, s in zip(needed.shape, needed.strides, strict=True)]
    reaches = [(n - 1) * s for n, s in zip(needed.shape, needed.strides, strict=True)]
    row = dict.fromkeys(_INPUT, 0) | {
        "argument": needed.argument, "object": words.address(needed.object), "type": words.address(needed.type),
        "slot": needed.slot, "marks": len(needed.marks),
        "mark_table": words.table([(at, words.address(thing)) for at, thing in needed.marks]),
        "dtype": words.address(needed.dtype), "ndim": len(needed.shape), "layout": words.table(layout),
        "mask": 0 if needed.writeable is None else _WRITEABLE, "flags": _WRITEABLE if needed.writeable else 0,
        "low": sum(r for r in reaches if r < 0), "high": sum(r for r in reaches if r > 0) + needed.dtype.itemsize,
        "base": number if needed.base is None else needed.base,
    }  # fmt: skip
    return list(row.values())


# -- whether all this works --------------------------------------------------------------------------------------


@cache
def available() -> bool:
    """Whether entries work in this process; tried out, not assumed. `JIT_NATIVE_CALLS=0` says no."""
    if (
        os.environ.get("JIT_NATIVE_CALLS", "") == "0"
        or platform.python_implementation() != "CPython"
        or struct.calcsize("P") != 8
        or sysconfig.get_config_var("Py_GIL_DISABLED")
        or hasattr(sys, "getobjects")  # a debug build: objects begin with other words
    ):
        return False
    return _works()


def _works() -> bool:
    """An array goes in and one comes out; another one is refused."""
    given, other = np.zeros((2, 3), np.float32), np.zeros((3, 2), np.float32)
    refuse: Callable[[int], Any] = lambda status: None  # noqa: E731
    layout = Input(given.dtype, given.shape, given.strides, argument=0)
    tables = Tables([layout], [((4,), np.dtype(np.int64))], np.zeros(1, np.int64), 0, 0, (), refuse)
    entry = make_entry(tables)
    result = entry(given)
    fine = isinstance(result, tuple) and result[0].shape == (4,) and result[0].dtype == np.int64
    return fine and entry(other) is None and entry(None) is None and entry() is None


def _lineage_rows(lineage: Sequence[Any], words: _Words) -> Iterator[tuple[int, int]]:
    """Rows of the table of classes, which say what stands where an object has its class."""
    kind, *held = lineage
    for offset, thing in zip(_lineage_offsets(), held, strict=True):
        yield words.address(kind) + offset - _TYPE, words.address(thing)


@cache
def _lineage_offsets() -> tuple[int, int]:
    """Where a class keeps its `__mro__` and its `__qualname__`, in bytes."""
    kind: Any = type("Kind", (), {"__qualname__": "a name that nobody else has"})
    count = type.__dict__["__basicsize__"].__get__(type) // 8  # the fields of a class that is made by a class statement
    words = np.ctypeslib.as_array((ctypes.c_int64 * count).from_address(id(kind)))
    found = [np.flatnonzero(words == id(held)) for held in (kind.__mro__, kind.__qualname__)]
    return 8 * int(found[0][0]), 8 * int(found[1][0])


def slot_offset(kind: type, name: str) -> int:
    """Where the instances of a class with `__slots__` keep an attribute, in bytes."""
    member = ctypes.c_int64.from_address(id(kind.__dict__[name]) + 40).value  # PyMemberDescrObject.d_member
    text, offset = ctypes.c_char_p.from_address(member).value, ctypes.c_int64.from_address(member + 16).value
    if text is None or text.decode() != name:
        raise RuntimeError(f"{kind.__name__}.{name} is not where it is expected")
    return offset
