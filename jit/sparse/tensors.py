"""`SparseTensor` and `SparseCsrTensor`: places and values, in tensors of which operators know.

Note [Sparse tensors are two dense ones]
    A sparse tensor is a record of tensors: the places of its entries, and their values. Its operations are spelled in
    operators of these. `matrix @ x`, for example, takes the rows of x that the columns of entries name, scales them by
    the values, and adds them up where the rows of entries say. So gradients of any order reach the values and x, and a
    trace or an ONNX model sees nothing new: an argument that is sparse is two arguments.

    Entries may share a place, which then holds their sum, until `coalesce()` adds them up and sorts them. Operations
    that are linear in the values need not care; all others coalesce first.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, NoReturn

from jit.eager import context
from jit.eager.holding import Holding
from jit.eager.namespace import F
from jit.eager.tensors import Size, Tensor
from jit.ir import layouts
from jit.ir.errors import KindError, ShapeError, UsageError
from jit.ir.geometry import wrap_dim

from .showing import show


class Sparse(Holding):
    """The base of both layouts, which hold the values of the entries."""

    answered_in = "jit.sparse.answers"
    noun, way_out = "a sparse tensor", "to_dense()"
    layout: Any = layouts.sparse_coo
    is_sparse = True
    is_sparse_csr = False

    def entries(self) -> SparseTensor:
        """This tensor by the places of its entries, coalesced or not."""
        raise NotImplementedError

    def parts(self) -> tuple[Any, ...]:
        """The tensors and facts that make up this one, as files of torch hold them."""
        raise NotImplementedError

    def laid_out(self, result: Any) -> Any:
        """The result of an operator in this layout."""
        return result

    def _like_this(self, value: Any) -> Any:
        if type(value) is not type(self) or tuple(value.held.shape) != tuple(self.held.shape):
            raise KindError(
                "the gradient of a sparse tensor has entries at the same places; assign such a one, or None"
            )
        return value

    def copy_(self, source: Any, non_blocking: bool = False) -> Any:
        """Take the entries of another sparse tensor of this layout and these sizes, in this one's dtype."""
        if type(source) is not type(self) or tuple(source.shape) != tuple(self.shape):
            raise ShapeError(f"copy_ takes a sparse tensor of the same layout and sizes {list(self.shape)}; convert it")
        if context.TRACE.get() is not None:
            raise UsageError("a traced function cannot write to a sparse tensor; use a new one in its place")
        taken = source.moved(self.device)
        vars(self).update(vars(taken.holding(taken.held.to(self.dtype).clone())))
        return self

    def is_contiguous(self, memory_format: Any = None) -> bool:
        """False: the elements do not lie in order."""
        return False

    def _nnz(self) -> Any:
        """The number of entries."""
        return self.held.shape[0]

    def type(self, dtype: Any = None) -> Any:
        """The name of the kind, `torch.sparse.FloatTensor`; with an argument, this tensor as that dtype or kind."""
        if dtype is None:
            return self.held.type().replace("Tensor", "").replace("torch.", "torch.sparse.") + "Tensor"
        return self.holding(self.held.type(dtype))

    def to_dense(self, dtype: Any = None) -> Any:
        """The tensor with all its zeros."""
        dense = self.entries().spread()
        return dense if dtype is None else dense.to(dtype)

    def answer(self, name: str, args: Any, kwargs: Any) -> Any:
        """The result of the operator of this name for sparse tensors; UsageError if it has none."""
        found = self.answers().get(name)
        if found is None:
            raise UsageError(f"{name} does not take sparse tensors; use to_dense() of them")
        return self.laid_out(found(*_as_entries(args), **_as_entries(kwargs)))

    def _refuse(self, what: str) -> NoReturn:
        raise KindError(f"a sparse tensor cannot be {what}; use to_dense()")

    def __repr__(self) -> str:
        return show(self)

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> Any:
        self._refuse("seen as a numpy array")

    def numpy(self, *, force: bool = False) -> Any:
        """KindError: numpy has no sparse arrays."""
        self._refuse("seen as a numpy array")

    def __bool__(self) -> bool:
        if self.numel() != 1:
            raise UsageError("a sparse tensor of several elements is neither true nor false; use to_dense() and any()")
        return bool(self.to_dense())

    def __getitem__(self, index: Any) -> Any:
        found: Any = self
        for each in index if type(index) is tuple else (index,):
            found = F.select(found, 0, each) if isinstance(found, Sparse) else found[each]
        return found

    def __eq__(self, other: object) -> Any:
        if isinstance(other, (Sparse, Tensor, int, float)):
            raise UsageError("sparse tensors are not compared element by element; use to_dense() of them")
        return NotImplemented

    __hash__ = object.__hash__


