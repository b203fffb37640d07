"""Convolutions on arrays: the three maps, each with a table of algorithms.

Note [How a convolution is computed]
    Each of the maps `forward`, `by_input`, `by_weight` (see Note [Three maps of a convolution]) has a table of
    algorithms, best first. The first row that is `able` and `pays` for the problem at hand computes it:

        product        a kernel of one tap is a matrix product of channels, nothing is laid out anew
        spectral       hundreds of taps: the spectra are multiplied, which costs the same for every kernel
        channels last  short rows and many channels: patches whose channels lie side by side, one product
        turned         by_input as `forward` with the kernel turned around, over an image stretched by the stride
        columns        patches as the columns of a matrix, channels and taps down, places across; one product a group
        scattered      the adjoint of columns for by_input: each patch is added where it came from

    Patches are laid out in blocks that stay in the cache. With `settings.benchmark` every able row is timed once for
    each problem, and the fastest is remembered; as a stop-watch is not reproducible, `settings.deterministic` goes by
    the table all the same. Every row gives the same bits whenever it runs.
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import lru_cache
from typing import TYPE_CHECKING, Any, NamedTuple

from jit.ir.errors import ShapeError, UsageError
from jit.ir.settings import current_settings

if TYPE_CHECKING:
    from .protocols import Array, Numpy

BLOCK_BYTES = 1 << 21
"""The largest block of patches, in bytes: small enough for the cache, large enough for few calls."""


class ConvGeometry(NamedTuple):
    """The geometry of a kernel that moves over an image; lists have an entry for each spatial dim."""

    stride: tuple[int, ...]
    padding: tuple[int, ...]
    dilation: tuple[int, ...]
    groups: int

    def reach(self, kernel: Sequence[int]) -> list[int]:
        """The number of entries that a kernel spans."""
        return [d * (k - 1) + 1 for k, d in zip(kernel, self.dilation)]

    def places(self, sizes: Sequence[int], kernel: Sequence[int]) -> list[int]:
        """The number of places that a kernel takes in an image of `sizes`."""
        spans = zip(sizes, self.padding, self.reach(kernel), self.stride)
        return [(n + 2 * p - r) // s + 1 for n, p, r, s in spans]

    def image(self, places: Sequence[int], kernel: Sequence[int], output_padding: Sequence[int]) -> list[int]:
        """The sizes of the smallest image with that many places, plus `output_padding`: the inverse of `places`."""
        spans = zip(places, self.padding, self.reach(kernel), self.stride, output_padding)
        return [(n - 1) * s - 2 * p + r + extra for n, p, r, s, extra in spans]

    def taps(self, kernel: Sequence[int], places: Sequence[int]) -> Iterator[tuple[tuple[int, ...], tuple[slice, ...]]]:
        """Each tap of the kernel: its index, and the slices of a padded image that it meets."""
        for index in _indices(kernel):
            starts = [i * d for i, d in zip(index, self.dilation)]
            yield index, tuple(slice(b, b + (n - 1) * s + 1, s) for b, n, s in zip(starts, places, self.stride))

    @property
    def inside(self) -> ConvGeometry:
        """The same geometry without padding, for images that are padded already."""
        return self._replace(padding=(0,) * len(self.padding))


def _indices(sizes: Sequence[int]) -> list[tuple[int, ...]]:
    """Every index into an array of `sizes`."""
    found: list[tuple[int, ...]] = [()]
    for size in sizes:
        found = [(*index, i) for index in found for i in range(size)]
    return found


def window_of(
    spatial: int, stride: Sequence[int], padding: Sequence[int], dilation: Sequence[int], groups: int
) -> ConvGeometry:
    """The window over `spatial` dims; single numbers stand for all of them."""

    def each(name: str, values: Sequence[int], least: int) -> tuple[int, ...]:
        values = tuple(values) * spatial if len(values) == 1 else tuple(values)
        if len(values) != spatial or min(values) < least:
            raise ShapeError(f"convolution: {name} {list(values)} should be {spatial} numbers of at least {least}")
        return values

    if groups < 1:
        raise UsageError(f"convolution: expects at least one group, got {groups}")
    return ConvGeometry(each("stride", stride, 1), each("padding", padding, 0), each("dilation", dilation, 1), groups)


# -- choosing ----------------------------------------------------------------------------------------------------


class ConvProblem(NamedTuple):
    """The facts by which an algorithm is chosen."""

    image: tuple[int, ...]
    """[N, C, ...]: padded for `forward` and `by_weight`, not for `by_input`."""
    weight: tuple[int, ...]
    """[O, C / groups, ...]."""
    places: tuple[int, ...]
    window: ConvGeometry
    dtype: Any

    @property
    def kernel(self) -> tuple[int, ...]:
        """The sizes of the kernel."""
        return self.weight[2:]

    @property
    def taps(self) -> int:
        """The number of taps of a kernel for each channel."""
        return math.prod(self.weight[2:])


class Algorithm(NamedTuple):
    """One row of a table."""

    name: str
    able: Callable[[ConvProblem], bool]
    """Whether it can compute the problem at all."""
    pays: Callable[[ConvProblem], bool]
    """Whether it is the better choice than the rows below it; measured, by rule of thumb."""
    run: Callable[..., Any]


Table = tuple[Algorithm, ...]
_fastest: dict[tuple[str, ConvProblem], Algorithm] = {}
"""The fastest algorithm of each problem that was timed."""


def choose(which: str, problem: ConvProblem, arguments: tuple[Any, ...]) -> Algorithm:
    """The algorithm for one of the maps of TABLES; `arguments` are there to try the candidates on."""
    settings = current_settings()
    if not settings.benchmark or settings.deterministic:
        return _by_rule(which, problem)
    found = _fastest.get((which, problem))
    if found is None:
        able = [row for row in TABLES[which] if row.able(problem)]
        found = able[0] if len(able) == 1 else min(able, key=lambda row: _seconds(row.run, arguments))
        _fastest[which, problem] = found
    return found


@lru_cache(1024)
def _by_rule(which: str, problem: ConvProblem) -> Algorithm:
    return next(row for row in TABLES[which] if row.able(problem) and row.pays(problem))


def _seconds(run: Callable[..., Any], arguments: tuple[Any, ...]) -> float:
    """The time of a run in seconds: the better of two, as the first one fetches the memory."""
    taken = []
    for _ in range(2):
        start = time.perf_counter()
        run(*arguments)
        taken.append(time.perf_counter() - start)
    return min(taken)


def forward(m: Any, x: Array, weight: Array, w: ConvGeometry) -> Any:
    """y[N, O, ...] of x[N, C, ...] and weight[O, C / groups, ...]."""
    places = tuple(w.places(x.shape[2:], weight.shape[2:]))
    if 0 in x.shape[:2] or 0 in weight.shape:
        return m.zeros((x.shape[0], weight.shape[0], *places), x.dtype)
    x, w = _padded(m, x, w.padding, w.padding), w.inside
    arguments = m, x, m.ascontiguousarray(weight), w
    return choose("forward", ConvProblem(x.shape, weight.shape, places, w, x.dtype), arguments).run(*arguments)


def by_input(m: Any, y: Array, weight: Array, sizes: Sequence[int], w: ConvGeometry) -> Any:
    """x[N, C, *sizes] of y[N, O, ...]: each place of y adds its number, times the kernel, to its patch of x."""
    image = (y.shape[0], weight.shape[1] * w.groups, *sizes)
    if 0 in y.shape or 0 in weight.shape:
        return m.zeros(image, y.dtype)
    arguments = m, m.ascontiguousarray(y), m.ascontiguousarray(weight), tuple(sizes), w
    return choose("by_input", ConvProblem(image, weight.shape, y.shape[2:], w, y.dtype), arguments).run(*arguments)


def by_weight(m: Any, y: Array, x: Array, kernel: Sequence[int], w: ConvGeometry) -> Any:
    """weight[O, C / groups, *kernel]: the correlation of the patches of x[N, C, ...] with y[N, O, ...]."""
    if 0 in y.shape or 0 in x.shape[:2]:
        return m.zeros((y.shape[1], x.shape[1] // w.groups, *kernel), x.dtype)
    x, w = _padded(m, x, w.padding, w.padding), w.inside
    weight = (y.shape[1], x.shape[1] // w.groups, *kernel)
    arguments = m, m.ascontiguousarray(y), x, tuple(kernel), w
    return choose("by_weight", ConvProblem(x.shape, weight, y.shape[2:], w, x.dtype), arguments).run(*arguments)


# -- layouts -----------------------------------------------------------------------------------------------------


def _trailing(slices: Iterable[slice]) -> tuple[Any, ...]:
    """An index of the last dims."""
    return (..., *slices)


def _padded(m: Numpy, x: Array, before: Sequence[int], after: Sequence[int]) -> Any:
    """x, row-major, with zeros in front of and behind each spatial dim."""
    if not any(before) and not any(after):
        return m.ascontiguousarray(x)
    sizes = [b + n + a for b, n, a in zip(before, x.shape[2:], after)]
    out = m.zeros((*x.shape[:2], *sizes), x.dtype)
    out[_trailing(slice(b, b + n) for b, n in zip(before, x.shape[2:]))] = x
    return out


def _unpadded(m: Numpy, image: Array, padding: Sequence[int]) -> Any:
    if not any(padding):
        return image
    return m.ascontiguousarray(image[_trailing(slice(p, n - p) for p, n in zip(padding, image.shape[2:]))])


class _PatchBlock(NamedTuple):
    """A stretch of the work: some images, or some rows of places of one image."""

    batch: slice
    rows: slice
    images: int
    """The number of images."""
    places: tuple[int, ...]
    across: slice
    """The places, counted through the whole image."""


def _blocks(batch: int, places: Sequence[int], bytes_per_place: int) -> Iterator[_PatchBlock]:
    """The work cut into blocks whose patches take at most BLOCK_BYTES, or one row of places."""
    total, rest = math.prod(places), math.prod(places[1:])
    if total == 0:
        return
    images = BLOCK_BYTES // max(1, bytes_per_place * total)
    if images:
        for start in range(0, batch, images):
            stop = min(start + images, batch)
            yield _PatchBlock(slice(start, stop), slice(0, places[0]), stop - start, tuple(places), slice(0, total))
        return
    rows = max(1, BLOCK_BYTES // (bytes_per_place * rest))
    for image in range(batch):
        for first in range(0, places[0], rows):
            last = min(first + rows, places[0])
            part = (last - first, *places[1:])
            yield _PatchBlock(slice(image, image + 1), slice(first, last), 1, part, slice(first * rest, last * rest))


class _Scratch:
    """One piece of memory that all blocks use: fresh memory would have to be fetched from the system each time."""

    def __init__(self, m: Numpy, dtype: Any) -> None:
        self._m, self._dtype = m, dtype
        self._memory: Any = None

    def __call__(self, *shape: int) -> Any:
        size = math.prod(shape)
        if self._memory is None or self._memory.size < size:
            self._memory = self._m.empty(size, self._dtype)
        return self._memory[:size].reshape(shape)


def _patches(m: Numpy, x: Array, kernel: Sequence[int], w: ConvGeometry, block: _PatchBlock) -> Any:
    """The patches of a block of x[N, C, ...], without a copy: [n, C, *kernel, *places]."""
    steps = [s * stride for s, stride in zip(w.stride, x.strides[2:])]
    gaps = [d * stride for d, stride in zip(w.dilation, x.strides[2:])]
    offset = block.batch.start * x.strides[0] + block.rows.start * steps[0]
    shape = (block.images, x.shape[1], *kernel, *block.places)
    return m.strided(x, shape, offset, (*x.strides[:2], *gaps, *steps))


def _last_patches(m: Numpy, x: Array, kernel: Sequence[int], w: ConvGeometry, block: _PatchBlock) -> Any:
    """The patches of a block of x[N, ..., C], without a copy: [n, *places, *kernel, C]."""
    steps = [s * stride for s, stride in zip(w.stride, x.strides[1:])]
    gaps = [d * stride for d, stride in zip(w.dilation, x.strides[1:])]
    offset = block.batch.start * x.strides[0] + block.rows.start * steps[0]
    shape = (block.images, *block.places, *kernel, x.shape[-1])
    return m.strided(x, shape, offset, (x.strides[0], *steps, *gaps, x.strides[-1]))


def _copied(m: Numpy, source: Any, scratch: _Scratch, *shape: int) -> Any:
    """`source`, laid out in `scratch` and seen as `shape`."""
    target = scratch(*source.shape)
    m.copyto(target, source)
    return target.reshape(shape)


def _by_group(values: Array, groups: int) -> Any:
    """[N, G * c, ...] as [N, G, c, places]."""
    return values.reshape(values.shape[0], groups, values.shape[1] // groups, math.prod(values.shape[2:]))


def _matrices(weight: Array, groups: int) -> Any:
    """A weight as one matrix a group: [G, O / G, C / G * taps]."""
    return weight.reshape(groups, weight.shape[0] // groups, math.prod(weight.shape[1:]))


# -- product: kernels of one tap ---------------------------------------------------------------------------------


def _every(w: ConvGeometry, places: Sequence[int]) -> tuple[Any, ...]:
    """The places of a kernel of one tap as an index into an image without padding."""
    return (..., *(slice(0, (n - 1) * s + 1, s) for n, s in zip(places, w.stride)))


def _forward_product(m: Numpy, x: Array, weight: Array, w: ConvGeometry) -> Any:
    places = w.places(x.shape[2:], weight.shape[2:])
    met = m.ascontiguousarray(x[_every(w, places)])
    out = m.matmul(_matrices(weight, w.groups), _by_group(met, w.groups))
    return out.reshape(x.shape[0], weight.shape[0], *places)


def _by_input_product(m: Numpy, y: Array, weight: Array, sizes: Sequence[int], w: ConvGeometry) -> Any:
    met = m.matmul(m.swapaxes(_matrices(weight, w.groups), 1, 2), _by_group(y, w.groups))
    shape = (y.shape[0], weight.shape[1] * w.groups, *sizes)
    if y.shape[2:] == sizes and not any(w.padding):
        return met.reshape(shape)
    image = m.zeros((*shape[:2], *(n + 2 * p for n, p in zip(sizes, w.padding))), y.dtype)
    image[_every(w, y.shape[2:])] = met.reshape(*shape[:2], *y.shape[2:])
    return _unpadded(m, image, w.padding)


def _by_weight_product(m: Numpy, y: Array, x: Array, kernel: Sequence[int], w: ConvGeometry) -> Any:
    met = m.ascontiguousarray(x[_every(w, y.shape[2:])])
    each = m.matmul(_by_group(y, w.groups), m.swapaxes(_by_group(met, w.groups), 2, 3))
    return m.sum(each, axis=0).reshape(y.shape[1], -1, *kernel)


# -- columns and scattered ---------------------------------------------------------------------------------------


def _forward_columns(m: Numpy, x: Array, weight: Array, w: ConvGeometry) -> Any:
    kernel, groups = weight.shape[2:], w.groups
    places = w.places(x.shape[2:], kernel)
    matrices = _matrices(weight, groups)
    out = m.empty((x.shape[0], weight.shape[0], *places), x.dtype)
    target, scratch = _by_group(out, groups), _Scratch(m, x.dtype)
    for block in _blocks(len(x), places, x.shape[1] * math.prod(kernel) * x.itemsize):
        patches = _patches(m, x, kernel, w, block)
        columns = _copied(m, patches, scratch, block.images, groups, matrices.shape[2], -1)
        m.matmul(matrices, columns, out=target[block.batch, :, :, block.across])
    return out


def _by_input_scattered(m: Numpy, y: Array, weight: Array, sizes: Sequence[int], w: ConvGeometry) -> Any:
    kernel, groups = weight.shape[2:], w.groups
    channels = weight.shape[1] * groups
    matrices = m.swapaxes(_matrices(weight, groups), 1, 2)
    image = m.zeros((len(y), channels, *(n + 2 * p for n, p in zip(sizes, w.padding))), y.dtype)
    source, scratch = _by_group(y, groups), _Scratch(m, y.dtype)
    for block in _blocks(len(y), y.shape[2:], channels * math.prod(kernel) * y.itemsize):
        patches = scratch(block.images, groups, matrices.shape[1], math.prod(block.places))
        m.matmul(matrices, source[block.batch, :, :, block.across], out=patches)
        patches = patches.reshape(block.images, channels, *kernel, *block.places)
        target = image[block.batch, :, block.rows.start * w.stride[0] :]
        for index, where in w.taps(kernel, block.places):
            target[_trailing(where)] += patches[(slice(None), slice(None), *index)]
    return _unpadded(m, image, w.padding)


def _by_weight_columns(m: Numpy, y: Array, x: Array, kernel: Sequence[int], w: ConvGeometry) -> Any:
    groups, rows = w.groups, x.shape[1] // w.groups * math.prod(kernel)
    source, scratch = _by_group(y, groups), _Scratch(m, x.dtype)
    total = m.zeros((groups, rows, y.shape[1] // groups), x.dtype)
    for block in _blocks(len(x), y.shape[2:], x.shape[1] * math.prod(kernel) * x.itemsize):
        columns = _copied(m, _patches(m, x, kernel, w, block), scratch, block.images, groups, rows, -1)
        grads = source[block.batch, :, :, block.across]
        total += m.sum(m.matmul(columns, m.swapaxes(grads, 2, 3)), axis=0)
    return m.ascontiguousarray(m.swapaxes(total, 1, 2)).reshape(y.shape[1], -1, *kernel)


# -- channels last -----------------------------------------------------------------------------------------------


def _forward_last(m: Numpy, x: Array, weight: Array, w: ConvGeometry) -> Any:
    kernel = weight.shape[2:]
    places = w.places(x.shape[2:], kernel)
    matrix = m.moveaxis(weight, 1, -1).reshape(weight.shape[0], -1).T
    image = m.ascontiguousarray(m.moveaxis(x, 1, -1))
    out = m.empty((x.shape[0], weight.shape[0], *places), x.dtype)
    target, scratch = m.moveaxis(out, 1, -1), _Scratch(m, x.dtype)
    for block in _blocks(len(x), places, matrix.shape[0] * x.itemsize):
        patches = _copied(m, _last_patches(m, image, kernel, w, block), scratch, -1, matrix.shape[0])
        product = m.matmul(patches, matrix)
        target[block.batch, block.rows] = product.reshape(block.images, *block.places, -1)
    return out


def _by_weight_last(m: Numpy, y: Array, x: Array, kernel: Sequence[int], w: ConvGeometry) -> Any:
    image = m.ascontiguousarray(m.moveaxis(x, 1, -1))
    source = m.moveaxis(y, 1, 0)
    scratch, grads = _Scratch(m, x.dtype), _Scratch(m, x.dtype)
    total = m.zeros((y.shape[1], math.prod(kernel) * x.shape[1]), x.dtype)
    for block in _blocks(len(x), y.shape[2:], total.shape[1] * x.itemsize):
        patches = _copied(m, _last_patches(m, image, kernel, w, block), scratch, -1, total.shape[1])
        total += m.matmul(_copied(m, source[:, block.batch, block.rows], grads, y.shape[1], -1), patches)
    return m.ascontiguousarray(m.moveaxis(total.reshape(y.shape[1], *kernel, x.shape[1]), -1, 1))


# -- turned ------------------------------------------------------------------------------------------------------


def _stretched(m: Numpy, y: Array, stride: Sequence[int]) -> Any:
    """y with zeros between its entries, so that the kernel moves by single steps."""
    if set(stride) == {1}:
        return y
    sizes = [(n - 1) * s + 1 for n, s in zip(y.shape[2:], stride)]
    out = m.zeros((*y.shape[:2], *sizes), y.dtype)
    out[_trailing(slice(None, None, s) for s in stride)] = y
    return out


def _margins(
    reach: Sequence[int], places: Sequence[int], sizes: Sequence[int], padding: Sequence[int]
) -> tuple[list[int], list[int]]:
    """The margins before and behind y with which the turned kernel makes an image of `sizes` of it."""
    before = [r - 1 - p for r, p in zip(reach, padding)]
    return before, [n + p - count for n, p, count in zip(sizes, padding, places)]


def _by_input_turned(m: Numpy, y: Array, weight: Array, sizes: Sequence[int], w: ConvGeometry) -> Any:
    """x[i] = sum_k y[i + p - k] w[k], which is a correlation with the kernel read backwards."""
    kernel, groups = weight.shape[2:], w.groups
    backwards = weight[_trailing(slice(None, None, -1) for _ in kernel)]
    apart = backwards.reshape(groups, weight.shape[0] // groups, *weight.shape[1:])
    turned = m.swapaxes(apart, 1, 2).reshape(groups * weight.shape[1], -1, *kernel)
    wide = _stretched(m, y, w.stride)
    image = _padded(m, wide, *_margins(w.reach(kernel), wide.shape[2:], sizes, w.padding))
    return forward(m, image, turned, w.inside._replace(stride=(1,) * len(kernel)))


# -- spectral ----------------------------------------------------------------------------------------------------


def _forward_spectral(m: Numpy, x: Array, weight: Array, w: ConvGeometry) -> Any:
    """The correlation as a product of one spectrum and the conjugate of the other.

    Places at which the kernel would wrap around are those where it does not fit, and are cut off.
    """
    kernel = weight.shape[2:]
    axes, sizes = tuple(range(2, x.ndim)), [_smooth(n) for n in x.shape[2:]]
    image, taps = (m.fft.rfftn(values, sizes, axes) for values in (x, weight))
    found = _products(m, image, m.conj(taps), w.groups)
    whole = m.fft.irfftn(found, sizes, axes)
    return m.ascontiguousarray(whole[(..., *(slice(n) for n in w.places(x.shape[2:], kernel)))]).astype(
        x.dtype, copy=False
    )


def _products(m: Numpy, image: Array, taps: Array, groups: int) -> Any:
    """The products of taps and channels at each frequency: [N, O, ...]."""
    left = m.moveaxis(_by_group(image, groups), -1, 0)  # [frequency, N, G, c]
    right = m.moveaxis(taps.reshape(groups, taps.shape[0] // groups, taps.shape[1], -1), -1, 0)  # [frequency, G, o, c]
    product = m.matmul(m.swapaxes(left, 1, 2), m.swapaxes(right, 2, 3))  # [frequency, G, N, o]
    return m.transpose(product, (2, 1, 3, 0)).reshape(image.shape[0], taps.shape[0], *image.shape[2:])


@lru_cache(1024)
def _smooth(size: int) -> int:
    """The next number without prime factors above 5, for which transforms are fast."""
    rest = size
    for prime in (2, 3, 5):
        while rest % prime == 0:
            rest //= prime
    return size if rest <= 1 else _smooth(size + 1)


def _by_weight_spectral(m: Numpy, y: Array, x: Array, kernel: Sequence[int], w: ConvGeometry) -> Any:
    """A convolution of x by y, in which channels and batch change places."""
    swapped = _forward_spectral(m, m.swapaxes(x, 0, 1), m.swapaxes(y, 0, 1), w)
    return m.ascontiguousarray(m.swapaxes(swapped, 0, 1)[_trailing(map(slice, kernel))])


# -- the tables --------------------------------------------------------------------------------------------------


def _always(p: ConvProblem) -> bool:
    return True


def _is_one_tap(p: ConvProblem) -> bool:
    return p.taps == 1


def _is_dense(p: ConvProblem) -> bool:
    """Whether steps are 1, taps have no gaps, and numbers are real."""
    return {*p.window.stride, *p.window.dilation} == {1} and p.dtype.kind == "f" and 0 not in p.image


def _has_one_group(p: ConvProblem) -> bool:
    return p.window.groups == 1


def _is_dense_in_one_group(p: ConvProblem) -> bool:
    return _is_dense(p) and _has_one_group(p)


def _can_turn(p: ConvProblem) -> bool:
    stretched = [(n - 1) * s + 1 for n, s in zip(p.places, p.window.stride)]
    before, after = _margins(p.window.reach(p.kernel), stretched, p.image[2:], p.window.padding)
    return min(*before, *after) >= 0


def _turns_well(p: ConvProblem) -> bool:
    """Whether turning, which lays out the patches of all filters, beats scattering those of all channels."""
    filters, channels = p.weight[0] // p.window.groups, p.weight[1]
    few = 5 if filters == 1 else 3  # products of one filter have a single column, which is slow
    return filters * math.prod(p.image[2:]) <= few * channels * math.prod(p.places)


def _has_huge_kernel(p: ConvProblem) -> bool:
    """Whether a kernel has so many taps that transforms are faster: most taps meet most of the image."""
    return p.taps * math.prod(p.places) >= 150 * math.prod(p.image[2:])


def _has_short_rows(p: ConvProblem) -> bool:
    """Whether rows are too short to be copied one by one fast, and the weight, which is laid out anew, is small."""
    patches = p.image[0] * math.prod(p.places)
    return p.places[-1] <= 16 and p.weight[1] >= 8 and 8 * p.weight[0] <= patches


def _has_long_runs(p: ConvProblem) -> bool:
    """Whether enough entries lie side by side in patches with the channels last."""
    return p.weight[1] * (p.kernel[-1] if p.window.dilation[-1] == 1 else 1) >= 16


TABLES: dict[str, Table] = {
    "forward": (
        Algorithm("product", _is_one_tap, _always, _forward_product),
        Algorithm("spectral", _is_dense, _has_huge_kernel, _forward_spectral),
        Algorithm("channels last", _has_one_group, _has_short_rows, _forward_last),
        Algorithm("columns", _always, _always, _forward_columns),
    ),
    "by_input": (
        Algorithm("product", _is_one_tap, _always, _by_input_product),
        Algorithm("turned", _can_turn, _turns_well, _by_input_turned),
        Algorithm("scattered", _always, _always, _by_input_scattered),
    ),
    "by_weight": (
        Algorithm("product", _is_one_tap, _always, _by_weight_product),
        Algorithm("spectral", _is_dense_in_one_group, _has_huge_kernel, _by_weight_spectral),
        Algorithm("channels last", _has_one_group, _has_long_runs, _by_weight_last),
        Algorithm("columns", _always, _always, _by_weight_columns),
    ),
}
"""The algorithms of each map, best first; the last row can do everything."""
