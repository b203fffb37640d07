"""Collectives over arrays: each begins an exchange, whose result is a new array. A process alone exchanges nothing."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from jit.ir.errors import ShapeError

from .agreement import agree
from .exchanges import current_exchanges
from .groups import Team, group_named
from .library import mpi
from .reductions import check_reduction, operation, travelling
from .works import PROGRESS, Steps, Work


def _begin(group: Team, text: str, steps: Callable[[], Steps], into: Any = None) -> Work:
    def all_steps() -> Steps:
        if group.size > 1:
            yield from agree(group, text)
        return (yield from steps())

    def begin() -> Work:
        group.begun += 1
        where = f"{text} in the group {group.name!r} (its exchange {group.begun})"
        return PROGRESS.begin(Work(group, where, all_steps()))

    known = current_exchanges()
    return begin() if known is None else known.begin(f"{text} in the group {group.name!r}", begin, into)


def _described(name: str, array: Any, *facts: str) -> str:
    of = f"{array.dtype.name}{list(array.shape)}"
    return f"{name}({', '.join((of, *facts))})"


def _bytes(array: Any) -> Any:
    """The memory of a row-major array as bytes."""
    return array.reshape(-1, copy=False).view(np.uint8)


def all_reduce(array: Any, reduction: str, name: str, overwrite: bool = False) -> Work:
    """The elements of the arrays of all processes, reduced.

    Args:
        array: That of this process.
        reduction: One of REDUCTIONS.
        name: The name of the group.
        overwrite: Whether the result may overwrite the array; it does if its memory can travel.
    """
    group, sent = group_named(name), travelling(array)
    check_reduction(reduction, sent.dtype)

    def steps() -> Steps:
        found = sent if overwrite else np.array(sent, order="C")
        if group.size > 1:
            yield group.data.Iallreduce(mpi().IN_PLACE, found, operation(reduction, found.dtype.kind))
        if reduction == "avg":
            found /= group.size
        return found

    return _begin(group, _described("all_reduce", sent, reduction), steps, sent if overwrite else None)


def reduce(array: Any, reduction: str, dst: int, name: str) -> Work:
    """The same in the process number `dst` of the group, and zeros in the others.

    Args:
        array: The array of this process.
        reduction: One of REDUCTIONS.
        dst: The number of the process that gets the result.
        name: The name of the group.
    """
    group, sent = group_named(name), travelling(array)
    check_reduction(reduction, sent.dtype)

    def steps() -> Steps:
        found = np.array(sent, order="C") if group.rank == dst else np.zeros_like(sent)
        if group.size > 1:
            here = (mpi().IN_PLACE, found) if group.rank == dst else (sent, None)
            yield group.data.Ireduce(*here, operation(reduction, sent.dtype.kind), dst)
        if reduction == "avg":
            found /= group.size
        return found

    return _begin(group, _described("reduce", sent, reduction, f"dst={group.ranks[dst]}"), steps)


def broadcast(array: Any, src: int, name: str, overwrite: bool = False) -> Work:
    """The array of the process number `src` of the group.

    Args:
        array: That of this process, whose sizes and dtype count.
        src: The number of the process that sends.
        name: The name of the group.
        overwrite: Whether the result may overwrite the array; it does if its memory can travel.
    """
    group, sent = group_named(name), travelling(array)

    def steps() -> Steps:
        found = sent if overwrite else np.array(sent, order="C")
        if group.size > 1:
            yield group.data.Ibcast(_bytes(found), src)
        return found

    return _begin(group, _described("broadcast", sent, f"src={group.ranks[src]}"), steps, sent if overwrite else None)


def all_gather(array: Any, size: int, name: str) -> Work:
    """The arrays of all processes, joined along the first dim.

    Args:
        array: That of this process.
        size: The number of processes.
        name: The name of the group.
    """
    group, sent = group_named(name, size), travelling(array)

    def steps() -> Steps:
        found = np.empty((size, *sent.shape), sent.dtype)
        if size > 1:
            yield group.data.Iallgather(_bytes(sent), _bytes(found))
        else:
            found[0] = sent
        return found.reshape(joined_sizes(sent.shape, size))

    return _begin(group, _described("all_gather", sent), steps)


def joined_sizes(sizes: Sequence[int], count: int) -> tuple[int, ...]:
    """The sizes of as many tensors joined along the first dim; those without dims count as rows of one element."""
    return (count * sizes[0], *sizes[1:]) if sizes else (count,)


def reduce_scatter(array: Any, reduction: str, size: int, name: str) -> Work:
    """The part of this process of the arrays of all, reduced: one of `size` equal parts along the first dim.

    Args:
        array: The array of this process.
        reduction: One of REDUCTIONS.
        size: The number of processes.
        name: The name of the group.
    """
    group, sent = group_named(name, size), travelling(array)
    check_reduction(reduction, sent.dtype)

    def steps() -> Steps:
        found = np.array(sent, order="C") if size == 1 else np.empty(part_sizes(sent.shape, size), sent.dtype)
        if size > 1:
            yield group.data.Ireduce_scatter_block(sent, found, operation(reduction, sent.dtype.kind))
        if reduction == "avg":
            found /= size
        return found

    return _begin(group, _described("reduce_scatter", sent, reduction), steps)


def part_sizes(sizes: Sequence[int], count: int) -> tuple[int, ...]:
    """The sizes of one of `count` equal parts along the first dim.

    Raises:
        ShapeError: There are no equal parts.
    """
    if not sizes or sizes[0] % count:
        raise ShapeError(
            f"reduce_scatter: sizes {list(sizes)} have no {count} equal parts along the first dim; pad them"
        )
    return (sizes[0] // count, *sizes[1:])


def all_to_all(array: Any, received: Sequence[int], sent_rows: Sequence[int], name: str) -> Work:
    """Rows from all processes, after rows were sent to each.

    Args:
        array: The rows that are sent, one process's after the other's.
        received: The number of rows that come from each.
        sent_rows: The number of rows that go to each.
        name: The name of the group.
    """
    group, sent = group_named(name, len(received)), travelling(array)
    if len(sent_rows) != group.size or not sent.ndim or sum(sent_rows) != sent.shape[0]:
        raise ShapeError(
            f"all_to_all: {list(sent_rows)} rows for {group.size} processes do not make up sizes {list(sent.shape)}"
        )
    row = math.prod(sent.shape[1:]) * sent.itemsize

    def steps() -> Steps:
        if group.headers is not None and group.size > 1:
            yield from _agree_on_rows(group, received, sent_rows)
        found = np.empty((sum(received), *sent.shape[1:]), sent.dtype)
        if group.size == 1:
            found[...] = sent
            return found
        bytes_of = [[count * row for count in rows] for rows in (sent_rows, received)]
        yield group.data.Ialltoallv([_bytes(sent), bytes_of[0]], [_bytes(found), bytes_of[1]])
        return found

    return _begin(group, _described("all_to_all", sent[:0]), steps)


def _agree_on_rows(group: Team, received: Sequence[int], sent_rows: Sequence[int]) -> Steps:
    coming = np.empty(group.size, np.int64)
    yield group.headers.Ialltoall(np.array(sent_rows, np.int64), coming)
    wrong = [i for i, (told, expected) in enumerate(zip(coming, received)) if told != expected]
    own = ", ".join(f"{received[i]} rows from rank {group.ranks[i]}, which sends {coming[i]}" for i in wrong)
    yield from agree(
        group, f"all_to_all, in which rank {group.ranks[group.rank]} expects {own}" if wrong else "all_to_all"
    )
