"""`Categorical`."""

from __future__ import annotations

import math
from typing import Any

from jit.eager.context import no_grad
from jit.eager.namespace import F
from jit.eager.tensors import Size
from jit.ir import dtypes
from jit.ir.errors import UsageError
from jit.ir.geometry import broadcast_shapes

from . import constraints
from .distribution import Distribution
from .utils import lazy_property, logits_to_probs, probs_to_logits


class Categorical(Distribution):
    """Distributions of whole numbers below the length of the last dim.

    Args:
        probs: Weights of the numbers, along the last dim, that are divided by their sum,
        logits: or their logarithms; one of the two.
        validate_args: As of Distribution.

    Raises:
        UsageError: Both are given, or none, or they have no dim.

    >>> import jit
    >>> jit.distributions.Categorical(jit.tensor([1.0, 3.0])).probs.tolist()
    [0.25, 0.75]
    """

    arg_constraints = {"probs": constraints.simplex, "logits": constraints.real_vector}
    has_enumerate_support = True

    def __init__(self, probs: Any = None, logits: Any = None, validate_args: bool | None = None) -> None:
        if (probs is None) == (logits is None):
            raise UsageError("Either `probs` or `logits` must be specified, but not both.")
        given = logits if probs is None else probs
        if given.ndim < 1:
            raise UsageError(f"`{'logits' if probs is None else 'probs'}` parameter must be at least one-dimensional.")
        if probs is None:
            self.logits = logits - F.logsumexp(logits, -1, True)
        else:
            self.probs = probs / F.sum(probs, -1, True)
        self._num_events = given.shape[-1]
        super().__init__(given.shape[:-1], validate_args=validate_args)

    def _expand_parts(self, made: Any, shape: Size) -> None:
        made._num_events = self._num_events

    @constraints.dependent_property(is_discrete=True)
    def support(self) -> Any:
        """The whole numbers below the length of the last dim."""
        return constraints.integer_interval(0, self._num_events - 1)

    @lazy_property
    def logits(self) -> Any:
        """The logarithms of the probabilities."""
        return probs_to_logits(self.probs)

    @lazy_property
    def probs(self) -> Any:
        """The probabilities."""
        return logits_to_probs(self.logits)

    @property
    def param_shape(self) -> Any:
        """The shape of the parameter."""
        return self.__dict__["probs" if "probs" in self.__dict__ else "logits"].shape

    @property
    def mean(self) -> Any:
        return F.full(self._batch_shape, math.nan, dtype=self.probs.dtype, device=self.probs.device)

    @property
    def mode(self) -> Any:
        return F.argmax(self.probs, -1)

    @property
    def variance(self) -> Any:
        return F.full(self._batch_shape, math.nan, dtype=self.probs.dtype, device=self.probs.device)

    def sample(self, sample_shape: Any = ()) -> Any:
        with no_grad():
            count = math.prod(sample_shape)
            rows = self.probs.reshape([-1, self._num_events])
            drawn = F.transpose(F.multinomial(rows, count, True), 0, 1) if count else F.argmax(rows[:0], -1)
            return drawn.reshape([*sample_shape, *self._batch_shape])

    def log_prob(self, value: Any) -> Any:
        self._check(value)
        wide = F.unsqueeze(value.to(dtypes.int64), -1)
        leading = broadcast_shapes(tuple(wide.shape[:-1]), tuple(self._batch_shape))
        logits = self.logits.expand([*leading, self._num_events])
        return F.squeeze(F.gather(logits, -1, wide.expand([*leading, 1])), -1)

    def entropy(self) -> Any:
        least = {2: -65504.0, 4: -3.4028234663852886e38}.get(self.logits.element_size(), -1.7976931348623157e308)
        return -F.sum(F.clamp(self.logits, least) * self.probs, -1)

    def enumerate_support(self, expand: bool = True) -> Any:
        return self._listed(F.arange(self._num_events, dtype=dtypes.int64, device=self.probs.device), expand)


__all__ = ["Categorical"]
