"""All that only a GPU can show, in one command and one report: tests, timings against peers, and NVIDIA's checker.

    python -m benchmarks.gpu --report gpu.md            # everything that this machine allows
    python -m benchmarks.gpu --only softmax_last        # timings of one workload, printed
    python -m benchmarks.gpu --only model/resnet50/train --only model/bert/half     # a model, see gpu_models.py
    python -m benchmarks.gpu --graphs                   # the CPU time of calls whose kernels are a CUDA graph
    JIT_CUDA=simulate python -m benchmarks.gpu --only ew_small    # no figure: whether the programs run

The peers are torch eager, torch.compile and jax on the same GPU; one that is not installed is left out. They take
turns. A measurement queues as many calls as last a few milliseconds and waits once, as programs do; *launch* is the
time on the clock until a call returns, without waiting for its result. *Of copy* is the time in which a copy on the GPU
moves the bytes that the workload has to move, relative to jit's. *Kernels* is how long the GPU is busy with a call, as
torch's profiler reads it off the driver, of jit and of the peer that keeps it busy for the shortest time; a call takes
longer where the CPU is slower at queueing it. What fails is a line of the report, and ends nothing else.
"""

from __future__ import annotations

import argparse
import importlib
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cache, partial
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks import gpu_models
from benchmarks.gpu_workloads import GPU_WORKLOADS
from benchmarks.measuring import TOLERANCE, difference, quantity
from benchmarks.peers import CannotDo, _jit, _Names, _torch, with_gradients
from benchmarks.workloads import WORKLOADS, Workload

WORKS = {**WORKLOADS, **GPU_WORKLOADS}
ALL = [*WORKS, *gpu_models.NAMES]

ROUNDS = 15
COPIED = 1 << 30
"""The bytes of the array whose copies show how fast memory is: a copy takes longer than the CPU takes to ask for it."""
CALLS_PROFILED = 10
"""The calls whose kernels are summed up."""
HALF_TOLERANCE = 2e-2
"""The difference, relative to the largest element, up to which results of 16-bit floats are the same."""
MODEL_TOLERANCE = 5e-2
"""The same for models, whose losses are those of the fifth step where they learn."""
SECONDS = 0.005
"""A measurement lasts so long at least."""
TESTS = ["-m", "cuda", "-q", "tests"]
CHECKED = """
import jit
f = jit.trace(lambda x: jit.softmax(jit.tanh(x), -1).sum(0))
print([f(jit.rand(300, 700).cuda()).sum().item() for _ in range(3)])
"""
"""A program for compute-sanitizer."""


@dataclass(frozen=True)
class Program:
    """A workload as a library runs it on the GPU."""

    call: Callable[[], Any]
    """Queues it."""
    wait: Callable[[], None]
    """Waits until the GPU has done all."""
    fetch: Callable[[Any], list[Any]]
    """The arrays of a result."""


# -- libraries -----------------------------------------------------------------------------------------------------


def _of_torch(work: Workload, arrays: list[Any], compiled: bool) -> Program:
    torch, t = _torch(1)
    if not torch.cuda.is_available():
        raise CannotDo
    torch.backends.cudnn.allow_tf32 = False  # products of float32 are float32's in all libraries here
    tensors = [torch.from_numpy(a).cuda().requires_grad_(i in work.gradients) for i, a in enumerate(arrays)]
    grad = lambda f, ts, which: torch.autograd.grad(f(*ts), [ts[i] for i in which])  # noqa: E731
    function = torch.compile(lambda *ts: work.function(t, *ts)) if compiled else lambda *ts: work.function(t, *ts)
    same = Workload(work.name, lambda _, *ts: function(*ts), work.inputs, gradients=work.gradients,
                    learning_rate=work.learning_rate)  # fmt: skip
    program = with_gradients(same, None, grad)

    def call() -> Any:
        with torch.set_grad_enabled(bool(work.gradients)):
            return program(*tensors)

    return Program(call, torch.cuda.synchronize, lambda r: [x.detach().cpu().numpy() for x in _many(r)])


