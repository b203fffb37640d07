"""The rules of the house, read off the source: who imports whom, which library lives where, what no module is called.

A room is a folder of `jit/`, or a loose module there. Rooms stand on floors, and import what is below them. Imports in
functions and for type checkers count, too: who needs a name only for its type knows of it all the same.
"""

import ast
import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

import networkx
import pytest

ROOT = Path(__file__).resolve().parent.parent
PACKAGE = ROOT / "jit"

# From the ground up; rooms of one floor do not see each other.
FLOORS = (
    ("late", "_stubs"),
    ("ir",),
    ("ops", "backends", "futures"),
    ("passes",),
    ("runtime", "export"),
    ("eager",),
    (
        "autograd",
        "library",
        "signal",
        "fft",
        "linalg",
        "special",
        "amp",
        "cpu",
        "cuda",
        "types",
        "overrides",
        "fx",
        "random",
        "quasirandom",
        "sparse",
        "distributed",
    ),
    ("nn", "masked", "nested"),
    ("tracing", "optim"),
    ("artifacts", "native", "compiler", "onnx", "ao"),
    ("inspection", "files"),
    ("hub", "serialization", "distributions"),
    ("utils",),
    ("func",),
    ("jit",),  # the package itself, `from jit import tensor`
    ("command", "as_torch"),
    ("__main__",),
)
FLOOR = {room: number for number, rooms in enumerate(FLOORS) for room in rooms}

# Who never imports whom, and why: nor through a function, nor for types.
NEVER = {
    ("ir", "ops"): "the IR knows no operator",
    ("passes", "runtime"): "a pass does not know what runs its graph",
    ("export", "runtime"): "they are two ends of one graph",
    ("runtime", "export"): "they are two ends of one graph",
    ("runtime", "ops"): "it reads facets, not families",
    ("runtime", "eager"): "it sees buffers, Handles and callables, never a Tensor",
    ("eager", "tracing"): "eager code does not know who records it",
    ("autograd", "tracing"): "nor does autograd",
    ("tracing", "nn"): "the tracer knows no Module; it asks what an object says of itself",
    ("tracing", "artifacts"): "a traced function does not know how it is saved",
    ("tracing", "inspection"): "nor how it is looked at",
}

# The folders in which files import each other in a loop, if late and type-only imports count: docs/design-notes.md,
# "Layers and packaging", says why. All others have none.
WITH_CIRCLES = {"jit.ir", "jit.export", "jit.eager", "jit.nn", "jit.tracing.recordings"}

LINKS = ("ir", "passes", "export", "runtime")

# Library -> the rooms or modules that may import it. What is not listed may not be imported at all.
EVERYWHERE = tuple(FLOOR)
MAY_USE = {
    "numpy": EVERYWHERE,
    "ml_dtypes": EVERYWHERE,
    "llvmlite": ("runtime",),
    "scipy": ("runtime",),
    "cuda": ("runtime",),
    "cupy": ("runtime",),
    "cupy_backends": ("runtime",),
    "cupyx": ("runtime",),
    "cudnn": ("runtime",),
    "onnx": ("export", "onnx"),
    "onnx_ir": ("export",),
    "onnxruntime": ("export",),
    "google": ("onnx",),
    "networkx": ("jit.ir.drawing",),
    "pygraphviz": ("jit.ir.drawing",),
    "graphviz_anywidget": ("jit.ir.drawing",),
    "click": ("command",),
    "rich": ("command", "inspection"),
    "safetensors": ("artifacts",),
    "mpi4py": ("runtime",),
}
# The rest is imported inside the function that first needs it, so that `import jit` stays quick ...
LIGHT = {"numpy", "ml_dtypes"}
# ... but the command line's decorators need click, and nothing else imports that module.
COMMAND_LINE = ("jit.command.cli",)

# Public functions of the contract: `import jit.trace` would replace the function jit.trace by the module.
PUBLIC_FUNCTIONS = {
    *("trace", "tensor", "asarray", "from_numpy", "from_dlpack", "manual_seed", "no_grad", "enable_grad"),
    *("grad", "gradcheck", "gradgradcheck", "checkpoint", "detect_anomaly", "symbolic_override"),
    *("save", "load", "verify", "coverage", "export_onnx", "import_onnx"),
}


