"""Overwriting a tensor: `copy_`, `fill_`, `zero_` and the functional ops that they are recorded as."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

from jit.ir.errors import ShapeError
from jit.ir.fitting import fitted
from jit.ir.kernel import Kernel
from jit.ir.op import array
from jit.ir.samples import Sample, make, sample
from jit.ir.types import TensorType

from .common import elsewhere, onnx_spread

if TYPE_CHECKING:
    from .protocols import Array, Ints, KnownType, Number, Numpy, OnnxWriter, Value


def _like(self: KnownType, *_: Any) -> TensorType:
    return TensorType(self.dtype, self.shape, None, self.device)


def _copy_type(self: KnownType, src: KnownType) -> TensorType:
    _check_spread(src.shape, self.shape)
    return _like(self)


@array("aten::copy(Tensor self, Tensor src) -> Tensor", inplace=True, crosses=True, namespaces=("Tensor",),
       type=_copy_type, kernel=Kernel(step="copy", moves=True),
       grad=dict(self=lambda F, g: F.zeros_like(g),
                 src=lambda F, g, src_meta:
                 F._to_copy(F.sum_to_size(g, src_meta.shape), dtype=src_meta.dtype,
                            device=elsewhere(g, src_meta))))  # fmt: skip
def copy(m: Numpy, self: Array, src: Array) -> Array:
    """src, broadcast to the sizes of self and cast to its dtype: what `copy_` writes over self."""
    _check_spread(src.shape, self.shape)
    whole = src if src.shape == self.shape else m.broadcast_to(src, self.shape)
    return m.array(whole, dtype=self.dtype, copy=True)


def _check_spread(sizes: Ints, over: Ints) -> None:
    """Refuse sizes that do not broadcast to those written over."""
    offset = len(over) - len(sizes)
    if offset < 0 or not all(n in (over[offset + dim], 1) for dim, n in enumerate(sizes)):  # 1 is asked for last
        raise ShapeError(f"copy_: sizes {list(sizes)} do not broadcast to {list(over)}")


@copy.onnx
def _(g: OnnxWriter, self: Value, src: Value) -> Value:
    return onnx_spread(g, g.op("Identity", g.cast(src, self.dtype)), self.shape)


@copy.samples
def _() -> Iterator[Sample]:
    yield sample(make(2, 3), make(2, 3, seed=1))
    yield sample(make(2, 3), make(3, seed=1), note="broadcast")
    yield sample(make(2, 3), make(3, dtype="int64", seed=1), note="mixed dtypes", grad=False)
    yield sample(make(0, 3), make(3), note="empty")


# Before the declaration for numbers, which a 0-d tensor fits too, but without its history.
@array("aten::fill.Tensor(Tensor self, Tensor value) -> Tensor", kernel=Kernel(moves=True), inplace=True, type=_like,
       grad=dict(self=lambda F, g: F.zeros_like(g), value=lambda F, g: F.sum(g)))  # fmt: skip
def fill_tensor(m: Numpy, self: Array, value: Array) -> Array:
    """A tensor of self's sizes and dtype that holds `value`, a number or a 0-d tensor, everywhere."""
    if value.ndim:
        raise ShapeError(f"fill_: value should be a number or a 0-d tensor, got {value.ndim} dims")
    return m.full(self.shape, value, self.dtype)


@fill_tensor.onnx
def _(g: OnnxWriter, self: Value, value: Value) -> Value:
    return g.op("Expand", g.cast(value, self.dtype), g.op("Shape", self))


@fill_tensor.samples
def _() -> Iterator[Sample]:
    yield sample(make(2, 3), make(seed=1))


@array("aten::fill.Scalar(Tensor self, Scalar value) -> Tensor", kernel=Kernel(moves=True), inplace=True, type=_like,
       grad=dict(self=lambda F, g: F.zeros_like(g)))  # fmt: skip
def fill(m: Numpy, self: Array, value: Number) -> Array:
    return m.full(self.shape, fitted(value, self.dtype), self.dtype)


@fill.onnx
def _(g: OnnxWriter, self: Value, value: Number) -> Value:
    return g.op("Expand", g.constant(value, dtype=self.dtype), g.op("Shape", self))


@fill.samples
def _() -> Iterator[Sample]:
    yield sample(make(2, 3), 1.5)
    yield sample(make(3, dtype="int64"), 2, note="integer", grad=False)
    yield sample(make(), 2, note="0-d")


@array("aten::zero(Tensor self) -> Tensor", kernel=Kernel(moves=True), inplace=True, type=_like,
       grad=dict(self=lambda F, g: F.zeros_like(g)))  # fmt: skip
def zero(m: Numpy, self: Array) -> Array:
    """Zeros in self's sizes and dtype."""
    return m.zeros(self.shape, self.dtype)


@zero.onnx
def _(g: OnnxWriter, self: Value) -> Value:
    return g.op("Expand", g.constant(0, dtype=self.dtype), g.op("Shape", self))


@zero.samples
def _() -> Iterator[Sample]:
    yield sample(make(2, 3))
    yield sample(make(0), note="empty")
