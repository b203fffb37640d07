"""Results of exchanges during one call, so that none of them happens twice when the call starts again.

Note [Exchanges happen once]
    A traced call runs a recording up to a guard that fails, and then starts again; a backward may run its forward once
    more. The other processes need not do the same: their guards may hold. They would wait for an exchange that does not
    come, or get one that is not meant for them. So what an exchange has given in such a call is kept, and is given
    again when the call comes to it once more.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator
from contextvars import ContextVar
from typing import Any

from jit.ir.errors import DistributedError

from .works import Work


class Exchanges:
    """The exchanges of one call, and how far a second run has got.

    Args:
        made: Those that have happened, each with what it was.
        outer: Those of the call around this one.
    """

    def __init__(self, made: list[tuple[str, Work]] | None = None, outer: Exchanges | None = None) -> None:
        self.made = [] if made is None else made
        self.at = 0
        self.outer = outer

    def begin(self, text: str, begin: Callable[[], Work], into: Any = None) -> Work:
        """The exchange that is next: one that has happened, or one that begins now.

        Args:
            text: What it is.
            begin: Begins it.
            into: The array that its result overwrites, if it overwrites one.

        Raises:
            DistributedError: Another one has happened here.
        """
        self.at += 1
        if self.at <= len(self.made):
            known, work = self.made[self.at - 1]
            if known != text:
                raise DistributedError(f"a traced call did {known}, and when it started again, {text}; run it untraced")
            return work.again(into)
        work = begin() if self.outer is None else self.outer.begin(text, begin, into)
        work.keep()
        self.made.append((text, work))
        return work

    def again(self, outer: Exchanges | None = None) -> Exchanges:
        """The same exchanges, to be met again from the first one on; those that follow are added to both.

        Args:
            outer: Those of the call around the new run; as here unless given.
        """
        return Exchanges(self.made, outer or self.outer)


_CURRENT: ContextVar[Exchanges | None] = ContextVar("exchanges", default=None)


def current_exchanges() -> Exchanges | None:
    """The exchanges of the call under way, if it keeps them."""
    return _CURRENT.get()


def start_again() -> None:
    """Meet the exchanges of the call under way from the first one on."""
    exchanges = _CURRENT.get()
    if exchanges is not None:
        exchanges.at = 0


@contextlib.contextmanager
def exchanging(exchanges: Exchanges | None) -> Iterator[None]:
    """Within this block, let exchanges be among these.

    Args:
        exchanges: What is kept; nothing is if None.
    """
    token = _CURRENT.set(exchanges)
    try:
        yield
    finally:
        _CURRENT.reset(token)
