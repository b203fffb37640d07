"""A recorded function: its stages, how they run, and how stages that nobody has seen yet come to be.

Note [Chains of stages]
    A `Recording` is one path through a function. Its derivatives form a tree, because a backward is keyed by which
    gradients come in, which are wanted, and whether it must be differentiable itself. Each path through that tree is a
    `Chain`: one graph with stages 0..n and one plan. Stage 0 runs on the plan of the first chain; a StageNode whose
    backward lies on another chain, or on a stage that was recorded after its forward ran, runs the forward again from
    its kept inputs - effects are not repeated, since they are outputs of the plan that nobody commits twice.

Note [Whose memory]
    A plan hands out arrays that later stages read too: the output of a sigmoid is what its derivative needs. If the
    caller has changed such an output in place meanwhile, the stage runs again from the kept inputs; if an input has
    changed that is still needed, that is the same error as in eager mode. `aliasing` says which ones matter.
"""

from __future__ import annotations

import contextlib
import os
import threading
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np

from jit.ir import REGISTRY, Graph, Value
from jit.ir.errors import AutogradError, TraceError
from jit.passes import CLEANUP, run
from jit.runtime.interpreter import GuardFailed, Interpreter

from .. import context, dispatch
from ..autograd.blame import refuse_nan
from ..autograd.engine import run_backward
from ..autograd.nodes import AccumulateGrad, Edge, Node, edge_of, replay
from ..generators import Generator
from ..tensors import Tensor, Variable, ViewStep, alias
from .aliasing import Aliasing, analyse
from .compiling import engine, unoptimised
from .effects import note_write
from .folding import fold
from .hosting import PythonHost
from .impurity import watching
from .promoting import KINDS
from .recalling import Recollection, recalling, recollection
from .recomputation import recompute
from .shapes import forget_sizes, general_kind, skeleton
from .surroundings import attributes_of, is_foreign, view_of_objects
from .tracer import Trace, extent_of, has_hooks, kind_of

Key = tuple[Any, ...]
Optimise = Callable[[Graph], Graph]
_COPY = REGISTRY["aten::copy"]
BRANCHES = 8
"""How many paths one backward may have before further ones are not kept."""


@dataclass(slots=True)
class OutputSpec:
    """How one output of the function is made from a run."""

    kind: str
    """"fresh": the array that the plan returns as number `index`. "view": a view of that by `path`. "input": a view of
    input `index` by `path`. "same": output `index` again. "number": the number that the plan returns."""
    index: int = 0
    path: tuple[ViewStep, ...] = ()
    requires_grad: bool = False


@dataclass(eq=False)
class Live:
    """A stage as tensors that still carry their eager history: what the next stage is recorded from."""

    outputs: list[Any]
    """Tensors, where they can carry a gradient; anything else where not."""
    edges: list[Edge | None]
    """What to differentiate by, one per edge of the StageNode; None where no gradient can be wanted."""
    trace: Trace
    """The recording that knows these tensors."""


@dataclass(eq=False)
class Plan:
    """A graph made ready to run."""

    interpreter: Interpreter
    memory: Aliasing

    def run(self, stage: int, inputs: Sequence[Any], state: Any = None) -> tuple[list[Any], list[Any], Any]:
        """Outputs, updates and state of one stage; no array among them is memory of somebody else."""
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
    """Per stage after the first, what it was asked for and what its guards saw."""
    differentiable: tuple[tuple[int, ...], ...] = ()
    """Per stage after the first, which of its results carry gradients."""
    sizes: Any = None
    """Of a general recording: the sizes of the only call that it is right for; None: it is right for all."""
    is_spoilt: bool = False
    """Whether an interrupt has left its graph in pieces; then nothing is made of it any more."""
    graph: Graph | None = None
    """The folded graph; made again when a stage is added."""
    _plan: Plan | None = None


