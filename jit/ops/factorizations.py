"""Factorizations of matrices, batches of them included: LU, Cholesky, QR, eigenvalues, singular values.

LAPACK computes them. Their derivatives are written in products and solutions, so that they have derivatives again; of
factors that are determined up to signs or phases, they hold for functions that do not depend on these.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from jit.ir import dtypes
from jit.ir.errors import LinAlgError, ShapeError, UsageError
from jit.ir.op import Refusal, absent, array, composite
from jit.ir.precision import Precision
from jit.ir.samples import Sample, make, sample
from jit.ir.types import TensorType

from .common import is_integral

if TYPE_CHECKING:
    from jit.ir.dtypes import DType
    from jit.ir.types import Type

    from .protocols import Array, Ints, KnownType, Meta, Numpy, Ops, Tensor

NO_ONNX = absent("ONNX has no such factorization")
LINALG = ("linalg",)


def _is_small(dtype: dtypes.DType) -> bool:
    return is_integral(dtype) or dtype.is_half


wide_floats = Refusal(_is_small, "LAPACK computes in float32 and float64, real or complex; cast first, e.g. x.float()")

# -- what all of them share --------------------------------------------------------------------------------------


def adjoint(F: Ops, x: Tensor) -> Tensor:
    """`x` with its last two dims exchanged, and conjugated if complex."""
    turned = F.transpose(x, -2, -1)
    return F.conj(turned) if turned.dtype.is_complex else turned


def check_matrix(name: str, shape: Ints, square: bool = False) -> tuple[int, int]:
    """(rows, columns) of the last two dims; ShapeError if they are missing or, if `square`, differ."""
    if len(shape) < 2:
        raise ShapeError(f"{name}: expects a matrix or a batch of them, got the sizes {list(shape)}")
    if square and shape[-2] != shape[-1]:
        raise ShapeError(f"{name}: expects square matrices, got the sizes {list(shape)}")
    return shape[-2], shape[-1]


def typed(like: TensorType, *sizes: Any, dtype: DType | None = None) -> TensorType:
    """The type of a tensor with the batch sizes of `like` and these sizes behind them."""
    return TensorType(dtype or like.dtype, (*(like.sizes or ())[:-2], *sizes), None, like.device)


def same(like: TensorType) -> TensorType:
    """A contiguous tensor of the same dtype and sizes."""
    return TensorType(like.dtype, like.sizes, None, like.device)


def each(m: Numpy, function: Any, *arrays: Any) -> Any:
    """`function` of the matrices of a batch one by one, its results stacked."""
    batch = arrays[0].shape[:-2]
    found = [function(*(a[at] for a in arrays)) for at in m.ndindex(*batch)]
    return [m.stack(parts).reshape((*batch, *parts[0].shape)) for parts in zip(*found, strict=True)]


def diagonal_of(F: Ops, values: Tensor, rows: Any, columns: Any) -> Tensor:
    """A rows x columns matrix with `values` on its diagonal."""
    zeros = F.zeros([*values.shape[:-1], rows, columns], dtype=values.dtype)
    return F.diagonal_scatter(zeros, values, 0, -2, -1)


def _gaps(F: Ops, values: Tensor) -> Tensor:
    """values[j] - values[i], but 1 on the diagonal, so that it can be divided by."""
    gaps = F.unsqueeze(values, -2) - F.unsqueeze(values, -1)
    return gaps + diagonal_of(F, F.ones_like(values), values.shape[-1], values.shape[-1])


def matrices(*sizes: int, seed: int = 0, dtype: str = "float64") -> Any:
    """Well-conditioned matrices: random ones with a diagonal added."""
    rows, columns = sizes[-2:]
    return make(*sizes, low=-1, high=1, dtype=dtype, seed=seed) + 2 * np.eye(rows, columns, dtype=dtype)


def symmetric(*sizes: int, dtype: str = "float64") -> Any:
    """Positive definite matrices."""
    half = matrices(*sizes, dtype=dtype)
    return half @ np.swapaxes(half, -1, -2)


# -- LU ----------------------------------------------------------------------------------------------------------


@wide_floats
@array("aten::linalg_lu_factor_ex(Tensor A, *, bool pivot=True, bool check_errors=False)"
       " -> (Tensor LU, Tensor pivots, Tensor info)", raises=True, runs_on_host=True,
       promote=("A",), namespaces=LINALG, onnx=NO_ONNX)  # fmt: skip
def lu_factor_ex(m: Numpy, A: Array, pivot: bool, check_errors: bool) -> Sequence[Array | None]:
    """(L and U in one matrix; the row, from 1, that each was exchanged with; the first pivot that is 0, or 0)."""
    check_matrix("linalg.lu_factor", A.shape)
    if not pivot:
        raise UsageError("linalg.lu_factor: an LU factorization without pivots is not supported; leave pivot=False out")
    lu, pivots, info = each(m, lambda x: _lu_of(m, x), A) if A.size else _no_lu(m, A)
    if check_errors and info.any():
        raise LinAlgError(f"linalg.lu_factor: a pivot is exactly 0 in {int((info != 0).sum())} of the matrices")
    return lu, pivots.astype(m.int32), info.astype(m.int32)


def _lu_of(m: Numpy, x: Array) -> Any:
    lu, pivots, info = m.lapack.get_lapack_funcs("getrf", (x,))(x)
    return lu, pivots + 1, m.asarray(max(info, 0))


def _no_lu(m: Numpy, A: Array) -> Any:
    return A.copy(), m.zeros((*A.shape[:-2], min(A.shape[-2:]))), m.zeros(A.shape[:-2])


@lu_factor_ex.type
def _(A: KnownType, pivot: bool, check_errors: bool) -> Sequence[Type]:
    rows, columns = check_matrix("linalg.lu_factor", A.sizes)
    return same(A), typed(A, min(rows, columns), dtype=dtypes.int32), typed(A, dtype=dtypes.int32)


@lu_factor_ex.grad
def _(F: Ops, g: Tensor, needs: Sequence[bool], A: Tensor, out: Sequence[Tensor]) -> Sequence[Tensor | None]:
    """P L^-H (tril(L^H gL) strictly + triu(gU U^H)) U^-H of the square part.

    Columns beyond it give U2 = L^-1 A2: gA2 = L^-H gU2, and L loses gA2 U2^H. Rows beyond it give L2 = A2 U^-1:
    gA2 = gL2 U^-H, and U loses L2^H gA2.
    """
    P, L, U = F.lu_unpack(out[0], out[1])
    rows, columns = A.shape[-2:]
    least = min(rows, columns)
    gL, gU = F.tril(F.narrow(g, -1, 0, least), -1), F.triu(F.narrow(g, -2, 0, least))
    if columns > rows:
        beyond = _solved(F, L, F.narrow(gU, -1, least, columns - least))
        gL = gL - F.matmul(beyond, adjoint(F, F.narrow(U, -1, least, columns - least)))
        square = _square_lu(F, L, F.narrow(U, -1, 0, least), gL, F.narrow(gU, -1, 0, least))
        return (F.matmul(P, F.cat([square, beyond], -1)),)
    if rows > columns:
        rest = F.narrow(gL, -2, least, rows - least)
        beyond = F.linalg_solve_triangular(adjoint(F, U), rest, upper=False, left=False)
        gU = gU - F.matmul(adjoint(F, F.narrow(L, -2, least, rows - least)), beyond)
        square = _square_lu(F, F.narrow(L, -2, 0, least), U, F.narrow(gL, -2, 0, least), gU)
        return (F.matmul(P, F.cat([square, beyond], -2)),)
    return (F.matmul(P, _square_lu(F, L, U, gL, gU)),)


def _solved(F: Ops, L: Tensor, x: Tensor) -> Tensor:
    return F.linalg_solve_triangular(adjoint(F, L), x, upper=True, unitriangular=True)


def _square_lu(F: Ops, L: Tensor, U: Tensor, gL: Tensor, gU: Tensor) -> Tensor:
    middle = F.tril(F.matmul(adjoint(F, L), gL), -1) + F.triu(F.matmul(gU, adjoint(F, U)))
    return F.linalg_solve_triangular(adjoint(F, U), _solved(F, L, middle), upper=False, left=False)


lu_factor_ex.holomorphic = False


@composite("aten::linalg_lu_factor(Tensor A, *, bool pivot=True) -> (Tensor LU, Tensor pivots)", namespaces=LINALG)
def lu_factor(F: Ops, A: Tensor, pivot: bool) -> Sequence[Tensor]:
    """(L and U in one matrix, the row, counted from 1, that each was exchanged with)."""
    return tuple(F.linalg_lu_factor_ex(A, pivot=pivot))[:2]


@composite("aten::lu_unpack(Tensor LU_data, Tensor LU_pivots, bool unpack_data=True, bool unpack_pivots=True)"
           " -> (Tensor P, Tensor L, Tensor U)", namespaces=("jit",))  # fmt: skip
def lu_unpack(F: Ops, LU_data: Tensor, LU_pivots: Tensor, unpack_data: bool, unpack_pivots: bool) -> Sequence[Tensor]:
    """(P, L, U) of an LU factorization: permutation, lower triangle with ones on its diagonal, upper triangle.

    Tensors that are not wanted are empty.
    """
    rows, columns = check_matrix("lu_unpack", LU_data.shape)
    nothing, least = F.zeros([0], dtype=LU_data.dtype), min(rows, columns)
    P = F.permutation_of(LU_pivots, rows, dtype=LU_data.dtype) if unpack_pivots else nothing
    if not unpack_data:
        return P, nothing, F.zeros([0], dtype=LU_data.dtype)
    L = F.tril(F.narrow(LU_data, -1, 0, least), -1) + F.eye(rows, least, dtype=LU_data.dtype)
    return P, L, F.triu(F.narrow(LU_data, -2, 0, least))


@array("aten::permutation_of(Tensor pivots, int rows, *, ScalarType dtype) -> Tensor", raises=True,
       namespaces=(), onnx=NO_ONNX,
       grad=absent("exchanges of rows are integers"))  # fmt: skip
def permutation_of(m: Numpy, pivots: Array, rows: int, dtype: DType) -> Array:
    """The permutation matrix P of A = P L U, by LU's exchanges of rows."""
    others = pivots.reshape(math.prod(pivots.shape[:-1]), pivots.shape[-1])
    orders = m.tile(m.arange(rows), (len(others), 1))
    flat, begins = orders.reshape(-1), m.arange(len(others)) * rows
    for row, places in enumerate((others - 1 + begins[:, None]).T):
        moved = orders[:, row].copy()
        orders[:, row] = flat[places]
        flat[places] = moved
    found = m.swapaxes(m.eye(rows, dtype=dtype.numpy)[orders], -1, -2)
    return found.reshape(*pivots.shape[:-1], rows, rows)


