"""What statistics and running operators should compute, in float64 numpy and SciPy."""

from typing import Any

import numpy as np
import scipy.integrate
import scipy.stats


def running(better: Any) -> Any:
    """(running extrema, where each was last attained), element by element."""

    def one(row: Any) -> Any:
        values: list[Any] = []
        places: list[int] = []
        for place, x in enumerate(row):
            if not values or x != x or (values[-1] == values[-1] and better(x, values[-1])):
                values.append(x)
                places.append(place)
            else:
                values.append(values[-1])
                places.append(places[-1])
        return values, places

    def reference(self: Any, dim: int) -> Any:
        if self.ndim == 0:
            return self, np.array(0)
        rows = np.moveaxis(self, dim, -1)
        out = [np.empty(rows.shape, self.dtype), np.empty(rows.shape, np.int64)]
        for at in np.ndindex(*rows.shape[:-1]):
            out[0][at], out[1][at] = one(rows[at])
        return tuple(np.moveaxis(x, -1, dim) for x in out)

    return reference


def diff(self: Any, n: int, dim: int, prepend: Any, append: Any) -> Any:
    ends = [t for t in (prepend, self, append) if t is not None]
    return np.diff(np.concatenate(ends, dim), n, dim)


def by_place(choose: Any) -> Any:
    """(value, place) of the place that `choose` finds in each row."""

    def reference(self: Any, *options: Any) -> Any:
        *options, dim, keepdim = options  # type: ignore[assignment]
        if self.ndim == 0:
            return self, np.array(0)
        places = np.expand_dims(np.apply_along_axis(choose, dim, self, *options), dim)
        values = np.take_along_axis(self, places, dim)
        return (values, places) if keepdim else (np.squeeze(values, dim), np.squeeze(places, dim))

    return reference


def kth(row: Any, k: int) -> int:
    return int(np.argsort(row, kind="stable")[k - 1])


