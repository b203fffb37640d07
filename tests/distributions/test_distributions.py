"""Distributions: densities, moments and entropies of scipy, draws whose moments fit, shapes, divergences, checks."""

import math

import numpy as np
import pytest
from scipy import stats

import jit
from jit import distributions as d

A, B, C = (np.array(each) for each in ([0.4, 1.3, 2.5], [0.7, 1.1, 0.9], [0.2, 0.6, 0.8]))
P = np.array([[0.1, 0.2, 0.3, 0.4], [0.7, 0.1, 0.1, 0.1], [0.25, 0.25, 0.25, 0.25]])
ROOT = np.array([[1.0, 0.0, 0.0], [0.5, 0.8, 0.0], [-0.2, 0.3, 1.2]])
a, b, c, p, root = (jit.from_numpy(each) for each in (A, B, C, P, ROOT))

CONTINUOUS = {
    "normal": (lambda: d.Normal(a, b), stats.norm(A, B)),
    "laplace": (lambda: d.Laplace(a, b), stats.laplace(A, B)),
    "gumbel": (lambda: d.Gumbel(a, b), stats.gumbel_r(A, B)),
    "cauchy": (lambda: d.Cauchy(a, b), stats.cauchy(A, B)),
    "log_normal": (lambda: d.LogNormal(a, b), stats.lognorm(s=B, scale=np.exp(A))),
    "uniform": (lambda: d.Uniform(c - a, c + b), stats.uniform(C - A, A + B)),
    "exponential": (lambda: d.Exponential(a), stats.expon(scale=1 / A)),
    "half_normal": (lambda: d.HalfNormal(a), stats.halfnorm(scale=A)),
    "gamma": (lambda: d.Gamma(a, b), stats.gamma(A, scale=1 / B)),
    "chi2": (lambda: d.Chi2(a), stats.chi2(A)),
    "beta": (lambda: d.Beta(a, b), stats.beta(A, B)),
    "student_t": (lambda: d.StudentT(a + 4, b, a), stats.t(A + 4, B, A)),
}
DISCRETE = {
    "bernoulli": (lambda: d.Bernoulli(c), stats.bernoulli(C)),
    "bernoulli_of_logits": (lambda: d.Bernoulli(logits=(c / (1 - c)).log()), stats.bernoulli(C)),
    "geometric": (lambda: d.Geometric(c), stats.geom(C, loc=-1)),
    "poisson": (lambda: d.Poisson(a), stats.poisson(A)),
    "binomial": (lambda: d.Binomial(4, c), stats.binom(4, C)),
}
WITH_ENTROPY = sorted(set(CONTINUOUS) - {"student_t"}) + ["bernoulli", "bernoulli_of_logits", "geometric"]
BOTH = CONTINUOUS | DISCRETE


def close(found, wanted):
    np.testing.assert_allclose(found.numpy(), wanted, rtol=1e-6, atol=1e-9)


@pytest.mark.parametrize("name", CONTINUOUS)
def test_densities_are_those_of_scipy(name):
    made, known = CONTINUOUS[name]
    close(made().log_prob(c), known.logpdf(C))


@pytest.mark.parametrize("name", DISCRETE)
def test_probabilities_are_those_of_scipy(name):
    made, known = DISCRETE[name]
    for outcome in ([0.0, 1.0, 1.0], [1.0, 0.0, 1.0]):
        close(made().log_prob(jit.tensor(outcome, dtype=jit.float64)), known.logpmf(outcome))


@pytest.mark.parametrize("name", sorted(set(BOTH) - {"cauchy"}))
def test_means_and_variances_are_those_of_scipy(name):
    made, known = BOTH[name]
    close(made().mean, known.mean())
    close(made().variance, known.var())
    close(made().stddev, known.std())


@pytest.mark.parametrize("name", WITH_ENTROPY)
def test_entropies_are_those_of_scipy(name):
    made, known = BOTH[name]
    close(made().entropy(), known.entropy())


@pytest.mark.parametrize("name", ["normal", "laplace", "uniform", "exponential"])
def test_distribution_functions_and_their_inverses(name):
    made, known = CONTINUOUS[name]
    close(made().cdf(c), known.cdf(C))
    close(made().icdf(c), known.ppf(C))


