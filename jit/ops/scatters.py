"""The inverses of views: a copy of a tensor with the part that a view would show replaced, and the views' gradients.

`x_scatter(self, src, ...)` is what `x(self, ...).copy_(src)` leaves in `self`, said without a mutation; recording uses
it to make in-place operations on views functional. `x_backward(g, sizes, ...)` puts `g` where the view looked and zeros
elsewhere. Every derivative here is the view or another of these, so any order of them exists.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from jit.ir.errors import ShapeError
from jit.ir.geometry import Geometry, wrap_dim
from jit.ir.kernel import Kernel
from jit.ir.op import absent, array
from jit.ir.samples import Sample, make, sample, strided
from jit.ir.types import TensorType, contiguous_strides

from .common import greatest, is_fixed
from .views import as_strided as as_strided_view
from .views import diagonal as diagonal_view
from .views import diagonal_length, select, slice_, slice_range

if TYPE_CHECKING:
    from .protocols import Array, Ints, KnownType, Meta, Numpy, OnnxWriter, Ops, Tensor, Value


def _check_source(name: str, part: Geometry, source: Ints) -> None:
    if tuple(source) != part.sizes:
        raise ShapeError(f"{name}: src should have the sizes {list(part.sizes)}, got {list(source)}")


def _same(self: TensorType) -> TensorType:
    return TensorType(self.dtype, self.shape, None, self.device)


def _of_sizes(g: TensorType, sizes: Ints) -> TensorType:
    return TensorType(g.dtype, tuple(sizes), None, g.device)


def _zeros(F: Ops, g: Tensor, meta: Meta) -> Tensor:
    return F.zeros(meta.shape, dtype=g.dtype, device=g.device)


def _onnx_zeros(g: OnnxWriter, grad: Value, sizes: Ints) -> Value:
    return g.op("Expand", g.constant(0, like=grad), g.ints(list(sizes)))


# -- select ------------------------------------------------------------------------------------------------------


@array("aten::select_scatter(Tensor self, Tensor src, int dim, int index) -> Tensor", kernel=Kernel(moves=True),
       offsets=("index",),
       grad=dict(self=lambda F, g, src_meta, dim, index: F.select_scatter(g, _zeros(F, g, src_meta), dim, index),
                 src=lambda F, g, dim, index: F.select(g, dim, index)))  # fmt: skip
def select_scatter(m: Numpy, self: Array, src: Array, dim: int, index: int) -> Array:
    """self with the entry `index` of dim replaced by src."""
    _check_source("select_scatter", select.body(Geometry.contiguous(self.shape), dim, index), src.shape)
    out = m.array(self, order="C")
    m.moveaxis(out, dim, 0)[index] = src
    return out


@select_scatter.type
def _(self: KnownType, src: KnownType, dim: int, index: int) -> TensorType:
    _check_source("select_scatter", select.body(Geometry.contiguous(self.shape), dim, index), src.shape)
    return _same(self)


@select_scatter.onnx
def _(g: OnnxWriter, self: Value, src: Value, dim: int, index: int) -> Value:
    at = wrap_dim(dim, self.ndim)
    return _onnx_scatter(g, self, g.op("Unsqueeze", src, g.ints([at])), g.ints([index]), at)


def _onnx_scatter(g: OnnxWriter, base: Value, source: Value, entries: Value, dim: int) -> Value:
    """`base` with the `entries` of `dim` replaced by those of `source`, which has as many of them."""
    if dim == 0 and base.ndim > 0 and g.opset >= 11:
        return g.op("ScatterND", base, g.op("Reshape", entries, g.ints([-1, 1])), source)
    column = g.op("Reshape", entries, g.ints([-1 if d == dim else 1 for d in range(base.ndim)]))
    places = g.op("Expand", column, g.op("Shape", source))
    return g.op("ScatterElements", base, places, source, axis=dim)


@select_scatter.samples
def _() -> Iterator[Sample]:
    yield sample(make(3, 4), make(4, seed=1), 0, 1)
    yield sample(make(3, 4), make(3, seed=1), -1, -2)
    yield sample(make(3), make(seed=1), 0, 2, note="0-d source")
    yield sample(strided(make(3, 4)), make(4, seed=1), 0, 0, note="strided")
    whole = make(4, low=-9, high=9, dtype="int64")
    yield sample(whole, make(low=-9, high=9, dtype="int64"), 0, 1, note="integer", grad=False)


def _entry(input_sizes: Ints, dim: int, index: int) -> tuple[int, int, int, int, bool]:
    """The entry of a dim that `select` shows, as `Kernel.placed` describes it."""
    at = wrap_dim(dim, len(input_sizes))
    return at, index % input_sizes[at], 1, 1, False


def _entries(
    input_sizes: Ints, dim: int, start: int | None, end: int | None, step: int
) -> tuple[int, int, int, int, bool]:
    """The entries of a dim that `slice` shows, as `Kernel.placed` describes them."""
    at = wrap_dim(dim, len(input_sizes))
    return at, *slice_range(start, end, step, input_sizes[at]), step, True


@array("aten::select_backward(Tensor grad_output, int[] input_sizes, int dim, int index) -> Tensor", namespaces=(),
       kernel=Kernel(step="placement", moves=True, placed=_entry), offsets=("index",),
       grad=dict(grad_output=lambda F, g, dim, index: F.select(g, dim, index)))  # fmt: skip
def select_backward(m: Numpy, grad_output: Array, input_sizes: Ints, dim: int, index: int) -> Array:
    """Zeros of sizes input_sizes with grad_output at the entry `index` of dim."""
    out = m.zeros(tuple(input_sizes), grad_output.dtype)
    m.moveaxis(out, dim, 0)[index] = grad_output
    return out


@select_backward.parts
def _(F: Ops, grad_output: Tensor, input_sizes: Ints, dim: int, index: int) -> Tensor | None:
    """The only entry of a dim: nothing is left to be zero."""
    at = wrap_dim(dim, len(input_sizes))
    is_all = type(input_sizes[at]) is int and input_sizes[at] == 1
    return F.clone(F.unsqueeze(grad_output, at)) if is_all else None


@select_backward.type
def _(grad_output: KnownType, input_sizes: Ints, dim: int, index: int) -> TensorType:
    return _of_sizes(grad_output, input_sizes)


@select_backward.onnx
def _(g: OnnxWriter, grad_output: Value, input_sizes: Ints, dim: int, index: int) -> Value:
    at = wrap_dim(dim, len(input_sizes))
    zeros = _onnx_zeros(g, grad_output, input_sizes)
    return _onnx_scatter(g, zeros, g.op("Unsqueeze", grad_output, g.ints([at])), g.ints([index]), at)


@select_backward.samples
def _() -> Iterator[Sample]:
    yield sample(make(4), [3, 4], 0, 1)
    yield sample(make(3), [3, 4], -1, -2)
    yield sample(make(), [3], 0, 2, note="0-d")


# -- slice -------------------------------------------------------------------------------------------------------


def _slot(dim: int, ndim: int, start: int | None, end: int | None, step: int, size: int) -> tuple[Any, ...]:
    """The numpy index of a slice."""
    first, count = slice_range(start, end, step, size)
    return (slice(None),) * wrap_dim(dim, ndim) + (slice(first, first + count * step, step),)


@array("aten::slice_scatter(Tensor self, Tensor src, int dim=0, int? start=None, int? end=None, int step=1) -> Tensor",
       kernel=Kernel(moves=True),
       grad=dict(self=lambda F, g, src_meta, dim, start, end, step:
                 F.slice_scatter(g, _zeros(F, g, src_meta), dim, start, end, step),
                 src=lambda F, g, dim, start, end, step: F.slice(g, dim, start, end, step)))  # fmt: skip
def slice_scatter(m: Numpy, self: Array, src: Array, dim: int, start: int | None, end: int | None, step: int) -> Array:
    """self with every step-th entry of dim from start up to end replaced by src."""
    _check_source("slice_scatter", slice_.body(Geometry.contiguous(self.shape), dim, start, end, step), src.shape)
    out = m.array(self, order="C")
    out[_slot(dim, self.ndim, start, end, step, self.shape[dim])] = src
    return out


@slice_scatter.type
def _(self: KnownType, src: KnownType, dim: int, start: int | None, end: int | None, step: int) -> TensorType:
    _check_source("slice_scatter", slice_.body(Geometry.contiguous(self.shape), dim, start, end, step), src.shape)
    return _same(self)


@slice_scatter.onnx
def _(g: OnnxWriter, self: Value, src: Value, dim: int, start: int | None, end: int | None, step: int) -> Value:
    at = wrap_dim(dim, self.ndim)
    known = is_fixed(self.shape[at], src.shape[at], start, end)
    if known and at > 0 and step == 1 and src.shape[at] > 0 and g.runs("TensorScatter", self.dtype):
        first = slice_range(start, end, step, self.shape[at])[0]
        places = g.op("Expand", g.constant([first], dtype="int64"), g.ints(self.shape[:1]))
        return g.op("TensorScatter", self, src, places, axis=at)
    return _onnx_scatter(g, self, src, _onnx_entries(g, self, at, start, end, step), at)


def _onnx_entries(g: OnnxWriter, base: Value, dim: int, start: int | None, end: int | None, step: int) -> Value:
    """The indices that a slice of `dim` takes: that slice of 0, 1, 2, ..."""
    size = base.shape[dim]
    if type(size) is int:
        first, count = slice_range(start, end, step, size)
        return g.ints([first + i * step for i in range(count)])
    length = g.op("Gather", g.op("Shape", base), g.constant(dim, dtype="int64"), axis=0)
    every = g.op("Range", g.constant(0, dtype="int64"), length, g.constant(1, dtype="int64"))
    bounds = g.ints([start or 0]), g.ints([2**63 - 1 if end is None else end])
    return g.op("Slice", every, *bounds, g.ints([0]), g.ints([step]))


@slice_scatter.samples
def _() -> Iterator[Sample]:
    yield sample(make(5, 2), make(2, 2, seed=1), 0, 1, 3)
    yield sample(make(2, 5), make(2, 3, seed=1), -1, None, None, 2)
    yield sample(make(2, 5), make(2, 2, seed=1), 1, -3, -1)
    yield sample(make(2, 5), make(2, 0), 1, 4, 2, note="empty source", onnx=False)
    yield sample(strided(make(5, 2)), make(2, 2, seed=1), 0, 3, note="strided")


@array("aten::slice_backward(Tensor grad_output, int[] input_sizes, int dim, int? start, int? end, int step) -> Tensor",
       kernel=Kernel(step="placement", moves=True, placed=_entries),
       namespaces=(),
       grad=dict(grad_output=lambda F, g, dim, start, end, step: F.slice(g, dim, start, end, step)))  # fmt: skip
def slice_backward(
    m: Numpy, grad_output: Array, input_sizes: Ints, dim: int, start: int | None, end: int | None, step: int
) -> Array:
    """Zeros of sizes input_sizes with grad_output in the slice of dim."""
    out = m.zeros(tuple(input_sizes), grad_output.dtype)
    out[_slot(dim, out.ndim, start, end, step, input_sizes[dim])] = grad_output
    return out


@slice_backward.type
def _(grad_output: KnownType, input_sizes: Ints, dim: int, start: int | None, end: int | None, step: int) -> TensorType:
    return _of_sizes(grad_output, input_sizes)


@slice_backward.onnx
def _(
    g: OnnxWriter, grad_output: Value, input_sizes: Ints, dim: int, start: int | None, end: int | None, step: int
) -> Value:
    at = wrap_dim(dim, len(input_sizes))
    zeros = _onnx_zeros(g, grad_output, input_sizes)
    return _onnx_scatter(g, zeros, grad_output, _onnx_entries(g, zeros, at, start, end, step), at)


@slice_backward.samples
def _() -> Iterator[Sample]:
    yield sample(make(2, 2), [5, 2], 0, 1, 3, 1)
    yield sample(make(2, 3), [2, 5], -1, None, None, 2)
    yield sample(make(2, 0), [2, 5], 1, 4, 2, 1, note="empty", onnx=False)


# -- diagonal ----------------------------------------------------------------------------------------------------


def _write_diagonal(m: Numpy, out: Array, source: Array, offset: int, dim1: int, dim2: int) -> Any:
    last = m.moveaxis(out, (dim1, dim2), (-2, -1))
    rows, columns = last.shape[-2:]
    entries = m.arange(diagonal_length(rows, columns, offset))
    last[..., entries + max(-offset, 0), entries + max(offset, 0)] = source
    return out


@array("aten::diagonal_scatter(Tensor self, Tensor src, int offset=0, int dim1=0, int dim2=1) -> Tensor",
       kernel=Kernel(moves=True),
       grad=dict(self=lambda F, g, src_meta, offset, dim1, dim2:
                 F.diagonal_scatter(g, _zeros(F, g, src_meta), offset, dim1, dim2),
                 src=lambda F, g, offset, dim1, dim2: F.diagonal(g, offset, dim1, dim2)))  # fmt: skip
def diagonal_scatter(m: Numpy, self: Array, src: Array, offset: int, dim1: int, dim2: int) -> Array:
    """self with the diagonal of dims dim1 and dim2 replaced by src."""
    part = diagonal_view.body(Geometry.contiguous(self.shape), offset, dim1, dim2)
    _check_source("diagonal_scatter", part, src.shape)
    return _write_diagonal(m, m.array(self, order="C"), src, offset, dim1, dim2)


@diagonal_scatter.type
def _(self: KnownType, src: KnownType, offset: int, dim1: int, dim2: int) -> TensorType:
    _check_source(
        "diagonal_scatter", diagonal_view.body(Geometry.contiguous(self.shape), offset, dim1, dim2), src.shape
    )
    return _same(self)


@diagonal_scatter.onnx
def _(g: OnnxWriter, self: Value, src: Value, offset: int, dim1: int, dim2: int) -> Value:
    return _onnx_diagonal(g, self, src, offset, dim1, dim2)


def _onnx_diagonal(g: OnnxWriter, base: Value, source: Value, offset: int, dim1: int, dim2: int) -> Value:
    """Bring the two dims to the end, flatten them, and scatter into every (columns + 1)-th place."""
    a, b = wrap_dim(dim1, base.ndim), wrap_dim(dim2, base.ndim)
    order = [d for d in range(base.ndim) if d not in (a, b)] + [a, b]
    if not all(type(s) is int for s in base.shape):
        raise g.unsupported("the sizes are dynamic, and the places of a diagonal depend on them")
    sizes = [base.shape[d] for d in order]
    rows, columns = sizes[-2:]
    first = max(-offset, 0) * columns + max(offset, 0)
    places = [first + i * (columns + 1) for i in range(diagonal_length(rows, columns, offset))]
    flat = g.op("Reshape", g.op("Transpose", base, perm=order), g.ints([*sizes[:-2], rows * columns]))
    written = _onnx_scatter(g, flat, source, g.ints(places), base.ndim - 2)
    return g.op("Transpose", g.op("Reshape", written, g.ints(sizes)), perm=[order.index(d) for d in range(base.ndim)])


@diagonal_scatter.samples
def _() -> Iterator[Sample]:
    yield sample(make(3, 4), make(3, seed=1))
    yield sample(make(3, 4), make(2, seed=1), -1)
    yield sample(make(3, 2, 3), make(2, 2, seed=1), 1, -1, 0)
    yield sample(strided(make(3, 3)), make(3, seed=1), note="strided")


@array("aten::diagonal_backward(Tensor grad_output, int[] input_sizes, int offset, int dim1, int dim2) -> Tensor",
       kernel=Kernel(moves=True), namespaces=(),
       grad=dict(grad_output=lambda F, g, offset, dim1, dim2: F.diagonal(g, offset, dim1, dim2)))  # fmt: skip
def diagonal_backward(m: Numpy, grad_output: Array, input_sizes: Ints, offset: int, dim1: int, dim2: int) -> Array:
    """Zeros of sizes input_sizes with grad_output on the diagonal of dims dim1 and dim2."""
    out = m.zeros(tuple(input_sizes), grad_output.dtype)
    return _write_diagonal(m, out, grad_output, offset, dim1, dim2)


@diagonal_backward.type
def _(grad_output: KnownType, input_sizes: Ints, offset: int, dim1: int, dim2: int) -> TensorType:
    return _of_sizes(grad_output, input_sizes)


@diagonal_backward.onnx
def _(g: OnnxWriter, grad_output: Value, input_sizes: Ints, offset: int, dim1: int, dim2: int) -> Value:
    return _onnx_diagonal(g, _onnx_zeros(g, grad_output, input_sizes), grad_output, offset, dim1, dim2)


@diagonal_backward.samples
def _() -> Iterator[Sample]:
    yield sample(make(3), [3, 4], 0, 0, 1)
    yield sample(make(2, 2), [3, 2, 3], 1, -1, 0)


# -- unfold ------------------------------------------------------------------------------------------------------


@array("aten::unfold_backward(Tensor grad_in, int[] input_sizes, int dim, int size, int step) -> Tensor",
       namespaces=(),
       grad=dict(grad_in=lambda F, g, dim, size, step: F.unfold(g, dim, size, step)))  # fmt: skip
def unfold_backward(m: Numpy, grad_in: Array, input_sizes: Ints, dim: int, size: int, step: int) -> Array:
    """The windows that `unfold` shows, summed into a tensor of sizes input_sizes: an element adds up its copies."""
    out = m.zeros(tuple(input_sizes), grad_in.dtype)
    if out.ndim == 0:
        return m.reshape(grad_in.sum(), ())
    windows = m.moveaxis(grad_in, -1, 0)  # one slab for each place in the window: no two of its entries overlap
    last = m.moveaxis(out, dim, 0)
    for place in range(size):
        count = grad_in.shape[dim if dim >= 0 else dim - 1]
        last[place : place + (count - 1) * step + 1 : step] += m.moveaxis(windows[place], dim, 0)
    return out


@unfold_backward.type
def _(grad_in: KnownType, input_sizes: Ints, dim: int, size: int, step: int) -> TensorType:
    return _of_sizes(grad_in, input_sizes)


@unfold_backward.onnx
def _(g: OnnxWriter, grad_in: Value, input_sizes: Ints, dim: int, size: int, step: int) -> Value:
    """Windows that overlap add up as in a transposed convolution whose weights are 1 where places agree."""
    if grad_in.dtype.is_complex:
        rank = grad_in.ndim
        parts = g.op("Transpose", g.pairs(grad_in), perm=[rank, *range(rank)])
        summed = _onnx_added_up(g, parts, [2, *input_sizes], dim % len(input_sizes) + 1, size, step)
        return g.from_pairs(g.op("Transpose", summed, perm=[*range(1, rank), 0]))
    return _onnx_added_up(g, grad_in, input_sizes, dim, size, step)


def _onnx_added_up(g: OnnxWriter, grad_in: Value, input_sizes: Sequence[int], dim: int, size: int, step: int) -> Value:
    if not grad_in.dtype.is_floating_point or not input_sizes:
        raise g.unsupported("overlapping windows are added up by a convolution, which is for floating tensors of dims")
    rank = len(input_sizes)
    dim, number = dim % rank, grad_in.shape[dim % rank]
    others = [d for d in range(rank) if d != dim]
    rows = g.op("Reshape", g.op("Transpose", grad_in, perm=[*others, rank, dim]), g.ints([-1, size, number]))
    ones = g.constant(np.eye(size)[:, None, :], like=grad_in)
    summed = g.op("ConvTranspose", rows, ones, strides=[step])
    rest = input_sizes[dim] - ((number - 1) * step + size)  # what no window reaches
    summed = g.op("Pad", summed, g.ints([0, 0, 0, 0, 0, rest]))
    summed = g.op("Reshape", summed, g.ints([*(input_sizes[d] for d in others), input_sizes[dim]]))
    return g.op("Transpose", summed, perm=[*range(dim), rank - 1, *range(dim, rank - 1)])


@unfold_backward.samples
def _() -> Iterator[Sample]:
    yield sample(make(3, 3), [7], 0, 3, 2)
    yield sample(make(2, 4, 2), [2, 5], -1, 2, 1)
    yield sample(make(2, 3, 2), [4, 3], 0, 2, 2)


# -- as_strided --------------------------------------------------------------------------------------------------


def flat_places(m: Numpy, sizes: Ints, strides: Ints, offset: int) -> Any:
    """Positions in the storage of each element of a strided window, as an int64 array of those sizes."""
    places = m.full(tuple(sizes), offset, m.int64)
    for dim, (size, stride) in enumerate(zip(sizes, strides)):
        places += (m.arange(size) * stride).reshape([-1 if d == dim else 1 for d in range(len(sizes))])
    return places


def _home_and_window(
    m: Numpy, self_size: Ints, self_stride: Ints, size: Ints, stride: Ints, offset: int
) -> tuple[Any, Any, int]:
    """The places of a tensor's and of a window's elements, counted from the first of all, and how many places that is.

    The window begins `offset` elements after the tensor; either may reach back from there (strides may be negative).
    """
    home, window = flat_places(m, self_size, self_stride, 0), flat_places(m, size, stride, offset)
    first = min((int(places.min()) for places in (home, window) if places.size), default=0)
    home, window = home - first, window - first
    return home, window, max(greatest(home), greatest(window)) + 1


def _elements_shown(m: Any, self_size: Ints, self_stride: Ints, size: Ints, stride: Ints, offset: int) -> Any:
    """The number, in a tensor's row-major order, of each element of a window of its storage."""
    home, places, reach = _home_and_window(m, self_size, self_stride, size, stride, offset)
    owner = m.full(reach, -1, m.int64)
    owner[home.ravel()] = m.arange(home.size)
    if places.size and int(owner[places].min()) < 0:
        raise ShapeError(
            f"as_strided: sizes {list(size)}, strides {list(stride)} reach memory that is not part of a tensor of "
            f"sizes {list(self_size)}, strides {list(self_stride)}"
        )
    return owner[places]


