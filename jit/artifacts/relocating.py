"""Loads what was saved on one device for another one: `jit.load(path, map_location)`.

Graphs, keys and tensors of an artifact name their devices. A `Relocation` says which device takes the place of each,
and every name goes through it while the artifact is read, so that the recordings run there.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from jit.eager.namespace import F
from jit.ir import Graph, Node, Op, TensorType, find
from jit.ir.devices import CPU, device, resolve
from jit.ir.errors import KindError
from jit.ir.types import Type

CPU_NAME = str(CPU)


class Relocation:
    """The devices that take the place of those in an artifact.

    Args:
        chosen: As `map_location` of `jit.load`.

    Raises:
        KindError: `chosen` is none of these.
    """

    def __init__(self, chosen: Any) -> None:
        if chosen is not None and not isinstance(chosen, (str, device, Mapping)) and not callable(chosen):
            raise KindError(
                f"map_location is a device, a dictionary of devices or a function, not {type(chosen).__name__}"
            )
        self._chosen = chosen
        self._known: dict[str, str] = {}

    @property
    def is_asked(self) -> bool:
        """Whether somebody has said where anything is to lie."""
        return self._chosen is not None

    def __call__(self, location: str) -> str:
        """The name of the device for what lay on `location`."""
        if location not in self._known:
            self._known[location] = self._found(location)
        return self._known[location]

    def _found(self, location: str) -> str:
        chosen: Any = self._chosen
        if isinstance(chosen, Mapping):
            chosen = {str(device(key)): place for key, place in chosen.items()}.get(location)
        elif chosen is not None and not isinstance(chosen, (str, device)):
            made = chosen(F.empty((0,), device=CPU_NAME), location)
            chosen = None if made is None else getattr(made, "device", made)
        return location if chosen is None else str(resolve(chosen))

    def place(self, place: Any) -> Any:
        """The place in the kind of a tensor: the name of a device, or for the CPU whether the memory can be written."""
        found = self(CPU_NAME if isinstance(place, bool) else place)
        if found != CPU_NAME:
            return found
        return place if isinstance(place, bool) else True

    def kinds(self, kinds: tuple[Any, ...]) -> tuple[Any, ...]:
        """The kinds of the tensors in a key."""
        return tuple((*k[:5], self.place(k[5]), *k[6:]) if len(k) > 6 else k for k in kinds)

    def fact(self, value: Any) -> Any:
        """A fact that a function has asked of a tensor: if it is a device, the one in its place."""
        return device(self(str(value))) if isinstance(value, device) else value

    def move(self, graph: Graph) -> None:
        """Let the types and the arguments of a graph name the devices in place of theirs."""
        for value in graph.values:
            value.type = self._type(value.type)
        for node in graph.nodes:
            if isinstance(node.attributes.get("value"), np.ndarray) and self(CPU_NAME) != CPU_NAME:
                self._move_constant(graph, node)
            name = node.attributes.get("device")
            if isinstance(name, str) or _makes_tensors(find(node.kind)):
                node.attributes["device"] = self(name or CPU_NAME)

    def _move_constant(self, graph: Graph, node: Node) -> None:
        """Copy a constant, whose elements the CPU has, to where it is used."""
        moved, home = node.output.type, TensorType
        assert isinstance(moved, home)
        node.output.type = home(moved.dtype, moved.shape, moved.strides)
        copy = graph.create("aten::_to_copy", (node.output,), {"device": moved.device})
        with graph.inserting_before(node._next):
            graph.insert(copy, node.stage)
        node.output.replace_all_uses_with(copy.add_output(moved))
        copy.inputs[0] = node.output

    def _type(self, type: Type) -> Type:
        if not isinstance(type, TensorType):
            return type
        return TensorType(type.dtype, type.shape, type.strides, self(type.device))


def _makes_tensors(op: Op | None) -> bool:
    """Whether an operator makes tensors of nothing, on the CPU unless it is told otherwise."""
    return op is not None and not op.tensors and "device" in op.schema.argument_names
