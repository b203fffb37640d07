"""What a function reads besides its arguments: globals, closures, attributes of modules, classes and objects.

Tensors found there give captures their names. Plain Python values found there are baked into a trace, so they are
watched: the fingerprint of what was seen is part of the key, and a changed global, closure cell or attribute is
another key.

Note [Watching]
    The walk follows what the code can name: `co_names` among its globals and the modules of the user's among these, its
    closure cells and defaults, and from there the attributes of modules and plain objects, items of containers, and
    other functions and classes of the user's. Every place that was looked at is a slot (name, fetch, value). As long as
    each slot still holds the same object, no container has grown or shrunk, no array has other contents and no tensor
    another type, the view is the old one; otherwise the walk is made anew. Two views with the same fingerprint list
    their tensors in the same order, which is how a capture finds the tensor that now stands in its place.
"""

from __future__ import annotations

import collections
import contextvars
import dis
import enum
import functools
import gc
import io
import os
import random
import sys
import sysconfig
import threading
import types
import weakref
from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from typing import Any

import numpy as np

from jit.ir.devices import device
from jit.ir.dtypes import DType

from ..autograd.custom import Function
from ..context import PACKAGE
from ..generators import Generator
from ..pytree import bits
from ..tensors import Tensor, Variable
from .promoting import KINDS, Number

Fetch = Callable[[], Any]

_PLAIN = (bool, int, float, complex, str, bytes, type(None))
_FOREIGN = tuple(
    os.path.realpath(p) + os.sep for p in {*sysconfig.get_paths().values(), PACKAGE} if p and p != sys.prefix
)
_UNWATCHED = ("asyncio", "concurrent", "logging", "multiprocessing", "re", "threading", "types", "warnings", "weakref")
"""Packages whose objects have state of their own that says nothing about a function's results."""
_OURS = ("gradient_hooks", "post_accumulate_hooks")
"""Attributes of tensors that are not the user's."""
_TABLES = ("_parameters", "_buffers", "_modules")
"""Where network modules keep what is in their state dict."""
_LIMIT = 20_000
"""Places that a walk looks at, at most; beyond that, containers are watched by identity alone."""


class Same:
    """An object in a fingerprint that stands for itself alone."""

    __slots__ = ("value",)

    def __init__(self, value: Any) -> None:
        self.value = value

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Same) and other.value is self.value

    def __hash__(self) -> int:
        return id(self.value)

    def __repr__(self) -> str:
        return getattr(self.value, "__name__", None) or repr(self.value)


class Watched:
    """Base of objects of this package that say themselves what a function that calls them reads."""

    def watched(self) -> Iterable[tuple[str, Any]]:
        """(name, object) pairs to look at in place of the attributes."""
        raise NotImplementedError


