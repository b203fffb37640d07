"""Distributions of real numbers."""

from __future__ import annotations

import math
from typing import Any, ClassVar

from jit.eager import context
from jit.eager.namespace import F
from jit.ir.errors import UsageError
from jit.library.limits import finfo

from . import constraints
from .constraints import Constraint
from .distribution import Distribution, ExponentialFamily, broadcast_all, fresh

_EULER = 0.57721566490153286


class LocScale(Distribution):
    """A distribution that is moved and scaled.

    Args:
        loc: What is added.
        scale: What is multiplied with.
        validate_args: Whether parameters and values are checked.
    """

    arg_constraints: ClassVar[dict[str, Constraint]] = {"loc": constraints.real, "scale": constraints.positive}
    support = constraints.real
    has_rsample = True

    def __init__(self, loc: Any, scale: Any, validate_args: bool | None = None) -> None:
        self.loc, self.scale = broadcast_all(loc, scale)
        super().__init__(self.loc.shape, validate_args=validate_args)

    @property
    def mean(self) -> Any:
        """The mean."""
        return self.loc

    @property
    def mode(self) -> Any:
        """The most likely value."""
        return self.loc

    def _standard(self, shape: Any) -> Any:
        """Draws that are neither moved nor scaled."""
        raise NotImplementedError

    def rsample(self, sample_shape: Any = ()) -> Any:
        """Values drawn, through which gradients flow to the parameters."""
        with context.no_grad():
            drawn = self._standard(self._extended_shape(sample_shape))
        return self.loc + self.scale * drawn


class Normal(LocScale, ExponentialFamily):
    """The normal distribution of a mean and a standard deviation.

    >>> import jit
    >>> from jit.distributions import Normal
    >>> round(Normal(0.0, 1.0).log_prob(jit.tensor(0.0)).item(), 4)
    -0.9189
    """

    @property
    def variance(self) -> Any:
        """The variance."""
        return self.scale.pow(2)

    @property
    def stddev(self) -> Any:
        """The standard deviation."""
        return self.scale

    def _standard(self, shape: Any) -> Any:
        return fresh(self.loc, shape).normal_()

    def log_prob(self, value: Any) -> Any:
        """The logarithm of the density at a value."""
        self._validate_sample(value)
        return -((value - self.loc) ** 2) / (2 * self.variance) - self.scale.log() - math.log(math.sqrt(2 * math.pi))

    def cdf(self, value: Any) -> Any:
        """The probability of what is not above a value."""
        self._validate_sample(value)
        return 0.5 * (1 + F.erf((value - self.loc) * self.scale.reciprocal() / math.sqrt(2)))

    def icdf(self, value: Any) -> Any:
        """The value that draws are not above with a given probability."""
        return self.loc + self.scale * F.erfinv(2 * value - 1) * math.sqrt(2)

    def entropy(self) -> Any:
        """The entropy, in nats."""
        return 0.5 + 0.5 * math.log(2 * math.pi) + self.scale.log()


class Laplace(LocScale):
    """The Laplace distribution."""

    @property
    def variance(self) -> Any:
        """The variance."""
        return 2 * self.scale.pow(2)

    @property
    def stddev(self) -> Any:
        """The standard deviation."""
        return math.sqrt(2) * self.scale

    def _standard(self, shape: Any) -> Any:
        u = fresh(self.loc, shape).uniform_(finfo(self.loc.dtype).eps - 1, 1)
        return -u.sign() * F.log1p(-u.abs())

    def log_prob(self, value: Any) -> Any:
        """The logarithm of the density at a value."""
        self._validate_sample(value)
        return -(2 * self.scale).log() - (value - self.loc).abs() / self.scale

    def cdf(self, value: Any) -> Any:
        """The probability of what is not above a value."""
        moved = value - self.loc
        return 0.5 - 0.5 * moved.sign() * F.expm1(-moved.abs() / self.scale)

    def icdf(self, value: Any) -> Any:
        """The value that draws are not above with a given probability."""
        term = value - 0.5
        return self.loc - self.scale * term.sign() * F.log1p(-2 * term.abs())

    def entropy(self) -> Any:
        """The entropy, in nats."""
        return 1 + (2 * self.scale).log()


class Cauchy(LocScale):
    """The Cauchy distribution, which has neither mean nor variance."""

    @property
    def mean(self) -> Any:
        """NaN."""
        return F.full_like(self.loc, math.nan)

    @property
    def variance(self) -> Any:
        """Infinity."""
        return F.full_like(self.loc, math.inf)

    def _standard(self, shape: Any) -> Any:
        return fresh(self.loc, shape).cauchy_()

    def log_prob(self, value: Any) -> Any:
        """The logarithm of the density at a value."""
        self._validate_sample(value)
        return -math.log(math.pi) - self.scale.log() - (((value - self.loc) / self.scale) ** 2).log1p()

    def cdf(self, value: Any) -> Any:
        """The probability of what is not above a value."""
        return F.atan((value - self.loc) / self.scale) / math.pi + 0.5

    def entropy(self) -> Any:
        """The entropy, in nats."""
        return math.log(4 * math.pi) + self.scale.log()


class Gumbel(LocScale):
    """The Gumbel distribution, that of the largest of many draws."""

    def _standard(self, shape: Any) -> Any:
        limits = finfo(self.loc.dtype)
        u = limits.tiny + fresh(self.loc, shape).uniform_() * (1 - limits.eps - limits.tiny)
        return -(-u.log()).log()

    @property
    def mean(self) -> Any:
        """The mean."""
        return self.loc + self.scale * _EULER

    @property
    def variance(self) -> Any:
        """The variance."""
        return (math.pi / math.sqrt(6) * self.scale) ** 2

    def log_prob(self, value: Any) -> Any:
        """The logarithm of the density at a value."""
        self._validate_sample(value)
        y = (self.loc - value) / self.scale
        return y - y.exp() - self.scale.log()

    def entropy(self) -> Any:
        """The entropy, in nats."""
        return self.scale.log() + (1 + _EULER)


