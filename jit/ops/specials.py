"""Special functions: gamma, Bessel and error functions, zeta, orthogonal polynomials. SciPy computes most of them.

ONNX has none of these, so those that are no formula of simpler functions cannot be exported.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

import numpy as np

from jit.ir.errors import UsageError
from jit.ir.op import Op, Refusal, absent, composite, pointwise
from jit.ir.precision import Precision
from jit.ir.samples import Sample, make, sample, strided, unary, whole

from .common import is_complex

if TYPE_CHECKING:
    from .protocols import Array, Elements, Math, Numpy, OnnxWriter, Ops, Tensor, Value

NO_ONNX = absent("ONNX has no such function")
NO_FORMULA = absent("there is no formula for it in simpler functions")
EVERYWHERE, SPECIAL_ONLY = ("jit", "Tensor", "special"), ("special",)
real_only = Refusal(is_complex, "it is computed of real numbers; take real() or abs() first")
HALF_SQRT_PI, LOG_SQRT_2_PI = math.sqrt(math.pi) / 2, math.log(math.sqrt(2 * math.pi))


def _between(low: float, high: float, integers: bool = True) -> Any:
    return unary(low, high, special=False, integers=integers)


# -- the gamma function ------------------------------------------------------------------------------------------


@real_only
@pointwise("aten::lgamma(Tensor self) -> Tensor", cost=200, promote="float", inplace=True, aliases=("gammaln",),
           namespaces=EVERYWHERE, onnx=NO_ONNX, samples=_between(0.5, 6),
           grad=dict(self=lambda F, g, self: g * F.digamma(self)))  # fmt: skip
def lgamma(m: Math, self: Elements) -> Elements:
    """The logarithm of the absolute value of the gamma function."""
    return m.where(self == -m.inf, m.inf, m.special.gammaln(self))


@real_only
@pointwise("aten::digamma(Tensor self) -> Tensor", cost=200, promote="float", inplace=True, aliases=("psi",),
           namespaces=EVERYWHERE, onnx=NO_ONNX, samples=_between(0.5, 6),
           grad=dict(self=lambda F, g, self: g * F.polygamma(1, self)))  # fmt: skip
def digamma(m: Math, self: Elements) -> Elements:
    """The derivative of lgamma; -inf at 0.0, inf at -0.0, NaN at negative whole numbers."""
    return m.where(self == 0, m.copysign(m.inf, -self), m.special.digamma(self))


@real_only
@pointwise("aten::polygamma(int n, Tensor self) -> Tensor", cost=200, promote="float", namespaces=("jit", "special"),
           onnx=NO_ONNX, grad=dict(self=lambda F, g, n, self: g * F.polygamma(n + 1, self)))  # fmt: skip
def polygamma(m: Math, n: int, self: Elements) -> Elements:
    """The n-th derivative of digamma."""
    if n < 0:
        raise UsageError(f"polygamma: n must not be negative, got {n}")
    if n == 0:
        return m.special.digamma(self)
    # not SciPy's, which mixes two exponentials that overflow where their quotient does not
    factorial = float(math.factorial(n)) if n <= 170 else math.inf
    return (-1) ** (n + 1) * factorial * _hurwitz(m, float(n + 1), self)


def _hurwitz(m: Math, s: Any, q: Any) -> Elements:
    """zeta(s, q), for negative q as well."""
    found = m.special.zeta(s, q)
    return m.where((q <= 0) & (q == m.floor(q)), m.inf, _continued(m, s, q, found))


def _continued(m: Any, s: Any, q: Any, found: Any) -> Any:
    """zeta(s, q) for negative q: terms are added one by one until q is positive, where SciPy computes the rest."""
    negative = (q < 0) & (q > -1e4)
    if not m.any(negative):
        return found
    total, at = m.zeros(m.broadcast_shapes(m.shape(s), m.shape(q))), m.array(m.broadcast_to(q, found.shape), float)
    while m.any(inside := negative & (at < 0)):
        total = m.where(inside, total + m.where(inside, m.abs(at), 1) ** -s * _sign_of(m, at, s), total)
        at = m.where(inside, at + 1, at)
    return m.where(negative, total + m.special.zeta(s, m.where(negative, at, 1)), found)


def _sign_of(m: Math, base: Elements, power: Elements) -> Elements:
    """The sign of `base ** power` for a negative base; nan where power is not whole."""
    odd = m.where(power == m.floor(power), m.remainder(power, 2), m.nan)
    return m.where(base < 0, 1 - 2 * odd, 1)


@polygamma.samples
def _() -> Iterator[Sample]:
    for n in range(4):
        yield sample(n, make(3, 2, low=0.5, high=5))
    yield sample(1, make(low=1, high=3), note="0-d")
    yield sample(2, make(0, 3), note="empty")
    yield sample(1, strided(make(3, 2, low=0.5, high=5)), note="strided")
    yield sample(1, np.array([1, 2, 5]), note="integer", grad=False)
    yield sample(1, np.array([-0.5, -1.25, -3.5], np.float32), note="negative")


@Precision(cuda="given")
@composite("aten::mvlgamma(Tensor self, int p) -> Tensor", namespaces=EVERYWHERE, aliases=("multigammaln",),
           inplace=True, onnx=NO_ONNX)  # fmt: skip
def mvlgamma(F: Ops, self: Tensor, p: int) -> Tensor:
    """The logarithm of the multivariate gamma function of dimension p."""
    if p < 1:
        raise UsageError(f"mvlgamma: p must be at least 1, got {p}")
    steps = F.arange(0, -p, -1, dtype=self.dtype if self.dtype.is_floating_point else None) / 2
    return F.sum(F.lgamma(F.unsqueeze(self, -1) + steps), -1) + p * (p - 1) / 4 * math.log(math.pi)


@mvlgamma.samples
def _() -> Iterator[Sample]:
    yield sample(make(3, 2, low=3, high=6), 1, onnx=False)
    yield sample(make(3, 2, low=3, high=6), 4, onnx=False)


def _gamma_density(F: Ops, a: Tensor, x: Tensor) -> Tensor:
    """The derivative of the lower regularised incomplete gamma function by x."""
    return F.exp((a - 1) * F.log(x) - x - F.lgamma(a))


@real_only
@pointwise("aten::igamma(Tensor self, Tensor other) -> Tensor", cost=200, promote="float", namespaces=EVERYWHERE,
           aliases=("gammainc",), inplace=True, onnx=NO_ONNX,
           grad=dict(self=NO_FORMULA, other=lambda F, g, self, other: g * _gamma_density(F, self, other)))  # fmt: skip
def igamma(m: Math, self: Elements, other: Elements) -> Elements:
    """The regularised lower incomplete gamma function P(self, other)."""
    return m.special.gammainc(self, other)


@real_only
@pointwise("aten::igammac(Tensor self, Tensor other) -> Tensor", cost=200, promote="float", namespaces=EVERYWHERE,
           aliases=("gammaincc",), inplace=True, onnx=NO_ONNX,
           grad=dict(self=NO_FORMULA, other=lambda F, g, self, other: -g * _gamma_density(F, self, other)))  # fmt: skip
def igammac(m: Math, self: Elements, other: Elements) -> Elements:
    """The regularised upper incomplete gamma function Q(self, other)."""
    return m.special.gammaincc(self, other)


def _positive_pairs() -> Iterator[Sample]:
    yield sample(make(3, 2, low=0.5, high=4), make(3, 2, low=0.5, high=4, seed=1), grad=False)
    yield sample(make(3, 1, low=0.5, high=4), make(2, low=0.5, high=4, seed=1), note="broadcast", grad=False)
    yield sample(make(low=1, high=2), make(low=1, high=2, seed=1), note="0-d", grad=False)
    yield sample(make(0), make(0), note="empty", grad=False)


igamma.samples(_positive_pairs)
igammac.samples(_positive_pairs)


@real_only
@pointwise("aten::special_zeta(Tensor self, Tensor other) -> Tensor", promote="float", namespaces=SPECIAL_ONLY,
           cost=200, onnx=NO_ONNX,
           grad=dict(self=NO_FORMULA,
                     other=lambda F, g, self, other: g * -self * F.special_zeta(self + 1, other)))  # fmt: skip
def special_zeta(m: Math, self: Elements, other: Elements) -> Elements:
    """Hurwitz's zeta function: the sum of (k + other) ** -self over k = 0, 1, ..."""
    return m.where(self == 1, m.inf, m.where(self < 1, m.nan, _hurwitz(m, self, other)))