@permutation_of.type
def _(pivots: KnownType, rows: int, dtype: DType) -> TensorType:
    return TensorType(dtype, (*(pivots.sizes or ())[:-1], rows, rows), None, pivots.device)


@composite("aten::linalg_lu(Tensor A, *, bool pivot=True) -> (Tensor P, Tensor L, Tensor U)", namespaces=LINALG)
def linalg_lu(F: Ops, A: Tensor, pivot: bool) -> Sequence[Tensor]:
    """(P, L, U) whose product is A: permutation, lower triangle with ones on its diagonal, upper triangle."""
    return tuple(F.lu_unpack(*F.linalg_lu_factor(A, pivot=pivot)))


@composite("aten::linalg_lu_solve(Tensor LU, Tensor pivots, Tensor B, *, bool left=True, bool adjoint=False) -> Tensor",
           namespaces=LINALG)  # fmt: skip
def linalg_lu_solve(F: Ops, LU: Tensor, pivots: Tensor, B: Tensor, left: bool, adjoint: bool) -> Tensor:
    """X with A X = B (or X A = B if not left; with A's adjoint if `adjoint`), where LU and pivots factor A."""
    check_matrix("linalg.lu_solve", LU.shape, True)
    P, L, U = F.lu_unpack(LU, pivots)
    if left != adjoint:  # A X = B, or X A^H = B; the latter is A X^H = B^H
        right = B if left else _adjoint(F, B)
        lower = F.linalg_solve_triangular(L, F.matmul(F.transpose(P, -2, -1), right), upper=False, unitriangular=True)
        found = F.linalg_solve_triangular(U, lower, upper=True)
        return found if left else _adjoint(F, found)
    right = B if left else _adjoint(F, B)
    upper = F.linalg_solve_triangular(_adjoint(F, U), right, upper=False)
    found = F.matmul(P, F.linalg_solve_triangular(_adjoint(F, L), upper, upper=True, unitriangular=True))
    return found if left else _adjoint(F, found)


