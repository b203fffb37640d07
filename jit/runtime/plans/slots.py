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


@estimating()
def slots_of(lowering: StretchLowering) -> Slots:
    """Slots for the temporaries of a stretch; one that dies where another of its size is made may hand its slot on."""
    slots, free, present = Slots(), list[int](), list[int]()
    starting, ending = _lives(lowering)
    for number, step in enumerate(lowering.steps):
        handed: set[int] = set()
        dying = [b for i in step.reusable if (b := step.operands[i].block) in ending.get(number, ())]
        for block in starting.get(number, ()):
            heir = next((b for b in dying if hash(b.nbytes) == hash(block.nbytes) and b.nbytes == block.nbytes), None)
            if heir is not None:
                dying.remove(heir)
                slot = slots.numbers[heir]
                handed.add(slot)
            else:
                slot = _chosen(free, present, int(block.nbytes))
            slots.numbers[block] = slot
            _grow(slots, present, slot, block.nbytes)
        over = [b for b in ending.get(number, ()) if slots.numbers[b] not in handed or b.first == number]
        free += [slots.numbers[block] for block in over]
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


def _chosen(free: list[int], present: list[int], wanted: int) -> int:
    """The free slot whose size is nearest to what is wanted; a new one if there is none."""
    if not free:
        return len(present)
    slot = min(free, key=lambda number: abs(present[number] - wanted))
    free.remove(slot)
    return slot


def _grow(slots: Slots, present: list[int], slot: int, nbytes: int) -> None:
    if slot == len(present):
        present.append(0)
        slots.sizes.append({})
    present[slot] = max(present[slot], int(nbytes))
    slots.sizes[slot][nbytes] = None
