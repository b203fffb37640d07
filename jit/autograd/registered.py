"""Operations of the user's that files may name: an artifact holds no code, so it says which of these to call."""

from __future__ import annotations

from typing import Any, TypeVar

from jit.ir.errors import UsageError

T = TypeVar("T")

_REGISTERED: dict[str, Any] = {}


def register(function: T) -> T:
    """Let saved functions refer to an `autograd.Function` or a `jit.CppOp` by its name; works as a decorator.

    Args:
        function: Its name must be its own: another one of that name, defined elsewhere, is refused.

    Raises:
        UsageError: It is neither, or the name is taken.

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
    """The kind of the nodes that call `function`: `^Name` or `cpp::name`; UsageError for anything else.

    Raises:
        UsageError: The function is of neither kind.
    """
    from .custom import Function

    if isinstance(function, type) and issubclass(function, Function):
        return f"^{function.__name__}"
    if hasattr(function, "schema") and hasattr(function, "address"):
        return str(function.schema.qualified)
    raise UsageError(f"only autograd.Functions and CppOps are registered, not {type(function).__name__}")


def _place(function: Any) -> str:
    """The place of its definition: a cell of a notebook that runs again defines the same thing anew."""
    return f"{function.__module__}.{function.__qualname__}" if isinstance(function, type) else str(function.schema)
