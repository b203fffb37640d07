"""Graphs: building, rewiring, and what is refused."""

import pytest

from jit.ir import HANDLE, INT, TENSOR, Graph, Ref, TensorType, Use, Value, dtypes, parse, verify
from jit.ir.errors import GraphError

FLOAT2 = TensorType(dtypes.float32, (2,))


def value(graph: Graph, name: str) -> Value:
    return next(v for v in graph.values if v.name == name)


def test_build_and_print() -> None:
    graph = Graph()
    x = graph.add_input(FLOAT2, "x")
    y = graph.add("aten::mul", (x, 2), types=[FLOAT2]).output
    graph.set_return([y, None], [(x, y)])
    assert str(graph) == (
        "graph(%x : Float(2)) {\n"
        "  %0 : Float(2) = aten::mul(%x, 2)\n"
        "  return (%0, None)\n"
        "  update (%x = %0)\n"
        "}"
    )  # fmt: skip
    assert graph.outputs == (y, None) and graph.stages[0].updates == [(x, y)] and len(graph) == 1


def test_operands_and_templates() -> None:
    graph = Graph()
    x, n = graph.add_input(FLOAT2, "x"), graph.add_input(INT, "n")
    node = graph.add("aten::f", (x, [x, 1]), {"size": [n, 4], "mode": "mean"})
    assert list(node.inputs) == [x, x, n]
    assert node.args == (Ref(0), (Ref(1), 1)) and node.attributes == {"size": (Ref(2), 4), "mode": "mean"}
    assert node.operands == (x, (x, 1)) and node.attribute("size") == (n, 4) and node.attribute("none", 7) == 7
    assert list(x.uses) == [Use(node, 0), Use(node, 1)] and list(n.uses) == [Use(node, 2)]


def test_replace_all_uses_with() -> None:
    graph = parse("graph(%1 : int, %2 : int) { %3 : int = prim::add(%1, %1) return (%1, %3) }")
    one, two = graph.inputs
    one.replace_all_uses_with(two)
    assert str(graph).split("\n")[1:3] == ["  %3 : int = prim::add(%2, %2)", "  return (%2, %3)"]
    assert not one.uses and len(two.uses) == 3
    verify(graph)


def test_rewrite_changes_operands_in_place() -> None:
    graph = parse("graph(%x : Float(2), %n : int) { %y : Float(2) = aten::view[size=[%n]](%x) return (%y) }")
    x, n = graph.inputs
    node = next(graph.nodes)
    node.rewrite((x,), {"size": (2,)})
    assert str(graph).split("\n")[1] == "  %y : Float(2) = aten::view[size=[2]](%x)"
    assert not n.uses and list(x.uses) == [Use(node, 0)] and node.output is value(graph, "y")
    verify(graph)


def test_replace_with_and_erase() -> None:
    graph = parse("graph(%x : int) { %a : int = prim::neg(%x) %b : int = prim::neg(%a) return (%b) }")
    a, b = graph.nodes
    with pytest.raises(GraphError, match="cannot erase prim::neg: %a : int is still used by prim::neg"):
        a.erase()
    b.replace_with([graph.inputs[0]])
    a.erase()
    assert str(graph) == "graph(%x : int) {\n  return (%x)\n}" and a.graph is None
    verify(graph)


def test_inputs_are_neither_added_nor_removed() -> None:
    graph = parse("graph(%x : int) { %a : int = prim::neg(%x) return (%a) }")
    node = next(graph.nodes)
    with pytest.raises(GraphError, match="make a new node"):
        node.inputs.append(graph.inputs[0])
    with pytest.raises(GraphError, match="make a new node"):
        del node.inputs[0]


