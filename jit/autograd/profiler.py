"""A profile of the operators that run: `with jit.autograd.profiler.profile() as p: ...; print(p)`."""

from __future__ import annotations

import contextlib
import threading
import time
from collections.abc import Callable
from contextvars import Token
from dataclasses import dataclass
from types import TracebackType
from typing import Any

from jit.eager import context


@dataclass(slots=True)
class FunctionEvent:
    """One call of an operator; the parts of a composite are events of their own."""

    name: str
    start: float
    """The start in seconds of `time.perf_counter`, like `end`."""
    end: float
    thread: int

    @property
    def elapsed(self) -> float:
        """The time it took, in seconds."""
        return self.end - self.start


class profile:  # noqa: N801 - users call it like a function
    """Record every operator that runs within this block, those of backwards included.

    What runs inside of a compiled plan is one piece to Python: `f.profile(...)` of a traced function looks into it.

    >>> import jit
    >>> with jit.autograd.profiler.profile() as p:
    ...     y = jit.ones(2) * 2 + 4
    >>> [event.name for event in p.function_events]
    ['ones', 'mul', 'add']
    """

    def __init__(self, enabled: bool = True) -> None:
        self.enabled = enabled
        self._events: list[FunctionEvent] = []
        self._token: Token[Any] | None = None

    def __enter__(self) -> profile:
        if self.enabled:
            self._token = context.PROFILE.set(self._timed)
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        if self._token is not None:
            context.PROFILE.reset(self._token)

    def _timed(self, name: str, work: Callable[[], Any]) -> Any:
        start = time.perf_counter()
        try:
            return work()
        finally:
            self._events.append(FunctionEvent(name, start, time.perf_counter(), threading.get_ident()))

    @property
    def function_events(self) -> list[FunctionEvent]:
        """All events, by the time at which they began."""
        return sorted(self._events, key=lambda event: event.start)

    def key_averages(self) -> list[tuple[str, int, float]]:
        """Rows of operator, number of calls and seconds in total, the longest time first."""
        totals: dict[str, tuple[int, float]] = {}
        for event in self._events:
            count, seconds = totals.get(event.name, (0, 0.0))
            totals[event.name] = count + 1, seconds + event.elapsed
        return sorted(((n, c, s) for n, (c, s) in totals.items()), key=lambda row: -row[2])

    def __str__(self) -> str:
        lines = [f"{name:32} {count:8} {1e6 * seconds:12.1f} us" for name, count, seconds in self.key_averages()]
        return "\n".join([f"{'operator':32} {'calls':>8} {'time':>12}", *lines])


class record_function(contextlib.ContextDecorator):  # noqa: N801 - users call it like a function
    """A block, or a decorator, that gives what runs in it a name: the scope of its operators in recorded graphs.

    Args:
        name: The name.
        args: Accepted and ignored.

    >>> import jit
    >>> with jit.autograd.profiler.record_function("head"):
    ...     y = jit.ones(2) * 2
    """

    def __init__(self, name: str, args: str | None = None) -> None:
        self.name = name
        self._block: Any = None

    def __enter__(self) -> record_function:
        self._block = context.scope(self.name)
        self._block.__enter__()
        return self

    def __exit__(self, *error: Any) -> None:
        self._block.__exit__(*error)
