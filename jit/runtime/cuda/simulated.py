"""Arrays that behave as CuPy's do, in the memory of the CPU: for tests of `device="cuda"` where there is no GPU.

They cannot be read as numpy arrays without a transfer, do not mix with numpy arrays, and know only such functions of
numpy's as CuPy has, with the arguments that CuPy takes (see `cupy_limits`), so that code which runs on them is code
that runs on a GPU's.
"""

from __future__ import annotations

import itertools
import time
from collections.abc import Callable
from functools import cache, cached_property
from types import ModuleType
from typing import Any, ClassVar
from weakref import WeakValueDictionary

import numpy as np
from numpy.lib.mixins import NDArrayOperatorsMixin

from ..arrays.arrays import address_of, owner_of
from ..arrays.dlpack import CPU, CUDA, VERSION, borrow, lend
from .cupy_limits import ABSENT, ABSENT_LINALG, METHODS, SPECIAL, refuse, refuse_dtype, refuse_key

TOTAL = 1 << 34
"""The bytes of memory that the device says it has."""
FACTS = frozenset(("ndim", "size", "itemsize", "nbytes", "flags"))

# -- memory ------------------------------------------------------------------------------------------------------


ROOM = 1 << 32
"""Allocations begin at multiples of this. No address is given twice, so that one that is out of date is noticed."""


class SimulatedOutOfMemory(MemoryError):
    """The error that CuPy calls OutOfMemoryError."""


class Memory:
    """An allocation: memory of the CPU that stands for memory of a GPU, at a made-up address, 0 if it has no bytes."""

    _places = itertools.count(0x7F00_0000_0000, ROOM)

    def __init__(self, owner: Any) -> None:
        self.owner, self.size, self.ptr = owner, 0, next(self._places) if owner.nbytes else 0
        self.runtime = _RUNTIME  # at a process's end the module's names are gone before the last arrays are
        if _RUNTIME.used + owner.nbytes > _RUNTIME.total:
            raise SimulatedOutOfMemory(f"out of memory allocating {owner.nbytes} bytes")
        self.size = owner.nbytes
        _RUNTIME.used += self.size
        if self.size:
            _PLACED[self.ptr] = self

    def __del__(self) -> None:
        self.runtime.used -= self.size


_MEMORY: WeakValueDictionary[int, Memory] = WeakValueDictionary()
"""The allocations, by the numpy arrays that own them."""
_PLACED: WeakValueDictionary[int, Memory] = WeakValueDictionary()
"""The allocations, by their addresses."""


def memory_at(address: int) -> Memory | None:
    """The allocation that an address lies in, or points right behind; None if there is none, or it was freed."""
    found = _PLACED.get(address - address % ROOM)
    return found if found is not None and address <= found.ptr + found.size else None


def _memory_of(elements: Any) -> Memory:
    owner = owner_of(elements)
    found = _MEMORY.get(id(owner))
    if found is None:
        found = _MEMORY[id(owner)] = Memory(owner)
        _RUNTIME.allocator(found.size)
    return found


class MemoryPointer:
    """A place in an allocation."""

    device_id = 0
    """The number of the device."""

    def __init__(self, mem: Memory, offset: int) -> None:
        assert mem.ptr or not offset, "a place behind no memory"
        self.mem, self.offset, self.ptr = mem, offset, mem.ptr + offset

    def __add__(self, step: int) -> MemoryPointer:
        return MemoryPointer(self.mem, self.offset + step)

    def seen(self, shape: Any, dtype: Any, strides: Any) -> Any:
        """The elements that lie here, as numpy sees them."""
        if np.prod(shape) == 0:
            return np.empty(shape, dtype)
        raw = self.mem.owner.ravel(order="K").view(np.uint8)
        plain = dtype if dtype.isbuiltin == 1 else np.dtype(f"u{dtype.itemsize}")
        return np.ndarray(shape, plain, raw, self.offset, strides).view(dtype)


