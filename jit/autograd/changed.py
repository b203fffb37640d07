"""`ChangedTensor`: what a formula gets of a saved tensor that was written over, which it may not need after all."""

from __future__ import annotations

from typing import Any

from jit.eager.tensors import Storage, Tensor
from jit.ir import dtypes


class ChangedTensor(Tensor):
    """A tensor that has sizes and a dtype, but no elements: who asks for these gets the error.

    One formula may give the gradients of all arguments of an operator, and look at the one argument only for the
    gradient of the other: a weight that an optimizer has stepped matters to the gradient of the input alone.
    """

    __slots__ = ("_error", "_stale")

    _stale: Any
    """The array, whose elements are not those that were saved."""
    _error: Exception
    """The error that says so."""

    @property
    def _array(self) -> Any:
        raise self._error

    @property
    def ndim(self) -> int:
        """The number of dims."""
        return self._stale.ndim

    @property
    def dtype(self) -> Any:
        """The element type."""
        return dtypes.from_numpy(self._stale.dtype)

    def _defined(self) -> Any:
        return _SizesAlone(self._stale.shape, self._error)


class _SizesAlone:
    """The sizes of an array; everything else of it raises the error."""

    def __init__(self, shape: tuple[int, ...], error: Exception) -> None:
        self.shape = shape
        self._error = error

    def __getattr__(self, name: str) -> Any:
        raise self._error


def changed_tensor(array: Any, storage: Storage, bindings: Any, error: Exception) -> ChangedTensor:
    """The tensor without elements that stands for `array`, which was saved and has been changed since.

    Args:
        array: The array.
        storage: Its memory.
        bindings: The values that it is in traces.
        error: The error for who asks for elements.
    """
    made: ChangedTensor = object.__new__(ChangedTensor)
    made._stale, made._error = array, error
    made._storage, made._bindings = storage, bindings
    return made
