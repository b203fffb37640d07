"""Nests of convolutions and their gradients, whose patches are maps with bounds: nothing is laid out in memory.

Those of one filter or channel a group multiply no matrices: they are sums of products along a row. Extents are those of
images, groups, filters or channels of a group, and places or taps; then of what is summed.

Note [Phases of an image]
    The gradient by the input meets, at place i of the image, the taps k and places q of the result for which
    q * stride = i + padding - k * dilation. With a longer stride these differ from place to place, in turns of
    `stride`, so each phase of the image is a nest of its own, of just the taps that meet it:

        stride 2, 3 taps, no padding        phase 0 (i = 0, 2, 4, ...): taps 0 and 2        q = i / 2 - (0 or 1)
                                            phase 1 (i = 1, 3, 5, ...): tap 1               q = (i - 1) / 2

    Where no tap meets a phase, the gradient is zero.

Note [Images in parts]
    The gradient of a weight has few elements, each a sum over all places of all images. So images are divided into
    parts, which blocks sum up beside each other; what they come to is added in their order.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Sequence
from typing import Any, NamedTuple

from jit.ir.errors import CompileError

from ..kernels.nest import Access, Bound, Buffer, Nest
from .matrices import ProductMaps, product_nest


class SlidingWindow(NamedTuple):
    """The way of a kernel over an image; lists have an entry for each spatial dim."""

    stride: tuple[int, ...]
    padding: tuple[int, ...]
    dilation: tuple[int, ...]
    groups: int

    def places(self, sizes: Sequence[int], kernel: Sequence[int]) -> tuple[int, ...]:
        """The number of places that a kernel takes in an image."""
        dims = zip(sizes, kernel, self.stride, self.padding, self.dilation, strict=True)
        return tuple((n + 2 * p - d * (k - 1) - 1) // s + 1 for n, k, s, p, d in dims)

    def image(self, places: Sequence[int], kernel: Sequence[int], extra: Sequence[int]) -> tuple[int, ...]:
        """The sizes of an image with so many places, and some more: what a transposed convolution makes."""
        dims = zip(places, kernel, extra, self.stride, self.padding, self.dilation, strict=True)
        return tuple((n - 1) * s - 2 * p + d * (k - 1) + 1 + e for n, k, e, s, p, d in dims)


def window_of(
    spatial: int, stride: Sequence[int], padding: Sequence[int], dilation: Sequence[int], groups: int
) -> SlidingWindow:
    """The window over `spatial` dims, of an operator's arguments; CompileError if they do not fit."""
    each = [tuple(numbers) * (spatial if len(numbers) == 1 else 1) for numbers in (stride, padding, dilation)]
    steps, edges, apart = each
    if any(len(numbers) != spatial for numbers in each) or min(*steps, *apart, groups) < 1 or min(edges) < 0:
        raise CompileError(f"no convolution over {spatial} dims has such arguments; its body says what is wrong")
    return SlidingWindow(steps, edges, apart, groups)


def forward(x: Buffer, weight: Buffer, bias: Buffer | None, out: Buffer, window: SlidingWindow) -> Nest:
    """out[n, f, q] = bias[f] + the sum over c, k of x[n, c, q * stride - padding + k * dilation] * weight[f, c, k]."""
    spatial, filters, channels = len(window.stride), weight.sizes[0] // window.groups, weight.sizes[1]
    still = (0,) * spatial
    extents = (out.sizes[0], window.groups, filters, *out.sizes[2:], *weight.sizes[1:])
    (xn, xc, *xi), (wf, wc, *wk), (on, of, *oq) = x.strides, weight.strides, out.strides
    steps = [*zip(window.stride, window.dilation, strict=True)]
    along = (0, 0, 0, *(s for s, _ in steps), 0, *(d for _, d in steps))
    base = (xn, channels * xc, 0, *still, xc, *still)
    image = _windowed(0, base, xi, along, [-p for p in window.padding], x.sizes[2:], extents)
    taps = Access(1, (0, filters * wf, wf, *still, wc, *wk))
    result = Access(0, (on, filters * of, of, *oq, 0, *still))
    inputs, others = [x, weight], ()
    if bias is not None:
        inputs.append(bias)
        others = (Access(2, (0, filters * bias.strides[0], bias.strides[0], *still, 0, *still)),)  # type: ignore[assignment]
    maps = ProductMaps(extents, 1 + spatial, image, taps, result, others)
    return product_nest("convolution", maps, inputs, out, None if bias is None else _plus)


def _plus(m: Any, total: Any, bias: Any) -> Any:
    return total + m.cast(bias, total.dtype)


def _windowed(
    buffer: int, base: Sequence[int], strides: Sequence[int], along: Sequence[int], offsets: Sequence[int],
    sizes: Sequence[int], extents: Sequence[int],
) -> Access:  # fmt: skip
    """The map of an image whose place, along each spatial dim, follows from that of a result and a tap.

    Args:
        buffer: The image's.
        base: The map's strides without the spatial dims.
        strides: The image's, along the spatial dims.
        along: The steps of places: of all spatial dims along loops of their own, first by results, then by taps.
        offsets: The places of the first result and tap.
        sizes: The image's sizes.
        extents: Those of all loops.
    """
    moved, bounds, loops = list(base), [], [n for n in range(len(base)) if along[n]]
    spatial = len(sizes)
    for dim in range(spatial):
        own = [0] * len(base)
        for loop in (loops[dim], loops[spatial + dim]):
            own[loop] = along[loop]
            moved[loop] += along[loop] * strides[dim]
        reach = [(extents[n] - 1) * step for n, step in enumerate(own)]
        low, high = (offsets[dim] + sum(pick(r, 0) for r in reach) for pick in (min, max))
        if low < 0 or high >= sizes[dim]:
            bounds.append(Bound(tuple(own), offsets[dim], sizes[dim]))
    start = sum(offset * stride for offset, stride in zip(offsets, strides, strict=True))
    return Access(buffer, tuple(moved), start, within=tuple(bounds))


