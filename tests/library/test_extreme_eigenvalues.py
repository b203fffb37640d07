"""`lobpcg` against the decomposition of the whole matrix in numpy, dense and sparse, and its gradients."""

import numpy as np
import pytest

import jit
from jit.autograd import gradcheck


def symmetric(n, seed=0):
    x = np.random.default_rng(seed).standard_normal((n, n))
    return (x + x.T) / 2


def positive(n):
    x = np.random.default_rng(9).standard_normal((n, n))
    return x @ x.T / n + np.eye(n)


def extreme(a, b, k, largest):
    """The eigenvalues that are asked for, by numpy."""
    half = np.linalg.inv(np.linalg.cholesky(np.eye(len(a)) if b is None else b))
    values = np.linalg.eigvalsh(half @ a @ half.T)
    return values[::-1][:k] if largest else values[:k]


def check(a, b, k, largest, **options):
    dtype = options.pop("dtype", np.float64)
    given = options.pop("A", jit.tensor(a.astype(dtype)))
    weights = np.eye(len(a)) if b is None else b
    jit.manual_seed(0)
    values, vectors = jit.lobpcg(
        given, k, B=None if b is None else jit.tensor(b.astype(dtype)), largest=largest, **options
    )
    tolerance = 1e-4 if dtype == np.float32 else 1e-10
    np.testing.assert_allclose(values.numpy(), extreme(a, b, k, largest), rtol=tolerance, atol=tolerance)
    x = vectors.numpy()
    np.testing.assert_allclose(x.T @ weights @ x, np.eye(k), atol=tolerance)
    rest = a @ x - weights @ x * values.numpy()  # the square root of what the values are off, about
    assert np.abs(rest).max() < tolerance**0.5


@pytest.mark.parametrize("largest", [True, False])
@pytest.mark.parametrize("weighted", [False, True])
@pytest.mark.parametrize(("n", "k"), [(12, 1), (40, 3), (60, 8), (6, 3)])
def test_extreme_eigenvalues(n, k, weighted, largest):
    check(symmetric(n), positive(n) if weighted else None, k, largest)


@pytest.mark.parametrize("options", [
    {"dtype": np.float32}, {"n": 5}, {"method": "ortho"}, {"tol": 1e-9}, {"niter": -1},
    {"X": jit.tensor(np.random.default_rng(1).standard_normal((40, 3)))},
], ids=lambda options: next(iter(options)))  # fmt: skip
def test_options(options):
    check(symmetric(40), None, 3, True, **options)


@pytest.mark.parametrize("layout", ["to_sparse", "to_sparse_csr"])
def test_sparse_matrices_with_a_guess_of_the_inverse(layout):
    n = 90
    a = 2 * np.eye(n) - np.eye(n, k=1) - np.eye(n, k=-1)
    check(a, None, 2, False, A=getattr(jit.tensor(a), layout)(), iK=jit.tensor(np.linalg.inv(a)))
    check(a, None, 2, True, A=getattr(jit.tensor(a), layout)())


def test_several_matrices():
    a = np.stack([symmetric(20), symmetric(20, 5), 3 * symmetric(20)]).reshape(3, 1, 20, 20)
    values, vectors = jit.lobpcg(jit.tensor(a), 2)
    assert values.shape == (3, 1, 2) and vectors.shape == (3, 1, 20, 2)
    np.testing.assert_allclose(values.numpy()[:, 0], [extreme(each[0], None, 2, True) for each in a], rtol=1e-10)


def test_few_iterations_leave_the_values_inexact():
    a = symmetric(60)
    jit.manual_seed(0)
    values, vectors = jit.lobpcg(jit.tensor(a), 1, niter=2)
    exact = extreme(a, None, 1, True)[0]
    assert 0 < exact - values.item() < exact
    x = vectors.numpy()[:, 0]
    assert values.item() == pytest.approx(x @ a @ x / (x @ x))


def test_gradients():
    a = jit.tensor(symmetric(7), requires_grad=True)
    b = jit.tensor(positive(7), requires_grad=True)

    def values(a, b):
        return jit.lobpcg((a + a.mT) / 2, 2, B=(b + b.mT) / 2)[0]

    def sizes_of_parts(a):
        return jit.lobpcg((a + a.mT) / 2, 2, largest=False)[1].abs()

    assert gradcheck(values, (a, b)) and gradcheck(sizes_of_parts, (a,))


def test_refusals():
    with pytest.raises(jit.ShapeError, match="square"):
        jit.lobpcg(jit.ones(2, 3))
    with pytest.raises(jit.ShapeError, match="has no 4 eigenvalues"):
        jit.lobpcg(jit.eye(3), 4)
    with pytest.raises(jit.DTypeError, match="not of int64"):
        jit.lobpcg(jit.ones(2, 2, dtype=jit.int64))
    with pytest.raises(jit.UsageError, match="there is no tracker"):
        jit.lobpcg(jit.eye(3), tracker=print)
