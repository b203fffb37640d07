"""Views: the same memory through another geometry. Nothing is copied and, in a kernel, nothing is computed."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from itertools import accumulate
from typing import TYPE_CHECKING, Any

from jit.ir import dtypes
from jit.ir.dtypes import DType
from jit.ir.errors import DimError, ShapeError, UsageError
from jit.ir.geometry import Geometry, infer_size, wrap_dim, wrap_dims
from jit.ir.op import absent, composite, view
from jit.ir.samples import Sample, make, sample, strided
from jit.ir.types import TensorType

from .common import surely_same

if TYPE_CHECKING:
    from .protocols import Array, Ints, KnownType, Meta, Numpy, OnnxWriter, Ops, Tensor, Value

INT64_MAX = 2**63 - 1
"""ONNX's word for "to the end" in a Slice."""


# -- another shape -----------------------------------------------------------------------------------------------


@view("aten::view(Tensor(a) self, int[] size) -> Tensor(a)", shows_all=True, namespaces=("Tensor",),
      grad=dict(self=lambda F, g, self_meta: F.reshape(g, self_meta.shape)),
      scatter=lambda F, base, source, size: F.reshape(source, base.shape))  # fmt: skip
def view_(geometry: Geometry, size: Ints) -> Geometry:
    """The same elements in the sizes `size`, of which one may be -1; ShapeError where that takes a copy."""
    sizes = infer_size(tuple(size), geometry.numel)
    found = geometry.reshape(sizes)
    if found is None:
        raise ShapeError(
            f"view: a tensor of sizes {list(geometry.sizes)} and strides {list(geometry.strides)} cannot be seen "
            f"as {list(sizes)} without a copy; use reshape"
        )
    return found


@view_.onnx
def _(g: OnnxWriter, self: Value, size: Ints) -> Value:
    return onnx_reshape(g, self, size)


@view_.samples
def _() -> Iterator[Sample]:
    yield sample(make(2, 3, 4), [4, 6])
    yield sample(make(2, 3, 4), [-1, 4])
    yield sample(make(2, 3), [2, 1, 3, 1])
    yield sample(make(), [1, 1], note="0-d")
    yield sample(make(1), [], note="to 0-d")
    yield sample(make(0, 3), [3, 0], note="empty", onnx=False)
    yield sample(make(4, 6)[:, :3], [2, 2, 3], note="strided")
    yield sample(make(6, low=-9, high=9, dtype="int64"), [2, 3], note="integer", grad=False)


def onnx_reshape(g: OnnxWriter, self: Value, size: Sequence[int]) -> Value:
    """ONNX's Reshape, in which a size of 0 means zero elements, as in ATen, and not "as before"."""
    zero = any(type(s) is int and s == 0 for s in size)
    return g.op("Reshape", self, g.ints(list(size)), allowzero=1 if zero else None)


@composite("aten::reshape(Tensor(a) self, int[] shape) -> Tensor(a)")
def reshape(F: Ops, self: Tensor, shape: Ints) -> Tensor:
    """self in the sizes `shape`, of which one may be -1: a view where the memory allows it, else a copy."""
    if self.is_contiguous() or _viewable(self, shape):
        return F.view(self, shape)
    return F.view(F.clone(self), shape)


def _viewable(self: Tensor, shape: Ints) -> bool:
    old = Geometry(tuple(self.shape), tuple(self.stride()))
    return old.regroup(infer_size(tuple(shape), old.numel)) is not None


@reshape.type
def _(self: KnownType, shape: Ints) -> TensorType:
    return TensorType(self.dtype, infer_size(tuple(shape), math.prod(self.sizes)), None, self.device)


@reshape.onnx
def _(g: OnnxWriter, self: Value, shape: Ints) -> Value:
    return onnx_reshape(g, self, shape)


@reshape.samples
def _() -> Iterator[Sample]:
    yield sample(make(2, 3, 4), [6, -1])
    yield sample(strided(make(2, 3)), [3, 2], note="strided")
    yield sample(make(4, 6)[:, :3], [2, 6], note="needs no copy")
    yield sample(make(), [1], note="0-d")
    yield sample(make(0, 3), [0, 5], note="empty", onnx=False)


@view("aten::_view_bytes(Tensor(a) self, ScalarType dtype, int old, int new) -> Tensor(a)", result="dtype",
      namespaces=(), grad=absent("bits have no slope"), onnx=absent("models cannot see elements as others"),
      scatter=lambda F, base, source, _, o, n: F._view_bytes(F.contiguous(source), base.dtype, n, o))  # fmt: skip
