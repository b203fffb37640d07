"""The small parts of export: names, tables of versions, rewrites of nodes, registered symbolics, reports."""

import numpy as np
import onnx
import pytest

from jit.export import OPSETS, ExportReport, export_graph, opsets, register_symbolic, unregister_symbolic
from jit.export.legacy import INPUTS, REWRITES
from jit.export.naming import Names, safe
from jit.export.report import Verified
from jit.export.signatures import first_opset
from jit.ir import dtypes, parse
from jit.ir.errors import ExportError, UsageError
from jit.tracing.recorder.records import SLOT, Arguments

from .models import checked, export, listing, run

# -- names -------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("name", "expected"),
    [("x", "x"), ("a.b/c", "a.b/c"), ("", "value"), ("\0", "value"), ("a b\n", "a_b"), ("\ud800x", "x"), ("é", "é")],
)
def test_safe_names(name, expected):
    assert safe(name) == expected


def test_unique_names():
    names = Names()
    assert [names.unique(name) for name in ["x", "x", "x_1", "x", "y"]] == ["x", "x_1", "x_1_1", "x_2", "y"]


def test_many_equal_names_take_no_longer():
    names = Names()
    assert len({names.unique("linear") for _ in range(20_000)}) == 20_000


# -- tables ------------------------------------------------------------------------------------------------------


def test_opsets_come_with_the_format_of_their_day():
    official = {row[2]: row[1] for row in onnx.helper.VERSION_TABLE}
    assert {opset: official[opset] for opset in OPSETS if opset != 20} == {
        opset: version for opset, version in opsets.IR_VERSIONS.items() if opset != 20
    }
    assert (OPSETS[0], OPSETS[-1], opsets.DEFAULT_OPSET) == (9, 26, 20)


def test_element_types_are_those_of_onnx():
    names = {"float32": "FLOAT", "float64": "DOUBLE"}
    for dtype in dtypes.ALL:
        assert opsets.ELEMENT_TYPES[dtype] == onnx.TensorProto.DataType.Value(names.get(dtype.name, dtype.name.upper()))


def test_rewrites_are_of_operators_that_there_are():
    assert all(first_opset(name) is not None for name in {*INPUTS, *REWRITES})


# -- rewrites of nodes -------------------------------------------------------------------------------------------


def test_transposes_are_composed():
    exported = export(
        """graph(%x : Float(2, 3, 4)) {
          %0 : Float(3, 2, 4) = aten::transpose.int[dim0=0, dim1=1](%x)
          %1 : Float(3, 4, 2) = aten::transpose.int[dim0=1, dim1=2](%0)
          %2 : Float(2, 4, 3) = aten::transpose.int[dim0=0, dim1=2](%1)
          return (%2)
        }"""
    )
    assert listing(exported) == "output = Transpose[perm=[0,2,1]](x)"
    x = np.arange(24, dtype=np.float32).reshape(2, 3, 4)
    np.testing.assert_array_equal(run(exported, x=x)[0], x.transpose(0, 2, 1))


def test_transposes_that_undo_each_other_go():
    exported = export(
        """graph(%x : Float(2, 3)) {
          %0 : Float(3, 2) = aten::t(%x)
          %1 : Float(2, 3) = aten::t(%0)
          %2 : Float(2, 3) = aten::exp(%1)
          return (%2, %1)
        }"""
    )
    assert listing(exported) == "output_0 = Exp(x)\noutput_1 = Identity(x)"


def test_a_transpose_that_others_use_stays():
    exported = export(
        """graph(%x : Float(2, 3)) {
          %0 : Float(3, 2) = aten::t(%x)
          %1 : Float(2, 3) = aten::t(%0)
          %2 : Float(2, 3) = aten::exp(%1)
          return (%2, %0)
        }"""
    )
    assert listing(exported) == "output_1 = Transpose[perm=[1,0]](x)\noutput_0 = Exp(x)"


# -- registered symbolics ----------------------------------------------------------------------------------------

CUSTOM = "graph(%x : Float(2)) { %0 : Float(2) = acme::twist[angle=2.0](%x) return (%0) }"


