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

    Note [Sizes that vary by turns]
    Two recordings tell only of the sizes in which they differ whether something is baked in. Where the batch changes
    first, and the length afterwards, three recordings that are the same program tell of both:

        f(ones(2, 10)), f(ones(2, 12))     the second size varies
        f(ones(4, 12))                     so does the first: one recording serves all sizes of both

    Recordings of tensors that lie otherwise count, too, if nothing but strides tells them apart: a cache that begins
    as a view and grows by `cat` varies from the second call on.

    A function that is another program for each of four sizes - a loop over one - is not compared any more, and a size
    that has not come before runs untraced: recording it would take many times as long, and it may never come again. The
    second call of that size records it.

    The backwards of a general recording are recorded for two sizes, too, before one serves them all: Note [Stages for
    many sizes] in jit.tracing.recordings.general_stages. A general recording runs on plans that are right for many
    sizes (`sized_plans`), and one shortcut to a plan serves all sizes that it is for (`sized_shortcuts`).
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple, TypeAlias

import numpy as np

from jit.ir import Graph, Node, Op, TensorType, Value, find
from jit.ir.errors import UndecidedSizeError
from jit.ir.graph import map_template
from jit.ir.sizes import SizeExpr, any_symbolic
from jit.passes.support.symbolic_sizes import SizesMisfit

from ..recorder.tracer import Trace
from .chains import Chain
from .counts import count_guards, counts_apart, opened
from .named_sizes import NamedSizes, with_named_sizes
from .size_formulas import SizeFormula

SAMPLES = 4
"""The number of recordings of other sizes with which a new one is compared."""

Dims = Mapping[str, Sequence[int]]
"""The dims whose sizes vary, by the names of tensors."""


Pattern = tuple[tuple[int, ...], ...]
"""The dims whose sizes vary, for each tensor among the arguments."""


def pattern_of(kinds: Sequence[Any], others: Sequence[Any]) -> Pattern:
    """The dims in which the sizes of two keys differ."""
    pairs = [(a[1], b[1]) if len(a) > 2 else ((), ()) for a, b in zip(kinds, others, strict=True)]
    return tuple(tuple(d for d, (n, m) in enumerate(zip(*pair, strict=True)) if n != m) for pair in pairs)


class Varied(NamedTuple):
    """The sizes in which recordings differ; true if there are any."""

    pattern: Pattern
    counts: frozenset[int]
    """The guards on sizes that depend on elements; see Note [Counts] in jit.tracing.recordings.counts."""

    def __bool__(self) -> bool:
        return any(self.pattern) or bool(self.counts)


Alike: TypeAlias = "tuple[Varied, list[Any]]"
"""Sizes that vary, and recordings that are the same program for others."""


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

    @property
    def is_sampled(self) -> bool:
        """Whether enough sizes have been recorded to tell that each is another program; paths of one size are not."""
        return len({key for key, _ in self.samples}) >= SAMPLES

    def alike(self, key: Any, recording: Any, cousins: Sequence[SizeFamily] = ()) -> Alike | None:
        """The sizes that have turned out to vary, and the recordings that are the same program for others.

        The recording becomes a sample, too. Note [Sizes that vary by turns] says which sizes these are.

        Args:
            key: The key of a call.
            recording: As what it was recorded.
            cousins: Families of tensors that lie otherwise.

        Returns:
            None if no recording is the same program.
        """
        if self.closed is not None:
            return None
        others = [(k, r) for k, r in reversed(self.samples) if k != key or counts_apart(recording.trace, r.trace)]
        self.samples = [*self.samples, (key, recording)][-SAMPLES:]
        found = _same(key, recording, others, layouts=True)
        if found is None:
            distant = [(k, r) for family in cousins for k, r in reversed(family.samples)]
            found = _same(key, recording, distant[:SAMPLES], layouts=False)
        return found


def _same(key: Any, recording: Any, others: Sequence[Any], layouts: bool) -> Alike | None:
    """The sizes in which a recording and others that are the same program differ; see `SizeFamily.alike`."""
    compare = _Comparison(recording, layouts)
    apart = [
        Varied(pattern_of(key.tensors, k.tensors), counts_apart(recording.trace, other.trace)) for k, other in others
    ]
    for varied in dict.fromkeys([_all_of(apart), *apart]) if any(apart) else ():
        same = [number for number, (_, other) in enumerate(others) if compare.is_same(other, varied)]
        if any(apart[number] for number in same):
            return _all_of([apart[number] for number in same]), [others[number][1] for number in same]
    return None


def _all_of(several: Sequence[Varied]) -> Varied:
    """The sizes that vary in one of several pairs of recordings."""
    return Varied(joined([v.pattern for v in several]), frozenset().union(*(v.counts for v in several)))


def joined(patterns: Sequence[Pattern]) -> Pattern:
    """The dims that vary in one of several patterns."""
    return tuple(tuple(sorted({d for dims in each for d in dims})) for each in zip(*patterns, strict=True))


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

    def __init__(self, recording: Any, layouts: bool) -> None:
        self._recording = recording
        self._layouts = layouts
        """Whether tensors have to lie alike."""
        self._signatures: dict[Any, Any] = {}
        """The signatures of the recording, by the sizes that have names."""

    def is_same(self, other: Any, varied: Varied) -> bool:
        """Whether another recording is the same program once sizes that vary have names, and counts are open."""
        one = self._recording
        if (one.positions, one.varying) != (other.positions, other.varying):
            return False
        if _operators(one.trace) != _operators(other.trace):
            return False
        if varied.counts and count_guards(one.trace) != count_guards(other.trace):
            return False
        asked = (tuple(varying_in(varied.pattern, one.positions)), varied.counts)
        try:
            if asked not in self._signatures:
                self._signatures[asked] = _signature_of(one, *asked, self._layouts)
            return bool(self._signatures[asked] == _signature_of(other, *asked, self._layouts))
        except SizesMisfit:
            return False