@dataclass(eq=False)
class Recording:
    """One recorded path through a function."""

    outputs: list[OutputSpec]
    structure: Any
    """Of the function's result."""
    positions: list[int]
    """Which of the tensors among the arguments are inputs of stage 0; captures follow."""
    optimise: Optimise
    chains: list[Chain] = field(default_factory=list)
    differentiable: list[int] = field(default_factory=list)
    """Which stage-0 returns (outputs, then updates) carry gradients."""
    targets: list[int] = field(default_factory=list)
    """Per update: the index of the input that it is written to."""
    count: int = 0
    """How many of `outputs` are the function's result; further ones go to `.grad` of something."""
    slots: list[tuple[int, int | None]] = field(default_factory=list)
    """Pairs (input, output): which output becomes the `.grad` of an input; None clears it."""
    reads: list[tuple[int, int | None]] = field(default_factory=list)
    """Pairs (input, other input): what the `.grad` of an input has to be at first; None: there must be none."""
    hookless: list[int] = field(default_factory=list)
    """Inputs at which a backward inside the function ends: leaves without hooks."""
    read: list[Any] = field(default_factory=list)
    """The Python values in its key that it has baked in: lines of the constants ledger."""
    general: bool = False
    """Whether it serves many sizes; see jit.tracing.shapes."""
    varying: tuple[tuple[int, int], ...] = ()
    """Which ones: pairs of an input and a dim."""
    calls_python: bool = False
    """Whether it calls autograd.Functions, whose results are remembered during a call."""
    spent: bool = False
    """Whether the function has itself gone backward through all that it returns."""
    sharing: tuple[Any, ...] = ()
    """Which inputs shared memory, if any input is written to."""
    outcomes: tuple[Any, ...] = ()
    """What the guards of stage 0 saw, in order; with the type, since True == 1."""
    examples: list[Any] = field(default_factory=list)
    """The arrays that it was recorded with, where somebody asked to keep them."""
    tried: Any = None
    """The surroundings for which somebody has looked for a shortcut."""
    lock: threading.RLock = field(default_factory=threading.RLock)

    @property
    def trace(self) -> Trace:
        """The recording in full detail."""
        return self.chains[0].trace

    def graph(self) -> Graph:
        """The graph of the first chain, folded."""
        with self.lock:
            return self._folded(self.chains[0])

    def _folded(self, chain: Chain) -> Graph:
        if chain.graph is None:
            chain.graph = graph_of(chain.trace)
            if self.general:
                forget_sizes(chain.graph)
            run(chain.graph, CLEANUP)
        return chain.graph

    def plan(self, chain: Chain) -> Plan:
        """The plan of a chain, built when first needed and after a stage was added."""
        with self.lock:
            if chain._plan is None:
                graph = self.optimise(_numbered(self._folded(chain)))
                memory = analyse(graph)
                memory.copied -= {(0, i) for i, spec in enumerate(self.outputs) if spec.kind not in ("fresh", "number")}
                chain._plan = Plan(engine(graph, self.optimise is not unoptimised, PythonHost()), memory)
            return chain._plan

    def beginning_with(self, keys: tuple[Key, ...]) -> list[Chain]:
        """The chains that begin with stages `keys`."""
        return [c for c in self.chains if c.keys[: len(keys)] == keys and not c.is_spoilt]

    def following(self, keys: tuple[Key, ...], key: Key, sizes: Any = None) -> list[Chain]:
        """The chains in which a stage that was asked for as `key` comes after stages `keys`.

        Args:
            keys: What the stages before were asked for.
            key: What the stage is asked for.
            sizes: Leave out chains of a general recording that are right for other sizes than these alone.
        """
        found = [c for c in self.beginning_with(keys) if len(c.keys) > len(keys) and c.keys[len(keys)][0] == key]
        return [c for c in found if sizes is None or c.sizes in (None, sizes)]

    def generalised(self, varying: Sequence[tuple[int, int]]) -> Recording:
        """A recording of the same program, its forward alone, in which the sizes (input, dim) vary."""
        trace = fork(self.trace, 1)
        names = (
            "outputs", "structure", "positions", "differentiable", "targets", "count", "slots", "reads", "hookless",
            "calls_python", "spent", "sharing", "outcomes", "read",
        )  # fmt: skip
        made = Recording(optimise=unoptimised, chains=[Chain(trace)], **{name: getattr(self, name) for name in names})
        made.general, made.varying = True, tuple(varying)
        return made

    # -- running -------------------------------------------------------------------------------------------------

    def inputs(
        self, arguments: Sequence[Tensor], tensors: Sequence[Any] | None = None, numbers: Sequence[Any] = ()
    ) -> list[Any]:
        """The tensors and generators behind the inputs of stage 0: arguments, then captures as they are now.

        Args:
            arguments: The tensors among the arguments of a call.
            tensors: What the World of the call has in reach; without it captures are what they were when recorded.
            numbers: The promoted numbers of the call.
        """
        chosen: list[Any] = [arguments[i] for i in self.positions]
        for capture in self.trace.captures:
            if tensors is not None and capture.place is not None:
                chosen.append(tensors[capture.place])
            elif tensors is not None and capture.number is not None:
                chosen.append(numbers[capture.number])
            elif tensors is not None and capture.gradient_of is not None:
                chosen.append(chosen[capture.gradient_of]._grad)
            else:
                chosen.append(capture.owner)
        return chosen

    def misfit(self, owners: Sequence[Any], known: Callable[[Any], bool]) -> str | None:
        """Why a call that the key admits cannot run this recording; None if it can.

        Args:
            owners: The tensors behind the inputs.
            known: Says whether a tensor is among those that the function can reach otherwise than as a `.grad`.
        """
        if self.chains[0].is_spoilt:
            return "an interrupt has spoilt it"
        for index, found in self.reads:
            if owners[index]._grad is not (None if found is None else owners[found]):
                return f"{self._name(index)}.grad is {'there now' if found is None else 'another tensor or missing'}"
        if any(known(owner) for c, owner in self._captured(owners) if c.gradient_of is not None and c.place is None):
            return "the .grad of a tensor is also another tensor now"
        for capture, owner in self._captured(owners):
            if capture.kind is not None and kind_of(owner) != capture.kind:
                return f"the captured tensor {capture.name} is of another kind"
        if any(has_hooks(owners[index]) for index in self.hookless):
            return "a tensor has hooks now that run in a backward inside of it"
        if self.targets and sharing_of(owners) != self.sharing:
            return "tensors that it writes to share memory in another way"
        return None

    def _captured(self, owners: Sequence[Any]) -> Iterator[tuple[Any, Any]]:
        return zip(self.trace.captures, owners[len(self.positions) :], strict=True)

    def _name(self, index: int) -> str:
        return self.trace.graph.inputs[index].name

    def run(self, owners: Sequence[Any]) -> Any:
        """Call the recorded function: GuardFailed if it would now take another path; nothing has happened then."""
        plan = self.plan(self.chains[0])
        with _drawing_alone(owners) if self.trace.drawn() else contextlib.nullcontext():
            values = [_value(owner) for owner in owners]
            node = None
            if self.differentiable and any(map(dispatch.requires_grad, owners)):
                node = self.node_of(owners, values, [edge_of(o) for o in owners])
                values = values if node.kept is None else node.kept.inputs[0]
            outputs, updates, state = plan.run(0, values)
            if node is not None and node.kept is not None:
                node.state, node.plan = state, plan
            self.commit(owners, updates, node, len(outputs))
        return self.rebuild(outputs, owners, node)

    def node_of(self, owners: Sequence[Any], values: Sequence[Any], edges: Sequence[Edge | None]) -> StageNode:
        """The history of what a call returns. It keeps inputs: copies of overwritten ones, and none that are unused."""
        node = StageNode(self, (), self.used(edges), self.returns)
        if self.general:
            node.sizes = tuple(v.shape if isinstance(v, np.ndarray) else None for v in values)
        if self.spent:  # a second backward is an error, so there is nothing to keep
            return node
        written = set(self.targets)
        used = self.used([True] * len(owners))
        arrays = [v.copy() if i in written and isinstance(v, np.ndarray) else v for i, v in enumerate(values)]
        arrays = [v if u or not isinstance(v, np.ndarray) else None for v, u in zip(arrays, used, strict=True)]
        marks = [
            _mark(o) if isinstance(o, Tensor) and used[i] and i not in written else None for i, o in enumerate(owners)
        ]
        node.kept = Kept([arrays], [marks], [dispatch.requires_grad(o) for o in owners], calls=recollection())
        return node

    def used(self, items: Sequence[Any]) -> list[Any]:
        """`items`, one per input of stage 0, with None for inputs that nothing uses."""
        return [item if v.uses else None for v, item in zip(self.trace.graph.inputs, items, strict=True)]

    @property
    def returns(self) -> int:
        """How many values stage 0 returns, updates included."""
        stage = self.trace.graph.stages[0]
        return len(stage.outputs) + len(stage.updates)

    def commit(self, owners: Sequence[Any], updates: Sequence[Any], node: StageNode | None, first: int) -> None:
        """Write what the function has mutated; after the last guard, so all of it or nothing."""
        for number, (index, value) in enumerate(zip(self.targets, updates, strict=True), first):
            owner = owners[index]
            if isinstance(owner, Generator):
                owner.state = value
            elif node is not None and number in self.differentiable:
                overwrite(owner, value, node, number)
            else:
                note_write(owner)
                np.copyto(owner._array, value, casting="unsafe")
                owner._storage.written()

    def rebuild(
        self, results: Sequence[Any], owners: Sequence[Any], node: StageNode | None, storages: Sequence[Any] = ()
    ) -> Any:
        """The function's result from what a run returned; gradients that it leaves in `.grad` are put there.

        Args:
            results: Arrays and numbers.
            owners: The tensors behind the inputs.
            node: The history of the result, if gradients are recorded.
            storages: Per result, what identifies its memory, where that is known already.
        """
        from ..pytree import unflatten

        fresh: dict[int, Tensor] = {}

        def tensor(index: int) -> Tensor:
            if index not in fresh:
                made = fresh[index] = Tensor(results[index], storages[index] if storages else None)
                if node is not None and index in self.differentiable:
                    _give_history(made, node, index)
            return fresh[index]

        made: list[Any] = []
        for spec in self.outputs:
            if spec.kind == "number":
                made.append(results[spec.index])
            elif spec.kind == "same":
                made.append(made[spec.index])
            elif spec.kind == "fresh":
                made.append(tensor(spec.index))
            else:
                made.append(_viewed(spec, owners[spec.index] if spec.kind == "input" else tensor(spec.index)))
        if node is not None and node.kept is not None:
            node.kept.made = [{index: _mark(t) for index, t in fresh.items()}]
        for index, number in self.slots:
            owners[index]._grad = None if number is None else made[number]
        return unflatten(self.structure, made[: self.count])


