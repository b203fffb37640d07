"""Replaces stand-ins for tensors and numbers by these themselves, wherever the function has kept them."""

from __future__ import annotations

import collections
import gc
from collections.abc import Callable, Sequence
from types import CellType, FrameType
from typing import Any

from jit.eager.tensors import Size

from .known_types import has_state
from .peeking import asked, is_a, slots_of, space_of

Swap = Callable[[Any], Any]
"""A function from an item of a container to the item that it shall hold, which is mostly the same."""


def replace_everywhere(pairs: Sequence[tuple[Any, Any]], but: Any) -> None:
    """Let everything that holds the first of a pair hold the second instead, except for the dict `but`.

    The heap is searched once for all pairs, not once for each, since that takes as long as the process is large. A
    tuple cannot change: another one is made, and is the second of a pair in the next search.
    """
    while pairs:
        swap = _swap_by_identity(pairs)
        known = tuple(old for old, _ in pairs)
        ours = {id(known), id(pairs), id(but), *map(id, pairs)}
        made = []
        for holder in gc.get_referrers(*known):
            if id(holder) in ours or is_a(holder, FrameType):
                continue
            if type(holder) in (tuple, Size):
                made.append((holder, type(holder)(map(swap, holder))))
            else:
                _put_in(holder, swap)
        pairs = made


def _swap_by_identity(pairs: Sequence[tuple[Any, Any]]) -> Swap:
    new_of = {id(old): new for old, new in pairs}
    return lambda value: new_of.get(id(value), value)


def _put_in(holder: Any, swap: Swap) -> None:
    """Swap what a container, a closure or an object of the user's holds."""
    if is_a(holder, dict):
        if any(swap(key) is not key for key in holder):
            items = [(swap(key), value) for key, value in holder.items()]
            holder.clear()
            holder.update(items)
        for key in [key for key, value in holder.items() if swap(value) is not value]:
            holder[key] = swap(holder[key])
    elif is_a(holder, (list, collections.deque)):
        for index in [index for index, item in enumerate(holder) if swap(item) is not item]:
            holder[index] = swap(holder[index])
    elif is_a(holder, set):
        for item in [item for item in holder if swap(item) is not item]:
            holder.discard(item)
            holder.add(swap(item))
    elif is_a(holder, CellType):
        if holder != CellType():
            holder.cell_contents = swap(holder.cell_contents)
    elif has_state(holder):
        for name in [*(space_of(holder) or ()), *slots_of(holder)]:
            value = asked(holder, name)
            if swap(value) is not value:
                setattr(holder, name, swap(value))
