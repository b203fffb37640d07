"""Memory of a GPU shared with other libraries, and tensors there that are copied, pickled and loaded."""

from __future__ import annotations

import copy
import pickle
from typing import Any

import numpy as np
import pytest

import jit
from jit import nn
from jit.runtime.arrays import dlpack
from jit.runtime.cuda import simulated
from tests.eager.devices import SIMULATED, arrays_of
from tests.eager.test_interchange import LAYOUTS, numbers

pytestmark = pytest.mark.usefixtures("gpu")


class Described:
    """An array of a library that knows CUDA's array interface alone."""

    def __init__(self, tensor: jit.Tensor) -> None:
        self.tensor = tensor

    @property
    def __cuda_array_interface__(self) -> Any:
        return self.tensor.__cuda_array_interface__


def sample() -> jit.Tensor:
    return jit.arange(6.0, device="cuda").reshape(2, 3)


def same_memory(one: jit.Tensor, two: jit.Tensor) -> None:
    """Both show the same elements, also after a write."""
    assert one.is_cuda and two.is_cuda and one.data_ptr() == two.data_ptr()
    assert (one.dtype, one.shape, one.stride()) == (two.dtype, two.shape, two.stride())
    one.fill_(7)
    assert two.tolist() == one.tolist()


# -- DLPack --------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("layout", [f for name, f in LAYOUTS.items() if name not in ("reversed", "empty")])
@pytest.mark.parametrize("dtype", [jit.float32, jit.float64, jit.int8, jit.bool, jit.complex64], ids=str)
def test_dlpack_shares_memory(layout: Any, dtype: jit.DType, gpu: str) -> None:
    source = layout(arrays_of(gpu).asarray(numbers(dtype.numpy)))
    lent = jit.from_dlpack(source)
    assert lent.is_cuda and lent.tolist() == source.tolist()
    same_memory(jit.from_dlpack(lent), lent)
    same_memory(jit.from_dlpack(lent.__dlpack__()), lent)
    same_memory(jit.asarray(source), lent)
    theirs = arrays_of(gpu).from_dlpack(lent)
    assert theirs.data.ptr == lent.data_ptr()


def test_dlpack_without_elements() -> None:
    assert jit.from_dlpack(jit.zeros(0, 3, device="cuda")).shape == (0, 3)


def test_the_device_that_dlpack_names() -> None:
    x = sample()
    assert x.__dlpack_device__() == (2, 0) and x.cpu().__dlpack_device__() == (1, 0)
    assert dlpack.device_of(x.__dlpack__(stream=1, max_version=(1, 0))) == (2, 0)
    assert np.from_dlpack(x, device="cpu").tolist() == x.tolist()
    with pytest.raises(dlpack.ExchangeError, match="requires grad"):
        x.requires_grad_().__dlpack__()


