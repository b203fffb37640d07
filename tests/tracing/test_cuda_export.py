"""Models on a GPU, wholly or in part: exported, verified, and trained; on the simulated device."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

import jit
from jit import nn
from tests.tolerances import assert_close

pytestmark = pytest.mark.usefixtures("gpu")


class Mixed(nn.Module):
    """A table on the CPU, and layers on another device."""

    def __init__(self, device: str) -> None:
        super().__init__()
        jit.manual_seed(2)
        self.table = nn.Embedding(10, 4)
        self.layers = nn.Sequential(nn.Linear(4, 6), nn.LayerNorm(6), nn.GELU(), nn.Linear(6, 3))
        self.layers.to(device)

    def forward(self, ids: Any) -> Any:
        return self.layers(self.table(ids).to(self.layers[0].weight.device))


def run(path: Path, **feeds: Any) -> Any:
    import onnxruntime

    session = onnxruntime.InferenceSession(str(path), providers=["CPUExecutionProvider"])
    return session.run(None, {name: t.cpu().numpy() for name, t in feeds.items()})


def test_a_network_is_exported_and_verified(tmp_path: Path) -> None:
    net = nn.Sequential(nn.Conv2d(1, 3, 3), nn.BatchNorm2d(3), nn.ReLU(), nn.Flatten(), nn.Linear(108, 2)).to("cuda")
    net.eval()
    x, path = jit.randn(5, 1, 8, 8, device="cuda"), tmp_path / "net.onnx"
    report = jit.export_onnx(net, x, str(path), input_names=["x"], dynamic_axes={"x": {0: "batch"}})
    verified: Any = report.verified
    assert [sizes["x"][0] for sizes in verified.sizes] == [5, 6] and verified.max_abs_error < 1e-5
    assert_close(jit.from_numpy(run(path, x=x)[0]), net(x).detach().cpu(), rtol=1e-5, atol=1e-5)


def test_a_wrong_model_is_found_out(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(jit.ir.op.REGISTRY["aten::tanh"], "symbolic", "Sin")
    with pytest.raises(jit.VerificationError, match="tanh"):
        jit.export_onnx(lambda x: jit.tanh(x) * 2, jit.randn(5, device="cuda"))


def test_sizes_that_depend_on_elements_and_derivatives_are_exported() -> None:
    verified: Any = jit.export_onnx(lambda x: x[x > 0] * 2, jit.tensor([1.0, -1.0, 2.0], device="cuda")).verified
    assert len(verified.sizes) > 1
    weight = jit.tensor([2.0, 3.0], device="cuda", requires_grad=True)
    verified = jit.export_onnx(lambda x: (x * weight).tanh(), jit.ones(2, device="cuda"), stage=1).verified
    assert verified.max_abs_error < 1e-6


@pytest.mark.parametrize("traced", [False, True])
def test_a_model_in_two_places_learns(traced: bool) -> None:
    def trained(device: str) -> list[Any]:
        net = Mixed(device)

        def loss_of(ids: Any) -> Any:
            return (net(ids) ** 2).sum()

        run: Any = jit.trace(loss_of) if traced else loss_of
        optimizer = jit.optim.Adam(net.parameters(), lr=0.05)
        for start in (0, 3, 5, 2):
            optimizer.zero_grad()
            run(jit.arange(start, start + 5)).backward()
            optimizer.step()
        assert net.table.weight.grad.is_cpu and net.layers[0].weight.grad.device == net.layers[0].weight.device
        assert not traced or run.hits == 3
        return [p.detach().cpu() for p in net.parameters()]

    for one, two in zip(trained("cuda"), trained("cpu"), strict=True):
        assert_close(one, two, rtol=1e-4, atol=1e-5)


def test_a_model_in_two_places_is_exported_and_saved(tmp_path: Path) -> None:
    net, ids = Mixed("cuda").eval(), jit.tensor([1, 7, 3])
    jit.export_onnx(net, ids, str(tmp_path / "net.onnx"), input_names=["ids"], dynamic_axes={"ids": {0: "n"}})
    assert_close(jit.from_numpy(run(tmp_path / "net.onnx", ids=ids)[0]), net(ids).detach().cpu(), rtol=1e-5, atol=1e-5)
    traced = jit.trace(net)
    wanted = traced(ids)
    traced.save(tmp_path / "net.jit")
    loaded = jit.load(tmp_path / "net.jit")
    assert loaded(ids).is_cuda
    assert_close(loaded(ids).detach().cpu(), wanted.detach().cpu(), rtol=1e-6, atol=1e-6)
    assert {t.device.type for t in loaded.state_dict().values()} == {"cpu", "cuda"}


def test_traced_functions_are_verified() -> None:
    weight = jit.tensor([2.0, 3.0], device="cuda", requires_grad=True)
    x = jit.ones(2, device="cuda", requires_grad=True)
    jit.verify(lambda x: (x * weight).tanh().sum(), (x,))
    calls: list[int] = []

    def hides_a_change(x: Any) -> Any:
        calls.append(1)
        return x * len(calls)

    with pytest.raises(jit.VerificationError):
        jit.verify(hides_a_change, (x,))
