"""Many elements combined into one place: scatter_reduce, bags of embeddings, distances of all pairs."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from jit.ir import dtypes
from jit.ir.dtypes import DType
from jit.ir.errors import DTypeError, ShapeError, UnwrittenError, UsageError
from jit.ir.geometry import broadcast_shapes
from jit.ir.op import absent, array, composite
from jit.ir.precision import FLOAT32
from jit.ir.samples import Sample, make, sample, strided
from jit.ir.types import TensorType

from .indexing import _check_index, _first, _fits, _flat_places

if TYPE_CHECKING:
    from .protocols import Array, Ints, KnownType, Numpy, OnnxWriter, Ops, Tensor, Value

WORDS = ("sum", "prod", "mean", "amax", "amin")
UFUNCS = {"sum": "add", "mean": "add", "prod": "multiply", "amax": "maximum", "amin": "minimum"}
ONNX_WORDS = {"sum": "add", "mean": "add", "prod": "mul", "amax": "max", "amin": "min"}

# -- scatter_reduce ----------------------------------------------------------------------------------------------


def neutral(word: str, dtype: DType) -> Any:
    """The neutral element of the reduction `word` in this dtype."""
    if word in ("sum", "mean", "prod"):
        return 1 if word == "prod" else 0
    if not dtype.is_integral:
        return -np.inf if word == "amax" else np.inf
    if dtype is dtypes.bool_:
        return word == "amin"
    limits = np.iinfo(dtype.numpy)
    return int(limits.min if word == "amax" else limits.max)


def _checked_word(reduce: str) -> str:
    if reduce not in WORDS:
        raise UsageError(f"scatter_reduce: reduce should be one of {', '.join(WORDS)}, got {reduce!r}")
    return reduce


@array("aten::scatter_reduce.two(Tensor self, int dim, Tensor index, Tensor src, str reduce, *, "
       "bool include_self=True) -> Tensor", raises=True, inplace=True)  # fmt: skip
def scatter_reduce(m: Numpy, self: Array, dim: int, index: Array, src: Array, reduce: str, include_self: bool) -> Array:
    """self with src's elements combined into the places `index` along dim, by sum, prod, mean, amax or amin."""
    word = _checked_word(reduce)
    at = _fits("scatter_reduce", index.shape, self.shape, dim)
    _fits("scatter_reduce", index.shape, src.shape, dim, whole=True)
    if src.dtype != self.dtype:
        raise DTypeError(f"scatter_reduce: expects one dtype, got {self.dtype} and {src.dtype}; cast one of them")
    _check_index(m, "scatter_reduce", index, self.shape[at] if self.ndim else 1)
    out = m.array(self, order="C")
    places, flat = _flat_places(m, index, self.shape, at), out.reshape(-1)
    if not include_self:
        flat[places] = neutral(word, dtypes.from_numpy(self.dtype))
    m.combine_at(UFUNCS[word], flat, places, _first(src, index.shape))
    return _mean(m, out, places, include_self) if word == "mean" else out


def _mean(m: Numpy, sums: Any, places: Any, include_self: bool) -> Any:
    """Sums divided by the number of their summands; those of integers are rounded down."""
    counts = m.bincount(places, minlength=sums.size).reshape(sums.shape) + int(include_self)
    counts = m.maximum(counts, 1)
    return sums // counts if sums.dtype.kind in "biu" else sums / counts.astype(sums.dtype)


@scatter_reduce.type
def _(self: KnownType, dim: int, index: KnownType, src: KnownType, reduce: str, include_self: bool) -> TensorType:
    _checked_word(reduce)
    _fits("scatter_reduce", index.shape, self.shape, dim)
    return TensorType(self.dtype, self.shape, None, self.device)


def _used(F: Ops, src: Tensor, shape: Ints) -> Tensor:
    """The leading part of a source, in the index's sizes: the part that is used."""
    for d, size in enumerate(shape):
        if src.shape[d] != size:
            src = F.narrow(src, d, 0, size)
    return src


