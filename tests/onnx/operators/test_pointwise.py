"""Gradients of pointwise operators are finite where a branch that is not taken overflows."""

from __future__ import annotations

import numpy as np
import onnx
import pytest

import jit


@pytest.mark.parametrize("kind", ["Celu", "Elu", "Selu", "Softplus", "Mish", "Swish", "HardSwish", "Gelu"])
def test_gradients_of_large_numbers_are_finite(kind):
    node = onnx.helper.make_node(kind, ["x"], ["y"])
    given, made = (onnx.helper.make_tensor_value_info(name, onnx.TensorProto.FLOAT, ["n"]) for name in "xy")
    graph = onnx.helper.make_graph([node], "g", [given], [made])
    model = onnx.helper.make_model(graph, opset_imports=[onnx.helper.make_opsetid("", 24)])
    x = jit.tensor([-200.0, -1.0, 0.5, 200.0], requires_grad=True)
    jit.import_onnx(model)(x).sum().backward()
    assert x.grad is not None and np.isfinite(x.grad.numpy()).all()
