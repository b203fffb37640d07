"""Tensors made from sizes and numbers."""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

import numpy as np

from jit.ir import dtypes
from jit.ir.dtypes import DType
from jit.ir.errors import DTypeError, ShapeError, UsageError
from jit.ir.fitting import fitted
from jit.ir.kernel import Kernel
from jit.ir.memory_formats import filled_like, laid_out_type
from jit.ir.op import absent, array, composite
from jit.ir.samples import Sample, make, sample
from jit.ir.types import TensorType

from .common import onnx_number, onnx_shape

if TYPE_CHECKING:
    from .protocols import Array, Ints, KnownType, Number, Numpy, OnnxWriter, Ops, Tensor, Value

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


def _new_type(size: Ints, dtype: DType | None, device: str | None) -> TensorType:
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


@array(f"aten::zeros(int[] size, {NEW}", kernel=Kernel(step="fill", fills=lambda: 0, moves=True),
       namespaces=("jit",), type=_new_type, samples=_size_samples, grad=NOTHING,
       onnx=lambda g, size, dtype, device: onnx_filled(g, size, 0))  # fmt: skip
def zeros(m: Numpy, size: Ints, dtype: DType | None, device: str | None) -> Array:
    """Zeros in these sizes."""
    return m.zeros(checked_sizes(size), (dtype or dtypes.DEFAULT).numpy)


@array(f"aten::ones(int[] size, {NEW}", kernel=Kernel(step="fill", fills=lambda: 1, moves=True),
       namespaces=("jit",), type=_new_type, samples=_size_samples, grad=NOTHING,
       onnx=lambda g, size, dtype, device: onnx_filled(g, size, 1))  # fmt: skip
def ones(m: Numpy, size: Ints, dtype: DType | None, device: str | None) -> Array:
    """Ones in these sizes."""
    return m.ones(checked_sizes(size), (dtype or dtypes.DEFAULT).numpy)


@array(f"aten::empty(int[] size, {NEW}", kernel=Kernel(moves=True),
       namespaces=("jit",), type=_new_type, samples=_size_samples, grad=NOTHING,
       onnx=lambda g, size, dtype, device: onnx_filled(g, size, 0))  # fmt: skip
def empty(m: Numpy, size: Ints, dtype: DType | None, device: str | None) -> Array:
    """A tensor of these sizes for elements that are written later; until then they are zeros here."""
    return m.zeros(checked_sizes(size), (dtype or dtypes.DEFAULT).numpy)  # zeros, so that every run is the same


@array(f"aten::full(int[] size, Scalar fill_value, {NEW}",
       kernel=Kernel(step="fill", fills=lambda fill_value: fill_value, moves=True), namespaces=("jit",), grad=NOTHING,
       onnx=lambda g, size, fill_value, dtype, device: onnx_filled(g, size, fill_value))  # fmt: skip
def full(m: Numpy, size: Ints, fill_value: Number, dtype: DType | None, device: str | None) -> Array:
    """A tensor of these sizes that holds fill_value, whose dtype follows that of the value."""
    return filled(m, size, fill_value, dtype or dtype_of_numbers(fill_value))


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
       namespaces=("jit",), type=_like_type, samples=_like_samples, grad=FLAT, lays_out=True,
       onnx=lambda g, self, dtype, device, memory_format: onnx_filled_like(g, self, 0))  # fmt: skip
def zeros_like(m: Numpy, self: Array, dtype: DType | None, device: str | None, memory_format: str | None) -> Array:
    """Zeros in self's sizes and dtype."""
    return filled_like(m, self, memory_format, 0, dtype.numpy if dtype else self.dtype)


@array(f"aten::ones_like(Tensor self, {LIKE}", kernel=Kernel(step="fill", fills=lambda: 1, moves=True),
       namespaces=("jit",), type=_like_type, samples=_like_samples, grad=FLAT, lays_out=True,
       onnx=lambda g, self, dtype, device, memory_format: onnx_filled_like(g, self, 1))  # fmt: skip
def ones_like(m: Numpy, self: Array, dtype: DType | None, device: str | None, memory_format: str | None) -> Array:
    """Ones in self's sizes and dtype."""
    return filled_like(m, self, memory_format, 1, dtype.numpy if dtype else self.dtype)


@array(f"aten::empty_like(Tensor self, {LIKE}", kernel=Kernel(moves=True),
       namespaces=("jit",), type=_like_type, samples=_like_samples, grad=FLAT, lays_out=True,
       onnx=lambda g, self, dtype, device, memory_format: onnx_filled_like(g, self, 0))  # fmt: skip
def empty_like(m: Numpy, self: Array, dtype: DType | None, device: str | None, memory_format: str | None) -> Array:
    """`empty` in self's sizes and dtype."""
    return filled_like(m, self, memory_format, 0, dtype.numpy if dtype else self.dtype)


