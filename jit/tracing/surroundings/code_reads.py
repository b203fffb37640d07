"""Places that code reads: the globals that it names, attributes of modules among them, closure cells, defaults."""

from __future__ import annotations

import builtins
import functools
import os
import sys
import types
from collections.abc import Iterable, Iterator
from typing import Any

import numpy as np

from jit.eager.proxies import TracedScalar
from jit.eager.tensors import Tensor

from .facts import FILTERS, LEVELS, NUMPY_ERRORS
from .footprints import scan
from .known_types import PLAIN
from .origins import is_known_module, is_ours
from .peeking import is_a
from .places import CellOf, Child, ClassEntryOf, DefaultOf, EntryOf, Itself


def globals_read(code: types.CodeType, space: dict[str, Any]) -> Iterator[Child]:
    """The globals that code names, and the attributes of modules among them."""
    found = scan(code)
    for name in found.loaded:
        yield name, EntryOf(space.get, name), None
        if name not in space:
            yield f"builtins.{name}", EntryOf(_builtins_of(space).get, name), None
        if is_a(module := space.get(name), types.ModuleType):
            yield from _module_entries(name, module, code, {id(module)})
    if not {"globals", "eval", "exec", "vars"}.isdisjoint(found.loaded):
        yield from _plain_globals(space)
    for name in dict.fromkeys(outer for inner in found.imported for outer in _with_parents(inner)):
        yield f"sys.modules.{name}", EntryOf(sys.modules.get, name), None
        if is_a(module := sys.modules.get(name), types.ModuleType):
            yield from _module_entries(name, module, code, {id(module)})
    if not {"environ", "getenv", "environb", "getenvb"}.isdisjoint(found.named):
        yield "os.environ", Itself(os.environ), None
    if "getLogger" in found.named:
        yield "logging.levels", Itself(LEVELS), None
    if "warn" in found.named:
        yield "warnings.filters", Itself(FILTERS), None
    if any(space.get(name) is np for name in found.loaded):
        yield "numpy.errors", Itself(NUMPY_ERRORS), None
    yield from _methods_named(found.named)


def _methods_named(names: Iterable[str]) -> Iterator[Child]:
    """Methods of tensors, which programs replace as they do those of their own classes."""
    for name in names:
        if not name.startswith("__") and hasattr(Tensor, name):
            for base in Tensor.__mro__:
                yield f"{base.__name__}.{name}", ClassEntryOf(base, name), None
                if name in vars(base):
                    break


def functions_called(code: types.CodeType, space: dict[str, Any]) -> Iterator[Child]:
    """The functions of `nn.functional` that code of a layer calls, which programs replace, too."""
    functional: Any = sys.modules.get("jit.nn.functional")
    if functional is None:
        return
    home, found = vars(functional), scan(code)
    if space is not home and not any(space.get(name) is functional for name in found.loaded):
        return
    _complete(functional, found.loaded if space is home else found.named)
    for name in found.loaded if space is home else found.named:
        if type(home.get(name)) is types.FunctionType:
            yield f"functional.{name}", EntryOf(home.get, name), None


def _builtins_of(space: dict[str, Any]) -> dict[str, Any]:
    found = space.get("__builtins__", builtins)
    return found if isinstance(found, dict) else vars(found)


def _with_parents(name: str) -> Iterator[str]:
    """The packages around a module, and the module."""
    parts = name.split(".")
    return (".".join(parts[:end]) for end in range(1, len(parts) + 1))


def _plain_globals(space: dict[str, Any]) -> Iterator[Child]:
    """Globals for code that may read them by names made at run time: all numbers, strings, tensors and containers."""
    for name, value in list(space.items()):
        if is_a(value, (*PLAIN, TracedScalar, Tensor, list, tuple, dict, np.ndarray)) and not name.startswith("__"):
            yield name, EntryOf(space.get, name), None


def _module_entries(prefix: str, module: Any, code: types.CodeType, seen: set[int]) -> Iterator[Child]:
    """The entries that code may read from a module that it names."""
    found = scan(code)
    space = _complete(module, found.named)
    may_miss = not {"hasattr", "getattr", "AttributeError"}.isdisjoint(found.loaded)
    for name in [*found.named, *(s for s in found.strings if s in space)] if may_miss else found.named:
        inner = space.get(name)
        if is_a(inner, types.ModuleType):
            if id(inner) not in seen:
                seen.add(id(inner))
                yield f"{prefix}.{name}", EntryOf(space.get, name), None
                yield from _module_entries(f"{prefix}.{name}", inner, code, seen)
        elif name in space or (may_miss and not is_known_module(module)):
            yield f"{prefix}.{name}", EntryOf(space.get, name), None


def _complete(module: Any, names: Iterable[str]) -> dict[str, Any]:
    """The entries of a module, those of the names among them that a module of ours would find only when it is asked."""
    space = vars(module)
    if "__getattr__" in space and is_ours(space.get("__file__") or ""):
        for name in _listed(module).intersection(names).difference(space):
            getattr(module, name)
    return space


@functools.cache
def _listed(module: Any) -> frozenset[str]:
    return frozenset(dir(module))


def cells_of(function: types.FunctionType) -> Iterator[Child]:
    """The reads of a function's code besides globals: closure cells and defaults."""
    if "declarations" in vars(function) and is_ours(function.__code__.co_filename):
        return  # an operator
    for name, cell in zip(function.__code__.co_freevars, function.__closure__ or (), strict=True):
        if name not in ("dispatch_cache", "cache_token") or function.__module__ != "functools":
            yield name, (place := CellOf(cell)), None
            if is_a(module := place(), types.ModuleType):
                yield from _module_entries(name, module, function.__code__, {id(module)})
    for index in range(len(function.__defaults__ or ())):
        yield f"default{index}", DefaultOf(function, index), None
    for name in function.__kwdefaults__ or ():
        yield f"default.{name}", EntryOf(function.__kwdefaults__.get, name), None  # type: ignore[union-attr]


__all__ = ["cells_of", "functions_called", "globals_read"]
