"""The short way through a traced call whose gradient may be asked for: native code runs, Python notes the history.

What `Recording.run` does step by step is known beforehand for such a call: which inputs are kept, what the native call
leaves for later stages, which results carry gradients. Only tensors and the node between them are made anew.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

from jit.autograd.nodes import edge_of
from jit.eager.pytree import TENSOR
from jit.eager.tensors import Tensor, tensor_of

from ..recordings.histories import give_history
from ..recordings.stage_node import Kept, StageNode, mark_of

if TYPE_CHECKING:
    from ..recordings.chains import Chain, Plan
    from ..recordings.recording import Recording
    from .orders import Arrangement, PlanViews
    from .shortcut_effects import CallEffects
    from .sized_shortcuts import Fitting

Run = Callable[..., Any]


def with_history(
    run: Run, recording: Recording, plan: Plan, native: Any, owners: Sequence[Tensor], positions: Sequence[int],
    order: Arrangement, views: PlanViews, fitting: Fitting | None, effects: CallEffects | None,
) -> Run:  # fmt: skip
    """`run` for tensors, which gives its results the history of the call.

    Args:
        run: Takes the items of a call, and returns all arrays of the native call; None if the call is another one.
        recording: The recording that the call runs.
        plan: Its present plan.
        native: The native call of that plan.
        owners: The tensors behind its inputs.
        positions: The places among the items of those that are arguments; the others are captured.
        order: The arrays that the function returns.
        views: The views that are among them.
        fitting: Knows the sizes of the call, if the recording is for many.
        effects: What the call does beyond that.
    """
    chain = recording.chains[0]
    plans = _plans_of(chain)
    used = [bool(value.uses) for value in recording.trace.graph.inputs]
    known = [(type(owner), owner._grad_fn is None) for owner in owners]
    needs = [owner.requires_grad for owner in owners]
    captured = list(owners[len(positions) :])
    results = [*zip(order.indices, order.numbers, strict=True)]
    carrying, count = frozenset(recording.differentiable), recording.returns
    is_bare, returned = recording.result.structure == TENSOR, recording.result.count
    written = effects.inputs if effects is not None else frozenset()
    copied = [index for index in written if used[index]]
    marking = [use and index not in written for index, use in enumerate(used)]
    registers, left = _left_by(plan, views.results)

    def left_by(given: Sequence[Any]) -> list[Any]:
        """The registers that stage 0 leaves, given its inputs, the outputs of its native call, and views."""
        state: list[Any] = [None] * registers
        if fitting is not None:
            state[native.told] = fitting.chosen
        for register, number in left:
            state[register] = given[number]
        return state

    last = max(positions, default=-1)

    def call(*items: Any) -> Any:
        if _plans_of(chain) is not plans or recording.chains[0] is not chain or len(items) <= last:
            return None  # a stage has been recorded since, whose forward leaves more
        inputs = [*[items[i] for i in positions], *captured]
        for owner, (kind, is_leaf) in zip(inputs, known):
            if type(owner) is not kind or (owner._grad_fn is None) is not is_leaf or owner._storage.inference:
                return None
        if effects is not None and not effects.may_begin(inputs):
            return None
        marks = [mark_of(owner) if marked else None for owner, marked in zip(inputs, marking)]
        values: list[Any] = [owner._array if use else None for owner, use in zip(inputs, used)]
        arrays = run(*items)
        if arrays is None:
            return None
        if views:
            arrays = views.added(values, arrays, fitting.chosen if fitting is not None else None)
        edges = [edge_of(owner) if use and need else None for owner, use, need in zip(inputs, used, needs)]
        node = StageNode(recording, (), edges, count)
        if fitting is not None:
            node.sizes = fitting.sizes
        made = [tensor_of(arrays[number]) for _, number in results]
        for tensor, (index, _) in zip(made, results):
            if index in carrying:
                give_history(tensor, node, index)
        if not recording.spent:  # a second backward is an error, so there is nothing to keep
            for index in copied:
                values[index] = values[index].copy()
            marked = {index: mark_of(tensor) for tensor, (index, _) in zip(made, results)}
            node.kept = Kept([values], [marks], needs, [marked])
            node.plan, node.state = plan, left_by([*values, *arrays])
        outputs = order.outputs(made, inputs)
        if effects is not None:
            effects.finish(inputs, arrays, outputs)
        return outputs[0] if is_bare else tuple(outputs[:returned])

    call.__wrapped__ = run  # type: ignore[attr-defined]
    return call


def _plans_of(chain: Chain) -> Any:
    """Something that is another object when a stage has been recorded since."""
    return chain.plan or chain.sized_plans


def _left_by(plan: Plan, results: Sequence[int]) -> tuple[int, list[tuple[int, int]]]:
    """The number of registers, and those that stage 0 leaves: pairs of a register and an input or, counted
    behind those, one of `results`, the registers of what it makes."""
    program = plan.interpreter.programs[0]
    held = {register: number for number, register in enumerate((*program.inputs, *results))}
    gone = {*program.unused, *program.returned, *itertools.chain.from_iterable(program.frees)}
    return plan.interpreter.count, sorted(pair for pair in held.items() if pair[0] not in gone)
