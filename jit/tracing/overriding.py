"""`symbolic_override`: functions whose calls become, in an exported model, what their user writes in ONNX."""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from typing import Any

from jit.eager import context
from jit.eager.pytree import flatten, unflatten
from jit.ir.errors import UsageError

from .recorder.composites import record_over
from .recorder.tracer import Trace


class OverriddenCall:
    """A call of an overridden function: its arguments, and what writes it in ONNX.

    Args:
        function: The user's `symbolic(g, *args, **kwargs)`.
        structure: The arguments without their tensors.
    """

    def __init__(self, function: Callable[..., Any], structure: Any) -> None:
        self._function, self._structure = function, structure

    def filled(self, operands: Sequence[Any]) -> list[Any]:
        """The arguments by position and by name, with the values of the model in the places of the tensors.

        Args:
            operands: These values.
        """
        return list(unflatten(self._structure, operands))

    def symbolic(self, g: Any, args: Any, kwargs: Any) -> Any:
        """The results in the model.

        Args:
            g: The builder of nodes.
            args: The arguments by position.
            kwargs: The arguments by name.
        """
        return self._function(g, *args, **kwargs)


def symbolic_override(symbolic: Callable[..., Any]) -> Callable[[Any], Any]:
    """Let a function, or the `forward` of a class of modules, be written in ONNX by another one.

    Everywhere but in exported models it stays what it is, and its results are what the model's are verified with.

    Args:
        symbolic: `symbolic(g, *args, **kwargs)`, called with the builder of nodes and the function's own arguments, in
            which values of the model stand for tensors; of a method `self` comes first. It returns one value for each
            tensor that the function returns, in their order.

    Returns:
        A decorator for a function or a class of modules.

    Raises:
        UsageError: `symbolic` is no function.

    >>> import jit
    >>> @jit.symbolic_override(lambda g, x: g.op("Gelu", x))
    ... def smooth(x):
    ...     return x * 0.5 * (1 + jit.erf(x / 2 ** 0.5))
    >>> jit.export_onnx(lambda x: smooth(x) + 1, jit.ones(3)).op_histogram
    {'Add': 1, 'Gelu': 1}
    """
    if not callable(symbolic):
        raise UsageError(f"symbolic_override takes a function (g, *arguments), not {type(symbolic).__name__}")

    def decorate(target: Any) -> Any:
        if isinstance(target, type):
            target.forward = decorate(target.forward)  # type: ignore[attr-defined]
            return target

        @functools.wraps(target)
        def overridden(*args: Any, **kwargs: Any) -> Any:
            trace = context.TRACE.get()
            if not context.EXPORTING.get() or not isinstance(trace, Trace):
                return target(*args, **kwargs)
            return _recorded(trace, symbolic, target, args, kwargs)

        return overridden

    return decorate


def _recorded(trace: Trace, symbolic: Callable[..., Any], target: Any, args: Any, kwargs: Any) -> Any:
    leaves, structure = flatten((args, kwargs))
    call = OverriddenCall(symbolic, structure)
    results: list[Any] = []

    def run() -> Any:
        results.append(target(*args, **kwargs))
        return flatten(results[0])[0]

    operands = tuple(map(trace.operand, leaves))
    record_over(trace, f"override::{target.__name__}", operands, {"function": call, "arguments": call}, run)
    return results[0]


__all__ = ["symbolic_override"]
