"""Losses of an input and a target as functions, with a word for the reduction."""

from __future__ import annotations

import warnings
from typing import Any

from jit.eager.namespace import F

from ..reductions import REDUCTIONS, reduction_code

__all__ = [
    "binary_cross_entropy", "binary_cross_entropy_with_logits", "cross_entropy", "huber_loss", "kl_div",
    "l1_loss", "mse_loss", "nll_loss", "smooth_l1_loss",
]  # fmt: skip


def _tell_of_sizes(name: str, input: Any, target: Any) -> None:
    if input.shape != target.shape:
        told = f"{name} of an input and a target of different sizes, {list(input.shape)} and {list(target.shape)}"
        warnings.warn(f"{told}, which are broadcast; reshape one of them if that is not meant", stacklevel=3)


def l1_loss(
    input: Any, target: Any, size_average: bool | None = None, reduce: bool | None = None, reduction: str = "mean"
) -> Any:
    """``|input - target|``, reduced.

    Args:
        input: A tensor.
        target: A tensor of the same sizes.
        reduction: "none", "mean" or "sum".
        size_average: An older spelling of `reduction`: False is "sum".
        reduce: An older spelling of `reduction`: False is "none".
    """
    _tell_of_sizes("l1_loss", input, target)
    return F.l1_loss(input, target, reduction_code(size_average, reduce, reduction))


def mse_loss(
    input: Any, target: Any, size_average: bool | None = None, reduce: bool | None = None, reduction: str = "mean"
) -> Any:
    """``(input - target)²``, reduced.

    Args:
        input: A tensor.
        target: A tensor of the same sizes.
        reduction: "none", "mean" or "sum".
        size_average: An older spelling of `reduction`: False is "sum".
        reduce: An older spelling of `reduction`: False is "none".

    >>> import jit
    >>> jit.nn.functional.mse_loss(jit.zeros(4), jit.ones(4) * 2).item()
    4.0
    """
    _tell_of_sizes("mse_loss", input, target)
    return F.mse_loss(input, target, reduction_code(size_average, reduce, reduction))


def smooth_l1_loss(
    input: Any, target: Any, size_average: bool | None = None, reduce: bool | None = None, reduction: str = "mean",
    beta: float = 1.0,
) -> Any:  # fmt: skip
    """A parabola near zero, ``d² / (2 * beta)``, then ``d - beta / 2``, for ``d = |input - target|``; reduced.

    Args:
        input: A tensor.
        target: A tensor of the same sizes.
        reduction: "none", "mean" or "sum".
        beta: Where the parabola ends; 0 gives `l1_loss`.
        size_average: An older spelling of `reduction`: False is "sum".
        reduce: An older spelling of `reduction`: False is "none".
    """
    _tell_of_sizes("smooth_l1_loss", input, target)
    return F.smooth_l1_loss(input, target, reduction_code(size_average, reduce, reduction), beta)


def huber_loss(input: Any, target: Any, reduction: str = "mean", delta: float = 1.0) -> Any:
    """`smooth_l1_loss` times delta.

    Args:
        input: A tensor.
        target: A tensor of the same sizes.
        reduction: "none", "mean" or "sum".
        delta: Where the parabola ends, above 0.
    """
    _tell_of_sizes("huber_loss", input, target)
    return F.huber_loss(input, target, reduction_code(None, None, reduction), delta)


def nll_loss(
    input: Any, target: Any, weight: Any = None, size_average: bool | None = None, ignore_index: int = -100,
    reduce: bool | None = None, reduction: str = "mean",
) -> Any:  # fmt: skip
    """Minus the log-probability of the target class, reduced.

    Args:
        input: Log-probabilities `[N, C]`, `[C]` or `[N, C, ...]`.
        target: Classes `[N]`, `[]` or `[N, ...]`.
        weight: A weight per class, or None.
        ignore_index: Targets of this value do not count.
        reduction: "none", "mean" (weighted) or "sum".
        size_average: An older spelling of `reduction`: False is "sum".
        reduce: An older spelling of `reduction`: False is "none".
    """
    return F.nll_loss_nd(input, target, weight, reduction_code(size_average, reduce, reduction), ignore_index)


