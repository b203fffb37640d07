"""What a function reads besides its arguments: globals, closures, attributes of modules, classes and objects.

Tensors found there give captures their names. Plain Python values found there are baked into a trace, so they are
watched: the fingerprint of what was seen is part of the key, and a changed global, closure cell or attribute is
another key.

Note [Watching]
    The walk follows what the code that ran can name (Note [Footprints]): the globals in it, closure cells and defaults
    of its functions, and from there attributes, items of containers, and further functions that ran. Every place that
    was looked at is a slot (name, fetch, value). As long as each slot still holds the same object, no container has
    grown or shrunk, nothing that is watched by its contents has others and no tensor another type, the view is the old
    one; otherwise the walk is made anew. Two views with the same fingerprint list their tensors in the same order,
    which is how a capture finds the tensor that now stands in its place.

    While a function is recorded nobody knows yet what will run. So its view grows: as each function starts, what its
    code can read is looked at before it has run. When it is over, the view is what every later call is compared with,
    and what differs from it is what the call has changed. A view that is made anew later grows by the same steps, in
    the same order (Footprint.steps), so that it lists the same things in the same order; the look that comes before a
    recording is where its own view begins.
"""

from __future__ import annotations

import collections
import decimal
import functools
import gc
import io
import operator
import os
import sys
import threading
import types
import weakref
from collections.abc import Callable, Collection, Iterable, Iterator, Sequence, Set
from typing import Any

import numpy as np

from jit.eager.generators import Generator
from jit.eager.hooks import HookTable
from jit.eager.pytree import looking
from jit.eager.tensors import Tensor, Variable
from jit.ir.devices import device
from jit.ir.dtypes import DType
from jit.ir.scalars import exactly

from ..patience import patience
from .contents import COPIED, copy_of, is_copied, random_states, same_contents
from .footprints import Footprint, Step, codes_in, is_mute, scan, words_in
from .judgements import generation_of, judgement_of
from .origins import is_foreign, is_foreign_class, is_harmless, is_users
from .places import (
    _EXACT,
    PLAIN,
    TABLES,
    Child,
    Fetch,
    Watched,
    _itself,
    _names_in,
    _reference,
    asked,
    attributes_of,
    cells_of,
    children,
    class_spaces,
    functions_called,
    globals_read,
    has_state,
    is_bare,
    is_opaque,
    keys_of,
    length_of,
    names_in_getter,
    space_of,
    state_of_function,
)
from .promoting import KINDS, Number

_LIMIT = 200_000
"""Places that a walk looks at, at most: what reads more is not kept."""


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
        return asked(self.value, "__name__") or object.__repr__(self.value)


class Fingerprint(tuple[Any, ...]):
    """Lines that are hashed once: there may be thousands, and every call looks for its key."""

    def __hash__(self) -> int:
        known: int | None = self.__dict__.get("hash")
        if known is None:
            known = self.__dict__["hash"] = super().__hash__()
        return known


