"""`Uniform`."""

from __future__ import annotations

import math
from typing import Any

from jit.eager.namespace import F

from . import constraints
from .distribution import Distribution
from .utils import broadcast_all


class Uniform(Distribution):
    """Uniform distributions.

    Args:
        low: The least value.
        high: The value below which all lie.
        validate_args: As of Distribution.

    Raises:
        UsageError: There is nothing between the two.
    """

    has_rsample = True

    @property
    def arg_constraints(self) -> Any:
        """The sets of the bounds."""
        return {"low": constraints.less_than(self.high), "high": constraints.greater_than(self.low)}

    def __init__(self, low: Any, high: Any, validate_args: bool | None = None) -> None:
        self.low, self.high = broadcast_all(low, high)
        super().__init__(self.low.shape, validate_args=validate_args)

    @constraints.dependent_property
    def support(self) -> Any:
        """The numbers between the bounds."""
        return constraints.interval(self.low, self.high)

    @property
    def mean(self) -> Any:
        return (self.high + self.low) / 2

    @property
    def mode(self) -> Any:
        return F.full_like(self.low, math.nan)

    @property
    def variance(self) -> Any:
        return F.square(self.high - self.low) / 12

    def expand(self, batch_shape: Any, _instance: Any = None) -> Any:
        made = self._bare(_instance)
        made.low, made.high = self.low.expand(batch_shape), self.high.expand(batch_shape)
        Distribution.__init__(made, batch_shape, validate_args=False)
        made._validate_args = self._validate_args
        return made

    def rsample(self, sample_shape: Any = ()) -> Any:
        shape = self._extended_shape(sample_shape)
        return self.low + F.rand(shape, dtype=self.low.dtype, device=self.low.device) * (self.high - self.low)

    def log_prob(self, value: Any) -> Any:
        self._check(value)
        inside = F.le(self.low, value) & F.gt(self.high, value)
        return F.log(inside.to(self.low.dtype)) - F.log(self.high - self.low)

    def cdf(self, value: Any) -> Any:
        self._check(value)
        return F.clamp((value - self.low) / (self.high - self.low), 0, 1)

    def icdf(self, value: Any) -> Any:
        return value * (self.high - self.low) + self.low

    def entropy(self) -> Any:
        return F.log(self.high - self.low)


__all__ = ["Uniform"]
