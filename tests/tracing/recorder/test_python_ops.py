"""What functions of one's own are given while a trace is recorded."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import pytest

import jit
from jit.ir.graph import leaves


class Pair(NamedTuple):
    n: int
    m: int


@pytest.mark.parametrize("shape", [
    lambda x: x.shape, lambda x: (x.shape[0], 3), lambda x: [x.shape[0], 3], lambda x: {"to": (x.shape[0] + 0, 3)},
    lambda x: Pair(x.shape[0], 3), lambda x: ((x.shape[0],), [3]),
])  # fmt: skip
def test_sizes_may_come_in_any_container(shape: Callable[[Any], Any]) -> None:
    """They are plain numbers there, as they are where no recording is made; other sizes have other recordings."""

    class Spread(jit.autograd.Function):
        @staticmethod
        def forward(ctx: Any, row: Any, shape: Any) -> Any:
            seen.append(shape)
            sizes = [*leaves(shape)]
            ctx.count = sizes[0]
            return row.expand(*sizes) * sizes[0]

        @staticmethod
        def backward(ctx: Any, gradient: Any) -> Any:
            return gradient.sum(0) * ctx.count, None

    def function(row: Any, x: Any) -> Any:
        return Spread.apply(row, shape(x)) + x

    seen: list[Any] = []
    traced = jit.trace(function)
    for n in (2, 5, 2, 7, 4, 5):
        row = jit.arange(3.0).requires_grad_()
        result = traced(row, jit.ones(n, 3))
        assert result.tolist() == [[1.0, n + 1, 2 * n + 1]] * n
        result.sum().backward()
        assert row.grad.tolist() == [n * n] * 3
        assert type(seen[-1]) is type(shape(jit.ones(n, 3))) and {type(each) for each in leaves(seen[-1])} == {int}


def test_lists_are_the_functions_own() -> None:
    """What a function does to a list, a dict or what is in it is undone before the next call."""

    class Taking(jit.autograd.Function):
        @staticmethod
        def forward(ctx: Any, x: Any, steps: Any) -> Any:
            return x * (steps["all"].pop() + len(steps["all"]) + steps.pop("more", 0))

        @staticmethod
        def backward(ctx: Any, gradient: Any) -> Any:
            return gradient, None

    traced = jit.trace(lambda x: Taking.apply(x, {"all": [1, 2, 3], "more": 10}))
    with jit.no_grad():
        assert [traced(jit.ones(1)).item() for _ in range(4)] == [15.0] * 4
    assert traced.misses == 1
