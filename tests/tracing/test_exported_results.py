"""Results of exported functions: numbers among them are outputs, and what a model cannot give is told."""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass
from typing import Any

import numpy as np
import onnxruntime
import pytest

import jit

X = jit.from_numpy(np.arange(6, dtype=np.float32).reshape(2, 3))


@dataclass
class Found:
    mean: Any
    count: int
    ratio: float


RESULTS = {
    "a number behind": lambda x: (x * 2, 3),
    "a number between": lambda x: (x * 2, 3, x + 1),
    "a float and a bool": lambda x: (2.5, x * 2, True),
    "numpy's": lambda x: (np.float32(2.5), x * 2, np.int8(2)),
    "by keys": lambda x: {"scores": x * 2, "count": 3, "nothing": None},
    "by fields": lambda x: Found(x.mean(), 3, 0.1),
    "a size": lambda x: (x * 2, x.shape[0], x.shape),
    "an element": lambda x: (x * 2, x.sum().item()),
    "nested": lambda x: [(x, 1), {"more": [2, x * 2]}],
    "a bounded queue": lambda x: deque([x * 2, 4], maxlen=7),
    "alone": lambda x: 3,
}


def arrays(value: Any) -> list[Any]:
    """The numbers and tensors of a nest."""
    if isinstance(value, jit.Tensor):
        return [np.asarray(value)]
    if isinstance(value, Found):
        return arrays((value.mean, value.count, value.ratio))
    if isinstance(value, dict):
        return arrays(list(value.values()))
    if isinstance(value, (list, tuple, deque)):
        return [array for item in value for array in arrays(item)]
    return [] if value is None else [np.asarray(value)]


@pytest.mark.parametrize("dynamic", [None, {"x": {0: "batch"}}])
@pytest.mark.parametrize("name", RESULTS)
def test_every_number_is_an_output_in_its_place(name, dynamic, tmp_path):
    report = jit.export_onnx(RESULTS[name], X, tmp_path / "m.onnx", dynamic_axes=dynamic)
    assert report.verified is not None and not report.warnings
    session = onnxruntime.InferenceSession(tmp_path / "m.onnx")
    for x in (X, jit.cat([X, X]) if dynamic else X):
        got = session.run(None, {given.name: np.asarray(x) for given in session.get_inputs()})
        want = arrays(RESULTS[name](x))
        assert [(a.shape, a.dtype) for a in got] == [(a.shape, a.dtype) for a in want]
        assert all(np.allclose(a, b) for a, b in zip(got, want, strict=True))


def test_outputs_are_called_after_keys_and_fields():
    assert list(jit.export_onnx(RESULTS["by keys"], X).outputs) == ["scores", "count"]
    assert list(jit.export_onnx(RESULTS["by fields"], X).outputs) == ["mean", "count", "ratio"]
    names = ["a", "b", "c"]
    assert list(jit.export_onnx(RESULTS["a number between"], X, output_names=names).outputs) == names


@pytest.mark.parametrize("odd", ["text", 1 << 70, jit.float32, 1j])
def test_what_a_model_cannot_give_is_told(odd):
    report = jit.export_onnx(lambda x: {"sum": x.sum(), "odd": odd}, X)
    assert list(report.outputs) == ["sum"]
    kind = type(odd).__name__
    assert report.warnings == [f"'odd' of the results is of type {kind}, and left out of the model's outputs"]


# -- what to verify with ------------------------------------------------------------------------------------------


def sizes_of(report: Any) -> list[list[int]]:
    return [each["x"] for each in report.verified.sizes]


def test_further_inputs_to_verify_with():
    report = jit.export_onnx(lambda x: x * 2, X, verify_inputs=[X + 1, (X * 3,)])
    assert sizes_of(report) == [[2, 3]] * 3


def test_further_sizes_to_verify_with():
    dynamic: Any = {"x": {0: "batch", 1: ("width", 1, 9)}}
    wanted = [{"batch": 7}, {"batch": 4, "width": 9}, (jit.randn(6, 5),)]
    report = jit.export_onnx(lambda x: x.softmax(-1), X, dynamic_axes=dynamic, verify_inputs=wanted)
    assert sizes_of(report)[2:] == [[7, 3], [4, 9], [6, 5]]
    for sizes, words in (({"length": 7}, "no dynamic axis 'length'"), ({"width": 10}, "not for the sizes .*width=10")):
        with pytest.raises(jit.Error, match=words):
            jit.export_onnx(lambda x: x.softmax(-1), X, dynamic_axes=dynamic, verify_inputs=[sizes])


def test_further_inputs_reach_the_other_side_of_what_the_first_ones_decide():
    def f(x: Any) -> Any:
        return jit.where(x > 0, x, x * wrong) if jit.onnx.is_in_onnx_export() else jit.where(x > 0, x, x * 0.1)

    wrong = 0.2
    assert jit.export_onnx(f, X + 1).verified is not None
    with pytest.raises(jit.VerificationError):
        jit.export_onnx(f, X + 1, verify_inputs=[-X - 1])


def off(by: float, to: float = 0.0) -> Any:
    """A function whose model is off by as much, relative to its result, and besides."""
    return lambda x: x * (1 + by) + to if jit.onnx.is_in_onnx_export() else x * 1.0


def test_tolerances_of_the_users_own():
    function = off(1e-3)
    with pytest.raises(jit.VerificationError):
        jit.export_onnx(function, X)
    assert jit.export_onnx(function, X, rtol=2e-3).verified is not None
    assert jit.export_onnx(function, X, atol=1e-2).verified is not None
    with pytest.raises(jit.VerificationError):
        jit.export_onnx(function, X, atol=1e-4)
    assert jit.export_onnx(off(0, 2e-6), X).verified is not None
    with pytest.raises(jit.VerificationError):
        jit.export_onnx(off(0, 2e-6), X, rtol=0, atol=0)
    wrong: Any
    for wrong in (-1, "much", float("nan")):
        with pytest.raises(jit.UsageError, match="atol must be a number of at least 0"):
            jit.export_onnx(function, X, atol=wrong)
