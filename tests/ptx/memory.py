"""Memory as a kernel sees it: bytes in allocations, of which each knows whether it was written, and by whom.

`Memory` is what the host sees, too: it allocates, and gives views back. Shared and local memory are `Storage` in
several copies, one for each block or thread. `traffic` says who has been where.
"""

from __future__ import annotations

import bisect
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np

from .arithmetic import Array
from .findings import Misaligned, NeverWritten, OutOfBounds

WINDOWS = {"global": 0, "const": 0, "shared": 1 << 57, "local": 1 << 58, "param": 1 << 59}
"""What the generic address of a variable exceeds the address in its space by."""
PRIVATE = 1 << 32
"""Where the parameters of calls begin in the parameter space of an entry, behind its own."""
FIRST = 0x7F00_0000_0000
"""The first address that is given out."""
PAGE = 256
"""Allocations begin at multiples of this, and at least as many bytes lie between two of them."""


class Storage:
    """Bytes in equal copies, at multiples of `pitch`; `written` is 255 where they have a value, None if all have."""

    is_global = False
    """Whether all threads see it."""

    def __init__(self, size: int, copies: int = 1, written: bool = False) -> None:
        self.size, self.pitch = size, -(-max(size, 1) // 16) * 16
        self.bytes = np.zeros(self.pitch * copies, np.uint8)
        self.written = None if written else np.zeros(len(self.bytes), np.uint8)

    def load(self, places: Array, width: int) -> Array:
        """The words at these bytes; NeverWritten if one of them has no value."""
        index = places // width
        if self.written is not None:
            known = ~self.written.view(f"u{width}")[index] == 0
            if not known.all():
                raise NeverWritten("a read of bytes that were never written", int(np.argmin(known)))
        return self.bytes.view(f"u{width}")[index]

    def store(self, places: Array, words: Array) -> None:
        """Write words; of several to one place the last one stays."""
        index = places // words.dtype.itemsize
        self.bytes.view(words.dtype)[index] = words
        if self.written is not None:
            self.written.view(words.dtype)[index] = np.invert(words.dtype.type(0))


class Piece(NamedTuple):
    """Those lanes (None for all) of an access that go to one storage, and the bytes there."""

    storage: Storage
    places: Array
    lanes: Array | None


@dataclass(frozen=True)
class Allocation:
    """A range of global memory."""

    address: int
    storage: Storage
    dtype: Any
    shape: tuple[int, ...]
    name: str = ""

    @property
    def array(self) -> Array:
        """A view of the bytes as the array that they were allocated for."""
        return self.storage.bytes[: self.storage.size].view(self.dtype).reshape(self.shape)


class Memory:
    """Global memory; anything between two allocations is out of bounds.

    >>> memory = Memory()
    >>> address = memory.allocate(np.arange(3, dtype=np.float32))
    >>> memory.view(address)
    array([0., 1., 2.], dtype=float32)
    """

    def __init__(self) -> None:
        self._bases: list[int] = []
        self._allocations: list[Allocation] = []
        self._next = FIRST

    def allocate(self, array: Array, name: str = "") -> int:
        """The address of a copy of an array."""
        address = self._place(array.nbytes, array.dtype, array.shape, True, name)
        self.view(address)[...] = array
        return address

    def reserve(self, shape: int | tuple[int, ...], dtype: Any = np.uint8, name: str = "") -> int:
        """The address of an array that nobody has written yet."""
        shape = (shape,) if isinstance(shape, int) else shape
        return self._place(int(np.prod(shape)) * np.dtype(dtype).itemsize, np.dtype(dtype), shape, False, name)

    def _place(self, size: int, dtype: Any, shape: tuple[int, ...], written: bool, name: str) -> int:
        address = self._next
        self._next = -(-(address + size + PAGE) // PAGE) * PAGE
        storage = Storage(size, written=written)
        storage.is_global = True
        self._bases.append(address)
        self._allocations.append(Allocation(address, storage, dtype, shape, name))
        return address

    def free(self, address: int) -> None:
        """Give an allocation back; accesses to it are out of bounds from now on, since no address is given twice."""
        if address not in self._bases:
            raise KeyError(f"nothing was allocated at {address:#x}")
        place = self._bases.index(address)
        del self._bases[place], self._allocations[place]

    def allocation(self, address: int) -> Allocation | None:
        """The allocation that holds a byte."""
        place = bisect.bisect_right(self._bases, address) - 1
        found = self._allocations[place] if place >= 0 else None
        return found if found and address - found.address < max(found.storage.size, 1) else None

    def view(self, address: int) -> Array:
        """The array at the address that `allocate` or `reserve` gave; writes to it are seen by kernels."""
        found = self.allocation(address)
        if found is None or found.address != address:
            raise KeyError(f"nothing was allocated at {address:#x}")
        return found.array

    def write(self, address: int, data: bytes | Array) -> None:
        """Copy bytes from the host to any address."""
        raw = np.frombuffer(data, np.uint8) if isinstance(data, bytes) else data.reshape(-1).view(np.uint8)
        storage, start = self._range(address, len(raw))
        storage.bytes[start : start + len(raw)] = raw
        if storage.written is not None:
            storage.written[start : start + len(raw)] = 255

    def read(self, address: int, size: int, written: bool = False) -> bytes:
        """Copy bytes from any address to the host; NeverWritten if `written` is asked for and one is not."""
        storage, start = self._range(address, size)
        if written and storage.written is not None and not storage.written[start : start + size].all():
            missing = int(np.argmin(storage.written[start : start + size]))
            raise NeverWritten(f"byte {missing} of {size} was never written", address=address + missing)
        return storage.bytes[start : start + size].tobytes()

    def _range(self, address: int, size: int) -> tuple[Storage, int]:
        found = self.allocation(address)
        if found is None or address + size > found.address + found.storage.size:
            raise OutOfBounds(f"a copy of {size} bytes", address=address)
        return found.storage, address - found.address

    def _missed(self, address: int, width: int) -> str:
        """An access out of bounds by the allocation that lies before it."""
        place = bisect.bisect_right(self._bases, address) - 1
        if place < 0:
            return f"an access of {width} bytes before all allocations"
        before = self._allocations[place]
        behind = address + width - before.address - before.storage.size
        return f"an access of {width} bytes that ends {behind} bytes behind {before.name or 'an allocation'}"

    def pieces(self, addresses: Array, width: int) -> Iterator[Piece]:
        """An access of many lanes by allocations; OutOfBounds for a lane that misses them all."""
        left = np.arange(len(addresses))
        while len(left):
            own = addresses if len(left) == len(addresses) else addresses[left]
            found = self.allocation(int(own[0]))
            if found is None:
                raise OutOfBounds(self._missed(int(own[0]), width), int(left[0]), int(own[0]))
            places = own.astype(np.int64) - found.address
            inside = (places >= 0) & (places <= found.storage.size - width)
            if not inside[0]:
                raise OutOfBounds(self._missed(int(own[0]), width), int(left[0]), int(own[0]))
            if inside.all():
                yield Piece(found.storage, places, None if len(left) == len(addresses) else left)
                return
            yield Piece(found.storage, places[inside], left[inside])
            left = left[~inside]


def check_alignment(addresses: Array, width: int) -> None:
    """Misaligned if an address is no multiple of a power of two."""
    astray = addresses & addresses.dtype.type(width - 1)
    if astray.any():
        lane = int(np.argmax(astray != 0))
        raise Misaligned(f"an access of {width} bytes at no multiple of {width}", lane, int(addresses[lane]))


def private_piece(storage: Storage, copies: Array, addresses: Array, width: int) -> Piece:
    """An access to storage of which every lane has the copy that `copies` says."""
    places = addresses.astype(np.int64)
    outside = (places < 0) | (places > storage.size - width)
    if outside.any():
        lane = int(np.argmax(outside))
        message = f"an access of {width} bytes at {int(places[lane])} of {storage.size} bytes of shared or local memory"
        raise OutOfBounds(message, lane, int(addresses[lane]))
    return Piece(storage, copies * storage.pitch + places, None)
