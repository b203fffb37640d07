"""Reductions over dims: sums, means, extrema, norms; and running sums."""

from __future__ import annotations

import builtins
import math
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from jit.ir import dtypes
from jit.ir.dtypes import DType
from jit.ir.errors import CompileError, DTypeError, EmptyError, ShapeError, UsageError
from jit.ir.geometry import broadcast_shapes, wrap_dim, wrap_dims
from jit.ir.kernel import Kernel
from jit.ir.op import absent, array, composite
from jit.ir.precision import FLOAT32, Precision
from jit.ir.rows import OnArrays
from jit.ir.samples import Sample, make, sample, strided, whole
from jit.ir.types import TensorType

from .common import accumulation, largest, require_order, running, running_dtype, wide_sum_dtype

if TYPE_CHECKING:
    from .protocols import (
        Array,
        Ints,
        KnownType,
        Meta,
        Number,
        Numpy,
        OnnxWriter,
        Ops,
        Shaped,
        Tensor,
        Term,
        Terms,
        Value,
    )

INDICES = absent("the result is a tensor of indices")
BOOLEAN = absent("the result is boolean")

# -- what the reductions share -----------------------------------------------------------------------------------


def reduced(self: TensorType, dim: int | Ints | None, keepdim: bool, dtype: DType | None = None) -> TensorType:
    """The type of `self` reduced over `dim` (None: all)."""
    assert self.sizes is not None
    dims = wrap_dims(dim, len(self.sizes))
    sizes = [1 if i in dims else s for i, s in enumerate(self.sizes) if keepdim or i not in dims]
    return TensorType(dtype or self.dtype, tuple(sizes), None, self.device)


def unreduce(F: Ops, g: Tensor, meta: Meta, dim: Ints | None, keepdim: bool) -> Tensor:
    """The gradient of a sum, in the input's sizes: reduced dims are put back with size 1, then expanded."""
    return F.expand(with_reduced_dims(F, g, meta, dim, keepdim), meta.shape)


def with_reduced_dims(F: Ops, x: Tensor, meta: Shaped, dim: int | Ints | None, keepdim: bool) -> Tensor:
    """The result of a reduction with the reduced dims put back with size 1, so that it broadcasts to the input."""
    if not keepdim and meta.ndim:
        for d in sorted(wrap_dims(dim, meta.ndim)):
            x = F.unsqueeze(x, d)
    return x


def count(shape: Ints, dim: Ints | None) -> Any:
    """The number of elements that each result is made of; sizes may be traced numbers."""
    product: Any = 1
    for d in wrap_dims(dim, len(shape)):
        product = product * shape[d] if len(shape) else product
    return product


def onnx_reduce(g: OnnxWriter, name: str, x: Value, dim: int | Ints | None, keepdim: bool) -> Value:
    """ONNX's `Reduce...` operator `name`; a 0-d tensor has no dims to name, and bools count as 0 and 1."""
    if x.dtype is dtypes.bool_:
        return g.cast(onnx_reduce(g, name, g.cast(x, dtypes.int32), dim, keepdim), dtypes.bool_)
    return g.reduce(name, x, dim if x.ndim else None, keepdim)


def onnx_count(g: OnnxWriter, x: Value, dim: Ints | None) -> Value:
    """`count` as a 0-d value of x's dtype, read from the shape at run time where it is not known now."""
    sizes = [x.shape[d] for d in wrap_dims(dim, x.ndim)] if x.ndim else []
    if builtins.all(isinstance(size, int) for size in sizes):
        return g.constant(math.prod(sizes), like=x)
    dims = g.ints(list(wrap_dims(dim, x.ndim)))
    product = g.op("ReduceProd", g.op("Gather", g.op("Shape", x), dims), keepdims=0)
    return g.cast(product, x.dtype)


def dims_of(self: Array, dim: int | Ints | None) -> tuple[int, ...]:
    """The dims to reduce; a 0-d array has none, though it takes 0 and -1."""
    dims = wrap_dims(dim, self.ndim)
    return dims if self.ndim else ()


def require_elements(name: str, shape: Ints, dim: int | Ints | None) -> None:
    """Refuse a reduction without a neutral element over no elements."""
    if builtins.any(shape[d] == 0 for d in (wrap_dims(dim, len(shape)) if len(shape) else ())):
        raise EmptyError(f"{name}: there is no {name} of no elements; {list(shape)} is empty along the reduced dim")


def require_fraction(name: str, dtype: DType) -> DType:
    """Refuse integers, whose mean or norm is no integer."""
    if dtype.is_integral:
        raise DTypeError(f"{name} needs a floating dtype, got {dtype.name}; cast first, e.g. x.float()")
    return dtype


def _require_real_fraction(name: str, dtype: DType) -> DType:
    if dtype.is_complex:
        raise DTypeError(f"{name} does not take complex tensors")
    return require_fraction(name, dtype)


def dtype_of(self: Array) -> DType:
    """The DType of an array."""
    return dtypes.from_numpy(self.dtype)


def _reduction_samples() -> Iterator[Sample]:
    yield sample(make(2, 3, 4))
    yield sample(make(2, 3, 4), 1)
    yield sample(make(2, 3, 4), [0, -1], True)
    yield sample(make(), note="0-d")
    yield sample(make(), 0, note="0-d")
    yield sample(strided(make(3, 5)), 0, note="strided")
    yield sample(make(6, dtype="float64"), note="float64")
    yield sample(make(40, dtype="float16"), note="half", grad=False)


def _fraction_samples() -> Iterator[Sample]:
    yield from _reduction_samples()
    yield sample(np.array([1.0, np.nan, 2.0], np.float32), note="nan", grad=False)


def _sum_samples() -> Iterator[Sample]:
    yield from _reduction_samples()
    yield sample(make(0, 3), 0, note="empty")
    yield sample(make(2, 3), [], note="no dims mean all")
    yield sample(whole(4, dtype="int32"), note="integer", grad=False)
    yield sample(make(4, dtype="bool"), note="bool", grad=False)
    yield sample(make(2, 3), 1, dtype=dtypes.float64, note="another dtype")
    yield sample(make(40, dtype="float16"), dtype=dtypes.float16, note="half", grad=False)


# -- sums --------------------------------------------------------------------------------------------------------


@Precision(cuda="float32")
@array("aten::sum(Tensor self, int[1]? dim=None, bool keepdim=False, *, ScalarType? dtype=None) -> Tensor",
       kernel=Kernel("reduction"), samples=_sum_samples,
       grad=dict(self=lambda F, g, self_meta, dim, keepdim: unreduce(F, g, self_meta, dim, keepdim)))  # fmt: skip
def sum(m: Numpy, self: Array, dim: Ints | None, keepdim: bool, dtype: DType | None) -> Array:
    """The sum over dim (None: of all elements); integers give int64."""
    result = dtype or wide_sum_dtype(dtype_of(self))
    total = m.sum(self, axis=dims_of(self, dim), keepdims=keepdim, dtype=accumulation(result))
    return total.astype(result.numpy, copy=False)


@sum.terms
def _(t: Terms, self: Term) -> Term:
    return t.reduce("sum", t.wide(self))


@sum.type
def _(self: KnownType, dim: Ints | None, keepdim: bool, dtype: DType | None) -> TensorType:
    assert self.dtype is not None
    return reduced(self, dim, keepdim, dtype or wide_sum_dtype(self.dtype))


@sum.onnx
def _(g: OnnxWriter, self: Value, dim: Ints | None, keepdim: bool, dtype: DType | None) -> Value:
    return onnx_reduce(g, "ReduceSum", g.cast(self, g.out.dtype), dim, keepdim)


