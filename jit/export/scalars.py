"""Arithmetic on traced Python numbers, `prim::add` and its like: what it gives, and the ONNX nodes that compute it.

A traced `int` is an int64 tensor without dims, a `float` a float64, a `bool` a bool.
"""

from __future__ import annotations

import math
import operator
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from jit.ir import dtypes

from .proxies import Proxy, Scalar, Unsupported, kind_of

if TYPE_CHECKING:
    from .builder import Builder

_ORDER = ("bool", "int", "float")
_DTYPES = {"bool": dtypes.bool_, "int": dtypes.int64, "float": dtypes.float64}


@dataclass(frozen=True)
class ScalarOp:
    """One operator on Python numbers."""

    python: Callable[..., Any]
    """What it gives on plain numbers."""
    write: Callable[..., Proxy]
    """`write(g, *operands)`: the nodes, for operands of one element type."""
    result: str | None = None
    """The kind of the result; None: that of the operands."""
    operands: str | None = None
    """The kind that operands are brought to; None: the widest of them, at least int."""
    affine: bool = False
    """Whether a result that two or three sizes of an axis agree on is the same for all of its sizes."""


def _node(name: str) -> Callable[..., Proxy]:
    return lambda g, *operands: g.op(name, *operands)


def _mod(g: Builder, a: Proxy, b: Proxy) -> Proxy:
    """a mod b with the sign of b, as Python has it."""
    if a.dtype is dtypes.int64:
        return g.op("Mod", a, b)
    return g.op("Sub", a, g.op("Mul", g.op("Floor", g.op("Div", a, b)), b))


def _floordiv(g: Builder, a: Proxy, b: Proxy) -> Proxy:
    """a // b == (a - a mod b) / b, where the division of integers is exact; ONNX's own rounds towards zero."""
    if a.dtype is dtypes.int64:
        return g.op("Div", g.op("Sub", a, _mod(g, a, b)), b)
    return g.op("Floor", g.op("Div", a, b))


def _shift(by: Callable[..., Proxy]) -> Callable[..., Proxy]:
    """a << k == a * 2**k and a >> k == a // 2**k, for a k that is known."""

    def write(g: Builder, a: Proxy, k: Proxy) -> Proxy:
        if k.constant is None:
            raise Unsupported("ONNX shifts no signed integers, and by how much is not known")
        return by(g, a, g.constant(2 ** int(k.constant), like=a))

    return write


def _bitwise(name: str) -> Callable[..., Proxy]:
    return lambda g, *operands: g.op(name if operands[0].dtype is dtypes.bool_ else f"Bitwise{name}", *operands)


def _rounded(name: str) -> Callable[..., Proxy]:
    return lambda g, a: g.cast(g.op(name, a), dtypes.int64)


SCALAR_OPS: dict[str, ScalarOp] = {
    "add": ScalarOp(operator.add, _node("Add"), affine=True),
    "sub": ScalarOp(operator.sub, _node("Sub"), affine=True),
    "mul": ScalarOp(operator.mul, _node("Mul"), affine=True),
    "neg": ScalarOp(operator.neg, _node("Neg"), affine=True),
    "abs": ScalarOp(operator.abs, _node("Abs")),
    "truediv": ScalarOp(operator.truediv, _node("Div"), operands="float"),
    "floordiv": ScalarOp(operator.floordiv, _floordiv),
    "mod": ScalarOp(operator.mod, _mod),
    "pow": ScalarOp(operator.pow, _node("Pow")),
    "min": ScalarOp(min, _node("Min")),
    "max": ScalarOp(max, _node("Max")),
    "lshift": ScalarOp(operator.lshift, _shift(_node("Mul"))),
    "rshift": ScalarOp(operator.rshift, _shift(_floordiv)),
    "and": ScalarOp(operator.and_, _bitwise("And")),
    "or": ScalarOp(operator.or_, _bitwise("Or")),
    "xor": ScalarOp(operator.xor, _bitwise("Xor")),
    "eq": ScalarOp(operator.eq, _node("Equal"), result="bool"),
    "ne": ScalarOp(operator.ne, lambda g, a, b: g.op("Not", g.op("Equal", a, b)), result="bool"),
    "lt": ScalarOp(operator.lt, _node("Less"), result="bool"),
    "le": ScalarOp(operator.le, _node("LessOrEqual"), result="bool"),
    "gt": ScalarOp(operator.gt, _node("Greater"), result="bool"),
    "ge": ScalarOp(operator.ge, _node("GreaterOrEqual"), result="bool"),
    "not": ScalarOp(operator.not_, _node("Not"), operands="bool"),
    "int": ScalarOp(int, lambda g, a: g.cast(a, dtypes.int64), result="int"),
    "float": ScalarOp(float, lambda g, a: a, operands="float"),
    "bool": ScalarOp(bool, lambda g, a: a, operands="bool"),
    "floor": ScalarOp(math.floor, _rounded("Floor"), result="int", operands="float"),
    "ceil": ScalarOp(math.ceil, _rounded("Ceil"), result="int", operands="float"),
    "round": ScalarOp(round, _rounded("Round"), result="int", operands="float"),
    "trunc": ScalarOp(math.trunc, lambda g, a: g.cast(a, dtypes.int64), result="int", operands="float"),
    "sqrt": ScalarOp(math.sqrt, _node("Sqrt"), operands="float"),
}
"""By the name after `prim::`."""


def scalar_op(kind: str) -> ScalarOp | None:
    """The operator of a node kind such as `prim::add`."""
    namespace, _, name = kind.partition("::")
    return SCALAR_OPS.get(name) if namespace == "prim" else None


def write_scalar(g: Builder, name: str, operands: Sequence[Any]) -> Scalar:
    """The result of `prim::name` on operands of which at least one is a Scalar."""
    op = SCALAR_OPS[name]
    kind = op.operands or _widest(operands, name)
    dtype = _DTYPES[kind]

    def make() -> Proxy:
        return op.write(g, *(g.constant(item, dtype=dtype) for item in operands))

    return g.scalar(_DTYPES[op.result or kind], make)


def _widest(operands: Sequence[Any], name: str) -> str:
    """The kind that Python computes in; bools count as ints except to `and`, `or` and `xor`."""
    kinds = [kind_of(item.dtype) if isinstance(item, Proxy) else type(item).__name__ for item in operands]
    unknown = [kind for kind in kinds if kind not in _ORDER]
    if unknown:
        raise Unsupported(f"ONNX has no traced numbers of the type {unknown[0]}")
    floor = 0 if name in ("and", "or", "xor") else 1
    return _ORDER[max(floor, *(_ORDER.index(kind) for kind in kinds))]
