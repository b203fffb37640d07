"""Numbers that a recording takes as inputs instead of baking them in: those of `f.promote(name)`, and those that vary.

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

Note [Numbers that vary]
    A number that never changes stays a constant, which passes can fold. A second value promotes it unasked: the call
    with the second value is recorded with an input in its place, and serves the third. If Python turns out to need
    the number itself - `range(n)`, `math.sqrt(n)`, a key of a dict - then a recording serves one value whether the
    number is an input or not, so it is baked in again for good, and never promoted a second time. So is a number on
    which a function decides in more ways than recordings are kept for.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from functools import partial
from typing import Any, NamedTuple

from jit.ir.errors import UsageError

from .places import DefaultOf, ItemOf, Place, Write

KINDS = (int, float)
"""The kinds of numbers that can be promoted."""


class Spot(NamedTuple):
    """A number's place as the user knows it."""

    is_argument: bool
    """Whether it is an argument, or in one; else the function reads it besides them."""
    name: str


class Promotions:
    """The numbers of one function that are inputs."""

    def __init__(self) -> None:
        self.arguments: set[str] = set()
        """Numbers among the arguments, by the names of `number_arguments`."""
        self.around: set[str] = set()
        """Numbers that the function reads besides its arguments, or from objects among them."""
        self.baked_in: dict[Spot, Any] = {}
        """Numbers that were promoted unasked and are baked in for good, with the line that needs their value."""
        self.unasked: set[Spot] = set()
        """Numbers that nobody has asked to be inputs."""

    def promote(self, name: str) -> None:
        """Make all numbers called `name` inputs."""
        self.arguments.add(name)
        self.around.add(name)

    def is_new(self, spot: Spot) -> bool:
        """Whether a number is no input, and has not been one."""
        return spot not in self.baked_in and spot.name not in self._chosen(spot)

    def promote_unasked(self, spots: Collection[Spot]) -> None:
        """Make numbers inputs until the function is found to need them."""
        self.unasked.update(spots)
        for spot in spots:
            self._chosen(spot).add(spot.name)

    def bake_in(self, lines: Mapping[Spot, Any]) -> bool:
        """Bake numbers in for good that were promoted unasked, `lines` being those that need them; whether any was."""
        found = {spot: line for spot, line in lines.items() if spot in self.unasked}
        self.baked_in.update(found)
        self.unasked -= found.keys()
        for spot in found:
            self._chosen(spot).discard(spot.name)
        return bool(found)

    def _chosen(self, spot: Spot) -> set[str]:
        return self.arguments if spot.is_argument else self.around


class Number(NamedTuple):
    """A promoted number in the surroundings of the function."""

    name: str
    place: Place
    value: Any
    holders: tuple[Place, ...] = ()
    """The places of the tuple in which it stands, if it does: one tuple may stand in several."""


# -- stand-ins ---------------------------------------------------------------------------------------------------


class _Swap(NamedTuple):
    """A place, with what stands there and what does while a function is recorded."""

    read: Callable[[], Any]
    write: Write
    before: Any
    meanwhile: Any


def but_attached(names: Collection[str], holders: Collection[str]) -> Collection[str]:
    """`names` without those of numbers attached to the tensors `holders`: arguments, of which the function gets copies.

    What stood in for such a number would stand in another object than the one that the function reads.
    """
    if not names or not holders:
        return names
    prefixes = tuple(f"{holder}{mark}" for holder in holders for mark in ".[")
    return frozenset(name for name in names if not name.startswith(prefixes))


def can_be_replaced(place: Place, holders: Sequence[Place]) -> bool:
    """Whether a traced number can stand in a place; `holders` are the places of the tuple that the place is in."""
    if isinstance(place, DefaultOf):
        return True
    return all(each.writer() is not None for each in holders or (place,))


@contextlib.contextmanager
def replaced(numbers: Sequence[Number], stand_ins: Sequence[Any]) -> Iterator[None]:
    """Within this block traced numbers stand in the places of promoted ones."""
    swaps = list(_swaps(numbers, stand_ins))
    try:
        try:
            for swap in swaps:
                swap.write(swap.meanwhile)
            yield
        finally:
            _put_back(swaps)
    finally:  # once more: an interrupt may have cut the first time short
        _put_back(swaps)


def _swaps(numbers: Sequence[Number], stand_ins: Sequence[Any]) -> Iterator[_Swap]:
    """The swaps for numbers, those in one tuple together."""
    tuples: dict[int, tuple[list[_Swap], list[Any]]] = {}
    for number, stand_in in zip(numbers, stand_ins, strict=True):
        if not can_be_replaced(number.place, number.holders):
            raise UsageError(
                f"{number.name!r} cannot be promoted, since it is part of an object that cannot be changed; keep it in "
                "a variable, an attribute or a list"
            )
        found = list(_swaps_of_tuple(number))
        if not found:
            yield _Swap(number.place, _writer_of(number.place), number.value, stand_in)
        else:
            before: Any = found[0].before
            index = number.place.index  # type: ignore[attr-defined]
            tuples.setdefault(id(before), (found, list(before)))[1][index] = stand_in
    for swaps, items in tuples.values():
        same = tuple(items)
        yield from (swap._replace(meanwhile=same) for swap in swaps)


def _swaps_of_tuple(number: Number) -> Iterator[_Swap]:
    """The swaps of the tuple in which a number stands, one for each place of it; none if it stands in none."""
    place = number.place
    if isinstance(place, DefaultOf):
        function = place.function
        read, write = partial(getattr, function, "__defaults__"), partial(setattr, function, "__defaults__")
        yield _Swap(read, write, function.__defaults__, None)
    elif isinstance(place, ItemOf):
        yield from (_Swap(holder, _writer_of(holder), place.items, None) for holder in number.holders)


def _writer_of(place: Place) -> Write:
    writer = place.writer()
    assert writer is not None
    return writer


def _put_back(swaps: Sequence[_Swap]) -> None:
    for swap in swaps:
        if swap.read() is swap.meanwhile:
            swap.write(swap.before)
