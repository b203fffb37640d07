"""What is built holds the whole package and nothing of the links at the root."""

import subprocess
import sys
import tarfile
import zipfile
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parent.parent
KINDS = (".py", ".pyi", ".html", ".css", ".js", ".typed")
SOURCES = {path.relative_to(ROOT).as_posix() for path in (ROOT / "jit").rglob("*") if path.suffix in KINDS}


def build(target: str, folder: Path) -> Path:
    """Build a wheel or an sdist of this checkout."""
    command = [sys.executable, "-m", "hatchling", "build", "-t", target, "-d", str(folder)]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    (built,) = folder.iterdir()
    return built


@pytest.fixture(scope="module")
def wheel(tmp_path_factory):
    return zipfile.ZipFile(build("wheel", tmp_path_factory.mktemp("wheel")))


@pytest.fixture(scope="module")
def sdist(tmp_path_factory):
    return tarfile.open(build("sdist", tmp_path_factory.mktemp("sdist")))


def test_the_wheel_holds_the_package_alone(wheel):
    names = set(wheel.namelist())
    assert {name for name in names if ".dist-info/" not in name} == SOURCES


def test_the_wheel_declares_the_command(wheel):
    (entry_points,) = (name for name in wheel.namelist() if name.endswith("entry_points.txt"))
    assert b"jit = jit.command.cli:main" in wheel.read(entry_points)


def test_the_sdist_holds_the_package_its_tests_and_no_link(sdist):
    inside = {name.partition("/")[2] for name in sdist.getnames()}
    assert inside >= SOURCES | {"pyproject.toml", "README.md", "LICENSE", "tests/conftest.py"}
    assert not {name.split("/")[0] for name in inside} & {"ir", "passes", "export", "runtime"}
