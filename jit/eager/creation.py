"""Tensors from Python and numpy data: `tensor`, `from_numpy`, `asarray`, `from_dlpack`."""

from __future__ import annotations

import functools
import os
from typing import Any

import numpy as np

from jit.ir import dtypes
from jit.ir.devices import device as Device
from jit.ir.devices import resolve
from jit.ir.errors import DTypeError, KindError, UsageError
from jit.ir.fitting import fitted
from jit.runtime.arrays.arrays import with_known_dtype
from jit.runtime.arrays.libraries import HOST, library_on

from . import context
from .namespace import F
from .proxies import TracedScalar, concrete
from .storages import TypedStorage
from .tensors import Tensor, tensor_of


def tensor(data: Any, dtype: Any = None, device: Any = None, requires_grad: bool = False) -> Tensor:
    """A new tensor that copies `data`: a number, nested lists, a numpy array or a tensor.

    Args:
        data: What to copy. Python floats become float32, ints int64, bools bool; arrays keep their dtype.
        dtype: The element type, if another is wanted.
        device: Where it shall lie; on the default device if left out.
        requires_grad: Whether gradients are wanted.

    Raises:
        KindError: Lists of one level differ in length.
        DTypeError: The elements are no numbers.

    >>> import jit
    >>> jit.tensor([[1, 2], [3, 4]], dtype=jit.float32).sum().item()
    10.0
    """
    if not isinstance(data, Tensor) and hasattr(data, "__cuda_array_interface__"):
        data = _sharing(data)
    elif isinstance(data, TypedStorage):
        data = data.elements_as(data.dtype if dtype is None else dtypes.as_dtype(dtype))
    home = resolve(device if device is not None or not isinstance(data, Tensor) else data.device)
    wanted = None if dtype is None else dtypes.as_dtype(dtype)
    trace = context.TRACE.get()
    if isinstance(data, Tensor) and (trace is not None or not data.is_cpu):
        made = F._to_copy(data.detach(), dtype=wanted or data.dtype)
    elif trace is not None and _holds_traced(data):
        made = _stacked(data, wanted)
    else:
        made = tensor_of(_array_of(data, wanted))
        if trace is not None:
            trace.constant(made, "made from Python data by jit.tensor")
    made = _on(home, made)
    return made.requires_grad_() if requires_grad else made


def _on(home: Device, tensor: Any) -> Any:
    """A tensor without a history on a device."""
    return tensor if tensor.device is home else F._to_copy(tensor, device=str(home))


def _holds_traced(data: Any) -> bool:
    """Whether there are tensors or traced numbers in nested lists."""
    if isinstance(data, (list, tuple)):
        return any(map(_holds_traced, data))
    return isinstance(data, Tensor) or type(data) is TracedScalar


def _stacked(data: Any, dtype: Any) -> Any:
    """Nested lists with traced numbers in them, element by element, so that the numbers stay traced."""
    numbers: list[Any] = []
    known = np.asarray(_noted(data, numbers))
    dtype = dtype or _dtype_of_members(data) or _default_dtype(known, False)
    parts = [F.full((), number, dtype=dtype) for number in numbers]
    return parts[0] if known.ndim == 0 else F.reshape(F.stack(parts), known.shape)


def _noted(data: Any, numbers: list[Any]) -> Any:
    """Nested lists with plain numbers for traced ones; all numbers, traced where they are, are added to `numbers`."""
    if isinstance(data, (list, tuple)):
        return [_noted(item, numbers) for item in data]
    numbers.append(data.item() if isinstance(data, Tensor) else data)
    return concrete(numbers[-1])


