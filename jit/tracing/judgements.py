"""What objects answer by a state that stands in none of their attributes: caches, abstract classes, loggers."""

from __future__ import annotations

import abc
import functools
import sys
import weakref
from collections.abc import Callable
from typing import Any

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
    logging = sys.modules.get("logging")
    if logging is not None and isinstance(value, logging.Logger):
        return functools.partial(_levels, value)
    return None


def _levels(logger: Any) -> Any:
    """What a logger lets pass."""
    return logger.getEffectiveLevel(), logger.disabled, logger.manager.disable


__all__ = ["generation_of", "judgement_of"]
