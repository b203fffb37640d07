"""Small functions of PyTorch's layers that programs import, private as they are: `_pair`, `_get_clones`."""

from __future__ import annotations

import copy
from collections.abc import Callable, Iterable
from typing import Any

from jit.ir.errors import UsageError

from . import functional
from .containers import ModuleList


def _ntuple(n: int, name: str = "parse") -> Callable[[Any], tuple[Any, ...]]:
    """The function that makes n of a number, and leaves what is iterable as it is."""

    def parse(x: Any) -> tuple[Any, ...]:
        return tuple(x) if isinstance(x, Iterable) else (x,) * n

    parse.__name__ = name
    return parse


_single, _pair, _triple, _quadruple = (_ntuple(n) for n in range(1, 5))


def _reverse_repeat_tuple(t: Iterable[Any], n: int) -> tuple[Any, ...]:
    """Each element n times, the last element first."""
    return tuple(x for x in reversed(tuple(t)) for _ in range(n))


def _get_clones(module: Any, N: int) -> ModuleList:
    """A list of copies of a module."""
    return ModuleList([copy.deepcopy(module) for _ in range(N)])


def _get_activation_fn(activation: str) -> Any:
    """The function of an activation's name."""
    if activation not in ("relu", "gelu"):
        raise UsageError(f"there is no activation {activation!r} here; use 'relu' or 'gelu'")
    return getattr(functional, activation)


def consume_prefix_in_state_dict_if_present(state_dict: dict[str, Any], prefix: str) -> None:
    """Take a prefix off the names in a state dict, in place.

    Args:
        state_dict: The dictionary.
        prefix: Such as "module.", which data-parallel models put before all names.
    """
    for name in [name for name in state_dict if name.startswith(prefix)]:
        state_dict[name[len(prefix) :]] = state_dict.pop(name)
