"""Transposed, joined and selected sparse tensors: what changes places and not values."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from jit.eager.namespace import F
from jit.eager.tensors import Size
from jit.ir.errors import DimError, ShapeError, UsageError
from jit.ir.geometry import wrap_dim

from .arithmetic import at_places
from .tensors import Sparse, SparseTensor, along, expect_matrix, in_runs


def transposed(self: SparseTensor, dim0: int, dim1: int) -> SparseTensor:
    """The operator transpose, of two sparse dims."""
    order = list(range(self.dim()))
    one, other = along(self, dim0), along(self, dim1)
    order[one], order[other] = other, one
    return permuted(self, order)


def permuted(self: SparseTensor, *dims: Any) -> SparseTensor:
    """The operator permute, of sparse dims, which are given one by one or in a list."""
    order = [along(self, dim) for dim in (dims[0] if len(dims) == 1 and not hasattr(dims[0], "__index__") else dims)]
    sparse = self.sparse_dim()
    if sorted(order) != list(range(self.dim())) or order[sparse:] != list(range(sparse, self.dim())):
        raise UsageError("permute takes each dim once, and sparse dims change places among each other; use to_dense()")
    if order == list(range(self.dim())):
        return self
    rows = self.rows()
    sizes = Size([self.shape[dim] for dim in order])
    return SparseTensor(F.stack([rows[dim] for dim in order[:sparse]]), self.held, sizes, False)


def turned(self: SparseTensor) -> SparseTensor:
    """The operator t, of a matrix."""
    expect_matrix("t", self)
    return transposed(self, 0, 1)


def joined(tensors: Sequence[Any], dim: int = 0) -> SparseTensor:
    """The operator cat, along a sparse dim."""
    first = tensors[0]
    if not all(isinstance(each, Sparse) for each in tensors):
        raise UsageError("cat joins sparse tensors with sparse ones; use to_dense() or to_sparse() of some")
    at = along(first, dim)
    for each in tensors:
        rest = [size for d, size in enumerate(each.shape) if d != at]
        if rest != [size for d, size in enumerate(first.shape) if d != at] or each.sparse_dim() != first.sparse_dim():
            raise ShapeError("cat: sizes of sparse tensors differ elsewhere than along dim; use to_dense()")
    if at >= first.sparse_dim():
        raise UsageError("cat joins sparse tensors along their sparse dims; use to_dense()")
    places, before = [], 0
    for each in tensors:
        places.append(F.stack([row + before if d == at else row for d, row in enumerate(each.rows())]))
        before = before + each.shape[at]
    sizes = Size([before if d == at else size for d, size in enumerate(first.shape)])
    return SparseTensor(F.cat(places, 1), F.cat([each.held for each in tensors]), sizes, False)


def selected(self: SparseTensor, dim: int, index: Any) -> Any:
    """The operator select, along a sparse dim: dense, if no sparse dim is left."""
    at = along(self, dim)
    if not hasattr(index, "__index__") or at >= self.sparse_dim():
        raise UsageError("a sparse tensor is indexed by whole numbers along its sparse dims; use to_dense()")
    size = self.shape[at]
    if not -size <= index < size:
        raise DimError(f"the index {index} lies outside of dim {at}, which has size {size}")
    rows = self.rows()
    found = F.reshape(F.nonzero(F.eq(rows[at], index % size)), [-1])
    values = F.index_select(self.held, 0, found)
    kept = [F.index_select(row, 0, found) for d, row in enumerate(rows) if d != at]
    if not kept:
        return F.sum(values, 0)
    return SparseTensor(F.stack(kept), values, Size([s for d, s in enumerate(self.shape) if d != at]), self.ordered)


def chosen(self: SparseTensor, dim: int, index: Any) -> SparseTensor:
    """The operator index_select, along a sparse dim: an entry comes as often as its place is named."""
    at = along(self, dim)
    if at >= self.sparse_dim():
        raise UsageError("index_select goes along the sparse dims of a sparse tensor; use to_dense()")
    F.index_select(F.empty((self.shape[at],), device=self.device), 0, index)  # refuses what lies outside
    ordered, order = F.sort(index)
    rows = self.rows()
    first = F.searchsorted(ordered, rows[at])
    number, met = in_runs(first, F.searchsorted(ordered, rows[at], right=True) - first)
    places = [F.index_select(order, 0, met) if d == at else F.index_select(r, 0, number) for d, r in enumerate(rows)]
    sizes = Size([index.shape[0] if d == at else size for d, size in enumerate(self.shape)])
    return SparseTensor(F.stack(places), F.index_select(self.held, 0, number), sizes, False)


def inserted(self: SparseTensor, dim: int) -> SparseTensor:
    """The operator unsqueeze, among the sparse dims."""
    at = wrap_dim(dim, self.dim() + 1)
    if at > self.sparse_dim():
        raise UsageError("unsqueeze inserts a dim among the sparse dims of a sparse tensor; use to_dense()")
    rows = list(self.rows())
    rows.insert(at, F.zeros_like(rows[0]))
    return SparseTensor(F.stack(rows), self.held, Size([*self.shape[:at], 1, *self.shape[at:]]), self.ordered)


def stacked(tensors: Sequence[Any], dim: int = 0) -> SparseTensor:
    """The operator stack, along a new sparse dim."""
    return joined([F.unsqueeze(each, dim) for each in tensors], dim)


def masked(self: Any, mask: SparseTensor) -> SparseTensor:
    """The elements of a tensor at the places of the entries of a sparse one."""
    if tuple(self.shape) != tuple(mask.shape):
        raise ShapeError(
            f"sparse_mask: the sizes {list(self.shape)} and {list(mask.shape)} differ; use those of the mask"
        )
    return mask.holding(at_places(self.to_dense(), mask))


def emptied(self: SparseTensor, *, dtype: Any = None, device: Any = None, **ignored: Any) -> SparseTensor:
    """The operator zeros_like: no entries."""
    none = SparseTensor(self.at[:, :0], F.zeros_like(self.held[:0], dtype=dtype), self.shape, True)
    return none if device is None else none.moved(device)


__all__ = [
    "chosen", "emptied", "inserted", "joined", "masked", "permuted", "selected", "stacked", "transposed", "turned",
]  # fmt: skip