@pytest.mark.parametrize("name", sorted(set(BOTH) - {"cauchy"}))
def test_draws_have_the_moments(name):
    jit.manual_seed(0)
    made, known = BOTH[name]
    drawn = made().sample((20_000,)).numpy()
    spread = known.std() / math.sqrt(20_000)
    assert np.all(np.abs(drawn.mean(0) - known.mean()) < 6 * spread)


@pytest.mark.parametrize("name", sorted(BOTH))
def test_shapes_of_draws_and_of_expanded_distributions(name):
    made = BOTH[name][0]()
    assert tuple(made.sample().shape) == (3,) and tuple(made.sample((2, 5)).shape) == (2, 5, 3)
    wide = made.expand((4, 3))
    assert tuple(wide.batch_shape) == (4, 3) and tuple(wide.sample((2,)).shape) == (2, 4, 3)


def test_outcomes_of_several():
    outcomes = jit.tensor([3, 0, 2])
    wanted = np.log(P[np.arange(3), outcomes.numpy()])
    for made in (d.Categorical(p), d.Categorical(p * 7), d.Categorical(logits=p.log() + 3)):
        close(made.log_prob(outcomes), wanted)
        close(made.entropy(), stats.entropy(P, axis=1))
        close(made.probs, P)
    one_hot = d.OneHotCategorical(p)
    close(one_hot.log_prob(jit.nn.functional.one_hot(outcomes, 4)), wanted)
    assert tuple(one_hot.sample((2,)).shape) == (2, 3, 4) and bool((one_hot.sample().sum(-1) == 1).all())
    counts = jit.tensor([[1.0, 1.0, 0.0, 2.0]] * 3, dtype=jit.float64)
    close(d.Multinomial(4, p).log_prob(counts), stats.multinomial(4, P).logpmf(counts.numpy()))
    assert d.Categorical(p).enumerate_support().tolist() == [[each] * 3 for each in range(4)]


def test_dirichlet_and_multivariate_normal():
    concentration = np.array([0.7, 1.5, 3.0, 0.9])
    made = d.Dirichlet(jit.from_numpy(concentration))
    close(made.log_prob(p[0]), stats.dirichlet(concentration).logpdf(P[0]))
    close(made.entropy(), stats.dirichlet(concentration).entropy())
    known = stats.multivariate_normal(A, ROOT @ ROOT.T)
    covariance = root @ root.T
    for normal in (
        d.MultivariateNormal(a, scale_tril=root), d.MultivariateNormal(a, covariance),
        d.MultivariateNormal(a, precision_matrix=jit.linalg.inv(covariance)),
    ):  # fmt: skip
        close(normal.log_prob(c), known.logpdf(C))
        close(normal.entropy(), known.entropy())
        close(normal.covariance_matrix, ROOT @ ROOT.T)
        assert tuple(normal.sample((5, 2)).shape) == (5, 2, 3)


def test_independent_parts_and_mixtures():
    parts = d.Independent(d.Normal(p, p + 1), 1)
    assert tuple(parts.batch_shape) == (3,) and tuple(parts.event_shape) == (4,)
    close(parts.log_prob(p * 2), stats.norm(P, P + 1).logpdf(P * 2).sum(-1))
    mixture = d.MixtureSameFamily(d.Categorical(p), d.Normal(p * 3, p + 1))
    close(mixture.log_prob(a), np.log((P * stats.norm(P * 3, P + 1).pdf(A[:, None])).sum(-1)))
    vectors = d.MixtureSameFamily(d.Categorical(p[0]), d.Independent(d.Normal(jit.ones(4, 2), 1.0), 1))
    assert tuple(vectors.sample((6,)).shape) == (6, 2) and tuple(vectors.expand((5,)).sample().shape) == (5, 2)


def test_transformed_draws():
    made = d.TransformedDistribution(d.Normal(a, b), [d.ExpTransform(), d.AffineTransform(1.0, -2.0)])
    value = 1 - 2 * c
    close(made.log_prob(value), stats.lognorm(s=B, scale=np.exp(A)).logpdf(C) - math.log(2))
    squashed = d.TransformedDistribution(d.Normal(a, b), d.TanhTransform())
    close(squashed.log_prob(c), stats.norm(A, B).logpdf(np.arctanh(C)) - np.log(1 - C**2))


