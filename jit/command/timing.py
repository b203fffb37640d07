"""Times of a target: eager calls beside traced ones, in turns."""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple

LEAST = 3e-3
"""Seconds for which a call is repeated in each round."""


class BenchTimes(NamedTuple):
    """Seconds that a call takes: eagerly, and traced."""

    eager: float
    traced: float
    """The median call, once it runs from the recording."""
    first: float
    """The first traced call, which records."""
    second: float
    """The second one, which compiles."""
    hits: int
    rounds: int
    others: dict[str, float] = {}
    """Other runtimes by name."""
    memory: dict[str, int] = {}
    """Bytes by which the resident set grows, if that was asked for: of eager and traced calls, and other runtimes."""

    def __str__(self) -> str:
        faster = f"{self.eager / self.traced:.2f} times as fast" if self.traced else ""
        rows = [("eager", self.eager, ""), ("traced", self.traced, faster), ("first traced call", self.first, "")]
        rows += [("second traced call", self.second, "")]
        rows += [(name, t, f"traced takes {self.traced / t:.2f} of this") for name, t in self.others.items()]
        lines = [f"{name:<20}{1e3 * seconds:>12.4f} ms  {note}".rstrip() for name, seconds, note in rows]
        lines += [f"{f'memory, {name}':<32}{n / 2**20:>12.1f} MB" for name, n in self.memory.items()]
        if not self.hits:
            lines.append("no call ran from a recording: jit.trace(...).explain() says why")
        return "\n".join(lines)


def compare(
    eager: Any,
    traced: Any,
    args: Sequence[Any],
    kwargs: dict[str, Any],
    rounds: int,
    then: Callable[[Any], None] | None = None,
    others: Mapping[str, Callable[[], Any]] | None = None,
) -> BenchTimes:
    """Time a function and its traced form on the same arguments; they take turns, and the median counts.

    Args:
        eager: The function.
        traced: The traced function; its first calls are timed one by one.
        args: Arguments of the calls.
        kwargs: The same by name.
        rounds: The number of turns.
        then: A function of the result that belongs to each call, such as a backward.
        others: Calls of other runtimes, by their names.
    """

    def once(function: Any) -> float:
        began = time.perf_counter()
        if function in foreign:
            function()
            return time.perf_counter() - began
        result = function(*args, **kwargs)
        if then is not None:
            then(result)
        return time.perf_counter() - began

    foreign = list((others or {}).values())
    first, second = once(traced), once(traced)
    repeats = {each: max(1, round(LEAST / max(once(each), 1e-9))) for each in (eager, traced, *foreign)}
    turns = [[sum(once(each) for _ in range(many)) / many for each, many in repeats.items()] for _ in range(rounds)]
    medians = [statistics.median(times) for times in zip(*turns, strict=True)]
    named = dict(zip(others or {}, medians[2:], strict=True))
    return BenchTimes(medians[0], medians[1], first, second, traced.hits, rounds, named)
