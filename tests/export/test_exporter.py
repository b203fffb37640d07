"""Graphs become models: names, inputs and outputs, numbers bit for bit, and errors that say what and where."""

import json
import os
import subprocess
import sys
from pathlib import Path

import ml_dtypes
import numpy as np
import onnx
import pytest

from jit.export import OPSETS, export_graph
from jit.ir import GENERATOR, INT, Graph, TensorType, dtypes, parse
from jit.ir.errors import ExportError, UsageError

from .models import checked, export, listing, run, type_of

ROOT = Path(__file__).parents[2]
LINEAR = """
graph(%x : Float(4, 3), %fc.weight : Float(5, 3), %fc.bias : Float(5)) {
  %0 : Float(3, 5) = aten::t(%fc.weight)  # model.py:12 in forward, scope: Net/fc
  %1 : Float(4, 5) = aten::addmm(%fc.bias, %x, %0)  # model.py:12 in forward, scope: Net/fc
  %2 : Float(4, 5) = aten::relu(%1)  # model.py:13 in forward, scope: Net
  %3 : Float(4, 5) = aten::tanh(%2)  # model.py:13 in forward, scope: Net
  return (%3)
}
"""
WEIGHTS = {"fc.weight": np.ones((5, 3), np.float32), "fc.bias": np.arange(5, dtype=np.float32)}
TANH = "graph(%x : Float(2)) { %0 : Float(2) = aten::tanh(%x) return (%0) }"


def test_values_are_called_as_in_the_program():
    exported = export(LINEAR, initializers=WEIGHTS)
    assert listing(exported) == (
        "Net/fc/addmm = Gemm[transB=1](x, fc.weight, fc.bias)\nNet/relu = Relu(Net/fc/addmm)\noutput = Tanh(Net/relu)"
    )
    assert list(exported.model.graph.initializers) == ["fc.weight", "fc.bias"]


def test_nodes_know_their_line_and_scope():
    node = next(iter(export(LINEAR, initializers=WEIGHTS).model.graph))
    origin = {"jit.op": "aten::addmm", "jit.scope": "Net/fc", "jit.source": "model.py:12 in forward"}
    assert node.metadata_props == origin


def test_given_names_are_taken():
    exported = export(LINEAR, initializers=WEIGHTS, input_names=["image"], output_names=["logits"])
    assert (list(exported.report.inputs), list(exported.report.outputs)) == (["image"], ["logits"])


def test_unsafe_names_are_made_safe_and_unique():
    graph = Graph()
    types = [TensorType(dtypes.float32, (1,))] * 3
    inputs = [graph.add_input(type, name) for type, name in zip(types, ["a b", "a_b", "\x00é"])]
    graph.set_return([graph.add("aten::cat", [tuple(inputs)], types=[TensorType(dtypes.float32, (3,))]).output])
    assert list(checked(export_graph(graph)).report.inputs) == ["a_b", "a_b_1", "é"]


def test_a_value_may_be_called_like_an_output():
    exported = export(
        "graph(%x : Float(2)) { %output : Float(2) = aten::tanh(%x) %1 : Float(2) = aten::exp(%output) return (%1) }"
    )
    assert listing(exported) == "output_1 = Tanh(x)\noutput = Exp(output_1)"


def test_results_that_no_node_makes_of_their_own():
    """An input, an initializer, a constant and a repeated result each get an Identity."""
    exported = export(
        """graph(%x : Float(2), %w : Float(2)) {
          %0 : Float(2) = prim::Constant[value=Float(2){1.0, 2.0}]()
          %1 : Float(2) = aten::tanh(%x)
          return (%x, %w, %0, %1, %1)
        }""",
        initializers={"w": np.array([5, 6], np.float32)},
    )
    x = np.array([0.5, -1], np.float32)
    assert listing(exported).count("Identity") == 4
    outputs = run(exported, x=x)
    for got, want in zip(outputs, [x, [5, 6], [1, 2], np.tanh(x), np.tanh(x)], strict=True):
        np.testing.assert_allclose(got, np.asarray(want, np.float32), rtol=1e-6)


