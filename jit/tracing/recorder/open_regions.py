"""The functions of control flow that a trace records just now; see Note [Regions] in `regions`."""

from __future__ import annotations

from typing import Any, Protocol

from jit.ir import Graph, Node, Value
from jit.ir.errors import TraceError

from .memory import StorageCell
from .refusals import at_line
from .tape import nodes_after


class OpenRegion(Protocol):
    """A region under way: a `FlowRegion`."""

    title: str
    """The word for the control flow in errors."""
    things: dict[Value, Any]
    """The tensors, numbers and states of generators behind the values that are used."""
    hoisted: set[Node]
    """Nodes that were made meanwhile and stay outside."""

    def owns(self, cell: StorageCell) -> bool:
        """Whether memory was made in the region."""


class Regions:
    """The regions that a trace records just now, and what those before have left."""

    def __init__(self) -> None:
        self.open: list[OpenRegion] = []
        """The regions under way, the outermost first."""
        self.enclosed: set[Value] = set()
        """The values of regions that are closed, which nobody outside may use."""

    def forget(self) -> None:
        """Let go of the values of regions, since the function is through."""
        self.enclosed.clear()

    def note(self, value: Value, thing: Any) -> None:
        """Note the tensor or number whose Value is used; TraceError if it belongs to a region that is closed."""
        if value in self.enclosed:
            raise escaped()
        for region in self.open:
            region.things.setdefault(value, thing)

    def check_write(self, cell: StorageCell) -> None:
        """TraceError if a region writes to memory from outside."""
        if self.open and not self.open[-1].owns(cell):
            self.refuse("writes in place to a tensor from outside of it; return the new value instead")

    def refuse(self, deed: str) -> None:
        """TraceError if a region is under way; `deed` says what is done, and the way out."""
        if self.open:
            raise TraceError(f"{at_line()}a function of {self.open[-1].title} {deed}")

    def note_derived(self, graph: Graph, cell: StorageCell, last: Node | None) -> None:
        """Note that the nodes since `last` are a view of a cell, and stay outside if that does."""
        for region in self.open:
            if not region.owns(cell):
                region.hoisted.update(nodes_after(graph, last))


def escaped() -> TraceError:
    """The error for what was made inside of control flow and is used outside."""
    return TraceError(
        f"{at_line()}a tensor or size that was made in a branch or a step of control flow is used outside of it; let "
        "the function return it"
    )
