"""Runs the same work in many threads at once, for tests."""

import threading
from collections.abc import Callable


def in_threads(work: Callable[[int], None], count: int = 8) -> None:
    """Run `work(index)` in many threads that start at once; the first error is raised."""
    start = threading.Barrier(count)
    errors: list[BaseException] = []

    def body(index: int) -> None:
        start.wait()
        try:
            work(index)
        except BaseException as error:
            errors.append(error)

    threads = [threading.Thread(target=body, args=(i,)) for i in range(count)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    if errors:
        raise errors[0]
