"""Sharing of memory: which tensors lie in the same memory, and which are one and the same."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from jit.autograd.nodes import edge_of
from jit.eager.tensors import Tensor

from .properties import kind_of


def place_of(tensor: Tensor) -> tuple[Any, ...]:
    """The address, sizes and strides of a tensor: tensors that agree in them show the same elements."""
    array = tensor._array
    return (array.__array_interface__["data"][0], array.shape, array.strides)


def extent_of(array: Any) -> tuple[int, int]:
    """The addresses between which the elements of an array lie; empty if it has none."""
    return _extent(array.__array_interface__["data"][0], array)


def place_and_extent(array: Any) -> tuple[tuple[Any, ...], tuple[int, int]]:
    """`place_of` a tensor and `extent_of` its array, in half the time."""
    start = array.__array_interface__["data"][0]
    return (start, array.shape, array.strides), _extent(start, array)


def _extent(start: int, array: Any) -> tuple[int, int]:
    if array.flags.c_contiguous or array.size == 0:
        return start, start + array.nbytes
    reaches = [(n - 1) * s for n, s in zip(array.shape, array.strides, strict=True)]
    return start + sum(r for r in reaches if r < 0), start + sum(r for r in reaches if r > 0) + array.itemsize


def overlap(a: tuple[int, int], b: tuple[int, int]) -> bool:
    """Whether two extents have an address in common."""
    return a[0] < b[1] and b[0] < a[1]


def sharing_of(tensors: Sequence[Any]) -> tuple[Any, ...]:
    """Pairs of tensors that share memory: (the later, the earlier, their distance in bytes, whether they are one)."""
    if len(tensors) < 2:
        return ()
    known = [(extent_of(t._array), i) for i, t in enumerate(tensors) if isinstance(t, Tensor) and t._array is not None]
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
    return b._array.__array_interface__["data"][0] - a._array.__array_interface__["data"][0]


def same_tensor(a: Tensor, b: Tensor) -> bool:
    """Whether two arguments can be one input: the same elements with the same history."""
    if a is b:
        return True
    alike = a._storage is b._storage and _distance(a, b) == 0 and kind_of(a) == kind_of(b)
    return alike and a._array.strides == b._array.strides and edge_of(a) == edge_of(b)
