"""Facts that are asked of objects and compared by value: the order of a dict's keys, the level of a logger."""

from __future__ import annotations

import abc
import decimal
import os
import sys
import threading
import warnings
import weakref
from collections import OrderedDict
from collections.abc import Callable, Sequence, Set
from typing import Any, ClassVar

import numpy as np

from .peeking import EXACT, keys_of, length_of, names_in
from .places import Place
from .questions import CheckRow, Question


class Fact(Question):
    """A question that is asked again in later calls, whose answer is compared by its value."""

    __slots__ = ()


class FactOf(Fact):
    """A fact about one object."""

    __slots__ = ("value",)

    def __init__(self, value: Any) -> None:
        self.value = value

    def identity(self) -> tuple[Any, ...]:
        return (type(self), id(self.value))


# -- containers and tensors --------------------------------------------------------------------------------------

_LENGTHS = (dict.__len__, set.__len__, OrderedDict.__len__)


class OrderOf(FactOf):
    """The keys or elements of a container in their order: by identity, since they may be tensors."""

    __slots__ = ()
    called = "the keys of a container in their order"

    def __call__(self) -> tuple[int, ...]:
        container = self.value
        if type(container) in EXACT:
            return tuple(map(id, container)) if container else ()  # as most are: a network has thousands of tables
        return tuple(map(id, keys_of(container)))

    def rows(self, answer: Any, known: Set[int]) -> Sequence[CheckRow] | None:
        container = self.value
        if self() != answer:
            return None
        if answer == () and isinstance(container, (dict, set)) and type(container).__len__ in _LENGTHS:
            return [CheckRow("sizes", (container, 0))]
        is_plain = isinstance(container, dict) and type(container).__iter__ is dict.__iter__
        return [CheckRow("orders", (container, list(container)))] if is_plain else None


class ElementsOf(OrderOf):
    """The elements of a set in their order, which are kept: others could lie at the addresses of those gone."""

    __slots__ = ("kept",)
    called = "the elements of a set in their order"

    def __init__(self, value: Any) -> None:
        super().__init__(value)
        self.kept = keys_of(value)


class LengthOf(FactOf):
    """The length of a container that may have one of its own."""

    __slots__ = ()
    called = "the length of a container"

    def __call__(self) -> int:
        return length_of(self.value)


class NamesOf(FactOf):
    """The names of the attributes that the user has set on an object."""

    __slots__ = ()
    called = "the names of attributes"

    def __call__(self) -> tuple[str, ...]:
        return names_in(self.value)

    def rows(self, answer: Any, known: Set[int]) -> Sequence[CheckRow] | None:
        return [] if id(self.value) in known and answer == () else None


class TypeAt(Fact):
    """The type of the object in a place."""

    __slots__ = ("place",)
    called = "the type of what stands in a place"

    def __init__(self, place: Place) -> None:
        self.place = place

    def __call__(self) -> type:
        return type(self.place())


# -- states that are no object's attributes ----------------------------------------------------------------------


class GenerationOf(FactOf):
    """A number that grows whenever the results that an `lru_cache` keeps have changed."""

    __slots__ = ()
    called = "what a cached function keeps"
    _seen: ClassVar[weakref.WeakKeyDictionary[Any, tuple[int, int, int, int]]] = weakref.WeakKeyDictionary()
    """The last look at each cached function: (misses, results, hits) and its generation."""

    @classmethod
    def excuse(cls, cached: Any) -> None:
        """Let a miss not count that is under way, and will end in an error, so that nothing is kept."""
        info = cached.cache_info()
        generation = cls._seen.get(cached, (0, 0, 0, 0))[3]
        cls._seen[cached] = (info.misses, info.currsize, info.hits, generation)

    def __call__(self) -> int:
        cached = self.value
        info = cached.cache_info()
        misses, results, hits, generation = self._seen.get(cached, (info.misses, info.currsize, 0, 0))
        if (misses, results) != (info.misses, info.currsize) or info.hits < hits:
            generation += 1
        self._seen[cached] = (info.misses, info.currsize, info.hits, generation)
        return generation


