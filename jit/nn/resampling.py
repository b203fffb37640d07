"""Layers that make sequences, images and volumes larger or smaller."""

from __future__ import annotations

from typing import Any

from . import functional
from .modules import Module


class Upsample(Module):
    """Resizes the last dims, to a size or by a factor.

    Args:
        size: The new size, a number or one for each dim.
        scale_factor: How many times larger, a number or one for each dim; instead of `size`.
        mode: "nearest", "linear", "bilinear", "bicubic" or "trilinear".
        align_corners: Whether the centres of the corner elements stay in place, rather than their outer edges.
        recompute_scale_factor: Whether the factor is taken from the rounded new size.

    >>> import jit
    >>> jit.nn.Upsample(scale_factor=2)(jit.tensor([[[1.0, 2.0]]])).tolist()
    [[[1.0, 1.0, 2.0, 2.0]]]
    """

    def __init__(
        self, size: Any = None, scale_factor: Any = None, mode: str = "nearest", align_corners: bool | None = None,
        recompute_scale_factor: bool | None = None,
    ) -> None:  # fmt: skip
        super().__init__()
        self.size, self.scale_factor, self.mode = size, scale_factor, mode
        self.align_corners, self.recompute_scale_factor = align_corners, recompute_scale_factor

    def forward(self, input: Any) -> Any:
        """Args: input `[N, C, ...]`. Returns: the same with other last sizes."""
        options = self.mode, self.align_corners, self.recompute_scale_factor
        return functional.interpolate(input, self.size, self.scale_factor, *options)

    def extra_repr(self) -> str:
        target = f"size={self.size}" if self.scale_factor is None else f"scale_factor={self.scale_factor}"
        return f"{target}, mode={self.mode!r}"


class UpsamplingNearest2d(Upsample):
    """`Upsample` of images that repeats the nearest element.

    Args:
        size: The new height and width, a number or a pair; None to use `scale_factor`.
        scale_factor: The factor of height and width, a number or a pair; None to use `size`.
    """

    def __init__(self, size: Any = None, scale_factor: Any = None) -> None:
        super().__init__(size, scale_factor, "nearest")


class UpsamplingBilinear2d(Upsample):
    """`Upsample` of images by bilinear interpolation with aligned corners.

    Args:
        size: The new height and width, a number or a pair; None to use `scale_factor`.
        scale_factor: The factor of height and width, a number or a pair; None to use `size`.
    """

    def __init__(self, size: Any = None, scale_factor: Any = None) -> None:
        super().__init__(size, scale_factor, "bilinear", align_corners=True)
