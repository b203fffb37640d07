"""Chains of stages: one path through the tree of a recording's derivatives, with its graph and its plan.

Note [Chains of stages]
    A `Recording` is one path through a function. Its derivatives form a tree, because a backward is keyed by which
    gradients come in, which are wanted, and whether it must be differentiable itself. Each path through that tree is a
    `Chain`: one graph with stages 0..n and one plan. Stage 0 runs on the plan of the first chain; a StageNode whose
    backward lies on another chain, or on a stage that was recorded after its forward ran, runs the forward again from
    its kept inputs - effects are not repeated, since they are outputs of the plan that are not committed twice.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any

from jit.ir import Graph
from jit.passes import run
from jit.runtime.arrays.programs import Engine

from ..recorder.folding import fold
from ..recorder.recomputation import recompute
from ..recorder.tracer import Trace
from .aliasing import Aliasing

Key = tuple[Any, ...]
BRANCHES = 8
"""The most paths that one backward may have before further ones are not kept."""


@dataclass(eq=False)
class Plan:
    """A graph made ready to run."""

    interpreter: Engine
    memory: Aliasing

    def run(self, stage: int, inputs: Sequence[Any], state: Any = None) -> tuple[list[Any], list[Any], Any]:
        """Outputs, updates and state of one stage; no output or update shares memory with another one or an input."""
        outputs, updates, following = self.interpreter.run(stage, inputs, state)
        for number, index in self.memory.copied:
            if number == stage:
                part, at = (outputs, index) if index < len(outputs) else (updates, index - len(outputs))
                part[at] = part[at].copy()
        return outputs, updates, following


@dataclass(eq=False)
class Chain:
    """One graph with all stages of one path, and its plan."""

    trace: Trace
    keys: tuple[Key, ...] = ()
    """The key by which each stage after the first was asked for, and the outcomes of its guards."""
    differentiable: tuple[tuple[int, ...], ...] = ()
    """The numbers of the results that carry gradients, for each stage after the first."""
    sizes: Any = None
    """The sizes of the only call that a general recording is right for; None: it is right for all."""
    is_spoilt: bool = False
    """Whether an interrupt has left its graph in pieces; then nothing is made of it any more."""
    graph: Graph | None = None
    """The folded graph; made again when a stage is added."""
    plan: Plan | None = None

    def prepare(self) -> None:
        """Prepare for a further stage: a plan of the present graph may still be in use, and stays as it is."""
        if self.plan is not None:
            self.plan.interpreter.freeze()

    def outdate(self) -> None:
        """Drop graph and plan, since stages have changed: both are made again when they are next asked for."""
        self.graph = self.plan = None


def fork(trace: Trace, stages: int) -> Trace:
    """A copy of a recording up to `stages`, for a backward that differs from the one that follows there."""
    tape, values, nodes = trace.tape.copied(stages)
    copy = Trace(trace.captures.locate, tape)
    copy.captures.found = [replace(c, value=values[c.value]) for c in trace.captures.found]
    copy.guards.records = [replace(g, node=nodes[g.node]) for g in trace.guards.records if g.node.stage < stages]
    copy.gradients.hooks = {values[v]: hooks for v, hooks in trace.gradients.hooks.items() if v.stage < stages}
    copy.constants = trace.constants
    return copy


def graph_of(trace: Trace, general: bool = False) -> Graph:
    """The graph of a trace, composites folded, checkpoints computed again where a backward needs them.

    Args:
        trace: The recording.
        general: Whether it serves many sizes, which operators may refuse.
    """
    graph, mapping = fold(trace.graph, trace.tape.composites)
    if not trace.tape.checkpoints:
        return graph
    run(graph, ["dce"], options={"dce": {"by_sizes": general}})

    def folded(nodes: Iterable[Any]) -> Iterator[tuple[Any, Any]]:
        return ((mapping[v].node, node) for node in nodes for v in node.outputs if v in mapping)

    paths = {new: trace.tape.checkpoints[old] for new, old in folded(trace.tape.checkpoints)}
    backwards = {new for new, _ in folded(trace.tape.backwards)}
    recompute(graph, paths, lambda node: node.stage > 0 or node in backwards)
    return graph


def numbered(graph: Graph) -> Graph:
    """A copy whose guards hold their numbers in the recording, whatever passes do to the graph."""
    copy = graph.clone()
    number_guards(copy)
    return copy


def number_guards(graph: Graph) -> None:
    """Let guards know their places in the recording; those that know them already keep them."""
    for index, node in enumerate(_guards(graph)):
        node.attributes.setdefault("index", index)


def _guards(graph: Graph) -> Iterator[Any]:
    """The guards in the order in which they run, those in the bodies of composites included."""
    for node in graph.nodes:
        if node.kind == "prim::Guard":
            yield node
        for body in node.subgraphs:
            yield from _guards(body)
