"""Names for the values and nodes of a model: those of the program where it has any, unique, and safe in a file."""

from __future__ import annotations

import re

_UNSAFE = re.compile(r"[\x00-\x20\x7f\ud800-\udfff]+")
_NUMBER = re.compile(r"[0-9.]*")


def safe(name: str) -> str:
    """`name` without blanks, control characters and lone surrogates; "value" if nothing is left.

    >>> safe("my input"), safe("")
    ('my_input', 'value')
    """
    return _UNSAFE.sub("_", name).strip("_") or "value" if _UNSAFE.search(name) else name or "value"


def is_numbered(name: str) -> bool:
    """Whether a graph made the name up: `3`, `3.1`."""
    return _NUMBER.fullmatch(name) is not None


class Names:
    """Hands out every name once."""

    def __init__(self) -> None:
        self._taken: set[str] = set()
        self._last: dict[str, int] = {}

    def unique(self, name: str) -> str:
        """`name` if it is free, else `name_1`, `name_2`, ..."""
        base = candidate = safe(name)
        while candidate in self._taken:
            self._last[base] = self._last.get(base, 0) + 1
            candidate = f"{base}_{self._last[base]}"
        self._taken.add(candidate)
        return candidate


def path(scope: str, *parts: str) -> str:
    """`Net/fc` and `linear` make `Net/fc/linear`."""
    return "/".join(part for part in (scope, *parts) if part)


def short(kind: str) -> str:
    """The short form of a node kind for names: `aten::max.dim` is `max`, `^Clip` is `Clip`."""
    return kind.lstrip("^").rpartition("::")[2].partition(".")[0] or "value"
