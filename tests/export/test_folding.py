"""What a model need not compute is computed at export: functions of weights, batch norms, the same twice."""

from __future__ import annotations

from collections import Counter

import numpy as np
import onnx
import onnxruntime
import pytest

import jit
from jit import nn
from jit.export.folding import ModelFolding
from jit.nn import functional as F


def exported(function, args, path, **options):
    """The model, after onnxruntime has agreed with the function."""
    jit.export_onnx(function, args, path, **options)
    return onnx.load(path)


def kinds(model):
    return Counter(node.op_type for node in model.graph.node)


def convolutions():
    conv = {1: nn.Conv1d, 2: nn.Conv2d, 3: nn.Conv3d}
    norm = {1: nn.BatchNorm1d, 2: nn.BatchNorm2d, 3: nn.BatchNorm3d}
    for dims in conv:
        for options in ({}, {"bias": False}, {"groups": 2}, {"stride": 2, "padding": 1}):
            yield dims, conv[dims](4, 6, 3, **options), norm[dims](6, eps=1e-3)


@pytest.mark.parametrize(("dims", "conv", "norm"), list(convolutions()), ids=str)
@pytest.mark.parametrize("affine", [True, False])
def test_batch_norms_become_part_of_convolutions(dims, conv, norm, affine, tmp_path):
    norm = type(norm)(6, eps=1e-3, affine=affine)
    net = nn.Sequential(conv, norm, nn.ReLU())
    shape = (4, 7, 8, 9)[: dims + 1]
    for _ in range(3):
        net(jit.randn(5, *shape))
    net.eval()
    model = exported(net, jit.randn(2, *shape), tmp_path / "m.onnx", dynamic_axes={"input": [0]})
    assert kinds(model)["BatchNormalization"] == 0
    whole = exported(net, jit.randn(2, *shape), tmp_path / "whole.onnx", fold=False)
    assert kinds(whole)["BatchNormalization"] == 1


def test_weights_with_a_batch_norm_in_them_keep_their_names(tmp_path):
    net = nn.Sequential(nn.Conv2d(3, 4, 3), nn.BatchNorm2d(4), nn.Conv2d(4, 5, 3, bias=False), nn.BatchNorm2d(5)).eval()
    net(jit.randn(2, 3, 9, 9))
    model = exported(net, jit.randn(2, 3, 9, 9), tmp_path / "m.onnx")
    assert {each.name for each in model.graph.initializer} == {"0.weight", "0.bias", "2.weight", "2.bias"}


def test_weights_that_are_results_too_stay_as_they_are(tmp_path):
    net = nn.Sequential(nn.Conv2d(3, 4, 3), nn.BatchNorm2d(4)).eval()
    net[1].running_var.fill_(4.0)
    jit.export_onnx(lambda x: (net(x), net[0].weight, net[0].bias), jit.randn(2, 3, 9, 9), tmp_path / "m.onnx")
    assert kinds(onnx.load(tmp_path / "m.onnx"))["BatchNormalization"] == 0


def test_batch_norms_that_cannot_become_part_stay(tmp_path):
    conv, norm = nn.Conv2d(3, 3, 3), nn.BatchNorm2d(3)
    x = jit.randn(2, 3, 6, 6)

    def both(x):
        y = conv(x)
        return norm(y) + y

    def first(x):
        y = conv(x)
        return y, norm(y)

    def shared(x):
        return norm(conv(x)), F.conv2d(x, conv.weight)

    norm.eval()
    for function in (both, first, shared):
        assert kinds(exported(function, x, tmp_path / "m.onnx"))["BatchNormalization"] == 1
    training = exported(nn.Sequential(conv, nn.BatchNorm2d(3)), x, tmp_path / "t.onnx", training=True)
    assert "0.weight" in {tensor.name for tensor in training.graph.initializer}
    kept = exported(nn.Sequential(conv, norm).eval(), x, tmp_path / "k.onnx", keep_initializers_as_inputs=True)
    assert kinds(kept)["BatchNormalization"] == 1


def test_a_batch_norm_at_the_end_gives_the_output(tmp_path):
    net = nn.Sequential(nn.Conv2d(2, 3, 1), nn.BatchNorm2d(3)).eval()
    model = exported(net, jit.randn(1, 2, 4, 4), tmp_path / "m.onnx", output_names=["y"])
    assert [value.name for value in model.graph.output] == ["y"] and kinds(model) == {"Conv": 1}


