"""Transforms: inverses, volumes by the determinants of Jacobians, and the sets that they lead to."""

from __future__ import annotations

import pytest

import jit
from jit import distributions as d
from jit.distributions import constraints as c

X = jit.tensor([0.3, -0.7, 1.1], dtype=jit.float64)

ELEMENTWISE = {
    "exp": d.ExpTransform(),
    "sigmoid": d.SigmoidTransform(),
    "tanh": d.TanhTransform(),
    "softplus": d.SoftplusTransform(),
    "affine": d.AffineTransform(1.0, -2.0),
    "affine of tensors": d.AffineTransform(X, X + 2),
    "composed": d.ComposeTransform([d.AffineTransform(0.0, 0.5), d.ExpTransform(), d.PowerTransform(2.0)]),
    "cat": d.CatTransform([d.ExpTransform(), d.TanhTransform()], 0, [1, 2]),
    "stack": d.StackTransform([d.ExpTransform(), d.TanhTransform(), d.SigmoidTransform()], 0),
    "cdf": d.CumulativeDistributionTransform(d.Normal(0.0, 1.0)),
    "inverse": d.ExpTransform().inv.inv,
    "cached": d.ExpTransform(cache_size=1),
}
OF_VECTORS = {
    "independent": d.IndependentTransform(d.ExpTransform(), 1),
    "stick": d.StickBreakingTransform(),
    "shifted stick": d.ComposeTransform([d.AffineTransform(0.0, 0.5), d.StickBreakingTransform()]),
    "correlations": d.CorrCholeskyTransform(),
    "reshape": d.ReshapeTransform((3,), (3, 1)),
}
BOTH = ELEMENTWISE | OF_VECTORS


@pytest.mark.parametrize("name", BOTH)
def test_inverse(name):
    transform = BOTH[name]
    y = transform(X)
    assert (transform.inv(y) - X).abs().max() < 1e-9
    assert transform.codomain.check(y).all()
    assert tuple(transform.forward_shape(X.shape)) == tuple(y.shape)
    assert tuple(transform.inverse_shape(y.shape)) == (3,)


def coordinates(name, y):
    """As many numbers of a result as there are free ones."""
    if "stick" in name:
        return y[:-1]
    return d.utils.tril_matrix_to_vec(y, -1) if name == "correlations" else y.reshape(-1)


@pytest.mark.parametrize("name", BOTH)
def test_volume(name):
    transform = BOTH[name]
    matrix = jit.func.jacrev(lambda x: coordinates(name, transform(x)))(X)
    have = transform.log_abs_det_jacobian(X, transform(X))
    assert have.shape == ((3,) if name in ELEMENTWISE else ())
    assert have.sum().item() == pytest.approx(jit.linalg.slogdet(matrix)[1].item(), abs=1e-9)


@pytest.mark.parametrize(
    ("constraint", "vector"),
    [
        (c.real, X), (c.positive, X), (c.nonnegative, X), (c.unit_interval, X), (c.simplex, X),
        (c.interval(-1.0, 2.0), X),
        (c.greater_than(1.0), X), (c.less_than(-1.0), X), (c.corr_cholesky, X), (c.real_vector, X),
        (c.independent(c.positive, 1), X), (c.lower_cholesky, jit.outer(X, X) + X),
        (c.positive_definite, jit.outer(X, X) + X), (c.cat([c.positive, c.real], 0, [1, 2]), X),
        (c.stack([c.positive, c.real, c.unit_interval]), X),
    ],
)  # fmt: skip
@pytest.mark.parametrize("registry", [d.biject_to, d.transform_to])
def test_any_numbers_lead_into_a_set(constraint, vector, registry):
    assert constraint.check(registry(constraint)(vector)).all()


@pytest.mark.parametrize(
    ("constraint", "inside", "outside"),
    [
        (c.boolean, [0.0, 1.0], [0.5]), (c.positive, [0.1], [0.0, -1.0]), (c.nonnegative, [0.0], [-1.0]),
        (c.nonnegative_integer, [0.0, 3.0], [0.5, -1.0]), (c.unit_interval, [0.0, 1.0], [1.1]),
        (c.half_open_interval(0.0, 1.0), [0.0], [1.0]), (c.real, [1.0, float("inf")], [float("nan")]),
        (c.integer_interval(1, 3), [1.0, 3.0], [0.0, 2.5]),
    ],
)  # fmt: skip
def test_membership(constraint, inside, outside):
    assert constraint.check(jit.tensor(inside)).all() and not constraint.check(jit.tensor(outside)).any()


def test_membership_of_vectors_and_matrices():
    assert c.simplex.check(jit.tensor([0.25, 0.75])) and not c.simplex.check(jit.tensor([0.5, 0.6]))
    assert c.one_hot.check(jit.tensor([0, 1])) and not c.one_hot.check(jit.tensor([1, 1]))
    assert c.positive_definite.check(jit.eye(2)) and not c.positive_definite.check(-jit.eye(2))
    assert not c.symmetric.check(jit.tensor([[1.0, 2.0], [0.0, 1.0]]))


def test_densities_of_transformed_values():
    """That of exp of a normal number is LogNormal's, and a falling transform turns the cumulative function around."""
    base, x = d.Normal(X, 1.0), X.exp()
    ours = d.TransformedDistribution(base, [d.ExpTransform()])
    assert (ours.log_prob(x) - d.LogNormal(X, 1.0).log_prob(x)).abs().max() < 1e-12
    mirrored = d.TransformedDistribution(d.Exponential(jit.ones(3, dtype=jit.float64)), d.AffineTransform(0.0, -1.0))
    value = -X.abs()
    assert (mirrored.cdf(value) - value.exp()).abs().max() < 1e-12
    assert (mirrored.icdf(mirrored.cdf(value)) - value).abs().max() < 1e-12


def test_equality_decides_on_divergences():
    assert d.AffineTransform(0.0, 2.0) == d.AffineTransform(0.0, 2.0) != d.AffineTransform(0.0, 3.0)
    assert d.ExpTransform() == d.ExpTransform() != d.TanhTransform()