class Import(NamedTuple):
    """One module that a source file imports."""

    module: str
    """Full name of the file that imports."""
    target: str
    """Full name of what it imports."""
    line: int
    at_top: bool
    """Whether loading the file runs this import."""

    def __str__(self) -> str:
        return f"{self.module.replace('.', '/')}, line {self.line}: imports {self.target}"


def module_name(path: Path) -> str:
    """`jit/ir/graph.py` is jit.ir.graph, `jit/ir/__init__.py` is jit.ir."""
    parts = path.relative_to(ROOT).with_suffix("").parts
    return ".".join(parts[:-1] if parts[-1] == "__init__" else parts)


def is_module(name: str) -> bool:
    path = ROOT.joinpath(*name.split("."))
    return path.is_dir() or path.with_suffix(".py").is_file()


def from_targets(node: ast.ImportFrom, package: str) -> Iterator[str]:
    """`from jit import ir` imports jit.ir, but `from jit import tensor` imports jit."""
    base = node.module or ""
    if node.level:
        parents = package.split(".")[: len(package.split(".")) - node.level + 1]
        base = ".".join([*parents, base] if base else parents)
    for alias in node.names:
        inner = f"{base}.{alias.name}"
        yield inner if is_module(inner) else base


def dynamic_target(node: ast.Call) -> str | None:
    """The module of `import_module("x")` and `__import__("x")`, where it is written out."""
    called = node.func.attr if isinstance(node.func, ast.Attribute) else getattr(node.func, "id", None)
    if called in ("import_module", "__import__") and node.args and isinstance(node.args[0], ast.Constant):
        return str(node.args[0].value)
    return None


def late_targets(node: ast.Call, package: str) -> list[str]:
    """The modules in which a package finds names when they are asked for: `late(__name__, {"a.b": "c d"}, ("e",))`."""
    if getattr(node.func, "id", "").lstrip("_") != "late" or len(node.args) < 2:
        return []
    _, places, *modules = [found for found in node.args if not isinstance(found, ast.Call)]
    names = [*ast.literal_eval(places), *(name for tuples in modules for name in ast.literal_eval(tuples))]
    return [f"{package}.{name}" for name in names]


def runs_later(node: ast.AST) -> bool:
    """Whether loading a file skips what is inside this node: a function, or a block for type checkers."""
    if isinstance(node, ast.If):
        return ast.unparse(node.test) in ("TYPE_CHECKING", "typing.TYPE_CHECKING")
    return isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.Lambda)


def targets_of(node: ast.AST, package: str) -> list[str]:
    """What one node of the syntax tree imports."""
    if isinstance(node, ast.Import):
        return [alias.name for alias in node.names]
    if isinstance(node, ast.ImportFrom):
        return list(from_targets(node, package))
    if not isinstance(node, ast.Call):
        return []
    target = dynamic_target(node)
    return [target] if target else late_targets(node, package)


def imports_in(source: str, module: str, package: str) -> list[Import]:
    """Every import of a source text, those in functions and for type checkers included."""
    found: list[Import] = []
    pending: list[tuple[ast.AST, bool]] = [(ast.parse(source), True)]
    while pending:
        node, at_top = pending.pop()
        found += [Import(module, target, getattr(node, "lineno", 0), at_top) for target in targets_of(node, package)]
        inside = at_top and not runs_later(node)
        pending += [(child, inside) for child in ast.iter_child_nodes(node)]
    return found


def python_files(folder: Path) -> list[Path]:
    """The sources below a folder, links not followed."""
    return [
        Path(where, name)
        for where, _, names in os.walk(folder, followlinks=False)
        for name in sorted(names)
        if name.endswith(".py")
    ]


def imports_of(path: Path) -> list[Import]:
    name = module_name(path)
    package = name if path.name == "__init__.py" else name.rpartition(".")[0]
    return imports_in(path.read_text(), name, package)


def room_of(module: str) -> str:
    """`jit.ir.graph` is in ir, `jit.native` is a room of its own, `jit` is one, too."""
    parts = module.split(".")
    return parts[1] if len(parts) > 1 else parts[0]


def library_of(target: str) -> str:
    return target.split(".")[0]


def is_third_party(target: str) -> bool:
    return library_of(target) != "jit" and library_of(target) not in sys.stdlib_module_names


