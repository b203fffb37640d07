"""Random numbers whose distribution tensors of parameters give: the numbers at which its cumulative function has a
uniform value. So each costs one uniform number, and varies smoothly with parameters that do."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import TYPE_CHECKING, TypeVar

import ml_dtypes

from jit.ir import dtypes
from jit.ir.errors import DTypeError, UsageError
from jit.ir.geometry import broadcast_shapes
from jit.ir.op import absent, array, composite, random
from jit.ir.samples import Sample, make, sample, strided
from jit.ir.types import TensorType

if TYPE_CHECKING:
    from jit.ir.random_state import RandomState

    from .protocols import Array, Generator, Ints, KnownType, Numpy, Ops, Tensor

T = TypeVar("T", "Array", "Tensor")
_NO_ONNX = absent("ONNX does not draw from this distribution")
_STEP = 2e-2
"""The relative step of the differences by which a gamma variate is differentiated."""


def _same(self: KnownType, *_: object) -> TensorType:
    return TensorType(self.dtype, self.shape, None, self.device)


def _uniform(m: Numpy, state: RandomState, shape: Ints) -> tuple[Array, int]:
    size = 1
    for each in shape:
        size *= each
    return m.philox.uniform(state, tuple(shape), m.float64), m.philox.blocks_used("uniform", size, m.float64)


def _require(m: Numpy, name: str, fits: Array, what: str) -> None:
    if not bool(m.all(fits)):
        raise UsageError(f"{name}: {what}")


def _wide(m: Numpy, name: str, array: Array) -> Array:
    if not dtypes.from_numpy(array.dtype).is_floating_point:
        raise DTypeError(f"{name} takes floating numbers, not {array.dtype}; cast with x.float() first")
    return array.astype(m.float64)


# -- gamma -------------------------------------------------------------------------------------------------------


@random("aten::_standard_gamma(Tensor self, *, Generator? generator=None) -> Tensor", namespaces=("jit",), type=_same,
        raises=True, onnx=_NO_ONNX,
        grad=dict(self=lambda F, g, self, out: g * F._standard_gamma_grad(self, out)))  # fmt: skip
def _standard_gamma(m: Numpy, state: RandomState, self: Array) -> tuple[Array, int]:
    """Numbers drawn from gamma distributions of these shapes and rate 1."""
    shape = _wide(m, "_standard_gamma", self)
    _require(m, "_standard_gamma", shape > 0, "shapes must be positive")
    uniform, blocks = _uniform(m, state, self.shape)
    drawn = m.special.gammaincinv(shape, uniform)
    least = float(ml_dtypes.finfo(self.dtype).tiny)  # type: ignore[no-untyped-call]
    return m.maximum(drawn, least).astype(self.dtype), blocks


@array("aten::_standard_gamma_grad(Tensor self, Tensor output) -> Tensor", namespaces=("jit",), onnx=_NO_ONNX,
       grad=dict(self=lambda F, g, self, output: g * _slope_by_shape(F, self, output),
                 output=lambda F, g, self, output, out: g * _slope_by_variate(F, self, output, out)))  # fmt: skip
def _standard_gamma_grad(m: Numpy, self: Array, output: Array) -> Array:
    """The derivative of a gamma variate, by its shape: of the number where the cumulative function keeps its value.

    Of the logarithm, as small shapes have tiny variates: by central differences, extrapolated from three steps. Where
    the variate is tiny, the first term of the series of the cumulative function is all of it.
    """
    a, x = self.astype(m.float64), output.astype(m.float64)
    small = x < 1e-9 * (1 + a)
    inner = m.where(small, a, x)
    below, above = m.special.gammainc(a, inner), m.special.gammaincc(a, inner)

    def log_at(shape: Array) -> Array:
        lower = m.special.gammaincinv(shape, m.where(below < 0.5, below, 0.25))
        upper = m.special.gammainccinv(shape, m.where(below < 0.5, 0.25, above))
        return m.log(m.where(below < 0.5, lower, upper))

    def slope(step: float) -> Array:
        return (log_at(a * (1 + step)) - log_at(a * (1 - step))) / (2 * step * a)

    found = _extrapolated([slope(_STEP), slope(_STEP / 2), slope(_STEP / 4)])
    tiny = (m.special.digamma(a + 1) - m.log(m.where(small, x, 1))) / a
    return (x * m.where(small, tiny, found)).astype(self.dtype)


@_standard_gamma_grad.type
def _(self: KnownType, output: KnownType) -> TensorType:
    return TensorType(self.dtype, broadcast_shapes(self.shape, output.shape), None, self.device)


def _extrapolated(slopes: Sequence[T]) -> T:
    """The limit of central differences, from those of three steps, each half of the one before."""
    first, second, third = slopes
    once, twice = (4 * second - first) / 3, (4 * third - second) / 3
    return (16 * twice - once) / 15


def _slope_by_variate(F: Ops, shape: Tensor, variate: Tensor, slope: Tensor) -> Tensor:
    """The derivative of `_standard_gamma_grad` by the variate."""
    return F.digamma(shape) - F.log(variate) - slope * ((shape - 1) / variate - 1)


def _slope_by_shape(F: Ops, shape: Tensor, variate: Tensor) -> Tensor:
    """The derivative by the shape, which has no formula: by differences, as the first derivative."""
    a, x = F._to_copy(shape, dtype=dtypes.float64), F._to_copy(variate, dtype=dtypes.float64)

    def slope(step: float) -> Tensor:
        high, low = F._standard_gamma_grad(a * (1 + step), x), F._standard_gamma_grad(a * (1 - step), x)
        return (high - low) / (2 * step * a)

    return F._to_copy(_extrapolated([slope(_STEP), slope(_STEP / 2), slope(_STEP / 4)]), dtype=shape.dtype)


@composite("aten::_sample_dirichlet(Tensor self, *, Generator? generator=None) -> Tensor", namespaces=("jit",))
def _sample_dirichlet(F: Ops, self: Tensor, generator: Generator | None) -> Tensor:
    """Numbers drawn from Dirichlet distributions of these concentrations, which lie along the last dim."""
    shares = F._standard_gamma(self, generator=generator)
    return F._to_copy(shares / F.sum(shares, -1, True), dtype=self.dtype)  # autocast may sum in another


@_standard_gamma.samples
def _() -> Iterator[Sample]:
    yield sample(make(2, 3, low=0.3, high=4))
    yield sample(make(0, 3), note="empty")
    yield sample(strided(make(2, 3, low=0.5, high=4)), note="strided")
    yield sample(make(3, low=20, high=90), note="large")


@_standard_gamma_grad.samples
def _() -> Iterator[Sample]:
    yield sample(make(2, 3, low=0.3, high=4), make(2, 3, low=0.3, high=4, seed=1))
    yield sample(make(0), make(0), note="empty")
    yield sample(make(low=0.3, high=4), make(low=0.3, high=4, seed=1), note="0-d")


@_sample_dirichlet.samples
def _() -> Iterator[Sample]:
    yield sample(make(2, 3, low=0.3, high=4), onnx=False)


# -- counts ------------------------------------------------------------------------------------------------------


def _least_count(m: Numpy, near: Array, reaches: Callable[[Array], Array]) -> Array:
    """The least whole number at which a cumulative function reaches a value, which lies near `near`."""
    count = m.maximum(m.ceil(m.where(m.isnan(near), 0, near)), 0)
    count = m.where(reaches(count), count, count + 1)
    return m.where((count > 0) & reaches(count - 1), count - 1, count)


@random("aten::poisson(Tensor self, Generator? generator=None) -> Tensor", namespaces=("jit",), type=_same,
        raises=True, runs_on_host=True, onnx=_NO_ONNX, grad=dict(self=lambda F, g: F.zeros_like(g)))  # fmt: skip
def poisson(m: Numpy, state: RandomState, self: Array) -> tuple[Array, int]:
    """Numbers drawn from Poisson distributions of these rates, in self's dtype."""
    rate = _wide(m, "poisson", self)
    _require(m, "poisson", rate >= 0, "rates must not be negative")
    uniform, blocks = _uniform(m, state, self.shape)
    positive = m.maximum(rate, 1e-300)
    start = m.special.pdtrik(uniform, positive)
    found = _least_count(m, start, lambda count: m.special.pdtr(count, positive) >= uniform)
    return m.where(rate > 0, found, 0).astype(self.dtype), blocks


