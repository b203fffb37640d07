"""Recordings on a GPU whose kernels are launched by native code, one by one and as CUDA graphs.

On the simulated device no address is given twice, so a graph with an address of an earlier call would be noticed.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import pytest

import jit
from jit import nn
from jit.runtime.cuda import devices, graphs, launching, simulated, stretches, trial
from jit.runtime.cuda.stretch_runs import StretchRun
from jit.runtime.cuda.trial import graphs_work
from tests.runtime.interpreting_driver import InterpretingDriver
from tests.threads import in_threads
from tests.tolerances import assert_close

pytestmark = [pytest.mark.llvm, pytest.mark.usefixtures("gpu")]


@pytest.fixture(autouse=True)
def driver(gpu: str) -> Iterator[Any]:
    """The interpreter of PTX; None on a GPU."""
    made = InterpretingDriver() if gpu == "simulated" else None
    if made is not None:
        launching.use(made)
        assert graphs_work(devices.open_device(0))
        made.forget()
    yield made
    launching.use(launching.NoDriver())


@pytest.fixture
def simulation(gpu: str, driver: Any) -> Any:
    """The driver of the simulated device, for tests that ask it what it was told."""
    if gpu != "simulated":
        pytest.skip("only a simulated driver can be asked")
    return driver


def runs_of(f: Any) -> list[StretchRun]:
    """The stretches of the plans of a traced function."""
    recordings = [recording for entry in f._cache.entries.values() for recording in entry.recordings]
    plans = [
        plan
        for recording in dict.fromkeys([f._last, *recordings])
        for chain in recording.chains
        for plan in chain.plans
    ]
    return [run for plan in plans for natives in plan.interpreter.natives for call in natives for run in call.runs]


def columns(x: Any, w: Any) -> Any:
    """Three kernels: what passes between them lies in the arena."""
    return jit.softmax(jit.tanh(x) * w, -1).sum(0) * jit.exp(w).sum()


def arrays(rows: int = 5, wide: int = 33) -> tuple[Any, Any]:
    return jit.randn(rows, wide), jit.randn(wide)


def test_the_third_call_launches_a_graph(simulation: Any) -> None:
    f, (x, w) = jit.trace(columns), arrays()
    there = x.cuda(), w.cuda()
    for number in range(6):  # the first one records
        assert_close(f(*there).cpu(), columns(x, w), rtol=1e-5, atol=1e-6)
        assert simulation.graphs.replays == max(number - 2, 0)
    (run,) = runs_of(f)
    assert run.is_graph and len(simulation.launches) == 5 * 3


def test_results_that_are_kept_stay_as_they_are() -> None:
    f = jit.trace(columns)
    kept = []
    for _ in range(10):
        x, w = arrays()
        kept.append((f(x.cuda(), w.cuda()), columns(x, w)))
    assert runs_of(f)[0].is_graph
    for found, wanted in kept:
        assert_close(found.cpu(), wanted, rtol=1e-5, atol=1e-6)


def test_a_graph_is_told_only_what_has_moved(simulation: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    places = range(0x6F00_0000_0000, 0x7000_0000_0000, simulated.ROOM)
    lowest = iter(lambda: next(place for place in places if place not in simulated._PLACED), None)
    monkeypatch.setattr(simulated.Memory, "_places", lowest)  # as a pool does, which gives out what was given back
    f, (x, w) = jit.trace(columns), arrays()
    there = x.cuda(), w.cuda()
    for _ in range(12):
        assert_close(f(*there).cpu(), columns(x, w), rtol=1e-5, atol=1e-6)
    assert simulation.graphs.replays == 9 and simulation.graphs.updates == 3
    kept = f(*there)
    f(*there)
    assert 3 < simulation.graphs.updates <= 6
    assert_close(kept.cpu(), columns(x, w), rtol=1e-5, atol=1e-6)


def test_sizes_that_vary() -> None:
    f = jit.trace(columns)
    for rows, wide in ((5, 33), (6, 33), *((7, 20), (5, 33), (6, 33)) * 5, (9, 4), (1, 33)):
        x, w = arrays(rows, wide)
        assert_close(f(x.cuda(), w.cuda()).cpu(), columns(x, w), rtol=1e-5, atol=1e-6)
    assert f.misses <= 4 and sum(run.is_graph for run in runs_of(f)) == 3


def test_sizes_without_elements() -> None:
    f = jit.trace(lambda x: (jit.tanh(x).sum(0) * 2, jit.softmax(x, -1).sum(1)))
    for rows in (3, 4, 0, 5, 0):
        x = jit.randn(rows, 6)
        for found, wanted in zip(f(x.cuda()), (jit.tanh(x).sum(0) * 2, jit.softmax(x, -1).sum(1)), strict=True):
            assert_close(found.cpu(), wanted, rtol=1e-5, atol=1e-6)


def test_inputs_that_share_memory() -> None:
    def f(x: Any, y: Any) -> Any:
        return (jit.softmax(x, -1) * y).sum(0) + jit.exp(y).sum(0), x.t() + 1

    traced = jit.trace(f)
    whole = jit.randn(8, 6)
    pairs = [(whole[:5], whole[:5]), (whole[:5], whole[3:]), (whole[:6].t(), whole[2:].t()), (whole[1:4], whole[4:5])]
    for _ in range(5):
        there = whole.cuda()
        moved = [
            (there[:5], there[:5]),
            (there[:5], there[3:]),
            (there[:6].t(), there[2:].t()),
            (there[1:4], there[4:5]),
        ]
        for given, same in zip(moved, pairs, strict=True):
            for found, wanted in zip(traced(*given), f(*same), strict=True):
                assert_close(found.cpu(), wanted, rtol=1e-5, atol=1e-6)


def test_views_leave_a_stretch() -> None:
    def f(x: Any) -> Any:
        y = jit.softmax(x, -1)
        z = y.sum(0, keepdim=True) * 2
        return y.t(), z.reshape(-1), y[1:3], (y * z).reshape(2, -1), x.t()

    traced, x = jit.trace(f), jit.randn(4, 6)
    there = x.cuda()
    for _ in range(6):
        for found, wanted in zip(traced(there), f(x), strict=True):
            assert found.stride() == wanted.stride()
            assert_close(found.cpu(), wanted, rtol=1e-5, atol=1e-6)


def losses(make: Callable[[Any], Any], device: str, traced: bool) -> tuple[list[float], Any]:
    jit.manual_seed(7)
    net = nn.Sequential(nn.Linear(6, 16), nn.GELU(), nn.LayerNorm(16), nn.Linear(16, 3))
    batches = [(jit.randn(8, 6), jit.randint(0, 3, (8,))) for _ in range(8)]
    net = net.to(device)
    optimizer = make(net.parameters())

    def step(x: Any, target: Any) -> Any:
        optimizer.zero_grad()
        loss = nn.functional.cross_entropy(net(x), target)
        loss.backward()
        optimizer.step()
        return loss.detach()

    step = jit.trace(step) if traced else step
    return [float(step(x.to(device), target.to(device))) for x, target in batches], step


@pytest.mark.parametrize(
    "make",
    [lambda p: jit.optim.SGD(p, lr=0.1, momentum=0.9), lambda p: jit.optim.AdamW(p, lr=0.05)],
    ids=["SGD", "AdamW"],
)
def test_steps_of_training(make: Callable[[Any], Any]) -> None:
    found, step = losses(make, "cuda", True)
    assert found == pytest.approx(losses(make, "cpu", False)[0], rel=1e-4)
    runs = runs_of(step)
    assert any(has_products(run) for run in runs) and not any(run.is_graph for run in runs if has_products(run))


def has_products(run: StretchRun) -> bool:
    return any(not launch.kernel.threads for launch in run.kernels.launches)


def test_a_backward_reads_what_its_forward_has_saved() -> None:
    """Two forwards run before their backwards: the second one may not write over what the first one has saved."""
    f, w = jit.trace(lambda x, w: (jit.softmax(jit.tanh(x) * w, -1) * x).sum()), jit.randn(6)
    there = w.cuda().requires_grad_()
    for _ in range(5):
        pairs = [jit.randn(4, 6) for _ in range(2)]
        results = [f(x.cuda(), there) for x in pairs]
        for x, result in zip(pairs, results, strict=True):
            there.grad, here = None, w.detach().requires_grad_()
            result.backward()
            (jit.softmax(jit.tanh(x) * here, -1) * x).sum().backward()
            assert there.grad is not None
            assert_close(there.grad.cpu(), here.grad, rtol=1e-4, atol=1e-5)
    assert any(run.is_graph for run in runs_of(f))


def test_a_kernel_that_fails_names_its_operator_and_line() -> None:
    def f(x: Any, y: Any) -> Any:
        z = jit.softmax(x.float(), 0).sum()
        return x // y, z  # the line

    traced = jit.trace(f)
    x, y = jit.tensor([6, 7], device="cuda"), jit.tensor([2, 3], device="cuda")
    for _ in range(4):
        assert traced(x, y)[0].tolist() == [3, 2]
        with pytest.raises(jit.DivisionError, match=r"in a call of floor_divide at test_cuda_graphs\.py"):
            traced(x, jit.tensor([2, 0], device="cuda"))
    assert [run.is_graph for run in runs_of(traced)] == [True]


def test_an_error_of_the_device_while_it_is_waited_for(simulation: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    f = jit.trace(lambda x, y: (x // y, jit.softmax(x.float(), 0)))
    x = jit.tensor([6, 7], device="cuda")
    for _ in range(2):
        f(x, x + 1)
    error = simulated._RUNTIME.CUDARuntimeError("cudaErrorIllegalAddress")
    error.status = 700

    def failing(array: Any) -> None:
        raise error

    monkeypatch.setattr(simulated.SimulatedArray, "get", failing)
    words = r"a kernel has touched memory.*the kernels of .*floor_divide.*asked for at test_cuda_graphs\.py"
    with pytest.raises(jit.cuda.AcceleratorError, match=words):
        f(x, x + 1)


def test_shared_memory_is_no_report_of_errors(simulation: Any) -> None:
    f, x = jit.trace(lambda x: x.exp().sum(1)), jit.randn(3, 5000).cuda()
    for _ in range(2):
        f(x)
    kernels = [text for text, _ in simulation._loaded]
    assert any("st.shared." in text for text in kernels) and not any(run.kernels.failing for run in runs_of(f))


@pytest.mark.parametrize(
    ("name", "status"),
    [("cuGraphCreate", 801), ("cuGraphAddKernelNode_v2", 1), ("cuGraphInstantiateWithFlags", 2),
     ("cuGraphExecKernelNodeSetParams_v2", 1), ("cuGraphLaunch", 801)],
)  # fmt: skip
def test_a_graph_that_is_refused_is_launched_kernel_by_kernel(name: str, status: int, simulation: Any) -> None:
    f, (x, w) = jit.trace(columns), arrays()
    there = x.cuda(), w.cuda()
    f(*there)
    assert "kernels" not in f.explain()
    simulation.graphs.refused[name] = status
    for _ in range(6):
        assert_close(f(*there).cpu(), columns(x, w), rtol=1e-5, atol=1e-6)
    assert simulation.graphs.replays == 0 and len(simulation.launches) == 6 * 3
    assert f.explain().count("3 kernels are launched one by one and not as a CUDA graph, because") == 1
    assert str(status) in f.explain()


@pytest.mark.parametrize("fault", ["forgets updates", "forgets the order", "refuses"])
def test_graphs_that_do_not_work_are_not_used(fault: str, gpu: str, monkeypatch: pytest.MonkeyPatch) -> None:
    if gpu != "simulated":
        pytest.skip("a GPU has no such faults")
    monkeypatch.setattr(trial, "POINTS", 40)
    driver = InterpretingDriver()
    if fault == "forgets updates":
        monkeypatch.setattr(driver.graphs, "_set_parameters", forgetful(driver.graphs._set_parameters, 2))
    elif fault == "forgets the order":
        add = driver.graphs._add
        monkeypatch.setattr(driver.graphs, "_add", lambda place, graph, _, __, record: add(place, graph, 0, 0, record))
    else:
        driver.graphs.refused["cuGraphLaunch"] = 801
    driver.functions = driver.graphs.functions()
    launching.use(driver)
    f, (x, w) = jit.trace(columns), arrays()
    for _ in range(5):
        assert_close(f(x.cuda(), w.cuda()).cpu(), columns(x, w), rtol=1e-5, atol=1e-6)
    assert "a graph that was tried out has not worked" in f.explain()


def forgetful(function: Callable[..., int], calls: int) -> Callable[..., int]:
    """A function that does something in its first calls only."""
    left = iter(range(calls))
    return lambda *given: 0 if next(left, None) is None else function(*given)


@pytest.mark.parametrize(("status", "kind"), [(2, jit.cuda.OutOfMemoryError), (701, jit.cuda.AcceleratorError)])
def test_a_refused_launch_names_the_kernel_and_the_line(status: int, kind: type[Exception], simulation: Any) -> None:
    f, (x, w) = jit.trace(columns), arrays()
    there = x.cuda(), w.cuda()
    f(*there)
    simulation.graphs.refused["cuLaunchKernel"] = status
    with pytest.raises(kind, match=r"the kernel tanh_mul_softmax.*asked for at test_cuda_graphs\.py:\d+ in columns"):
        f(*there)
    simulation.graphs.refused.clear()
    assert_close(f(*there).cpu(), columns(x, w), rtol=1e-5, atol=1e-6)


def test_addresses_of_freed_memory_are_noticed(simulation: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """The simulated driver proves nothing unless it notices a graph that runs with the addresses of another call."""
    f, (x, w) = jit.trace(columns), arrays()
    for _ in range(4):
        f(x.cuda(), w.cuda())
    (run,) = runs_of(f)
    assert run.is_graph
    monkeypatch.setattr(simulation.graphs, "_set_parameters", lambda *_: 0)
    simulation.functions = simulation.graphs.functions()
    monkeypatch.setattr(run._launches, "_functions", simulation.functions)
    monkeypatch.setattr(run._launches._graph, "_functions", simulation.functions)
    f(x.cuda(), w.cuda())
    assert "error 700" in f.explain()


@pytest.mark.parametrize("state", [None, "graph"])
def test_memory_that_runs_out(state: str | None, simulation: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    f, (x, w) = jit.trace(columns), arrays()
    there = x.cuda(), w.cuda()
    for _ in range(2 if state is None else 5):
        f(*there)
    for spare, what in ((0, "the result of exp, sum, mul"), (200, "bytes of temporaries")):
        monkeypatch.setattr(simulated._RUNTIME, "total", simulated._RUNTIME.used + spare)
        with pytest.raises(MemoryError, match=rf"{what}; free .* \(asked for at test_cuda_graphs\.py:\d+ in columns\)"):
            f(*there)
        monkeypatch.undo()
    assert_close(f(*there).cpu(), columns(x, w), rtol=1e-5, atol=1e-6)


def test_an_operator_of_the_library_runs_out_of_memory(simulation: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    f, x = jit.trace(lambda x: jit.tanh(jit.linalg.inv(x))), jit.eye(4).cuda()
    for _ in range(2):
        f(x)
    monkeypatch.setattr(simulated._RUNTIME, "total", simulated._RUNTIME.used)
    with pytest.raises(jit.cuda.OutOfMemoryError, match=r"no memory left for .*asked for at test_cuda_graphs\.py"):
        f(x)
    with pytest.raises(jit.cuda.OutOfMemoryError, match="no memory left for exp"):
        jit.exp(x)


@pytest.mark.parametrize(("name", "value"), [("JIT_CUDA_GRAPHS", "0"), ("CUDA_LAUNCH_BLOCKING", "1")])
def test_graphs_can_be_done_without(name: str, value: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(name, value)
    f, (x, w) = jit.trace(columns), arrays()
    for _ in range(6):
        assert_close(f(x.cuda(), w.cuda()).cpu(), columns(x, w), rtol=1e-5, atol=1e-6)
    assert not any(run.is_graph for run in runs_of(f)) and not f._last.remarks


def test_a_graph_whose_arrays_always_move_is_dropped(simulation: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(graphs, "WATCHED", 3)
    f, (x, w) = jit.trace(columns), arrays()
    for _ in range(8):
        assert_close(f(x.cuda(), w.cuda()).cpu(), columns(x, w), rtol=1e-5, atol=1e-6)
    assert simulation.graphs.replays == 3 and "its arrays lie elsewhere in most calls" in f.explain()
    assert not runs_are_left(simulation)


def runs_are_left(simulation: Any) -> bool:
    return bool(simulation.graphs.graphs or simulation.graphs.executables)


def test_many_threads() -> None:
    f = jit.trace(columns)
    given = [arrays() for _ in range(6)]
    wanted = [columns(x, w) for x, w in given]
    for x, w in given[:4]:
        f(x.cuda(), w.cuda())

    def work(index: int) -> None:
        x, w = given[index]
        for _ in range(5):
            assert_close(f(x.cuda(), w.cuda()).cpu(), wanted[index], rtol=1e-5, atol=1e-6)

    in_threads(work, len(given))


def test_several_streams(gpu: str, driver: Any) -> None:
    f, (x, w) = jit.trace(columns), arrays()
    wanted = columns(x, w)
    sides = [jit.cuda.Stream() for _ in range(2)]
    for number in range(8):
        with jit.cuda.stream(sides[number % 2]):
            found = f(x.cuda(), w.cuda())
            assert_close(found.cpu(), wanted, rtol=1e-5, atol=1e-6)
    if gpu == "simulated":
        assert driver.graphs.streams[-2:] == [side.cuda_stream for side in sides]


def test_graphs_are_destroyed_with_their_functions(simulation: Any) -> None:
    f, (x, w) = jit.trace(columns), arrays()
    for _ in range(4):
        f(x.cuda(), w.cuda())
    assert runs_are_left(simulation)
    runs_of(f)[0]._launches._graph = None
    assert not runs_are_left(simulation)


def test_a_node_without_a_kernel_stands_alone(simulation: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    load = simulation.load

    def refusing(ptx: str, name: str) -> Any:
        if "softmax" in name:
            raise jit.CompileError("too hard")
        return load(ptx, name)

    monkeypatch.setattr(simulation, "load", refusing)
    f, (x, w) = jit.trace(columns), arrays()
    for _ in range(4):
        assert_close(f(x.cuda(), w.cuda()).cpu(), columns(x, w), rtol=1e-5, atol=1e-6)
    assert simulation.launches and not any("softmax" in name for name in simulation.launches)
    for rows in (6, 7):  # where sizes vary, that is found out in a call
        y = jit.randn(rows, 33)
        assert_close(f(y.cuda(), w.cuda()).cpu(), columns(y, w), rtol=1e-5, atol=1e-6)


def test_a_call_for_many_sizes_forgets_the_first_ones(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(stretches, "MOST_RUNS", 2)
    f = jit.trace(lambda x: jit.softmax(x, -1).sum(0))
    for rows in (2, 3, 4, 5, 6):
        x = jit.randn(rows, 4)
        assert_close(f(x.cuda()).cpu(), jit.softmax(x, -1).sum(0), rtol=1e-5, atol=1e-6)
    assert len(runs_of(f)) == 2


# -- random programs ---------------------------------------------------------------------------------------------

STEPS: list[Callable[[Any, Any], Any]] = [
    lambda x, y: jit.softmax(x, -1) + y, lambda x, y: jit.tanh(x * y), lambda x, y: x - y.mean(0, keepdim=True),
    lambda x, y: x.t() * 0.5 + y, lambda x, y: jit.sigmoid(x).cumsum(0) / 8, lambda x, y: jit.relu(x).flip(0) + y,
    lambda x, y: (jit.sin(x) @ jit.cos(y)) / 8, lambda x, y: x.amax(1, keepdim=True) - y,
    lambda x, y: nn.functional.layer_norm(x, (x.shape[1],)), lambda x, y: x.reshape(-1).sum() / 16 + y,
    lambda x, y: jit.cat([x[:2], y[2:]]) * 0.5, lambda x, y: x.argmax(1) + y,
]  # fmt: skip


def random_program(seed: int) -> Callable[[Any, Any], tuple[Any, ...]]:
    """A program of square matrices, with values that are read again much later, and up to three results."""

    def function(x: Any, y: Any) -> tuple[Any, ...]:
        rng = np.random.default_rng(seed)
        values = [x, y]
        for _ in range(rng.integers(3, 12)):
            one, two = (values[i] for i in rng.integers(len(values), size=2))
            values.append(STEPS[rng.integers(len(STEPS))](one, two))
        return tuple(values[-i] * 1 for i in range(1, 1 + rng.integers(1, 4)))

    return function


def check_program(seed: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """Launched one by one and as graphs, a program gives the same bits, and nearly those of the CPU."""
    program, n = random_program(seed), 3 + seed % 5
    inputs = [[jit.randn(n, n) for _ in range(2)] for _ in range(5)]
    captured = jit.trace(program)
    results = [captured(*(x.cuda() for x in given)) for given in inputs]
    monkeypatch.setenv(graphs.SWITCH, "0")
    alone = jit.trace(program)
    for given, found in zip(inputs, results, strict=True):
        others = alone(*(x.cuda() for x in given))
        for one, two, wanted in zip(found, others, program(*given), strict=True):
            assert given is inputs[0] or one.cpu().numpy().tobytes() == two.cpu().numpy().tobytes()
            assert_close(one.cpu(), wanted, rtol=1e-3, atol=1e-3)
    monkeypatch.delenv(graphs.SWITCH)


@pytest.mark.parametrize("group", range(20))
def test_random_programs(group: int, gpu: str, monkeypatch: pytest.MonkeyPatch) -> None:
    for seed in range(10 * group, 10 * group + (1 if gpu == "simulated" else 10)):
        check_program(seed, monkeypatch)