def _array_of(data: Any, dtype: dtypes.DType | None) -> Any:
    if isinstance(data, Tensor):
        return with_known_dtype(np.array(data.detach()._array, dtype=None if dtype is None else dtype.numpy))
    try:
        plain = _plain(data)
    except RecursionError as error:
        raise DTypeError("the lists contain themselves, or are nested too deep; pass lists of numbers") from error
    try:
        array = np.asarray(plain)
    except ValueError as error:
        raise KindError(
            "the nested lists do not all have the same length; make those of one level equally long"
        ) from error
    except TypeError as error:
        raise UsageError(f"these elements do not tell their sizes ({error}); pass numbers or arrays") from error
    if dtype is None:
        of_members = _dtype_of_members(data) if isinstance(data, (list, tuple)) else None
        dtype = of_members or _default_dtype(array, isinstance(plain, (np.ndarray, np.generic)))
    elif not isinstance(plain, (np.ndarray, np.generic)):
        _check_held(array, dtype.numpy)
    try:
        return with_known_dtype(np.array(array, dtype=dtype.numpy, order="C"))
    except OverflowError as error:
        raise UsageError(f"a number among these does not fit into {dtype.name}; pass a floating dtype") from error


def _check_held(array: Any, dtype: Any) -> None:
    """UsageError if integers of `dtype` do not hold the numbers of a new array."""
    if dtype.kind in "iu" and array.size and array.dtype.kind in "iuf":
        fitted(array.min().item(), dtype)
        fitted(array.max().item(), dtype)


_OF_PYTHON = (bool, int, float, complex)


def _dtype_of_members(data: Any) -> dtypes.DType | None:
    """The dtype of nested lists that hold tensors or numbers of numpy, which have dtypes; None if they hold neither."""
    kinds: set[Any] = set()
    _note_kinds(data, kinds)
    if all(kind in _OF_PYTHON for kind in kinds):
        return None
    found = [dtypes.of_number(kind(0)) if kind in _OF_PYTHON else kind for kind in kinds]
    return functools.reduce(dtypes.promote, found) if all(isinstance(d, dtypes.DType) for d in found) else None


def _note_kinds(data: Any, kinds: set[Any]) -> None:
    """Add the dtypes of what has one to `kinds`, and the classes of Python's numbers."""
    if isinstance(data, (list, tuple)):
        for item in data:
            _note_kinds(item, kinds)
    elif isinstance(data, Tensor):
        kinds.add(data.dtype)
    elif isinstance(data, (np.ndarray, np.generic)):
        kinds.add(dtypes.from_numpy(data.dtype) if data.dtype.kind in "biufc" else object)
    else:
        kinds.add(type(concrete(data)))


def _plain(data: Any) -> Any:
    """Nested lists with tensors and traced numbers replaced by what they hold."""
    if isinstance(data, (list, tuple)):
        return [_plain(item) for item in data]
    if isinstance(data, Tensor):  # one of a single element is a number, whatever its sizes
        return data.item() if data.numel() == 1 else data.tolist()
    return concrete(data)


def _default_dtype(array: Any, is_numpy: bool) -> dtypes.DType:
    if is_numpy:
        return dtypes.from_numpy(array.dtype)
    python = {"b": False, "i": 0, "u": 0, "f": 0.0, "c": 0j}
    if array.dtype.kind not in python:
        held = {"U": "text", "S": "bytes", "O": "objects", "M": "dates", "m": "time spans"}.get(array.dtype.kind)
        raise DTypeError(f"tensors hold numbers, not {held or array.dtype}; convert the elements to numbers first")
    return dtypes.DEFAULT if array.size == 0 else dtypes.of_number(python[array.dtype.kind])


def from_numpy(array: Any) -> Tensor:
    """A tensor that shares memory with a numpy array: what changes in one changes in the other.

    An array of foreign byte order, or with strides that are no whole elements, is copied instead.

    Raises:
        UsageError: It is no numpy array.
        DTypeError: Its elements are no numbers that tensors hold.

    >>> import numpy as np, jit
    >>> a = np.zeros(2, np.float32)
    >>> t = jit.from_numpy(a)
    >>> a[0] = 5
    >>> t.tolist()
    [5.0, 0.0]
    """
    if not isinstance(array, np.ndarray):
        raise UsageError(f"from_numpy takes a numpy array, not {type(array).__name__}; use jit.tensor, which copies")
    dtypes.from_numpy(array.dtype)
    if not array.flags.writeable:
        context.warn(
            "this numpy array is read-only, so writing to a tensor of its memory is an error; copy the array first"
        )
    if not array.dtype.isnative:
        array = array.astype(array.dtype.newbyteorder("="))
    if any(s % array.itemsize for s in array.strides):
        array = array.copy()
    return _foreign(with_known_dtype(array), "a numpy array seen through jit.from_numpy")


