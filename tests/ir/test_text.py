"""Graphs as text: what is printed is read back, and what cannot be read says where and why."""

import string
from typing import Any

import ml_dtypes
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from jit.ir import GENERATOR, HANDLE, INT, Graph, RandomState, Source, TensorType, dtypes, parse
from jit.ir.errors import ParseError
from jit.ir.printer import content_hash, format_constant, large_constants

EVERYTHING = """\
graph(%x : Float(2, 3), %fc.weight : Float(4, 3), %bn.mean : Float(4), %rng : Generator) {
  %2 : Float(2, 4) = aten::linear(%x, %fc.weight)  # model.py:12 in forward, scope: Net/fc
  %3 : Float(2, 4), %4 : Handle = ^Clip[limit=2.0](%2)
  %n : int = aten::size[dim=0](%x)  # scope: Net
  %6 : Float(2, 4) = aten::view[size=[%n, 4]](%3)  # model.py:13 in Net.<locals>.forward
  %7 : Float(2, 4) = aten::add[alpha=2](%6, 1)
  %8 : Float(4, 4, strides=[1, 4]) = aten::cat[dim=1]([%7, %7])
  %9 : Float(2, 4), %m.1 : Float(4) = aten::batch_norm[training=True, body=@0](%x, None, None, %bn.mean)
  return (%9, None)
  update (%bn.mean = %m.1)
---- stage 1 (%10 : Float(2, 4), %'grads[0]' : Tensor) ----
  %11 : Float(2, 4) = prim::Eval(%10, %4)
  prim::Guard[value=True](%n)
  return (%11)
}
where @0 = graph(%a : Float(2, 3), %b : Float(4, device=cuda:0)) {
  %0 : Half(batch, ?) = prim::FusionGroup[kernel=@1](%a)
  return (%0)
  update (%b = %0)
}
where @1 = graph(%0 : Undefined) {
  return (%0)
}"""


def round_trip(text: str, **more: Any) -> None:
    assert str(parse(text, **more)) == text


def test_everything_round_trips() -> None:
    round_trip(EVERYTHING)


def test_a_parsed_graph_is_the_graph() -> None:
    graph = parse(EVERYTHING)
    linear, clip, size, view, *_ = graph.nodes
    assert linear.source == Source("model.py", 12, "forward") and linear.scope == "Net/fc"
    assert linear.inputs[0] is graph.inputs[0]
    assert [value.type for value in clip.outputs] == [TensorType(dtypes.float32, (2, 4)), HANDLE]
    assert view.attribute("size") == (size.output, 4) and size.output.type == INT
    assert graph.inputs[3].type == GENERATOR
    assert graph.outputs[1] is None
    assert [(target.name, value.name) for target, value in graph.stages[0].updates] == [("bn.mean", "m.1")]
    assert [node.stage for node in graph.nodes] == [0] * 7 + [1, 1]


def test_free_form_is_read_and_printed_in_one_form() -> None:
    graph = parse("graph(%x : Float(2)){%y:Float( 2 )=aten::neg( %x ) # a remark\n # another\n return(%y)}\n\n")
    assert str(graph) == "graph(%x : Float(2)) {\n  %y : Float(2) = aten::neg(%x)\n  return (%y)\n}"


def test_long_headers_get_one_input_per_line() -> None:
    graph = Graph()
    graph.set_return([graph.add_input(TensorType(dtypes.float32, (3,)), f"layer{i}.weight") for i in range(8)][:1])
    text = str(graph)
    assert text.startswith("graph(\n    %layer0.weight : Float(3),\n    %layer1.weight")
    assert "%layer7.weight : Float(3)) {\n  return" in text
    round_trip(text)


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (2, "2"),
        (2.0, "2.0"),
        (-0.0, "-0.0"),
        (1e30, "1e+30"),
        (float("inf"), "inf"),
        (float("-inf"), "-inf"),
        (float("nan"), "nan"),
        (complex(-0.0, 1), "complex(-0.0, 1.0)"),
        (True, "True"),
        (None, "None"),
        ("it's # 'a'\n", "\"it's # 'a'\\n\""),
        (b"\x00", "b'\\x00'"),
        (dtypes.bool_, "jit.bool"),
        (TensorType(dtypes.float32, (2,)), "Float(2)"),
        (INT, "int"),
        (slice(None, 3), "slice(None, 3, None)"),
        (..., "..."),
        (RandomState(7, 2), "RandomState(7, 2)"),
        ([1, (2, ["x"], ())], "[1, [2, ['x'], []]]"),
        ({"a": [1], 2: {}}, "{'a': [1], 2: {}}"),
        (np.array([1.5, 0.1], np.float32), "Float(2){1.5, 0.1}"),
        (np.array(3), "Long(){3}"),
        (np.zeros((0, 3), np.uint8), "Byte(0, 3){}"),
        (np.array([[True], [False]]), "Bool(2, 1){True, False}"),
        (np.array([0.1, -0.0, np.inf], ml_dtypes.bfloat16), "BFloat16(3){0.100098, -0.0, inf}"),
        (np.array([1 / 3, np.nan], np.complex64), "ComplexFloat(2){complex(0.33333334, 0.0), complex(nan, 0.0)}"),
        (np.arange(3, dtype=">i4"), "Int(3){0, 1, 2}"),
        (np.float32(0.1), "Float(){0.1}"),
    ],
    ids=str,
)
def test_constants(value: object, text: str) -> None:
    assert format_constant(value) == text
    whole = f"graph() {{\n  %0 : Tensor = prim::Constant[value={text}]()\n  return (%0)\n}}"
    round_trip(whole)
    read = next(parse(whole).nodes).attributes["value"]
    if isinstance(value, np.ndarray):
        np.testing.assert_array_equal(read, value)
        assert read.shape == value.shape and read.dtype == value.dtype.newbyteorder("=")


