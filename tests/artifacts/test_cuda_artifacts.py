"""Traced functions whose tensors lie on a GPU as files: they come back there, or say why they cannot."""

from __future__ import annotations

import copy
import pickle
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import jit
from jit import nn

pytestmark = pytest.mark.usefixtures("gpu")


def network() -> Any:
    """A traced function that reads parameters, a transposed tensor, two views of one memory and a constant."""
    net = nn.Sequential(nn.Linear(3, 4), nn.BatchNorm1d(4), nn.Linear(4, 2)).to("cuda")
    turned = jit.arange(12.0, device="cuda").reshape(4, 3).t()
    memory = jit.arange(6.0, device="cuda")
    low, high = memory[:2], memory[3:5]
    return jit.trace(lambda x: net(x + turned.sum(1)) * low + high + jit.tensor([1.0, 2.0], device="cuda"))


def gradient(f: Any, x: jit.Tensor) -> Any:
    """That of a loss; that of a sum would be 0 behind a norm."""
    x = x.clone().requires_grad_()
    (f(x) ** 3).sum().backward()
    return x.grad.tolist()


def test_a_file_brings_its_tensors_back_to_the_device(tmp_path: Path) -> None:
    f, x = network(), jit.randn(5, 3, device="cuda")
    for _ in range(2):
        f(x)
        gradient(f, x)
    f.save(tmp_path / "f.jit")
    g = jit.load(tmp_path / "f.jit")
    assert all(t.is_cuda for t in g.state_dict().values()) and len(g.parameters()) == 6
    assert g(x).is_cuda and g(x).tolist() == f(x).tolist() and gradient(g, x) == gradient(f, x)
    g.save(tmp_path / "g.jit")
    for again in (jit.load(tmp_path / "g.jit"), copy.deepcopy(g), pickle.loads(pickle.dumps(f))):
        assert again(x).tolist() == g(x).tolist()


def test_views_share_memory_again(tmp_path: Path) -> None:
    memory = jit.zeros(4, device="cuda")
    low, whole = memory[:2], memory.view(2, 2)

    f = jit.trace(lambda x: x + low + whole)
    f(jit.ones(2, device="cuda"))
    f.save(tmp_path / "f.jit")
    g = jit.load(tmp_path / "f.jit")
    one, two = g.state_dict().values()
    assert one.data_ptr() == two.data_ptr() and one.is_cuda
    one.fill_(4)
    assert g(jit.ones(2, device="cuda")).tolist() == [[9, 9], [5, 5]]


def test_calls_with_tensors_elsewhere_are_refused(tmp_path: Path) -> None:
    f = jit.trace(lambda x: x * 2)
    f(jit.ones(2, device="cuda"))
    f.save(tmp_path / "f.jit")
    g = jit.load(tmp_path / "f.jit")
    assert g(jit.ones(2, device="cuda")).is_cuda
    with pytest.raises(jit.UsageError, match="x lies on 'cpu'"):
        g(jit.ones(2))


def test_a_device_that_is_not_there(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    f = network()
    f(jit.randn(5, 3, device="cuda"))
    f.save(tmp_path / "f.jit")
    monkeypatch.delenv("JIT_CUDA", raising=False)
    if jit.cuda.is_available():
        pytest.skip("there is a GPU")
    with pytest.raises(jit.UsageError, match=r"there is no device 'cuda:0' here.* save the function with its tensors"):
        jit.load(tmp_path / "f.jit")


# -- for another device ----------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "chosen",
    ["cpu", jit.device("cpu"), {"cuda:0": "cpu"}, {"cuda": "cpu", "cuda:0": "cpu"}, lambda empty, location: empty],
    ids=["text", "device", "dict", "dict of kinds", "function"],
)
def test_a_file_of_a_gpu_is_loaded_for_the_cpu(
    tmp_path: Path, chosen: Any, monkeypatch: pytest.MonkeyPatch, gpu: str
) -> None:
    f, x = network(), jit.randn(5, 3, device="cuda")
    wanted, slope = f(x).cpu(), gradient(f, x)
    path = tmp_path / "f.jit"
    f.save(path)
    if gpu == "simulated":
        monkeypatch.setenv("JIT_CUDA", "0")
    g = jit.load(path, map_location=chosen)
    assert all(t.is_cpu for t in g.state_dict().values())
    for _ in range(3):
        assert g(x.cpu()).is_cpu
        assert np.allclose(g(x.cpu()).tolist(), wanted.tolist(), rtol=1e-5, atol=1e-6)
        assert np.allclose(gradient(g, x.cpu()), slope, rtol=1e-4, atol=1e-4 * np.abs(slope).max())
    assert "cuda:0" not in str(g.graph)


def test_a_file_of_the_cpu_is_loaded_for_a_gpu(tmp_path: Path) -> None:
    table = jit.arange(6.0).reshape(3, 2)
    f = jit.trace(lambda x: x @ table + jit.zeros(2) + jit.tensor([1.0, 2.0]))
    wanted = f(jit.ones(4, 3))
    f.save(tmp_path / "f.jit")
    g = jit.load(tmp_path / "f.jit", "cuda")
    for _ in range(3):
        found = g(jit.ones(4, 3, device="cuda"))
        assert found.is_cuda and found.tolist() == wanted.tolist()
    assert jit.load(tmp_path / "f.jit", lambda empty, location: None)(jit.ones(4, 3)).is_cpu


def test_map_location_is_checked(tmp_path: Path) -> None:
    f = jit.trace(lambda x: x * 2)
    f(jit.ones(2))
    f.save(tmp_path / "f.jit")
    with pytest.raises(jit.Error, match="map_location is a device"):
        jit.load(tmp_path / "f.jit", 3)
    with pytest.raises(jit.UsageError, match="no device 'xpu'"):
        jit.load(tmp_path / "f.jit", "xpu")
