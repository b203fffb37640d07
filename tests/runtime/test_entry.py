"""Entries check what their tables say; a table is one field, from which words, header, loop and check follow."""

from __future__ import annotations

import gc
import threading
import types
import weakref
from collections.abc import Callable
from contextvars import ContextVar
from dataclasses import dataclass, fields
from functools import cache
from typing import Any

import numpy as np
import pytest

from jit.runtime.plans import entry
from jit.runtime.plans.entry import making
from jit.runtime.plans.entry import tables as entry_tables
from jit.runtime.plans.entry.checks import Checks, checked, checks_of
from jit.runtime.plans.entry.layout import header_of
from jit.runtime.plans.entry.records import Record, RecordMemory, number, several, thing
from tests.threads import in_threads

pytestmark = [pytest.mark.llvm, pytest.mark.skipif(not entry.available(), reason="native calls are not available")]

GIVEN = np.zeros((2, 3), np.float32)


def tables_of(kind: Any = entry.Tables, **rows: Any) -> Any:
    """Tables of a plan without steps: an array like GIVEN goes in, an array comes out."""
    layout = entry.EntryInput(GIVEN.dtype, GIVEN.shape, GIVEN.strides, argument=0)
    outputs = [((4,), np.dtype(np.int64))]
    return kind([layout], outputs, np.zeros(1, np.int64), 0, 0, (), lambda status: None, **rows)


def accepts(call: Callable[..., Any]) -> bool:
    """Whether an entry finds what its tables describe."""
    return call(GIVEN) is not None


# -- every check of the list: a row of something, and what changes that ------------------------------------------


class Thing:
    pass


class OtherThing:
    pass


def changed_context():
    variable: ContextVar[Any] = ContextVar("variable", default=None)
    return (variable, None), lambda: variable.set(1)


def changed_slot():
    held = {"a": 1, "b": "kept"}
    return (held, "b", held["b"]), lambda: held.update(b="other")


def changed_cell():
    cell = types.CellType("kept")
    return (cell, cell.cell_contents), lambda: setattr(cell, "cell_contents", "other")


def changed_size():
    container = [1, 2]
    return (container, 2), lambda: container.append(3)


def changed_class():
    thing = Thing()
    return (thing, Thing), lambda: setattr(thing, "__class__", OtherThing)


def changed_lineage():
    kind: Any = type("Kind", (Thing,), {})
    return (kind, kind.__mro__, kind.__qualname__), lambda: setattr(kind, "__bases__", (OtherThing,))


def changed_space():
    thing = Thing()
    return (thing, vars(thing)), lambda: setattr(thing, "__dict__", {})


def changed_item():
    held = ["a", "b"]
    return (held, 1, held[1]), lambda: held.reverse()


def changed_function():
    def function(x: Any = "kept", *, y: Any = None) -> None: ...

    row = (function, function.__defaults__, function.__kwdefaults__, function.__code__)
    return row, lambda: setattr(function, "__kwdefaults__", {"y": 1})


def changed_order():
    held = {"a": 1, "b": 2}
    return (held, list(held)), lambda: held.update(a=held.pop("a"))


CHANGED = {
    "contexts": changed_context, "slots": changed_slot, "cells": changed_cell, "sizes": changed_size,
    "classes": changed_class, "lineages": changed_lineage, "spaces": changed_space, "items": changed_item,
    "functions": changed_function, "orders": changed_order,
}  # fmt: skip


@pytest.mark.parametrize("table", [check.table.name for check in checks_of(entry.Tables)])
def test_a_row_of_every_table_is_checked(table):
    row, change = CHANGED[table]()
    unchanged, _ = CHANGED[table]()
    for rows in ([row], [unchanged, row]):
        assert accepts(entry.make_entry(tables_of(**{table: rows})))
    one, last = (entry.make_entry(tables_of(**{table: rows})) for rows in ([row], [unchanged, row]))
    change()
    assert not accepts(one) and not accepts(last)
    assert (entry.hits_of(one), entry.hits_of(last)) == (0, 0)
    assert accepts(entry.make_entry(tables_of(**{table: [unchanged]})))


def test_a_name_of_a_class_is_part_of_its_lineage():
    kind: Any = type("Kind", (Thing,), {})
    call = entry.make_entry(tables_of(lineages=[(kind, kind.__mro__, kind.__qualname__)]))
    assert accepts(call)
    kind.__qualname__ = "Another"
    assert not accepts(call)