def middle(row: Any) -> int:
    nan = np.flatnonzero(np.isnan(row.astype(float)))
    return int(nan[0]) if nan.size else kth(row, (len(row) + 1) // 2)


def middle_number(row: Any) -> int:
    numbers = int((~np.isnan(row.astype(float))).sum())
    return kth(row, max((numbers + 1) // 2, 1))


def commonest(row: Any) -> int:
    return int(np.flatnonzero(row == scipy.stats.mode(row).mode)[-1])


def lower_median(self: Any) -> Any:
    if not self.size or (self.dtype.kind == "f" and np.isnan(self).any()):
        return np.nan
    return np.percentile(self, 50, method="lower")


def lower_median_of_numbers(self: Any) -> Any:
    return lower_median(self[~np.isnan(self.astype(float))])


def quantile(function: Any) -> Any:
    def reference(self: Any, q: Any, dim: Any, keepdim: bool, interpolation: str) -> Any:
        return function(self, q, axis=dim, keepdims=keepdim, method=interpolation)

    return reference


def summed(function: Any) -> Any:
    return lambda self, dim, keepdim, dtype: function(self, axis=dim, keepdims=keepdim)


def histc(self: Any, bins: int, low: Any, high: Any) -> Any:
    if low == high and self.size:
        low, high = self.min(), self.max()
    return np.histogram(self, bins, (low, high) if low != high else (low - 1, low + 1))[0]


def histogram(self: Any, bins: Any, range: Any, weight: Any, density: Any) -> Any:
    return np.histogram(self, bins, range, density, weight)


def searchsorted(line: Any, self: Any, out_int32: bool, right: bool, side: Any, sorter: Any) -> Any:
    line = line if sorter is None else np.take_along_axis(line, sorter, -1)
    value = np.asarray(self)[..., None]
    below = line[..., None, :] if line.ndim > 1 else line
    return (below <= value if right or side == "right" else below < value).sum(-1)


def found(values: Any, inverse: Any, counts: Any, wants_inverse: bool, wants_counts: bool) -> Any:
    nothing = np.zeros(0, np.int64)
    return values, inverse if wants_inverse else nothing, counts if wants_counts else nothing


def unique(self: Any, sorted: bool, return_inverse: bool, return_counts: bool) -> Any:
    values = np.array(sorted_set(self.reshape(-1).tolist()))
    inverse = np.searchsorted(values, self) if self.size else np.zeros(0, int)
    counts = np.array([(self == v).sum() for v in values], int)
    return found(values, inverse, counts, return_inverse, return_counts)


def sorted_set(items: Any) -> Any:
    return sorted(set(items))


def unique_dim(self: Any, dim: int, sorted: bool, return_inverse: bool, return_counts: bool) -> Any:
    rows = [tuple(row.reshape(-1).tolist()) for row in np.moveaxis(self, dim, 0)]
    kept = sorted_set(rows)
    first = [rows.index(row) for row in kept]
    values = np.take(self, first, dim)
    counts = np.array([rows.count(row) for row in kept])
    return found(values, np.array([kept.index(row) for row in rows]), counts, return_inverse, return_counts)


def unique_consecutive(self: Any, return_inverse: bool, return_counts: bool, dim: Any) -> Any:
    line = self.reshape(-1) if dim is None else np.moveaxis(self, dim, 0)
    starts = [i for i in range(len(line)) if i == 0 or (line[i] != line[i - 1]).any()]
    inverse = np.array([sum(s <= i for s in starts) - 1 for i in range(len(line))], int)
    inverse = inverse.reshape(self.shape) if dim is None else inverse
    counts = np.diff([*starts, len(line)]) if starts else np.zeros(0, int)
    values = line[starts] if dim is None else np.moveaxis(line[starts], 0, dim)
    return found(values, inverse, counts, return_inverse, return_counts)


def cov(self: Any, correction: int, fweights: Any, aweights: Any) -> Any:
    return np.cov(self, ddof=correction, fweights=fweights, aweights=aweights)


def cumulative(self: Any, x: Any = None, dx: Any = 1, dim: int = -1) -> Any:
    return scipy.integrate.cumulative_trapezoid(self, x, dx, dim)


REFERENCES: dict[str, Any] = {
    "aten::cumprod": lambda self, dim, dtype: np.cumprod(self, dim) if self.ndim else self,
    "aten::cummax": running(lambda a, b: a >= b),
    "aten::cummin": running(lambda a, b: a <= b),
    "aten::diff": diff,
    "aten::trapezoid.x": lambda y, x, dim: scipy.integrate.trapezoid(y, x, axis=dim),
    "aten::trapezoid.dx": lambda y, dx, dim: scipy.integrate.trapezoid(y, dx=dx, axis=dim),
    "aten::cumulative_trapezoid.x": lambda y, x, dim: cumulative(y, x, dim=dim),
    "aten::cumulative_trapezoid.dx": lambda y, dx, dim: cumulative(y, dx=dx, dim=dim),
    "aten::kthvalue": by_place(kth),
    "aten::median.dim": by_place(middle),
    "aten::nanmedian.dim": by_place(middle_number),
    "aten::mode": by_place(commonest),
    "aten::median": lower_median,
    "aten::nanmedian": lower_median_of_numbers,
    "aten::msort": lambda self: np.sort(self, 0),
    "aten::within": lambda self, least, most, refusal: self,
    "aten::quantile": quantile(np.quantile),
    "aten::quantile.scalar": quantile(np.quantile),
    "aten::nanquantile": quantile(np.nanquantile),
    "aten::nanquantile.scalar": quantile(np.nanquantile),
    "aten::nansum": summed(np.nansum),
    "aten::nanmean": summed(np.nanmean),
    "aten::count_nonzero.dim_IntList": np.count_nonzero,
    "aten::bincount": np.bincount,
    "aten::histc": histc,
    "aten::histogram.bin_ct": histogram,
    "aten::histogram.bins_tensor": lambda self, bins, weight, density: histogram(self, bins, None, weight, density),
    "aten::searchsorted.Tensor": searchsorted,
    "aten::isin": lambda elements, test, unique, invert: np.isin(elements, test, invert=invert),
    "aten::_unique2": unique,
    "aten::unique_dim": unique_dim,
    "aten::unique_consecutive": unique_consecutive,
    "aten::cov": cov,
    "aten::corrcoef": np.corrcoef,
}
