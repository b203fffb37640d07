"""`--trace`: every module that a program calls, and no other module's forward does, runs as a traced function."""

from __future__ import annotations

import time
import weakref
from contextvars import ContextVar
from typing import Any

from jit import nn
from jit.compiler import EagerFallback
from jit.eager import context

from .ledger import LEDGER

_INSIDE: ContextVar[bool] = ContextVar("inside", default=False)
"""Whether a module is being called, so that those it calls are part of its trace."""
_plain: Any = nn.Module.__call__


class TracedModule:
    """One module of the program, with the times of its calls.

    Args:
        module: The module, which is not kept alive.
    """

    def __init__(self, module: nn.Module) -> None:
        self.name = type(module).__name__
        self.call = EagerFallback(module)
        self.plain_times: list[float] = []
        """Seconds that calls took which were not traced: the first two, the second of which is taken as typical."""
        self.hit_seconds = 0.0
        self.hits = self.calls = 0

    def __call__(self, module: nn.Module, args: Any, kwargs: Any) -> Any:
        """The module's result; its first two calls run as they are, to know what they take."""
        self.calls += 1
        before, began = self.call.traced.hits, time.perf_counter()
        if len(self.plain_times) < 2:
            result = _plain(module, *args, **kwargs)
            self.plain_times.append(time.perf_counter() - began)
            return result
        result = self.call(*args, **kwargs)
        if self.call.traced.hits > before:
            self.hits += 1
            self.hit_seconds += time.perf_counter() - began
        return result

    def told(self) -> str:
        """A line for the report."""
        line = f"traced: {self.name}, {self.hits} of {self.calls} calls from recordings"
        if self.call.refusal is not None:
            return f"{line}; not traced any more: {str(self.call.refusal).splitlines()[0]}"
        if not self.hits:
            return f"{line}; {self.call.traced.explain()}" if len(self.plain_times) < self.calls else line
        plain, hit = min(self.plain_times) * 1e3, self.hit_seconds / self.hits * 1e3
        return f"{line}, forward {hit:.2f} ms instead of {plain:.2f} ms"


_KNOWN: weakref.WeakKeyDictionary[nn.Module, TracedModule] = weakref.WeakKeyDictionary()
_TOLD: list[TracedModule] = []


def _traced(module: nn.Module) -> TracedModule:
    if module not in _KNOWN:
        _KNOWN[module] = TracedModule(module)
        _TOLD.append(_KNOWN[module])
    return _KNOWN[module]


def _call(self: nn.Module, *args: Any, **kwargs: Any) -> Any:
    """The call of a module, traced if it is the outermost."""
    if _INSIDE.get() or context.TRACE.get() is not None:
        return _plain(self, *args, **kwargs)
    token = _INSIDE.set(True)
    try:
        return _traced(self)(self, args, kwargs)
    finally:
        _INSIDE.reset(token)


def trace_all() -> None:
    """Trace every module that the program calls, from now on."""
    nn.Module.__call__ = _call  # type: ignore[method-assign]
    LEDGER.told.append(lambda: [each.told() for each in _TOLD])


__all__ = ["TracedModule", "trace_all"]
