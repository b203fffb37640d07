"""Captures: tensors, generators and numbers from outside that a traced function uses become hidden inputs."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from jit.autograd.nodes import edge_of
from jit.eager.generators import Generator, default_generator
from jit.eager.tensors import Tensor
from jit.ir import GENERATOR, Value
from jit.ir.types import ScalarType

from ..surroundings.properties import kind_of, type_of
from .identities import Identities
from .memory import Binding, TraceMemory
from .records import Capture
from .refusals import check_first_stage, shared_memory
from .tape import Tape

Locate = Callable[[Any], tuple[str | None, int | None]]


class Captures:
    """The hidden inputs of one trace.

    Args:
        tape: The tape whose graph gets the inputs.
        memory: The memory that binds tensors to them.
        identities: The objects that the function has got in place of others.
        locate: Finds the user's name for a captured tensor, and its place in the World of a call.
    """

    def __init__(self, tape: Tape, memory: TraceMemory, identities: Identities, locate: Locate) -> None:
        self.found: list[Capture] = []
        """The captures in the order of the inputs that they are, behind those of the arguments."""
        self.facts: dict[tuple[Value, str], Any] = {}
        """The facts that the function has read of the tensors behind inputs; see Note [Metadata]."""
        self.locate = locate
        self.graph, self.memory, self.identities = tape.graph, memory, identities

    def known(self, tensor: Tensor) -> Binding:
        """The binding of a tensor that the trace knows; one that it meets for the first time is captured."""
        return self.memory.known(tensor) or self.tensor(tensor)

    def tensor(self, tensor: Tensor, gradient_of: Value | None = None) -> Binding:
        """Make a tensor from outside a hidden input; `gradient_of` is the input whose `.grad` it is."""
        check_first_stage(self.graph, "a tensor")
        if self.memory.is_written(tensor._array):
            raise shared_memory()
        name, place = self.locate(tensor)
        holder = None
        if place is None and gradient_of is not None:
            name, holder = f"{gradient_of.name}.grad", self.graph.inputs.index(gradient_of)
        name = name or tensor._name or "captured"
        value = self.graph.add_input(type_of(tensor), name, 0)
        self.found.append(Capture(value, tensor, name, place, holder, edge=edge_of(tensor), kind=kind_of(tensor)))
        return self.memory.bind_root(tensor, value, value)

    def generator(self, generator: Generator) -> Value:
        """Make the state with which a generator from outside comes a hidden input."""
        check_first_stage(self.graph, "a random generator")
        name, place = self.locate(generator)
        name = "rng" if generator is default_generator() else (name or "generator")
        value = self.graph.add_input(GENERATOR, name, 0)
        self.found.append(Capture(value, generator, name, place))
        self.memory.originals[value] = generator.state
        return value

    def number(self, number: Any, name: str) -> Value:
        """Make a promoted number a hidden input."""
        value = self.graph.add_input(ScalarType(type(number).__name__), name, 0)
        count = sum(capture.number is not None for capture in self.found)
        self.found.append(Capture(value, number, name, number=count))
        return value

    def is_inside(self, tensor: Tensor) -> bool:
        """Whether the traced function made this tensor."""
        binding = self.memory.binding(tensor)
        if binding is None and self.memory.has_met(tensor._storage):
            binding = self.known(tensor)
        return binding is not None and binding.cell.source is None

    def is_from_outside(self, tensor: Tensor) -> bool:
        """Whether a tensor object comes from outside; a view of it, like `x.detach()`, is the function's own object."""
        if tensor in self.identities.outer or tensor in self.identities.reshaped:
            return True
        binding = self.memory.binding(tensor)
        return not self.is_inside(tensor) if binding is None else binding.cell.tensor is tensor
