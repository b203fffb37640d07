"""`Kumaraswamy`."""

from __future__ import annotations

import math
from typing import Any

from jit.eager.namespace import F

from . import constraints
from .transformed_distribution import TransformedDistribution
from .transforms import AffineTransform, PowerTransform
from .uniform import Uniform
from .utils import broadcast_all, euler_constant


class Kumaraswamy(TransformedDistribution):
    """Kumaraswamy distributions, which are much like Beta ones.

    Args:
        concentration1: The first exponent.
        concentration0: The second.
        validate_args: As of Distribution.
    """

    arg_constraints = {
        "concentration1": constraints.positive, "concentration0": constraints.positive,
    }  # fmt: skip
    support = constraints.unit_interval
    has_rsample = True

    def __init__(self, concentration1: Any, concentration0: Any, validate_args: bool | None = None) -> None:
        self.concentration1, self.concentration0 = broadcast_all(concentration1, concentration0)
        transforms = [
            PowerTransform(F.reciprocal(self.concentration0)), AffineTransform(1.0, -1.0),
            PowerTransform(F.reciprocal(self.concentration1)),
        ]  # fmt: skip
        base = Uniform(F.zeros_like(self.concentration0), F.ones_like(self.concentration0), False)
        super().__init__(base, transforms, validate_args)

    def expand(self, batch_shape: Any, _instance: Any = None) -> Any:
        made = self._bare(_instance)
        given = self.concentration1.expand(batch_shape), self.concentration0.expand(batch_shape)
        Kumaraswamy.__init__(made, *given, False)
        made._validate_args = self._validate_args
        return made

    def _moment(self, order: int) -> Any:
        b, at = self.concentration0, 1 + order / self.concentration1
        return F.exp(F.log(b) + F.lgamma(at) + F.lgamma(b) - F.lgamma(at + b))

    @property
    def mean(self) -> Any:
        return self._moment(1)

    @property
    def mode(self) -> Any:
        a, b = self.concentration1, self.concentration0
        found = F.pow((a - 1) / (a * b - 1), F.reciprocal(a))
        return F.where(F.lt(a, 1) | F.lt(b, 1), math.nan, found)

    @property
    def variance(self) -> Any:
        return self._moment(2) - F.square(self.mean)

    def entropy(self) -> Any:
        a, b = F.reciprocal(self.concentration1), F.reciprocal(self.concentration0)
        harmonic = F.digamma(self.concentration0 + 1) + euler_constant
        return (1 - b) + (1 - a) * harmonic + F.log(a) + F.log(b)


__all__ = ["Kumaraswamy"]