# -- by the input ------------------------------------------------------------------------------------------------


class Phase(NamedTuple):
    """The places of one phase of an image along a dim, and the taps that meet them; Note [Phases of an image]."""

    first: int
    """The first place."""
    places: int
    taps: range
    start: int
    """The place of the result that the first place and tap meet."""
    back: int
    """The distance by which the next tap is further back in the result."""


def phases(size: int, taps: int, stride: int, padding: int, dilation: int) -> list[Phase]:
    """The phases of an image of `size` places along a dim."""
    found = []
    for first in range(min(stride, size)):
        meeting = [k for k in range(taps) if (first + padding - k * dilation) % stride == 0]
        step = meeting[1] - meeting[0] if len(meeting) > 1 else stride
        kept = range(meeting[0], taps, step) if meeting else range(0)
        start = (first + padding - kept[0] * dilation) // stride if kept else 0
        found.append(Phase(first, len(range(first, size, stride)), kept, start, step * dilation // stride))
    return found


def phases_of(image: Sequence[int], taps: Sequence[int], window: SlidingWindow) -> Iterator[tuple[Phase, ...]]:
    """The phases of an image, one of each dim."""
    dims = zip(image, taps, window.stride, window.padding, window.dilation, strict=True)
    return itertools.product(*(phases(*dim) for dim in dims))


def by_input(
    y: Buffer, weight: Buffer, bias: Buffer | None, out: Buffer, window: SlidingWindow, phase: Sequence[Phase]
) -> Nest:
    """One phase of the gradient by the input, or of a transposed convolution: see Note [Phases of an image]."""
    spatial, filters, channels = len(window.stride), weight.sizes[0] // window.groups, weight.sizes[1]
    still = (0,) * spatial
    places, taps = [p.places for p in phase], [len(p.taps) for p in phase]
    extents = (out.sizes[0], window.groups, channels, *places, filters, *taps)
    (yn, yf, *yq), (wf, wc, *wk), (on, oc, *oi) = y.strides, weight.strides, out.strides
    along = (0, 0, 0, *(1 for _ in phase), 0, *(-p.back for p in phase))
    base = (yn, filters * yf, 0, *still, yf, *still)
    result_of = _windowed(0, base, yq, along, [p.start for p in phase], y.sizes[2:], extents)
    steps = [p.taps.step * stride for p, stride in zip(phase, wk, strict=True)]
    first = sum(p.taps.start * stride for p, stride in zip(phase, wk, strict=True))
    kernel = Access(1, (0, filters * wf, wc, *still, wf, *steps), first)
    strided = [s * stride for s, stride in zip(window.stride, oi, strict=True)]
    start = sum(p.first * stride for p, stride in zip(phase, oi, strict=True))
    result = Access(0, (on, channels * oc, oc, *strided, 0, *still), start)
    inputs, others = [y, weight], ()
    if bias is not None:
        inputs.append(bias)
        others = (Access(2, (0, channels * bias.strides[0], bias.strides[0], *still, 0, *still)),)  # type: ignore[assignment]
    maps = ProductMaps(extents, 1 + spatial, result_of, kernel, result, others)
    return product_nest("convolution_by_input", maps, inputs, out, None if bias is None else _plus)


# -- by the weight -----------------------------------------------------------------------------------------------


def by_weight(y: Buffer, x: Buffer, out: Buffer, window: SlidingWindow) -> Nest:
    """The gradient by the weight, out[part, f, c, k], of each part of the images: see Note [Images in parts]."""
    spatial, parts = len(window.stride), out.sizes[0]
    filters, channels, images = out.sizes[1] // window.groups, out.sizes[2], x.sizes[0] // parts
    still = (0,) * spatial
    extents = (parts, window.groups, filters, channels, *out.sizes[3:], images, *y.sizes[2:])
    (yn, yf, *yq), (xn, xc, *xi), (op, of, oc, *ok) = y.strides, x.strides, out.strides
    steps = [*zip(window.dilation, window.stride, strict=True)]
    along = (0, 0, 0, 0, *(d for d, _ in steps), 0, *(s for _, s in steps))
    base = (images * xn, channels * xc, 0, xc, *still, xn, *still)
    image = _windowed(1, base, xi, along, [-p for p in window.padding], x.sizes[2:], extents)
    gradient = Access(0, (images * yn, filters * yf, yf, 0, *still, yn, *yq))
    result = Access(0, (op, filters * of, of, oc, *ok, 0, *still))
    maps = ProductMaps(extents, 1 + spatial, gradient, image, result)
    return product_nest("convolution_by_weight", maps, (y, x), out)


def parts_of(images: int, tiles: int, enough: int) -> int:
    """The number of parts of images, a divisor, that makes enough tiles; at most one an image."""
    return next((n for n in range(1, images) if images % n == 0 and n * tiles >= enough), images)
