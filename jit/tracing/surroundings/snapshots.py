"""The world as it was before a function ran, to which exports, `jit.verify` and refused calls of `jit.compile` return.

Note [Snapshots]
    Elements are copied when they are first written to (see jit.eager.effects), arguments and small tensors at once,
    since foreign code may write to them unseen. Everything else is Python: what the walk of
    jit.tracing.surroundings.views meets - objects, modules, optimizers, containers, arrays, classes, functions
    with their cells and globals, random generators - is noted one level deep at the beginning, and put back where it
    differs. Storages count their versions from a number that never comes again, so that nothing saved meanwhile is
    taken for what they hold afterwards. Objects that cannot be looked into stay as the call leaves them: generators
    and other iterators, caches, files.
"""

from __future__ import annotations

import array
import collections
import contextlib
import dis
import functools
import itertools
import os
import random
import types
import weakref
from collections.abc import Callable, Iterator, Sequence
from contextvars import ContextVar
from typing import Any

import numpy as np

from jit.eager import context
from jit.eager.effects import NOTES, Effects, Region, fresh_version
from jit.eager.generators import Generator, default_generator
from jit.eager.hooks import OnceFlag
from jit.eager.tensors import Storage, Tensor
from jit.runtime.arrays.libraries import is_array, is_writable

from .footprints import names_in_code
from .known_types import has_state
from .origins import is_foreign_class
from .peeking import asked, is_a, slots_of
from .places import EntryOf, Itself, Place, Write
from .surroundings import Surroundings
from .views import View

Undo = Callable[[], object]

_AT_ONCE = 1 << 20
"""The most bytes of tensors that are copied before anything runs."""
_SLOTS = tuple(s for s in Tensor.__slots__ if s not in ("__dict__", "__weakref__", "_accumulator", "_bindings"))
_MISSING = object()
_GLOBALS = {dis.opmap["STORE_GLOBAL"], dis.opmap["DELETE_GLOBAL"]}
_ATTRIBUTES = {dis.opmap["STORE_ATTR"], dis.opmap["DELETE_ATTR"]}
_LOADED = {dis.opmap["LOAD_GLOBAL"]}


@contextlib.contextmanager
def preserved(function: Any, owner: Any = None, *arguments: Any) -> Iterator[None]:
    """Put back, at the end of this block, whatever a call of `function` within it has changed, also if it raises.

    Args:
        function: The function that will be called.
        owner: The network module that it belongs to.
        arguments: The arguments that it will be called with, nested in any way.
    """
    snapshot = _Snapshot(function, owner, arguments)
    token = NOTES.set(snapshot.memory)
    try:
        try:
            yield
        finally:
            NOTES.reset(token)
            snapshot.restore()
    finally:  # once more: an interrupt may have cut the first time short
        snapshot.restore()


@contextlib.contextmanager
def taken_back(error: type[Exception], function: Any, owner: Any, *arguments: Any) -> Iterator[None]:
    """Put back whatever a call of `function` within this block has changed, if it ends in such an error.

    Args:
        error: The class of the error, which is raised all the same.
        function: The function that will be called.
        owner: The network module that it belongs to.
        arguments: The arguments that it will be called with, nested in any way.
    """
    snapshot = _Snapshot(function, owner, arguments, renumbers=False)
    token = NOTES.set(snapshot.memory)
    try:
        try:
            yield
        finally:
            NOTES.reset(token)
    except error:
        snapshot.restore()
        raise


