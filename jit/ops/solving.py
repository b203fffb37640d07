"""Systems of linear equations and functions of whole matrices: solutions, inverses, determinants, norms, powers."""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from jit.ir import dtypes
from jit.ir.errors import DTypeError, LinAlgError, ShapeError, UsageError
from jit.ir.geometry import broadcast_shapes, wrap_dim
from jit.ir.op import absent, array, composite
from jit.ir.precision import FLOAT32, Precision
from jit.ir.samples import Sample, make, sample
from jit.ir.types import TensorType

from .common import has_elements, no_integers
from .factorizations import LINALG, adjoint, check_matrix, each, matrices, same, symmetric, typed, wide_floats

if TYPE_CHECKING:
    from jit.ir.dtypes import DType
    from jit.ir.types import Type

    from .protocols import Array, Ints, KnownType, Meta, Number, Numpy, Ops, Tensor

NO_ONNX = absent("ONNX solves no equations")

# -- triangles ---------------------------------------------------------------------------------------------------


def _batches(a: Ints, b: Ints) -> tuple[int, ...]:
    return broadcast_shapes(tuple(a[:-2]), tuple(b[:-2]))


def _check_sides(name: str, a: Ints, b: Ints, left: bool) -> None:
    check_matrix(name, a, True)
    check_matrix(name, b)
    if a[-1] != (b[-2] if left else b[-1]):
        raise ShapeError(f"{name}: matrices of sizes {list(a)} and {list(b)} do not fit each other")


@wide_floats
@array("aten::linalg_solve_triangular(Tensor self, Tensor B, *, bool upper, bool left=True, bool unitriangular=False)"
       " -> Tensor", promote=("self", "B"), namespaces=LINALG, onnx=NO_ONNX, runs_on_host=True)  # fmt: skip
def solve_triangular(m: Numpy, self: Array, B: Array, upper: bool, left: bool, unitriangular: bool) -> Array:
    """X with A X = B, or X A = B if not left: A is one triangle of self, with ones as diagonal if unitriangular."""
    _check_sides("linalg.solve_triangular", self.shape, B.shape, left)
    batch = _batches(self.shape, B.shape)
    a, b = (m.broadcast_to(x, (*batch, *x.shape[-2:])) for x in (self, B))
    if not b.size or not a.size:
        return m.zeros(b.shape, b.dtype)
    rule = m.lapack.get_lapack_funcs("trtrs", (a, b))

    def one(x: Any, y: Any) -> Any:
        turned = x if left else m.swapaxes(x, 0, 1)
        found, info = rule(turned, y if left else y.T, lower=upper != left, unitdiag=unitriangular)
        found = found if not info else m.full_like(found, m.nan)
        return (found if left else found.T,)

    return each(m, one, a, b)[0]


@solve_triangular.type
def _(self: KnownType, B: KnownType, upper: bool, left: bool, unitriangular: bool) -> TensorType:
    assert self.sizes is not None and B.sizes is not None
    _check_sides("linalg.solve_triangular", self.sizes, B.sizes, left)
    return TensorType(self.dtype, (*_batches(self.sizes, B.sizes), *B.sizes[-2:]), None, self.device)


@solve_triangular.grad
def _(
    F: Ops, g: Tensor, needs: Sequence[bool], self: Tensor, B_meta: Meta, out: Tensor, upper: bool, left: bool,
    unitriangular: bool,
) -> Sequence[Tensor | None]:  # fmt: skip
    """gB solves the transposed equation; gA is -gB X^T, the part of it that was read."""
    turned = F.transpose(self, -2, -1)
    gB = F.linalg_solve_triangular(turned, g, upper=not upper, left=left, unitriangular=unitriangular)
    turned = F.transpose(out, -2, -1)
    gA = -(F.matmul(gB, turned) if left else F.matmul(turned, gB))
    skip = int(unitriangular)
    gA = F.triu(gA, skip) if upper else F.tril(gA, -skip)
    return F.sum_to_size(gA, self.shape), F.sum_to_size(gB, B_meta.shape)


@solve_triangular.samples
def _() -> Iterator[Sample]:
    for upper in (True, False):
        for left in (True, False):
            yield sample(matrices(3, 3), make(3, 3, dtype="float64", seed=1), upper=upper, left=left)
    yield sample(matrices(2, 3, 3), make(3, 2, dtype="float64", seed=1), upper=True, unitriangular=True, note="batch")


@Precision(cpu="float32")
@composite("aten::triangular_solve(Tensor self, Tensor A, bool upper=True, bool transpose=False, "
           "bool unitriangular=False) -> (Tensor solution, Tensor cloned_coefficient)")  # fmt: skip
def triangular_solve(
    F: Ops, self: Tensor, A: Tensor, upper: bool, transpose: bool, unitriangular: bool
) -> Sequence[Tensor]:
    """(X with A X = self, or with A's transpose; A), where one triangle of A is read."""
    used, side = (F.transpose(A, -2, -1), not upper) if transpose else (A, upper)
    batch = _batches(A.shape, self.shape)
    found = F.linalg_solve_triangular(used, self, upper=side, unitriangular=unitriangular)
    return found, F.clone(F.expand(A, [*batch, *A.shape[-2:]]))


