"""Messages: tensors that one process sends and another one receives.

A traced function that sends or receives runs anew in every call, since what belongs together happens in two processes.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from datetime import timedelta
from typing import Any

from jit.eager import context
from jit.eager.tensors import Tensor, tensor_of
from jit.ir.errors import DistributedError, UsageError
from jit.runtime.processes import messages as engine
from jit.runtime.processes.groups import Team
from jit.runtime.processes.works import PROGRESS
from jit.runtime.processes.works import Work as Exchange

from .collectives import check_tensor, place_of
from .groups import held_group
from .works import Work


class MessageWork(Work):
    """A message under way: `Work` that knows who has sent it."""

    _source: int | None = None

    def source_rank(self) -> int | None:
        """The rank of the process that has sent it, when it is there."""
        self.wait()
        return self._source


def _note() -> None:
    trace = context.TRACE.get()
    if trace is not None:
        trace.note_impure("sends a message to one other process, or receives one")


def isend(tensor: Any, dst: int | None = None, group: Any = None, tag: int = 0, group_dst: int | None = None) -> Any:
    """Begin to send a tensor to one process; what it holds now is sent.

    Args:
        tensor: The tensor.
        dst: The rank of the process that receives it.
        group: The processes among which both are; all of them unless given.
        tag: The number of the message, which the receiver asks for.
        group_dst: Its number in the group, instead of `dst`.
    """
    check_tensor("isend", tensor)
    held = held_group(group)
    if held is None:
        return None
    _note()
    place = place_of(held, dst, group_dst, "dst")
    _refuse_self(held, place, "send to")
    work = MessageWork(engine.send(_elements(tensor), place, tag, held), [tensor])
    PROGRESS.watch()
    return work


def _refuse_self(held: Team, place: int, what: str) -> None:
    if place == held.rank:
        raise UsageError(f"a process cannot {what} itself; use clone()")


def _elements(tensor: Tensor) -> Any:
    return tensor._array


def irecv(tensor: Any, src: int | None = None, group: Any = None, tag: int = 0, group_src: int | None = None) -> Any:
    """Begin to receive a tensor, which is there after `wait`.

    Args:
        tensor: The tensor to write to.
        src: The rank of the process that sends it; any of them unless given.
        group: The processes among which both are; all of them unless given.
        tag: The number of the message.
        group_src: Its number in the group, instead of `src`.
    """
    check_tensor("irecv", tensor)
    held = held_group(group)
    if held is None:
        return None
    _note()
    place = None if src is None and group_src is None else place_of(held, src, group_src, "src")
    if place is not None:
        _refuse_self(held, place, "receive from")
    message = MessageWork(engine.receive(_elements(tensor), place, tag, held), [tensor])

    def finish(found: Any) -> None:
        array, source = found
        with context.no_grad():
            tensor.copy_(tensor_of(array))
        message._source = held.ranks[source]

    message._finish = finish
    PROGRESS.watch()
    return message


def send(tensor: Any, dst: int | None = None, group: Any = None, tag: int = 0, group_dst: int | None = None) -> None:
    """Send a tensor to one process, and wait until it has left.

    Args:
        tensor: The tensor.
        dst: The rank of the process that receives it.
        group: The processes among which both are; all of them unless given.
        tag: The number of the message, which the receiver asks for.
        group_dst: Its number in the group, instead of `dst`.
    """
    work = isend(tensor, dst, group, tag, group_dst)
    if work is not None:
        work.wait()


def recv(tensor: Any, src: int | None = None, group: Any = None, tag: int = 0, group_src: int | None = None) -> int:
    """The rank of the process from which a tensor was received, -1 for a process that is not in the group.

    Args:
        tensor: The tensor to write to.
        src: The rank of the process that sends it; any of them unless given.
        group: The processes among which both are; all of them unless given.
        tag: The number of the message.
        group_src: Its number in the group, instead of `src`.
    """
    work = irecv(tensor, src, group, tag, group_src)
    if work is None:
        return -1
    assert isinstance(work, MessageWork)
    found = work.source_rank()
    assert found is not None
    return found


class P2POp:
    """A message to be sent or received by `batch_isend_irecv`.

    Args:
        op: `isend` or `irecv`.
        tensor: The tensor.
        peer: The rank of the other process.
        group: The processes among which both are; all of them unless given.
        tag: The number of the message.
        group_peer: The number of the other process in the group, instead of `peer`.

    Raises:
        UsageError: `op` is neither.
    """

    def __init__(
        self, op: Callable[..., Any], tensor: Any, peer: int | None = None, group: Any = None, tag: int = 0,
        group_peer: int | None = None,
    ) -> None:  # fmt: skip
        if op not in (isend, irecv):
            raise UsageError("P2POp: op is isend or irecv")
        self.op, self.tensor, self.peer, self.group, self.tag, self.group_peer = (
            op,
            tensor,
            peer,
            group,
            tag,
            group_peer,
        )


def batch_isend_irecv(p2p_op_list: Sequence[P2POp]) -> list[Any]:
    """Begin to send and receive several messages; a `Work` for each.

    Args:
        p2p_op_list: The messages.
    """
    return [each.op(each.tensor, each.peer, each.group, each.tag, each.group_peer) for each in p2p_op_list]


def monitored_barrier(
    group: Any = None, timeout: timedelta | float | None = None, wait_all_ranks: bool = False
) -> None:
    """Wait until all processes have come here; the error of one that has waited in vain names those that are missing.

    Args:
        group: The processes; all of them unless given.
        timeout: The time, or the seconds, to wait; that of the group unless given.
        wait_all_ranks: Whether to name all that are missing, not the first of them alone.

    Raises:
        DistributedError: Not all have come.
    """
    from jit.eager.creation import tensor

    held = held_group(group)
    if held is None:
        return
    _note()
    limit = timeout.total_seconds() if isinstance(timeout, timedelta) else timeout or held.timeout
    token = tensor(0)._array
    if held.rank:
        engine.send(token, 0, _TAG, held).wait(limit)
        engine.receive(token, 0, _TAG, held).wait(2 * limit)
        return
    arrivals = {i: engine.receive(token, i, _TAG, held) for i in range(1, held.size)}
    missing = _missing(arrivals, limit)
    if missing:
        named = missing if wait_all_ranks else missing[:1]
        raise DistributedError(
            f"monitored_barrier: rank{'s' * (len(named) > 1)} {', '.join(str(held.ranks[i]) for i in named)} did not "
            f"come to it within {limit:g} s"
        )
    for i in arrivals:
        engine.send(token, i, _TAG, held).wait(limit)


_TAG = 32766


def _missing(arrivals: dict[int, Exchange], limit: float) -> list[int]:
    """The processes that have not come when the time is over."""
    import time

    end = time.monotonic() + limit
    for work in arrivals.values():
        PROGRESS.finish(work, max(0.0, end - time.monotonic()))
    return [i for i, work in arrivals.items() if not work.is_done]


__all__ = ["MessageWork", "P2POp", "batch_isend_irecv", "irecv", "isend", "monitored_barrier", "recv", "send"]