@pytest.fixture
def registry():
    yield
    for kind in ("acme::twist", "aten::tanh", "^Clip"):
        unregister_symbolic(kind)


def test_a_registered_symbolic_is_called_with_operands_and_attributes(registry):
    register_symbolic("acme::twist", lambda g, x, angle: g.op("Mul", x, angle))
    assert listing(export(CUSTOM)) == "output = Mul(x, 2.0)"


def test_a_registered_symbolic_replaces_ours(registry):
    register_symbolic("aten::tanh", lambda g, x: g.op("Sin", x))
    assert listing(export("graph(%x : Float(2)) { %0 : Float(2) = aten::tanh(%x) return (%0) }")) == "output = Sin(x)"


def test_the_newest_that_the_opset_allows_is_used(registry):
    register_symbolic("acme::twist", lambda g, x, angle: g.op("Sin", x), since=11)
    register_symbolic("acme::twist", lambda g, x, angle: g.op("Cos", x), since=15)
    assert [listing(export(CUSTOM, opset_version=opset)) for opset in (11, 14, 15)] == [
        "output = Sin(x)", "output = Sin(x)", "output = Cos(x)",
    ]  # fmt: skip
    with pytest.raises(ExportError, match="opset_version=11 would do"):
        export(CUSTOM, opset_version=10)


def test_a_python_function_by_name_and_by_its_own_symbolic(registry):
    class Clip:
        @staticmethod
        def symbolic(g, x, limit):
            return g.op("Clip", x, -limit, limit)

    graph = parse("graph(%x : Float(2)) { %0 : Float(2), %h : Handle = ^Clip[limit=2.0](%x) return (%0) }")
    register_symbolic("^Clip", lambda g, x, limit: g.op("Mul", x, limit))
    assert listing(checked(export_graph(graph))) == "output = Mul(x, 2.0)"
    unregister_symbolic("^Clip")
    node = next(graph.nodes)
    node.attributes.update(function=Clip, arguments=Arguments((SLOT, 2.0)))
    assert listing(checked(export_graph(graph))) == "output = Clip(x, -2.0, 2.0)"


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("tanh", print), "a symbolic is registered for an operator such as 'aten::relu'"),
        (("a::b", 3), "The symbolic of a::b must be a function"),
        (("a::b", print, 99), "opset_version must be a whole number from 9 to 26"),
    ],
)
def test_what_cannot_be_registered(arguments, message):
    with pytest.raises(UsageError, match=f"(?i){message}"):
        register_symbolic(*arguments)


# -- reports -----------------------------------------------------------------------------------------------------


def test_a_report_reads_well():
    report = ExportReport("m.onnx", 20, 10, {"x": "float32 (2,)"}, {"y": "float32 (2,)"}, 3, {"Add": 2, "Mul": 1})
    report.initializers, report.initializer_bytes, report.external_data = 2, 4_500_000, "m.onnx.data"
    report.verified = Verified("onnxruntime 1", 1e-7, 2e-8, [{"x": [2]}])
    report.warnings.append("careful")
    assert str(report).splitlines()[3:] == [
        "  nodes     3: Add 2, Mul 1",
        "  weights   2 in 4.5 MB, kept in m.onnx.data",
        "  verified  by onnxruntime 1 on 1 input (x (2,)): largest error 1e-07, relative 2e-08",
        "  warning   careful",
    ]


def test_a_report_is_written_as_its_name_says():
    report = ExportReport("m|1.onnx", 20, 10, {"x": "float32 (2,)"}, {}, 3, {"Add": 2, "Mul": 1})
    report.warnings.append("a < b")
    assert report.as_text_for("r.txt") == f"{report}\n" and report.as_text_for("r") == f"{report}\n"
    assert report.as_text_for("r.json") == f"{report.to_json()}\n"
    markdown, page = report.as_text_for("a/r.md"), report.as_text_for("r.HTML")
    assert "| Add | 2 |" in markdown and "| x | float32 (2,) |" in markdown and "| warning | a \\< b |" in markdown
    assert "<tr><td>Add</td><td>2</td></tr>" in page and "a &lt; b" in page and page.startswith("<!DOCTYPE html>")
