"""Dynamic axes: models that hold for other sizes, and errors for what holds for the traced ones alone."""

import numpy as np
import pytest

from jit.export import export_graph, register_symbolic, unregister_symbolic
from jit.ir import parse
from jit.ir.errors import ExportError

from .models import checked, export, listing, run

BATCH = {"x": {0: "batch"}}


def graph_of(body, x="Float(4, 3)", returned="%y"):
    return f"graph(%x : {x}) {{\n{body}\nreturn ({returned})\n}}"


# -- what follows an axis ----------------------------------------------------------------------------------------


def test_sizes_that_were_read_are_computed():
    exported = export(
        graph_of(
            """%n : int = prim::size[dim=0](%x)
            %m : int = prim::mul(%n, 3)
            %y : Float(12) = aten::view[size=[%m]](%x)"""
        ),
        dynamic_axes=BATCH,
    )
    for size in (4, 7, 1, 0):
        x = np.arange(3 * size, dtype=np.float32).reshape(size, 3)
        np.testing.assert_array_equal(run(exported, x=x)[0], x.reshape(-1))


def test_outputs_are_named_after_the_axes_that_they_follow():
    exported = export(
        graph_of(
            """%y : Float(4) = aten::sum[dim=[1]](%x)
            %z : Float(8, 3) = aten::cat([%x, %x])
            %w : Float(3, 4) = aten::t(%x)""",
            returned="%y, %z, %w",
        ),
        dynamic_axes=BATCH,
    )
    assert exported.report.outputs == {"y": "float32 (batch,)", "z": "float32 (2*batch, 3)", "w": "float32 (3, batch)"}


def test_axes_without_a_name_get_one():
    report = export(graph_of("%y : Float(4, 3) = aten::tanh(%x)"), dynamic_axes={"x": [0, -1]}).report
    assert report.outputs == {"y": "float32 (x_dim_0, x_dim_1)"}


def test_an_axis_is_shared_by_name():
    text = "graph(%a : Float(4, 3), %b : Float(4, 3)) { %y : Float(4, 3) = aten::add(%a, %b) return (%y) }"
    exported = export(text, dynamic_axes={"a": {0: "n"}, "b": {0: "n"}})
    x = np.ones((9, 3), np.float32)
    assert exported.report.outputs == {"y": "float32 (n, 3)"}
    np.testing.assert_array_equal(run(exported, a=x, b=x)[0], 2 * x)
    with pytest.raises(ExportError, match="if these axes are always equal, give them one name"):
        export(text, dynamic_axes={"a": {0: "n"}, "b": {0: "m"}})


def test_named_dims_of_the_graph_are_dynamic():
    exported = export("graph(%x : Float(batch, 3)) { %y : Float(batch, 3) = aten::tanh(%x) return (%y) }")
    assert exported.report.outputs == {"y": "float32 (batch, 3)"}


def test_two_axes():
    exported = export(
        """graph(%x : Float(2, 3, 4)) {
          %n : int = prim::size[dim=0](%x)
          %m : int = prim::size[dim=1](%x)
          %nm : int = prim::mul(%n, %m)
          %y : Float(6, 4) = aten::view[size=[%nm, 4]](%x)
          return (%y)
        }""",
        dynamic_axes={"x": {0: "batch", 1: "time"}},
    )
    x = np.arange(5 * 7 * 4, dtype=np.float32).reshape(5, 7, 4)
    np.testing.assert_array_equal(run(exported, x=x)[0], x.reshape(35, 4))


def test_names_for_dynamic_dims_of_outputs():
    options = {"dynamic_axes": {**BATCH, "z": {0: "twice", 1: "no"}}, "output_names": ["z"]}
    report = export(graph_of("%y : Float(8, 3) = aten::cat([%x, %x])"), **options).report
    assert report.outputs == {"z": "float32 (twice, 3)"}
    assert report.warnings == ["dim 1 of the output 'z' does not follow any dynamic axis"]


