"""Threads that share the rows of a kernel: fork, compute, join, all in native code.

A step of a plan may come in parts (see Note [A program] in `entry`). A part is the same rows with the same code whoever
computes it, so results do not depend on the number of threads, which may change from step to step. Only one call at a
time has the pool; others compute all parts themselves.

Note [Taking parts]
    The ticket is a word: the number of the job, and below it the number of parts that nobody has taken. Whoever is
    free, the caller included, takes one by exchanging the ticket for the one that offers a part less:

        job 7, 2 parts left    ->    job 7, 1 part left: part 1 is mine

    So a thread that comes late, because it slept or the system gave its core to others, is not waited for. A ticket
    without parts cannot be exchanged, so the next job can be described while others still look at it; and whoever has
    taken a part may read the description, which stays until `pending`, the number of parts not done, is 0.

Waking a thread takes as long as some steps of a plan, so threads look out for the next job for a while (`WATCH`) before
they sleep, and the caller waits for the last parts in the same way; but not where there are more threads than cores.
Linux likes to wake a thread on the core of the one that wakes it, where it then waits until that one is moved or has
used up its turn. So a thread that goes to sleep excludes the core on which the last caller was, until it is awake.

The pool is started by the first step that has parts, through a Python function whose address stands where the pool's
should be. A forked child starts its own. Threads are those of the C library: they never see Python.
"""

from __future__ import annotations

import atexit
import ctypes
import os
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from functools import cache
from typing import Any

import numpy as np

from ..llvm.words import Routine, Word
from ..targets.target import Target
from .threads import core_count, planned_count, thread_count

_PTHREAD = (
    "owner", "lock", "begin", "finished", "mutex_trylock", "mutex_lock", "mutex_unlock", "wait", "signal", "broadcast",
)  # fmt: skip
"""Addresses of mutexes and conditions, then of functions."""
_SCHEDULER = ("getcpu", "getaffinity", "setaffinity")
"""Linux's functions that say and decide on which core a thread runs; 0 elsewhere."""
_LINES = (
    ("ticket", "kernel", "geometries", "count", "operands", "scratch"),
    ("pending", "status", "caller_sleeps"),
    ("sleepers", "threads", "looks", "core"),
    (*_SCHEDULER, *_PTHREAD),
)
"""The pool: what different threads write stands in different lines of the cache, of 8 words each."""
_AT = {name: 8 * line + place for line, names in enumerate(_LINES) for place, name in enumerate(names)}
_WORDS = 8 * (len(_LINES) + 1)
_CORES = 16
"""The words of a set of cores: bits, 0 for those beyond the ones that there are."""
MOST_OPERANDS = 256
"""A step with more operands is not shared."""
WATCH = 5e-4
"""Seconds for which a thread looks out for work before it sleeps."""
WAKES = 1 << 16
"""The bit beside a step's number of parts that has sleeping threads be woken for it."""
_LEFT = WAKES - 1
"""The bits of the ticket that count parts."""