def graph_of(trace: Trace) -> Graph:
    """What a trace has recorded, composites folded, checkpoints computed again where a backward needs them."""
    graph, mapping = fold(trace.graph, trace.composites)
    if not trace.checkpoints:
        return graph
    run(graph, ["dce"])

    def folded(nodes: Iterable[Any]) -> Iterator[tuple[Any, Any]]:
        return ((mapping[v].node, node) for node in nodes for v in node.outputs if v in mapping)

    paths = {new: trace.checkpoints[old] for new, old in folded(trace.checkpoints)}
    backwards = {new for new, _ in folded(trace.backwards)}
    recompute(graph, paths, lambda node: node.stage > 0 or node in backwards)
    return graph


def _numbered(graph: Graph) -> Graph:
    """A copy whose guards know their places in the recording, whatever a pass may do to them."""
    copy = graph.clone()
    for index, node in enumerate(_guards(copy)):
        node.attributes["index"] = index
    return copy


def _guards(graph: Graph) -> Iterator[Any]:
    """The guards in the order in which they run, those in the bodies of composites included."""
    for node in graph.nodes:
        if node.kind == "prim::Guard":
            yield node
        for body in node.subgraphs:
            yield from _guards(body)


def _viewed(spec: OutputSpec, base: Tensor) -> Tensor:
    if not spec.path:
        return base
    with context.set_grad_enabled(spec.requires_grad):
        return replay(spec.path, base)


