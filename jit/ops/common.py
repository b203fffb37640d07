"""Helpers that several families of operators share: dtype rules, refusals, and spellings in ONNX."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from jit.ir import dtypes
from jit.ir.devices import META
from jit.ir.dtypes import DType
from jit.ir.errors import DTypeError
from jit.ir.op import Op, Refusal, absent
from jit.ir.sizes import SizeExpr

if TYPE_CHECKING:
    from .protocols import Array, Ints, Meta, Number, Numpy, OnnxWriter, Tensor, Term, Terms, Value

SIZES_ONLY = absent("only its sizes are used")

# -- operands that an op does not take ---------------------------------------------------------------------------


def is_bool(dtype: DType) -> bool:
    """True of bool alone."""
    return dtype is dtypes.bool_


def is_integral(dtype: DType) -> bool:
    """True of the integer types and bool."""
    return dtype.is_integral


def is_fractional(dtype: DType) -> bool:
    """True of the floating and complex types."""
    return not dtype.is_integral


def is_complex(dtype: DType) -> bool:
    """True of the complex types."""
    return dtype.is_complex


def is_integral_or_complex(dtype: DType) -> bool:
    """True of all but the real floating types."""
    return not dtype.is_floating_point


floats_only = Refusal(is_integral_or_complex, "cast to a floating dtype first, e.g. x.float()")
no_integers = Refusal(is_integral, "cast to a floating dtype first, e.g. x.float()")
integers_only = Refusal(is_fractional, "it works on the bits of integers and bools; cast with x.long() or x.bool()")
ordered_only = Refusal(is_complex, "complex numbers have no order; compare abs() or the real parts")
no_bool = Refusal(is_bool, "cast with x.int(), or use logical_not, logical_and, logical_or, logical_xor")


def require_order(name: str, dtype: DType) -> None:
    """Refuse to compare complex numbers; takes a dtype of ours or of numpy."""
    if getattr(dtype, "kind", "") == "c" or getattr(dtype, "is_complex", False):
        raise DTypeError(f"{name} does not take complex tensors: {ordered_only.way_out}")


# -- elements that an op does not take ---------------------------------------------------------------------------


def divides_by_zero(op: Op, values: Sequence[Any]) -> bool:
    """Whether a division of these operands raises where the divisor is 0: one of integers, unless by another number."""
    divisor = values[1]
    return op.compute_dtype(values).is_integral and not (isinstance(divisor, (int, float)) and divisor != 0)


def elsewhere(tensor: Tensor, meta: Meta) -> Any:
    """The device that `meta` tells of, to which `tensor` has to be brought; None if it lies there."""
    return None if tensor.device == meta.device else meta.device


def has_elements(tensor: Tensor) -> bool:
    """Whether there are elements to look at: a check of them has nothing to say of a tensor without any."""
    return str(tensor.device) != META.type


def largest(m: Numpy, array: Array, dims: int | Ints) -> Array:
    """The maxima over dims, which stay with size 1; of nothing -inf."""
    sizes = [array.shape[d] for d in ((dims,) if isinstance(dims, int) else dims)]
    if all(sizes):
        return m.max(array, axis=dims, keepdims=True)
    shape = [1 if d in ((dims,) if isinstance(dims, int) else dims) else n for d, n in enumerate(array.shape)]
    return m.full(shape, -m.inf, array.dtype)


def greatest(places: Array) -> int:
    """The largest of whole numbers that are not negative; 0 if there are none."""
    return int(places.max()) if places.size else 0


# -- numbers given as attributes ---------------------------------------------------------------------------------


def times(array: Array, number: Number) -> Array:
    """`array * number` on numpy without leaving the array's dtype; integers do not take a fractional number."""
    require_real_factor(array.dtype, number)
    if number == 1:
        return array
    if array.dtype.kind not in "biu":
        return array * number
    if not isinstance(number, (int, np.integer)):
        raise DTypeError(f"an integer tensor cannot be multiplied by alpha = {number}; cast the tensor to float")
    return array * np.asarray(number).astype(array.dtype)[()]


def weighted(array: Array, alpha: Number) -> Array:
    """`times` as sums do it: a truth value weighs truth values alone, a fraction no whole numbers."""
    if alpha == 1 and type(alpha) is int:
        return array
    if isinstance(alpha, (bool, np.bool_)) and array.dtype.kind != "b":
        raise DTypeError(f"alpha = {alpha} is for tensors of bools alone; pass a number")
    if isinstance(alpha, (float, np.floating)) and array.dtype.kind in "biu":
        raise DTypeError(f"an integer tensor cannot be multiplied by alpha = {alpha}; cast the tensor to float")
    return times(array, alpha)


