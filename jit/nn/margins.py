"""Losses that compare: by a margin, by a distance, by the likelihood of a count or of a normal variable."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

from jit.eager.autocasting import computes_in
from jit.eager.namespace import F
from jit.ir.errors import ShapeError, UsageError
from jit.ir.precision import FLOAT32

from .reductions import reduced

__all__ = [
    "cosine_embedding_loss", "gaussian_nll_loss", "hinge_embedding_loss", "margin_ranking_loss", "multi_margin_loss",
    "multilabel_margin_loss", "multilabel_soft_margin_loss", "poisson_nll_loss", "soft_margin_loss",
    "triplet_margin_loss", "triplet_margin_with_distance_loss",
]  # fmt: skip

# -- of a sign: the target is 1 or -1 ------------------------------------------------------------------------------


@computes_in(FLOAT32)
def margin_ranking_loss(
    input1: Any, input2: Any, target: Any, margin: float = 0.0, size_average: bool | None = None,
    reduce: bool | None = None, reduction: str = "mean",
) -> Any:  # fmt: skip
    """``max(0, margin - target * (input1 - input2))``, reduced: a target of 1 wants `input1` to be larger.

    Args:
        input1: A tensor.
        input2: A tensor of the same sizes.
        target: 1 or -1 for each element.
        margin: The least difference that costs nothing.
        reduction: "none", "mean" or "sum".
        size_average: An older spelling of `reduction`: False is "sum".
        reduce: An older spelling of `reduction`: False is "none".

    Raises:
        ShapeError: The tensors have different numbers of dims.

    >>> import jit
    >>> jit.nn.functional.margin_ranking_loss(jit.zeros(1), jit.ones(1), jit.ones(1), margin=0.5).item()
    1.5
    """
    if not input1.ndim == input2.ndim == target.ndim:
        sizes = ", ".join(str(list(t.shape)) for t in (input1, input2, target))
        raise ShapeError(f"margin_ranking_loss takes three tensors of the same number of dims, got the sizes {sizes}")
    losses = F.clamp(margin - target * (input1 - input2), min=0)
    return reduced(losses, size_average, reduce, reduction)


@computes_in(FLOAT32)
def hinge_embedding_loss(
    input: Any, target: Any, margin: float = 1.0, size_average: bool | None = None, reduce: bool | None = None,
    reduction: str = "mean",
) -> Any:  # fmt: skip
    """`input` where the target is 1, ``max(0, margin - input)`` where it is -1; reduced.

    Args:
        input: Distances.
        target: 1 or -1 for each of them.
        margin: The distance from which on unlike ones cost nothing.
        reduction: "none", "mean" or "sum".
        size_average: An older spelling of `reduction`: False is "sum".
        reduce: An older spelling of `reduction`: False is "none".
    """
    alike = F.where(F.ne(target, -1), input, 0)
    losses = alike + F.where(F.ne(target, 1), F.clamp(margin - input, min=0), 0)
    return reduced(losses, size_average, reduce, reduction)


@computes_in(FLOAT32)
def soft_margin_loss(
    input: Any, target: Any, size_average: bool | None = None, reduce: bool | None = None, reduction: str = "mean"
) -> Any:
    """``log(1 + exp(-target * input))``, reduced.

    Args:
        input: Scores.
        target: 1 or -1 for each of them.
        reduction: "none", "mean" or "sum".
        size_average: An older spelling of `reduction`: False is "sum".
        reduce: An older spelling of `reduction`: False is "none".
    """
    return reduced(F.softplus(-target * input), size_average, reduce, reduction)


@computes_in(FLOAT32)
def cosine_embedding_loss(
    input1: Any, input2: Any, target: Any, margin: float = 0.0, size_average: bool | None = None,
    reduce: bool | None = None, reduction: str = "mean",
) -> Any:  # fmt: skip
    """``1 - cos(input1, input2)`` where the target is 1, ``max(0, cos - margin)`` where it is -1; reduced.

    Args:
        input1: `[N, D]` or `[D]`.
        input2: Of the same sizes.
        target: 1 or -1, `[N]` or `[]`.
        margin: The cosine up to which unlike ones cost nothing.
        reduction: "none", "mean" or "sum".
        size_average: An older spelling of `reduction`: False is "sum".
        reduce: An older spelling of `reduction`: False is "none".

    Raises:
        ShapeError: The sizes do not fit.
    """
    if input1.ndim != target.ndim + 1 or input1.ndim not in (1, 2):
        sizes = f"{list(input1.shape)} and {list(target.shape)}"
        raise ShapeError(f"cosine_embedding_loss takes vectors [N, D] or [D] and a target of one dim less, got {sizes}")
    dots = [F.sum(a * b, -1) for a, b in ((input1, input2), (input1, input1), (input2, input2))]
    cosine = dots[0] / F.sqrt((dots[1] + 1e-12) * (dots[2] + 1e-12))
    unlike = F.where(F.eq(target, -1), F.clamp(cosine - margin, min=0), 0)
    return reduced(F.where(F.eq(target, 1), 1 - cosine, 0) + unlike, size_average, reduce, reduction)


# -- of classes ----------------------------------------------------------------------------------------------------


@computes_in(FLOAT32)
def multi_margin_loss(
    input: Any, target: Any, p: int = 1, margin: float = 1.0, weight: Any = None, size_average: bool | None = None,
    reduce: bool | None = None, reduction: str = "mean",
) -> Any:  # fmt: skip
    """The mean over all other classes of ``max(0, margin - input[target] + input[class]) ** p``, reduced.

    Args:
        input: Scores `[N, C]` or `[C]`.
        target: Classes `[N]` or `[]`.
        p: 1 or 2.
        margin: How far the target's score should lie above the others.
        weight: A weight per class, `[C]`, or None.
        reduction: "none", "mean" or "sum".
        size_average: An older spelling of `reduction`: False is "sum".
        reduce: An older spelling of `reduction`: False is "none".

    Raises:
        UsageError: `p` is neither 1 nor 2.
        ShapeError: The sizes do not fit, or there are no classes.
    """
    if p not in (1, 2):
        raise UsageError(f"multi_margin_loss: p is {p}; pass 1 or 2")
    input = F.reshape(input, [1]) if input.ndim == 0 else input
    if target.ndim == 0 and input.ndim == 2 and input.shape[0] == 1:
        input = F.squeeze(input, 0)
    if input.ndim != target.ndim + 1 and not (input.ndim == target.ndim == 1):
        sizes = f"{list(input.shape)} and {list(target.shape)}"
        raise ShapeError(f"multi_margin_loss takes scores [N, C] or [C] and a class for each, got {sizes}")
    _refuse_no_classes("multi_margin_loss", input)
    index = F.unsqueeze(target, -1) if input.ndim != target.ndim else target
    short = F.clamp(margin - F.gather(input, -1, index) + input, min=0) ** p
    others = F.scatter(short, -1, index, 0.0)
    losses = F.reshape(F.mean(others, -1), target.shape)
    if weight is not None:
        losses = losses * F.reshape(F.index_select(weight, 0, F.reshape(index, [-1])), losses.shape)
    return reduced(losses, size_average, reduce, reduction)


def _refuse_no_classes(name: str, input: Any) -> None:
    if input.shape[-1] == 0:
        raise ShapeError(f"{name}: there are no classes in scores of sizes {list(input.shape)}; a batch may be empty")


@computes_in(FLOAT32)
def multilabel_margin_loss(
    input: Any, target: Any, size_average: bool | None = None, reduce: bool | None = None, reduction: str = "mean"
) -> Any:
    """The sum of ``max(0, 1 - input[target] + input[other])`` over targets and other classes, divided by C; reduced.

    Args:
        input: Scores `[N, C]` or `[C]`.
        target: Of the input's sizes: in each row the target classes, ended by a -1 if they are fewer than C.
        reduction: "none", "mean" or "sum".
        size_average: An older spelling of `reduction`: False is "sum".
        reduce: An older spelling of `reduction`: False is "none".

    Raises:
        ShapeError: The sizes differ, or there are no classes.
    """
    input, target = (F.reshape(t, [1]) if t.ndim == 0 else t for t in (input, target))
    if input.shape != target.shape or input.ndim not in (1, 2):
        sizes = f"{list(input.shape)} and {list(target.shape)}"
        raise ShapeError(f"multilabel_margin_loss takes scores and targets of the same sizes, got {sizes}")
    _refuse_no_classes("multilabel_margin_loss", input)
    classes = F.arange(input.shape[-1] + 1, dtype=target.dtype, device=target.device)
    target = F.reshape(F.index_select(classes, 0, F.reshape(target + 1, [-1])), target.shape) - 1  # itself, or an error
    listed = F.eq(F.cumsum(F.lt(target, 0), -1), 0)
    index = F.clamp(target, min=0)
    wanted = F.gt(F.scatter_add(F.zeros_like(index), -1, index, F._to_copy(listed, dtype=index.dtype)), 0)
    short = F.clamp(1 - F.unsqueeze(F.gather(input, -1, index), -1) + F.unsqueeze(input, -2), min=0)
    matters = F.logical_and(F.unsqueeze(listed, -1), F.unsqueeze(F.logical_not(wanted), -2))
    losses = F.sum(F.where(matters, short, 0), [-2, -1]) / input.shape[-1]
    return reduced(losses, size_average, reduce, reduction)


def multilabel_soft_margin_loss(
    input: Any, target: Any, weight: Any = None, size_average: bool | None = None, reduce: bool | None = None,
    reduction: str = "mean",
) -> Any:  # fmt: skip
    """The binary cross-entropy of the logits `input` in each class, its mean over classes, reduced.

    Args:
        input: Logits `[..., C]`.
        target: 0 or 1 for each of them.
        weight: A weight per class, `[C]`, or None.
        reduction: "none", "mean" or "sum".
        size_average: An older spelling of `reduction`: False is "sum".
        reduce: An older spelling of `reduction`: False is "none".
    """
    losses = -(target * F.log_sigmoid(input) + (1 - target) * F.log_sigmoid(-input))
    losses = losses if weight is None else losses * weight
    return reduced(F.mean(losses, -1), size_average, reduce, reduction)


# -- of likelihoods ------------------------------------------------------------------------------------------------


@computes_in(FLOAT32)
def poisson_nll_loss(
    input: Any, target: Any, log_input: bool = True, full: bool = False, size_average: bool | None = None,
    eps: float = 1e-8, reduce: bool | None = None, reduction: str = "mean",
) -> Any:  # fmt: skip
    """Minus the log-likelihood of the counts `target` for rates `input` (their logarithms if `log_input`), reduced.

    Args:
        input: Rates, or their logarithms.
        target: Counts.
        log_input: Whether inputs are logarithms.
        full: Whether to add Stirling's approximation of the term that does not depend on the rates.
        eps: Added to rates of which the logarithm is taken.
        reduction: "none", "mean" or "sum".
        size_average: An older spelling of `reduction`: False is "sum".
        reduce: An older spelling of `reduction`: False is "none".
    """
    losses = F.exp(input) - target * input if log_input else input - target * F.log(input + eps)
    if full:
        stirling = target * F.log(target) - target + 0.5 * F.log(2 * math.pi * target)
        losses = losses + F.where(F.gt(target, 1), stirling, 0)
    return reduced(losses, size_average, reduce, reduction)


def gaussian_nll_loss(
    input: Any, target: Any, var: Any, full: bool = False, eps: float = 1e-6, reduction: str = "mean"
) -> Any:
    """Minus the log-likelihood of `target` for normal variables of means `input` and variances `var`, reduced.

    Args:
        input: Means.
        target: Draws, of the same sizes.
        var: Of input's sizes, or with 1 for its last size, or without its last dim, or one number.
        full: Whether to add the constant term.
        eps: The least variance; it is no part of the gradient.
        reduction: "none", "mean" or "sum".

    Raises:
        UsageError: A variance is negative.
        ShapeError: The variances do not fit.
    """
    var = F.full_like(input, var) if isinstance(var, (int, float)) else _variances(input, var)
    if bool(F.any(F.lt(var, 0))):
        raise UsageError("gaussian_nll_loss: a variance is negative; pass variances of at least 0")
    var = var + (F.clamp(var, min=eps) - var).detach()
    losses = 0.5 * (F.log(var) + (input - target) ** 2 / var)
    return reduced(losses + 0.5 * math.log(2 * math.pi) if full else losses, None, None, reduction)


def _variances(input: Any, var: Any) -> Any:
    if var.shape == input.shape:
        return var
    if tuple(var.shape) == tuple(input.shape[:-1]):
        return F.unsqueeze(var, -1)
    if tuple(var.shape[:-1]) == tuple(input.shape[:-1]) and var.shape[-1] == 1:
        return var
    raise ShapeError(
        f"gaussian_nll_loss: variances of sizes {list(var.shape)} do not fit means of sizes {list(input.shape)}; pass "
        "the same sizes, or 1 for the last one"
    )


# -- of distances --------------------------------------------------------------------------------------------------


@computes_in(FLOAT32)
def triplet_margin_loss(
    anchor: Any, positive: Any, negative: Any, margin: float = 1.0, p: float = 2, eps: float = 1e-6,
    swap: bool = False, size_average: bool | None = None, reduce: bool | None = None, reduction: str = "mean",
) -> Any:  # fmt: skip
    """``max(0, margin + d(anchor, positive) - d(anchor, negative))`` with distances in the p-norm, reduced.

    Args:
        anchor: `[N, D]` or `[D]`.
        positive: A tensor of the same sizes that should be near.
        negative: A tensor of the same sizes that should be far.
        margin: How much further the negative should be than the positive.
        p: Which norm.
        eps: Added to each element of a difference.
        swap: Whether to take ``d(positive, negative)`` where that is smaller than ``d(anchor, negative)``.
        reduction: "none", "mean" or "sum".
        size_average: An older spelling of `reduction`: False is "sum".
        reduce: An older spelling of `reduction`: False is "none".

    Raises:
        ShapeError: The tensors have different numbers of dims.
        UsageError: The margin is not above 0.
    """

    def distance(a: Any, b: Any) -> Any:
        return F.pairwise_distance(a, b, p, eps)

    if not anchor.ndim == positive.ndim == negative.ndim:
        sizes = ", ".join(str(list(t.shape)) for t in (anchor, positive, negative))
        raise ShapeError(f"triplet_margin_loss takes three tensors of as many dims, got the sizes {sizes}")
    losses = _triplets(anchor, positive, negative, distance, margin, swap)
    return reduced(losses, size_average, reduce, reduction)


def triplet_margin_with_distance_loss(
    anchor: Any, positive: Any, negative: Any, *, distance_function: Callable[[Any, Any], Any] | None = None,
    margin: float = 1.0, swap: bool = False, reduction: str = "mean",
) -> Any:  # fmt: skip
    """`triplet_margin_loss` with any distance; without one, the Euclidean one.

    Args:
        anchor: A tensor.
        positive: A tensor of the same sizes that should be near.
        negative: A tensor of the same sizes that should be far.
        distance_function: The distance of two tensors, a loss per sample.
        margin: How much further the negative should be than the positive.
        swap: Whether to take ``d(positive, negative)`` where that is smaller than ``d(anchor, negative)``.
        reduction: "none", "mean" or "sum".
    """
    distance = F.pairwise_distance if distance_function is None else distance_function
    return reduced(_triplets(anchor, positive, negative, distance, margin, swap), None, None, reduction)


def _triplets(anchor: Any, positive: Any, negative: Any, distance: Any, margin: float, swap: bool) -> Any:
    if margin <= 0:
        raise UsageError(f"the margin of a triplet loss is {margin}; pass a number above 0")
    near, far = distance(anchor, positive), distance(anchor, negative)
    if swap:
        far = F.minimum(far, distance(positive, negative))
    return F.clamp(margin + near - far, min=0)
