"""The one message of a traced function that still records for the tenth time: what varies, where, and what to do."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from .surroundings.promoting import Spot

OFTEN = 10
"""The recording with which a function says that it still records."""


def complaint(function: str, where: str, reason: str, needed: Mapping[Spot, Any]) -> str:
    """The message.

    Args:
        function: The function's name.
        where: The line at which it is defined.
        reason: Why it was recorded this time.
        needed: The numbers that it needs as such, with the lines that do.
    """
    named = [(spot, line) for spot, line in needed.items() if f"{spot.name} is " in reason]
    needs = "".join(f"; Python needs {spot.name} itself at {line}" for spot, line in named if line is not None)
    return (
        f"{where}: {function} has been recorded {OFTEN} times, the last time because {reason}{needs}. "
        f"{_way_out(named)}, or call it in fewer ways; {function}.explain() says why a call was recorded"
    )


def _way_out(named: list[tuple[Spot, Any]]) -> str:
    if not named:
        return "Pass what varies as a tensor"
    names = " and ".join(dict.fromkeys(spot.name for spot, _ in named))
    return f"Pass {names} as a tensor and compute with that"
