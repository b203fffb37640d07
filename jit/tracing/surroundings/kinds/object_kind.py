"""Kinds of objects: what a fingerprint says of one, and which places are behind it.

Note [Kinds of objects]
    A kind of Python object that can be watched is one class, listed in jit.tracing.surroundings.kinds.known. It says

        types             whose objects these are; the first kind in the list that fits counts
        look              what the fingerprint says of one object, after noting what may change of it
        below             the places behind it
        names_looked_up   the attributes that it looks up in other objects when it is called
        attributes        whether what users attach to such objects is behind them, too

    The defaults hold for any object: it stands for itself, and if code can reach its attributes, their number, the dict
    in which they are kept, and which of the objects met so far it is, belong to the fingerprint.
"""

from __future__ import annotations

import functools
import os
import types
from collections.abc import Iterator
from typing import Any, ClassVar, Literal

from jit.eager.networks import TELLING, initial_state

from ..facts import Fact
from ..footprints import Footprint, reading
from ..known_types import SETTLED, has_state
from ..observations import Observations
from ..origins import is_foreign_class
from ..peeking import asked, is_a, keys_of, space_of
from ..places import Child, ClassOf, SharedHooks, SlotOf, TableEntryOf, WrappedBy, entry_of, reference_to

TABLES = ("_parameters", "_buffers", "_modules")
"""The tables in which network modules keep what is in their state dict."""
Line = tuple[Any, ...]
"""A line of a fingerprint, about one object: its name, and what must be as it was."""


class Same:
    """An object in a fingerprint that stands for itself alone."""

    __slots__ = ("value",)

    def __init__(self, value: Any) -> None:
        self.value = value

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Same) and other.value is self.value

    def __hash__(self) -> int:
        return id(self.value)

    def __repr__(self) -> str:
        return asked(self.value, "__name__") or object.__repr__(self.value)


class ObjectKind:
    """The kind of any object, and the base of the kinds of which more is known; see Note [Kinds of objects]."""

    called: ClassVar[str] = "an object"
    """Words for an object of this kind."""
    types: ClassVar[tuple[Any, ...]] = ()
    attributes: ClassVar[Literal["always", "of subclasses", "never"]] = "always"
    """Whether attributes are behind an object besides what `below` says."""

    def includes(self, kind: type) -> bool:
        """Whether objects of a class are of this kind."""
        return issubclass(kind, self.types or object)

    def look(self, seen: Observations, name: str, value: Any) -> Line:
        """The line of the fingerprint for an object.

        Args:
            seen: The observations, in which changes inside the object are noted that leave the same object in place.
            name: What the place is called.
            value: The object.
        """
        fact = self.fact_about(value)
        answer = None if fact is None else seen.note_fact(name, fact)
        space = space_of(value) if has_state(value) else None
        if space is None:
            return (name, Same(value), answer)
        tables: list[Any] = [table for t in TABLES if is_a(table := dict.get(space, t), dict)]
        for table in tables:
            seen.note_order(name, table)
        seen.note_size(name, space)
        seen.note_space(name, value, space)
        kind: Any = type(value)
        itself = (Same(value),) if _has_value(kind) else ()
        number = seen.note_object(value)  # two places may hold one object, or two that are alike
        return (name, Same(kind), number, tuple(map(len, (space, *tables))), answer, *itself)

    def fact_about(self, value: Any) -> Fact | None:
        """The state of an object that stands in none of its attributes."""
        return None

    def below(self, prefix: str, value: Any, footprint: Footprint) -> Iterator[Child]:
        """The places behind an object.

        Args:
            prefix: What their names begin with.
            value: The object.
            footprint: The code that has run.
        """
        return iter(())

    def names_looked_up(self, value: Any) -> frozenset[str]:
        """The names of the attributes that an object looks up in others when it is called."""
        return frozenset()

    def has_attributes(self, kind: type) -> bool:
        """Whether attributes are behind objects of a class besides what `below` says."""
        return self.attributes == "always" or (self.attributes == "of subclasses" and kind not in self.types)


@functools.lru_cache(4096)
def _has_value(kind: Any) -> bool:
    """Whether objects of a class have, besides attributes, a value that never changes: dates, decimal numbers."""
    return any(base in SETTLED and base is not os.PathLike for base in kind.__mro__)


# -- attributes --------------------------------------------------------------------------------------------------


def wrapped_by(prefix: str, value: Any) -> Iterator[Child]:
    """The function inside a decorated one."""
    if "__wrapped__" in (space_of(value) or ()):
        yield f"{prefix}wrapped", WrappedBy(value), None


def attributes_below(prefix: str, value: Any) -> Iterator[Child]:
    """Attributes of a plain object; of a network module by their state-dict paths; then what its class holds."""
    if not has_state(value):
        yield from _of_log(prefix, value)
        return
    space = space_of(value)
    if space is not None:
        yield from _in_dict(prefix, value, space)
    kind: Any = type(value)
    for key, descriptor in _slot_descriptors(kind):
        yield f"{prefix}{key}", SlotOf(reference_to(value), descriptor), key
    yield f"{prefix}__class__", ClassOf(reference_to(value)), None


def _in_dict(prefix: str, value: Any, space: dict[str, Any]) -> Iterator[Child]:
    tables = [t for t in TABLES if is_a(dict.get(space, t), dict)]
    for table in tables:
        for key in keys_of(dict.get(space, table)):
            yield f"{prefix}{key}", TableEntryOf(space, table, key), None
    if "_modules" in tables:
        yield f"{prefix}hooks of all modules", SharedHooks(), None
    always = _keys_of_modules() if "_modules" in tables else ()
    all_count = type(value).__module__.startswith("jit.") or is_a(value, types.SimpleNamespace)
    kind: Any = type(value)
    tells = "_modules" in tables and _tells_what_is_set(kind)
    for key in keys_of(space):
        if key not in tables and key != "__wrapped__":
            counts = (all_count or key in always) and not (isinstance(key, str) and key.startswith("__"))
            named = reading(key) if tells and isinstance(key, str) else key
            yield f"{prefix}{key}", entry_of(space, key), None if counts else named


@functools.lru_cache(4096)
def _tells_what_is_set(kind: Any) -> bool:
    """Whether networks of a class tell the recorder of attributes that are set, and are read like any object."""
    return kind.__setattr__ in TELLING and kind.__getattribute__ is object.__getattribute__


_MACHINERY = frozenset({"_cache", "parent", "manager", "lock", "stream", "filters", "handlers", "root"})


def _of_log(prefix: str, value: Any) -> Iterator[Child]:
    """The attributes of loggers, handlers and formatters that code can ask for, besides what makes them work."""
    if type(value).__module__ == "logging" and not is_a(value, type):
        for key in list(space_of(value) or ()):
            if key not in _MACHINERY:
                yield f"{prefix}{key}", entry_of(vars(value), key), key


@functools.cache
def _keys_of_modules() -> frozenset[str]:
    """The attributes that every network module has."""
    return frozenset(initial_state())


@functools.lru_cache(4096)
def _slot_descriptors(kind: Any) -> tuple[tuple[str, Any], ...]:
    """The slots of classes of the user's, with what reads them."""
    pairs = [(key, d) for base in kind.__mro__ if not is_foreign_class(base) or "__slots__" in vars(base)
             for key, d in vars(base).items() if isinstance(d, types.MemberDescriptorType)]  # fmt: skip
    return tuple((key, d) for key, d in pairs if not key.startswith("__"))


__all__ = ["TABLES", "Line", "ObjectKind", "Same", "attributes_below", "wrapped_by"]
