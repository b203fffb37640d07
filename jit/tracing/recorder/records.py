"""Notes of a trace besides its graph: captures, constants, guards, composites, the use of Python functions."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from jit.ir import Node, Source, Value


@dataclass(slots=True)
class Capture:
    """A tensor or generator from outside that became a hidden input."""

    value: Value
    owner: Any
    """The tensor or generator that it was while recording."""
    name: str
    place: int | None = None
    """The place of the present tensor among the tensors of a World; None if it is the owner in every call."""
    gradient_of: int | None = None
    """The number of the input whose `.grad` it is."""
    number: int | None = None
    """The number of the promoted number that it is."""
    edge: Any = None
    """The edge of its gradient before the function ran."""
    kind: Any = None
    """The kind that `kind_of` gave it then."""


@dataclass(slots=True)
class Constant:
    """A line of the constants ledger."""

    name: str
    nbytes: int
    source: Source | None
    """The user's line."""
    reason: str
    value: Any = None
    """The value; None for arrays, which stand in the graph."""


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
    """The way in which a PythonOp treats its tensor arguments; an attribute of its node that is not printed."""

    needs: tuple[bool, ...]
    """Whether each of them required a gradient."""
    written: tuple[bool, ...]
    """Whether the function wrote to each of them and returned it."""


class _SlotType:
    """Stands for a tensor among the arguments of a PythonOp."""

    def __repr__(self) -> str:
        return "tensor"


SLOT = _SlotType()