@array("aten::as_strided_of(Tensor self, int[] self_size, int[] self_stride, int[] size, int[] stride, int offset)"
       " -> Tensor", kernel=Kernel(moves=True),
       namespaces=(),
       grad=dict(self=lambda F, g, self_size, self_stride, size, stride, offset:
                 F.as_strided_backward(g, self_size, self_stride, size, stride, offset)),
       scatter=lambda F, base, source, self_size, self_stride, size, stride, offset:
       F.as_strided_put(base, source, self_size, self_stride, size, stride, offset))  # fmt: skip
def as_strided_of(
    m: Numpy, self: Array, self_size: Ints, self_stride: Ints, size: Ints, stride: Ints, offset: int
) -> Array:
    """The elements that `as_strided` shows of a tensor laid out as `self_stride` says, taken from an equal one.

    Histories and recordings of views are made of this operator, because theirs are other tensors than the viewed one.
    """
    return m.reshape(self, -1)[_elements_shown(m, self_size, self_stride, size, stride, offset)]


@as_strided_of.type
def _(self: KnownType, self_size: Ints, self_stride: Ints, size: Ints, stride: Ints, offset: int) -> TensorType:
    return _of_sizes(self, size)


def _onnx_elements(
    g: OnnxWriter, self: Value, self_size: Ints, self_stride: Ints, size: Ints, stride: Ints, offset: int
) -> Value:
    if tuple(self.shape) != tuple(self_size):
        raise g.unsupported("a strided view of a tensor whose sizes vary")
    return g.constant(_elements_shown(np, self_size, self_stride, size, stride, offset), dtype="int64")


