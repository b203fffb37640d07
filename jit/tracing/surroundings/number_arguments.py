"""Numbers in the arguments of a call: found in their nests by name, left out of the key, and replaced by stand-ins.

A number is called by the way to it: `scale`, `config.lr`, `kwargs.beta`, `options.0`.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Sequence
from typing import Any, NamedTuple

from jit.eager.pytree import Structure, flatten, part_names

from .promoting import KINDS


class Promoted(NamedTuple):
    """Stands for a promoted number in the key."""

    kind: type


PLACES = {kind: flatten(Promoted(kind))[1] for kind in KINDS}
"""The structure that stands in the key for a promoted number of a kind."""


class _StandIn(NamedTuple):
    """Holds a traced number as a `Static` holds a plain one, but is never compared."""

    value: Any


def numbers_between(old: Structure, new: Structure, name: str) -> Iterator[str] | None:
    """The names of the numbers in which two nests differ; None if they differ in anything else."""
    found: list[str] = []
    return iter(found) if _differ_in_numbers(old, new, name, found) else None


def _differ_in_numbers(old: Structure, new: Structure, name: str, found: list[str]) -> bool:
    if old == new:
        return True
    if old.kind == new.kind == "static":
        before, after = old.keys[0].value, new.keys[0].value
        found.append(name)
        return type(before) is type(after) and type(after) in KINDS
    if old.kind != new.kind or old.keys != new.keys or len(old.children) != len(new.children):
        return False
    parts = zip(old.children, new.children, part_names(new, name), strict=True)
    return all(_differ_in_numbers(before, after, part, found) for before, after, part in parts)


def without_numbers(
    structure: Structure, name: str, chosen: Collection[str], found: list[tuple[str, Any]]
) -> Structure:
    """A nest with places for its promoted numbers, which are added to `found` with their names.

    Args:
        structure: The nest.
        name: The argument's name.
        chosen: The names of the numbers that are promoted.
        found: Takes the numbers in the order of their places.
    """

    def taken(value: Any, name: str) -> Structure | None:
        if type(value) not in KINDS or name not in chosen:
            return None
        found.append((name, value))
        return PLACES[type(value)]

    return _mapped(structure, name, taken)


def with_stand_ins(structure: Structure, stand_ins: Iterator[Any]) -> Structure:
    """A nest with the next ones of `stand_ins` in the places of promoted numbers."""
    if structure.kind is Promoted:
        return Structure("static", (_StandIn(next(stand_ins)),), ())
    if not structure.children:
        return structure
    return structure._replace(children=tuple(with_stand_ins(child, stand_ins) for child in structure.children))


def count_of(structures: Sequence[Structure]) -> int:
    """The number of places for promoted numbers."""
    return sum(1 if s.kind is Promoted else count_of(s.children) for s in structures)


def _mapped(structure: Structure, name: str, replace: Callable[[Any, str], Structure | None]) -> Structure:
    """A nest with other structures in the places of some static values."""
    if structure.kind == "static":
        return replace(structure.keys[0].value, name) or structure
    if not structure.children:
        return structure
    names = part_names(structure, name)
    children = tuple(_mapped(child, part, replace) for child, part in zip(structure.children, names, strict=True))
    return structure if children == structure.children else structure._replace(children=children)


__all__ = ["PLACES", "Promoted", "count_of", "numbers_between", "with_stand_ins", "without_numbers"]