def test_an_input_that_is_not_used_stays():
    exported = export("graph(%x : Float(2), %unused : Long(3)) { %0 : Float(2) = aten::neg(%x) return (%0) }")
    assert exported.report.inputs == {"x": "float32 (2,)", "unused": "int64 (3,)"}


def test_a_weight_that_is_not_used_goes():
    text = "graph(%x : Float(2), %w : Float(2)) { %0 : Float(2) = aten::neg(%x) return (%0) }"
    assert export(text, initializers={"w": np.zeros(2, np.float32)}).report.initializers == 0


def test_dead_nodes_are_neither_written_nor_complained_about():
    exported = export(
        "graph(%x : Float(2)) { %0 : Float(2) = aten::no_such_op(%x) %1 : Float(2) = aten::neg(%x) return (%1) }"
    )
    assert listing(exported) == "output = Neg(x)"


def test_generators_are_not_inputs():
    graph = parse("graph(%x : Float(2), %rng : Generator) { %0 : Float(2) = aten::neg(%x) return (%0, %rng) }")
    assert graph.inputs[1].type == GENERATOR
    assert list(export_graph(graph).report.inputs) == ["x"]


def test_a_model_that_draws_says_so():
    text = "graph(%x : Float(2), %rng : Generator) {{ %0 : Float(2){} = {}(%x{}) return (%0) }}"
    dropout = text.format(", %1 : Generator", "aten::dropout[p=0.5, train=True, body=@0]", "")
    body = "where @0 = graph(%x : Float(2)) { %0 : Float(2) = aten::neg(%x) return (%0) }"
    assert not export(text.format("", "aten::neg", "")).report.is_random
    assert export(f"{dropout}\n{body}").report.is_random
    assert export(text.format(", %1 : Generator", "aten::bernoulli", ", %rng")).report.is_random


def test_undefined_results_are_left_out_with_a_word():
    report = export("graph(%x : Float(2)) { %0 : Float(2) = aten::neg(%x) return (%0, None) }").report
    assert list(report.outputs) == ["output"]
    assert report.warnings == ["one of the results is undefined, and left out of the model's outputs"]


def test_numbers_in_and_out():
    exported = export(
        """graph(%x : Float(2), %n : int, %f : float) {
          %0 : int = prim::mul(%n, 3)
          %1 : Float(2) = aten::mul(%x, %f)
          return (%1, %0, 2.5)
        }"""
    )
    x = np.array([1, 2], np.float32)
    product, tripled, constant = run(exported, x=x, n=np.array(7), f=np.array(0.5))
    np.testing.assert_array_equal(product, x / 2)
    assert (int(tripled), str(tripled.dtype), float(constant)) == (21, "int64", 2.5)


def test_updates_are_dropped_or_given_as_outputs():
    text = """graph(%x : Float(2), %mean : Float(2)) {
      %0 : Float(2) = aten::neg(%x)
      %1 : Float(2) = aten::add(%mean, %x)
      return (%0)
      update (%mean = %1)
    }"""
    assert len(export(text).report.outputs) == 1
    graph = parse(text)
    exported = checked(export_graph(graph, updates_as_outputs=True, output_names=["y", "new_mean"]))
    x = np.array([1, 2], np.float32)
    np.testing.assert_array_equal(run(exported, x=x, mean=x)[1], 2 * x)


def test_a_later_stage_takes_the_inputs_of_all():
    exported = export(
        """graph(%x : Float(2)) {
          %y : Float(2) = aten::tanh(%x)
          return (%y)
        ---- stage 1 (%g : Float(2)) ----
          %1 : Float(2) = aten::mul(%y, %y)
          %2 : Float(2) = aten::rsub(%1, 1)
          %3 : Float(2) = aten::mul(%g, %2)
          return (%3)
        }""",
        stage=1,
    )
    x, g = np.array([0.5, -1], np.float32), np.array([2, 3], np.float32)
    assert list(exported.report.inputs) == ["x", "g"]
    np.testing.assert_allclose(run(exported, x=x, g=g)[0], g * (1 - np.tanh(x) ** 2), rtol=1e-6)


