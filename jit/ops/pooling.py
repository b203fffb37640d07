"""Pooling: the maximum or the mean of each window of an image, over one to three spatial dims."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any

from jit.ir import dtypes
from jit.ir.errors import DTypeError, ShapeError, UsageError
from jit.ir.kernel import Kernel
from jit.ir.op import array, composite
from jit.ir.pooling import PoolGeometry, divisors
from jit.ir.precision import Precision
from jit.ir.samples import Sample, make, sample, strided
from jit.ir.types import TensorType

from .common import SIZES_ONLY

if TYPE_CHECKING:
    from jit.ir.dtypes import DType
    from jit.ir.types import Type

    from .protocols import Array, Ints, KnownType, Numpy, OnnxWriter, Ops, Tensor, Value

_FACES = ("jit", "nn.functional")


def _check_counts(name: str, n: int, **lists: Any) -> None:
    """ShapeError if a list of numbers is not one a dim; an empty stride is the kernel's."""
    for what, numbers in lists.items():
        if len(numbers) not in (1, n) and not (what == "stride" and not numbers):
            raise ShapeError(f"{name}: {what} should be one number, or {n}, one for each dim, got {len(numbers)}")


def _pool(
    name: str, shape: Ints, n: int, kernel: Ints, stride: Ints, padding: Ints, dilation: Sequence[int], ceil: bool
) -> PoolGeometry:
    if len(shape) not in (n + 1, n + 2) or 0 in shape[-n - 1 :]:
        raise ShapeError(
            f"{name}: expects {n + 1} or {n + 2} dims, of which only the batch may be empty, got {list(shape)}"
        )

    def each(values: Sequence[int]) -> tuple[int, ...]:
        return tuple(values) * n if len(values) == 1 else tuple(values)

    _check_counts(name, n, kernel_size=kernel, stride=stride, padding=padding, dilation=dilation)
    pool = PoolGeometry(each(kernel), each(stride or kernel), each(padding), each(dilation), ceil)
    if min(*pool.kernel, *pool.stride, *pool.dilation) < 1 or min(pool.padding) < 0:
        raise UsageError(f"{name}: kernel_size, stride and dilation should be positive, and padding not negative")
    if any(2 * p > k for p, k in zip(pool.padding, pool.kernel)):
        raise UsageError(
            f"{name}: padding {list(pool.padding)} should be at most half of kernel_size {list(pool.kernel)}"
        )
    return pool


def _pooled(self: TensorType, pool: PoolGeometry, dtype: DType | None = None) -> TensorType:
    n, sizes = len(pool.kernel), self.sizes
    assert sizes is not None
    split = len(sizes) - n
    return TensorType(dtype or self.dtype, (*sizes[:split], *pool.places(sizes[split:])), None, self.device)


def _onnx_pool(g: OnnxWriter, name: str, self: Value, pool: PoolGeometry, **more: Any) -> Any:
    """The ONNX pooling operator `name` over self, which gets a batch dim of 1 where it has none."""
    single = self.ndim == len(pool.kernel) + 1
    x = g.op("Unsqueeze", self, g.ints([0])) if single else self
    pads, ceil = list(pool.padding * 2), pool.ceil
    sizes = self.shape[self.ndim - len(pool.kernel) :]
    if ceil and name == "MaxPool" and all(type(size) is int for size in sizes):
        pads, ceil = [*pool.padding, *_far_padding(pool, sizes)], False
    geometry = {"kernel_shape": list(pool.kernel), "strides": list(pool.stride), "pads": pads}
    found = g.op(name, x, ceil_mode=int(ceil), **geometry, **more)
    many = found if isinstance(found, tuple) else (found,)
    results = tuple(g.op("Squeeze", r, g.ints([0])) if single else r for r in many)
    return results if isinstance(found, tuple) else results[0]


def _far_padding(pool: PoolGeometry, sizes: Ints) -> list[int]:
    """Padding behind the image that makes ceil_mode's windows fit: runtimes differ on the last of them."""
    return [
        max(p, (count - 1) * s + reach - n - p)
        for n, p, s, reach, count in zip(sizes, pool.padding, pool.stride, pool.reach, pool.places(sizes))
    ]


# -- the maximum -------------------------------------------------------------------------------------------------


def _max_pool(m: Numpy, x: Array, pool: PoolGeometry) -> Any:
    """(maxima, where each lies in its image, counted row by row). A NaN wins, and of equals the first."""
    n = len(pool.kernel)
    sizes = x.shape[x.ndim - n :]
    places = pool.places(sizes)
    lowest = -math.inf if x.dtype.kind == "f" else m.iinfo(x.dtype).min
    image = pool.padded(m, x, lowest)
    best: Any = None
    winner: Any = None
    distances = []
    for offset, where in pool.taps(places):
        distances.append(sum(o * math.prod(sizes[i + 1 :]) for i, o in enumerate(offset)))
        here = m.array(image[where], order="C")
        if best is None:
            best, winner = here, m.zeros(here.shape, m.int8 if math.prod(pool.kernel) < 128 else m.int64)
            continue
        better = ~(here <= best) & (best == best)
        best = m.where(better, here, best)
        winner += better * (len(distances) - 1 - winner)
    found = m.take(m.asarray(distances, m.int64), winner) + _corners(m, sizes, places, pool, False)
    if any(pool.padding):  # where nothing beats the padding, the first entry of the image in the window is named
        m.copyto(found, _corners(m, sizes, places, pool, True), where=best == lowest)
    return best, found


def _corners(m: Numpy, sizes: Ints, places: Any, pool: PoolGeometry, inside: bool) -> Any:
    """The index of each window's first entry, in the padding or not; if `inside`, of its first one in the image."""
    total = m.zeros(tuple(places), m.int64)
    for dim, (count, size, s, p, d) in enumerate(zip(places, sizes, pool.stride, pool.padding, pool.dilation)):
        line = m.arange(count) * s - p
        if inside:
            line = m.minimum(m.where(line < 0, line % d, line), size - 1)
        line = line * math.prod(sizes[dim + 1 :])
        total += line.reshape([-1 if other == dim else 1 for other in range(len(places))])
    return total


def _add_at(m: Numpy, grad_output: Array, shape: Ints, indices: Array, n: int) -> Any:
    """An image of `shape` with each gradient added where `indices` says; n spatial dims."""
    lead = math.prod(shape[: len(shape) - n])
    plane = math.prod(shape[len(shape) - n :])
    flat = indices.reshape(lead, math.prod(indices.shape[len(shape) - n :])) + (m.arange(lead) * plane)[:, None]
    sums = m.bincount(flat.ravel(), grad_output.ravel(), lead * plane)
    return sums.astype(grad_output.dtype).reshape(shape)


def gather_places(F: Ops, image: Tensor, indices: Tensor, n: int) -> Tensor:
    """The entries of the last n dims of `image` that `indices` name, counted row by row."""
    flat = F.gather(F.flatten(image, -n), -1, F.flatten(indices, -n))
    return F.reshape(flat, indices.shape)


def _onnx_max_pool(g: OnnxWriter, self: Value, pool: PoolGeometry) -> Any:
    """(maxima, indices) in ONNX, which counts indices through the whole tensor; ATen counts them through one image."""
    values, indices = _onnx_pool(g, "MaxPool", self, pool, dilations=list(pool.dilation), outputs=2)
    n = len(pool.kernel)
    plane = g.op("ReduceProd", g.op("Slice", g.op("Shape", self), g.ints([-n]), g.ints([2**63 - 1])), keepdims=1)
    return values, g.op("Mod", indices, plane)


