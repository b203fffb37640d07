"""Distributions of outcomes: Bernoulli, categorical, geometric, binomial, multinomial."""

from __future__ import annotations

from typing import Any, ClassVar

from jit.eager import context
from jit.eager.namespace import F
from jit.eager.tensors import Size
from jit.ir.geometry import broadcast_shapes
from jit.library.limits import finfo

from . import constraints
from .distribution import LogitsOrProbs, broadcast_all, clamp_probs, fresh


def _log_odds_loss(logits: Any, value: Any) -> Any:
    """The binary cross entropy of logits."""
    return F.softplus(logits) - logits * value


class Bernoulli(LogitsOrProbs):
    """The distribution of one outcome, 0 or 1.

    Args:
        probs: The probability of 1.
        logits: The log-odds of 1, instead.
        validate_args: Whether parameters and values are checked.
    """

    arg_constraints: ClassVar[dict[str, Any]] = {"probs": constraints.unit_interval, "logits": constraints.real}
    support = constraints.boolean
    has_enumerate_support = True

    def __init__(self, probs: Any = None, logits: Any = None, validate_args: bool | None = None) -> None:
        super().__init__(self._set(probs, logits).shape, validate_args=validate_args)

    @property
    def mean(self) -> Any:
        """The mean."""
        return self.probs

    @property
    def mode(self) -> Any:
        """The more likely outcome."""
        return (self.probs >= 0.5).to(self.probs.dtype)

    @property
    def variance(self) -> Any:
        """The variance."""
        return self.probs * (1 - self.probs)

    def sample(self, sample_shape: Any = ()) -> Any:
        """Outcomes drawn."""
        with context.no_grad():
            return self.probs.expand(*self._extended_shape(sample_shape)).bernoulli()

    def log_prob(self, value: Any) -> Any:
        """The logarithm of the probability of an outcome."""
        self._validate_sample(value)
        return -_log_odds_loss(*broadcast_all(self.logits, value))

    def entropy(self) -> Any:
        """The entropy, in nats."""
        return _log_odds_loss(self.logits, self.probs)

    def enumerate_support(self, expand: bool = True) -> Any:
        """All outcomes.

        Args:
            expand: Whether they are repeated for the whole batch.
        """
        values = F.arange(2, dtype=self._param.dtype).view(-1, *([1] * len(self._batch_shape)))
        return values.expand(-1, *self._batch_shape) if expand else values


class Categorical(LogitsOrProbs):
    """The distribution of one of several outcomes, which are numbered.

    Args:
        probs: The probabilities, along the last dim, or numbers that are proportional to them.
        logits: Their logarithms, instead, but for a constant.
        validate_args: Whether parameters and values are checked.

    >>> import jit
    >>> from jit.distributions import Categorical
    >>> round(Categorical(jit.tensor([1.0, 3.0])).log_prob(jit.tensor(1)).exp().item(), 4)
    0.75
    """

    arg_constraints: ClassVar[dict[str, Any]] = {"probs": constraints.simplex, "logits": constraints.real_vector}
    has_enumerate_support = True
    is_binary = False

    def __init__(self, probs: Any = None, logits: Any = None, validate_args: bool | None = None) -> None:
        parameter = self._set(probs, logits)
        self._num_events = parameter.size(-1)
        super().__init__(parameter.shape[:-1], validate_args=validate_args)

    @property
    def support(self) -> Any:  # type: ignore[override]
        """The numbers of the outcomes."""
        return constraints.integer_interval(0, self._num_events - 1)

    @property
    def mean(self) -> Any:
        """NaN: outcomes are no quantities."""
        return F.full(list(self._extended_shape()), float("nan"), dtype=self.probs.dtype)

    @property
    def variance(self) -> Any:
        """NaN: outcomes are no quantities."""
        return self.mean

    @property
    def mode(self) -> Any:
        """The most likely outcome."""
        return self.probs.argmax(-1)

    def sample(self, sample_shape: Any = ()) -> Any:
        """Outcomes drawn."""
        count = Size(sample_shape).numel()
        with context.no_grad():
            drawn = self.probs.reshape(-1, self._num_events).multinomial(count, True).T
        return drawn.reshape(self._extended_shape(sample_shape))

    def log_prob(self, value: Any) -> Any:
        """The logarithm of the probability of an outcome."""
        self._validate_sample(value)
        index = value.long().unsqueeze(-1)
        shape = broadcast_shapes(tuple(index.shape[:-1]), tuple(self.logits.shape[:-1]))
        logits, index = self.logits.expand(*shape, self._num_events), index.expand(*shape, 1)
        return logits.gather(-1, index).squeeze(-1)

    def entropy(self) -> Any:
        """The entropy, in nats."""
        logits = self.logits.clamp(min=finfo(self.logits.dtype).min)
        return -(logits * self.probs).sum(-1)

    def enumerate_support(self, expand: bool = True) -> Any:
        """All outcomes.

        Args:
            expand: Whether they are repeated for the whole batch.
        """
        values = F.arange(self._num_events).view(-1, *([1] * len(self._batch_shape)))
        return values.expand(-1, *self._batch_shape) if expand else values


