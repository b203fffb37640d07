"""Derives the polynomials of `elementary.py` and `c_functions.py` in `jit/runtime`: minimax fits by Remez' exchange.

    python benchmarks/derive_polynomials.py          # needs mpmath

Prints a table of coefficients for each function, lowest power first. The arithmetic has 60 digits. Every fit
approximates a smooth remainder such as (exp(r) - 1 - r) / r**2 on a short interval; the weight turns the error of the
remainder into the relative error of the function.
"""

from __future__ import annotations

import argparse
from collections.abc import Callable
from typing import Any

import mpmath as mp  # type: ignore[import-untyped]

mp.mp.dps = 60
Function = Callable[[Any], Any]


def remez(f: Function, weight: Function, low: Any, high: Any, degree: int) -> tuple[list[Any], Any]:
    """The polynomial whose largest weighted error on [low, high] is least, and that error."""
    points = _chebyshev(low, high, degree + 2)
    grid = _chebyshev(low, high, 60 * (degree + 2))
    for _ in range(8):
        coefficients = _levelled(f, weight, points, degree)
        errors = [weight(x) * (f(x) - mp.polyval(coefficients[::-1], x)) for x in grid]
        extrema = _extrema(grid, errors, degree + 2)
        if len(extrema) < degree + 2:
            break
        points = extrema
    return coefficients, max(abs(e) for e in errors)


def _chebyshev(low: Any, high: Any, count: int) -> list[Any]:
    middle, radius = mp.mpf(high + low) / 2, mp.mpf(high - low) / 2
    return [middle - radius * mp.cos(mp.pi * (2 * i + 1) / (2 * count)) for i in range(count)]


def _levelled(f: Function, weight: Function, points: list[Any], degree: int) -> list[Any]:
    """Solve for the polynomial whose weighted errors at `points` alternate in sign and agree in size."""
    matrix = mp.matrix(len(points), len(points))
    right = mp.matrix(len(points), 1)
    for row, x in enumerate(points):
        for power in range(degree + 1):
            matrix[row, power] = x**power
        matrix[row, degree + 1] = (-1) ** row / weight(x)
        right[row] = f(x)
    return list(mp.lu_solve(matrix, right))[: degree + 1]


def _extrema(grid: list[Any], errors: list[Any], count: int) -> list[Any]:
    """The largest error of each run of one sign; the `count` neighbouring runs that matter most."""
    best: list[int] = []
    for index, error in enumerate(errors):
        if best and (error > 0) == (errors[best[-1]] > 0):
            if abs(error) > abs(errors[best[-1]]):
                best[-1] = index
        else:
            best.append(index)
    while len(best) > count:
        best.pop(0 if abs(errors[best[0]]) < abs(errors[best[-1]]) else -1)
    return [grid[i] for i in best]


def exp_rest(r: Any) -> Any:
    """exp(r) = 1 + r + r**2 * P(r)."""
    if abs(r) < mp.mpf("1e-15"):
        return mp.mpf(1) / 2 + r / 6
    return (mp.expm1(r) - r) / r**2


def log_rest(z: Any) -> Any:
    """log((1 + s) / (1 - s)) = 2 s + s * z * P(z) with z = s**2."""
    s = mp.sqrt(z)
    return (2 * mp.atanh(s) / s - 2) / z


def sin_rest(z: Any) -> Any:
    """sin(r) = r + r * z * P(z) with z = r**2."""
    r = mp.sqrt(z)
    return (mp.sin(r) / r - 1) / z


def cos_rest(z: Any) -> Any:
    """cos(r) = 1 - z / 2 + z**2 * P(z) with z = r**2."""
    return (mp.cos(mp.sqrt(z)) - 1 + z / 2) / z**2


def tanh_rest(z: Any) -> Any:
    """tanh(x) = x + x * z * P(z) with z = x**2."""
    x = mp.sqrt(z)
    return (mp.tanh(x) / x - 1) / z


