"""Functions that files of torch name: what they are called with makes tensors.

A pickle of torch holds no elements. It says `_rebuild_tensor_v2(storage, offset, size, stride, ...)`, where the storage
is a name of memory elsewhere in the file. Here that memory is a tensor of one dim, so the function takes a view of it,
after it has looked at every number.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

from jit.eager.namespace import F
from jit.eager.storages import TypedStorage
from jit.eager.tensors import Tensor, tensor_of
from jit.ir import layouts
from jit.ir.devices import META
from jit.ir.dtypes import ALL, DType, uint8
from jit.ir.errors import ShapeError
from jit.ir.layouts import TensorLayout
from jit.runtime.arrays.libraries import library_of
from jit.sparse.making import SparseCsrTensor, SparseTensor, sparse_coo_tensor, sparse_csr_tensor

from ..nn import Parameter
from .faults import FileError

_MOST_DIMS = 64


class StorageKind(NamedTuple):
    """A class of torch's for memory: `torch.FloatStorage`, which says what its elements are."""

    name: str
    dtype: DType

    def __reduce__(self) -> str:
        """The name under which a pickle finds this among the names of the module."""
        return self.name


STORAGES = {kind.name: kind for kind in (StorageKind(f"{dtype.text}Storage", dtype) for dtype in ALL)}
"""The kinds of storages by torch's names, which are those that graphs have for the elements."""
UNTYPED = StorageKind("UntypedStorage", uint8)
globals().update(STORAGES, UntypedStorage=UNTYPED)


def rebuild_tensor(
    storage: Any,
    offset: Any,
    size: Any,
    stride: Any,
    requires_grad: Any = False,
    hooks: Any = None,
    metadata: Any = None,
) -> Tensor:
    """A tensor in the memory of `storage`, a storage or a tensor of one dim.

    Args:
        storage: The memory.
        offset: The place of the first element, in elements.
        size: The sizes.
        stride: The distances of neighbours along each dim, in elements.
        requires_grad: Whether gradients are wanted.
        hooks: Hooks of backward, which no file can hold.
        metadata: Whether the elements are to be read as conjugates, or negated.

    Raises:
        FileError: The numbers do not describe a part of the memory.
    """
    storage = _vector_of(storage)
    if not isinstance(storage, Tensor) or storage.ndim != 1:
        raise FileError("a tensor in it has no storage")
    return _viewed(storage, storage.dtype, offset, size, stride, requires_grad, metadata)


def rebuild_tensor_of_dtype(
    storage: Any,
    offset: Any,
    size: Any,
    stride: Any,
    requires_grad: Any,
    hooks: Any,
    dtype: Any,
    metadata: Any = None,
) -> Tensor:
    """A tensor in memory that does not say what its elements are.

    Args:
        storage: The memory, as bytes.
        offset: As for `rebuild_tensor`, as are all but the next.
        size: The sizes.
        stride: The distances of neighbours.
        requires_grad: Whether gradients are wanted.
        hooks: Hooks of backward.
        dtype: What the elements are.
        metadata: How they are to be read.

    Raises:
        FileError: The numbers do not describe a part of the memory.
    """
    storage = _vector_of(storage)
    if not isinstance(storage, Tensor) or storage.ndim != 1 or not isinstance(dtype, DType):
        raise FileError("a tensor in it has no storage, or no dtype")
    return _viewed(storage, dtype, offset, size, stride, requires_grad, metadata)


def rebuild_without_elements(dtype: Any, size: Any, stride: Any, requires_grad: Any) -> Tensor:
    """A tensor on "meta", which has no elements and no storage.

    Args:
        dtype: The dtype that elements would have.
        size: The sizes.
        stride: The distances of neighbours.
        requires_grad: Whether gradients are wanted.

    Raises:
        FileError: The numbers are none.
    """
    if not isinstance(dtype, DType) or not _natural(size) or not _natural(stride) or len(size) != len(stride):
        raise FileError("a tensor without elements in it has no dtype, or sizes or strides that are no numbers")
    made = F.empty_strided(list(size), list(stride), dtype=dtype, device=META)
    return made.requires_grad_() if requires_grad else made


def rebuild_parameter(data: Any, requires_grad: Any, hooks: Any, state: Any = None) -> Parameter:
    """A parameter that shares the memory of a tensor.

    Args:
        data: The tensor.
        requires_grad: Whether gradients are wanted.
        hooks: Hooks of backward, which no file can hold.
        state: Attributes that somebody gave the parameter.

    Raises:
        FileError: `data` is no tensor.
    """
    if not isinstance(data, Tensor) or not data.defined:
        raise FileError("a parameter in it is made of what is no tensor")
    return with_attributes(Parameter(data, bool(requires_grad)), state)


