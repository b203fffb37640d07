"""`Normal`."""

from __future__ import annotations

import math
from typing import Any

from jit.eager.namespace import F

from . import constraints
from .exp_family import ExponentialFamily
from .utils import broadcast_all


class Normal(ExponentialFamily):
    """Normal distributions.

    Args:
        loc: The mean.
        scale: The standard deviation.
        validate_args: As of Distribution.

    >>> import jit
    >>> jit.distributions.Normal(0.0, 1.0).log_prob(jit.tensor(0.0)).item()
    -0.9189385175704956
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
    def stddev(self) -> Any:
        return self.scale

    @property
    def variance(self) -> Any:
        return F.square(self.scale)

    def rsample(self, sample_shape: Any = ()) -> Any:
        shape = self._extended_shape(sample_shape)
        noise = F.randn(shape, dtype=self.loc.dtype, device=self.loc.device)
        return self.loc + noise * self.scale

    def log_prob(self, value: Any) -> Any:
        self._check(value)
        return -F.square((value - self.loc) / self.scale) / 2 - F.log(self.scale) - math.log(2 * math.pi) / 2

    def cdf(self, value: Any) -> Any:
        self._check(value)
        return F.special_ndtr((value - self.loc) / self.scale)

    def icdf(self, value: Any) -> Any:
        return self.loc + self.scale * F.special_ndtri(value)

    def entropy(self) -> Any:
        return F.log(self.scale) + (1 + math.log(2 * math.pi)) / 2

    @property
    def _natural_params(self) -> tuple[Any, ...]:
        return self.loc / F.square(self.scale), -0.5 / F.square(self.scale)

    def _log_normalizer(self, x: Any, y: Any) -> Any:
        return -F.square(x) / (4 * y) + F.log(-math.pi / y) / 2


__all__ = ["Normal"]
