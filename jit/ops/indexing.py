"""Picking and placing elements by integer tensors and masks; sorting; triangles.

Every picking operator has a placing one that adds where places coincide, and they are each other's derivatives:
gather and scatter_add, index_select and index_add, index and index_put, masked_select and masked_scatter, embedding and
embedding_dense_backward.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any

from jit.ir import dtypes
from jit.ir.errors import DimError, DTypeError, ShapeError, UsageError
from jit.ir.fitting import fitted
from jit.ir.geometry import broadcast_shapes, wrap_dim
from jit.ir.kernel import Kernel
from jit.ir.op import absent, array, composite
from jit.ir.precision import Precision
from jit.ir.samples import Sample, make, sample, strided
from jit.ir.types import TensorType

from .common import onnx_spread, require_order, require_real_factor, surely_same
from .views import sum_to

if TYPE_CHECKING:
    from jit.ir.types import Type

    from .protocols import Array, Ints, KnownType, Meta, Number, Numpy, OnnxWriter, Ops, Tensor, Value

_INTEGERS = absent("its result is made of integers")


def _like(self: KnownType, *_: Any) -> TensorType:
    return TensorType(self.dtype, self.shape, None, self.device)


def _zeros(F: Ops, g: Tensor, meta: Meta) -> Tensor:
    return F.zeros(meta.shape, dtype=g.dtype, device=g.device)


def _check_index(m: Numpy, name: str, index: Array, size: int, negative: bool = False) -> None:
    """Integers within a dim of `size`."""
    if index.dtype.kind not in "iu":
        raise DTypeError(
            f"{name}: the index should be a tensor of integers, got {index.dtype}; cast it with index.long()"
        )
    if index.size:
        low, high = int(index.min()), int(index.max())
        if low < (-size if negative else 0) or high >= size:
            raise DimError(f"{name}: index {high if high >= size else low} is out of range for a dim of size {size}")


# -- one index per element: gather and scatter -------------------------------------------------------------------


def _fits(name: str, index: Ints, shape: Ints, dim: int, whole: bool = False) -> int:
    """The dim, made non-negative; ShapeError if `index` leaves `shape` in another dim (or, `whole`, in any)."""
    at = wrap_dim(dim, len(shape))
    if math.prod(index) == 0 and all(isinstance(n, int) for n in index):
        return at  # no indices: nothing is looked at, whatever the dims
    if len(index) != len(shape) and (len(index) or 1) != (len(shape) or 1):
        raise ShapeError(
            f"{name}: the index of sizes {list(index)} should have as many dims as the sizes {list(shape)}"
        )
    for d, (a, b) in enumerate(zip(index, shape)):
        if (whole or d != at) and a > b:
            raise ShapeError(
                f"{name}: the index of sizes {list(index)} is larger than the sizes {list(shape)} in dim {d}"
            )
    return at


def _flat_places(m: Numpy, index: Array, shape: Ints, dim: int) -> Any:
    """Flat positions in a row-major array of `shape` to which the elements of `index`, along `dim`, point."""
    if not shape or not index.size:
        return m.zeros(index.size, m.int64)
    places = index.reshape(index.shape or (1,)) * math.prod(shape[dim + 1 :])
    for d, size in enumerate(places.shape):
        if d != dim:
            line = m.arange(size) * math.prod(shape[d + 1 :])
            places = places + line.reshape([-1 if i == d else 1 for i in range(places.ndim)])
    return places.reshape(-1)


def _first(array: Array, shape: Ints) -> Any:
    """The leading part of `array` of that shape, flat."""
    return array[tuple(slice(n) for n in shape)].reshape(-1) if array.ndim else array.reshape(-1)


def _padded_gather(F: Ops, g: Tensor, dim: int, index: Tensor, meta: Meta) -> Tensor:
    """The gradient of a source of which only the leading part, of the index's sizes, was used."""
    picked = F.gather(g, dim, index)
    missing = [a - b for a, b in zip(meta.shape, index.shape)]
    if not any(missing):
        return picked
    return F.constant_pad_nd(picked, [p for n in reversed(missing) for p in (0, n)])


@array("aten::gather(Tensor self, int dim, Tensor index, *, bool sparse_grad=False) -> Tensor", raises=True,
       kernel=Kernel(moves=True),
       grad=dict(self=lambda F, g, self_meta, dim, index:
                 F.scatter_add(_zeros(F, g, self_meta), dim, index, g)))  # fmt: skip
def gather(m: Numpy, self: Array, dim: int, index: Array, sparse_grad: bool) -> Array:
    """The elements of self at the places `index` along dim, in the sizes of index: self[index[i, j], j] for dim 0."""
    at = _fits("gather", index.shape, self.shape, dim)
    _check_index(m, "gather", index, self.shape[at] if self.ndim else 1)
    return m.take(self, _flat_places(m, index, self.shape, at)).reshape(index.shape)


@gather.parts
def _(F: Ops, self: Tensor, dim: int, index: Tensor, sparse_grad: bool) -> Tensor | None:
    """Elements of the whole tensor in a row; a place out of range along dim is one that is out of range of all."""
    if self.ndim == 0 or not _are_rows(self):
        return None
    at = wrap_dim(dim, self.ndim)
    steps = [math.prod(self.shape[d + 1 :]) for d in range(self.ndim)]
    along = F._to_copy(index, dtype=dtypes.int64)
    places = along * steps[at]
    for d in (d for d in range(self.ndim) if d != at):
        places = places + F.view(F.arange(0, index.shape[d]), [-1, *[1] * (self.ndim - 1 - d)]) * steps[d]
    is_valid = F.logical_and(F.ge(along, 0), F.lt(along, self.shape[at]))
    picked = F.embedding(F.reshape(self, [math.prod(self.shape), 1]), F.where(is_valid, places, -1))
    return F.reshape(picked, index.shape)


def _are_rows(self: Tensor) -> bool:
    """Whether a tensor may be looked at as a matrix whose rows kernels pick."""
    return self.is_contiguous() and self.device == "cpu" and not self.dtype.is_complex


@gather.type
def _(self: KnownType, dim: int, index: KnownType, sparse_grad: bool) -> TensorType:
    _fits("gather", index.sizes, self.sizes, dim)
    return TensorType(self.dtype, index.shape, None, self.device)


@gather.onnx
def _(g: OnnxWriter, self: Value, dim: int, index: Value, sparse_grad: bool) -> Value:
    if self.ndim == 0:
        return g.op("Identity", self)
    return g.op("GatherElements", self, g.cast(index, dtypes.int64), axis=wrap_dim(dim, self.ndim))


def _places(*rows: Any) -> Any:
    import numpy as np

    return np.array(rows, np.int64)


@gather.samples
def _() -> Iterator[Sample]:
    yield sample(make(3, 4), 1, _places([0, 3], [1, 1], [2, 0]))
    yield sample(make(3, 4), -2, _places([0, 2, 1, 1]))
    yield sample(make(2, 3, 2), 1, _places([[0, 1], [2, 2]], [[1, 1], [0, 2]]))
    yield sample(make(4), 0, _places(2, 2, 0), note="1-d")
    yield sample(make(), 0, _places(0).reshape(()), note="0-d")
    yield sample(make(3, 4), 0, _places().reshape(0, 4), note="empty", onnx=False)
    yield sample(strided(make(3, 4)), 0, _places([0, 2, 1, 1]), note="strided")


def _scattered(m: Numpy, name: str, self: Array, dim: int, index: Array, src: Array, reduce: str | None = None) -> Any:
    """A copy of self with `src` (flat or a number) put, or added, where `index` points."""
    at = _fits(name, index.shape, self.shape, dim)
    _check_index(m, name, index, self.shape[at] if self.ndim else 1)
    out = m.array(self, order="C")
    places, flat = _flat_places(m, index, self.shape, at), out.reshape(-1)
    if reduce is None:
        flat[places] = src
    else:
        m.combine_at(reduce, flat, places, src)
    return out


def _onnx_scatter(g: OnnxWriter, self: Value, dim: int, index: Value, src: Value, reduction: str = "none") -> Value:
    if self.ndim == 0:
        combined = {"none": None, "add": "Add", "mul": "Mul", "max": "Max", "min": "Min"}[reduction]
        src = g.op("Reshape", src, g.ints([])) if src.ndim else src
        return g.op(combined, self, src) if combined else g.op("Identity", src)
    if reduction != "none" and g.opset < 16:
        raise g.unsupported("ScatterElements reduces only", since=16)
    if reduction in ("max", "min") and g.opset < 18:
        raise g.unsupported(f"ScatterElements reduces by {reduction} only", since=18)
    if not surely_same(src.shape, index.shape):
        axes = list(range(self.ndim))
        src = g.op("Slice", src, g.ints([0] * self.ndim), g.op("Shape", index), g.ints(axes))
    places, axis = g.cast(index, dtypes.int64), wrap_dim(dim, self.ndim)
    return _onnx_combined(g, "ScatterElements", self, places, src, reduction, axis=axis)


