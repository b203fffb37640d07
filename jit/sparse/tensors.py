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

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial, partialmethod
from typing import Any, NoReturn

from jit.eager import context
from jit.eager.composed import Composed
from jit.eager.conversions import conversion
from jit.eager.namespace import F
from jit.eager.tensors import Size, Tensor
from jit.ir import dtypes, layouts
from jit.ir.errors import KindError, MemberError, ShapeError, UsageError
from jit.ir.geometry import wrap_dim

from .showing import show

ANSWERS: dict[str, Callable[..., Any]] = {}
"""Name of an operator -> what it is for sparse tensors; `jit.sparse.answers` fills it."""


class Sparse(Composed):
    """The base of both layouts: a tensor of values says the dtype, the device and the history."""

    held: Any
    """The values of the entries."""
    shape: Any
    """The sizes of the tensor."""
    layout: Any = layouts.sparse_coo
    is_sparse = True
    is_sparse_csr = is_quantized = is_mkldnn = is_nested = is_meta = False

    def holding(self, values: Any) -> Any:
        """A tensor with the same places and other values."""
        raise NotImplementedError

    def moved(self, device: Any) -> Any:
        """This tensor, places and values, on a device."""
        raise NotImplementedError

    def entries(self) -> SparseTensor:
        """This tensor by the places of its entries, coalesced or not."""
        raise NotImplementedError

    def parts(self) -> tuple[Any, ...]:
        """The tensors and facts that make up this one, as files of torch hold them."""
        raise NotImplementedError

    def laid_out(self, result: Any) -> Any:
        """The result of an operator in this layout."""
        return result

    dtype = property(lambda self: self.held.dtype, doc="The element type.")
    device = property(lambda self: self.held.device, doc="The device of the elements.")
    is_cpu = property(lambda self: self.held.is_cpu, doc="Whether the elements lie on the CPU.")
    is_cuda = property(lambda self: self.held.is_cuda, doc="Whether the elements lie on a GPU.")
    T = mT = property(lambda self: self.t(), doc="The transposed matrix.")  # noqa: N815
    ndim = property(lambda self: len(self.shape), doc="The number of dims.")
    grad_fn = property(lambda self: self.held.grad_fn, doc="The node behind the values; None for leaves.")
    is_leaf = property(lambda self: self.held.is_leaf, doc="Whether no operator made the values.")

    @property
    def requires_grad(self) -> bool:
        """Whether gradients flow into the values."""
        return bool(self.held.requires_grad)

    @requires_grad.setter
    def requires_grad(self, value: bool) -> None:
        self.held.requires_grad_(value)

    @property
    def grad(self) -> Any:
        """The gradient by the values, at the places of the entries; None if there is none yet."""
        return None if self.held.grad is None else self.holding(self.held.grad)

    @grad.setter
    def grad(self, value: Any) -> None:
        self.held.grad = None if value is None else self._like_this(value).held

    def _like_this(self, value: Any) -> Any:
        if type(value) is not type(self) or tuple(value.held.shape) != tuple(self.held.shape):
            raise KindError(
                "the gradient of a sparse tensor has entries at the same places; assign such a one, or None"
            )
        return value

    def requires_grad_(self, requires_grad: bool = True) -> Any:
        """Ask for gradients by the values."""
        self.held.requires_grad_(requires_grad)
        return self

    def retain_grad(self) -> None:
        """Keep the gradient by the values, though an operator made them."""
        self.held.retain_grad()

    def detach(self) -> Any:
        """The same elements without a history."""
        return self.holding(self.held.detach())

    data = property(detach, doc="The same elements without a history.")

    def clone(self, memory_format: Any = None) -> Any:
        """A copy; gradients flow through it."""
        return self.holding(F.clone(self.held))

    def copy_(self, source: Any, non_blocking: bool = False) -> Any:
        """Take the entries of another sparse tensor of this layout and these sizes, in this one's dtype."""
        if type(source) is not type(self) or tuple(source.shape) != tuple(self.shape):
            raise ShapeError(f"copy_ takes a sparse tensor of the same layout and sizes {list(self.shape)}; convert it")
        if context.TRACE.get() is not None:
            raise UsageError("a traced function cannot write to a sparse tensor; use a new one in its place")
        taken = source.moved(self.device)
        vars(self).update(vars(taken.holding(taken.held.to(self.dtype).clone())))
        return self

    def size(self, dim: int | None = None) -> Any:
        """All sizes, or that of `dim`."""
        return self.shape if dim is None else self.shape[dim]

    def dim(self) -> int:
        """The number of dims."""
        return len(self.shape)

    ndimension = dim

    def numel(self) -> Any:
        """The number of elements, zeros included."""
        return self.shape.numel()

    nelement = numel

    def element_size(self) -> int:
        """Bytes per element."""
        return int(self.held.element_size())

    def is_floating_point(self) -> bool:
        """True for the real floating dtypes."""
        return bool(self.held.is_floating_point())

    def is_complex(self) -> bool:
        """True for the complex dtypes."""
        return bool(self.held.is_complex())

    def is_contiguous(self, memory_format: Any = None) -> bool:
        """False: the elements do not lie in order."""
        return False

    def _nnz(self) -> Any:
        """The number of entries."""
        return self.held.shape[0]

    def to(self, *args: Any, dtype: Any = None, device: Any = None, copy: bool = False, **ignored: Any) -> Any:
        """This tensor in another dtype, or on another device.

        Args:
            args: A dtype, a device, both, or a tensor that has them.
            dtype: The element type.
            device: The device.
            copy: Whether to copy where nothing changes.
            ignored: Other arguments of `Tensor.to`, which make no difference.
        """
        like = [
            F.empty((0,), dtype=each.dtype, device=each.device) if isinstance(each, Sparse) else each for each in args
        ]
        wanted, home, flags = conversion(like, dtype, device)
        made = self if home is None else self.moved(home)
        made = made if wanted is None or wanted is made.dtype else made.holding(made.held.to(wanted))
        return made.clone() if made is self and (copy or any(flags[1:])) else made

    def cpu(self) -> Any:
        """This tensor on the CPU."""
        return self.to("cpu")

    def cuda(self, device: Any = None, non_blocking: bool = False) -> Any:
        """This tensor on a GPU."""
        return self.moved(self.held.cuda(device).device)

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
        found = ANSWERS.get(name)
        if found is None:
            raise UsageError(f"{name} does not take sparse tensors; use to_dense() of them")
        return self.laid_out(found(*_as_entries(args), **_as_entries(kwargs)))

    def _called(self, name: str, *args: Any, **kwargs: Any) -> Any:
        return self.answer(name, (self, *args), kwargs)

    def __getattr__(self, name: str) -> Any:
        if name in ANSWERS:
            return partial(self._called, name)
        if name.startswith("__") or not hasattr(Tensor, name):
            raise AttributeError(f"{type(self).__name__!r} object has no attribute {name!r}")
        if name.endswith("_"):
            raise MemberError(
                f"a sparse tensor is not changed in place; use what {name[:-1]} returns instead of {name}"
            )
        raise MemberError(f"a sparse tensor has no {name}; use to_dense().{name}")

    def __dir__(self) -> list[str]:
        return sorted({*super().__dir__(), *ANSWERS})

    def _refuse(self, what: str) -> NoReturn:
        raise KindError(f"a sparse tensor cannot be {what}; use to_dense()")

    def __len__(self) -> Any:
        return self.shape[0]

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

    def __matmul__(self, other: Any) -> Any:
        return self.answer("matmul", (self, other), {})

    def __rmatmul__(self, other: Any) -> Any:
        return self.answer("matmul", (other, self), {})

    def __mul__(self, other: Any) -> Any:
        return self.answer("mul", (self, other), {})

    __rmul__ = __mul__

    def __truediv__(self, other: Any) -> Any:
        return self.answer("div", (self, other), {})

    def __add__(self, other: Any) -> Any:
        return self.answer("add", (self, other), {})

    def __radd__(self, other: Any) -> Any:
        return self.answer("add", (other, self), {})

    def __sub__(self, other: Any) -> Any:
        return self.answer("sub", (self, other), {})

    def __rsub__(self, other: Any) -> Any:
        return self.answer("sub", (other, self), {})

    def __neg__(self) -> Any:
        return self.answer("neg", (self,), {})

    def __pow__(self, exponent: Any) -> Any:
        return self.answer("pow", (self, exponent), {})

    def __abs__(self) -> Any:
        return self.answer("abs", (self,), {})

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


_CONVERTING = {
    "bool": dtypes.bool_, "byte": dtypes.uint8, "char": dtypes.int8, "short": dtypes.int16, "int": dtypes.int32,
    "long": dtypes.int64, "half": dtypes.float16, "bfloat16": dtypes.bfloat16, "float": dtypes.float32,
    "double": dtypes.float64, "cfloat": dtypes.complex64, "cdouble": dtypes.complex128,
}  # fmt: skip
for _name, _dtype in _CONVERTING.items():
    setattr(Sparse, _name, partialmethod(Sparse.to, _dtype))


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


__all__ = ["ANSWERS", "Sparse", "SparseCsrTensor", "SparseTensor", "along", "expect_matrix", "in_runs", "summed"]
