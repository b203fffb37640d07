"""What the special functions should compute, in float64 SciPy and mpmath."""

from typing import Any

import mpmath  # type: ignore[import-untyped]
import numpy as np
import scipy.special as sp


def each(function: Any) -> Any:
    """A function of mpmath's numbers, element by element."""
    exact = np.vectorize(lambda *numbers: float(mpmath.re(function(*map(float, numbers)))), otypes=[float])
    return lambda *arrays: exact(*arrays) if np.broadcast(*arrays).size else np.zeros(np.broadcast(*arrays).shape)


def gamma_slope(a: float, x: float) -> Any:
    """How a gamma variate x of shape a varies with a while its cumulative function keeps its value."""
    by_shape = mpmath.diff(lambda shape: mpmath.gammainc(shape, 0, x, regularized=True), a)
    return -by_shape / mpmath.exp((a - 1) * mpmath.log(x) - x - mpmath.loggamma(a))


def polynomial(values: Any) -> Any:
    """`values(degree, x)` of whole degrees, 0 for negative ones."""
    exact = np.vectorize(lambda x, n: 0.0 if n < 0 else float(values(int(n), float(x))), otypes=[float])
    return lambda x, n: exact(x, n) if np.broadcast(x, n).size else np.zeros(0)


def recurrence(first: Any, step: Any) -> Any:
    """A polynomial from that of degree 0, which is 1, that of degree 1 and the step to the next."""

    def values(n: int, x: float) -> float:
        before, now = 0.0, 1.0
        for k in range(n):
            before, now = now, first(x) if k == 0 else step(k, x, now, before)
        return now

    return polynomial(values)


def chebyshev(first: Any) -> Any:
    return recurrence(first, lambda k, x, now, before: 2 * x * now - before)


def shifted(function: Any) -> Any:
    return lambda x, n: function(2 * np.asarray(x) - 1, n)


KINDS = {
    "t": chebyshev(lambda x: x),
    "u": chebyshev(lambda x: 2 * x),
    "v": chebyshev(lambda x: 2 * x - 1),
    "w": chebyshev(lambda x: 2 * x + 1),
}


def xlog1py(x: Any, y: Any) -> Any:
    return np.where(np.isnan(y), np.nan, sp.xlog1py(x, y))


def mvlgamma(x: Any, p: int) -> Any:
    return sum(sp.gammaln(x - i / 2) for i in range(p)) + p * (p - 1) / 4 * np.log(np.pi)


REFERENCES: dict[str, Any] = {
    "aten::lgamma": sp.gammaln,
    "aten::digamma": sp.digamma,
    "aten::polygamma": lambda n, x: each(lambda y: mpmath.polygamma(n, y))(x),
    "aten::mvlgamma": mvlgamma,
    "aten::igamma": each(lambda a, x: mpmath.gammainc(a, 0, x, regularized=True)),
    "aten::igammac": each(lambda a, x: mpmath.gammainc(a, x, regularized=True)),
    "aten::special_zeta": each(mpmath.zeta),
    "aten::erfinv": sp.erfinv,
    "aten::special_erfcx": sp.erfcx,
    "aten::special_ndtr": sp.ndtr,
    "aten::special_log_ndtr": sp.log_ndtr,
    "aten::special_ndtri": sp.ndtri,
    "aten::special_entr": sp.entr,
    "aten::special_xlog1py": xlog1py,
    "aten::sinc": np.sinc,
    "aten::i0": sp.i0,
    "aten::special_i1": sp.i1,
    "aten::special_i0e": sp.i0e,
    "aten::special_i1e": sp.i1e,
    "aten::special_bessel_j0": lambda x: sp.jv(0, x),
    "aten::special_bessel_j1": lambda x: sp.jv(1, x),
    "aten::special_bessel_y0": lambda x: sp.yv(0, x),
    "aten::special_bessel_y1": lambda x: sp.yv(1, x),
    "aten::special_modified_bessel_i0": lambda x: sp.iv(0, x),
    "aten::special_modified_bessel_i1": lambda x: sp.iv(1, x),
    "aten::special_modified_bessel_k0": lambda x: sp.kv(0, x),
    "aten::special_modified_bessel_k1": lambda x: sp.kv(1, x),
    "aten::special_scaled_modified_bessel_k0": lambda x: sp.kve(0, x),
    "aten::special_scaled_modified_bessel_k1": lambda x: sp.kve(1, x),
    "aten::special_spherical_bessel_j0": lambda x: np.sinc(x / np.pi),
    "aten::special_airy_ai": each(mpmath.airyai),
    "aten::_standard_gamma_grad": each(gamma_slope),
    **{f"aten::special_chebyshev_polynomial_{k}": f for k, f in KINDS.items()},
    **{f"aten::special_shifted_chebyshev_polynomial_{k}": shifted(f) for k, f in KINDS.items()},
    "aten::special_hermite_polynomial_h": recurrence(
        lambda x: 2 * x, lambda k, x, now, before: 2 * (x * now - k * before)
    ),
    "aten::special_hermite_polynomial_he": recurrence(lambda x: x, lambda k, x, now, before: x * now - k * before),
    "aten::special_laguerre_polynomial_l": recurrence(
        lambda x: 1 - x, lambda k, x, now, before: ((2 * k + 1 - x) * now - k * before) / (k + 1)
    ),
    "aten::special_legendre_polynomial_p": recurrence(
        lambda x: x, lambda k, x, now, before: ((2 * k + 1) * x * now - k * before) / (k + 1)
    ),
}