@as_strided_of.onnx
def _(g: OnnxWriter, self: Value, self_size: Ints, self_stride: Ints, size: Ints, stride: Ints, offset: int) -> Value:
    places = _onnx_elements(g, self, self_size, self_stride, size, stride, offset)
    return g.op("Gather", g.op("Reshape", self, g.ints([-1])), places, axis=0)


@as_strided_of.samples
def _() -> Iterator[Sample]:
    yield sample(make(3, 4), [3, 4], [4, 1], [2, 2], [1, 2], 0)
    yield sample(make(4, 3), [4, 3], [1, 4], [2, 3], [4, 1], 2, note="of a transposed tensor")
    yield sample(make(5), [5], [1], [3, 3], [1, 1], 0, note="overlapping")
    yield sample(make(3, 4), [3, 4], [4, -1], [2, 3], [1, 2], -2, note="of a tensor with its columns reversed")


@array("aten::as_strided_put(Tensor self, Tensor src, int[] self_size, int[] self_stride, int[] size, int[] stride, "
       "int offset) -> Tensor", kernel=Kernel(moves=True),
       namespaces=(),
       grad=dict(self=lambda F, g, src_meta, self_size, self_stride, size, stride, offset:
                 F.as_strided_put(g, _zeros(F, g, src_meta), self_size, self_stride, size, stride, offset),
                 src=lambda F, g, self_size, self_stride, size, stride, offset:
                 F.as_strided_of(g, self_size, self_stride, size, stride, offset)))  # fmt: skip
