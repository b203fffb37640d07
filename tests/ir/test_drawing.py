"""Pictures of graphs: networkx, Graphviz's language, SVG, the page, and what a notebook shows."""

import builtins
import re
import xml.etree.ElementTree as ElementTree
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import jit.ops  # the colours come from the operators' families
from jit.ir import Error, Graph, TensorType, dtypes, parse
from jit.ir.cards import _BY_MODULE, COLOURS, cards_of, family_of
from jit.ir.drawing import to_dot, to_svg

TEXT = """graph(%x : Float(2, 3), %fc.weight : Float(3), %rng : Generator) {
  %y : Float(2, 3) = aten::mul(%x, %fc.weight)  # model.py:12 in forward, scope: Net/fc
  %n : int = prim::size[dim=0](%y)
  %z : Float(2, 3) = aten::add[alpha=2](%y, 0.5)
  %c : Float(2, 3), %h : Handle = ^Clip[limit="<&\\n>"](%z)
  %f : Float(2, 3) = prim::FusionGroup[body=@0](%c)
  prim::Guard[expected=2](%n)
  return (%f)
  update (%fc.weight = %z)
---- stage 1 (%g : Long(2, batch)) ----
  %e : Float(2, 3) = prim::Eval(%g, %h)
  return (%e, %y)
}
where @0 = graph(%a : Float(2, 3)) {
  %b : Float(2, 3) = aten::neg(%a)
  %c : Float(2, 3) = aten::mul(%b, %b)
  return (%c)
}"""
FLOAT23 = TensorType(dtypes.float32, (2, 3))


def test_networkx() -> None:
    import networkx

    drawn = parse(TEXT).to_networkx()
    assert isinstance(drawn, networkx.MultiDiGraph) and networkx.is_directed_acyclic_graph(drawn)
    assert set(drawn) == {
        "%x", "%fc.weight", "%rng", "%g", "%y", "%n", "%z", "%c", "%f", "%e", "node 5", "return 0", "return 1",
    }  # fmt: skip
    assert drawn.nodes["%y"] == {
        "kind": "aten::mul", "type": ["Float(2, 3)"], "stage": 0, "scope": "Net/fc", "source": "model.py:12 in forward",
        "text": "%y : Float(2, 3) = aten::mul(%x, %fc.weight)  # model.py:12 in forward, scope: Net/fc",
    }  # fmt: skip
    assert list(drawn.edges("%c", data=True)) == [
        ("%c", "%f", {"value": "%c", "type": "Float(2, 3)", "index": 0}),
        ("%c", "%e", {"value": "%h", "type": "Handle", "index": 1}),
    ]
    assert drawn.nodes["%e"]["stage"] == 1 and drawn.has_edge("%z", "return 0")


def test_a_value_used_twice_has_two_edges() -> None:
    drawn = parse("graph(%x : Float(2)) { %y : Float(2) = aten::mul(%x, %x) return (%y) }").to_networkx()
    assert drawn.number_of_edges("%x", "%y") == 2


def test_cards_say_what_a_reader_wants_to_know() -> None:
    cards, links = cards_of(parse(TEXT))
    shown = {card.title: (card.details, card.family) for card in cards if card.family != "return"}
    assert shown == {
        "x": (["2×3"], "input"),
        "fc.weight": (["3"], "parameter"),
        "rng": (["Generator"], "input"),
        "g": (["Long 2×batch"], "input"),
        "mul": ([], "pointwise"),
        "size": (["dim=0"], "number"),
        "add": (["(·, 0.5), alpha=2"], "pointwise"),
        "^Clip": (["limit='<&\\n>'"], "python"),
        "FusionGroup": (["neg · mul"], "fused"),
        "Guard": (["expected=2"], "guard"),
        "Eval": ([], "python"),
    }
    ends = [(card.title, card.details, card.stage) for card in cards if card.family == "return"]
    assert ends == [("return", [], 0), ("fc.weight", ["updated"], 0), ("return", [], 1)]
    titles = {card.key: card.title for card in cards}
    arrows = {(titles[link.tail], titles[link.head]): link for link in links}
    assert arrows["mul", "add"].label == "2×3" and arrows["x", "mul"].label == ""
    assert arrows["^Clip", "Eval"].label == "Handle" and arrows["^Clip", "Eval"].crosses
    assert arrows["add", "fc.weight"].values == {"%z : Float(2, 3)": None}


