"""Kinds of places, of facts and of objects: each is one class that says itself what it is."""

import ast
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

import jit
from jit.tracing.surroundings.facts import Fact, FactOf
from jit.tracing.surroundings.kinds.known import KNOWN, kind_of
from jit.tracing.surroundings.kinds.object_kind import ObjectKind
from jit.tracing.surroundings.places import Place
from jit.tracing.surroundings.questions import Question

TRACING = Path(jit.__file__).parent / "tracing"


def below(kind: Any) -> Iterator[Any]:
    for sub in kind.__subclasses__():
        yield sub
        yield from below(sub)


QUESTIONS = [kind for kind in below(Question) if kind not in (Place, Fact, FactOf)]


@pytest.mark.parametrize("kind", [*QUESTIONS, *below(ObjectKind)], ids=lambda kind: kind.__name__)
def test_a_kind_names_itself(kind: Any) -> None:
    assert isinstance(vars(kind).get("called"), str) and vars(kind)["called"]
    assert kind.__doc__


def test_no_two_kinds_have_one_name() -> None:
    for kinds in (QUESTIONS, [type(known) for known in KNOWN]):
        names = [vars(kind)["called"] for kind in kinds]
        assert len(set(names)) == len(names)


@pytest.mark.parametrize("kind", QUESTIONS, ids=lambda kind: kind.__name__)
def test_a_question_has_no_attributes_but_slots(kind: Any) -> None:
    assert "__slots__" in vars(kind)


def test_all_kinds_of_objects_are_listed() -> None:
    assert {type(known) for known in KNOWN} == {ObjectKind, *below(ObjectKind)}
    assert type(kind_of(object)) is ObjectKind


def private_imports(path: Path) -> list[str]:
    """The private names that a file imports from what a function reads."""
    found = [node for node in ast.walk(ast.parse(path.read_text())) if isinstance(node, ast.ImportFrom)]
    return [a.name for node in found if "surroundings" in (node.module or "") for a in node.names if a.name[0] == "_"]


def test_shortcuts_ask_for_nothing_private() -> None:
    files = sorted((TRACING / "shortcuts").glob("*.py"))
    assert len(files) > 1
    assert not [(path.name, name) for path in files for name in private_imports(path)]


def test_shortcuts_take_no_partial_apart() -> None:
    for path in (TRACING / "shortcuts").glob("*.py"):
        assert "partial" not in path.read_text()
