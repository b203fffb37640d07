"""Takes the call of a traced function apart: into tensors, numbers, what the function can read, and the key of all."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from jit.eager import context
from jit.eager.pytree import statics

from .parameters import FunctionParameters
from .surroundings.calls import Key, TracedCall, _Promoted, flatten_arguments
from .surroundings.promoting import KINDS
from .surroundings.properties import kind_of
from .surroundings.sharing import sharing_of
from .surroundings.surroundings import Surroundings, World, attributes_of, view_of_objects


def take_apart(
    function: str,
    parameters: FunctionParameters,
    surroundings: Surroundings,
    args: Sequence[Any],
    kwargs: dict[str, Any],
) -> TracedCall:
    """A call of a function, taken apart.

    Args:
        function: The function's name, for errors.
        parameters: The parameters of the function.
        surroundings: All that the function reads besides its arguments.
        args: As in the call.
        kwargs: As in the call.

    Raises:
        CallError: The function does not take these arguments.
    """
    names, values = parameters.bind(function, args, kwargs)
    promoted = _promoted(names, values, surroundings)
    values = [_Promoted(type(v)) if n in promoted else v for n, v in zip(names, values, strict=True)]
    leaves, structures = flatten_arguments(values)
    attached = [(tensor._name or "argument", made) for tensor in leaves if (made := attributes_of(tensor))]
    given = [*((n, v) for n, s in zip(names, structures, strict=True) for v in statics(s)), *attached]
    view = surroundings.look()
    world = World(view, view_of_objects(given, view.footprint), given)
    sharing = sharing_of(leaves)
    key = Key(structures, tuple(map(kind_of, leaves)), sharing, context.GRAD_ENABLED.get(), world.fingerprint)
    return TracedCall(args, kwargs, names, leaves, structures, world, key, promoted)


def _promoted(names: Sequence[str], values: Sequence[Any], surroundings: Surroundings) -> dict[str, Any]:
    """The numbers among the arguments that are inputs, by name."""
    chosen = surroundings.promoted
    if not chosen:
        return {}
    return {n: v for n, v in zip(names, values, strict=True) if n in chosen and type(v) in KINDS}
