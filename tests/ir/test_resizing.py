"""Resizing: values by hand, refusals, and what must not leak from one entry to another."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import jit
from jit.ir.errors import Error
from jit.nn.functional import interpolate, upsample_bilinear, upsample_nearest

LINE = [[[1.0, 2.0, 3.0, 4.0, 5.0]]]


def line() -> jit.Tensor:
    return jit.tensor(LINE)


@pytest.mark.parametrize(
    ("mode", "expected"),
    [("nearest", [1, 2, 4]), ("nearest-exact", [1, 3, 5]), ("area", [1.5, 3, 4.5]), ("linear", [4 / 3, 3, 14 / 3])],
)
def test_five_entries_as_three(mode: str, expected: list[float]) -> None:
    assert interpolate(line(), 3, mode=mode)[0, 0].tolist() == pytest.approx(expected)


def test_a_factor_is_used_as_it_is_or_computed_anew() -> None:
    """1.3 times 5 entries are 6, so places are 1 / 1.3 apart, or 5 / 6."""
    plain = interpolate(line(), scale_factor=1.3, mode="linear")
    again = interpolate(line(), scale_factor=1.3, mode="linear", recompute_scale_factor=True)
    assert plain[0, 0, 1].item() == pytest.approx(1.5 / 1.3 + 0.5)
    assert again[0, 0, 1].item() == pytest.approx(1.5 * 5 / 6 + 0.5)
    assert again.tolist() == interpolate(line(), 6, mode="linear").tolist()


def test_older_names() -> None:
    x = jit.tensor([[[[1.0, 2.0], [3.0, 4.0]]]])
    assert upsample_nearest(x, scale_factor=2)[0, 0, 0].tolist() == [1, 1, 2, 2]
    assert upsample_bilinear(x, (3, 3))[0, 0].tolist() == [[1, 1.5, 2], [2, 2.5, 3], [3, 3.5, 4]]


@pytest.mark.parametrize("mode", ["nearest", "nearest-exact"])
def test_infinity_stays_where_it_is(mode: str) -> None:
    x = jit.tensor([[[1.0, float("inf"), 2.0]]]).requires_grad_()
    y = interpolate(x, 6, mode=mode)
    assert y[0, 0].tolist() == [1, 1, float("inf"), float("inf"), 2, 2]
    weights = jit.tensor([[[1.0, float("nan"), 1.0, 2.0, 3.0, 4.0]]])
    (gradient,) = jit.grad([y], [x], [weights])
    assert np.array_equal(gradient.numpy(), [[[float("nan"), 3, 7]]], equal_nan=True)


@pytest.mark.parametrize(
    ("call", "says"),
    [
        (lambda x: interpolate(x), "either size or scale_factor"),
        (lambda x: interpolate(x, 3, 2.0), "either size or scale_factor"),
        (lambda x: interpolate(x, [3, 3]), "each of the 1 spatial"),
        (lambda x: interpolate(x, scale_factor=[2.0, 2.0]), "each of the 1 spatial"),
        (lambda x: interpolate(x, 3, mode="bilinear"), "no mode 'bilinear'"),
        (lambda x: interpolate(x, 3, mode="cubic"), "no mode 'cubic'"),
        (lambda x: interpolate(x, 3, align_corners=False), "align_corners"),
        (lambda x: interpolate(x, 3, mode="linear", recompute_scale_factor=True), "recompute_scale_factor"),
        (lambda x: interpolate(x, 3, mode="linear", antialias=True), "antialias"),
        (lambda x: interpolate(x, 0, mode="linear"), "at least 1"),
        (lambda x: jit.upsample_linear1d(x, None, False, None), "exactly one"),
        (lambda x: jit.upsample_linear1d(x, [3], False, [2.0]), "exactly one"),
        (lambda x: jit.upsample_nearest1d(x, None, [2.0, 2.0]), "each of the 1 spatial"),
    ],
)
def test_refusals_say_why(call: Callable[..., Any], says: str) -> None:
    with pytest.raises(Error, match=says):
        call(line())
