"""Numbers that a recording takes as inputs instead of baking them in: what `f.promote(name)` asked for.

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
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator, Sequence
from typing import Any, NamedTuple

from ..ir.errors import UsageError

KINDS = (int, float)
"""What can be promoted."""


class Number(NamedTuple):
    """A promoted number that stands somewhere around the function."""

    name: str
    fetch: Callable[[], Any]
    value: Any


def setter(fetch: Callable[[], Any]) -> Callable[[Any], None] | None:
    """What writes to the place that `fetch` reads; None where Python cannot."""
    function: Any = getattr(fetch, "func", None)
    args: tuple[Any, ...] = getattr(fetch, "args", ())
    owner = getattr(function, "__self__", None)
    if isinstance(owner, dict) and len(args) == 1:
        return lambda value: owner.__setitem__(args[0], value)
    if getattr(function, "__name__", "") == "_contents":
        return lambda value: setattr(args[0], "cell_contents", value)
    if getattr(function, "__name__", "") == "_item" and isinstance(args[0], list):
        return lambda value: args[0].__setitem__(args[1], value)
    if getattr(function, "__name__", "") == "_class_entry":
        return lambda value: setattr(args[0], args[1], value)
    return None


@contextlib.contextmanager
def replaced(numbers: Sequence[Number], stand_ins: Sequence[Any]) -> Iterator[None]:
    """Within this block traced numbers stand in the places of promoted ones."""
    setters = [setter(number.fetch) for number in numbers]
    for number, write in zip(numbers, setters, strict=True):
        if write is None:
            raise UsageError(f"{number.name!r} cannot be promoted: it is part of a tuple, a default or a property")
    try:
        try:
            for write, stand_in in zip(setters, stand_ins, strict=True):
                assert write is not None
                write(stand_in)
            yield
        finally:
            _put_back(numbers, setters, stand_ins)
    finally:  # once more: an interrupt may have come in the place of the first time
        _put_back(numbers, setters, stand_ins)


def _put_back(numbers: Sequence[Number], setters: Sequence[Any], stand_ins: Sequence[Any]) -> None:
    for number, write, stand_in in zip(numbers, setters, stand_ins, strict=True):
        if number.fetch() is stand_in:
            write(number.value)
