"""Models run beside what they were made from: agreement, and the first node that is wrong."""

import contextlib
import sys

import ml_dtypes
import numpy as np
import pytest

import jit
from jit.export import verify_model, writer
from jit.export.verification import TOLERANCES, compare, first_divergence
from jit.ir import dtypes
from jit.ir.errors import ExportError, UsageError, VerificationError

from .models import export

CHAIN = """graph(%x : Float(3)) {
  %a : Float(3) = aten::exp(%x)  # model.py:1 in f
  %b : Float(3) = aten::neg(%a)  # model.py:2 in f
  %c : Float(3) = aten::tanh(%b)  # model.py:3 in f
  return (%c)
}"""
X = np.array([0.1, -0.2, 0.3], np.float32)
A = np.exp(X)


def test_agreement_tells_engine_errors_and_sizes():
    exported = export(CHAIN, dynamic_axes={"x": [0]})
    longer = np.concatenate([X, X])
    found = verify_model(exported, [{"x": X}, {"x": longer}], [[np.tanh(-A)], [np.tanh(-np.exp(longer))]])
    assert found.engine.startswith("onnxruntime ")
    assert found.sizes == [{"x": [3]}, {"x": [6]}]
    assert 0 <= found.max_rel_error < 1e-6
    assert "on 2 inputs (x (3,); x (6,))" in str(found.for_report())


def test_a_wrong_output_is_named():
    with pytest.raises(
        VerificationError, match=r"for inputs x \(3,\): output 'c', 3 of 3 elements differ, most at \[\d\]"
    ):
        verify_model(export(CHAIN), [{"x": X}], [[np.tanh(A)]])


def test_the_first_wrong_node_is_named_with_its_line():
    exported = export(CHAIN)
    known = {"a": A, "b": A, "c": np.tanh(A)}  # as if the program did not negate
    with pytest.raises(VerificationError) as caught:
        verify_model(exported, [{"x": X}], [[np.tanh(A)]], intermediates=lambda run: known)
    assert "The first node that differs is 'b' (Neg, from aten::neg at model.py:2 in f)" in str(caught.value)
    assert [value.name for value in exported.model.graph.outputs] == ["c"]


def test_no_node_is_wrong():
    assert first_divergence(export(CHAIN).model, {"x": X}, {"a": A, "b": -A, "c": np.tanh(-A)}) is None


def test_the_reference_stands_in_for_onnxruntime(monkeypatch):
    monkeypatch.setitem(sys.modules, "onnxruntime", None)
    found = verify_model(export(CHAIN), [{"x": X}], [[np.tanh(-A)]])
    assert found.engine.startswith("onnx.reference") and found.engine.endswith("(because onnxruntime is not installed)")


def test_the_reference_stands_in_where_onnxruntime_has_a_gap():
    exported = export("graph(%x : Double(2)) { %0 : Double(2) = aten::tan(%x) return (%0) }")
    x = np.array([0.5, 1.0])
    found = verify_model(exported, [{"x": x}], [[np.tan(x)]])
    assert "onnxruntime has no Tan" in found.engine


@pytest.mark.parametrize("text", ["graph(%x : Float(3)) { return (%x) }"])
def test_files_are_verified_too(tmp_path, text):
    path = tmp_path / "m.onnx"
    export(text, path=path)
    assert verify_model(path, [{"x": X}], [[X]]).max_abs_error == 0
    with pytest.raises(VerificationError, match="output 'output'"):
        verify_model(str(path), [{"x": X}], [[X + 1]])


def test_a_model_with_its_weights_beside_it(monkeypatch):
    text = "graph(%x : Float(1000), %w : Float(1000)) { %0 : Float(1000) = aten::mul(%x, %w) return (%0) }"
    x = np.arange(1000, dtype=np.float32)
    exported = export(text, initializers={"w": x})
    monkeypatch.setattr(writer, "EXTERNAL_ABOVE", 100)
    assert verify_model(exported, [{"x": x}], [[x * x]]).max_abs_error == 0


def test_bfloat16_goes_in_and_out():
    x = np.array([1.5, -2.0], ml_dtypes.bfloat16)
    assert verify_model(export("graph(%x : BFloat16(2)) { return (%x) }"), [{"x": x}], [[x]]).max_abs_error == 0


def test_what_is_wrong_with_a_call():
    exported = export(CHAIN)
    with pytest.raises(UsageError, match="1 sets of inputs, but 0"):
        verify_model(exported, [{"x": X}], [])
    with pytest.raises(UsageError, match="The model has 1 outputs, but 2 are expected"):
        verify_model(exported, [{"x": X}], [[X, X]])
    with pytest.raises(UsageError, match=r"There is no model file 'nowhere\.onnx'"):
        verify_model("nowhere.onnx", [], [])
    with pytest.raises(ExportError, match="onnxruntime does not run the exported model"):
        verify_model(exported, [{"x": np.zeros(5, np.float32)}], [[X]])


