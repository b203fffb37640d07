"""Distributions against SciPy, against finite differences of what they draw, and against their own samples."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from scipy import stats

import jit
from jit import distributions as d
from jit.ir.errors import Error

COUNT = 20000
LEAST = 1e-3
"""The p-value below which numbers are not of their distribution. The seed is fixed: what passes once passes always."""


def t(*values: Any) -> jit.Tensor:
    return jit.tensor(values if len(values) > 1 else values[0], dtype=jit.float64)


CONTINUOUS: dict[str, tuple[Callable[..., Any], tuple[float, ...], Callable[..., Any]]] = {
    "Normal": (d.Normal, (0.5, 2.0), stats.norm),
    "Laplace": (d.Laplace, (0.5, 2.0), stats.laplace),
    "Cauchy": (d.Cauchy, (0.5, 2.0), stats.cauchy),
    "Uniform": (d.Uniform, (-1.0, 2.0), lambda low, high: stats.uniform(low, high - low)),
    "Gumbel": (d.Gumbel, (0.5, 2.0), stats.gumbel_r),
    "Exponential": (d.Exponential, (0.7,), lambda rate: stats.expon(scale=1 / rate)),
    "Gamma": (d.Gamma, (0.7, 2.0), lambda a, b: stats.gamma(a, scale=1 / b)),
    "Gamma of a large shape": (d.Gamma, (90.0, 2.0), lambda a, b: stats.gamma(a, scale=1 / b)),
    "Chi2": (d.Chi2, (3.0,), stats.chi2),
    "Beta": (d.Beta, (0.7, 2.0), stats.beta),
    "FisherSnedecor": (d.FisherSnedecor, (3.0, 7.0), stats.f),
    "StudentT": (d.StudentT, (5.0, 0.5, 2.0), stats.t),
    "HalfNormal": (d.HalfNormal, (2.0,), lambda s: stats.halfnorm(scale=s)),
    "HalfCauchy": (d.HalfCauchy, (2.0,), lambda s: stats.halfcauchy(scale=s)),
    "LogNormal": (d.LogNormal, (0.3, 0.5), lambda m, s: stats.lognorm(s, scale=math.exp(m))),
    "Pareto": (d.Pareto, (1.5, 3.0), lambda s, a: stats.pareto(a, scale=s)),
    "Weibull": (d.Weibull, (1.5, 2.5), lambda s, k: stats.weibull_min(k, scale=s)),
    "InverseGamma": (d.InverseGamma, (3.5, 2.0), lambda a, b: stats.invgamma(a, scale=b)),
    "GeneralizedPareto": (d.GeneralizedPareto, (0.5, 2.0, 0.2), lambda m, s, k: stats.genpareto(k, m, s)),
    "GeneralizedPareto without shape": (d.GeneralizedPareto, (0.5, 2.0, 0.0), lambda m, s, k: stats.expon(m, s)),
    "GeneralizedPareto of a negative one": (
        d.GeneralizedPareto, (0.5, 2.0, -0.3), lambda m, s, k: stats.genpareto(k, m, s),
    ),
    "VonMises": (d.VonMises, (0.5, 2.0), lambda m, k: stats.vonmises(k, m)),
    "VonMises of a small concentration": (d.VonMises, (0.5, 0.05), lambda m, k: stats.vonmises(k, m)),
}  # fmt: skip
DISCRETE: dict[str, tuple[Callable[..., Any], tuple[float, ...], Callable[..., Any]]] = {
    "Bernoulli": (d.Bernoulli, (0.3,), stats.bernoulli),
    "Binomial": (d.Binomial, (6.0, 0.3), stats.binom),
    "Geometric": (d.Geometric, (0.3,), lambda p: stats.geom(p, -1)),
    "NegativeBinomial": (d.NegativeBinomial, (4.0, 0.3), lambda n, p: stats.nbinom(n, 1 - p)),
    "Poisson": (d.Poisson, (2.5,), stats.poisson),
}
BOTH = CONTINUOUS | DISCRETE


def both(name: str) -> tuple[Any, Any]:
    make, parameters, scipy = BOTH[name]
    return make(*map(t, parameters)), scipy(*parameters)


def drawn(distribution: Any, count: int = COUNT) -> np.ndarray:
    jit.manual_seed(0)
    return np.asarray(distribution.sample((count,)).numpy())


def close(have: Any, want: Any, tolerance: float = 1e-9) -> None:
    np.testing.assert_allclose(have.detach().numpy(), want, rtol=tolerance, atol=tolerance)


@pytest.mark.parametrize("name", BOTH)
def test_densities_and_moments(name):
    ours, scipy = both(name)
    values = drawn(ours, 50)
    close(ours.log_prob(jit.from_numpy(values)), scipy.logpdf(values) if name in CONTINUOUS else scipy.logpmf(values))
    if "VonMises" not in name:  # its variance is the circular one
        infinite = math.inf if name == "HalfCauchy" else scipy.mean()
        close(ours.mean, infinite)
        close(ours.variance, math.inf if "Cauchy" in name else scipy.var(), 1e-7)
        close(ours.stddev, math.inf if "Cauchy" in name else scipy.std(), 1e-7)


@pytest.mark.parametrize("name", BOTH)
def test_cumulative_functions_and_entropies_where_there_are_such(name):
    ours, scipy = both(name)
    values = drawn(ours, 50)
    for have, want in (
        (lambda: ours.cdf(jit.from_numpy(values)), lambda: scipy.cdf(values)),
        (lambda: ours.icdf(t(0.1, 0.5, 0.8)), lambda: scipy.ppf([0.1, 0.5, 0.8])),
        (lambda: ours.entropy(), lambda: scipy.entropy()),
    ):
        try:
            found = have()
        except NotImplementedError:
            continue
        close(found, want(), 1e-7)


@pytest.mark.parametrize("name", CONTINUOUS)
def test_shapes_of_samples(name):
    ours, scipy = both(name)
    cumulative = scipy.cdf
    if "VonMises" in name:
        centre = ours.loc.item()
        values = (drawn(ours) - centre + np.pi) % (2 * np.pi) - np.pi + centre
        assert stats.kstest(values, cumulative).pvalue > LEAST
    else:
        assert stats.kstest(drawn(ours), cumulative).pvalue > LEAST


@pytest.mark.parametrize("name", DISCRETE)
def test_frequencies_of_samples(name):
    ours, scipy = both(name)
    values, counts = np.unique(drawn(ours), return_counts=True)
    expected = scipy.pmf(values) * COUNT
    often = expected > 5
    rest = COUNT - expected[often].sum()
    pairs = [*counts[often], counts[~often].sum()], [*expected[often], rest]
    assert stats.chisquare(*(np.asarray(p)[np.asarray(pairs[1]) > 1e-6] for p in pairs)).pvalue > LEAST


@pytest.mark.parametrize("name", [name for name in CONTINUOUS if "VonMises" not in name])
def test_gradients_of_samples(name):
    """A sample is a smooth function of the parameters, for the same random numbers."""
    make, parameters, _ = CONTINUOUS[name]

    def draw(*given: jit.Tensor) -> jit.Tensor:
        jit.manual_seed(3)
        found: jit.Tensor = make(*given, validate_args=False).rsample((5,))
        return found

    given = tuple(t(p).requires_grad_() for p in parameters if p != 0.0)
    if len(given) == len(parameters):
        assert jit.autograd.gradcheck(draw, given, atol=1e-5, rtol=1e-4)


@pytest.mark.parametrize("name", CONTINUOUS)
def test_densities_add_up_to_one(name):
    make, parameters, scipy = CONTINUOUS[name]
    ours = make(*map(t, parameters))
    levels = np.linspace(1e-4, 1 - 1e-4, 4001)
    values = scipy(*parameters).ppf(levels)
    density = np.exp(ours.log_prob(jit.from_numpy(values)).numpy())
    if np.isfinite(density).all() and not name.startswith(("Cauchy", "HalfCauchy", "Gamma", "Beta", "Pareto")):
        assert np.trapezoid(density, values) == pytest.approx(1 - 2e-4, abs=2e-3)


# -- vectors and matrices --------------------------------------------------------------------------------------------

SPREAD = np.array([[2.0, 0.3, -0.2], [0.3, 1.0, 0.4], [-0.2, 0.4, 1.5]])
CENTRE = np.array([0.5, -1.0, 2.0])


@pytest.mark.parametrize("name", ["covariance_matrix", "precision_matrix", "scale_tril"])
def test_normal_vectors(name):
    given = {"covariance_matrix": SPREAD, "precision_matrix": np.linalg.inv(SPREAD),
             "scale_tril": np.linalg.cholesky(SPREAD)}  # fmt: skip
    spread: dict[str, Any] = {name: jit.from_numpy(given[name])}
    ours = d.MultivariateNormal(jit.from_numpy(CENTRE), **spread)
    scipy = stats.multivariate_normal(CENTRE, SPREAD)
    values = drawn(ours)
    close(ours.log_prob(jit.from_numpy(values[:9])), scipy.logpdf(values[:9]))
    close(ours.entropy(), scipy.entropy())
    for attribute, want in given.items():
        close(getattr(ours, attribute), want)
    close(ours.variance, np.diag(SPREAD))
    np.testing.assert_allclose(np.cov(values.T), SPREAD, atol=0.06)


def test_normal_vectors_of_low_rank():
    factor, diagonal = np.array([[1.0, 0.2], [0.5, -0.3], [0.1, 0.9]]), np.array([0.5, 1.0, 1.5])
    parts: Any = map(jit.from_numpy, (CENTRE, factor, diagonal))
    ours = d.LowRankMultivariateNormal(*parts)
    scipy = stats.multivariate_normal(CENTRE, factor @ factor.T + np.diag(diagonal))
    values = drawn(ours)
    close(ours.log_prob(jit.from_numpy(values[:9])), scipy.logpdf(values[:9]))
    close(ours.entropy(), scipy.entropy())
    np.testing.assert_allclose(np.cov(values.T), scipy.cov, atol=0.06)


def test_shares():
    concentration = np.array([0.5, 2.0, 3.0])
    ours, scipy = d.Dirichlet(jit.from_numpy(concentration)), stats.dirichlet(concentration)
    values = drawn(ours)
    close(ours.log_prob(jit.from_numpy(values[:9])), [scipy.logpdf(v) for v in values[:9]], 1e-6)
    close(ours.entropy(), scipy.entropy())
    close(ours.mean, scipy.mean())
    close(ours.variance, scipy.var())
    np.testing.assert_allclose(values.mean(0), scipy.mean(), atol=0.01)


def test_matrices():
    ours, scipy = d.Wishart(t(5.5), jit.from_numpy(SPREAD)), stats.wishart(5.5, SPREAD)
    values = drawn(ours)
    close(ours.log_prob(jit.from_numpy(values[:9])), [scipy.logpdf(v) for v in values[:9]], 1e-8)
    close(ours.entropy(), scipy.entropy())
    close(ours.mean, scipy.mean())
    close(ours.variance, scipy.var())
    np.testing.assert_allclose(values.mean(0), scipy.mean(), atol=0.15)


def test_correlations():
    """Each correlation, moved to [0, 1], is a Beta number of known parameters."""
    ours = d.LKJCholesky(4, t(1.5))
    factors = drawn(ours)
    correlations = factors @ np.swapaxes(factors, -1, -2)
    for row, column in ((1, 0), (3, 1), (3, 2)):
        assert stats.kstest((correlations[:, row, column] + 1) / 2, stats.beta(2.5, 2.5).cdf).pvalue > LEAST
    pair = d.LKJCholesky(2, t(1.5))
    angles = np.linspace(-1, 1, 4003)[1:-1]
    rows = np.stack(
        [np.stack([np.ones_like(angles), 0 * angles], -1), np.stack([angles, np.sqrt(1 - angles**2)], -1)], -2
    )
    assert np.trapezoid(np.exp(pair.log_prob(jit.from_numpy(rows)).numpy()), angles) == pytest.approx(1, abs=1e-3)


@pytest.mark.parametrize("name", ["probs", "logits"])
def test_categories(name):
    shares = np.array([0.1, 0.2, 0.7])
    given: dict[str, Any] = {name: jit.from_numpy(shares * 3 if name == "probs" else np.log(shares) + 1)}
    ours = d.Categorical(**given)
    close(ours.log_prob(jit.tensor([0, 2])), np.log(shares[[0, 2]]))
    close(ours.entropy(), stats.entropy(shares))
    counts = np.bincount(drawn(ours), minlength=3)
    assert stats.chisquare(counts, shares * COUNT).pvalue > LEAST
    vectors = d.OneHotCategorical(**given)
    close(vectors.log_prob(jit.eye(3, dtype=jit.float64)), np.log(shares))
    assert set(drawn(vectors, 20).sum(-1)) == {1.0}
    many = d.Multinomial(5, **given)
    scipy = stats.multinomial(5, shares)
    close(many.log_prob(t(1, 1, 3)), scipy.logpmf([1, 1, 3]))
    close(many.entropy(), scipy.entropy())
    assert (drawn(many, 50).sum(-1) == 5).all()


def test_straight_through_gradients_are_those_of_the_probabilities():
    logits = t(0.1, 0.2, 0.3).requires_grad_()
    (d.OneHotCategoricalStraightThrough(logits=logits).rsample() * t(1, 2, 4)).sum().backward()
    have, logits.grad = logits.grad, None
    (jit.softmax(logits, 0) * t(1, 2, 4)).sum().backward()
    want: Any = logits.grad
    close(have, want.numpy())


def test_relaxed_samples_have_their_density():
    """The distribution of a relaxed bit: that of a sigmoid of a logistic number."""
    values = drawn(d.RelaxedBernoulli(t(0.7), t(0.3)))
    scipy = stats.logistic(math.log(0.3 / 0.7) / 0.7, 1 / 0.7)
    logits = np.log(values) - np.log1p(-values)
    assert stats.kstest(logits, scipy.cdf).pvalue > LEAST
    density = d.RelaxedBernoulli(t(0.7), t(0.3)).log_prob(jit.from_numpy(values[:9]))
    close(density, scipy.logpdf(logits[:9]) - np.log(values[:9]) - np.log1p(-values[:9]), 1e-6)


# -- made of others --------------------------------------------------------------------------------------------------


def test_independent_dims_are_added_up():
    base = d.Normal(jit.zeros(2, 3), 1.0)
    ours = d.Independent(base, 1)
    assert (ours.batch_shape, ours.event_shape) == ((2,), (3,))
    assert ours.log_prob(jit.ones(2, 3)).tolist() == base.log_prob(jit.ones(2, 3)).sum(-1).tolist()
    assert ours.expand((4, 2)).sample((5,)).shape == (5, 4, 2, 3)
    with pytest.raises(Error, match="reinterpreted_batch_ndims"):
        d.Independent(base, 3)


def test_mixtures():
    ours = d.MixtureSameFamily(d.Categorical(t(0.3, 0.7)), d.Normal(t(-2, 1), t(0.5, 1)))
    values = drawn(ours)
    parts = [stats.norm(-2, 0.5), stats.norm(1, 1)]
    close(
        ours.log_prob(jit.from_numpy(values[:9])),
        np.log(0.3 * parts[0].pdf(values[:9]) + 0.7 * parts[1].pdf(values[:9])),
    )
    assert stats.kstest(values, lambda x: 0.3 * parts[0].cdf(x) + 0.7 * parts[1].cdf(x)).pvalue > LEAST
    close(ours.mean, 0.1)
    assert values.var() == pytest.approx(ours.variance.item(), rel=0.03)


def test_parameters_and_values_are_checked():
    with pytest.raises(ValueError, match=r"parameter scale .* GreaterThan\(lower_bound=0.0\)"):
        d.Normal(0.0, -1.0)
    with pytest.raises(ValueError, match="support"):
        d.Exponential(1.0).log_prob(jit.tensor(-1.0))
    with pytest.raises(ValueError, match="event_shape"):
        d.Dirichlet(jit.ones(3)).log_prob(jit.ones(2))
    assert d.Exponential(1.0, validate_args=False).log_prob(jit.tensor(-1.0)).item() == 1.0


@pytest.mark.parametrize("name", BOTH)
def test_expanded(name):
    ours, _ = both(name)
    wide = ours.expand((4, 2))
    assert wide.batch_shape == (4, 2) and wide.sample((3,)).shape == (3, 4, 2)
    value = ours.sample()
    assert (wide.log_prob(value) == ours.log_prob(value)).all()
    assert type(wide) is type(ours)


def test_traced_steps_of_a_variational_network():
    def loss(mean, scale, x):
        posterior = d.Normal(mean, scale.exp())
        z = posterior.rsample()
        return (
            d.kl_divergence(posterior, d.Normal(jit.zeros_like(mean), 1.0)).sum()
            - d.Bernoulli(logits=z).log_prob(x).sum()
        )

    traced = jit.trace(loss)
    functions: Any = (loss, traced)
    mean, scale, x = jit.randn(8, 4), jit.randn(8, 4), jit.ones(8, 4)
    for seed in range(3):
        results = []
        for function in functions:
            jit.manual_seed(seed)
            leaves = [mean.detach().requires_grad_(), scale.detach().requires_grad_()]
            value = function(*leaves, x)
            results.append([value, *jit.autograd.grad(value, leaves)])
        for have, want in zip(*results):
            close(have, want.detach().numpy(), 1e-5)
    assert traced.hits == 2
