"""`Poisson`."""

from __future__ import annotations

from typing import Any

from jit.eager.context import no_grad
from jit.eager.namespace import F

from . import constraints
from .exp_family import ExponentialFamily
from .utils import broadcast_all


class Poisson(ExponentialFamily):
    """Poisson distributions.

    Args:
        rate: The mean.
        validate_args: As of Distribution.
    """

    arg_constraints = {"rate": constraints.nonnegative}
    support = constraints.nonnegative_integer

    def __init__(self, rate: Any, validate_args: bool | None = None) -> None:
        (self.rate,) = broadcast_all(rate)
        super().__init__(self.rate.shape, validate_args=validate_args)

    @property
    def mean(self) -> Any:
        return self.rate

    @property
    def mode(self) -> Any:
        return F.floor(self.rate)

    @property
    def variance(self) -> Any:
        return self.rate

    def sample(self, sample_shape: Any = ()) -> Any:
        with no_grad():
            return F.poisson(self.rate.expand(self._extended_shape(sample_shape)))

    def log_prob(self, value: Any) -> Any:
        self._check(value)
        return F.xlogy(value, self.rate) - self.rate - F.lgamma(value + 1)

    @property
    def _natural_params(self) -> tuple[Any, ...]:
        return (F.log(self.rate),)

    def _log_normalizer(self, x: Any) -> Any:
        return F.exp(x)

    def entropy(self) -> Any:
        raise NotImplementedError("Poisson has no entropy in closed form")


__all__ = ["Poisson"]
