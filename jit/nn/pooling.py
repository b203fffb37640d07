"""Pooling layers."""

from __future__ import annotations

from typing import Any

from jit.ir.errors import UsageError

from . import functional
from .modules import Module
from .unpooling import spread


class _MaxPoolNd(Module):
    """Base of max pooling, with the arguments of `MaxPool2d`."""

    def __init__(
        self, kernel_size: Any, stride: Any = None, padding: Any = 0, dilation: Any = 1, return_indices: bool = False,
        ceil_mode: bool = False,
    ) -> None:  # fmt: skip
        super().__init__()
        self.kernel_size, self.stride = kernel_size, kernel_size if stride is None else stride
        self.padding, self.dilation, self.return_indices, self.ceil_mode = padding, dilation, return_indices, ceil_mode

    def _options(self) -> tuple[Any, ...]:
        return (self.kernel_size, self.stride, self.padding, self.dilation, self.ceil_mode, self.return_indices)

    def extra_repr(self) -> str:
        return (
            f"kernel_size={self.kernel_size}, stride={self.stride}, padding={self.padding}, dilation={self.dilation}, "
            f"ceil_mode={self.ceil_mode}"
        )


class MaxPool1d(_MaxPoolNd):
    """The largest element of each window of a sequence.

    Args:
        kernel_size: Size of the window.
        stride: Step of the window; its size if left out.
        padding: The number of elements put on both sides, which are never the largest.
        dilation: Distance of the window's elements.
        return_indices: Whether to return where the largest elements were, too.
        ceil_mode: Whether a window may reach over the edge.

    Shape:
        Input `[N, C, L]` or `[C, L]`; output the same with L' for L,
        ``L' = (L + 2 * padding - dilation * (kernel_size - 1) - 1) / stride + 1``, rounded down, or up in `ceil_mode`.

    >>> import jit
    >>> jit.nn.MaxPool1d(2)(jit.tensor([[1.0, 4.0, 2.0, 3.0]])).tolist()
    [[4.0, 3.0]]
    """

    def forward(self, input: Any) -> Any:
        return functional.max_pool1d(input, *self._options())


class MaxPool2d(_MaxPoolNd):
    """The largest element of each window of an image.

    Args:
        kernel_size: Size of the window, a number or a pair; the same for the following.
        stride: Step of the window; its size if left out.
        padding: The number of elements put on both sides, which are never the largest.
        dilation: Distance of the window's elements.
        return_indices: Whether to return where the largest elements were, too.
        ceil_mode: Whether a window may reach over the edge.

    Shape:
        Input `[N, C, H, W]` or `[C, H, W]`; output the same with H' and W', each as L' of `MaxPool1d`.

    >>> import jit
    >>> jit.nn.MaxPool2d(2)(jit.zeros(1, 3, 8, 8)).shape
    jit.Size([1, 3, 4, 4])
    """

    def forward(self, input: Any) -> Any:
        return functional.max_pool2d(input, *self._options())


class MaxPool3d(_MaxPoolNd):
    """The largest element of each window of a volume.

    Args:
        kernel_size: Size of the window, a number or three; the same for the following.
        stride: Step of the window; its size if left out.
        padding: The number of elements put on both sides, which are never the largest.
        dilation: Distance of the window's elements.
        return_indices: Whether to return where the largest elements were, too.
        ceil_mode: Whether a window may reach over the edge.

    Shape:
        Input `[N, C, D, H, W]` or without N; output the same with D', H' and W', each as L' of `MaxPool1d`.
    """

    def forward(self, input: Any) -> Any:
        return functional.max_pool3d(input, *self._options())


