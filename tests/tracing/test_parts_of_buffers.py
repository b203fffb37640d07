"""Tensors that are parts of larger ones, such as filled rows of a buffer: their sizes vary, their strides do not."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import jit
import jit.nn.functional as F

BUFFER = jit.from_numpy(np.random.default_rng(0).standard_normal((64, 16)).astype(np.float32))
CACHE = jit.from_numpy(np.random.default_rng(1).standard_normal((2, 4, 64, 8)).astype(np.float32))
SIZES = [(5, 7), (9, 3), (40, 12), (3, 2), (63, 15), (5, 7), (17, 9), (33, 2), (8, 8), (60, 14)]

PROGRAMS: dict[str, tuple[Callable[..., Any], Callable[[int, int], tuple[Any, ...]]]] = {
    "rows": (lambda x: x @ jit.ones(8, 3), lambda n, m: (BUFFER[:n, :8],)),
    "columns": (lambda x: x.t() * 2, lambda n, m: (BUFFER[:n, :m],)),
    "a sum": (lambda x: x.sum(0), lambda n, m: (BUFFER[:n, 3:9],)),
    "every other row": (lambda x: x.relu(), lambda n, m: (BUFFER[: 2 * (n // 3 + 2) : 2],)),
    "an offset": (lambda x: x + 1, lambda n, m: (BUFFER[m : m + n // 2 + 2, 2:5],)),
    "flat": (lambda x: x.reshape(-1) * 2, lambda n, m: (BUFFER[:n, :8],)),
    "a view": (lambda x: x[1:], lambda n, m: (BUFFER[:n, :8],)),
    "two parts of one": (lambda x, y: jit.cat([x, y]), lambda n, m: (BUFFER[:n, :8], BUFFER[:m, 8:])),
    "written to": (lambda x: x.mul_(1.0) * 2, lambda n, m: (BUFFER[:n, :8],)),
    "attention": (
        F.scaled_dot_product_attention, lambda n, m: (CACHE[:, :, :m] * 2, CACHE[:, :, :n], CACHE[:, :, :n]),
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", PROGRAMS)
def test_two_recordings_are_enough(name: str) -> None:
    function, arguments = PROGRAMS[name]
    traced = jit.trace(function)
    for n, m in SIZES:
        found, wanted = traced(*arguments(n, m)), function(*arguments(n, m))
        assert found.shape == wanted.shape and found.stride() == wanted.stride()
        np.testing.assert_allclose(found.numpy(), wanted.numpy(), rtol=1e-4, atol=1e-5)
    assert traced.misses <= 2


@pytest.mark.parametrize("turned", [False, True])
def test_a_part_that_is_all_is_of_another_kind(turned: bool) -> None:
    """It is contiguous, or the transpose of what is, and Python may ask."""

    def function(x: Any) -> Any:
        return x * 2 if x.is_contiguous() or x.t().is_contiguous() else x * 3

    traced = jit.trace(function)
    for n, m in [(9, 7), (8, 6), (9, 16), (8, 16), (9, 7), (7, 16), (9, 5), (20, 16), (21, 3), (64, 16), (64, 15)]:
        x = BUFFER.t()[:m, :n] if turned else BUFFER[:n, :m]
        assert traced(x).tolist() == function(x).tolist()


def test_elements_that_share_memory_are_of_another_kind() -> None:
    traced = jit.trace(lambda x: x * 2)
    for n, m in [(3, 2), (5, 3), (3, 7), (4, 6), (9, 2), (5, 8), (3, 3), (7, 5)]:
        x = BUFFER.as_strided((n, m), (4, 1))
        assert traced(x).tolist() == (x * 2).tolist()


def test_gradients() -> None:
    weight = jit.nn.Parameter(jit.rand(8, 3))

    def gradients(function: Any, n: int) -> list[Any]:
        buffer, weight.grad = BUFFER.clone().requires_grad_(), None
        y = function(buffer[:n, :8])
        (y * jit.arange(float(y.numel())).view(y.shape)).sum().backward()
        assert weight.grad is not None and buffer.grad is not None
        return [weight.grad.numpy(), buffer.grad.numpy()]

    def layer(x: Any) -> Any:
        return x.tanh() @ weight

    traced = jit.trace(layer)
    for n, _ in SIZES:
        for found, wanted in zip(gradients(traced, n), gradients(layer, n), strict=True):
            np.testing.assert_allclose(found, wanted, rtol=1e-4, atol=1e-4)
    assert traced.misses <= 2
