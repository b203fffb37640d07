"""Statistics: medians, quantiles, counts, histograms, distinct elements, covariance."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from jit.ir import dtypes
from jit.ir.errors import AutogradError, DimError, DTypeError, ShapeError, UsageError
from jit.ir.geometry import wrap_dim
from jit.ir.op import absent, array, composite
from jit.ir.precision import Precision
from jit.ir.samples import Sample, make, sample, strided, whole
from jit.ir.types import TensorType

from .common import ordered_only, require_order
from .reductions import picked, reduced, require_elements, selected_gradient

if TYPE_CHECKING:
    from jit.ir.dtypes import DType
    from jit.ir.types import Type

    from .protocols import Array, Ints, KnownType, Number, Numpy, OnnxWriter, Ops, Tensor, Value

COUNTS = absent("the result is made of counts or places")
NO_ONNX = absent("ONNX has no such operator")


def _unknown(F: Ops, g: Tensor) -> Any:
    raise AutogradError("unique and unique_consecutive have no derivative; call them with x.detach()")


REFUSED: Any = dict(self=_unknown)
"""The gradient of what could have one, but has none in PyTorch either; zeros would be wrong."""

# -- the k-th of a row -------------------------------------------------------------------------------------------


@composite("aten::kthvalue(Tensor self, int k, int dim=-1, bool keepdim=False) -> (Tensor values, Tensor indices)")
def kthvalue(F: Ops, self: Tensor, k: int, dim: int, keepdim: bool) -> Sequence[Tensor]:
    """(the k-th smallest element along dim, its index), counted from 1; NaN is the largest."""
    at = wrap_dim(dim, self.ndim)
    size = self.shape[at] if self.ndim else 1
    if not 1 <= k <= size:
        raise DimError(f"kthvalue: k = {k} is out of range for a dim of size {size}")
    if self.ndim == 0:
        return F.clone(self), F.zeros([], dtype=dtypes.int64)
    values, indices = F.topk(self, k, at, False)
    found = [F.narrow(x, at, k - 1, 1) for x in (values, indices)]
    return tuple(F.clone(x) if keepdim else F.clone(F.squeeze(x, at)) for x in found)


@kthvalue.samples
def _() -> Iterator[Sample]:
    yield sample(make(3, 4), 2)
    yield sample(make(3, 4), 3, 0, True)
    yield sample(make(), 1, note="0-d", onnx=False)


def _middle(F: Ops, self: Tensor, values: Tensor, dim: int, skip_nan: bool) -> Tensor:
    """The index of the median in a sorted dim, whose NaNs are last: that of the first NaN, or with skip_nan of none."""
    size = self.shape[dim]
    shape = [1 if d == dim else s for d, s in enumerate(values.shape)]
    if not self.dtype.is_floating_point:
        return F.full(shape, (size - 1) // 2, dtype=dtypes.int64)
    numbers = F.sum(F.logical_not(F.isnan(values)), dim, True)
    if skip_nan:
        return F.clamp_min(F.floor_divide(numbers - 1, 2), 0)
    return F.where(F.lt(numbers, size), numbers, (size - 1) // 2)


def _median(F: Ops, name: str, self: Tensor, dim: int, keepdim: bool, skip_nan: bool) -> Any:
    require_order(name, self.dtype)
    at = wrap_dim(dim, self.ndim)
    if self.ndim == 0:
        return F.clone(self), F.zeros([], dtype=dtypes.int64)
    require_elements(name, self.shape, at)
    values, indices = F.sort(self, at)
    place = _middle(F, self, values, at, skip_nan)
    found = [F.gather(x, at, place) for x in (values, indices)]
    return tuple(x if keepdim else F.squeeze(x, at) for x in found)


@composite("aten::median.dim(Tensor self, int dim, bool keepdim=False) -> (Tensor values, Tensor indices)")
def median_of_rows(F: Ops, self: Tensor, dim: int, keepdim: bool) -> Sequence[Tensor]:
    """(the median along dim, the lower of two, its index), or that of all elements; NaN if an element is."""
    return _median(F, "median", self, dim, keepdim, False)


@composite("aten::nanmedian.dim(Tensor self, int dim, bool keepdim=False) -> (Tensor values, Tensor indices)")
def nanmedian_of_rows(F: Ops, self: Tensor, dim: int, keepdim: bool) -> Sequence[Tensor]:
    """(the median along dim of the elements that are not NaN, its index), or that of all elements."""
    return _median(F, "nanmedian", self, dim, keepdim, True)


@median_of_rows.samples
@nanmedian_of_rows.samples
def _() -> Iterator[Sample]:
    yield sample(make(3, 4), 1)
    yield sample(make(3, 5), 0, True)
    yield sample(whole(7, dtype="int32"), 0, note="integer", grad=False, onnx=False)
    rows = np.array([[1.0, np.nan, 3.0], [np.nan, np.nan, np.nan], [1.0, 3.0, 2.0]], np.float32)
    yield sample(rows, 1, note="nan", grad=False, onnx=False)


def _median_type(self: KnownType) -> TensorType:
    return TensorType(self.dtype, (), None, self.device)


def _median_gradient(F: Ops, g: Tensor, self: Tensor, out: Tensor) -> Tensor:
    """g shared evenly among the elements that are the median."""
    ties = F.logical_or(F.eq(self, out), F.logical_and(F.isnan(self), F.isnan(out)))
    ties = F._to_copy(ties, dtype=g.dtype)
    return g / F.sum(ties) * ties


def _median_of_all(m: Numpy, self: Array, numbers: Array) -> Any:
    if numbers.size == 0:
        return m.asarray(m.nan if self.dtype.kind == "f" else m.iinfo(self.dtype).min, self.dtype)
    return m.sort(numbers.reshape(-1))[(numbers.size - 1) // 2]


@ordered_only
@array("aten::median(Tensor self) -> Tensor", type=_median_type, promote=("self",),
       grad=dict(self=lambda F, g, self, out: _median_gradient(F, g, self, out)))  # fmt: skip
def median(m: Numpy, self: Array) -> Array:
    """The median of all elements, the lower of two; NaN if an element is."""
    if self.dtype.kind == "f" and m.any(m.isnan(self)):
        return m.asarray(m.nan, self.dtype)
    return _median_of_all(m, self, self)


@ordered_only
@array("aten::nanmedian(Tensor self) -> Tensor", type=_median_type, promote=("self",), onnx=NO_ONNX,
       grad=dict(self=lambda F, g, self, out: _median_gradient(F, g, self, out)))  # fmt: skip
def nanmedian(m: Numpy, self: Array) -> Array:
    """The median of all elements that are not NaN."""
    return _median_of_all(m, self, self[self == self])


@median.onnx
def _(g: OnnxWriter, self: Value) -> Value:
    flat = g.op("Reshape", self, g.ints([-1]))
    size = g.op("Shape", flat)
    below = g.op("Div", g.op("Sub", size, g.ints([1])), g.ints([2]))
    values, _ = g.op("TopK", flat, g.op("Sub", size, below), axis=0, largest=1, outputs=2)
    return g.op("Squeeze", g.op("Slice", values, g.ints([-1]), g.ints([2**62]), g.ints([0])), g.ints([0]))


@median.samples
@nanmedian.samples
def _() -> Iterator[Sample]:
    yield sample(make(3, 4))
    yield sample(make(), note="0-d")
    yield sample(strided(make(3, 5)), note="strided")
    yield sample(whole(6, dtype="int64"), note="integer", grad=False)
    yield sample(np.array([1.0, np.nan, 3.0, 2.0], np.float32), note="nan", grad=False, onnx=False)
    yield sample(make(0), note="empty", grad=False, onnx=False)
    yield sample(make(9, dtype="float16"), note="half", grad=False)


@ordered_only
@array("aten::mode(Tensor self, int dim=-1, bool keepdim=False) -> (Tensor values, Tensor indices)", promote=("self",),
       onnx=NO_ONNX,
       grad=dict(self=lambda F, g, out, self_meta, dim, keepdim:
                      selected_gradient(F, g, self_meta, dim, keepdim, out[1])))  # fmt: skip
def mode(m: Numpy, self: Array, dim: int, keepdim: bool) -> Sequence[Array | None]:
    """(the most frequent element along dim, the smallest of several; the last index at which it stands)."""
    at = wrap_dim(dim, self.ndim)
    if not self.ndim:
        return self.copy(), m.zeros((), m.int64)
    require_elements("mode", self.shape, at)
    rows = m.moveaxis(self, at, -1)
    places = m.apply_along_axis(_mode_place, -1, rows) if rows.size else m.zeros(rows.shape[:-1], m.int64)
    return picked(m, self, m.expand_dims(places.astype(m.int64), at), at, keepdim)


def _mode_place(row: Array) -> int:
    values, counts = np.unique(row, return_counts=True)
    found = values[counts.argmax()]
    return int(np.flatnonzero((row == found) | ((row != row) & (found != found)))[-1])


@mode.type
def _(self: KnownType, dim: int, keepdim: bool) -> Sequence[Type]:
    if self.sizes:
        require_elements("mode", self.sizes, dim)
    return [reduced(self, dim, keepdim, d) for d in (self.dtype, dtypes.int64)]


@mode.samples
def _() -> Iterator[Sample]:
    yield sample(np.array([[1.0, 3.0, 3.0, 2.0], [2.0, 2.0, 1.0, 1.0]], np.float32), grad=False)
    yield sample(make(3, 4), 0, True)
    yield sample(make(), note="0-d")
    yield sample(whole(2, 6, low=-2, high=2), 1, note="integer", grad=False)


@composite("aten::msort(Tensor self) -> Tensor")
def msort(F: Ops, self: Tensor) -> Tensor:
    """self sorted along dim 0."""
    return F.sort(self, 0)[0]


@msort.samples
def _() -> Iterator[Sample]:
    yield sample(make(4, 3))


# -- quantiles ---------------------------------------------------------------------------------------------------


@array("aten::within(Tensor self, float least, float most, str refusal) -> Tensor", raises=True, namespaces=(),
       grad=dict(self=lambda F, g: g))  # fmt: skip
def within(m: Numpy, self: Array, least: float, most: float, refusal: str) -> Array:
    """self, if all of its elements lie between two numbers; a composite that looked itself would look just once."""
    if not bool(m.all((self >= least) & (self <= most))):
        raise UsageError(f"{refusal}, got {self.tolist() if self.size <= 8 else 'other elements'}")
    return m.array(self, order="C")


@within.type
def _(self: KnownType, least: float, most: float, refusal: str) -> TensorType:
    return TensorType(self.dtype, self.shape, None, self.device)


@within.onnx
def _(g: OnnxWriter, self: Value, least: float, most: float, refusal: str) -> Value:
    return g.op("Identity", self)


@within.samples
def _() -> Iterator[Sample]:
    yield sample(make(2, 3, low=0.1), 0.0, 100.0, "too large")
    yield sample(strided(make(2, 3, low=0.1)), 0.0, 100.0, "too large", note="strided")


_WAYS = ("linear", "lower", "higher", "midpoint", "nearest")


def _quantile(
    F: Ops, name: str, self: Tensor, q: Tensor, dim: int | None, keepdim: bool, way: str, skip_nan: bool
) -> Tensor:
    """The quantiles, by sorting and interpolating between two places; the dims of q come first."""
    if self.dtype not in (dtypes.float32, dtypes.float64):
        raise DTypeError(f"{name}: expects a float32 or float64 tensor, got {self.dtype}; cast first")
    if way not in _WAYS:
        raise UsageError(f"{name}: interpolation should be one of {', '.join(_WAYS)}, got {way!r}")
    if q.ndim > 1 or q.dtype is not self.dtype:
        raise UsageError(
            f"{name}: q should be a number or a vector of the input's dtype, got {list(q.shape)} of {q.dtype}"
        )
    q = F.within(q, 0, 1, f"{name}: q should lie between 0 and 1")
    at = 0 if dim is None else wrap_dim(dim, self.ndim)
    flat = F.reshape(self, [-1]) if dim is None or self.ndim == 0 else self
    require_elements(name, flat.shape, at)
    last = F.sort(F.movedim(flat, at, -1), -1)[0]
    values = _between(F, last, _ranks(F, last, q, skip_nan), way)
    if keepdim and self.ndim:
        values = F.reshape(values, [1] * self.ndim + [-1]) if dim is None else F.unsqueeze(values, at)
    return F.clone(F.movedim(values, -1, 0)) if q.ndim else F.squeeze(values, -1)


def _ranks(F: Ops, last: Any, q: Tensor, skip_nan: bool) -> Tensor:
    """The place, with a fraction, of each of q among the sorted elements of each row."""
    size = last.shape[-1]
    numbers = F.sum(F.logical_not(F.isnan(last)), -1, True)
    if skip_nan:
        return F.clamp_min((numbers - 1) * q, 0)
    whole = F.expand(q * (size - 1), [*last.shape[:-1], q.numel()])
    return F.where(F.lt(numbers, size), size - 1, whole)


def _between(F: Ops, last: Any, ranks: Tensor, way: str) -> Tensor:
    if way == "nearest":
        ranks = F.round(ranks)
    low = F.floor(ranks) if way != "higher" else F.ceil(ranks)
    below = F.gather(last, -1, F._to_copy(low, dtype=dtypes.int64))
    if way in ("lower", "higher", "nearest"):
        return below
    above = F.gather(last, -1, F._to_copy(F.ceil(ranks), dtype=dtypes.int64))
    return F.lerp(below, above, 0.5 if way == "midpoint" else ranks - low) if way == "linear" else (below + above) / 2


def _as_q(F: Ops, name: str, self: Tensor, q: float) -> Tensor:
    if not 0 <= q <= 1:
        raise UsageError(f"{name}: q should lie between 0 and 1, got {q}")
    return F.full([], q, dtype=self.dtype if self.dtype.is_floating_point else None)


_Q = "int? dim=None, bool keepdim=False, *, str interpolation='linear') -> Tensor".replace("'", '"')


@Precision(cpu="float32")
@composite(f"aten::quantile(Tensor self, Tensor q, {_Q}")
def quantile(F: Ops, self: Tensor, q: Tensor, dim: int | None, keepdim: bool, interpolation: str) -> Tensor:
    """The quantiles `q`, each from 0 to 1, of the elements along dim (None: of all); NaN if an element is."""
    return _quantile(F, "quantile", self, q, dim, keepdim, interpolation, False)


@Precision(cpu="float32")
@composite(f"aten::quantile.scalar(Tensor self, float q, {_Q}")
def quantile_of_number(F: Ops, self: Tensor, q: float, dim: int | None, keepdim: bool, interpolation: str) -> Tensor:
    """The quantile `q`, from 0 to 1, of the elements along dim (None: of all); NaN if an element is."""
    return F.quantile(self, _as_q(F, "quantile", self, q), dim, keepdim, interpolation=interpolation)


@Precision(cpu="float32")
@composite(f"aten::nanquantile(Tensor self, Tensor q, {_Q}")
def nanquantile(F: Ops, self: Tensor, q: Tensor, dim: int | None, keepdim: bool, interpolation: str) -> Tensor:
    """The quantiles `q`, each from 0 to 1, of the elements along dim (None: of all) that are not NaN."""
    return _quantile(F, "nanquantile", self, q, dim, keepdim, interpolation, True)


@Precision(cpu="float32")
@composite(f"aten::nanquantile.scalar(Tensor self, float q, {_Q}")
def nanquantile_of_number(F: Ops, self: Tensor, q: float, dim: int | None, keepdim: bool, interpolation: str) -> Tensor:
    """The quantile `q`, from 0 to 1, of the elements along dim (None: of all) that are not NaN."""
    return F.nanquantile(self, _as_q(F, "nanquantile", self, q), dim, keepdim, interpolation=interpolation)


@quantile.samples
@nanquantile.samples
def _() -> Iterator[Sample]:
    q = np.array([0.1, 0.45, 0.93], np.float32)
    yield sample(make(3, 5), q, 1)
    yield sample(make(3, 5), q, 0, True)
    yield sample(make(2, 3), np.array(0.45, np.float32))
    nan = np.array([[1.0, np.nan, 3.0], [4.0, 6.0, 5.0]], np.float32)
    yield sample(nan, q, 1, note="nan", grad=False, onnx=False)


@quantile_of_number.samples
@nanquantile_of_number.samples
def _() -> Iterator[Sample]:
    for way in _WAYS:
        yield sample(make(3, 4), 0.45, 1, interpolation=way)
    yield sample(make(2, 3), 0.3)


# -- sums and means without NaN ----------------------------------------------------------------------------------

_REDUCED = "int[1]? dim=None, bool keepdim=False, *, ScalarType? dtype=None) -> Tensor"


@Precision(cuda="given")
@composite(f"aten::nansum(Tensor self, {_REDUCED}")
def nansum(F: Ops, self: Tensor, dim: Ints | None, keepdim: bool, dtype: DType | None) -> Tensor:
    """The sum over dim (None: of all elements) of the elements that are not NaN."""
    if self.dtype.is_complex:
        raise DTypeError("nansum does not take complex tensors")
    numbers = F.where(F.isnan(self), 0, self) if self.dtype.is_floating_point else self
    return F.sum(numbers, dim, keepdim, dtype=dtype)


@Precision(cuda="given")
@composite(f"aten::nanmean(Tensor self, {_REDUCED}")
def nanmean(F: Ops, self: Tensor, dim: Ints | None, keepdim: bool, dtype: DType | None) -> Tensor:
    """The mean over dim (None: of all elements) of the elements that are not NaN."""
    if not self.dtype.is_floating_point:
        raise DTypeError(f"nanmean needs a floating dtype, got {self.dtype}; cast first, e.g. x.float()")
    counts = F.sum(F.logical_not(F.isnan(self)), dim, keepdim)
    return F.nansum(self, dim, keepdim, dtype=dtype) / counts


@nansum.samples
@nanmean.samples
def _() -> Iterator[Sample]:
    yield sample(make(2, 3))
    yield sample(make(2, 3, 4), [0, -1], True)
    yield sample(np.array([[1.0, np.nan, 2.0], [3.0, 4.0, 5.0]], np.float32), 1, note="nan", grad=False)


# -- counts ------------------------------------------------------------------------------------------------------


@composite("aten::count_nonzero.dim_IntList(Tensor self, int[1]? dim=None) -> Tensor", grad=COUNTS)
def count_nonzero(F: Ops, self: Tensor, dim: Ints | None) -> Tensor:
    """The number of elements along dim (None: of all) that are not zero."""
    return F.sum(F.ne(self, 0), () if dim is None else dim)


@count_nonzero.samples
def _() -> Iterator[Sample]:
    yield sample(whole(3, 4, low=-1, high=1))
    yield sample(whole(3, 4, low=-1, high=1), 1)
    yield sample(make(3, dtype="bool"), note="bool")


@array(
    "aten::bincount(Tensor self, Tensor? weights=None, int minlength=0) -> Tensor",
    raises=True,
    measures=True,
    grad=COUNTS,
)
def bincount(m: Numpy, self: Array, weights: Array | None, minlength: int) -> Array:
    """The counts of the numbers 0, 1, ... in a vector, at least minlength of them, or the sums of their weights."""
    if self.ndim != 1 or self.dtype.kind not in "iu" or (self.size and self.min() < 0):
        raise UsageError("bincount: expects a vector of integers that are not negative")
    if minlength < 0:
        raise UsageError(f"bincount: minlength must not be negative, got {minlength}")
    if weights is not None and weights.shape != self.shape:
        raise UsageError(f"bincount: expects {self.size} weights, one for each number, got {list(weights.shape)}")
    counts = m.bincount(self.astype(m.int64), weights, minlength)
    return counts if weights is None else counts.astype(m.float32 if weights.dtype == m.float32 else m.float64)


@bincount.type
def _(self: KnownType, weights: KnownType | None, minlength: int) -> TensorType:
    weighted = None if weights is None else dtypes.float32 if weights.dtype is dtypes.float32 else dtypes.float64
    return TensorType(weighted or dtypes.int64, (None,), None, self.device)


@bincount.onnx
def _(g: OnnxWriter, self: Value, weights: Value | None, minlength: int) -> Value:
    wide, one = g.cast(self, dtypes.int64), g.ints([1])
    largest = g.op("ReduceMax", wide, keepdims=1) if self.shape != (0,) else g.ints([-1])
    size = g.op("Max", g.op("Add", largest, one), g.ints([minlength]))
    values = g.op("Expand", one, g.op("Shape", self)) if weights is None else g.cast(weights, g.out.dtype)
    zeros = g.op("Expand", g.constant([0], dtype=g.out.dtype), size)
    return g.op("ScatterElements", zeros, wide, values, axis=0, reduction="add")


@bincount.samples
def _() -> Iterator[Sample]:
    yield sample(np.array([1, 3, 1, 0, 5]))
    yield sample(np.array([1, 3, 1]), make(3), 8)
    yield sample(np.array([], np.int64), minlength=3, note="empty", onnx=False)


@array(
    "aten::histc(Tensor self, int bins=100, Scalar min=0, Scalar max=0) -> Tensor",
    raises=True,
    onnx=NO_ONNX,
    grad=COUNTS,
)
def histc(m: Numpy, self: Array, bins: int, min: Number, max: Number) -> Array:
    """The counts of self's elements in `bins` equal bins from min to max, or over all elements if these are equal."""
    if self.dtype.kind != "f":
        raise DTypeError(f"histc needs a floating dtype, got {self.dtype}; cast first")
    low, high = _histogram_range(m, "histc", self, bins, min, max, 1)
    inside = self[(self >= low) & (self <= high)].astype(m.float64)
    places = m.minimum(((inside - low) / (high - low) * bins).astype(m.int64), bins - 1)
    return m.bincount(places, minlength=bins).astype(self.dtype)


