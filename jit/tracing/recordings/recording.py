"""A recorded function: how a call runs it, commits its changes, and makes the function's result of its outputs."""

from __future__ import annotations

import contextlib
import threading
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property, partial
from typing import Any
from weakref import WeakKeyDictionary

from jit.autograd.nodes import Edge, edge_of
from jit.eager import dispatch
from jit.eager.generators import Generator
from jit.eager.tensors import Tensor
from jit.ir import Graph
from jit.ir.attempts import KIND
from jit.ir.errors import Error
from jit.ir.scalars import exactly
from jit.passes import CLEANUP, run
from jit.passes.support.analysis import communicates
from jit.runtime.arrays import blocks
from jit.runtime.arrays.libraries import is_array
from jit.runtime.arrays.programs import Engine, GuardFailed

from ..patience import patience
from ..recorder.tracer import Trace
from ..surroundings.observations import Observations
from ..surroundings.properties import contents_of
from ..surroundings.sharing import Extents
from ..surroundings.surroundings import World
from .aliasing import analyse
from .captured_kinds import CapturedKinds
from .carriers import carrier
from .chains import Chain, Key, Plan, graph_of, numbered
from .changes import EffectSpec
from .compiling import engine, unoptimised
from .conditions import Conditions
from .counts import OPEN, open_counts, opened
from .hosting import PythonHost
from .kept_plans import keep, name_of, recalled
from .kept_sized_plans import KeptSizedPlans
from .named_sizes import NamedSizes, SizeTest, sizes_in, symbols_of, with_named_sizes
from .recalling import recollection
from .results import ResultSpec, Returned
from .sized_plans import PlanMakers, SizedPlans
from .stage_node import Kept, StageNode, mark_of
from .views_of_sizes import ViewsOfSizes, with_paths

Optimise = Callable[[Graph], Graph]


class OperatorRaised(Exception):
    """An operator of a recording has raised `error`; nothing has been committed, and the function may catch it."""

    def __init__(self, error: Exception) -> None:
        super().__init__(str(error))
        self.error = error


