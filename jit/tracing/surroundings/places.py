"""Where a function looks: from a value to the places that can be reached from it, each with a way to ask again.

What is known of a type says which of three things holds for its objects: they never change (`is_settled`), what they
hold can be listed (`children`) or copied (jit.tracing.surroundings.contents), or nobody can look into them
(`is_opaque`).
"""

from __future__ import annotations

import _thread
import abc
import builtins
import collections
import contextvars
import ctypes
import datetime
import decimal
import functools
import gc
import io
import operator
import os
import random
import re
import struct
import sys
import threading
import types
import typing
import weakref
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any

import numpy as np

from jit.autograd.custom import Function
from jit.eager.generators import Generator
from jit.eager.hooks import HookTable
from jit.eager.networks import CALLS, initial_state
from jit.eager.proxies import TracedScalar
from jit.eager.tensors import Tensor
from jit.ir.devices import device
from jit.ir.dtypes import DType

from .contents import COPIED, is_copied
from .descriptions import (
    said_by_cell,
    said_of_class,
    said_of_function,
    said_of_property,
    said_of_typing,
    subclasses_below,
)
from .footprints import Footprint, scan
from .judgements import FILTERS, LEVELS, NUMPY_ERRORS
from .origins import DULL, file_of, is_foreign_class, is_known_module, is_ours

Fetch = Callable[[], Any]
Child = tuple[str, Fetch, "str | None"]
"""A name, a way to ask, and the attribute that code has to name for it to count; None if it always does."""

PLAIN = (bool, int, float, complex, str, bytes, type(None))
OURS = ("gradient_hooks", "post_accumulate_hooks")
"""Attributes of tensors that are not the user's."""
TABLES = ("_parameters", "_buffers", "_modules")
"""Where network modules keep what is in their state dict."""


class Watched:
    """Base of objects of this package that say themselves what a function that calls them reads."""

    def watched(self) -> Iterable[tuple[str, Any]]:
        """(name, object) pairs to look at in place of the attributes."""
        raise NotImplementedError


# -- ways to ask -------------------------------------------------------------------------------------------------
# They are known by name to jit.tracing.shortcuts.shortcuts and jit.tracing.surroundings.promoting.


def asked(value: Any, name: str, default: Any = None) -> Any:
    """`getattr` of objects whose own look-ups may fail in any way."""
    try:
        return getattr(value, name, default)
    except Exception:
        return default


def _itself(value: Any) -> Any:
    return value


def _contents(cell: Any) -> Any:
    try:
        return cell.cell_contents
    except ValueError:
        return None


def _default(function: types.FunctionType, index: int) -> Any:
    defaults = function.__defaults__ or ()
    return defaults[index] if index < len(defaults) else None


def _item(items: Any, index: int) -> Any:
    kind = type(items) if type(items) in _SEQUENCES else _sequence(items)
    return kind.__getitem__(items, index) if index < kind.__len__(items) else None


def _sequence(items: Any) -> Any:
    """What a subclass of a list is, whatever it makes of that."""
    return next(kind for kind in _SEQUENCES if isinstance(items, kind))


def length_of(items: Any) -> int:
    """The length of a container, without running code of the user's."""
    if type(items) in _EXACT:
        return len(items)
    return next(k.__len__(items) for k in (*_SEQUENCES, dict, set, frozenset) if isinstance(items, k))


_SEQUENCES: Any = (list, tuple, collections.deque)
_EXACT: Any = frozenset(
    {list, tuple, dict, set, frozenset, collections.deque, collections.OrderedDict, collections.defaultdict, HookTable}
)
"""Containers that have no code of anybody else's."""


def _wrapped_by(value: Any) -> Any:
    return (space_of(value) or {}).get("__wrapped__")


def _attribute_of(reference: Fetch, key: str) -> Any:
    return asked(reference(), key)


def _class_of(reference: Fetch) -> Any:
    return type(reference())


