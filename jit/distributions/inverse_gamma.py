"""`InverseGamma`."""

from __future__ import annotations

import math
from typing import Any

from jit.eager.namespace import F

from . import constraints
from .gamma import Gamma
from .transformed_distribution import TransformedDistribution
from .transforms import PowerTransform


class InverseGamma(TransformedDistribution):
    """Distributions of reciprocals of gamma numbers.

    Args:
        concentration: The shape of these.
        rate: One over their scale.
        validate_args: As of Distribution.
    """

    arg_constraints = {"concentration": constraints.positive, "rate": constraints.positive}
    support = constraints.positive
    has_rsample = True

    def __init__(self, concentration: Any, rate: Any, validate_args: bool | None = None) -> None:
        super().__init__(Gamma(concentration, rate, validate_args), PowerTransform(-1.0), validate_args)

    @property
    def concentration(self) -> Any:
        """The shape."""
        return self.base_dist.concentration

    @property
    def rate(self) -> Any:
        """One over the scale of the reciprocals."""
        return self.base_dist.rate

    @property
    def mean(self) -> Any:
        return F.where(F.gt(self.concentration, 1), self.rate / (self.concentration - 1), math.inf)

    @property
    def mode(self) -> Any:
        return self.rate / (self.concentration + 1)

    @property
    def variance(self) -> Any:
        a = self.concentration
        return F.where(F.gt(a, 2), F.square(self.rate) / (F.square(a - 1) * (a - 2)), math.inf)

    def log_prob(self, value: Any) -> Any:
        self._check(value)
        a = self.concentration
        return a * F.log(self.rate) - (a + 1) * F.log(value) - self.rate / value - F.lgamma(a)

    def cdf(self, value: Any) -> Any:
        self._check(value)
        return F.igammac(self.concentration, self.rate / value)

    def entropy(self) -> Any:
        a = self.concentration
        return a + F.log(self.rate) + F.lgamma(a) - (1 + a) * F.digamma(a)


__all__ = ["InverseGamma"]
