"""Losses as modules: each a line over the function of the same meaning."""

from __future__ import annotations

from typing import Any

from jit.ir.errors import UsageError

from . import functional
from .modules import Module
from .reductions import reduction_word


class _Loss(Module):
    """Base of losses that are reduced by "mean", "sum" or "none"; `size_average` and `reduce` are older words."""

    def __init__(self, size_average: bool | None = None, reduce: bool | None = None, reduction: str = "mean") -> None:
        super().__init__()
        reduction = reduction_word(size_average, reduce, reduction)
        if reduction not in ("none", "mean", "sum", "batchmean"):
            raise UsageError(f"reduction is {reduction!r}; it must be 'none', 'mean' or 'sum'")
        self.reduction = reduction


class _WeightedLoss(_Loss):
    def __init__(
        self, weight: Any = None, size_average: bool | None = None, reduce: bool | None = None, reduction: str = "mean"
    ) -> None:
        super().__init__(size_average, reduce, reduction)
        self.register_buffer("weight", weight)


class L1Loss(_Loss):
    """``|input - target|``, reduced.

    Args:
        size_average: Older word for `reduction`: False means "sum".
        reduce: Older word for `reduction`: False means "none".
        reduction: "none", "mean" or "sum"; default "mean".

    Shape:
        Input and target of the same sizes; output `[]`, or their sizes with "none".
    """

    def forward(self, input: Any, target: Any) -> Any:
        return functional.l1_loss(input, target, reduction=self.reduction)


class MSELoss(_Loss):
    """``(input - target)²``, reduced.

    Args:
        size_average: Older word for `reduction`: False means "sum".
        reduce: Older word for `reduction`: False means "none".
        reduction: "none", "mean" or "sum"; default "mean".

    Shape:
        Input and target of the same sizes; output `[]`, or their sizes with "none".

    >>> import jit
    >>> jit.nn.MSELoss()(jit.zeros(4), jit.ones(4) * 2).item()
    4.0
    """

    def forward(self, input: Any, target: Any) -> Any:
        return functional.mse_loss(input, target, reduction=self.reduction)


class SmoothL1Loss(_Loss):
    """``(input - target)² / (2 * beta)`` below `beta`, ``|input - target| - beta / 2`` from there on; reduced.

    Args:
        size_average: Older word for `reduction`: False means "sum".
        reduce: Older word for `reduction`: False means "none".
        reduction: "none", "mean" or "sum"; default "mean".
        beta: The difference at which the parabola goes over into a line; default 1.

    Shape:
        Input and target of the same sizes; output `[]`, or their sizes with "none".

    >>> import jit
    >>> jit.nn.SmoothL1Loss()(jit.tensor([3.0]), jit.zeros(1)).item()
    2.5
    """

    def __init__(
        self, size_average: bool | None = None, reduce: bool | None = None, reduction: str = "mean", beta: float = 1.0
    ) -> None:
        super().__init__(size_average, reduce, reduction)
        self.beta = beta

    def forward(self, input: Any, target: Any) -> Any:
        return functional.smooth_l1_loss(input, target, reduction=self.reduction, beta=self.beta)


class HuberLoss(_Loss):
    """`SmoothL1Loss` times delta.

    Args:
        reduction: "none", "mean" or "sum"; default "mean".
        delta: The difference at which the parabola goes over into a line; default 1.

    Shape:
        Input and target of the same sizes; output `[]`, or their sizes with "none".
    """

    def __init__(self, reduction: str = "mean", delta: float = 1.0) -> None:
        super().__init__(reduction=reduction)
        self.delta = delta

    def forward(self, input: Any, target: Any) -> Any:
        return functional.huber_loss(input, target, reduction=self.reduction, delta=self.delta)


class NLLLoss(_WeightedLoss):
    """Negative log-probability of the target class, reduced.

    Args:
        weight: A weight per class, or None.
        size_average: Older word for `reduction`: False means "sum".
        ignore_index: Targets of this value do not count; default -100.
        reduce: Older word for `reduction`: False means "none".
        reduction: "none", "mean" (weighted) or "sum"; default "mean".

    Shape:
        Input `[N, C, ...]` or `[C]`, target `[N, ...]` or `[]`; output `[]`, or the target's sizes with "none".

    >>> import jit
    >>> jit.nn.NLLLoss()(jit.tensor([[-0.5, -1.0]]), jit.tensor([1])).item()
    1.0
    """

    def __init__(
        self, weight: Any = None, size_average: bool | None = None, ignore_index: int = -100,
        reduce: bool | None = None, reduction: str = "mean",
    ) -> None:  # fmt: skip
        super().__init__(weight, size_average, reduce, reduction)
        self.ignore_index = ignore_index

    def forward(self, input: Any, target: Any) -> Any:
        """Args: input, log-probabilities `[N, C, ...]`; target, classes `[N, ...]`."""
        return functional.nll_loss(
            input, target, weight=self.weight, ignore_index=self.ignore_index, reduction=self.reduction
        )