def _foreign(array: Any, reason: str) -> Tensor:
    """A tensor of memory that somebody else owns; in a trace it is a constant that cannot be written to."""
    made = tensor_of(array)
    trace = context.TRACE.get()
    if trace is not None:
        trace.constant(made, reason, foreign=True)
    return made


def asarray(
    obj: Any, *, dtype: Any = None, device: Any = None, copy: bool | None = None, requires_grad: bool = False
) -> Tensor:
    """`obj` as a tensor: of its memory, where that is possible and `copy` allows it, else of a copy.

    Args:
        obj: A tensor, an array or whatever lends its memory (through DLPack, an array interface or as a buffer), or
            Python numbers in lists.
        dtype: The element type, if another is wanted.
        device: Where it shall lie; where the memory lies if left out, numbers on the default device.
        copy: True for a copy, False to refuse one; None copies where it must.
        requires_grad: Whether gradients are wanted; a tensor keeps its history only if they are.

    Raises:
        UsageError: `copy` is False, and the tensor cannot be had without a copy.

    >>> import numpy as np, jit
    >>> a = np.zeros(2)
    >>> jit.asarray(a)[0] = 1
    >>> a.tolist()
    [1.0, 0.0]
    """
    shared = obj if isinstance(obj, Tensor) else _sharing(obj)
    home = resolve(device if device is not None or shared is None else shared.device)
    wanted = None if dtype is None else dtypes.as_dtype(dtype)
    if shared is None or wanted not in (None, shared.dtype) or shared.device != home:
        if copy is False:
            raise UsageError("asarray: a tensor of this needs a copy; leave copy=False out")
        made = tensor(obj, dtype=wanted, device=home) if shared is None else shared.to(home, wanted or shared.dtype)
    else:
        made = shared.clone() if copy else shared
    return made.requires_grad_() if requires_grad and not made.requires_grad else made


def _sharing(obj: Any) -> Tensor | None:
    """A tensor of the memory of `obj`; None if it lends none."""
    if isinstance(obj, np.generic):
        return None
    if isinstance(obj, np.ndarray):
        return from_numpy(obj)
    if hasattr(obj, "__dlpack__") or type(obj).__name__ == "PyCapsule":
        return from_dlpack(obj)
    if hasattr(obj, "__cuda_array_interface__"):
        array = library_on(str(resolve("cuda"))).taken(obj)
        return _foreign(array, "memory seen through CUDA's array interface")
    if isinstance(obj, (bytes, bytearray, memoryview)):
        return from_numpy(np.frombuffer(obj, np.uint8) if not isinstance(obj, memoryview) else np.asarray(obj))
    return from_numpy(np.asarray(obj)) if hasattr(obj, "__array__") or hasattr(obj, "__array_interface__") else None


def as_tensor(data: Any, dtype: Any = None, device: Any = None) -> Tensor:
    """`data` as a tensor, of its memory where that is possible.

    Args:
        data: A tensor, an array, numbers or nested lists of them.
        dtype: The element type; that of the data if left out.
        device: Where it shall lie; that of the data if left out, for numbers and numpy's arrays the default device.

    >>> import jit
    >>> jit.as_tensor([1, 2]).dtype
    jit.int64
    """
    home = resolve(None) if device is None and isinstance(data, np.ndarray) else device
    return asarray(data, dtype=dtype, device=home)