class View:
    """What one walk has seen."""

    def __init__(
        self,
        roots: Iterable[tuple[str, Fetch]],
        promoted: Collection[str] = (),
        footprint: Footprint | None = None,
        *,
        with_globals: bool = True,
        grows: bool = False,
        kinds: dict[int, Any] | None = None,
    ) -> None:
        self._promoted = promoted
        self.footprint = Footprint(everything=True) if footprint is None else footprint
        self._with_globals = with_globals
        self._grows = grows
        self._kinds = kinds or {}
        self._live = False
        """Whether it grows while the function runs."""
        self.generation = 0
        """Of the footprint that the view was made with."""
        self.entered = False
        """Whether a function has started that had been found before."""
        self.named: set[str] = set()
        """The names of attributes that getters among the objects look up."""
        self.late: set[str] = set()
        """Promoted numbers that were met while the function ran, so that nothing stands in their places."""
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
        self._functions: list[tuple[str, types.FunctionType, Any]] = []
        """Functions that ran, and what can be set anew of them."""
        self._spaces: list[tuple[str, Fetch, Any]] = []
        """Where objects have their attributes: a dict of which another may take the place."""
        self._lineages: list[tuple[str, type, Any, str]] = []
        """Classes of the user's, what they inherit from, and what they are called in texts."""
        self._opaque: list[tuple[str, Any]] = []
        """Objects into which nobody can look."""
        self._seen: set[int] = set()
        self._globals: set[tuple[int, str]] = set()
        self._waiting: dict[str, list[Child]] = {}
        """Places that count as soon as some code names an attribute."""
        self._idle: dict[int, list[tuple[str, types.FunctionType]]] = {}
        """By their code: functions that have not run."""
        self._lines: list[Any] = []
        with looking():
            self._follow([(name, fetch, None) for name, fetch in roots])
            for code, space in [*self.footprint.codes.values(), *self.footprint.layers.values()]:
                self._follow(self._read_by(code, space))
            self._follow(self._imported())
        self.fingerprint = Fingerprint(self._lines)
        """A hashable summary of every plain value in reach."""

    @classmethod
    def along(
        cls,
        roots: Iterable[tuple[str, Fetch]],
        promoted: Collection[str],
        steps: Iterable[Step],
        kinds: dict[int, Any] | None = None,
    ) -> View:
        """A view that has grown by these steps, and can grow on."""
        view = cls(roots, promoted, Footprint(), grows=True, kinds=kinds)
        with looking():
            grow([view], view.footprint, steps)
        view.settle()
        return view

    def fork(self) -> View:
        """The same view, to grow on its own while the function runs."""
        made = View.__new__(View)
        made.__dict__ = {name: x.copy() if type(x) in _COLLECTIONS else x for name, x in vars(self).items()}
        made._waiting = {key: places.copy() for key, places in self._waiting.items()}
        made._idle = {key: functions.copy() for key, functions in self._idle.items()}
        made._live, made.entered = True, False
        return made

    def settle(self) -> None:
        """It has grown, and is over with it."""
        self._live = False
        self.fingerprint = Fingerprint(self._lines)

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
        for name, fetch, space in self._spaces:
            if space_of(fetch()) is not space:
                return name
        for name, kind, line, called in self._lineages:
            if kind.__mro__ is not line or kind.__qualname__ is not called:
                return name
        for name, function, state in self._functions:
            if any(a is not b for a, b in zip(state_of_function(function), state, strict=True)):
                return name
        return next((name for name, value, copy in self._contents if not same_contents(value, copy)), None)

    def iterator(self) -> str | None:
        """The name of an iterator in reach, from which the function may take in a way that nobody can see."""
        return next((name for name, _, value in self._slots if _gives_unseen(value)), None)

    def riddle(self) -> str | None:
        """What makes this view incomplete, in words; None if nothing does."""
        if len(self._slots) >= _LIMIT:
            return f"reads more than {_LIMIT} places"
        for name, value in self._opaque:
            return f"reads {name}, a {type(value).__name__} that nobody can look into"
        if self.footprint.sees_callers:
            return "looks at its callers"
        if id(sys.modules) in self._seen and not any(name in sys.modules for name in self._texts()):
            return "takes a module out of sys.modules by a name that nobody knows"
        return None

    def _texts(self) -> set[str]:
        """The strings in the code that ran, and those that it can read."""
        return self.footprint.strings.union(value for _, _, value in self._slots if type(value) is str)

    def has_changed(self) -> bool:
        """Whether anything is no longer as it was seen, the types of tensors included."""
        return self.effect() is not None or self.has_other_types()

    def has_other_types(self) -> bool:
        """Whether a tensor is no longer of the type that it was seen with."""
        return any(_type_of(tensor) != kind for tensor, kind in self._types)

    def plain(self) -> Iterator[tuple[str, Any]]:
        """The numbers, strings and arrays that were met, by name."""
        return ((name, value) for name, _, value in self._slots if isinstance(value, (*PLAIN, np.ndarray, np.generic)))

    def places(self) -> Iterator[tuple[str, Fetch]]:
        """Every place that was looked at, promoted numbers included."""
        yield from ((name, fetch) for name, fetch, _ in self._slots)
        yield from self.numbers

    def objects(self) -> Iterator[Any]:
        """Everything that was looked at."""
        return (value for _, _, value in self._slots)

    def kinds(self) -> dict[int, Any]:
        """By identity: what each tensor was when it was first looked at."""
        return {id(tensor): kind for tensor, kind in self._types}

    # -- growing -------------------------------------------------------------------------------------------------

    def grow(self, step: Step, names: Set[str]) -> None:
        """Look at what can be read after a step that the footprint has made.

        Args:
            step: See `Footprint.steps`.
            names: Those of attributes that count from now on.
        """
        if step is None:
            self.see_everything()
            return
        if isinstance(step, tuple):
            self._follow(self._read_by(*step))
        self._release(names)
        if isinstance(step, tuple):
            for each in (step[0], *codes_in(step[0])):
                for name, function in self._idle.pop(id(each), ()):
                    self.entered = True
                    self._enter(name, function)

    def _release(self, names: Set[str]) -> None:
        """Attributes with these names count from now on, or all if any name may be looked up."""
        if self.footprint.dynamic:
            while due := next((name for name in self._waiting if self.footprint.looks_up(name)), None):
                self._follow(self._waiting.pop(due))
        elif names:
            for name in sorted(names & self._waiting.keys()):
                self._follow(self._waiting.pop(name))
        self._follow(self._imported())

    def see_everything(self) -> None:
        """All code counts that can be reached."""
        self._release(frozenset())
        while self._idle:
            for name, function in self._idle.pop(next(iter(self._idle))):
                self._enter(name, function)

    def _read_by(self, code: types.CodeType, space: dict[str, Any]) -> list[Child]:
        """The globals that code reads, as far as they have not been looked at."""
        if not self._with_globals or not (
            self.footprint.everything or id(code) in self.footprint.codes or id(code) in self.footprint.layers
        ):
            return []
        read = functions_called if id(code) in self.footprint.layers else globals_read
        found = [c for c in read(code, space) if (id(space), c[0]) not in self._globals]
        self._globals.update((id(space), name) for name, _, _ in found)
        return found

    def _imported(self) -> list[Child]:
        """Modules that code takes out of `sys.modules`, or imports, by names made at run time."""
        knows_modules = id(sys.modules) in self._seen
        if not self._with_globals or not (self.footprint.modules or knows_modules or self.footprint.asks_environment):
            return []
        names = dict(self.footprint.modules)
        if knows_modules:
            names.update(dict.fromkeys(sorted(text for text in self._texts() if text in sys.modules)))
        if self.footprint.asks_environment and (0, "os.environ") not in self._globals:
            self._globals.add((0, "os.environ"))
            return [("os.environ", functools.partial(_itself, os.environ), None), *self._imported()]
        found = [name for name in names if (0, name) not in self._globals]
        self._globals.update((0, name) for name in found)
        return [(f"sys.modules.{name}", functools.partial(sys.modules.get, name), None) for name in found]

    # -- walking -------------------------------------------------------------------------------------------------

    def _follow(self, places: list[Child]) -> None:
        stack, footprint = places[::-1], self.footprint
        while stack:
            name, fetch, key = stack.pop()
            if key is not None and key not in footprint.names and not footprint.looks_up(key):
                if self._grows:
                    self._waiting.setdefault(key, []).append((name, fetch, key))
                continue
            value = fetch()
            kind = type(value)
            if kind in _SIMPLE and name not in self._promoted:  # as are most: what is below says the same of them
                self._slots.append((name, fetch, value))
                self._lines.append((name, kind, value))
                continue
            if name in self._promoted and kind in KINDS:
                if not self._live:
                    self.numbers.append((name, fetch))
                    self._note_fact(name, functools.partial(_type_at, fetch))
                    self._lines.append((name, "promoted", kind))
                    continue
                self.late.add(name)
            if not isinstance(fetch, weakref.ref):  # an object that is not to be kept alive stays the one that it is
                self._slots.append((name, fetch, value))
            self._lines.append(self._look(name, value))
            if kind in _EXACT and not value:
                continue
            if not is_bare(value) and id(value) not in self._seen and len(self._slots) < _LIMIT:
                self._seen.add(id(value))
                stack.extend(self._behind(name, value)[::-1])

    def _behind(self, name: str, value: Any) -> list[Child]:
        """The places to look at next."""
        if type(value) in _EXACT:
            return list(children(name, value, self.footprint))
        if is_opaque(value):
            self._opaque.append((name, value))
        if self._grows and (type(value) in _NAMING or (isinstance(value, type) and "_is_protocol" in vars(value))):
            self.named |= names_in_getter(value)
        found = list(children(name, value, self.footprint))
        if type(value) is types.FunctionType:
            self._see_function(name, value, found)
        return found

    def _see_function(self, name: str, function: types.FunctionType, found: list[Child]) -> None:
        """Add what the code of a function reads to what is `found`, if it has run."""
        code = function.__code__
        if self.footprint.everything and not is_users(code.co_filename) and id(code) not in self.footprint.codes:
            return
        if not self.footprint.has_run(code):
            if self._grows:
                self._idle.setdefault(id(code), []).append((name, function))
            return
        if not is_harmless(code.co_filename):
            self._functions.append((name, function, state_of_function(function)))
        if self.footprint.everything:
            self.footprint.names |= scan(code).names
            found += self._read_by(code, function.__globals__)
        found += cells_of(function)

    def _enter(self, name: str, function: types.FunctionType) -> None:
        found: list[Child] = []
        self._see_function(name, function, found)
        self._follow(found)

    # -- looking at one value ------------------------------------------------------------------------------------

    def _look(self, name: str, value: Any) -> Any:
        """What the fingerprint says of one value."""
        kind = type(value)
        if kind in _EXACT and value is not sys.modules:
            return self._look_at_container(name, kind, value)
        if kind in weakref.ProxyTypes:
            return (name, Same(value))
        if isinstance(value, (Tensor, Generator)):
            return self._note_tensor(name, value)
        if isinstance(value, PLAIN):
            shown = exactly(value)[1] if isinstance(value, (float, complex)) else value
            carried = () if is_bare(value) else (self._note_size(name, value),)
            return (name, kind, shown, *carried)
        if is_copied(value):
            return self._note_contents(name, value)
        if isinstance(value, (set, frozenset)):
            self._note_order(name, value)
            return (name, kind.__name__, tuple(map(_element, keys_of(value))), *self._carried(name, value))
        if isinstance(value, dict) and value is not sys.modules:
            self._note_order(name, value)
            return (name, kind.__name__, length_of(value), *self._carried(name, value))
        if isinstance(value, (list, tuple, collections.deque)):
            size = self._note_fact(name, functools.partial(length_of, value))
            return (name, kind.__name__, size, *self._carried(name, value))
        return self._look_at_object(name, value)

    def _look_at_container(self, name: str, kind: type, value: Any) -> Any:
        """What the fingerprint says of a container that has no code of anybody else's."""
        size = len(value)
        if not size or kind in (list, tuple, collections.deque):
            self._sizes.append((name, value, size))
        else:
            self._note_order(name, value)
        is_set = kind is set or kind is frozenset
        return (name, kind.__name__, tuple(map(_element, value)) if is_set else size)

    def _look_at_object(self, name: str, value: Any) -> Any:
        """What the fingerprint says of an object that is neither a number nor a container."""
        if isinstance(value, threading.local):
            return (name, "thread-local", self._note_fact(name, functools.partial(_names_in, value)))
        if isinstance(value, functools._lru_cache_wrapper):
            return (name, Same(value), self._note_fact(name, functools.partial(generation_of, value)))
        if (ask := judgement_of(value)) is not None:
            self._note_fact(name, ask)
        if isinstance(value, type(os.environ)):
            return (name, self._note_fact(name, _environment))
        if isinstance(value, np.generic):
            return (name, type(value).__name__, value.tobytes())
        if isinstance(value, functools.partial):
            self._sizes.append((name, vars(value), len(vars(value))))
        if type(value) is types.FunctionType:
            self._sizes.append((name, vars(value), len(vars(value))))
            return (name, Same(value), Same(value.__code__))
        if isinstance(value, _VIEWS):
            for thing in gc.get_referents(value):
                if isinstance(thing, dict):
                    self._note_order(name, thing)
            return (name, Same(value))
        if value is decimal.Decimal or type(value) is decimal.Decimal or value is decimal:
            return (name, Same(value), self._note_fact(name, _decimal_context))
        if isinstance(value, type):
            self._sizes.extend((name, space, len(space)) for space in class_spaces(value))
            if is_foreign_class(value) or value.__module__.startswith("jit."):
                return (name, Same(value), ask and ask())
            self._lineages.append((name, value, value.__mro__, value.__qualname__))
            return (name, Same(value), ask and ask(), value.__qualname__, *map(Same, value.__mro__))
        if isinstance(value, types.ModuleType) or not has_state(value) or (space := space_of(value)) is None:
            return (name, Same(value), ask and ask())
        tables = [space[t] for t in TABLES if isinstance(space.get(t), dict)]
        for table in tables:
            self._note_order(name, table)
        self._sizes.append((name, space, len(space)))
        self._spaces.append((name, _reference(value), space))
        return (name, Same(type(value)), tuple(map(len, (space, *tables))), ask and ask())

    def _carried(self, name: str, container: Any) -> tuple[Any, ...]:
        """How many attributes an object of a class derived from a container's has."""
        space = None if type(container) in _EXACT else space_of(container)
        if space is None:
            return ()
        self._sizes.append((name, space, len(space)))
        return (len(space), Same(type(container)))

    def _note_contents(self, name: str, value: Any) -> Any:
        copy = copy_of(value)
        self._contents.append((name, value, copy))
        if isinstance(value, np.ndarray):
            return (name, copy.dtype.str, copy.shape, copy.flags.writeable, copy.tobytes())
        return (name, Same(value), copy)

    def _note_fact(self, name: str, ask: Fetch) -> Any:
        answer = ask()
        self._facts.append((name, ask, answer))
        return answer

    def _note_size(self, name: str, value: Any) -> int:
        """How many attributes a number or a string carries."""
        space = space_of(value) or {}
        self._sizes.append((name, space, len(space)))
        return len(space)

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
        kind = self._kinds.get(id(owner)) or _type_of(owner)
        self._types.append((owner, kind))
        self._note_fact(name, functools.partial(_names_in, owner))
        return (name, "tensor", index, kind)