def test_insertion_points_nest_and_moves_keep_order() -> None:
    graph = Graph()
    last = graph.add("prim::Last", types=[])
    with graph.inserting_before(last):
        second = graph.add("prim::Second", types=[])
        with graph.inserting_before(second):
            graph.add("prim::First", types=[])
        graph.add("prim::Third", types=[])
    graph.add("prim::VeryLast", types=[])
    assert " ".join(n.kind[6:] for n in graph.nodes) == "First Second Third Last VeryLast"
    last.move_before(second)
    assert [n.kind for n in graph.reversed_nodes][::-1][1:3] == ["prim::Last", "prim::Second"]
    verify(graph)


def test_the_node_in_hand_may_be_erased() -> None:
    graph = Graph()
    for _ in range(5):
        graph.add("prim::Noop", types=[])
    for node in graph.nodes:
        node.erase()
    assert len(graph) == 0 and graph._first is None and graph._last is None


def test_names_are_unique() -> None:
    graph = Graph()
    names = [graph.add_input(INT, name).name for name in ("x", "x", None, "1", None, "x.1", None)]
    assert names == ["x", "x.1", "0", "1", "2", "x.1.1", "3"]
    graph.rename(graph.inputs[0], "y")
    assert graph.inputs[0].name == "y" and graph.add_input(INT, "x").name == "x"


def test_renumber() -> None:
    graph = parse(
        "graph(%7 : int, %n : int) { %3 : int = prim::neg(%7) %m.1 : int = prim::neg(%3) return (%m.1) "
        "---- stage 1 (%2 : int) ---- %0 : int = prim::add(%2, %3) return (%0) }"
    )
    assert graph.renumber()
    assert [v.name for v in graph.values] == ["0", "n", "2", "1", "m.1", "3"]
    assert not graph.renumber()
    assert graph.add_input(INT).name == "4"
    verify(graph)


def test_stages() -> None:
    graph = parse(
        "graph(%x : int) { %a : int = prim::neg(%x) return (%a) ---- stage 1 (%g : int) ---- "
        "%b : int = prim::add(%g, %a) return (%b) }"
    )
    assert [n.stage for n in graph.nodes] == [0, 1] and [n.kind for n in graph.stage_nodes(1)] == ["prim::add"]
    assert value(graph, "g").stage == 1 and value(graph, "g").is_input and not value(graph, "b").is_input
    graph.drop_stages(1)
    assert len(graph.stages) == 1 and len(graph) == 1 and len(value(graph, "a").uses) == 1
    verify(graph)


def test_clone_is_independent_and_maps_values() -> None:
    graph = parse(
        "graph(%x : int) { %a : int, %h : Handle = ^F(%x) %c : int = ^G[body=@0](%a) return (%c) update (%x = %a) "
        "---- stage 1 (%g : int) ---- %b : int = prim::Eval(%g, %h) return (%b) } "
        "where @0 = graph(%q : int) { return (%q) }"
    )
    mapping: dict[Value, Value] = {}
    copy = graph.clone(mapping)
    assert str(copy) == str(graph) and mapping[graph.inputs[0]] is copy.inputs[0]
    assert list(copy.nodes)[1].attributes["body"] is not list(graph.nodes)[1].attributes["body"]
    copy.drop_stages(1)
    assert len(graph.stages) == 2
    verify(graph)


def test_inline() -> None:
    body = parse("graph(%a : int, %b : int) { %c : int = prim::add(%a, %b) return (%c, 7) update (%a = %c) }")
    graph = parse("graph(%x : int) { %y : int = prim::neg(%x) return (%y) }")
    outputs, mapping = graph.inline(body, [graph.inputs[0], value(graph, "y")])
    graph.set_return(outputs)
    assert [str(n) for n in graph.nodes][1] == "%0 : int = prim::add(%x, %y)"
    assert outputs == [mapping[value(body, "c")], 7, mapping[value(body, "c")]]
    verify(graph)


def test_single_output() -> None:
    graph = Graph()
    node = graph.add("^Two", types=[TENSOR, HANDLE])
    with pytest.raises(GraphError, match="has 2 outputs"):
        _ = node.output
    with pytest.raises(GraphError, match="insert prim::neg into a graph"):
        graph.create("prim::neg").add_output(INT)
