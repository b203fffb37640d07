"""What comes from outside a traced function: tensors and generators that it uses become hidden inputs."""

from __future__ import annotations

from typing import TYPE_CHECKING

from jit.autograd.nodes import edge_of
from jit.eager.generators import Generator, default_generator
from jit.eager.tensors import Tensor
from jit.ir import GENERATOR, Value

from ..surroundings.properties import kind_of, type_of
from .memory import Binding
from .records import Capture
from .refusals import check_first_stage, shared_memory

if TYPE_CHECKING:
    from .tracer import Trace


def known(trace: Trace, tensor: Tensor) -> Binding:
    """What the trace knows of a tensor; one that it meets for the first time is captured."""
    return trace.memory.known(tensor) or capture(trace, tensor)


def capture(trace: Trace, tensor: Tensor, gradient_of: Value | None = None) -> Binding:
    """A tensor from outside becomes a hidden input; `gradient_of` is the input whose `.grad` it is."""
    check_first_stage(trace, "a tensor")
    if trace.memory.is_written(tensor._array):
        raise shared_memory()
    name, place = trace.locate(tensor)
    holder = None
    if place is None and gradient_of is not None:
        name, holder = f"{gradient_of.name}.grad", trace.graph.inputs.index(gradient_of)
    name = name or tensor._name or "captured"
    value = trace.graph.add_input(type_of(tensor), name, 0)
    trace.captures.append(Capture(value, tensor, name, place, holder, edge=edge_of(tensor), kind=kind_of(tensor)))
    return trace.memory.bind_root(tensor, value, value)


def state_of(trace: Trace, generator: Generator) -> Value:
    """The state that a generator is in now; one that the trace meets for the first time is captured."""
    if generator not in trace.generators:
        check_first_stage(trace, "a random generator")
        name, place = trace.locate(generator)
        name = "rng" if generator is default_generator() else (name or "generator")
        value = trace.graph.add_input(GENERATOR, name, 0)
        trace.captures.append(Capture(value, generator, name, place))
        trace.originals[value] = generator.state
        trace.generators[generator] = trace.initial_states[generator] = value
    return trace.generators[generator]


def is_inside(trace: Trace, tensor: Tensor) -> bool:
    """Whether the traced function made this tensor."""
    binding = trace.memory.binding(tensor)
    if binding is None and trace.memory.has_met(tensor._storage):
        binding = known(trace, tensor)
    return binding is not None and binding.cell.source is None


def is_from_outside(trace: Trace, tensor: Tensor) -> bool:
    """Whether an object comes from outside. A view of what does, as `x.detach()` is, was made by the function."""
    if tensor in trace.outer or tensor in trace.reshaped:
        return True
    binding = trace.memory.binding(tensor)
    return not is_inside(trace, tensor) if binding is None else binding.cell.tensor is tensor
