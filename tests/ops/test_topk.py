"""`topk` and `kthvalue` choose before they sort where that pays, and give what sorting would: NaN and ties included."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import jit
from jit.ops import indexing

_ordered: Any = indexing._ordered
_first_of_order: Any = indexing._first_of_order

DTYPES = ("float32", "float64", "float16", "int64", "int32", "uint8", "int16")


def rows(seed: int, dtype: str, ties: bool, nan: float) -> np.ndarray:
    """A random array [3, size, 2]."""
    rng = np.random.default_rng(seed)
    shape = (3, int(rng.integers(64, 300)), 2)
    if dtype.startswith("float") and not ties:
        found = (rng.standard_normal(shape) * 100).astype(dtype)
        found[rng.random(shape) < nan] = np.nan
        return found
    return rng.integers(0, 4 if ties else 250, shape).astype(dtype)


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("ties", [False, True])
@pytest.mark.parametrize("nan", [0.0, 0.02, 0.5])
@pytest.mark.parametrize("largest", [False, True])
def test_the_first_of_many(dtype: str, ties: bool, nan: float, largest: bool) -> None:
    for seed in range(6):
        x = rows(seed, dtype, ties, nan)
        for k in (1, 2, x.shape[1] // 5, x.shape[1] // 4):
            order, _ = _ordered(np, x, 1, largest)
            values, indices = jit.from_numpy(x).topk(k, dim=1, largest=largest)
            assert np.array_equal(indices.numpy(), order[:, :k])
            assert np.array_equal(values.numpy(), np.take_along_axis(x, order[:, :k], 1), equal_nan=nan > 0)


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("ties", [False, True])
def test_the_kth(dtype: str, ties: bool) -> None:
    for seed in range(4):
        x = rows(seed, dtype, ties, 0.1)
        for k in (1, x.shape[1] // 4, x.shape[1] // 2, x.shape[1]):
            order, _ = _ordered(np, x, 1, False)
            values, indices = jit.from_numpy(x).kthvalue(k, dim=1)
            assert np.array_equal(indices.numpy(), order[:, k - 1])
            assert np.array_equal(values.numpy(), np.sort(x, 1)[:, k - 1], equal_nan=True)


def test_choosing_says_when_it_does_not_know() -> None:
    x = np.arange(100, dtype=np.float32)
    assert np.array_equal(_first_of_order(np, x, 3, 0, True), [99, 98, 97])
    assert np.array_equal(_first_of_order(np, x, 3, 0, False), [0, 1, 2])
    x[:4] = 1
    assert _first_of_order(np, x, 3, 0, False) is None, "which of the four equal ones come first?"
    x[50:] = np.nan
    assert _first_of_order(np, x, 3, 0, True) is None