def require_real_factor(dtype: np.dtype[Any], number: Number) -> None:
    """Refuse to multiply elements of a real dtype by a complex number in their own dtype."""
    if isinstance(number, (complex, np.complexfloating)) and dtype.kind != "c":
        raise DTypeError(f"a real tensor cannot be multiplied by the complex number {number}; cast it to complex first")


# -- dtypes of results -------------------------------------------------------------------------------------------


def accumulation(dtype: DType) -> Any:
    """The numpy dtype that a result of `dtype` is accumulated in: float32 for the 16-bit floats."""
    return np.dtype(np.float32) if dtype.is_narrow else dtype.numpy


def running_dtype(dtype: DType) -> DType:
    """The dtype that running sums and products of `dtype` are accumulated in, whose errors a long row would add up."""
    wider = {dtypes.float32: dtypes.float64, dtypes.complex64: dtypes.complex128}
    return dtypes.float32 if dtype.is_narrow else wider.get(dtype, dtype)


def running(t: Terms, monoid: str, term: Term) -> Term:
    """The running result of a term in the dtype of the node, accumulated as `running_dtype` says."""
    assert t.dtype is not None
    return t.running(monoid, t.cast(t.cast(term, t.dtype), running_dtype(t.dtype)))


def wide_sum_dtype(dtype: DType) -> DType:
    """The dtype of sums and products of `dtype`: int64 for all integers and bool."""
    return dtypes.int64 if dtype.is_integral else dtype


# -- ONNX --------------------------------------------------------------------------------------------------------


def onnx_if_fractional(name: str) -> Callable[..., Any]:
    """A symbolic for functions that leave integers as they are: `Floor` of an integer is that integer."""

    def symbolic(g: OnnxWriter, self: Value) -> Value:
        return g.op("Identity", self) if self.dtype.is_integral else g.op(name, self)

    return symbolic


def onnx_scaled(g: OnnxWriter, x: Value, number: Number) -> Value:
    """`x * number`."""
    return x if is_fixed(number) and number == 1 else g.op("Mul", x, g.constant(number, like=x))


def onnx_trunc(g: OnnxWriter, x: Value) -> Value:
    """A floating `x` rounded toward zero."""
    return g.op("Where", g.op("Less", x, g.constant(0, like=x)), g.op("Ceil", x), g.op("Floor", x))


def is_fixed(*numbers: object) -> bool:
    """Whether a symbolic is given the numbers themselves, rather than what stands for those of a run."""
    return not any(type(number) is SizeExpr or hasattr(number, "ndim") for number in numbers)


def onnx_number(g: OnnxWriter, value: Any, dtype: DType) -> Value:
    """A 0-d constant, or a traced number cast to `dtype`."""
    return g.cast(value, dtype) if hasattr(value, "ndim") else g.constant(value, dtype=dtype)


def onnx_shape(g: OnnxWriter, sizes: Ints) -> Value:
    """A list of sizes, some of them perhaps traced, as a 1-D int64 value."""
    return g.ints(list(sizes))


def surely_same(a: Ints, b: Ints) -> bool:
    """Whether two shapes are equal, whatever the sizes of dynamic axes; equal expressions have equal texts."""
    return len(a) == len(b) and all(x is y or (_is_size(x) and _is_size(y) and str(x) == str(y)) for x, y in zip(a, b))


def _is_size(size: object) -> bool:
    """Whether it is a number or an expression of the dynamic axes."""
    return isinstance(size, int)


def onnx_spread(g: OnnxWriter, x: Value, sizes: Ints) -> Value:
    """`x` broadcast to sizes, some of them perhaps traced; itself if it has these in every run."""
    return x if surely_same(x.shape, sizes) else g.op("Expand", x, onnx_shape(g, sizes))


def onnx_expm1(g: OnnxWriter, x: Value) -> Value:
    """exp(x) - 1 as tanh(x / 2) * (exp(x) + 1), which keeps its digits near 0."""
    half = g.op("Tanh", g.op("Mul", x, g.constant(0.5, like=x)))
    return g.op("Mul", half, g.op("Add", g.op("Exp", x), g.constant(1, like=x)))


def onnx_softplus(g: OnnxWriter, x: Value) -> Value:
    """log(1 + exp(x)); in float64, where onnxruntime has no Softplus, as max(x, 0) + log(1 + exp(-|x|))."""
    if x.dtype is not dtypes.float64:
        return g.op("Softplus", x)
    small = g.op("Exp", g.op("Neg", g.op("Abs", x)))
    return g.op("Add", g.op("Max", x, g.constant(0, like=x)), g.op("Log", g.op("Add", small, g.constant(1, like=x))))
