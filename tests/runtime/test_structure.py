"""How the runtime is built: files import each other one way, and nobody asks which kind of work a step is."""

import ast
from collections.abc import Iterable
from typing import Any

import networkx
import pytest

from jit.ir import Graph, parse
from jit.runtime.arrays.interpreter import Interpreter
from jit.runtime.arrays.programs import Engine
from jit.runtime.kernels.nest_work import NestWork
from jit.runtime.kernels.work import Work
from jit.runtime.plans.plan import PlannedEngine
from jit.runtime.plans.restored import RestoredEngine
from jit.runtime.products import (
    blas,
    by_lines,
    conv,
    conv_folded,
    conv_weight,
    depthwise,
    few_rows,
    finished,
    matvec,
    packed,
    pooling,
    row_sums,
    tiled,
    transposing,
)
from tests.test_layering import PACKAGE, Import, imports_of, python_files

KINDS = (
    NestWork, blas.BlasProduct, matvec.MatrixVector, by_lines.ProductByLines, packed.PackedProduct,
    few_rows.FewRowsProduct, conv.ConvolutionWork, conv_folded.FoldedConvolution, depthwise.DepthwiseRows,
    finished.Finished,
    conv_weight.WeightGradient, pooling.MaxPoolWork, pooling.MeanPoolWork, pooling.MaxUnpoolWork,
    row_sums.RowSums, tiled.Tiled, transposing.Transposing,
)  # fmt: skip
"""Every kind of work."""
ENGINES = (Interpreter, PlannedEngine, RestoredEngine)
UNASKED = {kind.__name__ for kind in (*KINDS, *ENGINES)} | {"Nest", "Split"}
"""Classes that no file of the runtime asks for: neither kinds of work nor engines."""


def circles(imports: Iterable[Import]) -> list[set[str]]:
    """Files of the runtime that import each other in a loop, in functions and for type checkers included."""
    graph = networkx.DiGraph()
    graph.add_edges_from((i.module, i.target) for i in imports if i.target.startswith("jit.runtime."))
    return [found for found in networkx.strongly_connected_components(graph) if len(found) > 1]


def asked_for(source: str) -> list[str]:
    """The names of the classes that `isinstance` is asked about."""
    calls = [node for node in ast.walk(ast.parse(source)) if isinstance(node, ast.Call)]
    asked = [c.args[1] for c in calls if getattr(c.func, "id", None) == "isinstance"]
    names = [node for kinds in asked for node in ast.walk(kinds) if isinstance(node, ast.Name | ast.Attribute)]
    return [node.attr if isinstance(node, ast.Attribute) else node.id for node in names]


def test_files_import_each_other_one_way():
    assert circles(found for path in python_files(PACKAGE / "runtime") for found in imports_of(path)) == []


def test_a_circle_is_seen():
    a, b = "jit.runtime.a", "jit.runtime.b"
    assert circles([Import(a, b, 1, True), Import(b, a, 1, False)]) == [{a, b}]


def test_nobody_asks_which_kind_of_work_or_engine_it_is():
    files = python_files(PACKAGE / "runtime")
    assert {(path.name, name) for path in files for name in asked_for(path.read_text()) if name in UNASKED} == set()


@pytest.mark.parametrize("question", ["isinstance(work, Tiled)", "isinstance(step.work, (blas.BlasProduct, int))",
                                      "isinstance(work, MaxPoolWork | MeanPoolWork)"])  # fmt: skip
def test_a_question_is_seen(question):
    assert set(asked_for(question)) & UNASKED


def members(protocol: Any) -> set[str]:
    return {name for name in vars(protocol) if not name.startswith("_")} | set(protocol.__annotations__)


@pytest.mark.parametrize("kind", KINDS, ids=[f"{kind.__module__.split('.')[-1]}.{kind.__name__}" for kind in KINDS])
def test_every_kind_of_work_says_what_it_is(kind):
    assert Work in kind.__mro__ and kind.__name__ in UNASKED
    unanswered = {"panels", "effort", "function", "geometry"} - set(vars(kind))
    assert not unanswered and members(Work) <= set(dir(kind))


def subclasses(kind: Any) -> set[Any]:
    direct = set(kind.__subclasses__())
    return direct.union(*map(subclasses, direct))


def test_the_list_of_kinds_is_whole():
    assert {kind for kind in subclasses(Work) if kind.__name__ not in ("Tileable", "Finishable")} == set(KINDS)


@pytest.mark.parametrize("engine", ENGINES, ids=[engine.__name__ for engine in ENGINES])
def test_every_engine_answers_and_none_is_the_reference(engine):
    assert members(Engine) - {"programs", "count", "graph", "natives"} <= set(dir(engine))
    assert engine is Interpreter or not issubclass(engine, Interpreter)


def test_what_an_interpreter_says_of_native_code():
    graph: Graph = parse("graph(%x : Float(4)) { %0 : Float(4) = aten::tanh(%x) return (%0) }")
    engine = Interpreter(graph)
    assert engine.native_call(0) is None and engine.local_plan is engine and [*engine.natives] == [()]
