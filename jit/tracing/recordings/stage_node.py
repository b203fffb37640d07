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
from jit.eager.tensors import Tensor, tensor_of
from jit.ir.errors import AutogradError, Error
from jit.runtime.arrays.programs import GuardFailed

from ..patience import patience
from ..surroundings.properties import kind_of
from .chains import BRANCHES, Chain, Key, Plan, fork
from .histories import give_history
from .hosting import PythonHost
from .recalling import Recollection, recalling
from .replaying import replay_stages
from .shapes import general_kind, skeleton
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
        self.sizes: Any = None
        """The sizes of the inputs, if the recording is general."""

    def release(self) -> None:
        self.kept = self.live = self.state = self.plan = None

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
                    return self.apply(gradients, needs)  # another thread has recorded it meanwhile
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
        try:
            results, following = record_stage(chain, key, live, gradients, wanted, create)
        except AutogradError:
            if live is not self.live or chain.is_spoilt:
                raise
            # Something was overwritten that the derivatives need; a run from the inputs has it still.
            self.live = None
            return self._record(key, gradients, wanted, create, keep)
        if (
            live is not self.live and chain.trace.gradients.hooks
        ):  # they may look at what the first call held: only the graph is right
            return self._run(chain, gradients, create)
        if self.recording.general:
            self._compare(chain)
        made = [None if r is None else tensor_of(r._array, r._storage) for r in results]
        if create:
            node = self._attach(chain, gradients, made, [g._array for g in gradients if g is not None])
            node.live = following
        return made

    def _compare(self, chain: Chain) -> None:
        """Let a stage serve all sizes once it was the same program in two calls whose varying sizes all differ."""
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
            [*self.kept.inputs, arrays], [*self.kept.marks, [mark_of(g) for g in given]],
            [*self.kept.requires_grad, *map(dispatch.requires_grad, given)],
            [*self.kept.made, {i: mark_of(r) for i, r in enumerate(results) if r is not None}], self.kept.calls,
        )  # fmt: skip
        for index in chain.differentiable[stage]:
            give_history(results[index], node, index)
        return node


def _kind_of_gradient(gradient: Tensor | None) -> Any:
    return None if gradient is None else kind_of(gradient)[:4]
