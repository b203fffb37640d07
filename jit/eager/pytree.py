"""Nested Python structures of tensors: taken apart into leaves, and put together again."""

from __future__ import annotations

import contextlib
import dataclasses
import decimal
import enum
from collections import defaultdict, deque
from collections.abc import Callable, Iterable, Iterator, Sequence
from types import SimpleNamespace
from typing import Any, NamedTuple

import numpy as np

from jit.ir.errors import Error, UsageError
from jit.ir.scalars import exactly, plain_value

from .proxies import TracedScalar, concrete
from .tensors import Size, Tensor


class Structure(NamedTuple):
    """The shape of a nest: hashable, and equal where two nests differ in their tensors alone."""

    kind: Any
    """"tensor", "static", or the container's type."""
    keys: tuple[Any, ...]
    children: tuple[Structure, ...]


TENSOR = Structure("tensor", (), ())


class Static:
    """A non-tensor among the leaves, compared strictly: 1, 1.0 and True are three things, and so are 0.0 and -0.0."""

    __slots__ = ("_key", "value")

    def __init__(self, value: Any) -> None:
        self.value = value
        self._key = _static_key(value)

    def __eq__(self, other: object) -> bool:
        try:
            return isinstance(other, Static) and bool(self._key == other._key)
        except Exception:  # a comparison of the user's that fails, or that has no outcome
            return False

    def __hash__(self) -> int:
        return hash(self._key)

    def __repr__(self) -> str:
        return repr(self.value)


def _static_key(value: Any) -> Any:
    kind = type(value)
    if issubclass(kind, Tensor) and value._array is None:
        return (kind, "undefined")
    if issubclass(kind, (int, float, complex, str, bytes)) and not issubclass(kind, enum.Enum):
        attributes = vars(value).items() if hasattr(value, "__dict__") else ()
        return (kind, exactly(plain_value(value))[1], *((name, _static_key(item)) for name, item in attributes))
    if issubclass(kind, (set, frozenset)) and not any(issubclass(type(item), Tensor) for item in value):
        return (kind, tuple(map(_static_key, value)))  # loops over it take its order
    if issubclass(kind, (np.ndarray, np.generic)):
        return (kind, value.dtype.str, value.shape, value.tobytes())
    if issubclass(kind, (bytearray, decimal.Decimal)):
        return (kind, repr(value))
    try:
        hash(value)
    except Exception as error:  # a TypeError, or whatever a class of the user's raises
        raise UsageError(
            f"an argument of type {type(value).__name__} cannot be part of a trace's key, because it is not hashable; "
            "pass tensors, numbers, strings, or tuples, lists, dicts and dataclasses of them; "
            "a container of your own can be a subclass of list, tuple or dict, or a dataclass"
        ) from error
    return (kind, value)


def flatten(value: Any) -> tuple[list[Any], Structure]:
    """The tensors (and traced numbers) of a nest, and its structure.

    >>> import jit
    >>> leaves, structure = flatten({"a": (jit.ones(1), 2)})
    >>> len(leaves), unflatten(structure, leaves)["a"][1]
    (1, 2)
    """
    leaves: list[Any] = []
    try:
        return leaves, _flatten(value, leaves, 0)
    except RecursionError:  # the program itself was deep in a recursion
        raise too_deep() from None


class ObjectError(UsageError, TypeError):
    """The error for an object that cannot be looked at, for instance since its own methods fail."""

    def __init__(self, error: Any) -> None:
        reason = error if isinstance(error, str) else f"its own methods raise {type(error).__name__} ({error})"
        super().__init__(
            f"an object among the arguments, or one that the function reads or returns, cannot be looked at: {reason}"
        )


@contextlib.contextmanager
def looking() -> Iterator[None]:
    """Within this block, what methods of the user's raise is an ObjectError."""
    try:
        yield
    except Error:
        raise
    except RecursionError:
        raise too_deep() from None
    except Exception as error:
        raise ObjectError(error) from error


DEEPEST = 100
"""The deepest nesting of containers."""


class NestingError(UsageError, ValueError):
    """The error for containers that are nested too deep, or contain themselves."""


def too_deep() -> NestingError:
    """The error for containers that are nested more than `DEEPEST` deep."""
    return NestingError(
        f"lists, dicts or objects are nested more than {DEEPEST} deep, or contain themselves; pass tensors in flatter "
        "ones"
    )


