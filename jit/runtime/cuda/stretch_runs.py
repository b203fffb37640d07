"""A stretch as it runs on a GPU for arrays of certain layouts: its kernels, and where their operands lie."""

from __future__ import annotations

import ctypes
from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

from jit.ir import Graph, Node, TensorType, Value
from jit.ir.errors import CompileError, Error
from jit.ir.geometry import Geometry
from jit.passes.support.spaces import arguments

from ..arrays.libraries import raise_explained
from ..arrays.programs import locate
from ..kernels.codegen import check_status
from ..kernels.fusion import group_nest
from ..kernels.nest import Buffer
from ..plans.arena import Arena
from ..plans.places import Layout, MemoryBlock, StepDeclined, Stretch, ValuePlace
from ..plans.reshaped import whole_of
from ..plans.views import parts_of
from .driver import out_of_memory
from .launch_list import LaunchList
from .launch_words import KernelLaunch
from .launching import CudaKernel
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
        self._outputs = {whole_of(value, stretch.views): number for number, value in enumerate(stretch.outputs)}
        self._users = _last_users(stretch, self._outputs)
        self._arena = Arena()
        self._ending: dict[Node, list[int]] = {}
        for number, (value, layout) in enumerate(zip(stretch.inputs, layouts, strict=True)):
            strides = Buffer.like(layout).strides  # type: ignore[arg-type]
            block = MemoryBlock("input", 0, number)
            self.places[value] = ValuePlace(block, value.type.dtype, Geometry(layout.shape, strides))  # type: ignore[attr-defined]

    @property
    def arena(self) -> int:
        """The bytes of the arena."""
        return self._arena.size

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

    def _block(self, value: Value, nbytes: int) -> MemoryBlock:
        if value in self._outputs:
            return MemoryBlock("output", nbytes, self._outputs[value])
        offset = self._arena.take(nbytes)
        self._ending.setdefault(self._users[value], []).append(offset)
        return MemoryBlock("temporary", nbytes, offset=offset)

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


class StretchRun:
    """The kernels of a stretch for certain layouts: callable with its inputs.

    Args:
        stretch: The nodes, with numbers for sizes.
        layouts: How its inputs lie.
        library: The arrays of the GPU.

    Raises:
        StepDeclined: A node has no kernel.
    """

    def __init__(self, stretch: Stretch, layouts: Sequence[Layout], library: Any) -> None:
        self._stretch, self._library, self._module = stretch, library, library.module
        self._outputs = [(value.type.sizes, value.type.dtype.numpy) for value in stretch.outputs]  # type: ignore[attr-defined]
        self._inputs = len(stretch.inputs)
        self._failing: list[Node] = []
        """The nodes whose kernels report errors."""
        self._arena = 0
        launches = self._lowered(layouts)
        self._launches = LaunchList(launches, library.driver, partial(graphs_work, library))
        self._bases: Any = ctypes.c_int64 * (3 + self._inputs + len(self._outputs))
        self._quiet = self._module.zeros(1, "int32")
        """The errors of kernels that report none."""

    def __call__(self, arrays: Sequence[Any]) -> list[Any]:
        """The outputs; waits for kernels that may fail.

        Raises:
            DivisionError: An integer was divided by zero.
            DimError: An index is out of range.
            OutOfMemoryError: The GPU has too little memory left.
            AcceleratorError: The driver has refused a kernel.
        """
        with self._library.current():
            try:
                outputs = [self._made(self._module.empty, number) for number in range(len(self._outputs))]
                self._queue(arrays, outputs)
            except Error:
                raise
            except Exception as error:
                self._raise_explained(error)
                raise
        return outputs

    def _raise_explained(self, error: Exception) -> None:
        """Raise the error of this package for one of the device's, if there is one, with the user's line."""
        kernels = ", ".join(dict.fromkeys(map(_operators, self._stretch.nodes)))
        try:
            raise_explained(self._library, error, f"the kernels of {kernels}")
        except Error as found:
            locate(found, _sourced(self._stretch.nodes[0]))
            raise

    def _queue(self, arrays: Sequence[Any], outputs: Sequence[Any]) -> None:
        """Launch the kernels, in an arena of the call's own, and wait for those that may fail."""
        module, failing = self._module, self._failing
        arena = self._made(module.empty) if self._arena else self._quiet
        errors = module.zeros(len(failing), "int32") if failing else self._quiet
        used = (arena, *arrays, *outputs, errors, self._quiet)
        self._library.driver.attach()
        stream = module.cuda.get_current_stream().ptr
        self._launches(self._bases(*[array.data.ptr for array in used]), stream)
        if failing:
            self._check(errors.get().tolist())

    @property
    def remark(self) -> str:
        """Why its kernels are launched one by one although they were to be a CUDA graph."""
        return self._launches.remark

    @property
    def is_graph(self) -> bool:
        """Whether calls launch a CUDA graph."""
        return self._launches.is_graph

    def _made(self, empty: Callable[..., Any], output: int | None = None) -> Any:
        """Memory for an output, or else for the arena."""
        shape, dtype = ((self._arena,), "uint8") if output is None else self._outputs[output]
        try:
            return empty(shape, dtype)
        except MemoryError as error:
            made = self._stretch.nodes[0] if output is None else self._stretch.outputs[output].node
            what = f"{self._arena} bytes of temporaries" if output is None else f"the result of {_operators(made)}"
            raised = out_of_memory(what)
            locate(raised, _sourced(made))
            raise raised from error

    def _check(self, statuses: Sequence[int]) -> None:
        for status, node in zip(statuses, self._failing, strict=True):
            try:
                check_status(status)
            except Exception as error:
                locate(error, _sourced(node))
                raise

    # -- lowering ------------------------------------------------------------------------------------------------

    def _lowered(self, layouts: Sequence[Layout]) -> list[KernelLaunch]:
        places = StretchPlaces(self._stretch, layouts)
        launches = []
        for node in self._stretch.nodes:
            if _is_view(node) and node.inputs[0] in places.places:
                places.view(node)
            else:
                launches.append(self._launch(node, places))
            places.end(node)
        self._arena = places.arena
        return launches

    def _launch(self, node: Node, places: StretchPlaces) -> KernelLaunch:
        body, inputs = _body_of(node)
        read = [places.places[value] for value in inputs]
        try:
            nest = group_nest(body, [Buffer.like(place.layout) for place in read])  # type: ignore[arg-type]
            kernel: CudaKernel = self._library.kernel(nest)
        except CompileError as error:
            raise StepDeclined(node, error) from error
        places.make(node)
        operands = [self._address(place) for place in (*read, *(places.places[value] for value in node.outputs))]
        return KernelLaunch(kernel, self._errors(kernel, node), operands, _sourced(node))

    def _address(self, place: ValuePlace) -> tuple[int, int]:
        """The base of a place, and the bytes from there."""
        first = {"temporary": 0, "input": 1, "output": 1 + self._inputs}[place.block.kind]
        return first + place.block.number, place.block.offset + place.start

    def _errors(self, kernel: CudaKernel, node: Node) -> tuple[int, int]:
        base = 1 + self._inputs + len(self._outputs)
        if not kernel.may_fail:
            return base + 1, 0
        self._failing.append(node)
        return base, FAILED * (len(self._failing) - 1)


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