@triangular_solve.samples
def _() -> Iterator[Sample]:
    yield sample(make(3, 2, dtype="float64", seed=1), matrices(3, 3), onnx=False)
    yield sample(make(3, 2, dtype="float64", seed=1), matrices(3, 3), False, True, onnx=False)


# -- solutions and inverses --------------------------------------------------------------------------------------


@wide_floats
@array("aten::_linalg_solve(Tensor A, Tensor B) -> (Tensor result, Tensor info)", promote=("A", "B"), namespaces=(),
       onnx=NO_ONNX, runs_on_host=True)  # fmt: skip
def _linalg_solve(m: Numpy, A: Array, B: Array) -> Sequence[Array | None]:
    """(X with A X = B; for each matrix the number of the first pivot that is 0, or 0)."""
    _check_sides("linalg.solve", A.shape, B.shape, True)
    batch = _batches(A.shape, B.shape)
    a, b = (m.broadcast_to(x, (*batch, *x.shape[-2:])) for x in (A, B))
    if not b.size:
        return m.zeros(b.shape, b.dtype), m.zeros(A.shape[:-2], m.int32)
    rule = m.lapack.get_lapack_funcs("gesv", (a, b))

    def one(x: Any, y: Any) -> Any:
        _, _, found, info = rule(x, y)
        return found, m.asarray(max(info, 0))

    found, info = each(m, one, a, b)
    return found, (info if batch == A.shape[:-2] else m.zeros(A.shape[:-2])).astype(m.int32)


@_linalg_solve.type
def _(A: KnownType, B: KnownType) -> Sequence[Type]:
    assert A.sizes is not None and B.sizes is not None
    _check_sides("linalg.solve", A.sizes, B.sizes, True)
    found = TensorType(A.dtype, (*_batches(A.sizes, B.sizes), *B.sizes[-2:]), None, A.device)
    return found, typed(A, dtype=dtypes.int32)


@_linalg_solve.grad
def _(
    F: Ops, g: Tensor, needs: Sequence[bool], A: Tensor, B_meta: Meta, out: Sequence[Tensor]
) -> Sequence[Tensor | None]:
    gB = F._linalg_solve(F.transpose(A, -2, -1), g)[0]
    gA = -F.matmul(gB, F.transpose(out[0], -2, -1))
    return F.sum_to_size(gA, A.shape), F.sum_to_size(gB, B_meta.shape)


@_linalg_solve.samples
def _() -> Iterator[Sample]:
    yield sample(matrices(3, 3), make(3, 2, dtype="float64", seed=1))
    yield sample(matrices(2, 3, 3), make(3, 2, dtype="float64", seed=1), note="batch")
    yield sample(matrices(3, 3, dtype="float32"), make(3, 2, seed=1), note="float32")


def _refuse_singular(F: Ops, name: str, info: Any) -> None:
    if has_elements(info) and bool(F.any(F.ne(info, 0))):
        raise LinAlgError(f"{name}: the matrix, or one of the batch, is singular: a pivot is exactly 0")


@composite("aten::linalg_solve_ex(Tensor A, Tensor B, *, bool left=True, bool check_errors=False)"
           " -> (Tensor result, Tensor info)", namespaces=LINALG)  # fmt: skip
def solve_ex(F: Ops, A: Tensor, B: Tensor, left: bool, check_errors: bool) -> Sequence[Tensor]:
    """(X with A X = B, or X A = B if not left; the number of the first pivot that is 0, or 0)."""
    check_matrix("linalg.solve", A.shape, True)
    vector = B.ndim == 1 or (B.ndim == A.ndim - 1 and tuple(B.shape) == tuple(A.shape[:-1]))
    right = F.unsqueeze(B, -1) if vector else B
    if left or vector:
        found, info = F._linalg_solve(A, right)
    else:
        found, info = F._linalg_solve(F.transpose(A, -2, -1), F.transpose(right, -2, -1))
        found = F.transpose(found, -2, -1)
    if check_errors:
        _refuse_singular(F, "linalg.solve", info)
    return F.squeeze(found, -1) if vector else found, info


@Precision(cpu="float32")
@composite("aten::linalg_solve(Tensor A, Tensor B, *, bool left=True) -> Tensor", namespaces=LINALG)
def linalg_solve(F: Ops, A: Tensor, B: Tensor, left: bool) -> Tensor:
    """X with A X = B, or X A = B if not left; a vector B is a column."""
    return F.linalg_solve_ex(A, B, left=left, check_errors=True)[0]


@solve_ex.samples
@linalg_solve.samples
def _() -> Iterator[Sample]:
    yield sample(matrices(3, 3), make(3, 2, dtype="float64", seed=1), onnx=False)
    yield sample(matrices(3, 3), make(3, dtype="float64", seed=1), note="vector", onnx=False)
    yield sample(matrices(2, 3, 3), make(2, 2, 3, dtype="float64", seed=1), left=False, note="batch", onnx=False)


@Precision(cpu="float32")
@composite("aten::linalg_inv_ex(Tensor A, *, bool check_errors=False) -> (Tensor inverse, Tensor info)",
           namespaces=LINALG)  # fmt: skip
def inv_ex(F: Ops, A: Tensor, check_errors: bool) -> Sequence[Tensor]:
    """(the inverse of A; the number of the first pivot that is 0, or 0)."""
    rows, _ = check_matrix("linalg.inv", A.shape, True)
    found, info = F._linalg_solve(A, F.eye(rows, dtype=A.dtype))
    if check_errors:
        _refuse_singular(F, "linalg.inv", info)
    return found, info


