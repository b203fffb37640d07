"""What factorizations, solutions and functions of matrices should compute, in float64 numpy and SciPy."""

from typing import Any

import numpy as np
import scipy.linalg


def each(function: Any) -> Any:
    """A function of matrices, which may return several, over a batch."""

    def run(*arrays: Any, **options: Any) -> Any:
        batch = np.broadcast_shapes(*(a.shape[:-2] for a in arrays))
        wide = [np.broadcast_to(a, (*batch, *a.shape[-2:])) for a in arrays]
        found = [function(*(a[at] for a in wide), **options) for at in np.ndindex(*batch)]
        several = isinstance(found[0], tuple)
        parts = zip(*found, strict=True) if several else [found]
        stacked = [np.stack(p).reshape(*batch, *np.shape(p[0])) for p in parts]
        return tuple(stacked) if several else stacked[0]

    return run


def h(x: Any) -> Any:
    return np.swapaxes(x, -1, -2).conj()


def no_info(A: Any) -> Any:
    return np.zeros(A.shape[:-2], np.int32)


def lu_factor(A: Any, pivot: bool) -> Any:
    return each(lambda x: (lambda lu, p: (lu, p + 1))(*scipy.linalg.lu_factor(x)))(A)


def permutation(pivots: Any, rows: int) -> Any:
    """Exchanges of rows one after the other, as a product of matrices."""
    out = np.eye(rows)
    for row, other in enumerate(pivots):
        step = np.eye(rows)
        step[[row, other - 1]] = step[[other - 1, row]]
        out = out @ step
    return out


def lu_unpack(lu: Any, pivots: Any, unpack_data: bool = True, unpack_pivots: bool = True) -> Any:
    rows = lu.shape[-2]
    least = min(lu.shape[-2:])
    P = np.stack([permutation(p, rows) for p in pivots.reshape(-1, least)]).reshape(*lu.shape[:-2], rows, rows)
    L = np.tril(lu[..., :least], -1) + np.eye(rows, least)
    return P if unpack_pivots else np.zeros(0), L, np.triu(lu[..., :least, :])


def lu_solve(lu: Any, pivots: Any, B: Any, left: bool = True, adjoint: bool = False) -> Any:
    P, L, U = lu_unpack(lu, pivots)
    A = P @ L @ U
    A = h(A) if adjoint else A
    return np.linalg.solve(A, B) if left else h(np.linalg.solve(h(A), h(B)))


def cholesky(self: Any, upper: bool) -> Any:
    L = np.linalg.cholesky(self)
    return h(L) if upper else L


def cholesky_solve(self: Any, factor: Any, upper: bool) -> Any:
    A = h(factor) @ factor if upper else factor @ h(factor)
    return np.linalg.solve(A, self)


def triangle(A: Any, upper: bool, unitriangular: bool) -> Any:
    part = np.triu(A) if upper else np.tril(A)
    eye = np.eye(A.shape[-1])
    return part * (1 - eye) + eye if unitriangular else part


def solve_triangular(A: Any, B: Any, upper: bool, left: bool, unitriangular: bool) -> Any:
    T = triangle(A, upper, unitriangular)
    return np.linalg.inv(T) @ B if left else B @ np.linalg.inv(T)


def triangular_solve(B: Any, A: Any, upper: bool, transpose: bool, unitriangular: bool) -> Any:
    T = triangle(A, upper, unitriangular)
    return np.linalg.solve(T.T if transpose else T, B), A


def solve(A: Any, B: Any, left: bool = True) -> Any:
    if B.ndim == A.ndim - 1:
        return (np.linalg.inv(A) @ B[..., None])[..., 0]
    return np.linalg.inv(A) @ B if left else B @ np.linalg.inv(A)


def eig(self: Any) -> Any:
    return tuple(np.linalg.eig(self))


def svd(A: Any, full: bool) -> Any:
    return tuple(np.linalg.svd(A, full_matrices=full))


def old_svd(self: Any, some: bool, compute_uv: bool) -> Any:
    U, S, Vh = svd(self, not some)
    return U, S, h(Vh)


def pinv(self: Any, atol: Any = None, rtol: Any = None, hermitian: bool = False) -> Any:
    return np.linalg.pinv(self, 1e-14 if rtol is None else rtol)


def lstsq(A: Any, B: Any, rcond: Any, driver: Any) -> Any:
    solution, residuals, rank, values = np.linalg.lstsq(A, B)
    return solution, residuals, rank, values


def tensorsolve(self: Any, other: Any, dims: Any) -> Any:
    return np.linalg.tensorsolve(self, other, dims)


