"""Modules as functions of a model: which there are, who shares them, and that the model computes what it did."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import onnx
import pytest

import jit
from jit import nn
from jit.ao.quantization import quantize_static
from jit.ir.errors import UsageError


class Block(nn.Module):
    def __init__(self, size: int) -> None:
        super().__init__()
        self.fc, self.norm, self.act = nn.Linear(size, size), nn.LayerNorm(size), nn.ReLU()

    def forward(self, x: Any) -> Any:
        return self.act(self.norm(self.fc(x))) * 2 + x


class Net(nn.Module):
    """Blocks that are alike, and an activation that is used twice."""

    def __init__(self) -> None:
        super().__init__()
        self.blocks = nn.Sequential(Block(4), Block(4), Block(4))
        self.act, self.head = nn.Sigmoid(), nn.Linear(4, 2)

    def forward(self, x: Any) -> Any:
        x = self.act(self.blocks(x)) * 3
        return self.act(self.head(x.reshape(x.shape[0], -1, 4)))


def exported(net: Any, path: Path, x: Any, **options: Any) -> Any:
    """The checked model of a network, which computes the same when it is imported."""
    report = jit.export_onnx(net, x, path, **options)
    assert report.verified is not None
    onnx.checker.check_model(path, full_check=True)
    with jit.no_grad():
        assert jit.allclose(jit.import_onnx(path)(x), net(x), atol=1e-5)
    return onnx.load(path)


def kinds(nodes: Any) -> list[str]:
    return [node.op_type for node in nodes]


@pytest.mark.parametrize("opset", [15, 18, 20, 22])
def test_alike_modules_share_a_function(opset, tmp_path):
    jit.manual_seed(0)
    axes = {"x": {0: "n"}}
    model = exported(
        Net().eval(), tmp_path / "m.onnx", jit.randn(3, 4), functions=[Block], dynamic_axes=axes, opset_version=opset
    )
    assert [function.name for function in model.functions] == ["Block"]
    assert kinds(model.graph.node).count("Block") == 3
    (block,) = model.functions
    assert list(block.input) == ["input", "fc.weight", "fc.bias", "norm.weight", "norm.bias"]
    assert [node.input[1] for node in model.graph.node if node.op_type == "Block"] == [
        f"blocks.{i}.fc.weight" for i in range(3)
    ]


def test_functions_call_the_functions_of_inner_modules(tmp_path):
    model = exported(Net().eval(), tmp_path / "m.onnx", jit.randn(3, 4), functions=True)
    bodies = {function.name: kinds(function.node) for function in model.functions}
    assert bodies["Sequential"] == ["Block"] * 3
    assert bodies["Block"] == ["Constant", "Linear", "LayerNorm", "ReLU", "Mul", "Add"]
    assert bodies["Sigmoid"] == ["Sigmoid"]
    assert kinds(model.graph.node).count("Sigmoid") == 2
    assert "Net" not in bodies
    for function in model.functions:
        names = [*function.input, *(name for node in function.node for name in node.output if name)]
        assert len(set(names)) == len(names)


def test_modules_that_differ_have_functions_of_their_own(tmp_path):
    net = nn.Sequential(nn.Linear(4, 4), nn.Linear(4, 4, bias=False), nn.ELU(0.5), nn.ELU(1.5), nn.Linear(4, 2))
    model = exported(net, tmp_path / "m.onnx", jit.randn(3, 4), functions=True)
    assert [function.name for function in model.functions] == ["Linear", "Linear_2", "ELU", "ELU_2"]
    assert kinds(model.graph.node) == ["Linear", "Linear_2", "ELU", "ELU_2", "Linear"]


def test_modules_within_a_function_of_the_users(tmp_path):
    net = Net().eval()
    report = jit.export_onnx(lambda x: net(x) + 1, jit.randn(3, 4), tmp_path / "m.onnx", functions=[Net])
    assert report.op_histogram == {"Add": 1, "Net": 1}


def test_several_results_and_results_of_the_model(tmp_path):
    class Two(nn.Module):
        def forward(self, x: Any) -> Any:
            return x * 2, jit.tanh(x)

    class Outer(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.two = Two()

        def forward(self, x: Any) -> Any:
            doubled, curved = self.two(x)
            return {"sum": doubled + curved, "curved": curved}

    path = tmp_path / "m.onnx"
    report = jit.export_onnx(Outer(), jit.randn(3), path, functions=True)
    onnx.checker.check_model(path, full_check=True)
    assert list(report.outputs) == ["sum", "curved"]
    assert report.op_histogram == {"Add": 1, "Two": 1}


def test_quantised_layers_are_functions(tmp_path):
    x = jit.randn(6, 4)
    small = quantize_static(nn.Sequential(nn.Linear(4, 4), nn.Linear(4, 4)), [x])
    model = exported(small, tmp_path / "m.onnx", x, functions=[nn.Linear])
    assert [function.name for function in model.functions] == ["Linear"]
    assert kinds(model.functions[0].node)[-1] == "Gemm"


def test_recurrent_and_attending_networks(tmp_path):
    class Reader(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.rnn, self.layer = (
                nn.GRU(4, 8, batch_first=True),
                nn.TransformerEncoderLayer(8, 2, 16, batch_first=True),
            )

        def forward(self, x: Any) -> Any:
            return self.layer(self.rnn(x)[0])

    model = exported(Reader().eval(), tmp_path / "m.onnx", jit.randn(2, 5, 4), functions=True)
    assert {"GRU", "TransformerEncoderLayer"} <= set(kinds(model.graph.node))


def test_old_formats_have_no_functions():
    with pytest.raises(UsageError, match="opset_version=15"):
        jit.export_onnx(Net(), jit.randn(3, 4), opset_version=14, functions=True)
    assert "Sequential" in jit.onnx.export(Net(), jit.randn(3, 4), export_modules_as_functions=True).op_histogram
    assert "Block" in jit.onnx.export(Net(), jit.randn(3, 4), export_modules_as_functions={Block}).op_histogram
