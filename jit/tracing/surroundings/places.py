"""Places where a function looks: one class for each kind, such as a closure cell or an item of a list.

Note [Places]
    A place is a question (jit.tracing.surroundings.questions): it is called to ask what stands there now. Besides, it
    says of itself

        is_weak     whether the object that stands there must not be kept alive by the place
        writer      the function that sets it, if there is one: traced numbers stand there while a function is recorded

    The places behind the object that stands there, and its line in a fingerprint, depend on the object, not on the
    place: see jit.tracing.surroundings.kinds. A state of an object that is compared by value, such as the order of a
    dict's keys, is a Fact (jit.tracing.surroundings.facts).

    A hit on the long way asks some hundred places, so each costs no more than its look-up: it has slots only and calls
    nothing in between; and entries of dicts, which most places are, are read without a line of Python. Where nothing
    has changed for some calls, native code asks: Note [Native looks] in jit.tracing.surroundings.repeated_looks.
"""

from __future__ import annotations

import functools
import gc
import types
import weakref
from collections import OrderedDict
from collections.abc import Callable, Sequence, Set
from typing import Any, ClassVar

from jit.eager.networks import CALLS, Network
from jit.runtime.plans.entry import MISSING

from .peeking import asked, is_a, sequence_of, space_of
from .questions import CheckRow, Question

Write = Callable[[Any], None]
_get = dict.get


class Place(Question):
    """A place where a function looks: a call says which object stands there now. See Note [Places]."""

    __slots__ = ()
    is_weak: ClassVar[bool] = False
    """Whether the object that stands there must not be kept alive by the place."""

    def writer(self) -> Write | None:
        """A function that sets the place; None where Python cannot."""
        return None


Child = tuple[str, Place, "str | None"]
"""A name, a place, and the attribute that code has to name for the place to count; None if it always does."""


# -- dicts -------------------------------------------------------------------------------------------------------


class EntryOf(functools.partial[Any], Place):
    """An entry of a dict: a global, an attribute, an item. `EntryOf(space.get, key)` is read by `get` itself."""

    __slots__ = ()
    called = "an entry of a dict"

    @property
    def space(self) -> dict[Any, Any]:
        return self.func.__self__  # type: ignore[attr-defined]

    @property
    def key(self) -> Any:
        return self.args[0]

    def identity(self) -> tuple[Any, ...]:
        return (type(self), id(self.space), id(self.key))

    def rows(self, answer: Any, known: Set[int]) -> Sequence[CheckRow] | None:
        return _rows_of([(self.space, self.key, answer)])

    def writer(self) -> Write | None:
        return functools.partial(dict.__setitem__, self.space, self.key)


def entry_of(space: dict[Any, Any], key: Any) -> EntryOf:
    """The place of an entry in a dict that may have attributes or a class of its own, with another `get` there."""
    return EntryOf(space.get if type(space) is dict else dict.get.__get__(space), key)


class HiddenEntryOf(Place):
    """An entry of a dict whose class has a `get` of its own."""

    __slots__ = ("key", "space")
    called = "an entry of a dict that has a look-up of its own"

    def __init__(self, space: dict[Any, Any], key: Any) -> None:
        self.space, self.key = space, key

    def __call__(self) -> Any:
        return dict.get(self.space, self.key)


class TableEntryOf(Place):
    """A parameter, buffer or layer of a network module: an entry of one of its tables."""

    __slots__ = ("key", "space", "table")
    called = "an entry of a network module's table"

    def __init__(self, space: dict[str, Any], table: str, key: str) -> None:
        self.space, self.table, self.key = space, table, key

    def identity(self) -> tuple[Any, ...]:
        return (type(self), id(self.space), self.table, self.key)

    def writer(self) -> Write | None:
        return functools.partial(dict.__setitem__, self.space[self.table], self.key)

    def __call__(self) -> Any:
        found: Any = _get(self.space, self.table)
        return _get(found, self.key) if issubclass(type(found), dict) else None

    def rows(self, answer: Any, known: Set[int]) -> Sequence[CheckRow] | None:
        table: Any = dict.get(self.space, self.table)
        return _rows_of([(self.space, self.table, table), (table, self.key, answer)])


def attribute_of(network: Network, name: str) -> Place:
    """The place of an attribute of a network: among the buffers, or among its own attributes."""
    space = vars(network)
    return TableEntryOf(space, "_buffers", name) if name in space.get("_buffers", ()) else entry_of(space, name)