class OneHotCategorical(LogitsOrProbs):
    """The distribution of one of several outcomes, as vectors with a single 1.

    Args:
        probs: The probabilities, along the last dim.
        logits: Their logarithms, instead.
        validate_args: Whether parameters and values are checked.
    """

    arg_constraints: ClassVar[dict[str, Any]] = {"probs": constraints.simplex, "logits": constraints.real_vector}
    support = constraints.one_hot
    is_binary = False

    def __init__(self, probs: Any = None, logits: Any = None, validate_args: bool | None = None) -> None:
        parameter = self._set(probs, logits)
        super().__init__(parameter.shape[:-1], parameter.shape[-1:], validate_args)

    @property
    def _categorical(self) -> Categorical:
        return Categorical(logits=self.logits, validate_args=False)

    @property
    def mean(self) -> Any:
        """The probabilities."""
        return self.probs

    @property
    def variance(self) -> Any:
        """The variance of each element."""
        return self.probs * (1 - self.probs)

    def sample(self, sample_shape: Any = ()) -> Any:
        """Outcomes drawn."""
        with context.no_grad():
            drawn = Categorical(probs=self.probs, validate_args=False).sample(sample_shape)
        return F.one_hot(drawn, self._event_shape[-1]).to(self._param.dtype)

    def log_prob(self, value: Any) -> Any:
        """The logarithm of the probability of an outcome."""
        self._validate_sample(value)
        return self._categorical.log_prob(value.max(-1)[1])

    def entropy(self) -> Any:
        """The entropy, in nats."""
        return self._categorical.entropy()


class OneHotCategoricalStraightThrough(OneHotCategorical):
    """One-hot outcomes through whose draws gradients flow as if they were the probabilities."""

    has_rsample = True

    def rsample(self, sample_shape: Any = ()) -> Any:
        """Outcomes drawn, with the gradient of the probabilities."""
        return self.sample(sample_shape) + (self.probs - self.probs.detach())


class Geometric(LogitsOrProbs):
    """The distribution of the number of failures before a success.

    Args:
        probs: The probability of a success.
        logits: Its log-odds, instead.
        validate_args: Whether parameters and values are checked.
    """

    arg_constraints: ClassVar[dict[str, Any]] = {"probs": constraints.unit_interval, "logits": constraints.real}
    support = constraints.nonnegative_integer

    def __init__(self, probs: Any = None, logits: Any = None, validate_args: bool | None = None) -> None:
        super().__init__(self._set(probs, logits).shape, validate_args=validate_args)

    @property
    def mean(self) -> Any:
        """The mean."""
        return 1.0 / self.probs - 1.0

    @property
    def variance(self) -> Any:
        """The variance."""
        return (1.0 / self.probs - 1.0) / self.probs

    def sample(self, sample_shape: Any = ()) -> Any:
        """Counts drawn."""
        with context.no_grad():
            u = fresh(self.probs, self._extended_shape(sample_shape)).uniform_(finfo(self.probs.dtype).tiny, 1)
            return (u.log() / (-self.probs).log1p()).floor()

    def log_prob(self, value: Any) -> Any:
        """The logarithm of the probability of a count."""
        self._validate_sample(value)
        value, probs = broadcast_all(value, self.probs)
        return F.xlogy(value, 1 - probs) + probs.log()

    def entropy(self) -> Any:
        """The entropy, in nats."""
        return _log_odds_loss(self.logits, self.probs) / self.probs


