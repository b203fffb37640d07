"""What a trace notes down besides its graph: captures, constants, guards, composites, the use of Python functions."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from jit.ir import Node, Source, Value


@dataclass(slots=True)
class Capture:
    """A tensor or generator from outside that became a hidden input."""

    value: Value
    owner: Any
    """What it was while recording."""
    name: str
    place: int | None = None
    """Where to find what it is now, among the tensors of a World; None: it is the owner for ever."""
    gradient_of: int | None = None
    """It is the `.grad` of this input."""
    number: int | None = None
    """It is a promoted number: this one of them."""
    edge: Any = None
    """Where its gradient went before the function ran."""
    kind: Any = None
    """What `kind_of` said of it then."""


@dataclass(slots=True)
class Constant:
    """A line of the constants ledger."""

    name: str
    nbytes: int
    source: Source | None
    """The user's line."""
    reason: str
    value: Any = None
    """What it is; None for arrays, which stand in the graph."""


@dataclass(slots=True)
class GuardRecord:
    """A decision that Python took on a traced value."""

    node: Node
    outcome: Any
    source: Source | None


@dataclass(eq=False, slots=True)
class Composite:
    """A composite's node, the parts that stand before it, and which part value each of its outputs took over."""

    node: Node
    parts: list[Node]
    taken: list[Value]


@dataclass(frozen=True, slots=True)
class Treatment:
    """What a PythonOp did with its tensor arguments; an attribute without text."""

    needs: tuple[bool, ...]
    """Which of them required a gradient."""
    written: tuple[bool, ...]
    """Which of them it wrote to and returned."""


class _SlotType:
    """Stands for a tensor among the arguments of a PythonOp."""

    def __repr__(self) -> str:
        return "tensor"


SLOT = _SlotType()