def _entry(space: dict[str, Any], table: str, key: str) -> Any:
    found = space.get(table)
    return found.get(key) if isinstance(found, dict) else None


def _slot(reference: Fetch, descriptor: Any) -> Any:
    thing = reference()
    try:
        return None if thing is None else descriptor.__get__(thing)
    except AttributeError:
        return None


def _class_entry(kind: type, key: str) -> Any:
    value = vars(kind).get(key)
    if isinstance(value, property):
        return value.fget
    return value.__func__ if isinstance(value, (staticmethod, classmethod)) else value


def _target(proxy: Any) -> Any:
    """What a `weakref.proxy` stands for."""
    try:
        return proxy.__str__.__self__
    except ReferenceError:
        return None


def _names_in(value: Any) -> tuple[str, ...]:
    """The names of the attributes that an object has here and now; hooks on gradients are none."""
    names = vars(value)
    return tuple(name for name in names if name not in OURS) if names else ()


def _shared_hooks() -> Any:
    return CALLS


def _reference(value: Any) -> Fetch:
    """A way to an object that does not keep it alive, if its class allows that."""
    try:
        return weakref.ref(value)
    except TypeError:
        return functools.partial(_itself, value)


def _to(value: Any) -> Fetch:
    return functools.partial(_itself, value)


# -- what is known of types --------------------------------------------------------------------------------------

_FIELD_OF_TUPLES = type(vars(collections.namedtuple("Named", "a"))["a"])
_FIELD_OF_C = type(vars(type("Named", (ctypes.Structure,), {"_fields_": [("a", ctypes.c_int)]}))["a"])
_SETTLED: set[type] = {
    *PLAIN, type(...), type(NotImplemented), range, types.CodeType,
    types.WrapperDescriptorType, types.MethodDescriptorType, types.ClassMethodDescriptorType,
    types.GetSetDescriptorType, types.MemberDescriptorType, type(type.__dict__["__doc__"]), re.Pattern, re.Match,
    struct.Struct, datetime.date, datetime.time, datetime.timedelta, datetime.tzinfo, decimal.Decimal,
    np.dtype, np.ufunc, np.generic, type(np.sum), operator.itemgetter, type(_thread.allocate_lock()),
    type(threading.RLock()), os.stat_result, Generator, DType, device, TracedScalar, os.PathLike, np.iinfo, np.finfo,
    type(sys.flags), type(sys.version_info), _FIELD_OF_TUPLES, _FIELD_OF_C,
    type(datetime.datetime_CAPI),
}  # fmt: skip
"""Types whose objects stay what they are, or have nothing to them that a function can read."""
if hasattr(functools, "Placeholder"):  # from Python 3.14 on
    _SETTLED.add(type(functools.Placeholder))
_FAMILIES = (BaseException, io.IOBase, datetime.date, datetime.tzinfo, np.generic, np.dtype)
"""Classes whose subclasses in C are no riddle either; files that give something are iterators."""
_SETTLED_MODULES = ("pathlib", "typing", "fractions", "ml_dtypes")


@functools.lru_cache(4096)
def is_dull(kind: Any) -> bool:
    """Whether objects of a class are not worth looking at: they are ours, or have a state that is nobody's business."""
    module = kind.__module__ if isinstance(kind.__module__, str) else ""
    if module.startswith("jit."):
        return not module.startswith(("jit.nn.", "jit.optim."))
    root = module.partition(".")[0]
    return root in _SETTLED_MODULES or (root in DULL and kind is not types.SimpleNamespace and _is_librarys(kind))


def _is_librarys(kind: type) -> bool:
    module = sys.modules.get(kind.__module__)
    return module is not None and is_known_module(module)


def has_state(value: Any) -> bool:
    """Whether an object's attributes are worth looking at."""
    if isinstance(value, (type, types.FunctionType, types.ModuleType, functools.partial, Watched, DType)):
        return False
    kind: Any = type(value)
    return not is_dull(kind)