@contextlib.contextmanager
def _drawing_alone(owners: Sequence[Any]) -> Iterator[None]:
    """Nobody else draws from these generators between the moment they are read and the moment they are advanced."""
    with contextlib.ExitStack() as stack:
        for generator in sorted((o for o in owners if isinstance(o, Generator)), key=id):
            stack.enter_context(generator.lock)
        yield


def sharing_of(tensors: Sequence[Any]) -> tuple[Any, ...]:
    """For each tensor that shares memory with an earlier one: which, at what distance, and if they are one tensor."""
    if len(tensors) < 2:
        return ()
    known = [(extent_of(t._array), i) for i, t in enumerate(tensors) if isinstance(t, Tensor) and t._array is not None]
    if len(known) < 2:
        return ()
    known.sort()
    pattern = []
    (_, end), first = known[0]
    for (low, high), index in known[1:]:
        if low < end:
            a, b = sorted((first, index))
            pattern.append((b, a, _distance(tensors[a], tensors[b]), same_tensor(tensors[a], tensors[b])))
        if high > end:
            end, first = high, index
    return tuple(sorted(pattern))


def _distance(a: Tensor, b: Tensor) -> int:
    return b._array.__array_interface__["data"][0] - a._array.__array_interface__["data"][0]


def same_tensor(a: Tensor, b: Tensor) -> bool:
    """Whether two arguments can be one input: the same elements with the same history."""
    if a is b:
        return True
    alike = a._storage is b._storage and _distance(a, b) == 0 and kind_of(a) == kind_of(b)
    return alike and a._array.strides == b._array.strides and edge_of(a) == edge_of(b)


