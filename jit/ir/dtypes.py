"""Element types, and ATen's rules for what an operation on several of them computes in."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from contextvars import ContextVar
from typing import Any

import ml_dtypes
import numpy as np

from .errors import DTypeError

package = "jit"
"""The package's name as it stands before those of dtypes, layouts and the like in print: `torch` behind the door."""

# Categories of the promotion lattice, in rising order.
BOOL, INTEGRAL, FLOATING, COMPLEX = range(4)


class DType:
    """An element type, e.g. `jit.float32`: one instance per type, compared by identity.

    Args:
        name: `float32`.
        text: The name in the text of graphs, `Float`.
        numpy: The numpy dtype of its elements.
        category: Its place in promotion: bool, integral, floating or complex.

    >>> float32.itemsize, float32.is_floating_point
    (4, True)
    """

    __slots__ = ("category", "itemsize", "name", "numpy", "text")

    def __init__(self, name: str, text: str, numpy: Any, category: int) -> None:
        self.name = name
        self.text = text
        self.numpy: np.dtype[Any] = np.dtype(numpy)
        self.category = category
        self.itemsize: int = self.numpy.itemsize

    @property
    def is_floating_point(self) -> bool:
        """True for the real floating types."""
        return self.category == FLOATING

    @property
    def is_complex(self) -> bool:
        """True for the complex types."""
        return self.category == COMPLEX

    @property
    def is_signed(self) -> bool:
        """True for the types that hold negative numbers."""
        return self not in (bool_, uint8, uint16, uint32, uint64, uint4)

    @property
    def is_integral(self) -> bool:
        """True for the integer types and bool."""
        return self.category <= INTEGRAL

    @property
    def is_stored(self) -> bool:
        """True for the types that tensors are kept in and cast to and from: no kernels are made for them."""
        return self in STORED

    @property
    def is_narrow(self) -> bool:
        """True for the floats of 8 and 16 bits, which numpy computes in float32 and rounds once per op."""
        return self.category == FLOATING and self.itemsize <= 2

    @property
    def is_half(self) -> bool:
        """True for the 16-bit floats, which compute in float32 and round once per op."""
        return self.category == FLOATING and self.itemsize == 2

    def __repr__(self) -> str:
        return f"{package}.{self.name}"

    def __reduce__(self) -> Any:
        return (by_name, (self.name,))


bool_ = DType("bool", "Bool", np.bool_, BOOL)
uint8 = DType("uint8", "Byte", np.uint8, INTEGRAL)
int8 = DType("int8", "Char", np.int8, INTEGRAL)
int16 = DType("int16", "Short", np.int16, INTEGRAL)
int32 = DType("int32", "Int", np.int32, INTEGRAL)
int64 = DType("int64", "Long", np.int64, INTEGRAL)
float16 = DType("float16", "Half", np.float16, FLOATING)
bfloat16 = DType("bfloat16", "BFloat16", ml_dtypes.bfloat16, FLOATING)
float32 = DType("float32", "Float", np.float32, FLOATING)
float64 = DType("float64", "Double", np.float64, FLOATING)
complex64 = DType("complex64", "ComplexFloat", np.complex64, COMPLEX)
complex128 = DType("complex128", "ComplexDouble", np.complex128, COMPLEX)

int4 = DType("int4", "Int4", ml_dtypes.int4, INTEGRAL)
uint4 = DType("uint4", "UInt4", ml_dtypes.uint4, INTEGRAL)
"""Types of ONNX models alone, which tensors do not hold: they hold such integers as int8 and uint8."""

ALL = (bool_, uint8, int8, int16, int32, int64, float16, bfloat16, float32, float64, complex64, complex128)
"""The types that operators compute in."""

uint16 = DType("uint16", "UInt16", np.uint16, INTEGRAL)
uint32 = DType("uint32", "UInt32", np.uint32, INTEGRAL)
uint64 = DType("uint64", "UInt64", np.uint64, INTEGRAL)
float8_e4m3fn = DType("float8_e4m3fn", "Float8_e4m3fn", ml_dtypes.float8_e4m3fn, FLOATING)
float8_e4m3fnuz = DType("float8_e4m3fnuz", "Float8_e4m3fnuz", ml_dtypes.float8_e4m3fnuz, FLOATING)
float8_e5m2 = DType("float8_e5m2", "Float8_e5m2", ml_dtypes.float8_e5m2, FLOATING)
float8_e5m2fnuz = DType("float8_e5m2fnuz", "Float8_e5m2fnuz", ml_dtypes.float8_e5m2fnuz, FLOATING)
float8_e8m0fnu = DType("float8_e8m0fnu", "Float8_e8m0fnu", ml_dtypes.float8_e8m0fnu, FLOATING)

STORED = (uint16, uint32, uint64, float8_e4m3fn, float8_e4m3fnuz, float8_e5m2, float8_e5m2fnuz, float8_e8m0fnu)
"""The types that tensors are kept in."""
KNOWN = (*ALL, *STORED)
DEFAULT = float32
"""The dtype of Python floats; `set_default` sets it for all threads, so read it as `dtypes.DEFAULT`."""
DEFAULT_HERE: ContextVar[DType] = ContextVar("default_dtype", default=float32)
"""The same, for shortcuts of recordings, which compare the values of such variables."""


FORGET_DTYPES: list[Callable[[], None]] = []
"""Functions that empty what is kept of dtypes computed by these rules."""


