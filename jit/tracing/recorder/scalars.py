"""The traced numbers that a function has got: whether they are plain, and which paths to views depend on them."""

from __future__ import annotations

import weakref
from collections.abc import Sequence
from typing import Any

from jit.eager.proxies import TracedScalar
from jit.eager.view_paths import ViewStep
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
        self.open_sizes = open_sizes
        self.left_open = False
        """Whether there were any sizes that depend on elements, and are not fixed."""
        self.vary = False
        """Whether sizes vary: derivatives of all stages then read them from tensors."""
        self.asked_late = False
        """Whether code that asks for exact types has begun to run when numbers had been handed out."""
        self.handed_out: list[weakref.ref[TracedScalar]] = []
        self._steps: dict[int, tuple[ViewStep, list[TracedScalar], Sequence[Any]]] = {}
        """The traced numbers behind plain ones and all arguments with them, by the identity of the step."""

    @property
    def alive(self) -> list[TracedScalar]:
        """The traced numbers that are still in use."""
        return [number for reference in self.handed_out if (number := reference()) is not None]

    def given(self, number: TracedScalar) -> Any:
        """The object that the function gets for a traced number."""
        return number._decide() if self.plain else number

    def become_plain(self) -> None:
        """Give the function plain numbers from now on."""
        if any(reference() is not None for reference in self.handed_out):
            self.asked_late = True
        self.plain = True

    # -- paths to views ------------------------------------------------------------------------------------------

    def note_step(self, step: ViewStep, arguments: Any) -> None:
        """Remember the traced numbers that a step was given, which it holds as plain ones."""
        if any(type(n) is TracedScalar for n in leaves(tuple(arguments))):
            own = map_template(_twin, tuple(arguments))  # who has the numbers themselves is the function's business
            self._steps[id(step)] = (step, [n for n in leaves(own) if type(n) is TracedScalar], own)

    def behind(self, step: ViewStep) -> Sequence[TracedScalar]:
        """The traced numbers behind the plain ones of a step."""
        return self._steps[id(step)][1] if id(step) in self._steps else ()

    def arguments(self, step: ViewStep) -> Sequence[Any]:
        """The arguments of a step as they were given, traced numbers among them."""
        return self._steps[id(step)][2] if id(step) in self._steps else step.arguments

    def settle(self, path: Sequence[ViewStep], returned: bool = False) -> None:
        """Guard the traced numbers behind the steps of a path, since it is replayed with the plain ones."""
        if returned and self.open_sizes:  # the path is not replayed
            return
        for step in path:
            for number in self.behind(step):
                number._decide()


def _twin(number: Any) -> Any:
    """The same traced number as another object, of which nobody knows; anything else as it is."""
    if type(number) is not TracedScalar:
        return number
    made = object.__new__(TracedScalar)
    made._trace, made._number, made._measured = number._trace, number._number, number._measured
    made._value, made._make = number._ir(), None
    return made
