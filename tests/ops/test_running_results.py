"""Running sums, products and logsumexps of long rows: as exact as one rounding, on every path."""

import numpy as np
import pytest

import jit

REFERENCES = {
    "cumsum": lambda x, dim: np.cumsum(x, dim),
    "cumprod": lambda x, dim: np.cumprod(x, dim),
    "logcumsumexp": lambda x, dim: np.logaddexp.accumulate(x, dim),
}


def values(name, sizes):
    x = np.random.default_rng(0).standard_normal(sizes)
    return (1 + x / 100 if name == "cumprod" else x).astype(np.float32)


@pytest.mark.parametrize(("sizes", "dim"), [((2, 5003), 1), ((5003, 2), 0), ((3, 1700, 2), 1), ((9,), 0)])
@pytest.mark.parametrize("name", REFERENCES)
def test_float32_is_rounded_once(name, sizes, dim):
    x = values(name, sizes)
    exact = REFERENCES[name](x.astype(np.float64), dim).astype(np.float32)
    function = getattr(jit, name)
    traced, interpreted = jit.trace(function), jit.trace(function, optimize=False)
    for call in (function, interpreted, interpreted, interpreted, traced, traced, traced):
        found = call(jit.tensor(x), dim).numpy()
        assert found.dtype == np.float32
        off = np.abs(found - exact) / np.spacing(np.maximum(np.abs(found), np.abs(exact)))
        assert off.max() <= 1 and (off > 0).mean() < 1e-3


@pytest.mark.parametrize("name", ["cumsum", "cumprod"])
def test_complex64_is_rounded_once(name):
    x = values(name, (2, 3000)) * np.exp(1j * values("cumsum", (2, 3000)) / 100).astype(np.complex64)
    exact = REFERENCES[name](x.astype(np.complex128), 1).astype(np.complex64)
    np.testing.assert_array_equal(getattr(jit, name)(jit.tensor(x), 1).numpy(), exact)


@pytest.mark.parametrize("name", ["cumsum", "cumprod"])
def test_operands_are_converted_first(name):
    x = jit.tensor([16777217.0, 1.5, 2.5], dtype=jit.float64)
    function = getattr(jit, name)
    for dtype in (jit.float32, jit.float16, jit.int64):
        expected = function(x.to(dtype), 0)
        assert jit.equal(function(x, 0, dtype=dtype), expected)
        traced = jit.trace(lambda x: function(x, 0, dtype=dtype))  # noqa: B023
        assert all(jit.equal(traced(x), expected) for _ in range(3))
