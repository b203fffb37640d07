"""A recorded function: its stages, how they run, and how stages that nobody has seen yet come to be.

Note [Chains of stages]
    A `Recording` is one path through a function. Its derivatives form a tree, because a backward is keyed by which
    gradients come in, which are wanted, and whether it must be differentiable itself. Each path through that tree is a
    `Chain`: one graph with stages 0..n and one plan. Stage 0 runs on the plan of the first chain; a StageNode whose
    backward lies on another chain, or on a stage that was recorded after its forward ran, runs the forward again from
    its kept inputs - effects are not repeated, since they are outputs of the plan that nobody commits twice.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from jit.ir import Graph, RandomState, Value, find
from jit.ir.errors import AutogradError, TraceError
from jit.passes import CLEANUP, run
from jit.runtime.interpreter import Interpreter

from . import context, dispatch
from .autograd.custom import FunctionNode
from .autograd.engine import run_backward
from .autograd.nodes import Edge, Node, edge_of, replay
from .folding import fold
from .generators import Generator
from .hosting import PythonHost
from .tensors import Tensor, Variable, ViewStep, alias
from .tracer import Trace

Key = tuple[Any, ...]
Optimise = Callable[[Graph], Graph]


@dataclass(slots=True)
class OutputSpec:
    """How one output of the function is made from a run."""

    kind: str
    """"fresh": an array of the plan. "input": a view of input `index` by `path`. "same": output `index` again. "number"."""
    index: int = 0
    path: tuple[ViewStep, ...] = ()
    requires_grad: bool = False


@dataclass(eq=False)
class Live:
    """A stage as tensors that still carry their eager history: what the next stage is recorded from."""

    outputs: list[Tensor | None]
    leaves: list[Any]
    """What to differentiate by, one per edge of the StageNode; None where no gradient can be wanted."""


@dataclass(eq=False)
class Chain:
    """One graph with all stages of one path, and its plan."""

    trace: Trace
    keys: tuple[Key, ...] = ()
    """The key of each stage after the first."""
    _plan: Interpreter | None = None
    graph: Graph | None = None
    """The folded graph."""


@dataclass(eq=False)
class Recording:
    """One recorded path through a function."""

    outputs: list[OutputSpec]
    structure: Any
    """Of the function's result."""
    arguments: int
    """How many inputs of stage 0 are arguments; captures follow."""
    optimise: Optimise
    chains: list[Chain] = field(default_factory=list)
    differentiable: list[int] = field(default_factory=list)
    """Which stage-0 returns (outputs, then updates) carry gradients."""
    targets: list[Any] = field(default_factory=list)
    """Per update: the index of the input that it is written to."""
    examples: list[Any] = field(default_factory=list)
    """The arrays that it was recorded with, where somebody asked to keep them."""
    lock: threading.RLock = field(default_factory=threading.RLock)

    @property
    def outcomes(self) -> tuple[Any, ...]:
        """What the guards saw, in order; with the type, since True == 1."""
        return tuple((type(g.outcome), g.outcome) for g in self.trace.guards)

    @property
    def trace(self) -> Trace:
        """The recording in full detail."""
        return self.chains[0].trace

    def graph(self) -> Graph:
        """The graph of the first chain, folded."""
        self.plan(self.chains[0])
        graph = self.chains[0].graph
        assert graph is not None
        return graph

    def plan(self, chain: Chain) -> Interpreter:
        """The plan of a chain, built when first needed and after a stage was added."""
        with self.lock:
            if chain._plan is None:
                chain.graph, _ = fold(chain.trace.graph, chain.trace.composites)
                run(chain.graph, CLEANUP)
                chain._plan = Interpreter(self.optimise(chain.graph), PythonHost())
            return chain._plan

    def find(self, keys: tuple[Key, ...]) -> Chain | None:
        """The chain that begins with stages `keys`."""
        return next((c for c in self.chains if c.keys[: len(keys)] == keys), None)

    # -- running -------------------------------------------------------------------------------------------------

    def inputs(self, arguments: Sequence[Tensor]) -> list[Any]:
        """The tensors and generators behind the inputs of stage 0, captures read afresh."""
        return [*arguments, *(capture.owner for capture in self.trace.captures)]

    def run(self, arguments: Sequence[Tensor]) -> Any:
        """Call the recorded function: GuardFailed if it would now take another path; nothing has happened then."""
        owners = self.inputs(arguments)
        plan = self.plan(self.chains[0])
        values = [_value(owner) for owner in owners]
        tracked = context.GRAD_ENABLED.get() and bool(self.differentiable) and any(map(dispatch.requires_grad, owners))
        kept = self._keep(owners, values) if tracked else None
        outputs, updates, state = plan.run(0, values)
        node = None
        if tracked:
            node = StageNode(self, (), [edge_of(o) for o in owners], len(outputs) + len(updates))
            node.kept, node.state, node.state_plan = kept, state, plan
        self._commit(owners, updates, node, len(outputs))
        return self.rebuild(outputs, owners, node)

    def _keep(self, owners: Sequence[Any], values: Sequence[Any]) -> Kept:
        """What a replay would need; inputs that the function overwrites are copied first."""
        written = set(self.targets)
        arrays = [v.copy() if i in written and isinstance(v, np.ndarray) else v for i, v in enumerate(values)]
        versions = [o._storage.version if isinstance(o, Tensor) and i not in written else None for i, o in enumerate(owners)]
        storages = [o._storage if isinstance(o, Tensor) else None for o in owners]
        return Kept([arrays], list(zip(storages, versions, strict=True)), [dispatch.requires_grad(o) for o in owners])

    def _commit(self, owners: Sequence[Any], updates: Sequence[Any], node: StageNode | None, first: int) -> None:
        """Write what the function has mutated; after the last guard, so all of it or nothing."""
        for number, (index, value) in enumerate(zip(self.targets, updates, strict=True)):
            owner = owners[index]
            if isinstance(owner, Generator):
                owner.state = value
                continue
            np.copyto(owner._array, value, casting="unsafe")
            owner._storage.written()
            if node is not None and first + number in self.differentiable:
                dispatch.rebase(owner, node) if owner._base is not None else _give_history(owner, node, first + number)

    def rebuild(self, arrays: Sequence[Any], owners: Sequence[Any], node: StageNode | None) -> Any:
        """The function's result from the arrays of a run."""
        from .pytree import unflatten

        made: list[Any] = []
        for number, spec in enumerate(self.outputs):
            if spec.kind == "input":
                made.append(replay(spec.path, owners[spec.index]) if spec.path else owners[spec.index])
            elif spec.kind == "same":
                made.append(made[spec.index])
            elif spec.kind == "number":
                made.append(arrays[number])
            else:
                tensor = Tensor(arrays[number])
                if node is not None and spec.requires_grad:
                    _give_history(tensor, node, number)
                made.append(tensor)
        return unflatten(self.structure, made)


