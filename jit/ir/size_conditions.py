"""Conditions on sizes: what was decided while something was computed with them, and for which sizes it is right.

    >>> n = SizeSymbol("n")
    >>> conditions = SizeConditions({n: 12})
    >>> with deciding(conditions):
    ...     n.size > 1, n.size % 4 == 0, n.size // 4 * 4 == n.size, n.size < 40
    (True, True, True, True)
    >>> print(*conditions.found, sep="; ")
    n % 4 == 0; 39 >= n

The first question is answered by the bounds of `n`, the third one by what the second one has found.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from .errors import UndecidedSizeError
from .sizes import (
    Atom,
    Bounds,
    Decider,
    SizeExpr,
    SizeFunction,
    SizeSymbol,
    bounds_of,
    deciding,
    within_bounds,
    without_quotients,
)

RELATIONS: Mapping[str, Callable[[int], bool]] = {
    "==": lambda size: size == 0,
    "!=": lambda size: size != 0,
    ">=": lambda size: size >= 0,
}
"""The relations in which a size can stand to 0."""


@dataclass(frozen=True)
class SizeCondition:
    """A condition `size relation 0`."""

    relation: str
    size: SizeExpr
    source: Any = field(default=None, compare=False)
    """The user's line that asked."""

    def holds(self, values: Mapping[SizeSymbol, int]) -> bool:
        """Whether it holds for these values of the symbols."""
        return RELATIONS[self.relation](self.size.evaluate(values))

    def __eq__(self, other: object) -> bool:
        return isinstance(other, SizeCondition) and str(self) == str(other)

    def __hash__(self) -> int:
        return hash((self.relation, self.size))

    def __str__(self) -> str:
        terms = self.size.terms
        left = SizeExpr({product: factor for product, factor in terms.items() if factor > 0})
        right = SizeExpr({product: -factor for product, factor in terms.items() if factor < 0})
        return f"{left if left.terms else 0} {self.relation} {right if right.terms else 0}"