_adjoint = adjoint


@Precision(cpu="float32")
@composite("aten::lu_solve(Tensor self, Tensor LU_data, Tensor LU_pivots) -> Tensor")
def lu_solve(F: Ops, self: Tensor, LU_data: Tensor, LU_pivots: Tensor) -> Tensor:
    """X with A X = self, where LU_data and LU_pivots factor A."""
    return F.linalg_lu_solve(LU_data, LU_pivots, self)


@lu_factor_ex.samples
@lu_factor.samples
@linalg_lu.samples
def _() -> Iterator[Sample]:
    yield sample(matrices(3, 3), onnx=False)
    yield sample(matrices(2, 3, 3), note="batch", onnx=False)
    yield sample(matrices(4, 3), note="tall", onnx=False)
    yield sample(matrices(3, 4), note="wide", onnx=False)
    yield sample(matrices(3, 3, dtype="float32"), note="float32", grad=False, onnx=False)


@lu_unpack.samples
def _() -> Iterator[Sample]:
    lu = make(2, 3, 3, dtype="float64"), np.array([[2, 2, 3], [1, 3, 3]], np.int32)
    yield sample(*lu, onnx=False)
    yield sample(*lu, unpack_pivots=False, onnx=False)


@permutation_of.samples
def _() -> Iterator[Sample]:
    yield sample(np.array([[2, 2, 3], [1, 3, 3]], np.int32), 3, dtype=dtypes.float32)


