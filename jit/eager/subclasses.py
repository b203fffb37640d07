"""Classes that programs derive from `Tensor`: results as objects of them, and how they answer for functions.

Note [Who answers] in `jit/eager/overriding.py` says when they are asked.
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from types import FunctionType
from typing import Any

from .overriding import OVERRIDING, answers, overridden, switched_off
from .tensors import Tensor

_OWN = frozenset((
    "__init__", "__new__", "__init_subclass__", "__class_getitem__", "__getattribute__", "__getattr__", "__setattr__",
    "__delattr__", "__dir__", "__sizeof__", "__reduce__", "__reduce_ex__", "__hash__", "__deepcopy__", "as_subclass",
    "set_history",
))  # fmt: skip
"""Methods of tensors that are about the object, and that no class is asked for."""


def default_answer(
    cls: Any, func: Callable[..., Any], types: Any, args: tuple[Any, ...] = (), kwargs: dict[str, Any] | None = None
) -> Any:
    """The function's own result, tensors in it as objects of this class.

    Args:
        cls: The class that is asked.
        func: The function.
        types: The classes among its arguments that answer.
        args: Its arguments by position.
        kwargs: Its arguments by name.
    """
    if not all(issubclass(cls, kind) for kind in types):
        return NotImplemented
    with switched_off():
        return _in_kind(func(*args, **(kwargs or {})), cls)


def _in_kind(result: Any, kind: Any) -> Any:
    """A result with its tensors as objects of `kind`."""
    if isinstance(result, Tensor):
        return result if isinstance(result, kind) else of_kind(result, kind)
    if isinstance(result, (tuple, list)) and any(isinstance(each, Tensor) for each in result):
        made = [_in_kind(each, kind) for each in result]
        return type(result)(*made) if hasattr(result, "_fields") else type(result)(made)
    return result


def of_kind(tensor: Any, kind: Any) -> Any:
    """The same elements and history as a tensor of a subclass, whose own `__init__` is not called."""
    made = Tensor.__new__(kind)
    Tensor.__init__(made, tensor)
    return made


default_answer.is_default = True  # type: ignore[attr-defined]


def note_class(cls: type[Any], /, **options: Any) -> None:
    """Let the methods of a class that is derived from tensors ask it first, if it answers."""
    super(Tensor, cls).__init_subclass__(**options)
    if not answers(cls):
        return
    OVERRIDING.append(cls)
    own = {name for kind in cls.__mro__[: cls.__mro__.index(Tensor)] for name in vars(kind)}
    for name in dir(Tensor):
        if name in own or name in _OWN or (name.startswith("_") and not name.endswith("__")):
            continue
        member = getattr(Tensor, name)
        if isinstance(member, FunctionType):
            setattr(cls, name, _asking(member))


def _asking(method: Callable[..., Any]) -> Callable[..., Any]:
    @functools.wraps(method)
    def asking(self: Any, *args: Any, **kwargs: Any) -> Any:
        found = overridden(method, (self, *args), kwargs)
        return method(self, *args, **kwargs) if found is NotImplemented else found

    return asking


SUBCLASSING: dict[str, Any] = {
    "__torch_function__": classmethod(default_answer), "__init_subclass__": classmethod(note_class),
}  # fmt: skip
"""Members of `Tensor` by name."""

__all__ = ["SUBCLASSING", "default_answer", "note_class", "of_kind"]
