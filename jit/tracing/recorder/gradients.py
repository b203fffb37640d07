"""Gradients that a traced function itself reads, writes and hooks; see Note [Gradients as effects]."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from jit.autograd.nodes import apart, is_plain, next_serial
from jit.eager import context
from jit.eager.namespace import F
from jit.eager.tensors import Tensor
from jit.ir import Value
from jit.ir.errors import TraceError

from ..surroundings.properties import has_hooks
from .capturing import Captures
from .refusals import at_line, check_first_stage


@dataclass(eq=False, slots=True)
class GradientSlot:
    """`.grad` of a tensor from outside, which the function reads or writes; see Note [Gradients as effects]."""

    holder: Any
    """The tensor outside; while recording it holds what the function has put there."""
    value: Value
    """The input that it is."""
    initial: Any
    """The gradient that was there before the call: a tensor or None."""
    found: Value | None = None
    """The input that `initial` is, if the function has read it."""
    is_read: bool = False
    """Whether the function has read it before it wrote it."""

    @property
    def has_changed(self) -> bool:
        """Whether there may be another tensor now; what is written to the memory of the same one is an update."""
        return not self.is_read or self.holder._grad is not self.initial


class Gradients:
    """The `.grad` of tensors, as one traced function sees them, and where backwards inside of it end."""

    def __init__(self, captures: Captures) -> None:
        self.slots: dict[Tensor, GradientSlot] = {}
        """The gradient slots by their holders."""
        self.hooks: dict[Value, list[Callable[[Any], Any]]] = {}
        """The hooks that the function has put on the gradients of its values."""
        self.differentiated: dict[Tensor, Value] = {}
        """Leaves from outside at which a backward inside the function has ended -> their inputs."""
        self._first_serial = next_serial()
        """Autograd nodes with a lower number come from outside."""
        self._captures = captures

    def read(self, tensor: Tensor) -> Tensor | None:
        """`tensor.grad`, as the function reads it."""
        slot = self._slot(tensor, reads=True)
        return tensor._grad if slot is None else slot.holder._grad

    def write(self, tensor: Tensor, gradient: Tensor | None) -> None:
        """`tensor.grad = gradient`, in the function."""
        slot = self._slot(tensor, reads=False)
        (tensor if slot is None else slot.holder)._grad = gradient

    def accumulate(self, tensor: Tensor, gradient: Tensor, differentiable: bool) -> None:
        """Accumulate a gradient as `jit.autograd.nodes.accumulate` does, by operators that are recorded."""
        have = self.read(tensor)
        if have is None:
            self.write(tensor, apart(gradient) if differentiable else F.clone(gradient))
        elif differentiable or have.requires_grad or not is_plain(have):
            self.write(tensor, have + gradient)
        else:
            with context.no_grad():
                have.add_(gradient)

    def _slot(self, tensor: Tensor, reads: bool) -> GradientSlot | None:
        """The slot of a tensor from outside; None for one that the function made."""
        identities = self._captures.identities
        inner = identities.inside(tensor)
        cell = self._captures.known(inner).cell
        if cell.source is None:
            return None
        check_first_stage(self._captures.graph, ".grad of a tensor from outside")
        if cell.tensor is not inner and inner not in identities.outer:
            return None
        holder = identities.outside(inner)
        slot = self.slots.get(holder)
        if slot is None:
            slot = self.slots[holder] = GradientSlot(holder, cell.source, holder._grad, None, reads)
            if reads and holder._grad is not None:
                slot.found = self._found_gradient(holder._grad, cell.source)
        return slot

    def _found_gradient(self, gradient: Tensor, holder: Value) -> Value:
        """The input for a gradient that was there before the call."""
        identities = self._captures.identities
        binding = self._captures.memory.binding(identities.inside(gradient))
        if binding is None or (binding.cell.tensor is not gradient and gradient not in identities.inner):
            binding = self._captures.tensor(gradient, holder)
        assert binding.cell.source is not None
        return binding.cell.source

    def note_hook(self, value: Value, hook: Callable[[Any], Any]) -> None:
        """Note a hook that the function puts on the gradient of `value`: it becomes part of the stages that follow."""
        self.hooks.setdefault(value, []).append(hook)

    def check_hooks(self, node: Any) -> None:
        """TraceError if a backward inside the function ends at a leaf with hooks: they are not part of the function."""
        if len(self._captures.graph.stages) > 1:
            return
        identities = self._captures.identities
        leaf = identities.inside(node.variable)
        cell = self._captures.known(leaf).cell
        if cell.source is None or not self._captures.is_from_outside(leaf):
            return
        self.differentiated[identities.outside(leaf)] = cell.source
        if has_hooks(node.variable):
            raise TraceError(
                f"{at_line()}a backward inside the traced function runs a hook that was registered outside, on "
                f"{cell.source.name!r}; register it inside, or call backward() outside"
            )

    def check_inside(self, node: Any) -> None:
        """TraceError if a backward inside the traced function goes on outside of it."""
        if node.edges and node.serial < self._first_serial:
            raise TraceError(
                f"{at_line()}a backward inside the traced function goes on through {node.name}, which was computed "
                f"outside of it (at {node.source}); pass what it is computed from as an argument, or detach() it"
            )

    def forget(self) -> None:
        """Let go of the tensors of the call that was recorded."""
        self.slots.clear()
        self.differentiated.clear()
