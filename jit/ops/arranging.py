"""Arranging elements anew: stacking, splitting, turning, diagonals and blocks, all in terms of simpler operators."""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from jit.ir import dtypes
from jit.ir.errors import DTypeError, ShapeError, UsageError
from jit.ir.geometry import wrap_dim
from jit.ir.op import absent, array, composite
from jit.ir.precision import Precision
from jit.ir.samples import Sample, make, sample, strided, whole
from jit.ir.types import TensorType

from .creation import NEW, NOTHING, checked_sizes
from .ranges import spaced_dtype

if TYPE_CHECKING:
    from jit.ir.dtypes import DType

    from .protocols import Array, Ints, Number, Numpy, OnnxWriter, Ops, Tensor, Value

# -- stacking and splitting --------------------------------------------------------------------------------------


@composite("aten::column_stack(Tensor[] tensors) -> Tensor", namespaces=("jit",))
def column_stack(F: Ops, tensors: Sequence[Tensor]) -> Tensor:
    """The tensors joined along dim 1; vectors are columns."""
    return F.hstack([F.reshape(t, [t.numel(), 1]) if t.ndim < 2 else t for t in tensors])


@column_stack.samples
def _() -> Iterator[Sample]:
    yield sample([make(3), make(3, 2, seed=1), make(3, seed=2)])
    yield sample([make(), make(seed=1)], note="0-d")


@composite("aten::dstack(Tensor[] tensors) -> Tensor", namespaces=("jit",))
def dstack(F: Ops, tensors: Sequence[Tensor]) -> Tensor:
    """The tensors joined along dim 2, with at least three dims."""
    return F.cat(F.atleast_3d(list(tensors)), 2)


@dstack.samples
def _() -> Iterator[Sample]:
    yield sample([make(3), make(3, seed=1)])
    yield sample([make(2, 3), make(2, 3, seed=1)])


def _split_dim(name: str, self: Tensor, least: int, dim: int) -> int:
    if self.ndim < least:
        raise ShapeError(f"{name}: expects at least {least} dims, got the sizes {list(self.shape)}")
    return dim


def _checked_split(F: Ops, name: str, self: Tensor, where: int | Ints, dim: int) -> list[Tensor]:
    if isinstance(where, int) and (where < 1 or self.shape[dim] % where):
        raise ShapeError(f"{name}: a dim of size {self.shape[dim]} cannot be cut into {where} equal parts")
    return F.tensor_split(self, where, dim)


@composite("aten::hsplit.int(Tensor(a -> *) self, int sections) -> Tensor(a)[]")
def hsplit(F: Ops, self: Tensor, sections: int) -> list[Tensor]:
    """Views of parts of dim 1, or of a vector's only dim: `sections` equal ones, or cut at each of `indices`."""
    return _checked_split(F, "hsplit", self, sections, _split_dim("hsplit", self, 1, min(self.ndim - 1, 1)))


@composite("aten::hsplit.array(Tensor(a -> *) self, int[] indices) -> Tensor(a)[]")
def hsplit_at(F: Ops, self: Tensor, indices: Ints) -> list[Tensor]:
    """Views of parts of dim 1, or of a vector's only dim, cut at the indices."""
    return _checked_split(F, "hsplit", self, indices, _split_dim("hsplit", self, 1, min(self.ndim - 1, 1)))


@composite("aten::vsplit.int(Tensor(a -> *) self, int sections) -> Tensor(a)[]")
def vsplit(F: Ops, self: Tensor, sections: int) -> list[Tensor]:
    """Views of parts of dim 0: `sections` equal ones, or cut at each of `indices`."""
    return _checked_split(F, "vsplit", self, sections, _split_dim("vsplit", self, 2, 0))


@composite("aten::vsplit.array(Tensor(a -> *) self, int[] indices) -> Tensor(a)[]")
def vsplit_at(F: Ops, self: Tensor, indices: Ints) -> list[Tensor]:
    """Views of parts of dim 0, cut at the indices."""
    return _checked_split(F, "vsplit", self, indices, _split_dim("vsplit", self, 2, 0))


