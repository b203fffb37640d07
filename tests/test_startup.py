"""What is not used is not loaded: `import jit` brings in numpy and ml_dtypes, the rest comes when first needed."""

import json
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parent.parent
LIBRARIES = {
    *("onnx", "onnx_ir", "onnxruntime", "llvmlite", "scipy", "networkx", "pygraphviz", "graphviz_anywidget"),
    *("click", "rich", "safetensors", "sympy", "sklearn", "cuda", "IPython"),
}


def loaded_after(statement: str) -> set[str]:
    """The libraries that a fresh interpreter holds after one statement."""
    program = f"{statement}\nimport json, sys\nprint(json.dumps(list(sys.modules)))"
    done = subprocess.run([sys.executable, "-c", program], cwd=ROOT, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    return {name.split(".")[0] for name in json.loads(done.stdout.splitlines()[-1])} & LIBRARIES


def test_import_jit_loads_no_heavy_library():
    assert loaded_after("import jit") == set()


def test_the_command_line_loads_click_alone():
    assert loaded_after("import jit.command.cli") <= {"click"}


@pytest.mark.parametrize("package", ["jit.ir", "jit.passes", "jit.runtime", "jit.export"])
def test_a_layer_loads_no_heavy_library(package):
    assert loaded_after(f"import {package}") == set()


def test_a_loaded_library_is_noticed():
    assert "networkx" in loaded_after("import networkx")
