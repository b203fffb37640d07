"""Patches of images as columns, and back."""

from __future__ import annotations

from typing import Any

from jit.eager.namespace import F

__all__ = ["fold", "unfold"]


def _pair(value: Any) -> Any:
    return value if isinstance(value, (tuple, list)) else (value, value)


def unfold(input: Any, kernel_size: Any, dilation: Any = 1, padding: Any = 0, stride: Any = 1) -> Any:
    """Each patch of `[N, C, H, W]` as a column: `[N, C * kernel, patches]`.

    Args:
        input: `[N, C, H, W]` or `[C, H, W]`.
        kernel_size: Height and width of a patch, a number or a pair; the same for the following.
        dilation: Distance of a patch's elements.
        padding: Zeros put on every side.
        stride: Step from patch to patch.

    >>> import jit
    >>> jit.nn.functional.unfold(jit.zeros(1, 2, 3, 3), 2).shape
    jit.Size([1, 8, 4])
    """
    return F.im2col(input, *map(_pair, (kernel_size, dilation, padding, stride)))


def fold(input: Any, output_size: Any, kernel_size: Any, dilation: Any = 1, padding: Any = 0, stride: Any = 1) -> Any:
    """The image that columns of patches, as `unfold` makes them, add up to.

    Args:
        input: `[N, C * kernel, patches]` or `[C * kernel, patches]`.
        output_size: Height and width of the image, a number or a pair; the same for the following.
        kernel_size: Height and width of a patch.
        dilation: Distance of a patch's elements.
        padding: What the image was padded with on every side.
        stride: Step from patch to patch.

    Returns:
        `[N, C, *output_size]` or `[C, *output_size]`.
    """
    return F.col2im(input, *map(_pair, (output_size, kernel_size, dilation, padding, stride)))
