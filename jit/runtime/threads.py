"""How many threads to compute with."""

from __future__ import annotations

import os

from jit.ir.errors import UsageError


def thread_count() -> int:
    """The number of threads: `JIT_NUM_THREADS`, or as many as this process has cores. Results do not depend on it.

    Raises:
        UsageError: `JIT_NUM_THREADS` is no positive whole number.
    """
    said = os.environ.get("JIT_NUM_THREADS", "").strip()
    if not said:
        return _cores()
    if not said.isdecimal() or int(said) < 1:
        raise UsageError(f"JIT_NUM_THREADS is {said!r}; set it to a positive whole number, or unset it")
    return int(said)


def _cores() -> int:
    if hasattr(os, "sched_getaffinity"):  # not on macOS
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1
