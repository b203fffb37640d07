"""Memory of their arguments that Python functions have returned."""

from __future__ import annotations

from typing import Any

from jit.tracing.recorder.memory import StorageCell
from jit.tracing.recorder.python_functions import PythonFunctions


def cell(source: Any = None) -> StorageCell:
    root: Any = None
    return StorageCell(root, (), (0, 8), source=source)


def test_a_view_is_shown_if_somebody_else_has_the_memory() -> None:
    functions = PythonFunctions()
    argument, made, inside, view = cell(source=object()), cell(), cell(), cell()
    functions.note_view("of_argument", made, [argument])
    functions.note_view("of_inside", view, [inside])
    assert list(functions.shown([made, made])) == ["of_argument"]
    assert list(functions.shown([view])) == []
    assert list(functions.shown([view, inside])) == ["of_inside"]


def test_a_view_of_a_view_is_shown_as_that_is() -> None:
    functions = PythonFunctions()
    argument, middle, made = cell(source=object()), cell(), cell()
    functions.note_view("first", middle, [argument])
    functions.note_view("second", made, [middle])
    assert list(functions.shown([made])) == ["second"]
