"""The order in which a function returns what the one native call of its plan gives."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from jit.ir.graph import Ref

if TYPE_CHECKING:
    from ..recordings.chains import Plan
    from ..recordings.recording import Recording


def order_of(native: Any, plan: Plan, recording: Recording) -> list[int] | None:
    """The outputs of the stretch that are those of the function; None if there is more to these."""
    returned = plan.interpreter.programs[0].outputs
    specs = recording.result.outputs
    if any(spec.kind != "fresh" for spec in specs) or len({spec.index for spec in specs}) != len(specs):
        return None
    if any(number == 0 for number, _ in plan.memory.copied):
        return None
    made = {Ref(register): number for number, register in enumerate(native.results)}
    found = [made.get(returned[spec.index], -1) for spec in specs]
    return None if -1 in found or len(set(found)) != len(found) else found
