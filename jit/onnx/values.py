"""Values along the edges of an ONNX model: tensors, and arrays that the host knows.

Note [Sizes are no data]
ONNX computes sizes with tensors: `Shape -> Gather -> Mul -> Concat -> Reshape`. If these were tensors, a reshape would
look at data, and a traced model would be right for one size only. So what a model computes of sizes alone stays on the
host: `Known` holds an array whose elements are Python numbers (those of a trace are its symbols), and operators that
have a form for the host apply it as long as all their operands are known. Constants and small initializers are known,
too, so axes and scales are never data. What meets a tensor becomes one.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import numpy as np

import jit.eager.creation as creation
from jit.eager import context
from jit.eager.namespace import F
from jit.eager.tensors import Tensor
from jit.export.opsets import DTYPES
from jit.ir.dtypes import DType
from jit.ir.errors import ModelError

SMALL = 64
"""Constants of at most so many elements are known to the host."""


class Known:
    """An array that the host knows: a constant, sizes, or elements of a type that tensors do not have.

    `array` is numpy's; where elements are numbers of a trace its dtype is object, and `dtype` tells what they are.
    """

    __slots__ = ("_tensor", "array", "dtype")

    def __init__(self, array: Any, dtype: Any = None) -> None:
        self.array = np.asarray(array)
        self.dtype: np.dtype[Any] = self.array.dtype if dtype is None else np.dtype(dtype)
        self._tensor: Tensor | None = None

    @property
    def symbolic(self) -> bool:
        """Whether elements are numbers of a trace, or may be."""
        return self.array.dtype == object and self.dtype != object

    def tensor(self) -> Tensor:
        """The same as a tensor."""
        if self.symbolic:
            flat = [creation.tensor(value, dtype=tensor_dtype(self.dtype)) for value in self.array.ravel()]
            if not flat:
                return creation.tensor(np.zeros(self.array.shape, self.dtype))
            return F.reshape(F.stack(flat), self.array.shape)
        if context.TRACE.get() is not None:  # a constant of this recording, which no other may see
            return self._made()
        if self._tensor is None:
            self._tensor = self._made()
        return self._tensor

    def _made(self) -> Tensor:
        tensor_dtype(self.dtype)
        return creation.tensor(np.array(self.array))


def tensor_dtype(dtype: np.dtype[Any]) -> DType:
    """The dtype that a tensor has for numpy's.

    Raises:
        ModelError: Tensors have none, as for unsigned integers of more than 8 bits.
    """
    for own in DTYPES.values():
        if own.numpy == dtype:
            return own
    raise ModelError(f"tensors have no elements of type {dtype}; only casts and constants may have them")


def objects(values: Iterable[Any], shape: tuple[int, ...] | None = None) -> np.ndarray:
    """An array of Python's numbers as they are, those of a trace included."""
    values = list(values)
    array = np.empty(len(values), object)
    for index, value in enumerate(values):
        array[index] = value
    return array if shape is None else array.reshape(shape)


def sizes(values: Iterable[Any]) -> Known:
    """Sizes, which the host knows."""
    return Known(objects(values), np.int64)


def as_tensor(value: Any) -> Any:
    """A tensor of what may be known; lists of values and None stay what they are."""
    if isinstance(value, Known):
        return value.tensor()
    return value


def as_numbers(value: Any) -> Any:
    """Nested lists of Python's numbers, for which a tensor is looked at; a number if there are no dims."""
    if isinstance(value, Known):
        return value.array.tolist()
    return value.tolist() if isinstance(value, Tensor) else value


def as_list(value: Any) -> Any:
    """A list of Python's numbers; None stays None."""
    numbers = as_numbers(value)
    return [numbers] if numbers is not None and not isinstance(numbers, list) else numbers


def as_number(value: Any) -> Any:
    """One number of Python; None stays None."""
    numbers = as_list(value)
    while isinstance(numbers, list):
        if len(numbers) != 1:
            raise ModelError(f"one number is wanted here, not {len(numbers)}")
        (numbers,) = numbers
    return numbers


def as_operand(value: Any) -> Any:
    """A tensor, or a number of Python for a single element that the host knows: it becomes part of a kernel."""
    if isinstance(value, Known) and value.array.ndim == 0 and not value.symbolic and value.dtype.kind in "iufb":
        return value.array.item()
    return as_tensor(value)