@dataclass(eq=False, repr=False)
class SparseTensor(Sparse):
    """A sparse tensor that holds the place of each entry, in PyTorch's layout `sparse_coo`.

    Entries may be tensors themselves: the last dims of the sizes are then those of the values.
    """

    at: Any
    """The places `[sparse dims, entries]`."""
    held: Any
    """The values `[entries, dense dims...]`."""
    shape: Size
    """The sizes of the tensor."""
    ordered: bool = False
    """Whether places are sorted, and different ones: the tensor is coalesced."""

    def holding(self, values: Any) -> SparseTensor:
        """A tensor with the same places and other values."""
        return SparseTensor(self.at, values, self.shape, self.ordered)

    def moved(self, device: Any) -> SparseTensor:
        """This tensor, places and values, on a device."""
        if device == self.device:
            return self
        return SparseTensor(self.at.to(device), self.held.to(device), self.shape, self.ordered)

    def parts(self) -> tuple[Any, ...]:
        """The places, the values, the sizes, and whether the tensor is coalesced."""
        return self.at, self.held, self.shape, self.ordered

    def entries(self) -> SparseTensor:
        """This tensor."""
        return self

    to_sparse_coo = entries

    def to_sparse(self, sparse_dim: int | None = None, *, layout: Any = None) -> Any:
        """This tensor, or the same one in the layout `sparse_csr`."""
        if layout is layouts.sparse_csr:
            return self.to_sparse_csr()
        if sparse_dim not in (None, self.sparse_dim()) or layout not in (None, layouts.sparse_coo):
            raise UsageError("a sparse tensor keeps its sparse dims and its layout; use to_dense().to_sparse(...)")
        return self

    def sparse_dim(self) -> int:
        """The number of dims along which there are places."""
        return int(self.at.ndim and len(self.shape) - self.held.ndim + 1)

    def dense_dim(self) -> int:
        """The number of dims of the values of one entry."""
        return int(self.held.ndim - 1)

    def is_coalesced(self) -> bool:
        """Whether places are known to be sorted, and different ones."""
        return self.ordered

    def _indices(self) -> Any:
        return self.at

    def _values(self) -> Any:
        return self.held

    def indices(self) -> Any:
        """The places `[sparse dims, entries]` of a coalesced tensor."""
        return self._settled("indices").at

    def values(self) -> Any:
        """The values of a coalesced tensor."""
        return self._settled("values").held

    def _settled(self, what: str) -> SparseTensor:
        if not self.ordered:
            raise UsageError(
                f"Cannot get {what} on an uncoalesced tensor, please call .coalesce() first; _{what}() gives them as "
                "they are"
            )
        return self

    def rows(self) -> tuple[Any, ...]:
        """The places along each sparse dim."""
        return tuple(F.unbind(self.at, 0))

    def numbered(self, dims: Any) -> Any:
        """The places along some sparse dims as one number each, row by row."""
        found, rows = F.zeros_like(F.select(self.at, 0, 0)), self.rows()
        for number, dim in enumerate(dims):
            found = found * self.shape[dim] + rows[dim] if number else rows[dim]
        return found

    def coalesce(self) -> SparseTensor:
        """The same tensor with its places sorted, and one entry for each."""
        if self.ordered:
            return self
        sizes = self.shape[: self.sparse_dim()]
        number, group, _ = F._unique2(self.numbered(range(len(sizes))), True, True)
        values = summed(number.shape[0], group, self.held)
        return SparseTensor(_unnumbered(number, sizes), values, self.shape, True)

    def spread(self) -> Any:
        """The tensor with all its zeros."""
        count: Any = self.shape[: self.sparse_dim()].numel()
        return F.reshape(summed(count, self.numbered(range(self.sparse_dim())), self.held), self.shape)

    def to_sparse_csr(self) -> SparseCsrTensor:
        """The same matrix by rows."""
        expect_matrix("to_sparse_csr", self)
        sorted_one = self.coalesce()
        rows, columns = sorted_one.rows()
        starts = F.searchsorted(rows, F.arange(self.shape[0] + 1, device=self.device))
        return SparseCsrTensor(starts, columns, sorted_one.held, self.shape)


