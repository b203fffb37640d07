"""What the current thread and task have switched on: gradients, a trace, a scope. Workers inherit it."""

from __future__ import annotations

import functools
import os
import sys
import traceback
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from types import FrameType, TracebackType
from typing import TYPE_CHECKING, Any

from jit.ir import Source

if TYPE_CHECKING:
    from .tracing.tracer import Trace

GRAD_ENABLED: ContextVar[bool] = ContextVar("grad_enabled", default=True)
TRACE: ContextVar[Trace | None] = ContextVar("trace", default=None)
"""The innermost trace that records; None keeps the untraced path fast."""
ANOMALY: ContextVar[bool | None] = ContextVar("anomaly", default=None)
"""Whether backward looks for NaN; None: anomalies are not looked for at all. See jit.autograd.anomaly."""
SIZED: ContextVar[Trace | None] = ContextVar("sized", default=None)
"""A trace whose sizes vary: derivatives then take sizes from its tensors."""
PROFILE: ContextVar[Callable[[str, Callable[[], Any]], Any] | None] = ContextVar("profile", default=None)
"""Runs and times an operator given its name; see jit.autograd.profiler."""
BACKWARD: ContextVar[Any] = ContextVar("backward", default=None)
"""The innermost backward that runs here: a Task of jit.autograd.engine."""
CHECKPOINTS: ContextVar[tuple[int, ...]] = ContextVar("checkpoints", default=())
"""The checkpoints that are being recorded here, the outermost first; see jit.tracing.recomputation."""
SAVING: ContextVar[tuple[Callable[[Any], Any], Callable[[Any], Any]] | None] = ContextVar("saving", default=None)
"""What packs and unpacks the tensors that are saved for backward; see jit.autograd.graph."""
SCOPE: ContextVar[str] = ContextVar("scope", default="")
SOURCE: ContextVar[Source | None] = ContextVar("source", default=None)
"""The line to which recorded nodes belong, where that is not the one that runs: a derivative is its operator's."""


def asking_trace() -> Trace | None:
    """The trace that records, if it is code of the user's that calls the method which asks for it."""
    trace = TRACE.get()
    if trace is None or sys._getframe(2).f_code.co_filename.startswith(PACKAGE):
        return None
    return trace


class GradMode:
    """A context manager and decorator that switches the recording of derivatives on or off."""

    def __init__(self, enabled: bool) -> None:
        self._enabled = enabled
        self._previous: list[bool] = []

    def __enter__(self) -> None:
        self._previous.append(GRAD_ENABLED.get())
        GRAD_ENABLED.set(self._enabled)

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        GRAD_ENABLED.set(self._previous.pop())

    def __call__(self, function: Callable[..., Any]) -> Callable[..., Any]:
        @functools.wraps(function)
        def wrapped(*args: Any, **kwargs: Any) -> Any:
            with GradMode(self._enabled):
                return function(*args, **kwargs)

        return wrapped


def no_grad() -> GradMode:
    """Within this block, or in a function decorated with it, no derivatives are recorded.

    >>> import jit
    >>> x = jit.ones(2, requires_grad=True)
    >>> with jit.no_grad():
    ...     (x * 2).requires_grad
    False
    """
    return GradMode(False)


def enable_grad() -> GradMode:
    """The opposite of `no_grad`, to be used inside it."""
    return GradMode(True)


class set_grad_enabled(GradMode):  # noqa: N801 - users call it like a function
    """`enable_grad()` or `no_grad()` by a flag, from now on; in a `with` block, until its end."""

    def __init__(self, mode: bool) -> None:
        super().__init__(bool(mode))
        self._before = GRAD_ENABLED.get()
        GRAD_ENABLED.set(bool(mode))

    def __enter__(self) -> None:
        self._previous.append(self._before)
        GRAD_ENABLED.set(self._enabled)

    def __call__(self, function: Callable[..., Any]) -> Callable[..., Any]:
        GRAD_ENABLED.set(self._before)
        return super().__call__(function)


class inference_mode(GradMode):  # noqa: N801
    """`no_grad()` under the name that people use for it around evaluation; `inference_mode(False)` records again.

    Unlike PyTorch's, what is made inside is an ordinary tensor: it counts its versions, so it may be used where
    derivatives are recorded, and may be written to, later.

    >>> import jit
    >>> @jit.inference_mode()
    ... def evaluate(x):
    ...     return x * 2
    >>> evaluate(jit.ones(2, requires_grad=True)).requires_grad
    False
    """

    def __init__(self, mode: bool | Callable[..., Any] = True) -> None:
        super().__init__(not mode)

    def __new__(cls, mode: bool | Callable[..., Any] = True) -> Any:
        """`@inference_mode` without parentheses decorates, too."""
        return object.__new__(cls) if not callable(mode) else GradMode(False)(mode)


def is_grad_enabled() -> bool:
    """Whether derivatives are being recorded here."""
    return GRAD_ENABLED.get()


@contextmanager
def scope(name: str) -> Iterator[None]:
    """Name a part of a function: nodes recorded inside carry it, nested scopes joined by a slash."""
    outer = SCOPE.get()
    token = SCOPE.set(f"{outer}/{name}" if outer else name)
    try:
        yield
    finally:
        SCOPE.reset(token)


@contextmanager
def saving(hooks: tuple[Callable[[Any], Any], Callable[[Any], Any]] | None) -> Iterator[None]:
    """Within this block, tensors that are saved for backward go through `hooks`."""
    token = SAVING.set(hooks)
    try:
        yield
    finally:
        SAVING.reset(token)


@contextmanager
def tracing(trace: Trace | None) -> Iterator[None]:
    """Record into `trace` within this block; None pauses recording."""
    before = TRACE.get()
    try:
        try:
            TRACE.set(trace)
            yield
        finally:
            TRACE.set(before)
    finally:  # once more: an interrupt may have come in the place of the first time
        TRACE.set(before)


PACKAGE = os.path.dirname(os.path.abspath(__file__)) + os.sep
"""Where this package lies: frames and modules from there are not the user's."""
_STDLIB = os.path.dirname(os.path.abspath(os.__file__)) + os.sep


_ours: dict[str, bool] = {}
"""Whether a file belongs to this package or Python's library; asked for every recorded node. By name: a code object
hashes all it holds."""


def _is_ours(path: str) -> bool:
    return path.startswith((PACKAGE, "<jit")) or (path.startswith(_STDLIB) and "-packages" not in path)


@functools.cache
def _source(path: str, line: int, function: str) -> Source:
    return Source(os.path.basename(path), line, function)


def user_source() -> Source | None:
    """The line that asked for what happens now: the innermost one on the stack that is the user's."""
    if (source := SOURCE.get()) is not None:
        return source
    frame: FrameType | None = sys._getframe(1)
    while frame is not None:
        path = frame.f_code.co_filename
        ours = _ours.get(path)
        if ours is None:
            ours = _ours[path] = _is_ours(path)
        if not ours:
            return _source(path, frame.f_lineno, frame.f_code.co_name)
        frame = frame.f_back
    return None


def user_stack() -> list[str]:
    """The calls that led here, the innermost last, without those of this package."""
    frames = traceback.extract_stack()
    return traceback.format_list([f for f in frames if not f.filename.startswith((PACKAGE, "<jit"))])
