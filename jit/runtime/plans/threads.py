"""The number of threads to compute with."""

from __future__ import annotations

import os

from jit.ir.errors import UsageError

_chosen: dict[str, int] = {}
"""The numbers given to `choose`: "kernels", the threads of one kernel, and "nodes", those of one backward."""


def thread_count() -> int:
    """The number of threads: what was chosen, else `JIT_NUM_THREADS`, else as many as this process has cores. Results
    do not depend on it.

    Raises:
        UsageError: `JIT_NUM_THREADS` is not a positive whole number.
    """
    if "kernels" in _chosen:
        return _chosen["kernels"]
    said = os.environ.get("JIT_NUM_THREADS", "").strip()
    if not said:
        return core_count()
    if not said.isdecimal() or int(said) < 1:
        raise UsageError(f"JIT_NUM_THREADS is {said!r}; set it to a positive whole number, or unset it")
    return int(said)


def node_thread_count() -> int:
    """The number of threads that run the nodes of one backward."""
    return _chosen.get("nodes") or thread_count()


def planned_count() -> int:
    """The number of threads for which a plan is made: if it was chosen, it may be chosen anew while plans live."""
    return max(thread_count(), core_count()) if "kernels" in _chosen else thread_count()


def choose(what: str, count: int | None) -> None:
    """Let `count` be the number of threads of "kernels" or "nodes"; None for the default."""
    if count is None:
        _chosen.pop(what, None)
    else:
        _chosen[what] = count


def chosen() -> int | None:
    """The number of threads for kernels that was chosen; None if none was."""
    return _chosen.get("kernels")


def core_count() -> int:
    """The number of cores on which this process may run."""
    if hasattr(os, "sched_getaffinity"):  # not on macOS
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1
