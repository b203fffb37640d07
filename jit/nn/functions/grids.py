"""Sampling of images at the places of a grid, and grids of affine maps."""

from __future__ import annotations

import warnings
from typing import Any

from jit.eager.namespace import F
from jit.ir.errors import UsageError

__all__ = ["affine_grid", "grid_sample"]


_GRID_MODES = {"bilinear": 0, "nearest": 1, "bicubic": 2}
_GRID_PADDINGS = {"zeros": 0, "border": 1, "reflection": 2}


def affine_grid(theta: Any, size: Any, align_corners: bool | None = None) -> Any:
    """The places, for `grid_sample`, that affine maps send an output's places to.

    Args:
        theta: `[N, 2, 3]` or, for volumes, `[N, 3, 4]`.
        size: The sizes of the output, `[N, C, H, W]` or `[N, C, D, H, W]`.
        align_corners: Whether -1 and 1 are the centres of the corners rather than their outer edges.

    Returns:
        `[N, H, W, 2]` or `[N, D, H, W, 3]`, the last dim in the order x, y, z.

    >>> import jit
    >>> same = jit.tensor([[[1.0, 0.0, 0.0], [0.0, 1.0, 0.0]]])
    >>> jit.nn.functional.affine_grid(same, (1, 1, 1, 2), align_corners=True).tolist()
    [[[[-1.0, 0.0], [1.0, 0.0]]]]
    """
    if align_corners and 1 in size[2:]:
        told = f"the only place along a dim of size 1 is the middle, 0, with align_corners=True; sizes {list(size)}"
        warnings.warn(f"affine_grid: {told}", stacklevel=2)
    return F.affine_grid_generator(theta, tuple(size), _aligned("affine_grid", align_corners))


def grid_sample(
    input: Any, grid: Any, mode: str = "bilinear", padding_mode: str = "zeros", align_corners: bool | None = None
) -> Any:
    """Values of `input`, interpolated at the places of `grid`.

    Args:
        input: `[N, C, H, W]` or `[N, C, D, H, W]`.
        grid: `[N, H', W', 2]` or `[N, D', H', W', 3]`: coordinates x, y, z, of which -1 and 1 are the borders.
        mode: "bilinear" (in volumes: trilinear), "nearest" or, of 4 dims, "bicubic".
        padding_mode: The values outside: "zeros", those of the nearest "border", or the image's "reflection".
        align_corners: Whether -1 and 1 are the centres of the corners rather than their outer edges.

    Returns:
        `[N, C, H', W']` or `[N, C, D', H', W']`.

    >>> import jit
    >>> centre = jit.zeros(1, 1, 1, 2)
    >>> jit.nn.functional.grid_sample(jit.tensor([[[[1.0, 3.0]]]]), centre, align_corners=True).tolist()
    [[[[2.0]]]]
    """
    chosen = _choice("mode", mode, _GRID_MODES), _choice("padding_mode", padding_mode, _GRID_PADDINGS)
    return F.grid_sampler(input, grid, *chosen, _aligned("grid_sample", align_corners))


def _choice(name: str, given: str, known: dict[str, int]) -> int:
    if given not in known:
        raise UsageError(f"grid_sample: pass as {name} one of {', '.join(map(repr, known))}, not {given!r}")
    return known[given]


def _aligned(name: str, align_corners: bool | None) -> bool:
    if align_corners is None:
        warnings.warn(f"{name} without align_corners takes False; say align_corners=False", stacklevel=3)
    return bool(align_corners)
