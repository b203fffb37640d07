"""Weights of resizing along one dim, as taps: which entries of the input an entry of the output is a sum of.

Note [Resizing as taps]
    Along one dim, linear, cubic and antialiased resizing all say: out[i] = sum_k w[k, i] * in[index[k, i]], with a few
    taps k: two, four, or as many as the stretched filter is wide. So the op is one gather and one product per tap, and
    its transpose adds runs of products, because `index[k]` never falls. Memory and time grow with the sizes, not with
    their product; and an infinite entry reaches those results alone that it is a part of. Where sizes are small and all
    entries finite, one product with the matrix of the weights is faster.

    Bytes are resized in whole numbers, one dim after the other and the last one first, as PyTorch and Pillow do it:
    weights are rounded to 16 bits, the sum is rounded once, and what lies beyond 0 and 255 is cut.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from jit.ir.errors import ShapeError

if TYPE_CHECKING:
    from .protocols import Array, Numpy


class Tap(NamedTuple):
    """One summand of every output, or of some."""

    rows: Any
    """The outputs that have it; None for all."""
    index: Any
    """The input that it is, for each of those outputs; these never fall."""
    weight: Any
    """The factor of that input, in float64."""


class Taps(NamedTuple):
    """All summands of the outputs along one dim."""

    taps: tuple[Tap, ...]
    size: int
    """The number of inputs."""
    out: int
    """The number of outputs."""
    key: tuple[Any, ...]
    """The arguments that they were made from."""

    @property
    def same(self) -> bool:
        """Whether the output is the input: sizes are equal, and the filter is not cubic, which blurs all the same."""
        return self.size == self.out and self.key[0] != "cubic"


_KEPT = 1 << 16
"""Tables for more inputs and outputs than this are made anew each time rather than kept."""
_SMALL = 1 << 17
"""Weights of up to so many elements are multiplied by as a matrix."""


def taps(mode: str, size: int, out: int, align: bool, scale: float | None) -> Taps:
    """The taps of one dim; `scale` is the factor that the user gave, if any."""
    if size < 1 or out < 1:
        raise ShapeError(f"resizing needs sizes of at least 1, got {size} to {out}")
    return (_kept if size + out <= _KEPT else _made)(mode, size, out, align, scale)


def _made(mode: str, size: int, out: int, align: bool, scale: float | None) -> Taps:
    step, key = _step(size, out, align, scale), (mode, size, out, align, scale)
    if mode.endswith("_aa"):
        return Taps(_antialiased(mode, size, out, step), size, out, key)
    places = np.arange(out) * step if align else (np.arange(out) + 0.5) * step - 0.5
    return Taps(_linear(places, size) if mode == "linear" else _cubic(places, size), size, out, key)


_kept = lru_cache(maxsize=256)(_made)


def _step(size: int, out: int, align: bool, scale: float | None) -> float:
    """The distance, in the input, of two neighbours of the output."""
    if align:
        return (size - 1) / (out - 1) if out > 1 else 0.0
    return 1 / scale if scale else size / out


def _linear(places: Any, size: int) -> tuple[Tap, ...]:
    places = np.maximum(places, 0)
    low = np.minimum(np.floor(places), size - 1)
    part = places - low
    return Tap(None, low.astype(np.int64), 1 - part), Tap(None, _inside(low + 1, size), part)


def _cubic(places: Any, size: int) -> tuple[Tap, ...]:
    """The taps of Keys' cubic convolution with a = -0.75; entries at the border are repeated."""
    low = np.floor(places)
    return tuple(Tap(None, _inside(low + k, size), _keys(places - low - k, -0.75)) for k in (-1, 0, 1, 2))


def _inside(index: Any, size: int) -> Any:
    return np.clip(index, 0, size - 1).astype(np.int64)


def _keys(x: Any, a: float) -> Any:
    """The kernel of cubic convolution (R. Keys, 1981)."""
    x = np.abs(x)
    near = ((a + 2) * x - (a + 3)) * x * x + 1
    far = ((a * x - 5 * a) * x + 8 * a) * x - 4 * a
    return np.where(x <= 1, near, np.where(x < 2, far, 0.0))


def _antialiased(mode: str, size: int, out: int, step: float) -> tuple[Tap, ...]:
    """The taps of a filter that is stretched by the step where the image shrinks, cut at the border, and normalised."""
    stretch = max(step, 1.0)
    reach = (1 if mode == "linear_aa" else 2) * stretch
    centre = step * (np.arange(out) + 0.5)
    first = np.clip(np.trunc(centre - reach + 0.5), 0, size).astype(np.int64)
    counts = np.minimum(np.trunc(centre + reach + 0.5), size).astype(np.int64) - first
    found, total = [], np.zeros(out)
    for k in range(int(counts.max(initial=0))):
        rows = None if (counts > k).all() else np.flatnonzero(counts > k)
        index, middle = (first + k, centre) if rows is None else (first[rows] + k, centre[rows])
        x = (index - middle + 0.5) / stretch
        weight = np.maximum(1 - np.abs(x), 0) if mode == "linear_aa" else _keys(x, -0.5)
        total[slice(None) if rows is None else rows] += weight
        found.append(Tap(rows, index, weight))
    total[total == 0] = 1
    return tuple(t._replace(weight=t.weight / (total if t.rows is None else total[t.rows])) for t in found)


