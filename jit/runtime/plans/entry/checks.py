"""The list of comparisons that an entry makes besides those of its arguments: one field for each kind of thing.

    cells: list[tuple[Any, Any]] = checked("cell", "value", by=_cell)

A field of `Checks` is a table. It names the columns of a row, and the function that writes the native check of a row
by these names; the words in memory, the header's part, the loop and the rows that Python writes all follow from it. So
a new check is a new field and its function; functions of CPython that no other check calls are added to
`cpython.FUNCTIONS`. Whoever knows what must not change adds a row:
`tables.cells.append((cell, cell.cell_contents))`.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, fields
from functools import cache
from typing import Any, NamedTuple

from ...llvm.words import Word
from .cpython import TYPE, lineage_offsets
from .records import Column, RecordMemory, number, optional, rows, several, thing
from .writer import EntryWriter, TableRow

MISSING = object()
"""The value of a dict under a key that it does not have."""


class Check(NamedTuple):
    """The comparison of a table's rows."""

    table: Column
    write: Callable[[EntryWriter, TableRow], None]
    """Writes the check of a row, which returns 0 from the routine if there is a difference."""


def checked(*columns: Column | str, by: Callable[[EntryWriter, TableRow], None]) -> Any:
    """A field that is a table with these columns; `by` writes the check of a row, see `Check`."""
    return field(default_factory=list, metadata={"columns": columns, "check": by})


@cache
def checks_of(kind: type) -> list[Check]:
    """The tables among the fields of a class."""
    tables = [each for each in fields(kind) if "check" in each.metadata]
    return [Check(rows(each.name, *each.metadata["columns"]), each.metadata["check"]) for each in tables]


def _context(r: EntryWriter, row: TableRow) -> None:
    held = r.variable()
    r.api("PyContextVar_Get", row["variable"], 0, held, returns="i32")
    found = r.word(held)
    r.api("Py_DecRef", found, returns="void")
    r.require(r.same(found, row["value"]))


def _slot(r: EntryWriter, row: TableRow) -> None:
    found = r.api("PyDict_GetItemWithError", row["dict"], row["key"])
    r.require(r.same(found, row["value"]), may_raise=True)


def _cell(r: EntryWriter, row: TableRow) -> None:
    found = _let_go(r, r.api("PyCell_Get", row["cell"]))
    r.require(r.same(found, row["value"]))


def _size(r: EntryWriter, row: TableRow) -> None:
    found = r.api("PyObject_Size", row["container"])
    r.require(r.same(found, row["size"]), may_raise=True)


def _class(r: EntryWriter, row: TableRow) -> None:
    found = r.word(row["thing"], TYPE // 8)
    r.require(r.same(found, row["class"]))


def _lineage(r: EntryWriter, row: TableRow) -> None:
    for place, held in (("mro_place", "mro"), ("name_place", "name")):
        found = r.word(row[place])
        r.require(r.same(found, row[held]))


def _space(r: EntryWriter, row: TableRow) -> None:
    found = _let_go(r, r.api("PyObject_GenericGetDict", row["thing"], 0))
    r.require(r.same(found, row["dict"]), may_raise=True)


def _item(r: EntryWriter, row: TableRow) -> None:
    found = r.api("PyList_GetItem", row["list"], row["index"])
    r.require(r.same(found, row["value"]), may_raise=True)


def _function(r: EntryWriter, row: TableRow) -> None:
    for ask, held in (("Defaults", "defaults"), ("KwDefaults", "keywords"), ("Code", "code")):
        found = r.api(f"PyFunction_Get{ask}", row["function"])
        r.require(r.same(found, row[held]))


def _order(r: EntryWriter, row: TableRow) -> None:
    place, count, keys = row["dict"], row["keys"], row.rows("keys")
    position, key = r.variable(), r.variable()
    r.put(position, 0, 0)
    with r.loop(count) as i:
        r.put(key, 0, 0)
        r.api("PyDict_Next", place, position, key, 0, returns="i32")
        r.require(r.same(r.word(key), keys[i]["key"]))
    r.require(r.same(r.api("PyDict_Next", place, position, key, 0, returns="i32"), 0))


def _let_go(r: EntryWriter, found: Word) -> Word:
    """Drop the reference to what was found, if anything: only its address counts."""
    with r.unless(r.same(found, 0)):
        r.api("Py_DecRef", found, returns="void")
    return found


def _lineage_places(kinds: Sequence[type], memory: RecordMemory) -> Sequence[Sequence[int]]:
    return [[address + offset for address in memory.addresses(kinds)] for offset in lineage_offsets()]


_LINEAGE_OF = Column(("mro_place", "name_place"), _lineage_places)
"""A class, by the places of its `__mro__` and its `__qualname__`."""


@dataclass(kw_only=True, eq=False)
class Checks:
    """All that a call must find as it was. The rows of a table are given as tuples, a value per column."""

    contexts: list[tuple[Any, Any]] = checked("variable", "value", by=_context)
    """ContextVars with a default, and what they hold."""
    slots: list[tuple[Any, Any, Any]] = checked("dict", "key", optional("value", absent=MISSING), by=_slot)
    """Values of dicts under a key."""
    cells: list[tuple[Any, Any]] = checked("cell", "value", by=_cell)
    """Contents of closure cells."""
    sizes: list[tuple[Any, int]] = checked("container", number("size"), by=_size)
    """The lengths of containers."""
    classes: list[tuple[Any, type]] = checked("thing", "class", by=_class)
    """The classes of objects."""
    lineages: list[Sequence[Any]] = checked(_LINEAGE_OF, "mro", "name", by=_lineage)
    """The `__mro__` and the `__qualname__` of classes."""
    spaces: list[tuple[Any, dict[str, Any]]] = checked("thing", "dict", by=_space)
    """The dicts in which objects have their attributes."""
    items: list[tuple[list[Any], int, Any]] = checked("list", number("index"), "value", by=_item)
    """Items of lists at an index."""
    functions: list[tuple[Any, Any, Any, Any]] = checked(
        "function", optional("defaults"), optional("keywords"), "code", by=_function
    )
    """The tuple of a function's defaults, the dict of those of its keywords, and its code."""
    orders: list[tuple[dict[Any, Any], Sequence[Any]]] = checked("dict", several("keys", thing("key")), by=_order)
    """The keys of dicts: the same objects in the same order."""