def _histogram_range(m: Numpy, name: str, self: Array, bins: int, low: Any, high: Any, room: float) -> tuple[Any, Any]:
    """The range of a histogram, that of the elements if low and high are equal, widened if it has no width."""
    if bins <= 0:
        raise UsageError(f"{name}: bins must be positive, got {bins}")
    if low == high and self.size:
        low, high = self.min(), self.max()
    if low == high:
        low, high = low - room, high + room
    if not (m.isfinite(low) and m.isfinite(high) and low < high):
        raise UsageError(f"{name}: the range should be finite and ascending, got {low} to {high}")
    return float(low), float(high)


@histc.type
def _(self: KnownType, bins: int, min: Number, max: Number) -> TensorType:
    return TensorType(self.dtype, (bins,), None, self.device)


@histc.samples
def _() -> Iterator[Sample]:
    yield sample(make(20), 4, -1, 1)
    yield sample(make(3, 4), 5)
    yield sample(np.ones(3, np.float32), 2, note="all equal")
    yield sample(make(0), 3, note="empty")


_HISTOGRAM = "*, float[]? range=None, Tensor? weight=None, bool density=False) -> (Tensor hist, Tensor bin_edges)"


def _counted(m: Numpy, self: Array, edges: Array, weight: Array | None, density: bool) -> Any:
    if weight is not None and weight.shape != self.shape:
        raise ShapeError(f"histogram: weight should have the sizes {list(self.shape)}, got {list(weight.shape)}")
    places = m.searchsorted(edges, self.reshape(-1), side="right") - 1
    places = m.where(self.reshape(-1) == edges[-1], len(edges) - 2, places)
    good = (places >= 0) & (places < len(edges) - 1)
    given = None if weight is None else weight.reshape(-1)[good]
    counts = m.bincount(places[good], given, len(edges) - 1)
    if density:
        counts = counts / counts.sum() / m.diff(edges)
    return counts.astype(self.dtype), edges.astype(self.dtype)


