"""Fused kernels on a GPU: the simulated device executes the PTX that a driver would get."""

from __future__ import annotations

import ctypes
from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest

import jit
from jit import nn
from jit.runtime.cuda import devices, launching
from tests.passes.test_fuse_rows import ONE_KERNEL
from tests.runtime.interpreting_driver import InterpretingDriver
from tests.tolerances import assert_close

pytestmark = [pytest.mark.llvm, pytest.mark.usefixtures("gpu")]


class CountingDriver:
    """The driver of a GPU, which counts the launches of kernels one by one."""

    SIGNATURE = ctypes.CFUNCTYPE(
        ctypes.c_int, ctypes.c_void_p, *[ctypes.c_uint] * 7, ctypes.c_void_p, ctypes.c_void_p, ctypes.c_void_p
    )

    def __init__(self, driver: launching.Driver) -> None:
        assert driver.functions is not None
        self._driver, self._names = driver, dict[Any, str]()
        self.launches: list[str] = []
        self.check, self.attach = driver.check, driver.attach
        launch = self.SIGNATURE(driver.functions.launch_kernel)

        def counted(function: Any, *rest: Any) -> int:
            self.launches.append(self._names[function])
            return int(launch(function, *rest))

        self._counted = self.SIGNATURE(counted)
        address = ctypes.cast(self._counted, ctypes.c_void_p).value or 0
        self.functions = driver.functions._replace(launch_kernel=address)
        self.cublas = driver.cublas

    def load(self, ptx: str, name: str) -> Any:
        function = self._driver.load(ptx, name)
        self._names[function] = name
        return function

    def launch(self, function: Any, *rest: Any) -> None:
        self.launches.append(self._names[function])
        self._driver.launch(function, *rest)


@pytest.fixture
def driver(gpu: str, monkeypatch: pytest.MonkeyPatch) -> Iterator[Any]:
    """What loads and launches kernels: the interpreter, or a GPU's driver."""
    if gpu == "simulated":
        made: Any = InterpretingDriver()
        launching.use(made)
        yield made
        launching.use(launching.NoDriver())
    else:
        library = devices.open_device(0)
        made = CountingDriver(library._driver())
        monkeypatch.setattr(library, "_driver", lambda: made)
        monkeypatch.setenv("JIT_CUDA_GRAPHS", "0")
        yield made


def tensors(arrays: Any, device: str) -> list[Any]:
    return [jit.from_numpy(np.array(a)).to(device) for a in arrays]


@pytest.mark.parametrize("name", ONE_KERNEL)
def test_groups_of_rows_are_one_kernel(name: str, driver: Any) -> None:
    function, arrays = ONE_KERNEL[name]
    traced = jit.trace(function)
    wanted = function(*tensors(arrays, "cpu"))
    for _ in range(2):
        found = traced(*tensors(arrays, "cuda"))
    many = found if isinstance(found, (tuple, list)) else [found]
    for one, two in zip(many, wanted if isinstance(wanted, (tuple, list)) else [wanted], strict=True):
        assert one.is_cuda
        assert_close(one.cpu(), two, rtol=1e-5, atol=1e-5)
    assert len(driver.launches) == 1


def test_a_step_of_training_runs_in_kernels(driver: Any) -> None:
    def losses(device: str, traced: bool) -> list[float]:
        jit.manual_seed(7)
        net = nn.Sequential(nn.Linear(6, 16), nn.GELU(), nn.LayerNorm(16), nn.Linear(16, 3))
        batches = [(jit.randn(8, 6), jit.randint(0, 3, (8,))) for _ in range(4)]
        net = net.to(device)
        optimizer = jit.optim.Adam(net.parameters(), lr=0.05)

        def step(x: Any, target: Any) -> Any:
            optimizer.zero_grad()
            loss = nn.functional.cross_entropy(net(x), target)
            loss.backward()
            optimizer.step()
            return loss.detach()

        step = jit.trace(step) if traced else step
        return [float(step(x.to(device), target.to(device))) for x, target in batches]

    assert losses("cuda", True) == pytest.approx(losses("cpu", False), rel=1e-5)
    assert any("gelu" in name for name in driver.launches) and any("norm" in name for name in driver.launches)


def test_a_kernel_that_fails_says_so(driver: Any) -> None:
    f = jit.trace(lambda x, y: (x + 1) // y)
    x = jit.tensor([6, 7], device="cuda")
    for _ in range(3):
        assert f(x, jit.tensor([2, 3], device="cuda")).tolist() == [3, 2]
    with pytest.raises(jit.DivisionError):
        f(x, jit.tensor([2, 0], device="cuda"))
    assert driver.launches


def test_without_a_driver_operators_run_one_by_one(gpu: str) -> None:
    f = jit.trace(lambda x: jit.tanh(x * 2) + 1)
    x = jit.ones(3, device="cuda")
    for _ in range(3):
        assert_close(f(x).cpu(), np.tanh(2 * np.ones(3, np.float32)) + 1, rtol=1e-6, atol=1e-6)


def test_views_that_begin_anywhere(driver: Any) -> None:
    f = jit.trace(lambda x: jit.exp(x) * 2 - x)
    whole = jit.randn(200)
    for start in (0, 1, 3):
        part = whole[start : start + 150]
        for _ in range(2):
            assert_close(f(whole.cuda()[start : start + 150]).cpu(), f(part), rtol=1e-6, atol=1e-6)
    assert driver.launches


def test_kernels_serve_sizes_that_vary(driver: Any) -> None:
    loaded: list[str] = []
    load = driver.load

    def noting(ptx: str, name: str) -> Any:
        loaded.append(name)
        return load(ptx, name)

    driver.load = noting
    f = jit.trace(lambda x: jit.softmax(jit.tanh(x) * 2, -1).sum(0) * x.shape[0])
    for rows in (5, 6, 7, 9, 12, 7):
        x = jit.randn(rows, 33)
        assert_close(f(x.cuda()).cpu(), jit.softmax(jit.tanh(x) * 2, -1).sum(0) * rows, rtol=1e-5, atol=1e-6)
    assert f.misses <= 2 and len(driver.launches) == 2 * f.hits
    assert loaded.count("tanh_mul_softmax") == 1 and driver.launches.count("tanh_mul_softmax") > 1


def test_gradients_of_sizes_that_vary(driver: Any) -> None:
    net = nn.Sequential(nn.Linear(6, 8), nn.GELU(), nn.LayerNorm(8), nn.Linear(8, 2))
    there = nn.Sequential(nn.Linear(6, 8), nn.GELU(), nn.LayerNorm(8), nn.Linear(8, 2))
    there.load_state_dict(net.state_dict())
    there = there.to("cuda")
    traced = jit.trace(there)
    for rows in (4, 5, 6, 7, 5):
        x = jit.randn(rows, 6)
        for module, run, given in ((net, net, x), (there, traced, x.cuda())):
            module.zero_grad()
            (run(given) ** 2).sum().backward()
        for one, two in zip(there.parameters(), net.parameters(), strict=True):
            assert_close(one.grad.cpu(), two.grad, rtol=1e-4, atol=1e-5)
    assert driver.launches