def _of_jax(work: Workload, arrays: list[Any]) -> Program:
    jax = importlib.import_module("jax")
    if jax.default_backend() != "gpu":
        raise CannotDo
    jnp = jax.numpy
    t = _Names(
        tanh=jnp.tanh, sigmoid=jax.nn.sigmoid, relu=jax.nn.relu, mean=jnp.mean, softmax=jax.nn.softmax, sum=jnp.sum,
        var=lambda x, dim: jnp.var(x, dim, ddof=1), chunk=lambda x, n, dim: jnp.split(x, n, dim), matmul=jnp.matmul,
        cumsum=jnp.cumsum, argmax=jnp.argmax, embedding=lambda index, table: table[index],
    )  # fmt: skip
    compiled = jax.jit(with_gradients(work, t, lambda f, ts, which: jax.grad(f, which)(*ts)))
    tensors = [jax.device_put(a) for a in arrays]
    latest: list[Any] = []

    def call() -> Any:
        latest[:] = [compiled(*tensors)]
        return latest[0]

    return Program(call, lambda: jax.block_until_ready(latest), lambda r: [np.asarray(x) for x in _many(r)])


def _of_jit(work: Workload, arrays: list[Any]) -> Program:
    jit, t = _jit(1)
    grad = lambda f, ts, which: jit.grad(f(*ts), [ts[i] for i in which])  # noqa: E731
    traced = jit.trace(with_gradients(work, t, grad))
    tensors = [jit.from_numpy(a).cuda().requires_grad_(i in work.gradients) for i, a in enumerate(arrays)]

    def call() -> Any:
        with jit.set_grad_enabled(bool(work.gradients)):
            return traced(*tensors)

    return Program(call, jit.cuda.synchronize, lambda r: [x.detach().cpu().numpy() for x in _many(r)])


def _many(result: Any) -> Sequence[Any]:
    return result if isinstance(result, (tuple, list)) else [result]


PEERS: dict[str, Callable[[Workload, list[Any]], Program]] = {
    "torch eager": lambda work, arrays: _of_torch(work, arrays, False),
    "torch.compile": lambda work, arrays: _of_torch(work, arrays, True),
    "jax.jit": _of_jax,
    "jit": _of_jit,
}


# -- timings -------------------------------------------------------------------------------------------------------


def measured(name: str, peers: Sequence[str]) -> str:
    """A row of the table: the times of all peers on a workload, or what is wrong with them."""
    work = WORKS.get(name)
    makers, tolerance = _makers(name)
    programs, errors = _programs({peer: makers[peer] for peer in peers if peer in makers}, tolerance)
    times = _interleaved(programs)
    if "jit" not in times:
        return f"| {name} | {errors.get('jit', 'jit cannot do it')} | | | | | |"
    own, others = times["jit"], {peer: t for peer, t in times.items() if peer != "jit"}
    best = min(others.values(), default=float("nan"))
    busy = {peer: _busy_time(program) for peer, program in programs.items()}
    least = min((t for peer, t in busy.items() if peer != "jit"), default=float("nan"))
    limit = f"{_copy_time(work.bytes) / min(own, busy['jit'] or own):.2f}" if work and work.bytes else "-"
    ratios = ", ".join(f"{peer} {t / own:.2f}" for peer, t in sorted(others.items(), key=lambda item: item[1]))
    wrong = "".join(f"; {peer}: {error}" for peer, error in errors.items())
    launch = quantity(_launch_time(programs["jit"]), "s")
    kernels = f"{quantity(busy['jit'], 's')}, {quantity(least, 's')}" if busy["jit"] else "-"
    return f"| {name} | {quantity(own, 's')} | {launch} | {kernels} | {limit} | {own / best:.2f} | {ratios}{wrong} |"


Makers = dict[str, Callable[[], Program]]


def _makers(name: str) -> tuple[Makers, float]:
    """What makes the program of each peer, and how far from the first one's its results may be."""
    if name not in WORKS:
        return {peer: _of_model(make, peer) for peer, make in gpu_models.calls_of(name).items()}, MODEL_TOLERANCE
    work = WORKS[name]
    arrays = work.inputs(np.random.default_rng(0))
    half = any(array.dtype.itemsize == 2 for array in arrays)
    return {peer: partial(make, work, arrays) for peer, make in PEERS.items()}, HALF_TOLERANCE if half else TOLERANCE


def _of_model(make: Callable[[], Callable[[], Any]], peer: str) -> Callable[[], Program]:
    def program() -> Program:
        return Program(make(), importlib.import_module("jit" if peer == "jit" else "torch").cuda.synchronize, _fetched)

    return program


