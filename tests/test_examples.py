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
MODELS = ROOT / "examples" / "models"
TASKS = str(ROOT / "examples" / "tasks_{}.py")


def run(*command, cwd):
    """Run a program to its end; its output, or a failure with all that it said."""
    done = attempt(*command, cwd=cwd)
    if done.returncode:
        said = done.stdout + done.stderr
        pytest.fail(f"{' '.join(map(str, command))}: exit code {done.returncode}\n{said}", pytrace=False)
    return done.stdout


def attempt(*command, cwd):
    """Run a program on one thread: other tests may run beside it, and threads of BLAS spin while they wait."""
    environment = {**os.environ, "PYTHONPATH": str(ROOT), "OPENBLAS_NUM_THREADS": "1"}
    whole = [sys.executable, *map(str, command)]
    return subprocess.run(whole, cwd=cwd, env=environment, capture_output=True, text=True, timeout=300)


def accuracy_in(text, start):
    """The percentage in the line that starts so."""
    line = next(line for line in text.splitlines() if line.startswith(start))
    return float(re.findall(r"([\d.]+)%", line)[0])


def dynamic_batch(path):
    """Whether the first input of a model leaves its first size open."""
    return onnx.load(path).graph.input[0].type.tensor_type.shape.dim[0].dim_param != ""


def test_digits_are_learned_traced_and_exported(tmp_path):
    printed = run(DIGITS, "-o", "digits.onnx", "--quantize", cwd=tmp_path)
    assert 97 <= accuracy_in(printed, "accuracy") == accuracy_in(printed, "onnxruntime")
    assert abs(accuracy_in(printed, "with 8 bits") - accuracy_in(printed, "accuracy")) <= 1
    assert "graph(" in printed and "aten::batch_norm" in printed and "scope: Net/norm1" in printed
    assert dynamic_batch(tmp_path / "digits.onnx")
    assert {path.name for path in tmp_path.iterdir()} == {"digits.onnx", "digits-int8.onnx"}


def test_digits_are_learned_on_a_gpu(tmp_path, gpu):
    printed = run(DIGITS, "-o", "digits.onnx", "--device", "cuda", "--epochs", "4", cwd=tmp_path)
    assert 97 <= accuracy_in(printed, "accuracy") == accuracy_in(printed, "onnxruntime")
    assert "device=cuda:0" in printed and dynamic_batch(tmp_path / "digits.onnx")


def test_the_model_of_digits_is_exported_by_the_command_line(tmp_path):
    run("-m", "jit.command.cli", "export-onnx", f"{DIGITS}:model", "-o", "digits.onnx", cwd=tmp_path)
    model = onnx.load(tmp_path / "digits.onnx")
    onnx.checker.check_model(model, full_check=True)
    names = {each.name for each in model.graph.initializer}
    assert {"conv1.weight", "conv1.bias", "head.bias"} <= names and "norm2.running_var" not in names


def test_a_program_that_cannot_write_says_so(tmp_path):
    missing = tmp_path / "nowhere" / "digits.onnx"
    done = attempt("-m", "jit.command.cli", "export-onnx", f"{DIGITS}:model", "-o", missing, cwd=tmp_path)
    assert done.returncode in (1, 2) and "Traceback" not in done.stderr and not missing.exists()


def test_digits_are_learned_by_any_number_of_processes(tmp_path):
    pytest.importorskip("mpi4py")
    program = ROOT / "examples" / "distributed_digits.py"
    alone = run(program, "--epochs", "3", "--checkpoint", "kept", cwd=tmp_path)
    assert alone.count("of 3: loss") == 3
    printed = run("-m", "jit", "launch", "-n", "2", program, "--epochs", "5", "--checkpoint", "kept", cwd=tmp_path)
    assert "epoch  3" not in printed and printed.count("of 5: loss") == 2
    assert 97 <= accuracy_in(printed, "accuracy") == accuracy_in(printed, "onnxruntime")
    assert dynamic_batch(tmp_path / "digits.onnx")