@array("aten::max_pool2d_with_indices(Tensor self, int[2] kernel_size, int[2] stride=[], int[2] padding=0, "
       "int[2] dilation=1, bool ceil_mode=False) -> (Tensor, Tensor)",
       kernel=Kernel(step="maxima"), namespaces=("nn.functional",))  # fmt: skip
def max_pool2d_with_indices(
    m: Numpy, self: Array, kernel_size: Ints, stride: Ints, padding: Ints, dilation: Ints, ceil_mode: bool
) -> Sequence[Array | None]:
    """(the largest element of each window, its place in the image counted row by row) of [N, C, H, W]."""
    return _max_pool(m, self, _pool("max_pool2d", self.shape, 2, kernel_size, stride, padding, dilation, ceil_mode))


@max_pool2d_with_indices.type
def _(
    self: KnownType, kernel_size: Ints, stride: Ints, padding: Ints, dilation: Ints, ceil_mode: bool
) -> Sequence[Type]:
    pool = _pool("max_pool2d", self.shape, 2, kernel_size, stride, padding, dilation, ceil_mode)
    return _pooled(self, pool), _pooled(self, pool, dtypes.int64)


@max_pool2d_with_indices.grad
def _(
    F: Ops, g: Tensor, self: Tensor, out: Sequence[Tensor], kernel_size: Ints, stride: Ints, padding: Ints,
    dilation: Ints, ceil_mode: bool,
) -> Sequence[Tensor | None]:  # fmt: skip
    return (
        F.max_pool2d_with_indices_backward(g, self, kernel_size, stride, padding, dilation, ceil_mode, out[1]),
    )  # fmt: skip


@max_pool2d_with_indices.onnx
def _(
    g: OnnxWriter, self: Value, kernel_size: Ints, stride: Ints, padding: Ints, dilation: Ints, ceil_mode: bool
) -> Sequence[Value | None]:
    pool = _pool("max_pool2d", self.shape, 2, kernel_size, stride, padding, dilation, ceil_mode)
    return _onnx_max_pool(g, self, pool)


def _distinct(*shape: int) -> Any:
    """Numbers far enough apart that a derivative by differences sees no change of the maximum."""
    x = make(*shape)
    return (x.ravel().argsort().argsort().reshape(shape) / 4).astype(x.dtype)


@max_pool2d_with_indices.samples
def _() -> Iterator[Sample]:
    yield sample(_distinct(2, 3, 4, 6), [2, 2])
    yield sample(_distinct(1, 2, 5, 6), [3, 2], [2, 1], [1, 0])
    yield sample(_distinct(1, 2, 7, 7), [2, 2], [2, 2], [0, 0], [2, 3])
    yield sample(_distinct(1, 1, 5, 6), [2, 2], [2, 2], [1, 1], [1, 1], True, note="ceil")
    yield sample(_distinct(2, 5, 5), [3, 3], [1, 1], note="unbatched")
    yield sample(strided(_distinct(1, 2, 4, 4)), [2, 2], note="strided")


@array("aten::max_pool2d_with_indices_backward(Tensor grad_output, Tensor self, int[2] kernel_size, int[2] stride, "
       "int[2] padding, int[2] dilation, bool ceil_mode, Tensor indices) -> Tensor", raises=True, namespaces=(),
       kernel=Kernel(step="maxima gradients"),
       grad=dict(self=SIZES_ONLY, grad_output=lambda F, g, indices: gather_places(F, g, indices, 2)))  # fmt: skip
def max_pool2d_with_indices_backward(
    m: Numpy, grad_output: Array, self: Array, kernel_size: Ints, stride: Ints, padding: Ints, dilation: Ints,
    ceil_mode: bool, indices: Array,
) -> Array:  # fmt: skip
    """The gradient of the pooled image: each element of grad_output added at the place that indices name."""
    return _add_at(m, grad_output, self.shape, indices, 2)


@max_pool2d_with_indices_backward.type
def _(
    grad_output: KnownType, self: KnownType, kernel_size: Ints, stride: Ints, padding: Ints, dilation: Ints,
    ceil_mode: bool, indices: KnownType,
) -> TensorType:  # fmt: skip
    return TensorType(grad_output.dtype, self.shape, None, self.device)


@max_pool2d_with_indices_backward.onnx
def _(
    g: OnnxWriter, grad_output: Value, self: Value, kernel_size: Ints, stride: Ints, padding: Ints, dilation: Ints,
    ceil_mode: bool, indices: Value,
) -> Value:  # fmt: skip
    return _onnx_add_at(g, grad_output, self, indices, 2)


def _onnx_add_at(g: OnnxWriter, grad_output: Value, self: Value, indices: Value, n: int) -> Value:
    if g.opset < 16:
        raise g.unsupported("ScatterElements adds only", since=16)
    lead = [0] * (self.ndim - n)
    flat = g.op("Reshape", self, g.ints([*lead, -1]))
    zeros = g.op("Mul", flat, g.constant(0, like=self))
    places, grads = (g.op("Reshape", x, g.ints([*lead, -1])) for x in (indices, grad_output))
    sums = g.op("ScatterElements", zeros, places, grads, axis=self.ndim - n, reduction="add")
    return g.op("Reshape", sums, g.op("Shape", self))


@max_pool2d_with_indices_backward.samples
def _() -> Iterator[Sample]:
    import numpy as np

    places = np.array([[[[0, 3], [8, 10]]]], np.int64)
    yield sample(make(1, 1, 2, 2), make(1, 1, 4, 4), [2, 2], [2, 2], [0, 0], [1, 1], False, places)
    twice = np.array([[[[5, 5], [5, 6]]]], np.int64)
    yield sample(make(1, 1, 2, 2), make(1, 1, 4, 4), [3, 3], [1, 1], [0, 0], [1, 1], False, twice, note="overlapping")


@composite("aten::max_pool2d(Tensor input, int[2] kernel_size, int[2] stride=[], int[2] padding=0, int[2] dilation=1, "
           "bool ceil_mode=False) -> Tensor", namespaces=_FACES)  # fmt: skip
def max_pool2d(
    F: Ops, input: Tensor, kernel_size: Ints, stride: Ints, padding: Ints, dilation: Ints, ceil_mode: bool
) -> Tensor:
    """The largest element of each window of [N, C, H, W] or [C, H, W]."""
    return F.max_pool2d_with_indices(input, kernel_size, stride, padding, dilation, ceil_mode)[0]


@max_pool2d.onnx
def _(
    g: OnnxWriter, input: Value, kernel_size: Ints, stride: Ints, padding: Ints, dilation: Ints, ceil_mode: bool
) -> Value:
    pool = _pool("max_pool2d", input.shape, 2, kernel_size, stride, padding, dilation, ceil_mode)
    return _onnx_pool(g, "MaxPool", input, pool, dilations=list(pool.dilation))


@max_pool2d.samples
def _() -> Iterator[Sample]:
    yield sample(_distinct(2, 3, 4, 6), 2)
    yield sample(_distinct(2, 5, 5), [3, 2], 1, 1, note="unbatched")


@array("aten::max_pool3d_with_indices(Tensor self, int[3] kernel_size, int[3] stride=[], int[3] padding=0, "
       "int[3] dilation=1, bool ceil_mode=False) -> (Tensor, Tensor)", namespaces=("nn.functional",))  # fmt: skip
def max_pool3d_with_indices(
    m: Numpy, self: Array, kernel_size: Ints, stride: Ints, padding: Ints, dilation: Ints, ceil_mode: bool
) -> Sequence[Array | None]:
    """(the largest element of each window, its place in the image counted row by row) of [N, C, D, H, W]."""
    return _max_pool(m, self, _pool("max_pool3d", self.shape, 3, kernel_size, stride, padding, dilation, ceil_mode))


