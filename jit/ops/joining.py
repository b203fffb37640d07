"""Joining, padding, repeating and reordering: every element of the result is a copy of one of the inputs."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from jit.ir import dtypes
from jit.ir.errors import DimError, ShapeError, UsageError
from jit.ir.fitting import fitted
from jit.ir.geometry import broadcast_shapes, wrap_dim, wrap_dims
from jit.ir.kernel import Kernel
from jit.ir.op import absent, array, composite
from jit.ir.precision import WIDEST, Precision
from jit.ir.samples import Sample, make, sample, strided
from jit.ir.types import TensorType

if TYPE_CHECKING:
    from .protocols import Array, Ints, KnownType, Meta, Number, Numpy, OnnxWriter, Ops, Tensor, Value

# -- joining -----------------------------------------------------------------------------------------------------


def _is_nothing(shape: Sequence[int]) -> bool:
    """A 1-d tensor without elements, which ATen lets stand beside tensors of any shape (a dynamic size is not 0)."""
    return len(shape) == 1 and isinstance(shape[0], int) and shape[0] == 0


def _joined_shape(shapes: Any, dim: int) -> tuple[list[int], int]:
    """(sizes of the concatenation, dim made non-negative)."""
    if not shapes:
        raise ShapeError("cat: expects at least one tensor")
    real = [s for s in shapes if not _is_nothing(s)] or [shapes[0]]
    first = list(real[0])
    if not first:
        raise ShapeError("cat: 0-dim tensors cannot be concatenated; use stack")
    at = 0 if _is_nothing(first) else wrap_dim(dim, len(first))  # of nothing but such, any dim will do
    for shape in real:
        if len(shape) != len(first) or any(a != b for i, (a, b) in enumerate(zip(shape, first)) if i != at):
            raise ShapeError(f"cat: the sizes {list(shape)} and {first} differ in a dim other than {at}")
    return [*first[:at], sum(s[at] for s in real), *first[at + 1 :]], at


@WIDEST
@array("aten::cat(Tensor[] tensors, int dim=0) -> Tensor", namespaces=("jit",), aliases=("concat", "concatenate"),
       kernel=Kernel("join", step="join", moves=True),
       promote="common", grad=lambda F, g, tensors_meta, dim: (_cut(F, g, tensors_meta, dim),))  # fmt: skip
def cat(m: Numpy, tensors: Sequence[Array], dim: int) -> Array:
    """The tensors one behind the other along dim; their other dims have equal sizes."""
    sizes, at = _joined_shape([t.shape for t in tensors], dim)
    parts = [t for t in tensors if not _is_nothing(t.shape)] or [tensors[0]]
    return m.concatenate(parts, axis=at, out=m.empty(sizes, parts[0].dtype))


def _cut(F: Ops, g: Tensor, metas: Sequence[Meta], dim: int) -> list[Any]:
    """Each tensor's part of the gradient of a concatenation, in the dtype that the tensor had."""
    parts, start = [], 0
    for meta in metas:
        length = 0 if meta.ndim == 1 and g.ndim != 1 else meta.shape[dim]
        part = F.narrow(g, dim, start, length)
        part = part if part.ndim == meta.ndim else F.reshape(part, meta.shape)
        parts.append(part if part.dtype is meta.dtype else F._to_copy(part, dtype=meta.dtype))
        start = start + length
    return parts


@cat.type
def _(tensors: Sequence[KnownType], dim: int) -> TensorType:
    sizes, _ = _joined_shape([t.sizes for t in tensors], dim)
    return TensorType(common_dtype(tensors), tuple(sizes), None, tensors[0].device)


def common_dtype(tensors: Sequence[KnownType]) -> dtypes.DType:
    """The dtype in which tensors of several types are joined."""
    return dtypes.result_type([(t.dtype, t.ndim, t) for t in tensors])


@cat.onnx
def _(g: OnnxWriter, tensors: Sequence[Value], dim: int) -> Value:
    parts = [t for t in tensors if not _is_nothing(t.shape)] or [tensors[0]]
    if len(parts) == 1:
        return g.op("Identity", parts[0])
    return g.op("Concat", *parts, axis=wrap_dim(dim, parts[0].ndim))


