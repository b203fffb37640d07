"""Lists of launches as native code reads them: for all sizes, and at some; see Note [A list of launches].

Note [Launches for all sizes]
    The text of a kernel is the same for all sizes. What differs is what it is launched with: the number of its blocks,
    the numbers in its geometry, and where its operands lie. These are words that follow from the values of symbols, and
    one function evaluates them all (`plans.sized_words`). Behind them come those that no expression says: numbers for
    divisions, and the arena, in which temporaries whose lives do not meet share a slot (`plans.slots`).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, NamedTuple, Protocol

import numpy as np

from jit.ir import Node

from ..arrays.arrays import address_of
from ..gpu.schedule import DividerNumber, LaunchNumber, divider
from ..plans.sized_tables import SlotWords
from ..plans.sized_words import SizedWords

GEOMETRY = 3
"""The number of the word of a launch that is the address of its geometry."""


class OperandPlace(NamedTuple):
    """The place of an operand."""

    base: int
    """The number of its base."""
    offset: int
    """Bytes from there, or from the beginning of its slot; a size perhaps."""
    slot: int = -1
    """The slot of the arena that it lies in, if there are any."""


class Launched(Protocol):
    """The kernel or product that a launch queues: a `CudaKernel`, or a `CublasProduct`."""

    @property
    def name(self) -> str:
        """The name."""

    @property
    def handle(self) -> int:
        """The driver's handle of a kernel, or the address of a function that computes products."""

    @property
    def blocks(self) -> int:
        """The number of blocks."""

    @property
    def threads(self) -> int:
        """The threads of each; 0 of a product."""

    @property
    def numbers(self) -> Sequence[LaunchNumber]:
        """The numbers of its geometry, or the words of a product."""


class KernelLaunch(NamedTuple):
    """A launch of a list."""

    kernel: Launched
    errors: OperandPlace
    """The place of its errors."""
    operands: Sequence[OperandPlace]
    """The places of what it reads, then of what it writes."""
    node: Node
    """The node that it computes, for errors."""


class LaunchHead(NamedTuple):
    """The words of a launch before those of its errors."""

    function: int
    blocks: int
    threads: int
    geometry: int
    operands: int


@dataclass(eq=False)
class LaunchWords:
    """The words of a list at some sizes."""

    words: Any
    """The launches, a zero, and their geometries."""
    starts: Sequence[int]
    """The places of the launches."""
    most: int
    """The most operands of a launch."""
    arena: int
    """The bytes of the arena."""

    @cached_property
    def start(self) -> int:
        """The address of the first word."""
        return address_of(self.words)

    @property
    def heads(self) -> list[LaunchHead]:
        """The beginning of each launch."""
        return [LaunchHead(*self.words[at : at + len(LaunchHead._fields)].tolist()) for at in self.starts]


class LaunchNumbers:
    """Numbers of launches for all sizes, those for divisions among them.

    Args:
        numbers: What they are; those that are expressions are filled in.
        names: The symbols in them, in the order in which their values are given.
    """

    def __init__(self, numbers: Sequence[LaunchNumber], names: Sequence[str]) -> None:
        dividers = [(at, number) for at, number in enumerate(numbers) if isinstance(number, DividerNumber)]
        self._dividers = [(at, number.name) for at, number in dividers]
        plain = [number.divisor if isinstance(number, DividerNumber) else number for number in numbers]
        self._words = SizedWords.of(plain, names)

    def at(self, sizes: Sequence[int]) -> Any:
        """The numbers at some sizes, as an array of int64 of its own."""
        words = self._words.at(sizes)
        for at, name in self._dividers:
            times, shift = divider(int(words[at]))
            words[at] = times if name == "times" else shift
        return words


class LaunchTables:
    """The words of a list for all sizes.

    Args:
        launches: At least one.
        names: The symbols in it, in the order in which their values are given.
        arena: The bytes of the arena, if it has no slots.
        slots: The sizes of what lies in each slot.
    """

    def __init__(
        self, launches: Sequence[KernelLaunch], names: Sequence[str] = (), arena: int = 0,
        slots: Sequence[Sequence[int]] = (),
    ) -> None:  # fmt: skip
        self._arena = arena
        self._most = max(len(launch.operands) for launch in launches)
        words: list[LaunchNumber] = []
        in_slots: list[tuple[int, int]] = []
        self._starts = [_write(launch, words, in_slots) for launch in launches]
        words.append(0)
        for at, launch in zip(self._starts, launches, strict=True):
            words[at + GEOMETRY] = 8 * len(words)
            words += launch.kernel.numbers
        self._pointers = np.array([at + GEOMETRY for at in self._starts], np.intp)
        self._slots = _slot_words(slots, in_slots, words)
        self._numbers = LaunchNumbers(words, names)

    def at(self, sizes: Sequence[int] = ()) -> LaunchWords:
        """The words at some sizes, one for each symbol."""
        words = self._numbers.at(sizes)
        words[self._pointers] += address_of(words)
        return LaunchWords(words, self._starts, self._most, self._arena + self._slots.lay_out(words))


def _write(launch: KernelLaunch, words: list[LaunchNumber], in_slots: list[tuple[int, int]]) -> int:
    """Add the words of a launch, without the address of its geometry; returns their place."""
    kernel, at = launch.kernel, len(words)
    words += LaunchHead(kernel.handle, kernel.blocks, kernel.threads, 0, len(launch.operands))
    for place in (launch.errors, *launch.operands):
        if place.slot >= 0:
            in_slots.append((len(words) + 1, place.slot))
        words += [place.base, place.offset]
    return at


def _slot_words(
    slots: Sequence[Sequence[int]], in_slots: Sequence[tuple[int, int]], words: list[LaunchNumber]
) -> SlotWords:
    """The slots, once the sizes in them are words, too."""
    first = len(words)
    starts = np.cumsum([0, *map(len, slots)], dtype=np.intp)[:-1]
    words += [size for sizes in slots for size in sizes]
    places, numbers = np.array(in_slots, np.intp).reshape(-1, 2).T
    return SlotWords(first, starts, places, numbers, np.array([], np.intp))