def _unused(F: Ops, gradient: Any, shape: Ints) -> Any:
    """The gradient of a source: that of the part `_used`, filled up with zeros."""
    missing = [a - b for a, b in zip(shape, gradient.shape)]
    return F.constant_pad_nd(gradient, [p for n in reversed(missing) for p in (0, n)]) if any(missing) else gradient


@scatter_reduce.grad
def _(
    F: Ops, g: Tensor, needs: Sequence[bool], out: Tensor, self: Tensor, dim: int, index: Tensor, src: Tensor,
    reduce: str, include_self: bool,
) -> Sequence[Tensor | None]:  # fmt: skip
    used = _used(F, src, index.shape)
    rule = {"sum": _by_sum, "mean": _by_mean, "prod": _by_product}.get(reduce, _by_extreme)
    by_self, by_src = rule(F, g, out, self, dim, index, used, include_self)
    if not include_self:  # self stays where no index leads, and counts for nothing elsewhere
        by_self = F.scatter(g, dim, index, 0)
    return by_self, None, _unused(F, by_src, src.shape)


def _by_sum(
    F: Ops, g: Tensor, out: Tensor, self: Tensor, dim: int, index: Tensor, src: Tensor, include_self: bool
) -> Any:
    return g, F.gather(g, dim, index)


def _by_mean(
    F: Ops, g: Tensor, out: Tensor, self: Tensor, dim: int, index: Tensor, src: Tensor, include_self: bool
) -> Any:
    counts = F.full_like(self, 1 if include_self else 0)
    share = g / F.clamp(F.scatter_add(counts, dim, index, F.ones_like(src)), min=1)
    return share, F.gather(share, dim, index)


def _by_extreme(
    F: Ops, g: Tensor, out: Tensor, self: Tensor, dim: int, index: Tensor, src: Tensor, include_self: bool
) -> Any:
    """The gradients of an extremum, shared evenly among all elements that attain it."""
    mine = F._to_copy(F.eq(self, out), dtype=g.dtype)
    theirs = F._to_copy(F.eq(src, F.gather(out, dim, index)), dtype=g.dtype)
    share = g / F.scatter_add(mine if include_self else F.scatter(mine, dim, index, 0), dim, index, theirs)
    return F.where(F.gt(mine, 0), share, 0), F.where(F.gt(theirs, 0), F.gather(share, dim, index), 0)


def _by_product(
    F: Ops, g: Tensor, out: Tensor, self: Tensor, dim: int, index: Tensor, src: Tensor, include_self: bool
) -> Any:
    """The product of all the others: without zeros a quotient; what is 0 is written so that its derivative is right.

    Note [Products with zeros]
        At a place with zeros a, b and other factors of product r, the product of the others is
            r / x        of x, if there is no zero
            r            of a, if it is the only zero;      (r / x) * a  of x: nothing, but for its derivative by a
            r * b        of a, if there are two zeros: nothing, but for its derivative by b; nothing of x
        With s the sum of the zeros, which is a, or a + b, these are r / x * s and r * (s - a). Beyond two zeros, the
        derivatives vanish too.
    """
    my_zero, its_zero = F.eq(self, 0), F.eq(src, 0)
    zeros = F.scatter_add(
        F._to_copy(my_zero, dtype=g.dtype) if include_self else F.zeros_like(self, dtype=g.dtype), dim, index,
        F._to_copy(its_zero, dtype=g.dtype),
    )  # fmt: skip
    my_factor, its_factor = F.where(my_zero, 1, self), F.where(its_zero, 1, src)
    rest = F.scatter_reduce(my_factor, dim, index, its_factor, "prod", include_self=include_self)
    mine = F.where(my_zero, self, 0) if include_self else F.zeros_like(self)
    sums = F.scatter_add(mine, dim, index, F.where(its_zero, src, 0))

    def others(x: Any, zero: Any, factor: Any, count: Any, product: Any, total: Any) -> Any:
        of_zero = F.where(F.eq(count, 1), product, F.where(F.eq(count, 2), product * (total - x), 0))
        of_number = product / factor * F.where(F.eq(count, 0), 1, F.where(F.eq(count, 1), total, 0))
        return F.where(zero, of_zero, of_number)

    its_count, its_rest, its_sums, its_g = (F.gather(x, dim, index) for x in (zeros, rest, sums, g))
    by_self = others(self, my_zero, my_factor, zeros, rest, sums)
    by_src = others(src, its_zero, its_factor, its_count, its_rest, its_sums)
    return g * by_self, its_g * by_src