class _Snapshot:
    """The state of before, to be put back.

    Args:
        function: The function that will be called.
        owner: The network module that it belongs to.
        arguments: The arguments of the call.
        renumbers: Whether storages that are written to count their versions from another number.
    """

    def __init__(self, function: Any, owner: Any, arguments: Sequence[Any], renumbers: bool = True) -> None:
        around = Surroundings(function, owner).reach()
        given = View([("argument", Itself(arguments))])
        hooks = View([("a hook", Itself(hook)) for hook in _hooks_of((around, given))])
        views = (around, given, hooks)
        tensors = _with_relatives([t for view in views for t in view.tensors if isinstance(t, Tensor) and t.defined])
        arguments = [t for t in given.tensors if isinstance(t, Tensor) and t.defined]
        self.memory = _SnapshotMemory(tensors, arguments, renumbers)
        generators = {default_generator(), *(g for view in views for g in view.tensors if isinstance(g, Generator))}
        objects = [function, owner, *tensors, *(thing for view in views for thing in view.objects())]
        self._undo: list[Undo] = [*map(_random, generators), *_shared_random(), *_modes()]
        for thing in {id(thing): thing for thing in objects}.values():
            self._undo += _undoing(thing)
        for _, place in (named for view in views for named in view.places()):
            self._undo += _undoing_place(place)

    def restore(self) -> None:
        """Put everything back; more than once does no harm."""
        for undo in self._undo:
            undo()
        self.memory.restore()


class _SnapshotMemory(Effects):
    """Notes of the tensors that are written to, and of the versions of their storages before that."""

    def __init__(self, known: Sequence[Tensor], arguments: Sequence[Tensor], renumbers: bool) -> None:
        super().__init__()
        self._renumbers = renumbers
        self._owners = {id(owner): owner for owner in (_owner_of(tensor._array) for tensor in known)}
        self._kept: dict[Storage, None] = {}
        """Storages that are kept alive, since their memory belongs to a tensor that was there before."""
        self._versions: weakref.WeakKeyDictionary[Storage, tuple[int, Any]] = weakref.WeakKeyDictionary()
        small = [tensor for tensor in known if tensor._array.nbytes <= _AT_ONCE]
        for tensor in {id(t): t for t in (*arguments, *small)}.values():
            self._keep(tensor)

    def _keep(self, tensor: Tensor) -> None:
        if is_writable(tensor._array):
            array = tensor._array
            self._kept[tensor._storage] = None
            self.regions[id(tensor)] = Region(weakref.ref(tensor._storage), array, array.copy())

    def note_write(self, tensor: Tensor) -> None:
        """`tensor` will be written to."""
        super().note_write(tensor)
        storage = tensor._storage
        if id(_owner_of(tensor._array)) in self._owners:
            self._kept[storage] = None
        if storage not in self._versions:
            self._versions[storage] = (storage.version, storage.writer)
            if self._renumbers:
                storage.version = fresh_version()

    def restore(self) -> None:
        """Put back elements, versions and generators."""
        for region in reversed(list(self.regions.values())):
            region.array[...] = region.before
        for storage, (version, writer) in list(self._versions.items()):
            storage.version, storage.writer = version, writer
        for generator, state in self.drawn.items():
            generator.state = state


def _owner_of(array: Any) -> Any:
    """The object whose memory an array shows."""
    while isinstance(array, np.ndarray) and array.base is not None:
        array = array.base
    return array if isinstance(array, np.ndarray) or not is_array(array) else array.data.mem


def _hooks_of(views: Sequence[View]) -> Iterator[Any]:
    """The hooks of tensors, which run in a backward."""
    for tensor in (t for view in views for t in view.tensors if isinstance(t, Tensor)):
        for table in vars(tensor).values():
            entries = table.values() if isinstance(table, dict) else ()
            yield from (part for entry in entries if is_a(entry, tuple) for part in entry if callable(part))


def _with_relatives(tensors: Sequence[Tensor]) -> list[Tensor]:
    """Tensors, their gradients, and what they are views of."""
    found: dict[int, Tensor] = {}
    stack = list(tensors)
    while stack:
        tensor = stack.pop()
        if id(tensor) not in found and tensor.defined:
            found[id(tensor)] = tensor
            stack += [other for other in (tensor._grad, tensor._viewed) if other is not None]
    return list(found.values())


# -- states and places -------------------------------------------------------------------------------------------


def _random(generator: Generator) -> Undo:
    return functools.partial(setattr, generator, "state", generator.state)


def _shared_random() -> list[Undo]:
    """The way back of the global random generators of Python and numpy."""
    python, numpy = random.getstate(), np.random.get_state()
    return [functools.partial(random.setstate, python), functools.partial(np.random.set_state, numpy)]


