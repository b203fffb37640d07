"""`Chi2`."""

from __future__ import annotations

from typing import Any

from . import constraints
from .gamma import Gamma


class Chi2(Gamma):
    """Distributions of sums of squares of normal numbers.

    Args:
        df: The number of them.
        validate_args: As of Distribution.
    """

    arg_constraints = {"df": constraints.positive}

    def __init__(self, df: Any, validate_args: bool | None = None) -> None:
        super().__init__(df / 2, 0.5, validate_args=validate_args)
        if self._is_checking():
            self._check_parameters()

    @property
    def df(self) -> Any:
        """The degrees of freedom."""
        return self.concentration * 2

    def expand(self, batch_shape: Any, _instance: Any = None) -> Any:
        made = self._bare(_instance)
        Gamma.__init__(made, self.concentration.expand(batch_shape), self.rate.expand(batch_shape), False)
        made._validate_args = self._validate_args
        return made


__all__ = ["Chi2"]
