"""Slots: memory that temporaries share one after the other, where their sizes are expressions.

An arena (`arena`) cuts free memory to measure, for which it has to know sizes. A slot is as large as the largest
temporary in it, whatever the sizes are, so who shares it follows from lifetimes alone; sizes at hand only say who had
better share.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from jit.ir.sizes import estimating

from .places import MemoryBlock
from .steps import StretchLowering


@dataclass(eq=False)
class Slots:
    """Slots of the temporaries of a stretch."""

    sizes: list[dict[int, None]] = field(default_factory=list)
    """The bytes of the temporaries in each slot: ints and expressions, each once."""
    numbers: dict[MemoryBlock, int] = field(default_factory=dict)
    """The slot of each temporary."""


class SlotArena:
    """Slots that are taken and given back."""

    def __init__(self) -> None:
        self.sizes: list[dict[int, None]] = []
        """The bytes of the temporaries in each slot, as in `Slots`."""
        self._free: list[int] = []
        self._present: list[int] = []

    @estimating()
    def take(self, nbytes: int) -> int:
        """The number of the free slot whose size is nearest to `nbytes`; of a new one if there is none."""
        slot = min(self._free, key=lambda number: abs(self._present[number] - nbytes), default=len(self._present))
        if slot == len(self._present):
            self._present.append(0)
            self.sizes.append({})
        else:
            self._free.remove(slot)
        self.grow(slot, nbytes)
        return slot

    @estimating()
    def grow(self, slot: int, nbytes: int) -> None:
        """Let a slot have room for a temporary of `nbytes`."""
        self._present[slot] = max(self._present[slot], int(nbytes))
        self.sizes[slot][nbytes] = None

    def give(self, slot: int) -> None:
        """A slot is free again."""
        self._free.append(slot)


@estimating()
def slots_of(lowering: StretchLowering) -> Slots:
    """Slots for the temporaries of a stretch; one that dies where another of its size is made may hand its slot on.

    Scratch memory, which ends where it begins, gets none from others: a step fills it before it has read its operands.
    """
    arena = SlotArena()
    slots = Slots(arena.sizes)
    starting, ending = _lives(lowering)
    for number, step in enumerate(lowering.steps):
        handed: set[int] = set()
        dying = [b for i in step.reusable if (b := step.operands[i].block) in ending.get(number, ())]
        for block in starting.get(number, ()):
            alike = (b for b in dying if hash(b.nbytes) == hash(block.nbytes) and b.nbytes == block.nbytes)
            heir = next(alike, None) if block.last > number else None
            if heir is not None:
                dying.remove(heir)
                slot = slots.numbers[heir]
                handed.add(slot)
                arena.grow(slot, block.nbytes)
            else:
                slot = arena.take(block.nbytes)
            slots.numbers[block] = slot
        for block in ending.get(number, ()):
            if slots.numbers[block] not in handed or block.first == number:
                arena.give(slots.numbers[block])
    return slots


def _lives(lowering: StretchLowering) -> tuple[Mapping[int, list[MemoryBlock]], Mapping[int, list[MemoryBlock]]]:
    """The temporaries that begin and end at each step."""
    starting: dict[int, list[MemoryBlock]] = {}
    ending: dict[int, list[MemoryBlock]] = {}
    for block in lowering.blocks:
        if block.kind == "temporary" and block.first >= 0:
            starting.setdefault(block.first, []).append(block)
            ending.setdefault(block.last, []).append(block)
    return starting, ending