class _ThreadPool(Routine):
    """A routine that knows the pool."""

    def field(self, name: str) -> Word:
        """A word of the pool that nobody changes meanwhile."""
        return self.word("%pool", _AT[name])

    def set(self, name: str, value: Word | int) -> None:
        """Change a word of the pool that nobody reads meanwhile."""
        self.put("%pool", _AT[name], value)

    def seen(self, name: str) -> Word:
        """A word of the pool as the threads see it."""
        return self.atomic_word("%pool", _AT[name])

    def show(self, name: str, value: Word | int) -> None:
        """Let all threads see a word of the pool, and whatever was written before it."""
        self.put_atomic("%pool", _AT[name], value)

    def change(self, name: str, how: str, by: Word | int) -> Word:
        """Change a word of the pool at once, by "add" or "or"; what it was."""
        return self.update("%pool", _AT[name], how, by)

    def call_on(self, function: str, *things: str) -> Word:
        """Call a function of the C library on things of the pool."""
        return self.call(self.field(function), *map(self.field, things), returns="i32")

    @contextmanager
    def locked(self) -> Iterator[None]:
        """Code that holds the lock of the conditions."""
        self.call_on("mutex_lock", "lock")
        yield
        self.call_on("mutex_unlock", "lock")

    @contextmanager
    def watching(self) -> Iterator[None]:
        """A loop that looks for what it waits for, for a while."""
        with self.loop(self.seen("looks")):
            yield
            self.pause(_pause()[1])

    @contextmanager
    def when_offered(self) -> Iterator[None]:
        """A block that runs if there are parts to take."""
        with self.unless(self.same(self.both(self.seen("ticket"), _LEFT), 0)):
            yield

    def take_parts(self, own: Word) -> None:
        """Compute parts until none is left; `own` is memory for the operands of one."""
        with self.loop(2**62):
            ticket = self.seen("ticket")
            left = self.both(ticket, _LEFT)
            with self.when(self.same(left, 0)):
                self.end_loop()
            with self.when(self.exchanges("%pool", _AT["ticket"], ticket, self.sub(ticket, 1))):
                self._compute(self.sub(left, 1), own)

    def _compute(self, part: Word, own: Word) -> None:
        """Do a part, with scratch memory of its own, which is the last operand."""
        count, operands = self.field("count"), self.field("operands")
        with self.loop(count) as i:
            self.put(own, i, self.word(operands, i))
        last = self.sub(count, 1)
        self.put(own, last, self.add(self.word(own, last), self.scale(self.field("scratch"), part)))
        geometry = self.word(self.field("geometries"), self.add(part, 1))
        status = self.call(self.field("kernel"), own, geometry, returns="i32")
        with self.unless(self.same(status, 0)):
            self.change("status", "or", status)
        is_last = self.same(self.change("pending", "add", -1), 1)
        with self.when(is_last), self.unless(self.same(self.seen("caller_sleeps"), 0)), self.locked():
            self.call_on("signal", "finished")


def share() -> tuple[str, str]:
    """`share(pool, step, operands)`: compute the parts of a step by all threads; -1 if there are none, or all busy.

    A declaration that it needs comes with it.
    """
    r = _ThreadPool("share", ["pool", "step", "operands"])
    own = r.space(str(MOST_OPERANDS))
    with r.when(r.less(r.field("threads"), 1)):
        r.leave(-1)
    with r.unless(r.same(r.call_on("mutex_trylock", "owner"), 0)):
        r.leave(-1)
    _offer(r)
    r.take_parts(own)
    with r.watching(), r.when(r.same(r.seen("pending"), 0)):
        r.end_loop()
    with r.unless(r.same(r.seen("pending"), 0)), r.locked():
        r.show("caller_sleeps", 1)
        with r.loop(2**62):
            with r.when(r.same(r.seen("pending"), 0)):
                r.end_loop()
            r.call_on("wait", "finished", "lock")
        r.show("caller_sleeps", 0)
    status = r.field("status")
    r.call_on("mutex_unlock", "owner")
    r.leave(status)
    return _pause()[0], r.text()


def _offer(r: _ThreadPool) -> None:
    """Describe the job, and let threads take its parts."""
    word = r.word("%step", 3)
    parts = r.both(word, _LEFT)
    for name, value in (
        ("kernel", r.word("%step")), ("geometries", r.word("%step", 1)), ("count", r.word("%step", 2)),
        ("scratch", r.word("%step", 4)), ("operands", "%operands"), ("status", "0"), ("pending", parts),
    ):  # fmt: skip
        r.set(name, value)
    with r.unless(r.same(r.field("getcpu"), 0)):
        r.set("core", r.call(r.field("getcpu"), returns="i32"))
    r.show("ticket", r.add(r.add(r.field("ticket"), _LEFT + 1), parts))
    with r.when(r.less(WAKES, word)), r.unless(r.same(r.seen("sleepers"), 0)), r.locked():
        r.call_on("broadcast", "begin")