def dense(given: Taps) -> Any:
    """The taps as a matrix (out, size)."""
    matrix = np.zeros((given.out, given.size))
    for rows, index, weight in given.taps:
        np.add.at(matrix, (np.arange(given.out) if rows is None else rows, index), weight)
    return matrix


# -- floating point ----------------------------------------------------------------------------------------------


def weighted(m: Numpy, x: Array, given: Taps, dim: int) -> Array:
    """`x` resized along one dim."""
    if given.same:
        return x
    if _is_small(given) and m.isfinite(x).all():
        return _multiplied(m, x, _matrix(given.key).T, dim)
    y = m.zeros((*x.shape[:dim], given.out, *x.shape[dim + 1 :]), x.dtype)
    before = (slice(None),) * dim
    for rows, index, weight in given.taps:
        product = m.take(x, m.asarray(index), axis=dim)
        product *= _column(m, weight, x, dim)
        y[(*before, slice(None) if rows is None else m.asarray(rows))] += product
    return y


def weighted_back(m: Numpy, g: Array, given: Taps, dim: int) -> Array:
    """The transpose of `weighted`; long runs are added in double precision."""
    if given.same:
        return g
    if _is_small(given) and m.isfinite(g).all():
        return _multiplied(m, g, _matrix(given.key), dim)
    x = m.zeros((*g.shape[:dim], given.size, *g.shape[dim + 1 :]), g.dtype)
    before: tuple[Any, ...] = (slice(None),) * dim
    wide = np.result_type(g.dtype, np.float64)
    for rows, index, weight in given.taps:
        product = (g if rows is None else m.take(g, m.asarray(rows), axis=dim)) * _column(m, weight, g, dim)
        met, starts = (m.asarray(found) for found in _runs(index))
        dtype = g.dtype if len(index) < 64 * len(met) else wide
        x[(*before, met)] += m.sums_of_runs(product, starts, dim, dtype).astype(g.dtype)
    return x


def _is_small(given: Taps) -> bool:
    return given.size * given.out <= _SMALL


def _multiplied(m: Numpy, x: Array, matrix: Array, dim: int) -> Array:
    return m.moveaxis(m.matmul(m.moveaxis(x, dim, -1), m.asarray(matrix.astype(x.dtype))), -1, dim)


@lru_cache(maxsize=64)
def _matrix(key: tuple[Any, ...]) -> Any:
    return dense(_kept(*key))


def _column(m: Numpy, weight: Array, x: Array, dim: int) -> Array:
    return m.asarray(weight.astype(x.real.dtype).reshape(-1, *(1,) * (x.ndim - dim - 1)))


def _runs(index: Array) -> tuple[Array, Array]:
    """(the entries met, where the run of each starts) of an index that never falls."""
    starts = np.flatnonzero(np.concatenate(([True], index[1:] != index[:-1])))
    return index[starts], starts


# -- bytes -------------------------------------------------------------------------------------------------------


def weighted_bytes(m: Numpy, x: Array, given: Taps, dim: int) -> Array:
    """`x` of uint8 resized along one dim; see Note [Resizing as taps]."""
    if given.size == given.out:
        return x
    merged = _merged(given.taps)
    bits = _precision(max(float(t.weight.max(initial=0.0)) for t in merged))
    sums = m.full((*x.shape[:dim], given.out, *x.shape[dim + 1 :]), 1 << (bits - 1), np.int32)
    before = (slice(None),) * dim
    for rows, index, weight in merged:
        whole = np.trunc(weight * (1 << bits) + np.where(weight < 0, -0.5, 0.5)).astype(np.int32)
        product = m.take(x, m.asarray(index), axis=dim) * m.asarray(whole.reshape(-1, *(1,) * (x.ndim - dim - 1)))
        sums[(*before, slice(None) if rows is None else m.asarray(rows))] += product
    return m.clip(sums >> bits, 0, 255).astype(np.uint8)


def _precision(largest: float) -> int:
    """The number of binary places with which the largest weight still fits into 16 bits."""
    fitting = (bits for bits in range(22) if int(0.5 + largest * (1 << (bits + 1))) >= 1 << 15)
    return next(fitting, 22)


def _merged(given: Sequence[Tap]) -> tuple[Tap, ...]:
    """The taps, with those that meet the same entry added up: border entries are met repeatedly."""
    found = list(given)
    for k in range(len(found) - 1, 0, -1):
        before, tap = found[k - 1], found[k]
        if before.rows is None and tap.rows is None:
            same = before.index == tap.index
            found[k - 1] = before._replace(weight=before.weight + np.where(same, tap.weight, 0.0))
            found[k] = tap._replace(weight=np.where(same, 0.0, tap.weight))
    return tuple(found)
