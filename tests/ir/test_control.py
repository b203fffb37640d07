"""Control flow in graphs: text, invariants, types, and the interpreter."""

from typing import Any

import numpy as np
import pytest

from jit.ir import Graph, parse, verify
from jit.ir.errors import GraphError
from jit.passes import CLEANUP, OPTIMIZE, run
from jit.passes.infer_types import infer_types
from jit.runtime.arrays.interpreter import Interpreter
from jit.runtime.plans.plan import PlannedEngine

CHOICE = """\
graph(%p : Bool(), %x : Float(2)) {
  %y : Float(2) = prim::If[then=@0, otherwise=@1](%p, %x)
  return (%y)
}
where @0 = graph(%p : Bool(), %x : Float(2)) {
  %0 : Float(2) = aten::mul(%x, 2)
  return (%0)
}
where @1 = graph(%p : Bool(), %x : Float(2)) {
  %0 : Float(2) = aten::sub(%x, 1)
  return (%0)
}"""
LOOP = """\
graph(%go : Bool(), %x : Float(2), %w : Float(2)) {
  %last : Bool(), %y : Float(2) = prim::Loop[step=@0](%go, %x, %w)
  return (%y)
}
where @0 = graph(%go : Bool(), %x : Float(2), %w : Float(2)) {
  %0 : Float(2) = aten::add(%x, %w)
  %1 : Float() = aten::sum(%0)
  %2 : Bool() = aten::lt(%1, 10)
  return (%2, %0)
}"""
SCAN = """\
graph(%c : Float(2), %xs : Float(3, 2), %w : Float(2)) {
  %last : Float(2), %ys : Float(3, 2) = prim::Scan[step=@0, carried=1, scanned=1, reverse=False](%c, %xs, %w)
  return (%last, %ys)
}
where @0 = graph(%c : Float(2), %x : Float(2), %w : Float(2)) {
  %0 : Float(2) = aten::add(%c, %x)
  %1 : Float(2) = aten::mul(%0, %w)
  return (%0, %1)
}"""


def results(graph: Graph, *inputs: Any) -> list[Any]:
    """What the interpreter and a plan give, which are the same."""
    arrays = [np.asarray(x, bool if isinstance(x, bool) else np.float32) for x in inputs]
    found = [engine.run(0, arrays)[0] for engine in (Interpreter(graph), PlannedEngine(graph))]
    for one, other in zip(*found, strict=True):
        np.testing.assert_array_equal(one, other)
    return [array.tolist() for array in found[0]]


@pytest.mark.parametrize("text", [CHOICE, LOOP, SCAN])
def test_text_is_read_back(text: str) -> None:
    graph = parse(text)
    verify(graph)
    assert str(graph) == text
    assert str(graph.clone()) == text


@pytest.mark.parametrize("passes", [(), CLEANUP, OPTIMIZE])
def test_what_they_compute(passes: list[str]) -> None:
    choice, loop, scan = map(parse, (CHOICE, LOOP, SCAN))
    for graph in (choice, loop, scan):
        run(graph, passes)
        verify(graph)
    assert results(choice, True, [1, 2]) == [[2, 4]]
    assert results(choice, False, [1, 2]) == [[0, 1]]
    assert results(loop, True, [1, 2], [2, 1]) == [[7, 5]]
    assert results(loop, False, [1, 2], [2, 1]) == [[1, 2]]
    assert results(scan, [0, 1], [[1, 2], [3, 4], [5, 6]], [1, 2]) == [[9, 13], [[1, 6], [4, 14], [9, 26]]]
    assert results(scan, [0, 1], np.zeros((0, 2)), [1, 2]) == [[0, 1], []]


def test_a_scan_goes_backwards() -> None:
    graph = parse(SCAN.replace("reverse=False", "reverse=True"))
    assert results(graph, [0, 1], [[1, 2], [3, 4], [5, 6]], [1, 2]) == [[9, 13], [[9, 26], [8, 22], [5, 14]]]


def test_results_have_memory_of_their_own() -> None:
    x = np.ones(2, np.float32)
    (y,), _, _ = Interpreter(parse(LOOP)).run(0, [np.array(False), x, x])
    assert not np.may_share_memory(x, y)


def test_only_the_branch_that_is_taken_runs() -> None:
    text = CHOICE.replace("aten::sub(%x, 1)", "aten::reshape[shape=[7]](%x)")
    engine = Interpreter(parse(text.replace("reshape[shape", "view[size")))
    assert engine.run(0, [np.array(True), np.ones(2, np.float32)])[0][0].tolist() == [2, 2]


@pytest.mark.parametrize(
    "text, problem",
    [
        (CHOICE.replace("then=@0, otherwise=@1", "then=@0, other=@1"), "has the sub-graphs then and otherwise"),
        (CHOICE.replace("%p : Bool()", "%p : Float()"), "its first operand is no bool"),
        (CHOICE.replace("@1 = graph(%p : Bool(), ", "@1 = graph("), "has 1 inputs"),
        (CHOICE.replace("return (%0)", "return (%0, %0)", 1), "gives 2 results"),
        (CHOICE.replace("%y : Float(2)", "%y : Float(3)"), "gives %0 as Float(2), which is Float(3) outside"),
        (LOOP.replace("%0 : Float(2) = aten::add(%x, %w)", "%0 : Float() = aten::sum(%x)"), "gives %0 as Float()"),
        (SCAN.replace("%x : Float(2), %w", "%x : Float(3, 2), %w"), "takes %x as Float(3, 2), which is Float(2)"),
        (SCAN.replace("carried=1, scanned=1", "carried=3, scanned=1"), "fewer operands than it says"),
    ],
)  # fmt: skip
def test_broken_graphs_are_refused(text: str, problem: str) -> None:
    with pytest.raises(GraphError, match=r"sub-graphs|types") as caught:
        verify(parse(text))
    assert problem in str(caught.value)


def test_types_are_inferred_inside_and_outside() -> None:
    for text in (CHOICE, LOOP, SCAN):
        bare = text
        for declared in ("%y : Float(2)", "%0 : Float(2)", "%1 : Float(2)", "%1 : Float()", "%ys : Float(3, 2)"):
            bare = bare.replace(declared, f"{declared.split(' :')[0]} : Tensor")
        graph = parse(bare)
        infer_types(graph)
        assert str(graph) == text


def test_what_nobody_uses_goes() -> None:
    graph = parse(CHOICE.replace("return (%y)", "return (%x)"))
    run(graph, ["dce"])
    assert len(graph) == 0
    kept = parse(CHOICE.replace("aten::sub(%x, 1)\n", "^Shout(%x)\n").replace("return (%y)", "return (%x)"))
    run(kept, ["dce"])
    assert len(kept) == 1


def test_it_is_drawn() -> None:
    assert "If" in parse(CHOICE).to_dot()
