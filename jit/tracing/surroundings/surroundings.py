"""Surroundings: what a function reads besides its arguments - globals, closures, attributes of modules and objects.

Tensors found there give captures their names. Plain Python values found there are baked into a trace, so they are
watched: the fingerprint of what was seen is part of the key, and a changed global, closure cell or attribute is
another key. How they are found is told in jit.tracing.surroundings.views.
"""

from __future__ import annotations

import types
import weakref
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from typing import Any

import numpy as np

from jit.eager.pytree import looking
from jit.ir.devices import device
from jit.ir.dtypes import DType

from ..patience import patience
from .contents import random_states
from .footprints import Footprint, as_read, codes_in, is_mute, words_in
from .known_types import PLAIN, Watched
from .origins import is_foreign
from .peeking import asked, attributes_of, is_a
from .places import Itself, Place, Referent, attribute_of
from .promoting import Number, Promotions, Spot
from .repeated_looks import RepeatedLook
from .views import View, grow


class Surroundings:
    """The surroundings of one function: where a walk begins, the code that has run, and the last view."""

    def __init__(
        self, function: Callable[..., Any], owner: Any = None, reference: weakref.ref[Any] | None = None
    ) -> None:
        with looking():
            self._roots = list(_roots(function, owner))
        if reference is not None:  # a method, of an instance that this must not keep alive
            self._roots.append(("self", Referent(reference)))
        self._view: View | None = None
        self._looked: RepeatedLook | None = None
        """The looks at the last view."""
        self.footprint = Footprint()
        """The footprint of the code that has run so far; a larger one replaces it as further code runs."""
        inner = getattr(function, "__func__", function)
        if is_a(inner, types.FunctionType):
            self.footprint.take((inner.__code__, inner.__globals__))
        self.generation = 0
        """The number of times that the footprint has been replaced."""
        self.promotions = Promotions()
        """The numbers that are not part of the key."""

    def promote(self, name: str) -> None:
        """Leave the number called `name` out of the key."""
        self.promotions.promote(name)
        self._view = None

    def promote_unasked(self, spots: Collection[Spot]) -> None:
        """Leave numbers out of the key until the function is found to need them."""
        self.promotions.promote_unasked(spots)
        self._view = None

    def bake_in(self, lines: Mapping[Spot, Any]) -> bool:
        """Make numbers that were promoted unasked part of the key for good, for what the lines say; whether any was."""
        found = self.promotions.bake_in(lines)
        if found:
            self._view = None
        return found

    def look(self) -> View:
        """The present view: the last one as long as nothing has changed."""
        view, looked = self._view, self._looked
        if view is not None and (looked is None or looked.view is not view):
            looked = self._looked = RepeatedLook(view)
        if view is None or view.generation != self.generation or looked is None or not looked.holds():
            view = self._view = self.view()
        return view

    def view(self, kinds: dict[int, Any] | None = None, but: Collection[str] = ()) -> View:
        """A new view.

        Args:
            kinds: The kinds of tensors, by identity, that are to be noted instead of their present ones.
            but: The names of promoted numbers that are baked in this time.
        """
        generation = self.generation
        with patience():
            view = View.along(self._roots, self.promotions.around.difference(but), self.footprint.steps, kinds)
        view.generation = generation
        return view

    def reach(self) -> View:
        """A view of everything that the function might read, whatever of its code runs."""
        return View(self._roots, self.promotions.around)

    def learn(self, footprint: Footprint) -> None:
        """Take in the footprint of a recording in which further code has run."""
        self.footprint = self.footprint.joined(footprint)
        self.generation += 1
        self._view = None

    def begin_with(self, view: View) -> None:
        """Take a view that was made of all that has been learnt as the last one."""
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
        self.promoted: Collection[str] = frozenset() if arguments is None else arguments.promoted
        """The names of numbers that are inputs if these objects hold them."""
        self._views = [surroundings] if arguments is None else [surroundings, arguments]
        self.fingerprint = (*(view.fingerprint for view in self._views), *self._met_twice())
        """A hashable summary."""
        self.generation = surroundings.generation
        self.tensors = [tensor for view in self._views for tensor in view.tensors]
        """The tensors and generators in reach; a capture is found by its place among them."""
        self.numbers = [Number(name, place, place()) for view in self._views for name, place in view.numbers]
        """Promoted numbers, as they are now."""
        self._random: Any = None
        self._set: set[Any] = set()
        """The identities of the places of attributes that every call sets."""

    def _met_twice(self) -> Iterator[tuple[tuple[int, int], ...]]:
        """The tensors and the objects that arguments hold and the surroundings, too: pairs of their numbers, if any.

        A view numbers what it meets, so the fingerprints of both say nothing of that.
        """
        if self.objects is None:
            return
        known, held = self.surroundings, self.objects
        tensors = [(at, i) for i, tensor in enumerate(held.tensors) if (at := known.index_of(tensor)) is not None]
        numbers = ((known.objects_met.get(key), number) for key, number in held.objects_met.items())
        objects = [(at, number) for at, number in numbers if at is not None]
        if tensors or objects:
            yield (*tensors, (-1, -1), *objects)

    def locate(self, owner: Any) -> tuple[str | None, int | None]:
        """The user's name for a tensor and its place among `tensors`, as far as it is in reach."""
        start = 0
        for view in self._views:
            index = view.index_of(owner)
            if index is not None:
                return view.name_of(owner), start + index
            start += len(view.tensors)
        return None, None

    def number_of(self, thing: Any) -> tuple[int, int] | None:
        """The number of an object in reach that is told by its class and attributes, behind that of its view."""
        numbers = ((at, view.objects_met.get(id(thing))) for at, view in enumerate(self._views))
        return next(((at, number) for at, number in numbers if number is not None), None)

    def object_at(self, number: tuple[int, int]) -> Any:
        """The object with such a number."""
        view, at = number
        return self._views[view].met[at]()

    def before(self, network: Any, name: str) -> list[tuple[str, Any]]:
        """An attribute of a network as it was before the call, by its names; empty if the call cannot have read it."""
        where = attribute_of(network, name).identity()
        slots = (slot for view in self._views for slot in view.slots)
        found = [(called, value) for called, place, value in slots if place.identity() == where]
        return found + [(number.name, number.value) for number in self.numbers if number.place.identity() == where]

    def let_change(self, network: Any, name: str) -> None:
        """Count what the call sets an attribute of a network to as a result, not as an effect."""
        self._set.add(attribute_of(network, name).identity())

    def promotes(self, network: Any, name: str) -> bool:
        """Whether an attribute of a network is a promoted number."""
        where = attribute_of(network, name).identity()
        return any(number.place.identity() == where for number in self.numbers)

    def places_of(self, name: str) -> Iterator[tuple[Place, tuple[Place, ...]]]:
        """The places that are called `name`, each with the places of the tuple that it is in."""
        for view in self._views:
            yield from ((place, self.holders_of(place)) for called, place in view.places() if called == name)

    def holders_of(self, place: Place) -> tuple[Place, ...]:
        """The places of the tuple in which a place is, if it is in one."""
        return tuple(holder for view in self._views for holder in view.holders_of(place))

    def plain(self) -> Iterator[tuple[str, Any]]:
        """The numbers, strings and arrays in reach, by name."""
        return (pair for view in self._views for pair in view.plain())

    def objects_in_reach(self) -> Iterator[Any]:
        """Everything that the function can name."""
        return (value for view in self._views for value in view.objects())

    def watch_random(self) -> None:
        """Count draws from the random generators of Python and numpy as effects from now on."""
        self._random = random_states()

    def effect(self) -> str | None:
        """The change that the call has made to Python's objects, in words that fit behind "the call"; None if none."""
        if self._random is not None and self._random != random_states():
            return "draws from the random numbers of Python or numpy"
        for number in self.numbers:
            if number.place() is not number.value and number.place.identity() not in self._set:
                return f"changed {number.name}"
        for view in self._views:
            if (name := view.effect(self._set)) is not None:
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
        """The code that has run in this call, by identity."""
        self._is_stale = view.has_other_types()
        """Whether another thread has changed a tensor since the world was looked at."""
        self.tell: Callable[[types.CodeType, dict[str, Any]], None] | None = None
        """A function that is told of code that starts to run, and of its globals; None if there is none."""
        objects = view_of_objects(before.given, self.footprint, grows=True, promoted=before.promoted)
        super().__init__(view, objects, before.given)
        self.numbers = [number._replace(holders=self.holders_of(number.place)) for number in self.numbers]
        for each in self._views:
            each.begin_to_run()
        grow(self._views, self.footprint, ())

    @property
    def has_grown(self) -> bool:
        """Whether code has run that had not before."""
        return self.footprint.size() != self._first or any(view.entered for view in self._views)

    @property
    def late(self) -> set[str]:
        """Promoted numbers for which nothing could stand in, or not in every place of the tuple that they are in."""
        elsewhere = {n.name for n in self.numbers if len(self.holders_of(n.place)) != len(n.holders)}
        return elsewhere.union(*(view.late for view in self._views))

    def effect(self) -> str | None:
        """The change that the call has made; or else a reason for which what the call has read is not fully known."""
        return super().effect() or self._hidden_function() or (_STALE if self._is_stale else None)

    def _hidden_function(self) -> str | None:
        """The problem, in words, if code has run whose closure is out of reach; None for functions made in the call."""
        found = {id(function.__code__) for view in self._views for _, function, _ in view.functions}
        found |= {id(inner) for code, _ in self.footprint.codes.values() for inner in codes_in(code)}
        for key, code in self._ran.items():
            if key in found or key not in self.footprint.codes:
                continue
            if set(code.co_freevars) - {"__class__"} or _has_been_defined(code):
                return f"runs {code.co_qualname}, a function that is out of reach, so that its closure is unknown"
        return None

    def kinds(self) -> dict[int, Any]:
        """The kind of each tensor before it was used, by identity."""
        return {key: kind for view in self._views for key, kind in view.kinds().items()}

    def settled(self) -> World:
        """The world that later calls will look at, which does not grow any more."""
        self.surroundings.settle()
        return self.with_objects(self.surroundings)

    def with_objects(self, view: View) -> World:
        """The world of a view of the surroundings, and of the objects that were given."""
        promoted = frozenset(self.promoted) - self.late
        objects = view_of_objects(self.given, view.footprint, kinds=self.kinds(), promoted=promoted)
        return World(view, objects, self.given)

    def note_code(self, code: types.CodeType, space: dict[str, Any]) -> None:
        """Take note of code that starts to run, with its globals."""
        if is_mute(code):
            return
        self._ran[id(code)] = code
        if self.tell is not None:
            self.tell(code, space)
        grow(self._views, self.footprint, [(code, space)])

    def note_module(self, name: str) -> None:
        """Take note of a module that is imported by a name made at run time."""
        grow(self._views, self.footprint, [name])

    def note_words(self, text: str) -> None:
        """Take note of a text in which names of attributes stand that are looked up."""
        new = as_read(words_in(text)) - self.footprint.names
        if new:
            grow(self._views, self.footprint, [frozenset(new)])

    def see_everything(self) -> None:
        """Let everything that can be reached count, since it is not known what will run."""
        grow(self._views, self.footprint, [None])


