"""DLPack, by which array libraries lend each other memory: capsules from numpy arrays, and arrays from capsules.

numpy has it too, but without bfloat16 and, in the old protocol, without read-only memory. This module has both
protocols (DLManagedTensor, and since version 1 DLManagedTensorVersioned with its flags), for memory that the CPU
reaches. Memory of a GPU is lent and borrowed by the library of its arrays.
"""

from __future__ import annotations

import ctypes
from collections.abc import Callable
from typing import Any

import ml_dtypes
import numpy as np

from jit.ir.errors import Error

from .arrays import address_of, seen, typestr_of

VERSION = (1, 1)
"""The newest version of the protocol that this module has."""
CPU, CUDA, CUDA_HOST, CUDA_MANAGED = 1, 2, 3, 13
"""Kinds of devices."""
REACHED = (CPU, CUDA_HOST)
"""The kinds whose memory the CPU reaches."""
GPUS = (CUDA, CUDA_MANAGED)
"""The kinds in whose memory arrays of CuPy's lie."""
READ_ONLY, COPIED = 1, 2
"""Bits of a versioned tensor's flags."""
OLD, NEW = b"dltensor", b"dltensor_versioned"
USED = {OLD: b"used_dltensor", NEW: b"used_dltensor_versioned"}
"""The names of capsules, and the names that they get once the memory is taken over."""


class ExchangeError(Error, BufferError):
    """Memory that cannot be lent, or a capsule whose memory cannot be used."""


# -- the structures of dlpack.h ----------------------------------------------------------------------------------


class _Device(ctypes.Structure):
    _fields_ = (("kind", ctypes.c_int32), ("number", ctypes.c_int32))


class _DataType(ctypes.Structure):
    _fields_ = (("code", ctypes.c_uint8), ("bits", ctypes.c_uint8), ("lanes", ctypes.c_uint16))


class _DLTensor(ctypes.Structure):
    _fields_ = (
        ("data", ctypes.c_void_p), ("device", _Device), ("ndim", ctypes.c_int32), ("dtype", _DataType),
        ("shape", ctypes.POINTER(ctypes.c_int64)), ("strides", ctypes.POINTER(ctypes.c_int64)),
        ("byte_offset", ctypes.c_uint64),
    )  # fmt: skip


_Deleter = ctypes.CFUNCTYPE(None, ctypes.c_void_p)


class _Managed(ctypes.Structure):
    _fields_ = (("tensor", _DLTensor), ("context", ctypes.c_void_p), ("deleter", _Deleter))


class _Versioned(ctypes.Structure):
    _fields_ = (
        ("major", ctypes.c_uint32), ("minor", ctypes.c_uint32), ("context", ctypes.c_void_p), ("deleter", _Deleter),
        ("flags", ctypes.c_uint64), ("tensor", _DLTensor),
    )  # fmt: skip


_STRUCTURES: dict[bytes, Any] = {OLD: _Managed, NEW: _Versioned}
_CODES = {"i": 0, "u": 1, "f": 2, "c": 5, "b": 6}
_KINDS = {code: kind for kind, code in _CODES.items()}
_FLOATS = {
    np.dtype(ml_dtypes.bfloat16): 4, np.dtype(ml_dtypes.float8_e4m3fn): 10, np.dtype(ml_dtypes.float8_e4m3fnuz): 11,
    np.dtype(ml_dtypes.float8_e5m2): 12, np.dtype(ml_dtypes.float8_e5m2fnuz): 13,
    np.dtype(ml_dtypes.float8_e8m0fnu): 14,
}  # fmt: skip
"""Floats that numpy does not have, and their codes."""
_OTHERS = {(code, 8 * dtype.itemsize): dtype for dtype, code in _FLOATS.items()}


def _code_of(dtype: Any) -> _DataType:
    return _DataType(_FLOATS[dtype] if dtype in _FLOATS else _CODES[dtype.kind], 8 * dtype.itemsize, 1)


def _dtype_of(given: _DataType) -> Any:
    other = _OTHERS.get((given.code, given.bits))
    if given.lanes != 1 or (given.code not in _KINDS and other is None):
        raise ExchangeError(
            f"tensors hold no elements of DLPack's type {given.code} with {given.bits} bits and {given.lanes} lanes; "
            "convert them in the library that lends them"
        )
    return np.dtype(f"{_KINDS[given.code]}{given.bits // 8}") if other is None else other


# -- Python's capsules -------------------------------------------------------------------------------------------


def _api(name: str, result: Any, *arguments: Any) -> Any:
    return ctypes.PYFUNCTYPE(result, *arguments)((name, ctypes.pythonapi))


_Destructor = ctypes.PYFUNCTYPE(None, ctypes.c_void_p)
_new = _api("PyCapsule_New", ctypes.py_object, ctypes.c_void_p, ctypes.c_char_p, _Destructor)
# A destructor must not make new references to its capsule, so it handles the address, as do the functions it calls.
_name_at = _api("PyCapsule_GetName", ctypes.c_char_p, ctypes.c_void_p)
_pointer_at = _api("PyCapsule_GetPointer", ctypes.c_void_p, ctypes.c_void_p, ctypes.c_char_p)
_rename = _api("PyCapsule_SetName", ctypes.c_int, ctypes.py_object, ctypes.c_char_p)


