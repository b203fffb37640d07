"""Guards: decisions that Python has taken on traced values, on which a recording depends."""

from __future__ import annotations

from typing import Any

from jit.ir import Value
from jit.ir.errors import TraceError

from .records import GuardRecord
from .refusals import at_line
from .tape import Tape


class Guards:
    """The decisions of one trace, each of them once.

    Args:
        tape: The tape that their nodes are written to.
        strict: Whether a decision is an error.
    """

    def __init__(self, tape: Tape, strict: bool = False) -> None:
        self.strict = strict
        self.records: list[GuardRecord] = []
        """The guards in the order in which they were taken."""
        self._tape = tape
        self._outcomes: dict[Value, Any] = {}
        """Values that were decided on -> the outcome."""

    def guard(self, value: Value, outcome: Any) -> None:
        """Record that Python has decided on `value`: the trace holds while it is `outcome`."""
        if value in self._outcomes:
            return
        if self.strict:
            raise TraceError(
                f"{at_line()}Python decides on a traced value here, and strict=True forbids that; use where(), "
                "or trace without strict"
            )
        self._outcomes[value] = outcome
        node = self._tape.add("prim::Guard", (value,), {"expected": outcome}, [])
        self.records.append(GuardRecord(node, outcome, node.source))

    def drop_stage(self, stage: int, count: int) -> None:
        """Forget a stage that could not be recorded, and with it the guards after the first `count`."""
        del self.records[count:]
        self._outcomes = {value: outcome for value, outcome in self._outcomes.items() if value.stage < stage}