@scatter_reduce.onnx
def _(g: OnnxWriter, self: Value, dim: int, index: Value, src: Value, reduce: str, include_self: bool) -> Value:
    if self.ndim == 0:
        raise g.unsupported("ScatterElements takes no 0-d tensors")
    if g.opset < 18:
        raise g.unsupported("ScatterElements reduces in all these ways only", since=18)
    if self.dtype.is_integral and reduce == "mean":
        raise g.unsupported("a mean of integers is rounded down")
    at, shape = dim % self.ndim, g.op("Shape", index)
    index = g.cast(index, dtypes.int64)
    src = g.op("Slice", src, g.ints([0] * self.ndim), shape, g.ints(list(range(self.ndim))))

    def filled(number: Any) -> Any:
        return g.op("Expand", g.constant(number, like=self), shape)

    if not include_self:
        self = g.op("ScatterElements", self, index, filled(neutral(reduce, self.dtype)), axis=at)
    out = g.op("ScatterElements", self, index, src, axis=at, reduction=ONNX_WORDS[reduce])
    if reduce != "mean":
        return out
    start = g.op("Expand", g.constant(1 if include_self else 0, like=self), g.op("Shape", self))
    counts = g.op("ScatterElements", start, index, filled(1), axis=at, reduction="add")
    return g.op("Div", out, g.op("Max", counts, g.constant(1, like=self)))


def _index(*rows: Any) -> Any:
    return np.array(rows, np.int64)


@scatter_reduce.samples
def _() -> Iterator[Sample]:
    rows = _index([0, 2, 1, 0], [0, 0, 2, 2])
    for word in WORDS:
        yield sample(make(3, 4), 0, rows, make(2, 4, seed=1), word)
        yield sample(make(3, 4), 0, rows, make(2, 4, seed=1), word, include_self=False)
        yield sample(make(3, 4), -1, _index([3, 3], [1, 2]), make(3, 3, seed=1), word, note="partly used")
    zero = np.array([2.0, 0.0, 3.0, 0.0], np.float32)
    yield sample(make(2), 0, _index(0, 0, 1, 1), zero, "prod", note="one zero each")
    twice = np.array([0.0, 0.0, 3.0, 2.0], np.float32)
    yield sample(make(2), 0, _index(0, 0, 0, 1), twice, "prod", note="two zeros")
    yield sample(np.zeros(2, np.float32), 0, _index(0, 0, 1, 1), zero, "prod", note="zeros in both")
    yield sample(np.zeros(3, np.float32), 0, _index(0, 0), zero[:2], "prod", include_self=False, note="zeros left over")
    yield sample(make(), 0, _index(0).reshape(()), make(seed=1), "amax", note="0-d", onnx=False)
    yield sample(make(3), 0, _index(), make(0), "mean", note="empty", onnx=False)
    yield sample(make(4, low=-9, high=9, dtype="int64"), 0, _index(0, 1, 1), make(3, low=-9, high=9, dtype="int64"),
                 "mean", note="integer", grad=False, onnx=False)  # fmt: skip


# -- bags of embeddings ------------------------------------------------------------------------------------------

SUM, MEAN, MAX = range(3)
POSITIONS = absent("positions have no derivative")


@composite("aten::embedding_bag.padding_idx(Tensor weight, Tensor indices, Tensor offsets, bool scale_grad_by_freq, "
           "int mode, bool sparse, Tensor? per_sample_weights, bool include_last_offset, int? padding_idx)"
           " -> (Tensor output, Tensor offset2bag, Tensor bag_size, Tensor max_indices)",
           namespaces=("jit",))  # fmt: skip
