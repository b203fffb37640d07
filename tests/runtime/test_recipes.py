"""Recipes name machine code without LLVM text: whatever changes the text changes the name; doubt has no name."""

import dataclasses
import os
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import jit
from jit.ir import TensorType, parse
from jit.ir.op import OVERLOADS, REGISTRY, pointwise
from jit.runtime.kernels import codegen, recipes
from jit.runtime.kernels.fusion import group_nest
from jit.runtime.kernels.nest import Buffer, pointwise_nest
from jit.runtime.kernels.schedule import schedule
from jit.runtime.llvm.lower import lower
from jit.runtime.plans import stretch_code
from jit.runtime.targets.target import Target
from jit.tracing.recordings import recording

from .. import random_graphs

pytestmark = pytest.mark.llvm
HOST = Target.host()
GROUP = """graph(%x : Float(4, 8), %y : Float(4, 8)) {
  %1 : Float(4, 8) = aten::add[alpha=2](%x, %y)
  %2 : Float(4, 8) = aten::tanh(%1)
  return (%2)
}
"""


def nest_of(text, strides=(8, 1)):
    body = parse(text)
    types: list[Any] = [value.type for value in body.inputs]
    return group_nest(body, [Buffer(t.dtype, t.sizes, strides) for t in types])


def llvm_text(nest, target=HOST):
    function = lower(nest, schedule(nest), target)
    return repr((function.declarations, function.definition, function.numbers, function.lanes))


def named(nest, target=HOST):
    return recipes.name_of([recipes.of_nest(nest)], target)


@pytest.fixture(autouse=True)
def settled(monkeypatch):
    """The sources count as unchanged, even if they were written a moment ago."""
    monkeypatch.setattr(recipes, "sources", lambda: "these")


# -- what a recipe says ------------------------------------------------------------------------------------------


def test_equal_groups_have_one_recipe_whatever_their_values_are_called():
    renamed = GROUP.replace("%x", "%left").replace("%1 ", "%sum ").replace("(%1)", "(%sum)")
    assert recipes.of_nest(nest_of(GROUP)) == recipes.of_nest(nest_of(renamed)) is not None


@pytest.mark.parametrize(
    "old, new",
    [
        ("Float", "Double"),
        ("Float", "Half"),
        ("(4, 8)", "(4, 16)"),
        ("(4, 8)", "(8, 4)"),
        ("alpha=2", "alpha=3"),
        ("alpha=2", "alpha=2.0"),
        ("alpha=2", "alpha=True"),
        ("aten::tanh", "aten::sigmoid"),
        ("(%x, %y)", "(%y, %x)"),
        ("(%x, %y)", "(%x, %x)"),
        ("return (%2)", "return (%2, %1)"),
        ("return (%2)", "return (%1)"),
    ],
)
def test_each_ingredient_of_a_group_is_in_its_recipe(old, new):
    assert old in GROUP
    strides = (4, 1) if new == "(8, 4)" else (16, 1) if new == "(4, 16)" else (8, 1)
    assert recipes.of_nest(nest_of(GROUP)) != recipes.of_nest(nest_of(GROUP.replace(old, new), strides)) is not None


@pytest.mark.parametrize("strides", [(1, 4), (16, 1), (0, 1), (8, 0), (16, 2)])
def test_layouts_are_in_the_recipe(strides):
    assert recipes.of_nest(nest_of(GROUP)) != recipes.of_nest(nest_of(GROUP, strides)) is not None


def test_every_field_of_a_nest_but_its_name_and_comments_is_in_the_recipe():
    nest = nest_of(GROUP)
    same = dataclasses.replace(nest, name="other", comments=("model.py:1",))
    assert recipes.of_nest(same) == recipes.of_nest(nest)
    assert recipes.of_nest(dataclasses.replace(nest, cost=nest.cost + 1)) != recipes.of_nest(nest)
    step = dataclasses.replace(nest.steps[0], inner=False)
    assert recipes.of_nest(dataclasses.replace(nest, steps=(step,))) != recipes.of_nest(nest)