@cat.samples
def _() -> Iterator[Sample]:
    yield sample([make(2, 3), make(4, 3, seed=1)])
    yield sample([make(2, 3), make(2, 1, seed=1), make(2, 2, seed=2)], 1)
    yield sample([make(2, 3), make(2, 1, seed=1)], -1)
    yield sample([make(2, 3)], 0, note="one tensor")
    yield sample([make(2, 3), make(0, 3)], 0, note="empty", onnx=False)
    yield sample([make(2, 3), make(0)], 1, note="1-d without elements", onnx=False)
    yield sample([strided(make(2, 3)), make(4, 3, seed=1)], note="strided")
    yield sample([make(2), make(2, dtype="float64")], note="mixed dtypes")
    yield sample([make(2, low=-9, high=9, dtype="int64"), make(2)], note="mixed dtypes", grad=False)
    yield sample([make(2, dtype="float16"), make(1, dtype="float16")], note="half", grad=False)


@WIDEST
@composite("aten::stack(Tensor[] tensors, int dim=0) -> Tensor", kernel=Kernel(moves=True), namespaces=("jit",))
def stack(F: Ops, tensors: Sequence[Tensor], dim: int) -> Tensor:
    """The tensors, all of the same sizes, side by side in a new dim."""
    if not tensors:
        raise ShapeError("stack: expects at least one tensor")
    first = tuple(tensors[0].shape)
    for tensor in tensors[1:]:
        if tuple(tensor.shape) != first:
            raise ShapeError(f"stack: the tensors should have equal sizes, got {list(first)} and {list(tensor.shape)}")
    at = wrap_dim(dim, len(first) + 1)
    return F.cat([F.unsqueeze(t, at) for t in tensors], at)


@stack.samples
def _() -> Iterator[Sample]:
    yield sample([make(2, 3), make(2, 3, seed=1)])
    yield sample([make(2, 3), make(2, 3, seed=1)], -1)
    yield sample([make(), make(seed=1)], note="0-d")


def _rows(F: Ops, tensors: Sequence[Tensor], ndim: int) -> list[Any]:
    return [F.reshape(t, [1] * (ndim - t.ndim) + list(t.shape)) if t.ndim < ndim else t for t in tensors]


@composite("aten::hstack(Tensor[] tensors) -> Tensor", namespaces=("jit",))
def hstack(F: Ops, tensors: Sequence[Tensor]) -> Tensor:
    """The tensors joined along dim 1; vectors, and 0-d tensors as vectors, along dim 0."""
    lines = _rows(F, tensors, 1)
    return F.cat(lines, 0 if not lines or lines[0].ndim == 1 else 1)


@hstack.samples
def _() -> Iterator[Sample]:
    yield sample([make(2), make(3, seed=1)])
    yield sample([make(2, 1), make(2, 3, seed=1)])


@composite("aten::vstack(Tensor[] tensors) -> Tensor", namespaces=("jit",), aliases=("row_stack",))
def vstack(F: Ops, tensors: Sequence[Tensor]) -> Tensor:
    """The tensors joined along dim 0, with at least two dims: a vector is a row."""
    return F.cat(_rows(F, tensors, 2), 0)


@vstack.samples
def _() -> Iterator[Sample]:
    yield sample([make(3), make(3, seed=1)])
    yield sample([make(2, 3), make(1, 3, seed=1)])


# -- padding -----------------------------------------------------------------------------------------------------


def _by_dim(pad: Ints, ndim: int) -> list[tuple[int, int]]:
    """ATen's pad, which begins at the last dim, as (before, after) of each dim."""
    if len(pad) % 2 or len(pad) > 2 * ndim:
        raise ShapeError(f"pad: {list(pad)} should hold two numbers for each of the last dims, at most {ndim}")
    pairs = [(pad[i], pad[i + 1]) for i in range(0, len(pad), 2)]
    return [(0, 0)] * (ndim - len(pairs)) + pairs[::-1]


