"""The words of a stretch for all sizes, as data: what `sized_code` makes of nodes, and a call needs no more.

Where an array has a size that follows from symbols, its shape has the text of that instead of a number.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from itertools import chain, islice
from typing import Any

import numpy as np

from jit.ir.sizes import SizeExpr, SizeSymbol

from ..arrays.arrays import address_of
from ..kernels.codegen import compile_nests
from ..kernels.sized import maker_of, sizes_in
from ..kernels.work import Work
from . import entry, pool
from .arena import ALIGNMENT
from .parts import QUICK, WAKING, marked, parts_of, table_of, threads_for
from .places import Layout
from .sized_words import SizedWords, compiled_sizes, names_in, texts

_MOST_TABLES = 64
"""The tables that a step keeps for other sizes."""
Shape = tuple[Any, ...]
"""Sizes or strides: numbers, and texts of expressions."""


class SizedShapes:
    """The layouts of what a stretch takes, and the shapes and dtypes of what it gives."""

    def __init__(
        self, layouts: Sequence[tuple[Any, Shape, Shape]], outputs: Sequence[tuple[Shape, Any]], names: Sequence[str]
    ) -> None:
        self.layouts = [Layout(*layout) for layout in layouts]
        self.outputs = list(outputs)
        self._open_inputs = [i for i, (_, *shapes) in enumerate(layouts) if any(map(_is_open, shapes))]
        self._open_outputs = [i for i, (shape, _) in enumerate(outputs) if _is_open(shape)]
        shapes: list[Shape] = [*chain.from_iterable(self.layouts[i][1:] for i in self._open_inputs)]
        shapes += [self.outputs[i][0] for i in self._open_outputs]
        self._numbers = compiled_sizes([*chain.from_iterable(shapes)], names)

    def at(self, sizes: Sequence[int]) -> tuple[list[Layout], list[tuple[tuple[int, ...], Any]]]:
        """The layouts of inputs, and shapes and dtypes of outputs, at some sizes."""
        numbers = iter(self._numbers(*sizes))
        layouts, outputs = self.layouts.copy(), self.outputs.copy()
        for index in self._open_inputs:
            dtype, shape, _ = layouts[index]
            layouts[index] = Layout(dtype, *(tuple(islice(numbers, len(shape))) for _ in range(2)))
        for index in self._open_outputs:
            shape, dtype = outputs[index]
            outputs[index] = tuple(islice(numbers, len(shape))), dtype
        return layouts, outputs

    def opened(self, names: Sequence[str]) -> entry.OpenShapes:
        """The shapes in which there are sizes, for an entry."""
        inputs = {index: (*self.layouts[index][1:], self.layouts[index].itemsize) for index in self._open_inputs}
        return entry.OpenShapes(inputs, self.outputs, names)


def as_texts(shape: Sequence[int]) -> Shape:
    """A shape with texts in the place of expressions."""
    return tuple(str(size) if type(size) is SizeExpr else size for size in shape)


def _is_open(shape: Shape) -> bool:
    return any(type(size) is str for size in shape)


@dataclass(eq=False)
class SizedStep:
    """A step, and where its words are."""

    at: int
    """The place of its words in the program."""
    operands: int
    """The number of its operands, without scratch memory."""
    grain: int
    long: int
    """The effort from which threads share the work; `grain` as in `Work`."""
    is_late: bool
    """Whether its work is made when sizes are known."""
    work: Work | None
    """The work, if something is still to be asked of it when sizes are known."""
    choices: tuple[int, int] | None
    """The range of words that decide on the function, if sizes do."""
    names: Sequence[str]
    """The names of the symbols in the sizes of the work, in the order in which their values are given."""
    write_part: Callable[[], SizedWords] | None
    """The geometry of a range of panels, whose ends are two more symbols; None if that has to be asked of the work."""

    _tables_of_parts: dict[tuple[int, ...], tuple[Any, list[Any]]] = field(default_factory=dict, init=False, repr=False)

    @cached_property
    def part(self) -> SizedWords:
        """The result of `write_part`."""
        assert self.write_part is not None
        return self.write_part()

    @cached_property
    def _late_work(self) -> Callable[[Sequence[int]], Work]:
        """Makes the work for the values of the symbols: its sizes are asked for in the order in which they stand."""
        make, numbers = maker_of(self.work), compiled_sizes(texts(sizes_in(self.work)), self.names)
        assert make is not None

        def made(sizes: Sequence[int]) -> Work:
            found = iter(numbers(*sizes))
            work: Work = make(lambda _: next(found))
            return work

        return made

    def finish(self, words: Any, panels: int, sizes: tuple[int, ...], kept: Any) -> int:
        """Make work that is late, and let threads share what is worth it; the bytes of scratch memory."""
        if self.is_late:
            return self._made(words, sizes, kept)
        parts = threads_for(self.long, self.operands, self.long, panels)
        if parts > 1:
            table, memory = self._shared(sizes, panels, parts)
            words[self.at + 1], words[self.at + 3] = address_of(table), parts
            kept += memory
        return int(words[self.at + 4]) * parts

    def _made(self, words: Any, sizes: tuple[int, ...], kept: Any) -> int:
        """Put in what late work is at these sizes."""
        work = self._late_work(sizes)
        nests = [use.nest for use in work.nests]
        work.bind(dict(zip(map(id, nests), compile_nests(nests), strict=True)) if nests else {})
        parts = threads_for(work.long, self.operands, work.effort, work.panels)
        table, memory = table_of(work, parts)
        kept += [*memory, work]
        words[self.at : self.at + 5] = (
            work.function(), address_of(table), words[self.at + 2], parts, work.scratch_bytes
        )  # fmt: skip
        return work.scratch_bytes * parts

    def _shared(self, sizes: tuple[int, ...], panels: int, parts: int) -> tuple[Any, list[Any]]:
        """The table of the geometries of the whole and of all parts."""
        if self.write_part is None:
            assert self.work is not None
            return table_of(self.work, parts)
        key = (panels, parts, *(sizes[at] for at in self._deciding))
        known = self._tables_of_parts.get(key)
        if known is None:
            if len(self._tables_of_parts) >= _MOST_TABLES:
                self._tables_of_parts.clear()
            ranges = [(0, panels), *parts_of(panels, self.grain, parts)]
            found = [self.part.at((*sizes, *ends)) for ends in ranges]
            table = np.array([*map(address_of, found)], np.int64)
            known = self._tables_of_parts[key] = table, [table, *found]
        return known

    @cached_property
    def _deciding(self) -> list[int]:
        """The numbers of the symbols in the geometries of parts, which often are those of weights, which are none."""
        used = names_in(self.part.texts)
        return [at for at, name in enumerate(self.names) if name in used]


@dataclass(eq=False)
class SlotWords:
    """The places of what the layout of the arena decides on; see `slots`."""

    sizes: int
    """The place of the first word that is the size of a temporary in a slot; there is nothing behind these."""
    starts: Any
    """The number of the first of these words for each slot."""
    words: Any
    """The places of words that count from the beginning of a slot."""
    numbers: Any
    """The slot for each of them."""
    scratch: Any
    """The places of words that are offsets of scratch memory."""

    def lay_out(self, words: Any) -> int:
        """Say where temporaries are; the bytes of the arena without scratch memory, which lies behind."""
        if not len(self.starts):
            return 0
        sizes = np.maximum.reduceat(words[self.sizes :], self.starts)
        ends = np.cumsum(-(-sizes // ALIGNMENT) * ALIGNMENT)
        words[self.words] += np.concatenate([[0], ends])[self.numbers]
        words[self.scratch] = ends[-1]
        return int(ends[-1])


@dataclass(eq=False)
class SizedRun:
    """A stretch as it runs at some sizes."""

    sizes: tuple[int, ...]
    shapes: SizedShapes
    program: Any
    """See Note [A program] in `entry`."""
    operands: int
    arena: int
    constants: list[int]
    """Addresses."""
    kept: list[Any]
    is_quick: bool
    """Whether a run is over before another thread could take turns."""

    @cached_property
    def _made(self) -> tuple[list[Layout], list[tuple[tuple[int, ...], Any]]]:
        return self.shapes.at(self.sizes)

    @property
    def layouts(self) -> list[Layout]:
        """The layouts of its inputs."""
        return self._made[0]

    @property
    def outputs(self) -> list[tuple[tuple[int, ...], Any]]:
        """The shape and dtype of each output."""
        return self._made[1]


@dataclass(eq=False)
class SizedTables:
    """A stretch for all sizes."""

    symbols: tuple[SizeSymbol, ...]
    """The symbols of which sizes are made, in the order in which their values are given."""
    shapes: SizedShapes
    words: SizedWords
    """The program, the tables and geometries behind it, and words that are only looked at."""
    pointers: Any
    """The places of words that are distances from the first one."""
    steps: Sequence[SizedStep]
    efforts: int
    """The place of the first word that is the effort of a step."""
    panels: int
    """The place of the first word that is the number of panels of a step."""
    touched: int
    """The place of the word that is the number of bytes that steps touch, or at least `QUICK`."""
    slots: SlotWords
    operands: int
    """The most operands that a step has."""
    constants: Sequence[Any]
    """Arrays that the steps read."""
    kept: Any = field(default=(), repr=False)
    """Objects whose addresses stand among the words."""

    def at(self, sizes: tuple[int, ...]) -> SizedRun:
        """The stretch as it runs at some sizes, one for each symbol."""
        words = self.words.at(sizes)
        words[self.pointers] += address_of(words)
        arena = self.slots.lay_out(words)
        for each in self._choosing:
            assert each.choices is not None and each.work is not None
            words[each.at] = each.work.chosen(tuple(words[slice(*each.choices)].tolist()))
        kept, threads, count = [words], pool.most_parts(), len(self.steps)
        efforts = words[self.efforts : self.efforts + count]
        shared = efforts >= self._long if threads > 1 else np.zeros(count, bool)
        scratch = max(words[self._scratch_sizes].tolist(), default=0)
        for index in np.flatnonzero(shared | self._late).tolist():
            panels = int(words[self.panels + index])
            scratch = max(scratch, self.steps[index].finish(words, panels, sizes, kept))
        words[self._parts] = marked(words[self._parts], np.where(self._late, WAKING, efforts / self._long))
        addresses = [address_of(array) for array in self.constants]
        is_quick = bool(words[self.touched] < QUICK)
        return SizedRun(sizes, self.shapes, words, self.operands, arena + scratch, addresses, kept, is_quick)

    @property
    def names(self) -> list[str]:
        """The names of the symbols."""
        return [symbol.name for symbol in self.symbols]

    @cached_property
    def _choosing(self) -> list[SizedStep]:
        return [step for step in self.steps if step.choices is not None]

    @cached_property
    def _scratch_sizes(self) -> Any:
        return np.array([step.at + 4 for step in self.steps], np.intp)

    @cached_property
    def _late(self) -> Any:
        return np.array([step.is_late for step in self.steps], bool)

    @cached_property
    def _parts(self) -> Any:
        """The places of the numbers of parts."""
        return np.array([step.at + 3 for step in self.steps], np.intp)

    @cached_property
    def _long(self) -> Any:
        return np.array([step.long for step in self.steps], np.int64)