def breaks_direction(found: Import) -> bool:
    """Whether an import leads up, or across a floor."""
    here, there = room_of(found.module), room_of(found.target)
    return library_of(found.target) == "jit" and here != there and FLOOR[there] >= FLOOR[here]


def is_never_right(found: Import) -> bool:
    return library_of(found.target) == "jit" and (room_of(found.module), room_of(found.target)) in NEVER


def is_out_of_place(found: Import) -> bool:
    places = MAY_USE.get(library_of(found.target), ())
    return is_third_party(found.target) and not {room_of(found.module), found.module} & set(places)


def loads_too_early(found: Import) -> bool:
    if library_of(found.target) == "click" and found.module.startswith(COMMAND_LINE):
        return False
    return found.at_top and is_third_party(found.target) and library_of(found.target) not in LIGHT


@pytest.fixture(scope="module")
def imports() -> list[Import]:
    """Every import statement of the package."""
    return [found for path in python_files(PACKAGE) for found in imports_of(path)]


def listed(offences: list[Import]) -> str:
    return "\n".join(map(str, offences))


def test_every_room_has_a_floor(imports):
    assert {room_of(found.module) for found in imports} <= set(FLOOR)
    assert {path.stem for path in PACKAGE.iterdir() if path.suffix == ".py" or path.is_dir()} - {"__pycache__"} <= {
        *FLOOR, "__init__", "py",
    }  # fmt: skip


def test_imports_point_one_way(imports):
    offences = [found for found in imports if breaks_direction(found)]
    assert not offences, f"these lead up (see FLOORS):\n{listed(offences)}"


def test_what_must_never_be_imported_is_not(imports):
    offences = [found for found in imports if is_never_right(found)]
    assert not offences, f"these are never right (see NEVER):\n{listed(offences)}"


def circles(imports: list[Import]) -> list[set[str]]:
    """Files that import each other in a loop."""
    graph = networkx.DiGraph()
    graph.add_edges_from((found.module, found.target) for found in imports if library_of(found.target) == "jit")
    return [found for found in networkx.strongly_connected_components(graph) if len(found) > 1]


def circles_across_rooms(imports: list[Import]) -> list[set[str]]:
    """Those loops that lead through several rooms."""
    return [found for found in circles(imports) if len({room_of(module) for module in found}) > 1]


def test_no_circle_crosses_rooms(imports):
    assert not circles_across_rooms(imports)


def folders_with_circles(imports: list[Import]) -> set[str]:
    """The folders of the files that import each other in a loop."""
    return {module.rpartition(".")[0] for found in circles(imports) for module in found}


def test_circles_are_where_they_are_explained(imports):
    assert folders_with_circles(imports) == WITH_CIRCLES


def test_no_file_is_loaded_before_it_is_whole(imports):
    assert not circles([found for found in imports if found.at_top])


def test_each_library_stays_in_its_rooms(imports):
    offences = [found for found in imports if is_out_of_place(found)]
    assert not offences, f"a library is used outside its room, or is not listed in MAY_USE:\n{listed(offences)}"


def test_heavy_libraries_wait_until_they_are_needed(imports):
    offences = [found for found in imports if loads_too_early(found)]
    assert not offences, f"move these imports into the functions that need them:\n{listed(offences)}"


def test_nothing_imports_through_the_links():
    folders = [PACKAGE, *(ROOT / name for name in ("tests", "examples", "benchmarks", "docs"))]
    found = [each for folder in folders for path in python_files(folder) for each in imports_of(path)]
    offences = [each for each in found if library_of(each.target) in LINKS]
    assert not offences, f"write `jit.` before these:\n{listed(offences)}"


@pytest.mark.parametrize("name", LINKS)
def test_the_links_are_relative_and_point_into_the_package(name):
    assert os.readlink(ROOT / name) == f"jit/{name}"
    assert (ROOT / name).resolve() == PACKAGE / name
    assert (ROOT / name / "__init__.py").is_file()


def test_no_module_has_the_name_of_a_function_of_the_contract():
    found = {path.relative_to(PACKAGE).as_posix() for path in PACKAGE.rglob("*.py") if path.stem in PUBLIC_FUNCTIONS}
    assert found == {"nn/grad.py"}  # PyTorch has this module, and no function of the name beside it


