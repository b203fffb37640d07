"""`FisherSnedecor`."""

from __future__ import annotations

import math
from typing import Any

from jit.eager.namespace import F

from . import constraints
from .distribution import Distribution
from .utils import broadcast_all


class FisherSnedecor(Distribution):
    """Distributions of quotients of two Chi2 numbers, each divided by its degrees of freedom.

    Args:
        df1: The degrees of freedom of the first.
        df2: Those of the second.
        validate_args: As of Distribution.
    """

    arg_constraints = {"df1": constraints.positive, "df2": constraints.positive}
    support = constraints.positive
    has_rsample = True

    def __init__(self, df1: Any, df2: Any, validate_args: bool | None = None) -> None:
        self.df1, self.df2 = broadcast_all(df1, df2)
        super().__init__(self.df1.shape, validate_args=validate_args)

    @property
    def mean(self) -> Any:
        return F.where(F.gt(self.df2, 2), self.df2 / (self.df2 - 2), math.nan)

    @property
    def mode(self) -> Any:
        mode = (self.df1 - 2) / self.df1 * self.df2 / (self.df2 + 2)
        return F.where(F.gt(self.df1, 2), mode, math.nan)

    @property
    def variance(self) -> Any:
        d1, d2 = self.df1, self.df2
        found = 2 * F.square(d2) * (d1 + d2 - 2) / (d1 * F.square(d2 - 2) * (d2 - 4))
        return F.where(F.gt(d2, 4), found, math.nan)

    def rsample(self, sample_shape: Any = ()) -> Any:
        shape = self._extended_shape(sample_shape)
        first = F._standard_gamma((self.df1 / 2).expand(shape)) / self.df1
        return first / (F._standard_gamma((self.df2 / 2).expand(shape)) / self.df2)

    def log_prob(self, value: Any) -> Any:
        self._check(value)
        a, b, ratio = self.df1 / 2, self.df2 / 2, self.df1 / self.df2
        constant = F.lgamma(a + b) - F.lgamma(a) - F.lgamma(b)
        return constant + a * F.log(ratio) + (a - 1) * F.log(value) - (a + b) * F.log1p(ratio * value)


__all__ = ["FisherSnedecor"]
