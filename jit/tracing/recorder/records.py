"""Notes of a trace besides its graph: captures, constants, guards, composites, the use of Python functions."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

from jit.ir import Node, Source, Value
from jit.ir.precision import Regime
from jit.ir.tables import html_table


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
    item_of: int | None = None
    """The number of the input, a tensor, whose only element it is."""
    sign: int = 0
    """1 if the input is a tensor that has as many elements, -1 if it has as many as the number that is minus this one;
    see Note [Numbers that are sizes]."""
    is_fixed: bool = False
    """Whether the recording is right for this number alone."""
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


class ConstantsLedger(list[Constant]):
    """Constants that a recording has baked in; in a notebook they are shown as a table."""

    def _repr_html_(self) -> str:
        return html_table(("name", "value", "bytes", "line", "reason"), map(_cells, self))


def _cells(line: Constant) -> list[str]:
    value = "" if line.value is None else repr(line.value)
    return [line.name, value, str(line.nbytes), str(line.source or ""), line.reason]


@dataclass(slots=True)
class GuardRecord:
    """A decision that Python took on a traced value."""

    node: Node
    outcome: Any
    source: Source | None
    is_count: bool = False
    """Whether it fixes a size that depends on elements, on which Python has not decided."""


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
    region: Regime | None = None
    """The setting of `autocast`."""


class _SlotType:
    """Stands for a tensor among the arguments of a PythonOp."""

    def __repr__(self) -> str:
        return "tensor"


SLOT = _SlotType()


@dataclass(frozen=True, slots=True)
class Arguments:
    """The arguments of a PythonOp, as they are: in templates lists and named tuples are tuples."""

    items: tuple[Any, ...]
    """`SLOT` in the places of tensors."""

    def filled(self, tensors: Iterable[Any]) -> list[Any]:
        """The arguments of a call, whose lists and dicts are its own."""
        rest = iter(tensors)
        return [next(rest) if item is SLOT else copied(item) for item in self.items]


def copied(item: Any) -> Any:
    """`item` with lists and dicts of its own."""
    if type(item) is dict:
        return {key: copied(each) for key, each in item.items()}
    return [copied(each) for each in item] if type(item) is list else item
