"""Containers: lists, tuples, deques, dicts and sets, and classes derived from them."""

from __future__ import annotations

import collections
import sys
from collections.abc import Iterator
from typing import Any

from jit.eager.hooks import HookTable
from jit.eager.tensors import Tensor
from jit.ir.scalars import exactly, plain_value

from ..facts import ElementsOf, LengthOf
from ..footprints import Footprint
from ..known_types import PLAIN
from ..observations import Observations
from ..peeking import EXACT, is_a, keys_of, length_of, space_of
from ..places import AttributeOf, Child, EntryOf, HiddenEntryOf, ItemOf, Itself, entry_of
from .object_kind import Line, ObjectKind, Same


class Sequences(ObjectKind):
    """Lists, tuples and deques: their length is watched, and every item."""

    called = "a list, a tuple or a deque"
    types = (list, tuple, collections.deque)
    attributes = "of subclasses"

    def look(self, seen: Observations, name: str, value: Any) -> Line:
        kind = type(value)
        if kind in EXACT:
            seen.note_size(name, value)
            return (name, kind.__name__, len(value))
        return (name, kind.__name__, seen.note_fact(name, LengthOf(value)), *_carried(seen, name, value))

    def below(self, prefix: str, value: Any, footprint: Footprint) -> Iterator[Child]:
        for index in range(length_of(value)):
            yield f"{prefix}{index}", ItemOf(value, index), None


class Dicts(ObjectKind):
    """Dicts: the order of their keys is watched, and every value."""

    called = "a dict"
    types = (dict, collections.OrderedDict, collections.defaultdict, HookTable)
    attributes = "of subclasses"

    def look(self, seen: Observations, name: str, value: Any) -> Line:
        kind = type(value)
        if value is sys.modules:
            return ObjectKind.look(self, seen, name, value)
        if kind in EXACT and not value:
            seen.note_size(name, value)
        else:
            seen.note_order(name, value)
        return (name, kind.__name__, length_of(value), *_kinds_of_keys(value), *_carried(seen, name, value))

    def below(self, prefix: str, value: Any, footprint: Footprint) -> Iterator[Child]:
        if value is sys.modules:
            return
        for number, key in enumerate(keys_of(value)):
            yield f"{prefix}{_label(key, number)}", _entry_of(value, key), None
            if not is_a(key, (*PLAIN, Tensor)) and not _is_plain_tuple(key):
                yield f"{prefix}key {number}", Itself(key), None
        if is_a(value, collections.defaultdict):
            yield f"{prefix}default_factory", AttributeOf(value, "default_factory"), None


def _kinds_of_keys(container: Any) -> tuple[Same, ...]:
    """The classes of a dict's keys, which their labels do not tell; none if all keys are strings."""
    kinds = [type(key) for key in keys_of(container)]
    return () if all(kind is str for kind in kinds) else tuple(map(Same, kinds))


def _label(key: Any, number: int) -> str:
    return str(plain_value(key) if issubclass(type(key), PLAIN) else number)


def _is_plain_tuple(key: Any) -> bool:
    return type(key) is tuple and all(type(part) in PLAIN for part in key)


def _entry_of(space: Any, key: Any) -> EntryOf | HiddenEntryOf:
    return entry_of(space, key) if type(space).get is dict.get else HiddenEntryOf(space, key)


class Sets(ObjectKind):
    """Sets: their elements are watched, in their order."""

    called = "a set"
    types = (set, frozenset)
    attributes = "of subclasses"

    def look(self, seen: Observations, name: str, value: Any) -> Line:
        kind = type(value)
        if kind in EXACT and not value:
            seen.note_size(name, value)
        else:
            seen.note_fact(name, ElementsOf(value))
        return (name, kind.__name__, tuple(map(_element, keys_of(value))), *_carried(seen, name, value))

    def below(self, prefix: str, value: Any, footprint: Footprint) -> Iterator[Child]:
        for number, thing in enumerate(keys_of(value)):
            if not is_a(thing, (*PLAIN, Tensor)):
                yield f"{prefix}{number}", Itself(thing), None


def _element(value: Any) -> Any:
    kind = type(value)
    return (kind.__name__, exactly(plain_value(value))[1]) if issubclass(kind, PLAIN) else Same(value)


def _carried(seen: Observations, name: str, container: Any) -> tuple[Any, ...]:
    """The number of attributes that an object of a class derived from a container's has."""
    space = None if type(container) in EXACT else space_of(container)
    if space is None:
        return ()
    seen.note_size(name, space)
    return (len(space), Same(type(container)))


__all__ = ["Dicts", "Sequences", "Sets"]