def at_address(lender: Any, interface: dict[str, Any], dtype: Any) -> SimulatedArray:
    """The array that CUDA's array interface describes."""
    if 0 in interface["shape"]:
        return SimulatedArray(interface["shape"], dtype)
    address, _ = interface["data"]
    memory = memory_at(address)
    assert memory is not None, "it describes memory that was freed"
    place = MemoryPointer(memory, address - memory.ptr)
    return SimulatedArray(interface["shape"], dtype, place, interface["strides"])


# -- arrays ------------------------------------------------------------------------------------------------------


class SimulatedArray(NDArrayOperatorsMixin):
    """An array on the simulated device.

    Args:
        shape: Its sizes.
        dtype: The dtype of its elements.
        memptr: Where it lies; memory of its own if None.
        strides: In bytes; row-major if None.
    """

    def __init__(
        self, shape: Any, dtype: Any = float, memptr: MemoryPointer | None = None, strides: Any = None
    ) -> None:
        dtype = np.dtype(dtype)
        elements = np.empty(shape, dtype) if memptr is None else memptr.seen(shape, dtype, strides)
        self._hold(elements)

    def _hold(self, elements: Any) -> None:
        self._elements = elements
        self._memory = _memory_of(elements)

    @property
    def dtype(self) -> Any:
        """The dtype of its elements."""
        return self._elements.dtype

    @property
    def shape(self) -> tuple[int, ...]:
        """The sizes of its dims."""
        return self._elements.shape

    @property
    def strides(self) -> tuple[int, ...]:
        """The steps along its dims, in bytes."""
        return self._elements.strides

    @cached_property
    def data(self) -> MemoryPointer:
        """The place of its first element."""
        owner = self._memory.owner
        is_first = self._elements is owner or not self._memory.ptr
        return MemoryPointer(self._memory, 0 if is_first else address_of(self._elements) - address_of(owner))

    @property
    def device(self) -> SimulatedDevice:
        """The device."""
        return SimulatedDevice(0)

    @property
    def __cuda_array_interface__(self) -> dict[str, Any]:
        """The facts that other libraries ask of an array on a GPU."""
        strides = None if self._elements.flags.c_contiguous else self._elements.strides
        return {
            "shape": self._elements.shape, "typestr": self._elements.dtype.str, "strides": strides, "version": 3,
            "data": (self.data.ptr, False), "stream": 1,
        }  # fmt: skip

    def __dlpack__(
        self, *, stream: Any = None, max_version: Any = None, dl_device: Any = None, copy: bool | None = None
    ) -> Any:
        if dl_device is not None and dl_device[0] == CPU:
            return lend(self.get(), max_version)
        if copy:
            raise BufferError("copy=True only supported for copy to CPU.")
        return lend(self, max_version, copy, CUDA)

    def __dlpack_device__(self) -> tuple[int, int]:
        return CUDA, 0

    def get(self) -> Any:
        """A copy for numpy: a transfer."""
        return self._elements.copy()

    def set(self, array: Any) -> None:
        """Fill it from a numpy array of its dtype and sizes: a transfer."""
        if not isinstance(array, np.ndarray) or array.dtype != self.dtype:
            raise TypeError("arrays on the simulated device are set to numpy arrays of their dtype")
        if array.shape != self.shape:
            raise ValueError(f"an array of sizes {self.shape} on the simulated device is not set to {array.shape}")
        self._elements[...] = array

    def item(self) -> Any:
        """The only element as a Python number, which waits for it."""
        return self._elements.item()

    def tolist(self) -> Any:
        """The elements as nested lists, which waits for them."""
        return self._elements.tolist()

    @property
    def T(self) -> Any:
        """The transposed array."""
        return wrapped(self._elements.T)

    @property
    def real(self) -> Any:
        """The real parts."""
        return wrapped(self._elements.real)

    @real.setter
    def real(self, value: Any) -> None:
        self._elements.real = _lowered(value)

    @property
    def imag(self) -> Any:
        """The imaginary parts."""
        return wrapped(self._elements.imag)

    @imag.setter
    def imag(self, value: Any) -> None:
        self._elements.imag = _lowered(value)

    def __getattr__(self, name: str) -> Any:
        if name in FACTS:
            return getattr(self._elements, name)
        if name in METHODS:
            return _lifted(getattr(self._elements, name))
        raise AttributeError(f"arrays on the simulated device have no {name!r}")

    def __array__(self, *args: Any, **kwargs: Any) -> Any:
        raise TypeError("an array on the simulated device is read without a transfer; use get()")

    def __array_ufunc__(self, ufunc: Any, method: str, *inputs: Any, **kwargs: Any) -> Any:
        return _lifted(getattr(ufunc, method))(*inputs, **kwargs)

    def __array_function__(self, function: Any, types: Any, args: Any, kwargs: Any) -> Any:
        if function.__name__ in ABSENT:
            return NotImplemented
        return _lifted(function)(*args, **kwargs)

    def __getitem__(self, key: Any) -> Any:
        refuse_key(key, SimulatedArray)
        return wrapped(self._elements[_in_range(_lowered(key), self.shape)])

    def __setitem__(self, key: Any, value: Any) -> None:
        refuse_key(key, SimulatedArray)
        if isinstance(value, (list, tuple)):
            raise TypeError("a list put into an array on the simulated device; use asarray() first")
        self._elements[_in_range(_lowered(key), self.shape)] = _lowered(value)

    def __len__(self) -> int:
        return len(self._elements)

    def __bool__(self) -> bool:
        return bool(self._elements)

    def __int__(self) -> int:
        return int(self._elements)

    def __float__(self) -> float:
        return float(self._elements)

    def __complex__(self) -> complex:
        return complex(self._elements)

    def __index__(self) -> int:
        return self._elements.__index__()

    def __iter__(self) -> Any:
        return (self[i] for i in range(len(self)))

    def __repr__(self) -> str:
        return f"simulated({self._elements!r})"

    def __reduce__(self) -> Any:
        return wrapped, (self._elements,)


