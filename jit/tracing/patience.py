"""Puts off Python's search for garbage while a function is recorded or compiled.

A recording makes objects by the hundred thousand, and all of them stay. Python looks for cycles among its young objects
every 700 of them, and among all objects whenever their number has grown by a quarter: on a graph that grows, that is a
tenth of the time for nothing. Here it looks every 200,000 objects, so that what is garbage does not pile up for ever.
"""

from __future__ import annotations

import contextlib
import gc
import os
from collections.abc import Iterator

YOUNG = 200_000
"""The number of objects that are made between two searches."""

_patient: set[object] = set()
"""The blocks that are under way, in whatever thread: Python has one collector for all."""
_found: list[tuple[int, int, int]] = []
"""The thresholds that the first of them has found; empty if they were fine."""


@contextlib.contextmanager
def patience() -> Iterator[None]:
    """Within this block garbage is looked for rarely; afterwards as before, however the block ends.

    A collector that is switched off stays so, and thresholds that somebody sets meanwhile are left alone.
    """
    token = object()
    try:
        try:
            _begin(token)
            yield
        finally:
            _end(token)
    finally:  # once more: an interrupt may have come in the place of the first time
        _end(token)


def _begin(token: object) -> None:
    """No lock is taken, as an interrupt could leave it locked: what two threads can do at once is harmless."""
    _patient.add(token)
    found = gc.get_threshold()
    if 0 < found[0] < YOUNG:
        _found[:] = [found]
        gc.set_threshold(YOUNG, *found[1:])


def _end(token: object) -> None:
    _patient.discard(token)
    if not _patient and _found:
        if gc.get_threshold()[0] == YOUNG:
            gc.set_threshold(*_found[0])
        _found.clear()


def _forget() -> None:
    """After a fork: the threads whose blocks would restore the thresholds do not exist in the child."""
    for token in [*_patient]:
        _end(token)


os.register_at_fork(after_in_child=_forget)
