"""Descriptions of functions, classes and their like: names, defaults, annotations, bases, subclasses.

Hardly any code asks for them, so they count where code of the user's or of Python's library names them, and not
because attributes are looked up by names made at run time.
"""

from __future__ import annotations

import types
from collections.abc import Iterator
from typing import Any

from .places import Child, DescriptionOf, SubclassesOf, entry_of

_OF_FUNCTIONS = (
    "__defaults__", "__kwdefaults__", "__code__", "__name__", "__qualname__", "__doc__", "__annotations__",
    "__module__",
)  # fmt: skip
_OF_CLASSES = ("__name__", "__qualname__", "__bases__", "__mro__")
DESCRIPTIONS = frozenset({*_OF_FUNCTIONS, *_OF_CLASSES, "__closure__", "__subclasses__"})
"""Names by which code asks for these descriptions, and for nothing else."""


def said_of_function(prefix: str, function: types.FunctionType) -> Iterator[Child]:
    """The description that code can ask of a function that it does not call."""
    for name in _OF_FUNCTIONS:
        yield f"{prefix}{name}", DescriptionOf(function, name), name
    for name, cell in zip(function.__code__.co_freevars, function.__closure__ or (), strict=True):
        yield f"{prefix}{name}", DescriptionOf(cell, "cell_contents"), "__closure__"


def said_of_class(prefix: str, kind: type) -> Iterator[Child]:
    """The description that code can ask of a class besides its entries."""
    for name in _OF_CLASSES:
        yield f"{prefix}{name}", DescriptionOf(kind, name), name


def subclasses_below(prefix: str, kind: type) -> Iterator[Child]:
    """The classes that are derived from a class, now and later."""
    yield f"the subclasses of {prefix.removesuffix('.')}", SubclassesOf(kind), "__subclasses__"


def said_of_property(prefix: str, value: property) -> Iterator[Child]:
    """The docstring of a property."""
    yield f"{prefix}__doc__", DescriptionOf(value, "__doc__"), "__doc__"


def said_by_cell(prefix: str, value: types.CellType) -> Iterator[Child]:
    """The content of a closure cell."""
    yield f"{prefix}contents", DescriptionOf(value, "cell_contents"), None


def said_of_typing(prefix: str, value: Any) -> Iterator[Child]:
    """The parts of an object of `typing`, and the attributes that were set on it."""
    for name in ("__origin__", "__args__", "__metadata__"):
        if getattr(value, name, None) is not None:
            yield f"{prefix}{name}", DescriptionOf(value, name), None
    space = getattr(value, "__dict__", None)
    if not isinstance(space, dict):
        return
    for name in space:
        yield f"{prefix}{name}", entry_of(space, name), name


__all__ = [
    "DESCRIPTIONS", "said_by_cell", "said_of_class", "said_of_function", "said_of_property", "said_of_typing",
    "subclasses_below",
]  # fmt: skip