def _work() -> tuple[tuple[str, ...], str]:
    """The routine of a thread, `work(argument)`, behind what it declares; the argument is (pool, its number)."""
    r = _ThreadPool("kernel", ["argument"])
    r._write(f"%pool = add i64 {r.word('%argument')}, 0")
    own, idle = r.space(str(MOST_OPERANDS)), r.variable()
    cores = r.space(str(_CORES)), r.space(str(_CORES))
    with r.loop(2**62):
        r.put(idle, 0, 1)
        with r.watching(), r.when_offered():
            r.put(idle, 0, 0)
            r.end_loop()
        with r.unless(r.same(r.word(idle), 0)), _elsewhere(r, cores), r.locked():
            _sleep(r)
        r.take_parts(own)
    r.leave(0)
    return _pause()[:1], r.text()


@contextmanager
def _elsewhere(r: _ThreadPool, spaces: tuple[Word, Word]) -> Iterator[None]:
    """Code at whose end the thread does not run on the core of the last caller, if there is another one for it."""
    (allowed, others), moves = spaces, r.variable()
    r.put(moves, 0, 0)
    with r.unless(r.same(r.field("getcpu"), 0)), r.when(r.less(r.seen("core"), 64 * _CORES)):
        _exclude(r, r.seen("core"), allowed, others, moves)
        with r.unless(r.same(r.word(moves), 0)):
            r.call(r.field("setaffinity"), 0, 8 * _CORES, others, returns="i32")
    yield
    with r.unless(r.same(r.word(moves), 0)):
        r.call(r.field("setaffinity"), 0, 8 * _CORES, allowed, returns="i32")


def _exclude(r: _ThreadPool, core: Word, allowed: Word, others: Word, moves: Word) -> None:
    """The sets of the cores that the thread may use, and of those beside one; `moves` is 0 if there are none."""
    for place in range(_CORES):
        r.put(allowed, place, 0)
    r.call(r.field("getaffinity"), 0, 8 * _CORES, allowed, returns="i32")
    for place in range(_CORES):
        r.put(others, place, r.word(allowed, place))
    at = r.add(others, r.both(r.halved(core, 3), -8))
    r.put(at, 0, r.both(r.word(at), r.sub("-1", r.shifted(1, r.both(core, 63)))))
    for place in range(_CORES):
        r.put(moves, 0, r.either(r.word(moves), r.word(others, place)))


def _sleep(r: _ThreadPool) -> None:
    """Sleep until parts are offered; return from `work` if the thread is not wanted any more."""
    r.change("sleepers", "add", 1)
    with r.loop(2**62):
        with r.when(r.less(r.seen("threads"), r.word("%argument", 1))):
            r.change("sleepers", "add", -1)
            r.call_on("mutex_unlock", "lock")
            r.leave(0)
        with r.when_offered():
            r.end_loop()
        r.call_on("wait", "begin", "lock")
    r.change("sleepers", "add", -1)


def _pause() -> tuple[str, str]:
    """The declaration and the call of what makes a loop wait for a moment, as this processor would have it."""
    return Target.host().family.pause


# -- starting and stopping ---------------------------------------------------------------------------------------

cell = np.zeros(2, np.int64)
"""The address of the pool, or 0; then that of the function that starts it. Compiled code looks here."""
_lock = threading.Lock()
_threads: list[tuple[Any, Any]] = []
_memory: list[Any] = []
"""The memory of this process's pool, and of the pools that its parents had when they forked."""


def most_parts() -> int:
    """The most parts into which a step may be cut."""
    return planned_count()


def start() -> None:
    """Make the pool and its threads, if this process has none."""
    with _lock:
        if cell[0]:
            return
        pool = _new_pool()
        _memory.append(pool)
        _staff(pool)
        cell[0] = _address(pool)


