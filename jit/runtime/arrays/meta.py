"""Arrays without elements, for the device "meta": sizes, strides and a dtype, and operators that follow type rules.

Note [Arrays without elements]
    `device="meta"` asks what an operator would give without computing it: a model of any size can be made, moved, and
    run for its shapes. The registry has a rule for the type of every result, which graphs need anyway, so the library
    of this device is these rules; views are the geometry that they are everywhere. What looks at elements finds none:
    the methods that would hand them out raise `NoElementsError`, whoever calls them.

    Memory is nothing but an address that no other memory has, and a number of bytes, so that what shares memory, and
    what lies inside of it, is told as of other arrays. Addresses are beyond all that a processor has.
"""

from __future__ import annotations

import itertools
import math
import sys
from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager, nullcontext
from typing import Any, NamedTuple, NoReturn

import numpy as np

from jit.ir.devices import META
from jit.ir.dtypes import DType, from_numpy
from jit.ir.errors import Error, NoElementsError, ShapeError, UsageError
from jit.ir.geometry import Geometry
from jit.ir.op import Op, strides_of
from jit.ir.types import GENERATOR, TensorType, Type, contiguous_strides, is_contiguous

from . import libraries
from .arrays import geometry_of, window

ROOM = 1 << 64
"""Memory begins at multiples of this."""


class MetaMemory:
    """Stands for the memory of an array and its views.

    Args:
        size: Its bytes.
    """

    __slots__ = ("__weakref__", "ptr", "size")
    _places = itertools.count(ROOM, ROOM)

    def __init__(self, size: int) -> None:
        self.ptr, self.size = next(self._places), size


class MetaPlace(NamedTuple):
    """A place in such memory, which answers what is asked of one on a GPU."""

    mem: MetaMemory
    offset: int = 0
    """The distance from the start, in bytes."""

    @property
    def device_id(self) -> int:
        """The number of the device."""
        return LIBRARY.index

    @property
    def ptr(self) -> int:
        """The address."""
        return self.mem.ptr + self.offset

    def __add__(self, step: Any) -> Any:
        return MetaPlace(self.mem, self.offset + step)


class MetaFlags(NamedTuple):
    """The facts that numpy calls flags."""

    c_contiguous: bool
    writeable: bool = True