class View:
    """What one walk has seen."""

    def __init__(self, roots: Iterable[tuple[str, Fetch]], promoted: Collection[str] = ()) -> None:
        self._promoted = promoted
        self.numbers: list[tuple[str, Fetch]] = []
        """The places of promoted numbers."""
        self.tensors: list[Any] = []
        """Tensors and generators in the order in which they were met, each once."""
        self._index: dict[int, int] = {}
        self._names: list[str] = []
        self._slots: list[tuple[str, Fetch, Any]] = []
        self._sizes: list[tuple[str, Any, int]] = []
        self._contents: list[tuple[str, Any, Any]] = []
        self._facts: list[tuple[str, Fetch, Any]] = []
        """Things to ask again, and what was answered."""
        self._types: list[tuple[Any, Any]] = []
        self.fingerprint = tuple(self._walk(list(roots)))
        """A hashable summary of every plain value in reach."""

    def name_of(self, owner: Any) -> str | None:
        """The user's name for a tensor: a state-dict path, a variable, an item of a list."""
        index = self._index.get(id(owner))
        return None if index is None else self._names[index]

    def index_of(self, owner: Any) -> int | None:
        """The place of a tensor among `tensors`."""
        return self._index.get(id(owner))

    def effect(self) -> str | None:
        """The name of a place where Python has changed something since; None if there is none."""
        for name, fetch, value in self._slots:
            if fetch() is not value:
                return name
        for name, container, size in self._sizes:
            if len(container) != size:
                return name
        for name, ask, answer in self._facts:
            if ask() != answer:
                return name
        return next((name for name, value, copy in self._contents if not _same_contents(value, copy)), None)

    def iterator(self) -> str | None:
        """The name of an iterator in reach, from which the function may take in a way that nobody can see."""
        return next((name for name, _, value in self._slots if isinstance(value, Iterator) and _can_give(value)), None)

    def has_changed(self) -> bool:
        """Whether anything is no longer as it was seen, the types of tensors included."""
        return self.effect() is not None or any(_type_of(tensor) != kind for tensor, kind in self._types)

    def plain(self) -> Iterator[tuple[str, Any]]:
        """The numbers, strings and arrays that were met, by name."""
        return ((name, value) for name, _, value in self._slots if isinstance(value, (*_PLAIN, np.ndarray, np.generic)))

    def places(self) -> Iterator[tuple[str, Fetch]]:
        """Every place that was looked at, promoted numbers included."""
        yield from ((name, fetch) for name, fetch, _ in self._slots)
        yield from self.numbers

    def objects(self) -> Iterator[Any]:
        """Everything that was looked at."""
        return (value for _, _, value in self._slots)

    def _walk(self, roots: list[tuple[str, Fetch]]) -> Iterator[Any]:
        seen: set[int] = set()
        stack = roots[::-1]
        while stack:
            name, fetch = stack.pop()
            value = fetch()
            if name in self._promoted and type(value) in KINDS:
                self.numbers.append((name, fetch))
                self._note_fact(name, functools.partial(_type_at, fetch))
                yield (name, "promoted", type(value))
                continue
            if not isinstance(fetch, weakref.ref):  # an object that is not to be kept alive stays the one that it is
                self._slots.append((name, fetch, value))
            yield self._look(name, value)
            if not _is_bare(value) and id(value) not in seen and len(self._slots) < _LIMIT:
                seen.add(id(value))
                stack.extend(list(_children(name, value))[::-1])

    def _look(self, name: str, value: Any) -> Any:
        """What the fingerprint says of one value."""
        if isinstance(value, (Tensor, Generator)):
            return self._note_tensor(name, value)
        if isinstance(value, _PLAIN):
            shown = bits(value) if isinstance(value, float) else value
            carried = () if _is_bare(value) else (self._note_size(name, value),)
            return (name, type(value), shown, *carried)
        if isinstance(value, np.ndarray):
            self._contents.append((name, value, value.copy()))
            return (name, value.dtype.str, value.shape, value.tobytes())
        if isinstance(value, (np.random.Generator, np.random.RandomState, random.Random)):
            self._contents.append((name, value, _random_state(value)))
            return (name, Same(value), _random_state(value))
        if isinstance(value, (set, frozenset)):
            self._note_order(name, value)
            return (name, type(value).__name__, tuple(map(_element, value)))
        if isinstance(value, dict):
            self._note_order(name, value)
            return (name, type(value).__name__, len(value))
        if isinstance(value, (list, tuple, collections.deque)):
            self._sizes.append((name, value, len(value)))
            return (name, type(value).__name__, len(value))
        if isinstance(value, threading.local):
            return (name, "thread-local", self._note_fact(name, functools.partial(_names_in, value)))
        if isinstance(value, functools._lru_cache_wrapper):
            self._note_fact(name, functools.partial(_cache_state, value))
            return (name, Same(value))
        if isinstance(value, type(os.environ)):
            return (name, self._note_fact(name, _environment))
        if isinstance(value, type):
            self._sizes.extend((name, space, len(space)) for space in _class_spaces(value))
        elif isinstance(space := getattr(value, "__dict__", None), dict) and has_state(value):
            tables = [space[t] for t in _TABLES if isinstance(space.get(t), dict)]
            for table in tables:
                self._note_order(name, table)
            self._sizes.append((name, space, len(space)))
            return (name, Same(type(value)), tuple(map(len, (space, *tables))))
        return (name, type(value).__name__, value.tobytes()) if isinstance(value, np.generic) else (name, Same(value))

    def _note_fact(self, name: str, ask: Fetch) -> Any:
        answer = ask()
        self._facts.append((name, ask, answer))
        return answer

    def _note_size(self, name: str, value: Any) -> int:
        """How many attributes a number or a string carries."""
        self._sizes.append((name, vars(value), len(vars(value))))
        return len(vars(value))

    def _note_order(self, name: str, container: Any) -> None:
        """Which keys or elements there are, in which order: by identity, since they may be tensors."""
        self._facts.append((name, functools.partial(_identities, container), _identities(container)))

    def _note_tensor(self, name: str, owner: Any) -> Any:
        """Which tensor stands here: the first of its kind is listed, further ones refer to it."""
        index = self._index.setdefault(id(owner), len(self.tensors))
        if index == len(self.tensors):
            self.tensors.append(owner)
            self._names.append(name)
        elif name.count(".") < self._names[index].count("."):
            self._names[index] = name  # a parameter is better known as the model's than as the optimizer's
        if isinstance(owner, Generator):
            return (name, "generator", index)
        kind = _type_of(owner)
        self._types.append((owner, kind))
        self._note_fact(name, functools.partial(_names_in, owner))
        return (name, "tensor", index, kind)


