"""Results that come later, by the names of `torch.futures`.

>>> from jit.futures import Future
>>> future = Future()
>>> doubled = future.then(lambda done: done.value() * 2)
>>> future.set_result(3)
>>> doubled.wait()
6
"""

from __future__ import annotations

import concurrent.futures
import threading
from collections.abc import Callable
from typing import Any, Generic, TypeVar

from .ir.errors import UsageError

T = TypeVar("T")
S = TypeVar("S")


class Future(Generic[T]):
    """A result that somebody sets later, perhaps another thread.

    Args:
        devices: Accepted; makes no difference.
    """

    def __init__(self, *, devices: Any = None) -> None:
        self._inner: concurrent.futures.Future[T] = concurrent.futures.Future()

    def done(self) -> bool:
        """Whether there is a result, or an error."""
        return self._inner.done()

    def wait(self) -> T:
        """The result, once there is one; an error is raised."""
        return self._inner.result()

    def value(self) -> T:
        """The result; an error is raised.

        Raises:
            UsageError: There is none yet.
        """
        if not self._inner.done():
            raise UsageError("this Future has no result yet; wait() for it")
        return self._inner.result()

    def then(self, callback: Callable[[Future[T]], S]) -> Future[S]:
        """The result of a function of this future, which is called when there is a result, or an error.

        Args:
            callback: The function.
        """
        made: Future[S] = Future()

        def called(_: Any) -> None:
            try:
                made.set_result(callback(self))
            except Exception as error:  # it is raised by whoever asks for the result
                made.set_exception(error)

        self._inner.add_done_callback(called)
        return made

    def add_done_callback(self, callback: Callable[[Future[T]], None]) -> None:
        """Call a function with this future when there is a result, or an error.

        Args:
            callback: The function; an error of it is logged.
        """
        self._inner.add_done_callback(lambda _: callback(self))

    def set_result(self, result: T) -> None:
        """Set the result.

        Raises:
            UsageError: There is one.
        """
        self._expect_none()
        self._inner.set_result(result)

    def set_exception(self, result: BaseException) -> None:
        """Set the error that `wait` raises.

        Raises:
            UsageError: There is a result.
        """
        self._expect_none()
        self._inner.set_exception(result)

    def _expect_none(self) -> None:
        if self._inner.done():
            raise UsageError("Future can only be set once; make another one for another result")


def collect_all(futures: list[Future[Any]]) -> Future[list[Future[Any]]]:
    """The futures themselves, once they are all done.

    Args:
        futures: The futures.
    """
    made: Future[list[Future[Any]]] = Future()
    left = [len(futures)]
    lock = threading.Lock()

    def one_is_done(_: Any) -> None:
        with lock:
            left[0] -= 1
            all_are = not left[0]
        if all_are:
            made.set_result(futures)

    if not futures:
        made.set_result(futures)
    for each in futures:
        each.add_done_callback(one_is_done)
    return made


def wait_all(futures: list[Future[Any]]) -> list[Any]:
    """The results of all futures, once they are done; the first error is raised.

    Args:
        futures: The futures.
    """
    return [each.wait() for each in collect_all(futures).wait()]


__all__ = ["Future", "collect_all", "wait_all"]