def is_bare(value: Any) -> bool:
    """Whether a value is a number or a string, and nothing but that: no attributes come with it."""
    return isinstance(value, PLAIN) and (type(value) in PLAIN or space_of(value) is None)


def is_opaque(value: Any) -> bool:
    """Whether nobody can say what an object holds."""
    kind: Any = type(value)
    if kind.__name__ == "cython_function_or_method":  # no hook sees calls of these
        return not str(value.__module__).startswith("numpy")
    return not issubclass(kind, (type, types.ModuleType)) and _is_opaque_class(kind) and not is_copied(value)


@functools.lru_cache(4096)
def _is_opaque_class(kind: Any) -> bool:
    if issubclass(kind, _FAMILIES):
        return False
    for base in kind.__mro__:
        if base in _SETTLED or base in _WAYS or base in COPIED or is_dull(base):
            return False
        if base is not object and (not base.__flags__ & 1 << 9 or base.__flags__ & 1 << 8):
            return True  # written in C
    return kind is not object and kind.__dictoffset__ == 0 and not any("__slots__" in vars(b) for b in kind.__mro__)


def space_of(value: Any) -> dict[str, Any] | None:
    """The dict of an object's attributes, asked for without running code of the user's."""
    try:
        space = object.__getattribute__(value, "__dict__")
    except AttributeError:
        return None
    return space if isinstance(space, dict) else None


def attributes_of(tensor: Any) -> dict[str, Any]:
    """What the user has attached to a tensor."""
    return {name: value for name, value in vars(tensor).items() if name not in OURS}


# -- functions ---------------------------------------------------------------------------------------------------


def globals_read(code: types.CodeType, space: dict[str, Any]) -> Iterator[Child]:
    """The globals that code names, and the attributes of modules among them."""
    found = scan(code)
    for name in found.loaded:
        yield name, functools.partial(space.get, name), None
        if name not in space:
            yield f"builtins.{name}", functools.partial(_builtins_of(space).get, name), None
        if isinstance(module := space.get(name), types.ModuleType):
            yield from _module_entries(name, module, code, {id(module)})
    if not {"globals", "eval", "exec", "vars"}.isdisjoint(found.loaded):
        yield from _plain_globals(space)
    for name in dict.fromkeys(outer for inner in found.imported for outer in _with_parents(inner)):
        yield f"sys.modules.{name}", functools.partial(sys.modules.get, name), None
        if isinstance(module := sys.modules.get(name), types.ModuleType):
            yield from _module_entries(name, module, code, {id(module)})
    if not {"environ", "getenv", "environb", "getenvb"}.isdisjoint(found.named):
        yield "os.environ", _to(os.environ), None
    if "getLogger" in found.named:
        yield "logging.levels", _to(LEVELS), None
    if "warn" in found.named:
        yield "warnings.filters", _to(FILTERS), None
    if any(space.get(name) is np for name in found.loaded):
        yield "numpy.errors", _to(NUMPY_ERRORS), None

    yield from _methods_named(found.named)


def _methods_named(names: Iterable[str]) -> Iterator[Child]:
    """Methods of tensors, which programs replace as they do those of their own classes."""
    for name in names:
        if not name.startswith("__") and hasattr(Tensor, name):
            for base in Tensor.__mro__:
                yield f"{base.__name__}.{name}", functools.partial(_class_entry, base, name), None
                if name in vars(base):
                    break


def functions_called(code: types.CodeType, space: dict[str, Any]) -> Iterator[Child]:
    """The functions of `nn.functional` that code of a layer calls, which programs replace, too."""
    functional: Any = sys.modules["jit.nn.functional"]
    home, found = vars(functional), scan(code)
    if space is not home and not any(space.get(name) is functional for name in found.loaded):
        return
    for name in found.loaded if space is home else found.named:
        if type(home.get(name)) is types.FunctionType:
            yield f"functional.{name}", functools.partial(home.get, name), None