@special_zeta.samples
def _() -> Iterator[Sample]:
    yield sample(make(3, 2, low=1.5, high=4), make(3, 2, low=0.5, high=4, seed=1))
    yield sample(2.0, make(3, low=0.5, high=4), note="number first")
    yield sample(make(0), make(0), note="empty")


# -- error functions and the normal distribution -----------------------------------------------------------------


@Precision(cuda="float32")
@real_only
@pointwise("aten::erfinv(Tensor self) -> Tensor", promote="float", inplace=True, namespaces=EVERYWHERE, onnx=NO_ONNX,
           cost=200,
           samples=unary(-0.9, 0.9), grad=dict(self=lambda F, g, out: g * HALF_SQRT_PI * F.exp(out * out)))  # fmt: skip
def erfinv(m: Math, self: Elements) -> Elements:
    """The inverse of erf at self."""
    return m.special.erfinv(self)


@real_only
@pointwise("aten::special_erfcx(Tensor self) -> Tensor", promote="float", namespaces=SPECIAL_ONLY, onnx=NO_ONNX,
           cost=200, samples=unary(),
           grad=dict(self=lambda F, g, self, out: g * (2 * self * out - 1 / HALF_SQRT_PI)))  # fmt: skip
def special_erfcx(m: Math, self: Elements) -> Elements:
    """exp(self ** 2) * erfc(self)."""
    return m.special.erfcx(self)