class Surroundings:
    """The world around one function."""

    def __init__(self, function: Callable[..., Any], owner: Any = None, reference: Fetch | None = None) -> None:
        with looking():
            self._roots = list(_roots(function, owner))
        if reference is not None:  # a method, of an instance that this must not keep alive
            self._roots.append(("self", reference))
        self._view: View | None = None
        self.footprint = Footprint()
        """What has run so far: it is replaced by a larger one as further code runs."""
        inner = getattr(function, "__func__", function)
        if isinstance(inner, types.FunctionType):
            self.footprint.take((inner.__code__, inner.__globals__))
        self.generation = 0
        """How often the footprint has been replaced."""
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
        if view is None or view.generation != self.generation or view.has_changed():
            view = self._view = self.view()
        return view

    def view(self, kinds: dict[int, Any] | None = None, but: Collection[str] = ()) -> View:
        """A new view.

        Args:
            kinds: What tensors are to be taken for, by identity; otherwise what they are now.
            but: Promoted numbers that count as any others this time.
        """
        generation = self.generation
        with patience():
            view = View.along(self._roots, self.promoted.difference(but), self.footprint.steps, kinds)
        view.generation = generation
        return view

    def reach(self) -> View:
        """A view of everything that the function might read, whatever of its code runs."""
        return View(self._roots, self.promoted)

    def learn(self, footprint: Footprint) -> None:
        """Further code has run."""
        self.footprint = self.footprint.joined(footprint)
        self.generation += 1
        self._view = None

    def begin_with(self, view: View) -> None:
        """A view that somebody has made already, with all that has been learnt, is the last one."""
        view.generation = self.generation
        self._view = view

    def modules(self) -> list[Any]:
        """The network modules in reach: what `eval()` would have to switch."""
        found = (
            value
            for value in self.reach().objects()
            if asked(value, "_modules") is not None and asked(value, "training") is not None
        )
        return list({id(module): module for module in found}.values())


