"""`DataLoader`: batches of a data set, made here or in processes of its own."""

from __future__ import annotations

import itertools
import multiprocessing
import os
import time
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from multiprocessing import connection
from typing import Any, Generic, TypeVar

from jit.eager.generators import Generator
from jit.ir.errors import UsageError

from ._utils.collate import default_collate, default_convert
from ._utils.crossing import receive
from ._utils.fetch import fetcher_of
from ._utils.worker import Exhausted, Failure, Started, WorkerTask, get_worker_info, work
from .dataset import IterableDataset
from .sampler import BatchSampler, RandomSampler, Sampler, SequentialSampler, fresh_seed

T_co = TypeVar("T_co", covariant=True)
PATIENCE = 2.0
"""The seconds that a worker has to end by itself."""


class LoaderError(UsageError, ValueError):
    """The error for arguments of a `DataLoader` that do not go together."""


class _InfiniteConstantSampler(Sampler[None]):
    """The sampler of iterable data sets, which have no indices."""

    def __iter__(self) -> Iterator[None]:
        return itertools.repeat(None)


class DataLoader(Generic[T_co]):
    """Batches of a data set; each pass over the loader is one over the data set.

    Args:
        dataset: The data set, by index or iterable.
        batch_size: The number of samples in a batch; None for samples that are no batches, or are batches already.
        shuffle: Whether the order is another one in each pass.
        sampler: The order of the samples, instead of `shuffle`.
        batch_sampler: Lists of indices, one for each batch.
        num_workers: The number of processes that make the batches; 0 for this one.
        collate_fn: The function that makes a batch of a list of samples.
        pin_memory: Accepted and ignored: copies to a GPU take what they need from ordinary memory.
        drop_last: Whether a last batch that is too short is left out.
        timeout: The seconds after which waiting for a worker is an error; 0 for no limit.
        worker_init_fn: A function of the worker's number that each of them calls first.
        multiprocessing_context: The way to start processes: "fork", "spawn", "forkserver" or a context.
        generator: The source of the order and of the workers' seeds; the default one if left out.
        prefetch_factor: The number of batches that each worker makes ahead; 2 if left out.
        persistent_workers: Whether the workers stay for the next pass.
        pin_memory_device: Accepted and ignored.
        in_order: Whether batches come in the order of the sampler, and not as workers get ready.

    Raises:
        LoaderError: Arguments do not go together.

    >>> loader = DataLoader(range(5), batch_size=2)
    >>> len(loader), [batch.tolist() for batch in loader]
    (3, [[0, 1], [2, 3], [4]])
    """

    dataset: Any
    """The data set."""
    batch_size: int | None
    """The number of samples in a batch."""
    num_workers: int
    """The number of processes."""
    sampler: Any
    """The order of the samples."""
    __initialized = False

    def __init__(
        self, dataset: Any, batch_size: int | None = 1, shuffle: bool | None = None,
        sampler: Iterable[Any] | None = None, batch_sampler: Iterable[Any] | None = None, num_workers: int = 0,
        collate_fn: Callable[[Any], Any] | None = None, pin_memory: bool = False, drop_last: bool = False,
        timeout: float = 0, worker_init_fn: Callable[[int], None] | None = None, multiprocessing_context: Any = None,
        generator: Generator | None = None, *, prefetch_factor: int | None = None, persistent_workers: bool = False,
        pin_memory_device: str = "", in_order: bool = True,
    ) -> None:  # fmt: skip
        _check_workers(num_workers, timeout, prefetch_factor, persistent_workers)
        self.dataset = dataset
        self.num_workers = num_workers
        self.prefetch_factor = 2 if prefetch_factor is None and num_workers else prefetch_factor
        self.pin_memory = pin_memory
        self.pin_memory_device = pin_memory_device
        self.timeout = timeout
        self.worker_init_fn = worker_init_fn
        self.multiprocessing_context = multiprocessing_context
        self.generator = generator
        self.persistent_workers = persistent_workers
        self.in_order = in_order
        self._iterable = isinstance(dataset, IterableDataset)
        self._check_order(batch_size, shuffle, sampler, batch_sampler, drop_last)
        if batch_sampler is not None:
            batch_size, drop_last = None, False
        self.batch_size, self.drop_last = batch_size, drop_last
        self.sampler = self._sampler(shuffle) if sampler is None else sampler
        if batch_sampler is None and batch_size is not None:
            batch_sampler = BatchSampler(self.sampler, batch_size, drop_last)
        self.batch_sampler = batch_sampler
        self.collate_fn = collate_fn or (default_convert if batch_sampler is None else default_collate)
        self._kept: _WorkersIter | None = None
        self.__initialized = True

    def _check_order(self, batch_size: Any, shuffle: Any, sampler: Any, batch_sampler: Any, drop_last: Any) -> None:
        """Refuse (LoaderError) two ways to say in which order samples come."""
        if self._iterable and (shuffle not in (False, None) or sampler is not None or batch_sampler is not None):
            given = "shuffle" if shuffle else "sampler" if sampler is not None else "batch_sampler"
            raise LoaderError(
                f"DataLoader with IterableDataset: expected unspecified {given} option; let the data set itself "
                "choose the order"
            )
        if sampler is not None and shuffle:
            raise LoaderError("sampler option is mutually exclusive with shuffle")
        if batch_sampler is not None and (batch_size != 1 or shuffle or sampler is not None or drop_last):
            raise LoaderError(
                "batch_sampler option is mutually exclusive with batch_size, shuffle, sampler, and drop_last"
            )
        if batch_sampler is None and batch_size is None and drop_last:
            raise LoaderError("batch_size=None option disables auto-batching and is mutually exclusive with drop_last")

    def _sampler(self, shuffle: bool | None) -> Sampler[Any]:
        if self._iterable:
            return _InfiniteConstantSampler()
        return RandomSampler(self.dataset, generator=self.generator) if shuffle else SequentialSampler(self.dataset)

    @property
    def _auto_collation(self) -> bool:
        return self.batch_sampler is not None

    @property
    def _index_sampler(self) -> Iterable[Any]:
        return self.sampler if self.batch_sampler is None else self.batch_sampler

    @property
    def multiprocessing_context(self) -> Any:
        """The context that starts the processes; None for the default one."""
        return self._context

    @multiprocessing_context.setter
    def multiprocessing_context(self, value: Any) -> None:
        if value is not None and not self.num_workers:
            raise LoaderError("multiprocessing_context can only be used with multi-process loading (num_workers > 0)")
        if isinstance(value, str):
            if value not in multiprocessing.get_all_start_methods():
                known = multiprocessing.get_all_start_methods()
                raise LoaderError(f"multiprocessing_context is {value!r}; choose one of {known}")
            value = multiprocessing.get_context(value)
        self._context = value

    def __setattr__(self, name: str, value: Any) -> None:
        if self.__initialized and name in ("batch_size", "batch_sampler", "sampler", "drop_last", "dataset"):
            raise LoaderError(f"{name} attribute should not be set after {type(self).__name__} is initialized")
        super().__setattr__(name, value)

    def __iter__(self) -> Iterator[Any]:
        if not self.num_workers:
            return _SingleProcessDataLoaderIter(self)
        if not self.persistent_workers:
            return _WorkersIter(self)
        if self._kept is None or self._kept.closed:
            self._kept = _WorkersIter(self)
        else:
            self._kept.restart()
        return self._kept

    def __len__(self) -> int:
        if not self._iterable:
            return len(self._index_sampler)  # type: ignore[arg-type]
        count = len(self.dataset)
        if self.batch_size is None:
            return count
        return count // self.batch_size if self.drop_last else -(-count // self.batch_size)

    def __getstate__(self) -> dict[str, Any]:
        return {**self.__dict__, "_kept": None}


