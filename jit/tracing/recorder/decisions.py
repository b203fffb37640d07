"""Decisions on promoted numbers: which of them a recording needs as they are, and on which it decides at all."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from jit.ir import Value
from jit.ir.scalars import scalar_function
from jit.ir.types import INT

from .tracer import Trace


def pinned(trace: Trace) -> dict[int, Any]:
    """The promoted numbers that a recording needs as they are, each with the line that does.

    `range(n)`, `math.sqrt(2 * n)` and a key of a dict need the number; `n > 3` and `n // 8` are asked of many alike.
    """
    fixed = {c.number: None for c in trace.captures.found if c.number is not None and c.is_fixed}
    return {**fixed, **_behind_guards(trace, values_alone=True)}


def decided(trace: Trace) -> dict[int, Any]:
    """The promoted numbers on which Python has decided in any way, each with the line."""
    return _behind_guards(trace, values_alone=False)


def needs_items(trace: Trace) -> bool:
    """Whether a recording needs a whole number as it is that was read from a tensor."""
    numbers = {n.output: 0 for n in trace.graph.nodes if n.kind == "prim::item" and n.output.type == INT}
    guards = trace.guards.records if numbers else ()
    return any(type(g.outcome) is int and _behind(g.node.inputs[0], numbers, one_to_one=True) for g in guards)


def _behind_guards(trace: Trace, values_alone: bool) -> dict[int, Any]:
    numbers = {c.value: c.number for c in trace.captures.found if c.number is not None and not c.is_fixed}
    found: dict[int, Any] = {}
    for guard in trace.guards.records if numbers else ():
        if not values_alone or type(guard.outcome) is not bool:
            for number in _behind(guard.node.inputs[0], numbers, one_to_one=values_alone):
                found.setdefault(number, guard.source)
    return found


def _behind(value: Value, numbers: Mapping[Value, int], one_to_one: bool) -> set[int]:
    """The numbers from which a value was computed; with `one_to_one` those that it tells apart."""
    stack, seen, found = [value], {value}, set()
    while stack:
        each = stack.pop()
        if each in numbers:
            found.add(numbers[each])
            continue
        function = scalar_function(each.node.kind)
        if not one_to_one or (function is not None and function.is_one_to_one):
            new = [operand for operand in each.node.inputs if operand not in seen]
            seen.update(new)
            stack += new
    return found


__all__ = ["decided", "needs_items", "pinned"]