def _padded_shape(shape: Ints, pad: Ints) -> tuple[int, ...]:
    sizes = tuple(s + before + after for s, (before, after) in zip(shape, _by_dim(pad, len(shape))))
    if any(size < 0 for size in sizes):
        raise ShapeError(f"pad: {list(pad)} cuts {list(shape)} down to negative sizes")
    return sizes


@array("aten::constant_pad_nd(Tensor self, int[] pad, Scalar value=0) -> Tensor", namespaces=("jit",),
       kernel=Kernel(moves=True),
       grad=dict(self=lambda F, g, pad: F.constant_pad_nd(g, [-p for p in pad])))  # fmt: skip
def constant_pad_nd(m: Numpy, self: Array, pad: Ints, value: Number) -> Array:
    """self with `value` around it: two lengths, before and after, for each dim from the last on; negative ones cut."""
    out = m.full(_padded_shape(self.shape, pad), fitted(value, self.dtype), self.dtype)
    pairs = _by_dim(pad, self.ndim)
    kept = tuple(slice(max(-before, 0), s - max(-after, 0)) for s, (before, after) in zip(self.shape, pairs))
    place = tuple(slice(max(before, 0), s - max(after, 0)) for s, (before, after) in zip(out.shape, pairs))
    out[place] = self[kept]
    return out


@constant_pad_nd.type
def _(self: KnownType, pad: Ints, value: Number) -> TensorType:
    return TensorType(self.dtype, _padded_shape(self.sizes, pad), None, self.device)


@constant_pad_nd.onnx
def _(g: OnnxWriter, self: Value, pad: Ints, value: Number) -> Value:
    pairs = _by_dim(pad, self.ndim)
    return g.op("Pad", self, g.ints([p[0] for p in pairs] + [p[1] for p in pairs]), g.constant(value, like=self))


@constant_pad_nd.samples
def _() -> Iterator[Sample]:
    yield sample(make(2, 3), [1, 2])
    yield sample(make(2, 3), [1, 0, 0, 2], 1.5)
    yield sample(make(4, 5), [-1, 2, 1, -1], note="cuts")
    yield sample(make(2, 3), [0, 0])
    yield sample(make(0, 3), [0, 0, 1, 1], note="empty", onnx=False)
    yield sample(strided(make(2, 3)), [1, 1], note="strided")
    yield sample(make(3, low=-9, high=9, dtype="int64"), [1, 1], 7, note="integer", grad=False)


def _source_rows(m: Numpy, mode: str, size: int, before: int, after: int) -> Any:
    """The entry of a dim that each entry of the padded dim copies."""
    if mode == "circular":  # negative padding cuts first; what is left wraps around
        start, left = max(-before, 0), size - max(-before, 0) - max(-after, 0)
        return start + m.arange(-max(before, 0), left + max(after, 0)) % max(left, 1)
    places = m.arange(-before, size + after)
    if mode == "replicate":
        return m.clip(places, 0, size - 1)
    return size - 1 - m.abs(size - 1 - m.abs(places))


def _check_pad(mode: str, shape: Ints, pad: Ints) -> list[tuple[int, int]]:
    limits = {"reflect": -1, "circular": 0}
    pairs = _by_dim(pad, len(shape))
    for size, pair in zip(shape, pairs):
        if pair != (0, 0) and (size == 0 or (mode in limits and max(pair) > size + limits[mode])):
            raise ShapeError(f"pad: {mode} padding {list(pad)} is too large for the sizes {list(shape)}")
    _padded_shape(shape, pad)
    return pairs


@Precision(cpu="float32")
@array("aten::edge_pad_nd(Tensor self, int[] pad, str mode) -> Tensor", kernel=Kernel(moves=True), namespaces=(),
       grad=dict(self=lambda F, g, self_meta, pad, mode:
                 F.edge_pad_nd_backward(g, self_meta.shape, pad, mode)))  # fmt: skip
def edge_pad_nd(m: Numpy, self: Array, pad: Ints, mode: str) -> Array:
    """self longer by its own elements: their mirror image (reflect), the ends (replicate), or around (circular)."""
    pairs = _check_pad(mode, self.shape, pad)
    for dim, (before, after) in enumerate(pairs):
        if before or after:
            self = m.take(self, _source_rows(m, mode, self.shape[dim], before, after), axis=dim)
    return m.array(self, order="C")


