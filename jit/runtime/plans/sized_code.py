"""A stretch compiled once for all sizes: what depends on them is evaluated when sizes come that have not come before.

What is made here is data (`sized_tables`), which the cache on disk keeps.

Note [Plans for symbols]
    The lowering of a stretch computes with sizes as they are (`jit.ir.sizes`), so offsets, strides and extents come out
    as expressions of the symbols:

        %1 : Float(n, 64) = prim::FusionGroup(%x)        [kernel, table, 2, 1, 0,  input 0, 0,  arena, 0]
        %2 : Float(n, 8) = aten::mm(%1, %w)              [gemm, table, 3, 1, 0,  arena, 0, ...]    m = 8, n = n, k = 64

    Most of these words never change; the others are filled in by one function, for all steps at once (`sized_words`).
    Temporaries whose lives do not meet share a slot of the arena, which is as large as the largest of them at the sizes
    of a call. Work that is cut into tiles, or whose tables have as many rows as an image, is made anew for the numbers,
    as in a plan for fixed sizes (`Work.is_late`).
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from typing import Any

import numpy as np

from jit.ir.sizes import SizeSymbol, any_symbolic

from ..arrays.programs import locate
from ..kernels.codegen import check_status
from ..kernels.sized import sizes_in
from ..kernels.work import Work
from .parts import QUICK
from .places import Layout, Step, Stretch
from .sized_tables import SizedShapes, SizedStep, SizedTables, SlotWords, as_texts
from .sized_words import SizedWords
from .slots import Slots, slots_of
from .steps import StretchLowering
from .stretch_code import base_of, kernels_of_steps, outputs_of, touched_by

_FIRST, _LAST = SizeSymbol("first", 0), SizeSymbol("last", 0)
"""The range of panels that a part of some work has."""


class SizedCode:
    """A stretch compiled for layouts that speak of sizes; StepDeclined names a node that has no code.

    To be made in a block in which sizes are decided, see `jit.ir.sizes.deciding`.

    Args:
        stretch: The nodes.
        layouts: The layouts of its inputs.
        symbols: Those of which sizes are made, in the order in which their values are given.
    """

    def __init__(self, stretch: Stretch, layouts: Sequence[Layout], symbols: Sequence[SizeSymbol]) -> None:
        self.lowering = StretchLowering(stretch, layouts)
        self.slots: Slots = slots_of(self.lowering)
        self._stretch = stretch
        self._names = [symbol.name for symbol in symbols]
        steps = self.lowering.steps
        self._late = {id(step.work) for step in steps if step.work.is_late and sizes_in(step.work)}
        early = [step for step in steps if id(step.work) not in self._late]
        kernels = kernels_of_steps(early)
        for step in early:
            step.work.bind(kernels)
        self.tables = self._tables(tuple(symbols), layouts)

    def failed(self, status: int) -> None:
        """Raise the error that a step has returned."""
        number, error = divmod(status, 256)
        try:
            check_status(error)
        except Exception as raised:
            locate(raised, self.lowering.steps[number].node)
            raise

    # -- words -----------------------------------------------------------------------------------------------------

    def _tables(self, symbols: tuple[SizeSymbol, ...], layouts: Sequence[Layout]) -> SizedTables:
        """All words: the program, the tables and geometries behind it, and those that are only looked at."""
        steps, words = self.lowering.steps, list[Any]()
        arena = _ArenaPlaces()
        starts = [self._write_step(step, words, arena) for step in steps]
        words.append(0)
        pointers = self._write_tables(words, starts)
        choices = [self._write_choices(step, words) for step in steps]
        efforts, panels = len(words), len(words) + len(steps)
        words += [0 if self._is_late(step) else step.work.effort for step in steps]
        words += [0 if self._is_late(step) else step.work.panels for step in steps]
        words.append(touched_by(steps) if all(step.work.is_linear for step in steps) else QUICK)
        slots = arena.words_of(self.slots, words)
        outputs = [(as_texts(shape), dtype) for shape, dtype in outputs_of(self._stretch)]
        shapes = [(dtype, as_texts(shape), as_texts(strides)) for dtype, shape, strides in layouts]
        return SizedTables(
            symbols, SizedShapes(shapes, outputs, self._names), SizedWords.of(words, self._names),
            np.array(pointers, np.intp), [self._sized_step(*each) for each in zip(steps, starts, choices, strict=True)],
            efforts, panels, panels + len(steps), slots, max((len(step.operands) + 1 for step in steps), default=0),
            self.lowering.constants, self.lowering,
        )  # fmt: skip

    def _is_late(self, step: Step) -> bool:
        return id(step.work) in self._late

    def _write_step(self, step: Step, words: list[Any], arena: _ArenaPlaces) -> int:
        """The words of a step; returns their place."""
        is_late, at = self._is_late(step), len(words)
        scratch = 0 if is_late else step.work.scratch_bytes
        has_scratch = is_late or bool(scratch)
        function = 0 if is_late or any_symbolic(step.work.choices) else step.work.function()
        words += [function, 0, len(step.operands) + has_scratch, 1, scratch]
        for place in step.operands:
            if place.block.kind == "temporary":
                arena.in_slots.append((len(words) + 1, self.slots.numbers[place.block]))
            words += [base_of(place.block, self._stretch), place.start]
        if has_scratch:
            arena.scratch.append(len(words) + 1)
            words += [0, 0]
        return at

    def _write_tables(self, words: list[Any], starts: Sequence[int]) -> list[int]:
        """A table of one geometry for each step; the places of words that are distances from the first one."""
        pointers = []
        for step, at in zip(self.lowering.steps, starts, strict=True):
            if not self._is_late(step):
                words[at + 1] = 8 * len(words)
                pointers += [at + 1, len(words)]
                words += [8 * (len(words) + 1), *step.work.geometry()]
        return pointers

    def _write_choices(self, step: Step, words: list[Any]) -> tuple[int, int] | None:
        """The words that decide on a function; returns their range, if sizes are among them."""
        if self._is_late(step) or not any_symbolic(step.work.choices):
            return None
        start = len(words)
        words += step.work.choices
        return start, len(words)

    def _sized_step(self, step: Step, at: int, choices: tuple[int, int] | None) -> SizedStep:
        work, is_late = step.work, self._is_late(step)
        asked = is_late or work.is_late or choices is not None
        return SizedStep(
            at, len(step.operands), work.grain, work.long, is_late, work if asked else None, choices, self._names,
            None if work.is_late else partial(self._part, work),
        )  # fmt: skip

    def _part(self, work: Work) -> SizedWords:
        return SizedWords.of(work.geometry(_FIRST.size, _LAST.size), [*self._names, _FIRST.name, _LAST.name])


class _ArenaPlaces:
    """The places of words that the layout of the arena decides on."""

    def __init__(self) -> None:
        self.in_slots: list[tuple[int, int]] = []
        """The words that are offsets of temporaries, and the slots of these."""
        self.scratch: list[int] = []
        """The words that are offsets of scratch memory."""

    def words_of(self, slots: Slots, words: list[Any]) -> SlotWords:
        """The slots, once the sizes in them are words, too."""
        first = len(words)
        starts = np.cumsum([0, *map(len, slots.sizes)], dtype=np.intp)[:-1]
        words += [size for sizes in slots.sizes for size in sizes]
        places, numbers = np.array(self.in_slots, np.intp).reshape(-1, 2).T
        return SlotWords(first, starts, places, numbers, np.array(self.scratch, np.intp))
