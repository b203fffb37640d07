"""The command line as people run it: a program with exit codes, sentences on stderr, and no half-written files."""

import json
import os
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import pytest

import jit
from jit.command import diagnosis
from jit.command import waiting as waits
from jit.command.targets import parse_dynamic
from jit.ir.errors import UsageError
from jit.runtime.cuda import devices

PROGRAM = """
import jit
from jit import nn


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.fc = nn.Linear(3, 2)

    def forward(self, x):
        return jit.tanh(self.fc(x))


def scaled(x, y):
    return x * 2 + y


def branches(x):
    if x.sum() > 0:
        return x * 2
    return x


def sorts(x):
    return jit.linalg.no_such_function(x)


def fails(x):
    return x / undefined_name


class Opaque(jit.autograd.Function):
    @staticmethod
    def forward(ctx, x):
        return jit.from_numpy(x.detach().numpy() * 2)

    @staticmethod
    def backward(ctx, g):
        return g * 2


def opaque(x):
    y = Opaque.apply(x)
    return y + Opaque.apply(y)


def of_a_dict(d, y):
    return d["a"] * 2 + d["inner"]["b"] + y


def count(x, total=jit.zeros(3)):
    total.add_(x)
    return total.sum()


example_inputs = (jit.ones(2, 3),)
"""


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "program.py").write_text(PROGRAM)
    return tmp_path


def jit_command(folder: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "jit.command.cli", *arguments]
    return subprocess.run(command, cwd=folder, capture_output=True, text=True, timeout=120)


def test_export_writes_a_verified_model(folder):
    done = jit_command(
        folder, "export-onnx", "program.py:Net", "-o", "net.onnx", "--dynamic", "x:0=batch", "--report", "r.json"
    )
    assert done.returncode == 0, done.stderr
    assert "verified  by onnxruntime" in done.stdout and "(batch, 3)" in done.stdout
    report = json.loads((folder / "r.json").read_text())
    assert report["opset"] == 20 and len(report["verified"]["sizes"]) == 2
    import onnxruntime

    session = onnxruntime.InferenceSession(str(folder / "net.onnx"))
    assert session.run(None, {"x": np.ones((7, 3), np.float32)})[0].shape == (7, 2)


def test_a_saved_function_and_a_saved_graph_are_targets(folder):
    jit_command(folder, "inspect", "program.py:scaled", "-i", "float32[2,3]", "-i", "float32[2,3]", "--save", "s.ir")
    named = ("-i", "y=float32[2,3]", "-i", "x=float32[2,3]")
    done = jit_command(folder, "export-onnx", "s.ir", "-o", "graph.onnx", *named, "--json")
    assert done.returncode == 0, done.stderr + done.stdout
    assert json.loads(done.stdout)["inputs"] == {"x": "float32 (2, 3)", "y": "float32 (2, 3)"}
    assert jit_command(folder, "run", "s.ir", *named).returncode == 2

    traced = jit.trace(lambda x: x.tanh())
    traced(jit.ones(2, 3))
    traced.save(folder / "f-1.jit")
    done = jit_command(folder, "export-onnx", "f-1.jit", "-o", "f.onnx", "-i", "float32[2,3]", "--json")
    assert done.returncode == 0, done.stderr + done.stdout
    assert json.loads(done.stdout)["op_histogram"] == {"Tanh": 1}
    assert jit_command(folder, "inspect", "f-1.jit", "-i", "float32[2,3]").returncode == 0


def test_the_verification_is_told_sizes_and_tolerances(folder):
    export = ("export-onnx", "program.py:Net", "-o", "net.onnx", "--dynamic", "x:0=batch")
    done = jit_command(folder, *export, "--verify-size", "batch=9", "--rtol", "1e-3", "--atol", "1e-3", "--json")
    assert done.returncode == 0, done.stderr + done.stdout
    assert [each["x"] for each in json.loads(done.stdout)["verified"]["sizes"]] == [[2, 3], [3, 3], [9, 3]]
    done = jit_command(folder, *export, "--verify-size", "nine")
    assert done.returncode == 2 and "batch=7" in done.stderr
    done = jit_command(folder, *export, "--report", "r.md")
    assert (folder / "r.md").read_text().startswith("# exported to net.onnx")


