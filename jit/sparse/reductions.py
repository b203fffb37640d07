"""Sums, norms and softmax of sparse tensors."""

from __future__ import annotations

from typing import Any

from jit.eager.expecting import expect
from jit.eager.namespace import F
from jit.eager.tensors import Size
from jit.ir.errors import UsageError

from .tensors import Sparse, SparseTensor, along, summed

# -- what users call ---------------------------------------------------------------------------------------------------


def sum(input: Any, dim: Any = None, dtype: Any = None) -> Any:
    """The sum of all elements, or along some dims: then it is sparse as long as a sparse dim is left.

    Args:
        input: A sparse tensor.
        dim: The dims, one or several; all if left out.
        dtype: The element type to sum in.

    >>> import jit
    >>> jit.sparse.sum(jit.eye(3).to_sparse()).item()
    3.0
    """
    expect("sparse.sum", input, Sparse)
    return input.answer("sum", (input, dim), {"dtype": dtype})


def softmax(input: Any, dim: int, *, dtype: Any = None) -> Any:
    """The exponentials of the entries that share all places but those along `dim`, over their sum.

    What is no entry counts as minus infinity, and stays none.

    Args:
        input: A sparse tensor.
        dim: The dim.
        dtype: The element type to compute in.

    >>> import jit
    >>> jit.sparse.softmax(jit.tensor([[1.0, 0.0], [2.0, 2.0]]).to_sparse(), 1).to_dense().tolist()
    [[1.0, 0.0], [0.5, 0.5]]
    """
    return _with_groups("softmax", input, dim, dtype)


def log_softmax(input: Any, dim: int, *, dtype: Any = None) -> Any:
    """The logarithms of `softmax` at the places of the entries.

    Args:
        input: A sparse tensor.
        dim: The dim.
        dtype: The element type to compute in.
    """
    return _with_groups("log_softmax", input, dim, dtype)


def _with_groups(name: str, input: Any, dim: int, dtype: Any) -> Any:
    expect(f"sparse.{name}", input, Sparse)
    whole = input.entries().coalesce()
    whole = whole if dtype is None else whole.holding(whole.held.to(dtype))
    at = along(whole, dim)
    if at >= whole.sparse_dim():
        made = whole.holding(getattr(F, name)(whole.held, at - whole.sparse_dim() + 1))
    else:
        made = whole.holding((_log_softmax if name == "log_softmax" else _softmax)(whole, at))
    return input.laid_out(made)


def _shifted(whole: SparseTensor, dim: int) -> tuple[Any, Any, Any]:
    """The values less the greatest of their group; the number of each group, and how many there are."""
    others = [d for d in range(whole.sparse_dim()) if d != dim]
    count: Any = 1
    for other in others:
        count = count * whole.shape[other]
    group, values = whole.numbered(others), whole.held
    top = F.new_full(values, (count, *values.shape[1:]), float("-inf"))
    top = F.index_reduce(top, 0, group, values.detach(), "amax")
    return values - F.index_select(top, 0, group), group, count


def _softmax(whole: SparseTensor, dim: int) -> Any:
    shifted, group, count = _shifted(whole, dim)
    powers = F.exp(shifted)
    return powers / F.index_select(summed(count, group, powers), 0, group)


def _log_softmax(whole: SparseTensor, dim: int) -> Any:
    shifted, group, count = _shifted(whole, dim)
    return shifted - F.index_select(F.log(summed(count, group, F.exp(shifted))), 0, group)


# -- what operators are for sparse tensors -----------------------------------------------------------------------------


def total(self: SparseTensor, dim: Any = None, keepdim: bool = False, *, dtype: Any = None) -> Any:
    """The operator sum."""
    dims = range(self.dim()) if dim is None or (dim == () or dim == []) else dim
    gone = {along(self, d) for d in (dims if isinstance(dims, (tuple, list, range)) else [dims])}
    values, sparse = self.held, self.sparse_dim()
    inner = [d - sparse + 1 for d in gone if d >= sparse]
    values = F.sum(values, inner, keepdim, dtype=dtype) if inner else values if dtype is None else values.to(dtype)
    kept = [d for d in range(sparse) if d not in gone]
    if not kept:
        return _dense_total(F.sum(values, 0), self, keepdim)
    sizes = [1 if d in gone else size for d, size in enumerate(self.shape) if keepdim or d not in gone]
    rows = [F.zeros_like(row) if d in gone else row for d, row in enumerate(self.rows()) if keepdim or d not in gone]
    values = values.long() if values.dtype.category == 0 else values
    made = SparseTensor(F.stack(rows), values, Size(sizes), False)
    return made.coalesce() if len(kept) < sparse else made


def _dense_total(found: Any, self: SparseTensor, keepdim: bool) -> Any:
    return F.reshape(found, [1] * self.sparse_dim() + list(found.shape)) if keepdim else found


def norm(self: SparseTensor, p: Any = 2, dim: Any = None, keepdim: bool = False) -> Any:
    """The operator norm, over all elements."""
    if dim is not None or keepdim or p in ("nuc", 0, -float("inf")):
        raise UsageError("the norm of a sparse tensor is that of all its elements; use to_dense() for others")
    return F.linalg_vector_norm(F.reshape(self.coalesce().held, [-1]), 2 if p == "fro" else p)


__all__ = ["log_softmax", "norm", "softmax", "sum", "total"]
