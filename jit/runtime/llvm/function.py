"""A function of LLVM IR as text, with what it calls and the numbers that it asks for."""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from dataclasses import dataclass


@dataclass(frozen=True)
class LoweredFunction:
    """A generated function named `kernel`; equal functions are the same kernel."""

    declarations: tuple[str, ...]
    """The functions that it calls: declarations of LLVM's and C's functions, definitions of helpers."""
    definition: str
    numbers: tuple[tuple[Hashable, ...], ...] = ()
    """Numbers of its argument `geometry`, by name: ("extent", loop), ("offset", map) and ("stride", map, loop) in bytes
    or, for maps that yield numbers, in units, ("size", point), ("index stride", index) in bytes, ("index size", index),
    ("kept", local, bytes of an element) and ("tile", level, local, bytes of all) in bytes from the start of the scratch
    memory."""
    lanes: int = 1
    """The number of points of a row, or of rows, that a turn takes."""

    def text(self, name: str = "kernel", comments: Sequence[str] = ()) -> str:
        """A module with this function alone, under a readable name."""
        head = [f"; {line}" for comment in comments for line in comment.splitlines()]
        return "\n".join([*head, *self.declarations, self.named(name)])

    def named(self, name: str) -> str:
        """The definition under another name."""
        return self.definition.replace("@kernel(", f"@{name}(", 1)
