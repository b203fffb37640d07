"""Collectives of objects, which travel as pickles: between processes that trust each other.

A traced function that calls one runs anew in every call.
"""

from __future__ import annotations

import pickle
from collections.abc import Sequence
from typing import Any

import numpy as np

from jit.eager import context
from jit.ir.errors import ShapeError
from jit.runtime.processes import collectives as engine
from jit.runtime.processes.groups import Team

from .collectives import place_of
from .groups import held_group


def _note() -> None:
    trace = context.TRACE.get()
    if trace is not None:
        trace.note_impure("sends objects to other processes")


def _pickled(obj: Any) -> Any:
    return np.frombuffer(pickle.dumps(obj), np.uint8)


def _exchanged(held: Team, sent: Sequence[Any]) -> list[Any]:
    """The bytes that come from each process.

    Args:
        held: The group.
        sent: The bytes for each, possibly none.
    """
    counts = np.array([len(each) for each in sent], np.int64)
    coming = engine.all_to_all(counts, [1] * held.size, [1] * held.size, held.name).wait()
    together = engine.all_to_all(np.concatenate(sent), coming.tolist(), counts.tolist(), held.name).wait()
    return np.split(together, np.cumsum(coming)[:-1])


_NONE = np.empty(0, np.uint8)


def all_gather_object(object_list: list[Any], obj: Any, group: Any = None) -> None:
    """Put the objects of all processes into a list.

    Args:
        object_list: A place for each process.
        obj: The object of this process.
        group: The processes; all of them unless given.

    Raises:
        ShapeError: There are more or fewer places than processes.
    """
    held = held_group(group)
    if held is None:
        return
    _note()
    _check_places("all_gather_object", object_list, held)
    object_list[:] = map(pickle.loads, _exchanged(held, [_pickled(obj)] * held.size))


def _check_places(name: str, places: Sequence[Any] | None, held: Team) -> None:
    if places is None or len(places) != held.size:
        raise ShapeError(f"{name}: there are {held.size} processes, so the list has as many places")


def gather_object(
    obj: Any, object_gather_list: list[Any] | None = None, dst: int | None = None, group: Any = None,
    group_dst: int | None = None,
) -> None:  # fmt: skip
    """Put the objects of all processes into a list in one of them.

    Args:
        obj: The object of this process.
        object_gather_list: A place for each process, where they are wanted; None in the other processes.
        dst: The rank of the process that gets them; 0 unless given.
        group: The processes; all of them unless given.
        group_dst: Its number in the group, instead of `dst`.
    """
    held = held_group(group)
    if held is None:
        return
    _note()
    place = _first_unless(held, dst, group_dst, "dst")
    if held.rank == place:
        _check_places("gather_object", object_gather_list, held)
    own = _pickled(obj)
    found = _exchanged(held, [own if i == place else _NONE for i in range(held.size)])
    if held.rank == place and object_gather_list is not None:
        object_gather_list[:] = map(pickle.loads, found)


def _first_unless(held: Team, rank: int | None, group_rank: int | None, what: str) -> int:
    return place_of(held, held.ranks[0] if rank is None and group_rank is None else rank, group_rank, what)


def broadcast_object_list(
    object_list: list[Any], src: int | None = None, group: Any = None, device: Any = None,
    group_src: int | None = None,
) -> None:  # fmt: skip
    """Put the objects of one process into the lists of all.

    Args:
        object_list: The objects, or places for as many.
        src: The rank of the process whose objects they are; 0 unless given.
        group: The processes; all of them unless given.
        device: Accepted and ignored.
        group_src: Its number in the group, instead of `src`.

    Raises:
        ShapeError: There are more or fewer places than objects.
    """
    held = held_group(group)
    if held is None:
        return
    _note()
    place = _first_unless(held, src, group_src, "src")
    own = _pickled(list(object_list)) if held.rank == place else _NONE
    objects = pickle.loads(_exchanged(held, [own] * held.size)[place])
    if len(objects) != len(object_list):
        raise ShapeError(f"broadcast_object_list: {len(objects)} objects come, and there are {len(object_list)} places")
    object_list[:] = objects


def scatter_object_list(
    scatter_object_output_list: list[Any], scatter_object_input_list: Sequence[Any] | None = None,
    src: int | None = None, group: Any = None, group_src: int | None = None,
) -> None:  # fmt: skip
    """Put an object for this process into a list, out of a list that one process has.

    Args:
        scatter_object_output_list: A list whose first place is filled.
        scatter_object_input_list: An object for each process, in the one that sends.
        src: The rank of the process that sends; 0 unless given.
        group: The processes; all of them unless given.
        group_src: Its number in the group, instead of `src`.
    """
    held = held_group(group)
    if held is None:
        return
    _note()
    place = _first_unless(held, src, group_src, "src")
    sent = [_NONE] * held.size
    if held.rank == place:
        _check_places("scatter_object_list", scatter_object_input_list, held)
        sent = [_pickled(obj) for obj in scatter_object_input_list or ()]
    scatter_object_output_list[0] = pickle.loads(_exchanged(held, sent)[place])


__all__ = [
    "all_gather_object", "broadcast_object_list", "gather_object", "scatter_object_list",
]  # fmt: skip
