"""Distributions made of others: independent parts, transformed draws, mixtures, relaxed outcomes."""

from __future__ import annotations

import math
from typing import Any, ClassVar

from jit.eager import context
from jit.ir.errors import UsageError

from . import constraints
from .continuous import Normal
from .distribution import Distribution, LogitsOrProbs, broadcast_all, clamp_probs, fresh, sum_rightmost
from .transforms import ComposeTransform, ExpTransform, SigmoidTransform, Transform


class Independent(Distribution):
    """A distribution whose last batch dims are taken as parts of one value.

    Args:
        base_distribution: The distribution of the parts.
        reinterpreted_batch_ndims: The number of those dims.
        validate_args: Whether values are checked.
    """

    def __init__(
        self, base_distribution: Distribution, reinterpreted_batch_ndims: int, validate_args: bool | None = None
    ) -> None:  # fmt: skip
        batch = tuple(base_distribution.batch_shape)
        if reinterpreted_batch_ndims > len(batch):
            raise UsageError(
                f"Independent: {reinterpreted_batch_ndims} dims of a batch of sizes {list(batch)} are too many"
            )
        self.base_dist, self.reinterpreted_batch_ndims = base_distribution, reinterpreted_batch_ndims
        split = len(batch) - reinterpreted_batch_ndims
        super().__init__(batch[:split], batch[split:] + tuple(base_distribution.event_shape), validate_args)

    has_rsample = property(lambda self: self.base_dist.has_rsample)  # type: ignore[assignment]
    support = property(lambda self: constraints.independent(self.base_dist.support, self.reinterpreted_batch_ndims))
    mean = property(lambda self: self.base_dist.mean)
    mode = property(lambda self: self.base_dist.mode)
    variance = property(lambda self: self.base_dist.variance)

    def expand(self, batch_shape: Any, _instance: Any = None) -> Any:
        """The distribution for a larger batch.

        Args:
            batch_shape: The sizes of the batch.
        """
        inner = tuple(self.event_shape)[: self.reinterpreted_batch_ndims]
        return Independent(self.base_dist.expand((*batch_shape, *inner)), self.reinterpreted_batch_ndims, self._checks)

    def sample(self, sample_shape: Any = ()) -> Any:
        """Values drawn."""
        return self.base_dist.sample(sample_shape)

    def rsample(self, sample_shape: Any = ()) -> Any:
        """Values drawn, through which gradients flow."""
        return self.base_dist.rsample(sample_shape)

    def log_prob(self, value: Any) -> Any:
        """The logarithm of the density at a value."""
        return sum_rightmost(self.base_dist.log_prob(value), self.reinterpreted_batch_ndims)

    def entropy(self) -> Any:
        """The entropy, in nats."""
        return sum_rightmost(self.base_dist.entropy(), self.reinterpreted_batch_ndims)

    def __repr__(self) -> str:
        return f"Independent({self.base_dist}, {self.reinterpreted_batch_ndims})"


class TransformedDistribution(Distribution):
    """The distribution of transformed draws.

    Args:
        base_distribution: The distribution of the draws.
        transforms: The transform, or several.
        validate_args: Whether values are checked.
    """

    def __init__(self, base_distribution: Distribution, transforms: Any, validate_args: bool | None = None) -> None:
        self.transforms = [transforms] if isinstance(transforms, Transform) else list(transforms)
        self.base_dist = base_distribution
        whole = tuple(base_distribution.batch_shape) + tuple(base_distribution.event_shape)
        dims = max([len(base_distribution.event_shape), *(each.event_dim for each in self.transforms)])
        split = len(whole) - dims
        super().__init__(whole[:split], whole[split:], validate_args)

    has_rsample = property(lambda self: self.base_dist.has_rsample)  # type: ignore[assignment]

    def expand(self, batch_shape: Any, _instance: Any = None) -> Any:
        """The distribution for a larger batch.

        Args:
            batch_shape: The sizes of the batch.
        """
        inner = tuple(self.event_shape)[: len(self.event_shape) - len(self.base_dist.event_shape)]
        return TransformedDistribution(self.base_dist.expand((*batch_shape, *inner)), self.transforms, self._checks)

    def sample(self, sample_shape: Any = ()) -> Any:
        """Values drawn."""
        with context.no_grad():
            return ComposeTransform(self.transforms)(self.base_dist.sample(sample_shape))

    def rsample(self, sample_shape: Any = ()) -> Any:
        """Values drawn, through which gradients flow."""
        return ComposeTransform(self.transforms)(self.base_dist.rsample(sample_shape))

    def log_prob(self, value: Any) -> Any:
        """The logarithm of the density at a value."""
        dims, total = len(self.event_shape), 0.0
        for transform in reversed(self.transforms):
            before = transform._inverse(value)
            total = total - sum_rightmost(transform.log_abs_det_jacobian(before, value), dims - transform.event_dim)
            value = before
        return total + sum_rightmost(self.base_dist.log_prob(value), dims - len(self.base_dist.event_shape))

    def cdf(self, value: Any) -> Any:
        """The probability of what is not above a value, for transforms that rise."""
        for transform in reversed(self.transforms):
            value = transform._inverse(value)
        return self.base_dist.cdf(value)