@given(st.floats(width=32), st.floats(width=64), st.integers(0, 2**16 - 1))
def test_floats_keep_every_bit(single: float, double: float, bits: int) -> None:
    halves = np.array([bits], np.uint16)
    for array in (
        np.array([single], np.float32), np.array([double]), halves.view(np.float16), halves.view(ml_dtypes.bfloat16),
    ):  # fmt: skip
        text = f"graph() {{ return ({format_constant(array)}) }}"
        read = parse(text).outputs[0]
        same_bits = read.tobytes() == array.tobytes()
        assert same_bits or (np.isnan(read) and np.isnan(array)), (array, text)


def test_large_arrays_are_named_by_their_content() -> None:
    array = np.arange(200, dtype=np.float32).reshape(10, 20)
    graph = Graph()
    body = Graph()
    body.set_return([body.add("prim::Constant", (), {"value": array}).output])
    graph.set_return([graph.add("aten::f", (), {"body": body}).output])
    text = str(graph)
    assert f"Float(10, 20)<{content_hash(array)}>" in text and len(text) < 300
    assert list(large_constants(graph)) == [content_hash(array)]
    round_trip(text, tensors=large_constants(graph))
    with pytest.raises(ParseError, match=r"line 6, column 38: .*give it as parse\(text, tensors="):
        parse(text)
    with pytest.raises(ParseError, match="is another one"):
        parse(text, tensors={content_hash(array): array + 1})


def test_content_hash_sees_bytes_type_and_shape() -> None:
    zeros = np.zeros((4, 6), np.float32)
    others: list[Any] = [zeros.astype(np.float64), zeros.reshape(6, 4), -zeros, zeros.astype(np.int32)]
    assert len({content_hash(array) for array in [zeros, *others]}) == 5
    assert content_hash(zeros.T.copy().T) == content_hash(zeros)


def test_functions_are_given_back() -> None:
    graph = Graph()
    x = graph.add_input(TensorType(), "x")
    node = graph.add("^Net.<locals>.Clip", (x,), {"function": print, "limit": 2})
    graph.set_return([node.output])
    text = str(graph)
    assert "  %0 : Tensor = ^'Net.<locals>.Clip'[limit=2](%x)\n" in text
    read = next(parse(text, functions={"Net.<locals>.Clip": max}).nodes)
    assert read.kind == "^Net.<locals>.Clip" and read.attributes == {"limit": 2, "function": max}
    assert next(parse(text).nodes).attributes == {"limit": 2}
    native = parse("graph() { %0 : Tensor = cpp::mine() return (%0) }", functions={"mine": 7})
    assert next(native.nodes).attributes == {"function": 7}


