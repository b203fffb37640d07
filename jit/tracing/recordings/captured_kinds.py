"""The kinds of captures: tensors of those that they were recorded with, and some numbers the same."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

from ..recorder.records import Capture
from ..surroundings.observations import Observations
from ..surroundings.properties import kind_of


class _Compared(NamedTuple):
    """A comparison in which all captures were of their kinds."""

    view: Observations
    """The view that held in that call."""
    captures: Sequence[Capture]
    lasting: list[tuple[int, Any]]
    """Captures whose kind follows from `view`, by number, and the tensors that they were."""
    others: list[tuple[int, Capture]]


class CapturedKinds:
    """The kinds of one recording's captures, as far as they have been compared.

    A view that still holds says that its tensors look as they did (`look_of`). So a tensor in it is of the kind that it
    was of in an earlier call, unless it has got a history or other memory, and only that is asked again.
    """

    def __init__(self) -> None:
        self._last: _Compared | None = None

    def other(self, captures: Sequence[Capture], owners: Sequence[Any], view: Observations | None) -> str | None:
        """The capture that is not what it has to be, in words; None if all are as they were.

        Args:
            captures: The captures of the recording.
            owners: The tensors, generators and numbers that they are in a call.
            view: What holds in this call; None if that is not known.
        """
        last = self._last
        if last is not None and last.view is view and last.captures is captures and _are_the_same(last.lasting, owners):
            return _unlike(last.others, owners)
        numbered = list(enumerate(captures))
        unlike = _unlike(numbered, owners)
        if unlike is None and view is not None:
            seen = {id(tensor) for tensor, _ in view.types}
            lasting = {n for n, _ in numbered if id(owners[n]) in seen and _is_lasting(owners[n])}
            others = [(n, capture) for n, capture in numbered if n not in lasting]
            self._last = _Compared(view, captures, [(n, owners[n]) for n in sorted(lasting)], others)
        return unlike


def _are_the_same(lasting: Sequence[tuple[int, Any]], owners: Sequence[Any]) -> bool:
    for number, tensor in lasting:
        # `_is_lasting`, written out: each tensor of a network is asked
        if owners[number] is not tensor or tensor._grad_fn is not None or tensor._viewed is not None:
            return False
        if tensor._storage.inference:
            return False
    return True


def _is_lasting(tensor: Any) -> bool:
    """Whether a tensor is of the same kind as long as it looks the same: a leaf, in memory of its own."""
    return tensor._grad_fn is None and tensor._viewed is None and not tensor._storage.inference


def _unlike(captures: Sequence[tuple[int, Capture]], owners: Sequence[Any]) -> str | None:
    for number, capture in captures:
        if capture.is_fixed and owners[number] != capture.owner:
            return f"{capture.name} is {owners[number]}, not {capture.owner}"
        if capture.kind is not None and kind_of(owners[number]) != capture.kind:
            return f"the captured tensor {capture.name} is of another kind"
    return None