def _onnx_combined(
    g: OnnxWriter, name: str, self: Value, places: Value, source: Value, reduction: str, **attributes: Any
) -> Value:
    """A scatter by `name`; 16-bit floats, which onnxruntime does not combine, in float32."""
    if reduction == "none":
        return g.op(name, self, places, source, **attributes)
    wide = dtypes.float32 if self.dtype.is_half else self.dtype
    combined = g.op(name, g.cast(self, wide), places, g.cast(source, wide), reduction=reduction, **attributes)
    return g.cast(combined, self.dtype)


@array("aten::scatter.src(Tensor self, int dim, Tensor index, Tensor src) -> Tensor", raises=True, inplace=True,
       kernel=Kernel(moves=True),
       grad=dict(self=lambda F, g, dim, index: F.scatter(g, dim, index, 0),
                 src=lambda F, g, src_meta, dim, index: _padded_gather(F, g, dim, index, src_meta)))  # fmt: skip
def scatter(m: Numpy, self: Array, dim: int, index: Array, src: Array) -> Array:
    """self with src's elements, or a number, put at the places `index` along dim; `reduce` adds or multiplies."""
    _fits("scatter", index.shape, src.shape, dim, whole=True)
    if src.dtype != self.dtype:
        raise DTypeError(f"scatter: expects one dtype, got {self.dtype} and {src.dtype}; cast one of them")
    return _scattered(m, "scatter", self, dim, index, _first(src, index.shape))


scatter.type_rule = _like


@scatter.onnx
def _(g: OnnxWriter, self: Value, dim: int, index: Value, src: Value) -> Value:
    return _onnx_scatter(g, self, dim, index, src)


@scatter.samples
def _() -> Iterator[Sample]:
    yield sample(make(3, 4), 0, _places([0, 2, 1, 0], [1, 0, 2, 2]), make(2, 4, seed=1))
    yield sample(make(3, 4), -1, _places([3, 0], [1, 2]), make(3, 3, seed=1), note="source partly used")
    yield sample(make(4), 0, _places(2, 0), make(2, seed=1), note="1-d")
    yield sample(strided(make(3, 4)), 0, _places([0, 2, 1, 0]), make(1, 4, seed=1), note="strided")


@array("aten::scatter.value(Tensor self, int dim, Tensor index, Scalar value) -> Tensor", raises=True, inplace=True,
       kernel=Kernel(moves=True),
       grad=dict(self=lambda F, g, dim, index: F.scatter(g, dim, index, 0)))  # fmt: skip
def scatter_value(m: Numpy, self: Array, dim: int, index: Array, value: Number) -> Array:
    return _scattered(m, "scatter", self, dim, index, fitted(value, self.dtype))


scatter_value.type_rule = _like


@scatter_value.onnx
def _(g: OnnxWriter, self: Value, dim: int, index: Value, value: Number) -> Value:
    source = g.op("Expand", g.constant(value, like=self), g.op("Shape", index))
    return _onnx_scatter(g, self, dim, index, source)


@scatter_value.samples
def _() -> Iterator[Sample]:
    yield sample(make(3, 4), 0, _places([0, 2, 1, 0]), 1.5)
    yield sample(make(3, 4), 1, _places([0], [2], [2]), 2)


_REDUCTIONS = {"add": "add", "multiply": "multiply"}
_NOT_DIFFERENTIABLE = absent("scatter with reduce has no derivative; scatter_add and scatter_reduce have")


def _reduction(reduce: str) -> str:
    """numpy's name for what `scatter` does with what is already there."""
    if reduce not in _REDUCTIONS:
        raise UsageError(f"scatter: reduce is 'add' or 'multiply', got {reduce!r}")
    return _REDUCTIONS[reduce]


@array("aten::scatter.reduce(Tensor self, int dim, Tensor index, Tensor src, *, str reduce) -> Tensor", raises=True,
       inplace=True,
       grad=_NOT_DIFFERENTIABLE)  # fmt: skip
def scatter_combined(m: Numpy, self: Array, dim: int, index: Array, src: Array, reduce: str) -> Array:
    """self with src added to, or multiplied into, the places that index names along dim."""
    _fits("scatter", index.shape, src.shape, dim, whole=True)
    return _scattered(m, "scatter", self, dim, index, _first(src, index.shape), _reduction(reduce))


@array("aten::scatter.value_reduce(Tensor self, int dim, Tensor index, Scalar value, *, str reduce) -> Tensor",
       raises=True,
       inplace=True, grad=_NOT_DIFFERENTIABLE)  # fmt: skip
def scatter_value_combined(m: Numpy, self: Array, dim: int, index: Array, value: Number, reduce: str) -> Array:
    """self with a number added to, or multiplied into, the places that index names along dim."""
    return _scattered(m, "scatter", self, dim, index, m.asarray(value).astype(self.dtype), _reduction(reduce))


scatter_combined.type_rule = _like
scatter_value_combined.type_rule = _like


@scatter_combined.onnx
def _(g: OnnxWriter, self: Value, dim: int, index: Value, src: Value, reduce: str) -> Value:
    return _onnx_scatter(g, self, dim, index, src, {"add": "add", "multiply": "mul"}[reduce])


@scatter_value_combined.onnx
def _(g: OnnxWriter, self: Value, dim: int, index: Value, value: Number, reduce: str) -> Value:
    source = g.op("Expand", g.constant(value, like=self), g.op("Shape", index))
    return _onnx_scatter(g, self, dim, index, source, {"add": "add", "multiply": "mul"}[reduce])


@scatter_combined.samples
def _() -> Iterator[Sample]:
    yield sample(make(3, 4), 0, _places([0, 2, 1, 0], [0, 0, 2, 2]), make(2, 4, seed=1), reduce="add")
    yield sample(make(3, 4), 1, _places([3, 3], [1, 2]), make(3, 3, seed=1), reduce="multiply", note="partly used")


@scatter_value_combined.samples
def _() -> Iterator[Sample]:
    yield sample(make(3, 4), 0, _places([0, 2, 1, 0], [0, 0, 2, 2]), 1.5, reduce="add")
    yield sample(make(3, 4), 1, _places([3, 3], [1, 2]), 3, reduce="multiply")


@Precision(cuda="widest")
@array("aten::scatter_add(Tensor self, int dim, Tensor index, Tensor src) -> Tensor", raises=True, inplace=True,
       grad=dict(self=lambda F, g: g,
                 src=lambda F, g, src_meta, dim, index: _padded_gather(F, g, dim, index, src_meta)))  # fmt: skip
def scatter_add(m: Numpy, self: Array, dim: int, index: Array, src: Array) -> Array:
    """self with src's elements added at the places `index` along dim."""
    _fits("scatter_add", index.shape, src.shape, dim, whole=True)
    if src.dtype != self.dtype:
        raise DTypeError(f"scatter_add: expects one dtype, got {self.dtype} and {src.dtype}; cast one of them")
    return _scattered(m, "scatter_add", self, dim, index, _first(src, index.shape), "add")


scatter_add.type_rule = _like


@scatter_add.parts
def _(F: Ops, self: Tensor, dim: int, index: Tensor, src: Tensor) -> Tensor | None:
    if not _has_row_sums(self, src, index) or index.ndim != self.ndim:
        return None
    at = wrap_dim(dim, self.ndim)
    for d, size in enumerate(index.shape):
        src = src if src.shape[d] == size else F.narrow(src, d, 0, size)
    if _moves_rows(self, at, index):
        for d in range(self.ndim):
            index = index if d == at else F.narrow(index, d, 0, 1)
        return _with_row_sums(F, self, at, F.reshape(index, [-1]), src)
    place = F.reshape(_places_along(F, self, at, index), [-1])
    return F.reshape(_with_row_sums(F, F.reshape(self, [-1]), 0, place, F.reshape(src, [-1])), list(self.shape))


def _moves_rows(self: Tensor, at: int, index: Tensor) -> bool:
    """Whether an index is the same along all dims but one, as one that was expanded, and covers these dims."""
    others = [d for d in range(self.ndim) if d != at]
    return all(index.stride()[d] == 0 and index.shape[d] == self.shape[d] for d in others)


def _places_along(F: Ops, self: Tensor, at: int, index: Tensor) -> Tensor:
    """The places in `self`, as if it had one dim, to which an index points; -1 where it is out of range."""
    place = index * math.prod(self.shape[at + 1 :])
    for d in range(self.ndim):
        if d != at:
            line = F.arange(index.shape[d]) * math.prod(self.shape[d + 1 :])
            place = place + F.view(line, [-1 if d == other else 1 for other in range(self.ndim)])
    return F.where(F.logical_and(index >= 0, index < self.shape[at]), place, -1)


@scatter_add.onnx
def _(g: OnnxWriter, self: Value, dim: int, index: Value, src: Value) -> Value:
    return _onnx_scatter(g, self, dim, index, src, "add")


@scatter_add.samples
def _() -> Iterator[Sample]:
    yield sample(make(3, 4), 0, _places([0, 2, 1, 0], [0, 0, 2, 2]), make(2, 4, seed=1))
    yield sample(make(3, 4), 1, _places([3, 3], [1, 2]), make(3, 3, seed=1), note="source partly used")
    yield sample(make(), 0, _places(0).reshape(()), make(seed=1), note="0-d")


