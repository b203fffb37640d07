"""Tensors from Python and numpy data: `tensor`, `from_numpy`, `asarray`, `from_dlpack`."""

from __future__ import annotations

from typing import Any

import numpy as np

from jit.ir import dtypes
from jit.ir.errors import DTypeError, UsageError

from . import context
from .proxies import TracedScalar, concrete
from .tensors import Tensor


def tensor(data: Any, dtype: Any = None, device: Any = None, requires_grad: bool = False) -> Tensor:
    """A new tensor that copies `data`: a number, nested lists, a numpy array or a tensor.

    Args:
        data: What to copy. Python floats become float32, ints int64, bools bool; arrays keep their dtype.
        dtype: The element type, if another is wanted.
        device: "cpu".
        requires_grad: Whether gradients are wanted.

    Raises:
        UsageError: The lists are ragged.
        DTypeError: The elements are nothing that tensors hold.

    >>> import jit
    >>> jit.tensor([[1, 2], [3, 4]], dtype=jit.float32).sum().item()
    10.0
    """
    wanted = None if dtype is None else dtypes.as_dtype(dtype)
    trace = context.TRACE.get()
    if trace is None:
        made = Tensor(_array_of(data, wanted))
    elif isinstance(data, Tensor):
        made = _copied(data, wanted)
    elif _holds_traced(data):
        made = _stacked(data, wanted)
    else:
        made = Tensor(_array_of(data, wanted))
        trace.constant(made, "made from Python data by jit.tensor")
    return made.requires_grad_() if requires_grad else made


def _copied(tensor: Any, dtype: Any) -> Any:
    """A copy that a trace can follow."""
    from .functions import F

    return F._to_copy(tensor.detach(), dtype=dtype or tensor.dtype)


def _holds_traced(data: Any) -> bool:
    """Whether there is a number among `data` that a trace keeps an eye on."""
    if isinstance(data, (list, tuple)):
        return any(map(_holds_traced, data))
    return isinstance(data, Tensor) or type(data) is TracedScalar


def _stacked(data: Any, dtype: Any) -> Any:
    """Nested lists with traced numbers in them, element by element, so that the numbers stay traced."""
    from .functions import F

    numbers: list[Any] = []
    known = np.asarray(_noted(data, numbers))
    dtype = dtype or _default_dtype(known, False)
    parts = [F.full((), number, dtype=dtype) for number in numbers]
    return parts[0] if known.ndim == 0 else F.reshape(F.stack(parts), known.shape)


def _noted(data: Any, numbers: list[Any]) -> Any:
    """The plain numbers of nested lists, and in `numbers` what they stand for."""
    if isinstance(data, (list, tuple)):
        return [_noted(item, numbers) for item in data]
    numbers.append(data.item() if isinstance(data, Tensor) else data)
    return concrete(numbers[-1])


def _array_of(data: Any, dtype: dtypes.DType | None) -> Any:
    if isinstance(data, Tensor):
        return np.array(data.detach()._array, dtype=None if dtype is None else dtype.numpy)
    data = _plain(data)
    try:
        array = np.asarray(data)
    except ValueError as error:
        raise UsageError("the nested lists do not all have the same length") from error
    if dtype is None:
        dtype = _default_dtype(array, isinstance(data, (np.ndarray, np.generic)))
    return np.array(array, dtype=dtype.numpy, order="C")


def _plain(data: Any) -> Any:
    """Nested lists with tensors and traced numbers replaced by what they hold."""
    if isinstance(data, (list, tuple)):
        return [_plain(item) for item in data]
    if isinstance(data, Tensor):
        return data.item() if data.ndim == 0 else data.tolist()
    return concrete(data)


def _default_dtype(array: Any, is_numpy: bool) -> dtypes.DType:
    if is_numpy:
        return dtypes.from_numpy(array.dtype)
    python = {"b": dtypes.bool_, "i": dtypes.int64, "u": dtypes.int64, "f": dtypes.DEFAULT, "c": dtypes.complex64}
    if array.dtype.kind not in python:
        raise DTypeError(f"tensors hold numbers, not {array.dtype}; they cannot be made from these elements")
    return dtypes.DEFAULT if array.size == 0 else python[array.dtype.kind]


def from_numpy(array: Any) -> Tensor:
    """A tensor that shares memory with a numpy array: what changes in one changes in the other.

    >>> import numpy as np, jit
    >>> a = np.zeros(2, np.float32)
    >>> t = jit.from_numpy(a)
    >>> a[0] = 5
    >>> t.tolist()
    [5.0, 0.0]
    """
    if not isinstance(array, np.ndarray):
        raise UsageError(f"from_numpy takes a numpy array, not {type(array).__name__}; jit.tensor copies anything")
    dtypes.from_numpy(array.dtype)
    if not array.dtype.isnative:
        array = array.astype(array.dtype.newbyteorder("="))
    if any(s % array.itemsize for s in array.strides):
        array = array.copy()
    return _foreign(array, "a numpy array seen through jit.from_numpy")


def _foreign(array: Any, reason: str) -> Tensor:
    """A tensor on memory that somebody else owns; in a trace a constant that cannot be written to."""
    made = Tensor(array)
    trace = context.TRACE.get()
    if trace is not None:
        trace.constant(made, reason, foreign=True)
    return made


def asarray(data: Any, dtype: Any = None, device: Any = None, copy: bool | None = None) -> Tensor:
    """`data` as a tensor, sharing memory where that is possible and `copy` does not forbid it."""
    if isinstance(data, Tensor) and not copy:
        return data.to(dtype) if dtype is not None else data
    if isinstance(data, np.ndarray) and not copy and dtype is None:
        return from_numpy(data)
    return tensor(data, dtype=dtype)


def from_dlpack(data: Any) -> Tensor:
    """A tensor that shares memory with any object that speaks DLPack: numpy, torch, CuPy, JAX."""
    return _foreign(np.from_dlpack(data), "memory seen through jit.from_dlpack")


def is_tensor(value: Any) -> bool:
    """Whether `value` is a Tensor."""
    return isinstance(value, Tensor)