@dataclass(slots=True)
class Kept:
    """What a StageNode keeps for a backward that has not been recorded yet."""

    inputs: list[list[Any]]
    """Per stage so far, the values that went in."""
    versions: list[tuple[Any, int | None]]
    """Storage and version of each stage-0 input, None for those that need no check."""
    requires_grad: list[bool]

    def check(self, node: StageNode) -> None:
        """AutogradError if an input has been changed in place since."""
        for storage, version in self.versions:
            if version is not None and storage.version != version:
                raise AutogradError(
                    f"an input of the traced call at {node.source} was changed by an in-place operation at {storage.writer} before "
                    "its gradient was computed; use the out-of-place operation, or clone it first"
                )


def _value(owner: Any) -> Any:
    return owner.state if isinstance(owner, Generator) else owner._array


def _give_history(tensor: Tensor, node: Node, index: int) -> None:
    tensor._promote()
    tensor._requires_grad = False
    tensor.set_history(node, index)  # type: ignore[attr-defined]


class PassThrough(Node):
    """Makes the stand-in of an argument that is no leaf no leaf either, so that it may be written to in place."""

    def apply(self, gradients: list[Tensor | None], needs: Sequence[bool]) -> Sequence[Tensor | None]:
        return gradients


def stand_in(tensor: Tensor) -> tuple[Tensor, Tensor]:
    """(what the traced function gets for `tensor`, the leaf under it): the same memory, another history."""
    leaf = alias(tensor, Variable if isinstance(tensor, Variable) else Tensor)
    leaf.name = tensor.name
    if not dispatch.requires_grad(tensor):
        return leaf, leaf
    leaf._requires_grad = True
    if tensor.is_leaf:
        return leaf, leaf
    inner = alias(tensor, Variable)
    inner.set_history(PassThrough("Argument", (edge_of(leaf),)), 0)  # type: ignore[attr-defined]
    return inner, leaf


