"""Sizes that a fraction is rounded to: `floor(n * 0.5)` is n//2, and `ceil(n / 2)` is (n+1)//2.

The fraction itself is a float, which no expression stands for. But where it was found from a size and a number, and
only few bits are needed, rounding it gives what whole numbers give.
"""

from __future__ import annotations

from typing import Any

from jit.ir import Node, Value
from jit.ir.sizes import SizeExpr, bounds_of

_ROUNDING = ("prim::floor", "prim::ceil", "prim::trunc")
MOST = 1 << 20
"""Numerators and denominators are less than this, so that fractions of sizes below 2**33 are exact, or rounded to what
lies between the same whole numbers."""


def rounded_size(node: Node) -> int | None:
    """The size that a node of rounding gives, as an expression; None if it is no other node's fraction of a size.

    Args:
        node: `prim::floor(%fraction)`, or with ceil or trunc.
    """
    operand = node.operands[0] if node.kind in _ROUNDING else None
    ratio = _ratio(operand.node) if isinstance(operand, Value) else None
    if ratio is None:
        return None
    size, above, below = ratio
    if node.kind == "prim::ceil":
        return -((-size * above) // below)
    low, _ = bounds_of(size)
    is_down = node.kind == "prim::floor" or (node.kind == "prim::trunc" and low is not None and low >= 0)
    return size * above // below if is_down else None


def _ratio(node: Node) -> tuple[int, int, int] | None:
    """(size, numerator, denominator) of a fraction that is positive."""
    if node.kind == "prim::mul":
        sizes = [x for x in node.operands if type(x) is SizeExpr]
        factors = [x for x in node.operands if type(x) is float]
        above, below = _parts(factors[0]) if len(sizes) == len(factors) == 1 else (0, 0)
    elif node.kind == "prim::truediv":
        sizes = [x for x in node.operands[:1] if type(x) is SizeExpr]
        below, above = _parts(node.operands[1]) if sizes else (0, 0)
    else:
        return None
    return (sizes[0], above, below) if 0 < above < MOST and 0 < below < MOST else None


def _parts(number: Any) -> tuple[int, int]:
    """Numerator and denominator of a number, which for a float are exact; zeros if there are none."""
    if type(number) is float and number - number == 0:
        return number.as_integer_ratio()
    return (number, 1) if type(number) is int else (0, 0)
