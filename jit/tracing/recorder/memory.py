"""The memory that a trace knows: one cell per storage, and the tensors bound to it; see Note [Cells]."""

from __future__ import annotations

import threading
import weakref
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

from jit.autograd.nodes import SavedTensor, next_serial
from jit.eager.tensors import Storage, Tensor
from jit.eager.view_paths import ViewStep
from jit.ir import Value
from jit.ir.errors import TraceError

from ..surroundings.properties import contents_of
from ..surroundings.sharing import extent_of, overlap, place_and_extent, place_of
from .refusals import at_line

_BINDING = threading.Lock()
"""Held while a tensor's list of bindings is replaced: several threads may trace functions of the same parameters.

Blocks that hold it stand on one line, so that no interrupt comes between the end of the block and the release.
"""


@dataclass(eq=False, slots=True)
class StorageCell:
    """The content of a storage; see Note [Cells]."""

    root: Value
    geometry: tuple[Any, ...]
    """Array interface of the root tensor: (address, sizes, strides), to recognise other tensors on the same memory."""
    extent: tuple[int, int]
    """The addresses between which its elements lie."""
    epoch: int = 0
    source: Value | None = None
    """The hidden or visible input that the cell started as; None for memory made inside the trace."""
    tensor: Any = None
    """The root tensor, if it is an input; dropped when the recording is complete."""
    foreign: bool = False
    """Whether the memory of a constant belongs to an object outside, which would not see the writes of later calls."""


@dataclass(eq=False, slots=True)
class Counter:
    """The version counter of some cells, as a trace knows it; writes through `.data` have a counter of their own."""

    cells: list[StorageCell]
    """The cells, one list for all counters of this memory."""
    version: int
    """The storage's version after the last write that was recorded."""


@dataclass(eq=False, slots=True, weakref_slot=True)
class Binding:
    """One tensor in one trace."""

    memory: int
    """The identity of the memory that it belongs to."""
    cell: StorageCell
    path: tuple[ViewStep, ...]
    value: Value
    epoch: int
    counter: Counter


class CountedWrite(NamedTuple):
    """A write to memory that several version counters tell of."""

    cell: StorageCell
    storage: Storage
    """The storage whose counter has counted it."""
    serial: int
    """A number between those of the autograd nodes that were made before and after it."""