Mark = tuple[Any, int]
"""A storage, and the version that it had."""


def _mark(tensor: Tensor) -> Mark:
    return tensor._storage, tensor._storage.version


@dataclass(slots=True)
class Kept:
    """What a StageNode keeps for a backward that has not been recorded yet."""

    inputs: list[list[Any]]
    """Per stage so far, the values that went in."""
    marks: list[list[Mark | None]]
    """Per stage and input what it was; None for those that need no check."""
    requires_grad: list[bool]
    """Per edge of the node."""
    made: list[dict[int, Mark]] = field(default_factory=list)
    """Per stage, what was returned, by number."""
    calls: Recollection | None = None
    """What Python functions have returned in stage 0."""

    def recalled(self) -> Any:
        """Within this block none of these functions runs again."""
        return recalling(None if self.calls is None else self.calls.again())

    def check(self, node: StageNode, needed: set[tuple[int, int]] | None = None) -> None:
        """AutogradError if an input (that is needed) has been changed in place since."""
        for stage, marks in enumerate(self.marks):
            for index, mark in enumerate(marks):
                if mark is not None and mark[0].version != mark[1] and (needed is None or (stage, index) in needed):
                    raise AutogradError(
                        f"an input of the traced call at {node.source} was changed by an in-place operation at "
                        f"{mark[0].writer} before its gradient was computed; use the out-of-place operation, or "
                        "clone it first"
                    )

    def is_intact(self, exposed: set[tuple[int, int]]) -> bool:
        """Whether nobody has changed the outputs that later stages read."""
        marks = (m for stage, made in enumerate(self.made) for i, m in made.items() if (stage, i) in exposed)
        return all(storage.version == version for storage, version in marks)


def _value(owner: Any) -> Any:
    if type(owner) in KINDS:
        return owner
    return owner.state if isinstance(owner, Generator) else owner._array


def _give_history(tensor: Tensor, node: Node, index: int) -> None:
    tensor._promote()
    tensor._requires_grad = False
    tensor.set_history(node, index)  # type: ignore[attr-defined]


def overwrite(owner: Tensor, value: Any, node: Node, index: int) -> None:
    """Let `owner` hold `value`, whose history is output `index` of `node`."""
    note_write(owner)
    np.copyto(owner._array, value, casting="unsafe")
    owner._storage.written()
    adopt(owner, node, index)


def adopt(owner: Tensor, node: Node, index: int) -> None:
    """Let output `index` of `node` be the history of what `owner` holds since it was written to."""
    if owner._base is None:
        _give_history(owner, node, index)
        return
    source = alias(owner, Variable)  # the base has to learn about it: as if this had been copied over the view
    source.set_history(node, index)  # type: ignore[attr-defined]
    copying = dispatch.attach(_COPY, [owner, source], [Tensor(owner._array, owner._storage)])
    assert copying is not None
    dispatch.rebase(owner, copying)


# -- arguments ---------------------------------------------------------------------------------------------------


class PassThrough(Node):
    """Where the gradient of an argument that is no leaf leaves the traced function."""

    def apply(self, gradients: list[Tensor | None], needs: Sequence[bool]) -> Sequence[Tensor | None]:
        return gradients


