"""The effects of a call on the short way: it writes to tensors, and leaves gradients in `.grad`.

Native code computes the new contents, which Python copies to where they belong: as `EffectSpec.commit` does, after
all that may raise. Which inputs share memory matters now: native code finds that no argument shares memory with any
other input; the others have the arrays that they had when the long way compared them.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from jit.eager import context
from jit.eager.pytree import TENSOR
from jit.eager.tensors import Tensor, tensor_of

if TYPE_CHECKING:
    from ..recordings.chains import Plan
    from ..recordings.recording import Recording
    from ..recordings.results import ResultSpec
    from .orders import Arrangement, PlanViews
    from .sized_shortcuts import Fitting


def written_by(native: Any, plan: Plan, recording: Recording, owners: Sequence[Any]) -> list[tuple[int, int]] | None:
    """The writes of a recording: pairs of an input and the number of an output of the native call.

    None if the changes of the recording take more than to copy arrays and to set gradients.
    """
    effects, first = recording.effects, len(plan.interpreter.programs[0].outputs)
    if effects.moves or any(number >= first for number in recording.differentiable):
        return None
    if not all(isinstance(owners[index], Tensor) for index in effects.targets):
        return None
    made = {register: number for number, register in enumerate(native.results)}
    found = [made.get(register, -1) for register in plan.interpreter.programs[0].updates]
    pairs = list(zip(effects.targets, found, strict=True))
    return None if -1 in found or len({index for index, _ in pairs}) != len(pairs) else pairs


class CallEffects:
    """The effects that are left when native code has run.

    Args:
        recording: What it has run.
        written: The pairs of `written_by`.
        owners: The tensors behind the inputs of some call.
        arguments: The number of those that are arguments.
    """

    def __init__(
        self, recording: Recording, written: Sequence[tuple[int, int]], owners: Sequence[Tensor], arguments: int
    ) -> None:
        self._written = list(written)
        self._slots = list(recording.effects.slots)
        self._reads = list(recording.conditions.reads)
        held = owners[arguments:] if written else ()
        self._held = [(owner, owner._array) for owner in held]
        self.inputs = frozenset(index for index, _ in written)
        """The inputs that are written to."""

    def may_begin(self, inputs: Sequence[Tensor]) -> bool:
        """Whether a call on these inputs is one that native code may run."""
        for owner, array in self._held:
            if owner._array is not array:
                return False
        if any([inputs[index]._storage.inference for index in self.inputs]):  # which only inference mode writes to
            return False
        reads = self._reads
        return all([inputs[index]._grad is (None if other is None else inputs[other]) for index, other in reads])

    def finish(self, inputs: Sequence[Tensor], arrays: Sequence[Any], made: Sequence[Tensor]) -> None:
        """Write, and leave gradients.

        Args:
            inputs: The inputs of the call.
            arrays: The outputs of the native call.
            made: The outputs of the function.
        """
        if self._written:
            source = context.user_source()
            for index, number in self._written:
                owner = inputs[index]
                np.copyto(owner._array, arrays[number], casting="unsafe")
                owner._storage.written(source)
        for index, output in self._slots:
            inputs[index]._grad = None if output is None else made[output]


def with_effects(
    run: Callable[..., Any], effects: CallEffects | None, result: ResultSpec, positions: Sequence[int],
    captured: Sequence[Tensor], order: Arrangement, views: PlanViews, fitting: Fitting | None,
) -> Callable[..., Any]:  # fmt: skip
    """`run` for tensors, which does what the call does beyond its native code; its results have no history.

    Args:
        run: Takes the items of a call, and returns all arrays of the native call; None if the call is another one.
        effects: What is left to do, if anything.
        result: What the function returns.
        positions: The places among the items of the inputs that are arguments.
        captured: The other inputs.
        order: The arrays that are outputs of the function.
        views: The views that are among them.
        fitting: Knows the sizes of the call, if the recording is for many.
    """
    last, count, is_bare = max(positions, default=-1), result.count, result.structure == TENSOR

    def call(*items: Any) -> Any:
        if len(items) <= last:
            return None
        inputs = [*[items[i] for i in positions], *captured]
        if not all([isinstance(given, Tensor) for given in inputs]):
            return None
        if effects is not None and not effects.may_begin(inputs):
            return None
        values = [given._array for given in inputs]
        arrays = run(*items)
        if arrays is None:
            return None
        if views:
            arrays = views.added(values, arrays, fitting.chosen if fitting is not None else None)
        made = order.outputs([tensor_of(arrays[number]) for number in order.numbers], inputs)
        if effects is not None:
            effects.finish(inputs, arrays, made)
        return made[0] if is_bare else tuple(made[:count])

    call.__wrapped__ = run  # type: ignore[attr-defined]
    return call
