"""`jit.set_num_threads` and its like: how many threads compute."""

from __future__ import annotations

import operator
from typing import Any

from jit.ir.errors import SchemaError, UsageError
from jit.runtime.plans import threads

from . import context


def get_num_threads() -> int:
    """The number of threads that share one kernel: `JIT_NUM_THREADS`, or the number of cores, unless it was set."""
    _note("asks for the number of threads")
    return threads.thread_count()


def set_num_threads(number: int) -> None:
    """Share the steps of compiled functions, and products of numpy's and SciPy's OpenBLAS, among so many threads.

    It holds for functions that are compiled already, too, but one that was compiled while fewer threads were allowed
    than there are cores keeps that number. The package's own kernels give the same bits for any number of threads;
    products that OpenBLAS computes may differ in their last bits.

    >>> import jit
    >>> before = jit.get_num_threads()
    >>> jit.set_num_threads(1)
    >>> jit.get_num_threads()
    1
    >>> jit.set_num_threads(before)
    """
    count = _checked(number, "set_num_threads")
    _note("sets the number of threads")
    from jit.runtime.plans import pool
    from jit.runtime.products.blas_threads import set_blas_threads

    threads.choose("kernels", count)
    pool.resize()
    for package in ("numpy", "scipy"):
        set_blas_threads(package, count)


def get_num_interop_threads() -> int:
    """The number of threads that share the operators of one backward."""
    _note("asks for the number of threads")
    return threads.node_thread_count()


def set_num_interop_threads(number: int) -> None:
    """Share the operators of one backward among this many threads from now on; unlike in PyTorch, at any time."""
    count = _checked(number, "set_num_interop_threads")
    _note("sets the number of threads")
    threads.choose("nodes", count)


MOST = 1024
"""The largest number of threads that is taken: more than machines have cores."""


def _checked(number: Any, name: str) -> int:
    try:
        count = operator.index(number)
    except TypeError as error:
        raise SchemaError(f"{name} takes a whole number of threads, not {type(number).__name__}") from error
    if isinstance(number, bool) or not 1 <= count <= MOST:
        raise UsageError(f"{name} takes a number of threads from 1 to {MOST}, not {number!r}")
    return count


def _note(what: str) -> None:
    """Tell the trace what the function does, since a recording would neither repeat nor notice it."""
    trace = context.TRACE.get()
    if trace is not None:
        trace.note_impure(what)
