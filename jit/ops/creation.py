"""Tensors made from sizes and numbers."""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

import numpy as np

from jit.ir import dtypes
from jit.ir.dtypes import DType
from jit.ir.errors import CompileError, DTypeError, ShapeError
from jit.ir.fitting import fitted
from jit.ir.kernel import Kernel
from jit.ir.memory_formats import filled_like, laid_out_type
from jit.ir.op import absent, array, composite
from jit.ir.samples import Sample, make, sample
from jit.ir.sizes import SizeExpr
from jit.ir.types import TensorType

from .common import onnx_number, onnx_shape

if TYPE_CHECKING:
    from .protocols import Array, Ints, KnownType, Number, Numpy, OnnxWriter, Ops, Tensor, Term, Terms, Value

LIKE = "*, ScalarType? dtype=None, Device? device=None, MemoryFormat? memory_format=None) -> Tensor"
NEW = "*, ScalarType? dtype=None, Device? device=None) -> Tensor"
"""The end that all these schemas share."""

NOTHING = absent("creates a tensor from nothing")
FLAT = absent("the result does not depend on the input's values")


def dtype_of_numbers(*numbers: Any) -> DType:
    """The dtype of a tensor of these Python numbers: bool, int64, the default float or complex dtype."""
    return dtypes.result_type([(None, 0, number) for number in numbers])


def checked_sizes(size: Ints) -> tuple[int, ...]:
    """`size` as a tuple; ShapeError if one of them is negative."""
    sizes = tuple(size)
    if any(s < 0 for s in sizes):
        raise ShapeError(f"a tensor cannot have a negative size, got {list(sizes)}")
    return sizes


def filled(m: Numpy, size: Ints, value: Number, dtype: DType) -> Any:
    """An array of these sizes that holds one value, which integers of `dtype` must be able to hold."""
    return m.full(checked_sizes(size), m.asarray(fitted(value, dtype.numpy)).astype(dtype.numpy), dtype.numpy)


def onnx_filled(g: OnnxWriter, size: Ints, value: Number) -> Value:
    """A tensor of one value; sizes may be traced."""
    return g.op("Expand", onnx_number(g, value, g.out.dtype), onnx_shape(g, size))


def onnx_filled_like(g: OnnxWriter, self: Value, value: Number) -> Value:
    """A tensor of one value with the sizes of `self`, whatever they are when the model runs."""
    return g.op("Expand", onnx_number(g, value, g.out.dtype), g.op("Shape", self))


def new_type(size: Ints, dtype: DType | None, device: str | None) -> TensorType:
    """The type of a tensor of these sizes, of the default dtype unless another is given."""
    return TensorType(dtype or dtypes.DEFAULT, checked_sizes(size), None, device or "cpu")


def _like_type(self: KnownType, dtype: DType | None, device: str | None, memory_format: str | None) -> TensorType:
    return laid_out_type(self, memory_format, dtype or self.dtype, device or self.device)


def _size_samples() -> Iterator[Sample]:
    yield sample([2, 3])
    yield sample([], note="0-d")
    yield sample([0, 3], note="empty")
    yield sample([4], dtype=dtypes.int64, note="integer")
    yield sample([4], dtype=dtypes.float16, note="half")
    yield sample([4], dtype=dtypes.bool_, note="bool")


def _like_samples() -> Iterator[Sample]:
    yield sample(make(2, 3))
    yield sample(make(), note="0-d")
    yield sample(make(0, 3), note="empty")
    yield sample(make(3, dtype="int64"), note="integer")
    yield sample(make(3, dtype="float16"), note="half")
    yield sample(make(3, dtype="bool"), note="bool")
    yield sample(make(3), dtype=dtypes.int32, note="another dtype")
    yield sample(make(2, 3, 2, 2), memory_format="channels_last", note="channels last")


# -- one value ---------------------------------------------------------------------------------------------------


@array(f"aten::zeros(int[] size, {NEW}", kernel=Kernel("positions", step="fill", fills=lambda: 0, moves=True),
       namespaces=("jit",), type=new_type, samples=_size_samples, grad=NOTHING,
       onnx=lambda g, size, dtype, device: onnx_filled(g, size, 0))  # fmt: skip
