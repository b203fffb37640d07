"""Objects that lead to others, or whose state is in no attribute: references, views, locks, loggers, errors."""

from __future__ import annotations

import collections
import contextvars
import functools
import gc
import os
import sys
import threading
import types
import weakref
from collections.abc import Iterator
from typing import Any

from ..descriptions import said_by_cell
from ..facts import LOCKS, Environment, Fact, HeldBy, IsAlive, LevelsOf, NamesOf, Setting, SettingNow
from ..footprints import Footprint
from ..known_types import PLAIN, Watched
from ..observations import Observations
from ..peeking import is_a, names_in
from ..places import AttributeOf, Child, Itself, Referent, TargetOf, ValueOf
from .object_kind import Line, ObjectKind, Same, attributes_below


class References(ObjectKind):
    """Weak references."""

    called = "a weak reference"
    types = (weakref.ref,)
    attributes = "of subclasses"

    def below(self, prefix: str, value: Any, footprint: Footprint) -> Iterator[Child]:
        yield f"{prefix}target", Referent(value), None


class Proxies(ObjectKind):
    """Objects of `weakref.proxy`."""

    called = "a weak proxy"
    types = weakref.ProxyTypes
    attributes = "never"

    def look(self, seen: Observations, name: str, value: Any) -> Line:
        return (name, Same(value))

    def below(self, prefix: str, value: Any, footprint: Footprint) -> Iterator[Child]:
        yield f"{prefix}target", TargetOf(value), None


class Variables(ObjectKind):
    """Context variables."""

    called = "a context variable"
    types = (contextvars.ContextVar,)
    attributes = "of subclasses"

    def below(self, prefix: str, value: Any, footprint: Footprint) -> Iterator[Child]:
        yield f"{prefix}value", ValueOf(value), None


class Cells(ObjectKind):
    """Closure cells that are held by something other than a function."""

    called = "a cell"
    types = (types.CellType,)
    attributes = "of subclasses"

    def below(self, prefix: str, value: Any, footprint: Footprint) -> Iterator[Child]:
        return said_by_cell(prefix, value)


class Views(ObjectKind):
    """Views of dicts: of their keys, values, items, or of the whole."""

    called = "a view of a dict"
    types = (
        types.MappingProxyType, type({}.keys()), type({}.values()), type({}.items()),
        *map(type, (collections.OrderedDict().keys(), collections.OrderedDict().values(),
                    collections.OrderedDict().items())),
    )  # fmt: skip
    attributes = "of subclasses"

    def look(self, seen: Observations, name: str, value: Any) -> Line:
        for thing in gc.get_referents(value):
            if is_a(thing, dict):
                seen.note_order(name, thing)
        return (name, Same(value))

    def below(self, prefix: str, value: Any, footprint: Footprint) -> Iterator[Child]:
        for thing in gc.get_referents(value):
            yield f"{prefix}mapping", Itself(thing), None


class Slices(ObjectKind):
    """Slices."""

    called = "a slice"
    types = (slice,)
    attributes = "never"

    def below(self, prefix: str, value: Any, footprint: Footprint) -> Iterator[Child]:
        for part in (value.start, value.stop, value.step):
            if not is_a(part, PLAIN):
                yield f"{prefix}part", Itself(part), None


class Supers(ObjectKind):
    """Objects of `super`."""

    called = "an object of super"
    types = (super,)
    attributes = "of subclasses"


class Exceptions(ObjectKind):
    """Exceptions: what they were made with, and what their classes say of them."""

    called = "an error"
    types = (BaseException,)
    attributes = "of subclasses"

    def below(self, prefix: str, value: Any, footprint: Footprint) -> Iterator[Child]:
        yield f"{prefix}args", AttributeOf(value, "args"), None
        kind: Any = type(value)
        for key in _said_of_errors(kind):
            yield f"{prefix}{key}", AttributeOf(value, key), key


@functools.lru_cache(4096)
def _said_of_errors(kind: Any) -> tuple[str, ...]:
    """The attributes that errors of a class have by themselves."""
    fields = types.MemberDescriptorType, types.GetSetDescriptorType
    found = (key for base in kind.__mro__ for key, value in vars(base).items() if is_a(value, fields))
    return tuple(key for key in found if key not in ("args", "__dict__", "__weakref__"))


class Namespaces(ObjectKind):
    """Objects of `types.SimpleNamespace`."""

    called = "a namespace"
    types = (types.SimpleNamespace,)
    attributes = "never"

    def below(self, prefix: str, value: Any, footprint: Footprint) -> Iterator[Child]:
        return attributes_below(prefix, value)


class ThreadLocals(ObjectKind):
    """Objects of `threading.local`: what this thread has there."""

    called = "an object of threading.local"
    types = (threading.local,)
    attributes = "never"

    def look(self, seen: Observations, name: str, value: Any) -> Line:
        return (name, "thread-local", seen.note_fact(name, NamesOf(value)))

    def below(self, prefix: str, value: Any, footprint: Footprint) -> Iterator[Child]:
        for key in names_in(value):
            yield f"{prefix}{key}", AttributeOf(value, key), None


class WatchedObjects(ObjectKind):
    """Objects of this package that say themselves what a function that calls them reads."""

    called = "an object that says what it reads"
    types = (Watched,)
    attributes = "never"

    def below(self, prefix: str, value: Any, footprint: Footprint) -> Iterator[Child]:
        yield from ((f"{prefix}{inner}".rstrip("."), Itself(thing), None) for inner, thing in value.watched())


# -- states that are in no attribute -----------------------------------------------------------------------------


class Environments(ObjectKind):
    """The variables of the environment."""

    called = "the environment"
    types = (type(os.environ),)

    def look(self, seen: Observations, name: str, value: Any) -> Line:
        return (name, seen.note_fact(name, Environment()))


class InterpreterSettings(ObjectKind):
    """Settings of Python and numpy."""

    called = "a setting"
    types = (Setting,)

    def fact_about(self, value: Any) -> Fact:
        return SettingNow(value)


class Locks(ObjectKind):
    """Locks."""

    called = "a lock"
    types = LOCKS
    attributes = "of subclasses"

    def fact_about(self, value: Any) -> Fact:
        return HeldBy(value)


class Finalizers(ObjectKind):
    """Objects of `weakref.finalize`."""

    called = "a finalizer"
    types = (weakref.finalize,)

    def fact_about(self, value: Any) -> Fact:
        return IsAlive(value)


class Loggers(ObjectKind):
    """Loggers: what they let pass."""

    called = "a logger"

    def includes(self, kind: type) -> bool:
        logging = sys.modules.get("logging")
        return logging is not None and issubclass(kind, logging.Logger)

    def fact_about(self, value: Any) -> Fact:
        return LevelsOf(value)


__all__ = [
    "Cells", "Environments", "Exceptions", "Finalizers", "InterpreterSettings", "Locks", "Loggers", "Namespaces",
    "Proxies", "References", "Slices", "Supers", "ThreadLocals", "Variables", "Views", "WatchedObjects",
]  # fmt: skip
