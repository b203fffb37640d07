"""Resizing: values by hand, refusals, and what must not leak from one entry to another."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import jit
from jit.ir.errors import Error
from jit.nn.functional import interpolate, upsample_bilinear, upsample_nearest
from jit.ops import resize_taps
from tests.ops.references.arrays import adjoint
from tests.ops.references.resize import resized

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
        (lambda x: jit.upsample_linear1d(x, None, False, None), "either output_size or scale_factors, and not both"),
        (lambda x: jit.upsample_linear1d(x, [3], False, [2.0]), "either output_size or scale_factors, and not both"),
        (lambda x: jit.upsample_nearest1d(x, None, [2.0, 2.0]), "each of the 1 spatial"),
    ],
)
def test_refusals_say_why(call: Callable[..., Any], says: str) -> None:
    with pytest.raises(Error, match=says):
        call(line())


# -- taps: memory grows with the sizes, not with their product -------------------------------------------------------

MODES = [("linear", 1, False), ("bilinear", 2, False), ("bicubic", 2, False), ("trilinear", 3, False),
         ("bilinear", 2, True), ("bicubic", 2, True)]  # fmt: skip


@pytest.mark.parametrize("settings", [(False, None), (True, None), (False, 1.7), (False, 0.6)])
@pytest.mark.parametrize(("mode", "rank", "antialias"), MODES)
def test_taps_agree_with_the_definition_forth_and_back(
    mode: str, rank: int, antialias: bool, settings: Any, rng: np.random.Generator, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Small sizes go by a matrix; without it, the same numbers come out."""
    monkeypatch.setattr(resize_taps, "_SMALL", 0)
    align, factor = settings
    x = rng.standard_normal((2, 3, *(5, 4, 6)[:rank]))
    given = jit.tensor(x, requires_grad=True)
    target = {"scale_factor": [factor] * rank} if factor else {"size": [7, 3, 9][:rank]}
    y = interpolate(given, mode=mode, align_corners=align, antialias=antialias, **target)
    name = ("linear" if "linear" in mode else "cubic") + ("_aa" if antialias else "")
    expected = resized(x, y.shape[2:], name, align, [factor] * rank)
    np.testing.assert_allclose(y.detach().numpy(), expected, rtol=1e-12, atol=1e-12)
    g = rng.standard_normal(y.shape)
    y.backward(jit.tensor(g))
    back = adjoint(lambda z: resized(z, y.shape[2:], name, align, [factor] * rank), x.shape, g)
    np.testing.assert_allclose(given.grad.numpy(), back, rtol=1e-11, atol=1e-11)


@pytest.mark.parametrize(("mode", "antialias"), [("bilinear", False), ("bicubic", False), ("bilinear", True)])
def test_a_million_entries_and_a_gradient_for_all_of_them(mode: str, antialias: bool) -> None:
    """A matrix of these sizes would take 8 TB."""
    x = jit.ones(1, 1, 1, 1_000_003, requires_grad=True)
    y = interpolate(x, (1, 999_983), mode=mode, antialias=antialias)
    assert (y - 1).abs().max().item() < 1e-5
    y.sum().backward()
    assert x.grad.sum().item() == pytest.approx(999_983, rel=1e-5)


def test_a_long_run_of_a_gradient_is_added_exactly() -> None:
    x = jit.ones(1, 1, 1, requires_grad=True)
    interpolate(x, 2**24 + 2, mode="linear").sum().backward()
    assert x.grad.item() == 2**24 + 2


@pytest.mark.parametrize(("mode", "antialias"), [("bilinear", False), ("bicubic", False), ("bicubic", True)])
def test_infinity_reaches_its_neighbours_alone(mode: str, antialias: bool) -> None:
    x = jit.arange(9.0).reshape(1, 1, 1, 9)
    clean = interpolate(x, (1, 18), mode=mode, antialias=antialias)
    x[0, 0, 0, 8] = float("inf")
    y = interpolate(x, (1, 18), mode=mode, antialias=antialias)
    assert y[0, 0, 0, :12].tolist() == pytest.approx(clean[0, 0, 0, :12].tolist())
    assert not y[0, 0, 0, -1].isfinite().item()


def test_a_result_of_the_same_size_is_no_alias() -> None:
    x = jit.arange(3.0).reshape(1, 1, 3)
    y = interpolate(x, 3, mode="linear")
    y[0, 0, 0] = 9
    assert x[0, 0].tolist() == [0, 1, 2]
    moved = interpolate(x, scale_factor=1.2, mode="linear")  # 3 entries again: nothing moves
    assert moved[0, 0].tolist() == [0, 1, 2]


# -- bytes -----------------------------------------------------------------------------------------------------------


def image(*rows: list[int]) -> jit.Tensor:
    return jit.tensor([[rows]], dtype=jit.uint8)