class _AvgPoolNd(Module):
    """Base of average pooling; the arguments are those of `AvgPool1d`."""

    def __init__(
        self, kernel_size: Any, stride: Any = None, padding: Any = 0, ceil_mode: bool = False,
        count_include_pad: bool = True,
    ) -> None:  # fmt: skip
        super().__init__()
        self.kernel_size, self.stride = kernel_size, kernel_size if stride is None else stride
        self.padding, self.ceil_mode, self.count_include_pad = padding, ceil_mode, count_include_pad

    def extra_repr(self) -> str:
        return f"kernel_size={self.kernel_size}, stride={self.stride}, padding={self.padding}"


class AvgPool1d(_AvgPoolNd):
    """The mean of each window of a sequence.

    Args:
        kernel_size: Size of the window.
        stride: Step of the window; its size if left out.
        padding: Zeros put on both sides.
        ceil_mode: Whether a window may reach over the edge.
        count_include_pad: Whether the zeros count.

    Shape:
        Input `[N, C, L]` or `[C, L]`; output the same with L' for L,
        ``L' = (L + 2 * padding - kernel_size) / stride + 1``, rounded down, or up in `ceil_mode`.

    >>> import jit
    >>> jit.nn.AvgPool1d(2)(jit.tensor([[1.0, 4.0, 2.0, 3.0]])).tolist()
    [[2.5, 2.5]]
    """

    def __init__(
        self, kernel_size: Any, stride: Any = None, padding: Any = 0, ceil_mode: bool = False,
        count_include_pad: bool = True,
    ) -> None:  # fmt: skip
        size, step = spread(kernel_size, 1), spread(kernel_size if stride is None else stride, 1)
        super().__init__(size, step, spread(padding, 1), ceil_mode, count_include_pad)

    def forward(self, input: Any) -> Any:
        return functional.avg_pool1d(
            input, self.kernel_size, self.stride, self.padding, self.ceil_mode, self.count_include_pad
        )


class _AvgPool(_AvgPoolNd):
    """Base of average pooling over several dims, with the arguments of `AvgPool2d`."""

    def __init__(
        self, kernel_size: Any, stride: Any = None, padding: Any = 0, ceil_mode: bool = False,
        count_include_pad: bool = True, divisor_override: int | None = None,
    ) -> None:  # fmt: skip
        super().__init__(kernel_size, stride, padding, ceil_mode, count_include_pad)
        self.divisor_override = divisor_override

    def _options(self) -> tuple[Any, ...]:
        return (
            self.kernel_size, self.stride, self.padding, self.ceil_mode, self.count_include_pad, self.divisor_override,
        )  # fmt: skip


class AvgPool2d(_AvgPool):
    """The mean of each window of an image.

    Args:
        kernel_size: Size of the window, a number or a pair; the same for the following.
        stride: Step of the window; its size if left out.
        padding: Zeros put on both sides.
        ceil_mode: Whether a window may reach over the edge.
        count_include_pad: Whether the zeros count.
        divisor_override: The divisor of each sum; the number of elements if left out.

    Shape:
        Input `[N, C, H, W]` or `[C, H, W]`; output the same with H' and W', each as L' of `AvgPool1d`.

    >>> import jit
    >>> jit.nn.AvgPool2d(2)(jit.ones(1, 1, 4, 4)).tolist()
    [[[[1.0, 1.0], [1.0, 1.0]]]]
    """

    def forward(self, input: Any) -> Any:
        return functional.avg_pool2d(input, *self._options())


class AvgPool3d(_AvgPool):
    """The mean of each window of a volume.

    Args:
        kernel_size: Size of the window, a number or three; the same for the following.
        stride: Step of the window; its size if left out.
        padding: Zeros put on both sides.
        ceil_mode: Whether a window may reach over the edge.
        count_include_pad: Whether the zeros count.
        divisor_override: The divisor of each sum; the number of elements if left out.

    Shape:
        Input `[N, C, D, H, W]` or without N; output the same with D', H' and W', each as L' of `AvgPool1d`.
    """

    def forward(self, input: Any) -> Any:
        return functional.avg_pool3d(input, *self._options())


