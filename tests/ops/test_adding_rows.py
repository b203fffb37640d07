"""Rows that are added at indices, of which some come once and some very often, as words do in a text."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import jit
from jit.nn import functional as F


def indices(seed: int, rows: int, places: int) -> np.ndarray:
    """Random places, the first of them as often as the first words of a text."""
    rng = np.random.default_rng(seed)
    return np.minimum(rng.zipf(1.3, rows) - 1, places - 1) if seed % 2 else rng.integers(0, places, rows)


@pytest.mark.parametrize("dtype", ["float32", "float64", "int64", "int32"])
@pytest.mark.parametrize("rows, places", [(1, 1), (5, 3), (40, 2), (300, 30), (700, 1), (900, 400)])
def test_index_add(dtype: str, rows: int, places: int) -> None:
    for seed in range(4):
        index = indices(seed, rows, places)
        source = (np.random.default_rng(seed).standard_normal((rows, 3)) * 9).astype(dtype)
        expected = np.ones((places, 3))
        np.add.at(expected, index, source.astype(np.float64))
        found = jit.ones(places, 3, dtype=dtype).index_add(0, jit.from_numpy(index), jit.from_numpy(source))
        np.testing.assert_allclose(found.numpy(), expected, rtol=1e-5, atol=1e-3)


def test_gradients_of_embeddings_and_selections() -> None:
    index = indices(1, 500, 40)
    expected = np.bincount(index, minlength=40)[:, None] * np.ones((1, 5))
    for select in (lambda w, i: F.embedding(i, w), lambda w, i: w.index_select(0, i), lambda w, i: w[i]):
        weight = jit.rand(40, 5, requires_grad=True)
        select(weight, jit.from_numpy(index)).sum().backward()
        np.testing.assert_array_equal(weight.grad.numpy(), expected)


@pytest.mark.parametrize("sizes", [(4, 8), (4, 12), (5, 7), (6, 4), (3, 3), (1, 5), (8, 2)])
def test_copies_of_the_nearest_and_what_they_give_back(sizes: tuple[int, int]) -> None:
    small, large = sizes
    x = jit.rand(2, 3, small, small, requires_grad=True)
    y = F.interpolate(x, size=(large, large))
    places = np.arange(large) * small // large
    np.testing.assert_array_equal(y.detach().numpy(), x.detach().numpy()[:, :, places][:, :, :, places])
    g = jit.rand(2, 3, large, large)
    y.backward(g)
    expected = np.zeros((2, 3, small, small))
    spots: Any = (slice(None), slice(None), places[:, None], places[None])
    np.add.at(expected, spots, g.numpy().astype(np.float64))
    np.testing.assert_allclose(x.grad.numpy(), expected, rtol=1e-5)
    with jit.no_grad():
        y.zero_()
    assert (x != 0).any(), "no result lies in the memory of the operand"
