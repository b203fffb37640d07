"""A sign of life for people who wait: what takes longer than two seconds says so on a terminal."""

from __future__ import annotations

import sys
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager

PATIENCE = 2.0
"""Seconds that nobody needs to be told of."""


@contextmanager
def waiting(what: str) -> Iterator[None]:
    """A block during which, after two seconds, a spinner on stderr says `what`; only where stderr is a terminal."""
    if not sys.stderr.isatty():
        yield
        return
    done = threading.Event()
    thread = threading.Thread(target=_spin, args=(what, done), daemon=True)
    thread.start()
    try:
        yield
    finally:
        done.set()
        thread.join()


def _spin(what: str, done: threading.Event) -> None:
    """Show a spinner with the seconds that have gone by, until the work is done."""
    began = time.monotonic()
    if done.wait(PATIENCE):
        return
    from rich.console import Console

    with Console(stderr=True).status(what) as status:
        while not done.wait(1):
            status.update(f"{what}, {time.monotonic() - began:.0f} s")
