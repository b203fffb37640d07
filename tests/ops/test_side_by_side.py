"""Convolutions whose windows lie side by side are products in plans, with the results of the interpreter."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import jit
from jit.nn import functional as F

IMAGES: list[tuple[tuple[int, ...], tuple[int, ...], Any]] = [
    ((2, 3, 28), (5, 3, 7), 7),
    ((2, 3, 24, 24), (8, 3, 8, 8), 8),
    ((1, 3, 35, 30), (6, 3, 7, 5), (7, 5)),
    ((3, 1, 17, 16), (4, 1, 16, 16), 16),
    ((1, 2, 4, 6, 9), (5, 2, 2, 3, 3), (2, 3, 3)),
]
"""Images, kernels and strides; some images end within a patch."""


def convolved(x: Any, weight: Any, bias: Any, stride: Any) -> Any:
    return getattr(F, f"conv{x.ndim - 2}d")(x, weight, bias, stride)


def drawn(*shape: int, seed: int = 0, dtype: str = "float32") -> Any:
    return jit.from_numpy(np.random.default_rng(seed).standard_normal(shape).astype(dtype))


@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize("with_bias", [True, False])
@pytest.mark.parametrize(("image", "kernel", "stride"), IMAGES, ids=str)
def test_results_and_gradients(image: Any, kernel: Any, stride: Any, with_bias: bool, dtype: str) -> None:
    x, weight = drawn(*image, dtype=dtype), drawn(*kernel, seed=1, dtype=dtype)
    bias = drawn(kernel[0], seed=2, dtype=dtype) if with_bias else None

    def gradients(run: Any, needs_input: bool) -> list[Any]:
        leaves = [t.detach().requires_grad_() for t in (weight, *([bias] if with_bias else []))]
        given = x.detach().requires_grad_(needs_input)
        y = run(given, leaves[0], leaves[1] if with_bias else None)
        (y * y).sum().backward()
        return [t.numpy() for t in (y.detach(), *(leaf.grad for leaf in leaves), *[given.grad] * needs_input)]

    def plain(*given: Any) -> Any:
        x, weight, bias = given
        return convolved(x, weight, bias, stride)

    for needs_input in (False, True):
        traced = jit.trace(plain)
        wanted = gradients(plain, needs_input)
        for _ in range(3):
            for found, exact in zip(gradients(traced, needs_input), wanted, strict=True):
                np.testing.assert_allclose(found, exact, rtol=1e-4, atol=1e-4 * abs(exact).max())


def works_of(function: Any, *arguments: Any) -> list[str]:
    from tests.runtime.test_matvec import steps_of

    _, works = steps_of(function, *arguments)
    return [type(work).__name__ for work in works]


@pytest.mark.llvm
def test_patches_are_a_step_of_a_plan() -> None:
    x, weight = drawn(1, 3, 64, 64), drawn(32, 3, 16, 16, seed=1)
    assert "PackedProduct" in works_of(lambda x, w: convolved(x, w, None, 16), x, weight)


@pytest.mark.llvm
@pytest.mark.parametrize("stride", [1, 2, 4])
def test_strides_that_have_convolutions_are_left_to_them(stride: int) -> None:
    x, weight = drawn(1, 3, 32, 32), drawn(8, 3, stride, stride, seed=1)
    assert "ConvolutionWork" in works_of(lambda x, w: convolved(x, w, None, stride), x, weight)


@pytest.mark.parametrize(
    "rest", [dict(padding=1), dict(dilation=2), dict(groups=3), dict(stride=3), dict(stride=8)], ids=str
)
def test_windows_that_are_no_patches(rest: Any) -> None:
    settings = dict(stride=7) | rest
    x, weight = drawn(2, 3, 28, 28), drawn(6, 3 // settings.get("groups", 1), 7, 7, seed=1)
    wanted = F.conv2d(x, weight, None, **settings).numpy()
    traced = jit.trace(lambda x, w: F.conv2d(x, w, None, **settings))
    for _ in range(3):
        np.testing.assert_allclose(traced(x, weight).numpy(), wanted, rtol=1e-4, atol=1e-3)


def test_batches_and_images_that_vary() -> None:
    weight = drawn(8, 3, 8, 8, seed=1)
    traced = jit.trace(lambda x, w: convolved(x, w, None, 8) * 1)
    for shape in [(1, 3, 32, 32), (2, 3, 32, 32), (5, 3, 32, 32), (2, 3, 40, 33), (3, 3, 64, 24), (1, 3, 17, 50)]:
        x = drawn(*shape)
        np.testing.assert_allclose(
            traced(x, weight).numpy(), convolved(x, weight, None, 8).numpy(), rtol=1e-4, atol=1e-3
        )