class StageNode(Node):
    """The history of everything that one stage of a traced call returned."""

    def __init__(self, recording: Recording, keys: tuple[Key, ...], edges: Sequence[Edge | None], outputs: int) -> None:
        super().__init__(f"TracedStage{len(keys)}Backward", edges, outputs)
        self.recording = recording
        self.keys = keys
        """The stages after 0 that led here."""
        self.source = context.user_source()
        self.kept: Kept | None = None
        self.live: Live | None = None
        self.state: Any = None
        self.state_plan: Interpreter | None = None
        self._released = False

    def release(self) -> None:
        self.kept = self.live = self.state = self.state_plan = None
        self._released = True

    def apply(self, gradients: list[Tensor | None], needs: Sequence[bool]) -> Sequence[Tensor | None]:
        if self._released:
            raise AutogradError(
                f"backward through the traced call at {self.source} a second time: what it kept was freed; "
                "say retain_graph=True the first time"
            )
        create = context.GRAD_ENABLED.get()
        wanted = tuple(n and e is not None for n, e in zip(needs, self.edges, strict=True))
        key = (tuple(g is not None for g in gradients), wanted, create)
        outer = context.TRACE.get()
        with self.recording.lock, context.tracing(None if outer is None else None):
            chain = self.recording.find((*self.keys, key))
            if chain is None:
                return self._record(key, gradients, wanted, create)
            return self._run(chain, key, gradients, wanted, create)

    # -- a stage that is compiled --------------------------------------------------------------------------------

    def _run(self, chain: Chain, key: Key, gradients: Sequence[Any], wanted: Sequence[bool], create: bool) -> Sequence[Any]:
        assert self.kept is not None
        self.kept.check(self)
        plan = self.recording.plan(chain)
        arrays = [g._array for g in gradients if g is not None]
        state = self.state
        if self.state_plan is not plan:
            for stage, values in enumerate(self.kept.inputs):
                _, _, state = plan.run(stage, values, None if stage == 0 else state)
        outputs, _, following = plan.run(len(self.keys) + 1, arrays, state)
        results = [None if o is None else Tensor(o) for o in outputs]
        if create:
            self._attach(key, gradients, results, arrays, following, plan, None)
        return results

    # -- a stage that nobody has seen ----------------------------------------------------------------------------

    def _record(self, key: Key, gradients: Sequence[Any], wanted: Sequence[bool], create: bool) -> Sequence[Any]:
        assert self.kept is not None
        self.kept.check(self)
        live, chain = self.live, self.recording.find(self.keys)
        assert chain is not None
        if live is None or chain.keys != self.keys:
            chain, live = self._replayed(chain)
        results, leaves = _record_stage(chain, key, live, gradients, wanted, create)
        arrays = [g._array for g in gradients if g is not None]
        made = [None if r is None else Tensor(r._array) for r in results]
        if create:
            self._attach(key, gradients, made, arrays, None, None, Live(results, leaves))
        return made

    def _replayed(self, chain: Chain) -> tuple[Chain, Live]:
        from .replaying import replay_stages

        assert self.kept is not None
        fork = chain.keys != self.keys
        target = Chain(_fork(chain.trace, len(self.keys) + 1), self.keys) if fork else chain
        if fork:
            self.recording.chains.append(target)
        outputs, leaves = replay_stages(target.trace, self.kept.inputs, self.kept.requires_grad)
        return target, Live(outputs, leaves)

    def _attach(
        self, key: Key, gradients: Sequence[Any], results: Sequence[Any], arrays: list[Any], state: Any, plan: Any, live: Live | None
    ) -> None:
        """Make the results of a differentiable stage differentiable: by the stage after it."""
        assert self.kept is not None
        edges = [*self.edges, *(edge_of(g) for g in gradients if g is not None)]
        node = StageNode(self.recording, (*self.keys, key), edges, len(results))
        flags = [*self.kept.requires_grad, *(dispatch.requires_grad(g) for g in gradients if g is not None)]
        node.kept = Kept([*self.kept.inputs, arrays], self.kept.versions, flags)
        node.state, node.state_plan, node.live = state, plan, live
        for index, result in enumerate(results):
            if result is not None:
                _give_history(result, node, index)