def _extent(self: Array) -> tuple[Any, Any]:
    """The least and the greatest element; 0 and 1 if there are none."""
    return (self.min(), self.max()) if self.size else (0, 1)


@array(f"aten::histogram.bin_ct(Tensor self, int bins=100, {_HISTOGRAM}", raises=True, onnx=NO_ONNX, grad=COUNTS)
def histogram(
    m: Numpy, self: Array, bins: int, range: Sequence[float] | None, weight: Array | None, density: bool
) -> Sequence[Array | None]:
    """(the counts of elements in equal bins, or between the edges `bins`, or the sums of their weights; the edges)."""
    given = range or (_extent(self) if bins > 0 else (0, 1))
    low, high = _histogram_range(m, "histogram", m.zeros(0), bins, given[0], given[1], 0.5)
    return _counted(m, self, m.linspace(low, high, bins + 1).astype(self.dtype), weight, density)


@array(f"aten::histogram.bins_tensor(Tensor self, Tensor bins, "
       f"{_HISTOGRAM.replace('float[]? range=None, ', '')}", onnx=NO_ONNX, grad=COUNTS)  # fmt: skip
def histogram_between(
    m: Numpy, self: Array, bins: Array, weight: Array | None, density: bool
) -> Sequence[Array | None]:
    """(the counts of elements between neighbours of the ascending edges `bins`, or of their weights; the edges)."""
    if bins.ndim != 1 or bins.dtype != self.dtype:
        raise UsageError(
            f"histogram: bins should be a vector of {self.dtype} edges, got {list(bins.shape)} of {bins.dtype}"
        )
    return _counted(m, self, bins, weight, density)