def _builtins_of(space: dict[str, Any]) -> dict[str, Any]:
    found = space.get("__builtins__", builtins)
    return found if isinstance(found, dict) else vars(found)


def _with_parents(name: str) -> Iterator[str]:
    """The packages around a module, and the module."""
    parts = name.split(".")
    return (".".join(parts[:end]) for end in range(1, len(parts) + 1))


def _plain_globals(space: dict[str, Any]) -> Iterator[Child]:
    """For code that may read globals by names made at run time: all numbers, strings, tensors and containers."""
    for name, value in list(space.items()):
        if isinstance(value, (*PLAIN, Tensor, list, tuple, dict, np.ndarray)) and not name.startswith("__"):
            yield name, functools.partial(space.get, name), None


def _module_entries(prefix: str, module: Any, code: types.CodeType, seen: set[int]) -> Iterator[Child]:
    """What code may read from a module that it names."""
    space, found = vars(module), scan(code)
    may_miss = not {"hasattr", "getattr", "AttributeError"}.isdisjoint(found.loaded)
    for name in [*found.named, *(s for s in found.strings if s in space)] if may_miss else found.named:
        inner = space.get(name)
        if isinstance(inner, types.ModuleType):
            if id(inner) not in seen:
                seen.add(id(inner))
                yield f"{prefix}.{name}", functools.partial(space.get, name), None
                yield from _module_entries(f"{prefix}.{name}", inner, code, seen)
        elif name in space or (may_miss and not is_known_module(module)):
            yield f"{prefix}.{name}", functools.partial(space.get, name), None


def cells_of(function: types.FunctionType) -> Iterator[Child]:
    """What a function's code reads besides globals: closure cells and defaults."""
    if "declarations" in vars(function) and is_ours(function.__code__.co_filename):
        return  # an operator
    for name, cell in zip(function.__code__.co_freevars, function.__closure__ or (), strict=True):
        if name not in ("dispatch_cache", "cache_token") or function.__module__ != "functools":
            yield name, functools.partial(_contents, cell), None
            if isinstance(module := _contents(cell), types.ModuleType):
                yield from _module_entries(name, module, function.__code__, {id(module)})
    for index in range(len(function.__defaults__ or ())):
        yield f"default{index}", functools.partial(_default, function, index), None
    for name in function.__kwdefaults__ or ():
        yield f"default.{name}", functools.partial(function.__kwdefaults__.get, name), None  # type: ignore[union-attr]


def state_of_function(function: types.FunctionType) -> tuple[Any, Any, Any]:
    """What can be set anew of a function."""
    return function.__code__, function.__defaults__, function.__kwdefaults__


# -- from a value to the places behind it ------------------------------------------------------------------------


def children(name: str, value: Any, footprint: Footprint) -> Iterator[Child]:
    """The places that can be reached from a value."""
    prefix = f"{name}." if name else ""
    kind = type(value)
    if kind in _EXACT:
        yield from _WAYS[kind](prefix, value)
        return
    if kind in _SETTLED:
        return
    if isinstance(value, type):
        yield from subclasses_below(prefix, value)
        if not issubclass(value, Function):  # a PythonOp runs in every call, so what it reads or writes is never baked
            yield from _class_attributes(prefix, value)
        return
    if kind is types.ModuleType or issubclass(kind, types.ModuleType):
        yield from _of_module(prefix, value, footprint)
        return
    if kind.__module__ == "typing" and kind not in _WAYS:
        yield from said_of_typing(prefix, value)
        return
    base = kind if kind in _WAYS else next((base for base in kind.__mro__ if base in _WAYS), None)
    if base is not None:
        yield from _WAYS[base](prefix, value)
    if base is None or (base is not kind and base not in _COMPLETE):
        yield from _wrapped(prefix, value)
        yield from _attributes(prefix, value)


def _of_items(prefix: str, value: Any) -> Iterator[Child]:
    for index in range(length_of(value)):
        yield f"{prefix}{index}", functools.partial(_item, value, index), None