def stand_in(tensor: Tensor) -> Tensor:
    """What the traced function gets for `tensor`: its memory, and a history of its own that leads to the same place.

    So a trace knows where its arguments end, and what escapes from the function is connected all the same.
    """
    inner = alias(tensor, type(tensor))
    inner.name = tensor.name
    vars(inner).update(attributes_of(tensor))
    if not dispatch.requires_grad(tensor):
        return inner
    if tensor.is_leaf:
        node = AccumulateGrad(tensor)
        inner._requires_grad = True
        inner._accumulator = _always(node)
    else:
        inner.set_history(PassThrough("Argument", (edge_of(tensor),)), 0)  # type: ignore[attr-defined]
    return inner


def twin(inner: Tensor, tensor: Tensor) -> Tensor:
    """A stand-in for another object that is the same tensor as the one that `inner` stands for."""
    copy = alias(tensor, type(tensor))
    vars(copy).update(attributes_of(tensor))
    copy.name, copy._requires_grad, copy._accumulator = tensor.name, inner._requires_grad, inner._accumulator
    if inner.grad_fn is not None:
        copy.set_history(inner.grad_fn, inner.output_nr)  # type: ignore[attr-defined]
    return copy


def _always(node: Node) -> Any:
    return lambda: node


# -- the history of a call ---------------------------------------------------------------------------------------


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
        self.plan: Plan | None = None
        """The plan whose run left `state`."""
        self.sizes: Any = None
        """Those of the inputs, if the recording is general."""

    def release(self) -> None:
        self.kept = self.live = self.state = self.plan = None

    def apply(self, gradients: list[Tensor | None], needs: Sequence[bool]) -> Sequence[Tensor | None]:
        if self.kept is None:
            raise AutogradError(
                f"backward through the traced call at {self.source} a second time: what it kept was freed; "
                "say retain_graph=True the first time"
            )
        create = context.GRAD_ENABLED.get()
        wanted = tuple(n and e is not None for n, e in zip(needs, self.edges, strict=True))
        kinds = tuple(map(_kind_of_gradient, gradients))
        if self.recording.general:
            kinds = tuple(None if kind is None else general_kind(kind, None) for kind in kinds)
        key = (kinds, wanted, create)
        with context.tracing(None):
            chains = self.recording.following(self.keys, key, self.sizes)
            for chain in chains:
                with contextlib.suppress(GuardFailed):
                    return self._run(chain, gradients, create)
            with self.recording.lock:
                if len(self.recording.following(self.keys, key, self.sizes)) > len(chains):
                    return self.apply(gradients, needs)  # somebody else has recorded it meanwhile
                keep = len(self.recording.following(self.keys, key)) < BRANCHES
                return self._record(key, gradients, wanted, create, keep)

    # -- a stage that is compiled --------------------------------------------------------------------------------

    def _run(self, chain: Chain, gradients: Sequence[Any], create: bool) -> Sequence[Any]:
        plan = self.recording.plan(chain)
        arrays = [g._array for g in gradients if g is not None]
        outputs, _, following = plan.run(len(self.keys) + 1, arrays, self._state(plan))
        if context.ANOMALY.get():
            assert self.kept is not None
            with self.kept.recalled():
                refuse_nan(outputs, self.recording._folded(chain), [*self.kept.inputs, arrays], PythonHost())
        results = [None if o is None else Tensor(o) for o in outputs]
        if create:
            node = self._attach(chain, gradients, results, arrays)
            node.state, node.plan = following, plan
        return results

    def _state(self, plan: Plan) -> Any:
        """What the stages before have left for the next one; if that is not there, or spoilt, they run again."""
        assert self.kept is not None
        if self.plan is plan and self.kept.is_intact(plan.memory.exposed):
            self.kept.check(self, plan.memory.needed)
            return self.state
        self.kept.check(self)
        state = None
        with self.kept.recalled():
            for stage, values in enumerate(self.kept.inputs):
                _, _, state = plan.run(stage, values, state)
        return state

    # -- a stage that nobody has seen ----------------------------------------------------------------------------

    def _record(
        self, key: Key, gradients: Sequence[Any], wanted: Sequence[bool], create: bool, keep: bool
    ) -> Sequence[Any]:
        chain, live = self._extensible(keep)
        try:
            results, following = record_stage(chain, key, live, gradients, wanted, create)
        except AutogradError:
            if live is not self.live:
                raise
            # Something was overwritten that the derivatives need; a run from the inputs has it still.
            self.live = None
            return self._record(key, gradients, wanted, create, keep)
        if (
            live is not self.live and chain.trace.hooks
        ):  # they may look at what the first call held: only the graph is right
            return self._run(chain, gradients, create)
        if self.recording.general:
            self._compare(chain)
        made = [None if r is None else Tensor(r._array, r._storage) for r in results]
        if create:
            node = self._attach(chain, gradients, made, [g._array for g in gradients if g is not None])
            node.live = following
        return made

    def _compare(self, chain: Chain) -> None:
        """A stage is right for all sizes once it was the same program in two calls between which all of them differ."""
        stage = len(chain.keys)
        mine = skeleton(chain.trace.graph, stage)
        for other in self.recording.following(self.keys, chain.keys[-1][0]):
            if other is chain or other.keys != chain.keys or other.sizes is None:
                continue
            apart = all(other.sizes[i][d] != self.sizes[i][d] for i, d in self.recording.varying)
            if apart and skeleton(other.trace.graph, stage) == mine:
                chain.sizes = None
                chains = self.recording.chains
                if chain in chains and not chains[0].keys:  # so that the forward keeps what this backward needs
                    chains.remove(chain)
                    chains.insert(0, chain)
                return

    def _extensible(self, keep: bool) -> tuple[Chain, Live]:
        """A chain that ends where this node stands, and the tensors to go on from."""
        from .replaying import replay_stages

        assert self.kept is not None
        usable = [c for c in self.recording.beginning_with(()) if c.sizes in (None, self.sizes)]
        chain = next((c for c in usable if c.keys == self.keys), None)
        if self.live is not None and chain is not None and chain.trace is self.live.trace:
            return chain, self.live
        self.kept.check(self)
        if chain is None or not keep or self.recording.general:
            origin = next(c for c in self.recording.beginning_with(self.keys) if c in usable)
            chain = Chain(fork(origin.trace, len(self.keys) + 1), self.keys, origin.differentiable[: len(self.keys)])
            chain.sizes = self.sizes
            if keep:
                self.recording.chains.append(chain)
        with self.kept.recalled():
            live = replay_stages(chain.trace, self.kept.inputs, self.kept.requires_grad, self.recording.general)
            return chain, live

    def _attach(self, chain: Chain, gradients: Sequence[Any], results: Sequence[Any], arrays: list[Any]) -> StageNode:
        """Make the results of a differentiable stage differentiable: by the stage after it."""
        assert self.kept is not None
        stage = len(self.keys)
        given = [g for g in gradients if g is not None]
        edges = [*self.edges, *map(edge_of, given)]
        node = StageNode(self.recording, (*self.keys, chain.keys[stage]), edges, len(results))
        node.sizes = self.sizes
        node.kept = Kept(
            [*self.kept.inputs, arrays], [*self.kept.marks, [_mark(g) for g in given]],
            [*self.kept.requires_grad, *map(dispatch.requires_grad, given)],
            [*self.kept.made, {i: _mark(r) for i, r in enumerate(results) if r is not None}], self.kept.calls,
        )  # fmt: skip
        for index in chain.differentiable[stage]:
            _give_history(results[index], node, index)
        return node