def wrapped(value: Any) -> Any:
    """Arrays and numpy's numbers in a result as arrays on the device."""
    if isinstance(value, (np.ndarray, np.generic)):
        refuse_dtype(value.dtype)
        made: Any = object.__new__(SimulatedArray)
        made._hold(np.asarray(value))
        return made
    if type(value) in (tuple, list):
        return type(value)(map(wrapped, value))
    if isinstance(value, tuple):  # a named one
        return type(value)(*map(wrapped, value))
    return value


def _lowered(value: Any) -> Any:
    """The operands of a call as numpy's; TypeError if one is a numpy array."""
    if isinstance(value, SimulatedArray):
        return value._elements
    if isinstance(value, np.ndarray):
        raise TypeError("a numpy array among operands on the simulated device; use asarray() first")
    if type(value) in (tuple, list):
        return type(value)(map(_lowered, value))
    return value


def _in_range(key: Any, shape: tuple[int, ...]) -> Any:
    """A key whose arrays of integers count around a dim, as CuPy's do: it does not refuse an index."""
    made, dim = [], 0
    for part in key if isinstance(key, tuple) else (key,):
        if isinstance(part, np.ndarray) and part.dtype.kind in "iu":
            part = part % max(shape[dim], 1)
        elif part is Ellipsis or isinstance(part, list):
            return key
        dim += part.ndim if isinstance(part, np.ndarray) and part.dtype.kind == "b" else part is not None
        made.append(part)
    return tuple(made) if isinstance(key, tuple) else made[0]


def _lifted(function: Any) -> Callable[..., Any]:
    """A function of numpy's, or a method, for arrays on the device; ufuncs make row-major arrays there."""
    if getattr(function, "__name__", "") == "__call__":
        function = function.__self__
    is_ufunc = isinstance(function, np.ufunc)

    def call(*args: Any, **kwargs: Any) -> Any:
        refuse(function, args, kwargs, SimulatedArray)
        out = kwargs.get("out")
        options = {name: _lowered(value) for name, value in kwargs.items()}
        if is_ufunc and function.signature is None:
            options["order"] = "C"
        result = function(*map(_lowered, args), **options)
        if out is not None:
            return out[0] if isinstance(out, tuple) else out
        return wrapped(result)

    return call


