"""Measures steps of training in several processes: two of one thread each against one of two threads.

    python -m benchmarks.distributed                      # the CNN and BERT, each batch of BATCHES
    python -m benchmarks.distributed --only bert --batch 32 --rounds 5
    python -m benchmarks.distributed --profile            # where the time of a step goes, for the overlap
    python -m benchmarks.distributed --paper              # what many processes would reach, by a model; see below

Both have the same samples in a step: two processes take half of them each, and the averaged gradients are those of all.
The step is one traced function. Processes take turns, and the least time counts.

On paper: a step of n processes takes the measured time of one process alone, and what is left of the exchanges when the
backward ends. Bucket k can leave when its share of the backward is done, by bytes, and when the bucket before it has
arrived. An exchange of V bytes over links of B bytes per second, each message of which costs A seconds, takes

    ring      2 (n - 1) A + 2 (n - 1) / n V / B
    halving   2 log2(n) A + 2 (n - 1) / n V / B

(Thakur, Rabenseifner and Gropp, Optimization of Collective Communication Operations in MPICH, International Journal of
High Performance Computing Applications 19(1), 2005), and log2(n) A more for 16 bytes by which processes agree on it.
The sums themselves, contention between nodes, and processes that are late are not in it.
"""

from __future__ import annotations

import argparse
import json
import math
import os
import subprocess
import sys
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks.measuring import THREAD_VARIABLES, quantity

NAMES = {"resnet18": "CNN (resnet18)", "bert": "BERT"}
BATCHES = {"resnet18": (16, 64), "bert": (8, 32)}
"""Samples in a step, of all processes together."""
WARM, STEPS = 5, 6
BACKWARD = 2 / 3
"""The share of a step that the backward takes, on paper."""
NETWORKS = {
    "InfiniBand HDR, 200 Gbit/s, 2 us": (2e-6, 25e9),
    "Ethernet, 25 Gbit/s, 30 us": (30e-6, 3.125e9),
}
"""Stated, not measured: seconds for a message, and bytes per second."""


# -- one process -------------------------------------------------------------------------------------------------


def child(order: dict[str, Any]) -> None:
    """Measure steps in this process, and those that mpiexec has started beside it; the first one prints."""
    import jit
    from jit import distributed, passes

    distributed.init_process_group("mpi")
    rank, count = distributed.get_rank(), distributed.get_world_size()
    if order["way"] == "no overlap":
        passes.OPTIMIZE.remove("overlap")
    step, example, net = _step(order, rank, count)
    for _ in range(WARM):
        step(*example)
    seconds = _seconds(lambda: step(*example))
    found = {"seconds": seconds, "latency": _latency(), "buckets": _buckets(net)}
    if order.get("profile"):
        found["profile"] = str(step.profile(*example))
    if rank == 0:
        print(json.dumps(found))
    if jit.distributed.is_initialized():
        distributed.destroy_process_group()


