"""Distances, and losses by margins, distances, likelihoods and alignments: each a line over the function."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from . import functional
from .losses import _Loss, _WeightedLoss
from .modules import Module


class CosineSimilarity(Module):
    """``x1 · x2 / (‖x1‖ * ‖x2‖)``: the cosine of the angle between two vectors along a dim.

    Args:
        dim: The dim along which the vectors lie.
        eps: The least divisor.
    """

    def __init__(self, dim: int = 1, eps: float = 1e-8) -> None:
        super().__init__()
        self.dim, self.eps = dim, eps

    def forward(self, x1: Any, x2: Any) -> Any:
        return functional.cosine_similarity(x1, x2, self.dim, self.eps)


class PairwiseDistance(Module):
    """The p-norm of the difference of two vectors along the last dim, `eps` added to each element.

    Args:
        p: Which norm.
        eps: Added to each element of the difference.
        keepdim: Whether the last dim stays, of size 1.

    Shape:
        Inputs `[N, D]` or `[D]`; output `[N]` or `[]`.

    >>> import jit
    >>> round(jit.nn.PairwiseDistance()(jit.tensor([3.0, 4.0]), jit.zeros(2)).item(), 3)
    5.0
    """

    def __init__(self, p: float = 2.0, eps: float = 1e-6, keepdim: bool = False) -> None:
        super().__init__()
        self.norm, self.eps, self.keepdim = p, eps, keepdim

    def forward(self, x1: Any, x2: Any) -> Any:
        return functional.pairwise_distance(x1, x2, self.norm, self.eps, self.keepdim)


class _MarginLoss(_Loss):
    """Args: margin; `size_average`, `reduce` and `reduction` as of all losses."""

    def __init__(
        self, margin: float = 0.0, size_average: bool | None = None, reduce: bool | None = None,
        reduction: str = "mean",
    ) -> None:  # fmt: skip
        super().__init__(size_average, reduce, reduction)
        self.margin = margin


class MarginRankingLoss(_MarginLoss):
    """``max(0, margin - target * (input1 - input2))``."""

    def forward(self, input1: Any, input2: Any, target: Any) -> Any:
        return functional.margin_ranking_loss(input1, input2, target, self.margin, reduction=self.reduction)


class CosineEmbeddingLoss(_MarginLoss):
    """``1 - cos(input1, input2)`` where the target is 1, ``max(0, cos - margin)`` where it is -1."""

    def forward(self, input1: Any, input2: Any, target: Any) -> Any:
        return functional.cosine_embedding_loss(input1, input2, target, self.margin, reduction=self.reduction)


class HingeEmbeddingLoss(_MarginLoss):
    """The input where the target is 1, ``max(0, margin - input)`` where it is -1."""

    def __init__(
        self, margin: float = 1.0, size_average: bool | None = None, reduce: bool | None = None,
        reduction: str = "mean",
    ) -> None:  # fmt: skip
        super().__init__(margin, size_average, reduce, reduction)

    def forward(self, input: Any, target: Any) -> Any:
        return functional.hinge_embedding_loss(input, target, self.margin, reduction=self.reduction)


class SoftMarginLoss(_Loss):
    """``log(1 + exp(-target * input))``."""

    def forward(self, input: Any, target: Any) -> Any:
        return functional.soft_margin_loss(input, target, reduction=self.reduction)


class MultiMarginLoss(_WeightedLoss):
    """The mean over all other classes of ``max(0, margin - input[target] + input[class]) ** p``.

    Args:
        p: 1 or 2.
        margin: How far the target's score should lie above the others.
        weight: A weight per class, `[C]`, or None.
        reduction: "none", "mean" or "sum".

    Shape:
        Input `[N, C]` or `[C]`, target `[N]` or `[]`; output 0-d, or of the target's sizes with "none".
    """

    def __init__(
        self, p: int = 1, margin: float = 1.0, weight: Any = None, size_average: bool | None = None,
        reduce: bool | None = None, reduction: str = "mean",
    ) -> None:  # fmt: skip
        super().__init__(weight, size_average, reduce, reduction)
        self.p, self.margin = p, margin

    def forward(self, input: Any, target: Any) -> Any:
        options = self.p, self.margin, self.weight
        return functional.multi_margin_loss(input, target, *options, reduction=self.reduction)


class MultiLabelMarginLoss(_Loss):
    """The sum of ``max(0, 1 - input[target] + input[other])`` over all targets and all classes that are none, by C.

    Args:
        reduction: "none", "mean" or "sum".

    Shape:
        Input and target `[N, C]` or `[C]`, targets those classes that stand before the first -1; output 0-d, or `[N]`
        or `[]` with "none".
    """

    def forward(self, input: Any, target: Any) -> Any:
        return functional.multilabel_margin_loss(input, target, reduction=self.reduction)


class MultiLabelSoftMarginLoss(_WeightedLoss):
    """The mean binary cross-entropy of the logits of all classes."""

    def forward(self, input: Any, target: Any) -> Any:
        return functional.multilabel_soft_margin_loss(input, target, self.weight, reduction=self.reduction)


class PoissonNLLLoss(_Loss):
    """Minus the log-likelihood of counts for given rates, or their logarithms: ``exp(input) - target * input``.

    Args:
        log_input: Whether inputs are logarithms of rates; otherwise the loss is ``input - target * log(input + eps)``.
        full: Whether to add Stirling's approximation of the term that does not depend on the rates.
        eps: Added to rates of which the logarithm is taken.
        reduction: "none", "mean" or "sum".
    """

    def __init__(
        self, log_input: bool = True, full: bool = False, size_average: bool | None = None, eps: float = 1e-8,
        reduce: bool | None = None, reduction: str = "mean",
    ) -> None:  # fmt: skip
        super().__init__(size_average, reduce, reduction)
        self.log_input, self.full, self.eps = log_input, full, eps

    def forward(self, log_input: Any, target: Any) -> Any:
        flags = self.log_input, self.full
        return functional.poisson_nll_loss(log_input, target, *flags, eps=self.eps, reduction=self.reduction)


class GaussianNLLLoss(_Loss):
    """Minus the log-likelihood of normal variables: ``(log(var) + (input - target)² / var) / 2``.

    Args:
        full: Whether to add the constant term, ``log(2π) / 2``.
        eps: The least variance.
        reduction: "none", "mean" or "sum".

    Shape:
        Means (input) and targets of the same sizes; variances likewise, or with 1 for the last size, or without it.
    """

    def __init__(self, *, full: bool = False, eps: float = 1e-6, reduction: str = "mean") -> None:
        super().__init__(reduction=reduction)
        self.full, self.eps = full, eps

    def forward(self, input: Any, target: Any, var: Any) -> Any:
        return functional.gaussian_nll_loss(input, target, var, self.full, self.eps, self.reduction)


class TripletMarginLoss(_Loss):
    """``max(0, margin + d(anchor, positive) - d(anchor, negative))`` with distances in the p-norm.

    Args:
        margin: How much further the negative should be than the positive.
        p: Which norm.
        eps: Added to each element of a difference.
        swap: Whether to take ``d(positive, negative)`` where that is smaller than ``d(anchor, negative)``.
        reduction: "none", "mean" or "sum".

    Shape:
        Three tensors `[N, D]` or `[D]`; output 0-d, or `[N]` or `[]` with "none".
    """

    def __init__(
        self, margin: float = 1.0, p: float = 2.0, eps: float = 1e-6, swap: bool = False,
        size_average: bool | None = None, reduce: bool | None = None, reduction: str = "mean",
    ) -> None:  # fmt: skip
        super().__init__(size_average, reduce, reduction)
        self.margin, self.p, self.eps, self.swap = margin, p, eps, swap

    def forward(self, anchor: Any, positive: Any, negative: Any) -> Any:
        options = self.margin, self.p, self.eps, self.swap
        return functional.triplet_margin_loss(anchor, positive, negative, *options, reduction=self.reduction)


class TripletMarginWithDistanceLoss(_Loss):
    """`TripletMarginLoss` with any distance.

    Args:
        distance_function: The distance of two tensors, a loss per sample; without it, that of Euclid.
        margin: How much further the negative should be than the positive.
        swap: Whether to take ``d(positive, negative)`` where that is smaller than ``d(anchor, negative)``.
        reduction: "none", "mean" or "sum".
    """

    def __init__(
        self, *, distance_function: Callable[[Any, Any], Any] | None = None, margin: float = 1.0, swap: bool = False,
        reduction: str = "mean",
    ) -> None:  # fmt: skip
        super().__init__(reduction=reduction)
        self.distance_function, self.margin, self.swap = distance_function, margin, swap

    def forward(self, anchor: Any, positive: Any, negative: Any) -> Any:
        return functional.triplet_margin_with_distance_loss(
            anchor, positive, negative, distance_function=self.distance_function, margin=self.margin, swap=self.swap,
            reduction=self.reduction,
        )  # fmt: skip


class CTCLoss(_Loss):
    """Minus the log-likelihood of label sequences under all their alignments (Graves et al., 2006).

    Args:
        blank: The class that means no label.
        reduction: "none", "mean" (each loss by its number of labels, then their mean) or "sum".
        zero_infinity: Whether sequences too short for their labels count nothing instead of infinity.
    """

    def __init__(self, blank: int = 0, reduction: str = "mean", zero_infinity: bool = False) -> None:
        super().__init__(reduction=reduction)
        self.blank, self.zero_infinity = blank, zero_infinity

    def forward(self, log_probs: Any, targets: Any, input_lengths: Any, target_lengths: Any) -> Any:
        """Args: see `jit.nn.functional.ctc_loss`."""
        options = self.blank, self.reduction, self.zero_infinity
        return functional.ctc_loss(log_probs, targets, input_lengths, target_lengths, *options)