@pytest.mark.parametrize("kind", ["add", "sub", "mul", "floordiv", "mod", "min", "max"])
@pytest.mark.parametrize("other", [3, -3])
def test_arithmetic_on_sizes_is_that_of_python(kind, other):
    import operator

    function = {"min": min, "max": max}.get(kind) or getattr(operator, kind)
    exported = export(
        f"""graph(%x : Float(7)) {{
          %n : int = prim::size[dim=0](%x)
          %y : int = prim::{kind}(%n, {other})
          %m : int = prim::neg(%n)
          %z : int = prim::{kind}(%m, {other})
          return (%y, %z)
        }}""",
        dynamic_axes={"x": [0]},
    )
    for size in (7, 8, 9, 10):
        found = [int(number) for number in run(exported, x=np.zeros(size, np.float32))]
        assert found == [function(size, other), function(-size, other)]


def test_more_arithmetic():
    exported = export(
        """graph(%x : Float(7)) {
          %n : int = prim::size[dim=0](%x)
          %half : float = prim::truediv(%n, 2)
          %up : int = prim::ceil(%half)
          %shifted : int = prim::lshift(%n, 2)
          %back : int = prim::rshift(%n, 1)
          %odd : bool = prim::ne(%back, %half)
          %both : bool = prim::and(%odd, True)
          return (%half, %up, %shifted, %back, %both)
        }""",
        dynamic_axes={"x": [0]},
    )
    assert [found.item() for found in run(exported, x=np.zeros(5, np.float32))] == [2.5, 3, 20, 2, True]


def test_a_number_from_the_data_flows_on():
    exported = export(
        graph_of(
            """%0 : Float() = aten::sum(%x)
            %1 : float = prim::item(%0)
            %2 : float = prim::mul(%1, 2.0)
            %y : Float(4, 3) = aten::add(%x, %2)"""
        )
    )
    x = np.arange(12, dtype=np.float32).reshape(4, 3)
    np.testing.assert_allclose(run(exported, x=x)[0], x + 132)


# -- what is baked -----------------------------------------------------------------------------------------------


def test_a_size_that_was_baked_is_refused_with_its_line():
    with pytest.raises(ExportError) as caught:
        export(graph_of("%y : Float(12) = aten::view[size=[12]](%x)  # model.py:12 in forward"), dynamic_axes=BATCH)
    assert str(caught.value) == (
        "The graph cannot be exported to ONNX at opset 20: aten::view at model.py:12 in forward: it holds for batch == "
        "4 alone; leave the axis out of dynamic_axes, or compute the size from the tensor's shape."
    )


COMPOSITE = """graph(%x : Float(4, 3)) {
  %y : Float(4, 3) = aten::silu[body=@0](%x)
  return (%y)
}
where @0 = graph(%x : Float(4, 3)) {
  %0 : Float(12) = aten::view[size=[12]](%x)
  %1 : Float(12) = aten::sigmoid(%0)
  %2 : Float(4, 3) = aten::view[size=[4, 3]](%1)
  %3 : Float(4, 3) = aten::mul(%x, %2)
  return (%3)
}"""


def test_what_is_baked_in_parts_matters_if_the_parts_are_exported(monkeypatch):
    from jit.ir import REGISTRY

    monkeypatch.setattr(REGISTRY["aten::silu"], "symbolic", lambda g, x: g.op("Mul", x, g.op("Sigmoid", x)))
    exported = export(COMPOSITE, dynamic_axes=BATCH)
    assert run(exported, x=np.zeros((7, 3), np.float32))[0].shape == (7, 3)
    monkeypatch.setattr(REGISTRY["aten::silu"], "symbolic", None)
    with pytest.raises(ExportError, match=r"aten::view \(part of aten::silu\): it holds for batch == 4 alone"):
        export(COMPOSITE, dynamic_axes=BATCH)


def test_a_size_that_must_be_even_is_no_obstacle():
    exported = export(graph_of("%y : Float(4, 6) = aten::view[size=[4, -1]](%x)", x="Float(8, 3)"), dynamic_axes=BATCH)
    assert exported.report.outputs == {"y": "float32 (4, batch-((batch+3)//4))"}
    assert exported.report.conditions == ["(3*batch) % 4 == 0 (aten::view)"]


GUARDED = """%n : int = prim::size[dim=0](%x)
%g : bool = prim::gt(%n, {bound})
prim::Guard[expected=True](%g)  # model.py:13 in forward
%y : Float(4, 3) = aten::tanh(%x)"""