@pytest.mark.parametrize(
    ("kind", "family"),
    [
        ("aten::mm", "contraction"),
        ("aten::tanh", "pointwise"),
        ("aten::sum", "reduction"),
        ("aten::permute", "movement"),
        ("aten::cat", "movement"),
        ("aten::rand", "creation"),
        ("aten::unheard_of", "number"),
        ("prim::add", "number"),
        ("cpp::mine", "python"),
    ],
)
def test_colours_tell_what_work_a_node_does(kind: str, family: str) -> None:
    node = Graph().add(kind)
    assert family_of(node) == family and family in COLOURS


def test_families_are_of_modules_that_exist() -> None:
    assert set(_BY_MODULE) <= set(jit.ops.FAMILIES)


def test_dot_is_read_by_graphviz() -> None:
    pygraphviz = pytest.importorskip("pygraphviz")
    graph = parse(TEXT)
    assert graph.to_dot() == to_dot(graph)
    drawn = pygraphviz.AGraph(string=graph.to_dot())
    assert len(drawn.nodes()) == 14 and len(drawn.subgraphs()) == 2
    labels = {node.attr["label"] for node in drawn.nodes()}
    assert any("limit=&#x27;&lt;&amp;" in label for label in labels)


def test_scopes_and_stages_are_boxes() -> None:
    graph = Graph()
    value = graph.add_input(FLOAT23, "x")
    for scope in ("A", "A/b", "A/b/c", "A/b", "", "A//d", 'q"u\\o'):
        node = graph.add("aten::neg", (value,), types=[FLOAT23])
        node.scope, value = scope, node.output
    graph.set_return([value])
    labels = re.findall(r'graph \[label="(.*?)", labeljust', graph.to_dot())
    assert labels == ["A", "b", "c", "d", 'q\\"u\\\\o']
    graph.add_stage()
    graph.set_return([])
    assert re.findall(r'label="(stage.*?)"', graph.to_dot()) == ["stage 0 · forward", "stage 1 · backward"]


def test_svg_is_well_formed_and_has_tooltips() -> None:
    pytest.importorskip("pygraphviz")
    svg = to_svg(parse(TEXT))
    root = ElementTree.fromstring(svg)
    names = {element.get("{http://www.w3.org/1999/xlink}title") for element in root.iter()}
    assert any(name and "# model.py:12 in forward, scope: Net/fc" in name for name in names)
    assert root.tag == "{http://www.w3.org/2000/svg}svg"


def test_awkward_names_are_drawn() -> None:
    pytest.importorskip("pygraphviz")
    graph = Graph()
    names = ["params['a\"]", "<script>", "a\nb", "\x07", "käse", "-->", "n" * 200]
    graph.set_return([graph.add("^<i>&\\", [graph.add_input(FLOAT23, name) for name in names]).output])
    ElementTree.fromstring(to_svg(graph))


def test_a_large_graph_shows_scopes_and_cuts_far_arrows() -> None:
    graph = Graph()
    value = graph.add_input(FLOAT23, "x")
    weight = graph.add_input(FLOAT23, "w")
    for index in range(4000):
        node = graph.add("aten::mul" if index % 2 else "aten::add", (value, weight), types=[FLOAT23])
        node.scope, value = f"Net/block{index // 100}", node.output
    graph.set_return([value])
    cards, links = cards_of(graph)
    blocks = [card for card in cards if card.family == "scope"]
    assert len(blocks) == 40 and blocks[0].details == ["100 nodes", "add ×50, mul ×50"]
    assert len([card for card in cards if card.title == "w"]) > 3, "far arrows begin at copies of the input"
    assert {link.label for link in links} == {"", "2×3"}
    detailed, _ = cards_of(graph, most=5000)
    assert len([card for card in detailed if card.family == "pointwise"]) == 4000
    for node in graph.nodes:
        node.scope = ""
    titles = [card.title for card in cards_of(graph)[0] if card.family == "scope"]
    assert titles[:2] == ["part #1", "part #2"] and len(titles) == 160


