"""Singular values and principal components of large matrices, by random projections onto few directions.

The method of Halko, Martinsson and Tropp (2009): a matrix of rank about q maps q random vectors to a basis of about its
whole range; applying the matrix and its adjoint a few times sharpens the basis. In it, a small matrix is decomposed.
"""

from __future__ import annotations

from typing import Any

from jit.eager.expecting import expect
from jit.eager.namespace import F
from jit.eager.tensors import Tensor
from jit.ir.errors import DTypeError, ShapeError, UsageError


def svd_lowrank(A: Tensor, q: int = 6, niter: int = 2, M: Tensor | None = None) -> tuple[Tensor, Tensor, Tensor]:
    """About the `q` largest singular values of `A - M`, with their vectors: U, S and V, where U diag(S) V^H is near it.

    Args:
        A: Matrices, of sizes (*, m, n), of floating point or complex numbers.
        q: The number of singular values; take a few more than the rank that is expected.
        niter: The number of iterations that sharpen the result.
        M: The matrices to subtract, of the sizes of `A` or broadcast to them; None for none.

    Returns:
        U of sizes (*, m, q), S of sizes (*, q), the largest first, and V of sizes (*, n, q).

    Raises:
        ShapeError: `A` is no matrix.
        DTypeError: It is of integers.
        UsageError: `q` or `niter` is negative.

    >>> import jit
    >>> a = jit.arange(1.0, 5.0)[:, None] * jit.arange(1.0, 4.0)
    >>> u, s, v = jit.svd_lowrank(a, q=2)
    >>> jit.allclose(u @ jit.diag(s) @ v.mT, a, rtol=1e-4)
    True
    """
    _check("svd_lowrank", A, q, niter)
    rest = A if M is None else A - M
    rows, columns = rest.shape[-2:]
    if rows >= columns and columns <= q:
        return _decomposed(rest, q, niter)
    U, S, V = _decomposed(rest.mH, q, niter)
    return V, S, U


def pca_lowrank(
    A: Tensor, q: int | None = None, center: bool = True, niter: int = 2
) -> tuple[Tensor, Tensor, Tensor]:  # fmt: skip
    """About the `q` principal components of the rows of `A`; see `svd_lowrank` for what is returned.

    The columns of V are the directions, `S ** 2 / (m - 1)` the variances along them, `A @ V` the components.

    Args:
        A: Tables of m rows of n numbers, of sizes (*, m, n).
        q: The number of components; if left out 6, or m or n if that is less.
        center: Whether to subtract each column's mean first.
        niter: The number of iterations that sharpen the result.

    Raises:
        UsageError: `q` is greater than m or n, or `q` or `niter` is negative.

    >>> import jit
    >>> points = jit.tensor([[0.0, 0.0], [1.0, 2.0], [2.0, 4.0]])
    >>> u, s, v = jit.pca_lowrank(points, q=1)
    >>> (v[1] / v[0]).round(decimals=3)
    tensor([2.])
    """
    expect("pca_lowrank", A)
    most = min(A.shape[-2:]) if A.ndim >= 2 else 0
    wanted = min(6, most) if q is None else q
    _check("pca_lowrank", A, wanted, niter)
    if wanted > most:
        raise UsageError(f"pca_lowrank: q must not exceed the {most} rows or columns that there are, got {wanted}")
    return svd_lowrank(A - A.mean(-2, keepdim=True) if center else A, wanted, niter)


def _check(name: str, A: Any, q: int, niter: int) -> None:
    expect(name, A)
    if A.ndim < 2:
        raise ShapeError(f"{name}: A must be matrices, and has {A.ndim} dims")
    if not (A.dtype.is_floating_point or A.dtype.is_complex):
        raise DTypeError(f"{name}: A must be of floating point numbers, and is of {A.dtype}; call A.float() first")
    if q < 0 or niter < 0:
        raise UsageError(f"{name}: q and niter must not be negative, got {q} and {niter}")


def _decomposed(A: Any, q: int, niter: int) -> tuple[Any, Any, Any]:
    basis = _basis(A, q, niter)
    U, S, Vh = F.linalg_svd(basis.mH @ A, False)
    return basis @ U, S, Vh.mH


def _basis(A: Any, q: int, niter: int) -> Any:
    """Orthonormal columns that span about the range of `A`."""
    basis = F.linalg_qr(A @ F.randn([A.shape[-1], q], dtype=A.dtype, device=A.device))[0]
    for _ in range(niter):
        basis = F.linalg_qr(A.mH @ basis)[0]
        basis = F.linalg_qr(A @ basis)[0]
    return basis