@composite("aten::take(Tensor self, Tensor index) -> Tensor")
def take(F: Ops, self: Tensor, index: Tensor) -> Tensor:
    """self's elements at the places `index`, counted as if self had one dim; sizes as of index."""
    return F.index(F.reshape(self, [-1]), [index])


@take.samples
def _() -> Iterator[Sample]:
    yield sample(make(3, 4), _places([0, 11], [-1, 5]))


@composite("aten::take_along_dim(Tensor self, Tensor indices, int? dim=None) -> Tensor")
def take_along_dim(F: Ops, self: Tensor, indices: Tensor, dim: int | None) -> Tensor:
    """The elements at the places `indices` along dim; the other dims broadcast."""
    if indices.dtype is not dtypes.int64:
        raise DTypeError(
            f"take_along_dim: the indices should be int64, got {indices.dtype.name}; cast them with indices.long()"
        )
    at = 0 if dim is None else wrap_dim(dim, self.ndim)
    if dim is not None and self.ndim != indices.ndim:
        raise ShapeError(
            f"take_along_dim: the indices have {indices.ndim} dims and the tensor {self.ndim}; give them as many"
        )
    if dim is None:
        self, indices = F.reshape(self, [-1]), F.reshape(indices, [-1])
    indices = F.where(F.lt(indices, 0), indices + self.shape[at], indices)  # unlike gather, it counts from the end
    own, asked = list(self.shape), list(indices.shape)
    common = list(broadcast_shapes(tuple(own[:at] + own[at + 1 :]), tuple(asked[:at] + asked[at + 1 :])))
    return F.gather(
        F.expand(self, [*common[:at], own[at], *common[at:]]), at,
        F.expand(indices, [*common[:at], asked[at], *common[at:]]),
    )  # fmt: skip


@take_along_dim.samples
def _() -> Iterator[Sample]:
    yield sample(make(3, 4), _places([0, 2]), 1)
    yield sample(make(3, 4), _places(0, 5))


# -- one index per row -------------------------------------------------------------------------------------------


def _row_check(m: Numpy, name: str, self: Array, dim: int, index: Array) -> int:
    at = wrap_dim(dim, len(self.shape))
    if index.ndim > 1:
        raise ShapeError(f"{name}: the index should be a vector, got the sizes {list(index.shape)}")
    _check_index(m, name, index, self.shape[at] if self.ndim else 1)
    return at


def _add_rows(m: Numpy, out: Array, index: Array, rows: Array) -> None:
    """`out[index[i]] += rows[i]` for all i, in order; rows that go to one place are summed together first."""
    if index.size == 0:
        return
    order = m.argsort(index, kind="stable")
    places = index[order]
    starts = m.starts_of_runs(places)
    out[places[starts]] += _sums_of_runs(m, rows.astype(out.dtype, copy=False), order, starts)


PASSES = 16
"""The rows of a run that are added one by one, all runs at a time: `reduceat` takes 25 ns for each of its sums."""


def _sums_of_runs(m: Numpy, rows: Array, order: Array, starts: Array) -> Array:
    """The sums of the rows `order[starts[i]:starts[i + 1]]`, for all i."""
    counts = m.append(starts[1:], len(order)) - starts
    sums = rows[order[starts]]
    for number in range(1, min(PASSES, int(counts.max()))):
        going = m.flatnonzero(counts > number)
        sums[going] += rows[order[starts[going] + number]]
    long = m.flatnonzero(counts > PASSES)
    if len(long):
        rest = m.repeat(counts > PASSES, counts) & (m.arange(len(order)) - m.repeat(starts, counts) >= PASSES)
        left = counts[long] - PASSES
        sums[long] += m.sums_of_runs(rows[order[rest]], m.cumsum(left) - left, 0, sums.dtype)
    return sums


@array("aten::index_select(Tensor self, int dim, Tensor index) -> Tensor", raises=True, kernel=Kernel(moves=True),
       grad=dict(self=lambda F, g, self_meta, dim, index:
                 F.index_add(_zeros(F, g, self_meta), dim, index, g)))  # fmt: skip
def index_select(m: Numpy, self: Array, dim: int, index: Array) -> Array:
    """The entries of dim that the vector `index` names, in its order."""
    at = _row_check(m, "index_select", self, dim, index)
    if self.ndim == 0 and index.size != 1:
        raise ShapeError(f"index_select: a 0-d tensor has one element to select, and there are {index.size} indices")
    return m.array(self) if self.ndim == 0 else m.array(m.take(self, index.reshape(-1), axis=at), order="C")


@index_select.parts
def _(F: Ops, self: Tensor, dim: int, index: Tensor) -> Tensor | None:
    if self.ndim == 0 or wrap_dim(dim, self.ndim) != 0 or not _are_rows(self):
        return None
    return _picked_rows(F, self, index if index.ndim == 1 else F.reshape(index, [-1]))


def _picked_rows(F: Ops, self: Tensor, index: Tensor) -> Tensor:
    """The slices of dim 0 that `index` names, as rows of a matrix."""
    if self.ndim == 2:
        return F.embedding(self, index)
    rows = F.embedding(F.reshape(self, [self.shape[0], math.prod(self.shape[1:])]), index)
    return F.reshape(rows, [*index.shape, *self.shape[1:]])


@index_select.type
def _(self: KnownType, dim: int, index: KnownType) -> TensorType:
    sizes = list(self.sizes or ())
    if sizes:
        sizes[wrap_dim(dim, len(sizes))] = index.numel or 0
    return TensorType(self.dtype, tuple(sizes), None, self.device)


@index_select.onnx
def _(g: OnnxWriter, self: Value, dim: int, index: Value) -> Value:
    if self.ndim == 0:
        return g.op("Identity", self)
    return g.op("Gather", self, g.op("Reshape", index, g.ints([-1])), axis=wrap_dim(dim, self.ndim))


@index_select.samples
def _() -> Iterator[Sample]:
    yield sample(make(3, 4), 0, _places(2, 0, 2))
    yield sample(make(3, 4), -1, _places(1, 1))
    yield sample(make(3, 4), 1, _places(), note="empty", onnx=False)
    yield sample(strided(make(3, 4)), 1, _places(3, 0), note="strided")


def _same_dtype(name: str, self: Array, source: Array) -> None:
    if source.dtype != self.dtype:
        raise DTypeError(f"{name}: the source should be {self.dtype.name} as the tensor is, got {source.dtype.name}")


def _source_check(name: str, self: Array, at: int, index: Array, source: Array) -> None:
    """Whether the source has a row for each index; of a 0-d tensor, one element."""
    wanted = (*self.shape[:at], index.size, *self.shape[at + 1 :])
    if self.ndim and source.shape != wanted:
        raise DimError(f"{name}: expects a source of sizes {list(wanted)}, got {list(source.shape)}")


def _scaled_source(m: Numpy, self: Array, source: Array, alpha: Number) -> Array:
    require_real_factor(self.dtype, alpha)
    return source if alpha == 1 else (source * m.asarray(alpha).astype(self.dtype)).astype(self.dtype)


@array("aten::index_add(Tensor self, int dim, Tensor index, Tensor source, *, Scalar alpha=1) -> Tensor", raises=True,
       inplace=True,
       grad=dict(self=lambda F, g: g, source=lambda F, g, source_meta, dim, index, alpha:
                 F.reshape(F.index_select(g, dim, index) * alpha, source_meta.shape)))  # fmt: skip
def index_add(m: Numpy, self: Array, dim: int, index: Array, source: Array, alpha: Number) -> Array:
    """self with alpha times source's entries of dim added to the entries that the vector `index` names."""
    at = _row_check(m, "index_add", self, dim, index)
    _same_dtype("index_add", self, source)
    out = m.array(self, order="C")
    rows = _scaled_source(m, self, source, alpha)
    if self.ndim == 0:
        return out + m.sum(rows, dtype=out.dtype)
    wanted = (*self.shape[:at], index.size, *self.shape[at + 1 :])
    if source.shape != wanted:
        raise ShapeError(f"index_add: expects a source of sizes {list(wanted)}, got {list(source.shape)}")
    _add_rows(m, m.moveaxis(out, at, 0), index.reshape(-1), m.moveaxis(rows, at, 0))
    return out


index_add.type_rule = _like


@index_add.parts
def _(F: Ops, self: Tensor, dim: int, index: Tensor, source: Tensor, alpha: Number) -> Tensor | None:
    if not _has_row_sums(self, source, index) or self.ndim == 0:
        return None
    return _with_row_sums(F, self, wrap_dim(dim, self.ndim), F.reshape(index, [-1]), source, alpha)


def _has_row_sums(self: Tensor, source: Tensor, *indices: Tensor) -> bool:
    """Whether plans have a step that adds the rows of a source, and there are any."""
    fits = source.dtype is self.dtype and all(index.dtype is dtypes.int64 and index.shape for index in indices)
    some = not any(type(n) is int and n == 0 for n in (*self.shape, *source.shape))
    return fits and some and self.dtype.is_floating_point and self.device == "cpu"


