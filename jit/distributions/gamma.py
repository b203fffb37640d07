"""`Gamma`."""

from __future__ import annotations

from typing import Any

from jit.eager.namespace import F

from . import constraints
from .exp_family import ExponentialFamily
from .utils import broadcast_all


class Gamma(ExponentialFamily):
    """Gamma distributions.

    Args:
        concentration: The shape.
        rate: One over the scale.
        validate_args: As of Distribution.
    """

    arg_constraints = {"concentration": constraints.positive, "rate": constraints.positive}
    support = constraints.nonnegative
    has_rsample = True

    def __init__(self, concentration: Any, rate: Any, validate_args: bool | None = None) -> None:
        self.concentration, self.rate = broadcast_all(concentration, rate)
        super().__init__(self.concentration.shape, validate_args=validate_args)

    @property
    def mean(self) -> Any:
        return self.concentration / self.rate

    @property
    def mode(self) -> Any:
        return F.clamp((self.concentration - 1) / self.rate, 0)

    @property
    def variance(self) -> Any:
        return self.concentration / F.square(self.rate)

    def rsample(self, sample_shape: Any = ()) -> Any:
        shape = self._extended_shape(sample_shape)
        return F._standard_gamma(self.concentration.expand(shape)) / self.rate

    def log_prob(self, value: Any) -> Any:
        self._check(value)
        a, b = self.concentration, self.rate
        return F.xlogy(a, b) + F.xlogy(a - 1, value) - b * value - F.lgamma(a)

    def cdf(self, value: Any) -> Any:
        self._check(value)
        return F.igamma(self.concentration, self.rate * value)

    def entropy(self) -> Any:
        a = self.concentration
        return a - F.log(self.rate) + F.lgamma(a) + (1 - a) * F.digamma(a)

    @property
    def _natural_params(self) -> tuple[Any, ...]:
        return self.concentration - 1, -self.rate

    def _log_normalizer(self, x: Any, y: Any) -> Any:
        return F.lgamma(x + 1) - (x + 1) * F.log(-y)


__all__ = ["Gamma"]