class Surroundings:
    """The world around one function."""

    def __init__(self, function: Callable[..., Any], owner: Any = None, reference: Fetch | None = None) -> None:
        self._roots = list(_roots(function, owner))
        if reference is not None:  # a method, of an instance that this must not keep alive
            self._roots.append(("self", reference))
        self._view: View | None = None
        self.promoted: set[str] = set()
        """Names of numbers that are not part of the key."""
        self._unasked: set[str] = set()
        """Those of them that nobody has asked for."""
        self._baked_in: set[str] = set()
        """Those that have been, and are no longer."""

    def promote(self, name: str) -> None:
        """Leave the number called `name` out of the key."""
        self.promoted.add(name)
        self._view = None

    def promote_unasked(self, names: Iterable[str]) -> bool:
        """Leave numbers out of the key until they turn out to be decided upon; whether there are any."""
        new = {*names} - self._baked_in - self.promoted
        self._unasked |= new
        self.promoted |= new
        if new:
            self._view = None
        return bool(new)

    def bake_in_again(self) -> bool:
        """Make numbers that were promoted unasked part of the key for good; whether there are any."""
        names = set(self._unasked)
        self._unasked -= names
        self.promoted -= names
        self._baked_in |= names
        if names:
            self._view = None
        return bool(names)

    def look(self) -> View:
        """What is there now: the last view as long as nothing has changed."""
        view = self._view
        if view is None or view.has_changed():
            view = self._view = View(self._roots, self.promoted)
        return view

    def modules(self) -> list[Any]:
        """The network modules in reach: what `eval()` would have to switch."""
        found = (
            value for value in View(self._roots).objects() if hasattr(value, "_modules") and hasattr(value, "training")
        )
        return list({id(module): module for module in found}.values())


class World:
    """All that one call may read: the surroundings of the function, and what its argument objects hold."""

    def __init__(self, surroundings: View, arguments: View | None = None) -> None:
        self.surroundings, self.objects = surroundings, arguments
        self._views = [surroundings] if arguments is None else [surroundings, arguments]
        self.fingerprint = tuple(view.fingerprint for view in self._views)
        """A hashable summary."""
        self.tensors = [tensor for view in self._views for tensor in view.tensors]
        """What captures are, by their places."""
        self.numbers = [Number(name, fetch, fetch()) for view in self._views for name, fetch in view.numbers]
        """Promoted numbers, as they are now."""
        self._random: Any = None

    def locate(self, owner: Any) -> tuple[str | None, int | None]:
        """The user's name for a tensor and its place among `tensors`, as far as it is in reach."""
        start = 0
        for view in self._views:
            index = view.index_of(owner)
            if index is not None:
                return view.name_of(owner), start + index
            start += len(view.tensors)
        return None, None

    def plain(self) -> Iterator[tuple[str, Any]]:
        """The numbers, strings and arrays in reach, by name."""
        return (pair for view in self._views for pair in view.plain())

    def watch_random(self) -> None:
        """From now on, drawing from the random generators of Python and numpy counts as an effect."""
        self._random = _random_states()

    def effect(self) -> str | None:
        """What the call has done to Python, in words that fit behind "the call"; None if nothing can be seen."""
        if self._random is not None and self._random != _random_states():
            return "draws from the random numbers of Python or numpy"
        for number in self.numbers:
            if number.fetch() is not number.value:
                return f"changed {number.name}"
        for view in self._views:
            if (name := view.effect()) is not None:
                return f"changed {name or 'its module'}"
            if (name := view.iterator()) is not None:
                return f"may take from the iterator {name}"
        return None


