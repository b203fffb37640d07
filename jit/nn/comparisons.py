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
    """``norm_p(x1 - x2 + eps)`` along the last dim.

    Args:
        p: The norm; default 2.
        eps: Added to each difference, so that the derivative exists at 0; default 1e-6.
        keepdim: Whether the result keeps the last dim, with size 1; default False.

    Shape:
        Inputs `[N, D]` or `[D]`; output `[N]` or `[]`.

    >>> import jit
    >>> round(jit.nn.PairwiseDistance()(jit.zeros(1, 2), jit.tensor([[3.0, 4.0]])).item(), 3)
    5.0
    """

    def __init__(self, p: float = 2.0, eps: float = 1e-6, keepdim: bool = False) -> None:
        super().__init__()
        self.norm, self.eps, self.keepdim = p, eps, keepdim

    def forward(self, x1: Any, x2: Any) -> Any:
        return functional.pairwise_distance(x1, x2, self.norm, self.eps, self.keepdim)


class _MarginLoss(_Loss):
    """Base of losses with a margin, which is 0 by default."""

    def __init__(
        self, margin: float = 0.0, size_average: bool | None = None, reduce: bool | None = None,
        reduction: str = "mean",
    ) -> None:  # fmt: skip
        super().__init__(size_average, reduce, reduction)
        self.margin = margin


class MarginRankingLoss(_MarginLoss):
    """``max(0, margin - target * (input1 - input2))``.

    Args:
        margin: How far the inputs should be apart; default 0.
        reduction: "none", "mean" or "sum"; default "mean".

    Shape:
        Two inputs and a target of 1 and -1, of the same sizes; output `[]`, or their sizes with "none".
    """

    def forward(self, input1: Any, input2: Any, target: Any) -> Any:
        """Compute the loss.

        Args:
            input1: Scores of any sizes.
            input2: Scores of the same sizes.
            target: 1 where `input1` should be larger, -1 where `input2` should.
        """
        return functional.margin_ranking_loss(input1, input2, target, self.margin, reduction=self.reduction)


class CosineEmbeddingLoss(_MarginLoss):
    """``1 - cos(input1, input2)`` where the target is 1, ``max(0, cos - margin)`` where it is -1.

    Args:
        margin: The cosine up to which unlike ones cost nothing; default 0.
        reduction: "none", "mean" or "sum"; default "mean".

    Shape:
        Inputs `[N, D]` or `[D]`, target of 1 and -1 `[N]` or `[]`; output `[]`, or the target's sizes with "none".
    """

    def forward(self, input1: Any, input2: Any, target: Any) -> Any:
        """Compute the loss.

        Args:
            input1: Vectors `[N, D]` or `[D]`.
            input2: Vectors of the same sizes.
            target: `[N]` or `[]`: 1 for pairs that belong together, -1 for those that do not.
        """
        return functional.cosine_embedding_loss(input1, input2, target, self.margin, reduction=self.reduction)


class HingeEmbeddingLoss(_MarginLoss):
    """`input` where the target is 1, ``max(0, margin - input)`` where it is -1; reduced.

    Args:
        margin: The distance beyond which a pair with target -1 costs nothing; default 1.
        size_average: Older word for `reduction`: False means "sum".
        reduce: Older word for `reduction`: False means "none".
        reduction: "none", "mean" or "sum"; default "mean".

    Shape:
        Input and target of the same sizes; output `[]`, or their sizes with "none".

    >>> import jit
    >>> jit.nn.HingeEmbeddingLoss()(jit.tensor([0.5, 0.25]), jit.tensor([1.0, -1.0])).item()
    0.625
    """

    def __init__(
        self, margin: float = 1.0, size_average: bool | None = None, reduce: bool | None = None,
        reduction: str = "mean",
    ) -> None:  # fmt: skip
        super().__init__(margin, size_average, reduce, reduction)

    def forward(self, input: Any, target: Any) -> Any:
        return functional.hinge_embedding_loss(input, target, self.margin, reduction=self.reduction)


