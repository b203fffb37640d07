"""`RelaxedBernoulli`, `LogitRelaxedBernoulli`."""

from __future__ import annotations

from typing import Any

from jit.eager.namespace import F
from jit.eager.tensors import Size
from jit.ir.errors import UsageError

from . import constraints
from .distribution import Distribution
from .transformed_distribution import TransformedDistribution
from .transforms import SigmoidTransform
from .utils import broadcast_all, clamp_probs, lazy_property, logits_to_probs, probs_to_logits


class LogitRelaxedBernoulli(Distribution):
    """Distributions of log odds whose sigmoids are RelaxedBernoulli numbers.

    Args:
        temperature: The temperature; samples are near 0 and 1 if it is low.
        probs: The probability of 1,
        logits: or its log odds; one of the two.
        validate_args: As of Distribution.

    Raises:
        UsageError: Both are given, or none.
    """

    arg_constraints = {"probs": constraints.unit_interval, "logits": constraints.real}
    support = constraints.real
    has_rsample = True

    def __init__(
        self, temperature: Any, probs: Any = None, logits: Any = None, validate_args: bool | None = None
    ) -> None:  # fmt: skip
        if (probs is None) == (logits is None):
            raise UsageError("Either `probs` or `logits` must be specified, but not both.")
        name, value = ("probs", probs) if logits is None else ("logits", logits)
        self.temperature = temperature
        (self.__dict__[name],) = broadcast_all(value)
        super().__init__(self.__dict__[name].shape, validate_args=validate_args)

    def _expand_parts(self, made: Any, shape: Size) -> None:
        made.temperature = self.temperature

    @lazy_property
    def logits(self) -> Any:
        """The log odds."""
        return probs_to_logits(self.probs, is_binary=True)

    @lazy_property
    def probs(self) -> Any:
        """The probabilities."""
        return logits_to_probs(self.logits, is_binary=True)

    def rsample(self, sample_shape: Any = ()) -> Any:
        shape = self._extended_shape(sample_shape)
        probs = clamp_probs(self.probs.expand(shape))
        uniform = clamp_probs(F.rand(shape, dtype=probs.dtype, device=probs.device))
        return (F.log(uniform) - F.log1p(-uniform) + F.log(probs) - F.log1p(-probs)) / self.temperature

    def log_prob(self, value: Any) -> Any:
        self._check(value)
        logits, value = broadcast_all(self.logits, value)
        difference = logits - value * self.temperature
        return F.log(_tensor(self.temperature, logits)) + difference - 2 * F.softplus(difference)


def _tensor(value: Any, like: Any) -> Any:
    return value if hasattr(value, "ndim") else F.full_like(like, value)


class RelaxedBernoulli(TransformedDistribution):
    """Distributions of numbers between 0 and 1 that come near to Bernoulli ones, and have gradients.

    Args:
        temperature: The temperature.
        probs: The probability of 1,
        logits: or its log odds; one of the two.
        validate_args: As of Distribution.
    """

    arg_constraints = {"probs": constraints.unit_interval, "logits": constraints.real}
    support = constraints.unit_interval
    has_rsample = True

    def __init__(
        self, temperature: Any, probs: Any = None, logits: Any = None, validate_args: bool | None = None
    ) -> None:  # fmt: skip
        base = LogitRelaxedBernoulli(temperature, probs, logits, validate_args)
        super().__init__(base, SigmoidTransform(), validate_args)

    @property
    def temperature(self) -> Any:
        """The temperature."""
        return self.base_dist.temperature

    @property
    def logits(self) -> Any:
        """The log odds."""
        return self.base_dist.logits

    @property
    def probs(self) -> Any:
        """The probabilities."""
        return self.base_dist.probs


__all__ = ["RelaxedBernoulli", "LogitRelaxedBernoulli"]