class Binomial(LogitsOrProbs):
    """The distribution of the number of successes.

    Args:
        total_count: The number of trials.
        probs: The probability of a success.
        logits: Its log-odds, instead.
        validate_args: Whether parameters and values are checked.
    """

    arg_constraints: ClassVar[dict[str, Any]] = {"probs": constraints.unit_interval, "logits": constraints.real}

    def __init__(
        self, total_count: Any = 1, probs: Any = None, logits: Any = None, validate_args: bool | None = None
    ) -> None:  # fmt: skip
        parameter = self._set(probs, logits)
        self.total_count, _ = broadcast_all(total_count, parameter)
        super().__init__(self.total_count.shape, validate_args=validate_args)

    @property
    def support(self) -> Any:  # type: ignore[override]
        """The numbers of successes."""
        return constraints.integer_interval(0, self.total_count)

    @property
    def mean(self) -> Any:
        """The mean."""
        return self.total_count * self.probs

    @property
    def variance(self) -> Any:
        """The variance."""
        return self.total_count * self.probs * (1 - self.probs)

    def sample(self, sample_shape: Any = ()) -> Any:
        """Counts drawn."""
        from .gammas import _drawn

        shape = tuple(self._extended_shape(sample_shape))
        return _drawn(lambda rng, n, p: rng.binomial(n.astype(int), p, shape), self.probs, self.total_count, self.probs)

    def log_prob(self, value: Any) -> Any:
        """The logarithm of the probability of a count."""
        self._validate_sample(value)
        n, probs = self.total_count, clamp_probs(self.probs)
        ways = F.lgamma(n + 1) - F.lgamma(value + 1) - F.lgamma(n - value + 1)
        return ways + F.xlogy(value, probs) + F.xlogy(n - value, 1 - probs)


class Multinomial(LogitsOrProbs):
    """The distribution of how often each outcome comes up.

    Args:
        total_count: The number of trials.
        probs: The probabilities of the outcomes.
        logits: Their logarithms, instead.
        validate_args: Whether parameters and values are checked.
    """

    arg_constraints: ClassVar[dict[str, Any]] = {"probs": constraints.simplex, "logits": constraints.real_vector}
    is_binary = False

    def __init__(
        self, total_count: int = 1, probs: Any = None, logits: Any = None, validate_args: bool | None = None
    ) -> None:  # fmt: skip
        parameter = self._set(probs, logits)
        self.total_count = total_count
        super().__init__(parameter.shape[:-1], parameter.shape[-1:], validate_args)

    @property
    def mean(self) -> Any:
        """The mean."""
        return self.probs * self.total_count

    @property
    def variance(self) -> Any:
        """The variance."""
        return self.total_count * self.probs * (1 - self.probs)

    def sample(self, sample_shape: Any = ()) -> Any:
        """Counts drawn."""
        chosen = Categorical(probs=self.probs, validate_args=False).sample((self.total_count, *sample_shape))
        return F.one_hot(chosen, self._event_shape[-1]).sum(0).to(self._param.dtype)

    def log_prob(self, value: Any) -> Any:
        """The logarithm of the probability of counts."""
        self._validate_sample(value)
        logits, value = broadcast_all(self.logits, value)
        logits = F.where((value == 0) & (logits == -float("inf")), 0.0, logits)
        return F.lgamma(value.sum(-1) + 1) - F.lgamma(value + 1).sum(-1) + (logits * value).sum(-1)


__all__ = [
    "Bernoulli", "Binomial", "Categorical", "Geometric", "Multinomial", "OneHotCategorical",
    "OneHotCategoricalStraightThrough",
]  # fmt: skip