def test_inputs_come_as_specs_and_files(folder):
    np.save(folder / "y.npy", np.ones((4, 3), np.float32))
    arguments = ("--input", "x=float32[4,3]", "--input", "y=y.npy")
    done = jit_command(
        folder, "export-onnx", "program.py:scaled", "-o", "s.onnx", *arguments, "--opset", "17", "--json"
    )
    assert done.returncode == 0, done.stderr
    assert json.loads(done.stdout)["inputs"] == {"x": "float32 (4, 3)", "y": "float32 (4, 3)"}


def test_inputs_in_a_dict_are_named_by_its_keys(folder):
    inputs = [word for name in ("d.a", "d.inner.b", "y") for word in ("-i", f"{name}=float32[3]")]
    done = jit_command(folder, "export-onnx", "program.py:of_a_dict", "-o", "m.onnx", "--json", *inputs)
    assert done.returncode == 0, done.stderr
    assert list(json.loads(done.stdout)["inputs"]) == ["d.a", "d.inner.b", "y"]
    done = jit_command(folder, "export-onnx", "program.py:of_a_dict", "-o", "m.onnx", *inputs, "-i", "d=float32[3]")
    assert done.returncode == 2 and "'d' is given twice" in done.stderr


def test_what_is_not_in_onnx_falls_through_on_request(folder):
    done = jit_command(folder, "export-onnx", "program.py:opaque", "-o", "m.onnx", "--fallthrough")
    assert done.returncode == 0, done.stderr
    assert "python::Opaque" in done.stdout


def test_new_state_is_an_output_on_request(folder):
    options = ("-i", "x=float32[3]", "-i", "total=float32[3]", "--updates-as-outputs", "--json")
    done = jit_command(folder, "export-onnx", "program.py:count", "-o", "m.onnx", *options)
    assert done.returncode == 0, done.stderr
    assert list(json.loads(done.stdout)["outputs"]) == ["output", "total.new"]


def test_inspect_prints_the_graph_and_saves_it(folder):
    done = jit_command(folder, "inspect", "program.py:Net", "--backward", "--save", "net.ir")
    assert done.returncode == 0, done.stderr
    assert "aten::linear" in done.stdout and "---- stage 1" in done.stdout
    assert "constant %fc.in_features: 8 bytes, read by the function" in done.stdout
    assert "aten::linear" in (folder / "net.ir").read_text()


def test_run_saves_what_the_target_returns(folder):
    done = jit_command(folder, "run", "program.py:Net", "-o", "out.npz")
    assert done.returncode == 0, done.stderr
    assert np.load(folder / "out.npz")["output_0"].shape == (2, 2)


def test_coverage_prints_a_table_or_json(folder):
    done = jit_command(folder, "coverage", "program.py:Net", "--opset", "17")
    assert done.returncode == 0, done.stderr
    assert "ONNX 17" in done.stdout and "2 operators; no gaps" in done.stdout
    done = jit_command(folder, "coverage", "program.py:opaque", "--json")
    assert done.returncode == 0, done.stderr
    assert json.loads(done.stdout)["gaps"] == ["^Opaque"]


def test_doctor_finds_every_engine_working(folder):
    done = jit_command(folder, "doctor", "--json")
    assert done.returncode == 0, done.stdout
    assert all(f["works"] or f["optional"] for f in json.loads(done.stdout))


def finding_on_gpus() -> diagnosis.Finding:
    [found] = [finding for finding in diagnosis.diagnose() if finding.name == "cuda"]
    return found


def test_doctor_names_the_gpus(gpu, monkeypatch):
    detail = "simulated; cuda:0 is a simulated GPU of compute capability 9.0"
    assert finding_on_gpus() == ("cuda", True, detail, True)
    monkeypatch.setattr(devices, "driver_version", lambda: "CUDA 13.0")
    assert finding_on_gpus().detail.startswith("CUDA 13.0; cuda:0 is ")


