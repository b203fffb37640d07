"""Complex numbers: their parts, their angles, and views of them as pairs.

Note [Gradients of complex numbers]
    The gradient of a real loss L by z = x + iy is dL/dx + i dL/dy, so that z - rate * gradient goes downhill. For a
    holomorphic f, a gradient g of f(z) becomes g * conj(f'(z)), which is conj(conj(g) * f'(z)): the formulas of real
    numbers serve, and autograd conjugates what goes into them and what comes out. Operators that are not holomorphic
    say so and follow the convention themselves. Where real and complex operands meet, the real one gets the real part.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

import numpy as np

from jit.ir import dtypes
from jit.ir.errors import DTypeError, ShapeError
from jit.ir.geometry import Geometry
from jit.ir.op import Refusal, composite, pointwise, view
from jit.ir.precision import Precision
from jit.ir.samples import Sample, make, sample, strided, unary

from .pointwise import onnx_sign

if TYPE_CHECKING:
    from .protocols import Array, Elements, Math, Numpy, OnnxWriter, Ops, Tensor, Value


def complex_samples() -> Iterator[Sample]:
    """Complex tensors, and real ones."""
    yield sample(make(3, 4, dtype="complex64"), grad=False, onnx=False)
    yield sample(make(dtype="complex128"), note="0-d", grad=False, onnx=False)
    yield sample(make(0, 3, dtype="complex64"), note="empty", grad=False, onnx=False)
    yield sample(strided(make(3, 5, dtype="complex64")), note="strided", grad=False, onnx=False)
    yield sample(make(3, 4), note="of reals")


def exported_samples() -> Iterator[Sample]:
    """The samples of what ONNX computes on pairs of real numbers."""
    for each in complex_samples():
        each.onnx = True
        yield each


# -- each number by itself ---------------------------------------------------------------------------------------


@pointwise("aten::_conj_physical(Tensor self) -> Tensor", namespaces=(), holomorphic=False,
           samples=exported_samples, onnx=lambda g, self: _onnx_conj(g, self),
           grad=dict(self=lambda F, g: F.conj(g)))  # fmt: skip
def _conj_physical(m: Math, self: Elements) -> Elements:
    """The complex conjugate of self, as a new tensor."""
    return m.conj(self)


def _onnx_conj(g: OnnxWriter, self: Value) -> Value:
    if not self.dtype.is_complex:
        return g.op("Identity", self)
    pairs = g.pairs(self)
    return g.from_pairs(g.op("Mul", pairs, g.constant([1, -1], like=pairs)))


@composite("aten::conj_physical(Tensor self) -> Tensor", inplace=True, samples=exported_samples, aliases=("conj",))
def conj(F: Ops, self: Tensor) -> Tensor:
    """The complex conjugate of self; self itself if it is real."""
    return F._conj_physical(self) if self.dtype.is_complex else self


@pointwise("aten::sgn(Tensor self) -> Tensor", holomorphic=False, inplace=True, onnx=onnx_sign,
           grad=dict(self=lambda F, g, self: sgn_gradient(F, g, self)))  # fmt: skip
def sgn(m: Math, self: Elements) -> Elements:
    """self / |self|, 0 where self is 0: the sign of real numbers; 0 of NaN."""
    return m.where(self == self, m.sign(self), 0)


def sgn_gradient(F: Ops, g: Tensor, self: Tensor) -> Tensor:
    """The part of g across the direction of z, over |z|: moving along it does not change the direction."""
    if not self.dtype.is_complex:
        return F.zeros_like(g)
    size, direction = F.abs(self), F.sgn(self)
    zero = F.eq(size, 0)
    along = F.real(g * F.conj(direction))
    return F.where(zero, 0, (g - direction * along) / F.where(zero, 1, size))


@sgn.samples
def _() -> Iterator[Sample]:
    yield from complex_samples()
    yield from unary()()
    yield sample(np.array([0j, 3 + 4j], np.complex64), note="zero", grad=False, onnx=False)


@pointwise("aten::angle(Tensor self) -> Tensor", promote="float", result=dtypes.real_of,
           grad=dict(self=lambda F, g, self: angle_gradient(F, g, self)))  # fmt: skip
def angle(m: Math, self: Elements) -> Elements:
    """The angle of self in the complex plane, from -pi to pi: 0 or pi of real numbers."""
    return m.where(self < 0, math.pi, m.where(self >= 0, 0, self))


@angle.numpy
def _(m: Numpy, self: Array) -> Array:
    if self.dtype.kind == "c":
        return m.angle(self)
    return m.where(m.isnan(self), self, m.where(self < 0, math.pi, 0))


def angle_gradient(F: Ops, g: Tensor, self: Tensor) -> Tensor:
    """i * z / |z|**2 * g, which turns the angle; 0 at 0."""
    if not self.dtype.is_complex:
        return F.zeros_like(g)
    square = F.square(F.real(self)) + F.square(F.imag(self))
    zero = F.eq(square, 0)
    return F.where(zero, 0, self * 1j * (g / F.where(zero, 1, square)))


@angle.onnx
def _(g: OnnxWriter, self: Value) -> Value:
    zero, half_turn = (g.constant(number, like=self) for number in (0, math.pi))
    turned = g.op("Where", g.op("Less", self, zero), half_turn, zero)
    return g.op("Where", g.op("IsNaN", self), self, turned)


@angle.samples
def _() -> Iterator[Sample]:
    yield from complex_samples()
    yield sample(np.array([np.inf, -np.inf, -2.0, np.nan], "float32"), note="kinks", grad=False)
    yield sample(np.array([1.0, -1.0, 0.0, np.nan], np.float32), note="reals", grad=False)
    yield sample(make(4, low=-3, high=3, dtype="int64"), note="integer", grad=False)


def _is_no_part(dtype: dtypes.DType) -> bool:
    return dtype not in (dtypes.float32, dtypes.float64)


floats_with_complex = Refusal(_is_no_part, "the parts of complex numbers are float32 or float64; cast first", each=True)


@floats_with_complex
@pointwise("aten::complex(Tensor real, Tensor imag) -> Tensor", result=dtypes.complex_of, holomorphic=False,
           namespaces=("jit",), onnx=lambda g, real, imag: _onnx_joined(g, real, imag),
           grad=dict(real=lambda F, g: F.real(g), imag=lambda F, g: F.imag(g)))  # fmt: skip
def make_complex(m: Math, real: Elements, imag: Elements) -> Elements:
    """real + i * imag."""
    return real + 1j * imag


@make_complex.numpy
def _(m: Numpy, real: Array, imag: Array) -> Array:
    out = m.empty(m.broadcast_shapes(real.shape, imag.shape), dtypes.complex_of(dtypes.from_numpy(real.dtype)).numpy)
    out.real, out.imag = real, imag
    return out


@Precision(cpu="float32")
@floats_with_complex
@pointwise("aten::polar(Tensor abs, Tensor angle) -> Tensor", cost=50, result=dtypes.complex_of, holomorphic=False,
           namespaces=("jit",),
           onnx=lambda g, abs, angle: _onnx_joined(
               g, g.op("Mul", abs, g.op("Cos", angle)), g.op("Mul", abs, g.op("Sin", angle))),
           grad=dict(abs=lambda F, g, angle: F.real(g * F.conj(F.polar(F.ones_like(angle), angle))),
                     angle=lambda F, g, out: F.real(g * F.conj(out * 1j))))  # fmt: skip
def polar(m: Math, abs: Elements, angle: Elements) -> Elements:
    """abs * (cos(angle) + i * sin(angle))."""
    return abs * (m.cos(angle) + 1j * m.sin(angle))


def _onnx_joined(g: OnnxWriter, *parts: Any) -> Value:
    sizes = g.ints(list(g.out.shape))
    wide = [g.op("Unsqueeze", g.op("Expand", part, sizes), g.ints([-1])) for part in parts]
    return g.from_pairs(g.op("Concat", *wide, axis=-1))


def _pairs() -> Iterator[Sample]:
    yield sample(make(3, 4), make(3, 4, seed=1), grad=False)
    yield sample(make(3, 1), make(4, seed=1), note="broadcast", grad=False)
    yield sample(make(dtype="float64"), make(dtype="float64", seed=1), note="0-d", grad=False, onnx=False)
    yield sample(make(0, 2), make(2), note="empty", grad=False)


make_complex.samples(_pairs)
polar.samples(_pairs)


# -- the parts ---------------------------------------------------------------------------------------------------


def parts_of(dtype: dtypes.DType) -> dtypes.DType:
    """The dtype of the real and the imaginary part of a complex dtype; DTypeError for real ones."""
    if not dtype.is_complex:
        raise DTypeError(f"view_as_real: expects a complex tensor, got {dtype.name}")
    return dtypes.real_of(dtype)


@view("aten::view_as_real(Tensor(a) self) -> Tensor(a)", result=parts_of, onnx=lambda g, self: g.pairs(self),
      grad=dict(self=lambda F, g: F.view_as_complex(F.contiguous(g))),
      scatter=lambda F, base, source: F.view_as_complex(F.contiguous(source)))  # fmt: skip
def view_as_real(geometry: Geometry) -> Geometry:
    """The same memory as real numbers, [..., 2]: the real and the imaginary part in a last dim."""
    return Geometry((*geometry.sizes, 2), (*(2 * s for s in geometry.strides), 1), 2 * geometry.offset)


@Precision(cpu="float32")
@view("aten::view_as_complex(Tensor(a) self) -> Tensor(a)", result=dtypes.complex_of, holomorphic=False,
      onnx=lambda g, self: g.from_pairs(self),
      grad=dict(self=lambda F, g: F.view_as_real(g)),
      scatter=lambda F, base, source: F.view_as_real(source))  # fmt: skip
def view_as_complex(geometry: Geometry) -> Geometry:
    """The same memory, [..., 2], as complex numbers: the last dim holds the real and the imaginary part."""
    if not geometry.sizes or geometry.sizes[-1] != 2:
        raise ShapeError(f"view_as_complex: the last dim should have size 2, got the sizes {list(geometry.sizes)}")
    *strides, last = geometry.strides
    if geometry.numel and (last != 1 or any(s % 2 for s in strides) or geometry.offset % 2):
        raise ShapeError(
            "view_as_complex: both parts of a number should lie side by side in memory; call contiguous() first"
        )
    return Geometry(geometry.sizes[:-1], tuple(s // 2 for s in strides), geometry.offset // 2)


@view_as_real.samples
def _() -> Iterator[Sample]:
    yield from (each for each in exported_samples() if each.note != "of reals")


@view_as_complex.samples
def _() -> Iterator[Sample]:
    yield sample(make(3, 2), grad=False)
    yield sample(make(2, dtype="float64"), note="to 0-d", grad=False)
    yield sample(make(0, 3, 2), note="empty", grad=False)
    yield sample(make(3, 4, 2)[:, 1:3], note="strided", grad=False)


@composite("aten::real(Tensor(a) self) -> Tensor(a)", namespaces=("jit",), samples=exported_samples)
def real(F: Ops, self: Tensor) -> Tensor:
    """The real part of self, as a view; self itself if it is real."""
    return F.select(F.view_as_real(self), -1, 0) if self.dtype.is_complex else self


@composite("aten::imag(Tensor(a) self) -> Tensor(a)", namespaces=("jit",), samples=view_as_real.sampler)
def imag(F: Ops, self: Tensor) -> Tensor:
    """The imaginary part of self, as a view; real tensors have none."""
    return F.select(F.view_as_real(self), -1, 1)