def _kind_of_gradient(gradient: Tensor | None) -> Any:
    return None if gradient is None else kind_of(gradient)[:4]


def record_stage(
    chain: Chain, key: Key, live: Live, gradients: Sequence[Any], wanted: Sequence[bool], create: bool
) -> tuple[list[Any], Live]:
    """Run the backward of `live` through autograd, recorded as the next stage of `chain`."""
    trace = chain.trace
    before = trace.updates(), trace.drawn()
    guards = len(trace.guards)
    hooks = view_of_objects([("a hook", hook) for hooks in trace.hooks.values() for hook in hooks])
    impure, trace.impure = trace.impure, None
    trace.graph.add_stage()
    stage = len(trace.graph.stages) - 1
    try:
        roots, weights = _roots(trace, live, gradients, create)
        chosen = [want and edge is not None for edge, want in zip(live.edges, wanted, strict=True)]
        edges = [edge for edge, want in zip(live.edges, chosen, strict=True) if want]
        with context.tracing(trace), watching(trace, is_foreign):
            found = iter(run_backward(roots, weights, edges, True, create, within=True))
            results = [next(found) if want else None for want in chosen]
            trace.graph.set_return([None if r is None else trace.value_of(r) for r in results])
        if (trace.updates(), trace.drawn()) != before:
            raise TraceError(
                "the backward of a traced function changes a buffer or draws random numbers; run it outside the trace"
            )
        what = trace.impure or (hooks and hooks.effect() and f"changes {hooks.effect()}")
        if what and impure is None:
            raise _unrepeatable(trace, what)
    except BaseException:
        _drop(chain, stage, guards)
        raise
    finally:
        chain.graph = chain._plan = None
        trace.impure = impure
    outcomes = tuple((type(g.outcome), g.outcome) for g in trace.guards[guards:])
    chain.keys = (*chain.keys, (key, outcomes))
    carrying = tuple(i for i, r in enumerate(results) if r is not None and r.requires_grad)
    chain.differentiable = (*chain.differentiable, carrying)
    return results, Live(results, [*live.edges, *map(edge_of, weights)], trace)


