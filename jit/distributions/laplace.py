"""`Laplace`."""

from __future__ import annotations

from typing import Any

from jit.eager.namespace import F

from . import constraints
from .distribution import Distribution
from .utils import broadcast_all


class Laplace(Distribution):
    """Laplace distributions.

    Args:
        loc: The mean.
        scale: The mean distance from it.
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
        return self.loc

    @property
    def mode(self) -> Any:
        return self.loc

    @property
    def variance(self) -> Any:
        return 2 * F.square(self.scale)

    def rsample(self, sample_shape: Any = ()) -> Any:
        shape = self._extended_shape(sample_shape)
        u = F.rand(shape, dtype=self.loc.dtype, device=self.loc.device) - 0.5
        return self.loc - self.scale * F.sign(u) * F.log1p(-F.abs(u) * (2 - 1e-7))

    def log_prob(self, value: Any) -> Any:
        self._check(value)
        return -F.log(2 * self.scale) - F.abs(value - self.loc) / self.scale

    def cdf(self, value: Any) -> Any:
        self._check(value)
        z = (value - self.loc) / self.scale
        return 0.5 - 0.5 * F.sign(z) * F.expm1(-F.abs(z))

    def icdf(self, value: Any) -> Any:
        term = value - 0.5
        return self.loc - self.scale * F.sign(term) * F.log1p(-2 * F.abs(term))

    def entropy(self) -> Any:
        return 1 + F.log(2 * self.scale)


__all__ = ["Laplace"]