class SoftMarginLoss(_Loss):
    """``log(1 + exp(-target * input))``.

    Args:
        reduction: "none", "mean" or "sum"; default "mean".

    Shape:
        Input and target of 1 and -1 of the same sizes; output `[]`, or their sizes with "none".
    """

    def forward(self, input: Any, target: Any) -> Any:
        return functional.soft_margin_loss(input, target, reduction=self.reduction)


class MultiMarginLoss(_WeightedLoss):
    """Multi-class hinge loss: the mean over the other classes of ``max(0, margin - x[target] + x[class]) ** p``.

    Args:
        p: 1 or 2; default 1.
        margin: The margin; default 1.
        weight: A weight per class, `[C]`, or None.
        size_average: Older word for `reduction`: False means "sum".
        reduce: Older word for `reduction`: False means "none".
        reduction: "none", "mean" or "sum"; default "mean".

    Shape:
        Input `[N, C]` or `[C]`, target `[N]` or `[]`; output 0-d, or of the target's sizes with "none".

    >>> import jit
    >>> jit.nn.MultiMarginLoss()(jit.tensor([[0.0, 0.5]]), jit.tensor([0])).item()
    0.75
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
    """Multi-label hinge loss: ``max(0, 1 - (x[target] - x[other]))``, summed over all pairs and divided by C.

    Args:
        reduction: "none", "mean" or "sum".

    Shape:
        Input and target `[N, C]` or `[C]`, targets those classes that stand before the first -1; output 0-d, or `[N]`
        or `[]` with "none".

    >>> import jit
    >>> jit.nn.MultiLabelMarginLoss()(jit.tensor([[1.0, 0.5]]), jit.tensor([[0, -1]])).item()
    0.25
    """

    def forward(self, input: Any, target: Any) -> Any:
        return functional.multilabel_margin_loss(input, target, reduction=self.reduction)


class MultiLabelSoftMarginLoss(_WeightedLoss):
    """The mean binary cross-entropy of the logits of all classes.

    Args:
        weight: A weight per class, `[C]`, or None.
        reduction: "none", "mean" or "sum"; default "mean".

    Shape:
        Logits and targets of 0 and 1 `[N, C]` or `[C]`; output `[]`, or `[N]` or `[]` with "none".
    """

    def forward(self, input: Any, target: Any) -> Any:
        return functional.multilabel_soft_margin_loss(input, target, self.weight, reduction=self.reduction)


class PoissonNLLLoss(_Loss):
    """Negative log-likelihood of counts under a Poisson distribution, without its constant term unless `full`.

    Args:
        log_input: Whether the input is the logarithm of the rate; default True.
        full: Whether to add Stirling's approximation of the constant term; default False.
        size_average: Older word for `reduction`: False means "sum".
        eps: Added to rates of which the logarithm is taken; default 1e-8.
        reduce: Older word for `reduction`: False means "none".
        reduction: "none", "mean" or "sum"; default "mean".

    Shape:
        Input and target of the same sizes; output `[]`, or their sizes with "none".

    >>> import jit
    >>> jit.nn.PoissonNLLLoss()(jit.zeros(2), jit.ones(2)).item()
    1.0
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
    """Negative log-likelihood ``0.5 * (log(var) + (input - target)² / var)`` of a normal distribution.

    Args:
        full: Whether to add the constant ``0.5 * log(2π)``; default False.
        eps: The least variance; it is no part of the gradient. Default 1e-6.
        reduction: "none", "mean" or "sum"; default "mean".

    Shape:
        Means (input) and targets of the same sizes; variances likewise, or with 1 for the last size, or without it.

    >>> import jit
    >>> jit.nn.GaussianNLLLoss()(jit.zeros(2), jit.ones(2), jit.ones(2)).item()
    0.5
    """

    def __init__(self, *, full: bool = False, eps: float = 1e-6, reduction: str = "mean") -> None:
        super().__init__(reduction=reduction)
        self.full, self.eps = full, eps

    def forward(self, input: Any, target: Any, var: Any) -> Any:
        """Compute the loss.

        Args:
            input: The means.
            target: The samples.
            var: The variances, of the input's sizes, or with 1 for its last size, or without its last dim.
        """
        return functional.gaussian_nll_loss(input, target, var, self.full, self.eps, self.reduction)


