"""Normalisation of activations as functions, in PyTorch's order of arguments."""

from __future__ import annotations

from typing import Any

from jit.eager.namespace import F
from jit.ir.errors import UsageError

__all__ = ["batch_norm", "instance_norm", "layer_norm"]


def batch_norm(
    input: Any, running_mean: Any, running_var: Any, weight: Any = None, bias: Any = None, training: bool = False,
    momentum: float = 0.1, eps: float = 1e-5,
) -> Any:  # fmt: skip
    """Bring each channel to zero mean and unit variance over all other dims; scale by `weight`, shift by `bias`.

    Args:
        input: `[N, C, ...]`.
        running_mean: `[C]` or None, updated in place while training; used otherwise.
        running_var: `[C]` or None, likewise.
        weight: `[C]` or None.
        bias: `[C]` or None.
        training: Whether to normalise by the batch's own statistics.
        momentum: The weight of this batch in the running statistics.
        eps: Added to the variance.

    Returns:
        ``(input - mean) / sqrt(var + eps) * weight + bias``.

    Raises:
        UsageError: There are no running statistics, and `training` is False.
    """
    if not training and (running_mean is None or running_var is None):
        raise UsageError("batch_norm needs running_mean and running_var unless training=True")
    return F.batch_norm(input, weight, bias, running_mean, running_var, training, momentum, eps, False)


def instance_norm(
    input: Any, running_mean: Any = None, running_var: Any = None, weight: Any = None, bias: Any = None,
    use_input_stats: bool = True, momentum: float = 0.1, eps: float = 1e-5,
) -> Any:  # fmt: skip
    """`batch_norm` of each sample by itself.

    Args:
        input: `[N, C, ...]`.
        running_mean: `[C]` or None, updated in place by the mean over the batch with `use_input_stats`; used otherwise.
        running_var: `[C]` or None, likewise.
        weight: `[C]` or None.
        bias: `[C]` or None.
        use_input_stats: Whether to normalise by the samples' own statistics.
        momentum: The weight of this batch in the running statistics.
        eps: Added to the variance.
    """
    return F.instance_norm(input, weight, bias, running_mean, running_var, use_input_stats, momentum, eps, False)


def layer_norm(input: Any, normalized_shape: Any, weight: Any = None, bias: Any = None, eps: float = 1e-5) -> Any:
    """Bring the last dims, of sizes `normalized_shape`, to zero mean and unit variance; scale and shift per element.

    Args:
        input: `[..., *normalized_shape]`.
        normalized_shape: The sizes of the last dims.
        weight: A scale of these sizes, or None.
        bias: A shift of these sizes, or None.
        eps: Added to the variance.

    Returns:
        ``(input - mean) / sqrt(var + eps) * weight + bias``.
    """
    return F.layer_norm(input, tuple(normalized_shape), weight, bias, eps)
