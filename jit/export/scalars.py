"""Arithmetic on traced Python numbers, `prim::add` and its like: the ONNX nodes that compute it.

A traced `int` is an int64 tensor without dims, a `float` a float64, a `bool` a bool.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from jit.ir import dtypes
from jit.ir.sizes import SizeExpr

from .proxies import OnnxProxy, Scalar, Unsupported, kind_of

if TYPE_CHECKING:
    from .builder import OnnxBuilder

_ORDER = ("bool", "int", "float")
_DTYPES = {"bool": dtypes.bool_, "int": dtypes.int64, "float": dtypes.float64}


@dataclass(frozen=True)
class ScalarOp:
    """The writing of one operator on Python numbers; `jit.ir.scalars` says what the operator computes."""

    write: Callable[..., OnnxProxy]
    """`write(g, *operands)`: the nodes, for operands of one element type."""
    result: str | None = None
    """The kind of the result; None: that of the operands."""
    operands: str | None = None
    """The kind that operands are brought to; None: the widest of them, at least int."""


def _node(name: str) -> Callable[..., OnnxProxy]:
    return lambda g, *operands: g.op(name, *operands)


def _mod(g: OnnxBuilder, a: OnnxProxy, b: OnnxProxy) -> OnnxProxy:
    """a mod b with the sign of b, as Python has it."""
    if a.dtype is dtypes.int64:
        return g.op("Mod", a, b)
    return g.op("Sub", a, g.op("Mul", g.op("Floor", g.op("Div", a, b)), b))


def _floordiv(g: OnnxBuilder, a: OnnxProxy, b: OnnxProxy) -> OnnxProxy:
    """a // b == (a - a mod b) / b, where the division of integers is exact; ONNX's own rounds towards zero."""
    if a.dtype is dtypes.int64:
        return g.op("Div", g.op("Sub", a, _mod(g, a, b)), b)
    return g.op("Floor", g.op("Div", a, b))


def _shift(by: Callable[..., OnnxProxy]) -> Callable[..., OnnxProxy]:
    """a << k == a * 2**k and a >> k == a // 2**k, for a k that is known."""

    def write(g: OnnxBuilder, a: OnnxProxy, k: OnnxProxy) -> OnnxProxy:
        if k.constant is None:
            raise Unsupported("ONNX shifts signed integers by fixed numbers only, as products and quotients")
        return by(g, a, g.constant(2 ** int(k.constant), like=a))

    return write


def _bitwise(name: str) -> Callable[..., OnnxProxy]:
    return lambda g, *operands: g.op(name if operands[0].dtype is dtypes.bool_ else f"Bitwise{name}", *operands)


def _rounded(name: str) -> Callable[..., OnnxProxy]:
    return lambda g, a: g.cast(g.op(name, a), dtypes.int64)


SCALAR_OPS: dict[str, ScalarOp] = {
    "add": ScalarOp(_node("Add")),
    "sub": ScalarOp(_node("Sub")),
    "mul": ScalarOp(_node("Mul")),
    "neg": ScalarOp(_node("Neg")),
    "abs": ScalarOp(_node("Abs")),
    "truediv": ScalarOp(_node("Div"), operands="float"),
    "floordiv": ScalarOp(_floordiv),
    "mod": ScalarOp(_mod),
    "pow": ScalarOp(_node("Pow")),
    "min": ScalarOp(_node("Min")),
    "max": ScalarOp(_node("Max")),
    "lshift": ScalarOp(_shift(_node("Mul"))),
    "rshift": ScalarOp(_shift(_floordiv)),
    "and": ScalarOp(_bitwise("And")),
    "or": ScalarOp(_bitwise("Or")),
    "xor": ScalarOp(_bitwise("Xor")),
    "eq": ScalarOp(_node("Equal"), result="bool"),
    "ne": ScalarOp(lambda g, a, b: g.op("Not", g.op("Equal", a, b)), result="bool"),
    "lt": ScalarOp(_node("Less"), result="bool"),
    "le": ScalarOp(_node("LessOrEqual"), result="bool"),
    "gt": ScalarOp(_node("Greater"), result="bool"),
    "ge": ScalarOp(_node("GreaterOrEqual"), result="bool"),
    "not": ScalarOp(_node("Not"), operands="bool"),
    "int": ScalarOp(lambda g, a: g.cast(a, dtypes.int64), result="int"),
    "float": ScalarOp(lambda g, a: a, operands="float"),
    "bool": ScalarOp(lambda g, a: a, operands="bool"),
    "floor": ScalarOp(_rounded("Floor"), result="int", operands="float"),
    "ceil": ScalarOp(_rounded("Ceil"), result="int", operands="float"),
    "round": ScalarOp(_rounded("Round"), result="int", operands="float"),
    "trunc": ScalarOp(lambda g, a: g.cast(a, dtypes.int64), result="int", operands="float"),
    "sqrt": ScalarOp(_node("Sqrt"), operands="float"),
}
"""Operators on Python numbers by the name after `prim::`."""


def write_scalar(g: OnnxBuilder, name: str, operands: Sequence[Any]) -> Scalar:
    """The result of `prim::name` on operands of which at least one is traced.

    Args:
        g: The builder of the model.
        name: The operator's name after `prim::`.
        operands: Numbers, sizes and Scalars.
    """
    op = SCALAR_OPS[name]
    kind = op.operands or _widest(operands, name)
    dtype = _DTYPES[kind]

    def make() -> OnnxProxy:
        return op.write(g, *(g.constant(item, dtype=dtype) for item in operands))

    return g.scalar(_DTYPES[op.result or kind], make)


def _widest(operands: Sequence[Any], name: str) -> str:
    """The kind that Python computes in; bools count as ints except to `and`, `or` and `xor`."""
    kinds = [_kind(item) for item in operands]
    unknown = [kind for kind in kinds if kind not in _ORDER]
    if unknown:
        raise Unsupported(f"ONNX has no traced numbers of the type {unknown[0]}")
    floor = 0 if name in ("and", "or", "xor") else 1
    return _ORDER[max(floor, *(_ORDER.index(kind) for kind in kinds))]


def _kind(item: Any) -> str:
    if isinstance(item, OnnxProxy):
        return kind_of(item.dtype)
    return "int" if type(item) is SizeExpr else type(item).__name__
