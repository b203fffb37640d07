"""Notices what a function does that no recording can repeat: it reads a clock, a file, a queue, it starts a thread.

Note [Seeing calls]
    Python values that a function reads are watched where they stand (Note [Watching]), but a clock stands nowhere. So
    while a function is recorded, calls of functions that are written in C are looked at as they happen, by the hook
    that profilers use: `sys.setprofile` up to Python 3.11, `sys.monitoring` from 3.12 on
    (jit.tracing.surroundings.monitoring). They see the same: what code in Python calls, and not what functions in C
    call in turn. Operators switch the hook off while they run. If a profiler has taken the hook already, clocks and
    files go unseen.

    The same hook sees functions of Python start: what these can read is watched (Note [Footprints]).

    Some functions in C are known to do what no recording can repeat, wherever they are called. Others are known to
    read nothing but their arguments (jit.tracing.surroundings.purity). All the rest counts as the former, unless it is
    called by a module of Python's library whose state says nothing about results. Clocks do not count either if such a
    module reads them: logging stamps its lines.
"""

from __future__ import annotations

import _thread
import builtins
import contextlib
import datetime
import gc
import importlib
import importlib.util
import inspect
import io
import os
import queue
import random
import socket
import sys
import tempfile
import threading
import time
import types
from collections.abc import Callable, Iterator
from typing import Any, Protocol

import numpy as np

from jit.eager import context
from jit.eager.context import PACKAGE
from jit.eager.watch import LOOKING, MONITORED

from . import monitoring
from .origins import is_harmless
from .purity import draws_for_all, is_pure, words_for

Note = Callable[[str], None]


Ran = Callable[[types.CodeType, dict[str, Any]], None]
"""A function that is told of code that starts to run, and of its globals."""


class Listener(Protocol):
    """The parts of a Trace that are told of what calls do."""

    printing: int
    """The number of calls of `print` under way; what they are given becomes text for people alone."""
    deeds: list[str]
    """The deeds that it has been told of, in words."""

    def note_failure(self, code: types.CodeType, instruction: int) -> None:
        """Take note that a function in C, called by this instruction, has raised an error."""

    def note_impure(self, what: str) -> None:
        """Take note of what the function does, in words that fit behind "the call"."""


_CLOCKS = {
    getattr(time, name): "reads the clock"
    for name in (
        "time", "time_ns", "perf_counter", "perf_counter_ns", "monotonic", "monotonic_ns", "process_time",
        "process_time_ns", "thread_time", "thread_time_ns", "localtime", "gmtime", "ctime", "strftime",
    )
}  # fmt: skip
_DATES = {(datetime.datetime, "now"), (datetime.datetime, "utcnow"), (datetime.datetime, "today"),
          (datetime.date, "today")}  # fmt: skip
_ZONED = {(datetime.date, "fromtimestamp"), (datetime.datetime, "timestamp"), (datetime.datetime, "astimezone")}
_ANYWHERE = {
    io.open: "opens a file", os.open: "opens a file", os.urandom: "draws random bytes",
    os.listdir: "looks at a folder", os.scandir: "looks at a folder", os.getcwd: "looks at a folder",
    builtins.input: "reads what is typed", _thread.start_new_thread: "starts a thread",
    getattr(_thread, "start_joinable_thread", None): "starts a thread",
}  # fmt: skip
_OF_OBJECTS: dict[type, tuple[frozenset[str], str]] = {
    random.Random: (frozenset({"random", "getrandbits", "seed", "setstate"}), "draws from Python's random numbers"),
    random.SystemRandom: (frozenset({"random", "getrandbits"}), "draws from the system's random numbers"),
    queue.SimpleQueue: (frozenset({"get", "get_nowait", "put", "put_nowait"}), "uses a queue"),
    io.TextIOWrapper: (frozenset({"read", "readline", "readlines"}), "reads a file"),
    io.BufferedReader: (frozenset({"read", "read1", "readline", "readlines", "readinto", "peek"}), "reads a file"),
    io.BufferedRandom: (frozenset({"read", "read1", "readline", "readlines", "readinto", "peek"}), "reads a file"),
    io.FileIO: (frozenset({"read", "readall", "readinto"}), "reads a file"),
    socket.socket: (frozenset({"recv", "recv_into", "recvfrom", "send", "sendall"}), "uses a network"),
}
_PLAIN_OWNERS = frozenset({list, dict, tuple, set, frozenset, int, float, bool, bytes, range, slice})
"""Types whose methods read nothing but what they are given."""
_cleared: set[Any] = {
    sys.getprofile, sys.setprofile, isinstance, issubclass, len, any, all, sum, min, max, getattr, hasattr, callable,
}  # fmt: skip
"""Functions of modules that are known to be harmless; those that are found to be pure are added."""
_NO_READERS = ("<frozen importlib", "linecache.py", "tokenize.py", "traceback.py", "warnings.py", "inspect.py",
               f"logging{os.sep}__init__.py", f"logging{os.sep}handlers.py")  # fmt: skip
