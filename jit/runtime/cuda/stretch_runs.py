"""A stretch as it runs on a GPU: its kernels, which serve all sizes, where their operands lie, and its calls."""

from __future__ import annotations

import ctypes
import math
from collections.abc import Sequence
from functools import partial
from itertools import zip_longest
from typing import Any

from jit.ir import Graph, Node, TensorType, Value
from jit.ir.errors import CompileError, Error
from jit.ir.geometry import Geometry
from jit.ir.sizes import any_symbolic
from jit.passes.support.spaces import arguments

from ..arrays.libraries import raise_explained
from ..arrays.programs import locate
from ..gpu.fused_product import is_listed
from ..kernels.codegen import check_status
from ..kernels.fusion import group_nest
from ..kernels.nest import Buffer
from ..plans.arena import Arena
from ..plans.places import Layout, MemoryBlock, StepDeclined, Stretch, ValuePlace
from ..plans.reshaped import whole_of
from ..plans.sized_tables import SizedShapes, as_texts
from ..plans.slots import SlotArena
from ..plans.views import parts_of
from .driver import out_of_memory
from .launch_list import LaunchList
from .launch_words import KernelLaunch, LaunchTables, OperandPlace
from .launching import CudaKernels
from .listed_products import kernel_together, product_kernel, waits, with_products_last
from .trial import graphs_work

FAILED = 4
"""The bytes of a kernel's errors."""


class StretchPlaces:
    """The places of the values of a stretch: its inputs, its outputs, and an arena for what lies between.

    Args:
        stretch: The nodes.
        layouts: How its inputs lie.
    """

    def __init__(self, stretch: Stretch, layouts: Sequence[Layout]) -> None:
        self.places: dict[Value, ValuePlace] = {}
        self._inputs = len(stretch.inputs)
        self._outputs = {whole_of(value, stretch.views): number for number, value in enumerate(stretch.outputs)}
        self._users = _last_users(stretch, self._outputs)
        sized = any(any_symbolic(value.type.sizes) for node in stretch.nodes for value in node.outputs)  # type: ignore[attr-defined]
        self._arena: Arena | SlotArena = SlotArena() if sized else Arena()
        self._ending: dict[Node, list[int]] = {}
        for number, (value, layout) in enumerate(zip(stretch.inputs, layouts, strict=True)):
            strides = Buffer.like(layout).strides  # type: ignore[arg-type]
            block = MemoryBlock("input", 0, number)
            self.places[value] = ValuePlace(block, value.type.dtype, Geometry(layout.shape, strides))  # type: ignore[attr-defined]

    @property
    def arena(self) -> int:
        """The bytes of the arena, if it has no slots."""
        return 0 if isinstance(self._arena, SlotArena) else self._arena.size

    @property
    def slots(self) -> list[list[int]]:
        """The sizes of what lies in each slot; none if sizes are numbers."""
        return [[*sizes] for sizes in self._arena.sizes] if isinstance(self._arena, SlotArena) else []

    def operand(self, value: Value) -> OperandPlace:
        """The place of a value for a launch."""
        block, start = self.places[value].block, self.places[value].start
        if block.kind != "temporary":
            first = 1 if block.kind == "input" else 1 + self._inputs
            return OperandPlace(first + block.number, start)
        return OperandPlace(0, start, block.offset) if self.slots else OperandPlace(0, block.offset + start)

    def buffer(self, value: Value) -> Buffer:
        """The layout of a value."""
        return Buffer.like(self.places[value].layout)  # type: ignore[arg-type]

    def view(self, node: Node) -> None:
        """Place what a view shows."""
        op, values = arguments(node)
        shown = self.places[node.inputs[0]]
        found = op.body(shown.geometry, *values[1:])
        for value, geometry in zip(node.outputs, found if isinstance(found, list) else [found], strict=True):
            self.places[value] = shown._replace(geometry=geometry)

    def make(self, node: Node) -> None:
        """Give the results of a node memory, row-major."""
        for value in node.outputs:
            type_ = value.type
            assert isinstance(type_, TensorType) and type_.dtype is not None and type_.sizes is not None
            geometry = Geometry.contiguous(type_.sizes)
            block = self._block(value, geometry.numel * type_.dtype.itemsize)
            self.places[value] = ValuePlace(block, type_.dtype, geometry)

    def between(self, node: Node, buffer: Buffer) -> OperandPlace:
        """Memory that the kernels of a node hand each other."""
        offset = self._taken(math.prod(buffer.sizes) * buffer.dtype.itemsize, node)
        return OperandPlace(0, 0, offset) if self.slots else OperandPlace(0, offset)

    def _block(self, value: Value, nbytes: int) -> MemoryBlock:
        if value in self._outputs:
            return MemoryBlock("output", nbytes, self._outputs[value])
        return MemoryBlock("temporary", nbytes, offset=self._taken(nbytes, self._users[value]))

    def _taken(self, nbytes: int, last: Node) -> int:
        """The beginning of memory in the arena, or its slot, which is given back behind a node."""
        offset = self._arena.take(nbytes)
        self._ending.setdefault(last, []).append(offset)
        return offset

    def end(self, node: Node) -> None:
        """Take back what nobody reads after a node."""
        for offset in self._ending.pop(node, ()):
            self._arena.give(offset)


