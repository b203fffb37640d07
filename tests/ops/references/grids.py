"""What grids of affine maps are, and what an image has at a grid's places: one place and one channel at a time."""

import itertools
import math
from typing import Any

import numpy as np

from tests.ops.references.resize import keys

LINEAR, NEAREST, CUBIC = range(3)
ZEROS, BORDER, REFLECTION = range(3)


def affine_grid(theta: Any, size: Any, align: bool) -> Any:
    places = tuple(size[2:])
    out = np.empty((size[0], *places, len(places)))
    for n in range(size[0]):
        for at in np.ndindex(*places):
            point = [coordinate(i, length, align) for i, length in zip(at, places, strict=True)]
            out[n][at] = theta[n] @ np.array([*reversed(point), 1.0])
    return out


def coordinate(i: int, length: int, align: bool) -> float:
    if length == 1:
        return 0.0
    return -1 + 2 * i / (length - 1) if align else -1 + (2 * i + 1) / length


def reflected(place: float, low: float, high: float) -> float:
    if low == high:
        return 0.0
    while not low <= place <= high:
        place = 2 * low - place if place < low else 2 * high - place
    return place


def brought_inside(place: float, length: int, padding: int, align: bool) -> float:
    if padding == ZEROS:
        return place
    if padding == REFLECTION:
        place = reflected(place, *((0.0, length - 1.0) if align else (-0.5, length - 0.5)))
    return min(max(place, 0.0), length - 1.0)


def taps(x: float, length: int, mode: int, padding: int, align: bool) -> list[tuple[int, float]]:
    place = (x + 1) / 2 * (length - 1) if align else ((x + 1) * length - 1) / 2
    if mode == CUBIC:
        near = [math.floor(place) + k for k in (-1, 0, 1, 2)]
        return [(round(brought_inside(e, length, padding, align)), keys(place - e, -0.75)) for e in near]
    place = brought_inside(place, length, padding, align)
    if mode == NEAREST:
        return [(round(place), 1.0)]
    low = math.floor(place)
    return [(low, 1 - (place - low)), (low + 1, place - low)]


def grid_sampler(image: Any, grid: Any, mode: int, padding: int, align: bool) -> Any:
    sizes = image.shape[2:]
    out = np.zeros((*image.shape[:2], *grid.shape[1:-1]))
    for n, *at in np.ndindex(*grid.shape[:-1]):
        point = grid[(n, *at)][::-1]
        along = [taps(x, length, mode, padding, align) for x, length in zip(point, sizes, strict=True)]
        for chosen in itertools.product(*along):
            entry = [e for e, _ in chosen]
            if all(0 <= e < length for e, length in zip(entry, sizes, strict=True)):
                out[(n, slice(None), *at)] += image[(n, slice(None), *entry)] * math.prod(w for _, w in chosen)
    return out


REFERENCES: dict[str, Any] = {
    "aten::affine_grid_generator": affine_grid,
    "aten::grid_sampler": grid_sampler,
    "aten::grid_sampler_2d": grid_sampler,
    "aten::grid_sampler_3d": grid_sampler,
}