@composite("aten::dsplit.int(Tensor(a -> *) self, int sections) -> Tensor(a)[]")
def dsplit(F: Ops, self: Tensor, sections: int) -> list[Tensor]:
    """Views of parts of dim 2: `sections` equal ones, or cut at each of `indices`."""
    return _checked_split(F, "dsplit", self, sections, _split_dim("dsplit", self, 3, 2))


@composite("aten::dsplit.array(Tensor(a -> *) self, int[] indices) -> Tensor(a)[]")
def dsplit_at(F: Ops, self: Tensor, indices: Ints) -> list[Tensor]:
    """Views of parts of dim 2, cut at the indices."""
    return _checked_split(F, "dsplit", self, indices, _split_dim("dsplit", self, 3, 2))


@hsplit.samples
@vsplit.samples
@dsplit.samples
def _() -> Iterator[Sample]:
    yield sample(make(2, 4, 6), 2)


@hsplit_at.samples
@vsplit_at.samples
@dsplit_at.samples
def _() -> Iterator[Sample]:
    yield sample(make(3, 4, 5), [1, 2])


# -- turning -----------------------------------------------------------------------------------------------------


@composite("aten::fliplr(Tensor self) -> Tensor")
def fliplr(F: Ops, self: Tensor) -> Tensor:
    """self with its columns, the entries of dim 1, in reversed order."""
    return F.flip(self, [_split_dim("fliplr", self, 2, 1)])


@composite("aten::flipud(Tensor self) -> Tensor")
def flipud(F: Ops, self: Tensor) -> Tensor:
    """self with its rows, the entries of dim 0, in reversed order."""
    return F.flip(self, [_split_dim("flipud", self, 1, 0)])


@composite("aten::rot90(Tensor self, int k=1, int[] dims=[0, 1]) -> Tensor")
def rot90(F: Ops, self: Tensor, k: int, dims: Ints) -> Tensor:
    """self turned by k quarter turns in the plane of two dims, from the first towards the second."""
    if len(dims) != 2 or self.ndim < 2:
        raise ShapeError(f"rot90: expects a tensor of 2 dims or more and two dims, got {self.ndim} and {list(dims)}")
    a, b = (wrap_dim(d, self.ndim) for d in dims)
    if a == b:
        raise ShapeError(f"rot90: dims {list(dims)} are the same; name two different dims")
    turns = {1: [b], 2: [a, b], 3: [a]}
    turned = F.flip(self, turns[k % 4]) if k % 4 else F.clone(self)
    return F.clone(F.transpose(turned, a, b)) if k % 2 else turned


@fliplr.samples
@flipud.samples
@rot90.samples
def _() -> Iterator[Sample]:
    yield sample(make(2, 3))
    yield sample(strided(make(2, 3, 4)), note="strided")


def _more_turns() -> Iterator[Sample]:
    for k in (0, 1, 2, 3, -1):
        yield sample(make(2, 3, 4), k, [1, -1])
    yield sample(make(0, 3), note="empty", onnx=False)


rot90.sampler = _more_turns


@composite("aten::ravel(Tensor(a) self) -> Tensor(a)")
def ravel(F: Ops, self: Tensor) -> Tensor:
    """All elements of self in one dim; a view if self is contiguous, else a copy."""
    return F.view(F.contiguous(self), [-1])


@ravel.samples
def _() -> Iterator[Sample]:
    yield sample(make(2, 3))
    yield sample(strided(make(2, 3)), note="strided")
    yield sample(make(), note="0-d")


@composite("aten::adjoint(Tensor(a) self) -> Tensor(a)")
def adjoint(F: Ops, self: Tensor) -> Tensor:
    """self with its last two dims exchanged, and complex numbers conjugated."""
    turned = F.transpose(self, -2, -1)
    return F.conj(turned) if self.dtype.is_complex else turned


@adjoint.samples
def _() -> Iterator[Sample]:
    yield sample(make(2, 3, 4))