def _with_row_sums(F: Ops, self: Tensor, at: int, index: Tensor, source: Tensor, alpha: Number = 1) -> Tensor:
    """`self` with the entries of dim `at` of a source added where a vector says; 16-bit floats are rounded at the end.

    Entries that go to one place are summed first, as in `_add_rows`, by a step of plans.
    """
    wide = dtypes.float32 if self.dtype.is_half else self.dtype
    base, source = (x if x.dtype is wide else F._to_copy(x, dtype=wide) for x in (self, source))
    source = source if alpha == 1 else source * alpha
    sizes = [self.shape[at], *self.shape[:at], *self.shape[at + 1 :]]
    rows = F.reshape(F.movedim(source, at, 0), [source.shape[at], math.prod(sizes[1:])])
    sums = F.reshape(F.embedding_dense_backward(rows, index, sizes[0], -1, False), sizes)
    result = base + F.movedim(sums, 0, at)
    return result if self.dtype is wide else F._to_copy(result, dtype=self.dtype)


@index_add.onnx
def _(g: OnnxWriter, self: Value, dim: int, index: Value, source: Value, alpha: Number) -> Value:
    scaled = source if alpha == 1 else g.op("Mul", source, g.constant(alpha, like=self))
    return _onnx_rows(g, self, dim, index, scaled, "add")


def _onnx_rows(g: OnnxWriter, self: Value, dim: int, index: Value, source: Value, reduction: str = "none") -> Value:
    """Scatter whole rows: those of the first dim at once, others with the index repeated for every element of a row."""
    at = wrap_dim(dim, self.ndim)
    if self.ndim == 0:
        return _onnx_scatter(g, self, dim, index, source, reduction)
    if at == 0 and g.opset >= 11:
        rows = g.op("Reshape", g.cast(index, dtypes.int64), g.ints([-1, 1]))
        return _onnx_combined(g, "ScatterND", self, rows, source, reduction)
    column = g.op("Reshape", index, g.ints([-1 if d == at else 1 for d in range(self.ndim)]))
    return _onnx_scatter(g, self, dim, g.op("Expand", column, g.op("Shape", source)), source, reduction)


@index_add.samples
def _() -> Iterator[Sample]:
    yield sample(make(3, 4), 0, _places(2, 0, 2), make(3, 4, seed=1))
    yield sample(make(3, 4), 1, _places(1, 1), make(3, 2, seed=1), alpha=2)
    yield sample(strided(make(3, 4)), 1, _places(3), make(3, 1, seed=1), note="strided")


@Precision(cpu="widest")
@array("aten::index_copy(Tensor self, int dim, Tensor index, Tensor source) -> Tensor", raises=True, inplace=True,
       kernel=Kernel(moves=True),
       grad=dict(self=lambda F, g, dim, index: F.index_fill(g, dim, index, 0),
                 source=lambda F, g, source_meta, dim, index:
                 F.reshape(F.index_select(g, dim, index), source_meta.shape)))  # fmt: skip
def index_copy(m: Numpy, self: Array, dim: int, index: Array, source: Array) -> Array:
    """self with the entries of dim that the vector `index` names replaced by those of source."""
    at = _row_check(m, "index_copy", self, dim, index)
    _same_dtype("index_copy", self, source)
    if source.size != 1 or source.ndim:
        _source_check("index_copy", self, at, index, source)
    out = m.array(self, order="C")
    if self.ndim == 0:
        return m.array(source).reshape(())
    if source.ndim == 0:
        out[(slice(None),) * at + (index.reshape(-1),)] = source
        return out
    m.moveaxis(out, at, 0)[index.reshape(-1)] = m.moveaxis(source, at, 0)
    return out


index_copy.type_rule = _like


@index_copy.onnx
def _(g: OnnxWriter, self: Value, dim: int, index: Value, source: Value) -> Value:
    if source.ndim < self.ndim:
        sizes = list(self.shape)
        sizes[wrap_dim(dim, self.ndim)] = math.prod(index.shape)
        source = g.op("Expand", source, g.ints(sizes))
    return _onnx_rows(g, self, dim, index, source)


@index_copy.samples
def _() -> Iterator[Sample]:
    yield sample(make(3, 4), 0, _places(2, 0), make(2, 4, seed=1))
    yield sample(make(3, 4), -1, _places(1), make(3, 1, seed=1))


# Before the declaration for numbers, which a 0-d tensor fits too, but without its history.
@composite("aten::index_fill.int_Tensor(Tensor self, int dim, Tensor index, Tensor value) -> Tensor", inplace=True)
def index_fill_tensor(F: Ops, self: Tensor, dim: int, index: Tensor, value: Tensor) -> Tensor:
    """self with `value`, a number or a 0-d tensor, in the entries of dim that the vector `index` names."""
    if value.ndim:
        raise ShapeError(f"index_fill: value should be a number or a 0-d tensor, got {value.ndim} dims")
    rows = F.index_fill(F.zeros_like(self, dtype=dtypes.bool_), dim, index, True)
    return F.masked_fill(self, rows, value)


@index_fill_tensor.samples
def _() -> Iterator[Sample]:
    yield sample(make(3, 4), 0, _places(2, 0), make(seed=1))
    yield sample(make(3, 4), -1, _places(1), make(seed=1, dtype="float64"), note="another dtype", grad=False)


@array("aten::index_fill.int_Scalar(Tensor self, int dim, Tensor index, Scalar value) -> Tensor", raises=True,
       inplace=True, kernel=Kernel(moves=True),
       grad=dict(self=lambda F, g, dim, index: F.index_fill(g, dim, index, 0)))  # fmt: skip
def index_fill(m: Numpy, self: Array, dim: int, index: Array, value: Number) -> Array:
    at = _row_check(m, "index_fill", self, dim, index)
    value = fitted(value, self.dtype)
    out = m.array(self, order="C")
    if self.ndim == 0:
        return m.full((), value, self.dtype)
    m.moveaxis(out, at, 0)[index.reshape(-1)] = value
    return out


index_fill.type_rule = _like


@index_fill.onnx
def _(g: OnnxWriter, self: Value, dim: int, index: Value, value: Number) -> Value:
    at = wrap_dim(dim, self.ndim)
    if self.ndim == 0:
        return g.op("Identity", g.constant(value, like=self))
    rows = g.op("Gather", self, g.op("Reshape", index, g.ints([-1])), axis=at)
    return _onnx_rows(g, self, dim, index, g.op("Expand", g.constant(value, like=self), g.op("Shape", rows)))


@index_fill.samples
def _() -> Iterator[Sample]:
    yield sample(make(3, 4), 0, _places(2, 0), 1.5)
    yield sample(make(3, 4), 1, _places(1), 2)


# -- indices as in t[...] ----------------------------------------------------------------------------------------


def _key(name: str, shape: Ints, indices: Sequence[Array | None]) -> tuple[Any, ...]:
    """The numpy index that `indices` (None: all of a dim) mean; bytes are masks."""
    key: list[Any] = []
    for index in indices:
        if index is not None and index.dtype.kind not in "biu":
            raise DTypeError(
                f"{name}: an index should be a tensor of integers or bools, got {index.dtype}; cast it first"
            )
        byte = index is not None and index.dtype.name == "uint8"
        key.append(slice(None) if index is None else index.astype(bool) if byte else index)
    used = sum(k.ndim if not isinstance(k, slice) and k.dtype.kind == "b" else 1 for k in key)
    if used > len(shape):
        raise DimError(f"{name}: {used} indices are too many for a tensor of sizes {list(shape)}")
    return tuple(key)


def _check_each(m: Numpy, name: str, shape: Ints, key: tuple[Any, ...]) -> None:
    """Integers within the dims that they stand for."""
    dim = 0
    for index in key:
        is_mask = not isinstance(index, slice) and index.dtype.kind == "b"
        if not is_mask and not isinstance(index, slice):
            _check_index(m, name, index, shape[dim], negative=True)
        dim += index.ndim if is_mask else 1


def _picked(m: Numpy, name: str, self: Array, indices: Sequence[Array | None]) -> Any:
    key = _key(name, self.shape, indices)
    if not m.refuses_indices:
        _check_each(m, name, self.shape, key)
    try:
        return self[key]
    except IndexError as error:
        raise DimError(f"{name}: {error}; the tensor has the sizes {list(self.shape)}") from None


@array("aten::index.Tensor(Tensor self, Tensor?[] indices) -> Tensor", raises=True, kernel=Kernel(moves=True),
       namespaces=(),
       measures=lambda indices: any(t is not None and t.dtype is dtypes.bool_ for t in indices),
       grad=dict(self=lambda F, g, self_meta, indices:
                 F.index_put(_zeros(F, g, self_meta), indices, g, True)))  # fmt: skip
def index(m: Numpy, self: Array, indices: Sequence[Array | None]) -> Array:
    """self[indices]: one tensor of integers or mask for each leading dim, None for all of a dim."""
    return m.array(_picked(m, "index", self, indices), order="C")


