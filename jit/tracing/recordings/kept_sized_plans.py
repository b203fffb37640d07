"""Keeps plans for many sizes in the cache on disk: the next process runs those that are right for its own sizes.

Note [Which plans are kept of a graph]
    A graph with names for sizes has several plans, each made for some sizes, and right under conditions of its own
    (Note [One plan for most sizes] in `sized_plans`). So its name in the cache, which the graph as plain data decides
    on, its symbols in it, and the conditions under which it was recorded, is that of a list:

        name                     [[[5, 64], []], [[900, 64], [[">=", "n-4"]]]]     sizes, conditions
        digest(name, 5, 64)      a plan, as those for one size
        digest(name, 900, 64)    another one

    A process asks the list for a plan that suits the sizes of a call, as it asks the plans that it has made. Processes
    take turns in making plans for one list. Where they cannot, and two add to the list at once, one of them wins; the
    other one's plan is made and added again when it is needed.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager
from typing import NamedTuple

from jit.ir import Graph
from jit.ir.size_conditions import RELATIONS, SizeCondition
from jit.runtime.arrays.programs import Engine
from jit.runtime.kernels import cache
from jit.runtime.plans.sized_words import checked

from . import kept_plans
from .chains import Plan
from .named_sizes import NamedSizes

_MOST = 32
"""The most plans that are kept of one graph: the latest ones."""


class KeptPlan(NamedTuple):
    """The plan of a list in the cache."""

    sizes: tuple[int, ...]
    """The sizes that it was made for."""
    conditions: tuple[tuple[str, str], ...]
    """The conditions that others must meet: relations to 0, and the texts of sizes."""

    def holds(self, names: Sequence[str]) -> Callable[..., bool]:
        """A function of the values of symbols that says whether all conditions hold."""
        checked([size for _, size in self.conditions], names)
        tests = [f"({size}) {relation} 0" if relation in RELATIONS else "False" for relation, size in self.conditions]
        found: Callable[..., bool] = eval(f"lambda {', '.join(names)}: {' and '.join(tests) or True}")
        return found


class KeptSizedPlans:
    """The plans of one graph that are in the cache.

    Args:
        name: The name of the list.
    """

    def __init__(self, name: str) -> None:
        self._name = name

    @staticmethod
    def of(graph: Graph, named: NamedSizes) -> KeptSizedPlans | None:
        """The plans of a graph; None if it has none there."""
        given = tuple(str(condition) for condition in named.conditions[0])
        symbols = tuple((symbol.name, symbol.low, symbol.high) for symbol in named.symbols)
        name = kept_plans.name_of_sized(graph, (symbols, given))
        return None if name is None else KeptSizedPlans(name)

    def known(self) -> list[KeptPlan]:
        """The lines of the list just now, the latest last."""
        kept = cache.shared()
        data = kept.load(self._name) if kept is not None else None
        return [KeptPlan(tuple(sizes), tuple(map(tuple, found))) for sizes, found in json.loads(data or b"[]")]

    def turn(self) -> AbstractContextManager[None]:
        """A block in which no other process makes plans for the list; it may have made one before."""
        return kept_plans.turn(self._name)

    def recalled(
        self, sizes: Sequence[int], source: Callable[[], Graph], make: Callable[[Graph], Engine]
    ) -> Plan | None:
        """The plan that was made for some sizes; None if it is gone, or does not run here."""
        return kept_plans.recalled(self._name_of(sizes), source, make)

    def keep(self, plan: Plan, sizes: Sequence[int], conditions: Sequence[SizeCondition]) -> None:
        """Store a plan for other processes, if it is plain data."""
        kept = cache.shared()
        if kept is None or not kept_plans.keep(self._name_of(sizes), plan):
            return
        others = [each for each in self.known() if each.sizes != tuple(sizes)]
        found = tuple((condition.relation, str(condition.size)) for condition in conditions)
        every = [*others, KeptPlan(tuple(sizes), found)][-_MOST:]
        kept.store(self._name, json.dumps(every).encode())

    def _name_of(self, sizes: Sequence[int]) -> str:
        return cache.digest([self._name, *map(str, sizes)])
