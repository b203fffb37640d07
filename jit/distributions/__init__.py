"""Probability distributions under PyTorch's names: draws, densities, entropies and divergences.

>>> import jit
>>> from jit.distributions import Categorical, Normal, kl_divergence
>>> prior, learned = Normal(0.0, 1.0), Normal(jit.tensor([0.0, 2.0]), jit.tensor([1.0, 1.0]))
>>> kl_divergence(learned, prior).tolist()
[0.0, 2.0]
>>> Categorical(logits=jit.zeros(5, 4)).sample().shape
jit.Size([5])
"""

from __future__ import annotations

from jit.late import elsewhere

from . import constraints, transforms
from .combining import (
    ExpRelaxedCategorical,
    Independent,
    LogitRelaxedBernoulli,
    LogNormal,
    MixtureSameFamily,
    RelaxedBernoulli,
    RelaxedOneHotCategorical,
    TransformedDistribution,
)  # fmt: skip
from .continuous import Cauchy, Exponential, Gumbel, HalfNormal, Laplace, Normal, Uniform
from .discrete import (
    Bernoulli,
    Binomial,
    Categorical,
    Geometric,
    Multinomial,
    OneHotCategorical,
    OneHotCategoricalStraightThrough,
)  # fmt: skip
from .distribution import Distribution, ExponentialFamily
from .gammas import Beta, Chi2, Dirichlet, Gamma, Poisson, StudentT
from .kl import kl_divergence, register_kl
from .multivariate import MultivariateNormal
from .transforms import (
    AffineTransform,
    ComposeTransform,
    ExpTransform,
    SigmoidTransform,
    TanhTransform,
    Transform,
    identity_transform,
)  # fmt: skip

_PATHS = {
    "combining":
        "independent log_normal mixture_same_family relaxed_bernoulli relaxed_categorical transformed_distribution",
    "continuous": "cauchy exponential gumbel half_normal laplace normal uniform",
    "discrete": "bernoulli binomial categorical geometric multinomial one_hot_categorical",
    "distribution": "exp_family utils",
    "gammas": "beta chi2 dirichlet gamma poisson studentT",
    "multivariate": "multivariate_normal",
}  # fmt: skip
"""Our module -> the modules that PyTorch has instead, which programs import from."""

for _place, _names in _PATHS.items():
    for _name in _names.split():
        globals()[_name] = elsewhere(f"{__name__}.{_name}", f"{__name__}.{_place}")

__all__ = [
    "AffineTransform", "Bernoulli", "Beta", "Binomial", "Categorical", "Cauchy", "Chi2", "ComposeTransform",
    "Dirichlet", "Distribution", "ExpRelaxedCategorical", "ExpTransform", "Exponential", "ExponentialFamily", "Gamma",
    "Geometric", "Gumbel", "HalfNormal", "Independent", "Laplace", "LogNormal", "LogitRelaxedBernoulli",
    "MixtureSameFamily", "Multinomial", "MultivariateNormal", "Normal", "OneHotCategorical",
    "OneHotCategoricalStraightThrough", "Poisson", "RelaxedBernoulli", "RelaxedOneHotCategorical", "SigmoidTransform",
    "StudentT", "TanhTransform", "Transform", "TransformedDistribution", "Uniform", "constraints",
    "identity_transform", "kl_divergence", "register_kl", "transforms",
]  # fmt: skip