def view_of_objects(
    objects: Sequence[tuple[str, Any]],
    footprint: Footprint | None = None,
    *,
    grows: bool = False,
    kinds: dict[int, Any] | None = None,
    promoted: Collection[str] = (),
) -> View | None:
    """A view of argument values that are neither tensors nor plain; None if there are none."""
    plain = (*PLAIN, DType, device, np.generic, np.ndarray)
    kinds_alone = (int, float)  # which stand for promoted numbers
    odd = [(n, v) for n, v in objects if not is_a(v, plain) and not any(v is kind for kind in kinds_alone)]
    if not odd:
        return None
    roots = [(name, Itself(value)) for name, value in odd]
    return View(roots, promoted, footprint, with_globals=footprint is None, grows=grows, kinds=kinds)


def attached_to(tensors: Sequence[Any]) -> Iterator[tuple[str, dict[str, Any]]]:
    """Copies of what the user has attached to tensors among the arguments, with the tensors' names."""
    return ((tensor._name or "argument", made) for tensor in tensors if (made := attributes_of(tensor)))


_STALE = "met a tensor that another thread has changed meanwhile"


def _has_been_defined(code: types.CodeType) -> bool:
    """Whether code is of a function that is written in a file, but not of Python's library or this package."""
    return code.co_name != "<module>" and not code.co_filename.startswith("<") and not is_foreign(code.co_filename)


def _roots(function: Callable[..., Any], owner: Any) -> Iterator[tuple[str, Place]]:
    if owner is not None:
        yield "", Itself(owner)
    inner = asked(function, "__func__", function)
    bound = asked(function, "__self__")
    if bound is not None and bound is not owner:
        yield "self", Itself(bound)
    if is_a(inner, types.FunctionType) or (inner is not owner and bound is None):
        yield asked(inner, "__name__", "function"), Itself(inner)


__all__ = ["GrowingWorld", "Surroundings", "Watched", "World", "attached_to", "attributes_of", "view_of_objects"]