# -- lending -----------------------------------------------------------------------------------------------------

_lent: dict[int, tuple[Any, ...]] = {}
"""Objects that must live as long as their memory is lent, by the address of the structure that describes it."""


@_Deleter  # type: ignore[untyped-decorator]
def _give_back(address: int | None) -> None:
    _lent.pop(address or 0, None)


@_Destructor  # type: ignore[untyped-decorator]
def _nobody_took_it(capsule: int) -> None:
    name = _name_at(capsule)
    if name in _STRUCTURES:
        _lent.pop(_pointer_at(capsule, name), None)


def lend(array: Any, max_version: Any = None, copy: bool | None = None, kind: int = CPU) -> Any:
    """A capsule through which others see `array`'s memory, or that of a copy.

    Args:
        array: What to lend.
        max_version: The newest protocol that the other side speaks; None: the one before versions.
        copy: True to lend a copy; False or None to lend the array's own memory.
        kind: The kind of device that it lies on.

    Raises:
        ExchangeError: The memory is read-only, the other side's protocol cannot say so, and no copy was asked for.
    """
    versioned = max_version is not None and max_version[0] >= VERSION[0]
    if not copy and not (array.flags.writeable or versioned):
        raise ExchangeError("this memory is read-only, which DLPack can say since version 1; clone() the tensor first")
    if copy:
        array = array.copy()
    name = NEW if versioned else OLD
    managed = _described(array, kind, _STRUCTURES[name]())
    if versioned:
        managed.major, managed.minor = VERSION
        managed.flags = (0 if array.flags.writeable else READ_ONLY) | (COPIED if copy else 0)
    managed.deleter = _give_back
    address = ctypes.addressof(managed)
    _lent[address] = (managed, array)
    return _new(address, name, _nobody_took_it)


def _described(array: Any, kind: int, managed: Any) -> Any:
    numbers = ctypes.c_int64 * max(array.ndim, 1)
    tensor = managed.tensor
    tensor.data, tensor.device, tensor.ndim = address_of(array), _Device(kind, 0), array.ndim
    tensor.dtype, tensor.byte_offset = _code_of(array.dtype), 0
    tensor.shape = numbers(*array.shape)
    tensor.strides = numbers(*(s // array.itemsize for s in array.strides))
    return managed


# -- borrowing ---------------------------------------------------------------------------------------------------


class _Loan:
    """Somebody else's memory, given back when the last array of it is gone."""

    def __init__(self, managed: Any) -> None:
        self.managed = managed

    def __del__(self) -> None:
        if self.managed.deleter:
            self.managed.deleter(ctypes.addressof(self.managed))


def device_of(lender: Any) -> tuple[int, int]:
    """The kind of device on which an object, or a capsule of it, lends memory, and the number among its kind."""
    if type(lender).__name__ == "PyCapsule":
        device = _opened(lender)[1].tensor.device
        return device.kind, device.number
    if not hasattr(lender, "__dlpack_device__"):
        return CPU, 0
    kind, number = lender.__dlpack_device__()
    return int(kind), int(number)


def borrow(capsule: Any, kinds: tuple[int, ...] = REACHED, make: Callable[..., Any] = seen) -> Any:
    """An array of the memory that a capsule lends; the capsule is used up.

    Args:
        capsule: What to borrow.
        kinds: The kinds of devices whose memory such arrays lie in.
        make: Makes the array, given the owner of the memory, numpy's array interface and the dtype; a numpy array if
            left out.

    Raises:
        ExchangeError: The memory cannot be used.
    """
    name, managed = _opened(capsule)
    if name == NEW and managed.major != VERSION[0]:
        raise ExchangeError(f"the capsule is of DLPack version {managed.major}; ask for one with max_version={VERSION}")
    tensor = managed.tensor
    if tensor.device.kind not in kinds:
        raise ExchangeError(
            f"the memory lies on a device of kind {tensor.device.kind}, which the CPU does not reach; pass a copy on it"
        )
    dtype = _dtype_of(tensor.dtype)
    _rename(capsule, USED[name])
    interface = _interface(tensor, dtype, name == NEW and bool(managed.flags & READ_ONLY))
    loan = _Loan(managed)
    return np.empty(interface["shape"], dtype) if 0 in interface["shape"] else make(loan, interface, dtype)


def _opened(capsule: Any) -> tuple[bytes, Any]:
    """The name of an unused capsule, and the structure in it."""
    name = _name_at(id(capsule)) if type(capsule).__name__ == "PyCapsule" else None
    if name not in _STRUCTURES:
        raise ExchangeError("this capsule lends no memory, or it was used already; ask its owner for a new one")
    return name, _STRUCTURES[name].from_address(_pointer_at(id(capsule), name))


def _interface(tensor: _DLTensor, dtype: Any, readonly: bool) -> dict[str, Any]:
    shape = tuple(tensor.shape[d] for d in range(tensor.ndim))
    return {
        "version": 3, "shape": shape, "typestr": typestr_of(dtype),
        "data": ((tensor.data or 0) + tensor.byte_offset, readonly),
        "strides": tuple(tensor.strides[d] * dtype.itemsize for d in range(len(shape))) if tensor.strides else None,
    }  # fmt: skip