@edge_pad_nd.type
def _(self: KnownType, pad: Ints, mode: str) -> TensorType:
    _check_pad(mode, self.sizes, pad)
    return TensorType(self.dtype, _padded_shape(self.sizes, pad), None, self.device)


@edge_pad_nd.onnx
def _(g: OnnxWriter, self: Value, pad: Ints, mode: str) -> Value:
    pairs = _by_dim(pad, self.ndim)
    pads = g.ints([p[0] for p in pairs] + [p[1] for p in pairs])
    if mode == "circular" and g.opset < 19:
        raise g.unsupported("Pad wraps around only", since=19)
    if mode == "circular" and min(pad) < 0:
        raise g.unsupported("Pad does not cut and wrap around at once")
    return g.op("Pad", self, pads, mode={"reflect": "reflect", "replicate": "edge", "circular": "wrap"}[mode])


@edge_pad_nd.samples
def _() -> Iterator[Sample]:
    for mode in ("reflect", "replicate", "circular"):
        yield sample(make(2, 3, 4), [1, 2], mode)
        yield sample(make(2, 3, 4), [2, 1, 0, 1], mode)
    yield sample(strided(make(2, 4)), [1, 1], "reflect", note="strided")
    yield sample(make(2, 5), [-1, 2], "circular", note="cuts", onnx=False)


@array("aten::edge_pad_nd_backward(Tensor grad_output, int[] input_sizes, int[] pad, str mode) -> Tensor",
       namespaces=(), onnx=absent("the gradient of a reflecting or repeating pad has no ONNX operator"),
       grad=dict(grad_output=lambda F, g, pad, mode: F.edge_pad_nd(g, pad, mode)))  # fmt: skip
def edge_pad_nd_backward(m: Numpy, grad_output: Array, input_sizes: Ints, pad: Ints, mode: str) -> Array:
    """The gradient of edge_pad_nd's input: each element sums the gradients of its copies."""
    for dim, (before, after) in enumerate(_by_dim(pad, len(input_sizes))):
        if before or after:
            rows = _source_rows(m, mode, input_sizes[dim], before, after)
            grad_output = _edges_added(m, grad_output, rows, input_sizes[dim], dim, max(before, 0), max(after, 0))
    return m.array(grad_output, order="C")


def _edges_added(m: Numpy, g: Array, rows: Array, size: int, dim: int, before: int, after: int) -> Array:
    """Sums along `dim` of the entries that come from the same of `size` rows. Those between the edges come from rows in
    a line; as many of an edge come from rows that are all others, or all the same."""

    def along(places: slice | Array) -> tuple[slice | Array, ...]:
        return (slice(None),) * dim + (places,)

    end = g.shape[dim] - after
    sums = m.zeros((*g.shape[:dim], size, *g.shape[dim + 1 :]), g.dtype)
    if end > before:
        first = int(rows[before])
        sums[along(slice(first, first + end - before))] = g[along(slice(before, end))]
    pieces = [(at, min(at + max(end - before, 1), stop)) for start, stop in ((0, before), (end, end + after))
              for at in range(start, stop, max(end - before, 1))]  # fmt: skip
    for start, stop in pieces:
        there, part = rows[start:stop], g[along(slice(start, stop))]
        if len(there) > 1 and there[0] == there[1]:
            sums[along(there[0])] += m.sum(part, axis=dim, dtype=g.dtype)
        else:
            sums[along(there)] += part
    return sums


@edge_pad_nd_backward.type
def _(grad_output: KnownType, input_sizes: Ints, pad: Ints, mode: str) -> TensorType:
    return TensorType(grad_output.dtype, tuple(input_sizes), None, grad_output.device)


@edge_pad_nd_backward.samples
def _() -> Iterator[Sample]:
    yield sample(make(2, 3, 7), [2, 3, 4], [1, 2], "reflect")
    yield sample(make(2, 4, 7), [2, 3, 4], [2, 1, 0, 1], "replicate")
    yield sample(make(2, 7), [2, 4], [1, 2], "circular")
    yield sample(make(2, 6), [2, 5], [-1, 2], "circular", note="cuts")
    yield sample(make(2, 4, 2), [2, 3, 2], [0, 0, -1, 2], "replicate", note="cuts of an inner dim")
    yield sample(make(2, 12), [2, 4], [4, 4], "circular", note="all around")
    yield sample(make(2, 5), [2, 3], [-1, 3], "circular", note="cuts, then more than once around")