@index.parts
def _(F: Ops, self: Tensor, indices: Sequence[Tensor | None]) -> Tensor | None:
    """Integers that pick slices of dim 0, of which negative ones count from the end."""
    first = indices[0] if indices else None
    if first is None or _is_mask(first) or any(t is not None for t in indices[1:]) or not _are_rows(self):
        return None
    return _picked_rows(F, self, F.where(F.lt(first, 0), first + self.shape[0], first))


@index.type
def _(self: KnownType, indices: Sequence[KnownType | None]) -> TensorType:
    return TensorType(self.dtype, _indexed_shape(self.shape, indices), None, self.device)


def _indexed_shape(shape: Ints, indices: Sequence[KnownType | None]) -> tuple[Any, ...]:
    """The sizes of an indexed result: the indices' common shape stands where they stood together, else it comes first.

    How many elements a mask picks is not known, so its size is None.
    """
    spans, dim = [], 0
    for given in indices:
        width = given.ndim if given is not None and _is_mask(given) else 1
        spans.append((given, dim, dim + width))
        dim += width
    tensors = [(given, start, end) for given, start, end in spans if given is not None]
    masked = any(_is_mask(given) for given, _, _ in tensors)
    common = (None,) if masked else broadcast_shapes(*(given.sizes for given, _, _ in tensors))
    taken = {d for _, start, end in tensors for d in range(start, end)}
    rest = [s for d, s in enumerate(shape) if d not in taken]
    where = [i for i, (given, _, _) in enumerate(spans) if given is not None]
    together = where == list(range(where[0], where[-1] + 1)) if where else True
    before = sum(1 for d in range(tensors[0][1]) if d not in taken) if together and tensors else 0
    return (*rest[:before], *common, *rest[before:])


def _is_mask(given: Any) -> bool:
    return given.dtype in (dtypes.bool_, dtypes.uint8)


class _OnnxIndex:
    """ONNX's GatherND and ScatterND take the indexed dims first, with one row of integers per element."""

    def __init__(self, g: Any, self_: Any, indices: Any) -> None:
        self.g = g
        columns: dict[int, Any] = {}
        dim = 0
        for given in indices:
            if given is None:
                dim += 1
            elif _is_mask(given):
                found = g.op("NonZero", g.cast(given, dtypes.bool_))
                for row in range(given.ndim):
                    columns[dim] = g.op("Gather", found, g.constant(row, dtype="int64"), axis=0)
                    dim += 1
            else:
                columns[dim] = g.cast(given, dtypes.int64)
                dim += 1
        dims = list(columns)
        self.order = dims + [d for d in range(self_.ndim) if d not in dims]
        self.rank = max(c.ndim for c in columns.values())
        self.front = dims[0] if dims == list(range(dims[0], dims[-1] + 1)) else 0
        self.rows = self._rows([columns[d] for d in dims])

    def _rows(self, columns: list[Value]) -> Any:
        """The columns broadcast against each other and put side by side in a last dim."""
        g = self.g
        alike = all(surely_same(column.shape, columns[0].shape) for column in columns)
        last = [g.op("Unsqueeze", c, g.ints([-1])) for c in (columns if alike else self._broadcast(columns))]
        return last[0] if len(last) == 1 else g.op("Concat", *last, axis=-1)

    def _broadcast(self, columns: list[Value]) -> list[Value]:
        g, first = self.g, columns[0]
        for column in columns[1:]:
            first = g.op("Add", first, g.op("Mul", column, g.constant(0, dtype="int64")))
        shape = g.op("Shape", first)
        return [first, *(g.op("Expand", column, shape) for column in columns[1:])]

    def moved(self, x: Value) -> Value:
        """The tensor with its indexed dims first."""
        return x if self.order == sorted(self.order) else self.g.op("Transpose", x, perm=self.order)

    def moved_back(self, x: Value) -> Value:
        """The inverse of `moved`."""
        if self.order == sorted(self.order):
            return x
        return self.g.op("Transpose", x, perm=[self.order.index(d) for d in range(len(self.order))])

    def sizes_of_result(self, moved: Value) -> list[Any]:
        """The sizes of a result with the common dims first; `moved` has the indexed dims first."""
        *common, indexed = self.rows.shape
        return [*common, *moved.shape[indexed:]]

    def result_order(self, ndim: int) -> list[int]:
        """The permutation that brings a result with the common dims first into ATen's order."""
        common, rest = list(range(self.rank)), list(range(self.rank, ndim))
        return [*rest[: self.front], *common, *rest[self.front :]]


@index.onnx
def _(g: OnnxWriter, self: Value, indices: Sequence[Value | None]) -> Value:
    given = [i for i in indices if i is not None]
    if not given:
        return g.op("Identity", self)
    if len(given) == 1 and not _is_mask(given[0]):
        at = next(d for d, i in enumerate(indices) if i is not None)
        return g.op("Gather", self, g.cast(given[0], dtypes.int64), axis=at)
    plan = _OnnxIndex(g, self, indices)
    out = g.op("GatherND", plan.moved(self), plan.rows)
    order = plan.result_order(g.out.ndim)
    return out if order == sorted(order) else g.op("Transpose", out, perm=order)


def _mask(*rows: Any) -> Any:
    import numpy as np

    return np.array(rows, np.bool_)


@index.samples
def _() -> Iterator[Sample]:
    yield sample(make(3, 4), [_places(2, 0, 2)])
    yield sample(make(3, 4), [None, _places([1, -1], [0, 2])])
    yield sample(make(3, 4), [_places(2, 0), _places(1, -1)], note="pairs")
    yield sample(make(3, 4, 2), [_places([0], [1]), None, _places(1, 0)], note="apart, broadcast")
    yield sample(make(2, 3, 4), [None, _places(2, 0), _places(1, 3)], note="together")
    yield sample(make(3, 4), [_mask(True, False, True)], note="mask")
    yield sample(make(2, 3), [_mask([True, False, True], [False, True, True])], note="mask of two dims")
    yield sample(make(3, 4), [_places()], note="empty", onnx=False)
    yield sample(strided(make(3, 4)), [_places(2, 0, 2)], note="strided")


@Precision(cuda="widest")
@array("aten::index_put(Tensor self, Tensor?[] indices, Tensor values, bool accumulate=False) -> Tensor", raises=True,
       inplace=True,
       grad=dict(self=lambda F, g, indices, values_meta, accumulate:
                 g if accumulate else F.index_put(g, indices, _zeros(F, g, values_meta)),
                 values=lambda F, g, indices, values_meta:
                 sum_to(F, F.index(g, indices), values_meta.shape)))  # fmt: skip
def index_put(m: Numpy, self: Array, indices: Sequence[Array | None], values: Array, accumulate: bool) -> Array:
    """self with `values`, broadcast, at self[indices]; if `accumulate`, added to what is there."""
    if values.dtype != self.dtype:
        raise DTypeError(f"index_put: expects one dtype, got {self.dtype} and {values.dtype}; cast one of them")
    if not indices:
        raise UsageError("index_put: expects at least one index; use copy_ to write everywhere")
    out = m.array(self, order="C")
    places = _picked(m, "index_put", m.arange(out.size).reshape(out.shape), indices)
    source = _spread(m, values, places.shape)
    if accumulate:
        m.add.at(out.reshape(-1), places.reshape(-1), source.reshape(-1))
    else:
        out.reshape(-1)[places] = source
    return out


def _spread(m: Numpy, values: Array, shape: Ints) -> Any:
    while values.ndim > len(shape) and values.shape[0] == 1:
        values = values[0]
    try:
        return m.broadcast_to(values, shape)
    except ValueError:
        raise ShapeError(
            f"index_put: values of sizes {list(values.shape)} do not broadcast to the {list(shape)} that are indexed"
        ) from None


@index_put.type
def _(self: KnownType, indices: Sequence[KnownType | None], values: KnownType, accumulate: bool) -> TensorType:
    return _like(self)


@index_put.parts
def _(F: Ops, self: Tensor, indices: Sequence[Tensor | None], values: Tensor, accumulate: bool) -> Tensor | None:
    given = [(at, index) for at, index in enumerate(indices) if index is not None]
    first, count = given[0][0] if given else 0, len(given)
    together = [at for at, _ in given] == list(range(first, first + count))
    if not accumulate or not given or not together or not _has_row_sums(self, values, *(i for _, i in given)):
        return None
    before, sizes, after = self.shape[:first], self.shape[first : first + count], self.shape[first + count :]
    common = broadcast_shapes(*(index.shape for _, index in given))
    if values.ndim > len(before) + len(common) + len(after) or math.prod(common) == 0:
        return None
    place = _joint_places(F, [index for _, index in given], sizes)
    rows = F.reshape(F.expand(values, [*before, *common, *after]), [*before, math.prod(common), *after])
    added = _with_row_sums(F, F.reshape(self, [*before, math.prod(sizes), *after]), first, place, rows)
    return F.reshape(added, list(self.shape))