def _check_workers(num_workers: int, timeout: float, prefetch_factor: int | None, persistent: bool) -> None:
    """Refuse (LoaderError) what is said about workers and does not go together."""
    if num_workers < 0:
        raise LoaderError("num_workers option should be non-negative; use num_workers=0 to disable multiprocessing.")
    if timeout < 0:
        raise LoaderError("timeout option should be non-negative")
    if num_workers == 0 and prefetch_factor is not None:
        raise LoaderError(
            "prefetch_factor option could only be specified in multiprocessing; set num_workers > 0 to enable it"
        )
    if prefetch_factor is not None and prefetch_factor < 1:
        raise LoaderError("prefetch_factor option should be positive")
    if persistent and num_workers == 0:
        raise LoaderError("persistent_workers option needs num_workers > 0")


class _BaseDataLoaderIter:
    """One pass over a loader.

    Args:
        loader: The loader.
    """

    def __init__(self, loader: DataLoader[Any]) -> None:
        self._loader = loader
        self._indices = iter(loader._index_sampler)
        self._base_seed = fresh_seed(loader.generator)

    def __iter__(self) -> Iterator[Any]:
        return self

    def __len__(self) -> int:
        return len(self._loader._index_sampler)  # type: ignore[arg-type]

    def __next__(self) -> Any:
        raise NotImplementedError


class _SingleProcessDataLoaderIter(_BaseDataLoaderIter):
    """A pass whose batches are made here."""

    def __init__(self, loader: DataLoader[Any]) -> None:
        super().__init__(loader)
        self._fetcher = fetcher_of(loader.dataset, loader._auto_collation, loader.collate_fn, loader.drop_last)

    def __next__(self) -> Any:
        return self._fetcher.fetch(next(self._indices))


