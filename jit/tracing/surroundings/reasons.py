"""The reasons why a call was recorded anew, in words: the differences of its key from the key that is most like it."""

from __future__ import annotations

import struct
from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np

from jit.eager.pytree import Static, Structure, part_names, paths

from .number_arguments import Promoted

MOST = 3
"""The most differences that are named."""


def why_anew(key: Any, others: Sequence[Any], names: Sequence[str]) -> str:
    """The differences, as a clause.

    Args:
        key: The key of the call.
        others: The keys of recordings, the latest last.
        names: The names of the arguments.
    """
    nearest = max(reversed(others), key=lambda other: _likeness(key, other))
    found = list(_differences(nearest, key, names)) or ["something that it reads is another one"]
    more = f"; and {len(found) - MOST} more" if len(found) > MOST else ""
    return "; ".join(found[:MOST]) + more


def _likeness(key: Any, other: Any) -> float:
    """The number of equal parts of two keys; parts that are equal in part count as a fraction."""
    return sum(_share(a, b) for a, b in zip(key, other, strict=True))


def _share(a: Any, b: Any) -> float:
    if a == b:
        return 1.0
    if not isinstance(a, tuple) or not isinstance(b, tuple) or not a or len(a) != len(b):
        return 0.0
    return sum(_share(x, y) for x, y in zip(a, b, strict=True)) / (len(a) + 1)


def _differences(old: Any, new: Any, names: Sequence[str]) -> Iterator[str]:
    yield from _of_arguments(old.structure, new.structure, names)
    leaves = [path for name, s in zip(names, new.structure) for path in paths(s, name)]
    if len(old.tensors) == len(new.tensors) == len(leaves):
        for name, before, after in zip(leaves, old.tensors, new.tensors, strict=True):
            yield from _of_tensor(name, before, after)
        yield from _of_sharing(leaves, old.sharing, new.sharing)
    if old.grad_mode != new.grad_mode:
        yield f"gradients are {'' if new.grad_mode else 'not '}recorded now"
    if old.region != new.region:
        yield f"autocast is {'set to ' + new.region if new.region else 'off'} now"
    for before, after in zip(old.surroundings[:2], new.surroundings[:2]):
        yield from _of_surroundings(before, after)
    if old.surroundings[2:] != new.surroundings[2:]:
        yield "other tensors or objects than before are both in an argument and around the function"


# -- arguments ---------------------------------------------------------------------------------------------------


def _of_arguments(old: Sequence[Structure], new: Sequence[Structure], names: Sequence[str]) -> Iterator[str]:
    if len(old) != len(new):
        yield f"it has {len(new)} arguments, not {len(old)}"
        return
    for name, before, after in zip(names, old, new, strict=True):
        if before != after:
            yield _of_structure(name, before, after)


def _of_structure(name: str, old: Structure, new: Structure) -> str:
    """The first difference between two nests."""
    if Promoted in (old.kind, new.kind) and "static" in (old.kind, new.kind):
        return f"{name} {'has become an input' if new.kind is Promoted else 'is baked in again'}"
    if old.kind == new.kind == "static":
        return f"{name} is {_short(new.keys[0].value)}, not {_short(old.keys[0].value)}"
    if old.kind != new.kind:
        return f"{name} is {_kind(new)}, not {_kind(old)}"
    if old.keys != new.keys:
        return f"{name} has the keys {_keys(new)}, not {_keys(old)}"
    if len(old.children) != len(new.children):
        return f"{name} has {len(new.children)} items, not {len(old.children)}"
    parts = part_names(new, name)
    at = next(i for i, (a, b) in enumerate(zip(old.children, new.children, strict=True)) if a != b)
    return _of_structure(parts[at], old.children[at], new.children[at])


def _kind(structure: Structure) -> str:
    if structure.kind == "static":
        return _short(structure.keys[0].value)
    return "a tensor" if structure.kind == "tensor" else f"a {structure.kind.__name__}"


