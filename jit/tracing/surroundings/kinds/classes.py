"""Classes, what stands for them in annotations, and modules."""

from __future__ import annotations

import abc
import decimal
import types
import typing
from collections.abc import Iterator
from typing import Any

from jit.autograd.custom import Function

from ..descriptions import said_of_class, said_of_typing, subclasses_below
from ..facts import AbstractClasses, DecimalContext, Fact
from ..footprints import Footprint
from ..observations import Observations
from ..origins import file_of, is_foreign_class, is_known_module, is_ours
from ..peeking import asked, is_a
from ..places import Child, ClassEntryOf, ClassOf, EntryOf, Itself
from .object_kind import Line, ObjectKind, Same


class Classes(ObjectKind):
    """Classes: what they inherit from, and the entries of the user's own."""

    called = "a class"
    types = (type,)
    attributes = "never"

    def look(self, seen: Observations, name: str, value: Any) -> Line:
        fact = self.fact_about(value)
        answer = None if fact is None else seen.note_fact(name, fact)
        if value is decimal.Decimal:
            return (name, Same(value), seen.note_fact(name, DecimalContext()))
        for space in class_spaces(value):
            seen.note_size(name, space)
        if is_foreign_class(value) or value.__module__.startswith("jit."):
            return (name, Same(value), answer)
        seen.note_lineage(name, value)
        return (name, Same(value), answer, value.__qualname__, *map(Same, value.__mro__))

    def fact_about(self, value: Any) -> Fact | None:
        return AbstractClasses() if isinstance(value, abc.ABCMeta) else None

    def below(self, prefix: str, value: Any, footprint: Footprint) -> Iterator[Child]:
        yield from subclasses_below(prefix, value)
        if not issubclass(value, Function):  # a PythonOp runs in every call, so what it reads or writes is never baked
            yield from _entries(prefix, value)

    def names_looked_up(self, value: Any) -> frozenset[str]:
        """The names of a protocol, which `isinstance` asks for."""
        if "_is_protocol" not in vars(value):
            return frozenset()
        spaces = [vars(base) for base in value.__mro__ if "_is_protocol" in vars(base)]
        return frozenset(name for space in spaces for name in (*space, *space.get("__annotations__", ())))


_NAMELESS = frozenset({"__dict__", "__weakref__", "__qualname__", "__slots__", "__abstractmethods__", "__parameters__",
                       "__firstlineno__", "_abc_impl", "__static_attributes__", "__dataclass_fields__",
                       "__dataclass_params__", "__annotate_func__", "__annotations_cache__"})  # fmt: skip


def _entries(prefix: str, kind: type) -> Iterator[Child]:
    """The entries of the user's classes: constants, methods, properties; inherited ones too."""
    for base in kind.__mro__:
        if is_foreign_class(base):
            continue
        ours = base.__module__.startswith("jit.")
        for key, value in list(vars(base).items()):
            is_code = is_a(value, (types.FunctionType, property, staticmethod, classmethod))
            if is_code or key not in _NAMELESS:
                always = is_code and key.startswith("__") and (not ours or key == "__call__")
                yield f"{prefix}{key}", ClassEntryOf(base, key), None if always else key
            if is_a(value, property):
                for part in (value.fset, value.fdel):
                    if part is not None:
                        yield f"{prefix}{key}", Itself(part), key
    if not is_foreign_class(kind) and not kind.__module__.startswith("jit."):
        yield from said_of_class(prefix, kind)
    if type(kind) not in (type, abc.ABCMeta):
        yield f"{prefix}__class__", ClassOf(Itself(kind)), None


def class_spaces(kind: type) -> Iterator[Any]:
    """The dicts of a class of the user's and of those that it inherits from, to which entries may be added."""
    if not issubclass(kind, Function):
        yield from (vars(base) for base in kind.__mro__ if not is_foreign_class(base))


class Aliases(ObjectKind):
    """`Box[float]`, which makes objects of the class behind it, `A | B`, and what a `type` statement defines."""

    called = "an alias of a class"
    types = (
        types.GenericAlias, typing._GenericAlias,  # type: ignore[attr-defined]
        types.UnionType, getattr(typing, "TypeAliasType", types.UnionType),
    )  # fmt: skip
    attributes = "of subclasses"

    def below(self, prefix: str, value: Any, footprint: Footprint) -> Iterator[Child]:
        for part in ("__origin__", "__args__") if isinstance(value, self.types[:2]) else ("__args__", "__value__"):
            if (found := asked(value, part)) is not None:
                yield f"{prefix}{part}", Itself(found), None


class Typing(ObjectKind):
    """All other objects of `typing`."""

    called = "an object of typing"
    attributes = "never"

    def includes(self, kind: type) -> bool:
        return kind.__module__ == "typing"

    def below(self, prefix: str, value: Any, footprint: Footprint) -> Iterator[Child]:
        return said_of_typing(prefix, value)


class Modules(ObjectKind):
    """Modules that are held by something other than a global: their entries whose names occur in code that has run."""

    called = "a module"
    types = (types.ModuleType,)
    attributes = "never"

    def look(self, seen: Observations, name: str, value: Any) -> Line:
        if value is decimal:
            return (name, Same(value), seen.note_fact(name, DecimalContext()))
        return (name, Same(value), None)

    def below(self, prefix: str, value: Any, footprint: Footprint) -> Iterator[Child]:
        if is_known_module(value) or is_ours(file_of(value) or ""):
            return
        space = vars(value)
        yield f"{prefix}__class__", ClassOf(Itself(value)), None
        yield f"{prefix}__getattr__", EntryOf(space.get, "__getattr__"), None
        for name in list(space):
            if name == "__name__" or name in footprint.names or not footprint.everything:
                yield f"{prefix}{name}", EntryOf(space.get, name), None if name == "__name__" else name


__all__ = ["Aliases", "Classes", "Modules", "Typing"]
