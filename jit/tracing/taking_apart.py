"""Takes the call of a traced function apart: into tensors, numbers, what the function can read, and the key of all."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from jit.eager import context
from jit.eager.pytree import statics
from jit.ir import dtypes
from jit.ir.devices import CURRENT, get_default_device
from jit.runtime.processes.groups import HAS_WORLD

from .parameters import FunctionParameters
from .surroundings.calls import Key, TracedCall, flatten_arguments
from .surroundings.number_arguments import without_numbers
from .surroundings.promoting import but_attached
from .surroundings.properties import kind_of
from .surroundings.sharing import sharing_of
from .surroundings.surroundings import Surroundings, World, attached_to, view_of_objects


def take_apart(
    function: str,
    parameters: FunctionParameters,
    surroundings: Surroundings,
    args: Sequence[Any],
    kwargs: dict[str, Any],
    *,
    promotes: bool = True,
) -> TracedCall:
    """A call of a function, taken apart.

    Args:
        function: The function's name, for errors.
        parameters: The parameters of the function.
        surroundings: All that the function reads besides its arguments.
        args: As in the call.
        kwargs: As in the call.
        promotes: Whether promoted numbers among the arguments are inputs.

    Raises:
        CallError: The function does not take these arguments.
    """
    names, values = parameters.bind(function, args, kwargs)
    leaves, structures = flatten_arguments(values)
    promoted: list[tuple[str, Any]] = []
    chosen = surroundings.promotions.arguments
    if chosen and promotes:
        pairs = zip(structures, names, strict=True)
        structures = tuple(without_numbers(structure, name, chosen, promoted) for structure, name in pairs)
    attached = list(attached_to(leaves))
    given = [*((n, v) for n, s in zip(names, structures, strict=True) for v in statics(s)), *attached]
    view = surroundings.look()
    around = but_attached(surroundings.promotions.around, [name for name, _ in attached])
    world = World(view, view_of_objects(given, view.footprint, promoted=around), given)
    sharing = sharing_of(leaves)
    kinds, number = tuple(map(kind_of, leaves)), CURRENT.get()
    home = f"{get_default_device()} beside {number}" if number else str(get_default_device())
    if dtypes.DEFAULT is not dtypes.float32:
        home += f" of {dtypes.DEFAULT.name}"
    if HAS_WORLD.get():
        home += " in a world"
    region = str(context.AUTOCAST.get() or "")
    key = Key(structures, kinds, sharing, context.GRAD_ENABLED.get(), home, region, world.fingerprint)
    return TracedCall(args, kwargs, names, leaves, structures, world, key, promoted)
