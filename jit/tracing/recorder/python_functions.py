"""The Python functions that a trace has called: their backwards, and memory of their arguments that they returned."""

from __future__ import annotations

import weakref
from collections.abc import Iterator, Sequence
from typing import Any

from jit.ir import Value

from .memory import StorageCell


class PythonFunctions:
    """The Python functions that one trace has called."""

    def __init__(self) -> None:
        self.handles: weakref.WeakKeyDictionary[Any, Value] = weakref.WeakKeyDictionary()
        """Autograd node of a PythonOp -> its Handle."""
        self._views: dict[StorageCell, tuple[str, list[StorageCell]]] = {}
        """Cell of a result that is memory of arguments -> the function's name, and the cells of these arguments."""

    def note_view(self, name: str, made: StorageCell, arguments: list[StorageCell]) -> None:
        """Note that the function `name` has returned memory of its arguments."""
        self._views[made] = name, arguments

    def shown(self, cells: Sequence[StorageCell]) -> Iterator[str]:
        """The functions that have made a view of memory that the caller has, or gets by another result.

        Args:
            cells: The cells of the results of the traced function.
        """
        for cell in dict.fromkeys(cells):
            if cell in self._views and self._is_shown(cell, [c for c in cells if c is not cell]):
                yield self._views[cell][0]

    def _is_shown(self, cell: StorageCell, others: Sequence[StorageCell]) -> bool:
        """Whether the memory behind `cell`, the result of a Python function, is also an input or another result."""
        return any(
            c.source is not None or c in others or (c in self._views and self._is_shown(c, others))
            for c in self._views[cell][1]
        )
