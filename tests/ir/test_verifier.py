"""The verifier: a valid graph passes, and every invariant, broken once, is named with the node that breaks it."""

from collections.abc import Callable

import pytest

from jit.ir import HANDLE, INT, TENSOR, Graph, Node, Ref, Source, TensorType, Use, Value, dtypes, parse, verify
from jit.ir.errors import GraphError
from jit.ir.verifier import CHECKS

VALID = """\
graph(%x : Float(2, 3), %w : Float(3, 2), %rng : Generator) {
  %y : Float(3, 2, strides=[1, 3]) = aten::transpose.int[dim0=0, dim1=1](%x)
  %z : Float(3, 2) = aten::mul(%y, %w)
  %n : int = prim::size[dim=0](%z)
  prim::Guard[expected=3](%n)
  %c : Float(3, 2), %h : Handle = ^Clip[limit=2.0](%z)
  %s : Float(3, 2) = prim::FusionGroup[kernel=@0](%c, %z)
  return (%s, None)
  update (%w = %z)
---- stage 1 (%g : Float(3, 2)) ----
  %e : Float(3, 2) = prim::Eval(%g, %h)
  return (%e)
}
where @0 = graph(%a : Float(3, 2), %b : Float(3, 2)) {
  %0 : Float(3, 2) = aten::mul(%a, %b)
  return (%0)
}"""

FLOAT23 = TensorType(dtypes.float32, (2, 3))


def node(graph: Graph, kind: str) -> Node:
    return next(n for n in graph.nodes if n.kind == kind)


def value(graph: Graph, name: str) -> Value:
    return next(v for v in graph.values if v.name == name)


def test_a_valid_graph_passes() -> None:
    verify(parse(VALID))


def test_the_docstring_lists_the_checks_in_order() -> None:
    lines = [line.strip() for line in (verify.__doc__ or "").splitlines()]
    names = [line.split(":")[0].split()[1] for line in lines if line.split(".")[0].isdigit()]
    assert names == [check.__name__.strip("_").replace("_", "-") for check in CHECKS]


BREAKERS: list[tuple[str, str, Callable[[Graph], object]]] = []


def breaks(invariant: str, message: str) -> Callable[[Callable[[Graph], object]], Callable[[Graph], object]]:
    """The function breaks `invariant` of the graph VALID, and the complaint contains `message`."""

    def note(function: Callable[[Graph], object]) -> Callable[[Graph], object]:
        BREAKERS.append((invariant, message, function))
        return function

    return note


@breaks("1 (links)", "does not link back")
def _(graph: Graph) -> None:
    node(graph, "aten::mul")._previous = None


@breaks("1 (links)", "counts 9")
def _(graph: Graph) -> None:
    graph._count = 9


@breaks("1 (links)", "prim::Return stands among the nodes")
def _(graph: Graph) -> None:
    graph.add("prim::Return", (), {}, [])


@breaks("1 (links)", "stands in another")
def _(graph: Graph) -> None:
    node(graph, "aten::mul").graph = Graph()


@breaks("2 (stages)", "a node of stage 0 of 2 follows a node of stage 1")
def _(graph: Graph) -> None:
    graph.insert(graph.create("prim::Print"), 0)


@breaks("2 (stages)", "a node of stage 2 of 2")
def _(graph: Graph) -> None:
    graph.insert(graph.create("prim::Print"), 2)


@breaks("2 (stages)", "stage 1 has prim::Return of stage 0")
def _(graph: Graph) -> None:
    graph.stages[1].result.stage = 0


@breaks("3 (names)", "%y is empty or used twice")
def _(graph: Graph) -> None:
    value(graph, "z").name = "y"


@breaks("3 (names)", "%c believes that it is defined elsewhere")
def _(graph: Graph) -> None:
    value(graph, "c").offset = 1


@breaks("4 (templates)", "refer to the inputs [0, 0], but it has 2 inputs")
def _(graph: Graph) -> None:
    node(graph, "aten::mul").args = (Ref(0), Ref(0))


@breaks("4 (templates)", "%x stands in a template")
def _(graph: Graph) -> None:
    node(graph, "aten::mul").attributes["alpha"] = (value(graph, "x"),)


@breaks("5 (order)", "%z is used, but defined after it")
def _(graph: Graph) -> None:
    node(graph, "^Clip").move_before(node(graph, "aten::mul"))


@breaks("5 (order)", "%a is used, but defined in another graph")
def _(graph: Graph) -> None:
    inner = next(node(graph, "prim::FusionGroup").subgraphs)
    node(graph, "aten::mul").inputs[0] = inner.inputs[0]


