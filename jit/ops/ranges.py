"""Tensors whose elements follow from their positions: ranges of numbers, and the identity."""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

import numpy as np

from jit.ir import dtypes
from jit.ir.dtypes import DType
from jit.ir.errors import DTypeError, UsageError
from jit.ir.kernel import Kernel
from jit.ir.op import array, composite
from jit.ir.samples import Sample, sample
from jit.ir.types import TensorType

from .common import is_fixed, onnx_number, onnx_shape
from .creation import NEW, NOTHING, checked_sizes, dtype_of_numbers, new_type

if TYPE_CHECKING:
    from .protocols import Array, Number, Numpy, OnnxWriter, Ops, Tensor, Term, Terms, Value


# -- ranges of numbers -------------------------------------------------------------------------------------------------


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
       kernel=Kernel("positions"), namespaces=("jit",), grad=NOTHING)  # fmt: skip
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


@arange.terms
def _(t: Terms, start: Number, step: Number) -> Term:
    assert t.dtype is not None
    if t.dtype.is_integral:
        start, step = _whole(start), _whole(step)
    if isinstance(start, int) and isinstance(step, int):
        return t.place(0, start, step)
    steps = t.place(0, 0, step) if isinstance(step, int) else _product(t, t.place(0), t.number(step, dtypes.float64))
    return t.apply(lambda m, x, first: first + x, t.cast(steps, dtypes.float64), t.number(start, dtypes.float64))


def _product(t: Terms, place: Term, number: Term) -> Term:
    return t.apply(lambda m, i, x: i * x, t.cast(place, dtypes.float64), number)


@arange.onnx
def _(g: OnnxWriter, start: Number, end: Number, step: Number, dtype: DType | None, device: str | None) -> Value:
    whole = dtype_of_numbers(start, end, step).is_integral
    if whole:
        counted = g.op("Range", *(onnx_number(g, number, dtypes.int64) for number in (start, end, step)))
        return g.cast(counted, g.out.dtype)
    if not is_fixed(start, end, step):
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
       kernel=Kernel("positions"), namespaces=("jit",), grad=NOTHING)  # fmt: skip
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


@linspace.terms
def _(t: Terms, start: Number, end: Number, steps: int) -> Term:
    assert t.dtype is not None
    start, end = (_whole(start), _whole(end)) if t.dtype.is_integral else (start, end)
    first, last = t.number(start, dtypes.float64), t.number(end, dtypes.float64)
    gaps = t.number(steps - 1, dtypes.float64)
    gap = t.apply(lambda m, a, b, n: (b - a) / m.maximum(n, 1), first, last, gaps, cost=4)
    up = t.apply(lambda m, a, x: a + x, first, _product(t, t.place(0), gap))
    down = t.apply(lambda m, b, x: b - x, last, _product(t, t.place(0, steps - 1, -1), gap))
    is_up = t.apply(lambda m, i, half: i < half, t.place(0), t.number((steps + 1) // 2, dtypes.int64))
    return t.apply(lambda m, which, a, b: m.where(which, a, b), is_up, up, down, dtype=dtypes.float64)


@linspace.onnx
def _(g: OnnxWriter, start: Number, end: Number, steps: int, dtype: DType | None, device: str | None) -> Value:
    if not is_fixed(start, end, steps):
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
    kernel=Kernel("positions", moves=True),
    namespaces=("jit",),
    grad=NOTHING,
)
def eye(math: Numpy, n: int, m: int, dtype: DType | None, device: str | None) -> Array:
    """A matrix [n, m], or [n, n], with ones on the diagonal and zeros elsewhere."""
    rows, columns = checked_sizes((n, m))
    return math.eye(rows, columns, dtype=(dtype or dtypes.DEFAULT).numpy)


@eye.type
def _(n: int, m: int, dtype: DType | None, device: str | None) -> TensorType:
    return new_type((n, m), dtype, device)


@eye.terms
def _(t: Terms) -> Term:
    return t.apply(lambda m, i, j: i == j, t.place(0), t.place(1), dtype=dtypes.bool_)


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
