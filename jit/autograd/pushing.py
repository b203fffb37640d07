"""Directions that go through the `jvp` of a custom Function, see Note [Duals]."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from jit.eager import context
from jit.eager.namespace import F
from jit.eager.tensors import Tensor
from jit.ir.errors import AutogradError, UsageError

from .forward_ad import is_open, note_dual, unpack_dual


def directions_of(name: str, args: Sequence[Any]) -> list[Tensor | None] | None:
    """The direction of each argument of a Function, before it runs; None if none has one.

    Args:
        name: The name of the Function.
        args: Its arguments.
    """
    if not is_open() or not context.GRAD_ENABLED.get():
        return None
    found = [unpack_dual(a).tangent if isinstance(a, Tensor) and a.defined else None for a in args]
    if all(direction is None for direction in found):
        return None
    trace = context.TRACE.get()
    if trace is not None:
        trace.note_impure(f"sends a direction through the jvp of {name}")
    return found


def push(
    name: str, jvp: Callable[..., Any], ctx: Any, args: Sequence[Any], directions: Sequence[Any], outputs: Sequence[Any]
) -> None:
    """Let the outputs of a Function be duals, with what its `jvp` makes of the directions of its arguments.

    Args:
        name: The name of the Function.
        jvp: The static method.
        ctx: Its context.
        args: The arguments of `forward`.
        directions: Their directions.
        outputs: The results.

    Raises:
        UsageError: There are not as many directions as outputs.
        AutogradError: A direction is not of the memory of which its output is.
    """
    given = [_filled(ctx, a, d) for a, d in zip(args, directions, strict=True)]
    with ctx.pushing(lambda tensor: unpack_dual(tensor).primal):
        found = jvp(ctx, *given)
    rows = tuple(found) if isinstance(found, (tuple, list)) else (found,)
    if len(rows) != len(outputs):
        raise UsageError(f"{name}.jvp returned {len(rows)} directions for {len(outputs)} outputs; return one for each")
    for number, (output, direction) in enumerate(zip(outputs, rows, strict=True)):
        if isinstance(output, Tensor) and output.grad_fn is not None:
            _check_memory(name, output, direction, args, given)
            note_dual(output, direction)
        elif direction is not None:
            raise AutogradError(f"output {number} of {name} has no derivative; let its jvp return None there")


def _filled(ctx: Any, argument: Any, direction: Tensor | None) -> Tensor | None:
    """The direction of an argument; zeros where it is a tensor without one, unless the Function wants None."""
    if direction is not None or not isinstance(argument, Tensor) or not ctx.materialize_grads:
        return direction
    has_derivatives = argument.dtype.is_floating_point or argument.dtype.is_complex
    return F.zeros_like(argument.detach()) if has_derivatives else None


def _check_memory(
    name: str, output: Tensor, direction: Tensor | None, args: Sequence[Any], directions: Sequence[Any]
) -> None:
    """AutogradError if an output is an argument or a view of one, and its direction is not of that one's direction."""
    source = next((i for i, a in enumerate(args) if isinstance(a, Tensor) and a._storage is output._storage), None)
    if source is None or direction is None or directions[source] is None:
        return
    given = directions[source]
    if output is args[source] and direction is not given:
        raise AutogradError(f"{name} writes to an argument; let its jvp write to the direction of it and return that")
    if output is not args[source] and (direction is given or direction._storage is not given._storage):
        raise AutogradError(
            f"{name} returns a view of an argument, or the argument itself; let its jvp return the same view of the "
            "direction of it, given.view_as(given) for the whole"
        )


__all__ = ["directions_of", "push"]
