"""Calls of BLAS that leave the other threads alone.

BLAS has threads of its own. They know nothing of those that share the steps of a plan, and once they have been used
they keep a core busy for some milliseconds, waiting. So plans have BLAS compute in the thread that calls it, and share
products among their own threads (`plans.pool`). The number of threads is one word in all of the process, which belongs
to whoever uses SciPy, so it is 1 for as long as steps of plans are in BLAS, and then again what it was before.
"""

from __future__ import annotations

from functools import cache
from typing import Any

import numpy as np

from ..llvm.words import Routine, Word
from ..targets.target import Target
from .blas_threads import functions_of_threads

_AT = {name: index for index, name in enumerate(("lock", "inside", "before", "get", "set"))}
"""The state: who changes it, how many steps are in BLAS, the number of threads before, and the functions to ask."""
_state = np.zeros(len(_AT), np.int64)


@cache
def state() -> int:
    """The address of the state, for geometries of steps; SciPy's BLAS is loaded."""
    found = functions_of_threads("scipy")
    if found is not None:
        _state[_AT["get"]], _state[_AT["set"]] = found
    return int(_state.__array_interface__["data"][0])


def state_for(effort: Any, most: int) -> int:
    """The state for a product of so many multiplications; 0 if BLAS has one thread compute up to `most` anyway."""
    return 0 if type(effort) is int and effort <= most else state()


def can_be_shared() -> bool:
    """Whether BLAS can be told to compute in the thread that calls it."""
    return bool(state() and _state[_AT["set"]])


def changes() -> tuple[str, ...]:
    """`enter_blas(state)` and `leave_blas(state)`, and what they need to be declared."""
    return Target.host().family.pause[0], _change("enter_blas", _enter), _change("leave_blas", _leave)


def _change(name: str, body: Any) -> str:
    """A routine that has the state for itself, if there is one."""
    r = Routine(name, ["state"])
    with r.unless(r.same("%state", 0)), r.unless(r.same(r.word("%state", _AT["set"]), 0)):
        with r.loop(2**62):
            with r.when(r.exchanges("%state", _AT["lock"], "0", "1")):
                r.end_loop()
            r.pause(Target.host().family.pause[1])
        body(r)
        r.put_atomic("%state", _AT["lock"], 0)
    r.leave(0)
    return r.text()


def _enter(r: Routine) -> None:
    inside = r.word("%state", _AT["inside"])
    with r.when(r.same(inside, 0)):
        r.put("%state", _AT["before"], r.call(r.word("%state", _AT["get"]), returns="i32"))
        _set(r, "1")
    r.put("%state", _AT["inside"], r.add(inside, 1))


def _leave(r: Routine) -> None:
    inside = r.sub(r.word("%state", _AT["inside"]), 1)
    r.put("%state", _AT["inside"], inside)
    with r.when(r.same(inside, 0)):
        _set(r, r.word("%state", _AT["before"]))


def _set(r: Routine, count: Word) -> None:
    r.call(r.word("%state", _AT["set"]), count, returns="void")
