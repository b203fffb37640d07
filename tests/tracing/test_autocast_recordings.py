"""Recordings and `autocast`: regions around calls and inside of functions, what they are keyed by, and export."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

import jit
from jit import nn


@pytest.fixture
def net() -> nn.Sequential:
    jit.manual_seed(4)
    return nn.Sequential(nn.Linear(4, 8), nn.LayerNorm(8), nn.GELU(), nn.Linear(8, 2), nn.Softmax(-1))


def run(function: Any, net: nn.Sequential, x: jit.Tensor) -> list[np.ndarray]:
    """The result of a function and the gradients of the parameters."""
    net.zero_grad()
    result = function(x)
    (result.float() ** 2).sum().backward()
    return [result.detach().float().numpy(), *(p.grad.numpy() for p in net.parameters())]


def test_a_region_within_a_function_gives_what_eager_mode_gives(net: nn.Sequential) -> None:
    def function(x: jit.Tensor) -> jit.Tensor:
        with jit.autocast("cpu"):
            return net(x)

    traced, x = jit.trace(function, optimize=False), jit.randn(3, 4)
    wanted = run(function, net, x)
    for _ in range(4):
        for found, other in zip(run(traced, net, x), wanted, strict=True):
            assert np.array_equal(found, other)
    assert traced.hits == 3
    forward, *_ = str(traced.graph).split("---- stage 1")
    assert forward.count("_to_copy[dtype=jit.bfloat16]") == 6  # two inputs, two weights, two biases


def test_a_region_around_a_call_is_part_of_the_key(net: nn.Sequential) -> None:
    traced, x = jit.trace(net), jit.randn(3, 4)
    for _ in range(3):
        assert traced(x).dtype is jit.float32
        with jit.autocast("cpu"):
            assert traced(x).dtype is net(x).dtype is jit.bfloat16
        with jit.autocast("cpu", dtype=jit.float16):
            assert traced(x).dtype is jit.float16
        with jit.autocast("cpu"), jit.autocast("cpu", enabled=False):
            assert traced(x).dtype is jit.float32
    assert (traced.misses, traced.hits) == (3, 9)
    with jit.autocast("cpu", dtype=jit.float16), jit.no_grad():
        traced(x)
    assert "autocast" in traced.explain() or "gradients" in traced.explain()


def test_explain_names_the_region() -> None:
    traced, x = jit.trace(lambda x: x @ x), jit.ones(2, 2)
    traced(x)
    with jit.autocast("cpu"):
        traced(x)
        assert "autocast is set to cpu bfloat16 now" in traced.explain()


def test_a_kept_cast_of_eager_code_is_none_of_a_recording(net: nn.Sequential) -> None:
    traced, x = jit.trace(net), jit.randn(3, 4)
    with jit.autocast("cpu"):
        net(x)
        for _ in range(3):
            traced(x)
        with jit.no_grad():
            net[3].bias.add_(100.0)
        net[4] = nn.Identity()
        assert traced(x).mean().item() > 90
    assert not [capture for capture in traced.graph.inputs if "captured" in capture.name]


def test_composites_whose_parts_are_cast_are_recorded_as_their_parts() -> None:
    @jit.trace
    def function(x: jit.Tensor) -> jit.Tensor:
        with jit.autocast("cpu"):
            return jit.inner(x, x)

    x = jit.ones(2, 3)
    assert [function(x).dtype for _ in range(3)] == [jit.bfloat16] * 3
    assert "aten::inner" not in str(function.graph) and "_to_copy" in str(function.graph)


def test_second_derivatives_of_recordings() -> None:
    def function(x: jit.Tensor) -> jit.Tensor:
        with jit.autocast("cpu"):
            return (x @ x.T).float().sum() ** 2

    traced, x = jit.trace(function), jit.tensor([[0.5, -0.25]], requires_grad=True)
    for _ in range(4):
        found = [jit.grad(jit.grad(f(x), x, create_graph=True)[0].sum(), x)[0] for f in (function, traced)]
        assert found[0].dtype is jit.float32 and np.allclose(found[0].numpy(), found[1].numpy(), rtol=0.01)


def test_functions_of_users_run_in_the_region_in_which_they_were_recorded() -> None:
    class Product(jit.autograd.Function):
        @staticmethod
        def forward(ctx: Any, x: jit.Tensor) -> jit.Tensor:
            return (x @ x).float() + (1 if jit.is_autocast_enabled("cpu") else 0)

        @staticmethod
        def backward(ctx: Any, g: jit.Tensor) -> jit.Tensor:
            return g

    @jit.trace
    def function(x: jit.Tensor) -> jit.Tensor:
        with jit.autocast("cpu"):
            made = Product.apply(x)
        return made + Product.apply(x)

    x = jit.ones(2, 2)
    assert [function(x).sum().item() for _ in range(3)] == [20.0] * 3
    x.requires_grad_()
    assert [function(x).sum().item() for _ in range(3)] == [20.0] * 3


def test_checkpoints_in_recordings(net: nn.Sequential) -> None:
    def function(x: jit.Tensor) -> jit.Tensor:
        with jit.autocast("cpu"):
            return net[3](jit.checkpoint(lambda x: net[2](net[1](net[0](x))), x)) + net[3](jit.ones(3, 8))

    traced, x = jit.trace(function), jit.randn(3, 4)
    wanted = run(function, net, x)
    for _ in range(3):
        for found, other in zip(run(traced, net, x), wanted, strict=True):
            assert np.allclose(found, other, rtol=0.05, atol=0.02)


def test_saved_recordings_keep_their_region(tmp_path: Path, net: nn.Sequential) -> None:
    traced, x = jit.trace(net), jit.randn(3, 4)
    with jit.no_grad():
        traced(x)
        with jit.autocast("cpu"):
            for _ in range(3):  # from the second call on it is a plan that computes
                wanted = traced(x)
        traced.save(tmp_path / "net.jit")
        loaded = jit.load(tmp_path / "net.jit")
        assert loaded(x).dtype is jit.float32
        with jit.autocast("cpu"):
            assert loaded(x).dtype is jit.bfloat16
            assert np.array_equal(loaded(x).float().numpy(), wanted.float().numpy())


def test_export(tmp_path: Path) -> None:
    layer = nn.Linear(3, 2)

    def function(x: jit.Tensor) -> jit.Tensor:
        with jit.autocast("cpu", dtype=jit.float16):
            return layer(x).float()

    jit.export_onnx(function, (jit.ones(2, 3),), tmp_path / "layer.onnx")
    imported = jit.import_onnx(tmp_path / "layer.onnx") if hasattr(jit, "import_onnx") else None
    assert imported is None or np.allclose(imported(jit.ones(2, 3)).numpy(), function(jit.ones(2, 3)).detach().numpy())


def test_on_the_simulated_device(monkeypatch: pytest.MonkeyPatch, net: nn.Sequential) -> None:
    monkeypatch.setenv("JIT_CUDA", "simulate")
    moved, x = net.to("cuda"), jit.randn(3, 4).to("cuda")
    traced = jit.trace(moved)
    for _ in range(3):
        with jit.autocast("cuda"):
            found = traced(x)
        assert found.dtype is moved(x).dtype is jit.float32  # a softmax computes in float32 on GPUs
        assert np.allclose(found.detach().cpu().numpy(), moved(x).detach().cpu().numpy(), atol=0.01)
    assert "Half" in str(traced.graph)
