"""Writes a plan as plain data, for `restored` to read in another process: see Note [A plan as data] there.

Stretches for many sizes are written by `sized_image`.

Note [Which words are addresses]
    The words of a plan - programs, tables, geometries - are addresses, sizes, strides, counts, and masks of lanes.
    Addresses are those of functions and of arrays that the plan keeps; all others are below 2**40, or masks, which are
    one less than a power of two. A number that is none of these has no image, and a plan has none on a machine whose
    addresses are as small as sizes are. Constants are data, in which no addresses are looked for.
"""

from __future__ import annotations

import bisect
import ctypes
import itertools
import math
import struct
from collections.abc import Iterator, Sequence
from dataclasses import fields
from typing import Any

import numpy as np

from jit.ir import Node
from jit.ir.dtypes import DType, from_numpy
from jit.ir.errors import ParseError
from jit.ir.graph import Ref
from jit.ir.parser import parse_size
from jit.ir.sizes import SizeExpr, SizeSymbol

from ..kernels.code_store import STORE
from ..products import blas, blas_alone
from .native import Native, SizedNative
from .plan import PlannedEngine
from .restored import ALIGNMENT, RECORDS
from .sized_image import sized_facts

_LEAST_ADDRESS = 1 << 40
"""No size or stride is as large."""


class Unkeepable(Exception):
    """Something in a plan that is not plain data."""


def image_of(engine: PlannedEngine) -> tuple[dict[str, Any], bytes]:
    """The head and the block of a plan; Unkeepable if something in it is not plain data."""
    writer = PlanImageWriter()
    stages = []
    for program, natives in zip(engine.programs, engine.natives, strict=True):
        calls = iter(natives)
        stages.append({
            "inputs": program.inputs, "updates": program.updates, "outputs": [_register(o) for o in program.outputs],
            "frees": program.frees, "unused": program.unused, "returned": program.returned,
            "steps": [
                _step(writer, node, run, calls) for node, run in zip(program.nodes, program.instructions, strict=True)
            ],
        })  # fmt: skip
    writer.block += bytes(-len(writer.block) % ALIGNMENT)
    head = {"count": engine.count, "stages": stages, "pointers": writer.pointers, "calls": writer.calls}
    return {**head, "functions": list(writer.functions.values())}, bytes(writer.block)


def _step(writer: PlanImageWriter, node: Node, run: Any, calls: Iterator[Native | SizedNative]) -> dict[str, Any]:
    """The facts of an instruction."""
    if (facts := getattr(run, "facts", None)) is not None:
        return {"size": writer.plain(facts)}
    if node.kind != "prim::Native":
        return writer.node(node, run.touched)
    native = next(calls)
    if isinstance(native, Native):
        return writer.native(native)
    if not isinstance(native, SizedNative):
        raise Unkeepable("kernels of a GPU, which its driver keeps")
    return {"sizes": run.touched[-1], **sized_facts(writer, native)}


def _register(output: Any) -> int | None:
    if output is None:
        return None
    if type(output) is not Ref:
        raise Unkeepable("an output that is not an array")
    return output.index