@Precision(cpu="float32")
@composite("aten::linalg_inv(Tensor A) -> Tensor", namespaces=LINALG)
def linalg_inv(F: Ops, A: Tensor) -> Tensor:
    """The inverse of square matrices; LinAlgError if one is singular."""
    return F.linalg_inv_ex(A, check_errors=True)[0]


@Precision(cpu="float32")
@composite("aten::inverse(Tensor self) -> Tensor")
def inverse(F: Ops, self: Tensor) -> Tensor:
    """The inverse of square matrices; LinAlgError if one is singular."""
    return F.linalg_inv_ex(self, check_errors=True)[0]


def _squares() -> Iterator[Sample]:
    yield sample(matrices(3, 3), onnx=False)
    yield sample(matrices(2, 3, 3), note="batch", onnx=False)


for _op in (inv_ex, linalg_inv, inverse):
    _op.sampler = _squares


@Precision(cpu="float32")
@composite("aten::linalg_tensorinv(Tensor self, int ind=2) -> Tensor", namespaces=LINALG)
def tensorinv(F: Ops, self: Tensor, ind: int) -> Tensor:
    """The inverse of self as a linear map from its last dims to its first `ind`: [a..., b...] gives [b..., a...]."""
    if ind <= 0:
        raise UsageError(f"linalg.tensorinv: ind must be positive, got {ind}")
    lead, rest = list(self.shape[:ind]), list(self.shape[ind:])
    if math.prod(lead) != math.prod(rest):
        raise ShapeError(f"linalg.tensorinv: {lead} and {rest} should have as many elements")
    return F.reshape(F.linalg_inv(F.reshape(self, [math.prod(lead), math.prod(rest)])), [*rest, *lead])


@Precision(cpu="float32")
@composite("aten::linalg_tensorsolve(Tensor self, Tensor other, int[1]? dims=None) -> Tensor", namespaces=LINALG)
def tensorsolve(F: Ops, self: Tensor, other: Tensor, dims: Ints | None) -> Tensor:
    """X with tensordot(self, X, X.ndim) == other; self's `dims` are moved to the end first."""
    if dims is not None:
        moved = [wrap_dim(d, self.ndim) for d in dims]
        self = F.permute(self, [*(d for d in range(self.ndim) if d not in moved), *moved])
    sizes = list(self.shape[other.ndim :])
    if math.prod(sizes) != other.numel():
        raise ShapeError(
            f"linalg.tensorsolve: a tensor of sizes {list(self.shape)} cannot be solved for {list(other.shape)}"
        )
    square = F.reshape(self, [other.numel(), other.numel()])
    return F.reshape(F.linalg_solve(square, F.reshape(other, [-1])), sizes)


@tensorinv.samples
def _() -> Iterator[Sample]:
    yield sample(matrices(6, 6).reshape(2, 3, 6), 2, onnx=False)


@tensorsolve.samples
def _() -> Iterator[Sample]:
    yield sample(matrices(6, 6).reshape(2, 3, 6), make(2, 3, dtype="float64", seed=1), onnx=False)
    yield sample(matrices(6, 6).reshape(2, 6, 3), make(2, 3, dtype="float64", seed=1), [1], onnx=False)


# -- determinants ------------------------------------------------------------------------------------------------


@wide_floats
@array("aten::linalg_det(Tensor A) -> Tensor", promote=("A",), namespaces=("linalg", "jit", "Tensor"), aliases=("det",),
       onnx="Det", grad=dict(A=lambda F, g, A, out: _det_gradient(F, g, A, out)))  # fmt: skip
def linalg_det(m: Numpy, A: Array) -> Array:
    """The determinant of square matrices."""
    check_matrix("linalg.det", A.shape, True)
    return m.asarray(m.linalg.det(A))


def _det_gradient(F: Ops, g: Tensor, A: Tensor, out: Tensor) -> Tensor:
    """The determinant times the transposed inverse; where there is none, the cofactors from singular values."""
    g = F.unsqueeze(F.unsqueeze(g, -1), -1)
    if not has_elements(out) or bool(F.all(F.ne(out, 0))):
        turned = F.linalg_inv_ex(F.transpose(A, -2, -1))[0]
        return g * F.unsqueeze(F.unsqueeze(out, -1), -1) * turned
    from .reductions import products_of_others

    U, S, Vh = F.linalg_svd(A)
    turn = F.unsqueeze(F.unsqueeze(F.linalg_det(U) * F.linalg_det(Vh), -1), -1)
    others = F.unsqueeze(products_of_others(F, S, S.ndim - 1), -2)
    return g * turn * F.conj(F.matmul(U * others, Vh))


@linalg_det.type
def _(A: KnownType) -> TensorType:
    check_matrix("linalg.det", A.sizes, True)
    return typed(A)


@linalg_det.samples
def _() -> Iterator[Sample]:
    yield sample(matrices(3, 3), onnx=False)
    yield sample(matrices(2, 3, 3, dtype="float32"), note="batch")
    yield sample(np.array([[1.0, 2.0], [2.0, 4.0]]), note="singular", grad=False, onnx=False)