@breaks("5 (order)", "%g of stage 1 is used in stage 0")
def _(graph: Graph) -> None:
    node(graph, "aten::mul").inputs[0] = value(graph, "g")


@breaks("6 (uses)", "%y does not list as a use: input 0 of aten::mul")
def _(graph: Graph) -> None:
    value(graph, "y").uses.clear()


@breaks("6 (uses)", "%y lists as a use: input 0 of prim::Print")
def _(graph: Graph) -> None:
    graph.create("prim::Print", (value(graph, "y"),))


@breaks("6 (uses)", "%x lists as a use: input 5 of aten::mul")
def _(graph: Graph) -> None:
    value(graph, "x").uses[Use(node(graph, "aten::mul"), 5)] = None


@breaks("7 (returns)", "the Handle %h is returned")
def _(graph: Graph) -> None:
    graph.set_return([value(graph, "h")], stage=0)


@breaks("7 (returns)", "is returned")
def _(graph: Graph) -> None:
    graph.set_return([object()], stage=0)


@breaks("8 (updates)", "%y is updated, but is no input")
def _(graph: Graph) -> None:
    graph.set_return([], [(value(graph, "y"), value(graph, "z"))], stage=0)


@breaks("8 (updates)", "%g is updated, but is no input")
def _(graph: Graph) -> None:
    second = graph.add_stage()
    graph.set_return([], [(value(graph, "g"), value(graph, "z"))], stage=second.param.stage)


@breaks("8 (updates)", "%w is updated twice")
def _(graph: Graph) -> None:
    graph.set_return([], [(value(graph, "w"), value(graph, "z"))] * 2, stage=0)


@breaks("8 (updates)", "%rng is updated with a Float(3, 2)")
def _(graph: Graph) -> None:
    graph.set_return([], [(value(graph, "rng"), value(graph, "z"))], stage=0)


@breaks("9 (operators)", "no operator aten::nonsense is declared")
def _(graph: Graph) -> None:
    node(graph, "aten::mul").kind = "aten::nonsense"


@breaks("9 (operators)", "has no argument alpha")
def _(graph: Graph) -> None:
    node(graph, "aten::mul").attributes["alpha"] = 2


@breaks("9 (operators)", "aten::transpose.int needs dim1")
def _(graph: Graph) -> None:
    del node(graph, "aten::transpose.int").attributes["dim1"]


@breaks("9 (operators)", "takes at most 2 operands")
def _(graph: Graph) -> None:
    graph.add("aten::mul", [value(graph, "x")] * 3, types=[FLOAT23])


@breaks("9 (operators)", "gives 1 results, but the node has 2")
def _(graph: Graph) -> None:
    node(graph, "aten::mul").add_output(TENSOR)


@breaks("9 (operators)", "gives 2 results, but the node has 1")
def _(graph: Graph) -> None:
    graph.add("aten::rand", (value(graph, "rng"),), {"size": (2,)}, [TENSOR])


@breaks("9 (operators)", "is the generator's next state")
def _(graph: Graph) -> None:
    graph.add("aten::rand", (value(graph, "rng"),), {"size": (2,)}, [TENSOR, TENSOR])


@breaks("10 (mutation)", "^Clip changes its argument")
def _(graph: Graph) -> None:
    node(graph, "^Clip").attributes["inplace"] = True


@breaks("11 (handles)", "comes last")
def _(graph: Graph) -> None:
    graph.add("^Two", (), {}, [HANDLE, TENSOR])


@breaks("11 (handles)", "one Handle")
def _(graph: Graph) -> None:
    graph.add("^Two", (), {}, [HANDLE, HANDLE])


@breaks("11 (handles)", "otherwise than as the last operand of a prim::Eval")
def _(graph: Graph) -> None:
    graph.add("prim::Print", (value(graph, "h"),), {}, [])


@breaks("11 (handles)", "otherwise than as the last operand of a prim::Eval")
def _(graph: Graph) -> None:
    with graph.inserting_before(node(graph, "prim::FusionGroup")):
        graph.add("prim::Eval", (value(graph, "h"), value(graph, "c")), types=[TENSOR])


def test_a_handle_may_be_used_in_its_own_stage() -> None:
    """By a backward inside of the traced function."""
    graph = parse(VALID)
    with graph.inserting_before(node(graph, "prim::FusionGroup")):
        graph.add("prim::Eval", (value(graph, "c"), value(graph, "h")), types=[TENSOR])
    verify(graph)


@breaks("12 (guards)", "looks at one operand")
def _(graph: Graph) -> None:
    node(graph, "prim::Guard").add_output(TENSOR)


@breaks("13 (sub-graphs)", "its sub-graph has 2 inputs, but the node has 1")
def _(graph: Graph) -> None:
    inner = next(node(graph, "prim::FusionGroup").subgraphs).clone()
    graph.add("prim::FusionGroup", (value(graph, "x"),), {"kernel": inner})