@SIMULATED
def test_streams_are_passed_on(monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[Any] = []

    def lend(self: Any, **options: Any) -> Any:
        asked.append(options)
        return dlpack.lend(self, kind=dlpack.CUDA)

    monkeypatch.setattr(simulated.SimulatedArray, "__dlpack__", lend)
    sample().__dlpack__(stream=2, max_version=(1, 0), copy=False)
    assert asked == [{"stream": 2, "max_version": (1, 0), "dl_device": None, "copy": False}]


def test_a_copy_is_lent() -> None:
    x = sample()
    for copy_of_x in (x.__dlpack__(copy=True), x.__dlpack__(max_version=(1, 0), copy=True)):
        assert jit.from_dlpack(copy_of_x).data_ptr() != x.data_ptr()


def test_from_dlpack_to_a_device() -> None:
    x = sample()
    assert jit.from_dlpack(x, device="cpu").is_cpu and jit.from_dlpack(x.cpu(), device="cuda").is_cuda
    assert jit.from_dlpack(x, copy=True).data_ptr() != x.data_ptr()
    with pytest.raises(jit.UsageError, match="leave copy=False or device= out"):
        jit.from_dlpack(x, device="cpu", copy=False)
    with jit.device("cuda"):
        assert jit.from_dlpack(np.ones(2)).is_cpu


def test_dlpack_of_a_device_that_is_not_there(monkeypatch: pytest.MonkeyPatch) -> None:
    class Elsewhere:
        def __dlpack__(self, **options: Any) -> Any:
            raise AssertionError("the memory is asked for")

        def __dlpack_device__(self) -> tuple[int, int]:
            return (2, 3)

    with pytest.raises(jit.UsageError, match="there is no device 'cuda:3' here"):
        jit.from_dlpack(Elsewhere())


# -- CUDA's array interface ------------------------------------------------------------------------------------------


def test_the_array_interface_is_that_of_a_gpu() -> None:
    x = sample()
    described = x.t().__cuda_array_interface__
    assert described["shape"] == (3, 2) and described["strides"] == (4, 12) and described["typestr"] == "<f4"
    assert described["data"] == (x.data_ptr(), False)
    assert not hasattr(x.cpu(), "__cuda_array_interface__")
    with pytest.raises(jit.UsageError, match="detach"):
        _ = x.clone().requires_grad_().__cuda_array_interface__


def test_asarray_shares_and_tensor_copies() -> None:
    x = sample()
    for source in (Described(x), Described(x[:, 1:]), Described(x.t())):
        same_memory(jit.asarray(source), source.tensor)
        same_memory(jit.as_tensor(source), source.tensor)
    made = jit.tensor(Described(x))
    assert made.is_cuda and made.tolist() == x.tolist() and made.data_ptr() != x.data_ptr()
    assert jit.asarray(Described(x), device="cpu").is_cpu and jit.tensor(Described(x), device="cpu").is_cpu


def test_traced_functions_do_not_lend() -> None:
    for lend in (lambda t: t.__cuda_array_interface__, lambda t: t.__dlpack__()):
        with pytest.raises(jit.TraceError):
            jit.trace(lambda t, lend=lend: (lend(t), t * 2)[1])(sample())


# -- copies and files ------------------------------------------------------------------------------------------------


def test_copies_stay_on_the_device() -> None:
    x = sample().requires_grad_()
    x.grad = jit.ones(2, 3, device="cuda")
    deep = copy.deepcopy(x)
    assert deep.is_cuda and deep.requires_grad and deep.grad.is_cuda and deep.tolist() == x.tolist()
    assert deep.data_ptr() != x.data_ptr() and copy.copy(x).data_ptr() == x.data_ptr() and copy.copy(x).requires_grad
    with pytest.raises(jit.AutogradError):
        copy.copy(x * 2)


def test_pickles_come_back_to_the_device(monkeypatch: pytest.MonkeyPatch) -> None:
    layer = nn.Linear(3, 2).to("cuda")
    pickled = pickle.dumps((sample().t(), layer))
    tensor, again = pickle.loads(pickled)
    assert tensor.is_cuda and tensor.tolist() == sample().t().tolist()
    assert isinstance(again.weight, nn.Parameter) and again.weight.is_cuda and again.weight.requires_grad
    assert again(sample()).tolist() == layer(sample()).tolist()
    monkeypatch.delenv("JIT_CUDA", raising=False)
    if not jit.cuda.is_available():
        with pytest.raises(jit.UsageError, match=r"pickled on 'cuda:0'.*pickle t\.cpu\(\)"):
            pickle.loads(pickled)


@pytest.mark.parametrize("home", ["cpu", "cuda"])
def test_states_are_loaded_across_devices(home: str) -> None:
    there = "cpu" if home == "cuda" else "cuda"
    saved, target = nn.BatchNorm1d(3).to(home), nn.BatchNorm1d(3).to(there)
    with jit.no_grad():
        saved.weight.fill_(5)
    state = saved.state_dict()
    assert all(value.device == jit.zeros(0, device=home).device for value in state.values())
    weight, place = target.weight, target.weight.data_ptr()
    target.load_state_dict(state)
    assert target.weight is weight and weight.data_ptr() == place and weight.tolist() == [5, 5, 5]
    assert weight.device.type == there and target.running_mean.device.type == there
    target.load_state_dict(state, assign=True)
    assert target.weight.device.type == home