@array(f"aten::full_like(Tensor self, Scalar fill_value, {LIKE}",
       kernel=Kernel(step="fill", fills=lambda fill_value: fill_value, moves=True),
       namespaces=("jit",), grad=FLAT, lays_out=True,
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


@array(f"aten::scalar_tensor(Scalar s, {NEW}", kernel=Kernel(moves=True),
       namespaces=("jit",), grad=NOTHING, onnx=lambda g, s, dtype, device: onnx_number(g, s, g.out.dtype))  # fmt: skip
def scalar_tensor(m: Numpy, s: Number, dtype: DType | None, device: str | None) -> Array:
    """A 0-d tensor of the number `s`, in the default float dtype unless another is given."""
    chosen = (dtype or dtypes.DEFAULT).numpy
    return m.asarray(fitted(s, chosen)).astype(chosen)


@scalar_tensor.type
def _(s: Number, dtype: DType | None, device: str | None) -> TensorType:
    return TensorType(dtype or dtypes.DEFAULT, (), None, device or "cpu")


@scalar_tensor.samples
def _() -> Iterator[Sample]:
    yield sample(1.5)
    yield sample(3, note="a float by default")
    yield sample(3, dtype=dtypes.int64, note="integer")
    yield sample(True, dtype=dtypes.bool_, note="bool")


# -- ranges ------------------------------------------------------------------------------------------------------


def range_length(start: Any, end: Any, step: Any) -> int:
    """The number of elements start, start + step, ... that lie before `end`."""
    if step == 0:
        raise UsageError("arange: step must not be zero")
    if not all(isinstance(number, int) or math.isfinite(number) for number in (start, end, step)):
        raise UsageError(f"arange: the range from {start} to {end} in steps of {step} is not finite")
    if (end - start) * step < 0:
        raise UsageError(f"arange: {end} cannot be reached from {start} in steps of {step}")
    if all(isinstance(number, (int, np.integer)) for number in (start, end, step)):
        return -((start - end) // step)
    return math.ceil((end - start) / step)


def whole_range(start: Number, end: Number, step: Number, dtype: DType | None) -> tuple[Any, Any, Any]:
    """The numbers of a range as `dtype` counts: int64 takes the whole part of each, as ATen does."""
    if dtype is not dtypes.int64:
        return start, end, step
    return _whole(start), _whole(end), _whole(step)


def _whole(number: Number) -> Any:
    return number if isinstance(number, int) else int(number)


@array(f"aten::arange.start_step(Scalar start, Scalar end, Scalar step=1, {NEW}",
       namespaces=("jit",), grad=NOTHING)  # fmt: skip
def arange(m: Numpy, start: Number, end: Number, step: Number, dtype: DType | None, device: str | None) -> Array:
    """The numbers start (or 0), start + step, ... before end."""
    element = dtype or dtype_of_numbers(start, end, step)
    start, end, step = whole_range(start, end, step, element)
    return range_values(start, range_length(start, end, step), step, element).astype(element.numpy)


def range_values(start: Number, length: int, step: Number, dtype: DType) -> Any:
    """The numbers of a range; integer dtypes count in steps of the whole parts."""
    if dtype.is_integral:
        start, step = int(start), int(step)
    return start + np.arange(length) * step


@arange.type
def _(start: Number, end: Number, step: Number, dtype: DType | None, device: str | None) -> TensorType:
    element = dtype or dtype_of_numbers(start, end, step)
    length = range_length(*whole_range(start, end, step, element))
    return TensorType(element, (length,), None, device or "cpu")


@arange.onnx
def _(g: OnnxWriter, start: Number, end: Number, step: Number, dtype: DType | None, device: str | None) -> Value:
    whole = dtype_of_numbers(start, end, step).is_integral
    if whole:
        counted = g.op("Range", *(onnx_number(g, number, dtypes.int64) for number in (start, end, step)))
        return g.cast(counted, g.out.dtype)
    if any(hasattr(number, "ndim") for number in (start, end, step)):
        numbers = (onnx_number(g, number, dtypes.float64) for number in (start, end, step))
        return g.cast(g.op("Range", *numbers), g.out.dtype)
    length = range_length(*whole_range(start, end, step, g.out.dtype))
    return g.constant(range_values(start, length, step, g.out.dtype), dtype=g.out.dtype)


@arange.samples
def _() -> Iterator[Sample]:
    yield sample(0, 5)
    yield sample(2, -7, -2, note="down")
    yield sample(0, 1, 0.1, note="fractions")
    yield sample(1.0, 4.0, dtype=dtypes.float64)
    yield sample(3, 3, note="empty")
    yield sample(0, 4, 1.5, dtype=dtypes.int32, note="whole steps")
    yield sample(0.5, 4.5, dtype=dtypes.int64, note="whole numbers")
    yield sample(0, 5, dtype=dtypes.float16, note="half")


@composite(f"aten::arange(Scalar end, {NEW}", namespaces=("jit",))
def arange_end(F: Ops, end: Number, dtype: DType | None, device: str | None) -> Tensor:
    """The numbers 0, 1, ... before end."""
    return F.arange(0, end, 1, dtype=dtype, device=device)


@arange_end.samples
def _() -> Iterator[Sample]:
    yield sample(5)
    yield sample(2.5)
    yield sample(0, note="empty")
    yield sample(3, dtype=dtypes.float32)


@array(f"aten::linspace(Scalar start, Scalar end, int steps, {NEW}",
       namespaces=("jit",), grad=NOTHING)  # fmt: skip
def linspace(m: Numpy, start: Number, end: Number, steps: int, dtype: DType | None, device: str | None) -> Array:
    """`steps` evenly spaced numbers from start to end, both included."""
    element = spaced_dtype("linspace", start, end, dtype)
    return evenly_spaced(*_ends(start, end, element), steps).astype(element.numpy)


def _ends(start: Number, end: Number, dtype: DType) -> tuple[Any, Any]:
    """The ends as `dtype` holds them: integers have no fractions."""
    return (int(start), int(end)) if dtype.is_integral else (start, end)


def evenly_spaced(start: Any, end: Any, steps: int) -> Any:
    """`steps` numbers counted up from `start` in the first half and down from `end` in the second, so both are hit."""
    index = np.arange(checked_steps(steps))
    gap = (end - start) / max(steps - 1, 1)
    return np.where(index < (steps + 1) // 2, start + gap * index, end - gap * (steps - 1 - index))


def checked_steps(steps: int) -> int:
    """`steps`, which must not be negative."""
    if steps < 0:
        raise UsageError(f"linspace: steps must not be negative, got {steps}")
    return steps


def linspace_dtype(start: Number, end: Number) -> DType:
    """The default float, or its complex counterpart."""
    return dtypes.float_of(dtype_of_numbers(start, end))


def spaced_dtype(name: str, start: Number, end: Number, dtype: DType | None) -> DType:
    """The dtype of evenly spaced numbers; DTypeError if complex ends are to become real."""
    own = linspace_dtype(start, end)
    if dtype is not None and own.is_complex and not dtype.is_complex:
        raise DTypeError(f"{name}: complex ends give {own.name}, which does not go into {dtype.name}")
    return dtype or own


@linspace.type
def _(start: Number, end: Number, steps: int, dtype: DType | None, device: str | None) -> TensorType:
    element = spaced_dtype("linspace", start, end, dtype)
    return TensorType(element, (checked_steps(steps),), None, device or "cpu")


@linspace.onnx
def _(g: OnnxWriter, start: Number, end: Number, steps: int, dtype: DType | None, device: str | None) -> Value:
    if any(hasattr(number, "ndim") for number in (start, end, steps)):
        return _onnx_linspace(g, *(onnx_number(g, number, dtypes.float64) for number in (start, end, steps)))
    return g.constant(evenly_spaced(*_ends(start, end, g.out.dtype), steps), dtype=g.out.dtype)


def _onnx_linspace(g: OnnxWriter, start: Any, end: Any, steps: Any) -> Value:
    one = g.constant(1.0, dtype=dtypes.float64)
    index = g.op("Range", g.constant(0.0, dtype=dtypes.float64), steps, one)
    gap = g.op("Div", g.op("Sub", end, start), g.op("Max", g.op("Sub", steps, one), one))
    return g.cast(g.op("Add", start, g.op("Mul", gap, index)), g.out.dtype)


@linspace.samples
def _() -> Iterator[Sample]:
    yield sample(0, 1, 5)
    yield sample(-1.5, 2.5, 4, dtype=dtypes.float64)
    yield sample(3, 7, 1, note="one")
    yield sample(3, 7, 0, note="empty")
    yield sample(0, 10, 4, dtype=dtypes.int64, note="toward zero")


@array(
    f"aten::eye.m(int n, int m, {NEW}",
    kernel=Kernel(moves=True),
    namespaces=("jit",),
    grad=NOTHING,
)
def eye(math: Numpy, n: int, m: int, dtype: DType | None, device: str | None) -> Array:
    """A matrix [n, m], or [n, n], with ones on the diagonal and zeros elsewhere."""
    rows, columns = checked_sizes((n, m))
    return math.eye(rows, columns, dtype=(dtype or dtypes.DEFAULT).numpy)


@eye.type
def _(n: int, m: int, dtype: DType | None, device: str | None) -> TensorType:
    return _new_type((n, m), dtype, device)


@eye.onnx
def _(g: OnnxWriter, n: int, m: int, dtype: DType | None, device: str | None) -> Value:
    zeros_int = g.op("Expand", g.constant(0, dtype=dtypes.int32), onnx_shape(g, (n, m)))
    return g.cast(g.op("EyeLike", zeros_int), g.out.dtype)


@eye.samples
def _() -> Iterator[Sample]:
    yield sample(2, 3)
    yield sample(3, 2, dtype=dtypes.int64)
    yield sample(0, 2, note="empty")
    yield sample(2, 2, dtype=dtypes.bool_, note="bool")


@composite(f"aten::eye(int n, {NEW}", namespaces=("jit",))
def eye_square(F: Ops, n: int, dtype: DType | None, device: str | None) -> Tensor:
    """A matrix [n, n] with ones on the diagonal and zeros elsewhere."""
    return F.eye(n, n, dtype=dtype, device=device)


@eye_square.samples
def _() -> Iterator[Sample]:
    yield sample(3)
    yield sample(0, note="empty")


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