@linalg_lu_solve.samples
def _() -> Iterator[Sample]:
    lu = matrices(3, 3), np.array([2, 2, 3], np.int32)
    for left in (True, False):
        for turned in (True, False):
            yield sample(*lu, make(3, 3, dtype="float64", seed=1), left=left, adjoint=turned, onnx=False)


@lu_solve.samples
def _() -> Iterator[Sample]:
    yield sample(make(3, 2, dtype="float64", seed=1), matrices(3, 3), np.array([2, 2, 3], np.int32), onnx=False)


# -- Cholesky ----------------------------------------------------------------------------------------------------


@Precision(cpu="float32")
@wide_floats
@array("aten::linalg_cholesky_ex(Tensor self, *, bool upper=False, bool check_errors=False) -> (Tensor L, Tensor info)",
       raises=True, runs_on_host=True,
       promote=("self",), namespaces=LINALG, onnx=NO_ONNX)  # fmt: skip
def cholesky_ex(m: Numpy, self: Array, upper: bool, check_errors: bool) -> Sequence[Array | None]:
    """(L with L L^H = self, or U with U^H U = self; the order of the first minor that is not positive, or 0)."""
    check_matrix("linalg.cholesky", self.shape, True)
    if not self.size:
        return self.copy(), m.zeros(self.shape[:-2], m.int32)
    L, info = each(m, lambda x: _cholesky_of(m, x, upper), self)
    if check_errors and info.any():
        raise LinAlgError("linalg.cholesky: the matrix, or one of the batch, is not positive definite")
    return L, info.astype(m.int32)


def _cholesky_of(m: Numpy, x: Array, upper: bool) -> Any:
    L, info = m.lapack.get_lapack_funcs("potrf", (x,))(x, lower=not upper, clean=True)
    return L, m.asarray(info)


@cholesky_ex.type
def _(self: KnownType, upper: bool, check_errors: bool) -> Sequence[Type]:
    check_matrix("linalg.cholesky", self.sizes, True)
    return same(self), typed(self, dtype=dtypes.int32)


@cholesky_ex.grad
def _(F: Ops, g: Tensor, needs: Sequence[bool], out: Sequence[Tensor], upper: bool) -> Sequence[Tensor | None]:
    """L^-H symmetric(half of the lower triangle of L^H g) L^-1."""
    L, g = (adjoint(F, out[0]), adjoint(F, g)) if upper else (out[0], g)
    product = F.tril(F.matmul(adjoint(F, L), g))
    whole = (product + adjoint(F, F.tril(product, -1))) / 2
    left = F.linalg_solve_triangular(adjoint(F, L), whole, upper=True)
    return (F.linalg_solve_triangular(L, left, upper=False, left=False),)


cholesky_ex.holomorphic = False


@Precision(cpu="float32")
@composite("aten::linalg_cholesky(Tensor self, *, bool upper=False) -> Tensor", namespaces=LINALG)
def linalg_cholesky(F: Ops, self: Tensor, upper: bool) -> Tensor:
    """The triangle L with L L^H = self, or U with U^H U = self, of positive definite matrices."""
    return F.linalg_cholesky_ex(self, upper=upper, check_errors=True)[0]


@Precision(cpu="float32")
@composite("aten::cholesky(Tensor self, bool upper=False) -> Tensor")
def cholesky(F: Ops, self: Tensor, upper: bool) -> Tensor:
    """The triangle L with L L^H = self, or U with U^H U = self, of positive definite matrices."""
    return F.linalg_cholesky_ex(self, upper=upper, check_errors=True)[0]