@wide_floats
@array("aten::linalg_slogdet(Tensor A) -> (Tensor sign, Tensor logabsdet)", promote=("A",),
       namespaces=("linalg", "jit", "Tensor"), aliases=("slogdet",), differentiable=(0, 1), onnx=NO_ONNX)  # fmt: skip
def linalg_slogdet(m: Numpy, A: Array) -> Sequence[Array | None]:
    """(the sign of the determinant, or its direction if complex; the logarithm of its absolute value)."""
    check_matrix("linalg.slogdet", A.shape, True)
    return tuple(m.asarray(x) for x in m.linalg.slogdet(A))


@linalg_slogdet.type
def _(A: KnownType) -> Sequence[Type]:
    check_matrix("linalg.slogdet", A.sizes, True)
    return typed(A), typed(A, dtype=dtypes.real_of(A.dtype))


@linalg_slogdet.grad
def _(F: Ops, g: Sequence[Tensor], needs: Sequence[bool], A: Tensor, out: Sequence[Tensor]) -> Sequence[Tensor | None]:
    """The adjoint inverse times the logarithm's gradient, and i times that of the direction across it."""
    size = F.zeros_like(out[1]) if g[1] is None else g[1]
    if A.dtype.is_complex:
        turn = F.zeros_like(out[1]) if g[0] is None else F.imag(F.conj(g[0]) * out[0])
        size = F.complex(size, -turn)
    return (F.unsqueeze(F.unsqueeze(size, -1), -1) * F.linalg_inv_ex(adjoint(F, A))[0],)


linalg_slogdet.holomorphic = False
linalg_slogdet.sampler = _squares


@composite("aten::logdet(Tensor self) -> Tensor")
def logdet(F: Ops, self: Tensor) -> Tensor:
    """The logarithm of the determinant; NaN where it is negative."""
    sign, size = F.linalg_slogdet(self)
    return size + F.log(sign)


logdet.sampler = _squares

# -- pseudo-inverses and least squares ---------------------------------------------------------------------------


def _precision(dtype: DType) -> float:
    return float(np.finfo(dtypes.real_of(dtype).numpy).eps)


def _limit(F: Ops, S: Tensor, sizes: Ints, atol: Any, rtol: Any) -> Tensor:
    """The limit below which singular values count as 0: the larger of atol and rtol times the largest value."""
    if rtol is None:
        positive = atol is not None and (atol > 0 if isinstance(atol, (int, float)) else None)
        rtol = 0.0 if positive else _precision(S.dtype) * max(sizes)
        if positive is None and atol is not None:
            rtol = F.where(F.gt(atol, 0), 0.0, _precision(S.dtype) * max(sizes))
    atol = 0.0 if atol is None else atol
    largest = F.amax(S, (-1,), True) if S.shape[-1] else S
    parts = [t if isinstance(t, (int, float)) or not t.ndim else F.unsqueeze(t, -1) for t in (atol, rtol)]
    return F.maximum(parts[1] * largest, parts[0])


@composite("aten::linalg_pinv.atol_rtol_tensor(Tensor self, *, Tensor? atol=None, Tensor? rtol=None, "
           "bool hermitian=False) -> Tensor", promote=("self", "atol", "rtol"), namespaces=LINALG)  # fmt: skip
def linalg_pinv(F: Ops, self: Tensor, atol: Tensor | None, rtol: Tensor | None, hermitian: bool) -> Tensor:
    """The pseudo-inverse; singular values up to the larger of atol and rtol times the largest count as 0."""
    check_matrix("linalg.pinv", self.shape, hermitian)
    if 0 in tuple(self.shape):
        return F.clone(adjoint(F, self))
    return F._pinv(self, *_tolerances(F, self, atol, rtol), hermitian)


def _tolerances(F: Ops, self: Tensor, atol: Tensor | None, rtol: Tensor | None) -> tuple[Any, Any]:
    real = dtypes.real_of(self.dtype)
    return tuple(
        None if t is None else F.full([], t, dtype=real) if isinstance(t, (int, float)) else t for t in (atol, rtol)
    )  # type: ignore[return-value]


@composite("aten::linalg_pinv(Tensor self, float rcond, bool hermitian=False) -> Tensor", namespaces=LINALG)
def linalg_pinv_rcond(F: Ops, self: Tensor, rcond: float, hermitian: bool) -> Tensor:
    """The pseudo-inverse; singular values up to rcond times the largest count as 0."""
    return F.linalg_pinv(self, rtol=rcond, hermitian=hermitian)


@Precision(cpu="float32")
@composite("aten::pinverse(Tensor self, float rcond=1e-15) -> Tensor")
def pinverse(F: Ops, self: Tensor, rcond: float) -> Tensor:
    """The pseudo-inverse; singular values up to rcond times the largest count as 0."""
    return F.linalg_pinv(self, rtol=rcond)


@FLOAT32
@composite("aten::_pinv(Tensor self, Tensor? atol, Tensor? rtol, bool hermitian) -> Tensor", namespaces=(),
           grad=dict(self=lambda F, g, self, out: _pinv_gradient(F, g, self, out),
                     atol=absent("a threshold"), rtol=absent("a threshold")))  # fmt: skip
