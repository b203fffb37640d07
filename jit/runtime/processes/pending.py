"""Exchanges that plans begin at one node and wait for at another; what goes between them is the memory of the result.

Note [The memory of a result]
    A plan hands arrays from node to node, and nothing else. So the node that begins an exchange gives the array that
    will hold the result, and this table knows by its address which exchange that is. The node that waits gives the same
    array. A plan that is ended in between leaves an entry, which goes when nobody has the array any more.
"""

from __future__ import annotations

import weakref
from typing import Any

import numpy as np

from jit.ir.errors import GraphError

from .collectives import all_reduce
from .works import PROGRESS, Work

_PENDING: dict[int, tuple[Any, Work]] = {}
"""Weak references to arrays, and their exchanges, by the addresses of the arrays."""


def begin(array: Any, reduction: str, name: str) -> Any:
    """The array that will hold the result of `all_reduce`.

    Args:
        array: The array of this process, of a dtype that travels as it is.
        reduction: One of REDUCTIONS.
        name: The name of the group.
    """
    _forget()
    row = np.array(array, order="C")
    work = all_reduce(row, reduction, name, overwrite=True)
    _PENDING[row.ctypes.data] = (weakref.ref(row), work)
    if not work.is_done:
        PROGRESS.watch()
    return row


def finish(array: Any) -> Any:
    """The array that `begin` gave, when it holds the result; a copy of any other one, while nothing is under way.

    Raises:
        GraphError: Exchanges are under way, and this is the result of none of them.
    """
    _, work = _PENDING.pop(array.ctypes.data, (None, None))
    if work is not None:
        work.wait()
        return array
    if any(not pending.is_done for _, pending in _PENDING.values()):
        raise GraphError("a result of other processes is asked for that no exchange will bring")
    return array.copy()


def _forget() -> None:
    """Forget exchanges that are done, and whose results nobody has."""
    for address, (reference, work) in list(_PENDING.items()):
        if work.is_done:
            work.result = None
            if reference() is None:
                _PENDING.pop(address, None)
