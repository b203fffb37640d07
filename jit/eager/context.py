"""Switches of the current thread and task: gradients, a trace, a scope. Workers inherit them."""

from __future__ import annotations

import functools
import inspect
import os
import sys
import traceback
import warnings
from collections.abc import Callable, Generator, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from types import CodeType, FrameType, TracebackType
from typing import TYPE_CHECKING, Any

from jit.ir import Source
from jit.ir.precision import Regime

if TYPE_CHECKING:
    from .recorder import Recorder

GRAD_ENABLED: ContextVar[bool] = ContextVar("grad_enabled", default=True)
TRACE: ContextVar[Recorder | None] = ContextVar("trace", default=None)
"""The innermost trace that records; None keeps the untraced path fast."""
EXPORTING: ContextVar[bool] = ContextVar("exporting", default=False)
"""Whether what is recorded becomes a model."""
INFERENCE: ContextVar[bool] = ContextVar("inference", default=False)
"""Whether tensors made here are inference tensors, which derivatives cannot use; see `inference_mode`."""
ANOMALY: ContextVar[bool | None] = ContextVar("anomaly", default=None)
"""Whether backward looks for NaN; None: anomalies are not looked for at all. See jit.autograd.anomaly."""
SIZED: ContextVar[Recorder | None] = ContextVar("sized", default=None)
"""The trace from whose tensors derivatives take sizes, if they do."""
PROFILE: ContextVar[Callable[[str, Callable[[], Any]], Any] | None] = ContextVar("profile", default=None)
"""Runs and times an operator given its name; see jit.autograd.profiler."""
BACKWARD: ContextVar[Any] = ContextVar("backward", default=None)
"""The innermost backward that runs here: a Task of jit.autograd.tasks."""
CHECKPOINTS: ContextVar[tuple[int, ...]] = ContextVar("checkpoints", default=())
"""The checkpoints that are being recorded here, the outermost first; see jit.tracing.recorder.recomputation."""
SAVING: ContextVar[tuple[Callable[[Any], Any], Callable[[Any], Any]] | None] = ContextVar("saving", default=None)
"""Functions that pack and unpack the tensors that are saved for backward; see jit.autograd.graph."""
AUTOCAST: ContextVar[Regime | None] = ContextVar("autocast", default=None)
"""The lower dtypes in which operators compute here, if they do; see jit.eager.autocasting."""
CASTS: ContextVar[Any] = ContextVar("casts", default=None)
"""The casts that the outermost region of `autocast` keeps: a Casts of jit.eager.autocasting, or None."""
SCOPE: ContextVar[str] = ContextVar("scope", default="")
SOURCE: ContextVar[Source | None] = ContextVar("source", default=None)
"""The line that recorded nodes belong to, where that is not the one that runs: derivatives belong to the operator's."""


def is_recording(trace: Recorder) -> bool:
    """Whether `trace` records, if also beneath a `vmap`, through which operators come to it; see jit.func.layers."""
    now = TRACE.get()
    return now is trace or getattr(now, "beneath", None) is trace


def asking_trace() -> Recorder | None:
    """The trace that records, if the caller of this function was itself called by the user's code; None otherwise."""
    trace = TRACE.get()
    if trace is None or sys._getframe(2).f_code.co_filename.startswith(PACKAGE):
        return None
    return trace


class Mode:
    """A context manager that is a decorator, too: of functions, of generators and of coroutines."""

    def again(self) -> Any:
        """A new context manager that does the same: a decorated function may run while it already runs.

        Raises:
            NotImplementedError: The subclass does not define it.
        """
        raise NotImplementedError

    def __call__(self, function: Callable[..., Any]) -> Callable[..., Any]:
        if inspect.isgeneratorfunction(function):
            return _generator_within(self.again, function)
        if inspect.iscoroutinefunction(function):
            return _coroutine_within(self.again, function)

        @functools.wraps(function)
        def wrapped(*args: Any, **kwargs: Any) -> Any:
            with self.again():
                return function(*args, **kwargs)

        return wrapped


class GradMode(Mode):
    """A context manager and decorator that switches the recording of derivatives on or off."""

    def __init__(self, enabled: bool) -> None:
        self._enabled = enabled
        self._previous: list[bool] = []

    def __enter__(self) -> None:
        self._previous.append(GRAD_ENABLED.get())
        GRAD_ENABLED.set(self._enabled)

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        GRAD_ENABLED.set(self._previous.pop())

    def again(self) -> GradMode:
        """A new context manager for the same mode: a decorated function may run while it already runs."""
        return GradMode(self._enabled)


def _generator_within(mode: Callable[[], Any], function: Callable[..., Any]) -> Callable[..., Any]:
    """A generator function each of whose steps runs within a mode; between them the caller's holds."""

    @functools.wraps(function)
    def wrapped(*args: Any, **kwargs: Any) -> Any:
        with mode():
            inner = function(*args, **kwargs)
        result = yield from _steps_within(mode, inner)
        return result

    return wrapped


def _steps_within(mode: Callable[[], Any], inner: Generator[Any, Any, Any]) -> Generator[Any, Any, Any]:
    step: Callable[[], Any] = functools.partial(next, inner)
    while True:
        try:
            with mode():
                given = step()
        except StopIteration as end:
            return end.value
        try:
            sent = yield given
            step = functools.partial(inner.send, sent)
        except GeneratorExit:
            with mode():
                inner.close()
            raise
        except BaseException as error:
            step = functools.partial(inner.throw, error)


class _Awaited:
    """A coroutine each of whose steps runs within a mode."""

    def __init__(self, mode: Callable[[], Any], coroutine: Any) -> None:
        self._mode, self._coroutine = mode, coroutine

    def __await__(self) -> Generator[Any, Any, Any]:
        return _steps_within(self._mode, self._coroutine.__await__())


