"""`Timer`: how long a statement takes."""

from __future__ import annotations

import statistics
import time
import timeit
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from jit.eager.parallel import get_num_threads, set_num_threads


@dataclass
class Measurement:
    """Times of a statement."""

    number_per_run: int
    """The number of runs that each time is of."""
    raw_times: list[float]
    """Seconds."""
    label: str | None = None
    """The name of what was measured."""

    @property
    def times(self) -> list[float]:
        """Seconds of one run."""
        return [each / self.number_per_run for each in self.raw_times]

    @property
    def median(self) -> float:
        """The median of the times."""
        return statistics.median(self.times)

    @property
    def mean(self) -> float:
        """The mean of the times."""
        return statistics.fmean(self.times)

    @property
    def iqr(self) -> float:
        """The distance between the upper and the lower quartile."""
        if len(self.times) < 2:
            return 0.0
        lower, _, upper = statistics.quantiles(self.times, n=4, method="inclusive")
        return upper - lower

    def __repr__(self) -> str:
        unit, name = next(((u, n) for u, n in _UNITS if self.median >= u), _UNITS[-1])
        return (
            f"<Measurement of {self.label or 'a statement'}: median {self.median / unit:.2f} {name}, "
            f"IQR {self.iqr / unit:.2f} {name}, {len(self.raw_times)} measurements of {self.number_per_run} runs>"
        )


_UNITS = ((1.0, "s"), (1e-3, "ms"), (1e-6, "us"), (1e-9, "ns"))


class Timer:
    """A timer of a statement.

    Args:
        stmt: The statement.
        setup: A statement that runs once before.
        global_setup: Accepted and ignored.
        timer: The clock.
        globals: The names that the statement sees.
        label: The name in what is printed.
        sub_label: More of it.
        description: Accepted and ignored.
        env: Accepted and ignored.
        num_threads: The number of threads that operators may use.
        language: Accepted and ignored.

    >>> Timer("x + 1", globals={"x": 1}).timeit(10).number_per_run
    10
    """

    def __init__(
        self, stmt: str = "pass", setup: str = "pass", global_setup: str = "",
        timer: Callable[[], float] = time.perf_counter, globals: dict[str, Any] | None = None, label: str | None = None,
        sub_label: str | None = None, description: str | None = None, env: str | None = None, num_threads: int = 1,
        language: Any = "python",
    ) -> None:  # fmt: skip
        self._timer = timeit.Timer(stmt, setup, timer, globals)
        self._label = ": ".join(part for part in (label or stmt, sub_label) if part)
        self._num_threads = num_threads

    def _time(self, number: int) -> float:
        before = get_num_threads()
        set_num_threads(self._num_threads)
        try:
            return self._timer.timeit(number)
        finally:
            set_num_threads(before)

    def timeit(self, number: int = 1_000_000) -> Measurement:
        """The time of `number` runs."""
        self._time(max(number // 100, 2))
        return Measurement(number, [self._time(number)], self._label)

    def blocked_autorange(
        self, callback: Callable[[int, float], Any] | None = None, min_run_time: float = 0.2
    ) -> Measurement:
        """The times of blocks, each so long that the clock's own time does not matter.

        Args:
            callback: A function of the length and the time of each block.
            min_run_time: The seconds that all blocks take together, at least.
        """
        number = 1
        while self._time(number) < min_run_time / 100:
            number *= 10
        times: list[float] = []
        while sum(times) < min_run_time:
            times.append(self._time(number))
            if callback is not None:
                callback(number, times[-1])
        return Measurement(number, times, self._label)

    def adaptive_autorange(
        self, threshold: float = 0.1, *, min_run_time: float = 0.01, max_run_time: float = 10.0,
        callback: Callable[[int, float], Any] | None = None,
    ) -> Measurement:  # fmt: skip
        """The times of blocks, as many as it takes until they agree.

        Args:
            threshold: The distance of the quartiles, in parts of the median, that is near enough.
            min_run_time: The seconds that they take together, at least.
            max_run_time: At most.
            callback: A function of the length and the time of each block.
        """
        found = self.blocked_autorange(callback, min_run_time)
        while sum(found.raw_times) < max_run_time and (len(found.times) < 4 or found.iqr > threshold * found.median):
            found.raw_times.append(self._time(found.number_per_run))
        return found


__all__ = ["Measurement", "Timer"]