@cholesky_ex.samples
@linalg_cholesky.samples
@cholesky.samples
def _() -> Iterator[Sample]:
    yield sample(symmetric(3, 3), grad=False, onnx=False)
    yield sample(symmetric(2, 3, 3), upper=True, note="batch", grad=False, onnx=False)
    yield sample(symmetric(3, 3, dtype="float32"), note="float32", grad=False, onnx=False)


@Precision(cpu="float32")
@composite("aten::cholesky_solve(Tensor self, Tensor input2, bool upper=False) -> Tensor")
def cholesky_solve(F: Ops, self: Tensor, input2: Tensor, upper: bool) -> Tensor:
    """X with A X = self, where input2 is A's Cholesky factor."""
    L = adjoint(F, input2) if upper else input2
    lower = F.linalg_solve_triangular(L, self, upper=False)
    return F.linalg_solve_triangular(adjoint(F, L), lower, upper=True)


@Precision(cpu="float32")
@composite("aten::cholesky_inverse(Tensor self, bool upper=False) -> Tensor")
def cholesky_inverse(F: Ops, self: Tensor, upper: bool) -> Tensor:
    """The inverse of A, where self is A's Cholesky factor."""
    rows, _ = check_matrix("cholesky_inverse", self.shape, True)
    return F.cholesky_solve(F.expand(F.eye(rows, dtype=self.dtype), self.shape), self, upper)


@cholesky_solve.samples
def _() -> Iterator[Sample]:
    yield sample(make(3, 2, dtype="float64", seed=1), np.tril(matrices(3, 3)), onnx=False)
    yield sample(make(2, 3, 2, dtype="float64", seed=1), np.triu(matrices(2, 3, 3)), True, onnx=False)


@cholesky_inverse.samples
def _() -> Iterator[Sample]:
    yield sample(np.tril(matrices(3, 3)), onnx=False)
    yield sample(np.triu(matrices(3, 3)), True, onnx=False)


# -- QR ----------------------------------------------------------------------------------------------------------


@Precision(cpu="float32")
@wide_floats
@array('aten::linalg_qr(Tensor A, str mode="reduced") -> (Tensor Q, Tensor R)', promote=("A",), namespaces=LINALG,
       differentiable=(0, 1), onnx=NO_ONNX)  # fmt: skip
def linalg_qr(m: Numpy, A: Array, mode: str) -> Sequence[Array | None]:
    """(Q, R) whose product is A: orthonormal columns, upper triangle; "complete" completes Q, "r" leaves it empty."""
    rows, columns = _qr_sizes(A.shape, mode)
    if not A.size:
        full = m.broadcast_to(m.eye(A.shape[-2], rows, dtype=A.dtype), (*A.shape[:-2], A.shape[-2], rows)).copy()
        return (full if mode != "r" else m.zeros(0, A.dtype)), m.zeros((*A.shape[:-2], rows, columns), A.dtype)
    if mode == "r":
        return m.zeros(0, A.dtype), m.linalg.qr(A, mode="r")
    return tuple(m.linalg.qr(A, mode=mode))


def _qr_sizes(shape: Ints, mode: str) -> tuple[int, int]:
    """(columns of Q, columns of R)."""
    rows, columns = check_matrix("linalg.qr", shape)
    if mode not in ("reduced", "complete", "r"):
        raise UsageError(f"linalg.qr: mode is 'reduced', 'complete' or 'r', got {mode!r}")
    return rows if mode == "complete" else min(rows, columns), columns


@linalg_qr.type
def _(A: KnownType, mode: str) -> Sequence[Type]:
    rows, columns = _qr_sizes(A.sizes, mode)
    Q = typed(A, A.sizes[-2], rows) if mode != "r" else TensorType(A.dtype, (0,), None, A.device)
    return Q, typed(A, rows, columns)


@linalg_qr.grad
def _(
    F: Ops, g: Sequence[Tensor], needs: Sequence[bool], A: Tensor, out: Sequence[Tensor], mode: str
) -> Sequence[Tensor | None]:
    """(gQ + Q symmetric(lower triangle of R gR^H - gQ^H Q)) R^-H; columns beyond the square part follow from Q."""
    Q, R = out
    rows, columns = A.shape[-2:]
    if mode == "r" or (mode == "complete" and rows > columns):
        raise UsageError(
            f"linalg.qr has no derivative with mode={mode!r} for a matrix of these sizes; use mode='reduced'"
        )
    gQ, gR = (F.zeros_like(x) if gx is None else gx for gx, x in zip(g, out, strict=True))
    if rows >= columns:
        return (_square_qr(F, gQ, gR, Q, R),)
    rest = columns - rows
    gV, Y = F.narrow(gR, -1, rows, rest), F.narrow(A, -1, rows, rest)
    gX = _square_qr(F, gQ + F.matmul(Y, adjoint(F, gV)), F.narrow(gR, -1, 0, rows), Q, F.narrow(R, -1, 0, rows))
    return (F.cat([gX, F.matmul(Q, gV)], -1),)