def rebuild_parameter_with_state(data: Any, requires_grad: Any, hooks: Any, state: Any) -> Parameter:
    """`rebuild_parameter` of a parameter that has attributes.

    Args:
        data: The tensor.
        requires_grad: Whether gradients are wanted.
        hooks: Hooks of backward.
        state: The attributes.
    """
    return rebuild_parameter(data, requires_grad, hooks, state)


def layout_of(name: Any) -> TensorLayout:
    """The layout of a sparse tensor by its name, `torch.sparse_coo`.

    Raises:
        FileError: There are no tensors in that layout here.
    """
    for layout in (layouts.sparse_coo, layouts.sparse_csr):
        if name == f"torch.{layout.name}":
            return layout
    raise FileError(f"a tensor in it has the layout {name!r}; save its to_sparse()")


def rebuild_sparse(layout: Any, data: Any) -> SparseTensor | SparseCsrTensor:
    """A sparse tensor.

    Args:
        layout: Its layout.
        data: The places, the values and the sizes; perhaps whether it is coalesced.

    Raises:
        FileError: These are not what such a tensor is made of, or do not fit one another.
    """
    places = 2 if layout is layouts.sparse_csr else 1
    if not isinstance(data, tuple) or len(data) not in (places + 2, places + 3) or not _natural(data[places + 1]):
        raise FileError("a sparse tensor in it has no places, no values or no sizes")
    if not all(isinstance(part, Tensor) and part.defined for part in data[: places + 1]):
        raise FileError("a sparse tensor in it is made of what are no tensors")
    try:
        if layout is layouts.sparse_csr:
            return sparse_csr_tensor(*data[:4])
        return sparse_coo_tensor(*data[:3], is_coalesced=len(data) > 3 and data[3] is True)
    except ShapeError as error:
        raise FileError(f"a sparse tensor in it does not hold together: {error}") from error


def rebuild_subclass(function: Any, kind: Any, arguments: Any, state: Any) -> Any:
    """A tensor to which somebody gave attributes.

    Args:
        function: One of the functions here, which makes the tensor.
        kind: The class of the tensor.
        arguments: What the function is called with.
        state: The attributes.

    Raises:
        FileError: It is of a class of its own, or made by another function.
    """
    makers = (rebuild_tensor, rebuild_tensor_of_dtype, rebuild_parameter, rebuild_parameter_with_state)
    if not any(function is maker for maker in makers) or kind not in (Tensor, Parameter):
        raise FileError("a tensor in it is of a class of its own; save its data alone")
    return with_attributes(function(*arguments), state)


def with_attributes(made: Any, state: Any) -> Any:
    """A tensor with the attributes that a file has for it.

    Raises:
        FileError: The attributes are no dictionary, or have names that are none.
    """
    if isinstance(state, tuple) and len(state) == 2 and not state[1]:  # attributes, and those that lie in slots
        state = state[0]
    if state is not None and not (isinstance(state, dict) and all(type(name) is str for name in state)):
        raise FileError("the attributes of a tensor in it are none")
    made.__dict__.update(state or {})
    return made


def _vector_of(storage: Any) -> Any:
    """The memory of a storage as a tensor of one dim."""
    return storage.elements_as(storage.dtype) if isinstance(storage, TypedStorage) else storage


def _viewed(
    storage: Tensor, dtype: DType, offset: Any, size: Any, stride: Any, requires_grad: Any, metadata: Any
) -> Tensor:
    _check(storage, dtype, offset, size, stride)
    held, item = storage._array, dtype.itemsize
    steps = tuple(step * item for step in stride)
    seen = library_of(held).math.strided(held, tuple(size), offset * item, steps, dtype.numpy)
    made = _read_as(tensor_of(seen, storage._storage), metadata)
    return made.requires_grad_() if requires_grad else made


def _check(storage: Tensor, dtype: DType, offset: Any, size: Any, stride: Any) -> None:
    """FileError unless a tensor of these numbers lies inside of its storage."""
    if not _natural((offset,)) or not _natural(size) or not _natural(stride) or len(size) != len(stride):
        raise FileError("the sizes or strides of a tensor in it are no numbers")
    if len(size) > _MOST_DIMS:
        raise FileError(f"a tensor in it has {len(size)} dims; there can be {_MOST_DIMS}")
    held = storage.numel() * storage.dtype.itemsize // dtype.itemsize
    last = offset + sum((length - 1) * step for length, step in zip(size, stride))
    if offset > held or (0 not in size and last >= held):
        raise FileError(f"a tensor in it of sizes {list(size)} reaches element {last} of a storage of {held}")


def _natural(numbers: Any) -> bool:
    return isinstance(numbers, Sequence) and all(type(number) is int and number >= 0 for number in numbers)


def _read_as(made: Tensor, metadata: Any) -> Tensor:
    """A tensor whose elements are what its marks say; torch computes them late, and marks the tensor until then."""
    for mark, resolve in (("conj", Tensor.conj), ("neg", Tensor.neg)):
        if isinstance(metadata, dict) and metadata.get(mark):
            made = resolve(made)
    return made