def test_parts_stand_for_a_composite_without_a_form_of_its_own(monkeypatch):
    from jit.ir import REGISTRY

    text = """graph(%x : Float(2)) {
      %y : Float(2) = aten::silu[body=@0](%x)
      return (%y)
    }
    where @0 = graph(%x : Float(2)) {
      %0 : Float(2) = aten::sigmoid(%x)
      %1 : Float(2) = aten::mul(%x, %0)
      return (%1)
    }"""
    monkeypatch.setattr(REGISTRY["aten::silu"], "symbolic", None)
    assert listing(export(text)) == "sigmoid = Sigmoid(x)\ny = Mul(x, sigmoid)"
    monkeypatch.setattr(REGISTRY["aten::silu"], "symbolic", lambda g, x: (_ for _ in ()).throw(g.unsupported("no")))
    assert listing(export(text)) == "sigmoid = Sigmoid(x)\ny = Mul(x, sigmoid)"


def test_a_group_is_its_nodes():
    exported = export(
        """graph(%x : Float(2)) {
          %y : Float(2) = prim::FusionGroup[kernel=@0](%x)
          return (%y)
        }
        where @0 = graph(%x : Float(2)) {
          %0 : Float(2) = aten::exp(%x)
          %1 : Float(2) = aten::neg(%0)
          return (%1)
        }"""
    )
    assert listing(exported) == "exp = Exp(x)\ny = Neg(exp)"


# -- numbers, bit for bit ----------------------------------------------------------------------------------------

SPECIAL = [np.nan, np.inf, -np.inf, 0.0, -0.0, 1e-45, 65504.0]


@pytest.mark.parametrize("dtype", [np.float32, np.float64, np.float16, ml_dtypes.bfloat16])
def test_weights_keep_every_bit(dtype):
    weights = np.array(SPECIAL, dtype)
    exported = export_returning_weights(weights)
    (found,) = run(exported)
    assert found.dtype == weights.dtype
    assert found.tobytes() == weights.tobytes()


@pytest.mark.parametrize(
    "weights",
    [np.array([True, False]), np.array(2**63 - 1), np.zeros((0, 3), np.float32), np.arange(6.0).reshape(2, 3).T],
)
def test_weights_of_every_shape(weights):
    (found,) = run(export_returning_weights(weights))
    assert (found.shape, found.dtype) == (weights.shape, weights.dtype)
    np.testing.assert_array_equal(found, weights)


def export_returning_weights(weights):
    graph = Graph()
    graph.set_return([graph.add_input(TensorType(type_of(weights).dtype, weights.shape), "w")])
    return checked(export_graph(graph, initializers={"w": weights}))


@pytest.mark.parametrize("number", SPECIAL[:5])
def test_constants_keep_every_bit(number):
    graph = Graph()
    x = graph.add_input(TensorType(dtypes.float32, (2,)), "x")
    value = np.array([number], np.float32)
    made = graph.add("prim::Constant", [], {"value": value}, [type_of(value)]).output
    graph.set_return([made, graph.add("aten::full_like", [x], {"fill_value": number}, [x.type]).output])
    constant, filled = run(checked(export_graph(graph)), x=np.zeros(2, np.float32))
    assert constant.tobytes() == value.tobytes()
    assert filled.tobytes() == 2 * value.tobytes()


def test_attributes_keep_nan_and_signed_zero():
    def symbolic(g, x):
        return g.op("test::Odd", x, nan=float("nan"), zero=-0.0, inf=float("-inf"))

    from jit.export import register_symbolic, unregister_symbolic

    register_symbolic("test::odd", symbolic)
    try:
        exported = export_graph(parse("graph(%x : Float(2)) { %0 : Float(2) = test::odd(%x) return (%0) }"))
    finally:
        unregister_symbolic("test::odd")
    loaded = onnx.load_from_string(exported.to_bytes())
    found = {item.name: item.f for item in loaded.graph.node[0].attribute}
    assert np.isnan(found["nan"]) and np.signbit(found["zero"]) and found["inf"] == -np.inf


