"""Workers: processes that make batches for a `DataLoader`.

Note [How batches cross]
    Each worker has a pipe of its own, so no lock is shared, and one that dies takes nothing with it: the loader waits
    for the pipes and for the ends of the processes together. A thread of the worker takes in jobs as they come, so the
    loader never waits while it sends one. Batches are pickled; large arrays, those of tensors too, are put into memory
    that both processes see, which the loader gets together with the pickle.
"""

from __future__ import annotations

import queue
import random
import threading
import traceback
from collections.abc import Callable
from dataclasses import dataclass
from multiprocessing import connection, parent_process
from multiprocessing.connection import Connection
from typing import Any, NamedTuple

import numpy as np

from jit.eager.generators import manual_seed
from jit.eager.parallel import set_num_threads

from .crossing import send
from .fetch import Fetcher, fetcher_of


@dataclass
class WorkerInfo:
    """Facts about a worker, for the data set that it has a copy of."""

    id: int
    """The worker's number, from 0."""
    num_workers: int
    """The number of workers."""
    seed: int
    """The seed of its random numbers."""
    dataset: Any
    """The worker's copy of the data set."""


_worker_info: WorkerInfo | None = None


def get_worker_info() -> WorkerInfo | None:
    """The facts about the worker that asks; None in the main process."""
    return _worker_info


class Exhausted(NamedTuple):
    """The answer of a worker whose iterable data set has come to its end."""


class Started(NamedTuple):
    """The answer of a worker that has begun another pass."""


class Failure(NamedTuple):
    """An error of a worker, to be raised in the main process."""

    kind: type[BaseException]
    """The class of the error."""
    text: str
    """The traceback, as Python prints it."""
    place: str
    """The words for who raised it."""

    def reraise(self) -> None:
        """Raise an error of the same class, which tells what happened in the worker.

        Raises:
            RuntimeError: The class takes other arguments than a message.
        """
        message = f"Caught {self.kind.__name__} {self.place}.\nOriginal {self.text}"
        try:
            error = self.kind(_Message(message) if issubclass(self.kind, KeyError) else message)
        except Exception:
            raise RuntimeError(message) from None
        raise error


class _Message(str):
    """A text that a KeyError shows as it is."""

    def __repr__(self) -> str:
        return str(self)


def failure_of(error: BaseException, place: str) -> Failure:
    """An error with its traceback, in a form that crosses between processes."""
    return Failure(type(error), "".join(traceback.format_exception(error)), place)


class WorkerTask(NamedTuple):
    """The task of a worker, which it is made with."""

    dataset: Any
    """The data set."""
    batched: bool
    """Whether indices come in lists."""
    collate: Callable[[Any], Any]
    """The function that joins samples."""
    drop_last: bool
    """Whether a last batch that is too short is left out."""
    init: Callable[[int], None] | None
    """A function of the user's that is called first."""
    id: int
    """The worker's number."""
    num_workers: int
    """The number of workers."""


def _receive(pipe: Connection, jobs: queue.SimpleQueue[Any]) -> None:
    """Take in jobs until there are no more, or the main process has gone."""
    parent = parent_process()
    waiting: list[Any] = [pipe] if parent is None else [pipe, parent.sentinel]
    try:
        while pipe in connection.wait(waiting):
            job = pipe.recv()
            jobs.put(job)
            if job is None:
                return
    except (EOFError, OSError):
        pass
    jobs.put(None)


def _seed(seed: int) -> None:
    random.seed(seed)
    manual_seed(seed)
    np.random.seed(seed % 2**32)


def work(task: WorkerTask, seed: int, pipe: Connection) -> None:
    """The life of a worker: a pass begins with a seed, batches are asked for by indices, None is the end.

    Args:
        task: What it is made for.
        seed: The seed of the first pass.
        pipe: Where jobs come from, and where batches go.
    """
    global _worker_info
    set_num_threads(1)
    jobs: queue.SimpleQueue[Any] = queue.SimpleQueue()
    threading.Thread(target=_receive, args=(pipe, jobs), daemon=True).start()
    place = f"in DataLoader worker process {task.id}"
    _seed(seed + task.id)
    _worker_info = WorkerInfo(task.id, task.num_workers, seed + task.id, task.dataset)
    fetcher = _begin(task, place, task.init)
    try:
        while (job := jobs.get()) is not None:
            number, indices = job
            if number is None:  # another pass, with `indices` as its seed
                _seed(indices + task.id)
                _worker_info.seed = indices + task.id
                fetcher = _begin(task, place)
                _send(pipe, None, Started(), place)
            else:
                _send(pipe, number, _fetched(fetcher, indices, place), place)
    except (BrokenPipeError, ConnectionError, KeyboardInterrupt):
        pass  # the main process has gone, and needs nothing


def _begin(task: WorkerTask, place: str, init: Callable[[int], None] | None = None) -> Fetcher | Failure:
    """The maker of a pass's batches, made after the user's function has been called, if there is one."""
    try:
        if init is not None:
            init(task.id)
        return fetcher_of(task.dataset, task.batched, task.collate, task.drop_last)
    except Exception as error:
        return failure_of(error, place)


def _fetched(fetcher: Fetcher | Failure, indices: Any, place: str) -> Any:
    if isinstance(fetcher, Failure):
        return fetcher
    try:
        return fetcher.fetch(indices)
    except StopIteration:
        return Exhausted()
    except Exception as error:
        return failure_of(error, place)


def _send(pipe: Connection, number: int | None, batch: Any, place: str) -> None:
    """Send a batch, or the error for one that cannot be pickled."""
    try:
        send(pipe, (number, batch))
    except (BrokenPipeError, ConnectionError):
        raise
    except Exception as error:
        failure = failure_of(error, place)
        try:
            send(pipe, (number, failure))
        except Exception:  # its class cannot be pickled either
            send(pipe, (number, failure._replace(kind=RuntimeError)))
