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
        """Cells of what they have returned that is memory of their arguments -> who, and the cells of these."""

    def note_view(self, name: str, made: StorageCell, arguments: list[StorageCell]) -> None:
        """The function `name` has returned memory of its arguments."""
        self._views[made] = name, arguments

    def shown(self, cells: Sequence[StorageCell]) -> Iterator[str]:
        """The functions that have made a view of memory that the caller has, or gets by another result.

        Args:
            cells: The memory of what the traced function returns.
        """
        for cell in dict.fromkeys(cells):
            if cell in self._views and self._is_shown(cell, [c for c in cells if c is not cell]):
                yield self._views[cell][0]

    def _is_shown(self, cell: StorageCell, others: Sequence[StorageCell]) -> bool:
        """Whether the memory that a Python function has returned as `cell` is also anybody else's."""
        return any(
            c.source is not None or c in others or (c in self._views and self._is_shown(c, others))
            for c in self._views[cell][1]
        )