def test_a_generator_learns_from_a_critic_with_a_gradient_penalty(tmp_path):
    printed = run(MODELS / "wgan_gp.py", "--rounds", "100", "--traced", cwd=tmp_path)
    before, after = map(float, re.findall(r"distance to the scans: ([\d.]+) before, ([\d.]+) after", printed)[0])
    assert after < before / 2 and printed.count("of 100: distance") == 8 and "@@" in printed


def test_a_gpt_learns_and_writes(tmp_path):
    printed = run(MODELS / "gpt.py", "--steps", "60", "--letters", "60", cwd=tmp_path)
    losses = [float(loss) for loss in re.findall(r"of 60: loss ([\d.]+)", printed)]
    assert len(losses) == 10 and losses[-1] < 3.2 < losses[0]
    assert "lengths of the cache: 2" in printed and "64 of 64 letters are the same" in printed
    sizes = onnx.load(tmp_path / "gpt.onnx").graph.input[1].type.tensor_type.shape.dim
    assert sizes[2].dim_param == "n" and sizes[1].dim_value == 4


def test_a_gpt_learns_on_a_gpu(tmp_path, gpu):
    printed = run(MODELS / "gpt.py", "--device", "cuda", "--steps", "10", "--letters", "20", cwd=tmp_path)
    assert printed.count("of 10: loss") == 10 and "24 of 24 letters are the same" in printed


def test_two_labels_are_enough_for_a_club(tmp_path):
    printed = run(MODELS / "gcn.py", cwd=tmp_path)
    assert int(re.findall(r"side is found: (\d+) of 34", printed)[0]) >= 31 and "training" in printed


def test_an_autoencoder_learns_to_tell_digits(tmp_path):
    printed = run(MODELS / "vae.py", cwd=tmp_path)
    assert float(re.findall(r"before, ([\d.]+) after", printed)[0]) < 28 and dynamic_batch(tmp_path / "vae.onnx")


@pytest.mark.parametrize("name", ["joblib", "dask", "ray"])
def test_gradients_of_workers_are_equal_to_the_bit(name, tmp_path):
    pytest.importorskip(name)
    printed = run(TASKS.format(name), cwd=tmp_path)
    assert re.fullmatch(r"4 shards on 2 workers: loss 2\.\d+, equal to the bit: True\n", printed)


def test_a_server_answers_as_the_network_does(tmp_path):
    pytest.importorskip("kserve")
    printed = run(ROOT / "examples" / "serve_kserve.py", cwd=tmp_path)
    assert re.findall(r"^(\d) images: .* to within 1e-5: True$", printed, re.MULTILINE) == ["1", "5"]


@pytest.mark.slow
@pytest.mark.parametrize("path", sorted(MODELS.glob("*.py")), ids=lambda path: path.stem)
def test_every_program_reaches_the_quality_that_it_states(path, tmp_path):
    assert "verified  by onnxruntime" in run(path, cwd=tmp_path)


# -- notebooks -------------------------------------------------------------------------------------------------------

NOTEBOOKS = sorted((ROOT / "examples").glob("*.ipynb"))


def test_there_are_notebooks():
    assert [path.stem for path in NOTEBOOKS] == ["onnx", "passes", "tour"]


@pytest.mark.parametrize("path", NOTEBOOKS, ids=lambda path: path.stem)
def test_a_notebook_runs_from_top_to_bottom(path, tmp_path, monkeypatch):
    nbformat, nbclient = pytest.importorskip("nbformat"), pytest.importorskip("nbclient")
    pytest.importorskip("ipykernel")
    monkeypatch.setenv("PYTHONPATH", str(ROOT))
    monkeypatch.setenv("OPENBLAS_NUM_THREADS", "1")
    notebook = nbformat.read(path, as_version=4)
    assert not any(cell.get("outputs") for cell in notebook.cells), "notebooks are committed without outputs"
    nbclient.NotebookClient(notebook, timeout=120, resources={"metadata": {"path": str(tmp_path)}}).execute()
    assert any(cell.get("outputs") for cell in notebook.cells)
