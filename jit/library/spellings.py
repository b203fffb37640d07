"""Public functions whose signatures differ from the ATen declarations, or that return no tensor, as PyTorch's written
in Python. They replace the generated functions of the same names."""

from __future__ import annotations

from typing import Any

from jit.eager import context
from jit.eager.becoming import restride
from jit.eager.expecting import expect
from jit.eager.later import Later
from jit.eager.namespace import F
from jit.eager.tensors import Size, Tensor
from jit.ir import dtypes
from jit.ir.errors import AutogradError, DTypeError, ShapeError, UsageError
from jit.ir.geometry import broadcast_shapes as common_shape
from jit.ir.memory_formats import as_memory_format, suggested_format

from .differences import gradient
from .lowrank import pca_lowrank, svd_lowrank

__all__ = [
    "allclose", "as_strided_", "broadcast_shapes", "can_cast", "detach_", "equal", "get_default_dtype", "gradient",
    "index_put", "index_put_",
    "is_complex", "is_conj", "is_floating_point", "is_neg", "is_nonzero", "is_same_size", "is_signed", "lu", "nonzero",
    "numel", "pca_lowrank", "promote_types", "resize_as_", "result_type", "svd_lowrank", "tensor_split", "tensordot",
    "unique", "unique_consecutive", "where",
]  # fmt: skip


def equal(input: Tensor, other: Tensor) -> bool:
    """Whether two tensors have the same sizes and elements.

    >>> import jit
    >>> jit.equal(jit.tensor([1, 2]), jit.tensor([1, 2]))
    True
    """
    return tuple(input.shape) == tuple(other.shape) and bool(F.all(F.eq(input, other)))


def allclose(input: Tensor, other: Tensor, rtol: float = 1e-05, atol: float = 1e-08, equal_nan: bool = False) -> bool:
    """Whether all elements of `isclose` are true.

    Args:
        input: A tensor.
        other: A tensor, which is broadcast.
        rtol: The allowed difference relative to `other`.
        atol: The allowed difference.
        equal_nan: Whether NaN equals NaN.

    >>> import jit
    >>> jit.allclose(jit.ones(2), jit.ones(2) + 1e-7)
    True
    """
    return bool(F.all(F.isclose(input, other, rtol, atol, equal_nan)))


def is_nonzero(input: Tensor) -> bool:
    """Whether the only element of a tensor is not zero."""
    expect("is_nonzero", input)
    return bool(input.item() != 0)


def nonzero(input: Tensor, *, out: Any = None, as_tuple: bool = False) -> Any:
    """The places of the elements that are not zero: a row for each, or (`as_tuple`) a 1-d tensor for each dim.

    Args:
        input: A tensor.
        out: A tensor to write to, or None.
        as_tuple: Whether to return a tensor for each dim.

    Raises:
        UsageError: Both `out` and `as_tuple` are given.

    >>> import jit
    >>> jit.nonzero(jit.tensor([0, 3, 4])).tolist()
    [[1], [2]]
    """
    if as_tuple:
        if out is not None:
            raise UsageError("nonzero(as_tuple=True) returns several tensors and takes no out=; leave one of them out")
        return tuple(F.unbind(F.nonzero(input if input.ndim else F.reshape(input, [1])), 1))
    return F.nonzero(input) if out is None else F.nonzero(input, out=out)


def where(condition: Tensor, input: Any = None, other: Any = None, *, out: Any = None) -> Any:
    """`input` where the condition holds, `other` elsewhere; of a condition alone, the places where it holds, as
    `nonzero(condition, as_tuple=True)`.

    Args:
        condition: A tensor of bools.
        input: A tensor or a number.
        other: A tensor or a number.
        out: A tensor to write to, or None.

    Raises:
        DTypeError: The condition is not a tensor of bools.

    >>> import jit
    >>> jit.where(jit.tensor([True, False]), 1, 2).tolist(), jit.where(jit.tensor([0, 3]))[0].tolist()
    ([1, 2], [1])
    """
    if input is None and other is None:
        expect("where", condition)
    if input is None and other is None and out is None:
        return nonzero(condition, as_tuple=True)
    if isinstance(condition, Tensor) and condition.dtype not in (dtypes.bool_, dtypes.uint8):
        raise DTypeError(
            f"where: the condition should be a tensor of bools, got {condition.dtype.name}; convert it with .bool()"
        )
    if isinstance(condition, Tensor) and condition.dtype is dtypes.uint8:
        context.warn("where: a condition of dtype uint8 is deprecated; convert it with .bool()")
    return F.where(condition, input, other) if out is None else F.where(condition, input, other, out=out)