class SizeConditions:
    """Decides questions about sizes: by what is known of them, else by what they are now, which then is a condition.

    Args:
        values: The numbers that the symbols stand for now.
        given: Conditions that hold already.
    """

    def __init__(self, values: Mapping[SizeSymbol, int], given: Iterable[SizeCondition] = ()) -> None:
        self.values = dict(values)
        self.found: list[SizeCondition] = []
        """The conditions under which answers were given, in order; without `given`."""
        self.source: Any = None
        """The user's line for which questions are asked now."""
        self._same: dict[Atom, int] = {}
        """Atoms that are equal to something simpler."""
        self._bounds: dict[Atom, Bounds] = {}
        self._known: dict[SizeCondition, bool] = {}
        for condition in given:
            self._learn(condition)

    def decide(self, relation: str, difference: SizeExpr) -> bool:
        """Whether `difference relation 0`, relation being "==" or ">="."""
        with deciding(_KnownValues(self.values)):
            return self._decide(relation, difference)

    @property
    def estimating(self) -> Decider:
        """Someone who answers for the present values, and notes no condition."""
        return _KnownValues(self.values)

    def number(self, size: SizeExpr) -> int:
        """The number that a size is now; that it is this one becomes a condition."""
        found = _number(size, self.values)
        self.decide("==", size - found)
        return found

    def _decide(self, relation: str, difference: SizeExpr) -> bool:
        size = self.simplified(difference)
        other = self.simplified(without_quotients(size))
        if _length(other) < _length(size):
            size = other
        if type(size) is not SizeExpr:
            return RELATIONS[relation](size)
        known = within_bounds(relation, bounds_of(size, self._bounds))
        if known is not None:
            return known
        reduced = _reduced(relation, size)
        if type(reduced) is not SizeExpr:
            return reduced is not None
        condition = SizeCondition(relation, reduced, self.source)
        if condition in self._known:
            return self._known[condition]
        outcome = RELATIONS[relation](_number(reduced, self.values))
        taken = condition if outcome else _opposite(condition)
        self.found.append(taken)
        self._learn(taken)
        return outcome

    def holds(self, values: Mapping[SizeSymbol, int]) -> bool:
        """Whether everything that was found holds for these values."""
        return all(condition.holds(values) for condition in self.found)

    @property
    def equates(self) -> bool:
        """Whether sizes are known to be equal, so that there is anything to simplify."""
        return bool(self._same)

    def assume(self, condition: SizeCondition) -> None:
        """Take a condition for granted from now on."""
        self._learn(condition)

    def mark(self) -> tuple[Any, ...]:
        """All that is known now, for `return_to`."""
        return list(self.found), dict(self._same), dict(self._bounds), dict(self._known)

    def return_to(self, mark: tuple[Any, ...]) -> None:
        """Forget what was decided since `mark`."""
        self.found, self._same, self._bounds, self._known = mark

    def would_say(self, relation: str, difference: SizeExpr) -> bool | None:
        """Whether `difference relation 0`, if that is known; None where it depends on the sizes."""
        mark = self.mark()
        with deciding(_KnownValues(self.values)):
            outcome = self._decide(relation, difference)
        asked = len(self.found) > len(mark[0])
        self.return_to(mark)
        return None if asked else outcome

    # -- what is known -------------------------------------------------------------------------------------------

    def simplified(self, size: int) -> int:
        """The size with what is known to be equal by one name, or by its number."""
        return size.evaluate(self._same) if self._same and type(size) is SizeExpr else size

    def _learn(self, condition: SizeCondition) -> None:
        self._known[condition] = True
        if condition.relation == ">=":
            self._tighten(condition.size)
        else:
            self._known[SizeCondition("==", condition.size)] = condition.relation == "=="
        if condition.relation == "==":
            self._substitute(condition.size)

    def _tighten(self, size: SizeExpr) -> None:
        """`a*x + b >= 0`: a bound of x."""
        terms = dict(size.terms)
        number = terms.pop((), 0)
        if len(terms) != 1:
            return
        ((product, factor),) = terms.items()
        if len(product) != 1:
            return
        low, high = self._bounds.get(product[0], (None, None))
        if factor > 0:
            found = -(number // factor)
            self._bounds[product[0]] = (found if low is None else max(low, found), high)
        else:
            found = number // -factor
            self._bounds[product[0]] = (low, found if high is None else min(high, found))

    def _substitute(self, size: SizeExpr) -> None:
        """`x - y == 0`: x is y from now on."""
        for product, factor in sorted(size.terms.items(), key=_simplest_last):
            if len(product) == 1 and abs(factor) == 1:
                atom = product[0]
                value = SizeExpr({product: 1}) - factor * size
                if not _mentions(value, atom):
                    self._same = {a: _replaced(v, {atom: value}) for a, v in self._same.items()}
                    self._same[atom] = value
                    return


class _KnownValues:
    """Decides by numbers, and notes nothing: what a size was made under, such as divisors of 1 or more, is known."""

    def __init__(self, values: Mapping[SizeSymbol, int]) -> None:
        self.values = values

    def decide(self, relation: str, difference: SizeExpr) -> bool:
        return RELATIONS[relation](self.number(difference))

    def number(self, size: SizeExpr) -> int:
        return _number(size, self.values)

    @property
    def estimating(self) -> Decider:
        return self


def _number(size: SizeExpr, values: Mapping[SizeSymbol, int]) -> int:
    found = size.evaluate(values)
    if type(found) is SizeExpr:
        raise UndecidedSizeError(f"{size} is not known as a number: nobody has said what its symbols stand for")
    return found


def _simplest_last(term: Any) -> Any:
    """Functions are replaced before symbols, and of these the last by name."""
    product, _ = term
    return (0, "") if not product or isinstance(product[0], SizeFunction) else (1, -ord(str(product[0])[0]))


def _replaced(size: int, values: Mapping[Any, int]) -> int:
    return size.evaluate(values) if type(size) is SizeExpr else size


def _length(size: int) -> int:
    return len(size.terms) if type(size) is SizeExpr else 0


def _mentions(size: int, atom: Atom) -> bool:
    if type(size) is not SizeExpr:
        return False
    for other in {a for product in size.terms for a in product}:
        if other == atom or (isinstance(other, SizeFunction) and any(_mentions(o, atom) for o in other.operands)):
            return True
    return False


def _reduced(relation: str, size: SizeExpr) -> SizeExpr | bool | None:
    """The size divided by what its coefficients share; None if it cannot be 0 as is asked."""
    terms = dict(size.terms)
    number = terms.pop((), 0)
    common = math.gcd(*terms.values())
    if relation == "==":
        if number % common:
            return None
        if next(iter(size.terms.values())) < 0:
            common = -common
    return SizeExpr({product: factor // common for product, factor in terms.items()}) + number // common


def _opposite(condition: SizeCondition) -> SizeCondition:
    if condition.relation == "==":
        return SizeCondition("!=", condition.size, condition.source)
    return SizeCondition(">=", -condition.size - 1, condition.source)


def compiled(conditions: Sequence[SizeCondition], symbols: Sequence[SizeSymbol]) -> Callable[..., bool]:
    """A function of the symbols' values that says whether all conditions hold.

    >>> n = SizeSymbol("n")
    >>> compiled([SizeCondition(">=", n.size - 3)], [n])(2)
    False
    """
    return eval(f"lambda {', '.join(s.name for s in symbols)}: {' and '.join(map(str, conditions)) or True}")


__all__ = ["RELATIONS", "Decider", "SizeCondition", "SizeConditions", "deciding", "compiled"]