class WrappedBy(Place):
    """The function inside a decorated one."""

    __slots__ = ("value",)
    called = "the function inside a decorated one"

    def __init__(self, value: Any) -> None:
        self.value = value

    def __call__(self) -> Any:
        return dict.get(space_of(self.value) or {}, "__wrapped__")

    def rows(self, answer: Any, known: Set[int]) -> Sequence[CheckRow] | None:
        is_function = type(self.value) is types.FunctionType
        return _rows_of([(vars(self.value), "__wrapped__", answer)]) if is_function else None


def _rows_of(wanted: Sequence[tuple[Any, Any, Any]]) -> Sequence[CheckRow] | None:
    """Rows, if all are plain entries: of dicts that look keys up natively, under keys that compare natively."""
    for space, key, value in wanted:
        if type(space) not in (dict, OrderedDict) or type(key) not in (str, int) or space.get(key) is not value:
            return None
    return [CheckRow("slots", (space, key, value if key in space else MISSING)) for space, key, value in wanted]


# -- functions ---------------------------------------------------------------------------------------------------


class CellOf(Place):
    """The content of a closure cell."""

    __slots__ = ("cell",)
    called = "a closure cell"

    def __init__(self, cell: Any) -> None:
        self.cell = cell

    def __call__(self) -> Any:
        try:
            return self.cell.cell_contents
        except ValueError:
            return None

    def rows(self, answer: Any, known: Set[int]) -> Sequence[CheckRow] | None:
        is_there = answer is not None and self() is answer
        return [CheckRow("cells", (self.cell, answer))] if is_there else None

    def writer(self) -> Write | None:
        return functools.partial(setattr, self.cell, "cell_contents")


class DefaultOf(Place):
    """The default of a function's argument."""

    __slots__ = ("function", "index")
    called = "a default of a function"

    def __init__(self, function: types.FunctionType, index: int) -> None:
        self.function, self.index = function, index

    def __call__(self) -> Any:
        defaults = self.function.__defaults__ or ()
        return defaults[self.index] if self.index < len(defaults) else None

    def rows(self, answer: Any, known: Set[int]) -> Sequence[CheckRow] | None:
        function = self.function
        state = function.__defaults__, function.__kwdefaults__, function.__code__
        return [CheckRow("functions", (function, *state))] if self() is answer else None


# -- what holds others -------------------------------------------------------------------------------------------


class ItemOf(Place):
    """An item of a list, a tuple or a deque."""

    __slots__ = ("index", "items")
    called = "an item"

    def __init__(self, items: Any, index: int) -> None:
        self.items, self.index = items, index

    def __call__(self) -> Any:
        kind, index = sequence_of(self.items), self.index
        return kind.__getitem__(self.items, index) if index < kind.__len__(self.items) else None

    def rows(self, answer: Any, known: Set[int]) -> Sequence[CheckRow] | None:
        if type(self.items) is list:
            return [CheckRow("items", (self.items, self.index, answer))]
        return [] if type(self.items) is tuple else None

    def writer(self) -> Write | None:
        return functools.partial(list.__setitem__, self.items, self.index) if is_a(self.items, list) else None


class ElementOf(Place):
    """An object in an array of numpy."""

    __slots__ = ("array", "index")
    called = "an element of an array"

    def __init__(self, array: Any, index: int) -> None:
        self.array, self.index = array, index

    def __call__(self) -> Any:
        return self.array.item(self.index)


class ValueOf(Place):
    """The value of a context variable."""

    __slots__ = ("variable",)
    called = "the value of a context variable"

    def __init__(self, variable: Any) -> None:
        self.variable = variable

    def __call__(self) -> Any:
        return self.variable.get(None)


class TargetOf(Place):
    """The object that a `weakref.proxy` stands for."""

    __slots__ = ("proxy",)
    called = "the target of a proxy"
    is_weak = True

    def __init__(self, proxy: Any) -> None:
        self.proxy = proxy

    def __call__(self) -> Any:
        try:
            return self.proxy.__str__.__self__
        except ReferenceError:
            return None


# -- objects and classes -----------------------------------------------------------------------------------------


class AttributeOf(Place):
    """An attribute that has to be looked up by `getattr`."""

    __slots__ = ("name", "value")
    called = "an attribute"

    def __init__(self, value: Any, name: str) -> None:
        self.value, self.name = value, name

    def __call__(self) -> Any:
        return asked(self.value, self.name)


class DescriptionOf(Place):
    """An attribute that describes a function, a class or another object of Python, such as its name."""

    __slots__ = ("name", "value")
    called = "a description"

    def __init__(self, value: Any, name: str) -> None:
        self.value, self.name = value, name

    def __call__(self) -> Any:
        return getattr(self.value, self.name, None)


