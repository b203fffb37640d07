"""Low-rank decompositions: exact where the rank is low, close where it is nearly so; the same traced as eager."""

from typing import Any

import numpy as np
import pytest

import jit


def matrix(*sizes: int, rank: int, kind: str = "float64", noise: float = 0.0) -> Any:
    """Of a rank, plus noise."""
    rng = np.random.default_rng(0)

    def normal(*shape: int) -> Any:
        return rng.normal(size=shape) + (1j * rng.normal(size=shape) if kind.startswith("complex") else 0)

    exact = normal(*sizes[:-1], rank) @ normal(*sizes[:-2], rank, sizes[-1])
    return jit.from_numpy((exact + noise * normal(*sizes)).astype(kind))


def composed(U: Any, S: Any, V: Any) -> Any:
    return (U * S.unsqueeze(-2).to(U.dtype)) @ V.mH


@pytest.mark.parametrize("sizes", [(9, 5), (5, 9), (40, 30), (2, 3, 12, 7), (4, 4)], ids=str)
@pytest.mark.parametrize("kind", ["float32", "float64", "complex128"])
def test_exact_where_the_rank_is_low(sizes, kind):
    a = matrix(*sizes, rank=3, kind=kind)
    U, S, V = jit.svd_lowrank(a, q=4)
    assert (U.shape, S.shape, V.shape) == ((*sizes[:-1], 4), (*sizes[:-2], 4), (*sizes[:-2], sizes[-1], 4))
    scale = 1e-4 if kind == "float32" else 1e-10
    np.testing.assert_allclose(composed(U, S, V).numpy(), a.numpy(), atol=10 * scale)
    expected = np.linalg.svd(a.numpy(), compute_uv=False)[..., :4]
    np.testing.assert_allclose(S.numpy(), expected, atol=10 * scale)
    eye = np.broadcast_to(np.eye(4), (*sizes[:-2], 4, 4))
    for vectors in (U, V):
        np.testing.assert_allclose((vectors.mH @ vectors).numpy(), eye, atol=scale)


def test_turns_sharpen():
    jit.manual_seed(0)
    a = matrix(60, 50, rank=4, noise=0.3)
    exact = np.linalg.svd(a.numpy(), compute_uv=False)[:6]
    errors = [np.abs(jit.svd_lowrank(a, q=6, niter=n)[1].numpy() - exact).max() for n in (0, 1, 6)]
    assert errors[0] > 2 * errors[1] > 4 * errors[2] and errors[2] < 0.05 * exact[-1]


def test_what_is_taken_off():
    a, row = matrix(9, 5, rank=2), matrix(1, 5, rank=1)
    np.testing.assert_allclose(composed(*jit.svd_lowrank(a, M=row)).numpy(), (a - row).numpy(), atol=1e-10)


def test_more_than_there_are():
    a = matrix(3, 5, rank=3)
    U, S, V = jit.svd_lowrank(a, q=10)
    assert S.shape == (3,)
    np.testing.assert_allclose(composed(U, S, V).numpy(), a.numpy(), atol=1e-10)


@pytest.mark.parametrize("center", [True, False])
def test_principal_components(center):
    a = matrix(30, 8, rank=3) + 5
    U, S, V = jit.pca_lowrank(a, center=center)
    assert (U.shape, S.shape, V.shape) == ((30, 6), (6,), (8, 6))
    centred = a.numpy() - (a.numpy().mean(0) if center else 0)
    np.testing.assert_allclose(composed(U, S, V).numpy(), centred, atol=1e-9)
    if center:
        variances = np.sort(np.linalg.eigvalsh(np.cov(a.numpy().T)))[::-1][:6]
        np.testing.assert_allclose((S**2 / 29).numpy(), variances, atol=1e-9)


def test_gradients_are_those_of_the_singular_values():
    a = matrix(5, 4, rank=4).requires_grad_()
    (g,) = jit.grad(jit.svd_lowrank(a, q=4)[1].sum(), a)
    u, _, vh = np.linalg.svd(a.detach().numpy(), full_matrices=False)
    np.testing.assert_allclose(g.numpy(), u @ vh, atol=1e-8)


@pytest.mark.parametrize("function", [jit.svd_lowrank, jit.pca_lowrank], ids=["svd", "pca"])
def test_traced_calls_draw_the_same_numbers(function):
    f = jit.trace(lambda a: composed(*function(a, q=3)))
    a = matrix(12, 9, rank=6, kind="float32")
    for seed in (0, 1, 2):
        jit.manual_seed(seed)
        expected = composed(*function(a, q=3)).numpy()
        jit.manual_seed(seed)
        np.testing.assert_allclose(f(a).numpy(), expected, atol=1e-4)
    assert (f.hits, f.misses) == (2, 1)


@pytest.mark.parametrize(
    "call, error, said",
    [
        (lambda: jit.svd_lowrank(jit.ones(3)), jit.ShapeError, "svd_lowrank: A must be matrices, and has 1 dims"),
        (lambda: jit.pca_lowrank(jit.ones(3)), jit.ShapeError, "pca_lowrank: A must be matrices, and has 1 dims"),
        (lambda: jit.svd_lowrank(jit.ones(3, 3, dtype=jit.int64)), jit.DTypeError, "must be of floating point"),
        (lambda: jit.svd_lowrank(jit.ones(3, 3), q=-1), jit.UsageError, "must not be negative, got -1 and 2"),
        (lambda: jit.svd_lowrank(jit.ones(3, 3), niter=-1), jit.UsageError, "must not be negative, got 6 and -1"),
        (lambda: jit.pca_lowrank(jit.ones(3, 5), q=4), jit.UsageError, "must not exceed the 3 rows or columns"),
    ],
)
def test_wrong_calls(call, error, said):
    with pytest.raises(error, match=said):
        call()
