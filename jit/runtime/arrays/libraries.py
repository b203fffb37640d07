"""Libraries of arrays: what computes with the arrays of a device, in numpy's terms.

numpy itself serves the CPU. Others are added when a device is asked for the first time (jit.runtime.cuda), so a process
without one pays for them with a single test.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager, nullcontext
from typing import Any, Protocol

import numpy as np

from jit.ir.dtypes import DType
from jit.ir.errors import Error
from jit.ir.op import Op

from .array_math import numpy_math
from .large import row_major


class ArrayLibrary(Protocol):
    """A library that computes with the arrays of one device."""

    device: str
    """The device as graphs write it: "cpu", "cuda:0"."""
    array: Any
    """The class of its arrays."""
    math: Any
    """The namespace `m` of bodies: numpy's functions for these arrays."""
    has_elements: bool
    """Whether there is anything to compute with; else operators are but the types of their results."""

    def current(self) -> AbstractContextManager[Any]:
        """A block in which arrays are made on the device."""

    def is_current(self) -> bool:
        """Whether arrays are made on the device anyway."""

    def taken(self, value: Any) -> Any:
        """A number, or an array of any device, as an array here; itself if it is here."""

    def row_major(self, array: Any) -> Any:
        """A copy in row-major order."""

    def is_writable(self, array: Any) -> bool:
        """Whether its elements may be written to."""

    def borrowed(self, lender: Any, copy: bool | None) -> Any:
        """An array of memory here that an object, or a capsule of it, lends by DLPack; `copy` is passed on to it."""

    def kernel(self, nest: Any) -> Callable[[Sequence[Any], Sequence[Any]], None]:
        """A nest compiled for the device: fills outputs, given inputs; CompileError if there is no code for it."""

    def failure(self, error: Exception, what: str) -> Error | None:
        """The error of this package for one of the device's, met by `what`; None if it is no such error."""

    def computed(self, op: Op, values: Sequence[Any]) -> list[Any] | None:
        """The results of an operator by other means than its body, such as kernels; None if that shall compute them."""

    def has_convolutions(self, dtype: DType) -> bool:
        """Whether convolutions of a dtype are a library's, such as cuDNN's, which no group can be part of."""


class HostLibrary:
    """numpy, for the CPU."""

    device = "cpu"
    array: Any = np.ndarray
    math: Any = numpy_math
    has_elements = True

    def current(self) -> AbstractContextManager[Any]:
        """Nothing: there is one CPU."""
        return nullcontext()

    def is_current(self) -> bool:
        """True: there is one CPU."""
        return True

    def taken(self, value: Any) -> Any:
        """A number, or an array of any device, as a numpy array; itself if it is one."""
        fetch = FETCHES.get(type(value))
        return np.asarray(value) if fetch is None else fetch(value)

    def row_major(self, array: Any) -> Any:
        """A copy in row-major order."""
        return row_major(array)

    def is_writable(self, array: Any) -> bool:
        """Whether its elements may be written to."""
        return bool(array.flags.writeable)

    def borrowed(self, lender: Any, copy: bool | None) -> Any:
        """An array of memory that an object, or a capsule of it, lends by DLPack; `copy` is passed on to it."""
        from .dlpack import VERSION, borrow

        if not hasattr(lender, "__dlpack__"):
            return borrow(lender)
        try:
            capsule = lender.__dlpack__(max_version=VERSION, copy=copy)
        except TypeError:  # it is of the first DLPack, which has no versions
            capsule = lender.__dlpack__()
        return borrow(capsule)

    def kernel(self, nest: Any) -> Callable[[Sequence[Any], Sequence[Any]], None]:
        """A nest compiled for the CPU: fills outputs, given inputs; CompileError if there is no code for it."""
        from ..kernels.codegen import compile_nest

        return compile_nest(nest)

    def failure(self, error: Exception, what: str) -> Error | None:
        """None: numpy has no errors of a device."""
        return None

    def computed(self, op: Op, values: Sequence[Any]) -> list[Any] | None:
        """None: in eager mode numpy computes, and plans have kernels of their own."""
        return None

    def has_convolutions(self, dtype: DType) -> bool:
        """False: numpy has none."""
        return False


def raise_explained(library: ArrayLibrary, error: Exception, what: str) -> None:
    """Raise the error of this package for one of a device, met by `what`, if there is one.

    A frame that kept what it raises in a variable would keep it alive, with all tensors behind it, until the collector
    comes by.
    """
    found = None if isinstance(error, Error) else library.failure(error, what)
    if found is not None:
        try:
            raise found from error
        finally:
            del found


HOST: ArrayLibrary = HostLibrary()
FINDERS: dict[type, Callable[[Any], ArrayLibrary]] = {}
"""The library of an array, by its class, for classes besides numpy's."""
FETCHES: dict[type, Callable[[Any], Any]] = {}
"""The copy of an array for numpy, by its class, likewise."""
OPENERS: dict[str, Callable[[int], ArrayLibrary]] = {}
"""The library of a device, by its kind and number."""


def library_of(array: Any) -> ArrayLibrary:
    """The library that an array belongs to."""
    find = FINDERS.get(type(array))
    return HOST if find is None else find(array)


def library_on(device: str) -> ArrayLibrary:
    """The library of a device that `jit.ir.devices.resolve` has found, such as "cuda:0"."""
    if device == "cpu":
        return HOST
    kind, _, number = device.partition(":")
    return OPENERS[kind](int(number or 0))


def is_writable(array: Any) -> bool:
    """Whether the elements of an array may be written to."""
    return array.flags.writeable if type(array) is np.ndarray else library_of(array).is_writable(array)


def is_array(value: Any) -> bool:
    """Whether this is an array of some library."""
    return isinstance(value, np.ndarray) or type(value) in FINDERS


def contiguous(array: Any) -> Any:
    """An array in row-major order: itself if it lies so."""
    return array if array.flags.c_contiguous else library_of(array).row_major(array)


def add_library(array: type, find: Callable[[Any], ArrayLibrary], fetch: Callable[[Any], Any]) -> None:
    """Let arrays of a class be known from now on."""
    FINDERS[array], FETCHES[array] = find, fetch