def _last_users(stretch: Stretch, outputs: dict[Value, int]) -> dict[Value, Node]:
    """The last node that reads a value, itself or through views; the node that makes it if there is none."""
    homes: dict[Value, Value] = {}
    last: dict[Value, Node] = {}
    for node in stretch.nodes:
        read = [homes.get(value, value) for value in node.inputs]
        last |= dict.fromkeys(read, node)
        if _is_view(node):
            homes |= dict.fromkeys(node.outputs, read[0])
        else:
            last |= dict.fromkeys(node.outputs, node)
    return last


def _is_view(node: Node) -> bool:
    return node.kind.startswith("aten::") and arguments(node)[0].kind == "view"


class StretchKernels:
    """The kernels of a stretch for certain layouts, which may speak of sizes: lowered once for all of these.

    To be made in a block in which sizes are decided, if there are any.

    Args:
        stretch: The nodes.
        layouts: How its inputs lie.
        names: The names of the symbols, in the order in which their values are given.
        library: The arrays of the GPU.

    Raises:
        StepDeclined: A node has no kernel.
    """

    def __init__(self, stretch: Stretch, layouts: Sequence[Layout], names: Sequence[str], library: Any) -> None:
        self.stretch, self.library = with_products_last(stretch), library
        self.failing: list[Node] = []
        """The nodes whose kernels report errors."""
        self.launches, places = self._lowered(layouts)
        outputs = [(as_texts(value.type.sizes), value.type.dtype.numpy) for value in stretch.outputs]  # type: ignore[attr-defined]
        inputs = [(dtype, as_texts(shape), as_texts(strides)) for dtype, shape, strides in layouts]
        self.shapes = SizedShapes(inputs, outputs, names)
        """The layouts of inputs, and the shapes of outputs."""
        self.tables = LaunchTables(self.launches, names, places.arena, places.slots)
        self.bases: Any = ctypes.c_int64 * (3 + len(inputs) + len(outputs))
        """The type of the bases of a call."""
        self.quiet = library.module.zeros(1, "int32")
        """The errors of kernels that report none."""

    def _lowered(self, layouts: Sequence[Layout]) -> tuple[list[KernelLaunch], StretchPlaces]:
        places = StretchPlaces(self.stretch, layouts)
        launches: list[KernelLaunch] = []
        waiting: Node | None = None
        for node, following in zip_longest(self.stretch.nodes, self.stretch.nodes[1:]):
            if _is_view(node) and node.inputs[0] in places.places:
                places.view(node)
            elif waits(node, following, places.buffer):
                waiting = node
                continue
            else:
                launches += self._after(waiting, node, places)
                waiting = None
            places.end(node)
        return launches, places

    def _after(self, product: Node | None, node: Node, places: StretchPlaces) -> list[KernelLaunch]:
        """The launches of a node, and of the product in front of it that has waited, if one has."""
        if product is None:
            return self._launched(node, places)
        together = kernel_together(product, node, places.buffer, self.library)
        made = self._launched(product, places) if together is None else []
        made += self._launched(node, places, together)
        places.end(product)
        return made

    def _launched(self, node: Node, places: StretchPlaces, given: Any = None) -> list[KernelLaunch]:
        """The launches of a node, whose kernel and what it reads may be given; several if its rows are cut."""
        try:
            work, inputs = given or self._work(node, places)
        except CompileError as error:
            raise StepDeclined(node, error) from error
        places.make(node)
        operands = [places.operand(value) for value in (*inputs, *node.outputs)]
        if not isinstance(work, CudaKernels):
            return [KernelLaunch(work, self._errors(work, node), operands, _sourced(node))]
        operands += [places.between(node, buffer) for buffer in work.temporaries]
        return [
            KernelLaunch(kernel, self._errors(kernel, node), [operands[number] for number in numbers], _sourced(node))
            for kernel, numbers in work.calls
        ]

    def _work(self, node: Node, places: StretchPlaces) -> tuple[Any, Sequence[Value]]:
        """The kernels of a node, or the product by cuBLAS, and the values that it reads."""
        if is_listed(node):
            return product_kernel(node, places.buffer, self.library), node.inputs
        body, inputs = _body_of(node)
        return self.library.kernels(group_nest(body, [*map(places.buffer, inputs)])), inputs

    def _errors(self, kernel: Any, node: Node) -> OperandPlace:
        base = 1 + len(self.stretch.inputs) + len(self.stretch.outputs)
        if not kernel.may_fail:
            return OperandPlace(base + 1, 0)
        self.failing.append(node)
        return OperandPlace(base, FAILED * (len(self.failing) - 1))