class LogNormal(TransformedDistribution):
    """The distribution of the exponential of normal draws.

    Args:
        loc: The mean of the normal draws.
        scale: Their standard deviation.
        validate_args: Whether parameters and values are checked.
    """

    def __init__(self, loc: Any, scale: Any, validate_args: bool | None = None) -> None:
        super().__init__(Normal(loc, scale, validate_args), ExpTransform(), validate_args)

    loc = property(lambda self: self.base_dist.loc)
    scale = property(lambda self: self.base_dist.scale)
    support = constraints.positive

    @property
    def mean(self) -> Any:
        """The mean."""
        return (self.loc + self.scale.pow(2) / 2).exp()

    @property
    def variance(self) -> Any:
        """The variance."""
        squared = self.scale.pow(2)
        return squared.expm1() * (2 * self.loc + squared).exp()

    def entropy(self) -> Any:
        """The entropy, in nats."""
        return self.base_dist.entropy() + self.loc


class MixtureSameFamily(Distribution):
    """A mixture of distributions of one kind, which lie along the last dim of a batch.

    Args:
        mixture_distribution: The categorical distribution of which one is drawn from.
        component_distribution: The distributions.
        validate_args: Whether values are checked.
    """

    def __init__(
        self, mixture_distribution: Any, component_distribution: Distribution, validate_args: bool | None = None
    ) -> None:  # fmt: skip
        self._mixture_distribution, self._component_distribution = mixture_distribution, component_distribution
        self.mixture_distribution, self.component_distribution = mixture_distribution, component_distribution
        shape = tuple(component_distribution.batch_shape)
        super().__init__(shape[:-1], component_distribution.event_shape, validate_args)

    def expand(self, batch_shape: Any, _instance: Any = None) -> Any:
        """The distribution for a larger batch.

        Args:
            batch_shape: The sizes of the batch.
        """
        count = tuple(self.component_distribution.batch_shape)[-1]
        parts = self.component_distribution.expand((*batch_shape, count))
        return MixtureSameFamily(self.mixture_distribution.expand(tuple(batch_shape)), parts, self._checks)

    def _weights(self) -> Any:
        probs = self.mixture_distribution.probs
        return probs.reshape(tuple(probs.shape) + (1,) * len(self.event_shape))

    @property
    def mean(self) -> Any:
        """The mean."""
        return (self._weights() * self.component_distribution.mean).sum(-1 - len(self.event_shape))

    @property
    def variance(self) -> Any:
        """The variance."""
        dim = -1 - len(self.event_shape)
        within = (self._weights() * self.component_distribution.variance).sum(dim)
        moved = self.component_distribution.mean - self.mean.unsqueeze(dim)
        return within + (self._weights() * moved.pow(2)).sum(dim)

    def sample(self, sample_shape: Any = ()) -> Any:
        """Values drawn."""
        with context.no_grad():
            dims = len(self.event_shape)
            chosen = self.mixture_distribution.sample(sample_shape)
            drawn = self.component_distribution.sample(sample_shape)
            index = chosen.reshape(tuple(chosen.shape) + (1,) * (dims + 1))
            index = index.expand(*chosen.shape, 1, *self.event_shape)
            return drawn.gather(-1 - dims, index).squeeze(-1 - dims)

    def log_prob(self, value: Any) -> Any:
        """The logarithm of the density at a value."""
        each = self.component_distribution.log_prob(value.unsqueeze(-1 - len(self.event_shape)))
        return (each + self.mixture_distribution.logits.log_softmax(-1)).logsumexp(-1)