def test_doctor_says_why_no_gpu_can_be_used(monkeypatch):
    monkeypatch.setattr(devices, "device_count", lambda: "as it is not plugged in")
    assert finding_on_gpus() == ("cuda", False, "as it is not plugged in", True)


def test_doctor_survives_a_driver_that_fails(gpu, monkeypatch):
    def fail() -> str:
        raise OSError("no answer")

    monkeypatch.setattr(devices, "driver_version", fail)
    assert finding_on_gpus() == ("cuda", False, "OSError: no answer", True)


WRONG = {
    "no file": (["export-onnx", "nothing.py:f", "-o", "m.onnx"], 2, "there is no file 'nothing.py'"),
    "no name": (["export-onnx", "program.py:nothing", "-o", "m.onnx"], 2, "has no 'nothing'; name one that it has"),
    "no target": (["export-onnx", "program", "-o", "m.onnx"], 2, "path/to/file.py:name"),
    "no module": (["export-onnx", "no.such.module:f", "-o", "m.onnx"], 2, "there is no module 'no.such.module'"),
    "no output": (["export-onnx", "program.py:Net"], 2, "--output"),
    "bad spec": (["export-onnx", "program.py:Net", "-o", "m.onnx", "-i", "x=three"], 2, "x=float32[1,3,224,224]"),
    "bad dtype": (
        ["export-onnx", "program.py:Net", "-o", "m.onnx", "-i", "x=floaty[2,3]"],
        2,
        "there is no dtype 'floaty'",
    ),
    "bad opset": (["export-onnx", "program.py:Net", "-o", "m.onnx", "--opset", "99"], 2, "opset"),
    "bad axis": (["export-onnx", "program.py:Net", "-o", "m.onnx", "--dynamic", "z:0=batch"], 2, "'z'"),
    "missing array": (
        ["export-onnx", "program.py:Net", "-o", "m.onnx", "-i", "x=no.npy"],
        2,
        "there is no file 'no.npy'",
    ),
    "wrong shape": (["export-onnx", "program.py:Net", "-o", "m.onnx", "-i", "x=float32[2,5]"], 1, "program.py"),
    "branch on data": (["export-onnx", "program.py:branches", "-o", "m.onnx"], 1, "program.py:20"),
    "user's mistake": (["export-onnx", "program.py:fails", "-o", "m.onnx"], 1, "undefined_name"),
    "unsupported": (["export-onnx", "program.py:opaque", "-o", "m.onnx"], 1, "Opaque"),
    "no folder": (["export-onnx", "program.py:Net", "-o", "no/such/folder/m.onnx"], 2, "no/such/folder"),
    "unknown command": (["frobnicate"], 2, "frobnicate"),
    "layer with arguments": (["inspect", "jit.nn:Linear", "-i", "float32[2]"], 2, "name a function of no arguments"),
}


@pytest.mark.parametrize("case", WRONG)
def test_a_wrong_call_is_one_sentence_and_leaves_no_file(folder, case):
    arguments, code, words = WRONG[case]
    before = sorted(p.name for p in folder.iterdir())
    done = jit_command(folder, *arguments)
    assert done.returncode == code, (done.stdout, done.stderr)
    assert words in done.stderr
    assert "Traceback" not in done.stderr
    assert sorted(p.name for p in folder.iterdir() if p.name != "__pycache__") == before


def test_the_line_of_an_error_is_named_once(folder):
    done = jit_command(folder, "export-onnx", "program.py:branches", "-o", "m.onnx")
    assert done.stderr.count("program.py") == 1 and "line 20" not in done.stderr


def test_all_unsupported_places_are_listed_at_once(folder):
    done = jit_command(folder, "export-onnx", "program.py:opaque", "-o", "m.onnx")
    assert "program.py:44" in done.stderr and "program.py:45" in done.stderr