def view_of_objects(objects: Sequence[tuple[str, Any]]) -> View | None:
    """A view of argument values that are neither tensors nor plain; None if there are none."""
    plain = (*_PLAIN, DType, device, np.generic, np.ndarray)
    odd = [(name, value) for name, value in objects if not isinstance(value, plain)]
    return View([(name, functools.partial(_itself, value)) for name, value in odd]) if odd else None


def _is_bare(value: Any) -> bool:
    """Whether a value is a number or a string, and nothing but that: no attributes come with it."""
    return isinstance(value, _PLAIN) and (not hasattr(value, "__dict__") or not has_state(value))


def attributes_of(tensor: Any) -> dict[str, Any]:
    """What the user has attached to a tensor."""
    return {name: value for name, value in vars(tensor).items() if name not in _OURS}


def _names_in(value: Any) -> tuple[str, ...]:
    """The names of the attributes that an object has here and now; hooks on gradients are none."""
    return tuple(name for name in vars(value) if name not in _OURS)


def _type_at(fetch: Fetch) -> type:
    return type(fetch())


def _identities(container: Any) -> tuple[int, ...]:
    return tuple(map(id, container))


def _cache_state(cached: Any) -> Any:
    """How often a cached function has run, and how many results are kept."""
    info = cached.cache_info()
    return info.misses, info.currsize


def _environment() -> Any:
    return tuple(os.environ.items())


def _can_give(iterator: Any) -> bool:
    """Whether something can be taken from an iterator; files that can only be written to are iterators, too."""
    return not isinstance(iterator, io.IOBase) or (not iterator.closed and iterator.readable())


def _itself(value: Any) -> Any:
    return value


def _random_states() -> Any:
    return random.getstate(), _words_of(np.random.get_state())


def _type_of(tensor: Tensor) -> tuple[Any, ...]:
    """What Python can ask of a tensor without reading its elements."""
    array = tensor._array
    if array is None:
        return ("undefined",)
    flags = (tensor.requires_grad, array.flags.writeable)
    return (array.dtype.str, array.dtype.name, array.shape, array.strides, *flags, class_of(tensor))


def class_of(tensor: Any) -> Any:
    """The class of a tensor, as far as it matters: a Tensor becomes a Variable unasked."""
    return Tensor if type(tensor) is Variable else type(tensor)


def _random_state(generator: Any) -> _RandomState:
    if isinstance(generator, np.random.Generator):
        return _RandomState(_words_of(generator.bit_generator.state))
    if isinstance(generator, np.random.RandomState):
        return _RandomState(_words_of(generator.get_state()))
    return _RandomState(_words_of(generator.getstate()))


class _RandomState(tuple[Any, ...]):
    """What a generator of random numbers holds, by value."""

    __slots__ = ()


def _words_of(state: Any) -> Any:
    """A state of numpy's as something hashable: arrays as bytes, since their repr takes a millisecond."""
    if isinstance(state, dict):
        return tuple((key, _words_of(value)) for key, value in state.items())
    if isinstance(state, (tuple, list)):
        return tuple(map(_words_of, state))
    if isinstance(state, np.ndarray):
        return state.dtype.str, state.tobytes()
    return state if type(state) in _PLAIN else repr(state)


def _same_contents(value: Any, copy: Any) -> bool:
    if isinstance(copy, _RandomState):
        return _random_state(value) == copy
    if not isinstance(value, np.ndarray):
        return bool(value == copy)
    return value.shape == copy.shape and value.dtype == copy.dtype and value.tobytes() == copy.tobytes()


def _element(value: Any) -> Any:
    return (type(value).__name__, value) if isinstance(value, _PLAIN) else Same(value)


# -- where to look -----------------------------------------------------------------------------------------------