def as_strided_put(
    m: Numpy, self: Array, src: Array, self_size: Ints, self_stride: Ints, size: Ints, stride: Ints, offset: int
) -> Array:
    """`self` with the elements that `as_strided_of` takes replaced by those of `src`."""
    out = m.array(self, order="C")
    out.reshape(-1)[_elements_shown(m, self_size, self_stride, size, stride, offset)] = src
    return out


@as_strided_put.type
def _(
    self: KnownType, src: KnownType, self_size: Ints, self_stride: Ints, size: Ints, stride: Ints, offset: int
) -> TensorType:
    return _same(self)


@as_strided_put.onnx
def _(
    g: OnnxWriter, self: Value, src: Value, self_size: Ints, self_stride: Ints, size: Ints, stride: Ints, offset: int
) -> Value:
    flat = g.ints([-1])
    places = g.op("Reshape", _onnx_elements(g, self, self_size, self_stride, size, stride, offset), flat)
    written = g.op("ScatterElements", g.op("Reshape", self, flat), places, g.op("Reshape", src, flat), axis=0)
    return g.op("Reshape", written, g.ints(list(self_size)))


@as_strided_put.samples
def _() -> Iterator[Sample]:
    yield sample(make(3, 4), make(2, 2, seed=1), [3, 4], [4, 1], [2, 2], [4, 2], 0)
    yield sample(make(4, 3), make(2, 2, seed=1), [4, 3], [1, 4], [2, 2], [4, 1], 2, note="of a transposed tensor")
    yield sample(make(7), make(2, 2, seed=1), [7], [-1], [2, 2], [2, 1], -5, note="of a reversed tensor")


