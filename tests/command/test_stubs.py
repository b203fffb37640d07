"""The stubs: up to date with the registry, and a type checker takes a program that is right and finds what is wrong."""

import subprocess
import sys
from pathlib import Path

import pytest

from jit.command import stubs

ROOT = Path(__file__).resolve().parents[2]

RIGHT = """
import jit
from jit.nn import functional as F


def loss(x: jit.Tensor, weight: jit.Tensor) -> jit.Tensor:
    hidden = jit.tanh(x @ weight.t() + 1) * 2 - x.mean(dim=1, keepdim=True)
    values, places = hidden.max(1)
    top = jit.max(hidden, dim=1, keepdim=True)
    pieces: list[jit.Tensor] = hidden.chunk(2, dim=1) + jit.split(hidden, 2)
    shaped = jit.cat(pieces[:1]).view(-1, 2).reshape((2, -1)).permute(1, 0)
    shaped.add_(1).clamp_(min=0)
    ones = jit.ones(2, 3, dtype=jit.float64, requires_grad=True)
    maximum = jit.maximum(ones, jit.zeros((2, 3), out=jit.empty(2, 3)))
    norm = jit.linalg.vector_norm(maximum, ord=2, dim=(0, 1))
    picked: jit.Tensor = F.softmax(values, dim=0)[places > 0].sum() + F.gelu(top.values).double().norm()
    return (1 / norm + picked + (-shaped).T.float().sum()) ** 2


result = loss(jit.randn(4, 4), jit.rand(4, 4).requires_grad_())
result.backward()
number: float = float(result)
gradient: jit.Tensor | None = result.grad
"""

WRONG = """
import jit

x = jit.ones(2)
x.tahn()
jit.cat(x, dim="0")
jit.add(x)
y: int = x.sum()
x.view(2.5)
"""


def type_check(program: str, folder: Path) -> subprocess.CompletedProcess[str]:
    path = folder / "program.py"
    path.write_text(program)
    options = ["--strict", "--config-file=", "--follow-imports=silent", "--namespace-packages"]
    return subprocess.run([sys.executable, "-m", "mypy", *options, str(path)], cwd=ROOT, capture_output=True, text=True)


def test_stubs_are_up_to_date() -> None:
    stale = [path.name for path, text in stubs.files().items() if path.read_text(encoding="utf-8") != text]
    if stale:
        pytest.fail(f"{', '.join(stale)}: run python -m jit.command.stubs", pytrace=False)


def test_a_right_program_passes(tmp_path: Path) -> None:
    done = type_check(RIGHT, tmp_path)
    assert done.returncode == 0, done.stdout
    exec(compile(RIGHT, "program.py", "exec"), {"__name__": "program"})


def test_wrong_calls_are_found(tmp_path: Path) -> None:
    found = [line.split(":")[1] for line in type_check(WRONG, tmp_path).stdout.splitlines() if ": error:" in line]
    assert list(dict.fromkeys(found)) == ["5", "6", "7", "8", "9"]
