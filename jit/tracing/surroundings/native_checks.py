"""Checks of a walk's observations: rows of the tables that a native call compares, and one question for Python."""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterable, Sequence, Set
from typing import Any

from jit.runtime.plans.entry import Tables

from .contents import same_contents
from .observations import Observations
from .peeking import space_of
from .properties import look_of
from .questions import CheckRow, Question

Asked = tuple[Question, Any]
"""A question, and its answer."""


class NativeChecks:
    """Rows by the names of their tables, each once, and the question that only Python can answer."""

    def __init__(self) -> None:
        self._tables: dict[str, dict[tuple[int, ...], tuple[Any, ...]]] = {}
        self.residue: Callable[[], bool] | None = None
        """Tells whether everything is as it was that no row compares; None if rows compare all."""

    def add(self, rows: Iterable[CheckRow]) -> None:
        """Add rows to be compared."""
        for table, cells in rows:
            self._tables.setdefault(table, {}).setdefault(tuple(map(id, cells)), cells)

    def table(self, name: str) -> list[Any]:
        """The rows of a table."""
        return list(self._tables.get(name, {}).values())

    def fill(self, tables: Tables) -> None:
        """Let an entry make these checks."""
        tables.slots, tables.cells, tables.classes = self.table("slots"), self.table("cells"), self.table("classes")
        tables.spaces, tables.lineages = self.table("spaces"), self.table("lineages")
        tables.items, tables.functions = self.table("items"), self.table("functions")
        tables.sizes, tables.orders = self.table("sizes"), self.table("orders")
        tables.residue = self.residue


def native_checks(seen: Observations, captured: Set[int]) -> NativeChecks:
    """The checks of all that a walk has seen.

    Args:
        seen: The observations of the walk.
        captured: The identities of tensors that the native call compares anyway.
    """
    checks = NativeChecks()
    held = {id(value) for _, _, value in seen.slots}
    checks.add(CheckRow("sizes", (container, size)) for _, container, size in seen.sizes)
    checks.add(CheckRow("lineages", tuple(lineage)) for _, *lineage in seen.lineages)
    checks.add(CheckRow("functions", (function, defaults, keywords, code))
               for _, function, (code, defaults, keywords) in seen.functions)  # fmt: skip
    places = _add(checks, ((place, value) for _, place, value in seen.slots), held)
    places += _add(checks, ((_SpaceOf(reference), space) for _, reference, space in seen.spaces), held)
    facts = _add(checks, _distinct((fact, answer) for _, fact, answer in seen.facts), captured)
    types = [(tensor, kind) for tensor, kind in seen.types if id(tensor) not in captured]
    contents = [(value, copy) for _, value, copy in seen.contents]
    if places or types or contents or facts:
        checks.residue = functools.partial(_unchanged, _distinct(places), types, contents, facts)
    return checks


def _add(checks: NativeChecks, asked: Iterable[Asked], known: Set[int]) -> list[Asked]:
    """Add the rows of questions that have some; returns the questions that have none, with their answers."""
    rest = []
    for question, answer in asked:
        rows = question.rows(answer, known)
        if rows is None:
            rest.append((question, answer))
        else:
            checks.add(rows)
    return rest


class _SpaceOf(Question):
    """The dict in which an object has its attributes."""

    __slots__ = ("reference",)
    called = "the dict of an object's attributes"

    def __init__(self, reference: Callable[[], Any]) -> None:
        self.reference = reference

    def __call__(self) -> Any:
        return space_of(self.reference())

    def rows(self, answer: Any, known: Set[int]) -> Sequence[CheckRow] | None:
        thing = self.reference()
        return [CheckRow("spaces", (thing, answer))] if id(thing) in known else None


def _distinct(asked: Iterable[Asked]) -> list[Asked]:
    """Questions and their answers, each once: all modules of a network ask about what they share."""
    found: dict[Any, Asked] = {}
    for question, answer in asked:
        key: Any = question.identity()
        if key in found and found[key][1] is not answer and found[key][1] != answer:
            key = object()
        found[key] = (question, answer)
    return list(found.values())


def _unchanged(places: Sequence[Asked], types: Sequence[Any], contents: Sequence[Any], facts: Sequence[Asked]) -> bool:
    """Whether the answers are the same to those questions of `Observations.has_changed` that native code cannot ask."""
    for place, value in places:
        if place() is not value:
            return False
    for tensor, kind in types:
        if look_of(tensor) != kind:
            return False
    for fact, answer in facts:
        if fact() != answer:
            return False
    return all(same_contents(value, copy) for value, copy in contents)


__all__ = ["NativeChecks", "native_checks"]
