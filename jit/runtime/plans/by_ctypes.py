"""Calls of stretches without an entry: arrays are compared, outputs made and addresses collected in Python."""

from __future__ import annotations

import weakref
from collections.abc import Callable, Sequence
from functools import cached_property
from typing import Any, Protocol

import numpy as np

from ..arrays import blocks
from ..arrays.arrays import address_of
from . import entry
from .places import Layout


class Addresses:
    """The addresses of arrays, those of the last call remembered: weights are the same ones in every call."""

    def __init__(self) -> None:
        self._known: dict[int, tuple[weakref.ref[Any], int]] = {}

    def of(self, arrays: Sequence[Any]) -> list[int]:
        """The addresses of the arrays of a call."""
        found = []
        for index, array in enumerate(arrays):
            known = self._known.get(index)
            if known is None or known[0]() is not array:
                known = self._known[index] = weakref.ref(array), address_of(array)
            found.append(known[1])
        return found


class SpareMemory:
    """Memory for temporaries that calls hand on: one piece for each of the calls that run at once."""

    def __init__(self) -> None:
        self._pieces: list[Any] = []

    def take(self, nbytes: int) -> Any:
        """A piece of at least `nbytes`: the one that the last call has left, if it is as large."""
        try:
            piece = self._pieces.pop()
        except IndexError:
            return np.empty(nbytes, np.uint8)
        return piece if piece.nbytes >= nbytes else np.empty(nbytes, np.uint8)

    def leave(self, piece: Any) -> None:
        """Keep a piece for the next call."""
        self._pieces.append(piece)


class Runnable(Protocol):
    """Code of a stretch at some sizes, as far as calls need it."""

    program: Any
    operands: int
    arena: int

    @property
    def layouts(self) -> list[Layout]:
        """The layouts of its inputs."""

    @property
    def outputs(self) -> list[tuple[tuple[int, ...], Any]]:
        """The shape and dtype of each output."""

    @property
    def constants(self) -> list[int]:
        """Addresses."""


class ByCtypes:
    """Runs a stretch where there is no entry.

    Args:
        code: Its code.
        failed: Raises the error of a status.
        addresses: The addresses of what the last call brought, if several codes share them.
        spare: The memory for temporaries, likewise.
    """

    def __init__(
        self, code: Runnable, failed: Callable[[int], None], addresses: Addresses | None = None,
        spare: SpareMemory | None = None,
    ) -> None:  # fmt: skip
        self.code = code
        self._failed = failed
        self._execute = entry.executor()
        self._spare = spare or SpareMemory()
        self._addresses = addresses or Addresses()

    @cached_property
    def _layouts(self) -> list[Any]:
        return [(layout.shape, layout.strides, layout.dtype) for layout in self.code.layouts]

    def __call__(self, *arrays: Any) -> Sequence[Any] | None:
        code = self.code
        if any(type(array) is not np.ndarray for array in arrays):
            return None
        alike = [(array.shape, array.strides, array.dtype) for array in arrays] == self._layouts
        if not alike and any(not fits(array, layout) for array, layout in zip(arrays, code.layouts, strict=True)):
            return None
        outputs = [blocks.empty(shape, dtype) for shape, dtype in code.outputs]
        arena = self._spare.take(code.arena + 64)
        start = -(-address_of(arena) // 64) * 64
        inputs = self._addresses.of(arrays)
        bases = np.array([start, *inputs, *map(address_of, outputs), *code.constants], np.int64)
        status = self._execute(address_of(code.program), address_of(bases), max(code.operands, 1))
        self._spare.leave(arena)
        if status:
            self._failed(status)
        return outputs


def fits(array: Any, layout: Layout) -> bool:
    """Whether an array has a layout; strides of dims of one element do not matter."""
    if type(array) is not np.ndarray or array.dtype is not layout.dtype or array.shape != layout.shape:
        return False
    steps = zip(array.shape, array.strides, layout.strides, strict=True)
    return all(n == 1 or given == wanted for n, given, wanted in steps)


def laid_out(array: Any, layout: Layout) -> Any:
    """The array if it has a layout, or cannot have it; else a copy that has."""
    if fits(array, layout) or (array.dtype, array.shape) != (layout.dtype, layout.shape) or min(layout.strides) <= 0:
        return array
    reach = sum((n - 1) * step for n, step in zip(layout.shape, layout.strides, strict=True))
    memory = np.empty(reach + layout.itemsize, np.uint8)
    copy: Any = np.ndarray(layout.shape, layout.dtype, memory, 0, layout.strides)
    copy[...] = array
    return copy
