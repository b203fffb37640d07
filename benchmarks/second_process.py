"""How much faster a second process starts: the call that compiles, with an empty cache and with a full one.

    python -m benchmarks.second_process                  # every workload of fixed sizes
    python -m benchmarks.second_process --varying        # those whose sizes vary
    python -m benchmarks.second_process --only ew_one

A process imports jit, makes the inputs, and calls a traced function. The first call records and runs operator by
operator; the second one compiles; later ones only run. Per workload, medians of several processes with an empty and
several with a full cache, in turns:

    compiling    the second call less a later one: what a cache can save
    start        from the start of the process to the end of the second call: Python, numpy, jit, inputs, recording, all

Where sizes vary, the first ten calls stand for these two: the second size makes the recording general, the third one
plans. What they take later is subtracted from them.

Both are in milliseconds of processor time, which other work on the machine disturbs least; the ratios of wall times
stand beside them.
"""

from __future__ import annotations

import argparse
import itertools
import json
import os
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from typing import NamedTuple

PROCESSES = 5
LATER = 3
"""Calls after the second, or rounds after the first where sizes vary, of which the shortest counts."""
FIRST = 10
"""The number of calls that count as the first ones where sizes vary."""


class Times(NamedTuple):
    """The times of one process in seconds, each as (processor time, wall time)."""

    compiling: tuple[float, float]
    start: tuple[float, float]


def main() -> int:
    """The command line."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--only", action="append", metavar="WORKLOAD", help="measure this workload (repeatable)")
    parser.add_argument("--processes", type=int, default=PROCESSES, help="how many with each cache [%(default)s]")
    parser.add_argument("--child", nargs=2, help=argparse.SUPPRESS)
    parser.add_argument("--varying", action="store_true", help="measure the workloads whose sizes vary, not the others")
    options = parser.parse_args()
    if options.child:
        print(json.dumps(_times(options.child[0], float(options.child[1]))))
        return 0
    from benchmarks import varying, workloads

    known = [*workloads.WORKLOADS, *varying.WORKLOADS]
    if unknown := [name for name in options.only or () if name not in known]:
        parser.error(f"there is no workload {unknown[0]!r}: choose from {', '.join(known)}")
    print(f"{'':14} {'compiling':>30} {'start':>34}")
    print(f"{'workload':14} {'empty':>8} {'full':>7} {'faster':>7} {'(wall)':>6} {'empty':>9} {'full':>7}"
          f" {'faster':>9} {'(wall)':>6}")  # fmt: skip
    for name in options.only or (varying.WORKLOADS if options.varying else workloads.WORKLOADS):
        print(_line(name, options.processes), flush=True)
    return 0


def _line(name: str, processes: int) -> str:
    empty, full = [], []
    with tempfile.TemporaryDirectory() as folder:
        _run(name, folder)
        for _ in range(processes):
            empty.append(_run(name, None))
            full.append(_run(name, folder))
    columns = []
    for what in ("compiling", "start"):
        (slow, slow_wall), (fast, fast_wall) = (_medians([getattr(t, what) for t in times]) for times in (empty, full))
        columns.append(f"{1e3 * slow:8.1f} {1e3 * fast:7.1f} {slow / fast:6.1f}x {slow_wall / fast_wall:6.1f}")
    return f"{name:14} {columns[0]}  {columns[1]}"


def _medians(pairs: Sequence[tuple[float, float]]) -> tuple[float, float]:
    processor, wall = (statistics.median(times) for times in zip(*pairs, strict=True))
    return processor, wall


def _run(name: str, cache: str | None) -> Times:
    """The times of a process of its own; without `cache` it has an empty one."""
    with tempfile.TemporaryDirectory() as folder:
        environment = {**os.environ, "JIT_CACHE": cache or folder, "JIT_NUM_THREADS": "1", "OPENBLAS_NUM_THREADS": "1"}
        environment.pop("PYTHONDONTWRITEBYTECODE", None)  # an installed package has bytecode, a fresh checkout has none
        command = [sys.executable, "-m", "benchmarks.second_process", "--child", name, repr(time.monotonic())]
        text = subprocess.check_output(command, env=environment, text=True)
    compiling, start = json.loads(text)
    return Times(tuple(compiling), tuple(start))


def _times(name: str, began: float) -> tuple[tuple[float, float], tuple[float, float]]:
    from benchmarks import varying

    return (_of_varying if name in varying.WORKLOADS else _of_fixed)(name, began)


def _of_fixed(name: str, began: float) -> tuple[tuple[float, float], tuple[float, float]]:
    import numpy as np

    from benchmarks.peers import PEERS
    from benchmarks.workloads import WORKLOADS

    call = PEERS["jit"](WORKLOADS[name], WORKLOADS[name].inputs(np.random.default_rng(0)), 1)
    clocks = [_clocks()]
    for _ in range(2 + LATER):
        call()
        clocks.append(_clocks())
    calls = [_between(*pair) for pair in itertools.pairwise(clocks)]
    later = _least(calls[2:])
    processor, wall = clocks[2]
    return (calls[1][0] - later[0], calls[1][1] - later[1]), (processor, wall - began)


def _of_varying(name: str, began: float) -> tuple[tuple[float, float], tuple[float, float]]:
    import numpy as np

    from benchmarks.varying import WORKLOADS
    from benchmarks.varying_peers import PEERS

    session = PEERS["jit"](WORKLOADS[name], WORKLOADS[name].calls(np.random.default_rng(0)), 1)
    clocks = [_clocks()]
    for _ in range(1 + LATER):
        session.restart()
        for number in range(FIRST):
            session.call(number)
        clocks.append(_clocks())
    first, *others = (_between(*pair) for pair in itertools.pairwise(clocks))
    later = _least(others)
    processor, wall = clocks[1]
    return (first[0] - later[0], first[1] - later[1]), (processor, wall - began)


def _between(start: tuple[float, float], end: tuple[float, float]) -> tuple[float, float]:
    return end[0] - start[0], end[1] - start[1]


def _least(calls: Sequence[tuple[float, float]]) -> tuple[float, float]:
    processor, wall = (min(times) for times in zip(*calls, strict=True))
    return processor, wall


def _clocks() -> tuple[float, float]:
    return time.process_time(), time.monotonic()


if __name__ == "__main__":
    sys.exit(main())
