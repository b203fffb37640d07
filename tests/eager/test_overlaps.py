"""Writing where memory is shared: refused where two elements of the target share a place; right everywhere else."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import jit

WAYS: dict[str, Callable[[Any], Any]] = {
    "eager": lambda function: function,
    "interpreted": lambda function: jit.trace(function, optimize=False),
    "compiled": jit.trace,
}
REFUSED: dict[str, Callable[[Any], Any]] = {
    "expanded": lambda x: x[:1].expand(3).add_(1),
    "expanded, written by index": lambda x: x[:1].expand(3).index_put_((jit.tensor([0]),), jit.tensor(1.0)),
    "expanded, masked": lambda x: x[:1].expand(3).masked_fill_(jit.ones(3).bool(), 1),
    "expanded, scattered": lambda x: x[:1].expand(3).scatter_(0, jit.tensor([0]), 1.0),
    "expanded, copied to": lambda x: x[:1].expand(3).copy_(x[:3]),
    "expanded, filled": lambda x: x[:1].expand(3).fill_(1),
    "windows": lambda x: x.unfold(0, 3, 1).mul_(2),
    "strides": lambda x: x.as_strided((2, 3), (1, 1)).zero_(),
    "out=": lambda x: jit.add(jit.ones(2, 3), 1, out=x.as_strided((2, 3), (1, 1))),
}


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("name", REFUSED)
def test_places_that_are_shared_are_not_written(name: str, way: str) -> None:
    x = jit.arange(6.0)
    with pytest.raises(jit.ShapeError, match="share one place in memory"):
        WAYS[way](REFUSED[name])(x)
    assert x.tolist() == [0.0, 1.0, 2.0, 3.0, 4.0, 5.0]


def with_copies(function: Callable[[Any, Any], Any]) -> list[float]:
    """What a function of a tensor and of what it reads comes to if they do not share memory."""
    x = jit.arange(6.0)
    function(x, x.clone())
    return x.tolist()


RIGHT: dict[str, Callable[[Any, Any], Any]] = {
    "add_": lambda x, y: x[1:].add_(y[:-1]),
    "add_ backwards": lambda x, y: x[:-1].add_(y[1:]),
    "copy_": lambda x, y: x[1:].copy_(y[:-1]),
    "transposed": lambda x, y: x[:4].view(2, 2).mul_(y[:4].view(2, 2).t()),
    "index_add_": lambda x, y: x.index_add_(0, jit.tensor([1, 2, 3]), y[:3]),
    "index_copy_": lambda x, y: x.index_copy_(0, jit.tensor([1, 2, 3]), y[:3]),
    "scatter_": lambda x, y: x.scatter_(0, jit.tensor([1, 2, 3]), y[:3]),
    "masked_scatter_": lambda x, y: x.masked_scatter_(y > 2, y),
    "setitem": lambda x, y: x.__setitem__(slice(2, 5), y[:3]),
    "flipped": lambda x, y: x.copy_(y.flip(0)),
    "cumulative": lambda x, y: x[1:].copy_(jit.cumsum(y, 0)[:-1]),
}


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("name", RIGHT)
def test_what_is_read_is_read_before_it_is_written(name: str, way: str) -> None:
    function, x = RIGHT[name], jit.arange(6.0)
    WAYS[way](lambda x: function(x, x))(x)
    assert x.tolist() == with_copies(function)


OUT: dict[str, Callable[[Any, Any], Any]] = {
    "exp": lambda x, out: jit.exp(x[:5], out=out),
    "index_select": lambda x, out: jit.index_select(x, 0, jit.tensor([0, 0, 1, 2, 3]), out=out),
    "cat": lambda x, out: jit.cat([x[:3], x[:2]], out=out),
    "cumsum": lambda x, out: jit.cumsum(x[:5], 0, out=out),
}


@pytest.mark.parametrize("name", OUT)
def test_out_may_overlap_an_operand(name: str) -> None:
    x = jit.arange(6.0)
    expected = OUT[name](x.clone(), jit.empty(5)).tolist()
    OUT[name](x, x[1:])
    assert np.array_equal(x[1:].numpy(), expected)