@histogram.type
def _(
    self: KnownType, bins: int, range: Sequence[float] | None, weight: KnownType | None, density: bool
) -> Sequence[Type]:
    return [TensorType(self.dtype, (size,), None, self.device) for size in (bins, bins + 1)]


@histogram_between.type
def _(self: KnownType, bins: KnownType, weight: KnownType | None, density: bool) -> Sequence[Type]:
    assert bins.sizes is not None
    return [TensorType(self.dtype, (bins.sizes[0] - gap,), None, self.device) for gap in (1, 0)]


@histogram.samples
def _() -> Iterator[Sample]:
    yield sample(make(20), 4, range=[-1.0, 1.0])
    yield sample(make(3, 4), 5, weight=make(3, 4, low=0, high=1, seed=1), density=True)


@histogram_between.samples
def _() -> Iterator[Sample]:
    yield sample(make(20), np.array([-2.0, -1.0, 0.5, 2.0], np.float32))


# -- searching ---------------------------------------------------------------------------------------------------


@array("aten::searchsorted.Tensor(Tensor sorted_sequence, Tensor self, *, bool out_int32=False, bool right=False, "
       "str? side=None, Tensor? sorter=None) -> Tensor", raises=True, namespaces=("jit",), grad=COUNTS,
       promote=("sorted_sequence", "self"))  # fmt: skip
