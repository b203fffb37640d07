"""Writes a plan as plain data, for `restored` to read in another process: see Note [A plan as data] there.

Note [Which words are addresses]
    The words of a plan - programs, tables, geometries - are addresses, sizes, strides, counts, and masks of lanes.
    Addresses are those of functions and of arrays that the plan keeps; all others are below 2**40, or masks, which are
    one less than a power of two. A number that is none of these has no image, and a plan has none on a machine whose
    addresses are as small as sizes are. Constants are data, in which no addresses are looked for.
"""

from __future__ import annotations

import bisect
import ctypes
import math
import struct
from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np

from jit.ir import Node
from jit.ir.dtypes import DType, from_numpy
from jit.ir.graph import Ref

from ..kernels.code_store import STORE
from ..products import blas
from .plan import Native, PlannedEngine
from .restored import ALIGNMENT

_LEAST_ADDRESS = 1 << 40
"""No size or stride is as large."""


class Unkeepable(Exception):
    """Something in a plan that is not plain data."""


def image_of(engine: PlannedEngine) -> tuple[dict[str, Any], bytes]:
    """The head and the block of a plan; Unkeepable if something in it is not plain data."""
    writer = _PlanImageWriter()
    stages = []
    for program, natives in zip(engine.programs, engine.natives, strict=True):
        calls = iter(natives)
        stages.append({
            "inputs": program.inputs, "updates": program.updates, "outputs": [_register(o) for o in program.outputs],
            "frees": program.frees, "unused": program.unused, "returned": program.returned,
            "steps": [
                writer.native(next(calls)) if node.kind == "prim::Native" else writer.node(node, run.touched)  # type: ignore[attr-defined]
                for node, run in zip(program.nodes, program.instructions, strict=True)
            ],
        })  # fmt: skip
    writer.block += bytes(-len(writer.block) % ALIGNMENT)
    head = {"count": engine.count, "stages": stages, "pointers": writer.pointers, "calls": writer.calls}
    return {**head, "functions": list(writer.functions.values())}, bytes(writer.block)


def _register(output: Any) -> int | None:
    if output is None:
        return None
    if type(output) is not Ref:
        raise Unkeepable("an output that is not an array")
    return output.index


class _PlanImageWriter:
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
        words = [array for array in _flat([code.program, code.kept]) if self._add(array) and _holds_words(array)]
        constants = code.lowering.constants
        for array in constants:
            self._add(array)
        starts = sorted(self._arrays)
        for array in words:
            self._translate(array, starts)
        return {
            "reads": native.reads, "results": native.results,
            "layouts": [(from_numpy(x.dtype).name, x.shape, x.strides) for x in code.layouts],
            "outputs": [(from_numpy(dtype).name, shape) for shape, dtype in code.outputs],
            "program": self._arrays[_address(code.program)][1], "operands": code.operands, "arena": code.arena,
            "constants": [self._arrays[_address(array)][1] for array in constants], "release": not code.is_quick,
        }  # fmt: skip

    def node(self, node: Node, touched: Sequence[int]) -> dict[str, Any]:
        """The facts to run a node that is not a native call; its results and inputs are registers."""
        count = len(node.outputs)
        return {
            "kind": node.kind, "args": self._plain(node.args), "results": touched[:count], "inputs": touched[count:],
            "attributes": {name: self._plain(value) for name, value in node.attributes.items()},
        }  # fmt: skip

    def _plain(self, thing: Any) -> Any:
        """A template as JSON has it: what is more than that is a list which begins with what it is."""
        kind = type(thing)
        if kind in (int, bool, str, type(None)) or (kind is float and math.isfinite(thing)):
            return thing
        if kind is float:
            return ["float", struct.pack("<d", thing).hex()]
        if kind is complex:
            return ["complex", self._plain(thing.real), self._plain(thing.imag)]
        if kind is tuple:
            return ["tuple", *map(self._plain, thing)]
        if kind is Ref:
            return ["input", thing.index]
        if kind is DType:
            return ["dtype", thing.name]
        if kind is np.ndarray:
            return ["array", from_numpy(thing.dtype).name, thing.shape, self._store(thing.tobytes())]
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
        self._arrays[address] = len(data), self._store(data)
        return True

    def _store(self, data: bytes) -> int:
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
        length, offset = self._arrays[starts[found]] if found >= 0 else (0, 0)
        within = address - starts[found]
        return offset + within if within < length else None


def _functions() -> dict[int, Sequence[Any]]:
    """All functions that a plan may call, by address."""
    known: dict[int, Sequence[Any]] = dict(STORE.places())
    if blas.gemm_address.cache_info().currsize:
        known |= {blas.gemm_address(dtype): ("blas", dtype.name) for dtype in blas.LETTER}
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
