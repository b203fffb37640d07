"""Strided windows into arrays: how a `Geometry` becomes an array that shares memory."""

from __future__ import annotations

import ctypes
import math
import sys
from typing import Any, NamedTuple

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
    if not isinstance(array, np.ndarray):
        return array.data.ptr
    if not _HAS_ADDRESS_FIRST:
        return array.__array_interface__["data"][0]
    return ctypes.c_void_p.from_address(id(array) + object.__basicsize__).value or 0


_PROBE = np.empty(1)
_HAS_ADDRESS_FIRST = (
    sys.implementation.name == "cpython"
    and ctypes.c_void_p.from_address(id(_PROBE) + object.__basicsize__).value == _PROBE.ctypes.data
)
"""Whether an array begins with the address, as numpy's header for C says: to read it takes a third of the time."""


def moved(place: Any, step: int) -> Any:
    """The place in a device's memory that many bytes behind another; memory without bytes has one place alone."""
    return place + step if place.mem.ptr else place


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


class ViewLayout(NamedTuple):
    """The way in which a view lies in the memory of an array, in bytes; its offset counts from the first element."""

    sizes: tuple[int, ...]
    strides: tuple[int, ...]
    offset: int


def in_bytes(geometry: Geometry, size: int) -> ViewLayout:
    """A geometry that counts in elements of `size` bytes."""
    return ViewLayout(geometry.sizes, tuple([s * size for s in geometry.strides]), geometry.offset * size)


def window(array: Any, geometry: Geometry, dtype: Any = None) -> Any:
    """The view of `array`'s memory that `geometry` describes, its offset counted from `array`'s first element.

    With `dtype`, the memory is read as elements of that numpy dtype, which the geometry then counts in.
    """
    dtype = array.dtype if dtype is None else dtype
    return laid_out(array, in_bytes(geometry, dtype.itemsize), dtype)


def laid_out(array: Any, layout: ViewLayout, dtype: Any) -> Any:
    """The view of `array`'s memory as elements of a numpy dtype that lie as `layout` says."""
    sizes, strides, offset = layout
    if not isinstance(array, np.ndarray):
        return type(array)(sizes, dtype, moved(array.data, offset), strides)
    if dtype is array.dtype:  # several times as fast
        try:
            if array.flags.c_contiguous:
                return np.ndarray(sizes, dtype, array, offset, strides)
            whole = array.base
            if type(whole) is np.ndarray and whole.dtype is dtype and _are_alike(whole.flags, array.flags):
                start = address_of(array) - address_of(whole)
                return np.ndarray(sizes, dtype, whole, start + offset, strides)
        except ValueError:  # it goes beyond the array, or the dtype is none of numpy's own
            pass
    interface = {
        "version": 3,
        "shape": sizes,
        "strides": strides,
        "typestr": typestr_of(dtype),
        "data": (address_of(array) + offset, not array.flags.writeable),
    }
    return seen(array, interface, dtype)


def _are_alike(whole: Any, part: Any) -> bool:
    """Whether a part may be written to just as the whole, whose memory has no gaps, by the flags of both."""
    return whole.c_contiguous and whole.writeable == part.writeable


def typestr_of(dtype: Any) -> str:
    """The name of a numpy dtype in numpy's array interface, which has none for those of ml_dtypes."""
    return str(dtype.str) if dtype.isbuiltin != 2 else f"V{dtype.itemsize}"


def seen(owner: Any, interface: dict[str, Any], dtype: Any) -> Any:
    """The array that numpy's array interface describes; it keeps `owner`, whose memory it is, alive."""
    view = np.asarray(_StridedWindow(owner, interface))
    return view if view.dtype == dtype else view.view(dtype)


def restrided(array: Any, sizes: tuple[int, ...]) -> Any:
    """`array`'s memory seen with other, contiguous sizes; a longer copy of it, zeros behind, where it is too short."""
    geometry, start, held = Geometry.contiguous(sizes), offset_of(array), room_of(array)[1] // array.itemsize
    if array.itemsize * max(start + geometry.numel, math.prod(filter(None, sizes))) > sys.maxsize:
        raise ShapeError(f"a tensor of sizes {list(sizes)} is larger than any memory; pass smaller sizes")
    if start + geometry.numel <= held:
        return window(array, geometry)
    longer = type(array)((start + geometry.numel,), array.dtype)
    longer[:held], longer[held:] = window(array, Geometry((held,), (1,), -start)), 0
    return window(longer, geometry._replace(offset=start))


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