def _modes() -> list[Undo]:
    """The way back of whether gradients are recorded, and of what `autocast` is set to."""
    modes: list[ContextVar[Any]] = [context.GRAD_ENABLED, context.AUTOCAST]
    return [functools.partial(mode.set, mode.get()) for mode in modes]


def _undoing_place(place: Place) -> Iterator[Undo]:
    """The way back of a place: of an entry of a dict, and of a counter in any place that can be set."""
    if isinstance(place, EntryOf) and type(place.space) is dict:
        yield _names(place.space, [place.key])
    value = place()
    write = place.writer() if type(value) is itertools.count else None
    if write is not None:
        yield _counter(place, write, value)


def _counter(place: Place, write: Write, value: Any) -> Undo:
    """The way back of an `itertools.count`, which cannot be set back: another one takes its place."""
    start = repr(value)
    arguments = [int(n) if n.lstrip("-").isdigit() else float(n) for n in start[6:-1].split(", ")]

    def undo() -> None:
        if place() is value and repr(value) != start:
            write(itertools.count(*arguments))

    return undo


# -- what objects hold -------------------------------------------------------------------------------------------


def _undoing(thing: Any) -> Iterator[Undo]:
    """The way back of all that `thing` itself holds, one level deep."""
    if is_a(thing, Tensor):
        yield from undoing_tensor(thing)
    elif is_a(thing, (types.FunctionType, types.MethodType)):
        yield from _undoing_function(getattr(thing, "__func__", thing))
    elif is_a(thing, type):
        if not is_foreign_class(thing):
            yield _class(thing)
    else:
        yield from _undoing_contents(thing)
        yield from _undoing_attributes(thing)


def undoing_tensor(tensor: Tensor) -> Iterator[Undo]:
    before = [getattr(tensor, slot) for slot in _SLOTS]
    kind = type(tensor)

    def undo() -> None:
        if type(tensor) is not kind:
            tensor.__class__ = kind
        for slot, value in zip(_SLOTS, before, strict=True):
            if getattr(tensor, slot) is not value:
                setattr(tensor, slot, value)

    yield undo
    space = vars(tensor)
    yield _dict(space)
    yield from (_dict(hooks) for hooks in space.values() if is_a(hooks, dict))


def _undoing_contents(thing: Any) -> Iterator[Undo]:
    if is_a(thing, dict):
        yield _dict(thing)
    elif is_a(thing, list):
        yield _list(thing)
    elif is_a(thing, collections.deque):
        yield _refilled(thing, collections.deque, collections.deque.extend)
    elif is_a(thing, set):
        yield _refilled(thing, set, set.update)
    elif is_a(thing, (bytearray, array.array)):
        yield functools.partial(thing.__setitem__, slice(None), thing[:])
    elif is_a(thing, np.ndarray):
        if thing.flags.writeable:
            yield functools.partial(np.copyto, thing, thing.copy())
    elif is_a(thing, type(os.environ)):
        yield _mapping(thing)
    elif is_a(thing, np.random.Generator):
        yield functools.partial(setattr, thing.bit_generator, "state", thing.bit_generator.state)
    elif is_a(thing, np.random.RandomState):
        yield functools.partial(thing.set_state, thing.get_state())
    elif is_a(thing, random.Random) and not is_a(thing, random.SystemRandom):
        yield functools.partial(thing.setstate, thing.getstate())


def _undoing_attributes(thing: Any) -> Iterator[Undo]:
    """The way back of the attributes of an object of the user's, a network module or an optimizer, with its tables."""
    if is_a(thing, OnceFlag):
        yield _dict(vars(thing))
    if not has_state(thing):
        return
    yield functools.partial(_become, thing, type(thing))
    space = asked(thing, "__dict__")
    if is_a(space, dict):
        yield _dict(space)
        yield from (_dict(table) for name, table in list(space.items()) if is_a(table, dict) and name[:1] == "_")
    for name in slots_of(thing):
        yield _slot(thing, name, asked(thing, name, _MISSING))


def _become(thing: Any, kind: type) -> None:
    """Let an object be of a class again, as lazy modules are others once they know their sizes."""
    if type(thing) is not kind:
        object.__setattr__(thing, "__class__", kind)