@max_pool3d_with_indices.type
def _(
    self: KnownType, kernel_size: Ints, stride: Ints, padding: Ints, dilation: Ints, ceil_mode: bool
) -> Sequence[Type]:
    pool = _pool("max_pool3d", self.shape, 3, kernel_size, stride, padding, dilation, ceil_mode)
    return _pooled(self, pool), _pooled(self, pool, dtypes.int64)


@max_pool3d_with_indices.grad
def _(
    F: Ops, g: Tensor, self: Tensor, out: Sequence[Tensor], kernel_size: Ints, stride: Ints, padding: Ints,
    dilation: Ints, ceil_mode: bool,
) -> Sequence[Tensor | None]:  # fmt: skip
    return (
        F.max_pool3d_with_indices_backward(g, self, kernel_size, stride, padding, dilation, ceil_mode, out[1]),
    )  # fmt: skip


@max_pool3d_with_indices.onnx
def _(
    g: OnnxWriter, self: Value, kernel_size: Ints, stride: Ints, padding: Ints, dilation: Ints, ceil_mode: bool
) -> Sequence[Value | None]:
    pool = _pool("max_pool3d", self.shape, 3, kernel_size, stride, padding, dilation, ceil_mode)
    return _onnx_max_pool(g, self, pool)


@max_pool3d_with_indices.samples
def _() -> Iterator[Sample]:
    yield sample(_distinct(1, 2, 4, 3, 4), [2, 2, 2], [1, 1, 2], [0, 1, 0])


@array("aten::max_pool3d_with_indices_backward(Tensor grad_output, Tensor self, int[3] kernel_size, int[3] stride, "
       "int[3] padding, int[3] dilation, bool ceil_mode, Tensor indices) -> Tensor", raises=True, namespaces=(),
       grad=dict(self=SIZES_ONLY, grad_output=lambda F, g, indices: gather_places(F, g, indices, 3)))  # fmt: skip
def max_pool3d_with_indices_backward(
    m: Numpy, grad_output: Array, self: Array, kernel_size: Ints, stride: Ints, padding: Ints, dilation: Ints,
    ceil_mode: bool, indices: Array,
) -> Array:  # fmt: skip
    """The gradient of the pooled image: each element of grad_output added at the place that indices name."""
    return _add_at(m, grad_output, self.shape, indices, 3)


@max_pool3d_with_indices_backward.type
def _(
    grad_output: KnownType, self: KnownType, kernel_size: Ints, stride: Ints, padding: Ints, dilation: Ints,
    ceil_mode: bool, indices: KnownType,
) -> TensorType:  # fmt: skip
    return TensorType(grad_output.dtype, self.shape, None, self.device)


@max_pool3d_with_indices_backward.onnx
def _(
    g: OnnxWriter, grad_output: Value, self: Value, kernel_size: Ints, stride: Ints, padding: Ints, dilation: Ints,
    ceil_mode: bool, indices: Value,
) -> Value:  # fmt: skip
    return _onnx_add_at(g, grad_output, self, indices, 3)


@max_pool3d_with_indices_backward.samples
def _() -> Iterator[Sample]:
    import numpy as np

    places = np.array([[[[[0, 3]], [[9, 14]]]]], np.int64)
    yield sample(make(1, 1, 2, 1, 2), make(1, 1, 4, 2, 2), [2, 2, 1], [2, 2, 1], [0] * 3, [1] * 3, False, places)


@Precision(cpu="float32")
@composite("aten::max_pool3d(Tensor input, int[3] kernel_size, int[3] stride=[], int[3] padding=0, int[3] dilation=1, "
           "bool ceil_mode=False) -> Tensor", namespaces=_FACES)  # fmt: skip
def max_pool3d(
    F: Ops, input: Tensor, kernel_size: Ints, stride: Ints, padding: Ints, dilation: Ints, ceil_mode: bool
) -> Tensor:
    """The largest element of each window of [N, C, D, H, W] or [C, D, H, W]."""
    return F.max_pool3d_with_indices(input, kernel_size, stride, padding, dilation, ceil_mode)[0]


@max_pool3d.onnx
def _(
    g: OnnxWriter, input: Value, kernel_size: Ints, stride: Ints, padding: Ints, dilation: Ints, ceil_mode: bool
) -> Value:
    pool = _pool("max_pool3d", input.shape, 3, kernel_size, stride, padding, dilation, ceil_mode)
    return _onnx_pool(g, "MaxPool", input, pool, dilations=list(pool.dilation))


@max_pool3d.samples
def _() -> Iterator[Sample]:
    yield sample(_distinct(1, 2, 4, 4, 4), 2)


@composite("aten::max_pool1d_with_indices(Tensor self, int[1] kernel_size, int[1] stride=[], int[1] padding=0, "
           "int[1] dilation=1, bool ceil_mode=False) -> (Tensor, Tensor)", namespaces=())  # fmt: skip
def max_pool1d_with_indices(
    F: Ops, self: Tensor, kernel_size: Ints, stride: Ints, padding: Ints, dilation: Ints, ceil_mode: bool
) -> Sequence[Tensor]:
    """(the largest element of each window, its place along the last dim) of [N, C, L] or [C, L]."""
    if self.ndim not in (2, 3):
        raise ShapeError(f"max_pool1d: expects [N, C, L] or [C, L], got the sizes {list(self.shape)}")
    _check_counts("max_pool1d", 1, kernel_size=kernel_size, stride=stride, padding=padding, dilation=dilation)
    step = stride or kernel_size
    both = F.max_pool2d_with_indices(
        F.unsqueeze(self, -2), [1, *kernel_size], [1, *step], [0, *padding], [1, *dilation], ceil_mode
    )  # fmt: skip
    return tuple(F.squeeze(each, -2) for each in both)


@max_pool1d_with_indices.samples
def _() -> Iterator[Sample]:
    yield sample(_distinct(2, 3, 7), 3, 2, 1)
    yield sample(_distinct(3, 6), 2, note="unbatched")


@composite("aten::max_pool1d(Tensor input, int[1] kernel_size, int[1] stride=[], int[1] padding=0, int[1] dilation=1, "
           "bool ceil_mode=False) -> Tensor", namespaces=_FACES)  # fmt: skip
def max_pool1d(
    F: Ops, input: Tensor, kernel_size: Ints, stride: Ints, padding: Ints, dilation: Ints, ceil_mode: bool
) -> Tensor:
    """The largest element of each window of [N, C, L] or [C, L]."""
    if input.ndim not in (2, 3):
        raise ShapeError(f"max_pool1d: expects [N, C, L] or [C, L], got the sizes {list(input.shape)}")
    _check_counts("max_pool1d", 1, kernel_size=kernel_size, stride=stride, padding=padding, dilation=dilation)
    step = stride or kernel_size
    flat = F.max_pool2d(
        F.unsqueeze(input, -2), [1, *kernel_size], [1, *step], [0, *padding], [1, *dilation], ceil_mode
    )  # fmt: skip
    return F.squeeze(flat, -2)


@max_pool1d.samples
def _() -> Iterator[Sample]:
    yield sample(_distinct(2, 3, 7), 3, 2, 1)
    yield sample(_distinct(3, 6), 2, note="unbatched")


# -- the mean ----------------------------------------------------------------------------------------------------