@pytest.mark.parametrize(
    "values",
    [
        (0.0, -0.0, 0, False),
        (1, 1.0, True, "1"),
        (float("nan"), -float("nan"), float("inf"), "nan"),
        (0.1, float(np.nextafter(0.1, 1)), np.float32(0.1).item()),
        ((1, 2), [1, 2], (12,), ("1, 2",)),
        (None, "None", {}, {"a": 1}, {"a": True}),
        (jit.float32, jit.float64, "float32"),
    ],
)
def test_constants_are_told_apart_exactly(values):
    assert len({recipes.exact(value) for value in values}) == len(values)


@pytest.mark.parametrize("value", [np.float32(1), np.zeros(3), 1j, object(), TensorType()])
def test_what_is_no_plain_constant_has_no_text(value):
    with pytest.raises(recipes.UnknownRecipe):
        recipes.exact(value)


def test_a_body_made_by_hand_has_no_recipe():
    x = np.zeros(4, np.float32)
    assert recipes.of_nest(pointwise_nest(lambda m, a: a + 1, [x], [x.copy()])) is None
    nest = nest_of(GROUP)
    other = dataclasses.replace(nest.steps[0], body=lambda m, *operands: operands[0])
    assert recipes.of_nest(dataclasses.replace(nest, steps=(other,))) is None


def test_operators_declared_elsewhere_have_no_recipe():
    @pointwise("mine::twice(Tensor self) -> Tensor", promote="common", onnx=None)
    def twice(m, self):
        return self + self

    try:
        assert recipes.of_nest(nest_of(GROUP.replace("aten::tanh", "mine::twice"))) is None
    finally:
        del REGISTRY["mine::twice"], OVERLOADS["twice"]


def test_an_operator_whose_body_was_replaced_has_no_recipe(monkeypatch):
    monkeypatch.setattr(REGISTRY["aten::tanh"], "body", lambda m, self: self)
    assert recipes.of_nest(nest_of(GROUP)) is None


def test_the_name_depends_on_target_versions_sources_and_order(monkeypatch):
    recipe = recipes.of_nest(nest_of(GROUP))
    variants = [
        HOST,
        Target(HOST.triple, HOST.cpu, HOST.features[1:], HOST.absent),
        Target(HOST.triple, HOST.cpu, HOST.features, (*HOST.absent, "sse9")),
        Target(HOST.triple, "generic", HOST.features, HOST.absent),
        Target("aarch64-linux-gnu", HOST.cpu, HOST.features, HOST.absent),
    ]
    names = {recipes.name_of([recipe], target) for target in variants}
    names |= {recipes.name_of(list(found), HOST) for found in ([recipe, recipe], [recipe, "x"], ["x", recipe])}
    for place, value in [
        (recipes, ("sources", lambda: "others")),
        (recipes, ("_versions", lambda: ("3.99", "9.9", "9.9"))),
        (sys.modules["jit.runtime.targets.target"], ("llvm_version", lambda: "99.0.0")),
        (sys.modules["llvmlite"], ("__version__", "99.0")),
    ]:
        with monkeypatch.context() as patch:
            patch.setattr(place, *value)
            names.add(recipes.name_of([recipe], HOST))
    assert None not in names
    assert len(names) == 12


def test_doubt_has_no_name(monkeypatch):
    assert recipes.name_of(["known", None], HOST) is None
    monkeypatch.setattr(recipes, "sources", lambda: None)
    assert recipes.name_of(["known"], HOST) is None


# -- sources -----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "file",
    [
        *("ops/activations.py", "ir/dtypes.py", "passes/support/spaces.py"),
        *("runtime/llvm/math.py", "runtime/plans/entry/checks.py"),
    ],
)
def test_every_byte_of_the_code_that_makes_llvm_text_counts(tmp_path, file):
    package = Path(jit.__file__).parent
    for folder in ("ir", "ops", "passes", "runtime", "tracing"):
        shutil.copytree(package / folder, tmp_path / folder, ignore=shutil.ignore_patterns("__pycache__"))
    before = recipes.contents(str(tmp_path))
    assert before == recipes.contents()
    path = tmp_path / file
    path.write_text(path.read_text().replace("import", "import ", 1))
    assert recipes.contents(str(tmp_path)) != before