class _Adaptive(Module):
    """Pooling whose windows follow from the output size asked for."""

    def __init__(self, output_size: Any) -> None:
        super().__init__()
        self.output_size = output_size

    def extra_repr(self) -> str:
        return f"output_size={self.output_size}"


class AdaptiveAvgPool1d(_Adaptive):
    """The mean of each of `output_size` parts of a sequence.

    Args:
        output_size: The number of parts.

    Shape:
        Input `[N, C, L]` or `[C, L]`; output `[..., output_size]`.
    """

    def forward(self, input: Any) -> Any:
        return functional.adaptive_avg_pool1d(input, self.output_size)


class AdaptiveAvgPool2d(_Adaptive):
    """The mean of each of `output_size` parts of an image; None in a pair keeps that size.

    Args:
        output_size: The numbers of parts, one or a pair; None keeps a size.

    Shape:
        Input `[N, C, H, W]` or `[C, H, W]`; output the same with `output_size` for H and W.

    >>> import jit
    >>> jit.nn.AdaptiveAvgPool2d(1)(jit.ones(2, 3, 5, 7)).shape
    jit.Size([2, 3, 1, 1])
    """

    def forward(self, input: Any) -> Any:
        return functional.adaptive_avg_pool2d(input, self.output_size)


class AdaptiveAvgPool3d(_Adaptive):
    """The mean of each of `output_size` parts of a volume.

    Args:
        output_size: The numbers of parts, one or three; None keeps a size.

    Shape:
        Input `[N, C, D, H, W]` or without N; output the same with `output_size` for D, H and W.
    """

    def forward(self, input: Any) -> Any:
        return functional.adaptive_avg_pool3d(input, self.output_size)


class _AdaptiveMax(_Adaptive):
    """Base of adaptive max pooling, which may return the places of the largest elements, too."""

    def __init__(self, output_size: Any, return_indices: bool = False) -> None:
        super().__init__(output_size)
        self.return_indices = return_indices


class AdaptiveMaxPool1d(_AdaptiveMax):
    """The largest element of each of `output_size` parts of a sequence.

    Args:
        output_size: The number of parts.
        return_indices: Whether to return where the largest elements were, too.

    Shape:
        Input `[N, C, L]` or `[C, L]`; output `[..., output_size]`.
    """

    def forward(self, input: Any) -> Any:
        return functional.adaptive_max_pool1d(input, self.output_size, self.return_indices)


class AdaptiveMaxPool2d(_AdaptiveMax):
    """The largest element of each of `output_size` parts of an image.

    Args:
        output_size: The numbers of parts, one or a pair; None keeps a size.
        return_indices: Whether to return where the largest elements were, too.

    Shape:
        Input `[N, C, H, W]` or `[C, H, W]`; output the same with `output_size` for H and W.
    """

    def forward(self, input: Any) -> Any:
        return functional.adaptive_max_pool2d(input, self.output_size, self.return_indices)


class AdaptiveMaxPool3d(_AdaptiveMax):
    """The largest element of each of `output_size` parts of a volume.

    Args:
        output_size: The numbers of parts, one or three; None keeps a size.
        return_indices: Whether to return where the largest elements were, too.

    Shape:
        Input `[N, C, D, H, W]` or without N; output the same with `output_size` for D, H and W.
    """

    def forward(self, input: Any) -> Any:
        return functional.adaptive_max_pool3d(input, self.output_size, self.return_indices)


class _LPPool(Module):
    """Base of pooling by p-norms, with the arguments of `LPPool2d`."""

    def __init__(self, norm_type: float, kernel_size: Any, stride: Any = None, ceil_mode: bool = False) -> None:
        super().__init__()
        self.norm_type, self.kernel_size, self.stride, self.ceil_mode = norm_type, kernel_size, stride, ceil_mode

    def _options(self) -> tuple[Any, ...]:
        return self.norm_type, self.kernel_size, self.stride, self.ceil_mode

    def extra_repr(self) -> str:
        return (
            f"norm_type={self.norm_type}, kernel_size={self.kernel_size}, stride={self.stride}, "
            f"ceil_mode={self.ceil_mode}"
        )