@dataclass(eq=False)
class Recording:
    """One recorded path through a function."""

    result: ResultSpec
    positions: list[int]
    """Positions of the tensors among the arguments that are inputs of stage 0; captures follow."""
    optimise: Optimise
    chains: list[Chain] = field(default_factory=list)
    effects: EffectSpec = field(default_factory=EffectSpec)
    conditions: Conditions = field(default_factory=Conditions)
    differentiable: list[int] = field(default_factory=list)
    """The stage-0 returns (outputs, then updates) that carry gradients."""
    read: list[Any] = field(default_factory=list)
    """The Python values in its key that it has baked in: lines of the constants ledger."""
    general: bool = False
    """Whether it serves many sizes; see jit.tracing.recordings.shapes."""
    varying: tuple[tuple[int, int], ...] = ()
    """The sizes that vary: pairs of an input and a dim."""
    size_test: SizeTest | None = None
    """The conditions on these, once somebody has asked for the graph."""
    sources: Sequence[Recording] = field(default=(), repr=False)
    """The recordings for one size each of which it was made, if it is general."""
    generals: list[Recording] = field(default_factory=list, repr=False)
    """The general recordings that were made of it."""
    refusal: str | None = None
    """Why it serves no calls any more, if so."""
    views: ViewsOfSizes | None = None
    """The views that it returns, by sizes; made when first needed."""
    calls_python: bool = False
    """Whether it calls autograd.Functions, whose results are remembered during a call."""
    damaged: type[Error] | None = None
    """The error to raise where a recording that came in a file stumbles; None for those that were made here."""
    spent: bool = False
    """Whether the function has itself gone backward through all that it returns."""
    outcomes: tuple[Any, ...] = ()
    """The outcomes of the guards of stage 0, in order; see `exactly`."""
    examples: list[Any] = field(default_factory=list)
    """The arrays that it was recorded with, if they were to be kept."""
    captured_kinds: CapturedKinds = field(default_factory=CapturedKinds, init=False)
    extents: Extents = field(default_factory=Extents, init=False)
    """The memory of its inputs, as far as they are the same arrays again."""
    tried: WeakKeyDictionary[Plan, Any] = field(default_factory=WeakKeyDictionary)
    """The surroundings and the mode for which a shortcut to a plan was last looked for."""
    lock: threading.RLock = field(default_factory=threading.RLock)

    @cached_property
    def is_recalled(self) -> bool:
        """Whether it does what must not happen twice in a call: it calls Python functions, or communicates."""
        return self.calls_python or any(map(communicates, self.trace.graph.nodes))

    @property
    def trace(self) -> Trace:
        """The recording in full detail."""
        return self.chains[0].trace

    def graph(self) -> Graph:
        """The graph of the first chain, folded."""
        return self._graph_of(self.chains[0])

    def folded(self, chain: Chain) -> Graph:
        """The graph of a chain, folded and tidy."""
        if chain.graph is None:
            if self.general:
                chain.graph = self.named(chain).graph
            else:
                chain.graph = graph_of(chain.trace)
                run(chain.graph, CLEANUP)
        return chain.graph

    def named(self, chain: Chain) -> NamedSizes:
        """The graph of a chain of a general recording, with the conditions under which its stages are right.

        Raises:
            SizesMisfit: Sizes do not follow from those of the inputs.
        """
        if chain.named is None:
            chain.named = with_named_sizes(chain, self.varying)
            if self.size_test is None:
                self.size_test = SizeTest(chain.named, self.varying)
        return chain.named

    def plan(self, chain: Chain, sizes: tuple[int, ...] | None = None) -> Plan:
        """The plan of a chain, built when first needed and after a stage was added.

        Args:
            chain: One of `chains`.
            sizes: The varying sizes of a call, if it is a general recording; those of the first call unless given.
        """
        if self.general:
            return self._sized_plan(chain, sizes or sizes_in(self.trace.graph.inputs, self.varying))
        with self.lock:
            if chain.plan is None:
                with patience():
                    chain.plan = self._plan(chain)
                blocks.forget()  # a plan has no use for the memory of what lay between the recorded operators
            return chain.plan

    @property
    def remarks(self) -> list[str]:
        """Sentences about how its plans run."""
        plans = [plan for chain in self.chains for plan in chain.plans]
        return [*dict.fromkeys(remark for plan in plans for remark in plan.interpreter.remarks)]

    def _sized_plan(self, chain: Chain, sizes: tuple[int, ...]) -> Plan:
        plans: SizedPlans | None = chain.sized_plans
        if plans is None:
            with self.lock, patience():
                graph, named = self.folded(chain), self.named(chain)
                kept = None if self.optimise is unoptimised else KeptSizedPlans.of(graph, named)
                makers = PlanMakers(self._planned, self._interpreted, self._without_views)
                plans = chain.sized_plans = SizedPlans(graph, named, makers, kept)
        return plans.at(sizes)

    def _planned(self, graph: Graph) -> Plan:
        """The plan of a graph."""
        interpreter = self._interpreter(graph)
        return Plan(interpreter, analyse(interpreter.graph))

    def _interpreted(self, graph: Graph) -> Plan:
        """The graph as it was recorded, node by node."""
        interpreter = engine(numbered(graph), False, PythonHost())
        return Plan(interpreter, analyse(interpreter.graph))

    def _without_views(self, plan: Plan) -> Plan:
        """A plan that copies none of the results of which views are made."""
        outputs = enumerate(self.result.outputs)
        plan.memory.copied -= {(0, i) for i, spec in outputs if spec.kind not in ("fresh", "number")}
        return plan

    def _plan(self, chain: Chain) -> Plan:
        """The plan of a chain: from the cache, or made and kept there."""
        name = None if self.optimise is unoptimised else name_of(chain.trace)
        plan = None if name is None else recalled(name, partial(self._graph_of, chain), self._interpreter)
        if plan is None:
            plan = self._planned(self.folded(chain))
            if name is not None:
                keep(name, plan)
        return self._without_views(plan)

    def _interpreter(self, graph: Graph) -> Engine:
        return engine(self.optimise(numbered(graph)), self.optimise is not unoptimised, PythonHost())

    def _graph_of(self, chain: Chain) -> Graph:
        with self.lock:
            return self.folded(chain)

    def beginning_with(self, keys: tuple[Key, ...]) -> list[Chain]:
        """The chains that begin with stages `keys`."""
        return [c for c in self.chains if c.keys[: len(keys)] == keys and not c.is_spoilt]

    def serves(self, chain: Chain, stages: int, sizes: Sequence[int], counts: Sequence[int] = ()) -> bool:
        """Whether the first `stages` stages after stage 0 of a chain are right for a call of these varying sizes.

        Args:
            chain: One of `chains`.
            stages: The number of stages.
            sizes: The sizes.
            counts: The sizes that depend on elements and are open, if they are known.
        """
        if not self.general or stages == 0:
            return True
        known = (*sizes, *(counts or (None,) * len(self.counts)))
        admitted = all(each.admit(known) for each in chain.sizes[:stages])
        return admitted and self.named(chain).serves(sizes, stages)

    def following(
        self, keys: tuple[Key, ...], key: Key, sizes: Sequence[int] | None = None, counts: Sequence[int] = ()
    ) -> list[Chain]:
        """The chains in which a stage that was asked for as `key` comes after stages `keys`.

        Args:
            keys: The keys and outcomes of the stages before.
            key: The key by which the stage is asked for.
            sizes: Leave out chains of a general recording that are not right for these varying sizes.
            counts: The open sizes that depend on elements, if they are known.
        """
        found = [c for c in self.beginning_with(keys) if len(c.keys) > len(keys) and c.keys[len(keys)][0] == key]
        return [c for c in found if sizes is None or self.serves(c, len(keys) + 1, sizes, counts)]

    def sizes_of(self, owners: Sequence[Any]) -> tuple[int, ...]:
        """The sizes that vary, `owners` being the tensors behind the inputs."""
        return tuple(owners[index]._array.shape[dim] for index, dim in self.varying)

    @cached_property
    def counts(self) -> tuple[int, ...]:
        """The numbers of the guards on sizes that depend on elements which it leaves open; see Note [Counts]."""
        return open_counts(self.trace)

    def generalised(self, forward: Trace, varying: Sequence[tuple[int, int]]) -> Recording:
        """A recording of the same program in which further sizes vary.

        Args:
            forward: Its stage 0, in which sizes that depend on elements may be open.
            varying: The sizes, as pairs of an input of `forward` and a dim.

        Raises:
            SizesMisfit: Something in it does not follow from the sizes of the inputs.
        """
        general = replace(
            self, chains=[Chain(forward)], general=True, varying=(*self.varying, *varying),
            examples=[], tried=WeakKeyDictionary(), size_test=None, views=None, lock=threading.RLock(), sources=(),
            generals=[],
        )  # fmt: skip
        paths = general.named(general.chains[0]).views
        is_open = set(general.counts)
        general.outcomes = tuple(OPEN if i in is_open else outcome for i, outcome in enumerate(self.outcomes))
        general.result, general.effects = with_paths(self.result, self.effects, paths)
        return general

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
        for capture in self.trace.captures.found:
            if tensors is not None and capture.place is not None:
                chosen.append(tensors[capture.place])
            elif tensors is not None and capture.number is not None:
                number = numbers[capture.number]
                chosen.append(carrier(capture.sign * number) if capture.sign else number)
            elif tensors is not None and capture.item_of is not None:
                chosen.append(carrier(capture.sign * int(chosen[capture.item_of]._array.item())))
            elif tensors is not None and capture.gradient_of is not None:
                chosen.append(chosen[capture.gradient_of]._grad)
            else:
                chosen.append(capture.owner)
        return chosen

    def misfit(
        self, owners: Sequence[Any], known: Callable[[Any], bool], view: Observations | None = None
    ) -> str | None:
        """Why a call that the key admits cannot run this recording; None if it can.

        Args:
            owners: The tensors behind the inputs.
            known: Whether the function can reach a tensor otherwise than as a `.grad`.
            view: What the call has found to be as it was seen, if anything.
        """
        if self.chains[0].is_spoilt:
            return "an interrupt has spoilt it"
        if self.refusal is not None:
            return self.refusal
        return (
            self._other_sizes(owners)
            or self.conditions.other_gradient(owners, self._name)
            or self._other_capture(owners, known, view)
            or self.conditions.unmet(owners, self._name, self.extents if self.effects.targets else None)
        )

    def _other_sizes(self, owners: Sequence[Any]) -> str | None:
        """The condition on sizes that a call does not meet, in words; None if it meets all of them."""
        if not self.general:
            return None
        if self.size_test is None:
            self._graph_of(self.chains[0])
        assert self.size_test is not None
        return self.size_test.unmet(self.sizes_of(owners), self._name_of_size)

    def _name(self, index: int) -> str:
        return self.trace.graph.inputs[index].name

    def _name_of_size(self, index: int, dim: int) -> str:
        """The words for what varies: a size, or a number that is one."""
        number = index - len(self.positions)
        sign = self.trace.captures.found[number].sign if number >= 0 else 0
        return f"{'-' if sign < 0 else ''}{self._name(index)}{'' if sign else f'.shape[{dim}]'}"

    def _other_capture(
        self, owners: Sequence[Any], known: Callable[[Any], bool], view: Observations | None
    ) -> str | None:
        """Why the captures are not what they have to be, if so."""
        captures, captured = self.trace.captures.found, owners[len(self.positions) :]
        for capture, owner in zip(captures, captured, strict=True):
            if capture.gradient_of is not None and capture.place is None and known(owner):
                return "the .grad of a tensor is also another tensor now"
        return self.captured_kinds.other(captures, captured, view)

    def networks(self, world: World) -> list[Any]:
        """The networks whose attributes a call sets, one for each attribute."""
        return [world.object_at(attribute.network) for attribute in self.result.attributes]

    def run(self, owners: Sequence[Any], networks: Sequence[Any] = ()) -> Any:
        """Call the recorded function; nothing has happened yet if it raises one of these.

        Args:
            owners: The tensors behind the inputs.
            networks: The networks whose attributes are set, see `networks`.

        Raises:
            GuardFailed: It would now take another path.
            OperatorRaised: An operator has raised, so that the function may take another path.
        """
        with _drawing_alone(owners) if self.trace.randomness.drawn() else contextlib.nullcontext():
            values = [contents_of(owner) for owner in owners]
            plan = self.plan(self.chains[0], self.sizes_of(owners))
            node = None
            if self.differentiable and any(map(dispatch.requires_grad, owners)):
                node = self.node_of(owners, values, [edge_of(o) for o in owners])
                values = values if node.kept is None else node.kept.inputs[0]
            try:
                outputs, updates, state = plan.run(0, values)
            except GuardFailed:
                raise
            except Exception as error:
                raise OperatorRaised(error) from error
            if node is not None and node.kept is not None:
                node.state, node.plan = state, plan
            self.effects.commit(owners, updates, len(outputs), node, self.differentiable)
        return self.rebuild(outputs, owners, node, networks=networks)

    def node_of(self, owners: Sequence[Any], values: Sequence[Any], edges: Sequence[Edge | None]) -> StageNode:
        """The history of a call's results. It keeps inputs: copies of overwritten ones, and none that are unused."""
        node = StageNode(self, (), self.used(edges), self.returns)
        if self.general:
            node.sizes = self.sizes_of(owners)
        if self.spent:  # a second backward is an error, so there is nothing to keep
            return node
        written = set(self.effects.targets)
        used = self.used([True] * len(owners))
        arrays = [v.copy() if i in written and is_array(v) else v for i, v in enumerate(values)]
        arrays = [v if u or not is_array(v) else None for v, u in zip(arrays, used, strict=True)]
        marks = [
            mark_of(o) if isinstance(o, Tensor) and used[i] and i not in written else None for i, o in enumerate(owners)
        ]
        node.kept = Kept([arrays], [marks], [dispatch.requires_grad(o) for o in owners], calls=recollection())
        return node

    def used(self, items: Sequence[Any]) -> list[Any]:
        """`items`, one per input of stage 0, with None for inputs that nothing uses."""
        return [item if v.uses else None for v, item in zip(self.trace.graph.inputs, items, strict=True)]

    @property
    def returns(self) -> int:
        """The number of values that stage 0 returns, updates included."""
        result = self.trace.graph.stages[0].result
        return len(result.args) + len(result.attributes.get("update", ()))

    def rebuild(
        self,
        results: Sequence[Any],
        owners: Sequence[Any],
        node: StageNode | None,
        storages: Sequence[Any] = (),
        objects: Sequence[Any] | None = None,
        networks: Sequence[Any] = (),
    ) -> Any:
        """The function's result from what a run returned; gradients that it leaves in `.grad` are put there.

        Args:
            results: Arrays and numbers.
            owners: The tensors behind the inputs.
            node: The history of the result, if gradients are recorded.
            storages: Per result, what identifies its memory, where that is known already.
            objects: The objects behind the inputs, where the function itself has made other views of some.
            networks: The networks whose attributes are set, see `networks`.
        """
        objects = owners if objects is None else objects
        returned = Returned(results, storages, node, self.differentiable)
        result, effects = self._views(owners)
        made = result.made(returned, owners, objects)
        if node is not None and node.kept is not None:
            node.kept.made = [{index: mark_of(t) for index, t in returned.tensors.items()}]
        effects.leave(made, owners, objects)
        return result.assembled(made, networks)

    def result_of(self, owners: Sequence[Any]) -> ResultSpec:
        """The way of a call's result out of a run, with the numbers of the call's own sizes."""
        return self._views(owners)[0]

    def _views(self, owners: Sequence[Any]) -> tuple[ResultSpec, EffectSpec]:
        """The results and changes of a call, with the numbers of its own sizes in the ways to views."""
        if not self.general:
            return self.result, self.effects
        if self.views is None:
            self.views = ViewsOfSizes(self.result, self.effects, symbols_of(self.varying))
        return self.views.at(self.sizes_of(owners))


