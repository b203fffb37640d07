"""Large arrays in memory that is used again: the memory of a dropped result serves the next result of its size.

Fresh memory of that size comes from the operating system, page by page on first touch, which takes longer than many a
kernel that fills it (64 MB: 2.3 ms in memory that was used before, 7.4 ms in fresh memory). malloc gives large blocks
back at once, so they are kept here.

Note [Who holds a block]
    An array is a view of its `_HeapBlock`, and so is, down the chain of `base`, whatever shares its memory: views,
    exports by DLPack or the buffer protocol. A block comes back when the last of them is gone, by its `__del__`, in
    whatever thread and at whatever moment: `BlockPool` therefore takes no lock, and does nothing that a garbage
    collection in its midst could upset.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from .arrays import typestr_of

LARGE = 1 << 20
"""The size in bytes from which on arrays are made here; smaller ones are numpy's own."""
ALIGNMENT = 64
"""The alignment of arrays in bytes: a cache line, so that whole lines can be written past the cache."""
KEPT = 1 << 28
"""The most bytes of unused blocks that are kept."""


class BlockPool:
    """Blocks of unused memory, by size; `kept` bytes of them at most."""

    def __init__(self, kept: int = KEPT) -> None:
        self._most = kept
        self._free: dict[int, list[Any]] = {}

    @property
    def nbytes(self) -> int:
        """The number of bytes that are kept."""
        return sum(size * len(free) for size, free in list(self._free.items()))

    def take(self, size: int) -> Any:
        """Memory of `size` bytes, of unknown content, as a numpy array of bytes."""
        try:
            return self._free[size].pop()
        except LookupError:
            return self._fresh(size)

    def give(self, memory: Any) -> None:
        """Keep memory for the next array of its size; if it would be too much, everything kept before is dropped."""
        if self.nbytes + memory.nbytes > self._most:
            self.forget()
        if memory.nbytes <= self._most:
            self._free.setdefault(memory.nbytes, []).append(memory)

    def forget(self) -> None:
        """Give back what is kept."""
        self._free.clear()

    def _fresh(self, size: int) -> Any:
        try:
            return np.empty(size, np.uint8)
        except MemoryError:
            self.forget()
            return np.empty(size, np.uint8)


class _HeapBlock:
    """Owns memory for the arrays that show it, and gives it back to its pool when the last of them is gone."""

    __slots__ = ("__array_interface__", "_memory", "_pool")

    def __init__(self, pool: BlockPool, memory: Any, shape: tuple[int, ...], dtype: Any) -> None:
        self._pool = pool
        self._memory = memory
        start = -(-self._memory.__array_interface__["data"][0] // ALIGNMENT) * ALIGNMENT
        self.__array_interface__ = {"version": 3, "shape": shape, "typestr": typestr_of(dtype), "data": (start, False)}

    def __del__(self) -> None:
        self._pool.give(self._memory)


_pool = BlockPool()


def empty(shape: tuple[int, ...], dtype: Any) -> Any:
    """A new row-major array of unknown content, as `np.empty` makes them.

    >>> empty((2, 3), np.dtype(np.float32)).shape
    (2, 3)
    """
    size = dtype.itemsize
    for extent in shape:
        size *= extent
    if size < LARGE:
        return np.empty(shape, dtype)
    memory = _pool.take(size + ALIGNMENT)  # before the block is made: one without memory could give none back
    array = np.asarray(_HeapBlock(_pool, memory, shape, dtype))
    return array if array.dtype is dtype else array.view(dtype)


def forget() -> None:
    """Give the memory of dropped arrays back to the operating system."""
    _pool.forget()