def searchsorted(
    m: Numpy, sorted_sequence: Array, self: Array, out_int32: bool, right: bool, side: str | None, sorter: Array | None
) -> Array:
    """The index in its row of sorted_sequence at which each element of self keeps the row sorted."""
    require_order("searchsorted", self.dtype)
    side = _checked_side(right, side)
    _check_rows(sorted_sequence.shape, self.shape, None if sorter is None else sorter.shape)
    line = sorted_sequence if sorter is None else m.take_along_axis(sorted_sequence, sorter, -1)
    if line.ndim == 1:
        return _as_places(m, m.searchsorted(line, self, side=side), out_int32)
    found = m.zeros(self.shape, m.int64)
    for row in m.ndindex(*line.shape[:-1]):
        found[row] = m.searchsorted(line[row], self[row], side=side)
    return _as_places(m, found, out_int32)


def _as_places(m: Numpy, found: Any, out_int32: bool) -> Any:
    return m.asarray(found).astype(m.int32 if out_int32 else m.int64)


def _checked_side(right: bool, side: str | None) -> str:
    if side not in (None, "left", "right") or (side == "left" and right):
        raise UsageError(f"searchsorted: side should be 'left' or 'right', and agree with right={right}, got {side!r}")
    return side or ("right" if right else "left")