PAIRS = {
    "normal": lambda x, y: d.Normal(x, y),
    "laplace": lambda x, y: d.Laplace(x, y),
    "log_normal": lambda x, y: d.LogNormal(x, y),
    "gamma": lambda x, y: d.Gamma(x, y),
    "beta": lambda x, y: d.Beta(x, y),
    "exponential": lambda x, y: d.Exponential(x),
    "poisson": lambda x, y: d.Poisson(x),
    "multivariate_normal": lambda x, y: d.MultivariateNormal(x, scale_tril=root * y[0]),
    "independent": lambda x, y: d.Independent(d.Normal(x, y), 1),
    "categorical": lambda x, y: d.Categorical(x / x.sum()),
    "bernoulli": lambda x, y: d.Bernoulli(x / 3),
    "dirichlet": lambda x, y: d.Dirichlet(x + y),
}


@pytest.mark.parametrize("name", PAIRS)
def test_divergences_are_the_mean_of_the_difference_of_log_densities(name):
    jit.manual_seed(1)
    first, second = PAIRS[name](a, b), PAIRS[name](b, a)
    drawn = first.sample((40_000,))
    each = (first.log_prob(drawn) - second.log_prob(drawn)).numpy()
    found = d.kl_divergence(first, second).numpy()
    assert np.all(np.abs(found - each.mean(0)) < 6 * each.std(0) / 200 + 1e-12)
    assert np.all(np.abs(d.kl_divergence(first, first).numpy()) < 1e-9)


def test_gradients_flow_through_draws_where_they_can():
    loc, scale = a.clone().requires_grad_(), b.clone().requires_grad_()
    jit.manual_seed(3)
    drawn = d.Normal(loc, scale).rsample((7,))
    drawn.sum().backward()
    noise = ((drawn - a) / b).detach().sum(0).numpy()
    close(loc.grad, np.full(3, 7.0))
    close(scale.grad, noise)
    assert not d.Normal(loc, scale).sample().requires_grad
    logits = p.log().requires_grad_()
    d.RelaxedOneHotCategorical(jit.tensor(0.5), logits=logits).rsample().max().backward()
    assert bool(logits.grad.abs().sum() > 0)
    with pytest.raises(jit.UsageError, match="detach"):
        d.Gamma(loc, 1.0).rsample()


def test_parameters_and_values_are_checked():
    with pytest.raises(ValueError, match="the parameter scale"):
        d.Normal(0.0, -1.0)
    with pytest.raises(ValueError, match="outside"):
        d.Categorical(p).log_prob(jit.tensor([4, 0, 0]))
    with pytest.raises(ValueError, match="low is not below"):
        d.Uniform(1.0, 1.0)
    with pytest.raises(ValueError, match="either probs or logits"):
        d.Bernoulli()
    assert math.isfinite(d.Normal(0.0, -1.0, validate_args=False).mean.item())
    with pytest.raises(NotImplementedError, match="register_kl"):
        d.kl_divergence(d.Normal(0.0, 1.0), d.Bernoulli(0.5))


def test_a_policy_is_traced_with_its_draws():
    policy = jit.nn.Linear(3, 4)

    @jit.trace
    def act(state):
        chosen = d.Categorical(logits=policy(state))
        action = chosen.sample()
        return action, chosen.log_prob(action), chosen.entropy()

    state = jit.ones(5, 3)
    for _ in range(4):
        action, log_prob, _ = act(state)
        wanted = policy(state).log_softmax(-1).gather(-1, action.unsqueeze(-1)).squeeze(-1)
        np.testing.assert_allclose(log_prob.tolist(), wanted.tolist(), rtol=1e-5)
    assert act.hits >= 2


@pytest.mark.parametrize("path", ["normal.Normal", "categorical.Categorical", "kl.kl_divergence", "studentT.StudentT"])
def test_modules_have_the_paths_of_torch(path):
    module, name = path.split(".")
    assert getattr(getattr(d, module), name) is getattr(d, name)


def test_representations():
    assert repr(d.Normal(0.0, 1.0)) == "Normal(loc: 0.0, scale: 1.0)"
    assert repr(d.Independent(d.Bernoulli(p), 1)).startswith("Independent(Bernoulli(probs: ")