@composite("aten::special_ndtr(Tensor self) -> Tensor", namespaces=SPECIAL_ONLY, samples=unary(double=False))
def special_ndtr(F: Ops, self: Tensor) -> Tensor:
    """The distribution function of the standard normal distribution: the probability of a number below self."""
    x = self * math.sqrt(0.5)
    tail = 0.5 * F.erfc(F.abs(x))  # erfc is exact where it is small
    return F.where(F.lt(F.abs(x), 1), 0.5 + 0.5 * F.erf(x), F.where(F.gt(x, 0), 1 - tail, tail))


@real_only
@pointwise("aten::special_log_ndtr(Tensor self) -> Tensor", promote="float", namespaces=SPECIAL_ONLY, onnx=NO_ONNX,
           cost=200, samples=unary(-6, 3),
           grad=dict(self=lambda F, g, self, out:
                          g * F.exp(-self * self / 2 - LOG_SQRT_2_PI - out)))  # fmt: skip
def special_log_ndtr(m: Math, self: Elements) -> Elements:
    """The logarithm of ndtr, accurate where ndtr underflows."""
    return m.special.log_ndtr(self)


@real_only
@pointwise("aten::special_ndtri(Tensor self) -> Tensor", promote="float", namespaces=SPECIAL_ONLY, onnx=NO_ONNX,
           cost=200, samples=unary(0.05, 0.95, integers=False),
           grad=dict(self=lambda F, g, out: g * math.sqrt(2 * math.pi) * F.exp(out * out / 2)))  # fmt: skip
def special_ndtri(m: Math, self: Elements) -> Elements:
    """The inverse of ndtr at self."""
    return m.special.ndtri(self)


