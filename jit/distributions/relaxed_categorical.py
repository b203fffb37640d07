"""`RelaxedOneHotCategorical`, `ExpRelaxedCategorical`."""

from __future__ import annotations

import math
from typing import Any

from jit.eager.namespace import F
from jit.eager.tensors import Size

from . import constraints
from .categorical import Categorical
from .distribution import Distribution
from .transformed_distribution import TransformedDistribution
from .transforms import ExpTransform
from .utils import clamp_probs


class ExpRelaxedCategorical(Distribution):
    """Distributions of logarithms of RelaxedOneHotCategorical vectors.

    Args:
        temperature: The temperature; samples are near to vectors with a single one if it is low.
        probs: Weights of the places,
        logits: or their logarithms; one of the two.
        validate_args: As of Distribution.
    """

    arg_constraints = {"probs": constraints.simplex, "logits": constraints.real_vector}
    support = constraints.real_vector
    has_rsample = True

    def __init__(
        self, temperature: Any, probs: Any = None, logits: Any = None, validate_args: bool | None = None
    ) -> None:  # fmt: skip
        self._categorical, self.temperature = Categorical(probs, logits), temperature
        super().__init__(self._categorical.batch_shape, self._categorical.param_shape[-1:], validate_args)

    def _expand_parts(self, made: Any, shape: Size) -> None:
        made.temperature, made._categorical = self.temperature, self._categorical.expand(shape)

    @property
    def logits(self) -> Any:
        """The logarithms of the probabilities."""
        return self._categorical.logits

    @property
    def probs(self) -> Any:
        """The probabilities."""
        return self._categorical.probs

    def rsample(self, sample_shape: Any = ()) -> Any:
        shape = self._extended_shape(sample_shape)
        uniform = clamp_probs(F.rand(shape, dtype=self.logits.dtype, device=self.logits.device))
        scores = (self.logits - F.log(-F.log(uniform))) / self.temperature
        return scores - F.logsumexp(scores, -1, True)

    def log_prob(self, value: Any) -> Any:
        self._check(value)
        count = self._event_shape[0]
        scores = self.logits - value * self.temperature
        scores = scores - F.logsumexp(scores, -1, True)
        temperature = (
            self.temperature if hasattr(self.temperature, "ndim") else F.full_like(scores[..., 0], self.temperature)
        )
        return math.lgamma(count) + (count - 1) * F.log(temperature) + F.sum(scores, -1)


class RelaxedOneHotCategorical(TransformedDistribution):
    """Distributions of shares that come near to vectors with a single one, and have gradients.

    Args:
        temperature: The temperature.
        probs: Weights of the places,
        logits: or their logarithms; one of the two.
        validate_args: As of Distribution.
    """

    arg_constraints = {"probs": constraints.simplex, "logits": constraints.real_vector}
    support = constraints.simplex
    has_rsample = True

    def __init__(
        self, temperature: Any, probs: Any = None, logits: Any = None, validate_args: bool | None = None
    ) -> None:  # fmt: skip
        base = ExpRelaxedCategorical(temperature, probs, logits, validate_args)
        super().__init__(base, ExpTransform(), validate_args)

    @property
    def temperature(self) -> Any:
        """The temperature."""
        return self.base_dist.temperature

    @property
    def logits(self) -> Any:
        """The logarithms of the probabilities."""
        return self.base_dist.logits

    @property
    def probs(self) -> Any:
        """The probabilities."""
        return self.base_dist.probs


__all__ = ["RelaxedOneHotCategorical", "ExpRelaxedCategorical"]