class StretchRun:
    """The kernels of a stretch at some sizes: callable with its inputs.

    Args:
        kernels: The kernels.
        sizes: The values of the symbols.
    """

    def __init__(self, kernels: StretchKernels, sizes: Sequence[int] = ()) -> None:
        self.kernels = kernels
        self._library, self._module, self._driver = kernels.library, kernels.library.module, kernels.library.driver
        self._outputs = [(*made, number) for number, made in enumerate(kernels.shapes.at(sizes)[1])]
        words = kernels.tables.at(sizes)
        self._arena = words.arena
        works = partial(graphs_work, self._library)
        self._launches = LaunchList(kernels.launches, words, self._driver, works, self._library.cublas)

    def __call__(self, arrays: Sequence[Any]) -> list[Any]:
        """The outputs; see `launched`."""
        return self.launched([array.data.ptr for array in arrays])

    def launched(self, addresses: Sequence[int]) -> list[Any]:
        """The outputs, given where the inputs lie; waits for kernels that may fail.

        Raises:
            DivisionError: An integer was divided by zero.
            DimError: An index is out of range.
            OutOfMemoryError: The GPU has too little memory left.
            AcceleratorError: The driver has refused a kernel.
        """
        if not self._library.is_current():
            with self._library.current():
                return self.launched(addresses)
        try:
            outputs = [self._made(*made) for made in self._outputs]
            self._queue(addresses, outputs)
        except Error:
            raise
        except Exception as error:
            self._raise_explained(error)
            raise
        return outputs

    def _raise_explained(self, error: Exception) -> None:
        """Raise the error of this package for one of the device's, if there is one, with the user's line."""
        nodes = self.kernels.stretch.nodes
        names = ", ".join(dict.fromkeys(map(_operators, nodes)))
        try:
            raise_explained(self._library, error, f"the kernels of {names}")
        except Error as found:
            locate(found, _sourced(nodes[0]))
            raise

    def _queue(self, addresses: Sequence[int], outputs: Sequence[Any]) -> None:
        """Launch the kernels, in an arena of the call's own, and wait for those that may fail."""
        kernels, module = self.kernels, self._module
        arena = self._made((self._arena,), "uint8", -1) if self._arena else kernels.quiet
        errors = module.zeros(len(kernels.failing), "int32") if kernels.failing else kernels.quiet
        made = [array.data.ptr for array in (*outputs, errors, kernels.quiet)]
        self._driver.attach()
        bases = kernels.bases(arena.data.ptr, *addresses, *made)
        self._launches(bases, module.cuda.get_current_stream().ptr)
        if kernels.failing:
            self._check(errors.get().tolist())

    @property
    def remark(self) -> str:
        """Why its kernels are launched one by one although they were to be a CUDA graph."""
        return self._launches.remark

    @property
    def is_graph(self) -> bool:
        """Whether calls launch a CUDA graph."""
        return self._launches.is_graph

    def _made(self, shape: Sequence[int], dtype: Any, output: int) -> Any:
        """Memory for an output, or else for the arena."""
        try:
            return self._module.ndarray(shape, dtype)
        except MemoryError as error:
            stretch = self.kernels.stretch
            made = stretch.nodes[0] if output < 0 else stretch.outputs[output].node
            what = f"{self._arena} bytes of temporaries" if output < 0 else f"the result of {_operators(made)}"
            try:
                raise out_of_memory(what) from error
            except Error as raised:
                locate(raised, _sourced(made))
                raise

    def _check(self, statuses: Sequence[int]) -> None:
        for status, node in zip(statuses, self.kernels.failing, strict=True):
            try:
                check_status(status)
            except Exception as error:
                locate(error, _sourced(node))
                raise


def _body_of(node: Node) -> tuple[Graph, Sequence[Value]]:
    """The operators of a node, as the body of a group, and the values that are its inputs."""
    if node.kind == "prim::FusionGroup":
        return node.attributes["body"], node.inputs
    body, inputs = Graph(), list(dict.fromkeys(node.inputs))
    mapping = {value: body.add_input(value.type) for value in inputs}
    body.copy_node(node, mapping).stage = 0
    body.set_return([mapping[value] for value in node.outputs])
    return body, inputs


def _sourced(node: Node) -> Node:
    """A node that knows the user's line: itself, or of a group the first that does."""
    return next((part for part in parts_of(node) if part.source is not None), node)


def _operators(node: Node) -> str:
    """The names of what a node computes."""
    return ", ".join(dict.fromkeys(part.kind.removeprefix("aten::") for part in parts_of(node)))
