"""What Python can ask of a thing besides what it holds: names, docs and code of functions, parts of errors.

Each is a place that counts as soon as code that ran names it.
"""

from __future__ import annotations

import functools
import types
from collections.abc import Callable, Iterator
from typing import Any

Child = tuple[str, Callable[[], Any], "str | None"]

_OF_FUNCTIONS = ("__name__", "__qualname__", "__doc__", "__module__", "__annotations__", "__defaults__",
                 "__kwdefaults__", "__code__", "__closure__")  # fmt: skip
_OF_CLASSES = ("__name__", "__doc__", "__module__")
_OF_ERRORS = ("__cause__", "__context__", "__traceback__", "__notes__")
_MEMBERS = (types.MemberDescriptorType, types.GetSetDescriptorType)


def _asked(value: Any, name: str) -> Any:
    try:
        return getattr(value, name, None)
    except Exception:
        return None


def _annotations(kind: type) -> Any:
    """Those that a class has already; to ask would make some."""
    return vars(kind).get("__annotations__")


def _keyed(prefix: str, value: Any, names: Any) -> Iterator[Child]:
    return ((f"{prefix}{name}", functools.partial(_asked, value, name), name) for name in names)


def of_function(prefix: str, value: Any) -> Iterator[Child]:
    """What can be set anew of a function, whether or not it runs."""
    return _keyed(prefix, value, _OF_FUNCTIONS)


def of_class(prefix: str, kind: type) -> Iterator[Child]:
    """What a class of the user's is called."""
    yield from _keyed(prefix, kind, _OF_CLASSES)
    yield f"{prefix}__annotations__", functools.partial(_annotations, kind), "__annotations__"


def of_property(prefix: str, value: Any) -> Iterator[Child]:
    """Its doc."""
    return _keyed(prefix, value, ("__doc__",))


def of_error(prefix: str, value: Any) -> Iterator[Child]:
    """An error's arguments, what has led to it, and what its class in C adds."""
    yield f"{prefix}args", functools.partial(_asked, value, "args"), None
    kind: Any = type(value)
    yield from _keyed(prefix, value, (*_OF_ERRORS, *_members(kind)))


@functools.lru_cache(1024)
def _members(kind: Any) -> tuple[str, ...]:
    entries = (pair for base in kind.__mro__ for pair in vars(base).items())
    return tuple(name for name, entry in entries if isinstance(entry, _MEMBERS) and name[:1] != "_" and name != "args")


def of_alias(prefix: str, value: Any) -> Iterator[Child]:
    """What a generic class or a union is made of."""
    for name in ("__origin__", "__args__", "__metadata__"):
        if _asked(value, name) is not None:
            yield f"{prefix}{name}", functools.partial(_asked, value, name), None


def of_typing(prefix: str, value: Any) -> Iterator[Child]:
    """What an object of `typing` holds, and what somebody has attached to it."""
    yield from of_alias(prefix, value)
    space = _asked(value, "__dict__")
    for name in space if isinstance(space, dict) else ():
        yield f"{prefix}{name}", functools.partial(space.get, name), name


def of_cell(prefix: str, value: Any) -> Iterator[Child]:
    """What a closure cell holds."""
    yield f"{prefix}contents", functools.partial(_asked, value, "cell_contents"), None


def of_partial(prefix: str, value: Any) -> Iterator[Child]:
    """A partial's parts, which may be set anew, and what is attached to it."""
    for part in ("func", "args", "keywords"):
        yield f"{prefix}{part}", functools.partial(_asked, value, part), None
    yield from ((f"{prefix}{key}", functools.partial(vars(value).get, key), key) for key in vars(value))


__all__ = [
    "of_alias", "of_cell", "of_class", "of_error", "of_function", "of_partial", "of_property", "of_typing",
]  # fmt: skip
