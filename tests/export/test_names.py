"""Names of a model's inputs and outputs: the user's first, then those of the program."""

from __future__ import annotations

from typing import NamedTuple

import onnx
import pytest

import jit
from jit import nn

X = jit.ones(2, 3)


class Encoded(NamedTuple):
    mean: jit.Tensor
    spread: jit.Tensor


def outputs(function, args=(X,), **options):
    return list(jit.export_onnx(function, args, **options).outputs)


@pytest.mark.parametrize(("function", "names"), [
    (lambda x: {"p": x * 2, "q": x + 1}, ["p", "q"]),
    (lambda x: {"p": x * 2, "q": (x + 1, x - 1)}, ["p", "q.0", "q.1"]),
    (lambda x: Encoded(x * 2, x + 1), ["mean", "spread"]),
    (lambda x: (x * 2, x + 1), ["output_0", "output_1"]),
    (lambda x: x * 2, ["output"]),
    (lambda x: {"p": x * 2, "count": 3}, ["p", "count"]),
    (lambda x: {"x": x * 2}, ["x_1"]),
])  # fmt: skip
def test_results_are_named_by_keys_and_fields(function, names):
    assert outputs(function) == names


def test_gradients_are_named_after_their_inputs():
    net = nn.Sequential(nn.Linear(3, 4), nn.Linear(4, 1))
    weights = ["0.weight.grad", "0.bias.grad", "1.weight.grad", "1.bias.grad"]
    assert outputs(net, stage=1) == weights
    assert outputs(net, jit.ones(2, 3, requires_grad=True), stage=1) == ["input.grad", *weights]
    named = outputs(net, jit.ones(2, 3, requires_grad=True), stage=1, input_names=["image", "seed"])
    assert named == ["image.grad", *weights]


def test_undefined_gradients_are_told_by_name():
    unused = nn.Parameter(jit.ones(3))
    report = jit.export_onnx(lambda a, b: (a * 2 + unused.detach()).sum(), (X.clone().requires_grad_(), X), stage=1)
    assert list(report.outputs) == ["a.grad"]


def test_names_that_are_given_come_first(tmp_path):
    report = jit.export_onnx(
        nn.Linear(3, 2), X, tmp_path / "m.onnx", input_names=["bias"], output_names=["weight"], metadata={"by": "test"}
    )
    assert (list(report.inputs), list(report.outputs)) == (["bias"], ["weight"])
    model = onnx.load(tmp_path / "m.onnx")
    assert {p.key: p.value for p in model.metadata_props} == {"by": "test"}
    assert not {"bias", "weight"} & {tensor.name for tensor in model.graph.initializer}