def embedding_bag_padded(
    F: Ops, weight: Tensor, indices: Tensor, offsets: Tensor, scale_grad_by_freq: bool, mode: int, sparse: bool,
    per_sample_weights: Tensor | None, include_last_offset: bool, padding_idx: int | None,
) -> Sequence[Tensor]:  # fmt: skip
    """(the sum, mean or maximum of weight's rows for each bag, each index's bag, the bags' sizes, rows of maxima).

    Bags are runs of indices; each begins at one of the offsets.
    """
    _check_bags(weight, indices, offsets, mode, per_sample_weights)
    padding = -1 if padding_idx is None else padding_idx % weight.shape[0]
    bags = offsets.shape[0] - int(include_last_offset)
    count = indices.shape[0]
    offsets = _checked_offsets(F, offsets, count)
    starts = F.narrow(offsets, 0, 0, bags)
    places = F.arange(count, dtype=offsets.dtype)
    bag = F.bucketize(places, starts, right=True) - 1
    counted = F.ne(indices, padding)
    if include_last_offset:
        counted = F.logical_and(counted, F.lt(places, F.narrow(offsets, 0, bags, 1)))
    sizes = F.index_add(F.zeros([bags], dtype=dtypes.int64), 0, bag, F._to_copy(counted, dtype=dtypes.int64))
    if mode == MAX:
        out, largest = _largest_rows(F, weight, indices, bag, bags, counted, sizes)
        return out, bag, sizes, largest
    rows = F.embedding(weight, indices, padding, scale_grad_by_freq)
    wide = dtypes.float32 if weight.dtype.is_half else weight.dtype  # what is rounded only once
    rows = rows if rows.dtype is wide else F._to_copy(rows, dtype=wide)
    if per_sample_weights is not None:
        rows = rows * F.unsqueeze(per_sample_weights, 1)
    rows = F.where(F.unsqueeze(counted, 1), rows, 0)
    out = F.index_add(F.zeros([bags, weight.shape[1]], dtype=wide), 0, bag, rows)
    if mode == MEAN:
        out = out / F._to_copy(F.unsqueeze(F.clamp(sizes, min=1), 1), dtype=wide)
    out = out if wide is weight.dtype else F._to_copy(out, dtype=weight.dtype)
    return out, bag, sizes, F.zeros_like(sizes)


def _checked_offsets(F: Ops, offsets: Tensor, count: int) -> Tensor:
    """The offsets themselves; DimError where one lies outside of the indices or before its predecessor."""
    places = F.arange(count + 1, dtype=offsets.dtype)
    if offsets.shape[0] > 1:
        following = offsets.shape[0] - 1
        F.index_select(places, 0, F.narrow(offsets, 0, 1, following) - F.narrow(offsets, 0, 0, following))
    return F.index_select(places, 0, offsets)


def _check_bags(weight: Tensor, indices: Tensor, offsets: Tensor, mode: int, per_sample_weights: Tensor | None) -> None:
    if indices.ndim != 1 or offsets.ndim != 1:
        raise ShapeError(
            f"embedding_bag: indices and offsets should be vectors, got {list(indices.shape)} and {list(offsets.shape)}"
        )
    if mode not in (SUM, MEAN, MAX):
        raise UsageError(f"embedding_bag: mode is 0 (sum), 1 (mean) or 2 (max), got {mode}")
    if per_sample_weights is not None and mode != SUM:
        raise UnwrittenError("embedding_bag: per_sample_weights are for mode='sum' alone; leave them out")
    if per_sample_weights is not None and tuple(per_sample_weights.shape) != tuple(indices.shape):
        raise ShapeError("embedding_bag: per_sample_weights should have the sizes of indices")
    if per_sample_weights is not None and per_sample_weights.dtype is not weight.dtype:
        given = f"{per_sample_weights.dtype} and {weight.dtype}"
        raise DTypeError(f"embedding_bag: per_sample_weights should have the dtype of weight, got {given}")