def test_a_hundred_thousand_nodes() -> None:
    graph = Graph()
    value = graph.add_input(FLOAT23, "x")
    for index in range(100_000):
        node = graph.add("aten::neg", (value,), types=[FLOAT23])
        node.scope, value = f"Net/block{index // 1000}/inner{index % 7}", node.output
    graph.set_return([value])
    assert len(graph.to_dot()) < 2_000_000
    assert graph.to_networkx().number_of_nodes() == 100_002


# -- files and notebooks -----------------------------------------------------------------------------------------


def test_the_page_is_self_contained(tmp_path: Path) -> None:
    pytest.importorskip("pygraphviz")
    graph = parse(TEXT)
    next(graph.nodes).scope = "</script><!--"
    graph.save(tmp_path / "g.html")
    page = (tmp_path / "g.html").read_text()
    assert "7 nodes, 2 stages" in page and "<!--PICTURE-->" not in page and "/*CARDS*/{}" not in page
    assert page.count("<script") == 1 and page.count("</script>") == 1
    links = set(re.findall(r"(?:https?:)?//[\w.]+/[^\s\"'<]*", page))
    assert links <= {"http://www.w3.org/2000/svg", "http://www.w3.org/1999/xlink"}, "nothing is loaded from a network"
    assert "src=" not in page and "@import" not in page


def test_suffixes(tmp_path: Path) -> None:
    pytest.importorskip("pygraphviz")
    graph = parse(TEXT)
    for name in ("g.svg", "g.dot", "g.IR"):
        graph.save(tmp_path / "sub" / name)
    assert (tmp_path / "sub" / "g.dot").read_text() == graph.to_dot()
    assert (tmp_path / "sub" / "g.IR").read_text() == f"{graph}\n"
    ElementTree.fromstring((tmp_path / "sub" / "g.svg").read_text())
    with pytest.raises(Error, match=r"cannot save a graph as g\.png: its name must end in \.html, "):
        graph.save(tmp_path / "g.png")


@pytest.mark.parametrize("dtype", [dtypes.float32, dtypes.bfloat16, dtypes.bool_, dtypes.complex64], ids=str)
def test_saved_text_has_its_constants_beside_it(tmp_path: Path, dtype: dtypes.DType) -> None:
    graph = Graph()
    array = np.arange(100).astype(dtype.numpy)
    graph.set_return([graph.add("prim::Constant", (), {"value": array}, [TensorType(dtype, (100,))]).output])
    graph.save(tmp_path / "g.ir")
    read = parse((tmp_path / "g.ir").read_text(), tensors=np.load(tmp_path / "g.npz"))
    np.testing.assert_array_equal(next(read.nodes).attributes["value"], array)


def test_an_unwritable_file_is_one_sentence_and_the_old_one_stays(tmp_path: Path) -> None:
    (tmp_path / "g.ir").mkdir()
    with pytest.raises(Error, match=r"^cannot write .*g\.ir: .*; choose a folder that you may write to$"):
        parse(TEXT).save(tmp_path / "g.ir")
    assert [path.name for path in tmp_path.iterdir()] == ["g.ir"], "no half file is left behind"


def test_notebooks_get_the_drawing_and_the_text() -> None:
    pytest.importorskip("pygraphviz")
    bundle = parse(TEXT)._repr_mimebundle_()
    assert bundle["text/plain"] == TEXT.replace('"<&\\n>"', "'<&\\n>'")
    assert "</svg>" in bundle["image/svg+xml"]


@pytest.fixture
def no_pygraphviz(monkeypatch: pytest.MonkeyPatch) -> None:
    original = builtins.__import__

    def refuse(name: str, *args: Any, **kwargs: Any) -> Any:
        if name == "pygraphviz":
            raise ImportError("No module named 'pygraphviz'")
        return original(name, *args, **kwargs)

    monkeypatch.setattr(builtins, "__import__", refuse)


@pytest.mark.usefixtures("no_pygraphviz")
def test_without_pygraphviz(tmp_path: Path) -> None:
    graph = parse(TEXT)
    with pytest.raises(Error, match=r"needs pygraphviz, which is not installed; .* pip install 'jit-tracer\[viz\]'"):
        graph.save(tmp_path / "g.svg")
    assert list(graph._repr_mimebundle_()) == ["text/plain"]
    graph.save(tmp_path / "g.dot")