PARTS = {"result": ResultSpec, "effects": EffectSpec, "conditions": Conditions}
"""Fields of a recording that are records themselves."""


def generalised(pair: Sequence[Recording], varying: Sequence[tuple[int, int]], counts: Iterable[int] = ()) -> Recording:
    """A recording of the program that two recordings are, its forward alone, in which the sizes (input, dim) vary.

    Args:
        pair: The recordings, the latest last.
        varying: The sizes.
        counts: The guards on sizes that depend on elements which are to be open.
    """
    latest = pair[-1]
    general = latest.generalised(opened(latest.trace, counts), varying)
    general.sources = tuple(pair)
    for recording in pair:
        recording.generals.append(general)
    return general


def seen_by(recording: Recording, failed: GuardFailed) -> tuple[Any, ...]:
    """The outcomes of guards in a call up to a failed one; an operator that did not raise gives none."""
    before = recording.outcomes[: failed.index]
    return before if watches_error(recording, failed.index) else (*before, exactly(failed.actual))


def may_follow(recording: Recording, seen: tuple[Any, ...]) -> bool:
    """Whether a call with these outcomes may be right for a recording.

    Recordings in which an operator raises have one guard more there than others, so from there on outcomes cannot be
    compared by their numbers.
    """
    pairs = enumerate(zip(recording.outcomes, seen))
    other = next((index for index, (mine, found) in pairs if mine != found and OPEN not in (mine, found)), None)
    return other is None and len(recording.outcomes) >= len(seen) or watches_error(recording, other)


def watches_error(recording: Recording, index: int | None) -> bool:
    """Whether guard `index`, or any guard if that is None, asks whether an operator raises."""
    guards = recording.trace.guards.records
    return any(guard.node.inputs[0].node.kind == KIND for guard in (guards if index is None else guards[index:][:1]))


@contextlib.contextmanager
def _drawing_alone(owners: Sequence[Any]) -> Iterator[None]:
    """Keep other threads from drawing from these generators between the reading of their states and the new states."""
    with contextlib.ExitStack() as stack:
        for generator in sorted((o for o in owners if isinstance(o, Generator)), key=id):
            stack.enter_context(generator.lock)
        yield