class World:
    """All that one call may read: the surroundings of the function, and what its argument objects hold."""

    def __init__(
        self, surroundings: View, arguments: View | None = None, objects: Sequence[tuple[str, Any]] = ()
    ) -> None:
        self.surroundings, self.objects = surroundings, arguments
        self.given = objects
        """The objects among the arguments, by name."""
        self._views = [surroundings] if arguments is None else [surroundings, arguments]
        self.fingerprint = tuple(view.fingerprint for view in self._views)
        """A hashable summary."""
        self.generation = surroundings.generation
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

    def objects_in_reach(self) -> Iterator[Any]:
        """Everything that the function can name."""
        return (value for view in self._views for value in view.objects())

    def watch_random(self) -> None:
        """From now on, drawing from the random generators of Python and numpy counts as an effect."""
        self._random = random_states()

    def effect(self) -> str | None:
        """What the call has done to Python, in words that fit behind "the call"; None if nothing can be seen."""
        if self._random is not None and self._random != random_states():
            return "draws from the random numbers of Python or numpy"
        for number in self.numbers:
            if number.fetch() is not number.value:
                return f"changed {number.name}"
        for view in self._views:
            if (name := view.effect()) is not None:
                return f"changed {name or 'its module'}"
            if (name := view.iterator()) is not None:
                return f"may take from the iterator {name}"
            if (riddle := view.riddle()) is not None:
                return riddle
        return None


