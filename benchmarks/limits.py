"""What the machine can do: bytes and flops per second, measured beside everything else."""

from __future__ import annotations

import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor

import numpy as np

ELEMENTS = 1 << 24


def bandwidth(threads: int, writes: bool, clock: Callable[[], float] = time.perf_counter) -> float:
    """Bytes per second, one slice of large float32 arrays per thread: of reading alone, or of the faster of a copy and
    the triad a = b * s + c of STREAM (McCalpin 1995), blocked so that the intermediate product stays in the cache."""
    b, c = np.ones(ELEMENTS, np.float32), np.ones(ELEMENTS, np.float32)
    a = np.empty_like(b)
    spans = [slice(i * ELEMENTS // threads, (i + 1) * ELEMENTS // threads) for i in range(threads)]

    def triad(span: slice) -> None:
        for start in range(span.start, span.stop, 8192):
            place = slice(start, min(start + 8192, span.stop))
            np.multiply(b[place], np.float32(1.5), out=a[place])
            np.add(a[place], c[place], out=a[place])

    def copy(span: slice) -> None:
        np.copyto(a[span], b[span])

    def read(span: slice) -> None:
        b[span].max()

    with ThreadPoolExecutor(threads) as pool:

        def rate(body: Callable[[slice], None], arrays: int) -> float:
            return arrays * b.nbytes / best_of(lambda: list(pool.map(body, spans)), clock)

        return max(rate(triad, 3), rate(copy, 2)) if writes else rate(read, 1)


def flops(clock: Callable[[], float] = time.perf_counter) -> float:
    """Flops per second of a 2048-cubed float32 product, by numpy's BLAS with the threads that it was given."""
    a = np.ones((2048, 2048), np.float32)
    return 2 * 2048**3 / best_of(lambda: a @ a, clock)


def best_of(call: Callable[[], object], clock: Callable[[], float], times: int = 7) -> float:
    """The shortest of several runs, in seconds, after one that does not count."""
    call()
    found = []
    for _ in range(times):
        start = clock()
        call()
        found.append(clock() - start)
    return min(found)
