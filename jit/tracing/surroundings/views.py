"""The walk from a function to all that it can read, and how its view grows while the function runs.

Note [Watching]
    The walk follows what the code that ran can name (Note [Footprints]): the globals in it, closure cells and defaults
    of its functions, and from there attributes, items of containers, and further functions that ran. Every place that
    was looked at is a slot (name, place, value). As long as each slot still holds the same object, no container has
    grown or shrunk, nothing that is watched by its contents has others and no tensor another type, the view is the old
    one; otherwise the walk is made anew. Two views with the same fingerprint list their tensors in the same order,
    which is how a capture finds the tensor that now stands in its place.

Note [Growing]
    While a function is recorded it is not known yet what will run. So its view grows: as each function starts, what its
    code can read is looked at before it has run. When the call is over, later calls are compared with the view, and
    what differs from it by then was changed by the call. A view that is made anew later grows by the same steps, in
    the same order (Footprint.steps), so that it lists the same things in the same order. The view of a recording begins
    as a fork of the look that came before it.

        View.along(roots, ..., footprint.steps)     before a call: by all steps that recordings have made
                |
                | fork()                            a recording begins: a view of its own, and of its footprint
                v
        grow(views, footprint, [step])              code starts to run: the footprint takes the step, which says
                |                                   the names that count from now on; the views follow it:
                |                                     _read_by     the globals that the code names
                |                                     _release     attributes that waited for one of the names
                |                                     _enter       functions with this code that were found idle
                v
        settle()                                    the recording is over: the fingerprint is final

    A getter among the objects (`operator.attrgetter`) looks names up as code does; they are a step of their own.
"""

from __future__ import annotations

import os
import sys
import types
from collections.abc import Collection, Iterable, Sequence, Set
from typing import Any

from jit.eager.pytree import looking

from .code_reads import cells_of, functions_called, globals_read
from .facts import TypeAt
from .footprints import Footprint, Step, as_read, codes_in, scan
from .kinds.known import children, is_opaque, kind_of
from .known_types import is_bare
from .observations import Observations
from .origins import is_harmless, is_users
from .peeking import EXACT
from .places import Child, EntryOf, Itself, Place
from .promoting import KINDS

_LIMIT = 200_000
"""The most places that a walk looks at; a recording that reads more is not kept."""
_SIMPLE = frozenset({bool, int, str, bytes, type(None)})
"""Types of values that are compared as they are, and have no places behind them."""
_COLLECTIONS = frozenset({list, dict, set, Footprint})
"""Types of the attributes of a view that grow: a fork has its own."""


class Fingerprint(tuple[Any, ...]):
    """The lines of a view, hashed only once: there may be thousands, and every call looks up its key."""

    def __hash__(self) -> int:
        known: int | None = self.__dict__.get("hash")
        if known is None:
            known = self.__dict__["hash"] = super().__hash__()
        return known