class CrossEntropyLoss(_WeightedLoss):
    """`LogSoftmax` and `NLLLoss` in one.

    Args:
        weight: A weight per class, or None.
        size_average: Older word for `reduction`: False means "sum".
        ignore_index: Targets of this value do not count; default -100.
        reduce: Older word for `reduction`: False means "none".
        reduction: "none", "mean" (weighted) or "sum"; default "mean".
        label_smoothing: The share of the target that is spread evenly over all classes; default 0.

    Shape:
        Logits `[N, C, ...]` or `[C]`, target classes `[N, ...]` or `[]`, or probabilities of the logits' sizes;
        output `[]`, or the sizes of target classes with "none".

    >>> import jit
    >>> round(jit.nn.CrossEntropyLoss()(jit.zeros(2, 4), jit.tensor([1, 3])).item(), 4)
    1.3863
    """

    def __init__(
        self, weight: Any = None, size_average: bool | None = None, ignore_index: int = -100,
        reduce: bool | None = None, reduction: str = "mean", label_smoothing: float = 0.0,
    ) -> None:  # fmt: skip
        super().__init__(weight, size_average, reduce, reduction)
        self.ignore_index, self.label_smoothing = ignore_index, label_smoothing

    def forward(self, input: Any, target: Any) -> Any:
        """Args: input, logits `[N, C, ...]`; target, classes `[N, ...]` or probabilities of input's sizes."""
        return functional.cross_entropy(
            input, target, weight=self.weight, ignore_index=self.ignore_index, reduction=self.reduction,
            label_smoothing=self.label_smoothing,
        )  # fmt: skip


class BCELoss(_WeightedLoss):
    """The binary cross-entropy of probabilities."""

    def forward(self, input: Any, target: Any) -> Any:
        return functional.binary_cross_entropy(input, target, weight=self.weight, reduction=self.reduction)


class BCEWithLogitsLoss(_WeightedLoss):
    """Binary cross-entropy of logits, accurate for large ones, too.

    Args:
        weight: A weight per element, broadcast, or None.
        size_average: Older word for `reduction`: False means "sum".
        reduce: Older word for `reduction`: False means "none".
        reduction: "none", "mean" or "sum"; default "mean".
        pos_weight: A weight of the positive targets, broadcast, or None.

    Shape:
        Input and target of the same sizes; output `[]`, or their sizes with "none".

    >>> import jit
    >>> round(jit.nn.BCEWithLogitsLoss()(jit.zeros(2), jit.ones(2)).item(), 4)
    0.6931
    """

    def __init__(
        self, weight: Any = None, size_average: bool | None = None, reduce: bool | None = None, reduction: str = "mean",
        pos_weight: Any = None,
    ) -> None:  # fmt: skip
        super().__init__(weight, size_average, reduce, reduction)
        self.register_buffer("pos_weight", pos_weight)

    def forward(self, input: Any, target: Any) -> Any:
        return functional.binary_cross_entropy_with_logits(
            input, target, weight=self.weight, reduction=self.reduction, pos_weight=self.pos_weight
        )


class KLDivLoss(_Loss):
    """Kullback-Leibler divergence ``target * (log(target) - input)`` of log-probabilities from a target distribution.

    Args:
        size_average: Older word for `reduction`: False means "sum".
        reduce: Older word for `reduction`: False means "none".
        reduction: "none", "mean", "sum" or "batchmean", the sum divided by the first size; default "mean".
        log_target: Whether the target holds logarithms too; default False.

    Shape:
        Input and target of the same sizes; output `[]`, or their sizes with "none".

    >>> import jit
    >>> jit.nn.KLDivLoss(reduction="sum")(jit.zeros(2), jit.ones(2)).item()
    0.0
    """

    def __init__(
        self, size_average: bool | None = None, reduce: bool | None = None, reduction: str = "mean",
        log_target: bool = False,
    ) -> None:  # fmt: skip
        super().__init__(size_average, reduce, reduction)
        self.log_target = log_target

    def forward(self, input: Any, target: Any) -> Any:
        return functional.kl_div(input, target, reduction=self.reduction, log_target=self.log_target)
