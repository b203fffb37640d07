"""Effects of a function - writes to memory, draws of random generators - noted so that it can run once more.

`noting()` takes notes while the function runs; `Effects.undone()` is the world as it was before, for a second run.
"""

from __future__ import annotations

import contextlib
import itertools
import weakref
from collections.abc import Iterator
from contextvars import ContextVar
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from jit.runtime.arrays.arrays import address_of

if TYPE_CHECKING:
    from jit.ir import RandomState

    from .generators import Generator
    from .tensors import Storage, Tensor

NOTES: ContextVar[Effects | None] = ContextVar("notes", default=None)
"""The active log of effects; None most of the time."""
REPLAYED: ContextVar[dict[Generator, RandomState] | None] = ContextVar("replayed", default=None)
"""The states of generators in a second run: what is drawn there moves no generator on."""

_runs = itertools.count(1)


def fresh_version() -> int:
    """A number from which the versions of a storage can be counted, and which is given out once."""
    return -next(_runs) << 32


@dataclass(slots=True)
class Region:
    """Some memory that was written to."""

    storage: weakref.ref[Storage]
    array: Any
    before: Any
    """A copy of the elements from before the first write."""


class Effects:
    """Notes of what a function has changed."""

    def __init__(self) -> None:
        self.outer = NOTES.get()
        self.regions: dict[Any, Region] = {}
        """The notes in the order of the first writes. Memory that nobody refers to any more is forgotten."""
        self.drawn: dict[Generator, RandomState] = {}
        """The states that generators had before."""

    def note_write(self, tensor: Tensor) -> None:
        """Note that `tensor` is about to be written to."""
        array, storage = tensor._array, tensor._storage
        key = (id(storage), address_of(array), array.shape, array.strides)
        if key not in self.regions:
            regions = self.regions
            alive = weakref.ref(storage, lambda _: regions.pop(key, None))
            self.regions[key] = Region(alive, array, array.copy())
        if self.outer is not None:
            self.outer.note_write(tensor)

    def note_draw(self, generator: Generator, state: RandomState) -> None:
        """Note that `generator`, which is at `state`, is about to draw."""
        self.drawn.setdefault(generator, state)
        if self.outer is not None:
            self.outer.note_draw(generator, state)

    def forget(self, storage: Storage) -> None:
        """Drop the notes on `storage`, which is a result rather than something changed."""
        for key in [key for key, region in self.regions.items() if region.storage() is storage]:
            del self.regions[key]

    @contextlib.contextmanager
    def undone(self, random: bool = True) -> Iterator[None]:
        """Within this block, memory and generators are as they were before the function ran; afterwards as now.

        Meanwhile storages count their versions from a number that is given out once, so what is saved in the block
        cannot be taken for what they hold afterwards. With `random` False, generators go on from where they are.
        """
        regions = list(self.regions.values())
        storages = {storage: storage.version for region in regions if (storage := region.storage()) is not None}
        now = [region.array.copy() for region in regions]
        for storage in storages:
            storage.version = fresh_version()
        for region in reversed(regions):
            region.array[...] = region.before
        notes, replayed = NOTES.set(None), REPLAYED.set(self._replayed() if random else REPLAYED.get())
        try:
            yield
        finally:
            NOTES.reset(notes)
            REPLAYED.reset(replayed)
            for region, kept in zip(regions, now, strict=True):
                region.array[...] = kept
            for storage, version in storages.items():
                storage.version = version

    def _replayed(self) -> dict[Generator, RandomState]:
        return {**(REPLAYED.get() or {}), **self.drawn}


@contextlib.contextmanager
def noting() -> Iterator[Effects]:
    """Note the effects of what runs within this block."""
    effects = Effects()
    token = NOTES.set(effects)
    try:
        yield effects
    finally:
        NOTES.reset(token)


def note_write(tensor: Tensor) -> None:
    """Note that `tensor` is about to be written to."""
    notes = NOTES.get()
    if notes is not None:
        notes.note_write(tensor)
