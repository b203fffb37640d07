"""Gradients that a traced function itself reads, writes and hooks; see Note [Gradients as effects]."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from jit.autograd.nodes import apart, is_plain
from jit.eager import context
from jit.eager.namespace import F
from jit.eager.tensors import Tensor
from jit.ir import Value
from jit.ir.errors import TraceError

from ..surroundings.properties import has_hooks
from .capturing import capture, is_from_outside, known
from .refusals import at_line, check_first_stage, refuse_change

if TYPE_CHECKING:
    from .tracer import Trace


@dataclass(eq=False, slots=True)
class GradientSlot:
    """`.grad` of a tensor from outside, which the function reads or writes; see Note [Gradients as effects]."""

    holder: Any
    """The tensor outside; while recording it holds what the function has put there."""
    value: Value
    """The input that it is."""
    initial: Any
    """What was there when the function came: a tensor or None."""
    found: Value | None = None
    """The input that `initial` is, if the function has read it."""
    is_read: bool = False
    """Whether the function has read it before it wrote it."""

    @property
    def has_changed(self) -> bool:
        """Whether there may be another tensor now; what is written to the memory of the same one is an update."""
        return not self.is_read or self.holder._grad is not self.initial


def gradient_of(trace: Trace, tensor: Tensor) -> Tensor | None:
    """`tensor.grad`, as the function reads it."""
    slot = _slot(trace, tensor, reads=True)
    return tensor._grad if slot is None else slot.holder._grad


def set_gradient(trace: Trace, tensor: Tensor, gradient: Tensor | None) -> None:
    """`tensor.grad = gradient`, in the function."""
    slot = _slot(trace, tensor, reads=False)
    (tensor if slot is None else slot.holder)._grad = gradient


def accumulate(trace: Trace, tensor: Tensor, gradient: Tensor, differentiable: bool) -> None:
    """What `jit.autograd.nodes.accumulate` does, by operators that are recorded."""
    have = gradient_of(trace, tensor)
    if have is None:
        set_gradient(trace, tensor, apart(gradient) if differentiable else F.clone(gradient))
    elif differentiable or have.requires_grad or not is_plain(have):
        set_gradient(trace, tensor, have + gradient)
    else:
        with context.no_grad():
            have.add_(gradient)


def _slot(trace: Trace, tensor: Tensor, reads: bool) -> GradientSlot | None:
    """The slot of a tensor from outside; None for one that the function made."""
    inner = trace.inner.get(tensor, tensor)
    cell = known(trace, inner).cell
    if cell.source is None:
        return None
    check_first_stage(trace, ".grad of a tensor from outside")
    if cell.tensor is not inner and inner not in trace.outer:
        return None
    holder = trace.outer.get(inner, inner)
    slot = trace.slots.get(holder)
    if slot is None:
        slot = trace.slots[holder] = GradientSlot(holder, cell.source, holder._grad, None, reads)
        if reads and holder._grad is not None:
            slot.found = _found_gradient(trace, holder._grad, cell.source)
    return slot


def _found_gradient(trace: Trace, gradient: Tensor, holder: Value) -> Value:
    """The input that a gradient is which was there when the function came."""
    binding = trace.memory.binding(trace.inner.get(gradient, gradient))
    if binding is None or (binding.cell.tensor is not gradient and gradient not in trace.inner):
        binding = capture(trace, gradient, holder)
    assert binding.cell.source is not None
    return binding.cell.source


def note_hook(trace: Trace, tensor: Tensor, hook: Callable[[Any], Any]) -> None:
    """The function hooks something to the gradient of `tensor`: it becomes part of the stages that follow."""
    refuse_change(trace, tensor, "register_hook() of")
    trace.hooks.setdefault(trace.value_of(tensor), []).append(hook)


def check_hooks(trace: Trace, node: Any) -> None:
    """TraceError if a backward inside the function ends at a leaf with hooks: they are not part of the function."""
    if len(trace.graph.stages) > 1:
        return
    leaf = trace.inner.get(node.variable, node.variable)
    cell = known(trace, leaf).cell
    if cell.source is None or not is_from_outside(trace, leaf):
        return
    trace.differentiated[trace.outer.get(leaf, leaf)] = cell.source
    if has_hooks(node.variable):
        raise TraceError(
            f"{at_line()}a backward inside the traced function runs a hook that was registered outside, on "
            f"{cell.source.name!r}; register it inside, or call backward() outside"
        )


def check_inside(trace: Trace, node: Any) -> None:
    """TraceError if a backward inside the traced function goes on outside of it."""
    if node.edges and node.serial < trace.first_serial:
        raise TraceError(
            f"{at_line()}a backward inside the traced function goes on through {node.name}, which was computed outside "
            f"of it (at {node.source}); pass what it is computed from as an argument, or detach() it"
        )
