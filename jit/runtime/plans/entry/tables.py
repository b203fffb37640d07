"""Tables of an entry, as Python says them, and how they become the words of `layout`."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from ...arrays import blocks
from .. import pool
from .checks import Checks, checks_of
from .cpython import WRITEABLE, array_allocator, function_table
from .layout import ANY, INPUT, header_of
from .records import RecordMemory, address_of


@dataclass
class EntryInput:
    """An array that a call must bring, and where it comes from."""

    dtype: Any
    """None for an array of another library, which the caller looks at."""
    shape: tuple[int, ...]
    strides: tuple[int, ...]
    """Steps in bytes."""
    argument: int = -1
    """The number of the argument that holds it; -1 for `object`."""
    object: Any = None
    type: Any = None
    """The class that the argument must have if the array is in a slot of it; it must have no attributes but slots."""
    slot: int = 0
    marks: Sequence[tuple[int, Any]] = ()
    """The offsets of other slots of the argument, and the objects that they must hold."""
    writeable: bool | None = None
    """The flag that it must have; None if it does not matter."""
    base: int | None = None
    """The number of the base that is its data: the first inputs are 1, 2, ... unless given; -1 if nothing reads it."""


@dataclass
class Wrapping:
    """The way of outputs into objects of the caller's: instances of `tensor_type` with slots set."""

    tensor_type: type
    tensor_slots: Sequence[tuple[int, Any]]
    array_slot: int
    storage_slot: int
    storage_type: type
    storage_slots: Sequence[tuple[int, Any]]
    single: bool
    """Whether there is one output, which is not to be in a tuple."""


@dataclass(eq=False)
class Tables(Checks):
    """All that an entry looks at."""

    inputs: Sequence[EntryInput]
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
    """The number of arguments; as many as inputs unless given."""
    statics: Sequence[tuple[int, Any]] = ()
    """(argument, the object that it must be)."""
    residue: Callable[[], bool] | None = None
    """A question to Python for what else must be true."""
    order: Sequence[int] | None = None
    """The outputs to return, by number; all of them unless given."""
    reads: int | None = None
    """The number of inputs that have bases; all of them unless given."""
    apart: int = 0
    """The number of inputs, from the first on, that must not overlap."""
    bundle: int = 0
    """If only neighbours among those must not: so many of them at a time."""
    wrapping: Wrapping | None = None
    kept: Any = None


def header_words(tables: Tables, memory: RecordMemory) -> Any:
    """The header: an array of words, alive as long as `memory` is."""
    functions = function_table()
    memory.kept += [tables, functions]
    kind: type = type(tables)
    values = {
        "api": address_of(functions), "none": None, "true": True, "array_type": np.ndarray,
        "residue": tables.residue, "spare": 0, "hits": 0, "failed": tables.failed, "release": int(tables.release),
        **_arguments(tables), **_outputs(tables), **_run(tables), **_results(tables.wrapping),
        **{check.table.name: getattr(tables, check.table.name) for check in checks_of(kind)},
    }  # fmt: skip
    header = header_of(kind)
    return np.array(header.words([header.ordered(values)], memory), np.int64)


def _arguments(tables: Tables) -> dict[str, Any]:
    return {
        "arguments": len(tables.inputs) if tables.arguments is None else tables.arguments,
        "statics": tables.statics,
        "inputs": [_input_row(number, needed) for number, needed in enumerate(tables.inputs, 1)],
        "apart": tables.apart,
        "bundle": tables.bundle or tables.apart,
    }


def _input_row(number: int, needed: EntryInput) -> list[Any]:
    dims = list(zip(needed.shape, needed.strides, strict=True))
    reaches = [(n - 1) * s for n, s in dims]
    return INPUT.ordered(vars(needed) | {
        "dims": [(n, s if n != 1 else ANY) for n, s in dims],
        "flags": WRITEABLE if needed.writeable else 0, "mask": 0 if needed.writeable is None else WRITEABLE,
        "low": sum(r for r in reaches if r < 0),
        "high": sum(r for r in reaches if r > 0) + (needed.dtype.itemsize if needed.dtype is not None else 0),
        "base": number if needed.base is None else needed.base,
    })  # fmt: skip


def _outputs(tables: Tables) -> dict[str, Any]:
    made, first = len(tables.outputs), _first_output(tables)
    order = list(range(made) if tables.order is None else tables.order)
    places = {number: place for place, number in enumerate([*order, *(i for i in range(made) if i not in order)])}
    maker = _maker(tables.outputs)
    return {
        "outputs": [
            (output, first + i, places[i], output[0], output[1])
            for i, output in enumerate(tables.outputs)
        ],
        "returned": len(order), "empty": maker, "allocate": array_allocator() if maker is np.empty else 0,
    }  # fmt: skip


def _first_output(tables: Tables) -> int:
    """The number of the first output's base, behind those of the arena and of the inputs."""
    return 1 + (len(tables.inputs) if tables.reads is None else tables.reads)


def _maker(outputs: Sequence[tuple[tuple[int, ...], Any]]) -> Callable[..., Any]:
    """The function that makes the outputs: numpy's, or if one of them is large, that of `blocks`."""
    return blocks.empty if any(math.prod(n) * dtype.itemsize >= blocks.LARGE for n, dtype in outputs) else np.empty


def _run(tables: Tables) -> dict[str, Any]:
    filled_later = _first_output(tables) + len(tables.outputs)
    return {
        "bases": [0] * filled_later + [*tables.constants],
        "program": address_of(tables.program), "operands": max(tables.operands, 1), "cell": address_of(pool.cell),
        "arena": tables.arena,
    }  # fmt: skip


def _results(wrapping: Wrapping | None) -> dict[str, Any]:
    return _ARRAYS if wrapping is None else {"wrap": 1 if wrapping.single else 2, **vars(wrapping)}


_ARRAYS: dict[str, Any] = {
    "wrap": 0, "tensor_type": None, "tensor_slots": (), "array_slot": 0,
    "storage_slot": 0, "storage_type": None, "storage_slots": (),
}  # fmt: skip
"""Results that are returned as they are."""
