"""Convolution layers and their transposes."""

from __future__ import annotations

from typing import Any

from jit.eager.namespace import F
from jit.ir.errors import UsageError

from . import functional
from .linear import fill_like_linear
from .modules import Module
from .parameter import Parameter


def per_dim(value: Any, dims: int) -> tuple[int, ...]:
    """A number as one per spatial dim; a sequence as it is."""
    return tuple(value) if isinstance(value, (tuple, list)) else (value,) * dims


class _ConvNd(Module):
    """Base of all convolutions: sizes, weight, bias."""

    dims = 0
    """Spatial dims."""
    transposed = False

    def __init__(
        self, in_channels: int, out_channels: int, kernel_size: Any, stride: Any = 1, padding: Any = 0,
        dilation: Any = 1, groups: int = 1, bias: bool = True, padding_mode: str = "zeros", device: Any = None,
        dtype: Any = None,
    ) -> None:  # fmt: skip
        super().__init__()
        if groups < 1 or in_channels % groups or out_channels % groups:
            raise UsageError(
                f"{in_channels} and {out_channels} channels do not divide into {groups} groups; pass a number of "
                "groups that divides both"
            )
        if padding_mode not in ("zeros", "reflect", "replicate", "circular"):
            raise UsageError(f"padding_mode is {padding_mode!r}; it must be one of zeros, reflect, replicate, circular")
        if isinstance(padding, str):
            self._check_padding(padding, stride)
        self.in_channels, self.out_channels, self.groups = in_channels, out_channels, groups
        self.kernel_size, self.stride = per_dim(kernel_size, self.dims), per_dim(stride, self.dims)
        self.padding: Any = padding if isinstance(padding, str) else per_dim(padding, self.dims)
        self.dilation, self.padding_mode = per_dim(dilation, self.dims), padding_mode
        channels = (in_channels, out_channels // groups) if self.transposed else (out_channels, in_channels // groups)
        self.weight = Parameter(F.empty((*channels, *self.kernel_size), device=device, dtype=dtype))
        shift = Parameter(F.empty((out_channels,), device=device, dtype=dtype)) if bias else None
        self.register_parameter("bias", shift)
        self.reset_parameters()

    def _check_padding(self, padding: str, stride: Any) -> None:
        if padding not in ("same", "valid"):
            raise UsageError(f"padding is {padding!r}; it must be numbers, 'same' or 'valid'")
        if padding == "same" and any(s != 1 for s in per_dim(stride, self.dims)):
            raise UsageError(f"padding='same' keeps the sizes, and a stride of {stride} does not; pass numbers instead")

    def reset_parameters(self) -> None:
        """Draw weight and bias anew."""
        fill_like_linear(self.weight, self.bias)

    def _padded(self, input: Any) -> tuple[Any, Any]:
        """The input, padded if that is not with zeros, and the padding with zeros left for the convolution."""
        if self.padding_mode == "zeros":
            return input, self.padding
        return functional.pad(input, self._sides(), mode=self.padding_mode), 0

    def _sides(self) -> list[int]:
        """Padding of both sides of each dim, last dim first, as `functional.pad` wants it."""
        sides: list[int] = []
        for index in reversed(range(self.dims)):
            if isinstance(self.padding, str):
                total = self.dilation[index] * (self.kernel_size[index] - 1) if self.padding == "same" else 0
                sides += [total // 2, total - total // 2]
            else:
                sides += [self.padding[index], self.padding[index]]
        return sides

    def extra_repr(self) -> str:
        parts = [f"{self.in_channels}, {self.out_channels}, kernel_size={self.kernel_size}, stride={self.stride}"]
        zeros, ones = (0,) * self.dims, (1,) * self.dims
        defaults = {"padding": zeros, "dilation": ones, "output_padding": zeros, "groups": 1}
        given = {name: getattr(self, name, usual) for name, usual in defaults.items()}
        parts += [f"{name}={value}" for name, value in given.items() if value != defaults[name]]
        parts += ["bias=False"] if self.bias is None else []
        return ", ".join(parts + ([] if self.padding_mode == "zeros" else [f"padding_mode={self.padding_mode}"]))


class Conv1d(_ConvNd):
    """Convolution over one spatial dim: ``y[n, o] = bias[o] + sum over i of weight[o, i] ⋆ x[n, i]``.

    The sum goes over input channels, and ⋆ is the cross-correlation: windows are not mirrored.

    Args:
        in_channels: Channels of the input.
        out_channels: Channels of the output.
        kernel_size: Size of the window.
        stride: Step of the window.
        padding: Zeros put on both sides, or "same" (as many as keep the size), or "valid" (none).
        dilation: Distance of the window's elements.
        groups: The number of independent convolutions into which the channels divide.
        bias: Whether to add a bias.
        padding_mode: "zeros", "reflect", "replicate" or "circular".

    Shape:
        Input `[N, in_channels, L]` or `[in_channels, L]`; output `[N, out_channels, L']` or `[out_channels, L']` with
        ``L' = (L + 2 * padding - dilation * (kernel_size - 1) - 1) // stride + 1``.

    Raises:
        UsageError: The groups do not divide the channels, or a word for the padding is none of these.

    >>> import jit
    >>> jit.nn.Conv1d(3, 8, 5, padding=2)(jit.zeros(1, 3, 10)).shape
    jit.Size([1, 8, 10])
    """

    dims = 1

    def forward(self, input: Any) -> Any:
        """Args: input `[N, in_channels, L]`. Returns: `[N, out_channels, L']`."""
        padded, padding = self._padded(input)
        return functional.conv1d(padded, self.weight, self.bias, self.stride, padding, self.dilation, self.groups)


class Conv2d(_ConvNd):
    """Convolution over two spatial dims: that of `Conv1d` with windows of height and width.

    Args:
        in_channels: Channels of the input.
        out_channels: Channels of the output.
        kernel_size: Size of the window, a number or a pair; the same for stride, padding and dilation.
        stride: Step of the window.
        padding: Zeros put on every side, or "same", or "valid".
        dilation: Distance of the window's elements.
        groups: The number of independent convolutions into which channels divide; `in_channels` for one per channel.
        bias: Whether to add a bias.
        padding_mode: "zeros", "reflect", "replicate" or "circular".

    Shape:
        Input `[N, in_channels, H, W]` or `[in_channels, H, W]`; output `[N, out_channels, H', W']` or without N, each
        size as of `Conv1d`. The weight is `[out_channels, in_channels / groups, *kernel_size]`.

    >>> import jit
    >>> jit.nn.Conv2d(3, 8, 3, stride=2, padding=1)(jit.zeros(1, 3, 10, 10)).shape
    jit.Size([1, 8, 5, 5])
    """

    dims = 2

    def forward(self, input: Any) -> Any:
        """Args: input `[N, in_channels, H, W]`. Returns: `[N, out_channels, H', W']`."""
        padded, padding = self._padded(input)
        return functional.conv2d(padded, self.weight, self.bias, self.stride, padding, self.dilation, self.groups)


class Conv3d(_ConvNd):
    """Convolution over three spatial dims: that of `Conv1d` with windows of depth, height and width.

    Args:
        in_channels: Channels of the input.
        out_channels: Channels of the output.
        kernel_size: Size of the window, a number or three; the same for stride, padding and dilation.
        stride: Step of the window.
        padding: Zeros put on every side, or "same", or "valid".
        dilation: Distance of the window's elements.
        groups: The number of independent convolutions into which the channels divide.
        bias: Whether to add a bias.
        padding_mode: "zeros", "reflect", "replicate" or "circular".

    Shape:
        Input `[N, in_channels, D, H, W]` or without N; output `[N, out_channels, D', H', W']` or without N, each size
        as of `Conv1d`.

    >>> import jit
    >>> jit.nn.Conv3d(3, 8, 3, padding=1)(jit.zeros(1, 3, 4, 5, 6)).shape
    jit.Size([1, 8, 4, 5, 6])
    """

    dims = 3

    def forward(self, input: Any) -> Any:
        """Args: input `[N, in_channels, D, H, W]`. Returns: `[N, out_channels, D', H', W']`."""
        padded, padding = self._padded(input)
        return functional.conv3d(padded, self.weight, self.bias, self.stride, padding, self.dilation, self.groups)


class _ConvTranspose(_ConvNd):
    """Base of transposed convolutions, with `output_padding` and an output size that a call may ask for."""

    transposed = True

    def __init__(
        self, in_channels: int, out_channels: int, kernel_size: Any, stride: Any = 1, padding: Any = 0,
        output_padding: Any = 0, groups: int = 1, bias: bool = True, dilation: Any = 1, padding_mode: str = "zeros",
        device: Any = None, dtype: Any = None,
    ) -> None:  # fmt: skip
        if padding_mode != "zeros" or isinstance(padding, str):
            raise UsageError("a transposed convolution pads with a number of zeros; leave padding_mode out")
        super().__init__(
            in_channels, out_channels, kernel_size, stride, padding, dilation, groups, bias, padding_mode, device, dtype
        )
        self.output_padding = per_dim(output_padding, self.dims)

    def _output_padding(self, input: Any, output_size: Any) -> tuple[int, ...]:
        """The output padding: the layer's own, or that which leads to the output size asked for."""
        if output_size is None:
            return self.output_padding
        wanted = tuple(output_size)[-self.dims :]
        least = [
            (size - 1) * stride - 2 * padding + dilation * (kernel - 1) + 1
            for size, stride, padding, dilation, kernel in zip(
                input.shape[-self.dims :], self.stride, self.padding, self.dilation, self.kernel_size, strict=True
            )
        ]
        extra = tuple(size - low for size, low in zip(wanted, least, strict=True))
        if any(not 0 <= e < s for e, s in zip(extra, self.stride, strict=True)):
            most = [low + s - 1 for low, s in zip(least, self.stride, strict=True)]
            raise UsageError(f"output_size {list(wanted)} cannot be reached: it must lie between {least} and {most}")
        return extra


class ConvTranspose1d(_ConvTranspose):
    """The transpose of `Conv1d` (the gradient of its input), which makes sequences longer.

    Args:
        in_channels: Channels of the input.
        out_channels: Channels of the output.
        kernel_size: Size of the window.
        stride: Distance in the output of neighbours in the input.
        padding: How much is cut off on both sides.
        output_padding: How much is added on one side, where several output sizes would fit.
        groups: The number of independent convolutions into which the channels divide.
        bias: Whether to add a bias.
        dilation: Distance of the window's elements.
        padding_mode: "zeros"; there is no other.

    Shape:
        Input `[N, in_channels, L]` or without N; output `[N, out_channels, L']` or without N with
        ``L' = (L - 1) * stride - 2 * padding + dilation * (kernel_size - 1) + output_padding + 1``.

    Raises:
        UsageError: The groups do not divide the channels, or the padding is not a number of zeros.

    >>> import jit
    >>> layer = jit.nn.ConvTranspose1d(3, 2, 4, stride=2, padding=1)
    >>> layer(jit.zeros(1, 3, 5)).shape, layer(jit.zeros(1, 3, 5), output_size=[11]).shape
    (jit.Size([1, 2, 10]), jit.Size([1, 2, 11]))
    """

    dims = 1

    def forward(self, input: Any, output_size: Any = None) -> Any:
        """Args: input `[N, in_channels, L]`. Returns: `[N, out_channels, L']`."""
        extra = self._output_padding(input, output_size)
        return functional.conv_transpose1d(
            input, self.weight, self.bias, self.stride, self.padding, extra, self.groups, self.dilation
        )


class ConvTranspose2d(_ConvTranspose):
    """The transpose of `Conv2d` (the gradient of its input), which makes images larger.

    Args:
        in_channels: Channels of the input.
        out_channels: Channels of the output.
        kernel_size: Size of the window, a number or a pair; the same for the following.
        stride: Distance in the output of neighbours in the input.
        padding: How much is cut off on every side.
        output_padding: How much is added on one side, where several output sizes would fit.
        groups: The number of independent convolutions into which the channels divide.
        bias: Whether to add a bias.
        dilation: Distance of the window's elements.
        padding_mode: "zeros"; there is no other.

    Shape:
        Input `[N, in_channels, H, W]` or without N; output `[N, out_channels, H', W']` or without N, each size as of
        `ConvTranspose1d`.

    >>> import jit
    >>> jit.nn.ConvTranspose2d(8, 3, 4, stride=2, padding=1)(jit.zeros(1, 8, 5, 5)).shape
    jit.Size([1, 3, 10, 10])
    """

    dims = 2

    def forward(self, input: Any, output_size: Any = None) -> Any:
        """Args: input `[N, in_channels, H, W]`. Returns: `[N, out_channels, H', W']`."""
        extra = self._output_padding(input, output_size)
        return functional.conv_transpose2d(
            input, self.weight, self.bias, self.stride, self.padding, extra, self.groups, self.dilation
        )


class ConvTranspose3d(_ConvTranspose):
    """The transpose of `Conv3d` (the gradient of its input), which makes volumes larger.

    Args:
        in_channels: Channels of the input.
        out_channels: Channels of the output.
        kernel_size: Size of the window, a number or three; the same for the following.
        stride: Distance in the output of neighbours in the input.
        padding: How much is cut off on every side.
        output_padding: How much is added on one side, where several output sizes would fit.
        groups: The number of independent convolutions into which the channels divide.
        bias: Whether to add a bias.
        dilation: Distance of the window's elements.
        padding_mode: "zeros"; there is no other.

    Shape:
        Input `[N, in_channels, D, H, W]` or without N; output `[N, out_channels, D', H', W']` or without N, each size
        as of `ConvTranspose1d`.
    """

    dims = 3

    def forward(self, input: Any, output_size: Any = None) -> Any:
        """Args: input `[N, in_channels, D, H, W]`. Returns: `[N, out_channels, D', H', W']`."""
        extra = self._output_padding(input, output_size)
        return functional.conv_transpose3d(
            input, self.weight, self.bias, self.stride, self.padding, extra, self.groups, self.dilation
        )
