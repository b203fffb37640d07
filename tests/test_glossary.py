"""docs/glossary.md: every class that it names is in the file that it names, and no word is explained twice."""

import ast
import re
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parent.parent
PAGE = (ROOT / "docs" / "glossary.md").read_text()
ROWS = [tuple(cell.strip() for cell in row) for row in re.findall(r"^\| (.+) \| (.+) \| (.+) \|$", PAGE, re.MULTILINE)]
ENTRIES = {word: (meaning, where) for word, meaning, where in ROWS if word != "word"}
PLACE = re.compile(r"((?:`\w+`(?:, | and )?)+) in `([\w/.]+)`")
"""One or more classes in a file."""


def places() -> list[tuple[str, str]]:
    """All (class, file) of the page."""
    found = [(names, path) for _, where in ENTRIES.values() for names, path in PLACE.findall(where)]
    return [(name, path) for names, path in found for name in re.findall(r"\w+", names.replace(" and ", ","))]


def names_in(path: Path) -> set[str]:
    return {node.name for node in ast.parse(path.read_text()).body if isinstance(node, ast.ClassDef)}


def test_no_word_is_explained_twice():
    assert len(ENTRIES) == sum(word != "word" for word, _, _ in ROWS) > 40


@pytest.mark.parametrize(("name", "path"), places())
def test_a_class_is_where_the_page_says(name, path):
    assert name in names_in(ROOT / path)


@pytest.mark.parametrize("word", ENTRIES)
def test_a_word_has_one_sentence_and_a_place(word):
    meaning, where = ENTRIES[word]
    assert meaning and not re.search(r"\. [A-Z]", meaning)
    files = re.findall(r"`((?:jit|docs)/[\w/.]+)`", where)
    assert files and all((ROOT / file).exists() for file in files)
