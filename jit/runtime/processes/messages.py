"""Messages from one process to another: what is sent has to be received, with as many bytes."""

from __future__ import annotations

from typing import Any

import numpy as np

from jit.ir.errors import DistributedError

from .groups import Team
from .library import mpi
from .reductions import travelling
from .works import PROGRESS, Steps, Work


def _bytes(array: Any) -> Any:
    return array.reshape(-1, copy=False).view(np.uint8)


def send(array: Any, dst: int, tag: int, group: Team) -> Work:
    """Send a copy of an array; the work is done when it has left.

    Args:
        array: The array.
        dst: The number of the receiving process in the group.
        tag: The number of the message, which the receiver asks for.
        group: The group.
    """
    sent = np.array(travelling(array))

    def steps() -> Steps:
        yield group.data.Isend(_bytes(sent), dst, tag)

    text = f"send({sent.dtype.name}{list(sent.shape)}, dst={group.ranks[dst]}, tag={tag})"
    return PROGRESS.begin(Work(group, text, steps(), [group.ranks[dst]]), loose=True)


def receive(like: Any, src: int | None, tag: int, group: Team) -> Work:
    """The elements of a message, and the number of the process that has sent it.

    Args:
        like: An array of the sizes and the dtype that are expected.
        src: The number of the sending process in the group; any of them if None.
        tag: The number of the message.
        group: The group.
    """
    found = np.array(travelling(like))
    who = "any" if src is None else group.ranks[src]
    text = f"recv({found.dtype.name}{list(found.shape)}, src={who}, tag={tag})"

    def steps() -> Steps:
        message, status = mpi().Message, mpi().Status()
        source = mpi().ANY_SOURCE if src is None else src
        while (matched := message.Iprobe(group.data, source, tag, status)) is None:
            yield None
        size = status.Get_count(mpi().BYTE)
        if size != found.nbytes:
            yield matched.Irecv(np.empty(size, np.uint8))
            raise DistributedError(
                f"{text}: rank {group.ranks[status.Get_source()]} has sent {size} bytes, where {found.nbytes} are "
                "expected; send and receive tensors of the same sizes and dtype"
            )
        yield matched.Irecv(_bytes(found))
        return found, status.Get_source()

    waits_for = [rank for rank in group.ranks if rank == who or who == "any"]
    return PROGRESS.begin(Work(group, text, steps(), waits_for), loose=True)