def frombuffer(buffer: Any, *, dtype: Any, count: int = -1, offset: int = 0, requires_grad: bool = False) -> Tensor:
    r"""A vector of the memory of a Python buffer, read as elements of `dtype` from byte `offset` on.

    Args:
        buffer: An object with Python's buffer protocol; its memory is shared.
        dtype: The element type.
        count: The number of elements; all that there are if it is -1.
        offset: The distance of the first one from the start of the buffer, in bytes.
        requires_grad: Whether gradients are wanted.

    Raises:
        UsageError: There is nothing to read, or it does not divide into elements.

    >>> import jit
    >>> jit.frombuffer(bytearray(b"\x01\x00\x02\x00"), dtype=jit.int16).tolist()
    [1, 2]
    """
    element = dtypes.as_dtype(dtype).numpy
    try:
        if count == 0 or memoryview(buffer).nbytes <= offset:
            raise ValueError("neither the count nor the buffer after the offset may be empty")
        array = np.frombuffer(buffer, element, count, offset)
    except (ValueError, TypeError) as error:
        raise UsageError(f"frombuffer: {error}") from error
    if not array.flags.writeable:
        context.warn(
            "this buffer is read-only, so writing to a tensor of its memory is an error; copy the buffer first"
        )
    made = _foreign(array, "a buffer seen through jit.frombuffer")
    return made.requires_grad_() if requires_grad else made


def from_file(
    filename: Any, shared: bool | None = None, size: int | None = 0, *, dtype: Any = None, requires_grad: bool = False
) -> Tensor:
    """A vector of what a file holds, read as its elements are used.

    Args:
        filename: The path of the file.
        shared: Whether what is written to the tensor goes to the file; the file is then made as long as it must be.
        size: The number of elements.
        dtype: Their dtype; float32 if left out.
        requires_grad: Whether gradients are wanted.

    Raises:
        UsageError: The file does not have so many elements, and is not shared.
    """
    element, count = (dtypes.DEFAULT if dtype is None else dtypes.as_dtype(dtype)), size or 0
    bytes_wanted = count * element.itemsize
    if shared:
        with open(filename, "ab") as file:
            if file.tell() < bytes_wanted:
                file.truncate(bytes_wanted)
    elif os.path.getsize(filename) < bytes_wanted:
        raise UsageError(
            f"{filename} has {os.path.getsize(filename)} bytes, and {count} elements of {element} need {bytes_wanted}; "
            "ask for fewer, or say shared=True to make it longer"
        )
    mapped = np.memmap(filename, element.numpy, "r+" if shared else "c", shape=(count,)) if count else None
    plain = np.zeros(0, element.numpy) if mapped is None else np.asarray(mapped)
    made = _foreign(with_known_dtype(plain), "a file seen through jit.from_file")
    return made.requires_grad_() if requires_grad else made


def from_dlpack(ext_tensor: Any, *, device: Any = None, copy: bool | None = None) -> Tensor:
    """A tensor that shares memory with any object that speaks DLPack: numpy, torch, CuPy, JAX.

    Args:
        ext_tensor: The object, or a capsule of it.
        device: Where it shall lie, in a copy if need be; where the object lies if left out.
        copy: True for a copy, False to refuse one; None leaves it to the object.

    Raises:
        UsageError: It lies where no tensor can, or it would have to be copied.

    >>> import numpy as np, jit
    >>> a = np.zeros(2)
    >>> jit.from_dlpack(a)[0] = 1
    >>> a.tolist()
    [1.0, 0.0]
    """
    from jit.runtime.arrays.dlpack import GPUS, device_of

    kind, number = device_of(ext_tensor)
    library = library_on(str(resolve(f"cuda:{number}"))) if kind in GPUS else HOST
    made = _foreign(library.borrowed(ext_tensor, copy), "memory seen through jit.from_dlpack")
    home = made.device if device is None else resolve(device)
    if copy is False and made.device is not home:
        raise UsageError(f"from_dlpack: the memory lies on {str(made.device)!r}; leave copy=False or device= out")
    return _on(home, made)


def is_tensor(value: Any) -> bool:
    """Whether `value` is a Tensor, or made of some as sparse ones are."""
    if isinstance(value, Tensor):
        return True
    from .composed import Composed

    return isinstance(value, Composed)
