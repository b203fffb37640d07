"""Recurrences: operators that go through a sequence step by step, each step written once, in other operators.

The operator is one node, whatever the length of the sequence. Who knows the length may write the steps one by one, and
who derives it twice has to.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True)
class Recurrence:
    """One call of such an operator; its tensors are what the namespace `F` takes.

    The results of the operator are what `step` gives in each step, one behind the other, and then the last state.
    """

    step: Callable[..., tuple[Sequence[Any], Sequence[Any]]]
    """`step(F, state, slices, constants)` gives (the next state, results of this step)."""
    state: Sequence[Any]
    """The first state."""
    sequences: Sequence[Any]
    """Tensors with a slice for each step along dim 0; None where one is left out. The first is given."""
    constants: Sequence[Any]
    """The same in every step."""
    earlier: Sequence[tuple[Any, Any]] = ()
    """Pairs (first, sequence): a step gets the slice of the sequence that was made before, when the operator that this
    one takes back went the other way; and `first` where there is none. They come behind the slices of `sequences`."""
    backwards: bool = False
    """Whether the last step comes first."""


def unrolled(F: Any, recurrence: Recurrence) -> list[Any]:
    """The results of a recurrence, its steps written one by one."""
    rows = _slices(F, recurrence)
    state: Sequence[Any] = tuple(recurrence.state)
    found: list[Sequence[Any]] = []
    for row in reversed(rows) if recurrence.backwards else rows:
        state, results = recurrence.step(F, state, row, recurrence.constants)
        found.append(results)
    if recurrence.backwards:
        found.reverse()
    return [*(F.stack(list(parts), 0) for parts in zip(*found, strict=True)), *state]


def _slices(F: Any, recurrence: Recurrence) -> list[tuple[Any, ...]]:
    """The slices of each step."""
    columns: list[Any] = [each if each is None else F.unbind(each, 0) for each in recurrence.sequences]
    for first, sequence in recurrence.earlier:
        own = list(F.unbind(sequence, 0))
        columns.append([first, *own[:-1]] if recurrence.backwards else [*own[1:], first])
    steps = range(len(columns[0]))
    return [tuple(column if column is None else column[t] for column in columns) for t in steps]
