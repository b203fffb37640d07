"""`Gumbel`."""

from __future__ import annotations

import math
from typing import Any

from jit.eager.namespace import F

from . import constraints
from .distribution import Distribution
from .utils import broadcast_all, clamp_probs, euler_constant


class Gumbel(Distribution):
    """Gumbel distributions, those of the largest of many.

    Args:
        loc: The mode.
        scale: The scale.
        validate_args: As of Distribution.
    """

    arg_constraints = {"loc": constraints.real, "scale": constraints.positive}
    support = constraints.real
    has_rsample = True

    def __init__(self, loc: Any, scale: Any, validate_args: bool | None = None) -> None:
        self.loc, self.scale = broadcast_all(loc, scale)
        super().__init__(self.loc.shape, validate_args=validate_args)

    @property
    def mean(self) -> Any:
        return self.loc + self.scale * euler_constant

    @property
    def mode(self) -> Any:
        return self.loc

    @property
    def stddev(self) -> Any:
        return math.pi / math.sqrt(6) * self.scale

    @property
    def variance(self) -> Any:
        return F.square(self.stddev)

    def rsample(self, sample_shape: Any = ()) -> Any:
        shape = self._extended_shape(sample_shape)
        return self.icdf(clamp_probs(F.rand(shape, dtype=self.loc.dtype, device=self.loc.device)))

    def log_prob(self, value: Any) -> Any:
        self._check(value)
        z = (self.loc - value) / self.scale
        return z - F.exp(z) - F.log(self.scale)

    def cdf(self, value: Any) -> Any:
        self._check(value)
        return F.exp(-F.exp((self.loc - value) / self.scale))

    def icdf(self, value: Any) -> Any:
        return self.loc - self.scale * F.log(-F.log(value))

    def entropy(self) -> Any:
        return F.log(self.scale) + (1 + euler_constant)


__all__ = ["Gumbel"]
