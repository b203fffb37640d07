"""Divergences, each against the mean over samples, and as a formula that is looked up by class."""

from __future__ import annotations

import math

import pytest

import jit
from jit import distributions as d
from jit.distributions.kl import _FORMULAS
from jit.ir.errors import Error, UnwrittenError


def t(*values):
    return jit.tensor(values if len(values) > 1 else values[0], dtype=jit.float64)


def matrix(*diagonal):
    return jit.diag(t(*diagonal)) + 0.1


EXAMPLES = {
    d.Normal: ((t(0.5), t(1.2)), (t(-0.3), t(1.7))),
    d.HalfNormal: ((t(1.2),), (t(1.7),)),
    d.Laplace: ((t(0.5), t(1.2)), (t(-0.3), t(1.7))),
    d.Cauchy: ((t(0.5), t(1.2)), (t(-0.3), t(1.7))),
    d.Gumbel: ((t(0.5), t(1.2)), (t(-0.3), t(1.7))),
    d.Exponential: ((t(0.9),), (t(1.4),)),
    d.Gamma: ((t(2.2), t(1.3)), (t(1.4), t(0.9))),
    d.Beta: ((t(2.2), t(1.3)), (t(1.4), t(1.9))),
    d.Dirichlet: ((t(2.2, 1.3, 0.8),), (t(1.2, 1.5, 2.8),)),
    d.Bernoulli: ((t(0.3),), (t(0.6),)),
    d.Categorical: ((t(0.2, 0.3, 0.5),), (t(0.5, 0.3, 0.2),)),
    d.OneHotCategorical: ((t(0.2, 0.3, 0.5),), (t(0.5, 0.3, 0.2),)),
    d.Binomial: ((t(5.0), t(0.3)), (t(5.0), t(0.6))),
    d.Geometric: ((t(0.3),), (t(0.6),)),
    d.Poisson: ((t(2.2),), (t(1.3),)),
    d.ContinuousBernoulli: ((t(0.3),), (t(0.8),)),
    d.Uniform: ((t(0.2), t(0.9)), (t(0.0), t(1.0))),
    d.Pareto: ((t(1.5), t(3.3)), (t(1.1), t(2.4))),
    d.MultivariateNormal: ((t(0.5, -0.2), matrix(1.0, 2.0)), (t(0.1, 0.3), matrix(2.0, 0.8))),
    d.LowRankMultivariateNormal: (
        (t(0.5, -0.2), t([0.3], [0.4]), t(1.0, 2.0)), (t(0.1, 0.3), t([0.5], [-0.4]), t(1.5, 0.7)),
    ),
}  # fmt: skip
PAIRS = [pair for pair in _FORMULAS if set(pair) <= set(EXAMPLES)]


@pytest.mark.parametrize(("first", "second"), PAIRS, ids=lambda kind: kind.__name__)
def test_mean_over_samples(first, second):
    p, q = first(*EXAMPLES[first][0]), second(*EXAMPLES[second][1], validate_args=False)
    have = d.kl_divergence(p, q)
    jit.manual_seed(1)
    x = p.sample((200000,))
    inside = q.support.check(x)
    if not inside.all():
        assert have.item() == math.inf
        return
    terms = p.log_prob(x) - q.log_prob(x)
    slack = 5 * terms.std().item() / math.sqrt(terms.numel()) + 1e-9
    assert have.item() == pytest.approx(terms.mean().item(), abs=slack)


@pytest.mark.parametrize("kind", EXAMPLES, ids=lambda kind: kind.__name__)
def test_none_from_itself(kind):
    p = kind(*EXAMPLES[kind][0])
    if (kind, kind) in _FORMULAS:
        assert d.kl_divergence(p, p).abs().item() < 1e-12


def test_most_distributions_have_formulas():
    assert len(PAIRS) > 60


def test_composed_ones():
    normals = [d.Normal(t(0.0, 1.0), t(1.0, 2.0)), d.Normal(t(0.5, 0.5), t(2.0, 1.0))]
    each = d.kl_divergence(*normals)
    assert d.kl_divergence(*(d.Independent(n, 1) for n in normals)).item() == pytest.approx(each.sum().item())
    logs = [d.LogNormal(n.loc, n.scale) for n in normals]
    assert d.kl_divergence(*logs).tolist() == pytest.approx(each.tolist())


def test_registering():
    class Own(d.Normal):
        pass

    @d.register_kl(Own, d.Normal)
    def _(p, q):
        return jit.tensor(7.0)

    try:
        assert d.kl_divergence(Own(0.0, 1.0), d.Normal(0.0, 1.0)).item() == 7
        assert d.kl_divergence(d.Normal(0.0, 1.0), Own(0.0, 1.0)).item() == 0
    finally:
        del _FORMULAS[Own, d.Normal]
    with pytest.raises(UnwrittenError, match="register_kl"):
        d.kl_divergence(d.VonMises(0.0, 1.0), d.Normal(0.0, 1.0))
    with pytest.raises(Error, match="classes of distributions"):
        d.register_kl(int, d.Normal)