def _undoing_function(function: Any) -> Iterator[Undo]:
    """The way back of a function: attributes, defaults, cells, and the globals and modules' attributes that it sets."""
    if not is_a(function, types.FunctionType):
        return
    yield _dict(vars(function))
    for name in ("__defaults__", "__kwdefaults__"):
        yield functools.partial(setattr, function, name, getattr(function, name))
    if function.__kwdefaults__:
        yield _dict(function.__kwdefaults__)
    yield from map(_cell, function.__closure__ or ())
    codes = list(_codes(function.__code__))
    stored, attributes, loaded = ({n for code in codes for n in names_in_code(code, kind)} for kind in _KINDS)
    yield _names(function.__globals__, stored)
    for module in (function.__globals__.get(name) for name in loaded if attributes):
        if is_a(module, types.ModuleType):
            yield _names(vars(module), attributes)


_KINDS = (_GLOBALS, _ATTRIBUTES, _LOADED)


def _codes(code: types.CodeType) -> Iterator[types.CodeType]:
    """Code, and the code inside of it."""
    yield code
    for constant in code.co_consts:
        if isinstance(constant, types.CodeType):
            yield from _codes(constant)


# -- putting back ------------------------------------------------------------------------------------------------


def _dict(space: dict[Any, Any]) -> Undo:
    kind: Any = collections.OrderedDict if isinstance(space, collections.OrderedDict) else dict
    before = list(kind.items(space))

    def undo() -> None:
        now = list(kind.items(space))
        if len(now) != len(before) or any(a is not c or b is not d for (a, b), (c, d) in zip(now, before, strict=True)):
            kind.clear(space)
            kind.update(space, before)

    return undo


def _names(space: dict[str, Any], names: Any) -> Undo:
    """The way back of some entries of a dict whose other entries stay as they are."""
    before = {name: space.get(name, _MISSING) for name in names}

    def undo() -> None:
        for name, value in before.items():
            if value is _MISSING:
                space.pop(name, None)
            elif space.get(name, _MISSING) is not value:
                space[name] = value

    return undo


def _list(items: list[Any]) -> Undo:
    before = list.copy(items)

    def undo() -> None:
        now = [*list.__iter__(items)]
        if len(now) != len(before) or any(a is not b for a, b in zip(now, before, strict=True)):
            list.__setitem__(items, slice(None), before)

    return undo


def _refilled(things: Any, kind: Any, fill: Any) -> Undo:
    before = list(kind.__iter__(things))

    def undo() -> None:
        now = list(kind.__iter__(things))
        if len(now) != len(before) or any(a is not b for a, b in zip(now, before, strict=True)):
            kind.clear(things)
            fill(things, before)

    return undo


def _mapping(space: Any) -> Undo:
    before = dict(space)

    def undo() -> None:
        for key in [key for key in space if key not in before]:
            del space[key]
        for key, value in before.items():
            if space.get(key) != value:
                space[key] = value

    return undo


def _class(kind: type) -> Undo:
    before = dict(vars(kind))

    def undo() -> None:
        now = dict(vars(kind))
        for name in now.keys() - before.keys() - _OF_CLASSES:
            type.__delattr__(kind, name)
        for name in before.keys() - _OF_CLASSES:
            if now.get(name, _MISSING) is not before[name]:
                type.__setattr__(kind, name, before[name])

    return undo


_OF_CLASSES = {"__dict__", "__weakref__"}


def _slot(thing: Any, name: str, before: Any) -> Undo:
    def undo() -> None:
        now = asked(thing, name, _MISSING)
        if before is _MISSING and now is not _MISSING:
            object.__delattr__(thing, name)
        elif now is not before:
            object.__setattr__(thing, name, before)

    return undo


def _cell(cell: Any) -> Undo:
    before = _contents(cell)

    def undo() -> None:
        now = _contents(cell)
        if before is _MISSING and now is not _MISSING:
            del cell.cell_contents
        elif now is not before:
            cell.cell_contents = before

    return undo


def _contents(cell: Any) -> Any:
    try:
        return cell.cell_contents
    except ValueError:
        return _MISSING


__all__ = ["Undo", "preserved", "undoing_tensor"]