class PlanImageWriter:
    """A block in the making."""

    def __init__(self) -> None:
        self.block = bytearray()
        self.pointers: list[int] = []
        """The places in the block where a word is a distance from its beginning."""
        self.calls: list[int] = []
        """The places where a word is the number of a function."""
        self.functions: dict[int, Sequence[Any]] = {}
        """The functions that are called, by address."""
        self._known = _functions()
        if min(self._known, default=_LEAST_ADDRESS) < _LEAST_ADDRESS:
            raise Unkeepable("a function whose address could be a size")
        self._arrays: dict[int, tuple[int, int]] = {}
        """The length and the place in the block of each array, by address."""

    def native(self, native: Native) -> dict[str, Any]:
        """The facts that `RestoredNative` must know."""
        code = native.codes[0]
        self.words([code.program, code.kept], code.lowering.constants)
        return {
            "reads": native.reads, "results": native.results,
            "layouts": [(from_numpy(x.dtype).name, x.shape, x.strides) for x in code.layouts],
            "outputs": [(from_numpy(dtype).name, shape) for shape, dtype in code.outputs],
            "program": self.place(code.program), "operands": code.operands, "arena": code.arena,
            "constants": list(map(self.place, code.lowering.constants)), "release": not code.is_quick,
        }  # fmt: skip

    def words(self, arrays: Any, constants: Sequence[Any] = ()) -> None:
        """Copy nested arrays into the block, the addresses among their words translated; and constants as they are."""
        words = [array for array in _flat(arrays) if self._add(array) and _holds_words(array)]
        for array in constants:
            self._add(array)
        starts = sorted(self._arrays)
        for array in words:
            self._translate(array, starts)

    def place(self, array: Any) -> int:
        """The place in the block of an array that was copied there."""
        return self._arrays[_address(array)][1]

    def node(self, node: Node, touched: Sequence[int]) -> dict[str, Any]:
        """The facts to run a node that is not a native call; its results and inputs are registers."""
        count, end = len(node.outputs), len(node.outputs) + len(node.inputs)
        return {
            "kind": node.kind, "args": self.plain(node.args), "results": touched[:count],
            "inputs": touched[count:end], "of_sizes": touched[end:],
            "attributes": {name: self.plain(value) for name, value in node.attributes.items()},
        }  # fmt: skip

    def plain(self, thing: Any) -> Any:
        """A template or a record as JSON has it: what is more than that is a list which begins with what it is."""
        kind = type(thing)
        if kind in (int, bool, str, type(None)) or (kind is float and math.isfinite(thing)):
            return thing
        if kind is float:
            return ["float", struct.pack("<d", thing).hex()]
        if kind is complex:
            return ["complex", self.plain(thing.real), self.plain(thing.imag)]
        if kind is tuple:
            return ["tuple", *map(self.plain, thing)]
        if kind is SizeExpr:
            return ["size", text_of(thing)]
        if kind is SizeSymbol:
            return ["symbol", name_of(thing)]
        if f"jit.runtime{RECORDS.get(kind.__name__)}" == kind.__module__:
            return ["record", kind.__name__, *(self.plain(getattr(thing, name)) for name in _fields(kind))]
        if kind is Ref:
            return ["input", thing.index]
        if kind is DType:
            return ["dtype", thing.name]
        if kind is np.ndarray:
            return ["array", from_numpy(thing.dtype).name, thing.shape, self.store(thing.tobytes())]
        raise Unkeepable(f"an attribute of type {kind.__name__}")

    def _add(self, array: Any) -> bool:
        """Copy an array into the block; False if it is there."""
        if isinstance(array, np.ndarray) and not array.flags.c_contiguous:
            raise Unkeepable("an array that is not contiguous")
        # bytes() asks for a buffer, which dtypes that are not numpy's own do not give
        address, data = _address(array), array.tobytes() if isinstance(array, np.ndarray) else bytes(array)
        if address < _LEAST_ADDRESS:
            raise Unkeepable("an address that could be a size")
        if self._arrays.get(address, (-1, 0))[0] >= len(data):
            return False
        self._arrays[address] = len(data), self.store(data)
        return True

    def store(self, data: bytes) -> int:
        """Put data into the block; returns its place."""
        self.block += bytes(-len(self.block) % ALIGNMENT)
        self.block += data
        return len(self.block) - len(data)

    def _translate(self, array: Any, starts: Sequence[int]) -> None:
        """Say what the addresses among the words of an array mean."""
        words, place = np.array(array, np.int64).reshape(-1), self._arrays[_address(array)][1]
        for index in np.flatnonzero(words >= _LEAST_ADDRESS).tolist():
            word, at = int(words[index]), place + 8 * index
            if word in self._known:
                self.functions.setdefault(word, self._known[word])
                self.calls.append(at)
                self._put(at, list(self.functions).index(word))
            elif (offset := self._offset(word, starts)) is not None:
                self.pointers.append(at)
                self._put(at, offset)
            elif word & (word + 1):
                raise Unkeepable("a number that may be an address")

    def _put(self, at: int, word: int) -> None:
        self.block[at : at + 8] = word.to_bytes(8, "little")

    def _offset(self, address: int, starts: Sequence[int]) -> int | None:
        """The place in the block of something whose address is given; None if it is not there."""
        found = bisect.bisect_right(starts, address) - 1
        if found < 0:
            return None
        length, offset = self._arrays[starts[found]]
        within = address - starts[found]
        return offset + within if within < length else None


def text_of(size: SizeExpr) -> str:
    """The text of a size, which whoever reads it takes for the same size."""
    try:
        read = parse_size(str(size))
    except ParseError as error:
        raise Unkeepable(str(error)) from error
    if not size.is_same(read):
        raise Unkeepable("a size with another text than its form")
    return str(size)


def name_of(symbol: SizeSymbol) -> str:
    """The name of a symbol that has no bounds of its own."""
    if symbol != SizeSymbol(symbol.name):
        raise Unkeepable("a symbol with bounds of its own")
    return symbol.name


def _fields(kind: Any) -> Sequence[str]:
    """The fields of a record, in the order in which it is made of them."""
    return kind._fields if issubclass(kind, tuple) else [each.name for each in fields(kind) if each.init]


def _functions() -> dict[int, Sequence[Any]]:
    """All functions that a plan may call, by address."""
    known: dict[int, Sequence[Any]] = dict(STORE.places())
    if blas.blas_function.cache_info().currsize:
        pairs = itertools.product(blas.FUNCTIONS, blas.LETTER)
        known |= {blas.blas_function(name, dtype): ("blas", name, dtype.name) for name, dtype in pairs}
        known[blas_alone.state()] = ("blas alone",)
    return known


def _holds_words(array: Any) -> bool:
    return not isinstance(array, np.ndarray) or array.dtype == np.int64


def _flat(things: Any) -> Iterator[Any]:
    """The arrays in nested lists and tuples, in which there may be numbers."""
    for thing in things:
        if isinstance(thing, (list, tuple)):
            yield from _flat(thing)
        elif isinstance(thing, (np.ndarray, ctypes.Array)):
            yield thing


def _address(array: Any) -> int:
    return int(array.__array_interface__["data"][0]) if isinstance(array, np.ndarray) else ctypes.addressof(array)
