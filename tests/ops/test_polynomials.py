"""Orthogonal polynomials and polygamma of enormous degrees: right, nan or refused, but never without end."""

import mpmath  # type: ignore[import-untyped]
import numpy as np
import pytest

import jit

POINTS = np.array([-7, -1.01, -1, -0.99, -0.5, -1e-3, 0, 0.25, 0.7, 0.999, 1, 1.0001, 3])
DEGREES = (5, 999, 1000, 1001, 1002, 50001, 10**7)
ENDLESS = {"laguerre_polynomial_l": "laguerre_polynomial", "legendre_polynomial_p": "legendre_polynomial"}


def chebyshev(kind: str, n: int, x: float) -> float:
    """The polynomial as a quotient of waves, in 60 digits; its limits where that is 0 / 0."""
    if kind in "uv" and x == -1 or kind in "uw" and x == 1:
        return (-1.0 if x < 0 and n % 2 else 1.0) * (n + 1 if kind == "u" else 2 * n + 1)
    with mpmath.workdps(60):
        t, half = mpmath.acos(mpmath.mpf(x)), mpmath.mpf(0.5)
        waves = {
            "t": lambda: mpmath.cos(n * t),
            "u": lambda: mpmath.sin((n + 1) * t) / mpmath.sin(t),
            "v": lambda: mpmath.cos((n + half) * t) / mpmath.cos(half * t),
            "w": lambda: mpmath.sin((n + half) * t) / mpmath.sin(half * t),
        }
        return float(mpmath.re(waves[kind]()))


@pytest.mark.parametrize("kind", "tuvw")
@pytest.mark.parametrize("degree", DEGREES)
def test_chebyshev_polynomials_of_any_degree(kind, degree):
    found = getattr(jit.special, f"chebyshev_polynomial_{kind}")(jit.from_numpy(POINTS), degree).numpy()
    expected = np.array([chebyshev(kind, degree, x) for x in POINTS])
    same = found == expected  # infinities, too
    error = np.abs(np.where(same, 0, found) - np.where(same, 0, expected))
    assert (error <= 4e-16 * degree * np.maximum(np.abs(expected), 1)).all()


@pytest.mark.parametrize("kind", "tuvw")
def test_chebyshev_polynomials_far_out(kind):
    evaluate = getattr(jit.special, f"chebyshev_polynomial_{kind}")
    x = jit.tensor([0.3, np.inf, np.nan])
    found = evaluate(x, 10**18)
    assert abs(found[0].item()) < 5 and found[1].item() == np.inf and found[2].isnan().item()
    assert evaluate(jit.tensor([0.3]), jit.tensor([np.nan, np.inf, -np.inf])).isnan().tolist() == [True, True, False]
    shifted = getattr(jit.special, f"shifted_chebyshev_polynomial_{kind}")
    assert shifted(jit.tensor([0.75]), 5000).item() == evaluate(jit.tensor([0.5]), 5000).item()


@pytest.mark.parametrize("name", ["hermite_polynomial_h", "hermite_polynomial_he"])
def test_hermite_polynomials_beyond_float64_are_nan(name):
    found = getattr(jit.special, name)(jit.tensor([0.3]), jit.tensor([2, 513, 10**18]))
    assert found.isnan().tolist() == [False, True, True]


@pytest.mark.parametrize("name", ENDLESS)
def test_polynomials_that_take_a_step_per_degree_are_refused_above_a_limit(name):
    evaluate = getattr(jit.special, name)
    assert abs(evaluate(jit.tensor([0.3]), 100_000).item()) < 1
    assert evaluate(jit.tensor([0.3]), jit.tensor([np.nan])).isnan().item()
    for degree in (100_001, 10**18, np.inf):
        with pytest.raises(
            jit.UsageError,
            match=f"{ENDLESS[name]}: the degree n should be at most 100000.* got {degree:.6g}".replace("+", r"\+"),
        ):
            evaluate(jit.tensor([0.3]), jit.tensor([2.0, degree], dtype=jit.float64))


def test_polygamma_of_enormous_orders():
    found = jit.special.polygamma(10**7, jit.tensor([0.5, 1.5]))
    assert found.tolist()[0] == -np.inf  # a factorial that no float holds, times what is no less than 1
    exact = [float(mpmath.polygamma(170, x)) for x in (1.5, 2.5)]
    found = jit.special.polygamma(170, jit.tensor([1.5, 2.5], dtype=jit.float64))
    np.testing.assert_allclose(found.numpy(), exact, rtol=1e-12)
