"""What users say of functions in a model: overrides, bodies of autograd Functions, and domains of their own."""

from __future__ import annotations

from typing import Any

import numpy as np
import onnx
import pytest

import jit
from jit import nn
from jit.export import register_symbolic, unregister_symbolic
from jit.ir.errors import ExportError, UsageError, VerificationError

# -- overrides ---------------------------------------------------------------------------------------------------


@jit.symbolic_override(lambda g, x, factor=1.0: g.op("Elu", x, alpha=factor))
def elu(x: Any, factor: float = 1.0) -> Any:
    return jit.where(x > 0, x, factor * jit.expm1(x))


@jit.symbolic_override(
    lambda g, parts: g.op("Split", parts["all"], None, axis=1, num_outputs=2, outputs=2),
)
def halves(parts: Any) -> Any:
    first, second = parts["all"].chunk(2, 1)
    return {"first": first, "rest": [second]}


def test_a_call_becomes_what_the_symbolic_writes():
    report = jit.export_onnx(lambda x: elu(x * 2, factor=0.5), jit.randn(3, 4), dynamic_axes={"x": {0: "n"}})
    assert report.op_histogram == {"Elu": 1, "Mul": 1}
    assert report.outputs == {"output": "float32 (n, 4)"}
    assert report.verified is not None
    assert len(report.verified.sizes) == 2


def test_arguments_and_results_may_be_nests():
    def both(x: Any) -> Any:
        found = halves({"all": x})
        return found["first"] - found["rest"][0]

    assert jit.export_onnx(both, jit.randn(3, 4)).op_histogram == {"Split": 1, "Sub": 1}