@composite('aten::pad(Tensor self, int[] pad, str mode="constant", float? value=None) -> Tensor',
           namespaces=("nn.functional",))  # fmt: skip
def pad(F: Ops, self: Tensor, pad: Ints, mode: str, value: float | None) -> Tensor:
    """self padded with a constant or, by mode, its own elements: two lengths for each dim from the last on."""
    if mode == "constant":
        return F.constant_pad_nd(self, pad, 0 if value is None else value)
    if mode not in ("reflect", "replicate", "circular"):
        raise UsageError(f"pad: mode {mode!r} is none of constant, reflect, replicate, circular")
    return F.edge_pad_nd(self, pad, mode)


@pad.samples
def _() -> Iterator[Sample]:
    yield sample(make(2, 3), [1, 2], value=1.0)
    yield sample(make(2, 3, 4), [1, 2], "reflect")
    yield sample(make(2, 3, 4), [1, 2], "replicate")


# -- the same elements elsewhere ---------------------------------------------------------------------------------


@array(
    "aten::flip(Tensor self, int[] dims) -> Tensor",
    kernel=Kernel(moves=True),
    grad=dict(self=lambda F, g, dims: F.flip(g, dims)),
)
def flip(m: Numpy, self: Array, dims: Ints) -> Array:
    """self with the entries of these dims in reversed order."""
    axes = wrap_dims(tuple(dims), self.ndim) if dims else ()
    return m.array(m.flip(self, axes) if self.ndim else self, order="C")


@flip.type
def _(self: KnownType, dims: Ints) -> TensorType:
    wrap_dims(tuple(dims), len(self.sizes or ()))
    return TensorType(self.dtype, self.shape, None, self.device)


@flip.onnx
def _(g: OnnxWriter, self: Value, dims: Ints) -> Value:
    if not dims or not self.ndim:
        return g.op("Identity", self)
    axes = [wrap_dim(d, self.ndim) for d in dims]
    ones = [-1] * len(axes)
    return g.op("Slice", self, g.ints(ones), g.ints([-(2**63)] * len(axes)), g.ints(axes), g.ints(ones))


@flip.samples
def _() -> Iterator[Sample]:
    yield sample(make(2, 3), [0])
    yield sample(make(2, 3, 4), [0, -1])
    yield sample(make(2, 3), [], note="no dims")
    yield sample(make(0, 3), [1], note="empty")
    yield sample(strided(make(2, 3)), [1], note="strided")


def _opposite(shifts: Ints) -> list[int]:
    return [-s for s in shifts]


@array("aten::roll(Tensor self, int[1] shifts, int[1] dims=[]) -> Tensor", kernel=Kernel(moves=True),
       offsets=("shifts",), grad=dict(self=lambda F, g, shifts, dims: F.roll(g, _opposite(shifts), dims)))  # fmt: skip
def roll(m: Numpy, self: Array, shifts: Ints, dims: Ints) -> Array:
    """self with the entries of dims moved on by shifts; what leaves at one end comes in at the other."""
    if not shifts:
        raise UsageError("roll: expects at least one shift")
    if not dims and len(shifts) == 1:
        return m.roll(self, shifts[0])
    if len(shifts) != len(dims):
        raise ShapeError(f"roll: shifts {list(shifts)} and dims {list(dims)} should be equally long")
    if self.ndim == 0:
        raise DimError("roll: a 0-d tensor has no dim to roll; leave dims out")
    return m.array(m.roll(self, tuple(shifts), tuple(wrap_dim(d, self.ndim) for d in dims)), order="C")


@roll.type
def _(self: KnownType, shifts: Ints, dims: Ints) -> TensorType:
    return TensorType(self.dtype, self.shape, None, self.device)


