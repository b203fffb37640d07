"""The way from what the one native call of a plan gives to what the function returns."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from jit.ir.graph import Ref
from jit.runtime.plans.sized_calls import views_of

from ..recordings.results import Returned

if TYPE_CHECKING:
    from ..recordings.chains import Plan
    from ..recordings.recording import Recording


class PlanViews:
    """The views that Python makes behind a native call, of what that reads and gives.

    Args:
        native: The native call.
        plan: The plan that it is in.
    """

    def __init__(self, native: Any, plan: Plan) -> None:
        program = plan.interpreter.programs[0]
        self._steps = views_of(program)
        self._inputs, self._results = program.inputs, native.results
        self._count, self._told = plan.interpreter.count, getattr(native, "told", None)
        self._made = [register for step in self._steps for register in step.view_of]  # type: ignore[attr-defined]
        self.results = [*native.results, *self._made]
        """The registers of all arrays: those of the native call, then the views."""

    def __bool__(self) -> bool:
        return bool(self._steps)

    def added(self, values: Sequence[Any], arrays: Sequence[Any], sizes: Any = None) -> list[Any]:
        """The arrays of the native call and the views.

        Args:
            values: The arrays of the inputs.
            arrays: Those that the native call has given.
            sizes: The sizes of the call, for a plan that is for many.
        """
        registers: list[Any] = [None] * self._count
        for register, value in zip((*self._inputs, *self._results), (*values, *arrays), strict=True):
            registers[register] = value
        if self._told is not None:
            registers[self._told] = sizes
        for step in self._steps:
            step(registers)
        return [*arrays, *[registers[made] for made in self._made]]


@dataclass(frozen=True)
class Arrangement:
    """The order in which a function returns what a native call and views give."""

    numbers: list[int]
    """The numbers of the arrays of which tensors are made."""
    indices: list[int]
    """The numbers by which the plan returns these."""
    is_whole: bool
    """Whether these tensors are the outputs, one for each."""
    recording: Recording

    def outputs(self, made: list[Any], inputs: Sequence[Any]) -> list[Any]:
        """The outputs of the function, given its tensors and the inputs of the call."""
        if self.is_whole:
            return made
        returned = Returned((), (), None, ())
        returned.tensors.update(zip(self.indices, made))
        return self.recording.result_of(inputs).made(returned, inputs, inputs)


def order_of(results: Sequence[int], plan: Plan, recording: Recording) -> Arrangement | None:
    """The order of a function's outputs, given the registers of the arrays; None if there is more to these."""
    returned = plan.interpreter.programs[0].outputs
    specs = recording.result.outputs
    if any(spec.kind not in ("fresh", "same", "view", "input") for spec in specs):
        return None
    if any(number == 0 for number, _ in plan.memory.copied):
        return None
    indices = [*dict.fromkeys(spec.index for spec in specs if spec.kind in ("fresh", "view"))]
    made = {Ref(register): number for number, register in enumerate(results)}
    found = [made.get(returned[index], -1) for index in indices]
    if -1 in found or len({*found}) != len(found):
        return None
    is_whole = [(spec.kind, spec.index) for spec in specs] == [("fresh", index) for index in indices]
    return Arrangement(found, indices, is_whole, recording)
