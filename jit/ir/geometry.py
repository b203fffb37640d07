"""Geometry of views: sizes, strides and an offset into a storage, all counted in elements.

A view op is nothing but a function from one geometry to another, so this is its type rule, its eager
implementation, and the access map that a kernel reads it through.
"""

from __future__ import annotations

from typing import NamedTuple

from .errors import DimError, ShapeError
from .types import contiguous_strides, is_contiguous


class Geometry(NamedTuple):
    """A strided window into a storage."""

    sizes: tuple[int, ...]
    strides: tuple[int, ...]
    offset: int = 0

    @property
    def ndim(self) -> int:
        """The number of dims."""
        return len(self.sizes)

    @property
    def numel(self) -> int:
        """The number of elements."""
        count = 1
        for size in self.sizes:
            count *= size
        return count

    @property
    def is_contiguous(self) -> bool:
        """True if the elements lie in row-major order without gaps."""
        return is_contiguous(self.sizes, self.strides)

    @staticmethod
    def contiguous(sizes: tuple[int, ...]) -> Geometry:
        """The geometry of a row-major array of these sizes."""
        return Geometry(sizes, contiguous_strides(sizes))

    def permute(self, dims: tuple[int, ...]) -> Geometry:
        """The geometry with its dims in another order."""
        return Geometry(tuple(self.sizes[d] for d in dims), tuple(self.strides[d] for d in dims), self.offset)

    def drop(self, dims: tuple[int, ...]) -> Geometry:
        """The geometry without `dims`."""
        keep = [d for d in range(self.ndim) if d not in dims]
        return self.permute(tuple(keep))

    def insert(self, dim: int, size: int = 1, stride: int | None = None) -> Geometry:
        """The geometry with one more dim in front of `dim`."""
        if stride is None:
            stride = self.sizes[dim] * self.strides[dim] if dim < self.ndim else 1
        sizes = (*self.sizes[:dim], size, *self.sizes[dim:])
        return Geometry(sizes, (*self.strides[:dim], stride, *self.strides[dim:]), self.offset)

    def window(self, dim: int, start: int, length: int, step: int = 1) -> Geometry:
        """The geometry of `length` entries of `dim`, from `start` on, `step` apart."""
        sizes = (*self.sizes[:dim], length, *self.sizes[dim + 1 :])
        strides = (*self.strides[:dim], self.strides[dim] * step, *self.strides[dim + 1 :])
        return Geometry(sizes, strides, self.offset + start * self.strides[dim])

    def expand(self, sizes: tuple[int, ...]) -> Geometry:
        """The geometry broadcast to `sizes`, where -1 keeps a size; new leading dims and grown dims get stride 0."""
        lead = len(sizes) - self.ndim
        if lead < 0:
            raise ShapeError(f"expand: {list(sizes)} has fewer dims than the tensor's {list(self.sizes)}")
        out_sizes, out_strides = [], []
        for index, size in enumerate(sizes):
            old = self.sizes[index - lead] if index >= lead else 1
            stride = self.strides[index - lead] if index >= lead else 0
            size = old if size == -1 and index >= lead else size
            if size != old and old != 1 or size < 0:
                raise ShapeError(f"expand: size {old} of {list(self.sizes)} cannot be broadcast to {list(sizes)}")
            out_sizes.append(size)
            out_strides.append(stride if size == old else 0)
        return Geometry(tuple(out_sizes), tuple(out_strides), self.offset)

    def reshape(self, sizes: tuple[int, ...]) -> Geometry | None:
        """The geometry of the same elements in `sizes` (without -1), or None if that needs a copy."""
        if self.is_contiguous:
            return Geometry(sizes, contiguous_strides(sizes), self.offset)
        return self.regroup(sizes)

    def regroup(self, sizes: tuple[int, ...]) -> Geometry | None:
        """`reshape` of a geometry that is known not to be contiguous."""
        strides = _reshaped_strides(self, sizes)
        return None if strides is None else Geometry(sizes, strides, self.offset)

    @property
    def overlaps(self) -> bool:
        """True if two indices can mean the same element, so that a write through this view is ambiguous."""
        if 0 in self.sizes:
            return False
        dims = sorted((abs(s), n) for n, s in zip(self.sizes, self.strides, strict=True) if n > 1)
        reach = 0
        for stride, size in dims:
            if stride <= reach:
                return True
            reach += stride * (size - 1)
        return False

    def extent(self) -> tuple[int, int]:
        """(the lowest, the highest) element of the storage that is touched; there must be one."""
        low = high = self.offset
        for size, stride in zip(self.sizes, self.strides, strict=True):
            reach = (size - 1) * stride
            low, high = low + min(0, reach), high + max(reach, 0)  # in an order that asks whether it is below 0
        return low, high