@roll.onnx
def _(g: OnnxWriter, self: Value, shifts: Ints, dims: Ints) -> Value:
    if dims:
        return _onnx_roll(g, self, shifts, [wrap_dim(d, self.ndim) for d in dims]) if self.ndim else self
    flat = _onnx_roll(g, g.op("Reshape", self, g.ints([-1])), shifts, [0])
    return g.op("Reshape", flat, g.op("Shape", self))


def _onnx_roll(g: OnnxWriter, self: Value, shifts: Ints, dims: Sequence[int]) -> Value:
    for shift, dim in zip(shifts, dims):
        size = self.shape[dim]
        cut = g.ints([(-shift) % size if type(size) is not int or size else 0])
        tail = g.op("Slice", self, cut, g.ints([2**63 - 1]), g.ints([dim]))
        self = g.op("Concat", tail, g.op("Slice", self, g.ints([0]), cut, g.ints([dim])), axis=dim)
    return self


@roll.samples
def _() -> Iterator[Sample]:
    yield sample(make(5, 2), 2, 0)
    yield sample(make(2, 3), 1, note="flat")
    yield sample(make(3, 4), [1, -2], [0, -1])
    yield sample(make(3, 4), 7, 1)
    yield sample(make(0, 3), 1, 0, note="empty", onnx=False)
    yield sample(strided(make(3, 4)), 1, 1, note="strided")


def _repeated_shape(shape: Ints, repeats: Ints) -> tuple[int, ...]:
    lead = len(repeats) - len(shape)
    if lead < 0 or min(repeats, default=0) < 0:
        raise ShapeError(
            f"repeat: {list(repeats)} should hold a count, not negative, for each of the sizes {list(shape)}"
        )
    return tuple(r * s for r, s in zip(repeats, (*(1,) * lead, *shape)))


@array("aten::repeat(Tensor self, int[] repeats) -> Tensor", kernel=Kernel(moves=True), namespaces=("Tensor",),
       grad=dict(self=lambda F, g, self_meta, repeats: _unrepeat(F, g, self_meta, repeats)))  # fmt: skip
def repeat(m: Numpy, self: Array, repeats: Ints) -> Array:
    """self repeated as often as `repeats` says of each dim; new dims stand in front."""
    _repeated_shape(self.shape, repeats)
    return m.array(m.tile(self, tuple(repeats)), order="C")


def _unrepeat(F: Ops, g: Tensor, meta: Meta, repeats: Ints) -> Tensor:
    """The copies side by side in dims of their own, and summed over these."""
    sizes = [1] * (len(repeats) - meta.ndim) + list(meta.shape)
    if 0 in repeats:
        return F.zeros(meta.shape, dtype=meta.dtype, device=meta.device)
    apart = F.reshape(g, [n for pair in zip(repeats, sizes) for n in pair])
    return F.reshape(F.sum(apart, list(range(0, 2 * len(sizes), 2))) if sizes else g, meta.shape)


@repeat.parts
def _(F: Ops, self: Tensor, repeats: Ints) -> Tensor:
    """Repeated along dims of their own, which kernels look through, and put together with those of the sizes."""
    sizes = [1] * (len(repeats) - self.ndim) + list(self.shape)
    if all(_is_one(n) or _is_one(size) for n, size in zip(repeats, sizes)):
        whole = [n * size for n, size in zip(repeats, sizes)]
        return F.clone(F.expand(self, whole), memory_format="contiguous_format")
    apart = F.reshape(self, [n for size in sizes for n in (1, size)])
    spread = F.expand(apart, [n for pair in zip(repeats, sizes) for n in pair])
    return F.reshape(spread, _repeated_shape(tuple(self.shape), repeats))


def _is_one(number: int) -> bool:
    """Whether a number is known to be 1; the size of a dynamic axis is not."""
    return type(number) is int and number == 1


@repeat.type
def _(self: KnownType, repeats: Ints) -> TensorType:
    return TensorType(self.dtype, _repeated_shape(self.sizes, repeats), None, self.device)


@repeat.onnx
def _(g: OnnxWriter, self: Value, repeats: Ints) -> Value:
    lead = len(repeats) - self.ndim
    if not len(repeats):
        return g.op("Identity", self)
    wide = g.op("Unsqueeze", self, g.ints(list(range(lead)))) if lead else self
    return g.op("Tile", wide, g.ints(list(repeats)))


