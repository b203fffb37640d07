"""Facts of tensors that native code compares: class, array, and the slots on which a history depends."""

from __future__ import annotations

from functools import cache
from typing import Any

import numpy as np

from jit.eager.tensors import Tensor, Variable
from jit.runtime.plans import entry


@cache
def slots_of_tensors() -> dict[str, int]:
    """The offsets at which tensors keep their attributes."""
    names = [name for name in Tensor.__slots__ if not name.startswith("__")]
    return {name: entry.slot_offset(Tensor, name) for name in names}


def input_of(owner: Tensor, may_have_history: bool = False) -> entry.EntryInput | None:
    """The facts that a tensor must have; None for one whose history could change what it is.

    Its array is left out where that lies on another device than the CPU.
    """
    array, kind = owner._array, type(owner)
    held: dict[str, Any] = {} if owner._viewed is not None else {"_viewed": None}
    if kind is not Tensor:
        if not isinstance(owner, Variable) or owner._viewed is not None:
            return None
        held["_requires_grad"] = owner._requires_grad
        if owner._grad_fn is None:
            held["_grad_fn"] = None
        elif not may_have_history:
            return None
    offsets = slots_of_tensors()
    marks = [(offsets[name], value) for name, value in held.items()]
    if type(array) is not np.ndarray:
        return entry.EntryInput(None, (), (), -1, None, kind, offsets["_array"], marks, base=-1)
    writeable = bool(array.flags.writeable)
    return entry.EntryInput(
        array.dtype, array.shape, array.strides, -1, None, kind, offsets["_array"], marks, writeable
    )
