"""One recording for many sizes: when sizes vary, and recordings of two of them are the same graph.

Note [Families]
    Sizes are part of the key, so every size is recorded - but sizes that Python reads are traced integers, and what
    Python decides on them is guarded. If two recordings that differ in nothing but sizes are the same program, node for
    node, nothing of either was baked in, and one of them serves all sizes of that *family*: keys that are equal when
    every size of 2 or more counts as the same. 0 and 1 are sizes of their own, because they broadcast. Guards on sizes
    stay in the program; where one fails, or the programs differ, the size is recorded by itself as before.

        f(ones(2)), f(ones(3))     two recordings:    %0 : Float(2) = aten::mul(%x, 2)
                                                      %0 : Float(3) = aten::mul(%x, 2)
        f(ones(4)), f(ones(5))     served by one:     %0 : Float(?) = aten::mul(%x, 2)

    Its backwards are recorded for two sizes, too, before one serves them all; sizes that derivatives need are then
    read from the tensors, not from memory. A general recording runs on the interpreter; a size that comes often
    gets a recording of its own, which is optimised for it.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np

from jit.ir import Graph, Node, TensorType, Value, find
from jit.ir.graph import map_template

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
    """Pairs (key, recording) that have no equal yet."""
    calls: Counter[Any] = field(default_factory=Counter)
    """The number of calls of each key."""
    closed: str | None = None
    """Why no further general recordings are made."""

    def partner(self, key: Any, recording: Any) -> Any:
        """The key under which the same program was recorded for other sizes, if any; this one becomes a sample, too."""
        if self.closed is not None:
            return None
        others = [(k, r) for k, r in self.samples if k != key and r.outcomes == recording.outcomes]
        self.samples.append((key, recording))
        if not others:  # most functions never see another size
            return None
        mine = signature(recording)
        return next((k for k, r in others if signature(r) == mine), None)


# -- when two programs are the same ------------------------------------------------------------------------------


def signature(recording: Any) -> Any:
    """All that makes a recording's stage 0, except sizes and strides."""
    trace = recording.trace
    found = trace.captures.found
    captures = [(c.name, c.place, c.gradient_of, c.number, c.place is None and id(c.owner)) for c in found]
    result, effects, conditions = recording.result, recording.effects, recording.conditions
    outputs = [(o.kind, o.index, _path(o.path), o.requires_grad) for o in result.outputs]
    rest = (result.structure, recording.positions, effects.targets, effects.slots, conditions.reads)
    moves = [(i, _path(path), grad) for i, path, grad in effects.moves]
    metadata = (conditions.facts, moves, result.tags)
    counted = (conditions.hookless, recording.spent, result.count)
    return (skeleton(trace.graph, 0), captures, outputs, *rest, *metadata, *counted)


def _path(path: Sequence[Any]) -> Any:
    return [(step.op.name, _frozen(step.arguments), step.index) for step in path]


def skeleton(graph: Graph, stage: int) -> Any:
    """The nodes of a stage and what it returns, with values numbered in order and without their sizes."""
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
    return (node.kind, *operands, [_kind(value) for value in node.outputs], _pieces_depend_on(node))


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
    return (type.dtype, type.ndim, type.strides is None) if isinstance(type, TensorType) else str(type)


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
    return (type(leaf).__name__, repr(leaf)) if isinstance(leaf, (bool, int, float, complex)) else leaf


def first_difference(one: Graph, other: Graph) -> str:
    """The line of the first node in which two graphs differ."""
    a, b = skeleton(one, 0)[1], skeleton(other, 0)[1]
    at = next((i for i, (x, y) in enumerate(zip(a, b)) if x != y), min(len(a), len(b)))
    node = next((n for i, n in enumerate(n for n in one.nodes if n.stage == 0) if i == at), None)
    return "the result" if node is None else f"{node.kind} at {node.source}"


# -- the general graph -------------------------------------------------------------------------------------------


def forget_sizes(graph: Graph) -> None:
    """Let no type in `graph` know a size."""
    for value in graph.values:
        if isinstance(value.type, TensorType) and value.type.shape is not None:
            value.type = replace(value.type, shape=(None,) * len(value.type.shape), strides=None)
    for node in graph.nodes:
        for body in node.subgraphs:
            forget_sizes(body)
