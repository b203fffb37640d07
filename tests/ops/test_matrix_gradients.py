"""Derivatives of factorizations, of functions that do not depend on the signs or phases of their factors."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import jit
from jit import linalg
from jit.autograd import gradcheck, gradgradcheck

SQUARE, TALL, WIDE, BATCH = (3, 3), (4, 3), (3, 4), (2, 3, 3)


def matrices(*sizes: int) -> jit.Tensor:
    values = np.random.default_rng(7).uniform(-1, 1, sizes)
    return jit.from_numpy(values + np.eye(sizes[-2], sizes[-1]) * np.arange(1, sizes[-1] + 1)).requires_grad_()


def positive(x: jit.Tensor) -> jit.Tensor:
    return x @ x.mT


def projections(x: jit.Tensor) -> jit.Tensor:
    """What belongs to each eigenvalue, whatever the sign of its vector."""
    vectors = linalg.eigh(x + x.mT)[1]
    return vectors.unsqueeze(-2) * vectors.unsqueeze(-3)


def both_sides(x: jit.Tensor, full: bool = False) -> tuple[jit.Tensor, jit.Tensor]:
    """Products of left and right singular vectors, whatever the sign of both."""
    u, s, vh = linalg.svd(x, full)
    least = min(x.shape[-2:])
    return u[..., :least].mT.unsqueeze(-1) * vh[..., :least, :].unsqueeze(-2), s


def sizes_of_vectors(x: jit.Tensor) -> tuple[jit.Tensor, jit.Tensor]:
    values, vectors = linalg.eig(x)
    return values.abs(), vectors.abs()


CASES: dict[str, tuple[Callable[[jit.Tensor], Any], tuple[int, ...]]] = {
    "cholesky": (lambda x: linalg.cholesky(positive(x)), SQUARE),
    "cholesky, upper": (lambda x: linalg.cholesky(positive(x), upper=True), BATCH),
    "eigvalsh": (lambda x: linalg.eigvalsh(x + x.mT), BATCH),
    "eigh": (projections, SQUARE),
    "eigvals": (lambda x: linalg.eigvals(x).abs(), SQUARE),
    "eig": (sizes_of_vectors, SQUARE),
    "svd": (both_sides, SQUARE),
    "svd, tall": (both_sides, TALL),
    "svd, wide": (both_sides, WIDE),
    "svd, full": (lambda x: both_sides(x, True), SQUARE),
    "pinv, hermitian": (lambda x: linalg.pinv(x + x.mT, hermitian=True), SQUARE),
    "lstsq": (lambda x: linalg.lstsq(x, jit.ones(4, 2, dtype=jit.float64))[:2], TALL),
    "matrix_rank is no obstacle": (lambda x: x * linalg.matrix_rank(x), SQUARE),
}


@pytest.mark.parametrize(("function", "sizes"), CASES.values(), ids=CASES)
def test_derivatives(function: Callable[[jit.Tensor], Any], sizes: tuple[int, ...]) -> None:
    """Of first and second order they equal central differences."""
    x = matrices(*sizes)
    assert gradcheck(function, [x])
    assert gradgradcheck(function, [x])


def test_the_gradient_of_a_singular_determinant() -> None:
    """It is made of cofactors, which exist where the inverse does not."""
    x = jit.tensor([[1.0, 2.0], [2.0, 4.0]], dtype=jit.float64, requires_grad=True)
    (found,) = jit.grad([linalg.det(x)], [x])
    np.testing.assert_allclose(found.numpy(), [[4, -2], [-2, 1]], atol=1e-12)


@pytest.mark.parametrize("name", ["inv", "cholesky", "solve"])
def test_singular_matrices_are_refused(name: str) -> None:
    zeros = jit.zeros(2, 2)
    arguments = (zeros, jit.ones(2, 1)) if name == "solve" else (zeros,)
    with pytest.raises(linalg.LinAlgError):
        getattr(linalg, name)(*arguments)
    found, info = getattr(linalg, f"{name}_ex")(*arguments)
    assert info.item() > 0
    assert found.dtype is jit.float32
