"""What resizing should compute: one output entry at a time, one dim after the other, by definition."""

import math
from collections.abc import Callable
from typing import Any

import numpy as np

from tests.ops.references.arrays import adaptive_avg, adjoint


def keys(x: float, a: float) -> float:
    x = abs(x)
    if x < 1:
        return (a + 2) * x**3 - (a + 3) * x**2 + 1
    return a * x**3 - 5 * a * x**2 + 8 * a * x - 4 * a if x < 2 else 0.0


def entry(line: Any, place: int, out: int, mode: str, align: bool, scale: float | None) -> Any:
    """Entry `place` of `line` (an array along axis 0) resized to `out` entries."""
    size = len(line)
    step = (1 / scale if scale else size / out) if not align else ((size - 1) / (out - 1) if out > 1 else 0.0)
    if mode.startswith("nearest"):
        middle = 0.5 if mode == "nearest-exact" else 0.0
        return line[min(math.floor(np.float32((place + middle) * np.float64(np.float32(step)))), size - 1)]
    if mode.endswith("_aa"):
        return smoothed(line, place, step, mode)
    at = place * step if align else (place + 0.5) * step - 0.5
    if mode == "linear":
        at = max(at, 0.0)
        low = min(math.floor(at), size - 1)
        return line[low] + (line[min(low + 1, size - 1)] - line[low]) * (at - low)
    low = math.floor(at)
    return sum(line[min(max(low + k, 0), size - 1)] * keys(at - low - k, -0.75) for k in (-1, 0, 1, 2))


def smoothed(line: Any, place: int, step: float, mode: str) -> Any:
    stretch = max(step, 1.0)
    reach = (1 if mode == "linear_aa" else 2) * stretch
    centre = step * (place + 0.5)
    inside = range(max(int(centre - reach + 0.5), 0), min(int(centre + reach + 0.5), len(line)))
    shape: Callable[[float], float] = (
        (lambda x: max(0.0, 1 - abs(x))) if mode == "linear_aa" else (lambda x: keys(x, -0.5))
    )
    parts = [shape((j - centre + 0.5) / stretch) for j in inside]
    return sum(line[j] * w for j, w in zip(inside, parts, strict=True)) / sum(parts)


def resized(x: Any, sizes: Any, mode: Any, align: bool, scales: Any) -> Any:
    first = x.ndim - len(sizes)
    for dim, (out, scale) in enumerate(zip(sizes, scales, strict=True), first):
        line = np.moveaxis(x, dim, 0)
        x = np.moveaxis(np.stack([entry(line, i, out, mode, align, scale) for i in range(out)]), 0, dim)
    return x


def pair(name: str, mode: str, rank: int) -> dict[str, Any]:
    plain = mode.startswith("nearest")

    def forward(self: Any, sizes: Any, *rest: Any) -> Any:
        align, scales = (False, rest) if plain else (rest[0], rest[1:])
        return resized(self, sizes, mode, align, scales)

    def backward(g: Any, sizes: Any, shape: Any, *rest: Any) -> Any:
        return adjoint(lambda x: forward(x, sizes, *rest), tuple(shape), g)

    def by_list(self: Any, sizes: Any, *rest: Any) -> Any:
        *align, factors = rest
        if sizes is None:
            sizes = [math.floor(n * f) for n, f in zip(self.shape[2:], factors, strict=True)]
        return forward(self, sizes, *align, *(factors or [None] * rank))

    return {f"aten::{name}": forward, f"aten::{name}_backward": backward, f"aten::{name}.vec": by_list}


def interpolate(
    x: Any,
    size: Any = None,
    scale: Any = None,
    mode: str = "nearest",
    align: Any = None,
    recompute: Any = None,
    *_: Any,
) -> Any:
    if size is None:
        size = [math.floor(n * f) for n, f in zip(x.shape[2:], scale, strict=True)]
    if mode == "area":
        return adaptive_avg(len(size))(x, size)
    scales = [None] * len(size) if recompute or scale is None else scale
    return resized(x, size, {"bilinear": "linear"}.get(mode, mode), bool(align), scales)


REFERENCES: dict[str, Any] = {
    **pair("upsample_nearest1d", "nearest", 1),
    **pair("upsample_nearest2d", "nearest", 2),
    **pair("upsample_nearest3d", "nearest", 3),
    **pair("_upsample_nearest_exact1d", "nearest-exact", 1),
    **pair("_upsample_nearest_exact2d", "nearest-exact", 2),
    **pair("_upsample_nearest_exact3d", "nearest-exact", 3),
    **pair("upsample_linear1d", "linear", 1),
    **pair("upsample_bilinear2d", "linear", 2),
    **pair("upsample_trilinear3d", "linear", 3),
    **pair("upsample_bicubic2d", "cubic", 2),
    **pair("_upsample_bilinear2d_aa", "linear_aa", 2),
    **pair("_upsample_bicubic2d_aa", "cubic_aa", 2),
    "aten::interpolate": interpolate,
    "aten::upsample": interpolate,
    "aten::upsample_nearest": interpolate,
    "aten::upsample_bilinear": lambda x, size, scale: interpolate(x, size, scale, "bilinear", True),
}
