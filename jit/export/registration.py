"""Symbolics that users register, for operators of their own or in place of built-in ones."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from jit.ir.errors import UsageError

from .opsets import check_opset

Symbolic = Callable[..., Any]

_REGISTERED: dict[str, dict[int, Symbolic]] = {}


def register_symbolic(kind: str, function: Symbolic, since: int = 9) -> None:
    """Register the function that writes an operator in ONNX.

    Args:
        kind: The traced operator: `aten::name`, `aten::name.overload`, `cpp::name`, or `^Name` for an
            `autograd.Function`.
        function: `function(g, *arguments)`, called with the node builder `g` and the operator's arguments in the order
            of its schema (without one: its operands, then its attributes by keyword). It returns what `g.op` returned.
        since: The lowest opset that it works for; of several, the newest that the target opset allows is used.

    Raises:
        UsageError: If `kind` is not the name of an operator, `function` cannot be called, or there is no opset `since`.

    >>> register_symbolic("aten::my_gelu", lambda g, x: g.op("Gelu", x), since=20)
    >>> unregister_symbolic("aten::my_gelu")
    """
    if not isinstance(kind, str) or not ("::" in kind or kind.startswith("^")):
        raise UsageError(f"A symbolic is registered for an operator such as 'aten::relu' or '^Clip', got {kind!r}.")
    if not callable(function):
        raise UsageError(f"The symbolic of {kind} must be a function (g, *arguments), got {type(function).__name__}.")
    _REGISTERED.setdefault(kind, {})[check_opset(since)] = function


def unregister_symbolic(kind: str) -> None:
    """Forget what was registered for an operator; nothing happens if nothing was."""
    _REGISTERED.pop(kind, None)


def registered(kind: str, opset: int) -> tuple[Symbolic | None, int | None]:
    """The function to use at `opset`, and otherwise the lowest opset that one was registered for."""
    versions = _REGISTERED.get(kind, {})
    usable = [since for since in versions if since <= opset]
    return (versions[max(usable)], None) if usable else (None, min(versions, default=None))
