"""Helpers around parameters: clipping gradients, one vector of all parameters."""

from __future__ import annotations

import math
from collections.abc import Iterable
from typing import Any

from ..context import no_grad
from ..functions import F
from ..tensors import Tensor


def _gradients(parameters: Any) -> list[Any]:
    listed = [parameters] if isinstance(parameters, Tensor) else list(parameters)
    return [parameter.grad for parameter in listed if parameter.grad is not None]


def clip_grad_norm_(parameters: Any, max_norm: float, norm_type: float = 2.0) -> Any:
    """Scale the gradients of `parameters` so that the norm of all of them together is at most `max_norm`.

    Returns:
        The norm before scaling, a 0-d tensor.
    """
    gradients = _gradients(parameters)
    if not gradients:
        return F.zeros(())
    with no_grad():
        total = _norm(gradients, norm_type)
        factor = (max_norm / (total + 1e-6)).clamp(max=1.0)
        for gradient in gradients:
            gradient.mul_(factor)
    return total


def _norm(gradients: list[Any], norm_type: float) -> Any:
    if norm_type == math.inf:
        return F.stack([g.abs().max() for g in gradients]).max()
    return F.stack([(g.abs() ** norm_type).sum() for g in gradients]).sum() ** (1 / norm_type)


def clip_grad_value_(parameters: Any, clip_value: float) -> None:
    """Cut every element of the gradients of `parameters` off at ``-clip_value`` and ``clip_value``."""
    with no_grad():
        for gradient in _gradients(parameters):
            gradient.clamp_(-clip_value, clip_value)


def parameters_to_vector(parameters: Iterable[Any]) -> Any:
    """All parameters, one after the other, as a vector."""
    return F.cat([F.reshape(parameter, (-1,)) for parameter in parameters])


def vector_to_parameters(vec: Any, parameters: Iterable[Any]) -> None:
    """The inverse of `parameters_to_vector`: copy a vector's parts into the parameters."""
    offset = 0
    with no_grad():
        for parameter in parameters:
            count = parameter.numel()
            parameter.copy_(vec[offset : offset + count].view(parameter.shape))
            offset += count


def forget_gradient(tensor: Any, set_to_none: bool) -> None:
    """Drop `tensor.grad`, or fill it with zeros where somebody may hold it."""
    if set_to_none or tensor.grad is None:
        tensor.grad = None
    else:
        tensor.grad = tensor.grad.detach().zero_()
