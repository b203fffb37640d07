"""What operators give for NaN, infinities, zeros of either sign and the last integers of a dtype, as PyTorch does."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import jit

INF, NAN = math.inf, math.nan
FLOATS = [jit.float16, jit.bfloat16, jit.float32, jit.float64]
WAYS: dict[str, Callable[[Any], Any]] = {
    "eager": lambda f: f, "traced": jit.trace, "plain": jit.trace(optimize=False),
}  # fmt: skip

UNARY: dict[str, tuple[list[float], list[float]]] = {
    "sign": ([NAN, -NAN, INF, -INF, 0.0, -0.0, 2.5, -0.5], [0, 0, 1, -1, 0, 0, 1, -1]),
    "sgn": ([NAN, -NAN, INF, -INF, 0.0, -0.0, 2.5, -0.5], [0, 0, 1, -1, 0, 0, 1, -1]),
    "lgamma": ([NAN, INF, -INF, 0.0, -0.0, -1.0, 1.0], [NAN, INF, INF, INF, INF, INF, 0]),
    "abs": ([NAN, INF, -INF, -0.0], [NAN, INF, INF, 0]),
    "sqrt": ([NAN, INF, -INF, 0.0, -1.0], [NAN, INF, NAN, 0, NAN]),
    "rsqrt": ([NAN, INF, -INF, 0.0, -0.0, -1.0], [NAN, 0, NAN, INF, -INF, NAN]),
    "reciprocal": ([NAN, INF, -INF, 0.0, -0.0], [NAN, 0, -0.0, INF, -INF]),
    "log": ([NAN, INF, -INF, 0.0, -0.0, -1.0], [NAN, INF, NAN, -INF, -INF, NAN]),
    "log1p": ([NAN, INF, -1.0, -2.0], [NAN, INF, -INF, NAN]),
    "exp": ([NAN, INF, -INF, 1e5, -1e5], [NAN, INF, 0, INF, 0]),
    "sigmoid": ([NAN, INF, -INF, 1e4, -1e4], [NAN, 1, 0, 1, 0]),
    "tanh": ([NAN, INF, -INF], [NAN, 1, -1]),
    "relu": ([NAN, INF, -INF, -1.0], [NAN, INF, 0, 0]),
    "floor": ([NAN, INF, -INF, -0.5], [NAN, INF, -INF, -1]),
    "round": ([0.5, 1.5, 2.5, -0.5, NAN, INF], [0, 2, 2, 0, NAN, INF]),
    "isnan": ([NAN, INF, 0.0], [1, 0, 0]),
    "isfinite": ([NAN, INF, -INF, 0.0], [0, 0, 0, 1]),
    "nan_to_num": ([NAN, 1.0], [0, 1]),
    "logical_not": ([NAN, INF, 0.0, -0.0], [0, 0, 1, 1]),
    "erf": ([NAN, INF, -INF], [NAN, 1, -1]),
    "atan": ([INF, -INF, NAN], [math.pi / 2, -math.pi / 2, NAN]),
    "special.airy_ai": ([1e6, INF], [0, 0]),
}


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("name", UNARY)
def test_unary(name: str, way: str) -> None:
    given, wanted = UNARY[name]
    function = jit.special.airy_ai if name == "special.airy_ai" else getattr(jit, name)
    for dtype in FLOATS:
        if name == "special.airy_ai" and dtype not in (jit.float32, jit.float64):
            continue
        x = jit.tensor(given, dtype=jit.float64).to(dtype)
        f = WAYS[way](lambda x: function(x))
        for _ in range(2):
            found = f(x).double().numpy()
            assert np.allclose(found, wanted, rtol=1e-2, equal_nan=True), (dtype, found)


@pytest.mark.parametrize("dtype", [jit.int8, jit.int16, jit.int32, jit.int64, jit.uint8], ids=str)
@pytest.mark.parametrize("way", WAYS)
def test_last_integers(way: str, dtype: Any) -> None:
    info = jit.iinfo(dtype)
    x = jit.tensor([info.min, info.max, 0, 1], dtype=dtype)
    low = info.min < 0
    assert WAYS[way](jit.sign)(x).tolist() == WAYS[way](jit.sgn)(x).tolist() == [-1 if low else 0, 1, 0, 1]
    assert WAYS[way](jit.abs)(x).tolist() == [info.min if low else 0, info.max, 0, 1]
    assert WAYS[way](jit.neg)(x).tolist() == [info.min, -info.max if low else 1, 0, -1 if low else 255]


def test_least_common_multiples_that_do_not_fit() -> None:
    x = jit.tensor([-2147483647, 2147483647, 6], dtype=jit.int32)
    assert jit.lcm(x, jit.tensor([-2, 2, 4], dtype=jit.int32)).tolist() == [2, 2, 12]


@pytest.mark.parametrize("way", WAYS)
def test_gradients_at_nan(way: str) -> None:
    """The derivative of |x| is its sign, and that of a sign is 0."""
    for name, wanted in (("abs", [0, 1, -1, 0]), ("sign", [0, 0, 0, 0]), ("sgn", [0, 0, 0, 0])):
        f = WAYS[way](lambda x, name=name: getattr(jit, name)(x))
        for _ in range(2):
            x = jit.tensor([NAN, INF, -INF, 0.0], requires_grad=True)
            f(x).sum().backward()
            assert x.grad.tolist() == wanted, name