def _check_rows(line: Ints, values: Ints, sorter: Ints | None) -> None:
    if not line or (len(line) > 1 and tuple(line[:-1]) != tuple(values[:-1])):
        raise ShapeError(f"searchsorted: the rows {list(line)} and {list(values)} do not fit each other")
    if sorter is not None and tuple(sorter) != tuple(line):
        raise ShapeError(f"searchsorted: a sorter of sizes {list(sorter)} does not fit {list(line)}")


@searchsorted.type
def _(
    sorted_sequence: KnownType, self: KnownType, out_int32: bool, right: bool, side: str | None,
    sorter: KnownType | None,
) -> TensorType:  # fmt: skip
    dtype = dtypes.int32 if out_int32 else dtypes.int64
    return TensorType(dtype, getattr(self, "sizes", ()), None, sorted_sequence.device)


@searchsorted.onnx
def _(
    g: OnnxWriter, sorted_sequence: Value, self: Value, out_int32: bool, right: bool, side: str | None,
    sorter: Value | None,
) -> Value:  # fmt: skip
    """The number of elements of the row below each value."""
    line = sorted_sequence if sorter is None else g.op("GatherElements", sorted_sequence, sorter, axis=-1)
    value = g.op("Unsqueeze", self, g.ints([-1]))
    lined = line if line.ndim == 1 else g.op("Unsqueeze", line, g.ints([-2]))
    below = g.op("LessOrEqual" if _checked_side(right, side) == "right" else "Less", lined, value)
    return g.cast(g.op("ReduceSum", g.cast(below, dtypes.int64), g.ints([-1]), keepdims=0), g.out.dtype)


@searchsorted.samples
def _() -> Iterator[Sample]:
    edges = np.array([-1.0, 0.0, 0.5, 1.0], np.float32)
    yield sample(edges, make(3, 4))
    yield sample(edges, edges, right=True, out_int32=True, note="on the edges")
    yield sample(np.sort(make(3, 4)), make(3, 2, seed=1), side="right")
    yield sample(make(4), make(seed=1), sorter=np.argsort(make(4)), note="sorter")
    yield sample(edges, 0.25, note="number")
    yield sample(edges, make(0), note="empty", onnx=False)


@array("aten::isin(Tensor elements, Tensor test_elements, *, bool assume_unique=False, bool invert=False) -> Tensor",
       promote=("elements", "test_elements"), namespaces=("jit",), grad=absent("the result is boolean"))  # fmt: skip
def isin(m: Numpy, elements: Array, test_elements: Array, assume_unique: bool, invert: bool) -> Array:
    """Whether each of `elements` is among test_elements."""
    return m.isin(elements, test_elements, invert=invert)


@isin.type
def _(elements: KnownType, test_elements: KnownType, assume_unique: bool, invert: bool) -> TensorType:
    return TensorType(dtypes.bool_, getattr(elements, "sizes", ()), None, getattr(elements, "device", "cpu"))


@isin.onnx
def _(g: OnnxWriter, elements: Value, test_elements: Value, assume_unique: bool, invert: bool) -> Value:
    others = g.op("Reshape", test_elements, g.ints([-1]))
    same = g.cast(g.op("Equal", g.op("Unsqueeze", elements, g.ints([-1])), others), dtypes.int32)
    found = g.cast(g.op("ReduceSum", same, g.ints([-1]), keepdims=0), dtypes.bool_)
    return g.op("Not", found) if invert else found


@isin.samples
def _() -> Iterator[Sample]:
    yield sample(whole(3, 4, low=0, high=9), np.array([1, 4, 7]))
    yield sample(np.array([1.0, 2.0, 3.0], np.float32), 2, invert=True, note="number")


# -- distinct elements -------------------------------------------------------------------------------------------

_UNIQUE = "-> (Tensor, Tensor, Tensor)"
LAST = 2**63 - 1
"""The end of a slice that reaches to the end, in ONNX."""


def _found(m: Numpy, values: Array, inverse: Any, counts: Any, wants_inverse: bool, wants_counts: bool) -> Any:
    nothing = m.zeros(0, m.int64)
    return (
        values,
        inverse.astype(m.int64) if wants_inverse else nothing,
        counts.astype(m.int64) if wants_counts else nothing,
    )


def _unique_types(self: TensorType, sizes: tuple[int | None, ...], inverse: Ints | None, counts: bool) -> Any:
    places = TensorType(dtypes.int64, (0,) if inverse is None else inverse, None, self.device)
    numbers = TensorType(dtypes.int64, (None,) if counts else (0,), None, self.device)
    return TensorType(self.dtype, sizes, None, self.device), places, numbers


@array(f"aten::_unique2(Tensor self, bool sorted=True, bool return_inverse=False, bool return_counts=False) {_UNIQUE}",
       measures=True, namespaces=("jit",), grad=REFUSED)  # fmt: skip
def unique_elements(
    m: Numpy, self: Array, sorted: bool, return_inverse: bool, return_counts: bool
) -> Sequence[Array | None]:
    """(the distinct elements, ascending; the index among them of each element; the number of times each stands)."""
    values, inverse, counts = m.unique(self, return_inverse=True, return_counts=True, equal_nan=False)
    return _found(m, values, inverse.reshape(self.shape), counts, return_inverse, return_counts)