# -- functions ---------------------------------------------------------------------------------------------------


class DeviceFunctions:
    """The functions of a module for arrays on the device.

    Args:
        module: numpy, or a module with functions of arrays.
        absent: Names of it that there are not.
        known: The only names of it that there are, if not None.
    """

    def __init__(self, module: ModuleType, absent: frozenset[str] = frozenset(), known: Any = None) -> None:
        self._module, self._absent, self._known = module, absent, known

    def __getattr__(self, name: str) -> Any:
        if name in self._absent or (self._known is not None and name not in self._known):
            raise AttributeError(f"the simulated device has no {self._module.__name__}.{name}, as CuPy has none")
        found = getattr(self._module, name)
        if isinstance(found, ModuleType):
            found = DeviceFunctions(found, ABSENT_LINALG if name == "linalg" else frozenset())
        elif isinstance(found, np.ufunc):
            found = DeviceFunction(found)
        elif callable(found) and not isinstance(found, type):
            found = _lifted(found)
        setattr(self, name, found)
        return found


class DeviceFunction:
    """A ufunc for arrays on the device."""

    def __init__(self, ufunc: np.ufunc) -> None:
        self._ufunc = ufunc

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        return _lifted(self._ufunc)(*args, **kwargs)

    def __getattr__(self, name: str) -> Any:
        found = getattr(self._ufunc, name)
        return _lifted(found) if callable(found) else found


class Queue:
    """A stream, in which all is done as soon as it is asked for.

    Args:
        null: Whether it is the default one.
        non_blocking: Accepted.
        priority: Accepted.
    """

    _numbers = itertools.count(3)
    _current: ClassVar[list[Queue]] = []
    null: ClassVar[Queue]
    device_id = 0
    done = True

    def __init__(self, null: bool = False, non_blocking: bool = False, priority: int | None = None) -> None:
        self.ptr = 0 if null else next(self._numbers)

    def __enter__(self) -> Queue:
        self._current.append(self)
        return self

    def __exit__(self, *error: Any) -> None:
        self._current.pop()

    def use(self) -> Queue:
        """Make it the current one."""
        self._current[-1:] = [self]
        return self

    def synchronize(self) -> None:
        """Wait for nothing."""

    def wait_event(self, event: Moment) -> None:
        """Wait for nothing."""


Queue.null = Queue(null=True)


class Moment:
    """An event: the time at which it was recorded.

    Args:
        block: Accepted.
        disable_timing: Accepted.
        interprocess: Accepted.
    """

    done = True

    def __init__(self, block: bool = False, disable_timing: bool = False, interprocess: bool = False) -> None:
        self.time = 0.0

    def record(self, stream: Queue) -> None:
        """Note the time."""
        self.time = time.perf_counter()

    def synchronize(self) -> None:
        """Wait for nothing."""


class _Runtime:
    """A stand-in for `cupy.cuda`, what is in it, and pools of memory."""

    Stream, Event = Queue, Moment

    class CUDARuntimeError(RuntimeError):
        """An error of CUDA's runtime."""

        status = 0

    CUDADriverError = CUDARuntimeError

    def __init__(self) -> None:
        self.runtime = self.driver = self
        self.used, self.total = 0, TOTAL
        self.allocator: Callable[[int], Any] = lambda size: None

    def get_current_stream(self, device: int = -1) -> Queue:
        """The stream of the innermost block."""
        return Queue._current[-1] if Queue._current else Queue.null

    def get_elapsed_time(self, start: Moment, end: Moment) -> float:
        """The milliseconds between two events."""
        return (end.time - start.time) * 1000

    def getDevice(self) -> int:
        """The number of the device."""
        return 0

    def getDeviceProperties(self, index: int) -> dict[str, Any]:
        """The facts of the device."""
        return {
            "name": b"a simulated GPU", "major": 9, "minor": 0, "totalGlobalMem": TOTAL, "multiProcessorCount": 132,
            "warpSize": 32, "maxThreadsPerMultiProcessor": 2048, "sharedMemPerBlock": 49152, "l2CacheSize": 1 << 25,
        }  # fmt: skip

    def alloc_pinned_memory(self, size: int) -> bytearray:
        """Memory of the CPU."""
        return bytearray(size)

    def used_bytes(self) -> int:
        """The bytes of all allocations."""
        return self.used

    def free_all_blocks(self) -> None:
        """Free nothing: no memory is kept."""

    def get_allocator(self) -> Callable[[int], Any]:
        """The function that allocates."""
        return self.allocator

    def set_allocator(self, allocator: Callable[[int], Any]) -> None:
        """Let this function be told of every allocation."""
        self.allocator = allocator