def _roots(function: Callable[..., Any], owner: Any) -> Iterator[tuple[str, Fetch]]:
    if owner is not None:
        yield "", functools.partial(_itself, owner)
    inner = getattr(function, "__func__", function)
    bound = getattr(function, "__self__", None)
    if bound is not None and bound is not owner:
        yield "self", lambda: bound
    if isinstance(inner, types.FunctionType):
        yield from _named_by(inner)
    elif inner is not owner and bound is None:
        yield getattr(function, "__name__", "function"), lambda: function


def _named_by(function: types.FunctionType) -> Iterator[tuple[str, Fetch]]:
    """The globals, closure cells and defaults that a function's code names, nested code included."""
    space = function.__globals__
    names = list(dict.fromkeys(_global_names(function.__code__)))
    loaded = _loaded_names(function.__code__)
    for name in [name for name in names if name in loaded]:  # others are attributes
        found = space.get(name)
        if isinstance(found, types.ModuleType):
            yield from _module_children(name, found, names, {id(found)})
        elif name in space:
            yield name, functools.partial(space.get, name)
        elif name in ("globals", "eval", "exec", "vars"):
            yield from _plain_globals(space)
        if name not in space:  # a builtin, until somebody hides it
            yield name, functools.partial(space.get, name)
    for name in _imported_names(function.__code__):
        yield f"sys.modules.{name}", functools.partial(sys.modules.get, name)
        if name in sys.modules:
            yield from _module_children(name, sys.modules[name], names, {id(sys.modules[name])})
    if not {"environ", "getenv"}.isdisjoint(names):
        yield "os.environ", functools.partial(_itself, os.environ)
    for name, cell in zip(function.__code__.co_freevars, function.__closure__ or (), strict=True):
        yield name, functools.partial(_contents, cell)
    for index in range(len(function.__defaults__ or ())):
        yield f"default{index}", functools.partial(_default, function, index)
    for name in function.__kwdefaults__ or ():
        yield f"default.{name}", functools.partial(function.__kwdefaults__.get, name)  # type: ignore[union-attr]


def _plain_globals(space: dict[str, Any]) -> Iterator[tuple[str, Fetch]]:
    """For code that may read globals by names made at run time: all numbers, strings, tensors and containers."""
    for name, value in list(space.items()):
        if isinstance(value, (*_PLAIN, Tensor, list, tuple, dict, np.ndarray)) and not name.startswith("__"):
            yield name, functools.partial(space.get, name)


@functools.cache
def _loaded_names(code: types.CodeType) -> frozenset[str]:
    """What code, and code inside of it, reads or writes as a global."""
    inner = (_loaded_names(c) for c in code.co_consts if isinstance(c, types.CodeType))
    return frozenset(names_in_code(code, _GLOBAL)).union(*inner)


@functools.cache
def _imported_names(code: types.CodeType) -> tuple[str, ...]:
    """The modules that code imports while it runs, as far as they are the user's or not there yet."""
    inner = [c for c in code.co_consts if isinstance(c, types.CodeType)]
    names = [name for name in names_in_code(code, _IMPORT) if name]
    return tuple(dict.fromkeys([*names, *(name for c in inner for name in _imported_names(c))]))


_GLOBAL = {i for i, name in enumerate(dis.opname) if "GLOBAL" in name or name == "LOAD_NAME"}
_IMPORT = {dis.opmap["IMPORT_NAME"]}


def names_in_code(code: types.CodeType, opcodes: Collection[int]) -> Iterator[str]:
    """The names that instructions of these kinds name: what `dis.get_instructions` says, many times as fast.

    Args:
        code: Whose instructions; not those of code inside of it.
        opcodes: Of instructions that load, store or import names.
    """
    if sys.version_info >= (3, 15):
        yield from (i.argval for i in dis.get_instructions(code) if i.opcode in opcodes)
        return
    extended, load_global = 0, dis.opmap["LOAD_GLOBAL"]
    units = code.co_code
    for opcode, low in zip(units[::2], units[1::2]):
        argument = extended | low
        extended = argument << 8 if opcode == dis.EXTENDED_ARG else 0
        if opcode in opcodes:
            yield code.co_names[argument >> 1 if opcode == load_global else argument]


