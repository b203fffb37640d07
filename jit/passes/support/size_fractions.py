"""Fractions of sizes as tensors, so that kernels compute them: `n / (n - 1)`, `2 * pi / n`.

They are computed in float64, as Python does. A division is left to Python where a size that it divides by may be 0,
because Python raises an error then.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from jit.ir import Value
from jit.ir.dtypes import float64
from jit.ir.sizes import SizeExpr, are_decided, only_if
from jit.ir.types import FLOAT

from .builder import GraphBuilder

_FUNCTIONS = {"prim::truediv": "div", "prim::mul": "mul", "prim::add": "add", "prim::sub": "sub"}
_EXACT = 1 << 53
"""Whole numbers below this are float64s."""


def fraction_of_sizes(number: Value, F: GraphBuilder) -> Any:
    """A 0-d float64 tensor of a float that follows from sizes; None if it does not."""
    if not are_decided() or not has_sizes(number) or not _is_fraction(number):
        return None
    return _written(number, F)


def has_sizes(number: Any) -> bool:
    """Whether a number is a size, or found from sizes by arithmetic."""
    if not isinstance(number, Value):
        return type(number) is SizeExpr
    return number.node.kind in _FUNCTIONS and any(map(has_sizes, number.node.operands))


def _is_fraction(number: Any) -> bool:
    """Whether the arithmetic behind a number is on floats and sizes, and always goes well."""
    if not isinstance(number, Value):
        return type(number) in (SizeExpr, float) or (type(number) is int and abs(number) < _EXACT)
    node = number.node
    if number.type != FLOAT or node.kind not in _FUNCTIONS or not all(map(_is_fraction, node.operands)):
        return False
    return node.kind != "prim::truediv" or _is_never_zero(node.operands[1])


def _is_never_zero(divisor: Any) -> bool:
    is_there: Callable[[], bool] = lambda: divisor != 0  # noqa: E731
    return not isinstance(divisor, Value) and only_if(is_there)


def _written(number: Any, F: GraphBuilder) -> Any:
    if not isinstance(number, Value):
        return F.scalar_tensor(number, dtype=float64)
    operands = [_written(operand, F) for operand in number.node.operands]
    return getattr(F, _FUNCTIONS[number.node.kind])(*operands)