def summed_dims(shape: Ints, size: Ints) -> tuple[int, tuple[int, ...]]:
    """(how many leading dims, which of the others) are summed to bring `shape` to `size`, which broadcasts to it."""
    lead = len(shape) - len(size)
    if lead < 0 or broadcast_shapes(tuple(shape), tuple(size)) != tuple(shape):
        raise ShapeError(f"sum_to_size: {list(size)} does not broadcast to the tensor's sizes {list(shape)}")
    return lead, tuple(lead + i for i, s in enumerate(size) if s == 1 and shape[lead + i] != 1)


@Precision(cuda="float32")
@array("aten::sum_to_size(Tensor self, SymInt[] size) -> Tensor", namespaces=("Tensor",),
       grad=dict(self=lambda F, g, self_meta: F.expand(g, self_meta.shape)))  # fmt: skip
def sum_to_size(m: Numpy, self: Array, size: Ints) -> Array:
    """The sum over the dims that broadcasting `size` to self's sizes would expand: the adjoint of expand."""
    lead, dims = summed_dims(self.shape, size)
    total = m.sum(self, axis=(*range(lead), *dims), keepdims=True, dtype=self.dtype)
    return total.reshape(tuple(size))


@sum_to_size.type
def _(self: KnownType, size: Ints) -> TensorType:
    summed_dims(self.sizes, size)
    return TensorType(self.dtype, tuple(size), None, self.device)


@sum_to_size.onnx
def _(g: OnnxWriter, self: Value, size: Ints) -> Value:
    lead = self.ndim - len(size)
    total = onnx_reduce(g, "ReduceSum", self, tuple(range(lead)), False) if lead else self
    ones = tuple(i for i, s in enumerate(size) if _is_one(s) and not _is_one(self.shape[lead + i]))
    total = onnx_reduce(g, "ReduceSum", total, ones, True) if ones else total
    return total if lead or ones else g.op("Identity", self)


def _is_one(size: Any) -> bool:
    return type(size) is int and size == 1


@sum_to_size.samples
def _() -> Iterator[Sample]:
    yield sample(make(2, 3, 4), [3, 4])
    yield sample(make(2, 3, 4), [3, 1])
    yield sample(make(2, 3), [2, 3], note="nothing to do")
    yield sample(make(2, 1), [1, 1])
    yield sample(make(2, 3), [], note="to 0-d")
    yield sample(make(), [], note="0-d")
    yield sample(make(0, 3), [1, 3], note="empty")
    yield sample(strided(make(3, 5)), [1, 5], note="strided")
    yield sample(make(40, 2, dtype="float16"), [2], note="half", grad=False)


@array("aten::mean(Tensor self, int[1]? dim=None, bool keepdim=False, *, ScalarType? dtype=None) -> Tensor",
       kernel=Kernel("reduction"),
       grad=dict(self=lambda F, g, self_meta, dim, keepdim:
                 unreduce(F, g / count(self_meta.shape, dim), self_meta, dim, keepdim)))  # fmt: skip
def mean(m: Numpy, self: Array, dim: Ints | None, keepdim: bool, dtype: DType | None) -> Array:
    """The mean over dim (None: of all elements)."""
    result = require_fraction("mean", dtype or dtype_of(self))
    total = m.sum(self, axis=dims_of(self, dim), keepdims=keepdim, dtype=accumulation(result))
    return (total / count(self.shape, dim)).astype(result.numpy)


@mean.terms
def _(t: Terms, self: Term) -> Term:
    return t.over(t.reduce("sum", t.wide(self)), t.count)


@mean.type
def _(self: KnownType, dim: Ints | None, keepdim: bool, dtype: DType | None) -> TensorType:
    assert self.dtype is not None
    return reduced(self, dim, keepdim, require_fraction("mean", dtype or self.dtype))


@mean.onnx
def _(g: OnnxWriter, self: Value, dim: Ints | None, keepdim: bool, dtype: DType | None) -> Value:
    return onnx_mean(g, g.cast(self, g.out.dtype), dim, keepdim)


def onnx_mean(g: OnnxWriter, x: Value, dim: Ints | None, keepdim: bool) -> Value:
    """The mean over some dims, or all; of nothing it is NaN, and onnxruntime says 0."""
    sizes = [x.shape[d] for d in wrap_dims(dim, x.ndim)] if x.ndim else []
    if builtins.any(type(size) is int and size == 0 for size in sizes):
        return g.op("Mul", onnx_reduce(g, "ReduceSum", x, dim, keepdim), g.constant(math.nan, like=x))
    return onnx_reduce(g, "ReduceMean", x, dim, keepdim)


@mean.samples
def _() -> Iterator[Sample]:
    yield from _fraction_samples()
    yield sample(make(0, 3), 0, note="empty", grad=False, onnx=False)
    yield sample(whole(5), dtype=dtypes.float32, note="integer", grad=False)


# -- products ----------------------------------------------------------------------------------------------------