class TripletMarginLoss(_Loss):
    """``max(0, margin + d(anchor, positive) - d(anchor, negative))`` with the p-norm as distance d.

    Args:
        margin: The margin, above 0; default 1.
        p: The norm; default 2.
        eps: Added to each difference; default 1e-6.
        swap: Whether ``d(positive, negative)`` stands in for ``d(anchor, negative)`` where smaller; default False.
        size_average: Older word for `reduction`: False means "sum".
        reduce: Older word for `reduction`: False means "none".
        reduction: "none", "mean" or "sum"; default "mean".

    Shape:
        Three tensors `[N, D]` or `[D]`; output 0-d, or `[N]` or `[]` with "none".

    >>> import jit
    >>> round(jit.nn.TripletMarginLoss()(jit.zeros(1, 2), jit.zeros(1, 2), jit.tensor([[0.5, 0.0]])).item(), 4)
    0.5
    """

    def __init__(
        self, margin: float = 1.0, p: float = 2.0, eps: float = 1e-6, swap: bool = False,
        size_average: bool | None = None, reduce: bool | None = None, reduction: str = "mean",
    ) -> None:  # fmt: skip
        super().__init__(size_average, reduce, reduction)
        self.margin, self.p, self.eps, self.swap = margin, p, eps, swap

    def forward(self, anchor: Any, positive: Any, negative: Any) -> Any:
        """Compute the loss.

        Args:
            anchor: Vectors `[N, D]` or `[D]`.
            positive: Vectors that should be near.
            negative: Vectors that should be far.
        """
        options = self.margin, self.p, self.eps, self.swap
        return functional.triplet_margin_loss(anchor, positive, negative, *options, reduction=self.reduction)


class TripletMarginWithDistanceLoss(_Loss):
    """`TripletMarginLoss` with any distance.

    Args:
        distance_function: Takes two tensors and returns their distances; the Euclidean one if left out.
        margin: The margin, above 0; default 1.
        swap: Whether ``d(positive, negative)`` stands in for ``d(anchor, negative)`` where smaller; default False.
        reduction: "none", "mean" or "sum"; default "mean".
    """

    def __init__(
        self, *, distance_function: Callable[[Any, Any], Any] | None = None, margin: float = 1.0, swap: bool = False,
        reduction: str = "mean",
    ) -> None:  # fmt: skip
        super().__init__(reduction=reduction)
        self.distance_function = PairwiseDistance() if distance_function is None else distance_function
        self.margin, self.swap = margin, swap

    def forward(self, anchor: Any, positive: Any, negative: Any) -> Any:
        """Compute the loss.

        Args:
            anchor: Whatever the distance function takes.
            positive: The same, which should be near.
            negative: The same, which should be far.
        """
        return functional.triplet_margin_with_distance_loss(
            anchor, positive, negative, distance_function=self.distance_function, margin=self.margin, swap=self.swap,
            reduction=self.reduction,
        )  # fmt: skip


class CTCLoss(_Loss):
    """Minus the log-likelihood of label sequences under all their alignments (Graves et al., 2006).

    Args:
        blank: The class that means no label.
        reduction: "none", "mean" (each loss by its number of labels, then their mean) or "sum".
        zero_infinity: Whether sequences too short for their labels count as 0 instead of infinity.
    """

    def __init__(self, blank: int = 0, reduction: str = "mean", zero_infinity: bool = False) -> None:
        super().__init__(reduction=reduction)
        self.blank, self.zero_infinity = blank, zero_infinity

    def forward(self, log_probs: Any, targets: Any, input_lengths: Any, target_lengths: Any) -> Any:
        """Args: see `jit.nn.functional.ctc_loss`."""
        options = self.blank, self.reduction, self.zero_infinity
        return functional.ctc_loss(log_probs, targets, input_lengths, target_lengths, *options)
