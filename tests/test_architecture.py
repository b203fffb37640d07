"""The page docs/architecture.md: its drawing is that of the code, and the files that the documents name are there."""

import os
import re
from pathlib import Path

import networkx
import pytest

from tests.test_layering import FLOORS, PACKAGE, imports_of, library_of, python_files, room_of

ROOT = Path(__file__).resolve().parent.parent
PAGE = ROOT / "docs" / "architecture.md"
DRAWING = re.compile(r"(?<=<!-- imports -->\n```text\n).*?(?=```)", re.DOTALL)
PAGES = [ROOT / "README.md", ROOT / "CONTRIBUTING.md", *sorted((ROOT / "docs").glob("*.md"))]


def drawing() -> str:
    """A line per room, from the top down: what it imports, without what another of these brings along."""
    found = [each for path in python_files(PACKAGE) for each in imports_of(path) if library_of(each.target) == "jit"]
    arrows = {(room_of(each.module), room_of(each.target)) for each in found}
    down = networkx.DiGraph([(here, there) for here, there in arrows if here != there])
    down.remove_nodes_from(["_stubs"])
    drawn = networkx.transitive_reduction(down)
    rooms = [room for floor in reversed(FLOORS) for room in floor if room in down]
    lines = [f"{room:<10}  ->  {' '.join(r for r in rooms if drawn.has_edge(room, r))}" for room in rooms if down[room]]
    return "\n".join(lines) + "\n"


def test_the_drawing_is_that_of_the_code():
    text = PAGE.read_text()
    drawn = drawing()
    if os.environ.get("EXPECTTEST_ACCEPT"):
        PAGE.write_text(DRAWING.sub(lambda found: drawn, text))
    else:
        assert DRAWING.findall(text) == [drawn], "if the code is right: make accept T=tests/test_architecture.py"


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_files_that_a_page_names_are_there(page):
    """But for those that a page of docs/adding-*.md asks its reader to write; tests/test_adding.py follows it."""
    text = page.read_text()
    named = re.findall(r"(?<![\w./-])(?:jit|tests|docs|examples|benchmarks)/[\w/.-]*\w(?![\w*<])", text)
    written = re.findall(r"Write\s`([^`]+)`:", text)
    assert not [name for name in named if name not in written and not (ROOT / name).exists()]


@pytest.mark.parametrize("page", ["architecture.md", "tracing.md"])
def test_short_names_of_files_are_there(page):
    """In these pages `recorder/tracer.py` is in one of the rooms."""
    text = (PAGE.parent / page).read_text()
    named = re.findall(r"`((?!jit/|tests/)\w+/(?:\w+/)*\w+\.py)`", text)
    assert named
    assert not [name for name in named if not [*PACKAGE.glob(f"**/{name}")]]