def _joint_places(F: Ops, indices: Sequence[Tensor], sizes: Ints) -> Tensor:
    """Places in several dims, which may count from the end, as places in all of them; -1 where one is out of range."""
    place: Any = 0
    for index, size in zip(indices, sizes, strict=True):
        index = F.where(index < 0, index + size, index)
        inside = F.logical_and(index >= 0, index < size)
        before = place * size
        inside = inside if type(before) is int else F.logical_and(inside, before >= 0)
        place = F.where(inside, index + before, -1)
    return F.reshape(place, [-1])


def _onnx_only_mask(g: OnnxWriter, self: Value, indices: Sequence[Value | None]) -> Value | None:
    """The mask among indices, with dims that broadcast against `self`, where it is the only one of them."""
    given = [(at, index) for at, index in enumerate(indices) if index is not None]
    if len(given) != 1 or not _is_mask(given[0][1]):
        return None
    at, mask = given[0]
    behind = range(mask.ndim, self.ndim - at)
    mask = g.cast(mask, dtypes.bool_)
    return g.op("Unsqueeze", mask, g.ints(list(behind))) if behind else mask


@index_put.onnx
def _(g: OnnxWriter, self: Value, indices: Sequence[Value | None], values: Value, accumulate: bool) -> Value:
    if accumulate and g.opset < 16:
        raise g.unsupported("ScatterND adds only", since=16)
    if not accumulate and [size for size in values.shape if type(size) is not int or size != 1] == []:
        mask = _onnx_only_mask(g, self, indices)
        if mask is not None:
            return g.op("Where", mask, g.op("Reshape", values, g.ints([])) if values.ndim else values, self)
    at = _OnnxIndex(g, self, indices)
    moved = at.moved(self)
    sizes = at.sizes_of_result(moved)
    order = at.result_order(len(sizes))
    source = onnx_spread(g, values, tuple(sizes[d] for d in order))  # in ATen's order; the common dims go to the front
    if order != sorted(order):
        source = g.op("Transpose", source, perm=[order.index(d) for d in range(len(order))])
    reduction = "add" if accumulate else "none"
    return at.moved_back(_onnx_combined(g, "ScatterND", moved, at.rows, source, reduction))


@index_put.samples
def _() -> Iterator[Sample]:
    yield sample(make(3, 4), [_places(2, 0)], make(2, 4, seed=1))
    yield sample(make(3, 4), [_places(2, 0, 2)], make(4, seed=1), True, note="accumulate, broadcast")
    yield sample(make(3, 4), [None, _places(1, -1)], make(3, 2, seed=1))
    yield sample(make(3, 4), [_places(2, 0), _places(1, 3)], make(2, seed=1))
    yield sample(make(3, 4, 2), [_places(0, 1), None, _places(1, 0)], make(2, 4, seed=1), note="apart")
    yield sample(make(2, 3), [_mask([True, False, True], [False, True, True])], make(seed=1), note="mask")
    yield sample(strided(make(3, 4)), [_places(2, 0)], make(1, 1, seed=1), note="strided")


# -- masks -------------------------------------------------------------------------------------------------------


@array("aten::masked_select(Tensor self, Tensor mask) -> Tensor", kernel=Kernel(moves=True), measures=True,
       grad=dict(self=lambda F, g, self_meta, mask: _unselected(F, g, self_meta, mask)))  # fmt: skip
def masked_select(m: Numpy, self: Array, mask: Array) -> Array:
    """A vector of the elements where mask is true, in row-major order; self and mask broadcast."""
    if mask.dtype != bool:
        raise DTypeError(f"masked_select: the mask should be a tensor of bools, got {mask.dtype}; use mask.bool()")
    shape = broadcast_shapes(self.shape, mask.shape)
    return m.broadcast_to(self, shape)[m.broadcast_to(mask, shape)]


def _unselected(F: Ops, g: Tensor, meta: Meta, mask: Tensor) -> Tensor:
    shape = broadcast_shapes(tuple(meta.shape), tuple(mask.shape))
    whole = F.masked_scatter(F.zeros(shape, dtype=g.dtype, device=g.device), mask, g)
    return sum_to(F, whole, meta.shape)


@masked_select.type
def _(self: KnownType, mask: KnownType) -> TensorType:
    broadcast_shapes(self.sizes or (), mask.sizes or ())
    return TensorType(self.dtype, (None,), None, self.device)


@masked_select.onnx
def _(g: OnnxWriter, self: Value, mask: Value) -> Value:
    if not surely_same(self.shape, mask.shape):
        zero = g.op("Expand", g.constant(False, dtype="bool"), g.op("Shape", self))
        mask = g.op("Or", mask, zero)
        self = g.op("Expand", self, g.op("Shape", mask))
    flat = g.ints([-1])
    return g.op("Compress", g.op("Reshape", self, flat), g.op("Reshape", mask, flat), axis=0)


@masked_select.samples
def _() -> Iterator[Sample]:
    yield sample(make(2, 3), _mask([True, False, True], [False, True, True]))
    yield sample(make(2, 3), _mask(True, False, True), note="broadcast")
    yield sample(make(3), _mask([True, False, True], [False, True, True]), note="broadcast self")
    yield sample(strided(make(2, 3)), _mask([True, False, True], [False, True, True]), note="strided")


@array("aten::masked_scatter(Tensor self, Tensor mask, Tensor source) -> Tensor", raises=True, inplace=True,
       kernel=Kernel(moves=True),
       grad=dict(self=lambda F, g, self_meta, mask: sum_to(F, F.masked_fill(g, mask, 0), self_meta.shape),
                 source=lambda F, g, mask, source_meta: _used_first(F, g, mask, source_meta)))  # fmt: skip
def masked_scatter(m: Numpy, self: Array, mask: Array, source: Array) -> Array:
    """self with the elements where mask is true replaced by the first ones of source, in row-major order."""
    if mask.dtype != bool:
        raise DTypeError(f"masked_scatter: the mask should be a tensor of bools, got {mask.dtype}; use mask.bool()")
    shape = broadcast_shapes(self.shape, mask.shape)
    out = m.array(m.broadcast_to(self, shape), order="C")
    where = m.broadcast_to(mask, shape)
    count = int(where.sum())
    if count > source.size:
        raise ShapeError(
            f"masked_scatter: the mask is true at {count} places, but the source has {source.size} elements"
        )
    out[where] = source.reshape(-1)[:count]
    return out


def _used_first(F: Ops, g: Tensor, mask: Tensor, meta: Meta) -> Tensor:
    """Only as many of the source's elements were used as the mask has places."""
    used = F.masked_select(g, mask)
    missing = math.prod(meta.shape) - used.shape[0]
    return F.reshape(F.constant_pad_nd(used, [0, missing]) if missing else used, meta.shape)


@masked_scatter.type
def _(self: KnownType, mask: KnownType, source: KnownType) -> TensorType:
    return TensorType(self.dtype, broadcast_shapes(self.sizes or (), mask.sizes or ()), None, self.device)


@masked_scatter.onnx
def _(g: OnnxWriter, self: Value, mask: Value, source: Value) -> Value:
    whole = self if surely_same(self.shape, g.out.shape) else g.op("Expand", self, g.op("Shape", mask))
    rows = g.op("Transpose", g.op("NonZero", g.op("Expand", mask, g.op("Shape", whole))), perm=[1, 0])
    count = g.op("Slice", g.op("Shape", rows), g.ints([0]), g.ints([1]))
    used = g.op("Slice", g.op("Reshape", source, g.ints([-1])), g.ints([0]), count)
    return g.op("ScatterND", whole, rows, used)


@masked_scatter.samples
def _() -> Iterator[Sample]:
    yield sample(make(2, 3), _mask([True, False, True], [False, True, True]), make(4, seed=1))
    yield sample(make(2, 3), _mask(True, False, True), make(3, 2, seed=1), note="broadcast, partly used")
    yield sample(make(3), _mask([True, False, True], [False, True, True]), make(4, seed=1), note="broadcast self")


@array("aten::nonzero(Tensor self) -> Tensor", measures=True, grad=_INTEGERS, aliases=("argwhere",))
def nonzero(m: Numpy, self: Array) -> Array:
    """The places of the elements that are not zero, [count, dims]: a row of indices for each."""
    if self.ndim == 0:
        return m.zeros((int(bool(self)), 0), m.int64)
    return m.array(m.argwhere(self), dtype=m.int64, order="C")


@nonzero.type
def _(self: KnownType) -> TensorType:
    return TensorType(dtypes.int64, (None, self.ndim), None, self.device)


@nonzero.onnx
def _(g: OnnxWriter, self: Value) -> Value:
    if self.ndim == 0:  # one row, of no places, or none
        rows = g.op("Transpose", g.op("NonZero", g.op("Reshape", self, g.ints([1]))), perm=[1, 0])
        return g.op("Slice", rows, g.ints([0]), g.ints([0]), g.ints([1]))
    return g.op("Transpose", g.op("NonZero", self), perm=[1, 0])


