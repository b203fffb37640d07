"""The memory behind tensors as a row of elements or bytes: `t.storage()`, `t.untyped_storage()`."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np

from jit.ir import dtypes
from jit.ir.dtypes import DType
from jit.runtime.arrays.arrays import room_of

from .namespace import F
from .tensors import Tensor


class TypedStorage:
    """All memory that a tensor and its views share, as elements of one dtype.

    Args:
        owner: A tensor in it.
        dtype: The dtype of its elements.
    """

    def __init__(self, owner: Tensor, dtype: DType) -> None:
        self._owner, self.dtype = owner.detach(), dtype

    def _elements(self) -> Tensor:
        """A vector of all of it, which shares memory with the tensor."""
        return F.as_strided(self._owner, [self.nbytes() // self._owner.element_size()], [1], 0)

    def elements_as(self, dtype: DType) -> Tensor:
        """All of it as a vector of a dtype that it holds, or, of bytes, of any.

        Args:
            dtype: The dtype.
        """
        return self._elements()

    def data_ptr(self) -> int:
        """The address of the first byte."""
        return room_of(self._owner._defined())[0]

    def nbytes(self) -> int:
        """The number of bytes."""
        return room_of(self._owner._defined())[1]

    def size(self) -> int:
        """The number of elements."""
        return self.nbytes() // self.dtype.itemsize

    __len__ = size

    def element_size(self) -> int:
        """Bytes per element."""
        return self.dtype.itemsize

    def untyped(self) -> UntypedStorage:
        """The same memory as bytes."""
        return UntypedStorage(self._owner)

    @property
    def device(self) -> Any:
        """The device of the memory."""
        return self._owner.device

    @property
    def is_cuda(self) -> bool:
        """Whether it lies on a GPU."""
        return self._owner.is_cuda

    _cdata = property(data_ptr)
    """A number that tells storages apart."""

    def is_shared(self) -> bool:
        """Whether other processes see it: none does."""
        return False

    def tolist(self) -> Any:
        """The elements."""
        return self._elements().tolist()

    def __iter__(self) -> Iterator[Any]:
        return iter(self.tolist())

    def __getitem__(self, index: Any) -> Any:
        return self.tolist()[index]

    def __setitem__(self, index: Any, value: Any) -> None:
        self._elements()[index] = value

    def __eq__(self, other: object) -> bool:
        return isinstance(other, TypedStorage) and self.data_ptr() == other.data_ptr()

    def __hash__(self) -> int:
        return self.data_ptr()


class UntypedStorage(TypedStorage):
    """All memory that a tensor and its views share, as bytes.

    Args:
        owner: A tensor in it.
    """

    def __init__(self, owner: Tensor) -> None:
        super().__init__(owner, dtypes.uint8)

    def elements_as(self, dtype: DType) -> Tensor:
        """All of it as a vector of a dtype, which shares memory with the tensor.

        Args:
            dtype: The dtype.
        """
        return F.view(self._elements(), dtype)

    def tolist(self) -> list[int]:
        """The bytes."""
        return list(np.asarray(self._elements()._array).view(np.uint8).tolist())


def storage_of(self: Tensor) -> TypedStorage:
    """The memory that this tensor and its views share, as elements."""
    return TypedStorage(self, self.dtype)


def untyped_storage_of(self: Tensor) -> UntypedStorage:
    """The memory that this tensor and its views share, as bytes."""
    return UntypedStorage(self)


__all__ = ["TypedStorage", "UntypedStorage", "storage_of", "untyped_storage_of"]
