"""Says what more cores would do for models, from the times that their steps take on one: on paper, with its numbers.

    python -m benchmarks.cores                       # all models, 2, 4, 8 and 16 cores
    python -m benchmarks.cores --only resnet18 --only bert

Each step of a model's plan is timed by itself on one thread. On p cores, a step that takes longer than SHARED is cut
into p parts and ends with a barrier; none is faster than its bytes through the memory that all cores share, if these do
not fit into the caches. Shorter steps run on one core. What is left out: clocks that fall when many cores work, parts
of different lengths, caches that are closer to one core than to others.
"""

from __future__ import annotations

import argparse
import math
import os
import sys
from collections.abc import Sequence
from typing import NamedTuple

SHARED = 15e-6
"""Seconds from which a step is shared: about what `Work.long` says in multiplications."""
BARRIER = 0.7e-6
"""Seconds until threads that look out for work have it, and until the last of them is done; for each doubling of p."""
BANDWIDTH = 20e9, 1.6
"""Bytes per second that one core moves, and how many cores have used up what the memory gives."""
CACHE = 16e6
"""Bytes of a step up to which they are taken from a cache."""
CORES = 2, 4, 8, 16


class StepTime(NamedTuple):
    """A step on one core."""

    seconds: float
    bytes: float

    def on(self, cores: int) -> float:
        """The seconds that it takes on so many cores."""
        if cores == 1 or self.seconds < SHARED:
            return self.seconds
        one, most = BANDWIDTH
        moved = self.bytes / (one * min(cores, most)) if self.bytes > CACHE else 0.0
        return max(self.seconds / cores, moved) + BARRIER * math.log2(cores)


def steps_of(name: str) -> list[StepTime]:
    """The steps of a model's forward pass, each as fast as in the best of some rounds."""
    import jit
    from benchmarks.models import MODELS
    from benchmarks.models.peers import Task, converted

    model = MODELS[name]
    task = Task(model, training=False, noisy=False, batch=model.batch, threads=1)
    traced, inputs = jit.trace(model.part(task.network(jit))), converted(task.arrays(), jit.from_numpy)
    with jit.no_grad():
        for _ in range(4):
            traced(*inputs)
        rounds = [traced.profile(*inputs).chrome_trace()["traceEvents"] for _ in range(5)]
    best = [min(same, key=lambda event: event["dur"]) for same in zip(*rounds, strict=True)]
    return [StepTime(event["dur"] / 1e6, event["args"]["bytes"]) for event in best]


def row(name: str, steps: Sequence[StepTime]) -> str:
    """A row of the table: milliseconds on one core, then how many times faster more of them are."""
    whole = sum(step.seconds for step in steps)
    alone = sum(step.seconds for step in steps if step.seconds < SHARED)
    gains = [f"{whole / sum(step.on(cores) for step in steps):.1f}" for cores in CORES]
    return f"| {name} | {len(steps)} | {whole * 1e3:.2f} ms | {alone / whole:.0%} | {' | '.join(gains)} |"


def main() -> int:
    """The table."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--only", action="append", help="a model of benchmarks.models; may be repeated")
    options = parser.parse_args()
    os.environ["JIT_NUM_THREADS"] = os.environ["OPENBLAS_NUM_THREADS"] = "1"
    from benchmarks.models import MODELS

    print(f"| model | steps | one core | not shared | {' | '.join(f'{n} cores' for n in CORES)} |")
    print("| --- " * (4 + len(CORES)) + "|")
    for name in MODELS:
        if name in (options.only or MODELS):
            print(row(name, steps_of(name)), flush=True)
    return 0


if __name__ == "__main__":
    sys.exit(main())