def _new_pool() -> Any:
    """A pool without threads."""
    room = np.zeros(_WORDS + 8 + 4 * 16, np.int64)
    pool = room[-(_address(room) // 8) % 8 :]
    for number, name in enumerate(_PTHREAD[:4]):
        where = _address(pool) + 8 * (_WORDS + 16 * number)
        kind = "mutex" if name in ("owner", "lock") else "cond"
        getattr(_library(), f"pthread_{kind}_init")(ctypes.c_void_p(where), None)
        pool[_AT[name]] = where
    for name in _SCHEDULER if hasattr(_library(), "sched_getcpu") else ():
        pool[_AT[name]] = ctypes.cast(getattr(_library(), f"sched_{name}"), ctypes.c_void_p).value or 0
    for name in _PTHREAD[4:]:
        full = f"pthread_{name}" if name.startswith("mutex") else f"pthread_cond_{name}"
        pool[_AT[name]] = ctypes.cast(getattr(_library(), full), ctypes.c_void_p).value or 0
    return pool


def _staff(pool: Any) -> None:
    """Let as many threads work as are wanted."""
    wanted = thread_count() - 1
    pool[_AT["looks"]] = int(WATCH * _looks_a_second()) if 1 <= wanted < core_count() else 0
    pool[_AT["threads"]] = wanted
    _dismiss(pool, wanted)
    while len(_threads) < wanted and _start_thread(pool, len(_threads) + 1):
        pass
    pool[_AT["threads"]] = len(_threads)


def _dismiss(pool: Any, wanted: int) -> None:
    """End the threads beyond those that are wanted, as `threads` says by now."""
    with _held(pool, "lock"):
        _library().pthread_cond_broadcast(ctypes.c_void_p(int(pool[_AT["begin"]])))
    while len(_threads) > wanted:
        _library().pthread_join(_threads[-1][0], None)
        del _threads[-1]  # with its argument, at which it looks until it ends


def resize() -> None:
    """Go on with as many threads as are wanted now, once the step that is being computed is done."""
    with _lock:
        if cell[0]:
            with _held(_memory[-1], "owner"):
                _staff(_memory[-1])


@contextmanager
def _held(pool: Any, mutex: str) -> Iterator[None]:
    """Hold a mutex of the pool."""
    address = ctypes.c_void_p(int(pool[_AT[mutex]]))
    _library().pthread_mutex_lock(address)
    try:
        yield
    finally:
        _library().pthread_mutex_unlock(address)


def _start_thread(pool: Any, number: int) -> bool:
    argument = np.array([_address(pool), number], np.int64)
    handle = ctypes.c_void_p()
    create = _library().pthread_create
    if create(ctypes.byref(handle), None, ctypes.c_void_p(_function()), ctypes.c_void_p(_address(argument))) != 0:
        return False
    _threads.append((handle, argument))
    return True


def _stop() -> None:
    """End the threads, before the code that they run is unloaded."""
    if cell[0]:
        pool = _memory[-1]
        pool[_AT["threads"]] = 0
        _dismiss(pool, 0)
        cell[0] = 0


def _forget() -> None:
    """Forget the pool in a forked child, which has none of its parent's threads."""
    global _lock
    _lock = threading.Lock()
    _threads.clear()
    cell[0] = 0


atexit.register(_stop)
os.register_at_fork(after_in_child=_forget)


_starter = ctypes.CFUNCTYPE(None)(start)
cell[1] = ctypes.cast(_starter, ctypes.c_void_p).value or 0


@cache
def _library() -> Any:
    return ctypes.CDLL(None)


@cache
def _function() -> int:
    from ..kernels.codegen import compile_routine

    return compile_routine("work", _work)


@cache
def _looks_a_second() -> float:
    """The number of times that a thread looks out in a second, by the least time that some pauses take."""
    from ..kernels.codegen import compile_routine

    address = compile_routine("pauses", _pauses)
    pauses, count, times = ctypes.CFUNCTYPE(ctypes.c_int64, ctypes.c_int64)(address), 500, []
    for _ in range(3):
        begin = time.perf_counter()
        pauses(count)
        times.append(time.perf_counter() - begin)
    return count / min(times)


def _pauses() -> tuple[tuple[str, ...], str]:
    """The routine `pauses(count)`, which waits so many times for a moment, behind what it declares."""
    r = Routine("kernel", ["count"])
    with r.loop("%count"):
        r.pause(_pause()[1])
    r.leave(0)
    return _pause()[:1], r.text()


def _address(array: Any) -> int:
    return int(array.__array_interface__["data"][0])
