"""`lobpcg`: the greatest or the least eigenvalues of a large symmetric matrix that is only multiplied with.

The method of Knyazev (2001), locally optimal and preconditioned: the next vectors are the best ones in the space of the
present ones, their residuals, and the last steps. Where gradients are wanted, or nearly all eigenvalues, the matrix is
decomposed as a whole.
"""

from __future__ import annotations

from typing import Any

from jit.eager import context
from jit.eager.namespace import F
from jit.eager.tensors import Tensor
from jit.ir import dtypes
from jit.ir.errors import DTypeError, ShapeError, UsageError


def lobpcg(
    A: Any, k: int | None = None, B: Any = None, X: Any = None, n: int | None = None, iK: Any = None,
    niter: int | None = None, tol: float | None = None, largest: bool | None = None, method: str | None = None,
    tracker: Any = None, ortho_iparams: Any = None, ortho_fparams: Any = None, ortho_bparams: Any = None,
) -> tuple[Any, Any]:  # fmt: skip
    """The `k` greatest or least eigenvalues of ``A x = e B x``, and their vectors.

    Args:
        A: A symmetric matrix, dense or sparse, or several dense ones.
        k: The number of eigenvalues; that of the columns of `X`, or 1, if left out.
        B: A positive definite matrix; the identity if left out.
        X: The vectors to start from, as columns; random ones if left out.
        n: The number of vectors that are improved together, at least `k`.
        iK: A matrix by which residuals are multiplied, near the inverse of `A`.
        niter: The most iterations; 1000 if left out, and no limit for -1.
        tol: The relative residual that is small enough.
        largest: Whether the greatest are wanted, which come first; otherwise the least come first.
        method: "basic" or "ortho", which do the same.
        tracker: None: iterations are not told of.
        ortho_iparams: Accepted; makes no difference.
        ortho_fparams: Accepted; makes no difference.
        ortho_bparams: Accepted; makes no difference.

    Raises:
        ShapeError: There are not so many eigenvalues, or `A` is no square matrix.
        DTypeError: It is not of floating point numbers.
        UsageError: There is a tracker, or no such method.

    >>> import jit
    >>> values, vectors = jit.lobpcg(jit.diag(jit.arange(1.0, 21.0)), k=2)
    >>> [round(each, 3) for each in values.tolist()], vectors.shape
    ([20.0, 19.0], jit.Size([20, 2]))
    """
    if method not in (None, "basic", "ortho") or tracker is not None:
        raise UsageError('lobpcg: the method is "basic" or "ortho", and there is no tracker; leave them out')
    wanted = _count(A, k, X)
    greatest = largest is None or largest
    width = max(wanted, n or 0, 0 if X is None else X.shape[-1])
    if (
        context.GRAD_ENABLED.get()
        and (A.requires_grad or (B is not None and B.requires_grad))
        or 3 * width > A.shape[-1]
    ):
        return _decomposed(A, B, wanted, greatest)
    with context.no_grad():
        if len(A.shape) > 2:
            return _one_by_one(A, B, X, wanted, width, iK, niter, tol, greatest)
        turns = 1000 if niter is None else niter
        return _Improvement(A, B, iK, greatest, tol).found(_started(A, X, width), wanted, turns)


def _count(A: Any, k: int | None, X: Any) -> int:
    sizes = list(A.shape)
    if len(sizes) < 2 or sizes[-1] != sizes[-2]:
        raise ShapeError(f"lobpcg takes square matrices, and this has sizes {sizes}")
    if not A.dtype.is_floating_point:
        raise DTypeError(
            f"lobpcg takes matrices of floating point numbers, not of {A.dtype.name}; convert with .to(...)"
        )
    count = k if k is not None else 1 if X is None else int(X.shape[-1])
    if not 1 <= count <= sizes[-1]:
        raise ShapeError(f"lobpcg: a matrix of sizes {sizes} has no {count} eigenvalues; pass another k")
    return count


def _started(A: Any, X: Any, width: int) -> Any:
    """The vectors to start from: those that are given, and random ones for the rest."""
    given = 0 if X is None else X.shape[-1]
    drawn = F.randn((A.shape[-1], width - given), dtype=A.dtype, device=A.device)
    return drawn if X is None else F.cat([X, drawn], -1)


def _one_by_one(A: Any, B: Any, X: Any, wanted: int, width: int, iK: Any, niter: Any, tol: Any, greatest: bool) -> Any:
    def flat(matrices: Any) -> Any:
        """The matrices in a row, the same for all where there is one."""
        return None if matrices is None else F.expand(matrices, [*A.shape[:-2], *matrices.shape[-2:]]).flatten(0, -3)

    rest = [flat(each) for each in (B, X, iK)]
    found = []
    for number, matrix in enumerate(flat(A)):
        b, x, ik = (None if each is None else each[number] for each in rest)
        search = _Improvement(matrix, b, ik, greatest, tol)
        found.append(search.found(_started(matrix, x, width), wanted, 1000 if niter is None else niter))
    values, vectors = (F.stack(list(each)) for each in zip(*found, strict=True))
    return F.reshape(values, [*A.shape[:-2], wanted]), F.reshape(vectors, [*A.shape[:-1], wanted])