def _pinv(F: Ops, self: Tensor, atol: Tensor | None, rtol: Tensor | None, hermitian: bool) -> Tensor:
    """V S^-1 U^H over the singular values above the limit."""
    U, S, Vh = _hermitian_svd(F, self) if hermitian else F.linalg_svd(self, False)
    size = F.abs(S)
    kept = F.gt(size, _limit(F, size, self.shape[-2:], atol, rtol))
    reciprocal = F.where(kept, F.reciprocal(F.where(kept, S, 1)), 0)
    reciprocal = F._to_copy(reciprocal, dtype=self.dtype) if self.dtype.is_complex else reciprocal
    return F.matmul(adjoint(F, Vh) * F.unsqueeze(reciprocal, -2), adjoint(F, U))


def _hermitian_svd(F: Ops, self: Tensor) -> Any:
    values, vectors = F.linalg_eigh(self)
    return vectors, values, adjoint(F, vectors)


def _pinv_gradient(F: Ops, g: Tensor, A: Tensor, P: Tensor) -> Tensor:
    """Golub and Pereyra's formula, associated so that the smaller products come first."""
    Ph, gh = adjoint(F, P), adjoint(F, g)
    if A.shape[-2] <= A.shape[-1]:
        K = F.matmul(gh, P)
        KPh = F.matmul(K, Ph)
        inside = KPh - F.matmul(F.matmul(A, P), KPh) - adjoint(F, F.matmul(P, K))
        return inside + F.matmul(F.matmul(Ph, P), gh - F.matmul(K, A))
    K = F.matmul(P, gh)
    PhK = F.matmul(Ph, K)
    inside = F.matmul(F.matmul(gh - F.matmul(A, K), P), Ph) - adjoint(F, F.matmul(K, P))
    return inside + PhK - F.matmul(F.matmul(PhK, P), A)


_pinv.holomorphic = False


def _any_sizes() -> Iterator[Sample]:
    yield sample(matrices(3, 3), onnx=False)
    yield sample(matrices(2, 4, 3), note="tall", onnx=False)
    yield sample(matrices(3, 4), note="wide", onnx=False)


@linalg_pinv.samples
def _() -> Iterator[Sample]:
    yield from _any_sizes()
    yield sample(matrices(3, 3), rtol=0.5, note="some are cut off", grad=False, onnx=False)
    yield sample(symmetric(3, 3), hermitian=True, note="hermitian", grad=False, onnx=False)


@_pinv.samples
def _() -> Iterator[Sample]:
    for each_sample in _any_sizes():
        yield sample(*each_sample.args, None, None, False, note=each_sample.note, onnx=False)


@linalg_pinv_rcond.samples
def _() -> Iterator[Sample]:
    yield sample(matrices(3, 4), 1e-10, onnx=False)


pinverse.sampler = _any_sizes


@Precision(cpu="float32")
@composite("aten::linalg_matrix_rank(Tensor self, *, Tensor? atol=None, Tensor? rtol=None, bool hermitian=False)"
           " -> Tensor", promote=("self", "atol", "rtol"), namespaces=LINALG,
           grad=absent("the result is made of counts"))  # fmt: skip
def matrix_rank(F: Ops, self: Tensor, atol: Tensor | None, rtol: Tensor | None, hermitian: bool) -> Tensor:
    """The number of singular values above the larger of atol and rtol times the largest."""
    check_matrix("linalg.matrix_rank", self.shape, hermitian)
    if 0 in tuple(self.shape):
        return F.zeros(list(self.shape[:-2]), dtype=dtypes.int64)
    S = F.abs(F.linalg_eigvalsh(self)) if hermitian else F.linalg_svdvals(self)
    return F.sum(F.gt(S, _limit(F, S, self.shape[-2:], *_tolerances(F, self, atol, rtol))), -1)


@Precision(cpu="float32")
@composite("aten::linalg_matrix_rank.tol(Tensor self, Tensor tol, bool hermitian=False) -> Tensor",
           promote=("self", "tol"), namespaces=LINALG, grad=absent("the result is made of counts"))  # fmt: skip
def matrix_rank_above(F: Ops, self: Tensor, tol: Tensor, hermitian: bool) -> Tensor:
    """The number of singular values above tol."""
    return F.linalg_matrix_rank(self, atol=tol, rtol=0.0, hermitian=hermitian)


@matrix_rank.samples
def _() -> Iterator[Sample]:
    yield sample(np.array([[1.0, 2.0], [2.0, 4.0]]), onnx=False)
    yield sample(matrices(2, 4, 3), note="batch", onnx=False)


@matrix_rank_above.samples
def _() -> Iterator[Sample]:
    yield sample(np.diag([3.0, 1.0, 0.1]), 0.5, onnx=False)


@Precision(cpu="float32")
@composite("aten::linalg_lstsq(Tensor self, Tensor b, float? rcond=None, *, str? driver=None)"
           " -> (Tensor solution, Tensor residuals, Tensor rank, Tensor singular_values)",
           namespaces=LINALG)  # fmt: skip
