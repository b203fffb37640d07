"""Softmax and cumulative sums under masks, against numpy on the elements that a mask leaves."""

from functools import partial
from typing import Any

import numpy as np
import pytest

import jit
from jit import masked
from jit.autograd import gradcheck
from tests import tolerances

assert_close = partial(tolerances.assert_close, check_dtype=False)
"""References are in float64."""

X = np.array([[1.5, -2.0, 0.5, 3.0], [4.0, 0.25, -1.0, 2.0]], dtype=np.float32)
MASK = np.array([[True, False, True, True], [False, True, True, False]])


def softmax(row):
    powers = np.exp(row - row.max())
    return powers / powers.sum()


RESTS: dict[str, Any] = {
    "softmax": softmax,
    "log_softmax": lambda row: np.log(softmax(row)),
    "softmin": lambda row: softmax(-row),
    "cumsum": np.cumsum,
    "cumprod": np.cumprod,
}


@pytest.mark.parametrize("dim", [0, 1, -1])
@pytest.mark.parametrize("name", RESTS)
def test_the_rest_is_normalised(name, dim):
    kept = MASK | np.array([[True], [False]]) if dim == 0 else MASK  # each column keeps an element
    found = getattr(masked, name)(jit.tensor(X), dim, mask=jit.tensor(kept)).numpy()
    rows, masks, results = (X, kept, found) if dim else (X.T, kept.T, found.T)
    for row, mask, result in zip(rows, masks, results, strict=True):
        assert_close(result[mask], RESTS[name](row[mask].astype(np.float64)))


@pytest.mark.parametrize("name", ["softmax", "softmin"])
def test_what_is_left_out_gets_nothing(name):
    found = getattr(masked, name)(jit.tensor(X), 1, mask=jit.tensor(MASK))
    assert not found.numpy()[~MASK].any()
    assert_close(found.sum(1), np.ones(2))


def test_a_row_without_any_element_is_not_a_number():
    found = masked.softmax(jit.tensor(X), 1, mask=jit.tensor([[True], [False]]))
    assert not found[0].isnan().any() and found[1].isnan().all()


@pytest.mark.parametrize("order", [1, 2.0, 3])
def test_normalize(order):
    found = masked.normalize(jit.tensor(X), order, 1, mask=jit.tensor(MASK)).numpy()
    rest = np.where(MASK, X, 0).astype(np.float64)
    assert_close(found, rest / np.linalg.norm(rest, order, axis=1, keepdims=True))
    zeros = masked.normalize(jit.zeros(2, 3), order, 1)
    assert not zeros.any()


def test_logaddexp():
    x, y = jit.tensor([-1.0, -2.0, -3.0, -4.0]), jit.tensor([-1.0, -1.0, -1.0, -1.0])
    left, right = jit.tensor([True, True, False, False]), jit.tensor([True, False, True, False])
    found = masked.logaddexp(x, y, input_mask=left, other_mask=right)
    assert_close(found, np.array([np.log(2 * np.exp(-1)), -2, -1, -np.inf]))


def test_dtypes():
    x = jit.tensor([1, 2, 3], dtype=jit.int32)
    assert masked.cumsum(x, 0).dtype is jit.int32 and masked.cumsum(x, 0, dtype=jit.float64).dtype is jit.float64
    assert masked.softmax(jit.tensor(X), 1, dtype=jit.float64).dtype is jit.float64


@pytest.mark.parametrize("name", RESTS)
def test_gradients(name):
    x = jit.tensor(X.astype(np.float64), requires_grad=True)
    mask = jit.tensor(MASK)
    apply = getattr(masked, name)
    assert gradcheck(lambda x: jit.where(mask, apply(x, 1, mask=mask), 0), (x,))