def index_put(input: Tensor, indices: Any, values: Any, accumulate: bool = False) -> Tensor:
    """A copy of `input` with `values` written, or added, at the places that a tuple of index tensors names.

    Args:
        input: A tensor.
        indices: A tuple of tensors of integers or bools, one for each leading dim.
        values: What to write, which is broadcast.
        accumulate: Whether to add to what is there.

    >>> import jit
    >>> jit.index_put(jit.zeros(3), (jit.tensor([0, 2]),), jit.tensor(1.0)).tolist()
    [1.0, 0.0, 1.0]
    """
    _warn_of_bytes(indices)
    return F.index_put(input, indices, values, accumulate)


def index_put_(input: Tensor, indices: Any, values: Any, accumulate: bool = False) -> Tensor:
    """`index_put` in place: the values are written into `input`.

    Args:
        input: The tensor that is written to.
        indices: A tuple of tensors of integers or bools, one for each leading dim.
        values: What to write, which is broadcast.
        accumulate: Whether to add to what is there.
    """
    _warn_of_bytes(indices)
    return F.index_put_(input, indices, values, accumulate)


def _warn_of_bytes(indices: Any) -> None:
    listed = indices if isinstance(indices, (tuple, list)) else ()
    if any(isinstance(index, Tensor) and index.defined and index.dtype is dtypes.uint8 for index in listed):
        context.warn("a mask of dtype uint8 among the indices is deprecated; convert it with .bool()")


def tensordot(a: Tensor, b: Tensor, dims: Any = 2, out: Any = None) -> Tensor:
    """The sum of products over `dims`: that many last dims of a and first dims of b, or a list of dims for each.

    Args:
        a: A tensor.
        b: A tensor.
        dims: A number of dims, or a pair of lists, the dims of `a` and those of `b`.
        out: A tensor to write to, or None.

    Returns:
        A tensor of the dims of `a` that are left, then those of `b`.

    >>> import jit
    >>> jit.tensordot(jit.ones(2, 3), jit.ones(3, 4), dims=1).shape
    jit.Size([2, 4])
    """
    if isinstance(dims, Tensor):
        dims = dims.tolist()
    if isinstance(dims, int):
        pair: tuple[Any, ...] = (dims,)
    else:
        pair = tuple([d] if isinstance(d, int) else list(d) for d in dims)
    return F.tensordot(a, b, *pair) if out is None else F.tensordot(a, b, *pair, out=out)


def tensor_split(input: Tensor, indices_or_sections: Any, dim: int = 0) -> list[Tensor]:
    """Views of `input` cut along `dim`: into so many sections, or at these indices; either may be a tensor.

    Args:
        input: A tensor.
        indices_or_sections: A number of sections, or a list of the indices at which to cut.
        dim: The dim.

    Raises:
        UsageError: The indices come in a tensor that does not hold integers, or has more than one dim.

    >>> import jit
    >>> [t.tolist() for t in jit.tensor_split(jit.arange(4), jit.tensor([1, 3]))]
    [[0], [1, 2], [3]]
    """
    if isinstance(indices_or_sections, Tensor):
        if not indices_or_sections.dtype.is_integral or indices_or_sections.ndim > 1:
            raise UsageError("tensor_split: a tensor of indices or sections holds whole numbers in at most one dim")
        indices_or_sections = indices_or_sections.tolist()
    return F.tensor_split(input, indices_or_sections, dim)


def unique(
    input: Tensor,
    sorted: bool = True,
    return_inverse: bool = False,
    return_counts: bool = False,
    dim: int | None = None,
) -> Any:
    """The distinct elements, or slices along `dim`, in order; if asked for, with the number of the distinct element
    that each element is, and with how often each occurs.

    Args:
        input: A tensor.
        sorted: Accepted; the result is in order in any case.
        return_inverse: Whether to return the number of the distinct element that each element is.
        return_counts: Whether to return how often each occurs.
        dim: The dim whose slices are compared; elements are if it is None.

    >>> import jit
    >>> [t.tolist() for t in jit.unique(jit.tensor([3, 1, 3]), return_counts=True)]
    [[1, 3], [1, 2]]
    """
    if dim is None:
        found = F._unique2(input, sorted, return_inverse, return_counts)
    else:
        found = F.unique_dim(input, dim, sorted, return_inverse, return_counts)
    return _asked_for(found, return_inverse, return_counts)