@composite("aten::channel_shuffle(Tensor self, int groups) -> Tensor", namespaces=("jit",))
def channel_shuffle(F: Ops, self: Tensor, groups: int) -> Tensor:
    """self with its channels dealt out: the first of each of `groups` groups, then the second of each, and so on."""
    if self.ndim < 3 or groups < 1 or self.shape[1] % groups:
        raise ShapeError(f"channel_shuffle: {groups} groups do not divide dim 1 of the sizes {list(self.shape)}")
    n, c, *rest = self.shape
    apart = F.reshape(self, [n, groups, c // groups, *rest])
    return F.reshape(F.clone(F.transpose(apart, 1, 2)), [n, c, *rest])


@channel_shuffle.samples
def _() -> Iterator[Sample]:
    yield sample(make(2, 6, 3), 2)


# -- diagonals and blocks ----------------------------------------------------------------------------------------


@composite("aten::diag_embed(Tensor self, int offset=0, int dim1=-2, int dim2=-1) -> Tensor")
def diag_embed(F: Ops, self: Tensor, offset: int, dim1: int, dim2: int) -> Tensor:
    """self on a diagonal of two new dims, dim1 and dim2, zeros elsewhere: [..., n] gives [..., n, n]."""
    a, b = (wrap_dim(d, self.ndim + 1) for d in (dim1, dim2))
    if a == b:
        raise ShapeError(f"diag_embed: dim1 and dim2 are both {a}; name two different dims")
    if self.ndim == 0:
        raise ShapeError("diag_embed: expects at least 1 dim, got a 0-d tensor")
    sizes = list(self.shape[:-1])
    for at in sorted((a, b)):
        sizes.insert(at, self.shape[-1] + abs(offset))
    zeros = F.zeros(sizes, dtype=self.dtype, device=self.device)
    return F.diagonal_scatter(zeros, self, offset, a, b)


@diag_embed.samples
def _() -> Iterator[Sample]:
    yield sample(make(2, 3))
    yield sample(make(2, 3), 1, 0, 2)
    yield sample(make(3), -2)


@composite("aten::diag(Tensor self, int diagonal=0) -> Tensor")
def diag(F: Ops, self: Tensor, diagonal: int) -> Tensor:
    """A matrix with the vector self on a diagonal, or a copy of the matrix self's diagonal."""
    if self.ndim not in (1, 2):
        raise ShapeError(f"diag: expects a vector or a matrix, got the sizes {list(self.shape)}")
    return F.diag_embed(self, diagonal) if self.ndim == 1 else F.clone(F.diagonal(self, diagonal))


@diag.samples
def _() -> Iterator[Sample]:
    yield sample(make(3))
    yield sample(make(3, 4), 1)


@composite("aten::linalg_diagonal(Tensor(a) A, *, int offset=0, int dim1=-2, int dim2=-1) -> Tensor(a)",
           namespaces=("linalg",))  # fmt: skip
def linalg_diagonal(F: Ops, A: Tensor, offset: int, dim1: int, dim2: int) -> Tensor:
    """A view of the diagonal of each matrix of a batch."""
    return F.diagonal(A, offset, dim1, dim2)


@linalg_diagonal.samples
def _() -> Iterator[Sample]:
    yield sample(make(2, 3, 4))
    yield sample(make(3, 4), offset=1)


@composite("aten::diagflat(Tensor self, int offset=0) -> Tensor")
def diagflat(F: Ops, self: Tensor, offset: int) -> Tensor:
    """A matrix with all elements of self on a diagonal."""
    return F.diag_embed(F.reshape(self, [-1]), offset)


@diagflat.samples
def _() -> Iterator[Sample]:
    yield sample(make(2, 2))
    yield sample(make(), 1, note="0-d")


@composite("aten::block_diag(Tensor[] tensors) -> Tensor", spreads=True, namespaces=("jit",))
def block_diag(F: Ops, tensors: Sequence[Tensor]) -> Tensor:
    """The matrices along a diagonal, zeros elsewhere; vectors are rows."""
    if any(t.ndim > 2 for t in tensors):
        raise ShapeError(
            f"block_diag: expects tensors of at most 2 dims, got the sizes {[list(t.shape) for t in tensors]}"
        )
    blocks = F.atleast_2d(list(tensors)) if tensors else [F.zeros([1, 0])]
    total, before, rows = sum(b.shape[1] for b in blocks), 0, []
    for block in blocks:
        rows.append(F.constant_pad_nd(block, [before, total - before - block.shape[1]]))
        before = before + block.shape[1]
    return F.cat(rows, 0)


@block_diag.samples
def _() -> Iterator[Sample]:
    yield sample([make(2, 3), make(1, 1, seed=1), make(2, seed=2), make(seed=3)])


@composite("aten::kron(Tensor self, Tensor other) -> Tensor")
def kron(F: Ops, self: Tensor, other: Tensor) -> Tensor:
    """The Kronecker product: each element of self is replaced by its product with the whole of other."""
    ndim = max(self.ndim, other.ndim)
    a, b = ([1] * (ndim - t.ndim) + list(t.shape) for t in (self, other))
    left = F.reshape(self, [n for size in a for n in (size, 1)])
    right = F.reshape(other, [n for size in b for n in (1, size)])
    return F.reshape(left * right, [x * y for x, y in zip(a, b, strict=True)])


@kron.samples
def _() -> Iterator[Sample]:
    yield sample(make(2, 3), make(3, 2, seed=1))
    yield sample(make(2), make(2, 1, 2, seed=1), note="ranks differ")


# -- products of sets --------------------------------------------------------------------------------------------


@composite("aten::cartesian_prod(Tensor[] tensors) -> Tensor", spreads=True, namespaces=("jit",))
def cartesian_prod(F: Ops, tensors: Sequence[Tensor]) -> Tensor:
    """Every combination of one element of each vector, as rows: [n * m * ..., vectors]; of one vector, itself."""
    if any(t.ndim != 1 for t in tensors):
        raise ShapeError(f"cartesian_prod: expects vectors, got the sizes {[list(t.shape) for t in tensors]}")
    if len(tensors) == 1:
        return tensors[0]
    return F.stack([F.reshape(F.clone(grid), [-1]) for grid in F.meshgrid(list(tensors), indexing="ij")], 1)


@cartesian_prod.samples
def _() -> Iterator[Sample]:
    yield sample([make(2), make(3, seed=1)])
    yield sample([make(3)], note="one")


_CHOICES = {False: itertools.combinations, True: itertools.combinations_with_replacement}


@array("aten::choices(int n, int r, bool repeated, *, Device? device=None) -> Tensor", namespaces=(), grad=NOTHING)
def choices(m: Numpy, n: int, r: int, repeated: bool, device: str | None) -> Array:
    """All combinations of r of the numbers below n as rows, each in ascending order."""
    found = list(_CHOICES[repeated](range(n), r))
    return m.array(found, m.int64).reshape(len(found), r)


@choices.type
def _(n: int, r: int, repeated: bool, device: str | None) -> TensorType:
    count = math.comb(n + r - 1, r) if repeated and n else math.comb(n, r)
    return TensorType(dtypes.int64, (count, r), None, device or "cpu")


@choices.onnx
def _(g: OnnxWriter, n: int, r: int, repeated: bool, device: str | None) -> Value:
    return g.constant(choices.body(np, n, r, repeated, device), dtype=dtypes.int64)


@choices.samples
def _() -> Iterator[Sample]:
    yield sample(4, 2, False)
    yield sample(3, 2, True)


@composite("aten::combinations(Tensor self, int r=2, bool with_replacement=False) -> Tensor")
def combinations(F: Ops, self: Tensor, r: int, with_replacement: bool) -> Tensor:
    """All combinations of r elements of a vector, as rows: [count, r]."""
    if self.ndim != 1 or r < 0:
        raise ShapeError(f"combinations: expects a vector and r >= 0, got {list(self.shape)} and {r}")
    if r == 0:
        return F.zeros([0], dtype=self.dtype)
    return F.index(self, [F.choices(self.shape[0], r, with_replacement)])


@combinations.samples
def _() -> Iterator[Sample]:
    yield sample(make(4))
    yield sample(make(3), 2, True)
    yield sample(make(4), 3)


# -- places ------------------------------------------------------------------------------------------------------


@composite("aten::nonzero_static(Tensor self, *, int size, int fill_value=-1) -> Tensor",
           grad=absent("the result is made of indices"),
           onnx=absent("how many rows are cut off depends on values"))  # fmt: skip
def nonzero_static(F: Ops, self: Tensor, size: int, fill_value: int) -> Tensor:
    """The first `size` rows of nonzero(self); missing rows hold fill_value."""
    found = F.nonzero(self)
    rows = F.narrow(found, 0, 0, min(size, int(found.shape[0])))
    return F.constant_pad_nd(rows, [0, 0, 0, size - rows.shape[0]], fill_value)


@nonzero_static.samples
def _() -> Iterator[Sample]:
    yield sample(np.array([0, 3, 0, 4]), size=3, onnx=False)
    yield sample(np.array([[1, 0], [2, 3]]), size=2, onnx=False)


def _triangle(m: Any, row: int, col: int, offset: int, lower: bool) -> Any:
    """The places on and below (or above) a diagonal, [2, count]: a line of row numbers and one of column numbers."""
    if row < 0 or col < 0:
        raise ShapeError(f"the sizes of a matrix must not be negative, got {row} and {col}")
    inside = m.tril(m.ones((row, col)), offset) if lower else m.triu(m.ones((row, col)), offset)
    return m.stack(m.nonzero(inside))


def _triangle_type(
    row: int, col: int, offset: int, dtype: DType | None, device: str | None, lower: bool
) -> TensorType:  # fmt: skip
    return TensorType(dtype or dtypes.int64, _triangle(np, row, col, offset, lower).shape, None, device or "cpu")


@array(f"aten::tril_indices(int row, int col, int offset=0, {NEW}", namespaces=("jit",), grad=NOTHING,
       type=lambda row, col, offset, dtype, device: _triangle_type(row, col, offset, dtype, device, True))  # fmt: skip
def tril_indices(m: Numpy, row: int, col: int, offset: int, dtype: DType | None, device: str | None) -> Array:
    """The places on and below a diagonal, [2, count]: a line of row numbers and one of column numbers."""
    return _triangle(m, row, col, offset, True).astype((dtype or dtypes.int64).numpy)


@array(f"aten::triu_indices(int row, int col, int offset=0, {NEW}", namespaces=("jit",), grad=NOTHING,
       type=lambda row, col, offset, dtype, device: _triangle_type(row, col, offset, dtype, device, False))  # fmt: skip
def triu_indices(m: Numpy, row: int, col: int, offset: int, dtype: DType | None, device: str | None) -> Array:
    """The places on and above a diagonal, [2, count]: a line of row numbers and one of column numbers."""
    return _triangle(m, row, col, offset, False).astype((dtype or dtypes.int64).numpy)


@tril_indices.onnx
def _(g: OnnxWriter, row: int, col: int, offset: int, dtype: DType | None, device: str | None) -> Value:
    return g.constant(_triangle(np, row, col, offset, True), dtype=g.out.dtype)


@triu_indices.onnx
def _(g: OnnxWriter, row: int, col: int, offset: int, dtype: DType | None, device: str | None) -> Value:
    return g.constant(_triangle(np, row, col, offset, False), dtype=g.out.dtype)


@tril_indices.samples
@triu_indices.samples
def _() -> Iterator[Sample]:
    yield sample(3, 4)
    yield sample(4, 3, -1)
    yield sample(2, 3, 1, dtype=dtypes.int32)


@composite("aten::unravel_index(Tensor self, int[] shape) -> Tensor[]", namespaces=("jit",),
           grad=absent("the result is made of indices"))  # fmt: skip
def unravel_index(F: Ops, self: Tensor, shape: Ints) -> list[Tensor]:
    """The indices, one tensor for each dim of `shape`, of the elements that self counts in row-major order."""
    if not self.dtype.is_integral or self.dtype is dtypes.bool_:
        raise DTypeError(f"unravel_index: expects integers, got {self.dtype}")
    if any(s < 0 for s in shape):
        raise UsageError(f"unravel_index: the sizes in {list(shape)} must not be negative")
    found, step = [], 1
    for size in reversed(shape):
        found.append(F.remainder(F.floor_divide(self, step), size))
        step *= size
    return found[::-1]


@unravel_index.samples
def _() -> Iterator[Sample]:
    yield sample(np.array([0, 7, 23]), [2, 3, 4])


# -- writing to places -------------------------------------------------------------------------------------------


@composite("aten::put(Tensor self, Tensor index, Tensor source, bool accumulate=False) -> Tensor",
           namespaces=("jit", "Tensor"), inplace=True)  # fmt: skip
def put(F: Ops, self: Tensor, index: Tensor, source: Tensor, accumulate: bool) -> Tensor:
    """self with the elements that index counts in row-major order replaced by source's; if `accumulate`, added to."""
    if self.dtype is not source.dtype:
        raise DTypeError(f"put: expects one dtype, got {self.dtype} and {source.dtype}; cast one of them")
    if not index.dtype.is_integral or index.numel() != source.numel():
        raise ShapeError(
            f"put: index should be integers, as many as source has, got {list(index.shape)} and {list(source.shape)}"
        )
    flat = F.index_put(F.reshape(self, [-1]), [F.reshape(index, [-1])], F.reshape(source, [-1]), accumulate)
    return F.reshape(flat, self.shape)


@put.samples
def _() -> Iterator[Sample]:
    yield sample(make(2, 3), np.array([5, -6]), make(2, seed=1))
    yield sample(make(2, 3), np.array([[1, 1]]), make(1, 2, seed=1), True, note="accumulate")


@composite("aten::index_reduce(Tensor self, int dim, Tensor index, Tensor source, str reduce, *, "
           "bool include_self=True) -> Tensor", inplace=True)  # fmt: skip
def index_reduce(
    F: Ops, self: Tensor, dim: int, index: Tensor, source: Tensor, reduce: str, include_self: bool
) -> Tensor:
    """self with source's entries of dim combined into those that index names, by prod, mean, amax or amin."""
    if reduce not in ("prod", "mean", "amax", "amin"):
        raise UsageError(f"index_reduce: reduce should be 'prod', 'mean', 'amax' or 'amin', got {reduce!r}")
    at = wrap_dim(dim, self.ndim)
    if self.ndim == 0:
        one = F.reshape(self, [1]), F.reshape(index, [1]), F.reshape(source, [1])
        return F.reshape(F.scatter_reduce(one[0], 0, one[1], one[2], reduce, include_self=include_self), [])
    lined = F.reshape(index, [1] * at + [-1] + [1] * (self.ndim - at - 1))
    return F.scatter_reduce(self, at, F.expand(lined, source.shape), source, reduce, include_self=include_self)


@index_reduce.samples
def _() -> Iterator[Sample]:
    rows = np.array([0, 2, 0])
    for word in ("prod", "mean", "amax", "amin"):
        yield sample(make(3, 2), 0, rows, make(3, 2, seed=1), word)
    yield sample(make(2, 3), -1, rows, make(2, 3, seed=1), "mean", include_self=False)


# -- numbers -----------------------------------------------------------------------------------------------------


@composite(f"aten::logspace(Scalar start, Scalar end, int steps, float base=10.0, {NEW}", namespaces=("jit",))
def logspace(
    F: Ops, start: Number, end: Number, steps: int, base: float, dtype: DType | None, device: str | None
) -> Tensor:
    """base ** linspace(start, end, steps)."""
    result = spaced_dtype("logspace", start, end, dtype)
    if result.is_integral:
        start, end = int(start), int(end)
    inner = dtypes.float64 if not result.is_complex else result
    return F._to_copy(F.pow(base, F.linspace(start, end, steps, dtype=inner, device=device)), dtype=result)


@logspace.samples
def _() -> Iterator[Sample]:
    yield sample(0, 2, 5)
    yield sample(-1.0, 1.0, 4, 2.0, dtype=dtypes.float64, onnx=False)
    yield sample(0, 1, 0, note="empty", onnx=False)


@composite(f"aten::empty_strided(int[] size, int[] stride, {NEW}", namespaces=("jit",),
           onnx=absent("ONNX has no strided views"))  # fmt: skip
def empty_strided(F: Ops, size: Ints, stride: Ints, dtype: DType | None, device: str | None) -> Tensor:
    """`empty` in these sizes and strides."""
    sizes = checked_sizes(size)
    if len(size) != len(stride) or min(stride, default=0) < 0:
        raise ShapeError(
            f"empty_strided: {list(stride)} should hold a stride, not negative, for each of the sizes {list(size)}"
        )
    span = 0 if 0 in sizes else 1 + sum((n - 1) * s for n, s in zip(sizes, stride, strict=True))
    return F.as_strided(F.zeros([span], dtype=dtype, device=device), sizes, stride)


@composite(f"aten::new_empty_strided(Tensor self, int[] size, int[] stride, {NEW}", namespaces=("Tensor",),
           grad=NOTHING, onnx=absent("ONNX has no strided views"))  # fmt: skip
def new_empty_strided(
    F: Ops, self: Tensor, size: Ints, stride: Ints, dtype: DType | None, device: str | None
) -> Tensor:
    """`empty_strided` with self's dtype and device."""
    return F.empty_strided(size, stride, dtype=dtype or self.dtype, device=device or self.device)


@composite(f"aten::empty_permuted(int[] size, int[] physical_layout, {NEW}", namespaces=("jit",))
def empty_permuted(F: Ops, size: Ints, physical_layout: Ints, dtype: DType | None, device: str | None) -> Tensor:
    """`empty` in these sizes, whose dims lie in memory in the order physical_layout, the outermost first."""
    order = list(physical_layout)
    if sorted(order) != list(range(len(size))):
        raise UsageError(f"empty_permuted: physical_layout {order} should name each of the {len(size)} dims once")
    laid = F.zeros([size[d] for d in order], dtype=dtype, device=device)
    return F.permute(laid, [order.index(d) for d in range(len(order))])


@empty_strided.samples
def _() -> Iterator[Sample]:
    yield sample([2, 3], [1, 2], onnx=False)
    yield sample([2, 3], [1, 4], dtype=dtypes.int64, onnx=False)


@new_empty_strided.samples
def _() -> Iterator[Sample]:
    yield sample(make(2), [2, 3], [1, 2], grad=False, onnx=False)


@empty_permuted.samples
def _() -> Iterator[Sample]:
    yield sample([2, 3, 4], [0, 2, 1])


def _powers(F: Ops, x: Tensor, count: int, increasing: bool) -> Tensor:
    steps = F.arange(0, count, 1) if increasing else F.arange(count - 1, -1, -1)
    return F.pow(F.unsqueeze(x, -1), steps)


def _wide(F: Ops, x: Tensor) -> Tensor:
    return F._to_copy(x, dtype=dtypes.int64) if x.dtype is dtypes.bool_ else x


@Precision(cuda="given")
@composite("aten::vander(Tensor x, int? N=None, bool increasing=False) -> Tensor", namespaces=("jit",))
def vander(F: Ops, x: Tensor, N: int | None, increasing: bool) -> Tensor:
    """The powers of a vector's elements, [n, N]: from N - 1 down to 0, or up if `increasing`."""
    if x.ndim != 1:
        raise ShapeError(f"vander: expects a vector, got the sizes {list(x.shape)}")
    count = x.shape[0] if N is None else N
    if count < 0:
        raise UsageError(f"vander: N must not be negative, got {N}")
    return _powers(F, _wide(F, x), count, increasing)


@Precision(cuda="given")
@composite("aten::linalg_vander(Tensor x, *, int? N=None) -> Tensor", namespaces=("linalg",))
def linalg_vander(F: Ops, x: Tensor, N: int | None) -> Tensor:
    """The powers 0 to N - 1 of the elements along the last dim: [..., n] gives [..., n, N]."""
    count = N if N is not None else x.shape[-1] if x.ndim else 1
    if count <= 1:
        raise UsageError(f"linalg.vander: N must be greater than 1, got {count}")
    return _powers(F, _wide(F, F.atleast_1d(x)), count, True)


@vander.samples
def _() -> Iterator[Sample]:
    yield sample(make(3))
    yield sample(make(2), 4, True)
    yield sample(whole(3, low=-3, high=3), note="integer", grad=False, onnx=False)


@linalg_vander.samples
def _() -> Iterator[Sample]:
    yield sample(make(2, 3))
    yield sample(make(3), N=2)