class Uniform(Distribution):
    """The uniform distribution between two numbers.

    Args:
        low: The lower bound.
        high: The upper bound.
        validate_args: Whether parameters and values are checked.
    """

    arg_constraints: ClassVar[dict[str, Constraint]] = {"low": constraints.real, "high": constraints.real}
    has_rsample = True

    def __init__(self, low: Any, high: Any, validate_args: bool | None = None) -> None:
        self.low, self.high = broadcast_all(low, high)
        super().__init__(self.low.shape, validate_args=validate_args)
        if self._checks and context.TRACE.get() is None and not bool((self.low < self.high).all()):
            raise UsageError("Uniform: low is not below high everywhere; exchange them")

    @property
    def support(self) -> Any:
        """The numbers between the bounds."""
        return constraints.interval(self.low, self.high)

    @property
    def mean(self) -> Any:
        """The mean."""
        return (self.high + self.low) / 2

    @property
    def variance(self) -> Any:
        """The variance."""
        return (self.high - self.low).pow(2) / 12

    def rsample(self, sample_shape: Any = ()) -> Any:
        """Values drawn, through which gradients flow to the parameters."""
        with context.no_grad():
            drawn = fresh(self.low, self._extended_shape(sample_shape)).uniform_()
        return self.low + drawn * (self.high - self.low)

    def log_prob(self, value: Any) -> Any:
        """The logarithm of the density at a value."""
        self._validate_sample(value)
        inside = ((self.low <= value) & (value < self.high)).to(self.low.dtype)
        return inside.log() - (self.high - self.low).log()

    def cdf(self, value: Any) -> Any:
        """The probability of what is not above a value."""
        return ((value - self.low) / (self.high - self.low)).clamp(0, 1)

    def icdf(self, value: Any) -> Any:
        """The value that draws are not above with a given probability."""
        return value * (self.high - self.low) + self.low

    def entropy(self) -> Any:
        """The entropy, in nats."""
        return (self.high - self.low).log()


class Exponential(ExponentialFamily):
    """The exponential distribution.

    Args:
        rate: The inverse of the mean.
        validate_args: Whether parameters and values are checked.
    """

    arg_constraints: ClassVar[dict[str, Constraint]] = {"rate": constraints.positive}
    support = constraints.nonnegative
    has_rsample = True

    def __init__(self, rate: Any, validate_args: bool | None = None) -> None:
        (self.rate,) = broadcast_all(rate)
        super().__init__(self.rate.shape, validate_args=validate_args)

    @property
    def mean(self) -> Any:
        """The mean."""
        return self.rate.reciprocal()

    @property
    def variance(self) -> Any:
        """The variance."""
        return self.rate.pow(-2)

    def rsample(self, sample_shape: Any = ()) -> Any:
        """Values drawn, through which gradients flow to the parameter."""
        with context.no_grad():
            drawn = fresh(self.rate, self._extended_shape(sample_shape)).exponential_()
        return drawn / self.rate

    def log_prob(self, value: Any) -> Any:
        """The logarithm of the density at a value."""
        self._validate_sample(value)
        return self.rate.log() - self.rate * value

    def cdf(self, value: Any) -> Any:
        """The probability of what is not above a value."""
        return 1 - (-self.rate * value).exp()

    def icdf(self, value: Any) -> Any:
        """The value that draws are not above with a given probability."""
        return -F.log1p(-value) / self.rate

    def entropy(self) -> Any:
        """The entropy, in nats."""
        return 1.0 - self.rate.log()


class HalfNormal(Distribution):
    """The distribution of the magnitude of normal draws.

    Args:
        scale: The standard deviation of the normal draws.
        validate_args: Whether parameters and values are checked.
    """

    arg_constraints: ClassVar[dict[str, Constraint]] = {"scale": constraints.positive}
    support = constraints.nonnegative
    has_rsample = True

    def __init__(self, scale: Any, validate_args: bool | None = None) -> None:
        (self.scale,) = broadcast_all(scale)
        super().__init__(self.scale.shape, validate_args=validate_args)

    @property
    def mean(self) -> Any:
        """The mean."""
        return self.scale * math.sqrt(2 / math.pi)

    @property
    def variance(self) -> Any:
        """The variance."""
        return self.scale.pow(2) * (1 - 2 / math.pi)

    def rsample(self, sample_shape: Any = ()) -> Any:
        """Values drawn, through which gradients flow to the parameter."""
        with context.no_grad():
            drawn = fresh(self.scale, self._extended_shape(sample_shape)).normal_()
        return (self.scale * drawn).abs()

    def log_prob(self, value: Any) -> Any:
        """The logarithm of the density at a value."""
        self._validate_sample(value)
        normal = Normal(F.zeros_like(self.scale), self.scale, validate_args=False)
        return F.where(value >= 0, normal.log_prob(value) + math.log(2), -math.inf)

    def entropy(self) -> Any:
        """The entropy, in nats."""
        return 0.5 + 0.5 * math.log(2 * math.pi) + self.scale.log() - math.log(2)


__all__ = ["Cauchy", "Exponential", "Gumbel", "HalfNormal", "Laplace", "LocScale", "Normal", "Uniform"]