class View(Observations):
    """A walk's observations, and how it goes on: see Note [Watching] and Note [Growing]."""

    def __init__(
        self,
        roots: Iterable[tuple[str, Place]],
        promoted: Collection[str] = (),
        footprint: Footprint | None = None,
        *,
        with_globals: bool = True,
        grows: bool = False,
        kinds: dict[int, Any] | None = None,
    ) -> None:
        super().__init__(kinds)
        self.promoted = frozenset(promoted)
        self.footprint = Footprint(everything=True) if footprint is None else footprint
        self._with_globals = with_globals
        self._grows = grows
        self._live = False
        """Whether it grows while the function runs."""
        self.generation = 0
        """The generation of the footprint with which the view was made."""
        self.entered = False
        """Whether a function has started that the walk had found idle."""
        self.named: set[str] = set()
        """The names of attributes that getters among the objects look up."""
        self.late: set[str] = set()
        """Promoted numbers that were met while the function ran, so that nothing stands in their places."""
        self._opaque: list[tuple[str, Any]] = []
        """Objects that cannot be looked into, by name."""
        self._seen: set[int] = set()
        """The identities of objects behind which the walk has looked."""
        self._globals: set[tuple[int, str]] = set()
        """Globals that have been looked at: the identity of their dict, and the name."""
        self._waiting: dict[str, list[Child]] = {}
        """Places that count as soon as some code names an attribute."""
        self._idle: dict[int, list[tuple[str, types.FunctionType]]] = {}
        """Functions that have not run, by their code."""
        self._lines: list[Any] = []
        with looking():
            self._follow([(name, place, None) for name, place in roots])
            for code, space in [*self.footprint.codes.values(), *self.footprint.layers.values()]:
                self._follow(self._read_by(code, space))
            self._follow(self._imported())
        self.fingerprint = Fingerprint(self._lines)
        """A hashable summary of every plain value in reach."""

    def riddle(self) -> str | None:
        """The thing that makes this view incomplete, in words; None if nothing does."""
        if len(self.slots) >= _LIMIT:
            return f"reads more than {_LIMIT} places"
        for name, value in self._opaque:
            return f"reads {name}, a {type(value).__name__} that cannot be looked into"
        if self.footprint.sees_callers:
            return "looks at its callers"
        if id(sys.modules) in self._seen and not any(name in sys.modules for name in self._texts()):
            return "takes a module out of sys.modules by a name that is not known beforehand"
        return None

    def _texts(self) -> set[str]:
        """The strings in the code that ran, and those that it can read."""
        return self.footprint.strings.union(value for _, _, value in self.slots if type(value) is str)

    # -- growing -------------------------------------------------------------------------------------------------

    @classmethod
    def along(
        cls,
        roots: Iterable[tuple[str, Place]],
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
        made.entered = False
        return made

    def begin_to_run(self) -> None:
        """The function starts: nothing can stand in any more for numbers that are met from now on."""
        self._live = True

    def settle(self) -> None:
        """End the growth of the view."""
        self._live = False
        self.fingerprint = Fingerprint(self._lines)

    def grow(self, step: Step, names: Set[str]) -> None:
        """Look at what can be read after a step that the footprint has made.

        Args:
            step: The step, see `Footprint.steps`.
            names: The names of attributes that count from now on.
        """
        if step is None:
            self._see_everything()
            return
        if isinstance(step, tuple):
            self._follow(self._read_by(*step))
        self._release(names)
        if isinstance(step, tuple):
            for each in (step[0], *codes_in(step[0])):
                for name, function in self._idle.pop(id(each), ()):
                    self.entered = True
                    self._enter(name, function)

    def has_met(self, value: Any) -> bool:
        """Whether the walk has looked behind an object."""
        return id(value) in self._seen

    def take_for(self, old: Any, new: Any) -> None:
        """An object has taken the place of another; what is behind it has been looked at."""
        self._seen.discard(id(old))
        self._seen.add(id(new))

    def _see_everything(self) -> None:
        """Look at all that code in reach can read."""
        self._release(frozenset())
        while self._idle:
            for name, function in self._idle.pop(next(iter(self._idle))):
                self._enter(name, function)

    def _release(self, names: Set[str]) -> None:
        """Look at the attributes that waited for these names, or at all if any name may be looked up."""
        if self.footprint.dynamic:
            while due := next((name for name in self._waiting if self.footprint.looks_up(name)), None):
                self._follow(self._waiting.pop(due))
        elif names:
            for name in sorted(names & self._waiting.keys()):
                self._follow(self._waiting.pop(name))
        self._follow(self._imported())

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
            return [("os.environ", Itself(os.environ), None), *self._imported()]
        found = [name for name in names if (0, name) not in self._globals]
        self._globals.update((0, name) for name in found)
        return [(f"sys.modules.{name}", EntryOf(sys.modules.get, name), None) for name in found]

    def _enter(self, name: str, function: types.FunctionType) -> None:
        """Look at what a function reads that was found idle and has started."""
        self._follow(self._inside(name, function))

    # -- walking -------------------------------------------------------------------------------------------------

    def _follow(self, places: list[Child]) -> None:
        """Look at places, and at what is behind them."""
        stack, footprint = places[::-1], self.footprint
        while stack:
            name, place, key = stack.pop()
            if key is not None and key not in footprint.names and not footprint.looks_up(key):
                if self._grows:
                    self._waiting.setdefault(key, []).append((name, place, key))
                continue
            value = place()
            kind: Any = type(value)
            if (
                kind in _SIMPLE and name not in self.promoted
            ):  # a shortcut for most values: the code below does the same
                self.slots.append((name, place, value))
                self._lines.append((name, kind, value))
                continue
            if name in self.promoted and kind in KINDS:
                if not self._live:
                    self._note_number(name, place, kind)
                    continue
                self.late.add(name)
            if not place.is_weak:  # a weak place leads to the same object as long as that lives
                self.slots.append((name, place, value))
            self._lines.append(kind_of(kind).look(self, name, value))
            if kind in EXACT and not value:
                continue
            if not is_bare(value) and id(value) not in self._seen and len(self.slots) < _LIMIT:
                self._seen.add(id(value))
                stack.extend(self._behind(name, value)[::-1])

    def _note_number(self, name: str, place: Place, kind: type) -> None:
        """Note a promoted number in a place, of which only the type counts."""
        self.numbers.append((name, place))
        self.note_fact(name, TypeAt(place))
        self._lines.append((name, "promoted", kind))

    def _behind(self, name: str, value: Any) -> list[Child]:
        """The places to look at next."""
        kind: Any = type(value)
        if kind in EXACT:
            return list(children(name, value, self.footprint))
        if is_opaque(value):
            self._opaque.append((name, value))
        if self._grows:
            self.named |= as_read(kind_of(kind).names_looked_up(value))
        found = list(children(name, value, self.footprint))
        if kind is types.FunctionType:
            found += self._inside(name, value)
        return found

    def _inside(self, name: str, function: types.FunctionType) -> list[Child]:
        """The reads of a function's code, if it has run."""
        code = function.__code__
        if self.footprint.everything and not is_users(code.co_filename) and id(code) not in self.footprint.codes:
            return []
        if not self.footprint.has_run(code):
            if self._grows:
                self._idle.setdefault(id(code), []).append((name, function))
            return []
        if not is_harmless(code.co_filename):
            self.note_function(name, function)
        found: list[Child] = []
        if self.footprint.everything:
            self.footprint.names |= scan(code).names
            found += self._read_by(code, function.__globals__)
        return [*found, *cells_of(function)]


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


__all__ = ["Fingerprint", "View", "grow"]