def linalg_lstsq(F: Ops, self: Tensor, b: Tensor, rcond: float | None, driver: str | None) -> Sequence[Tensor]:
    """(X that minimises the norm of self X - b; the sums of squares that remain; the rank; singular values).

    All drivers compute with the pseudo-inverse; they differ in which of the results are empty, as PyTorch's do.
    """
    rows, columns = check_matrix("linalg.lstsq", self.shape)
    if driver not in (None, "gels", "gelsy", "gelsd", "gelss"):
        raise UsageError(f"linalg.lstsq: driver is 'gels', 'gelsy', 'gelsd' or 'gelss', got {driver!r}")
    vector = b.ndim == 1 or (b.ndim == self.ndim - 1 and tuple(b.shape) == tuple(self.shape[:-1]))
    right = F.unsqueeze(b, -1) if vector else b
    limit = _precision(self.dtype) * max(rows, columns) if rcond is None else rcond
    found = F.matmul(F.linalg_pinv(self, rtol=limit), right)
    with F.no_grad():
        rank = F.linalg_matrix_rank(self, rtol=limit)
        full = bool(F.all(F.eq(rank, columns))) and rows > columns and driver != "gelsy"
        nothing = F.zeros([0], dtype=dtypes.real_of(self.dtype))
        values = F.linalg_svdvals(self) if driver in ("gelsd", "gelss") else nothing
        rank = F.zeros([0], dtype=dtypes.int64) if driver == "gels" else rank
    left = F.square(F.abs(F.matmul(self, found) - right))
    residuals = F.sum(left, -2) if full else F.narrow(F.reshape(left, [-1]), 0, 0, 0)
    return F.squeeze(found, -1) if vector else found, residuals, rank, values


@linalg_lstsq.samples
def _() -> Iterator[Sample]:
    yield sample(matrices(4, 3), make(4, 2, dtype="float64", seed=1), driver="gelsd", grad=False, onnx=False)
    yield sample(matrices(3, 4), make(3, 2, dtype="float64", seed=1), driver="gelsd", grad=False, onnx=False)


# -- powers and the exponential ----------------------------------------------------------------------------------


@composite("aten::linalg_matrix_power(Tensor self, int n) -> Tensor", namespaces=("linalg", "jit", "Tensor"),
           aliases=("matrix_power",))  # fmt: skip
def matrix_power(F: Ops, self: Tensor, n: int) -> Tensor:
    """The n-th power of square matrices; that of the inverse if n is negative."""
    rows, _ = check_matrix("linalg.matrix_power", self.shape, True)
    if n == 0:
        return F.where(F.full([], False), self, F.eye(rows, dtype=self.dtype))  # of self, as far as gradients go
    result: Any = None
    square, left = (F.linalg_inv(self) if n < 0 else self), abs(n)
    while left:
        if left % 2:
            result = square if result is None else F.matmul(result, square)
        left //= 2
        square = F.matmul(square, square) if left else square
    return F.clone(result) if abs(n) == 1 else result


@matrix_power.samples
def _() -> Iterator[Sample]:
    for n in (0, 1, 5):
        yield sample(matrices(2, 3, 3), n, grad=n > 0, onnx=n > 1)
    yield sample(matrices(3, 3), -2, onnx=False)


@no_integers
@array("aten::linalg_matrix_exp(Tensor self) -> Tensor", promote=("self",), namespaces=("linalg", "jit", "Tensor"),
       aliases=("matrix_exp",), onnx=NO_ONNX,
       grad=dict(self=lambda F, g, self: _matrix_exp_gradient(F, g, self)))  # fmt: skip
def matrix_exp(m: Numpy, self: Array) -> Array:
    """The exponential of square matrices: the sum of self ** n / n!."""
    check_matrix("linalg.matrix_exp", self.shape, True)
    wide = m.complex128 if self.dtype.kind == "c" else m.float64  # squares add up what they round
    return m.asarray(m.matrix_exp(self.astype(wide)), self.dtype) if self.size else self.copy()


def _matrix_exp_gradient(F: Ops, g: Tensor, self: Tensor) -> Tensor:
    """The block that exp([[A^T, g], [0, A^T]]) has in place of g."""
    rows = self.shape[-1]
    turned = F.transpose(self, -2, -1)
    above, below = F.cat([turned, g], -1), F.cat([F.zeros_like(self), turned], -1)
    whole = F.linalg_matrix_exp(F.cat([above, below], -2))
    return F.narrow(F.narrow(whole, -2, 0, rows), -1, rows, rows)


@matrix_exp.type
def _(self: KnownType) -> TensorType:
    check_matrix("linalg.matrix_exp", self.sizes, True)
    return same(self)


@matrix_exp.samples
def _() -> Iterator[Sample]:
    yield sample(make(3, 3, dtype="float64"))
    yield sample(make(2, 3, 3, dtype="float64"), note="batch")


# -- chains ------------------------------------------------------------------------------------------------------


def _order(sizes: list[int]) -> list[list[int]]:
    """The place at which splitting each stretch (i, j) of a chain of products takes the fewest multiplications."""
    count = len(sizes) - 1
    cost, split = [[0] * count for _ in range(count)], [[0] * count for _ in range(count)]
    for length in range(1, count):
        for i in range(count - length):
            j = i + length
            tries = {k: cost[i][k] + cost[k + 1][j] + sizes[i] * sizes[k + 1] * sizes[j + 1] for k in range(i, j)}
            split[i][j] = min(tries, key=tries.__getitem__)
            cost[i][j] = tries[split[i][j]]
    return split


