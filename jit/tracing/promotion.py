"""Promotion of a traced function's numbers to inputs: of those that the user names, and of those that vary.

See Note [Promotion] and Note [Numbers that vary] in jit.tracing.surroundings.promoting.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from typing import Any

from jit.ir.errors import UsageError

from .parameters import FunctionParameters
from .recorder.decisions import decided, pinned
from .recordings.carriers import SMALLEST
from .recordings.layouts import general_kind
from .recordings.recording import Recording
from .surroundings.calls import Entry, Key, TracedCall
from .surroundings.identity_tests import tests_identity
from .surroundings.number_arguments import numbers_between
from .surroundings.promoting import KINDS, Spot, but_attached, can_be_replaced
from .surroundings.surroundings import Surroundings, attached_to


def promote_named(name: str, function: str, surroundings: Surroundings, parameters: FunctionParameters) -> None:
    """Make a number an input, be it an argument or something that stands around the function.

    Args:
        name: The number's name.
        function: Its function's name, for errors.
        surroundings: All that the function reads besides its arguments.
        parameters: The parameters of the function.

    Raises:
        UsageError: The function reads no int or float of that name, or it stands where nobody can replace it.
    """
    places = {**dict(surroundings.reach().places()), **dict(surroundings.look().places())}
    numbers = sorted(n for n, place in places.items() if type(place()) in KINDS and place.writer() is not None)
    if name not in numbers and name not in parameters.named:
        known = ", ".join([*parameters.named, *numbers]) or "none"
        raise UsageError(f"{function} has no number {name!r} to promote; it reads {known}")
    surroundings.promote(name)


def promote_varying(call: TracedCall, others: Collection[Key], surroundings: Surroundings) -> bool:
    """Make inputs of numbers that have another value than before; whether there are any. See Note [Numbers that vary].

    Args:
        call: It has no recording.
        others: The keys that have recordings.
        surroundings: All that the function reads besides its arguments.
    """
    found: set[Spot] = set()
    for other in others:
        found.update(_numbers_between(other, call.key, call.names) or ())
    found = {spot for spot in found if surroundings.promotions.is_new(spot) and _can_be_input(spot, call)}
    if not found or tests_identity(function for _, function, _ in call.world.surroundings.functions):
        return False
    surroundings.promote_unasked(found)
    return True


def promote_counters(names: Collection[str], call: TracedCall, surroundings: Surroundings) -> None:
    """Make inputs of numbers on networks that a call has read and set: see Note [Attributes that are set].

    Args:
        names: Their names.
        call: The call, which is not kept.
        surroundings: All that the function reads besides its arguments.
    """
    found = {Spot(False, name) for name in names}
    found = {spot for spot in found if surroundings.promotions.is_new(spot) and _can_be_input(spot, call)}
    if found and not tests_identity(function for _, function, _ in call.world.surroundings.functions):
        surroundings.promote_unasked(found)


def _can_be_input(spot: Spot, call: TracedCall) -> bool:
    """Whether something else can stand in the places of a number."""
    if spot.is_argument:
        return True
    is_free = bool(but_attached([spot.name], [name for name, _ in attached_to(call.leaves)]))
    return is_free and all(can_be_replaced(*places) for places in call.world.places_of(spot.name))


def bake_in_pinned(call: TracedCall, entry: Entry, surroundings: Surroundings) -> dict[str, Any]:
    """Bake numbers in that no recording of an entry serves more than one value of, as soon as there are two.

    Returns:
        The line that needs the number, for each name.
    """
    if len(entry.recordings) < 2 or not call.has_numbers:
        return {}
    found = [pinned(recording.trace) for recording in entry.recordings if not _is_of_small(recording)]
    if len(found) < 2:
        return {}
    always = {number: line for number, line in found[0].items() if all(number in each for each in found)}
    return _bake_in(call, always, surroundings)


def _is_of_small(recording: Recording) -> bool:
    """Whether a recording serves only one number because it is a small one; others may be served together."""
    return any(c.is_fixed and abs(c.owner) < SMALLEST for c in recording.trace.captures.found)


def bake_in_immovable(call: TracedCall, surroundings: Surroundings) -> bool:
    """Bake numbers in that nothing can stand in for any more, such as one of a tuple that another tuple holds now."""
    numbers = call.world.numbers
    stuck = {i for i, n in enumerate(numbers) if not can_be_replaced(n.place, call.world.holders_of(n.place))}
    return bool(stuck) and surroundings.bake_in({Spot(False, numbers[i].name): None for i in stuck})


def bake_in_decided(call: TracedCall, entry: Entry, surroundings: Surroundings) -> dict[str, Any]:
    """Bake numbers in on which the recordings of an entry decide in too many ways, as `bake_in_pinned` does."""
    lines: dict[int, Any] = {}
    for recording in entry.recordings if call.has_numbers else ():
        lines.update(decided(recording.trace))
    found = [capture for recording in entry.recordings for capture in recording.trace.captures.found]
    shared = {capture.number for capture in found if capture.sign}  # which recordings serve many values of
    return _bake_in(call, {number: line for number, line in lines.items() if number not in shared}, surroundings)


def _bake_in(call: TracedCall, lines: Mapping[int, Any], surroundings: Surroundings) -> dict[str, Any]:
    spots = [Spot(True, name) for name, _ in call.promoted] + [Spot(False, n.name) for n in call.world.numbers]
    found = {spots[number]: line for number, line in lines.items() if spots[number] in surroundings.promotions.unasked}
    surroundings.bake_in(found)
    return {spot.name: line for spot, line in found.items()}


# -- comparing keys ----------------------------------------------------------------------------------------------


def _numbers_between(old: Key, new: Key, names: Sequence[str]) -> list[Spot] | None:
    """The numbers in which two keys differ; None if they differ in anything else but sizes of 2 and more."""
    if (old.grad_mode, old.region, old.sharing) != (new.grad_mode, new.region, new.sharing):
        return None
    if len(old.structure) != len(new.structure):
        return None
    around = _lines_between(old.surroundings, new.surroundings)
    if around is None or not _same_but_for_sizes(old.tensors, new.tensors):
        return None
    found = [Spot(False, name) for name in around]
    for name, before, after in zip(names, old.structure, new.structure, strict=True):
        numbers = numbers_between(before, after, name)
        if numbers is None:
            return None
        found += [Spot(True, each) for each in numbers]
    return found


def _same_but_for_sizes(old: Sequence[Any], new: Sequence[Any]) -> bool:
    return len(old) == len(new) and all(
        a == b or general_kind(a, None) == general_kind(b, None) for a, b in zip(old, new, strict=True)
    )


def _lines_between(old: Sequence[Any], new: Sequence[Any]) -> list[str] | None:
    """The names of the numbers in which two fingerprints of a world differ; None if they differ in anything else."""
    if old == new:
        return []
    if len(old) != len(new) or old[2:] != new[2:] or any(len(a) != len(b) for a, b in zip(old[:2], new[:2])):
        return None
    pairs = [(a, b) for before, after in zip(old[:2], new[:2]) for a, b in zip(before, after, strict=True) if a != b]
    return [b[0] for _, b in pairs] if all(_is_number(a) and a[:2] == b[:2] for a, b in pairs) else None


def _is_number(line: Any) -> bool:
    """Whether a line of a fingerprint is that of a plain int or float: its name, type and value."""
    return len(line) == 3 and (line[1] is int or line[1] is float)
