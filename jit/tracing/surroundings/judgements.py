"""What objects answer by a state that stands in none of their attributes: caches, abstract classes, loggers, locks."""

from __future__ import annotations

import abc
import functools
import sys
import threading
import warnings
import weakref
from collections.abc import Callable
from typing import Any

import numpy as np

_SEEN: weakref.WeakKeyDictionary[Any, tuple[int, int, int, int]] = weakref.WeakKeyDictionary()
"""By cached function: (misses, results, hits) when it was last looked at, and its generation."""


def generation_of(cached: Any) -> int:
    """A number that has changed if the results that an `lru_cache` keeps have, and never comes again."""
    info = cached.cache_info()
    misses, results, hits, generation = _SEEN.get(cached, (info.misses, info.currsize, 0, 0))
    if (misses, results) != (info.misses, info.currsize) or info.hits < hits:
        generation += 1
    _SEEN[cached] = (info.misses, info.currsize, info.hits, generation)
    return generation


def judgement_of(value: Any) -> Callable[[], Any] | None:
    """How to ask for what `isinstance` with an abstract class, or a logger, goes by; None for other objects."""
    if isinstance(value, abc.ABCMeta):
        return abc.get_cache_token
    if isinstance(value, Question):
        return value.ask
    if isinstance(value, _LOCKS):
        return functools.partial(_is_held, value)
    if isinstance(value, weakref.finalize):
        return functools.partial(getattr, value, "alive")
    logging = sys.modules.get("logging")
    if logging is not None and isinstance(value, logging.Logger):
        return functools.partial(_levels, value)
    return None


def _levels(logger: Any) -> Any:
    """What a logger lets pass."""
    return logger.getEffectiveLevel(), logger.disabled, logger.manager.disable, *map(id, logger.handlers)


def _levels_of_all() -> Any:
    """What loggers let pass that are found by their names."""
    logging = sys.modules["logging"]
    root = logging.root
    loggers = [root, *(each for each in root.manager.loggerDict.values() if isinstance(each, logging.Logger))]
    return root.manager.disable, *((id(each), each.level, each.disabled, each.propagate) for each in loggers)


_LOCKS = (type(threading.Lock()), type(threading.RLock()))


def _is_held(lock: Any) -> Any:
    """Whether a lock is taken, and whether by this thread."""
    own = getattr(lock, "_is_owned", None)
    return lock.locked() if own is None else (own(), repr(lock).startswith("<locked"))


class Question:
    """Stands in a view for what is nobody's attribute, and can be asked for."""

    def __init__(self, ask: Callable[[], Any]) -> None:
        self.ask = ask


def _errors_of_numpy() -> Any:
    now = None if _EXTENSION is None else _EXTENSION.get()
    if now is None:
        return tuple(np.geterr().values())
    if _LAST[0] is not now:
        _LAST[:] = [now, tuple(np.geterr().values())]
    return _LAST[1]


_EXTENSION: Any = getattr(getattr(getattr(np, "_core", None), "umath", None), "_extobj_contextvar", None)
_LAST: list[Any] = [None, None]
"""What numpy's setting was when it was last looked at, and what it says."""
NUMPY_ERRORS = Question(_errors_of_numpy)
"""How numpy treats errors in arithmetic."""
LEVELS = Question(_levels_of_all)
"""What all loggers let pass."""
FILTERS = Question(lambda: tuple(warnings.filters))
"""Which warnings become errors."""


__all__ = ["FILTERS", "LEVELS", "NUMPY_ERRORS", "Question", "generation_of", "judgement_of"]