def _square_qr(F: Ops, gQ: Tensor, gR: Tensor, Q: Any, R: Tensor) -> Tensor:
    M = F.matmul(R, adjoint(F, gR)) - F.matmul(adjoint(F, gQ), Q)
    lower = F.tril(M, -1)
    diagonal = F.diagonal(M, 0, -2, -1)
    real = F._to_copy(F.real(diagonal), dtype=M.dtype) if M.dtype.is_complex else diagonal
    whole = lower + adjoint(F, lower) + diagonal_of(F, real, M.shape[-1], M.shape[-1])
    return F.linalg_solve_triangular(adjoint(F, R), gQ + F.matmul(Q, whole), upper=False, left=False)


linalg_qr.holomorphic = False


@Precision(cpu="float32")
@composite("aten::qr(Tensor self, bool some=True) -> (Tensor Q, Tensor R)")
def qr(F: Ops, self: Tensor, some: bool) -> Sequence[Tensor]:
    """(Q, R) whose product is self: orthonormal columns, upper triangle."""
    return tuple(F.linalg_qr(self, "reduced" if some else "complete"))


@linalg_qr.samples
@qr.samples
def _() -> Iterator[Sample]:
    yield sample(matrices(3, 3), onnx=False)
    yield sample(matrices(2, 4, 3), note="tall", onnx=False)
    yield sample(matrices(3, 5), note="wide", onnx=False)


# -- eigenvalues -------------------------------------------------------------------------------------------------


@Precision(cpu="float32")
@wide_floats
@array('aten::linalg_eigh(Tensor self, str UPLO="L") -> (Tensor eigenvalues, Tensor eigenvectors)', raises=True,
       promote=("self",),
       namespaces=LINALG, differentiable=(0, 1), onnx=NO_ONNX)  # fmt: skip
def linalg_eigh(m: Numpy, self: Array, UPLO: str) -> Sequence[Array | None]:
    """(ascending eigenvalues, eigenvectors as columns) of symmetric or Hermitian matrices; one triangle is read."""
    check_matrix("linalg.eigh", self.shape, True)
    if UPLO not in ("L", "U", "l", "u"):
        raise UsageError(f"linalg.eigh: UPLO is 'L' or 'U', got {UPLO!r}")
    if not self.size:
        return m.zeros(self.shape[:-1], m.real(self).dtype), self.copy()
    return tuple(m.linalg.eigh(self, UPLO))


@linalg_eigh.type
def _(self: KnownType, UPLO: str) -> Sequence[Type]:
    rows, _ = check_matrix("linalg.eigh", self.sizes, True)
    return typed(self, rows, dtype=dtypes.real_of(self.dtype)), same(self)


@linalg_eigh.grad
def _(F: Ops, g: Sequence[Tensor], needs: Sequence[bool], out: Sequence[Tensor]) -> Sequence[Tensor | None]:
    """V (diag(gL) + V^H gV / gaps) V^H."""
    values, V = out
    inner = F.zeros_like(V)
    if g[1] is not None:
        apart = F.matmul(adjoint(F, V), g[1])
        square = [V.shape[-1], V.shape[-1]]
        apart = F.where(F.eye(*square, dtype=dtypes.bool_), 0, apart / _gaps(F, values))
        inner = apart
    if g[0] is not None:
        inner = inner + F._to_copy(diagonal_of(F, g[0], V.shape[-1], V.shape[-1]), dtype=V.dtype)
    return (F.matmul(F.matmul(V, inner), adjoint(F, V)),)


linalg_eigh.holomorphic = False


@Precision(cpu="float32")
@composite('aten::linalg_eigvalsh(Tensor self, str UPLO="L") -> Tensor', namespaces=LINALG)
def linalg_eigvalsh(F: Ops, self: Tensor, UPLO: str) -> Tensor:
    """The ascending eigenvalues of symmetric or Hermitian matrices; one triangle is read."""
    return F.linalg_eigh(self, UPLO)[0]