def _drop(chain: Chain, stage: int, guards: int) -> None:
    """Forget a stage that could not be recorded. An interrupt may have come in the middle of a change of the graph."""
    try:
        chain.trace.drop_stage(stage, guards)
        chain.trace.graph.verify()
    except Exception:
        chain.is_spoilt = True


def _unrepeatable(trace: Trace, what: str) -> TraceError:
    functions = (getattr(hook, "__code__", None) for hooks in trace.hooks.values() for hook in hooks)
    lines = [f"{os.path.basename(code.co_filename)}:{code.co_firstlineno}" for code in functions if code is not None]
    where = f"at {', '.join(lines)}: " if lines else ""
    return TraceError(
        f"{where}a hook inside a traced function {what}, which a recording cannot repeat; register it outside"
    )


def _roots(trace: Trace, live: Live, gradients: Sequence[Any], create: bool) -> tuple[list[Any], list[Any]]:
    """The outputs to start from, and their weights, which become the inputs of the stage."""
    roots, weights = [], []
    for index, (output, gradient) in enumerate(zip(live.outputs, gradients, strict=True)):
        if gradient is None or output is None:
            continue
        weight = alias(gradient, Variable if create else Tensor)
        weight._requires_grad = create and dispatch.requires_grad(gradient)
        trace.add_argument(weight, f"grad_{index}" if len(gradients) > 1 else "grad", len(trace.graph.stages) - 1)
        roots.append(output)
        weights.append(weight)
    return roots, weights


def fork(trace: Trace, stages: int) -> Trace:
    """A copy of a recording up to `stages`, for a backward that differs from the one that follows there."""
    mapping: dict[Value, Value] = {}
    graph = trace.graph.clone(mapping)
    nodes = {old: new for old, new in zip(trace.graph.nodes, graph.nodes, strict=True)}
    copy = Trace(trace.locate, graph)
    copy.captures = [replace(c, value=mapping[c.value]) for c in trace.captures]
    copy.guards = [replace(g, node=nodes[g.node]) for g in trace.guards if g.node.stage < stages]
    copy.constants = trace.constants
    kept = [c for c in trace.composites if c.node.stage < stages]
    copy.composites = [type(c)(nodes[c.node], [nodes[p] for p in c.parts], [mapping[v] for v in c.taken]) for c in kept]
    copy.checkpoints = {nodes[n]: path for n, path in trace.checkpoints.items() if n in nodes and n.stage < stages}
    copy.backwards = {nodes[n] for n in trace.backwards if n in nodes}
    copy.hooks = {mapping[value]: hooks for value, hooks in trace.hooks.items() if value.stage < stages}
    copy.untracked = {nodes[n] for n in trace.untracked if n in nodes and n.stage < stages}
    written = [(v, before) for v, before in trace.histories.items() if v in mapping and v.stage < stages]
    copy.histories = {mapping[v]: mapping[before] for v, before in written}
    graph.drop_stages(stages)
    return copy