def _coroutine_within(mode: Callable[[], Any], function: Callable[..., Any]) -> Callable[..., Any]:
    @functools.wraps(function)
    async def wrapped(*args: Any, **kwargs: Any) -> Any:
        return await _Awaited(mode, function(*args, **kwargs))

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
    """`no_grad()` whose results, the inference tensors, stay without derivatives; `inference_mode(False)` ends both.

    An inference tensor, and every view of it, may be computed with anywhere. Outside of the block it may not be written
    to, require gradients, or be saved for a derivative: `clone()` gives an ordinary tensor.

    >>> import jit
    >>> @jit.inference_mode()
    ... def evaluate(x):
    ...     return x * 2
    >>> made = evaluate(jit.ones(2, requires_grad=True))
    >>> made.requires_grad, made.is_inference(), made.clone().is_inference()
    (False, True, False)
    """

    def __init__(self, mode: bool | Callable[..., Any] = True) -> None:
        super().__init__(not mode)
        self._modes: list[bool] = []

    def __new__(cls, mode: bool | Callable[..., Any] = True) -> Any:
        """`@inference_mode` without parentheses decorates, too."""
        return object.__new__(cls) if not callable(mode) else cls(True)(mode)

    def again(self) -> GradMode:
        """A context manager that does the same."""
        fresh: GradMode = inference_mode(not self._enabled)
        return fresh

    def __enter__(self) -> None:
        super().__enter__()
        self._modes.append(INFERENCE.get())
        INFERENCE.set(not self._enabled)

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        INFERENCE.set(self._modes.pop())
        super().__exit__(kind, error, at)


def is_inference_mode_enabled() -> bool:
    """Whether inference tensors are made here."""
    return INFERENCE.get()


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
def tracing(trace: Recorder | None) -> Iterator[None]:
    """Record into `trace` within this block; None pauses recording."""
    before = TRACE.get()
    try:
        try:
            TRACE.set(trace)
            yield
        finally:
            TRACE.set(before)
    finally:  # once more: an interrupt may have kept the first one from running
        TRACE.set(before)


@contextmanager
def recording(trace: Recorder) -> Iterator[None]:
    """Record into `trace` within this block, and let derivatives know the sizes of its tensors."""
    token = SIZED.set(trace)
    try:
        with tracing(trace):
            yield
    finally:
        SIZED.reset(token)


PACKAGE = os.path.dirname(os.path.dirname(os.path.abspath(__file__))) + os.sep
"""The folder of this package: frames and modules from there are not the user's."""
_STDLIB = os.path.dirname(os.path.abspath(os.__file__)) + os.sep


_known_files: dict[str, bool] = {}
"""Whether a file is of this package or of Python's library, looked up for every recorded node. Files are kept by name,
because to hash a code object is to hash all that it holds."""


def _is_ours(path: str) -> bool:
    ours = _known_files.get(path)
    if ours is None:
        ours = path.startswith((PACKAGE, "<jit")) or (path.startswith(_STDLIB) and "-packages" not in path)
        _known_files[path] = ours
    return ours


def is_ours(function: Any) -> bool:
    """Whether a function is written in this package or Python's library, so that its lines are nobody's own."""
    code = getattr(function, "__code__", None)
    return code is not None and _is_ours(code.co_filename)


@functools.cache
def _source(path: str, line: int, function: str) -> Source:
    return Source(os.path.basename(path), line, function)


def user_source() -> Source | None:
    """The user's line that led here: the innermost one on the stack that is neither this package's nor Python's."""
    if (source := SOURCE.get()) is not None:
        return source
    frame = _user_frame(sys._getframe(1))
    return None if frame is None else _source(frame.f_code.co_filename, frame.f_lineno, frame.f_code.co_name)


def _user_frame(frame: FrameType | None) -> FrameType | None:
    known = _known_files
    while frame is not None:  # dozens of them, for every operator
        path = frame.f_code.co_filename
        if not (known[path] if path in known else _is_ours(path)):
            break
        frame = frame.f_back
    return frame


@contextmanager
def standing_at(source: Source | None) -> Iterator[None]:
    """Let what is recorded within this block belong to a line, whichever runs; None leaves that open."""
    token = SOURCE.set(source)
    try:
        yield
    finally:
        SOURCE.reset(token)


Place = Source | tuple[CodeType, int] | None
"""A line, or the instruction whose line it is: that takes longer to find than many an operator runs."""


def user_place(skipped: int) -> Place:
    """The place of the `user_source`, which `source_of` finds the line of; for lines that hardly anybody asks for.

    Args:
        skipped: The number of callers that belong to this package, that of this function included.
    """
    if (source := SOURCE.get()) is not None:
        return source
    frame = _user_frame(sys._getframe(1 + skipped))
    return None if frame is None else (frame.f_code, frame.f_lasti)


def source_of(place: Place) -> Source | None:
    """The line of a place."""
    if place is None or isinstance(place, Source):
        return place
    code, at = place
    line = next((line for start, end, line in code.co_lines() if start <= at < end), None)
    return _source(code.co_filename, code.co_firstlineno if line is None else line, code.co_name)


def warn(text: str) -> None:
    """Issue a UserWarning that names the user's line."""
    frame: FrameType | None = sys._getframe(1)
    level = 2
    while frame is not None and _is_ours(frame.f_code.co_filename):
        frame, level = frame.f_back, level + 1
    warnings.warn(text, UserWarning, stacklevel=level)


def user_stack() -> list[str]:
    """The calls that led here, the innermost last, without those of this package."""
    frames = traceback.extract_stack()
    return traceback.format_list([f for f in frames if not f.filename.startswith((PACKAGE, "<jit"))])