@linalg_eigh.samples
@linalg_eigvalsh.samples
def _() -> Iterator[Sample]:
    yield sample(symmetric(3, 3), grad=False, onnx=False)
    yield sample(symmetric(2, 3, 3), "U", note="batch", grad=False, onnx=False)


@Precision(cpu="float32")
@wide_floats
@array("aten::linalg_eig(Tensor self) -> (Tensor eigenvalues, Tensor eigenvectors)", raises=True, promote=("self",),
       namespaces=LINALG, differentiable=(0, 1), onnx=NO_ONNX)  # fmt: skip
def linalg_eig(m: Numpy, self: Array) -> Sequence[Array | None]:
    """(complex eigenvalues, eigenvectors as columns) of square matrices."""
    check_matrix("linalg.eig", self.shape, True)
    dtype = m.result_type(self.dtype, m.complex64)
    if not self.size:
        return m.zeros(self.shape[:-1], dtype), self.astype(dtype)
    return tuple(x.astype(dtype) for x in m.linalg.eig(self))


@linalg_eig.type
def _(self: KnownType) -> Sequence[Type]:
    rows, _ = check_matrix("linalg.eig", self.sizes, True)
    dtype = self.dtype if self.dtype.is_complex else dtypes.complex_of(self.dtype)
    return typed(self, rows, dtype=dtype), typed(self, rows, rows, dtype=dtype)


@linalg_eig.grad
def _(
    F: Ops, g: Sequence[Tensor], needs: Sequence[bool], self_meta: Meta, out: Sequence[Tensor]
) -> Sequence[Tensor | None]:
    """V^-H (diag(gL) + (V^H gV - V^H V diag(Re(V^H gV))) / conj(gaps)) V^H."""
    values, V = out
    VH, size = adjoint(F, V), V.shape[-1]
    inner = F.zeros_like(V)
    if g[1] is not None:
        product = F.matmul(VH, g[1])
        turned = F._to_copy(F.real(F.diagonal(product, 0, -2, -1)), dtype=V.dtype)
        apart = product - F.matmul(VH, V * F.unsqueeze(turned, -2))
        inner = F.where(F.eye(size, size, dtype=dtypes.bool_), 0, apart / F.conj(_gaps(F, values)))
    if g[0] is not None:
        inner = inner + diagonal_of(F, g[0], size, size)
    found = F.linalg_solve(VH, F.matmul(inner, VH))
    return (found if self_meta.dtype.is_complex else F.real(found),)


linalg_eig.holomorphic = False


@Precision(cpu="float32")
@composite("aten::linalg_eigvals(Tensor self) -> Tensor", namespaces=LINALG)
def linalg_eigvals(F: Ops, self: Tensor) -> Tensor:
    """The complex eigenvalues of square matrices."""
    return F.linalg_eig(self)[0]


@linalg_eig.samples
@linalg_eigvals.samples
def _() -> Iterator[Sample]:
    yield sample(np.triu(matrices(3, 3)) + np.diag([0.0, 3.0, 6.0]), grad=False, onnx=False)
    yield sample(matrices(2, 3, 3), note="batch", grad=False, onnx=False)


# -- singular values ---------------------------------------------------------------------------------------------


@Precision(cpu="float32")
@wide_floats
@array("aten::linalg_svd(Tensor A, bool full_matrices=True) -> (Tensor U, Tensor S, Tensor Vh)", raises=True,
       promote=("A",),
       namespaces=LINALG, differentiable=(0, 1, 2), onnx=NO_ONNX)  # fmt: skip
def linalg_svd(m: Numpy, A: Array, full_matrices: bool) -> Sequence[Array | None]:
    """(U, S, V^H) with U diag(S) V^H = A: orthonormal columns, descending singular values, orthonormal rows."""
    rows, columns, least = _svd_sizes(A.shape, full_matrices)
    if not A.size:
        batch, real = A.shape[:-2], m.real(A).dtype
        U = m.broadcast_to(m.eye(A.shape[-2], rows, dtype=A.dtype), (*batch, A.shape[-2], rows)).copy()
        Vh = m.broadcast_to(m.eye(columns, A.shape[-1], dtype=A.dtype), (*batch, columns, A.shape[-1])).copy()
        return U, m.zeros((*batch, least), real), Vh
    return tuple(m.linalg.svd(A, full_matrices=full_matrices))