# -- entropies and products with logarithms ----------------------------------------------------------------------


@real_only
@pointwise("aten::special_entr(Tensor self) -> Tensor", cost=25, promote="float", namespaces=SPECIAL_ONLY,
           samples=unary(0.1, 3), grad=dict(self=lambda F, g, self: -g * (F.log(self) + 1)))  # fmt: skip
def special_entr(m: Math, self: Elements) -> Elements:
    """-self * log(self); 0 where self is 0, -inf where it is negative."""
    inside = -self * m.log(m.where(self > 0, self, 1))
    return m.where(self > 0, inside, m.where(self == 0, 0, m.where(self < 0, -math.inf, self)))


@special_entr.onnx
def _(g: OnnxWriter, self: Value) -> Value:
    zero, one, low = (g.constant(n, like=self) for n in (0, 1, -math.inf))
    positive = g.op("Greater", self, zero)
    inside = g.op("Neg", g.op("Mul", self, g.op("Log", g.op("Where", positive, self, one))))
    rest = g.op("Where", g.op("Equal", self, zero), zero, g.op("Where", g.op("Less", self, zero), low, self))
    return g.op("Where", positive, inside, rest)


@real_only
@pointwise("aten::special_xlog1py(Tensor self, Tensor other) -> Tensor", promote="float", namespaces=SPECIAL_ONLY,
           cost=35,
           grad=dict(self=lambda F, g, self, other: g * F.where(_nothing(F, self, other), 0, F.log1p(other)),
                     other=lambda F, g, self, other: g * self / (other + 1)))  # fmt: skip
def special_xlog1py(m: Math, self: Elements, other: Elements) -> Elements:
    """self * log(1 + other); 0 where self is 0 and other is not NaN."""
    product = m.where(self == 0, 0, self) * m.log1p(m.where(self == 0, 0, other))
    return m.where(m.isnan(other), other, product)


def _nothing(F: Ops, self: Tensor, other: Tensor) -> Tensor:
    """True where the product is 0 whatever the logarithm is."""
    return F.logical_and(F.eq(self, 0), F.le(other, -1))


@special_xlog1py.onnx
def _(g: OnnxWriter, self: Value, other: Value) -> Value:
    zero, still = g.constant(0, like=self), g.op("Equal", self, g.constant(0, like=self))
    kept = g.op("Where", still, zero, other)
    product = g.op("Mul", self, g.op("Log", g.op("Add", kept, g.constant(1, like=self))))
    return g.op("Where", g.op("IsNaN", other), other, product)


@special_xlog1py.samples
def _() -> Iterator[Sample]:
    yield sample(make(3, 2), make(3, 2, low=-0.5, high=3, seed=1))
    yield sample(make(3, 1), make(2, low=-0.5, high=3, seed=1), note="broadcast")
    yield sample(make(3), 0.5, note="number")
    yield sample(make(0), make(0), note="empty")
    special = np.array([0.0, 0.0, 0.0, 1.0, -1.0], np.float32), np.array([-1.0, np.inf, np.nan, -1.0, -2.0], np.float32)
    yield sample(*special, note="special", grad=False)


@Precision(cuda="given")
@composite("aten::sinc(Tensor self) -> Tensor", inplace=True, namespaces=EVERYWHERE,
           samples=unary(0.1, 3, special=False))  # fmt: skip
def sinc(F: Ops, self: Tensor) -> Tensor:
    """sin(pi * self) / (pi * self); 1 where self is 0."""
    x = self * math.pi
    near = F.lt(F.abs(x), 3e-4)
    square = F.square(F.where(near, x, 0))
    return F.where(near, 1 - square / 6 + square * square / 120, F.sin(x) / F.where(near, 1, x))


# -- Bessel functions --------------------------------------------------------------------------------------------


def _at_zero(F: Ops, x: Tensor, quotient: Any, limit: float) -> Tensor:
    """`quotient(x)`, and its limit where x is 0."""
    zero = F.eq(x, 0)
    return F.where(zero, limit, quotient(F.where(zero, 1, x)))


