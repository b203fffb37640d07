"""The pages docs/adding-*.md, followed step by step in a copy of the repository; and the files that they take."""

import os
import re
import shutil
import subprocess
import sys
from pathlib import Path
from typing import NamedTuple

import pytest

ROOT = Path(__file__).resolve().parent.parent
STEP = re.compile(
    r"(?:(?P<verb>Append to|Write|Change)\s`(?P<path>[^`]+)`:\n\n)?"
    r"^```(?P<language>python|diff|sh)\n(?P<block>.*?)^```\n(?:\n```text\n(?P<printed>.*?)^```\n)?",
    re.MULTILINE | re.DOTALL,
)

# Page -> the files of the package that its task takes, and those beside it.
FILES = {
    "adding-an-operator": (["jit/ops/activations.py"], ["tests/ops/references/basic.py"]),
    "adding-a-kernel": (["jit/ops/reductions.py"], ["tests/ops/references/basic.py"]),
    "adding-a-pass": (
        ["jit/passes/simplify_sizes.py", "jit/passes/__init__.py"], ["tests/passes/test_simplify_sizes.py"],
    ),
    "adding-a-target": (["jit/runtime/targets/power.py"], ["tests/runtime/test_power.py"]),
}  # fmt: skip


class Step(NamedTuple):
    """A block of a page: what it is to be done with, and what comes of it."""

    verb: str
    """"Append to", "Write" or "Change"; empty for a program or commands that are run."""
    path: str
    language: str
    block: str
    printed: str


def steps_of(page: str) -> list[Step]:
    text = (ROOT / "docs" / f"{page}.md").read_text()
    return [Step(*(part or "" for part in found.groups())) for found in STEP.finditer(text)]


def take(step: Step, copy: Path) -> None:
    """Do in the copy what a step says."""
    if step.verb:
        path = copy / step.path
        assert path.exists() == (step.verb != "Write"), path
        path.write_text(edited(path.read_text() if path.exists() else "", step))
    elif step.language == "sh":
        for command in step.block.strip().splitlines():
            run(["sh", "-c", command.replace(".venv/bin/python", sys.executable)], copy)
    else:
        printed = run([sys.executable, "-c", step.block], copy)
        assert not step.printed or printed == step.printed


def edited(text: str, step: Step) -> str:
    if step.verb != "Change":
        return f"{text}\n\n{step.block}" if text else step.block
    for old, new in re.findall(r"((?:^-.*\n)+)((?:^\+.*\n)+)", step.block, re.MULTILINE):
        before, after = (re.sub(r"^[-+]", "", lines, flags=re.MULTILINE) for lines in (old, new))
        assert text.count(before) == 1, before
        text = text.replace(before, after)
    return text


def run(command: list[str], folder: Path) -> str:
    environment = {**os.environ, "PYTHONPATH": str(folder)}
    done = subprocess.run(command, cwd=folder, env=environment, capture_output=True, text=True)
    assert done.returncode == 0, f"{command}\n{done.stdout}{done.stderr}"
    assert "no tests ran" not in done.stdout
    return done.stdout


@pytest.fixture
def copy(tmp_path: Path) -> Path:
    """The package, its tests and its pages, to be changed."""
    for folder in ("jit", "tests", "docs"):
        shutil.copytree(ROOT / folder, tmp_path / folder, ignore=shutil.ignore_patterns("__pycache__"))
    shutil.copy(ROOT / "pyproject.toml", tmp_path)
    return tmp_path


def test_every_page_is_followed():
    assert {path.stem for path in (ROOT / "docs").glob("adding-*.md")} == set(FILES)


@pytest.mark.llvm
@pytest.mark.parametrize("page", FILES)
def test_the_steps_of_a_page_lead_where_it_says(page, copy):
    for step in steps_of(page):
        take(step, copy)


@pytest.mark.parametrize("page", FILES)
def test_a_task_takes_these_files(page):
    package, beside = FILES[page]
    named = dict.fromkeys(step.path for step in steps_of(page) if step.verb)
    assert sorted(named) == sorted([*package, *beside])
    assert all(path.startswith("jit/") for path in package) and not any(path.startswith("jit/") for path in beside)