def test_a_module_is_overridden_by_its_class():
    @jit.symbolic_override(lambda g, self, x: g.op("Gemm", x, g.constant(self.weight.detach().numpy())))
    class Product(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.weight = nn.Parameter(jit.randn(4, 2))

        def forward(self, x: Any) -> Any:
            return x @ self.weight

    net = nn.Sequential(Product(), nn.ReLU())
    assert jit.export_onnx(net, jit.randn(3, 4)).op_histogram == {"Gemm": 1, "Relu": 1}
    assert net(jit.randn(3, 4)).shape == (3, 2)


def test_elsewhere_the_function_is_itself():
    x = jit.randn(5, requires_grad=True)
    traced = jit.trace(lambda x: elu(x) * 2)
    traced(x)
    assert "override" not in str(traced.graph)
    assert jit.allclose(traced(x), elu(x) * 2)
    assert elu.__name__ == "elu"
    (gradient,) = jit.grad(traced(x).sum(), x)
    assert jit.allclose(gradient, 2 * jit.where(x > 0, 1, x.exp()))


def test_gradients_are_those_of_the_function():
    report = jit.export_onnx(lambda x: elu(x), jit.randn(5, requires_grad=True), stage=1)
    assert report.verified is not None
    assert "x.grad" in report.outputs


def test_what_the_function_changes_is_changed():
    seen = jit.zeros(3)

    @jit.symbolic_override(lambda g, x: (g.op("Neg", x), None))
    def count(x: Any) -> Any:
        seen.add_(1)
        return -x

    assert jit.export_onnx(count, jit.randn(3)).op_histogram == {"Neg": 1}
    assert seen.tolist() == [0, 0, 0]


def test_an_override_that_computes_something_else_is_found():
    wrong = jit.symbolic_override(lambda g, x: g.op("Sigmoid", x))(jit.tanh)
    with pytest.raises(VerificationError, match="override::tanh"):
        jit.export_onnx(lambda x: wrong(x) * 2, jit.randn(3))


def test_an_override_that_breaks_is_an_obstacle():
    broken = jit.symbolic_override(lambda g, x: x.no_such_attribute)(lambda x: x * 2)
    with pytest.raises(ExportError, match="its symbolic failed with AttributeError"):
        jit.export_onnx(lambda x: broken(x), jit.randn(3))
    with pytest.raises(UsageError, match="function"):
        jit.symbolic_override("Relu")  # type: ignore[arg-type]


# -- registered by opset -----------------------------------------------------------------------------------------


def test_the_newest_registered_form_that_an_opset_has_is_used():
    register_symbolic("aten::tanh", lambda g, x: g.op("Neg", g.op("Tanh", g.op("Neg", x))), since=15)
    register_symbolic("aten::tanh", lambda g, x: g.op("Identity", g.op("Tanh", x)), since=18)
    try:
        found = {opset: jit.export_onnx(jit.tanh, jit.randn(3), opset_version=opset) for opset in (13, 15, 17, 18, 20)}
    finally:
        unregister_symbolic("aten::tanh")
    assert [report.op_histogram.get("Neg", 0) for report in found.values()] == [0, 2, 2, 0, 0]


# -- autograd Functions ------------------------------------------------------------------------------------------


class Bounded(jit.autograd.Function):
    """Numbers within a limit; gradients pass there, doubled."""

    @staticmethod
    def forward(ctx: Any, x: Any, limit: float) -> Any:
        ctx.save_for_backward(x)
        ctx.limit = limit
        return x.clamp(-limit, limit)

    @staticmethod
    def backward(ctx: Any, g: Any) -> Any:
        (x,) = ctx.saved_tensors
        return 2 * g * (x.abs() <= ctx.limit), None


class Sine(jit.autograd.Function):
    """A function of numpy's."""

    @staticmethod
    def forward(ctx: Any, x: Any) -> Any:
        return jit.from_numpy(np.sin(x.detach().numpy()))

    @staticmethod
    def backward(ctx: Any, g: Any) -> Any:
        return g


def test_what_a_function_does_with_operators_is_in_the_model():
    report = jit.export_onnx(lambda x: Bounded.apply(x, 0.5) + 1, jit.randn(3, 4), dynamic_axes={"x": {0: "n"}})
    assert report.warnings == []
    assert report.op_histogram == {"Add": 1, "Max": 1, "Min": 1}


def test_its_backward_is_that_of_the_model():
    report = jit.export_onnx(lambda x: Bounded.apply(x, 0.5), jit.randn(3, 4, requires_grad=True), stage=1)
    assert report.verified is not None
    assert "LessOrEqual" in report.op_histogram


def test_its_symbolic_comes_first():
    class Known(Bounded):
        @staticmethod
        def symbolic(g: Any, x: Any, limit: float) -> Any:
            return g.op("Clip", x, g.constant(-limit), g.constant(limit))

    assert jit.export_onnx(lambda x: Known.apply(x, 0.5), jit.randn(3)).op_histogram == {"Clip": 1}
    register_symbolic("^Bounded", lambda g, x, limit: g.op("Clip", x, g.constant(-limit), g.constant(limit)))
    try:
        assert jit.export_onnx(lambda x: Bounded.apply(x, 0.5), jit.randn(3)).op_histogram == {"Clip": 1}
    finally:
        unregister_symbolic("^Bounded")


def test_foreign_code_is_refused_with_the_way_out():
    with pytest.raises(ExportError, match=r"\^Sine .*give it a static method"):
        jit.export_onnx(lambda x: Sine.apply(x) + 1, jit.randn(3))


def test_a_training_step_may_hold_a_function():
    weight = jit.randn(4, requires_grad=True)

    def step(x: Any) -> Any:
        loss = (Bounded.apply(x * weight, 1.0) ** 2).sum()
        (gradient,) = jit.grad(loss, weight)
        with jit.no_grad():
            weight.sub_(0.1 * gradient)
        return loss

    report = jit.export_onnx(step, jit.randn(3, 4), updates_as_outputs=True)
    assert list(report.outputs) == ["output", "weight.new"]
    assert report.verified is not None


# -- what ONNX does not know -------------------------------------------------------------------------------------


def spectrum(x: Any) -> Any:
    return Sine.apply(jit.linalg.svd(x)[1]) + jit.linalg.eigvalsh(x @ x.t())


def test_operators_fall_through_on_request(tmp_path):
    with pytest.raises(ExportError, match="for 3 reasons"):
        jit.export_onnx(spectrum, jit.randn(3, 3))
    path = tmp_path / "model.onnx"
    report = jit.export_onnx(spectrum, jit.randn(3, 3), path, fallthrough=True)
    assert report.verified is None
    assert "aten::linalg_svd, python::Sine, aten::linalg_eigh" in report.warnings[0]
    model = onnx.load(path)
    onnx.checker.check_model(model)
    assert {node.domain for node in model.graph.node} == {"", "aten", "python"}
    assert {each.domain for each in model.opset_import} == {"", "aten", "python"}


def test_nothing_falls_through_that_need_not():
    report = jit.export_onnx(lambda x: jit.tanh(x), jit.randn(3), fallthrough=True)
    assert report.verified is not None
    assert report.warnings == []