@array("aten::as_strided_scatter(Tensor self, Tensor src, int[] size, int[] stride, int? storage_offset=None)"
       " -> Tensor", kernel=Kernel(moves=True),
       onnx=absent("ONNX has no strided views"),
       grad=dict(self=lambda F, g, src_meta, size, stride, storage_offset:
                 F.as_strided_scatter(g, _zeros(F, g, src_meta), size, stride, storage_offset),
                 src=lambda F, g, size, stride, storage_offset:
                 _strided_part(F, g, size, stride, storage_offset or 0)))  # fmt: skip
def as_strided_scatter(
    m: Numpy, self: Array, src: Array, size: Ints, stride: Ints, storage_offset: int | None
) -> Array:
    """self with the elements that `as_strided` would show of it replaced by those of src."""
    part = as_strided_view.body(Geometry.contiguous(self.shape), size, stride, storage_offset)
    _check_source("as_strided_scatter", part, src.shape)
    places = flat_places(m, *part)
    if places.size and int(places.max()) >= self.size:
        raise ShapeError(
            f"as_strided_scatter: element {int(places.max())} lies outside the {self.size} elements of self"
        )
    out = m.array(self, order="C")
    out.reshape(-1)[places] = src
    return out


def _strided_part(F: Ops, g: Tensor, size: Ints, stride: Ints, offset: int) -> Tensor:
    return F.as_strided_gather(g, g.shape, contiguous_strides(tuple(g.shape)), size, stride, offset)