def products_of_others(F: Ops, x: Tensor, dim: int) -> Tensor:
    """The product of all other elements along `dim`, for each element; without dividing, so that zeros may occur.

    Note [Products of all the others]
        Up the tree, neighbours are multiplied; down the tree, each half is multiplied by its neighbour's product:

            [a b c d] -> [ab cd] -> [abcd]          up
            [1]  ->  [cd ab]  ->  [cd*b cd*a ab*d ab*c]   down
        All steps are differentiable, so second derivatives are right at zeros too, which g * out / x is not.
    """
    if x.ndim == 0:
        return F.ones_like(x)
    x = F.transpose(x, dim, -1)
    levels, sizes = [], [x.shape[-1]]
    while sizes[-1] > 1:
        if sizes[-1] % 2:
            x = F.cat([x, F.ones_like(F.narrow(x, -1, 0, 1))], -1)
        pairs = F.reshape(x, (*x.shape[:-1], (sizes[-1] + 1) // 2, 2))
        levels.append(pairs)
        x = F.select(pairs, -1, 0) * F.select(pairs, -1, 1)
        sizes.append((sizes[-1] + 1) // 2)
    others = F.ones_like(x)
    for pairs, size in zip(reversed(levels), reversed(sizes[:-1]), strict=True):
        both = F.flip(pairs, (-1,)) * F.unsqueeze(others, -1)
        others = F.narrow(F.reshape(both, (*both.shape[:-2], both.shape[-2] * 2)), -1, 0, size)
    return F.transpose(others, dim, -1)


def _prod_type(self: KnownType, dtype: DType | None) -> TensorType:
    assert self.dtype is not None
    return reduced(self, None, False, dtype or wide_sum_dtype(self.dtype))


@FLOAT32
@array("aten::prod(Tensor self, *, ScalarType? dtype=None) -> Tensor", kernel=Kernel("reduction"), type=_prod_type,
       grad=dict(self=lambda F, g, self:
                      g * F.reshape(products_of_others(F, F.reshape(self, (-1,)), 0), self.shape)))  # fmt: skip
def prod(m: Numpy, self: Array, dtype: DType | None) -> Array:
    """The product over dim, by default of all elements; integers give int64."""
    result = dtype or wide_sum_dtype(dtype_of(self))
    return m.prod(self, dtype=accumulation(result)).astype(result.numpy)


@prod.onnx
def _(g: OnnxWriter, self: Value, dtype: DType | None) -> Value:
    return onnx_reduce(g, "ReduceProd", g.cast(self, g.out.dtype), None, False)


@prod.samples
def _() -> Iterator[Sample]:
    yield sample(make(2, 3))
    yield sample(make(), note="0-d")
    yield sample(make(0, 3), note="empty", onnx=False)
    yield sample(np.array([2.0, 0.0, 3.0, 0.5, -1.0], np.float32), note="one zero")
    yield sample(np.array([2.0, 0.0, 3.0, 0.0], np.float32), note="two zeros")
    yield sample(make(4, low=-3, high=3, dtype="int32"), note="integer", grad=False)
    yield sample(make(4, dtype="bool"), note="bool", grad=False)
    yield sample(make(8, dtype="float16"), dtype=dtypes.float32, note="half", grad=False)


@FLOAT32
@array("aten::prod.dim_int(Tensor self, int dim, bool keepdim=False, *, ScalarType? dtype=None) -> Tensor",
       kernel=Kernel("reduction"),
       grad=dict(self=lambda F, g, self, dim, keepdim:
                      with_reduced_dims(F, g, self, dim, keepdim) * products_of_others(F, self, dim)))  # fmt: skip
def prod_dim(m: Numpy, self: Array, dim: int, keepdim: bool, dtype: DType | None) -> Array:
    """The product over dim."""
    result = dtype or wide_sum_dtype(dtype_of(self))
    return m.prod(self, axis=dims_of(self, dim), keepdims=keepdim, dtype=accumulation(result)).astype(result.numpy)


@prod.terms
@prod_dim.terms
def _prod_terms(t: Terms, self: Term) -> Term:
    return t.reduce("prod", t.wide(self))


@prod_dim.type
def _(self: KnownType, dim: int, keepdim: bool, dtype: DType | None) -> TensorType:
    assert self.dtype is not None
    return reduced(self, dim, keepdim, dtype or wide_sum_dtype(self.dtype))


@prod_dim.onnx
def _(g: OnnxWriter, self: Value, dim: int, keepdim: bool, dtype: DType | None) -> Value:
    return onnx_reduce(g, "ReduceProd", g.cast(self, g.out.dtype), dim, keepdim)


@prod_dim.samples
def _() -> Iterator[Sample]:
    yield sample(make(2, 5), 1)
    yield sample(make(3, 2, 4), 0, True)
    yield sample(make(), -1, note="0-d")
    yield sample(make(0, 3), 0, note="empty", onnx=False)
    yield sample(make(3, 4, low=0, high=1).round(), 1, note="zeros")
    yield sample(make(4, 2, low=-3, high=3, dtype="int64"), 0, note="integer", grad=False)


# -- extrema -----------------------------------------------------------------------------------------------------


def shared_among_ties(F: Ops, g: Tensor, self: Tensor, out: Tensor, dim: Ints | None, keepdim: bool) -> Tensor:
    """The gradient of an extremum, split evenly among the places that attain it."""
    best = with_reduced_dims(F, out, self, dim, keepdim)
    ties = F._to_copy(F.eq(self, best), dtype=g.dtype)
    share = with_reduced_dims(F, g, self, dim, keepdim) / F.sum(ties, dim, True)
    return share * ties


def _shared_among_all_ties(F: Ops, g: Tensor, self: Tensor, out: Tensor) -> Tensor:
    """The gradient of an extremum of all elements; the NaNs share it if it is NaN."""
    ties = F.logical_or(F.eq(self, out), F.logical_and(F.isnan(self), F.isnan(out)))
    ties = F._to_copy(ties, dtype=g.dtype)
    return g / F.sum(ties) * ties


def _ties() -> Iterator[Sample]:
    yield sample(np.array([[1.0, 3.0, 3.0], [2.0, 2.0, 2.0]], np.float32), 1, note="ties", grad=False)


def _extreme_samples() -> Iterator[Sample]:
    yield from _reduction_samples()
    yield sample(make(0, 3), 1, note="empty")
    yield sample(make(2, 3), [], note="no dims mean all")
    yield sample(np.array([1.0, np.nan, 2.0], np.float32), note="nan", grad=False, onnx=False)
    yield sample(whole(4), note="integer", grad=False)
    yield sample(make(4, dtype="bool"), note="bool", grad=False)
    yield from _ties()


def _amax_type(name: str) -> Any:
    def rule(self: KnownType, dim: Ints, keepdim: bool) -> TensorType:
        require_elements(name, self.sizes, dim)
        return reduced(self, dim, keepdim)

    return rule


@array("aten::amax(Tensor self, int[1] dim=[], bool keepdim=False) -> Tensor", type=_amax_type("amax"),
       kernel=Kernel("reduction"),
       samples=_extreme_samples, onnx=lambda g, self, dim, keepdim: onnx_reduce(g, "ReduceMax", self, dim, keepdim),
       grad=dict(self=lambda F, g, self, out, dim, keepdim:
                      shared_among_ties(F, g, self, out, dim, keepdim)))  # fmt: skip
def amax(m: Numpy, self: Array, dim: Ints, keepdim: bool) -> Array:
    """The maximum over dim (empty: of all elements); the gradient is shared among equal ones."""
    require_order("amax", self.dtype)
    require_elements("amax", self.shape, dim)
    return m.max(self, axis=dims_of(self, dim), keepdims=keepdim)


@array("aten::amin(Tensor self, int[1] dim=[], bool keepdim=False) -> Tensor", type=_amax_type("amin"),
       kernel=Kernel("reduction"),
       samples=_extreme_samples, onnx=lambda g, self, dim, keepdim: onnx_reduce(g, "ReduceMin", self, dim, keepdim),
       grad=dict(self=lambda F, g, self, out, dim, keepdim:
                      shared_among_ties(F, g, self, out, dim, keepdim)))  # fmt: skip
def amin(m: Numpy, self: Array, dim: Ints, keepdim: bool) -> Array:
    """The minimum over dim (empty: of all elements); the gradient is shared among equal ones."""
    require_order("amin", self.dtype)
    require_elements("amin", self.shape, dim)
    return m.min(self, axis=dims_of(self, dim), keepdims=keepdim)


def _extreme_type(name: str) -> Any:
    def rule(self: KnownType) -> TensorType:
        require_elements(name, self.sizes, None)
        return reduced(self, None, False)

    return rule


def _all_samples() -> Iterator[Sample]:
    yield sample(make(2, 3))
    yield sample(make(), note="0-d")
    yield sample(strided(make(3, 5)), note="strided")
    yield sample(np.array([1.0, np.nan, 2.0], np.float32), note="nan", grad=False, onnx=False)
    yield sample(np.array([3.0, 3.0, -1.0, -1.0], np.float32), note="ties", grad=False)
    yield sample(whole(4, dtype="int32"), note="integer", grad=False)
    yield sample(make(9, dtype="float16"), note="half", grad=False)


@array("aten::max(Tensor self) -> Tensor", kernel=Kernel("reduction"), type=_extreme_type("max"), samples=_all_samples,
       onnx=lambda g, self: onnx_reduce(g, "ReduceMax", self, None, False),
       grad=dict(self=lambda F, g, self, out: _shared_among_all_ties(F, g, self, out)))  # fmt: skip
def max(m: Numpy, self: Array) -> Array:
    """The maximum of all elements; with dim, (the maxima along it, their indices); with another tensor, of the two."""
    require_order("max", self.dtype)
    require_elements("max", self.shape, None)
    return m.max(self)


@array("aten::min(Tensor self) -> Tensor", kernel=Kernel("reduction"), type=_extreme_type("min"), samples=_all_samples,
       onnx=lambda g, self: onnx_reduce(g, "ReduceMin", self, None, False),
       grad=dict(self=lambda F, g, self, out: _shared_among_all_ties(F, g, self, out)))  # fmt: skip
def min(m: Numpy, self: Array) -> Array:
    """The minimum of all elements; with dim, (the minima along it, their indices); with another tensor, of the two."""
    require_order("min", self.dtype)
    require_elements("min", self.shape, None)
    return m.min(self)


@amax.terms
@max.terms
def _max_terms(t: Terms, self: Term) -> Term:
    return t.reduce("max", self)


@amin.terms
@min.terms
def _min_terms(t: Terms, self: Term) -> Term:
    return t.reduce("min", self)


def selected_gradient(F: Ops, g: Tensor, meta: Meta, dim: int, keepdim: bool, indices: Tensor) -> Tensor:
    """The gradient of values that were picked by `indices` along `dim`: it goes where they came from."""
    if not meta.ndim:
        return g
    if not keepdim:
        g, indices = F.unsqueeze(g, dim), F.unsqueeze(indices, dim)
    return F.scatter(F.zeros(meta.shape, dtype=g.dtype, device=g.device), dim, indices, g)


def picked(m: Numpy, self: Array, indices: Any, dim: int, keepdim: bool) -> tuple[Any, Any]:
    """(the values at `indices` along `dim`, the indices)."""
    if not self.ndim:
        return self.copy(), m.zeros((), m.int64)
    values = m.take_along_axis(self, indices, dim)
    return (values, indices) if keepdim else (m.squeeze(values, dim), m.squeeze(indices, dim))


def _picked_type(name: str) -> Any:
    def rule(self: KnownType, dim: int, keepdim: bool) -> tuple[TensorType, TensorType]:
        require_elements(name, self.sizes, dim)
        return reduced(self, dim, keepdim), reduced(self, dim, keepdim, dtypes.int64)

    return rule


def onnx_arg(g: OnnxWriter, name: str, self: Value, dim: int | None, keepdim: bool) -> Value:
    """ArgMax or ArgMin; without `dim` it counts through the flattened tensor."""
    if self.dtype is dtypes.bool_:
        self = g.cast(self, dtypes.int32)
    if dim is None or not self.ndim:
        flat = g.op(name, g.op("Reshape", self, g.ints([-1])), axis=0, keepdims=0)
        return g.op("Reshape", flat, g.ints([1] * self.ndim)) if keepdim and self.ndim else flat
    return g.op(name, self, axis=wrap_dim(dim, self.ndim), keepdims=int(keepdim))


def onnx_picked(g: OnnxWriter, extreme: str, self: Value, dim: int, keepdim: bool) -> Any:
    """(values, indices) of the extrema along `dim`."""
    return onnx_reduce(g, f"Reduce{extreme}", self, dim, keepdim), onnx_arg(g, f"Arg{extreme}", self, dim, keepdim)


def _picked_samples() -> Iterator[Sample]:
    yield sample(make(2, 3, 4), 1)
    yield sample(make(2, 3, 4), -1, True)
    yield sample(make(), 0, note="0-d")
    yield sample(make(0, 3), 1, note="empty")
    yield sample(strided(make(3, 5)), 0, note="strided")
    yield sample(np.array([[1.0, 3.0, 3.0], [2.0, 2.0, 2.0]], np.float32), 1, note="the first of ties", grad=False)
    yield sample(np.array([[1.0, np.nan, 3.0]], np.float32), 1, note="nan", grad=False, onnx=False)
    yield sample(whole(2, 4), 1, note="integer", grad=False)
    yield sample(make(2, 9, dtype="float16"), 1, note="half", grad=False)


# The overloads with a tensor come first, because a 0-d one of integers would do as a dim.


def _pair_samples() -> Iterator[Sample]:
    yield sample(make(3, 1), make(4, seed=1), note="broadcast")
    yield sample(whole(3), whole(3, seed=1), note="integer", grad=False)


@composite("aten::max.other(Tensor self, Tensor other) -> Tensor", samples=_pair_samples)
def max_other(F: Ops, self: Tensor, other: Tensor) -> Tensor:
    """The elementwise maximum."""
    return F.maximum(self, other)


@composite("aten::min.other(Tensor self, Tensor other) -> Tensor", samples=_pair_samples)
def min_other(F: Ops, self: Tensor, other: Tensor) -> Tensor:
    """The elementwise minimum."""
    return F.minimum(self, other)


@array("aten::max.dim(Tensor self, int dim, bool keepdim=False) -> (Tensor values, Tensor indices)",
       kernel=Kernel("reduction"), type=_picked_type("max"), samples=_picked_samples,
       onnx=lambda g, self, dim, keepdim: onnx_picked(g, "Max", self, dim, keepdim),
       grad=dict(self=lambda F, g, out, self_meta, dim, keepdim:
                      selected_gradient(F, g, self_meta, dim, keepdim, out[1])))  # fmt: skip
def max_dim(m: Numpy, self: Array, dim: int, keepdim: bool) -> Sequence[Array | None]:
    """(the maximum along dim, its index, the first of ties)."""
    require_order("max", self.dtype)
    require_elements("max", self.shape, dim)
    dim = wrap_dim(dim, self.ndim)
    return picked(m, self, m.argmax(self, axis=dim, keepdims=True) if self.ndim else None, dim, keepdim)


@array("aten::min.dim(Tensor self, int dim, bool keepdim=False) -> (Tensor values, Tensor indices)",
       kernel=Kernel("reduction"), type=_picked_type("min"), samples=_picked_samples,
       onnx=lambda g, self, dim, keepdim: onnx_picked(g, "Min", self, dim, keepdim),
       grad=dict(self=lambda F, g, out, self_meta, dim, keepdim:
                      selected_gradient(F, g, self_meta, dim, keepdim, out[1])))  # fmt: skip
def min_dim(m: Numpy, self: Array, dim: int, keepdim: bool) -> Sequence[Array | None]:
    """(the minimum along dim, its index, the first of ties)."""
    require_order("min", self.dtype)
    require_elements("min", self.shape, dim)
    dim = wrap_dim(dim, self.ndim)
    return picked(m, self, m.argmin(self, axis=dim, keepdims=True) if self.ndim else None, dim, keepdim)


@max_dim.terms
def _(t: Terms, self: Term) -> Sequence[Term | None]:
    return t.extreme("argmax", self)


@min_dim.terms
def _(t: Terms, self: Term) -> Sequence[Term | None]:
    return t.extreme("argmin", self)


@composite("aten::aminmax(Tensor self, *, int? dim=None, bool keepdim=False) -> (Tensor min, Tensor max)")
def aminmax(F: Ops, self: Tensor, dim: int | None, keepdim: bool) -> Sequence[Tensor]:
    """(the minimum, the maximum) along dim, or of all elements."""
    dims = () if dim is None else (dim,)
    return F.amin(self, dims, keepdim), F.amax(self, dims, keepdim)


@aminmax.samples
def _() -> Iterator[Sample]:
    yield sample(make(2, 3))
    yield sample(make(2, 3), dim=-1, keepdim=True)
    yield sample(make(), dim=0, note="0-d")


def _arg_type(name: str) -> Any:
    def rule(self: KnownType, dim: int | None, keepdim: bool) -> TensorType:
        require_elements(name, self.sizes, dim)
        return reduced(self, dim, keepdim, dtypes.int64)

    return rule


def _arg_samples() -> Iterator[Sample]:
    yield sample(make(2, 3, 4))
    yield sample(make(2, 3, 4), keepdim=True, note="all, kept")
    for picked_sample in _picked_samples():
        yield sample(*picked_sample.args, note=picked_sample.note, grad=False, onnx=picked_sample.onnx)


@array("aten::argmax(Tensor self, int? dim=None, bool keepdim=False) -> Tensor", type=_arg_type("argmax"),
       kernel=Kernel("reduction"), samples=_arg_samples,
       grad=INDICES, onnx=lambda g, self, dim, keepdim: onnx_arg(g, "ArgMax", self, dim, keepdim))  # fmt: skip
def argmax(m: Numpy, self: Array, dim: int | None, keepdim: bool) -> Array:
    """The index of the maximum along dim, the first of ties; without dim, that in the flattened tensor."""
    require_order("argmax", self.dtype)
    require_elements("argmax", self.shape, dim)
    axis = None if dim is None else wrap_dim(dim, self.ndim)
    return m.argmax(self, axis=axis if self.ndim else None, keepdims=keepdim)


@array("aten::argmin(Tensor self, int? dim=None, bool keepdim=False) -> Tensor", type=_arg_type("argmin"),
       kernel=Kernel("reduction"), samples=_arg_samples,
       grad=INDICES, onnx=lambda g, self, dim, keepdim: onnx_arg(g, "ArgMin", self, dim, keepdim))  # fmt: skip
def argmin(m: Numpy, self: Array, dim: int | None, keepdim: bool) -> Array:
    """The index of the minimum along dim, the first of ties; without dim, that in the flattened tensor."""
    require_order("argmin", self.dtype)
    require_elements("argmin", self.shape, dim)
    axis = None if dim is None else wrap_dim(dim, self.ndim)
    return m.argmin(self, axis=axis if self.ndim else None, keepdims=keepdim)


@argmax.terms
def _(t: Terms, self: Term) -> Term:
    return t.extreme("argmax", self)[1]


@argmin.terms
def _(t: Terms, self: Term) -> Term:
    return t.extreme("argmin", self)[1]


# -- spread ------------------------------------------------------------------------------------------------------


def deviation(F: Ops, self: Tensor, dim: Ints | None) -> Tensor:
    """Each element's distance from the mean over `dim`."""
    return self - F.mean(self, dim, True)


def degrees(shape: Ints, dim: Ints | None, correction: Number | None) -> Any:
    """The divisor of the squares: the count less the correction, not below 0."""
    return _less(count(shape, dim), correction)


def _less(count: Any, correction: Number | None) -> Any:
    left = count - (1 if correction is None else correction)
    return left if left > 0 else 0


def variance(m: Numpy, self: Array, dim: Ints | None, keepdim: bool, correction: Number | None) -> Any:
    """The variance of an array."""
    dims = dims_of(self, dim)
    found = _spread(OnArrays(m, self.shape, dims), self, correction)
    return found if keepdim else m.squeeze(found, dims)


def _spread(t: Terms, x: Term, correction: Number | None) -> Term:
    """The variance of x, in two passes: first the mean, then the squared deviations from it."""
    centre = t.over(t.reduce("sum", x), t.count)
    squares = t.apply(lambda m, a, b: m.square(m.abs(a - b)), x, centre, cost=3)
    return t.over(t.reduce("sum", squares), _less(t.count, correction))


def onnx_variance(g: OnnxWriter, self: Value, dim: Ints | None, keepdim: bool, correction: Number | None) -> Value:
    """The variance in ONNX: squared deviations from ReduceMean, divided by the count less the correction."""
    centred = g.op("Sub", self, onnx_reduce(g, "ReduceMean", self, dim, True))
    squares = onnx_reduce(g, "ReduceSum", g.op("Mul", centred, centred), dim, keepdim)
    less = g.constant(1 if correction is None else correction, like=self)
    return g.op("Div", squares, g.op("Max", g.op("Sub", onnx_count(g, self, dim), less), g.constant(0, like=self)))


def _spread_type(self: KnownType, dim: Ints | None, correction: Number | None, keepdim: bool) -> TensorType:
    assert self.dtype is not None
    require_fraction("var and std", self.dtype)
    return reduced(self, dim, keepdim)


def _spread_samples() -> Iterator[Sample]:
    yield sample(make(3, 4))
    yield sample(make(3, 4), 1)
    yield sample(make(2, 3, 4), [0, -1], keepdim=True, correction=0)
    yield sample(make(3, 4), 0, correction=2)
    yield sample(make(3, 4, low=1000, high=1001), 1, note="far from zero", grad=False, onnx=False)
    yield sample(make(3, 1), 1, note="one element", grad=False)
    yield sample(make(), note="0-d", grad=False)
    yield sample(make(0, 3), 0, note="empty", grad=False, onnx=False)
    yield sample(strided(make(3, 5)), 0, note="strided")
    yield sample(make(40, dtype="float16"), note="half", grad=False)


# The overloads with a bool come first, because False would do as a dim.


@composite("aten::var(Tensor self, bool unbiased) -> Tensor")
def var_all(F: Ops, self: Tensor, unbiased: bool) -> Tensor:
    """The variance over dim, or of all elements; the divisor is the count less the correction, 1 by default."""
    return F.var(self, None, correction=int(unbiased))


@composite("aten::var.dim(Tensor self, int[1]? dim, bool unbiased, bool keepdim=False) -> Tensor")
def var_over(F: Ops, self: Tensor, dim: Ints | None, unbiased: bool, keepdim: bool) -> Tensor:
    """The variance over dim."""
    return F.var(self, dim, correction=int(unbiased), keepdim=keepdim)


@composite("aten::std(Tensor self, bool unbiased) -> Tensor")
def std_all(F: Ops, self: Tensor, unbiased: bool) -> Tensor:
    """The standard deviation over dim, or of all elements: the square root of `var`."""
    return F.std(self, None, correction=int(unbiased))


@composite("aten::std.dim(Tensor self, int[1]? dim, bool unbiased, bool keepdim=False) -> Tensor")
def std_over(F: Ops, self: Tensor, dim: Ints | None, unbiased: bool, keepdim: bool) -> Tensor:
    """The standard deviation over dim."""
    return F.std(self, dim, correction=int(unbiased), keepdim=keepdim)


@var_all.samples
@std_all.samples
def _unbiased_samples() -> Iterator[Sample]:
    yield sample(make(2, 3), True)
    yield sample(make(2, 3), False)


@var_over.samples
@std_over.samples
def _unbiased_dim_samples() -> Iterator[Sample]:
    yield sample(make(2, 3), 1, False)
    yield sample(make(2, 3), [0], True, True)


@array("aten::var.correction(Tensor self, int[1]? dim=None, *, Scalar? correction=None, bool keepdim=False) -> Tensor",
       kernel=Kernel("reduction"), type=_spread_type, samples=_spread_samples,
       onnx=lambda g, self, dim, correction, keepdim: onnx_variance(g, self, dim, keepdim, correction),
       grad=dict(self=lambda F, g, self, dim, correction, keepdim:
                 with_reduced_dims(F, g * 2 / degrees(self.shape, dim, correction), self, dim, keepdim)
                 * deviation(F, self, dim)))  # fmt: skip
def var(m: Numpy, self: Array, dim: Ints | None, correction: Number | None, keepdim: bool) -> Array:
    """The sum of squared distances from the mean over dim, divided by the count less `correction` (None: 1)."""
    require_fraction("var", dtype_of(self))
    return variance(m, self, dim, keepdim, correction)


@var.terms
def _(t: Terms, self: Term, correction: Number | None) -> Term:
    return _spread(t, t.wide(self), correction)


@array("aten::std.correction(Tensor self, int[1]? dim=None, *, Scalar? correction=None, bool keepdim=False) -> Tensor",
       kernel=Kernel("reduction"), type=_spread_type, samples=_spread_samples,
       onnx=lambda g, self, dim, correction, keepdim:
            g.op("Sqrt", onnx_variance(g, self, dim, keepdim, correction)))  # fmt: skip
def std(m: Numpy, self: Array, dim: Ints | None, correction: Number | None, keepdim: bool) -> Array:
    """The square root of `var`."""
    require_fraction("std", dtype_of(self))
    return m.sqrt(variance(m, self, dim, keepdim, correction))


@std.terms
def _(t: Terms, self: Term, correction: Number | None) -> Term:
    return t.apply(lambda m, v: m.sqrt(v), _spread(t, t.wide(self), correction))


@std.grad
def _(
    F: Ops, g: Tensor, needs: Sequence[bool], self: Tensor, out: Tensor, dim: Ints | None, correction: Number | None,
    keepdim: bool,
) -> Sequence[Tensor | None]:  # fmt: skip
    """No spread, no gradient: 0 / 0 counts as 0."""
    flat = F.eq(out, 0)
    scale = F.where(flat, 0, g / (F.where(flat, 1, out) * degrees(self.shape, dim, correction)))
    return (with_reduced_dims(F, scale, self, dim, keepdim) * deviation(F, self, dim),)


@composite("aten::var_mean(Tensor self, bool unbiased) -> (Tensor var, Tensor mean)")
def var_mean_all(F: Ops, self: Tensor, unbiased: bool) -> Sequence[Tensor]:
    """(the variance, the mean) over dim, or of all elements."""
    return F.var(self, unbiased), F.mean(self)


@composite("aten::std_mean(Tensor self, bool unbiased) -> (Tensor std, Tensor mean)")
def std_mean_all(F: Ops, self: Tensor, unbiased: bool) -> Sequence[Tensor]:
    """(the standard deviation, the mean) over dim, or of all elements."""
    return F.std(self, unbiased), F.mean(self)


@composite("aten::var_mean.dim(Tensor self, int[1]? dim, bool unbiased, bool keepdim=False)"
           " -> (Tensor var, Tensor mean)")  # fmt: skip
def var_mean_over(F: Ops, self: Tensor, dim: Ints | None, unbiased: bool, keepdim: bool) -> Sequence[Tensor]:
    """(var, mean) over dim."""
    return F.var(self, dim, unbiased, keepdim), F.mean(self, dim, keepdim)


@composite("aten::std_mean.dim(Tensor self, int[1]? dim, bool unbiased, bool keepdim=False)"
           " -> (Tensor std, Tensor mean)")  # fmt: skip
def std_mean_over(F: Ops, self: Tensor, dim: Ints | None, unbiased: bool, keepdim: bool) -> Sequence[Tensor]:
    """(std, mean) over dim."""
    return F.std(self, dim, unbiased, keepdim), F.mean(self, dim, keepdim)


for _op in (var_mean_all, std_mean_all):
    _op.samples(lambda: iter([sample(make(3, 4), False), sample(make(2, 3, 4), True)]))
for _op in (var_mean_over, std_mean_over):
    _op.samples(lambda: iter([sample(make(3, 4), 1, False), sample(make(2, 3, 4), [0, -1], True, True)]))


@composite("aten::var_mean.correction(Tensor self, int[1]? dim=None, *, Scalar? correction=None, bool keepdim=False)"
           " -> (Tensor var, Tensor mean)", samples=_spread_samples)  # fmt: skip
def var_mean(F: Ops, self: Tensor, dim: Ints | None, correction: Number | None, keepdim: bool) -> Sequence[Tensor]:
    """(the variance, the mean) over dim."""
    return F.var(self, dim, correction=correction, keepdim=keepdim), F.mean(self, dim, keepdim)


@composite("aten::std_mean.correction(Tensor self, int[1]? dim=None, *, Scalar? correction=None, bool keepdim=False)"
           " -> (Tensor std, Tensor mean)", samples=_spread_samples)  # fmt: skip
def std_mean(F: Ops, self: Tensor, dim: Ints | None, correction: Number | None, keepdim: bool) -> Sequence[Tensor]:
    """(the standard deviation, the mean) over dim."""
    return F.std(self, dim, correction=correction, keepdim=keepdim), F.mean(self, dim, keepdim)


# -- norms -------------------------------------------------------------------------------------------------------


def _lse_type(self: KnownType, dim: Ints, keepdim: bool) -> TensorType:
    assert self.dtype is not None
    return reduced(self, dim, keepdim, dtypes.float_of(self.dtype))


@Precision(cuda="float32")
@array("aten::logsumexp(Tensor self, int[1] dim, bool keepdim=False) -> Tensor", kernel=Kernel("reduction"),
       namespaces=("jit", "Tensor", "special"), type=_lse_type,
       onnx=lambda g, self, dim, keepdim:
            onnx_reduce(g, "ReduceLogSumExp", g.cast(self, g.out.dtype), dim, keepdim))  # fmt: skip
def logsumexp(m: Numpy, self: Array, dim: Ints, keepdim: bool) -> Array:
    """log(sum(exp(self))) over dim, without overflow."""
    dims = dims_of(self, dim)
    self = self.astype(dtypes.float_of(dtype_of(self)).numpy, copy=False)
    top = largest(m, self.real, dims)
    total = _log_of_sum(OnArrays(m, self.shape, dims), self, top)
    return total if keepdim else m.squeeze(total, dims)


@logsumexp.terms
def _(t: Terms, self: Term) -> Term:
    x = t.wide(self)
    return _log_of_sum(t, x, t.reduce("max", x))


def _log_of_sum(t: Terms, x: Term, greatest: Term) -> Any:
    top = t.apply(lambda m, a: m.where(m.isfinite(a), a, 0), greatest)
    powers = t.apply(lambda m, a, b: m.exp(a - b), x, top, cost=20)
    return t.apply(lambda m, s, b: m.log(s) + b, t.reduce("sum", powers), top)


@logsumexp.grad
def _(
    F: Ops, g: Tensor, needs: Sequence[bool], self: Tensor, out: Tensor, dim: Ints, keepdim: bool
) -> Sequence[Tensor | None]:
    """softmax(self) * g; where all is -inf, nothing moves the result."""
    total = with_reduced_dims(F, out, self, dim, keepdim)
    total = F.where(F.eq(total, -math.inf), 0, total)
    return (with_reduced_dims(F, g, self, dim, keepdim) * F.exp(self - total),)


@logsumexp.samples
def _() -> Iterator[Sample]:
    yield sample(make(2, 3), 1)
    yield sample(make(2, 3, 4), [0, 2], True)
    yield sample(make(), 0, note="0-d")
    yield sample(make(0, 3), 0, note="empty", grad=False, onnx=False)
    yield sample(make(3, low=500, high=1000), 0, note="would overflow")
    yield sample(np.full((2, 3), -np.inf, np.float32), 1, note="all -inf", grad=False, onnx=False)
    yield sample(np.array([1.0, np.inf, np.nan], np.float32), 0, note="nan", grad=False, onnx=False)
    yield sample(make(4, low=-3, high=3, dtype="int64"), 0, note="integer", grad=False)
    yield sample(make(9, dtype="float16"), 0, note="half", grad=False)


def _norm_type(self: KnownType, ord: Number, dim: Ints | None, keepdim: bool, dtype: DType | None) -> TensorType:
    assert self.dtype is not None
    if ord < 0 or math.isinf(ord):
        require_elements("norm", self.sizes, dim)
    return reduced(self, dim, keepdim, dtypes.real_of(require_fraction("norm", dtype or self.dtype)))


@Precision(cuda="float32")
@array("aten::linalg_vector_norm(Tensor self, Scalar ord=2, int[1]? dim=None, bool keepdim=False, *, "
       "ScalarType? dtype=None) -> Tensor", kernel=Kernel("reduction"),
       namespaces=("linalg",), aliases=("vector_norm",), type=_norm_type)  # fmt: skip
def linalg_vector_norm(
    m: Numpy, self: Array, ord: Number, dim: Ints | None, keepdim: bool, dtype: DType | None
) -> Array:
    """(sum |self| ** ord) ** (1 / ord) over dim; for inf the maximum, for -inf the minimum, for 0 a count."""
    result = require_fraction("norm", dtype or dtype_of(self))
    size = m.abs(self.astype(accumulation(result), copy=False))
    return _norm(m, size, ord, dim, keepdim).astype(dtypes.real_of(result).numpy)


def _norm(m: Numpy, size: Array, ord: Number, dim: Ints | None, keepdim: bool) -> Any:
    """The norm of non-negative numbers."""
    dims = dims_of(size, dim)
    if ord < 0 or math.isinf(ord):
        require_elements("norm", size.shape, dim)
    if math.isinf(ord):
        return (m.max if ord > 0 else m.min)(size, axis=dims, keepdims=keepdim)
    if ord == 0:
        return m.sum(size != 0, axis=dims, keepdims=keepdim, dtype=size.dtype)
    if ord == 1:
        return m.sum(size, axis=dims, keepdims=keepdim)
    if ord == 2:
        return m.sqrt(m.sum(size * size, axis=dims, keepdims=keepdim))
    return m.sum(size**ord, axis=dims, keepdims=keepdim) ** (1 / ord)


@linalg_vector_norm.terms
def _(t: Terms, self: Term, ord: Number) -> Term:
    size = t.apply(lambda m, a: m.abs(a), t.wide(self))
    if ord in (math.inf, -math.inf):
        return t.reduce("max" if ord > 0 else "min", size)
    if ord == 0:
        return t.reduce("sum", t.apply(lambda m, a: m.cast(a != 0, a.dtype), size))
    if ord == 1:
        return t.reduce("sum", size)
    if ord == 2:
        return t.apply(lambda m, s: m.sqrt(s), t.reduce("sum", t.apply(lambda m, a: a * a, size)))
    raise CompileError(f"the {ord}-norm has no kernel")


@linalg_vector_norm.grad
def _(
    F: Ops, g: Tensor, needs: Sequence[bool], self: Tensor, out: Tensor, ord: Number, dim: Ints | None, keepdim: bool
) -> Sequence[Tensor | None]:
    """sign(x) * |x|^(p-1) / out^(p-1) * g; 0 where the norm is 0, and split among ties for p = inf."""
    g, out = (with_reduced_dims(F, x, self, dim, keepdim) for x in (g, out))
    if ord == 0:
        return (F.zeros_like(self),)
    if ord == 1:
        return (g * F.sgn(self),)
    if math.isinf(ord):
        return (shared_among_ties(F, g, F.abs(self), out, dim, True) * F.sgn(self),)
    zero = F.eq(out, 0)
    safe = F.where(zero, 1, out)
    if ord == 2:
        return (F.where(zero, 0, self * (g / safe)),)
    still = F.eq(self, 0)
    power = F.abs(F.where(still, 1, self)) ** (ord - 1) * F.sgn(self)
    return (F.where(F.logical_or(still, zero), 0, power * (g / safe ** (ord - 1))),)


@linalg_vector_norm.onnx
def _(g: OnnxWriter, self: Value, ord: Number, dim: Ints | None, keepdim: bool, dtype: DType | None) -> Value:
    self = g.cast(self, g.out.dtype)
    if ord in (1, 2):
        return onnx_reduce(g, "ReduceL1" if ord == 1 else "ReduceL2", self, dim, keepdim)
    size = g.op("Abs", self)
    if math.isinf(ord):
        return onnx_reduce(g, "ReduceMax" if ord > 0 else "ReduceMin", size, dim, keepdim)
    if ord == 0:
        return onnx_reduce(g, "ReduceSum", g.op("Sign", size), dim, keepdim)
    total = onnx_reduce(g, "ReduceSum", g.op("Pow", size, g.constant(ord, like=self)), dim, keepdim)
    return g.op("Pow", total, g.constant(1 / ord, like=self))


@linalg_vector_norm.samples
def _() -> Iterator[Sample]:
    for ord in (2, 1, 3, 0.5, -1, math.inf, -math.inf, 0):
        yield sample(make(3, 4), ord, 1)
    yield sample(make(2, 3, 4), 2, [0, 1], True)
    yield sample(make(3, 4))
    yield sample(make(), note="0-d")
    yield sample(make(0, 3), 2, 0, note="empty")
    yield sample(np.zeros((2, 3), np.float32), 2, 1, note="zeros", grad=False)
    yield sample(np.array([[0.0, 1.0], [2.0, 0.0]], np.float32), 1.5, 1, note="some zeros", grad=False)
    yield sample(make(40, dtype="float16"), dtype=dtypes.float32, note="half", grad=False)


@Precision(cuda="float32")
@composite(
    "aten::norm(Tensor self, Scalar? p=2, int[1]? dim=None, bool keepdim=False, *, ScalarType? dtype=None) -> Tensor"
)
def norm(F: Ops, self: Tensor, p: Number | None, dim: Ints | None, keepdim: bool, dtype: DType | None) -> Tensor:
    """The p-norm over dim (None: of all elements), or the norm with a name: "fro" or "nuc"."""
    return F.linalg_vector_norm(self, 2 if p is None else p, dim, keepdim, dtype=dtype)


@norm.samples
def _() -> Iterator[Sample]:
    yield sample(make(2, 3))
    yield sample(make(2, 3), 1, 1)
    yield sample(make(2, 3), None, [0, 1], True)


@Precision(cuda="float32")
@composite(
    "aten::norm.name(Tensor self, str p, int[1]? dim=None, bool keepdim=False, *, ScalarType? dtype=None) -> Tensor"
)
def norm_by_name(F: Ops, self: Tensor, p: str, dim: Ints | None, keepdim: bool, dtype: DType | None) -> Tensor:
    """The Frobenius norm, "fro", or the nuclear norm, "nuc"."""
    if p == "nuc":
        return F.linalg_matrix_norm(self, "nuc", [-2, -1] if dim is None else dim, keepdim, dtype=dtype)
    if p != "fro":
        raise UsageError(f"norm: p is a number, 'fro' or 'nuc', got {p!r}; matrix norms are in jit.linalg")
    return F.linalg_vector_norm(self, 2, dim, keepdim, dtype=dtype)


@norm_by_name.samples
def _() -> Iterator[Sample]:
    yield sample(make(2, 3), "fro")
    yield sample(make(2, 3), "fro", 0, True)


@Precision(cuda="float32")
@composite("aten::frobenius_norm.dim(Tensor self, int[1] dim, bool keepdim=False) -> Tensor", namespaces=("jit",))
def frobenius_norm(F: Ops, self: Tensor, dim: Ints, keepdim: bool) -> Tensor:
    """The square root of the sum of |self| ** 2 over dim."""
    return F.linalg_vector_norm(self, 2, dim, keepdim)


@frobenius_norm.samples
def _() -> Iterator[Sample]:
    yield sample(make(2, 3), [0, 1])


# -- truth -------------------------------------------------------------------------------------------------------


def truth_dtype(dtype: DType) -> DType:
    """bool, except that `any` and `all` of uint8 are uint8."""
    return dtypes.uint8 if dtype is dtypes.uint8 else dtypes.bool_


def _truth_type(self: KnownType, dim: Ints | None, keepdim: bool) -> TensorType:
    assert self.dtype is not None
    return reduced(self, dim, keepdim, truth_dtype(self.dtype))


def _truth_samples() -> Iterator[Sample]:
    yield sample(make(2, 3, 4, dtype="bool"))
    yield sample(make(2, 3, dtype="bool"), 1)
    yield sample(make(2, 3, 4, low=0, high=1, dtype="int64"), [0, -1], True, note="integer")
    yield sample(make(3, 4, low=0, high=1).round(), 1, note="float")
    yield sample(make(3, 4, low=0, high=2, dtype="uint8"), 0, note="uint8 stays")
    yield sample(make(dtype="bool"), note="0-d")
    yield sample(make(0, 3, dtype="bool"), 0, note="empty")
    yield sample(np.array([np.nan, 0.0], np.float32), note="nan is true")


@array(
    "aten::any(Tensor self, int[1]? dim=None, bool keepdim=False) -> Tensor",
    kernel=Kernel("reduction"),
    type=_truth_type,
    samples=_truth_samples,
    grad=BOOLEAN,
)
def any(m: Numpy, self: Array, dim: Ints | None, keepdim: bool) -> Array:
    """Whether any element along dim (None: of all) is nonzero; of uint8, a uint8."""
    return m.any(self, axis=dims_of(self, dim), keepdims=keepdim).astype(truth_dtype(dtype_of(self)).numpy)


@array(
    "aten::all(Tensor self, int[1]? dim=None, bool keepdim=False) -> Tensor",
    kernel=Kernel("reduction"),
    type=_truth_type,
    samples=_truth_samples,
    grad=BOOLEAN,
)
def all(m: Numpy, self: Array, dim: Ints | None, keepdim: bool) -> Array:
    """Whether all elements along dim (None: of all) are nonzero; of uint8, a uint8."""
    return m.all(self, axis=dims_of(self, dim), keepdims=keepdim).astype(truth_dtype(dtype_of(self)).numpy)


@any.terms
def _(t: Terms, self: Term) -> Term:
    """The greatest truth value."""
    return t.reduce("max", t.cast(self, dtypes.bool_))


@all.terms
def _(t: Terms, self: Term) -> Term:
    """The least truth value."""
    return t.reduce("min", t.cast(self, dtypes.bool_))


@any.onnx
def _(g: OnnxWriter, self: Value, dim: Ints | None, keepdim: bool) -> Value:
    true = g.cast(g.cast(self, dtypes.bool_), dtypes.int64)
    total = onnx_reduce(g, "ReduceSum", true, dim, keepdim)  # unlike ReduceMax, it knows the answer for no elements
    return g.cast(g.op("Greater", total, g.constant(0, like=total)), g.out.dtype)


@all.onnx
def _(g: OnnxWriter, self: Value, dim: Ints | None, keepdim: bool) -> Value:
    false = g.cast(g.op("Not", g.cast(self, dtypes.bool_)), dtypes.int64)
    total = onnx_reduce(g, "ReduceSum", false, dim, keepdim)
    return g.cast(g.op("Equal", total, g.constant(0, like=total)), g.out.dtype)


# -- running sums ------------------------------------------------------------------------------------------------


def from_the_end(F: Ops, x: Tensor, dim: int) -> Tensor:
    """The running sum that starts at the end of `dim`."""
    return F.flip(F.cumsum(F.flip(x, (dim,)), dim), (dim,))


@Precision(cuda="float32")
@array("aten::cumsum(Tensor self, int dim, *, ScalarType? dtype=None) -> Tensor", kernel=Kernel("scan"), inplace=True,
       grad=dict(self=lambda F, g, dim: from_the_end(F, g, dim) if g.ndim else g))  # fmt: skip
def cumsum(m: Numpy, self: Array, dim: int, dtype: DType | None) -> Array:
    """The running sum along dim; integers give int64."""
    result = dtype or wide_sum_dtype(dtype_of(self))
    dim = wrap_dim(dim, self.ndim)
    if not self.ndim:
        return m.array(self, result.numpy)
    values, wide = self.astype(result.numpy, copy=False), running_dtype(result).numpy
    return m.cumsum(values, axis=dim, dtype=wide).astype(result.numpy, copy=False)


@cumsum.terms
def _(t: Terms, self: Term) -> Term:
    return running(t, "sum", self)


@cumsum.type
def _(self: KnownType, dim: int, dtype: DType | None) -> TensorType:
    assert self.dtype is not None and self.sizes is not None
    wrap_dim(dim, len(self.sizes))
    return TensorType(dtype or wide_sum_dtype(self.dtype), self.sizes, None, self.device)


@cumsum.onnx
def _(g: OnnxWriter, self: Value, dim: int, dtype: DType | None) -> Value:
    self = g.cast(self, g.out.dtype)
    if not self.ndim:
        return g.op("Identity", self)
    return g.op("CumSum", self, g.constant(wrap_dim(dim, self.ndim), dtype=dtypes.int64))


def _running_samples() -> Iterator[Sample]:
    yield sample(make(3, 4), 1)
    yield sample(make(3, 4), -2)
    yield sample(make(), 0, note="0-d")
    yield sample(make(0, 3), 0, note="empty")
    yield sample(strided(make(3, 5)), 1, note="strided")
    yield sample(make(20, dtype="float16"), 0, note="half", grad=False)


@cumsum.samples
def _() -> Iterator[Sample]:
    yield from _running_samples()
    yield sample(whole(5, dtype="int32"), 0, note="integer", grad=False)
    yield sample(make(5, dtype="bool"), 0, note="bool", grad=False)
    yield sample(make(5), 0, dtype=dtypes.float64, note="another dtype")


@array("aten::logcumsumexp(Tensor self, int dim) -> Tensor", kernel=Kernel("scan"))
def logcumsumexp(m: Numpy, self: Array, dim: int) -> Array:
    """The running logsumexp along dim: log of the running sum of exp(self)."""
    require_fraction("logcumsumexp", dtype_of(self))
    dim = wrap_dim(dim, self.ndim)
    if not self.ndim:
        return self.copy()
    values = self.astype(running_dtype(dtype_of(self)).numpy, copy=False)
    is_complex = self.dtype.kind == "c"
    found = _running_complex_lse(m, values, dim) if is_complex else m.running("logaddexp", values, dim)
    return found.astype(self.dtype, copy=False)


@logcumsumexp.terms
def _(t: Terms, self: Term) -> Term:
    return running(t, "logaddexp", self)


def _running_complex_lse(m: Numpy, self: Array, dim: int) -> Any:
    """The running logsumexp of complex numbers, step by step: the larger real part is taken out of each sum first."""
    rows, out = m.moveaxis(self, dim, 0), m.array(m.moveaxis(self, dim, 0))
    for place in range(1, len(rows)):
        a, b = out[place - 1], rows[place]
        first = a.real >= b.real
        high, low = m.where(first, a, b), m.where(first, b, a)
        out[place] = m.where(high.real == -m.inf, high, high + m.log(1 + m.exp(low - high)))
    return m.array(m.moveaxis(out, 0, dim), order="C")


@logcumsumexp.type
def _(self: KnownType, dim: int) -> TensorType:
    assert self.dtype is not None and self.sizes is not None
    require_fraction("logcumsumexp", self.dtype)
    wrap_dim(dim, len(self.sizes))
    return TensorType(self.dtype, self.sizes, None, self.device)


@logcumsumexp.grad
def _(F: Ops, g: Tensor, needs: Sequence[bool], self: Tensor, out: Tensor, dim: int) -> Sequence[Tensor | None]:
    """The sum over later places j of g[j] * exp(self - out[j]): in logarithms, for positive and negative g apart."""
    if not self.ndim:
        return (g,)
    if self.dtype.is_complex:
        return (_complex_shares(F, [F.transpose(x, dim, -1) for x in (g, self, out)], dim),)

    def part(positive: Any, size: Any) -> Any:
        logs = F.where(positive, F.log(F.where(positive, size, 1)) - out, -math.inf)
        later = F.flip(F.logcumsumexp(F.flip(logs, (dim,)), dim), (dim,))
        return F.exp(F.where(F.eq(later, -math.inf), -math.inf, self + later))

    return (part(F.gt(g, 0), g) - part(F.lt(g, 0), -g),)


def _complex_shares(F: Ops, lasts: Any, dim: int) -> Tensor:
    """The gradient of complex numbers, each pair of places by itself: no exponent is positive, so nothing overflows."""
    g, self, out = lasts
    size = self.shape[-1]
    later = F.triu(F.ones([size, size], dtype=dtypes.bool_))
    counted = F.logical_and(later, F.unsqueeze(F.isfinite(F.real(out)), -2))
    logs = F.where(counted, F.unsqueeze(self, -1) - F.unsqueeze(out, -2), -math.inf)
    return F.transpose(F.sum(F.exp(logs) * F.unsqueeze(g, -2), -1), dim, -1)


@logcumsumexp.onnx
def _(g: OnnxWriter, self: Value, dim: int) -> Value:
    if not self.ndim:
        return g.op("Identity", self)
    dim = wrap_dim(dim, self.ndim)
    top = onnx_reduce(g, "ReduceMax", self, dim, True)
    sums = g.op("CumSum", g.op("Exp", g.op("Sub", self, top)), g.constant(dim, dtype=dtypes.int64))
    return g.op("Add", g.op("Log", sums), top)


@logcumsumexp.samples
def _() -> Iterator[Sample]:
    yield from _running_samples()