@pytest.mark.skipif(sys.platform == "win32", reason="POSIX permissions")
def test_an_unwritable_folder_is_a_sentence(folder):
    import os

    if os.geteuid() == 0:
        target = "/proc/m.onnx"  # root may write everywhere else
    else:
        folder.chmod(0o500)
        target = "m.onnx"
    done = jit_command(folder, "export-onnx", "program.py:Net", "-o", target)
    assert done.returncode in (1, 2) and "Traceback" not in done.stderr and "error:" in done.stderr


@pytest.mark.parametrize(
    ("texts", "axes"),
    [
        (["x:0=batch"], {"x": {0: "batch"}}),
        (["x:0=batch,-1=w", "y:1=n"], {"x": {0: "batch", -1: "w"}, "y": {1: "n"}}),
        (["x:0=batch:1:64,2=h:8:"], {"x": {0: ("batch", 1, 64), 2: ("h", 8, None)}}),
        (["x:0=batch::64"], {"x": {0: ("batch", 1, 64)}}),
    ],
)
def test_dynamic_axes_come_as_texts(texts, axes):
    assert parse_dynamic(texts) == axes


@pytest.mark.parametrize(
    "text", ["x", "x:0", "0=n", "x:0=", "x:n=0", "x:0=n:1", "x:0=n:a:b", "x:0=n:1:2:3", "x:0=n:-1:2"]
)
def test_texts_that_name_no_axes(text):
    with pytest.raises(UsageError, match="a dynamic axis is x:0=batch, "):
        parse_dynamic([text])


def test_a_range_from_the_command_line(folder):
    done = jit_command(folder, "export-onnx", "program.py:Net", "-o", "n.onnx", "--dynamic", "x:0=batch:1:8")
    assert done.returncode == 0, done.stderr
    assert "holds for" not in done.stdout and "(batch, 2)" in done.stdout
    done = jit_command(folder, "export-onnx", "program.py:Net", "-o", "n.onnx", "--dynamic", "x:0=batch:100:")
    assert done.returncode == 2 and "the axis 'batch' from 100 has the size" in done.stderr


# -- lines of library modules, JSON, pages, times ---------------------------------------------------------------------

LAYERS = """
import jit
from jit import nn

model = nn.Sequential(
    nn.Linear(3, 4),
    nn.ReLU(),
)


def make():
    return nn.Sequential(nn.Linear(3, 4), nn.Tanh())


def of_a_dict(d, y):
    return d["a"] * 2 + d["inner"]["b"] + y


def count(x, total=jit.zeros(3)):
    total.add_(x)
    return total.sum()


example_inputs = (jit.ones(2, 3),)
"""


@pytest.fixture
def layers(tmp_path: Path) -> Path:
    (tmp_path / "layers.py").write_text(LAYERS)
    return tmp_path


@pytest.mark.parametrize(("name", "line"), [("model", 5), ("make", 11)])
def test_operators_of_library_modules_name_the_line_that_makes_the_target(layers, name, line):
    done = jit_command(layers, "inspect", f"layers.py:{name}")
    assert done.returncode == 0, done.stderr
    assert f"# layers.py:{line} in {name}, scope: Sequential/0" in done.stdout
    assert "core.py" not in done.stdout


def test_a_wrong_input_of_a_library_module_names_the_line_too(layers):
    done = jit_command(layers, "run", "layers.py:model", "-i", "float32[2,5]")
    assert done.returncode == 1 and "layers.py" in done.stderr and "core.py" not in done.stderr


COMMANDS = {
    "inspect": (["inspect", "program.py:Net"], {"graph", "nodes", "constants", "saved"}),
    "view": (["view", "program.py:Net", "-o", "net.html"], {"saved", "nodes", "kernels"}),
    "run": (["run", "program.py:Net"], {"outputs", "saved"}),
    "bench": (["bench", "program.py:Net", "--rounds", "2"], {"eager", "traced", "first", "second", "hits", "rounds"}),
    "coverage": (["coverage", "program.py:Net"], {"name", "opset", "on_host", "gaps", "rows"}),
    "export-onnx": (["export-onnx", "program.py:Net", "-o", "net.onnx"], {"opset", "verified", "inputs"}),
}


