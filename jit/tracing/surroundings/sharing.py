"""Sharing of memory: which tensors lie in the same memory, and which are one and the same."""

from __future__ import annotations

import weakref
from collections.abc import Callable, Sequence
from typing import Any

from jit.autograd.nodes import edge_of
from jit.eager.tensors import Tensor
from jit.runtime.arrays.arrays import address_of

from .properties import kind_of


def place_of(tensor: Tensor) -> tuple[Any, ...]:
    """The address, sizes and strides of a tensor: tensors that agree in them show the same elements."""
    array = tensor._array
    return (address_of(array), array.shape, array.strides)


def extent_of(array: Any) -> tuple[int, int]:
    """The addresses between which the elements of an array lie; empty if it has none."""
    return _extent(address_of(array), array)


def place_and_extent(array: Any) -> tuple[tuple[Any, ...], tuple[int, int]]:
    """`place_of` a tensor and `extent_of` its array, in half the time."""
    start = address_of(array)
    return (start, array.shape, array.strides), _extent(start, array)


def _extent(start: int, array: Any) -> tuple[int, int]:
    if array.flags.c_contiguous or array.size == 0:
        return start, start + array.nbytes
    reaches = [(n - 1) * s for n, s in zip(array.shape, array.strides, strict=True)]
    return start + sum(r for r in reaches if r < 0), start + sum(r for r in reaches if r > 0) + array.itemsize


class Extents:
    """Extents of inputs, kept as long as call after call brings the same arrays, as it does for parameters."""

    def __init__(self) -> None:
        self._kept: dict[int, tuple[Any, ...]] = {}
        """Per input: a weak reference to its array, sizes, strides and extent."""

    def of(self, array: Any, number: int) -> tuple[int, int]:
        """`extent_of` the array of an input."""
        reference, sizes, strides, extent = self._kept.get(number, _NOTHING)
        if reference() is not array or array.shape != sizes or array.strides != strides:
            extent = extent_of(array)
            self._kept[number] = (weakref.ref(array), array.shape, array.strides, extent)
        return extent


_NOTHING: tuple[Any, ...] = (lambda: None, None, None, None)


def overlap(a: tuple[int, int], b: tuple[int, int]) -> bool:
    """Whether two extents have an address in common."""
    return a[0] < b[1] and b[0] < a[1]


def sharing_of(
    tensors: Sequence[Any], extent: Callable[[Any, int], tuple[int, int]] = lambda array, number: extent_of(array)
) -> tuple[Any, ...]:
    """Pairs of tensors that share memory: (the later, the earlier, their distance in bytes, whether they are one).

    Args:
        tensors: Tensors, and objects without memory, which do not count.
        extent: `extent_of` the array of a tensor, whose number is given, too.
    """
    if len(tensors) < 2:
        return ()
    known = [(extent(t._array, i), i) for i, t in enumerate(tensors) if isinstance(t, Tensor) and t._array is not None]
    if len(known) < 2:
        return ()
    known.sort()
    pattern = []
    (_, end), first = known[0]
    for (low, high), index in known[1:]:
        if low < end:
            a, b = sorted((first, index))
            pattern.append((b, a, _distance(tensors[a], tensors[b]), same_tensor(tensors[a], tensors[b])))
        if high > end:
            end, first = high, index
    return tuple(sorted(pattern))


def _distance(a: Tensor, b: Tensor) -> int:
    return address_of(b._array) - address_of(a._array)


def same_tensor(a: Tensor, b: Tensor) -> bool:
    """Whether two arguments can be one input: the same elements with the same history."""
    if a is b:
        return True
    alike = a._storage is b._storage and _distance(a, b) == 0 and kind_of(a) == kind_of(b)
    return alike and a._array.strides == b._array.strides and edge_of(a) == edge_of(b)
