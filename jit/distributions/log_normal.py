"""`LogNormal`."""

from __future__ import annotations

from typing import Any

from jit.eager.namespace import F

from . import constraints
from .normal import Normal
from .transformed_distribution import TransformedDistribution
from .transforms import ExpTransform


class LogNormal(TransformedDistribution):
    """Distributions of exponentials of normal numbers.

    Args:
        loc: The mean of these.
        scale: Their standard deviation.
        validate_args: As of Distribution.
    """

    arg_constraints = {"loc": constraints.real, "scale": constraints.positive}
    support = constraints.positive
    has_rsample = True

    def __init__(self, loc: Any, scale: Any, validate_args: bool | None = None) -> None:
        super().__init__(Normal(loc, scale, validate_args), ExpTransform(), validate_args)

    @property
    def loc(self) -> Any:
        """The mean of the logarithm."""
        return self.base_dist.loc

    @property
    def scale(self) -> Any:
        """The standard deviation of the logarithm."""
        return self.base_dist.scale

    @property
    def mean(self) -> Any:
        return F.exp(self.loc + F.square(self.scale) / 2)

    @property
    def mode(self) -> Any:
        return F.exp(self.loc - F.square(self.scale))

    @property
    def variance(self) -> Any:
        squared = F.square(self.scale)
        return F.expm1(squared) * F.exp(2 * self.loc + squared)

    def entropy(self) -> Any:
        return self.base_dist.entropy() + self.loc


__all__ = ["LogNormal"]
