"""Distributions made of gamma draws: Gamma, chi-squared, Beta, Dirichlet, Student's t, and Poisson."""

from __future__ import annotations

import math
from typing import Any, ClassVar

import numpy as np

from jit.eager import context
from jit.eager.creation import from_numpy
from jit.eager.namespace import F
from jit.ir.errors import UsageError

from . import constraints
from .constraints import Constraint
from .distribution import Distribution, ExponentialFamily, broadcast_all, fresh


def _generator() -> np.random.Generator:
    """A generator of numpy, seeded by the default one."""
    with context.no_grad():
        return np.random.default_rng(int(F.randint(0, 2**31 - 1, (1,)).item()))


def _drawn(draw: Any, like: Any, *parameters: Any) -> Any:
    """Draws of a generator of numpy as a tensor; their parameters get no gradient.

    Args:
        draw: The function of the generator and the parameters.
        like: A tensor of the dtype that the draws get.
        parameters: Tensors.
    """
    arrays = [np.asarray(each.detach().numpy(), np.float64) for each in parameters]
    return from_numpy(np.array(draw(_generator(), *arrays))).to(dtype=like.dtype, device=like.device)


def _refuse_gradient(name: str, *parameters: Any) -> None:
    if context.is_grad_enabled() and any(each.requires_grad for each in parameters):
        raise UsageError(
            f"{name}.rsample: gradients do not flow through its draws here; use sample(), or detach the parameters"
        )


class Gamma(ExponentialFamily):
    """The gamma distribution. Gradients do not flow through its draws.

    Args:
        concentration: The shape.
        rate: The inverse of the scale.
        validate_args: Whether parameters and values are checked.
    """

    arg_constraints: ClassVar[dict[str, Constraint]] = {
        "concentration": constraints.positive, "rate": constraints.positive,
    }  # fmt: skip
    support = constraints.nonnegative
    has_rsample = True

    def __init__(self, concentration: Any, rate: Any, validate_args: bool | None = None) -> None:
        self.concentration, self.rate = broadcast_all(concentration, rate)
        super().__init__(self.concentration.shape, validate_args=validate_args)

    @property
    def mean(self) -> Any:
        """The mean."""
        return self.concentration / self.rate

    @property
    def variance(self) -> Any:
        """The variance."""
        return self.concentration / self.rate.pow(2)

    def rsample(self, sample_shape: Any = ()) -> Any:
        """Values drawn; the concentration must not require a gradient."""
        _refuse_gradient("Gamma", self.concentration)
        shape = tuple(self._extended_shape(sample_shape))
        drawn = _drawn(lambda rng, a: rng.standard_gamma(a, shape), self.concentration, self.concentration)
        return drawn.clamp(min=1e-37) / self.rate

    def log_prob(self, value: Any) -> Any:
        """The logarithm of the density at a value."""
        self._validate_sample(value)
        power = F.xlogy(self.concentration, self.rate) + F.xlogy(self.concentration - 1, value)
        return power - self.rate * value - F.lgamma(self.concentration)

    def entropy(self) -> Any:
        """The entropy, in nats."""
        a = self.concentration
        return a - self.rate.log() + F.lgamma(a) + (1.0 - a) * F.digamma(a)


class Chi2(Gamma):
    """The chi-squared distribution.

    Args:
        df: The degrees of freedom.
        validate_args: Whether parameters and values are checked.
    """

    arg_constraints: ClassVar[dict[str, Constraint]] = {"df": constraints.positive}

    def __init__(self, df: Any, validate_args: bool | None = None) -> None:
        (self.df,) = broadcast_all(df)
        super().__init__(0.5 * self.df, 0.5, validate_args=validate_args)

    def expand(self, batch_shape: Any, _instance: Any = None) -> Any:
        """The distribution for a larger batch.

        Args:
            batch_shape: The sizes of the batch.
        """
        return Chi2(self.df.expand(*batch_shape), validate_args=self._checks)


class Dirichlet(ExponentialFamily):
    """The Dirichlet distribution of probabilities. Gradients do not flow through its draws.

    Args:
        concentration: The parameter, whose last dim is that of the probabilities.
        validate_args: Whether parameters and values are checked.
    """

    arg_constraints: ClassVar[dict[str, Constraint]] = {
        "concentration": constraints.independent(constraints.positive, 1)
    }  # fmt: skip
    support = constraints.simplex
    has_rsample = True

    def __init__(self, concentration: Any, validate_args: bool | None = None) -> None:
        if concentration.ndim < 1:
            raise UsageError("Dirichlet: concentration needs at least one dim")
        self.concentration = concentration
        super().__init__(concentration.shape[:-1], concentration.shape[-1:], validate_args)

    @property
    def mean(self) -> Any:
        """The mean."""
        return self.concentration / self.concentration.sum(-1, True)

    @property
    def variance(self) -> Any:
        """The variance."""
        total = self.concentration.sum(-1, True)
        return self.concentration * (total - self.concentration) / (total.pow(2) * (total + 1))

    def rsample(self, sample_shape: Any = ()) -> Any:
        """Values drawn; the concentration must not require a gradient."""
        _refuse_gradient(type(self).__name__, self.concentration)
        shape = tuple(self._extended_shape(sample_shape))
        drawn = _drawn(lambda rng, a: rng.standard_gamma(a, shape), self.concentration, self.concentration)
        return drawn / drawn.sum(-1, keepdim=True)

    def log_prob(self, value: Any) -> Any:
        """The logarithm of the density at a value."""
        self._validate_sample(value)
        a = self.concentration
        return F.xlogy(a - 1.0, value).sum(-1) + F.lgamma(a.sum(-1)) - F.lgamma(a).sum(-1)

    def entropy(self) -> Any:
        """The entropy, in nats."""
        a, k = self.concentration, self.concentration.size(-1)
        total = a.sum(-1)
        middle = F.lgamma(a).sum(-1) - F.lgamma(total) - (k - total) * F.digamma(total)
        return middle - ((a - 1.0) * F.digamma(a)).sum(-1)


