"""The way out where a model does not hold for all sizes of an axis: often, the range for which it does."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from jit.ir.size_conditions import SizeCondition
from jit.ir.sizes import SizeSymbol, bounds_of, within_bounds

if TYPE_CHECKING:
    from .naming_sizes import Asked
    from .sizes import SizedGraph

FARTHEST = 1 << 24
"""The greatest size that is named as a bound."""


def way_out(found: SizedGraph, asked: Asked) -> str:
    """The advice for a condition that does not follow from the ranges of the axes.

    Args:
        found: Has the axes.
        asked: The condition.
    """
    condition = asked.condition
    symbols = condition.size.symbols
    if len(symbols) > 1 and condition.relation == "==" and condition.size.evaluate(dict.fromkeys(symbols, 7)) == 0:
        return "if these axes are always equal, give them one name"
    bounds = _range_for_all(found, condition)
    if bounds is not None:
        name = found.axes[next(iter(symbols))].name
        return f"the range {as_given(name, *bounds)} for the axis would do"
    if asked.is_decision:
        return "leave the axis out of dynamic_axes, or compute with the size instead of deciding on it"
    return "leave the axis out of dynamic_axes, or compute the size from the tensor's shape"


def _range_for_all(found: SizedGraph, condition: SizeCondition) -> tuple[int, int | None] | None:
    """The range of an axis from which all conditions on it would follow that can follow from one."""
    if suggested_range(found, condition) is None:
        return None
    conditions = [c for c in found.conditions.found if c.size.symbols == condition.size.symbols]
    ranges = [bounds for bounds in (suggested_range(found, each) for each in conditions) if bounds is not None]
    highs = [high for _, high in ranges if high is not None]
    return max(low for low, _ in ranges), min(highs, default=None)


def words(found: SizedGraph, condition: SizeCondition) -> str:
    """The condition, as a bound of the axis itself if it is one: `h >= 6` for `(h+2)//4 >= 2`."""
    bounds = suggested_range(found, condition) if condition.relation == ">=" else None
    if bounds is None:
        return str(condition)
    (symbol,), (low, high) = condition.size.symbols, bounds
    return f"{symbol} >= {low}" if high == symbol.high else f"{symbol} <= {high}"


def as_given(name: str, low: int, high: int | None) -> tuple[str, int] | tuple[str, int, int]:
    """An axis and its range as users give them.

    Args:
        name: The name of the axis.
        low: Its least size.
        high: Its greatest size, or None.
    """
    return (name, low) if high is None else (name, low, high)


def suggested_range(found: SizedGraph, condition: SizeCondition) -> tuple[int, int | None] | None:
    """The range of an axis from which a condition would follow; None if there is none, or it is about several axes."""
    if len(condition.size.symbols) != 1:
        return None
    (symbol,) = condition.size.symbols
    return range_for(condition, symbol, symbol.low, symbol.high, found.recorded[symbol])


def range_for(
    condition: SizeCondition, symbol: SizeSymbol, low: int, high: int | None, now: int
) -> tuple[int, int | None] | None:
    """The widest range around a size from which a condition on one symbol follows; None if there is none.

    Args:
        condition: It holds for `now`.
        symbol: The symbol.
        low: The least size of the axis.
        high: The greatest, or None.
        now: The recorded size.

    >>> n = SizeSymbol("n")
    >>> range_for(SizeCondition(">=", n.size - 3), n, 1, None, 8)
    (3, None)
    >>> range_for(SizeCondition(">=", 9 - n.size), n, 1, None, 8)
    (1, 9)
    """
    if _follows(condition, symbol, now, high):
        least = _last(lambda n: _follows(condition, symbol, n, high), now, low)
        return (least, high) if high is None or high > max(least, 1) else None
    if _follows(condition, symbol, low, now):
        far = FARTHEST if high is None else high
        greatest = _last(lambda n: _follows(condition, symbol, low, n), now, far)
        return (low, greatest) if greatest > max(low, 1) else None
    return None


def _follows(condition: SizeCondition, symbol: SizeSymbol, low: int, high: int | None) -> bool:
    size = condition.size.evaluate({symbol: low if low == high else SizeSymbol(symbol.name, low, high).size})
    known = within_bounds("==" if condition.relation == "!=" else condition.relation, bounds_of(size))
    return known is (condition.relation != "!=")


def _last(holds: Callable[[int], bool], good: int, end: int) -> int:
    """The number nearest to `end` for which something holds, as it does from `good` up to there."""
    if holds(end):
        return end
    while abs(end - good) > 1:
        middle = (good + end) // 2
        good, end = (middle, end) if holds(middle) else (good, middle)
    return good