class GrowingWorld(World):
    """The world of a call that is recorded: what is read is looked at before the code that reads it has run."""

    def __init__(self, before: World) -> None:
        view = before.surroundings.fork()
        self.footprint = view.footprint
        self._first = self.footprint.size()
        self._ran: dict[int, types.CodeType] = {}
        """By identity: the code that has run in this call."""
        self._is_stale = view.has_other_types()
        """Whether another thread has changed a tensor since the world was looked at."""
        self.tell: Callable[[types.CodeType], None] | None = None
        """Who else wants to know of code that starts to run."""
        super().__init__(view, view_of_objects(before.given, self.footprint, grows=True), before.given)
        grow(self._views, self.footprint, ())

    @property
    def has_grown(self) -> bool:
        """Whether code has run that had not before."""
        return self.footprint.size() != self._first or any(view.entered for view in self._views)

    @property
    def late(self) -> set[str]:
        """Promoted numbers for which nothing could stand in."""
        return {name for view in self._views for name in view.late}

    def effect(self) -> str | None:
        """As of any world; and a function that ran may hold what nobody has found."""
        return super().effect() or self._hidden_function() or (_STALE if self._is_stale else None)

    def _hidden_function(self) -> str | None:
        """What is wrong if code has run whose closure is out of reach; code inside of code that ran is made inside."""
        found = {id(function.__code__) for view in self._views for _, function, _ in view._functions}
        found |= {id(inner) for code, _ in self.footprint.codes.values() for inner in codes_in(code)}
        for key, code in self._ran.items():
            if key in found or key not in self.footprint.codes:
                continue
            if set(code.co_freevars) - {"__class__"} or _has_been_defined(code):
                return f"runs {code.co_qualname}, a function that nobody can find, so that its closure is unknown"
        return None

    def kinds(self) -> dict[int, Any]:
        """By identity: what each tensor was before it was used."""
        return {key: kind for view in self._views for key, kind in view.kinds().items()}

    def settled(self) -> World:
        """What later calls will look at: nothing grows any more."""
        self.surroundings.settle()
        return self.with_objects(self.surroundings)

    def with_objects(self, view: View) -> World:
        """The world of a view of the surroundings, and of the objects that were given."""
        return World(view, view_of_objects(self.given, view.footprint, kinds=self.kinds()), self.given)

    def note_code(self, code: types.CodeType, space: dict[str, Any]) -> None:
        """Code has started to run, with these globals."""
        if is_mute(code):
            return
        self._ran[id(code)] = code
        if self.tell is not None:
            self.tell(code)
        grow(self._views, self.footprint, [(code, space)])

    def note_module(self, name: str) -> None:
        """A module is being imported by a name made at run time."""
        grow(self._views, self.footprint, [name])

    def note_words(self, text: str) -> None:
        """Attributes are looked up whose names stand in a text."""
        new = words_in(text) - self.footprint.names
        if new:
            grow(self._views, self.footprint, [frozenset(new)])

    def see_everything(self) -> None:
        """Nobody knows what will run: everything counts that can be reached."""
        grow(self._views, self.footprint, [None])


