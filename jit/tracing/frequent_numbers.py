"""Values of promoted arguments that come so often that each gets a recording of its own, with shortcuts to it."""

from __future__ import annotations

from collections import Counter
from typing import Any

from .sizes import MOST_SIZES
from .surroundings.calls import TracedCall

OFTEN = 32
"""The number of calls with the same values that earn these a recording of their own."""
MOST = 4
"""The most values that get one: they share the shortcuts with all other calls."""


class FrequentNumbers:
    """The values of one function's promoted arguments, counted call by call."""

    def __init__(self) -> None:
        self._counts: Counter[Any] = Counter()
        self._frequent: set[Any] = set()

    def include(self, call: TracedCall) -> bool:
        """Whether the values of a call, which is counted, come often; a few may."""
        values = call.promoted_values
        if values in self._frequent:
            return True
        if len(self._frequent) >= MOST:
            return False
        if len(self._counts) >= MOST_SIZES:
            self._counts.clear()
        self._counts[values] += 1
        if self._counts[values] <= OFTEN:
            return False
        self._frequent.add(values)
        return True
