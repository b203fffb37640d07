"""The error for code in C that takes an `int` or a `float` and nothing else, and is given a traced number."""

from __future__ import annotations

import contextlib
import os
import re
import traceback
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

from jit.eager.proxies import TracedScalar
from jit.ir.errors import Error, TraceError

from ..surroundings.origins import is_foreign

if TYPE_CHECKING:
    from .tracer import Trace

_WANTS = re.compile(r"\b(an int(eger)?|ints?|float|real number|number|JSON serializable|coerce)\b")
_OTHERWISE = re.compile(r"unsupported operand|concatenate|positional argument|keyword argument|not iterable|callable")
"""Phrases of errors about other mistakes."""


_IN_C = re.compile(r"requires a '|be interpreted as an|integer is required|wants int|[Ee]xpect(s|ed) (an )?int")
"""Phrases by which code in C complains of numbers, even if no frame holds them any more."""


class PlainNumberError(TraceError, TypeError):
    """A traced number where code in C takes an int or a float alone; a TypeError too, like the error behind it."""


@contextlib.contextmanager
def explained(trace: Trace) -> Iterator[None]:
    """Errors in this block that come from traced numbers become a PlainNumberError with the line and the way out."""
    try:
        yield
    except Exception as error:
        if isinstance(error, Error) or not trace.scalars.handed_out or not _is_of_number(error):
            raise
        words = str(error).replace("TracedScalar", "a traced number")
        raise PlainNumberError(
            f"{_line(error)}{type(error).__name__}: {words}; sizes and what item() has read are traced numbers here, "
            "and this code takes plain ones alone: give it int(n) or float(n)"
        ) from error


def _is_of_number(error: Exception) -> bool:
    """Whether an error says that a traced number was not accepted."""
    text = str(error)
    if "TracedScalar" in text:
        return True
    if not isinstance(error, TypeError) or not _WANTS.search(text) or _OTHERWISE.search(text):
        return False
    frames = [frame for frame, _ in traceback.walk_tb(error.__traceback__)]
    mine = [frame for frame in frames if not is_foreign(frame.f_code.co_filename)]
    near = [value for frame in (*mine[-1:], *frames[-2:]) for value in frame.f_locals.values()]
    return any(map(_holds_number, near)) or bool(_IN_C.search(text))


def _holds_number(value: Any) -> bool:
    if type(value) in (list, tuple):
        return any(type(item) is TracedScalar for item in value)
    if type(value) is dict:
        return any(type(item) is TracedScalar for item in (*value, *value.values()))
    return type(value) is TracedScalar


def _line(error: Exception) -> str:
    """The line of the user's code in which it happened."""
    frames = traceback.extract_tb(error.__traceback__)
    mine = [frame for frame in frames if os.path.isabs(frame.filename) and not is_foreign(frame.filename)]
    return f"at {os.path.basename(mine[-1].filename)}:{mine[-1].lineno} in {mine[-1].name}: " if mine else ""
