"""Exported training steps: three steps of the model, each from the state of the one before, are the program's."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import onnx
import onnxruntime
import pytest

import jit
from jit import nn
from jit.ir.errors import ExportError, UsageError
from tests.tolerances import assert_close

OPTIMIZERS = {
    "momentum": lambda p: jit.optim.SGD(p, lr=0.1, momentum=0.9, weight_decay=0.01),
    "plain": lambda p: jit.optim.SGD(p, lr=0.1),
    "adam": lambda p: jit.optim.Adam(p, lr=0.01),
    "adamw": lambda p: jit.optim.AdamW(p, lr=0.01, weight_decay=0.1),
}


class Training:
    """A network with a batch norm, its optimizer, and a step that trains it."""

    def __init__(self, optimizer: str = "momentum", bias: bool = False) -> None:
        jit.manual_seed(0)
        layers = nn.Linear(4, 8, bias=bias), nn.BatchNorm1d(8), nn.Tanh(), nn.Linear(8, 3)
        self.net = nn.Sequential(*layers)
        self.optimizer = OPTIMIZERS[optimizer](self.net.parameters())

    def step(self, x: Any, t: Any) -> Any:
        self.optimizer.zero_grad()
        loss = nn.functional.cross_entropy(self.net(x), t)
        loss.backward()
        self.optimizer.step()
        return loss

    def state(self) -> dict[str, Any]:
        """All of it: parameters, statistics, and what the optimizer keeps."""
        kept = self.optimizer.state_dict()["state"]
        inner = {f"state.{i}.{name}": value for i, row in kept.items() for name, value in row.items()}
        return {name: value.numpy().copy() for name, value in {**self.net.state_dict(), **inner}.items()}


def batch(count: int) -> tuple[Any, Any]:
    return jit.randn(count, 4), jit.randint(0, 3, (count,))


def export(training: Training, path: Path, count: int = 16, **options: Any) -> Any:
    return jit.export_onnx(training.step, batch(count), path, training=True, updates_as_outputs=True, **options)


def session(path: Path) -> Any:
    options = onnxruntime.SessionOptions()
    options.log_severity_level = 3
    return onnxruntime.InferenceSession(path, options, providers=["CPUExecutionProvider"])


def own_name(name: str) -> str:
    """The name that `Training.state` has for an input of the model."""
    return name.removeprefix("self.").removeprefix("net.").removeprefix("optimizer.")


@pytest.mark.parametrize("sizes", [(16, 16, 16), (5, 16, 7)], ids=["one size", "any size"])
@pytest.mark.parametrize("optimizer", OPTIMIZERS)
def test_three_steps_are_those_of_the_program(optimizer, sizes, tmp_path):
    training, path = Training(optimizer), tmp_path / "step.onnx"
    training.step(*batch(16))
    before = training.state()
    axes = {name: {0: ("n", 2, 64)} for name in ("x", "t")} if len(set(sizes)) > 1 else None
    report = export(training, path, dynamic_axes=axes)
    assert report.verified is not None
    assert not report.warnings
    for name, value in training.state().items():
        assert np.array_equal(value, before[name]), f"the export has changed {name}"
    onnx.checker.check_model(path, full_check=True)
    run = session(path)
    state: dict[str, Any] = {}
    for size in sizes:
        x, t = batch(size)
        found = run.run(None, {"x": x.numpy(), "t": t.numpy(), **state})
        outputs = dict(zip([output.name for output in run.get_outputs()], found, strict=True))
        assert_close(outputs["output"], training.step(x, t).detach().numpy())
        state = {name.removesuffix(".new"): value for name, value in outputs.items() if name.endswith(".new")}
        assert {own_name(name) for name in state} == training.state().keys()
        for name, value in state.items():
            assert_close(value, training.state()[own_name(name)], atol=1e-5)  # which Adam's division amplifies


def test_state_is_an_input_that_may_be_left_out(tmp_path):
    training, path = Training("plain"), tmp_path / "step.onnx"
    training.step(*batch(16))
    report = export(training, path)
    run = session(path)
    assert [value.name for value in run.get_inputs()] == ["x", "t"]
    open_to_runs = {value.name for value in run.get_overridable_initializers()}
    assert open_to_runs == {name.removesuffix(".new") for name in report.outputs} - {"output"}


def test_biases_before_norms_do_not_stop_adam(tmp_path):
    training = Training("adam", bias=True)  # whose gradients are rounding errors, divided by their own size
    training.step(*batch(16))
    assert export(training, tmp_path / "step.onnx").verified is not None


def test_a_state_that_is_yet_to_be_made_is_refused(tmp_path):
    training = Training("adam")
    with pytest.raises(ExportError, match="run before the export"):
        export(training, tmp_path / "step.onnx")
    assert training.optimizer.state_dict()["state"] == {}
    assert all(parameter.grad is None for parameter in training.net.parameters())


def test_gradients_that_add_up_are_state():
    training = Training("plain")
    x, t = batch(8)

    def accumulate(x: Any, t: Any) -> Any:
        loss = nn.functional.cross_entropy(training.net(x), t)
        loss.backward()
        return loss

    accumulate(x, t)
    report = jit.export_onnx(accumulate, (x, t), training=True, updates_as_outputs=True)
    assert sum(name.endswith(".grad.new") for name in report.outputs) == len(list(training.net.parameters()))


def test_what_a_function_writes_to_its_argument_is_an_output():
    def push(x: Any) -> Any:
        x.mul_(2)
        return x.sum()

    assert list(jit.export_onnx(push, jit.ones(3), updates_as_outputs=True).outputs) == ["output", "x.new"]
    assert list(jit.export_onnx(push, jit.ones(3)).outputs) == ["output"]


def test_without_gradients_running_statistics_are_state():
    norm = nn.BatchNorm1d(3)
    with jit.no_grad():
        report = jit.export_onnx(norm, jit.randn(8, 3), training=True, updates_as_outputs=True)
    assert {"running_mean.new", "running_var.new"} < report.outputs.keys()


def test_derivatives_have_no_updates():
    with pytest.raises(UsageError, match="stage 1"):
        jit.export_onnx(nn.Linear(2, 2), jit.ones(1, 2), stage=1, updates_as_outputs=True)
