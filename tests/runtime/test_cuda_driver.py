"""The class that calls CUDA's driver, with functions that stand for those of `libcuda`."""

from __future__ import annotations

import ctypes
from collections.abc import Iterator
from types import SimpleNamespace
from typing import Any

import pytest

import jit
from jit.runtime.cuda import cublas_library, devices, launching, simulated, trial
from jit.runtime.cuda import driver as driver_module
from jit.runtime.cuda.driver import SYMBOLS, CudaDriver
from tests.tolerances import assert_close

from .interpreting_driver import InterpretingDriver

pytestmark = pytest.mark.llvm


class Libcuda:
    """A library with the functions of `libcuda` that are called, which interpret PTX.

    Args:
        interpreter: Executes the kernels.
    """

    def __init__(self, interpreter: InterpretingDriver) -> None:
        self._interpreter, self._texts = interpreter, [""]
        self._words = ctypes.c_char_p(b"words of the driver")
        pointer = ctypes.c_void_p
        self.cuModuleLoadData = ctypes.CFUNCTYPE(ctypes.c_int, pointer, ctypes.c_char_p)(self._load)
        self.cuModuleGetFunction = ctypes.CFUNCTYPE(ctypes.c_int, pointer, pointer, ctypes.c_char_p)(self._function)
        self.cuGetErrorString = ctypes.CFUNCTYPE(ctypes.c_int, ctypes.c_int, pointer)(self._explain)
        for name in SYMBOLS:
            setattr(self, name, interpreter.graphs.callables[name])

    def _load(self, place: int, text: bytes) -> int:
        ctypes.c_void_p.from_address(place).value = len(self._texts)
        self._texts.append(text.decode())
        return 0

    def _function(self, place: int, module: int, name: bytes) -> int:
        ctypes.c_void_p.from_address(place).value = self._interpreter.load(self._texts[module], name.decode())
        return 0

    def _explain(self, status: int, place: int) -> int:
        ctypes.c_void_p.from_address(place).value = ctypes.cast(self._words, ctypes.c_void_p).value
        return 0


@pytest.fixture
def interpreter(monkeypatch: pytest.MonkeyPatch) -> Iterator[InterpretingDriver]:
    """What executes the kernels of the simulated device, which are launched by the class for GPUs."""
    monkeypatch.setenv("JIT_CUDA", "simulate")
    made = InterpretingDriver()
    libcuda = Libcuda(made)
    monkeypatch.setattr(driver_module, "_libcuda", lambda: libcuda)
    runtime = SimpleNamespace(getDevice=lambda: 0, free=lambda address: made.attach())
    cuda = SimpleNamespace(runtime=runtime, get_current_stream=simulated.library().cuda.get_current_stream)
    launching.use(CudaDriver(SimpleNamespace(cuda=cuda)))
    monkeypatch.setattr(trial, "POINTS", 40)
    assert trial.graphs_work(devices.open_device(0))
    made.forget()
    yield made
    launching.use(launching.NoDriver())


def columns(x: Any) -> Any:
    return jit.softmax(jit.tanh(x), -1).sum(0) * x.exp().sum()


def test_graphs_are_made_and_launched(interpreter: InterpretingDriver) -> None:
    f = jit.trace(columns)
    for _ in range(6):
        x = jit.randn(3, 5)
        assert_close(f(x.cuda()).cpu(), columns(x), rtol=1e-5, atol=1e-6)
    assert interpreter.graphs.replays == 3 and len(interpreter.launches) == 15


def test_kernels_of_single_groups_are_launched(
    interpreter: InterpretingDriver, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("JIT_NATIVE", "0")
    f, x = jit.trace(columns), jit.randn(3, 5)
    for _ in range(3):
        assert_close(f(x.cuda()).cpu(), columns(x), rtol=1e-5, atol=1e-6)
    assert len(interpreter.launches) == 6 and not interpreter.graphs.replays


@pytest.mark.parametrize(
    ("status", "blocking", "words"),
    [
        (700, "0", "a kernel has touched memory that is not its own.*words of the driver.*set CUDA_LAUNCH_BLOCKING=1"),
        (700, "1", r"could not run the kernel tanh\w+ \(words of the driver\).*asked for at test_cuda_driver\.py"),
        (2, "0", r"no memory left for the kernel tanh\w+; free tensors.*asked for at test_cuda_driver\.py"),
    ],
)
def test_errors_are_explained(
    status: int, blocking: str, words: str, interpreter: InterpretingDriver, monkeypatch: pytest.MonkeyPatch
) -> None:
    f, x = jit.trace(columns), jit.randn(3, 5).cuda()
    f(x)
    monkeypatch.setenv("CUDA_LAUNCH_BLOCKING", blocking)
    interpreter.graphs.refused["cuLaunchKernel"] = status
    with pytest.raises(jit.cuda.AcceleratorError, match=words):
        f(x)


def test_a_driver_without_a_function_launches_kernels_one_by_one(interpreter: InterpretingDriver) -> None:
    driver: Any = launching.simulated_driver()
    del driver._driver.cuGraphLaunch, driver.functions
    f, x = jit.trace(columns), jit.randn(3, 5)
    for _ in range(5):
        assert_close(f(x.cuda()).cpu(), columns(x), rtol=1e-5, atol=1e-6)
    assert driver.functions is None and not interpreter.graphs.replays and interpreter.launches


def test_cublas_is_found_among_the_libraries_of_the_process(monkeypatch: pytest.MonkeyPatch) -> None:
    """None of CuPy, or a library that lacks a function, is no error."""
    asked: list[str] = []
    device = SimpleNamespace(get_cublas_handle=lambda: asked.append("handle"))
    cupy = SimpleNamespace(cuda=SimpleNamespace(device=device))
    monkeypatch.setattr(cublas_library, "import_module", asked.append)
    assert cublas_library.cublas_functions(cupy) is None and len(asked) == 2, "it is not loaded, also when asked for"
    functions = SimpleNamespace(**dict.fromkeys(cublas_library.SYMBOLS, ctypes.CFUNCTYPE(ctypes.c_int)(lambda: 0)))
    monkeypatch.setattr(cublas_library, "_loaded", lambda: "/lib/libcublas.so.13")
    monkeypatch.setattr(ctypes, "CDLL", lambda path: functions)
    found = cublas_library.cublas_functions(cupy)
    assert found is not None and all(found)
    del functions.cublasGemmStridedBatchedEx_64
    assert cublas_library.cublas_functions(cupy) is None
