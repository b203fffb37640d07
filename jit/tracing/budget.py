"""The budget of a traced function: which calls are recorded, and which had better run as they are; see Note [Budget].

Note [Budget]
    A recording costs about as much as PRICE = 100 calls of the function itself. It pays if it answers many calls, and
    nobody knows beforehand whether it will. So recordings are paid for with calls:

    * AT_ONCE = 16 recordings are made as soon as a call needs them. Each further one has to be earned: by 100 calls
      that recordings have answered, or by as many that ran untraced as have earned all before, 100, 200, 400, and so
      on. So a function with many branches that are used often gets them all in time, and one that never does the same
      twice stays as fast as it is untraced: at call n, log n recordings have cost it 100 calls each. A recorded call
      that ends in an error of the function's counts like the others.
    * A function that does what no recording can repeat is recorded twice, and from its third call on runs as it is,
      without a look at its arguments. Its state may settle, so it is tried again at its calls 100, 200, 400, and so on:
      a recording of a small function costs far more than 100 calls, and at call n all of these have cost but log n of
      them. If other calls of it could be kept, only those of the same key rest, or all new ones when 8 were not kept.
      With `strict=True` all calls are recorded, since those that cannot be kept are errors.
    * To look at a call costs time as well, and it is in vain where neither a recording serves the call nor a new one is
      allowed. After four such calls in a row the next 2, 4, 8, ... calls run as they are, but no more of them than it
      takes for looking to have a tenth of their time: a function that runs for long may be looked at each time. The
      next call that a recording answers begins this anew, but for those that a shortcut has answered: these need no
      look, and go on while the others rest.

    Sizes that are baked in are recorded when they come a second time (Note [Families]); 64 keys, and 8 paths of one
    key, are the most that is kept at all.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable

PRICE = 100
"""The number of calls that pay for a recording."""
AT_ONCE = 16
"""The number of recordings that nobody has to pay for."""
LOST = 2
"""The number of recordings that may turn out to be of no use for a reason, or for a key, before it costs calls."""
MOST_LOST = 8
"""The same number for a function of which other calls have been kept."""
IN_VAIN = 4
"""The number of calls in a row that are looked at in vain before others are not looked at."""
SHARE = 10
"""The time of calls for each unit of time that goes into looking at them in vain."""


class Budget:
    """The calls and recordings of one function.

    Args:
        hits: Says how many calls recordings have answered.
        is_strict: Whether it is an error if a call cannot be kept; then all are recorded, since else nobody would know.
        looked_up: Says how many of these had to be looked at for that; by default all of them.
    """

    def __init__(
        self, hits: Callable[[], int] = lambda: 0, is_strict: bool = False, looked_up: Callable[[], int] | None = None
    ) -> None:
        self.made = 0
        """Calls that were recorded."""
        self.failed = 0
        """Calls that raised an error of the function's while they were recorded."""
        self.untraced = 0
        """Calls that ran as they are."""
        self.resting = 0
        """The number of calls to come that run as they are whatever they are."""
        self.shortcuts_rest = False
        """Whether the calls that rest need not try shortcuts either: none has answered a call lately."""
        self._in_vain = self._hits_before = self._looked_up_before = 0
        """The number of looks in a row that were in vain, and of hits and looked up ones at the last one."""
        self._hits, self._looked_up = hits, looked_up or hits
        self._is_strict = is_strict
        self._lost: Counter[str] = Counter()
        """Recordings that were not kept, by the reason."""
        self._forgiven = 0
        """The number of recordings that need not be paid for any more."""

    @property
    def calls(self) -> int:
        """All calls so far."""
        return self._hits() + self.made + self.failed + self.untraced

    @property
    def has_given_up(self) -> bool:
        """Whether so many calls could not be kept that those of new keys are not recorded."""
        return bool(self._lost) and self._gave_up(self._tries())

    def _gave_up(self, tries: int) -> bool:
        lost = self._lost.total()
        most = max(self._lost.values()) if lost == self.made else 0
        return most >= LOST + tries or lost >= MOST_LOST + tries

    def refuses(self, lost: int = 0) -> str | None:
        """Why a call is not to be recorded, in words that fit behind "because"; None if it may be.

        Args:
            lost: The number of recordings of its key that were not kept.
        """
        if self._is_strict:
            return None
        tries = self._tries() if self._lost or lost else 0
        if (self._lost and self._gave_up(tries)) or lost >= LOST + tries:
            return "it does what a recording cannot repeat in every call"
        recorded = self.made + self.failed
        earned = self._hits() // PRICE + (self.untraced // PRICE).bit_length()
        if recorded - self._forgiven >= AT_ONCE + earned:
            return f"it has been recorded {recorded} times in {self.calls} calls, more than these pay for"
        return None

    def lose(self, reason: str) -> None:
        """Note that a recording was not kept."""
        self._lost[reason] += 1

    def rest(self, looked: float = 0.0, ran: float = 1.0) -> None:
        """Let calls run as they are for a while, after one that was looked at in vain.

        Args:
            looked: The seconds that the look at it took.
            ran: The seconds that it ran.
        """
        if self._lost.total() == self.made:  # nothing could answer them
            self.resting, self.shortcuts_rest = (PRICE << self._tries()) - self.calls, True
            return
        hits, looked_up = self._hits(), self._looked_up()
        self.shortcuts_rest = hits == self._hits_before
        self._in_vain = self._in_vain + 1 if looked_up == self._looked_up_before else 1
        self._hits_before, self._looked_up_before = hits, looked_up
        if self._in_vain > IN_VAIN:
            most = min(PRICE, int(SHARE * looked / max(ran, 1e-9)))
            self.resting = min(most, 1 << min(self._in_vain - IN_VAIN, PRICE))

    def renew(self) -> None:
        """Let it have as many recordings at once as a new function: somebody has changed what it does."""
        self._forgiven, self.resting = self.made + self.failed, 0
        self._lost.clear()

    def clear(self) -> None:
        """Begin anew."""
        self.made = self.failed = self.untraced = 0
        self.renew()

    def _tries(self) -> int:
        """The number of calls 100, 200, 400, ... so far, at which what was not kept is worth another try."""
        return (self.calls // PRICE).bit_length()
