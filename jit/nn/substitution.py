"""`functional_call`: a network called with other parameters than its own."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any

from jit.ir.errors import KindError, UsageError

from .modules import Module


def functional_call(
    module: Module, parameter_and_buffer_dicts: Any, args: Any = None, kwargs: Mapping[str, Any] | None = None, *,
    tie_weights: bool = True, strict: bool = False,
) -> Any:  # fmt: skip
    """The result of a network with other tensors in the place of its parameters and buffers.

    Args:
        module: The network.
        parameter_and_buffer_dicts: Tensors by name, or several dicts of them.
        args: The arguments by position: a tuple of them, or a single one.
        kwargs: The arguments by name.
        tie_weights: Whether a parameter that has several names is replaced under all of them.
        strict: Whether all parameters and buffers must be given, and nothing else.

    Raises:
        KindError: The parameters are no dict.
        UsageError: A name is given twice; with `strict`, names are missing or unknown.

    >>> import jit
    >>> layer = jit.nn.Linear(2, 1, bias=False)
    >>> jit.func.functional_call(layer, {"weight": jit.ones(1, 2)}, jit.tensor([1.0, 2.0])).tolist()
    [3.0]
    """
    tensors = _joined(parameter_and_buffer_dicts)
    places = _places(module)
    if strict:
        _check_names(tensors, places)
    found = {name: places[name] for name in tensors if name in places}
    if tie_weights:
        found |= _tied(places, tensors, found)
    given = () if args is None else args if isinstance(args, tuple) else (args,)
    with _replaced(found, tensors):
        return module(*given, **(kwargs or {}))


Place = tuple[dict[str, Any], str]
"""A table of parameters or buffers, and a name in it."""


def _joined(dicts: Any) -> dict[str, Any]:
    if isinstance(dicts, Mapping):
        return dict(dicts)
    if not isinstance(dicts, Sequence) or not all(isinstance(each, Mapping) for each in dicts):
        raise KindError("Expected parameter_and_buffer_dicts to be a dict, or a list/tuple of dicts")
    joined = {name: value for each in dicts for name, value in each.items()}
    if len(joined) != sum(map(len, dicts)):
        raise UsageError("functional_call: a name is in several of the dicts; give each tensor once")
    return joined


def _places(module: Module) -> dict[str, Place]:
    """The place of each parameter and buffer."""
    return {
        f"{path}.{name}" if path else name: (table, name)
        for path, inner in module.named_modules(remove_duplicate=False)
        for table in (inner._parameters, inner._buffers)
        for name, value in table.items()
        if value is not None
    }


def _check_names(tensors: Mapping[str, Any], places: Mapping[str, Place]) -> None:
    unknown, missing = sorted(tensors.keys() - places.keys()), sorted(places.keys() - tensors.keys())
    if unknown or missing:
        raise UsageError(f"functional_call: unexpected key(s): {unknown}; missing key(s): {missing}")


def _tied(places: dict[str, Place], tensors: dict[str, Any], found: dict[str, Place]) -> dict[str, Place]:
    """The other places of what is replaced; `tensors` gets the same tensors for them."""
    given = {id(table[name]): tensors[full] for full, (table, name) in found.items()}
    others = {
        full: (table, name) for full, (table, name) in places.items() if full not in found and id(table[name]) in given
    }
    tensors.update({full: given[id(table[name])] for full, (table, name) in others.items()})
    return others


@contextmanager
def _replaced(places: Mapping[str, Place], tensors: Mapping[str, Any]) -> Iterator[None]:
    before = [(table, name, table[name]) for table, name in places.values()]
    try:
        for full, (table, name) in places.items():
            table[name] = tensors[full]
        yield
    finally:
        for table, name, value in before:
            table[name] = value
