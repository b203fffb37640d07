"""Arithmetic and elementary functions, element by element."""

from __future__ import annotations

from typing import Any

from ..op import pointwise
from ..samples import binary, unary

# -- arithmetic --------------------------------------------------------------------------------------------------


@pointwise("aten::add(Tensor self, Tensor other, *, Scalar alpha=1) -> Tensor", inplace=True, samples=binary(),
           grad=dict(self=lambda F, g: g, other=lambda F, g, alpha: g if alpha == 1 else g * alpha))  # fmt: skip
def add(m: Any, self: Any, other: Any, alpha: Any) -> Any:
    return self + other if alpha == 1 else self + alpha * other


@add.onnx
def _(g: Any, self: Any, other: Any, alpha: Any) -> Any:
    return g.op("Add", self, other if alpha == 1 else g.op("Mul", other, g.constant(alpha, like=other)))


@pointwise("aten::mul(Tensor self, Tensor other) -> Tensor", inplace=True, aliases=("multiply",), onnx="Mul", samples=binary(),
           grad=dict(self=lambda F, g, other: g * other, other=lambda F, g, self: g * self))  # fmt: skip
def mul(m: Any, self: Any, other: Any) -> Any:
    return self * other


# -- elementary functions ----------------------------------------------------------------------------------------


@pointwise("aten::tanh(Tensor self) -> Tensor", promote="float", inplace=True, onnx="Tanh", samples=unary(-3, 3),
           grad=dict(self=lambda F, g, out: g * (1 - out * out)))  # fmt: skip
def tanh(m: Any, self: Any) -> Any:
    return m.tanh(self)


@pointwise("aten::floor(Tensor self) -> Tensor", inplace=True, onnx="Floor", samples=unary(),
           grad=dict(self=lambda F, g: F.zeros_like(g)))  # fmt: skip
def floor(m: Any, self: Any) -> Any:
    return m.floor(self)
