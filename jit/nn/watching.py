"""Hooks on the gradients of modules: what comes in at a module's outputs, what goes on from its inputs.

Note [Gates]
    All tensors among a module's arguments pass through one function that does nothing, and so do all of its results.
    In a backward the gradients of the results arrive at the second gate first, and once the whole module is done, those
    of the arguments at the first gate, all at once; each gate shows them to the hooks, which may replace them.

        %y = gate(module(gate(%x)))
"""

from __future__ import annotations

import warnings
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

from jit.eager.namespace import F
from jit.eager.networks import BACKWARD, BACKWARD_PRE
from jit.eager.pytree import flatten, unflatten
from jit.eager.tensors import Tensor
from jit.ir.errors import UsageError

from ..autograd import Function

if TYPE_CHECKING:
    from .modules import Module


class Gate(Function):
    """Returns its tensors as they are, and shows their gradients to a function that may replace them."""

    @staticmethod
    def forward(ctx: Any, show: Callable[[tuple[Any, ...]], Sequence[Any]], *tensors: Any) -> Any:
        ctx.show = show
        ctx.set_materialize_grads(False)
        return tuple(F.view_as(t, t) for t in tensors)

    @staticmethod
    def backward(ctx: Any, *gradients: Any) -> Any:
        """Show the gradients, and hand on what comes back."""

        return (None, *ctx.show(gradients))


class WatchedRow:
    """Arguments or results of a call, of which some are tensors that take part in autograd."""

    def __init__(self, members: tuple[Any, ...]) -> None:
        self.members = members
        self.places = [i for i, m in enumerate(members) if isinstance(m, Tensor) and m.requires_grad]

    def passed(self, show: Callable[[tuple[Any, ...]], Sequence[Any]]) -> tuple[Any, ...]:
        """The members, those tensors passed through a gate that shows their gradients to `show`."""
        if not self.places:
            return self.members
        found = list(self.members)
        for place, tensor in zip(self.places, Gate.apply(show, *self.narrow(self.members)), strict=True):
            found[place] = tensor
        return tuple(found)

    def wide(self, gradients: Sequence[Any]) -> tuple[Any, ...]:
        """Gradients of those tensors, with None for each other member."""
        found: list[Any] = [None] * len(self.members)
        for place, gradient in zip(self.places, gradients, strict=True):
            found[place] = gradient
        return tuple(found)

    def narrow(self, row: Sequence[Any]) -> list[Any]:
        """The part of a row of all members that is about those tensors."""
        return [row[place] for place in self.places]


class ModuleWatch:
    """One call of a module, watched by its backward hooks."""

    def __init__(self, module: Module) -> None:
        self.module = module
        self.incoming: tuple[Any, ...] | None = None
        """The gradients of the results, once they are known."""
        self.arguments: WatchedRow | None = None
        """The arguments of the call, once it has begun."""

    def enter(self, args: tuple[Any, ...]) -> tuple[Any, ...]:
        """The arguments, passed through the first gate."""
        self.arguments = WatchedRow(args)
        return self.arguments.passed(self._on_inputs)

    def leave(self, result: Any) -> Any:
        """The result, passed through the second gate: a tensor, or a tuple with tensors directly in it."""
        if not isinstance(result, (Tensor, tuple)) and self.module.__dict__.get("_sees_nested"):
            leaves, structure = flatten(result)
            row = WatchedRow(tuple(leaves))
            return unflatten(structure, list(row.passed(lambda gradients: self._on_outputs(gradients, row))))
        if not isinstance(result, (Tensor, tuple)):
            told = f"the result of {type(self.module).__name__} should be a Tensor or a tuple of Tensors"
            warnings.warn(f"{told} for backward hooks to be called, it is a {type(result).__name__}", stacklevel=5)
            return result
        results = WatchedRow(result if isinstance(result, tuple) else (result,))
        passed = results.passed(lambda gradients: self._on_outputs(gradients, results))
        if not isinstance(result, tuple):
            return passed[0]
        return type(result)(*passed) if hasattr(result, "_fields") else passed

    def _on_outputs(self, gradients: tuple[Any, ...], results: WatchedRow) -> Sequence[Any]:
        gradients = results.wide(gradients)
        for hook in (*BACKWARD_PRE.values(), *self.module._backward_pre_hooks.values()):
            gradients = _replaced(hook(self.module, gradients), gradients)
        self.incoming = gradients
        if self.arguments is None or not self.arguments.places:
            self._run_without_inputs()
        return results.narrow(gradients)

    def _run_without_inputs(self) -> None:
        if BACKWARD or self.module._backward_hooks:
            told = f"no argument of this {type(self.module).__name__} requires a gradient, so its backward hooks run"
            warnings.warn(f"{told} when the gradients of its results are known", stacklevel=2)
            unknown = (None,) * (0 if self.arguments is None else len(self.arguments.members))
            if any(gradient is not None for gradient in self._run(unknown)):
                name = type(self.module).__name__
                raise UsageError(
                    f"a backward hook returned gradients of arguments, but no argument of this {name} requires one; "
                    "return None"
                )

    def _on_inputs(self, gradients: tuple[Any, ...]) -> Sequence[Any]:
        assert self.arguments is not None
        return self.arguments.narrow(self._run(self.arguments.wide(gradients)))

    def _run(self, gradients: tuple[Any, ...]) -> tuple[Any, ...]:
        if self.incoming is None:
            return gradients
        for hook in (*BACKWARD.values(), *self.module._backward_hooks.values()):
            gradients = _replaced(hook(self.module, gradients, self.incoming), gradients)
        self.incoming = None
        return gradients


def _replaced(given: Any, gradients: tuple[Any, ...]) -> tuple[Any, ...]:
    if given is None:
        return gradients
    listed = tuple(given) if isinstance(given, (tuple, list)) else (given,)
    if len(listed) != len(gradients):
        raise UsageError(
            f"a backward hook returned {len(listed)} gradients where there are {len(gradients)}; return that many"
        )
    return listed
