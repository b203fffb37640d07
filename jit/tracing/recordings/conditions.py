"""Conditions of a call besides its key, which must hold so that a recording can run it."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

from ..recorder.metadata import FACTS
from ..surroundings.properties import has_hooks, recorded_hooks_on
from ..surroundings.sharing import Extents, sharing_of


@dataclass(frozen=True, slots=True)
class Conditions:
    """Facts that a recording takes for granted of the tensors behind its inputs, which are told by number."""

    reads: list[tuple[int, int | None]] = field(default_factory=list)
    """Pairs (input, other input): what the `.grad` of an input has to be at first; None: there must be none."""
    hookless: list[int] = field(default_factory=list)
    """Inputs at which a backward inside the function ends: leaves without hooks, but for those that are recorded."""
    recorded_hooks: list[tuple[int, tuple[Any, ...]]] = field(default_factory=list)
    """Pairs (such an input, the hooks on it that are part of the recording)."""
    facts: list[tuple[int, str, Any]] = field(default_factory=list)
    """Triples (input, name, answer): what else an input has to be; see Note [Metadata] in
    jit.tracing.recorder.metadata."""
    sharing: tuple[Any, ...] = ()
    """The inputs that shared memory, if any input is written to."""

    def __bool__(self) -> bool:
        """Whether there are any."""
        return bool(self.reads or self.hookless or self.facts or self.sharing)

    def other_gradient(self, owners: Sequence[Any], name: Callable[[int], str]) -> str | None:
        """The `.grad` that is not the one that it has to be, in words; None if all are.

        Args:
            owners: The tensors behind the inputs.
            name: The name of an input by its number.
        """
        for index, found in self.reads:
            if owners[index]._grad is not (None if found is None else owners[found]):
                return f"{name(index)}.grad is {'there now' if found is None else 'another tensor or missing'}"
        return None

    def unmet(self, owners: Sequence[Any], name: Callable[[int], str], written: Extents | None) -> str | None:
        """The other condition that does not hold, in words; None if all of them do.

        Args:
            owners: The tensors behind the inputs.
            name: The name of an input by its number.
            written: If inputs are written to, so that it matters which of them share memory: where they have lain.
        """
        for index, fact, answer in self.facts:
            if FACTS[fact](owners[index]) != answer:
                return f"{fact} of {name(index)} is another one"
        if any(has_hooks(owners[index]) for index in self.hookless):
            return "a tensor has hooks now that run in a backward inside of it"
        if any(recorded_hooks_on(owners[index]) != hooks for index, hooks in self.recorded_hooks):
            return "gradients of a backward inside of it are exchanged with other processes in another way"
        if written is not None and sharing_of(owners, written.of) != self.sharing:
            return "tensors that it writes to share memory in another way"
        return None
