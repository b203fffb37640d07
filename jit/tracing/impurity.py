"""Notices what a function does that no recording can repeat: it reads a clock, a file, a queue, it starts a thread.

Note [Seeing calls]
    Python values that a function reads are watched where they stand (Note [Watching]), but a clock stands nowhere. So
    while a function is recorded, calls of functions that are written in C are looked at as they happen, by the hook
    that profilers use: `sys.setprofile` up to Python 3.11, `sys.monitoring` from 3.12 on. Operators switch the hook off
    while they run. If a profiler has taken the hook already, clocks and files go unseen.

    The same hook sees functions of Python start: what these can read is watched (Note [Footprints]).

    Of functions in C some are known to be what no recording can repeat, wherever they are called. Others are known to
    read nothing but their arguments (jit.tracing.purity). The rest counts as the former, unless it is a module of
    Python's own that calls it, one whose state says nothing about results; so do clocks: that logging stamps its lines
    is nobody's business.
"""

from __future__ import annotations

import _thread
import builtins
import contextlib
import datetime
import importlib
import importlib.util
import inspect
import io
import os
import queue
import random
import socket
import sys
import threading
import time
import types
from collections.abc import Callable, Iterator
from typing import Any, Protocol

import numpy as np

from ..context import PACKAGE
from .origins import is_harmless
from .purity import draws_for_all, is_pure, words_for

Note = Callable[[str], None]


Ran = Callable[[types.CodeType, dict[str, Any]], None]
"""Is told of code that starts to run, and of its globals."""


class Listener(Protocol):
    """Who wants to know: a Trace."""

    printing: int
    """How many calls of `print` are under way; what they are given becomes text for people alone."""
    deeds: list[str]
    """What it has been told."""

    def note_failure(self, code: types.CodeType, instruction: int) -> None:
        """A function in C that is called there has raised something."""

    def note_impure(self, what: str) -> None:
        """The function does `what`, in words that fit behind "the call"."""


_CLOCKS = {
    getattr(time, name): "reads the clock"
    for name in (
        "time", "time_ns", "perf_counter", "perf_counter_ns", "monotonic", "monotonic_ns", "process_time",
        "process_time_ns", "thread_time", "thread_time_ns", "localtime", "gmtime", "ctime", "strftime",
    )
}  # fmt: skip
_DATES = {(datetime.datetime, "now"), (datetime.datetime, "utcnow"), (datetime.datetime, "today"),
          (datetime.date, "today")}  # fmt: skip