@unique_elements.type
def _(self: KnownType, sorted: bool, return_inverse: bool, return_counts: bool) -> Sequence[Type]:
    return _unique_types(self, (None,), self.sizes if return_inverse else None, return_counts)


@unique_elements.onnx
def _(g: OnnxWriter, self: Value, sorted: bool, return_inverse: bool, return_counts: bool) -> Sequence[Value | None]:
    values, _, inverse, counts = g.op("Unique", self, sorted=1, outputs=4)
    return (
        values,
        g.op("Reshape", inverse, g.op("Shape", self)) if return_inverse else g.ints([]),
        counts if return_counts else g.ints([]),
    )


@array("aten::unique_dim(Tensor self, int dim, bool sorted=True, bool return_inverse=False, "
       f"bool return_counts=False) {_UNIQUE}", measures=True, namespaces=(), grad=REFUSED)  # fmt: skip
def unique_dim(
    m: Numpy, self: Array, dim: int, sorted: bool, return_inverse: bool, return_counts: bool
) -> Sequence[Array | None]:
    """(the distinct slices along dim; the index among them of each slice; the number of times each stands)."""
    at = wrap_dim(dim, self.ndim)
    slices = self.view(m.int8) if self.dtype == bool else self
    values, inverse, counts = m.unique(slices, axis=at, return_inverse=True, return_counts=True, equal_nan=False)
    values = values.view(self.dtype)
    return _found(m, values, inverse.reshape(-1), counts, return_inverse, return_counts)


@unique_dim.type
def _(self: KnownType, dim: int, sorted: bool, return_inverse: bool, return_counts: bool) -> Sequence[Type]:
    assert self.sizes is not None
    at = wrap_dim(dim, len(self.sizes))
    sizes = tuple(None if d == at else s for d, s in enumerate(self.sizes))
    return _unique_types(self, sizes, (self.sizes[at],) if return_inverse else None, return_counts)


@unique_dim.onnx
def _(
    g: OnnxWriter, self: Value, dim: int, sorted: bool, return_inverse: bool, return_counts: bool
) -> Sequence[Value | None]:
    values, _, inverse, counts = g.op("Unique", self, axis=wrap_dim(dim, self.ndim), sorted=1, outputs=4)
    return values, inverse if return_inverse else g.ints([]), counts if return_counts else g.ints([])


@array("aten::unique_consecutive(Tensor self, bool return_inverse=False, bool return_counts=False, int? dim=None) "
       f"{_UNIQUE}", measures=True, grad=REFUSED, namespaces=("jit",))  # fmt: skip
def unique_consecutive(
    m: Numpy, self: Array, return_inverse: bool, return_counts: bool, dim: int | None
) -> Sequence[Array | None]:
    """(the elements, or slices along dim, less repeats of the one before; the index of each; the lengths of runs)."""
    line = self.reshape(-1) if dim is None else m.moveaxis(self, wrap_dim(dim, self.ndim), 0)
    rows = line.reshape(line.shape[0], -1) if line.size else line.reshape(line.shape[0], 0)
    new = m.concatenate([m.ones(min(1, len(rows)), bool), (rows[1:] != rows[:-1]).any(1)])
    starts = m.flatnonzero(new)
    inverse, counts = m.cumsum(new) - 1, m.diff(m.append(starts, len(rows)))
    values = line[starts] if dim is None else m.moveaxis(line[starts], 0, wrap_dim(dim, self.ndim))
    return _found(m, values, inverse.reshape(self.shape if dim is None else -1), counts, return_inverse, return_counts)


@unique_consecutive.type
def _(self: KnownType, return_inverse: bool, return_counts: bool, dim: int | None) -> Sequence[Type]:
    assert self.sizes is not None
    if dim is None:
        return _unique_types(self, (None,), self.sizes if return_inverse else None, return_counts)
    at = wrap_dim(dim, len(self.sizes))
    sizes = tuple(None if d == at else s for d, s in enumerate(self.sizes))
    return _unique_types(self, sizes, (self.sizes[at],) if return_inverse else None, return_counts)


@unique_consecutive.onnx
def _(g: OnnxWriter, self: Value, return_inverse: bool, return_counts: bool, dim: int | None) -> Sequence[Value | None]:
    at = 0 if dim is None else wrap_dim(dim, self.ndim)
    line = g.op("Reshape", self, g.ints([-1])) if dim is None else self
    size = g.op("Slice", g.op("Shape", line), g.ints([at]), g.ints([at + 1]))
    new = _onnx_starts(g, line, at, size)
    values = g.op("Compress", line, new, axis=at)
    inverse = counts = g.ints([])
    if return_inverse:
        inverse = g.op("Sub", g.op("CumSum", g.cast(new, dtypes.int64), g.constant(0)), g.constant(1))
        inverse = g.op("Reshape", inverse, g.op("Shape", self)) if dim is None else inverse
    if return_counts:
        starts = g.op("Reshape", g.op("NonZero", new), g.ints([-1]))
        counts = g.op("Sub", g.op("Concat", _onnx_part(g, starts, 1, LAST, 0), size, axis=0), starts)
    return values, inverse, counts


