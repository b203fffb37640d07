"""Operations of the user's that files may name: an artifact holds no code, so it says which of these to call."""

from __future__ import annotations

from typing import Any, TypeVar

from jit.ir.errors import UsageError

T = TypeVar("T")

_REGISTERED: dict[str, Any] = {}


def register(function: T) -> T:
    """Let saved functions refer to an `autograd.Function` or a `jit.CppOp` by its name; works as a decorator.

    Args:
        function: The Function or operator; no other one of its name, defined elsewhere, may be registered.

    Raises:
        UsageError: It is neither of the two, or the name is taken.

    >>> import jit
    >>> @jit.autograd.register
    ... class Double(jit.autograd.Function):
    ...     @staticmethod
    ...     def forward(ctx, x):
    ...         return x * 2
    ...     @staticmethod
    ...     def backward(ctx, g):
    ...         return g * 2
    """
    kind = kind_of_call(function)
    known = _REGISTERED.get(kind)
    if known is not None and _place(known) != _place(function):
        raise UsageError(f"{kind} is already registered, by {_place(known)}; give one of them another name")
    _REGISTERED[kind] = function
    return function


def registered(kind: str) -> Any:
    """The function that a node of this kind calls, or None."""
    return _REGISTERED.get(kind)


def kind_of_call(function: Any) -> str:
    """The kind of the nodes that call `function`: `^Name` or `cpp::name`.

    Raises:
        UsageError: It is neither an `autograd.Function` nor a `CppOp`.
    """
    from .custom import Function

    if isinstance(function, type) and issubclass(function, Function):
        return f"^{function.__name__}"
    if hasattr(function, "schema") and hasattr(function, "address"):
        return str(function.schema.qualified)
    raise UsageError(
        f"register() takes a subclass of autograd.Function or a CppOp, not {type(function).__name__}; pass one of these"
    )


def _place(function: Any) -> str:
    """The place of its definition, which stays the same when a notebook's cell runs again."""
    return f"{function.__module__}.{function.__qualname__}" if isinstance(function, type) else str(function.schema)
