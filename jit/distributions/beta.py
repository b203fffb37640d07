"""`Beta`."""

from __future__ import annotations

from typing import Any

from jit.eager.namespace import F
from jit.eager.tensors import Size

from . import constraints
from .dirichlet import Dirichlet
from .exp_family import ExponentialFamily
from .utils import broadcast_all


class Beta(ExponentialFamily):
    """Beta distributions.

    Args:
        concentration1: The first concentration, alpha.
        concentration0: The second, beta.
        validate_args: As of Distribution.
    """

    arg_constraints = {
        "concentration1": constraints.positive, "concentration0": constraints.positive,
    }  # fmt: skip
    support = constraints.unit_interval
    has_rsample = True

    def __init__(self, concentration1: Any, concentration0: Any, validate_args: bool | None = None) -> None:
        self._dirichlet = Dirichlet(F.stack(broadcast_all(concentration1, concentration0), -1), False)
        super().__init__(self._dirichlet._batch_shape, validate_args=validate_args)
        if self._is_checking():
            Dirichlet(self._dirichlet.concentration, validate_args=True)

    def _expand_parts(self, made: Any, shape: Size) -> None:
        made._dirichlet = self._dirichlet.expand(shape)

    @property
    def concentration1(self) -> Any:
        """The first concentration."""
        return self._dirichlet.concentration[..., 0]

    @property
    def concentration0(self) -> Any:
        """The second concentration."""
        return self._dirichlet.concentration[..., 1]

    @property
    def mean(self) -> Any:
        return self.concentration1 / (self.concentration1 + self.concentration0)

    @property
    def mode(self) -> Any:
        return self._dirichlet.mode[..., 0]

    @property
    def variance(self) -> Any:
        total = self.concentration1 + self.concentration0
        return self.concentration1 * self.concentration0 / (F.square(total) * (total + 1))

    def rsample(self, sample_shape: Any = ()) -> Any:
        return self._dirichlet.rsample(sample_shape)[..., 0]

    def log_prob(self, value: Any) -> Any:
        self._check(value)
        a, b = self.concentration1, self.concentration0
        powers = F.xlogy(a - 1, value) + F.special_xlog1py(b - 1, -value)
        return powers + F.lgamma(a + b) - F.lgamma(a) - F.lgamma(b)

    def entropy(self) -> Any:
        return self._dirichlet.entropy()

    @property
    def _natural_params(self) -> tuple[Any, ...]:
        return self.concentration1, self.concentration0

    def _log_normalizer(self, x: Any, y: Any) -> Any:
        return F.lgamma(x) + F.lgamma(y) - F.lgamma(x + y)


__all__ = ["Beta"]
