"""`kl_divergence`, and the pairs of distributions for which there is a formula."""

from __future__ import annotations

import math
from collections.abc import Callable
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
    return -F.log(ratio) + shift + euler_constant * (ratio - 1) + F.exp(shift + F.lgamma(1 + ratio)) - 1


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
    each = kl_divergence(Bernoulli(logits=p.logits, validate_args=False), Bernoulli(logits=q.logits, validate_args=False))
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


for _first in (MultivariateNormal, LowRankMultivariateNormal):
    for _second in (MultivariateNormal, LowRankMultivariateNormal):
        register_kl(_first, _second)(_normals)


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


@register_kl(Exponential, Gamma)
def _(p: Any, q: Any) -> Any:
    ratio, a = q.rate / p.rate, q.concentration
    return -a * F.log(ratio) + ratio + F.lgamma(a) + a * euler_constant - (1 + euler_constant)


@register_kl(Gamma, Exponential)
def _(p: Any, q: Any) -> Any:
    return -p.entropy() - F.log(q.rate) + q.rate * p.concentration / p.rate


def _with_normal(p: Any, q: Any) -> Any:
    """The divergence of anything from a normal distribution, by its entropy and its moments."""
    spread = (p.variance + F.square(p.mean - q.loc)) / (2 * F.square(q.scale))
    return -p.entropy() + F.log(q.scale) + math.log(2 * math.pi) / 2 + spread


for _first in (Exponential, Gamma, Beta, Uniform, Laplace, Gumbel, ContinuousBernoulli):
    register_kl(_first, Normal)(_with_normal)


def _infinite(p: Any, q: Any) -> Any:
    """The divergence where `p` draws what `q` never does."""
    return F.full((F.zeros(p.batch_shape) + F.zeros(q.batch_shape)).shape, math.inf)


for _first in (Normal, Laplace, Gumbel, Exponential, Gamma, Pareto):
    for _second in (Beta, Uniform, ContinuousBernoulli):
        register_kl(_first, _second)(_infinite)
for _first in (Normal, Laplace, Gumbel):
    for _second in (Exponential, Gamma, Pareto):
        register_kl(_first, _second)(_infinite)

__all__ = ["kl_divergence", "register_kl"]
