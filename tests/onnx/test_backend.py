"""ONNX's own backend tests: every node case, the models of its suites, and the reasons for those that are left out."""

from __future__ import annotations

import warnings
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import onnx.backend.test
import pytest
from onnx import numpy_helper

import jit
from jit.ir.errors import ModelError
from jit.onnx import backend

SUITES = Path(onnx.backend.test.__file__).parent / "data"
UNKNOWN = {
    "test_image_decoder": "decoding of image files is no work of tensors",
    "test_regex": "strings", "test_string": "strings", "test_strnorm": "strings", "test_tfidf": "strings",
    "test_ai_onnx_ml": "decision trees, labels and the like of ai.onnx.ml",
    "test_adam": "preview.training", "test_adagrad": "preview.training", "test_momentum": "preview.training",
    "test_nesterov": "preview.training", "test_gradient_of": "preview.training",
}  # fmt: skip
"""Beginnings of names of cases that are refused, and why."""
RANDOM = ("test_bernoulli", "test_training_dropout")
"""Beginnings of names of cases that draw numbers: their shapes and types are compared."""
HALF = {"float16": 2e-3, "bfloat16": 1.6e-2}
"""Two units in the last place: onnx's own tolerance is less than one for bfloat16."""


@cache
def node_cases() -> dict[str, Any]:
    from onnx.backend.test.case.node import collect_testcases

    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return {case.name: case for case in collect_testcases(None)}


def reason(name: str) -> str | None:
    return next((why for start, why in UNKNOWN.items() if name.startswith(start)), None)


def value_of(given: Any) -> Any:
    """An input or output as a case holds it: an array, or a message of onnx's."""
    if isinstance(given, onnx.TensorProto):
        return numpy_helper.to_array(given)
    if isinstance(given, onnx.SequenceProto):
        return numpy_helper.to_list(given)
    return numpy_helper.to_optional(given) if isinstance(given, onnx.OptionalProto) else given


def check(got: Any, want: Any, rtol: float, atol: float, drawn: bool = False) -> None:
    if want is None or isinstance(want, (list, tuple)):
        assert (got is None) == (want is None) and (want is None or len(got) == len(want))
        for part, other in zip(got or (), want or (), strict=True):
            check(part, other, rtol, atol)
        return
    got, want = np.asarray(got), np.asarray(want)
    assert (got.dtype, got.shape) == (want.dtype, want.shape)
    if want.dtype.kind in "OUS" or drawn:
        assert drawn or (got == want).all()
    elif want.dtype.kind in "fc" or want.dtype.name == "bfloat16":
        wide = np.complex128 if want.dtype.kind == "c" else np.float64
        rtol = max(rtol, HALF.get(want.dtype.name, 0.0))
        np.testing.assert_allclose(got.astype(wide), want.astype(wide), rtol, atol)
    else:
        np.testing.assert_array_equal(got.astype(np.float64), want.astype(np.float64))


def run_case(case: Any, traced: bool) -> None:
    prepared = backend.prepare(case.model, traced=traced)
    for inputs, outputs in case.data_sets:
        for _ in range(2 if traced else 1):
            found = prepared.run([value_of(value) for value in inputs])
            for got, want in zip(found, outputs, strict=True):
                check(got, value_of(want), case.rtol, case.atol, case.name.startswith(RANDOM))


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("name", sorted(node_cases()))
def test_node(name):
    if reason(name):
        with pytest.raises(ModelError):
            run_case(node_cases()[name], traced=False)
    else:
        run_case(node_cases()[name], traced=False)


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("name", sorted(name for name in node_cases() if not reason(name))[::19])
def test_node_from_recordings(name):
    run_case(node_cases()[name], traced=True)


def test_few_cases_are_left_out():
    left_out = [name for name in node_cases() if reason(name)]
    beside_strings = [name for name in left_out if "string" not in name and "strnorm" not in name]
    assert len(node_cases()) - len(left_out) >= 1500 and len(beside_strings) <= 120


