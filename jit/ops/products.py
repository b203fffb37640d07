"""Products and distances of vectors, and rows brought to a norm."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from jit.ir.errors import DTypeError, ShapeError, UsageError
from jit.ir.geometry import broadcast_shapes, wrap_dim
from jit.ir.op import composite
from jit.ir.precision import LOWER, Precision
from jit.ir.samples import Sample, make, sample

if TYPE_CHECKING:
    from .protocols import Number, Ops, Tensor


def _crossed(F: Ops, name: str, self: Tensor, other: Tensor, dim: int) -> Tensor:
    shape = broadcast_shapes(tuple(self.shape), tuple(other.shape))
    at = wrap_dim(dim, len(shape))
    if self.shape[at - len(shape)] != 3 or other.shape[at - len(shape)] != 3:
        raise ShapeError(
            f"{name}: dim {dim} should have size 3 in both, got {list(self.shape)} and {list(other.shape)}"
        )
    a, b = F.expand(self, shape), F.expand(other, shape)
    first = F.roll(a, [-1], [at]) * F.roll(b, [-2], [at])
    return first - F.roll(a, [-2], [at]) * F.roll(b, [-1], [at])


@composite("aten::linalg_cross(Tensor self, Tensor other, *, int dim=-1) -> Tensor", namespaces=("linalg",))
def linalg_cross(F: Ops, self: Tensor, other: Tensor, dim: int) -> Tensor:
    """The cross product of the vectors along dim, which has size 3."""
    if self.ndim != other.ndim:
        raise ShapeError(f"linalg.cross: both tensors should have as many dims, got {self.ndim} and {other.ndim}")
    return _crossed(F, "linalg.cross", self, other, dim)


@Precision(cuda="widest")
@composite("aten::cross(Tensor self, Tensor other, int? dim=None) -> Tensor")
def cross(F: Ops, self: Tensor, other: Tensor, dim: int | None) -> Tensor:
    """The cross product of the vectors along dim; without dim, along the first one of size 3."""
    if self.ndim != other.ndim:
        raise ShapeError(f"cross: both tensors should have as many dims, got {self.ndim} and {other.ndim}")
    if dim is None:
        dim = next((d for d, size in enumerate(self.shape) if size == 3), None)
        if dim is None:
            raise ShapeError(f"cross: no dim of {list(self.shape)} has size 3")
    return _crossed(F, "cross", self, other, dim)


@linalg_cross.samples
def _() -> Iterator[Sample]:
    yield sample(make(2, 3), make(2, 3, seed=1))
    yield sample(make(3, 1), make(3, 4, seed=1), dim=0)


@cross.samples
def _() -> Iterator[Sample]:
    yield sample(make(2, 3), make(2, 3, seed=1))
    yield sample(make(3, 3), make(3, 3, seed=1), 1)


@composite("aten::inner(Tensor self, Tensor other) -> Tensor")
def inner(F: Ops, self: Tensor, other: Tensor) -> Tensor:
    """The sums of products along the last dims; the product of both if one is 0-d."""
    if self.ndim == 0 or other.ndim == 0:
        return self * other
    return F.tensordot(self, other, [-1], [-1])


@inner.samples
def _() -> Iterator[Sample]:
    yield sample(make(3), make(3, seed=1))
    yield sample(make(2, 3), make(4, 3, seed=1))
    yield sample(make(), make(2, seed=1), note="0-d")


@Precision(cuda="widest")
@composite("aten::vdot(Tensor self, Tensor other) -> Tensor")
def vdot(F: Ops, self: Tensor, other: Tensor) -> Tensor:
    """The dot product of two vectors, the first conjugated."""
    return F.dot(F.conj(self), other)


@vdot.samples
def _() -> Iterator[Sample]:
    yield sample(make(3), make(3, seed=1))


@LOWER
@composite("aten::linalg_vecdot(Tensor x, Tensor y, *, int dim=-1) -> Tensor", namespaces=("linalg",))
def linalg_vecdot(F: Ops, x: Tensor, y: Tensor, dim: int) -> Tensor:
    """The dot products of the vectors along dim, the first conjugated."""
    if x.dtype is not y.dtype:
        raise DTypeError(f"linalg.vecdot: expects one dtype, got {x.dtype} and {y.dtype}; cast one of them")
    return F.sum(F.conj(x) * y, dim)


@linalg_vecdot.samples
def _() -> Iterator[Sample]:
    yield sample(make(2, 3), make(2, 3, seed=1))
    yield sample(make(2, 3), make(2, 1, seed=1), dim=0)


@Precision(cuda="float32")
@composite("aten::dist(Tensor self, Tensor other, Scalar p=2) -> Tensor")
def dist(F: Ops, self: Tensor, other: Tensor, p: Number) -> Tensor:
    """The p-norm of self - other."""
    return F.linalg_vector_norm(self - other, p)


@dist.samples
def _() -> Iterator[Sample]:
    yield sample(make(2, 3), make(3, seed=1))
    yield sample(make(3), make(3, seed=1), 3)


@Precision(cuda="float32")
@composite("aten::pdist(Tensor self, float p=2) -> Tensor", namespaces=("jit", "nn.functional"))
def pdist(F: Ops, self: Tensor, p: float) -> Tensor:
    """The p-norms of the differences of every two rows of a matrix [n, k], as a vector [n * (n - 1) / 2]."""
    if self.ndim != 2 or p < 0:
        raise ShapeError(f"pdist: expects a matrix and p >= 0, got the sizes {list(self.shape)} and {p}")
    first, second = F.unbind(F.triu_indices(self.shape[0], self.shape[0], 1))
    return F.linalg_vector_norm(F.index_select(self, 0, first) - F.index_select(self, 0, second), p, -1)


@pdist.samples
def _() -> Iterator[Sample]:
    yield sample(make(4, 3))
    yield sample(make(4, 3), 1.5)


@Precision(cuda="float32")
@composite("aten::renorm(Tensor self, Scalar p, int dim, Scalar maxnorm) -> Tensor", inplace=True)
def renorm(F: Ops, self: Tensor, p: Number, dim: int, maxnorm: Number) -> Tensor:
    """self with the slices along dim whose p-norm is above maxnorm scaled down to it."""
    if not isinstance(p, (int, float)) or p <= 0 or maxnorm < 0:
        raise UsageError(f"renorm: p must be positive and maxnorm not negative, got {p} and {maxnorm}")
    if self.ndim < 2:
        raise ShapeError(f"renorm: expects at least 2 dims, got the sizes {list(self.shape)}")
    at = wrap_dim(dim, self.ndim)
    norms = F.linalg_vector_norm(self, p, [d for d in range(self.ndim) if d != at], True)
    return self * F.where(F.gt(norms, maxnorm), maxnorm / (norms + 1e-7), 1)


@renorm.samples
def _() -> Iterator[Sample]:
    yield sample(make(3, 4), 2, 0, 1.5)
    yield sample(make(2, 3, 2), 1.5, -1, 1.0)


@composite("aten::resolve_conj(Tensor(a) self) -> Tensor(a)")
def resolve_conj(F: Ops, self: Tensor) -> Tensor:
    """self itself: conjugates are computed at once."""
    return self


@composite("aten::resolve_neg(Tensor(a) self) -> Tensor(a)")
def resolve_neg(F: Ops, self: Tensor) -> Tensor:
    """self itself: negatives are computed at once."""
    return self


@resolve_conj.samples
@resolve_neg.samples
def _() -> Iterator[Sample]:
    yield sample(make(2, 3))