class TraceMemory:
    """The cells of one trace, and which tensors are bound to them."""

    def __init__(self) -> None:
        self.inputs: list[StorageCell] = []
        """The cells that came from outside."""
        self.writes: list[CountedWrite] = []
        """The writes that some counters do not tell of; see Note [Uncounted writes]."""
        self._has_other_counters = False
        """Whether there is memory that several version counters tell of."""
        self._counters: weakref.WeakKeyDictionary[Storage, Counter] = weakref.WeakKeyDictionary()
        self._bindings: list[Binding] = []
        self.originals: dict[Value, Any] = {}
        """The values that inputs held which the function has written to since, states of generators among them."""
        self._dirty: dict[StorageCell, None] = {}
        """Inputs that were written to, in order."""

    # -- who is who ----------------------------------------------------------------------------------------------

    def binding(self, tensor: Tensor | SavedTensor) -> Binding | None:
        """The binding of `tensor` in this trace; references of dead traces are dropped on the way."""
        if tensor._bindings is None:
            return None
        found, dead = None, False
        for reference in tensor._bindings:
            binding = reference()
            if binding is None:
                dead = True
            elif binding.memory == id(self):
                found = binding
        if dead:
            with _BINDING: tensor._bindings = tuple([r for r in tensor._bindings or () if r()]) or None  # fmt: skip  # noqa: E701
        return found

    def known(self, tensor: Tensor) -> Binding | None:
        """The binding of a tensor that the trace knows, or that is another object for memory made inside of it."""
        return self.binding(tensor) or self._recognised(tensor)

    def _recognised(self, tensor: Tensor) -> Binding | None:
        inside = [cell for cell in self.cells_of(tensor._storage) if cell.source is None]
        if not inside:
            return None
        place = place_of(tensor)
        for cell in inside:
            if cell.geometry == place:
                return self.bind(tensor, cell, (), cell.root)
        raise TraceError(
            f"{at_line()}a tensor shares memory with one made in the traced function in a way that was not recorded; "
            "clone it"
        )

    def has_met(self, storage: Storage) -> bool:
        """Whether some tensor of this storage is known."""
        return storage in self._counters

    def cells_of(self, storage: Storage) -> Sequence[StorageCell]:
        """The cells that lie in the memory of a storage."""
        counter = self._counters.get(storage)
        return () if counter is None else counter.cells

    def bind(self, tensor: Tensor, cell: StorageCell, path: tuple[ViewStep, ...], value: Value) -> Binding:
        """Let `value` be what `tensor` holds now."""
        return self._bind(tensor, cell, path, value, self._counters[tensor._storage])

    def bind_view(self, tensor: Tensor, source: Binding, path: tuple[ViewStep, ...], value: Value) -> Binding:
        """Let `value` be what `tensor` holds now, a view of the tensor that `source` binds."""
        return self._bind(tensor, source.cell, path, value, source.counter)

    def _bind(
        self, tensor: Tensor, cell: StorageCell, path: tuple[ViewStep, ...], value: Value, counter: Counter
    ) -> Binding:  # fmt: skip
        old = self.binding(tensor)
        if old is not None:
            old.cell, old.path, old.value, old.epoch, old.counter = cell, path, value, cell.epoch, counter
            return old
        binding = Binding(id(self), cell, path, value, cell.epoch, counter)
        self._bindings.append(binding)
        with _BINDING: tensor._bindings = (*(tensor._bindings or ()), weakref.ref(binding))  # fmt: skip  # noqa: E701
        return binding

    def bind_again(self, tensor: Tensor, known: Tensor) -> None:
        """Let `tensor` be what `known` is, perhaps with a version counter of its own."""
        binding = self.binding(known)
        assert binding is not None
        if tensor._storage not in self._counters:
            self._counters[tensor._storage] = Counter(binding.counter.cells, tensor._storage.version)
            self._has_other_counters = True
        self.bind(tensor, binding.cell, binding.path, binding.value)

    def bind_root(self, tensor: Tensor, value: Value, source: Value | None = None, foreign: bool = False) -> Binding:
        """Let `value` be the root of `tensor`'s storage."""
        owner = tensor if source is not None else None
        place, extent = place_and_extent(tensor._array)
        cell = StorageCell(value, place, extent, 0, source, owner, foreign)
        counter = self._counters.setdefault(tensor._storage, Counter([], tensor._storage.version))
        counter.cells.append(cell)
        if source is not None:
            self.inputs.append(cell)
        return self._bind(tensor, cell, (), value, counter)

    # -- writes --------------------------------------------------------------------------------------------------

    def roots(self) -> dict[StorageCell, Value]:
        """The value that each input holds now."""
        return {cell: cell.root for cell in self.inputs}

    def is_shared(self, cell: StorageCell, storage: Storage) -> bool:
        """Whether other inputs, or other cells of its own storage, lie in the same memory as a cell."""
        neighbours = {*self.inputs, *self.cells_of(storage)} - {cell}
        return any(overlap(other.extent, cell.extent) for other in neighbours)

    def is_written(self, array: Any) -> bool:
        """Whether an input that was written to has memory in common with an array."""
        extent = extent_of(array)
        return any(overlap(cell.extent, extent) for cell in self._dirty)

    def keep_original(self, cell: StorageCell) -> None:
        """Keep what a cell holds if it is an input, since it will be written to."""
        if cell.source is not None and cell.source not in self.originals:
            self.originals[cell.source] = cell.tensor._array.copy()

    def original(self, owner: Any, value: Value) -> Any:
        """The value that an input held before the function ran: an array or a RandomState."""
        if value in self.originals:
            return self.originals[value]
        return contents_of(owner)

    def note_write(self, cell: StorageCell, storage: Storage) -> None:
        """Note that a write, counted by `storage`, has given a cell another root."""
        cell.epoch += 1
        if self._has_other_counters:
            self.writes.append(CountedWrite(cell, storage, next_serial()))
        if cell.source is not None:
            self._dirty[cell] = None

    def note_version(self, storage: Storage) -> None:
        """Note that the trace knows of every write to this storage so far."""
        counter = self._counters.get(storage)
        if counter is not None:
            counter.version = storage.version

    def updates(self) -> list[tuple[StorageCell, Value]]:
        """Inputs that hold another value than they came with."""
        return [
            (cell, cell.root)
            for cell in sorted(self._dirty, key=lambda c: c.source.name if c.source else "")
            if cell.root is not cell.source
        ]

    def forget(self) -> None:
        """Let go of the memory of the call that was recorded."""
        self.originals.clear()
        for cell in self.inputs:
            cell.tensor = None