def _fetched(result: Any) -> list[Any]:
    """All arrays in the result of a model."""
    if isinstance(result, (tuple, list)):
        return [array for part in result for array in _fetched(part)]
    return [result.detach().cpu().numpy().astype(np.float32)]


def _programs(makers: Makers, tolerance: float) -> tuple[dict[str, Program], dict[str, str]]:
    """The programs that give the right result, and what is wrong with the others."""
    found: dict[str, Program] = {}
    errors: dict[str, str] = {}
    expected: Any = None
    for name, make in makers.items():
        try:
            program = make()
            for _ in range(4):  # what compiles late compiles now
                result = program.call()
            given = program.fetch(result)
        except (CannotDo, ImportError):
            continue
        except Exception as error:
            errors[name] = f"{type(error).__name__}: {' '.join(str(error).split())[:120]}"
            continue
        expected = given if expected is None else expected
        if (off := difference(given, expected)) > tolerance:
            errors[name] = f"wrong by {off:.1e}"
        else:
            found[name] = program
    return found, errors


def _interleaved(programs: dict[str, Program]) -> dict[str, float]:
    repeats = {name: max(1, int(SECONDS / max(_once(p, 1), 1e-7))) for name, p in programs.items()}
    times: dict[str, list[float]] = {name: [] for name in programs}
    for _ in range(ROUNDS):
        for name, program in programs.items():
            times[name].append(_once(program, repeats[name]))
    return {name: statistics.median(found) for name, found in times.items()}


def _once(program: Program, repeats: int) -> float:
    program.wait()
    start = time.perf_counter()
    for _ in range(repeats):
        program.call()
    program.wait()
    return (time.perf_counter() - start) / repeats


def _launch_time(program: Program) -> float:
    """The time until a call returns, where nothing is queued before it."""
    found = []
    for _ in range(50):
        program.wait()
        start = time.perf_counter()
        program.call()
        found.append(time.perf_counter() - start)
    return statistics.median(found)


def _busy_time(program: Program) -> float:
    """The seconds for which a call keeps the GPU busy; 0 where torch is not there to tell."""
    try:
        profiler = importlib.import_module("torch.profiler")
    except ImportError:
        return 0.0
    program.wait()
    with profiler.profile(activities=[profiler.ProfilerActivity.CUDA], acc_events=True) as profile:
        for _ in range(CALLS_PROFILED):
            program.call()
        program.wait()
    on_gpu = [event for event in profile.events() if str(event.device_type).endswith("CUDA")]
    return float(sum(event.time_range.elapsed_us() for event in on_gpu)) / CALLS_PROFILED * 1e-6


