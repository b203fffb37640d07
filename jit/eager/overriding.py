"""`__torch_function__`: classes that answer for functions of tensors themselves, as PyTorch's protocol has it.

Note [Who answers]
    A class that is derived from `Tensor` and defines the method is noted when it is made, and its operators and methods
    ask it first. The functions look at their arguments only once there is such a class, so that a program without one
    pays for a look at an empty list. Any other class is asked where no declaration takes its objects.

    A mode is an object that is asked before all classes, whatever the arguments, within a block of the program. While
    it answers, only the modes around it are left, so that it can call the function itself. Its class stands in the list
    of classes as long as the block runs, in whatever thread. Derivatives that are computed do not ask.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterable, Iterator
from contextvars import ContextVar
from typing import Any

from . import context

OVERRIDING: list[type] = []
"""The classes of tensors that answer themselves."""
_OFF: ContextVar[bool] = ContextVar("overriding_is_off", default=False)


@contextlib.contextmanager
def switched_off() -> Iterator[None]:
    """Within this block no class of tensors is asked."""
    token = _OFF.set(True)
    try:
        yield
    finally:
        _OFF.reset(token)


@contextlib.contextmanager
def asking(mode: Any) -> Iterator[None]:
    """Within this block `mode` is asked for every function of tensors, before the modes around it."""
    if (trace := context.asking_trace()) is not None:
        trace.note_impure(f"is watched by {type(mode).__name__}, a mode that it enters")
    OVERRIDING.append(type(mode))
    try:
        with asking_only((*(context.MODES.get() or ()), mode)):
            yield
    finally:
        OVERRIDING.remove(type(mode))


@contextlib.contextmanager
def asking_only(modes: tuple[Any, ...]) -> Iterator[None]:
    """Within this block these modes are asked and no others."""
    token = context.MODES.set(modes or None)
    try:
        yield
    finally:
        context.MODES.reset(token)


def answers(kind: type) -> bool:
    """Whether objects of a class answer for functions themselves."""
    method = getattr(kind, "__torch_function__", None)
    return method is not None and not getattr(method, "is_default", False)


def answering_classes(values: Iterable[Any]) -> dict[type, Any]:
    """The classes among the arguments, and in lists of them, that answer, each with its first object; derived ones
    before those that they are derived from."""
    found: dict[type, Any] = {}
    for value in values:
        if type(value) in (list, tuple):
            candidates = answering_classes(value)
        else:
            candidates = {type(value): value} if answers(type(value)) else {}
        for kind, each in candidates.items():
            if kind not in found:
                found[kind] = each
    if len(found) > 1:
        order = sorted(found, key=lambda kind: -sum(issubclass(kind, other) for other in found))
        found = {kind: found[kind] for kind in order}
    return found


def overridden(function: Callable[..., Any], args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    """The answer of a class among the arguments for a function; NotImplemented if there is none.

    Raises:
        TypeError: None of the classes knows the function.
    """
    if _OFF.get():
        return NotImplemented
    found = answering_classes((*args, *kwargs.values()))
    if (modes := context.MODES.get()) is not None:
        with asking_only(modes[:-1]):
            result = modes[-1].__torch_function__(function, tuple(found), args, kwargs)
        if result is not NotImplemented:
            return result
    for kind in found:
        result = kind.__torch_function__(function, tuple(found), args, kwargs)  # type: ignore[attr-defined]
        if result is not NotImplemented:
            return result
    if found:
        names = ", ".join(kind.__name__ for kind in found)
        raise TypeError(
            f"no answer for {getattr(function, '__name__', function)}: __torch_function__ of {names} returned "
            "NotImplemented; let one of these classes answer"
        )
    return NotImplemented


__all__ = ["OVERRIDING", "answering_classes", "answers", "asking", "asking_only", "overridden", "switched_off"]
