"""`StudentT`."""

from __future__ import annotations

import math
from typing import Any

from jit.eager.namespace import F

from . import constraints
from .distribution import Distribution
from .utils import broadcast_all


class StudentT(Distribution):
    """Student's t distributions.

    Args:
        df: The degrees of freedom.
        loc: The centre.
        scale: The scale.
        validate_args: As of Distribution.
    """

    arg_constraints = {
        "df": constraints.positive, "loc": constraints.real, "scale": constraints.positive,
    }  # fmt: skip
    support = constraints.real
    has_rsample = True

    def __init__(self, df: Any, loc: Any = 0.0, scale: Any = 1.0, validate_args: bool | None = None) -> None:
        self.df, self.loc, self.scale = broadcast_all(df, loc, scale)
        super().__init__(self.df.shape, validate_args=validate_args)

    @property
    def mean(self) -> Any:
        return F.where(F.gt(self.df, 1), self.loc, math.nan)

    @property
    def mode(self) -> Any:
        return self.loc

    @property
    def variance(self) -> Any:
        found = F.square(self.scale) * self.df / (self.df - 2)
        return F.where(F.gt(self.df, 2), found, F.where(F.gt(self.df, 1), math.inf, math.nan).to(found.dtype))

    def rsample(self, sample_shape: Any = ()) -> Any:
        shape = self._extended_shape(sample_shape)
        noise = F.randn(shape, dtype=self.df.dtype, device=self.df.device)
        squares = 2 * F._standard_gamma((self.df / 2).expand(shape))
        return self.loc + self.scale * noise * F.rsqrt(squares / self.df)

    def log_prob(self, value: Any) -> Any:
        self._check(value)
        n, y = self.df, (value - self.loc) / self.scale
        constant = F.lgamma((n + 1) / 2) - F.lgamma(n / 2) - F.log(math.pi * n) / 2 - F.log(self.scale)
        return constant - (n + 1) / 2 * F.log1p(F.square(y) / n)

    def entropy(self) -> Any:
        n = self.df
        beta = F.lgamma(n / 2) + math.lgamma(0.5) - F.lgamma((n + 1) / 2)
        half = (n + 1) / 2
        return F.log(self.scale) + half * (F.digamma(half) - F.digamma(n / 2)) + F.log(n) / 2 + beta


__all__ = ["StudentT"]
