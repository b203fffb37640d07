"""`ContinuousBernoulli`."""

from __future__ import annotations

import math
from typing import Any

from jit.eager.context import no_grad
from jit.eager.namespace import F
from jit.eager.tensors import Size
from jit.ir.errors import UsageError

from . import constraints
from .exp_family import ExponentialFamily
from .utils import broadcast_all, clamp_probs, lazy_property, logits_to_probs, probs_to_logits


class ContinuousBernoulli(ExponentialFamily):
    """Distributions of numbers between 0 and 1 whose density is proportional to p^x (1 - p)^(1 - x).

    Args:
        probs: p,
        logits: or its log odds; one of the two.
        lims: The range around 1/2 in which series are used, as the formulas divide by 0 there.
        validate_args: As of Distribution.

    Raises:
        UsageError: Both are given, or none.
    """

    arg_constraints = {"probs": constraints.unit_interval, "logits": constraints.real}
    support = constraints.unit_interval
    has_rsample = True

    def __init__(
        self, probs: Any = None, logits: Any = None, lims: tuple[float, float] = (0.499, 0.501),
        validate_args: bool | None = None,
    ) -> None:  # fmt: skip
        if (probs is None) == (logits is None):
            raise UsageError("Either `probs` or `logits` must be specified, but not both.")
        name, value = ("probs", probs) if logits is None else ("logits", logits)
        (self.__dict__[name],) = broadcast_all(value)
        self._lims = lims
        super().__init__(self.__dict__[name].shape, validate_args=validate_args)

    def _expand_parts(self, made: Any, shape: Size) -> None:
        made._lims = self._lims

    @lazy_property
    def logits(self) -> Any:
        """The log odds."""
        return probs_to_logits(self.probs, is_binary=True)

    @lazy_property
    def probs(self) -> Any:
        """The probabilities."""
        return clamp_probs(logits_to_probs(self.logits, is_binary=True))

    @property
    def _is_far(self) -> Any:
        """Whether p lies outside of the range where series are used."""
        return F.le(self.probs, self._lims[0]) | F.gt(self.probs, self._lims[1])

    @property
    def _cut(self) -> Any:
        """p, or a number in its place where series are used."""
        return F.where(self._is_far, clamp_probs(self.probs), self._lims[0])

    @property
    def _log_constant(self) -> Any:
        p, x = self._cut, F.square(self.probs - 0.5)
        far = F.log(F.abs(F.log1p(-p) - F.log(p))) - F.log(F.abs(1 - 2 * p))
        return F.where(self._is_far, far, math.log(2.0) + (4 / 3 + 104 / 45 * x) * x)

    @property
    def mean(self) -> Any:
        p, x = self._cut, self.probs - 0.5
        far = p / (2 * p - 1) + 1 / (F.log1p(-p) - F.log(p))
        return F.where(self._is_far, far, 0.5 + (1 / 3 + 16 / 45 * F.square(x)) * x)

    @property
    def variance(self) -> Any:
        p, x = self._cut, F.square(self.probs - 0.5)
        far = p * (p - 1) / F.square(1 - 2 * p) + 1 / F.square(F.log1p(-p) - F.log(p))
        return F.where(self._is_far, far, 1 / 12 - (1 / 15 - 128 / 945 * x) * x)

    def sample(self, sample_shape: Any = ()) -> Any:
        with no_grad():
            return self.rsample(sample_shape)

    def rsample(self, sample_shape: Any = ()) -> Any:
        shape = self._extended_shape(sample_shape)
        return self.icdf(F.rand(shape, dtype=self.probs.dtype, device=self.probs.device))

    def log_prob(self, value: Any) -> Any:
        self._check(value)
        logits, value = broadcast_all(self.logits, value)
        return self._log_constant - F.binary_cross_entropy_with_logits(logits, value, None, None, 0)

    def cdf(self, value: Any) -> Any:
        self._check(value)
        p = self._cut
        far = (F.pow(p, value) * F.pow(1 - p, 1 - value) + p - 1) / (2 * p - 1)
        found = F.where(self._is_far, far, value)
        return F.where(F.le(value, 0), 0.0, F.where(F.ge(value, 1), 1.0, found)).to(found.dtype)

    def icdf(self, value: Any) -> Any:
        p = self._cut
        far = (F.log1p(-p + value * (2 * p - 1)) - F.log1p(-p)) / (F.log(p) - F.log1p(-p))
        return F.where(self._is_far, far, value)

    def entropy(self) -> Any:
        zero, one = F.log1p(-clamp_probs(self.probs)), F.log(clamp_probs(self.probs))
        return self.mean * (zero - one) - self._log_constant - zero


__all__ = ["ContinuousBernoulli"]
