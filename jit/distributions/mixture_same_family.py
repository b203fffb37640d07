"""`MixtureSameFamily`."""

from __future__ import annotations

from typing import Any

from jit.eager.context import no_grad
from jit.eager.namespace import F
from jit.ir.errors import UsageError

from . import constraints
from .categorical import Categorical
from .distribution import Distribution


class MixtureSameFamily(Distribution):
    """Mixtures of distributions of one family.

    Args:
        mixture_distribution: A Categorical, with the weights of the components.
        component_distribution: The components, along the last dim of the batch.
        validate_args: As of Distribution.

    Raises:
        UsageError: The weights are no Categorical, or the numbers of components differ.
    """

    def __init__(
        self, mixture_distribution: Any, component_distribution: Any, validate_args: bool | None = None
    ) -> None:  # fmt: skip
        if not isinstance(mixture_distribution, Categorical):
            raise UsageError("The Mixture distribution needs to be an instance of Categorical")
        own = component_distribution.batch_shape
        if not own or mixture_distribution.param_shape[-1] != own[-1]:
            raise UsageError(
                "the number of components, the last size of the components' batch_shape, differs from the number of "
                "the weights"
            )
        self._mixture_distribution, self._component_distribution = mixture_distribution, component_distribution
        self._num_component = own[-1]
        super().__init__(own[:-1], component_distribution.event_shape, validate_args)

    def expand(self, batch_shape: Any, _instance: Any = None) -> Any:
        made = self._bare(_instance)
        made._component_distribution = self._component_distribution.expand([*batch_shape, self._num_component])
        made._mixture_distribution = self._mixture_distribution.expand(batch_shape)
        made._num_component = self._num_component
        Distribution.__init__(made, batch_shape, self._event_shape, False)
        made._validate_args = self._validate_args
        return made

    @constraints.dependent_property
    def support(self) -> Any:
        """The values of the components."""
        found = self._component_distribution.support
        return None if isinstance(found, (constraints._Interval, constraints._IntegerInterval)) else found

    @property
    def mixture_distribution(self) -> Any:
        """The weights."""
        return self._mixture_distribution

    @property
    def component_distribution(self) -> Any:
        """The components."""
        return self._component_distribution

    def _weighted(self, values: Any) -> Any:
        """The sum of values of the components, by their weights."""
        event = len(self._event_shape)
        probs = self._mixture_distribution.probs
        weights = probs.reshape([*probs.shape, *[1] * event])
        return F.sum(weights * values, -1 - event)

    @property
    def mean(self) -> Any:
        return self._weighted(self._component_distribution.mean)

    @property
    def variance(self) -> Any:
        centre = F.unsqueeze(self.mean, -1 - len(self._event_shape))
        spread = F.square(self._component_distribution.mean - centre)
        return self._weighted(self._component_distribution.variance) + self._weighted(spread)

    def cdf(self, x: Any) -> Any:
        found = self._component_distribution.cdf(self._padded(x))
        return F.sum(found * self._mixture_distribution.probs, -1)

    def log_prob(self, x: Any) -> Any:
        self._check(x)
        found = self._component_distribution.log_prob(self._padded(x))
        return F.logsumexp(found + F.log_softmax(self._mixture_distribution.logits, -1), -1)

    def sample(self, sample_shape: Any = ()) -> Any:
        with no_grad():
            place = len(sample_shape) + len(self._batch_shape)
            chosen = self._mixture_distribution.sample(sample_shape)
            chosen = chosen.reshape([*chosen.shape, 1, *[1] * len(self._event_shape)])
            drawn = self._component_distribution.sample(sample_shape)
            index = chosen.expand([*drawn.shape[:place], 1, *self._event_shape])
            return F.squeeze(F.gather(drawn, place, index), place)

    def _padded(self, x: Any) -> Any:
        return F.unsqueeze(x, -1 - len(self._event_shape))

    def __repr__(self) -> str:
        return f"MixtureSameFamily(\n  {self._mixture_distribution},\n  {self._component_distribution})"


__all__ = ["MixtureSameFamily"]
