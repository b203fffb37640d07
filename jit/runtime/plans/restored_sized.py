"""Reads stretches for many sizes that `sized_image` has written: a part of `restored`."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from jit.ir import dtypes
from jit.ir.errors import ParseError
from jit.ir.sizes import SizeSymbol

from .sized_calls import SizedCalls
from .sized_tables import SizedShapes, SizedStep, SizedTables, SlotWords
from .sized_words import SizedWords, checked

_DTYPES = {dtype.name: dtype for dtype in dtypes.KNOWN}


class RestoredSized:
    """A native call for many sizes that another process has compiled.

    Args:
        facts: What `sized_facts` says.
        memory: The block.
        unplain: Reads what `sized_image.ImageWriter.plain` has written.
        local: Makes the `SizedNative` that this one stands for.
    """

    def __init__(
        self, facts: dict[str, Any], memory: Any, unplain: Callable[[Any], Any], local: Callable[[], Any]
    ) -> None:
        self.reads: list[int] = facts["reads"]
        self.results: list[int] = facts["results"]
        tables = _TablesReader(facts["symbols"], memory, unplain).tables(facts)
        self.call = SizedCalls(tables, lambda status: local().code.failed(status), lambda sizes: local().fixed(sizes))
        """The outputs, given the values of the symbols and the inputs."""


class _TablesReader:
    """Reads tables that speak of certain symbols."""

    def __init__(self, names: Sequence[str], memory: Any, unplain: Callable[[Any], Any]) -> None:
        if not all(name.isidentifier() for name in names):
            raise ParseError(f"a size is called {names}")
        self._names = names
        self._memory = memory
        self._unplain = unplain

    def tables(self, facts: dict[str, Any]) -> SizedTables:
        """The tables of these facts."""
        layouts = [
            (_DTYPES[name].numpy, *(tuple(self._checked(sizes)) for sizes in shapes))
            for name, *shapes in facts["layouts"]
        ]
        outputs = [(tuple(self._checked(shape)), _DTYPES[name].numpy) for name, shape in facts["outputs"]]
        first, *arrays = facts["slots"]
        return SizedTables(
            tuple(map(SizeSymbol, self._names)), SizedShapes(layouts, outputs, self._names),  # type: ignore[arg-type]
            self._words(facts["words"], self._names), self._numbers(facts["pointers"]),
            [self._step(*each) for each in facts["tables"]], facts["efforts"], facts["panels"], facts["touched"],
            SlotWords(first, *map(self._numbers, arrays)), facts["operands"],
            [self._memory[place:] for place in facts["constants"]], self._memory,
        )  # fmt: skip

    def _checked(self, sizes: Sequence[Any]) -> Sequence[Any]:
        """A shape whose texts are sizes."""
        checked([size for size in sizes if type(size) is str], self._names)
        return sizes

    def _step(
        self, at: int, operands: int, grain: int, long: int, is_late: bool, choices: Any, work: Any, part: Any
    ) -> SizedStep:
        def write_part() -> SizedWords:
            return self._words(part, [*self._names, "first", "last"])

        return SizedStep(
            at, operands, grain, long, is_late, self._unplain(work), choices and tuple(choices),
            self._names, None if part is None else write_part,
        )  # fmt: skip

    def _words(self, facts: Sequence[Any], names: Sequence[str]) -> SizedWords:
        place, length, places, kinds, sizes = facts
        plain = self._numbers((place, length))
        return SizedWords(plain, self._numbers(places), self._numbers(kinds), checked(sizes, names), names)

    def _numbers(self, found: Sequence[int]) -> Any:
        place, length = found
        return self._memory[place : place + 8 * length].view(np.int64)
