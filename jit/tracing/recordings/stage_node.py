"""The autograd node behind what a traced call returns: its backward is the next stage, compiled or yet to be recorded.

Note [Whose memory]
    A plan hands out arrays that later stages read too: the output of a sigmoid is what its derivative needs. If the
    caller has changed such an output in place meanwhile, the stage runs again from the kept inputs; if an input has
    changed that is still needed, that is the same error as in eager mode. `aliasing` says which ones matter.
"""

from __future__ import annotations

import contextlib
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from jit.autograd.blame import refuse_nan
from jit.autograd.nodes import Edge, Node, edge_of
from jit.eager import context, dispatch
from jit.eager.namespace import F
from jit.eager.tensors import Tensor, tensor_of
from jit.ir import Value
from jit.ir.errors import AutogradError, Error
from jit.runtime.arrays.programs import GuardFailed
from jit.runtime.processes.exchanges import Exchanges, current_exchanges, exchanging, start_again

from ..patience import patience
from ..surroundings.properties import kind_of
from .chains import BRANCHES, Chain, Key, Plan, StageSizes, fork
from .general_stages import general_key, settle, share
from .histories import give_history
from .hosting import PythonHost
from .kept_leaves import EagerHistory, lead
from .layouts import ranks_of
from .named_sizes import let_have
from .recalling import Recollection, recalling
from .replaying import replay_stages
from .stage_recording import Live, record_stage

if TYPE_CHECKING:
    from .recording import Recording

Mark = tuple[Any, int]
"""A storage, and the version that it had."""


def mark_of(tensor: Tensor) -> Mark:
    """The mark of a tensor as it is now."""
    return tensor._storage, tensor._storage.version