def _operators(trace: Trace) -> int:
    """The number of operators of stage 0: naming sizes takes time, and leaves it as it is."""
    return sum(node.stage == 0 and node.kind.startswith("aten::") for node in trace.graph.nodes)


def _signature_of(recording: Any, varying: Sequence[tuple[int, int]], counts: frozenset[int], layouts: bool) -> Any:
    trace = opened(recording.trace, counts) if counts else recording.trace
    return signature(recording, with_named_sizes(Chain(trace), [*recording.varying, *varying]), layouts)


def signature(recording: Any, named: NamedSizes, layouts: bool = True) -> Any:
    """All that makes stage 0 of a recording whose sizes have names; without `layouts` however tensors lie."""
    trace = recording.trace
    found = trace.captures.found
    captures = [(c.name, c.place, c.gradient_of, _number_of(c), _owner_of(c)) for c in found]
    result, effects, conditions = recording.result, recording.effects, recording.conditions
    outputs = [(o.kind, o.index, o.requires_grad) for o in result.outputs]
    rest = (result.structure, recording.positions, effects.targets, effects.slots, conditions.reads)
    moves = [(i, grad) for i, _, grad in effects.moves], [_path(path) for path in named.views]
    metadata = (conditions.facts, moves, result.tags, result.attributes)
    counted = (conditions.hookless, conditions.recorded_hooks, recording.spent, result.count)
    return (skeleton(named.graph, 0, layouts), captures, outputs, *rest, *metadata, *counted)


def _number_of(capture: Any) -> Any:
    """All that a recording knows of a number that it captures."""
    return capture.number, capture.item_of, capture.sign, capture.is_fixed and capture.owner


def _owner_of(capture: Any) -> int | None:
    """The identity of what is captured, if every call gets the same."""
    return id(capture.owner) if capture.place is capture.number is capture.item_of is None else None


def _path(path: Sequence[Any]) -> Any:
    return [(step.op.name, _frozen(step.arguments), step.index) for step in path]


def skeleton(graph: Graph, stage: int, layouts: bool = True) -> Any:
    """The nodes of a stage and what it returns, with values numbered in order; of sizes, those that have names.

    Args:
        graph: The graph.
        stage: The number of the stage.
        layouts: Whether it counts how tensors lie.
    """
    numbers: dict[Value, int] = {}
    for number, each in enumerate(graph.stages):
        for value in each.inputs if number <= stage else ():
            numbers[value] = len(numbers)
    lines = []
    for node in graph.nodes:
        if node.stage <= stage:
            if node.stage == stage:
                lines.append(_line(node, numbers, layouts))
            for value in node.outputs:
                numbers[value] = len(numbers)
    result = graph.stages[stage].result
    kinds = [_kind(value, layouts) for value in graph.stages[stage].inputs]
    return (kinds, lines, _numbered(result, result.args, numbers), _numbered(result, result.attributes, numbers))


def _line(node: Node, numbers: Mapping[Value, int], layouts: bool) -> Any:
    attributes = {k: v for k, v in node.attributes.items() if not isinstance(v, Graph)}
    operands = _numbered(node, node.args, numbers), _numbered(node, attributes, numbers)
    parts = [skeleton(body, 0, layouts) for body in node.subgraphs]
    kinds = [_kind(value, layouts) for value in node.outputs]
    return (node.kind, *operands, kinds, _pieces_depend_on(node), parts)


def _pieces_depend_on(node: Node) -> Any:
    """The size that says how many outputs a node has: another one may mean another program."""
    op = find(node.kind)
    if op is None or not _may_vary(op, op.join(node.operands, node.attributes)):
        return None
    kind = node.inputs[0].type
    dim = node.attributes.get("dim", 0)
    assert isinstance(kind, TensorType)
    return _frozen(kind.shape[dim] if kind.shape and isinstance(dim, int) else kind.shape)


def _may_vary(op: Op, values: Sequence[Any]) -> bool:
    """Whether the number of results of an operator with these arguments follows from a size."""
    try:
        return op.pieces is not None and bool(op.ask(op.pieces, values))
    except UndecidedSizeError:  # an argument is one
        return True


def _kind(value: Value, layouts: bool) -> Any:
    type = value.type
    if not isinstance(type, TensorType):
        return str(type)
    shown = type if layouts else TensorType(type.dtype, type.shape, None, type.device)
    named = any_symbolic(type.shape)
    return (type.dtype, type.ndim, shown.strides is None, str(shown) if named else None)


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
    told = isinstance(leaf, (bool, int, float, complex, SizeExpr, SizeFormula))
    return (type(leaf).__name__, repr(leaf)) if told else leaf


def first_difference(one: Graph, other: Graph) -> str:
    """The line of the first node in which two graphs differ."""
    a, b = skeleton(one, 0)[1], skeleton(other, 0)[1]
    at = next((i for i, (x, y) in enumerate(zip(a, b)) if x != y), min(len(a), len(b)))
    node = next((n for i, n in enumerate(n for n in one.nodes if n.stage == 0) if i == at), None)
    return "the result" if node is None else f"{node.kind} at {node.source}"