@repeat.samples
def _() -> Iterator[Sample]:
    yield sample(make(2, 3), [2, 3])
    yield sample(make(3), [2, 1, 2])
    yield sample(make(), [2], note="0-d")
    yield sample(make(2, 3), [0, 1], note="empty", onnx=False)
    yield sample(strided(make(2, 3)), [1, 2], note="strided")


@composite("aten::tile(Tensor self, int[] dims) -> Tensor")
def tile(F: Ops, self: Tensor, dims: Ints) -> Tensor:
    """self repeated as often as `dims` says of each of the last dims."""
    return F.repeat(self, [1] * (self.ndim - len(dims)) + list(dims))


@tile.samples
def _() -> Iterator[Sample]:
    yield sample(make(2, 3), [2])
    yield sample(make(3), [2, 2])


@composite("aten::repeat_interleave.self_int(Tensor self, int repeats, int? dim=None, *, int? output_size=None)"
           " -> Tensor")  # fmt: skip
def repeat_interleave(F: Ops, self: Tensor, repeats: int, dim: int | None, output_size: int | None) -> Tensor:
    """Each entry of dim (None: of all elements) `repeats` times in a row; a number, or one for each entry."""
    if dim is None:
        self, dim = F.reshape(self, [-1]), 0
    at = wrap_dim(dim, self.ndim)
    copies = F.expand(F.unsqueeze(self, at + 1), [-1] * (at + 1) + [repeats] + [-1] * (self.ndim - at - 1))
    return F.flatten(F.clone(copies), at, at + 1)


@composite("aten::repeat_interleave.self_Tensor(Tensor self, Tensor repeats, int? dim=None, *, int? output_size=None)"
           " -> Tensor")  # fmt: skip
def repeat_interleave_each(F: Ops, self: Tensor, repeats: Tensor, dim: int | None, output_size: int | None) -> Tensor:
    """Each element along dim as many times as its entry of repeats says."""
    if dim is None:
        self, dim = F.reshape(self, [-1]), 0
    at = wrap_dim(dim, self.ndim)
    length = self.shape[at]
    if repeats.ndim > 1 or (repeats.ndim and repeats.shape[0] not in (1, length)):
        raise ShapeError(f"repeat_interleave: repeats of sizes {list(repeats.shape)} do not fit a dim of size {length}")
    ends = F.cumsum(F.expand(repeats, [length]), 0)
    total = output_size if output_size is not None else F.select(ends, 0, -1).item() if length else 0
    allowed = F.arange(total + 1, dtype=ends.dtype)  # whose elements are their own indices: an error beyond them
    ends = F.index_select(allowed, 0, F.cumsum(F.index_select(allowed, 0, F.expand(repeats, [length])), 0))
    places = F.bucketize(F.arange(total, dtype=ends.dtype), ends, right=True)
    return F.index_select(self, at, places)


@composite("aten::repeat_interleave.Tensor(Tensor repeats, *, int? output_size=None) -> Tensor")
def repeat_interleave_of_places(F: Ops, repeats: Tensor, output_size: int | None) -> Tensor:
    """The place of each entry of repeats, as many times as it says."""
    places = F.arange(repeats.shape[0], dtype=repeats.dtype)
    return F.repeat_interleave(places, repeats, 0, output_size=output_size)


@repeat_interleave_of_places.samples
def _() -> Iterator[Sample]:
    yield sample(np.array([2, 0, 1]), output_size=3)


@repeat_interleave_each.samples
def _() -> Iterator[Sample]:
    yield sample(make(2, 3), np.array([2, 0, 1]), 1, output_size=3)
    yield sample(make(4), np.array(2), output_size=8, note="one number")
    yield sample(make(2, 2), np.array([1, 0, 3, 1]), output_size=5, note="flattened")


@repeat_interleave.samples
def _() -> Iterator[Sample]:
    yield sample(make(2, 3), 2, 1)
    yield sample(make(2, 3), 3)


@composite('aten::meshgrid.indexing(Tensor[] tensors, *, str indexing="ij") -> Tensor[]', spreads=True,
           namespaces=("jit",))  # fmt: skip