def grow(views: Sequence[View], footprint: Footprint, steps: Iterable[Step]) -> None:
    """Let a footprint make steps, and views that share it grow with it; getters that they meet are steps, too."""
    _take_names(views, footprint)
    for step in steps:
        names = footprint.take(step)
        if names is not None:
            for view in views:
                view.grow(step, names)
            _take_names(views, footprint)


def _take_names(views: Sequence[View], footprint: Footprint) -> None:
    while any(not view.named <= footprint.names for view in views):
        names = frozenset().union(*(view.named for view in views)) - footprint.names
        footprint.take(names)
        for view in views:
            view.grow(names, names)


def view_of_objects(
    objects: Sequence[tuple[str, Any]],
    footprint: Footprint | None = None,
    *,
    grows: bool = False,
    kinds: dict[int, Any] | None = None,
) -> View | None:
    """A view of argument values that are neither tensors nor plain; None if there are none."""
    plain = (*PLAIN, DType, device, np.generic, np.ndarray)
    odd = [(name, value) for name, value in objects if not isinstance(value, plain)]
    if not odd:
        return None
    roots = [(name, functools.partial(_itself, value)) for name, value in odd]
    return View(roots, (), footprint, with_globals=footprint is None, grows=grows, kinds=kinds)


_NAMING = (operator.attrgetter, operator.methodcaller)
_SIMPLE = frozenset({bool, int, str, bytes, type(None)})
"""Types of values that are what they say, and have nothing behind them."""
_STALE = "met a tensor that another thread has changed meanwhile"
_COLLECTIONS = frozenset({list, dict, set, Footprint})
"""Types of the attributes of a view that grow: a fork has its own."""
_VIEWS: Any = (types.MappingProxyType, type({}.keys()), type({}.values()), type({}.items()))


