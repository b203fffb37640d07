"""Writes stretches for many sizes as plain data, for `restored_sized` to read: a part of `plan_image`.

Note [Sizes in a plan as data]
    The tables of such a stretch are data already (`sized_tables`). Words, and where which of them are, are arrays in
    the block; expressions are texts, which are looked at before they are compiled (`sized_words.checked`):

        words    0, 64, 3, 1, 0, ...    places [7, 9]    kinds [0, 1]    texts ["n", "64*n"]

    Work that is made for the sizes of a call, such as a convolution, and products whose function sizes decide on, are
    records of plain fields.
"""

from __future__ import annotations

from typing import Any, Protocol

import numpy as np

from jit.ir import dtypes

from .native import SizedNative
from .sized_tables import SizedStep, SizedTables
from .sized_words import SizedWords

_SLOT_WORDS = ("starts", "words", "numbers", "scratch")
"""The arrays of `SlotWords`, in the order in which it takes them."""


class ImageWriter(Protocol):
    """A block in the making."""

    def plain(self, thing: Any) -> Any:
        """A template or a record as JSON has it."""

    def words(self, arrays: Any, constants: Any) -> None:
        """Copy nested arrays into the block, the addresses among their words translated; and constants as they are."""

    def place(self, array: Any) -> int:
        """The place in the block of an array that was copied there."""

    def store(self, data: bytes) -> int:
        """Put data into the block; returns its place."""


def sized_facts(writer: ImageWriter, native: SizedNative) -> dict[str, Any]:
    """The facts that `RestoredSized` must know."""
    tables, steps = native.code.tables, native.code.lowering.steps
    early = [step.work for step, each in zip(steps, tables.steps, strict=True) if not each.is_late]
    parts = [_part(tables, number) for number in range(len(steps))]
    arrays = [words.plain for words in (tables.words, *parts) if words is not None]
    writer.words([[work.kept for work in early], arrays], tables.constants)
    return {
        "reads": native.reads, "results": native.results, "symbols": [writer.plain(s)[1] for s in tables.symbols],
        "layouts": [(dtypes.from_numpy(dtype).name, *shapes) for dtype, *shapes in tables.shapes.layouts],
        "outputs": [(dtypes.from_numpy(dtype).name, shape) for shape, dtype in tables.shapes.outputs],
        "words": _words_facts(writer, tables.words), "pointers": _stored(writer, tables.pointers),
        "tables": [_step_facts(writer, each, part) for each, part in zip(tables.steps, parts, strict=True)],
        "efforts": tables.efforts, "panels": tables.panels, "touched": tables.touched, "operands": tables.operands,
        "slots": [tables.slots.sizes, *(_stored(writer, getattr(tables.slots, name)) for name in _SLOT_WORDS)],
        "constants": list(map(writer.place, tables.constants)),
    }  # fmt: skip


def _part(tables: SizedTables, number: int) -> SizedWords | None:
    """The geometry of a part of a step, if it can be shared."""
    step, at, words = tables.steps[number], tables.panels + number, tables.words
    is_whole = words.plain[at] == 1 or (words.plain[at] == 0 and at not in words.places)
    return None if step.is_late or step.write_part is None or is_whole else step.part


def _words_facts(writer: ImageWriter, words: SizedWords) -> list[Any]:
    length = len(words.plain)
    return [writer.place(words.plain), length, _stored(writer, words.places), _stored(writer, words.kinds), words.texts]


def _step_facts(writer: ImageWriter, step: SizedStep, part: SizedWords | None) -> list[Any]:
    plain = [step.at, step.operands, step.grain, step.long, step.is_late, step.choices]
    return [*plain, writer.plain(step.work), None if part is None else _words_facts(writer, part)]


def _stored(writer: ImageWriter, numbers: Any) -> list[int]:
    """The place and the length of an array of numbers, none of which is an address."""
    return [writer.store(np.asarray(numbers, np.int64).tobytes()), len(numbers)]
