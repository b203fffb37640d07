"""Refusals of what a recording cannot repeat: it serves one call alone, or an error names the line."""

from __future__ import annotations

from typing import Any

from jit.eager import context
from jit.ir import Graph
from jit.ir.errors import EscapedTracerError, TraceError

from .scalars import Scalars


class Impurity:
    """Deeds of a function that no recording can repeat, and dependencies of its recording that no guard checks.

    They are noted by jit.tracing.surroundings.impurity, and wherever the recorder refuses something.
    """

    def __init__(self, scalars: Scalars) -> None:
        self.reason: str | None = None
        """The first deed, with its line: the recording serves this call alone."""
        self.deeds: list[str] = []
        """All deeds, without their lines."""
        self.one_size: str | None = None
        """The first line where it has looked at sizes without a guard: the recording serves these sizes alone."""
        self.caught: str | None = None
        """The first line where it has caught an error without a guard that tells whether it comes again."""
        self.failures: list[tuple[Any, int]] = []
        """The places where functions in C have raised an error: code, and the instruction in it."""
        self.asks_world = False
        """Whether it has asked whether processes work together, which is in the key of a call."""
        self.printing = 0
        """The number of calls of `print` under way."""
        self._scalars = scalars

    def note_impure(self, what: str) -> None:
        """Note that the function does `what`: its recording serves this call alone."""
        self.deeds.append(what)
        if self.reason is None:
            source = context.user_source()
            self.reason = what if source is None else f"{what} at {source}"

    def note_failure(self, code: Any, instruction: int) -> None:
        """Note that a function in C, called by this instruction, has raised, perhaps since it got a traced number."""
        if self._scalars.alive:
            self.failures.append((code, instruction))

    def note_text(self) -> None:
        """Note that elements of a tensor become text, on which results may depend unless it is printed."""
        if not self.printing:
            self.note_impure("makes text of the elements of a tensor")

    def note_by_sizes(self) -> None:
        """Note that the function depends on the sizes of this call in a way that no guard checks."""
        self.one_size = self.one_size or str(context.user_source())

    def note_caught(self, what: str) -> None:
        """Note that the function catches `what`, and that no guard tells when it will again."""
        self.caught = self.caught or str(context.user_source())
        self.note_impure(f"catches {what}")


def at_line() -> str:
    """The beginning of a message about the line that runs."""
    source = context.user_source()
    return "" if source is None else f"at {source}: "


def shared_memory() -> TraceError:
    """The error for a write that would have to reach several inputs."""
    return TraceError(
        f"{at_line()}the traced function writes to memory that several tensors from outside share in different ways; "
        "clone one of them first"
    )


def escape(what: str) -> EscapedTracerError:
    """The error for `numpy()` and its like, which would bake in what a traced tensor holds."""
    return EscapedTracerError(
        f"{at_line()}{what} takes a tensor out of the trace, so what Python computes from it would be frozen; use "
        "tensor operations, .item(), .clone(), or an autograd.Function for foreign code"
    )


def change_outside(what: str) -> TraceError:
    """The error for a change of a tensor from outside; a recording repeats what happens to elements alone."""
    return TraceError(
        f"{at_line()}{what} a tensor from outside the traced function cannot be repeated by a recording; do it outside"
    )


def check_first_stage(graph: Graph, what: str) -> None:
    """TraceError if `what` would become an input of the forward when that is over."""
    if len(graph.stages) > 1:
        raise TraceError(
            f"{at_line()}{what} that the traced function itself does not use is first used in its backward, "
            "by a hook perhaps; use it in the function, or register the hook outside"
        )
