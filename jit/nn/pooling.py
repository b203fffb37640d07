"""Pooling layers."""

from __future__ import annotations

from typing import Any

from . import functional
from .modules import Module


class _MaxPool(Module):
    """Args: see `MaxPool2d`."""

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


class MaxPool1d(_MaxPool):
    """The largest element of each window of a sequence."""

    def forward(self, input: Any) -> Any:
        return functional.max_pool1d(input, *self._options())


class MaxPool2d(_MaxPool):
    """The largest element of each window of an image.

    Args:
        kernel_size: Size of the window, a number or a pair; the same for the following.
        stride: Step of the window; its size if left out.
        padding: What is put on both sides: never the largest.
        dilation: Distance of the window's elements.
        return_indices: Whether to return where the largest elements were, too.
        ceil_mode: Whether a window may reach over the edge.

    >>> import jit
    >>> jit.nn.MaxPool2d(2)(jit.zeros(1, 3, 8, 8)).shape
    jit.Size([1, 3, 4, 4])
    """

    def forward(self, input: Any) -> Any:
        return functional.max_pool2d(input, *self._options())


class MaxPool3d(_MaxPool):
    """The largest element of each window of a volume."""

    def forward(self, input: Any) -> Any:
        return functional.max_pool3d(input, *self._options())


class AvgPool1d(Module):
    """The mean of each window of a sequence."""

    def __init__(
        self, kernel_size: Any, stride: Any = None, padding: Any = 0, ceil_mode: bool = False,
        count_include_pad: bool = True,
    ) -> None:  # fmt: skip
        super().__init__()
        self.kernel_size, self.stride = kernel_size, kernel_size if stride is None else stride
        self.padding, self.ceil_mode, self.count_include_pad = padding, ceil_mode, count_include_pad

    def forward(self, input: Any) -> Any:
        return functional.avg_pool1d(
            input, self.kernel_size, self.stride, self.padding, self.ceil_mode, self.count_include_pad
        )

    def extra_repr(self) -> str:
        return f"kernel_size={self.kernel_size}, stride={self.stride}, padding={self.padding}"


class _AvgPool(AvgPool1d):
    """Args: see `AvgPool2d`."""

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
        divisor_override: What to divide by instead of the number of elements.

    >>> import jit
    >>> jit.nn.AvgPool2d(2)(jit.ones(1, 1, 4, 4)).tolist()
    [[[[1.0, 1.0], [1.0, 1.0]]]]
    """

    def forward(self, input: Any) -> Any:
        return functional.avg_pool2d(input, *self._options())


class AvgPool3d(_AvgPool):
    """The mean of each window of a volume."""

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
    """The mean of each of `output_size` parts of a sequence."""

    def forward(self, input: Any) -> Any:
        return functional.adaptive_avg_pool1d(input, self.output_size)


class AdaptiveAvgPool2d(_Adaptive):
    """The mean of each of `output_size` parts of an image; None in a pair keeps that size.

    >>> import jit
    >>> jit.nn.AdaptiveAvgPool2d(1)(jit.ones(2, 3, 5, 7)).shape
    jit.Size([2, 3, 1, 1])
    """

    def forward(self, input: Any) -> Any:
        return functional.adaptive_avg_pool2d(input, self.output_size)


class AdaptiveAvgPool3d(_Adaptive):
    """The mean of each of `output_size` parts of a volume."""

    def forward(self, input: Any) -> Any:
        return functional.adaptive_avg_pool3d(input, self.output_size)


class AdaptiveMaxPool1d(_Adaptive):
    """The largest element of each of `output_size` parts of a sequence."""

    def forward(self, input: Any) -> Any:
        return functional.adaptive_max_pool1d(input, self.output_size)


class AdaptiveMaxPool2d(_Adaptive):
    """The largest element of each of `output_size` parts of an image."""

    def forward(self, input: Any) -> Any:
        return functional.adaptive_max_pool2d(input, self.output_size)