@real_only
@pointwise("aten::i0(Tensor self) -> Tensor", promote="float", inplace=True, namespaces=EVERYWHERE, onnx=NO_ONNX,
           cost=200, samples=unary(), grad=dict(self=lambda F, g, self: g * F.special_i1(self)))  # fmt: skip
def i0(m: Math, self: Elements) -> Elements:
    """The modified Bessel function of the first kind of order 0."""
    return m.special.i0(self)


@real_only
@pointwise("aten::special_i1(Tensor self) -> Tensor", cost=200, promote="float", namespaces=SPECIAL_ONLY, onnx=NO_ONNX,
           samples=unary(),
           grad=dict(self=lambda F, g, self:
                          g * (F.i0(self) - _at_zero(F, self, lambda x: F.special_i1(x) / x, 0.5))))  # fmt: skip
def special_i1(m: Math, self: Elements) -> Elements:
    """The modified Bessel function of the first kind of order 1."""
    return m.special.i1(self)


@real_only
@pointwise("aten::special_i0e(Tensor self) -> Tensor", cost=200, promote="float", namespaces=SPECIAL_ONLY, onnx=NO_ONNX,
           samples=_between(0.2, 4),
           grad=dict(self=lambda F, g, self, out: g * (F.special_i1e(self) - F.sgn(self) * out)))  # fmt: skip
def special_i0e(m: Math, self: Elements) -> Elements:
    """exp(-|self|) * i0(self)."""
    return m.special.i0e(self)


def _i1e_slope(F: Ops, self: Tensor, out: Tensor) -> Tensor:
    return F.special_i0e(self) - _at_zero(F, self, lambda x: F.special_i1e(x) / x, 0.5) - F.sgn(self) * out


@real_only
@pointwise("aten::special_i1e(Tensor self) -> Tensor", cost=200, promote="float", namespaces=SPECIAL_ONLY, onnx=NO_ONNX,
           samples=_between(0.2, 4),
           grad=dict(self=lambda F, g, self, out: g * _i1e_slope(F, self, out)))  # fmt: skip
def special_i1e(m: Math, self: Elements) -> Elements:
    """exp(-|self|) * i1(self)."""
    return m.special.i1e(self)


@real_only
@pointwise("aten::special_bessel_j0(Tensor self) -> Tensor", promote="float", namespaces=SPECIAL_ONLY, onnx=NO_ONNX,
           cost=200, samples=unary(-6, 6, special=False),
           grad=dict(self=lambda F, g, self: -g * F.special_bessel_j1(self)))  # fmt: skip
def special_bessel_j0(m: Math, self: Elements) -> Elements:
    """The Bessel function of the first kind of order 0."""
    return m.special.j0(self)


def _j1_slope(F: Ops, x: Tensor) -> Tensor:
    return F.special_bessel_j0(x) - _at_zero(F, x, lambda y: F.special_bessel_j1(y) / y, 0.5)


@real_only
@pointwise("aten::special_bessel_j1(Tensor self) -> Tensor", promote="float", namespaces=SPECIAL_ONLY, onnx=NO_ONNX,
           cost=200,
           samples=unary(-6, 6, special=False), grad=dict(self=lambda F, g, self: g * _j1_slope(F, self)))  # fmt: skip
def special_bessel_j1(m: Math, self: Elements) -> Elements:
    """The Bessel function of the first kind of order 1."""
    return m.special.j1(self)


@real_only
@pointwise("aten::special_bessel_y0(Tensor self) -> Tensor", promote="float", namespaces=SPECIAL_ONLY, onnx=NO_ONNX,
           cost=200,
           samples=_between(0.5, 6), grad=dict(self=lambda F, g, self: -g * F.special_bessel_y1(self)))  # fmt: skip