def _decomposed(A: Any, B: Any, wanted: int, greatest: bool) -> tuple[Any, Any]:
    """The eigenvalues of the whole matrix, of which as many are taken."""
    A, B = (each if each is None or isinstance(each, Tensor) else each.to_dense() for each in (A, B))
    lower = None if B is None else F.linalg_cholesky(B)
    if lower is not None:  # A x = e B x for B = L Lᵀ is (L⁻¹ A L⁻ᵀ) y = e y for y = Lᵀ x
        half = F.linalg_solve_triangular(lower, A, upper=False)
        A = F.linalg_solve_triangular(lower, F.transpose(half, -2, -1), upper=False)
    values, vectors = F.linalg_eigh(A)
    values, vectors = (F.flip(each, [-1]) if greatest else each for each in (values, vectors))
    values, vectors = F.narrow(values, -1, 0, wanted), F.narrow(vectors, -1, 0, wanted)
    if lower is not None:
        vectors = F.linalg_solve_triangular(F.transpose(lower, -2, -1), vectors, upper=True)
    return values, vectors


class _Improvement:
    """The improvement of vectors until their residuals are small."""

    def __init__(self, A: Any, B: Any, iK: Any, greatest: bool, tol: float | None) -> None:
        self.A, self.B, self.iK, self.sign = A, B, iK, -1 if greatest else 1
        self.eps = 1.2e-7 if A.dtype is dtypes.float32 else 2.23e-16
        self.tol = self.eps**0.5 if tol is None else tol

    def found(self, X: Any, wanted: int, niter: int) -> tuple[Any, Any]:
        """The eigenvalues and their vectors.

        Args:
            X: The vectors to start from.
            wanted: How many are to be good enough, and are returned.
            niter: The most iterations; -1 for no limit.
        """
        values, X, step = self._best(self._orthonormal(X), X.shape[-1])
        scale = F.linalg_vector_norm(self._times(self.A, X)) / X.shape[-1] ** 0.5
        turn = 0
        while turn != niter:
            residuals = self._times(self.A, X) - self._with_b(X) * values
            lengths = (
                F.linalg_vector_norm(residuals, 2, [0]) / (scale + F.abs(values)) / F.linalg_vector_norm(X, 2, [0])
            )
            if bool(F.all(lengths[:wanted] < self.tol)):
                break
            values, X, step = self._improved(X, residuals, step)
            turn += 1
        return values[:wanted], X[:, :wanted]

    def _improved(self, X: Any, residuals: Any, step: Any) -> tuple[Any, Any, Any]:
        better = residuals if self.iK is None else F.matmul(self.iK, residuals)
        others = better if step is None else F.cat([better, step], -1)
        for _ in range(2):  # one time leaves what rounding adds
            others = others - F.matmul(X, F.matmul(X.mT, self._with_b(others)))
        space = F.cat([X, self._orthonormal(others)], -1)
        return self._best(self._orthonormal(space), X.shape[-1], X)

    def _best(self, space: Any, width: int, before: Any = None) -> tuple[Any, Any, Any]:
        """The best vectors in a space, their values, and what they have that those before have not."""
        small = F.matmul(space.mT, self._times(self.A, space))
        values, mixed = F.linalg_eigh((small + small.mT) * (0.5 * self.sign))
        found = F.matmul(space, mixed[:, :width])
        step = None if before is None else found - F.matmul(before, F.matmul(before.mT, self._with_b(found)))
        return values[:width] * self.sign, found, step

    def _orthonormal(self, vectors: Any) -> Any:
        """A basis of the space of vectors, orthonormal in the product of B; without what rounding alone has made."""
        vectors = vectors / F.clamp_min(F.linalg_vector_norm(vectors, 2, [0], True), 1e-30)
        for _ in range(2):
            products = F.matmul(vectors.mT, self._with_b(vectors))
            sizes, turned = F.linalg_eigh((products + products.mT) / 2)
            kept = sizes > sizes[-1] * self.eps * vectors.shape[0] ** 0.5
            vectors = F.matmul(vectors, turned[:, kept] / F.sqrt(sizes[kept]))
        return vectors

    def _with_b(self, vectors: Any) -> Any:
        return vectors if self.B is None else self._times(self.B, vectors)

    @staticmethod
    def _times(matrix: Any, vectors: Any) -> Any:
        return matrix @ vectors


__all__ = ["lobpcg"]