def _keys(structure: Structure) -> str:
    return ", ".join(str(k.value if type(k) is Static else k) for k in structure.keys) or "none"


def _of_tensor(name: str, old: Any, new: Any) -> Iterator[str]:
    """The difference of two `kind_of`."""
    if len(old) != len(new):
        yield f"{name} is {'undefined' if len(new) == 1 else 'defined'} now"
        return
    for index, (before, after) in enumerate(zip(old, new, strict=True)):
        if before != after:
            yield f"{name} {_facts(index, before, after)}"


def _facts(index: int, old: Any, new: Any) -> str:
    if index == 0:
        return f"is {new}, not {old}"
    if index == 1:
        return f"has sizes {new}, not {old}"
    if index == 2:
        return f"lies in memory with strides {new or 'as row-major'}, not {old or 'as row-major'}"
    if index == 6 and (type(new) is tuple) is not (type(old) is tuple):
        return f"is {'an' if type(new) is tuple else 'no'} inference tensor now"
    if index == 6:
        return f"is of {_short(new)}, not of {_short(old)}"
    if index == 5 and (isinstance(old, str) or isinstance(new, str)):
        before, now = (place if isinstance(place, str) else "cpu" for place in (old, new))
        return f"lies on {now!r}, not on {before!r}"
    words = {3: ("requires grad", "requires no grad"), 4: ("is a leaf", "is no leaf")}
    yes, no = words.get(index, ("can be written to", "can only be read"))
    return f"{yes if new else no} now"


def _of_sharing(leaves: Sequence[str], old: Any, new: Any) -> Iterator[str]:
    for b, a, *how in new:
        if (b, a, *how) not in old:
            yield f"{leaves[a]} and {leaves[b]} share memory" + ("" if how[-1] else " in another way")
    if not new and old:
        yield "its arguments share no memory now"


# -- what it reads -----------------------------------------------------------------------------------------------


def _of_surroundings(old: Sequence[Any], new: Sequence[Any]) -> Iterator[str]:
    before, after = {entry[0]: entry[1:] for entry in old}, {entry[0]: entry[1:] for entry in new}
    for name, entry in after.items():
        if name not in before:
            yield f"it reads {name}, which is new"
        elif entry != before[name]:
            yield f"{name} {_of_entry(before[name], entry)}"
    for name in before:
        if name not in after:
            yield f"{name} is gone"


def _of_entry(old: Any, new: Any) -> str:
    """The difference of two lines of a fingerprint."""
    if new[0] == "promoted" or old[0] == "promoted":
        return "has become an input" if new[0] == "promoted" else "is baked in again"
    if old[0] == new[0] == "tensor" and old[1] == new[1] and len(old[2]) == len(new[2]) > 1:
        places = [0, 1, 2, 3, 5, 6]  # as in `kind_of`, which asks about leaves, too
        facts = zip(places, old[2], new[2], strict=True)
        return next(_facts(index, a, b) for index, a, b in facts if a != b)
    if "tensor" in (old[0], new[0]):
        return "is another tensor"
    if old[:-1] == new[:-1] and new[0] in ("list", "tuple", "dict", "deque") and len(new) == 2:
        return f"has {new[1]} items, not {old[1]}"
    if len(new) > 2 or len(old) > 2:
        return "has other contents"
    return f"is {_value(new)}, not {_value(old)}"


def _value(entry: Any) -> str:
    if len(entry) == 2 and isinstance(entry[0], type) and issubclass(entry[0], float):
        return repr(struct.unpack("<d", entry[1])[0])
    if len(entry) == 2 and isinstance(entry[0], str) and isinstance(entry[1], bytes):  # a number of numpy's
        return repr(np.frombuffer(entry[1], np.dtype(getattr(np, entry[0], np.uint8)))[0])
    return _short(entry[-1])


def _short(value: Any) -> str:
    try:
        text = repr(value)
    except Exception:  # of a class of the user's
        text = object.__repr__(value)
    return text if len(text) < 60 else f"{text[:57]}..."


__all__ = ["why_anew"]