def meshgrid(F: Ops, tensors: Sequence[Tensor], indexing: str) -> list[Tensor]:
    """A grid for each vector, in the sizes of all: it varies along the vector's own dim alone."""
    if indexing not in ("ij", "xy"):
        raise UsageError(f"meshgrid: indexing {indexing!r} is neither 'ij' nor 'xy'")
    if not tensors:
        raise UsageError("meshgrid: expects at least one tensor")
    for tensor in tensors:
        if tensor.ndim > 1:
            raise ShapeError(f"meshgrid: expects tensors of at most 1 dim, got the sizes {list(tensor.shape)}")
    swap = indexing == "xy" and len(tensors) > 1
    lines = [tensors[1], tensors[0], *tensors[2:]] if swap else list(tensors)
    sizes = [line.numel() for line in lines]
    grids = [F.expand(F.view(t, [-1 if i == j else 1 for j in range(len(lines))]), sizes) for i, t in enumerate(lines)]
    return [grids[1], grids[0], *grids[2:]] if swap else grids


@meshgrid.samples
def _() -> Iterator[Sample]:
    yield sample([make(2), make(3, seed=1)])
    yield sample([make(2), make(3, seed=1)], indexing="xy")


@composite("aten::broadcast_tensors(Tensor[] tensors) -> Tensor[]", spreads=True, namespaces=("jit",))
def broadcast_tensors(F: Ops, tensors: Sequence[Tensor]) -> list[Tensor]:
    """The tensors expanded to their common sizes."""
    shape = broadcast_shapes(*(tuple(t.shape) for t in tensors))
    return [F.expand(t, shape) for t in tensors]


@broadcast_tensors.samples
def _() -> Iterator[Sample]:
    yield sample([make(2, 1), make(3, seed=1)])


@composite("aten::pixel_shuffle(Tensor self, int upscale_factor) -> Tensor", namespaces=("jit", "nn.functional"))
def pixel_shuffle(F: Ops, self: Tensor, upscale_factor: int) -> Tensor:
    """Channels spread over space: [..., C * r * r, H, W] becomes [..., C, H * r, W * r]."""
    r, (*lead, channels, height, width) = upscale_factor, self.shape
    if channels % (r * r):
        raise ShapeError(f"pixel_shuffle: {channels} channels do not divide by {r} * {r}")
    n = len(lead)
    apart = F.reshape(self, [*lead, channels // (r * r), r, r, height, width])
    mixed = F.permute(apart, [*range(n), n, n + 3, n + 1, n + 4, n + 2])
    return F.reshape(F.clone(mixed), [*lead, channels // (r * r), height * r, width * r])


@pixel_shuffle.onnx
def _(g: OnnxWriter, self: Value, upscale_factor: int) -> Value:
    if self.ndim != 4:
        raise g.unsupported("DepthToSpace takes 4 dims")
    return g.op("DepthToSpace", self, blocksize=upscale_factor, mode="CRD")


@pixel_shuffle.samples
def _() -> Iterator[Sample]:
    yield sample(make(2, 8, 2, 3), 2)


@composite("aten::pixel_unshuffle(Tensor self, int downscale_factor) -> Tensor", namespaces=("jit", "nn.functional"))
def pixel_unshuffle(F: Ops, self: Tensor, downscale_factor: int) -> Tensor:
    """Space folded into channels: [..., C, H * r, W * r] becomes [..., C * r * r, H, W]."""
    r, (*lead, channels, height, width) = downscale_factor, self.shape
    if height % r or width % r:
        raise ShapeError(f"pixel_unshuffle: the sizes {height}, {width} do not divide by {r}")
    n = len(lead)
    apart = F.reshape(self, [*lead, channels, height // r, r, width // r, r])
    mixed = F.permute(apart, [*range(n), n, n + 2, n + 4, n + 1, n + 3])
    return F.reshape(F.clone(mixed), [*lead, channels * r * r, height // r, width // r])


@pixel_unshuffle.samples
def _() -> Iterator[Sample]:
    yield sample(make(2, 2, 4, 6), 2)
