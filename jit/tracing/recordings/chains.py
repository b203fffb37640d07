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

from jit.ir import Graph, Value
from jit.ir.control import is_control
from jit.passes import apply
from jit.runtime.arrays.programs import Engine

from ..recorder.folding import fold
from ..recorder.recomputation import recompute
from ..recorder.tape import Tape
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


@dataclass(frozen=True, slots=True)
class StageSizes:
    """The varying sizes for which a stage of a general recording was recorded, open counts behind the others.

    Args:
        recorded: These sizes.
        free: Which of them were other ones when the same stage was recorded again: it serves all of these.
    """

    recorded: tuple[int, ...]
    free: tuple[bool, ...]

    def admit(self, sizes: Sequence[int | None]) -> bool:
        """Whether a call of other sizes can run the stage; None is a size that is not known."""
        return all(f or n == m for f, n, m in zip(self.free, self.recorded, sizes, strict=True))

    def covers(self, other: StageSizes) -> bool:
        """Whether it admits all that the other one does."""
        pairs = zip(self.free, other.free, self.recorded, other.recorded, strict=True)
        return all(mine or (not its and n == m) for mine, its, n, m in pairs)

    def merged(self, other: StageSizes) -> StageSizes:
        """The sizes of a stage that another recording with its sizes has turned out to be."""
        pairs = zip(self.recorded, other.recorded, strict=True)
        apart = (f or g or n != m for f, g, (n, m) in zip(self.free, other.free, pairs, strict=True))
        return StageSizes(self.recorded, tuple(apart))


@dataclass(eq=False)
class Chain:
    """One graph with all stages of one path, and its plan."""

    trace: Trace
    keys: tuple[Key, ...] = ()
    """The key by which each stage after the first was asked for, and the outcomes of its guards."""
    differentiable: tuple[tuple[int, ...], ...] = ()
    """The numbers of the results that carry gradients, for each stage after the first."""
    sizes: tuple[StageSizes, ...] = ()
    """The sizes for which each stage after the first was recorded, if the recording is general."""
    named: Any = None
    """The graph in which sizes have names, and its conditions, if the recording is general."""
    is_spoilt: bool = False
    """Whether an interrupt has left its graph in pieces; then nothing is made of it any more."""
    graph: Graph | None = None
    """The folded graph; made again when a stage is added."""
    plan: Plan | None = None
    """The plan, if the recording is for one size of everything."""
    sized_plans: Any = None
    """The `SizedPlans` of a recording for many sizes."""
    written: Any = None
    """The graph as a file has it, once it was saved; made again when a stage is added."""

    @property
    def plans(self) -> list[Plan]:
        """The plans that there are now."""
        sized = self.sized_plans.made if self.sized_plans is not None else ()
        return [*([self.plan] if self.plan is not None else []), *(each.plan for each in sized)]

    def prepare(self) -> None:
        """Prepare for a further stage: a plan of the present graph may still be in use, and stays as it is."""
        if self.plan is not None:
            self.plan.interpreter.freeze()

    def outdate(self) -> None:
        """Drop graph and plans, since stages have changed: they are made again when they are next asked for."""
        self.graph = self.plan = self.named = self.sized_plans = self.written = None


def fork(trace: Trace, stages: int) -> Trace:
    """A copy of a recording up to `stages`, for a backward that differs from the one that follows there."""
    tape, values, nodes = trace.tape.copied(stages)
    copy = Trace(trace.captures.locate, tape)
    copy.captures.found = [replace(c, value=values[c.value]) for c in trace.captures.found]
    copy.guards.records = [replace(g, node=nodes[g.node]) for g in trace.guards.records if g.node.stage < stages]
    copy.gradients.hooks = {values[v]: hooks for v, hooks in trace.gradients.hooks.items() if v.stage < stages}
    copy.constants = trace.constants
    return copy


def graph_of(trace: Trace, one_size: bool = True) -> Graph:
    """The graph of a trace, composites folded, checkpoints computed again where a backward needs them."""
    return folded(trace.tape, one_size=one_size)


def folded(tape: Tape, general: bool = False, one_size: bool = True) -> Graph:
    """The graph of a tape, composites folded, checkpoints computed again where a backward needs them.

    Args:
        tape: The recorded nodes.
        general: Whether they serve many sizes, which operators may refuse.
        one_size: Whether later stages may take the sizes of earlier ones for the numbers that their types tell.
    """
    graph, mapping = fold(tape.graph, tape.composites, one_size)
    if not tape.checkpoints:
        return graph
    apply(graph, ["dce"], options={"dce": {"by_sizes": general}})

    def made_of(nodes: Iterable[Any]) -> Iterator[tuple[Any, Any]]:
        return ((mapping[v].node, node) for node in nodes for v in node.outputs if isinstance(mapping.get(v), Value))

    paths = {new: tape.checkpoints[old] for new, old in made_of(tape.checkpoints)}
    backwards = {new for new, _ in made_of(tape.backwards)}
    recompute(graph, paths, lambda node: node.stage > 0 or node in backwards)
    return graph


def numbered(graph: Graph) -> Graph:
    """A copy whose guards hold their numbers in the recording, whatever passes do to the graph."""
    copy = graph.clone()
    number_guards(copy)
    return copy


def number_guards(graph: Graph) -> None:
    """Let guards know their places in the recording; those that know them already keep them."""
    for index, (_, node) in enumerate(guards_of(graph)):
        node.attributes.setdefault("index", index)


def guards_of(graph: Graph, stage: int | None = None) -> Iterator[tuple[int, Any]]:
    """The guards in the order in which they run, those in the bodies of composites included, and their stages."""
    for node in graph.nodes:
        number = node.stage if stage is None else stage
        if node.kind == "prim::Guard":
            yield number, node
        for body in () if is_control(node) else node.subgraphs:  # guards in there are about sizes, and hold
            yield from guards_of(body, number)
