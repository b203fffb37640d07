"""Memory of GPUs and beside them: the most that arrays took up, and memory of the CPU that is pinned for transfers."""

from __future__ import annotations

from functools import cache
from typing import Any
from weakref import WeakValueDictionary

import numpy as np

from ..arrays.arrays import owner_of


class PeakMemory:
    """The most bytes that arrays took up at a time, by GPU; counted from the first question on.

    CuPy keeps no such number. Asking its pool after every allocation takes time, so it is not done unasked.

    Args:
        module: `cupy`, or what stands for it.
    """

    def __init__(self, module: Any) -> None:
        self._module = module
        self._most: dict[int, int] = {}

    def most(self, index: int) -> int:
        """The most bytes on a GPU, which is the current one, since `reset`."""
        if index not in self._most:
            self.reset(index)
        return self._most[index]

    def reset(self, index: int) -> None:
        """Count anew on a GPU, which is the current one."""
        if not self._most:
            allocate = self._module.cuda.get_allocator()
            self._module.cuda.set_allocator(lambda size: self._noted(allocate(size)))
        self._most[index] = self._used()

    def _noted(self, memory: Any) -> Any:
        index = self._module.cuda.runtime.getDevice()
        self._most[index] = max(self._most.get(index, 0), self._used())
        return memory

    def _used(self) -> int:
        return int(self._module.get_default_memory_pool().used_bytes())


peak_memory = cache(PeakMemory)
"""The count of a module, of which there is one: allocators are the module's."""

_PINNED: WeakValueDictionary[int, Any] = WeakValueDictionary()
"""Arrays that own pinned memory."""


def pinned(module: Any, array: Any) -> Any:
    """A row-major copy of a numpy array in memory from which a GPU can copy by itself."""
    memory = module.cuda.alloc_pinned_memory(max(array.nbytes, 1))
    owner = np.frombuffer(memory, np.uint8, array.nbytes)
    _PINNED[id(owner)] = owner
    made = owner.view(array.dtype).reshape(array.shape)
    made[...] = array
    return made


def is_pinned(array: Any) -> bool:
    """Whether a numpy array lies in memory that `pinned` made."""
    return id(owner_of(array)) in _PINNED
