"""Copies: to another dtype or device, or plain."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from jit.ir.kernel import Kernel
from jit.ir.memory_formats import laid_out, laid_out_type
from jit.ir.op import array, composite
from jit.ir.samples import Sample, make, sample, strided
from jit.ir.types import TensorType

from .common import elsewhere

if TYPE_CHECKING:
    from jit.ir.dtypes import DType

    from .protocols import Array, KnownType, Numpy, OnnxWriter, Ops, Tensor, Value


@array("aten::_to_copy(Tensor self, *, ScalarType? dtype=None, Device? device=None, MemoryFormat? memory_format=None) "
       "-> Tensor", namespaces=(), lays_out=True,
       kernel=Kernel(lambda device, memory_format: "cast" if device is None and memory_format is None else "",
                     step="copy", moves=True),
       grad=dict(self=lambda F, g, self_meta:
                      F._to_copy(g, dtype=self_meta.dtype, device=elsewhere(g, self_meta))))  # fmt: skip
def _to_copy(m: Numpy, self: Array, dtype: DType | None, device: str | None, memory_format: str | None) -> Array:
    """A copy in another dtype, on another device or in another layout; floats become integers toward zero."""
    if dtype is not None and not dtype.is_complex and self.dtype.kind == "c":
        self = self.real
    return laid_out(m, self, memory_format, dtype.numpy if dtype else self.dtype)


@_to_copy.type
def _(self: KnownType, dtype: DType | None, device: str | None, memory_format: str | None) -> TensorType:
    return laid_out_type(self, memory_format, dtype or self.dtype, device or self.device)


@_to_copy.onnx
def _(g: OnnxWriter, self: Value, dtype: DType | None, device: str | None, memory_format: str | None) -> Value:
    return g.op("Identity", self) if self.dtype is g.out.dtype else g.cast(self, g.out.dtype)


@_to_copy.samples
def _() -> Iterator[Sample]:
    from jit.ir import dtypes as d

    yield sample(make(2, 3), dtype=d.float64)
    yield sample(make(2, 3), note="same dtype")
    yield sample(make(), dtype=d.int64, note="0-d", grad=False)
    yield sample(make(0, 3), dtype=d.bool_, note="empty", grad=False)
    yield sample(strided(make(3, 5, low=-9, high=9)), dtype=d.int32, note="toward zero", grad=False)
    yield sample(make(5, low=0, high=300, dtype="int64"), dtype=d.uint8, note="wraps", grad=False)
    yield sample(make(5, dtype="bool"), dtype=d.float32, note="bool", grad=False)
    yield sample(make(5), dtype=d.float16, note="half", grad=False)
    yield sample(make(5, dtype="float16"), dtype=d.float32, note="from half", grad=False)
    yield sample(make(5), dtype=d.bfloat16, note="bfloat16", grad=False, onnx=False)
    yield sample(make(1, 2, 3, 2), dtype=d.float64, memory_format="channels_last", note="channels last")


@array("aten::clone(Tensor self, *, MemoryFormat? memory_format=None) -> Tensor", grad=dict(self=lambda F, g: g),
       kernel=Kernel(step="copy", moves=True), lays_out=True)  # fmt: skip
def clone(m: Numpy, self: Array, memory_format: str | None) -> Array:
    """A dense copy, row-major unless a memory format asks for another order."""
    return laid_out(m, self, memory_format, self.dtype)


@clone.type
def _(self: KnownType, memory_format: str | None) -> TensorType:
    return laid_out_type(self, memory_format, self.dtype, self.device)


@clone.onnx
def _(g: OnnxWriter, self: Value, memory_format: str | None) -> Value:
    return g.op("Identity", self)


@clone.samples
def _() -> Iterator[Sample]:
    yield sample(make(2, 3))
    yield sample(make(), note="0-d")
    yield sample(make(0, 3), note="empty")
    yield sample(strided(make(3, 5)), note="strided")
    yield sample(make(5, dtype="float16"), note="half", grad=False)
    yield sample(make(5, dtype="bool"), note="bool", grad=False)
    yield sample(make(2, 3, 2, 2), memory_format="channels_last", note="channels last")
    yield sample(make(1, 3, 2, 2, 2), memory_format="channels_last_3d", note="channels last in 3-d")
    yield sample(make(2, 3, 4).transpose(2, 0, 1), memory_format="preserve_format", note="layout kept")


@composite("aten::type_as(Tensor self, Tensor other) -> Tensor", namespaces=("Tensor",))
def type_as(F: Ops, self: Tensor, other: Tensor) -> Tensor:
    """self in the dtype and on the device of other; self itself if it is there already."""
    if self.dtype is other.dtype and self.device == other.device:
        return self
    return F._to_copy(self, dtype=other.dtype, device=other.device)


@type_as.samples
def _() -> Iterator[Sample]:
    yield sample(make(2, 3), make(1, dtype="float64"))
    yield sample(make(2, 3), make(dtype="int64"), note="integer", grad=False)
    yield sample(make(0, 3), make(2), note="same dtype")