def _step(order: dict[str, Any], rank: int, count: int) -> tuple[Any, list[Any], Any]:
    """A traced step, its example, and the network."""
    import jit
    from benchmarks.models import MODELS

    model = MODELS[order["model"]]
    assert model.examples is not None and model.training is not None
    jit.manual_seed(0)
    net = model.network(jit, False)
    is_together = count > 1 and order["way"] != "alone"
    wrapped = jit.nn.parallel.DistributedDataParallel(net) if is_together else net
    arrays = model.examples(np.random.default_rng(0), order["batch"])
    example = [jit.tensor(array[rank * len(array) // count : (rank + 1) * len(array) // count]) for array in arrays]
    return jit.trace(model.training(jit, wrapped, lambda module: module)), example, wrapped


def _seconds(call: Callable[[], Any]) -> float:
    """The least seconds of a call, in the process that takes longest."""
    from jit import distributed, tensor

    times = []
    for _ in range(STEPS):
        distributed.barrier()
        start = time.perf_counter()
        call()
        longest = tensor([time.perf_counter() - start])
        distributed.all_reduce(longest, distributed.ReduceOp.MAX)
        times.append(float(longest))
    return min(times)


def _latency() -> float:
    """The seconds that the reduction of one number takes."""
    from jit import distributed, ones

    number = ones(1)
    start = time.perf_counter()
    for _ in range(200):
        distributed.all_reduce(number)
    return (time.perf_counter() - start) / 200


def _buckets(net: Any) -> list[int]:
    """The bytes of the buckets of a network, in the order in which they are sent."""
    from jit.nn.parallel.buckets import BYTES, FIRST_BYTES, in_buckets

    parameters = list(net.parameters())[::-1]
    found = in_buckets(parameters, lambda parameter: parameter, FIRST_BYTES, BYTES)
    return [sum(p.numel() * p.dtype.itemsize for p in bucket) for bucket in found]


# -- all of them -------------------------------------------------------------------------------------------------


def run(order: dict[str, Any], count: int, threads: int) -> dict[str, Any]:
    """What `count` processes find, with as many threads each."""
    from jit.command.launching import mpiexec

    variables = dict(os.environ) | dict.fromkeys(THREAD_VARIABLES, str(threads))
    command = [
        mpiexec(),
        "-n",
        str(count),
        sys.executable,
        "-m",
        "benchmarks.distributed",
        "--child",
        json.dumps(order),
    ]
    done = subprocess.run(command, env=variables, capture_output=True, text=True, cwd=Path(__file__).parents[1])
    if done.returncode:
        sys.exit(f"{order}: exit code {done.returncode}\n{done.stdout}{done.stderr}")
    return json.loads(done.stdout.strip().splitlines()[-1])


def scaling(name: str, batch: int, rounds: int) -> dict[str, float]:
    """The least seconds of a step in each way of running it."""
    ways = {
        "two threads": (1, 2, "alone"), "two processes": (2, 1, "together"), "no overlap": (2, 1, "no overlap"),
        "alone": (2, 1, "alone"),
    }  # fmt: skip
    found: dict[str, float] = {}
    for _ in range(rounds):
        for way, (count, threads, kind) in ways.items():
            seconds = run({"model": name, "batch": batch, "way": kind}, count, threads)["seconds"]
            found[way] = min(seconds, found.get(way, math.inf))
    return found


def measure(names: list[str], batch: int | None, rounds: int) -> None:
    """Print a row for each model and batch."""
    print("| model | samples | two threads | two processes | throughput, relative | no overlap | no exchange |")
    print("| --- | --- | --- | --- | --- | --- | --- |")
    for name in names:
        for samples in (batch,) if batch else BATCHES[name]:
            found = scaling(name, samples, rounds)
            ratio = found["two threads"] / found["two processes"]
            cells = [quantity(found[way], "s") for way in ("two threads", "two processes", "no overlap", "alone")]
            row = [NAMES[name], str(samples), *cells[:2], f"{ratio:.2f}", *cells[2:]]
            print(f"| {' | '.join(row)} |", flush=True)


def profile(names: list[str]) -> None:
    """Print where the time of a step goes in one of two processes."""
    for name in names:
        order = {"model": name, "batch": BATCHES[name][0], "way": "together", "profile": True}
        print(f"{NAMES[name]}, {BATCHES[name][0]} samples\n{run(order, 2, 1)['profile']}")


# -- on paper ----------------------------------------------------------------------------------------------------


def exchange(size: float, count: int, latency: float, bandwidth: float, ring: bool) -> float:
    """The seconds of one exchange, by the formulas above."""
    messages = 2 * (count - 1) if ring else 2 * math.log2(count)
    return (messages + math.log2(count)) * latency + 2 * (count - 1) / count * size / bandwidth


def exposed(seconds: float, buckets: list[int], cost: Callable[[float], float]) -> float:
    """The seconds by which the last bucket arrives after the end of the backward.

    >>> exposed(3.0, [50, 50], lambda size: size / 50)
    1.0
    """
    start, sent, arrived = seconds * (1 - BACKWARD), 0.0, 0.0
    for size in buckets:
        sent += size
        ready = start + seconds * BACKWARD * sent / sum(buckets)
        arrived = max(ready, arrived) + cost(size)
    return arrived - seconds


def paper(names: list[str]) -> None:
    """Print what many processes would reach: the throughput of each, relative to one alone."""
    print("| model | samples each | step alone | gradients | network | algorithm | 2 | 64 | 1,024 |")
    print("| --- | --- | --- | --- | --- | --- | --- | --- | --- |")
    for name in names:
        for samples in BATCHES[name]:
            found = run({"model": name, "batch": samples, "way": "alone"}, 1, 1)
            seconds, buckets = found["seconds"], found["buckets"]
            for network, (latency, bandwidth) in NETWORKS.items():
                for ring in (True, False):
                    shares = []
                    for count in (2, 64, 1024):
                        cost = partial(exchange, count=count, latency=latency, bandwidth=bandwidth, ring=ring)
                        shares.append(f"{seconds / (seconds + exposed(seconds, buckets, cost)):.1%}")
                    facts = f"{sum(buckets) / 1e6:.1f} MB in {len(buckets)} buckets"
                    row = [NAMES[name], str(samples), quantity(seconds, "s"), facts, network]
                    print(f"| {' | '.join([*row, 'ring' if ring else 'halving', *shares])} |", flush=True)


def main() -> None:
    """The command line."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--only", choices=NAMES, action="append", help="this model alone")
    parser.add_argument("--batch", type=int, help="samples in a step")
    parser.add_argument("--rounds", type=int, default=2, help="how often each way is measured [%(default)s]")
    parser.add_argument("--profile", action="store_true", help="where the time goes")
    parser.add_argument("--paper", action="store_true", help="what many processes would reach")
    parser.add_argument("--child", type=json.loads, help=argparse.SUPPRESS)
    options = parser.parse_args()
    names = options.only or list(NAMES)
    if options.child:
        child(options.child)
    elif options.paper:
        paper(names)
    elif options.profile:
        profile(names)
    else:
        measure(names, options.batch, options.rounds)


if __name__ == "__main__":
    main()
