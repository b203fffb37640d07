"""`Multinomial`."""

from __future__ import annotations

import math
from typing import Any

from jit.eager.namespace import F
from jit.eager.tensors import Size
from jit.ir.errors import UsageError

from . import constraints
from .binomial import Binomial
from .categorical import Categorical
from .distribution import Distribution
from .utils import broadcast_all


class Multinomial(Distribution):
    """Distributions of the counts of each category in a number of trials.

    Args:
        total_count: The number of trials.
        probs: Weights of the categories, along the last dim,
        logits: or their logarithms; one of the two.
        validate_args: As of Distribution.

    Raises:
        UsageError: The number of trials is no int.
    """

    arg_constraints = {"probs": constraints.simplex, "logits": constraints.real_vector}

    def __init__(
        self, total_count: int = 1, probs: Any = None, logits: Any = None, validate_args: bool | None = None
    ) -> None:  # fmt: skip
        if not isinstance(total_count, int):
            raise UsageError("Multinomial: inhomogeneous total_count is not supported; pass one number")
        self.total_count = total_count
        self._categorical = Categorical(probs, logits, validate_args)
        super().__init__(self._categorical.batch_shape, self._categorical.param_shape[-1:], validate_args)

    def _expand_parts(self, made: Any, shape: Size) -> None:
        made.total_count, made._categorical = self.total_count, self._categorical.expand(shape)

    @constraints.dependent_property(is_discrete=True, event_dim=1)
    def support(self) -> Any:
        """Counts whose sum is the number of trials."""
        return constraints.multinomial(self.total_count)

    @property
    def probs(self) -> Any:
        """The probabilities."""
        return self._categorical.probs

    @property
    def logits(self) -> Any:
        """Logarithms of the probabilities."""
        return self._categorical.logits

    @property
    def param_shape(self) -> Any:
        """The shape of the parameter."""
        return self._categorical.param_shape

    @property
    def mean(self) -> Any:
        return self.probs * self.total_count

    @property
    def variance(self) -> Any:
        return self.total_count * self.probs * (1 - self.probs)

    def sample(self, sample_shape: Any = ()) -> Any:
        drawn = self._categorical.sample(Size((self.total_count, *sample_shape)))
        return F.sum(F.one_hot(drawn, self._event_shape[0]), 0).to(self.probs.dtype)

    def log_prob(self, value: Any) -> Any:
        self._check(value)
        logits, value = broadcast_all(self.logits, value)
        powers = F.where(F.eq(value, 0) & F.eq(logits, -math.inf), 0.0, logits * value)
        return F.lgamma(F.sum(value, -1) + 1) - F.sum(F.lgamma(value + 1), -1) + F.sum(powers, -1)

    def entropy(self) -> Any:
        counts = Binomial(self.total_count, self.probs)
        each = F.exp(counts.log_prob(counts.enumerate_support(False)))[1:]
        values = F.arange(1, self.total_count + 1, dtype=each.dtype, device=each.device)
        spread = F.sum(each * F.lgamma(values + 1).reshape([-1, *[1] * (each.ndim - 1)]), [0, -1])
        return self.total_count * self._categorical.entropy() - math.lgamma(self.total_count + 1) + spread


__all__ = ["Multinomial"]