@breaks("13 (sub-graphs)", "its sub-graph gives 1 results, but the node has 2")
def _(graph: Graph) -> None:
    node(graph, "prim::FusionGroup").add_output(TENSOR)


@breaks("13 (sub-graphs)", "has 2 stages instead of one")
def _(graph: Graph) -> None:
    next(node(graph, "prim::FusionGroup").subgraphs).add_stage()


@breaks("13 (sub-graphs)", "belongs to another node too")
def _(graph: Graph) -> None:
    group = node(graph, "prim::FusionGroup")
    graph.add("prim::FusionGroup", group.operands, group.attributes)


@breaks("14 (devices)", "its tensors are on cpu, cuda:0")
def _(graph: Graph) -> None:
    value(graph, "s").type = TensorType(dtypes.float32, (3, 2), None, "cuda:0")


@breaks("15 (types)", "%z is declared Double(3, 2), but the operator gives Float(3, 2)")
def _(graph: Graph) -> None:
    value(graph, "z").type = TensorType(dtypes.float64, (3, 2))


@breaks("15 (types)", "but the operator gives Float(3, 2, strides=[1, 3])")
def _(graph: Graph) -> None:
    value(graph, "y").type = TensorType(dtypes.float32, (3, 2))


@breaks("15 (types)", "do not broadcast")
def _(graph: Graph) -> None:
    value(graph, "w").type = TensorType(dtypes.float32, (3, 5))


@breaks("15 (types)", "%0 is declared Float(3), but the operator gives Float(3, 2)")
def _(graph: Graph) -> None:
    inner = next(node(graph, "prim::FusionGroup").subgraphs)
    value(inner, "0").type = TensorType(dtypes.float32, (3,))


@pytest.mark.parametrize(("invariant", "message", "break_it"), BREAKERS, ids=[f"{b[0]} {b[1]}" for b in BREAKERS])
def test_invariant(invariant: str, message: str, break_it: Callable[[Graph], object]) -> None:
    graph = parse(VALID)
    break_it(graph)
    with pytest.raises(GraphError) as caught:
        verify(graph)
    first_line = str(caught.value).split("\n")[0]
    assert first_line.startswith(f"the graph violates invariant {invariant}: ") and message in first_line


def test_every_invariant_is_broken_once() -> None:
    numbers = {int(invariant.split()[0]) for invariant, _, _ in BREAKERS}
    assert numbers == set(range(1, len(CHECKS) + 1))


def test_the_complaint_shows_the_node_among_its_neighbours() -> None:
    graph = parse(VALID)
    mul = node(graph, "aten::mul")
    mul.source = Source("model.py", 12, "forward")
    mul.outputs[0].type = TensorType(dtypes.float32, (3, 3))
    with pytest.raises(GraphError) as caught:
        verify(graph)
    assert str(caught.value) == (
        "the graph violates invariant 15 (types): %z is declared Float(3, 3), but the operator gives Float(3, 2) "
        "(asked for at model.py:12 in forward)\n"
        "    %y : Float(3, 2, strides=[1, 3]) = aten::transpose.int[dim0=0, dim1=1](%x)\n"
        "  > %z : Float(3, 3) = aten::mul(%y, %w)  # model.py:12 in forward\n"
        "    %n : int = prim::size[dim=0](%z)\n"
        "    prim::Guard[expected=3](%n)"
    )


@pytest.mark.parametrize(
    "text",
    [
        "%y : Tensor = aten::mul(%x, 2)",  # an unknown type agrees with everything
        "%y : Float(2, batch) = aten::mul(%x, 2)",
        "%n : int = prim::size[dim=0](%x) %y : Float(2, 3) = aten::mul(%x, %n)",
        "%y : Float(2, 3, strides=[1, 2]) = aten::mul(%x, %x)",  # the layout of a computed result is free
    ],
)
def test_what_is_unknown_is_not_refused(text: str) -> None:
    verify(parse(f"graph(%x : Float(2, 3)) {{ {text} return (%y) }}"))


def test_numbers_have_types_too() -> None:
    with pytest.raises(GraphError, match=r"%m is declared int, but the operator gives float"):
        verify(parse("graph(%n : int) { %m : int = prim::truediv(%n, 2) return (%m) }"))


def test_a_hundred_thousand_nodes() -> None:
    graph = Graph()
    current = graph.add_input(FLOAT23, "x")
    graph.add_input(INT, "n")
    for _ in range(100_000):
        current = graph.add("aten::mul", (current, 2), types=[FLOAT23]).output
    graph.set_return([current])
    verify(graph)
