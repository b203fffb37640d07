"""`x.view(dtype)`: the same memory as elements of another dtype, in eager mode and in traces."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import jit
from jit.ir import parse
from jit.runtime.arrays.interpreter import Interpreter

DTYPES = [jit.uint8, jit.int16, jit.float16, jit.bfloat16, jit.int32, jit.float32, jit.int64, jit.complex64, jit.uint32]


def drawn() -> Any:
    return jit.randn(3, 4, 8, generator=jit.Generator().manual_seed(0))


@pytest.mark.parametrize("target", DTYPES, ids=str)
@pytest.mark.parametrize("source", DTYPES, ids=str)
def test_the_bits_are_those_that_numpy_sees(source: Any, target: Any) -> None:
    x = (drawn() * 9).to(source)
    seen = x.view(target)
    assert seen.dtype is target and seen.data_ptr() == x.data_ptr()
    assert np.array_equal(seen.numpy().view(np.uint8), x.numpy().view(np.uint8))
    assert jit.equal(seen.view(source).view(jit.uint8), x.view(jit.uint8))
    part = x[1:, ::2]
    assert np.array_equal(part.view(target).numpy(), part.numpy().view(target.numpy), equal_nan=target is not jit.uint8)


def test_what_cannot_be_seen_says_so() -> None:
    x = jit.ones(4, 6)
    for refused, words in (
        (lambda: x.t().view(jit.int16), "side by side"),
        (lambda: jit.ones(3).view(jit.float64), "no whole elements"),
        (lambda: jit.ones(()).view(jit.int16), "0-dim"),
        (lambda: jit.ones(5)[1:].view(jit.float64), "clone"),
    ):
        with pytest.raises(jit.ShapeError if words != "0-dim" else jit.DimError, match=words):
            refused()
    assert x.t().view(jit.int32).shape == (6, 4) and jit.ones(()).view(jit.int32).item() == 0x3F800000


@pytest.mark.parametrize(("old", "new"), [(1, 8), (8, 1), (2, 4), (4, 2), (4, 8)])
def test_a_graph_that_lies_about_bytes_shows_no_foreign_memory(old: int, new: int) -> None:
    text = f"""graph(%x : Float(2, 8)) {{
      %0 : Float(2, 8) = aten::_view_bytes[dtype=jit.float32, old={old}, new={new}](%x)
      return (%0)
    }}"""
    with pytest.raises(jit.Error, match="do not take the 64 bytes there are"):
        Interpreter(parse(text)).run(0, [np.ones((2, 8), np.float32)])


def sign_off(x: Any) -> Any:
    return ((x * 3).view(jit.int32) & 0x7FFFFFFF).view(jit.float32) + 1


def written(x: Any) -> Any:
    y = x * 2
    y.view(jit.int32)[..., 1] = 0
    y.view(jit.uint8)[0] = 0
    return y + 1, y.view(jit.int16)


@pytest.mark.parametrize("function", [sign_off, written])
def test_traces_do_what_eager_mode_does(function: Any) -> None:
    traced = jit.trace(function)
    for rows in (3, 3, 3, 4, 5, 4):
        x = jit.randn(rows, 4, 4)
        found, expected = (r if isinstance(r, tuple) else (r,) for r in (traced(x), function(x)))
        assert all(jit.equal(a, b) and a.dtype is b.dtype for a, b in zip(found, expected, strict=True))
    assert traced.hits >= 2


def test_bits_have_no_gradient() -> None:
    x = jit.ones(3, requires_grad=True)
    assert not x.view(jit.float32).requires_grad
    y = x * 3
    with jit.no_grad():
        y.view(jit.int32)[0] = 0
    (slope,) = jit.grad(y.sum(), [x])
    assert y.tolist() == [0, 3, 3] and slope.tolist() == [3, 3, 3]


def test_a_traced_size_is_no_dtype() -> None:
    traced = jit.trace(lambda x: (x * 2).view(x.shape[0] * 6) * x.shape[0])
    for rows in (5, 6, 7, 9, 8, 4):
        x = jit.randn(rows, 6)
        assert jit.equal(traced(x), x.view(-1) * 2 * rows)
    assert traced.misses == 2
