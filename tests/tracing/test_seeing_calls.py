"""The hook that sees calls sees the same on every version of Python, whoever else has hooks, in every thread."""

import asyncio
import contextlib
import datetime
import functools
import inspect
import io
import math
import operator
import os
import sys
import threading
import time
import types
from collections.abc import Callable, Generator
from typing import Any

import numpy as np
import pytest

import jit
from jit.eager import watch
from jit.eager.context import PACKAGE
from jit.tracing.surroundings import impurity

MONITORING: Any = getattr(sys, "monitoring", None)
MONITORED = pytest.mark.skipif(sys.version_info < (3, 12), reason="sys.monitoring came with Python 3.12")


class Ear:
    """Takes down what it is told."""

    def __init__(self) -> None:
        self.printing = 0
        self.heard: list[str] = []
        self.deeds: list[str] = []
        self.failed: list[str] = []

    def note_impure(self, what: str) -> None:
        self.heard.append(what)
        self.deeds.append(what)

    def note_failure(self, code: types.CodeType, instruction: int) -> None:
        self.failed.append(code.co_name)


def heard(function: Callable[[], Any]) -> list[str]:
    ear = Ear()
    with impurity.watching(ear, lambda file: False):
        function()
    assert ear.printing == 0
    return ear.heard


# -- which calls -------------------------------------------------------------------------------------------------


class Items(list[int]):
    def append(self, item: int) -> None:
        super().append(item)


def counting() -> Generator[int, None, None]:
    yield 1
    yield 2


async def waiting() -> int:
    return 1


ITEMS, PAIR, NONE, TEXT = [3, 1, 2], ([1], 2), (), "a b"
WITH: dict[str, Any] = {"byteorder": "big"}
CALLS: dict[str, tuple[Callable[[], Any], list[tuple[str, Any]]]] = {
    "function": (lambda: math.floor(1.5), [("floor", "math")]),
    "clock": (lambda: time.time(), [("time", "time")]),
    "method": (lambda: ITEMS.copy(), [("copy", ITEMS)]),
    "method with arguments": (lambda: ITEMS.index(1), [("index", ITEMS)]),
    "unbound method": (lambda: list.index(ITEMS, 1), [("index", ITEMS)]),
    "bound beforehand": (functools.partial(lambda index: index(1), ITEMS.index), [("index", ITEMS)]),
    "stars": (lambda: math.pow(*(2, 3)), [("pow", "math")]),
    "stars without arguments": (lambda: time.time(*NONE), [("time", "time")]),
    "method with stars": (lambda: ITEMS.index(*(1,)), [("index", ITEMS)]),
    "unbound method with stars": (lambda: list.append(*PAIR), [("append", PAIR[0])]),
    "keywords": (lambda: sorted(ITEMS, reverse=True), [("sorted", "builtins")]),
    "method with keywords": (lambda: TEXT.split(sep=" "), [("split", TEXT)]),
    "unbound method with keywords": (lambda: str.split(TEXT, sep=" "), [("split", TEXT)]),
    "stars and keywords": (lambda: int.from_bytes(*(b"1",), **WITH), [("from_bytes", int)]),
    "class method": (lambda: dict.fromkeys("a"), [("fromkeys", dict)]),
    "class method of the clock": (lambda: datetime.datetime.now(tz=None), [("now", datetime.datetime)]),
    "static method": (lambda: str.maketrans("a", "b"), [("maketrans", None)]),
    "super": (lambda: Items().append(1), [("append", [1])]),
    "array": (lambda: np.ones(2).sum(), [("sum", "array")]),
    "raises": (lambda: _quiet(lambda: [].pop()), [("pop", [])]),
    "raises with stars": (lambda: _quiet(lambda: math.sqrt(*(-1,))), [("sqrt", "math")]),
    "a C function inside": (lambda: len(sorted(ITEMS)), [("sorted", "builtins"), ("len", "builtins")]),
    "a generator": (lambda: counting().send(None), [("send", "generator")]),
    "next": (lambda: next(counting()), [("next", "builtins")]),
    "in a generator": (lambda: [math.floor(n) for n in counting()], [("floor", "math")] * 2),
    "in what C calls": (lambda: max(ITEMS, key=lambda n: math.floor(n)),
                        [("max", "builtins"), *[("floor", "math")] * 3]),
    "a decorator": (lambda: _quiet(_decorated), [("index", "_operator")]),
    "the end of a block": (lambda: _entered(), [("__exit__", "lock")]),
    # what no version sees: objects that are called, and what C calls
    "a class": (lambda: datetime.date(2020, 1, 1), []),
    "a partial": (lambda: functools.partial(time.time)(), []),
    "a getter": (lambda: operator.itemgetter(0)(ITEMS), []),
    "a ufunc": (lambda: np.add(1, 2), []),
    "a slot": (lambda: ITEMS.__len__(), []),
    "operators": (lambda: ITEMS[0] + ITEMS[1] in ITEMS, []),
    "a key": (lambda: sorted([0], key=math.floor), [("sorted", "builtins")]),
    "map": (lambda: [*map(math.floor, ITEMS)], []),
}  # fmt: skip