def _fork(trace: Trace, stages: int) -> Trace:
    """A copy of a recording up to `stages`, for a backward that differs from the one that follows there."""
    mapping: dict[Value, Value] = {}
    graph = trace.graph.clone(mapping)
    nodes = {old: new for old, new in zip(trace.graph.nodes, graph.nodes, strict=True)}
    copy = Trace(trace.name_of, graph)
    copy.captures = [type(c)(mapping[c.value], c.owner, c.name) for c in trace.captures]
    copy.guards, copy.constants = list(trace.guards), trace.constants
    kept = [c for c in trace.composites if c.node.stage < stages]
    copy.composites = [type(c)(nodes[c.node], [nodes[p] for p in c.parts], [mapping[v] for v in c.taken]) for c in kept]
    graph.drop_stages(stages)
    return copy


def _record_stage(
    chain: Chain, key: Key, live: Live, gradients: Sequence[Any], wanted: Sequence[bool], create: bool
) -> tuple[list[Any], list[Any]]:
    """Run the backward of `live` through autograd, recorded as the next stage of `chain`."""
    trace = chain.trace
    before = trace.updates(), trace.drawn()
    trace.graph.add_stage()
    stage = len(trace.graph.stages) - 1
    roots, weights = [], []
    try:
        for index, (output, gradient) in enumerate(zip(live.outputs, gradients, strict=True)):
            if gradient is None or output is None:
                continue
            weight = alias(gradient, Variable if create else Tensor)
            weight._requires_grad = create and dispatch.requires_grad(gradient)
            trace.add_argument(weight, f"grad_{index}" if len(gradients) > 1 else "grad", stage)
            roots.append(output)
            weights.append(weight)
        leaves = [leaf for leaf, want in zip(live.leaves, wanted, strict=True) if want]
        with context.tracing(trace):
            found = iter(run_backward(roots, weights, leaves, True, create))
            results = [next(found) if want else None for want in wanted]
            trace.graph.set_return([None if r is None else trace.value_of(r) for r in results])
        if (trace.updates(), trace.drawn()) != before:
            raise TraceError("the backward of a traced function changes a buffer or draws random numbers; run it outside the trace")
    except BaseException:
        trace.graph.drop_stages(stage)
        raise
    chain.keys = (*chain.keys, key)
    chain._plan = None
    return results, [*live.leaves, *weights]


__all__ = ["Chain", "FunctionNode", "Live", "OutputSpec", "RandomState", "Recording", "StageNode", "find", "stand_in"]
