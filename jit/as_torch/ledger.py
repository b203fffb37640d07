"""The ledger of the door: which names of torch a program has used, which it missed, and what was passed over."""

from __future__ import annotations

import sys
from collections.abc import Callable

from jit.eager import context


class Ledger:
    """The record of what happened at the door so far."""

    def __init__(self) -> None:
        self.is_loud = False
        """Whether notes are written to stderr when they are made."""
        self.used: set[str] = set()
        """The names that were found."""
        self.missing: dict[str, str] = {}
        """The names that were asked for and are absent, each with the user's line that asked first."""
        self.notes: dict[str, None] = {}
        """Sentences on calls that do nothing here, or something else."""
        self.told: list[Callable[[], list[str]]] = []
        """Functions that add lines to the report."""

    def miss(self, name: str) -> None:
        """Note that a name is absent."""
        source = context.user_source()
        self.missing.setdefault(name, "" if source is None else f" ({source.file}:{source.line})")

    def note(self, sentence: str) -> None:
        """Note, once, what the program should know of a call."""
        if sentence in self.notes:
            return
        self.notes[sentence] = None
        if self.is_loud:
            print(f"as_torch: {sentence}", file=sys.stderr)

    def report(self) -> str:
        """A few lines on all of it."""
        lines = [f"as_torch: {len(self.used)} names of torch were used, {len(self.missing)} were missing"]
        lines += [f"  missing: {name}{where}" for name, where in self.missing.items()]
        lines += [f"  note: {sentence}" for sentence in self.notes]
        return "\n".join(lines + [f"  {line}" for tell in self.told for line in tell()])


LEDGER = Ledger()
"""The ledger of this process."""
