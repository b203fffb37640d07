"""Stage 0 of a recording with names for the sizes that vary, and the conditions under which it is right for others."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from jit.ir import Graph, TensorType, Value
from jit.ir.size_conditions import SizeCondition, SizeConditions, compiled
from jit.ir.sizes import SizeSymbol
from jit.passes.support.symbolic_sizes import forget_sizes, name_sizes

from ..recorder.tracer import Trace
from .chains import graph_of, number_guards

LETTERS = "nmkpqrstuvwxyz"
"""The names of the first symbols; further ones are n1, m1 and so on."""

Varying = Sequence[tuple[int, int]]
"""The sizes that vary: pairs of an input and a dim."""


@dataclass(frozen=True, slots=True)
class NamedSizes:
    """A folded graph that speaks of symbols.

    Args:
        graph: All stages; sizes have names in stage 0, and later stages read them from tensors.
        symbols: One for each size that varies.
        conditions: What must hold of these sizes.
    """

    graph: Graph
    symbols: Sequence[SizeSymbol]
    conditions: Sequence[SizeCondition]


def with_named_sizes(trace: Trace, varying: Varying) -> NamedSizes:
    """The graph of a trace in which the sizes `varying` have names.

    Raises:
        SizesMisfit: Some operator was recorded with sizes that do not follow from its operands'.
    """
    graph = graph_of(trace, general=True)
    number_guards(graph)
    symbols = [_symbol(number) for number in range(len(varying))]
    values: dict[SizeSymbol, int] = {}
    shapes: dict[Value, TensorType] = {}
    for symbol, (index, dim) in zip(symbols, varying, strict=True):
        value = graph.inputs[index]
        type: Any = shapes.get(value, value.type)
        values[symbol] = type.shape[dim]
        shapes[value] = _named(type, dim, symbol)
    conditions = SizeConditions(values)
    name_sizes(graph, shapes, conditions, stages=range(1))
    forget_sizes(graph, range(1, len(graph.stages)))
    return NamedSizes(graph, symbols, conditions.found)


def _symbol(number: int) -> SizeSymbol:
    round, letter = divmod(number, len(LETTERS))
    return SizeSymbol(LETTERS[letter] + (str(round) if round else ""))


def _named(type: TensorType, dim: int, symbol: SizeSymbol) -> TensorType:
    """A type with a name for one size; of an expanded tensor, whose other strides follow from its sizes."""
    assert type.shape is not None
    shape = (*type.shape[:dim], symbol.size, *type.shape[dim + 1 :])
    strides = None if type.strides is None else _row_major(shape, [stride == 0 for stride in type.strides])
    return TensorType(type.dtype, shape, strides, type.device)


def _row_major(sizes: Sequence[Any], expanded: Sequence[bool]) -> tuple[Any, ...]:
    strides, step = [], 1
    for size, along in zip(reversed(sizes), reversed(expanded), strict=True):
        strides.append(0 if along else step)
        step *= 1 if along else size
    return tuple(reversed(strides))


class SizeTest:
    """The conditions of a recording for many sizes, asked of the arrays behind its inputs."""

    def __init__(self, named: NamedSizes, varying: Varying) -> None:
        self.varying = tuple(varying)
        self.conditions = tuple(named.conditions)
        self._holds = compiled(self.conditions, named.symbols)
        self._symbols = tuple(named.symbols)

    def unmet(self, owners: Sequence[Any], name: Callable[[int], str]) -> str | None:
        """The first condition that does not hold, in words; None if all of them do.

        Args:
            owners: The tensors behind the inputs.
            name: Says what an input is called.
        """
        sizes = [owners[index]._array.shape[dim] for index, dim in self.varying]
        if self._holds(*sizes):
            return None
        values = dict(zip(self._symbols, sizes, strict=True))
        failed = next(c for c in self.conditions if not c.holds(values))
        places = {s.name: f"{name(i)}.shape[{d}]" for s, (i, d) in zip(self._symbols, self.varying, strict=True)}
        words = re.sub(r"[a-z_]\w*", lambda match: places.get(match[0], match[0]), str(failed))
        return f"{words} does not hold{f' (decided at {failed.source})' if failed.source else ''}"