@Precision(cuda="lower")
@composite("aten::linalg_multi_dot(Tensor[] tensors) -> Tensor", namespaces=LINALG)
def multi_dot(F: Ops, tensors: Sequence[Tensor]) -> Tensor:
    """The product of a chain of matrices, in the order of fewest multiplications; its ends may be vectors."""
    if len(tensors) < 2:
        raise UsageError("linalg.multi_dot: expects at least 2 tensors")
    first, *middle, last = tensors
    if any(t.ndim != 2 for t in middle) or any(t.ndim not in (1, 2) for t in (first, last)):
        raise ShapeError("linalg.multi_dot: expects matrices, and matrices or vectors at the ends")
    chain = [F.unsqueeze(first, 0) if first.ndim == 1 else first, *middle]
    chain.append(F.unsqueeze(last, 1) if last.ndim == 1 else last)
    if any(a.shape[1] != b.shape[0] for a, b in itertools.pairwise(chain)):
        raise ShapeError(f"linalg.multi_dot: the sizes {[list(t.shape) for t in tensors]} do not fit")
    split = _order([chain[0].shape[0], *(t.shape[1] for t in chain)])

    def product(i: int, j: int) -> Any:
        return chain[i] if i == j else F.mm(product(i, split[i][j]), product(split[i][j] + 1, j))

    found = product(0, len(chain) - 1)
    sizes = ([found.shape[0]] if first.ndim == 2 else []) + ([found.shape[1]] if last.ndim == 2 else [])
    return F.reshape(found, sizes)


@Precision(cuda="lower")
@composite("aten::chain_matmul(Tensor[] matrices) -> Tensor", spreads=True, namespaces=("jit",))
def chain_matmul(F: Ops, matrices: Sequence[Tensor]) -> Tensor:
    """The product of a chain of matrices; a single one is returned itself."""
    return matrices[0] if len(matrices) == 1 else F.linalg_multi_dot(list(matrices))


@multi_dot.samples
def _() -> Iterator[Sample]:
    yield sample([make(2, 3), make(3, 4, seed=1), make(4, 2, seed=2)])
    yield sample([make(3), make(3, 4, seed=1), make(4, seed=2)], note="vectors at the ends")


@chain_matmul.samples
def _() -> Iterator[Sample]:
    yield sample([make(2, 3), make(3, 4, seed=1)])


# -- norms -------------------------------------------------------------------------------------------------------

_NORM = "int[2] dim=[-2, -1], bool keepdim=False, *, ScalarType? dtype=None) -> Tensor"


def _two(name: str, self: Tensor, dim: Ints) -> tuple[int, int]:
    wrapped = [wrap_dim(d, self.ndim) for d in dim] if self.ndim else []
    if len(wrapped) != 2:
        raise ShapeError(f"{name}: expects two dims of a tensor of at least 2, got {list(dim)} of {self.ndim}")
    first, second = wrapped
    if first == second:
        raise ShapeError(f"{name}: the dims {list(dim)} are the same")
    return first, second


def _checked_fraction(name: str, self: Tensor, dtype: DType | None) -> None:
    if (dtype or self.dtype).is_integral:
        raise DTypeError(f"{name} needs a floating dtype, got {self.dtype.name}; cast first, e.g. x.float()")


def _of_values(F: Ops, self: Tensor, dims: tuple[int, int], keepdim: bool, combine: Any) -> Tensor:
    """`combine` of the singular values over two dims."""
    last = F.movedim(self, list(dims), [-2, -1])
    found = combine(F.linalg_svdvals(last))
    for d in sorted(dims) if keepdim else ():
        found = F.unsqueeze(found, d)
    return found


@Precision(cuda="float32")
@composite(f"aten::linalg_matrix_norm(Tensor self, Scalar ord, {_NORM}", namespaces=LINALG)
def matrix_norm(F: Ops, self: Tensor, ord: Number, dim: Ints, keepdim: bool, dtype: DType | None) -> Tensor:
    """A norm of the matrices in two dims: 1 or inf, the largest sum of a column or row, 2, the largest singular value.

    Negative ones take the smallest instead; a name is "fro", the 2-norm of all elements, or "nuc", the sum of the
    singular values.
    """
    _checked_fraction("linalg.matrix_norm", self, dtype)
    dims = _two("linalg.matrix_norm", self, dim)
    x = self if dtype is None else F._to_copy(self, dtype=dtype)
    if abs(ord) not in (1, 2, math.inf):
        raise UsageError(f"linalg.matrix_norm: ord is 'fro', 'nuc', or 1, 2 or inf of either sign, got {ord!r}")
    extreme = F.amax if ord > 0 else F.amin
    if abs(ord) == 2:
        return _of_values(
            F, x, dims, keepdim, lambda S: F.sum(S, -1) if ord > 0 and S.shape[-1] == 0 else extreme(S, (-1,))
        )
    summed, picked = dims if abs(ord) == 1 else dims[::-1]
    sums = F.linalg_vector_norm(x, 1, [summed], True)
    nothing = ord > 0 and x.shape[picked] == 0
    found = F.sum(sums, picked, True) if nothing else extreme(sums, (picked,), True)
    return found if keepdim else F.squeeze(found, sorted(dims))