@pytest.mark.parametrize("layer", [nn.LSTM, nn.GRU, nn.RNN])
@pytest.mark.parametrize("options", [{}, {"bidirectional": True}, {"num_layers": 2}, {"bias": False}], ids=str)
def test_recurrent_weights_are_put_in_order(layer, options, tmp_path):
    model = exported(layer(3, 4, **options), jit.randn(5, 2, 3), tmp_path / "m.onnx")
    assert not {"Gather", "Unsqueeze", "Expand"} & set(kinds(model))


def test_weights_of_several_users_are_held_once(tmp_path):
    weight = nn.Parameter(jit.randn(100, 100))

    def tied(x):
        return F.linear(F.linear(x[None], weight), weight.t())

    model = exported(tied, jit.randn(2, 100), tmp_path / "m.onnx")
    held = [tensor for tensor in model.graph.initializer if np.prod(tensor.dims) >= weight.numel()]
    assert len(held) == 1


def test_normalized_weights_are_computed(tmp_path):
    net = nn.utils.parametrizations.weight_norm(nn.Linear(20, 10))
    model = exported(net, jit.randn(3, 20), tmp_path / "m.onnx")
    assert set(kinds(model)) == {"Gemm"}


def test_masks_and_ranges_are_constants(tmp_path):
    def masked(x):
        places = jit.arange(x.shape[-1])
        return x.masked_fill(places[:, None] < places, float("-inf")) + places.float().log1p()

    model = exported(masked, jit.randn(5, 5), tmp_path / "m.onnx")
    assert set(kinds(model)) <= {"Where", "Add"}


def test_what_would_be_large_is_not_folded(tmp_path):
    model = exported(lambda x: x + jit.ones(1, 1).expand(1000, 1000), jit.randn(1000, 1), tmp_path / "m.onnx")
    assert sum(tensor.ByteSize() for tensor in model.graph.initializer) < 1e6


def test_the_same_is_computed_once(tmp_path):
    def twice(x):
        a, b = x.exp(), x.exp()
        return (a + 1) * (b + 1)

    model = exported(twice, jit.randn(3), tmp_path / "m.onnx")
    assert kinds(model) == {"Exp": 1, "Add": 1, "Mul": 1}


def test_draws_are_not_shared(tmp_path):
    model = exported(lambda x: jit.rand_like(x) - jit.rand_like(x), jit.randn(3), tmp_path / "m.onnx")
    assert kinds(model)["RandomUniform"] + kinds(model)["RandomUniformLike"] == 2


def test_gradients_keep_their_weights(tmp_path):
    jit.export_onnx(nn.Sequential(nn.Linear(3, 2), nn.Tanh()), jit.randn(2, 3), tmp_path / "m.onnx", stage=1)
    names = {tensor.name for tensor in onnx.load(tmp_path / "m.onnx").graph.initializer}
    assert any("weight" in name for name in names)


def test_numbers_that_differ_in_the_last_digits_are_not_the_same():
    import onnx_ir

    size = onnx_ir.Value(name="size")
    filled = [
        onnx_ir.node("ConstantOfShape", [size], {"value": onnx_ir.tensor(np.array([number]))})
        for number in (0.1, 0.1 + 1e-12, 0.1)
    ]
    total = onnx_ir.node("Sum", [node.outputs[0] for node in filled])
    folding = ModelFolding([total.outputs[0]], 20, lambda array, name: size, lambda array, name: array, lambda value: 0)
    assert [node.op_type for node in folding.fold([*filled, total])] == ["ConstantOfShape", "ConstantOfShape", "Sum"]
    assert total.inputs[0] is total.inputs[2] is not total.inputs[1]


@pytest.mark.parametrize("layer", [nn.LSTM, nn.GRU, nn.RNN])
def test_states_of_zeros_that_runs_may_override_stay(layer, tmp_path):
    class Network(nn.Module):
        def __init__(self):
            super().__init__()
            self.layer = layer(3, 4)
            self.h, self.c = nn.Parameter(jit.zeros(1, 2, 4)), nn.Parameter(jit.zeros(1, 2, 4))

        def forward(self, x):
            return self.layer(x, (self.h, self.c) if layer is nn.LSTM else self.h)[0]

    net, x = Network(), jit.randn(5, 2, 3)
    jit.export_onnx(net, x, tmp_path / "m.onnx", keep_initializers_as_inputs=True)
    session = onnxruntime.InferenceSession(tmp_path / "m.onnx", providers=["CPUExecutionProvider"])
    other = jit.randn(1, 2, 4)
    (found,) = session.run(None, {"x": x.numpy(), "h": other.numpy()})
    with jit.no_grad():
        net.h.copy_(other)
        np.testing.assert_allclose(found, net(x).numpy(), rtol=1e-4, atol=1e-5)