def _of_array(prefix: str, value: Any) -> Iterator[Child]:
    if value.dtype.hasobject and value.dtype.names is None:
        for index in range(value.size):
            yield f"{prefix}{index}", functools.partial(value.item, index), None


def _of_dict(prefix: str, value: Any) -> Iterator[Child]:
    if value is sys.modules:
        return
    for number, key in enumerate(keys_of(value)):
        yield f"{prefix}{_label(key, number)}", _get(value, key), None
        if not isinstance(key, (*PLAIN, Tensor)) and not (type(key) is tuple and all(type(k) in PLAIN for k in key)):
            yield f"{prefix}key {number}", _to(key), None
    if isinstance(value, collections.defaultdict):
        yield f"{prefix}default_factory", functools.partial(_attribute_of, _to(value), "default_factory"), None


def _label(key: Any, number: int) -> str:
    return str(key) if isinstance(key, PLAIN) else str(number)


def keys_of(container: Any) -> list[Any]:
    """The keys or elements of a dict or a set in their order, without running code of the user's."""
    kind: Any = type(container)
    return list(container if kind in _EXACT else _iterating(kind)(container))


@functools.lru_cache(4096)
def _iterating(kind: Any) -> Callable[[Any], Any]:
    """What gives the keys of such containers."""
    kinds = (collections.OrderedDict, dict, set, frozenset)
    return next((base.__iter__ for base in kinds if issubclass(kind, base)), iter)


def _get(value: Any, key: Any) -> Fetch:
    return functools.partial(value.get if type(value).get is dict.get else functools.partial(dict.get, value), key)


def _of_set(prefix: str, value: Any) -> Iterator[Child]:
    for number, thing in enumerate(keys_of(value)):
        if not isinstance(thing, (*PLAIN, Tensor)):
            yield f"{prefix}{number}", _to(thing), None


def _of_tensor(prefix: str, value: Any) -> Iterator[Child]:
    for key in attributes_of(value):
        yield f"{prefix}{key}", functools.partial(vars(value).get, key), None


def _of_local(prefix: str, value: Any) -> Iterator[Child]:
    for key in _names_in(value):
        yield f"{prefix}{key}", functools.partial(_attribute_of, _to(value), key), None


def _of_reference(prefix: str, value: Any) -> Iterator[Child]:
    yield f"{prefix}target", value, None


def _of_proxy(prefix: str, value: Any) -> Iterator[Child]:
    yield f"{prefix}target", functools.partial(_target, value), None


def _of_variable(prefix: str, value: Any) -> Iterator[Child]:
    yield f"{prefix}value", functools.partial(value.get, None), None


def _of_cached(prefix: str, value: Any) -> Iterator[Child]:
    yield from _wrapped(prefix, value)
    for number, kept in enumerate(_kept_results(value)):
        yield f"{prefix}{number}", _to(kept), None


def _kept_results(cached: Any) -> list[Any]:
    """The results that an unbounded cache keeps; nobody can look into a bounded one."""
    tables = [table for table in gc.get_referents(cached) if type(table) is dict and table is not vars(cached)]
    held = (thing for table in tables for thing in table.values())
    return [thing for thing in held if isinstance(thing, (Tensor, tuple, list, dict))]


def _of_watched(prefix: str, value: Any) -> Iterator[Child]:
    yield from ((f"{prefix}{inner}".rstrip("."), _to(thing), None) for inner, thing in value.watched())


def _of_function(prefix: str, value: Any) -> Iterator[Child]:
    """What is attached to a function; what its code reads is another matter."""
    for key in vars(value):
        if key != "__wrapped__":
            yield f"{prefix}{key}", functools.partial(vars(value).get, key), key
    yield from _wrapped(prefix, value)
    if not is_ours(value.__code__.co_filename):
        yield from said_of_function(prefix, value)


def _of_method(prefix: str, value: Any) -> Iterator[Child]:
    yield f"{prefix}self", _to(value.__self__), None
    yield f"{prefix}function", _to(value.__func__), None