class SlotOf(Place):
    """An attribute in a slot."""

    __slots__ = ("descriptor", "reference")
    called = "an attribute in a slot"

    def __init__(self, reference: Callable[[], Any], descriptor: Any) -> None:
        self.reference, self.descriptor = reference, descriptor

    def __call__(self) -> Any:
        thing = self.reference()
        try:
            return None if thing is None else self.descriptor.__get__(thing)
        except AttributeError:
            return None

    def writer(self) -> Write | None:
        thing = self.reference()
        return None if thing is None else functools.partial(self.descriptor.__set__, thing)


class ClassOf(Place):
    """The class of an object."""

    __slots__ = ("reference",)
    called = "the class of an object"

    def __init__(self, reference: Callable[[], Any]) -> None:
        self.reference = reference

    def __call__(self) -> Any:
        return type(self.reference())

    def rows(self, answer: Any, known: Set[int]) -> Sequence[CheckRow] | None:
        thing = self.reference()
        return [CheckRow("classes", (thing, answer))] if id(thing) in known else None


class ClassEntryOf(Place):
    """An entry of a class: a constant, or the function of a method or property."""

    __slots__ = ("key", "kind")
    called = "an entry of a class"

    def __init__(self, kind: type, key: str) -> None:
        self.kind, self.key = kind, key

    def __call__(self) -> Any:
        value: Any = vars(self.kind).get(self.key)
        kind: Any = type(value)
        if kind is types.FunctionType:  # as most are
            return value
        if issubclass(kind, property):
            return value.fget
        return value.__func__ if issubclass(kind, (staticmethod, classmethod)) else value

    def rows(self, answer: Any, known: Set[int]) -> Sequence[CheckRow] | None:
        """Rows for the dict behind the `__dict__` of the class, which is a view."""
        view: Any = vars(self.kind)
        found = gc.get_referents(view)
        if type(view) is not types.MappingProxyType or len(found) != 1 or self() is not answer:
            return None
        return _rows_of([(found[0], self.key, view.get(self.key))])

    def writer(self) -> Write | None:
        return functools.partial(type.__setattr__, self.kind, self.key)


class SubclassesOf(Place):
    """The classes that are derived from a class: the same tuple of references as long as they are the same."""

    __slots__ = ("kind",)
    called = "the subclasses of a class"
    _known: ClassVar[weakref.WeakKeyDictionary[type, tuple[Any, ...]]] = weakref.WeakKeyDictionary()

    def __init__(self, kind: type) -> None:
        self.kind = kind

    def __call__(self) -> Any:
        found: tuple[Any, ...] = tuple(map(weakref.ref, type.__subclasses__(self.kind)))
        if self._known.get(self.kind) != found:
            self._known[self.kind] = found
        return self._known[self.kind]


# -- what stays --------------------------------------------------------------------------------------------------


class Itself(Place):
    """An object that no other can replace: an argument, the function, a part of an object that cannot change."""

    __slots__ = ("value",)
    called = "the object itself"

    def __init__(self, value: Any) -> None:
        self.value = value

    def __call__(self) -> Any:
        return self.value

    def rows(self, answer: Any, known: Set[int]) -> Sequence[CheckRow] | None:
        return []


class Referent(Place):
    """The object that a weak reference leads to, which must not be kept alive."""

    __slots__ = ("reference",)
    called = "the referent of a weak reference"
    is_weak = True

    def __init__(self, reference: weakref.ref[Any]) -> None:
        self.reference = reference

    def __call__(self) -> Any:
        return self.reference()


class SharedHooks(Place):
    """The hooks that are shared by all network modules."""

    __slots__ = ()
    called = "the hooks of all modules"

    def __call__(self) -> Any:
        return CALLS


def reference_to(value: Any) -> Callable[[], Any]:
    """A function that returns an object: a weak reference, if its class allows that."""
    try:
        return weakref.ref(value)
    except TypeError:
        return Itself(value)


__all__ = [
    "AttributeOf", "CellOf", "Child", "ClassEntryOf", "ClassOf", "DefaultOf", "DescriptionOf", "ElementOf",
    "EntryOf", "HiddenEntryOf", "ItemOf", "Itself", "Place", "Referent", "SharedHooks", "SlotOf",
    "SubclassesOf", "TableEntryOf", "TargetOf", "ValueOf", "WrappedBy", "Write", "attribute_of", "entry_of",
    "reference_to",
]  # fmt: skip
