"""Comparisons, logic, bits, and choosing between two tensors."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

import numpy as np

from jit.ir import dtypes
from jit.ir.errors import DTypeError, ShapeError, UsageError
from jit.ir.op import absent, array, composite, pointwise
from jit.ir.samples import SPECIAL, Sample, binary, make, sample, strided, unary, whole
from jit.ir.types import TensorType

from .common import integers_only, ordered_only

if TYPE_CHECKING:
    from .protocols import Array, Elements, KnownType, Math, Numpy, OnnxWriter, Ops, Tensor, Value

BOOLEAN = absent("the result is boolean")
BITS = absent("the result is integral")
CHOOSES = absent("it chooses, and is no number")

# -- comparisons -------------------------------------------------------------------------------------------------


def comparable() -> Iterator[Sample]:
    """Pairs with ties, numbers, bools and special values among them."""
    yield from binary()()
    yield sample(
        make(20, low=0, high=3, dtype="int32"), make(20, low=0, high=3, dtype="int32", seed=1), note="ties", grad=False
    )
    yield sample(make(8, dtype="bool"), make(8, dtype="bool", seed=1), note="bool", grad=False)
    yield sample(make(5, low=0, high=3, dtype="int64"), 1.5, note="integer and fraction", grad=False)


def onnx_ordered(name: str) -> Any:
    """`Less` and its like, which take no bools."""

    def symbolic(g: OnnxWriter, self: Value, other: Value) -> Value:
        if self.dtype is dtypes.bool_:
            self, other = g.cast(self, dtypes.int32), g.cast(other, dtypes.int32)
        return g.op(name, self, other)

    return symbolic


@pointwise("aten::eq(Tensor self, Tensor other) -> Tensor", result=dtypes.bool_, inplace=True,
           onnx="Equal", samples=comparable, grad=BOOLEAN)  # fmt: skip
def eq(m: Math, self: Elements, other: Elements) -> Elements:
    """Whether self == other, element by element; NaN equals nothing."""
    return self == other


@pointwise("aten::ne(Tensor self, Tensor other) -> Tensor", result=dtypes.bool_, inplace=True, aliases=("not_equal",),
           onnx=lambda g, self, other: g.op("Not", g.op("Equal", self, other)), samples=comparable,
           grad=BOOLEAN)  # fmt: skip
def ne(m: Math, self: Elements, other: Elements) -> Elements:
    """Whether self != other, element by element; NaN differs from everything."""
    return self != other


@ordered_only
@pointwise("aten::lt(Tensor self, Tensor other) -> Tensor", result=dtypes.bool_, inplace=True, aliases=("less",),
           onnx=onnx_ordered("Less"), samples=comparable, grad=BOOLEAN)  # fmt: skip
def lt(m: Math, self: Elements, other: Elements) -> Elements:
    """Whether self < other, element by element."""
    return self < other


@ordered_only
@pointwise("aten::le(Tensor self, Tensor other) -> Tensor", result=dtypes.bool_, inplace=True, aliases=("less_equal",),
           onnx=onnx_ordered("LessOrEqual"), samples=comparable, grad=BOOLEAN)  # fmt: skip
def le(m: Math, self: Elements, other: Elements) -> Elements:
    """Whether self <= other, element by element."""
    return self <= other


@ordered_only
@pointwise("aten::gt(Tensor self, Tensor other) -> Tensor", result=dtypes.bool_, inplace=True, aliases=("greater",),
           onnx=onnx_ordered("Greater"), samples=comparable, grad=BOOLEAN)  # fmt: skip
def gt(m: Math, self: Elements, other: Elements) -> Elements:
    """Whether self > other, element by element."""
    return self > other


@ordered_only
@pointwise("aten::ge(Tensor self, Tensor other) -> Tensor", result=dtypes.bool_, inplace=True,
           aliases=("greater_equal",), onnx=onnx_ordered("GreaterOrEqual"), samples=comparable,
           grad=BOOLEAN)  # fmt: skip
def ge(m: Math, self: Elements, other: Elements) -> Elements:
    """Whether self >= other, element by element."""
    return self >= other


@composite(
    "aten::isclose(Tensor self, Tensor other, float rtol=1e-05, float atol=1e-08, bool equal_nan=False) -> Tensor"
)
def isclose(F: Ops, self: Tensor, other: Tensor, rtol: float, atol: float, equal_nan: bool) -> Tensor:
    """Whether |self - other| <= atol + rtol * |other|."""
    if rtol < 0 or atol < 0:
        raise UsageError(f"isclose: rtol and atol must not be negative, got {rtol} and {atol}")
    near = F.eq(self, other)
    if self.dtype is dtypes.bool_ and other.dtype is dtypes.bool_:
        return near
    if equal_nan:
        near = F.logical_or(near, F.logical_and(F.isnan(self), F.isnan(other)))
    distance = F.abs(self - other)
    return F.logical_or(near, F.logical_and(F.isfinite(distance), F.le(distance, F.abs(other * rtol) + atol)))


@isclose.samples
def _() -> Iterator[Sample]:
    yield sample(make(3, 4), make(3, 4) + 1e-9)
    yield sample(make(3, 4), make(4, seed=1), 0.5, 0.1, note="broadcast", grad=False)
    yield sample(make(5, dtype="bool"), make(5, dtype="bool", seed=1), note="bool", grad=False)
    yield sample(SPECIAL.copy(), SPECIAL.copy(), equal_nan=True, note="special", grad=False)
    yield sample(
        make(5, low=0, high=3, dtype="int64"), make(5, low=0, high=3, dtype="int64", seed=1), note="integer", grad=False
    )


# -- what kind of number -----------------------------------------------------------------------------------------


def _numbers() -> Iterator[Sample]:
    yield from unary()()
    yield sample(make(4, dtype="bool"), note="bool", grad=False)


def _onnx_none(g: OnnxWriter, self: Value) -> Value:
    """False everywhere: integers are neither NaN nor infinite."""
    return g.op("Not", g.op("Equal", self, self))


@pointwise("aten::isnan(Tensor self) -> Tensor", result=dtypes.bool_, samples=_numbers, grad=BOOLEAN,
           onnx=lambda g, self: _onnx_none(g, self) if self.dtype.is_integral else g.op("IsNaN", self))  # fmt: skip
def isnan(m: Math, self: Elements) -> Elements:
    """Whether each element is NaN."""
    return self != self


@pointwise("aten::isinf(Tensor self) -> Tensor", result=dtypes.bool_, samples=_numbers, grad=BOOLEAN)
def isinf(m: Math, self: Elements) -> Elements:
    """Whether each element is infinite."""
    return m.isinf(self)


@isinf.onnx
def _(g: OnnxWriter, self: Value) -> Value:
    if self.dtype.is_integral:
        return _onnx_none(g, self)
    return g.op("Equal", g.op("Abs", self), g.constant(float("inf"), like=self))  # IsInf takes halves since 20 only


@pointwise("aten::isfinite(Tensor self) -> Tensor", result=dtypes.bool_, samples=_numbers, grad=BOOLEAN)
def isfinite(m: Math, self: Elements) -> Elements:
    """Whether each element is neither infinite nor NaN."""
    return m.isfinite(self)


@isfinite.onnx
def _(g: OnnxWriter, self: Value) -> Value:
    if self.dtype.is_integral:
        return g.op("Equal", self, self)
    return g.op("Less", g.op("Abs", self), g.constant(float("inf"), like=self))


# -- logic: any dtype in, bool out -------------------------------------------------------------------------------


def onnx_logic(name: str) -> Any:
    """`And` and its like on operands of any dtype."""
    return lambda g, *operands: g.op(name, *(g.cast(x, dtypes.bool_) for x in operands))


@pointwise("aten::logical_and(Tensor self, Tensor other) -> Tensor", result=dtypes.bool_, inplace=True,
           onnx=onnx_logic("And"), samples=comparable, grad=BOOLEAN)  # fmt: skip
def logical_and(m: Math, self: Elements, other: Elements) -> Elements:
    """Whether self and other are both nonzero, element by element."""
    return (self != 0) & (other != 0)


@pointwise("aten::logical_or(Tensor self, Tensor other) -> Tensor", result=dtypes.bool_, inplace=True,
           onnx=onnx_logic("Or"), samples=comparable, grad=BOOLEAN)  # fmt: skip
def logical_or(m: Math, self: Elements, other: Elements) -> Elements:
    """Whether self, other or both are nonzero, element by element."""
    return (self != 0) | (other != 0)


@pointwise("aten::logical_xor(Tensor self, Tensor other) -> Tensor", result=dtypes.bool_, inplace=True,
           onnx=onnx_logic("Xor"), samples=comparable, grad=BOOLEAN)  # fmt: skip
def logical_xor(m: Math, self: Elements, other: Elements) -> Elements:
    """Whether exactly one of self and other is nonzero, element by element."""
    return (self != 0) ^ (other != 0)


@pointwise("aten::logical_not(Tensor self) -> Tensor", result=dtypes.bool_, inplace=True,
           onnx=onnx_logic("Not"), samples=_numbers, grad=BOOLEAN)  # fmt: skip
def logical_not(m: Math, self: Elements) -> Elements:
    """Whether each element is zero."""
    return self == 0


# -- bits --------------------------------------------------------------------------------------------------------


def _bits() -> Iterator[Sample]:
    yield sample(whole(3, 4), whole(3, 4, seed=1))
    yield sample(
        make(3, 1, low=0, high=255, dtype="uint8"), make(4, low=0, high=255, dtype="uint8", seed=1), note="broadcast"
    )
    yield sample(make(6, dtype="bool"), make(6, dtype="bool", seed=1), note="bool")
    yield sample(whole(5, dtype="int32"), 6, note="number")
    yield sample(make(dtype="int8"), make(0, 2, dtype="int8"), note="empty")


def _one_of_bits() -> Any:
    for pair in _bits():
        yield Sample(pair.args[:1], note=pair.note)


def onnx_bits(name: str) -> Any:
    """`And` and its like on bools, `BitwiseAnd` and its like (from opset 18 on) on integers."""

    def symbolic(g: OnnxWriter, *operands: Value) -> Value:
        if operands[0].dtype is dtypes.bool_:
            return g.op(name, *operands)
        if g.opset < 18:
            raise g.unsupported(f"Bitwise{name} of integers", since=18)
        return g.op(f"Bitwise{name}", *operands)

    return symbolic


@integers_only
@pointwise(
    "aten::bitwise_and(Tensor self, Tensor other) -> Tensor",
    inplace=True,
    onnx=onnx_bits("And"),
    samples=_bits,
    grad=BITS,
)
def bitwise_and(m: Math, self: Elements, other: Elements) -> Elements:
    """The bits set in both self and other; of bools, the logical and."""
    return self & other


@integers_only
@pointwise(
    "aten::bitwise_or(Tensor self, Tensor other) -> Tensor",
    inplace=True,
    onnx=onnx_bits("Or"),
    samples=_bits,
    grad=BITS,
)
def bitwise_or(m: Math, self: Elements, other: Elements) -> Elements:
    """The bits set in self, other or both; of bools, the logical or."""
    return self | other


@integers_only
@pointwise(
    "aten::bitwise_xor(Tensor self, Tensor other) -> Tensor",
    inplace=True,
    onnx=onnx_bits("Xor"),
    samples=_bits,
    grad=BITS,
)
def bitwise_xor(m: Math, self: Elements, other: Elements) -> Elements:
    """The bits set in exactly one of self and other; of bools, whether they differ."""
    return self ^ other


@integers_only
@pointwise(
    "aten::bitwise_not(Tensor self) -> Tensor", inplace=True, onnx=onnx_bits("Not"), samples=_one_of_bits, grad=BITS
)
def bitwise_not(m: Math, self: Elements) -> Elements:
    """Every bit of self inverted; of bools, the logical not."""
    return ~self


# -- choosing ----------------------------------------------------------------------------------------------------


@pointwise("aten::where.self(Tensor condition, Tensor self, Tensor other) -> Tensor", promote=("self", "other"),
           namespaces=("jit",),
           grad=dict(condition=CHOOSES, self=lambda F, g, condition: F.where(condition, g, 0),
                     other=lambda F, g, condition: F.where(condition, 0, g)))  # fmt: skip
def where(m: Math, condition: Elements, self: Elements, other: Elements) -> Elements:
    """self where condition is true, other elsewhere."""
    return m.where(condition, self, other)


where.keeps_numbers = True


@where.onnx
def _(g: OnnxWriter, condition: Value, self: Value, other: Value) -> Value:
    return g.op("Where", g.cast(condition, dtypes.bool_), self, other)


@where.samples
def _() -> Iterator[Sample]:
    yield sample(make(3, 4, dtype="bool"), make(3, 4), make(3, 4, seed=1))
    yield sample(make(3, 1, dtype="bool"), make(4), make(1, seed=1), note="broadcast")
    yield sample(make(dtype="bool"), make(2), make(2, seed=1), note="0-d")
    yield sample(make(0, 2, dtype="bool"), make(2), make(2, seed=1), note="empty")
    yield sample(make(3, 5, dtype="bool"), strided(make(3, 5)), 0.5, note="number")
    yield sample(make(4, dtype="bool"), make(4), make(4, dtype="float64", seed=1), note="mixed dtypes")
    yield sample(make(4, dtype="bool"), whole(4), 7, note="integer", grad=False)
    yield sample(make(4, dtype="bool"), 1.5, float("nan"), note="two numbers", grad=False)
    yield sample(
        make(4, dtype="bool"), make(4, dtype="float16"), make(4, dtype="float16", seed=1), note="half", grad=False
    )


@pointwise("aten::masked_fill(Tensor self, Tensor mask, Tensor value) -> Tensor", promote=("self", "value"),
           computes_in="self", inplace=True,
           grad=dict(mask=CHOOSES, self=lambda F, g, mask: F.masked_fill(g, mask, 0),
                     value=lambda F, g, mask: F.where(mask, g, 0)))  # fmt: skip
def masked_fill(m: Math, self: Elements, mask: Elements, value: Elements) -> Elements:
    """self with `value`, a number or a 0-d tensor, where mask is true."""
    return m.where(mask, value, self)


masked_fill.keeps_numbers = True


@masked_fill.numpy
def _(m: Numpy, self: Array, mask: Array, value: Array) -> Array:
    if value.ndim:
        raise ShapeError(f"masked_fill: value should be a number or a 0-d tensor, got {value.ndim} dims")
    if mask.dtype.kind != "b":
        raise DTypeError(f"masked_fill: the mask should be a tensor of bools, got {mask.dtype.name}; use mask.bool()")
    return m.where(mask, value, self)


@masked_fill.onnx
def _(g: OnnxWriter, self: Value, mask: Value, value: Value) -> Value:
    return g.op("Where", g.cast(mask, dtypes.bool_), value, self)


@masked_fill.samples
def _() -> Iterator[Sample]:
    yield sample(make(3, 4), make(3, 4, dtype="bool"), -1e9)
    yield sample(make(3, 4), make(4, dtype="bool"), 0.5, note="broadcast")
    yield sample(make(3, 4), make(3, 4, dtype="bool"), float("-inf"), note="-inf", grad=False)
    yield sample(make(3, 4), make(3, 4, dtype="bool"), make(seed=1), note="0-d value")
    yield sample(make(), make(dtype="bool"), 2, note="0-d")
    yield sample(make(0, 3), make(3, dtype="bool"), 2.5, note="empty")
    yield sample(whole(4, dtype="int32"), make(4, dtype="bool"), 2.5, note="toward zero", grad=False)
    yield sample(make(4, dtype="float16"), make(4, dtype="bool"), 0.1, note="half", grad=False)


# -- sorting into buckets ----------------------------------------------------------------------------------------


@array("aten::bucketize.Tensor(Tensor self, Tensor boundaries, *, bool out_int32=False, bool right=False) -> Tensor",
       grad=absent("the result is a tensor of indices"))  # fmt: skip
def bucketize(m: Numpy, self: Array, boundaries: Array, out_int32: bool, right: bool) -> Array:
    """The number of sorted boundaries below each element (`right`: below or equal to it)."""
    if boundaries.ndim != 1:
        raise ShapeError(f"bucketize: boundaries should be a vector, got the sizes {list(boundaries.shape)}")
    found = m.searchsorted(boundaries, self, side="right" if right else "left")
    return m.asarray(found).astype(m.int32 if out_int32 else m.int64)


@bucketize.type
def _(self: KnownType, boundaries: KnownType, out_int32: bool, right: bool) -> TensorType:
    return TensorType(dtypes.int32 if out_int32 else dtypes.int64, self.shape, None, self.device)


@bucketize.onnx
def _(g: OnnxWriter, self: Value, boundaries: Value, out_int32: bool, right: bool) -> Value:
    """The number of boundaries below each element."""
    common = dtypes.promote(self.dtype, boundaries.dtype)
    value = g.op("Unsqueeze", g.cast(self, common), g.ints([-1]))
    below = g.op("LessOrEqual" if right else "Less", g.cast(boundaries, common), value)
    return g.cast(g.op("ReduceSum", g.cast(below, dtypes.int64), g.ints([self.ndim]), keepdims=0), g.out.dtype)


@bucketize.samples
def _() -> Iterator[Sample]:
    edges = np.array([-1.0, 0.0, 0.5, 1.0], np.float32)
    yield sample(make(3, 4), edges)
    yield sample(edges, edges, note="on the boundaries")
    yield sample(edges, edges, right=True, out_int32=True, note="on the boundaries")
    yield sample(make(), edges, note="0-d")
    yield sample(make(0, 3), edges, note="empty")
    yield sample(whole(5), np.array([-3, 0, 3]), note="integer")