def view_bytes(geometry: Geometry, dtype: DType, old: int, new: int) -> Geometry:
    """The same memory as elements of `new` bytes, not `old`; the last dim has more of them, or fewer."""
    if old == new:
        return geometry
    *sizes, last = geometry.sizes or (None,)
    if last is None:
        raise DimError(f"view: a 0-dim tensor cannot be seen as {dtype.name}, whose elements have another size")
    *strides, step = geometry.strides
    many, few = (old // new, 1) if old > new else (1, new // old)
    if geometry.numel and step != 1 and last != 1:
        raise ShapeError("view: elements of the last dim should lie side by side to be others; call contiguous()")
    if last % few or any(stride % few for stride in strides):
        raise ShapeError(
            f"view: the sizes {list(geometry.sizes)} and strides {list(geometry.strides)} hold no whole elements of "
            f"{dtype.name}: {few} of these elements make one"
        )
    return Geometry(
        (*sizes, last * many // few), (*(s * many // few for s in strides), 1), geometry.offset * many // few
    )


@view_bytes.samples
def _() -> Iterator[Sample]:
    yield sample(make(2, 4), dtypes.int32, 4, 4, onnx=False)
    yield sample(make(2, 4), dtypes.uint8, 4, 1, note="more elements", onnx=False)
    yield sample(make(2, 4), dtypes.float64, 4, 8, note="fewer elements", onnx=False)
    yield sample(make(0, 4), dtypes.int16, 4, 2, note="empty", onnx=False)


@composite("aten::view.dtype(Tensor(a) self, ScalarType dtype) -> Tensor(a)", namespaces=("Tensor",),
           grad=absent("bits have no slope"))  # fmt: skip
def view_dtype(F: Ops, self: Tensor, dtype: DType) -> Tensor:
    """The same memory as elements of another dtype; the last dim has more of them, or fewer, if they differ in size."""
    return F._view_bytes(F.detach(self), dtype, self.dtype.itemsize, dtype.itemsize)


@view_dtype.samples
def _() -> Iterator[Sample]:
    yield sample(make(2, 4), dtypes.int32, onnx=False)
    yield sample(make(2, 4), dtypes.int16, note="more elements", onnx=False)
    yield sample(make(2, 4), dtypes.complex64, note="fewer elements", onnx=False)


@composite("aten::view_as(Tensor(a) self, Tensor other) -> Tensor(a)", namespaces=("Tensor",))
def view_as(F: Ops, self: Tensor, other: Tensor) -> Tensor:
    """self in the sizes of other, without a copy: `view(other.shape)`."""
    return F.view(self, other.shape)


@view_as.samples
def _() -> Iterator[Sample]:
    yield sample(make(2, 6), make(3, 4))
    yield sample(make(), make(1, 1), note="0-d")


@composite("aten::reshape_as(Tensor(a) self, Tensor other) -> Tensor(a)", namespaces=("Tensor",))
def reshape_as(F: Ops, self: Tensor, other: Tensor) -> Tensor:
    """self in the sizes of other: `reshape(other.shape)`."""
    return F.reshape(self, other.shape)


@reshape_as.samples
def _() -> Iterator[Sample]:
    yield sample(strided(make(2, 6)), make(3, 4), note="strided")


@composite("aten::flatten.using_ints(Tensor(a) self, int start_dim=0, int end_dim=-1) -> Tensor(a)")
def flatten(F: Ops, self: Tensor, start_dim: int, end_dim: int) -> Tensor:
    """self with the dims from start_dim to end_dim, both included, made one; a 0-d tensor becomes a vector."""
    start, end = wrap_dim(start_dim, self.ndim), wrap_dim(end_dim, self.ndim)
    if start > end:
        raise UsageError(f"flatten: start_dim {start_dim} comes after end_dim {end_dim}")
    if self.ndim == 0:
        return F.reshape(self, [1])
    if start == end:
        return self
    shape = self.shape
    return F.reshape(self, [*shape[:start], _product(shape[start : end + 1]), *shape[end + 1 :]])


def _product(sizes: Ints) -> Any:
    count = sizes[0]
    for size in sizes[1:]:
        count = count * size
    return count


@flatten.samples
def _() -> Iterator[Sample]:
    yield sample(make(2, 3, 4))
    yield sample(make(2, 3, 4), 1)
    yield sample(make(2, 3, 4, 5), -3, -2)
    yield sample(make(), note="0-d")
    yield sample(make(2, 0, 3), 1, note="empty", onnx=False)
    yield sample(strided(make(2, 3, 4)), 1, note="strided")


@composite("aten::unflatten.int(Tensor(a) self, int dim, int[] sizes) -> Tensor(a)")
def unflatten(F: Ops, self: Tensor, dim: int, sizes: Ints) -> Tensor:
    """self with `dim` divided into several dims of these sizes, of which one may be -1."""
    at = wrap_dim(dim, self.ndim)
    return F.view(self, [*self.shape[:at], *sizes, *self.shape[at + 1 :]])


@unflatten.samples
def _() -> Iterator[Sample]:
    yield sample(make(2, 6), 1, [2, 3])
    yield sample(make(6, 2), -2, [3, -1])


@composite("aten::contiguous(Tensor(a) self, *, MemoryFormat memory_format=contiguous_format) -> Tensor(a)",
           namespaces=("Tensor",))  # fmt: skip
def contiguous(F: Ops, self: Tensor, memory_format: str) -> Tensor:
    """self if its elements lie in the memory format already, else a copy in which they do."""
    if memory_format == "preserve_format":
        raise UsageError("contiguous: preserve_format names no order; ask for contiguous_format or channels_last")
    return self if self.is_contiguous(memory_format) else F.clone(self, memory_format=memory_format)


@contiguous.samples
def _() -> Iterator[Sample]:
    yield sample(make(2, 3))
    yield sample(strided(make(2, 3)), note="strided")
    yield sample(make(2, 3, 2, 2), memory_format="channels_last", note="channels last")


# -- dims in another order ---------------------------------------------------------------------------------------


@view_.numpy_grad
def _(m: Numpy, g: Array, self_meta: Meta) -> Sequence[Array | None]:
    return (g.reshape(self_meta.shape),)


@view("aten::transpose.int(Tensor(a) self, int dim0, int dim1) -> Tensor(a)", aliases=("swapaxes", "swapdims"),
      shows_all=True,
      grad=dict(self=lambda F, g, dim0, dim1: F.transpose(g, dim0, dim1)),
      scatter=lambda F, base, source, dim0, dim1: F.transpose(source, dim0, dim1))  # fmt: skip
def transpose(geometry: Geometry, dim0: int, dim1: int) -> Geometry:
    """self with the dims dim0 and dim1 exchanged."""
    order = list(range(geometry.ndim))
    a, b = wrap_dim(dim0, geometry.ndim), wrap_dim(dim1, geometry.ndim)
    if order:
        order[a], order[b] = order[b], order[a]
    return geometry.permute(tuple(order))


@transpose.onnx
def _(g: OnnxWriter, self: Value, dim0: int, dim1: int) -> Value:
    if self.ndim == 0:
        return g.op("Identity", self)
    order = list(range(self.ndim))
    order[dim0], order[dim1] = order[dim1], order[dim0]
    return g.op("Transpose", self, perm=order)


@transpose.samples
def _() -> Iterator[Sample]:
    yield sample(make(2, 3, 4), 0, 2)
    yield sample(make(2, 3), -1, 0)
    yield sample(make(), 0, -1, note="0-d")
    yield sample(make(0, 3), 0, 1, note="empty")
    yield sample(strided(make(2, 3)), 0, 1, note="strided")


@view("aten::t(Tensor(a) self) -> Tensor(a)", shows_all=True,
      grad=dict(self=lambda F, g: F.t(g)), scatter=lambda F, base, source: F.t(source))  # fmt: skip
def t(geometry: Geometry) -> Geometry:
    """The transpose of a matrix; a vector or a 0-d tensor itself."""
    if geometry.ndim > 2:
        raise ShapeError(f"t: expects at most 2 dims, got {list(geometry.sizes)}; use permute or transpose")
    return geometry.permute(tuple(reversed(range(geometry.ndim))))


@t.onnx
def _(g: OnnxWriter, self: Value) -> Value:
    return g.op("Transpose", self, perm=[1, 0]) if self.ndim == 2 else g.op("Identity", self)


@t.samples
def _() -> Iterator[Sample]:
    yield sample(make(2, 3))
    yield sample(make(3), note="1-d")
    yield sample(make(), note="0-d")
    yield sample(strided(make(2, 3)), note="strided")


def inverse_order(dims: Ints) -> list[int]:
    """The permutation that undoes `dims`."""
    order = [wrap_dim(d, len(dims)) for d in dims]
    return [order.index(i) for i in range(len(order))]


@view("aten::permute(Tensor(a) self, int[] dims) -> Tensor(a)", shows_all=True,
      grad=dict(self=lambda F, g, dims: F.permute(g, inverse_order(dims))),
      scatter=lambda F, base, source, dims: F.permute(source, inverse_order(dims)))  # fmt: skip
def permute(geometry: Geometry, dims: Ints) -> Geometry:
    """self with its dims in the order `dims`: dim i of the result is dim dims[i] of self."""
    if len(dims) != geometry.ndim:
        raise ShapeError(f"permute: dims {list(dims)} should name each of the {geometry.ndim} dims once")
    return geometry.permute(wrap_dims(tuple(dims), geometry.ndim))


@permute.numpy_grad
def _(m: Numpy, g: Array, dims: Ints) -> Sequence[Array | None]:
    return (g.transpose(inverse_order(dims)),)


@permute.onnx
def _(g: OnnxWriter, self: Value, dims: Ints) -> Value:
    if self.ndim == 0:
        return g.op("Identity", self)
    return g.op("Transpose", self, perm=[wrap_dim(d, self.ndim) for d in dims])


@permute.samples
def _() -> Iterator[Sample]:
    yield sample(make(2, 3, 4), [2, 0, 1])
    yield sample(make(2, 3, 4), [0, -1, -2])
    yield sample(make(), [], note="0-d")
    yield sample(make(2, 0, 3), [1, 2, 0], note="empty")
    yield sample(strided(make(2, 3)), [1, 0], note="strided")


@composite("aten::movedim.intlist(Tensor(a) self, int[] source, int[] destination) -> Tensor(a)", aliases=("moveaxis",))
def movedim_list(F: Ops, self: Tensor, source: Ints, destination: Ints) -> Tensor:
    """self with the dims `source` moved to the places `destination`; the others keep their order."""
    return F.permute(self, _moved(self.ndim, tuple(source), tuple(destination)))


def _moved(ndim: int, source: tuple[int, ...], destination: tuple[int, ...]) -> list[int]:
    if len(source) != len(destination):
        raise ShapeError(f"movedim: source {list(source)} and destination {list(destination)} should be equally long")
    if not source:
        return list(range(ndim))
    origins, targets = wrap_dims(source, ndim), wrap_dims(destination, ndim)
    placed = dict(zip(targets, origins))
    others = iter(d for d in range(ndim) if d not in origins)
    return [placed[d] if d in placed else next(others) for d in range(ndim)]


@movedim_list.samples
def _() -> Iterator[Sample]:
    yield sample(make(2, 3, 4), [0, 1], [-1, 0])


@composite("aten::movedim.int(Tensor(a) self, int source, int destination) -> Tensor(a)", aliases=("moveaxis",))
def movedim(F: Ops, self: Tensor, source: int, destination: int) -> Tensor:
    if self.ndim == 0:
        wrap_dim(source, 0), wrap_dim(destination, 0)
        return F.alias(self)
    return F.permute(self, _moved(self.ndim, (source,), (destination,)))


@movedim.samples
def _() -> Iterator[Sample]:
    yield sample(make(2, 3, 4), 0, 2)
    yield sample(make(2, 3, 4), -1, 0)
    yield sample(make(), 0, 0, note="0-d")


# -- dims of size 1, and broadcasting ----------------------------------------------------------------------------


def sum_to(F: Ops, g: Tensor, shape: Ints) -> Tensor:
    """Undo broadcasting: `g` summed down to `shape`."""
    lead = g.ndim - len(shape)
    dims = [i for i in range(g.ndim) if i < lead or (shape[i - lead] == 1 and g.shape[i] != 1)]
    if dims:
        g = F.sum(g, dims, True)
    return F.reshape(g, shape) if lead else g


@view("aten::expand(Tensor(a) self, int[] size, *, bool implicit=False) -> Tensor(a)", namespaces=("Tensor",),
      shows_all=True,
      grad=dict(self=lambda F, g, self_meta: sum_to(F, g, self_meta.shape)))  # fmt: skip
def expand(geometry: Geometry, size: Ints, implicit: bool) -> Geometry:
    """self with dims of size 1 repeated to `size`, without a copy; -1 keeps a size, and new dims stand in front."""
    return geometry.expand(tuple(size))


@expand.onnx
def _(g: OnnxWriter, self: Value, size: Ints, implicit: bool) -> Value:
    if surely_same(self.shape, g.out.shape):
        return g.op("Identity", self)
    return g.op("Expand", self, g.ints([1 if type(s) is int and s == -1 else s for s in size]))


@expand.samples
def _() -> Iterator[Sample]:
    yield sample(make(3, 1), [3, 4])
    yield sample(make(3, 1), [2, -1, 4])
    yield sample(make(3), [2, 3])
    yield sample(make(), [2, 2], note="0-d")
    yield sample(make(1, 3), [0, 3], note="empty", onnx=False)
    yield sample(strided(make(3, 1)), [3, 2], note="strided")


@composite("aten::expand_as(Tensor(a) self, Tensor other) -> Tensor(a)", namespaces=("Tensor",))
def expand_as(F: Ops, self: Tensor, other: Tensor) -> Tensor:
    """self expanded to the sizes of other: `expand(other.shape)`."""
    return F.expand(self, other.shape)


@expand_as.samples
def _() -> Iterator[Sample]:
    yield sample(make(3, 1), make(2, 3, 4))


@composite("aten::broadcast_to(Tensor(a) self, int[] size) -> Tensor(a)")
def broadcast_to(F: Ops, self: Tensor, size: Ints) -> Tensor:
    """self expanded to the sizes `size`, as `expand` does it."""
    return F.expand(self, size)


@broadcast_to.samples
def _() -> Iterator[Sample]:
    yield sample(make(3, 1), [2, 3, 4])
    yield sample(make(), [2], note="0-d")


def _ones(geometry: Geometry, dims: tuple[int, ...]) -> tuple[int, ...]:
    return tuple(d for d in dims if d < geometry.ndim and geometry.sizes[d] == 1)


@view("aten::squeeze(Tensor(a) self) -> Tensor(a)", shows_all=True,
      grad=dict(self=lambda F, g, self_meta: F.reshape(g, self_meta.shape)),
      scatter=lambda F, base, source: F.reshape(source, base.shape))  # fmt: skip
def squeeze(geometry: Geometry) -> Geometry:
    """self without its dims of size 1; with `dim`, only of those dims, and dims of other sizes stay."""
    return geometry.drop(_ones(geometry, tuple(range(geometry.ndim))))


@squeeze.onnx
def _(g: OnnxWriter, self: Value) -> Value:
    return onnx_squeeze(g, self, range(self.ndim))


def onnx_squeeze(g: OnnxWriter, self: Value, dims: Sequence[int]) -> Value:
    """ONNX's Squeeze of those `dims` that have size 1; ONNX refuses the others, ATen leaves them alone."""
    axes = [d for d in (wrap_dim(d, self.ndim) for d in dims) if self.ndim and self.shape[d] == 1]
    return g.op("Squeeze", self, g.ints(axes)) if axes else g.op("Identity", self)


@squeeze.samples
def _() -> Iterator[Sample]:
    yield sample(make(1, 3, 1, 2))
    yield sample(make(2, 3))
    yield sample(make(), note="0-d")
    yield sample(make(1, 0), note="empty")
    yield sample(strided(make(1, 3, 1)), note="strided")


@view("aten::squeeze.dim(Tensor(a) self, int dim) -> Tensor(a)", shows_all=True,
      grad=dict(self=lambda F, g, self_meta, dim: F.unsqueeze(g, dim) if g.ndim < self_meta.ndim else g),
      scatter=lambda F, base, source, dim: F.unsqueeze(source, dim) if source.ndim < base.ndim else source)  # fmt: skip
def squeeze_dim(geometry: Geometry, dim: int) -> Geometry:
    return geometry.drop(_ones(geometry, (wrap_dim(dim, geometry.ndim),)))


@squeeze_dim.onnx
def _(g: OnnxWriter, self: Value, dim: int) -> Value:
    return onnx_squeeze(g, self, [dim])


@squeeze_dim.samples
def _() -> Iterator[Sample]:
    yield sample(make(2, 1, 3), 1)
    yield sample(make(2, 3, 1), -1)
    yield sample(make(2, 3), 0)
    yield sample(make(), 0, note="0-d")
    yield sample(make(1, 0), 0, note="empty")


@view("aten::squeeze.dims(Tensor(a) self, int[] dim) -> Tensor(a)", shows_all=True,
      grad=dict(self=lambda F, g, self_meta: F.reshape(g, self_meta.shape)),
      scatter=lambda F, base, source, dim: F.reshape(source, base.shape))  # fmt: skip
def squeeze_dims(geometry: Geometry, dim: Ints) -> Geometry:
    return geometry.drop(_ones(geometry, wrap_dims(tuple(dim), geometry.ndim) if dim else ()))


@squeeze_dims.onnx
def _(g: OnnxWriter, self: Value, dim: Ints) -> Value:
    return onnx_squeeze(g, self, dim)


@squeeze_dims.samples
def _() -> Iterator[Sample]:
    yield sample(make(1, 3, 1), [0, -1])
    yield sample(make(1, 3, 1), [0, 1])
    yield sample(make(1, 3), [], note="no dims")


@view("aten::unsqueeze(Tensor(a) self, int dim) -> Tensor(a)", shows_all=True,
      grad=dict(self=lambda F, g, dim: F.squeeze(g, dim)),
      scatter=lambda F, base, source, dim: F.squeeze(source, dim))  # fmt: skip
def unsqueeze(geometry: Geometry, dim: int) -> Geometry:
    """self with a new dim of size 1 at the place `dim`."""
    return geometry.insert(wrap_dim(dim, geometry.ndim + 1))


@unsqueeze.onnx
def _(g: OnnxWriter, self: Value, dim: int) -> Value:
    return g.op("Unsqueeze", self, g.ints([wrap_dim(dim, self.ndim + 1)]))


@unsqueeze.samples
def _() -> Iterator[Sample]:
    yield sample(make(2, 3), 1)
    yield sample(make(2, 3), -1)
    yield sample(make(2, 3), -3)
    yield sample(make(), 0, note="0-d")
    yield sample(make(0, 3), 0, note="empty")
    yield sample(strided(make(2, 3)), 1, note="strided")


# -- a part of a dim ---------------------------------------------------------------------------------------------


@view("aten::select.int(Tensor(a) self, int dim, int index) -> Tensor(a)", offsets=("index",),
      grad=dict(self=lambda F, g, self_meta, dim, index: F.select_backward(g, self_meta.shape, dim, index)),
      scatter=lambda F, base, source, dim, index: F.select_scatter(base, source, dim, index))  # fmt: skip
def select(geometry: Geometry, dim: int, index: int) -> Geometry:
    """The entry `index` of dim, which the result no longer has."""
    if geometry.ndim == 0:
        raise DimError("select: a 0-dim tensor has no dim to select from")
    at = wrap_dim(dim, geometry.ndim)
    return geometry.window(at, wrap_index("select", index, at, geometry.sizes[at]), 1).drop((at,))


def wrap_index(name: str, index: int, dim: int, size: int) -> int:
    """A non-negative index into a dim of `size` entries."""
    if not -size <= index < size:
        raise DimError(f"{name}: index {index} is out of range for dim {dim} of size {size}")
    return index + size if index < 0 else index


@select.onnx
def _(g: OnnxWriter, self: Value, dim: int, index: int) -> Value:
    return g.op("Gather", self, g.constant(index, dtype="int64"), axis=wrap_dim(dim, self.ndim))


@select.samples
def _() -> Iterator[Sample]:
    yield sample(make(2, 3, 4), 1, 2)
    yield sample(make(2, 3, 4), -1, -4)
    yield sample(make(5), 0, 3, note="to 0-d")
    yield sample(make(2, 0), 0, 1, note="empty")
    yield sample(strided(make(3, 5)), 0, 1, note="strided")
    yield sample(make(5, low=-9, high=9, dtype="int32"), 0, -1, note="integer", grad=False)


def slice_range(start: int | None, end: int | None, step: int, size: int) -> tuple[int, int]:
    """(first entry, number of entries) of a slice of a dim of `size`, as Python and ATen clamp it."""
    if step <= 0:
        raise UsageError(f"slice: step must be positive, got {step}")
    low = min(max(start + size if start is not None and start < 0 else start or 0, 0), size)
    high = size if end is None else min(max(end + size if end < 0 else end, low), size)
    return low, (high - low + step - 1) // step


@view("aten::slice.Tensor(Tensor(a) self, int dim=0, int? start=None, int? end=None, int step=1) -> Tensor(a)",
      namespaces=(),
      grad=dict(self=lambda F, g, self_meta, dim, start, end, step:
                F.slice_backward(g, self_meta.shape, dim, start, end, step)),
      scatter=lambda F, base, source, dim, start, end, step:
      F.slice_scatter(base, source, dim, start, end, step))  # fmt: skip
def slice_(geometry: Geometry, dim: int, start: int | None, end: int | None, step: int) -> Geometry:
    """Every step-th entry of dim from start up to, but not including, end."""
    if geometry.ndim == 0:
        raise DimError("slice: a 0-dim tensor has no dim to slice")
    at = wrap_dim(dim, geometry.ndim)
    return geometry.window(at, *slice_range(start, end, step, geometry.sizes[at]), step)


@slice_.onnx
def _(g: OnnxWriter, self: Value, dim: int, start: int | None, end: int | None, step: int) -> Value:
    ends = [INT64_MAX if end is None else end]
    starts, axes = [0 if start is None else start], [wrap_dim(dim, self.ndim)]
    return g.op("Slice", self, g.ints(starts), g.ints(ends), g.ints(axes), g.ints([step]))


@slice_.samples
def _() -> Iterator[Sample]:
    yield sample(make(5, 4), 0, 1, 4)
    yield sample(make(5, 4), -1, None, None, 2)
    yield sample(make(5, 4), 1, -3, -1)
    yield sample(make(5, 4), 0, 1, 2**63 - 1, 3)
    yield sample(make(5, 4), 0, -9, 9)
    yield sample(make(5, 4), 0, 4, 1, note="empty", onnx=False)
    yield sample(strided(make(5, 4)), 1, 1, note="strided")


def _narrowed(size: int, dim: int, start: int, length: int) -> int:
    if length < 0:
        raise ShapeError(f"narrow: length {length} is negative")
    if not -size <= start <= size:
        raise DimError(f"narrow: start {start} is out of range for dim {dim} of size {size}")
    first = start + size if start < 0 else start
    if first + length > size:
        raise ShapeError(f"narrow: start {start} and length {length} reach beyond dim {dim} of size {size}")
    return first


def _narrow_end(start: int, length: int) -> int | None:
    return None if isinstance(start, int) and start < 0 and start + length == 0 else start + length


@view("aten::narrow(Tensor(a) self, int dim, int start, int length) -> Tensor(a)", offsets=("start",),
      grad=dict(self=lambda F, g, self_meta, dim, start, length:
                F.slice_backward(g, self_meta.shape, dim, start, _narrow_end(start, length), 1)),
      scatter=lambda F, base, source, dim, start, length:
      F.slice_scatter(base, source, dim, start, _narrow_end(start, length)))  # fmt: skip
def narrow(geometry: Geometry, dim: int, start: int, length: int) -> Geometry:
    """The `length` entries of dim that begin at start."""
    if geometry.ndim == 0:
        raise DimError("narrow: a 0-dim tensor has no dim to narrow")
    at = wrap_dim(dim, geometry.ndim)
    return geometry.window(at, _narrowed(geometry.sizes[at], at, start, length), length)


@narrow.onnx
def _(g: OnnxWriter, self: Value, dim: int, start: int, length: int) -> Value:
    starts, axes = g.ints([start]), g.ints([wrap_dim(dim, self.ndim)])
    end = _narrow_end(start, length) if type(start) is int and type(length) is int else start + length
    return g.op("Slice", self, starts, g.ints([INT64_MAX if end is None else end]), axes)


@narrow.samples
def _() -> Iterator[Sample]:
    yield sample(make(5, 4), 0, 1, 3)
    yield sample(make(5, 4), -1, -2, 2)
    yield sample(make(5, 4), 1, 4, 0, note="empty", onnx=False)
    yield sample(strided(make(5, 4)), 1, 1, 2, note="strided")


# -- several views at once ---------------------------------------------------------------------------------------


def _windows(geometry: Geometry, dim: int, lengths: Any) -> list[Geometry]:
    starts = accumulate(lengths[:-1], initial=0)
    return [geometry.window(dim, start, length) for start, length in zip(starts, lengths)]


def _pieces(size: int, length: int) -> list[int]:
    """`size` cut into pieces of `length`, the last one perhaps shorter."""
    if length == 0:
        return [0]
    lengths, rest = [], size
    while rest > length:
        lengths.append(length)
        rest = rest - length
    return [*lengths, rest]


def _rejoined(F: Ops, g: Sequence[Tensor], meta: Meta, dim: int, lengths: Sequence[int]) -> Tensor:
    """The gradient of a split: the pieces side by side again, zeros where a piece was not used."""
    at = wrap_dim(dim, meta.ndim)
    sizes = [[*meta.shape[:at], length, *meta.shape[at + 1 :]] for length in lengths]
    parts = [F.zeros(s, dtype=meta.dtype, device=meta.device) if p is None else p for p, s in zip(g, sizes)]
    return F.cat(parts, at)


def _onnx_split(g: OnnxWriter, self: Value, dim: int, lengths: Sequence[int]) -> Any:
    if len(lengths) == 1:
        return (g.op("Identity", self),)
    return g.op("Split", self, g.ints(list(lengths)), axis=wrap_dim(dim, self.ndim), outputs=len(lengths))


def _static(g: OnnxWriter, self: Value, dim: int) -> int:
    size = self.shape[wrap_dim(dim, self.ndim)]
    if not isinstance(size, int):
        raise g.unsupported(f"dim {dim} is dynamic, and the number of pieces depends on its size")
    return size


@view("aten::split.Tensor(Tensor(a -> *) self, int split_size, int dim=0) -> Tensor(a)[]", pieces=lambda: True,
      grad=dict(self=lambda F, g, self_meta, split_size, dim:
                _rejoined(F, g, self_meta, dim, _pieces(self_meta.shape[dim], split_size))),
      scatter=lambda F, base, source, index, split_size, dim:
      F.slice_scatter(base, source, dim, index * split_size, (index + 1) * split_size))  # fmt: skip
def split(geometry: Geometry, split_size: int, dim: int) -> list[Geometry]:
    """Views of consecutive parts of dim, of split_size entries (the last perhaps fewer) or of the sizes in a list."""
    if geometry.ndim == 0:
        raise DimError("split: expects at least a 1-dim tensor")
    at = wrap_dim(dim, geometry.ndim)
    if split_size < 0 or (split_size == 0 and geometry.sizes[at]):
        raise ShapeError(f"split: cannot cut dim {dim} of size {geometry.sizes[at]} into pieces of {split_size}")
    return _windows(geometry, at, _pieces(geometry.sizes[at], split_size))


@split.onnx
def _(g: OnnxWriter, self: Value, split_size: int, dim: int) -> Sequence[Value]:
    return _onnx_split(g, self, dim, _pieces(_static(g, self, dim), split_size))


@split.samples
def _() -> Iterator[Sample]:
    yield sample(make(5, 2), 2)
    yield sample(make(3, 4), 2, -1)
    yield sample(make(3, 4), 9, 1)
    yield sample(make(0, 2), 2, note="empty", onnx=False)
    yield sample(strided(make(4, 3)), 2, note="strided")


@view("aten::split_with_sizes(Tensor(a -> *) self, int[] split_sizes, int dim=0) -> Tensor(a)[]",
      grad=dict(self=lambda F, g, self_meta, split_sizes, dim:
                _rejoined(F, g, self_meta, dim, split_sizes)),
      scatter=lambda F, base, source, index, split_sizes, dim:
      F.slice_scatter(base, source, dim, sum(split_sizes[:index]), sum(split_sizes[: index + 1])))  # fmt: skip
def split_with_sizes(geometry: Geometry, split_sizes: Ints, dim: int) -> list[Geometry]:
    """Views of consecutive parts of dim, of the sizes split_sizes, which sum to that of dim."""
    if geometry.ndim == 0:
        raise DimError("split_with_sizes: expects at least a 1-dim tensor")
    at = wrap_dim(dim, geometry.ndim)
    if sum(split_sizes) != geometry.sizes[at] or any(size < 0 for size in split_sizes):
        raise ShapeError(
            f"split: {list(split_sizes)} should sum to the size {geometry.sizes[at]} of dim {dim}, and none be negative"
        )
    return _windows(geometry, at, split_sizes)


@split_with_sizes.onnx
def _(g: OnnxWriter, self: Value, split_sizes: Ints, dim: int) -> Sequence[Value]:
    return _onnx_split(g, self, dim, split_sizes)


@split_with_sizes.samples
def _() -> Iterator[Sample]:
    yield sample(make(5, 2), [2, 3])
    yield sample(make(3, 4), [1, 2, 1], -1)
    yield sample(make(3, 4), [4, 0], 1, note="empty piece", onnx=False)


@composite("aten::split.sizes(Tensor(a -> *) self, int[] split_size, int dim=0) -> Tensor(a)[]")
def split_sizes(F: Ops, self: Tensor, split_size: Ints, dim: int) -> list[Tensor]:
    return F.split_with_sizes(self, split_size, dim)


@split_sizes.samples
def _() -> Iterator[Sample]:
    yield sample(make(5, 2), [1, 4])


def _chunk_scatter(F: Ops, base: Tensor, source: Tensor, index: int, chunks: int, dim: int) -> Tensor:
    length = -(-base.shape[dim] // chunks)
    return F.slice_scatter(base, source, dim, index * length, (index + 1) * length)


def _chunks(size: int, chunks: int) -> list[int]:
    length = -(-size // chunks)
    return [0] * chunks if length == 0 else _pieces(size, length)


@view("aten::chunk(Tensor(a -> *) self, int chunks, int dim=0) -> Tensor(a)[]",
      pieces=lambda chunks: chunks not in (1, 2),
      grad=dict(self=lambda F, g, self_meta, chunks, dim:
                _rejoined(F, g, self_meta, dim, _chunks(self_meta.shape[dim], chunks))),
      scatter=lambda F, base, source, index, chunks, dim: _chunk_scatter(F, base, source, index, chunks, dim),
      )  # fmt: skip
def chunk(geometry: Geometry, chunks: int, dim: int) -> list[Geometry]:
    """Views of at most `chunks` consecutive parts of dim, all of one size but the last."""
    if geometry.ndim == 0:
        raise DimError("chunk: expects at least a 1-dim tensor")
    if chunks <= 0:
        raise UsageError(f"chunk: expects at least one chunk, got {chunks}")
    at = wrap_dim(dim, geometry.ndim)
    return _windows(geometry, at, _chunks(geometry.sizes[at], chunks))


@chunk.onnx
def _(g: OnnxWriter, self: Value, chunks: int, dim: int) -> Sequence[Value]:
    return _onnx_split(g, self, dim, _chunks(_static(g, self, dim), chunks))


@chunk.samples
def _() -> Iterator[Sample]:
    yield sample(make(2, 8), 4, 1)
    yield sample(make(5, 2), 3)
    yield sample(make(5, 2), 4, note="fewer chunks than asked for")
    yield sample(make(2, 6), 2, -1)
    yield sample(make(0, 2), 3, note="empty", onnx=False)
    yield sample(strided(make(4, 6)), 3, 1, note="strided")


def _restacked(F: Ops, g: Sequence[Tensor], meta: Meta, dim: int) -> Tensor:
    at = wrap_dim(dim, meta.ndim)
    shape = [*meta.shape[:at], *meta.shape[at + 1 :]]
    if not len(g):
        return F.zeros(meta.shape, dtype=meta.dtype, device=meta.device)
    return F.stack([F.zeros(shape, dtype=meta.dtype, device=meta.device) if p is None else p for p in g], at)


@view("aten::unbind.int(Tensor(a -> *) self, int dim=0) -> Tensor(a)[]",
      grad=dict(self=lambda F, g, self_meta, dim: _restacked(F, g, self_meta, dim)),
      scatter=lambda F, base, source, index, dim: F.select_scatter(base, source, dim, index))  # fmt: skip
def unbind(geometry: Geometry, dim: int) -> list[Geometry]:
    """A view of each entry of dim, without that dim."""
    if geometry.ndim == 0:
        raise DimError("unbind: a 0-dim tensor has no dim to unbind")
    at = wrap_dim(dim, geometry.ndim)
    first, step = geometry.drop((at,)), geometry.strides[at]
    return [first._replace(offset=geometry.offset + i * step) for i in range(geometry.sizes[at])]


@unbind.numpy_grad
def _(m: Numpy, g: Sequence[Array | None], self_meta: Meta, dim: int) -> Sequence[Array | None] | None:
    return None if any(each is None for each in g) else (m.stack(g, dim),)


@unbind.onnx
def _(g: OnnxWriter, self: Value, dim: int) -> Sequence[Value]:
    at = wrap_dim(dim, self.ndim)
    entries = range(_static(g, self, dim))
    return tuple(g.op("Gather", self, g.constant(i, dtype="int64"), axis=at) for i in entries)


@unbind.samples
def _() -> Iterator[Sample]:
    yield sample(make(3, 2))
    yield sample(make(2, 3), -1)
    yield sample(make(3), note="to 0-d")
    yield sample(strided(make(3, 2)), 1, note="strided")


def _section_sizes(size: int, sections: int) -> list[int]:
    return [(size + sections - 1 - i) // sections for i in range(sections)]


@composite("aten::tensor_split.sections(Tensor(a -> *) self, int sections, int dim=0) -> Tensor(a)[]")
def tensor_split(F: Ops, self: Tensor, sections: int, dim: int) -> list[Tensor]:
    """Views of consecutive parts of dim: `sections` of them, as equal as can be, or cut at each of `indices`."""
    if sections <= 0:
        raise UsageError(f"tensor_split: expects at least one section, got {sections}")
    return F.split_with_sizes(self, _section_sizes(self.shape[wrap_dim(dim, self.ndim)], sections), dim)


@tensor_split.samples
def _() -> Iterator[Sample]:
    yield sample(make(7, 2), 3)
    yield sample(make(2, 4), 2, -1)


@composite("aten::tensor_split.indices(Tensor(a -> *) self, int[] indices, int dim=0) -> Tensor(a)[]")
def tensor_split_indices(F: Ops, self: Tensor, indices: Ints, dim: int) -> list[Tensor]:
    bounds = [*indices, None]
    return [F.slice(self, dim, start, end) for start, end in zip([0, *indices], bounds)]


@tensor_split_indices.samples
def _() -> Iterator[Sample]:
    yield sample(make(7, 2), [2, 5])
    yield sample(make(2, 7), [3], 1)


# -- windows, diagonals and arbitrary strides --------------------------------------------------------------------


@view("aten::unfold(Tensor(a) self, int dimension, int size, int step) -> Tensor(a)", namespaces=("Tensor",),
      grad=dict(self=lambda F, g, self_meta, dimension, size, step:
                F.unfold_backward(g, self_meta.shape, dimension, size, step)))  # fmt: skip
def unfold(geometry: Geometry, dimension: int, size: int, step: int) -> Geometry:
    """Windows of `size` entries along a dim, one every `step` entries; their entries lie in a new last dim."""
    at = wrap_dim(dimension, geometry.ndim)
    if geometry.ndim == 0:
        if size > 1:
            raise ShapeError(f"unfold: size {size} exceeds the one entry of a 0-dim tensor")
        return Geometry((size,), (1,), geometry.offset)
    if step <= 0 or size < 0 or size > geometry.sizes[at]:
        raise ShapeError(
            f"unfold: windows of size {size} at step {step} do not fit dim {dimension} of size {geometry.sizes[at]}"
        )
    count = (geometry.sizes[at] - size) // step + 1
    return geometry.window(at, 0, count, step).insert(geometry.ndim, size, geometry.strides[at])


@unfold.onnx
def _(g: OnnxWriter, self: Value, dimension: int, size: int, step: int) -> Value:
    if self.ndim == 0:
        return onnx_reshape(g, self, [1])
    at = wrap_dim(dimension, self.ndim)
    windows = g.op("Gather", self, _onnx_windows(g, self.shape[at], size, step), axis=at)
    order = [d for d in range(self.ndim + 1) if d != at + 1]
    return g.op("Transpose", windows, perm=[*order, at + 1])


def _onnx_windows(g: OnnxWriter, length: int, size: int, step: int) -> Value:
    """The places of the entries of each window."""
    if type(length) is int:
        starts = range(0, length - size + 1, step)
        return g.constant([[s + i for i in range(size)] for s in starts], dtype="int64")
    starts_now = _onnx_sequence(g, (length - size) // step + 1, step, 0)
    return g.op("Add", g.op("Unsqueeze", starts_now, g.ints([1])), g.ints(list(range(size))))


def _onnx_sequence(g: OnnxWriter, count: int, step: int, first: int) -> Value:
    """The numbers first, first + step, ..., of which there are `count`."""
    one = g.constant(1, dtype="int64")
    numbers = g.op("Range", g.constant(0, dtype="int64"), g.constant(count, dtype="int64"), one)
    return g.op("Add", g.op("Mul", numbers, g.constant(step, dtype="int64")), g.constant(first, dtype="int64"))


@unfold.samples
def _() -> Iterator[Sample]:
    yield sample(make(7), 0, 3, 2)
    yield sample(make(2, 5), -1, 2, 1)
    yield sample(make(4, 3), 0, 2, 2)
    yield sample(make(), 0, 1, 1, note="0-d")
    yield sample(strided(make(5, 3)), 0, 3, 1, note="strided")


def diagonal_length(rows: int, columns: int, offset: int) -> int:
    """The number of entries of the diagonal at `offset`."""
    return max(min(rows, columns - offset) if offset >= 0 else min(rows + offset, columns), 0)


def _two_dims(name: str, dim1: int, dim2: int, ndim: int) -> tuple[int, int]:
    a, b = wrap_dim(dim1, ndim), wrap_dim(dim2, ndim)
    if a == b:
        raise UsageError(f"{name}: dim1 and dim2 are both {a}; name two different dims")
    return a, b


@view("aten::diagonal(Tensor(a) self, int offset=0, int dim1=0, int dim2=1) -> Tensor(a)",
      grad=dict(self=lambda F, g, self_meta, offset, dim1, dim2:
                F.diagonal_backward(g, self_meta.shape, offset, dim1, dim2)),
      scatter=lambda F, base, source, offset, dim1, dim2:
      F.diagonal_scatter(base, source, offset, dim1, dim2))  # fmt: skip
def diagonal(geometry: Geometry, offset: int, dim1: int, dim2: int) -> Geometry:
    """The diagonal of the dims dim1 and dim2 as a new last dim; a positive `offset` goes up, a negative one down."""
    a, b = _two_dims("diagonal", dim1, dim2, geometry.ndim)
    length = diagonal_length(geometry.sizes[a], geometry.sizes[b], offset)
    stride_a, stride_b = geometry.strides[a], geometry.strides[b]
    start = 0 if length == 0 else max(offset, 0) * stride_b + max(-offset, 0) * stride_a
    rest = geometry.drop((a, b))._replace(offset=geometry.offset + start)
    return rest.insert(rest.ndim, length, stride_a + stride_b)


@diagonal.onnx
def _(g: OnnxWriter, self: Value, offset: int, dim1: int, dim2: int) -> Value:
    a, b = _two_dims("diagonal", dim1, dim2, self.ndim)
    columns, length = self.shape[b], g.out.shape[-1]
    first = columns * max(-offset, 0) + max(offset, 0)
    if type(columns) is int and type(length) is int:
        entries = g.constant([first + i * (columns + 1) for i in range(length)], dtype="int64")
    else:
        entries = _onnx_sequence(g, length, columns + 1, first)
    others = [d for d in range(self.ndim) if d not in (a, b)]
    last = g.op("Transpose", self, perm=[*others, a, b])
    flat = g.op("Reshape", last, g.ints([*([0] * len(others)), -1]))
    return g.op("Gather", flat, entries, axis=len(others))


@diagonal.samples
def _() -> Iterator[Sample]:
    yield sample(make(3, 4))
    yield sample(make(3, 4), 1)
    yield sample(make(3, 4), -2)
    yield sample(make(2, 3, 3), 0, 1, -1)
    yield sample(make(3, 2, 3), 1, -1, 0)
    yield sample(make(3, 4), 9, note="empty", onnx=False)
    yield sample(strided(make(4, 4)), note="strided")


@view("aten::as_strided(Tensor(a) self, int[] size, int[] stride, int? storage_offset=None) -> Tensor(a)",
      is_absolute=True,
      grad=dict(self=lambda F, g, self_meta, size, stride, storage_offset:
                _as_strided_backward(F, g, self_meta, size, stride, storage_offset)),
      scatter=lambda F, base, source, size, stride, storage_offset:
      F.as_strided_scatter(base, source, size, stride, storage_offset))  # fmt: skip
def as_strided(geometry: Geometry, size: Ints, stride: Ints, storage_offset: int | None) -> Geometry:
    """The elements of self's storage in these sizes and strides, from storage_offset on (None: where self begins)."""
    if len(size) != len(stride):
        raise ShapeError(f"as_strided: size {list(size)} and stride {list(stride)} should be equally long")
    if any(n < 0 for n in (*size, *stride)):
        raise ShapeError(f"as_strided: sizes {list(size)} and strides {list(stride)} must not be negative")
    return Geometry(tuple(size), tuple(stride), geometry.offset if storage_offset is None else storage_offset)


def _as_strided_backward(F: Ops, g: Tensor, meta: Meta, size: Ints, stride: Ints, storage_offset: int | None) -> Tensor:
    """The gradient needs the geometry of the input too, for strides count in its storage."""
    start = meta.storage_offset()
    first = start if storage_offset is None else storage_offset
    return F.as_strided_backward(g, meta.shape, meta.stride(), size, stride, first - start)


@as_strided.onnx
def _(g: OnnxWriter, self: Value, size: Ints, stride: Ints, storage_offset: int | None) -> Value:
    places = [storage_offset or 0]
    for count, step in zip(size, stride):
        places = [p + i * step for p in places for i in range(count)]
    picked = g.op("Gather", g.op("Reshape", self, g.ints([-1])), g.constant(places, dtype="int64"), axis=0)
    return onnx_reshape(g, picked, size)


@as_strided.samples
def _() -> Iterator[Sample]:
    yield sample(make(3, 4), [2, 2], [1, 2])
    yield sample(make(3, 4), [2, 3], [4, 1], 2)
    yield sample(make(5), [3, 3], [1, 1], note="overlapping")
    yield sample(make(5), [], [], 3, note="to 0-d")


# -- the same tensor ---------------------------------------------------------------------------------------------


@view("aten::alias(Tensor(a) self) -> Tensor(a)", shows_all=True, namespaces=(), onnx="Identity",
      grad=dict(self=lambda F, g: g), scatter=lambda F, base, source: source)  # fmt: skip
def alias(geometry: Geometry) -> Geometry:
    """self as a new tensor over the same memory."""
    return geometry


@alias.samples
def _() -> Iterator[Sample]:
    yield sample(make(2, 3))
    yield sample(strided(make(2, 3)), note="strided")


@view("aten::detach(Tensor(a) self) -> Tensor(a)", onnx="Identity", scatter=lambda F, base, source: source,
      shows_all=True, grad=absent("cuts the gradient on purpose"))  # fmt: skip
def detach(geometry: Geometry) -> Geometry:
    """self as a tensor over the same memory, cut off from the gradient."""
    return geometry


@detach.samples
def _() -> Iterator[Sample]:
    yield sample(make(2, 3), grad=False)
    yield sample(make(), note="0-d", grad=False)
