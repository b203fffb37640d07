"""Classes and functions that files may name because the caller has said so.

>>> import argparse, io, jit
>>> file = io.BytesIO()
>>> jit.save(argparse.Namespace(width=3), file)
>>> with jit.serialization.safe_globals([argparse.Namespace]):
...     _ = file.seek(0)
...     jit.load(file).width
3
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from types import TracebackType
from typing import Any

from jit.ir.errors import KindError

Allowance = Callable[..., Any] | tuple[Callable[..., Any], str]

_ALLOWED: dict[str, Any] = {}


def add_safe_globals(safe_globals: Sequence[Allowance]) -> None:
    """Allow files to name these classes and functions; what a file gives them is made from data by their own code.

    A class is made without its `__init__`, and gets its state by its `__setstate__`, or attribute by attribute.

    Args:
        safe_globals: Classes and functions; or pairs of one and the full name that files have for it.

    Raises:
        KindError: One of them is neither.
    """
    _ALLOWED.update(_named(safe_globals))


def get_safe_globals() -> list[Any]:
    """All that has been allowed."""
    return list(_ALLOWED.values())


def clear_safe_globals() -> None:
    """Allow nothing any more but what all files may name."""
    _ALLOWED.clear()


class safe_globals:  # noqa: N801 - users call it like a function
    """A block in which files may name these classes and functions; see `add_safe_globals`.

    Args:
        safe_globals: Classes and functions, or pairs of one and its name.
    """

    def __init__(self, safe_globals: Sequence[Allowance]) -> None:
        self._added = _named(safe_globals)
        self._before: dict[str, Any] = {}

    def __enter__(self) -> None:
        self._before = dict(_ALLOWED)
        _ALLOWED.update(self._added)

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        _ALLOWED.clear()
        _ALLOWED.update(self._before)


def allowed() -> dict[str, Any]:
    """All that has been allowed, by the name that files have for it."""
    return dict(_ALLOWED)


def _named(given: Sequence[Allowance]) -> dict[str, Any]:
    return dict(map(_name_of, given))


def _name_of(given: Any) -> tuple[str, Any]:
    if isinstance(given, tuple) and len(given) == 2 and isinstance(given[1], str):
        return given[1], given[0]
    if not callable(given) or not hasattr(given, "__qualname__"):
        raise KindError(
            f"files may name classes and functions, or pairs of one and its name, not {given!r:.60}; pass the class "
            "itself"
        )
    return f"{given.__module__}.{given.__qualname__}", given