def _reshaped_strides(old: Geometry, sizes: tuple[int, ...]) -> tuple[int, ...] | None:
    """The strides for `sizes`, or None: both shapes are walked from the right, dividing evenly spaced runs anew."""
    strides = [0] * len(sizes)
    target = len(sizes) - 1
    chunk_stride = old.strides[-1] if old.sizes else 1
    run = taken = 1
    for dim in range(old.ndim - 1, -1, -1):
        run *= old.sizes[dim]
        breaks = dim == 0 or (old.sizes[dim - 1] != 1 and old.strides[dim - 1] != run * chunk_stride)
        if not breaks:
            continue
        while target >= 0 and (taken < run or sizes[target] == 1):
            strides[target] = taken * chunk_stride
            taken *= sizes[target]
            target -= 1
        if taken != run:
            return None
        if dim > 0:
            chunk_stride = old.strides[dim - 1]
            run = taken = 1
    return tuple(strides) if target < 0 else None


def wrap_dim(dim: int, ndim: int) -> int:
    """The dim counted from the front: -1 is the last. A 0-d tensor takes 0 and -1."""
    bound = max(ndim, 1)
    if not -bound <= dim < bound:
        raise DimError(f"dimension out of range: got {dim}, expected {-bound} to {bound - 1} for {ndim} dims")
    return dim + bound if dim < 0 else dim


def wrap_dims(dims: int | tuple[int, ...] | None, ndim: int) -> tuple[int, ...]:
    """The dims counted from the front; None or () mean all. ShapeError if a dim is named twice."""
    if dims is None or dims == ():
        return tuple(range(ndim))
    wrapped = tuple(wrap_dim(d, ndim) for d in ((dims,) if isinstance(dims, int) else dims))
    if len(set(wrapped)) != len(wrapped):
        raise ShapeError(f"dim {list(dims) if not isinstance(dims, int) else dims} names a dimension twice")
    return wrapped


def infer_size(sizes: tuple[int, ...], numel: int) -> tuple[int, ...]:
    """`sizes` with a -1 filled in so that they make `numel` elements."""
    known, left = 1, None
    for dim, size in enumerate(sizes):
        if size >= 0:
            known *= size
        elif size < -1:
            raise ShapeError(f"size {size} in {list(sizes)} is negative")
        elif left is not None:
            raise ShapeError(f"only one size of {list(sizes)} may be -1")
        else:
            left = dim
    if left is None and known == numel:
        return sizes
    if left is None or not known or numel % known:
        raise ShapeError(f"shape {list(sizes)} is invalid for input of size {numel}")
    return (*sizes[:left], numel // known, *sizes[left + 1 :])


def broadcast_shapes(*shapes: tuple[int, ...]) -> tuple[int, ...]:
    """The common shape by the broadcasting rule; ShapeError names the two that do not fit."""
    result: tuple[int, ...] = ()
    for shape in shapes:
        if len(shape) == len(result) and shape == result:
            continue
        long, short = (shape, result) if len(shape) >= len(result) else (result, shape)
        merged = list(long)
        for index in range(1, len(short) + 1):
            a, b = long[-index], short[-index]
            if a != b and a != 1 and b != 1:
                raise ShapeError(
                    f"the sizes {list(result)} and {list(shape)} do not broadcast: "
                    f"{result[-index]} and {shape[-index]} differ at dim -{index}"
                )
            merged[-index] = b if a == 1 else a
        result = tuple(merged)
    return result