class _WorkersIter(_BaseDataLoaderIter):
    """A pass whose batches are made by workers; see Note [How batches cross]."""

    closed = False
    """Whether the workers have gone."""

    def __init__(self, loader: DataLoader[Any]) -> None:
        super().__init__(loader)
        self._process_id = os.getpid()
        self._processes: list[Any] = []
        self._pipes: list[connection.Connection] = []
        context = loader.multiprocessing_context or multiprocessing
        for number in range(loader.num_workers):
            task = WorkerTask(
                loader.dataset, loader._auto_collation, loader.collate_fn, loader.drop_last, loader.worker_init_fn,
                number, loader.num_workers,
            )  # fmt: skip
            ours, theirs = context.Pipe()
            process = context.Process(target=work, args=(task, self._base_seed, theirs), daemon=True)
            process.start()
            theirs.close()
            self._processes.append(process)
            self._pipes.append(ours)
        self._begin()

    def _begin(self) -> None:
        """Give every worker what it can make ahead."""
        self._sent = self._taken = 0
        self._arrived: dict[int, Any] = {}
        self._owner: dict[int, int] = {}
        """The worker of each batch that is under way."""
        self._active = deque(range(len(self._processes)))
        """The workers that have something left, the next one first."""
        for _ in range((self._loader.prefetch_factor or 1) * len(self._processes)):
            self._ask()

    def restart(self) -> None:
        """Begin another pass with the same workers."""
        self._indices = iter(self._loader._index_sampler)
        self._base_seed = fresh_seed(self._loader.generator)
        for pipe in self._pipes:
            pipe.send((None, self._base_seed))
        waiting = set(range(len(self._pipes)))
        while waiting:  # what was under way is not wanted any more
            _, batch, worker = self._receive()
            if isinstance(batch, Started):
                waiting.remove(worker)
        self._begin()

    def _ask(self) -> None:
        """Let the next worker make the next batch."""
        if not self._active:
            return
        indices = next(self._indices, _NOTHING)
        if indices is _NOTHING:
            return
        worker = self._active[0]
        self._active.rotate(-1)
        self._owner[self._sent] = worker
        try:
            self._pipes[worker].send((self._sent, indices))
        except (BrokenPipeError, ConnectionError):
            self._raise_dead()
        self._sent += 1

    def __next__(self) -> Any:
        while self._owner or self._arrived:
            number = self._ready()
            if number is None:
                number, batch, _ = self._receive()
                self._arrived[number] = batch
                continue
            batch = self._arrived.pop(number)
            worker = self._owner.pop(number)
            if isinstance(batch, Exhausted):
                if worker in self._active:
                    self._active.remove(worker)
                continue
            self._ask()
            if isinstance(batch, Failure):
                batch.reraise()
            return batch
        if not self._loader.persistent_workers:
            self.close()
        raise StopIteration

    def _ready(self) -> int | None:
        """The number of the batch that is to be returned now, if it is there."""
        first = next(iter(self._owner))
        if first in self._arrived:
            return first
        return None if self._loader.in_order or not self._arrived else next(iter(self._arrived))

    def _receive(self) -> tuple[Any, Any, int]:
        """The next arrival: the number of a batch, the batch, and the worker.

        Raises:
            RuntimeError: A worker has died, or nothing has come in time.
        """
        ends = [process.sentinel for process in self._processes]
        ready = connection.wait([*self._pipes, *ends], self._loader.timeout or None)
        if not ready:
            self.close()
            raise RuntimeError(f"DataLoader timed out after {self._loader.timeout} seconds")
        for worker, pipe in enumerate(self._pipes):
            if pipe in ready:
                try:
                    return (*receive(pipe), worker)
                except (EOFError, ConnectionError):
                    self._raise_dead()
        return self._raise_dead()

    def _raise_dead(self) -> Any:
        for process in self._processes:
            process.join(0.1)
        dead = [process for process in self._processes if process.exitcode is not None]
        named = ", ".join(f"{process.pid} (exit code {process.exitcode})" for process in dead)
        self.close()
        raise RuntimeError(f"DataLoader worker (pid(s) {named}) exited unexpectedly")

    def close(self) -> None:
        """Let the workers end, and end those that do not."""
        if self.closed or self._process_id != os.getpid():  # a forked process has a copy, and no say
            return
        self.closed = True
        for pipe in self._pipes:
            try:
                pipe.send(None)
            except (OSError, ValueError):
                continue  # it has gone
            finally:
                pipe.close()
        until = time.monotonic() + PATIENCE
        for process in self._processes:
            process.join(max(until - time.monotonic(), 0))
            if process.is_alive():
                process.kill()

    def __del__(self) -> None:
        if hasattr(self, "_pipes"):
            self.close()


_NOTHING = object()
_MultiProcessingDataLoaderIter = _WorkersIter

__all__ = ["DataLoader", "default_collate", "default_convert", "get_worker_info"]
