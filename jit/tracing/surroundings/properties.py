"""Properties that a recording takes for granted of a tensor, and the content of an input."""

from __future__ import annotations

import functools
from typing import Any

import numpy as np

from jit.eager import context
from jit.eager.generators import Generator
from jit.eager.hooks import RecordedHook
from jit.eager.tensors import Tensor, Variable
from jit.ir import TensorType
from jit.ir.dtypes import from_numpy
from jit.ir.types import is_contiguous
from jit.runtime.arrays.libraries import library_of

from .promoting import KINDS

INFERENCE = "an inference tensor"
"""A mark beside the class of an inference tensor outside of `inference_mode`, where it must not be written or saved."""


def type_of(tensor: Tensor) -> TensorType:
    """The IR type of a tensor."""
    array = tensor._array
    return _type_of(array.dtype, array.shape, array.strides, str(tensor.device))


@functools.lru_cache(maxsize=10_000)
def _type_of(dtype: Any, shape: tuple[int, ...], steps: tuple[int, ...], device: str) -> TensorType:
    """The type of an array with `steps` in bytes. Types are never changed, so tensors that are alike share one."""
    strides = tuple(s // dtype.itemsize for s in steps)
    return TensorType(from_numpy(dtype), shape, None if is_contiguous(shape, strides) else strides, device)


def row_major(type: TensorType) -> TensorType:
    """The type of the same elements in row-major order."""
    return TensorType(type.dtype, type.shape, None, type.device)


def kind_of(tensor: Any) -> tuple[Any, ...]:
    """The kind of a tensor: all that a recording takes for granted of it."""
    array = getattr(tensor, "_array", None)
    if array is None:
        return ("undefined",)
    flags = array.flags
    kind: Any = type(tensor)
    # `requires_grad` and `is_leaf`, written out for most tensors: every call asks this of its arguments
    asks, leaf = (False, True) if kind is Tensor and tensor._viewed is None else (tensor.requires_grad, tensor.is_leaf)
    kind = Tensor if kind is Variable else kind  # which a Tensor becomes by itself
    if tensor._storage.inference and not context.INFERENCE.get():
        kind = (INFERENCE, kind)
    place = flags.writeable if type(array) is np.ndarray else library_of(array).device
    return (array.dtype, array.shape, None if flags.c_contiguous else _layout(array), asks, leaf, place, kind)


def _layout(array: Any) -> tuple[int, ...] | None:
    """The strides of an array that numpy does not take for contiguous, in elements; None if they are row-major ones."""
    strides = tuple(s // array.itemsize for s in array.strides)
    return None if is_contiguous(array.shape, strides) else strides


def look_of(tensor: Tensor) -> tuple[Any, ...]:
    """The facts that Python can ask of a tensor in reach without reading its elements."""
    array = tensor._array
    if array is None:
        return ("undefined",)
    kind: Any = type(tensor)
    kind = Tensor if kind is Variable else kind  # which a Tensor becomes by itself
    place = array.flags.writeable if type(array) is np.ndarray else library_of(array).device
    return (array.dtype, array.shape, array.strides, tensor.requires_grad, place, kind)


def has_hooks(leaf: Any) -> bool:
    """Whether there are hooks on the gradient of a leaf that no trace records."""
    return any(not isinstance(hook, RecordedHook) for hook in _hooks_on(leaf))


def recorded_hooks_on(leaf: Any) -> tuple[RecordedHook, ...]:
    """The hooks on a leaf whose operators are recorded."""
    return tuple(hook for hook in _hooks_on(leaf) if isinstance(hook, RecordedHook))


def _hooks_on(leaf: Any) -> list[Any]:
    attached = leaf.__dict__
    tables = [attached.get(name) for name in ("gradient_hooks", "post_accumulate_hooks")] if attached else []
    return [hook for table in tables if table for hook in table.values()]


def contents_of(owner: Any) -> Any:
    """The content of an input's owner now: an array, the state of a generator, or the number itself."""
    if type(owner) in KINDS:
        return owner
    return owner.state if isinstance(owner, Generator) else owner._array
