"""Sizes: which recordings serve many of them, the policy behind `dynamic=`; see Note [Families]."""

from __future__ import annotations

import functools
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from jit.ir.errors import TraceError

from .explanation import Explanation
from .recordings.chains import BRANCHES
from .recordings.counts import count_guards
from .recordings.layouts import general_kind
from .recordings.recording import Recording, generalised
from .recordings.shapes import (
    Dims,
    Pattern,
    SizeFamily,
    Varied,
    first_difference,
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
        self.counts_are_open = False
        """Whether there are recordings that leave open what sizes depend on elements."""

    def entry(self, key: Key) -> Entry | None:
        """The recordings that serve many sizes, those of `key` among them."""
        family = self.families.get(_general_key(key)) if self.families else None
        for pattern, entries in family.general.items() if family is not None else ():
            found: Entry | None = entries.get(_general_key(key, pattern))
            if found is not None:
                return found
        return None

    def waits(self, key: Key) -> bool:
        """Whether a call of this key had better run untraced: sizes are baked in, and these have not come before.

        A function that is another program for every size would otherwise be recorded for sizes that never come again,
        which takes many times as long as running it.
        """
        family = self.families.get(_general_key(key)) if self.families else None
        return family is not None and family.closed is not None and _count(family, key) == 1

    def may_vary(self, call: TracedCall, recording: Recording) -> bool:
        """Whether a recording could serve other sizes than those of its call."""
        impurity = recording.trace.impurity
        has_sizes = bool(call.leaves) or bool(count_guards(recording.trace))
        return self.dynamic is not False and has_sizes and not (impurity.reason or impurity.one_size)

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
        found = family.alike(call.key, recording, self._cousins(call.key))
        if found is not None:
            varied, others = found
            self._generalise(family, call, varied, [*others, recording], explanation)
        elif family.is_sampled and not family.general and family.closed is None:
            _close(family)
            explanation.also(str(family.closed))
            if self.dynamic:
                raise TraceError(f"{where()}: dynamic sizes were asked for, but {family.closed}")

    def _cousins(self, key: Key) -> list[SizeFamily]:
        """The families of keys that are alike but for how tensors lie."""
        wanted = _key_without_layouts(key)
        return [family for other, family in self.families.items() if _key_without_layouts(other) == wanted]

    def _generalise(
        self, family: SizeFamily, call: TracedCall, varied: Varied, same: Sequence[Recording],
        explanation: Explanation,
    ) -> None:  # fmt: skip
        """Let one recording serve all sizes that vary; `same` are recordings of one program, this call's last."""
        pattern = varied.pattern
        names = leaf_names(call.names, call.structures)
        if not self._allows(pattern, names, call.key):
            return
        family.general = {pattern: family.general.pop(pattern, {}), **family.general}  # what serves most comes first
        entry = family.general[pattern].setdefault(_general_key(call.key, pattern), Entry())
        if len(entry.recordings) < BRANCHES:
            general = generalised(same, varying_in(pattern, same[-1].positions), varied.counts)
            entry.recordings.append(general)
            self.counts_are_open |= bool(general.counts)
            where = ", ".join(f"{n}.shape[{d}]" for n, dims in zip(names, pattern, strict=True) for d in dims)
            if where:
                explanation.also(f"from now on one recording serves all sizes of 2 and more of {where}")
            if general.counts:
                explanation.also(_what_is_open(general))

    def _allows(self, pattern: Pattern, names: Sequence[str], key: Key) -> bool:
        """Whether the user lets these sizes vary."""
        if not isinstance(self.dynamic, Mapping):
            return True
        ranks = [len(kind[1]) for kind in key.tensors]
        allowed = [{d % n for d in self.dynamic.get(name, ())} for name, n in zip(names, ranks, strict=True)]
        return all(set(dims) <= may for dims, may in zip(pattern, allowed, strict=True))


def _general_key(key: Key, pattern: Sequence[Any] | None = None) -> Key:
    """The key with all sizes that vary made alike."""
    kinds = map(_general_kind, key.tensors, pattern or [None] * len(key.tensors))
    return key._replace(tensors=tuple(kinds))


_general_kind = functools.lru_cache(maxsize=10_000)(general_kind)
"""`general_kind`: tensors of one call are often of the same kind, and every call asks."""


def _key_without_layouts(key: Key) -> Key:
    """The key with all sizes made alike, and tensors however they lie, side by side or one within the other."""
    kinds = tuple((k[0], tuple(min(n, 2) for n in k[1]), *k[3:]) if len(k) > 2 else k for k in key.tensors)
    return key._replace(tensors=kinds, sharing=())


def _what_is_open(general: Recording) -> str:
    lines = dict.fromkeys(str(general.trace.guards.records[number].source) for number in general.counts)
    return f"sizes that depend on elements are left open from now on ({', '.join(lines)})"


def _count(family: SizeFamily, key: Key) -> int:
    """The number of times that a key has come, this time included."""
    if len(family.calls) >= MOST_SIZES:
        family.calls.clear()
    count = family.calls[key] = family.calls.get(key, 0) + 1
    return count


def _close(family: SizeFamily) -> None:
    """Every size has turned out to be another program."""
    (_, first), (_, last) = family.samples[0], family.samples[-1]
    where = first_difference(last.trace.graph, first.trace.graph)
    family.closed = f"sizes are baked in: recordings of different sizes differ first in {where}"
    family.samples.clear()
