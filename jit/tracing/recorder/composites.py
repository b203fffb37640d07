"""Composites as themselves: their parts are recorded, then one node over them takes over what they made."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

from jit.eager import context, dispatch
from jit.eager.autocasting import COUNT
from jit.eager.generators import Generator
from jit.eager.tensors import Tensor
from jit.ir import Node, Op, Value

from .memory import StorageCell
from .recording_trace import RecordingTrace
from .records import Composite
from .tape import nodes_after


class Changes(NamedTuple):
    """The tensors and generators that the parts of a composite have made or changed."""

    fresh: list[Tensor]
    """The results that they made."""
    moved: list[StorageCell]
    """Inputs that they wrote to."""
    drawn: list[Generator]
    """Generators that they drew from."""


def record_composite(trace: RecordingTrace, op: Op, values: Sequence[Any]) -> Any:
    """Record the parts of a composite, then its node, which takes over their outputs; see Note [Folding].

    Parts that `autocast` casts for stand for themselves, see Note [Regions] in jit.eager.autocasting.
    """
    operands, attributes = op.split([trace.operand(v) for v in values])
    casts = COUNT.get()

    def is_itself() -> bool:
        return COUNT.get() == casts  # else its parts compute something else than what the composite says elsewhere

    def run() -> Any:
        with context.standing_at(line):
            return dispatch.run(op, values)

    line = context.user_source() if context.is_ours(op.body) else context.SOURCE.get()  # not for every part anew
    return record_over(trace, op.name, operands, attributes, run, is_itself)


def record_over(
    trace: RecordingTrace, kind: str, operands: Any, attributes: dict[str, Any], run: Callable[[], Any],
    is_itself: Callable[[], bool] = lambda: True,
) -> Any:  # fmt: skip
    """Record what a function does, then a node over that, which takes over its outputs; see Note [Folding].

    Args:
        trace: The trace.
        kind: The kind of the node.
        operands: Its operands, from before the function runs.
        attributes: Its attributes.
        run: The function, which returns a tensor or several.
        is_itself: Whether there is to be such a node, once the function has run.
    """
    last, roots, states = trace.graph._last, trace.memory.roots(), dict(trace.randomness.states)
    scope = context.SCOPE.get()
    with trace.tape.apart():
        result = run()
    if not is_itself():
        return result
    parts = nodes_after(trace.graph, last)
    changes = _changes(trace, {v for node in parts for v in node.outputs}, result, roots, states)
    if any(changes):
        node = _node_over(trace, kind, operands, attributes, parts)
        node.scope = scope
        composite = Composite(node, parts, [])
        _hand_over(trace, composite, changes)
        pairs = zip(composite.taken, node.outputs, strict=True)
        trace.tape.elemental |= {output for part, output in pairs if part in trace.tape.elemental}
        trace.tape.composites.append(composite)
    return result


def _changes(
    trace: RecordingTrace,
    inside: set[Value],
    result: Any,
    roots: dict[StorageCell, Value],
    states: dict[Generator, Value],
) -> Changes:
    """The results, inputs and generators that now hold values of `inside`; `roots` and `states` are those of before."""
    outputs = [t for t in dispatch.unpack(result) if isinstance(t, Tensor)]
    fresh = [t for t in outputs if trace.memory.binding(t) is not None and trace.value_of(t) in inside]
    now = trace.memory.roots().items()
    moved = [cell for cell, root in now if cell in roots and roots[cell] is not root and root in inside]
    drawn = [g for g, state in trace.randomness.states.items() if states.get(g) is not state and state in inside]
    return Changes(fresh, moved, drawn)


def _node_over(
    trace: RecordingTrace, kind: str, operands: Any, attributes: dict[str, Any], parts: Sequence[Node]
) -> Node:
    """The composite's node behind its parts; what they use besides its operands is an attribute of it."""
    node = trace.graph.create(kind, operands, attributes)
    own = {*node.inputs, *(v for part in parts for v in part.outputs)}
    extra = tuple(v for v in dict.fromkeys(v for part in parts for v in part.inputs) if v not in own)
    if extra:
        node = trace.graph.create(kind, operands, {**attributes, "extra": extra})
    trace.graph.insert(node)
    trace.tape.mark(node)
    return node


def _hand_over(trace: RecordingTrace, composite: Composite, changes: Changes) -> None:
    """Let the composite's outputs take the place of the values that its parts have made."""
    for tensor in changes.fresh:
        binding = trace.memory.binding(tensor)
        assert binding is not None
        value = _take_over(composite, binding.value)
        if binding.cell.root is binding.value:
            binding.cell.root = value
        binding.value = value
    for cell in changes.moved:
        cell.root = _take_over(composite, cell.root)
    for generator in changes.drawn:
        trace.randomness.advance(generator, _take_over(composite, trace.randomness.states[generator]))


def _take_over(composite: Composite, part: Value) -> Value:
    """The output of the composite that stands for a value of one of its parts."""
    if part in composite.taken:
        return composite.node.outputs[composite.taken.index(part)]
    composite.taken.append(part)
    return composite.node.add_output(part.type)