def test_every_module_of_the_lowering_is_among_the_sources():
    package = Path(jit.__file__).parent
    listed = set(recipes._files())
    for name, module in list(sys.modules.items()):
        if name.startswith(("jit.ir.", "jit.ops.", "jit.passes.", "jit.runtime.", "jit.tracing.")) and module.__file__:
            assert module.__file__ in listed, name
    assert all(Path(path).is_relative_to(package) for path in listed)


def test_sources_that_changed_since_the_process_began_have_no_digest(monkeypatch):
    monkeypatch.undo()
    newest = max(os.stat(path).st_ctime_ns for path in recipes._files())
    monkeypatch.setattr(recipes, "BEGAN", newest + 2 * 10**9)
    assert recipes.sources.__wrapped__() == recipes.contents()
    monkeypatch.setattr(recipes, "BEGAN", newest - 1)
    assert recipes.sources.__wrapped__() is None


def test_declarations_that_changed_since_the_process_began_have_no_recipe(monkeypatch):
    """They are read when an operator is first used, maybe after `sources` has found them unchanged."""
    path = sys.modules[REGISTRY["aten::tanh"].module].__file__
    assert path is not None
    changed = max(os.stat(path).st_ctime_ns, os.stat(path).st_mtime_ns)
    for began, fits in ((changed + 2 * 10**9, True), (changed - 1, False)):
        monkeypatch.setattr(recipes, "BEGAN", began)
        recipes._is_as_it_was.cache_clear()
        assert recipes.is_ours("aten::tanh") is fits
    recipes._is_as_it_was.cache_clear()


# -- equal names, equal text -------------------------------------------------------------------------------------


def test_random_graphs_of_one_recipe_have_one_text(monkeypatch):
    texts: dict[str, str] = {}
    again = 0
    compiled = codegen.compile_nests

    def noted(nests, target=None):
        nonlocal again
        for nest in nests:
            recipe = recipes.of_nest(nest)
            if recipe is not None:
                again += recipe in texts
                assert texts.setdefault(recipe, llvm_text(nest)) == llvm_text(nest)
        return compiled(nests, target)

    monkeypatch.setattr(stretch_code, "compile_nests", noted)
    monkeypatch.setattr(recording, "name_of", lambda trace: None)  # every plan is made here
    for seed in range(25):
        for _ in range(2):
            program = jit.trace(random_graphs.program(seed))
            tensors = [jit.from_numpy(a) for a in random_graphs.inputs(seed)]
            with jit.no_grad():
                program(*tensors)
                program(*tensors)
    assert len(texts) > 50 and again > 50
    assert len(set(texts.values())) > 30


# -- in processes ------------------------------------------------------------------------------------------------

PROGRAM = """
import sys
import jit
from jit.runtime.kernels import code_store, codegen

@jit.trace
def f(x):
    return jit.softmax(x.tanh() * 2, -1), (x + 1).sum(0), x.lgamma(), x @ x.t()

x = jit.arange(1.0, 65.0).reshape(8, 8)
for _ in range(2):
    results = f(x)
writes = "jit.runtime.llvm.lower" in sys.modules
print(code_store.STORE.compilations, writes, "".join(r.numpy().tobytes().hex() for r in results), end=" ")
print(repr([(k.name, k.llvm_ir, k.asm) for k in f.kernels]))
"""


def outcome(folder):
    environment = {**os.environ, "JIT_CACHE": str(folder)}
    text = subprocess.check_output([sys.executable, "-c", PROGRAM], env=environment, text=True)
    count, writes, bits, texts = text.split(" ", 3)
    return int(count), writes == "True", bits, texts


def test_a_second_process_writes_no_llvm_text_but_can(tmp_path):
    """The text is written when somebody asks, and is that of the first process."""
    count, writes, *results = outcome(tmp_path)
    assert count > 0 and writes
    assert outcome(tmp_path) == (0, False, *results)


def test_records_whose_object_file_is_gone_are_no_use(tmp_path):
    count, _, *results = outcome(tmp_path)
    kept = [path for path in tmp_path.iterdir() if b"\x7fELF" in path.read_bytes() or path.stat().st_size > 4000]
    assert kept
    for path in kept:
        path.unlink()
    assert outcome(tmp_path) == (count, True, *results)
    assert outcome(tmp_path) == (0, False, *results)
