"""Tensors that are made of tensors, such as sparse ones: they are none themselves, and answer for functions of tensors.

A function that is given one finds no declaration that takes it, and hands the call over. So such a class costs nothing
where it does not occur, and its operations are spelled in operators of the tensors that it holds: derivatives, traces
and exported models see those.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any


class Composed:
    """The base of classes whose objects hold tensors and stand for one."""

    requires_grad: bool
    """Whether gradients flow into one of the tensors."""

    def answer(self, name: str, args: Any, kwargs: Any) -> Any:
        """The result of the function of this name on these arguments, of which one at least is such an object.

        Args:
            name: The name of the operator.
            args: Its arguments by position.
            kwargs: Its arguments by name.
        """
        raise NotImplementedError


def answering(values: Iterable[Any]) -> Composed | None:
    """The first object among the arguments of a call, or in a list of them, that answers for it."""
    for value in values:
        if issubclass(type(value), Composed):  # and no `isinstance`, which asks the object: it may fail
            return value
        found = answering(value) if type(value) in (list, tuple) else None
        if found is not None:
            return found
    return None


__all__ = ["Composed", "answering"]