def _flatten(value: Any, leaves: list[Any], depth: int) -> Structure:
    kind = type(value)  # and no `isinstance`, which asks the object: it may fail, or claim another class
    if issubclass(kind, Tensor) or kind is TracedScalar:
        leaves.append(value)
        return TENSOR
    depth += 1
    if depth > DEEPEST:
        raise too_deep()
    if kind in (list, tuple, Size):
        return Structure(kind, (), tuple(_flatten(item, leaves, depth) for item in value))
    if issubclass(kind, (list, tuple, deque)) and not _is_of_c(kind):
        return _with_attributes(value, range(len(value)), value, leaves, depth)
    if issubclass(kind, dict):
        keys = [key if type(key) is str or issubclass(type(key), Tensor) else Static(key) for key in value]
        return _with_attributes(value, keys, list(value.values()), leaves, depth)
    if kind is slice:
        ends = (value.start, value.stop, value.step)
        return Structure(slice, (), tuple(_flatten(item, leaves, depth) for item in ends))
    if kind is SimpleNamespace:
        return _with_attributes(value, (), (), leaves, depth)
    if dataclasses.is_dataclass(kind):
        names = [f.name for f in dataclasses.fields(kind)]
        return _with_attributes(value, names, [getattr(value, name) for name in names], leaves, depth)
    return Structure("static", (Static(value),), ())


class Attribute(NamedTuple):
    """The key of an attribute that a container or a dataclass has beside its items or fields."""

    name: str

    def __str__(self) -> str:
        return self.name


def _with_attributes(value: Any, keys: Iterable[Any], items: Iterable[Any], leaves: list[Any], depth: int) -> Structure:
    keys = list(keys)
    more = {name: item for name, item in _attributes(value).items() if name not in keys}
    keys, items = [*keys, *map(Attribute, more)], [*items, *more.values()]
    if not more and issubclass(type(value), (list, tuple)):
        keys = []  # as plain lists and tuples have none
    return Structure(type(value), tuple(keys), tuple(_flatten(item, leaves, depth) for item in items))


def _attributes(value: Any) -> dict[str, Any]:
    """The attributes of an object in its `__dict__`, in its slots, or in C."""
    try:
        found = dict(getattr(value, "__dict__", {}))
    except Exception:  # a property of the user's
        found = {}
    for kind in type(value).__mro__:
        slots = kind.__dict__.get("__slots__", ())
        for slot in (slots,) if isinstance(slots, str) else slots:
            name = f"_{kind.__name__.lstrip('_')}{slot}" if slot.startswith("__") and not slot.endswith("__") else slot
            with contextlib.suppress(Exception):  # empty, or a look-up of the user's that fails
                if name not in ("__dict__", "__weakref__"):
                    found[name] = getattr(value, name)
    if issubclass(type(value), defaultdict):
        found["default_factory"] = value.default_factory
    if issubclass(type(value), deque):
        found["maxlen"] = value.maxlen
    return found


def _is_of_c(kind: type) -> bool:
    """Whether a tuple is a record of C's, such as `time.struct_time`: these are whole values."""
    return hasattr(kind, "n_sequence_fields")


def unflatten(structure: Structure, leaves: Sequence[Any]) -> Any:
    """The nest of `structure` with `leaves` in it."""
    return _unflatten(structure, iter(leaves).__next__)


def _unflatten(structure: Structure, take: Callable[[], Any]) -> Any:
    kind, keys, children = structure
    if kind == "tensor":
        return take()
    if kind == "static":
        return keys[0].value
    items = [_unflatten(child, take) for child in children]
    if kind in (list, tuple, Size):
        return kind(items)
    if kind is slice:
        return slice(*items)
    if issubclass(kind, (list, tuple, deque)):
        return _rebuilt_sequence(kind, keys, items)
    if issubclass(kind, dict):
        names = (key.value if type(key) is Static else key for key in keys)
        return _rebuilt_dict(kind, dict(zip(names, items, strict=True)))
    return _rebuilt_dataclass(kind, dict(zip(keys, items, strict=True)))


