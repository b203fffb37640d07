"""`jit.cuda` on the simulated device: streams and events, the current GPU, memory, pinned tensors; docs/devices.md."""

from __future__ import annotations

import gc
import re
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import jit
from jit import nn
from jit.runtime.cuda import devices, simulated
from tests.eager.devices import SIMULATED
from tests.test_readme import PROGRAM, check_program
from tests.tolerances import assert_close

PAGE = Path(__file__).resolve().parent.parent / "docs" / "devices.md"
PROGRAMS = PROGRAM.findall(PAGE.read_text())

pytestmark = pytest.mark.usefixtures("gpu")


@pytest.fixture
def two_gpus(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let there be a second number that can be named; nothing lies there."""
    monkeypatch.setattr(devices, "device_count", lambda: 2)


# -- devices -------------------------------------------------------------------------------------------------------


def test_facts_of_a_gpu(gpu: str) -> None:
    kept = jit.zeros(1, device="cuda")
    assert kept.is_cuda and jit.cuda.is_initialized()
    assert jit.cuda.driver_version() == "simulated" if gpu == "simulated" else "CUDA" in jit.cuda.driver_version()
    found = jit.cuda.get_device_properties("cuda:0")
    assert found.name == jit.cuda.get_device_name() and (found.major, found.minor) == jit.cuda.get_device_capability()
    assert jit.cuda.get_device_capability(0) >= (5, 0) and found.warp_size == 32
    free, total = jit.cuda.mem_get_info()
    assert 0 < free < total == found.total_memory


def test_the_current_device(two_gpus: None) -> None:
    assert jit.cuda.current_device() == 0
    with jit.cuda.device(1):
        assert jit.cuda.current_device() == 1
        with jit.cuda.device("cuda:0"), jit.cuda.device(None), jit.cuda.device(-1):
            assert jit.cuda.current_device() == 0
        assert jit.get_default_device().type == "cpu"
    assert jit.cuda.current_device() == 0
    with jit.cuda.device(0):
        jit.cuda.set_device(jit.device("cuda", 1))
        assert jit.cuda.current_device() == 1
    assert jit.cuda.current_device() == 0
    for wrong in (2, "cuda:2"):
        with pytest.raises(jit.UsageError, match="the last one is 'cuda:1'"):
            jit.cuda.set_device(wrong)
    with pytest.raises(jit.UsageError, match="expects a GPU"):
        jit.cuda.set_device("cpu")


def test_the_current_device_is_part_of_the_key(two_gpus: None) -> None:
    f = jit.trace(lambda x: x + 1)  # where it says "cuda", it means another GPU
    x = jit.zeros(2, device="cuda")
    for _ in range(3):
        f(x)
    before = f.misses
    with jit.cuda.device(1):
        for _ in range(3):
            assert f(x).tolist() == [1, 1]
    assert f.misses == before + 1


def test_seeds() -> None:
    for seed in (jit.cuda.manual_seed, jit.cuda.manual_seed_all):
        seed(4)
        first = jit.rand(3, device="cuda").tolist()
        seed(4)
        assert jit.rand(3, device="cuda").tolist() == first
    for renew in (jit.cuda.seed, jit.cuda.seed_all):
        jit.manual_seed(4)
        renew()
        assert jit.rand(3, device="cuda").tolist() != first


# -- memory --------------------------------------------------------------------------------------------------------


def test_the_most_memory() -> None:
    gc.collect()
    jit.cuda.reset_peak_memory_stats()
    before = jit.cuda.max_memory_allocated()
    assert before == jit.cuda.memory_allocated()
    large = jit.zeros(10_000, device="cuda")
    assert jit.cuda.memory_allocated() >= before + 40_000
    del large
    assert jit.cuda.memory_allocated() < before + 40_000 <= jit.cuda.max_memory_allocated(0)
    jit.cuda.reset_peak_memory_stats()
    assert jit.cuda.max_memory_allocated() < before + 40_000


@SIMULATED
def test_the_cache_is_emptied(monkeypatch: pytest.MonkeyPatch) -> None:
    emptied: list[Any] = []
    monkeypatch.setattr(simulated._Runtime, "free_all_blocks", lambda self: emptied.append(self))
    jit.zeros(1, device="cuda")
    jit.cuda.empty_cache()
    assert len(emptied) == 2  # that of the GPU, and that of pinned memory


def test_pinned_memory() -> None:
    x = jit.arange(6.0).reshape(2, 3).t().requires_grad_()
    pinned = x.pin_memory()
    assert pinned.is_pinned() and pinned[1:].is_pinned() and not x.is_pinned() and pinned.pin_memory() is pinned
    assert pinned.tolist() == x.tolist() and pinned.data_ptr() != x.data_ptr() and pinned.is_contiguous()
    (pinned.to("cuda", non_blocking=True) * 2).sum().backward()
    assert x.grad.tolist() == [[2, 2]] * 3
    assert jit.zeros(0, 2).pin_memory().shape == (0, 2)
    assert jit.ones(2, dtype=jit.bfloat16).pin_memory().tolist() == [1, 1]
    there = jit.ones(2, device="cuda")
    assert not there.is_pinned()
    with pytest.raises(jit.UsageError, match=r"pin t\.cpu\(\)"):
        there.pin_memory()


def test_pinning_in_a_traced_function() -> None:
    f = jit.trace(lambda x: x.pin_memory().cuda() * 2)
    for _ in range(3):
        assert f(jit.ones(2)).tolist() == [2, 2]
    assert f.hits == 2


@SIMULATED
def test_pinning_needs_a_gpu(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("JIT_CUDA")
    if jit.cuda.is_available():
        pytest.skip("there is a GPU")
    with pytest.raises(jit.UsageError, match="there is no device 'cuda' here"):
        jit.ones(2).pin_memory()
    jit.cuda.empty_cache()


def test_non_blocking_is_accepted() -> None:
    x, y = jit.ones(2), jit.zeros(2, device="cuda")
    y.copy_(x, non_blocking=True)
    y.copy_(x * 3, True)
    assert y.tolist() == [3, 3] and x.cuda(non_blocking=True).is_cuda and x.cuda(None, True).is_cuda
    assert x.to("cuda", non_blocking=True).is_cuda and x.to("cuda", jit.float64, True).dtype is jit.float64
    assert nn.Linear(2, 2).to("cuda", non_blocking=True).weight.is_cuda
    assert nn.Linear(2, 2).to("cuda", jit.float64, True).weight.is_cuda


# -- streams -------------------------------------------------------------------------------------------------------


def test_the_current_stream() -> None:
    default = jit.cuda.default_stream()
    assert jit.cuda.current_stream() == default and default.cuda_stream == 0 and default.device.index == 0
    one, two = jit.cuda.Stream(), jit.cuda.Stream("cuda", priority=-1)
    assert one != two and hash(one) == hash(one) and repr(one).startswith("<jit.cuda.Stream device=cuda:0")
    with jit.cuda.stream(one):
        assert jit.cuda.current_stream() == one and jit.cuda.default_stream() == default
        with jit.cuda.stream(two), jit.cuda.stream(None):
            assert jit.cuda.current_stream(0) == two
            assert (jit.ones(2, device="cuda") * 2).tolist() == [2, 2]
        assert jit.cuda.current_stream() == one
        jit.cuda.set_stream(two)
        assert jit.cuda.current_stream() == two
    assert jit.cuda.current_stream() == default
    jit.cuda.synchronize()


@SIMULATED
def test_waiting(monkeypatch: pytest.MonkeyPatch) -> None:
    waited: list[Any] = []
    monkeypatch.setattr(simulated.Queue, "wait_event", lambda self, event: waited.append((self, event)))
    one, two, event = jit.cuda.Stream(), jit.cuda.Stream(), jit.cuda.Event()
    event.wait()
    assert event.query() and not waited  # it marks nothing
    assert one.record_event(event) is event
    two.wait_event(event)
    event.wait(one)
    event.wait()
    two.wait_stream(one)
    assert [queue for queue, _ in waited] == [two._made, one._made, simulated.Queue.null, two._made]
    assert waited[0][1] is event._made and waited[3][1] is not event._made
    assert event.query() and one.query()
    event.synchronize()
    one.synchronize()


def test_the_time_between_events() -> None:
    start, end = (jit.cuda.Event(enable_timing=True) for _ in range(2))
    with pytest.raises(jit.UsageError, match=r"record\(\) both"):
        start.elapsed_time(end)
    start.record()
    (jit.ones(100, 100, device="cuda") @ jit.ones(100, 100, device="cuda")).sum()
    end.record(jit.cuda.current_stream())
    assert 0 < start.elapsed_time(end) < 60_000
    with pytest.raises(jit.UsageError, match="enable_timing=True"):
        start.elapsed_time(jit.cuda.Event())


def test_traced_functions_with_streams_run_in_python() -> None:
    side = jit.cuda.Stream()

    @jit.trace
    def f(x: Any) -> Any:
        with jit.cuda.stream(side):
            return x * 2

    with pytest.warns(UserWarning, match="uses a stream of a GPU"):
        for _ in range(3):
            assert f(jit.ones(2, device="cuda")).tolist() == [2, 2]
    assert f.hits == 0


@SIMULATED
def test_waiting_for_a_gpu(monkeypatch: pytest.MonkeyPatch) -> None:
    waited: list[Any] = []
    monkeypatch.setattr(simulated.SimulatedDevice, "synchronize", lambda self: waited.append(self.id))
    jit.cuda.synchronize()
    jit.cuda.synchronize("cuda:0")
    assert waited == [0, 0]


# -- what else takes a device --------------------------------------------------------------------------------------


def test_constructors_go_where_they_are_told() -> None:
    there = jit.ones(2, device="cuda")
    made = [
        jit.Tensor(2, 3, device="cuda"), jit.Tensor([1.0], device="cuda"), there.new_tensor([1]),
        there.cpu().new_tensor([1], device="cuda"), nn.BatchNorm1d(3).to_empty(device="cuda").running_mean,
        nn.init.orthogonal_(jit.empty(3, 4, device="cuda")),
    ]  # fmt: skip
    assert all(t.is_cuda for t in made)
    assert there.new_tensor([1], device="cpu").is_cpu and nn.Linear(2, 2).to_empty().weight.is_cpu
    with jit.device("cuda"):
        assert jit.as_tensor(np.ones(2)).is_cuda and jit.as_tensor(there.cpu()).is_cpu
        assert jit.Tensor(2).is_cuda and jit.Tensor(2, device="cpu").is_cpu


def test_derivatives_are_checked() -> None:
    x = jit.tensor([0.5, -0.25], dtype=jit.float64, device="cuda", requires_grad=True)
    assert jit.autograd.gradcheck(lambda x: (x * x).tanh(), (x,))
    assert jit.autograd.gradgradcheck(lambda x: (x * x).tanh(), (x,), fast_mode=True)
    with pytest.raises(jit.VerificationError, match="output 0, input 0"):
        jit.autograd.gradcheck(lambda x: x * x.detach(), (x,))


@pytest.mark.parametrize(("saved", "own"), [("cuda", "cpu"), ("cpu", "cuda")])
def test_the_state_of_an_optimizer_is_loaded_across_devices(saved: str, own: str) -> None:
    def stepped(device: str) -> Any:
        layer = nn.Linear(2, 2).to(device)
        optimizer = jit.optim.Adam(layer.parameters())
        layer(jit.ones(1, 2, device=device)).sum().backward()
        optimizer.step()
        return layer, optimizer

    layer, optimizer = stepped(own)
    optimizer.load_state_dict(stepped(saved)[1].state_dict())
    states = optimizer.state[layer.weight]
    assert {name: t.device.type for name, t in states.items()} == {"step": "cpu", "exp_avg": own, "exp_avg_sq": own}
    optimizer.step()


@pytest.mark.parametrize("traced", [False, True])
def test_lengths_may_lie_on_the_cpu(traced: bool) -> None:
    jit.manual_seed(1)
    layer, lengths, padded = nn.LSTM(3, 5), jit.tensor([4, 2]), jit.randn(4, 2, 3)

    def states(x: Any) -> Any:
        packed = nn.utils.rnn.pack_padded_sequence(x, lengths)
        return nn.utils.rnn.pad_packed_sequence(layer(packed)[0])[0]

    wanted = states(padded).detach()
    layer.to("cuda")
    run = jit.trace(states) if traced else states
    for _ in range(3):
        found = run(padded.cuda())
        assert found.is_cuda
        assert_close(found.detach().cpu(), wanted, rtol=1e-5, atol=1e-6)


# -- the page ------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("program", "expected"), PROGRAMS, ids=range(len(PROGRAMS)))
def test_a_program_runs_and_prints_what_the_page_says(program: str, expected: str, tmp_path: Path) -> None:
    assert expected
    check_program(PAGE, program, expected, tmp_path)


def test_files_that_the_page_names_are_there() -> None:
    named = re.findall(r"`((?:jit|tests)/[\w/.]+)`", PAGE.read_text())
    assert len(named) > 5 and all((PAGE.parent.parent / name).exists() for name in named)
    links = re.findall(r"\]\(([^)#]+)\)", PAGE.read_text())
    assert links and all((PAGE.parent / link).exists() for link in links)