"""Files whose code opens files for its own purposes, such as tracebacks and imports."""
_WAITING = (threading.Barrier.wait, threading.Condition.wait, threading.Condition.wait_for, threading.Event.wait)
_ASKING = {
    id(function.__code__): (function, what)
    for function, what in (
        (threading.current_thread, "asks which thread it runs in"),
        *((ask, "asks which threads there are") for ask in (threading.active_count, threading.enumerate)),
        (tempfile.gettempdir, "asks for the folder of temporary files"),
        (context.is_inference_mode_enabled, "asks for inference mode"),
        (inspect.stack, "looks at its callers"),
        *((wait, "waits for other threads") for wait in _WAITING),
        *((ask, "asks how numpy treats errors") for ask in (np.geterr, np.geterrcall, np.getbufsize)),
    )
}
"""Functions of Python's library that read a state which no watched place holds, by the identity of their code."""
_RAISING = frozenset(
    {"next", "send", "throw", "getattr", "delattr", "__getattribute__", "__getattr__", "pop", "popitem", "popleft",
     "iter", "index", "remove", "__import__", "get", "fileno", "__next__", "__exit__"}
)  # fmt: skip
"""Functions in C that raise as a matter of course, and take whatever number they are given."""
_SURE_FILES = (PACKAGE, "<jit", "<frozen", contextlib.__file__, inspect.__file__)
"""Files whose code gives no number of the user's to functions in C."""
_IMPORT_MODULE = importlib.import_module.__code__
_WRITERS = (io.TextIOWrapper, io.BufferedWriter, io.BufferedRandom, io.FileIO)


@contextlib.contextmanager
def watching(listener: Listener, is_foreign: Callable[[str], bool], ran: Ran | None = None) -> Iterator[bool]:
    """Tell `listener` of all calls within this block that no recording can repeat.

    Args:
        listener: The trace that is told, in words.
        is_foreign: Whether the code in a file of this name is not the user's.
        ran: A function that is told of all code that starts to run.

    Yields:
        Whether there is a hook: if a profiler has it, nothing is seen.
    """
    start, stop = (_monitor, _end_monitor) if MONITORED else (_profile, _end_profile)
    eye = _ImpurityEye(listener, is_foreign, ran)
    try:
        try:
            yield start(eye)
        finally:
            stop(eye)
    finally:  # once more: an interrupt may have cut the first time short
        stop(eye)


class _ImpurityEye:
    """The judge of calls: says which of them no recording can repeat."""

    def __init__(self, listener: Listener, is_foreign: Callable[[str], bool], ran: Ran | None) -> None:
        self.listener = listener
        self.is_foreign = is_foreign
        self.ran = ran
        self.known: dict[int, types.CodeType] = {}
        """Code that has run, by its identity."""
        self.unknown: Any = None
        """The last function called of which nothing is known."""

    def judge(self, file: str, function: Any, owner: Any) -> None:
        """Judge a call of `function`, bound to `owner`, from code in `file`."""
        kind = type(owner)
        if kind in _PLAIN_OWNERS or function in _cleared:  # as are most, and there are thousands
            return
        if kind is str:
            if function.__name__ in ("format", "format_map"):
                self._tell("note_words", owner)
            return
        what = self._what(file, function, owner)
        if what is None or _is_collecting(sys._getframe(1)) or (what == "reads the clock" and self.is_foreign(file)):
            return
        if not what.startswith(_LOOKS) or not (file.startswith(_NO_READERS[0]) or file.endswith(_NO_READERS[1:])):
            self.listener.note_impure(what)
            self.unknown = function if what.startswith("calls ") else None

    def _what(self, file: str, function: Any, owner: Any) -> str | None:
        """The words against a call; None if nothing speaks against it."""
        what = _ANYWHERE.get(function) or _CLOCKS.get(function)
        if what is None and owner is not None:
            what = _of_object(owner, getattr(function, "__name__", ""))
        return _unknown(file, function, owner) if what is None else what

    def note_failure(self, code: types.CodeType, instruction: int, function: Any) -> None:
        """Take note that a call of `function` has raised; if nothing is known of that, the call has done nothing."""
        if function is self.unknown and self.listener.deeds:
            self.unknown = None
            self.listener.deeds.pop()
        if getattr(function, "__name__", "") not in _RAISING and not code.co_filename.startswith(_SURE_FILES):
            self.listener.note_failure(code, instruction)

    def prints(self, step: int) -> None:
        """Count a call of `print` that begins (1) or ends (-1)."""
        self.listener.printing += step

    def sees(self, code: types.CodeType, frame: Any) -> None:
        """Look at code that starts or goes on in `frame`, unless it is known."""
        if id(code) not in self.known or id(code) in _AGAIN:
            self.begin(code, frame)

    def begin(self, code: types.CodeType, frame: Any) -> None:
        """Judge code that starts to run in `frame`, and tell `ran` of it."""
        if _is_collecting(frame):
            return
        if id(code) in _ASKING and not is_harmless(frame.f_back.f_code.co_filename):
            self.listener.note_impure(_ASKING[id(code)][1])
        if code is _SHOWING and not self.listener.printing and not _is_shown_by_log(frame):
            self.listener.note_impure("makes text of an array, as numpy's print options say")
        if code is _IMPORT_MODULE:
            self._import(frame)
        if self.ran is None or id(code) in self.known:
            return
        self.known[id(code)] = code
        try:
            self.ran(code, frame.f_globals)
        except Exception as error:
            self.listener.note_impure(f"reads what cannot be looked at ({type(error).__name__})")

    def _import(self, frame: Any) -> None:
        """Tell of a module that is imported by a name made at run time: the code reads it."""
        name, package = frame.f_locals.get("name"), frame.f_locals.get("package")
        if isinstance(name, str):
            full = importlib.util.resolve_name(name, package) if name.startswith(".") and package else name
            self._tell("note_module", full)

    def _tell(self, method: str, text: str) -> None:
        """Hand a text that names what code reads to the object whose method `ran` is, if that wants it."""
        note = getattr(getattr(self.ran, "__self__", None), method, None)
        if note is not None:
            note(text)