class LPPool1d(_LPPool):
    """The p-norm of each window of a sequence: ``(sum of x ** p) ** (1 / p)``.

    Args:
        norm_type: p; 1 gives sums, and the larger it is, the nearer comes the largest element.
        kernel_size: Size of the window.
        stride: Step of the window; its size if left out.
        ceil_mode: Whether a window may reach over the edge.

    Shape:
        Input `[N, C, L]` or `[C, L]`; output the same with ``L' = (L - kernel_size) / stride + 1`` for L,
        rounded down, or up in `ceil_mode`.
    """

    def forward(self, input: Any) -> Any:
        return functional.lp_pool1d(input, *self._options())


class LPPool2d(_LPPool):
    """The p-norm of each window of an image.

    Args:
        norm_type: p; 1 gives sums, and the larger it is, the nearer comes the largest element.
        kernel_size: Size of the window, a number or a pair.
        stride: Step of the window; its size if left out.
        ceil_mode: Whether a window may reach over the edge.

    >>> import jit
    >>> jit.nn.LPPool2d(2, 2)(jit.ones(1, 1, 2, 2)).item()
    2.0
    """

    def forward(self, input: Any) -> Any:
        return functional.lp_pool2d(input, *self._options())


class LPPool3d(_LPPool):
    """The p-norm of each window of a volume: ``(sum of x ** p) ** (1 / p)``.

    Args:
        norm_type: p; 1 gives sums, and the larger it is, the nearer comes the largest element.
        kernel_size: Size of the window, a number or three.
        stride: Step of the window; its size if left out.
        ceil_mode: Whether a window may reach over the edge.

    Shape:
        Input `[N, C, D, H, W]` or without N; output the same with D', H' and W', each as L' of `LPPool1d`.
    """

    def forward(self, input: Any) -> Any:
        return functional.lp_pool3d(input, *self._options())


class _MaxUnpoolNd(Module):
    """Base of the inverses of max pooling; the arguments are those of the pooling."""

    rank: int

    def __init__(self, kernel_size: Any, stride: Any = None, padding: Any = 0) -> None:
        super().__init__()
        given = (kernel_size, kernel_size if stride is None else stride, padding)
        self.kernel_size, self.stride, self.padding = (spread(value, self.rank) for value in given)

    def _options(self) -> tuple[Any, ...]:
        return self.kernel_size, self.stride, self.padding

    def extra_repr(self) -> str:
        return f"kernel_size={self.kernel_size}, stride={self.stride}, padding={self.padding}"


class MaxUnpool1d(_MaxUnpoolNd):
    """Puts what `MaxPool1d(..., return_indices=True)` took back to where it was; zeros elsewhere.

    Args:
        kernel_size: Size of the window of the pooling that is undone.
        stride: Its step; the size of the window if left out.
        padding: Its padding.

    Shape:
        Input and indices `[N, C, L]` or `[C, L]`; output the same with ``(L - 1) * stride - 2 * padding + kernel_size``
        for L, or with the `output_size` of the call.
    """

    rank = 1

    def forward(self, input: Any, indices: Any, output_size: Any = None) -> Any:
        """Put the elements back.

        Args:
            input: `[N, C, L]` or `[C, L]`.
            indices: The places that the pooling returned, of the same sizes.
            output_size: The sizes of the result, all or the last one; those that follow from the window if left out.
        """

        return functional.max_unpool1d(input, indices, *self._options(), output_size)


