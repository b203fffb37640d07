"""Layers without parameters that drop, reshape or pass on their input."""

from __future__ import annotations

from typing import Any

from jit.eager.expecting import expect_number
from jit.eager.namespace import F
from jit.ir.errors import KindError, UsageError

from . import functional
from .modules import Module


class Identity(Module):
    """Returns its input; takes and ignores any arguments."""

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__()

    def forward(self, input: Any) -> Any:
        return input


class Flatten(Module):
    """Makes one dim of several.

    Args:
        start_dim: The first of them.
        end_dim: The last of them.

    >>> import jit
    >>> jit.nn.Flatten()(jit.zeros(2, 3, 4)).shape
    jit.Size([2, 12])
    """

    def __init__(self, start_dim: int = 1, end_dim: int = -1) -> None:
        super().__init__()
        self.start_dim, self.end_dim = start_dim, end_dim

    def forward(self, input: Any) -> Any:
        return F.flatten(input, self.start_dim, self.end_dim)

    def extra_repr(self) -> str:
        return f"start_dim={self.start_dim}, end_dim={self.end_dim}"


class Unflatten(Module):
    """Makes several dims of one.

    Args:
        dim: The dim.
        unflattened_size: The sizes of the dims in its place; one may be -1.

    >>> import jit
    >>> jit.nn.Unflatten(1, (2, 3))(jit.zeros(4, 6)).shape
    jit.Size([4, 2, 3])
    """

    def __init__(self, dim: int, unflattened_size: Any) -> None:
        super().__init__()
        sizes = unflattened_size if isinstance(unflattened_size, (tuple, list)) else (unflattened_size,)
        if not all(hasattr(size, "__index__") for size in sizes) or sizes is not unflattened_size:
            raise KindError(f"unflattened_size is {unflattened_size!r}; pass a tuple of sizes")
        self.dim, self.unflattened_size = dim, tuple(sizes)

    def forward(self, input: Any) -> Any:
        return F.unflatten(input, self.dim, self.unflattened_size)

    def extra_repr(self) -> str:
        return f"dim={self.dim}, unflattened_size={self.unflattened_size}"


class PixelShuffle(Module):
    """Moves channels into space: `[N, C * r², H, W]` to `[N, C, H * r, W * r]`.

    Args:
        upscale_factor: r.

    >>> import jit
    >>> jit.nn.PixelShuffle(2)(jit.zeros(1, 8, 3, 3)).shape
    jit.Size([1, 2, 6, 6])
    """

    def __init__(self, upscale_factor: int) -> None:
        super().__init__()
        self.upscale_factor = upscale_factor

    def forward(self, input: Any) -> Any:
        return functional.pixel_shuffle(input, self.upscale_factor)

    def extra_repr(self) -> str:
        return f"upscale_factor={self.upscale_factor}"


class PixelUnshuffle(Module):
    """The inverse of `PixelShuffle`: `[N, C, H * r, W * r]` to `[N, C * r², H, W]`.

    Args:
        downscale_factor: r.

    >>> import jit
    >>> jit.nn.PixelUnshuffle(2)(jit.zeros(1, 2, 6, 6)).shape
    jit.Size([1, 8, 3, 3])
    """

    def __init__(self, downscale_factor: int) -> None:
        super().__init__()
        self.downscale_factor = downscale_factor

    def forward(self, input: Any) -> Any:
        return functional.pixel_unshuffle(input, self.downscale_factor)

    def extra_repr(self) -> str:
        return f"downscale_factor={self.downscale_factor}"


class ChannelShuffle(Module):
    """Puts the channels of `[N, C, ...]` in the order in which one of each group comes after the other.

    Args:
        groups: The number of groups, which divides that of the channels.
    """

    def __init__(self, groups: int) -> None:
        super().__init__()
        self.groups = groups

    def forward(self, input: Any) -> Any:
        return functional.channel_shuffle(input, self.groups)

    def extra_repr(self) -> str:
        return f"groups={self.groups}"


class Unfold(Module):
    """Each patch of `[N, C, H, W]` as a column: `[N, C * kernel, patches]`.

    Args:
        kernel_size: Height and width of a patch, a number or a pair; the same for the following.
        dilation: Distance of a patch's elements.
        padding: Zeros put on every side.
        stride: Step from patch to patch.

    Shape:
        Input `[N, C, H, W]` or `[C, H, W]`; output `[N, C * kernel, patches]` or without N, `kernel` the elements of a
        patch, channels slowest.

    >>> import jit
    >>> jit.nn.Unfold(2)(jit.zeros(1, 2, 3, 3)).shape
    jit.Size([1, 8, 4])
    """

    def __init__(self, kernel_size: Any, dilation: Any = 1, padding: Any = 0, stride: Any = 1) -> None:
        super().__init__()
        self.kernel_size, self.dilation, self.padding, self.stride = kernel_size, dilation, padding, stride

    def forward(self, input: Any) -> Any:
        return functional.unfold(input, self.kernel_size, self.dilation, self.padding, self.stride)

    def extra_repr(self) -> str:
        return f"kernel_size={self.kernel_size}, dilation={self.dilation}, padding={self.padding}, stride={self.stride}"