def _onnx_starts(g: OnnxWriter, line: Value, at: int, size: Value) -> Value:
    """A mask of the slices along `at` that differ from the one before; the first of all counts as different."""
    same = g.op("Equal", _onnx_part(g, line, 1, LAST, at), _onnx_part(g, line, 0, -1, at))
    others = [d for d in range(line.ndim) if d != at]
    differing = g.cast(g.op("Not", same), dtypes.int32)
    if others:
        differing = g.op("ReduceSum", differing, g.ints(others), keepdims=0)
    first = g.cast(g.ints([1]), dtypes.bool_)
    return g.op("Slice", g.op("Concat", first, g.cast(differing, dtypes.bool_), axis=0), g.ints([0]), size, g.ints([0]))


def _onnx_part(g: OnnxWriter, x: Value, start: int, end: int, axis: int) -> Value:
    return g.op("Slice", x, g.ints([start]), g.ints([end]), g.ints([axis]))


@unique_elements.samples
def _() -> Iterator[Sample]:
    yield sample(np.array([[3, 1, 3], [1, 2, 3]]), True, True, True)
    yield sample(np.array([2.0, 1.0, 2.0], np.float32), grad=False)
    yield sample(np.array([], np.float32), True, True, note="empty", onnx=False, grad=False)


@unique_dim.samples
def _() -> Iterator[Sample]:
    yield sample(np.array([[1, 2], [0, 5], [1, 2]]), 0, True, True, True)
    yield sample(np.array([[1.0, 2.0, 1.0]], np.float32), 1, grad=False)


@unique_consecutive.samples
def _() -> Iterator[Sample]:
    yield sample(np.array([1, 1, 2, 2, 2, 1]), True, True)
    yield sample(np.array([[1, 2], [1, 2], [0, 5]]), True, True, 0)
    rows = np.array([[1.0, 1.0, np.nan, np.nan], [2.0, 2.0, 3.0, 3.0]], np.float32)
    yield sample(rows, True, True, -1, note="nan", grad=False)
    yield sample(np.array([[1, 1], [1, 2]]), True, True, note="flattened")
    yield sample(np.array(3), True, True, note="0-d")
    yield sample(np.array([], np.float32), True, True, note="empty", grad=False)


# -- covariance --------------------------------------------------------------------------------------------------


@composite("aten::cov(Tensor self, *, int correction=1, Tensor? fweights=None, Tensor? aweights=None) -> Tensor")
def cov(F: Ops, self: Tensor, correction: int, fweights: Tensor | None, aweights: Tensor | None) -> Tensor:
    """The covariance matrix of variables, given as rows of observations; fweights are counts, aweights are weights."""
    if self.ndim > 2 or self.dtype is dtypes.bool_:
        raise UsageError(f"cov: expects numbers of at most 2 dims, got {list(self.shape)} of {self.dtype}")
    x = self if self.ndim == 2 else F.reshape(self, [1, -1])
    x = x if not x.dtype.is_integral else F._to_copy(x, dtype=dtypes.DEFAULT)
    weights = _weights(F, x, fweights, aweights)
    total = x.shape[1] if weights is None else F.sum(weights)
    centred = x - _weighted_mean(F, x, weights, total)
    spread = centred if weights is None else centred * weights
    product = F.mm(spread, F.conj(F.t(centred)))
    found = product / _freedom(F, total, fweights, aweights, weights, correction)
    return F.reshape(found, []) if self.ndim < 2 else F.squeeze(found)


def _weights(F: Ops, x: Tensor, fweights: Tensor | None, aweights: Tensor | None) -> Any:
    for name, given in (("fweights", fweights), ("aweights", aweights)):
        if given is not None and (given.ndim > 1 or given.numel() != x.shape[1]):
            raise ShapeError(f"cov: {name} of sizes {list(given.shape)} do not fit {x.shape[1]} observations")
    if fweights is not None and not fweights.dtype.is_integral:
        raise DTypeError(f"cov: fweights should be integers, got {fweights.dtype}")
    weights = [w for w in (fweights, aweights) if w is not None]
    if not weights:
        return None
    product = weights[0] if len(weights) == 1 else weights[0] * weights[1]
    return F._to_copy(product, dtype=dtypes.real_of(x.dtype)) if product.dtype.is_integral else product


def _weighted_mean(F: Ops, x: Tensor, weights: Any, total: Any) -> Tensor:
    return F.sum(x if weights is None else x * weights, 1, True) / total


def _freedom(
    F: Ops, total: Any, fweights: Tensor | None, aweights: Tensor | None, weights: Any, correction: int
) -> Any:
    """The divisor of the squares, not below 0."""
    if weights is None:
        return max(total - correction, 0)
    if aweights is None or correction == 0:
        return F.clamp_min(total - correction, 0)
    return F.clamp_min(total - correction * (F.sum(weights * aweights) / total), 0)


@composite("aten::corrcoef(Tensor self) -> Tensor")
def corrcoef(F: Ops, self: Tensor) -> Tensor:
    """The correlation matrix of variables, given as rows of observations."""
    found = F.cov(self)
    if found.ndim == 0:
        return found / found
    width = F.sqrt(F.real(F.diagonal(found)) if found.dtype.is_complex else F.diagonal(found))
    scaled = found / F.unsqueeze(width, 1) / F.unsqueeze(width, 0)
    return scaled if scaled.dtype.is_complex else F.clamp(scaled, -1, 1)


@cov.samples
def _() -> Iterator[Sample]:
    yield sample(make(3, 5))
    yield sample(make(3, 5), correction=0, fweights=np.array([1, 2, 1, 3, 1]))
    yield sample(make(2, 4), aweights=make(4, low=0.5, high=1, seed=1))
    yield sample(make(6), note="one variable")


@corrcoef.samples
def _() -> Iterator[Sample]:
    yield sample(make(3, 5), grad=False)
