"""Threads that share the rows of a kernel: fork, compute, join, all in native code.

A step of a plan may come in parts (see Note [A program] in `entry`). Of n threads, the caller being number 0, thread i
computes parts i, i + n, i + 2n ..., and the caller waits for the others; a part is the same rows with the same code
whoever computes it, so results do not depend on the number of threads, which may change from step to step. Only one
call at a time has the pool; others compute all parts themselves.

The pool is started by the first step that has parts, through a Python function whose address stands where the pool's
should be. A forked child starts its own. Threads are those of the C library: they never see Python.
"""

from __future__ import annotations

import atexit
import ctypes
import os
import threading
from functools import cache
from typing import Any

import numpy as np

from ..llvm.words import Routine, Word
from .threads import planned_count, thread_count

_FIELDS = (
    "owner", "lock", "begin", "finished", "mutex_trylock", "mutex_lock", "mutex_unlock", "wait", "signal", "broadcast",
    "threads", "generation", "pending", "stop", "status", "kernel", "geometries", "count", "operands", "scratch",
    "parts",
)  # fmt: skip
"""The pool: addresses of mutexes, conditions and functions, then the job that is being done."""
_AT = {name: index for index, name in enumerate(_FIELDS)}
MOST_OPERANDS = 256
"""A step with more operands is not shared."""


class _ThreadPool(Routine):
    """A routine that knows the pool."""

    def field(self, name: str) -> Word:
        """A word of the pool."""
        return self.word("%pool", _AT[name])

    def set(self, name: str, value: Word | int) -> None:
        """Change a word of the pool."""
        self.put("%pool", _AT[name], value)

    def call_on(self, function: str, *things: str) -> Word:
        """Call a function of the C library on things of the pool."""
        return self.call(self.field(function), *map(self.field, things), returns="i32")


def share() -> str:
    """`share(pool, step, operands)`: compute the parts of a step by all threads; -1 if there are none, or all busy."""
    r = _ThreadPool("share", ["pool", "step", "operands"])
    with r.when(r.less(r.field("threads"), 1)):
        r.leave(-1)
    with r.unless(r.same(r.call_on("mutex_trylock", "owner"), 0)):
        r.leave(-1)
    threads, parts = r.add(r.field("threads"), 1), r.word("%step", 3)
    r.call_on("mutex_lock", "lock")
    for name, value in (
        ("kernel", r.word("%step")), ("geometries", r.word("%step", 1)), ("count", r.word("%step", 2)),
        ("parts", r.word("%step", 3)), ("scratch", r.word("%step", 4)), ("operands", "%operands"), ("status", "0"),
    ):  # fmt: skip
        r.set(name, value)
    r.set("pending", r.sub(parts, 1))
    with r.when(r.less(threads, parts)):
        r.set("pending", r.sub(threads, 1))
    r.set("generation", r.add(r.field("generation"), 1))
    r.call_on("broadcast", "begin")
    r.call_on("mutex_unlock", "lock")
    mine, due = r.variable(), r.variable()
    r.put(mine, 0, 0)
    r.put(due, 0, 0)
    with r.loop(parts) as part, r.when(r.same(part, r.word(due))):
        geometry = r.word(r.word("%step", 1), r.add(part, 1))
        r.put(mine, 0, r.either(r.word(mine), r.call(r.word("%step"), "%operands", geometry, returns="i32")))
        r.put(due, 0, r.add(part, threads))
    r.call_on("mutex_lock", "lock")
    with r.loop(2**62):
        with r.when(r.same(r.field("pending"), 0)):
            status = r.either(r.word(mine), r.field("status"))
            r.call_on("mutex_unlock", "lock")
            r.call_on("mutex_unlock", "owner")
            r.leave(status)
        r.call_on("wait", "finished", "lock")
    r.leave(0)
    return r.text()