class MetaArray:
    """An array without elements, which answers as numpy's do as long as nobody looks for these.

    Args:
        shape: Its sizes.
        dtype: The numpy dtype that its elements would have.
        place: Where it lies; memory of its own if None.
        strides: In bytes; row-major if None.
    """

    __hash__ = None  # type: ignore[assignment]  # as numpy's: what is looked up by value has no place for it

    def __init__(self, shape: Any, dtype: Any, place: MetaPlace | None = None, strides: Any = None) -> None:
        self.shape: tuple[int, ...] = tuple(shape)
        self.dtype = dtype
        self.itemsize: int = dtype.itemsize
        self.ndim = len(self.shape)
        self.size = math.prod(self.shape)
        self.nbytes = self.size * self.itemsize
        if self.nbytes > sys.maxsize:
            raise ShapeError(f"a tensor of sizes {list(self.shape)} is larger than any memory; pass smaller sizes")
        rows = tuple([step * self.itemsize for step in contiguous_strides(self.shape)])
        self.strides: tuple[int, ...] = rows if strides is None else tuple(strides)
        self.data = MetaPlace(MetaMemory(self.nbytes)) if place is None else place
        """The place of its first element."""

    @property
    def flags(self) -> MetaFlags:
        """Whether it is row-major, and may be written to."""
        return MetaFlags(is_contiguous(self.shape, tuple([step // self.itemsize for step in self.strides])))

    def copy(self) -> MetaArray:
        """Another array of this kind, row-major."""
        return MetaArray(self.shape, self.dtype)

    def __len__(self) -> int:
        return self.shape[0]

    def __getitem__(self, key: Any) -> MetaArray:
        geometry, taken = geometry_of(self), []
        keys = key if isinstance(key, tuple) else (key,)
        for dim, item in enumerate(keys[:-1] if keys[-1] is ... else keys):
            if not isinstance(item, (int, slice)):
                self._refuse()
            one = slice(item, item + 1) if isinstance(item, int) else item
            start, stop, step = one.indices(self.shape[dim])
            geometry = geometry.window(dim, start, len(range(start, stop, step)), step)
            taken += [dim] if isinstance(item, int) else []
        part: MetaArray = window(self, geometry.drop(tuple(taken)))
        return part

    def __setitem__(self, key: Any, value: Any) -> None:
        """Nothing: there is nowhere to write to."""

    def __array_ufunc__(self, ufunc: Any, method: str, *inputs: Any, out: Any = (), **kwargs: Any) -> Any:
        """The array that a function of numpy's is to write to, which is as good before as after."""
        return out[0] if out else self._refuse()

    def __array_function__(self, function: Any, types: Any, args: Any, kwargs: Any) -> bool:
        """Whether arrays share memory; a copy into such an array has nowhere to write to."""
        memory, *other = [array.data.mem if isinstance(array, MetaArray) else None for array in args]
        if function is not np.may_share_memory and (function is not np.copyto or memory is None):
            self._refuse()
        return other == [memory]

    def __reduce__(self) -> Any:
        return MetaArray, (self.shape, self.dtype, None, self.strides)

    def _refuse(self, *args: Any, **kwargs: Any) -> NoReturn:
        raise NoElementsError(
            "a tensor on 'meta' has sizes and a dtype, but no elements to look at; make it on 'cpu', or give its "
            "module memory with to_empty(device='cpu')"
        )

    get = item = tolist = astype = _refuse
    __array__ = __bool__ = __int__ = __float__ = __complex__ = __index__ = __dlpack__ = __dlpack_device__ = _refuse


# -- the library -------------------------------------------------------------------------------------------------


class MetaMath:
    """The functions of numpy's that are called by others than operators."""

    def empty(self, shape: Any, dtype: Any) -> MetaArray:
        """An array."""
        return MetaArray(shape, dtype)

    def copyto(self, array: MetaArray, source: Any, casting: str = "") -> None:
        """Nothing: there is nowhere to write to."""

    def strided(self, x: MetaArray, sizes: Any, offset: int, strides: Any, dtype: Any = None) -> MetaArray:
        """The memory of x from `offset` on with these sizes and strides, all in bytes but the sizes."""
        return MetaArray(sizes, dtype or x.dtype, x.data + offset, strides)


class MetaLibrary:
    """The arrays without elements; see Note [Arrays without elements]."""

    device = META.type
    array: Any = MetaArray
    math: Any = MetaMath()
    has_elements = False
    index = 0
    """The number of the device among those of its kind."""

    def current(self) -> AbstractContextManager[Any]:
        """Nothing: there is one such device."""
        return nullcontext()

    def is_current(self) -> bool:
        """True: there is one such device."""
        return True

    def taken(self, value: Any) -> Any:
        """An array like a number, or an array of any device, without elements; itself if it is here."""
        if isinstance(value, MetaArray):
            return value
        given = value if libraries.is_array(value) else np.asarray(value)
        return MetaArray(given.shape, given.dtype, None, given.strides)

    def row_major(self, array: Any) -> Any:
        """An array of this kind in row-major order."""
        return array.copy()

    def is_writable(self, array: Any) -> bool:
        """True: nothing is lost."""
        return True

    def borrowed(self, lender: Any, copy: bool | None) -> Any:
        """Refused: no library lends memory without elements."""
        raise UsageError("memory of other libraries has elements; make a tensor of it, and then call to('meta')")

    def kernel(self, nest: Any) -> Callable[[Sequence[Any], Sequence[Any]], None]:
        """A kernel that does nothing."""
        return lambda outputs, inputs: None

    def failure(self, error: Exception, what: str) -> Error | None:
        """None: it has no errors of its own."""
        return None

    def computed(self, op: Op, values: Sequence[Any]) -> list[Any] | None:
        """Arrays of the types that the results of an operator have; None for a view, which has its geometry.

        Raises:
            NoElementsError: The sizes of a result depend on elements.
        """
        if op.kind == "view":
            return None
        results = op.infer([_type_of(value) for value in values])
        return [_array_of(op, type) for type in results if type is not GENERATOR]

    def has_convolutions(self, dtype: DType) -> bool:
        """False: nothing is computed."""
        return False


def _type_of(value: Any) -> Any:
    """The type of an array, or of each in a list; whatever else, as it is."""
    if isinstance(value, (tuple, list)):
        return type(value)(map(_type_of, value))
    if not libraries.is_array(value):
        return value
    strides = None if value.flags.c_contiguous else geometry_of(value).strides
    return TensorType(from_numpy(value.dtype), value.shape, strides, libraries.library_of(value).device)


def _array_of(op: Op, type: Type) -> MetaArray | None:
    """An array of a type; None for a result that is undefined."""
    if not isinstance(type, TensorType):
        return None
    if type.sizes is None or type.dtype is None:
        raise NoElementsError(
            f"{op.schema.name}: the sizes of its result depend on elements, and tensors on 'meta' have none; "
            "call it on 'cpu'"
        )
    made: MetaArray = window(MetaArray(type.sizes, type.dtype.numpy), Geometry(type.sizes, strides_of(type)))
    return made


LIBRARY = MetaLibrary()
libraries.add_library(MetaArray, lambda array: LIBRARY, MetaArray.get)
