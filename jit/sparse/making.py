"""Sparse tensors from places and values, and from dense tensors."""

from __future__ import annotations

from typing import Any

from jit.eager.creation import tensor
from jit.eager.expecting import expect
from jit.eager.namespace import F
from jit.eager.tensors import Size, Tensor
from jit.ir import dtypes, layouts
from jit.ir.devices import resolve
from jit.ir.dtypes import as_dtype
from jit.ir.errors import ShapeError, UsageError

from .tensors import Sparse, SparseCsrTensor, SparseTensor


def sparse_coo_tensor(
    indices: Any, values: Any = None, size: Any = None, *, dtype: Any = None, device: Any = None,
    pin_memory: bool = False, requires_grad: bool = False, check_invariants: bool | None = None,
    is_coalesced: bool | None = None,
) -> SparseTensor:  # fmt: skip
    """A sparse tensor of these values at these places; those at one place are added up.

    Gradients flow to `values`.

    Args:
        indices: The places `[sparse dims, entries]`, or, without values, the sizes of a tensor without entries.
        values: The values `[entries, dense dims...]`.
        size: The sizes of the tensor; the least that hold all places if left out.
        pin_memory: Accepted; makes no difference.
        requires_grad: Whether gradients by the values are wanted.
        check_invariants: Accepted: places are always checked.
        is_coalesced: Whether places are known to be sorted, and different ones.

    Raises:
        ShapeError: Places, values and sizes do not fit one another.

    >>> import jit
    >>> jit.sparse_coo_tensor([[0, 1], [1, 0]], [2.0, 3.0], (2, 2)).to_dense().tolist()
    [[0.0, 2.0], [3.0, 0.0]]
    """
    if values is None:
        return _without_entries(indices if size is None else size, dtype, device, requires_grad)
    held = _given(values, dtype, device)
    places = _given(indices, dtypes.int64, held.device).detach()
    sizes = _checked(places, held, None if size is None else Size(size))
    made = SparseTensor(places, held, sizes, bool(is_coalesced))
    return _wanting(made) if requires_grad else made


def _given(data: Any, dtype: Any, device: Any) -> Any:
    """A tensor of an argument: itself where it is one, or a copy of data."""
    if not isinstance(data, Tensor):
        return tensor(data, dtype=dtype, device=device)
    home = data.device if device is None else resolve(device)
    return data.to(home, data.dtype if dtype is None else as_dtype(dtype))


def _wanting(made: Any) -> Any:
    """A tensor whose values require gradients, as leaves of their own if no gradients flow on."""
    return made if made.held.requires_grad else made.holding(made.held.detach()).requires_grad_()


def _without_entries(sizes: Any, dtype: Any, device: Any, requires_grad: bool) -> SparseTensor:
    shape = Size(sizes.tolist() if isinstance(sizes, Tensor) else sizes)
    if any(size < 0 for size in shape):
        raise ShapeError(f"a tensor cannot have the negative size in {list(shape)}; pass sizes of at least 0")
    places = F.zeros((len(shape), 0), dtype=dtypes.int64, device=device)
    made = SparseTensor(places, F.zeros((0,), dtype=dtype, device=device), shape, True)
    return _wanting(made) if requires_grad else made


def _checked(places: Any, held: Any, size: Size | None) -> Size:
    """The sizes of a tensor of these places and values; ShapeError if there is none."""
    if places.ndim != 2 or held.ndim < 1 or places.shape[1] != held.shape[0]:
        raise ShapeError(
            f"places of sizes {list(places.shape)} and values of sizes {list(held.shape)} do not fit: a column of "
            "places belongs to each value; pass indices [dims, entries] and values [entries, ...]"
        )
    if size is None:
        if not places.numel():
            raise ShapeError("the sizes of a sparse tensor cannot be told without entries; pass size=")
        size = Size([*(top + 1 for top in F.amax(places, 1).tolist()), *held.shape[1:]])
    if len(size) != places.shape[0] + held.ndim - 1 or tuple(size[places.shape[0] :]) != tuple(held.shape[1:]):
        raise ShapeError(
            f"{places.shape[0]} sparse dims and values of sizes {list(held.shape)} do not make the sizes {list(size)}; "
            "pass those of the sparse dims, then those of a value"
        )
    if places.numel():
        _check_range("indices", places, F.unsqueeze(F.stack([_as_tensor(s) for s in size[: places.shape[0]]]), 1))
    return size


def _as_tensor(size: Any) -> Any:
    return F.full((), size, dtype=dtypes.int64)


def _check_range(what: str, places: Any, sizes: Any) -> None:
    if bool(F.any(F.logical_or(F.lt(places, 0), F.ge(places, sizes.to(places.device))))):
        raise ShapeError(f"some of the {what} of a sparse tensor lie outside of its sizes; pass larger sizes")