# -- whole models --------------------------------------------------------------------------------------------------


def folders(*suites: str) -> list[Path]:
    return sorted(folder for suite in suites for folder in (SUITES / suite).iterdir() if folder.is_dir())


def messages(folder: Path, kind: str) -> list[Any]:
    """The inputs or outputs in a folder; what they are, a tensor or a sequence, is not said in the file."""
    files = sorted(folder.glob(f"{kind}_*.pb"), key=lambda path: int(path.stem.rpartition("_")[2]))
    return [file.read_bytes() for file in files]


def typed(content: bytes, value: onnx.ValueInfoProto) -> Any:
    message = onnx.SequenceProto() if value.type.HasField("sequence_type") else onnx.TensorProto()
    message.ParseFromString(content)
    return value_of(message)


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("folder", folders("pytorch-operator", "pytorch-converted", "simple"), ids=lambda f: f.name)
def test_model(folder):
    model = onnx.load(folder / "model.onnx")
    if reason(folder.name):
        with pytest.raises(ModelError):
            backend.run_model(model, [])
        return
    prepared = backend.prepare(model)
    weights = {tensor.name for tensor in model.graph.initializer}
    given = [value for value in model.graph.input if value.name not in weights]
    for data in sorted(folder.glob("test_data_set_*")):
        inputs = [typed(c, v) for c, v in zip(messages(data, "input"), given, strict=False)]
        wanted = [typed(c, v) for c, v in zip(messages(data, "output"), model.graph.output, strict=True)]
        for _ in range(2):
            for got, want in zip(prepared.run(inputs), wanted, strict=True):
                check(got, want, 1e-3, 1e-6)


LIGHT = sorted((SUITES / "light").glob("*.onnx"))
QUICK = ("light_shufflenet", "light_squeezenet")


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize(
    "path", [p if p.stem in QUICK else pytest.param(p, marks=pytest.mark.slow) for p in LIGHT], ids=lambda p: p.stem
)
@pytest.mark.parametrize("weights", ["equal", "drawn"])
def test_light_model(path, weights):
    """The networks of onnx's model zoo, whose weights are constants, and with drawn ones: as onnxruntime runs them."""
    model, rng = onnx.load(path), np.random.default_rng(0)
    if weights == "drawn":
        _draw_weights(model.graph, rng)
    known = {tensor.name for tensor in model.graph.initializer}
    given = [value for value in model.graph.input if value.name not in known]
    shapes = [[d.dim_value for d in value.type.tensor_type.shape.dim] for value in given]
    arrays = [rng.random(shape, np.float32) for shape in shapes]
    wanted = _by_onnxruntime(model, {v.name: a for v, a in zip(given, arrays, strict=True)})
    with jit.no_grad():
        imported = jit.import_onnx(model)
        for _ in range(2):
            found = imported(*map(jit.from_numpy, arrays))
            check(found.numpy(), wanted[0], 1e-3, 1e-6)
    assert imported.hits == 1


def _draw_weights(graph: onnx.GraphProto, rng: Any) -> None:
    """Make initializers of the nodes that fill weights with one number: elements of half to one and a half times it."""
    sizes = {tensor.name: numpy_helper.to_array(tensor) for tensor in graph.initializer}
    for node in [node for node in graph.node if node.op_type == "ConstantOfShape"]:
        fill = numpy_helper.to_array(node.attribute[0].t).item()
        drawn = fill * rng.uniform(0.5, 1.5, sizes[node.input[0]])
        graph.initializer.append(numpy_helper.from_array(drawn.astype(np.float32), node.output[0]))
        graph.node.remove(node)


def _by_onnxruntime(model: onnx.ModelProto, feed: dict[str, Any]) -> list[Any]:
    import onnxruntime

    options = onnxruntime.SessionOptions()
    options.log_severity_level = 4
    return onnxruntime.InferenceSession(model.SerializeToString(), options).run(None, feed)