def special_bessel_y0(m: Math, self: Elements) -> Elements:
    """The Bessel function of the second kind of order 0."""
    return m.special.y0(self)


@real_only
@pointwise("aten::special_bessel_y1(Tensor self) -> Tensor", promote="float", namespaces=SPECIAL_ONLY, onnx=NO_ONNX,
           cost=200, samples=_between(0.5, 6),
           grad=dict(self=lambda F, g, self, out: g * (F.special_bessel_y0(self) - out / self)))  # fmt: skip
def special_bessel_y1(m: Math, self: Elements) -> Elements:
    """The Bessel function of the second kind of order 1."""
    return m.special.y1(self)


@composite("aten::special_modified_bessel_i0(Tensor self) -> Tensor", namespaces=SPECIAL_ONLY, onnx=NO_ONNX)
def special_modified_bessel_i0(F: Ops, self: Tensor) -> Tensor:
    """The modified Bessel function of the first kind of order 0: `i0`."""
    return F.i0(self)


@composite("aten::special_modified_bessel_i1(Tensor self) -> Tensor", namespaces=SPECIAL_ONLY, onnx=NO_ONNX)
def special_modified_bessel_i1(F: Ops, self: Tensor) -> Tensor:
    """The modified Bessel function of the first kind of order 1: `i1`."""
    return F.special_i1(self)


@special_modified_bessel_i0.samples
def _() -> Iterator[Sample]:
    yield sample(make(3, 2), onnx=False)


special_modified_bessel_i1.samples(special_modified_bessel_i0.sampler)  # type: ignore[arg-type]


@real_only
@pointwise("aten::special_modified_bessel_k0(Tensor self) -> Tensor", promote="float", namespaces=SPECIAL_ONLY,
           cost=200, onnx=NO_ONNX, samples=_between(0.5, 6),
           grad=dict(self=lambda F, g, self: -g * F.special_modified_bessel_k1(self)))  # fmt: skip
def special_modified_bessel_k0(m: Math, self: Elements) -> Elements:
    """The modified Bessel function of the second kind of order 0."""
    return m.special.k0(self)


@real_only
@pointwise("aten::special_modified_bessel_k1(Tensor self) -> Tensor", promote="float", namespaces=SPECIAL_ONLY,
           cost=200, onnx=NO_ONNX, samples=_between(0.5, 6),
           grad=dict(self=lambda F, g, self, out:
                          -g * (F.special_modified_bessel_k0(self) + out / self)))  # fmt: skip
def special_modified_bessel_k1(m: Math, self: Elements) -> Elements:
    """The modified Bessel function of the second kind of order 1."""
    return m.special.k1(self)


@real_only
@pointwise("aten::special_scaled_modified_bessel_k0(Tensor x) -> Tensor", promote="float", namespaces=SPECIAL_ONLY,
           cost=200, onnx=NO_ONNX, samples=_between(0.5, 6),
           grad=dict(x=lambda F, g, x, out: g * (out - F.special_scaled_modified_bessel_k1(x))))  # fmt: skip
def special_scaled_modified_bessel_k0(m: Math, x: Elements) -> Elements:
    """exp(x) * modified_bessel_k0(x)."""
    return m.special.k0e(x)


@real_only
@pointwise("aten::special_scaled_modified_bessel_k1(Tensor x) -> Tensor", promote="float", namespaces=SPECIAL_ONLY,
           cost=200, onnx=NO_ONNX, samples=_between(0.5, 6),
           grad=dict(x=lambda F, g, x, out:
                       g * (out - F.special_scaled_modified_bessel_k0(x) - out / x)))  # fmt: skip
def special_scaled_modified_bessel_k1(m: Math, x: Elements) -> Elements:
    """exp(x) * modified_bessel_k1(x)."""
    return m.special.k1e(x)


@composite("aten::special_spherical_bessel_j0(Tensor x) -> Tensor", namespaces=SPECIAL_ONLY,
           samples=unary(0.2, 5, special=False))  # fmt: skip
