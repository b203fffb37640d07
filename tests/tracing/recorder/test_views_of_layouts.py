"""Views of memory whose layout differs from that of the Value that stands for it: what was written, numpy's arrays."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import jit


def written_then_seen(x: jit.Tensor) -> Any:
    x.add_(1)
    return x.t().view(-1) * 2


def seen_then_written(x: jit.Tensor) -> Any:
    view = x.t().view(-1)
    x.add_(1)
    return view * 2


def written_through_a_view(x: jit.Tensor) -> Any:
    x.add_(1)
    view = x.t().view(2, 2, 6)
    view[1].mul_(3)
    return x * 1, view


def written_by_both_names(x: jit.Tensor) -> Any:
    view = x.t().view(-1)
    x.add_(1)
    view[3:7].mul_(3)
    x.mul_(2)
    return x * 1, view


WRITTEN = [written_then_seen, seen_then_written, written_through_a_view, written_by_both_names]

OF_ARRAYS: list[Callable[[jit.Tensor], Any]] = [
    lambda t: t.t().view(-1) * 1,
    lambda t: t.t().contiguous().view(2, 2, 6),
    lambda t: t.t()[1:].view(3, 2, 3).sum(1),
    lambda t: t.t()[:, :3].unflatten(1, (3, 1)).squeeze(-1),
]


def columns(first: int = 0) -> Any:
    return np.arange(first, first + 24, dtype=np.float32).reshape(4, 6).T


def numbers(result: Any) -> Any:
    return [numbers(each) for each in result] if isinstance(result, tuple) else result.tolist()


@pytest.mark.parametrize("function", WRITTEN)
def test_views_of_what_was_written(function: Callable[..., Any]) -> None:
    traced = jit.trace(function)
    for first in range(3):
        x, same = jit.from_numpy(columns(first).copy("K")), jit.from_numpy(columns(first).copy("K"))
        assert numbers(traced(x)) == numbers(function(same)) and x.tolist() == same.tolist()


@pytest.mark.parametrize("function", OF_ARRAYS)
@pytest.mark.parametrize("make", [jit.from_numpy, jit.as_tensor])
def test_views_of_arrays_of_columns(make: Callable[..., jit.Tensor], function: Callable[..., Any]) -> None:
    traced = jit.trace(lambda array: function(make(array)))
    for first in (0, 0, 5):
        assert traced(columns(first)).tolist() == function(make(columns(first))).tolist()
