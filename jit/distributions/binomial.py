"""`Binomial`."""

from __future__ import annotations

from typing import Any

from jit.eager.context import no_grad
from jit.eager.namespace import F
from jit.ir.errors import UsageError

from . import constraints
from .distribution import Distribution
from .utils import broadcast_all, lazy_property, logits_to_probs, probs_to_logits


class Binomial(Distribution):
    """Distributions of the number of successes in a number of trials.

    Args:
        total_count: The number of trials.
        probs: The probability of success,
        logits: or its log odds; one of the two.
        validate_args: As of Distribution.

    Raises:
        UsageError: Both are given, or none.
    """

    arg_constraints = {
        "total_count": constraints.nonnegative_integer,
        "probs": constraints.unit_interval, "logits": constraints.real,
    }  # fmt: skip
    has_enumerate_support = True

    def __init__(
        self, total_count: Any = 1, probs: Any = None, logits: Any = None, validate_args: bool | None = None
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

    @constraints.dependent_property(is_discrete=True)
    def support(self) -> Any:
        """The whole numbers up to that of trials."""
        return constraints.integer_interval(0, self.total_count)

    @property
    def mean(self) -> Any:
        return self.total_count * self.probs

    @property
    def mode(self) -> Any:
        return F.minimum(F.floor((self.total_count + 1) * self.probs), self.total_count)

    @property
    def variance(self) -> Any:
        return self.total_count * self.probs * (1 - self.probs)

    def sample(self, sample_shape: Any = ()) -> Any:
        with no_grad():
            shape = self._extended_shape(sample_shape)
            return F.binomial(self.total_count.expand(shape), self.probs.expand(shape))

    def log_prob(self, value: Any) -> Any:
        self._check(value)
        n = self.total_count
        chosen = F.lgamma(n + 1) - F.lgamma(value + 1) - F.lgamma(n - value + 1)
        return chosen + value * self.logits - n * F.softplus(self.logits)

    def entropy(self) -> Any:
        values = self.log_prob(self.enumerate_support(False))
        return -F.sum(F.exp(values) * values, 0)

    def _common_count(self) -> int:
        counts = self.total_count
        most = int(F.max(counts).item())
        if bool(F.ne(F.min(counts), most)):
            raise NotImplementedError("the numbers of trials differ; ask distributions of one number")
        return most

    def enumerate_support(self, expand: bool = True) -> Any:
        count = self._common_count() + 1
        return self._listed(F.arange(count, dtype=self.total_count.dtype, device=self.total_count.device), expand)


__all__ = ["Binomial"]