def _quiet(call: Callable[[], Any]) -> None:
    with contextlib.suppress(IndexError, ValueError, TypeError):
        call()


LOCK = threading.Lock()


def _entered() -> None:
    with LOCK:
        pass


def _decorated() -> Any:
    decorator: Any = operator.index

    @decorator
    def zero() -> int:
        return 0

    return zero


def _owner(owner: Any) -> Any:
    if inspect.ismodule(owner):
        return owner.__name__
    if isinstance(owner, (np.ndarray, type(LOCK))) or inspect.isgenerator(owner):
        return {np.ndarray: "array", type(LOCK): "lock"}.get(type(owner), "generator")
    return owner


@pytest.mark.parametrize("name", CALLS)
def test_the_same_calls_are_seen(name, monkeypatch):
    call, expected = CALLS[name]
    seen: list[tuple[str, Any]] = []

    def judge(self: Any, file: str, function: Any, owner: Any) -> None:
        if file == __file__:
            seen.append((function.__name__, _owner(owner)))

    monkeypatch.setattr(impurity._ImpurityEye, "judge", judge)
    for _ in range(2):
        seen.clear()
        heard(call)
        assert [(n, list(o) if isinstance(o, list) else o) for n, o in seen] == [
            (n, list(o) if isinstance(o, list) else o) for n, o in expected
        ]


class Thing:
    def __init__(self) -> None:
        self.k = 1

    @property
    def half(self) -> float:
        return self.k / 2

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__"):
            raise AttributeError(name)
        return name


def _stepping() -> Callable[[], Any]:
    started = counting()
    next(started)
    return lambda: next(started)


STARTS: dict[str, tuple[Callable[[], Callable[[], Any]], set[str]]] = {
    "method": (lambda: lambda: Items().append(1), {"append"}),
    "init": (lambda: lambda: Thing(), {"__init__"}),
    "property": (lambda: functools.partial(lambda thing: thing.half, Thing()), {"half"}),
    "getattr": (lambda: functools.partial(lambda thing: thing.missing, Thing()), {"__getattr__"}),
    "generator": (lambda: lambda: [*counting()], {"counting"}),
    "generator that has started": (_stepping, {"counting"}),
    "coroutine": (lambda: lambda: _quiet_stop(waiting()), {"_quiet_stop", "waiting"}),
    "asyncio": (lambda: lambda: asyncio.run(waiting()), {"waiting"}),
    "key": (lambda: lambda: sorted([1], key=named), {"named"}),
    "map": (lambda: lambda: [*map(named, [1])], {"named"}),
    "partial": (lambda: lambda: functools.partial(named, 1)(), {"named"}),
    "cached": (lambda: functools.partial(lambda f: f(1), functools.cache(named)), {"named"}),
    "generator expression": (lambda: lambda: sum(n for n in (1, 2)), {"<genexpr>"}),
    "exec": (lambda: lambda: exec(compile("1", __file__, "exec")), {"<module>"}),
    "class": (lambda: lambda: _class(), {"_class", "Made"}),
}


def named(x: Any) -> Any:
    return x


def _class() -> Any:
    class Made:
        pass

    return Made


def _quiet_stop(coroutine: Any) -> None:
    with contextlib.suppress(StopIteration):
        coroutine.send(None)