# -- versions ----------------------------------------------------------------------------------------------------


def test_the_same_graph_gives_the_same_bytes():
    assert export(LINEAR, initializers=WEIGHTS).to_bytes() == export(LINEAR, initializers=WEIGHTS).to_bytes()


SHOW_DIGEST = """
import hashlib
from tests.export.test_exporter import LINEAR, WEIGHTS, export
exported = export(LINEAR, initializers=WEIGHTS, dynamic_axes={"x": {0: "batch"}})
print(hashlib.sha256(exported.to_bytes()).hexdigest())
"""


def test_every_process_gives_the_same_bytes():
    digests = set()
    for seed in ("0", "1"):
        environment = {**os.environ, "PYTHONHASHSEED": seed}
        done = subprocess.run(
            [sys.executable, "-c", SHOW_DIGEST], cwd=ROOT, env=environment, capture_output=True, text=True
        )
        assert done.returncode == 0, done.stderr
        digests.add(done.stdout)
    assert len(digests) == 1


@pytest.mark.parametrize("opset", OPSETS)
def test_onnxruntime_loads_every_opset(opset):
    exported = export(TANH, opset_version=opset)
    assert exported.model.opset_imports == {"": opset}
    x = np.array([1, -2], np.float32)
    np.testing.assert_allclose(run(exported, x=x)[0], np.tanh(x), rtol=1e-6)


def test_the_default_is_opset_20_in_format_10():
    report = export(TANH).report
    assert (report.opset, report.ir_version) == (20, 10)


@pytest.mark.parametrize("opset", [8, 27, 999, -1, "18", True, 18.0])
def test_no_such_opset(opset):
    with pytest.raises(UsageError, match="opset_version must be a whole number from 9 to 26"):
        export(TANH, opset_version=opset)


def test_weights_can_stay_inputs():
    text = "graph(%x : Float(2), %w : Float(2)) { %0 : Float(2) = aten::mul(%x, %w) return (%0) }"
    exported = export(text, initializers={"w": np.full(2, 3, np.float32)}, keep_initializers_as_inputs=True)
    x = np.array([1, 2], np.float32)
    np.testing.assert_array_equal(run(exported, x=x)[0], 3 * x)
    np.testing.assert_array_equal(run(exported, x=x, w=x)[0], x * x)


def test_metadata_is_kept():
    assert export(TANH, metadata={"author": "me"}).model.metadata_props == {"author": "me"}


# -- what cannot be exported -------------------------------------------------------------------------------------


def test_all_obstacles_are_named_at_once():
    with pytest.raises(ExportError) as caught:
        export(
            """graph(%x : Float(2, 2), %i : Long(2, 2)) {
              %0 : Float(2, 2) = aten::no_such_op(%x)  # model.py:3 in forward
              %1 : Float(2, 2) = aten::scatter_add[dim=0](%0, %i, %0)  # model.py:4 in forward
              %2 : Float(2, 2) = ^Clip[limit=2.0](%1)  # model.py:5 in forward
              return (%2)
            }""",
            opset_version=13,
        )
    assert str(caught.value).splitlines() == [
        "The graph cannot be exported to ONNX at opset 13, for 3 reasons:",
        "  aten::no_such_op at model.py:3 in forward: no ONNX form of it is known; "
        "give one with jit.export.register_symbolic('aten::no_such_op', ...)",
        "  aten::scatter_add at model.py:4 in forward: ScatterElements reduces only; opset_version=16 would do",
        "  ^Clip at model.py:5 in forward: a Python function that computes by other means than operators is opaque to "
        "ONNX; give it a static method `symbolic(g, *arguments)`",
    ]


