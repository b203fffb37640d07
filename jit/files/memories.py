"""The memory of the storages in a file: read once each, on the device that takes the place of theirs."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from jit.eager.tensors import Tensor, tensor_of
from jit.ir.devices import resolve
from jit.ir.dtypes import DType
from jit.ir.errors import UsageError
from jit.runtime.arrays.arrays import ViewLayout, laid_out
from jit.runtime.arrays.libraries import ArrayLibrary, library_of, library_on

from ..artifacts.relocating import Relocation
from .faults import FileError
from .rebuilding import StorageKind


class Memories:
    """The storages of a file by key.

    Args:
        read: The function that reads the bytes of one, given its key, its kind and its number of elements.
        relocation: The devices that take the place of those in the file.
        swapped: Whether the file's numbers are of the other byte order.
    """

    def __init__(self, read: Callable[[str, StorageKind, int], Any], relocation: Relocation, swapped: bool) -> None:
        self._read, self._relocation, self._swapped = read, relocation, swapped
        self._known: dict[str, Tensor] = {}
        self._libraries: dict[str, ArrayLibrary] = {}

    def find(self, kind: StorageKind, key: str, location: str, count: int, part: Any) -> Tensor:
        """The memory of a storage, or a part of it, as a tensor of one dim.

        Args:
            kind: What its elements are.
            key: Its name in the file.
            location: The device on which it lay.
            count: Its number of elements.
            part: None, or the name, offset and size of a part, which only old files have.

        Raises:
            FileError: The file does not hold as much, or not for this device.
        """
        if key not in self._known:
            data = self._read(key, kind, count)
            if data.size != count * kind.dtype.itemsize:
                raise FileError(f"storage {key[:40]!r} in it has {data.size} bytes and not {count} {kind.dtype.name}")
            self._known[key] = self._placed(data, kind.dtype, location)
        whole = _seen_as(self._known[key], kind.dtype)
        return whole if part is None else _part(whole, part)

    def _placed(self, data: Any, dtype: DType, location: str) -> Tensor:
        width = dtype.itemsize // (2 if dtype.is_complex else 1)
        if self._swapped and width > 1:
            data.view(f"u{width}").byteswap(inplace=True)
        if data.ctypes.data % dtype.itemsize:  # a mapped file may have it anywhere
            data = data.copy()
        library = self._library(location)
        with library.current():
            return tensor_of(library.taken(_of_dtype(data, dtype)))

    def _library(self, location: str) -> ArrayLibrary:
        if location not in self._libraries:
            try:
                self._libraries[location] = library_on(str(resolve(self._relocation(location))))
            except UsageError as error:
                raise FileError(
                    f"it holds tensors of the device {location[:40]!r} ({error}); pass map_location='cpu', or another "
                    "device"
                ) from error
        return self._libraries[location]


def _of_dtype(data: Any, dtype: DType) -> Any:
    """Bytes as elements of a dtype."""
    return laid_out(data, ViewLayout((data.size // dtype.itemsize,), (dtype.itemsize,), 0), dtype.numpy)


def _seen_as(memory: Tensor, dtype: DType) -> Tensor:
    """Memory as elements of another dtype, if it was asked for with another one before."""
    if memory.dtype is dtype:
        return memory
    held = memory._array
    count = held.size * held.itemsize // dtype.itemsize
    seen = library_of(held).math.strided(held, (count,), 0, (dtype.itemsize,), dtype.numpy)
    return tensor_of(seen, memory._storage)


def _part(whole: Tensor, part: Any) -> Tensor:
    """A part of a storage.

    Raises:
        FileError: It is not inside.
    """
    if not isinstance(part, tuple) or len(part) != 3 or any(type(n) is not int or n < 0 for n in part[1:]):
        raise FileError("its pickle has a part of a storage that is none")
    _, offset, count = part
    if offset + count > whole.numel():
        raise FileError("its pickle has a part of a storage that is not inside")
    return tensor_of(whole._array[offset : offset + count], whole._storage)


def is_swapped(order: str) -> bool:
    """Whether numbers of a byte order, "little" or "big", are to be swapped here.

    Raises:
        FileError: There is no such order.
    """
    if order not in ("little", "big"):
        raise FileError(f"its byte order is {order[:20]!r}, and not 'little' or 'big'")
    return order != ("little" if np.little_endian else "big")