@nonzero.samples
def _() -> Iterator[Sample]:
    yield sample(make(2, 3, low=-1, high=1, dtype="int64"))
    yield sample(make(4, dtype="bool"))
    yield sample(make(), note="0-d", onnx=False)
    yield sample(make(0, 3), note="empty", onnx=False)


# -- embeddings --------------------------------------------------------------------------------------------------


@array("aten::embedding(Tensor weight, Tensor indices, int padding_idx=-1, bool scale_grad_by_freq=False, "
       "bool sparse=False) -> Tensor", raises=True, kernel=Kernel("gather", moves=True), namespaces=("jit",),
       grad=dict(weight=lambda F, g, weight_meta, indices, padding_idx, scale_grad_by_freq:
                 F.embedding_dense_backward(g, indices, weight_meta.shape[0], padding_idx,
                                            scale_grad_by_freq)))  # fmt: skip
def embedding(
    m: Numpy, weight: Array, indices: Array, padding_idx: int, scale_grad_by_freq: bool, sparse: bool
) -> Array:
    """The rows of `weight`, [entries, width], that indices name: [*indices.shape, width]."""
    if weight.ndim != 2:
        raise ShapeError(f"embedding: the weight should have 2 dims, got the sizes {list(weight.shape)}")
    _check_index(m, "embedding", indices, weight.shape[0])
    return m.take(weight, indices, axis=0)


@embedding.type
def _(weight: KnownType, indices: KnownType, padding_idx: int, scale_grad_by_freq: bool, sparse: bool) -> TensorType:
    return TensorType(weight.dtype, (*indices.shape, weight.shape[1]), None, weight.device)


@embedding.onnx
def _(g: OnnxWriter, weight: Value, indices: Value, padding_idx: int, scale_grad_by_freq: bool, sparse: bool) -> Value:
    return g.op("Gather", weight, indices, axis=0)


@embedding.samples
def _() -> Iterator[Sample]:
    yield sample(make(5, 3), _places([0, 4], [2, 2]))
    yield sample(make(5, 3), _places(1, 1, 3), 1, note="padding", grad=False)  # its gradient is 0 by definition
    yield sample(make(5, 3), _places(1, 1, 3), -1, True, note="by frequency", grad=False)  # scaled by definition
    yield sample(make(5, 3), _places().reshape(0, 2), note="empty", onnx=False)


@array("aten::embedding_dense_backward(Tensor grad_output, Tensor indices, int num_weights, int padding_idx, "
       "bool scale_grad_by_freq) -> Tensor", raises=True, namespaces=(), kernel=Kernel(step="sums of rows"),
       grad=dict(grad_output=lambda F, g, indices, num_weights, padding_idx, scale_grad_by_freq:
                 F.embedding(_row_factors(F, g, indices, num_weights, padding_idx, scale_grad_by_freq),
                             indices)))  # fmt: skip
def embedding_dense_backward(
    m: Numpy, grad_output: Array, indices: Array, num_weights: int, padding_idx: int, scale_grad_by_freq: bool
) -> Array:
    """The gradient of embedding's weight, [num_weights, width]: each row sums those that looked it up."""
    out = m.zeros((num_weights, grad_output.shape[-1]), grad_output.dtype)
    rows = indices.reshape(-1)
    _add_rows(m, out, rows, grad_output.reshape(rows.size, grad_output.shape[-1]))
    if scale_grad_by_freq:
        out /= m.maximum(m.bincount(rows, minlength=num_weights), 1)[:, None].astype(out.dtype)
    if 0 <= padding_idx < num_weights:
        out[padding_idx] = 0
    return out


def _row_factors(F: Ops, g: Tensor, indices: Tensor, num_weights: int, padding_idx: int, by_frequency: bool) -> Tensor:
    """`g`, row by row, as the backward weighs the rows: nothing for padding, and by how often each was looked up."""
    if by_frequency:
        rows = F.reshape(indices, [-1])
        ones = F.ones(rows.shape, dtype=g.dtype, device=g.device)
        counts = F.index_add(F.zeros([num_weights], dtype=g.dtype, device=g.device), 0, rows, ones)
        g = g / F.unsqueeze(F.clamp(counts, min=1), 1)
    if 0 <= padding_idx < num_weights:
        g = F.select_scatter(g, F.zeros_like(F.select(g, 0, padding_idx)), 0, padding_idx)
    return g


@embedding_dense_backward.parts
def _(
    F: Ops, grad_output: Tensor, indices: Tensor, num_weights: int, padding_idx: int, scale_grad_by_freq: bool
) -> Tensor | None:
    if scale_grad_by_freq or not grad_output.dtype.is_half or grad_output.device != "cpu":
        return None
    wide = F._to_copy(grad_output, dtype=dtypes.float32)
    sums = F.embedding_dense_backward(wide, indices, num_weights, padding_idx, False)
    return F._to_copy(sums, dtype=grad_output.dtype)


@embedding_dense_backward.type
def _(
    grad_output: KnownType, indices: KnownType, num_weights: int, padding_idx: int, scale_grad_by_freq: bool
) -> TensorType:
    return TensorType(grad_output.dtype, (num_weights, grad_output.shape[-1]), None, grad_output.device)


@embedding_dense_backward.onnx
def _(
    g: OnnxWriter, grad_output: Value, indices: Value, num_weights: int, padding_idx: int, scale_grad_by_freq: bool
) -> Value:
    width = grad_output.shape[-1]
    if scale_grad_by_freq or type(width) is not int:
        raise g.unsupported("it divides by counts, or the width is dynamic")
    rows = g.op("Reshape", indices, g.ints([-1, 1]))
    grads = g.op("Reshape", grad_output, g.ints([-1, width]))
    if 0 <= padding_idx < num_weights:
        kept = g.op("Not", g.op("Equal", rows, g.constant(padding_idx, like=rows)))
        grads = g.op("Mul", grads, g.cast(kept, grad_output.dtype))
    zeros = g.op("Expand", g.constant(0, like=grad_output), g.ints([num_weights, width]))
    return _onnx_rows(g, zeros, 0, rows, grads, "add")


@embedding_dense_backward.samples
def _() -> Iterator[Sample]:
    yield sample(make(2, 2, 3), _places([0, 4], [2, 2]), 5, -1, False)
    yield sample(make(3, 3), _places(1, 1, 3), 5, 1, False, note="padding")
    yield sample(make(3, 3), _places(1, 1, 3), 5, -1, True, note="by frequency", onnx=False)


@array(
    "aten::one_hot(Tensor self, int num_classes=-1) -> Tensor",
    raises=True,
    measures=lambda num_classes: num_classes == -1,
    namespaces=("nn.functional",),
    grad=_INTEGERS,
)
def one_hot(m: Numpy, self: Array, num_classes: int) -> Array:
    """A row of num_classes integers for each number in self, 1 at that place: [*self.shape, num_classes]."""
    if num_classes == -1:
        if self.size == 0:
            raise UsageError("one_hot: num_classes cannot be inferred from an empty tensor; give it")
        num_classes = int(self.max()) + 1
    _check_index(m, "one_hot", self, num_classes)
    rows = m.zeros((self.size, num_classes), m.int64)
    rows[m.arange(self.size), self.reshape(-1)] = 1
    return rows.reshape(*self.shape, num_classes)


@one_hot.type
def _(self: KnownType, num_classes: int) -> TensorType:
    shape = self.shape or ()
    return TensorType(dtypes.int64, (*shape, None if num_classes == -1 else num_classes), None, self.device)


@one_hot.onnx
def _(g: OnnxWriter, self: Value, num_classes: int) -> Value:
    depth = g.constant(num_classes, dtype="int64")
    if num_classes == -1:
        depth = g.op("Add", g.reduce("ReduceMax", self, None, False), g.constant(1, like=self))
    places = self if self.ndim else g.op("Reshape", self, g.ints([1]))
    chosen = g.op("OneHot", places, depth, g.constant([0, 1], dtype="int64"), axis=-1)
    return chosen if self.ndim else g.op("Squeeze", chosen, g.ints([0]))


@one_hot.samples
def _() -> Iterator[Sample]:
    yield sample(_places(0, 2, 1))
    yield sample(_places([0, 2], [1, 3]), 5)
    yield sample(_places().reshape(0, 2), 3, note="empty", onnx=False)


# -- order -------------------------------------------------------------------------------------------------------


def _ordered(m: Numpy, self: Array, dim: int, descending: bool) -> tuple[Any, int]:
    """(stable argsort along `dim`, dim); NaN counts as the largest."""
    require_order("sort", self.dtype)
    line = self.reshape(self.shape or (1,))
    at = wrap_dim(dim, line.ndim)
    if not descending:
        return m.argsort(line, axis=at, kind="stable"), at
    turned = m.argsort(m.flip(line, at), axis=at, kind="stable")
    return m.flip(line.shape[at] - 1 - turned, at), at


def _picked_order(m: Numpy, self: Array, order: Any, at: int, shape: Ints) -> Any:
    values = m.take_along_axis(self.reshape(self.shape or (1,)), order, at)
    return m.array(values.reshape(shape), order="C"), m.array(order.reshape(shape), dtype=m.int64, order="C")


