"""What a function reads besides its arguments: globals, closures, attributes of modules and objects.

Tensors found there give captures their names. Plain Python values found there are baked into a trace, so they are
watched: `Surroundings.fingerprint()` is part of the key, and a changed global, closure cell or attribute is another key.

Note [Watching]
    The walk follows what the code can name: `co_names` among its globals, its closure cells, and from there the
    attributes of modules and plain objects, items of lists and dicts, and other functions of the user's. Every place
    that was looked at is a slot (container, key, value). As long as each slot still holds the same object, and no array
    changed its contents, the fingerprint is the old one; otherwise the walk is made anew.
"""

from __future__ import annotations

import os
import sys
import sysconfig
import types
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np

from .tensors import Tensor

_PLAIN = (bool, int, float, complex, str, bytes, type(None))
_FOREIGN = tuple(
    os.path.realpath(p) + os.sep for p in {*sysconfig.get_paths().values(), os.path.dirname(__file__)} if p and p != sys.prefix
)
_LIMIT = 20_000
"""Places that a walk looks at, at most; beyond that, containers are watched by identity alone."""


class Surroundings:
    """The world around one function."""

    def __init__(self, function: Callable[..., Any], owner: Any = None) -> None:
        self._roots = list(_roots(function, owner))
        self._slots: list[tuple[Callable[[], Any], Any]] = []
        self._arrays: list[tuple[Any, Any]] = []
        self._names: dict[int, str] = {}
        self._tensors: list[Any] = []
        self._fingerprint: tuple[Any, ...] | None = None

    def fingerprint(self) -> tuple[Any, ...]:
        """A hashable summary of every plain value in reach."""
        if self._fingerprint is None or not self._unchanged():
            self._walk()
        assert self._fingerprint is not None
        return self._fingerprint

    def name_of(self, owner: Any) -> str | None:
        """The user's name for a tensor: a state-dict path, a variable, an item of a list."""
        return self._names.get(id(owner))

    def modules(self) -> list[Any]:
        """The network modules in reach: what `eval()` would have to switch."""
        self._fingerprint = None
        self.fingerprint()
        found = (value for _, value in self._slots if hasattr(value, "_modules") and hasattr(value, "training"))
        return list({id(module): module for module in found}.values())

    def _unchanged(self) -> bool:
        return all(fetch() is value for fetch, value in self._slots) and all(
            a.shape == b.shape and np.array_equal(a, b, equal_nan=a.dtype.kind in "fc") for a, b in self._arrays
        )

    def _walk(self) -> None:
        self._slots, self._arrays, self._names, self._tensors = [], [], {}, []
        found: list[Any] = []
        seen: set[int] = set()
        stack = [(name, fetch) for name, fetch in reversed(self._roots)]
        while stack:
            name, fetch = stack.pop()
            value = fetch()
            self._slots.append((fetch, value))
            found.append(self._look(name, value))
            if not isinstance(value, _PLAIN) and id(value) not in seen and len(self._slots) < _LIMIT:
                seen.add(id(value))
                stack.extend(reversed(list(_children(name, value))))
        self._fingerprint = tuple(found)

    def _look(self, name: str, value: Any) -> Any:
        """What the fingerprint says of one value."""
        if isinstance(value, Tensor):
            self._names.setdefault(id(value), name)
            self._tensors.append(value)
            return (name, "tensor", value.requires_grad, str(value.dtype), tuple(value._array.shape) if value.defined else None)
        if isinstance(value, float):
            return (name, value.hex())
        if isinstance(value, _PLAIN):
            return (name, type(value).__name__, value)
        if isinstance(value, np.ndarray) and value.dtype.kind in "biufcSU":
            self._arrays.append((value, value.copy()))
            return (name, value.dtype.str, value.shape, value.tobytes())
        if isinstance(value, (list, tuple, dict, set)):
            return (name, type(value).__name__, len(value))
        return (name, id(value)) if callable(value) else (name, type(value).__qualname__)


def _roots(function: Callable[..., Any], owner: Any) -> Iterator[tuple[str, Callable[[], Any]]]:
    if owner is not None:
        yield "", lambda: owner
    inner = getattr(function, "__func__", function)
    bound = getattr(function, "__self__", None)
    if bound is not None and bound is not owner:
        yield "self", lambda: bound
    if isinstance(inner, types.FunctionType):
        yield from _named_by(inner)


def _named_by(function: types.FunctionType) -> Iterator[tuple[str, Callable[[], Any]]]:
    """The globals and closure cells that a function's code names, nested code included."""
    space = function.__globals__
    for name in dict.fromkeys(_global_names(function.__code__)):
        if name in space and not isinstance(space[name], types.ModuleType):
            yield name, lambda name=name: space.get(name)  # type: ignore[misc]
    for name, cell in zip(function.__code__.co_freevars, function.__closure__ or (), strict=True):
        yield name, lambda cell=cell: _contents(cell)  # type: ignore[misc]
    for index, default in enumerate(function.__defaults__ or ()):
        yield f"default{index}", lambda default=default: default  # type: ignore[misc]


def _contents(cell: Any) -> Any:
    try:
        return cell.cell_contents
    except ValueError:
        return None


def _global_names(code: types.CodeType) -> Iterator[str]:
    yield from code.co_names
    for constant in code.co_consts:
        if isinstance(constant, types.CodeType):
            yield from _global_names(constant)


def _children(name: str, value: Any) -> Iterator[tuple[str, Callable[[], Any]]]:
    prefix = f"{name}." if name else ""
    if isinstance(value, (list, tuple)):
        for index in range(len(value)):
            yield f"{prefix}{index}", lambda index=index: value[index] if index < len(value) else None  # type: ignore[misc]
    elif isinstance(value, dict):
        for key in list(value):
            yield f"{prefix}{key}", lambda key=key: value.get(key)  # type: ignore[misc]
    elif isinstance(value, types.FunctionType):
        if not value.__code__.co_filename.startswith(_FOREIGN):
            yield from _named_by(value)
    elif isinstance(value, types.MethodType):
        yield f"{prefix}self", lambda: value.__self__
        yield f"{prefix}function", lambda: value.__func__
    elif isinstance(value, (Tensor, type, types.ModuleType, np.ndarray)):
        return
    else:
        yield from _attributes(prefix, value)


def _attributes(prefix: str, value: Any) -> Iterator[tuple[str, Callable[[], Any]]]:
    """Attributes of a plain object; of a network module by their state-dict paths."""
    space = getattr(value, "__dict__", None)
    if space is None or type(value).__module__ in ("builtins", "functools", "threading"):
        return
    tables = [t for t in ("_parameters", "_buffers", "_modules") if isinstance(space.get(t), dict)]
    for table in tables:
        for key in list(space[table]):
            yield f"{prefix}{key}", lambda table=table, key=key: space[table].get(key)  # type: ignore[misc]
    for key in list(space):
        if key not in tables and not key.startswith("__"):
            yield f"{prefix}{key}", lambda key=key: space.get(key)  # type: ignore[misc]
    forward = getattr(type(value), "forward", None) if tables else getattr(type(value), "__call__", None)
    if isinstance(forward, types.FunctionType) and not forward.__code__.co_filename.startswith(_FOREIGN):
        yield f"{prefix}forward()", lambda: forward