def test_one_obstacle_is_one_sentence():
    with pytest.raises(ExportError) as caught:
        export("graph(%x : Float(2, 2)) { %0 : Float(2, 2) = aten::cumsum[dim=0](%x) return (%0) }", opset_version=9)
    assert str(caught.value) == (
        "The graph cannot be exported to ONNX at opset 9: aten::cumsum: "
        "CumSum is in ONNX from opset 11 on; opset_version=11 would do."
    )


def test_the_opset_that_would_do_for_all_is_named():
    with pytest.raises(ExportError, match=r"opset_version=18 would do for all of them\.$"):
        export(
            """graph(%x : Int(2, 2), %i : Long(2, 2)) {
              %0 : Int(2, 2) = aten::scatter_add[dim=0](%x, %i, %x)
              %1 : Int(2, 2) = aten::bitwise_and(%0, %x)
              return (%1)
            }""",
            opset_version=13,
        )


def test_the_same_obstacle_on_the_same_line_is_named_once():
    node = "aten::no_such_op(%x)  # model.py:3 in forward"
    with pytest.raises(ExportError) as caught:
        export(f"graph(%x : Float(2)) {{\n %0 : Float(2) = {node}\n %1 : Float(2) = {node}\n return (%0, %1)\n}}")
    assert str(caught.value).count("no_such_op at") == 1


def test_obstacles_inside_a_composite_name_it():
    with pytest.raises(ExportError, match=r"aten::no_such_op \(part of aten::mine\) at model.py:7 in f: no ONNX form"):
        export(
            """graph(%x : Float(2)) {
              %y : Float(2) = aten::mine[body=@0](%x)  # model.py:7 in f
              return (%y)
            }
            where @0 = graph(%x : Float(2)) {
              %0 : Float(2) = aten::no_such_op(%x)
              return (%0)
            }"""
        )


def test_a_symbolic_that_breaks_is_an_obstacle_with_its_cause(monkeypatch):
    from jit.ir import REGISTRY

    monkeypatch.setattr(REGISTRY["aten::tanh"], "symbolic", lambda g, x: x.no_such_attribute)
    with pytest.raises(ExportError, match="its symbolic failed with AttributeError") as caught:
        export(TANH)
    assert isinstance(caught.value.__cause__, AttributeError)


def test_a_missing_output_matters_only_if_it_is_used():
    def graph(returned):
        return f"""graph(%x : Float(2, 3)) {{
          %a : Float(2, 3), %b : Float(2, 3) = test::pair(%x)
          return ({returned})
        }}"""

    from jit.export import register_symbolic, unregister_symbolic

    register_symbolic("test::pair", lambda g, x: (g.op("Neg", x), None))
    try:
        assert listing(export(graph("%a"))) == "a = Neg(x)"
        with pytest.raises(ExportError, match="test::pair: ONNX does not give output number 1 of test::pair"):
            export(graph("%b"))
        with pytest.raises(ExportError, match="aten::neg: ONNX does not give output number 1 of test::pair"):
            export(graph("%c").replace("return", "%c : Float(2, 3) = aten::neg(%b)\n return"))
    finally:
        unregister_symbolic("test::pair")


def test_the_backward_of_a_python_function_is_an_obstacle():
    with pytest.raises(ExportError, match="prim::Eval: the backward of a Python function is opaque to ONNX"):
        export(
            """graph(%x : Float(2)) {
              %0 : Float(2), %1 : Handle = ^Clip(%x)
              return (%0)
            ---- stage 1 (%g : Float(2)) ----
              %2 : Float(2) = prim::Eval(%g, %1)
              return (%2)
            }""",
            stage=1,
        )


def test_complex_numbers_are_pairs():
    exported = export("graph(%x : ComplexFloat(2)) { return (%x) }")
    assert exported.report.inputs == {"x": "float32 (2, 2)"}
    assert exported.report.outputs == {"output": "float32 (2, 2)"}


def test_a_graph_without_results():
    with pytest.raises(ExportError, match="returns no tensors"):
        export("graph(%x : Float(2)) { return () }")


