"""`Exponential`."""

from __future__ import annotations

from typing import Any

from jit.eager.namespace import F

from . import constraints
from .exp_family import ExponentialFamily
from .utils import broadcast_all


class Exponential(ExponentialFamily):
    """Exponential distributions.

    Args:
        rate: One over the mean.
        validate_args: As of Distribution.
    """

    arg_constraints = {"rate": constraints.positive}
    support = constraints.nonnegative
    has_rsample = True

    def __init__(self, rate: Any, validate_args: bool | None = None) -> None:
        (self.rate,) = broadcast_all(rate)
        super().__init__(self.rate.shape, validate_args=validate_args)

    @property
    def mean(self) -> Any:
        return F.reciprocal(self.rate)

    @property
    def mode(self) -> Any:
        return F.zeros_like(self.rate)

    @property
    def stddev(self) -> Any:
        return F.reciprocal(self.rate)

    @property
    def variance(self) -> Any:
        return F.pow(self.rate, -2)

    def rsample(self, sample_shape: Any = ()) -> Any:
        shape = self._extended_shape(sample_shape)
        waits = F.exponential(F.zeros(shape, dtype=self.rate.dtype, device=self.rate.device))
        return waits / self.rate

    def log_prob(self, value: Any) -> Any:
        self._check(value)
        return F.log(self.rate) - self.rate * value

    def cdf(self, value: Any) -> Any:
        self._check(value)
        return -F.expm1(-self.rate * value)

    def icdf(self, value: Any) -> Any:
        return -F.log1p(-value) / self.rate

    def entropy(self) -> Any:
        return 1 - F.log(self.rate)

    @property
    def _natural_params(self) -> tuple[Any, ...]:
        return (-self.rate,)

    def _log_normalizer(self, x: Any) -> Any:
        return -F.log(-x)


__all__ = ["Exponential"]