def erf_rest(z: Any) -> Any:
    """erf(x) = x + x * P(z) with z = x**2."""
    x = mp.sqrt(z)
    return mp.erf(x) / x - 1


def erf_tail(t: Any) -> Any:
    """erf(x) = 1 - exp(-P(x))."""
    return -mp.log(mp.erfc(t))


def erfc_scaled(t: Any) -> Any:
    """erfc(x) = exp(-x**2) / (1 + 2 x) * P(t) with t = (x - 3.75) / (x + 3.75)."""
    x = mp.mpf("3.75") * (1 + t) / (1 - t)
    return mp.exp(x * x) * mp.erfc(x) * (1 + 2 * x)


TINY = mp.mpf(10) ** -12
HALF_LN2 = mp.log(2) / 2 * mp.mpf("1.0001")
LOG_END = ((mp.sqrt(2) - 1) / (mp.sqrt(2) + 1)) ** 2 * mp.mpf("1.0001")
TANH_END = (mp.log(3) / 2 * mp.mpf("1.001")) ** 2
PI_4_SQUARED = (mp.pi / 4 * mp.mpf("1.0001")) ** 2

FITS: list[tuple[str, Function, Function, Any, Any, int]] = [
    ("exp32", exp_rest, lambda r: r**2 + mp.mpf("0.02"), -HALF_LN2, HALF_LN2, 4),
    ("exp64", exp_rest, lambda r: r**2 + mp.mpf("0.02"), -HALF_LN2, HALF_LN2, 9),
    ("log32", log_rest, lambda z: z + mp.mpf("1e-6"), TINY, LOG_END, 2),
    ("log64", log_rest, lambda z: z + mp.mpf("1e-6"), TINY, LOG_END, 6),
    ("sin32", sin_rest, lambda z: z + mp.mpf("1e-4"), TINY, PI_4_SQUARED, 2),
    ("sin64", sin_rest, lambda z: z + mp.mpf("1e-4"), TINY, PI_4_SQUARED, 5),
    ("cos32", cos_rest, lambda z: z**2 + mp.mpf("1e-4"), TINY, PI_4_SQUARED, 2),
    ("cos64", cos_rest, lambda z: z**2 + mp.mpf("1e-4"), TINY, PI_4_SQUARED, 5),
    ("tanh32", tanh_rest, lambda z: z + mp.mpf("1e-4"), TINY, TANH_END, 4),
    ("tanh64", tanh_rest, lambda z: z + mp.mpf("1e-4"), TINY, TANH_END, 10),
    ("erf32", erf_rest, lambda z: mp.mpf(1), TINY, mp.mpf("0.95") ** 2, 6),
    ("erf_tail32", erf_tail, mp.erfc, mp.mpf("0.9"), mp.mpf("4"), 8),
    ("erfc64", erfc_scaled, lambda t: 1 / erfc_scaled(t), mp.mpf("-3.25") / mp.mpf("4.25"), mp.mpf("0.7638"), 20),
]


def split(value: Any, *bits: int) -> list[float]:
    """`value` as a sum of floats of the given precisions, so that small integers times the first ones are exact."""
    parts = []
    for precision in bits:
        quantum = mp.mpf(2) ** (mp.floor(mp.log(abs(value), 2)) - precision + 1)
        parts.append(mp.nint(value / quantum) * quantum)
        value -= parts[-1]
    return [float(p) for p in parts]


def main() -> None:
    """Print every table."""
    argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter).parse_args()
    print("# log(2), float32 and float64:", split(mp.log(2), 12, 24), split(mp.log(2), 33, 53))
    print("# pi / 2, for float32 and float64:", split(mp.pi / 2, 33, 53), split(mp.pi / 2, 33, 33, 53))
    for name, f, weight, low, high, degree in FITS:
        coefficients, error = remez(f, weight, low, high, degree)
        print(f"# {name}: relative error 2**{float(mp.log(error, 2)):.1f}")
        for c in coefficients:
            print(f"    {float(c)!r},")


if __name__ == "__main__":
    main()
