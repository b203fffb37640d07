"""Members of `Tensor` that are made when they are first asked for, because they need declarations of operators."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from .tensors import Tensor


class Later:
    """A method that takes its own place in `Tensor` when somebody asks for it."""

    __slots__ = ("make", "name")

    def __init__(self, name: str, make: Callable[[], Callable[..., Any]]) -> None:
        self.name = name
        self.make = make

    def __get__(self, tensor: Any, kind: type) -> Any:
        made = self.make()
        if Tensor.__dict__.get(self.name) is self:
            setattr(Tensor, self.name, made)
        return made.__get__(tensor, kind)
