"""Plans of a recording for many sizes: a few of them, each right for all sizes that meet its conditions.

Note [One plan for most sizes]
    A graph with names for sizes is improved and planned as any other; what passes and planner decide on sizes is
    answered for the sizes of the call at hand, and most of it is either right for all sizes or becomes a condition
    (`jit.ir.sizes.only_if`, `estimating`). A call whose sizes meet the conditions of a plan runs it. Choices that are
    right for all sizes are good for those of the same magnitude alone, so much larger ones get a plan of their own:

        f(ones(5, 64))       planned for n = 5       no condition
        f(ones(9, 64))       the same plan
        f(ones(900, 64))     planned for n = 900, where products are computed by tiles

    Planning takes many times as long as a call, so there are few plans: sizes that none suits run the one whose
    conditions they meet, or the interpreter. Plans are kept on disk (`kept_sized_plans`).
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import NamedTuple

from jit.ir import Graph
from jit.ir.errors import Error
from jit.ir.size_conditions import SizeCondition, SizeConditions, compiled
from jit.ir.sizes import deciding

from ..patience import patience
from .chains import Plan
from .kept_sized_plans import KeptSizedPlans
from .named_sizes import NamedSizes

MOST = 8
"""The most plans of one graph."""
ALIKE = 8
"""The factor up to which sizes are of one magnitude."""


@dataclass(frozen=True)
class SizedPlan:
    """A plan, the sizes that it was made for, and what must hold of others."""

    plan: Plan
    sizes: tuple[int, ...]
    holds: Callable[..., bool]

    def suits(self, sizes: Sequence[int]) -> bool:
        """Whether it is right for sizes, and good."""
        return is_alike(sizes, self.sizes) and self.holds(*sizes)


def is_alike(sizes: Sequence[int], others: Sequence[int]) -> bool:
    """Whether sizes are of one magnitude."""
    return all(a <= ALIKE * b and b <= ALIKE * a for a, b in zip(sizes, others, strict=True))


class PlanMakers(NamedTuple):
    """The functions that make plans of graphs."""

    planned: Callable[[Graph], Plan]
    """Improves and plans a graph, in a block in which sizes are decided."""
    interpreted: Callable[[Graph], Plan]
    """The plan that is right for all sizes."""
    finished: Callable[[Plan], Plan]
    """The plan as its recording needs it, of one as its graph alone needs it."""


class SizedPlans:
    """The plans of one graph.

    Args:
        graph: The graph, tidy.
        named: The symbols in it, and the conditions on them under which it was recorded.
        makers: Make plans.
        kept: Those that are in the cache; None if none are kept.
    """

    def __init__(self, graph: Graph, named: NamedSizes, makers: PlanMakers, kept: KeptSizedPlans | None) -> None:
        self.made: tuple[SizedPlan, ...] = ()
        self._graph = graph
        self._symbols = named.symbols
        self._given = named.conditions[0]
        self._makers = makers
        self._kept = kept
        self._interpreting: Plan | None = None
        self._lock = threading.RLock()

    def at(self, sizes: tuple[int, ...]) -> Plan:
        """The plan for sizes, one for each symbol."""
        for found in self.made:
            if found.suits(sizes):
                return found.plan
        with self._lock, patience():
            found = next((each for each in self.made if each.suits(sizes)), None) or self._further(sizes)
            return found.plan

    def _further(self, sizes: tuple[int, ...]) -> SizedPlan:
        """A further plan, or if there are enough of them, one that is right."""
        if len(self.made) < MOST:
            self.made = (*self.made, self._planned(sizes))
            return self.made[-1]
        right = next((each for each in self.made if each.holds(*sizes)), None)
        return right or self._by_interpreter(sizes)

    def _planned(self, sizes: tuple[int, ...]) -> SizedPlan:
        if self._kept is None:
            return self._made_and_kept(sizes)
        found = self._recalled(sizes)
        if found is None:
            with self._kept.turn():
                found = self._recalled(sizes) or self._made_and_kept(sizes)
        return found

    def _made_and_kept(self, sizes: tuple[int, ...]) -> SizedPlan:
        try:
            plan, found = self._made_for(sizes)
        except Error:  # something needs a size as a number that no plan can know
            return self._by_interpreter(sizes)
        if self._kept is not None:
            self._kept.keep(plan, sizes, found)
        return SizedPlan(self._makers.finished(plan), sizes, compiled(found, self._symbols))

    def _made_for(self, sizes: Sequence[int]) -> tuple[Plan, list[SizeCondition]]:
        """A plan made for some sizes, and what must hold of others."""
        conditions = SizeConditions(dict(zip(self._symbols, sizes, strict=True)), self._given)
        with deciding(conditions):
            plan = self._makers.planned(self._graph)
        return plan, conditions.found

    def _recalled(self, sizes: tuple[int, ...]) -> SizedPlan | None:
        """A plan from the cache that suits some sizes."""
        names = [symbol.name for symbol in self._symbols]
        for known in reversed(self._kept.known() if self._kept is not None else []):
            holds = known.holds(names)
            plan = self._restored(known.sizes) if is_alike(sizes, known.sizes) and holds(*sizes) else None
            if plan is not None:
                return SizedPlan(self._makers.finished(plan), known.sizes, holds)
        return None

    def _restored(self, sizes: tuple[int, ...]) -> Plan | None:
        """The plan from the cache that was made for some sizes."""
        assert self._kept is not None
        return self._kept.recalled(sizes, lambda: self._graph, lambda _: self._made_for(sizes)[0].interpreter)

    def _by_interpreter(self, sizes: tuple[int, ...]) -> SizedPlan:
        self._interpreting = self._interpreting or self._makers.finished(self._makers.interpreted(self._graph))
        return SizedPlan(self._interpreting, sizes, lambda *sizes: True)
