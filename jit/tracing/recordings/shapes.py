"""One recording for many sizes: when sizes vary, and recordings of two of them are the same program.

Note [Families]
    Sizes are part of the key, so every size is recorded - but sizes that Python reads are traced integers, and what
    Python decides on them is guarded. As soon as a second size has been recorded, the sizes in which the two calls
    differ get names, and all that follows from them becomes expressions and conditions (Note [Sizes get names] in
    jit.passes.support.symbolic_sizes). If the two recordings are the same program then, node for node, one of them
    serves all sizes of that *family* that meet its conditions: keys that are equal when every size of 2 or more counts
    as the same. 0 and 1 are sizes of their own, because they broadcast. A size that does not meet the conditions is
    recorded by itself as before, and may find a partner of its own.

        f(ones(2)), f(ones(3))     two recordings:    %0 : Float(2) = aten::mul(%x, 2)
                                                      %0 : Float(3) = aten::mul(%x, 2)
        f(ones(4)), f(ones(5))     served by one:     %0 : Float(n) = aten::mul(%x, 2)

    Only sizes that were seen to differ have names: two that were equal in both calls by chance stay two sizes, and what
    asks whether they are equal leaves a condition.

    A function that is another program for each of four sizes - a loop over one - is not compared any more, and a size
    that has not come before runs untraced: recording it would take many times as long, and it may never come again. The
    second call of that size records it.

    The backwards of a general recording are recorded for two sizes, too, before one serves them all; they read sizes
    from the tensors, not from memory. A general recording runs on the interpreter; a size that comes often gets a
    recording of its own, which is optimised for it.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from jit.ir import Graph, Node, TensorType, Value, find
from jit.ir.graph import map_template
from jit.ir.sizes import SizeExpr, any_symbolic
from jit.passes.support.symbolic_sizes import SizesMisfit

from ..recorder.tracer import Trace
from .chains import fork
from .named_sizes import with_named_sizes

SAMPLES = 4
"""The number of recordings of other sizes with which a new one is compared."""
OFTEN = 32
"""The number of calls of one size that earn it a recording of its own."""

Dims = Mapping[str, Sequence[int]]
"""The dims whose sizes vary, by the names of tensors."""


def general_kind(kind: tuple[Any, ...], dims: Sequence[int] | None) -> tuple[Any, ...]:
    """The kind of a tensor with sizes of 2 and more made alike; of contiguous and expanded ones alone.

    Args:
        kind: A tuple of dtype, sizes, layout and more.
        dims: The dims whose sizes vary; None for all.
    """
    if len(kind) < 3:
        return kind
    dtype, sizes, layout, *rest = kind
    expanded = None if layout is None else tuple(stride == 0 for stride in layout)
    if expanded is not None and layout != _strides(sizes, expanded):
        return kind
    varying = range(len(sizes)) if dims is None else [d % len(sizes) for d in dims if sizes]
    return (dtype, tuple(min(n, 2) if d in varying else -n for d, n in enumerate(sizes)), expanded, *rest)


def _strides(sizes: Sequence[int], expanded: Sequence[bool]) -> tuple[int, ...]:
    """Row-major strides, with 0 for every expanded dim."""
    strides, step = [], 1
    for size, along in zip(reversed(sizes), reversed(expanded), strict=True):
        strides.append(0 if along else step)
        step *= 1 if along else size
    return tuple(reversed(strides))


Pattern = tuple[tuple[int, ...], ...]
"""The dims whose sizes vary, for each tensor among the arguments."""


def pattern_of(kinds: Sequence[Any], others: Sequence[Any]) -> Pattern:
    """The dims in which the sizes of two keys differ."""
    pairs = [(a[1], b[1]) if len(a) > 2 else ((), ()) for a, b in zip(kinds, others, strict=True)]
    return tuple(tuple(d for d, (n, m) in enumerate(zip(*pair, strict=True)) if n != m) for pair in pairs)


@dataclass(eq=False)
class SizeFamily:
    """All that was recorded of keys that differ in sizes alone."""

    general: dict[Pattern, dict[Any, Any]] = field(default_factory=dict)
    """Entries with general recordings, by the sizes that vary and the rest of the key."""
    samples: list[tuple[Any, Any]] = field(default_factory=list)
    """Pairs (key, recording) that have no equal yet, the latest last."""
    calls: Counter[Any] = field(default_factory=Counter)
    """The number of calls of each key."""
    closed: str | None = None
    """Why no further general recordings are made."""

    def partner(self, key: Any, recording: Any) -> Any:
        """The key under which the same program was recorded for other sizes, if any; this one becomes a sample, too."""
        if self.closed is not None:
            return None
        others = [(k, r) for k, r in reversed(self.samples) if k != key]
        self.samples = [*self.samples, (key, recording)][-SAMPLES:]
        compare = _Comparison(recording)
        return next((k for k, r in others if compare.is_same(r, pattern_of(key.tensors, k.tensors))), None)


def varying_in(pattern: Pattern, positions: Sequence[int]) -> list[tuple[int, int]]:
    """The sizes that vary, as pairs of an input and a dim.

    Args:
        pattern: The dims that vary, for each tensor among the arguments.
        positions: Which of these tensors are inputs.
    """
    return [(at, dim) for at, index in enumerate(positions) for dim in pattern[index]]


# -- when two programs are the same ------------------------------------------------------------------------------


class _Comparison:
    """One recording, compared with those of other sizes."""

    def __init__(self, recording: Any) -> None:
        self._recording = recording
        self._signatures: dict[Any, Any] = {}
        """The signatures of the recording, by the sizes that have names."""

    def is_same(self, other: Any, pattern: Pattern) -> bool:
        """Whether another recording is the same program once the sizes in `pattern` have names."""
        one = self._recording
        if one.positions != other.positions or _operators(one.trace) != _operators(other.trace):
            return False
        varying = tuple(varying_in(pattern, one.positions))
        try:
            if varying not in self._signatures:
                self._signatures[varying] = _signature_of(one, varying)
            return bool(self._signatures[varying] == _signature_of(other, varying))
        except SizesMisfit:
            return False


def _operators(trace: Trace) -> int:
    """The number of operators of stage 0: naming sizes takes time, and leaves it as it is."""
    return sum(node.stage == 0 and node.kind.startswith("aten::") for node in trace.graph.nodes)


def _signature_of(recording: Any, varying: Sequence[tuple[int, int]]) -> Any:
    trace = recording.trace
    forward = trace if len(trace.graph.stages) == 1 else fork(trace, 1)  # without backwards recorded since
    return signature(recording, with_named_sizes(forward, varying).graph)


def signature(recording: Any, graph: Graph) -> Any:
    """All that makes stage 0 of a recording, `graph` being its graph with names for sizes."""
    trace = recording.trace
    found = trace.captures.found
    captures = [(c.name, c.place, c.gradient_of, c.number, c.place is None and id(c.owner)) for c in found]
    result, effects, conditions = recording.result, recording.effects, recording.conditions
    outputs = [(o.kind, o.index, _path(o.path), o.requires_grad) for o in result.outputs]
    rest = (result.structure, recording.positions, effects.targets, effects.slots, conditions.reads)
    moves = [(i, _path(path), grad) for i, path, grad in effects.moves]
    metadata = (conditions.facts, moves, result.tags)
    counted = (conditions.hookless, recording.spent, result.count)
    return (skeleton(graph, 0), captures, outputs, *rest, *metadata, *counted)


def _path(path: Sequence[Any]) -> Any:
    return [(step.op.name, _frozen(step.arguments), step.index) for step in path]


def skeleton(graph: Graph, stage: int) -> Any:
    """The nodes of a stage and what it returns, with values numbered in order; of sizes, those that have names."""
    numbers: dict[Value, int] = {}
    for number, each in enumerate(graph.stages):
        for value in each.inputs if number <= stage else ():
            numbers[value] = len(numbers)
    lines = []
    for node in graph.nodes:
        if node.stage <= stage:
            if node.stage == stage:
                lines.append(_line(node, numbers))
            for value in node.outputs:
                numbers[value] = len(numbers)
    result = graph.stages[stage].result
    kinds = [_kind(value) for value in graph.stages[stage].inputs]
    return (kinds, lines, _numbered(result, result.args, numbers), _numbered(result, result.attributes, numbers))


def _line(node: Node, numbers: Mapping[Value, int]) -> Any:
    attributes = {k: v for k, v in node.attributes.items() if not isinstance(v, Graph)}
    operands = _numbered(node, node.args, numbers), _numbered(node, attributes, numbers)
    parts = [skeleton(body, 0) for body in node.subgraphs]
    return (node.kind, *operands, [_kind(value) for value in node.outputs], _pieces_depend_on(node), parts)


def _pieces_depend_on(node: Node) -> Any:
    """The size that says how many outputs a node has: another one may mean another program."""
    op = find(node.kind)
    if op is None or op.pieces is None or not op.ask(op.pieces, op.join(node.operands, node.attributes)):
        return None
    kind = node.inputs[0].type
    dim = node.attributes.get("dim", 0)
    assert isinstance(kind, TensorType)
    return kind.shape[dim] if kind.shape and isinstance(dim, int) else kind.shape


def _kind(value: Value) -> Any:
    type = value.type
    if not isinstance(type, TensorType):
        return str(type)
    named = any_symbolic(type.shape)
    return (type.dtype, type.ndim, type.strides is None, str(type) if named else None)


def _numbered(node: Node, template: Any, numbers: Mapping[Value, int]) -> Any:
    return _frozen(node.resolve(template, lambda value: ("%", numbers[value])))


def _frozen(template: Any) -> Any:
    """A template whose leaves compare by what they are: 1, 1.0 and True differ, and arrays are equal by content."""
    if isinstance(template, dict):
        return [(key, _frozen(item)) for key, item in template.items()]
    return map_template(_frozen_leaf, template)


def _frozen_leaf(leaf: Any) -> Any:
    if isinstance(leaf, np.ndarray):
        return f"{leaf.dtype}{leaf.shape}{leaf.tobytes()!r}"
    return (type(leaf).__name__, repr(leaf)) if isinstance(leaf, (bool, int, float, complex, SizeExpr)) else leaf


def first_difference(one: Graph, other: Graph) -> str:
    """The line of the first node in which two graphs differ."""
    a, b = skeleton(one, 0)[1], skeleton(other, 0)[1]
    at = next((i for i, (x, y) in enumerate(zip(a, b)) if x != y), min(len(a), len(b)))
    node = next((n for i, n in enumerate(n for n in one.nodes if n.stage == 0) if i == at), None)
    return "the result" if node is None else f"{node.kind} at {node.source}"