def cross_entropy(
    input: Any, target: Any, weight: Any = None, size_average: bool | None = None, ignore_index: int = -100,
    reduce: bool | None = None, reduction: str = "mean", label_smoothing: float = 0.0,
) -> Any:  # fmt: skip
    """`nll_loss` of `log_softmax`.

    Args:
        input: Logits `[N, C]`, `[C]` or `[N, C, ...]`.
        target: Classes `[N]`, `[]` or `[N, ...]`; or probabilities of input's sizes.
        weight: A weight per class, or None.
        ignore_index: Targets of this value do not count.
        reduction: "none", "mean" (weighted) or "sum".
        label_smoothing: The share of the target that is spread evenly over all classes.
        size_average: An older spelling of `reduction`: False is "sum".
        reduce: An older spelling of `reduction`: False is "none".

    >>> import jit
    >>> round(jit.nn.functional.cross_entropy(jit.zeros(2, 4), jit.tensor([1, 3])).item(), 4)
    1.3863
    """
    code = reduction_code(size_average, reduce, reduction)
    return F.cross_entropy_loss(input, target, weight, code, ignore_index, label_smoothing)


def binary_cross_entropy(
    input: Any, target: Any, weight: Any = None, size_average: bool | None = None, reduce: bool | None = None,
    reduction: str = "mean",
) -> Any:  # fmt: skip
    """``-(target * log(input) + (1 - target) * log(1 - input))``, reduced; logarithms are cut off at -100.

    Args:
        input: Probabilities, from 0 to 1.
        target: The wanted probabilities, of the same sizes.
        weight: A weight per element, which is broadcast, or None.
        reduction: "none", "mean" or "sum".
        size_average: An older spelling of `reduction`: False is "sum".
        reduce: An older spelling of `reduction`: False is "none".
    """
    return F.binary_cross_entropy(input, target, weight, reduction_code(size_average, reduce, reduction))


def binary_cross_entropy_with_logits(
    input: Any, target: Any, weight: Any = None, size_average: bool | None = None, reduce: bool | None = None,
    reduction: str = "mean", pos_weight: Any = None,
) -> Any:  # fmt: skip
    """`binary_cross_entropy` of ``sigmoid(input)``, accurate for large logits, too.

    Args:
        input: Logits.
        target: The wanted probabilities, of the same sizes.
        weight: A weight per element, which is broadcast, or None.
        reduction: "none", "mean" or "sum".
        pos_weight: A factor of the term of ``target``, which is broadcast, or None.
        size_average: An older spelling of `reduction`: False is "sum".
        reduce: An older spelling of `reduction`: False is "none".

    >>> import jit
    >>> round(jit.nn.functional.binary_cross_entropy_with_logits(jit.zeros(3), jit.ones(3)).item(), 4)
    0.6931
    """
    return F.binary_cross_entropy_with_logits(
        input, target, weight, pos_weight, reduction_code(size_average, reduce, reduction)
    )


def kl_div(
    input: Any, target: Any, size_average: bool | None = None, reduce: bool | None = None, reduction: str = "mean",
    log_target: bool = False,
) -> Any:  # fmt: skip
    """``target * (log(target) - input)``, reduced: the Kullback-Leibler divergence.

    Args:
        input: Logarithms of the probabilities of a model.
        target: The probabilities that they should be, of the same sizes.
        reduction: "none", "sum", "batchmean" (the sum divided by the first size) or "mean" (the sum divided by the
            number of elements, with a warning).
        log_target: Whether targets are logarithms, too.
        size_average: An older spelling of `reduction`: False is "sum".
        reduce: An older spelling of `reduction`: False is "none".
    """
    if reduction == "mean":
        told = "kl_div with reduction='mean' divides by the number of elements, not by that of samples"
        warnings.warn(f"{told}; say reduction='batchmean'", stacklevel=2)
    if reduction == "batchmean":
        return F.kl_div(input, target, REDUCTIONS["sum"], log_target=log_target) / input.shape[0]
    return F.kl_div(input, target, reduction_code(size_average, reduce, reduction), log_target=log_target)