@random("aten::binomial(Tensor count, Tensor prob, Generator? generator=None) -> Tensor", namespaces=("jit",),
        raises=True, runs_on_host=True, onnx=_NO_ONNX,
        grad=dict(count=lambda F, g, count_meta: F.zeros(count_meta.shape, dtype=count_meta.dtype),
                  prob=lambda F, g, prob_meta: F.zeros(prob_meta.shape, dtype=prob_meta.dtype)))  # fmt: skip
def binomial(m: Numpy, state: RandomState, count: Array, prob: Array) -> tuple[Array, int]:
    """Numbers of successes in `count` trials, each of success with probability `prob`; both broadcast."""
    shape = m.broadcast_shapes(count.shape, prob.shape)
    trials, p = (m.broadcast_to(_wide(m, "binomial", given), shape) for given in (count, prob))
    _require(m, "binomial", (trials >= 0) & (trials == m.floor(trials)), "counts must be whole and not negative")
    _require(m, "binomial", (p >= 0) & (p <= 1), "probabilities must lie between 0 and 1")
    uniform, blocks = _uniform(m, state, trials.shape)
    inner, most = (p > 0) & (p < 1) & (trials > 0), m.maximum(trials, 1)
    q = m.where(inner, p, 0.5)
    found = _least_count(m, m.special.bdtrik(uniform, most, q), lambda k: _reaches(m, k, most, q) >= uniform)
    whole = m.where(p >= 1, trials, 0)
    return m.where(inner, m.minimum(found, most), whole).astype(count.dtype), blocks


def _reaches(m: Numpy, count: Array, trials: Array, p: Array) -> Array:
    """The probability of at most so many successes."""
    inside = m.minimum(count, trials - 1)
    return m.where(count >= trials, 1.0, m.special.betainc(trials - inside, inside + 1, 1 - p))


@binomial.type
def _(count: KnownType, prob: KnownType, generator: Generator | None) -> TensorType:
    return TensorType(count.dtype, broadcast_shapes(count.shape, prob.shape), None, count.device)


@poisson.samples
def _() -> Iterator[Sample]:
    yield sample(make(2, 3, low=0.3, high=9))
    yield sample(make(0, 3), note="empty")
    yield sample(strided(make(2, 3, low=0, high=2)), note="strided")


@binomial.samples
def _() -> Iterator[Sample]:
    yield sample(make(2, 3, low=0, high=9).round(), make(3, low=0, high=1, seed=1), grad=False)
    yield sample(make(0, 3), make(3, low=0, high=1), note="empty", grad=False)
