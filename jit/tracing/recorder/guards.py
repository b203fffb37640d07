"""Guards: decisions that Python has taken on traced values, on which a recording depends."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from typing import Any

from jit.ir import Node, Value
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
        self._ours = False
        """Whether it is this package that decides just now."""

    @contextlib.contextmanager
    def ours(self) -> Iterator[None]:
        """A block in which this package decides on sizes by itself, which `strict` does not forbid."""
        before, self._ours = self._ours, True
        try:
            yield
        finally:
            self._ours = before

    def guard(self, value: Value, outcome: Any) -> None:
        """Record that Python has decided on `value`: the trace holds while it is `outcome`."""
        if value in self._outcomes:
            return
        self._check_strict()
        self._outcomes[value] = outcome
        self._add(value, outcome, is_count=False)

    def count(self, value: Value, size: int) -> None:
        """Record that `value`, a size that depends on elements, is `size`: Note [Counts] in `recordings.counts`."""
        self._check_strict()
        self._add(value, size, is_count=True)

    def _add(self, value: Value, outcome: Any, is_count: bool) -> None:
        node = self._tape.add("prim::Guard", (value,), {"expected": outcome}, [])
        self.records.append(GuardRecord(node, outcome, node.source, is_count))

    def _check_strict(self) -> None:
        if self.strict and not self._ours:
            raise TraceError(
                f"{at_line()}Python decides on a traced value here, and strict=True forbids that; use where(), "
                "or trace without strict"
            )

    def withdraw(self, nodes: set[Node]) -> None:
        """Forget the guards among these nodes, which leave the graph."""
        self.records = [record for record in self.records if record.node not in nodes]
        self._outcomes = {value: outcome for value, outcome in self._outcomes.items() if value.node not in nodes}

    def drop_stage(self, stage: int, count: int) -> None:
        """Forget a stage that could not be recorded, and with it the guards after the first `count`."""
        del self.records[count:]
        self._outcomes = {value: outcome for value, outcome in self._outcomes.items() if value.stage < stage}