def zeros(m: Numpy, size: Ints, dtype: DType | None, device: str | None) -> Array:
    """Zeros in these sizes."""
    return m.zeros(checked_sizes(size), (dtype or dtypes.DEFAULT).numpy)


@array(f"aten::ones(int[] size, {NEW}", kernel=Kernel("positions", step="fill", fills=lambda: 1, moves=True),
       namespaces=("jit",), type=new_type, samples=_size_samples, grad=NOTHING,
       onnx=lambda g, size, dtype, device: onnx_filled(g, size, 1))  # fmt: skip
def ones(m: Numpy, size: Ints, dtype: DType | None, device: str | None) -> Array:
    """Ones in these sizes."""
    return m.ones(checked_sizes(size), (dtype or dtypes.DEFAULT).numpy)


@array(f"aten::empty(int[] size, {NEW}", kernel=Kernel("positions", step="fill", fills=lambda: 0, moves=True),
       namespaces=("jit",), type=new_type, samples=_size_samples, grad=NOTHING,
       onnx=lambda g, size, dtype, device: onnx_filled(g, size, 0))  # fmt: skip
def empty(m: Numpy, size: Ints, dtype: DType | None, device: str | None) -> Array:
    """A tensor of these sizes for elements that are written later; until then they are zeros here."""
    return m.zeros(checked_sizes(size), (dtype or dtypes.DEFAULT).numpy)  # zeros, so that every run is the same


@array(f"aten::full(int[] size, Scalar fill_value, {NEW}",
       kernel=Kernel("positions", step="fill", fills=lambda fill_value: fill_value, moves=True),
       namespaces=("jit",), grad=NOTHING,
       onnx=lambda g, size, fill_value, dtype, device: onnx_filled(g, size, fill_value))  # fmt: skip
def full(m: Numpy, size: Ints, fill_value: Number, dtype: DType | None, device: str | None) -> Array:
    """A tensor of these sizes that holds fill_value, whose dtype follows that of the value."""
    return filled(m, size, fill_value, dtype or dtype_of_numbers(fill_value))


@full.terms
def _(t: Terms, fill_value: Number) -> Term:
    return _number_everywhere(t, fill_value)


@zeros.terms
@empty.terms
def _(t: Terms) -> Term:
    return _number_everywhere(t, 0)


@ones.terms
def _(t: Terms) -> Term:
    return _number_everywhere(t, 1)


def _number_everywhere(t: Terms, number: Number) -> Term:
    """The number as the result's dtype holds it; of a size only the run knows whether it fits."""
    assert t.dtype is not None
    if type(number) is not SizeExpr:
        return t.number(np.asarray(number).astype(t.dtype.numpy).item(), t.dtype)
    if t.dtype.is_integral and t.dtype not in (dtypes.int64, dtypes.bool_):
        raise CompileError(f"kernels do not look whether {number} fits into {t.dtype.name}")
    return t.number(number, t.dtype)


@full.type
def _(size: Ints, fill_value: Number, dtype: DType | None, device: str | None) -> TensorType:
    return TensorType(dtype or dtype_of_numbers(fill_value), checked_sizes(size), None, device or "cpu")


@full.samples
def _() -> Iterator[Sample]:
    yield sample([2, 3], 1.5)
    yield sample([2], 3, note="integer")
    yield sample([2], True, note="bool")
    yield sample([], -1.5, note="0-d")
    yield sample([0, 2], 1.5, note="empty")
    yield sample([2], 1.7, dtype=dtypes.int32, note="toward zero")
    yield sample([2], float("inf"), dtype=dtypes.float16, note="half")


@array(f"aten::zeros_like(Tensor self, {LIKE}", kernel=Kernel(step="fill", fills=lambda: 0, moves=True),
       namespaces=("jit",), type=_like_type, samples=_like_samples, grad=FLAT, lays_out=True, sizes_alone=True,
       onnx=lambda g, self, dtype, device, memory_format: onnx_filled_like(g, self, 0))  # fmt: skip
def zeros_like(m: Numpy, self: Array, dtype: DType | None, device: str | None, memory_format: str | None) -> Array:
    """Zeros in self's sizes and dtype."""
    return filled_like(m, self, memory_format, 0, dtype.numpy if dtype else self.dtype)


