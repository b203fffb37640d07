"""Programs written for PyTorch, in the idioms of public ones, run as they are and compute what they do with torch 2.13.

`losses.json` holds the losses that torch gave: `python program.py` with torch prints them.
"""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
PROGRAMS = ROOT / "tests" / "programs"
LOSSES = json.loads((PROGRAMS / "losses.json").read_text())


def run(*arguments: str) -> subprocess.CompletedProcess[str]:
    environment = os.environ | {"PYTHONPATH": str(ROOT)}
    command = [sys.executable, "-W", "ignore", "-m", "jit.as_torch", *arguments]
    return subprocess.run(command, capture_output=True, text=True, env=environment, cwd=PROGRAMS)


def losses_of(text: str) -> list[float]:
    return [float(line.split()[1]) for line in text.splitlines() if line.startswith("loss ")]


def test_every_program_has_its_losses():
    assert sorted(LOSSES) == sorted(path.stem for path in (PROGRAMS / "own").glob("*.py"))
    assert all(LOSSES.values())


@pytest.mark.parametrize("name", sorted(LOSSES))
def test_losses_are_those_of_torch(name):
    done = run(f"own/{name}.py")
    assert done.returncode == 0, done.stderr
    assert losses_of(done.stdout) == pytest.approx(LOSSES[name], rel=2e-5)


@pytest.mark.parametrize("name", ["mnist", "word_lm", "own_function", "path_length"])
def test_losses_are_the_same_with_every_module_traced(name):
    done = run("--trace", "--report", f"own/{name}.py")
    assert done.returncode == 0, done.stderr
    assert losses_of(done.stdout) == pytest.approx(LOSSES[name], rel=2e-5)
    assert "calls from recordings" in done.stderr