@dataclass(eq=False, repr=False)
class SparseCsrTensor(Sparse):
    """A sparse matrix that holds where the entries of each row start, in PyTorch's layout `sparse_csr`."""

    starts: Any
    """The number of the first entry of each row, and behind them that of all entries."""
    columns: Any
    """The column of each entry."""
    held: Any
    """The values."""
    shape: Size
    """The sizes of the matrix."""

    layout = layouts.sparse_csr
    is_sparse = False
    is_sparse_csr = True

    def holding(self, values: Any) -> SparseCsrTensor:
        """A matrix with the same places and other values."""
        return SparseCsrTensor(self.starts, self.columns, values, self.shape)

    def moved(self, device: Any) -> SparseCsrTensor:
        """This matrix, places and values, on a device."""
        if device == self.device:
            return self
        places = self.starts.to(device), self.columns.to(device)
        return SparseCsrTensor(*places, self.held.to(device), self.shape)

    def parts(self) -> tuple[Any, ...]:
        """The starts of rows, the columns, the values, and the sizes."""
        return self.starts, self.columns, self.held, self.shape

    def entries(self) -> SparseTensor:
        """This matrix by the places of its entries: a row is the number of rows that end before or at an entry."""
        count = self.columns.shape[0]
        ends = F.narrow(self.starts, 0, 1, self.shape[0] - 1).long() if self.shape[0] else self.starts[:0]
        passed = F.index_add(F.zeros((count + 1,), dtype=ends.dtype, device=self.device), 0, ends, F.ones_like(ends))
        rows = F.narrow(F.cumsum(passed, 0), 0, 0, count)
        return SparseTensor(F.stack([rows, self.columns.long()]), self.held, self.shape, False)

    def to_sparse(self, sparse_dim: int | None = None, *, layout: Any = None) -> Any:
        """The same matrix by the places of its entries, in the layout `sparse_coo`."""
        return self if layout is layouts.sparse_csr else self.entries().coalesce().to_sparse(sparse_dim, layout=layout)

    def to_sparse_coo(self) -> SparseTensor:
        """The same matrix by the places of its entries, in the layout `sparse_coo`."""
        return self.entries().coalesce()

    def to_sparse_csr(self) -> SparseCsrTensor:
        """This matrix."""
        return self

    def crow_indices(self) -> Any:
        """The number of the first entry of each row, and behind them that of all entries."""
        return self.starts

    def col_indices(self) -> Any:
        """The column of each entry."""
        return self.columns

    def values(self) -> Any:
        """The values of the entries."""
        return self.held

    def sparse_dim(self) -> int:
        """2, the number of dims along which there are places."""
        return 2

    def dense_dim(self) -> int:
        """0: values are numbers."""
        return 0

    def laid_out(self, result: Any) -> Any:
        """The result of an operator, by rows where that is possible."""
        is_matrix = isinstance(result, SparseTensor) and result.dim() == 2 and not result.dense_dim()
        return result.to_sparse_csr() if is_matrix else result


def expect_matrix(what: str, value: Any) -> None:
    """ShapeError unless `value`, an argument of `what`, is a sparse matrix of numbers."""
    if value.dim() != 2 or value.dense_dim():
        raise ShapeError(
            f"{what} takes a sparse matrix of numbers, and this has sizes {list(value.shape)}; use to_dense()"
        )


def summed(count: Any, group: Any, values: Any) -> Any:
    """The sums of the values of each of `count` groups; for bools, whether one is true."""
    if values.dtype.category == 0:
        return F.ne(summed(count, group, values.long()), 0)
    zeros = F.zeros((count, *values.shape[1:]), dtype=values.dtype, device=values.device)
    return F.index_add(zeros, 0, group, values)


def in_runs(first: Any, counts: Any) -> tuple[Any, Any]:
    """The members of runs one after the other: the number of the run of each, and the number that it has itself.

    Args:
        first: The number that the first member of each run has; the others count on.
        counts: The members of each run.
    """
    number = F.repeat_interleave(F.arange(counts.shape[0], device=counts.device), counts)
    start = first - F.cumsum(counts, 0) + counts
    return number, F.index_select(start, 0, number) + F.arange(number.shape[0], device=counts.device)


def _unnumbered(number: Any, sizes: Any) -> Any:
    """The places that the numbers of `SparseTensor.numbered` stand for."""
    rows = []
    for size in reversed(sizes[1:]):
        rows.append(F.remainder(number, size))
        number = F.floor_divide(number, size)
    return F.stack([number, *reversed(rows)])


def _as_entries(values: Any) -> Any:
    if isinstance(values, dict):
        return {name: _as_entries(value) for name, value in values.items()}
    if type(values) in (list, tuple):
        return type(values)(map(_as_entries, values))
    return values.entries() if isinstance(values, Sparse) else values


def along(value: Any, dim: Any) -> int:
    """A dim of a sparse tensor, counted from the front."""
    return wrap_dim(dim, value.dim())


__all__ = ["Sparse", "SparseCsrTensor", "SparseTensor", "along", "expect_matrix", "in_runs", "summed"]
