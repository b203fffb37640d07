"""The device on which an operator runs: that of its argument `device`, or else that of its operands."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import cache
from typing import Any

import numpy as np

from jit.ir.devices import announce
from jit.ir.errors import UsageError
from jit.ir.op import Op

from .libraries import FINDERS, HOST, OPENERS, ArrayLibrary, is_array, library_of, library_on

INDICES = frozenset(("indices", "lengths", "input_lengths", "target_lengths"))
"""Arguments that may lie on the CPU, whatever the device of the others."""


def stays_on_host(op: Op, values: Sequence[Any]) -> bool:
    """Whether all operands are single arrays of numpy's, and no device is asked for: a quick answer to most calls."""
    for index in op.tensors:
        value = values[index]
        if type(value) is not np.ndarray and value is not None:
            return False
    place = _device_argument(op)
    return place is None or values[place] is None


def shared_library(op: Op, values: Sequence[Any]) -> ArrayLibrary | None:
    """The library, not the CPU's, of operands that are single arrays or numbers: a quick answer to most calls.

    None if they are others, or a device is asked for; then `library_for` and `placed` look closer.
    """
    place, found = _device_argument(op), None
    if place is not None and values[place] is not None:
        return None
    for index in op.tensors:
        value = values[index]
        find = FINDERS.get(type(value))
        if find is not None:
            home = find(value)
            if found is not None and home is not found:
                return None
            found = home
        elif value is not None and type(value) not in _NUMBERS:
            return None
    return found


_NUMBERS = frozenset((int, float, bool))


def library_for(op: Op, values: Sequence[Any]) -> ArrayLibrary:
    """The library that `op` runs on; UsageError if its operands lie on several devices.

    Indices and lengths may lie on the CPU, and so may tensors without dims, which go wherever the others are.
    """
    place = _device_argument(op)
    if place is not None and values[place] is not None:
        return library_on(values[place])
    firm = [(name, library_of(a)) for name, a in _operands(op, values) if not _goes_anywhere(name, a)]
    chosen = [*dict.fromkeys(library for _, library in firm)]
    if len(chosen) > 1 and not op.crosses:
        raise _mixed(op, firm)
    return chosen[0] if chosen else HOST


def placed(op: Op, values: Sequence[Any], library: ArrayLibrary) -> list[Any]:
    """The arguments with all arrays whose elements are read on the device of a library."""
    if op.sizes_alone:
        return list(values)

    def move(value: Any) -> Any:
        if isinstance(value, (tuple, list)):
            return type(value)(map(move, value))
        return library.taken(value) if is_array(value) else value

    return [move(value) if index in op.tensors else value for index, value in enumerate(values)]


@cache
def _device_argument(op: Op) -> int | None:
    return next((i for i, a in enumerate(op.arguments) if a.type.base == "Device"), None)


def _operands(op: Op, values: Sequence[Any]) -> Iterator[tuple[str, Any]]:
    """The arrays among the arguments, with the arguments' names."""
    for index in op.tensors:
        many = values[index] if isinstance(values[index], (tuple, list)) else (values[index],)
        yield from ((op.arguments[index].name, value) for value in many if is_array(value))


def _goes_anywhere(name: str, array: Any) -> bool:
    return library_of(array) is HOST and (array.ndim == 0 or name in INDICES)


def _mixed(op: Op, firm: Sequence[tuple[str, ArrayLibrary]]) -> UsageError:
    where = ", ".join(dict.fromkeys(f"{name} on {library.device!r}" for name, library in firm))
    first = next(library.device for _, library in firm if library is not HOST)
    return UsageError(
        f"{op.schema.name}: its tensors lie on different devices: {where}; move them to one, with .to({first!r})"
    )


def _open_meta() -> int:
    """One: there is one device for arrays without elements, which are known from now on."""
    from .meta import LIBRARY

    OPENERS[LIBRARY.device] = lambda number: LIBRARY
    return 1


announce("meta", _open_meta)