def _svd_sizes(shape: Ints, full: bool) -> tuple[int, int, int]:
    """(columns of U, rows of Vh, singular values)."""
    rows, columns = check_matrix("linalg.svd", shape)
    least = min(rows, columns)
    return (rows, columns, least) if full else (least, least, least)


@linalg_svd.type
def _(A: KnownType, full_matrices: bool) -> Sequence[Type]:
    rows, columns, least = _svd_sizes(A.sizes, full_matrices)
    real = dtypes.real_of(A.dtype)
    return typed(A, A.sizes[-2], rows), typed(A, least, dtype=real), typed(A, columns, A.sizes[-1])


@linalg_svd.grad
def _(
    F: Ops, g: Sequence[Tensor], needs: Sequence[bool], A_meta: Meta, out: Sequence[Tensor]
) -> Sequence[Tensor | None]:
    """U (skew(U^H gU) / gaps S + S skew(V^H gV) / gaps + diag(gS)) V^H, and what turns out of both spaces.

    The gaps are those of the squares of the singular values.
    """
    rows, columns = A_meta.shape[-2:]
    least = min(rows, columns)
    U, S, Vh = F.narrow(out[0], -1, 0, least), out[1], F.narrow(out[2], -2, 0, least)
    gU = None if g[0] is None else F.narrow(g[0], -1, 0, least)
    gVh = None if g[2] is None else F.narrow(g[2], -2, 0, least)
    values = F._to_copy(S, dtype=U.dtype) if U.dtype.is_complex else S
    wide, tall, gaps = F.unsqueeze(values, -2), F.unsqueeze(values, -1), _gaps(F, values * values)
    inner = F.zeros([*S.shape[:-1], least, least], dtype=U.dtype)
    if gU is not None:
        turned = F.matmul(adjoint(F, U), gU)
        inner = inner + _skew(F, turned) / gaps * wide
        if U.dtype.is_complex:
            phase = F._to_copy(F.imag(F.diagonal(turned, 0, -2, -1)), dtype=U.dtype) * 1j / values
            inner = inner + diagonal_of(F, phase, least, least)
    if gVh is not None:
        inner = inner + tall * (_skew(F, F.matmul(Vh, adjoint(F, gVh))) / gaps)
    if g[1] is not None:
        inner = inner + diagonal_of(F, F._to_copy(g[1], dtype=U.dtype), least, least)
    found = F.matmul(F.matmul(U, inner), Vh)
    if gU is not None and rows > least:
        found = found + F.matmul((gU - F.matmul(U, F.matmul(adjoint(F, U), gU))) / wide, Vh)
    if gVh is not None and columns > least:
        found = found + F.matmul(U, (gVh - F.matmul(F.matmul(gVh, adjoint(F, Vh)), Vh)) / tall)
    return (found,)


def _skew(F: Ops, x: Tensor) -> Tensor:
    return x - adjoint(F, x)


linalg_svd.holomorphic = False


@Precision(cpu="float32")
@composite("aten::linalg_svdvals(Tensor A) -> Tensor", namespaces=LINALG)
def linalg_svdvals(F: Ops, A: Tensor) -> Tensor:
    """The descending singular values of matrices."""
    return F.linalg_svd(A, False)[1]


@Precision(cpu="float32")
@composite("aten::svd(Tensor self, bool some=True, bool compute_uv=True) -> (Tensor U, Tensor S, Tensor V)")
def svd(F: Ops, self: Tensor, some: bool, compute_uv: bool) -> Sequence[Tensor]:
    """(U, S, V) with U diag(S) V^H = self; without compute_uv, U and V are zeros."""
    U, S, Vh = F.linalg_svd(self, not some)
    if compute_uv:
        return U, S, adjoint(F, Vh)
    sizes = list(self.shape[:-2])
    return tuple(x if x is S else F.zeros([*sizes, n, n], dtype=self.dtype) for x, n in
                 ((U, self.shape[-2]), (S, 0), (Vh, self.shape[-1])))  # fmt: skip


@linalg_svdvals.samples
def _() -> Iterator[Sample]:
    yield sample(matrices(3, 3), onnx=False)
    yield sample(matrices(2, 4, 3), note="tall", onnx=False)


@linalg_svd.samples
@svd.samples
def _() -> Iterator[Sample]:
    yield sample(matrices(3, 3), grad=False, onnx=False)
    yield sample(matrices(2, 4, 3), note="tall", grad=False, onnx=False)
    yield sample(matrices(3, 4), note="wide", grad=False, onnx=False)