def _module_children(prefix: str, module: Any, names: Sequence[str], seen: set[int]) -> Iterator[tuple[str, Fetch]]:
    """What code that mentions `names` may read from a module of the user's."""
    if _is_foreign_module(module):
        return
    space = vars(module)
    for name in names:
        inner = space.get(name)
        if isinstance(inner, types.ModuleType):
            if id(inner) not in seen:
                seen.add(id(inner))
                yield from _module_children(f"{prefix}.{name}", inner, names, seen)
        elif name in space:
            yield f"{prefix}.{name}", functools.partial(space.get, name)


def _is_foreign_module(module: Any) -> bool:
    path = getattr(module, "__file__", None)
    if path is None:
        return module.__name__.partition(".")[0] in sys.stdlib_module_names
    return is_foreign(path)


def _is_foreign_code(function: types.FunctionType) -> bool:
    return is_foreign(function.__code__.co_filename)


@functools.cache
def is_foreign(path: str) -> bool:
    """Whether a file belongs to Python or to this package, and not to the user."""
    return path.startswith("<frozen") or os.path.realpath(path).startswith(_FOREIGN)


def _is_foreign_class(kind: type) -> bool:
    module = sys.modules.get(kind.__module__)
    return module is None or kind.__module__ == "builtins" or _is_foreign_module(module)


def _contents(cell: Any) -> Any:
    try:
        return cell.cell_contents
    except ValueError:
        return None


def _default(function: types.FunctionType, index: int) -> Any:
    defaults = function.__defaults__ or ()
    return defaults[index] if index < len(defaults) else None


def _global_names(code: types.CodeType) -> Iterator[str]:
    yield from code.co_names
    for constant in code.co_consts:
        if isinstance(constant, types.CodeType):
            yield from _global_names(constant)


def _children(name: str, value: Any) -> Iterator[tuple[str, Fetch]]:
    prefix = f"{name}." if name else ""
    if isinstance(value, (list, tuple, collections.deque)):
        for index in range(len(value)):
            yield f"{prefix}{index}", functools.partial(_item, value, index)
    elif isinstance(value, np.ndarray) and value.dtype.hasobject and value.dtype.names is None:
        for index in range(value.size):
            yield f"{prefix}{index}", functools.partial(value.item, index)
    elif isinstance(value, dict):
        for number, key in enumerate(list(value)):
            yield f"{prefix}{number if isinstance(key, Tensor) else key}", functools.partial(value.get, key)
    elif isinstance(value, Tensor):
        for key in attributes_of(value):
            yield f"{prefix}{key}", functools.partial(vars(value).get, key)
    elif isinstance(value, threading.local):
        for key in _names_in(value):
            yield f"{prefix}{key}", functools.partial(_attribute_of, functools.partial(_itself, value), key)
    elif isinstance(value, weakref.ref):
        yield f"{prefix}target", value
    elif isinstance(value, contextvars.ContextVar):
        yield f"{prefix}value", functools.partial(value.get, None)
    elif isinstance(value, functools._lru_cache_wrapper):
        yield from _wrapped(prefix, value)
        for number, kept in enumerate(_kept_results(value)):
            yield f"{prefix}{number}", functools.partial(_itself, kept)
    elif isinstance(value, (Generator, DType, device, types.ModuleType, np.ndarray, np.generic, set, frozenset)):
        return
    elif isinstance(value, Watched):
        yield from (
            (f"{prefix}{inner}".rstrip("."), functools.partial(_itself, thing)) for inner, thing in value.watched()
        )
    elif isinstance(value, types.FunctionType):
        if not _is_foreign_code(value):
            yield from _named_by(value)
        yield from _wrapped(prefix, value)
    elif isinstance(value, types.MethodType):
        yield f"{prefix}self", functools.partial(_itself, value.__self__)
        yield f"{prefix}function", functools.partial(_itself, value.__func__)
    elif isinstance(value, functools.partial):
        for part in ("func", "args", "keywords"):
            yield f"{prefix}{part}", functools.partial(_itself, getattr(value, part))
    elif isinstance(value, type):
        if not issubclass(value, Function):  # a PythonOp runs in every call, so what it reads or writes is never baked
            yield from _class_attributes(prefix, value)
    else:
        yield from _wrapped(prefix, value)
        yield from _attributes(prefix, value)


