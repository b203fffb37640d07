"""Patches of images as columns and back (`unfold` and `fold`); padding by rank; tensors of at least so many dims."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any

from jit.ir.errors import ShapeError, UsageError
from jit.ir.kernel import Kernel
from jit.ir.op import Op, array, composite
from jit.ir.samples import Sample, make, sample, strided
from jit.ir.types import TensorType

if TYPE_CHECKING:
    from .protocols import Array, Ints, KnownType, Numpy, OnnxWriter, Ops, Tensor, Value

# -- patches -----------------------------------------------------------------------------------------------------


def patch_counts(name: str, sizes: Ints, kernel: Ints, dilation: Ints, padding: Ints, stride: Ints) -> tuple[int, int]:
    """(the number of patches down the image, the number across it)."""
    for what, numbers, least in (("kernel_size", kernel, 1), ("dilation", dilation, 1), ("padding", padding, 0),
                                 ("stride", stride, 1)):  # fmt: skip
        if any(number < least for number in numbers):
            raise UsageError(f"{name}: {what} {list(numbers)} must be at least {least}")
    down, across = (
        (size + 2 * p - d * (k - 1) - 1) // s + 1
        for size, k, d, p, s in zip(sizes, kernel, dilation, padding, stride, strict=True)
    )
    if down < 1 or across < 1:
        raise ShapeError(f"{name}: a kernel of {list(kernel)} does not fit the sizes {list(sizes)}")
    return down, across


def _places(kernel: Ints, dilation: Ints, stride: Ints, counts: tuple[int, int]) -> Iterator[tuple[int, int, Any, Any]]:
    """The row and column of each tap of the kernel, and the slices of the padded image that it meets."""
    for i in range(kernel[0]):
        for j in range(kernel[1]):
            top, left = i * dilation[0], j * dilation[1]
            down = slice(top, top + (counts[0] - 1) * stride[0] + 1, stride[0])
            yield i, j, down, slice(left, left + (counts[1] - 1) * stride[1] + 1, stride[1])


def _image_dims(name: str, shape: Ints) -> tuple[Any, int]:
    """(the batch sizes, the number of channels) of an image, which may lack the batch dim."""
    if len(shape) not in (3, 4) or 0 in shape[-3:]:
        raise ShapeError(f"{name}: expects [N, C, H, W] or [C, H, W], none but N empty, got {list(shape)}")
    return tuple(shape[:-3]), shape[-3]


@array("aten::im2col(Tensor self, int[2] kernel_size, int[2] dilation, int[2] padding, int[2] stride) -> Tensor",
       kernel=Kernel(moves=True), namespaces=(),
       grad=dict(self=lambda F, g, self_meta, kernel_size, dilation, padding, stride:
                      F.col2im(g, self_meta.shape[-2:], kernel_size, dilation, padding, stride)))  # fmt: skip
def im2col(m: Numpy, self: Array, kernel_size: Ints, dilation: Ints, padding: Ints, stride: Ints) -> Array:
    """The patches of an image, [N, C, H, W], as columns: [N, C * kernel, patches]."""
    batch, channels = _image_dims("im2col", self.shape)
    counts = patch_counts("im2col", self.shape[-2:], kernel_size, dilation, padding, stride)
    image = m.pad(self, [(0, 0)] * (self.ndim - 2) + [(p, p) for p in padding])
    out = m.empty((*batch, channels, *kernel_size, *counts), self.dtype)
    for i, j, down, across in _places(kernel_size, dilation, stride, counts):
        out[..., i, j, :, :] = image[..., down, across]
    return out.reshape(*batch, channels * kernel_size[0] * kernel_size[1], counts[0] * counts[1])


@im2col.type
def _(self: KnownType, kernel_size: Ints, dilation: Ints, padding: Ints, stride: Ints) -> TensorType:
    batch, channels = _image_dims("im2col", self.shape)
    down, across = patch_counts("im2col", self.shape[-2:], kernel_size, dilation, padding, stride)
    sizes = (*batch, channels * kernel_size[0] * kernel_size[1], down * across)
    return TensorType(self.dtype, sizes, None, self.device)


@im2col.onnx
def _(g: OnnxWriter, self: Value, kernel_size: Ints, dilation: Ints, padding: Ints, stride: Ints) -> Value:
    """A convolution, channel by channel, with kernels that each pick one element of the patch."""
    import numpy as np

    channels, size = self.shape[-3], kernel_size[0] * kernel_size[1]
    if type(channels) is not int:
        raise g.unsupported("the number of channels is dynamic")
    picks = np.tile(np.eye(size).reshape(size, 1, *kernel_size), (channels, 1, 1, 1))
    image = self if self.ndim == 4 else g.op("Unsqueeze", self, g.ints([0]))
    patches = g.op("Conv", image, g.constant(picks, like=self), group=channels, strides=list(stride),
                   dilations=list(dilation), pads=[*padding, *padding])  # fmt: skip
    return g.op("Reshape", patches, g.ints(list(g.out.shape)))


@im2col.samples
def _() -> Iterator[Sample]:
    yield sample(make(2, 3, 4, 5), [2, 3], [1, 1], [0, 0], [1, 1])
    yield sample(make(1, 2, 5, 5), [2, 2], [2, 1], [1, 2], [2, 1], note="dilated, padded, strided")
    yield sample(make(2, 4, 4), [2, 2], [1, 1], [0, 0], [2, 2], note="unbatched")
    yield sample(strided(make(1, 2, 3, 4)), [2, 2], [1, 1], [1, 1], [1, 1], note="strided")
    yield sample(make(1, 1, 4, 4, dtype="float16"), [2, 2], [1, 1], [0, 0], [1, 1], note="half", grad=False, onnx=False)


def _column_dims(shape: Ints, kernel: Ints, counts: tuple[int, int]) -> tuple[Any, int]:
    """(the batch sizes, the number of channels) of columns; ShapeError unless they make up the image."""
    size = kernel[0] * kernel[1]
    if len(shape) not in (2, 3) or shape[-2] % size or not shape[-2]:
        raise ShapeError(f"col2im: expects [N, C * {size}, L] or [C * {size}, L], got {list(shape)}")
    if shape[-1] != counts[0] * counts[1]:
        raise ShapeError(f"col2im: an image of these sizes has {counts[0]} * {counts[1]} patches, not {shape[-1]}")
    return tuple(shape[:-2]), shape[-2] // size


@array("aten::col2im(Tensor self, int[2] output_size, int[2] kernel_size, int[2] dilation, int[2] padding, "
       "int[2] stride) -> Tensor", namespaces=(),
       grad=dict(self=lambda F, g, kernel_size, dilation, padding, stride:
                      F.im2col(g, kernel_size, dilation, padding, stride)))  # fmt: skip
def col2im(
    m: Numpy, self: Array, output_size: Ints, kernel_size: Ints, dilation: Ints, padding: Ints, stride: Ints
) -> Array:
    """The image, [N, C, H, W], that columns of patches, [N, C * kernel, patches], sum up to."""
    counts = patch_counts("col2im", output_size, kernel_size, dilation, padding, stride)
    batch, channels = _column_dims(self.shape, kernel_size, counts)
    columns = self.reshape(*batch, channels, *kernel_size, *counts)
    image = m.zeros((*batch, channels, *(n + 2 * p for n, p in zip(output_size, padding))), self.dtype)
    for i, j, down, across in _places(kernel_size, dilation, stride, counts):
        image[..., down, across] += columns[..., i, j, :, :]
    inside: tuple[Any, ...] = (..., *(slice(p, p + n) for n, p in zip(output_size, padding)))
    return m.array(image[inside], order="C")


@col2im.type
def _(self: KnownType, output_size: Ints, kernel_size: Ints, dilation: Ints, padding: Ints, stride: Ints) -> TensorType:
    counts = patch_counts("col2im", output_size, kernel_size, dilation, padding, stride)
    batch, channels = _column_dims(self.shape, kernel_size, counts)
    return TensorType(self.dtype, (*batch, channels, *output_size), None, self.device)


@col2im.onnx
def _(
    g: OnnxWriter, self: Value, output_size: Ints, kernel_size: Ints, dilation: Ints, padding: Ints, stride: Ints
) -> Value:
    if g.opset < 18:
        raise g.unsupported("Col2Im adds patches up only", since=18)
    columns = self if self.ndim == 3 else g.op("Unsqueeze", self, g.ints([0]))
    image = g.op("Col2Im", columns, g.ints(list(output_size)), g.ints(list(kernel_size)), dilations=list(dilation),
                 pads=[*padding, *padding], strides=list(stride))  # fmt: skip
    return image if self.ndim == 3 else g.op("Squeeze", image, g.ints([0]))


@col2im.samples
def _() -> Iterator[Sample]:
    yield sample(make(2, 18, 9), [4, 5], [2, 3], [1, 1], [0, 0], [1, 1])
    yield sample(make(1, 8, 24), [5, 5], [2, 2], [2, 1], [1, 2], [2, 1], note="dilated, padded, strided")
    yield sample(make(8, 4), [4, 4], [2, 2], [1, 1], [0, 0], [2, 2], note="unbatched")


# -- padding by rank ---------------------------------------------------------------------------------------------


def _declare_pad(name: str, mode: str, rank: int) -> Op:
    """`reflection_pad2d` and its like: `edge_pad_nd` of the last `rank` dims."""

    def pad(F: Ops, self: Tensor, padding: Ints) -> Tensor:
        if self.ndim not in (rank + 1, rank + 2) or len(padding) != 2 * rank:
            sizes = f"{list(self.shape)} and {list(padding)}"
            raise ShapeError(f"{name}: expects {rank + 1} or {rank + 2} dims and {2 * rank} paddings, got {sizes}")
        return F.edge_pad_nd(self, padding, mode)

    what, dims = "its mirror image" if mode == "reflect" else "its ends", "dim" if rank == 1 else f"{rank} dims"
    pad.__doc__ = f"self padded with copies of {what} along the last {dims}."
    op = composite(f"aten::{name}(Tensor self, int[{2 * rank}] padding) -> Tensor", namespaces=())(pad)

    def samples() -> Iterator[Sample]:
        yield sample(make(2, *(4,) * (rank + 1)), [1, 2, 2, 1, 0, 1][: 2 * rank])
        yield sample(make(*(3,) * (rank + 1)), [1] * (2 * rank), note="unbatched")

    op.samples(samples)
    return op


for _rank in (1, 2, 3):
    _declare_pad(f"reflection_pad{_rank}d", "reflect", _rank)
    _declare_pad(f"replication_pad{_rank}d", "replicate", _rank)


# -- at least so many dims ---------------------------------------------------------------------------------------


def _dim_samples() -> Iterator[Sample]:
    yield sample(make(), note="0-d")
    yield sample(make(3))
    yield sample(make(2, 3))
    yield sample(make(2, 3, 4))


def _dim_list_samples() -> Iterator[Sample]:
    yield sample([make(), make(3, seed=1), make(2, 3, seed=2)])


@composite("aten::atleast_1d(Tensor self) -> Tensor", namespaces=("jit",), samples=_dim_samples)
def atleast_1d(F: Ops, self: Tensor) -> Tensor:
    """self with at least one dim: a 0-d tensor becomes [1]."""
    return F.reshape(self, [1]) if self.ndim == 0 else self


@composite("aten::atleast_2d(Tensor self) -> Tensor", namespaces=("jit",), samples=_dim_samples)
def atleast_2d(F: Ops, self: Tensor) -> Tensor:
    """self with at least two dims: a vector [n] becomes [1, n]."""
    return F.unsqueeze(F.atleast_1d(self), 0) if self.ndim < 2 else self


@composite("aten::atleast_3d(Tensor self) -> Tensor", namespaces=("jit",), samples=_dim_samples)
def atleast_3d(F: Ops, self: Tensor) -> Tensor:
    """self with at least three dims: a vector [n] becomes [1, n, 1], a matrix [n, m] becomes [n, m, 1]."""
    return F.unsqueeze(F.atleast_2d(self), -1) if self.ndim < 3 else self


@composite("aten::atleast_1d.Sequence(Tensor[] tensors) -> Tensor[]", spreads=True, namespaces=("jit",),
           samples=_dim_list_samples)  # fmt: skip
def atleast_1d_each(F: Ops, tensors: Sequence[Tensor]) -> list[Tensor]:
    """Each tensor with at least one dim."""
    return [F.atleast_1d(t) for t in tensors]


@composite("aten::atleast_2d.Sequence(Tensor[] tensors) -> Tensor[]", spreads=True, namespaces=("jit",),
           samples=_dim_list_samples)  # fmt: skip
def atleast_2d_each(F: Ops, tensors: Sequence[Tensor]) -> list[Tensor]:
    """Each tensor with at least two dims."""
    return [F.atleast_2d(t) for t in tensors]


@composite("aten::atleast_3d.Sequence(Tensor[] tensors) -> Tensor[]", spreads=True, namespaces=("jit",),
           samples=_dim_list_samples)  # fmt: skip
def atleast_3d_each(F: Ops, tensors: Sequence[Tensor]) -> list[Tensor]:
    """Each tensor with at least three dims."""
    return [F.atleast_3d(t) for t in tensors]
