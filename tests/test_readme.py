"""What the README says is so: its programs run, its links lead somewhere, its test command is the one that CI runs."""

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parent.parent
README = (ROOT / "README.md").read_text()
PROGRAM = re.compile(r"^```python\n(.*?)^```\n(?:\n```text\n(.*?)^```\n)?", re.MULTILINE | re.DOTALL)
"""A program, and what it prints where a text block follows it at once."""
PROGRAMS = PROGRAM.findall(README)
PROSE = re.sub(r"^```.*?^```$", "", README, flags=re.MULTILINE | re.DOTALL)
LINKS = re.findall(r"\]\((?!https?:)([^)#]+)", PROSE)


def command(name: str) -> str:
    """The shell line below `<!-- command: name -->`."""
    found = re.search(rf"^<!-- command: {name} -->\n```sh\n(.*?)\n```$", README, re.MULTILINE | re.DOTALL)
    assert found, f"README.md has no shell block marked <!-- command: {name} -->"
    return found[1]


def test_the_readme_has_programs():
    assert len(PROGRAMS) >= 5
    assert any(expected for _, expected in PROGRAMS)


def check_program(page: Path, program: str, expected: str, folder: Path) -> None:
    """Run a program of a page in a process of its own; it ends well, and prints what the page says."""
    (folder / "example.py").write_text(program)
    environment = {**os.environ, "PYTHONPATH": str(ROOT)}
    done = subprocess.run([sys.executable, "example.py"], cwd=folder, env=environment, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    if expected and os.environ.get("EXPECTTEST_ACCEPT"):
        page.write_text(page.read_text().replace(f"```text\n{expected}```", f"```text\n{done.stdout}```"))
    elif expected:
        assert done.stdout == expected, f"if the new text of {page.name} is right: make accept T=<this test>"


@pytest.mark.parametrize(("program", "expected"), PROGRAMS, ids=range(len(PROGRAMS)))
def test_a_program_of_the_readme_runs_and_prints_what_it_says(program, expected, tmp_path):
    check_program(ROOT / "README.md", program, expected, tmp_path)


@pytest.mark.parametrize("link", LINKS)
def test_a_link_of_the_readme_leads_somewhere(link):
    assert (ROOT / link).exists()


def test_ci_runs_the_test_command_of_the_readme():
    done = subprocess.run([ROOT / ".ci" / "run", "--print"], capture_output=True, text=True)
    assert done.stdout.strip() == command("test")


@pytest.mark.parametrize("name", ["run", "test"])
def test_a_command_starts_from_nothing_and_names_what_exists(name):
    steps = command(name).split(" && ")
    assert steps[0] == "python3 -m venv .venv"
    assert all(step.startswith(".venv/bin/") for step in steps[1:])
    assert all((ROOT / word).is_file() for word in command(name).split() if word.endswith(".py"))
