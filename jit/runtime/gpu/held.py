"""Rows that stay in shared memory from one step to the next.

Comes beside `gpu.schedule`, which asks whether there is room, and `gpu.memory`, which reads and writes.

Note [A row is read once]
    Several steps over one row would read it several times, and compute again what the CPU keeps. So what a later step
    needs stays in shared memory, if that has room for the block's rows: what is read from memory by more than one step,
    and kept values. A thread only ever reads what it has written itself, so nobody waits for anybody. A value takes the
    place of another that is not needed any more:

        step 1   x[i0, i1]             -> max          x is read from memory, and stays in slot 0
        step 2   exp(x[i0, i1] - max)  -> e, sum       x comes from slot 0, at every point before e is written there
        step 3   e / sum               -> out          e comes from slot 0
"""

from __future__ import annotations

from dataclasses import dataclass

from ..kernels.nest import Access, Keep, Local, Nest
from ..kernels.schedule import FIXED, Loops
from ..llvm.memory import kept_bytes

Holdable = Access | Local
"""A value that may stay: what a map reads, or what a step keeps."""


@dataclass(frozen=True)
class HeldRow:
    """The places of the values of a row: slots, one behind the other, each with room for the block's rows."""

    slots: tuple[int, ...]
    """The bytes of an element of each slot."""
    places: dict[Holdable, int]
    """The slot of each value."""

    @property
    def bytes_of_point(self) -> int:
        """The bytes that a point of a row takes."""
        return sum(self.slots)


def held_row(nest: Nest, loops: Loops) -> HeldRow:
    """The values of a row that stay, and where."""
    slots: list[int] = []
    last_needed: list[int] = []
    places: dict[Holdable, int] = {}
    for value, (first, last, size) in sorted(_spans(nest, loops).items(), key=lambda item: item[1][0]):
        written_late = isinstance(value, Local)  # after all that the step reads at this point
        free = [i for i, step in enumerate(last_needed) if slots[i] == size and step < first + written_late]
        if not free:
            slots.append(size)
            last_needed.append(last)
        place = free[0] if free else len(slots) - 1
        places[value], last_needed[place] = place, last
    return HeldRow(tuple(slots), places)


def _spans(nest: Nest, loops: Loops) -> dict[Holdable, tuple[int, int, int]]:
    """The steps that first have and last need each value, and the bytes of an element."""
    found: dict[Holdable, tuple[int, int, int]] = {}
    for number, step in enumerate(nest.steps):
        if not step.inner:
            continue
        for operand in step.reads:
            if isinstance(operand, Access) and _comes_from_memory(nest, loops, operand):
                first = found.get(operand, (number,))[0]
                found[operand] = first, number, kept_bytes(nest.inputs[operand.buffer].dtype)
            elif isinstance(operand, Local) and operand in found:
                first, _, size = found[operand]
                found[operand] = first, number, size
        for result in step.results:
            if isinstance(result, Keep):
                found[Local(result.local)] = number, number, kept_bytes(result.dtype)
    return {value: span for value, span in found.items() if isinstance(value, Local) or span[0] < span[1]}


def _comes_from_memory(nest: Nest, loops: Loops, access: Access) -> bool:
    """Whether each point of a row has an element of its own, which no condition and no index of its own picks."""
    moves = loops.motion(nest.reads.index(access), loops.lane) != FIXED
    picked = any(loops.motion(nest.reads.index(index.access), loops.lane) != FIXED for index in access.gather)
    return moves and not access.within and not picked
