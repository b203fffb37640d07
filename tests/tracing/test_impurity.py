"""What the recorder sees of calls that no recording can repeat: each kind, before and after operators, and no more."""

import contextlib
import cProfile
import datetime
import functools
import gc
import io
import os
import pstats
import queue
import random
import socket
import sys
import threading
import time
import types
from collections.abc import Callable
from typing import Any

import pytest

import jit
from jit.eager import watch
from jit.tracing.surroundings import impurity


class Ear:
    """Takes down what it is told."""

    def __init__(self) -> None:
        self.printing = 0
        self.heard: list[str] = []
        self.deeds: list[str] = []
        self.failed: list[str] = []

    def note_failure(self, code: types.CodeType, instruction: int) -> None:
        self.failed.append(code.co_name)

    def note_impure(self, what: str) -> None:
        self.heard.append(what)
        self.deeds.append(what)


def heard(function: Callable[[], Any], foreign: bool = False) -> list[str]:
    ear = Ear()
    with impurity.watching(ear, lambda file: foreign):
        function()
    assert ear.printing == 0
    return ear.heard


class Later(datetime.datetime):
    """The user's own kind of dates."""


QUEUE: queue.SimpleQueue[int] = queue.SimpleQueue()
KINDS: dict[str, tuple[str, Callable[[], Any]]] = {
    "time": ("reads the clock", lambda: time.time()),
    "perf_counter_ns": ("reads the clock", lambda: time.perf_counter_ns()),
    "now": ("reads the clock", lambda: datetime.datetime.now()),
    "now of a subclass": ("reads the clock", lambda: Later.now()),
    "today": ("reads the clock", lambda: datetime.date.today()),
    "open": ("opens a file", lambda: open(os.devnull).close()),
    "os.open": ("opens a file", lambda: os.close(os.open(os.devnull, os.O_RDONLY))),
    "urandom": ("draws random bytes", lambda: os.urandom(1)),
    "listdir": ("looks at a folder", lambda: os.listdir("/")),
    "random": ("draws from Python's random numbers", lambda: random.Random(0).random()),
    "shuffle": ("draws from Python's random numbers", lambda: random.Random(0).shuffle([1, 2])),
    "queue": ("uses a queue", lambda: QUEUE.put(1)),
    "thread": ("starts a thread", lambda: threading.Thread(target=int).start()),
    "socket": ("uses a network", lambda: _refused(socket.socket())),
}


def _refused(plug: socket.socket) -> None:
    with plug, pytest.raises(OSError):
        plug.send(b"")


@pytest.mark.parametrize("what, call", KINDS.values(), ids=KINDS)
def test_each_kind_is_seen(what, call):
    assert what in heard(call)


def test_only_these_are_seen():
    assert heard(lambda: (len([1]), sorted([2, 1]), datetime.date(2020, 1, 1), datetime.datetime.fromordinal(1))) == []
    assert heard(lambda: (io.StringIO("a").read(), "now".upper(), [1].pop(), hash("x"))) == []
    assert heard(random.Random(0).getstate) == []


@pytest.mark.parametrize("file", ["<frozen importlib._bootstrap>", "/usr/lib/linecache.py", "/usr/lib/warnings.py"])
def test_what_python_opens_for_itself_does_not_count(file):
    for text, expected in (("open(os.devnull).close()", []), ("os.urandom(1)", ["draws random bytes"])):
        code = compile(text, file, "exec")
        assert heard(functools.partial(exec, code, globals())) == expected


def test_what_cannot_be_hashed_is_no_function_of_ours():
    assert heard(lambda: [1].__len__()) == []
    assert heard(lambda: {}.keys().__len__()) == []


def test_clocks_that_libraries_read_do_not_count_but_their_files_do():
    assert heard(lambda: time.time(), foreign=True) == []
    assert heard(lambda: datetime.datetime.now(), foreign=True) == []
    assert heard(lambda: os.urandom(1), foreign=True) == ["draws random bytes"]