class MaxUnpool2d(_MaxUnpoolNd):
    """Puts what `MaxPool2d(..., return_indices=True)` took back to where it was; zeros elsewhere.

    Args:
        kernel_size: Size of the window of the pooling that is undone, a number or a pair; the same for the following.
        stride: Its step; the size of the window if left out.
        padding: Its padding.

    Shape:
        Input and indices `[N, C, H, W]` or `[C, H, W]`; output the same with the sizes of `MaxUnpool1d`.

    >>> import jit
    >>> pooled, places = jit.nn.MaxPool2d(2, return_indices=True)(jit.tensor([[[[1.0, 4.0], [2.0, 3.0]]]]))
    >>> jit.nn.MaxUnpool2d(2)(pooled, places).tolist()
    [[[[0.0, 4.0], [0.0, 0.0]]]]
    """

    rank = 2

    def forward(self, input: Any, indices: Any, output_size: Any = None) -> Any:
        """Put the elements back.

        Args:
            input: `[N, C, H, W]` or `[C, H, W]`.
            indices: The places that the pooling returned, of the same sizes.
            output_size: The sizes of the result, all or the last two; those that follow from the window if left out.
        """

        return functional.max_unpool2d(input, indices, *self._options(), output_size)


class MaxUnpool3d(_MaxUnpoolNd):
    """Puts what `MaxPool3d(..., return_indices=True)` took back to where it was; zeros elsewhere.

    Args:
        kernel_size: Size of the window of the pooling that is undone, a number or three; the same for the following.
        stride: Its step; the size of the window if left out.
        padding: Its padding.

    Shape:
        Input and indices `[N, C, D, H, W]` or without N; output the same with the sizes of `MaxUnpool1d`.
    """

    rank = 3

    def forward(self, input: Any, indices: Any, output_size: Any = None) -> Any:
        """Put the elements back.

        Args:
            input: `[N, C, D, H, W]` or `[C, D, H, W]`.
            indices: The places that the pooling returned, of the same sizes.
            output_size: The sizes of the result, all or the last three; those that follow from the window if left out.
        """

        return functional.max_unpool3d(input, indices, *self._options(), output_size)


class _FractionalMaxPool(Module):
    """Base of max pooling with random steps, with the arguments of `FractionalMaxPool2d`."""

    def __init__(
        self, kernel_size: Any, output_size: Any = None, output_ratio: Any = None, return_indices: bool = False,
        _random_samples: Any = None,
    ) -> None:  # fmt: skip
        super().__init__()
        if (output_size is None) == (output_ratio is None):
            raise UsageError(f"{type(self).__name__} takes output_size or output_ratio; pass one of them, and only one")
        self.kernel_size, self.return_indices = kernel_size, return_indices
        self.output_size, self.output_ratio = output_size, output_ratio
        self.register_buffer("_random_samples", _random_samples)

    def _options(self) -> tuple[Any, ...]:
        return (self.kernel_size, self.output_size, self.output_ratio, self.return_indices, self._random_samples)


class FractionalMaxPool2d(_FractionalMaxPool):
    """The largest element of each window of an image; windows begin at places drawn anew in each call.

    Args:
        kernel_size: Size of the window, a number or a pair.
        output_size: Height and width of the result; None to use `output_ratio`.
        output_ratio: The factor of height and width, between 0 and 1; None to use `output_size`.
        return_indices: Whether to return where the largest elements were, too.

    >>> import jit
    >>> jit.nn.FractionalMaxPool2d(2, output_ratio=0.6)(jit.zeros(1, 3, 10, 10)).shape
    jit.Size([1, 3, 6, 6])
    """

    def forward(self, input: Any) -> Any:
        return functional.fractional_max_pool2d(input, *self._options())


class FractionalMaxPool3d(_FractionalMaxPool):
    """The largest element of each window of a volume; windows begin at places drawn anew in each call.

    Args:
        kernel_size: Size of the window, a number or three.
        output_size: Depth, height and width of the result; None to use `output_ratio`.
        output_ratio: The factor of depth, height and width, between 0 and 1; None to use `output_size`.
        return_indices: Whether to return where the largest elements were, too.

    Shape:
        Input `[N, C, D, H, W]` or without N; output the same with the sizes asked for.
    """

    def forward(self, input: Any) -> Any:
        return functional.fractional_max_pool3d(input, *self._options())
