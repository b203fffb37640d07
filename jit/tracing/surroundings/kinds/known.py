"""All kinds of objects, in the order in which they are asked; see Note [Kinds of objects]."""

from __future__ import annotations

import functools
import types
from collections.abc import Iterator
from typing import Any

from ..contents import COPIED, is_copied
from ..footprints import Footprint
from ..known_types import FAMILIES, is_dull
from ..places import Child
from .callables import (
    Builtins,
    CachedFunctions,
    DispatchingMethods,
    Getters,
    Methods,
    Partials,
    PlainFunctions,
    Properties,
    StaticMethods,
)  # fmt: skip
from .classes import Aliases, Classes, Modules, Typing
from .containers import Dicts, Sequences, Sets
from .holders import (
    Cells,
    Environments,
    Exceptions,
    Finalizers,
    InterpreterSettings,
    Locks,
    Loggers,
    Namespaces,
    Proxies,
    References,
    Slices,
    Supers,
    ThreadLocals,
    Variables,
    Views,
    WatchedObjects,
)  # fmt: skip
from .object_kind import ObjectKind, attributes_below, wrapped_by
from .values import (
    Arrays,
    Buffers,
    Decimals,
    Generators,
    NumpyScalars,
    PlainValues,
    RandomNumbers,
    Settled,
    Tensors,
)  # fmt: skip

KNOWN: tuple[ObjectKind, ...] = (
    Proxies(), Tensors(), Generators(), PlainValues(), Arrays(), RandomNumbers(), Buffers(), Sets(), Dicts(),
    Sequences(), ThreadLocals(), CachedFunctions(), Environments(), NumpyScalars(), Partials(), PlainFunctions(),
    Views(), Decimals(), Locks(), Settled(), Classes(), Modules(), Typing(), InterpreterSettings(), Finalizers(),
    Loggers(), WatchedObjects(), References(), Variables(), Methods(), Builtins(), Properties(), Slices(),
    StaticMethods(), DispatchingMethods(), Getters(), Exceptions(), Cells(), Namespaces(), Aliases(), Supers(),
    ObjectKind(),
)  # fmt: skip
"""The last one is any object."""
_BY_TYPE: dict[Any, ObjectKind] = {kind: known for known in reversed(KNOWN) for kind in known.types}
_LISTED = frozenset(_BY_TYPE) - {type, types.ModuleType}
"""Types of whose objects something is known."""


@functools.lru_cache(4096)
def kind_of(kind: Any) -> ObjectKind:
    """The kind of a class's objects: by the class itself if that is listed, otherwise by its bases."""
    return _BY_TYPE.get(kind) or next(known for known in KNOWN if known.includes(kind))


def children(name: str, value: Any, footprint: Footprint) -> Iterator[Child]:
    """The places that can be reached from a value."""
    prefix = f"{name}." if name else ""
    kind: Any = type(value)
    known = kind_of(kind)
    yield from known.below(prefix, value, footprint)
    if known.has_attributes(kind):
        yield from wrapped_by(prefix, value)
        yield from attributes_below(prefix, value)


# -- opaque objects ----------------------------------------------------------------------------------------------


def is_opaque(value: Any) -> bool:
    """Whether it cannot be known what an object holds."""
    kind: Any = type(value)
    if kind.__name__ == "cython_function_or_method":  # no hook sees calls of these
        return not str(value.__module__).startswith("numpy")
    return not issubclass(kind, (type, types.ModuleType)) and is_opaque_class(kind) and not is_copied(kind)


@functools.lru_cache(4096)
def is_opaque_class(kind: Any) -> bool:
    """Whether it cannot be known what objects of a class hold, other than by copies of their contents."""
    if issubclass(kind, FAMILIES):
        return False
    for base in kind.__mro__:
        if base in _LISTED or base in COPIED or is_dull(base):
            return False
        if base is not object and (not base.__flags__ & 1 << 9 or base.__flags__ & 1 << 8):
            return True  # written in C
    return kind is not object and kind.__dictoffset__ == 0 and not any("__slots__" in vars(b) for b in kind.__mro__)


__all__ = ["KNOWN", "children", "is_opaque", "is_opaque_class", "kind_of"]