@array(f"aten::ones_like(Tensor self, {LIKE}", kernel=Kernel(step="fill", fills=lambda: 1, moves=True),
       namespaces=("jit",), type=_like_type, samples=_like_samples, grad=FLAT, lays_out=True, sizes_alone=True,
       onnx=lambda g, self, dtype, device, memory_format: onnx_filled_like(g, self, 1))  # fmt: skip
def ones_like(m: Numpy, self: Array, dtype: DType | None, device: str | None, memory_format: str | None) -> Array:
    """Ones in self's sizes and dtype."""
    return filled_like(m, self, memory_format, 1, dtype.numpy if dtype else self.dtype)


@array(f"aten::empty_like(Tensor self, {LIKE}", kernel=Kernel(step="fill", fills=lambda: 0, moves=True),
       namespaces=("jit",), type=_like_type, samples=_like_samples, grad=FLAT, lays_out=True, sizes_alone=True,
       onnx=lambda g, self, dtype, device, memory_format: onnx_filled_like(g, self, 0))  # fmt: skip
def empty_like(m: Numpy, self: Array, dtype: DType | None, device: str | None, memory_format: str | None) -> Array:
    """`empty` in self's sizes and dtype."""
    return filled_like(m, self, memory_format, 0, dtype.numpy if dtype else self.dtype)


@array(f"aten::full_like(Tensor self, Scalar fill_value, {LIKE}",
       kernel=Kernel(step="fill", fills=lambda fill_value: fill_value, moves=True),
       namespaces=("jit",), grad=FLAT, lays_out=True, sizes_alone=True,
       onnx=lambda g, self, fill_value, dtype, device, memory_format:
            onnx_filled_like(g, self, fill_value))  # fmt: skip
def full_like(
    m: Numpy, self: Array, fill_value: Number, dtype: DType | None, device: str | None, memory_format: str | None
) -> Array:
    """A tensor of self's sizes and dtype that holds fill_value."""
    chosen = dtype.numpy if dtype else self.dtype
    return filled_like(m, self, memory_format, m.asarray(fitted(fill_value, chosen)).astype(chosen), chosen)


@full_like.type
def _(
    self: KnownType, fill_value: Number, dtype: DType | None, device: str | None, memory_format: str | None
) -> TensorType:
    return _like_type(self, dtype, device, memory_format)


@full_like.samples
def _() -> Iterator[Sample]:
    yield sample(make(2, 3), 1.5)
    yield sample(make(), 2, note="0-d")
    yield sample(make(0, 3), 1.5, note="empty")
    yield sample(make(3, dtype="int64"), 1.5, note="toward zero")
    yield sample(make(3, dtype="float16"), 0.1, note="half")
    yield sample(make(3), True, dtype=dtypes.bool_, note="bool")


@array(f"aten::scalar_tensor(Scalar s, {NEW}", kernel=Kernel("positions", step="fill", fills=lambda s: s, moves=True),
       namespaces=("jit",), grad=NOTHING, onnx=lambda g, s, dtype, device: onnx_number(g, s, g.out.dtype))  # fmt: skip
def scalar_tensor(m: Numpy, s: Number, dtype: DType | None, device: str | None) -> Array:
    """A 0-d tensor of the number `s`, in the default float dtype unless another is given."""
    chosen = (dtype or dtypes.DEFAULT).numpy
    return m.asarray(fitted(s, chosen)).astype(chosen)


@scalar_tensor.terms
def _(t: Terms, s: Number) -> Term:
    return _number_everywhere(t, s)


@scalar_tensor.type
def _(s: Number, dtype: DType | None, device: str | None) -> TensorType:
    return TensorType(dtype or dtypes.DEFAULT, (), None, device or "cpu")


@scalar_tensor.samples
def _() -> Iterator[Sample]:
    yield sample(1.5)
    yield sample(3, note="a float by default")
    yield sample(3, dtype=dtypes.int64, note="integer")
    yield sample(True, dtype=dtypes.bool_, note="bool")


# -- windows -----------------------------------------------------------------------------------------------------


def require_floating_window(dtype: DType | None) -> None:
    """Refuse a window of whole or complex numbers."""
    if dtype is not None and not dtype.is_floating_point:
        raise DTypeError(f"a window has floating point elements, not {dtype.name}; cast it afterwards")


