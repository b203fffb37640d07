"""Values that cross from one process to another: large arrays among them by shared memory, if the system lends some."""

from __future__ import annotations

import mmap
import os
import pickle
import socket
from collections.abc import Sequence
from multiprocessing import reduction
from multiprocessing.connection import Connection
from typing import Any

LARGE = 1 << 18
"""The bytes from which arrays are shared, which then takes less time than to send them."""
ALIGNMENT = 64


def send(pipe: Connection, value: Any) -> None:
    """Send a value.

    Args:
        pipe: An end of a pipe.
        value: Anything that can be pickled.
    """
    buffers: list[pickle.PickleBuffer] = []
    text = pickle.dumps(value, 5, buffer_callback=buffers.append)
    parts = [buffer.raw() for buffer in buffers]
    if not hasattr(os, "memfd_create") or sum(part.nbytes for part in parts) < LARGE:
        pipe.send((text, [bytearray(part) for part in parts], None))
        return
    pipe.send((text, [], [part.nbytes for part in parts]))
    memory = os.memfd_create("jit-batch")
    try:
        _write(memory, parts)
        with socket.socket(fileno=os.dup(pipe.fileno())) as channel:
            reduction.sendfds(channel, [memory])
    finally:
        os.close(memory)


def _write(memory: int, parts: Sequence[memoryview]) -> None:
    offsets, total = _layout([part.nbytes for part in parts])
    os.ftruncate(memory, total)
    for offset, part in zip(offsets, parts, strict=True):
        while part.nbytes:  # the system may take less than all of it
            written = os.pwrite(memory, part, offset)
            part, offset = part[written:], offset + written


def _layout(sizes: Sequence[int]) -> tuple[list[int], int]:
    """The offsets of parts of these sizes, and the room that they take together."""
    offsets, total = [], 0
    for size in sizes:
        offsets.append(total)
        total += -(-size // ALIGNMENT) * ALIGNMENT
    return offsets, total


def receive(pipe: Connection) -> Any:
    """The value that arrives next; EOFError if the other end has gone."""
    text, parts, sizes = pipe.recv()
    return pickle.loads(text, buffers=parts if sizes is None else _shared(pipe, sizes))


def _shared(pipe: Connection, sizes: Sequence[int]) -> list[memoryview]:
    with socket.socket(fileno=os.dup(pipe.fileno())) as channel:
        (memory,) = reduction.recvfds(channel, 1)
    offsets, total = _layout(sizes)
    try:
        whole = memoryview(mmap.mmap(memory, total))
    finally:
        os.close(memory)
    return [whole[offset : offset + size] for offset, size in zip(offsets, sizes, strict=True)]
