"""Runs plans that another process has made: from plain data, without their graph and without the compiler.

Note [A plan as data]
    What native code reads of a plan is words - programs (see Note [A program] in `entry`), tables, geometries - and
    constants. `plan_image` writes all of it as one block, in which addresses are replaced by what they mean: numbers of
    functions, distances from the beginning of the block. Where these stand is said by "calls" and "pointers":

        in the cache                                          in memory, the block at 4096, function 0 at 9000
        0:    0, 64, 3, ...     calls [0], pointers [8]       9000, 4160, 3, ...      a program
        64:   128               pointers [64]                 4224                    a table
        128:  16, 16, 4                                       16, 16, 4               a geometry

    Functions are named by their object files, which are entries of the cache of their own, or are those of BLAS.

Note [More than a call]
    A restored plan can do its calls and no more. For anything else - arrays in another layout than planned, the line
    behind an error, kernels to look at - this process makes the plan that it would have made without the cache: the
    `local_plan`. It is made from the same graph, hence the same, step by step.
"""

from __future__ import annotations

import itertools
import json
import math
import struct
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from importlib import import_module
from typing import Any

import numpy as np

from jit.ir import Graph, Node, Op, dtypes
from jit.ir.errors import CompileError
from jit.ir.graph import Ref, leaves
from jit.ir.parser import parse_size
from jit.ir.sizes import SizeExpr, SizeSymbol
from jit.ir.types import TENSOR

from ..arrays.interpreter import Assembler
from ..arrays.programs import Engine, Program, Registers, Runner
from ..arrays.size_instructions import size_instruction
from ..kernels.code_store import STORE, CodePlace
from . import entry
from .restored_sized import RestoredSized
from .sized_calls import native_instruction, only_call, sized_instruction

ALIGNMENT = 64
"""The alignment of all that is in a block, in bytes."""
_DTYPES = {dtype.name: dtype for dtype in dtypes.KNOWN}
_HEAD_BYTES = 8
RECORDS = {
    "SizeFacts": ".arrays.size_instructions", "PackedProduct": ".products.packed", "ConvWindow": ".products.conv",
    "ConvolutionWork": ".products.conv", "DepthwiseRows": ".products.depthwise",
    "ProductByLines": ".products.by_lines", "FewRowsProduct": ".products.few_rows",
    "FoldedConvolution": ".products.conv_folded",
    "WeightGradient": ".products.conv_weight", "MaxPoolWork": ".products.pooling",
    "MeanPoolWork": ".products.pooling", "MaxUnpoolWork": ".products.pooling", "RowSums": ".products.row_sums",
}  # fmt: skip
"""Records that may be part of a plan, and where they are declared: works that are plain data among them."""


def pack(head: dict[str, Any], block: bytes) -> bytes:
    """A head of plain data and a block of words as one entry of the cache."""
    text = json.dumps(head).encode()
    return len(text).to_bytes(_HEAD_BYTES, "little") + text + block


def unpack(data: bytes) -> tuple[dict[str, Any], bytes]:
    """The inverse of `pack`."""
    end = _HEAD_BYTES + int.from_bytes(data[:_HEAD_BYTES], "little")
    head: dict[str, Any] = json.loads(data[_HEAD_BYTES:end])
    return head, data[end:]