_ANYWHERE = {
    io.open: "opens a file", os.open: "opens a file", os.urandom: "draws random bytes",
    os.listdir: "looks at a folder", os.scandir: "looks at a folder", os.getcwd: "looks at a folder",
    builtins.input: "reads what somebody types", _thread.start_new_thread: "starts a thread",
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
_DULL = frozenset(
    {sys.getprofile, sys.setprofile, isinstance, issubclass, len, any, all, sum, min, max, getattr, hasattr, callable}
)
"""What is called most while a function is recorded, and is none of the above: not worth judging."""
_NO_READERS = ("<frozen importlib", "linecache.py", "tokenize.py", "traceback.py", "warnings.py", "inspect.py",
               f"logging{os.sep}__init__.py", f"logging{os.sep}handlers.py")  # fmt: skip
"""Files whose code opens files for reasons of its own."""
_ASKING = {
    id(function.__code__): (function, what)
    for function, what in (
        (threading.current_thread, "asks which thread it runs in"),
        (inspect.stack, "looks at its callers"),
        *((ask, "asks how numpy treats errors") for ask in (np.geterr, np.geterrcall, np.getbufsize)),
    )
}
"""Functions of Python's library that read what stands nowhere, by the identity of their code."""
_RAISING = frozenset(
    {"next", "send", "throw", "getattr", "delattr", "__getattribute__", "__getattr__", "pop", "popitem", "popleft",
     "iter", "index", "remove", "__import__", "get", "fileno", "__next__", "__exit__"}
)  # fmt: skip
"""Functions in C that raise as a matter of course, and take whatever number they are given."""
_SURE_FILES = (PACKAGE, "<jit", "<frozen", contextlib.__file__, inspect.__file__)
"""Files whose code gives no number of the user's to functions in C."""
_WRITERS = (io.TextIOWrapper, io.BufferedWriter, io.BufferedRandom, io.FileIO)
_BY_C = (types.BuiltinFunctionType, types.MethodDescriptorType, types.ClassMethodDescriptorType)


@contextlib.contextmanager
def watching(listener: Listener, is_foreign: Callable[[str], bool], ran: Ran | None = None) -> Iterator[bool]:
    """Tell `listener` within this block what calls no recording can repeat.

    Args:
        listener: Is told in words.
        is_foreign: Says of a file name whether the code in it is not the user's.
        ran: Is told of all code that starts to run.

    Yields:
        Whether there is a hook: if a profiler has it, nothing is seen.
    """
    start, stop = (_profile, _end_profile) if sys.version_info < (3, 12) else (_monitor, _end_monitor)
    eye = _Eye(listener, is_foreign, ran)
    if not start(eye):
        yield False
        return
    try:
        try:
            yield True
        finally:
            stop(eye)
    finally:  # once more: an interrupt may have come in the place of the first time
        stop(eye)


class _Eye:
    """Judges calls."""

    def __init__(self, listener: Listener, is_foreign: Callable[[str], bool], ran: Ran | None) -> None:
        self.listener = listener
        self.is_foreign = is_foreign
        self.ran = ran
        self.known: dict[int, types.CodeType] = {}
        """Code that has run, by its identity."""
        self.closed = False
        """Whether an operator runs."""
        self.unknown: Any = None
        """The function that was called last of those that nobody knows."""

    def judge(self, file: str, function: Any, owner: Any) -> None:
        """A call of `function`, bound to `owner`, from code in `file`."""
        try:
            what = _ANYWHERE.get(function) or _CLOCKS.get(function)
        except TypeError:  # unhashable
            what = None
        if what is None and owner is not None:
            what = _of_object(owner, getattr(function, "__name__", ""))
        if what is None:
            what = _unknown(file, function, owner)
        if what is None or (what == "reads the clock" and self.is_foreign(file)):
            return
        if not what.startswith(_LOOKS) or not (file.startswith(_NO_READERS[0]) or file.endswith(_NO_READERS[1:])):
            self.listener.note_impure(what)
            self.unknown = function if what.startswith("calls ") else None

    def note_failure(self, code: types.CodeType, instruction: int, function: Any) -> None:
        """A call of `function` has raised something; if nobody knows what it does, it has done nothing."""
        if function is self.unknown and self.listener.deeds:
            self.unknown = None
            self.listener.deeds.pop()
        if getattr(function, "__name__", "") not in _RAISING and not code.co_filename.startswith(_SURE_FILES):
            self.listener.note_failure(code, instruction)

    def begin(self, code: types.CodeType, frame: Any) -> None:
        """Code starts to run, in `frame`."""
        if id(code) in _ASKING and not is_harmless(frame.f_back.f_code.co_filename):
            self.listener.note_impure(_ASKING[id(code)][1])
        if code is importlib.import_module.__code__:
            self._import(frame)
        if self.ran is None or id(code) in self.known:
            return
        self.known[id(code)] = code
        try:
            self.ran(code, frame.f_globals)
        except Exception as error:
            self.listener.note_impure(f"reads what cannot be looked at ({type(error).__name__})")

    def _import(self, frame: Any) -> None:
        """A module is imported by a name made at run time: it is among what the code reads."""
        note = getattr(getattr(self.ran, "__self__", None), "note_module", None)
        name, package = frame.f_locals.get("name"), frame.f_locals.get("package")
        if note is not None and isinstance(name, str):
            note(importlib.util.resolve_name(name, package) if name.startswith(".") and package else name)


_LOOKS = ("opens a file", "asks the operating system", "looks at a folder")
"""What Python does for tracebacks and imports, too."""


LOOKING: list[_Eye] = []
"""Those that watch calls now, in whatever thread."""


def _of_object(owner: Any, name: str) -> str | None:
    if isinstance(owner, type):
        if name == "__subclasses__":
            return "asks which subclasses a class has"
        return "reads the clock" if any(issubclass(owner, kind) and name == n for kind, n in _DATES) else None
    for kind, (names, what) in _OF_OBJECTS.items():
        if name in names and isinstance(owner, kind):
            return what
    return None


def _unknown(file: str, function: Any, owner: Any) -> str | None:
    """What speaks against a function in C of which nothing is known yet; None if it is pure."""
    if isinstance(owner, _WRITERS) and getattr(function, "__name__", "") in ("write", "writelines"):
        shared = owner in (sys.stdout, sys.stderr, sys.__stdout__, sys.__stderr__)
        return None if shared or is_harmless(file) else "writes to a file"
    if draws_for_all(function, owner):
        return "draws from the random numbers of Python or numpy"
    if is_pure(function, owner):
        return None
    words = words_for(function, owner)
    return None if is_harmless(file) and not words.startswith("asks the operating system") else words


# -- Python 3.11 -------------------------------------------------------------------------------------------------


def _profile(eye: _Eye) -> bool:
    if sys.getprofile() is not None:
        return False
    listener, importing = eye.listener, importlib.import_module.__code__

    def hook(frame: Any, event: str, arg: Any) -> None:
        if event == "call":
            code = frame.f_code
            if id(code) not in eye.known or id(code) in _ASKING or code is importing:
                eye.begin(code, frame)
        elif event == "c_call":
            if arg is print:
                listener.printing += 1
            elif arg not in _DULL:
                eye.judge(frame.f_code.co_filename, arg, getattr(arg, "__self__", None))
        elif event == "c_exception":
            if arg is print:
                listener.printing -= 1
            eye.note_failure(frame.f_code, frame.f_lasti, arg)
        elif arg is print and event == "c_return":
            listener.printing -= 1

    hook.is_ours = True  # type: ignore[attr-defined]
    LOOKING.append(eye)
    sys.setprofile(hook)
    return True


def _end_profile(eye: _Eye) -> None:
    if eye in LOOKING:
        sys.setprofile(None)
        LOOKING.remove(eye)


def pause() -> Any:
    """Look away; returns what `resume` wants. For operators, which do nothing of the kind and call a lot.

    As long as `LOOKING` is empty there is nothing to pause. What runs code of the user's meanwhile resumes for as long.
    """
    if sys.version_info >= (3, 12):
        here = _eyes.get(_thread.get_ident())
        if not here or here[-1].closed:
            return None
        here[-1].closed = True
        return here[-1]
    hook: Any = sys.getprofile()
    try:
        hook.is_ours  # noqa: B018
    except AttributeError:  # none, or a profiler of the user's, which goes on, and could not be set again
        return None
    sys.setprofile(None)
    return hook


def resume(hook: Any) -> None:
    """Look again."""
    if isinstance(hook, _Eye):
        hook.closed = False
    elif hook is not None:
        sys.setprofile(hook)


@contextlib.contextmanager
def resumed(hook: Any) -> Iterator[None]:
    """Within this block look again, after a `pause` that returned `hook`: code of the user's runs."""
    resume(hook)
    try:
        yield
    finally:
        if hook is not None:
            pause()


# -- Python 3.12 and later ---------------------------------------------------------------------------------------

_eyes: dict[int, list[_Eye]] = {}
"""By threads; the innermost is the last."""


def _monitor(eye: _Eye) -> bool:
    tool = _tool()
    if tool is None:
        return False
    LOOKING.append(eye)
    _eyes.setdefault(_thread.get_ident(), []).append(eye)
    _switch(tool)
    return True


def _end_monitor(eye: _Eye) -> None:
    here = _eyes.get(_thread.get_ident(), [])
    if eye in here:
        here.remove(eye)
    if not here:
        _eyes.pop(_thread.get_ident(), None)
    if eye in LOOKING:
        LOOKING.remove(eye)
    tool = _tool()
    if tool is not None:
        _switch(tool)


def _tool() -> int | None:
    """A number that `sys.monitoring` gives us; None if all are taken."""
    monitoring = sys.monitoring  # type: ignore[attr-defined,unused-ignore]
    for number in (3, 4, 1):
        if monitoring.get_tool(number) == "jit":
            return number
    for number in (3, 4, 1):
        if monitoring.get_tool(number) is None:
            monitoring.use_tool_id(number, "jit")
            events = monitoring.events
            monitoring.register_callback(number, events.CALL, _called)
            monitoring.register_callback(number, events.PY_START, _started)
            monitoring.register_callback(number, events.C_RETURN, _returned)
            monitoring.register_callback(number, events.C_RAISE, _raised)
            return number
    return None


def _switch(tool: int) -> None:
    monitoring = sys.monitoring  # type: ignore[attr-defined,unused-ignore]
    events = monitoring.events
    monitoring.set_events(tool, events.CALL | events.PY_START if _eyes else 0)
    if _eyes:
        monitoring.restart_events()


def _called(code: Any, offset: int, function: Any, first: Any) -> Any:
    if code.co_filename.startswith(PACKAGE):
        return sys.monitoring.DISABLE  # type: ignore[attr-defined,unused-ignore]
    here = _eyes.get(_thread.get_ident())
    if not here or here[-1].closed:
        return None
    eye = here[-1]
    if function is print:
        eye.listener.printing += 1
        return None
    monitoring = sys.monitoring  # type: ignore[attr-defined,unused-ignore]
    if type(function) not in _BY_C:
        return None
    owner = getattr(function, "__self__", None)
    if owner is None and first is not monitoring.MISSING and not hasattr(function, "__code__"):
        owner = first
    eye.judge(code.co_filename, function, owner)
    return None


def _started(code: Any, offset: int) -> Any:
    """A function of Python starts: it is not switched off here, since another function is recorded next."""
    here = _eyes.get(_thread.get_ident())
    if here and not here[-1].closed:
        here[-1].begin(code, sys._getframe(1))
    return None


def _returned(code: Any, offset: int, function: Any, first: Any) -> Any:
    here = _eyes.get(_thread.get_ident())
    if here and function is print:
        here[-1].listener.printing -= 1


def _raised(code: Any, offset: int, function: Any, first: Any) -> Any:
    here = _eyes.get(_thread.get_ident())
    if here:
        if function is print:
            here[-1].listener.printing -= 1
        if not here[-1].closed:
            here[-1].note_failure(code, offset, function)


__all__ = ["LOOKING", "Listener", "pause", "resume", "resumed", "watching"]