def set_default(dtype: DType) -> None:
    """Let Python floats, and tensors that are made without a dtype, be of this one."""
    global DEFAULT
    DEFAULT = dtype
    DEFAULT_HERE.set(dtype)
    for forget in FORGET_DTYPES:
        forget()


_BY_NUMPY = {d.numpy: d for d in KNOWN}
_BY_NAME = {d.name: d for d in KNOWN} | {
    "half": float16, "float": float32, "double": float64, "short": int16, "int": int32, "long": int64,
}  # fmt: skip
BY_TEXT = {d.text: d for d in KNOWN}
_RANK = {d: i for i, d in enumerate(ALL)}


_OF_USERS = 2
"""Numpy's `isbuiltin` of the dtypes of ml_dtypes."""


def number_in(array: Any) -> Any:
    """The only element of an array as a number of Python's; numpy's own `item` gives a number of ml_dtypes's."""
    return array.item() if array.dtype.isbuiltin != _OF_USERS else float(array.reshape(())[()])


def by_name(name: str) -> DType:
    """The type called `name`, e.g. "float32" or "long"."""
    if name not in _BY_NAME:
        raise DTypeError(f"there is no dtype {name!r}; the dtypes are {', '.join(d.name for d in KNOWN)}")
    return _BY_NAME[name]


def from_numpy(dtype: Any) -> DType:
    """The type of a numpy dtype; `DTypeError` for those that tensors cannot hold (strings, records, objects)."""
    found = _BY_NUMPY.get(dtype)
    if found is None:
        found = _BY_NUMPY.get(np.dtype(dtype).newbyteorder("="))
    if found is None:
        raise DTypeError(f"tensors cannot hold numpy's {np.dtype(dtype)}; they hold {', '.join(d.name for d in KNOWN)}")
    return found


def as_dtype(value: Any) -> DType:
    """A DType from a DType, its name, a numpy dtype, or Python's bool, int, float, complex."""
    if isinstance(value, DType):
        return value
    if isinstance(value, str):
        return by_name(value)
    if hasattr(type(value), "__index__") or hasattr(type(value), "__float__"):  # of a traced one nothing is to be asked
        raise DTypeError(f"{type(value).__name__} is not a dtype; pass one such as jit.float32, or its name")
    python = {bool: bool_, int: int64, float: float64, complex: complex128}
    try:
        return python[value] if value in python else from_numpy(value)
    except (TypeError, ValueError) as error:
        raise DTypeError(f"{value!r} is not a dtype; pass one such as jit.float32, or its name") from error


def promote(a: DType, b: DType) -> DType:
    """The smallest type that both go into, by ATen's table.

    Raises:
        DTypeError: One of two different types of one category is there for storage alone.

    >>> promote(int64, float16), promote(uint8, int8), promote(float16, bfloat16)
    (jit.float16, jit.int16, jit.float32)
    """
    if a is b:
        return a
    if a.category != b.category:
        low, high = (a, b) if a.category < b.category else (b, a)
        return complex128 if high is complex64 and low is float64 else high
    if a.is_stored or b.is_stored:
        raise DTypeError(f"{a.name} and {b.name} have no common type; cast one of the tensors to the other's dtype")
    if {a, b} == {float16, bfloat16}:
        return float32
    if uint8 in (a, b):
        other = b if a is uint8 else a
        return int16 if other is int8 else other
    return max(a, b, key=_RANK.__getitem__)


def of_number(value: Any) -> DType:
    """The dtype of a number of Python or numpy."""
    if isinstance(value, (bool, np.bool_)):
        return bool_
    if isinstance(value, (complex, np.complexfloating)):
        return complex128 if DEFAULT is float64 else complex64
    return DEFAULT if isinstance(value, (float, np.floating)) else int64


def result_type(operands: Iterable[tuple[DType | None, int, Any]]) -> DType:
    """The dtype in which an operation on `operands` computes, by ATen's rule.

    Each operand is (dtype, ndim, value); Python numbers come as (None, 0, number). Tensors with dims outrank
    0-dim tensors, which outrank numbers; a lower rank matters only if its category is higher.
    """
    dims: DType | None = None
    zeros: DType | None = None
    numbers: DType | None = None
    for dtype, ndim, value in operands:
        if dtype is None:
            kind = of_number(value)
            numbers = kind if numbers is None else promote(numbers, kind)
        elif ndim:
            dims = dtype if dims is None else promote(dims, dtype)
        else:
            zeros = dtype if zeros is None else promote(zeros, dtype)
    return _combine(_combine(dims, zeros), numbers) or DEFAULT


def _combine(high: DType | None, low: DType | None) -> DType | None:
    if high is None or low is None:
        return high or low
    if low.category <= high.category:
        return high
    if low.category == COMPLEX and high is float64:
        return complex128
    return low


def real_of(dtype: DType) -> DType:
    """The dtype of the real part of a `dtype` number: complex64 gives float32, real types give themselves."""
    return {complex64: float32, complex128: float64}.get(dtype, dtype)


def complex_of(dtype: DType) -> DType:
    """The complex type whose parts are of `dtype`; DTypeError where tensors have none."""
    found = {float32: complex64, float64: complex128}.get(dtype)
    if found is None:
        raise DTypeError(f"there are no complex numbers with parts of {dtype.name}; cast to float32 or float64 first")
    return found


def float_of(dtype: DType) -> DType:
    """The dtype that a function such as `sin` returns for `dtype`: itself, or the default float for integers."""
    return dtype if dtype.category >= FLOATING else DEFAULT