@dataclass(slots=True)
class Kept:
    """The values that a StageNode keeps for a backward that has not been recorded yet."""

    inputs: list[list[Any]]
    """The values of the inputs of each stage so far."""
    marks: list[list[Mark | None]]
    """The mark of each input of each stage when that ran; None for inputs that need no check."""
    requires_grad: list[bool]
    """Whether the input of each edge of the node required a gradient."""
    made: list[dict[int, Mark]] = field(default_factory=list)
    """The marks of the tensors that each stage returned, by number."""
    calls: Recollection | None = None
    """The results of Python functions in stage 0."""

    def recalled(self) -> Any:
        """A block within which none of these functions runs again."""
        return recalling(None if self.calls is None else self.calls.again(current_exchanges()))

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
        """Whether the outputs that later stages read are unchanged."""
        marks = (m for stage, made in enumerate(self.made) for i, m in made.items() if (stage, i) in exposed)
        return all(storage.version == version for storage, version in marks)


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
        self.sizes: tuple[int, ...] = ()
        """The sizes that vary, if the recording is general."""
        self.origin: Chain | None = None
        """The chain whose stage has made the results, for stages after 0."""

    def release(self) -> None:
        self.kept = self.live = self.state = self.plan = None

    def whole(self, index: int) -> Edge:
        """The edge at which the whole gradient of output `index` arrives.

        Where another output was made of that one, this node gets a part of its gradient only: the operators run again,
        and the node becomes the way to their own histories.
        """
        chain = self.recording.chains[0]
        if self.keys or self.kept is None or not _leads_on(chain.trace.graph.stages[0], index):
            return Edge(self, index)
        if self.live is not None and None in self.live.outputs:
            self.live = None  # it does not know the views among the results
        with context.tracing(None), self.recording.lock:
            _, live = self._extensible(keep=False)
        for inner, outer in zip(live.edges, self.edges, strict=True):
            if inner is not None and outer is not None:
                lead(inner, outer)
        self.release()
        self.edges = [edge_of(output) if isinstance(output, Tensor) else None for output in live.outputs]
        self.__class__ = EagerHistory  # type: ignore[assignment]
        return self.whole(index)

    def apply(self, gradients: list[Tensor | None], needs: Sequence[bool]) -> Sequence[Tensor | None]:
        damaged = self.recording.damaged
        if damaged is None or self.recording.calls_python:  # what Python raises is the user's
            return self._apply(gradients, needs)
        try:
            return self._apply(gradients, needs)
        except (Error, MemoryError):
            raise
        except Exception as error:
            raise damaged(
                f"a backward of a loaded function is damaged: {type(error).__name__} ({error}); save the function again"
            ) from error

    def _apply(self, gradients: list[Tensor | None], needs: Sequence[bool]) -> Sequence[Tensor | None]:
        if self.kept is None:
            raise AutogradError(
                f"backward through the traced call at {self.source} a second time: what it kept was freed; "
                "say retain_graph=True the first time"
            )
        create = context.GRAD_ENABLED.get()
        wanted = tuple(n and e is not None for n, e in zip(needs, self.edges, strict=True))
        key: Key = (tuple(map(_kind_of_gradient, gradients)), wanted, create)
        if self.recording.general:
            key, gradients = general_key(key), [_without_gaps(gradient) for gradient in gradients]
        with context.tracing(None):
            chains = self.recording.following(self.keys, key, self.sizes)
            exchanges = Exchanges(outer=current_exchanges())
            for chain in chains:
                repeats = create or chain.keys[len(self.keys)][1]  # for a later stage, or where a guard fails
                kept = exchanges.again() if repeats else exchanges.outer
                with contextlib.suppress(GuardFailed), exchanging(kept):
                    return self._run(chain, gradients, create)
            with self.recording.lock, exchanging(exchanges.again()):
                if len(self.recording.following(self.keys, key, self.sizes)) > len(chains):
                    return self.apply(gradients, needs)  # another thread has recorded it meanwhile
                keep = len(self.recording.following(self.keys, key)) < BRANCHES
                return self._record(key, gradients, wanted, create, keep)

    # -- a stage that is compiled --------------------------------------------------------------------------------

    def _run(self, chain: Chain, gradients: Sequence[Any], create: bool) -> Sequence[Any]:
        plan = self.recording.plan(chain, self.sizes)
        arrays = [g._array for g in gradients if g is not None]
        outputs, _, following = plan.run(len(self.keys) + 1, arrays, self._state(plan))
        if context.ANOMALY.get():
            assert self.kept is not None
            with self.kept.recalled():
                refuse_nan(outputs, self.recording.folded(chain), [*self.kept.inputs, arrays], PythonHost())
        results = [None if o is None else tensor_of(o) for o in outputs]
        if create:
            node = self._attach(chain, gradients, results, arrays)
            node.state, node.plan = following, plan
        return results

    def _state(self, plan: Plan) -> Any:
        """The state that earlier stages have left for the next one; they run again if it is missing or overwritten."""
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

    # -- a stage that is not recorded yet ------------------------------------------------------------------------

    @patience()
    def _record(
        self, key: Key, gradients: Sequence[Any], wanted: Sequence[bool], create: bool, keep: bool
    ) -> Sequence[Any]:
        chain, live = self._extensible(keep)
        if live is not self.live and (found := self._for_counts(key, live.counts)) is not None:
            self.recording.chains[:] = [c for c in self.recording.chains if c is not chain]
            with contextlib.suppress(GuardFailed):
                return self._run(found, gradients, create)
            self.recording.chains += [chain] if keep else []
        try:
            results, following = record_stage(chain, key, live, gradients, wanted, create)
        except AutogradError:
            if live is not self.live or chain.is_spoilt:
                raise
            # Something was overwritten that the derivatives need; a run from the inputs has it still.
            self.live = None
            start_again()
            return self._record(key, gradients, wanted, create, keep)
        fits = self._generalise(chain, live.counts)
        if fits and live is not self.live and chain.trace.gradients.hooks:
            start_again()
            return self._run(chain, gradients, create)  # they may look at what the first call held: the graph is right
        made = [None if r is None else tensor_of(r._array, r._storage) for r in results]
        if create:
            node = self._attach(chain, gradients, made, [g._array for g in gradients if g is not None])
            node.live = following
        return made

    def _for_counts(self, key: Key, counts: tuple[int, ...]) -> Chain | None:
        """A chain that has the stage for no other than these counts, which are not known before the forward runs."""
        found = self.recording.following(self.keys, key, self.sizes, counts) if counts else ()
        return next(iter(found), None)

    def _generalise(self, chain: Chain, counts: tuple[int, ...]) -> bool:
        """Let a stage that was just recorded serve as many sizes as it can; False if it can serve this call alone.

        Args:
            chain: It has the stage as its last one.
            counts: The sizes that depend on elements and are open, as they are in this call.
        """
        recording = self.recording
        if not recording.general:
            share(recording, chain)
            return True
        chain.sizes = (*chain.sizes, StageSizes((*self.sizes, *counts), (False,) * len((*self.sizes, *counts))))
        if settle(recording, chain):
            return True
        recording.refusal = f"the sizes in the backward at {self.source} do not follow from those of its arguments"
        shorter = Chain(fork(chain.trace, len(chain.keys)), chain.keys[:-1], chain.differentiable[:-1])
        shorter.sizes = chain.sizes[:-1]
        recording.chains[:] = [c for c in recording.chains if c is not chain] or [shorter]
        return False

    def _extensible(self, keep: bool) -> tuple[Chain, Live]:
        """A chain that ends where this node stands, and the tensors to go on from."""
        assert self.kept is not None
        recording, stages = self.recording, len(self.keys)
        usable = [c for c in recording.beginning_with(self.keys) if recording.serves(c, stages, self.sizes)]
        chain = next((c for c in usable if c.keys == self.keys), None)
        if self.live is not None and chain is not None and chain.trace is self.live.trace:
            return chain, self.live
        self.kept.check(self)
        if chain is None or not keep or recording.general:
            origin = usable[0] if usable else self.origin
            assert origin is not None
            chain = Chain(fork(origin.trace, stages + 1), self.keys, origin.differentiable[:stages])
            chain.sizes = origin.sizes[:stages]
            if recording.general:
                let_have(chain, recording.varying, self.sizes)
            if keep:
                recording.chains.append(chain)
        with self.kept.recalled():
            return chain, replay_stages(chain.trace, self.kept.inputs, self.kept.requires_grad)

    def _attach(self, chain: Chain, gradients: Sequence[Any], results: Sequence[Any], arrays: list[Any]) -> StageNode:
        """Make the results of a differentiable stage differentiable: by the stage after it."""
        assert self.kept is not None
        stage = len(self.keys)
        given = [g for g in gradients if g is not None]
        edges = [*self.edges, *map(edge_of, given)]
        node = StageNode(self.recording, (*self.keys, chain.keys[stage]), edges, len(results))
        node.sizes, node.origin = self.sizes, chain
        calls = (self.kept.calls or Recollection()).followed_by(current_exchanges())
        node.kept = Kept(
            [*self.kept.inputs, arrays], [*self.kept.marks, [mark_of(g) for g in given]],
            [*self.kept.requires_grad, *map(dispatch.requires_grad, given)],
            [*self.kept.made, {i: mark_of(r) for i, r in enumerate(results) if r is not None}], calls,
        )  # fmt: skip
        for index in chain.differentiable[stage]:
            give_history(results[index], node, index)
        return node


def _leads_on(stage: Any, index: int) -> bool:
    """Whether a value that a stage returns as number `index` is used for another one that it returns."""
    returned = [*stage.outputs, *(value for _, value in stage.updates)]
    value = returned[index]
    if not isinstance(value, Value):
        return False
    others = {each for number, each in enumerate(returned) if number != index and isinstance(each, Value)}
    seen, waiting = {value}, [value]
    while waiting and not seen & others:
        made = {made for use in waiting.pop().uses if use.node.stage == 0 for made in use.node.outputs} - seen
        seen |= made
        waiting += made
    return bool(seen & others)


def _without_gaps(gradient: Tensor | None) -> Tensor | None:
    """A gradient that general recordings can have: they would have to know the size of a gap."""
    if gradient is None or not gradient.defined or gradient._array.flags.c_contiguous:
        return gradient
    array = gradient._array
    has_gaps = ranks_of(array.shape, tuple(s // array.itemsize for s in array.strides)) is None
    return F.contiguous(gradient) if has_gaps else gradient


def _kind_of_gradient(gradient: Tensor | None) -> Any:
    return None if gradient is None else kind_of(gradient)[:4]