class LogitRelaxedBernoulli(LogitsOrProbs):
    """The log-odds of a relaxed Bernoulli outcome.

    Args:
        temperature: The smaller, the nearer to 0 and 1.
        probs: The probability of 1.
        logits: Its log-odds, instead.
        validate_args: Whether parameters are checked.
    """

    arg_constraints: ClassVar[dict[str, Any]] = {"probs": constraints.unit_interval, "logits": constraints.real}
    has_rsample = True

    def __init__(
        self, temperature: Any, probs: Any = None, logits: Any = None, validate_args: bool | None = None
    ) -> None:  # fmt: skip
        self.temperature = temperature
        super().__init__(self._set(probs, logits).shape, validate_args=validate_args)

    def rsample(self, sample_shape: Any = ()) -> Any:
        """Values drawn, through which gradients flow."""
        shape = self._extended_shape(sample_shape)
        probs = clamp_probs(self.probs.expand(*shape))
        with context.no_grad():
            u = clamp_probs(fresh(probs, shape).uniform_())
        return (u.log() - (-u).log1p() + probs.log() - (-probs).log1p()) / self.temperature

    def log_prob(self, value: Any) -> Any:
        """The logarithm of the density at a value."""
        logits, value = broadcast_all(self.logits, value)
        moved = logits - value * self.temperature
        return math.log(self.temperature) + moved - 2 * moved.exp().log1p()


class RelaxedBernoulli(TransformedDistribution):
    """A Bernoulli outcome that is relaxed to numbers between 0 and 1, so that gradients flow through it.

    Args:
        temperature: The smaller, the nearer to 0 and 1.
        probs: The probability of 1.
        logits: Its log-odds, instead.
        validate_args: Whether parameters are checked.
    """

    def __init__(
        self, temperature: Any, probs: Any = None, logits: Any = None, validate_args: bool | None = None
    ) -> None:  # fmt: skip
        base = LogitRelaxedBernoulli(temperature, probs, logits, validate_args)
        super().__init__(base, SigmoidTransform(), validate_args)

    temperature = property(lambda self: self.base_dist.temperature)
    probs = property(lambda self: self.base_dist.probs)
    logits = property(lambda self: self.base_dist.logits)


class ExpRelaxedCategorical(LogitsOrProbs):
    """The logarithms of a relaxed categorical outcome.

    Args:
        temperature: The smaller, the nearer to one-hot.
        probs: The probabilities.
        logits: Their logarithms, instead.
        validate_args: Whether parameters are checked.
    """

    arg_constraints: ClassVar[dict[str, Any]] = {"probs": constraints.simplex, "logits": constraints.real_vector}
    has_rsample = True
    is_binary = False

    def __init__(
        self, temperature: Any, probs: Any = None, logits: Any = None, validate_args: bool | None = None
    ) -> None:  # fmt: skip
        self.temperature = temperature
        parameter = self._set(probs, logits)
        super().__init__(parameter.shape[:-1], parameter.shape[-1:], validate_args)

    def rsample(self, sample_shape: Any = ()) -> Any:
        """Values drawn, through which gradients flow."""
        shape = self._extended_shape(sample_shape)
        with context.no_grad():
            gumbels = -(-clamp_probs(fresh(self.logits, shape).uniform_()).log()).log()
        scores = (self.logits + gumbels) / self.temperature
        return scores - scores.logsumexp(-1, keepdim=True)

    def log_prob(self, value: Any) -> Any:
        """The logarithm of the density at a value."""
        count = self._event_shape[-1]
        logits, value = broadcast_all(self.logits, value)
        score = logits - value * self.temperature
        score = (score - score.logsumexp(-1, keepdim=True)).sum(-1)
        return score + math.lgamma(count) + (count - 1) * math.log(self.temperature)


class RelaxedOneHotCategorical(TransformedDistribution):
    """A one-hot outcome that is relaxed to probabilities, so that gradients flow through it.

    Args:
        temperature: The smaller, the nearer to one-hot.
        probs: The probabilities.
        logits: Their logarithms, instead.
        validate_args: Whether parameters are checked.
    """

    def __init__(
        self, temperature: Any, probs: Any = None, logits: Any = None, validate_args: bool | None = None
    ) -> None:  # fmt: skip
        base = ExpRelaxedCategorical(temperature, probs, logits, validate_args)
        super().__init__(base, ExpTransform(), validate_args)

    temperature = property(lambda self: self.base_dist.temperature)
    probs = property(lambda self: self.base_dist.probs)
    logits = property(lambda self: self.base_dist.logits)


__all__ = [
    "ExpRelaxedCategorical", "Independent", "LogNormal", "LogitRelaxedBernoulli", "MixtureSameFamily",
    "RelaxedBernoulli", "RelaxedOneHotCategorical", "TransformedDistribution",
]  # fmt: skip
