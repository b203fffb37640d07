"""How calls are measured: each workload in a process of its own, peers in turns, and what figures look like."""

from __future__ import annotations

import contextlib
import json
import os
import platform
import resource
import statistics
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

ROUNDS = 15
ROUNDS_OF_THE_SLOW, SLOW = 3, 4.0
"""After so many rounds, whoever takes so many times as long as the fastest has been measured well enough."""
SECONDS = 0.003
"""A measurement repeats its call until it has lasted so long."""
THREAD_VARIABLES = (
    "OMP_NUM_THREADS",
    "OPENBLAS_NUM_THREADS",
    "MKL_NUM_THREADS",
    "NUMEXPR_MAX_THREADS",
    "JIT_NUM_THREADS",
)
REST = 0.2
"""Seconds before the turn of a peer if there are several threads: those of the peer before wait by spinning."""
TOLERANCE = 2e-3

Row = dict[str, Any]
Clock = Callable[[], float]

# -- processes ---------------------------------------------------------------------------------------------------


def run_child(module: str, order: Row, threads: int, **environment: str) -> Row:
    """What the program `module` answers to an order, in a process with so many threads on as many cores."""
    variables = dict(os.environ) | dict.fromkeys(THREAD_VARIABLES, str(threads)) | environment
    variables.pop("PYTHONDONTWRITEBYTECODE", None)  # a package that is installed has its bytecode
    variables["XLA_FLAGS"] = f"--xla_cpu_multi_thread_eigen={'false' if threads == 1 else 'true'}"
    command = [sys.executable, "-m", module, "--child", json.dumps(order)]
    prefix = ["taskset", "-c", ",".join(map(str, _cores()[:threads]))] if _can_pin() else []
    done = subprocess.run(prefix + command, env=variables, capture_output=True, text=True)
    if done.returncode:
        return dict(peers={p: f"exit {done.returncode}: {done.stderr.strip()[-200:]}" for p in order["peers"]})
    return json.loads(done.stdout.strip().splitlines()[-1])


def _can_pin() -> bool:
    from shutil import which

    return which("taskset") is not None and hasattr(os, "sched_getaffinity")


def _cores() -> list[int]:
    """The cores that this process may use: `taskset -c 1 python -m benchmarks.run ...` measures on core 1."""
    return sorted(os.sched_getaffinity(0))


# -- results and times -------------------------------------------------------------------------------------------


def arrays_of(result: Any) -> list[Any]:
    """The arrays of a tensor, or of lists and tuples of tensors."""
    if isinstance(result, list | tuple):
        return [array for part in result for array in arrays_of(part)]
    return [np.asarray(result.detach() if hasattr(result, "detach") else result)]


def difference(found: list[Any], expected: list[Any]) -> float:
    """The largest error of any array, relative to its largest element."""
    pairs = list(zip(found, expected))
    if len(found) != len(expected) or any(a.shape != b.shape for a, b in pairs):
        return float("inf")
    return max(float(np.abs(a - b).max() / (np.abs(b).max() + 1e-30)) for a, b in pairs)


def interleaved(
    calls: dict[str, Callable[[], Any]],
    clock: Clock = time.perf_counter,
    typical: Callable[[list[float]], float] = statistics.median,
    rest: float = 0.0,
) -> dict[str, float]:
    """The typical time of each. CPU time is never too short, so its least is the best estimate; else the median."""
    repeats = {name: max(1, int(SECONDS / max(_once(call, 1, clock), 1e-7))) for name, call in calls.items()}
    times: dict[str, list[float]] = {name: [] for name in calls}
    for round in range(ROUNDS):
        best = min((typical(found) for found in times.values() if found), default=0.0)
        for name, call in calls.items():
            if round < ROUNDS_OF_THE_SLOW or typical(times[name]) < SLOW * best:
                if rest:
                    time.sleep(rest)
                    call()  # wakes the threads of this one
                times[name].append(_once(call, repeats[name], clock))
    return {name: typical(found) for name, found in times.items()}


def _once(call: Callable[[], Any], repeats: int, clock: Clock) -> float:
    start = clock()
    for _ in range(repeats):
        call()
    return (clock() - start) / repeats


# -- printing ----------------------------------------------------------------------------------------------------


def alone(make: Callable[[], Callable[[], Any]], later: bool) -> tuple[float, float]:
    """The seconds from `make` to the first result of the call it makes, and by how many MB the resident set grows.

    It grows from before `make` to the peak of the first call, or of the fourth if `later`.
    """
    before, start = _fresh_peak(), time.perf_counter()
    call = make()
    result = call()
    took = time.perf_counter() - start
    for _ in range(3 if later else 0):  # what compiles late compiles now
        result = None
        _fresh_peak()
        result = call()
    grown = _peak() - before
    del result
    return took, grown


def _peak() -> float:
    """The largest resident set so far, in MB; the process that this one was forked from counts in getrusage alone."""
    with contextlib.suppress(OSError):
        for line in Path("/proc/self/status").read_text().splitlines():
            if line.startswith("VmHWM:"):
                return int(line.split()[1]) / 1024
    scale = 1024 if sys.platform != "darwin" else 1024 * 1024
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / scale


def _fresh_peak() -> float:
    """The resident set, from which the peak is counted anew; elsewhere than on Linux, the peak so far."""
    with contextlib.suppress(OSError):
        Path("/proc/self/clear_refs").write_text("5")
    return _peak()


def machine(threads: int) -> str:
    """Where figures come from."""
    return f"\n{platform.machine()}, Python {platform.python_version()}, {threads} thread{'s' * (threads > 1)}"


def base(best: float, unit: str) -> float:
    """What ratios refer to. Pages come and go: less than 1 MB counts as 1 MB."""
    return max(best, 1.0) if unit == "MB" else best


def quantity(value: float, unit: str) -> str:
    """A time or a size, in a unit that suits it."""
    if unit == "MB":
        return f"{value:.1f} MB"
    return f"{value * 1e6:.1f} us" if value < 1e-3 else f"{value * 1e3:.2f} ms" if value < 1 else f"{value:.2f} s"
