"""`Bernoulli`."""

from __future__ import annotations

import math
from typing import Any

from jit.eager.context import no_grad
from jit.eager.namespace import F
from jit.eager.tensors import Size
from jit.ir.errors import UsageError

from . import constraints
from .exp_family import ExponentialFamily
from .utils import broadcast_all, lazy_property, logits_to_probs, probs_to_logits


class Bernoulli(ExponentialFamily):
    """Distributions of zeros and ones.

    Args:
        probs: The probability of 1,
        logits: or its log odds; one of the two.
        validate_args: As of Distribution.

    Raises:
        UsageError: Both are given, or none.
    """

    arg_constraints = {"probs": constraints.unit_interval, "logits": constraints.real}
    support = constraints.boolean
    has_enumerate_support = True

    def __init__(self, probs: Any = None, logits: Any = None, validate_args: bool | None = None) -> None:
        if (probs is None) == (logits is None):
            raise UsageError("Either `probs` or `logits` must be specified, but not both.")
        name, value = ("probs", probs) if logits is None else ("logits", logits)
        (self.__dict__[name],) = broadcast_all(value)
        self._name = name
        super().__init__(self.__dict__[name].shape, validate_args=validate_args)

    def _expand_parts(self, made: Any, shape: Size) -> None:
        made._name = self._name

    @lazy_property
    def logits(self) -> Any:
        """The log odds."""
        return probs_to_logits(self.probs, is_binary=True)

    @lazy_property
    def probs(self) -> Any:
        """The probabilities."""
        return logits_to_probs(self.logits, is_binary=True)

    @property
    def param_shape(self) -> Any:
        """The shape of the parameter."""
        return self.__dict__[self._name].shape

    @property
    def mean(self) -> Any:
        return self.probs

    @property
    def mode(self) -> Any:
        return F.where(F.eq(self.probs, 0.5), math.nan, F.ge(self.probs, 0.5).to(self.probs.dtype))

    @property
    def variance(self) -> Any:
        return self.probs * (1 - self.probs)

    def sample(self, sample_shape: Any = ()) -> Any:
        with no_grad():
            return F.bernoulli(self.probs.expand(self._extended_shape(sample_shape)))

    def log_prob(self, value: Any) -> Any:
        self._check(value)
        logits, value = broadcast_all(self.logits, value)
        return -F.binary_cross_entropy_with_logits(logits, value, None, None, 0)

    def entropy(self) -> Any:
        return F.binary_cross_entropy_with_logits(self.logits, self.probs, None, None, 0)

    def enumerate_support(self, expand: bool = True) -> Any:
        values = F.arange(2, dtype=self.__dict__[self._name].dtype, device=self.__dict__[self._name].device)
        return self._listed(values, expand)

    @property
    def _natural_params(self) -> tuple[Any, ...]:
        return (F.logit(self.probs),)

    def _log_normalizer(self, x: Any) -> Any:
        return F.log1p(F.exp(x))


__all__ = ["Bernoulli"]
