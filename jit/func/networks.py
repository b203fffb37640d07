"""Networks as functions of their parameters."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from jit.eager.namespace import F
from jit.ir.errors import UsageError
from jit.nn.modules import Module
from jit.nn.substitution import functional_call


class EnsembleError(UsageError, ValueError):
    """The error for networks that cannot be stacked."""


def stack_module_state(models: Sequence[Module]) -> tuple[dict[str, Any], dict[str, Any]]:
    """The parameters, and the buffers, of several networks of one form, stacked along a new first dim.

    Args:
        models: The networks.

    Raises:
        EnsembleError: There are none, they are of several classes, or some are training and others are not.

    >>> import jit
    >>> from jit.func import functional_call, stack_module_state, vmap
    >>> models = [jit.nn.Linear(3, 2) for _ in range(4)]
    >>> parameters, buffers = stack_module_state(models)
    >>> def call(parameters, buffers, x):
    ...     return functional_call(models[0], (parameters, buffers), (x,))
    >>> vmap(call, in_dims=(0, 0, None))(parameters, buffers, jit.ones(5, 3)).shape
    jit.Size([4, 5, 2])
    """
    if not models:
        raise EnsembleError("stack_module_state: Expected at least one model, got 0.")
    if any(type(model) is not type(models[0]) for model in models):
        raise EnsembleError("stack_module_state: Expected all models to be of the same class.")
    if any(model.training is not models[0].training for model in models):
        raise EnsembleError("stack_module_state: Expected all models to have the same training/eval mode.")
    parameters = [dict(model.named_parameters()) for model in models]
    buffers = [dict(model.named_buffers()) for model in models]
    return _stacked(parameters), _stacked(buffers)


def _stacked(tables: Sequence[dict[str, Any]]) -> dict[str, Any]:
    """Tensors of one name stacked; those that require gradients are leaves again."""
    made = {name: F.stack([table[name].detach() for table in tables], 0) for name in tables[0]}
    return {name: value.requires_grad_(tables[0][name].requires_grad) for name, value in made.items()}


__all__ = ["functional_call", "stack_module_state"]