def raised_cosine(
    F: Ops, length: int, periodic: bool, alpha: float, beta: float, dtype: DType | None, device: str | None
) -> Tensor:
    """The window alpha - beta * cos(2 pi k / N): N is `length`, or one less if not periodic."""
    require_floating_window(dtype)
    period = length if periodic else length - 1
    if length <= 1:
        return F.ones((length,), dtype=dtype, device=device)
    turns = F.arange(0, length, 1, dtype=dtype or dtypes.DEFAULT, device=device) * (2 * math.pi / period)
    return alpha - beta * F.cos(turns)


@composite(f"aten::hann_window(int window_length, bool periodic=True, {NEW}", namespaces=("jit",))
def hann_window(F: Ops, window_length: int, periodic: bool, dtype: DType | None, device: str | None) -> Tensor:
    """Hann's window, 0.5 - 0.5 * cos(2 pi k / N): N is the length, or one less if not periodic."""
    return raised_cosine(F, window_length, periodic, 0.5, 0.5, dtype, device)


@composite(f"aten::hamming_window(int window_length, bool periodic=True, float alpha=0.54, float beta=0.46, {NEW}",
           namespaces=("jit",))  # fmt: skip
def hamming_window(
    F: Ops, window_length: int, periodic: bool, alpha: float, beta: float, dtype: DType | None, device: str | None
) -> Tensor:
    """Hamming's window, alpha - beta * cos(2 pi k / N): N is the length, or one less if not periodic."""
    return raised_cosine(F, window_length, periodic, alpha, beta, dtype, device)


@hann_window.samples
@hamming_window.samples
def _() -> Iterator[Sample]:
    yield sample(5)
    yield sample(5, False)
    yield sample(1, note="one")
    yield sample(0, note="empty")
    yield sample(4, dtype=dtypes.float64)


# -- made like another tensor ------------------------------------------------------------------------------------


def _new_samples() -> Iterator[Sample]:
    yield sample(make(2), [2, 3], grad=False)
    yield sample(make(2, dtype="int64"), [4], note="integer", grad=False)
    yield sample(make(2), [], dtype=dtypes.float64, note="0-d", grad=False)


@composite(f"aten::new_zeros(Tensor self, int[] size, {NEW}",
           namespaces=("Tensor",), samples=_new_samples)  # fmt: skip
def new_zeros(F: Ops, self: Tensor, size: Ints, dtype: DType | None, device: str | None) -> Tensor:
    """Zeros in these sizes, with self's dtype and device."""
    return F.zeros(size, dtype=dtype or self.dtype, device=device or self.device)


@composite(f"aten::new_ones(Tensor self, int[] size, {NEW}",
           namespaces=("Tensor",), samples=_new_samples)  # fmt: skip
def new_ones(F: Ops, self: Tensor, size: Ints, dtype: DType | None, device: str | None) -> Tensor:
    """Ones in these sizes, with self's dtype and device."""
    return F.ones(size, dtype=dtype or self.dtype, device=device or self.device)


@composite(f"aten::new_empty(Tensor self, int[] size, {NEW}",
           namespaces=("Tensor",), samples=_new_samples)  # fmt: skip
def new_empty(F: Ops, self: Tensor, size: Ints, dtype: DType | None, device: str | None) -> Tensor:
    """`empty` in these sizes, with self's dtype and device."""
    return F.empty(size, dtype=dtype or self.dtype, device=device or self.device)


@composite(f"aten::new_full(Tensor self, int[] size, Scalar fill_value, {NEW}",
           namespaces=("Tensor",))  # fmt: skip
def new_full(F: Ops, self: Tensor, size: Ints, fill_value: Number, dtype: DType | None, device: str | None) -> Tensor:
    """A tensor of these sizes that holds fill_value, with self's dtype and device."""
    return F.full(size, fill_value, dtype=dtype or self.dtype, device=device or self.device)


@new_full.samples
def _() -> Iterator[Sample]:
    yield sample(make(2), [2, 3], 1.5, grad=False)
    yield sample(make(2, dtype="int64"), [4], 2.5, note="toward zero", grad=False)
