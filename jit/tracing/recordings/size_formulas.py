"""Formulas: whole numbers that arithmetic makes of sizes by way of floats, such as floor(n * 0.5).

They are no expressions of the IR, in whose graphs they stay nodes; here they say where a view that is returned begins
and ends.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from jit.ir import Value
from jit.ir.scalars import scalar_function
from jit.ir.sizes import SizeExpr, SizeSymbol
from jit.passes.support.symbolic_sizes import SizesMisfit

DEEPEST = 50
"""The most functions one inside the other."""


@dataclass(frozen=True, slots=True)
class SizeFormula:
    """A function of numbers, applied to sizes, numbers and formulas."""

    kind: str
    """The kind of a node, such as "prim::floor"."""
    operands: tuple[Any, ...]

    @property
    def symbols(self) -> set[SizeSymbol]:
        """The symbols of the sizes in it."""
        return {s for o in self.operands if type(o) in (SizeExpr, SizeFormula) for s in o.symbols}

    def evaluate(self, values: Mapping[SizeSymbol, int]) -> Any:
        """The number for values of the symbols."""
        known = sorted(values, key=str)
        return self.function(known)(*(values[symbol] for symbol in known))

    def function(self, symbols: Sequence[SizeSymbol]) -> Callable[..., Any]:
        """The number as a function of the values of `symbols`."""
        found = scalar_function(self.kind)
        assert found is not None
        python, parts = found.python, [_function(operand, symbols) for operand in self.operands]
        return lambda *sizes: python(*[part(*sizes) for part in parts])

    def __str__(self) -> str:
        return f"{self.kind.removeprefix('prim::')}({', '.join(map(str, self.operands))})"

    __repr__ = __str__


def _function(operand: Any, symbols: Sequence[SizeSymbol]) -> Callable[..., Any]:
    if type(operand) in (SizeExpr, SizeFormula):
        found: Callable[..., Any] = operand.function(symbols)
        return found
    return lambda *sizes: operand


def formula_of(value: Value, deep: int = 0) -> SizeFormula:
    """The formula of a number in a graph whose sizes have names.

    Raises:
        SizesMisfit: It is not made of sizes alone.
    """
    node = value.node
    if scalar_function(node.kind) is None or deep > DEEPEST:
        raise SizesMisfit(f"a view that is returned depends on a number of {node.source}, which no rule knows")
    operands = [formula_of(item, deep + 1) if isinstance(item, Value) else item for item in node.operands]
    return SizeFormula(node.kind, tuple(operands))
