"""`OneHotCategorical`, `OneHotCategoricalStraightThrough`."""

from __future__ import annotations

from typing import Any

from jit.eager.namespace import F
from jit.eager.tensors import Size

from . import constraints
from .categorical import Categorical
from .distribution import Distribution


class OneHotCategorical(Distribution):
    """Distributions of vectors of zeros with a single one.

    Args:
        probs: Weights of the places, along the last dim,
        logits: or their logarithms; one of the two.
        validate_args: As of Distribution.
    """

    arg_constraints = {"probs": constraints.simplex, "logits": constraints.real_vector}
    support = constraints.one_hot
    has_enumerate_support = True

    def __init__(self, probs: Any = None, logits: Any = None, validate_args: bool | None = None) -> None:
        self._categorical = Categorical(probs, logits, validate_args)
        super().__init__(self._categorical.batch_shape, self._categorical.param_shape[-1:], validate_args)

    def _expand_parts(self, made: Any, shape: Size) -> None:
        made._categorical = self._categorical.expand(shape)

    @property
    def probs(self) -> Any:
        """The probabilities."""
        return self._categorical.probs

    @property
    def logits(self) -> Any:
        """Logarithms of the probabilities."""
        return self._categorical.logits

    @property
    def param_shape(self) -> Any:
        """The shape of the parameter."""
        return self._categorical.param_shape

    @property
    def mean(self) -> Any:
        return self.probs

    @property
    def mode(self) -> Any:
        return self._one_hot(F.argmax(self.probs, -1))

    @property
    def variance(self) -> Any:
        return self.probs * (1 - self.probs)

    def _one_hot(self, places: Any) -> Any:
        return F.one_hot(places, self._event_shape[0]).to(self.probs.dtype)

    def sample(self, sample_shape: Any = ()) -> Any:
        return self._one_hot(self._categorical.sample(sample_shape))

    def log_prob(self, value: Any) -> Any:
        self._check(value)
        return self._categorical.log_prob(F.argmax(value, -1))

    def entropy(self) -> Any:
        return self._categorical.entropy()

    def enumerate_support(self, expand: bool = True) -> Any:
        count = self._event_shape[0]
        rows = F.eye(count, dtype=self.probs.dtype, device=self.probs.device)
        lined = rows.reshape([count, *[1] * len(self._batch_shape), count])
        return lined.expand([count, *self._batch_shape, count]) if expand else lined


class OneHotCategoricalStraightThrough(OneHotCategorical):
    """The same, with the gradient of the probabilities in place of that of the vectors, which is zero.

    Args:
        probs: As of OneHotCategorical.
        logits: Likewise.
        validate_args: Likewise.
    """

    has_rsample = True

    def rsample(self, sample_shape: Any = ()) -> Any:
        return self.sample(sample_shape) + (self.probs - F.detach(self.probs))


__all__ = ["OneHotCategorical", "OneHotCategoricalStraightThrough"]
