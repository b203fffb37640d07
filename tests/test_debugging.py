"""docs/debugging.md: its programs run and print what it says, and its table has every variable of the environment."""

import re
from pathlib import Path

import pytest

from tests.test_readme import PROGRAM, check_program

ROOT = Path(__file__).resolve().parent.parent
PAGE = ROOT / "docs" / "debugging.md"
PROGRAMS = PROGRAM.findall(PAGE.read_text())
VARIABLE = re.compile(r"(?<!\w)JIT_[A-Z_]*[A-Z]\b")
MADE_UP = re.compile(r"JIT_(TEST|CASE|SNAPSHOT)_")
"""Variables that programs under test read."""


def named(*folders: str) -> set[str]:
    files = [path for folder in folders for path in (ROOT / folder).rglob("*.py")]
    names = {name for path in files for name in VARIABLE.findall(path.read_text("utf-8"))}
    return {name for name in names if not MADE_UP.match(name)}


def test_the_table_has_every_variable_and_no_other():
    rows = re.findall(r"^\| `(JIT_\w+)` \|", PAGE.read_text(), re.MULTILINE)
    assert len(rows) == len(set(rows))
    assert set(rows) == named("jit", "tests", "benchmarks", "examples") >= named("jit") > set()


@pytest.mark.parametrize(("program", "expected"), PROGRAMS, ids=range(len(PROGRAMS)))
@pytest.mark.llvm
def test_a_program_runs_and_prints_what_the_page_says(program, expected, tmp_path):
    check_program(PAGE, program, expected, tmp_path)
