"""Places in objects of CPython and numpy, and the functions of both that native code calls.

Note [What native code relies on]
    It calls CPython's public functions by address and reads five things directly: the type of an object; data, number
    of dims, sizes, strides, dtype and flags of a numpy array (all fixed by numpy's binary interface); the first item of
    a tuple; slots of our own classes, whose places Python tells; and the `__mro__` and `__qualname__` of a class, whose
    places are searched for. None of this holds on free-threaded or 32-bit builds or on other interpreters, so
    `available()` tries it out; without it plans run through ctypes.
"""

from __future__ import annotations

import ctypes
import importlib
from functools import cache
from typing import Any

import numpy as np

TYPE, DATA, NDIM, DIMS, STRIDES, DTYPE, FLAGS = 8, 16, 24, 32, 40, 56, 64
"""Offsets of fields in an object and in a numpy array, in bytes."""
FIRST_ITEM = 24
"""The offset of the items of a tuple: behind its reference count, type and size."""
WRITEABLE = 0x400
"""A flag of arrays."""
FASTCALL = 0x80
"""A flag of functions: they get an array of arguments and their number."""

FUNCTIONS = (
    "Py_IncRef", "Py_DecRef", "PyContextVar_Get", "PyDict_GetItemWithError", "PyErr_Clear", "PyCell_Get",
    "PyObject_Size", "PyObject_CallNoArgs", "PyObject_Call", "PyObject_CallOneArg", "PyEval_SaveThread",
    "PyEval_RestoreThread", "PyTuple_New", "PyTuple_SetItem", "PyType_GenericAlloc", "PyLong_FromLongLong",
    "PyMem_RawMalloc", "PyMem_RawFree", "PyObject_GenericGetDict", "PyDict_Size", "PyDict_Next",
    "PyList_GetItem", "PyFunction_GetDefaults",
    "PyFunction_GetKwDefaults", "PyFunction_GetCode",
)  # fmt: skip
"""The functions that are called, in the order of the table of addresses."""


def function_address(name: str) -> int:
    """The address of a function of CPython."""
    return ctypes.cast(getattr(ctypes.pythonapi, name), ctypes.c_void_p).value or 0


@cache
def function_table() -> Any:
    """The addresses of FUNCTIONS."""
    return np.array([function_address(name) for name in FUNCTIONS], np.int64)


@cache
def array_allocator() -> int:
    """The address of numpy's `PyArray_Empty(ndim, sizes, dtype, is_fortran)`, which compiled modules find in the same
    way: `np.empty` takes as long to read its arguments as to do it. 0 if there is none to be found."""
    try:
        numpy_c: Any = importlib.import_module("numpy._core._multiarray_umath")
    except ImportError:
        return 0
    pointer = ctypes.PYFUNCTYPE(ctypes.c_void_p, ctypes.py_object, ctypes.c_char_p)(
        ("PyCapsule_GetPointer", ctypes.pythonapi)
    )
    functions = (ctypes.c_void_p * (_PYARRAY_EMPTY + 1)).from_address(pointer(numpy_c._ARRAY_API, None))
    return functions[_PYARRAY_EMPTY] or 0


_PYARRAY_EMPTY = 184
"""The index of `PyArray_Empty` in numpy's table of functions, which compiled modules rely on."""


@cache
def lineage_offsets() -> tuple[int, int]:
    """The offsets at which a class keeps its `__mro__` and its `__qualname__`, in bytes."""
    kind: Any = type("Kind", (), {"__qualname__": "a name that nobody else has"})
    count = type.__dict__["__basicsize__"].__get__(type) // 8  # the fields of a class that is made by a class statement
    words = np.ctypeslib.as_array((ctypes.c_int64 * count).from_address(id(kind)))
    found = [np.flatnonzero(words == id(held)) for held in (kind.__mro__, kind.__qualname__)]
    return 8 * int(found[0][0]), 8 * int(found[1][0])


def slot_offset(kind: type, name: str) -> int:
    """The offset at which the instances of a class with `__slots__` keep an attribute, in bytes."""
    member = ctypes.c_int64.from_address(id(kind.__dict__[name]) + 40).value  # PyMemberDescrObject.d_member
    text, offset = ctypes.c_char_p.from_address(member).value, ctypes.c_int64.from_address(member + 16).value
    if text is None or text.decode() != name:
        raise RuntimeError(f"{kind.__name__}.{name} is not where it is expected")
    return offset
