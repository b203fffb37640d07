"""`GeneralizedPareto`."""

from __future__ import annotations

import math
from typing import Any

from jit.eager.namespace import F

from . import constraints
from .distribution import Distribution
from .utils import broadcast_all


class GeneralizedPareto(Distribution):
    """Generalized Pareto distributions, those of what exceeds a bound.

    Args:
        loc: The least value.
        scale: The scale.
        concentration: The shape; 0 is the exponential distribution.
        validate_args: As of Distribution.
    """

    arg_constraints = {
        "loc": constraints.real, "scale": constraints.positive, "concentration": constraints.real,
    }  # fmt: skip
    has_rsample = True

    def __init__(self, loc: Any, scale: Any, concentration: Any, validate_args: bool | None = None) -> None:
        self.loc, self.scale, self.concentration = broadcast_all(loc, scale, concentration)
        super().__init__(self.loc.shape, validate_args=validate_args)

    @constraints.dependent_property(is_discrete=False, event_dim=0)
    def support(self) -> Any:
        """The numbers from the location on, up to a bound if the shape is negative."""
        upper = F.where(F.lt(self.concentration, 0), self.loc - self.scale / self.concentration, math.inf)
        return constraints.interval(self.loc, upper)

    @property
    def _is_exponential(self) -> Any:
        return F.eq(self.concentration, 0)

    @property
    def _shape(self) -> Any:
        """The shape, or 1 where it is 0, by which formulas divide."""
        return F.where(self._is_exponential, 1.0, self.concentration)

    def rsample(self, sample_shape: Any = ()) -> Any:
        shape = self._extended_shape(sample_shape)
        return self.icdf(F.rand(shape, dtype=self.loc.dtype, device=self.loc.device))

    def log_prob(self, value: Any) -> Any:
        self._check(value)
        z, k = (value - self.loc) / self.scale, self._shape
        powers = -(1 + 1 / k) * F.log1p(k * F.where(self._is_exponential, 0.0, z))
        return F.where(self._is_exponential, -z, powers) - F.log(self.scale)

    def cdf(self, value: Any) -> Any:
        self._check(value)
        z, k = (value - self.loc) / self.scale, self._shape
        powers = -F.expm1(-F.log1p(k * F.where(self._is_exponential, 0.0, z)) / k)
        return F.where(self._is_exponential, -F.expm1(-z), powers)

    def icdf(self, value: Any) -> Any:
        k, above = self._shape, F.log1p(-value)
        return self.loc + self.scale * F.where(self._is_exponential, -above, F.expm1(-k * above) / k)

    @property
    def mean(self) -> Any:
        k = self.concentration
        return F.where(F.lt(k, 1), self.loc + self.scale / (1 - k), math.inf)

    @property
    def variance(self) -> Any:
        k = self.concentration
        return F.where(F.lt(k, 0.5), F.square(self.scale) / (F.square(1 - k) * (1 - 2 * k)), math.inf)

    @property
    def mode(self) -> Any:
        return self.loc

    def entropy(self) -> Any:
        return F.log(self.scale) + self.concentration + 1


__all__ = ["GeneralizedPareto"]