@pytest.mark.parametrize("name", COMMANDS)
def test_every_command_prints_one_json_object(folder, name):
    arguments, keys = COMMANDS[name]
    done = jit_command(folder, *arguments, "--json")
    assert done.returncode == 0, done.stderr
    assert keys <= json.loads(done.stdout).keys()


@pytest.mark.parametrize("name", COMMANDS)
def test_every_command_prints_its_errors_as_json(folder, name):
    (command, _, *rest), _ = COMMANDS[name]
    done = jit_command(folder, command, "program.py:nothing", *rest, "--json")
    found = json.loads(done.stdout)
    assert done.returncode == found["exit_code"] == 2 and "has no 'nothing'" in found["error"] and not done.stderr


def test_errors_of_the_call_itself_are_json_too(folder):
    done = jit_command(folder, "inspect", "--json", "--no-such-option")
    assert json.loads(done.stdout)["exit_code"] == done.returncode == 2
    done = jit_command(folder, "inspect", "program.py:fails", "--json")
    found = json.loads(done.stdout)
    assert found["exit_code"] == done.returncode == 1 and "NameError" in found["error"]


def test_numbers_that_json_lacks_are_texts(tmp_path):
    (tmp_path / "odd.py").write_text("import jit\ndef f(x):\n    return x / x\nexample_inputs = jit.zeros(2)\n")
    done = jit_command(tmp_path, "run", "odd.py:f", "--json")
    assert json.loads(done.stdout)["outputs"][0]["values"] == ["NaN", "NaN"]


def test_a_page_is_written(folder):
    done = jit_command(folder, "view", "program.py:Net", "-o", "net.html", "--backward")
    assert done.returncode == 0, done.stderr
    assert "saved to net.html" in done.stdout and "tanh_backward" in (folder / "net.html").read_text()
    done = jit_command(folder, "view", "program.py:Net", "-o", "net.txt")
    assert done.returncode == 2 and not (folder / "net.txt").exists()


def test_a_target_is_timed_eagerly_and_traced(folder):
    done = jit_command(folder, "bench", "program.py:Net", "--rounds", "3", "--backward")
    assert done.returncode == 0, done.stderr
    names = [line.split("  ")[0] for line in done.stdout.splitlines()]
    assert names == ["eager", "traced", "first traced call", "second traced call"]


def test_memory_is_measured_in_processes_of_their_own(folder):
    assert jit_command(folder, "export-onnx", "program.py:Net", "-o", "timed.onnx").returncode == 0
    done = jit_command(folder, "bench", "timed.onnx", "--rounds", "1", "--memory", "--json")
    assert done.returncode == 0, done.stderr
    memory = json.loads(done.stdout)["memory"]
    assert [name.split()[0] for name in memory] == ["eager", "traced", "onnxruntime"]
    assert all(2**16 < n < 2**31 for n in memory.values())


def test_the_package_is_the_command(folder):
    command = [sys.executable, "-m", "jit", "--help"]
    done = subprocess.run(command, cwd=folder, capture_output=True, text=True, timeout=120)
    assert done.returncode == 0 and "Usage: jit" in done.stdout


def test_the_shell_can_complete_commands(folder):
    environment = {**os.environ, "_JIT_COMPLETE": "bash_complete", "COMP_WORDS": "jit ben", "COMP_CWORD": "1"}
    command = [sys.executable, "-m", "jit"]
    done = subprocess.run(command, cwd=folder, env=environment, capture_output=True, text=True, timeout=120)
    assert "bench" in done.stdout and "doctor" not in done.stdout


def test_what_takes_long_says_so_on_a_terminal(capsys, monkeypatch):
    monkeypatch.setattr(waits, "PATIENCE", 0.05)
    with waits.waiting("counting"):
        time.sleep(0.2)
    assert capsys.readouterr().err == ""  # no terminal
    monkeypatch.setattr(sys.stderr, "isatty", lambda: True)
    with waits.waiting("counting"):
        time.sleep(0.5)
    assert "counting" in capsys.readouterr().err
    with waits.waiting("counting"):
        pass
    assert capsys.readouterr().err == ""
