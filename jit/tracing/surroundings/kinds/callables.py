"""Kinds of callables: functions, methods, partials, caches, properties, getters."""

from __future__ import annotations

import functools
import gc
import operator
import random
import types
from collections.abc import Iterator
from typing import Any

import numpy as np

from ..descriptions import said_of_function, said_of_property
from ..facts import GenerationOf
from ..footprints import Footprint
from ..known_types import PLAIN
from ..observations import Observations
from ..origins import is_ours
from ..peeking import is_a
from ..places import AttributeOf, Child, Itself, entry_of
from .object_kind import Line, ObjectKind, Same, wrapped_by


class PlainFunctions(ObjectKind):
    """Functions of Python: what is attached to them. What their code reads counts once it has run (Note [Growing])."""

    called = "a function"
    types = (types.FunctionType,)
    attributes = "never"

    def look(self, seen: Observations, name: str, value: Any) -> Line:
        seen.note_size(name, vars(value))
        return (name, Same(value), Same(value.__code__))

    def below(self, prefix: str, value: Any, footprint: Footprint) -> Iterator[Child]:
        for key in vars(value):
            if key != "__wrapped__":
                yield f"{prefix}{key}", entry_of(vars(value), key), key
        yield from wrapped_by(prefix, value)
        if not is_ours(value.__code__.co_filename):
            yield from said_of_function(prefix, value)


class Methods(ObjectKind):
    """Bound methods of Python."""

    called = "a bound method"
    types = (types.MethodType,)
    attributes = "of subclasses"

    def below(self, prefix: str, value: Any, footprint: Footprint) -> Iterator[Child]:
        yield f"{prefix}self", Itself(value.__self__), None
        yield f"{prefix}function", Itself(value.__func__), None


class Builtins(ObjectKind):
    """Functions in C: what they are bound to."""

    called = "a function in C"
    types = (types.BuiltinMethodType, types.MethodWrapperType)
    attributes = "of subclasses"

    def below(self, prefix: str, value: Any, footprint: Footprint) -> Iterator[Child]:
        owner = value.__self__
        if not is_a(owner, (types.ModuleType, random.Random, np.random.RandomState, np.random.Generator)):
            yield f"{prefix}self", Itself(owner), None


class Partials(ObjectKind):
    """Objects of `functools.partial`."""

    called = "a partial"
    types = (functools.partial,)
    attributes = "of subclasses"

    def look(self, seen: Observations, name: str, value: Any) -> Line:
        seen.note_size(name, vars(value))
        return (name, Same(value), None)

    def below(self, prefix: str, value: Any, footprint: Footprint) -> Iterator[Child]:
        for part in ("func", "args", "keywords"):
            yield f"{prefix}{part}", AttributeOf(value, part), None
        for key in vars(value):
            yield f"{prefix}{key}", entry_of(vars(value), key), key


class CachedFunctions(ObjectKind):
    """Functions that keep their results: the function inside, and what the cache keeps."""

    called = "a cached function"
    types = (functools._lru_cache_wrapper,)
    attributes = "of subclasses"

    def look(self, seen: Observations, name: str, value: Any) -> Line:
        return (name, Same(value), seen.note_fact(name, GenerationOf(value)))

    def below(self, prefix: str, value: Any, footprint: Footprint) -> Iterator[Child]:
        yield from wrapped_by(prefix, value)
        for number, kept in enumerate(_kept_results(value)):
            if not _is_settled(kept):
                yield f"{prefix}{number}", Itself(kept), None


def _kept_results(cached: Any) -> list[Any]:
    """The results that a cache keeps, the first one that was made first.

    A cache is a dict. If it is bounded, the keys lead to links of a list, which show nothing; but the cache tells the
    collector of garbage the key, the result and the class of each link.
    """
    info, held = cached.cache_info(), gc.get_referents(cached)
    tables = [table for table in held if type(table) is dict and table is not vars(cached)]
    if info.maxsize is None:
        return [result for table in tables for result in table.values()]
    links = [(id(key), result) for key, result, kind in zip(held, held[1:], held[2:]) if kind is _Link]
    linked = dict(links[: info.currsize])
    keys = [id(key) for table in tables for key, link in table.items() if type(link) is _Link]
    ordered = [linked.pop(key) for key in keys if key in linked]
    return [*ordered, *linked.values()]  # the key of a link may be a number that stood for the one in the dict


def _class_of_links() -> type:
    """The class of the links in bounded caches, which has no name; one without objects if this Python has no such."""
    sample = functools.lru_cache(1)(abs)
    sample(0)
    tables = [table for table in gc.get_referents(sample) if type(table) is dict]
    found = [type(link) for table in tables for key, link in table.items() if key == 0 and key is not False]
    return found[0] if found else _NoLink


class _NoLink:
    """The class of the links where caches show none."""


_Link = _class_of_links()


def _is_settled(value: Any) -> bool:
    """Whether nobody can change a value: a plain one, or a tuple of such."""
    if type(value) is tuple:
        return all(map(_is_settled, value))
    return is_a(value, PLAIN)


class Properties(ObjectKind):
    """Properties."""

    called = "a property"
    types = (property,)
    attributes = "of subclasses"

    def below(self, prefix: str, value: Any, footprint: Footprint) -> Iterator[Child]:
        for part in ("fget", "fset", "fdel"):
            if getattr(value, part) is not None:
                yield f"{prefix}{part}", Itself(getattr(value, part)), None
        yield from said_of_property(prefix, value)


class StaticMethods(ObjectKind):
    """Static methods and class methods."""

    called = "a static method or a class method"
    types = (staticmethod, classmethod)
    attributes = "of subclasses"

    def below(self, prefix: str, value: Any, footprint: Footprint) -> Iterator[Child]:
        yield f"{prefix}function", Itself(value.__func__), None


class DispatchingMethods(ObjectKind):
    """Objects of `functools.singledispatchmethod`, which hold a cache besides, from Python 3.13 on."""

    called = "a method that dispatches on a type"
    types = (functools.singledispatchmethod,)
    attributes = "of subclasses"

    def below(self, prefix: str, value: Any, footprint: Footprint) -> Iterator[Child]:
        for part in ("dispatcher", "func"):
            yield f"{prefix}{part}", AttributeOf(value, part), None


class Getters(ObjectKind):
    """Objects of `attrgetter` and `methodcaller`."""

    called = "a getter"
    types = (operator.attrgetter, operator.methodcaller)
    attributes = "of subclasses"

    def below(self, prefix: str, value: Any, footprint: Footprint) -> Iterator[Child]:
        for thing in value.__reduce__()[1]:
            if not is_a(thing, PLAIN):
                yield f"{prefix}part", Itself(thing), None

    def names_looked_up(self, value: Any) -> frozenset[str]:
        texts = [text for text in value.__reduce__()[1] if is_a(text, str)]
        return frozenset(word for text in texts for word in text.split("."))


__all__ = [
    "Builtins", "CachedFunctions", "DispatchingMethods", "Getters", "Methods", "Partials", "PlainFunctions",
    "Properties", "StaticMethods",
]  # fmt: skip