@cache
def _bandwidth() -> float:
    """The bytes that a copy on the GPU moves in a second, half of them read."""
    import jit

    whole = jit.zeros(COPIED // 4, device="cuda")
    copy = Program(lambda: whole.clone(), jit.cuda.synchronize, lambda r: [])
    _once(copy, 3)
    return 2 * COPIED / min(_once(copy, 10) for _ in range(5))


def _copy_time(moved: int) -> float:
    """The time in which a copy on the GPU moves so many bytes, far more than its cache holds."""
    return moved / _bandwidth()


# -- calls of a graph ----------------------------------------------------------------------------------------------

CALLS = 2000
"""The calls whose time is divided by their number."""
BAR = "10 us"
"""The time that a call of a captured plan may take."""


def captured() -> str:
    """A table: the CPU time of a call whose kernels are a CUDA graph, and of its parts."""
    import jit
    from jit.tracing.surroundings.properties import contents_of

    def chain(x: Any, w: Any) -> Any:
        for _ in range(10):
            x = jit.softmax(x * w, -1)
            x = x - x.sum(0, keepdim=True)
        return x

    traced, given = jit.trace(chain), [jit.randn(64, 64).cuda(), jit.randn(64).cuda()]
    for _ in range(8):
        traced(*given)
    plan = traced._last.plan(traced._last.chains[0])
    natives = plan.interpreter.natives[0]
    if len(natives) != 1 or not any(run.is_graph for run in natives[0].runs):
        return f"there is none: {traced.explain()}"
    arrays, call = [contents_of(tensor) for tensor in given], natives[0]
    rows = {
        "a call of the traced function": lambda: traced(*given), "its plan": lambda: plan.run(0, arrays),
        "its stretch": lambda: call((), arrays),
    }  # fmt: skip
    times = [f"| {name} | {quantity(_cpu_time(work), 's')} |" for name, work in rows.items()]
    head = f"| CPU time, 20 kernels of 64 x 64 | of a call (bar: {BAR}) |\n| --- | --- |"
    return "\n".join([head, *times])


def _cpu_time(work: Callable[[], Any]) -> float:
    """The seconds of this thread that a call takes, where the queue of the GPU is never full."""
    import jit

    taken = 0.0
    for _ in range(CALLS // 100):
        jit.cuda.synchronize()
        start = time.thread_time()
        for _ in range(100):
            work()
        taken += time.thread_time() - start
    return taken / CALLS


# -- the report ----------------------------------------------------------------------------------------------------

HEAD = """
| workload | jit | launch | kernels: jit, best other | of copy | jit / best | the others, relative to jit |
| --- | --- | --- | --- | --- | --- | --- |"""


def _ran(title: str, command: Sequence[str]) -> str:
    """What a command printed last, and its status."""
    try:
        done = subprocess.run(command, capture_output=True, text=True)
    except OSError as error:
        return f"\n## {title}\n\nnot run: {error}\n"
    last = "\n".join((done.stdout + done.stderr).strip().splitlines()[-30:])
    return f"\n## {title}\n\n`{' '.join(command[:6])}`: exit {done.returncode}\n\n```text\n{last}\n```\n"


def main() -> int:
    """The command line."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--only", action="append", metavar="WORKLOAD", help="measure this workload (repeatable)")
    parser.add_argument("--peer", action="append", choices=[*PEERS], help="compare with this peer alone (repeatable)")
    parser.add_argument("--report", metavar="FILE", help="run the tests and the checker, too, and write a report")
    parser.add_argument("--graphs", action="store_true", help="measure calls of a CUDA graph alone")
    parser.add_argument("--child", nargs="+", help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.graphs:
        print(captured())
        return 0
    peers = [*dict.fromkeys([*(options.peer or PEERS), "jit"])]
    if options.child:
        for name in options.child:
            print(measured(name, peers), flush=True)
        return 0
    if unknown := [name for name in options.only or () if name not in ALL]:
        parser.error(f"there is no workload {unknown[0]!r}: choose from {', '.join(ALL)}")
    parts = [_timings(options.only or ALL, peers)]
    if options.report:
        parts.insert(0, _ran("This machine", [sys.executable, "-m", "jit", "doctor"]))
        parts.append(_ran("Calls of a CUDA graph", [sys.executable, "-m", "benchmarks.gpu", "--graphs"]))
        parts.append(_ran("Tests", [sys.executable, "-m", "pytest", *TESTS]))
        parts.append(_ran("compute-sanitizer", ["compute-sanitizer", sys.executable, "-c", CHECKED]))
        Path(options.report).write_text("# On a GPU\n" + "".join(parts))
    return 0


def _timings(names: Sequence[str], peers: Sequence[str]) -> str:
    """The table, printed as it grows; one process measures all, and another one goes on where it dies."""
    print(HEAD.strip(), flush=True)
    rows: list[str] = []
    chosen = [word for peer in peers for word in ("--peer", peer)]
    while left := names[len(rows) :]:
        command = [sys.executable, "-m", "benchmarks.gpu", *chosen, "--child", *left]
        with tempfile.TemporaryFile("w+") as errors:
            with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=errors, text=True) as child:
                found = _echoed(child)
            errors.seek(0)
            said = errors.read()
        rows += found
        if len(found) < len(left):
            rows.append(f"| {left[len(found)]} | exit {child.returncode}: {' '.join(said.split())[-120:]} | | | | | |")
            print(rows[-1], flush=True)
    return f"\n## Timings\n{HEAD}\n" + "\n".join(rows) + "\n"


def _echoed(child: subprocess.Popen[str]) -> list[str]:
    """The rows that a process prints, printed as they come."""
    assert child.stdout is not None
    rows = []
    for line in child.stdout:
        if line.startswith("| "):
            rows.append(line.strip())
            print(rows[-1], flush=True)
    return rows


if __name__ == "__main__":
    sys.exit(main())