def special_spherical_bessel_j0(F: Ops, x: Tensor) -> Tensor:
    """The spherical Bessel function of order 0, sin(x) / x; 1 at 0."""
    zero = F.eq(x, 0)
    return F.where(zero, 1, F.sin(x) / F.where(zero, 1, x))


@real_only
@pointwise("aten::special_airy_ai(Tensor x) -> Tensor", promote="float", namespaces=SPECIAL_ONLY, onnx=NO_ONNX,
           cost=200, grad=NO_FORMULA, samples=unary(-6, 3, special=False), runs_on_host=True)  # fmt: skip
def special_airy_ai(m: Math, x: Elements) -> Elements:
    """The Airy function Ai."""
    return m.where(x > 1e3, 0.0, m.special.airy(x)[0])  # SciPy does not know how small it is there


# -- orthogonal polynomials --------------------------------------------------------------------------------------
#
# SciPy walks from degree to degree, so an enormous degree would take it for ever. Above a limit, the Chebyshev
# polynomials are the cosines and sines that they are made of, Hermite's are nan, because they have left the range of
# float64 long before, and the others are refused.

CHEBYSHEV_STEPS = 1000
HERMITE_STEPS = 512
STEPS = 100_000


def _polynomial(name: str, what: str, evaluate: Any) -> Op:
    """Declare `special_<name>(x, n)` by `evaluate(m, n, x)`: n is rounded toward zero, and a negative one gives 0."""
    declared = pointwise(
        f"aten::special_{name}(Tensor x, Tensor n) -> Tensor", cost=200, promote="float", namespaces=SPECIAL_ONLY,
        onnx=NO_ONNX, grad=absent("the degree is a value, so there is no one formula"), samples=_degrees,
        runs_on_host=True,
    )  # fmt: skip

    def polynomial(m: Any, x: Elements, n: Elements) -> Elements:
        degree = m.trunc(m.asarray(n, dtype=float))
        found = evaluate(m, m.maximum(degree, 0), m.asarray(x, dtype=float))
        return m.where(m.isnan(degree), m.nan, m.where(degree < 0, 0, found))

    polynomial.__doc__ = f"The {what} of degree n at x."
    return real_only(declared(polynomial))


def _degrees() -> Iterator[Sample]:
    yield sample(make(3, 2, low=-1, high=1), whole(3, 2, low=0, high=6, seed=1))
    yield sample(make(3, 1, low=0, high=1), np.arange(6), note="broadcast")
    yield sample(make(3), 2, note="number")
    yield sample(np.float32(0.5).reshape(()), np.array(-1), note="0-d")
    yield sample(make(0), make(0), note="empty")


def _step_by_step(m: Numpy, name: str, n: Array, x: Array, limit: int) -> Any:
    """SciPy's polynomial of degree n, or of degree 0 where n is above `limit` (or NaN)."""
    return getattr(m.special, f"eval_{name}")(m.where(n <= limit, n, 0).astype(m.int64), x)


def _refused_above(name: str) -> Any:
    def evaluate(m: Numpy, n: Array, x: Array) -> Any:
        if m.any(n > STEPS):
            raise UsageError(
                f"{name}_polynomial: the degree n should be at most {STEPS}, as each degree takes a step, "
                f"got {m.max(n):.6g}"
            )
        return _step_by_step(m, name, n, x, STEPS)

    return evaluate


def _hermite(name: str) -> Any:
    return lambda m, n, x: m.where(n <= HERMITE_STEPS, _step_by_step(m, name, n, x, HERMITE_STEPS), m.nan)


