"""Exchanges that write into tensors: at once, in the background, or as operators of a function that is recorded.

Note [Collectives write]
    PyTorch's collectives write their results into tensors that they are given. Where nobody records anything, a result
    is copied there when it has come, or has travelled from and to the tensor's own memory. In a traced function the
    operator of `jit.ops.collectives` runs, and its result is copied to the tensor by `copy_`, which the trace knows how
    to record; it is then there at once, so that `wait` has nothing to do. What is written has no history, as in
    PyTorch, with one exception: a tensor that has one and is overwritten by what comes of it, as `all_reduce` does,
    keeps a true one. `jit.distributed.nn.functional` has the collectives that are differentiated.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from datetime import timedelta
from typing import Any

import numpy as np

from jit.eager import context
from jit.eager.dispatch import check_writable
from jit.eager.effects import note_write
from jit.eager.tensors import Tensor
from jit.ir.errors import DTypeError, ShapeError
from jit.runtime.processes.works import PROGRESS
from jit.runtime.processes.works import Work as Exchange


class Work:
    """An exchange that `async_op=True` has begun.

    Args:
        exchange: What is under way; None if it is done.
        targets: The tensors into which it writes.
        finish: Writes a result into their arrays.
    """

    def __init__(
        self,
        exchange: Exchange | None = None,
        targets: Sequence[Tensor] = (),
        finish: Callable[[Any], None] | None = None,
    ) -> None:
        self._exchange, self._targets, self._finish = exchange, list(targets), finish

    def wait(self, timeout: timedelta | float | None = None) -> bool:
        """True, when the tensors hold the result.

        Args:
            timeout: The time, or the seconds, to wait at most; those of the group unless given.

        Raises:
            DistributedError: The exchange has failed, or takes longer.
        """
        if self._exchange is not None:
            limit = timeout.total_seconds() if isinstance(timeout, timedelta) else timeout
            found = self._exchange.wait(limit)
            self._exchange = None
            if self._finish is not None:
                self._finish(found)
        return True

    def is_completed(self) -> bool:
        """Whether the exchange is done; the tensors hold the result after `wait`."""
        if self._exchange is None:
            return True
        PROGRESS.advance()
        return self._exchange.is_done

    def is_success(self) -> bool:
        """Whether it is done and has not failed."""
        return self.is_completed() and self.exception() is None

    def exception(self) -> BaseException | None:
        """The error by which it has failed."""
        return None if self._exchange is None else self._exchange.error

    def result(self) -> list[Tensor]:
        """The tensors into which it writes."""
        self.wait()
        return self._targets

    def get_future(self) -> Any:
        """A Future of the tensors, which has them already: this waits."""
        from jit.futures import Future

        future: Any = Future()
        future.set_result(self.result())
        return future


def exchange(
    targets: Sequence[Tensor],
    operate: Callable[[], Tensor],
    begin: Callable[[], Exchange],
    split: Callable[[Any], Sequence[Any]],
    async_op: bool,
    tracked: bool = False,
) -> Work | None:
    """Let the results of a collective be written into tensors, see Note [Collectives write].

    Args:
        targets: The tensors.
        operate: Runs the operator.
        begin: Begins the exchange of arrays.
        split: Parts of a result, a tensor or an array, one for each tensor.
        async_op: Whether the caller waits later.
        tracked: Whether the targets keep a history.
    """
    if tracked or context.TRACE.get() is not None or any(not target.is_cpu for target in targets):
        with context.set_grad_enabled(tracked):
            for target, part in zip(targets, split(operate()), strict=True):
                target.copy_(part)
        return Work() if async_op else None
    with context.no_grad():
        for target in targets:
            check_writable(target, False)
            note_write(target)
    work = Work(begin(), targets, lambda found: _write(targets, split(found)))
    if not async_op:
        work.wait()
        return None
    PROGRESS.watch()
    return work


def _write(targets: Sequence[Tensor], parts: Sequence[Any]) -> None:
    for target, part in zip(targets, parts, strict=True):
        array = target._array
        if not np.may_share_memory(array, part):
            with np.errstate(all="ignore"):
                np.copyto(array, part, casting="unsafe")
        target._storage.written(skipped=0)


def check_alike(name: str, tensors: Sequence[Any], sizes: Sequence[int], dtype: Any) -> None:
    """Refuse tensors of other sizes or dtypes than these.

    Args:
        name: The collective.
        tensors: The tensors.
        sizes: The sizes that they have to have; any that have as many elements do.
        dtype: The dtype that they have to have.

    Raises:
        ShapeError: One has another number of elements.
        DTypeError: One has another dtype, or is no tensor.
    """
    for tensor in tensors:
        if not isinstance(tensor, Tensor) or tensor.dtype != dtype:
            what = tensor.dtype if isinstance(tensor, Tensor) else type(tensor).__name__
            raise DTypeError(f"{name}: all tensors have the dtype {dtype}, but one is {what}; cast it")
        if tuple(tensor.shape) != tuple(sizes):
            raise ShapeError(f"{name}: a tensor has sizes {list(tensor.shape)}, where {list(sizes)} are needed")


__all__ = ["Work", "check_alike", "exchange"]