def _of_builtin(prefix: str, value: Any) -> Iterator[Child]:
    owner = value.__self__
    if not isinstance(owner, (types.ModuleType, random.Random, np.random.RandomState, np.random.Generator)):
        yield f"{prefix}self", _to(owner), None


def _of_partial(prefix: str, value: Any) -> Iterator[Child]:
    for part in ("func", "args", "keywords"):
        yield f"{prefix}{part}", functools.partial(_attribute_of, _to(value), part), None
    for key in vars(value):
        yield f"{prefix}{key}", functools.partial(vars(value).get, key), key


def _of_mapping_proxy(prefix: str, value: Any) -> Iterator[Child]:
    for thing in gc.get_referents(value):
        yield f"{prefix}mapping", _to(thing), None


def _of_exception(prefix: str, value: Any) -> Iterator[Child]:
    yield f"{prefix}args", functools.partial(_attribute_of, _to(value), "args"), None
    kind: Any = type(value)
    for key in _said_of_errors(kind):
        yield f"{prefix}{key}", functools.partial(_attribute_of, _to(value), key), key


@functools.lru_cache(4096)
def _said_of_errors(kind: Any) -> tuple[str, ...]:
    """The attributes that errors of a class have by themselves."""
    fields = types.MemberDescriptorType, types.GetSetDescriptorType
    found = (key for base in kind.__mro__ for key, value in vars(base).items() if isinstance(value, fields))
    return tuple(key for key in found if key not in ("args", "__dict__", "__weakref__"))


def _of_property(prefix: str, value: Any) -> Iterator[Child]:
    for part in ("fget", "fset", "fdel"):
        if getattr(value, part) is not None:
            yield f"{prefix}{part}", _to(getattr(value, part)), None
    yield from said_of_property(prefix, value)


def _of_static(prefix: str, value: Any) -> Iterator[Child]:
    yield f"{prefix}function", _to(value.__func__), None


def _of_dispatching(prefix: str, value: Any) -> Iterator[Child]:
    """A `singledispatchmethod` holds a cache besides, from Python 3.13 on."""
    for part in ("dispatcher", "func"):
        yield f"{prefix}{part}", functools.partial(_attribute_of, _to(value), part), None


def _of_alias(prefix: str, value: Any) -> Iterator[Child]:
    """The classes behind `Box[float]`, which makes objects of them, behind `A | B` and behind a `type` statement."""
    for part in ("__origin__", "__args__") if isinstance(value, _ALIASES) else ("__args__", "__value__"):
        if (found := asked(value, part)) is not None:
            yield f"{prefix}{part}", _to(found), None


_ALIASES = (types.GenericAlias, typing._GenericAlias)  # type: ignore[attr-defined]


def _of_slice(prefix: str, value: Any) -> Iterator[Child]:
    for part in (value.start, value.stop, value.step):
        if not isinstance(part, PLAIN):
            yield f"{prefix}part", _to(part), None


def _of_getter(prefix: str, value: Any) -> Iterator[Child]:
    """The names that an `attrgetter` or a `methodcaller` looks up are noted by whoever walks."""
    for thing in value.__reduce__()[1]:
        if not isinstance(thing, PLAIN):
            yield f"{prefix}part", _to(thing), None


def names_in_getter(value: Any) -> frozenset[str]:
    """The names that an `attrgetter`, a `methodcaller` or a protocol looks up."""
    if isinstance(value, type):
        spaces = [vars(base) for base in value.__mro__ if "_is_protocol" in vars(base)]
        return frozenset(name for space in spaces for name in (*space, *space.get("__annotations__", ())))
    texts = [text for text in value.__reduce__()[1] if isinstance(text, str)]
    return frozenset(word for text in texts for word in text.split("."))


def _nothing(prefix: str, value: Any) -> Iterator[Child]:
    return iter(())


