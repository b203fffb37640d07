"""Exchanges under way: those of a group happen in the order in which they began, and each is a few requests of MPI.

Note [Progress]
    An exchange is a generator: it starts a request that does not block, yields it, and goes on when MPI says that the
    request is done. Whoever waits advances all exchanges of the process, since another process may need one of them
    before it can go on; while exchanges are under way for which nobody waits, a thread does it, so that gradients
    travel while a backward computes. An exchange starts when the one before it in its group is done, so that all
    processes start those of a group in one order, which MPI asks for.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Generator, Sequence
from typing import Any, TypeAlias

from jit.ir.errors import DistributedError, Error

from .groups import Team

Steps: TypeAlias = Generator[Any, None, Any]
"""The requests of an exchange, in order; it returns the result."""

EAGER_POLLS = 200
"""The number of times that a waiting process asks MPI before it sleeps in between."""
LEAST_PAUSE, MOST_PAUSE = 20e-6, 1e-3
"""The seconds that it sleeps between two questions, at first and at last."""


class Work:
    """An exchange that has begun.

    Args:
        group: The group in which it happens.
        text: What it is, for errors.
        steps: Its requests.
        waits_for: The ranks without which it cannot end; those of the group unless given.
    """

    def __init__(self, group: Team, text: str, steps: Steps, waits_for: Sequence[int] | None = None) -> None:
        self.group, self.text = group, text
        self.waits_for = [rank for rank in (group.ranks if waits_for is None else waits_for) if rank != group.own_rank]
        self.is_done = False
        self.result: Any = None
        self.error: BaseException | None = None
        self._keeps, self._kept = False, None
        self._steps = steps
        self._request: Any = None

    def advance(self) -> bool:
        """Go on as far as MPI has come; whether it is done, or has failed.

        A step that yields None asks to be tried again later.
        """
        try:
            while not self.is_done and (self._request is None or self._request.Test()):
                self._request = next(self._steps)
                if self._request is None:
                    break
        except StopIteration as end:
            self._kept = end.value.copy() if self._keeps else None
            self.result, self.is_done = end.value, True
        except Error as error:
            self.error, self.is_done = error, True
        except Exception as error:
            self.error, self.is_done = DistributedError(f"{self.text} has failed: {error}"), True
            self.error.__cause__ = error
        return self.is_done

    def keep(self) -> None:
        """Keep a copy of the result, which its user may overwrite."""
        if self.is_done and not self._keeps and self.result is not None:
            self._kept = self.result.copy()
        self._keeps = True

    def again(self, into: Any = None) -> Work:
        """A work that is done, and has the same result or error, which were kept.

        Args:
            into: The array that the result overwrites; a new one unless given.
        """
        PROGRESS.finish(self, self.group.timeout)
        other = Work(self.group, self.text, self._steps)
        other.is_done, other.error, other.result = True, self.error, into
        if into is None and self._kept is not None:
            other.result = self._kept.copy()
        elif self._kept is not None:
            into[...] = self._kept
        return other

    def wait(self, timeout: float | None = None) -> Any:
        """The result, when it is there.

        Args:
            timeout: The seconds to wait at most; those of the group unless given.

        Raises:
            DistributedError: It has failed, or takes longer.
        """
        limit = self.group.timeout if timeout is None else timeout
        if not PROGRESS.finish(self, limit):
            raise DistributedError(_too_long(self, limit))
        if self.error is not None:
            raise self.error
        return self.result


def _too_long(work: Work, limit: float) -> str:
    who = f"rank {work.waits_for[0]}" if len(work.waits_for) == 1 else f"ranks {', '.join(map(str, work.waits_for))}"
    return (
        f"rank {work.group.own_rank} has waited {limit:g} s for {who} in {work.text}, which did not come to it; see "
        "that all processes call what belongs together, or give init_process_group() a longer timeout"
    )


class UnderWay:
    """All exchanges of this process that are under way."""

    def __init__(self) -> None:
        self._lock = threading.RLock()
        self._queues: dict[str, Team] = {}
        self._loose: list[Work] = []
        """Messages, which have no order among the others."""
        self._unwatched = threading.Event()
        """Whether there are exchanges for which nobody waits."""
        self._thread: threading.Thread | None = None

    def begin(self, work: Work, loose: bool = False) -> Work:
        """Let a work begin when those before it in its group are done.

        Args:
            work: The work.
            loose: Whether it begins at once.
        """
        with self._lock:
            if loose:
                self._loose.append(work)
            else:
                work.group.queue.append(work)
                self._queues[work.group.name] = work.group
            self.advance()
        return work

    def advance(self) -> bool:
        """Advance everything; whether nothing is left."""
        with self._lock:
            for group in list(self._queues.values()):
                while group.queue and group.queue[0].advance():
                    group.queue.popleft()
                if not group.queue:
                    del self._queues[group.name]
            self._loose = [work for work in self._loose if not work.advance()]
            return not (self._queues or self._loose)

    def finish(self, work: Work, limit: float) -> bool:
        """Advance everything until a work is done; False if that takes longer than `limit` seconds."""
        return self._until(lambda: work.is_done, limit)

    def drain(self, limit: float) -> bool:
        """Advance everything until nothing is left; False if that takes longer than `limit` seconds."""
        return self._until(lambda: not (self._queues or self._loose), limit)

    def _until(self, is_over: Callable[[], bool], limit: float) -> bool:
        end, polls, pause = time.monotonic() + limit, 0, LEAST_PAUSE
        while not is_over():
            self.advance()
            polls += 1
            if polls > EAGER_POLLS and not is_over():
                if time.monotonic() > end:
                    return False
                time.sleep(pause)
                pause = min(pause * 1.2, MOST_PAUSE)
        return True

    def watch(self) -> None:
        """Let the thread advance what is under way, since the caller goes on without it."""
        self._unwatched.set()
        if self._thread is None:
            self._thread = threading.Thread(target=self._run, name="jit exchanges", daemon=True)
            self._thread.start()

    def _run(self) -> None:
        while True:
            self._unwatched.wait()
            self._unwatched.clear()
            while not self.advance():
                time.sleep(5 * LEAST_PAUSE)


PROGRESS = UnderWay()
