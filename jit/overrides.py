"""`jit.overrides`: objects that answer for functions of tensors themselves, by `__torch_function__`."""

from __future__ import annotations

import functools
import sys
from collections.abc import Callable, Iterable, Sequence
from types import FunctionType
from typing import Any

from .eager.overriding import answering_classes, asking, overridden
from .eager.tensors import Tensor
from .ir.errors import UsageError


def is_tensor_like(inp: Any) -> bool:
    """Whether an object is a tensor, or its class defines `__torch_function__`."""
    return isinstance(inp, Tensor) or hasattr(type(inp), "__torch_function__")


def has_torch_function(relevant_args: Iterable[Any]) -> bool:
    """Whether one of the objects, or of those in lists of them, answers for functions of tensors itself.

    Args:
        relevant_args: Any objects.
    """
    return bool(answering_classes(relevant_args))


def has_torch_function_variadic(*args: Any) -> bool:
    """Whether one of the arguments answers for functions of tensors itself."""
    return has_torch_function(args)


has_torch_function_unary = has_torch_function_variadic


def handle_torch_function(
    public_api: Callable[..., Any], relevant_args: Sequence[Any], *args: Any, **kwargs: Any
) -> Any:
    """The answer of an argument for a function, as the protocol of `__torch_function__` finds it.

    Args:
        public_api: The function.
        relevant_args: The arguments that might answer.
        args: All arguments by position.
        kwargs: All arguments by name.

    Raises:
        UsageError: None of the arguments answers.
        TypeError: Those that do know no answer.

    >>> import jit
    >>> class Three:
    ...     @classmethod
    ...     def __torch_function__(cls, func, types, args=(), kwargs=None):
    ...         return 3
    >>> jit.overrides.handle_torch_function(jit.add, [Three()], Three(), 1)
    3
    """
    if not has_torch_function(relevant_args):
        raise UsageError("none of these objects defines __torch_function__; call the function itself")
    return overridden(public_api, args, kwargs)


def wrap_torch_function(dispatcher: Callable[..., Iterable[Any]]) -> Callable[..., Any]:
    """A decorator: a function asks the arguments that `dispatcher` picks before it runs.

    Args:
        dispatcher: Takes the arguments of the function and returns those that might answer.
    """

    def decorated(function: Callable[..., Any]) -> Callable[..., Any]:
        @functools.wraps(function)
        def asking(*args: Any, **kwargs: Any) -> Any:
            relevant = tuple(dispatcher(*args, **kwargs))
            if has_torch_function(relevant):
                return handle_torch_function(asking, relevant, *args, **kwargs)
            return function(*args, **kwargs)

        return asking

    return decorated


class TorchFunctionMode:
    """A block in which `__torch_function__` of the object is asked for every operator, whatever its arguments are.

    The method may call the function, within which only the modes around this one are asked; NotImplemented leaves the
    answer to the arguments. Traced functions run untraced in such a block, so that the mode sees their operators.

    >>> import jit
    >>> class Doubled(jit.overrides.TorchFunctionMode):
    ...     def __torch_function__(self, func, types, args=(), kwargs=None):
    ...         result = func(*args, **(kwargs or {}))
    ...         return result * 2 if func is jit.add else result
    >>> with Doubled():
    ...     jit.add(jit.ones(2), 1)
    tensor([4., 4.])
    """

    def __init__(self) -> None:
        self._blocks: list[Any] = []

    def __torch_function__(
        self, func: Callable[..., Any], types: Any, args: tuple[Any, ...] = (), kwargs: dict[str, Any] | None = None
    ) -> Any:
        raise NotImplementedError(f"{type(self).__name__} does not define __torch_function__")

    def __enter__(self) -> Any:
        blocks = self.__dict__.setdefault("_blocks", [])  # a class of the user's may not call our __init__
        blocks.append(asking(self))
        blocks[-1].__enter__()
        return self

    def __exit__(self, *error: Any) -> None:
        self._blocks.pop().__exit__(*error)


class BaseTorchFunctionMode(TorchFunctionMode):
    """A mode that lets every function do what it does."""

    def __torch_function__(
        self, func: Callable[..., Any], types: Any, args: tuple[Any, ...] = (), kwargs: dict[str, Any] | None = None
    ) -> Any:
        return func(*args, **(kwargs or {}))


def is_tensor_method_or_property(func: Callable[..., Any]) -> bool:
    """Whether a function is a method of `Tensor`, or the getter of a property of it."""
    name = getattr(func, "__name__", "")
    return func in (vars(Tensor).get(name), getattr(Tensor, name, None)) or name == "__get__"


def get_overridable_functions() -> dict[Any, list[Callable[..., Any]]]:
    """The functions for which an object can answer, by the module or class that has them."""
    found: dict[Any, list[Callable[..., Any]]] = {}
    for home in (sys.modules[__package__], Tensor):
        members = (getattr(home, name, None) for name in dir(home) if not name.startswith("__"))
        found[home] = [m for m in members if isinstance(m, FunctionType) and "declarations" in m.__dict__]
    return found


def get_ignored_functions() -> set[Callable[..., Any]]:
    """The functions of `jit` itself for which no object is asked: those that are no operators."""
    home = sys.modules[__package__]
    members = {m for name in home.__all__ if isinstance(m := getattr(home, name, None), FunctionType)}
    return {member for member in members if "declarations" not in member.__dict__}


__all__ = [
    "BaseTorchFunctionMode", "TorchFunctionMode",
    "get_ignored_functions", "get_overridable_functions", "handle_torch_function", "has_torch_function",
    "has_torch_function_unary", "has_torch_function_variadic", "is_tensor_like", "is_tensor_method_or_property",
    "wrap_torch_function",
]  # fmt: skip