def _of_module(prefix: str, module: Any, footprint: Footprint) -> Iterator[Child]:
    """A module that is held by something else than a global: its entries by the names that occur anywhere."""
    if is_known_module(module) or is_ours(file_of(module) or ""):
        return
    space = vars(module)
    yield f"{prefix}__class__", functools.partial(_class_of, _to(module)), None
    yield f"{prefix}__getattr__", functools.partial(space.get, "__getattr__"), None
    for name in list(space):
        if name == "__name__" or name in footprint.names or not footprint.everything:
            yield f"{prefix}{name}", functools.partial(space.get, name), None if name == "__name__" else name


def _wrapped(prefix: str, value: Any) -> Iterator[Child]:
    """The function inside a decorated one."""
    if "__wrapped__" in (space_of(value) or ()):
        yield f"{prefix}wrapped", functools.partial(_wrapped_by, value), None


def _attributes(prefix: str, value: Any) -> Iterator[Child]:
    """Attributes of a plain object; of a network module by their state-dict paths; then what its class holds."""
    if not has_state(value):
        yield from _of_log(prefix, value)
        return
    space = space_of(value)
    if space is not None:
        tables = [t for t in TABLES if isinstance(space.get(t), dict)]
        for table in tables:
            for key in list(space[table]):
                yield f"{prefix}{key}", functools.partial(_entry, space, table, key), None
        if "_modules" in tables:
            yield f"{prefix}hooks of all modules", _shared_hooks, None
        always = _keys_of_modules() if "_modules" in tables else ()
        all_count = type(value).__module__.startswith("jit.") or isinstance(value, types.SimpleNamespace)
        for key in list(space):
            if key not in tables and key != "__wrapped__":
                counts = (all_count or key in always) and not (isinstance(key, str) and key.startswith("__"))
                yield f"{prefix}{key}", functools.partial(space.get, key), None if counts else key
    kind: Any = type(value)
    for key, descriptor in _slot_descriptors(kind):
        yield f"{prefix}{key}", functools.partial(_slot, _reference(value), descriptor), key
    yield f"{prefix}__class__", functools.partial(_class_of, _reference(value)), None


_MACHINERY = frozenset({"_cache", "parent", "manager", "lock", "stream", "filters", "handlers", "root"})


def _of_log(prefix: str, value: Any) -> Iterator[Child]:
    """What code can ask of loggers, handlers and formatters besides what makes them work."""
    if type(value).__module__ == "logging" and not isinstance(value, type):
        for key in list(space_of(value) or ()):
            if key not in _MACHINERY:
                yield f"{prefix}{key}", functools.partial(vars(value).get, key), key


@functools.cache
def _keys_of_modules() -> frozenset[str]:
    """The attributes that every network module has."""
    return frozenset(initial_state())


@functools.lru_cache(4096)
def _slot_descriptors(kind: Any) -> tuple[tuple[str, Any], ...]:
    """The slots of classes of the user's, with what reads them."""
    pairs = [(key, d) for base in kind.__mro__ if not is_foreign_class(base) or "__slots__" in vars(base)
             for key, d in vars(base).items() if isinstance(d, types.MemberDescriptorType)]  # fmt: skip
    return tuple((key, d) for key, d in pairs if not key.startswith("__"))


def slots_of(value: Any) -> Iterator[str]:
    """The names of an object's attributes that are in slots of classes of the user's."""
    return (name for kind in type(value).__mro__ for name in _slot_names(kind))


def _slot_names(kind: type) -> Sequence[str]:
    if is_foreign_class(kind):
        return ()
    slots = kind.__dict__.get("__slots__", ())
    return [s for s in ((slots,) if isinstance(slots, str) else slots) if not s.startswith("__")]


_NAMELESS = frozenset({"__dict__", "__weakref__", "__qualname__", "__slots__", "__abstractmethods__", "__parameters__",
                       "__firstlineno__", "_abc_impl", "__static_attributes__", "__dataclass_fields__",
                       "__dataclass_params__", "__annotate_func__", "__annotations_cache__"})  # fmt: skip


