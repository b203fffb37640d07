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

from jit.ir.errors import UsageError

from ..autograd import Function
from ..functions import F
from ..pytree import flatten, unflatten
from ..tensors import Tensor
from .everywhere import BACKWARD, BACKWARD_PRE

if TYPE_CHECKING:
    from .modules import Module


class Gate(Function):
    """Returns its tensors as they are; shows their gradients to a function that may replace them."""

    @staticmethod
    def forward(ctx: Any, show: Callable[[tuple[Any, ...]], Sequence[Any]], *tensors: Any) -> Any:
        ctx.show = show
        ctx.set_materialize_grads(False)
        return tuple(F.view_as(t, t) for t in tensors)

    @staticmethod
    def backward(ctx: Any, *gradients: Any) -> Any:
        return (None, *ctx.show(gradients))


class Watch:
    """One call of a module, watched by its backward hooks."""

    def __init__(self, module: Module) -> None:
        self.module = module
        self.incoming: tuple[Any, ...] | None = None
        """The gradients of the results, until those of the arguments are there."""
        self.places: list[int] = []
        """Which arguments are tensors that take part in autograd."""
        self.count = 0
        """How many arguments there are."""

    def enter(self, args: tuple[Any, ...]) -> tuple[Any, ...]:
        """The arguments behind the first gate."""
        self.count = len(args)
        self.places = [i for i, a in enumerate(args) if isinstance(a, Tensor) and a.requires_grad]
        if not self.places:
            return args
        passed = Gate.apply(self._on_inputs, *(args[i] for i in self.places))
        found = list(args)
        for place, tensor in zip(self.places, passed, strict=True):
            found[place] = tensor
        return tuple(found)

    def leave(self, result: Any) -> Any:
        """The results behind the second gate."""
        leaves, structure = flatten(result)
        if not any(leaf.requires_grad for leaf in leaves):
            return result
        return unflatten(structure, list(Gate.apply(self._on_outputs, *leaves)))

    def _on_outputs(self, gradients: tuple[Any, ...]) -> Sequence[Any]:
        for hook in (*BACKWARD_PRE.values(), *self.module._backward_pre_hooks.values()):
            gradients = _replaced(hook(self.module, gradients), gradients)
        self.incoming = gradients
        if not self.places:
            self._run_without_inputs()
        return gradients

    def _run_without_inputs(self) -> None:
        if BACKWARD or self.module._backward_hooks:
            told = f"no argument of this {type(self.module).__name__} requires a gradient, so its backward hooks run"
            warnings.warn(f"{told} when the gradients of its results are known", stacklevel=2)
            unknown = (None,) * self.count
            if any(gradient is not None for gradient in self._run(unknown)):
                name = type(self.module).__name__
                raise UsageError(f"a backward hook gave gradients of arguments, and no argument of this {name} has one")

    def _on_inputs(self, gradients: tuple[Any, ...]) -> Sequence[Any]:
        if self.incoming is None:  # a second derivative comes to the arguments without passing the results
            return gradients
        wide: list[Any] = [None] * self.count
        for place, gradient in zip(self.places, gradients, strict=True):
            wide[place] = gradient
        found = self._run(tuple(wide))
        return [found[place] for place in self.places]

    def _run(self, gradients: tuple[Any, ...]) -> tuple[Any, ...]:
        for hook in (*BACKWARD.values(), *self.module._backward_hooks.values()):
            gradients = _replaced(hook(self.module, gradients, self.incoming), gradients)
        self.incoming = None
        return gradients


def _replaced(given: Any, gradients: tuple[Any, ...]) -> tuple[Any, ...]:
    if given is None:
        return gradients
    listed = tuple(given) if isinstance(given, (tuple, list)) else (given,)
    if len(listed) != len(gradients):
        raise UsageError(f"a backward hook returned {len(listed)} gradients where there are {len(gradients)}")
    return listed
