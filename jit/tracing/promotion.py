"""Promotion of a traced function's numbers to inputs: of those that the user names, and of floats that drift.

See Note [Promotion] and Note [Drift] in jit.tracing.surroundings.promoting.
"""

from __future__ import annotations

from collections.abc import Collection

from jit.ir.errors import UsageError

from .parameters import FunctionParameters
from .surroundings.calls import Key
from .surroundings.promoting import DRIFT, KINDS, drifting
from .surroundings.surroundings import Surroundings


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


def promote_drifting(key: Key, others: Collection[Key], surroundings: Surroundings) -> bool:
    """Make inputs of floats that are others again and again; whether there are any. See Note [Drift].

    Args:
        key: Of a call that has no recording.
        others: The keys that have recordings.
        surroundings: All that the function reads besides its arguments.
    """
    names = drifting(key, others) if len(others) >= DRIFT else ()
    places = dict(surroundings.look().places()) if names else {}
    return surroundings.promote_unasked(n for n in names if n in places and places[n].writer() is not None)
