"""The memory behind tensors as a row of elements or bytes: `t.storage()`, `t.untyped_storage()`."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np

from jit.ir import dtypes
from jit.ir.dtypes import DType
from jit.ir.errors import DTypeError, UsageError
from jit.runtime.arrays.arrays import room_of

from .namespace import F
from .tensors import Tensor, tensor_of


class TypedStorage:
    """All memory that a tensor and its views share, as elements of one dtype.

    >>> import jit
    >>> jit.FloatStorage([1, 2]).tolist(), jit.ones(2).storage().type()
    ([1.0, 2.0], 'torch.FloatStorage')

    Args:
        data: Nothing, for an empty one; a number of elements; or the elements.
        dtype: The dtype of its elements, for this class itself.
        device: Where it lies.
    """

    dtype: DType = dtypes.float32

    def __init__(self, *data: Any, dtype: Any = None, device: Any = None) -> None:
        if dtype is not None:
            self.dtype = dtypes.as_dtype(dtype)
        self._hold(made_elements(self.dtype, device, *data))

    def _hold(self, owner: Tensor, first: int = 0, count: int | None = None) -> None:
        self._owner = owner.detach()
        """A tensor in it."""
        self._first, self._count = first, count
        """The place of its first element, and the number of elements if it does not have all of them."""

    @classmethod
    def of(cls, owner: Tensor, first: int = 0, count: int | None = None) -> Any:
        """The storage in which a tensor lies, or a stretch of it.

        Args:
            owner: The tensor.
            first: The place of the first element.
            count: The number of elements; all that follow if left out.
        """
        made = object.__new__(cls)
        made._hold(owner, first, count)
        return made

    @classmethod
    def from_buffer(cls, buffer: Any, byte_order: str = "native", **options: Any) -> Any:
        """A storage with the elements of a buffer.

        Args:
            buffer: Bytes, or whatever lends its memory as such.
            byte_order: "native", "little" or "big".
            options: `count` and `offset`, as numpy takes them.
        """
        order: Any = {"native": "=", "little": "<", "big": ">"}[byte_order]
        kind = cls.dtype.numpy.newbyteorder(order)
        read = np.frombuffer(buffer, kind, **options).astype(cls.dtype.numpy)
        return cls.of(tensor_of(read))

    @classmethod
    def from_file(cls, filename: Any, shared: bool = False, size: int = 0) -> Any:
        """A storage with what a file holds.

        Args:
            filename: The path of the file.
            shared: Whether what is written to the storage goes to the file, which is made longer where it must.
            size: The number of elements.
        """
        from .creation import from_file

        return cls.of(from_file(filename, shared, size, dtype=cls.dtype))

    def _elements(self) -> Tensor:
        """A vector of all of it, which shares memory with the tensor."""
        return F.as_strided(self._owner, [self.nbytes() // self._owner.element_size()], [1], self._first)

    def elements_as(self, dtype: DType) -> Tensor:
        """The elements as a vector of the dtype that it holds, or, of bytes, of any; DTypeError for another.

        Args:
            dtype: The dtype.
        """
        if dtype is not self.dtype:
            raise DTypeError(f"this storage holds {self.dtype}, not {dtype}; convert a tensor of it, or take untyped()")
        return self._elements()

    def data_ptr(self) -> int:
        """The address of the first byte."""
        return room_of(self._owner._defined())[0] + self._first * self._owner.element_size()

    def nbytes(self) -> int:
        """The number of bytes."""
        if self._count is not None:
            return self._count * self._owner.element_size()
        return room_of(self._owner._defined())[1]

    def size(self) -> int:
        """The number of elements."""
        return self.nbytes() // self.dtype.itemsize

    __len__ = size

    def element_size(self) -> int:
        """Bytes per element."""
        return self.dtype.itemsize

    def type(self, kind: Any = None) -> Any:
        """The kind, `torch.FloatStorage`; with an argument, a copy of another kind.

        Args:
            kind: The name of a kind.
        """
        if kind is None:
            return f"torch.{type(self).__name__}"
        return self._as(STORAGES[kind.rpartition(".")[2]].dtype)

    def _as(self, dtype: DType) -> Any:
        return self if dtype is self.dtype else kind_of(dtype).of(self._elements().to(dtype))

    def untyped(self) -> UntypedStorage:
        """The same memory as bytes."""
        made: UntypedStorage = UntypedStorage.of(self._owner, self._first, self._count)
        return made

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

    def cpu(self) -> Any:
        """The storage on the CPU."""
        return self if self._owner.is_cpu else type(self).of(self._elements().cpu())

    def clone(self) -> Any:
        """A copy."""
        return type(self).of(self._elements().clone())

    def copy_(self, source: Any, non_blocking: bool = False) -> Any:
        """Take over the elements of another storage.

        Args:
            source: The storage, of as many elements.
            non_blocking: Accepted; makes no difference.
        """
        self._elements().copy_(source._elements())
        return self

    def fill_(self, value: Any) -> Any:
        """Let all elements be one number."""
        self._elements().fill_(value)
        return self

    def tolist(self) -> Any:
        """The elements."""
        return self._elements().tolist()

    def __iter__(self) -> Iterator[Any]:
        return iter(self.tolist())

    def __getitem__(self, index: Any) -> Any:
        if not isinstance(index, slice):
            return self.tolist()[index]
        start, stop, step = index.indices(len(self))
        if step != 1:
            raise UsageError(f"a part of a storage has no gaps, but the step is {step}; take one of a tensor")
        return type(self).of(self._owner, self._first + start, max(0, stop - start))

    def __setitem__(self, index: Any, value: Any) -> None:
        self._elements()[index] = value

    def __eq__(self, other: object) -> bool:
        return isinstance(other, TypedStorage) and (self.data_ptr(), len(self)) == (other.data_ptr(), len(other))

    def __hash__(self) -> int:
        return self.data_ptr()

    def __deepcopy__(self, memo: dict[int, Any]) -> Any:
        from .deep_copies import deep_copy_of

        return type(self).of(deep_copy_of(self._owner, memo), self._first, self._count)

    def __sizeof__(self) -> int:
        return object.__sizeof__(self) + self.nbytes()

    def __repr__(self) -> str:
        return f"{self.tolist()}\n[{self.type()} of size {len(self)}]"


def made_elements(dtype: DType, device: Any, *data: Any) -> Tensor:
    """A vector of so many elements, or of these.

    Args:
        dtype: Their dtype.
        device: Where it lies.
        data: Nothing, a number, or the elements.
    """
    home = None if device is None else str(device)
    if not data or hasattr(data[0], "__index__"):
        return F.empty((int(data[0]) if data else 0,), dtype=dtype, device=home)
    from .creation import tensor

    return tensor(list(data[0]), dtype=dtype, device=device)


class UntypedStorage(TypedStorage):
    """All memory that a tensor and its views share, as bytes.

    Args:
        data: Nothing, a number of bytes, or the bytes.
        device: Where it lies.
    """

    dtype = dtypes.uint8

    def elements_as(self, dtype: DType) -> Tensor:
        """The elements as a vector of a dtype, which shares memory with the tensor.

        Args:
            dtype: The dtype.
        """
        held = self._elements()
        return tensor_of(held._array.view(dtype.numpy), held._storage)

    def tolist(self) -> list[int]:
        """The bytes."""
        return list(np.asarray(self._elements()._array).view(np.uint8).tolist())


STORAGES: dict[str, type[TypedStorage]] = {
    f"{dtype.text}Storage": type(f"{dtype.text}Storage", (TypedStorage,), {"dtype": dtype, "__module__": "torch"})
    for dtype in dtypes.KNOWN
}
"""The classes by their names, `FloatStorage` and so on."""
BFloat16Storage = STORAGES["BFloat16Storage"]
BoolStorage = STORAGES["BoolStorage"]
ByteStorage = STORAGES["ByteStorage"]
CharStorage = STORAGES["CharStorage"]
ComplexDoubleStorage = STORAGES["ComplexDoubleStorage"]
ComplexFloatStorage = STORAGES["ComplexFloatStorage"]
DoubleStorage = STORAGES["DoubleStorage"]
FloatStorage = STORAGES["FloatStorage"]
HalfStorage = STORAGES["HalfStorage"]
IntStorage = STORAGES["IntStorage"]
LongStorage = STORAGES["LongStorage"]
ShortStorage = STORAGES["ShortStorage"]
Storage = FloatStorage


def kind_of(dtype: DType) -> type[TypedStorage]:
    """The class of storages of a dtype."""
    return STORAGES[f"{dtype.text}Storage"]


def _cast(dtype: DType) -> Any:
    def cast(self: TypedStorage) -> Any:
        return self._as(dtype)

    cast.__doc__ = f"The storage with elements of {dtype}."
    return cast


for _name, _dtype in {
    "bool": dtypes.bool_, "byte": dtypes.uint8, "char": dtypes.int8, "short": dtypes.int16, "int": dtypes.int32,
    "long": dtypes.int64, "half": dtypes.float16, "bfloat16": dtypes.bfloat16, "float": dtypes.float32,
    "double": dtypes.float64, "complex_float": dtypes.complex64, "complex_double": dtypes.complex128,
}.items():  # fmt: skip
    setattr(TypedStorage, _name, _cast(_dtype))


def storage_of(self: Tensor) -> Any:
    """The memory that this tensor and its views share, as elements."""
    return kind_of(self.dtype).of(self)


def untyped_storage_of(self: Tensor) -> UntypedStorage:
    """The memory that this tensor and its views share, as bytes."""
    return UntypedStorage.of(self)


__all__ = ["TypedStorage", "UntypedStorage", "storage_of", "untyped_storage_of"]