def test_looking_away_and_back():
    ear = Ear()
    with impurity.watching(ear, lambda file: False):
        hook = watch.pause()
        assert hook is not None
        os.urandom(1)
        inner = watch.pause()  # already looks away
        watch.resume(inner)
        os.urandom(1)
        assert ear.heard == []
        watch.resume(hook)
        os.urandom(1)
        assert ear.heard == ["draws random bytes"]
    os.urandom(1)
    assert ear.heard == ["draws random bytes"]


def test_nothing_is_left_behind():
    heard(lambda: None)
    assert sys.getprofile() is None and watch.pause() is None
    with pytest.raises(KeyError):
        heard(lambda: os.environ["NO SUCH VARIABLE"])
    assert sys.getprofile() is None
    outer, inner = Ear(), Ear()
    with impurity.watching(outer, lambda file: False):
        with impurity.watching(inner, lambda file: False):
            os.urandom(1)
        os.urandom(1)
    assert len(outer.heard) == 2
    assert len(inner.heard) == (sys.version_info >= (3, 12)), "before, there is one hook"


@pytest.mark.skipif(sys.version_info >= (3, 12), reason="later versions have a hook of our own")
def test_a_profiler_of_the_users_is_left_alone():
    seen = []
    sys.setprofile(lambda frame, event, arg: seen.append(event))
    try:
        assert heard(lambda: os.urandom(1)) == []
        assert sys.getprofile() is not None
    finally:
        sys.setprofile(None)
    assert "c_call" in seen


def test_printing_is_counted_while_it_lasts():
    ear = Ear()
    during: list[int] = []

    class Shown:
        def __str__(self) -> str:
            during.append(ear.printing)
            return "shown"

    class Unshowable:
        def __str__(self) -> str:
            raise ValueError("unshowable")

    with impurity.watching(ear, lambda file: False):
        print(Shown())
        with pytest.raises(ValueError, match="unshowable"):
            print(Unshowable())
    assert during == [1] and ear.printing == 0


def test_functions_in_c_that_raise_are_heard_of():
    ear = Ear()

    def f() -> None:
        for call in (lambda: int("no"), lambda: "a".index("b"), lambda: socket.inet_aton("no")):
            with contextlib.suppress(ValueError, OSError):
                call()

    with impurity.watching(ear, lambda file: False):
        f()
    assert ear.failed == ["<lambda>"] and len(ear.heard) == 1  # `index` raises as a matter of course
    assert not ear.deeds


@pytest.mark.parametrize("when", ["before", "after"])
def test_traced_functions_that_read_a_clock_are_run_each_time(when):
    start = time.perf_counter()

    def f(x: Any) -> Any:
        if when == "after":
            x = x * 2
        now = time.perf_counter() - start
        return x * 2 + now

    traced = jit.trace(f)
    found = [traced(jit.zeros(1, dtype=jit.float64)).item() for _ in range(4)]
    assert found == sorted(set(found)), "later each time"


def test_a_function_is_recorded_under_a_profiler() -> None:
    """`python -m cProfile` is no hindrance, and goes on to see what is called."""

    def called_last() -> None:
        pass

    f = jit.trace(lambda x: (x * 2).relu())
    profile = cProfile.Profile()
    profile.enable()
    try:
        assert f(jit.ones(2)).tolist() == [2, 2]
        called_last()
    finally:
        profile.disable()
    assert any(name == "called_last" for _, _, name in pstats.Stats(profile).stats)  # type: ignore[attr-defined]


def test_what_the_garbage_collector_calls_does_not_count():
    """It calls back at any time, also in the middle of a recorded function; Hypothesis reads the clock then."""
    seen = []

    def told(phase, info):
        seen.append((phase, named_elsewhere()))

    def named_elsewhere():
        return time.perf_counter(), random.Random(0).random()

    gc.callbacks.append(told)
    try:
        found = heard(gc.collect)
    finally:
        gc.callbacks.remove(told)
    assert len(seen) == 2 and found == []
    assert set(heard(named_elsewhere)) == {"reads the clock", "draws from Python's random numbers"}
