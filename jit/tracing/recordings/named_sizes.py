"""A recording with names for the sizes that vary, and the conditions under which each stage is right for others."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

from jit.eager.view_paths import ViewPath, with_numbers
from jit.ir import Graph, TensorType, Value
from jit.ir.graph import map_template
from jit.ir.size_conditions import SizeCondition, SizeConditions, compiled
from jit.ir.sizes import SizeExpr, SizeSymbol
from jit.passes import CLEANUP, apply
from jit.passes.support.symbolic_sizes import name_sizes

from ..recorder.tape import Tape
from .carriers import SMALLEST
from .chains import Chain, folded, number_guards
from .counts import is_open
from .layouts import Ranks, ranks_of, row_major, strides_of
from .size_formulas import formula_of

LETTERS = "nmkpqrstuvwxyz"
"""The names of the first symbols; further ones are n1, m1 and so on."""

Varying = Sequence[tuple[int, int]]
"""The sizes that vary: pairs of an input and a dim."""


@dataclass(frozen=True)
class NamedSizes:
    """A folded graph that speaks of symbols.

    Args:
        graph: The stages that have a key; there may be more of them in the trace.
        symbols: One for each size that varies.
        conditions: What must hold of these sizes, for each stage.
        views: The ways to the views that leave the function; see `Tape.views`.
    """

    graph: Graph
    symbols: Sequence[SizeSymbol]
    conditions: Sequence[Sequence[SizeCondition]]
    views: Sequence[ViewPath]

    def serves(self, sizes: Sequence[int], stages: int) -> bool:
        """Whether the first `stages` stages after stage 0 are right for sizes for which that is right."""
        return all(holds(*sizes) for holds in self._tests[:stages])

    @cached_property
    def _tests(self) -> list[Callable[..., bool]]:
        return [compiled(found, self.symbols) for found in self.conditions[1:]]


def with_named_sizes(chain: Chain, varying: Varying) -> NamedSizes:
    """The graph of a chain in which the sizes `varying` have names.

    Raises:
        SizesMisfit: Some operator was recorded with sizes that do not follow from its operands'.
    """
    tape, _, symbols, found = _named_tape(chain, varying)
    graph = folded(tape, general=True)
    apply(graph, CLEANUP, options={"dce": {"by_sizes": True}})
    return NamedSizes(graph, symbols, found, tape.views)


def let_have(chain: Chain, varying: Varying, sizes: Sequence[int]) -> None:
    """Let the types of a chain be those of other sizes of what varies, so that a stage can be recorded for these."""
    _, mapped, symbols, _ = _named_tape(chain, varying)
    values = dict(zip(symbols, sizes, strict=True))

    def number(dim: Any) -> Any:
        return dim.evaluate(values) if type(dim) is SizeExpr else dim

    for old, new in mapped.items():
        named = new.type
        if isinstance(named, TensorType) and named.shape is not None and None not in named.shape:
            shape, strides = map_template(number, named.shape), map_template(number, named.strides)
            old.type = TensorType(named.dtype, shape, strides, named.device)


def _named_tape(chain: Chain, varying: Varying) -> tuple[Tape, dict[Value, Value], Sequence[SizeSymbol], Any]:
    """A copy of what a chain has recorded, in which sizes have names, and the map of old values to new ones."""
    tape, mapped, _ = chain.trace.tape.copied(len(chain.keys) + 1)
    graph = tape.graph
    number_guards(graph)
    for guard in [node for node in graph.nodes if is_open(node)]:
        guard.erase()
    symbols = symbols_of(varying)
    shapes: dict[Value, TensorType] = {}
    for symbol, (index, dim) in zip(symbols, varying, strict=True):
        value = graph.inputs[index]
        shapes[value] = _named(value.type, shapes.get(value, value.type), dim, symbol)
    conditions = SizeConditions(dict(zip(symbols, sizes_in(chain.trace.graph.inputs, varying), strict=True)))

    def enter(stage: int) -> dict[Value, TensorType]:
        return _types_of_gradients(graph, stage, chain.keys[stage - 1][0][0])

    found, numbers = name_sizes(graph, shapes, conditions, enter, {c.node: c.taken for c in tape.composites})
    tape.views = [with_numbers(path, lambda n: _known(n, numbers)) for path in tape.views]
    for composite in tape.composites:
        composite.parts = [part for part in composite.parts if part.graph is graph]
    return tape, mapped, symbols, found


def _known(number: Any, numbers: Mapping[Value, Any]) -> Any:
    """A number in the way to a view, as a size or a formula of sizes.

    Raises:
        SizesMisfit: It does not follow from the sizes of inputs.
    """
    if not isinstance(number, Value):
        return number
    return numbers[number] if number in numbers else formula_of(number)


def sizes_in(inputs: Sequence[Value], varying: Varying) -> tuple[int, ...]:
    """The sizes that vary, as they were when the types of the inputs were noted."""
    return tuple(inputs[index].type.shape[dim] for index, dim in varying)  # type: ignore[attr-defined]


def symbols_of(varying: Varying) -> list[SizeSymbol]:
    """The symbols of the sizes that vary."""
    return [_symbol(number) for number in range(len(varying))]


def _symbol(number: int) -> SizeSymbol:
    round, letter = divmod(number, len(LETTERS))
    return SizeSymbol(LETTERS[letter] + (str(round) if round else ""))


def _named(recorded: Any, type: Any, dim: int, symbol: SizeSymbol) -> TensorType:
    """A type with one more name for a size; its strides follow from its sizes, or are what they were around gaps."""
    shape = (*type.shape[:dim], symbol.size, *type.shape[dim + 1 :])
    if ranks_of(recorded.shape, recorded.strides) is None:
        return TensorType(recorded.dtype, shape, recorded.strides, recorded.device)
    return _lying(recorded, shape, _ranks(recorded))


def _types_of_gradients(graph: Graph, stage: int, kinds: Sequence[Any]) -> dict[Value, TensorType]:
    """The types of the inputs of a stage: gradients of results of the stage before, of the sizes of these."""
    before = graph.stages[stage - 1]
    results = [*before.outputs, *(value for _, value in before.updates)]
    given = [result for result, kind in zip(results, kinds, strict=True) if kind is not None]
    return {
        gradient: _lying(gradient.type, result.type.shape, _ranks(gradient.type))
        for gradient, result in zip(graph.stages[stage].inputs, given, strict=True)
        if isinstance(gradient.type, TensorType)
    }


def _ranks(type: Any) -> Ranks:
    """The ranks of the dims of a recorded type; gradients with gaps are copied before they are used."""
    return ranks_of(type.shape, type.strides) or row_major(len(type.shape))


def _lying(type: Any, shape: Any, ranks: Ranks) -> TensorType:
    strides = None if None in shape else strides_of(shape, ranks)
    return TensorType(type.dtype, shape, strides, type.device)


class SizeTest:
    """The conditions of stage 0 of a recording for many sizes, asked of those of a call."""

    def __init__(self, named: NamedSizes, varying: Varying) -> None:
        self.varying = tuple(varying)
        self.conditions = tuple(named.conditions[0])
        self._holds = compiled(self.conditions, named.symbols)
        self._symbols = tuple(named.symbols)

    def holds(self, sizes: Sequence[int]) -> bool:
        """Whether all of them hold."""
        return min(sizes, default=SMALLEST) >= SMALLEST and self._holds(*sizes)

    def unmet(self, sizes: Sequence[int], name: Callable[[int, int], str]) -> str | None:
        """The first condition that does not hold, in words; None if all of them do.

        Args:
            sizes: The sizes that vary.
            name: Says what the size of a dim of an input is called.
        """
        if self.holds(sizes):
            return None
        small = next((at for size, at in zip(sizes, self.varying) if size < SMALLEST), None)
        if small is not None:
            return f"{name(*small)} is less than {SMALLEST}, or beyond all sizes"
        values = dict(zip(self._symbols, sizes, strict=True))
        failed = next(c for c in self.conditions if not c.holds(values))
        places = {symbol.name: name(*at) for symbol, at in zip(self._symbols, self.varying, strict=True)}
        words = re.sub(r"[a-z_]\w*", lambda match: places.get(match[0], match[0]), str(failed))
        return f"{words} does not hold{f' (decided at {failed.source})' if failed.source else ''}"
