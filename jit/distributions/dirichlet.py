"""`Dirichlet`."""

from __future__ import annotations

from typing import Any

from jit.eager.namespace import F
from jit.ir.errors import UsageError

from . import constraints
from .exp_family import ExponentialFamily


class Dirichlet(ExponentialFamily):
    """Distributions of shares that add up to 1.

    Args:
        concentration: The concentrations, along the last dim.
        validate_args: As of Distribution.

    Raises:
        UsageError: The concentration has no dim.
    """

    arg_constraints = {"concentration": constraints.independent(constraints.positive, 1)}
    support = constraints.simplex
    has_rsample = True

    def __init__(self, concentration: Any, validate_args: bool | None = None) -> None:
        if concentration.ndim < 1:
            raise UsageError("`concentration` parameter must be at least one-dimensional.")
        self.concentration = concentration
        super().__init__(concentration.shape[:-1], concentration.shape[-1:], validate_args)

    @property
    def mean(self) -> Any:
        return self.concentration / F.sum(self.concentration, -1, True)

    @property
    def mode(self) -> Any:
        above = F.clamp(self.concentration - 1, 0)
        mode = above / F.sum(above, -1, True)
        corner = F.one_hot(F.argmax(mode, -1), self.concentration.shape[-1]).to(mode.dtype)
        return F.where(F.all(F.lt(self.concentration, 1), -1, True), corner, mode)

    @property
    def variance(self) -> Any:
        total = F.sum(self.concentration, -1, True)
        return self.concentration * (total - self.concentration) / (F.square(total) * (total + 1))

    def rsample(self, sample_shape: Any = ()) -> Any:
        return F._sample_dirichlet(self.concentration.expand(self._extended_shape(sample_shape)))

    def log_prob(self, value: Any) -> Any:
        self._check(value)
        a = self.concentration
        return F.sum(F.xlogy(a - 1, value), -1) + F.lgamma(F.sum(a, -1)) - F.sum(F.lgamma(a), -1)

    def entropy(self) -> Any:
        a, count = self.concentration, self.concentration.shape[-1]
        total = F.sum(a, -1)
        spread = F.sum((a - 1) * F.digamma(a), -1)
        return F.sum(F.lgamma(a), -1) - F.lgamma(total) - (count - total) * F.digamma(total) - spread

    @property
    def _natural_params(self) -> tuple[Any, ...]:
        return (self.concentration,)

    def _log_normalizer(self, x: Any) -> Any:
        return F.sum(F.lgamma(x), -1) - F.lgamma(F.sum(x, -1))


__all__ = ["Dirichlet"]