def unique_consecutive(
    input: Tensor, return_inverse: bool = False, return_counts: bool = False, dim: int | None = None
) -> Any:
    """The elements, or slices along `dim`, that differ from the one before; with them what `unique` gives.

    Args:
        input: A tensor.
        return_inverse: Whether to return the number of the element of the result that each element is.
        return_counts: Whether to return how long each run is.
        dim: The dim whose slices are compared; elements are if it is None.

    >>> import jit
    >>> jit.unique_consecutive(jit.tensor([1, 1, 2, 1])).tolist()
    [1, 2, 1]
    """
    return _asked_for(F.unique_consecutive(input, return_inverse, return_counts, dim), return_inverse, return_counts)


def _asked_for(found: Any, inverse: bool, counts: bool) -> Any:
    kept = [found[0], *([found[1]] if inverse else []), *([found[2]] if counts else [])]
    return kept[0] if len(kept) == 1 else tuple(kept)


def lu(A: Tensor, pivot: bool = True, get_infos: bool = False, *, out: Any = None) -> Any:
    """The pair of LU and pivots of `jit.linalg.lu_factor`; with `get_infos`, and the place of a pivot that is 0.

    Args:
        A: Matrices `[..., M, N]`.
        pivot: Whether rows may be exchanged.
        get_infos: Whether to return the place of a pivot that is 0, instead of raising.
        out: Tensors to write to, or None.
    """
    found = F.linalg_lu_factor_ex(A, pivot=pivot, check_errors=not get_infos)
    wanted = (found[0], found[1], found[2]) if get_infos else (found[0], found[1])
    for target, result in zip(() if out is None else out, wanted, strict=out is not None):
        F.alias_copy(result, out=target)
    return wanted if out is None else out


def broadcast_shapes(*shapes: Any) -> Size:
    """The sizes to which all the given ones broadcast.

    >>> import jit
    >>> jit.broadcast_shapes((2, 1), (3,))
    jit.Size([2, 3])
    """
    return Size(common_shape(*(tuple(s) if isinstance(s, (tuple, list)) else (s,) for s in shapes)))


def promote_types(type1: Any, type2: Any) -> dtypes.DType:
    """The smallest dtype that both go into.

    >>> import jit
    >>> jit.promote_types(jit.int64, jit.float16)
    jit.float16
    """
    return dtypes.promote(dtypes.as_dtype(type1), dtypes.as_dtype(type2))


def result_type(tensor1: Any, tensor2: Any) -> dtypes.DType:
    """The dtype in which an operation on two tensors or numbers computes.

    >>> import jit
    >>> jit.result_type(jit.tensor([1]), 1.5)
    jit.float32
    """
    return dtypes.result_type([(getattr(v, "dtype", None), getattr(v, "ndim", 0), v) for v in (tensor1, tensor2)])


def can_cast(from_: Any, to: Any) -> bool:
    """Whether promotion lets values of one dtype be written into another: not to a lower kind of number.

    >>> import jit
    >>> jit.can_cast(jit.float64, jit.float16), jit.can_cast(jit.float32, jit.int64)
    (True, False)
    """
    return dtypes.as_dtype(from_).category <= dtypes.as_dtype(to).category


def resize_as_(input: Tensor, the_template: Tensor, memory_format: Any = None) -> Tensor:
    """`input` with the sizes of another tensor, in place.

    Args:
        input: The tensor that is changed.
        the_template: The tensor that has the sizes.
        memory_format: The order of the dims in memory; row-major if left out.
    """
    return _resize_as_(input, the_template, memory_format)


def is_same_size(input: Tensor, other: Tensor) -> bool:
    """Whether two tensors have the same sizes."""
    return tuple(input.shape) == tuple(other.shape)


def get_default_dtype() -> dtypes.DType:
    """The dtype of Python's floats: float32, unless `set_default_dtype` was called."""
    return dtypes.DEFAULT


def is_signed(input: Tensor) -> bool:
    """Whether the dtype has negative numbers."""
    expect("is_signed", input)
    return input.dtype.is_signed


def is_conj(input: Tensor) -> bool:
    """False: conjugates are computed at once, so no tensor is marked as one that is still to be conjugated."""
    return False


def is_neg(input: Tensor) -> bool:
    """False: negatives are computed at once."""
    return False


def is_floating_point(input: Tensor) -> bool:
    """Whether the dtype is a real floating one."""
    expect("is_floating_point", input)
    return input.is_floating_point()


def is_complex(input: Tensor) -> bool:
    """Whether the dtype is a complex one."""
    expect("is_complex", input)
    return input.is_complex()


def numel(input: Tensor) -> Any:
    """The number of elements."""
    expect("numel", input)
    return input.numel()