def _chebyshev(near: Any, far: Any) -> Any:
    """One of the four kinds: `near(at)` in SciPy's polynomials, step by step, or `far(waves, n)` above their limit."""

    def evaluate(m: Numpy, n: Array, x: Array) -> Any:
        low = m.where(n <= CHEBYSHEV_STEPS, n, 0)
        found = near(lambda name, lower=0: _step_by_step(m, name, low - lower, x, CHEBYSHEV_STEPS))
        is_far = (n > CHEBYSHEV_STEPS) | m.isnan(found)  # nan: steps have overflowed
        return m.where(is_far, far(_Waves(m, x), n), found) if m.any(is_far) else found

    return evaluate


class _Waves:
    """cos(k t) and sin(k t) where |x| is cos(t); beyond 1, the hyperbolic ones, as t is imaginary there.

    Every kind at -x is itself or its sibling at x, with the sign of odd degrees turned.
    """

    def __init__(self, m: Numpy, x: Array) -> None:
        self.m, self.x, self.size = m, x, m.abs(x)
        self.inner, self.outer = m.arccos(m.minimum(self.size, 1)), m.arccosh(m.maximum(self.size, 1))

    def cos(self, k: Array | float) -> Array:
        return self.m.where(self.size <= 1, self.m.cos(k * self.inner), self.m.cosh(k * self.outer))

    def sin(self, k: Array | float) -> Array:
        return self.m.where(self.size <= 1, self.m.sin(k * self.inner), self.m.sinh(k * self.outer))

    def quotient(self, above: Array, below: Array, at_one: Array | float) -> Array:
        endless = self.m.where(self.m.isinf(self.size), self.m.inf, above / below)
        return self.m.where(self.size == 1, at_one, endless)

    def signed(self, n: Array, found: Array) -> Array:
        return self.m.where((self.x < 0) & (self.m.remainder(n, 2) == 1), -found, found)

    def first(self, n: Array) -> Array:
        return self.signed(n, self.cos(n))

    def second(self, n: Array) -> Array:
        return self.signed(n, self.quotient(self.sin(n + 1), self.sin(1), n + 1))

    def half(self, n: Array, fourth: Array) -> Array:
        """The third kind, or the fourth where `fourth` is true."""
        third = self.quotient(self.cos(n + 0.5), self.cos(0.5), 1)
        return self.signed(n, self.m.where(fourth, self.quotient(self.sin(n + 0.5), self.sin(0.5), 2 * n + 1), third))

    def third(self, n: Array) -> Array:
        return self.half(n, self.x < 0)

    def fourth(self, n: Array) -> Array:
        return self.half(n, self.x >= 0)


def _shifted(evaluate: Any) -> Any:
    """The polynomial at 2 * x - 1, which is orthogonal on [0, 1] rather than on [-1, 1]."""
    return lambda m, n, x: evaluate(m, n, 2 * x - 1)


_CHEBYSHEV = {
    "t": ("first", _chebyshev(lambda at: at("chebyt"), _Waves.first)),
    "u": ("second", _chebyshev(lambda at: at("chebyu"), _Waves.second)),
    "v": ("third", _chebyshev(lambda at: at("chebyu") - at("chebyu", 1), _Waves.third)),
    "w": ("fourth", _chebyshev(lambda at: at("chebyu") + at("chebyu", 1), _Waves.fourth)),
}  # fmt: skip
for _letter, (_kind, _evaluate) in _CHEBYSHEV.items():
    _polynomial(f"chebyshev_polynomial_{_letter}", f"Chebyshev polynomial of the {_kind} kind", _evaluate)
    _polynomial(
        f"shifted_chebyshev_polynomial_{_letter}", f"shifted Chebyshev polynomial of the {_kind} kind",
        _shifted(_evaluate),
    )  # fmt: skip
_polynomial("hermite_polynomial_h", "physicists' Hermite polynomial", _hermite("hermite"))
_polynomial("hermite_polynomial_he", "probabilists' Hermite polynomial", _hermite("hermitenorm"))
_polynomial("laguerre_polynomial_l", "Laguerre polynomial", _refused_above("laguerre"))
_polynomial("legendre_polynomial_p", "Legendre polynomial", _refused_above("legendre"))