_RUNTIME = _Runtime()


class SimulatedLibrary(DeviceFunctions):
    """A stand-in for the module `cupy`."""

    ndarray = SimulatedArray
    cuda = _RUNTIME

    def get_default_memory_pool(self) -> _Runtime:
        """The allocations."""
        return self.cuda

    get_default_pinned_memory_pool = get_default_memory_pool

    def __init__(self) -> None:
        super().__init__(np, ABSENT)

    def empty(self, shape: Any, dtype: Any = float) -> SimulatedArray:
        """An array of whatever its memory held, which nobody may rely on: NaN, and large numbers."""
        made = np.empty(shape, dtype)
        made.reshape(-1).view(np.uint8)[...] = 0xFF
        return wrapped(made)

    def asarray(self, value: Any, dtype: Any = None) -> SimulatedArray:
        """A copy on the device of numbers or a numpy array; an array that is there as it is."""
        described = None if isinstance(value, SimulatedArray) else getattr(value, "__cuda_array_interface__", None)
        if described is not None:
            value = at_address(value, described, np.dtype(described["typestr"]))
        if isinstance(value, SimulatedArray) and dtype in (None, value.dtype):
            return value
        return self.array(value, dtype)

    def from_dlpack(self, lender: Any, *, device: Any = None, copy: bool | None = None) -> SimulatedArray:
        """An array of the memory that an object, or a capsule of it, lends."""
        if hasattr(lender, "__dlpack__"):
            lender = lender.__dlpack__(stream=1, max_version=VERSION, copy=copy)
        return wrapped(borrow(lender, (CUDA,), at_address))

    def array(self, value: Any, dtype: Any = None, copy: bool = True, order: Any = "K") -> Any:
        """A copy on the device."""
        if isinstance(value, (tuple, list)):
            value = [v.item() if isinstance(v, SimulatedArray) and v.ndim == 0 else v for v in value]
        return wrapped(np.array(value._elements if isinstance(value, SimulatedArray) else value, dtype, order=order))

    def ascontiguousarray(self, value: Any, dtype: Any = None) -> Any:
        """A row-major array on the device of numbers or an array."""
        return wrapped(np.ascontiguousarray(self.asarray(value, dtype)._elements))

    def asnumpy(self, array: SimulatedArray) -> Any:
        """A copy for numpy: a transfer."""
        return array.get()


class SimulatedDevice:
    """The device: there is one.

    Args:
        id: Its number.
    """

    def __init__(self, id: int) -> None:
        self.id = id
        self.compute_capability = "90"
        self.attributes = {"MultiProcessorCount": 4}

    @property
    def mem_info(self) -> tuple[int, int]:
        """The bytes that are free, and all that there are."""
        return _RUNTIME.total - _RUNTIME.used, _RUNTIME.total

    def synchronize(self) -> None:
        """Wait for nothing."""

    def __enter__(self) -> SimulatedDevice:
        return self

    def __exit__(self, *error: Any) -> None:
        pass


@cache
def library() -> Any:
    """The stand-in for `cupy`."""
    return SimulatedLibrary()


@cache
def special() -> Any:
    """A stand-in for `cupyx.scipy.special`."""
    from scipy import special

    return DeviceFunctions(special, known=SPECIAL)


@cache
def lapack() -> Any:
    """A stand-in for `cupyx.scipy.linalg`."""
    from scipy import linalg

    return DeviceFunctions(
        linalg, known=frozenset(("expm", "khatri_rao", "lu", "lu_factor", "lu_solve", "solve_triangular"))
    )