def matrix_norm(self: Any, ord: Any, dim: Any, keepdim: bool, dtype: Any) -> Any:
    return np.linalg.norm(self, ord, tuple(dim), keepdim)


def norm(self: Any, ord: Any, dim: Any, keepdim: bool, dtype: Any) -> Any:
    return np.linalg.norm(self, ord, dim[0] if dim is not None and len(dim) == 1 else dim, keepdim)


def slogdet(A: Any) -> Any:
    return tuple(np.linalg.slogdet(A))


REFERENCES: dict[str, Any] = {
    "aten::linalg_lu_factor_ex": lambda A, pivot, check: (*lu_factor(A, pivot), no_info(A)),
    "aten::linalg_lu_factor": lu_factor,
    "aten::linalg_lu": lambda A, pivot: each(scipy.linalg.lu)(A),
    "aten::lu_unpack": lu_unpack,
    "aten::permutation_of": lambda pivots, rows, dtype: np.stack([permutation(p, rows) for p in pivots]),
    "aten::linalg_lu_solve": lu_solve,
    "aten::lu_solve": lambda self, lu, pivots: lu_solve(lu, pivots, self),
    "aten::linalg_cholesky_ex": lambda self, upper, check: (cholesky(self, upper), no_info(self)),
    "aten::linalg_cholesky": cholesky,
    "aten::cholesky": cholesky,
    "aten::cholesky_solve": cholesky_solve,
    "aten::cholesky_inverse": lambda self, upper: cholesky_solve(np.eye(self.shape[-1]), self, upper),
    "aten::linalg_qr": lambda A, mode: tuple(np.linalg.qr(A, mode)),
    "aten::qr": lambda self, some: tuple(np.linalg.qr(self, "reduced" if some else "complete")),
    "aten::linalg_eigh": lambda self, UPLO: tuple(np.linalg.eigh(self, UPLO)),
    "aten::linalg_eigvalsh": np.linalg.eigvalsh,
    "aten::linalg_eig": eig,
    "aten::linalg_eigvals": lambda self: eig(self)[0],
    "aten::linalg_svd": svd,
    "aten::svd": old_svd,
    "aten::linalg_svdvals": np.linalg.svdvals,
    "aten::linalg_solve_triangular": solve_triangular,
    "aten::triangular_solve": triangular_solve,
    "aten::_linalg_solve": lambda A, B: (np.linalg.inv(A) @ B, no_info(A)),
    "aten::linalg_solve_ex": lambda A, B, left, check: (solve(A, B, left), no_info(A)),
    "aten::linalg_solve": solve,
    "aten::linalg_inv_ex": lambda A, check: (np.linalg.inv(A), no_info(A)),
    "aten::linalg_inv": np.linalg.inv,
    "aten::inverse": np.linalg.inv,
    "aten::linalg_tensorinv": np.linalg.tensorinv,
    "aten::linalg_tensorsolve": tensorsolve,
    "aten::linalg_det": np.linalg.det,
    "aten::linalg_slogdet": slogdet,
    "aten::logdet": lambda self: np.log(np.linalg.det(self)),
    "aten::linalg_pinv.atol_rtol_tensor": pinv,
    "aten::linalg_pinv": lambda self, rcond, hermitian: pinv(self, rtol=rcond),
    "aten::pinverse": lambda self, rcond: pinv(self, rtol=rcond),
    "aten::_pinv": pinv,
    "aten::linalg_matrix_rank": lambda self, atol, rtol, hermitian: np.linalg.matrix_rank(self),
    "aten::linalg_matrix_rank.tol": lambda self, tol, hermitian: np.linalg.matrix_rank(self, tol),
    "aten::linalg_lstsq": lstsq,
    "aten::linalg_matrix_power": np.linalg.matrix_power,
    "aten::linalg_matrix_exp": lambda self: each(lambda x: scipy.linalg.expm(x))(self),
    "aten::linalg_multi_dot": np.linalg.multi_dot,
    "aten::chain_matmul": np.linalg.multi_dot,
    "aten::linalg_matrix_norm": matrix_norm,
    "aten::linalg_matrix_norm.str_ord": matrix_norm,
    "aten::linalg_norm": norm,
    "aten::linalg_norm.ord_str": norm,
    "aten::nuclear_norm": lambda self, keepdim: np.linalg.norm(self, "nuc"),
    "aten::linalg_cond": np.linalg.cond,
    "aten::linalg_cond.p_str": np.linalg.cond,
}
