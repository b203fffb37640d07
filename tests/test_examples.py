"""The examples run as programs, as a reader would run them."""

import os
import re
import subprocess
import sys
from pathlib import Path

import onnx
import pytest

ROOT = Path(__file__).resolve().parent.parent
DIGITS = ROOT / "examples" / "digits.py"


def run(*command, cwd):
    """Run a program to its end; its output, or a failure with all that it said."""
    environment = {**os.environ, "PYTHONPATH": str(ROOT)}
    done = subprocess.run([sys.executable, *command], cwd=cwd, env=environment, capture_output=True, text=True, timeout=300)
    if done.returncode:
        pytest.fail(f"{' '.join(map(str, command))}: exit code {done.returncode}\n{done.stdout}{done.stderr}", pytrace=False)
    return done.stdout


def shares(text):
    """Every percentage in a text."""
    return [float(share) for share in re.findall(r"([\d.]+)%", text)]


def dynamic_batch(path):
    """Whether the first input of a model leaves its first size open."""
    return onnx.load(path).graph.input[0].type.tensor_type.shape.dim[0].dim_param != ""


def test_digits_are_learned_traced_and_exported(tmp_path):
    printed = run(DIGITS, "-o", "digits.onnx", cwd=tmp_path)
    learned, exported = shares(next(line for line in printed.splitlines() if line.startswith("accuracy"))), shares(
        next(line for line in printed.splitlines() if line.startswith("onnxruntime"))
    )
    assert learned == exported and learned[0] >= 97
    assert "graph(" in printed and "aten::batch_norm" in printed and "scope: Net/norm1" in printed
    assert dynamic_batch(tmp_path / "digits.onnx")
    assert list(tmp_path.iterdir()) == [tmp_path / "digits.onnx"]


def test_the_model_of_digits_is_exported_by_the_command_line(tmp_path):
    run("-m", "jit.cli", "export-onnx", f"{DIGITS}:model", "-o", "digits.onnx", cwd=tmp_path)
    model = onnx.load(tmp_path / "digits.onnx")
    onnx.checker.check_model(model, full_check=True)
    assert [each.name for each in model.graph.initializer if each.name == "head.weight"] == ["head.weight"]


def test_a_program_that_cannot_write_says_so(tmp_path):
    missing = tmp_path / "nowhere" / "digits.onnx"
    done = subprocess.run(
        [sys.executable, "-m", "jit.cli", "export-onnx", f"{DIGITS}:model", "-o", str(missing)],
        cwd=tmp_path, env={**os.environ, "PYTHONPATH": str(ROOT)}, capture_output=True, text=True, timeout=300,
    )  # fmt: skip
    assert done.returncode in (1, 2) and "Traceback" not in done.stderr and not missing.exists()