class Beta(ExponentialFamily):
    """The beta distribution of a probability. Gradients do not flow through its draws.

    Args:
        concentration1: The first parameter.
        concentration0: The second.
        validate_args: Whether parameters and values are checked.
    """

    arg_constraints: ClassVar[dict[str, Constraint]] = {
        "concentration1": constraints.positive, "concentration0": constraints.positive,
    }  # fmt: skip
    support = constraints.unit_interval
    has_rsample = True

    def __init__(self, concentration1: Any, concentration0: Any, validate_args: bool | None = None) -> None:
        self.concentration1, self.concentration0 = broadcast_all(concentration1, concentration0)
        super().__init__(self.concentration1.shape, validate_args=validate_args)

    @property
    def _dirichlet(self) -> Dirichlet:
        return Dirichlet(F.stack([self.concentration1, self.concentration0], -1), validate_args=False)

    @property
    def mean(self) -> Any:
        """The mean."""
        return self.concentration1 / (self.concentration1 + self.concentration0)

    @property
    def variance(self) -> Any:
        """The variance."""
        total = self.concentration1 + self.concentration0
        return self.concentration1 * self.concentration0 / (total.pow(2) * (total + 1))

    def rsample(self, sample_shape: Any = ()) -> Any:
        """Values drawn; the parameters must not require a gradient."""
        _refuse_gradient("Beta", self.concentration1, self.concentration0)
        return self._dirichlet.rsample(sample_shape).select(-1, 0)

    def log_prob(self, value: Any) -> Any:
        """The logarithm of the density at a value."""
        self._validate_sample(value)
        return self._dirichlet.log_prob(F.stack([value, 1.0 - value], -1))

    def entropy(self) -> Any:
        """The entropy, in nats."""
        return self._dirichlet.entropy()


class StudentT(Distribution):
    """Student's t distribution.

    Args:
        df: The degrees of freedom.
        loc: What is added.
        scale: What is multiplied with.
        validate_args: Whether parameters and values are checked.
    """

    arg_constraints: ClassVar[dict[str, Constraint]] = {
        "df": constraints.positive, "loc": constraints.real, "scale": constraints.positive,
    }  # fmt: skip
    support = constraints.real
    has_rsample = True

    def __init__(self, df: Any, loc: Any = 0.0, scale: Any = 1.0, validate_args: bool | None = None) -> None:
        self.df, self.loc, self.scale = broadcast_all(df, loc, scale)
        super().__init__(self.df.shape, validate_args=validate_args)

    @property
    def mean(self) -> Any:
        """The mean; NaN where there is none."""
        return F.where(self.df > 1, self.loc, math.nan)

    @property
    def variance(self) -> Any:
        """The variance; infinite or NaN where there is none."""
        wide = F.where(self.df > 1, math.inf, math.nan)
        return F.where(self.df > 2, self.scale.pow(2) * self.df / (self.df - 2), wide)

    def rsample(self, sample_shape: Any = ()) -> Any:
        """Values drawn; the degrees of freedom must not require a gradient."""
        with context.no_grad():
            normal = fresh(self.df, self._extended_shape(sample_shape)).normal_()
        y = normal * F.rsqrt(Chi2(self.df, validate_args=False).rsample(sample_shape) / self.df)
        return self.loc + self.scale * y

    def log_prob(self, value: Any) -> Any:
        """The logarithm of the density at a value."""
        self._validate_sample(value)
        y = (value - self.loc) / self.scale
        norm = self.scale.log() + 0.5 * self.df.log() + 0.5 * math.log(math.pi)
        norm = norm + F.lgamma(0.5 * self.df) - F.lgamma(0.5 * (self.df + 1.0))
        return -0.5 * (self.df + 1.0) * F.log1p(y**2.0 / self.df) - norm


class Poisson(ExponentialFamily):
    """The Poisson distribution of counts.

    Args:
        rate: The mean.
        validate_args: Whether parameters and values are checked.
    """

    arg_constraints: ClassVar[dict[str, Constraint]] = {"rate": constraints.nonnegative}
    support = constraints.nonnegative_integer

    def __init__(self, rate: Any, validate_args: bool | None = None) -> None:
        (self.rate,) = broadcast_all(rate)
        super().__init__(self.rate.shape, validate_args=validate_args)

    @property
    def mean(self) -> Any:
        """The mean."""
        return self.rate

    @property
    def variance(self) -> Any:
        """The variance."""
        return self.rate

    def sample(self, sample_shape: Any = ()) -> Any:
        """Values drawn."""
        shape = tuple(self._extended_shape(sample_shape))
        return _drawn(lambda rng, rate: rng.poisson(rate, shape), self.rate, self.rate)

    def log_prob(self, value: Any) -> Any:
        """The logarithm of the probability of a value."""
        self._validate_sample(value)
        return F.xlogy(value, self.rate) - self.rate - F.lgamma(value + 1)


__all__ = ["Beta", "Chi2", "Dirichlet", "Gamma", "Poisson", "StudentT"]
