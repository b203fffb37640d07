"""Values: tensors, numbers and strings, arrays and buffers, generators of random numbers, objects that never change."""

from __future__ import annotations

import decimal
import random
from collections.abc import Iterator
from typing import Any

import numpy as np

from jit.eager.generators import Generator
from jit.eager.tensors import Tensor
from jit.ir.scalars import exactly, plain_value

from ..contents import copy_of, is_copied
from ..facts import DecimalContext, Fact, NamesOf
from ..footprints import Footprint
from ..known_types import PLAIN, SETTLED, is_bare
from ..observations import Observations
from ..peeking import attributes_of, space_of
from ..places import Child, ElementOf, entry_of
from .object_kind import Line, ObjectKind, Same


class Tensors(ObjectKind):
    """Tensors: which one stands in a place is watched, and all that Python can ask of it except its elements."""

    called = "a tensor"
    types = (Tensor,)
    attributes = "never"

    def look(self, seen: Observations, name: str, value: Any) -> Line:
        index = seen.note_owner(name, value)
        kind = seen.note_type(value)
        seen.note_fact(name, NamesOf(value))
        return (name, "tensor", index, kind)

    def below(self, prefix: str, value: Any, footprint: Footprint) -> Iterator[Child]:
        for key in attributes_of(value):
            yield f"{prefix}{key}", entry_of(vars(value), key), None


class Generators(ObjectKind):
    """Generators of random numbers of this package, whose state a recording takes as an input."""

    called = "a generator of random numbers"
    types = (Generator,)
    attributes = "of subclasses"

    def look(self, seen: Observations, name: str, value: Any) -> Line:
        return (name, "generator", seen.note_owner(name, value))


class PlainValues(ObjectKind):
    """Numbers, strings and None, which are compared by value."""

    called = "a number or a string"
    types = PLAIN
    attributes = "of subclasses"

    def look(self, seen: Observations, name: str, value: Any) -> Line:
        shown = exactly(plain_value(value))[1]
        if is_bare(value):
            return (name, type(value), shown)
        space = space_of(value) or {}
        seen.note_size(name, space)
        return (name, type(value), shown, len(space))


class NumpyScalars(ObjectKind):
    """Scalars of numpy that are not numbers of Python as well."""

    called = "a number of numpy's"
    types = (np.generic,)

    def look(self, seen: Observations, name: str, value: Any) -> Line:
        return (name, type(value).__name__, value.tobytes())


class Decimals(ObjectKind):
    """Decimal numbers, whose arithmetic depends on a context."""

    called = "a decimal number"
    types = (decimal.Decimal,)
    attributes = "of subclasses"

    def fact_about(self, value: Any) -> Fact:
        return DecimalContext()


# -- objects that are watched by a copy of their contents --------------------------------------------------------


class Buffers(ObjectKind):
    """Buffers, text in memory, records of numpy, and objects of ctypes without pointers."""

    called = "a buffer"

    def includes(self, kind: type) -> bool:
        return is_copied(kind)

    def look(self, seen: Observations, name: str, value: Any) -> Line:
        copy = copy_of(value)
        seen.note_contents(name, value, copy)
        return (name, Same(value), copy)


class Arrays(Buffers):
    """Arrays of numpy, and the objects in them."""

    called = "an array of numpy's"
    types = (np.ndarray,)
    attributes = "of subclasses"

    def includes(self, kind: type) -> bool:
        return issubclass(kind, np.ndarray)

    def look(self, seen: Observations, name: str, value: Any) -> Line:
        copy = copy_of(value)
        seen.note_contents(name, value, copy)
        return (name, copy.dtype.str, copy.shape, copy.flags.writeable, copy.tobytes())

    def below(self, prefix: str, value: Any, footprint: Footprint) -> Iterator[Child]:
        if value.dtype.hasobject and value.dtype.names is None:
            for index in range(value.size):
                yield f"{prefix}{index}", ElementOf(value, index), None


class RandomNumbers(Buffers):
    """Random generators of Python and numpy, which are watched by their state."""

    called = "a generator of random numbers of Python's or numpy's"
    types = (random.Random, np.random.Generator, np.random.RandomState)
    attributes = "of subclasses"

    def includes(self, kind: type) -> bool:
        return issubclass(kind, self.types)


class Settled(ObjectKind):
    """Objects that never change, or have nothing to them that a function can read."""

    called = "an object that never changes"
    types = tuple(SETTLED)
    attributes = "never"

    def includes(self, kind: type) -> bool:
        return kind in SETTLED


__all__ = [
    "Arrays", "Buffers", "Decimals", "Generators", "NumpyScalars", "PlainValues", "RandomNumbers", "Settled", "Tensors",
]  # fmt: skip
