"""`Weibull`."""

from __future__ import annotations

from typing import Any

from jit.eager.namespace import F

from . import constraints
from .exponential import Exponential
from .transformed_distribution import TransformedDistribution
from .transforms import AffineTransform, PowerTransform
from .utils import broadcast_all, euler_constant


class Weibull(TransformedDistribution):
    """Weibull distributions.

    Args:
        scale: The scale.
        concentration: The shape.
        validate_args: As of Distribution.
    """

    arg_constraints = {"scale": constraints.positive, "concentration": constraints.positive}
    support = constraints.positive
    has_rsample = True

    def __init__(self, scale: Any, concentration: Any, validate_args: bool | None = None) -> None:
        self.scale, self.concentration = broadcast_all(scale, concentration)
        self.concentration_reciprocal = F.reciprocal(self.concentration)
        transforms = [PowerTransform(self.concentration_reciprocal), AffineTransform(0, self.scale)]
        super().__init__(Exponential(F.ones_like(self.scale), False), transforms, validate_args)

    def expand(self, batch_shape: Any, _instance: Any = None) -> Any:
        made = self._bare(_instance)
        Weibull.__init__(made, self.scale.expand(batch_shape), self.concentration.expand(batch_shape), False)
        made._validate_args = self._validate_args
        return made

    @property
    def mean(self) -> Any:
        return self.scale * F.exp(F.lgamma(1 + self.concentration_reciprocal))

    @property
    def mode(self) -> Any:
        k = self.concentration
        return F.where(F.gt(k, 1), self.scale * F.pow(F.clamp((k - 1) / k, 0), 1 / k), 0.0)

    @property
    def variance(self) -> Any:
        first = F.exp(2 * F.lgamma(1 + self.concentration_reciprocal))
        return F.square(self.scale) * (F.exp(F.lgamma(1 + 2 * self.concentration_reciprocal)) - first)

    def entropy(self) -> Any:
        k = self.concentration_reciprocal
        return euler_constant * (1 - k) + F.log(self.scale * k) + 1


__all__ = ["Weibull"]
