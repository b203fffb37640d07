"""Targets of an export that have no Python code: functions that have been saved, and graphs."""

from __future__ import annotations

from typing import Any

import numpy as np
import onnxruntime
import pytest

import jit
from jit import nn
from jit.ir.errors import UsageError

X = jit.from_numpy(np.arange(6, dtype=np.float32).reshape(2, 3))


def saved(function: Any, path: Any, *calls: Any) -> Any:
    """A traced function as it comes out of its file, after some calls."""
    traced = jit.trace(function)
    for arguments in calls:
        traced(*arguments)
    traced.save(path)
    return jit.load(path)


def ran(path: Any, *arrays: Any) -> list[Any]:
    session = onnxruntime.InferenceSession(path)
    return session.run(None, dict(zip([given.name for given in session.get_inputs()], arrays, strict=True)))


def network() -> nn.Module:
    jit.manual_seed(0)
    return nn.Sequential(nn.Conv1d(1, 4, 2), nn.BatchNorm1d(4), nn.ReLU(), nn.Flatten(), nn.Linear(8, 2)).eval()


@pytest.mark.parametrize("recording", [jit.enable_grad, jit.no_grad])
def test_a_saved_network_is_exported_as_the_network(recording, tmp_path):
    net, x = network(), X[:, None]
    with recording():
        loaded = saved(net, tmp_path / "net.jit", (x,))
    direct = jit.export_onnx(net, x, tmp_path / "direct.onnx")
    report = jit.export_onnx(loaded, x, tmp_path / "loaded.onnx")
    assert report.verified is not None and report.op_histogram == direct.op_histogram
    assert (report.inputs, report.outputs) == (direct.inputs, direct.outputs)
    found, wanted = (ran(tmp_path / f"{name}.onnx", np.asarray(x)) for name in ("loaded", "direct"))
    np.testing.assert_array_equal(found, wanted)


def test_a_batch_of_any_size_though_one_size_was_recorded(tmp_path):
    net = network()
    loaded = saved(net, tmp_path / "net.jit", (X[:, None],))
    report = jit.export_onnx(loaded, X[:, None], tmp_path / "net.onnx", dynamic_axes={"input": {0: "batch"}})
    assert report.verified is not None and len(report.verified.sizes) == 2
    x = jit.randn(5, 1, 3)
    np.testing.assert_allclose(ran(tmp_path / "net.onnx", np.asarray(x))[0], np.asarray(net(x).detach()), atol=1e-6)


def test_structured_results_and_numbers_keep_their_names(tmp_path):
    traced = jit.trace(lambda a, *, b: {"sum": a + b, "count": 3})
    traced(X, b=X * 2)
    traced.save(tmp_path / "f.jit")
    loaded = jit.load(tmp_path / "f.jit")
    with pytest.raises(UsageError, match="has no trace for this call"):
        jit.export_onnx(loaded, X[:1], kwargs={"b": X[:1] * 2})
    report = jit.export_onnx(loaded, X, tmp_path / "f.onnx", kwargs={"b": X * 2})
    assert list(report.outputs) == ["sum", "count"]
    total, count = ran(tmp_path / "f.onnx", np.asarray(X), np.ones((2, 3), np.float32))
    assert count == 3 and (total == np.asarray(X) + 1).all()


def test_gradients_of_a_saved_network(tmp_path):
    net = nn.Linear(3, 2)
    loaded = saved(net, tmp_path / "net.jit", (X,))
    report = jit.export_onnx(loaded, X, tmp_path / "gradients.onnx", stage=1)
    assert report.verified is not None and list(report.outputs) == ["weight.grad", "bias.grad"]
    (by_weight, by_bias) = ran(tmp_path / "gradients.onnx", np.asarray(X), np.ones((2, 2), np.float32))
    np.testing.assert_allclose(by_weight, np.tile(np.asarray(X).sum(0), (2, 1)))
    np.testing.assert_allclose(by_bias, [2, 2])


def test_an_export_leaves_the_buffers_of_a_saved_network(tmp_path):
    loaded = saved(nn.BatchNorm1d(3), tmp_path / "norm.jit", (jit.randn(4, 3),))
    before = np.array(loaded.state_dict()["running_mean"])
    report = jit.export_onnx(loaded, jit.randn(4, 3))
    assert report.verified is not None
    np.testing.assert_array_equal(loaded.state_dict()["running_mean"], before)


# -- graphs ------------------------------------------------------------------------------------------------------


def graph_of(function: Any, *arguments: Any) -> Any:
    traced = jit.trace(function)
    traced(*arguments)
    return traced.graph


def test_a_graph_is_exported_with_every_input(tmp_path):
    net = nn.Linear(3, 2)
    graph, text = graph_of(net, X), str(graph_of(net, X))
    report = jit.export_onnx(
        graph, (X, net.weight, net.bias), tmp_path / "m.onnx", dynamic_axes={"input": {0: "batch"}}
    )
    assert report.verified is not None and len(report.verified.sizes) == 2
    assert list(report.inputs) == ["input", "weight", "bias"] and str(graph) == text
    x = jit.randn(7, 3)
    (result,) = ran(tmp_path / "m.onnx", np.asarray(x), np.asarray(net.weight.detach()), np.asarray(net.bias.detach()))
    np.testing.assert_allclose(result, np.asarray(net(x).detach()), atol=1e-6)


def test_inputs_of_a_graph_by_name():
    graph = graph_of(lambda a, b: a - b, X, X * 2)
    assert jit.export_onnx(graph, (), kwargs={"b": X, "a": X * 2}).verified is not None
    assert jit.export_onnx(graph, X, kwargs={"b": X * 2}, rtol=1e-3, verify_inputs=[(X, X)]).verified is not None
    for args, kwargs in (((X,), {}), ((X, X, X), {}), ((X,), {"c": X}), ((X, X), {"b": X})):
        with pytest.raises(UsageError, match="the graph has the inputs a, b, and given are"):
            jit.export_onnx(graph, args, kwargs=kwargs)


def test_gradients_of_a_graph():
    x = jit.randn(2, 3, requires_grad=True)
    traced = jit.trace(lambda x: (x * x).sum())
    traced(x).backward()
    report = jit.export_onnx(traced.graph, x, stage=1)
    assert report.verified is not None and len(report.outputs) == 1


def test_a_graph_that_draws():
    assert "random" in jit.export_onnx(graph_of(lambda a: jit.rand_like(a), X), (X,)).warnings[0]