@as_strided_scatter.type
def _(self: KnownType, src: KnownType, size: Ints, stride: Ints, storage_offset: int | None) -> TensorType:
    part = as_strided_view.body(Geometry.contiguous(self.shape), size, stride, storage_offset)
    _check_source("as_strided_scatter", part, src.shape)
    return _same(self)


@as_strided_scatter.samples
def _() -> Iterator[Sample]:
    yield sample(make(3, 4), make(2, 2, seed=1), [2, 2], [4, 2])
    yield sample(make(3, 4), make(3, seed=1), [3], [2], 5)
    yield sample(make(4), make(seed=1), [], [], 3, note="0-d source")


@array("aten::as_strided_backward(Tensor grad, int[] self_size, int[] self_stride, int[] size, int[] stride, "
       "int offset) -> Tensor",
       namespaces=(), onnx=absent("ONNX has no strided views"),
       grad=dict(grad=lambda F, g, self_size, self_stride, size, stride, offset:
                 F.as_strided_gather(g, self_size, self_stride, size, stride, offset)))  # fmt: skip
def as_strided_backward(
    m: Numpy, grad: Array, self_size: Ints, self_stride: Ints, size: Ints, stride: Ints, offset: int
) -> Array:
    """Sum `grad` into the storage, through its window, and read the sums back through the input's window.

    `offset` counts from the input's first element. An element that the input shows several times (an expanded dim)
    gets its share of the sum each time, so that the total is right.
    """
    home, places, reach = _home_and_window(m, self_size, self_stride, size, stride, offset)
    storage = _summed(m, places, grad, reach)
    shown = m.maximum(m.bincount(home.ravel(), minlength=reach), 1)
    return (storage / shown)[home].astype(grad.dtype)