@Precision(cuda="float32")
@composite(f'aten::linalg_matrix_norm.str_ord(Tensor self, str ord="fro", {_NORM}', namespaces=LINALG)
def matrix_norm_by_name(F: Ops, self: Tensor, ord: str, dim: Ints, keepdim: bool, dtype: DType | None) -> Tensor:
    """A norm of matrices over two dims: the 2-norm of all elements, "fro", or the sum of the singular values, "nuc"."""
    _checked_fraction("linalg.matrix_norm", self, dtype)
    dims = _two("linalg.matrix_norm", self, dim)
    if ord == "fro":
        return F.linalg_vector_norm(self, 2, list(dims), keepdim, dtype=dtype)
    if ord != "nuc":
        raise UsageError(f"linalg.matrix_norm: ord is 'fro', 'nuc', or 1, 2 or inf of either sign, got {ord!r}")
    x = self if dtype is None else F._to_copy(self, dtype=dtype)
    return _of_values(F, x, dims, keepdim, lambda S: F.sum(S, -1))


_ANY = "int[1]? dim=None, bool keepdim=False, *, ScalarType? dtype=None) -> Tensor"


@composite(f"aten::linalg_norm(Tensor self, Scalar? ord=None, {_ANY}", namespaces=LINALG)
def linalg_norm(
    F: Ops, self: Tensor, ord: Number | None, dim: Ints | None, keepdim: bool, dtype: DType | None
) -> Tensor:
    """The norm over dim: of vectors along one dim, of matrices in two.

    Without dim it is that of the vector or matrix self; without ord, too, the 2-norm of all elements.
    """
    if ord is not None and (len(dim) == 2 if dim is not None else self.ndim == 2):
        return F.linalg_matrix_norm(self, ord, [-2, -1] if dim is None else dim, keepdim, dtype=dtype)
    if ord is not None and dim is None and self.ndim != 1:
        raise ShapeError(f"linalg.norm: ord needs a vector or a matrix, and the tensor has {self.ndim} dims; pass dim")
    return F.linalg_vector_norm(self, 2 if ord is None else ord, dim, keepdim, dtype=dtype)


@composite(f"aten::linalg_norm.ord_str(Tensor self, str ord, {_ANY}", namespaces=LINALG)
def linalg_norm_by_name(F: Ops, self: Tensor, ord: str, dim: Ints | None, keepdim: bool, dtype: DType | None) -> Tensor:
    """The norm of matrices with a name: "fro" or "nuc"."""
    return F.linalg_matrix_norm(self, ord, [-2, -1] if dim is None else dim, keepdim, dtype=dtype)


@Precision(cuda="float32")
@composite("aten::nuclear_norm(Tensor self, bool keepdim=False) -> Tensor", namespaces=("jit",))
def nuclear_norm(F: Ops, self: Tensor, keepdim: bool) -> Tensor:
    """The sum of the singular values of matrices."""
    return F.linalg_matrix_norm(self, "nuc", [-2, -1], keepdim)


@matrix_norm.samples
def _() -> Iterator[Sample]:
    for ord in (1, -1, math.inf, -math.inf):
        yield sample(make(2, 3, 4), ord)
    for ord in (2, -2):
        yield sample(make(2, 3, 4, dtype="float64"), ord, [0, 2], True, onnx=False)


@matrix_norm_by_name.samples
def _() -> Iterator[Sample]:
    yield sample(make(2, 3, 4), "fro", [0, 1], True)
    yield sample(make(2, 3, 4, dtype="float64"), "nuc", onnx=False)


@linalg_norm.samples
def _() -> Iterator[Sample]:
    yield sample(make(2, 3, 4))
    yield sample(make(4), 3)
    yield sample(make(3, 4), 1, [0, 1])
    yield sample(make(3, 4), math.inf, 0, True)


@linalg_norm_by_name.samples
def _() -> Iterator[Sample]:
    yield sample(make(3, 4), "fro")


@nuclear_norm.samples
def _() -> Iterator[Sample]:
    yield sample(make(3, 4, dtype="float64"), onnx=False)


@Precision(cpu="float32")
@composite("aten::linalg_cond(Tensor self, Scalar? p=None) -> Tensor", namespaces=LINALG)
def linalg_cond(F: Ops, self: Tensor, p: Number | None) -> Tensor:
    """The condition number: the largest singular value over the smallest, or a norm times that of the inverse."""
    check_matrix("linalg.cond", self.shape, p not in (None, 2, -2))
    if p in (None, 2, -2):
        S = F.linalg_svdvals(self)
        large, small = F.select(S, -1, 0), F.select(S, -1, -1)
        return small / large if p == -2 else large / small
    return _cond_by_inverse(F, self, p)


@Precision(cpu="float32")
@composite("aten::linalg_cond.p_str(Tensor self, str p) -> Tensor", namespaces=LINALG)
def linalg_cond_by_name(F: Ops, self: Tensor, p: str) -> Tensor:
    """The condition number by a norm, "fro" or "nuc": that of self times that of the inverse."""
    check_matrix("linalg.cond", self.shape, True)
    return _cond_by_inverse(F, self, p)


def _cond_by_inverse(F: Ops, self: Tensor, p: Any) -> Tensor:
    found, info = F.linalg_inv_ex(self)
    product = F.linalg_matrix_norm(self, p) * F.linalg_matrix_norm(found, p)
    return F.where(F.eq(info, 0), product, math.inf)


@linalg_cond.samples
def _() -> Iterator[Sample]:
    for p in (None, -2, 1):
        yield sample(matrices(2, 3, 3), p, onnx=False)


@linalg_cond_by_name.samples
def _() -> Iterator[Sample]:
    yield sample(matrices(3, 3), "fro", onnx=False)