def _work() -> str:
    """`work(argument)`: what a thread does; its argument is (pool, its number, the first generation that it awaits)."""
    r = _ThreadPool("kernel", ["argument"])
    r._write(f"%pool = add i64 {r.word('%argument')}, 0")
    number, seen, due = r.word("%argument", 1), r.variable(), r.variable()
    own = r.space(str(MOST_OPERANDS))
    r.put(seen, 0, r.word("%argument", 2))
    r.call_on("mutex_lock", "lock")
    with r.loop(2**62):
        with r.loop(2**62):
            with r.unless(r.same(r.field("stop"), 0)):
                r.call_on("mutex_unlock", "lock")
                r.leave(0)
            with r.unless(r.same(r.field("generation"), r.word(seen))):
                r.end_loop()
            r.call_on("wait", "begin", "lock")
        r.put(seen, 0, r.field("generation"))
        with r.when(r.less(number, r.add(r.field("threads"), 1))), r.when(r.less(number, r.field("parts"))):
            r.put(due, 0, number)
            with r.loop(r.field("parts")) as part, r.when(r.same(part, r.word(due))):
                r.put(due, 0, r.add(r.add(part, r.field("threads")), 1))
                _compute(r, part, own)
            r.set("pending", r.sub(r.field("pending"), 1))
            with r.when(r.same(r.field("pending"), 0)):
                r.call_on("signal", "finished")
    r.leave(0)
    return r.text()


def _compute(r: _ThreadPool, number: Word, own: Word) -> None:
    """Part `number` of the job, with scratch memory of its own, which is the last operand."""
    kernel, count, operands = r.field("kernel"), r.field("count"), r.field("operands")
    geometry = r.word(r.field("geometries"), r.add(number, 1))
    with r.loop(count) as i:
        r.put(own, i, r.word(operands, i))
    last = r.sub(count, 1)
    r.put(own, last, r.add(r.word(own, last), r.scale(r.field("scratch"), number)))
    r.call_on("mutex_unlock", "lock")
    status = r.call(kernel, own, geometry, returns="i32")
    r.call_on("mutex_lock", "lock")
    r.set("status", r.either(r.field("status"), status))


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
        pool = np.zeros(len(_FIELDS) + 4 * 16, np.int64)
        base = _address(pool)
        things = {name: base + 8 * (len(_FIELDS) + 16 * i) for i, name in enumerate(_FIELDS[:4])}
        for name, where in things.items():
            kind = "mutex" if name in ("owner", "lock") else "cond"
            getattr(_library(), f"pthread_{kind}_init")(ctypes.c_void_p(where), None)
            pool[_AT[name]] = where
        for name in _FIELDS[4:10]:
            full = f"pthread_{name}" if name.startswith("mutex") else f"pthread_cond_{name}"
            pool[_AT[name]] = ctypes.cast(getattr(_library(), full), ctypes.c_void_p).value or 0
        _memory.append(pool)
        _staff(pool)
        cell[0] = base


def _staff(pool: Any) -> None:
    """Let as many threads work as are wanted; surplus ones wait."""
    wanted = thread_count() - 1
    while len(_threads) < wanted and _start_thread(pool, len(_threads) + 1):
        pass
    pool[_AT["threads"]] = min(wanted, len(_threads))


def resize() -> None:
    """Go on with as many threads as are wanted now, once the step that is being computed is done."""
    with _lock:
        if not cell[0]:
            return
        pool, library = _memory[-1], _library()
        owner, lock = (ctypes.c_void_p(int(pool[_AT[name]])) for name in ("owner", "lock"))
        library.pthread_mutex_lock(owner)
        library.pthread_mutex_lock(lock)
        try:
            _staff(pool)
        finally:
            library.pthread_mutex_unlock(lock)
            library.pthread_mutex_unlock(owner)


def _start_thread(pool: Any, number: int) -> bool:
    argument = np.array([_address(pool), number, pool[_AT["generation"]]], np.int64)
    handle = ctypes.c_void_p()
    create = _library().pthread_create
    if create(ctypes.byref(handle), None, ctypes.c_void_p(_function()), ctypes.c_void_p(_address(argument))) != 0:
        return False
    _threads.append((handle, argument))
    return True


def _stop() -> None:
    """End the threads, before the code that they run is unloaded."""
    if not cell[0]:
        return
    pool, library = _memory[-1], _library()
    library.pthread_mutex_lock(ctypes.c_void_p(int(pool[_AT["lock"]])))
    pool[_AT["stop"]] = 1
    library.pthread_cond_broadcast(ctypes.c_void_p(int(pool[_AT["begin"]])))
    library.pthread_mutex_unlock(ctypes.c_void_p(int(pool[_AT["lock"]])))
    for handle, _ in _threads:
        library.pthread_join(handle, None)
    _threads.clear()
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

    return compile_routine("work", lambda: ((), _work()))


def _address(array: Any) -> int:
    return int(array.__array_interface__["data"][0])