def _has_been_defined(code: types.CodeType) -> bool:
    """Whether code is that of a function which somebody other than Python's library has written in a file."""
    return code.co_name != "<module>" and not code.co_filename.startswith("<") and not is_foreign(code.co_filename)


def _space_at(fetch: Fetch) -> Any:
    return space_of(fetch())


def _type_at(fetch: Fetch) -> type:
    return type(fetch())


def _identities(container: Any) -> tuple[int, ...]:
    if type(container) in _ITERATED:
        return tuple(map(id, container)) if container else ()
    return tuple(map(id, keys_of(container)))


_ITERATED = _EXACT | {HookTable}
"""Containers that can be iterated without running code of the user's; most of them are empty."""


def _environment() -> Any:
    space = getattr(os.environ, "_data", None)  # as it is, since to decode it takes long
    return tuple(space.items()) if type(space) is dict else tuple(os.environ.items())


def _decimal_context() -> Any:
    """What decimal numbers are rounded to."""
    context = decimal.getcontext()
    traps = tuple(context.traps.values())
    return context.prec, context.rounding, context.Emin, context.Emax, context.clamp, context.capitals, traps


def _gives_unseen(value: Any) -> bool:
    """Whether something can be taken from an object in a way that leaves no trace in what is watched."""
    if not isinstance(value, Iterator) or isinstance(value, COPIED) or type(value) in weakref.ProxyTypes:
        return False
    if isinstance(getattr(type(value), "__next__", None), types.FunctionType) and not isinstance(value, io.IOBase):
        return False  # what it has left is in its attributes
    return not isinstance(value, io.IOBase) or (not value.closed and value.readable())


def _type_of(tensor: Tensor) -> tuple[Any, ...]:
    """What Python can ask of a tensor without reading its elements."""
    array = tensor._array
    if array is None:
        return ("undefined",)
    flags = (tensor.requires_grad, array.flags.writeable)
    return (array.dtype, array.shape, array.strides, *flags, class_of(tensor))


def class_of(tensor: Any) -> Any:
    """The class of a tensor, as far as it matters: a Tensor becomes a Variable unasked."""
    return Tensor if type(tensor) is Variable else type(tensor)


def _element(value: Any) -> Any:
    return (type(value).__name__, exactly(value)[1]) if isinstance(value, PLAIN) else Same(value)


def _roots(function: Callable[..., Any], owner: Any) -> Iterator[tuple[str, Fetch]]:
    if owner is not None:
        yield "", functools.partial(_itself, owner)
    inner = asked(function, "__func__", function)
    bound = asked(function, "__self__")
    if bound is not None and bound is not owner:
        yield "self", functools.partial(_itself, bound)
    if isinstance(inner, types.FunctionType) or (inner is not owner and bound is None):
        yield asked(inner, "__name__", "function"), functools.partial(_itself, inner)


__all__ = [
    "GrowingWorld", "Same", "Surroundings", "View", "Watched", "World", "attributes_of", "class_of", "view_of_objects",
]  # fmt: skip