def test_a_file_that_is_no_model(tmp_path):
    path = tmp_path / "m.onnx"
    path.write_bytes(b"no model")
    with pytest.raises(ExportError, match="onnxruntime does not load the exported model"):
        verify_model(path, [], [])


# -- comparing ---------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("got", "want", "agrees"),
    [
        ([1.0, np.nan, np.inf], [1.0, np.nan, np.inf], True),
        ([1.0, np.nan], [1.0, 2.0], False),
        ([1.0, 2.0], [1.0, np.nan], False),
        ([np.inf], [-np.inf], False),
        ([1e30], [np.inf], False),
        ([np.inf], [1e30], False),
        ([1.00001], [1.0], True),
        ([1.001], [1.0], False),
        ([1e-6, 1.0], [0.0, 1.0], True),
        ([1e-3, 1.0], [0.0, 1.0], False),
        ([], [], True),
    ],
)
def test_floats_agree_within_the_table(got, want, agrees):
    assert (compare(np.float32(got), np.float32(want)).message == "") == agrees


def test_whole_numbers_agree_exactly():
    large = np.array([2**60 + 1])
    assert compare(large, large).message == ""
    assert compare(large, large - 1).message.startswith("1 of 1 elements differ, the first at [0]")
    assert compare(np.array([True]), np.array([False])).message


def test_shape_and_type_count():
    assert compare(np.zeros(2), np.zeros((2, 1))).message == "its shape is (2,) instead of (2, 1)"
    assert compare(np.zeros(2), np.zeros(2, np.float32)).message == "its element type is float64 instead of float32"


def test_the_table_has_every_float():
    assert set(TOLERANCES) == {dtype for dtype in dtypes.ALL if dtype.is_floating_point}


# -- what is all rounding ------------------------------------------------------------------------------------------


@pytest.mark.parametrize("shape", [(2, 3, 4, 4), (4, 3, 16, 16), (3, 3, 9, 7)])
@pytest.mark.parametrize("seed", range(3))
def test_gradients_that_are_zero_but_for_rounding_agree(shape, seed):
    """The bias of a convolution before a batch norm has no effect, so its gradient is what rounding leaves of 0."""
    jit.manual_seed(seed)
    model = jit.nn.Sequential(jit.nn.Conv2d(3, 4, 3), jit.nn.BatchNorm2d(4), jit.nn.ReLU(), jit.nn.Flatten(),
                              jit.nn.LazyLinear(2))  # fmt: skip
    model(jit.randn(*shape))
    report = jit.export_onnx(model, jit.randn(*shape), stage=1, training=True)
    assert report.verified is not None


@pytest.mark.parametrize("module", [jit.nn.Linear(6, 5), jit.nn.Conv1d(4, 5, 1)], ids=["linear", "convolution"])
def test_other_layers_before_a_normalisation_agree_too(module):
    features = jit.nn.Sequential(module, jit.nn.BatchNorm1d(5), jit.nn.Tanh())
    for count in (3, 40):
        x = jit.randn(count, 6) if isinstance(module, jit.nn.Linear) else jit.randn(count, 4, 7)
        jit.export_onnx(features, x, stage=1, training=True)


def test_tiny_results_of_a_half_and_something_agree():
    jit.export_onnx(lambda x: jit.sigmoid(x), jit.linspace(-9, -8, 40))


def test_the_floor_is_no_wider_than_rounding():
    zero, one = np.zeros(3, np.float32), np.ones(3, np.float32)
    assert compare(zero + 1e-7, zero, scale=1.0).message == ""
    assert compare(zero + 1e-6, zero, scale=1.0).message != ""
    assert compare(zero + 1e-7, zero, scale=0.1).message != ""  # nothing in the run is as large as 1
    assert compare(zero + 1e-6, zero, scale=1.0, noisy=zero + 5e-7).message == ""
    assert compare(zero + 1e-3, zero, scale=1.0, noisy=zero + 1).message != ""  # more than rounding can do
    assert compare(one * 1.01, one, scale=1.0, noisy=one).message != ""


def test_a_wrong_weight_shows_beside_the_noise():
    text = "graph(%x : Float(3)) { %y : Float(3) = aten::mul(%x, 2.0) return (%y) }"
    model = export(text)
    x = np.array([1e-4, 2.0, 3.0], np.float32)
    for wrong, wanted in ((False, 2 * x), (True, 2 * x + np.float32(1e-4))):
        noisy = (wanted * (1 + 1e-7)).astype(np.float32)
        with pytest.raises(VerificationError) if wrong else contextlib.nullcontext():
            verify_model(model, [{"x": x}], [[wanted]], noisy=[[noisy]].__getitem__)
