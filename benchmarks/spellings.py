"""Measures what it costs to spell a meaning in one way rather than another, with the programs of `tests/tracing`.

    python -m benchmarks.spellings                 # every meaning, one thread
    python -m benchmarks.spellings --only lstm     # meanings whose names contain this
    python -m benchmarks.spellings --cpu           # CPU time, for a busy machine

A row has the time of the fastest spelling and how many times as long the others take. Calls are warm, in turns.
"""

from __future__ import annotations

import argparse
import os
import statistics
import time
from functools import partial
from typing import Any

import jit
from benchmarks.measuring import THREAD_VARIABLES, interleaved, machine, quantity
from tests.tracing.spellings import MEANINGS, Meaning

WITHIN = 1.05
"""What the slowest spelling may take, in times of the fastest."""
REPEATS = 3
"""The measurements of a meaning, of which each spelling keeps its best: nothing makes a call faster than it is."""


def measured(meaning: Meaning, cpu: bool) -> dict[str, float]:
    """The seconds of a call of each spelling."""
    operands = meaning.operands()
    calls: dict[str, Any] = {}
    for name, program in meaning.programs().items():
        traced = jit.trace(program)
        for _ in range(4):
            traced(*operands)
        calls[name] = partial(traced, *operands)
    clock, typical = (time.process_time, min) if cpu else (time.perf_counter, statistics.median)
    rounds = [interleaved(calls, clock, typical) for _ in range(REPEATS)]
    return {name: min(found[name] for found in rounds) for name in calls}


def main() -> None:
    """The command."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--only", default="", help="measure meanings whose names contain this")
    parser.add_argument("--cpu", action="store_true", help="measure CPU time, not time on the clock")
    options = parser.parse_args()
    print(f"{machine(1)}\n\n| meaning | fastest | its time | the others |\n| --- | --- | --- | --- |")
    within = total = 0
    for meaning in MEANINGS:
        if options.only in meaning.name:
            times = measured(meaning, options.cpu)
            print(_row(meaning.name + " with gradients" * meaning.gradients, times), flush=True)
            within += max(times.values()) <= WITHIN * min(times.values())
            total += 1
    print(f"\nall spellings within {WITHIN} of the fastest: {within} of {total} meanings")


def _row(name: str, times: dict[str, float]) -> str:
    fastest = min(times, key=lambda spelling: times[spelling])
    others = [f"{spelling} {took / times[fastest]:.2f}" for spelling, took in times.items() if spelling != fastest]
    return f"| {name} | {fastest} | {quantity(times[fastest], 's')} | {', '.join(others)} |"


if __name__ == "__main__":
    os.environ.update(dict.fromkeys(THREAD_VARIABLES, "1"))
    jit.set_num_threads(1)
    main()
