"""`Pareto`."""

from __future__ import annotations

from typing import Any

from jit.eager.namespace import F

from . import constraints
from .exponential import Exponential
from .transformed_distribution import TransformedDistribution
from .transforms import AffineTransform, ExpTransform
from .utils import broadcast_all


class Pareto(TransformedDistribution):
    """Pareto distributions.

    Args:
        scale: The least value.
        alpha: The exponent.
        validate_args: As of Distribution.
    """

    arg_constraints = {"alpha": constraints.positive, "scale": constraints.positive}
    has_rsample = True

    def __init__(self, scale: Any, alpha: Any, validate_args: bool | None = None) -> None:
        self.scale, self.alpha = broadcast_all(scale, alpha)
        base = Exponential(self.alpha, validate_args)
        super().__init__(base, [ExpTransform(), AffineTransform(0, self.scale)], validate_args)

    def expand(self, batch_shape: Any, _instance: Any = None) -> Any:
        made = self._bare(_instance)
        Pareto.__init__(made, self.scale.expand(batch_shape), self.alpha.expand(batch_shape), False)
        made._validate_args = self._validate_args
        return made

    @constraints.dependent_property
    def support(self) -> Any:
        """The numbers from the scale on."""
        return constraints.greater_than_eq(self.scale)

    @property
    def mean(self) -> Any:
        a = F.clamp(self.alpha, 1)
        return a * self.scale / (a - 1)

    @property
    def mode(self) -> Any:
        return self.scale

    @property
    def variance(self) -> Any:
        a = F.clamp(self.alpha, 2)
        return F.square(self.scale) * a / (F.square(a - 1) * (a - 2))

    def entropy(self) -> Any:
        return F.log(self.scale / self.alpha) + 1 + 1 / self.alpha


__all__ = ["Pareto"]
