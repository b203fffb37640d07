"""How much faster a second process starts: the calls that record and compile, with an empty cache and with a full one.

    python -m benchmarks.second_process                  # every workload
    python -m benchmarks.second_process --only ew_one

Per workload and per cache the shortest of several processes: the first call, which records and runs operator by
operator, and the second, which compiles: `cold` and `warm` are the second call less a later one. Times are those of the
processor, so that other work on the machine counts less; importing jit is not in them.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tempfile
import time

PROCESSES = 3


def main() -> int:
    """The command line."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--only", action="append", help="a workload (repeatable)")
    parser.add_argument("--child", help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.child:
        print(json.dumps(_times(options.child)))
        return 0
    from benchmarks.workloads import WORKLOADS

    print(f"{'workload':14} {'first call':>12} {'cold':>14} {'warm':>14} {'faster':>8} {'both calls':>11}")
    for name in options.only or WORKLOADS:
        print(_line(name), flush=True)
    return 0


def _line(name: str) -> str:
    cold = [_run(name, None) for _ in range(PROCESSES)]
    with tempfile.TemporaryDirectory() as folder:
        _run(name, folder)
        warm = [_run(name, folder) for _ in range(PROCESSES)]
    first = min(run[0] for run in cold + warm)
    slow, fast = (min(run[1] - run[2] for run in runs) for runs in (cold, warm))
    figures = f"{1e3 * first:9.1f} ms {1e3 * slow:11.1f} ms {1e3 * fast:11.1f} ms"
    return f"{name:14} {figures} {slow / fast:7.1f}x {(first + slow) / (first + fast):10.1f}x"


def _run(name: str, cache: str | None) -> tuple[float, float, float]:
    """First, second and a later call, in a process of its own."""
    with tempfile.TemporaryDirectory() as folder:
        environment = {**os.environ, "JIT_CACHE": cache or folder, "JIT_NUM_THREADS": "1", "OPENBLAS_NUM_THREADS": "1"}
        environment.pop("PYTHONDONTWRITEBYTECODE", None)  # an installed package has bytecode, a fresh checkout has none
        command = [sys.executable, "-m", "benchmarks.second_process", "--child", name]
        text = subprocess.check_output(command, env=environment, text=True)
    first, second, later = json.loads(text)
    return first, second, later


def _times(name: str) -> list[float]:
    import numpy as np

    import jit  # noqa: F401  (does not count)
    from benchmarks.peers import PEERS
    from benchmarks.workloads import WORKLOADS

    arrays = WORKLOADS[name].inputs(np.random.default_rng(0))
    start = time.process_time()
    call = PEERS["jit"](WORKLOADS[name], arrays, 1)
    times: list[float] = []
    for _ in range(3):
        call()
        times.append(time.process_time() - start)
        start = time.process_time()
    return times


if __name__ == "__main__":
    sys.exit(main())
