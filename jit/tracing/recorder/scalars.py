"""The traced numbers that a function has got: whether they are plain, and which paths to views depend on them."""

from __future__ import annotations

import weakref
from collections.abc import Sequence
from typing import Any

from jit.eager.proxies import TracedScalar
from jit.eager.view_paths import ViewStep
from jit.ir import Value
from jit.ir.graph import leaves, map_template


class Scalars:
    """The traced numbers of one trace.

    Args:
        plain: Whether the function gets plain numbers, all of them guarded; see Note [Exact types].
        open_sizes: Whether sizes that depend on elements are not fixed: for exporting, where all sizes are looked at
            anew.
    """

    def __init__(self, plain: bool = False, open_sizes: bool = False) -> None:
        self.plain = plain
        self.plain_bools = False
        """Whether the function gets plain bools, even where other numbers are traced."""
        self.open_sizes = open_sizes
        self.left_open = False
        """Whether there were any sizes that depend on elements, and are not fixed."""
        self.items_vary = False
        """Whether the elements that the function reads as numbers had other values in an earlier call."""
        self.items: dict[Value, int] = {}
        """The whole numbers among these that were read from inputs, and may be used as sizes."""
        self.asked_late = False
        """Whether code that asks for exact types has begun to run when numbers had been handed out."""
        self.handed_out: list[weakref.ref[TracedScalar]] = []
        self._steps: dict[int, tuple[ViewStep, list[TracedScalar], tuple[Any, ...]]] = {}
        """The traced numbers behind plain ones and all arguments with them, by the identity of the step."""

    @property
    def alive(self) -> list[TracedScalar]:
        """The traced numbers that are still in use."""
        return [number for reference in self.handed_out if (number := reference()) is not None]

    def given(self, number: TracedScalar) -> Any:
        """The object that the function gets for a traced number; a plain one is guarded, whenever it is given."""
        if self.plain or (self.plain_bools and type(number._number) is bool):
            number._trace.guard(number._ir(), number._number)
            return number._number
        return number

    def become_plain(self, bools_alone: bool = False) -> None:
        """Give the function plain numbers from now on, or plain bools."""
        self.asked_late |= any(not bools_alone or type(number._number) is bool for number in self.alive)
        self.plain |= not bools_alone
        self.plain_bools = True

    # -- paths to views ------------------------------------------------------------------------------------------

    def note_step(self, step: ViewStep, arguments: Any) -> None:
        """Remember the traced numbers that a step was given, which it holds as plain ones."""
        if any(type(n) is TracedScalar for n in leaves(tuple(arguments))):
            own = map_template(_twin, tuple(arguments))  # who has the numbers themselves is the function's business
            self._steps[id(step)] = (step, [n for n in leaves(own) if type(n) is TracedScalar], own)

    def behind(self, step: ViewStep) -> Sequence[TracedScalar]:
        """The traced numbers behind the plain ones of a step."""
        return self._steps[id(step)][1] if id(step) in self._steps else ()

    def arguments(self, step: ViewStep) -> tuple[Any, ...]:
        """The arguments of a step as they were given, traced numbers among them."""
        return self._steps[id(step)][2] if id(step) in self._steps else step.arguments

    def traced(self, path: Sequence[ViewStep]) -> tuple[ViewStep, ...]:
        """A path whose steps have the arguments that they were given."""
        known = self._steps
        return tuple([step._replace(arguments=known[id(step)][2]) if id(step) in known else step for step in path])

    def settle(self, path: Sequence[ViewStep]) -> None:
        """Guard the traced numbers behind the steps of a path: what was decided on them holds for these alone."""
        for step in path:
            for number in self.behind(step):
                number._decide()


def _twin(number: Any) -> Any:
    """The same traced number as another object, of which nobody knows; anything else as it is."""
    if type(number) is not TracedScalar:
        return number
    made = object.__new__(TracedScalar)
    made._trace, made._number, made._measured = number._trace, number._number, number._measured
    made._value, made._make, made._counts = number._ir(), None, number._counts
    return made