def _kept_results(cached: Any) -> list[Any]:
    """The results that an unbounded cache keeps; nobody can look into a bounded one."""
    tables = [table for table in gc.get_referents(cached) if type(table) is dict and table is not vars(cached)]
    held = (thing for table in tables for thing in table.values())
    return [thing for thing in held if isinstance(thing, (Tensor, tuple, list, dict))]


def _item(items: Any, index: int) -> Any:
    return items[index] if index < len(items) else None


def _wrapped(prefix: str, value: Any) -> Iterator[tuple[str, Fetch]]:
    """The function inside a decorated one."""
    if hasattr(value, "__wrapped__"):
        yield f"{prefix}wrapped", functools.partial(_wrapped_by, value)


def _wrapped_by(value: Any) -> Any:
    return getattr(value, "__wrapped__", None)


def has_state(value: Any) -> bool:
    """Whether an object's attributes are worth looking at."""
    if isinstance(value, (type, types.FunctionType, types.ModuleType, functools.partial, enum.Enum, Watched, DType)):
        return False
    module = type(value).__module__
    if module.startswith("jit."):
        return module.startswith(("jit.nn.", "jit.optim."))
    return module.partition(".")[0] not in _UNWATCHED or isinstance(value, types.SimpleNamespace)


def _attributes(prefix: str, value: Any) -> Iterator[tuple[str, Fetch]]:
    """Attributes of a plain object; of a network module by their state-dict paths; then what its class holds."""
    if not has_state(value):
        return
    space = getattr(value, "__dict__", None)
    if isinstance(space, dict):
        tables = [t for t in _TABLES if isinstance(space.get(t), dict)]
        for table in tables:
            for key in list(space[table]):
                yield f"{prefix}{key}", functools.partial(_entry, space, table, key)
        if "_modules" in tables:
            yield f"{prefix}hooks of all modules", _shared_hooks
        for key in list(space):
            if key not in tables and not key.startswith("__"):
                yield f"{prefix}{key}", functools.partial(space.get, key)
    for key in slots_of(value):
        yield f"{prefix}{key}", functools.partial(_attribute_of, _reference(value), key)
    yield f"{prefix}__class__", functools.partial(_class_of, _reference(value))


def _shared_hooks() -> Any:
    from ..nn.everywhere import CALLS

    return CALLS


def _reference(value: Any) -> Fetch:
    """A way to an object that does not keep it alive, if its class allows that."""
    try:
        return weakref.ref(value)
    except TypeError:
        return functools.partial(_itself, value)


def _attribute_of(reference: Fetch, key: str) -> Any:
    return getattr(reference(), key, None)


def _class_of(reference: Fetch) -> Any:
    return type(reference())


def _entry(space: dict[str, Any], table: str, key: str) -> Any:
    found = space.get(table)
    return found.get(key) if isinstance(found, dict) else None


def slots_of(value: Any) -> Iterator[str]:
    """The names of an object's attributes that are in slots of classes of the user's."""
    return (name for kind in type(value).__mro__ for name in _slot_names(kind))


def _slot_names(kind: type) -> Sequence[str]:
    if _is_foreign_class(kind):
        return ()
    slots = kind.__dict__.get("__slots__", ())
    return [s for s in ((slots,) if isinstance(slots, str) else slots) if not s.startswith("__")]


def _class_attributes(prefix: str, kind: type) -> Iterator[tuple[str, Fetch]]:
    """What the user's classes hold: constants, methods, properties; inherited ones too."""
    for base in kind.__mro__:
        if _is_foreign_class(base):
            continue
        for key, value in list(vars(base).items()):
            if isinstance(value, (types.FunctionType, property, staticmethod, classmethod)) or not key.startswith("__"):
                yield f"{prefix}{key}", functools.partial(_class_entry, base, key)


def _class_spaces(kind: type) -> Iterator[Any]:
    """Where a class of the user's, and those that it inherits from, have their entries: there may be more one day."""
    if not issubclass(kind, Function):
        yield from (vars(base) for base in kind.__mro__ if not _is_foreign_class(base))


def _class_entry(kind: type, key: str) -> Any:
    value = vars(kind).get(key)
    if isinstance(value, property):
        return value.fget
    return value.__func__ if isinstance(value, (staticmethod, classmethod)) else value
