"""`kl_divergence`, and the pairs of distributions for which there is a formula."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable
from typing import Any

from jit.eager.namespace import F
from jit.ir.errors import UnwrittenError, UsageError

from .bernoulli import Bernoulli
from .beta import Beta
from .binomial import Binomial
from .categorical import Categorical
from .cauchy import Cauchy
from .continuous_bernoulli import ContinuousBernoulli
from .dirichlet import Dirichlet
from .distribution import Distribution
from .exponential import Exponential
from .gamma import Gamma
from .geometric import Geometric
from .gumbel import Gumbel
from .half_normal import HalfNormal
from .independent import Independent, sum_rightmost
from .laplace import Laplace
from .lowrank_multivariate_normal import LowRankMultivariateNormal
from .multivariate_normal import MultivariateNormal, log_diagonal, squared_distance
from .normal import Normal
from .one_hot_categorical import OneHotCategorical
from .pareto import Pareto
from .poisson import Poisson
from .transformed_distribution import TransformedDistribution
from .uniform import Uniform
from .utils import euler_constant

Formula = Callable[[Any, Any], Any]
_FORMULAS: dict[tuple[type, type], Formula] = {}


def register_kl(type_p: type, type_q: type) -> Callable[[Formula], Formula]:
    """The decorator of the function `f(p, q)` that gives the divergence of distributions of two classes.

    Args:
        type_p: The class of the first.
        type_q: The class of the second.

    Raises:
        UsageError: They are no classes of distributions.
    """
    for kind in (type_p, type_q):
        if not (isinstance(kind, type) and issubclass(kind, Distribution)):
            raise UsageError(f"register_kl takes classes of distributions, got {kind}")

    def register(formula: Formula) -> Formula:
        _FORMULAS[type_p, type_q] = formula
        return formula

    return register


def kl_divergence(p: Distribution, q: Distribution) -> Any:
    """The mean, over what `p` draws, of the logarithm of its density over that of `q`.

    Args:
        p: The first distribution.
        q: The second.

    Raises:
        UnwrittenError: There is no formula for them.

    >>> import jit
    >>> from jit.distributions import Normal, kl_divergence
    >>> kl_divergence(Normal(0.0, 1.0), Normal(1.0, 1.0)).item()
    0.5
    """
    fitting = [
        (type(p).__mro__.index(a), type(q).__mro__.index(b), formula)
        for (a, b), formula in _FORMULAS.items()
        if isinstance(p, a) and isinstance(q, b)
    ]
    if not fitting:
        raise UnwrittenError(
            f"No KL(p || q) is implemented for p type {type(p).__name__} and q type {type(q).__name__}; register_kl "
            "takes a formula, and (p.log_prob(x) - q.log_prob(x)).mean() over samples of p estimates it"
        )
    return min(fitting, key=lambda found: found[:2])[2](p, q)


def _register_all(firsts: Iterable[type], seconds: Iterable[type], formula: Formula) -> None:
    for first in firsts:
        for second in seconds:
            register_kl(first, second)(formula)


def _where_infinite(condition: Any, value: Any) -> Any:
    return F.where(condition, math.inf, value)


@register_kl(Normal, Normal)
def _(p: Any, q: Any) -> Any:
    ratio = F.square(p.scale / q.scale)
    return (ratio + F.square((p.loc - q.loc) / q.scale) - 1 - F.log(ratio)) / 2


@register_kl(HalfNormal, HalfNormal)
def _(p: Any, q: Any) -> Any:
    return kl_divergence(p.base_dist, q.base_dist)


@register_kl(Laplace, Laplace)
def _(p: Any, q: Any) -> Any:
    ratio, distance = p.scale / q.scale, F.abs(p.loc - q.loc)
    return -F.log(ratio) + distance / q.scale + ratio * F.exp(-distance / p.scale) - 1


@register_kl(Cauchy, Cauchy)
def _(p: Any, q: Any) -> Any:
    above = F.square(p.scale + q.scale) + F.square(p.loc - q.loc)
    return F.log(above) - F.log(4 * p.scale * q.scale)


@register_kl(Gumbel, Gumbel)
def _(p: Any, q: Any) -> Any:
    ratio, shift = p.scale / q.scale, (q.loc - p.loc) / q.scale
    return -F.log(ratio) - shift + euler_constant * (ratio - 1) + F.exp(shift + F.lgamma(1 + ratio)) - 1


@register_kl(Exponential, Exponential)
def _(p: Any, q: Any) -> Any:
    ratio = q.rate / p.rate
    return -F.log(ratio) + ratio - 1


@register_kl(Gamma, Gamma)
def _(p: Any, q: Any) -> Any:
    gap = F.lgamma(q.concentration) - F.lgamma(p.concentration)
    shapes = (p.concentration - q.concentration) * F.digamma(p.concentration)
    rates = (q.rate - p.rate) * p.concentration / p.rate
    return q.concentration * F.log(p.rate / q.rate) + gap + shapes + rates


@register_kl(Beta, Beta)
def _(p: Any, q: Any) -> Any:
    return kl_divergence(p._dirichlet, q._dirichlet)


@register_kl(Dirichlet, Dirichlet)
def _(p: Any, q: Any) -> Any:
    a, b = p.concentration, q.concentration
    total = F.sum(a, -1)
    constant = F.lgamma(total) - F.lgamma(F.sum(b, -1)) - F.sum(F.lgamma(a) - F.lgamma(b), -1)
    return constant + F.sum((a - b) * (F.digamma(a) - F.unsqueeze(F.digamma(total), -1)), -1)


@register_kl(Bernoulli, Bernoulli)
def _(p: Any, q: Any) -> Any:
    ones = _times_log(p.probs, F.log_sigmoid(p.logits) - F.log_sigmoid(q.logits))
    zeros = _times_log(1 - p.probs, F.log_sigmoid(-p.logits) - F.log_sigmoid(-q.logits))
    impossible = (F.eq(q.probs, 0) & F.gt(p.probs, 0)) | (F.eq(q.probs, 1) & F.lt(p.probs, 1))
    return _where_infinite(impossible, ones + zeros)


def _times_log(weight: Any, logarithm: Any) -> Any:
    return F.where(F.eq(weight, 0), 0.0, weight * logarithm)


@register_kl(Categorical, Categorical)
def _(p: Any, q: Any) -> Any:
    terms = _times_log(p.probs, p.logits - q.logits)
    return F.sum(_where_infinite(F.eq(q.probs, 0) & F.gt(p.probs, 0), terms), -1)


@register_kl(OneHotCategorical, OneHotCategorical)
def _(p: Any, q: Any) -> Any:
    return kl_divergence(p._categorical, q._categorical)


@register_kl(Binomial, Binomial)
def _(p: Any, q: Any) -> Any:
    if bool(F.any(F.lt(p.total_count, q.total_count))):
        raise UnwrittenError("the divergence of binomial distributions where q has more trials has no closed form")
    each = kl_divergence(
        Bernoulli(logits=p.logits, validate_args=False), Bernoulli(logits=q.logits, validate_args=False)
    )
    return _where_infinite(F.gt(p.total_count, q.total_count), p.total_count * each)


@register_kl(Geometric, Geometric)
def _(p: Any, q: Any) -> Any:
    return -p.entropy() - F.log1p(-q.probs) / p.probs - q.logits


@register_kl(Poisson, Poisson)
def _(p: Any, q: Any) -> Any:
    return F.xlogy(p.rate, p.rate / q.rate) - (p.rate - q.rate)


@register_kl(ContinuousBernoulli, ContinuousBernoulli)
def _(p: Any, q: Any) -> Any:
    zeros = F.log1p(-p.probs) - F.log1p(-q.probs)
    return p.mean * (p.logits - q.logits) + p._log_constant - q._log_constant + zeros


@register_kl(Uniform, Uniform)
def _(p: Any, q: Any) -> Any:
    outside = F.gt(q.low, p.low) | F.lt(q.high, p.high)
    return _where_infinite(outside, F.log((q.high - q.low) / (p.high - p.low)))


@register_kl(Pareto, Pareto)
def _(p: Any, q: Any) -> Any:
    ratio, scales = q.alpha / p.alpha, p.scale / q.scale
    return _where_infinite(F.lt(p.scale, q.scale), q.alpha * F.log(scales) - F.log(ratio) + ratio - 1)


def _normals(p: Any, q: Any) -> Any:
    """The divergence of normal distributions of vectors, by Cholesky factors."""
    mine, other = p.scale_tril, q.scale_tril
    batch = F.zeros(p.batch_shape) + F.zeros(q.batch_shape)
    sizes = [*batch.shape, *p.event_shape, *p.event_shape]
    solved = F.linalg_solve_triangular(other.expand(sizes), mine.expand(sizes), upper=False)
    traces = F.sum(F.square(solved), [-2, -1])
    distance = squared_distance(other, q.loc - p.loc)
    return log_diagonal(other) - log_diagonal(mine) + (traces + distance - p.event_shape[0]) / 2


_register_all(
    (MultivariateNormal, LowRankMultivariateNormal), (MultivariateNormal, LowRankMultivariateNormal), _normals
)


@register_kl(Independent, Independent)
def _(p: Any, q: Any) -> Any:
    if p.reinterpreted_batch_ndims != q.reinterpreted_batch_ndims:
        raise UnwrittenError("the divergence of Independent distributions needs the same number of dims in both")
    return sum_rightmost(kl_divergence(p.base_dist, q.base_dist), p.reinterpreted_batch_ndims)


@register_kl(TransformedDistribution, TransformedDistribution)
def _(p: Any, q: Any) -> Any:
    if p.transforms != q.transforms or p.event_shape != q.event_shape:
        raise UnwrittenError("the divergence of transformed distributions needs the same transforms in both")
    return kl_divergence(p.base_dist, q.base_dist)


# -- of different classes ----------------------------------------------------------------------------------------
# The divergence is the entropy of p, negative, less the mean of the logarithm of the density of q.


def _with_normal(p: Any, q: Any) -> Any:
    spread = (p.variance + F.square(p.mean - q.loc)) / (2 * F.square(q.scale))
    return -p.entropy() + F.log(q.scale) + math.log(2 * math.pi) / 2 + spread


def _with_exponential(p: Any, q: Any) -> Any:
    return -p.entropy() - F.log(q.rate) + q.rate * p.mean


_register_all(
    (Exponential, Gamma, Beta, Uniform, Laplace, Gumbel, ContinuousBernoulli, Pareto), (Normal,), _with_normal
)
_register_all((Gamma, Beta, ContinuousBernoulli, Pareto), (Exponential,), _with_exponential)


@register_kl(Uniform, Exponential)
def _(p: Any, q: Any) -> Any:
    return _where_infinite(F.lt(p.low, 0), _with_exponential(p, q))


def _mean_log(p: Any) -> Any:
    """The mean of the logarithm of what a positive distribution draws."""
    if isinstance(p, Exponential):
        return -euler_constant - F.log(p.rate)
    if isinstance(p, Pareto):
        return F.log(p.scale) + 1 / p.alpha
    if isinstance(p, Beta):
        return F.digamma(p.concentration1) - F.digamma(p.concentration1 + p.concentration0)
    return (F.xlogy(p.high, p.high) - F.xlogy(p.low, p.low)) / (p.high - p.low) - 1


def _with_gamma(p: Any, q: Any) -> Any:
    a = q.concentration
    return -p.entropy() + F.lgamma(a) - a * F.log(q.rate) - (a - 1) * _mean_log(p) + q.rate * p.mean


_register_all((Exponential, Beta, Pareto), (Gamma,), _with_gamma)


@register_kl(Uniform, Gamma)
def _(p: Any, q: Any) -> Any:
    return _where_infinite(F.lt(p.low, 0), _with_gamma(p, q))


@register_kl(Uniform, Pareto)
def _(p: Any, q: Any) -> Any:
    powers = F.log(q.alpha) + q.alpha * F.log(q.scale) - (q.alpha + 1) * _mean_log(p)
    return _where_infinite(F.lt(p.low, q.scale), -p.entropy() - powers)


@register_kl(Uniform, Beta)
def _(p: Any, q: Any) -> Any:
    a, b = q.concentration1, q.concentration0
    mirrored = Uniform(1 - p.high, 1 - p.low, validate_args=False)
    constant = F.lgamma(a) + F.lgamma(b) - F.lgamma(a + b)
    found = -p.entropy() + constant - (a - 1) * _mean_log(p) - (b - 1) * _mean_log(mirrored)
    return _where_infinite(F.lt(p.low, 0) | F.gt(p.high, 1), found)


def _on_unit_interval(p: Any, q: Any) -> Any:
    return _where_infinite(F.gt(q.low, 0) | F.lt(q.high, 1), -p.entropy() + F.log(q.high - q.low))


register_kl(Beta, Uniform)(_on_unit_interval)
register_kl(ContinuousBernoulli, Uniform)(_on_unit_interval)


@register_kl(Beta, ContinuousBernoulli)
def _(p: Any, q: Any) -> Any:
    return -p.entropy() - p.mean * q.logits - F.log1p(-q.probs) - q._log_constant


@register_kl(Uniform, ContinuousBernoulli)
def _(p: Any, q: Any) -> Any:
    found = -p.entropy() - p.mean * q.logits - F.log1p(-q.probs) - q._log_constant
    return _where_infinite(F.lt(p.low, 0) | F.gt(p.high, 1), found)


def _mean_decay(p: Any, rate: Any) -> Any:
    """The mean of exp(-rate * x) over what a distribution draws."""
    if isinstance(p, Normal):
        return F.exp(F.square(rate * p.scale) / 2 - rate * p.loc)
    if isinstance(p, Uniform):
        return (F.exp(-rate * p.low) - F.exp(-rate * p.high)) / (rate * (p.high - p.low))
    shape = p.concentration if isinstance(p, Gamma) else 1
    return F.pow(p.rate / (p.rate + rate), shape)


def _with_gumbel(p: Any, q: Any) -> Any:
    rate = F.reciprocal(q.scale)
    tail = F.exp(q.loc * rate) * _mean_decay(p, rate)
    return -p.entropy() + (p.mean - q.loc) * rate + tail + F.log(q.scale)


_register_all((Normal, Uniform, Exponential, Gamma), (Gumbel,), _with_gumbel)


@register_kl(Normal, Laplace)
def _(p: Any, q: Any) -> Any:
    distance, wide = p.loc - q.loc, math.sqrt(2) * p.scale
    near = F.exp(-F.square(distance / wide)) * p.scale * math.sqrt(2 / math.pi)
    return -p.entropy() + F.log(2 * q.scale) + (near + distance * F.erf(distance / wide)) / q.scale


@register_kl(Bernoulli, Poisson)
def _(p: Any, q: Any) -> Any:
    return -p.entropy() - (p.probs * F.log(q.rate) - q.rate)


def _infinite(p: Any, q: Any) -> Any:
    """The divergence where `p` draws what `q` never does."""
    return F.full_like(p.mean + q.mean, math.inf)


_register_all((Normal, Laplace, Gumbel, Exponential, Gamma, Pareto), (Beta, Uniform, ContinuousBernoulli), _infinite)
_register_all((Normal, Laplace, Gumbel), (Exponential, Gamma, Pareto), _infinite)
_register_all((Exponential, Gamma, Beta, ContinuousBernoulli), (Pareto,), _infinite)
_register_all((Poisson,), (Bernoulli, Binomial), _infinite)

__all__ = ["kl_divergence", "register_kl"]
