"""Sizes: which recordings serve many of them, the policy behind `dynamic=`; see Note [Families]."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from jit.ir.errors import TraceError

from .explanation import Explanation
from .recordings.chains import BRANCHES
from .recordings.recording import Recording
from .recordings.shapes import (
    OFTEN,
    SAMPLES,
    Dims,
    Pattern,
    SizeFamily,
    first_difference,
    general_kind,
    pattern_of,
    varying_in,
)
from .surroundings.calls import Entry, Key, TracedCall, leaf_names

MOST_SIZES = 10_000
"""The number of sizes of which it is known how often they came."""


class SizeFamilies:
    """The families of one traced function.

    Args:
        dynamic: Which sizes vary; see `jit.trace`.
    """

    def __init__(self, dynamic: bool | Dims | None) -> None:
        self.dynamic = dynamic
        self.families: dict[Key, SizeFamily] = {}

    def entry(self, key: Key) -> Entry | None:
        """The recordings that serve many sizes, those of `key` among them."""
        family = self.families.get(_general_key(key)) if self.families else None
        for pattern, entries in family.general.items() if family is not None else ():
            found: Entry | None = entries.get(_general_key(key, pattern))
            if found is not None:
                family.calls[key] += 1  # type: ignore[union-attr]
                often = self.dynamic is None and family.calls[key] > OFTEN  # type: ignore[union-attr]
                return None if often else found
        return None

    def waits(self, key: Key) -> bool:
        """Whether a call of this key had better run untraced: sizes are baked in, and these have not come before.

        A function that is another program for every size would otherwise be recorded for sizes that never come again,
        which takes many times as long as running it.
        """
        family = self.families.get(_general_key(key)) if self.families else None
        if family is None or family.closed is None:
            return False
        if len(family.calls) >= MOST_SIZES:
            family.calls.clear()
        family.calls[key] += 1
        return family.calls[key] == 1

    def may_vary(self, call: TracedCall, recording: Recording) -> bool:
        """Whether a recording could serve other sizes than those of its call."""
        impurity = recording.trace.impurity
        return self.dynamic is not False and bool(call.leaves) and not (impurity.reason or impurity.one_size)

    def compare(
        self, call: TracedCall, recording: Recording, explanation: Explanation, where: Callable[[], str]
    ) -> None:
        """If a call of other sizes was recorded as the same program, one recording serves all sizes from now on.

        Args:
            call: It was recorded.
            recording: As what.
            explanation: Is told.
            where: Says where the function is defined, for errors.
        """
        family = self.families.setdefault(_general_key(call.key), SizeFamily())
        partner = family.partner(call.key, recording)
        if partner is not None:
            self._generalise(family, call, partner, recording, explanation)
        elif len(family.samples) >= SAMPLES and not family.general and family.closed is None:
            _close(family)
            explanation.also(str(family.closed))
            if self.dynamic:
                raise TraceError(f"{where()}: dynamic sizes were asked for, but {family.closed}")

    def _generalise(
        self, family: SizeFamily, call: TracedCall, partner: Key, recording: Recording, explanation: Explanation
    ) -> None:
        """Let one recording serve all sizes where this call and that of `partner` differ."""
        pattern = pattern_of(call.key.tensors, partner.tensors)
        names = leaf_names(call.names, call.structures)
        if not self._allows(pattern, names, call.key):
            return
        entry = family.general.setdefault(pattern, {}).setdefault(_general_key(call.key, pattern), Entry())
        if len(entry.recordings) < BRANCHES:
            entry.recordings.append(recording.generalised(varying_in(pattern, recording.positions)))
            where = ", ".join(f"{n}.shape[{d}]" for n, dims in zip(names, pattern, strict=True) for d in dims)
            explanation.also(f"from now on one recording serves all sizes of 2 and more of {where}")

    def _allows(self, pattern: Pattern, names: Sequence[str], key: Key) -> bool:
        """Whether the user lets these sizes vary."""
        if not isinstance(self.dynamic, Mapping):
            return True
        ranks = [len(kind[1]) for kind in key.tensors]
        allowed = [{d % n for d in self.dynamic.get(name, ())} for name, n in zip(names, ranks, strict=True)]
        return all(set(dims) <= may for dims, may in zip(pattern, allowed, strict=True))


def _general_key(key: Key, pattern: Sequence[Any] | None = None) -> Key:
    """The key with all sizes that vary made alike."""
    dims = pattern or [None] * len(key.tensors)
    return key._replace(tensors=tuple(map(general_kind, key.tensors, dims)))


def _close(family: SizeFamily) -> None:
    """Every size has turned out to be another program."""
    (_, first), (_, last) = family.samples[0], family.samples[-1]
    where = first_difference(last.trace.graph, first.trace.graph)
    family.closed = f"sizes are baked in: recordings of different sizes differ first in {where}"
    family.samples.clear()