def test_inputs_need_types():
    with pytest.raises(ExportError, match="The type of the input 'x' is not known"):
        export("graph(%x : Tensor) { return (%x) }")


# -- calls that make no sense ------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"input_names": ["a", "b"]}, r"There are 1 inputs \(x\), but 2 input_names"),
        ({"output_names": []}, r"There are 1 outputs \(output\), but 0 output_names"),
        ({"output_names": ["x"]}, "'x' cannot be the name of an input and of an output"),
        ({"input_names": "x"}, "input_names must be a list of names"),
        ({"input_names": [""]}, "input_names must be a list of names"),
        ({"stage": 1}, "The graph has stages 0 to 0, so stage 1 cannot be exported"),
        ({"initializers": {"w": np.zeros(2)}}, "There is no input 'w' to initialize; the graph's are 'x'"),
        ({"initializers": {"x": np.zeros(2)}}, r"'x' is Double\(2\), but the graph says Float\(2\)"),
        ({"dynamic_axes": {"z": {0: "n"}}}, "dynamic_axes names 'z', which is not an input; the inputs are 'x'"),
        ({"dynamic_axes": {"x": {1: "n"}}}, "gives dim 1 of 'x', which has 1 dims"),
        ({"dynamic_axes": {"x": {0: ""}}}, "a name is a non-empty string"),
        ({"dynamic_axes": {"x": {"0": "n"}}}, "has the dim '0', which is not a whole number"),
        ({"dynamic_axes": {"x": "n"}}, "must be {dim: axis name} or a list of dims"),
        ({"path": "/no/such/folder/m.onnx"}, "there is no folder '/no/such/folder'"),
        ({"path": "."}, "it is a folder; name a file in it"),
    ],
)
def test_what_is_wrong_with_a_call(options, message):
    with pytest.raises(UsageError, match=message):
        export(TANH, **options)


def test_two_inputs_of_one_name():
    with pytest.raises(UsageError, match="input_names has 'a' twice"):
        export("graph(%x : Float(2), %y : Float(2)) { return (%x) }", input_names=["a", "a"])


# -- the whole way -----------------------------------------------------------------------------------------------


def test_the_report_tells_what_was_written(tmp_path):
    path = tmp_path / "m.onnx"
    report = export(LINEAR, path=path, initializers=WEIGHTS, dynamic_axes={"x": {0: "batch"}}).report
    assert str(report) == (
        f"exported to {path} (opset 20, IR 10)\n"
        "  inputs    x: float32 (batch, 3)\n"
        "  outputs   output: float32 (batch, 5)\n"
        "  nodes     3: Gemm 1, Relu 1, Tanh 1\n"
        "  weights   2 in 80 B\n"
        "  verified  no"
    )
    assert json.loads(report.to_json())["op_histogram"] == {"Gemm": 1, "Relu": 1, "Tanh": 1}
    assert os.listdir(tmp_path) == ["m.onnx"]


def test_ten_thousand_nodes(tmp_path):
    graph = Graph()
    x = y = graph.add_input(TensorType(dtypes.float32, (2,)), "x")
    for _ in range(5_000):
        y = graph.add("aten::tanh", [y], types=[x.type]).output
        y = graph.add("aten::add", [y, 1], types=[x.type]).output
    graph.set_return([y])
    exported = checked(export_graph(graph))
    assert exported.report.node_count == 10_000
    assert exported.report.initializers == 1


def test_sizes_are_numbers_where_no_axis_is_dynamic():
    graph = Graph()
    x = graph.add_input(TensorType(dtypes.float32, (4, 3)), "x")
    size = graph.add("prim::size", [x], {"dim": 0}, [INT]).output
    flat = graph.add("aten::view", [x], {"size": (graph.add("prim::mul", [size, 3], types=[INT]).output,)})
    flat.outputs[0].type = TensorType(dtypes.float32, (12,))
    graph.set_return([flat.output])
    assert listing(checked(export_graph(graph))) == "output = Reshape(x, [12])"