def in_memory(head: dict[str, Any], block: bytes) -> Any | None:
    """The block with its addresses filled in, aligned; None if one of the functions is not available."""
    functions = [_address_of(function) for function in head["functions"]]
    if None in functions:
        return None
    memory = np.empty(len(block) + ALIGNMENT, np.uint8)
    memory = memory[-_data(memory) % ALIGNMENT :][: len(block)]
    memory[:] = np.frombuffer(block, np.uint8)
    words = memory[: len(block) // 8 * 8].view(np.int64)
    pointers, calls = (np.array(head[name], np.int64) // 8 for name in ("pointers", "calls"))
    words[pointers] += _data(memory)
    words[calls] = np.array([*functions, 0], np.int64)[words[calls]]
    return memory


def _address_of(function: Sequence[Any]) -> int | None:
    if function[0] == "blas":
        from ..products.blas import blas_function

        try:
            return blas_function(function[1], _DTYPES[function[2]])
        except (ImportError, CompileError):  # SciPy has gone since
            return None
    if function[0] == "blas alone":
        from ..products.blas_alone import state

        return state()
    image, name, count, imports = function
    return STORE.placed(CodePlace(image, name, count, tuple((a, b) for a, b in imports)))


def _data(array: Any) -> int:
    return int(array.__array_interface__["data"][0])


@dataclass(eq=False)
class RestoredCode:
    """The code of a restored plan, with as much of `plan.StretchCode` as calls need."""

    layouts: list[entry.EntryInput]
    outputs: list[tuple[tuple[int, ...], Any]]
    facts: dict[str, Any]
    memory: Any
    local: Callable[[], Any]
    """Makes the `plan.StretchCode` that this one stands for."""

    def failed(self, status: int) -> None:
        """Raise what a run has returned."""
        if status < 0:
            raise MemoryError(
                f"a plan needs {self.facts['arena']} bytes for temporaries; free memory, or pass smaller inputs"
            )
        self.local().failed(status)

    def tables(self) -> entry.Tables:
        """The tables that an entry for arrays looks at."""
        base, facts = _data(self.memory), self.facts
        program = self.memory[facts["program"] :].view(np.int64)
        constants = [base + offset for offset in facts["constants"]]
        return entry.Tables(
            self.layouts, self.outputs, program, facts["operands"], facts["arena"], constants, self.failed,
            facts["release"], kept=self.memory,
        )  # fmt: skip


class RestoredNative:
    """A native call, callable with arrays, that another process has compiled."""

    def __init__(self, facts: dict[str, Any], memory: Any, local: Callable[[], Any]) -> None:
        self.reads: list[int] = facts["reads"]
        self.results: list[int] = facts["results"]
        self.told: int | None = None
        layouts = [
            entry.EntryInput(_DTYPES[name].numpy, tuple(shape), tuple(strides), argument=index)
            for index, (name, shape, strides) in enumerate(facts["layouts"])
        ]
        outputs = [(tuple(shape), _DTYPES[name].numpy) for name, shape in facts["outputs"]]
        self.code = RestoredCode(layouts, outputs, facts, memory, lambda: local().code)
        self._call = entry.make_entry(self.code.tables())
        self._local = local

    def __call__(self, arrays: Sequence[Any]) -> Sequence[Any]:
        """The outputs."""
        found: Sequence[Any] | None = self._call(*arrays)
        return found if found is not None else self._local()(arrays)


class RestoredEngine(Runner):
    """A plan of another process's making: native calls, and single nodes between them.

    Args:
        head: What `plan_image.image_of` says.
        memory: The block, as `in_memory` returns it.
        source: The graph that the plan was made of, before it was optimised.
        make: Makes the plan of it.
    """

    def __init__(
        self, head: dict[str, Any], memory: Any, source: Callable[[], Graph], make: Callable[[Graph], Engine]
    ) -> None:
        self._source = source
        self._make = make
        self._made: Engine | None = None
        self._assembler = Assembler(Graph(), recurrences=_recurrence)
        self._sized: list[tuple[int, int, RestoredSized]] = []
        """The native calls for many sizes, with their stages and numbers."""
        programs = [self._program(stage, facts, memory) for stage, facts in enumerate(head["stages"])]
        super().__init__(programs, head["count"])

    @property
    def local_plan(self) -> Any:
        """The plan that this one stands for, see Note [More than a call]."""
        if self._made is None:
            self._made = self._make(self._source())
        for stage, number, native in self._sized:
            self._made.natives[stage][number].call.latest = native.call.latest
        return self._made

    @property
    def graph(self) -> Graph:
        """The optimised graph."""
        made: Graph = self.local_plan.graph
        return made

    @property
    def natives(self) -> Any:
        """The native calls of the local plan."""
        return self.local_plan.natives

    def freeze(self) -> None:
        """Keep the graph that the plan was made of, which is about to change."""
        if self._made is None:
            graph = self._source()
            self._source = lambda: graph

    def native_call(self, stage: int, arrays: Sequence[Any] = (), with_views: bool = False) -> Any:
        """The one native call that a stage consists of, for the sizes of these arrays; None if there is more to it.

        Where views may be `with` it, Python makes them of what the call reads and gives: see `views_of`.
        """
        return only_call(self.programs[stage], self.count, arrays, with_views)

    def _program(self, stage: int, facts: dict[str, Any], memory: Any) -> Program:
        program = Program()
        program.inputs, program.updates = facts["inputs"], facts["updates"]
        program.outputs = [None if register is None else Ref(register) for register in facts["outputs"]]
        program.frees = [tuple(registers) for registers in facts["frees"]]
        program.unused, program.returned = tuple(facts["unused"]), tuple(facts["returned"])
        natives = itertools.count()
        for number, step in enumerate(facts["steps"]):
            program.instructions.append(self._instruction(step, stage, memory, natives))
            program.nodes.append(_Site(partial(self._node, stage, number)))  # type: ignore[arg-type]
        return program

    def _instruction(
        self, step: dict[str, Any], stage: int, memory: Any, natives: Iterator[int]
    ) -> Callable[[Registers], None]:
        if "kind" in step:
            node, registers = _node(step, memory)
            return self._assembler.instruction(node, step["results"], registers)
        if "size" in step:
            return size_instruction(_unplain(step["size"], memory))
        number = next(natives)
        local = partial(self._native, stage, number)
        if "sizes" not in step:
            return native_instruction(RestoredNative(step, memory, local))
        native = RestoredSized(step, memory, lambda thing: _unplain(thing, memory), local)
        self._sized.append((stage, number, native))
        return sized_instruction(native, step["sizes"])

    def _native(self, stage: int, number: int) -> Any:
        return self.local_plan.natives[stage][number]

    def _node(self, stage: int, number: int) -> Node:
        node: Node = self.local_plan.programs[stage].nodes[number]
        return node


def _recurrence(op: Op, values: Sequence[Any], wanted: Sequence[bool]) -> list[Any]:
    """All results of a recurrence: nodes that were restored do not know who uses them."""
    from .loops import run_recurrence  # which plans steps, so that it is loaded where there are some

    return run_recurrence(op, values)


class _Site:
    """Stands for a node of the local plan in error messages."""

    def __init__(self, node: Callable[[], Node]) -> None:
        self._node = node

    @property
    def source(self) -> Any:
        """The user's line."""
        return self._node().source

    @property
    def kind(self) -> str:
        """The operator."""
        return self._node().kind


def _node(facts: dict[str, Any], memory: Any) -> tuple[Node, dict[Any, int]]:
    """A node that stands for itself, and the registers of its inputs and of the sizes that it is told."""
    values = [Graph().add_input(TENSOR) for _ in facts["inputs"]]
    attributes = {name: _unplain(value, memory) for name, value in facts["attributes"].items()}
    node = Node(None, facts["kind"], _unplain(facts["args"], memory), attributes, values)
    sizes = [leaf for leaf in leaves((node.args, node.attributes)) if type(leaf) is SizeExpr]
    registers: dict[Any, int] = dict(zip(sizes, facts["of_sizes"], strict=True))
    return node, registers | dict(zip(values, facts["inputs"], strict=True))


def _unplain(thing: Any, memory: Any) -> Any:
    """The template that `plan_image` has written so."""
    if not isinstance(thing, list):
        return thing
    kind, *rest = thing
    if kind == "float":
        return struct.unpack("<d", bytes.fromhex(rest[0]))[0]
    if kind == "complex":
        return complex(*(_unplain(part, memory) for part in rest))
    if kind == "tuple":
        return tuple(_unplain(item, memory) for item in rest)
    if kind == "input":
        return Ref(rest[0])
    if kind == "dtype":
        return _DTYPES[rest[0]]
    if kind == "size":
        return parse_size(rest[0])
    if kind == "symbol":
        return SizeSymbol(rest[0])
    if kind == "record":
        name, *values = rest
        record = getattr(import_module(RECORDS[name], "jit.runtime"), name)
        return record(*(_unplain(value, memory) for value in values))
    name, shape, offset = rest
    count, dtype = math.prod(shape), _DTYPES[name].numpy
    return memory[offset : offset + count * dtype.itemsize].view(dtype).reshape(shape)
