"""Probability distributions: what they draw, with gradients where they have such, densities, moments, divergences.

>>> import jit
>>> from jit.distributions import Normal, kl_divergence
>>> mean = jit.zeros((), requires_grad=True)
>>> Normal(mean, 1.0).rsample((4,)).sum().backward()
>>> mean.grad.item(), kl_divergence(Normal(mean, 1.0), Normal(0.0, 1.0)).item()
(4.0, 0.0)
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from jit.late import late

if TYPE_CHECKING:
    from jit._stubs.names_distributions import *  # noqa: F403
else:
    __getattr__, __dir__ = late(
        __name__,
        {
            "bernoulli": "Bernoulli",
            "beta": "Beta",
            "binomial": "Binomial",
            "categorical": "Categorical",
            "cauchy": "Cauchy",
            "chi2": "Chi2",
            "constraint_registry": "biject_to transform_to",
            "continuous_bernoulli": "ContinuousBernoulli",
            "dirichlet": "Dirichlet",
            "distribution": "Distribution",
            "exp_family": "ExponentialFamily",
            "exponential": "Exponential",
            "fishersnedecor": "FisherSnedecor",
            "gamma": "Gamma",
            "generalized_pareto": "GeneralizedPareto",
            "geometric": "Geometric",
            "gumbel": "Gumbel",
            "half_cauchy": "HalfCauchy",
            "half_normal": "HalfNormal",
            "independent": "Independent",
            "inverse_gamma": "InverseGamma",
            "kl": "kl_divergence register_kl",
            "kumaraswamy": "Kumaraswamy",
            "laplace": "Laplace",
            "lkj_cholesky": "LKJCholesky",
            "log_normal": "LogNormal",
            "logistic_normal": "LogisticNormal",
            "lowrank_multivariate_normal": "LowRankMultivariateNormal",
            "mixture_same_family": "MixtureSameFamily",
            "multinomial": "Multinomial",
            "multivariate_normal": "MultivariateNormal",
            "negative_binomial": "NegativeBinomial",
            "normal": "Normal",
            "one_hot_categorical": "OneHotCategorical OneHotCategoricalStraightThrough",
            "pareto": "Pareto",
            "poisson": "Poisson",
            "relaxed_bernoulli": "RelaxedBernoulli",
            "relaxed_categorical": "RelaxedOneHotCategorical",
            "studentT": "StudentT",
            "transformed_distribution": "TransformedDistribution",
            "transforms":
                "AbsTransform AffineTransform CatTransform ComposeTransform CorrCholeskyTransform "
                "CumulativeDistributionTransform ExpTransform IndependentTransform LowerCholeskyTransform "
                "PositiveDefiniteTransform PowerTransform ReshapeTransform SigmoidTransform SoftmaxTransform "
                "SoftplusTransform StackTransform StickBreakingTransform TanhTransform Transform identity_transform",
            "uniform": "Uniform",
            "von_mises": "VonMises",
            "weibull": "Weibull",
            "wishart": "Wishart",
        },
        ("constraints", "transforms", "utils"),
    )  # fmt: skip

__all__ = [
    "AbsTransform", "AffineTransform", "Bernoulli", "Beta", "Binomial", "CatTransform", "Categorical", "Cauchy", "Chi2",
    "ComposeTransform", "ContinuousBernoulli", "CorrCholeskyTransform", "CumulativeDistributionTransform", "Dirichlet",
    "Distribution", "ExpTransform", "Exponential", "ExponentialFamily", "FisherSnedecor", "Gamma", "GeneralizedPareto",
    "Geometric", "Gumbel", "HalfCauchy", "HalfNormal", "Independent", "IndependentTransform", "InverseGamma",
    "Kumaraswamy", "LKJCholesky", "Laplace", "LogNormal", "LogisticNormal", "LowRankMultivariateNormal",
    "LowerCholeskyTransform", "MixtureSameFamily", "Multinomial", "MultivariateNormal", "NegativeBinomial", "Normal",
    "OneHotCategorical", "OneHotCategoricalStraightThrough", "Pareto", "Poisson", "PositiveDefiniteTransform",
    "PowerTransform", "RelaxedBernoulli", "RelaxedOneHotCategorical", "ReshapeTransform", "SigmoidTransform",
    "SoftmaxTransform", "SoftplusTransform", "StackTransform", "StickBreakingTransform", "StudentT", "TanhTransform",
    "Transform", "TransformedDistribution", "Uniform", "VonMises", "Weibull", "Wishart", "biject_to", "constraints",
    "identity_transform", "kl_divergence", "register_kl", "transform_to", "transforms", "utils",
]  # fmt: skip
