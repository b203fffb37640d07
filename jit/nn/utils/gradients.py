"""Gradients of several parameters together: their norm, clipping, forgetting."""

from __future__ import annotations

import math
from collections.abc import Iterable
from typing import Any

from jit.eager import context
from jit.eager.context import no_grad
from jit.eager.namespace import F
from jit.eager.tensors import Tensor
from jit.ir.errors import KindError, UsageError


def _listed(tensors: Any) -> list[Any]:
    if not isinstance(tensors, Iterable):
        raise KindError(f"a tensor or several are needed, not {type(tensors).__name__}; pass model.parameters()")
    return [tensors] if isinstance(tensors, Tensor) else list(tensors)


def _gradients(parameters: Any) -> list[Any]:
    return [parameter.grad for parameter in _listed(parameters) if parameter.grad is not None]


def get_total_norm(
    tensors: Iterable[Any], norm_type: float = 2.0, error_if_nonfinite: bool = False, foreach: bool | None = None
) -> Any:
    """The norm of all tensors together, as if they were one vector: a 0-d tensor.

    Args:
        tensors: A tensor, or several.
        norm_type: Which p-norm; `math.inf` for the largest element.
        error_if_nonfinite: Whether to refuse a norm that is infinite or NaN.
        foreach: Accepted; makes no difference.

    Raises:
        UsageError: The norm is refused.
    """
    norm_type = float(norm_type)
    listed = _listed(tensors)
    if not listed:
        return F.zeros(())
    norms = F.stack([F.linalg_vector_norm(tensor, norm_type) for tensor in listed])
    total = norms.max() if norm_type == math.inf else F.linalg_vector_norm(norms, norm_type)
    if error_if_nonfinite and not math.isfinite(total.item()):
        raise UsageError(
            f"the total norm of the gradients is {total.item()}; find its cause with jit.autograd.detect_anomaly(), or "
            "pass error_if_nonfinite=False to clip all the same"
        )
    return total


def clip_grads_with_norm_(parameters: Any, max_norm: float, total_norm: Any, foreach: bool | None = None) -> None:
    """Scale the gradients of `parameters` by ``max_norm / total_norm`` if that makes them smaller.

    Args:
        parameters: A parameter, or several.
        max_norm: The largest norm that is allowed.
        total_norm: The norm before scaling, a 0-d tensor: see `get_total_norm`.
        foreach: Accepted; makes no difference.
    """
    with no_grad():
        factor = (max_norm / (total_norm + 1e-6)).clamp(max=1.0)
        for gradient in _gradients(parameters):
            gradient.mul_(factor)


def clip_grad_norm_(
    parameters: Any, max_norm: float, norm_type: float = 2.0, error_if_nonfinite: bool = False,
    foreach: bool | None = None,
) -> Any:  # fmt: skip
    """Scale the gradients of `parameters` so that the norm of all of them together is at most `max_norm`.

    Args:
        parameters: A parameter, or several.
        max_norm: The largest norm that is allowed.
        norm_type: Which p-norm; `math.inf` for the largest element.
        error_if_nonfinite: Whether to refuse gradients whose norm is infinite or NaN.
        foreach: Accepted; makes no difference.

    Returns:
        The norm before scaling, a 0-d tensor.

    >>> import jit
    >>> x = jit.tensor([3.0, 4.0], requires_grad=True)
    >>> (x * x / 2).sum().backward()
    >>> jit.nn.utils.clip_grad_norm_(x, 1.0).item()
    5.0
    """
    max_norm = float(max_norm)
    listed = _listed(parameters)
    with no_grad():
        total = get_total_norm(_gradients(listed), norm_type, error_if_nonfinite)
    clip_grads_with_norm_(listed, max_norm, total)
    return total


def clip_grad_value_(parameters: Any, clip_value: float, foreach: bool | None = None) -> None:
    """Cut every element of the gradients of `parameters` off at ``-clip_value`` and ``clip_value``.

    Args:
        parameters: A parameter, or several.
        clip_value: The largest absolute value that is left.
        foreach: Accepted; makes no difference.
    """
    with no_grad():
        for gradient in _gradients(parameters):
            gradient.clamp_(-clip_value, clip_value)


def clip_grad_norm(parameters: Any, max_norm: float, norm_type: float = 2.0, **options: Any) -> Any:
    """`clip_grad_norm_` by its former name.

    Args:
        parameters: A parameter, or several.
        max_norm: The largest norm that is allowed.
        norm_type: Which p-norm.
        options: The others of `clip_grad_norm_`.
    """
    context.warn("nn.utils.clip_grad_norm is deprecated; call nn.utils.clip_grad_norm_")
    return clip_grad_norm_(parameters, max_norm, norm_type, **options)


def clip_grad_value(parameters: Any, clip_value: float) -> None:
    """`clip_grad_value_` by its former name."""
    context.warn("nn.utils.clip_grad_value is deprecated; call nn.utils.clip_grad_value_")
    clip_grad_value_(parameters, clip_value)
