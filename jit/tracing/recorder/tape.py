"""The graph that a trace writes, and what it notes of the nodes besides their operands."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator, Sequence
from typing import Any

from jit.autograd.nodes import next_serial
from jit.eager import context
from jit.eager.view_paths import ViewPath, with_numbers
from jit.ir import Graph, Node, Value
from jit.ir.types import Type

from .records import Composite


class Tape:
    """A graph that grows, and how its nodes ran: all that a replay of it needs to know."""

    def __init__(self, graph: Graph) -> None:
        self.graph = graph
        self.composites: list[Composite] = []
        self.untracked: set[Node] = set()
        """Nodes of operators that ran without recording derivatives; a replay runs them so, too."""
        self.checkpoints: dict[Node, tuple[int, ...]] = {}
        """Nodes recorded under checkpoints, and which those are, the outermost first."""
        self.backwards: set[Node] = set()
        """Nodes of stage 0 that a backward inside of the function has recorded."""
        self.histories: dict[Value, Value] = {}
        """Values written over tensors without recording derivatives -> what they held before, whose history stays."""
        self.views: list[ViewPath] = []
        """The ways to the views that leave the function: those of its outputs, then of inputs that become views of
        themselves. Numbers made of sizes are Values."""
        self.elemental: set[Value] = set()
        """Values whose sizes may depend on elements: results of operators that measure, and what is made of these."""
        self._numbers: dict[Any, Value] = {}
        """Computations on numbers since the innermost `apart` began: (kind, operands, attribute) -> the result."""
        self._outer_backward = context.BACKWARD.get()
        """The backward that the function itself runs in."""

    def add(self, kind: str, operands: Sequence[Any], attributes: dict[str, Any], types: Sequence[Type]) -> Node:
        """Add a node, which belongs to the line that runs."""
        node = self.graph.add(kind, operands, attributes, types)
        self.mark(node)
        return node

    def number(self, kind: str, operands: Sequence[Any], attributes: dict[str, Any], type: Type) -> Value:
        """The result of a computation on numbers or sizes, which is written once."""
        key = (kind, *map(_exact, operands), *attributes.values())
        known = self._numbers.get(key)
        if known is None or known.node.graph is not self.graph:
            known = self._numbers[key] = self.add(kind, operands, attributes, (type,)).output
        return known

    @contextlib.contextmanager
    def apart(self) -> Iterator[None]:
        """A block whose nodes may leave the graph together: numbers that were known before are computed again in it."""
        outer, self._numbers = self._numbers, {}
        try:
            yield
        finally:
            self._numbers = outer

    def mark(self, node: Node) -> None:
        """Note the line, the scope, the grad mode and the checkpoints in which a node was asked for."""
        node.source, node.scope = context.user_source(), context.SCOPE.get()
        if self.elemental:
            self.spread(node)
        if not context.GRAD_ENABLED.get():
            self.untracked.add(node)
        if len(self.graph.stages) == 1:
            if around := context.CHECKPOINTS.get():
                self.checkpoints[node] = around
            if self._is_in_backward():
                self.backwards.add(node)

    def spread(self, node: Node) -> None:
        """Note that what a node gives may have sizes that depend on elements, if one of its operands does."""
        if not self.elemental.isdisjoint(node.inputs):
            self.elemental.update(node.outputs)

    def _is_in_backward(self) -> bool:
        return context.BACKWARD.get() is not self._outer_backward

    @contextlib.contextmanager
    def building(self) -> Iterator[None]:
        """A block in which a builder writes nodes, which belong to the line that runs."""
        last = self.graph._last
        yield
        for node in nodes_after(self.graph, last):
            self.mark(node)

    @contextlib.contextmanager
    def checkpointed(self) -> Iterator[None]:
        """A block whose nodes stand under a checkpoint of its own, unless a backward runs it."""
        around = context.CHECKPOINTS.get()
        token = context.CHECKPOINTS.set(around if self._is_in_backward() else (*around, next_serial()))
        try:
            yield
        finally:
            context.CHECKPOINTS.reset(token)

    def drop_stage(self, stage: int) -> None:
        """Forget a stage that could not be recorded."""
        self.composites = [c for c in self.composites if c.node.stage < stage]
        self.graph.drop_stages(stage)

    def copied(self, stages: int) -> tuple[Tape, dict[Value, Value], dict[Node, Node]]:
        """A copy up to `stages`, and the maps of old values and nodes to new ones."""
        values: dict[Value, Value] = {}
        graph = self.graph.clone(values)
        nodes = {old: new for old, new in zip(self.graph.nodes, graph.nodes, strict=True)}
        early = {old: new for old, new in nodes.items() if old.stage < stages}
        copy = Tape(graph)
        copy.composites = [
            Composite(new, [nodes[part] for part in c.parts], [values[v] for v in c.taken])
            for c in self.composites
            if (new := early.get(c.node)) is not None
        ]
        copy.checkpoints = {early[n]: path for n, path in self.checkpoints.items() if n in early}
        copy.backwards = {nodes[n] for n in self.backwards if n in nodes}
        copy.untracked = {early[n] for n in self.untracked if n in early}
        copy.elemental = {values[v] for v in self.elemental if v in values and v.stage < stages}
        copy.views = [with_numbers(path, lambda n: values[n] if isinstance(n, Value) else n) for path in self.views]
        written = [(v, before) for v, before in self.histories.items() if v in values and v.stage < stages]
        copy.histories = {values[v]: values[before] for v, before in written}
        graph.drop_stages(stages)
        return copy, values, nodes


def nodes_after(graph: Graph, last: Node | None) -> list[Node]:
    """The nodes behind `last`, in order; all of them if it is None."""
    node = graph._first if last is None else last._next
    found = []
    while node is not None:
        found.append(node)
        node = node._next
    return found


def _exact(operand: Any) -> Any:
    """A Value itself; a number with its type and sign: 1, 1.0 and True are equal, and so are 0.0 and -0.0."""
    return operand if isinstance(operand, Value) else (type(operand), repr(operand))
