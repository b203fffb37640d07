"""Measures the error of each algorithm for products and convolutions against float64, in units of what bounds it.

    python -m benchmarks.errors           # a table in Markdown, as in README.md

For an element that is a sum of products, the unit is eps * sum|a * b|: half of it is what one rounding of the largest
partial sum can do, and a chain of n multiply-adds stays below n of them (Higham, Accuracy and Stability of Numerical
Algorithms, 2002, section 3.1). The name is what `f.profile` calls the algorithm that the planner has chosen.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from typing import Any, NamedTuple

import numpy as np

import jit
import jit.nn.functional as F

EPS = float(np.finfo(np.float32).eps)
DRAWS = 3


class Problem(NamedTuple):
    """Arrays and what is computed of them; `terms` is the number of products that an element sums."""

    name: str
    sizes: tuple[tuple[int, ...], ...]
    compute: Callable[..., Any]
    terms: int


def problems() -> Iterator[Problem]:
    """Products of several shapes, then the three maps of convolutions."""
    for rows, inner, columns in ((1, 1024, 1024), (8, 1024, 1024), (128, 1024, 1024), (1024, 1024, 1024)):
        sizes = ((rows, inner), (columns, inner))
        yield Problem(f"x @ w.T, {rows} x {inner} x {columns}", sizes, lambda x, w: x @ w.T, inner)
    yield Problem("batched, 16 of 64 x 64 x 64", ((16, 64, 64),) * 2, lambda a, b: a @ b, 64)
    for image, channels, filters, kernel, stride in (
        (56, 64, 64, 3, 1), (64, 32, 32, 3, 1), (56, 256, 64, 1, 1), (14, 256, 256, 3, 1), (28, 128, 128, 3, 2),
    ):  # fmt: skip
        padding, places = kernel // 2, -(-image // stride)
        name = f"{kernel} x {kernel}, stride {stride}, {channels} to {filters}, image {image}"
        x, w = (1, channels, image, image), (filters, channels, kernel, kernel)
        y = (1, filters, places, places)
        taps = kernel * kernel
        yield Problem(f"convolution {name}", (x, w), _forward(stride, padding), channels * taps)
        yield Problem(f"its gradient by x, {name}", (y, w), _by_input(x, stride, padding), filters * taps)
        yield Problem(f"its gradient by w, {name}", (x, y), _by_weight(w, stride, padding), places * places)
    depthwise = ((1, 96, 56, 56), (96, 1, 3, 3))
    yield Problem("convolution 3 x 3, depthwise", depthwise, lambda x, w: F.conv2d(x, w, padding=1, groups=96), 9)


def _forward(stride: int, padding: int) -> Callable[..., Any]:
    return lambda x, w: F.conv2d(x, w, stride=stride, padding=padding)


def _by_input(sizes: tuple[int, ...], stride: int, padding: int) -> Callable[..., Any]:
    return lambda g, w: jit.nn.grad.conv2d_input(sizes, w, g, stride=stride, padding=padding)


def _by_weight(sizes: tuple[int, ...], stride: int, padding: int) -> Callable[..., Any]:
    return lambda x, g: jit.nn.grad.conv2d_weight(x, sizes, g, stride=stride, padding=padding)


def error(problem: Problem) -> tuple[str, float, float]:
    """The algorithm, the largest error of some draws, and the root of their mean squares; both in units."""
    rng, traced = np.random.default_rng(0), jit.trace(problem.compute)
    found, names = [], ""
    with jit.no_grad():
        for _ in range(DRAWS):
            arrays = [rng.standard_normal(size).astype(np.float32) for size in problem.sizes]
            tensors = [jit.from_numpy(a) for a in arrays]
            for _ in range(3):  # kernels answer once the function is recorded
                computed = traced(*tensors).numpy()
            names = ", ".join(dict.fromkeys(row.name for row in traced.profile(*tensors).kernels))
            exact, magnitude = (
                problem.compute(*(jit.from_numpy(change(a.astype(np.float64))) for a in arrays)).numpy()
                for change in (np.asarray, np.abs)
            )
            found.append(np.abs(computed - exact) / (EPS * magnitude))
    return names, float(max(f.max() for f in found)), float(np.sqrt(np.mean([np.mean(f**2) for f in found])))


def main() -> int:
    """The table."""
    print("| problem | algorithm | terms | largest | root mean square |\n| --- | --- | --- | --- | --- |")
    for problem in problems():
        name, largest, usual = error(problem)
        print(f"| {problem.name} | {name} | {problem.terms} | {largest:.2f} | {usual:.3f} |", flush=True)
    return 0


if __name__ == "__main__":
    sys.exit(main())