def test_a_decision_on_a_dynamic_size_is_refused():
    with pytest.raises(ExportError, match=r"a decision at model\.py:13 in forward: Python decided that batch >= 2"):
        export(graph_of(GUARDED.format(bound=1)), dynamic_axes=BATCH)


@pytest.mark.parametrize("axes", [None, {"x": {1: "width"}}])
def test_a_decision_on_a_fixed_size_is_dropped(axes):
    assert listing(export(graph_of(GUARDED.format(bound=1)), dynamic_axes=axes)) == "y = Tanh(x)"


def test_a_decision_that_two_equal_sizes_are_equal_is_dropped():
    text = """graph(%a : Float(4), %b : Float(4)) {
      %n : int = prim::size[dim=0](%a)
      %m : int = prim::size[dim=0](%b)
      %e : bool = prim::eq(%n, %m)
      prim::Guard[expected=True](%e)
      %y : Float(4) = aten::add(%a, %b)
      return (%y)
    }"""
    assert listing(export(text, dynamic_axes={"a": {0: "n"}, "b": {0: "n"}})) == "y = Add(a, b)"


def test_a_decision_on_data_is_refused():
    with pytest.raises(ExportError, match="Python decided on the contents of a tensor"):
        export(
            graph_of(
                """%0 : Float() = aten::sum(%x)
                %1 : float = prim::item(%0)
                %2 : bool = prim::gt(%1, 0.0)
                prim::Guard[expected=True](%2)
                %y : Float(4, 3) = aten::tanh(%x)"""
            )
        )


def test_a_decision_on_a_weight_is_dropped():
    text = """graph(%x : Float(2), %w : Float()) {
      %0 : float = prim::item(%w)
      %1 : bool = prim::gt(%0, 0.0)
      prim::Guard[expected=True](%1)
      %y : Float(2) = aten::tanh(%x)
      return (%y)
    }"""
    assert listing(export(text, initializers={"w": np.float32(3)})) == "y = Tanh(x)"
    with pytest.raises(ExportError, match="Python decided on the contents"):
        export(text)


# -- what a symbolic sees ----------------------------------------------------------------------------------------


def with_symbolic(symbolic, text, **options):
    register_symbolic("test::op", symbolic)
    try:
        return checked(export_graph(parse(text), **options))
    finally:
        unregister_symbolic("test::op")


def test_sizes_in_a_symbolic():
    def symbolic(g, x):
        batch, width = x.shape
        assert isinstance(width, int)
        return g.op("Reshape", x, g.ints([batch * width, 1]))

    text = graph_of("%y : Float(12, 1) = test::op(%x)")
    exported = with_symbolic(symbolic, text, dynamic_axes=BATCH)
    assert run(exported, x=np.zeros((5, 3), np.float32))[0].shape == (15, 1)
    assert listing(with_symbolic(symbolic, text)) == "y = Reshape(x, [12,1])"


def test_the_shape_of_the_result_in_a_symbolic():
    def symbolic(g, x):
        return g.op("Expand", g.constant(0.0, like=x), g.ints(g.out.shape))

    text = graph_of("%0 : Float(4, 3) = aten::tanh(%x)\n%y : Float(4, 3) = test::op(%0)")
    exported = with_symbolic(symbolic, text)
    assert listing(exported) == "y = Expand(0.0, [4,3])"


def test_deciding_on_a_dynamic_size_in_a_symbolic():
    def symbolic(g, x):
        return x if x.shape[0] == 1 else g.op("Neg", x)

    text = graph_of("%y : Float(4, 3) = test::op(%x)  # model.py:3 in f")
    with pytest.raises(ExportError, match="needs a fixed number where it is given the size of 'batch'"):
        with_symbolic(symbolic, text, dynamic_axes=BATCH)
    assert listing(with_symbolic(symbolic, text)) == "y = Neg(x)"


def test_sizes_of_one_axis_are_equal():
    def symbolic(g, x):
        y = g.op("Neg", x)
        assert x.shape == y.shape and x.shape[0] != None  # noqa: E711
        return y

    assert (
        listing(with_symbolic(symbolic, graph_of("%y : Float(4, 3) = test::op(%x)"), dynamic_axes=BATCH))
        == "y = Neg(x)"
    )