def _largest_rows(
    F: Ops, weight: Tensor, indices: Tensor, bag: Tensor, bags: int, counted: Tensor, sizes: Tensor
) -> tuple[Any, Any]:
    """(the largest entries of each bag, the rows that they come from, the first of ties)."""
    count, width = indices.shape[0], weight.shape[1]
    with F.no_grad():
        rows = F.masked_fill(F.index_select(weight, 0, indices), F.logical_not(F.unsqueeze(counted, 1)), -np.inf)
        to = F.expand(F.unsqueeze(bag, 1), [count, width])
        top = F.scatter_reduce(F.zeros([bags, width], dtype=weight.dtype), 0, to, rows, "amax", include_self=False)
        places = F.expand(F.unsqueeze(F.arange(count), 1), [count, width])
        hits = F.where(F.eq(rows, F.gather(top, 0, to)), places, count)
        first = F.scatter_reduce(F.zeros([bags, width], dtype=dtypes.int64), 0, to, hits, "amin", include_self=False)
    empty = F.unsqueeze(F.eq(sizes, 0), 1)
    first = F.masked_fill(first, empty, 0)
    source = F.index(indices, [first]) if count else first
    return F.masked_fill(F.gather(weight, 0, source), empty, 0), F.masked_fill(source, empty, 0)


@embedding_bag_padded.samples
def _() -> Iterator[Sample]:
    indices, offsets = _index(1, 4, 2, 2, 0), _index(0, 2, 2)
    for mode in (SUM, MEAN, MAX):
        yield sample(make(5, 3), indices, offsets, False, mode, False, None, False, None, onnx=False)
    yield sample(make(5, 3), indices, offsets, False, SUM, False, make(5, seed=1), False, None, onnx=False)
    yield sample(make(5, 3), indices, _index(0, 2, 5), False, MEAN, False, None, True, 2, grad=False, onnx=False)


@composite("aten::embedding_bag(Tensor weight, Tensor indices, Tensor offsets, bool scale_grad_by_freq=False, "
           "int mode=0, bool sparse=False, Tensor? per_sample_weights=None, bool include_last_offset=False)"
           " -> (Tensor output, Tensor offset2bag, Tensor bag_size, Tensor max_indices)",
           namespaces=("jit",))  # fmt: skip
def embedding_bag(
    F: Ops, weight: Tensor, indices: Tensor, offsets: Tensor, scale_grad_by_freq: bool, mode: int, sparse: bool,
    per_sample_weights: Tensor | None, include_last_offset: bool,
) -> Sequence[Tensor]:  # fmt: skip
    """The sum, mean or maximum of the rows of each bag; no index is padding."""
    rest = mode, sparse, per_sample_weights, include_last_offset, None
    return F.embedding_bag(weight, indices, offsets, scale_grad_by_freq, *rest)


@embedding_bag.samples
def _() -> Iterator[Sample]:
    yield sample(make(5, 3), _index(1, 4, 2, 2, 0), _index(0, 2), onnx=False)


# -- distances ---------------------------------------------------------------------------------------------------


@FLOAT32
@composite("aten::cdist(Tensor x1, Tensor x2, float p=2.0, str? compute_mode=None) -> Tensor", namespaces=("jit",))
def cdist(F: Ops, x1: Tensor, x2: Tensor, p: float, compute_mode: str | None) -> Tensor:
    """The p-norms of the differences of each row of x1, [..., n, k], and each of x2, [..., m, k]: [..., n, m]."""
    if x1.ndim < 2 or x2.ndim < 2 or x1.shape[-1] != x2.shape[-1]:
        raise ShapeError(f"cdist: the rows of {list(x1.shape)} and {list(x2.shape)} should be equally long")
    if p < 0:
        raise UsageError(f"cdist: p must not be negative, got {p}")
    broadcast_shapes(tuple(x1.shape[:-2]), tuple(x2.shape[:-2]))
    differences = F.unsqueeze(x1, -2) - F.unsqueeze(x2, -3)
    if differences.shape[-1] == 0:
        return F.sum(differences, -1)
    return F.linalg_vector_norm(differences, p, [-1])


@cdist.samples
def _() -> Iterator[Sample]:
    for p in (2.0, 1.0, 0.0, float("inf"), 3.0):
        yield sample(make(3, 4), make(2, 4, seed=1), p)
    yield sample(make(2, 3, 4), make(2, 4, seed=1), note="broadcast")
    yield sample(strided(make(3, 4)), make(2, 4, seed=1), note="strided")
    yield sample(make(0, 4), make(2, 4), note="empty", onnx=False)
    yield sample(make(2, 4), make(2, 4), note="the same rows", grad=False)
