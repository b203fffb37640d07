"""Observations of a walk, and whether all of them still hold."""

from __future__ import annotations

import io
import types
import weakref
from collections.abc import Callable, Container, Iterator
from typing import Any

import numpy as np

from jit.eager.tensors import Tensor

from .contents import COPIED, same_contents
from .facts import Fact, OrderOf, TypeAt
from .known_types import PLAIN
from .peeking import is_a, space_of
from .places import ItemOf, Place, reference_to
from .properties import look_of

_SHOWN = (*PLAIN, np.ndarray, np.generic)


class Observations:
    """Observations of a walk, noted in the form in which they are compared."""

    def __init__(self, kinds: dict[int, Any] | None = None) -> None:
        self._given_kinds = kinds or {}
        """The kinds that tensors are to be taken for, whatever they are now, by identity."""
        self.tensors: list[Any] = []
        """Tensors and generators in the order in which they were met, each once."""
        self.numbers: list[tuple[str, Place]] = []
        """The places of promoted numbers."""
        self.slots: list[tuple[str, Place, Any]] = []
        """Places, and the object that stood in each."""
        self.sizes: list[tuple[str, Any, int]] = []
        """Containers, and their lengths."""
        self.contents: list[tuple[str, Any, Any]] = []
        """Objects, and copies of their contents."""
        self.facts: list[tuple[str, Fact, Any]] = []
        """Facts to ask for again, and their answers."""
        self.types: list[tuple[Any, Any]] = []
        """Tensors, and the properties that Python could ask of them."""
        self.functions: list[tuple[str, types.FunctionType, Any]] = []
        """Functions that ran, and the parts of them that can be set anew."""
        self.spaces: list[tuple[str, Any, Any]] = []
        """References to objects, and the dicts of their attributes, which other dicts may replace."""
        self.lineages: list[tuple[str, type, Any, str]] = []
        """Classes of the user's, with their `__mro__` and `__qualname__`."""
        self.objects_met: dict[int, int] = {}
        """The number of each object that is told by its class and attributes, by identity."""
        self.met: list[Callable[[], Any]] = []
        """References to these objects, by their numbers."""
        self._index: dict[int, int] = {}
        self._names: list[str] = []

    # -- taking notes --------------------------------------------------------------------------------------------

    def note_fact(self, name: str, fact: Fact) -> Any:
        """Note a fact and its answer, which is returned."""
        answer = fact()
        self.facts.append((name, fact, answer))
        return answer

    def note_order(self, name: str, container: Any) -> None:
        """Note the keys or elements of a container, in their order."""
        self.note_fact(name, OrderOf(container))

    def note_size(self, name: str, container: Any) -> None:
        """Note the length of a container."""
        self.sizes.append((name, container, len(container)))

    def note_contents(self, name: str, value: Any, copy: Any) -> None:
        """Note that an object holds what `copy` holds."""
        self.contents.append((name, value, copy))

    def note_space(self, name: str, value: Any, space: dict[str, Any]) -> None:
        """Note the dict in which an object has its attributes."""
        self.spaces.append((name, reference_to(value), space))

    def note_object(self, value: Any) -> int:
        """An object stands somewhere that is told by its class and attributes; returns its number among those."""
        number = self.objects_met.setdefault(id(value), len(self.met))
        if number == len(self.met):
            self.met.append(reference_to(value))
        return number

    def note_lineage(self, name: str, kind: type) -> None:
        """Note which classes a class inherits from, and its name."""
        self.lineages.append((name, kind, kind.__mro__, kind.__qualname__))

    def note_function(self, name: str, function: types.FunctionType) -> None:
        """Note a function that has run."""
        self.functions.append((name, function, _state_of(function)))

    def note_owner(self, name: str, owner: Any) -> int:
        """Note a tensor or a generator in a place; returns its number in `tensors`, the same for all of its places."""
        index = self._index.setdefault(id(owner), len(self.tensors))
        if index == len(self.tensors):
            self.tensors.append(owner)
            self._names.append(name)
        elif name.count(".") < self._names[index].count("."):
            self._names[index] = name  # a parameter is better known as the model's than as the optimizer's
        return index

    def note_type(self, tensor: Tensor) -> Any:
        """Note all that Python can ask of a tensor, and return it."""
        kind = self._given_kinds.get(id(tensor)) or look_of(tensor)
        self.types.append((tensor, kind))
        return kind

    # -- comparing -----------------------------------------------------------------------------------------------

    def effect(self, but: Container[Any] = ()) -> str | None:
        """The name of a place that has changed since it was noted, tensors' types apart; None if there is none.

        Args:
            but: Identities of places that may have changed.
        """
        for name, place, value in self.slots:
            if place() is not value and not (but and place.identity() in but):
                return name
        for name, container, size in self.sizes:
            if len(container) != size:
                return name
        for name, fact, answer in self.facts:
            if fact() != answer and not (isinstance(fact, TypeAt) and fact.place.identity() in but):
                return name
        for name, reference, space in self.spaces:
            if space_of(reference()) is not space:
                return name
        for name, kind, line, called in self.lineages:
            if kind.__mro__ is not line or kind.__qualname__ is not called:
                return name
        for name, function, state in self.functions:
            if any(a is not b for a, b in zip(_state_of(function), state, strict=True)):
                return name
        return next((name for name, value, copy in self.contents if not same_contents(value, copy)), None)

    def has_other_types(self) -> bool:
        """Whether a tensor is no longer of the type that it was seen with."""
        return any(look_of(tensor) != kind for tensor, kind in self.types)

    def has_changed(self) -> bool:
        """Whether anything is no longer as it was seen, the types of tensors included."""
        return self.effect() is not None or self.has_other_types()

    def iterator(self) -> str | None:
        """The name of an iterator in reach, from which the function may take items unseen; None if there is none."""
        return next((name for name, _, value in self.slots if _gives_unseen(value)), None)

    # -- looking things up ---------------------------------------------------------------------------------------

    def name_of(self, owner: Any) -> str | None:
        """The user's name for a tensor: a state-dict path, a variable, an item of a list."""
        index = self._index.get(id(owner))
        return None if index is None else self._names[index]

    def index_of(self, owner: Any) -> int | None:
        """The place of a tensor among `tensors`."""
        return self._index.get(id(owner))

    def plain(self) -> Iterator[tuple[str, Any]]:
        """The numbers, strings and arrays that were met, by name."""
        return ((name, value) for name, _, value in self.slots if is_a(value, _SHOWN))

    def places(self) -> Iterator[tuple[str, Place]]:
        """Every place that was looked at, promoted numbers included."""
        yield from ((name, place) for name, place, _ in self.slots)
        yield from self.numbers

    def holders_of(self, place: Place) -> tuple[Place, ...]:
        """The places of the tuple in which a place is, if it is in one that was looked at."""
        if not isinstance(place, ItemOf) or type(place.items) is not tuple:
            return ()
        return tuple(holder for _, holder, value in self.slots if value is place.items)

    def objects(self) -> Iterator[Any]:
        """Everything that was looked at."""
        return (value for _, _, value in self.slots)

    def kinds(self) -> dict[int, Any]:
        """The kind of each tensor when it was first looked at, by identity."""
        return {id(tensor): kind for tensor, kind in self.types}


def _state_of(function: types.FunctionType) -> tuple[Any, Any, Any]:
    """The settable state of a function."""
    return function.__code__, function.__defaults__, function.__kwdefaults__


def _gives_unseen(value: Any) -> bool:
    """Whether items can be taken from an object without a change of anything that is watched."""
    kind = type(value)  # `__class__` of an object may lie, or raise
    if not issubclass(kind, Iterator) or issubclass(kind, COPIED) or kind in weakref.ProxyTypes:
        return False
    if isinstance(getattr(kind, "__next__", None), types.FunctionType) and not issubclass(kind, io.IOBase):
        return False  # what it has left is in its attributes
    return not issubclass(kind, io.IOBase) or (not value.closed and value.readable())


__all__ = ["Observations"]