def detach_(input: Tensor) -> Tensor:
    """Forget the history of a tensor, in place."""
    expect("detach_", input)
    return input.detach_()


def as_strided_(input: Tensor, size: Any, stride: Any, storage_offset: int | None = None) -> Tensor:
    """`as_strided` in place: the tensor becomes that view of its memory.

    Args:
        input: The tensor that is changed.
        size: The new sizes.
        stride: The distances in memory of neighbours along each dim, in elements.
        storage_offset: The place of the first element; that of `input` if left out.
    """
    expect("as_strided_", input)
    return input.as_strided_(size, stride, storage_offset)


# -- methods that the declarations do not give ---------------------------------------------------------------------


def _polygamma(self: Tensor, n: int) -> Tensor:
    """The n-th derivative of digamma."""
    return F.polygamma(n, self)


def _polygamma_(self: Tensor, n: int) -> Tensor:
    """`polygamma` in place: the result is written into this tensor."""
    if not self.dtype.is_floating_point:
        raise DTypeError(
            f"polygamma_: the result is floating point, which cannot be written into {self.dtype}; use polygamma()"
        )
    return F.copy_(self, F.polygamma(n, self))


def _float_power_(self: Tensor, exponent: Any) -> Tensor:
    """`float_power` in place, for a tensor of the result's dtype, float64 or complex128."""
    result = F.float_power(self, exponent)
    if result.dtype is not self.dtype:
        raise DTypeError(f"float_power_: the result is {result.dtype}, and this tensor {self.dtype}; cast it first")
    return F.copy_(self, result)


def _resize_(self: Tensor, *sizes: Any, memory_format: Any = None) -> Tensor:
    """Take other sizes in place; elements beyond the memory that there was are zeros. Views keep the old memory."""
    if self.requires_grad and not self.is_inference():
        raise AutogradError("a tensor that requires grad cannot be resized; use reshape, or detach() it first")
    if memory_format is not None and as_memory_format(memory_format) in ("channels_last", "channels_last_3d"):
        raise UsageError("resize_ lays elements out row by row; use x.resize_(...).contiguous(memory_format=...)")
    wanted = tuple(sizes[0]) if len(sizes) == 1 and isinstance(sizes[0], (tuple, list)) else sizes
    if min(wanted, default=0) < 0:
        raise ShapeError(f"a tensor cannot have the negative size in {list(wanted)}; pass sizes of at least 0")
    if tuple(self.shape) != wanted:
        restride(self, wanted)
    return self


def _resize_as_(self: Tensor, other: Tensor, memory_format: Any = None) -> Tensor:
    """Take the sizes of another tensor in place."""
    if memory_format is not None and as_memory_format(memory_format) == "preserve_format":
        memory_format = suggested_format(tuple(other.shape), other.stride())
    return _resize_(self, tuple(other.shape), memory_format=memory_format)


def _fill_diagonal_(self: Tensor, fill_value: Any, wrap: bool = False) -> Tensor:
    """Write a number to the main diagonal; with `wrap`, to the diagonals of all the squares of a tall matrix."""
    if self.ndim < 2 or (self.ndim > 2 and len(set(self.shape)) > 1):
        raise ShapeError(f"fill_diagonal_: expects a matrix, or dims of equal sizes, got {list(self.shape)}")
    step, size = sum(self.stride()), min(self.shape)
    F.as_strided(self, [size], [step], self.storage_offset()).fill_(fill_value)
    if wrap and self.ndim == 2 and self.shape[0] > self.shape[1] + 1:
        _fill_diagonal_(F.narrow(self, 0, self.shape[1] + 1, self.shape[0] - self.shape[1] - 1), fill_value, True)
    return self


METHODS: dict[str, Any] = {
    "get_device": lambda self: int((str(self.device).split(":") + ["0"])[1]) if self.is_cuda else -1,
    "__rdiv__": Later("__rdiv__", lambda: Tensor.__rtruediv__),
    "polygamma": _polygamma, "polygamma_": _polygamma_, "float_power_": _float_power_, "resize_": _resize_,
    "resize_as_": _resize_as_, "fill_diagonal_": _fill_diagonal_,
}  # fmt: skip
for _name, _method in METHODS.items():
    setattr(Tensor, _name, _method)
for _name in (
    "allclose", "equal", "index_put", "index_put_", "is_conj", "is_neg", "is_nonzero", "is_same_size", "is_signed",
    "lu", "nonzero", "tensor_split", "unique", "unique_consecutive",
):  # fmt: skip
    setattr(Tensor, _name, globals()[_name])
