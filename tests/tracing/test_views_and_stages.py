"""Functions whose results are views by sizes that vary, and are differentiated once and twice: forward and later stages
of one recording serve all sizes.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import pytest

import jit
from tests.tolerances import assert_close

SIZES = (5, 7, 4, 6, 11, 3, 40, 9)

Results = Sequence[Any]


def heads(x: Any, w: Any) -> Results:
    y = (x @ w).tanh()
    return y, y.view(y.shape[0], 2, 4).transpose(0, 1), x[: x.shape[0] // 2]


def written(x: Any, w: Any) -> Results:
    y = x @ w
    y[: y.shape[0] // 2] += 1
    y[y.shape[0] - 1] = y[0] * 2
    return y[: y.shape[0] // 2] * 2, y, y[1:]


def parts(x: Any, w: Any) -> Results:
    p, q = (x @ w).chunk(2, 1)
    rows = x.shape[0]
    return (p.softmax(-1) * q).reshape(rows * 2, 2).transpose(0, 1), p, q.narrow(0, 1, rows - 1)


def recomputed(x: Any, w: Any) -> Results:
    z = jit.autograd.checkpoint(lambda x: (x @ w).sin(), x)
    return z.unflatten(1, (2, 4)).permute(1, 0, 2), z.sum(0).expand(x.shape[0], 8), x.t()[:, : x.shape[0] - 1]


def differentiated(x: Any, w: Any) -> Results:
    y = (x @ w).relu()
    (g,) = jit.grad((y**2).sum(), [x], create_graph=True)
    g[: g.shape[0] // 2] = 0
    return g, g[g.shape[0] // 2 :], y.as_strided((y.shape[0], 4), (8, 1))


def observed(function: Callable[..., Results], size: int, order: int) -> list[Any]:
    """The results of a call, and their gradients of first or second order."""
    jit.manual_seed(size)
    x, w = (jit.randn(n, 8, dtype=jit.float64, requires_grad=True) for n in (size, 8))
    results = function(x, w)
    gradients = jit.grad(sum((out**2).sum() for out in results), [x, w], create_graph=order > 1)
    found = [*results, *gradients]
    if order > 1:
        found += jit.grad((gradients[0] ** 2).sum(), [x, w])
    return [tensor.detach() for tensor in found]


@pytest.mark.parametrize("order", [1, 2])
@pytest.mark.parametrize("function", [heads, written, parts, recomputed, differentiated])
def test_views_and_their_derivatives_at_every_size(function: Callable[..., Results], order: int) -> None:
    traced = jit.trace(function)
    for size in SIZES:
        for a, b in zip(observed(traced, size, order), observed(function, size, order), strict=True):
            assert a.shape == b.shape
            assert_close(a, b, rtol=1e-9, atol=1e-9)
    assert traced.misses == 2
