"""What is not used is not loaded: `import jit` brings in numpy, ml_dtypes and what every program needs, no more."""

import json
import subprocess
import sys
from pathlib import Path

import pytest

from jit.command.stubs import LATE

ROOT = Path(__file__).resolve().parent.parent
LIBRARIES = {
    *("onnx", "onnx_ir", "onnxruntime", "llvmlite", "scipy", "networkx", "pygraphviz", "graphviz_anywidget"),
    *("click", "rich", "safetensors", "sympy", "sklearn", "cuda", "IPython"),
}
BUDGETS = {"import jit": 88, "import jit.command.cli": 92}
"""The most modules of this package that statements may load; without bytecode, each takes a millisecond or two."""


def run(program: str) -> str:
    """What a fresh interpreter prints."""
    done = subprocess.run([sys.executable, "-c", program], cwd=ROOT, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    return done.stdout


def modules_after(statement: str) -> set[str]:
    """All modules that a fresh interpreter holds after one statement."""
    return set(json.loads(run(f"{statement}\nimport json, sys\nprint(json.dumps(list(sys.modules)))").splitlines()[-1]))


def loaded_after(statement: str) -> set[str]:
    """The libraries that a fresh interpreter holds after one statement."""
    return {name.split(".")[0] for name in modules_after(statement)} & LIBRARIES


def families_after(statement: str) -> set[str]:
    """The files of declarations that a fresh interpreter has read after one statement."""
    from jit.ops import FAMILIES

    return {name.removeprefix("jit.ops.") for name in modules_after(statement)} & set(FAMILIES)


# -- libraries -----------------------------------------------------------------------------------------------------


def test_import_jit_loads_no_heavy_library():
    assert loaded_after("import jit") == set()


def test_the_command_line_loads_click_alone():
    assert loaded_after("import jit.command.cli") <= {"click"}


@pytest.mark.parametrize("package", ["jit.ir", "jit.passes", "jit.runtime", "jit.export"])
def test_a_layer_loads_no_heavy_library(package):
    assert loaded_after(f"import {package}") == set()


def test_a_loaded_library_is_noticed():
    assert "networkx" in loaded_after("import networkx")


# -- rooms and declarations ----------------------------------------------------------------------------------------


@pytest.mark.parametrize("statement", BUDGETS)
def test_few_modules_are_loaded(statement):
    found = {name for name in modules_after(statement) if name.startswith("jit")}
    assert len(found) <= BUDGETS[statement], sorted(found)
    late = ("nn", "optim", "amp", "tracing", "inspection", "artifacts", "export", "passes", "linalg", "signal")
    assert not [name for name in found if name.startswith(tuple(f"jit.{room}." for room in late))]


def test_declarations_are_read_when_an_operator_is_used():
    assert families_after("import jit; jit.Tensor, jit.tensor, dir(jit), dir(jit.Tensor)") == set()
    assert families_after("import jit; jit.tensor(1.0) * 2") == {"pointwise"}
    assert families_after("import jit; jit.relu") == {"activations", "backwards"}


def test_all_declarations_are_read_to_go_through_them():
    from jit.ops import FAMILIES

    assert families_after("import jit; list(jit.ir.REGISTRY)") == set(FAMILIES)


# -- names ---------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("package", LATE)
def test_names_are_those_of_their_modules(package):
    run(f"""
from importlib import import_module
import {package} as package
from jit.late import TABLES
names, modules = TABLES["{package}"]
for place, together in names.items():
    for name in together.split():
        assert getattr(package, name) is getattr(import_module(f"{package}.{{place}}"), name)
for module in modules:
    assert getattr(package, module) is import_module(f"{package}.{{module}}")
assert {{*" ".join(names.values()).split(), *modules}} <= set(dir(package))
assert all(hasattr(package, name) for name in package.__all__)
""")


def test_all_packages_have_stubs():
    run("""
import pkgutil
from importlib import import_module
import jit
for found in pkgutil.walk_packages(jit.__path__, "jit."):
    if found.ispkg:
        import_module(found.name)
from jit.command.stubs import LATE
from jit.late import TABLES
assert set(LATE) == set(TABLES)
""")


def test_everything_that_is_listed_is_found():
    run("""
import jit
for owner in (jit, jit.Tensor, jit.fft, jit.linalg, jit.special, jit.nn.functional, jit.autograd):
    for name in dir(owner):
        getattr(owner, name)
from jit import *
assert trace is jit.trace and nn is jit.nn
from jit.linalg import *
assert norm is jit.linalg.norm is jit.linalg.linalg_norm
""")


def test_modules_are_attributes_of_their_packages():
    run("""
import jit
assert jit.nn.modules.Module is jit.nn.Module and jit.optim.adam.Adam is jit.optim.Adam and jit.eager.tensors.Tensor
assert jit.nn.utils.fusion.fuse_conv_bn_eval is jit.nn.utils.fuse_conv_bn_eval and jit.export.exporter
""")


def test_what_there_is_not():
    run("""
import jit
for owner in (jit, jit.Tensor, jit.fft, jit.nn.functional, jit.ir, jit.autograd):
    assert not hasattr(owner, "tahn") and not hasattr(owner, "__tahn__")
try:
    jit.tahn
except AttributeError as error:
    assert str(error) == "module 'jit' has no attribute 'tahn'; did you mean 'tan'?", error
""")


def test_methods_are_functions_like_all_others():
    run("""
import inspect, pickle, jit
class Mine(jit.Tensor):
    def sum(self, *args, **kwargs):
        return super().sum(*args, **kwargs) + 1
assert jit.Tensor.sum is jit.sum is jit.Variable.sum and jit.Tensor.add is jit.add and jit.subtract is jit.sub
assert "Tensor" in jit.Tensor.sum.__doc__ and list(inspect.signature(jit.Tensor.prod).parameters) == ["args", "kwargs"]
assert jit.Tensor.__mul__ is jit.Tensor.__dict__["__mul__"] and inspect.isfunction(vars(jit.Tensor)["__mul__"])
assert hasattr(Mine, "cumsum") and hasattr(jit.ones(1), "cumsum_") and not hasattr(Mine, "linspace")
assert pickle.loads(pickle.dumps(jit.softmax)) is jit.softmax
assert Mine(jit.ones(2)).sum().item() == 3
""")


# -- in adverse circumstances --------------------------------------------------------------------------------------


def test_threads_ask_at_once():
    pickled = subprocess.run(
        [sys.executable, "-c", "import jit, pickle; print(pickle.dumps(jit.nn.Sequential(jit.nn.Conv2d(1, 1, 1))))"],
        cwd=ROOT, capture_output=True, text=True, check=True,
    ).stdout  # fmt: skip
    run(
        f"pickled = {pickled}"
        + """
import importlib, pickle, sys, threading
sys.setswitchinterval(1e-6)
import jit
def use(number):
    gate.wait()
    for turn in range(len(uses)):
        uses[(turn + number) % len(uses)]()
uses = [
    lambda: jit.trace(lambda x: x.exp() + 1)(jit.ones(2)), lambda: jit.nn.Linear(2, 1)(jit.ones(1, 2)).sum().backward(),
    lambda: jit.linalg.norm(jit.ones(2)), lambda: jit.load, lambda: jit.optim.SGD, lambda: jit.coverage,
    lambda: (jit.ones(3) * 2).cumsum(0), lambda: jit.fft.fft(jit.ones(4)), lambda: jit.verify,
    lambda: list(jit.ir.REGISTRY), lambda: importlib.import_module("jit.nn.lazy"), lambda: pickle.loads(pickled),
    lambda: importlib.import_module("jit.optim.lr_scheduler.cycles"), lambda: importlib.import_module("jit.amp.cuda"),
    lambda: importlib.import_module("jit.nn.utils.vectors"), lambda: importlib.import_module("jit.export.exporter"),
    lambda: importlib.import_module("jit.inspection.covering"), lambda: importlib.import_module("jit.cuda.amp"),
]
failed, gate = [], threading.Barrier(len(uses))
threading.excepthook = failed.append
threads = [threading.Thread(target=use, args=(number,)) for number in range(len(uses))]
for each in threads: each.start()
for each in threads: each.join()
assert not failed, failed
"""
    )


def test_no_thread_sees_an_operator_whose_facets_are_not_all_read():
    run("""
import threading, jit
from jit.ir import op
plain, reached, seen = op.parse_schema, threading.Event(), threading.Event()
def slow(text):
    if text.startswith("aten::div.Tensor_mode"):
        reached.set()
        seen.wait(0.5)  # the first overload of `div` and the derivative of `add` have been declared by now
    return plain(text)
op.parse_schema = slow
def use():
    found.append(len(jit.ir.OVERLOADS["div"]))
    seen.set()
found = []
threads = [threading.Thread(target=lambda: jit.ones(2) * 2), threading.Thread(target=lambda: (reached.wait(), use()))]
for each in threads: each.start()
for each in threads: each.join()
assert reached.is_set() and found == [2], found
""")


def test_a_file_that_was_read_in_part_is_read_anew():
    run("""
import sys, jit
from jit.ir import op
plain, calls = op.parse_schema, []
def interrupted(text):
    if text.startswith("aten::div.Tensor_mode") and not calls:
        calls.append(text)
        raise KeyboardInterrupt
    return plain(text)
op.parse_schema = interrupted
try:
    jit.ones(2) * 2
except KeyboardInterrupt:
    pass
else:
    raise AssertionError
assert (jit.ones(2) * 2).tolist() == [2, 2] and len(jit.ir.OVERLOADS["div"]) == 2
""")


def test_a_recorded_function_may_ask_first():
    run("""
import jit
@jit.trace
def f(x):
    return jit.linalg.norm(x.cumsum(0)) + jit.finfo(jit.float32).bits + jit.nn.functional.relu(x).sum()
x = jit.ones(2)
assert abs(f(x).item() - (5**0.5 + 34)) < 1e-5 and abs(f(x).item() - (5**0.5 + 34)) < 1e-5
assert (f.misses, f.hits) == (1, 1), f.explain()
""")


def test_a_recorded_function_sees_what_replaces_a_name_that_it_asked_for_first():
    run("""
import jit
@jit.trace
def f(x):
    return jit.linalg.norm(x) + jit.nn.functional.relu(x).sum() + jit.tanh(x).sum()
x = jit.ones(2)
right, kept = f(x).item(), f(x).item()
assert right == kept and (f.misses, f.hits) == (1, 1), f.explain()
for owner, name in (jit.linalg, "norm"), (jit.nn.functional, "relu"), (jit, "tanh"), (jit.Tensor, "sum"):
    plain = getattr(owner, name)
    setattr(owner, name, lambda x: plain(x) * 0)
    assert f(x).item() < right, name
    setattr(owner, name, plain)
    assert f(x).item() == right
""")


def test_an_operator_that_the_index_lacks_is_found():
    run("""
import jit
from jit.ir.op import composite
@composite("aten::thrice(Tensor self) -> Tensor", inplace=True)
def thrice(F, self):
    return F.mul(self, 3)
assert jit.thrice(jit.ones(1)).item() == 3 and jit.thrice in jit.eager.functions.public("jit").values()
""")
