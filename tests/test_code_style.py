"""Ruff and mypy are part of the tests: their findings are failures."""

import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parent.parent


def run(*command: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run([sys.executable, "-m", *command], cwd=ROOT, capture_output=True, text=True)


def assert_content(*command: str) -> None:
    """Fail with all that a tool has to say, unless it has nothing to say."""
    done = run(*command)
    if done.returncode:
        pytest.fail(f"{' '.join(command)}\n{done.stdout}{done.stderr}", pytrace=False)


def test_ruff_is_content():
    assert_content("ruff", "check", "--output-format=concise", ".")


def test_mypy_is_content():
    assert_content("mypy")


def test_ruff_reads_the_package_and_not_the_links():
    """The exclusion of the link `ir` must not take jit/ir with it."""
    listing = run("ruff", "check", "--show-files", ".").stdout.splitlines()
    parts = [Path(line).relative_to(ROOT).parts for line in listing]
    assert ("jit", "ir") in {each[:2] for each in parts}
    assert not {each[0] for each in parts} & {"ir", "passes", "export", "runtime"}