def _class_attributes(prefix: str, kind: type) -> Iterator[Child]:
    """What the user's classes hold: constants, methods, properties; inherited ones too."""
    for base in kind.__mro__:
        if is_foreign_class(base):
            continue
        ours = base.__module__.startswith("jit.")
        for key, value in list(vars(base).items()):
            is_code = isinstance(value, (types.FunctionType, property, staticmethod, classmethod))
            if is_code or key not in _NAMELESS:
                always = is_code and key.startswith("__") and (not ours or key == "__call__")
                yield f"{prefix}{key}", functools.partial(_class_entry, base, key), None if always else key
            if isinstance(value, property):
                for part in (value.fset, value.fdel):
                    if part is not None:
                        yield f"{prefix}{key}", _to(part), key
    if not is_foreign_class(kind) and not kind.__module__.startswith("jit."):
        yield from said_of_class(prefix, kind)
    if type(kind) not in (type, abc.ABCMeta):
        yield f"{prefix}__class__", functools.partial(_class_of, _to(kind)), None


def class_spaces(kind: type) -> Iterator[Any]:
    """Where a class of the user's, and those that it inherits from, have their entries: there may be more one day."""
    if not issubclass(kind, Function):
        yield from (vars(base) for base in kind.__mro__ if not is_foreign_class(base))


_WAYS: dict[type, Callable[[str, Any], Iterator[Child]]] = {
    list: _of_items, tuple: _of_items, collections.deque: _of_items, np.ndarray: _of_array, dict: _of_dict,
    collections.OrderedDict: _of_dict, collections.defaultdict: _of_dict, HookTable: _of_dict,
    set: _of_set, frozenset: _of_set, Tensor: _of_tensor, threading.local: _of_local, weakref.ref: _of_reference,
    contextvars.ContextVar: _of_variable,
    functools._lru_cache_wrapper: _of_cached, Watched: _of_watched, types.FunctionType: _of_function,
    types.MethodType: _of_method, types.BuiltinMethodType: _of_builtin, types.MethodWrapperType: _of_builtin,
    functools.partial: _of_partial, types.MappingProxyType: _of_mapping_proxy, property: _of_property,
    type({}.keys()): _of_mapping_proxy, type({}.values()): _of_mapping_proxy, type({}.items()): _of_mapping_proxy,
    type(collections.OrderedDict().keys()): _of_mapping_proxy, slice: _of_slice,
    type(collections.OrderedDict().values()): _of_mapping_proxy,
    type(collections.OrderedDict().items()): _of_mapping_proxy,
    staticmethod: _of_static, classmethod: _of_static, functools.singledispatchmethod: _of_dispatching,
    operator.attrgetter: _of_getter,
    operator.methodcaller: _of_getter, weakref.ProxyType: _of_proxy, weakref.CallableProxyType: _of_proxy,
    BaseException: _of_exception, types.CellType: said_by_cell,
    types.SimpleNamespace: lambda prefix, value: _attributes(prefix, value),
    **dict.fromkeys((*_ALIASES, types.UnionType, getattr(typing, "TypeAliasType", types.UnionType)), _of_alias),
    random.Random: _nothing, np.random.Generator: _nothing, np.random.RandomState: _nothing, super: _nothing,
}  # fmt: skip
"""By classes: how to get on from their objects. What a subclass adds are attributes."""
_COMPLETE = (Tensor, Watched, threading.local, types.SimpleNamespace)
"""Classes whose way says all of their subclasses' objects, too."""


__all__ = [
    "OURS", "PLAIN", "TABLES", "Child", "Fetch", "Watched", "attributes_of", "cells_of", "children", "class_spaces",
    "functions_called", "globals_read", "has_state", "is_bare", "is_dull", "is_opaque", "keys_of", "length_of",
    "names_in_getter", "slots_of", "space_of", "state_of_function",
]  # fmt: skip
