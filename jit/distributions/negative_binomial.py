"""`NegativeBinomial`."""

from __future__ import annotations

from typing import Any

from jit.eager.context import no_grad
from jit.eager.namespace import F
from jit.ir.errors import UsageError

from . import constraints
from .distribution import Distribution
from .utils import broadcast_all, lazy_property, logits_to_probs, probs_to_logits


class NegativeBinomial(Distribution):
    """Distributions of the number of successes before a number of failures.

    Args:
        total_count: The number of failures.
        probs: The probability of success,
        logits: or its log odds; one of the two.
        validate_args: As of Distribution.

    Raises:
        UsageError: Both are given, or none.
    """

    arg_constraints = {
        "total_count": constraints.greater_than_eq(0),
        "probs": constraints.half_open_interval(0.0, 1.0), "logits": constraints.real,
    }  # fmt: skip
    support = constraints.nonnegative_integer

    def __init__(
        self, total_count: Any, probs: Any = None, logits: Any = None, validate_args: bool | None = None
    ) -> None:
        if (probs is None) == (logits is None):
            raise UsageError("Either `probs` or `logits` must be specified, but not both.")
        name, value = ("probs", probs) if logits is None else ("logits", logits)
        self.__dict__[name], self.total_count = broadcast_all(value, total_count)
        self.total_count = self.total_count.to(self.__dict__[name].dtype)
        super().__init__(self.total_count.shape, validate_args=validate_args)

    @lazy_property
    def logits(self) -> Any:
        """The log odds."""
        return probs_to_logits(self.probs, is_binary=True)

    @lazy_property
    def probs(self) -> Any:
        """The probabilities."""
        return logits_to_probs(self.logits, is_binary=True)

    @property
    def mean(self) -> Any:
        return self.total_count * F.exp(self.logits)

    @property
    def mode(self) -> Any:
        return F.clamp(F.floor((self.total_count - 1) * F.exp(self.logits)), 0)

    @property
    def variance(self) -> Any:
        return self.mean / F.sigmoid(-self.logits)

    def sample(self, sample_shape: Any = ()) -> Any:
        with no_grad():
            shape = self._extended_shape(sample_shape)
            return F.poisson(F._standard_gamma(self.total_count.expand(shape)) * F.exp(self.logits))

    def log_prob(self, value: Any) -> Any:
        self._check(value)
        n = self.total_count
        powers = n * F.log_sigmoid(-self.logits) + value * F.log_sigmoid(self.logits)
        counted = F.lgamma(n + value) - F.lgamma(1 + value) - F.lgamma(n)
        return powers + F.where(F.eq(n + value, 0), 0.0, counted)


__all__ = ["NegativeBinomial"]
