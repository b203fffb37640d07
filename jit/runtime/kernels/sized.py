"""Records that speak of sizes which are expressions - nests, loops, works, layouts -, and what they are at some sizes.

Code of kernels takes extents and strides when it is called, so one function serves all sizes. What is chosen by looking
at a size, such as how many points a turn takes, is chosen for the sizes at hand and right for all others.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import fields, is_dataclass
from typing import Any

import numpy as np

from jit.ir.dtypes import DType
from jit.ir.sizes import SizeExpr

Number = Callable[[SizeExpr], int]
_PLAIN = (int, float, bool, str, bytes, complex, type(None), DType, np.ndarray, np.dtype)


def at_sizes(thing: Any, number: Number) -> Any:
    """A record, or tuples, lists and dicts of them, in which sizes are numbers; itself if there are none in it.

    >>> from jit.ir.sizes import SizeSymbol
    >>> n = SizeSymbol("n")
    >>> at_sizes((n.size, 2 * n.size), lambda size: size.evaluate({n: 5}))
    (5, 10)
    """
    made = maker_of(thing)
    return thing if made is None else made(number)


def maker_of(thing: Any) -> Callable[[Number], Any] | None:
    """A function that makes a record anew with numbers for its sizes, asked for in order; None if it has no sizes."""
    kind = type(thing)
    if kind is SizeExpr:
        return lambda number: number(thing)
    if kind in _PLAIN or callable(thing):
        return None
    if kind in (tuple, list):
        return _items_maker(kind, thing)
    if kind is dict:
        of_items = _items_maker(list, list(thing.values()))
        return of_items and (lambda number: dict(zip(thing, of_items(number), strict=True)))
    if isinstance(thing, tuple) and hasattr(thing, "_make"):
        return _items_maker(kind._make, thing)
    return _record_maker(thing) if is_dataclass(thing) else None


def _items_maker(make: Callable[[list[Any]], Any], items: Sequence[Any]) -> Callable[[Number], Any] | None:
    makers = {index: maker for index, item in enumerate(items) if (maker := maker_of(item)) is not None}

    def made(number: Number) -> Any:
        found = list(items)
        for index, maker in makers.items():
            found[index] = maker(number)
        return make(found)

    return made if makers else None


def _record_maker(record: Any) -> Callable[[Number], Any] | None:
    given = {field.name: getattr(record, field.name) for field in fields(record) if field.init}
    makers = {name: maker for name, item in given.items() if (maker := maker_of(item)) is not None}
    kind = type(record)
    return (lambda number: kind(**given | {name: maker(number) for name, maker in makers.items()})) if makers else None


def sizes_in(thing: Any) -> list[SizeExpr]:
    """The sizes in a record that are expressions, in the order in which its maker asks for them."""
    found: list[SizeExpr] = []

    def noted(size: SizeExpr) -> Any:
        found.append(size)
        return size

    at_sizes(thing, noted)
    return found