def _rebuilt_sequence(kind: Any, keys: Sequence[Any], items: list[Any]) -> Any:
    """A sequence made as `copy` makes it: without the class's own `__init__`, which may take other arguments."""
    more = {key.name: item for key, item in zip(keys, items, strict=False) if type(key) is Attribute}
    inner = items[: len(items) - len(more)]
    made: Any
    if issubclass(kind, tuple):
        made = tuple.__new__(kind, inner)
    elif issubclass(kind, deque):
        made = kind.__new__(kind)
        deque.__init__(made, inner, more.pop("maxlen"))
    else:
        made = kind.__new__(kind)
        list.extend(made, inner)
    for name, item in more.items():
        object.__setattr__(made, name, item)
    return made


def _rebuilt_dict(kind: Any, items: dict[Any, Any]) -> Any:
    if kind is dict:
        return items
    made = kind.__new__(kind)
    for key, item in items.items():
        if type(key) is Attribute:
            object.__setattr__(made, key.name, item)
        else:
            made[key] = item
    return made


def _rebuilt_dataclass(kind: Any, items: dict[Any, Any]) -> Any:
    made = SimpleNamespace() if kind is SimpleNamespace else object.__new__(kind)
    for name, item in items.items():
        object.__setattr__(made, str(name), item)
    return made


def without_undefined(leaves: Sequence[Any], structure: Structure) -> tuple[list[Any], Structure]:
    """The leaves and the structure in which undefined tensors, which hold nothing, are plain values."""
    kept: list[Any] = []
    return kept, _without_undefined(iter(leaves), structure, kept)


def _without_undefined(leaves: Iterator[Any], structure: Structure, kept: list[Any]) -> Structure:
    if structure.kind == "tensor":
        leaf = next(leaves)
        if isinstance(leaf, Tensor) and leaf._array is None:
            return Structure("static", (Static(leaf),), ())
        kept.append(leaf)
        return structure
    children = tuple(_without_undefined(leaves, child, kept) for child in structure.children)
    return structure._replace(children=children)


def statics(structure: Structure, keys: bool = True) -> Iterator[Any]:
    """The non-tensors of a nest, and with `keys` the objects that are keys of its dicts."""
    if structure.kind == "static":
        yield structure.keys[0].value
    elif keys:
        yield from (key.value for key in structure.keys if type(key) is Static and not _is_whole(key.value))
    for child in structure.children:
        yield from statics(child, keys)


def with_plain_keys(structure: Structure) -> Structure:
    """A structure with plain numbers for the traced ones in keys and frozen sets, on which hashing has decided."""
    keys = tuple(Static(_hashed(key.value)) if type(key) is Static else key for key in structure.keys)
    return structure._replace(keys=keys, children=tuple(map(with_plain_keys, structure.children)))


def _hashed(value: Any) -> Any:
    """A hashed value with plain numbers; itself, where it has no traced ones."""
    if not issubclass(type(value), (tuple, frozenset)):
        return concrete(value)
    items = [_hashed(item) for item in value]
    if all(new is old for new, old in zip(items, value, strict=True)):
        return value
    return value._make(items) if hasattr(value, "_make") else type(value)(items)


def _is_whole(key: Any) -> bool:
    """Whether a key is nothing but a number or a string, or a tuple of them."""
    return type(key) in _WHOLE or (type(key) is tuple and all(map(_is_whole, key)))


_WHOLE = (bool, int, float, complex, str, bytes, type(None))


def _text_of(key: Any) -> str:
    """The text of a key, or its class's name if it has none."""
    try:
        return str(key)
    except Exception:  # a method of the user's
        return type(key).__name__


def paths(structure: Structure, prefix: str = "") -> list[str]:
    """A name per leaf: `x`, `x.0`, `x.weight`."""
    kind, _, children = structure
    if kind == "tensor":
        return [prefix or "input"]
    if kind == "static":
        return []
    return [p for part, child in zip(part_names(structure, prefix), children) for p in paths(child, part)]


def part_names(structure: Structure, prefix: str = "") -> list[str]:
    """The name of each part of a container: `x.0`, `x.weight`."""
    kind, keys, children = structure
    names = [_text_of(k.value) if type(k) is Static else str(k) for k in keys] or [str(i) for i in range(len(children))]
    fields = getattr(kind, "_fields", ())
    names[: len(fields)] = fields
    return [f"{prefix}.{name}" if prefix else name for name in names]
