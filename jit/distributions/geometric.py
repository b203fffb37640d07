"""`Geometric`."""

from __future__ import annotations

from typing import Any

from jit.eager.context import no_grad
from jit.eager.namespace import F
from jit.ir.errors import UsageError

from . import constraints
from .distribution import Distribution
from .utils import broadcast_all, lazy_property, logits_to_probs, probs_to_logits


class Geometric(Distribution):
    """Distributions of the number of failures before the first success.

    Args:
        probs: The probability of success,
        logits: or its log odds; one of the two.
        validate_args: As of Distribution.

    Raises:
        UsageError: Both are given, or none; or a success is impossible.
    """

    arg_constraints = {"probs": constraints.unit_interval, "logits": constraints.real}
    support = constraints.nonnegative_integer

    def __init__(self, probs: Any = None, logits: Any = None, validate_args: bool | None = None) -> None:
        if (probs is None) == (logits is None):
            raise UsageError("Either `probs` or `logits` must be specified, but not both.")
        name, value = ("probs", probs) if logits is None else ("logits", logits)
        (self.__dict__[name],) = broadcast_all(value)
        super().__init__(self.__dict__[name].shape, validate_args=validate_args)
        if self._is_checking() and name == "probs" and not bool(F.all(F.gt(self.probs, 0))):
            raise UsageError("Geometric: Expected parameter probs to be positive")

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
        return 1 / self.probs - 1

    @property
    def mode(self) -> Any:
        return F.zeros_like(self.probs)

    @property
    def variance(self) -> Any:
        return (1 / self.probs - 1) / self.probs

    def sample(self, sample_shape: Any = ()) -> Any:
        with no_grad():
            shape = self._extended_shape(sample_shape)
            waits = F.exponential(F.zeros(shape, dtype=self.probs.dtype, device=self.probs.device))
            return F.floor(waits / -F.log1p(-self.probs))

    def log_prob(self, value: Any) -> Any:
        self._check(value)
        value, probs = broadcast_all(value, self.probs)
        return F.special_xlog1py(value, -probs) + F.log(probs)

    def entropy(self) -> Any:
        return F.binary_cross_entropy_with_logits(self.logits, self.probs, None, None, 0) / self.probs


__all__ = ["Geometric"]