class AbstractClasses(Fact):
    """The state that `isinstance` with an abstract class goes by."""

    __slots__ = ()
    called = "what is registered with abstract classes"

    def __call__(self) -> Any:
        return abc.get_cache_token()


class HeldBy(FactOf):
    """Whether a lock is taken, and whether by this thread."""

    __slots__ = ()
    called = "whether a lock is taken"

    def __call__(self) -> Any:
        own = getattr(self.value, "_is_owned", None)
        return self.value.locked() if own is None else (own(), repr(self.value).startswith("<locked"))


class IsAlive(FactOf):
    """Whether a finalizer has not run."""

    __slots__ = ()
    called = "whether a finalizer is alive"

    def __call__(self) -> Any:
        return self.value.alive


class LevelsOf(FactOf):
    """The levels that a logger lets pass."""

    __slots__ = ()
    called = "what a logger lets pass"

    def __call__(self) -> Any:
        logger = self.value
        return logger.getEffectiveLevel(), logger.disabled, logger.manager.disable, *map(id, logger.handlers)


class Environment(Fact):
    """The variables of the environment."""

    __slots__ = ()
    called = "the environment"

    def __call__(self) -> Any:
        space = getattr(os.environ, "_data", None)  # as it is, since to decode it takes long
        return tuple(space.items()) if type(space) is dict else tuple(os.environ.items())


class DecimalContext(Fact):
    """The precision and rounding of decimal numbers."""

    __slots__ = ()
    called = "what decimal numbers are rounded to"

    def __call__(self) -> Any:
        context = decimal.getcontext()
        traps = tuple(context.traps.values())
        return context.prec, context.rounding, context.Emin, context.Emax, context.clamp, context.capitals, traps


# -- settings ----------------------------------------------------------------------------------------------------


class Setting:
    """A state of the interpreter or of numpy that is no object's attribute; `ask` gives its present value."""

    def __init__(self, ask: Callable[[], Any]) -> None:
        self.ask = ask


class SettingNow(FactOf):
    """The present value of a setting."""

    __slots__ = ()
    called = "a setting"

    def __call__(self) -> Any:
        return self.value.ask()


def _errors_of_numpy() -> Any:
    now = None if _EXTENSION is None else _EXTENSION.get()
    if now is None:
        return tuple(np.geterr().values())
    if _LAST[0] is not now:
        _LAST[:] = [now, tuple(np.geterr().values())]
    return _LAST[1]


_EXTENSION: Any = getattr(getattr(getattr(np, "_core", None), "umath", None), "_extobj_contextvar", None)
_LAST: list[Any] = [None, None]
"""The last setting of numpy that was looked at, and what it says."""


def _levels_of_all() -> Any:
    """The levels of all loggers that are found by their names."""
    logging = sys.modules["logging"]
    root = logging.root
    loggers = [root, *(each for each in root.manager.loggerDict.values() if isinstance(each, logging.Logger))]
    return root.manager.disable, *((id(each), each.level, each.disabled, each.propagate) for each in loggers)


NUMPY_ERRORS = Setting(_errors_of_numpy)
"""The way in which numpy treats errors in arithmetic."""
LEVELS = Setting(_levels_of_all)
"""The levels that all loggers let pass."""
FILTERS = Setting(lambda: tuple(warnings.filters))
"""The filters of warnings, some of which make errors of them."""
LOCKS = (type(threading.Lock()), type(threading.RLock()))


__all__ = [
    "FILTERS", "LEVELS", "LOCKS", "NUMPY_ERRORS", "AbstractClasses", "DecimalContext", "ElementsOf", "Environment",
    "Fact", "FactOf", "GenerationOf", "HeldBy", "IsAlive", "LengthOf", "LevelsOf", "NamesOf", "OrderOf", "Setting",
    "SettingNow", "TypeAt",
]  # fmt: skip