def _avg_pool(m: Numpy, x: Array, pool: PoolGeometry, include_pad: bool, override: int | None) -> Any:
    sizes = x.shape[x.ndim - len(pool.kernel) :]
    image = pool.padded(m, x, 0)
    out: Any = None
    for _, where in pool.taps(pool.places(sizes)):
        out = m.array(image[where], order="C") if out is None else m.add(out, image[where], out=out)
    shares = divisors(m, sizes, pool, include_pad, override, x.dtype)
    if x.dtype.kind == "f":
        return out / shares
    return m.sign(out) * m.sign(shares) * (m.abs(out) // m.abs(shares))  # integers, toward zero


def _avg_pool_backward(
    m: Numpy, g: Array, shape: Ints, pool: PoolGeometry, include_pad: bool, override: int | None
) -> Any:
    n = len(pool.kernel)
    sizes = shape[len(shape) - n :]
    image = m.zeros(shape, g.dtype)
    wide = pool.padded(m, image, 0)
    shares = g / divisors(m, sizes, pool, include_pad, override, g.dtype)
    for _, where in pool.taps(g.shape[g.ndim - n :]):
        wide[where] += shares
    inside = (..., *(slice(p, p + size) for p, size in zip(pool.padding, sizes)))
    return m.array(wide[inside], order="C")


def _onnx_avg_pool(g: OnnxWriter, self: Value, pool: PoolGeometry, include_pad: bool, override: int | None) -> Any:
    out = _onnx_pool(g, "AveragePool", self, pool, count_include_pad=int(include_pad or override is not None))
    if override is None:
        return out
    if pool.ceil:
        raise g.unsupported("AveragePool has no divisor of its own, and ceil_mode leaves windows of several sizes")
    return g.op("Mul", out, g.constant(math.prod(pool.kernel) / override, like=self))


def _onnx_avg_pool_backward(
    g: OnnxWriter, grad: Value, self: Value, pool: PoolGeometry, include_pad: bool, override: int | None
) -> Value:
    """The gradient of a mean pooling: a transposed convolution of `grad` by ones, channel by channel."""
    n = len(pool.kernel)
    shape = self.shape
    if not all(type(s) is int for s in shape[-n:]):
        raise g.unsupported("the gradient of a mean pooling needs known spatial sizes")
    import numpy as np

    parts = divisors(np, shape[-n:], pool, include_pad, override, np.float64)
    shares = g.op("Div", grad, g.constant(parts, like=grad))
    flat = g.op("Reshape", shares, g.ints([-1, 1, *grad.shape[-n:]]))
    spans = zip(shape[-n:], pool.places(shape[-n:]), pool.stride, pool.kernel, pool.padding)
    after = [p + (count - 1) * s + k - (size + 2 * p) for size, count, s, k, p in spans]
    ones = g.constant(np.ones((1, 1, *pool.kernel)), like=grad)
    pads = [*pool.padding, *(max(a, 0) for a in after)]
    extra = [max(-a, 0) for a in after]
    image = g.op("ConvTranspose", flat, ones, strides=list(pool.stride), pads=pads, output_padding=extra)
    return g.op("Reshape", image, g.ints(list(shape)))


@array("aten::avg_pool2d(Tensor self, int[2] kernel_size, int[2] stride=[], int[2] padding=0, bool ceil_mode=False, "
       "bool count_include_pad=True, int? divisor_override=None) -> Tensor",
       kernel=Kernel(step="means"), namespaces=("nn.functional",))  # fmt: skip
def avg_pool2d(
    m: Numpy, self: Array, kernel_size: Ints, stride: Ints, padding: Ints, ceil_mode: bool, count_include_pad: bool,
    divisor_override: int | None,
) -> Array:  # fmt: skip
    """The mean of each window of [N, C, H, W] or [C, H, W]."""
    pool = _pool("avg_pool2d", self.shape, 2, kernel_size, stride, padding, [1], ceil_mode)
    return _avg_pool(m, self, pool, count_include_pad, divisor_override)


@avg_pool2d.parts
def _(
    F: Ops, self: Tensor, kernel_size: Ints, stride: Ints, padding: Ints, ceil_mode: bool, count_include_pad: bool,
    divisor_override: int | None,
) -> Tensor | None:  # fmt: skip
    if self.device != "cpu" or divisor_override == 0 or not self.dtype.is_floating_point:
        return None
    if self.dtype.is_half:  # which plans pool in float32, and round once
        rest = kernel_size, stride, padding, ceil_mode, count_include_pad, divisor_override
        return F._to_copy(F.avg_pool2d(F._to_copy(self, dtype=dtypes.float32), *rest), dtype=self.dtype)
    pool = _pool("avg_pool2d", self.shape, 2, kernel_size, stride, padding, [1], ceil_mode)
    if pool.ceil or pool.stride != pool.kernel or pool.padding != (0, 0) or pool.stride[1] in (1, 2, 4):
        return None
    return _sums_side_by_side(F, self, pool) / (divisor_override or math.prod(pool.kernel))


def _sums_side_by_side(F: Ops, self: Tensor, pool: PoolGeometry) -> Tensor:
    """The sums of windows that lie side by side, by strides that the step of plans has no code for."""
    places = pool.places(self.shape[-2:])
    for dim, count in zip((-2, -1), places, strict=True):
        self = F.narrow(self, dim, 0, count * pool.kernel[dim])
    apart = [n for count, k in zip(places, pool.kernel, strict=True) for n in (count, k)]
    return F.sum(F.reshape(self, [*self.shape[:-2], *apart]), [-3, -1])


@avg_pool2d.type
def _(
    self: KnownType, kernel_size: Ints, stride: Ints, padding: Ints, ceil_mode: bool, count_include_pad: bool,
    divisor_override: int | None,
) -> TensorType:  # fmt: skip
    return _pooled(self, _pool("avg_pool2d", self.shape, 2, kernel_size, stride, padding, [1], ceil_mode))


@avg_pool2d.grad
def _(
    F: Ops, g: Tensor, self: Tensor, kernel_size: Ints, stride: Ints, padding: Ints, ceil_mode: bool,
    count_include_pad: bool, divisor_override: int | None,
) -> Sequence[Tensor | None]:  # fmt: skip
    rest = kernel_size, stride, padding, ceil_mode, count_include_pad, divisor_override
    return (F.avg_pool2d_backward(g, self, *rest),)


@avg_pool2d.onnx
def _(
    g: OnnxWriter, self: Value, kernel_size: Ints, stride: Ints, padding: Ints, ceil_mode: bool,
    count_include_pad: bool, divisor_override: int | None,
) -> Value:  # fmt: skip
    pool = _pool("avg_pool2d", self.shape, 2, kernel_size, stride, padding, [1], ceil_mode)
    return _onnx_avg_pool(g, self, pool, count_include_pad, divisor_override)


@avg_pool2d.samples
def _() -> Iterator[Sample]:
    yield sample(make(2, 3, 4, 6), [2, 2])
    yield sample(make(1, 2, 5, 6), [3, 2], [2, 1], [1, 1])
    yield sample(make(1, 2, 5, 6), [3, 2], [2, 1], [1, 1], False, False)
    yield sample(make(1, 1, 5, 6), [2, 2], [2, 2], [0, 0], True, note="ceil")
    yield sample(make(1, 1, 4, 4), [2, 2], divisor_override=3)
    yield sample(make(2, 4, 4), [2, 2], note="unbatched")
    yield sample(strided(make(1, 2, 4, 4)), [2, 2], [1, 1], note="strided")


@array("aten::avg_pool2d_backward(Tensor grad_output, Tensor self, int[2] kernel_size, int[2] stride, int[2] padding, "
       "bool ceil_mode, bool count_include_pad, int? divisor_override) -> Tensor", namespaces=(),
       grad=dict(self=SIZES_ONLY,
                 grad_output=lambda F, g, kernel_size, stride, padding, ceil_mode, count_include_pad, divisor_override:
                 F.avg_pool2d(g, kernel_size, stride, padding, ceil_mode, count_include_pad,
                              divisor_override)))  # fmt: skip
def avg_pool2d_backward(
    m: Numpy, grad_output: Array, self: Array, kernel_size: Ints, stride: Ints, padding: Ints, ceil_mode: bool,
    count_include_pad: bool, divisor_override: int | None,
) -> Array:  # fmt: skip
    """The gradient of the pooled image: each element of grad_output shared out among its window."""
    pool = _pool("avg_pool2d", self.shape, 2, kernel_size, stride, padding, [1], ceil_mode)
    return _avg_pool_backward(m, grad_output, self.shape, pool, count_include_pad, divisor_override)


@avg_pool2d_backward.parts
def _(
    F: Ops, grad_output: Tensor, self: Tensor, kernel_size: Ints, stride: Ints, padding: Ints, ceil_mode: bool,
    count_include_pad: bool, divisor_override: int | None,
) -> Tensor | None:  # fmt: skip
    pool = _pool("avg_pool2d", self.shape, 2, kernel_size, stride, padding, [1], ceil_mode)
    if pool.ceil or divisor_override == 0 or self.device != "cpu" or not grad_output.dtype.is_floating_point:
        return None
    shares = grad_output / _divisors(F, self.shape[-2:], pool, count_include_pad, divisor_override, grad_output)
    if pool.stride == pool.kernel and pool.padding == (0, 0):
        return _repeated(F, shares, self.shape[-2:], pool)
    return _overlapping(F, shares, self.shape, pool)


def _divisors(
    F: Ops, sizes: Ints, pool: PoolGeometry, include_pad: bool, override: int | None, like: Tensor
) -> Tensor | int:
    """The number by which each sum of a window was divided, of windows that do not hang over the end."""
    if override is not None or include_pad or pool.padding == (0, 0):
        return override or math.prod(pool.kernel)
    lengths = []
    for size, count, k, s, p in zip(sizes, pool.places(sizes), pool.kernel, pool.stride, pool.padding, strict=True):
        first = F.arange(count) * s - p
        lengths.append(F.clamp(first + k, max=size) - F.clamp(first, min=0))
    return F._to_copy(F.unsqueeze(lengths[0], 1) * lengths[1], dtype=like.dtype)


def _repeated(F: Ops, shares: Tensor, sizes: Ints, pool: PoolGeometry) -> Tensor:
    """Each share at all places of its window, where windows lie side by side; zeros beyond the last one."""
    before, places = list(shares.shape[:-2]), shares.shape[-2:]
    apart = [n for count, k in zip(places, pool.kernel, strict=True) for n in (count, k)]
    wide = F.expand(F.reshape(shares, [*before, places[0], 1, places[1], 1]), [*before, *apart])
    met = [count * k for count, k in zip(places, pool.kernel, strict=True)]
    image = F.reshape(wide, [*before, *met])
    for dim in (-1, -2):
        if str(met[dim]) != str(sizes[dim]):
            met[dim] = sizes[dim]
            image = F.slice_backward(image, [*before, *met], dim, 0, image.shape[dim], 1)
    return image


def _overlapping(F: Ops, shares: Tensor, shape: Ints, pool: PoolGeometry) -> Tensor | None:
    """The sums of shares where windows overlap: a transposed convolution by ones, plane by plane."""
    if shares.dtype.is_half or not all(type(n) is int for n in shape) or not set(pool.stride) <= {1, 2, 4}:
        return None
    spans = zip(shape[-2:], shares.shape[-2:], pool.stride, pool.kernel, pool.padding, strict=True)
    beyond = [n + 2 * p - (count - 1) * s - k for n, count, s, k, p in spans]
    planes = F.reshape(shares, [math.prod(shape[:-2]), 1, *shares.shape[-2:]])
    ones = F.ones([1, 1, *pool.kernel], dtype=shares.dtype)
    image = F.convolution(planes, ones, None, pool.stride, pool.padding, [1, 1], True, beyond, 1)
    return F.reshape(image, list(shape))


@avg_pool2d_backward.type
def _(
    grad_output: KnownType, self: KnownType, kernel_size: Ints, stride: Ints, padding: Ints, ceil_mode: bool,
    count_include_pad: bool, divisor_override: int | None,
) -> TensorType:  # fmt: skip
    return TensorType(grad_output.dtype, self.shape, None, self.device)


@avg_pool2d_backward.onnx
def _(
    g: OnnxWriter, grad_output: Value, self: Value, kernel_size: Ints, stride: Ints, padding: Ints, ceil_mode: bool,
    count_include_pad: bool, divisor_override: int | None,
) -> Value:  # fmt: skip
    pool = _pool("avg_pool2d", self.shape, 2, kernel_size, stride, padding, [1], ceil_mode)
    return _onnx_avg_pool_backward(g, grad_output, self, pool, count_include_pad, divisor_override)


@avg_pool2d_backward.samples
def _() -> Iterator[Sample]:
    yield sample(make(2, 3, 2, 3), make(2, 3, 4, 6), [2, 2], [2, 2], [0, 0], False, True, None)
    yield sample(make(1, 2, 3, 7), make(1, 2, 5, 6), [3, 2], [2, 1], [1, 1], False, False, None)
    yield sample(make(1, 1, 3, 3), make(1, 1, 5, 6), [2, 2], [2, 2], [0, 0], True, True, None, note="ceil")


@Precision(cpu="float32")
@array("aten::avg_pool3d(Tensor self, int[3] kernel_size, int[3] stride=[], int[3] padding=0, bool ceil_mode=False, "
       "bool count_include_pad=True, int? divisor_override=None) -> Tensor", namespaces=("nn.functional",))  # fmt: skip
def avg_pool3d(
    m: Numpy, self: Array, kernel_size: Ints, stride: Ints, padding: Ints, ceil_mode: bool, count_include_pad: bool,
    divisor_override: int | None,
) -> Array:  # fmt: skip
    """The mean of each window of [N, C, D, H, W] or [C, D, H, W]."""
    pool = _pool("avg_pool3d", self.shape, 3, kernel_size, stride, padding, [1], ceil_mode)
    return _avg_pool(m, self, pool, count_include_pad, divisor_override)


@avg_pool3d.type
def _(
    self: KnownType, kernel_size: Ints, stride: Ints, padding: Ints, ceil_mode: bool, count_include_pad: bool,
    divisor_override: int | None,
) -> TensorType:  # fmt: skip
    return _pooled(self, _pool("avg_pool3d", self.shape, 3, kernel_size, stride, padding, [1], ceil_mode))


@avg_pool3d.grad
def _(
    F: Ops, g: Tensor, self: Tensor, kernel_size: Ints, stride: Ints, padding: Ints, ceil_mode: bool,
    count_include_pad: bool, divisor_override: int | None,
) -> Sequence[Tensor | None]:  # fmt: skip
    rest = kernel_size, stride, padding, ceil_mode, count_include_pad, divisor_override
    return (F.avg_pool3d_backward(g, self, *rest),)


@avg_pool3d.onnx
def _(
    g: OnnxWriter, self: Value, kernel_size: Ints, stride: Ints, padding: Ints, ceil_mode: bool,
    count_include_pad: bool, divisor_override: int | None,
) -> Value:  # fmt: skip
    pool = _pool("avg_pool3d", self.shape, 3, kernel_size, stride, padding, [1], ceil_mode)
    return _onnx_avg_pool(g, self, pool, count_include_pad, divisor_override)


@avg_pool3d.samples
def _() -> Iterator[Sample]:
    yield sample(make(1, 2, 4, 3, 4), [2, 2, 2], [1, 1, 2], [0, 1, 0])


@array("aten::avg_pool3d_backward(Tensor grad_output, Tensor self, int[3] kernel_size, int[3] stride, int[3] padding, "
       "bool ceil_mode, bool count_include_pad, int? divisor_override) -> Tensor", namespaces=(),
       grad=dict(self=SIZES_ONLY,
                 grad_output=lambda F, g, kernel_size, stride, padding, ceil_mode, count_include_pad, divisor_override:
                 F.avg_pool3d(g, kernel_size, stride, padding, ceil_mode, count_include_pad,
                              divisor_override)))  # fmt: skip
def avg_pool3d_backward(
    m: Numpy, grad_output: Array, self: Array, kernel_size: Ints, stride: Ints, padding: Ints, ceil_mode: bool,
    count_include_pad: bool, divisor_override: int | None,
) -> Array:  # fmt: skip
    """The gradient of the pooled image: each element of grad_output shared out among its window."""
    pool = _pool("avg_pool3d", self.shape, 3, kernel_size, stride, padding, [1], ceil_mode)
    return _avg_pool_backward(m, grad_output, self.shape, pool, count_include_pad, divisor_override)


@avg_pool3d_backward.type
def _(
    grad_output: KnownType, self: KnownType, kernel_size: Ints, stride: Ints, padding: Ints, ceil_mode: bool,
    count_include_pad: bool, divisor_override: int | None,
) -> TensorType:  # fmt: skip
    return TensorType(grad_output.dtype, self.shape, None, self.device)


@avg_pool3d_backward.onnx
def _(
    g: OnnxWriter, grad_output: Value, self: Value, kernel_size: Ints, stride: Ints, padding: Ints, ceil_mode: bool,
    count_include_pad: bool, divisor_override: int | None,
) -> Value:  # fmt: skip
    pool = _pool("avg_pool3d", self.shape, 3, kernel_size, stride, padding, [1], ceil_mode)
    return _onnx_avg_pool_backward(g, grad_output, self, pool, count_include_pad, divisor_override)


@avg_pool3d_backward.samples
def _() -> Iterator[Sample]:
    yield sample(make(1, 2, 2, 1, 2), make(1, 2, 4, 3, 4), [2, 2, 2], [2, 2, 2], [0, 0, 0], False, True, None)


@composite("aten::avg_pool1d(Tensor self, int[1] kernel_size, int[1] stride=[], int[1] padding=0, "
           "bool ceil_mode=False, bool count_include_pad=True) -> Tensor", namespaces=_FACES)  # fmt: skip
def avg_pool1d(
    F: Ops, self: Tensor, kernel_size: Ints, stride: Ints, padding: Ints, ceil_mode: bool, count_include_pad: bool
) -> Tensor:
    """The mean of each window of [N, C, L] or [C, L]."""
    _check_counts("avg_pool1d", 1, kernel_size=kernel_size, stride=stride, padding=padding)
    geometry = [1, *kernel_size], [1, *(stride or kernel_size)], [0, *padding]
    return F.squeeze(F.avg_pool2d(F.unsqueeze(self, -2), *geometry, ceil_mode, count_include_pad), -2)


@avg_pool1d.samples
def _() -> Iterator[Sample]:
    yield sample(make(2, 3, 7), 3, 2, 1)
    yield sample(make(3, 6), 2, note="unbatched")


# -- windows that follow from the size of the result -------------------------------------------------------------


def _bounds(size: int, count: int) -> list[tuple[int, int]]:
    """Begin and end of each of `count` windows over `size` entries."""
    return [(i * size // count, -((i + 1) * size // -count)) for i in range(count)]


def _averaging(m: Any, size: int, count: int, dtype: Any) -> Any:
    """The matrix [count, size] that takes the mean of each window."""
    matrix = m.zeros((count, size), dtype)
    for row, (start, end) in enumerate(_bounds(size, count)):
        matrix[row, start:end] = 1 / (end - start)
    return matrix


def _averaged(m: Numpy, x: Array, matrices: Any) -> Any:
    """Each of the last dims multiplied by a matrix [result, entries]."""
    n = len(matrices)
    for i, matrix in enumerate(matrices):
        x = m.moveaxis(m.tensordot(x, matrix, axes=(x.ndim - n + i, 1)), -1, x.ndim - n + i)
    return m.array(x, order="C")


def _adaptive_sizes(name: str, shape: Ints, n: int, output_size: Ints) -> list[int]:
    if len(shape) not in (n + 1, n + 2) or 0 in shape[len(shape) - n :]:
        raise ShapeError(f"{name}: expects {n + 1} or {n + 2} dims, the last {n} of them not empty, got {list(shape)}")
    if any(size < 0 for size in output_size):
        raise UsageError(f"{name}: output_size {list(output_size)} must not be negative")
    return [*shape[: len(shape) - n], *output_size]


def _onnx_averaged(g: OnnxWriter, self: Value, output_size: Ints) -> Value:
    """The means of an adaptive pooling: a reduction for one window, else a product with a matrix for each dim."""
    n = len(output_size)
    if all(type(s) is int and s == 1 for s in output_size):
        return g.reduce("ReduceMean", self, list(range(self.ndim - n, self.ndim)), True)
    import numpy as np

    for i, count in enumerate(output_size):
        dim = self.ndim - n + i
        size = self.shape[dim]
        if type(size) is int and type(count) is int:
            matrix = g.constant(_averaging(np, size, count, np.float64).T, like=self)
        elif str(size) != str(count):
            matrix = _onnx_averaging(g, size, count, self)
        else:
            continue  # each window is an entry
        order = [d for d in range(self.ndim) if d != dim] + [dim]
        product = g.op("MatMul", g.op("Transpose", self, perm=order) if dim != self.ndim - 1 else self, matrix)
        back = [order.index(d) for d in range(self.ndim)]
        self = g.op("Transpose", product, perm=back) if dim != self.ndim - 1 else product
    return self


def _onnx_averaging(g: OnnxWriter, size: int, count: int, like: Value) -> Value:
    """The matrix of weights, size x count, where one of these is known only when the model runs.

    Window i reaches from i * size // count to before (i + 1) * size / count, rounded up.
    """

    def numbers_to(end: int) -> Value:
        return g.op("Range", g.constant(0, dtype="int64"), g.constant(end, dtype="int64"), one)

    one, length, many = (g.constant(number, dtype="int64") for number in (1, size, count))
    windows, entries = numbers_to(count), g.op("Unsqueeze", numbers_to(size), g.ints([1]))
    starts = g.op("Div", g.op("Mul", windows, length), many)
    nearly = g.op("Add", g.op("Mul", g.op("Add", windows, one), length), g.op("Sub", many, one))
    ends = g.op("Div", nearly, many)
    inside = g.op("And", g.op("Not", g.op("Less", entries, starts)), g.op("Less", entries, ends))
    return g.op("Div", g.cast(inside, like.dtype), g.cast(g.op("Sub", ends, starts), like.dtype))


@array("aten::adaptive_avg_pool2d(Tensor self, int[2] output_size) -> Tensor", namespaces=("nn.functional",),
       grad=dict(self=lambda F, g, self: F._adaptive_avg_pool2d_backward(g, self)))  # fmt: skip
def adaptive_avg_pool2d(m: Numpy, self: Array, output_size: Ints) -> Array:
    """The means of windows that divide the last 2 dims into output_size parts, which may overlap by an entry."""
    _adaptive_sizes("adaptive_avg_pool2d", self.shape, 2, output_size)
    return _adaptive_avg(m, self, output_size)


def _adaptive_avg(m: Numpy, x: Array, output_size: Ints) -> Any:
    if x.dtype.kind in "iub":
        raise DTypeError(f"only floating tensors can be averaged, and this one is {x.dtype}; cast with x.float()")
    n = len(output_size)
    if all(s == 1 for s in output_size):
        return m.mean(x, axis=tuple(range(x.ndim - n, x.ndim)), keepdims=True)
    return _averaged(m, x, [_averaging(m, s, c, x.dtype) for s, c in zip(x.shape[x.ndim - n :], output_size)])


def _adaptive_avg_backward(m: Numpy, g: Array, shape: Ints, n: int) -> Any:
    sizes, counts = shape[len(shape) - n :], g.shape[g.ndim - n :]
    return _averaged(m, g, [_averaging(m, s, c, g.dtype).T for s, c in zip(sizes, counts)])


@adaptive_avg_pool2d.type
def _(self: KnownType, output_size: Ints) -> TensorType:
    sizes = _adaptive_sizes("adaptive_avg_pool2d", self.sizes, 2, output_size)
    return TensorType(self.dtype, tuple(sizes), None, self.device)


@adaptive_avg_pool2d.onnx
def _(g: OnnxWriter, self: Value, output_size: Ints) -> Value:
    return _onnx_averaged(g, self, output_size)


@adaptive_avg_pool2d.samples
def _() -> Iterator[Sample]:
    yield sample(make(2, 3, 4, 6), [1, 1])
    yield sample(make(2, 3, 4, 6), [2, 3])
    yield sample(make(1, 2, 5, 7), [3, 2])
    yield sample(make(2, 3, 4), [5, 2], note="unbatched")
    yield sample(strided(make(1, 2, 4, 4)), [3, 3], note="strided")


def _onnx_adaptive_backward(g: OnnxWriter, grad: Value, self: Value, n: int) -> Value:
    import numpy as np

    for dim in range(self.ndim - n, self.ndim):
        size, count = self.shape[dim], grad.shape[dim]
        if type(size) is not int or type(count) is not int:
            raise g.unsupported("the gradient of an adaptive pooling needs known sizes")
        order = [d for d in range(self.ndim) if d != dim] + [dim]
        matrix = g.constant(_averaging(np, size, count, np.float64), like=grad)
        product = g.op("MatMul", g.op("Transpose", grad, perm=order), matrix)
        grad = g.op("Transpose", product, perm=[order.index(d) for d in range(self.ndim)])
    return grad


@array("aten::_adaptive_avg_pool2d_backward(Tensor grad_output, Tensor self) -> Tensor", namespaces=(),
       grad=dict(self=SIZES_ONLY, grad_output=lambda F, g, grad_output_meta:
                 F.adaptive_avg_pool2d(g, grad_output_meta.shape[-2:])))  # fmt: skip
def _adaptive_avg_pool2d_backward(m: Numpy, grad_output: Array, self: Array) -> Array:
    """The gradient of the pooled image: each element of grad_output shared out among its window."""
    return _adaptive_avg_backward(m, grad_output, self.shape, 2)


@_adaptive_avg_pool2d_backward.type
def _(grad_output: KnownType, self: KnownType) -> TensorType:
    return TensorType(grad_output.dtype, self.shape, None, self.device)


@_adaptive_avg_pool2d_backward.onnx
def _(g: OnnxWriter, grad_output: Value, self: Value) -> Value:
    return _onnx_adaptive_backward(g, grad_output, self, 2)


@_adaptive_avg_pool2d_backward.samples
def _() -> Iterator[Sample]:
    yield sample(make(2, 3, 1, 1), make(2, 3, 4, 6))
    yield sample(make(1, 2, 3, 2), make(1, 2, 5, 7))


@composite("aten::adaptive_avg_pool1d(Tensor self, int[1] output_size) -> Tensor", namespaces=_FACES)
def adaptive_avg_pool1d(F: Ops, self: Tensor, output_size: Ints) -> Tensor:
    """The means of windows that divide the last dim into output_size parts, which may overlap by an entry."""
    return F.squeeze(F.adaptive_avg_pool2d(F.unsqueeze(self, -2), [1, *output_size]), -2)


@adaptive_avg_pool1d.samples
def _() -> Iterator[Sample]:
    yield sample(make(2, 3, 7), 3)


@Precision(cpu="float32")
@array("aten::adaptive_avg_pool3d(Tensor self, int[3] output_size) -> Tensor", namespaces=("nn.functional",),
       grad=dict(self=lambda F, g, self: F._adaptive_avg_pool3d_backward(g, self)))  # fmt: skip
def adaptive_avg_pool3d(m: Numpy, self: Array, output_size: Ints) -> Array:
    """The means of windows that divide the last 3 dims into output_size parts, which may overlap by an entry."""
    _adaptive_sizes("adaptive_avg_pool3d", self.shape, 3, output_size)
    return _adaptive_avg(m, self, output_size)


@adaptive_avg_pool3d.type
def _(self: KnownType, output_size: Ints) -> TensorType:
    sizes = _adaptive_sizes("adaptive_avg_pool3d", self.sizes, 3, output_size)
    return TensorType(self.dtype, tuple(sizes), None, self.device)


@adaptive_avg_pool3d.onnx
def _(g: OnnxWriter, self: Value, output_size: Ints) -> Value:
    return _onnx_averaged(g, self, output_size)


@adaptive_avg_pool3d.samples
def _() -> Iterator[Sample]:
    yield sample(make(1, 2, 4, 3, 5), [2, 2, 3])


@array("aten::_adaptive_avg_pool3d_backward(Tensor grad_output, Tensor self) -> Tensor", namespaces=(),
       grad=dict(self=SIZES_ONLY, grad_output=lambda F, g, grad_output_meta:
                 F.adaptive_avg_pool3d(g, grad_output_meta.shape[-3:])))  # fmt: skip
def _adaptive_avg_pool3d_backward(m: Numpy, grad_output: Array, self: Array) -> Array:
    """The gradient of the pooled image: each element of grad_output shared out among its window."""
    return _adaptive_avg_backward(m, grad_output, self.shape, 3)


@_adaptive_avg_pool3d_backward.type
def _(grad_output: KnownType, self: KnownType) -> TensorType:
    return TensorType(grad_output.dtype, self.shape, None, self.device)


@_adaptive_avg_pool3d_backward.onnx
def _(g: OnnxWriter, grad_output: Value, self: Value) -> Value:
    return _onnx_adaptive_backward(g, grad_output, self, 3)


@_adaptive_avg_pool3d_backward.samples
def _() -> Iterator[Sample]:
    yield sample(make(1, 2, 2, 2, 3), make(1, 2, 4, 3, 5))


def _adaptive_max(m: Numpy, x: Array, output_size: Ints) -> Any:
    """(maxima, where each lies in its image); a NaN wins, as argmax has it."""
    n = len(output_size)
    sizes = x.shape[x.ndim - n :]
    lead = x.shape[: x.ndim - n]
    if 0 in x.shape[1:]:
        raise ShapeError(
            f"adaptive max pooling: expects dims of which only the batch may be empty, got {list(x.shape)}"
        )
    values, places = m.empty((*lead, *output_size), x.dtype), m.empty((*lead, *output_size), m.int64)
    lines = m.arange(math.prod(sizes)).reshape(sizes)
    cells: list[tuple[tuple[int, ...], tuple[Any, ...]]] = [((), ())]
    for size, count in zip(sizes, output_size):
        spans = list(enumerate(_bounds(size, count)))
        cells = [((*at, i), (*where, slice(*span))) for at, where in cells for i, span in spans]
    for at, where in cells:
        place: tuple[Any, ...] = (..., *at)
        window = x[(..., *where)]
        window = window.reshape(*lead, math.prod(window.shape[len(lead) :]))
        winner = m.argmax(window, axis=-1)
        values[place] = m.take_along_axis(window, winner[..., None], axis=-1)[..., 0]
        places[place] = m.take(lines[where].ravel(), winner)
    return values, places


def _onnx_maxima(g: OnnxWriter, self: Value, output_size: Ints) -> Value:
    """The maxima of windows of several sizes, dim by dim, without their places."""
    for dim, count in enumerate(output_size, self.ndim - len(output_size)):
        size, rows = self.shape[dim], []
        for i in range(count):
            bounds = g.ints([i * size // count]), g.ints([(size * (i + 1) + (count - 1)) // count])
            window = g.op("Slice", self, *bounds, g.ints([dim])) if count > 1 else self
            rows.append(g.reduce("ReduceMax", window, dim, True))
        self = g.op("Concat", *rows, axis=dim) if count > 1 else rows[0]
    return self


def _onnx_adaptive_max(g: OnnxWriter, self: Value, output_size: Ints) -> Any:
    n = len(output_size)
    sizes = self.shape[self.ndim - n :]
    if not all(type(c) is int for c in output_size):
        raise g.unsupported("the number of windows is dynamic")
    if not all(type(s) is int and s % c == 0 for s, c in zip(sizes, output_size)):
        return _onnx_maxima(g, self, output_size), None
    kernel = tuple(s // c for s, c in zip(sizes, output_size))
    return _onnx_max_pool(g, self, PoolGeometry(kernel, kernel, (0,) * n, (1,) * n, False))


@array("aten::adaptive_max_pool2d(Tensor self, int[2] output_size) -> (Tensor, Tensor)", namespaces=(),
       grad=lambda F, g, self, out: (F.adaptive_max_pool2d_backward(g, self, out[1]),))  # fmt: skip
def adaptive_max_pool2d(m: Numpy, self: Array, output_size: Ints) -> Sequence[Array | None]:
    """(the maxima of windows that divide the last 2 dims into output_size parts, their places in the image)."""
    _adaptive_sizes("adaptive_max_pool2d", self.shape, 2, output_size)
    return _adaptive_max(m, self, output_size)


@adaptive_max_pool2d.type
def _(self: KnownType, output_size: Ints) -> Sequence[Type]:
    sizes = tuple(_adaptive_sizes("adaptive_max_pool2d", self.sizes, 2, output_size))
    return TensorType(self.dtype, sizes, None, self.device), TensorType(dtypes.int64, sizes, None, self.device)


@adaptive_max_pool2d.onnx
def _(g: OnnxWriter, self: Value, output_size: Ints) -> Sequence[Value | None]:
    return _onnx_adaptive_max(g, self, output_size)


@adaptive_max_pool2d.samples
def _() -> Iterator[Sample]:
    yield sample(_distinct(2, 3, 4, 6), [2, 3])
    yield sample(_distinct(1, 2, 5, 7), [3, 2], onnx=False, note="windows of several sizes")


@array("aten::adaptive_max_pool2d_backward(Tensor grad_output, Tensor self, Tensor indices) -> Tensor", raises=True,
       namespaces=(),
       grad=dict(self=SIZES_ONLY, grad_output=lambda F, g, indices: gather_places(F, g, indices, 2)))  # fmt: skip
def adaptive_max_pool2d_backward(m: Numpy, grad_output: Array, self: Array, indices: Array) -> Array:
    """The gradient of the pooled image: each element of grad_output added at the place that indices name."""
    return _add_at(m, grad_output, self.shape, indices, 2)


@adaptive_max_pool2d_backward.type
def _(grad_output: KnownType, self: KnownType, indices: KnownType) -> TensorType:
    return TensorType(grad_output.dtype, self.shape, None, self.device)


@adaptive_max_pool2d_backward.onnx
def _(g: OnnxWriter, grad_output: Value, self: Value, indices: Value) -> Value:
    return _onnx_add_at(g, grad_output, self, indices, 2)


@adaptive_max_pool2d_backward.samples
def _() -> Iterator[Sample]:
    import numpy as np

    yield sample(make(1, 1, 2, 2), make(1, 1, 4, 4), np.array([[[[0, 3], [8, 10]]]], np.int64))


@Precision(cpu="float32")
@array("aten::adaptive_max_pool3d(Tensor self, int[3] output_size) -> (Tensor, Tensor)", namespaces=(),
       grad=lambda F, g, self, out: (F.adaptive_max_pool3d_backward(g, self, out[1]),))  # fmt: skip
def adaptive_max_pool3d(m: Numpy, self: Array, output_size: Ints) -> Sequence[Array | None]:
    """(the maxima of windows that divide the last 3 dims into output_size parts, their places in the image)."""
    _adaptive_sizes("adaptive_max_pool3d", self.shape, 3, output_size)
    return _adaptive_max(m, self, output_size)


@adaptive_max_pool3d.type
def _(self: KnownType, output_size: Ints) -> Sequence[Type]:
    sizes = tuple(_adaptive_sizes("adaptive_max_pool3d", self.sizes, 3, output_size))
    return TensorType(self.dtype, sizes, None, self.device), TensorType(dtypes.int64, sizes, None, self.device)


@adaptive_max_pool3d.onnx
def _(g: OnnxWriter, self: Value, output_size: Ints) -> Sequence[Value | None]:
    return _onnx_adaptive_max(g, self, output_size)


@adaptive_max_pool3d.samples
def _() -> Iterator[Sample]:
    yield sample(_distinct(1, 2, 4, 3, 4), [2, 1, 2])


@array("aten::adaptive_max_pool3d_backward(Tensor grad_output, Tensor self, Tensor indices) -> Tensor", raises=True,
       namespaces=(),
       grad=dict(self=SIZES_ONLY, grad_output=lambda F, g, indices: gather_places(F, g, indices, 3)))  # fmt: skip
def adaptive_max_pool3d_backward(m: Numpy, grad_output: Array, self: Array, indices: Array) -> Array:
    """The gradient of the pooled image: each element of grad_output added at the place that indices name."""
    return _add_at(m, grad_output, self.shape, indices, 3)


@adaptive_max_pool3d_backward.type
def _(grad_output: KnownType, self: KnownType, indices: KnownType) -> TensorType:
    return TensorType(grad_output.dtype, self.shape, None, self.device)


@adaptive_max_pool3d_backward.onnx
def _(g: OnnxWriter, grad_output: Value, self: Value, indices: Value) -> Value:
    return _onnx_add_at(g, grad_output, self, indices, 3)


@adaptive_max_pool3d_backward.samples
def _() -> Iterator[Sample]:
    import numpy as np

    yield sample(make(1, 1, 1, 1, 2), make(1, 1, 2, 2, 2), np.array([[[[[0, 3]]]]], np.int64))


@composite("aten::adaptive_max_pool1d(Tensor self, int[1] output_size) -> (Tensor, Tensor)", namespaces=("jit",))
def adaptive_max_pool1d(F: Ops, self: Tensor, output_size: Ints) -> Sequence[Tensor]:
    """(the maxima of windows that divide the last dim into output_size parts, their places in the image)."""
    values, indices = F.adaptive_max_pool2d(F.unsqueeze(self, -2), [1, *output_size])
    return F.squeeze(values, -2), F.squeeze(indices, -2)


@adaptive_max_pool1d.samples
def _() -> Iterator[Sample]:
    yield sample(_distinct(2, 3, 6), 3)