@array("aten::sort(Tensor self, int dim=-1, bool descending=False) -> (Tensor values, Tensor indices)",
       grad=dict(self=lambda F, g, out, self_meta, dim:
                 F.scatter_add(_zeros(F, g, self_meta), dim, out[1], g)))  # fmt: skip
def sort(m: Numpy, self: Array, dim: int, descending: bool) -> Sequence[Array | None]:
    """(the elements sorted along dim, the index that each had); equal elements keep their order, NaN is the largest."""
    order, at = _ordered(m, self, dim, descending)
    return _picked_order(m, self, order, at, self.shape)


@sort.type
def _(self: KnownType, dim: int, descending: bool) -> Sequence[Type]:
    wrap_dim(dim, len(self.sizes or ()))
    return _like(self), TensorType(dtypes.int64, self.shape, None, self.device)


@sort.onnx
def _(g: OnnxWriter, self: Value, dim: int, descending: bool) -> Sequence[Value | None]:
    if self.ndim == 0:
        return g.op("Identity", self), g.constant(0, dtype="int64")
    at = wrap_dim(dim, self.ndim)
    size = g.op("Slice", g.op("Shape", self), g.ints([at]), g.ints([at + 1]))
    return g.op("TopK", self, size, axis=at, largest=int(descending), sorted=1, outputs=2)


@sort.samples
def _() -> Iterator[Sample]:
    yield sample(make(3, 4))
    yield sample(make(3, 4), 0, True)
    yield sample(make(6, low=-1, high=1, dtype="int64"), note="ties", grad=False)
    yield sample(make(), note="0-d")
    yield sample(make(0, 3), 0, note="empty", onnx=False)
    yield sample(strided(make(3, 4)), note="strided")


@composite("aten::sort.stable(Tensor self, *, bool? stable, int dim=-1, bool descending=False) "
           "-> (Tensor values, Tensor indices)")  # fmt: skip
def sort_stable(F: Ops, self: Tensor, stable: bool | None, dim: int, descending: bool) -> Sequence[Tensor]:
    return F.sort(self, dim, descending)


@sort_stable.samples
def _() -> Iterator[Sample]:
    yield sample(make(3, 4), stable=True, dim=0)


@composite("aten::argsort.stable(Tensor self, *, bool stable, int dim=-1, bool descending=False) -> Tensor")
def argsort_stable(F: Ops, self: Tensor, stable: bool, dim: int, descending: bool) -> Tensor:
    """The indices that sort self along dim; those of equal elements keep their order."""
    return F.sort(self, dim, descending)[1]


@argsort_stable.samples
def _() -> Iterator[Sample]:
    yield sample(make(3, 4), stable=True, dim=0, grad=False)


@composite("aten::argsort(Tensor self, int dim=-1, bool descending=False) -> Tensor")
def argsort(F: Ops, self: Tensor, dim: int, descending: bool) -> Tensor:
    return F.sort(self, dim, descending)[1]


@argsort.samples
def _() -> Iterator[Sample]:
    yield sample(make(3, 4), 0, grad=False)


@array("aten::topk(Tensor self, int k, int dim=-1, bool largest=True, bool sorted=True) "
       "-> (Tensor values, Tensor indices)",
       grad=dict(self=lambda F, g, out, self_meta, dim:
                 F.scatter_add(_zeros(F, g, self_meta), dim, out[1], g)))  # fmt: skip
def topk(m: Numpy, self: Array, k: int, dim: int, largest: bool, sorted: bool) -> Sequence[Array | None]:
    """(the k largest elements along dim, or the smallest, in order; the index of each)."""
    shape = _topk_shape(self.shape, k, dim)
    order = _first_of_order(m, self, k, dim, largest) if _is_worth_choosing(self, k, dim) else None
    if order is None:
        order, at = _ordered(m, self, dim, largest)
        return _picked_order(m, self, m.take(order, m.arange(k), axis=at), at, shape)
    return _picked_order(m, self, order, wrap_dim(dim, self.ndim), shape)


def _is_worth_choosing(self: Array, k: int, dim: int) -> bool:
    """Whether it pays to look for the k first elements before these are sorted; measured with rows of 64 to 100,000."""
    require_order("topk", self.dtype)
    size = self.shape[wrap_dim(dim, self.ndim)] if self.ndim else 1
    return self.dtype.kind in "fiu" and size >= 64 and 0 < k <= size // 4


def _first_of_order(m: Numpy, self: Array, k: int, dim: int, largest: bool) -> Array | None:
    """The first k entries of `_ordered`, without sorting the rest; None if others are equal to the k-th, as it does not
    say then which of these come first."""
    at = wrap_dim(dim, self.ndim)
    size = self.shape[at]
    rows = m.ascontiguousarray(m.moveaxis(self, at, -1))
    edge = size - k if largest else k - 1
    chosen = m.argpartition(rows, edge, axis=-1)
    last = m.take_along_axis(rows, chosen[..., edge : edge + 1], -1)
    if m.count_nonzero(rows == last) != last.size:  # NaN is equal to nothing
        return None
    chosen = m.sort(chosen[..., edge:] if largest else chosen[..., :k], axis=-1)
    order, _ = _ordered(m, m.take_along_axis(rows, chosen, -1), -1, largest)
    return m.moveaxis(m.take_along_axis(chosen, order, -1), -1, at)


def _topk_shape(shape: Ints, k: int, dim: int) -> tuple[int, ...]:
    at = wrap_dim(dim, len(shape))
    size = shape[at] if shape else 1
    if not 0 <= k <= size:
        raise UsageError(f"topk: k = {k} is out of range for a dim of size {size}")
    return (*shape[:at], k, *shape[at + 1 :]) if shape else ()


@topk.type
def _(self: KnownType, k: int, dim: int, largest: bool, sorted: bool) -> Sequence[Type]:
    sizes = _topk_shape(self.sizes or (), k, dim)
    types = [TensorType(d, sizes, None, self.device) for d in (self.dtype, dtypes.int64)]
    return types


@topk.onnx
def _(g: OnnxWriter, self: Value, k: int, dim: int, largest: bool, sorted: bool) -> Sequence[Value | None]:
    if self.ndim == 0:
        return g.op("Identity", self), g.constant(0, dtype="int64")
    at = wrap_dim(dim, self.ndim)
    return g.op("TopK", self, g.ints([k]), axis=at, largest=int(largest), sorted=int(sorted), outputs=2)


@topk.samples
def _() -> Iterator[Sample]:
    yield sample(make(3, 5), 2)
    yield sample(make(3, 5), 2, 0, False)
    yield sample(make(), 1, note="0-d")
    yield sample(strided(make(3, 5)), 3, note="strided")


# -- triangles ---------------------------------------------------------------------------------------------------


def _check_matrix(name: str, ndim: int) -> None:
    if ndim < 2:
        raise ShapeError(f"{name}: expects at least 2 dims, got {ndim}")


@array("aten::tril(Tensor self, int diagonal=0) -> Tensor", kernel=Kernel(moves=True), inplace=True,
       grad=dict(self=lambda F, g, diagonal: F.tril(g, diagonal)))  # fmt: skip
def tril(m: Numpy, self: Array, diagonal: int) -> Array:
    """The elements on and below a diagonal of the last two dims, zeros above it."""
    _check_matrix("tril", self.ndim)
    return m.array(m.tril(self, diagonal), order="C")


@tril.type
def _(self: KnownType, diagonal: int) -> TensorType:
    _check_matrix("tril", self.ndim or 0)
    return _like(self)


@tril.onnx
def _(g: OnnxWriter, self: Value, diagonal: int) -> Value:
    return g.op("Trilu", self, g.constant(diagonal, dtype="int64"), upper=0)


@tril.samples
def _() -> Iterator[Sample]:
    yield sample(make(3, 4))
    yield sample(make(2, 3, 3), 1)
    yield sample(make(3, 3), -1)
    yield sample(make(0, 3), note="empty", onnx=False)
    yield sample(strided(make(3, 4)), note="strided")


@array("aten::triu(Tensor self, int diagonal=0) -> Tensor", kernel=Kernel(moves=True), inplace=True,
       grad=dict(self=lambda F, g, diagonal: F.triu(g, diagonal)))  # fmt: skip
def triu(m: Numpy, self: Array, diagonal: int) -> Array:
    """The elements on and above a diagonal of the last two dims, zeros below it."""
    _check_matrix("triu", self.ndim)
    return m.array(m.triu(self, diagonal), order="C")


@triu.type
def _(self: KnownType, diagonal: int) -> TensorType:
    _check_matrix("triu", self.ndim or 0)
    return _like(self)


@triu.onnx
def _(g: OnnxWriter, self: Value, diagonal: int) -> Value:
    return g.op("Trilu", self, g.constant(diagonal, dtype="int64"), upper=1)


@triu.samples
def _() -> Iterator[Sample]:
    yield sample(make(3, 4))
    yield sample(make(2, 3, 3), 1)
    yield sample(strided(make(3, 4)), -1, note="strided")
