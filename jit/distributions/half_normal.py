"""`HalfNormal`."""

from __future__ import annotations

import math
from typing import Any

from jit.eager.namespace import F
from jit.ir.errors import UsageError

from . import constraints
from .normal import Normal
from .transformed_distribution import TransformedDistribution
from .transforms import AbsTransform


class HalfNormal(TransformedDistribution):
    """Distributions of absolute values of normal numbers.

    Args:
        scale: The scale of these.
        validate_args: As of Distribution.
    """

    arg_constraints = {"scale": constraints.positive}
    support = constraints.nonnegative
    has_rsample = True

    def __init__(self, scale: Any, validate_args: bool | None = None) -> None:
        super().__init__(
            Normal(0.0 * scale if hasattr(scale, "ndim") else 0.0, scale, False), AbsTransform(), validate_args
        )
        if self._is_checking() and not bool(F.all(F.gt(self.scale, 0))):
            raise UsageError("HalfNormal: Expected parameter scale to be positive")

    @property
    def scale(self) -> Any:
        """The scale."""
        return self.base_dist.scale

    @property
    def mean(self) -> Any:
        return self.scale * math.sqrt(2 / math.pi)

    @property
    def variance(self) -> Any:
        return F.square(self.scale) * (1 - 2 / math.pi)

    @property
    def mode(self) -> Any:
        return F.zeros_like(self.scale)

    def log_prob(self, value: Any) -> Any:
        self._check(value)
        return F.where(F.ge(value, 0), self.base_dist.log_prob(value) + math.log(2), -math.inf)

    def cdf(self, value: Any) -> Any:
        self._check(value)
        return 2 * self.base_dist.cdf(value) - 1

    def icdf(self, value: Any) -> Any:
        return self.base_dist.icdf((value + 1) / 2)

    def entropy(self) -> Any:
        return self.base_dist.entropy() - math.log(2)


__all__ = ["HalfNormal"]