def _summed(m: Numpy, places: Any, values: Array, reach: int) -> Any:
    """The sums of the values that share a place, in float64."""
    if values.dtype.kind != "c":
        return m.bincount(places.ravel(), values.ravel(), reach)
    return _summed(m, places, values.real, reach) + 1j * _summed(m, places, values.imag, reach)


@as_strided_backward.type
def _(grad: KnownType, self_size: Ints, self_stride: Ints, size: Ints, stride: Ints, offset: int) -> TensorType:
    return _of_sizes(grad, self_size)


@as_strided_backward.samples
def _() -> Iterator[Sample]:
    yield sample(make(2, 2), [3, 4], [4, 1], [2, 2], [1, 2], 0)
    yield sample(make(3, 3), [5], [1], [3, 3], [1, 1], 0, note="overlapping")
    yield sample(make(3), [2, 2], [1, 4], [3], [2], 0, note="strided input")
    yield sample(make(2), [3], [1], [2], [1], -1, note="begins before the input")
    yield sample(make(3), [7], [-1], [3], [2], -5, note="of a reversed tensor")


@array("aten::as_strided_gather(Tensor self, int[] self_size, int[] self_stride, int[] size, int[] stride, int offset)"
       " -> Tensor", kernel=Kernel(moves=True),
       namespaces=(), onnx=absent("ONNX has no strided views"),
       grad=dict(self=lambda F, g, self_size, self_stride, size, stride, offset:
                 F.as_strided_backward(g, self_size, self_stride, size, stride, offset)))  # fmt: skip
def as_strided_gather(
    m: Numpy, self: Array, self_size: Ints, self_stride: Ints, size: Ints, stride: Ints, offset: int
) -> Array:
    """Elements that `as_strided` would show if `self` were laid out as `self_stride` says: the adjoint of the above."""
    home, places, reach = _home_and_window(m, self_size, self_stride, size, stride, offset)
    shown = m.maximum(m.bincount(home.ravel(), minlength=reach), 1)
    storage = _summed(m, home, self, reach) / shown
    return storage[places].astype(self.dtype)


@as_strided_gather.type
def _(self: KnownType, self_size: Ints, self_stride: Ints, size: Ints, stride: Ints, offset: int) -> TensorType:
    return _of_sizes(self, size)


@as_strided_gather.samples
def _() -> Iterator[Sample]:
    yield sample(make(3, 4), [3, 4], [4, 1], [2, 2], [1, 2], 0)
    yield sample(make(2, 2), [2, 2], [1, 4], [3], [2], 0, note="strided input")
    yield sample(make(3, 4), [3, 4], [-4, 1], [2, 2], [1, 3], -4, note="of a tensor with its rows reversed")
