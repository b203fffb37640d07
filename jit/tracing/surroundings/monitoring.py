"""The hook that sees calls on Python 3.12 and later: `sys.monitoring`.

Note [One hook for all threads]
    Events are switched on for the whole process, and each callback looks up the eyes of its thread. A tool number is
    taken while there is any eye, and given back afterwards; a debugger, a profiler or a coverage tool keeps its own
    number. If all numbers are taken, nothing is seen.

    A callback costs as much as the code between two operators, so places in this package from which no eye learns
    anything are switched off: the start of code that holds nothing of the user's, and calls of functions by their
    names, unless a file, a queue or a random generator has a method of that name. All else is seen each time, since
    the same place may call another function next.
"""

from __future__ import annotations

import _thread
import contextvars
import random
import sys
import threading
import types
from collections.abc import Callable
from typing import Any, Protocol

import numpy as np

from jit.eager.context import PACKAGE
from jit.eager.watch import EYES

from .footprints import holds_nothing
from .purity import is_pure

_monitoring: Any = getattr(sys, "monitoring", None)
_NUMBERS = (5, 4, 3, 2, 1, 0)
"""The tool numbers, in the order in which they are tried; Python means 5 for optimizers, and 0 to 2 for tools."""
_NAME = "jit"


class Eye(Protocol):
    """The judge of calls, as the hook tells it of them; see jit.tracing.surroundings.impurity."""

    def sees(self, code: types.CodeType, frame: Any) -> None:
        """Be told that code starts or goes on in `frame`."""

    def judge(self, file: str, function: Any, owner: Any) -> None:
        """Be told of a call of a function in C."""

    def prints(self, step: int) -> None:
        """Be told that a call of `print` begins or ends."""

    def note_failure(self, code: types.CodeType, instruction: int, function: Any) -> None:
        """Be told that a call of a function in C has raised an error."""


_open: list[Any] = []
"""All eyes that have not stopped, those included that are paused."""
_lock = threading.RLock()
"""Held while eyes come and go; a thread may take it twice, since a signal may begin a recording within another."""


def start(eye: Eye) -> bool:
    """Let an eye see the calls of this thread from now on; False if no tool number is free."""
    with _lock:
        number = _number()
        if number is None and (number := _taken()) is None:
            return False
        _open.append(eye)
        EYES.setdefault(_thread.get_ident(), []).append(eye)
        events = _monitoring.events
        _monitoring.set_events(number, events.CALL | events.PY_START | events.PY_RESUME)
    return True


def stop(eye: Eye) -> None:
    """Let an eye see no more; more than once does no harm."""
    with _lock:
        here = EYES.get(_thread.get_ident(), [])
        if eye in here:
            here.remove(eye)
        if not here:
            EYES.pop(_thread.get_ident(), None)
        if eye in _open:
            _open.remove(eye)
        number = None if _open else _number()
        if number is not None:
            _give_back(number)


def _number() -> int | None:
    """The tool number that is taken for this package; None if there is none."""
    return next((n for n in _NUMBERS if _monitoring.get_tool(n) == _NAME), None)


def _taken() -> int | None:
    """A free tool number, now taken, with all events on that its last owner had switched off; None if none is free."""
    number = next((n for n in _NUMBERS if _monitoring.get_tool(n) is None), None)
    if number is not None:
        _monitoring.use_tool_id(number, _NAME)
        for event, callback in _callbacks():
            _monitoring.register_callback(number, event, callback)
        _monitoring.restart_events()
    return number


def _give_back(number: int) -> None:
    _monitoring.set_events(number, 0)
    for event, _ in _callbacks():
        _monitoring.register_callback(number, event, None)
    _monitoring.free_tool_id(number)
    _monitoring.restart_events()


def _callbacks() -> tuple[tuple[int, Callable[..., Any] | None], ...]:
    events = _monitoring.events
    return (
        (events.CALL, _called), (events.PY_START, _started), (events.PY_RESUME, _started),
        (events.C_RETURN, None), (events.C_RAISE, _raised),
    )  # fmt: skip


# -- what Python calls -------------------------------------------------------------------------------------------

_METHODS = (types.MethodDescriptorType, types.ClassMethodDescriptorType)


def _called(code: types.CodeType, offset: int, function: Any, first: Any) -> Any:
    here = EYES.get(_thread.get_ident())
    if here is not None:
        kind = type(function)
        if kind is types.BuiltinFunctionType:
            _tell(here, code, function, function.__self__)
        elif kind in _METHODS and first is not _monitoring.MISSING:
            _tell(here, code, function, first)
    if code.co_filename.startswith(PACKAGE) and _says_nothing(code, function, first):
        return _monitoring.DISABLE
    return None


def _tell(eyes: list[Any], code: types.CodeType, function: Any, owner: Any) -> None:
    """Tell the eyes of a thread that code calls a function in C."""
    if function is not print:
        for eye in eyes:
            eye.judge(code.co_filename, function, owner)
        return
    _monitoring.register_callback(_number(), _monitoring.events.C_RETURN, _returned)  # not needed before
    for eye in eyes:
        eye.prints(1)


def _returned(code: types.CodeType, offset: int, function: Any, first: Any) -> Any:
    if function is print:
        for eye in EYES.get(_thread.get_ident(), ()):
            eye.prints(-1)


def _raised(code: types.CodeType, offset: int, function: Any, first: Any) -> Any:
    for eye in EYES.get(_thread.get_ident(), ()):
        if function is print:
            eye.prints(-1)
        eye.note_failure(code, offset, function)


def _started(code: types.CodeType, offset: int) -> Any:
    here = EYES.get(_thread.get_ident())
    if here is not None:
        for eye in here:
            eye.sees(code, sys._getframe(1))
    if id(code) in _holding or not code.co_filename.startswith(_OURS):
        return None
    if holds_nothing(code):
        return _monitoring.DISABLE
    if code.co_filename.startswith(PACKAGE):
        _holding[id(code)] = code
    return None


_holding: dict[int, types.CodeType] = {}
"""Code of this package that holds something, and so is seen each time; by identity."""
_OURS = (PACKAGE, "<jit")
_TELLING = frozenset(
    {"print", "open", "read", "read1", "readline", "readlines", "readinto", "readall", "peek", "get", "get_nowait",
     "put", "put_nowait", "recv", "recv_into", "recvfrom", "send", "sendall", "write", "writelines",
     *(name for kind in (random.Random, np.random.RandomState, np.random.Generator) for name in vars(kind))}
)  # fmt: skip
"""Names of methods of files, queues and random generators, calls of which have to be judged."""


def _says_nothing(code: types.CodeType, function: Any, first: Any) -> bool:
    """Whether a call by code of this package need not be judged again: it names its function, outside of `_TELLING`."""
    kind = type(function)
    if kind is types.FunctionType or kind is type:
        return function.__name__ in code.co_names
    if kind is types.BuiltinFunctionType:
        owner = function.__self__
    elif kind in _METHODS:
        owner = first
    else:
        return False
    if function.__name__ not in code.co_names or (function.__name__ in _TELLING and type(owner) not in _TABLES):
        return False
    return is_pure(function, owner) or function is _thread.get_ident


_TABLES = (dict, contextvars.ContextVar)
"""Types whose methods called `get` are harmless: a place that asks these does not ask queues."""


__all__ = ["Eye", "start", "stop"]
