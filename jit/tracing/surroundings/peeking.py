"""Looks at objects without running code of the user's: their attributes, keys, lengths and slots."""

from __future__ import annotations

import collections
import functools
from collections.abc import Callable, Iterator, Sequence
from typing import Any

from jit.eager.hooks import HookTable

from .origins import is_foreign_class

OURS = ("gradient_hooks", "post_accumulate_hooks")
"""Attributes of tensors that are not the user's."""
SEQUENCES: Any = (list, tuple, collections.deque)
EXACT: Any = frozenset(
    {list, tuple, dict, set, frozenset, collections.deque, collections.OrderedDict, collections.defaultdict, HookTable}
)
"""Classes of containers that run no code of the user's."""


def asked(value: Any, name: str, default: Any = None) -> Any:
    """`getattr` of objects whose own look-ups may fail in any way."""
    try:
        return getattr(value, name, default)
    except Exception:
        return default


def is_a(value: Any, kinds: Any) -> bool:
    """`isinstance` that does not ask the object for its `__class__`, which may run code of the user's, fail or lie."""
    return issubclass(type(value), kinds)


def space_of(value: Any) -> dict[str, Any] | None:
    """The dict of an object's attributes."""
    try:
        space = object.__getattribute__(value, "__dict__")
    except AttributeError:
        return None
    return space if isinstance(space, dict) else None


def attributes_of(tensor: Any) -> dict[str, Any]:
    """The attributes that the user has attached to a tensor."""
    return {name: value for name, value in vars(tensor).items() if name not in OURS}


def names_in(value: Any) -> tuple[str, ...]:
    """The names of the attributes that an object has now, without hooks on gradients."""
    names = vars(value)
    return tuple(name for name in names if name not in OURS) if names else ()


# -- containers --------------------------------------------------------------------------------------------------


def length_of(items: Any) -> int:
    """The length of a container."""
    if type(items) in EXACT:
        return len(items)
    return next(k.__len__(items) for k in (*SEQUENCES, dict, set, frozenset) if is_a(items, k))


def sequence_of(items: Any) -> Any:
    """The built-in class of sequences that an object is of, or derived from."""
    return type(items) if type(items) in SEQUENCES else next(kind for kind in SEQUENCES if is_a(items, kind))


def keys_of(container: Any) -> list[Any]:
    """The keys or elements of a dict or a set in their order."""
    kind: Any = type(container)
    return list(container if kind in EXACT else _iterating(kind)(container))


@functools.lru_cache(4096)
def _iterating(kind: Any) -> Callable[[Any], Any]:
    """The function that iterates over the keys of containers of a class, without code of the user's if possible."""
    kinds = (collections.OrderedDict, dict, set, frozenset)
    return next((base.__iter__ for base in kinds if issubclass(kind, base)), iter)


# -- slots -------------------------------------------------------------------------------------------------------


def slots_of(value: Any) -> Iterator[str]:
    """The names of an object's attributes that are in slots of classes of the user's."""
    return (name for kind in type(value).__mro__ for name in _slot_names(kind))


def _slot_names(kind: type) -> Sequence[str]:
    if is_foreign_class(kind):
        return ()
    slots = kind.__dict__.get("__slots__", ())
    return [s for s in ((slots,) if isinstance(slots, str) else slots) if not s.startswith("__")]


__all__ = [
    "EXACT", "OURS", "SEQUENCES", "asked", "attributes_of", "is_a", "keys_of", "length_of", "names_in", "sequence_of",
    "slots_of", "space_of",
]  # fmt: skip