# Run in a fresh process, where no other test's import has put a module over a function yet.
LIST_SHADOWS = """
import importlib, pkgutil, types
import jit
packages = ["jit"] + [found.name for found in pkgutil.walk_packages(jit.__path__, "jit.") if found.ispkg]
for name in packages:
    package = importlib.import_module(name)
    for found in pkgutil.iter_modules(package.__path__):
        held = getattr(package, found.name, None)
        if held is not None and not isinstance(held, types.ModuleType):
            print(f"{name}.{found.name}")
"""


def test_no_module_shadows_a_public_name():
    done = subprocess.run([sys.executable, "-c", LIST_SHADOWS], cwd=ROOT, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    assert not done.stdout, f"each is a module and something else of the same name:\n{done.stdout}"


@pytest.mark.parametrize(
    ("source", "rule"),
    [
        ("import jit.runtime.plans.plan", breaks_direction),
        ("from jit import tensor", breaks_direction),
        ("from .. import runtime", breaks_direction),
        ("from ..export import onnx_file", breaks_direction),
        ("if TYPE_CHECKING:\n    from jit.runtime.plans import Plan", is_never_right),
        ("def f():\n    from ..export import onnx_file", breaks_direction),
        ("import importlib\nimportlib.import_module('jit.export')", breaks_direction),
        ("if TYPE_CHECKING:\n    import llvmlite.ir", is_out_of_place),
        ("def f():\n    from scipy.special import erf", is_out_of_place),
        ("import pandas", is_out_of_place),
        ("try:\n    import networkx\nexcept ImportError: ...", loads_too_early),
    ],
)
def test_the_rules_see_an_offence(source, rule):
    """The rules judge a file jit/passes/example.py that holds the given text."""
    offences = [found for found in imports_in(source, "jit.passes.example", "jit.passes") if rule(found)]
    assert len(offences) == 1


def test_modules_in_which_names_are_found_later_are_seen():
    found = imports_in("__getattr__, __dir__ = late(__name__, {'a.b': 'c d'}, ('e',))", "jit.nn", "jit.nn")
    assert [each.target for each in found] == ["jit.nn.a.b", "jit.nn.e"]


@pytest.mark.parametrize(
    ("back", "expected"),
    [
        ("def f():\n    import jit.eager.tensors", [{"jit.ir.graph", "jit.eager.tensors"}]),
        ("if TYPE_CHECKING:\n    from jit.eager import tensors", [{"jit.ir.graph", "jit.eager.tensors"}]),
        ("def f():\n    import jit.ir.node", []),
        ("import jit.ops", []),
    ],
)
def test_circles_across_rooms_are_seen(back, expected):
    """Late and type-only imports close a circle, too; one within a room is another matter."""
    there = imports_in("import jit.ir.graph", "jit.eager.tensors", "jit.eager")
    beside = imports_in("from . import graph", "jit.ir.node", "jit.ir")
    assert circles_across_rooms([*there, *beside, *imports_in(back, "jit.ir.graph", "jit.ir")]) == expected


@pytest.mark.parametrize(
    ("back", "expected"),
    [
        ("if TYPE_CHECKING:\n    from .tracer import Trace", {"jit.tracing.recorder"}),
        ("def f():\n    from . import tracer", {"jit.tracing.recorder"}),
        ("from .memory import TraceMemory", set()),
    ],
)
def test_circles_within_a_folder_are_seen(back, expected):
    there = imports_in("from .writes import assign", "jit.tracing.recorder.tracer", "jit.tracing.recorder")
    here = imports_in(back, "jit.tracing.recorder.writes", "jit.tracing.recorder")
    assert folders_with_circles([*there, *here]) == expected


@pytest.mark.parametrize(
    "source",
    [
        "import numpy as np\nimport os.path",
        "from jit.ir import graph\nfrom ..ir.graph import Graph\nfrom . import dce",
        "def f():\n    import jit.ir.graph",
    ],
)
def test_the_rules_let_pass_what_is_right(source):
    found = imports_in(source, "jit.passes.example", "jit.passes")
    assert found
    assert not [each for each in found if breaks_direction(each) or is_out_of_place(each) or loads_too_early(each)]