@pytest.mark.parametrize("name", STARTS)
@pytest.mark.filterwarnings("ignore::DeprecationWarning")
def test_the_same_functions_are_seen_to_start(name):
    make, expected = STARTS[name]
    for _ in range(2):
        assert _started(make()) - {"<lambda>"} == expected


def _started(call: Callable[[], Any]) -> set[str]:
    """The names of functions in this file that start while `call` runs."""
    found: list[Any] = []
    with impurity.watching(Ear(), lambda file: False, lambda code, space: found.append(code)):
        call()
    return {code.co_name for code in found if code.co_filename == __file__}


class Shown:
    """Says how many calls of `print` are under way when text is made of it."""

    def __init__(self, ear: Ear, fails: bool = False) -> None:
        self.ear, self.fails = ear, fails
        self.during: list[int] = []

    def __str__(self) -> str:
        self.during.append(self.ear.printing)
        if self.fails:
            raise ValueError("unshowable")
        return "shown"


NO_GAPS: dict[str, Any] = {"sep": ""}
PRINTS: dict[str, Callable[[Any], Any]] = {
    "plain": lambda shown: print(shown),
    "keywords": lambda shown: print(shown, file=io.StringIO()),
    "stars": lambda shown: print(*[shown]),
    "stars and keywords": lambda shown: print(*[shown], **NO_GAPS),
    "bound beforehand": functools.partial(lambda show, shown: show(shown), print),
    "operators inside": lambda shown: (print(shown), jit.ones(2).relu(), print(shown)),
}


@pytest.mark.parametrize("fails", [False, True])
@pytest.mark.parametrize("name", PRINTS)
def test_printing_ends_however_it_began(name, fails):
    ear = Ear()
    shown = Shown(ear, fails)
    with impurity.watching(ear, lambda file: False):
        for _ in range(2):
            with contextlib.suppress(ValueError):
                PRINTS[name](shown)
            assert ear.printing == 0
    assert set(shown.during) == {1}


# -- in which code -----------------------------------------------------------------------------------------------

HELPER = eval(compile("lambda f, *a: f(*a)", f"{PACKAGE}made_by_test.py", "eval"))
READER = eval(compile("lambda f: f.read()", f"{PACKAGE}made_by_test.py", "eval"))


def test_what_this_package_calls_for_somebody_is_seen_each_time():
    assert (
        heard(lambda: (HELPER(len, ""), HELPER(named, 1), HELPER(os.urandom, 1), HELPER(os.urandom, 1)))
        == ["draws random bytes"] * 2
    )
    with open(os.devnull) as file:
        assert heard(lambda: (READER(io.StringIO()), READER(file))) == ["reads a file"]


def test_what_this_package_calls_while_nobody_looks_is_seen_later():
    ear = Ear()
    with impurity.watching(ear, lambda file: False):
        hook = watch.pause()
        HELPER(len, "")
        HELPER(os.urandom, 1)
        watch.resume(hook)
        HELPER(os.urandom, 1)
    assert ear.heard == ["draws random bytes"]


def test_the_same_code_is_seen_again(tmp_path):
    """Whatever was switched off while one looked, the next one sees."""
    f = jit.trace(lambda x: x * 2)
    f(jit.ones(2))
    f.save(tmp_path / "f")
    for _ in range(2):
        assert "opens a file" in heard(lambda: jit.load(tmp_path / "f"))


class Odd(list[int]):
    """An object that does not want to be looked at."""

    @property
    def __class__(self) -> Any:
        raise RuntimeError("who asks?")

    @__class__.setter
    def __class__(self, value: Any) -> None:
        raise RuntimeError("who sets?")


def test_looking_at_calls_runs_no_code_of_the_users():
    odd: Any = Odd()
    assert heard(lambda: (odd.append(1), os.urandom(1))) == ["draws random bytes"]


# -- beside whom -------------------------------------------------------------------------------------------------


