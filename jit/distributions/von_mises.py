"""`VonMises`."""

from __future__ import annotations

import math
from typing import Any

from jit.eager.context import no_grad
from jit.eager.namespace import F
from jit.ir import dtypes

from . import constraints
from .distribution import Distribution
from .utils import broadcast_all

PROPOSALS = 32
"""Enough: at least 0.65 of all are accepted, so that all are refused once in 10 ** 14 draws."""


class VonMises(Distribution):
    """Distributions of angles.

    Args:
        loc: The mean angle, in radians.
        concentration: The concentration; nearly one over the variance if it is large.
        validate_args: As of Distribution.
    """

    arg_constraints = {"loc": constraints.real, "concentration": constraints.positive}
    support = constraints.real
    has_rsample = False

    def __init__(self, loc: Any, concentration: Any, validate_args: bool | None = None) -> None:
        self.loc, self.concentration = broadcast_all(loc, concentration)
        super().__init__(self.loc.shape, validate_args=validate_args)

    @property
    def mean(self) -> Any:
        return self.loc

    @property
    def mode(self) -> Any:
        return self.loc

    @property
    def variance(self) -> Any:
        """The circular variance."""
        return 1 - F.special_i1e(self.concentration) / F.special_i0e(self.concentration)

    def log_prob(self, value: Any) -> Any:
        self._check(value)
        k = self.concentration
        return k * (F.cos(value - self.loc) - 1) - math.log(2 * math.pi) - F.log(F.special_i0e(k))

    def sample(self, sample_shape: Any = ()) -> Any:
        """Angles, by the method of Best and Fisher: the first of PROPOSALS proposals that is accepted."""
        with no_grad():
            shape = self._extended_shape(sample_shape)
            k = self.concentration.to(dtypes.float64)
            root = 1 + F.sqrt(1 + 4 * F.square(k))
            rho = (root - F.sqrt(2 * root)) / (2 * k)
            r = F.where(F.lt(k, 1e-5), 1 / k + k, (1 + F.square(rho)) / (2 * rho))
            u = F.rand([3, PROPOSALS, *shape], dtype=dtypes.float64, device=k.device)
            z = F.cos(math.pi * u[0])
            cosine = (1 + r * z) / (r + z)
            c = k * (r - cosine)
            accepted = F.gt(c * (2 - c), u[1]) | F.ge(F.log(c / u[1]) + 1 - c, 0)
            first = F.argmax(accepted.to(dtypes.int64), 0, True)
            angle = F.acos(F.clamp(F.gather(cosine, 0, first)[0], -1, 1)) * F.sign(u[2, 0] - 0.5)
            return ((angle + math.pi + self.loc) % (2 * math.pi) - math.pi).to(self.loc.dtype)


__all__ = ["VonMises"]
