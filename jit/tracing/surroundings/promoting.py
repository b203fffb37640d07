"""Numbers that a recording takes as inputs instead of baking them in: those of `f.promote(name)`, and those that drift.

Note [Promotion]
    A number that a function reads from a global, a closure, an attribute or an argument is part of the key, and baked
    in. A promoted one is not: only its type is. While the function is recorded, a traced number stands in its place, so
    all that Python computes from it is recorded, and what Python decides on it is guarded; each call reads it afresh.

        scale = 2.0                                    f.promote("scale")
        f = lambda x: x * (scale + 1)                  graph(%x : Float(2), %scale : float) {
                                                         %0 : float = prim::add(%scale, 1)
                                                         %1 : Float(2) = aten::mul(%x, %0)
                                                         return (%1)
                                                       }

Note [Drift]
    A float in the surroundings that changes again and again, such as a learning rate under a schedule, is promoted
    unasked once its value alone tells DRIFT recordings from a call. If the function decides on its value, so that every
    value takes a path of its own, it is baked in again for good. Integers mostly count or choose: they stay baked in.
"""

from __future__ import annotations

import collections
import contextlib
from collections.abc import Iterable, Iterator, Sequence
from typing import Any, NamedTuple

from jit.ir.errors import UsageError

from .places import Place

KINDS = (int, float)
"""The kinds of numbers that can be promoted."""
DRIFT = 3
"""The number of recordings that differ from a call in the value of a float alone before it is promoted."""


class Number(NamedTuple):
    """A promoted number in the surroundings of the function."""

    name: str
    place: Place
    value: Any


@contextlib.contextmanager
def replaced(numbers: Sequence[Number], stand_ins: Sequence[Any]) -> Iterator[None]:
    """Within this block traced numbers stand in the places of promoted ones."""
    setters = [number.place.writer() for number in numbers]
    for number, write in zip(numbers, setters, strict=True):
        if write is None:
            raise UsageError(
                f"{number.name!r} cannot be promoted, since it is part of a tuple, a default or a property; "
                "keep it in a variable, an attribute or a list"
            )
    try:
        try:
            for write, stand_in in zip(setters, stand_ins, strict=True):
                assert write is not None
                write(stand_in)
            yield
        finally:
            _put_back(numbers, setters, stand_ins)
    finally:  # once more: an interrupt may have cut the first time short
        _put_back(numbers, setters, stand_ins)


def _put_back(numbers: Sequence[Number], setters: Sequence[Any], stand_ins: Sequence[Any]) -> None:
    for number, write, stand_in in zip(numbers, setters, stand_ins, strict=True):
        if number.place() is stand_in:
            write(number.value)


def drifting(key: Any, others: Iterable[Any]) -> set[str]:
    """The names of floats in the surroundings that alone tell a call's key from `DRIFT` other keys or more."""
    alike = [other for other in others if other._replace(surroundings=()) == key._replace(surroundings=())]
    found = collections.Counter(name for other in alike for name in _floats_between(other, key))
    return {name for name, count in found.items() if count >= DRIFT}


def _floats_between(old: Any, new: Any) -> list[str]:
    """The floats in which two keys' surroundings differ; none if anything else does."""
    (before, *others), (after, *rest) = old.surroundings, new.surroundings
    if others != rest or len(before) != len(after):
        return []
    pairs = [(a, b) for a, b in zip(before, after, strict=True) if a != b]
    only_floats = all(a[0] == b[0] and a[1] is b[1] is float and len(a) == len(b) == 3 for a, b in pairs)
    return [name for (name, *_), _ in pairs] if only_floats else []