def test_objects_without_text_are_shown_but_not_read() -> None:
    graph = Graph()
    graph.set_return([graph.add("^Clip", (print, object())).output])
    assert "^Clip(<print>, <object>)" in str(graph)
    with pytest.raises(ParseError, match="<print> stands for an object that has no text"):
        parse(str(graph))


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", "line 1, column 1: expected 'graph', found the end of the text"),
        ("graph(%x Float)", "line 1, column 10: expected ':', found 'Float'"),
        ("graph(%x : Flot) {", "line 1, column 12: expected a type, such as Float(2, 3), found 'Flot'"),
        ("graph() {\n  %x : int = aten::q(%y)\n  return () }", "line 2, column 22: %y is not defined above"),
        ("graph(%x : int, %x : int) { return () }", "line 1, column 17: %x is defined twice"),
        ("graph() {\n  return ()\n}\nand more", "line 4, column 1: expected 'where' or the end of the text"),
        ("graph() {\n  aten::f()\n}", "line 3, column 1: expected a node or 'return', found '}'"),
        ("graph() { a::b[x=@0]() return () }", "column 18: the sub-graph @0 is mentioned"),
        ("graph() { return () } where @0 = graph() { return () } where @0 =", "defined twice"),
        ("graph() { return (Float(3){1, 2}) }", "column 19: Float(3) has 3 elements, but 2 are given"),
        ("graph() { return (Byte(1){300}) }", "column 19: these are no elements of Byte(1)"),
        ("graph() { return (Float(?){1}) }", "column 19: the type of a constant array has a dtype and known sizes"),
        ("graph() { return ($) }", "column 19: expected a value or a constant, found '$'"),
        ("graph() { return (jit.float33) }", "column 19: expected a dtype such as jit.float32"),
        ("graph() { return (slice()) }", "column 19: slice cannot be made of ()"),
        ("graph() { return (" + "[" * 5000 + ") }", "column 119: lists are nested more than 100 deep"),
        ("graph() { return (" + "9" * 5000 + ") }", "column 19: this constant cannot be read"),
        ("graph() { return ({[1]: 2}) }", "column 20: expected a value or a constant"),
        ("graph() { return () ---- stage 2 () ---- return () }", "column 32: expected stage number 1, found '2'"),
        ("graph(%'\\x' : int) { return () }", "column 7: this name cannot be read"),
    ],
)
def test_mistakes_are_located(text: str, message: str) -> None:
    with pytest.raises(ParseError) as caught:
        parse(text)
    assert message in str(caught.value)


def test_a_mistake_is_pointed_at() -> None:
    with pytest.raises(ParseError) as caught:
        parse("graph() {\n  return (%q)\n}")
    assert str(caught.value) == "line 2, column 11: %q is not defined above\n  return (%q)\n          ^"


# -- random graphs -----------------------------------------------------------------------------------------------

WORDS = st.text(string.ascii_letters, min_size=1, max_size=6)
LEAVES = st.one_of(
    st.none(), st.booleans(), st.integers(), st.floats(), st.complex_numbers(), st.text(), st.sampled_from(dtypes.ALL),
    st.builds(slice, st.none() | st.integers(), st.none() | st.integers()), st.builds(RandomState, st.integers(0, 99)),
)  # fmt: skip
TYPES = st.one_of(
    st.sampled_from([INT, HANDLE, GENERATOR, TensorType()]),
    st.builds(TensorType, st.none() | st.sampled_from(dtypes.ALL), st.none()),
    st.builds(
        TensorType, st.none() | st.sampled_from(dtypes.ALL),
        st.lists(st.integers(0, 9) | st.none() | WORDS.map("d_".__add__), max_size=3).map(tuple),
        st.none() | st.lists(st.integers(-9, 9), max_size=3).map(tuple), st.sampled_from(["cpu", "cuda:0"]),
    ),
)  # fmt: skip


@st.composite
def graphs(draw: st.DrawFn, depth: int = 1) -> Graph:
    graph = Graph()
    known = [graph.add_input(draw(TYPES), draw(st.none() | st.text())) for _ in range(draw(st.integers(0, 3)))]
    for stage in range(draw(st.integers(1, 3))):
        if stage:
            graph.add_stage()
            known.append(graph.add_input(draw(TYPES)))
        for _ in range(draw(st.integers(0, 4))):
            operands = LEAVES if not known else LEAVES | st.sampled_from(known)
            items = st.recursive(operands, lambda inner: st.lists(inner, max_size=3), max_leaves=4)
            attributes: dict[str, Any] = draw(st.dictionaries(WORDS, items, max_size=2))
            if depth and draw(st.booleans()):
                attributes["body"] = draw(graphs(depth - 1))
            kind = draw(st.sampled_from(["aten::f.x", "prim::G", "^P", "^a b", "cpp::q", "odd '"]))
            node = graph.add(kind, draw(st.lists(items, max_size=3)), attributes, draw(st.lists(TYPES, max_size=2)))
            node.scope = draw(st.sampled_from(["", "A/b", "x, scope: y", "z\nz"]))
            node.source = draw(st.none() | st.just(Source("C:/dir a/m.py", 3, "<lambda>")))
            known += node.outputs
        with_update = draw(st.booleans())
        updates = [(known[0], known[-1])] if known and with_update else []
        graph.set_return(draw(st.lists(st.sampled_from([*known, None]), max_size=2)), updates)
    return graph


@settings(max_examples=100, deadline=None)
@given(graphs())
def test_random_graphs_round_trip(graph: Graph) -> None:
    round_trip(str(graph))
    assert str(graph.clone()) == str(graph)


def test_a_hundred_thousand_nodes() -> None:
    graph = Graph()
    value = graph.add_input(TensorType(dtypes.float32, (2,)), "x")
    for _ in range(100_000):
        value = graph.add("aten::add", (value, 1), {"alpha": 2}, [value.type]).output
    graph.set_return([value])
    round_trip(str(graph))
