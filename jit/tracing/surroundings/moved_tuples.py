"""Tuples that another of the same length has replaced: a view goes on to the new one instead of being made anew.

Note [Tuples that are replaced]
    Whoever changes a number in a tuple replaces the tuple: a schedule of `betas` makes a new one for every step. By its
    slot alone everything in reach would have to be looked at again. A tuple is no more than its items, though, and each
    of these has a slot or a fact of its own; so the places of the items are pointed to the new tuple, and then asked as
    ever.

        group["betas"] = (0.90, 0.99)            ("betas", EntryOf, (0.90, 0.99))    -> (0.91, 0.99)
        step()                                   ("betas.0", ItemOf(tuple, 0))         asked in the new tuple
        group["betas"] = (0.91, 0.99)

    Only where a tuple stands in one place, and the new one in none: what stands in two has its items under one name.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from .facts import TypeAt
from .places import ItemOf
from .views import View


def follow_tuples(view: View) -> bool:
    """Point the places in tuples to those that stand there now; whether there were any.

    Args:
        view: What was seen; it has to be compared once more.
    """
    found = False
    for number, (name, place, old) in enumerate(view.slots):
        if type(old) is not tuple or not old or (new := place()) is old:
            continue
        if type(new) is not tuple or len(new) != len(old) or not _stands_alone(view, old, new):
            return False
        view.slots[number] = (name, place, new)
        view.take_for(old, new)
        for item in _items_of(view, old):
            item.items = new
        found = True
    return found


def _stands_alone(view: View, old: Any, new: Any) -> bool:
    return not view.has_met(new) and sum(value is old for _, _, value in view.slots) == 1


def _items_of(view: View, container: Any) -> Iterator[ItemOf]:
    asked = (place for _, place in view.places())
    typed = (fact.place for _, fact, _ in view.facts if isinstance(fact, TypeAt))
    for place in (*asked, *typed):
        if isinstance(place, ItemOf) and place.items is container:
            yield place


__all__ = ["follow_tuples"]