@pytest.mark.parametrize(
    ("settings", "expected"),
    [
        (dict(mode="bilinear"), [[0, 64, 191, 255], [50, 74, 120, 143], [100, 83, 48, 30]]),
        (dict(mode="bilinear", align_corners=True), [[0, 85, 170, 255], [50, 81, 112, 143], [100, 77, 53, 30]]),
        (dict(mode="bilinear", antialias=True), [[0, 64, 191, 255], [50, 74, 120, 143], [100, 83, 48, 30]]),
        (dict(mode="bicubic"), [[0, 56, 210, 255], [54, 71, 122, 139], [116, 86, 33, 3]]),
    ],
)
def test_bytes_are_rounded_and_cut(settings: dict[str, Any], expected: list[list[int]]) -> None:
    y = interpolate(image([0, 255], [100, 30]), (3, 4), **settings)
    assert y.dtype is jit.uint8
    assert y[0, 0].tolist() == expected


@pytest.mark.parametrize("antialias", [False, True])
@pytest.mark.parametrize("mode", ["bilinear", "bicubic"])
def test_bytes_are_floats_rounded(mode: str, antialias: bool, rng: np.random.Generator) -> None:
    """Each of the two dims rounds once, so results lie within two roundings of those in floating point: here nothing
    in between lies beyond 0 or 255, where it would be cut."""
    x = jit.tensor(rng.integers(80, 176, (2, 5, 9, 14)).astype(np.uint8))
    for size in ((9, 30), (4, 14), (13, 5)):
        exact = interpolate(x.double(), size, mode=mode, antialias=antialias)
        found = interpolate(x, size, mode=mode, antialias=antialias)
        assert (found.double() - exact).abs().max().item() <= 1.5
    traced = jit.trace(lambda t: interpolate(t, (4, 14), mode=mode, antialias=antialias))
    assert traced(x).equal(interpolate(x, (4, 14), mode=mode, antialias=antialias))


@pytest.mark.parametrize("dtype", [jit.int8, jit.int32, jit.int64, jit.bool])
def test_other_whole_numbers_have_no_middle(dtype: Any) -> None:
    for mode, rank in (("linear", 1), ("bilinear", 2), ("bicubic", 2), ("trilinear", 3)):
        x = jit.ones(1, 1, *[3] * rank).to(dtype)
        with pytest.raises(jit.Error, match="interpolation between neighbours expects a floating tensor"):
            interpolate(x, 5, mode=mode)
        with pytest.raises(jit.Error, match="interpolation between neighbours expects a floating tensor"):
            jit.trace(lambda t, mode=mode: interpolate(t, 5, mode=mode))(x)
    assert interpolate(jit.ones(1, 1, 3).to(dtype), 5).dtype is dtype


# -- in plans ----------------------------------------------------------------------------------------------------

GROWING: dict[str, tuple[dict[str, Any], bool]] = {
    "by 2": (dict(scale_factor=2), True),
    "by 3 and 2": (dict(size=(24, 14)), True),
    "by 2, exact": (dict(scale_factor=2, mode="nearest-exact"), True),
    "by 1": (dict(scale_factor=1), True),
    "by one and a half": (dict(scale_factor=1.5), False),
    "by 2, given less": (dict(size=(16, 14), scale_factor=None), True),
    "smaller": (dict(size=(4, 3)), False),
}
"""Ways to resize an image of 8 x 7, and whether they repeat its entries a whole number of times."""


@pytest.mark.parametrize("dtype", ["float32", "float64", "float16", "bfloat16"])
@pytest.mark.parametrize("name", GROWING, ids=[name.replace(" ", "_") for name in GROWING])
def test_repeated_entries_are_views_and_sums(name: str, dtype: str) -> None:
    """Plans compute whole factors without a call of the interpreter, with its bits, and both derivatives."""
    options, is_whole = GROWING[name]

    def step(x: jit.Tensor) -> tuple[jit.Tensor, ...]:
        y = interpolate(x, **options)
        (first,) = jit.grad((y * y).sum(), x, create_graph=True)
        (second,) = jit.grad((first * first).sum(), x)
        return y.detach(), first.detach(), second

    x = jit.from_numpy(np.random.default_rng(0).integers(-2, 3, (2, 3, 8, 7)) / 2).to(getattr(jit, dtype))
    x, traced = x.requires_grad_(), jit.trace(step)
    for _ in range(3):
        for found, expected in zip(traced(x), step(x), strict=True):
            np.testing.assert_array_equal(found.double().numpy(), expected.double().numpy())
    assert ("upsample" not in str(traced.graphs[-1].graph)) == is_whole


def test_factors_of_images_of_any_size() -> None:
    """Where sizes vary, factors are those that the user gives."""
    for factor in (2, 3, 4, 2.5):
        traced = jit.trace(lambda x, f=factor: interpolate(x, scale_factor=f))
        for n in (4, 6, 6, 10, 7, 1):
            x = jit.from_numpy(np.random.default_rng(n).standard_normal((n, 2, n, 5)))
            np.testing.assert_array_equal(traced(x).numpy(), interpolate(x, scale_factor=factor).numpy())