def test_what_is_missing_stays_missing():
    held: dict[str, Any] = {}

    def function() -> None: ...

    bare = (function, function.__defaults__, function.__kwdefaults__, function.__code__)
    call = entry.make_entry(tables_of(slots=[(held, "a", entry.MISSING)], functions=[bare]))
    assert bare[1] is None and accepts(call)
    held["a"] = None
    assert not accepts(call)
    del held["a"]
    assert accepts(call)
    function.__defaults__ = ()
    assert not accepts(call)


def test_an_error_of_a_check_does_not_reach_the_caller():
    held = ["a"]
    call = entry.make_entry(tables_of(items=[(held, 0, held[0])]))
    held.clear()
    assert call(GIVEN) is None  # and no IndexError


# -- a table of a test's own -------------------------------------------------------------------------------------


def _holds_one_of(r: Any, row: Any) -> None:
    """The cell must hold one of several objects, a number of times in all."""
    found, seen = r.api("PyCell_Get", row["cell"]), r.variable()
    with r.unless(r.same(found, 0)):
        r.api("Py_DecRef", found, returns="void")
    r.put(seen, 0, 0)
    with row.each("choices") as choice, r.when(r.same(found, choice["choice"])):
        r.put(seen, 0, r.add(r.word(seen), 1))
    r.require(r.same(r.word(seen), row["times"]))


@dataclass(eq=False)
class WithChoices(entry.Tables):
    """Tables with one more."""

    choices: list[tuple[Any, list[Any], int]] = checked(  # noqa: RUF009
        "cell", several("choices", thing("choice")), number("times"), by=_holds_one_of
    )


def test_a_table_is_one_field_and_nothing_else():
    a, b, c, cell = object(), object(), object(), types.CellType()
    rows = [(cell, [a, b, a], 2), (cell, [a], 1)]
    call = entry.make_entry(tables_of(WithChoices, choices=rows, sizes=[(rows, 2)]))
    for held, found in ((a, True), (b, False), (c, False), (a, True)):
        cell.cell_contents = held
        assert accepts(call) is found
    del cell.cell_contents
    assert not accepts(call)
    cell.cell_contents = a
    rows.pop()
    assert not accepts(call)  # the tables that were there before are checked, too
    assert entry.hits_of(call) == 2


def test_more_tables_leave_other_entries_alone():
    assert accepts(entry.make_entry(tables_of(WithChoices)))
    assert accepts(entry.make_entry(tables_of()))
    assert "choices" not in header_of(entry.Tables).places
    assert header_of(WithChoices).places.items() > header_of(entry.Tables).places.items()


def test_every_field_of_the_list_is_a_table_of_the_header():
    names = {each.name for each in fields(Checks)}
    assert names and names == {check.table.name for check in checks_of(entry.Tables)} == set(CHANGED)
    assert all({name, f"{name}_at"} <= set(header_of(entry.Tables).places) for name in names)


# -- threads -----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("module", "name"), [(making, "_method"), (entry_tables, "function_table")])
def test_threads_that_come_first_at_once_get_entries_whose_parts_live_on(module, name, monkeypatch):
    both, made, calls = threading.Barrier(2), [], []
    make = getattr(module, name).__wrapped__

    @cache
    def shared(*arguments: Any) -> Any:
        found = make(*arguments)
        made.append(weakref.ref(found))
        both.wait(60)  # so that each makes one, and the cache drops the first
        return found

    monkeypatch.setattr(module, name, shared)
    in_threads(lambda _: calls.append(entry.make_entry(tables_of())), 2)
    gc.collect()
    assert len(made) == 2 and all(part() is not None for part in made)
    assert all(map(accepts, calls))


# -- records -----------------------------------------------------------------------------------------------------


def test_two_words_of_one_name_are_refused():
    with pytest.raises(ValueError, match="the same name"):
        Record("low", "high", number("low"))
    with pytest.raises(ValueError, match="the same name"):
        Record(several("keys", thing("key")), number("keys_at"))


@pytest.mark.parametrize("row", [(1,), (1, 2, 3)])
def test_a_row_has_a_value_per_column(row):
    record = Record(number("low"), number("high"))
    for rows in ([row], [(1, 2), row]):
        with pytest.raises(ValueError, match="zip"):
            record.words(rows, RecordMemory())