class Fold(Module):
    """The image that columns of patches, as `Unfold` makes them, add up to.

    Args:
        output_size: Height and width of the image, a number or a pair; the same for the following.
        kernel_size: Height and width of a patch.
        dilation: Distance of a patch's elements.
        padding: What the image was padded with on every side.
        stride: Step from patch to patch.

    Shape:
        Input `[N, C * kernel, patches]` or without N; output `[N, C, *output_size]` or without N.

    >>> import jit
    >>> patches = jit.nn.Unfold(2)(jit.ones(1, 1, 3, 3))
    >>> jit.nn.Fold((3, 3), 2)(patches).tolist()
    [[[[1.0, 2.0, 1.0], [2.0, 4.0, 2.0], [1.0, 2.0, 1.0]]]]
    """

    def __init__(
        self, output_size: Any, kernel_size: Any, dilation: Any = 1, padding: Any = 0, stride: Any = 1
    ) -> None:
        super().__init__()
        self.output_size, self.kernel_size = output_size, kernel_size
        self.dilation, self.padding, self.stride = dilation, padding, stride

    def forward(self, input: Any) -> Any:
        options = self.kernel_size, self.dilation, self.padding, self.stride
        return functional.fold(input, self.output_size, *options)

    def extra_repr(self) -> str:
        return (
            f"output_size={self.output_size}, kernel_size={self.kernel_size}, dilation={self.dilation}, "
            f"padding={self.padding}, stride={self.stride}"
        )


class _Dropout(Module):
    def __init__(self, p: float = 0.5, inplace: bool = False) -> None:
        super().__init__()
        expect_number("a dropout probability", p)
        if not 0 <= p <= 1:
            raise UsageError(f"the dropout probability is {p}; pass a number between 0 and 1")
        self.p, self.inplace = p, inplace

    def extra_repr(self) -> str:
        return f"p={self.p}, inplace={self.inplace}"


class Dropout(_Dropout):
    """While training, zeroes elements with probability `p` and scales the others by ``1 / (1 - p)``.

    Args:
        p: The probability.
        inplace: Whether to write into the input.

    Shape:
        Input of any sizes; output of the same.

    Raises:
        UsageError: p lies outside of 0 to 1.

    >>> import jit
    >>> jit.nn.Dropout(0.5).eval()(jit.ones(3)).tolist()
    [1.0, 1.0, 1.0]
    """

    def forward(self, input: Any) -> Any:
        return functional.dropout(input, self.p, self.training, self.inplace)


class Dropout1d(_Dropout):
    """`Dropout` of whole channels of sequences.

    Args:
        p: The probability that one channel is dropped.
        inplace: Whether to write into the input.

    Shape:
        Input `[N, C, L]` or `[C, L]`; output of the same sizes.
    """

    def forward(self, input: Any) -> Any:
        return functional.dropout1d(input, self.p, self.training, self.inplace)


class Dropout2d(_Dropout):
    """`Dropout` of whole channels of images.

    Args:
        p: The probability that one channel is dropped.
        inplace: Whether to write into the input.

    Shape:
        Input `[N, C, H, W]`; output of the same sizes.
    """

    def forward(self, input: Any) -> Any:
        return functional.dropout2d(input, self.p, self.training, self.inplace)


class Dropout3d(_Dropout):
    """`Dropout` of whole channels of volumes.

    Args:
        p: The probability that one channel is dropped.
        inplace: Whether to write into the input.

    Shape:
        Input `[N, C, D, H, W]` or `[C, D, H, W]`; output of the same sizes.
    """

    def forward(self, input: Any) -> Any:
        return functional.dropout3d(input, self.p, self.training, self.inplace)


class AlphaDropout(_Dropout):
    """`Dropout` for SELU networks: mean and variance stay as they are.

    Args:
        p: The probability that one element is dropped.
        inplace: Accepted; the input is not written to.

    Shape:
        Input of any sizes; output of the same sizes.
    """

    def forward(self, input: Any) -> Any:
        return functional.alpha_dropout(input, self.p, self.training)


class FeatureAlphaDropout(_Dropout):
    """`AlphaDropout` of whole channels.

    Args:
        p: The probability that one channel is dropped.
        inplace: Accepted; the input is not written to.

    Shape:
        Input `[N, C, ...]`; output of the same sizes.
    """

    def forward(self, input: Any) -> Any:
        return functional.feature_alpha_dropout(input, self.p, self.training)
