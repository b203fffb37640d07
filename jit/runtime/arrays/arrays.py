"""Strided windows into arrays: how a `Geometry` becomes an array that shares memory."""

from __future__ import annotations

import sys
from typing import Any

import numpy as np

from jit.ir.dtypes import from_numpy
from jit.ir.errors import ShapeError
from jit.ir.geometry import Geometry


class _StridedWindow:
    """Describes memory to numpy through the array interface, and keeps its owner alive."""

    __slots__ = ("__array_interface__", "base")

    def __init__(self, base: Any, interface: dict[str, Any]) -> None:
        self.base = base
        self.__array_interface__ = interface


def with_known_dtype(array: Any) -> Any:
    """The same memory, with the one dtype object that stands for its kind of elements.

    Arrays from files of pickle bring copies of their dtype, and hand them on to what is computed from them; native code
    tells dtypes by identity.
    """
    known = from_numpy(array.dtype).numpy
    return array if array.dtype is known else array.view(known)


def address_of(array: Any) -> int:
    """The address of the first element, in bytes."""
    return array.__array_interface__["data"][0] if isinstance(array, np.ndarray) else array.data.ptr


def room_of(array: Any) -> tuple[int, int]:
    """The memory that `array` lies in: the address of its start, and its bytes."""
    if not isinstance(array, np.ndarray):
        return array.data.mem.ptr, array.data.mem.size
    owner = owner_of(array)
    return address_of(owner), owner.nbytes


def owner_of(array: Any) -> Any:
    """The array whose memory `array` is a view of (itself if it is not a view)."""
    while True:
        base = array.base
        if isinstance(base, _StridedWindow):
            base = base.base
        if not isinstance(base, np.ndarray):
            return array
        array = base


def geometry_of(array: Any) -> Geometry:
    """The geometry of an array, offset 0 at its own first element."""
    size = array.itemsize
    return Geometry(array.shape, tuple(s // size for s in array.strides))


def offset_of(array: Any) -> int:
    """The distance of the first element from the first one of the owner, in elements."""
    return (address_of(array) - room_of(array)[0]) // array.itemsize


def window(array: Any, geometry: Geometry, dtype: Any = None) -> Any:
    """The view of `array`'s memory that `geometry` describes, its offset counted from `array`'s first element.

    With `dtype`, the memory is read as elements of that numpy dtype, which the geometry then counts in.
    """
    dtype = array.dtype if dtype is None else dtype
    size = dtype.itemsize
    strides = tuple([s * size for s in geometry.strides])
    if not isinstance(array, np.ndarray):
        return type(array)(geometry.sizes, dtype, array.data + geometry.offset * size, strides)
    if dtype is array.dtype and geometry.offset >= 0 and array.flags.c_contiguous:  # several times as fast
        try:
            return np.ndarray(geometry.sizes, dtype, array, geometry.offset * size, strides)
        except ValueError:  # it goes beyond `array`, or the dtype is none of numpy's own
            pass
    address, readonly = array.__array_interface__["data"]
    interface = {
        "version": 3,
        "shape": geometry.sizes,
        "strides": strides,
        "typestr": dtype.str,
        "data": (address + geometry.offset * size, readonly),
    }
    return seen(array, interface, dtype)


def seen(owner: Any, interface: dict[str, Any], dtype: Any) -> Any:
    """The array that numpy's array interface describes; it keeps `owner`, whose memory it is, alive."""
    view = np.asarray(_StridedWindow(owner, interface))
    return view if view.dtype == dtype else view.view(dtype)


def restrided(array: Any, sizes: tuple[int, ...]) -> Any:
    """`array`'s memory seen with other, contiguous sizes; a longer copy of it, zeros behind, where it is too short."""
    geometry, start, held = Geometry.contiguous(sizes), offset_of(array), room_of(array)[1] // array.itemsize
    if start + geometry.numel <= held:
        return window(array, geometry)
    if (start + geometry.numel) * array.itemsize > sys.maxsize:
        raise ShapeError(f"a tensor of sizes {list(sizes)} is larger than any memory; pass smaller sizes")
    longer = np.zeros_like(array, shape=start + geometry.numel)
    longer[:held] = window(array, Geometry((held,), (1,), -start))
    return longer[start:].reshape(sizes)


def check_inside(array: Any, geometry: Geometry) -> None:
    """ShapeError if `geometry` (offset from `array`'s first element) leaves the memory that `array` belongs to."""
    if 0 in geometry.sizes:
        return
    start, held = offset_of(array), room_of(array)[1] // array.itemsize
    low, high = geometry.extent()
    if start + low < 0 or start + high >= held:
        raise ShapeError(
            f"as_strided: sizes {list(geometry.sizes)}, strides {list(geometry.strides)} and offset "
            f"{start + geometry.offset} reach elements {start + low} to {start + high} of a storage of {held}; "
            "pass ones that stay inside"
        )