def sparse_csr_tensor(
    crow_indices: Any, col_indices: Any, values: Any, size: Any = None, *, dtype: Any = None, device: Any = None,
    pin_memory: bool = False, requires_grad: bool = False, check_invariants: bool | None = None,
) -> SparseCsrTensor:  # fmt: skip
    """A sparse matrix by rows. Gradients flow to `values`.

    Args:
        crow_indices: The number of the first entry of each row, and behind them that of all entries.
        col_indices: The column of each entry.
        values: The value of each entry.
        size: The sizes of the matrix; the least that hold all entries if left out.
        pin_memory: Accepted; makes no difference.
        requires_grad: Whether gradients by the values are wanted.
        check_invariants: Accepted: places are always checked.

    Raises:
        ShapeError: The arguments do not fit one another.

    >>> import jit
    >>> jit.sparse_csr_tensor([0, 1, 2], [1, 0], [2.0, 3.0]).to_dense().tolist()
    [[0.0, 2.0], [3.0, 0.0]]
    """
    held = _given(values, dtype, device)
    starts, columns = (_given(each, None, held.device).detach() for each in (crow_indices, col_indices))
    if not (starts.ndim == columns.ndim == held.ndim == 1) or not starts.shape[0]:
        raise ShapeError("a sparse matrix by rows has crow_indices, col_indices and values of one dim; use to_dense()")
    if size is None:
        size = (starts.shape[0] - 1, int(F.amax(columns, 0)) + 1 if columns.shape[0] else 0)
    sizes = Size(size)
    if len(sizes) != 2 or sizes[0] != starts.shape[0] - 1 or columns.shape[0] != held.shape[0]:
        raise ShapeError(
            "a sparse matrix has one crow_indices more than rows, and as many columns as values; mend them"
        )
    if columns.shape[0]:
        _check_range("col_indices", columns, _as_tensor(sizes[1]))
    _check_starts(starts, held.shape[0])
    made = SparseCsrTensor(starts, columns, held, sizes)
    return _wanting(made) if requires_grad else made


def _check_starts(starts: Any, count: Any) -> None:
    ends = F.logical_or(F.ne(starts[0], 0), F.ne(starts[-1], count))
    if bool(F.logical_or(ends, F.any(F.lt(F.diff(starts), 0)))):
        raise ShapeError(
            "crow_indices start with 0, do not fall, and end with the number of values; count the entries of each row"
        )


# -- from dense tensors ------------------------------------------------------------------------------------------------


def to_sparse(self: Tensor, sparse_dim: int | None = None, *, layout: Any = None, **ignored: Any) -> Any:
    """The elements that are not zero with their places; gradients flow to them.

    Args:
        self: A tensor.
        sparse_dim: The number of dims that places have, from the first; all if left out.
        layout: `jit.sparse_coo` or `jit.sparse_csr`.
        ignored: Other arguments, which make no difference.

    Raises:
        UsageError: The layout is another one, or the dims are not there.
    """
    if layout is layouts.sparse_csr:
        return to_sparse_csr(self)
    if layout not in (None, layouts.sparse_coo):
        raise UsageError(f"there are no tensors in the layout {layout}; use jit.sparse_coo or jit.sparse_csr")
    if sparse_dim is not None:
        expect("sparse_dim of to_sparse", sparse_dim, int)
    dims = self.ndim if sparse_dim is None else sparse_dim
    if not 1 <= dims <= self.ndim:
        raise UsageError(f"places have from 1 to all {self.ndim} dims, not {dims}; choose another sparse_dim")
    inner = list(range(dims, self.ndim))
    filled = F.any(F.ne(self, 0), inner) if inner else F.ne(self, 0)
    places = F.t(F.nonzero(filled))
    made = SparseTensor(F.contiguous(places), F.zeros((0,)), Size(self.shape), True)
    flat = F.reshape(self, [-1, *self.shape[dims:]])
    return made.holding(F.index_select(flat, 0, made.numbered(range(dims))))


to_sparse_coo = to_sparse


def to_sparse_csr(self: Tensor, dense_dim: Any = None) -> Any:
    """The elements of a matrix that are not zero, by rows."""
    return to_sparse(self).to_sparse_csr()


def sparse_mask(self: Tensor, mask: Any) -> Any:
    """The elements of a tensor at the places of the entries of a sparse one."""
    expect("sparse_mask", mask, Sparse)
    return mask.laid_out(mask.answer("sparse_mask", (self, mask), {}))


__all__ = [
    "Sparse", "SparseCsrTensor", "SparseTensor", "sparse_coo_tensor", "sparse_csr_tensor", "sparse_mask", "to_sparse",
    "to_sparse_coo", "to_sparse_csr",
]  # fmt: skip
