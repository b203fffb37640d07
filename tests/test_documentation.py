"""The documentation site: it builds without a warning, its generated pages are whole, its programs run."""

import importlib.util
import re
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parent.parent
DOCS = ROOT / "docs"


def site_pages():
    spec = importlib.util.spec_from_file_location("site_pages", DOCS / "site_pages.py")
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_the_site_builds_without_a_warning(tmp_path):
    pytest.importorskip("sphinx")
    pytest.importorskip("myst_nb")
    options = ["-W", "--keep-going", "-q", "-b", "html", "-D", "nb_execution_mode=off"]  # test_examples runs them
    folders = ["-d", str(tmp_path / "trees"), str(DOCS), str(tmp_path / "site")]
    command = [sys.executable, "-m", "sphinx", *options, *folders]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=300)
    assert done.returncode == 0, done.stdout + done.stderr
    pages = {path.relative_to(tmp_path / "site").as_posix() for path in (tmp_path / "site").rglob("*.html")}
    assert {"index.html", "seeing.html", "_made/tour.html", "_made/reference.html", "_made/differences.html"} <= pages
    picture = re.search(r'src="(_images/view\.png)"', (tmp_path / "site" / "index.html").read_text())
    assert picture and (tmp_path / "site" / picture[1]).exists()


def test_every_page_is_in_the_contents():
    contents = (DOCS / "index.md").read_text()
    for page in DOCS.glob("*.md"):
        assert page.stem == "index" or re.search(rf"^{re.escape(page.stem)}$", contents, re.MULTILINE), page.name


def test_the_table_of_differences_has_every_point_of_the_notes():
    table = site_pages().differences()
    notes = (DOCS / "design-notes.md").read_text()
    rows = [line for line in table.splitlines() if line.startswith("| ") and "---" not in line][1:]
    for title in site_pages().DIFFERENCES.values():
        section = notes.partition(f"\n## {title}\n")[2].partition("\n## ")[0]
        assert section, title
        for lead in re.findall(r"^\* \*\*(.*?)\*\*", section, re.MULTILINE):
            assert f"| {lead} |".replace("\n", " ") in table
    assert len(rows) > 40


def test_the_reference_has_operators_layers_and_optimizers():
    pages = site_pages()
    found = {namespace: dict(pages.members(namespace)) for namespace in ("jit", "jit.Tensor", "jit.nn", "jit.optim")}
    names = {namespace: {call.partition("(")[0] for call in calls} for namespace, calls in found.items()}
    assert {"softmax", "trace", "export_onnx"} <= names["jit"] and {"softmax", "backward"} <= names["jit.Tensor"]
    assert {"Linear", "Module"} <= names["jit.nn"] and "Adam" in names["jit.optim"]
    assert all(sentence for call, sentence in found["jit.optim"].items())


@pytest.mark.parametrize("page", ["ir-text.md", "serving.md", "tasks.md"])
def test_a_program_of_a_page_prints_what_the_page_says(page, tmp_path):
    from tests.test_readme import PROGRAM, check_program

    programs = PROGRAM.findall((DOCS / page).read_text())
    assert programs
    for program, expected in programs:
        assert expected
        check_program(DOCS / page, program, expected, tmp_path)


def test_the_page_on_the_command_line_names_every_command():
    from jit.command.cli import cli

    page = (DOCS / "command-line.md").read_text()
    assert all(f"`jit {name}" in page for name in cli.commands)


def test_the_configuration_for_a_server_is_that_of_the_model_beside_it(tmp_path):
    import onnx

    from tests.test_readme import PROGRAM, check_program

    page = (DOCS / "serving.md").read_text()
    program, expected = PROGRAM.findall(page)[0]
    check_program(DOCS / "serving.md", program, expected, tmp_path)
    configuration = re.findall(r"^```text\n(name:.*?)^```", page, re.MULTILINE | re.DOTALL)[0]
    name = re.findall(r'^name: "(\w+)"', configuration)[0]
    (version,) = (tmp_path / "models" / name).iterdir()
    model = onnx.load(version / "model.onnx")
    assert version.name == "1" and int(re.findall(r"max_batch_size: (\d+)", configuration)[0]) > 0
    for kind, values in (("input", model.graph.input), ("output", model.graph.output)):
        line = rf'^{kind} \[ {{ name: "(\w+)", data_type: TYPE_(\w+), dims: \[ ([\d, ]+) \] }} \]$'
        said = [(n, t, [int(size) for size in dims.split(",")]) for n, t, dims in re.findall(line, configuration, re.M)]
        found = [(value.name, value.type.tensor_type) for value in values]
        assert said == [(n, _of_triton(t.elem_type), [dim.dim_value for dim in t.shape.dim[1:]]) for n, t in found]
        assert all(t.shape.dim[0].dim_param == "batch" for _, t in found)


def _of_triton(kind):
    """The name by which Triton calls an element type of ONNX."""
    import onnx

    return {onnx.TensorProto.FLOAT: "FP32", onnx.TensorProto.INT64: "INT64"}[kind]
