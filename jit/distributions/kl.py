"""`kl_divergence`: how much one distribution differs from another."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

from jit.eager.namespace import F
from jit.ir.geometry import broadcast_shapes

from .combining import Independent, LogNormal
from .continuous import Exponential, Laplace, Normal, Uniform
from .discrete import Bernoulli, Categorical, OneHotCategorical
from .distribution import Distribution, sum_rightmost
from .gammas import Beta, Dirichlet, Gamma, Poisson
from .multivariate import MultivariateNormal

_RULES: dict[tuple[type, type], Callable[[Any, Any], Any]] = {}


def register_kl(type_p: type, type_q: type) -> Callable[[Any], Any]:
    """A decorator that declares how a pair of distributions is compared.

    Args:
        type_p: The first's class.
        type_q: The second's class.
    """

    def register(rule: Callable[[Any, Any], Any]) -> Callable[[Any, Any], Any]:
        _RULES[type_p, type_q] = rule
        return rule

    return register


def kl_divergence(p: Distribution, q: Distribution) -> Any:
    """The Kullback-Leibler divergence of `p` from `q`.

    Raises:
        NotImplementedError: No rule is known for the pair.

    >>> from jit.distributions import Normal, kl_divergence
    >>> kl_divergence(Normal(1.0, 1.0), Normal(0.0, 1.0)).item()
    0.5
    """
    for first in type(p).__mro__:
        for second in type(q).__mro__:
            if (first, second) in _RULES:
                return _RULES[first, second](p, q)
    raise NotImplementedError(
        f"no divergence of {type(p).__name__} from {type(q).__name__} is known; declare it with register_kl"
    )


@register_kl(Normal, Normal)
def _normal(p: Normal, q: Normal) -> Any:
    ratio = (p.scale / q.scale).pow(2)
    return 0.5 * (ratio + ((p.loc - q.loc) / q.scale).pow(2) - 1 - ratio.log())


@register_kl(LogNormal, LogNormal)
def _log_normal(p: LogNormal, q: LogNormal) -> Any:
    return kl_divergence(p.base_dist, q.base_dist)


@register_kl(Bernoulli, Bernoulli)
def _bernoulli(p: Bernoulli, q: Bernoulli) -> Any:
    one = p.probs * (F.softplus(-q.logits) - F.softplus(-p.logits))
    return one + (1 - p.probs) * (F.softplus(q.logits) - F.softplus(p.logits))


@register_kl(Categorical, Categorical)
@register_kl(OneHotCategorical, OneHotCategorical)
def _categorical(p: Any, q: Any) -> Any:
    each = p.probs * (p.logits - q.logits)
    each = F.where(q.probs == 0, math.inf, each)
    return F.where(p.probs == 0, 0.0, each).sum(-1)


@register_kl(Exponential, Exponential)
def _exponential(p: Exponential, q: Exponential) -> Any:
    ratio = q.rate / p.rate
    return -ratio.log() + ratio - 1


@register_kl(Laplace, Laplace)
def _laplace(p: Laplace, q: Laplace) -> Any:
    ratio, moved = p.scale / q.scale, (p.loc - q.loc).abs()
    return -ratio.log() + moved / q.scale + ratio * (-moved / p.scale).exp() - 1


@register_kl(Uniform, Uniform)
def _uniform(p: Uniform, q: Uniform) -> Any:
    result = ((q.high - q.low) / (p.high - p.low)).log()
    return F.where((q.low > p.low) | (q.high < p.high), math.inf, result)


@register_kl(Uniform, Normal)
def _uniform_normal(p: Uniform, q: Normal) -> Any:
    width = p.high - p.low
    spread = (width.pow(2) / 12 + ((p.high + p.low - 2 * q.loc) / 2).pow(2)) / (2 * q.scale.pow(2))
    return (math.sqrt(math.pi * 2) * q.scale / width).log() + spread


@register_kl(Gamma, Gamma)
def _gamma(p: Gamma, q: Gamma) -> Any:
    shape = q.concentration * (p.rate / q.rate).log() + F.lgamma(q.concentration) - F.lgamma(p.concentration)
    return (
        shape
        + (p.concentration - q.concentration) * F.digamma(p.concentration)
        + (q.rate - p.rate) * (p.concentration / p.rate)
    )


@register_kl(Dirichlet, Dirichlet)
def _dirichlet(p: Dirichlet, q: Dirichlet) -> Any:
    a, b = p.concentration, q.concentration
    norm = F.lgamma(a.sum(-1)) - F.lgamma(b.sum(-1)) - (F.lgamma(a) - F.lgamma(b)).sum(-1)
    return norm + ((a - b) * (F.digamma(a) - F.digamma(a.sum(-1)).unsqueeze(-1))).sum(-1)


@register_kl(Beta, Beta)
def _beta(p: Beta, q: Beta) -> Any:
    return _dirichlet(p._dirichlet, q._dirichlet)


@register_kl(Poisson, Poisson)
def _poisson(p: Poisson, q: Poisson) -> Any:
    return p.rate * (p.rate.log() - q.rate.log()) - (p.rate - q.rate)


@register_kl(MultivariateNormal, MultivariateNormal)
def _multivariate_normal(p: MultivariateNormal, q: MultivariateNormal) -> Any:
    root_p, root_q = p._unbroadcasted_scale_tril, q._unbroadcasted_scale_tril
    batch = broadcast_shapes(tuple(p.batch_shape), tuple(q.batch_shape))
    size = root_p.shape[-1]
    wide = root_q.expand(*batch, size, size)
    spread = F.linalg_solve_triangular(wide, root_p.expand(*batch, size, size), upper=False).pow(2).sum((-2, -1))
    moved = (q.loc - p.loc).unsqueeze(-1).expand(*batch, size, 1)
    distance = F.linalg_solve_triangular(wide, moved, upper=False).pow(2).sum((-2, -1))
    return q._log_root_determinant() - p._log_root_determinant() + 0.5 * (spread + distance - size)


@register_kl(Independent, Independent)
def _independent(p: Independent, q: Independent) -> Any:
    if p.reinterpreted_batch_ndims != q.reinterpreted_batch_ndims:
        raise NotImplementedError("the two take different numbers of dims as parts of a value")
    return sum_rightmost(kl_divergence(p.base_dist, q.base_dist), p.reinterpreted_batch_ndims)


__all__ = ["kl_divergence", "register_kl"]