_LOOKS = ("opens a file", "asks the operating system", "looks at a folder")
"""Deeds that Python itself does for tracebacks and imports, too."""


_SHOWING = getattr(getattr(sys.modules["numpy"], "_core", None), "arrayprint", None)
_SHOWING = getattr(getattr(_SHOWING, "_array2string", None), "__code__", None)
"""The code of numpy's function that makes text of an array."""


def _is_collecting(frame: Any) -> bool:
    """Whether the garbage collector has called code, to tell that it is at work: that may be at any time."""
    told = {getattr(callback, "__code__", None) for callback in gc.callbacks} - {None}
    while told and frame is not None:
        if frame.f_code in told:
            return True
        frame = frame.f_back
    return False


def _is_shown_by_log(frame: Any) -> bool:
    """Whether the text of an array is made for a log."""
    while frame is not None and f"{os.sep}numpy{os.sep}" in frame.f_code.co_filename:
        frame = frame.f_back
    return frame is not None and is_harmless(frame.f_code.co_filename)


_AGAIN = frozenset({*_ASKING, id(_IMPORT_MODULE), id(_SHOWING)})
"""Code that is looked at each time that it starts, by identity."""


def _of_object(owner: Any, name: str) -> str | None:
    kind = type(owner)  # not `isinstance`, which may run code of the user's
    if issubclass(kind, type):
        if any(issubclass(owner, date) and name == n for date, n in _ZONED):
            return "asks for the time zone"
        return "reads the clock" if any(issubclass(owner, date) and name == n for date, n in _DATES) else None
    if issubclass(kind, datetime.date) and any(name == n and issubclass(kind, date) for date, n in _ZONED):
        return "asks for the time zone"
    for known, (names, what) in _OF_OBJECTS.items():
        if name in names and issubclass(kind, known):
            return what
    return None


def _unknown(file: str, function: Any, owner: Any) -> str | None:
    """The words against a function in C of which nothing is known yet; None if it is pure."""
    if issubclass(type(owner), _WRITERS) and getattr(function, "__name__", "") in ("write", "writelines"):
        shared = any(owner is each for each in (sys.stdout, sys.stderr, sys.__stdout__, sys.__stderr__))
        return None if shared or is_harmless(file) else "writes to a file"
    if draws_for_all(function, owner):
        return "draws from the random numbers of Python or numpy"
    if is_pure(function, owner):
        if owner is None or type(owner) is types.ModuleType:
            _cleared.add(function)
        return None
    words = words_for(function, owner)
    return None if is_harmless(file) and not words.startswith("asks the operating system") else words


# -- Python 3.11 -------------------------------------------------------------------------------------------------


def _profile(eye: _ImpurityEye) -> bool:
    if sys.getprofile() is not None:
        return False

    known = eye.known

    def hook(frame: Any, event: str, arg: Any) -> None:
        if event == "call":
            code = frame.f_code
            if id(code) not in known or id(code) in _AGAIN:  # `eye.sees`, written out
                eye.begin(code, frame)
        elif event == "c_call":
            if arg is print:
                eye.prints(1)
            else:
                eye.judge(frame.f_code.co_filename, arg, getattr(arg, "__self__", None))
        elif event == "c_exception":
            if arg is print:
                eye.prints(-1)
            eye.note_failure(frame.f_code, frame.f_lasti, arg)
        elif arg is print and event == "c_return":
            eye.prints(-1)

    hook.is_ours = True  # type: ignore[attr-defined]
    LOOKING.append(eye)
    sys.setprofile(hook)
    return True


def _end_profile(eye: _ImpurityEye) -> None:
    if eye in LOOKING:
        sys.setprofile(None)
        LOOKING.remove(eye)


# -- Python 3.12 and later ---------------------------------------------------------------------------------------


def _monitor(eye: _ImpurityEye) -> bool:
    if not monitoring.start(eye):
        return False
    LOOKING.append(eye)
    return True


def _end_monitor(eye: _ImpurityEye) -> None:
    monitoring.stop(eye)
    if eye in LOOKING:
        LOOKING.remove(eye)


__all__ = ["Listener", "watching"]
