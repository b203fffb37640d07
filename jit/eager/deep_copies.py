"""Deep copies of tensors and storages: what shares memory in the original shares it in the copy, too."""

from __future__ import annotations

from collections.abc import Callable
from copy import deepcopy
from typing import Any

import numpy as np

from jit.ir.errors import AutogradError
from jit.runtime.arrays.arrays import address_of, owner_of, with_known_dtype
from jit.runtime.arrays.libraries import library_of

from .tensors import Storage, Tensor, fresh_storage


def deep_copy_of(self: Tensor, memo: dict[Any, Any]) -> Tensor:
    """A copy of this tensor, with what hangs on it, that shares memory with copies of what this one shares it with.

    Args:
        self: A leaf.
        memo: What has been copied so far, as `copy.deepcopy` keeps it.

    Raises:
        AutogradError: It is no leaf.
    """
    if not self.is_leaf:
        raise AutogradError("only leaves can be deep-copied; call .detach().clone()")
    self._leave("copy.deepcopy()")
    array, storage = (None, None) if self._array is None else _copied(self._array, self._storage, memo)
    copy: Tensor = object.__new__(type(self))
    copy._hold(array, storage)
    copy._requires_grad = self._requires_grad
    memo[id(self)] = copy
    copy.__dict__.update(deepcopy(self.__dict__, memo))
    copy._grad = None if self._grad is None else deep_copy_of(self._grad, memo)
    return copy


def _copied(array: Any, storage: Storage, memo: dict[Any, Any]) -> tuple[Any, Storage]:
    """The same place in a copy of the whole memory, which is copied once, and the identity of that."""
    owner = owner_of(array) if isinstance(array, np.ndarray) else None
    if owner is None or not _has_no_gaps(owner):
        with library_of(array).current():
            return array.copy(), fresh_storage()
    memory = _once(owner, lambda: owner.copy(order="K"), memo)
    identity = _once(storage, fresh_storage, memo)
    if owner is array:
        return with_known_dtype(memory), identity
    distance = address_of(array) - address_of(owner)
    place = np.ndarray(array.shape, array.dtype, memory.ravel(order="K").view(np.uint8), distance, array.strides)
    return with_known_dtype(place), identity


def _once(original: Any, copied: Callable[[], Any], memo: dict[Any, Any]) -> Any:
    """The copy of an object that all tensors of one call of `deepcopy` share; the original is kept with it."""
    key = deep_copy_of, id(original)
    if key not in memo:
        memo[key] = original, copied()
    return memo[key][1]


def _has_no_gaps(owner: Any) -> bool:
    """Whether the elements of an array lie next to each other, in whatever order."""
    expected = owner.itemsize
    for stride, size in sorted(zip(owner.strides, owner.shape, strict=True)):
        if size > 1:
            if stride != expected:
                return False
            expected *= size
    return True


__all__ = ["deep_copy_of"]
