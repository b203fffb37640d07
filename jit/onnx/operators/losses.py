"""Losses of classes."""

from __future__ import annotations

from jit.eager.namespace import F
from jit.ir.dtypes import int64
from jit.ir.errors import ModelError

from ..table import Any, Tensor, operator

_REDUCTIONS = {"none": 0, "mean": 1, "sum": 2}
"""Names of reductions, and ATen's numbers for them."""
_NOBODY = -(2**31)
"""No class has this number."""


def _loss(
    log_probabilities: Tensor, target: Tensor, weight: Tensor | None, ignored: int | None, reduction: str
) -> Tensor:
    if reduction not in _REDUCTIONS:
        raise ModelError(f"losses are reduced by none, mean or sum, not by {reduction!r}")
    ignored = _NOBODY if ignored is None else ignored
    return F.nll_loss_nd(log_probabilities, target.to(int64), weight, _REDUCTIONS[reduction], ignored)


@operator("NegativeLogLikelihoodLoss", since=12)
def negative_log_likelihood(
    x: Tensor, target: Tensor, weight: Tensor | None, *, ignore_index: int | None = None, reduction: str = "mean"
) -> Tensor:
    return _loss(x, target, weight, ignore_index, reduction)


@operator("SoftmaxCrossEntropyLoss", since=12)
def softmax_cross_entropy(
    x: Tensor, target: Tensor, weight: Tensor | None, *, ignore_index: int | None = None, reduction: str = "mean",
    outputs: int,
) -> Any:  # fmt: skip
    log_probabilities = F.log_softmax(x, 1)
    loss = _loss(log_probabilities, target, weight, ignore_index, reduction)
    return (loss, log_probabilities) if outputs > 1 else loss
