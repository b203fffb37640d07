"""Reductions under masks, against numpy on the elements that a mask leaves."""

import math
from functools import partial
from typing import Any, cast

import numpy as np
import pytest

import jit
from jit import masked
from jit.autograd import gradcheck
from jit.ir.errors import KindError
from tests import tolerances

assert_close = partial(tolerances.assert_close, check_dtype=False)
"""References are in float64."""

X = np.array([[1.5, -2.0, 0.5, 3.0], [4.0, 0.25, -1.0, 2.0], [7.0, 8.0, 9.0, 6.0]], dtype=np.float32)
MASK = np.array([[True, False, True, True], [False, True, True, False], [False, False, False, False]])
MASKS = {"whole": MASK, "row": MASK[:1], "column": np.array([[True], [False], [True]]), "none": None}


def lower_median(row):
    return np.sort(row)[(len(row) - 1) // 2] if len(row) else np.nan


def deviation(power):
    return lambda row: np.var(row, ddof=1) ** power if len(row) > 1 else np.nan


REFERENCES = {
    "sum": np.sum,
    "prod": np.prod,
    "mean": lambda row: np.mean(row) if len(row) else np.nan,
    "amax": lambda row: max(row, default=-np.inf),
    "amin": lambda row: min(row, default=np.inf),
    "logsumexp": lambda row: np.log(np.sum(np.exp(row))) if len(row) else -np.inf,
    "norm": lambda row: np.sqrt(np.sum(row**2)),
    "var": deviation(1),
    "std": deviation(0.5),
    "median": lower_median,
}


def left(x, mask, dim):
    """The elements that a mask leaves, one list for each row along the other dim; all as one for dim None."""
    whole = np.ones_like(x, dtype=bool) if mask is None else np.broadcast_to(mask, x.shape)
    if dim is None:
        return [x[whole]]
    rows, masks = (x, whole) if dim in (1, -1) else (x.T, whole.T)
    return [row[m] for row, m in zip(rows, masks, strict=True)]


@pytest.mark.parametrize("mask", MASKS)
@pytest.mark.parametrize("dim", [0, 1, -1])
@pytest.mark.parametrize("name", REFERENCES)
def test_the_rest_is_reduced(name, dim, mask):
    given = None if MASKS[mask] is None else jit.tensor(MASKS[mask])
    expected = np.array([REFERENCES[name](row) for row in left(X.astype(np.float64), MASKS[mask], dim)])
    for keepdim in (False, True):
        found = getattr(masked, name)(jit.tensor(X), dim=dim, keepdim=keepdim, mask=given)
        assert_close(found, np.expand_dims(expected, dim) if keepdim else expected)


@pytest.mark.parametrize("mask", MASKS)
@pytest.mark.parametrize("name", [name for name in REFERENCES if name != "median"])
def test_all_dims_are_reduced(name, mask):
    given = None if MASKS[mask] is None else jit.tensor(MASKS[mask])
    (rest,) = left(X.astype(np.float64), MASKS[mask], None)
    for dim in (None, (), (0, 1), [-1, 0]):
        assert_close(getattr(masked, name)(jit.tensor(X), dim=dim, mask=given), np.array(REFERENCES[name](rest)))


@pytest.mark.parametrize(("name", "best"), [("argmax", np.argmax), ("argmin", np.argmin)])
def test_places_are_those_in_the_whole_row(name, best):
    sign = np.where(MASK[:2], 0, -np.inf if name == "argmax" else np.inf)
    expected = best(X[:2] + sign, 1)
    found = getattr(masked, name)(jit.tensor(X[:2]), 1, mask=jit.tensor(MASK[:2]))
    assert found.dtype is jit.float32 and found.tolist() == expected.tolist()
    assert getattr(masked, name)(jit.tensor(X), mask=jit.tensor(MASK), dtype=jit.int64).item() == best(
        X + np.vstack([sign, [np.inf * (1 if name == "argmin" else -1)] * 4])
    )


@pytest.mark.parametrize("order", [1, 2, 3.5, math.inf, -math.inf, 0])
def test_norms_of_all_orders(order):
    expected = [np.linalg.norm(row, order) for row in left(X.astype(np.float64), MASK, 1)[:2]]
    assert_close(masked.norm(jit.tensor(X[:2]), order, 1, mask=jit.tensor(MASK[:2])), np.array(expected))


def test_integers():
    x, mask = jit.tensor([[1, 2, 3], [4, 5, 6]], dtype=jit.int32), jit.tensor([True, False, True])
    assert masked.sum(x, 1, mask=mask).tolist() == [4, 10] and masked.sum(x, 1, mask=mask).dtype is jit.int64
    assert masked.prod(x, 1, mask=mask).tolist() == [3, 24] and masked.prod(x, mask=mask).dtype is jit.int64
    assert masked.amax(x, 1, mask=~mask).tolist() == [2, 5] and masked.amax(x, 1, mask=mask).dtype is jit.int32
    assert masked.amin(x, 0, mask=jit.tensor([[False], [False]])).tolist() == [2**31 - 1] * 3
    assert masked.mean(x, 1, mask=mask, dtype=jit.float64).tolist() == [2, 5]
    assert masked.var(x, 1, mask=mask).tolist() == [2, 2] and masked.median(x, 1, mask=mask).tolist() == [1, 4]


def test_corrections():
    x = jit.tensor([1.0, 2.0, 4.0, 100.0])
    mask = jit.tensor([True, True, True, False])
    for less, options in ((0, {"unbiased": False}), (1, {"unbiased": True}), (2, {"correction": 2})):
        assert_close(masked.var(x, mask=mask, **options), np.float64(np.var([1, 2, 4]) * 3 / (3 - less)))


def test_complex_numbers():
    x = jit.tensor([1 + 2j, 3 - 1j, 100j])
    mask = jit.tensor([True, True, False])
    assert masked.sum(x, mask=mask).item() == 4 + 1j and masked.mean(x, mask=mask).item() == 2 + 0.5j
    assert abs(masked.var(x, mask=mask).item() - np.var([1 + 2j, 3 - 1j], ddof=1)) < 1e-6


@pytest.mark.parametrize("name", [*REFERENCES])
def test_gradients_reach_what_the_mask_leaves(name):
    x = jit.tensor(X[:2].astype(np.float64), requires_grad=True)
    mask = jit.tensor(MASK[:2])
    reduce = getattr(masked, name)
    assert gradcheck(lambda x: reduce(x, dim=1, mask=mask), (x,))
    reduce(x, dim=1, mask=mask).sum().backward()
    assert not x.grad[~mask].any() and x.grad[mask].any()


def test_a_trace_takes_masks_as_arguments():
    mean = jit.trace(lambda x, mask: masked.mean(x, 1, mask=mask))
    for _ in range(3):
        for mask in (MASK, MASK[:, ::-1].copy()):
            assert_close(
                mean(jit.tensor(X[:2]), jit.tensor(mask[:2])), np.array([r.mean() for r in left(X[:2], mask[:2], 1)])
            )
    assert mean.hits >= 4


def test_refusals():
    x, mask = jit.ones(2, 3), jit.ones(2, 3, dtype=jit.bool)
    with pytest.raises(jit.DimError, match="no more dims than what it masks, and these are 2 and 1"):
        masked.sum(jit.ones(3), mask=mask)
    with pytest.raises(jit.DTypeError, match="pass dtype="):
        masked.mean(jit.tensor([1, 2]))
    with pytest.raises(jit.DTypeError, match="have no order"):
        masked.amax(jit.tensor([True, False]), mask=jit.tensor([True, False]))
    with pytest.raises(jit.UsageError, match="give one of them"):
        masked.std(x, 1, True, correction=1)
    with pytest.raises(jit.UsageError, match="integers have no NaN"):
        masked.median(jit.tensor([1, 2]), mask=jit.tensor([False, False]))
    with pytest.raises(jit.UsageError, match=r"masked.sum does not take sparse tensors; use to_dense\(\)"):
        masked.sum(jit.eye(2).to_sparse())
    with pytest.raises(KindError, match="takes a whole number, not tuple"):
        masked.median(x, cast(Any, (0, 1)))
    with pytest.raises(jit.Error, match="twice"):
        masked.sum(x, (0, 0))