def test_threads_hear_what_is_theirs():
    """One begins first and ends first: the other one goes on."""
    ears, barrier = [Ear(), Ear()], threading.Barrier(2, timeout=60)

    def work(number: int) -> None:
        if number:
            barrier.wait()
        with impurity.watching(ears[number], lambda file: False):
            if not number:
                barrier.wait()
            barrier.wait()
            os.urandom(1) if number else os.listdir("/")
            barrier.wait()
            if number:
                barrier.wait()
                os.urandom(1)
        if not number:
            barrier.wait()

    threads = [threading.Thread(target=work, args=(number,)) for number in range(2)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(60)
    kinds = [[what for what in ear.heard if what.startswith(("draws", "looks"))] for ear in ears]
    assert kinds == [["looks at a folder"], ["draws random bytes"] * 2]


def test_many_threads_record_at_once():
    wrong: list[Any] = []

    def work(number: int) -> None:
        for turn in range(20):
            clock = (number + turn) % 2 == 0
            what = heard((lambda: time.time()) if clock else (lambda: math.floor(1.5)))
            if what != ["reads the clock"] * clock:
                wrong.append((number, turn, what))

    threads = [threading.Thread(target=work, args=(number,)) for number in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(60)
    assert wrong == [] and watch.LOOKING == []


@MONITORED
def test_numbers_of_tools_are_given_back():
    monitoring = MONITORING
    before = [monitoring.get_tool(number) for number in range(6)]
    during: list[Any] = []
    heard(lambda: during.extend(monitoring.get_tool(number) for number in range(6)))
    assert before.count("jit") == 0 and during.count("jit") == 1
    assert [monitoring.get_tool(number) for number in range(6)] == before


@MONITORED
def test_a_tool_that_had_our_number_leaves_nothing_switched_off():
    monitoring = MONITORING
    call = monitoring.events.CALL
    free = [number for number in range(6) if monitoring.get_tool(number) is None]

    def clock() -> float:
        return time.time()

    for number in free:
        monitoring.use_tool_id(number, "somebody's")
        monitoring.register_callback(number, call, lambda *_: monitoring.DISABLE)
        monitoring.set_events(number, call)
    clock()
    for number in free:
        monitoring.register_callback(number, call, None)
        monitoring.set_events(number, 0)
        monitoring.free_tool_id(number)
    assert heard(clock) == ["reads the clock"]


@MONITORED
def test_other_tools_go_on_and_without_a_number_nothing_is_seen():
    monitoring = MONITORING
    call, seen = monitoring.events.CALL, list[Any]()
    free = [number for number in range(6) if monitoring.get_tool(number) is None]
    for number in free:
        monitoring.use_tool_id(number, "somebody's")
    try:
        with impurity.watching(Ear(), lambda file: False) as sees:
            assert not sees and watch.pause() is None
        f = jit.trace(lambda x: x * 2)
        assert [f(jit.ones(1)).item() for _ in range(2)] == [2.0, 2.0]
        monitoring.free_tool_id(free[-1])
        monitoring.register_callback(free[0], call, lambda code, offset, function, first: seen.append(function))
        monitoring.set_events(free[0], call)
        assert heard(lambda: time.time()) == ["reads the clock"]
        monitoring.set_events(free[0], 0)
        assert seen.count(time.time) == 1
    finally:
        for number in free:
            if monitoring.get_tool(number) == "somebody's":
                monitoring.set_events(number, 0)
                monitoring.free_tool_id(number)


@MONITORED
def test_profilers_and_debuggers_of_the_users_see_and_are_seen():
    for setter in (sys.setprofile, sys.settrace):
        seen = set[str]()

        def hook(frame: Any, event: str, arg: Any, seen: set[str] = seen) -> None:
            seen.add(frame.f_code.co_name)

        before = sys.gettrace()
        setter(hook)
        try:
            assert heard(lambda: named(time.time())) == ["reads the clock"]
        finally:
            sys.setprofile(None)
            sys.settrace(before)
        assert "named" in seen


def test_recordings_inside_of_recordings_keep_what_is_theirs():
    outer, inner = Ear(), Ear()
    with impurity.watching(outer, lambda file: False):
        hook = watch.pause()  # as what runs inside of an operator
        with impurity.watching(inner, lambda file: False) as sees:
            os.urandom(1)
        assert sees and watch.pause() is None
        watch.resume(hook)
        time.time()
    assert (outer.heard, inner.heard) == (["reads the clock"], ["draws random bytes"])
